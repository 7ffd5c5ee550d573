//! The current settings of kernel and devices that advice is about, each with its file.
//!
//! Gives [`TuningReadings`], and no judgement.
//!
//! A file that is absent gives no reading; contents of an undocumented form are passed on
//! unchanged, so that the judge can report them. A new reading is one more row here, or a function
//! if it takes more than one file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::block_node;
use crate::host;
use crate::layer::{Layer, LayerKind, Stack};
use crate::layer_facts::hardware_queues;
use crate::process_facts::names_of_processes;
use crate::process_facts::read_cgroup_limits;
use crate::system_dir::{ContentForm, SystemDir};

// Longer contents are cut: no setting is that long, and a wrong file must not fill a report.
const VALUE_CHARS_MAX: usize = 200;

/// Where the power states of the first processor are; the others have the same.
const CPU_IDLE: &str = "sys/devices/system/cpu/cpu0/cpuidle";

/// By which systemd starts the timer that trims filesystems.
const TRIM_TIMER: &str = "etc/systemd/system/timers.target.wants/fstrim.timer";

/// The current value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningReading {
    /// The kernel's name of the setting, such as `read_ahead_kb`.
    pub name: String,
    /// The content without surrounding blanks; of a list, the chosen one.
    pub value: String,
    /// Where it was read.
    pub path: String,
}

impl TuningReading {
    fn new(name: &str, value: impl Into<String>, path: impl Into<String>) -> Self {
        let value: String = value.into();
        let value = value.chars().take(VALUE_CHARS_MAX).collect();
        Self { name: name.to_owned(), value, path: path.into() }
    }
}

/// The settings of one block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerReadings {
    /// The kernel's name of the device.
    pub name: String,
    pub kind: LayerKind,
    pub readings: Vec<TuningReading>,
}

/// The settings of a machine and of the devices of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TuningReadings {
    /// Readings of the machine.
    pub host: Vec<TuningReading>,
    /// Readings of each block device, each once, top to bottom.
    pub layers: Vec<LayerReadings>,
}

impl TuningReadings {
    /// The settings of the device of this name.
    pub fn of(&self, device: &str) -> Option<&LayerReadings> {
        self.layers.iter().find(|layer| layer.name == device)
    }
}

impl LayerReadings {
    /// The setting of this name.
    pub fn get(&self, name: &str) -> Option<&TuningReading> {
        self.readings.iter().find(|reading| reading.name == name)
    }
}

/// Reads the settings of this machine and of the devices of `stack`; never fails, for every part
/// may be absent.
pub fn read_readings(stack: &Stack) -> TuningReadings {
    read_readings_in(Path::new("/"), stack)
}

/// As [`read_readings`], below another root than `/`.
pub fn read_readings_in(root: &Path, stack: &Stack) -> TuningReadings {
    let root = SystemDir::at(root);
    let mut layers: Vec<LayerReadings> = Vec::new();
    for (_, layer) in stack.walk().filter(|(_, layer)| layer.block.is_some()) {
        if !layers.iter().any(|known| known.name == layer.name) {
            layers.push(layer_readings(&root, layer));
        }
    }
    TuningReadings { host: host_readings(&root), layers }
}

fn host_readings(root: &SystemDir) -> Vec<TuningReading> {
    let text = |name: &str, path: &str, value: Option<String>| {
        value.map(|value| TuningReading::new(name, value, format!("/{path}")))
    };
    let count = |list: Option<u32>| list.map(|number| number.to_string());
    let derived = [
        text("idle_latency_us", &format!("{CPU_IDLE}/state*/latency"), deepest_idle(root)),
        text("io_pressure", "proc/pressure/io", io_pressure(root)),
        text("memory_kb", "proc/meminfo", memory(root)),
        text("irqbalance", "proc/*/comm", irqbalance(root)),
        text("trim_timer", TRIM_TIMER, trim_timer(root)),
        text("cpus", "sys/devices/system/cpu/online", count(host::cpus_online(root))),
        text("numa_nodes", "sys/devices/system/node/online", count(host::numa_nodes(root))),
        text("hypervisor", "sys/class/dmi/id", host::hypervisor(root)),
        text("kernel", "proc/sys/kernel/osrelease", root.text("proc/sys/kernel/osrelease")),
    ];
    let rows = HOST.iter().filter_map(|row| read_row(root, "", row));
    rows.chain(derived.into_iter().flatten()).collect()
}

