//! Disks and partitions in words, and the common facts of block devices.

use durio_base::Bytes;
use durio_observe::{BlockFacts, LayerKind, WriteCache};

use super::FactForm::{self, Text, Words};
use super::{FactRow, LINE, LayerDraft};
use crate::figures::counted;

/// A part of a disk, and whether it begins where the disk's blocks do.
pub(super) fn partition(draft: &mut LayerDraft<'_>) {
    draft.device(&[]);
    draft.text("partition");
    draft.tell(&[(LINE, "from", "start_bytes", FactForm::Bytes)]);
    let disk = draft.layer.below.first();
    let physical = disk.and_then(|disk| disk.block.as_ref()?.physical_block_size);
    let optimal = disk.and_then(|disk| disk.fact("optimal_io_size")?.parse().ok()).map(Bytes::new);
    let boundaries = [
        ("start_modulo_physical_block_bytes", "a physical block", physical),
        ("start_modulo_optimal_io_bytes", "an optimal request", optimal),
        ("start_modulo_mib_bytes", "1 MiB", None),
    ];
    for (name, words, boundary) in boundaries {
        if let Some(rest) = draft.number(name).filter(|rest| *rest > 0) {
            let of = boundary.map(|boundary| format!(" of {boundary}")).unwrap_or_default();
            draft.say(LINE, format!("MISALIGNED by {} to {words}{of}", Bytes::new(rest)));
        }
    }
    if draft.number("start_modulo_mib_bytes") == Some(0) {
        draft.say(LINE, "aligned to 1 MiB");
    }
    let offset = draft.bytes("alignment_offset");
    draft.named("alignment", "offset of the first whole block", offset);
}

/// A device with nothing below it that the kernel shows.
pub(super) fn disk(draft: &mut LayerDraft<'_>) {
    let (bus, driver) = (draft.text("bus"), draft.text("driver"));
    draft.title = format!("{} {}", kind_of_disk(bus, driver), draft.layer.name);
    let block = draft.layer.block.as_ref();
    draft.value(LINE, block.and_then(|block| block.model.clone()));
    draft.device(&[]);
    let cache = block.and_then(cache_in_short);
    draft.say(LINE, cache.unwrap_or_else(|| "write cache not shown".to_owned()));
    cache_views(draft, block);
    attached(draft, bus, driver);
    null_block(draft);
    draft.named("identity", "vendor", block.and_then(|block| block.vendor.as_ref()));
    let by_driver = draft.text("firmware");
    let by_device = draft.text("device_firmware");
    draft.named("identity", "firmware", by_driver.or(by_device));
    // The device's word for it; the line has the driver's.
    draft.text("device_model");
    draft.named("identity", "serial", block.and_then(|block| block.serial.as_ref()));
    draft.tell(IDENTITY);
}

const IDENTITY: &[FactRow] = &[
    ("identity", "state", "state", Text),
    ("identity", "commands", "device_optional_commands", Text),
];

fn kind_of_disk(bus: Option<&str>, driver: Option<&str>) -> &'static str {
    match (bus, driver) {
        (_, Some("null_blk")) => "null device",
        (_, Some("ublk")) => "device served by a process (ublk)",
        (Some("nvme"), _) => "NVMe drive",
        // virtio-scsi: its disks are driven by sd.
        (Some("virtio"), Some("sd")) => "virtio SCSI disk",
        (Some("virtio"), _) => "virtio disk",
        (Some("ata"), _) => "SATA disk",
        (Some("sas"), _) => "SAS disk",
        (Some("usb"), _) => "USB disk",
        (Some("iscsi"), _) => "iSCSI disk",
        (Some("fibre-channel"), _) => "Fibre Channel disk",
        (_, Some("sd")) => "SCSI disk",
        _ => "disk",
    }
}

