//! The end of a step: the events that tell of its jobs, and what ended it.

use durio_block::OperationKind;
use durio_record::{Event, JobEnded, Outcome, StepEnded, StoppedBy, Warning};
use durio_units::{Bytes, Nanos};
use rustix::io::Errno;

use crate::collector::Collector;
use crate::counters::Watched;
use crate::error::{RunError, RunErrorKind};
use crate::job::JobOutcome;
use crate::measured_loop::Failure;
use crate::recorder::operation_records;
use crate::refusal::is_refusal;

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
    /// The run goes on without the step if it is refused: then nothing more is told of it here.
    pub(super) declinable: bool,
}

/// Emits what is left to tell; an error is that which ended the step.
pub(super) fn conclude(
    conclusion: Conclusion,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let Conclusion { step, round, names, mut collector, mut outcomes, watched, .. } = conclusion;
    let error = first_error(step, &names, &collector, &mut outcomes);
    let error = match error {
        Some((_, error)) if conclusion.declinable && is_refusal(&error) => return Err(error),
        other => other,
    };
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
    for outcome in outcomes {
        let counted = std::mem::take(&mut totals[outcome.index as usize]);
        let result = outcome.result;
        let stream = collector.stream_of(outcome.index);
        emit(Event::JobEnded(JobEnded {
            batches: result.batches,
            step,
            round,
            stream,
            job: outcome.index,
            measured: result.measured,
            cpu_user: outcome.usage.user,
            cpu_system: outcome.usage.system,
            context_switches: outcome.usage.switches,
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
        cpu_process_user: Some(watched.process.user),
        cpu_process_system: Some(watched.process.system),
        context_switches: watched.process.switches,
    }));
    match error {
        Some((_, error)) => Err(error),
        None => Ok(outcome),
    }
}

/// What ended the first job that failed.
fn first_error(
    step: u32,
    names: &[String],
    collector: &Collector,
    outcomes: &mut [JobOutcome],
) -> Option<(StoppedBy, RunError)> {
    outcomes.iter_mut().find_map(|outcome| {
        let stream = collector.stream_of(outcome.index);
        let name = names.get(stream as usize).map_or("", String::as_str);
        let result = &mut outcome.result;
        job_error(step, name, result.failure.take(), result.engine_error.take())
    })
}

/// What ended a job, for the record and for the caller.
pub(crate) fn job_error(
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
        return Some((stopped, failed(&failure, message, source)));
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

fn failed(failure: &Failure, message: String, source: Option<std::io::Error>) -> RunError {
    let mut error = RunError::target(message, source.map(Into::into));
    let unknown = [Errno::OPNOTSUPP, Errno::NOSYS].map(|errno| -errno.raw_os_error());
    let hint = if unknown.contains(&failure.result) {
        error.kind = RunErrorKind::Unsupported;
        "this kernel or filesystem does not know the call, or a flag of it; choose another way to \
         make writes durable, or another engine"
    } else {
        "the storage failed, not durio; the kernel's log (dmesg) may say more"
    };
    error.hint = Some(hint.to_owned());
    error
}

fn describe(failure: &Failure) -> (String, Option<std::io::Error>) {
    let verb = match failure.kind {
        OperationKind::Read => "read",
        OperationKind::Write => "write",
        OperationKind::Fsync => return ("fsync failed".to_owned(), system_error(failure.result)),
        OperationKind::Fdatasync => {
            return ("fdatasync failed".to_owned(), system_error(failure.result));
        }
        OperationKind::SyncFileRange => {
            return ("sync_file_range failed".to_owned(), system_error(failure.result));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_by(kind: OperationKind, errno: Errno) -> (StoppedBy, RunError) {
        let result = -errno.raw_os_error();
        let failure = Failure { kind, offset: 4096, length: 512, result };
        job_error(3, "commit", Some(failure), None).unwrap()
    }

    #[test]
    fn a_call_that_the_kernel_does_not_know_is_named_and_is_not_the_storages_fault() {
        let (stopped, error) = ended_by(OperationKind::SyncFileRange, Errno::NOSYS);
        assert_eq!(stopped.message, "commit: sync_file_range failed");
        assert_eq!((stopped.step, stopped.errno), (Some(3), Some(38)));
        assert_eq!(error.kind, RunErrorKind::Unsupported);
        assert!(error.hint.unwrap().contains("another way"));
        let (stopped, error) = ended_by(OperationKind::Write, Errno::OPNOTSUPP);
        assert_eq!(stopped.message, "commit: cannot write 512 B at offset 4096");
        assert_eq!(error.kind, RunErrorKind::Unsupported);
    }

    #[test]
    fn an_error_of_the_storage_is_the_storages() {
        let (stopped, error) = ended_by(OperationKind::Fdatasync, Errno::IO);
        assert_eq!(stopped.message, "commit: fdatasync failed");
        assert_eq!(error.kind, RunErrorKind::Target);
        assert!(error.hint.unwrap().contains("the storage failed"));
    }
}
