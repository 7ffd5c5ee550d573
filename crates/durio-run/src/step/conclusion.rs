//! The end of a step: the events that tell of its jobs, and what ended it.

use durio_block::OperationKind;
use durio_record::{Event, JobEnded, Outcome, StepEnded, StoppedBy, Warning};
use durio_units::{Bytes, Nanos};

use crate::collector::Collector;
use crate::counters::Watched;
use crate::error::RunError;
use crate::job::JobOutcome;
use crate::measured_loop::Failure;
use crate::recorder::operation_records;

/// What is left of a step when its jobs have ended.
pub(super) struct Conclusion {
    pub(super) step: u32,
    pub(super) round: u32,
    /// Names of the streams' workloads.
    pub(super) names: Vec<String>,
    pub(super) collector: Collector,
    pub(super) outcomes: Vec<JobOutcome>,
    pub(super) watched: Watched,
    pub(super) idle_before: Option<Nanos>,
    pub(super) interrupted: bool,
}

/// Emits what is left to tell; an error is that which ended the step.
pub(super) fn conclude(
    conclusion: Conclusion,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let Conclusion { step, round, names, mut collector, outcomes, watched, .. } = conclusion;
    let end = outcomes.iter().map(|outcome| outcome.end).max().unwrap_or(Nanos::ZERO);
    collector.finish(end, &mut *emit);
    let measured = outcomes.iter().map(|outcome| outcome.result.measured).max();
    let waits: u64 = outcomes.iter().map(|outcome| outcome.recorder_waits).sum();
    if waits > 0 {
        emit(Event::Warning(Warning {
            message: format!(
                "step {step}: jobs waited {waits} times for the recorder; the waits are in the latencies"
            ),
        }));
    }
    let mut totals = std::mem::take(&mut collector.totals);
    let mut error = None;
    for outcome in outcomes {
        let counted = std::mem::take(&mut totals[outcome.index as usize]);
        let result = outcome.result;
        let stream = collector.stream_of(outcome.index);
        let name = names.get(stream as usize).map_or("", String::as_str);
        error = error.or_else(|| job_error(step, name, result.failure, result.engine_error));
        emit(Event::JobEnded(JobEnded {
            batches: result.batches,
            step,
            round,
            stream,
            job: outcome.index,
            measured: result.measured,
            cpu_user: outcome.cpu_user,
            cpu_system: outcome.cpu_system,
            exchanges: result.exchanges,
            accounting: result.accounting,
            pacing: result.pacing,
            operations: operation_records(counted, outcome.parts),
        }));
    }
    let outcome = match (&error, conclusion.interrupted) {
        (Some((stopped, _)), _) => {
            emit(Event::Error(stopped.clone()));
            Outcome::Failed
        }
        (None, true) => Outcome::Interrupted,
        (None, false) => Outcome::Complete,
    };
    let measured = measured.unwrap_or(Nanos::ZERO);
    emit(Event::StepEnded(StepEnded {
        step,
        round,
        outcome,
        measured,
        cpu: watched.cpu,
        devices: watched.devices,
        idle_before: conclusion.idle_before,
        cpu_process_user: Some(watched.process.0),
        cpu_process_system: Some(watched.process.1),
    }));
    match error {
        Some((_, error)) => Err(error),
        None => Ok(outcome),
    }
}

/// What ended a job, for the record and for the caller.
fn job_error(
    step: u32,
    name: &str,
    failure: Option<Failure>,
    engine_error: Option<durio_block::BlockError>,
) -> Option<(StoppedBy, RunError)> {
    if let Some(failure) = failure {
        let (what, source) = describe(&failure);
        let message = format!("{name}: {what}");
        let stopped = StoppedBy {
            step: Some(step),
            message: message.clone(),
            errno: (failure.result < 0).then_some(-failure.result),
            offset: Some(Bytes::new(failure.offset)),
        };
        let mut error = RunError::target(message, source.map(Into::into));
        error.hint =
            Some("the storage failed, not durio; the kernel's log (dmesg) may say more".to_owned());
        return Some((stopped, error));
    }
    let error = RunError::from(engine_error?);
    let stopped = StoppedBy {
        step: Some(step),
        message: format!("{name}: {error}"),
        errno: error.errno(),
        offset: None,
    };
    Some((stopped, error))
}

fn describe(failure: &Failure) -> (String, Option<std::io::Error>) {
    let verb = match failure.kind {
        OperationKind::Read => "read",
        OperationKind::Write => "write",
        OperationKind::Fsync => return ("fsync failed".to_owned(), system_error(failure.result)),
        OperationKind::Fdatasync => {
            return ("fdatasync failed".to_owned(), system_error(failure.result));
        }
        OperationKind::Reallocate => {
            return ("fallocate failed".to_owned(), system_error(failure.result));
        }
    };
    let place = format!("{} B at offset {}", failure.length, failure.offset);
    match system_error(failure.result) {
        Some(error) => (format!("cannot {verb} {place}"), Some(error)),
        None => (format!("a {verb} of {place} moved only {} B", failure.result), None),
    }
}

fn system_error(result: i32) -> Option<std::io::Error> {
    (result < 0).then(|| std::io::Error::from_raw_os_error(-result))
}
