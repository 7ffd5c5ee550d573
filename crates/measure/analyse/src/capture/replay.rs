//! A replay as a capture: its results, with the traced capture to compare with, and how punctual it
//! was. The trace and each replayed operation give [`CaptureFindings`].

use std::collections::BTreeSet;

use durio_base::Nanos;
use durio_base::stats::least_squares::float;
use durio_observe::{CaptureEnd, CaptureEvent, CpuCounters};
use durio_record::{OperationTrace, ReplayedOperation, TracedOperation};
use serde::Serialize;

use super::{Capture, CaptureFindings, CaptureSource, EarlierCapture};
use crate::distribution::percentile;
use crate::foreign_load::foreign_cpus;

/// A replay that ended, or of which one operation of a hundred began, so much later than it should have did not
/// keep up, as a share of its time.
// Durio's choice: rates are then off by as much.
const BEHIND_MAX: f64 = 0.01;

/// Less means nothing: a disk stalls for this long now and then.
const BEHIND_NS: f64 = 50e6;

/// How punctual a replay was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplayFindings {
    /// The speed, as a multiple of the trace's.
    pub speed: f64,
    /// Operations of the trace.
    pub operations: usize,
    /// Those that were done.
    pub done: usize,
    pub threads: usize,
    /// Planned seconds from the first start to the last end.
    pub planned_seconds: f64,
    /// The same seconds as they passed.
    pub taken_seconds: f64,
    /// True if it ended on time, and 99 of 100 operations started on time, within 1 % of its time;
    /// `None` if interrupted.
    pub kept_up: Option<bool>,
    /// From when an operation was due to its start, median.
    pub late_p50_ns: Option<u64>,
    /// The same, 99 of 100.
    pub late_p99_ns: Option<u64>,
    pub late_max_ns: Option<u64>,
    /// Operations that had to wait for an earlier one.
    pub held: usize,
    /// How late the others started, 99 of 100: caused by durio itself.
    pub lag_p99_ns: Option<u64>,
    /// Processors that other work used during the replay; `None` if not counted.
    pub others: Option<f64>,
    /// The trace has O_DIRECT, the storage has not: such writes went through the page cache.
    pub is_cached_instead: bool,
}

/// A trace that was done again.
#[derive(Debug, Clone)]
pub struct ReplayedTrace<'a> {
    pub trace: &'a OperationTrace,
    /// The speed, as a multiple of the trace's.
    pub speed: f64,
    /// Each operation that was done.
    pub operations: &'a [ReplayedOperation],
    /// O_DIRECT was not possible.
    pub is_cached_instead: bool,
    /// The ticks of all processors during the replay.
    pub processors: Option<CpuCounters>,
    /// Processor time of the replay in it, nanoseconds.
    pub own_cpu_ns: u64,
}

impl ReplayedTrace<'_> {
    fn is_whole(&self) -> bool {
        self.operations.len() == self.trace.operations.len()
    }
}

impl CaptureFindings {
    /// The findings of a replay, compared with the capture of its trace
    /// ([`EarlierCapture::parse`]).
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of one capture are not negative"
    )]
    pub fn of_replay(
        replayed: &ReplayedTrace<'_>,
        mut before: EarlierCapture,
        source: CaptureSource,
    ) -> Self {
        before.speed_up(replayed.speed);
        let punctuality = punctuality(replayed);
        let mut capture = Capture::default();
        feed(replayed, &mut capture);
        // As long as the capture: with the idle time before the first operation and after the last.
        let idle = (before.seconds - punctuality.planned_seconds).max(0.0);
        let idle = if replayed.is_whole() { idle } else { 0.0 };
        let end = CaptureEnd {
            duration_ns: ((punctuality.taken_seconds + idle) * 1e9) as u64,
            processes: 1,
            ended_early: (!replayed.is_whole()).then(|| {
                let (done, all) = (replayed.operations.len(), replayed.trace.operations.len());
                format!("it was interrupted after {done} of {all} operations")
            }),
            ..CaptureEnd::default()
        };
        let mut findings = capture.finish(&end, source);
        findings.compare_with(&before);
        findings.replay = Some(punctuality);
        findings
    }
}

