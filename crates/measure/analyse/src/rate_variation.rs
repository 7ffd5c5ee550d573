//! How much a rate varied while it was measured, whether it was steady, and whether the same
//! workload gave it again.
//!
//! Rates of intervals and of other steps give [`RateVariation`], [`Steadiness`] and [`Agreement`].
//! How to wait for a steady state, and how a long run leaves it, is in `steady_state`.
//!
//! The rule is SNIA's for five rounds, over the fifths of the measured time: their range is at most
//! 20 % of their mean, and the line through them rises or falls by at most 10 % of it.

use durio_base::Nanos;
use durio_base::stats::least_squares::{count, float, line, mean, median, range};
use durio_record::Phase;
use durio_workload::Arrivals;
use serde::{Deserialize, Serialize};

use crate::measurement::whole_intervals;
use crate::steady_state::SteadyRule;
use crate::{IntervalPoint, WorkloadFindings};

/// How even the rate was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateVariation {
    /// Standard deviation / mean of the intervals' rates.
    pub coefficient_of_variation: f64,
    /// Intervals of the measured phase.
    pub intervals: u64,
    /// Intervals without any completion.
    pub intervals_empty: u64,
    /// Intervals (not empty) under half of the median rate. The mean would not do: a burst pulls it
    /// up, and then most of the other intervals are under half of it.
    pub intervals_under_half: u64,
    /// Length of an interval.
    #[serde(rename = "interval_ns", default)]
    pub interval: Nanos,
    /// Rate of the slowest interval.
    #[serde(default)]
    pub rate_min_per_second: f64,
    /// Rate of the fastest.
    #[serde(default)]
    pub rate_max_per_second: f64,
    /// Median of the intervals' rates; 0 in older documents.
    #[serde(default)]
    pub rate_median_per_second: f64,
    /// Whether the rate was steady; `None` with too few intervals to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
}

/// The parts of the measured time that are compared.
// As many as SNIA's window has rounds, so that its limits mean the same here.
const PARTS: usize = 5;

/// Rates over the fifths of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Rate of each fifth, in their order; a fifth is some whole intervals.
    pub fifths_per_second: [f64; PARTS],
    /// (Highest − lowest) ÷ mean.
    pub range_share: f64,
    /// Rise (or fall) of the least squares line over them, as a share of the mean.
    pub drift_share: f64,
    /// True if range and drift are within SNIA's limits.
    pub steady: bool,
}

/// The same workload on the same target, measured more than once in a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    pub count: u64,
    pub rate_min_per_second: f64,
    pub rate_max_per_second: f64,
    /// True if they differ by no more than SNIA's range: 20 % of their mean.
    pub agree: bool,
}

/// The rule for rates of a step; `None` with fewer than five whole intervals.
pub(crate) fn steadiness(points: &[IntervalPoint]) -> Option<Steadiness> {
    let fifths = fifths(&whole_intervals(points))?;
    let mean = mean(&fifths).filter(|mean| *mean > 0.0)?;
    let (_, slope) = line(&fifths)?;
    let (low, high) = range(fifths);
    let range_share = (high - low) / mean;
    let drift_share = slope * (count(PARTS) - 1.0) / mean;
    let rule = SteadyRule::SNIA;
    let steady =
        range_share <= rule.excursion_share_max && drift_share.abs() <= rule.slope_share_max;
    Some(Steadiness { fifths_per_second: fifths, range_share, drift_share, steady })
}

/// Neighbouring intervals together, as evenly as their number permits.
fn fifths(measured: &[&IntervalPoint]) -> Option<[f64; PARTS]> {
    if measured.len() < PARTS {
        return None;
    }
    Some(std::array::from_fn(|part| {
        let at = |part: usize| part * measured.len() / PARTS;
        let of = measured.get(at(part)..at(part + 1)).unwrap_or_default();
        let span = |point: &IntervalPoint| float(point.to.saturating_sub(point.from).get());
        let done: f64 = of.iter().map(|point| point.rate * span(point)).sum();
        // Weighed by time: the intervals of a fifth need not be of one length.
        done / of.iter().map(|point| span(point)).sum::<f64>().max(1.0)
    }))
}

/// How far rates of the same workload agree; `None` for fewer than two.
pub(crate) fn agreement(rates: &[f64]) -> Option<Agreement> {
    let mean = mean(rates).filter(|mean| *mean > 0.0 && rates.len() > 1)?;
    let (low, high) = range(rates.iter().copied());
    Some(Agreement {
        count: rates.len() as u64,
        rate_min_per_second: low,
        rate_max_per_second: high,
        // The rule for rounds of one state: a workload that is run again is a round of it.
        agree: high - low <= SteadyRule::SNIA.excursion_share_max * mean,
    })
}

