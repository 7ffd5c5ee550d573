//! Planted faults: each is told where it is, and the rest has its figures.

use durio_base::Nanos;
use durio_record::Phase;

use super::*;
use crate::{DeclinedAnalysis, IntervalPoint};

fn two<'a>(raw: &'a crate::Findings, top: &'a crate::Findings) -> Vec<StackPoint<'a>> {
    vec![
        point("s", "raw", PointKind::Raw, None, Some(raw)),
        point("s", "ext4", PointKind::Filesystem, Some(0), Some(top)),
    ]
}

#[test]
fn a_failed_point_is_a_row_with_its_reason() {
    let raw = run(&[writes(1000.0)]);
    let mut points = two(&raw, &raw);
    (points[1].runs, points[1].failure) = (Vec::new(), Some("mkfs.ext4: too small".into()));
    let found = attribution(&bench(points)).unwrap();
    let row = &found.workloads[0].rows[1];
    assert_eq!((row.absent.as_deref(), &row.figures), (Some("mkfs.ext4: too small"), &None));
    assert_eq!(found.points[1].failure.as_deref(), Some("mkfs.ext4: too small"));
    assert!(found.workloads[0].waterfalls.is_empty());
}

#[test]
fn a_workload_that_one_point_lacks_is_missing_there_alone() {
    let raw = run(&[writes(1000.0), Figures { name: "over", ..writes(500.0) }]);
    let top = run(&[writes(100.0)]);
    let found = attribution(&bench(two(&raw, &top))).unwrap();
    assert_eq!(found.workloads.len(), 2);
    let over = &found.workloads[1];
    assert_eq!(over.label, "over");
    assert!(over.rows[0].figures.is_some());
    assert_eq!(over.rows[1].absent.as_deref(), Some("this workload was not run here"));
}

#[test]
fn rates_that_are_none_are_no_shares() {
    let raw = run(&[writes(1000.0)]);
    for (rate, words) in [
        (0.0, "nothing was completed"),
        (f64::NAN, "its rate is not a number"),
        (f64::INFINITY, "its rate is not a number"),
        (-3.0, "its rate is not a number"),
        (1.001e15, "its rate is not a number"),
    ] {
        let mut odd = run(&[writes(100.0)]);
        odd.workloads[0].iops = rate;
        let found = attribution(&bench(two(&raw, &odd))).unwrap();
        assert_eq!(found.workloads[0].rows[1].absent.as_deref(), Some(words), "{rate}");
        let turned = attribution(&bench(two(&odd, &raw))).unwrap();
        let row = figures(&turned, 1);
        assert_eq!((row.share_of_raw, row.share_of_below, row.against_raw), (None, None, None));
        assert!(row.remarks[0].contains("no share of raw"), "{:?}", row.remarks);
        let text = serde_json::to_string(&turned).unwrap();
        assert_eq!(serde_json::from_str::<StackFindings>(&text).unwrap(), turned);
    }
}

#[test]
fn a_step_that_was_cut_short_has_no_figures() {
    let raw = run(&[writes(1000.0)]);
    let mut cut = run(&[writes(100.0)]);
    cut.workloads[0].complete = false;
    let found = attribution(&bench(two(&raw, &cut))).unwrap();
    assert_eq!(found.workloads[0].rows[1].absent.as_deref(), Some("it ended before its limit"));
    // Beside a repeat that did not, it is left out.
    let whole = run(&[writes(90.0)]);
    let mut points = two(&raw, &cut);
    points[1].runs.push(&whole);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 1);
    assert_eq!((row.rate_per_second, row.repeats), (90.0, 1));
    assert!(row.remarks[0].contains("1 of 2 repeats were left out"), "{:?}", row.remarks);
}

#[test]
fn without_raw_of_its_own_a_stack_is_compared_with_that_of_another() {
    let (raw, top) = (run(&[writes(1000.0)]), run(&[writes(250.0)]));
    let mut points = two(&raw, &top);
    points.push(point("lone", "xfs", PointKind::Filesystem, None, Some(&top)));
    let found = attribution(&bench(points.clone())).unwrap();
    let row = figures(&found, 2);
    assert_eq!((row.raw_point, row.share_of_raw, row.share_of_below), (Some(0), Some(0.25), None));
    assert_eq!(row.remarks, ["compared with the raw storage of stack s"]);
    // Over other devices it is compared with nothing.
    points[2].base = Base { kind: BaseKind::Null, label: "null_blk".into() };
    let found = attribution(&bench(points)).unwrap();
    assert_eq!(figures(&found, 2).share_of_raw, None);
}

