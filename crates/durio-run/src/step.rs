//! One step: what is effective, the jobs, the events around them.

#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use durio_block::{EngineFacts, OpenMode, OperationKind, probe_aio, probe_uring};
use durio_plan::{EngineKind, Plan, Role, Step};
use durio_record::{Event, JobEnded, Outcome, StepEnded, StepStarted, StoppedBy, Warning};
use durio_units::{Bytes, Nanos};
use durio_workload::{AtEnd, CacheMode, Pattern, Region, SyncMethod, Workload, job_seed};

use crate::collector::Collector;
use crate::counters::{Watch, Watched};
use crate::error::RunError;
use crate::gate::{AbortOnDrop, Answer, Gate, Readiness, Word};
use crate::job::{JobInput, JobLimit, JobOutcome, RunClock, Shared, run_job};
use crate::layout::Prepared;
use crate::measured_loop::Failure;
use crate::memory;
use crate::recorder::{ClosedInterval, IntervalBuffer, operation_records};
use crate::sink::StopFlag;

/// Buffers per job: one that is filled, one with the collector, and one in reserve.
pub(crate) const BUFFERS_PER_JOB: usize = 3;

/// What a step really does, where the target or the kernel does not allow what was planned.
struct Effective {
    engine: EngineKind,
    workload: Workload,
    /// How many jobs of depth 1 stand in for each planned one; 1 if none do.
    stand_ins: u32,
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
    let mut effective = effective(step, target)?;
    let files = open_files(&mut effective, target)?;
    let effective = effective;
    let jobs = files.len();
    let (closed, intervals) = sync_channel(jobs * BUFFERS_PER_JOB);
    let (ready, readiness) = channel();
    let mut empty_senders = Vec::with_capacity(jobs);
    let mut inputs = Vec::with_capacity(jobs);
    for (index, file) in (0..).zip(files) {
        let (sender, empty) = spare_buffers(&effective.workload);
        empty_senders.push(sender);
        let channels = (closed.clone(), empty, ready.clone());
        inputs.push(job_input(plan, step, &effective, clock, (index, file), channels)?);
    }
    drop((closed, ready));
    let shared = Shared {
        stop,
        failed: StopFlag::default(),
        gate: Gate::default(),
        started: OnceLock::new(),
    };
    let mut collector = Collector::new(step, &effective.workload, empty_senders);
    let (before, outcomes) = std::thread::scope(|scope| {
        let abort = AbortOnDrop(&shared.gate);
        let mut threads = Vec::with_capacity(jobs);
        let facts = start_jobs(scope, inputs, &shared, &readiness, &mut threads);
        let before = facts.map(|facts| {
            emit(Event::StepStarted(started_event(step, &effective, clock, &facts)));
            let before = Watch::read(devices);
            shared.gate.open(Word::Go);
            collector.collect(&intervals, &mut *emit);
            before
        });
        drop(abort);
        let outcomes: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        before.map(|before| (before, outcomes))
    })?;
    let watched = Watch::read(devices).since(&before);
    let outcomes: Vec<JobOutcome> = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect();
    conclude(step, &effective, collector, outcomes, watched, stop, emit)
}

/// Starts every job and waits until all are ready.
fn start_jobs<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    inputs: Vec<JobInput>,
    shared: &'env Shared<'env>,
    readiness: &Receiver<Answer>,
    threads: &mut Vec<ScopedJoinHandle<'scope, Option<JobOutcome>>>,
) -> Result<EngineFacts, RunError> {
    let jobs = inputs.len();
    for input in inputs {
        let name = format!("job {}", input.index);
        let started = Builder::new().name(name).spawn_scoped(scope, move || run_job(input, shared));
        threads.push(started.map_err(|error| spawn_error(threads.len(), jobs, error))?);
    }
    wait_until_ready(readiness, jobs)
}

