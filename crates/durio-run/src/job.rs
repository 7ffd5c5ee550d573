//! One worker: builds its engine in its own thread, waits for the common start, runs the loop.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::sync::{Barrier, OnceLock};

use durio_block::{
    AioEngine, Buffers, Clock, Engine, EngineFacts, MonotonicClock, NullEngine, Ring, Script,
    SyncEngine, Ticks, TscClock, UringEngine, WriteFlags,
};
use durio_plan::{EngineKind, Limit, NullScript, Step};
use durio_units::Nanos;
use durio_workload::{Region, Stream, SyncMethod, Workload};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::counters::thread_cpu_time;
use crate::error::RunError;
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
    /// Everybody is ready.
    pub(crate) gate: Barrier,
    /// The common begin, from whoever passes the gate first.
    pub(crate) started: OnceLock<Ticks>,
}

/// What one job needs.
pub(crate) struct JobInput {
    pub(crate) index: usize,
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
    pub(crate) ready: Sender<Result<EngineFacts, RunError>>,
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
    match input.clock {
        RunClock::Tsc(clock) => run_with_clock(input, clock, shared),
        RunClock::Monotonic(clock) => run_with_clock(input, clock, shared),
    }
}

fn run_with_clock<C: Clock>(
    mut input: JobInput,
    clock: C,
    shared: &Shared<'_>,
) -> Option<JobOutcome> {
    let buffers = filled_buffers(&input);
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
                Err(error) => return decline(&input, error.into(), shared),
            };
            match UringEngine::new(clock, &mut ring, &file, buffers) {
                Ok(engine) => drive(engine, input, shared),
                Err(error) => decline(&input, error.into(), shared),
            }
        }
        (EngineKind::Aio, Some(file)) => {
            match AioEngine::new(clock, file, buffers, input.workload.depth) {
                Ok(engine) => drive(engine, input, shared),
                Err(error) => decline(&input, error.into(), shared),
            }
        }
        (_, None) => {
            let error = RunError::unsupported("only the null engine runs on no target");
            decline(&input, error, shared)
        }
    }
}

/// Buffers with incompressible contents, different for each job.
fn filled_buffers(input: &JobInput) -> Buffers {
    let length = usize::try_from(input.workload.block_size.get()).unwrap_or(usize::MAX);
    let mut buffers = Buffers::new(input.workload.depth as usize, length);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(!input.seed);
    for slot in 0..buffers.count() {
        // Touches every page before the measurement, also for reads.
        random.fill_bytes(buffers.slot_mut(slot));
    }
    buffers
}

/// Tells the coordinator that this job cannot run; the gate must be passed by all.
fn decline(input: &JobInput, error: RunError, shared: &Shared<'_>) -> Option<JobOutcome> {
    shared.failed.set();
    // The coordinator waits for one message of each job, so it is there.
    let _ = input.ready.send(Err(error));
    shared.gate.wait();
    None
}

fn drive<E: Engine>(mut engine: E, input: JobInput, shared: &Shared<'_>) -> Option<JobOutcome> {
    let workload = &input.workload;
    let asynchronous = engine.capabilities().asynchronous;
    let stream = Stream::new(workload, input.region, input.seed);
    let mut recorder =
        Recorder::new(input.index, workload, asynchronous, input.closed, input.empty);
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
        stamp: input.seed,
    };
    let facts = engine.facts();
    let measured = MeasuredLoop::new(&mut engine, bounds, loop_input);
    let _ = input.ready.send(Ok(facts));
    shared.gate.wait();
    if shared.failed.is_set() {
        return None;
    }
    let (user_before, system_before) = thread_cpu_time();
    let started = measured.common_start(&shared.started);
    let result = measured.run(started);
    let (user_after, system_after) = thread_cpu_time();
    let end = Nanos::new(result.end_ns);
    let recorder_waits = recorder.waits;
    Some(JobOutcome {
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
