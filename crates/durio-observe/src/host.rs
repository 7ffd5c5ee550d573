//! The machine, as far as it bears on a figure: processors, memory, limits, settings of the kernel.
//!
//! In: the root of `/sys`, `/proc` and `/etc`. Out: [`Host`]. Not here: devices and filesystems.

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupLimits, read_cgroup_limits};
use crate::lab_facts::{LabFacts, lab_facts};
use crate::process_facts::{ProcessFacts, process_facts};
use crate::system_dir::{Form, SystemDir, line_after};
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
        memory: memory_field(&memory, "MemTotal:"),
        memory_available: memory_field(&memory, "MemAvailable:"),
        swap: memory_field(&memory, "SwapTotal:"),
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
    let value = |file| root.line_after(file, "PRETTY_NAME=");
    let value = value("etc/os-release").or_else(|| value("usr/lib/os-release"))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

fn memory_field(meminfo: &str, name: &str) -> Bytes {
    let value = line_after(meminfo, name);
    let kib = value.and_then(|value| value.strip_suffix("kB")?.trim().parse::<u64>().ok());
    Bytes::new(kib.unwrap_or_default().saturating_mul(1024))
}

/// Files that hold one value each, and one that holds a list with the chosen value in brackets.
const PARAMETERS: &[&str] = &[
    // How much gathers in memory before it is written, and before writers are held back. Of each
    // pair of bytes and ratio one is zero, and the other counts.
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/dirty_bytes",
    "proc/sys/vm/dirty_expire_centisecs",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_writeback_centisecs",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/zone_reclaim_mode",
    // 1 and 2 forbid rings to some or to all (Linux 6.6).
    "proc/sys/kernel/io_uring_disabled",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/fs/aio-max-nr",
    // A resync takes the devices' time up to the first, and down to the second beside other I/O.
    "proc/sys/dev/raid/speed_limit_max",
    "proc/sys/dev/raid/speed_limit_min",
    "sys/devices/system/cpu/smt/active",
    "sys/module/intel_idle/parameters/max_cstate",
    // Off by default: a FUA write to a SATA disk is then a write and a flush.
    "sys/module/libata/parameters/fua",
    // Without such queues polled I/O waits for interrupts all the same.
    "sys/module/nvme/parameters/poll_queues",
    "sys/module/nvme/parameters/write_queues",
    // Deeper power states than this allows cost their way back at the first I/O after a pause.
    "sys/module/nvme_core/parameters/default_ps_max_latency_us",
    "sys/module/nvme_core/parameters/io_timeout",
    // Set, ZFS acknowledges syncs that no device has flushed.
    "sys/module/zfs/parameters/zfs_nocacheflush",
    "sys/module/zfs/parameters/zil_nocacheflush",
];
const PARAMETER_OF_CHOICE: &str = "sys/kernel/mm/transparent_hugepage/enabled";

/// Words of the command line that matter; the rest may hold what is nobody's business.
const BOOT_NAMES: &str = "idle intel_idle.max_cstate processor.max_cstate intel_pstate amd_pstate \
    iommu intel_iommu amd_iommu isolcpus mitigations nohz_full nosmt pcie_aspm preempt rcu_nocbs \
    threadirqs tsc";

/// The parameters that this kernel has, by the name of their file without `proc/sys` or `sys`.
fn kernel_parameters(root: &SystemDir) -> Vec<Fact> {
    let rows = PARAMETERS.iter().map(|file| (*file, Form::Text));
    let rows = rows.chain([(PARAMETER_OF_CHOICE, Form::Choice)]).map(|(file, form)| {
        let name = file.strip_prefix("proc/sys/").or_else(|| file.strip_prefix("sys/"));
        (name.unwrap_or(file), root.value(file, form))
    });
    let mut facts = Fact::known(rows);
    for word in root.text("proc/cmdline").unwrap_or_default().split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if BOOT_NAMES.split_whitespace().any(|known| known == name) {
            facts.push(Fact::new(format!("boot/{name}"), value));
        }
    }
    facts
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

    #[test]
    fn parameters_are_named_by_their_file_and_the_command_line_is_sifted() {
        let fixture = Fixture::new();
        fixture.file("proc/sys/vm/dirty_ratio", "20\n");
        fixture.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        fixture.file("proc/cmdline", "root=/dev/vda token=secret mitigations=off nosmt\n");
        let expected = [
            Fact::new("vm/dirty_ratio", "20"),
            Fact::new("kernel/mm/transparent_hugepage/enabled", "madvise"),
            Fact::new("boot/mitigations", "off"),
            Fact::new("boot/nosmt", ""),
        ];
        assert_eq!(kernel_parameters(&fixture.root()), expected);
    }
}
