//! A run from its first target to its last event.

use std::path::Path;
use std::time::Instant;

use durio_base::Nanos;
use durio_block::{Clock, HeldTargets, MonotonicClock, TscClock, tsc_is_reliable};
use durio_plan::{ClockChoice, EngineKind, Plan, Role, Step};
use durio_record::{
    Event, Journal, Outcome, RunEnded, RunResumed, StateFolder, StoppedBy, Warning,
};

use crate::conditions::{HeldConditions, remove_left};
use crate::counters::memory_max;
use crate::error::RunError;
use crate::fio_step::{self, FioStep};
use crate::job::Processors;
use crate::job_input::RunClock;
use crate::layout::{PreparedTarget, prepare};
use crate::start::{StartTime, wait};
use crate::step::{Ended, PreparedStep, StepSetup, effective_load};
use crate::step_schedule::{ScheduledStep, StepSchedule};
use crate::sync_probe::run_sync_probe;
use crate::trace_step::{run_path, run_trace};
use crate::{EventSink, LayoutProgress, StopFlag, memory};

/// What a run needs in addition to its plan.
#[derive(Debug)]
pub struct RunContext<'a> {
    /// Remembers files with names.
    pub journal: &'a mut Journal,
    /// What exists of the plan's targets, and whether it may be written to.
    pub targets: HeldTargets,
    /// durio's state folder, in which changed settings of the kernel are remembered.
    pub state: Option<StateFolder>,
    /// Per target of the plan: kernel names of the devices below it, whose counters are read.
    pub devices: Vec<Vec<String>>,
    /// Where jobs can run.
    pub processors: Processors,
    /// Set to end the run early.
    pub stop: StopFlag,
    /// Where an interrupted run continues; none for a new run.
    pub resume: Option<Resume>,
}

