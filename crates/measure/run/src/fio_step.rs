//! A step that the installed fio runs: the same events, out of fio's own results.
//!
//! All loads of the step name fio as their engine. The events have one interval for all of fio's
//! time, with fio's counts, latencies and bins. durio-fio turns loads into options and reads fio's
//! JSON.
//!
//! fio is asked for totals alone, without a series over time or a count of operations in flight to
//! check its latencies against.
//!
//! Jobs of fio's JSON give an [`Interval`] per stream and a [`JobEnded`] per job. fio's latency is
//! durio's service latency, its slat the submit and its clat the completion latency. Bins are kept
//! as fio has them; the histogram next to them has each bin at its middle.

use durio_base::{Bytes, Nanos};
use durio_fio::FioError;
use durio_fio::export_job::{ExportPlace, ExportTerms, engine_of, export_load, is_asynchronous};
use durio_fio::histogram::FioBins;
use durio_fio::installed::{Fio, FioCommand, FioRun, NamedOptions, run_fio};
use durio_fio::json::{DirectionFigures, FioJob, LatencyBlock};
use durio_plan::{EngineKind, Load, Step};
use durio_record::{
    Accounting, Event, Exact, Interval, JobEnded, Latency, OperationName, OperationRecord, Outcome,
    Phase, StepStarted, Warning,
};
use durio_workload::SyncMethod;

use crate::StopFlag;
use crate::counters::CounterReading;
use crate::error::RunError;
use crate::start::{StartTime, monotonic_now};
use crate::step::{EffectiveLoad, StepSetup, stream_started};

/// True if fio runs this step, or any part of it.
pub(crate) fn is_fio(step: &Step) -> bool {
    step.loads().any(|load| load.engine == EngineKind::Fio)
}

pub(crate) struct FioStep {
    round: u32,
    fio: Fio,
    jobs: Vec<NamedOptions>,
    started: StepStarted,
}

impl FioStep {
    pub(crate) fn new(setup: StepSetup<'_>) -> Result<Self, RunError> {
        let step = setup.step;
        if let Some(other) = step.loads().find(|load| load.engine != EngineKind::Fio) {
            return Err(RunError::unsupported(format!(
                "'{}' runs next to a fio load: fio runs all loads of a step or none",
                other.workload.name
            )));
        }
        let fio = Fio::find(None).map_err(|error| not_here(&error))?;
        let mut jobs = Vec::new();
        let mut streams = Vec::new();
        for (stream, load) in (0_u32..).zip(step.loads()) {
            let arrivals = setup.arrivals(stream, load);
            let first = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
            let places = places(setup, load, first)?;
            let terms = ExportTerms {
                limit: load.own_limit.unwrap_or(step.limit),
                ramp: step.ramp,
                arrivals,
                first_job_ends_all: step.first_job_ends_all,
            };
            let exported = export_load(load, &format!("stream{stream}"), &places, terms);
            jobs.extend(exported.map_err(|error| not_here(&error))?);
            let mut features =
                vec![fio.version_text.clone(), format!("ioengine {}", engine_of(load))];
            features.extend(setup.processors.words(load));
            let planned = EffectiveLoad::of(load);
            streams.push(stream_started(load, &planned, "fio", features, arrivals));
        }
        let (index, round) = (step.index, setup.round);
        let (stream, beside) = (streams.remove(0), streams);
        let started = StepStarted { step: index, round, stream, beside };
        Ok(Self { round, fio, jobs, started })
    }

    /// Runs fio from `start` on, and reports its results.
    pub(crate) fn run(
        self,
        step: &Step,
        devices: &[String],
        (start, stop): (StartTime, &StopFlag),
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        let Self { round, fio, jobs, started } = self;
        emit(Event::StepStarted(started));
        let expected = jobs.len();
        let before = CounterReading::read(devices);
        let command = FioCommand { fio, jobs, folder: None };
        start.sleep();
        let started = monotonic_now();
        // fio ends with durio and writes its result to memory, so nothing of it is left behind.
        let run = run_fio(&command, &|| stop.is_set());
        let watched = CounterReading::read(devices).since(&before);
        start.event((step.index, round), started).into_iter().for_each(&mut *emit);
        let ended = |outcome, measured| {
            Event::StepEnded(watched.step_ended(step.index, round, outcome, measured))
        };
        let run = match run {
            Ok(run) => run,
            Err(FioError::Stopped) => {
                emit(ended(Outcome::Interrupted, Nanos::ZERO));
                return Ok(Outcome::Interrupted);
            }
            Err(error) => {
                emit(ended(Outcome::Failed, Nanos::ZERO));
                return Err(RunError::target("the step run by fio failed").because(error));
            }
        };
        let jobs = jobs_of(&run, expected)?;
        let span = tell(step, round, jobs, emit);
        tell_messages(step, &run, emit);
        let outcome = if run.is_stopped { Outcome::Interrupted } else { Outcome::Complete };
        emit(ended(outcome, span));
        Ok(outcome)
    }
}

