//! fio's JSON: what its readers look for is where they look.

use durio_analyse::{Findings, OpenLoop};
use durio_base::{Bytes, Nanos};
use durio_fio::json::{FioJob, FioOutput, read};
use durio_plan::{EngineKind, Limit};
use durio_record::OperationName;
use durio_report::Format;
use durio_workload::{Arrivals, Pattern, PerMille, SyncMethod};

use crate::{sample, written};

fn document(findings: &Findings) -> FioOutput {
    read(written(Format::FioJson, findings).as_bytes()).unwrap().output
}

#[test]
fn it_reads_as_a_result_of_fio_with_a_job_per_step() {
    let findings = sample::complete();
    let output = document(&findings);
    let names: Vec<_> = output.jobs.iter().map(|job| job.jobname.as_str()).collect();
    let expected: Vec<_> =
        findings.workloads.iter().map(|workload| workload.name.as_str()).collect();
    assert_eq!(names, expected);
    for (job, workload) in output.jobs.iter().zip(&findings.workloads) {
        let [read, write] = [OperationName::Read, OperationName::Write]
            .map(|name| workload.operation(name).map_or(0.0, |operation| operation.rate));
        assert!((job.read.as_ref().unwrap().iops - read).abs() < 1e-5, "{}", workload.name);
        assert!((job.write.as_ref().unwrap().iops - write).abs() < 1e-5, "{}", workload.name);
        let depth = workload.effective.depth.to_string();
        assert_eq!(job.option("iodepth", &output.global_options), Some(depth.as_str()));
        assert!(job.option("rw", &output.global_options).is_some());
    }
}

#[test]
fn syncs_have_percentiles_where_etcds_check_reads_them() {
    let findings = sample::complete();
    let at = findings
        .workloads
        .iter()
        .position(|workload| workload.headline == OperationName::Commit)
        .unwrap();
    let sync = findings.workloads[at].operation(OperationName::Sync).unwrap();
    let text = written(Format::FioJson, &findings);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let latency = &json["jobs"][at]["sync"]["lat_ns"];
    let p99 = latency["percentile"]["99.000000"].as_u64().unwrap();
    let expected = sync.service.p99_ns.unwrap();
    assert!(p99.abs_diff(expected) * 50 < expected, "{p99} {expected}");
    assert_eq!(latency["N"], sync.service.count);
}

#[test]
fn only_the_last_round_is_there() {
    let mut findings = sample::complete();
    findings.workloads.truncate(1);
    let mut later = findings.workloads[0].clone();
    (later.round, later.name) = (1, "later".into());
    findings.workloads.push(later);
    let names: Vec<_> = document(&findings).jobs.into_iter().map(|job| job.jobname).collect();
    assert_eq!(names, ["later"]);
}

#[test]
fn durability_is_named_as_fio_names_it() {
    let names = [
        (SyncMethod::Fsync, "fsync", "8"),
        (SyncMethod::Fdatasync, "fdatasync", "8"),
        (SyncMethod::LinkedFsync, "fsync", "8"),
        (SyncMethod::LinkedFdatasync, "fdatasync", "8"),
        (SyncMethod::FileRange, "fdatasync", "8"),
        (SyncMethod::ODsync, "sync", "dsync"),
        (SyncMethod::RwfDsync, "sync", "dsync"),
        (SyncMethod::OSync, "sync", "sync"),
    ];
    for (method, name, value) in names {
        let mut findings = sample::complete();
        let definition = &mut findings.workloads[0].definition;
        (definition.sync.method, definition.sync.every) = (method, 8);
        let job = &document(&findings).jobs[0];
        assert_eq!(job.option(name, &Vec::new()), Some(value), "{method}");
    }
}

#[test]
fn bandwidth_is_in_bytes_and_in_whole_kibibytes() {
    let mut findings = sample::complete();
    let at = findings.workloads[0].operations.iter_mut();
    let write = at.into_iter().find(|kept| kept.operation == OperationName::Write).unwrap();
    write.bandwidth = 5_000_000.0;
    let job = document(&findings).jobs.remove(0);
    let write = job.write.unwrap();
    assert_eq!((write.bw_bytes, write.bw), (5_000_000, 4_882));
}

#[test]
fn processor_time_is_the_mean_share_of_a_job_and_not_of_all_together() {
    for (jobs, user, system) in [(1, 21.0, 62.0), (4, 5.25, 15.5)] {
        let mut findings = sample::complete();
        let workload = &mut findings.workloads[0];
        (workload.effective.jobs, workload.cpu.user_cores) = (jobs, 0.21);
        workload.cpu.system_cores = 0.62;
        let job = &document(&findings).jobs[0];
        let found = [job.usr_cpu, job.sys_cpu];
        assert!((found[0] - user).abs() < 1e-5 && (found[1] - system).abs() < 1e-5, "{found:?}");
    }
}

fn first_job(findings: &Findings) -> FioJob {
    document(findings).jobs.remove(0)
}

fn option(findings: &Findings, name: &str) -> Option<String> {
    let (job, global) = (first_job(findings), Vec::new());
    job.option(name, &global).map(str::to_owned)
}

fn open_loop(arrivals: Arrivals, offered_per_second: f64) -> OpenLoop {
    OpenLoop {
        arrivals,
        offered_per_second,
        achieved_per_second: 77.0,
        due: 1,
        never_started: 0,
        started_share: 1.0,
        lag_ns_mean: 0.0,
        lag_ns_max: 0,
        behind_ns_max: 0,
    }
}

