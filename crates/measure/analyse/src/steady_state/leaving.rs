//! Whether a long run leaves its state: throttling, used-up burst credits, garbage collection.
//!
//! A rate or a latency for each interval of a run, in order, gives [`Leaving`]: lasting changes and
//! dips, with their shape and the supporting numbers. The cause stays open; only the usual ones for
//! a shape are named.
//!
//! Lasting changes are found by Pettitt's rank test, splitting the series again on either side of a
//! change (`change_points`); a drift or a step is chosen by which of the two leaves less. Dips, too
//! short for that, are counted against the median of their stretch.

mod change_points;

use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;
use durio_base::stats::least_squares::{NORMAL_MEDIAN, count, mean, median};

pub use change_points::Change;

/// Fewest intervals that are looked at.
// Among 20 even the clearest step could be chance, by the test and its limit.
const INTERVALS_MIN: usize = 30;

/// Most intervals that are taken: a day of seconds, ten times.
const INTERVALS_MAX: usize = 1_000_000;

/// A lasting change below this share of the level before is not reported, however certain.
const CHANGE_MIN: f64 = 0.05;

/// Longer series are thinned to this many medians before lasting changes are looked for.
const SERIES_MAX: usize = 512;

/// The lasting changes of a series of at most a few hundred values, such as one of each run.
pub fn lasting_changes(series: &[f64]) -> Vec<Change> {
    change_points::changes(series, 1)
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Higher is better: for rates.
    Higher,
    /// Lower is better: for latencies.
    Lower,
}

/// How a run leaves its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeavingShape {
    /// It stays in its state.
    Steady,
    /// One or more steps to a level that lasts to the end.
    LastingStep,
    /// Away, and back to where it was.
    Temporary,
    /// A little with every interval.
    #[serde(rename = "slide")]
    Drift,
    /// Short dips at even distances.
    PeriodicDips,
    /// Short dips at uneven distances.
    IrregularDips,
}

/// A change that continues over the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Change per interval: the median of all slopes (Theil 1950, Sen 1968).
    pub per_interval: f64,
    /// Change from the first to the last interval, as a share of the level at the first.
    pub total_share: f64,
}

/// A run's behaviour over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaving {
    /// The shape; of a run with lasting changes and dips, that of the changes.
    pub shape: LeavingShape,
    /// Whether it ends worse than it began, or dips at all.
    pub is_worse: bool,
    /// The lasting changes, in order.
    pub changes: Vec<Change>,
    /// The drift, if that describes the run better than a step.
    #[serde(rename = "slide")]
    pub drift: Option<Drift>,
    /// The dips, if there are enough of them.
    pub dips: Option<Dips>,
    /// What speaks for it, as sentences.
    pub evidence: Vec<String>,
}

/// Looks for changes and dips in a series of intervals of equal length. Declined for too few or too
/// many intervals, and for values that are not finite or below zero; zero is a stall, and valid.
pub(crate) fn leaving(series: &[f64], better: Better) -> Result<Leaving, DeclinedAnalysis> {
    DeclinedAnalysis::unless_enough("intervals", series.len(), INTERVALS_MIN)?;
    DeclinedAnalysis::if_too_many("intervals", series.len(), INTERVALS_MAX)?;
    // Zero is moved to one, which is valid.
    let nothing_as_one = |figure: &f64| if *figure == 0.0 { 1.0 } else { *figure };
    DeclinedAnalysis::unless_positive("figure", series.iter().map(nothing_as_one))?;
    // The slope of Theil and Sen takes all pairs: 512 values are 131 thousand, a day of seconds
    // would be 3.7 billion.
    let batch = series.len().div_ceil(SERIES_MAX);
    let thinned: Vec<f64> = series.chunks(batch).filter_map(median).collect();
    let changes = change_points::changes(&thinned, batch);
    let drift = change_points::drift(&thinned, batch, &changes);
    // In the whole series: the median of a batch has no trace of a dip that is shorter than half of
    // it.
    let dips = dips(series, &changes, better);
    let shape = shape(&changes, drift.as_ref(), dips.as_ref());
    Ok(Leaving {
        shape,
        is_worse: is_worse(shape, &changes, drift.as_ref(), better),
        evidence: evidence(shape, &changes, drift.as_ref(), dips.as_ref(), series.len()),
        changes,
        drift,
        dips,
    })
}

