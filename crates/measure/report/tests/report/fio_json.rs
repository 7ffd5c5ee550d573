//! fio's JSON: what its readers look for is where they look.

use durio_analyse::Findings;
use durio_fio::json::{FioOutput, read};
use durio_record::OperationName;
use durio_report::Format;
use durio_workload::SyncMethod;

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
