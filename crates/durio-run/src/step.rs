//! One step: what is effective, the jobs, the events around them.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Barrier, OnceLock};

use durio_block::{EngineFacts, OpenMode, OperationKind, probe_aio, probe_uring};
use durio_plan::{EngineKind, Plan, Step};
use durio_record::{Event, JobEnded, Outcome, StepEnded, StepStarted, StoppedBy, Warning};
use durio_units::{Bytes, Nanos};
use durio_workload::{AtEnd, CacheMode, SyncMethod, Workload, job_seed};

use crate::collector::Collector;
use crate::counters::Watch;
use crate::error::RunError;
use crate::job::{JobInput, JobLimit, JobOutcome, RunClock, Shared, run_job};
use crate::layout::Prepared;
use crate::measured_loop::Failure;
use crate::recorder::{ClosedInterval, IntervalBuffer, operation_records};
use crate::sink::StopFlag;

/// Buffers per job: one that is filled, one with the collector, and one in reserve.
const BUFFERS_PER_JOB: usize = 3;

/// What a step really does, where the target or the kernel does not allow what was planned.
struct Effective {
    engine: EngineKind,
    workload: Workload,
    fallbacks: Vec<String>,
}

/// Runs `step`; every event goes to `emit`.
pub(crate) fn run_step(
    plan: &Plan,
    step: &Step,
    target: &Prepared,
    clock: RunClock,
    devices: &[String],
    stop: &StopFlag,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let effective = effective(step, target)?;
    let jobs = effective.workload.jobs as usize;
    let (closed, intervals) = sync_channel(jobs * BUFFERS_PER_JOB);
    let (ready, readiness) = channel();
    let mut empty_senders = Vec::with_capacity(jobs);
    let mut inputs = Vec::with_capacity(jobs);
    for index in 0..effective.workload.jobs {
        let (sender, empty) = spare_buffers(&effective.workload);
        empty_senders.push(sender);
        let channels = (closed.clone(), empty, ready.clone());
        inputs.push(job_input(plan, step, &effective, target, clock, index, channels)?);
    }
    drop((closed, ready));
    let shared = Shared {
        stop,
        failed: StopFlag::default(),
        gate: Barrier::new(jobs + 1),
        started: OnceLock::new(),
    };
    let mut collector = Collector::new(step, &effective.workload, empty_senders);
    let before = Watch::read(devices);
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> =
            inputs.into_iter().map(|input| scope.spawn(|| run_job(input, &shared))).collect();
        let facts = wait_until_ready(&readiness, jobs);
        if let Ok(facts) = &facts {
            emit(Event::StepStarted(started_event(step, &effective, clock, facts)));
        }
        shared.gate.wait();
        collector.collect(&intervals, &mut *emit);
        let outcomes: Vec<_> =
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        facts.map(|_| outcomes)
    })?;
    let outcomes: Vec<JobOutcome> = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect();
    let watched = Watch::read(devices).since(&before);
    conclude(step, &effective, collector, outcomes, watched, stop, emit)
}

fn spare_buffers(
    workload: &Workload,
) -> (SyncSender<Box<IntervalBuffer>>, Receiver<Box<IntervalBuffer>>) {
    let (sender, receiver) = sync_channel(BUFFERS_PER_JOB);
    // The one in use is the recorder's own.
    for _ in 1..BUFFERS_PER_JOB {
        let sent = sender.try_send(Box::new(IntervalBuffer::new(workload)));
        assert!(sent.is_ok(), "the channel holds all buffers of a job");
    }
    (sender, receiver)
}

type JobChannels = (
    SyncSender<ClosedInterval>,
    Receiver<Box<IntervalBuffer>>,
    std::sync::mpsc::Sender<Result<EngineFacts, RunError>>,
);

