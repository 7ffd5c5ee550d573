//! Repeats against repeats: the shift of their means, and how sure it is.
//!
//! Values are logarithms, so that a shift and its inverse have the same size. The caller knows what
//! the values measure and how large a shift matters.
//!
//! Welch, The generalization of "Student's" problem when several different population variances are
//! involved (Biometrika 34, 1947), with the degrees of freedom of Satterthwaite (Biometrics Bulletin
//! 2, 1946). Both sides may scatter differently; one repeat says nothing of how it scatters.

use crate::stats::least_squares::{count, mean};
use crate::stats::{student_above, student_quantile};

/// Ends of a two-sided 95 % interval, and of a one-sided one.
const TWO_SIDED: f64 = 0.975;
const ONE_SIDED: f64 = 0.95;

/// A shift that can be seen is found in four of five comparisons.
const POWER: f64 = 0.80;

/// No plan has more repeats.
const REPEATS_MAX: usize = 1000;

/// A mean, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    pub value: f64,
    /// Variance of the mean, not of a single repeat.
    pub variance: f64,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Mean {
    /// The mean of repeats; `None` for fewer than two, or if one is not finite.
    pub fn of(repeats: &[f64]) -> Option<Self> {
        let value = mean(repeats).filter(|value| value.is_finite() && repeats.len() > 1)?;
        let squares = repeats.iter().map(|repeat| (repeat - value).powi(2)).sum::<f64>();
        // By n − 1: divided by n, the variance of two repeats would come out half as large as it
        // is.
        let freedom = count(repeats.len() - 1);
        Some(Self { value, variance: squares / freedom / count(repeats.len()), freedom })
    }
}

/// What the interval of a shift in logarithms shows, given a threshold for its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShiftAnswer {
    /// Higher by more than the threshold, and the interval does not reach zero.
    Higher,
    /// Lower by more than the threshold, and the interval does not reach zero.
    Lower,
    /// The interval lies within the threshold on both sides of zero.
    Same,
    /// None of these: the shift is neither shown nor excluded.
    Open,
}

/// How far one mean lies from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The other mean less the baseline's, in logarithms.
    pub value: f64,
    /// Standard error of the shift.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
}

impl Shift {
    /// From `baseline` to `other`.
    pub fn between(baseline: Mean, other: Mean) -> Self {
        let (a, b) = (baseline.variance, other.variance);
        let share = a.powi(2) / baseline.freedom + b.powi(2) / other.freedom;
        // Without scatter on either side the quotient is 0 ÷ 0.
        let freedom = match share > 0.0 {
            true => (a + b).powi(2) / share,
            false => baseline.freedom + other.freedom,
        };
        Self { value: other.value - baseline.value, error: (a + b).sqrt(), freedom }
    }

    /// Half of the two-sided 95 % interval around the shift.
    pub fn half_width(&self) -> f64 {
        self.times_error(TWO_SIDED)
    }

    /// Both ends of that interval.
    pub fn interval(&self) -> [f64; 2] {
        let half = self.half_width();
        [self.value - half, self.value + half]
    }

    /// What the interval says; the threshold is a share, as the effect is.
    pub fn answer(&self, threshold: f64) -> ShiftAnswer {
        let [low, effect, high] =
            [self.interval()[0], self.value, self.interval()[1]].map(f64::exp_m1);
        match (low > 0.0 || high < 0.0, effect > threshold, effect < -threshold) {
            (true, true, _) => ShiftAnswer::Higher,
            (true, _, true) => ShiftAnswer::Lower,
            _ if -threshold <= low && high <= threshold => ShiftAnswer::Same,
            _ => ShiftAnswer::Open,
        }
    }

    /// The true shift lies below the shift plus this in 95 of 100 cases.
    pub fn margin(&self) -> f64 {
        self.times_error(ONE_SIDED)
    }

    /// The smallest true shift that the interval keeps off zero in four of five comparisons.
    pub fn visible(&self) -> f64 {
        // Power tables add two normal quantiles. With the few degrees of freedom of two or three
        // repeats those promise too much, so both are Student's.
        self.times_error(TWO_SIDED) + self.times_error(POWER)
    }

    /// The probability of a shift this high or higher without a true shift.
    pub fn p_above_zero(&self) -> f64 {
        match self.error > 0.0 {
            true => student_above(self.value / self.error, self.freedom).unwrap_or(1.0),
            // Repeats that do not scatter at all: the null engine's.
            false => f64::from(u8::from(self.value <= 0.0)),
        }
    }

    fn times_error(&self, quantile: f64) -> f64 {
        student_quantile(self.freedom, quantile).map_or(f64::INFINITY, |factor| factor * self.error)
    }
}

/// Pooled standard deviation of single repeats; `None` unless a side has two.
pub fn scatter(sides: [&[f64]; 2]) -> Option<f64> {
    pooled_variance(sides).map(|(variance, _)| variance.sqrt())
}

