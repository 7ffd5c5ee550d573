//! The machine, as far as it affects results: processors, memory, limits, settings of the kernel,
//! and the processors of each NUMA node.
//!
//! durio's lab puts the file `run/durio/lab` into its guests; other machines have no [`LabFacts`].

use std::collections::BTreeMap;

use durio_base::Bytes;
use durio_block::tsc_is_reliable_by;
use serde::{Deserialize, Serialize};

use crate::Fact;
use crate::process_facts::{CgroupLimits, ProcessFacts, process_facts, read_cgroup_limits};
use crate::system_dir::{ContentForm, SystemDir, count_in_list, line_after, numbers_in_list};
use crate::tracefs::active_tracing;

/// The machine and what this process may use of it.
///
/// Counts and sizes that could not be read are zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The machine's name; none in records that have it not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Tells machines of the same name apart: 64 bits of hash of its 128 random bits
    /// (machine-id(5)), which do not give them back; none in records that have it not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The kernel's release, as uname -r has it.
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
    pub numa_nodes: u32,
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// Memory available without swapping when this was read.
    #[serde(rename = "memory_available_bytes")]
    pub memory_available: Bytes,
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
    /// Settings of the kernel that explain a result.
    pub kernel_parameters: Vec<Fact>,
    /// What the kernel traced when this was read: by folder of the tracing files, the tracer and the
    /// events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tracing: Vec<Fact>,
    /// Software between this process and the kernel; none in records without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessFacts>,
    /// The lab that this machine is a guest of; none elsewhere, and in records that have it not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabFacts>,
}

/// Reads what the machine shows; never fails, for every part may be absent.
pub fn read_host() -> Host {
    host_in(&SystemDir::live_root())
}

pub(crate) fn host_in(root: &SystemDir) -> Host {
    let memory = root.text("proc/meminfo").unwrap_or_default();
    Host {
        hostname: root.text("proc/sys/kernel/hostname"),
        machine_id: machine_id(root),
        kernel: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
        os: os_name(root),
        architecture: rustix::system::uname().machine().to_string_lossy().into_owned(),
        cpu_model: cpu_model(root),
        cpus_online: cpus_online(root).unwrap_or_default(),
        cpus_allowed: cpus_allowed(root).unwrap_or_default(),
        governor: governor(root),
        numa_nodes: numa_nodes(root).unwrap_or_default(),
        memory: memory_field(&memory, "MemTotal:"),
        memory_available: memory_field(&memory, "MemAvailable:"),
        swap: memory_field(&memory, "SwapTotal:"),
        hypervisor: hypervisor(root),
        dmi_vendor: dmi(root, "sys_vendor"),
        dmi_product: dmi(root, "product_name"),
        clocksource: clocksource(root),
        tsc_reliable: tsc_reliable(root),
        cgroup: read_cgroup_limits(root),
        kernel_parameters: kernel_parameters(root),
        tracing: active_tracing(root),
        process: Some(process_facts(root)),
        lab: lab_facts(root),
    }
}

/// 64-bit FNV-1a: machine-id(5) forbids to publish the ID itself.
fn machine_id(root: &SystemDir) -> Option<String> {
    let id = root.text("etc/machine-id")?;
    // "uninitialized" in an image before its first boot.
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    is_id.then(|| format!("{:016x}", id.bytes().fold(0xcbf2_9ce4_8422_2325, mix)))
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
    // How much gathers in memory before it is written, and before writers are held back. In each
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
    // It takes pages from a process for moments, to see who uses them.
    "proc/sys/kernel/numa_balancing",
    // Decides who may count cycles and trace.
    "proc/sys/kernel/perf_event_paranoid",
    // All jobs over libaio share this many operations in flight.
    "proc/sys/fs/aio-max-nr",
    // A resync takes the devices' time up to the first, and down to the second next to other I/O.
    "proc/sys/dev/raid/speed_limit_max",
    "proc/sys/dev/raid/speed_limit_min",
    // Two threads share one processor's capacity, so results depend on neighbours.
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

/// Words of the command line that matter; the rest may be private.
const BOOT_NAMES: &str = "idle intel_idle.max_cstate processor.max_cstate intel_pstate amd_pstate \
    iommu intel_iommu amd_iommu isolcpus mitigations nohz_full nosmt pcie_aspm preempt rcu_nocbs \
    threadirqs tsc";

/// The parameters that this kernel has, by the name of their file without `proc/sys` or `sys`.
fn kernel_parameters(root: &SystemDir) -> Vec<Fact> {
    let rows = PARAMETERS.iter().map(|file| (*file, ContentForm::Text));
    let rows = rows.chain([(PARAMETER_OF_CHOICE, ContentForm::Choice)]).map(|(file, form)| {
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

const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// Words in a machine's description that only virtual ones carry, and their hypervisors.
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

/// The firmware's entry about the machine.
pub(crate) fn dmi(root: &SystemDir, name: &str) -> Option<String> {
    root.text(format!("sys/class/dmi/id/{name}"))
}

/// The processors of each NUMA node that has some; empty where the kernel shows none.
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

durio_base::worded! {
    /// What the guest's clock counts.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LabTiming {
        /// Instructions: results repeat on any machine, and are software cost without contention.
        Counted = "counted",
        /// The host's time: results are those of an emulation, or of a guest that shares the host with
        /// other work.
        Wall = "wall",
    }
}

impl LabTiming {
    /// The meaning of results from there, for a reader of the report.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Counted => "counted: software cost per I/O without contention, never speed",
            Self::Wall => "wall: time of a guest, as emulated or virtualised; no speed of hardware",
        }
    }
}

/// The lab that a guest runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabFacts {
    /// What its clock counts.
    pub timing: LabTiming,
    /// How instructions are carried out: `tcg` (emulation) or `kvm`.
    pub accelerator: String,
    /// Why it is emulated although its clock is the host's: the problem with KVM, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_kvm: Option<String>,
    pub qemu_version: String,
    /// The processor that is shown to the guest.
    pub cpu_model: String,
    /// Counted only: each instruction advances the clock by 2 to the power of this, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icount_shift: Option<u8>,
    /// What the guest's root is: `hermetic` (its own memory) or `shared` (the host's, read-only).
    pub root: String,
}

