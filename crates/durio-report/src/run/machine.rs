//! What was measured on: the layers as a tree, and the machine.
//!
//! In: findings. Out: sections and named values. Not here: what a layer is (`stack_tree`).

use durio_analyse::Findings;
use durio_observe::{Host, LabFacts};
use durio_units::Bytes;
use durio_workload::CacheMode;

use crate::document::{Body, Level, Section};
use crate::figures::{counted, decimal};
use crate::stack_tree::tree;

/// Said where the machine shows nothing.
const NONE_SHOWN: &str = "none shown";

pub(super) fn section(findings: &Findings) -> Section {
    let mut section = Section::new("Measured on");
    if !findings.stack.is_empty() {
        let nodes = findings.stack.iter().map(|it| tree(&it.root, Level::Detail)).collect();
        section.push(Level::Summary, Body::Tree(nodes));
    }
    section.facts(host_facts(&findings.host));
    section
}

/// The name of a cache mode.
pub(super) const fn cache_name(cache: CacheMode) -> &'static str {
    match cache {
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
    }
}

/// The machine in one short line: what a title has room for.
pub(super) fn host_short(host: &Host) -> String {
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
pub(super) fn host_facts(host: &Host) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> =
        host.lab.iter().map(|lab| named("lab", lab_words(lab))).collect();
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
pub(super) fn host_facts_other(host: &Host) -> Vec<(String, String)> {
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

fn named(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

fn or_none(value: Option<&String>) -> String {
    value.filter(|value| !value.is_empty()).cloned().unwrap_or_else(|| NONE_SHOWN.to_owned())
}
