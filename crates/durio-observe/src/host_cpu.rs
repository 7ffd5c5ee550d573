//! The processors, their clock, their NUMA nodes, and whether a hypervisor stands below them.
//!
//! In: the root of `/sys` and `/proc`. Out: values for [`Host`](crate::Host), and the nodes.

use std::collections::BTreeMap;

use durio_block::tsc_is_reliable_by;

use crate::system_dir::{SystemDir, count_in_list, numbers_in_list};

const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// Words in a machine's description that only virtual ones carry, and who makes them.
const VIRTUAL_MACHINES: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("Virtual Machine", "microsoft"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("OpenStack", "openstack"),
    ("Parallels", "parallels"),
];

/// The value of the first line of `/proc/cpuinfo` with this name.
fn cpuinfo_value(root: &SystemDir, name: &str) -> Option<String> {
    let text = root.text("proc/cpuinfo")?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

pub(crate) fn cpu_model(root: &SystemDir) -> Option<String> {
    // x86 has the first, POWER `cpu`, 64-bit ARM only the number of its part.
    let names = ["model name", "Model", "cpu", "Processor", "CPU part"];
    names.iter().find_map(|name| cpuinfo_value(root, name)).filter(|value| !value.is_empty())
}

pub(crate) fn cpus_online(root: &SystemDir) -> Option<u32> {
    count_in_list(&root.text("sys/devices/system/cpu/online")?)
}

pub(crate) fn cpus_allowed(root: &SystemDir) -> Option<u32> {
    count_in_list(&root.line_after("proc/self/status", "Cpus_allowed_list:")?)
}

/// The frequency governors in use, joined by commas where processors differ.
pub(crate) fn governor(root: &SystemDir) -> Option<String> {
    let mut governors: Vec<String> = Vec::new();
    for cpu in root.children("sys/devices/system/cpu") {
        let governor = cpu.text("cpufreq/scaling_governor");
        governors.extend(governor.filter(|governor| !governors.contains(governor)));
    }
    (!governors.is_empty()).then(|| governors.join(","))
}

pub(crate) fn numa_nodes(root: &SystemDir) -> Option<u32> {
    count_in_list(&root.text("sys/devices/system/node/online")?)
}

pub(crate) fn clocksource(root: &SystemDir) -> Option<String> {
    root.text(format!("{CLOCKSOURCE}/current_clocksource"))
}

fn clocksource_is_available(root: &SystemDir, name: &str) -> bool {
    let list = root.text(format!("{CLOCKSOURCE}/available_clocksource")).unwrap_or_default();
    list.split_whitespace().any(|available| available == name)
}

fn has_flag(root: &SystemDir, name: &str) -> bool {
    let flags = cpuinfo_value(root, "flags").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == name)
}

/// The time stamp counter can be used as a clock.
pub(crate) fn tsc_reliable(root: &SystemDir) -> bool {
    let sources = root.text(format!("{CLOCKSOURCE}/available_clocksource")).unwrap_or_default();
    tsc_is_reliable_by(&root.text("proc/cpuinfo").unwrap_or_default(), &sources)
}

/// Who runs this virtual machine, as far as it shows; `None` on bare metal.
pub(crate) fn hypervisor(root: &SystemDir) -> Option<String> {
    let named = root.text("sys/hypervisor/type").or_else(|| hypervisor_by_clock(root));
    let named = named.or_else(|| root.text("proc/device-tree/hypervisor/compatible"));
    named.or_else(|| hypervisor_by_description(root)).or_else(|| {
        // The processor says that there is one, and nothing says which.
        has_flag(root, "hypervisor").then(|| "unknown".to_owned())
    })
}

fn hypervisor_by_clock(root: &SystemDir) -> Option<String> {
    // The kernel offers these clocks only under the hypervisor that provides them, whatever the
    // firmware calls the machine.
    let clocks = [("kvm-clock", "kvm"), ("hyperv_clocksource_tsc_page", "microsoft")];
    let found = clocks.iter().find(|(clock, _)| clocksource_is_available(root, clock));
    found.map(|(_, name)| (*name).to_owned())
}

