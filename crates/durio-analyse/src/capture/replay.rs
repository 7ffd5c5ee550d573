//! A replay as a capture: the same figures of what was done again, and how punctual it was.
//!
//! In: the trace and each operation as it went. Out: [`CaptureFindings`] with the traced capture beside it. Not
//! here: doing it.

use durio_observe::{CaptureEnd, CaptureEvent};
use durio_record::{OperationTrace, ReplayedOperation};
use serde::Serialize;

use super::{Capture, CaptureFindings, CaptureSource, EarlierCapture};

/// A replay that ended so much later than it should have did not keep up, as a share of its time.
// Durio's choice: rates are then off by as much.
const BEHIND_MAX: f64 = 0.01;

/// How punctual a replay was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReplayFindings {
    /// So many times as fast as the trace.
    pub speed: f64,
    /// Operations of the trace.
    pub operations: usize,
    /// Those that were done.
    pub done: usize,
    /// Threads.
    pub threads: usize,
    /// Seconds from the first begin to the last end, as they should have been.
    pub planned_seconds: f64,
    /// As they were.
    pub taken_seconds: f64,
    /// True if it ended when it should have, within 1 %.
    pub kept_up: bool,
    /// From when an operation was due to its begin, median.
    pub late_p50_ns: u64,
    /// The same, 99 of 100.
    pub late_p99_ns: u64,
    /// The most.
    pub late_max_ns: u64,
    /// Operations that were due before those had ended that they had to wait for: the storage's doing.
    pub held: usize,
    /// How late operations began that nothing held, 99 of 100: durio's own doing.
    pub lag_p99_ns: u64,
    /// The trace has O_DIRECT, the storage has not: such writes went through the page cache.
    pub is_cached_instead: bool,
}

/// A trace that was done again.
#[derive(Debug, Clone, Copy)]
pub struct Replayed<'a> {
    /// The trace.
    pub trace: &'a OperationTrace,
    /// So many times as fast.
    pub speed: f64,
    /// Each operation that was done.
    pub operations: &'a [ReplayedOperation],
    /// Bytes of each file at the end.
    pub sizes: &'a [u64],
    /// O_DIRECT was not possible.
    pub is_cached_instead: bool,
    /// The user ended it.
    pub interrupted: bool,
}

impl CaptureFindings {
    /// What a replay did, with the capture of its trace beside it.
    ///
    /// # Errors
    /// What is wrong with the capture in the trace, in words.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times of one capture, which are not negative"
    )]
    pub fn of_replay(it: &Replayed<'_>, source: CaptureSource) -> Result<Self, String> {
        let mut before = EarlierCapture::parse(&it.trace.capture.to_string())?;
        before.speed_up(it.speed);
        let punctuality = punctuality(it);
        let mut capture = Capture::default();
        feed(it, &mut capture);
        // As long as was watched: with what was idle before the first operation and after the last.
        let idle = (before.seconds - punctuality.planned_seconds).max(0.0);
        let idle = if it.interrupted { 0.0 } else { idle };
        let end = CaptureEnd {
            duration_ns: ((punctuality.taken_seconds + idle) * 1e9) as u64,
            processes: 1,
            sizes: it.sizes.iter().copied().map(Some).collect(),
            ended_early: it.interrupted.then(|| {
                let (done, all) = (it.operations.len(), it.trace.operations.len());
                format!("it was interrupted after {done} of {all} operations")
            }),
            ..CaptureEnd::default()
        };
        let mut findings = capture.finish(&end, source);
        findings.compare_with(&before);
        findings.replay = Some(punctuality);
        Ok(findings)
    }
}