fn cache_in_short(block: &BlockFacts) -> Option<String> {
    let cache = match block.write_cache? {
        WriteCache::WriteBack => "write-back cache",
        WriteCache::WriteThrough => "write-through cache",
    };
    Some(match block.fua {
        Some(true) => format!("{cache}, FUA"),
        Some(false) => format!("{cache}, no FUA"),
        None => cache.to_owned(),
    })
}

/// The kernel's view, the driver's, and the device's own.
fn cache_views(draft: &mut LayerDraft<'_>, block: Option<&BlockFacts>) {
    let view = block.and_then(|block| block.write_cache).map(|view| match view {
        WriteCache::WriteBack => "the kernel says write back and sends flushes",
        WriteCache::WriteThrough => "the kernel says write through and sends no flush",
    });
    draft.value("cache", view);
    let by_driver = block.and_then(|block| block.device_write_cache.as_ref());
    draft.named("cache", "the driver says", by_driver);
    let flush = block.and_then(|block| block.virtio_flush).map(yes_or_no);
    draft.named("cache", "the hypervisor offers flushes:", flush);
    draft.tell(CACHE);
}

const CACHE: &[FactRow] = &[
    (
        "cache",
        "the driver says of FUA",
        "scsi_fua",
        Words(|text| Some(yes_or_no(text == "1").into())),
    ),
    ("cache", "the device says: volatile write cache", "device_volatile_write_cache", Text),
    ("cache", "the device says: write cache switched on", "device_write_cache_enabled", Text),
    ("cache", "", "device_word_missing", Words(|reason| Some(format!("({reason})")))),
    ("cache", "read cache switched on", "device_read_cache_enabled", Text),
    ("cache", "FUA", "device_fua", Text),
];

const fn yes_or_no(is_it: bool) -> &'static str {
    if is_it { "yes" } else { "no" }
}

/// Transports of NVMe that lead to another machine.
const FABRICS: [&str; 3] = ["tcp", "rdma", "fc"];

/// Buses that lead there.
const NETWORKS: [&str; 2] = ["iscsi", "fibre-channel"];

const PATHS: &[FactRow] = &[
    ("attached", "at", "address", Text),
    ("paths", "", "paths", Words(|count| Some(format!("{count} controllers")))),
    ("paths", "policy", "path_policy", Text),
];

fn attached(draft: &mut LayerDraft<'_>, bus: Option<&str>, driver: Option<&str>) {
    draft.named("attached", "bus", bus);
    let transport = draft.text("transport").filter(|transport| Some(*transport) != bus);
    draft.value("attached", transport);
    let is_remote = bus.is_some_and(|bus| NETWORKS.contains(&bus))
        || transport
            .is_some_and(|transport| transport.split(", ").any(|word| FABRICS.contains(&word)));
    draft.value("attached", is_remote.then_some("remote"));
    draft.tell(PATHS);
    for (path, words) in
        draft.with_prefix("path_").into_iter().filter(|(path, _)| *path != "policy")
    {
        draft.value("paths", Some(format!("{path}: {words}")));
    }
    draft.named("attached", "driver", driver);
    draft.tell(&[("attached", "host driver", "scsi_driver", Text)]);
    let node = draft.layer.block.as_ref().and_then(|block| block.numa_node);
    draft.named("attached", "NUMA node", node);
    draft.tell(&[("attached", "PCI", "pci_address", Text)]);
    // A number that only lspci can read.
    draft.text("pci_vendor");
    let link = link(draft);
    draft.value("attached", link);
}

/// The speed and the width of the link, and the most that the device can do.
fn link(draft: &mut LayerDraft<'_>) -> Option<String> {
    let speed = draft.text("pcie_link_speed")?;
    let width = draft.text("pcie_link_width").unwrap_or("?");
    let speed_max = draft.text("pcie_link_speed_max").unwrap_or(speed);
    let width_max = draft.text("pcie_link_width_max").unwrap_or(width);
    let now = format!("link {speed} x{width}");
    Some(match (speed, width) == (speed_max, width_max) {
        true => format!("{now} (its maximum)"),
        false => format!("{now} (NOT its maximum of {speed_max} x{width_max})"),
    })
}