fn hypervisor_by_description(root: &SystemDir) -> Option<String> {
    let description = [dmi(root, "sys_vendor"), dmi(root, "product_name")];
    let description = description.into_iter().flatten().collect::<Vec<_>>().join(" ");
    // Amazon names its bare-metal machines so too; there the processor shows no hypervisor.
    let metal = description.contains(".metal");
    let found = VIRTUAL_MACHINES.iter().find(|(word, _)| description.contains(word));
    found.filter(|_| !metal).map(|(_, name)| (*name).to_owned())
}

/// What the firmware says of the machine.
pub(crate) fn dmi(root: &SystemDir, name: &str) -> Option<String> {
    root.text(format!("sys/class/dmi/id/{name}"))
}

/// The processors of each NUMA node that has some; empty where the kernel shows none.
#[must_use]
pub fn read_nodes() -> BTreeMap<u32, Vec<u32>> {
    nodes_below(&SystemDir::live_root())
}

fn nodes_below(root: &SystemDir) -> BTreeMap<u32, Vec<u32>> {
    let node = |dir: &SystemDir| {
        let number = dir.name().strip_prefix("node")?.parse().ok()?;
        Some((number, numbers_in_list(&dir.text("cpulist")?)?))
    };
    root.children("sys/devices/system/node").iter().filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: AMD EPYC\n\
        flags\t\t: fpu tsc constant_tsc nonstop_tsc hypervisor\n\n\
        processor\t: 1\nmodel name\t: other\n";

    fn with_clocks(clocks: &str) -> Fixture {
        let fixture = Fixture::new();
        fixture.file("proc/cpuinfo", CPUINFO);
        fixture.file(&format!("{CLOCKSOURCE}/available_clocksource"), clocks);
        fixture
    }

    #[test]
    fn the_time_stamp_counter_is_reliable_only_while_the_kernel_offers_it() {
        assert!(tsc_reliable(&with_clocks("tsc kvm-clock \n").root()));
        assert!(!tsc_reliable(&with_clocks("hpet acpi_pm\n").root()));
        assert!(!tsc_reliable(&Fixture::new().root()));
    }

    #[test]
    fn a_hypervisor_is_named_by_the_best_sign_there_is() {
        assert_eq!(hypervisor(&with_clocks("tsc kvm-clock\n").root()).as_deref(), Some("kvm"));
        let fixture = with_clocks("tsc\n");
        assert_eq!(hypervisor(&fixture.root()).as_deref(), Some("unknown"));
        fixture.file("sys/class/dmi/id/sys_vendor", "VMware, Inc.\n");
        assert_eq!(hypervisor(&fixture.root()).as_deref(), Some("vmware"));
        assert_eq!(hypervisor(&Fixture::new().root()), None);
    }

    #[test]
    fn bare_metal_at_a_cloud_has_no_hypervisor() {
        let fixture = Fixture::new();
        fixture.file("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
        fixture.file("sys/class/dmi/id/product_name", "i4i.metal\n");
        assert_eq!(hypervisor(&fixture.root()), None);
    }

    #[test]
    fn processors_are_counted_and_named() {
        let fixture = with_clocks("tsc\n");
        fixture.file("sys/devices/system/cpu/online", "0-3\n");
        fixture.file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0,2\n");
        for (cpu, governor) in ["performance", "performance", "powersave"].iter().enumerate() {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            fixture.file(&path, governor);
        }
        let root = fixture.root();
        assert_eq!(cpu_model(&root).as_deref(), Some("AMD EPYC"));
        assert_eq!((cpus_online(&root), cpus_allowed(&root)), (Some(4), Some(2)));
        assert_eq!(governor(&root).as_deref(), Some("performance,powersave"));
    }

    #[test]
    fn nodes_have_their_processors_and_those_without_are_left_out() {
        let fixture = Fixture::new();
        fixture.file("sys/devices/system/node/node0/cpulist", "0-1,4\n");
        fixture.file("sys/devices/system/node/node1/cpulist", "2-3\n");
        fixture.file("sys/devices/system/node/node2/cpulist", "\n");
        fixture.file("sys/devices/system/node/online", "0-2\n");
        let nodes = nodes_below(&fixture.root());
        assert_eq!(nodes, BTreeMap::from([(0, vec![0, 1, 4]), (1, vec![2, 3])]));
    }
}
