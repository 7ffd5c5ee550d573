//! Many tests at once, and two samples by their ranks.
//!
//! With a thousand tests at 5 % fifty are positive by chance. Holm's procedure keeps the probability
//! of a single false positive at the level; that of Benjamini and Hochberg keeps the share of false
//! ones among the positives there, and finds more.

use std::cmp::Ordering;

use statrs::distribution::{ContinuousCDF, Normal};

use super::least_squares::count;

/// P-values adjusted by Holm's procedure (A simple sequentially rejective multiple test procedure,
/// Scandinavian Journal of Statistics 6, 1979), in the order of the input.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p_values.len()];
    // The first that stands protects all with a larger p, however small theirs are: this keeps the
    // error over all together at the level.
    let mut largest = 0.0_f64;
    for (rank, at) in ascending(p_values).into_iter().enumerate() {
        let left = count(p_values.len() - rank);
        largest = largest.max((p_values[at] * left).min(1.0));
        adjusted[at] = largest;
    }
    adjusted
}

/// P-values adjusted by the procedure of Benjamini and Hochberg (Controlling the false discovery
/// rate, Journal of the Royal Statistical Society B 57, 1995), in the order of the input.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p_values.len()];
    let mut smallest = 1.0_f64;
    for (rank, at) in ascending(p_values).into_iter().enumerate().rev() {
        smallest = smallest.min(p_values[at] * count(p_values.len()) / count(rank + 1));
        adjusted[at] = smallest;
    }
    adjusted
}

fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    order
}

/// Up to this product of the sizes the distribution of ranks is exact.
const EXACT_PAIRS_MAX: usize = 400;

