//! Turns the user's requests into plans.
//!
//! A [`CheckRequest`], a [`RunRequest`] or a [`CampaignRequest`] comes with the facts about each
//! location that the caller has found out; a stack spec is a [`StackBench`], a database's profile a
//! [`profile::Profile`]. The result is a [`durio_plan::Plan`], or a sentence with the fault and the
//! remedy. The clock, the environment and files are not read: the same request gives the same plan.

mod campaign;
mod check;
mod durable;
mod predict;
pub mod profile;
mod profile_plan;
mod prove;
mod run;
mod shipped;
mod stack;
mod sweep;
mod table;
pub mod written;

pub use campaign::{
    CampaignPlan, CampaignRequest, CampaignSpec, SPEC_SCHEMA, STEPS_UNCONFIRMED_MAX, SpecTarget,
    plan_campaign, spec_json_schema, spec_reference,
};
pub use check::{CheckLength, CheckRequest, FULL_DURATION, plan_check};
pub use durable::{DurableLength, DurableRequest, plan_durable};
pub use predict::{PredictRequest, plan_predict, predicted_clients, usual_databases};
pub use profile_plan::{ProfileRequest, plan_profile};
pub use prove::{
    PROOF_SPEC_SCHEMA, impossible_series, plan_proof, proof_spec_json_schema, proof_spec_reference,
};
pub use run::{RunRequest, plan_run};
pub use shipped::{
    ShippedSpec, shipped_proof_spec, shipped_proof_specs, shipped_spec, shipped_specs,
    shipped_stack_spec, shipped_stack_specs,
};
pub use stack::{StackBench, stack_spec_json_schema, stack_spec_reference};
pub use sweep::{SweepRequest, plan_sweep};
pub use table::SpecText;

use durio_base::{Bytes, Nanos};
use durio_command::CommandError;
use durio_plan::{
    BatchPolicy, ClockChoice, EngineKind, Limit, Load, PLAN_SCHEMA, Plan, PlanSection, Purpose,
    RawPath, Role, Step, Target, TargetKind,
};
use durio_workload::self_cost_workload;

/// A refused request, with the remedy.
pub type SpecError = CommandError;

/// I/Os of the measurement of durio's own cost, which take 15 to 50 ms.
// Counted, not timed, so that counts of instructions repeat.
const SELF_COST_OPERATIONS: u64 = 50_000;

/// The most intervals that a step is recorded in.
// More than any chart has columns, and a record of some hundred megabytes.
const INTERVALS_MAX: u64 = 100_000;

/// The shortest duration of a measured step.
// Ten intervals of 10 ms would not hold one flush of a disk.
const DURATION_MIN: Nanos = Nanos::from_millis(100);

/// The longest.
// Beyond a month, a unit was probably mistaken.
const DURATION_MAX: Nanos = Nanos::from_secs(31 * 86_400);

/// The ramp before a measurement of `duration`: a twentieth, within 100 ms and 2 s.
fn ramp_for(duration: Nanos) -> Nanos {
    // By then one-time work is over: threads start, pages are touched.
    let twentieth = duration.get() / 20;
    Nanos::new(twentieth.clamp(Nanos::from_millis(100).get(), Nanos::from_secs(2).get()))
}

/// The length of recorded intervals for a step of `duration` after `ramp`: fifty of them, within
/// 100 ms and 1 s; longer where there would be too many.
fn interval_for(duration: Nanos, ramp: Nanos) -> Nanos {
    let fiftieth = duration.get() / 50;
    // Below 100 ms an interval of a slow device would hold a handful of operations.
    let usual = fiftieth.clamp(Nanos::from_millis(100).get(), Nanos::from_secs(1).get());
    // One less: the last interval of the ramp may be cut short.
    let least = duration.get().saturating_add(ramp.get()).div_ceil(INTERVALS_MAX - 1);
    Nanos::new(usual.max(least))
}

/// Intervals that a step is recorded in.
fn intervals(duration: Nanos, ramp: Nanos, interval: Nanos) -> u64 {
    let of = |span: Nanos| span.get().div_ceil(interval.get().max(1));
    of(duration).saturating_add(of(ramp))
}

/// The null target: answers every read at once.
fn null_target() -> Target {
    Target {
        name: "null".to_owned(),
        location: None,
        // Not /dev/null, whose reads give no bytes. Those of /dev/zero end within the submitting
        // call, but they clear the buffer: the measured cost is not quite zero.
        kind: TargetKind::NullDevice { path: RawPath::from("/dev/zero") },
        size: Bytes::from_gib(1),
        destroy: false,
    }
}

/// The step that measures durio's own cost with this engine and depth.
fn self_cost_step(target: usize, engine: EngineKind, depth: u32, batch: BatchPolicy) -> Step {
    let load = Load { batch, ..Load::new(target, self_cost_workload(depth), engine) };
    let limit = Limit::Operations(SELF_COST_OPERATIONS);
    Step::new(Role::SelfCost, load, limit, Nanos::from_secs(1))
}

