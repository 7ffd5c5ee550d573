//! What is worth saying of a run, its engines and its machine, as sentences and named values.
//!
//! In: findings. Out: text, the same in the terminal and in the page. Not here: layers of storage
//! (`layer_facts`), and layout.

use durio_analyse::{BatchFindings, Findings, InFlight, RunState, SelfCost, WorkloadFindings};
use durio_stack::{Host, LabFacts};
use durio_units::{Bytes, Nanos};
use durio_workload::CacheMode;

use crate::figures::{counted, decimal, deviation, mean_latency, percent, rate};
use crate::layer_facts::Named;

/// Said where the machine shows nothing.
const NONE_SHOWN: &str = "none shown";

/// The word for how the run ended.
pub(crate) const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Complete => "COMPLETE",
        RunState::Interrupted => "INTERRUPTED",
        RunState::Failed => "FAILED",
        RunState::Partial => "PARTIAL",
    }
}

/// What the state means for the reader; nothing if all is well.
pub(crate) const fn state_meaning(state: RunState) -> Option<&'static str> {
    match state {
        RunState::Complete => None,
        RunState::Interrupted => Some("the user stopped the run; later steps are missing"),
        RunState::Failed => Some("an error ended the run; later steps are missing"),
        RunState::Partial => Some("the record has no end: the run was killed, or is still running"),
    }
}

/// The name of a cache mode.
pub(crate) const fn cache_name(cache: CacheMode) -> &'static str {
    match cache {
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
    }
}

/// The engine in use, in one line.
pub(crate) fn engine_line(workload: &WorkloadFindings) -> String {
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

/// What the batches of a log were, in one line.
pub(crate) fn batches_line(batches: &BatchFindings) -> String {
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

/// What was written, in one line; none if nothing was.
pub(crate) fn data_line(workload: &WorkloadFindings) -> Option<String> {
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

/// Less is not worth a word.
const MAKING_SHARE_MIN: f64 = 0.001;

/// durio's own cost, in one line.
pub(crate) fn self_cost_line(cost: &SelfCost) -> String {
    format!(
        "{} engine at depth {}: {} CPU time per I/O, {} by one job",
        cost.engine,
        cost.depth,
        mean_latency(cost.per_operation_ns),
        rate(cost.iops)
    )
}

/// Both sides of Little's law, in one line.
pub(crate) fn in_flight_line(in_flight: &InFlight) -> String {
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

/// The workload whose two sides of Little's law are farthest apart; one that is unknown first.
pub(crate) fn largest_deviation(findings: &Findings) -> Option<&WorkloadFindings> {
    let distance = |it: &WorkloadFindings| it.in_flight.deviation.abs();
    findings.workloads.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The machine in one short line: what a title has room for.
pub(crate) fn host_short(host: &Host) -> String {
    let machine = match (&host.hypervisor, &host.dmi_product) {
        (Some(hypervisor), _) => format!("virtual machine ({hypervisor})"),
        (None, Some(product)) => product.clone(),
        (None, None) => "machine".to_owned(),
    };
    let cpus = counted(host.cpus_online.into(), "CPU");
    let lab = host.lab.as_ref().map(|lab| format!("lab, {}; ", lab.timing.meaning()));
    let lab = lab.unwrap_or_default();
    format!("{lab}{machine}, {cpus}, {} memory, Linux {}", host.memory, host.kernel)
}

/// The machine, as far as it explains a figure.
pub(crate) fn host_facts(host: &Host) -> Vec<Named> {
    let mut facts: Vec<Named> = host.lab.iter().map(|lab| named("lab", lab_words(lab))).collect();
    facts.extend([
        named("kernel", format!("{} ({})", or_none(Some(&host.kernel)), host.architecture)),
        named("system", or_none(host.os.as_ref())),
        named("CPU", cpu(host)),
        named("governor", or_none(host.governor.as_ref())),
        named("memory", memory(host)),
        named("hypervisor", or_none(host.hypervisor.as_ref())),
        named("clock source", clock(host)),
    ]);
    let limits = cgroup_limits(host);
    if !limits.is_empty() {
        facts.push(named("cgroup limits", limits.join(", ")));
    }
    facts
}

/// What else is known of the machine.
pub(crate) fn host_facts_other(host: &Host) -> Vec<Named> {
    let mut facts = vec![
        named("machine vendor", or_none(host.dmi_vendor.as_ref())),
        named("machine model", or_none(host.dmi_product.as_ref())),
        named("memory nodes", host.numa_nodes.to_string()),
        named("swap", host.swap.to_string()),
        named("control group", or_none(host.cgroup.path.as_ref())),
    ];
    let parameters = host.kernel_parameters.iter();
    facts.extend(parameters.map(|it| (it.name.clone(), it.value.clone())));
    facts
}

/// What the figures are, then what made them.
fn lab_words(lab: &LabFacts) -> String {
    let LabFacts { timing, accelerator, without_kvm, qemu_version, cpu_model, .. } = lab;
    let reason = without_kvm.as_ref().map(|it| format!(" because KVM does not work: {it}"));
    format!(
        "{} (QEMU {qemu_version}, {accelerator}{}, processor {cpu_model}, {} root)",
        timing.meaning(),
        reason.unwrap_or_default(),
        lab.root
    )
}

fn cpu(host: &Host) -> String {
    format!(
        "{}, {} online, {} usable",
        or_none(host.cpu_model.as_ref()),
        host.cpus_online,
        host.cpus_allowed
    )
}

fn memory(host: &Host) -> String {
    match host.memory_available {
        Bytes::ZERO => host.memory.to_string(),
        available => format!("{}, {available} available", host.memory),
    }
}

fn clock(host: &Host) -> String {
    let reliable = if host.tsc_reliable { "reliable" } else { "not reliable" };
    format!("{}, time-stamp counter {reliable}", or_none(host.clocksource.as_ref()))
}

fn cgroup_limits(host: &Host) -> Vec<String> {
    let cgroup = &host.cgroup;
    let mut limits = Vec::new();
    limits.extend(cgroup.memory_max.map(|max| format!("memory {max}")));
    limits.extend(cgroup.cpu_quota_cores.map(|cores| format!("CPU {} cores", decimal(cores))));
    limits.extend(cgroup.io_max.iter().map(|limit| format!("I/O {limit}")));
    limits
}

fn named(name: &str, value: String) -> Named {
    (name.to_owned(), value)
}

fn or_none(value: Option<&String>) -> String {
    value.filter(|value| !value.is_empty()).cloned().unwrap_or_else(|| NONE_SHOWN.to_owned())
}

/// Context switches of the jobs per operation, if they were counted.
pub(crate) fn switches_line(workload: &WorkloadFindings) -> Option<String> {
    let waited = decimal(workload.context_switches_per_operation?);
    let taken = workload.involuntary_switches_per_operation.map(decimal);
    let taken = taken.map_or_else(String::new, |taken| format!(" and {taken} involuntary"));
    Some(format!("{waited} voluntary{taken} context switches per operation"))
}

/// The device's own time beside the latencies, where the path permits to tell.
pub(crate) fn device_time_line(workload: &WorkloadFindings) -> Option<String> {
    let time = workload.device_time.as_ref()?;
    Some(format!(
        "{} per request at {}; {} per access above the device ({})",
        mean_latency(time.request_ns_mean),
        time.device,
        mean_latency(time.outside_ns_mean),
        percent(time.outside_share)
    ))
}
