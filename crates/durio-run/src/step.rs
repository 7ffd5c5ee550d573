//! One step: its jobs are made ready while nothing happens yet (or the step before still runs), and
//! begin together.

mod conclusion;
pub(crate) mod effective;
mod sync_method;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use durio_block::EngineFacts;
use durio_plan::{EngineKind, Load, Plan, Step};
use durio_record::{Event, Outcome, ProcessGap, StepStarted, StreamStarted};
use durio_units::Nanos;
use durio_workload::{Arrivals, CacheMode, Schedule, Workload, job_seed};

use crate::collector::{Collector, Stream};
use crate::counters::Watch;
use crate::error::RunError;
use crate::gate::{Answer, Readiness, Word};
use crate::job::{
    JobInput, JobLimit, JobOutcome, RunClock, Shared, has_committer_threads, run_job,
};
use crate::layout::Prepared;
use crate::placement::Processors;
use crate::process_gaps::{Gap, GapWatch};
use crate::recorder::{ClosedInterval, IntervalBuffer};
use crate::refusal;
use crate::sink::StopFlag;
pub(crate) use conclusion::job_error;
use conclusion::{Conclusion, conclude};
pub(crate) use effective::Effective;
use effective::{effective, open_files, region_of};

/// Buffers per job: one that is filled, one with the collector, and one in reserve.
pub(crate) const BUFFERS_PER_JOB: usize = 3;

/// What a step is armed with.
#[derive(Clone, Copy)]
pub(crate) struct Arming<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) step: &'a Step,
    pub(crate) round: u32,
    /// The rate of the first load in this round, if it is not the plan's.
    pub(crate) rate: Option<f64>,
    pub(crate) targets: &'a [Option<Prepared>],
    pub(crate) clock: RunClock,
    pub(crate) processors: &'a Processors,
    pub(crate) stop: &'a StopFlag,
}

/// A step whose jobs all wait at the gate. Dropped without having run, it never happened.
pub(crate) struct Armed {
    step: u32,
    round: u32,
    names: Vec<String>,
    started: StepStarted,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Option<JobOutcome>>>,
    intervals: Receiver<ClosedInterval>,
    collector: Option<Collector>,
    /// Its time is the machine's, not a script's.
    is_real: bool,
    /// The run goes on without it if it is refused.
    declinable: bool,
}

/// How a step ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The last completion, on CLOCK_MONOTONIC; none on a virtual clock.
    pub(crate) at: Option<u64>,
}

/// One load with what it needs.
struct Part<'a> {
    load: &'a Load,
    effective: Effective,
    arrivals: Arrivals,
    /// Of each job.
    files: Vec<Vec<OwnedFd>>,
}

impl Armed {
    /// Makes the jobs of a step ready.
    pub(crate) fn arm(arming: Arming<'_>) -> Result<Self, RunError> {
        let step = arming.step;
        durio_block::map_large_allocations();
        let parts: Vec<Part<'_>> = (0..)
            .zip(step.loads())
            .map(|(stream, load)| part(arming, stream, load))
            .collect::<Result<_, _>>()?;
        let names = parts.iter().map(|part| part.effective.workload.name.clone()).collect();
        let streams = parts.iter().map(stream_of).collect();
        let is_real = parts.iter().all(|part| part.effective.engine != EngineKind::Null);
        let started = parts.iter().map(|part| started_event(arming, part)).collect();
        let jobs: usize = parts.iter().map(|part| part.files.len()).sum();
        let (closed, intervals) = sync_channel(jobs * BUFFERS_PER_JOB);
        let mut crew = Crew::new(arming, closed);
        for part in parts {
            crew.add(part)?;
        }
        let (shared, threads, empty, facts) = crew.start()?;
        Ok(Self {
            step: step.index,
            round: arming.round,
            names,
            started: with_facts(arming, started, facts),
            shared,
            threads,
            intervals,
            collector: Some(Collector::new(step, arming.round, streams, empty)),
            is_real,
            declinable: step.declinable,
        })
    }

