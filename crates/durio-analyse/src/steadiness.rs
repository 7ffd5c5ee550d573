//! Whether a rate was steady while it was measured, and whether the same workload gave it again.
//!
//! In: rates of intervals; rates of other steps. Out: [`Steadiness`], [`Agreement`]. Not here: how a
//! steady state is waited for (`steady_state`), and how a long run leaves it.
//!
//! The rule is SNIA's for five rounds, over the fifths of the measured time: their range is at most
//! 20 % of their mean, and the line through them rises or falls by at most 10 % of it.

use durio_record::Phase;
use serde::{Deserialize, Serialize};

use crate::steady_state::Rule;
use crate::{IntervalPoint, WorkloadFindings};
use durio_stats::least_squares::{count, line, mean};

/// The parts of the measured time that are compared.
const PARTS: usize = 5;

/// Rates over the fifths of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Rate of each fifth, in their order; a fifth is some whole intervals.
    pub fifths_per_second: [f64; PARTS],
    /// (Highest − lowest) ÷ mean.
    pub range_share: f64,
    /// What the least squares line rises (or falls, below zero) from the first to the last, as a
    /// share of the mean.
    pub drift_share: f64,
    /// True if range and drift are within SNIA's limits.
    pub steady: bool,
}

/// The same workload on the same target, measured more than once in a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// How often.
    pub count: u64,
    /// The lowest rate.
    pub rate_min_per_second: f64,
    /// The highest.
    pub rate_max_per_second: f64,
    /// True if they differ by no more than SNIA's range: 20 % of their mean.
    pub agree: bool,
}

/// The rule for rates of a step; none with fewer than five whole intervals.
pub(crate) fn steadiness(points: &[IntervalPoint]) -> Option<Steadiness> {
    let measured = points.iter().filter(|it| it.phase == Phase::Measure && !it.cut_short);
    let measured: Vec<&IntervalPoint> = measured.collect();
    let fifths = fifths(&measured)?;
    let mean = mean(&fifths).filter(|mean| *mean > 0.0)?;
    let (_, slope) = line(&fifths)?;
    let (low, high) = ends(&fifths);
    let range_share = (high - low) / mean;
    let drift_share = slope * (count(PARTS) - 1.0) / mean;
    let rule = Rule::SNIA;
    let steady =
        range_share <= rule.excursion_share_max && drift_share.abs() <= rule.slope_share_max;
    Some(Steadiness { fifths_per_second: fifths, range_share, drift_share, steady })
}

/// Neighbouring intervals together, as evenly as their number permits.
#[expect(clippy::cast_precision_loss, reason = "times of some digits")]
fn fifths(measured: &[&IntervalPoint]) -> Option<[f64; PARTS]> {
    if measured.len() < PARTS {
        return None;
    }
    Some(std::array::from_fn(|part| {
        let at = |part: usize| part * measured.len() / PARTS;
        let of = measured.get(at(part)..at(part + 1)).unwrap_or_default();
        let span = |it: &IntervalPoint| it.to.saturating_sub(it.from).get() as f64;
        let done: f64 = of.iter().map(|it| it.rate * span(it)).sum();
        done / of.iter().map(|it| span(it)).sum::<f64>().max(1.0)
    }))
}

fn ends(rates: &[f64]) -> (f64, f64) {
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (low, rates.iter().copied().fold(0.0, f64::max))
}

/// How far rates of the same workload agree; none for fewer than two.
pub(crate) fn agreement(rates: &[f64]) -> Option<Agreement> {
    let mean = mean(rates).filter(|mean| *mean > 0.0 && rates.len() > 1)?;
    let (low, high) = ends(rates);
    Some(Agreement {
        count: rates.len() as u64,
        rate_min_per_second: low,
        rate_max_per_second: high,
        agree: high - low <= Rule::SNIA.excursion_share_max * mean,
    })
}

/// The rates of a workload, and of the steps that differ from it in nothing.
pub(crate) fn of_same_workload(
    workload: &WorkloadFindings,
    all: &[WorkloadFindings],
) -> Option<Agreement> {
    let same = |it: &&WorkloadFindings| {
        it.definition == workload.definition
            && (&it.location, &it.target, &it.levels)
                == (&workload.location, &workload.target, &workload.levels)
            && it.effective.engine == workload.effective.engine
            && it.open_loop.is_none()
            && it.complete
    };
    let rate = |it: &WorkloadFindings| it.operation(it.headline).map(|operation| operation.rate);
    agreement(&all.iter().filter(same).filter_map(rate).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use durio_units::Nanos;

    use super::*;

    fn of(rates: &[f64]) -> Option<Steadiness> {
        let point = |(at, rate): (u64, &f64)| IntervalPoint {
            phase: Phase::Measure,
            from: Nanos::from_millis(at * 100),
            to: Nanos::from_millis(at * 100 + 100),
            rate: *rate,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            unwatched_max: None,
            kept: Vec::new(),
            cut_short: false,
        };
        steadiness(&(0..).zip(rates).map(point).collect::<Vec<_>>())
    }

    #[test]
    fn an_even_rate_is_steady_and_its_scatter_from_interval_to_interval_evens_out() {
        let even = of(&[100.0, 90.0, 110.0, 100.0, 95.0, 105.0, 108.0, 92.0, 100.0, 99.0]).unwrap();
        assert!(even.steady && even.range_share < 0.11, "{even:?}");
    }

    #[test]
    fn a_rate_that_drifts_is_not_steady_and_the_drift_has_its_sign() {
        let falling = of(&[120.0, 115.0, 110.0, 105.0, 100.0, 95.0, 90.0]).unwrap();
        assert!(!falling.steady && falling.drift_share < -0.2, "{falling:?}");
        assert!(of(&[90.0, 95.0, 100.0, 105.0, 110.0]).unwrap().drift_share > 0.19);
    }

    #[test]
    fn a_rate_that_breaks_in_is_not_steady_though_it_does_not_drift() {
        let dip = of(&[100.0, 100.0, 40.0, 100.0, 100.0]).unwrap();
        assert!(!dip.steady && dip.drift_share.abs() < 1e-9, "{dip:?}");
    }

    #[test]
    fn too_few_intervals_and_no_operation_tell_nothing() {
        assert_eq!(of(&[100.0; 4]), None);
        assert_eq!(of(&[0.0; 5]), None);
    }

    #[test]
    fn the_same_workload_agrees_within_a_fifth() {
        assert_eq!(agreement(&[100.0]), None);
        assert!(agreement(&[100.0, 90.0, 109.0]).unwrap().agree);
        let apart = agreement(&[555.0, 8627.0, 4000.0]).unwrap();
        assert!(!apart.agree && apart.count == 3);
        assert_eq!((apart.rate_min_per_second, apart.rate_max_per_second), (555.0, 8627.0));
    }
}
