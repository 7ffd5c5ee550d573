//! Settings of the kernel that explain a figure.
//!
//! In: the root of `/sys` and `/proc`. Out: named values. A new parameter is one more row here.

use crate::Fact;
use crate::system_dir::SystemDir;

/// Files that hold one value.
const VALUES: &[&str] = &[
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/dirty_bytes",
    "proc/sys/vm/dirty_expire_centisecs",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_writeback_centisecs",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/zone_reclaim_mode",
    "proc/sys/kernel/io_uring_disabled",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/fs/aio-max-nr",
    "proc/sys/dev/raid/speed_limit_max",
    "proc/sys/dev/raid/speed_limit_min",
    "sys/devices/system/cpu/smt/active",
    "sys/module/intel_idle/parameters/max_cstate",
    "sys/module/libata/parameters/fua",
    "sys/module/nvme/parameters/poll_queues",
    "sys/module/nvme/parameters/write_queues",
    "sys/module/nvme_core/parameters/default_ps_max_latency_us",
    "sys/module/nvme_core/parameters/io_timeout",
    "sys/module/zfs/parameters/zfs_nocacheflush",
    "sys/module/zfs/parameters/zil_nocacheflush",
];

/// Files that hold a list with the chosen one in brackets.
const CHOICES: &[&str] = &["sys/kernel/mm/transparent_hugepage/enabled"];

/// Words of the command line that matter; the rest may hold what is nobody's business.
const BOOT_NAMES: &[&str] = &[
    "idle",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "isolcpus",
    "mitigations",
    "nohz_full",
    "nosmt",
    "pcie_aspm",
    "preempt",
    "processor.max_cstate",
    "rcu_nocbs",
    "threadirqs",
    "tsc",
];

/// The parameters that this kernel has, by the name of their file without `proc/sys` or `sys`.
pub(crate) fn kernel_parameters(root: &SystemDir) -> Vec<Fact> {
    let values = VALUES.iter().filter_map(|file| fact(file, root.text(file)));
    let choices = CHOICES.iter().filter_map(|file| fact(file, root.choice(file)));
    values.chain(choices).chain(boot_parameters(root)).collect()
}

fn fact(file: &str, value: Option<String>) -> Option<Fact> {
    let name = file.strip_prefix("proc/sys/").or_else(|| file.strip_prefix("sys/"));
    Some(Fact::new(name.unwrap_or(file), value?))
}

fn boot_parameters(root: &SystemDir) -> Vec<Fact> {
    let line = root.text("proc/cmdline").unwrap_or_default();
    let words = line.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, "")));
    let relevant = words.filter(|(name, _)| BOOT_NAMES.contains(name));
    relevant.map(|(name, value)| Fact::new(format!("boot/{name}"), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

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
