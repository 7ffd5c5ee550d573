//! The lines of `--format csv`.

use durio_analyse::{Findings, IntervalPoint};
use durio_base::Nanos;
use durio_record::Phase;
use durio_report::{Format, ShownIntervals};

use crate::cells::{assert_csv, assert_table, in_full};
use crate::{sample, written};

/// The lines as maps of column and cell.
fn lines(findings: &Findings) -> Vec<std::collections::HashMap<String, String>> {
    let text = written(Format::Csv, findings);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
fn there_is_a_line_per_workload_and_operation() {
    let lines = lines(&sample::complete());
    let names: Vec<_> =
        lines.iter().map(|line| format!("{} {}", line["workload"], line["operation"])).collect();
    assert_eq!(names[..4], ["commit commit", "commit write", "commit sync", "commit-etcd commit"]);
    assert_eq!(names.len(), 10);
}

#[test]
fn figures_are_plain_numbers_in_the_unit_of_their_column() {
    let findings = sample::complete();
    let operation = &findings.workloads[0].operations[0];
    let line = &lines(&findings)[0];
    assert_eq!(line["rate_per_s"].parse::<f64>().unwrap(), operation.rate);
    assert_eq!(line["bandwidth_bytes_per_s"].parse::<f64>().unwrap(), operation.bandwidth);
    assert_eq!(line["p99_ns"].parse::<u64>().ok(), operation.service.p99_ns);
    assert_eq!(line["max_ns"].parse::<u64>().unwrap(), operation.service.max_ns);
    assert_eq!((&*line["sync_method"], &*line["durable"]), ("fdatasync", "true"));
}

#[test]
fn an_absent_percentile_is_an_empty_cell() {
    let line = &lines(&sample::partial())[0];
    assert_eq!((&*line["p99_ns"], &*line["complete"]), ("", "false"));
    assert!(!line["p50_ns"].is_empty());
}

#[test]
fn names_with_commas_and_quotes_survive() {
    let lines = lines(&sample::hostile());
    let shown = durio_base::visible(sample::HOSTILE);
    assert_eq!(lines[0]["location"], shown);
    assert!(lines.iter().any(|line| line["workload"] == shown));
}

#[test]
fn a_run_without_figures_has_its_header_alone() {
    let text = written(Format::Csv, &sample::empty());
    assert_eq!(text.lines().count(), 1);
    assert!(text.starts_with("run,location,step,workload,operation,"));
}

/// A run of two workloads, the first with a ramp and an interval without a completion.
fn with_intervals() -> Findings {
    let mut findings = sample::complete();
    findings.workloads.truncate(2);
    let first = findings.workloads[0].intervals[0].clone();
    let ramp = IntervalPoint {
        phase: Phase::Ramp,
        from: Nanos::ZERO,
        to: Nanos::from_millis(100),
        rate: 1_250.0,
        p50_ns: Some(141_000),
        p99_ns: Some(236_000),
        max_ns: Some(2_170_000),
        ..first
    };
    let stalled = IntervalPoint {
        phase: Phase::Measure,
        from: Nanos::from_millis(100),
        to: Nanos::from_millis(250),
        rate: 0.0,
        p50_ns: None,
        p99_ns: None,
        max_ns: None,
        cut_short: true,
        ..ramp.clone()
    };
    let other = IntervalPoint { phase: Phase::Measure, rate: 7_120.5, ..ramp.clone() };
    findings.workloads[0].intervals = vec![ramp, stalled];
    findings.workloads[1].intervals = vec![other];
    findings
}

#[test]
fn each_interval_of_each_workload_is_a_line_with_its_time_rate_and_latencies() {
    let findings = with_intervals();
    assert_csv(
        &ShownIntervals(&findings),
        &[
            [
                "workload",
                "phase",
                "from_ns",
                "to_ns",
                "rate_per_s",
                "p99_ns",
                "max_ns",
                "cut_short",
            ],
            ["commit", "ramp", "0", "100000000", "1250", "236000", "2170000", "false"],
            ["commit", "measure", "100000000", "250000000", "0", "", "", "true"],
            ["commit-etcd", "measure", "0", "100000000", "7120.5", "236000", "2170000", "false"],
        ],
    );
    assert_table(
        &ShownIntervals(&findings),
        &[
            ["workload", "phase", "from", "to", "per second", "p50", "p99", "max"],
            ["commit", "ramp", "0 ns", "100 ms", "1.25 k", "141 µs", "236 µs", "2.17 ms"],
            ["commit", "measure", "100 ms", "250 ms", "0", "", "", ""],
            ["commit-etcd", "measure", "0 ns", "100 ms", "7.12 k", "141 µs", "236 µs", "2.17 ms"],
        ],
    );
}

#[test]
fn a_run_without_intervals_says_so_and_has_the_header_alone() {
    let mut findings = with_intervals();
    findings.workloads.iter_mut().for_each(|workload| workload.intervals.clear());
    let shown = ShownIntervals(&findings);
    assert!(in_full(Format::Text, &shown).contains("the run recorded no intervals"));
    assert_eq!(in_full(Format::Csv, &shown).lines().count(), 1);
    assert!(in_full(Format::Json, &shown).contains("\"intervals\": []"));
}
