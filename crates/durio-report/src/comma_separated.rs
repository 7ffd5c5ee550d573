//! Findings as CSV, for spreadsheets and scripts.
//!
//! In: findings. Out: a header and one line per workload and operation, with plain numbers whose
//! unit is in the column's name; an absent value is an empty cell. Names are in one line and never
//! computed (`visible.rs`). Not here: verdicts, the stack, the time series, and names byte by byte;
//! those are in the JSON document.

use std::io;

use durio_analyse::{Findings, OperationFindings, WorkloadFindings};

use crate::facts::cache_name;
use crate::visible::CellWriter;

const HEADER: [&str; 37] = [
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

pub(crate) fn write(findings: &Findings, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = CellWriter::new(out);
    writer.write_record(HEADER)?;
    for workload in &findings.workloads {
        for operation in &workload.operations {
            let mut record = of_workload(&findings.run.run, workload, operation);
            record.extend(of_operation(operation));
            record.extend(of_campaign(findings, workload, operation));
            writer.write_record(&record)?;
        }
    }
    writer.flush()
}

fn of_workload(
    run: &str,
    workload: &WorkloadFindings,
    operation: &OperationFindings,
) -> Vec<String> {
    let (definition, effective) = (&workload.definition, &workload.effective);
    vec![
        run.to_owned(),
        workload.location.clone(),
        workload.step.to_string(),
        workload.name.clone(),
        operation.operation.name().to_owned(),
        workload.target.clone(),
        effective.engine.name().to_owned(),
        effective.jobs.to_string(),
        effective.depth.to_string(),
        effective.batch.to_string(),
        cache_name(effective.cache).to_owned(),
        definition.block_size.get().to_string(),
        (f64::from(definition.read_share.0) / 1000.0).to_string(),
        definition.sync.method.name().to_owned(),
        workload.durable.to_string(),
        workload.complete.to_string(),
        workload.measured.get().to_string(),
    ]
}

/// Where the step is in its campaign; levels as axis=value, with a semicolon between them.
fn of_campaign(
    findings: &Findings,
    workload: &WorkloadFindings,
    operation: &OperationFindings,
) -> [String; 9] {
    let sections = findings.plan.campaign.as_ref().map(|campaign| &campaign.sections);
    let section = workload.section.and_then(|at| sections?.get(at as usize));
    let levels = workload.levels.iter().map(|level| format!("{}={}", level.axis, level.value));
    let response = operation.response.as_ref();
    let or_empty = |value: Option<u64>| value.map_or_else(String::new, |it| it.to_string());
    [
        section.map_or_else(String::new, |section| section.name.clone()),
        levels.collect::<Vec<_>>().join(";"),
        workload.round.to_string(),
        workload.repeat.to_string(),
        workload.stream.to_string(),
        workload.open_loop.map_or_else(String::new, |open| open.offered_per_second.to_string()),
        response.map_or_else(String::new, |it| it.mean_ns.to_string()),
        or_empty(response.and_then(|it| it.p99_ns)),
        or_empty(workload.idle_before.map(|it| it.get())),
    ]
}

fn of_operation(operation: &OperationFindings) -> [String; 11] {
    let service = &operation.service;
    let or_empty = |value: Option<u64>| value.map_or_else(String::new, |it| it.to_string());
    [
        service.count.to_string(),
        operation.rate.to_string(),
        operation.bandwidth.to_string(),
        service.mean_ns.to_string(),
        service.min_ns.to_string(),
        or_empty(service.p50_ns),
        or_empty(service.p90_ns),
        or_empty(service.p99_ns),
        or_empty(service.p99_9_ns),
        or_empty(service.p99_99_ns),
        service.max_ns.to_string(),
    ]
}