#[test]
fn drift_between_raw_points_is_told_with_the_stacks() {
    let (steady, off) = (run(&[writes(1000.0)]), run(&[writes(1150.0)]));
    let raws = |last| {
        let one = |stack, run| point(stack, "raw", PointKind::Raw, None, Some(run));
        bench(vec![one("a", &steady), one("b", &steady), one("c", last)])
    };
    assert_eq!(codes(&attribution(&raws(&steady)).unwrap()), [""; 0]);
    let found = attribution(&raws(&off)).unwrap();
    assert_eq!(codes(&found), ["raw-drift"]);
    assert_eq!(found.warnings[0].about, ["c"]);
    assert!(found.warnings[0].seen.contains("c +15.0 %"), "{}", found.warnings[0].seen);
    // A tenth is overlooked, on both sides.
    let near = [1099.0, 1101.0, 901.0, 899.0].map(|rate| run(&[writes(rate)]));
    let drifts = near.each_ref().map(|near| codes(&attribution(&raws(near)).unwrap()).len());
    assert_eq!(drifts, [0, 1, 0, 1]);
}

#[test]
fn a_bench_is_provisional_as_its_first_short_run_is_unless_instructions_were_counted() {
    let (mut raw, mut top) = (run(&[writes(1000.0)]), run(&[writes(250.0)]));
    let reason = |raw: &crate::Findings, top: &crate::Findings, timing| {
        let mut made = bench(two(raw, top));
        made.timing = timing;
        attribution(&made).unwrap().provisional
    };
    (raw.provisional, top.provisional) = (None, None);
    assert_eq!(reason(&raw, &top, None), None);
    top.provisional = Some("1 s is short".to_owned());
    assert_eq!(reason(&raw, &top, None).as_deref(), Some("1 s is short"));
    raw.provisional = Some("2 s are short".to_owned());
    assert_eq!(reason(&raw, &top, Some(Timing::Wall)).as_deref(), Some("2 s are short"));
    assert_eq!(reason(&raw, &top, Some(Timing::Counted)), None);
}

#[test]
fn zram_counted_time_and_two_kernels_are_told() {
    let raw = run(&[writes(1000.0)]);
    let mut other = run(&[writes(900.0)]);
    other.host.kernel = "6.12".into();
    let mut points = two(&raw, &other);
    for point in &mut points {
        point.base = Base { kind: BaseKind::Zram, label: "zram".into() };
    }
    let mut made = bench(points);
    made.timing = Some(Timing::Counted);
    let found = attribution(&made).unwrap();
    assert_eq!(codes(&found), ["counted-timing", "zram-baseline", "several-kernels"]);
    assert_eq!(found.label.as_deref(), Some(COUNTED_LABEL));
    let fall = &found.workloads[0].waterfalls[0];
    assert_eq!(fall.basis, WaterfallBasis::TimePerOperation);
    assert!((fall.steps[1].added_ns - (1e9 / 900.0 - 1e6)).abs() < 1e-6);
    made.timing = Some(Timing::Wall);
    assert_eq!(attribution(&made).unwrap().label, None);
}

#[test]
fn ram_disks_that_count_nothing_are_no_zero_amplification() {
    let (raw, mut top) = (run(&[writes(1000.0)]), run(&[writes(500.0)]));
    top.workloads[0].devices = vec![device(0.0)];
    let found = attribution(&bench(two(&raw, &top))).unwrap();
    let told = |at| match figures(&found, at).devices.clone().unwrap() {
        DeviceCost::CannotTell { why } => why,
        other => format!("{other:?}"),
    };
    assert_eq!(told(0), "no device below keeps counters");
    assert_eq!(told(1), "RAM disks count nothing");
    top.workloads[0].devices = vec![device(750.0), device(250.0)];
    let found = attribution(&bench(two(&raw, &top))).unwrap();
    let counted = DeviceCost::Counted {
        writes_per_write: 2.0,
        bytes_per_byte: 2.0,
        flushes_per_sync_call: None,
    };
    assert_eq!(figures(&found, 1).devices, Some(counted));
}