/// fio cannot be had, or cannot do it.
fn not_here(error: &FioError) -> RunError {
    let mut unsupported = RunError::unsupported(error.to_string());
    unsupported.hint = match error {
        FioError::NotInFio { .. } => {
            Some("use one of durio's engines: sync, uring, aio".to_owned())
        }
        _ => None,
    };
    unsupported.source = std::error::Error::source(error).map(|source| source.to_string().into());
    unsupported
}

/// Where each job of a load works; `first` is the number of its first job in the step.
fn places(setup: StepSetup<'_>, load: &Load, first: u32) -> Result<Vec<ExportPlace>, RunError> {
    let StepSetup { plan, processors, .. } = setup;
    let place = |job: u32| {
        let place = load.place_of(job);
        let target = plan.target_of(&Load { target: place.target, ..load.clone() });
        let region = load
            .workload
            .region_among(place.place, place.sharers, target.size)
            .map_err(|error| RunError::unsupported(error.to_string()))?;
        Ok(ExportPlace {
            path: setup.target(place.target)?.path_for_others()?,
            region,
            cpus: processors.of(load, place.target, job)?,
            seed: setup.seed_of_job(first.saturating_add(job)),
        })
    };
    (0..load.workload.jobs).map(place).collect()
}

/// fio's jobs, one for each that it was given.
fn jobs_of(run: &FioRun, expected: usize) -> Result<&[FioJob], RunError> {
    let jobs = run.file.output.jobs.as_slice();
    // Only their order distinguishes the results: with one missing, each job after it would get
    // another's.
    if jobs.len() != expected {
        let message = format!("fio gave the results of {} jobs, not of {expected}", jobs.len());
        return Err(RunError::target(message));
    }
    if let Some(job) = jobs.iter().find(|job| job.error != 0) {
        let errno = i32::try_from(job.error).unwrap_or(0);
        let source = std::io::Error::from_raw_os_error(errno);
        let message = format!("fio's job {} ended with an error", job.jobname);
        return Err(RunError::target(message).because(source));
    }
    Ok(jobs)
}

/// Emits the results of each stream and each job; gives the longest time.
fn tell(step: &Step, round: u32, jobs: &[FioJob], emit: &mut dyn FnMut(Event)) -> Nanos {
    let mut rest = jobs;
    let mut number = 0_u32;
    let mut longest = Nanos::ZERO;
    for (stream, load) in (0_u32..).zip(step.loads()) {
        let count = (load.workload.jobs as usize).min(rest.len());
        let (ours, others) = rest.split_at(count);
        rest = others;
        let place = FioStream { step, round, stream, load };
        emit(Event::Interval(interval(&place, ours)));
        for job in ours {
            emit(Event::JobEnded(job_ended(&place, number, job)));
            number += 1;
        }
        longest = longest.max(measured(ours));
    }
    longest
}

/// fio's other output is for the reader.
fn tell_messages(step: &Step, run: &FioRun, emit: &mut dyn FnMut(Event)) {
    let text: Vec<&str> =
        run.messages.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if !text.is_empty() {
        let text: String = text.join("; ").chars().take(1000).collect();
        let message = format!("step {}: fio says: {text}", step.index);
        emit(Event::Warning(Warning { message }));
    }
}

struct FioStream<'a> {
    step: &'a Step,
    round: u32,
    stream: u32,
    load: &'a Load,
}

/// The counts of one kind of operation, over jobs.
#[derive(Default)]
struct JobTotals {
    bytes: u64,
    service: JobLatencies,
    submit: JobLatencies,
    completion: JobLatencies,
}

/// Latencies of several jobs together.
#[derive(Default)]
struct JobLatencies {
    exact: Exact,
    bins: FioBins,
}

impl JobLatencies {
    fn add(&mut self, block: &LatencyBlock) {
        let count = block.samples();
        #[expect(clippy::cast_precision_loss, reason = "a sum of latencies")]
        let sum = block.mean * count as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float becomes the nearest number there is"
        )]
        let sum_ns = sum.round() as u64;
        let (min_ns, max_ns) = (block.min, block.max.max(block.min));
        self.exact.add(&Exact { count, sum_ns, min_ns, max_ns });
        self.bins.merge(&block.bins);
    }

    fn latency(&self) -> Latency {
        Latency::about(self.exact, self.bins.iter())
    }

    fn native(&self) -> Vec<(u32, u64)> {
        self.bins.buckets().map(|(bucket, count)| (bucket.into(), count)).collect()
    }
}

