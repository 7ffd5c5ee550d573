//! A step that the installed fio runs: the same events, out of fio's own results.
//!
//! All loads of the step name fio as their engine. The events have one interval for all of fio's
//! time, with fio's counts, latencies and bins. durio-fio turns loads into options and reads fio's
//! JSON.
//!
//! fio is asked for totals alone, without a series over time or a count of operations in flight to
//! check its latencies against.

mod figures;

use durio_base::Nanos;
use durio_fio::FioError;
use durio_fio::export_job::{ExportPlace, ExportTerms, engine_of, export_load};
use durio_fio::installed::{Fio, FioCommand, FioRun, NamedOptions, run_fio};
use durio_fio::json::FioJob;
use durio_plan::{EngineKind, Load, Step};
use durio_record::{Event, Outcome, StepStarted, Warning};

use crate::counters::CounterReading;
use crate::error::RunError;
use crate::sink::StopFlag;
use crate::step::{EffectiveLoad, StepSetup, stream_started};
use figures::{FioStream, interval, job_ended, measured};

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
                "'{}' runs beside a load of fio: fio runs all loads of a step or none",
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

    /// Runs fio, and reports its results.
    pub(crate) fn run(
        self,
        step: &Step,
        devices: &[String],
        stop: &StopFlag,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        let Self { round, fio, jobs, started } = self;
        emit(Event::StepStarted(started));
        let expected = jobs.len();
        let before = CounterReading::read(devices);
        let command = FioCommand { fio, jobs, folder: None };
        // fio ends with durio and writes its result to memory, so nothing of it is left behind.
        let run = run_fio(&command, &|| stop.is_set());
        let watched = CounterReading::read(devices).since(&before);
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
                return Err(RunError::target("the step that fio runs has failed").because(error));
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
        FioError::NotInFio { .. } => Some("use an engine of durio's: sync, uring, aio".to_owned()),
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
