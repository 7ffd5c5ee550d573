//! Where the time of an operation goes, as tables and sentences: the same in the terminal and in the
//! page.
//!
//! In: findings. Out: [`TimePart`]s, one for each traced step. Not here: widths, borders, tags.

use durio_analyse::{DevicePerOperation, Findings, TimeSlice, TimeSlices};
use durio_units::{Bytes, Nanos};

use crate::campaign_table::{SectionTable, TableRow};
use crate::figures::{
    counted, decimal, deviation, latency, latency_or_absent, mean_latency, percent,
};

/// The heading over all parts.
pub(crate) const TIME_HEADING: &str =
    "Where the time of an operation goes (one job, one at a time)";

/// What one traced step shows.
#[derive(Debug)]
pub(crate) struct TimePart {
    pub(crate) title: String,
    pub(crate) tables: Vec<SectionTable>,
    pub(crate) said: Vec<String>,
}

/// Each traced step once, under the name of the first workload that it is of.
pub(crate) fn time_parts(findings: &Findings) -> Vec<TimePart> {
    let mut told = Vec::new();
    let mut parts = Vec::new();
    for workload in &findings.workloads {
        let Some(slices) = &workload.time_slices else { continue };
        if told.contains(&slices.step) {
            continue;
        }
        told.push(slices.step);
        parts.push(part(&format!("{} at {}", workload.name, workload.location), slices));
    }
    parts
}

fn part(title: &str, slices: &TimeSlices) -> TimePart {
    let mut said = Vec::new();
    if let Some(reason) = &slices.unavailable {
        let lost = "so where its time goes is not known, nor what reaches devices that keep no \
                    counters";
        said.push(format!("nothing was traced: {reason}; {lost}"));
    } else {
        said.extend(sentences(slices));
    }
    let tables = match slices.slices.is_empty() {
        true => Vec::new(),
        false => std::iter::once(stretches(slices)).chain(devices(slices)).collect(),
    };
    TimePart { title: title.to_owned(), tables, said }
}

fn sentences(slices: &TimeSlices) -> Vec<String> {
    let mut said = vec![format!(
        "{} followed; {} of their time on no processor, {} waits and {} preemptions per operation",
        counted(slices.operations, "operation"),
        percent(slices.off_cpu_share),
        decimal(slices.waits_per_operation),
        decimal(slices.preemptions_per_operation),
    )];
    if let (Some(with), Some(without)) = (slices.traced_p50_ns, slices.untraced_p50_ns) {
        let overhead = slices
            .overhead_share
            .map_or_else(String::new, |it| format!(" ({} by tracing)", deviation(it)));
        let (with, without) = (latency(with), latency(without));
        said.push(format!("p50 {with} while traced, {without} without{overhead}"));
    }
    if slices.lost_events > 0 {
        said.push(format!("the kernel lost {}", counted(slices.lost_events, "event")));
    }
    if slices.resolution_ns > 1 {
        let text = "times are in steps of";
        said.push(format!("{text} {}: trust the means", Nanos::new(slices.resolution_ns)));
    }
    said
}

fn stretches(slices: &TimeSlices) -> SectionTable {
    let header = vec!["stretch", "mean", "share", "p50", "p99", "off CPU, mean", "off CPU, p50"];
    let row = |it: &TimeSlice| TableRow {
        is_part: false,
        cells: vec![
            it.stretch.words().to_owned(),
            mean_latency(it.mean_ns),
            percent(it.share),
            latency(it.p50_ns),
            latency_or_absent(it.p99_ns),
            mean_latency(it.off_cpu_mean_ns),
            latency(it.off_cpu_p50_ns),
        ],
    };
    SectionTable { header, rows: slices.slices.iter().map(row).collect() }
}

/// None where nothing lies below.
fn devices(slices: &TimeSlices) -> Option<SectionTable> {
    let header =
        vec!["device, per operation", "reads", "read", "writes", "written", "flushes", "FUA"];
    let row = |it: &DevicePerOperation| TableRow {
        is_part: false,
        cells: vec![
            it.device.clone(),
            decimal(it.reads),
            bytes(it.read_bytes),
            decimal(it.writes),
            bytes(it.written_bytes),
            decimal(it.flushes),
            decimal(it.fua),
        ],
    };
    let rows: Vec<TableRow> = slices.devices.iter().map(row).collect();
    (!rows.is_empty()).then_some(SectionTable { header, rows })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of byte counts, shown in whole bytes"
)]
fn bytes(mean: f64) -> String {
    Bytes::new(mean.round() as u64).to_string()
}