#[test]
fn what_is_accessed_and_in_which_order_has_fios_word() {
    for (pattern, share, word, mix) in [
        (Pattern::Sequential, 1000, "read", None),
        (Pattern::Random, 1000, "randread", None),
        (Pattern::Sequential, 700, "rw", Some("70")),
        (Pattern::Random, 305, "randrw", Some("30")),
        (Pattern::Sequential, 0, "write", None),
        (Pattern::Random, 0, "randwrite", None),
    ] {
        let mut findings = sample::complete();
        let definition = &mut findings.workloads[0].definition;
        (definition.pattern, definition.read_share) = (pattern, PerMille(share));
        assert_eq!(option(&findings, "rw").as_deref(), Some(word));
        assert_eq!(option(&findings, "rwmixread").as_deref(), mix, "{word}");
        // What only reads makes nothing durable.
        assert_eq!(option(&findings, "fdatasync").is_some(), share < 1000, "{word}");
    }
}

#[test]
fn each_limit_of_a_step_has_fios_name_and_unit() {
    let all = ["runtime", "time_based", "number_ios", "io_size", "ramp_time"];
    let (volume, duration) = (Bytes::from_mib(3), Nanos::from_millis(2500));
    for (limit, ramp, expected) in [
        (Limit::Duration(duration), 300, [Some("2500ms"), Some("1"), None, None, Some("300ms")]),
        (Limit::Operations(4711), 0, [None, None, Some("4711"), None, None]),
        (Limit::Volume(volume), 0, [None, None, None, Some("3145728"), None]),
        (
            Limit::VolumeWithin { volume, duration },
            0,
            [Some("2500ms"), None, None, Some("3145728"), None],
        ),
    ] {
        let mut findings = sample::complete();
        let step = &mut findings.plan.steps[0];
        (step.limit, step.ramp) = (limit, Nanos::from_millis(ramp));
        let found = all.map(|name| option(&findings, name));
        assert_eq!(found.each_ref().map(Option::as_deref), expected);
    }
}

#[test]
fn arrivals_are_per_job_and_have_their_process() {
    let of = |arrivals| {
        let mut findings = sample::complete();
        findings.workloads[0].effective.jobs = 4;
        findings.workloads[0].open_loop = Some(open_loop(arrivals, 1000.0));
        ["rate_iops", "rate_process"].map(|name| option(&findings, name).unwrap())
    };
    let rate_per_second = 1000.0;
    assert_eq!(of(Arrivals::Constant { rate_per_second }), ["250", "linear"]);
    assert_eq!(of(Arrivals::Poisson { rate_per_second }), ["250", "poisson"]);
    assert_eq!(option(&sample::complete(), "rate_iops"), None);
}

#[test]
fn calls_with_flags_are_fios_second_pvsync() {
    for (method, engine) in [
        (SyncMethod::RwfDsync, "pvsync2"),
        (SyncMethod::RwfSync, "pvsync2"),
        (SyncMethod::Fdatasync, "psync"),
    ] {
        let mut findings = sample::complete();
        findings.workloads[0].definition.sync.method = method;
        findings.workloads[0].effective.engine = EngineKind::Sync;
        assert_eq!(option(&findings, "ioengine").as_deref(), Some(engine), "{method}");
    }
}

/// The levels that are not zero.
fn levels(shares: &[(String, f64)]) -> Vec<&str> {
    shares.iter().filter(|(_, share)| *share > 0.0).map(|(label, _)| label.as_str()).collect()
}

#[test]
fn operations_in_flight_are_those_of_a_job_as_often_as_fio_counts_them() {
    let of = |depth, counted: Option<f64>| {
        let mut findings = sample::complete();
        let workload = &mut findings.workloads[0];
        (workload.effective.jobs, workload.effective.depth) = (4, depth);
        if let Some(counted) = counted {
            workload.in_flight.counted = counted;
            workload.open_loop = Some(open_loop(Arrivals::Closed, 1.0));
        }
        let job = first_job(&findings);
        levels(&job.iodepth_level).join(" ")
    };
    assert_eq!([1, 3, 12, 63, 64].map(|depth| of(depth, None)), ["1", "2", "8", "32", ">=64"]);
    // 10, 100 and 1 of four jobs.
    assert_eq!([10.0, 100.0, 1.0].map(|it| of(64, Some(it))), ["2", "16", "1"]);
}

#[test]
fn calls_are_counted_by_the_operations_that_they_took_and_threads_by_their_switches() {
    let of = |exchanges| {
        let mut findings = sample::complete();
        let workload = &mut findings.workloads[0];
        workload.exchanges = exchanges;
        workload.context_switches_per_operation = Some(2.0);
        workload.involuntary_switches_per_operation = Some(0.5);
        for operation in &mut workload.operations {
            operation.service.count = match operation.operation {
                OperationName::Write => 600,
                OperationName::Sync => 400,
                _ => 600_000,
            };
        }
        first_job(&findings)
    };
    for (exchanges, level) in
        [(1000, "4"), (250, "4"), (200, "8"), (62, "16"), (60, "32"), (10, ">=64")]
    {
        let job = of(exchanges);
        assert_eq!(levels(&job.iodepth_submit), [level], "{exchanges}");
        assert_eq!(levels(&job.iodepth_complete), [level], "{exchanges}");
    }
    // 2.5 of each of a thousand; a commit is no operation of its own.
    assert_eq!(of(1).ctx, 2500);
}
