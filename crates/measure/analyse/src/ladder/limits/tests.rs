//! Planted evidence for each limit, and for none.

use super::*;
use proptest::prelude::*;

/// Depth 16 and 256 of the published flash drive, whose mean latency at depth 1 is 78 µs.
fn flash(depth: f64, rate: f64, latency_us: f64, busy: f64) -> StepEvidence {
    StepEvidence {
        jobs: Some(1),
        in_flight_offered: Some(depth),
        in_flight_mean: Some(depth * 0.998),
        rate_per_second: Some(rate),
        latency_ns_mean: Some(latency_us * 1e3),
        unloaded: Some(beside(1.0, 12_800.0, 78.0)),
        device_busy_share: Some(busy),
        job_cpu_shares: vec![0.4],
        machine_system_share: Some(0.1),
        generator_ns_per_operation: Some(120.0),
        ..StepEvidence::default()
    }
}

fn beside(in_flight: f64, rate_per_second: f64, latency_us: f64) -> ComparedStep {
    ComparedStep { in_flight, rate_per_second, latency_ns_mean: latency_us * 1e3 }
}

fn saturated() -> StepEvidence {
    let lower = Some(beside(128.0, 380_000.0, 337.0));
    StepEvidence { lower, ..flash(256.0, 382_000.0, 670.0, 1.0) }
}

#[test]
fn a_flash_drive_at_depth_16_is_limited_by_the_depth() {
    let lower = Some(beside(8.0, 102_400.0, 78.0));
    let found = limit_of(&StepEvidence { lower, ..flash(16.0, 204_800.0, 78.0, 0.6) });
    assert_eq!((found.kind, found.also.len()), (LimitKind::DepthOffered, 0));
    assert!(found.evidence[0].contains("100 % of the depth"), "{:?}", found.evidence);
}

#[test]
fn at_depth_256_the_device_is_the_limit() {
    let found = limit_of(&saturated());
    assert_eq!(found.kind, LimitKind::Device);
    assert!(found.evidence[0].contains("1.01 times the rate and 1.99 times the latency"));
    assert!(found.evidence[0].contains("busy 100 %"), "{:?}", found.evidence);
}

#[test]
fn a_flat_rate_with_an_idle_device_is_not_the_device() {
    let step = StepEvidence { device_busy_share: Some(0.3), ..saturated() };
    let found = limit_of(&step);
    assert_eq!(found.kind, LimitKind::CannotTell);
    assert!(found.evidence.last().unwrap().contains("none of the known limits"));
}

#[test]
fn processors_with_room_exonerate_them_where_the_device_tells_nothing() {
    let step = StepEvidence { device_busy_share: None, ..saturated() };
    assert_eq!(limit_of(&step).kind, LimitKind::Device);
    let blind = StepEvidence { job_cpu_shares: Vec::new(), ..step };
    let found = limit_of(&blind);
    assert_eq!(found.kind, LimitKind::CannotTell);
    let says = found.evidence.join(" ");
    assert!(says.contains("times the latency") && says.contains("each job's thread"), "{says}");
}

#[test]
fn synchronous_writes_that_fill_a_core_per_job_are_bound_by_the_speed_of_one_thread() {
    // The published case: 32 jobs, depth 1, some 18 µs per write, twice the time at half the clock.
    let step = StepEvidence {
        jobs: Some(32),
        in_flight_offered: Some(32.0),
        in_flight_mean: Some(31.0),
        rate_per_second: Some(1_376_000.0),
        latency_ns_mean: Some(20_090.0),
        unloaded: Some(beside(1.0, 58_400.0, 17.04)),
        lower: Some(beside(16.0, 834_000.0, 18.07)),
        job_cpu_shares: vec![0.99; 32],
        machine_system_share: Some(0.17),
        generator_ns_per_operation: Some(250.0),
        ..StepEvidence::default()
    };
    let found = limit_of(&step);
    assert_eq!(found.kind, LimitKind::CorePerJob);
    assert!(found.evidence[0].contains("32 jobs use 99 % of a core"), "{:?}", found.evidence);
    let waiting = StepEvidence { job_cpu_shares: vec![0.5; 32], ..step };
    assert_ne!(limit_of(&waiting).kind, LimitKind::CorePerJob);
}

#[test]
fn a_full_core_comes_before_the_flat_rate_that_it_explains() {
    let step = StepEvidence { job_cpu_shares: vec![0.98], ..saturated() };
    let found = limit_of(&step);
    assert_eq!((found.kind, found.also), (LimitKind::CorePerJob, vec![LimitKind::Device]));
    assert_eq!(found.evidence.len(), 2);
}

#[test]
fn a_generator_that_fills_its_cores_limits_itself() {
    let step = StepEvidence { generator_ns_per_operation: Some(1_500.0), ..saturated() };
    assert_eq!(limit_of(&step).kind, LimitKind::Generator);
}

#[test]
fn the_kernel_of_a_full_machine_is_the_limit() {
    let step = StepEvidence { machine_system_share: Some(0.9), ..saturated() };
    assert_eq!(limit_of(&step).kind, LimitKind::KernelCpu);
}

