//! What `durio fio` prints for several rows and disks, and its logs.

use std::time::{Duration, SystemTime};

use durio_analyse::{Findings, KeptInterval};
use durio_base::Nanos;
use durio_fio::import::{
    LogKind, LogRequest, ResultRow, ResultShape, ShownPercentiles, StreamPlace,
};
use durio_fio::job_file::{OutputFormat, PrintSettings};
use durio_fio::json::{FioOutput, read};
use durio_observe::DeviceCounters;
use durio_record::{OperationName, Phase};
use durio_report::{FioRequest, fio_logs, write_fio};

use crate::sample;

const fn at(step: u32) -> StreamPlace {
    StreamPlace { step, stream: 0 }
}

fn row(step: u32, group: u32) -> ResultRow {
    ResultRow {
        name: format!("row {step}"),
        description: String::new(),
        group,
        options: Vec::new(),
        percentiles: ShownPercentiles::default(),
        copies: 1,
        places: vec![at(step)],
    }
}

fn printed(findings: &Findings, rows: Vec<ResultRow>) -> FioOutput {
    let shape = ResultShape { rows, shows_disks: true, ..ResultShape::default() };
    let printing = PrintSettings { formats: vec![OutputFormat::Json], ..PrintSettings::default() };
    let (now, elapsed) = (SystemTime::UNIX_EPOCH, Duration::from_millis(6_001));
    let global_options = Vec::new();
    let request = FioRequest {
        shape: &shape,
        global_options,
        printing: &printing,
        has_head: true,
        now,
        elapsed,
        process: 7,
    };
    let mut out = Vec::new();
    write_fio(findings, &request, &mut out).unwrap();
    read(&out).unwrap().output
}

/// Steps that only write, each of so many seconds and so many blocks of 4 KiB per second.
fn writers(each: &[(u64, u32)]) -> Findings {
    let mut findings = sample::complete();
    let model = findings.workloads[0].clone();
    assert!(!model.definition.reads());
    let writer = |(step, &(seconds, rate)): (u32, &(u64, u32))| {
        let mut workload = model.clone();
        (workload.step, workload.measured) = (step, Nanos::from_secs(seconds));
        let write = workload.operations.iter_mut();
        let write = write
            .into_iter()
            .find(|operation| operation.operation == OperationName::Write)
            .unwrap();
        (write.rate, write.bandwidth) = (f64::from(rate), f64::from(rate) * 4096.0);
        let mut point = workload.intervals.pop().unwrap();
        (point.phase, point.rate, point.cut_short) = (Phase::Measure, f64::from(rate), false);
        workload.intervals = vec![point; 2];
        workload
    };
    findings.workloads = (0..).zip(each).map(writer).collect();
    findings
}

#[test]
fn a_row_has_its_share_of_its_groups_bytes_over_the_longest_runtime() {
    // 28.672 MB in 6 s are 4666 KiB/s; the rows wrote 4000 and 2000 KiB/s.
    for (each, shares) in [
        ([(6, 1000), (2, 500), (9, 50)], [85.726_532, 42.863_266, 100.0]),
        ([(2, 500), (6, 1000), (1, 50)], [42.863_266, 85.726_532, 100.0]),
    ] {
        let output = printed(&writers(&each), vec![row(0, 0), row(1, 0), row(2, 1)]);
        let found = output.jobs.iter().map(|job| job.write.as_ref().unwrap().bw_agg);
        let found: Vec<f64> = found.collect();
        let is_near = found.iter().zip(shares).all(|(it, share)| (it - share).abs() < 1e-5);
        assert!(is_near, "{found:?}, not {shares:?}");
    }
}

#[test]
fn counters_of_a_disk_are_the_sums_over_all_steps_each_at_its_name() {
    let counters = |name: &str, times: u64| DeviceCounters {
        name: name.into(),
        reads_completed: 2 * times,
        reads_merged: 3 * times,
        read_ms: 5 * times,
        writes_completed: 7 * times,
        writes_merged: 11 * times,
        write_ms: 13 * times,
        io_ms: 17 * times,
        weighted_io_ms: 19 * times,
        ..DeviceCounters::default()
    };
    let mut findings = writers(&[(6, 1000), (2, 500)]);
    findings.workloads[0].devices = vec![counters("vda", 1), counters("vdb", 100)];
    findings.workloads[1].devices =
        vec![counters("vda", 10), DeviceCounters { not_counted: true, ..counters("vdb", 1000) }];
    let disks = printed(&findings, vec![row(0, 0), row(1, 0)]).disk_util.unwrap();
    let found = disks.iter().map(|disk| {
        let it = &disk.own;
        let reads = [it.read_ios, it.read_merges, it.read_ticks];
        let writes = [it.write_ios, it.write_merges, it.write_ticks];
        (disk.name.as_str(), reads, writes, it.in_queue)
    });
    let expected = [
        ("vda", [22, 33, 55], [77, 121, 143], 209),
        ("vdb", [200, 300, 500], [700, 1100, 1300], 1900),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    // 187 ms and 1.7 s of 8 s.
    let busy: Vec<f64> = disks.iter().map(|disk| disk.own.util).collect();
    assert!((busy[0] - 2.3375).abs() < 1e-5 && (busy[1] - 21.25).abs() < 1e-5, "{busy:?}");
}

#[test]
fn a_line_of_a_log_has_the_end_of_its_interval_and_what_was_done_in_it() {
    let mut findings = writers(&[(1, 1)]);
    let model = findings.workloads[0].intervals[0].clone();
    let point = |phase, (from, to), (count, bytes, service_ns)| {
        let mut point = model.clone();
        (point.phase, point.cut_short) = (phase, false);
        (point.from, point.to) = (Nanos::from_millis(from), Nanos::from_millis(to));
        let operation = OperationName::Write;
        point.kept = vec![KeptInterval { operation, count, bytes, service_ns }];
        point
    };
    findings.workloads[0].intervals = vec![
        point(Phase::Ramp, (0, 100), (9, 9 << 20, 9)),
        point(Phase::Measure, (100, 350), (20, 80 << 10, 4_000_000)),
        point(Phase::Measure, (350, 600), (50, 300 << 10, 5_000_000)),
        point(Phase::Measure, (600, 700), (3, 12 << 10, 900_000)),
    ];
    findings.workloads[0].intervals[3].cut_short = true;
    for (kind, name, text) in [
        (LogKind::Bandwidth, "x_bw.2.log", "250, 320, 1, 0, 0\n500, 1200, 1, 0, 0\n"),
        (LogKind::Rate, "x_iops.2.log", "250, 80, 1, 0, 0\n500, 200, 1, 0, 0\n"),
        (LogKind::Latency, "x_lat.2.log", "250, 200000, 1, 0, 0\n500, 100000, 1, 0, 0\n"),
    ] {
        let prefix = "x".to_owned();
        let request = LogRequest { kind, prefix, number: Some(2), place: at(0), is_averaged: true };
        let logs = fio_logs(&findings, &[request]);
        assert_eq!((logs[0].name.as_str(), logs[0].text.as_str()), (name, text));
    }
}
