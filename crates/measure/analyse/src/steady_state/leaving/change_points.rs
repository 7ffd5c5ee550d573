//! Lasting changes of a series, and whether they are a drift.
//!
//! A series of at most a few hundred values gives [`Change`]s and a [`Drift`].
//!
//! Pettitt's test (Applied Statistics 28, 1979) asks of every place how the ranks before it differ
//! from those after it: U(t) = 2 Σ ranks up to t − t(n + 1). With K the largest |U|, a series
//! without a change exceeds it with a probability of about 2 exp(−6K² ÷ (n³ + n²)). It uses ranks,
//! so outliers, units and the shape of the noise do not matter. It assumes independent values;
//! neighbouring intervals of a run are not. K is therefore reduced by √((1 − ρ) ÷ (1 + ρ)), the
//! loss of information at a correlation ρ of neighbours.

use serde::{Deserialize, Serialize};

use super::{CHANGE_MIN, Drift, distance};
use durio_base::stats::least_squares::{count, median};

/// A lasting change of the level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The first interval of the new level, from zero.
    pub at_interval: usize,
    /// Median of the stretch before.
    pub before_median: f64,
    /// Median of the stretch after, to the next change.
    pub after_median: f64,
    /// Probability of such a difference without a change; an approximation, for small values.
    pub probability: f64,
}

/// A change is reported if its probability is below this.
// One run in a thousand without a change would be reported, and fewer by the smallest change that
// is.
const PROBABILITY_MAX: f64 = 0.001;

/// A stretch shorter than this is a dip, not a level.
const STRETCH_MIN: usize = 5;

/// Splits of splits: a series with more changes than this has no levels.
const CHANGES_MAX: usize = 16;

/// A place where a stretch may be split.
#[derive(Debug, Clone, Copy)]
struct SplitPoint {
    at: usize,
    probability: f64,
}

/// The lasting changes; each value stands for `batch` intervals.
pub(super) fn changes(series: &[f64], batch: usize) -> Vec<Change> {
    let mut splits: Vec<SplitPoint> = Vec::new();
    let mut stretches = vec![(0, series.len())];
    let correlation = neighbours_correlation(series);
    let information = (1.0 - correlation) / (1.0 + correlation);
    while let Some((from, to)) = stretches.pop() {
        let found = series.get(from..to).and_then(|stretch| split(stretch, information));
        if let Some(found) = found.filter(|_| splits.len() < CHANGES_MAX) {
            splits.push(SplitPoint { at: from + found.at, ..found });
            stretches.extend([(from, from + found.at), (from + found.at, to)]);
        }
    }
    splits.sort_by_key(|split| split.at);
    described(series, batch, &splits)
}

/// The splits with the levels on both sides; those that change the level too little are dropped.
fn described(series: &[f64], batch: usize, splits: &[SplitPoint]) -> Vec<Change> {
    let ends = splits.iter().skip(1).map(|split| split.at).chain([series.len()]);
    let mut from = 0;
    let mut changes = Vec::new();
    for (split, end) in splits.iter().zip(ends) {
        let level = |from: usize, to: usize| series.get(from..to).and_then(median);
        let (Some(before), Some(after)) = (level(from, split.at), level(split.at, end)) else {
            continue;
        };
        // A split that is dropped joins its stretches: the next is compared with the level before
        // both.
        if !is_change(before, after) {
            continue;
        }
        changes.push(Change {
            at_interval: split.at * batch,
            before_median: before,
            after_median: after,
            probability: split.probability,
        });
        from = split.at;
    }
    changes
}

fn is_change(before: f64, after: f64) -> bool {
    (after - before).abs() >= CHANGE_MIN * before && after != before
}

/// The likeliest place of a change; `information` is the share that correlation leaves.
fn split(stretch: &[f64], information: f64) -> Option<SplitPoint> {
    if stretch.len() < 2 * STRETCH_MIN {
        return None;
    }
    let (at, largest) = largest_difference(stretch)?;
    let n = count(stretch.len());
    let exponent = 6.0 * largest * largest * information / (n * n * n + n * n);
    let probability = (2.0 * (-exponent).exp()).min(1.0);
    (probability < PROBABILITY_MAX).then_some(SplitPoint { at, probability })
}