impl JobTotals {
    fn add(&mut self, direction: &DirectionFigures) {
        self.bytes = self.bytes.saturating_add(direction.io_bytes);
        self.service.add(&direction.lat_ns);
        self.submit.add(&direction.slat_ns);
        self.completion.add(&direction.clat_ns);
    }

    fn record(&self, operation: OperationName, has_parts: bool) -> Option<OperationRecord> {
        (self.service.exact.count > 0).then(|| OperationRecord {
            operation,
            bytes: Bytes::new(self.bytes),
            service: self.service.latency(),
            submit: has_parts.then(|| self.submit.latency()),
            completion: has_parts.then(|| self.completion.latency()),
            response: None,
            fio_bins: self.service.native(),
        })
    }
}

/// The time of the longest job: that of its slowest direction, as fio counts it.
fn measured(jobs: &[FioJob]) -> Nanos {
    jobs.iter().map(runtime).max().unwrap_or(Nanos::ZERO)
}

fn runtime(job: &FioJob) -> Nanos {
    let of = |direction: &Option<DirectionFigures>| {
        direction.as_ref().map_or(0, |direction| direction.runtime)
    };
    of_millis(of(&job.read).max(of(&job.write)))
}

fn of_millis(millis: u64) -> Nanos {
    Nanos::new(millis.saturating_mul(1_000_000))
}

/// The counts of jobs together. `parts` says whether the record is that of a job, which has submit
/// and completion latencies where the engine is asynchronous.
fn operations(load: &Load, jobs: &[FioJob], parts: bool) -> Vec<OperationRecord> {
    let (mut reads, mut writes, mut syncs) =
        (JobTotals::default(), JobTotals::default(), JobTotals::default());
    for job in jobs {
        job.read.iter().for_each(|direction| reads.add(direction));
        job.write.iter().for_each(|direction| writes.add(direction));
        job.sync.iter().for_each(|section| syncs.service.add(&section.lat_ns));
    }
    // fio has no slat for synchronous engines: the submitting call is the operation.
    let has_parts = parts && is_asynchronous(engine_of(load));
    let mut records: Vec<OperationRecord> = Vec::new();
    if commits_by_writing(load) {
        // The write is acknowledged when it is durable; its bytes are the write's.
        let bytes = std::mem::take(&mut writes.bytes);
        records.extend(writes.record(OperationName::Commit, false));
        writes.bytes = bytes;
    }
    records.extend(reads.record(OperationName::Read, has_parts));
    records.extend(writes.record(OperationName::Write, has_parts));
    records.extend(syncs.record(OperationName::Sync, false));
    records
}

/// True if each write is a commit by itself. A write and the call after it fio measures apart: their
/// sum is not known for any single commit.
fn commits_by_writing(load: &Load) -> bool {
    let method = load.workload.sync.method;
    load.workload.commits_each_write() && matches!(method, SyncMethod::ODsync | SyncMethod::OSync)
}

fn interval(place: &FioStream<'_>, jobs: &[FioJob]) -> Interval {
    let FioStream { step, round, stream, load } = *place;
    Interval {
        step: step.index,
        repeat: step.repeat,
        round,
        stream,
        target: load.target,
        phase: Phase::Measure,
        index: 0,
        from: Nanos::ZERO,
        to: measured(jobs),
        unwatched_max: None,
        operations: operations(load, jobs, false),
    }
}

/// A job's end. fio counts no operations in flight: the accounting has its time alone.
fn job_ended(place: &FioStream<'_>, number: u32, job: &FioJob) -> JobEnded {
    let FioStream { step, round, stream, load } = *place;
    let measured = runtime(job);
    // Shares of CPU time are of this time, which has the ramp in it.
    let whole = job.job_runtime.map_or(measured, of_millis);
    JobEnded {
        batches: None,
        step: step.index,
        round,
        stream,
        job: number,
        measured,
        cpu_user: percent_of(whole, job.usr_cpu),
        cpu_system: percent_of(whole, job.sys_cpu),
        // fio adds both kinds up.
        context_switches: None,
        run_delay: None,
        exchanges: 0,
        accounting: Accounting { engine_span_ns: whole.get(), ..Accounting::default() },
        pacing: None,
        operations: operations(load, std::slice::from_ref(job), true),
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a time, as fio rounds it"
)]
fn percent_of(span: Nanos, percent: f64) -> Nanos {
    Nanos::new((span.get() as f64 * percent.clamp(0.0, 1e6) / 100.0) as u64)
}