    /// True if it is armed for this round of this step.
    pub(crate) fn is_for(&self, step: u32, round: u32) -> bool {
        (self.step, self.round) == (step, round)
    }

    /// Opens the gate, and tells what happens until the last job has ended. `idle_since` is the end
    /// of the step before, on CLOCK_MONOTONIC.
    pub(crate) fn run(
        mut self,
        devices: &[String],
        idle_since: Option<u64>,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Ended, RunError> {
        let Some(mut collector) = self.collector.take() else {
            return Err(RunError::unsupported("a step runs once"));
        };
        emit(Event::StepStarted(self.started.clone()));
        let gaps = if self.is_real { GapWatch::begin() } else { None };
        let before = Watch::read(devices);
        self.shared.gate.open(Word::Go);
        collector.collect(&self.intervals, &mut *emit);
        let outcomes: Vec<JobOutcome> = std::mem::take(&mut self.threads)
            .into_iter()
            .filter_map(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect();
        let (gaps, watching) = gaps.map(GapWatch::end).unwrap_or_default();
        let mut watched = Watch::read(devices).since(&before);
        watched.process = watched.process.since(watching);
        for Gap { from, span } in gaps {
            emit(Event::ProcessGap(ProcessGap { step: self.step, round: self.round, from, span }));
        }
        let reference = outcomes.iter().map(|outcome| outcome.result.reference);
        let begin = reference.clone().map(|(begin, _)| begin).min();
        let at = reference.map(|(_, end)| end).max().filter(|_| self.is_real);
        let idle_before = match (begin, idle_since) {
            (Some(begin), Some(since)) if self.is_real => Some(begin.saturating_sub(since)),
            _ => None,
        };
        let conclusion = Conclusion {
            step: self.step,
            round: self.round,
            names: std::mem::take(&mut self.names),
            collector,
            outcomes,
            watched,
            idle_before: idle_before.map(Nanos::new),
            interrupted: self.shared.stop.is_set(),
            declinable: self.declinable,
        };
        Ok(Ended { outcome: conclude(conclusion, emit)?, at })
    }
}

impl Drop for Armed {
    /// Sends the jobs home that never began.
    fn drop(&mut self) {
        self.shared.gate.open(Word::Aborted);
        for thread in std::mem::take(&mut self.threads) {
            // A job that panicked has nobody left to tell.
            let _ = thread.join();
        }
    }
}

fn part<'a>(arming: Arming<'a>, stream: u32, load: &'a Load) -> Result<Part<'a>, RunError> {
    let mut effective = effective(arming.step.role, load, arming.targets)?;
    let files = open_files(&mut effective, load, arming.targets)?;
    refusal::check(arming.step, load, &effective, arming.targets)?;
    let arrivals = match arming.rate {
        Some(rate) if stream == 0 => load.arrivals.at_rate(rate),
        _ => load.arrivals,
    };
    Ok(Part { load, effective, arrivals, files })
}

fn stream_of(part: &Part<'_>) -> Stream {
    Stream {
        workload: part.effective.workload.clone(),
        target: part.load.target,
        jobs: part.files.len(),
    }
}

/// The jobs of a step while they are gathered.
struct Crew<'a> {
    arming: Arming<'a>,
    shared: Arc<Shared>,
    inputs: Vec<JobInput>,
    /// Per job: its stream, and the way back for its buffers.
    streams: Vec<u32>,
    empty: Vec<SyncSender<IntervalBuffer>>,
    closed: SyncSender<ClosedInterval>,
    ready: Sender<Answer>,
    readiness: Receiver<Answer>,
    next_stream: u32,
}

/// What a crew becomes when all its jobs are ready.
type Started = (
    Arc<Shared>,
    Vec<JoinHandle<Option<JobOutcome>>>,
    Vec<SyncSender<IntervalBuffer>>,
    Vec<EngineFacts>,
);

impl<'a> Crew<'a> {
    fn new(arming: Arming<'a>, closed: SyncSender<ClosedInterval>) -> Self {
        let (ready, readiness) = channel();
        let shared = Shared {
            stop: arming.stop.clone(),
            first_ends_all: arming.step.first_job_ends_all,
            ..Shared::default()
        };
        Self {
            arming,
            shared: Arc::new(shared),
            inputs: Vec::new(),
            streams: Vec::new(),
            empty: Vec::new(),
            closed,
            ready,
            readiness,
            next_stream: 0,
        }
    }