/// Place and size of the largest |U|, neither stretch shorter than the least.
fn largest_difference(stretch: &[f64]) -> Option<(usize, f64)> {
    let middle = count(stretch.len()) + 1.0;
    let mut sum = 0.0;
    let mut found: Option<(usize, f64)> = None;
    for (index, rank) in ranks(stretch).into_iter().enumerate() {
        sum += 2.0 * rank - middle;
        let at = index + 1;
        let is_inside = (STRETCH_MIN..=stretch.len() - STRETCH_MIN).contains(&at);
        if is_inside && found.is_none_or(|(_, largest)| sum.abs() > largest) {
            found = Some((at, sum.abs()));
        }
    }
    found
}

/// Ranks from one; equal values share their mean rank.
fn ranks(stretch: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = stretch.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut ranks = vec![0.0; stretch.len()];
    let mut below = 0;
    for equals in order.chunk_by(|a, b| a.1 == b.1) {
        let rank = count(below) + (count(equals.len()) + 1.0) / 2.0;
        for (index, _) in equals {
            if let Some(place) = ranks.get_mut(*index) {
                *place = rank;
            }
        }
        below += equals.len();
    }
    ranks
}

/// Distance at which values are taken for independent.
const FAR: usize = 10;

/// Correlation of neighbours, 0 to 0.99: 1 − (scatter of differences of neighbours ÷ scatter of
/// differences of values far apart)², since those are 2σ²(1 − ρ) and about 2σ².
// Scatters are medians, so that a few differences across a change do not count, nor does a slope.
fn neighbours_correlation(series: &[f64]) -> f64 {
    let apart = |lag: usize| -> f64 {
        let pairs = series.iter().zip(series.iter().skip(lag));
        scatter(&pairs.map(|(a, b)| b - a).collect::<Vec<f64>>())
    };
    let far = apart(FAR.min(series.len() / 2));
    if far > 0.0 { (1.0 - (apart(1) / far).powi(2)).clamp(0.0, 0.99) } else { 0.0 }
}

/// Median distance from the median.
fn scatter(differences: &[f64]) -> f64 {
    let centre = median(differences).unwrap_or_default();
    let distances: Vec<f64> =
        differences.iter().map(|difference| (difference - centre).abs()).collect();
    median(&distances).unwrap_or_default()
}

/// The drift, if there is a change and a line leaves less of the series than one step does.
pub(super) fn drift(series: &[f64], batch: usize, changes: &[Change]) -> Option<Drift> {
    let first = changes.first()?;
    if changes.iter().any(|change| is_turn(first, change)) {
        return None;
    }
    let (start, slope) = theil_sen(series)?;
    let line_leaves = distance(series, |at| start + slope * count(at));
    let step_leaves =
        changes.iter().map(|change| step_distance(series, change.at_interval / batch));
    let total_share = slope * (count(series.len()) - 1.0) / start;
    let step_leaves = step_leaves.fold(f64::INFINITY, f64::min);
    let points = count(series.len());
    // A step has a place and two levels: one parameter more than a line (Schwarz' criterion for
    // Laplace's distribution).
    let is_drift = line_leaves <= step_leaves * (points.ln() / (2.0 * points)).exp()
        && total_share.is_finite()
        && total_share.abs() >= CHANGE_MIN;
    is_drift.then(|| Drift { per_interval: slope / count(batch), total_share })
}

/// Whether two changes go different ways.
fn is_turn(a: &Change, b: &Change) -> bool {
    (a.after_median > a.before_median) != (b.after_median > b.before_median)
}

fn step_distance(series: &[f64], at: usize) -> f64 {
    let (before, after) = series.split_at(at.min(series.len()));
    let (low, high) = (median(before).unwrap_or(0.0), median(after).unwrap_or(0.0));
    distance(series, |index| if index < at { low } else { high })
}

