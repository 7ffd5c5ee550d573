//! How the results came about, and their checks; and where the time of an operation goes.
//!
//! A section with each workload in a line or two, and a group with its whole account; a group for
//! each traced step. The machine is in `machine`.

use durio_analyse::durable::{DATABASE_METHODS, DurableFindings, MethodRow};
use durio_analyse::{
    BatchFindings, Distribution, Findings, GatedStart, InFlightFindings, LatencyBreakdown,
    OperationFindings, SelfCost, TimeShares, WorkloadFindings, each_once,
};
use durio_base::{Bytes, Nanos};
use durio_observe::DeviceCounters;

use super::figures::{locations, workload_title};
use super::machine::cache_name;
use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{Cell, Section, Table, Tone};
use crate::figures::{
    counted, decimal, deviation, grouped, latency, latency_or_absent, location_name, mean_latency,
    percent, rate,
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
        section.charts([time_chart(findings)]);
        findings.workloads.iter().for_each(|workload| section.group(account(workload)));
    }
    section
}

fn in_short(findings: &Findings, section: &mut Section) {
    let several = locations(findings).len() > 1;
    for workload in &findings.workloads {
        let place = if several { format!("at {}: ", workload.location) } else { String::new() };
        let cost = mean_latency(workload.cpu.per_operation_ns);
        let switches =
            switches_line(workload).map_or_else(String::new, |switches| format!(", {switches}"));
        let engine = engine_line(workload);
        let text = format!("{place}{engine}; {cost} CPU time per operation{switches}");
        section.fact(&workload.name, text);
        section.facts(device_time_line(workload).map(|line| ("", line)));
        section.facts(time_line(workload).map(|line| ("", line)));
        section.facts(workload.batches.as_ref().map(|batch| ("batches", batches_line(batch))));
        section.facts(data_line(workload).map(|line| ("data", line)));
    }
}

