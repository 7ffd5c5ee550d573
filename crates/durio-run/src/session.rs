//! A run from its first target to its last event.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use durio_block::{Clock, HeldTargets, MonotonicClock, TscClock, tsc_is_reliable};
use durio_plan::{ClockChoice, EngineKind, Plan, Role, Step};
use durio_record::{Event, Journal, Outcome, RunEnded, RunResumed, StoppedBy, Warning};
use durio_units::Nanos;

use crate::conditions::{Conditions, remove_left};
use crate::counters::memory_max;
use crate::course::{Course, Place};
use crate::error::RunError;
use crate::fio_step::{self, FioStep};
use crate::job::RunClock;
use crate::layout::{Prepared, prepare};
use crate::memory;
use crate::memory_bandwidth;
use crate::placement::Processors;
use crate::refusal;
use crate::sink::{EventSink, LayoutProgress, StopFlag};
use crate::step::{Armed, Arming, Ended};
use crate::sync_probe::run_sync_probe;
use crate::trace_step::{run_path, run_trace};

/// What a run needs besides its plan.
#[derive(Debug)]
pub struct Context<'a> {
    /// Remembers files with names.
    pub journal: &'a mut Journal,
    /// What exists of the plan's targets, and whether it may be written to.
    pub targets: HeldTargets,
    /// durio's state folder, in which changed settings of the kernel are remembered.
    pub state: Option<PathBuf>,
    /// Per target of the plan: kernel names of the devices below it, whose counters are read.
    pub devices: Vec<Vec<String>>,
    /// Where jobs can run.
    pub processors: Processors,
    /// Set to end the run early.
    pub stop: StopFlag,
    /// Where an interrupted run goes on; none for one that begins.
    pub resume: Option<Resume>,
}

impl<'a> Context<'a> {
    /// For a plan that has no targets that exist, on a machine of which nothing is known.
    #[must_use]
    pub fn new(journal: &'a mut Journal, stop: StopFlag) -> Self {
        Self {
            journal,
            targets: HeldTargets::default(),
            state: None,
            devices: Vec::new(),
            processors: Processors::default(),
            stop,
            resume: None,
        }
    }
}

/// Where an interrupted run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Resume {
    /// What is told of it; `repeated` steps come first.
    pub event: RunResumed,
    /// The time of the last event, to which new times are added.
    pub elapsed: Nanos,
}

/// Emits events with their time, and keeps the first failure of the sink.
struct Emitter<'a> {
    sink: &'a mut dyn EventSink,
    began: Instant,
    /// Time of the run before it was resumed.
    elapsed: Nanos,
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
        let now = Nanos::from(self.began.elapsed());
        let at = Nanos::new(now.get().saturating_add(self.elapsed.get()));
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
    let elapsed = context.resume.as_ref().map_or(Nanos::ZERO, |resume| resume.elapsed);
    let began = Instant::now();
    let mut emitter = Emitter { sink, began, elapsed, stop, failure: None, error_recorded: false };
    let mut prepared = Vec::new();
    let result = run_steps(plan, &mut context, &mut prepared, &mut emitter);
    if let Err(error) = &result {
        emitter.record(None, error);
    }
    // Also after another error: whoever reads the record must know that a file is left.
    let removed = remove_all(prepared, context.journal)
        .inspect_err(|error| emitter.emit(Event::Error(stopped_by(None, error))));
    let result = match (emitter.failure.take().map_or(result, Err), removed) {
        (Err(mut error), Err(removal)) => {
            error.add_left(&removal);
            Err(error)
        }
        (result, removed) => result.and_then(|outcome| removed.map(|()| outcome)),
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
        result = match (result, target.remove(journal)) {
            (Err::<(), RunError>(mut first), Err(next)) => {
                first.add_left(&next);
                Err(first)
            }
            (result, removed) => result.and(removed),
        };
    }
    result
}

fn run_steps(
    plan: &Plan,
    context: &mut Context<'_>,
    prepared: &mut Vec<Option<Prepared>>,
    emitter: &mut Emitter<'_>,
) -> Result<Outcome, RunError> {
    remove_left();
    let memory = memory::available();
    for step in &plan.steps {
        let enough = memory::check_step(step, memory);
        // A step that may be declined is looked at in its turn.
        let enough = if step.declinable { Ok(()) } else { enough };
        enough.inspect_err(|error| emitter.record(Some(step.index), error))?;
    }
    let clock = choose_clock(plan, emitter)?;
    prepared.resize_with(plan.targets.len(), || None);
    let resume = context.resume.as_ref().map(|resume| resume.event.clone());
    let course = Course::new(plan, resume.as_ref());
    if let Some(resume) = resume {
        emitter.emit(Event::RunResumed(resume));
    } else if measures_machine(plan)
        && let Some(measured) = memory_bandwidth::measure()
    {
        emitter.emit(Event::MemoryMeasured(measured));
    }
    Session {
        plan,
        context,
        prepared,
        emitter,
        clock,
        idle_since: None,
        last_uses: last_uses(plan),
    }
    .run(course)
}

