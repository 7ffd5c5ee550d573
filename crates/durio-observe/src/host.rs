//! The machine, as far as it bears on a figure.
//!
//! In: the root of `/sys`, `/proc` and `/etc`. Out: [`Host`]. Not here: devices and filesystems.

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupLimits, read_cgroup_limits};
use crate::kernel_parameters::kernel_parameters;
use crate::lab_facts::{LabFacts, lab_facts};
use crate::process_facts::{ProcessFacts, process_facts};
use crate::system_dir::SystemDir;
use crate::tracefs::active_tracing;
use crate::{Fact, host_cpu};

/// The machine and what this process may use of it.
///
/// Counts and sizes that could not be read are zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The kernel's release.
    pub kernel: String,
    /// The distribution, in its own words.
    pub os: Option<String>,
    /// As `uname -m` says.
    pub architecture: String,
    /// The processor's name for itself.
    pub cpu_model: Option<String>,
    /// Processors that the kernel runs on.
    pub cpus_online: u32,
    /// Processors that this process may run on.
    pub cpus_allowed: u32,
    /// The frequency governors in use, joined by commas where processors differ.
    pub governor: Option<String>,
    /// Memory nodes.
    pub numa_nodes: u32,
    /// All memory.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// What could be had without swapping when this was read.
    #[serde(rename = "memory_available_bytes")]
    pub memory_available: Bytes,
    /// All swap.
    #[serde(rename = "swap_bytes")]
    pub swap: Bytes,
    /// Who runs this virtual machine; `None` on bare metal or where nothing shows it.
    pub hypervisor: Option<String>,
    /// The machine's maker, from the firmware.
    pub dmi_vendor: Option<String>,
    /// The machine's model, from the firmware.
    pub dmi_product: Option<String>,
    /// The clock that the kernel uses.
    pub clocksource: Option<String>,
    /// The x86 time stamp counter may be used as a clock.
    pub tsc_reliable: bool,
    /// What the control groups allow.
    pub cgroup: CgroupLimits,
    /// Settings of the kernel that explain a figure.
    pub kernel_parameters: Vec<Fact>,
    /// What the kernel traced when this was read: by folder of the tracing files, the tracer and the
    /// events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tracing: Vec<Fact>,
    /// What stands between this process and the kernel; none in records that have it not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessFacts>,
    /// The lab that this machine is a guest of; none elsewhere, and in records that have it not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabFacts>,
}

/// Reads what the machine shows; never fails, for every part may be absent.
#[must_use]
pub fn read_host() -> Host {
    host_in(&SystemDir::live_root())
}

pub(crate) fn host_in(root: &SystemDir) -> Host {
    let memory = root.text("proc/meminfo").unwrap_or_default();
    Host {
        kernel: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
        os: os_name(root),
        architecture: rustix::system::uname().machine().to_string_lossy().into_owned(),
        cpu_model: host_cpu::cpu_model(root),
        cpus_online: host_cpu::cpus_online(root).unwrap_or_default(),
        cpus_allowed: host_cpu::cpus_allowed(root).unwrap_or_default(),
        governor: host_cpu::governor(root),
        numa_nodes: host_cpu::numa_nodes(root).unwrap_or_default(),
        memory: memory_field(&memory, "MemTotal"),
        memory_available: memory_field(&memory, "MemAvailable"),
        swap: memory_field(&memory, "SwapTotal"),
        hypervisor: host_cpu::hypervisor(root),
        dmi_vendor: host_cpu::dmi(root, "sys_vendor"),
        dmi_product: host_cpu::dmi(root, "product_name"),
        clocksource: host_cpu::clocksource(root),
        tsc_reliable: host_cpu::tsc_reliable(root),
        cgroup: read_cgroup_limits(root),
        kernel_parameters: kernel_parameters(root),
        tracing: active_tracing(root),
        process: Some(process_facts(root)),
        lab: lab_facts(root),
    }
}

fn os_name(root: &SystemDir) -> Option<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

fn memory_field(meminfo: &str, name: &str) -> Bytes {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Bytes::new(kib.unwrap_or_default().saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_machine_that_shows_nothing_is_still_a_host() {
        let mut host = host_in(&Fixture::new().root());
        assert!(!host.architecture.is_empty());
        host.architecture.clear();
        assert_eq!(host.process.take(), Some(ProcessFacts::default()));
        assert_eq!(host, Host::default());
    }

    #[test]
    fn memory_and_system_are_read() {
        let fixture = Fixture::new();
        fixture.file("proc/meminfo", "MemTotal:  24682416 kB\nMemFree: 1 kB\nSwapTotal: 8 kB\n");
        fixture.file("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n");
        fixture.file("proc/sys/kernel/osrelease", "6.12.3\n");
        let host = host_in(&fixture.root());
        assert_eq!(host.memory, Bytes::from_kib(24_682_416));
        assert_eq!((host.memory_available, host.swap), (Bytes::ZERO, Bytes::from_kib(8)));
        assert_eq!(host.os.as_deref(), Some("Debian GNU/Linux 12"));
        assert_eq!(host.kernel, "6.12.3");
    }

    #[test]
    fn this_machine_has_memory_and_processors_and_survives_being_saved() {
        let host = read_host();
        assert!(host.cpus_online > 0 && host.cpus_allowed > 0 && host.memory > Bytes::ZERO);
        let text = serde_json::to_string(&host).unwrap();
        assert_eq!(serde_json::from_str::<Host>(&text).unwrap(), host);
    }
}