impl<'a> RunContext<'a> {
    /// For a plan that has no targets that exist, on a machine of which nothing is known.
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

/// Where an interrupted run continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Resume {
    /// The event that reports it; `repeated` steps come first.
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
    /// The record has the error that ended the run.
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
            // Continuing without a record is useless.
            self.stop.set();
        }
    }

    /// Records the error that ended the run, unless that is done.
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
    mut context: RunContext<'_>,
    sink: &mut dyn EventSink,
) -> Result<Outcome, RunError> {
    let stop = context.stop.clone();
    let elapsed = context.resume.as_ref().map_or(Nanos::ZERO, |resume| resume.elapsed);
    let began = Instant::now();
    let mut emitter = Emitter { sink, began, elapsed, stop, failure: None, error_recorded: false };
    let mut targets = Vec::new();
    let result = run_steps(plan, &mut context, &mut targets, &mut emitter);
    if let Err(error) = &result {
        emitter.record(None, error);
    }
    // Also after another error: the reader of the record must know that a file is left.
    let removed = remove_all(targets, context.journal)
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

fn remove_all(targets: Vec<Option<PreparedTarget>>, journal: &mut Journal) -> Result<(), RunError> {
    let mut result = Ok(());
    for target in targets.into_iter().flatten() {
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
    context: &mut RunContext<'_>,
    targets: &mut Vec<Option<PreparedTarget>>,
    emitter: &mut Emitter<'_>,
) -> Result<Outcome, RunError> {
    // Control groups of killed runs hold memory of the kernel for as long as they are there.
    remove_left();
    let memory = memory::available();
    // Before hours are spent on the steps before it.
    for step in &plan.steps {
        let enough = memory::check_step(step, memory);
        // A step that may be declined is looked at in its turn.
        let enough = if step.declinable { Ok(()) } else { enough };
        enough.inspect_err(|error| emitter.record(Some(step.index), error))?;
    }
    let clock = choose_clock(plan, emitter)?;
    targets.resize_with(plan.targets.len(), || None);
    let resume = context.resume.as_ref().map(|resume| resume.event.clone());
    let schedule = StepSchedule::new(plan, resume.as_ref());
    if let Some(resume) = resume {
        // The machine was measured when the run began.
        emitter.emit(Event::RunResumed(resume));
    } else if measures_machine(plan)
        && let Some(measured) = memory::measure_bandwidth()
    {
        emitter.emit(Event::MemoryMeasured(measured));
    }
    let stage = SessionStage { plan, context, targets, clock };
    RunSession { stage, emitter, idle_since: None, last_uses: last_uses(plan) }.run(schedule)
}

/// The machine's own speed matters where the limits of steps are looked for, and durio's own cost
/// is measured too.
fn measures_machine(plan: &Plan) -> bool {
    plan.campaign.is_some() && plan.steps.iter().any(|step| step.role == Role::SelfCost)
}

struct SessionStage<'a, 'c> {
    plan: &'a Plan,
    context: &'a mut RunContext<'c>,
    targets: &'a mut Vec<Option<PreparedTarget>>,
    clock: RunClock,
}

impl SessionStage<'_, '_> {
    fn setup<'x>(&'x self, step: &'x Step, run: ScheduledStep) -> StepSetup<'x> {
        StepSetup {
            plan: self.plan,
            step,
            round: run.round,
            rate: run.rate,
            targets: self.targets,
            clock: self.clock,
            processors: &self.context.processors,
            stop: &self.context.stop,
        }
    }

    /// Kernel names of the devices below a step's targets, each once.
    fn devices_of(&self, step: &Step) -> Vec<String> {
        let mut devices: Vec<String> = Vec::new();
        for target in targets_of(step) {
            for name in self.context.devices.get(target).into_iter().flatten() {
                if !devices.contains(name) {
                    devices.push(name.clone());
                }
            }
        }
        devices
    }
}

/// The targets of a step, by their index; one of several loads is there several times.
fn targets_of(step: &Step) -> impl Iterator<Item = usize> {
    step.loads().flat_map(|load| load.targets())
}

struct RunSession<'a, 'c, 's> {
    stage: SessionStage<'a, 'c>,
    emitter: &'a mut Emitter<'s>,
    /// The last completion of the step before, on CLOCK_MONOTONIC.
    idle_since: Option<u64>,
    /// Per target: the last step that uses it.
    last_uses: Vec<u32>,
}

impl RunSession<'_, '_, '_> {
    fn run(&mut self, mut schedule: StepSchedule<'_>) -> Result<Outcome, RunError> {
        let plan = self.stage.plan;
        let mut ahead: Option<PreparedStep> = None;
        loop {
            let sink = &mut *self.emitter.sink;
            schedule.begin_search(|section| sink.first_rate(section));
            let Some(run) = schedule.current() else { break };
            let step = &plan.steps[run.position];
            let result = self.run_step(step, run, &mut ahead, schedule.likely_next());
            let outcome = self.declined(step, run, result)?;
            self.release(step)?;
            if outcome != Outcome::Complete {
                return Ok(outcome);
            }
            let sink = &mut *self.emitter.sink;
            let decided = schedule.advance(|section, round| sink.round_ended(section, round));
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
        run: ScheduledStep,
        result: Result<Outcome, RunError>,
    ) -> Result<Outcome, RunError> {
        match result {
            Err(error) if effective_load::declines(step, &error) => {
                self.emitter.emit(effective_load::declined(step.index, run.round, &error));
                // The machine's work in between is unknown.
                self.idle_since = None;
                Ok(Outcome::Complete)
            }
            other => other.inspect_err(|error| self.emitter.record(Some(step.index), error)),
        }
    }

    /// Removes the files that a declinable step was the last to use.
    // A plan with hundreds of fresh files needs the room of a few.
    fn release(&mut self, step: &Step) -> Result<(), RunError> {
        for target in targets_of(step).filter(|_| step.declinable) {
            let is_last = self.last_uses[target] == step.index;
            if let Some(prepared) = self.stage.targets[target].take_if(|_| is_last) {
                prepared.remove(self.stage.context.journal)?;
            }
        }
        Ok(())
    }

    /// Runs one step; while it runs, the likely next one is made ready.
    fn run_step(
        &mut self,
        step: &Step,
        run: ScheduledStep,
        ahead: &mut Option<PreparedStep>,
        next: Option<ScheduledStep>,
    ) -> Result<Outcome, RunError> {
        if !self.prepare_targets(step)? || !wait(step.pause_before, &self.stage.context.stop) {
            return Ok(Outcome::Interrupted);
        }
        // Dropped here, if the schedule took another turn.
        let ready = ahead.take().filter(|ready| ready.is_for(step.index, run.round));
        let state = self.stage.context.state.as_ref();
        let conditions =
            HeldConditions::before_opening(step, self.stage.plan, self.stage.targets, state)?;
        let devices = self.stage.devices_of(step);
        if is_unmeasured(step) || fio_step::is_fio(step) {
            if !is_unmeasured(step) && step.read_ahead.is_some() {
                let text = "fio opens its files itself: no read-ahead is set";
                return Err(RunError::unsupported(text));
            }
            let _bounded = conditions.after_opening(step)?;
            // The step before is not on fio's clock; the step after did not wait for a trace.
            self.idle_since = None;
            return self.run_otherwise(step, run, &devices);
        }
        let prepared = match ready {
            Some(prepared) => prepared,
            None => {
                // The others were checked before the first step.
                if step.declinable {
                    memory::check_step(step, memory::available())?;
                }
                PreparedStep::prepare(self.stage.setup(step, run))?
            }
        };
        let _bounded = conditions.after_opening(step)?;
        // While this one is measured: nothing is idle between the two.
        *ahead = next.and_then(|next| self.prepare_ahead(step, next));
        let emitter = &mut *self.emitter;
        let asked = (step, run.round);
        let Some(start) = StartTime::ask(emitter.sink, asked, &self.stage.context.stop) else {
            return Ok(Outcome::Interrupted);
        };
        let Ended { outcome, at } =
            prepared.run(&devices, self.idle_since, start, &mut |event| emitter.emit(event))?;
        self.idle_since = at;
        Ok(outcome)
    }

    /// Runs one step without durio's jobs: by the installed fio, or one that gives no results.
    fn run_otherwise(
        &mut self,
        step: &Step,
        run: ScheduledStep,
        devices: &[String],
    ) -> Result<Outcome, RunError> {
        let setup = self.stage.setup(step, run);
        let mut emit = |event| self.emitter.emit(event);
        match step.role {
            Role::Trace => run_trace(setup, devices, Path::new("/"), &mut emit),
            Role::TracePath => run_path(setup, devices, Path::new("/"), &mut emit),
            Role::ProbeSyncCalls => run_sync_probe(setup, devices, &mut emit),
            _ => {
                let fio = FioStep::new(setup)?;
                let asked = (step, run.round);
                let Some(start) = StartTime::ask(self.emitter.sink, asked, setup.stop) else {
                    return Ok(Outcome::Interrupted);
                };
                fio.run(step, devices, (start, setup.stop), &mut |event| self.emitter.emit(event))
            }
        }
    }

    /// Makes the next step ready if nothing speaks against it. Otherwise 8 jobs at depth 128 are
    /// idle for tens of milliseconds between two steps, enough for some drives to begin with
    /// garbage collection (docs/design/0006). A failure here is tried again in its turn, and
    /// reported then.
    fn prepare_ahead(&self, current: &Step, next: ScheduledStep) -> Option<PreparedStep> {
        let step = &self.stage.plan.steps[next.position];
        // What a step does to the page cache, to read-ahead or to its memory would meet the other
        // one's jobs.
        let is_plain = |step: &Step| {
            let is_unconditioned = step.memory_bound.is_none() && step.read_ahead.is_none();
            is_unconditioned && !step.drop_cache && step.pause_before == Nanos::ZERO
        };
        let is_ready = targets_of(step).all(|target| self.stage.targets[target].is_some());
        let is_ours = !fio_step::is_fio(step) && !is_unmeasured(step);
        if !is_plain(step) || !is_plain(current) || !is_ready || !is_ours {
            return None;
        }
        // Two large steps together may not fit where each alone does.
        if !memory::is_room_for_both(step, current, memory::available()) {
            return None;
        }
        PreparedStep::prepare(self.stage.setup(step, next)).ok()
    }

    /// Makes the targets of a step ready; false if the user wants to end.
    fn prepare_targets(&mut self, step: &Step) -> Result<bool, RunError> {
        for target in targets_of(step) {
            if self.stage.context.stop.is_set() {
                return Ok(false);
            }
            // A target is laid out when the first step needs it: a plan may have more files than the disk has
            // room for at once.
            if self.stage.targets[target].is_none() {
                self.stage.targets[target] = Some(self.prepare_target(target)?);
                self.idle_since = None;
            }
        }
        Ok(!self.stage.context.stop.is_set())
    }

    fn prepare_target(&mut self, index: usize) -> Result<PreparedTarget, RunError> {
        let SessionStage { plan, context, .. } = &mut self.stage;
        let target = &plan.targets[index];
        let writes = plan.steps.iter().any(|step| step.writes_to(index));
        // No step has this number: its data are not those of any job.
        let seed = durio_workload::job_seed(plan.seed, u64::MAX, index as u64);
        let sink = &mut *self.emitter.sink;
        let total = target.size;
        let (prepared, event) = prepare(
            index,
            target,
            writes,
            (context.journal, &context.targets),
            seed,
            &context.stop,
            &mut |done| {
                sink.layout_progress(LayoutProgress { target: index, done, total });
            },
        )?;
        self.emitter.emit(Event::TargetPrepared(event));
        Ok(prepared)
    }
}

/// True if a step gives no results and has no jobs.
fn is_unmeasured(step: &Step) -> bool {
    matches!(step.role, Role::Trace | Role::ProbeSyncCalls | Role::TracePath)
}

fn last_uses(plan: &Plan) -> Vec<u32> {
    let mut last = vec![0; plan.targets.len()];
    for step in &plan.steps {
        for target in targets_of(step) {
            last[target] = step.index;
        }
    }
    last
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
            message: "the time-stamp counter is used as requested, but it is not reliable here"
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

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{Campaign, Limit, Load, PLAN_SCHEMA, Purpose, Target, TargetKind};
    use durio_workload::self_cost_workload;

    use super::*;

    /// A step by its role and the targets of each of its loads.
    fn step(role: Role, loads: &[&[usize]]) -> Step {
        let load = |targets: &[usize]| {
            let load = Load::new(targets[0], self_cost_workload(1), EngineKind::Null);
            Load { more_targets: targets[1..].to_vec(), ..load }
        };
        let step = Step::new(role, load(loads[0]), Limit::Operations(1), Nanos::from_secs(1));
        Step { beside: loads[1..].iter().map(|targets| load(targets)).collect(), ..step }
    }

    fn plan(steps: Vec<Step>, campaign: Option<Campaign>) -> Plan {
        let (kind, size) = (TargetKind::Scripted, Bytes::from_mib(1));
        let target = Target { name: "t".into(), location: None, kind, size, destroy: false };
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Monotonic,
            targets: vec![target; 4],
            steps: (0..).zip(steps).map(|(index, step)| Step { index, ..step }).collect(),
            campaign,
            thresholds: Vec::new(),
        }
    }

    #[test]
    fn a_target_is_last_used_by_any_load_of_a_step_also_among_several() {
        let steps: [&[&[usize]]; 4] = [&[&[0, 2]], &[&[2], &[1, 3]], &[&[1]], &[&[0]]];
        let steps = steps.map(|loads| step(Role::Measure, loads));
        assert_eq!(targets_of(&steps[1]).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(last_uses(&plan(steps.to_vec(), None)), [3, 2, 1, 1]);
    }

    #[test]
    fn the_machine_is_measured_for_campaigns_that_know_durios_own_cost() {
        let of = |role, campaign| measures_machine(&plan(vec![step(role, &[&[0]])], campaign));
        assert!(of(Role::SelfCost, Some(Campaign::default())));
        assert!(!of(Role::SelfCost, None) && !of(Role::Measure, Some(Campaign::default())));
    }

    #[test]
    fn steps_that_trace_or_probe_are_not_measured() {
        let of = |role| is_unmeasured(&step(role, &[&[0]]));
        assert!([Role::Trace, Role::ProbeSyncCalls, Role::TracePath].into_iter().all(of));
        assert!(![Role::SelfCost, Role::Precondition, Role::Measure].into_iter().any(of));
    }
}