/// The machine's own speed matters where the limits of steps are looked for, and durio's own cost
/// is measured too.
fn measures_machine(plan: &Plan) -> bool {
    plan.campaign.is_some() && plan.steps.iter().any(|step| step.role == Role::SelfCost)
}

/// A run on its way.
struct Session<'a, 'c, 's> {
    plan: &'a Plan,
    context: &'a mut Context<'c>,
    prepared: &'a mut Vec<Option<Prepared>>,
    emitter: &'a mut Emitter<'s>,
    clock: RunClock,
    /// The last completion of the step before, on CLOCK_MONOTONIC.
    idle_since: Option<u64>,
    /// Per target: the last step that uses it.
    last_uses: Vec<u32>,
}

impl Session<'_, '_, '_> {
    fn run(&mut self, mut course: Course<'_>) -> Result<Outcome, RunError> {
        let mut ahead: Option<Armed> = None;
        loop {
            let sink = &mut *self.emitter.sink;
            course.begin_search(|section| sink.first_rate(section));
            let Some(place) = course.current() else { break };
            let step = &self.plan.steps[place.position];
            let result = self.run_step(step, place, &mut ahead, course.likely_next());
            let outcome = self.declined(step, place, result)?;
            self.release(step)?;
            if outcome != Outcome::Complete {
                return Ok(outcome);
            }
            let sink = &mut *self.emitter.sink;
            let decided = course.advance(|section, round| sink.round_ended(section, round));
            if let Some(event) = decided {
                self.emitter.emit(Event::RoundEnded(event));
            }
        }
        Ok(Outcome::Complete)
    }

    /// A step that was refused and may be is over; any other error is recorded.
    fn declined(
        &mut self,
        step: &Step,
        place: Place,
        result: Result<Outcome, RunError>,
    ) -> Result<Outcome, RunError> {
        match result {
            Err(error) if refusal::declines(step, &error) => {
                self.emitter.emit(refusal::event(step.index, place.round, &error));
                // Nobody knows what the machine did meanwhile.
                self.idle_since = None;
                Ok(Outcome::Complete)
            }
            other => other.inspect_err(|error| self.emitter.record(Some(step.index), error)),
        }
    }

    /// Removes the files that a declinable step was the last to use: a plan with hundreds of fresh
    /// files needs the room of a few.
    fn release(&mut self, step: &Step) -> Result<(), RunError> {
        let last = |target: &usize| self.last_uses[*target] == step.index;
        let done: Vec<usize> = step.loads().flat_map(|load| load.targets()).filter(last).collect();
        for target in done.into_iter().filter(|_| step.declinable) {
            if let Some(prepared) = self.prepared[target].take() {
                prepared.remove(self.context.journal)?;
            }
        }
        Ok(())
    }

    /// Runs one step; while it runs, the likely next one is made ready.
    fn run_step(
        &mut self,
        step: &Step,
        place: Place,
        ahead: &mut Option<Armed>,
        next: Option<Place>,
    ) -> Result<Outcome, RunError> {
        if !self.prepare_targets(step)? || !wait(step.pause_before, &self.context.stop) {
            return Ok(Outcome::Interrupted);
        }
        let ready = ahead.take().filter(|armed| armed.is_for(step.index, place.round));
        // Dropped here, if the course took another turn.
        let conditions = Conditions::before_opening(
            step,
            self.plan,
            self.prepared,
            self.context.state.as_deref(),
        )?;
        if is_unmeasured(step) {
            return self.run_unmeasured(step, place, conditions);
        }
        if fio_step::is_fio(step) {
            return self.run_by_fio(step, place, conditions);
        }
        let armed = match ready {
            Some(armed) => armed,
            None if step.declinable => {
                memory::check_step(step, memory::available())?;
                Armed::arm(self.arming(step, place))?
            }
            None => Armed::arm(self.arming(step, place))?,
        };
        let _bounded = conditions.after_opening(step)?;
        if let Some(next) = next {
            *ahead = self.arm_ahead(step, next);
        }
        let devices = self.devices_of(step);
        let emitter = &mut *self.emitter;
        let Ended { outcome, at } =
            armed.run(&devices, self.idle_since, &mut |event| emitter.emit(event))?;
        self.idle_since = at;
        Ok(outcome)
    }

    /// Runs one step by the installed fio, which opens the targets itself.
    fn run_by_fio(
        &mut self,
        step: &Step,
        place: Place,
        conditions: Conditions,
    ) -> Result<Outcome, RunError> {
        if step.read_ahead.is_some() {
            return Err(RunError::unsupported("fio opens its files itself: no read-ahead is set"));
        }
        let _bounded = conditions.after_opening(step)?;
        let fio_step = FioStep::new(self.arming(step, place))?;
        let devices = self.devices_of(step);
        let emitter = &mut *self.emitter;
        let outcome =
            fio_step.run(step, &devices, &self.context.stop, &mut |event| emitter.emit(event))?;
        // What came before is not on this clock.
        self.idle_since = None;
        Ok(outcome)
    }

    /// Runs one step that gives no figures.
    fn run_unmeasured(
        &mut self,
        step: &Step,
        place: Place,
        conditions: Conditions,
    ) -> Result<Outcome, RunError> {
        let _bounded = conditions.after_opening(step)?;
        // What comes next did not wait for this.
        self.idle_since = None;
        let devices = self.devices_of(step);
        let arming = Arming {
            plan: self.plan,
            step,
            round: place.round,
            rate: place.rate,
            targets: self.prepared,
            clock: self.clock,
            processors: &self.context.processors,
            stop: &self.context.stop,
        };
        let emitter = &mut *self.emitter;
        let mut emit = |event| emitter.emit(event);
        match step.role {
            Role::Trace => run_trace(arming, &devices, Path::new("/"), &mut emit),
            Role::TracePath => run_path(arming, &devices, Path::new("/"), &mut emit),
            _ => run_sync_probe(arming, &devices, &mut emit),
        }
    }

    fn arming<'x>(&'x self, step: &'x Step, place: Place) -> Arming<'x> {
        Arming {
            plan: self.plan,
            step,
            round: place.round,
            rate: place.rate,
            targets: self.prepared,
            clock: self.clock,
            processors: &self.context.processors,
            stop: &self.context.stop,
        }
    }

    /// Makes the next step ready if nothing speaks against it: then no time is lost between the
    /// two. What fails here is tried again in its turn, and told then.
    fn arm_ahead(&self, current: &Step, next: Place) -> Option<Armed> {
        let step = &self.plan.steps[next.position];
        let is_plain = |step: &Step| {
            let is_unconditioned = step.memory_bound.is_none() && step.read_ahead.is_none();
            is_unconditioned && !step.drop_cache && step.pause_before == Nanos::ZERO
        };
        let is_ready = |step: &Step| {
            step.loads().flat_map(|load| load.targets()).all(|it| self.prepared[it].is_some())
        };
        let is_ours = |step: &Step| !fio_step::is_fio(step) && !is_unmeasured(step);
        if !is_plain(step) || !is_plain(current) || !is_ready(step) || !is_ours(step) {
            return None;
        }
        if !memory::is_room_for_both(step, current, memory::available()) {
            return None;
        }
        Armed::arm(self.arming(step, next)).ok()
    }

    /// Kernel names of the devices below a step's targets, each once.
    fn devices_of(&self, step: &Step) -> Vec<String> {
        let mut devices: Vec<String> = Vec::new();
        for target in step.loads().flat_map(|load| load.targets()) {
            for name in self.context.devices.get(target).into_iter().flatten() {
                if !devices.contains(name) {
                    devices.push(name.clone());
                }
            }
        }
        devices
    }

    /// Makes the targets of a step ready; false if the user wants to end.
    fn prepare_targets(&mut self, step: &Step) -> Result<bool, RunError> {
        for target in step.loads().flat_map(|load| load.targets()) {
            if self.context.stop.is_set() {
                return Ok(false);
            }
            if self.prepared[target].is_none() {
                self.prepared[target] = Some(self.prepare_target(target)?);
                self.idle_since = None;
            }
        }
        Ok(!self.context.stop.is_set())
    }

    fn prepare_target(&mut self, index: usize) -> Result<Prepared, RunError> {
        let target = &self.plan.targets[index];
        let writes = self.plan.steps.iter().any(|step| step.writes_to(index));
        let seed = durio_workload::job_seed(self.plan.seed, u64::MAX, index as u64);
        let sink = &mut *self.emitter.sink;
        let total = target.size;
        let (prepared, event) = prepare(
            index,
            target,
            writes,
            (self.context.journal, &self.context.targets),
            seed,
            &self.context.stop,
            &mut |done| {
                sink.layout_progress(LayoutProgress { target: index, done, total });
            },
        )?;
        self.emitter.emit(Event::TargetPrepared(event));
        Ok(prepared)
    }
}

