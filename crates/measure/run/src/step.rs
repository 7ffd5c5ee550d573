//! One step: its jobs are made ready while nothing happens yet (or the step before still runs), and
//! begin together.

mod conclusion;
pub(crate) mod effective_load;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use durio_base::Nanos;
use durio_plan::{EngineKind, Load, Plan, Step};
use durio_record::{Event, Outcome, StepStarted, StreamStarted};
use durio_workload::{ArrivalSchedule, Arrivals, CacheMode, Workload, job_seed};

use crate::StopFlag;
use crate::collector::{Collector, StepStream};
use crate::counters::CounterReading;
use crate::counters::GapWatch;
use crate::error::RunError;
use crate::grid::JobBounds;
use crate::job::{Processors, run_job};
use crate::job_input::{
    JobAnswer, JobInput, JobOutcome, JobShared, Readiness, RunClock, StartSignal,
    has_committer_threads,
};
use crate::layout::PreparedTarget;
use crate::recorder::{ClosedInterval, IntervalBuffer};
use crate::start::{StartTime, monotonic_now};
use conclusion::{conclude, first_error};
pub(crate) use conclusion::{job_error, outcome_of};
pub(crate) use effective_load::EffectiveLoad;
use effective_load::{advice_of, check_declinable, effective, is_refusal, open_files, region_of};

/// Buffers per job: one that is filled, one with the collector, and one in reserve.
pub(crate) const BUFFERS_PER_JOB: usize = 3;

/// What a step is made ready from.
#[derive(Clone, Copy)]
pub(crate) struct StepSetup<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) step: &'a Step,
    pub(crate) round: u32,
    /// The rate of the first load in this round, if it is not the plan's.
    pub(crate) rate: Option<f64>,
    pub(crate) targets: &'a [Option<PreparedTarget>],
    pub(crate) clock: RunClock,
    pub(crate) processors: &'a Processors,
    pub(crate) stop: &'a StopFlag,
}

impl StepSetup<'_> {
    /// When the operations of a load start in this round.
    pub(crate) fn arrivals(&self, stream: u32, load: &Load) -> Arrivals {
        match self.rate {
            Some(rate) if stream == 0 => load.arrivals.at_rate(rate),
            _ => load.arrivals,
        }
    }

    /// The seed of a job, by its number in the step.
    pub(crate) fn seed_of_job(&self, job: u32) -> u64 {
        // Another round is another draw: the same offsets again would find their blocks cached.
        let step = u64::from(self.step.index) | (u64::from(self.round) << 32);
        job_seed(self.plan.seed, step, job.into())
    }

    pub(crate) fn target(&self, index: usize) -> Result<&PreparedTarget, RunError> {
        let target = self.targets.get(index).and_then(Option::as_ref);
        target.ok_or_else(|| RunError::unsupported("a target was not made ready"))
    }
}

/// A step whose jobs all wait at the barrier. Dropped without having run, it never happened.
pub(crate) struct PreparedStep {
    started: StepStarted,
    workers: Workers,
    intervals: Receiver<ClosedInterval>,
    collector: Collector,
    /// Its time is the machine's, not a script's.
    is_real: bool,
    /// The run goes on without it if it is refused.
    declinable: bool,
}

pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The last completion, on CLOCK_MONOTONIC; none on a virtual clock.
    pub(crate) at: Option<u64>,
}

/// One load with what it needs.
struct Part<'a> {
    load: &'a Load,
    effective: EffectiveLoad,
    arrivals: Arrivals,
    /// The open files of each job.
    files: Vec<Vec<OwnedFd>>,
}