/// Feeds the replayed operations to a capture.
fn feed(replayed: &ReplayedTrace<'_>, capture: &mut Capture) {
    for file in &replayed.trace.files {
        capture.take(CaptureEvent::File(file.clone()));
    }
    // What ended at a moment ended before what began then.
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * replayed.operations.len());
    for (place, done) in replayed.operations.iter().enumerate() {
        moments.extend([(done.begin, true, place), (done.end, false, place)]);
    }
    moments.sort_unstable();
    for (at, begins, place) in moments {
        let Some(traced) = replayed.trace.operations.get(replayed.operations[place].operation)
        else {
            continue;
        };
        let (task, call) = (traced.task, traced.call);
        capture.take(match begins {
            true => CaptureEvent::Entered {
                at,
                task,
                call,
                holder: (0, -1),
                file: Some(traced.file),
                offset: traced.offset,
                durable: traced.durable,
            },
            false => CaptureEvent::Left { at, task, call, result: traced.bytes.cast_signed() },
        });
    }
}

fn punctuality(replayed: &ReplayedTrace<'_>) -> ReplayFindings {
    let trace = replayed.trace;
    // Only the starts are faster; an operation takes as long as it takes.
    let end = |operation: &TracedOperation, speed: f64| {
        float(operation.begin) / speed + float(operation.nanos)
    };
    let planned = trace.operations.iter().map(|op| end(op, replayed.speed)).fold(0.0, f64::max);
    let taken_ns = replayed.operations.iter().map(|operation| operation.end).max().unwrap_or(0);
    let taken = float(taken_ns);
    let lateness = |operation: &ReplayedOperation| operation.begin.saturating_sub(operation.due);
    let sorted = |mut all: Vec<u64>| {
        all.sort_unstable();
        all
    };
    let late = sorted(replayed.operations.iter().map(lateness).collect());
    let free = replayed.operations.iter().filter(|operation| operation.ready <= operation.due);
    let lag = sorted(free.map(lateness).collect());
    let late_p99_ns = percentile(&late, 99);
    let allowed = (planned * BEHIND_MAX).max(BEHIND_NS);
    let is_late = late_p99_ns.is_some_and(|late| float(late) > allowed);
    let tasks: BTreeSet<u32> = trace.operations.iter().map(|operation| operation.task).collect();
    ReplayFindings {
        speed: replayed.speed,
        operations: trace.operations.len(),
        done: replayed.operations.len(),
        threads: tasks.len(),
        planned_seconds: planned / 1e9,
        taken_seconds: taken / 1e9,
        kept_up: replayed.is_whole().then_some(taken <= planned + allowed && !is_late),
        late_p50_ns: percentile(&late, 50),
        late_p99_ns,
        late_max_ns: late.last().copied(),
        held: replayed.operations.len() - lag.len(),
        lag_p99_ns: percentile(&lag, 99),
        others: replayed
            .processors
            .as_ref()
            .map(|all| foreign_cpus(all, Nanos::new(replayed.own_cpu_ns), Nanos::new(taken_ns))),
        is_cached_instead: replayed.is_cached_instead,
    }
}

#[cfg(test)]
mod tests {
    use super::super::BesideFigure;
    use super::super::tests::short_trace;
    use super::*;

    /// The trace done again, each operation so many nanoseconds late and as long as before.
    fn late_by(trace: &OperationTrace, late: u64) -> Vec<ReplayedOperation> {
        let done =
            |(operation, traced): (usize, &durio_record::TracedOperation)| ReplayedOperation {
                operation,
                due: traced.begin,
                ready: if late > 1000 { traced.begin + late } else { 0 },
                begin: traced.begin + late,
                end: traced.end() + late,
            };
        trace.operations.iter().enumerate().map(done).collect()
    }

