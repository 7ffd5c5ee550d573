//! Repeats against repeats: the shift of their means, and how sure it is.
//!
//! In: figures of repeats in logarithms, so that a shift and its inverse are one and the same. Out:
//! [`Shift`]. Not here: what the figures are of, and how large a shift matters.
//!
//! Welch, The generalization of "Student's" problem when several different population variances are
//! involved (Biometrika 34, 1947), with the degrees of freedom of Satterthwaite (Biometrics Bulletin
//! 2, 1946). Both sides may scatter differently; one repeat says nothing of how it scatters.

use crate::least_squares::{count, mean};
use crate::student;

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
    /// The mean itself.
    pub value: f64,
    /// Of the mean, not of a single figure.
    pub variance: f64,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Mean {
    /// The mean of repeats; `None` of fewer than two, or if one is no figure.
    pub fn of(repeats: &[f64]) -> Option<Self> {
        let value = mean(repeats).filter(|it| it.is_finite() && repeats.len() > 1)?;
        let squares = repeats.iter().map(|it| (it - value).powi(2)).sum::<f64>();
        // By n − 1: divided by n, the variance of two repeats would come out half as large as it
        // is.
        let freedom = count(repeats.len() - 1);
        Some(Self { value, variance: squares / freedom / count(repeats.len()), freedom })
    }
}

/// What an interval says of a shift in logarithms, beside a threshold for its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Higher by more than the threshold, and the interval does not reach zero.
    Higher,
    /// Lower by more than the threshold, and the interval does not reach zero.
    Lower,
    /// The interval lies within the threshold on both sides of zero.
    Same,
    /// None of these: what is not shown is not therefore absent.
    Open,
}

/// How far one mean lies from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Other − baseline.
    pub value: f64,
    /// Its standard error.
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
    pub fn answer(&self, threshold: f64) -> Answer {
        let [low, effect, high] =
            [self.interval()[0], self.value, self.interval()[1]].map(f64::exp_m1);
        match (low > 0.0 || high < 0.0, effect > threshold, effect < -threshold) {
            (true, true, _) => Answer::Higher,
            (true, _, true) => Answer::Lower,
            _ if -threshold <= low && high <= threshold => Answer::Same,
            _ => Answer::Open,
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

    /// How probable a shift as high as this, or higher, is if there is none.
    pub fn p_above_zero(&self) -> f64 {
        match self.error > 0.0 {
            true => student::above(self.value / self.error, self.freedom).unwrap_or(1.0),
            // Repeats that do not scatter at all: the null engine's.
            false => f64::from(u8::from(self.value <= 0.0)),
        }
    }

    fn times_error(&self, quantile: f64) -> f64 {
        student::quantile(self.freedom, quantile).map_or(f64::INFINITY, |it| it * self.error)
    }
}

/// Pooled standard deviation of single repeats; `None` unless a side has two.
pub fn scatter(sides: [&[f64]; 2]) -> Option<f64> {
    let means = sides.map(Mean::of);
    // Around each side's own mean: around a common one the shift itself would count as scatter.
    let squares = means.iter().zip(sides).filter_map(|(mean, side)| {
        let mean = (*mean)?;
        Some((mean.variance * count(side.len()) * mean.freedom, mean.freedom))
    });
    let (sum, freedom) = squares.fold((0.0, 0.0), |all, it| (all.0 + it.0, all.1 + it.1));
    (freedom > 0.0).then(|| (sum / freedom).sqrt())
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
        assert_eq!(answer(&[0.0, 0.001, 0.002], &[0.1, 0.101, 0.102]), Answer::Higher);
        assert_eq!(answer(&[0.1, 0.101, 0.102], &[0.0, 0.001, 0.002]), Answer::Lower);
        assert_eq!(answer(&[0.0, 0.001, 0.002], &[0.001, 0.002, 0.003]), Answer::Same);
        assert_eq!(answer(&[0.0, 0.05, 0.1], &[0.01, 0.04, 0.11]), Answer::Open);
        // Below the threshold, and the interval is not within it.
        assert_eq!(answer(&[0.0, 0.001, 0.002], &[0.028, 0.029, 0.030]), Answer::Open);
    }

    #[test]
    fn a_shift_is_seen_with_as_many_repeats_as_power_tables_say() {
        // Two-sided 5 %, power 80 %: 17 per side for one standard deviation (Cohen, Statistical
        // Power Analysis for the Behavioral Sciences, 2nd edition, table 2.4.1), 64 for half of one.
        assert_eq!(repeats_to_see(1.0, 1.0), Some(17));
        assert!(repeats_to_see(0.5, 1.0).is_some_and(|it| (63..=64).contains(&it)));
        assert_eq!(repeats_to_see(0.001, 1.0), None);
        assert_eq!(repeats_to_see(0.05, 0.0), Some(2));
    }

    #[test]
    fn the_scatter_is_that_of_both_sides_without_their_shift() {
        let found = scatter([&[0.0, 0.2], &[5.0, 5.1, 5.2]]).unwrap();
        assert!((found - (0.04_f64 / 3.0).sqrt()).abs() < 1e-12, "{found}");
        assert_eq!(scatter([&[0.0], &[5.0]]), None);
    }
}