#[cfg(test)]
mod tests {
    //! What fio's figures become; the values are made up, and all differ.

    use durio_fio::json::{FioFile, FioOutput, SyncSection};
    use durio_plan::{Limit, Role};
    use durio_workload::{PerMille, SyncPolicy, Workload};

    use super::*;

    fn block(min: u64, mean: f64, max: u64, count: u64) -> LatencyBlock {
        let mut bins = FioBins::default();
        bins.add(max, count);
        LatencyBlock { min, max, mean, n: Some(count), bins, ..LatencyBlock::default() }
    }

    fn figures(runtime: u64, io_bytes: u64, count: u64) -> DirectionFigures {
        DirectionFigures {
            runtime,
            io_bytes,
            slat_ns: block(10, 20.0, 30, count),
            clat_ns: block(100, 200.0, 300, count),
            lat_ns: block(110, 220.0, 330, count),
            ..DirectionFigures::default()
        }
    }

    fn job(read: DirectionFigures, write: DirectionFigures) -> FioJob {
        let sync = SyncSection { lat_ns: block(1000, 2000.0, 3000, 4), ..SyncSection::default() };
        FioJob {
            jobname: "stream0.0".to_owned(),
            read: Some(read),
            write: Some(write),
            sync: Some(sync),
            job_runtime: Some(2000),
            usr_cpu: 12.5,
            sys_cpu: 3.0,
            ..FioJob::default()
        }
    }

    fn load(engine: &str, method: SyncMethod) -> Load {
        let workload = Workload {
            read_share: PerMille(500),
            sync: SyncPolicy::each(method),
            jobs: 2,
            ..Workload::default()
        };
        Load { fio_engine: Some(engine.to_owned()), ..Load::new(0, workload, EngineKind::Fio) }
    }

    fn counts(records: &[OperationRecord]) -> Vec<(OperationName, u64, u64)> {
        let of = |record: &OperationRecord| {
            (record.operation, record.service.exact.count, record.bytes.get())
        };
        records.iter().map(of).collect()
    }

    #[test]
    fn a_step_takes_as_long_as_the_slowest_direction_of_its_longest_job() {
        let jobs = [
            job(figures(1500, 1, 1), figures(900, 1, 1)),
            job(figures(300, 1, 1), figures(1700, 1, 1)),
        ];
        assert_eq!(jobs.each_ref().map(runtime), [1500, 1700].map(Nanos::from_millis));
        assert_eq!(measured(&jobs), Nanos::from_millis(1700));
        let only_reads = FioJob { write: None, ..jobs[0].clone() };
        assert_eq!(runtime(&only_reads), Nanos::from_millis(1500));
    }