    fn findings(
        trace: &OperationTrace,
        operations: &[ReplayedOperation],
        speed: f64,
    ) -> CaptureFindings {
        // 30 ms of programs, of which 15 were the replay's.
        let busy =
            CpuCounters { user: 2, system: 1, softirq: 1, steal: 1, ..CpuCounters::default() };
        let processors = Some(CpuCounters { idle: 3, iowait: 7, ..busy });
        let it = ReplayedTrace {
            trace,
            speed,
            operations,
            is_cached_instead: false,
            processors,
            own_cpu_ns: 15_000_000,
        };
        let before = EarlierCapture::parse(&trace.capture.to_string()).unwrap();
        CaptureFindings::of_replay(&it, before, CaptureSource::default())
    }

    fn ratio(findings: &CaptureFindings, figure: BesideFigure) -> Option<f64> {
        let rows = &findings.beside.as_ref().unwrap().rows;
        rows.iter().find(|row| row.figure == figure).and_then(|row| row.ratio)
    }

    #[test]
    fn a_replay_that_went_as_the_trace_did_has_its_figures() {
        let trace = short_trace();
        let findings = findings(&trace, &late_by(&trace, 300), 1.0);
        let replay = findings.replay.unwrap();
        assert_eq!((replay.done, replay.threads, replay.held), (trace.operations.len(), 3, 0));
        assert_eq!((replay.late_p50_ns, replay.late_max_ns), (Some(300), Some(300)));
        assert_eq!((replay.late_p99_ns, replay.lag_p99_ns), (None, None), "of 26 operations");
        assert_eq!(replay.kept_up, Some(true));
        // 30 ms less 15, of 52 µs, which are taken for 10 ms.
        assert!(
            replay.others.is_some_and(|others| (others - 1.5).abs() < 1e-9),
            "{:?}",
            replay.others
        );
        let rows = &findings.beside.as_ref().unwrap().rows;
        assert!(
            rows.iter().all(|row| row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-3)),
            "{rows:?}"
        );
        assert_eq!(ratio(&findings, BesideFigure::SyncP50), Some(1.0));
        // Nobody looked at the devices of the replay.
        assert_eq!(ratio(&findings, BesideFigure::DeviceWrites), None);
    }

    #[test]
    fn what_had_to_wait_has_no_lag_and_what_ends_too_late_did_not_keep_up() {
        let trace = short_trace();
        for (late, kept_up) in [(49_000_000, true), (51_000_000, false)] {
            let findings = findings(&trace, &late_by(&trace, late), 1.0);
            let replay = findings.replay.unwrap();
            assert_eq!((replay.held, replay.lag_p99_ns), (trace.operations.len(), None));
            assert_eq!((replay.kept_up, replay.late_p50_ns), (Some(kept_up), Some(late)));
        }
    }

    #[test]
    fn a_burst_that_was_late_is_no_keeping_up_though_the_end_was_in_time() {
        let burst = (0..1000).map(|at| (1000 * at, 500));
        let spans = burst.chain([(60_000_000_000, 500)]);
        let one = |(begin, nanos)| TracedOperation { begin, nanos, ..short_trace().operations[0] };
        let trace = OperationTrace { operations: spans.map(one).collect(), ..short_trace() };
        let late = |(operation, traced): (usize, &TracedOperation)| {
            let begin = if operation < 1000 { 10_000_000 * operation as u64 } else { traced.begin };
            ReplayedOperation {
                operation,
                due: traced.begin,
                ready: begin,
                begin,
                end: begin + 500,
            }
        };
        let done: Vec<_> = trace.operations.iter().enumerate().map(late).collect();
        let replay = findings(&trace, &done, 1.0).replay.unwrap();
        assert!(replay.taken_seconds <= replay.planned_seconds);
        assert_eq!(replay.kept_up, Some(false));
    }

    #[test]
    fn twice_as_fast_is_held_against_twice_the_rate() {
        let trace = short_trace();
        let mut done = late_by(&trace, 0);
        for it in &mut done {
            (it.due, it.begin, it.end) =
                (it.due / 2, it.begin / 2, (it.end / 2).max(it.begin / 2 + 1));
        }
        let findings = findings(&trace, &done, 2.0);
        assert_eq!(findings.replay.unwrap().kept_up, Some(true));
        let writes = ratio(&findings, BesideFigure::Writes).unwrap();
        assert!((writes - 1.0).abs() < 1e-3, "{writes}");
    }

    #[test]
    fn of_an_interrupted_one_rates_are_of_what_was_done() {
        let trace = short_trace();
        let all = late_by(&trace, 0);
        let findings = findings(&trace, &all[..4], 1.0);
        assert!(findings.ended_early.as_ref().is_some_and(|why| why.contains("after 4 of")));
        assert_eq!(findings.writes + findings.durable, 4);
        let replay = findings.replay.unwrap();
        assert!((findings.seconds - replay.taken_seconds).abs() < 1e-9);
        assert_eq!(replay.kept_up, None);
    }

    #[test]
    fn one_hundredth_of_its_time_is_what_a_replay_may_be_late() {
        let one = |at: u64| TracedOperation {
            begin: at * 1_000_000_000,
            nanos: 500,
            ..short_trace().operations[0]
        };
        let trace = OperationTrace { operations: (0..201).map(one).collect(), ..short_trace() };
        // 200 s in all.
        let kept_up = |late| findings(&trace, &late_by(&trace, late), 1.0).replay.unwrap().kept_up;
        assert_eq!([kept_up(1_990_000_000), kept_up(2_010_000_000)], [Some(true), Some(false)]);
    }

    #[test]
    fn lateness_is_of_all_operations_and_lag_of_those_that_nothing_held() {
        let one = |at: u64| TracedOperation {
            begin: at * 1_000_000,
            nanos: 500,
            ..short_trace().operations[0]
        };
        let trace = OperationTrace { operations: (0..300).map(one).collect(), ..short_trace() };
        let mut free = 0_u64;
        let done = |(operation, traced): (usize, &TracedOperation)| {
            // Each third waits for another one, and begins 50 µs late; the others 1 to 200 ns.
            let is_held = operation % 3 == 0;
            free += u64::from(!is_held);
            let late = if is_held { 50_000 } else { free };
            let due = traced.begin;
            let ready = if is_held { due + late } else { due };
            ReplayedOperation { operation, due, ready, begin: due + late, end: due + late + 700 }
        };
        let done: Vec<_> = trace.operations.iter().enumerate().map(done).collect();
        let replay = findings(&trace, &done, 1.0).replay.unwrap();
        assert_eq!((replay.operations, replay.done, replay.held), (300, 300, 100));
        assert_eq!((replay.late_p50_ns, replay.late_p99_ns), (Some(150), Some(50_000)));
        assert_eq!((replay.late_max_ns, replay.lag_p99_ns), (Some(50_000), Some(198)));
        assert!((replay.planned_seconds - 0.299_000_5).abs() < 1e-12, "{replay:?}");
        assert!((replay.taken_seconds - 0.299_000_9).abs() < 1e-12, "{replay:?}");
        assert!(!replay.is_cached_instead);
    }

    #[test]
    fn a_sync_that_ends_when_another_begins_does_not_overlap_it() {
        let sync = |task, begin| TracedOperation {
            begin,
            nanos: 500,
            task,
            ..short_trace().operations[1]
        };
        let operations = vec![sync(1, 0), sync(2, 500), sync(3, 999)];
        let trace = OperationTrace { operations, ..short_trace() };
        let findings = findings(&trace, &late_by(&trace, 0), 1.0);
        let log = &findings.files[0];
        assert_eq!(log.syncs["fdatasync"], 3);
        assert_eq!((log.syncs_at_once, log.overlapping_syncs, log.syncing_threads), (2, 1, 3));
    }
}