impl PreparedStep {
    /// Makes the jobs of a step ready; if one cannot be, none begins.
    pub(crate) fn prepare(setup: StepSetup<'_>) -> Result<Self, RunError> {
        let step = setup.step;
        // glibc takes buffers from its heap once one was freed, and zeroing touches all of them:
        // thousands of jobs took a gigabyte.
        durio_block::map_large_allocations();
        let parts: Vec<Part<'_>> = (0..)
            .zip(step.loads())
            .map(|(stream, load)| part(setup, stream, load))
            .collect::<Result<_, _>>()?;
        let is_real = parts.iter().all(|part| part.effective.engine != EngineKind::Null);
        let mut started: Vec<_> = parts.iter().map(|part| started_stream(setup, part)).collect();
        let streams = parts.iter().map(stream_of).collect();
        let jobs: usize = parts.iter().map(|part| part.files.len()).sum();
        // Room for every buffer there is: no job ever waits to hand one over.
        let (closed, intervals) = sync_channel(jobs * BUFFERS_PER_JOB);
        let (ready, readiness) = channel();
        let (mut inputs, mut empty) = (Vec::with_capacity(jobs), Vec::with_capacity(jobs));
        for mut part in parts {
            for (place, files) in (0..).zip(std::mem::take(&mut part.files)) {
                let index = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
                let ready = Readiness::new(index, ready.clone());
                let (sender, buffers) = spare_buffers(&part);
                empty.push(sender);
                let channels = (closed.clone(), buffers, ready);
                inputs.push(job_input(setup, &part, (index, place), files, channels)?);
            }
        }
        // Those of the jobs are left: when all have answered or gone, nobody waits for more.
        drop((closed, ready));
        let collector = Collector::new(step, setup.round, streams, empty);
        let workers = Workers::start(setup, inputs)?;
        wait_until_ready(readiness.iter().take(jobs), &collector, &mut started)?;
        let started = StepStarted {
            step: step.index,
            round: setup.round,
            stream: started.remove(0),
            beside: started,
        };
        let declinable = step.declinable;
        Ok(Self { started, workers, intervals, collector, is_real, declinable })
    }

    /// True if it is this round of this step.
    pub(crate) fn is_for(&self, step: u32, round: u32) -> bool {
        (self.started.step, self.started.round) == (step, round)
    }

    /// Lets the jobs begin at `start`, and tells what happens until the last has ended. `idle_since`
    /// is the end of the step before, on CLOCK_MONOTONIC.
    pub(crate) fn run(
        self,
        devices: &[String],
        idle_since: Option<u64>,
        start: StartTime,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Ended, RunError> {
        let Self { started, mut workers, intervals, mut collector, is_real, declinable } = self;
        let (step, round) = (started.step, started.round);
        emit(Event::StepStarted(started));
        // On a script's virtual clock no gap of the machine is in any figure.
        let gaps = if is_real { GapWatch::begin(step, round) } else { None };
        // As late as can be: what making the jobs ready took is not the load's.
        let before = CounterReading::read(devices);
        start.sleep();
        let released = monotonic_now();
        workers.shared.barrier.release(StartSignal::Go);
        collector.collect(&intervals, &mut *emit);
        let mut outcomes = workers.join();
        let (gaps, watching) = gaps.map(GapWatch::end).unwrap_or_default();
        let mut watched = CounterReading::read(devices).since(&before);
        // The thread that watched for gaps is durio's, not the load's.
        watched.process = watched.process.since(watching);
        gaps.into_iter().for_each(|gap| emit(Event::ProcessGap(gap)));
        let reference = outcomes.iter().map(|outcome| outcome.result.reference);
        let begin = reference.clone().map(|(begin, _)| begin).min();
        let at = reference.map(|(_, end)| end).max().filter(|_| is_real);
        let idle_before = match (begin, idle_since) {
            (Some(begin), Some(since)) if is_real => Some(Nanos::new(begin.saturating_sub(since))),
            _ => None,
        };
        let error = match first_error(&collector, &mut outcomes) {
            // The session tells of it, as of one that was refused before it began.
            Some((_, error)) if declinable && is_refusal(&error) => return Err(error),
            other => other,
        };
        // A script's virtual clock says nothing about when its jobs began.
        let started = begin.filter(|_| is_real).map_or(released, Nanos::new);
        start.event((step, round), started).into_iter().for_each(&mut *emit);
        let interrupted = workers.shared.stop.is_set();
        let rest = (watched, idle_before);
        Ok(Ended { outcome: conclude(collector, outcomes, rest, error, interrupted, emit)?, at })
    }
}

fn part<'a>(setup: StepSetup<'a>, stream: u32, load: &'a Load) -> Result<Part<'a>, RunError> {
    let mut effective = effective(setup, load)?;
    let files = open_files(&mut effective, setup, load)?;
    check_declinable(setup.step, load, &effective, setup.targets)?;
    Ok(Part { load, effective, arrivals: setup.arrivals(stream, load), files })
}

fn stream_of(part: &Part<'_>) -> StepStream {
    StepStream {
        workload: part.effective.workload.clone(),
        target: part.load.target,
        jobs: part.files.len(),
    }
}

/// The threads of a step's jobs. Dropped before the start, they go home without having begun.
struct Workers {
    shared: Arc<JobShared>,
    threads: Vec<JoinHandle<Option<JobOutcome>>>,
}

impl Workers {
    fn start(setup: StepSetup<'_>, inputs: Vec<JobInput>) -> Result<Self, RunError> {
        let stop = setup.stop.clone();
        let first_ends_all = setup.step.first_job_ends_all;
        let shared = Arc::new(JobShared { stop, first_ends_all, ..JobShared::default() });
        let mut workers = Self { shared, threads: Vec::with_capacity(inputs.len()) };
        let jobs = inputs.len();
        for input in inputs {
            let name = format!("job {}", input.index);
            let shared = Arc::clone(&workers.shared);
            let thread = Builder::new().name(name).spawn(move || run_job(input, &shared));
            let started = workers.threads.len();
            // Those that were started go home: dropping `workers` calls the step off.
            workers.threads.push(thread.map_err(|error| spawn_error(started, jobs, error))?);
        }
        Ok(workers)
    }

