//! How sure a rate is.
//!
//! In: a measurement. Out: the range of its repeats, or an interval from batch means of a single
//! one. Not here: what differs between one run and the next of the same thing, which a single run
//! cannot know.

use durio_record::Phase;

use super::findings::{IntervalBasis, RateInterval};
use super::steps::Measured;
use durio_stats::least_squares::{count, mean};
use durio_stats::student::student_95;

/// Batches that a single measurement is cut into: enough for an interval, few enough that each is
/// longer than what the rates of neighbouring intervals share (Law and Kelton, Simulation Modeling
/// and Analysis, section 9.5, advise 10 to 20).
const BATCHES: usize = 10;

/// The interval around a measurement's rate; `None` of one that is too short.
pub(super) fn interval(measured: &Measured<'_>) -> Option<RateInterval> {
    match measured.rates.as_slice() {
        [low, .., high] => Some(RateInterval {
            low_per_second: *low,
            high_per_second: *high,
            basis: IntervalBasis::Repeats,
        }),
        _ => by_batches(measured),
    }
}

fn by_batches(measured: &Measured<'_>) -> Option<RateInterval> {
    let counted = measured.found.intervals.iter();
    let counted = counted.filter(|it| it.phase == Phase::Measure && !it.cut_short);
    let rates: Vec<f64> = counted.map(|it| it.rate).collect();
    let per_batch = rates.len() / BATCHES;
    let batches = rates.chunks_exact(per_batch.max(1)).take(BATCHES);
    let means: Vec<f64> = batches.filter_map(mean).collect();
    let middle = mean(&means).filter(|it| means.len() == BATCHES && *it > 0.0)?;
    let squares = means.iter().map(|it| (it - middle).powi(2)).sum::<f64>();
    let deviation = (squares / count(BATCHES - 1) / count(BATCHES)).sqrt();
    let share = student_95(BATCHES - 1)? * deviation / middle;
    let rate = measured.rate();
    share.is_finite().then(|| RateInterval {
        low_per_second: rate * (1.0 - share).max(0.0),
        high_per_second: rate * (1.0 + share),
        basis: IntervalBasis::Batches,
    })
}
