//! Whether repeats on two kernels differ: the ratio of their costs, where it may lie, and a word.
//!
//! In: the cost per operation of each repeat of both sides. Out: [`Verdict`]. Not here: which
//! repeats belong together.
//!
//! The rule is that of [`compare`](crate::compare): the 95 % interval of the ratio, Welch's, of the
//! means of the logarithms ([`repeats`](durio_stats::repeats)), does not hold 1, and the change is more than
//! 1 %. It is no difference if the interval lies within 1 %; else it is undecided.

use super::between::CostChange;
use durio_stats::least_squares::mean;
use durio_stats::repeats::{Answer, Mean, Shift, scatter, why_open};

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
    /// Why it is undecided.
    pub(super) reason: Option<String>,
}

/// Judges costs above zero, one per repeat; `None` if a side has none, or one that is no figure.
pub(super) fn verdict(costs: [&[f64]; 2]) -> Option<Verdict> {
    let logs = costs.map(|side| side.iter().map(|it| it.ln()).collect::<Vec<_>>());
    let [before, after] = [middle(&logs[0])?, middle(&logs[1])?];
    let shift = Mean::of(&logs[0]).zip(Mean::of(&logs[1])).map(|(a, b)| Shift::between(a, b));
    let (change, reason) = match &shift {
        None => (CostChange::Undecided, Some(single(costs))),
        Some(shift) => word(shift, scatter([&logs[0], &logs[1]])),
    };
    let interval = shift.map(|shift| shift.interval().map(f64::exp));
    let ratio = (after - before).exp();
    Some(Verdict { means: [before.exp(), after.exp()], ratio, interval, change, reason })
}

fn middle(logs: &[f64]) -> Option<f64> {
    mean(logs).filter(|it| it.is_finite())
}

fn single(costs: [&[f64]; 2]) -> String {
    match costs.iter().all(|it| it.len() == 1) {
        true => "one run per side; --repeat N tells".to_owned(),
        false => "one run on one side; --repeat N tells".to_owned(),
    }
}

fn word(shift: &Shift, scatter: Option<f64>) -> (CostChange, Option<String>) {
    match shift.answer(SAME) {
        Answer::Higher => (CostChange::Dearer, None),
        Answer::Lower => (CostChange::Cheaper, None),
        Answer::Same => (CostChange::NoDifference, None),
        Answer::Open => {
            let why = why_open(scatter.map(f64::exp_m1), shift.visible().exp_m1());
            (CostChange::Undecided, Some(why))
        }
    }
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
        // scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95) of SciPy 1.17.
        let costs = |logs: &[f64]| logs.iter().map(|it| it.exp()).collect::<Vec<_>>();
        let found = verdict([&costs(&[0.0, 0.1, 0.2]), &costs(&[1.0, 1.4])]).unwrap();
        let [low, high] = found.interval.unwrap();
        assert!((low.ln() + 0.790_730_639_745_839_3).abs() < 1e-9, "{low}");
        assert!((high.ln() - 2.990_730_639_745_839).abs() < 1e-9, "{high}");
        assert!((found.ratio.ln() - 1.1).abs() < 1e-12);
    }

    #[test]
    fn single_runs_are_not_judged_however_far_apart() {
        let found = verdict([&[1.0], &[5.0]]).unwrap();
        assert!((found.ratio - 5.0).abs() < 1e-9);
        assert_eq!((found.interval, found.change), (None, CostChange::Undecided));
        assert!(found.reason.unwrap().contains("one run per side"));
        let found = verdict([&[1.0, 1.0], &[5.0]]).unwrap();
        assert_eq!(found.change, CostChange::Undecided);
        assert!(found.reason.unwrap().contains("on one side"));
        assert_eq!(verdict([&[], &[1.0]]), None);
        assert_eq!(verdict([&[f64::NAN, 1.0], &[1.0]]), None);
        assert_eq!(verdict([&[0.0], &[1.0]]), None);
    }

    #[test]
    fn what_is_not_shown_is_undecided_and_no_difference_is_shown_too() {
        assert_eq!(change(&[1.0, 1.001, 0.999], &[1.05, 1.051, 1.049]), CostChange::Dearer);
        assert_eq!(change(&[1.05, 1.051, 1.049], &[1.0, 1.001, 0.999]), CostChange::Cheaper);
        assert_eq!(change(&[1.0, 1.001, 0.999], &[1.002, 1.001, 1.0]), CostChange::NoDifference);
        assert_eq!(change(&[2.0, 2.0], &[2.0, 2.0]), CostChange::NoDifference);
        assert_eq!(change(&[2.0, 2.0], &[3.0, 3.0]), CostChange::Dearer);
        let found = verdict([&[1.0, 1.1], &[1.2, 1.3]]).unwrap();
        assert_eq!(found.change, CostChange::Undecided);
        let reason = found.reason.unwrap();
        assert!(reason.starts_with("the repeats scatter by 6.4 %, a change of "), "{reason}");
        // Dearer, but perhaps by less than 1 %.
        assert_eq!(change(&[1.0, 1.0001], &[1.0099, 1.0102]), CostChange::Undecided);
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
                    let change = change(&before, &after);
                    let is_told = matches!(change, CostChange::Cheaper | CostChange::Dearer);
                    told[at] += usize::from(is_told);
                }
            }
            assert!(told[0] <= 60, "{n} repeats of the same differ {} times in 1000", told[0]);
            assert!(told[1] >= found_at_least, "{n} repeats find 10 % {} times", told[1]);
        }
    }
}