    #[test]
    fn jobs_are_one_interval_and_each_has_its_own_end() {
        use OperationName::{Commit, Read, Sync, Write};
        let mut step = Step::new(
            Role::Measure,
            load("io_uring", SyncMethod::Fdatasync),
            Limit::Operations(9),
            Nanos::from_secs(1),
        );
        step.index = 6;
        let mut other = load("psync", SyncMethod::ODsync);
        other.workload.jobs = 1;
        step.beside.push(other);
        let jobs = [
            job(figures(1000, 4096 * 3, 3), figures(1100, 4096 * 5, 5)),
            job(figures(1200, 4096 * 7, 7), figures(1300, 4096 * 11, 11)),
            job(figures(2500, 4096 * 13, 13), figures(800, 4096 * 17, 17)),
        ];
        let mut events = Vec::new();
        let span = tell(&step, 2, &jobs, &mut |event| events.push(event));
        assert_eq!(span, Nanos::from_millis(2500));
        let intervals: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Interval(interval) => {
                    let place = (interval.step, interval.round, interval.stream);
                    Some((place, interval.to, counts(&interval.operations)))
                }
                _ => None,
            })
            .collect();
        let millis = Nanos::from_millis;
        let first = vec![(Read, 10, 4096 * 10), (Write, 16, 4096 * 16), (Sync, 8, 0)];
        // Each of its writes is durable when it is done.
        let second =
            vec![(Commit, 17, 0), (Read, 13, 4096 * 13), (Write, 17, 4096 * 17), (Sync, 4, 0)];
        let expected = [((6, 2, 0), millis(1300), first), ((6, 2, 1), millis(2500), second)];
        assert_eq!(intervals, expected);
        let ends: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::JobEnded(ended) => {
                    let parts = ended.operations.iter().filter(|it| it.submit.is_some()).count();
                    Some((ended.stream, ended.job, ended.measured, parts))
                }
                _ => None,
            })
            .collect();
        // Syncs have no parts, and a synchronous engine has none at all.
        let expected = [(0, 0, millis(1100), 2), (0, 1, millis(1300), 2), (1, 2, millis(2500), 0)];
        assert_eq!(ends, expected);
    }

    #[test]
    fn latencies_are_fio_s_and_sums_are_of_its_means() {
        let jobs =
            [job(figures(1, 1, 3), figures(1, 1, 5)), job(figures(1, 1, 7), figures(1, 1, 1))];
        let records = operations(&load("libaio", SyncMethod::Fsync), &jobs, true);
        let exact = |latency: &Latency| {
            let Exact { count, sum_ns, min_ns, max_ns } = latency.exact;
            [count, sum_ns, min_ns, max_ns]
        };
        assert_eq!(exact(&records[0].service), [10, 2200, 110, 330]);
        assert_eq!(exact(records[0].submit.as_ref().unwrap()), [10, 200, 10, 30]);
        assert_eq!(exact(records[0].completion.as_ref().unwrap()), [10, 2000, 100, 300]);
        assert_eq!(exact(&records[2].service), [8, 16_000, 1000, 3000]);
        let native: u64 = records[0].fio_bins.iter().map(|(_, count)| count).sum();
        assert_eq!(native, 10);
    }

    #[test]
    fn shares_of_processor_time_are_of_the_job_s_whole_time() {
        let step = Step::new(
            Role::Measure,
            load("psync", SyncMethod::None),
            Limit::Operations(9),
            Nanos::from_secs(1),
        );
        let place = FioStream { step: &step, round: 0, stream: 0, load: &step.load };
        let with_ramp = job(figures(1000, 1, 1), figures(500, 1, 1));
        let ended = job_ended(&place, 0, &with_ramp);
        let millis = Nanos::from_millis;
        assert_eq!((ended.cpu_user, ended.cpu_system), (millis(250), millis(60)));
        assert_eq!(ended.accounting.engine_span_ns, 2_000_000_000);
        // fio before 3.8 does not say how long that was.
        let old = FioJob { job_runtime: None, ..with_ramp };
        let ended = job_ended(&place, 0, &old);
        assert_eq!((ended.cpu_user, ended.cpu_system), (millis(125), millis(30)));
    }

    #[test]
    fn results_of_other_jobs_than_those_that_were_started_are_an_error() {
        let run = |jobs: Vec<FioJob>| {
            let output = FioOutput { jobs, ..FioOutput::default() };
            let file = FioFile {
                output,
                earlier: Vec::new(),
                documents: 1,
                cut_off_line: None,
                text: String::new(),
            };
            FioRun { file, messages: String::new(), is_stopped: false }
        };
        let good = || job(figures(1, 1, 1), figures(1, 1, 1));
        assert_eq!(jobs_of(&run(vec![good(), good()]), 2).unwrap().len(), 2);
        let error = jobs_of(&run(vec![good(), good()]), 3).unwrap_err().to_string();
        assert!(error.contains("the results of 2 jobs, not of 3"), "{error}");
        let bad = FioJob { error: 28, jobname: "stream0.1".to_owned(), ..good() };
        let error = jobs_of(&run(vec![good(), bad]), 2).unwrap_err().to_string();
        assert!(error.contains("fio's job stream0.1 ended with an error"), "{error}");
    }

    #[test]
    fn only_writes_that_are_durable_by_themselves_are_commits() {
        let of = |method, every, read_share| {
            let mut load = load("psync", method);
            load.workload.sync.every = every;
            load.workload.read_share = PerMille(read_share);
            commits_by_writing(&load)
        };
        assert!(of(SyncMethod::ODsync, 1, 999) && of(SyncMethod::OSync, 1, 0));
        assert!(!of(SyncMethod::ODsync, 1, 1000) && !of(SyncMethod::OSync, 2, 0));
        assert!(!of(SyncMethod::Fsync, 1, 0) && !of(SyncMethod::None, 1, 0));
    }

    #[test]
    fn a_share_of_a_time_is_cut_below_nothing_and_at_ten_thousand_times_the_time() {
        let of = |percent| percent_of(Nanos::new(2_000), percent).get();
        assert_eq!([of(12.5), of(100.0), of(-3.0), of(2e6)], [250, 2000, 0, 20_000_000]);
    }
}
