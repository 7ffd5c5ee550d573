//! Disks and partitions in words, and what every block device has.
//!
//! In: a layer. Out: a draft, or groups of one. Not here: devices that are made of others.

use durio_observe::{BlockFacts, Layer, LayerKind, WriteCache};
use durio_units::Bytes;

use super::known::{Known, Parts};
use super::words::{Draft, named, size, yes_or_no};
use crate::figures::counted;

/// A part of a disk, and whether it begins where the disk's blocks do.
pub(super) fn partition(layer: &Layer, known: &Known<'_>) -> Draft {
    let mut draft = named("partition", layer);
    known.text("partition");
    draft.essential.named("from", known.bytes("start_bytes"));
    let disk = layer.below.first();
    let physical = disk.and_then(|disk| disk.block.as_ref()?.physical_block_size);
    let optimal = disk.and_then(|disk| disk.fact("optimal_io_size")?.parse().ok()).map(Bytes::new);
    let boundaries = [
        ("start_modulo_physical_block_bytes", "a physical block", physical),
        ("start_modulo_optimal_io_bytes", "an optimal request", optimal),
        ("start_modulo_mib_bytes", "1 MiB", None),
    ];
    let mut is_told = false;
    for (name, words, boundary) in boundaries {
        let Some(rest) = known.number(name) else { continue };
        is_told = true;
        if rest > 0 {
            let of = boundary.map(|it| format!(" of {it}")).unwrap_or_default();
            let rest = Bytes::new(rest);
            draft.essential.say(format!("MISALIGNED by {rest} to {words}{of}"));
        }
    }
    let is_aligned = is_told && known.number("start_modulo_mib_bytes") == Some(0);
    if is_aligned {
        draft.essential.say("aligned to 1 MiB");
    }
    let offset = known.bytes("alignment_offset");
    let mut parts = Parts::default();
    parts.named("offset of the first whole block", offset);
    draft.group("alignment", parts);
    draft
}

/// A device with nothing below it that the kernel shows.
pub(super) fn disk(layer: &Layer, known: &Known<'_>) -> Draft {
    let (bus, driver) = (known.text("bus"), known.text("driver"));
    let mut draft = Draft::new(format!("{} {}", kind_of_disk(bus, driver), layer.name));
    let block = layer.block.as_ref();
    draft.essential.value(block.and_then(|block| block.model.clone()));
    draft.essential.value(size(layer));
    let cache = block.and_then(cache_in_short);
    draft.essential.say(cache.unwrap_or_else(|| "write cache not shown".to_owned()));
    draft.group("cache", own_word(known, block));
    draft.group("attached", attached(layer, known, bus, driver));
    draft.group("null_blk", null_block(known));
    draft.group("identity", identity(known, block));
    draft
}

