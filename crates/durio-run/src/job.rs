//! One worker: builds its engine in its own thread, waits for the common start, runs the loop.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender};

use durio_block::{
    AioEngine, BlockError, Buffers, Clock, Engine, MonotonicClock, NullEngine, Ring, Script,
    SyncEngine, Ticks, TscClock, UringEngine, WriteFlags,
};
use durio_plan::{EngineKind, Limit, NullScript, Step};
use durio_units::Nanos;
use durio_workload::{Region, Stream, SyncMethod, Workload};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::counters::thread_cpu_time;
use crate::error::RunError;
use crate::gate::{Gate, Readiness, Word};
use crate::measured_loop::{Bounds, LoopInput, LoopResult, MeasuredLoop};
use crate::recorder::{ClosedInterval, IntervalBuffer, Parts, PerOperation, Recorder};
use crate::sink::StopFlag;

/// The clock of a run's engines; the null engine has its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunClock {
    Tsc(TscClock),
    Monotonic(MonotonicClock),
}

/// What all jobs of a step share.
pub(crate) struct Shared<'a> {
    /// The user's wish to end.
    pub(crate) stop: &'a StopFlag,
    /// A job has failed: the others end too.
    pub(crate) failed: StopFlag,
    /// Where all jobs wait for the common start.
    pub(crate) gate: Gate,
    /// The common begin, from whoever passes the gate first.
    pub(crate) started: OnceLock<Ticks>,
}

/// What one job needs.
pub(crate) struct JobInput {
    pub(crate) index: u32,
    pub(crate) engine: EngineKind,
    pub(crate) workload: Workload,
    pub(crate) batch: u32,
    pub(crate) script: Option<NullScript>,
    pub(crate) region: Region,
    pub(crate) seed: u64,
    pub(crate) limit: JobLimit,
    pub(crate) file: Option<OwnedFd>,
    pub(crate) clock: RunClock,
    pub(crate) closed: SyncSender<ClosedInterval>,
    pub(crate) empty: Receiver<Box<IntervalBuffer>>,
    pub(crate) ready: Readiness,
}

/// The job's share of the step's bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobLimit {
    pub(crate) ramp: Nanos,
    pub(crate) interval: Nanos,
    pub(crate) duration: Option<Nanos>,
    pub(crate) operations: u64,
}

impl JobLimit {
    /// The share of job `index` of `jobs`: operations are divided, the first jobs take the rest.
    pub(crate) fn of(step: &Step, index: u32, jobs: u32) -> Self {
        let (duration, operations) = match step.limit {
            Limit::Duration(duration) => (Some(duration), u64::MAX),
            Limit::Operations(count) => {
                let (each, rest) = (count / u64::from(jobs), count % u64::from(jobs));
                (None, each + u64::from(u64::from(index) < rest))
            }
        };
        Self { ramp: step.ramp, interval: step.interval, duration, operations }
    }

    fn bounds(&self, clock: &impl Clock) -> Bounds {
        let ramp = clock.ticks(self.ramp.get());
        let end = self.duration.map(|duration| ramp + clock.ticks(duration.get()));
        let interval = clock.ticks(self.interval.get()).max(1);
        Bounds { ramp, end, interval, operations: self.operations }
    }
}

/// What a job gives back.
pub(crate) struct JobOutcome {
    /// Which job.
    pub(crate) index: u32,
    pub(crate) result: LoopResult,
    pub(crate) parts: PerOperation<Parts>,
    pub(crate) cpu_user: Nanos,
    pub(crate) cpu_system: Nanos,
    pub(crate) recorder_waits: u64,
    /// The end of the job, since the step's begin.
    pub(crate) end: Nanos,
}

/// The body of a job's thread; `None` if the step never began.
pub(crate) fn run_job(input: JobInput, shared: &Shared<'_>) -> Option<JobOutcome> {
    let _guard = FailOnPanic(&shared.failed);
    match input.clock {
        RunClock::Tsc(clock) => run_with_clock(input, clock, shared),
        RunClock::Monotonic(clock) => run_with_clock(input, clock, shared),
    }
}

/// A job that panics ends the others too.
struct FailOnPanic<'a>(&'a StopFlag);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set();
        }
    }
}

