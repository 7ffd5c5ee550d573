//! The tested storage and machine: the layers as a tree, and the machine.

use durio_analyse::Findings;
use durio_base::Bytes;
use durio_observe::{Host, LabFacts};
use durio_workload::CacheMode;

use crate::document::{DetailLevel, Section, SectionBody};
use crate::figures::{counted, decimal};
use crate::stack_tree::tree;

pub(super) fn section(findings: &Findings) -> Section {
    let mut section = Section::detail("Measured on");
    if !findings.stack.is_empty() {
        // Next to results, facts that explain none of them are detail.
        let nodes =
            findings.stack.iter().map(|stack| tree(&stack.root, DetailLevel::Detail)).collect();
        section.push(DetailLevel::Summary, SectionBody::Tree(nodes));
    }
    host_facts(&findings.host, &mut section);
    section
}

pub(super) const fn cache_name(cache: CacheMode) -> &'static str {
    match cache {
        CacheMode::Direct => "direct",
        CacheMode::Buffered => "buffered",
    }
}

/// The machine in one short line, for a title.
pub(crate) fn host_short(host: &Host) -> String {
    let machine = match (&host.hypervisor, &host.dmi_product) {
        // A guest's DMI product is an invention of its hypervisor.
        (Some(hypervisor), _) => format!("virtual machine ({hypervisor})"),
        (None, Some(product)) => product.clone(),
        (None, None) => "machine".to_owned(),
    };
    let cpus = counted(host.cpus_online.into(), "CPU");
    let lab = host.lab.as_ref().map(|lab| format!("lab, {}; ", lab.timing.meaning()));
    let lab = lab.unwrap_or_default();
    format!("{lab}{machine}, {cpus}, {} memory, Linux {}", host.memory, host.kernel)
}

/// The machine, as far as it explains results.
fn host_facts(host: &Host, section: &mut Section) {
    section.facts(host.lab.iter().map(|lab| ("lab", lab_words(lab))));
    section.facts([
        ("kernel", format!("{} ({})", or_none(Some(&host.kernel)), host.architecture)),
        ("system", or_none(host.os.as_ref())),
        ("CPU", cpu(host)),
        ("governor", or_none(host.governor.as_ref())),
        ("memory", memory(host)),
        ("hypervisor", or_none(host.hypervisor.as_ref())),
        ("clock source", clock(host)),
    ]);
    let limits = cgroup_limits(host);
    if !limits.is_empty() {
        section.fact("cgroup limits", limits.join(", "));
    }
}

pub(super) fn host_facts_other(host: &Host, section: &mut Section) {
    section.facts([
        ("machine vendor", or_none(host.dmi_vendor.as_ref())),
        ("machine model", or_none(host.dmi_product.as_ref())),
        ("memory nodes", host.numa_nodes.to_string()),
        ("swap", host.swap.to_string()),
        ("control group", or_none(host.cgroup.path.as_ref())),
    ]);
    section.facts(
        host.kernel_parameters.iter().map(|parameter| (&parameter.name, parameter.value.clone())),
    );
}

/// The kind of results, then the lab that made them.
fn lab_words(lab: &LabFacts) -> String {
    let LabFacts { timing, accelerator, without_kvm, qemu_version, cpu_model, .. } = lab;
    let reason = without_kvm.as_ref().map(|reason| format!(" because KVM does not work: {reason}"));
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
        // A kernel before 3.14 does not tell it.
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

fn or_none(value: Option<&String>) -> String {
    value.filter(|value| !value.is_empty()).cloned().unwrap_or_else(|| "none shown".to_owned())
}