#[test]
fn traced_operations_tell_what_ram_disks_do_not() {
    let (raw, mut top) = (run(&[writes(1000.0)]), run(&[writes(500.0)]));
    let device = |name: &str, lowest| crate::DevicePerOperation {
        device: name.into(),
        lowest,
        reads: 0.0,
        read_bytes: 0.0,
        writes: 1.5,
        written_bytes: 6144.0,
        flushes: 0.0,
        fua: 0.0,
    };
    let workload = &mut top.workloads[0];
    workload.latency_breakdown = Some(crate::LatencyBreakdown {
        step: 1,
        operations: 300,
        lost_events: 0,
        clock: "x86-tsc".into(),
        resolution_ns: 1,
        mean_ns: 1.0,
        traced_p50_ns: None,
        untraced_p50_ns: None,
        overhead_share: None,
        components: Vec::new(),
        off_cpu_share: 0.0,
        waits_per_operation: 0.0,
        preemptions_per_operation: 0.0,
        devices: vec![device("md0", false), device("ram0", true), device("ram1", true)],
        unavailable: None,
    });
    let found = attribution(&bench(two(&raw, &top))).unwrap();
    let traced = DeviceCost::Traced { writes_per_write: 3.0, bytes_per_byte: 3.0 };
    assert_eq!(
        figures(&found, 1).devices,
        Some(traced),
        "the array's own bios are not counted too"
    );
    top.workloads[0].definition.read_share = durio_workload::PerMille(500);
    let found = attribution(&bench(two(&raw, &top))).unwrap();
    let devices = figures(&found, 1).devices.clone().unwrap();
    assert!(matches!(devices, DeviceCost::CannotTell { .. }), "which were traced is not known");
}

#[test]
fn repeats_give_the_median_and_their_range() {
    let (low, middle, high) = (run(&[writes(90.0)]), run(&[writes(100.0)]), run(&[writes(120.0)]));
    let mut points = vec![point("s", "raw", PointKind::Raw, None, Some(&high))];
    points[0].runs.extend([&low, &middle]);
    let found = attribution(&bench(points)).unwrap();
    let row = figures(&found, 0);
    let interval = row.rate_interval.unwrap();
    assert_eq!((row.rate_per_second, row.repeats), (100.0, 3));
    assert_eq!((interval.low_per_second, interval.high_per_second), (90.0, 120.0));
    assert_eq!(interval.basis, IntervalBasis::Repeats);
}

#[test]
fn one_run_has_an_interval_from_its_batches() {
    let mut single = run(&[writes(100.0)]);
    let interval = |at: u32| IntervalPoint {
        phase: if at < 5 { Phase::Ramp } else { Phase::Measure },
        from: Nanos::from_millis(u64::from(at) * 100),
        to: Nanos::from_millis(u64::from(at) * 100 + 100),
        // Batches of two intervals whose means are 90 and 110 in turn; the ramp is far off.
        rate: if at < 5 {
            1e6
        } else {
            100.0 + if ((at - 5) / 2).is_multiple_of(2) { 10.0 } else { -10.0 }
        },
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        unwatched_max: None,
        cut_short: false,
        kept: Vec::new(),
    };
    single.workloads[0].intervals = (0..25).map(interval).collect();
    let points = vec![point("s", "raw", PointKind::Raw, None, Some(&single))];
    let found = attribution(&bench(points)).unwrap();
    let found = figures(&found, 0).rate_interval.unwrap();
    // Deviation 10 √(10 ÷ 9) of ten batches: 2.262 × 10.541 ÷ √10 = 7.540.
    assert!((found.high_per_second - 107.540).abs() < 0.001, "{}", found.high_per_second);
    assert!((found.low_per_second - 92.460).abs() < 0.001, "{}", found.low_per_second);
    assert_eq!(found.basis, IntervalBasis::Batches);
}

