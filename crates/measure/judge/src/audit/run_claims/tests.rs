//! Each field of a claim from findings in which each figure is another, and the cases that a run has.

use durio_base::Bytes;
use durio_plan::{EngineKind, RawPath};
use serde_json::{from_value, json};

use super::*;

/// A mixed load of 3 jobs at depth 5, the second step of two, on a file beside a device.
fn findings() -> Findings {
    serde_json::from_str(include_str!("findings.json")).unwrap()
}

/// The claim of findings that were changed.
fn changed(change: impl Fn(&mut Findings)) -> Claim {
    let mut findings = findings();
    change(&mut findings);
    run_claims(&findings).remove(0)
}

/// The same of the workload alone.
fn of_workload(change: impl Fn(&mut WorkloadFindings)) -> Claim {
    changed(|findings| change(&mut findings.workloads[0]))
}

fn exact(value: f64) -> Option<Figure> {
    Some(Figure::exact(value))
}

#[test]
fn each_field_of_a_claim_is_the_figure_of_that_name() {
    let claims = run_claims(&findings());
    assert_eq!(claims.len(), 1);
    let percentiles = |base: f64| {
        [50.0, 90.0, 99.0, 99.9, 99.99]
            .into_iter()
            .zip(1_u8..)
            .map(|(percent, more)| (percent, Figure::exact(base + f64::from(more))))
            .collect()
    };
    let operations = |rate, base: f64, count| Operations {
        rate: exact(rate),
        latency_ns_mean: exact(base + 0.5),
        latency_ns_min: exact(base - 100.0),
        latency_ns_max: exact(base + 6.0),
        percentiles_ns: percentiles(base),
        count: Some(count),
        submit_ns_mean: exact(base / 10.0 + 0.5),
        ..Operations::default()
    };
    let expected = Claim {
        line: Some(ClaimPlace::Name("step 1, mixed".to_owned())),
        source: "2026-11-21T153439-226Z-sweep-15910".to_owned(),
        stack: "/mnt/data".to_owned(),
        workload: "mixed".to_owned(),
        durable: "fdatasync every 3 writes".to_owned(),
        note: "step 1, mixed".to_owned(),
        read_share: Some(0.3),
        random: Some(true),
        block_size: Some(Bytes::from_kib(8)),
        jobs: Some(3),
        depth: Some(5),
        engine: Some("uring".to_owned()),
        blocking: Some(false),
        buffered: Some(true),
        durability: Durability::SyncCall,
        writes_per_sync: Some(3),
        open_ends: 1,
        // 3.0 of 15 places were taken.
        jobs_time_share: Some(0.2),
        read: operations(300.0, 10_000.0, 3000),
        write: operations(701.0, 20_000.0, 7010),
        sync: operations(234.0, 30_000.0, 2340),
        bandwidth: exact(8_192_000.0),
        runtime: Some(Nanos::from_secs(10)),
        size: Some(Bytes::from_gib(1)),
        memory: Some(Bytes::from_gib(16)),
        target: Some("/mnt/data".to_owned()),
        idle: Some(Nanos::from_secs(7)),
        // 0.6 cores of three jobs.
        system_cpu_share: Some(0.6 / 3.0),
        ..Claim::default()
    };
    assert_eq!(claims[0], expected);
}

#[test]
fn rounds_repetitions_and_streams_are_named_where_they_are_not_the_first() {
    let place = |round, repeat, stream| {
        let claim = of_workload(|it| (it.round, it.repeat, it.stream) = (round, repeat, stream));
        assert_eq!(claim.line, Some(ClaimPlace::Name(claim.note.clone())));
        claim.note
    };
    assert_eq!(place(0, 0, 0), "step 1, mixed");
    assert_eq!(place(2, 0, 0), "step 1, round 2, mixed");
    assert_eq!(place(1, 3, 4), "step 1, round 1, repeat 3, stream 4, mixed");
}

#[test]
fn settings_are_those_that_were_in_effect() {
    let claim = of_workload(|it| {
        it.effective.engine = EngineKind::Sync;
        it.effective.cache = CacheMode::Direct;
        it.definition.pattern = Pattern::Sequential;
        it.effective.jobs = 0;
        it.bandwidth = 0.0;
        it.location = String::new();
    });
    assert_eq!((claim.engine.as_deref(), claim.blocking), (Some("sync"), Some(true)));
    assert_eq!((claim.buffered, claim.random), (Some(false), Some(false)));
    assert_eq!((claim.system_cpu_share, claim.bandwidth), (Some(0.6), None));
    assert_eq!(claim.target, None);
    let mix = || from_value(json!([[4096, 500], [8192, 500]])).unwrap();
    assert_eq!(of_workload(|it| it.definition.block_mix = mix()).block_size, None);
    assert_eq!(of_workload(|it| it.definition.write_block_mix = mix()).block_size, None);
    let memory = |bytes| changed(|it| it.host.memory = Bytes::new(bytes)).memory;
    assert_eq!((memory(0), memory(1)), (None, Some(Bytes::new(1))));
    // A ramp has operations at the begin as well.
    let ramped = changed(|it| it.plan.steps[1].ramp = Nanos::new(1));
    assert_eq!(ramped.open_ends, 2);
    assert_eq!(changed(|it| it.plan.steps[0].ramp = Nanos::new(1)).open_ends, 1);
}

