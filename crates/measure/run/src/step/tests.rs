//! What stands in for an engine that is not available.

use std::os::fd::OwnedFd;
use std::sync::mpsc::sync_channel;

use durio_base::{Bytes, Nanos};
use durio_block::EngineFacts;
use durio_plan::{BatchPolicy, EngineKind, Limit, Load, Role, Step};
use durio_workload::{
    Arrivals, CacheMode, CommitterThreads, GroupCommit, Pattern, RegionRule, Workload,
    self_cost_workload,
};

use super::effective_load::{EffectiveLoad, region_of, stand_in};
use super::{committer_schedules, pass_files, stream_started, wait_until_ready};
use crate::collector::{Collector, StepStream};
use crate::error::RunError;
use crate::job_input::JobAnswer;

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

#[test]
fn a_place_in_the_queue_of_each_job_becomes_a_job() {
    let effective = stood_in(&two_jobs(Pattern::Random, 3)).unwrap();
    assert_eq!((effective.workload.jobs, effective.workload.depth), (6, 1));
    assert_eq!((effective.stand_ins, effective.engine), (3, EngineKind::Sync));
    let [fallback] = effective.fallbacks.as_slice() else { panic!("{:?}", effective.fallbacks) };
    assert!(fallback.contains("6 jobs") && !fallback.contains("streams"), "{fallback}");
}

#[test]
fn committers_of_all_jobs_take_turns_with_one_rate() {
    let of = |place, threads, arrivals: &Arrivals| -> Vec<[u64; 2]> {
        let policy = GroupCommit { threads, ..GroupCommit::of(3) };
        let workload = Workload { jobs: 2, group_commit: Some(policy), ..self_cost_workload(1) };
        let schedules = committer_schedules(arrivals, place, &workload, 5);
        schedules.into_iter().map(|mut starts| [0; 2].map(|_| starts.next_start())).collect()
    };
    let arrivals = Arrivals::Constant { rate_per_second: 1e6 };
    let (each, multiplexed) = (CommitterThreads::OneEach, CommitterThreads::Multiplexed);
    // Six in all: each has every sixth of the arrivals, which are a microsecond apart.
    assert_eq!(of(0, each, &arrivals), [[0, 6000], [1000, 7000], [2000, 8000]]);
    assert_eq!(of(1, each, &arrivals), [[3000, 9000], [4000, 10_000], [5000, 11_000]]);
    assert!(of(0, multiplexed, &arrivals).is_empty());
    assert!(of(0, each, &Arrivals::Closed).is_empty());
    // Each draws for itself.
    let drawn = of(0, each, &Arrivals::Poisson { rate_per_second: 1e6 });
    assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{drawn:?}");
}

#[test]
fn files_are_held_once_more_only_where_a_pass_drops_their_cached_pages() {
    let open = |_| OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let files = [0, 1, 2].map(open);
    let count = |drops_cache_each_pass, cache| {
        let workload = Workload { drops_cache_each_pass, cache, ..self_cost_workload(1) };
        pass_files(&workload, &files).unwrap().len()
    };
    assert_eq!([count(true, CacheMode::Buffered), count(true, CacheMode::Direct)], [3, 0]);
    assert_eq!(count(false, CacheMode::Buffered), 0);
}

#[test]
fn a_stream_is_recorded_as_it_runs_with_batches_within_its_depth() {
    let mut load = two_jobs(Pattern::Random, 8).load;
    let (arrivals, ran) = (Arrivals::Constant { rate_per_second: 7.0 }, EffectiveLoad::of(&load));
    let batch = |load: &Load, submit_max| {
        let load = Load { batch: BatchPolicy { submit_max }, ..load.clone() };
        stream_started(&load, &EffectiveLoad::of(&load), "tsc", Vec::new(), arrivals).batch
    };
    assert_eq!([batch(&load, 4), batch(&load, 8), batch(&load, 99)], [4, 8, 8]);
    load.workload.jobs = 5;
    let started = stream_started(&load, &ran, "tsc", vec!["a".to_owned()], arrivals);
    // Not as it was planned.
    assert_eq!((started.jobs, started.depth, started.engine), (2, 8, EngineKind::Uring));
    assert_eq!((started.clock.as_str(), started.features), ("tsc", vec!["a".to_owned()]));
    assert_eq!((started.region, started.arrivals), (RegionRule::ShareEach, arrivals));
}

#[test]
fn each_stream_gets_the_facts_of_its_own_jobs_and_the_first_refusal_counts() {
    let streams =
        [2, 1].map(|jobs| StepStream { workload: self_cost_workload(1), target: 0, jobs });
    let (empty, _) = sync_channel(1);
    let step = step(Role::Measure, self_cost_workload(1));
    let collector = Collector::new(&step, 0, streams.into(), vec![empty; 3]);
    let load = &step.load;
    let stream = |feature: &str| {
        let features = vec![feature.to_owned()];
        stream_started(load, &EffectiveLoad::of(load), "tsc", features, Arrivals::Closed)
    };
    let told = |text: &str| vec![text.to_owned()];
    let answer = |job, feature: &str, fallback: &str| {
        let facts = EngineFacts { features: told(feature), fallbacks: told(fallback) };
        JobAnswer { job, facts: Ok(facts) }
    };
    let mut streams = [stream("node 0"), stream("node 1")];
    let answers = [answer(2, "c", "slow"), answer(1, "b", "few"), answer(0, "a", "few")];
    wait_until_ready(answers.into_iter(), &collector, &mut streams).unwrap();
    assert_eq!(streams[0].features, ["b", "node 0"], "the first that answered");
    assert_eq!(streams[1].features, ["c", "node 1"]);
    assert_eq!((&streams[0].fallbacks, &streams[1].fallbacks), (&told("few"), &told("slow")));
    let refused = |job, text: &str| JobAnswer { job, facts: Err(RunError::unsupported(text)) };
    let answers = [answer(0, "a", "few"), refused(2, "first"), refused(1, "second")];
    let error = wait_until_ready(answers.into_iter(), &collector, &mut streams).unwrap_err();
    assert_eq!(error.to_string(), "first");
}