fn shape(changes: &[Change], drift: Option<&Drift>, dips: Option<&Dips>) -> LeavingShape {
    let ends = changes.first().zip(changes.last());
    match (ends, drift, dips) {
        // A drift describes the changes better: a line leaves less of the series than their steps
        // do.
        (_, Some(_), _) => LeavingShape::Drift,
        (Some((first, last)), ..) if is_back(first, last) => LeavingShape::Temporary,
        (Some(_), ..) => LeavingShape::LastingStep,
        (None, None, Some(dips)) if dips.period_intervals.is_some() => LeavingShape::PeriodicDips,
        (None, None, Some(_)) => LeavingShape::IrregularDips,
        (None, None, None) => LeavingShape::Steady,
    }
}

/// Whether the level after the last change is that before the first.
fn is_back(first: &Change, last: &Change) -> bool {
    (last.after_median - first.before_median).abs() < CHANGE_MIN * first.before_median
}

fn is_worse(
    shape: LeavingShape,
    changes: &[Change],
    drift: Option<&Drift>,
    better: Better,
) -> bool {
    let rises = |change: f64| match better {
        Better::Higher => change < 0.0,
        Better::Lower => change > 0.0,
    };
    let change_until = |last: Option<&Change>| {
        changes.first().zip(last).is_some_and(|(a, b)| rises(b.after_median - a.before_median))
    };
    match shape {
        LeavingShape::Steady => false,
        LeavingShape::PeriodicDips | LeavingShape::IrregularDips => true,
        LeavingShape::Drift => drift.is_some_and(|drift| rises(drift.per_interval)),
        // It ends where it began: what counts is the way it went.
        LeavingShape::Temporary => change_until(changes.first()),
        LeavingShape::LastingStep => change_until(changes.last()),
    }
}

fn evidence(
    shape: LeavingShape,
    changes: &[Change],
    drift: Option<&Drift>,
    dips: Option<&Dips>,
    intervals: usize,
) -> Vec<String> {
    let mut says: Vec<String> = match drift {
        Some(drift) => vec![drift_sentence(drift, intervals)],
        None => changes.iter().map(change_sentence).collect(),
    };
    says.extend(dips.map(dips_sentence));
    says.extend(usual_causes(shape).map(str::to_owned));
    says
}

fn drift_sentence(drift: &Drift, intervals: usize) -> String {
    format!(
        "over {intervals} intervals the level changes gradually, by {:+.1} % in total: a line \
         fits better than a step",
        drift.total_share * 100.0
    )
}

fn change_sentence(change: &Change) -> String {
    let share = if change.before_median > 0.0 {
        format!("{:+.1} %", (change.after_median / change.before_median - 1.0) * 100.0)
    } else {
        "from nothing".to_owned()
    };
    format!(
        "from interval {} on the median is {} instead of {} ({share}); without a change a \
         difference like this has a probability of {:.1e} (Pettitt's test)",
        change.at_interval,
        figure(change.after_median),
        figure(change.before_median),
        change.probability
    )
}

/// A value in the unit of the series: six digits are more than any series has.
fn figure(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

fn dips_sentence(dips: &Dips) -> String {
    let distance = match dips.period_intervals {
        Some(period) => format!("every {period:.1} intervals"),
        None => "at uneven distances".to_owned(),
    };
    format!(
        "{} dips {distance}, {:.1} intervals long in the mean, by {:.0} % of the level at the worst; \
         {:.1} % of all intervals",
        dips.dips,
        dips.length_intervals_mean,
        dips.depth_share_max * 100.0,
        dips.intervals_share * 100.0
    )
}

/// The usual causes: a hint where to look, no finding.
fn usual_causes(shape: LeavingShape) -> Option<&'static str> {
    Some(match shape {
        LeavingShape::Steady => return None,
        LeavingShape::LastingStep => {
            "usual causes of a lasting step: used-up burst credits or fast cache, thermal \
             throttling; upwards: a cache that has filled"
        }
        LeavingShape::Temporary => {
            "usual causes of a temporary change: another load, a rebuild, a scrub"
        }
        LeavingShape::Drift => {
            "usual causes of a drift: a drive that fills up and moves more data, rising \
             temperature, fragmentation"
        }
        LeavingShape::PeriodicDips => {
            "usual causes of periodic dips: garbage collection, write-back, periodic jobs"
        }
        LeavingShape::IrregularDips => {
            "usual causes of irregular dips: another load, retried errors"
        }
    })
}

/// The lines' and levels' summed distance from a series.
fn distance(series: &[f64], model: impl Fn(usize) -> f64) -> f64 {
    series.iter().enumerate().map(|(at, figure)| (figure - model(at)).abs()).sum()
}

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
fn dips(series: &[f64], changes: &[Change], better: Better) -> Option<Dips> {
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
mod tests;