/// The rates of a workload, and of the steps that differ from it in nothing.
pub(crate) fn of_same_workload(
    workload: &WorkloadFindings,
    all: &[WorkloadFindings],
) -> Option<Agreement> {
    let same = |found: &&WorkloadFindings| {
        found.definition == workload.definition
            && (&found.location, &found.target, &found.levels)
                == (&workload.location, &workload.target, &workload.levels)
            && found.effective.engine == workload.effective.engine
            // An open loop gives the rate that was offered, whatever the storage does.
            && found.open_loop.is_none()
            && found.complete
    };
    let rate =
        |found: &WorkloadFindings| found.operation(found.headline).map(|operation| operation.rate);
    agreement(&all.iter().filter(same).filter_map(rate).collect::<Vec<_>>())
}

/// Arrivals that an interval must expect for its rate to say anything.
// In a Poisson process with this mean, one interval in a thousand has under half.
const ARRIVALS_MIN: f64 = 30.0;

/// Over the whole intervals of the measured phase; the last, cut short by the end, is left out. In
/// an open loop as many are taken together as it takes to expect enough arrivals: in a shorter time
/// nothing may be due.
pub(crate) fn rate_variation(
    points: &[IntervalPoint],
    interval: Nanos,
    arrivals: Arrivals,
) -> Option<RateVariation> {
    let whole = |point: &&IntervalPoint| {
        point.phase == Phase::Measure && point.to.saturating_sub(point.from) >= interval
    };
    let rates: Vec<f64> = points.iter().filter(whole).map(|point| point.rate).collect();
    // The remainder at the end has too few arrivals to count.
    let together = rates.chunks_exact(intervals_together(interval, arrivals));
    let rates: Vec<f64> = together.filter_map(mean).collect();
    let mean = mean(&rates).filter(|_| rates.len() > 1)?;
    let squares = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
    let variance = squares / count(rates.len() - 1);
    let (low, high) = range(rates.iter().copied());
    let median = median(&rates)?;
    let matching =
        |test: &dyn Fn(f64) -> bool| rates.iter().filter(|&&rate| test(rate)).count() as u64;
    Some(RateVariation {
        coefficient_of_variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
        intervals: rates.len() as u64,
        interval,
        rate_min_per_second: low,
        rate_max_per_second: high,
        rate_median_per_second: median,
        steadiness: steadiness(points),
        intervals_empty: matching(&|rate| rate <= 0.0),
        intervals_under_half: matching(&|rate| rate > 0.0 && rate < median / 2.0),
    })
}

