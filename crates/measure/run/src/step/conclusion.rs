//! The end of a step: the events that report its jobs, and the error that ended it.

use durio_base::{Bytes, Nanos};
use durio_block::OperationKind;
use durio_record::{Event, JobEnded, Outcome, StepEnded, StoppedBy, Warning};
use rustix::io::Errno;

use crate::collector::Collector;
use crate::counters::CounterChanges;
use crate::error::{RunError, RunErrorKind};
use crate::job_input::JobOutcome;
use crate::measured_loop::{EarlyEnding, JobFailure};
use crate::recorder::finish_records;

/// Emits the remaining events of a step whose jobs have ended.
pub(super) fn conclude(
    mut collector: Collector,
    outcomes: Vec<JobOutcome>,
    (watched, idle_before): (CounterChanges, Option<Nanos>),
    error: Option<(StoppedBy, RunError)>,
    interrupted: bool,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let (step, round) = (collector.step, collector.round);
    let end = outcomes.iter().map(|outcome| outcome.end).max().unwrap_or(Nanos::ZERO);
    collector.finish(end, &mut *emit);
    // A step takes as long as its longest job.
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
        emit(Event::JobEnded(JobEnded {
            batches: result.batches,
            step,
            round,
            stream: collector.stream_of(outcome.index),
            job: outcome.index,
            measured: result.measured,
            cpu_user: outcome.usage.user,
            cpu_system: outcome.usage.system,
            context_switches: outcome.usage.switches,
            exchanges: result.exchanges,
            accounting: result.accounting,
            pacing: result.pacing,
            operations: finish_records(counted, outcome.parts),
        }));
    }
    // The end of the step comes last, and is synced: a reader who finds it has all of the step.
    let outcome = outcome_of(&error, interrupted, emit);
    let process = watched.process;
    let ended = watched.step_ended(step, round, outcome, measured.unwrap_or(Nanos::ZERO));
    emit(Event::StepEnded(StepEnded {
        idle_before,
        cpu_process_user: Some(process.user),
        cpu_process_system: Some(process.system),
        context_switches: process.switches,
        ..ended
    }));
    error.map_or(Ok(outcome), |(_, error)| Err(error))
}

/// How a step ended; an error is emitted.
pub(crate) fn outcome_of(
    error: &Option<(StoppedBy, RunError)>,
    interrupted: bool,
    emit: &mut dyn FnMut(Event),
) -> Outcome {
    if let Some((stopped, _)) = error {
        emit(Event::Error(stopped.clone()));
        return Outcome::Failed;
    }
    if interrupted { Outcome::Interrupted } else { Outcome::Complete }
}

/// What ended the first job that failed.
pub(super) fn first_error(
    collector: &Collector,
    outcomes: &mut [JobOutcome],
) -> Option<(StoppedBy, RunError)> {
    outcomes.iter_mut().find_map(|outcome| {
        let ending = std::mem::take(&mut outcome.result.ending);
        job_error(collector.step, collector.name_of(outcome.index), ending)
    })
}

/// What ended a job, for the record and for the caller.
pub(crate) fn job_error(
    step: u32,
    name: &str,
    ending: EarlyEnding,
) -> Option<(StoppedBy, RunError)> {
    if let Some(failure) = ending.failure {
        let message = format!("{name}: {}", described(&failure));
        let stopped = StoppedBy {
            step: Some(step),
            message: message.clone(),
            errno: (failure.result < 0).then_some(-failure.result),
            offset: Some(Bytes::new(failure.offset)),
        };
        return Some((stopped, failed(&failure, message)));
    }
    let error = RunError::from(ending.engine_error?);
    let stopped = StoppedBy {
        step: Some(step),
        message: format!("{name}: {error}"),
        errno: error.errno(),
        offset: None,
    };
    Some((stopped, error))
}

fn failed(failure: &JobFailure, message: String) -> RunError {
    let mut error = RunError::target(message);
    if failure.result < 0 {
        error = error.because(std::io::Error::from_raw_os_error(-failure.result));
    }
    // pwritev2(2), sync_file_range(2) and fallocate(2) answer so where they, or a flag, are missing.
    let unknown = [Errno::OPNOTSUPP, Errno::NOSYS].map(|errno| -errno.raw_os_error());
    if unknown.contains(&failure.result) {
        error.kind = RunErrorKind::Unsupported;
        return error.hint(
            "this kernel or filesystem does not know the call, or a flag of it; choose another way \
             to make writes durable, or another engine",
        );
    }
    error.hint("the storage failed, not durio; the kernel's log (dmesg) may say more")
}

fn described(failure: &JobFailure) -> String {
    let verb = match failure.kind {
        OperationKind::Read => "read",
        OperationKind::Write => "write",
        OperationKind::Fsync => return "fsync failed".to_owned(),
        OperationKind::Fdatasync => return "fdatasync failed".to_owned(),
        OperationKind::SyncFileRange => return "sync_file_range failed".to_owned(),
        OperationKind::Reallocate => return "fallocate failed".to_owned(),
    };
    let place = format!("{} B at offset {}", failure.length, failure.offset);
    match failure.result {
        ..0 => format!("cannot {verb} {place}"),
        moved => format!("a {verb} of {place} moved only {moved} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_by(kind: OperationKind, errno: Errno) -> (StoppedBy, RunError) {
        let result = -errno.raw_os_error();
        let failure = JobFailure { kind, offset: 4096, length: 512, result };
        job_error(3, "commit", EarlyEnding { failure: Some(failure), engine_error: None }).unwrap()
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
