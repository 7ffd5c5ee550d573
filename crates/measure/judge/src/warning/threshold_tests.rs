//! Each threshold of a warning as a number: quiet at it or just below, speaking just above.

use durio_analyse::{DeviceTime, IntervalPoint, OpenLoop, SelfCost};
use durio_base::Nanos;
use durio_plan::EngineKind;
use durio_record::{OperationName, Phase};

use crate::tests::{Sample, seen};

/// Sets what a rule looks at.
type Set = fn(&mut Sample, f64);

const DEVICE: &str = "outside-device";

/// Code, what is set, the last value without the warning and the first with it.
const THRESHOLDS: [(&str, Set, f64, f64); 23] = [
    // Little's law: 2 %, in both directions, over 50 ms at the least.
    ("inconsistent", |it, value| it.workloads[0].in_flight.deviation = value, 0.02, 0.020_1),
    ("inconsistent", |it, value| it.workloads[0].in_flight.deviation = value, -0.02, -0.020_1),
    ("inconsistent", deviating_for_millis, 49.0, 50.0),
    // In an open loop 10 µs for each operation, and 10 ms of the whole, are explained.
    ("inconsistent", open_loop_apart, 0.029_9, 0.030_1),
    // Nobody looked for 1 ms, or twice as long as an operation takes, in a quarter of the intervals.
    ("unwatched", |it, value| unwatched(it, whole(value), 4), 999_999.0, 1_000_000.0),
    ("unwatched", |it, value| unwatched(it, 1_000_000, whole(value)), 5.0, 4.0),
    // Clocks: 0.1 %.
    ("clock", |it, value| it.workloads[0].in_flight.clock_deviation = value, 0.001, 0.001_01),
    ("clock", |it, value| it.workloads[0].in_flight.clock_deviation = value, -0.001, -0.001_01),
    // 20 % of variation, of 8 intervals at the least.
    ("noisy", |it, value| it.evenness().coefficient_of_variation = value, 0.2, 0.201),
    ("noisy", varying_intervals, 7.0, 8.0),
    // p99.99 of ten times the p99, which is 700 µs here.
    ("tail", |it, value| it.headline().service.p99_99_ns = Some(whole(value)), 7.0e6, 7.1e6),
    // 10 µs of submission.
    ("submit", submitting_nanos, 10_000.0, 10_001.0),
    // A quarter of the latency, and 50 µs.
    (DEVICE, |it, value| outside(it, value, 100_000.0), 0.25, 0.251),
    (DEVICE, |it, value| outside(it, 0.6, value), 50_000.0, 50_001.0),
    // Shares of processors: 90 % of a core, half of what a job can do, 30 % in the kernel, 1 % stolen.
    ("one-core", |it, value| it.workloads[0].cpu.busiest_job_share = value, 0.9, 0.901),
    ("durio-limit", |it, value| reached(it, value), 0.5, 0.501),
    ("system-cpu", |it, value| it.workloads[0].cpu.machine_system_share = Some(value), 0.3, 0.301),
    ("steal", |it, value| it.workloads[0].cpu.machine_steal_share = Some(value), 0.01, 0.010_1),
    // One interval of many.
    ("stalls", |it, value| it.evenness().intervals_empty = whole(value), 0.0, 1.0),
    ("stalls", |it, value| it.evenness().intervals_under_half = whole(value), 0.0, 1.0),
    // A hundredth of the arrivals.
    ("offered-rate", |it, value| started(it, value), 0.99, 0.989_9),
    // Any time by a quota, any processor less.
    (
        "throttled",
        |it, value| it.workloads[0].cpu.throttled = Some(Nanos::new(whole(value))),
        0.0,
        1.0,
    ),
    ("limits", |it, value| it.environment.host.cgroup.cpu_quota_cores = Some(value), 4.0, 3.9),
];

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and whole")]
fn whole(value: f64) -> u64 {
    value as u64
}

fn deviating_for_millis(it: &mut Sample, millis: f64) {
    it.workloads[0].in_flight.deviation = 0.1;
    it.workloads[0].in_flight.span = Nanos::from_millis(whole(millis));
}

/// 2000 operations per second over a second: 10 µs of each are 0.02, 10 ms are 0.01 of the whole.
fn open_loop_apart(it: &mut Sample, apart: f64) {
    started(it, 1.0);
    it.workloads[0].iops = 2000.0;
    let in_flight = &mut it.workloads[0].in_flight;
    in_flight.span = Nanos::from_secs(1);
    (in_flight.deviation, in_flight.by_latency, in_flight.counted) = (0.1, 1.0, 1.0 + apart);
}

