//! Repeats against repeats by their ranks: no assumption about how runs scatter.
//!
//! In: one value per repeat and side. Out: the Hodges-Lehmann shift, its interval, and the
//! Mann-Whitney p-value. Not here: what the values are.
//!
//! Hodges and Lehmann, Estimates of location based on rank tests (Ann. Math. Stat. 34, 1963); Mann
//! and Whitney, On a test of whether one of two random variables is stochastically larger (Ann.
//! Math. Stat. 18, 1947). The p-value is that of the permutations of the ranks at hand, so ties
//! need no correction.

use super::normal::{NORMAL_97_5, normal_below};

/// Above this many repeats on both sides together the normal approximation serves.
const EXACT_MAX: usize = 60;

/// One side's repeats against the other's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    /// Median of all differences, other − baseline.
    pub(super) shift: f64,
    /// Both ends of the interval that has at least 95 % confidence; infinite where there are too
    /// few repeats for one.
    pub(super) interval: (f64, f64),
    /// Two-sided p-value of no shift.
    pub(super) p: f64,
}

/// The shift from `baseline` to `other`; none if either is empty.
pub(super) fn shift(baseline: &[f64], other: &[f64]) -> Option<Shift> {
    let differences = other.iter().flat_map(|b| baseline.iter().map(move |a| b - a));
    let mut differences: Vec<f64> = differences.collect();
    differences.sort_by(f64::total_cmp);
    let last = differences.len().checked_sub(1)?;
    let cut = critical(baseline.len(), other.len());
    let ends = cut.map(|cut| (differences.get(cut), differences.get(last.saturating_sub(cut))));
    let interval = match ends {
        Some((Some(&low), Some(&high))) => (low, high),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    Some(Shift { shift: median_of_sorted(&differences)?, interval, p: p_value(baseline, other) })
}

/// The median of values in rising order.
pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// How many differences to leave out at either end: the largest u with 2 P(U ≤ u) ≤ 5 %; none if
/// even the outermost differences are too likely.
fn critical(m: usize, n: usize) -> Option<usize> {
    if m + n > EXACT_MAX {
        let (m, n) = (precise(m), precise(n));
        let cut = m * n / 2.0 - NORMAL_97_5 * (m * n * (m + n + 1.0) / 12.0).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most m n"
        )]
        return Some(cut.max(0.0).floor() as usize);
    }
    // Without ties the doubled ranks are 2, 4, 6, …
    let ranks: Vec<usize> = (1..=m + n).map(|rank| 2 * rank).collect();
    let ways = ways_of_sum(&ranks, n);
    let all: f64 = ways.iter().sum();
    let smallest = n * (n + 1);
    let (mut below, mut cut) = (0.0, None);
    for u in 0..=m * n {
        below += ways.get(smallest + 2 * u).copied().unwrap_or(0.0);
        if 2.0 * below > 0.05 * all {
            break;
        }
        cut = Some(u);
    }
    cut
}

/// The share of the assignments of ranks to sides in which the other side's rank sum is as far
/// from its mean as it is here.
fn p_value(baseline: &[f64], other: &[f64]) -> f64 {
    let ranks = doubled_ranks(baseline, other);
    let others = ranks.get(baseline.len()..).unwrap_or_default();
    let (m, n) = (baseline.len(), other.len());
    let mean = n * (m + n + 1);
    let distance = others.iter().sum::<usize>().abs_diff(mean);
    if m + n > EXACT_MAX {
        return normal_p(distance, m, n);
    }
    let ways = ways_of_sum(&ranks, n);
    let as_far = ways.iter().enumerate().filter(|(sum, _)| sum.abs_diff(mean) >= distance);
    as_far.map(|(_, ways)| ways).sum::<f64>() / ways.iter().sum::<f64>()
}

/// With a correction for continuity.
fn normal_p(doubled_distance: usize, m: usize, n: usize) -> f64 {
    let (m, n) = (precise(m), precise(n));
    let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
    let distance = (precise(doubled_distance) / 2.0 - 0.5).max(0.0);
    (2.0 * normal_below(-distance / deviation)).min(1.0)
}

