//! Short dips of a series, and whether they come at even distances.
//!
//! The series with its lasting changes gives [`Dips`].

use serde::{Deserialize, Serialize};

use super::{Better, Change};
use crate::cost_model::NORMAL_MEDIAN;
use durio_base::stats::least_squares::{count, mean, median};

/// Dips of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dips {
    /// How many: runs of intervals that are all far worse than their stretch's median.
    pub dips: usize,
    /// Mean distance between their begins, if they come at even distances.
    pub period_intervals: Option<f64>,
    /// Standard deviation of the distances ÷ their mean.
    pub distance_variation: f64,
    pub length_intervals_mean: f64,
    /// The deepest: share of the rate that is missing, or 1 − median ÷ latency.
    pub depth_share_max: f64,
    /// Intervals within dips, as a share of all.
    pub intervals_share: f64,
}

/// A dip loses at least this share of the median.
const DEPTH_MIN: f64 = 0.30;

/// And lies this many standard deviations from it, by the median of distances.
// In normal noise one interval in three millions does.
const DEVIATIONS_MIN: f64 = 5.0;

/// Fewer are single events.
// Four have three distances, of which one can say that they are even.
const DIPS_MIN: usize = 4;

/// More than this share of the intervals is not a dip but another level.
const INTERVALS_SHARE_MAX: f64 = 1.0 / 3.0;

/// Distances with less variation than this are even.
// Those of random events have one of about 1.
const EVEN_VARIATION: f64 = 0.2;

/// The dips, if there are enough.
pub(super) fn dips(series: &[f64], changes: &[Change], better: Better) -> Option<Dips> {
    let depths = depths(series, changes, better);
    let begins: Vec<usize> = begins(&depths);
    let within = depths.iter().flatten().count();
    let intervals_share = count(within) / count(series.len());
    if begins.len() < DIPS_MIN || intervals_share > INTERVALS_SHARE_MAX {
        return None;
    }
    let distances: Vec<f64> =
        begins.iter().zip(begins.iter().skip(1)).map(|(a, b)| count(b - a)).collect();
    let distance = mean(&distances)?;
    let squares: Vec<f64> = distances.iter().map(|gap| (gap - distance).powi(2)).collect();
    let distance_variation = mean(&squares)?.sqrt() / distance;
    Some(Dips {
        dips: begins.len(),
        period_intervals: (distance_variation <= EVEN_VARIATION).then_some(distance),
        distance_variation,
        length_intervals_mean: count(within) / count(begins.len()),
        depth_share_max: depths.iter().flatten().copied().fold(0.0, f64::max),
        intervals_share,
    })
}

/// For each interval, its loss if it lies in a dip.
fn depths(series: &[f64], changes: &[Change], better: Better) -> Vec<Option<f64>> {
    let ends = changes.iter().map(|change| change.at_interval).chain([series.len()]);
    let mut from = 0;
    let mut depths = Vec::with_capacity(series.len());
    for end in ends {
        let stretch = series.get(from..end).unwrap_or_default();
        depths.extend(stretch_depths(stretch, better));
        from = end;
    }
    depths
}

fn stretch_depths(stretch: &[f64], better: Better) -> Vec<Option<f64>> {
    let level = median(stretch).unwrap_or_default();
    let distances: Vec<f64> = stretch.iter().map(|figure| (figure - level).abs()).collect();
    // By medians: the dips themselves would widen a standard deviation until none is far.
    let far = DEVIATIONS_MIN * NORMAL_MEDIAN * median(&distances).unwrap_or_default();
    let depth = |figure: &f64| {
        let (lost, worse_by) = match better {
            Better::Higher => (1.0 - figure / level, level - figure),
            Better::Lower => (1.0 - level / figure, figure - level),
        };
        (lost >= DEPTH_MIN && worse_by > far).then_some(lost)
    };
    stretch.iter().map(depth).collect()
}

/// Where an interval in a dip follows one that is not.
fn begins(depths: &[Option<f64>]) -> Vec<usize> {
    let before = std::iter::once(&None).chain(depths);
    let pairs = depths.iter().zip(before).enumerate();
    pairs.filter(|(_, (now, before))| now.is_some() && before.is_none()).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures around 100, with this value from each of these places on for one interval.
    fn with(base: [f64; 3], length: usize, places: &[usize], value: f64) -> Vec<f64> {
        let mut series: Vec<f64> = base.into_iter().cycle().take(length).collect();
        places.iter().for_each(|at| series[*at] = value);
        series
    }

    const FLAT: [f64; 3] = [100.0; 3];

    fn count_of(series: &[f64], better: Better) -> Option<usize> {
        dips(series, &[], better).map(|dip| dip.dips)
    }

    #[test]
    fn a_dip_loses_three_tenths_of_the_level() {
        let places = [5, 15, 25, 35];
        let rates = |value| count_of(&with(FLAT, 60, &places, value), Better::Higher);
        assert_eq!([rates(70.1), rates(69.9)], [None, Some(4)]);
        // A latency of which three tenths are too much.
        let latencies = |value| count_of(&with(FLAT, 60, &places, value), Better::Lower);
        assert_eq!([latencies(142.8), latencies(142.9)], [None, Some(4)]);
    }

    #[test]
    fn a_dip_lies_five_deviations_off() {
        // Half of the distances are 6 at most, so that a deviation is 8.9 and five are 44.5.
        let noisy = |value| with([94.0, 100.0, 106.0], 90, &[4, 16, 28, 40], value);
        assert_eq!(count_of(&noisy(55.6), Better::Higher), None);
        assert_eq!(count_of(&noisy(55.4), Better::Higher), Some(4));
    }

    #[test]
    fn four_dips_are_enough_and_a_third_of_all_intervals_is_no_other_level() {
        let few = |places: &[usize]| count_of(&with(FLAT, 60, places, 50.0), Better::Higher);
        assert_eq!([few(&[5, 15, 25]), few(&[5, 15, 25, 35])], [None, Some(4)]);
        let places: Vec<usize> = (0..10).map(|at| 3 * at).collect();
        let found = dips(&with(FLAT, 30, &places, 50.0), &[], Better::Higher).unwrap();
        assert!((found.intervals_share - 1.0 / 3.0).abs() < 1e-12, "{found:?}");
        assert_eq!(count_of(&with(FLAT, 29, &places, 50.0), Better::Higher), None);
    }

    #[test]
    fn distances_are_even_that_vary_by_a_fifth_at_most() {
        let period = |short: usize, long: usize| {
            let places = [10, 10 + short, 10 + short + long, 10 + 2 * short + long];
            let last = 10 + 2 * (short + long);
            let series = with(FLAT, last + 100, &[&places[..], &[last]].concat(), 50.0);
            dips(&series, &[], Better::Higher).unwrap().period_intervals
        };
        assert_eq!([period(801, 1199), period(799, 1201)], [Some(1000.0), None]);
    }

    #[test]
    fn each_stretch_has_its_own_level() {
        let mut series = with(FLAT, 60, &[5, 15, 25], 65.0);
        series.extend(with([10.0; 3], 60, &[5, 15, 25], 4.0));
        let change =
            Change { at_interval: 60, before_median: 100.0, after_median: 10.0, probability: 0.0 };
        let found = dips(&series, &[change], Better::Higher).unwrap();
        assert_eq!((found.dips, found.length_intervals_mean), (6, 1.0));
        assert!((found.depth_share_max - 0.6).abs() < 1e-12, "{found:?}");
    }
}
