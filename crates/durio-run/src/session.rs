//! A run from its first target to its last event.

use std::time::Instant;

use durio_block::{Clock, MonotonicClock, TscClock, tsc_is_reliable};
use durio_plan::{ClockChoice, EngineKind, Plan};
use durio_record::{Event, Journal, Outcome, RunEnded, StoppedBy, Warning};
use durio_units::Nanos;

use crate::counters::memory_max;
use crate::error::RunError;
use crate::job::RunClock;
use crate::layout::{HeldDevices, Prepared, prepare};
use crate::memory;
use crate::sink::{EventSink, LayoutProgress, StopFlag};
use crate::step::run_step;

/// What a run needs besides its plan.
#[derive(Debug)]
pub struct Context<'a> {
    /// Remembers files with names.
    pub journal: &'a mut Journal,
    /// Per target of the plan: kernel names of the devices below it, whose counters are read.
    pub devices: Vec<Vec<String>>,
    /// Set to end the run early.
    pub stop: StopFlag,
}

/// Emits events with their time, and keeps the first failure of the sink.
struct Emitter<'a> {
    sink: &'a mut dyn EventSink,
    began: Instant,
    stop: StopFlag,
    failure: Option<RunError>,
    /// The record says what ended the run.
    error_recorded: bool,
}

impl Emitter<'_> {
    fn emit(&mut self, event: Event) {
        if self.failure.is_some() {
            return;
        }
        self.error_recorded |= matches!(event, Event::Error(_));
        let at = Nanos::from(self.began.elapsed());
        if let Err(error) = self.sink.event(at, event) {
            self.failure = Some(RunError::sink(error));
            // Without a record there is no use in going on.
            self.stop.set();
        }
    }

    /// Records what ended the run, unless that is done.
    fn record(&mut self, step: Option<u32>, error: &RunError) {
        if !self.error_recorded {
            self.emit(Event::Error(stopped_by(step, error)));
        }
    }
}

fn stopped_by(step: Option<u32>, error: &RunError) -> StoppedBy {
    StoppedBy { step, message: error.to_string(), errno: error.errno(), offset: None }
}

/// Runs `plan`. Files that it makes are gone when it returns, however it returns.
///
/// # Errors
/// If a target cannot be prepared or answers with an error, or if an event cannot be kept. What
/// happened until then is in the sink, the error itself too.
///
/// # Panics
/// If the plan writes to a target that may not be written.
pub fn run(
    plan: &Plan,
    mut context: Context<'_>,
    sink: &mut dyn EventSink,
) -> Result<Outcome, RunError> {
    let stop = context.stop.clone();
    let mut emitter =
        Emitter { sink, began: Instant::now(), stop, failure: None, error_recorded: false };
    let mut prepared = Vec::new();
    let result = run_steps(plan, &mut context, &mut prepared, &mut emitter);
    if let Err(error) = &result {
        emitter.record(None, error);
    }
    // Also after another error: whoever reads the record must know that a file is left.
    let removed = remove_all(prepared, context.journal)
        .inspect_err(|error| emitter.emit(Event::Error(stopped_by(None, error))));
    let result = match emitter.failure.take() {
        Some(failure) => Err(failure),
        None => result.and_then(|outcome| removed.map(|()| outcome)),
    };
    let outcome = result.as_ref().map_or(Outcome::Failed, |outcome| *outcome);
    emitter.emit(Event::RunEnded(RunEnded { outcome, memory_max: memory_max() }));
    match emitter.failure {
        Some(failure) => result.and(Err(failure)),
        None => result,
    }
}

fn remove_all(prepared: Vec<Option<Prepared>>, journal: &mut Journal) -> Result<(), RunError> {
    let mut result = Ok(());
    for target in prepared.into_iter().flatten() {
        result = result.and(target.remove(journal));
    }
    result
}

fn run_steps(
    plan: &Plan,
    context: &mut Context<'_>,
    prepared: &mut Vec<Option<Prepared>>,
    emitter: &mut Emitter<'_>,
) -> Result<Outcome, RunError> {
    let memory = memory::available();
    for step in &plan.steps {
        memory::check(step, &step.workload, memory)
            .inspect_err(|error| emitter.record(Some(step.index), error))?;
    }
    let clock = choose_clock(plan, emitter)?;
    prepared.resize_with(plan.targets.len(), || None);
    let mut held = HeldDevices::default();
    for step in &plan.steps {
        if context.stop.is_set() {
            return Ok(Outcome::Interrupted);
        }
        if prepared[step.target].is_none() {
            let ready = prepare_target(plan, step.target, context, &mut held, emitter);
            prepared[step.target] = Some(ready?);
        }
        let Some(target) = &prepared[step.target] else { continue };
        if context.stop.is_set() {
            return Ok(Outcome::Interrupted);
        }
        let devices = context.devices.get(step.target).map_or(&[][..], Vec::as_slice);
        let stop = context.stop.clone();
        let outcome =
            run_step(plan, step, target, clock, devices, &stop, &mut |event| emitter.emit(event))
                .inspect_err(|error| emitter.record(Some(step.index), error))?;
        if outcome != Outcome::Complete {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Complete)
}

fn prepare_target(
    plan: &Plan,
    index: usize,
    context: &mut Context<'_>,
    held: &mut HeldDevices,
    emitter: &mut Emitter<'_>,
) -> Result<Prepared, RunError> {
    let target = &plan.targets[index];
    let writes = plan.steps.iter().any(|step| step.target == index && step.workload.writes());
    let seed = durio_workload::job_seed(plan.seed, u64::MAX, index as u64);
    let sink = &mut *emitter.sink;
    let total = target.size;
    let (prepared, event) = prepare(
        index,
        target,
        writes,
        (context.journal, held),
        seed,
        &context.stop,
        &mut |done| {
            sink.layout_progress(LayoutProgress { target: index, done, total });
        },
    )?;
    emitter.emit(Event::TargetPrepared(event));
    Ok(prepared)
}

/// The clock of the plan; a TSC that was asked for and is not reliable is used, with a warning.
fn choose_clock(plan: &Plan, emitter: &mut Emitter<'_>) -> Result<RunClock, RunError> {
    let monotonic = RunClock::Monotonic(MonotonicClock);
    let all_virtual = plan.steps.iter().all(|step| step.engine == EngineKind::Null);
    let wanted = match plan.clock {
        ClockChoice::Monotonic => false,
        ClockChoice::Tsc => true,
        ClockChoice::Auto => tsc_is_reliable(),
    };
    if !wanted || all_virtual {
        return Ok(monotonic);
    }
    if plan.clock == ClockChoice::Tsc && !tsc_is_reliable() {
        emitter.emit(Event::Warning(Warning {
            message: "the time-stamp counter is used as asked, but it is not reliable here"
                .to_owned(),
        }));
    }
    match TscClock::calibrate() {
        Some(clock) => {
            debug_assert!(clock.ticks(1_000_000) > 0, "a counter that moves");
            Ok(RunClock::Tsc(clock))
        }
        None if plan.clock == ClockChoice::Tsc => {
            Err(RunError::unsupported("this processor has no time-stamp counter; use --clock auto"))
        }
        None => Ok(monotonic),
    }
}
