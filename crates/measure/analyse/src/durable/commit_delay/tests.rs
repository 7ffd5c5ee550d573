//! Which delay and bound are advised, of arms made by hand.

use durio_plan::{EngineKind, FileLayout};
use durio_workload::{CacheMode, GroupCommit, SyncMethod};

use super::*;
use crate::durable::{ArmFigures, ArmLatencies};

/// A log of 64 committers: delay in microseconds, bound in KiB, commits per second, 99th percentile
/// in microseconds, noise.
fn arm((micros, kib, rate, p99_us, noise): (u64, u64, f64, u64, f64)) -> DurableArm {
    let policy = GroupCommit {
        delay: Nanos::from_micros(micros),
        batch_max: Bytes::from_kib(kib),
        ..GroupCommit::of(64)
    };
    let setting = ArmSetting {
        location: "/srv".into(),
        engine: EngineKind::Sync,
        method: SyncMethod::Fdatasync,
        every: 1,
        cache: CacheMode::Buffered,
        layout: Some(FileLayout::Incompressible),
        block_size: Bytes::new(256),
        jobs: 1,
        files: 1,
        group_commit: Some(policy),
    };
    let latency = ArmLatencies {
        count: 10_000,
        mean_ns: 64e9 / rate,
        p50_ns: None,
        p99_ns: Some(p99_us * 1000),
        p99_9_ns: None,
        max_ns: 1,
    };
    let figures = ArmFigures {
        rate_per_second: rate,
        bandwidth_bytes_per_second: rate * 256.0,
        latency,
        sync: None,
        device: None,
        batches: None,
        samples: Vec::new(),
        noise_share: Some(noise),
    };
    DurableArm { setting, step: 0, figures: Some(figures), problems: Vec::new() }
}

fn advised(arms: &[(u64, u64, f64, u64, f64)]) -> Option<CommitDelayAdvice> {
    of_group(arms.iter().copied().map(arm).collect()).advice
}

#[test]
fn the_smallest_delay_within_the_noise_of_the_best_is_advised() {
    let found = advised(&[
        (0, 1024, 1000.0, 700, 0.0),
        (50, 1024, 1300.0, 800, 0.0),
        (100, 1024, 1950.0, 900, 0.0),
        (500, 1024, 2000.0, 1400, 0.0),
    ])
    .unwrap();
    assert_eq!(found.delay, Nanos::from_micros(100), "{found:?}");
    assert!((found.gain_share - 0.95).abs() < 1e-9 && (found.best_gain_share - 1.0).abs() < 1e-9);
    assert!((found.p99_share.unwrap() - 2.0 / 7.0).abs() < 1e-9, "{found:?}");
    assert_eq!((found.without, found.arm), (0, 2));
}

#[test]
fn a_gain_within_the_noise_is_none() {
    // 1.04 times is less than a twentieth; 1.2 times is less than two standard errors of a tenth each.
    for (rate, noise) in [(1040.0, 0.0), (1200.0, 0.1)] {
        let found =
            advised(&[(0, 1024, 1000.0, 700, noise), (200, 1024, rate, 900, noise)]).unwrap();
        assert_eq!((found.delay, found.gain_share), (Nanos::ZERO, 0.0), "{found:?}");
        assert!(found.best_gain_share > 0.03 && found.p99_share.is_none(), "{found:?}");
    }
}

#[test]
fn the_smallest_bound_that_costs_nothing_is_advised() {
    let found = advised(&[
        (0, 4, 500.0, 900, 0.0),
        (0, 64, 980.0, 700, 0.0),
        (0, 1024, 1000.0, 700, 0.0),
        (200, 1024, 600.0, 1400, 0.0),
    ])
    .unwrap();
    assert_eq!((found.delay, found.batch_max), (Nanos::ZERO, Bytes::from_kib(64)), "{found:?}");
}

#[test]
fn without_an_arm_that_has_no_delay_nothing_is_advised() {
    assert!(advised(&[(100, 1024, 1000.0, 700, 0.0)]).is_none());
    assert!(advised(&[]).is_none());
    let found = advised(&[(0, 1024, 1000.0, 700, 0.0)]).unwrap();
    assert_eq!((found.delay, found.best_gain_share), (Nanos::ZERO, 0.0), "none is all there is");
}

#[test]
fn a_delay_has_to_gain_more_than_a_twentieth() {
    let delay = |rate| {
        let arms = [(0, 1024, 1000.0, 700, 0.0), (200, 1024, rate, 900, 0.0)];
        advised(&arms).unwrap().delay
    };
    assert_eq!([delay(1049.0), delay(1051.0)], [Nanos::ZERO, Nanos::from_micros(200)]);
    // Two standard errors of the difference of two that are off by 4 %: 11.3 %.
    let delay = |rate| {
        let arms = [(0, 1024, 1000.0, 700, 0.04), (200, 1024, rate, 900, 0.04)];
        advised(&arms).unwrap().delay
    };
    assert_eq!([delay(1112.0), delay(1114.0)], [Nanos::ZERO, Nanos::from_micros(200)]);
}