/// One measurement of durio's own cost for each engine in use, at its largest depth.
fn self_costs(steps: &[Step]) -> Vec<Step> {
    let largest = |engine: EngineKind| {
        let loads = steps.iter().flat_map(Step::loads).filter(|load| load.engine == engine);
        let depth = loads.map(|load| load.workload.depth).max()?;
        Some(self_cost_step(0, engine, depth, BatchPolicy::DEFAULT))
    };
    // The plans that ask here choose the engine by depth, and so never aio.
    [EngineKind::Sync, EngineKind::Uring].into_iter().filter_map(largest).collect()
}

/// A plan of these steps, numbered by their position.
fn plan_of(
    purpose: Purpose,
    (seed, clock): (u64, ClockChoice),
    targets: Vec<Target>,
    mut steps: Vec<Step>,
) -> Plan {
    for (index, step) in (0..).zip(&mut steps) {
        step.index = index;
    }
    let (campaign, thresholds) = (None, Vec::new());
    Plan { schema: PLAN_SCHEMA, purpose, seed, clock, targets, steps, campaign, thresholds }
}

/// The steps with those of durio's own cost before them, for which sections make room.
fn with_costs(mut costs: Vec<Step>, steps: Vec<Step>, sections: &mut [PlanSection]) -> Vec<Step> {
    let before = u32::try_from(costs.len()).unwrap_or(u32::MAX);
    for section in sections {
        section.first_step += before;
    }
    costs.extend(steps);
    costs
}

/// Operations that are traced, and as many that are not.
// Enough for a 99th percentile, and a second on a slow disk.
const TRACED_OPERATIONS: u64 = 300;

/// The steps that follow the first load of each of `measured`, where that can be followed: a log
/// with group commit is not a chain of operations, and fio's and the null engine's operations are
/// not durio's. Loads that differ from the others even when they run alone: the jobs and depths of a
/// ladder share one.
fn path_traces<'a>(measured: impl Iterator<Item = &'a Step>) -> Vec<Step> {
    let mut loads: Vec<Load> = Vec::new();
    for step in measured.filter(|step| step.role == Role::Measure) {
        let load = step.load.alone();
        let is_ours = !matches!(load.engine, EngineKind::Null | EngineKind::Fio);
        let mut known = loads.iter();
        if is_ours
            && load.workload.group_commit.is_none()
            && known.all(|other| !is_same(other, &load))
        {
            loads.push(load);
        }
    }
    let step = |load| {
        let limit = Limit::Operations(TRACED_OPERATIONS);
        let step = Step::new(Role::TracePath, load, limit, Nanos::from_secs(1));
        // A system that refuses one still measures the rest.
        Step { declinable: true, ..step }
    };
    loads.into_iter().map(step).collect()
}

// Names do not affect the operations.
fn is_same(a: &Load, b: &Load) -> bool {
    let mut b = b.clone();
    b.workload.name.clone_from(&a.workload.name);
    b.workload.summary.clone_from(&a.workload.summary);
    *a == b
}

/// The refusal of a plan that writes to an existing target.
pub(crate) fn would_destroy(path: &RawPath) -> SpecError {
    SpecError::wrong_use(format!("'{path}' exists, and this would write to it"))
        .hint(format!("permit it with --destroy '{path}', or name a directory"))
}

#[cfg(test)]
mod tests {
    use durio_workload::{SyncMethod, SyncPolicy, Workload};

    use super::*;

    fn step(jobs: u32, method: SyncMethod, engine: EngineKind) -> Step {
        let workload = Workload { jobs, sync: SyncPolicy::each(method), ..Workload::default() };
        let limit = Limit::Operations(1);
        Step::new(Role::Measure, Load::new(0, workload, engine), limit, Nanos::from_secs(1))
    }

    #[test]
    fn a_ladder_over_jobs_is_followed_once_and_other_methods_apart() {
        let ladder = [1, 4, 16].map(|jobs| step(jobs, SyncMethod::ODsync, EngineKind::Sync));
        let other = step(4, SyncMethod::Fdatasync, EngineKind::Sync);
        let found = path_traces(ladder.iter().chain([&other]));
        let short: Vec<_> = found
            .iter()
            .map(|step| (step.load.workload.sync.method, step.load.workload.jobs))
            .collect();
        assert_eq!(short, [(SyncMethod::ODsync, 1), (SyncMethod::Fdatasync, 1)]);
        assert!(found.iter().all(|step| step.declinable && step.role == Role::TracePath));
    }

    #[test]
    fn what_is_not_durios_own_operation_is_not_followed() {
        let others =
            [EngineKind::Null, EngineKind::Fio].map(|engine| step(1, SyncMethod::ODsync, engine));
        assert_eq!(path_traces(others.iter()), []);
        let precondition =
            Step { role: Role::Precondition, ..step(1, SyncMethod::None, EngineKind::Sync) };
        assert_eq!(path_traces([&precondition].into_iter()), []);
    }
}
