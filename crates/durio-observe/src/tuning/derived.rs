//! Settings that take more than one file, or more than its content.
//!
//! In: the root and a device's directory. Out: readings. Not here: plain files, which are rows.

use super::Reading;
use crate::cgroup::read_cgroup_limits;
use crate::host_cpu;
use crate::layer::Layer;
use crate::system_dir::SystemDir;

/// Where the power states of the first processor are; the others have the same.
const CPU_IDLE: &str = "sys/devices/system/cpu/cpu0/cpuidle";

/// By which systemd starts the timer that trims filesystems.
const TRIM_TIMER: &str = "etc/systemd/system/timers.target.wants/fstrim.timer";

/// A process table longer than this is not searched to its end.
const PROCESSES_MAX: usize = 100_000;

/// What the machine shows in several places.
pub(super) fn of_host(root: &SystemDir) -> Vec<Reading> {
    let text = |name: &str, path: &str, value: Option<String>| {
        value.map(|value| Reading::new(name, value, format!("/{path}")))
    };
    [
        text("idle_latency_us", &format!("{CPU_IDLE}/state*/latency"), deepest_idle(root)),
        text("io_pressure", "proc/pressure/io", io_pressure(root)),
        text("memory_kb", "proc/meminfo", memory(root)),
        text("irqbalance", "proc/*/comm", irqbalance(root)),
        text("trim_timer", TRIM_TIMER, trim_timer(root)),
        text("cpus", "sys/devices/system/cpu/online", count(host_cpu::cpus_online(root))),
        text("numa_nodes", "sys/devices/system/node/online", count(host_cpu::numa_nodes(root))),
        text("hypervisor", "sys/class/dmi/id", host_cpu::hypervisor(root)),
        text("kernel", "proc/sys/kernel/osrelease", root.text("proc/sys/kernel/osrelease")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn count(number: Option<u32>) -> Option<String> {
    number.map(|number| number.to_string())
}

/// The exit latency of the deepest power state that is not disabled, in microseconds.
fn deepest_idle(root: &SystemDir) -> Option<String> {
    let states = root.join(CPU_IDLE);
    let enabled = states.names("").into_iter().map(|name| states.join(name));
    let latencies = enabled
        .filter(|state| state.flag("disable") != Some(true))
        .filter_map(|state| state.number::<u64>("latency"));
    latencies.max().map(|latency| latency.to_string())
}

/// The share of the last ten seconds in which some task waited for I/O, in percent.
fn io_pressure(root: &SystemDir) -> Option<String> {
    let text = root.text("proc/pressure/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
    Some(value.to_owned())
}

fn memory(root: &SystemDir) -> Option<String> {
    let text = root.text("proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(value.trim().trim_end_matches("kB").trim().to_owned())
}

/// `running` or `absent`; none where the processes cannot be seen.
fn irqbalance(root: &SystemDir) -> Option<String> {
    let mut seen = false;
    for name in root.names("proc").into_iter().take(PROCESSES_MAX) {
        let is_process = name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
        if !is_process {
            continue;
        }
        let Some(command) = root.join("proc").join(name).text("comm") else { continue };
        seen = true;
        if command == "irqbalance" {
            return Some("running".to_owned());
        }
    }
    seen.then(|| "absent".to_owned())
}

/// `enabled` or `absent`; none on machines without systemd.
fn trim_timer(root: &SystemDir) -> Option<String> {
    // The link may lead out of a made-up root; that it is there is what counts.
    let enabled = root.path().join(TRIM_TIMER).symlink_metadata().is_ok();
    let systemd = root.contains("etc/systemd/system");
    systemd.then(|| if enabled { "enabled" } else { "absent" }.to_owned())
}

/// What a device shows in several places.
pub(super) fn of_device(
    root: &SystemDir,
    dir: &SystemDir,
    layer: &Layer,
    shown: &str,
) -> Vec<Reading> {
    let text = |name: &str, path: String, value: Option<String>| {
        value.map(|value| Reading::new(name, value, path))
    };
    let within = |file: &str| format!("/{shown}{file}");
    [
        text("transport", within(""), transport(dir)),
        text("hardware_queues", within("mq"), hardware_queues(dir)),
        text("scsi_cache", within("device/scsi_disk/*/cache_type"), scsi_cache(dir)),
        text("start_sectors", within("start"), dir.text("start")),
        text("numa_node", within("device/numa_node"), numa_node(layer)),
        text("io_max", "/sys/fs/cgroup/**/io.max".to_owned(), io_max(root, layer)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How the device is attached, by the kernel's name for it and its place in the device tree.
fn transport(dir: &SystemDir) -> Option<String> {
    let (name, path) = (dir.name(), dir.path().to_string_lossy().into_owned());
    let by_name = [("nvme", "nvme"), ("xvd", "xen"), ("vd", "virtio"), ("mmcblk", "mmc")];
    if let Some((_, word)) = by_name.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Some((*word).to_owned());
    }
    if !name.starts_with("sd") {
        return None;
    }
    let by_path = [
        ("/virtio", "virtio"),
        ("/VMBUS", "hyperv"),
        ("/vmbus", "hyperv"),
        ("/usb", "usb"),
        ("/ata", "sata"),
        ("/end_device", "sas"),
    ];
    let found = by_path.iter().find(|(part, _)| path.contains(part));
    Some(found.map_or("scsi", |(_, word)| word).to_owned())
}

fn hardware_queues(dir: &SystemDir) -> Option<String> {
    let count = dir.names("mq").len();
    (count > 0).then(|| count.to_string())
}

fn scsi_cache(dir: &SystemDir) -> Option<String> {
    let disks = dir.join("device/scsi_disk");
    let address = disks.names("").into_iter().next()?;
    disks.join(address).text("cache_type")
}

fn numa_node(layer: &Layer) -> Option<String> {
    layer.block.as_ref()?.numa_node.map(|node| node.to_string())
}

/// The limits that control groups set on this device; none if there are none.
fn io_max(root: &SystemDir, layer: &Layer) -> Option<String> {
    let number = layer.device.as_deref()?;
    let limits = read_cgroup_limits(root).io_max;
    let of_device = limits.iter().filter_map(|line| {
        let (device, limit) = line.split_once(' ')?;
        (device == number).then(|| limit.trim().to_owned())
    });
    let all: Vec<String> = of_device.collect();
    Some(if all.is_empty() { "none".to_owned() } else { all.join("; ") })
}