/// Variance of single repeats around the mean of their side, and its degrees of freedom; `None` unless
/// a side has two.
pub fn pooled_variance<'a>(sides: impl IntoIterator<Item = &'a [f64]>) -> Option<(f64, f64)> {
    // Around each side's own mean: around a common one the shift itself would count as scatter.
    let squares = sides.into_iter().filter_map(|side| {
        let mean = Mean::of(side)?;
        Some((mean.variance * count(side.len()) * mean.freedom, mean.freedom))
    });
    let (sum, freedom) = squares.fold((0.0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1));
    (freedom > 0.0).then(|| (sum / freedom, freedom))
}

/// Repeats per side that would show a shift at this scatter; `None` if a thousand are too few.
pub fn repeats_to_see(shift: f64, scatter: f64) -> Option<usize> {
    (2..=REPEATS_MAX).find(|&repeats| {
        let error = scatter * (2.0 / count(repeats)).sqrt();
        Shift { value: 0.0, error, freedom: count(2 * repeats - 2) }.visible() <= shift
    })
}

/// Why an answer is open: how far single repeats scatter, and what could be seen, both as shares.
pub fn why_open(scatter: Option<f64>, visible: f64) -> String {
    let percent = |share: f64| match share < 10.0 {
        true => format!("{:.1} %", share * 100.0),
        false => "more than 1000 %".to_owned(),
    };
    let scatter = scatter.map_or_else(|| "unknown".to_owned(), percent);
    format!("the repeats scatter by {scatter}, a change of {} could be seen", percent(visible))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(a: &[f64], b: &[f64]) -> Shift {
        Shift::between(Mean::of(a).unwrap(), Mean::of(b).unwrap())
    }

    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
    }

    #[test]
    fn intervals_and_p_values_are_those_of_scipy() {
        // scipy.stats.ttest_ind(b, a, equal_var=False) of SciPy 1.17: df, both ends of
        // confidence_interval(0.95), and pvalue with alternative='greater'.
        let a = [0.02, -0.01, 0.005, 0.03, -0.02];
        let found = between(&a, &[0.09, 0.13, 0.07, 0.11, 0.1]);
        is_near(found.freedom, 7.947_750_362_844_703);
        is_near(found.value - found.half_width(), 0.063_599_024_911_334_19);
        is_near(found.value + found.half_width(), 0.126_400_975_088_665_82);
        is_near(found.p_above_zero(), 5.902_329_244_774_396e-5);
        let found = between(&[4.60, 4.61], &[4.70, 4.74]);
        is_near(found.freedom, 1.124_513_618_677_059_2);
        is_near(found.value - found.half_width(), -0.087_433_789_069_882_25);
        is_near(found.p_above_zero(), 0.093_573_564_718_677_14 / 2.0);
    }

    #[test]
    fn repeats_that_do_not_scatter_decide_and_a_single_one_does_not() {
        let found = between(&[1.0, 1.0], &[1.1, 1.1]);
        assert_eq!((found.half_width(), found.p_above_zero()), (0.0, 0.0));
        assert!((between(&[1.0, 1.0], &[1.0, 1.0]).p_above_zero() - 1.0).abs() < 1e-12);
        assert_eq!((Mean::of(&[1.0]), Mean::of(&[1.0, f64::NAN])), (None, None));
    }

    #[test]
    fn what_is_not_shown_is_open_and_not_the_same() {
        let answer = |a: &[f64], b: &[f64]| between(a, b).answer(0.03);
        assert_eq!(answer(&[0.0, 0.001, 0.002], &[0.1, 0.101, 0.102]), ShiftAnswer::Higher);
        assert_eq!(answer(&[0.1, 0.101, 0.102], &[0.0, 0.001, 0.002]), ShiftAnswer::Lower);
        assert_eq!(answer(&[0.0, 0.001, 0.002], &[0.001, 0.002, 0.003]), ShiftAnswer::Same);
        assert_eq!(answer(&[0.0, 0.05, 0.1], &[0.01, 0.04, 0.11]), ShiftAnswer::Open);
        // Below the threshold, and the interval is not within it.
        assert_eq!(answer(&[0.0, 0.001, 0.002], &[0.028, 0.029, 0.030]), ShiftAnswer::Open);
    }

    #[test]
    fn a_shift_is_seen_with_as_many_repeats_as_power_tables_say() {
        // Two-sided 5 %, power 80 %: 17 per side for one standard deviation (Cohen, Statistical
        // Power Analysis for the Behavioral Sciences, 2nd edition, table 2.4.1), 64 for half of one.
        assert_eq!(repeats_to_see(1.0, 1.0), Some(17));
        assert!(repeats_to_see(0.5, 1.0).is_some_and(|repeats| (63..=64).contains(&repeats)));
        assert_eq!(repeats_to_see(0.001, 1.0), None);
        assert_eq!(repeats_to_see(0.05, 0.0), Some(2));
    }

    #[test]
    fn the_scatter_is_that_of_both_sides_without_their_shift() {
        let found = scatter([&[0.0, 0.2], &[5.0, 5.1, 5.2]]).unwrap();
        assert!((found - (0.04_f64 / 3.0).sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(scatter([&[0.0], &[5.0]]), None);
    }

    #[test]
    fn a_mean_has_the_variance_of_a_mean_and_one_degree_less_than_repeats() {
        // By hand: squares 9 + 1 + 4 + 0 = 14, by 3 and by 4.
        let found = Mean::of(&[1.0, 5.0, 2.0, 4.0]).unwrap();
        assert_eq!((found.value, found.freedom), (3.0, 3.0));
        is_near(found.variance, 10.0 / 3.0 / 4.0);
    }

    #[test]
    fn a_shift_is_the_other_less_the_baseline_with_the_error_of_both() {
        let baseline = Mean { value: 5.0, variance: 9.0, freedom: 4.0 };
        let other = Mean { value: 7.5, variance: 16.0, freedom: 8.0 };
        let found = Shift::between(baseline, other);
        assert_eq!((found.value, found.error), (2.5, 5.0));
        // 25² ÷ (9² ÷ 4 + 16² ÷ 8).
        is_near(found.freedom, 625.0 / 52.25);
        let still = |freedom| Mean { value: 1.0, variance: 0.0, freedom };
        is_near(Shift::between(still(2.0), still(5.0)).freedom, 7.0);
    }

    /// Quantiles 0.975, 0.95 and 0.8 for 8 degrees of freedom by scipy.stats.t.ppf of SciPy.
    #[test]
    fn intervals_margins_and_what_is_visible_are_quantiles_times_the_error() {
        let shift = Shift { value: 10.0, error: 2.0, freedom: 8.0 };
        is_near(shift.interval()[0], 10.0 - 2.0 * 2.306_004_135_204_166);
        is_near(shift.interval()[1], 10.0 + 2.0 * 2.306_004_135_204_166);
        is_near(shift.margin(), 2.0 * 1.859_548_037_530_897_3);
        is_near(shift.visible(), 2.0 * (2.306_004_135_204_166 + 0.888_889_517_767_020_2));
    }

    #[test]
    fn an_effect_of_just_the_threshold_is_the_same_and_an_interval_that_touches_zero_is_open() {
        let exact = |value| Shift { value, error: 0.0, freedom: 8.0 };
        let threshold = 0.03_f64.exp_m1();
        assert_eq!(exact(0.03).answer(threshold), ShiftAnswer::Same);
        assert_eq!(exact(0.031).answer(threshold), ShiftAnswer::Higher);
        let below = -(-0.03_f64).exp_m1();
        assert_eq!(exact(-0.03).answer(below), ShiftAnswer::Same);
        assert_eq!(exact(-0.031).answer(below), ShiftAnswer::Lower);
        let half = Shift { value: 0.0, error: 0.1, freedom: 8.0 }.half_width();
        let touching = |value| Shift { value, error: 0.1, freedom: 8.0 }.answer(0.01);
        assert_eq!((touching(half), touching(-half)), (ShiftAnswer::Open, ShiftAnswer::Open));
        assert_eq!(touching(half * 1.01), ShiftAnswer::Higher);
        assert_eq!(touching(-half * 1.01), ShiftAnswer::Lower);
    }

    #[test]
    fn as_many_repeats_as_needed_and_at_most_a_thousand() {
        // One fewer per side does not show it.
        for shift in [0.2, 0.35, 1.5, 4.0] {
            let repeats = repeats_to_see(shift, 1.0).unwrap();
            let visible = |repeats: usize| {
                let error = (2.0 / count(repeats)).sqrt();
                Shift { value: 0.0, error, freedom: count(2 * repeats - 2) }.visible()
            };
            assert!(visible(repeats) <= shift, "{shift}: {repeats}");
            assert!(repeats == 2 || visible(repeats - 1) > shift, "{shift}: {repeats}");
        }
        // 1570 by Cohen's table for a tenth of a standard deviation.
        assert!(repeats_to_see(0.13, 1.0).is_some_and(|repeats| (900..=1000).contains(&repeats)));
        assert_eq!(repeats_to_see(0.12, 1.0), None);
    }

    #[test]
    fn an_open_answer_says_what_scatters_and_what_could_be_seen() {
        let said = why_open(Some(0.0421), 0.137);
        assert_eq!(said, "the repeats scatter by 4.2 %, a change of 13.7 % could be seen");
        let said = why_open(None, 10.0);
        assert_eq!(
            said,
            "the repeats scatter by unknown, a change of more than 1000 % could be seen"
        );
        let said = why_open(Some(9.999), 9.99);
        assert_eq!(said, "the repeats scatter by 999.9 %, a change of 999.0 % could be seen");
    }

    #[test]
    fn the_chance_of_a_higher_shift_falls_with_the_shift() {
        let chance = |value| Shift { value, error: 1.0, freedom: 8.0 }.p_above_zero();
        is_near(chance(0.0), 0.5);
        is_near(chance(2.306_004_135_204_166), 0.025);
        is_near(chance(-2.306_004_135_204_166), 0.975);
        assert_eq!(Shift { value: -1.0, error: 0.0, freedom: 8.0 }.p_above_zero(), 1.0);
    }
}
