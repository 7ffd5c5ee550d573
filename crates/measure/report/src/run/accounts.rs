//! How the results came about, and their checks.
//!
//! A section with each workload in a line or two, and a group with its whole account. The machine
//! is in `machine`.

use durio_analyse::grouping::each_once;
use durio_analyse::{
    BatchFindings, Distribution, Findings, InFlightFindings, OperationFindings, SelfCost,
    WorkloadFindings,
};
use durio_base::{Bytes, Nanos};
use durio_observe::DeviceCounters;

use super::figures::{location_name, locations};
use super::machine::cache_name;
use crate::document::Section;
use crate::figures::{
    counted, decimal, deviation, grouped, latency, latency_or_absent, mean_latency, percent, rate,
};

// Bytes of a sector in the kernel's counters, for every device.
const SECTOR: u64 = 512;

pub(super) fn section(findings: &Findings) -> Section {
    let mut section = Section::detail("How it was measured");
    // A campaign has hundreds of steps; how each was measured is in the JSON document.
    match findings.campaign.is_none() {
        true => in_short(findings, &mut section),
        false => data_of_campaign(findings, &mut section),
    }
    for cost in &findings.self_cost {
        section.fact("durio's cost", self_cost_line(cost));
    }
    if let Some(workload) = largest_deviation(findings) {
        let line = in_flight_line(&workload.in_flight);
        let text = format!("largest deviation at {}: {line}", workload.name);
        section.fact("Little's law", text);
    }
    if findings.campaign.is_none() {
        findings.workloads.iter().for_each(|it| section.group(account(it)));
    }
    section
}

fn in_short(findings: &Findings, section: &mut Section) {
    let several = locations(findings).len() > 1;
    for workload in &findings.workloads {
        let place = if several { format!("at {}: ", workload.location) } else { String::new() };
        let cost = mean_latency(workload.cpu.per_operation_ns);
        let switches = switches_line(workload).map_or_else(String::new, |it| format!(", {it}"));
        let engine = engine_line(workload);
        let text = format!("{place}{engine}; {cost} CPU time per operation{switches}");
        section.fact(&workload.name, text);
        section.facts(device_time_line(workload).map(|it| ("", it)));
        section.facts(workload.batches.as_ref().map(|it| ("batches", batches_line(it))));
        section.facts(data_line(workload).map(|it| ("data", it)));
    }
}

/// What the steps of a campaign wrote: each kind of data once, with its steps where there are several.
fn data_of_campaign(findings: &Findings, section: &mut Section) {
    let data = findings.workloads.iter();
    let data = data.filter_map(|it| Some((it.data.as_ref()?.contents.as_str(), it.name.as_str())));
    let kinds = grouped(data);
    let is_one = kinds.len() == 1;
    for (words, names) in kinds {
        let of = if is_one { String::new() } else { format!(" ({})", each_once(names).join(", ")) };
        section.fact("data", format!("{words}{of}"));
    }
}

/// What the lines above have no room for.
fn account(workload: &WorkloadFindings) -> Section {
    let place = location_name(&workload.location);
    let mut group = Section::detail(format!("{} at {place}", workload.name));
    group.fact("measured for", workload.measured.to_string());
    // A ramp alone has no operations.
    if !workload.operations.is_empty() {
        group.fact("Little's law", in_flight_line(&workload.in_flight));
    }
    group.fact("clock", clock(workload));
    group.fact("CPU of the jobs", cpu_of_jobs(workload));
    group.facts(cpu_of_machine(workload));
    group.facts(workload.machine_switches_per_operation.map(|it| {
        let text = format!("{} per operation (of all programs)", decimal(it));
        ("context switches of the machine", text)
    }));
    let unwatched = workload.unwatched_max.map(|it| it.to_string());
    group.facts(unwatched.map(|it| ("longest time without a look for completions", it)));
    group.facts(workload.cpu.throttled.map(|it| ("held back by quota", it.to_string())));
    group.facts(workload.rate_variation.map(|it| {
        let text = format!(
            "coefficient of variation {} over {}",
            percent(it.coefficient_of_variation),
            counted(it.intervals, "interval")
        );
        ("evenness of rate", text)
    }));
    group.facts(workload.operations.iter().flat_map(of_operation));
    group.facts(workload.devices.iter().map(device));
    group
}

fn engine_line(workload: &WorkloadFindings) -> String {
    let effective = &workload.effective;
    let mut parts = vec![
        format!("{} engine", effective.engine),
        format!("{} × depth {}", counted(effective.jobs.into(), "job"), effective.depth),
        format!("batch {}", effective.batch),
        cache_name(effective.cache).to_owned(),
        format!("{} clock", effective.clock),
    ];
    if !effective.features.is_empty() {
        parts.push(format!("uses {}", effective.features.join(", ")));
    }
    parts.push(match effective.fallbacks.as_slice() {
        [] => "no fallback".to_owned(),
        fallbacks => format!("fell back: {}", fallbacks.join("; ")),
    });
    parts.join(", ")
}

fn batches_line(batches: &BatchFindings) -> String {
    let BatchFindings { records_mean, records_p50, records_p99, records_max, .. } = batches;
    let mut parts = vec![format!(
        "{records_mean:.1} records per batch (half at most {records_p50}, 99 % at most \
         {records_p99}, {records_max} the most)"
    )];
    if let Some(per_sync) = batches.commits_per_sync {
        parts.push(format!("{per_sync:.1} commits per sync"));
    }
    if let Some(writes) = batches.device_writes_per_commit {
        parts.push(format!("{writes:.3} device writes per commit"));
    }
    for (share, what) in [
        (batches.padding_share, "of the bytes fill up"),
        (batches.delayed_share, "of the batches were delayed"),
        (batches.full_share, "of the batches were full"),
    ] {
        if share > 0.0 {
            parts.push(format!("{:.1} % {what}", share * 100.0));
        }
    }
    parts.join(", ")
}

