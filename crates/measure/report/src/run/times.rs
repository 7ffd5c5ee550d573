//! Where the time of an operation goes: a group for each traced step.
//!
//! Makes a section from findings, which assign events to components.

use durio_analyse::{Findings, LatencyBreakdown};
use durio_base::Nanos;

use crate::document::{Cell, Section, Table, Tone};
use crate::figures::{counted, decimal, deviation, grouped, latency, percent};

/// Each traced step once, under the name of the first workload that it is of.
pub(super) fn section(findings: &Findings) -> Section {
    let mut section =
        Section::detail("Where the time of an operation goes (one job, one at a time)");
    let traced =
        findings.workloads.iter().filter_map(|it| Some((it, it.latency_breakdown.as_ref()?)));
    for (_, same) in
        grouped(traced.map(|(workload, breakdown)| (breakdown.step, (workload, breakdown))))
    {
        // Several workloads may show the same traced step.
        let Some((workload, breakdown)) = same.first() else { continue };
        section.group(group(&format!("{} at {}", workload.name, workload.location), breakdown));
    }
    section
}

fn group(title: &str, breakdown: &LatencyBreakdown) -> Section {
    let mut group = Section::new(title);
    if !breakdown.components.is_empty() {
        group.table(components(breakdown));
        group.table(devices(breakdown));
    }
    match &breakdown.unavailable {
        Some(reason) => group.say(
            Tone::Plain,
            format!(
                "nothing was traced: {reason}; so where its time goes is not known, nor what reaches \
                 devices that keep no counters"
            ),
        ),
        None => sentences(breakdown).into_iter().for_each(|it| group.say(Tone::Plain, it)),
    }
    group
}

fn sentences(breakdown: &LatencyBreakdown) -> Vec<String> {
    let mut said = vec![format!(
        "{} followed; {} of their time on no processor, {} waits and {} preemptions per operation",
        counted(breakdown.operations, "operation"),
        percent(breakdown.off_cpu_share),
        decimal(breakdown.waits_per_operation),
        decimal(breakdown.preemptions_per_operation),
    )];
    if let (Some(with), Some(without)) = (breakdown.traced_p50_ns, breakdown.untraced_p50_ns) {
        let overhead = breakdown
            .overhead_share
            .map_or_else(String::new, |it| format!(" ({} by tracing)", deviation(it)));
        let (with, without) = (latency(with), latency(without));
        said.push(format!("p50 {with} while traced, {without} without{overhead}"));
    }
    if breakdown.lost_events > 0 {
        said.push(format!("the kernel lost {}", counted(breakdown.lost_events, "event")));
    }
    if breakdown.resolution_ns > 1 {
        let text = "times are in steps of";
        said.push(format!("{text} {}: trust the means", Nanos::new(breakdown.resolution_ns)));
    }
    said
}

fn components(breakdown: &LatencyBreakdown) -> Table {
    Table::with_columns(
        &breakdown.components,
        [
            ("component", |it| Cell::text(it.component.words())),
            ("mean", |it| Cell::Latency(it.mean_ns)),
            ("share", |it| Cell::Share(it.share)),
            ("p50", |it| Cell::nanos(it.p50_ns)),
            ("p99", |it| Cell::percentile(it.p99_ns)),
            ("off CPU, mean", |it| Cell::Latency(it.off_cpu_mean_ns)),
            ("off CPU, p50", |it| Cell::nanos(it.off_cpu_p50_ns)),
        ],
    )
}

/// Without rows where nothing lies below.
fn devices(breakdown: &LatencyBreakdown) -> Table {
    Table::with_columns(
        &breakdown.devices,
        [
            ("device, per operation", |it| Cell::text(&it.device)),
            ("reads", |it| Cell::Number(it.reads)),
            ("read", |it| Cell::bytes(it.read_bytes)),
            ("writes", |it| Cell::Number(it.writes)),
            ("written", |it| Cell::bytes(it.written_bytes)),
            ("flushes", |it| Cell::Number(it.flushes)),
            ("FUA", |it| Cell::Number(it.fua)),
        ],
    )
}