fn run_with_clock<C: Clock>(
    mut input: JobInput,
    clock: C,
    shared: &Shared<'_>,
) -> Option<JobOutcome> {
    let buffers = match filled_buffers(&input) {
        Ok(buffers) => buffers,
        Err(error) => return decline(input, error.into()),
    };
    let file = input.file.take();
    match (input.engine, file) {
        (EngineKind::Null, _) => {
            let script = input
                .script
                .clone()
                .unwrap_or(NullScript { latencies: vec![Nanos::from_micros(100)], fails_at: None });
            let script = Script::new(script.latencies, script.fails_at);
            drive(NullEngine::new(script, buffers), input, shared)
        }
        (EngineKind::Sync, Some(file)) => {
            drive(SyncEngine::new(clock, file, buffers), input, shared)
        }
        (EngineKind::Uring, Some(file)) => {
            let mut ring = match Ring::new(input.workload.depth) {
                Ok(ring) => ring,
                Err(error) => return decline(input, ring_error(error)),
            };
            match UringEngine::new(clock, &mut ring, &file, buffers) {
                Ok(engine) => drive(engine, input, shared),
                Err(error) => decline(input, error.into()),
            }
        }
        (EngineKind::Aio, Some(file)) => {
            match AioEngine::new(clock, file, buffers, input.workload.depth) {
                Ok(engine) => drive(engine, input, shared),
                Err(error) => decline(input, error.into()),
            }
        }
        (_, None) => {
            let error = RunError::unsupported("only the null engine runs on no target");
            decline(input, error)
        }
    }
}

/// Buffers with incompressible contents, different for each job.
fn filled_buffers(input: &JobInput) -> Result<Buffers, BlockError> {
    let length = usize::try_from(input.workload.block_size.get()).unwrap_or(usize::MAX);
    let mut buffers = Buffers::try_new(input.workload.depth as usize, length)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(!input.seed);
    for slot in 0..buffers.count() {
        // Touches every page before the measurement, also for reads.
        random.fill_bytes(buffers.slot_mut(slot));
    }
    Ok(buffers)
}

/// The kernel let the probe have a ring and refuses one to this job.
fn ring_error(error: BlockError) -> RunError {
    let mut error = RunError::from(error);
    error.hint = Some(
        "use fewer jobs or a smaller --depth, raise the limit on locked memory (ulimit -l), or \
         give --engine sync"
            .to_owned(),
    );
    error
}

/// Tells the coordinator that this job cannot run; it then calls the step off.
fn decline(mut input: JobInput, error: RunError) -> Option<JobOutcome> {
    input.ready.tell(Err(error));
    None
}

fn drive<E: Engine>(mut engine: E, mut input: JobInput, shared: &Shared<'_>) -> Option<JobOutcome> {
    let workload = &input.workload;
    let asynchronous = engine.capabilities().asynchronous;
    let stream = Stream::new(workload, input.region, input.seed);
    let mut recorder =
        Recorder::new(input.index as usize, workload, asynchronous, input.closed, input.empty);
    let bounds = input.limit.bounds(engine.clock());
    let loop_input = LoopInput {
        stream,
        recorder: &mut recorder,
        stop: shared.stop,
        failed: &shared.failed,
        write_flags: write_flags(workload.sync.method),
        commits: workload.commits_each_write(),
        separate_sync: workload.sync.method.is_separate_call(),
        depth: workload.depth,
        batch: input.batch,
        block_size: workload.block_size.get(),
        stamp: input.seed,
    };
    let facts = engine.facts();
    let measured = MeasuredLoop::new(&mut engine, bounds, loop_input);
    input.ready.tell(Ok(facts));
    if shared.gate.pass() == Word::Aborted {
        return None;
    }
    let (user_before, system_before) = thread_cpu_time();
    let started = measured.common_start(&shared.started);
    let result = measured.run(started);
    let (user_after, system_after) = thread_cpu_time();
    let end = Nanos::new(result.end_ns);
    let recorder_waits = recorder.waits;
    Some(JobOutcome {
        index: input.index,
        result,
        parts: recorder.finish(),
        cpu_user: user_after.saturating_sub(user_before),
        cpu_system: system_after.saturating_sub(system_before),
        recorder_waits,
        end,
    })
}

fn write_flags(method: SyncMethod) -> WriteFlags {
    match method {
        SyncMethod::RwfDsync => WriteFlags::Dsync,
        SyncMethod::RwfSync => WriteFlags::Sync,
        _ => WriteFlags::None,
    }
}
