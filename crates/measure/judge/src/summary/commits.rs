//! The results of a run's headline, of its first workload, or of the fastest durable write of `durio
//! durable`, for its summary.

use durio_analyse::durable::{DATABASE_METHODS, DurableFindings};
use durio_analyse::{Findings, Headline, OperationFindings, WorkloadFindings};
use durio_base::stats::least_squares::float;
use durio_base::{Bytes, counted};
use durio_observe::Stack;
use durio_record::OperationName;
use durio_workload::CacheMode;

use super::{
    SummaryFigure, SummaryParts, SummaryReason, SummaryRule, bare_rate, p99, slow, whole, with,
};
use crate::compare::between_places;

/// `5.82 k durable commits/s with one writer, p99 859 µs`; of several locations how they compare.
pub(super) fn commits(findings: &Findings, headline: &Headline) -> SummaryParts {
    let mut parts = SummaryParts::default();
    let measured = findings.workloads.iter().filter(|workload| workload.name == headline.workload);
    let mut places: Vec<(&WorkloadFindings, &OperationFindings)> = Vec::new();
    for workload in measured {
        let is_known = places.iter().any(|(known, _)| known.location == workload.location);
        let commit = workload.operation(OperationName::Commit).filter(|_| !is_known);
        places.extend(commit.map(|commit| (workload, commit)));
    }
    let durable = if is_in_memory(findings, &headline.location) { "" } else { "durable " };
    for (workload, commit) in &places {
        let place = match places.len() {
            1 => String::new(),
            _ => format!(" at {}", workload.location),
        };
        parts.headline.push(SummaryFigure {
            label: format!("{durable}commits{place}"),
            value: commit.rate,
            unit: "per second",
        });
        parts.headline.extend(commit.service.p99_ns.map(|nanos| SummaryFigure {
            label: format!("p99 commit latency{place}"),
            value: float(nanos),
            unit: "ns",
        }));
    }
    let Some((workload, commit)) = places.first() else { return operations(findings) };
    parts.results = match between_places(findings).filter(|_| places.len() > 1) {
        Some(answer) => answer.sentence,
        None => format!(
            "{} {durable}commits/s {}, {}",
            bare_rate(commit.rate),
            with(writers(workload), "writer"),
            p99(commit.service.p99_ns)
        ),
    };
    parts
}

/// Those that commit at the same time.
fn writers(workload: &WorkloadFindings) -> u32 {
    let effective = &workload.effective;
    match workload.definition.group_commit {
        Some(policy) => effective.jobs.saturating_mul(policy.committers),
        None => effective.jobs.saturating_mul(effective.depth),
    }
}

/// What a run without commits did: `46.4 k reads/s (363 MiB/s), p99 1.35 ms`.
pub(super) fn operations(findings: &Findings) -> SummaryParts {
    let mut parts = SummaryParts::default();
    let measured = findings.workloads.iter().find(|workload| !workload.operations.is_empty());
    let Some(workload) = measured else {
        parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, "nothing was measured"));
        return parts;
    };
    let figures = workload.operation(workload.headline);
    let operation = workload.headline.name();
    let latency = figures.and_then(|figures| figures.service.p99_ns);
    parts.headline.push(SummaryFigure {
        label: format!("{} {operation}s", workload.name),
        value: workload.headline_rate(),
        unit: "per second",
    });
    parts.headline.extend(latency.map(|nanos| SummaryFigure {
        label: format!("{} p99 of a {operation}", workload.name),
        value: float(nanos),
        unit: "ns",
    }));
    // With reads and writes in one, the percentiles are of the headline's alone.
    let is_mixed = workload.operations.len() > 1;
    let accesses = if is_mixed { "I/Os".to_owned() } else { format!("{operation}s") };
    let bandwidth = whole(workload.bandwidth);
    let bandwidth = match bandwidth {
        0 => String::new(),
        _ => format!(" ({}/s)", Bytes::new(bandwidth)),
    };
    let more = findings.workloads.len().saturating_sub(1);
    let more = match more {
        0 => String::new(),
        _ => format!("; and {} more", counted(more as u64, "result")),
    };
    parts.results = format!(
        "{}: {} {accesses}/s{bandwidth}, {}{more}",
        workload.name,
        bare_rate(workload.headline_rate()),
        p99(latency)
    );
    parts
}

fn is_in_memory(findings: &Findings, location: &str) -> bool {
    findings.stack.iter().any(|stack| stack.target == location && stack.is_in_memory())
}

/// The fastest of the methods that databases use, by one writer.
pub(super) fn fastest_durable(found: &DurableFindings, stacks: &[Stack]) -> SummaryParts {
    let mut parts = SummaryParts::default();
    let rows = found.methods.iter().flat_map(|methods| &methods.rows);
    let used = rows.filter(|row| DATABASE_METHODS.contains(&row.arm.setting.method));
    let measured = used.filter_map(|row| Some((&row.arm.setting, row.arm.figures.as_ref()?)));
    let fastest = measured.max_by(|(_, a), (_, b)| a.rate_per_second.total_cmp(&b.rate_per_second));
    let Some((setting, figures)) = fastest else {
        let text = "no sync method that databases use was measured";
        parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
        parts.results = text.to_owned();
        return parts;
    };
    // A commit in memory is not durable.
    let is_in_memory = stacks.iter().any(Stack::is_in_memory);
    let durable = if is_in_memory { "" } else { "durable " };
    let cache = match setting.cache {
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
    };
    let method = format!("{} ({cache})", setting.method.name());
    let p99_ns = figures.latency.p99_ns;
    parts.results = format!(
        "{} {durable}commits/s with one writer by {method}, the fastest that databases use, {}",
        bare_rate(figures.rate_per_second),
        p99(p99_ns)
    );
    parts.headline.push(SummaryFigure {
        label: format!("{durable}commits by {method}"),
        value: figures.rate_per_second,
        unit: "per second",
    });
    parts.headline.extend(p99_ns.map(|nanos| SummaryFigure {
        label: format!("p99 commit latency by {method}"),
        value: float(nanos),
        unit: "ns",
    }));
    match p99_ns {
        Some(nanos) => parts.reasons.extend(slow(nanos, "commits take")),
        None => {
            let text = "fewer than 100 commits: their p99 is unknown";
            parts.reasons.push(SummaryReason::new(SummaryRule::NoLimit, text));
        }
    }
    parts
}
