//! The begin and the end of a step whose figures are nobody's: one job, one operation at a time, made
//! by the coordinator itself.
//!
//! In: what the step is armed with. Out: its one load as it is in effect, and its events. Not here:
//! what it does in between.

use std::os::fd::OwnedFd;
use std::time::Instant;

use durio_plan::{Limit, Load, Role};
use durio_record::{Event, Outcome, StepEnded, StepStarted, StreamStarted};
use durio_workload::Region;

use crate::counters::Watch;
use crate::error::RunError;
use crate::step::Arming;
use crate::step::effective::{Effective, effective, open_files, region_of};

/// The load of such a step, with its first target open.
pub(crate) struct SingleLoad {
    pub(crate) effective: Effective,
    pub(crate) region: Region,
    /// None for the null engine.
    pub(crate) file: Option<OwnedFd>,
    /// How often the step does what it does.
    pub(crate) count: u64,
}

impl SingleLoad {
    /// The first load of a step, as one job of depth 1.
    pub(crate) fn open(arming: Arming<'_>) -> Result<Self, RunError> {
        let step = arming.step;
        let Limit::Operations(count) = step.limit else {
            return Err(refusal("is limited by a number of operations"));
        };
        if !step.beside.is_empty() {
            return Err(refusal("has one load"));
        }
        let load = single(&step.load, step.role)?;
        let mut effective = effective(step.role, &load, arming.targets)?;
        let target = arming.plan.targets.get(load.target);
        let size = target.ok_or_else(|| refusal("has a target"))?.size;
        let region = region_of(&load, 1, 0, size)?;
        let file = open_files(&mut effective, &load, arming.targets)?.into_iter().flatten().next();
        Ok(Self { effective, region, file, count })
    }
}

/// The load with one job and one operation in flight, on its first target.
fn single(load: &Load, role: Role) -> Result<Load, RunError> {
    let mut load = Load { more_targets: Vec::new(), targets_each: 1, ..load.clone() };
    let may_read = role == Role::TracePath;
    if (load.workload.reads() && !may_read) || load.workload.group_commit.is_some() {
        return Err(refusal("writes, without group commit"));
    }
    (load.workload.jobs, load.workload.depth) = (1, 1);
    Ok(load)
}

fn refusal(text: &str) -> RunError {
    RunError::unsupported(format!("a step that traces or probes {text}"))
}

/// The begin of the step, for its events.
pub(crate) fn started(arming: Arming<'_>, single: &SingleLoad, features: Vec<String>) -> Event {
    let workload = &single.effective.workload;
    Event::StepStarted(StepStarted {
        step: arming.step.index,
        round: arming.round,
        stream: StreamStarted {
            engine: single.effective.engine,
            jobs: 1,
            depth: 1,
            batch: 1,
            cache: workload.cache,
            region: workload.region,
            clock: "monotonic".to_owned(),
            features,
            fallbacks: single.effective.fallbacks.clone(),
            arrivals: durio_workload::Arrivals::Closed,
        },
        beside: Vec::new(),
    })
}

/// What is watched while such a step runs.
pub(crate) struct Watching {
    before: Watch,
    begin: Instant,
}

impl Watching {
    pub(crate) fn begin(devices: &[String]) -> Self {
        Self { before: Watch::read(devices), begin: Instant::now() }
    }

    /// The end of the step, for its events.
    pub(crate) fn ended(self, arming: Arming<'_>, devices: &[String], outcome: Outcome) -> Event {
        let measured = self.begin.elapsed().into();
        let watched = Watch::read(devices).since(&self.before);
        Event::StepEnded(StepEnded {
            step: arming.step.index,
            round: arming.round,
            outcome,
            measured,
            cpu: watched.cpu,
            devices: watched.devices,
            cpu_process_user: None,
            cpu_process_system: None,
            idle_before: None,
            context_switches: None,
        })
    }
}