    /// Waits until all jobs have ended; a panic of one is passed on.
    fn join(&mut self) -> Vec<JobOutcome> {
        let threads = std::mem::take(&mut self.threads).into_iter();
        let join = |thread: JoinHandle<_>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.filter_map(join).collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.barrier.release(StartSignal::Aborted);
        for thread in std::mem::take(&mut self.threads) {
            // A job that panicked has nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// What a job of a load needs: `index` is its number in the step, `place` that among the jobs of the
/// load.
fn job_input(
    setup: StepSetup<'_>,
    part: &Part<'_>,
    (index, place): (u32, u32),
    files: Vec<OwnedFd>,
    (closed, empty, ready): (SyncSender<ClosedInterval>, Receiver<IntervalBuffer>, Readiness),
) -> Result<JobInput, RunError> {
    let StepSetup { plan, step, clock, processors, .. } = setup;
    let Part { load, effective, arrivals, .. } = part;
    let workload = &effective.workload;
    // A stand-in works where the job does that it stands in for.
    let job = place / effective.stand_ins;
    let target = load.place_of(job).target;
    // A job that works on several targets in turn has one region, which all of them must hold.
    let sizes = load.targets_of(job).map(|target| plan.targets[target].size);
    let size = sizes.min().unwrap_or(plan.targets[target].size);
    let seed = setup.seed_of_job(index);
    let limit = load.own_limit.unwrap_or(step.limit);
    Ok(JobInput {
        index,
        engine: effective.engine,
        workload: workload.clone(),
        slots_each: load.slots_each(),
        batch: load.batch.submit_max,
        script: load.script.clone(),
        region: region_of(load, effective.stand_ins, place, size)?,
        seed,
        bounds: JobBounds::of(limit, (step.ramp, step.interval), workload, place),
        schedule: ArrivalSchedule::new(arrivals, place, workload.jobs, seed),
        committer_schedules: committer_schedules(arrivals, place, workload, seed),
        processors: processors.of(load, target, place)?,
        pass_files: pass_files(workload, &files)?,
        blocking_syncs: load.blocking_syncs,
        advice: load.advice.map(advice_of),
        files,
        files_each: load.targets_each,
        file_order: load.file_order,
        drain: load.drain,
        completion_time: load.completion_time,
        clock,
        closed,
        empty,
        ready,
    })
}

/// The same files again, if each pass of a buffered job drops the cached pages of its file.
fn pass_files(workload: &Workload, files: &[OwnedFd]) -> Result<Vec<OwnedFd>, RunError> {
    let drops = workload.drops_cache_each_pass && workload.cache == CacheMode::Buffered;
    let again = files.iter().filter(|_| drops).map(OwnedFd::try_clone).collect::<Result<_, _>>();
    again.map_err(|error| RunError::target("cannot open the target once more").because(error))
}

/// The schedules of committers with a thread each: together they offer the rate of the plan.
fn committer_schedules(
    arrivals: &Arrivals,
    place: u32,
    workload: &Workload,
    seed: u64,
) -> Vec<ArrivalSchedule> {
    let policy = workload.group_commit.filter(|_| has_committer_threads(workload));
    let each = policy.map_or(0, |policy| policy.committers);
    let all = workload.jobs.saturating_mul(each);
    let schedule = |committer: u32| {
        // Each has draws of its own: records that arrive together would all be of one batch.
        let seed = job_seed(seed, 0, committer.into());
        ArrivalSchedule::new(arrivals, place * each + committer, all, seed)
    };
    (0..each).filter_map(schedule).collect()
}

fn spawn_error(started: usize, jobs: usize, error: std::io::Error) -> RunError {
    let message = format!("cannot start more than {started} of {jobs} jobs");
    RunError::target(message)
        .because(error)
        .hint("give fewer --jobs, or raise the limit on processes (ulimit -u)")
}

fn spare_buffers(part: &Part<'_>) -> (SyncSender<IntervalBuffer>, Receiver<IntervalBuffer>) {
    let (sender, receiver) = sync_channel(BUFFERS_PER_JOB);
    // The one in use is the recorder's own.
    for _ in 1..BUFFERS_PER_JOB {
        let buffer = IntervalBuffer::new(&part.effective.workload, !part.arrivals.is_closed());
        assert!(sender.try_send(buffer).is_ok(), "the channel holds all buffers of a job");
    }
    (sender, receiver)
}

/// A load before its jobs are there.
fn started_stream(setup: StepSetup<'_>, part: &Part<'_>) -> StreamStarted {
    let clock = match (part.effective.engine, setup.clock) {
        (EngineKind::Null, _) => "virtual",
        (_, RunClock::Tsc(_)) => "tsc",
        (_, RunClock::Monotonic(_)) => "monotonic",
    };
    let features = setup.processors.words(part.load);
    stream_started(part.load, &part.effective, clock, features, part.arrivals)
}

/// A load as the record has it.
pub(crate) fn stream_started(
    load: &Load,
    effective: &EffectiveLoad,
    clock: &str,
    features: Vec<String>,
    arrivals: Arrivals,
) -> StreamStarted {
    let workload = &effective.workload;
    StreamStarted {
        engine: effective.engine,
        jobs: workload.jobs,
        depth: workload.depth,
        batch: load.batch.submit_max.min(workload.depth),
        cache: workload.cache,
        region: workload.region,
        clock: clock.to_owned(),
        features,
        fallbacks: effective.fallbacks.clone(),
        arrivals,
    }
}

/// Waits for one answer of each job, and adds to each stream what its engine is like; or gives the
/// first refusal.
fn wait_until_ready(
    answers: impl Iterator<Item = JobAnswer>,
    collector: &Collector,
    streams: &mut [StreamStarted],
) -> Result<(), RunError> {
    let mut known = BTreeSet::new();
    let mut refusal = None;
    for JobAnswer { job, facts } in answers {
        let number = collector.stream_of(job);
        match facts {
            Ok(facts) => {
                let stream = &mut streams[number as usize];
                // The features of one job stand for all. Fallbacks do not: jobs share a limit on
                // locked memory, so only some may have fallen back.
                if known.insert(number) {
                    stream.features.splice(0..0, facts.features);
                }
                for fallback in facts.fallbacks {
                    if !stream.fallbacks.contains(&fallback) {
                        stream.fallbacks.push(fallback);
                    }
                }
            }
            // The first refusal is reported.
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    refusal.map_or(Ok(()), Err)
}