/// Tells a capture what was done.
fn feed(it: &Replayed<'_>, capture: &mut Capture) {
    for file in &it.trace.files {
        capture.take(CaptureEvent::File(file.clone()));
    }
    // What ended at a moment ended before what began then.
    let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * it.operations.len());
    for (place, done) in it.operations.iter().enumerate() {
        moments.extend([(done.begin, true, place), (done.end, false, place)]);
    }
    moments.sort_unstable();
    for (at, begins, place) in moments {
        let Some(traced) = it.trace.operations.get(it.operations[place].operation) else {
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

#[expect(clippy::cast_precision_loss, reason = "times of one capture")]
fn punctuality(it: &Replayed<'_>) -> ReplayFindings {
    let trace = it.trace;
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let planned = trace.operations.iter().map(|it| it.end()).max().unwrap_or(0);
    let planned_seconds = seconds(planned) / it.speed;
    let taken_seconds = seconds(it.operations.iter().map(|it| it.end).max().unwrap_or(0));
    let mut late: Vec<u64> =
        it.operations.iter().map(|it| it.begin.saturating_sub(it.due)).collect();
    let free = it.operations.iter().filter(|it| it.ready <= it.due);
    let mut lag: Vec<u64> = free.map(|it| it.begin.saturating_sub(it.due)).collect();
    late.sort_unstable();
    lag.sort_unstable();
    let at = |sorted: &[u64], percent: usize| {
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or(0)
    };
    let tasks: std::collections::BTreeSet<u32> =
        trace.operations.iter().map(|it| it.task).collect();
    ReplayFindings {
        speed: it.speed,
        operations: trace.operations.len(),
        done: it.operations.len(),
        threads: tasks.len(),
        planned_seconds,
        taken_seconds,
        kept_up: taken_seconds <= planned_seconds * (1.0 + BEHIND_MAX),
        late_p50_ns: at(&late, 50),
        late_p99_ns: at(&late, 99),
        late_max_ns: at(&late, 100),
        held: it.operations.len() - lag.len(),
        lag_p99_ns: at(&lag, 99),
        is_cached_instead: it.is_cached_instead,
    }
}

#[cfg(test)]
mod tests {
    use super::super::BesideFigure;
    use super::super::tests::short_trace;
    use super::*;

    /// The trace done again, each operation so many nanoseconds late and as long as before.
    fn late_by(trace: &OperationTrace, late: u64) -> Vec<ReplayedOperation> {
        let done = |(operation, it): (usize, &durio_record::TracedOperation)| ReplayedOperation {
            operation,
            due: it.begin,
            ready: if late > 1000 { it.begin + late } else { 0 },
            begin: it.begin + late,
            end: it.end() + late,
        };
        trace.operations.iter().enumerate().map(done).collect()
    }

    fn findings(
        trace: &OperationTrace,
        operations: &[ReplayedOperation],
        speed: f64,
    ) -> CaptureFindings {
        let sizes = vec![1; trace.files.len()];
        let it = Replayed {
            trace,
            speed,
            operations,
            sizes: &sizes,
            is_cached_instead: false,
            interrupted: operations.len() < trace.operations.len(),
        };
        CaptureFindings::of_replay(&it, CaptureSource::default()).unwrap()
    }

    fn ratio(findings: &CaptureFindings, figure: BesideFigure) -> Option<f64> {
        let rows = &findings.beside.as_ref().unwrap().rows;
        rows.iter().find(|it| it.figure == figure).and_then(|it| it.ratio)
    }

    #[test]
    fn a_replay_that_went_as_the_trace_did_has_its_figures() {
        let trace = short_trace();
        let findings = findings(&trace, &late_by(&trace, 300), 1.0);
        let replay = findings.replay.unwrap();
        assert_eq!((replay.done, replay.threads, replay.held), (trace.operations.len(), 3, 0));
        assert_eq!((replay.late_p50_ns, replay.late_max_ns, replay.lag_p99_ns), (300, 300, 300));
        assert!(replay.kept_up);
        let rows = &findings.beside.as_ref().unwrap().rows;
        assert!(
            rows.iter().all(|it| it.ratio.is_none_or(|it| (it - 1.0).abs() < 1e-3)),
            "{rows:?}"
        );
        assert_eq!(ratio(&findings, BesideFigure::SyncP50), Some(1.0));
        // Nobody looked at the devices of the replay.
        assert_eq!(ratio(&findings, BesideFigure::DeviceWrites), None);
    }

    #[test]
    fn what_was_held_is_the_storages_doing_and_no_lag() {
        let trace = short_trace();
        let findings = findings(&trace, &late_by(&trace, 5_000_000), 1.0);
        let replay = findings.replay.unwrap();
        assert_eq!((replay.held, replay.lag_p99_ns), (trace.operations.len(), 0));
        assert!(!replay.kept_up && replay.late_p50_ns == 5_000_000);
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
        assert!(findings.replay.unwrap().kept_up);
        let writes = ratio(&findings, BesideFigure::Writes).unwrap();
        assert!((writes - 1.0).abs() < 1e-3, "{writes}");
    }

    #[test]
    fn of_an_interrupted_one_rates_are_of_what_was_done() {
        let trace = short_trace();
        let all = late_by(&trace, 0);
        let findings = findings(&trace, &all[..4], 1.0);
        assert!(findings.ended_early.as_ref().is_some_and(|it| it.contains("after 4 of")));
        assert_eq!(findings.writes + findings.durable, 4);
        assert!((findings.seconds - findings.replay.unwrap().taken_seconds).abs() < 1e-9);
    }

    #[test]
    fn a_trace_whose_capture_cannot_be_read_is_refused() {
        let trace = OperationTrace { capture: serde_json::json!({}), ..short_trace() };
        let it = Replayed {
            trace: &trace,
            speed: 1.0,
            operations: &[],
            sizes: &[],
            is_cached_instead: false,
            interrupted: true,
        };
        CaptureFindings::of_replay(&it, CaptureSource::default()).unwrap_err();
    }
}
