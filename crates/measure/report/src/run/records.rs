//! A run as records: one per workload and operation.
//!
//! Verdicts, the stack and the time series are in the JSON document.

use durio_analyse::{Findings, OperationFindings, WorkloadFindings};

use super::machine::cache_name;
use crate::document::{Cell, Table};

struct RecordLine<'f> {
    findings: &'f Findings,
    workload: &'f WorkloadFindings,
    operation: &'f OperationFindings,
}

pub(super) fn records(findings: &Findings) -> Table {
    let lines = findings.workloads.iter().flat_map(|workload| {
        let operations = workload.operations.iter();
        operations.map(move |operation| RecordLine { findings, workload, operation })
    });
    Table::with_columns(
        lines,
        [
            ("run", |it| Cell::text(&it.findings.run.run)),
            ("location", |it| Cell::text(&it.workload.location)),
            ("step", |it| Cell::Count(it.workload.step.into())),
            ("workload", |it| Cell::text(&it.workload.name)),
            ("operation", |it| Cell::text(it.operation.operation.name())),
            ("target", |it| Cell::text(&it.workload.target)),
            ("engine", |it| Cell::text(it.workload.effective.engine.name())),
            ("jobs", |it| Cell::Count(it.workload.effective.jobs.into())),
            ("depth", |it| Cell::Count(it.workload.effective.depth.into())),
            ("batch", |it| Cell::Count(it.workload.effective.batch.into())),
            ("cache", |it| Cell::text(cache_name(it.workload.effective.cache))),
            ("block_size_bytes", |it| Cell::Count(it.workload.definition.block_size.get())),
            ("read_share", |it| {
                Cell::Number(f64::from(it.workload.definition.read_share.0) / 1000.0)
            }),
            ("sync_method", |it| Cell::text(it.workload.definition.sync.method.name())),
            ("durable", |it| Cell::text(it.workload.durable.to_string())),
            ("complete", |it| Cell::text(it.workload.complete.to_string())),
            ("measured_ns", |it| Cell::Count(it.workload.measured.get())),
            ("count", |it| Cell::Count(it.operation.service.count)),
            ("rate_per_s", |it| Cell::Number(it.operation.rate)),
            ("bandwidth_bytes_per_s", |it| Cell::Number(it.operation.bandwidth)),
            ("mean_ns", |it| Cell::Number(it.operation.service.mean_ns)),
            ("min_ns", |it| Cell::Count(it.operation.service.min_ns)),
            ("p50_ns", |it| Cell::of(it.operation.service.p50_ns, Cell::Count)),
            ("p90_ns", |it| Cell::of(it.operation.service.p90_ns, Cell::Count)),
            ("p99_ns", |it| Cell::of(it.operation.service.p99_ns, Cell::Count)),
            ("p99_9_ns", |it| Cell::of(it.operation.service.p99_9_ns, Cell::Count)),
            ("p99_99_ns", |it| Cell::of(it.operation.service.p99_99_ns, Cell::Count)),
            ("max_ns", |it| Cell::Count(it.operation.service.max_ns)),
            ("section", section),
            ("levels", levels),
            ("round", |it| Cell::Count(it.workload.round.into())),
            ("repeat", |it| Cell::Count(it.workload.repeat.into())),
            ("stream", |it| Cell::Count(it.workload.stream.into())),
            ("offered_per_s", |it| {
                Cell::of(it.workload.open_loop, |open| Cell::Number(open.offered_per_second))
            }),
            ("response_mean_ns", |it| {
                Cell::of(it.operation.response.as_ref(), |it| Cell::Number(it.mean_ns))
            }),
            ("response_p99_ns", |it| {
                Cell::of(it.operation.response.as_ref().and_then(|it| it.p99_ns), Cell::Count)
            }),
            ("idle_before_ns", |it| Cell::of(it.workload.idle_before, |it| Cell::Count(it.get()))),
        ],
    )
}

/// Where the step is in its campaign.
fn section(it: &RecordLine<'_>) -> Cell {
    let sections = it.findings.plan.campaign.as_ref().map(|campaign| &campaign.sections);
    let section = it.workload.section.and_then(|at| sections?.get(at as usize));
    Cell::of(section, |section| Cell::text(&section.name))
}

/// As axis=value, with a semicolon between them.
fn levels(it: &RecordLine<'_>) -> Cell {
    let levels = it.workload.levels.iter().map(|level| format!("{}={}", level.axis, level.value));
    Cell::text(levels.collect::<Vec<_>>().join(";"))
}