fn job_input(
    plan: &Plan,
    step: &Step,
    effective: &Effective,
    target: &Prepared,
    clock: RunClock,
    index: u32,
    (closed, empty, ready): JobChannels,
) -> Result<JobInput, RunError> {
    let workload = &effective.workload;
    let size = plan.target_of(step).size;
    let region = workload
        .region_of(index, size)
        .map_err(|error| RunError::unsupported(error.to_string()))?;
    let file = match effective.engine {
        EngineKind::Null => None,
        _ => Some(target.open(open_mode(workload))?.file),
    };
    Ok(JobInput {
        index: index as usize,
        engine: effective.engine,
        workload: workload.clone(),
        batch: step.batch.submit_max,
        script: step.script.clone(),
        region,
        seed: job_seed(plan.seed, step.index.into(), index.into()),
        limit: JobLimit::of(step, index, workload.jobs),
        file,
        clock,
        closed,
        empty,
        ready,
    })
}

fn open_mode(workload: &Workload) -> OpenMode {
    OpenMode {
        write: workload.writes(),
        direct: workload.cache == CacheMode::Direct,
        data_sync: workload.sync.method == SyncMethod::ODsync,
        sync: workload.sync.method == SyncMethod::OSync,
        exclusive: false,
    }
}

/// Adapts the step to what the target and the kernel allow, and says what was changed.
fn effective(step: &Step, target: &Prepared) -> Result<Effective, RunError> {
    let mut effective =
        Effective { engine: step.engine, workload: step.workload.clone(), fallbacks: Vec::new() };
    if step.engine == EngineKind::Null {
        return Ok(effective);
    }
    adapt_cache(&mut effective, target)?;
    adapt_segment(&mut effective, target);
    adapt_engine(&mut effective);
    Ok(effective)
}

fn adapt_cache(effective: &mut Effective, target: &Prepared) -> Result<(), RunError> {
    let workload = &mut effective.workload;
    if workload.cache == CacheMode::Buffered {
        return Ok(());
    }
    if !target.direct {
        workload.cache = CacheMode::Buffered;
        effective.fallbacks.push(
            "O_DIRECT is not possible here: the page cache was measured, not the device".to_owned(),
        );
        return Ok(());
    }
    // Without the kernel's word, the smallest sector there is.
    let unit = target.alignment.map_or(Bytes::new(512), |alignment| alignment.offset);
    if workload.block_size.is_multiple_of(unit) {
        return Ok(());
    }
    let mut error = RunError::unsupported(format!(
        "a block size of {} is not a multiple of {unit}, which O_DIRECT needs here",
        workload.block_size
    ));
    error.hint = Some("give another --bs, or --buffered".to_owned());
    Err(error)
}

fn adapt_segment(effective: &mut Effective, target: &Prepared) {
    if effective.workload.at_end == AtEnd::Reallocate && !target.reallocates {
        effective.workload.at_end = AtEnd::WrapAround;
        effective.fallbacks.push(
            "this filesystem cannot return a segment to the preallocated state: from its second \
             pass on the segment is overwritten in place"
                .to_owned(),
        );
    }
}

fn adapt_engine(effective: &mut Effective) {
    let probe = match effective.engine {
        EngineKind::Uring => probe_uring(),
        EngineKind::Aio => probe_aio(),
        EngineKind::Sync | EngineKind::Null => Ok(()),
    };
    let Err(error) = probe else { return };
    let workload = &mut effective.workload;
    effective.fallbacks.push(format!(
        "{} is not available ({error}: {}); sync with {} jobs of depth 1 stands in for it",
        effective.engine,
        error.source,
        workload.in_flight_max()
    ));
    effective.engine = EngineKind::Sync;
    workload.jobs *= workload.depth;
    workload.depth = 1;
}