fn layer_readings(root: &SystemDir, layer: &Layer) -> LayerReadings {
    let empty = LayerReadings { name: layer.name.clone(), kind: layer.kind, readings: Vec::new() };
    let Some(dir) = block_node::by_name(root, &layer.name) else { return empty };
    // sysfs has an exclamation mark where a device's name has a slash (cciss/c0d0).
    let shown = format!("sys/class/block/{}/", layer.name.replace('/', "!"));
    let further: &[SettingFile] = if layer.kind == LayerKind::Md { MD } else { &[] };
    let rows = BLOCK.iter().chain(further).filter_map(|row| read_row(&dir, &shown, row));
    let text = |name: &str, file: &str, value: Option<String>| {
        value.map(|value| TuningReading::new(name, value, format!("/{shown}{file}")))
    };
    let scsi_cache = block_node::scsi_disk_of(&dir).and_then(|disk| disk.text("cache_type"));
    let numa_node = layer.block.as_ref().and_then(|block| block.numa_node);
    let limits = io_max(root, layer);
    let derived = [
        text("transport", "", transport(&dir)),
        text("hardware_queues", "mq", hardware_queues(&dir)),
        text("scsi_cache", "device/scsi_disk/*/cache_type", scsi_cache),
        text("start_sectors", "start", dir.text("start")),
        text("numa_node", "device/numa_node", numa_node.map(|node| node.to_string())),
        limits.map(|limits| TuningReading::new("io_max", limits, "/sys/fs/cgroup/**/io.max")),
    ];
    let readings = rows.chain(derived.into_iter().flatten()).collect();
    LayerReadings { readings, ..empty }
}

fn read_row(
    dir: &SystemDir,
    shown: &str,
    &(name, file, form): &SettingFile,
) -> Option<TuningReading> {
    Some(TuningReading::new(name, dir.value(file, form)?, format!("/{shown}{file}")))
}

/// The exit latency of the deepest power state that is not disabled, in microseconds.
fn deepest_idle(root: &SystemDir) -> Option<String> {
    let states = root.children(CPU_IDLE).into_iter();
    // A state that is disabled is never entered: leaving it costs nothing.
    let enabled = states.filter(|state| state.flag("disable") != Some(true));
    let latency = enabled.filter_map(|state| state.number::<u64>("latency")).max();
    latency.map(|latency| latency.to_string())
}

/// The share of the last ten seconds in which some task waited for I/O, in percent.
fn io_pressure(root: &SystemDir) -> Option<String> {
    let line = root.line_after("proc/pressure/io", "some ")?;
    let value = line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
    Some(value.to_owned())
}

fn memory(root: &SystemDir) -> Option<String> {
    let value = root.line_after("proc/meminfo", "MemTotal:")?;
    Some(value.trim_end_matches("kB").trim().to_owned())
}

/// `running` or `absent`; none where the processes cannot be seen.
fn irqbalance(root: &SystemDir) -> Option<String> {
    let names = names_of_processes(root);
    let word = if names.contains("irqbalance") { "running" } else { "absent" };
    (!names.is_empty()).then(|| word.to_owned())
}

/// `enabled` or `absent`; none on machines without systemd.
fn trim_timer(root: &SystemDir) -> Option<String> {
    // The link may lead out of a made-up root; that it is there is what counts.
    let enabled = root.path().join(TRIM_TIMER).symlink_metadata().is_ok();
    // Elsewhere cron trims, or nothing does: the state is unknown.
    let systemd = root.contains("etc/systemd/system");
    systemd.then(|| if enabled { "enabled" } else { "absent" }.to_owned())
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
    // The kernel's libata shows SATA disks as SCSI ones; the path shows the difference.
    let found = by_path.iter().find(|(part, _)| path.contains(part));
    Some(found.map_or("scsi", |(_, word)| word).to_owned())
}

/// The limits that control groups set on this device; none if it is unlimited.
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

/// A setting: its name, which is the kernel's (Documentation/ABI/stable/sysfs-block), its file and form.
type SettingFile = (&'static str, &'static str, ContentForm);