    fn add(&mut self, part: Part<'_>) -> Result<(), RunError> {
        let Part { load, effective, arrivals, files } = part;
        for (place, files) in (0..).zip(files) {
            let (sender, empty) = spare_buffers(&effective.workload, !arrivals.is_closed());
            self.empty.push(sender);
            self.streams.push(self.next_stream);
            let input = self.input(load, &effective, &arrivals, (place, files, empty))?;
            self.inputs.push(input);
        }
        self.next_stream += 1;
        Ok(())
    }

    fn input(
        &self,
        load: &Load,
        effective: &Effective,
        arrivals: &Arrivals,
        (place, files, empty): (u32, Vec<OwnedFd>, Receiver<IntervalBuffer>),
    ) -> Result<JobInput, RunError> {
        let Arming { plan, step, round, clock, processors, .. } = self.arming;
        let workload = &effective.workload;
        let index = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        let job = place / effective.stand_ins;
        let target = load.place_of(job).target;
        let sizes = load.targets_of(job).map(|target| plan.targets[target].size);
        let size = sizes.min().unwrap_or(plan.targets[target].size);
        // Another round is another draw.
        let step_seed = u64::from(step.index) | (u64::from(round) << 32);
        let seed = job_seed(plan.seed, step_seed, index.into());
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
            limit: JobLimit::of(limit, (step.ramp, step.interval), workload, place),
            schedule: Schedule::new(arrivals, place, workload.jobs, seed),
            committer_schedules: committer_schedules(arrivals, place, workload, seed),
            processors: processors.of(load, target, place)?,
            pass_file: pass_file(workload, files.first())?,
            blocking_syncs: load.blocking_syncs,
            files,
            files_each: load.targets_each,
            clock,
            closed: self.closed.clone(),
            empty,
            ready: Readiness::new(index, self.ready.clone()),
        })
    }

    /// Starts every job and waits until all are ready; if one is not, none begins.
    fn start(self) -> Result<Started, RunError> {
        let Self { shared, inputs, streams, empty, ready, readiness, next_stream, .. } = self;
        drop(ready);
        let jobs = inputs.len();
        let mut threads = Vec::with_capacity(jobs);
        let mut refusal = None;
        for input in inputs {
            let name = format!("job {}", input.index);
            let shared = Arc::clone(&shared);
            match Builder::new().name(name).spawn(move || run_job(input, &shared)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    refusal = Some(spawn_error(threads.len(), jobs, error));
                    break;
                }
            }
        }
        let facts = match refusal {
            Some(error) => Err(error),
            None => wait_until_ready(&readiness, &streams, next_stream as usize),
        };
        match facts {
            Ok(facts) => Ok((shared, threads, empty, facts)),
            Err(error) => {
                shared.gate.open(Word::Aborted);
                for thread in threads {
                    // The first refusal is what is told.
                    let _ = thread.join();
                }
                Err(error)
            }
        }
    }
}

/// The same file once more, if each pass of a buffered job drops what is cached of it.
fn pass_file(workload: &Workload, file: Option<&OwnedFd>) -> Result<Option<OwnedFd>, RunError> {
    let drops = workload.drops_cache_each_pass && workload.cache == CacheMode::Buffered;
    let file = file.filter(|_| drops).map(OwnedFd::try_clone).transpose();
    file.map_err(|error| RunError::target("cannot open the target once more", Some(error.into())))
}

