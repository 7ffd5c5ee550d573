//! The facts that only one kind of block layer has, and a device's place: the offset of a partition
//! against the blocks below, the link to the bus, the driver.
//!
//! Tables of volumes are in `dm_facts`, the device's own reports in `device_probe`. A file that
//! holds a fact as it is shown is one more row here.

use crate::Fact;
use crate::block_facts::from_sectors;
use crate::block_facts::{nvme_paths, path_facts};
use crate::block_node::scsi_disk_of;
use crate::layer::LayerKind;
use crate::system_dir::{ContentForm, SystemDir};

/// The fact's name, the file, and its form.
type FactFile = (&'static str, &'static str, ContentForm);

const MD: &[FactFile] = &[
    ("level", "md/level", ContentForm::Text),
    ("raid_disks", "md/raid_disks", ContentForm::Text),
    ("degraded", "md/degraded", ContentForm::Text),
    ("array_state", "md/array_state", ContentForm::Text),
    ("consistency_policy", "md/consistency_policy", ContentForm::Text),
    ("bitmap", "md/bitmap/location", ContentForm::Text),
    ("bitmap_type", "md/bitmap_type", ContentForm::Choice),
    ("bitmap_metadata", "md/bitmap/metadata", ContentForm::Text),
    ("bitmap_chunk_size", "md/bitmap/chunksize", ContentForm::Text),
    ("chunk_size", "md/chunk_size", ContentForm::Text),
    ("layout", "md/layout", ContentForm::Text),
    ("metadata_version", "md/metadata_version", ContentForm::Text),
    ("sync_action", "md/sync_action", ContentForm::Text),
    ("sync_completed", "md/sync_completed", ContentForm::Text),
    ("reshape_position", "md/reshape_position", ContentForm::Text),
    ("mismatch_cnt", "md/mismatch_cnt", ContentForm::Text),
    ("journal_mode", "md/journal_mode", ContentForm::Choice),
    ("safe_mode_delay", "md/safe_mode_delay", ContentForm::Text),
    ("stripe_cache_size", "md/stripe_cache_size", ContentForm::Text),
    ("group_thread_cnt", "md/group_thread_cnt", ContentForm::Text),
];

const DM: &[FactFile] =
    &[("dm_name", "dm/name", ContentForm::Text), ("suspended", "dm/suspended", ContentForm::Text)];

const LOOP: &[FactFile] = &[
    ("backing_file", "loop/backing_file", ContentForm::Text),
    ("dio", "loop/dio", ContentForm::Text),
    ("offset", "loop/offset", ContentForm::Text),
    ("sizelimit", "loop/sizelimit", ContentForm::Text),
    ("autoclear", "loop/autoclear", ContentForm::Text),
];

const NBD: &[FactFile] =
    &[("pid", "pid", ContentForm::Text), ("backend", "backend", ContentForm::Text)];

const BCACHE: &[FactFile] = &[
    ("cache_mode", "bcache/cache_mode", ContentForm::Choice),
    ("state", "bcache/state", ContentForm::Text),
    ("dirty_data", "bcache/dirty_data", ContentForm::Text),
    ("sequential_cutoff", "bcache/sequential_cutoff", ContentForm::Text),
];

const ZRAM: &[FactFile] = &[
    ("comp_algorithm", "comp_algorithm", ContentForm::Choice),
    ("backing_dev", "backing_dev", ContentForm::Text),
    ("disksize", "disksize", ContentForm::Text),
];

const DISK: &[FactFile] = &[
    // NVMe has the first file, SCSI the second.
    ("firmware", "device/firmware_rev", ContentForm::Text),
    ("firmware", "device/rev", ContentForm::Text),
    ("transport", "device/transport", ContentForm::Text),
    ("state", "device/state", ContentForm::Text),
    ("pci_vendor", "device/device/vendor", ContentForm::Text),
];

const PARTITION: &[FactFile] = &[
    ("partition", "partition", ContentForm::Text),
    ("alignment_offset", "alignment_offset", ContentForm::Text),
];