/// How many intervals are one for its rate.
fn intervals_together(interval: Nanos, arrivals: Arrivals) -> usize {
    let Some(rate) = arrivals.rate_per_second().filter(|&rate| rate > 0.0) else { return 1 };
    let expected = rate * interval.as_secs_f64();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive; saturates where no step has as many intervals"
    )]
    let count = (ARRIVALS_MIN / expected).ceil() as usize;
    count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rates: &[f64]) -> Vec<IntervalPoint> {
        let tenth = |number: u64| Nanos::from_millis(100 * number);
        let point = |(number, &rate): (u64, &f64)| IntervalPoint {
            phase: Phase::Measure,
            from: tenth(number),
            to: tenth(number + 1),
            rate,
            p50_ns: None,
            p99_ns: None,
            max_ns: None,
            unwatched_max: None,
            kept: Vec::new(),
            cut_short: false,
        };
        (0..).zip(rates).map(point).collect()
    }

    fn of(rates: &[f64]) -> Option<Steadiness> {
        steadiness(&points(rates))
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

    #[test]
    fn an_interval_in_which_nothing_was_due_is_no_stall() {
        let interval = Nanos::from_millis(100);
        // Two a second: one interval in five has one.
        let rates: Vec<f64> = (0..600).map(|at| if at % 5 == 0 { 10.0 } else { 0.0 }).collect();
        let open = |rate| Arrivals::Constant { rate_per_second: rate };
        let slow = rate_variation(&points(&rates), interval, open(2.0)).unwrap();
        assert_eq!((slow.intervals, slow.intervals_empty, slow.intervals_under_half), (4, 0, 0));
        assert!(rate_variation(&points(&rates[..50]), interval, open(2.0)).is_none());
        // The same gaps where four hundred are due in each.
        let stalled = rate_variation(&points(&rates), interval, open(4000.0)).unwrap();
        assert_eq!((stalled.intervals, stalled.intervals_empty), (600, 480));
        let closed = rate_variation(&points(&rates), interval, Arrivals::Closed).unwrap();
        assert_eq!(closed.intervals_empty, 480);
    }

    #[test]
    fn half_of_the_median_is_not_under_half_and_nothing_is_empty() {
        let counts = |rates: &[f64]| {
            let all = rate_variation(&points(rates), Nanos::from_millis(100), Arrivals::Closed);
            all.map(|variation| (variation.intervals_empty, variation.intervals_under_half))
        };
        // Median 100.
        assert_eq!(counts(&[100.0, 50.0, 150.0]), Some((0, 0)));
        assert_eq!(counts(&[100.0, 49.0, 151.0]), Some((0, 1)));
        assert_eq!(counts(&[100.0, 0.0, 200.0]), Some((1, 0)));
    }

    #[test]
    fn a_burst_makes_no_stalls_of_the_other_intervals() {
        let rates = [100.0, 110.0, 90.0, 2000.0, 105.0];
        let found =
            rate_variation(&points(&rates), Nanos::from_millis(100), Arrivals::Closed).unwrap();
        // Half of the mean is 240.
        assert_eq!((found.intervals_under_half, found.rate_median_per_second), (0, 105.0));
    }

    #[test]
    fn an_interval_expects_thirty_arrivals() {
        let together = |rate_per_second| {
            intervals_together(Nanos::from_secs(1), Arrivals::Poisson { rate_per_second })
        };
        assert_eq!([together(30.0), together(29.9), together(15.0), together(14.9)], [1, 2, 2, 3]);
        assert_eq!(intervals_together(Nanos::from_secs(1), Arrivals::Closed), 1);
    }

    #[test]
    fn a_rate_is_steady_up_to_a_range_of_a_fifth_and_a_drift_of_a_tenth_either_way() {
        let is_steady = |rates: [f64; 5]| of(&rates).unwrap().steady;
        let dip = |low: f64| [100.0, 100.0, low, 100.0, 100.0];
        // 19 of 96.2 are 19.8 %, 20 of 96 are 20.8 %.
        assert_eq!((is_steady(dip(81.0)), is_steady(dip(80.0))), (true, false));
        let sloped = |each: f64| [-2.0, -1.0, 0.0, 1.0, 2.0].map(|at| 100.0 + each * at);
        let found = [2.4, -2.4, 2.6, -2.6].map(|each| is_steady(sloped(each)));
        assert_eq!(found, [true, true, false, false]);
    }

    #[test]
    fn fifths_have_whole_neighbouring_intervals_by_their_time() {
        let near = |found: Option<Steadiness>, expected: [f64; 5]| {
            let found = found.unwrap().fifths_per_second;
            let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(is_near, "{found:?} for {expected:?}");
        };
        let rates = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0];
        near(of(&rates), [10.0, 20.0, 35.0, 50.0, 65.0]);
        // The last one is three times as long as the one before.
        let mut uneven = points(&[1.0, 2.0, 3.0, 4.0, 10.0, 40.0]);
        uneven[5].to = Nanos::from_millis(800);
        near(steadiness(&uneven), [1.0, 2.0, 3.0, 4.0, 32.5]);
        // Neither the ramp nor an interval that was cut short is one of them.
        let mut more = points(&[900.0, 1.0, 2.0, 3.0, 4.0, 5.0, 900.0]);
        more[0].phase = Phase::Ramp;
        more[6].cut_short = true;
        near(steadiness(&more), [1.0, 2.0, 3.0, 4.0, 5.0]);
        more[1].phase = Phase::Ramp;
        assert_eq!(steadiness(&more), None);
    }

    #[test]
    fn each_figure_of_a_variation_is_of_whole_measured_intervals() {
        let mut all = points(&[900.0, 100.0, 50.0, 150.0, 200.0, 7.0]);
        all[0].phase = Phase::Ramp;
        all[5].to = Nanos::from_millis(599);
        let interval = Nanos::from_millis(100);
        let found = rate_variation(&all, interval, Arrivals::Closed).unwrap();
        assert_eq!((found.intervals, found.interval), (4, interval));
        assert_eq!((found.rate_min_per_second, found.rate_max_per_second), (50.0, 200.0));
        assert_eq!((found.rate_median_per_second, found.intervals_under_half), (125.0, 1));
        // √(12,500 ÷ 3) ÷ 125.
        assert!((found.coefficient_of_variation - 0.516_398).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn steps_are_of_the_same_workload_only_if_they_differ_in_nothing() {
        let workload = |rate: f64| {
            let mut found = crate::tests::sample::sample().workloads.remove(0);
            found.operations.iter_mut().for_each(|operation| operation.rate = rate);
            found
        };
        let agreed = |change: fn(&mut WorkloadFindings)| {
            let mut both = [workload(100.0), workload(150.0)];
            change(&mut both[1]);
            let found = of_same_workload(&both[0], &both)?;
            let Agreement { count, rate_min_per_second, rate_max_per_second, agree } = found;
            Some((count, rate_min_per_second, rate_max_per_second, agree))
        };
        assert_eq!(agreed(|_| {}), Some((2, 100.0, 150.0, false)));
        assert_eq!(agreed(|found| found.name = "again".to_owned()).map(|found| found.0), Some(2));
        let changes: [fn(&mut WorkloadFindings); 6] = [
            |found| found.definition.jobs += 1,
            |found| found.location = "/other".to_owned(),
            |found| found.target = "other".to_owned(),
            |found| {
                let (axis, label) = ("jobs".to_owned(), String::new());
                found.levels.push(durio_plan::ParameterValue { axis, value: 2.0, label });
            },
            |found| found.effective.engine = durio_plan::EngineKind::Null,
            |found| found.complete = false,
        ];
        for (place, change) in changes.into_iter().enumerate() {
            assert_eq!(agreed(change), None, "change {place}");
        }
    }
}