#[test]
fn bytes_near_the_memory_bandwidth_are_the_limit() {
    let near = |bytes: f64| StepEvidence {
        bytes_per_second: Some(bytes),
        memory_bytes_per_second: Some(20e9),
        ..saturated()
    };
    assert_eq!(limit_of(&near(15e9)).kind, LimitKind::MemoryBandwidth);
    assert_eq!(limit_of(&near(5e9)).kind, LimitKind::Device);
}

#[test]
fn an_offered_rate_that_was_achieved_limits_itself() {
    let step = |offered| StepEvidence { offered_rate_per_second: Some(offered), ..saturated() };
    assert_eq!(limit_of(&step(383_000.0)).kind, LimitKind::OfferedRate);
    assert_eq!(limit_of(&step(500_000.0)).kind, LimitKind::Device);
}

#[test]
fn of_nothing_one_cannot_tell_and_what_is_missing_is_said() {
    let found = limit_of(&StepEvidence::default());
    assert_eq!(found.kind, LimitKind::CannotTell);
    assert!(found.evidence[0].contains("a step with less load"), "{:?}", found.evidence);
}

/// The saturated step, changed.
fn changed(change: impl FnOnce(&mut StepEvidence)) -> LimitKind {
    let mut step = saturated();
    change(&mut step);
    limit_of(&step).kind
}

#[test]
fn each_share_counts_from_its_bound_on_and_not_below_it() {
    use LimitKind::{
        CannotTell, CorePerJob, Device, Generator, KernelCpu, MemoryBandwidth, OfferedRate,
    };
    // 382 000 operations per second by one job.
    let offered =
        |share: f64| changed(|evidence| evidence.offered_rate_per_second = Some(382_000.0 / share));
    assert_eq!([offered(0.9899), offered(0.9901)], [Device, OfferedRate]);
    let cost = |share: f64| {
        changed(|evidence| evidence.generator_ns_per_operation = Some(share * 1e9 / 382_000.0))
    };
    assert_eq!([cost(0.499), cost(0.501)], [Device, Generator]);
    // The mean of all jobs' threads.
    let cores =
        |share: f64| changed(|evidence| evidence.job_cpu_shares = vec![share + 0.04, share - 0.04]);
    assert_eq!([cores(0.949), cores(0.951)], [Device, CorePerJob]);
    let kernel = |share| changed(|evidence| evidence.machine_system_share = Some(share));
    assert_eq!([kernel(0.799), kernel(0.801)], [Device, KernelCpu]);
    let memory = |share: f64| {
        changed(|evidence| {
            (evidence.bytes_per_second, evidence.memory_bytes_per_second) =
                (Some(share * 2e10), Some(2e10));
        })
    };
    assert_eq!([memory(0.699), memory(0.701)], [Device, MemoryBandwidth]);
    let busy = |share| changed(|evidence| evidence.device_busy_share = Some(share));
    assert_eq!([busy(0.899), busy(0.901)], [CannotTell, Device]);
}

#[test]
fn a_device_is_saturated_where_latency_grows_as_the_load_does_and_the_rate_does_not() {
    let grown = |rate: f64, latency: f64| {
        let lower = beside(128.0, 382_000.0 / 2_f64.powf(rate), 670.0 / 2_f64.powf(latency));
        changed(|evidence| evidence.lower = Some(lower))
    };
    // In powers of the load, which is twice that below.
    assert_eq!(grown(0.0, 0.751), LimitKind::Device);
    assert_eq!(grown(0.0, 0.749), LimitKind::CannotTell);
    assert_eq!(grown(0.099, 0.9), LimitKind::Device);
    assert_eq!(grown(0.101, 0.9), LimitKind::CannotTell);
}

#[test]
fn a_depth_limits_where_it_is_filled_and_latency_is_that_without_load() {
    let step = |filled: f64, factor: f64| {
        let step = flash(16.0, 204_800.0, 78.0 * factor, 0.6);
        limit_of(&StepEvidence { in_flight_mean: Some(16.0 * filled), ..step }).kind
    };
    assert_eq!(step(0.901, 1.099), LimitKind::DepthOffered);
    assert_eq!(step(0.899, 1.099), LimitKind::CannotTell);
    assert_eq!(step(0.901, 1.101), LimitKind::CannotTell);
}

proptest! {
    #[test]
    fn no_evidence_makes_it_panic(figures in prop::collection::vec(any::<f64>(), 16)) {
        let at = |index: usize| figures.get(index).copied();
        let step = StepEvidence {
            jobs: Some(0),
            in_flight_offered: at(0),
            in_flight_mean: at(1),
            rate_per_second: at(2),
            latency_ns_mean: at(3),
            offered_rate_per_second: at(4),
            unloaded: Some(beside(figures[5], figures[6], figures[7])),
            lower: Some(beside(figures[8], figures[9], figures[10])),
            device_busy_share: at(11),
            job_cpu_shares: figures[12..14].to_vec(),
            machine_system_share: at(14),
            bytes_per_second: at(15),
            memory_bytes_per_second: at(0),
            generator_ns_per_operation: at(1),
        };
        prop_assert!(!limit_of(&step).evidence.is_empty());
    }
}