/// Files of every block device, relative to its directory in sysfs.
const BLOCK: &[SettingFile] = &[
    ("scheduler", "queue/scheduler", ContentForm::Choice),
    // The same file: brackets mark the one in use among those that can be chosen.
    ("schedulers", "queue/scheduler", ContentForm::Text),
    ("nomerges", "queue/nomerges", ContentForm::Text),
    ("read_ahead_kb", "queue/read_ahead_kb", ContentForm::Text),
    ("nr_requests", "queue/nr_requests", ContentForm::Text),
    ("rq_affinity", "queue/rq_affinity", ContentForm::Text),
    ("wbt_lat_usec", "queue/wbt_lat_usec", ContentForm::Text),
    ("rotational", "queue/rotational", ContentForm::Text),
    ("iostats", "queue/iostats", ContentForm::Text),
    ("add_random", "queue/add_random", ContentForm::Text),
    ("io_poll", "queue/io_poll", ContentForm::Text),
    ("max_sectors_kb", "queue/max_sectors_kb", ContentForm::Text),
    ("max_hw_sectors_kb", "queue/max_hw_sectors_kb", ContentForm::Text),
    ("write_cache", "queue/write_cache", ContentForm::Text),
    ("fua", "queue/fua", ContentForm::Text),
    ("logical_block_size", "queue/logical_block_size", ContentForm::Text),
    ("physical_block_size", "queue/physical_block_size", ContentForm::Text),
    ("minimum_io_size", "queue/minimum_io_size", ContentForm::Text),
    ("optimal_io_size", "queue/optimal_io_size", ContentForm::Text),
    ("discard_max_bytes", "queue/discard_max_bytes", ContentForm::Text),
    ("alignment_offset", "alignment_offset", ContentForm::Text),
    ("model", "device/model", ContentForm::Text),
    ("vendor", "device/vendor", ContentForm::Text),
    ("device_cache", "cache_type", ContentForm::Choice),
    ("current_link_speed", "device/device/current_link_speed", ContentForm::Text),
    ("max_link_speed", "device/device/max_link_speed", ContentForm::Text),
    ("current_link_width", "device/device/current_link_width", ContentForm::Text),
    ("max_link_width", "device/device/max_link_width", ContentForm::Text),
];

/// Further files of an array, relative to its directory in sysfs.
const MD: &[SettingFile] = &[
    ("level", "md/level", ContentForm::Text),
    ("raid_disks", "md/raid_disks", ContentForm::Text),
    ("chunk_size", "md/chunk_size", ContentForm::Text),
    ("layout", "md/layout", ContentForm::Text),
    ("degraded", "md/degraded", ContentForm::Text),
    ("sync_action", "md/sync_action", ContentForm::Text),
    ("consistency_policy", "md/consistency_policy", ContentForm::Text),
    ("stripe_cache_size", "md/stripe_cache_size", ContentForm::Text),
    ("group_thread_cnt", "md/group_thread_cnt", ContentForm::Text),
    ("bitmap_location", "md/bitmap/location", ContentForm::Text),
    ("bitmap_chunk_size", "md/bitmap/chunksize", ContentForm::Text),
];

/// Files of the machine, relative to the root.
const HOST: &[SettingFile] = &[
    ("governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", ContentForm::Text),
    (
        "clocksource",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        ContentForm::Text,
    ),
    (
        "clocksources",
        "sys/devices/system/clocksource/clocksource0/available_clocksource",
        ContentForm::Text,
    ),
    ("transparent_hugepage", "sys/kernel/mm/transparent_hugepage/enabled", ContentForm::Choice),
    ("swappiness", "proc/sys/vm/swappiness", ContentForm::Text),
    // Either bytes or ratio is in use and the other reads 0 (sysctl/vm.rst).
    ("dirty_background_bytes", "proc/sys/vm/dirty_background_bytes", ContentForm::Text),
    ("dirty_bytes", "proc/sys/vm/dirty_bytes", ContentForm::Text),
    ("dirty_ratio", "proc/sys/vm/dirty_ratio", ContentForm::Text),
    ("dirty_background_ratio", "proc/sys/vm/dirty_background_ratio", ContentForm::Text),
    ("zone_reclaim_mode", "proc/sys/vm/zone_reclaim_mode", ContentForm::Text),
    ("aio_nr", "proc/sys/fs/aio-nr", ContentForm::Text),
    ("aio_max_nr", "proc/sys/fs/aio-max-nr", ContentForm::Text),
    ("nvme_poll_queues", "sys/module/nvme/parameters/poll_queues", ContentForm::Text),
    (
        "nvme_ps_max_latency_us",
        "sys/module/nvme_core/parameters/default_ps_max_latency_us",
        ContentForm::Text,
    ),
    ("zfs_nocacheflush", "sys/module/zfs/parameters/zfs_nocacheflush", ContentForm::Text),
    ("zil_nocacheflush", "sys/module/zfs/parameters/zil_nocacheflush", ContentForm::Text),
];

#[cfg(test)]
mod tests;