/// True if a step gives no figures, and has no jobs of its own.
fn is_unmeasured(step: &Step) -> bool {
    matches!(step.role, Role::Trace | Role::ProbeSyncCalls | Role::TracePath)
}

/// Per target: the index of the last step that uses it.
fn last_uses(plan: &Plan) -> Vec<u32> {
    let mut last = vec![0; plan.targets.len()];
    for step in &plan.steps {
        for target in step.loads().flat_map(|load| load.targets()) {
            last[target] = step.index;
        }
    }
    last
}

/// Waits; false if the user wants to end before it is over.
fn wait(span: Nanos, stop: &StopFlag) -> bool {
    const LOOK: Duration = Duration::from_millis(50);
    let begin = Instant::now();
    loop {
        let left = Duration::from(span).saturating_sub(begin.elapsed());
        if stop.is_set() || left.is_zero() {
            return !stop.is_set();
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// The clock of the plan; a TSC that was asked for and is not reliable is used, with a warning.
fn choose_clock(plan: &Plan, emitter: &mut Emitter<'_>) -> Result<RunClock, RunError> {
    let monotonic = RunClock::Monotonic(MonotonicClock);
    let mut loads = plan.steps.iter().flat_map(|step| step.loads());
    let all_virtual = loads.all(|load| load.engine == EngineKind::Null);
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
