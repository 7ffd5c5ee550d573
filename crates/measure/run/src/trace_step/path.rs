//! A step in which one job makes a few hundred operations, one after the other, while the kernel
//! traces where their time goes: in system calls, in block layers, at the devices, on and off the
//! processor.
//!
//! Runs a step of [`durio_plan::Role::TracePath`]; its limit says how many operations. One of its
//! events is [`PathTraced`]. As many operations are made without tracing, half of them before and
//! half after, so that the cost of tracing is known. Where nothing can be traced, the event says
//! why.
//!
//! All I/O that reaches the target's devices in that time from the job, from other threads of this
//! process and from kernel threads is counted as the operation's; I/O of other programs is left
//! out.

mod devices;
mod timeline;
#[cfg(test)]
mod timeline_tests;
mod tracer;

use std::path::Path;

use durio_base::Nanos;
use durio_block::{Clock, Engine, MonotonicClock};
use durio_observe::{Stack, TraceClock, read_stack};
use durio_plan::EngineKind;
use durio_record::{Event, Outcome, PathTraced};
use durio_workload::{AccessKind, job_seed};

use crate::conditions::path_of;
use crate::error::RunError;
use crate::job::RunClock;
use crate::measured_loop::EarlyEnding;
use crate::one_by_one::{EndedEarly, OneByOne, with_engine};
use crate::sink::StopFlag;
use crate::step::StepSetup;
use crate::unmeasured::{SingleLoad, Watching, started};
use devices::{TracedLayer, traced_layers};
use timeline::timelines;
use tracer::{PathTrace, PathTracer};

/// Follows the operations of a step. `root` is the folder in which `proc` and `sys` are.
pub(crate) fn run_path(
    setup: StepSetup<'_>,
    names: &[String],
    root: &Path,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let mut single = SingleLoad::open(setup)?;
    let layers = match stack_of(setup) {
        Some(stack) => traced_layers(root, &stack),
        None => Vec::new(),
    };
    let tracer = match single.effective.engine {
        EngineKind::Null => Err("the null engine makes no system call".to_owned()),
        EngineKind::Fio => return Err(RunError::unsupported("operations of fio are not traced")),
        _ => PathTracer::make(root, &layers, setup.clock, single.count),
    };
    let place = tracer.as_ref().ok().map(|tracer| format!("traced by {}", tracer.place()));
    emit(started(setup, &single, place.into_iter().collect()));
    let watching = Watching::begin(setup, names);
    let made = match (&tracer, setup.clock) {
        // Stamps must be of the clock of the trace, else they cannot be laid over its events.
        (Ok(PathTracer { clock: TraceClock::Tsc, .. }), RunClock::Tsc(clock)) => {
            make(setup, &mut single, clock, tracer)
        }
        _ => make(setup, &mut single, MonotonicClock, tracer),
    }?;
    let stopped = setup.stop.is_set() && made.ending.failure.is_none();
    if !stopped {
        emit(Event::PathTraced(told(setup, &made, &layers)));
    }
    watching.conclude(made.ending, stopped, emit)
}

struct Traces {
    ending: EarlyEnding,
    untraced: Vec<Nanos>,
    traced: Vec<Nanos>,
    /// The followed operations, or the reason for their absence.
    followed: Result<PathTrace, String>,
    /// The stamps of the traced operations, on the clock of the trace.
    stamps: Vec<Stamps>,
    /// Nanoseconds of the ticks of that clock, as a factor.
    nanos: Box<dyn Fn(u64) -> u64>,
}

fn make<C: Clock + Copy + 'static>(
    setup: StepSetup<'_>,
    single: &mut SingleLoad,
    clock: C,
    tracer: Result<PathTracer, String>,
) -> Result<Traces, RunError> {
    let nanos = Box::new(move |ticks| clock.nanos(ticks));
    let mut made = Traces {
        ending: EarlyEnding::default(),
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
    let seed = job_seed(setup.plan.seed, setup.step.index.into(), 0);
    let mut making = TracedOperations {
        operations: OneByOne::new(&single.effective.workload, single.region, seed),
        stop: setup.stop,
    };
    let mut tracer = Some(tracer);
    let mut body = |engine: &mut dyn Engine<Clock = C>| {
        if let Some(tracer) = tracer.take() {
            phases(engine, &mut making, single.count, tracer, &mut made);
        }
    };
    let engine = (single.effective.engine, clock);
    with_engine(engine, &single.effective.workload, file, seed, &mut body)?;
    made.ending = making.operations.ending;
    Ok(made)
}

/// Operations without tracing, with it, and without it.
fn phases<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    making: &mut TracedOperations<'_>,
    count: u64,
    tracer: Result<PathTracer, String>,
    made: &mut Traces,
) {
    // Half before and half after: drift is in both sides of the difference.
    let half = count / 2;
    let before = making.make(engine, half);
    made.followed = tracer.and_then(|mut tracer| {
        tracer.start()?;
        made.stamps = making.make(engine, count);
        tracer.finish()
    });
    let after = making.make(engine, count - half);
    let spans =
        |all: &[Stamps]| all.iter().map(|stamps| Nanos::new((made.nanos)(stamps.span()))).collect();
    // Service latencies of both, by the same stamps: their difference is the cost of tracing.
    made.untraced = [spans(&before), spans(&after)].concat();
    made.traced = spans(&made.stamps);
}

/// When an operation began and when it had ended, on the engine's clock. That is the trace's own:
/// nothing needs to be written to the trace between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamps {
    begin: u64,
    end: u64,
}

impl Stamps {
    fn span(self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Operations on their way: an access each, and the sync calls that follow it.
struct TracedOperations<'a> {
    operations: OneByOne<'a>,
    stop: &'a StopFlag,
}

impl TracedOperations<'_> {
    /// Makes `count` operations, or as many as come to their end.
    fn make<C: Clock>(&mut self, engine: &mut dyn Engine<Clock = C>, count: u64) -> Vec<Stamps> {
        let mut made = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let has_ended = self.operations.ending.is_early();
        while (made.len() as u64) < count && !self.stop.is_set() && !has_ended {
            match self.operation(engine) {
                Ok(stamps) => made.extend(stamps),
                Err(EndedEarly) => break,
            }
        }
        made
    }

    /// None when a segment returns to its first state, which is not part of an operation.
    fn operation<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
    ) -> Result<Option<Stamps>, EndedEarly> {
        let access = self.operations.next(engine);
        let begin = engine.clock().now().0;
        self.operations.access_and_syncs(engine, access)?;
        let end = engine.clock().now().0;
        let is_access = matches!(access.kind, AccessKind::Read | AccessKind::Write);
        Ok(is_access.then_some(Stamps { begin, end }))
    }
}

/// The event; its results are those of the operations that the trace holds whole.
fn told(setup: StepSetup<'_>, made: &Traces, layers: &[TracedLayer]) -> PathTraced {
    let mut event = PathTraced {
        step: setup.step.index,
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
            // A tick of the counter is shorter.
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

/// The layers under the step's target.
fn stack_of(setup: StepSetup<'_>) -> Option<Stack> {
    let target = setup.plan.targets.get(setup.step.load.target)?;
    read_stack(path_of(&target.kind)?).ok()
}
