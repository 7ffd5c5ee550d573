//! The begin and the end of a step without results: one job, one operation at a time, made by the
//! coordinator itself.
//!
//! Gives the step's one load as it is in effect, and its events.

use std::os::fd::OwnedFd;
use std::time::Instant;

use durio_plan::{Limit, Load, Role};
use durio_record::{Event, Outcome, StepStarted};
use durio_workload::{Arrivals, Region};

use crate::counters::CounterReading;
use crate::error::RunError;
use crate::measured_loop::EarlyEnding;
use crate::step::effective_load::{effective, open_files, region_of};
use crate::step::{EffectiveLoad, StepSetup, job_error, outcome_of, stream_started};

/// The load of such a step, with its first target open.
pub(crate) struct SingleLoad {
    load: Load,
    pub(crate) effective: EffectiveLoad,
    pub(crate) region: Region,
    /// None for the null engine.
    pub(crate) file: Option<OwnedFd>,
    /// How many operations the step makes.
    pub(crate) count: u64,
}

impl SingleLoad {
    /// The first load of a step, as one job of depth 1.
    pub(crate) fn open(setup: StepSetup<'_>) -> Result<Self, RunError> {
        let step = setup.step;
        let Limit::Operations(count) = step.limit else {
            return Err(refusal("is limited by a number of operations"));
        };
        if !step.beside.is_empty() {
            return Err(refusal("has one load"));
        }
        let load = single(&step.load, step.role)?;
        let mut effective = effective(setup, &load)?;
        let target = setup.plan.targets.get(load.target);
        let size = target.ok_or_else(|| refusal("has a target"))?.size;
        let region = region_of(&load, 1, 0, size)?;
        let file = open_files(&mut effective, setup, &load)?.into_iter().flatten().next();
        Ok(Self { load, effective, region, file, count })
    }
}

/// The load with one job and one operation in flight, on its first target.
fn single(load: &Load, role: Role) -> Result<Load, RunError> {
    let mut load = Load { more_targets: Vec::new(), targets_each: 1, ..load.clone() };
    let may_read = role == Role::TracePath;
    if (load.workload.reads() && !may_read) || load.workload.group_commit.is_some() {
        return Err(refusal("writes, without group commit"));
    }
    // One at a time: the kernel's work in that time belongs to this operation.
    (load.workload.jobs, load.workload.depth) = (1, 1);
    Ok(load)
}

fn refusal(text: &str) -> RunError {
    RunError::unsupported(format!("a step that traces or probes {text}"))
}

/// The begin of the step, for its events.
pub(crate) fn started(setup: StepSetup<'_>, single: &SingleLoad, features: Vec<String>) -> Event {
    let SingleLoad { load, effective, .. } = single;
    Event::StepStarted(StepStarted {
        step: setup.step.index,
        round: setup.round,
        stream: stream_started(load, effective, "monotonic", features, Arrivals::Closed),
        beside: Vec::new(),
    })
}

/// The counters watched while such a step runs.
pub(crate) struct Watching<'a> {
    setup: StepSetup<'a>,
    devices: &'a [String],
    before: CounterReading,
    begin: Instant,
}

impl<'a> Watching<'a> {
    pub(crate) fn begin(setup: StepSetup<'a>, devices: &'a [String]) -> Self {
        Self { setup, devices, before: CounterReading::read(devices), begin: Instant::now() }
    }

    /// The end of the step, for its events.
    pub(crate) fn ended(self, outcome: Outcome) -> Event {
        let measured = self.begin.elapsed().into();
        let watched = CounterReading::read(self.devices).since(&self.before);
        let (step, round) = (self.setup.step.index, self.setup.round);
        Event::StepEnded(watched.step_ended(step, round, outcome, measured))
    }

    /// Ends the step, and reports the error that ended its operations, if any.
    pub(crate) fn conclude(
        self,
        ending: EarlyEnding,
        stopped: bool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        let step = self.setup.step;
        let error = job_error(step.index, &step.load.workload.name, ending);
        let outcome = outcome_of(&error, stopped, emit);
        emit(self.ended(outcome));
        error.map_or(Ok(outcome), |(_, error)| Err(error))
    }
}