/// The probability of ranks this high or higher if both samples come from the same distribution
/// (Wilcoxon's rank sum test, one-sided): small if `these` are larger than `others`. Exact for small
/// samples without ties, by the normal distribution otherwise. `None` if a sample is empty.
pub fn rank_sum_above(these: &[f64], others: &[f64]) -> Option<f64> {
    if these.is_empty() || others.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = these.iter().map(|&value| (value, true)).collect();
    all.extend(others.iter().map(|&value| (value, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for tied in all.chunk_by(|a, b| a.0.total_cmp(&b.0) == Ordering::Equal) {
        let size = count(tied.len());
        let rank = before + f64::midpoint(size, 1.0);
        rank_sum += rank * count(tied.iter().filter(|entry| entry.1).count());
        ties += size.powi(3) - size;
        before += size;
    }
    let (m, n) = (count(these.len()), count(others.len()));
    // Pairs of which the first is larger; half of a pair that is tied.
    let wins = rank_sum - m * (m + 1.0) / 2.0;
    if ties == 0.0 && these.len() * others.len() <= EXACT_PAIRS_MAX {
        return Some(exact_wins_above(wins, [these.len(), others.len()]));
    }
    let variance = m * n / 12.0 * (m + n + 1.0 - ties / ((m + n) * (m + n - 1.0)));
    // All are equal without a variance, and no order says anything.
    let normal = Normal::new(m * n / 2.0, variance.max(0.0).sqrt()).ok();
    Some(normal.map_or(1.0, |normal| normal.sf(wins - 0.5)))
}

/// The share of all orders of two samples with as many wins or more (Mann and Whitney, Annals of
/// Mathematical Statistics 18, 1947).
fn exact_wins_above(wins: f64, [m, n]: [usize; 2]) -> f64 {
    // The orders with each number of wins are the coefficients of a Gaussian binomial: the product of
    // (1 − x^(n + i)) ÷ (1 − x^i) for i from 1 to m.
    let mut orders = vec![0.0; m * n + 1];
    orders[0] = 1.0;
    for i in 1..=m {
        for at in (n + i..orders.len()).rev() {
            orders[at] -= orders[at - n - i];
        }
        for at in i..orders.len() {
            orders[at] += orders[at - i];
        }
    }
    let as_many = orders.iter().enumerate().filter(|(at, _)| count(*at) >= wins - 0.25);
    as_many.map(|(_, orders)| orders).sum::<f64>() / orders.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(found.iter().zip(expected).all(near), "{found:?} for {expected:?}");
    }

    /// The fifteen p-values of Benjamini and Hochberg's example (1995, section 3.2).
    const MYOCARDIAL: [f64; 15] = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0000,
    ];

    #[test]
    fn holms_procedure_rejects_what_statsmodels_does() {
        // statsmodels.stats.multitest.multipletests(p, 0.05, method='holm').
        let rejected = |p: &[f64]| -> Vec<bool> { holm(p).iter().map(|p| *p <= 0.05).collect() };
        assert_eq!(rejected(&[0.01, 0.04, 0.03, 0.005]), [true, false, false, true]);
        assert_eq!(rejected(&[0.01, 0.04]), [true, true]);
        assert_eq!(rejected(&[0.03, 0.04]), [false, false]);
        assert_eq!(rejected(&[]), [false; 0]);
        // By hand: 4 × 0.005, 3 × 0.01, 2 × 0.03, and no smaller than the one before.
        are_near(&holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        are_near(&holm(&[0.9, 0.8, f64::NAN]), &[1.0; 3]);
    }

    #[test]
    fn published_p_values_are_rejected_as_benjamini_and_hochberg_do() {
        // At 5 %, the paper rejects the three smallest by Bonferroni's method, and Hochberg's, and the
        // four smallest by theirs.
        let rejected = |adjusted: &[f64]| adjusted.iter().filter(|p| **p <= 0.05).count();
        assert_eq!(rejected(&holm(&MYOCARDIAL)), 3);
        let found = benjamini_hochberg(&MYOCARDIAL);
        assert_eq!(rejected(&found), 4);
        // 15 ÷ 4 × 0.0095, and 0.0298 × 15 ÷ 7, which is below 0.0278 × 15 ÷ 6.
        are_near(&found[3..4], &[0.035_625]);
        are_near(&found[5..7], &[0.0298 * 15.0 / 7.0; 2]);
        assert_eq!(found[14], 1.0);
    }

    #[test]
    fn adjusted_values_come_in_the_order_of_the_input() {
        are_near(&benjamini_hochberg(&[0.04, 0.01, 0.9]), &[0.06, 0.03, 0.9]);
        assert_eq!(benjamini_hochberg(&[]), [0.0; 0]);
    }

    #[test]
    fn small_samples_have_exact_ranks() {
        // Hollander and Wolfe, Nonparametric Statistical Methods: permeability of the chorioamnion at
        // term and at 12 to 26 weeks; one-sided p 0.1272, 382 of 3003 orders.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let weeks = [1.15, 0.88, 0.90, 0.74, 1.21];
        are_near(&[rank_sum_above(&term, &weeks).unwrap()], &[382.0 / 3003.0]);
        // By counting all orders: 18 of 126; the highest of all; the lowest of all.
        let found = rank_sum_above(&[3.0, 9.0, 5.0, 8.0], &[1.0, 2.0, 4.0, 6.0, 7.0]);
        are_near(&[found.unwrap()], &[18.0 / 126.0]);
        let (low, high) = ([1.0, 2.0, 3.0], [5.1, 6.2, 7.3, 4.0]);
        are_near(&[rank_sum_above(&high, &low).unwrap()], &[1.0 / 35.0]);
        are_near(&[rank_sum_above(&low, &high).unwrap()], &[1.0]);
    }

    #[test]
    fn ties_and_large_samples_go_by_the_normal_distribution() {
        // By the formula with continuity and ties in Python: 17 of 20 wins, and 562 of 750.
        let near = |found: Option<f64>, expected: f64| {
            // statrs computes erfc to about eleven digits.
            assert!((found.unwrap() / expected - 1.0).abs() < 1e-8, "{found:?} for {expected}");
        };
        let found = rank_sum_above(&[2.0, 3.0, 3.0, 5.0], &[1.0, 2.0, 2.0, 3.0, 1.0]);
        near(found, 0.048_915_834_492_388_26);
        let these: Vec<f64> = (0..25).map(|at| f64::from(at * 3 % 67 + 20)).collect();
        let others: Vec<f64> = (0..30).map(|at| f64::from(at * 5 % 67)).collect();
        near(rank_sum_above(&these, &others), 0.000_808_340_244_721_401);
    }

    #[test]
    fn samples_without_an_order_say_nothing() {
        assert_eq!(rank_sum_above(&[1.0; 3], &[1.0; 4]), Some(1.0));
        assert_eq!((rank_sum_above(&[], &[1.0]), rank_sum_above(&[1.0], &[])), (None, None));
    }

    #[test]
    fn exact_and_normal_agree_where_one_follows_the_other() {
        // 20 × 20 pairs are exact, 20 × 21 are not.
        let these: Vec<f64> = (0..20).map(|at| f64::from(at * 7 % 40) + 6.0).collect();
        let others: Vec<f64> = (0..20).map(|at| f64::from(at * 11 % 40) + 0.5).collect();
        let exact = rank_sum_above(&these, &others).unwrap();
        let more = [others.as_slice(), &[20.25]].concat();
        let normal = rank_sum_above(&these, &more).unwrap();
        assert!((exact / normal - 1.0).abs() < 0.2, "{exact} and {normal}");
    }
}