/// Settings of the request queue that explain a result, for every kind that has a queue.
const QUEUE: &[FactFile] = &[
    ("wbt_lat_usec", "queue/wbt_lat_usec", ContentForm::Text),
    ("nomerges", "queue/nomerges", ContentForm::Text),
    ("rq_affinity", "queue/rq_affinity", ContentForm::Text),
    ("io_poll", "queue/io_poll", ContentForm::Text),
    ("zoned", "queue/zoned", ContentForm::Text),
    ("minimum_io_size", "queue/minimum_io_size", ContentForm::Text),
    ("optimal_io_size", "queue/optimal_io_size", ContentForm::Text),
    ("max_hw_sectors_kib", "queue/max_hw_sectors_kb", ContentForm::Text),
    ("discard_granularity", "queue/discard_granularity", ContentForm::Text),
    ("discard_max_bytes", "queue/discard_max_bytes", ContentForm::Text),
    ("atomic_write_unit_min_bytes", "queue/atomic_write_unit_min_bytes", ContentForm::Text),
    ("atomic_write_unit_max_bytes", "queue/atomic_write_unit_max_bytes", ContentForm::Text),
    ("atomic_write_boundary_bytes", "queue/atomic_write_boundary_bytes", ContentForm::Text),
    ("atomic_write_max_bytes", "queue/atomic_write_max_bytes", ContentForm::Text),
    ("stable_writes", "queue/stable_writes", ContentForm::Text),
];

/// The facts of a block layer; files that are absent give none.
pub(crate) fn layer_facts(root: &SystemDir, kind: LayerKind, dir: &SystemDir) -> Vec<Fact> {
    let rows = match kind {
        LayerKind::Md => MD,
        LayerKind::Dm => DM,
        LayerKind::Loop => LOOP,
        LayerKind::Nbd => NBD,
        LayerKind::Bcache => BCACHE,
        LayerKind::Zram => ZRAM,
        LayerKind::Disk | LayerKind::Ublk => DISK,
        LayerKind::Partition => PARTITION,
        _ => &[],
    };
    let rows = rows.iter().chain(QUEUE).map(|(name, file, form)| (*name, dir.value(file, *form)));
    let scsi_fua = scsi_disk_of(dir).and_then(|disk| disk.text("FUA"));
    let mut facts = Fact::known(rows.chain([("scsi_fua", scsi_fua)]));
    match kind {
        LayerKind::Md => facts.extend(md_facts(dir)),
        LayerKind::Dm => facts.extend(dm_type(dir)),
        LayerKind::Partition => facts.extend(alignment(dir)),
        LayerKind::Disk | LayerKind::Ublk => facts.extend(disk_facts(root, dir)),
        _ => {}
    }
    facts
}

/// The prefix of a device-mapper identifier names its maker: LVM, CRYPT, mpath.
///
/// The rest of it is left out: it would only identify the machine.
fn dm_type(dir: &SystemDir) -> Option<Fact> {
    let uuid = dir.text("dm/uuid")?;
    let (maker, _) = uuid.split_once('-')?;
    Some(Fact::new("dm_type", maker))
}

/// The state of each member, the layout in words, and of each member its slot and, if there were any, its
/// errors.
fn md_facts(dir: &SystemDir) -> Vec<Fact> {
    let members: Vec<_> = dir.children("md").into_iter().filter_map(member).collect();
    let states =
        members.iter().map(|(name, member)| (format!("member_{name}"), member.text("state")));
    let mut facts: Vec<_> = states.collect();
    facts.push(("layout_words".to_owned(), layout_words(dir)));
    for (name, member) in &members {
        facts.push((format!("slot_{name}"), member.text("slot")));
        // Healthy members need no line each.
        let errors = member.text("errors").filter(|count| count != "0");
        facts.push((format!("errors_{name}"), errors));
    }
    Fact::known(facts)
}

fn member(dir: SystemDir) -> Option<(String, SystemDir)> {
    let name = dir.name().strip_prefix("dev-")?.to_owned();
    Some((name, dir))
}

