//! What stands in for an engine that is not available.

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, Limit, Load, Role, Step};
use durio_workload::{Pattern, RegionRule, Workload, self_cost_workload};

use super::effective_load::{EffectiveLoad, region_of, stand_in};
use crate::error::RunError;

fn step(role: Role, workload: Workload) -> Step {
    let load = Load::new(0, workload, EngineKind::Uring);
    Step::new(role, load, Limit::Operations(64), Nanos::from_millis(100))
}

fn stood_in(step: &Step) -> Result<EffectiveLoad, RunError> {
    let mut effective = EffectiveLoad::of(&step.load);
    stand_in(&mut effective, step.role, "planted")?;
    Ok(effective)
}

/// Offset and length of every job's region, in blocks of 4 KiB.
fn regions(step: &Step, size: Bytes) -> Vec<(u64, u64)> {
    let effective = stood_in(step).unwrap();
    let region = |index| region_of(&step.load, effective.stand_ins, index, size).unwrap();
    let blocks = |bytes: Bytes| bytes.get() / Bytes::from_kib(4).get();
    let regions = (0..effective.workload.jobs).map(region);
    regions.map(|region| (blocks(region.offset), blocks(region.length))).collect()
}

fn two_jobs(pattern: Pattern, depth: u32) -> Step {
    let region = RegionRule::ShareEach;
    let workload = Workload { pattern, region, jobs: 2, ..self_cost_workload(depth) };
    step(Role::Measure, workload)
}

#[test]
fn durios_own_cost_stays_that_of_one_job() {
    let effective = stood_in(&step(Role::SelfCost, self_cost_workload(32))).unwrap();
    assert_eq!((effective.workload.jobs, effective.workload.depth), (1, 1));
    assert_eq!(effective.engine, EngineKind::Sync);
}

#[test]
fn random_stand_ins_share_the_region_of_their_job() {
    let step = two_jobs(Pattern::Random, 2);
    assert_eq!(regions(&step, Bytes::from_kib(64)), [(0, 8), (0, 8), (8, 8), (8, 8)]);
}

#[test]
fn a_target_that_held_the_planned_jobs_holds_their_stand_ins() {
    for pattern in [Pattern::Random, Pattern::Sequential] {
        let step = two_jobs(pattern, 32);
        assert_eq!(regions(&step, Bytes::from_kib(8)), [[(0, 1); 32], [(1, 1); 32]].concat());
    }
}

#[test]
fn sequential_stand_ins_divide_the_region_of_their_job_and_say_so() {
    let step = two_jobs(Pattern::Sequential, 2);
    assert_eq!(regions(&step, Bytes::from_kib(64)), [(0, 4), (4, 4), (8, 4), (12, 4)]);
    assert!(stood_in(&step).unwrap().fallbacks[0].contains("many sequential streams"));
}

#[test]
fn more_stand_ins_than_there_can_be_jobs_are_refused() {
    let error = stood_in(&two_jobs(Pattern::Random, 4096)).err().unwrap();
    assert_eq!(error.kind, crate::RunErrorKind::Unsupported);
    assert!(error.to_string().contains("uring is not available (planted)"), "{error}");
    assert!(error.to_string().contains("jobs must be 1 to 4096, not 8192"), "{error}");
}