#[test]
fn steps_of_a_ladder_are_matched_by_their_levels() {
    let ladder = |rates: [f64; 2]| {
        let mut made = run(&rates.map(writes));
        for (found, jobs) in made.workloads.iter_mut().zip([1_u32, 16]) {
            let label = jobs.to_string();
            found.levels =
                vec![durio_plan::ParameterValue { axis: "jobs".into(), value: jobs.into(), label }];
        }
        made
    };
    let (raw, mut top) = (ladder([1000.0, 4000.0]), ladder([500.0, 1000.0]));
    top.workloads[1].context_switches_per_operation = Some(1.02);
    let mut points = two(&raw, &top);
    points[1].published = vec![published(0.3, Some(16), "s")];
    let found = attribution(&bench(points)).unwrap();
    let labels: Vec<&str> =
        found.workloads.iter().map(|workload| workload.label.as_str()).collect();
    assert_eq!(labels, ["randwrite, jobs 1", "randwrite, jobs 16"]);
    let row = |at: usize| found.workloads[at].rows[1].figures.as_ref().unwrap();
    assert_eq!((row(0).share_of_raw, row(1).share_of_raw), (Some(0.5), Some(0.25)));
    let switches = |at: usize| row(at).context_switches_per_operation;
    assert_eq!((switches(0), switches(1)), (Some(1.0), Some(1.02)));
    let published = |at: usize| row(at).published_share_of_raw;
    assert_eq!((published(0), published(1)), (None, Some(0.3)));
    assert!(found.workloads[0].published.is_none() && found.workloads[1].published.is_some());
}

#[test]
fn a_bench_that_hangs_together_badly_is_declined() {
    let raw = run(&[writes(1000.0)]);
    assert!(matches!(attribution(&bench(Vec::new())), Err(DeclinedAnalysis::TooFew { .. })));
    for below in [1, 2, 9] {
        let mut points = two(&raw, &raw);
        points[1].below = Some(below);
        let declined = attribution(&bench(points)).unwrap_err();
        assert!(matches!(declined, DeclinedAnalysis::NoSuchLayout { .. }), "{below}: {declined}");
    }
    let mut points = two(&raw, &raw);
    points[1].stack = "other".into();
    assert!(attribution(&bench(points)).is_err());
    let mut points = two(&raw, &raw);
    points[1].published = vec![published(f64::NAN, None, "s")];
    assert!(matches!(attribution(&bench(points)), Err(DeclinedAnalysis::NotAFigure { .. })));
}

#[test]
fn the_processor_time_of_a_sync_call_is_its_writes_as_its_waiting_is() {
    // 1000 writes per second with an fdatasync each: the run counts 2000 operations of 10 µs.
    let raw = run(&[writes(1000.0)]);
    let mut synced = run(&[writes(1000.0)]);
    let found = &mut synced.workloads[0];
    let mut sync = found.operations[0].clone();
    sync.operation = durio_record::OperationName::Sync;
    found.operations.push(sync);
    found.cpu.per_operation_ns = 10_000.0;
    found.context_switches_per_operation = Some(0.5);
    found.involuntary_switches_per_operation = Some(0.0);
    let found = attribution(&bench(two(&raw, &synced))).unwrap();
    let row = figures(&found, 1);
    assert_eq!(row.cpu_ns_per_operation, Some(20_000.0));
    assert_eq!(row.context_switches_per_operation, Some(1.0));
    assert_eq!(row.time_per_operation_ns, 1e6);
}

#[test]
fn rates_to_a_thousand_million_million_and_a_thousand_points_are_taken() {
    let raw = run(&[writes(1000.0)]);
    let fast = run(&[writes(0.999e15)]);
    let found = attribution(&bench(two(&raw, &fast))).unwrap();
    assert_eq!(figures(&found, 1).rate_per_second, 0.999e15);
    let many = |count: usize| {
        let one = |at: usize| point(&at.to_string(), "raw", PointKind::Raw, None, Some(&raw));
        attribution(&bench((0..count).map(one).collect())).map(|_| ())
    };
    assert_eq!(many(1000), Ok(()));
    assert!(matches!(many(1001), Err(DeclinedAnalysis::TooMany { .. })), "{:?}", many(1001));
}