#[test]
fn each_method_of_syncing_is_durable_in_its_way() {
    let told = |method: SyncMethod| {
        let claim = of_workload(|it| it.definition.sync.method = method);
        (claim.durability, claim.durable, claim.writes_per_sync)
    };
    for (method, durability, durable, every) in [
        (SyncMethod::None, Durability::Denied, "none", None),
        (SyncMethod::Fsync, Durability::SyncCall, "fsync every 3 writes", Some(3)),
        (SyncMethod::FileRange, Durability::SyncCall, "sync_file_range every 3 writes", Some(3)),
        (SyncMethod::ODsync, Durability::InTheWrite, "o_dsync", None),
        (SyncMethod::OSync, Durability::InTheWrite, "o_sync", None),
        (SyncMethod::RwfDsync, Durability::InTheWrite, "rwf_dsync", None),
        (SyncMethod::RwfSync, Durability::InTheWrite, "rwf_sync", None),
    ] {
        assert_eq!(told(method), (durability, durable.to_owned(), every));
    }
}

#[test]
fn a_linked_sync_is_in_its_commit_and_no_call_of_its_own() {
    let linked = |without: &[OperationName]| {
        of_workload(|it| {
            it.definition.sync.method = SyncMethod::LinkedFsync;
            it.operations.retain(|operation| !without.contains(&operation.operation));
        })
    };
    let claim = linked(&[OperationName::Sync]);
    assert_eq!((claim.durability, claim.writes_per_sync), (Durability::InTheWrite, None));
    // The writes' number, with the latency of their commits.
    assert_eq!((claim.write.rate, claim.write.count), (exact(701.0), Some(7010)));
    assert_eq!(claim.write.latency_ns_mean, exact(50_000.5));
    assert_eq!(claim.write.submit_ns_mean, exact(5_000.5));
    for without in [&[][..], &[OperationName::Sync, OperationName::Commit]] {
        let claim = linked(without);
        assert_eq!(claim.durability, Durability::SyncCall, "{without:?}");
        assert_eq!(claim.write.latency_ns_mean, exact(20_000.5));
    }
    // A call after the write, of which none was seen.
    let claim = of_workload(|it| it.operations.retain(|it| it.operation != OperationName::Sync));
    assert_eq!((claim.durability, claim.writes_per_sync), (Durability::SyncCall, Some(3)));
    assert_eq!(claim.sync, Operations::default());
}

fn open_loop() -> durio_analyse::OpenLoop {
    from_value(json!({
        "arrivals": {"poisson": {"rate_per_second": 1000.0}}, "offered_per_second": 1000.0,
        "achieved_per_second": 999.0, "due": 54, "never_started": 0, "started_share": 1.0,
        "lag_ns_mean": 0.0, "lag_ns_max": 0, "behind_ns_max": 0
    }))
    .unwrap()
}

fn batches(delayed_share: f64, padding_share: f64) -> BatchFindings {
    from_value(json!({
        "count": 10, "records_mean": 2.5, "records_p50": 2, "records_p99": 4, "records_max": 4,
        "padding_share": padding_share, "delayed_share": delayed_share, "full_share": 0.0,
        "sizes": [[2, 5], [3, 5]]
    }))
    .unwrap()
}

#[test]
fn a_load_is_paced_by_its_arrivals_or_by_a_log_that_waits_for_records() {
    assert!(!of_workload(|_| {}).paced);
    assert!(of_workload(|it| it.open_loop = Some(open_loop())).paced);
    assert!(!of_workload(|it| it.batches = Some(batches(0.0, 0.0))).paced);
    assert!(of_workload(|it| it.batches = Some(batches(0.01, 0.0))).paced);
    let with_threads = |threads: &str| {
        let policy = json!({"committers": 4, "threads": threads, "batch_bytes_max": 65536});
        of_workload(|it| it.definition.group_commit = Some(from_value(policy.clone()).unwrap()))
    };
    assert!(with_threads("one_each").paced);
    assert!(!with_threads("multiplexed").paced);
}

#[test]
fn a_batch_has_the_bytes_of_its_records_and_what_fills_it_up() {
    let mean = |padding_share, is_mixed: bool| {
        let mix = json!([[4096, 500], [8192, 500]]);
        of_workload(|it| {
            it.batches = Some(batches(0.0, padding_share));
            if is_mixed {
                it.definition.block_mix = from_value(mix.clone()).unwrap();
            }
        })
        .mean_bytes
    };
    assert_eq!(mean(0.0, false), exact(2.5 * 8192.0));
    assert_eq!(mean(0.2, false), exact(2.5 * 8192.0 / 0.8));
    assert_eq!((mean(1.0, false), mean(0.0, true)), (None, None));
}