impl LabFacts {
    /// Where the file is in a guest.
    pub const PATH: &'static str = "/run/durio/lab";

    /// The file's text: a line `NAME VALUE` for each fact.
    pub fn to_text(&self) -> String {
        let Self { timing, accelerator, without_kvm, qemu_version, cpu_model, .. } = self;
        let Self { icount_shift, root, .. } = self;
        // A fact is a line, and QEMU's reason may be several.
        let reason = without_kvm.as_deref().map(|reason| reason.replace('\n', " "));
        let reason = reason.map(|reason| format!("without_kvm {reason}\n")).unwrap_or_default();
        let shift = icount_shift.map(|shift| format!("icount_shift {shift}\n")).unwrap_or_default();
        format!(
            "timing {timing}\naccelerator {accelerator}\n{reason}qemu_version {qemu_version}\n\
             cpu_model {cpu_model}\n{shift}root {root}\n"
        )
    }

    /// Reads the file's text; none if it is not of this form.
    pub fn of_text(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut values =
                text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.next().map(str::to_owned)
        };
        let timing = value("timing")?;
        Some(Self {
            timing: LabTiming::of_word(&timing)?,
            accelerator: value("accelerator")?,
            without_kvm: value("without_kvm"),
            qemu_version: value("qemu_version")?,
            cpu_model: value("cpu_model")?,
            icount_shift: value("icount_shift").and_then(|shift| shift.parse().ok()),
            root: value("root")?,
        })
    }
}

pub(crate) fn lab_facts(root: &SystemDir) -> Option<LabFacts> {
    let path = LabFacts::PATH.trim_start_matches('/');
    // A file of another form is not the lab's, and is ignored.
    LabFacts::of_text(&root.text(path)?)
}

#[cfg(test)]
mod fact_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

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
    fn a_machine_is_known_by_a_hash_of_its_id_and_an_image_has_none() {
        let fixture = Fixture::new();
        let id = |text: &str| {
            fixture.file("etc/machine-id", text);
            machine_id(&fixture.root())
        };
        let first = id("0123456789abcdef0123456789abcdef\n");
        assert_eq!(first.as_deref(), Some("01527c9731f0ff55"));
        let second = id("fedcba9876543210fedcba9876543210\n");
        assert_eq!(second.as_deref(), Some("2266fa3ad67ebce5"));
        for other in ["uninitialized\n", "\n", "0123", "0123456789abcdef0123456789abcdeg\n"] {
            assert_eq!(id(other), None, "{other}");
        }
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

    fn sample(icount_shift: Option<u8>) -> LabFacts {
        LabFacts {
            timing: if icount_shift.is_some() { LabTiming::Counted } else { LabTiming::Wall },
            accelerator: "tcg".into(),
            without_kvm: icount_shift.is_none().then(|| "no KVM: here".into()),
            qemu_version: "7.2.22 (Debian 1:7.2)".into(),
            cpu_model: "Westmere".into(),
            icount_shift,
            root: "hermetic".into(),
        }
    }

    #[test]
    fn facts_come_back_from_their_text_and_from_a_record() {
        for facts in [sample(Some(2)), sample(None)] {
            assert_eq!(LabFacts::of_text(&facts.to_text()), Some(facts.clone()));
            let saved = serde_json::to_string(&facts).unwrap();
            assert_eq!(serde_json::from_str::<LabFacts>(&saved).unwrap(), facts);
        }
    }

    #[test]
    fn a_guest_has_them_and_no_other_machine() {
        let fixture = Fixture::new();
        assert_eq!(lab_facts(&fixture.root()), None);
        fixture.file("run/durio/lab", sample(Some(2)).to_text());
        assert_eq!(lab_facts(&fixture.root()), Some(sample(Some(2))));
    }

    #[test]
    fn damaged_text_is_no_facts() {
        let text = sample(Some(2)).to_text();
        for end in 0..text.len() - "hermetic\n".len() {
            assert_eq!(LabFacts::of_text(&text[..end]), None, "{end}");
        }
        assert_eq!(LabFacts::of_text(&text.replace("counted", "fast")), None);
    }
}