fn kind_of_disk(bus: Option<&str>, driver: Option<&str>) -> &'static str {
    match (bus, driver) {
        (_, Some("null_blk")) => "null device",
        (_, Some("ublk")) => "device served by a process (ublk)",
        (Some("nvme"), _) => "NVMe drive",
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
fn own_word(known: &Known<'_>, block: Option<&BlockFacts>) -> Parts {
    let mut parts = Parts::default();
    let view = block.and_then(|block| block.write_cache);
    parts.value(view.map(|view| match view {
        WriteCache::WriteBack => "the kernel says write back and sends flushes",
        WriteCache::WriteThrough => "the kernel says write through and sends no flush",
    }));
    parts.named("the driver says", block.and_then(|block| block.device_write_cache.clone()));
    let flush = block.and_then(|block| block.virtio_flush);
    parts.named("the hypervisor offers flushes:", flush.map(yes_or_no));
    let fua = known.text("scsi_fua");
    parts.named("the driver says of FUA", fua.map(|it| yes_or_no(it == "1")));
    let present = known.text("device_volatile_write_cache");
    parts.named("the device says: volatile write cache", present);
    let enabled = known.text("device_write_cache_enabled");
    let words = "the device says: write cache switched on";
    parts.named(words, enabled);
    parts.value(known.text("device_word_missing").map(|reason| format!("({reason})")));
    parts.named("read cache switched on", known.text("device_read_cache_enabled"));
    parts.named("FUA", known.text("device_fua"));
    parts
}

fn atomic_writes(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    let least = known.bytes("atomic_write_unit_min_bytes");
    let most = known.bytes("atomic_write_unit_max_bytes");
    parts
        .value(least.zip(most).map(|(least, most)| format!("the kernel offers {least} to {most}")));
    parts.named("within boundaries of", known.bytes("atomic_write_boundary_bytes"));
    parts.named("merged up to", known.bytes("atomic_write_max_bytes"));
    let declared = known.bytes("device_atomic_write_power_fail_bytes");
    parts.named("the device says: when power fails", declared);
    parts.named("while there is power", known.bytes("device_atomic_write_bytes"));
    parts
}

fn attached(layer: &Layer, known: &Known<'_>, bus: Option<&str>, driver: Option<&str>) -> Parts {
    let mut parts = Parts::default();
    parts.named("bus", bus);
    parts.value(known.text("transport").filter(|transport| Some(*transport) != bus));
    parts.named("driver", driver);
    parts.named("host driver", known.text("scsi_driver"));
    let node = layer.block.as_ref().and_then(|block| block.numa_node);
    parts.named("NUMA node", node.map(|node| node.to_string()));
    parts.named("PCI", known.text("pci_address"));
    known.text("pci_vendor");
    parts.value(link(known));
    parts
}

/// The speed and the width of the link, and the most that the device can do.
fn link(known: &Known<'_>) -> Option<String> {
    let speed = known.text("pcie_link_speed")?;
    let width = known.text("pcie_link_width").unwrap_or("?");
    let speed_max = known.text("pcie_link_speed_max").unwrap_or(speed);
    let width_max = known.text("pcie_link_width_max").unwrap_or(width);
    let now = format!("link {speed} x{width}");
    Some(match (speed, width) == (speed_max, width_max) {
        true => format!("{now} (its maximum)"),
        false => format!("{now} (NOT its maximum of {speed_max} x{width_max})"),
    })
}

fn null_block(known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    parts.value(known.text("null_memory_backed").map(|it| match it {
        "0" | "N" => "keeps nothing",
        _ => "keeps data in memory",
    }));
    let completion = known.text("null_irqmode").map(|mode| match mode {
        "0" => "completes at once",
        "1" => "completes by soft interrupt",
        "2" => "completes by timer",
        other => other,
    });
    let nanos = known.text("null_completion_nsec");
    parts.value(match (completion, nanos) {
        (Some("completes by timer"), Some(nanos)) => Some(format!("completes after {nanos} ns")),
        (completion, _) => completion.map(str::to_owned),
    });
    parts
}

fn identity(known: &Known<'_>, block: Option<&BlockFacts>) -> Parts {
    let mut parts = Parts::default();
    parts.named("vendor", block.and_then(|block| block.vendor.clone()));
    parts.named("firmware", known.text("firmware").or_else(|| known.text("device_firmware")));
    known.text("device_firmware");
    known.text("device_model");
    parts.named("serial", block.and_then(|block| block.serial.clone()));
    parts.named("state", known.text("state"));
    parts.named("commands", known.text("device_optional_commands"));
    parts
}

/// Groups about cache, blocks and queue, which every kind of block device may have.
pub(super) fn of_every_block(
    layer: &Layer,
    block: &BlockFacts,
    known: &Known<'_>,
) -> [(&'static str, Parts); 5] {
    let mut cache = Parts::default();
    if layer.kind != LayerKind::Disk {
        cache.value(cache_in_short(block));
    }
    let mut flags = Parts::default();
    flags.value(block.rotational.map(|it| if it { "rotational" } else { "not rotational" }));
    flags.value((block.read_only == Some(true)).then_some("READ-ONLY"));
    flags.value((block.removable == Some(true)).then_some("removable"));
    [
        ("cache", cache),
        ("atomic writes", atomic_writes(known)),
        ("blocks", blocks(block, known)),
        ("queue", queue(block, known)),
        ("medium", flags),
    ]
}

fn blocks(block: &BlockFacts, known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    let text = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.to_string());
    parts.named("logical", text(block.logical_block_size));
    parts.named("physical", text(block.physical_block_size));
    let least = known.bytes("minimum_io_size");
    parts.named("smallest efficient request", least);
    parts.named("optimal request", known.bytes("optimal_io_size"));
    parts.named("discard by", known.bytes("discard_granularity"));
    parts.value(known.text("discard_max_bytes").filter(|it| *it == "0").map(|_| "no discard"));
    parts
}

fn queue(block: &BlockFacts, known: &Known<'_>) -> Parts {
    let mut parts = Parts::default();
    let kib = |count: u64| Bytes::new(count.saturating_mul(1024)).to_string();
    parts.named("scheduler", block.scheduler.clone());
    let hardware = known.number("hardware_queues");
    parts.value(hardware.map(|count| counted(count, "hardware queue")));
    parts.value(block.nr_requests.map(|count| counted(count, "request")));
    parts.named("largest request", block.max_sectors_kib.map(kib));
    parts.named("of at most", known.number("max_hw_sectors_kib").map(kib));
    parts.named("read-ahead", block.read_ahead_kib.map(kib));
    parts.named("zoned", known.some("zoned"));
    parts
}