/// The written data, in one line; none if nothing was written.
fn data_line(workload: &WorkloadFindings) -> Option<String> {
    let data = workload.data.as_ref()?;
    let mut line = data.contents.clone();
    if workload.batches.as_ref().is_some_and(|it| it.padding_share > 0.0) {
        line.push_str("; batch padding is zeros");
    }
    if data.making_share >= MAKING_SHARE_MIN {
        line.push_str(&format!(
            "; making it took {} of the jobs' time",
            percent(data.making_share)
        ));
    }
    Some(line)
}

// Less is not worth a word.
const MAKING_SHARE_MIN: f64 = 0.001;

fn self_cost_line(cost: &SelfCost) -> String {
    format!(
        "{} engine at depth {}: {} CPU time per I/O, {} by one job",
        cost.engine,
        cost.depth,
        mean_latency(cost.per_operation_ns),
        rate(cost.iops)
    )
}

fn in_flight_line(in_flight: &InFlightFindings) -> String {
    if in_flight.span == Nanos::ZERO {
        return format!(
            "{} offered; nobody counted what was in flight",
            decimal(in_flight.offered)
        );
    }
    format!(
        "{} by latency × rate, {} counted, {} offered: deviation {}",
        decimal(in_flight.by_latency),
        decimal(in_flight.counted),
        decimal(in_flight.offered),
        deviation(in_flight.deviation)
    )
}

// The workload whose two sides of Little's law are farthest apart; one that is unknown first.
fn largest_deviation(findings: &Findings) -> Option<&WorkloadFindings> {
    let distance = |it: &WorkloadFindings| it.in_flight.deviation.abs();
    // total_cmp puts NaN, which is unknown, above every number.
    let measured = findings.workloads.iter().filter(|it| !it.operations.is_empty());
    measured.max_by(|a, b| distance(a).total_cmp(&distance(b)))
}

fn switches_line(workload: &WorkloadFindings) -> Option<String> {
    let waited = decimal(workload.context_switches_per_operation?);
    let taken = workload.involuntary_switches_per_operation.map(decimal);
    let taken = taken.map_or_else(String::new, |taken| format!(" and {taken} involuntary"));
    Some(format!("{waited} voluntary{taken} context switches per operation"))
}

/// The device's time next to the latencies, where the path permits to tell it.
fn device_time_line(workload: &WorkloadFindings) -> Option<String> {
    let time = workload.device_time.as_ref()?;
    Some(format!(
        "{} per request at {}; {} per access above the device ({})",
        mean_latency(time.request_ns_mean),
        time.device,
        mean_latency(time.outside_ns_mean),
        percent(time.outside_share)
    ))
}

fn clock(workload: &WorkloadFindings) -> String {
    let in_flight = &workload.in_flight;
    // fio counts no operations in flight (docs/formats/run-folder.md).
    if in_flight.span == Nanos::ZERO {
        return format!("{}: held against no other", workload.effective.clock);
    }
    // Clocks differ by parts in a million where they are sound.
    let parts = in_flight.clock_deviation * 1e6;
    format!(
        "{}: {parts:+.1} ppm against the reference clock over {}",
        workload.effective.clock, in_flight.span
    )
}

fn cpu_of_jobs(workload: &WorkloadFindings) -> String {
    let cpu = &workload.cpu;
    format!(
        "user {} cores, system {} cores, busiest job {} of a core",
        decimal(cpu.user_cores),
        decimal(cpu.system_cores),
        percent(cpu.busiest_job_share)
    )
}

fn cpu_of_machine(workload: &WorkloadFindings) -> Option<(&'static str, String)> {
    let system = workload.cpu.machine_system_share.map(|it| format!("system {}", percent(it)));
    let steal = workload.cpu.machine_steal_share.map(|it| format!("stolen {}", percent(it)));
    let parts: Vec<_> = [system, steal].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| ("CPU of the machine", parts.join(", ")))
}

fn of_operation(operation: &OperationFindings) -> impl Iterator<Item = (String, String)> {
    let latencies = [
        ("service", Some(&operation.service)),
        ("submit", operation.submit.as_ref()),
        ("completion", operation.completion.as_ref()),
    ];
    let name = operation.operation.name();
    let known = latencies.into_iter().filter_map(|(part, it)| Some((part, it?)));
    known.map(move |(part, it)| (format!("{name}, {part}"), distribution(it)))
}

fn distribution(it: &Distribution) -> String {
    format!(
        "{}: min {}, mean {}, p50 {}, p90 {}, p99 {}, max {}",
        counted(it.count, "sample"),
        latency(it.min_ns),
        mean_latency(it.mean_ns),
        latency_or_absent(it.p50_ns),
        latency_or_absent(it.p90_ns),
        latency_or_absent(it.p99_ns),
        latency(it.max_ns)
    )
}

fn device(it: &DeviceCounters) -> (String, String) {
    let name = format!("device {}", it.name);
    if it.not_counted {
        return (name, "not counted: this device keeps no counters".to_owned());
    }
    let bytes = |sectors: u64| Bytes::new(sectors.saturating_mul(SECTOR));
    let flushes = it.flushes_completed.map_or_else(String::new, |count| match count {
        1 => ", 1 flush".to_owned(),
        _ => format!(", {count} flushes"),
    });
    let text = format!(
        "{} ({}), {} ({}){flushes}, busy {} ms",
        counted(it.reads_completed, "read"),
        bytes(it.sectors_read),
        counted(it.writes_completed, "write"),
        bytes(it.sectors_written),
        it.io_ms
    );
    (format!("{name} (all I/O)"), text)
}