fn null_block(draft: &mut LayerDraft<'_>) {
    let keeps = draft.text("null_memory_backed").map(|text| match text {
        "0" | "N" => "keeps nothing",
        _ => "keeps data in memory",
    });
    draft.value("null_blk", keeps);
    let nanos = draft.text("null_completion_nsec");
    // The numbers of its parameter irqmode (the kernel's Documentation/block/null_blk.rst).
    let completion = match (draft.text("null_irqmode"), nanos) {
        (Some("2"), Some(nanos)) => Some(format!("completes after {nanos} ns")),
        (mode, _) => mode.map(|mode| match mode {
            "0" => "completes at once".to_owned(),
            "1" => "completes by soft interrupt".to_owned(),
            "2" => "completes by timer".to_owned(),
            other => other.to_owned(),
        }),
    };
    draft.value("null_blk", completion);
}

/// Cache, blocks and queue, which every kind of block device may have.
pub(super) fn every_block(draft: &mut LayerDraft<'_>, block: &BlockFacts) {
    if !matches!(draft.layer.kind, LayerKind::Disk | LayerKind::Ublk) {
        draft.value("cache", cache_in_short(block));
    }
    let least = draft.bytes("atomic_write_unit_min_bytes");
    let most = draft.bytes("atomic_write_unit_max_bytes");
    let offered = least.zip(most);
    let offered = offered.map(|(least, most)| format!("the kernel offers {least} to {most}"));
    draft.value("atomic writes", offered);
    draft.tell(ATOMIC_WRITES);
    draft.named("blocks", "logical", block.logical_block_size);
    draft.named("blocks", "physical", block.physical_block_size);
    draft.tell(BLOCKS);
    draft.named("queue", "scheduler", block.scheduler.as_ref());
    draft.tell(&[("queue", "hardware queue", "hardware_queues", FactForm::Count)]);
    let kib = |count: u64| Bytes::new(count.saturating_mul(1024));
    draft.value("queue", block.nr_requests.map(|count| counted(count, "request")));
    draft.named("queue", "largest request", block.max_sectors_kib.map(kib));
    let hardware = draft.number("max_hw_sectors_kib").map(kib);
    draft.named("queue", "of at most", hardware);
    draft.named("queue", "read-ahead", block.read_ahead_kib.map(kib));
    draft.tell(&[("queue", "zoned", "zoned", FactForm::Set)]);
    let rotational = block
        .rotational
        .map(|is_rotational| if is_rotational { "rotational" } else { "not rotational" });
    draft.value("medium", rotational);
    draft.value("medium", (block.read_only == Some(true)).then_some("READ-ONLY"));
    draft.value("medium", (block.removable == Some(true)).then_some("removable"));
}

const ATOMIC_WRITES: &[FactRow] = &[
    ("atomic writes", "within boundaries of", "atomic_write_boundary_bytes", FactForm::Bytes),
    ("atomic writes", "merged up to", "atomic_write_max_bytes", FactForm::Bytes),
    ("atomic writes", POWER_FAIL, "device_atomic_write_power_fail_bytes", FactForm::Bytes),
    ("atomic writes", "while there is power", "device_atomic_write_bytes", FactForm::Bytes),
];
const POWER_FAIL: &str = "the device says: when power fails";

const BLOCKS: &[FactRow] = &[
    ("blocks", "smallest efficient request", "minimum_io_size", FactForm::Bytes),
    ("blocks", "optimal request", "optimal_io_size", FactForm::Bytes),
    ("blocks", "discard by", "discard_granularity", FactForm::Bytes),
    (
        "blocks",
        "",
        "discard_max_bytes",
        Words(|text| (text == "0").then(|| "no discard".to_owned())),
    ),
];