/// Operations of 400 µs; so long nobody looked in one of this many intervals.
fn unwatched(it: &mut Sample, nanos: u64, intervals: u64) {
    it.headline().service.p50_ns = Some(400_000);
    it.workloads[0].unwatched_max = Some(Nanos::new(nanos));
    let interval = |at| IntervalPoint {
        phase: Phase::Measure,
        from: Nanos::from_secs(at),
        to: Nanos::from_secs(at + 1),
        rate: 1.0,
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        unwatched_max: Some(Nanos::new(if at == 0 { nanos } else { 10 })),
        cut_short: false,
        kept: Vec::new(),
    };
    it.workloads[0].intervals = (0..intervals).map(interval).collect();
}

fn varying_intervals(it: &mut Sample, intervals: f64) {
    it.evenness().coefficient_of_variation = 0.3;
    it.evenness().intervals = whole(intervals);
}

fn submitting_nanos(it: &mut Sample, nanos: f64) {
    let write = it.operation(OperationName::Write);
    let mut submit = write.service.clone();
    submit.p50_ns = Some(whole(nanos));
    write.submit = Some(submit);
}

fn outside(it: &mut Sample, share: f64, nanos: f64) {
    it.workloads[0].device_time = Some(DeviceTime {
        device: "sda".to_owned(),
        requests_per_access: 1.0,
        request_ns_mean: 200_000.0,
        outside_ns_mean: nanos,
        outside_share: share,
    });
}

/// Each of two jobs reaches this share of 8000 operations per second.
fn reached(it: &mut Sample, share: f64) {
    it.workloads[0].effective.jobs = 2;
    it.workloads[0].iops = 16_000.0 * share;
    for (engine, iops) in [(EngineKind::Uring, 900.0), (EngineKind::Sync, 8000.0)] {
        it.self_cost.push(SelfCost { engine, depth: 1, per_operation_ns: 1.0, iops });
    }
}

fn started(it: &mut Sample, started_share: f64) {
    it.workloads[0].open_loop = Some(OpenLoop {
        arrivals: durio_workload::Arrivals::Constant { rate_per_second: 2000.0 },
        offered_per_second: 2000.0,
        achieved_per_second: 1970.0,
        due: 4000,
        never_started: 40,
        started_share,
        lag_ns_mean: 5.0,
        lag_ns_max: 7,
        behind_ns_max: 9,
    });
}

#[test]
fn each_warning_speaks_above_its_threshold_and_not_at_it() {
    let mut wrong = Vec::new();
    for (at, (code, set, quiet, speaking)) in THRESHOLDS.into_iter().enumerate() {
        if seen(code, |sample| set(sample, quiet)).is_some() {
            wrong.push(format!("{at}: {code} speaks at {quiet}"));
        }
        if seen(code, |sample| set(sample, speaking)).is_none() {
            wrong.push(format!("{at}: {code} is quiet at {speaking}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_warning_says_the_figure_that_it_is_about() {
    let said = |code: &str, set: Set, value: f64| seen(code, |sample| set(sample, value)).unwrap();
    let one = |at: usize, value: f64| {
        let (code, set, ..) = THRESHOLDS[at];
        said(code, set, value)
    };
    assert_eq!(one(6, 0.0123), "commit: the tsc clock is off by 1.23 %");
    assert_eq!(one(8, 0.314), "commit: rates of intervals differ by 31 % (σ / mean)");
    assert_eq!(one(10, 9.1e6), "commit: p99.99 9.1 ms is 13 × p99 700 µs");
    assert_eq!(one(11, 12_300.0), "commit: submission takes 12.3 µs (p50)");
    assert_eq!(one(14, 0.97), "commit: the busiest job used 97 % of a core");
    assert_eq!(
        one(15, 0.75),
        "commit: each job did 6000 I/Os per second; without storage it does 8000"
    );
    assert_eq!(one(16, 0.41), "commit: 41 % of the machine's time was spent in the kernel");
    assert_eq!(one(17, 0.023), "commit: the hypervisor took 2.3 %");
    assert_eq!(
        one(20, 0.985),
        "commit: 1970 of 2000 per second; 2 % of the arrivals never started"
    );
    assert_eq!(one(22, 1.5), "cpu.max allows 1.50 of 4 processors");
    let stalled = seen("stalls", |sample| {
        sample.evenness().intervals_empty = 3;
        sample.evenness().intervals_under_half = 5;
    });
    let expected =
        "commit: of 300 intervals 3 had no completion and 5 under half of the average rate";
    assert_eq!(stalled.unwrap(), expected);
}
