//! The table of figures, as rows of text: the same in the terminal and in the page.
//!
//! In: findings. Out: [`Row`]s. Not here: widths, borders, tags.

use durio_analyse::{Distribution, Findings, OperationFindings, WorkloadFindings};
use durio_record::OperationName;

use crate::figures::{
    ABSENT, bandwidth, latency, latency_or_absent, mean_latency, rate, rate_bare,
};

/// The headings of [`Row::cells`].
pub(crate) const COLUMNS: [&str; 8] =
    ["IOPS", "bandwidth", "mean", "p50", "p99", "p99.9", "p99.99", "max"];

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// The workload, or the part of it.
    pub(crate) label: String,
    /// The label where room is short.
    pub(crate) label_short: String,
    /// True for a part of the workload above.
    pub(crate) is_part: bool,
    /// Figures under [`COLUMNS`]; empty where a figure has no meaning.
    pub(crate) cells: [String; 8],
}

/// The rows of one workload: itself, and its parts where it has several.
///
/// Reads and writes are not pooled: a mixed workload has latencies in its parts only.
pub(crate) fn rows(workload: &WorkloadFindings) -> Vec<Row> {
    let (first, parts) = match workload.operations.as_slice() {
        [only] => (Some(only), [].as_slice()),
        [commit, parts @ ..] if commit.operation == OperationName::Commit => (Some(commit), parts),
        parts => (None, parts),
    };
    let mut rows = vec![whole(workload, first)];
    rows.extend(parts.iter().map(|part| part_row(workload, part)));
    rows
}

/// True if any percentile is absent.
pub(crate) fn has_absent(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.cells.iter().any(|cell| cell == ABSENT))
}

/// The locations of the workloads, each once, in order.
pub(crate) fn locations(findings: &Findings) -> Vec<&str> {
    let mut locations: Vec<&str> = Vec::new();
    for workload in &findings.workloads {
        if !locations.contains(&workload.location.as_str()) {
            locations.push(&workload.location);
        }
    }
    locations
}

/// A location as readers see it; scripted targets have none.
pub(crate) fn place_name(location: &str) -> &str {
    if location.is_empty() { "no location" } else { location }
}

/// The names of the workloads, each once, in order.
pub(crate) fn workload_names(findings: &Findings) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for workload in &findings.workloads {
        if !names.contains(&workload.name.as_str()) {
            names.push(&workload.name);
        }
    }
    names
}

/// The workload's headline rate and 99th percentile at a location, as text.
pub(crate) fn headline_at(findings: &Findings, name: &str, location: &str) -> (String, String) {
    let is_it = |it: &&WorkloadFindings| it.name == name && it.location == location;
    let Some(workload) = findings.workloads.iter().find(is_it) else {
        return (String::new(), String::new());
    };
    let p99 = workload.operation(workload.headline).map(|it| it.service.p99_ns);
    (rate(headline_rate(workload)), p99.map_or_else(String::new, latency_or_absent))
}

/// Commits per second where there are any, else accesses per second.
pub(crate) fn headline_rate(workload: &WorkloadFindings) -> f64 {
    workload.operation(OperationName::Commit).map_or(workload.iops, |commit| commit.rate)
}

/// The name of an operation; a sync call with the call's name.
pub(crate) fn operation_label(workload: &WorkloadFindings, operation: OperationName) -> String {
    match operation {
        OperationName::Sync => format!("sync ({})", workload.definition.sync.method.call_name()),
        other => other.name().to_owned(),
    }
}

fn whole(workload: &WorkloadFindings, only: Option<&OperationFindings>) -> Row {
    // The bytes of a commit are counted with its write; the whole row has those of the workload.
    let per_second = only.map_or(workload.iops, |operation| operation.rate);
    Row {
        label: workload.name.clone(),
        label_short: workload.name.clone(),
        is_part: false,
        cells: cells(per_second, workload.bandwidth, only.map(|operation| &operation.service)),
    }
}

fn part_row(workload: &WorkloadFindings, part: &OperationFindings) -> Row {
    let label_short = match part.operation {
        OperationName::Sync => workload.definition.sync.method.call_name(),
        other => other.name(),
    };
    Row {
        label: operation_label(workload, part.operation),
        label_short: label_short.to_owned(),
        is_part: true,
        cells: cells(part.rate, part.bandwidth, Some(&part.service)),
    }
}

fn cells(per_second: f64, bytes: f64, service: Option<&Distribution>) -> [String; 8] {
    let [mean, p50, p99, p99_9, p99_99, max] = service.map(latencies).unwrap_or_default();
    // A sync moves no bytes: nothing, rather than 0 B/s.
    let bytes = if bytes > 0.0 { bandwidth(bytes) } else { String::new() };
    [rate_bare(per_second), bytes, mean, p50, p99, p99_9, p99_99, max]
}

fn latencies(service: &Distribution) -> [String; 6] {
    [
        mean_latency(service.mean_ns),
        latency_or_absent(service.p50_ns),
        latency_or_absent(service.p99_ns),
        latency_or_absent(service.p99_9_ns),
        latency_or_absent(service.p99_99_ns),
        latency(service.max_ns),
    ]
}