fn spawn_error(started: usize, jobs: usize, error: std::io::Error) -> RunError {
    let message = format!("cannot start more than {started} of {jobs} jobs");
    let mut error = RunError::target(message, Some(error.into()));
    error.hint = Some("give fewer --jobs, or raise the limit on processes (ulimit -u)".to_owned());
    error
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

type JobChannels = (SyncSender<ClosedInterval>, Receiver<Box<IntervalBuffer>>, Sender<Answer>);

fn job_input(
    plan: &Plan,
    step: &Step,
    effective: &Effective,
    clock: RunClock,
    (index, file): (u32, Option<OwnedFd>),
    (closed, empty, ready): JobChannels,
) -> Result<JobInput, RunError> {
    let workload = &effective.workload;
    let size = plan.target_of(step).size;
    Ok(JobInput {
        index,
        engine: effective.engine,
        workload: workload.clone(),
        batch: step.batch.submit_max,
        script: step.script.clone(),
        region: region_of(step, effective.stand_ins, index, size)?,
        seed: job_seed(plan.seed, step.index.into(), index.into()),
        limit: JobLimit::of(step, index, workload.jobs),
        file,
        clock,
        closed,
        empty,
        ready: Readiness::new(index, ready),
    })
}

/// The part of the target that a job touches: a stand-in has that of the job it stands in for.
/// A sequential one is divided, for streams that follow each other would find every block warm;
/// where it has not a block for each, it is shared.
fn region_of(step: &Step, stand_ins: u32, index: u32, size: Bytes) -> Result<Region, RunError> {
    let planned = &step.workload;
    let region = planned
        .region_of(index / stand_ins, size)
        .map_err(|error| RunError::unsupported(error.to_string()))?;
    if planned.pattern == Pattern::Random {
        return Ok(region);
    }
    let part = Bytes::new(region.length.get() / u64::from(stand_ins));
    let length = part.rounded_down_to(planned.block_size);
    if length == Bytes::ZERO {
        return Ok(region);
    }
    let before = length.get() * u64::from(index % stand_ins);
    Ok(Region { offset: Bytes::new(region.offset.get() + before), length })
}

/// Opens the target once per job; the null engine needs none.
fn open_files(
    effective: &mut Effective,
    target: &Prepared,
) -> Result<Vec<Option<OwnedFd>>, RunError> {
    let jobs = effective.workload.jobs;
    if effective.engine == EngineKind::Null {
        return Ok((0..jobs).map(|_| None).collect());
    }
    let open_all = |mode: OpenMode| -> Result<Vec<_>, RunError> {
        (0..jobs).map(|_| target.open(mode)).collect()
    };
    let mode = open_mode(&effective.workload);
    let mut opened = open_all(mode)?;
    if opened.iter().any(|opened| opened.direct != mode.direct) {
        // Another answer than when the target was prepared: all jobs do what the last one can.
        measure_cache(effective);
        opened = open_all(open_mode(&effective.workload))?;
    }
    Ok(opened.into_iter().map(|opened| Some(opened.file)).collect())
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
    let mut effective = Effective {
        engine: step.engine,
        workload: step.workload.clone(),
        stand_ins: 1,
        fallbacks: Vec::new(),
    };
    if step.engine == EngineKind::Null {
        return Ok(effective);
    }
    adapt_cache(&mut effective, target)?;
    adapt_segment(&mut effective, target);
    adapt_engine(&mut effective, step)?;
    Ok(effective)
}

fn adapt_cache(effective: &mut Effective, target: &Prepared) -> Result<(), RunError> {
    let workload = &mut effective.workload;
    if workload.cache == CacheMode::Buffered {
        return Ok(());
    }
    if !target.direct {
        measure_cache(effective);
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

fn measure_cache(effective: &mut Effective) {
    effective.workload.cache = CacheMode::Buffered;
    effective.fallbacks.push(
        "O_DIRECT is not possible here: the page cache was measured, not the device".to_owned(),
    );
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

fn adapt_engine(effective: &mut Effective, step: &Step) -> Result<(), RunError> {
    let probe = match effective.engine {
        EngineKind::Uring => probe_uring(),
        EngineKind::Aio => probe_aio(),
        EngineKind::Sync | EngineKind::Null => Ok(()),
    };
    let Err(error) = probe else { return Ok(()) };
    stand_in(effective, step, &format!("{error}: {}", error.source))?;
    memory::check(step, &effective.workload, memory::available())
}

/// Puts the sync engine in the place of an asynchronous one: each place in the queue becomes a job.
fn stand_in(effective: &mut Effective, step: &Step, reason: &str) -> Result<(), RunError> {
    let workload = &mut effective.workload;
    // The cost of one job is asked for, so one job it stays.
    effective.stand_ins = if step.role == Role::SelfCost { 1 } else { workload.depth };
    workload.jobs *= effective.stand_ins;
    workload.depth = 1;
    let unavailable = format!("{} is not available ({reason})", effective.engine);
    if let Err(invalid) = workload.validate() {
        let mut error = RunError::unsupported(format!(
            "{unavailable}, and sync, one job for each operation in flight, cannot stand in for \
             it: {invalid}"
        ));
        error.hint = Some("give fewer --jobs or a smaller --depth".to_owned());
        return Err(error);
    }
    let jobs = match workload.jobs {
        1 => "1 job".to_owned(),
        jobs => format!("{jobs} jobs"),
    };
    let mut fallback = format!("{unavailable}; sync with {jobs} of depth 1 stands in for it");
    if effective.stand_ins > 1 && workload.pattern == Pattern::Sequential {
        fallback.push_str(", each on a part of its job's region: many sequential streams, not one");
    }
    effective.fallbacks.push(fallback);
    effective.engine = EngineKind::Sync;
    Ok(())
}

/// One answer of each job: the facts of the first, which stand for all, or the first refusal.
fn wait_until_ready(readiness: &Receiver<Answer>, jobs: usize) -> Result<EngineFacts, RunError> {
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
    watched: Watched,
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
    let mut totals = std::mem::take(&mut collector.totals);
    let mut error = None;
    for outcome in outcomes {
        let counted = std::mem::take(&mut totals[outcome.index as usize]);
        let result = outcome.result;
        error = error.or(job_error(step, effective, result.failure, result.engine_error));
        emit(Event::JobEnded(JobEnded {
            step: step.index,
            job: outcome.index,
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
    emit(Event::StepEnded(StepEnded {
        step: step.index,
        outcome,
        measured,
        cpu: watched.cpu,
        devices: watched.devices,
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