/// Start and slope: the median slope of all pairs, and the median of the rest.
fn theil_sen(series: &[f64]) -> Option<(f64, f64)> {
    let pairs = series.iter().enumerate().flat_map(|(i, a)| {
        let later = series.iter().enumerate().skip(i + 1);
        later.map(move |(j, b)| (b - a) / count(j - i))
    });
    let slope = median(&pairs.collect::<Vec<f64>>())?;
    let rest = series.iter().enumerate().map(|(index, figure)| figure - slope * count(index));
    let start = median(&rest.collect::<Vec<f64>>())?;
    Some((start, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_equal_figures_are_shared() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
    }

    #[test]
    fn a_clean_step_has_the_published_probability() {
        // 20 and 20 figures, all ranks apart: K = 400, p ≈ 2 exp(−6 × 400² ÷ (40³ + 40²)).
        let level = |i: i32| if i < 20 { 10.0 } else { 5.0 };
        let step: Vec<f64> = (0..40).map(|i| level(i) + f64::from(i * 7 % 20) / 100.0).collect();
        assert_eq!(largest_difference(&step), Some((20, 400.0)));
        let found = split(&step, 1.0).unwrap();
        let published = 2.0 * (-960_000.0_f64 / 65_600.0).exp();
        assert!((found.probability / published - 1.0).abs() < 1e-9, "{found:?}");
        assert!(split(&step, 0.5).is_none(), "half of the information is not enough");
    }

    #[test]
    fn the_correlation_of_neighbours_does_not_see_a_step_or_a_slope() {
        // Figures that repeat after 7, 11 and 13 places: as good as independent.
        let free = |i: u32| f64::from(i * i % 7 + i * i * i % 11 + i * 5 % 13);
        let plain: Vec<f64> = (0..300).map(free).collect();
        let step: Vec<f64> =
            (0..300).map(|i| free(i) + if i < 120 { 100.0 } else { 0.0 }).collect();
        let slope: Vec<f64> = (0..300).map(|i| free(i) + f64::from(i)).collect();
        for series in [&plain, &step, &slope] {
            assert!(neighbours_correlation(series) < 0.3, "{}", neighbours_correlation(series));
        }
        let slow: Vec<f64> = (0..300).map(|i| (f64::from(i) / 10.0).sin()).collect();
        assert!(neighbours_correlation(&slow) > 0.9);
        assert_eq!(neighbours_correlation(&[5.0; 20]), 0.0);
    }

    #[test]
    fn the_median_slope_does_not_mind_a_wild_figure() {
        let mut line: Vec<f64> = (0..50).map(|i| 100.0 + 2.0 * f64::from(i)).collect();
        line[7] = 1e9;
        assert_eq!(theil_sen(&line), Some((100.0, 2.0)));
    }

    #[test]
    fn one_in_a_thousand_is_the_bound_of_chance() {
        // 2 exp(−6 × 400² ÷ (40³ + 40²) × information) is 0.001 at 0.5194.
        let level = |i: i32| if i < 20 { 10.0 } else { 5.0 };
        let step: Vec<f64> = (0..40).map(|i| level(i) + f64::from(i * 7 % 20) / 100.0).collect();
        let is_found = |information| split(&step, information).is_some();
        assert_eq!([is_found(0.519), is_found(0.520)], [false, true]);
    }

    #[test]
    fn a_level_is_five_intervals_long() {
        let place = |at: usize| {
            let step: Vec<f64> = (0..20).map(|i| if i < at { 1.0 } else { 2.0 }).collect();
            largest_difference(&step).unwrap().0
        };
        assert_eq!([place(4), place(5), place(15), place(16)], [5, 5, 15, 15]);
        assert!(split(&[1.0; 9], 1.0).is_none());
        assert!(largest_difference(&[1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]).is_some());
    }

    #[test]
    fn a_change_is_a_twentieth_of_the_level_before() {
        let of = |after| is_change(100.0, after);
        assert_eq!([of(104.9), of(105.0), of(95.1), of(95.0)], [false, true, false, true]);
    }

    #[test]
    fn sixteen_changes_are_found_at_most() {
        let stairs = |levels: u32| {
            // Multiples of a large odd number (Knuth) are as good as random in their high digits.
            let noise = |at: u32| f64::from(at.wrapping_mul(2_654_435_761) >> 22) / 1e5;
            let figure = |at: u32| 1.3_f64.powf(f64::from(at / 40)) * (1.0 + noise(at));
            changes(&(0..40 * levels).map(figure).collect::<Vec<f64>>(), 1).len()
        };
        assert_eq!([stairs(17), stairs(18)], [16, 16]);
        assert_eq!(stairs(6), 5);
    }
}
