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
            run_delay: outcome.usage.run_delay,
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
            "this kernel or filesystem does not support the call or one of its flags; choose \
             another sync method or engine",
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
    use durio_block::{BlockError, ErrorKind};
    use durio_plan::{EngineKind, Limit, Load, Role, Step};
    use durio_record::{OperationName, OperationRecord};
    use durio_workload::{Workload, self_cost_workload};

    use super::*;
    use crate::collector::StepStream;
    use crate::counters::ThreadUsage;
    use crate::measured_loop::LoopResult;

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
        assert!(error.hint.unwrap().contains("another sync method"));
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

    #[test]
    fn a_transfer_that_is_not_whole_has_no_number_of_an_error() {
        let ended = |kind, result| {
            let failure = Some(JobFailure { kind, offset: 8192, length: 4096, result });
            job_error(5, "scan", EarlyEnding { failure, engine_error: None }).unwrap()
        };
        let (stopped, error) = ended(OperationKind::Read, 512);
        assert_eq!(stopped.message, "scan: a read of 4096 B at offset 8192 moved only 512 B");
        assert_eq!((stopped.step, stopped.errno, error.errno()), (Some(5), None, None));
        assert_eq!((stopped.offset, error.kind), (Some(Bytes::new(8192)), RunErrorKind::Target));
        let (stopped, _) = ended(OperationKind::Write, 0);
        assert_eq!(stopped.message, "scan: a write of 4096 B at offset 8192 moved only 0 B");
        let (stopped, error) = ended(OperationKind::Read, -5);
        assert_eq!(stopped.message, "scan: cannot read 4096 B at offset 8192");
        assert_eq!((stopped.errno, error.errno()), (Some(5), Some(5)));
        for (kind, message) in [
            (OperationKind::Fsync, "scan: fsync failed"),
            (OperationKind::Reallocate, "scan: fallocate failed"),
        ] {
            assert_eq!(ended(kind, -28).0.message, message);
        }
    }

    #[test]
    fn an_error_of_the_engine_is_told_where_no_operation_failed() {
        let busy = || {
            let source = std::io::Error::from_raw_os_error(16);
            Some(BlockError { kind: ErrorKind::Busy, operation: "submit", subject: None, source })
        };
        let ending = EarlyEnding { failure: None, engine_error: busy() };
        let (stopped, error) = job_error(2, "scan", ending).unwrap();
        assert_eq!((stopped.message.as_str(), stopped.errno), ("scan: cannot submit", Some(16)));
        assert_eq!((stopped.offset, error.kind), (None, RunErrorKind::Target));
        let (kind, offset, length, result) = (OperationKind::Fsync, 0, 0, -5);
        let failure = Some(JobFailure { kind, offset, length, result });
        let both = EarlyEnding { failure, engine_error: busy() };
        assert_eq!(job_error(2, "scan", both).unwrap().0.errno, Some(5));
        assert!(job_error(2, "scan", EarlyEnding::default()).is_none());
    }

    #[test]
    fn an_error_counts_for_more_than_a_wish_to_stop() {
        let of = |error: &Option<(StoppedBy, RunError)>, interrupted| {
            let mut errors = 0;
            let outcome = outcome_of(error, interrupted, &mut |event| {
                assert!(matches!(event, Event::Error(_)), "{event:?}");
                errors += 1;
            });
            (outcome, errors)
        };
        assert_eq!(of(&None, false), (Outcome::Complete, 0));
        assert_eq!(of(&None, true), (Outcome::Interrupted, 0));
        let error = Some(ended_by(OperationKind::Fsync, Errno::IO));
        assert_eq!([of(&error, false), of(&error, true)], [(Outcome::Failed, 1); 2]);
    }

    /// Of step 6: jobs 0 and 1 of one load, and job 2 of another.
    fn two_loads() -> Collector {
        let small = self_cost_workload(1);
        let large = Workload { name: "large".to_owned(), ..small.clone() };
        let load = Load::new(0, small.clone(), EngineKind::Null);
        let step = Step::new(Role::Measure, load, Limit::Operations(2), Nanos::new(5000));
        let streams = [(small, 2), (large, 1)];
        let streams = streams.map(|(workload, jobs)| StepStream { workload, target: 0, jobs });
        let (empty, _) = std::sync::mpsc::sync_channel(1);
        Collector::new(&Step { index: 6, ..step }, 4, streams.into(), vec![empty; 3])
    }

    fn ended(index: u32, (measured, end): (u64, u64), recorder_waits: u64) -> JobOutcome {
        let (measured, exchanges) = (Nanos::new(measured), u64::from(index) + 40);
        JobOutcome {
            index,
            result: LoopResult { measured, exchanges, ..LoopResult::default() },
            parts: Default::default(),
            usage: ThreadUsage { user: Nanos::new(exchanges + 10), ..ThreadUsage::default() },
            recorder_waits,
            end: Nanos::new(end),
        }
    }

    #[test]
    fn the_first_job_that_failed_is_named_by_its_own_load() {
        let failed = |jobs: &[usize]| {
            let mut outcomes = [0, 1, 2].map(|index| ended(index, (1, 1), 0));
            for &job in jobs {
                let (kind, offset, length) = (OperationKind::Fsync, 0, 0);
                let failure = JobFailure { kind, offset, length, result: -5 };
                outcomes[job].result.ending.keep(failure);
            }
            first_error(&two_loads(), &mut outcomes).map(|(stopped, _)| stopped.message)
        };
        assert_eq!(failed(&[]), None);
        assert_eq!(failed(&[1, 2]).unwrap(), "self: fsync failed");
        assert_eq!(failed(&[2]).unwrap(), "large: fsync failed");
    }

    /// The second job takes the longest, the third ends last.
    #[test]
    fn each_job_is_told_with_its_own_numbers_and_the_step_with_the_largest() {
        let mut collector = two_loads();
        for (job, count) in [(0, 3), (2, 9)] {
            let mut reads = OperationRecord::new(OperationName::Read);
            (0..count).for_each(|_| reads.service.record(100));
            collector.totals[job].push(reads);
        }
        let outcomes =
            vec![ended(0, (500, 900), 2), ended(1, (800, 850), 0), ended(2, (300, 1000), 3)];
        let process = ThreadUsage { system: Nanos::new(99), ..ThreadUsage::default() };
        let watched = CounterChanges { cpu: None, devices: Vec::new(), process };
        let (mut intervals, mut jobs, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut warnings = Vec::new();
        let mut emit = |event: Event| match event {
            Event::Interval(interval) => intervals.push((interval.stream, interval.to.get())),
            Event::JobEnded(job) => {
                let count: u64 = job.operations.iter().map(|reads| reads.service.exact.count).sum();
                let place = (job.step, job.round, job.stream, job.job);
                jobs.push((place, job.measured.get(), (job.exchanges, job.cpu_user.get()), count));
            }
            Event::Warning(warning) => warnings.push(warning.message),
            Event::StepEnded(step) => {
                let place = (step.step, step.round, step.outcome);
                let system = step.cpu_process_system.map(Nanos::get);
                steps.push((place, step.measured.get(), step.idle_before.map(Nanos::get), system));
            }
            other => panic!("{other:?}"),
        };
        let watched = (watched, Some(Nanos::new(77)));
        let outcome = conclude(collector, outcomes, watched, None, true, &mut emit).unwrap();
        assert_eq!(outcome, Outcome::Interrupted);
        assert_eq!(intervals, [(0, 1000), (1, 1000)]);
        let expected = [
            ((6, 4, 0, 0), 500, (40, 50), 3),
            ((6, 4, 0, 1), 800, (41, 51), 0),
            ((6, 4, 1, 2), 300, (42, 52), 9),
        ];
        assert_eq!(jobs, expected);
        assert_eq!(steps, [((6, 4, Outcome::Interrupted), 800, Some(77), Some(99))]);
        assert!(warnings.len() == 1 && warnings[0].contains("waited 5 times"), "{warnings:?}");
    }
}
