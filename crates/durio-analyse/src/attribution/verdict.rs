//! Whether repeats on two kernels differ: the ratio of their costs, where it may lie, and a word.
//!
//! In: the cost per operation of each repeat of both sides. Out: [`Verdict`]. Not here: which
//! repeats belong together.
//!
//! The rule has three parts, and a difference meets all of them. The 95 % interval of the ratio does
//! not hold 1: it is Welch's, of the difference of the means of the logarithms (Welch, The
//! generalization of "Student's" problem when several different population variances are involved,
//! Biometrika 34, 1947), with the degrees of freedom of Satterthwaite, rounded down. No repeat of
//! one side lies among those of the other, which keeps an odd repeat from deciding, as in
//! [`compare`](crate::compare) with two to four repeats. And the change is at least 1 %.

use super::between::CostChange;
use crate::least_squares::{count, mean, student_95};

/// Ratios nearer to one are no difference: counted guests repeat within about 1 %.
const SAME: f64 = 0.01;

/// What repeats of two sides say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// Geometric mean of each side.
    pub(super) means: [f64; 2],
    /// Other ÷ baseline.
    pub(super) ratio: f64,
    /// Its 95 % interval; none with a single repeat on a side.
    pub(super) interval: Option<[f64; 2]>,
    pub(super) change: CostChange,
    /// Why it is no difference, or cannot be told.
    pub(super) reason: Option<String>,
}

/// One side's repeats in logarithms.
struct Side {
    values: Vec<f64>,
    mean: f64,
    /// Of the mean; none with a single repeat.
    variance: Option<f64>,
}

/// Judges costs above zero, one per repeat; `None` if a side has none, or one that is no figure.
pub(super) fn verdict(costs: [&[f64]; 2]) -> Option<Verdict> {
    let [before, after] = [side(costs[0])?, side(costs[1])?];
    let shift = after.mean - before.mean;
    let ratio = shift.exp();
    let interval = half_width(&before, &after).map(|half| [shift - half, shift + half]);
    let (change, reason) = match interval {
        None => (CostChange::CannotTell, Some(single([&before, &after]))),
        Some(interval) => word(ratio, interval, is_apart(&before, &after)),
    };
    let interval = interval.map(|ends| ends.map(f64::exp));
    let means = [before.mean.exp(), after.mean.exp()];
    Some(Verdict { means, ratio, interval, change, reason })
}

fn side(costs: &[f64]) -> Option<Side> {
    let values: Vec<f64> = costs.iter().map(|it| it.ln()).collect();
    let middle = mean(&values).filter(|it| it.is_finite())?;
    let squares = values.iter().map(|it| (it - middle).powi(2)).sum::<f64>();
    let repeats = values.len();
    let variance = (repeats > 1).then(|| squares / count(repeats - 1) / count(repeats));
    Some(Side { values, mean: middle, variance })
}

/// Half of the 95 % interval of the shift.
fn half_width(before: &Side, after: &Side) -> Option<f64> {
    let (a, b) = (before.variance?, after.variance?);
    let share = |variance: f64, side: &Side| variance.powi(2) / count(side.values.len() - 1);
    let of_both = share(a, before) + share(b, after);
    let freedom = match of_both > 0.0 {
        true => (a + b).powi(2) / of_both,
        false => count(before.values.len() + after.values.len() - 2),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "one to repeats")]
    let whole = freedom.max(1.0) as usize;
    Some(student_95(whole)? * (a + b).sqrt())
}

