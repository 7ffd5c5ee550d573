//! A step in which one job makes a few hundred operations, one after the other, while the kernel
//! traces where their time goes: in system calls, in block layers, at the devices, on and off the
//! processor.
//!
//! In: a step of [`durio_plan::Role::TracePath`]; its limit says how many operations. Out: its
//! events, among them one of [`PathTraced`]. As many operations are made without tracing, half of
//! them before and half after, so that what tracing costs is known. Where nothing can be traced, the
//! event says why.
//!
//! Everything that reaches the target's devices from the job, from other threads of this process and
//! from the kernel's own threads meanwhile is taken to be the operation's; what other programs send
//! is left out.

mod devices;
mod operations;
mod timeline;
#[cfg(test)]
mod timeline_tests;
mod tracer;

use std::path::{Path, PathBuf};

use durio_block::{Clock, Engine, MonotonicClock};
use durio_observe::{Stack, TraceClock, read_stack};
use durio_plan::{EngineKind, Target, TargetKind};
use durio_record::{Event, Outcome, PathTraced};
use durio_units::Nanos;
use durio_workload::job_seed;

use crate::error::RunError;
use crate::job::RunClock;
use crate::one_by_one::{Ending, with_engine};
use crate::step::{Arming, job_error};
use crate::unmeasured::{SingleLoad, Watching, started};
use devices::{TracedLayer, traced_layers};
use operations::{Making, Stamps};
use timeline::timelines;
use tracer::{Followed, Tracer};

/// Follows the operations of a step. `root` is the folder in which `proc` and `sys` are.
pub(crate) fn run_path(
    arming: Arming<'_>,
    names: &[String],
    root: &Path,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let mut single = SingleLoad::open(arming)?;
    let layers = match stack_of(arming) {
        Some(stack) => traced_layers(root, &stack),
        None => Vec::new(),
    };
    let tracer = match single.effective.engine {
        EngineKind::Null => Err("the null engine makes no system call".to_owned()),
        EngineKind::Fio => return Err(RunError::unsupported("operations of fio are not traced")),
        _ => Tracer::make(root, &layers, arming.clock, single.count),
    };
    let place = tracer.as_ref().ok().map(|tracer| format!("traced by {}", tracer.place()));
    emit(started(arming, &single, place.into_iter().collect()));
    let watching = Watching::begin(names);
    let made = match (&tracer, arming.clock) {
        (Ok(Tracer { clock: TraceClock::Tsc, .. }), RunClock::Tsc(clock)) => {
            make(arming, &mut single, clock, tracer)
        }
        _ => make(arming, &mut single, MonotonicClock, tracer),
    }?;
    let stopped = arming.stop.is_set() && made.ending.failure.is_none();
    if !stopped {
        emit(Event::PathTraced(told(arming, &made, &layers)));
    }
    conclude(arming, (names, watching), made, stopped, emit)
}

/// What was made of a step.
struct Made {
    ending: Ending,
    untraced: Vec<Nanos>,
    traced: Vec<Nanos>,
    /// What was followed, or why nothing.
    followed: Result<Followed, String>,
    /// The stamps of what was traced, on the clock of the trace.
    stamps: Vec<Stamps>,
    /// Nanoseconds of the ticks of that clock, as a factor.
    nanos: Box<dyn Fn(u64) -> u64>,
}

fn make<C: Clock + Copy + 'static>(
    arming: Arming<'_>,
    single: &mut SingleLoad,
    clock: C,
    tracer: Result<Tracer, String>,
) -> Result<Made, RunError> {
    let nanos = Box::new(move |ticks| clock.nanos(ticks));
    let mut made = Made {
        ending: Ending::default(),
        untraced: Vec::new(),
        traced: Vec::new(),
        followed: Err("no operation was made".to_owned()),
        stamps: Vec::new(),
        nanos,
    };
    let Some(file) = single.file.take() else {
        made.followed = tracer.and(Err("the target has no file".to_owned()));
        return Ok(made);
    };
    let seed = job_seed(arming.plan.seed, arming.step.index.into(), 0);
    let mut making = Making::new(&single.effective.workload, single.region, seed, arming.stop);
    let mut tracer = Some(tracer);
    let mut body = |engine: &mut dyn Engine<Clock = C>| {
        if let Some(tracer) = tracer.take() {
            phases(engine, &mut making, single.count, tracer, &mut made);
        }
    };
    let engine = (single.effective.engine, clock);
    with_engine(engine, &single.effective.workload, file, seed, &mut body)?;
    made.ending = making.ending;
    Ok(made)
}

/// Operations without tracing, with it, and without it.
fn phases<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    making: &mut Making<'_>,
    count: u64,
    tracer: Result<Tracer, String>,
    made: &mut Made,
) {
    let half = count / 2;
    let before = making.make(engine, half);
    made.followed = tracer.and_then(|mut tracer| {
        tracer.start()?;
        made.stamps = making.make(engine, count);
        tracer.finish()
    });
    let after = making.make(engine, count - half);
    let spans = |all: &[Stamps]| all.iter().map(|it| Nanos::new((made.nanos)(it.span()))).collect();
    made.untraced = [spans(&before), spans(&after)].concat();
    made.traced = spans(&made.stamps);
}

/// The event; the figures are those of the operations that the trace holds whole.
fn told(arming: Arming<'_>, made: &Made, layers: &[TracedLayer]) -> PathTraced {
    let mut event = PathTraced {
        step: arming.step.index,
        clock: String::new(),
        resolution: Nanos::ZERO,
        devices: layers.iter().map(|layer| layer.device.clone()).collect(),
        operations: Vec::new(),
        untraced: made.untraced.clone(),
        traced: made.traced.clone(),
        lost: 0,
        unavailable: None,
    };
    match &made.followed {
        Ok(followed) => {
            event.clock = followed.clock.name().to_owned();
            // Of the counter, a tick is less.
            event.resolution = match followed.clock {
                TraceClock::Monotonic => Nanos::from_micros(1),
                TraceClock::Tsc => Nanos::new(1),
            };
            event.lost = followed.lost;
            event.operations = timelines(followed, layers, &made.stamps, &*made.nanos);
        }
        Err(reason) => event.unavailable = Some(reason.clone()),
    }
    event
}

fn conclude(
    arming: Arming<'_>,
    (names, watching): (&[String], Watching),
    made: Made,
    stopped: bool,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let Ending { failure, engine_error } = made.ending;
    let name = &arming.step.load.workload.name;
    let error = job_error(arming.step.index, name, failure, engine_error);
    let outcome = match (&error, stopped) {
        (Some((told, _)), _) => {
            emit(Event::Error(told.clone()));
            Outcome::Failed
        }
        (None, true) => Outcome::Interrupted,
        (None, false) => Outcome::Complete,
    };
    emit(watching.ended(arming, names, outcome));
    error.map_or(Ok(outcome), |(_, error)| Err(error))
}

/// The layers under the step's target.
fn stack_of(arming: Arming<'_>) -> Option<Stack> {
    let target = arming.plan.targets.get(arming.step.load.target)?;
    read_stack(&path_of(target)?).ok()
}

fn path_of(target: &Target) -> Option<PathBuf> {
    let path = match &target.kind {
        TargetKind::NewFile { directory, .. } => directory,
        TargetKind::ExistingFile { path } | TargetKind::Device { path } => path,
        TargetKind::NullDevice { .. } | TargetKind::Scripted => return None,
    };
    Some(path.as_path().to_path_buf())
}