/// Numbers of layouts are those of the kernel's drivers/md (`raid10.c`, `raid5.h`, `raid0.h`).
fn layout_words(dir: &SystemDir) -> Option<String> {
    let layout = dir.number("md/layout")?;
    match dir.text("md/level")?.as_str() {
        "raid10" => raid10(layout),
        "raid0" => raid0(layout).map(str::to_owned),
        "raid4" | "raid5" | "raid6" => parity(layout).map(str::to_owned),
        _ => None,
    }
}

/// Near copies in the lowest byte, far ones in the next; bit 16 puts far copies into the next chunk.
fn raid10(layout: u32) -> Option<String> {
    let (near, far, is_offset) = (layout & 0xff, layout >> 8 & 0xff, layout & 0x1_0000 != 0);
    match (near, far) {
        (0, _) | (_, 0) => None,
        (near, 1) => Some(format!("n{near}")),
        (1, far) if is_offset => Some(format!("o{far}")),
        (1, far) => Some(format!("f{far}")),
        (near, far) if is_offset => Some(format!("n{near}o{far}")),
        (near, far) => Some(format!("n{near}f{far}")),
    }
}

/// How members of unequal size are filled, which changed by mistake in Linux 3.14.
fn raid0(layout: u32) -> Option<&'static str> {
    match layout {
        1 => Some("original"),
        2 => Some("alternate"),
        _ => None,
    }
}

/// The place of parity and data in each stripe.
fn parity(layout: u32) -> Option<&'static str> {
    Some(match layout {
        0 => "left-asymmetric",
        1 => "right-asymmetric",
        2 => "left-symmetric",
        3 => "right-symmetric",
        4 => "parity-first",
        5 => "parity-last",
        8 => "ddf-zero-restart",
        9 => "ddf-N-restart",
        10 => "ddf-N-continue",
        16 => "left-asymmetric-6",
        17 => "right-asymmetric-6",
        18 => "left-symmetric-6",
        19 => "right-symmetric-6",
        20 => "parity-first-6",
        _ => return None,
    })
}

/// Prefixes of the names of devices above a disk, and the bus that each means; the first match
/// counts, for a USB bridge has a SCSI host below it.
const BUSES: &[(&str, &str)] = &[
    ("usb", "usb"),
    ("session", "iscsi"),
    ("rport-", "fibre-channel"),
    ("ata", "ata"),
    ("end_device-", "sas"),
    ("virtio", "virtio"),
    ("nvme", "nvme"),
    ("mmc", "mmc"),
];

pub(crate) fn bus_of(dir: &SystemDir) -> Option<&'static str> {
    let path = dir.path().to_string_lossy();
    // The last one: a copied tree may lie below a folder of that name.
    let (_, place) = path.rsplit_once("/devices/")?;
    let above: Vec<&str> = place.split('/').collect();
    let stands_below = |start: &str| {
        above
            .iter()
            .filter_map(|part| part.strip_prefix(start))
            .any(|rest| rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    BUSES.iter().find(|(start, _)| stands_below(start)).map(|(_, bus)| *bus)
}

/// The driver of the SCSI host that the disk is behind, by its own name.
fn scsi_driver(dir: &SystemDir) -> Option<String> {
    dir.ancestors().find_map(|above| {
        let name = above.name();
        let host = name.strip_prefix("host")?;
        let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_digit());
        is_host.then(|| above.text(format!("scsi_host/{name}/proc_name")))?
    })
}

/// What partitions are aligned to by convention.
const MIB: u64 = 1 << 20;

/// The remainder of a partition's start over whole blocks of the disk, over its optimal requests,
/// and over MiB; zero is aligned.
fn alignment(dir: &SystemDir) -> Vec<Fact> {
    let Some(start) = dir.number("start").map(|sectors| from_sectors(sectors).get()) else {
        return Vec::new();
    };
    let of_disk = |file: &str| dir.join("..").number::<u64>(format!("queue/{file}"));
    // An optimal size of zero means that the device does not report one.
    let left_over =
        |boundary: Option<u64>| start.checked_rem(boundary?).map(|rest| rest.to_string());
    Fact::known([
        ("start_bytes", Some(start.to_string())),
        ("start_modulo_physical_block_bytes", left_over(of_disk("physical_block_size"))),
        ("start_modulo_optimal_io_bytes", left_over(of_disk("optimal_io_size"))),
        ("start_modulo_mib_bytes", left_over(Some(MIB))),
    ])
}

