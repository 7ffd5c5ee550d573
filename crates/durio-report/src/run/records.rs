//! A run as records: one per workload and operation.
//!
//! Not here: verdicts, the stack, the time series; those are in the JSON document.

use durio_analyse::{Findings, OperationFindings, WorkloadFindings};

use super::machine::cache_name;
use crate::document::{Cell, Table};

const COLUMNS: [&str; 37] = [
    "run",
    "location",
    "step",
    "workload",
    "operation",
    "target",
    "engine",
    "jobs",
    "depth",
    "batch",
    "cache",
    "block_size_bytes",
    "read_share",
    "sync_method",
    "durable",
    "complete",
    "measured_ns",
    "count",
    "rate_per_s",
    "bandwidth_bytes_per_s",
    "mean_ns",
    "min_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "max_ns",
    "section",
    "levels",
    "round",
    "repeat",
    "stream",
    "offered_per_s",
    "response_mean_ns",
    "response_p99_ns",
    "idle_before_ns",
];

pub(super) fn records(findings: &Findings) -> Table {
    let mut records = Table::new(COLUMNS);
    for workload in &findings.workloads {
        for operation in &workload.operations {
            let mut cells = of_workload(&findings.run.run, workload, operation);
            cells.extend(of_operation(operation));
            cells.extend(of_campaign(findings, workload, operation));
            records.row(cells);
        }
    }
    records
}

fn of_workload(run: &str, workload: &WorkloadFindings, operation: &OperationFindings) -> Vec<Cell> {
    let (definition, effective) = (&workload.definition, &workload.effective);
    vec![
        Cell::text(run),
        Cell::text(&workload.location),
        Cell::Count(workload.step.into()),
        Cell::text(&workload.name),
        Cell::text(operation.operation.name()),
        Cell::text(&workload.target),
        Cell::text(effective.engine.name()),
        Cell::Count(effective.jobs.into()),
        Cell::Count(effective.depth.into()),
        Cell::Count(effective.batch.into()),
        Cell::text(cache_name(effective.cache)),
        Cell::Count(definition.block_size.get()),
        Cell::Number(f64::from(definition.read_share.0) / 1000.0),
        Cell::text(definition.sync.method.name()),
        Cell::text(workload.durable.to_string()),
        Cell::text(workload.complete.to_string()),
        Cell::Count(workload.measured.get()),
    ]
}

fn of_operation(operation: &OperationFindings) -> [Cell; 11] {
    let service = &operation.service;
    let known = |nanos| Cell::of(nanos, Cell::Count);
    [
        Cell::Count(service.count),
        Cell::Number(operation.rate),
        Cell::Number(operation.bandwidth),
        Cell::Number(service.mean_ns),
        Cell::Count(service.min_ns),
        known(service.p50_ns),
        known(service.p90_ns),
        known(service.p99_ns),
        known(service.p99_9_ns),
        known(service.p99_99_ns),
        Cell::Count(service.max_ns),
    ]
}

/// Where the step is in its campaign; levels as axis=value, with a semicolon between them.
fn of_campaign(
    findings: &Findings,
    workload: &WorkloadFindings,
    operation: &OperationFindings,
) -> [Cell; 9] {
    let sections = findings.plan.campaign.as_ref().map(|campaign| &campaign.sections);
    let section = workload.section.and_then(|at| sections?.get(at as usize));
    let levels = workload.levels.iter().map(|level| format!("{}={}", level.axis, level.value));
    let response = operation.response.as_ref();
    [
        Cell::of(section, |section| Cell::text(&section.name)),
        Cell::text(levels.collect::<Vec<_>>().join(";")),
        Cell::Count(workload.round.into()),
        Cell::Count(workload.repeat.into()),
        Cell::Count(workload.stream.into()),
        Cell::of(workload.open_loop, |open| Cell::Number(open.offered_per_second)),
        Cell::of(response, |it| Cell::Number(it.mean_ns)),
        Cell::of(response.and_then(|it| it.p99_ns), Cell::Count),
        Cell::of(workload.idle_before, |it| Cell::Count(it.get())),
    ]
}