/// The schedules of committers with a thread each: together they offer what was asked for.
fn committer_schedules(
    arrivals: &Arrivals,
    place: u32,
    workload: &Workload,
    seed: u64,
) -> Vec<Schedule> {
    let policy = workload.group_commit.filter(|_| has_committer_threads(workload));
    let each = policy.map_or(0, |policy| policy.committers);
    let all = workload.jobs.saturating_mul(each);
    let schedule = |committer: u32| {
        let seed = job_seed(seed, 0, committer.into());
        Schedule::new(arrivals, place * each + committer, all, seed)
    };
    (0..each).filter_map(schedule).collect()
}

fn spawn_error(started: usize, jobs: usize, error: std::io::Error) -> RunError {
    let message = format!("cannot start more than {started} of {jobs} jobs");
    let mut error = RunError::target(message, Some(error.into()));
    error.hint = Some("give fewer --jobs, or raise the limit on processes (ulimit -u)".to_owned());
    error
}

fn spare_buffers(
    workload: &Workload,
    is_open: bool,
) -> (SyncSender<IntervalBuffer>, Receiver<IntervalBuffer>) {
    let (sender, receiver) = sync_channel(BUFFERS_PER_JOB);
    // The one in use is the recorder's own.
    for _ in 1..BUFFERS_PER_JOB {
        let sent = sender.try_send(IntervalBuffer::new(workload, is_open));
        assert!(sent.is_ok(), "the channel holds all buffers of a job");
    }
    (sender, receiver)
}

/// What is known of a load before its jobs are there.
fn started_event(arming: Arming<'_>, part: &Part<'_>) -> StreamStarted {
    let Part { load, effective, arrivals, .. } = part;
    let workload = &effective.workload;
    let clock = match (effective.engine, arming.clock) {
        (EngineKind::Null, _) => "virtual",
        (_, RunClock::Tsc(_)) => "tsc",
        (_, RunClock::Monotonic(_)) => "monotonic",
    };
    StreamStarted {
        engine: effective.engine,
        jobs: workload.jobs,
        depth: workload.depth,
        batch: load.batch.submit_max.min(workload.depth),
        cache: workload.cache,
        region: workload.region,
        clock: clock.to_owned(),
        features: arming.processors.words(load),
        fallbacks: effective.fallbacks.clone(),
        arrivals: *arrivals,
    }
}

fn with_facts(
    arming: Arming<'_>,
    streams: Vec<StreamStarted>,
    facts: Vec<EngineFacts>,
) -> StepStarted {
    let mut streams = streams.into_iter().zip(facts).map(|(mut stream, facts)| {
        stream.features.splice(0..0, facts.features);
        stream.fallbacks.extend(facts.fallbacks);
        stream
    });
    let stream = streams.next();
    StepStarted {
        step: arming.step.index,
        round: arming.round,
        stream: stream.expect("a step has a load"),
        beside: streams.collect(),
    }
}

/// One answer of each job: per stream the facts of the first, which stand for all, or the first
/// refusal.
fn wait_until_ready(
    readiness: &Receiver<Answer>,
    stream_of: &[u32],
    streams: usize,
) -> Result<Vec<EngineFacts>, RunError> {
    let mut facts: Vec<Option<EngineFacts>> = vec![None; streams];
    let mut refusal = None;
    for Answer { job, facts: answer } in readiness.iter().take(stream_of.len()) {
        match answer {
            Ok(more) => match &mut facts[stream_of[job as usize] as usize] {
                // Jobs share a limit on locked memory, so only some may have fallen back.
                Some(known) => {
                    for fallback in more.fallbacks {
                        if !known.fallbacks.contains(&fallback) {
                            known.fallbacks.push(fallback);
                        }
                    }
                }
                first => *first = Some(more),
            },
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match refusal {
        Some(error) => Err(error),
        None => facts
            .into_iter()
            .map(|facts| facts.ok_or_else(|| RunError::unsupported("no job could be started")))
            .collect(),
    }
}