/// Twice the rank of each value, baseline first; equal values share the mean of their ranks.
fn doubled_ranks(baseline: &[f64], other: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = baseline.iter().chain(other).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|it| it.total_cmp(value).is_lt()).count();
        let equal = all.iter().filter(|it| it.total_cmp(value).is_eq()).count();
        2 * below + equal + 1
    };
    all.iter().map(rank).collect()
}

/// How many ways there are to choose `choose` of the ranks, by their sum.
fn ways_of_sum(ranks: &[usize], choose: usize) -> Vec<f64> {
    let sum_max: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; sum_max + 1]; choose + 1];
    if let Some(way) = ways.first_mut().and_then(|none| none.first_mut()) {
        *way = 1.0;
    }
    for &rank in ranks {
        for chosen in (0..choose).rev() {
            let (fewer, more) = ways.split_at_mut(chosen + 1);
            let (Some(from), Some(to)) = (fewer.last(), more.first_mut()) else { continue };
            for (to, from) in to.iter_mut().skip(rank).zip(from) {
                *to += from;
            }
        }
    }
    ways.pop().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a number of repeats")]
fn precise(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_critical_values_are_those_of_the_published_tables() {
        // Two-sided 5 %: the largest U that rejects.
        let table = [(4, 4, 0), (5, 5, 2), (5, 8, 6), (6, 6, 5), (8, 8, 13), (10, 10, 23)];
        for (m, n, value) in table {
            assert_eq!(critical(m, n), Some(value), "{m} against {n}");
            assert_eq!(critical(n, m), Some(value), "{n} against {m}");
        }
        assert_eq!(critical(3, 3), None);
        assert_eq!(critical(20, 20), Some(127));
    }

    #[test]
    fn separate_sides_have_the_smallest_p_value_there_is() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        let found = shift(&a, &b).unwrap();
        assert!((found.p - 2.0 / 252.0).abs() < 1e-12, "{found:?}");
        assert!((found.shift - 5.0).abs() < 1e-12);
        assert_eq!(found.interval, (2.0, 8.0));
        let back = shift(&b, &a).unwrap();
        assert_eq!((back.shift, back.interval, back.p), (-5.0, (-8.0, -2.0), found.p));
    }

    #[test]
    fn equal_values_show_nothing() {
        let found = shift(&[7.0; 5], &[7.0; 6]).unwrap();
        assert_eq!((found.shift, found.interval), (0.0, (0.0, 0.0)));
        assert!((found.p - 1.0).abs() < 1e-12);
        assert!(shift(&[], &[1.0]).is_none());
    }

    #[test]
    fn too_few_repeats_have_no_interval() {
        let found = shift(&[1.0, 2.0], &[8.0, 9.0]).unwrap();
        assert_eq!(found.interval, (f64::NEG_INFINITY, f64::INFINITY));
        assert!((found.p - 2.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn many_repeats_agree_with_the_exact_distribution() {
        let side = |count: u32, offset: f64| -> Vec<f64> {
            (0..count).map(|it| f64::from(it * 37 % 101) + offset).collect()
        };
        let (exact, near) = (
            shift(&side(30, 0.0), &side(30, 12.3)).unwrap(),
            normal_p_of(&side(30, 0.0), &side(30, 12.3)),
        );
        assert!((exact.p - near).abs() < 0.005, "{} against {near}", exact.p);
        let many = shift(&side(40, 0.0), &side(40, 60.3)).unwrap();
        assert!(many.p < 1e-4 && many.interval.0 > 0.0, "{many:?}");
    }

    fn normal_p_of(a: &[f64], b: &[f64]) -> f64 {
        let ranks = doubled_ranks(a, b);
        let sum: usize = ranks[a.len()..].iter().sum();
        normal_p(sum.abs_diff(b.len() * (a.len() + b.len() + 1)), a.len(), b.len())
    }
}