#[test]
fn the_time_of_jobs_is_counted_in_a_closed_loop_and_else_their_own() {
    let share =
        |change: &dyn Fn(&mut WorkloadFindings)| of_workload(|it| change(it)).jobs_time_share;
    let own = Some(0.75);
    assert_eq!(share(&|it| it.open_loop = Some(open_loop())), own);
    assert_eq!(share(&|it| it.batches = Some(batches(0.0, 0.0))), own);
    assert_eq!(share(&|it| it.in_flight.counted = 0.0), own);
    assert_eq!(share(&|it| it.in_flight.offered = 0.0), own);
    assert_eq!(share(&|it| it.in_flight.counted = 16.0), Some(1.0));
    assert_eq!(share(&|it| it.in_flight.counted = 12.0), Some(0.8));
}

#[test]
fn only_of_a_device_and_of_what_was_brought_into_its_state_is_that_known() {
    assert_eq!(changed(|_| {}).preconditioned, None);
    let on_device = |it: &mut Findings| {
        let path = RawPath::from(std::path::PathBuf::from("/dev/vdb"));
        it.plan.targets[1].kind = TargetKind::Device { path };
    };
    assert_eq!(changed(on_device).preconditioned, Some(false));
    let before = |location: &str| {
        changed(|it| {
            let mut other = it.workloads[0].clone();
            other.location = location.to_owned();
            it.preconditioning = vec![other];
        })
        .preconditioned
    };
    assert_eq!((before("/mnt/data"), before("/mnt/other")), (Some(true), None));
    // A stream that the plan has not.
    assert_eq!(of_workload(|it| it.stream = 1).size, None);
    assert_eq!(of_workload(|it| it.step = 0).size, Some(Bytes::from_gib(2)));
}

/// Intervals of so many milliseconds at these rates, one after the other.
fn intervals(each_ms: u64, rates: &[f64]) -> Vec<IntervalPoint> {
    let point = |(at, &rate): (u64, &f64)| {
        let (from, to) = (at * each_ms * 1_000_000, (at + 1) * each_ms * 1_000_000);
        from_value(json!({
            "phase": "measure", "from_ns": from, "to_ns": to, "rate_per_second": rate,
            "p50_ns": null, "p99_ns": null, "max_ns": null
        }))
        .unwrap()
    };
    (0..).zip(rates).map(point).collect()
}

#[test]
fn a_sample_is_as_many_intervals_as_have_500_ms() {
    assert_eq!(SAMPLE, Nanos::new(500_000_000));
    let one_each = intervals(500, &[100.0, 300.0, 50.0]);
    assert_eq!(sample_rates(&one_each), [100.0, 300.0, 50.0]);
    // Of 200 ms it takes three, and the last two are none.
    let rates = [10.0, 20.0, 60.0, 1.0, 2.0, 3.0, 7.0, 8.0];
    let found = sample_rates(&intervals(200, &rates));
    assert_eq!(found.len(), 2);
    assert!((found[0] - 30.0).abs() < 1e-9 && (found[1] - 2.0).abs() < 1e-9, "{found:?}");
    assert_eq!(sample_rates(&intervals(250, &[10.0, 30.0])), [20.0]);
    assert_eq!(sample_rates(&intervals(249, &[10.0, 30.0])), [0.0; 0]);
    // What does not count.
    let mut some = one_each;
    some[0].phase = Phase::Ramp;
    some[2].cut_short = true;
    assert_eq!(sample_rates(&some), [300.0]);
}

#[test]
fn the_slowest_of_eight_samples_counts_where_all_accesses_are_of_one_kind() {
    let sampled = |change: &dyn Fn(&mut WorkloadFindings)| {
        let claim = of_workload(|it| {
            it.definition.read_share.0 = 1000;
            it.intervals = intervals(500, &[300.0, 300.0, 300.0, 60.0, 300.0, 300.0, 300.0, 300.0]);
            change(it);
        });
        (claim.read.bandwidth_min, claim.read.bandwidth_mean)
    };
    // 60 and 270 reads of 8 KiB a second.
    let seen = (exact(60.0 * 8192.0), exact(270.0 * 8192.0));
    assert_eq!(sampled(&|_| {}), seen);
    assert_eq!(sampled(&|it| it.definition.read_share.0 = 500), (None, None));
    assert_eq!(sampled(&|it| it.intervals.truncate(7)), (None, None));
    let at_rest = |it: &mut WorkloadFindings| {
        it.operations.iter_mut().for_each(|operation| operation.rate = 0.0);
    };
    assert_eq!(sampled(&at_rest), (None, None));
    // Of 135 arrivals in a sample 30 are no chance, of 99.9 they might be.
    assert_eq!(sampled(&|it| it.open_loop = Some(open_loop())), seen);
    let fewer = |rate: f64| {
        move |it: &mut WorkloadFindings| {
            it.open_loop = Some(open_loop());
            it.intervals.iter_mut().for_each(|point| point.rate = rate);
        }
    };
    assert_eq!(sampled(&fewer(199.9)), (None, None));
    assert_eq!(sampled(&fewer(200.0)), (exact(200.0 * 8192.0), exact(200.0 * 8192.0)));
}