/// How a disk is attached, by which driver it is served, and what its module is set to.
fn disk_facts(root: &SystemDir, dir: &SystemDir) -> Vec<Fact> {
    let bus = bus_of(dir).map(str::to_owned);
    let mut facts = Fact::known([("bus", bus), ("scsi_driver", scsi_driver(dir))]);
    let ways = nvme_paths(dir);
    facts.extend(path_facts(dir, &ways));
    // Behind a subsystem, the link and the driver are the controller's; of several, each may have its own.
    let place = match ways.as_slice() {
        [only] => &only.controller,
        _ => dir,
    };
    facts.extend(link(place));
    let of_controller = || place.link_name("device/driver");
    let own =
        [("driver", driver(dir).or_else(of_controller)), ("hardware_queues", hardware_queues(dir))];
    facts.extend(Fact::known(own));
    facts.extend(null_block(root, dir));
    facts
}

const LINK: [(&str, &str); 4] = [
    ("pcie_link_speed", "current_link_speed"),
    ("pcie_link_speed_max", "max_link_speed"),
    ("pcie_link_width", "current_link_width"),
    ("pcie_link_width_max", "max_link_width"),
];

/// The PCIe link nearest to the device: that of the NVMe or of the host adapter before it.
fn link(dir: &SystemDir) -> Vec<Fact> {
    // No further: folders above a copied tree do not belong to that machine.
    let within_sysfs = dir.ancestors().take_while(|above| above.name() != "devices");
    // A function inside of the root complex has no link, and the kernel says so in its way.
    let has_link = |above: &SystemDir| {
        above.text("current_link_speed").is_some_and(|speed| speed != "Unknown")
    };
    let linked = within_sysfs.into_iter().find(has_link);
    let Some(linked) = linked else { return Vec::new() };
    let mut facts = vec![Fact::new("pci_address", linked.name())];
    facts.extend(Fact::known(LINK.map(|(name, file)| (name, linked.text(file)))));
    facts
}

/// Beginnings of names of devices that no bus shows a driver of.
const MADE: [(&str, &str); 3] = [("nullb", "null_blk"), ("ublkb", "ublk"), ("rbd", "rbd")];

fn driver(dir: &SystemDir) -> Option<String> {
    let name = dir.name();
    let is_made = |prefix: &str| {
        let number = name.strip_prefix(prefix).unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_digit())
    };
    let made = MADE.iter().find(|(prefix, _)| is_made(prefix)).map(|(_, driver)| *driver);
    let bound = ["device/driver", "device/device/driver"];
    made.map(str::to_owned).or_else(|| bound.iter().find_map(|link| dir.link_name(link)))
}

/// How many queues of requests the driver has, as text.
pub(crate) fn hardware_queues(dir: &SystemDir) -> Option<String> {
    let count = dir.names("mq").len();
    (count > 0).then(|| count.to_string())
}

/// Settings of null_blk that decide the meaning of its results.
const NULL_BLOCK: [&str; 5] =
    ["memory_backed", "completion_nsec", "irqmode", "queue_mode", "cache_size"];

/// The device's settings if configfs made it; else those of the module, which may have changed
/// since it was made.
fn null_block(root: &SystemDir, dir: &SystemDir) -> Vec<Fact> {
    if !dir.name().starts_with("nullb") {
        return Vec::new();
    }
    let own = root.join("sys/kernel/config/nullb").join(dir.name());
    let module = root.join("sys/module/null_blk/parameters");
    // Every device that was made by configfs has this file.
    let place = if own.contains("power") { own } else { module };
    Fact::known(NULL_BLOCK.map(|file| (format!("null_{file}"), place.text(file))))
}

#[cfg(test)]
mod tests;