/// One answer of each job: the facts of the first, which stand for all, or the first refusal.
fn wait_until_ready(
    readiness: &Receiver<Result<EngineFacts, RunError>>,
    jobs: usize,
) -> Result<EngineFacts, RunError> {
    let mut facts: Option<EngineFacts> = None;
    let mut refusal = None;
    for answer in readiness.iter().take(jobs) {
        match answer {
            Ok(more) => match &mut facts {
                // Jobs share a limit on locked memory, so only some may have fallen back.
                Some(known) => {
                    for fallback in more.fallbacks {
                        if !known.fallbacks.contains(&fallback) {
                            known.fallbacks.push(fallback);
                        }
                    }
                }
                None => facts = Some(more),
            },
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match refusal {
        Some(error) => Err(error),
        None => facts.ok_or_else(|| RunError::unsupported("no job could be started")),
    }
}

fn started_event(
    step: &Step,
    effective: &Effective,
    clock: RunClock,
    facts: &EngineFacts,
) -> StepStarted {
    let workload = &effective.workload;
    let clock = match (effective.engine, clock) {
        (EngineKind::Null, _) => "virtual",
        (_, RunClock::Tsc(_)) => "tsc",
        (_, RunClock::Monotonic(_)) => "monotonic",
    };
    let mut fallbacks = effective.fallbacks.clone();
    fallbacks.extend(facts.fallbacks.iter().cloned());
    StepStarted {
        step: step.index,
        engine: effective.engine,
        jobs: workload.jobs,
        depth: workload.depth,
        batch: step.batch.submit_max.min(workload.depth),
        cache: workload.cache,
        region: workload.region,
        clock: clock.to_owned(),
        features: facts.features.clone(),
        fallbacks,
    }
}

fn conclude(
    step: &Step,
    effective: &Effective,
    mut collector: Collector<'_>,
    outcomes: Vec<JobOutcome>,
    (cpu, devices): (Option<durio_stack::CpuCounters>, Vec<durio_stack::DeviceCounters>),
    stop: &StopFlag,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let end = outcomes.iter().map(|outcome| outcome.end).max().unwrap_or(Nanos::ZERO);
    collector.finish(end, &mut *emit);
    let measured = outcomes.iter().map(|outcome| outcome.result.measured).max();
    let waits: u64 = outcomes.iter().map(|outcome| outcome.recorder_waits).sum();
    if waits > 0 {
        emit(Event::Warning(Warning {
            message: format!(
                "step {}: jobs waited {waits} times for the recorder; the waits are in the latencies",
                step.index
            ),
        }));
    }
    let totals = std::mem::take(&mut collector.totals);
    let mut error = None;
    for ((job, outcome), counted) in (0..).zip(outcomes).zip(totals) {
        let result = outcome.result;
        error = error.or(job_error(step, effective, result.failure, result.engine_error));
        emit(Event::JobEnded(JobEnded {
            step: step.index,
            job,
            measured: result.measured,
            cpu_user: outcome.cpu_user,
            cpu_system: outcome.cpu_system,
            exchanges: result.exchanges,
            accounting: result.accounting,
            operations: operation_records(counted, outcome.parts),
        }));
    }
    let outcome = match (&error, stop.is_set()) {
        (Some((stopped, _)), _) => {
            emit(Event::Error(stopped.clone()));
            Outcome::Failed
        }
        (None, true) => Outcome::Interrupted,
        (None, false) => Outcome::Complete,
    };
    let measured = measured.unwrap_or(Nanos::ZERO);
    emit(Event::StepEnded(StepEnded { step: step.index, outcome, measured, cpu, devices }));
    match error {
        Some((_, error)) => Err(error),
        None => Ok(outcome),
    }
}

/// What ended a job, for the record and for the caller.
fn job_error(
    step: &Step,
    effective: &Effective,
    failure: Option<Failure>,
    engine_error: Option<durio_block::BlockError>,
) -> Option<(StoppedBy, RunError)> {
    let name = &effective.workload.name;
    if let Some(failure) = failure {
        let (what, source) = describe(&failure);
        let message = format!("{name}: {what}");
        let stopped = StoppedBy {
            step: Some(step.index),
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
        step: Some(step.index),
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