/// What the steps of a campaign wrote: each kind of data once, with its steps where there are several.
fn data_of_campaign(findings: &Findings, section: &mut Section) {
    let data = findings.workloads.iter();
    let data = data.filter_map(|workload| {
        Some((workload.data.as_ref()?.contents.as_str(), workload.name.as_str()))
    });
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
    group.facts(workload.gated.map(|gated| ("ordered start", gated_line(gated))));
    group.fact("CPU of the jobs", cpu_of_jobs(workload));
    group.facts(cpu_of_machine(workload));
    group.facts(workload.machine_switches_per_operation.map(|switches| {
        let text = format!("{} per operation (of all programs)", decimal(switches));
        ("context switches of the machine", text)
    }));
    let unwatched = workload.unwatched_max.map(|longest| longest.to_string());
    group
        .facts(unwatched.map(|longest| ("longest time without checking for completions", longest)));
    group.facts(workload.cpu.throttled.map(|time| ("held back by quota", time.to_string())));
    group.facts(workload.rate_variation.map(|variation| {
        let text = format!(
            "coefficient of variation {} over {}",
            percent(variation.coefficient_of_variation),
            counted(variation.intervals, "interval")
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
    if workload.batches.as_ref().is_some_and(|batch| batch.padding_share > 0.0) {
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
            "{} offered; operations in flight were not counted",
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
    let distance = |workload: &WorkloadFindings| workload.in_flight.deviation.abs();
    // total_cmp puts NaN, which is unknown, above every number.
    let measured = findings.workloads.iter().filter(|workload| !workload.operations.is_empty());
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

/// `of a commit's 139 µs: device 41 %, waiting for a CPU 22 %, filesystem and kernel 37 %`, where
/// the counters show it.
fn time_line(workload: &WorkloadFindings) -> Option<String> {
    let shares = workload.device_time.as_ref()?.shares?;
    let definition = &workload.definition;
    let what = match (definition.reads(), definition.writes()) {
        (true, true) => "an operation",
        (true, false) => "a read",
        (false, _) if definition.commits_each_write() => "a commit",
        (false, _) => "a write",
    };
    Some(format!("of {what}'s {}", time_words(&shares, "")))
}

/// The time, by what it was measured, and its parts, without those of 0 %.
fn time_words(shares: &TimeShares, by: &str) -> String {
    let parts = time_parts(shares).map(|(name, share, _)| (name, durio_base::percent(share)));
    let parts = parts.into_iter().filter(|(_, share)| share != "0 %");
    let parts: Vec<String> = parts.map(|(name, share)| format!("{name} {share}")).collect();
    format!("{}{by}: {}", mean_latency(shares.mean_ns), parts.join(", "))
}

/// The line of the headline's workload, or else of the first that has one; of a study of durable
/// writes that of the method in its first sentence. The steps of other campaigns have no common one.
pub(super) fn time_of_headline(findings: &Findings) -> Option<String> {
    if let Some(durable) = &findings.durable {
        return time_of_fastest(findings, durable);
    }
    if findings.campaign.is_some() {
        return None;
    }
    let is_headline = |workload: &&WorkloadFindings| {
        findings.headline.as_ref().is_none_or(|headline| {
            (&headline.workload, &headline.location) == (&workload.name, &workload.location)
        })
    };
    findings.workloads.iter().filter(is_headline).find_map(time_line)
}

/// The line of the fastest method that databases use.
fn time_of_fastest(findings: &Findings, durable: &DurableFindings) -> Option<String> {
    let rows = durable.methods.iter().flat_map(|methods| &methods.rows);
    let used = rows.filter(|row| DATABASE_METHODS.contains(&row.arm.setting.method));
    let rate = |row: &&MethodRow| row.arm.figures.as_ref().map(|figures| figures.rate_per_second);
    let measured = used.filter_map(|row| Some((&row.arm.setting, rate(&row)?)));
    let (setting, _) = measured.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let is_its = |workload: &&WorkloadFindings| {
        let (definition, effective) = (&workload.definition, &workload.effective);
        workload.location == setting.location
            && definition.sync.method == setting.method
            && definition.commits_each_write()
            && definition.block_size == setting.block_size
            && effective.cache == setting.cache
            && effective.engine == setting.engine
            && effective.jobs == setting.jobs
    };
    let shares = |workload: &WorkloadFindings| workload.device_time.as_ref()?.shares;
    let shares = findings.workloads.iter().filter(is_its).find_map(shares)?;
    Some(time_words(&shares, &format!(" by {}", setting.method.name())))
}

fn time_parts(shares: &TimeShares) -> [(&'static str, f64, Colour); 3] {
    [
        ("device", shares.device, Colour::Third),
        ("waiting for a CPU", shares.cpu_wait, Colour::Second),
        ("filesystem and kernel", shares.kernel, Colour::First),
    ]
}

/// A bar for each workload whose time is known in parts.
fn time_chart(findings: &Findings) -> Chart {
    let bars = findings.workloads.iter().filter_map(|workload| {
        let shares = workload.device_time.as_ref()?.shares?;
        let mut end = 0.0;
        let spans = time_parts(&shares).map(|(_, share, colour)| {
            let begin = end;
            end += share * shares.mean_ns;
            (begin, end, colour)
        });
        let (name, text) = (workload_title(findings, workload), mean_latency(shares.mean_ns));
        Some(Bar { name, spans: spans.to_vec(), point: None, text })
    });
    let legend = time_parts(&TimeShares { mean_ns: 0.0, device: 0.0, cpu_wait: 0.0, kernel: 0.0 });
    let legend = legend.map(|(name, _, colour)| (name, colour));
    let title = "Where the time of an operation goes, by the counters of the kernel";
    Chart::bars(title, vec![BarGroup::new("", bars)], legend)
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

fn gated_line(gated: GatedStart) -> String {
    let lateness = Nanos::new(gated.lateness_ns.unsigned_abs());
    let side = if gated.lateness_ns < 0 { "early" } else { "late" };
    format!("{lateness} {side}, clocks compared to within {}", Nanos::new(gated.bound_ns))
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
    let system =
        workload.cpu.machine_system_share.map(|share| format!("system {}", percent(share)));
    let steal = workload.cpu.machine_steal_share.map(|share| format!("stolen {}", percent(share)));
    let foreign = workload.cpu.foreign_cores;
    let foreign = foreign.map(|cores| format!("other work {} cores", decimal(cores)));
    let kernel = workload.cpu.kernel_cores;
    let kernel = kernel.map(|cores| format!("kernel threads {} cores", decimal(cores)));
    let parts: Vec<_> = [system, steal, foreign, kernel].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| ("CPU of the machine", parts.join(", ")))
}

fn of_operation(operation: &OperationFindings) -> impl Iterator<Item = (String, String)> {
    let latencies = [
        ("service", Some(&operation.service)),
        ("submit", operation.submit.as_ref()),
        ("completion", operation.completion.as_ref()),
    ];
    let name = operation.operation.name();
    let known = latencies.into_iter().filter_map(|(part, latency)| Some((part, latency?)));
    known.map(move |(part, latency)| (format!("{name}, {part}"), distribution(latency)))
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

/// Each traced step once, under the name of the first workload that it is of.
pub(super) fn time_of_operations(findings: &Findings) -> Section {
    let mut section =
        Section::detail("Where the time of an operation goes (one job, one at a time)");
    let traced = findings
        .workloads
        .iter()
        .filter_map(|workload| Some((workload, workload.latency_breakdown.as_ref()?)));
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
        None => sentences(breakdown).into_iter().for_each(|sentence| group.say(Tone::Plain, sentence)),
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
            .map_or_else(String::new, |overhead| format!(" ({} by tracing)", deviation(overhead)));
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
            ("component", |row| Cell::text(row.component.words())),
            ("mean", |row| Cell::Latency(row.mean_ns)),
            ("share", |row| Cell::Share(row.share)),
            ("p50", |row| Cell::nanos(row.p50_ns)),
            ("p99", |row| Cell::percentile(row.p99_ns)),
            ("off CPU, mean", |row| Cell::Latency(row.off_cpu_mean_ns)),
            ("off CPU, p50", |row| Cell::nanos(row.off_cpu_p50_ns)),
        ],
    )
}

/// Without rows where nothing lies below.
fn devices(breakdown: &LatencyBreakdown) -> Table {
    Table::with_columns(
        &breakdown.devices,
        [
            ("device, per operation", |row| Cell::text(&row.device)),
            ("reads", |row| Cell::Number(row.reads)),
            ("read", |row| Cell::bytes(row.read_bytes)),
            ("writes", |row| Cell::Number(row.writes)),
            ("written", |row| Cell::bytes(row.written_bytes)),
            ("flushes", |row| Cell::Number(row.flushes)),
            ("FUA", |row| Cell::Number(row.fua)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordered_start_is_late_or_early_by_its_time() {
        let line = |lateness_ns| {
            let (offset_ns, ordered_at_ns) = (4, 5);
            gated_line(GatedStart { lateness_ns, offset_ns, bound_ns: 900, ordered_at_ns })
        };
        assert_eq!(line(121_400), "121 µs late, clocks compared to within 900 ns");
        assert_eq!(line(-2_000_000), "2 ms early, clocks compared to within 900 ns");
    }
}