/// True if no repeat of one side lies among those of the other.
fn is_apart(before: &Side, after: &Side) -> bool {
    let ends = |side: &Side| {
        let values = || side.values.iter().copied();
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (a, b) = (ends(before), ends(after));
    a.1 < b.0 || b.1 < a.0
}

fn single(sides: [&Side; 2]) -> String {
    match sides.iter().all(|it| it.values.len() == 1) {
        true => "one run per side; --repeat N tells".to_owned(),
        false => "one run on one side; --repeat N tells".to_owned(),
    }
}

fn word(ratio: f64, interval: [f64; 2], is_apart: bool) -> (CostChange, Option<String>) {
    let is_beyond = interval[0] > 0.0 || interval[1] < 0.0;
    let reason = match (is_beyond, is_apart, (ratio - 1.0).abs() >= SAME) {
        (false, ..) => "chance explains it",
        (true, false, _) => "repeats of both sides overlap",
        (true, true, false) => "below 1 %",
        (true, true, true) if ratio > 1.0 => return (CostChange::Dearer, None),
        (true, true, true) => return (CostChange::Cheaper, None),
    };
    (CostChange::NoDifference, Some(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn change(before: &[f64], after: &[f64]) -> CostChange {
        verdict([before, after]).unwrap().change
    }

    /// About normal: the sum of twelve uniform ones (variance 1).
    fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
        let uniform = |_| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        (0..12).map(uniform).sum::<f64>() - 6.0
    }

    fn repeats(random: &mut Xoshiro256PlusPlus, mean: f64, spread: f64, n: usize) -> Vec<f64> {
        (0..n).map(|_| mean * (normal(random) * spread).exp()).collect()
    }

    #[test]
    fn the_interval_is_welchs() {
        // Logarithms 0, 0.1, 0.2 and 1, 1.4: variances of the means 0.01 / 3 and 0.08 / 2,
        // 0.04333² / (0.00333² / 2 + 0.04² / 1) = 1.17 degrees, so 1: t = 12.706.
        let costs = |logs: &[f64]| logs.iter().map(|it| it.exp()).collect::<Vec<_>>();
        let found = verdict([&costs(&[0.0, 0.1, 0.2]), &costs(&[1.0, 1.4])]).unwrap();
        let half = 12.706 * (0.01_f64 / 3.0 + 0.04).sqrt();
        let [low, high] = found.interval.unwrap();
        assert!((low.ln() - (1.1 - half)).abs() < 1e-9, "{low}");
        assert!((high.ln() - (1.1 + half)).abs() < 1e-9, "{high}");
        assert!((found.ratio.ln() - 1.1).abs() < 1e-12);
    }

    #[test]
    fn single_runs_are_not_judged_however_far_apart() {
        let found = verdict([&[1.0], &[5.0]]).unwrap();
        assert!((found.ratio - 5.0).abs() < 1e-9);
        assert_eq!((found.interval, found.change), (None, CostChange::CannotTell));
        assert!(found.reason.unwrap().contains("one run per side"));
        let found = verdict([&[1.0, 1.0], &[5.0]]).unwrap();
        assert_eq!(found.change, CostChange::CannotTell);
        assert!(found.reason.unwrap().contains("on one side"));
        assert_eq!(verdict([&[], &[1.0]]), None);
        assert_eq!(verdict([&[f64::NAN, 1.0], &[1.0]]), None);
        assert_eq!(verdict([&[0.0], &[1.0]]), None);
    }

    #[test]
    fn each_part_of_the_rule_can_refuse() {
        assert_eq!(change(&[1.0, 1.001, 0.999], &[1.05, 1.051, 1.049]), CostChange::Dearer);
        assert_eq!(change(&[1.05, 1.051, 1.049], &[1.0, 1.001, 0.999]), CostChange::Cheaper);
        let reason = |before: &[f64], after: &[f64]| verdict([before, after]).unwrap().reason;
        assert_eq!(reason(&[1.0, 1.1], &[1.2, 1.3]).unwrap(), "chance explains it");
        assert_eq!(reason(&[1.0, 1.001], &[1.009, 1.0095]).unwrap(), "below 1 %");
        let before = [1.0, 1.01, 1.02, 1.0, 1.01, 1.09];
        let after = [1.08, 1.1, 1.11, 1.1, 1.12, 1.11];
        assert_eq!(reason(&before, &after).unwrap(), "repeats of both sides overlap");
        assert_eq!(change(&[2.0, 2.0], &[2.0, 2.0]), CostChange::NoDifference);
        assert_eq!(change(&[2.0, 2.0], &[3.0, 3.0]), CostChange::Dearer);
    }

    #[test]
    fn equal_kernels_are_seldom_told_apart_and_unequal_ones_mostly_are() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for (n, found_at_least) in [(2, 100), (3, 900), (5, 990)] {
            let mut told = [0, 0];
            for _ in 0..1000 {
                for (at, other) in [1.0, 1.1].into_iter().enumerate() {
                    let before = repeats(&mut random, 1.0, 0.02, n);
                    let after = repeats(&mut random, other, 0.02, n);
                    let is_told = change(&before, &after) != CostChange::NoDifference;
                    told[at] += usize::from(is_told);
                }
            }
            assert!(told[0] <= 60, "{n} repeats of the same differ {} times in 1000", told[0]);
            assert!(told[1] >= found_at_least, "{n} repeats find 10 % {} times", told[1]);
        }
    }
}
