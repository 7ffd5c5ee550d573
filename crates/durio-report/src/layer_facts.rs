//! What is worth saying of a layer, as names and values.
//!
//! In: a layer. Out: text. Not here: the tree's drawing, and any judgement of a fact.

use std::fmt;

use durio_stack::{BlockFacts, FilesystemFacts, Layer, LayerKind, WriteCache};
use durio_units::Bytes;

/// A name and a value.
pub(crate) type Named = (String, String);

/// Said of a fact that matters and that the kernel does not show.
const NOT_SHOWN: &str = "not shown";

/// The facts of a disk's own that say which disk it is.
const OF_DISKS: [&str; 7] = [
    "firmware",
    "transport",
    "state",
    "bus",
    "scsi_driver",
    "device_volatile_write_cache",
    "device_write_cache_enabled",
];

/// The facts of other layers that explain no figure, and are told with the rest.
const ASIDE: [&str; 12] = [
    // Dozens of words, of which those that matter are told as signals.
    "effective_options",
    "features",
    "block_groups",
    "inode_size_bytes",
    "sector_size_bytes",
    "system_profile",
    "journal_transaction_max_blocks",
    "bitmap_metadata",
    "autoclear",
    "start_modulo_physical_block_bytes",
    "start_modulo_optimal_io_bytes",
    "start_modulo_mib_bytes",
];

/// True for a fact that is told with the rest; slots of members, because their states are told.
fn is_aside(name: &str) -> bool {
    ASIDE.contains(&name) || name.starts_with("slot_")
}

/// The kind of a layer, in words.
pub(crate) const fn kind(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::File => "file",
        LayerKind::Directory => "directory",
        LayerKind::CharacterDevice => "character device",
        LayerKind::Filesystem => "filesystem",
        LayerKind::Partition => "partition",
        LayerKind::Md => "software RAID",
        LayerKind::Dm => "device-mapper volume",
        LayerKind::Loop => "loop device",
        LayerKind::Nbd => "network block device",
        LayerKind::Bcache => "bcache device",
        LayerKind::Zram => "compressed RAM disk",
        LayerKind::Disk => "disk",
        LayerKind::Memory => "memory",
        LayerKind::Network => "network filesystem",
        LayerKind::Fuse => "FUSE filesystem",
        LayerKind::Overlay => "overlay",
        LayerKind::Unknown => "unknown layer",
    }
}

/// The facts that explain a figure; on disks also that one of them is not shown.
pub(crate) fn relevant(layer: &Layer) -> Vec<Named> {
    let mut facts = Vec::new();
    if let Some(filesystem) = &layer.filesystem {
        facts.extend(of_filesystem(filesystem));
    }
    if let Some(block) = &layer.block {
        facts.extend(of_block(block, layer.kind == LayerKind::Disk));
    }
    facts.extend(own(layer, true));
    facts
}

/// Facts that only this kind of layer has. Of a disk's, most are settings of its queue.
fn own(layer: &Layer, is_relevant: bool) -> impl Iterator<Item = Named> {
    let relevance = |name: &str| match layer.kind {
        LayerKind::Disk => OF_DISKS.contains(&name),
        _ => !is_aside(name),
    };
    let chosen = layer.facts.iter().filter(move |it| relevance(&it.name) == is_relevant);
    chosen.map(|fact| named(&fact.name, &fact.value))
}

/// The rest of what is known of a layer.
pub(crate) fn other(layer: &Layer) -> Vec<Named> {
    let mut facts = Vec::new();
    push(&mut facts, "device number", layer.device.clone());
    if let Some(filesystem) = &layer.filesystem {
        facts.push(named("mounted from", &filesystem.source));
        facts.push(named("all options", &filesystem.options.join(",")));
    }
    if let Some(block) = &layer.block {
        facts.extend(of_queue(block));
    }
    facts.extend(own(layer, false));
    facts
}

fn of_filesystem(filesystem: &FilesystemFacts) -> Vec<Named> {
    let options = match filesystem.relevant_options.as_slice() {
        [] => "none that matter".to_owned(),
        options => options.join(","),
    };
    let mut facts = vec![
        named("size", &filesystem.size),
        named("free", &filesystem.free),
        named("options", &options),
    ];
    push(
        &mut facts,
        "direct I/O",
        filesystem.direct_io.map(|it| match it.offset {
            Bytes::ZERO => "not possible".to_owned(),
            offset => format!("aligned to {offset}"),
        }),
    );
    push_if(&mut facts, "read-only", filesystem.read_only);
    push_if(&mut facts, "memory-backed", filesystem.memory_backed);
    facts
}

/// `is_disk` says that absence is to be told.
fn of_block(block: &BlockFacts, is_disk: bool) -> Vec<Named> {
    let mut facts = Vec::new();
    let mut tell = |name: &str, value: Option<String>| {
        let value = value.or_else(|| is_disk.then(|| NOT_SHOWN.to_owned()));
        push(&mut facts, name, value);
    };
    tell("model", block.model.clone());
    tell("size", block.size.map(|size| size.to_string()));
    tell("scheduler", block.scheduler.clone());
    tell("write cache", block.write_cache.map(write_cache));
    tell("FUA", block.fua.map(yes_or_no));
    tell("rotational", block.rotational.map(yes_or_no));
    tell("virtual", block.virtual_device.map(yes_or_no));
    push(&mut facts, "vendor", block.vendor.clone());
    push(&mut facts, "cache says the driver", block.device_write_cache.clone());
    push(&mut facts, "flush offered by hypervisor", block.virtio_flush.map(yes_or_no));
    push_if(&mut facts, "read-only", block.read_only == Some(true));
    push_if(&mut facts, "removable", block.removable == Some(true));
    facts
}

fn of_queue(block: &BlockFacts) -> Vec<Named> {
    let mut facts = Vec::new();
    let kib = |count: u64| Bytes::from_kib(count.min(u64::MAX / 1024)).to_string();
    push(&mut facts, "serial", block.serial.clone());
    push(&mut facts, "logical block", block.logical_block_size.map(|it| it.to_string()));
    push(&mut facts, "physical block", block.physical_block_size.map(|it| it.to_string()));
    push(&mut facts, "largest request", block.max_sectors_kib.map(kib));
    push(&mut facts, "requests held", block.nr_requests.map(|it| it.to_string()));
    push(&mut facts, "read-ahead", block.read_ahead_kib.map(kib));
    push(&mut facts, "memory node", block.numa_node.map(|it| it.to_string()));
    facts
}

fn write_cache(cache: WriteCache) -> String {
    match cache {
        WriteCache::WriteBack => "write back (flushes are sent)".to_owned(),
        WriteCache::WriteThrough => "write through (no flush is sent)".to_owned(),
    }
}

fn yes_or_no(is_it: bool) -> String {
    if is_it { "yes" } else { "no" }.to_owned()
}

fn named(name: &str, value: &dyn fmt::Display) -> Named {
    (name.to_owned(), value.to_string())
}

fn push(facts: &mut Vec<Named>, name: &str, value: Option<String>) {
    facts.extend(value.map(|value| (name.to_owned(), value)));
}

fn push_if(facts: &mut Vec<Named>, name: &str, is_it: bool) {
    push(facts, name, is_it.then(|| yes_or_no(true)));
}
