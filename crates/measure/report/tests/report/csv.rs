//! The lines of `--format csv`.

use durio_analyse::Findings;
use durio_report::Format;

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
