//! Times in which durio itself did not run: its own part of the longest latencies.

use durio_plan::EngineKind;
use durio_record::{Phase, ProcessGap};
use durio_units::Nanos;

use super::{Basis, per_workload};
use durio_analyse::{IntervalPoint, WarningFinding, WorkloadFindings};

impl Basis<'_> {
    /// The times in which durio did not run while this was measured; what fio measures goes on.
    pub(super) fn gaps_of(&self, workload: &WorkloadFindings) -> Vec<ProcessGap> {
        let is_fio = workload.effective.engine == EngineKind::Fio;
        let gaps = self
            .process_gaps
            .iter()
            .filter(|gap| (gap.step, gap.round) == (workload.step, workload.round) && !is_fio);
        gaps.copied().collect()
    }
}

/// True if a part of the interval lies in one of the gaps.
pub(super) fn is_in(gaps: &[ProcessGap], interval: &IntervalPoint) -> bool {
    let end = |gap: &ProcessGap| gap.from.get().saturating_add(gap.span.get());
    gaps.iter().any(|gap| interval.from.get() < end(gap) && gap.from < interval.to)
}

pub(super) fn stopped(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_workload(
        basis,
        "stopped",
        |workload| {
            let gaps = basis.gaps_of(workload);
            let longest = gaps.iter().max_by_key(|gap| gap.span)?;
            let at = format!("{} from {} on", longest.span, longest.from);
            let text = match gaps.len() {
                1 => format!("durio itself did not run for {at}"),
                count => format!("durio itself did not run {count} times, the longest for {at}"),
            };
            Some(format!("{text}; {}", blamed(workload, &gaps)))
        },
        "the process was stopped, the machine suspended, or others had its processors: what was in \
         flight seems to last that long, and nothing begins meanwhile",
        "do not take these latencies for the storage's; run again",
    )
}

/// Whose the maximum is.
fn blamed(workload: &WorkloadFindings, gaps: &[ProcessGap]) -> String {
    let measured = workload.intervals.iter().filter(|it| it.phase == Phase::Measure);
    let (inside, outside): (Vec<_>, Vec<_>) = measured.partition(|it| is_in(gaps, it));
    let longest = |points: &[&IntervalPoint]| points.iter().filter_map(|it| it.max_ns).max();
    match (longest(&inside), longest(&outside)) {
        (Some(own), Some(other)) if own > other => {
            let (own, other) = (Nanos::new(own), Nanos::new(other));
            format!("the maximum of {own} is of that time, and {other} of the rest")
        }
        _ => "the maximum is of another time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{noisy, stalls};
    use super::*;
    use crate::sample::{Sample, check_quiet, check_warns, sample};

    fn point(from: u64, max_millis: Option<u64>) -> IntervalPoint {
        IntervalPoint {
            phase: Phase::Measure,
            from: Nanos::from_millis(from),
            to: Nanos::from_millis(from + 100),
            rate: if max_millis.is_some() { 1000.0 } else { 0.0 },
            p50_ns: None,
            p99_ns: None,
            max_ns: max_millis.map(|it| it * 1_000_000),
            unwatched_max: None,
            kept: Vec::new(),
            cut_short: false,
        }
    }

    /// Stopped from 1 s to 3 s: a sync of 2 s, and intervals without any.
    fn stop(sample: &mut Sample) {
        let (from, span) = (Nanos::from_secs(1), Nanos::from_secs(2));
        sample.process_gaps = vec![ProcessGap { step: 0, round: 0, from, span }];
        let of = |at: u64| match at {
            10..29 => None,
            29 => Some(2000),
            _ => Some(3),
        };
        sample.workloads[0].intervals = (0..50).map(|at| point(at * 100, of(at))).collect();
        let evenness = sample.evenness();
        (evenness.intervals, evenness.intervals_empty) = (50, 19);
        evenness.coefficient_of_variation = 0.6;
    }

    #[test]
    fn a_gap_of_the_process_is_named_and_the_device_is_not_blamed_for_it() {
        check_warns(stopped, "stopped", stop);
        let mut sample = sample();
        stop(&mut sample);
        let seen = stopped(&sample.basis()).remove(0).seen;
        assert!(seen.contains("did not run for 2 s from 1 s on"), "{seen}");
        assert!(
            seen.contains("the maximum of 2 s is of that time, and 3 ms of the rest"),
            "{seen}"
        );
        check_quiet(stalls, stop);
        check_quiet(noisy, stop);
    }

    #[test]
    fn a_stall_at_another_time_stays_the_storages() {
        check_warns(stalls, "stalls", |sample| {
            stop(sample);
            sample.workloads[0].intervals[40] = point(4000, None);
        });
        let mut sample = sample();
        stop(&mut sample);
        sample.workloads[0].intervals[40] = point(4000, Some(2500));
        let seen = stopped(&sample.basis()).remove(0).seen;
        assert!(seen.contains("the maximum is of another time"), "{seen}");
    }

    #[test]
    fn a_gap_of_another_step_or_of_one_that_fio_runs_is_not_told() {
        check_quiet(stopped, |sample| {
            stop(sample);
            sample.process_gaps[0].round = 1;
        });
        check_quiet(stopped, |sample| {
            stop(sample);
            sample.workloads[0].effective.engine = EngineKind::Fio;
        });
    }
}
