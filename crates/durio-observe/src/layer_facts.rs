//! The facts that only one kind of block layer has.
//!
//! In: the kind and the device's directory in sysfs. Out: named values.
//! A new fact is one more row here.

use crate::Fact;
use crate::block_facts::from_sectors;
use crate::layer::LayerKind;
use crate::system_dir::SystemDir;

/// How a file's content becomes a value.
#[derive(Clone, Copy)]
enum Form {
    /// As it stands.
    Text,
    /// The word in brackets.
    Choice,
}

/// The fact's name, the file, and its form.
type Row = (&'static str, &'static str, Form);

const MD: &[Row] = &[
    ("level", "md/level", Form::Text),
    ("raid_disks", "md/raid_disks", Form::Text),
    ("degraded", "md/degraded", Form::Text),
    ("array_state", "md/array_state", Form::Text),
    ("consistency_policy", "md/consistency_policy", Form::Text),
    ("bitmap", "md/bitmap/location", Form::Text),
    ("bitmap_type", "md/bitmap_type", Form::Choice),
    ("bitmap_metadata", "md/bitmap/metadata", Form::Text),
    ("bitmap_chunk_size", "md/bitmap/chunksize", Form::Text),
    ("chunk_size", "md/chunk_size", Form::Text),
    ("layout", "md/layout", Form::Text),
    ("metadata_version", "md/metadata_version", Form::Text),
    ("sync_action", "md/sync_action", Form::Text),
    ("sync_completed", "md/sync_completed", Form::Text),
    ("reshape_position", "md/reshape_position", Form::Text),
    ("mismatch_cnt", "md/mismatch_cnt", Form::Text),
    ("journal_mode", "md/journal_mode", Form::Choice),
    ("safe_mode_delay", "md/safe_mode_delay", Form::Text),
    ("stripe_cache_size", "md/stripe_cache_size", Form::Text),
    ("group_thread_cnt", "md/group_thread_cnt", Form::Text),
];

const DM: &[Row] = &[("dm_name", "dm/name", Form::Text), ("suspended", "dm/suspended", Form::Text)];

const LOOP: &[Row] = &[
    ("backing_file", "loop/backing_file", Form::Text),
    ("dio", "loop/dio", Form::Text),
    ("offset", "loop/offset", Form::Text),
    ("sizelimit", "loop/sizelimit", Form::Text),
    ("autoclear", "loop/autoclear", Form::Text),
];

const NBD: &[Row] = &[("pid", "pid", Form::Text), ("backend", "backend", Form::Text)];

const BCACHE: &[Row] = &[
    ("cache_mode", "bcache/cache_mode", Form::Choice),
    ("state", "bcache/state", Form::Text),
    ("dirty_data", "bcache/dirty_data", Form::Text),
    ("sequential_cutoff", "bcache/sequential_cutoff", Form::Text),
];

const ZRAM: &[Row] = &[
    ("comp_algorithm", "comp_algorithm", Form::Choice),
    ("backing_dev", "backing_dev", Form::Text),
    ("disksize", "disksize", Form::Text),
];

const DISK: &[Row] = &[
    ("firmware", "device/firmware_rev", Form::Text),
    ("firmware", "device/rev", Form::Text),
    ("transport", "device/transport", Form::Text),
    ("state", "device/state", Form::Text),
    ("pci_vendor", "device/device/vendor", Form::Text),
];

const PARTITION: &[Row] =
    &[("partition", "partition", Form::Text), ("alignment_offset", "alignment_offset", Form::Text)];

/// Settings of the request queue that explain a figure, for every kind that has a queue.
const QUEUE: &[Row] = &[
    ("wbt_lat_usec", "queue/wbt_lat_usec", Form::Text),
    ("nomerges", "queue/nomerges", Form::Text),
    ("rq_affinity", "queue/rq_affinity", Form::Text),
    ("io_poll", "queue/io_poll", Form::Text),
    ("zoned", "queue/zoned", Form::Text),
    ("minimum_io_size", "queue/minimum_io_size", Form::Text),
    ("optimal_io_size", "queue/optimal_io_size", Form::Text),
    ("max_hw_sectors_kib", "queue/max_hw_sectors_kb", Form::Text),
    ("discard_granularity", "queue/discard_granularity", Form::Text),
    ("discard_max_bytes", "queue/discard_max_bytes", Form::Text),
    ("atomic_write_unit_min_bytes", "queue/atomic_write_unit_min_bytes", Form::Text),
    ("atomic_write_unit_max_bytes", "queue/atomic_write_unit_max_bytes", Form::Text),
    ("atomic_write_boundary_bytes", "queue/atomic_write_boundary_bytes", Form::Text),
    ("atomic_write_max_bytes", "queue/atomic_write_max_bytes", Form::Text),
    ("stable_writes", "queue/stable_writes", Form::Text),
];

/// The facts of a block layer; files that are absent give none.
pub(crate) fn layer_facts(kind: LayerKind, dir: &SystemDir) -> Vec<Fact> {
    let rows = match kind {
        LayerKind::Md => MD,
        LayerKind::Dm => DM,
        LayerKind::Loop => LOOP,
        LayerKind::Nbd => NBD,
        LayerKind::Bcache => BCACHE,
        LayerKind::Zram => ZRAM,
        LayerKind::Disk => DISK,
        LayerKind::Partition => PARTITION,
        _ => &[],
    };
    let mut facts: Vec<Fact> =
        rows.iter().chain(QUEUE).filter_map(|row| read_row(dir, *row)).collect();
    facts.extend(scsi_fua(dir));
    if kind == LayerKind::Disk {
        facts.extend(bus_of(dir).map(|bus| Fact::new("bus", bus)));
        facts.extend(scsi_driver(dir).map(|driver| Fact::new("scsi_driver", driver)));
    }
    facts.extend(md_members(dir));
    facts.extend(dm_type(dir));
    facts.extend(partition_start(dir));
    facts
}

fn read_row(dir: &SystemDir, (name, file, form): Row) -> Option<Fact> {
    let value = match form {
        Form::Text => dir.text(file),
        Form::Choice => dir.choice(file),
    };
    value.map(|value| Fact::new(name, value))
}

/// The prefix of a device-mapper identifier names its maker: LVM, CRYPT, mpath.
///
/// The rest of it is left out: it would only identify the machine.
fn dm_type(dir: &SystemDir) -> Option<Fact> {
    let uuid = dir.text("dm/uuid")?;
    let (maker, _) = uuid.split_once('-')?;
    Some(Fact::new("dm_type", maker))
}

fn md_members(dir: &SystemDir) -> impl Iterator<Item = Fact> + '_ {
    let names = dir.names("md").into_iter().filter_map(|name| name.into_string().ok());
    names.filter(|name| name.starts_with("dev-")).filter_map(|name| {
        let state = dir.text(format!("md/{name}/state"))?;
        Some(Fact::new(name.replacen("dev-", "member_", 1), state))
    })
}

fn scsi_fua(dir: &SystemDir) -> Option<Fact> {
    let address = dir.names("device/scsi_disk").into_iter().next()?;
    let fua = dir.join("device/scsi_disk").join(address).text("FUA")?;
    Some(Fact::new("scsi_fua", fua))
}

/// Beginnings of the names of those above a disk, and the bus that they stand for; the first that is
/// found counts, for a USB bridge has a SCSI host below it.
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

/// How the disk is attached, from its place among the kernel's devices.
pub(crate) fn bus_of(dir: &SystemDir) -> Option<&'static str> {
    let path = dir.path().to_string_lossy();
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

fn partition_start(dir: &SystemDir) -> Option<Fact> {
    let start: u64 = dir.contains("partition").then(|| dir.number("start"))??;
    Some(Fact::new("start_bytes", from_sectors(start).get().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn values(facts: &[Fact]) -> Vec<(&str, &str)> {
        facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())).collect()
    }

    #[test]
    fn a_bcache_device_tells_its_mode() {
        let fixture = Fixture::new();
        let mode = "writethrough [writeback] writearound none\n";
        fixture.file("sys/block/bcache0/bcache/cache_mode", mode);
        let facts = layer_facts(LayerKind::Bcache, &fixture.root().join("sys/block/bcache0"));
        assert_eq!(values(&facts), [("cache_mode", "writeback")]);
    }

    #[test]
    fn a_volume_tells_its_maker_and_not_its_identifier() {
        let fixture = Fixture::new();
        fixture.file("sys/block/dm-0/dm/name", "vg-data\n");
        fixture.file("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123456789-data\n");
        let facts = layer_facts(LayerKind::Dm, &fixture.root().join("sys/block/dm-0"));
        assert_eq!(values(&facts), [("dm_name", "vg-data"), ("dm_type", "CRYPT")]);
    }

    #[test]
    fn a_disk_tells_its_bus_and_the_driver_of_its_host() {
        let fixture = Fixture::new();
        let bus_at = |path: &str| bus_of(&fixture.root().join(path));
        let usb = "sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0";
        let sas = "sys/devices/pci0000:00/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0";
        assert_eq!(bus_at(&format!("{usb}/block/sdb")), Some("usb"));
        assert_eq!(bus_at(&format!("{sas}/block/sda")), Some("sas"));
        assert_eq!(bus_at("sys/devices/pci0000:00/ata1/host0/block/sda"), Some("ata"));
        assert_eq!(bus_at("sys/devices/pci0000:00/nvme/nvme0/nvme0n1"), Some("nvme"));
        assert_eq!(bus_at("sys/devices/platform/host3/session1/block/sdc"), Some("iscsi"));
        assert_eq!(bus_at("sys/devices/virtual/block/loop0"), None);
        assert_eq!(bus_at("sys/block/vda"), None);
        fixture.file("sys/devices/pci0/host10/scsi_host/host10/proc_name", "megaraid_sas\n");
        let disk = fixture.root().join("sys/devices/pci0/host10/target10:2:0/block/sda");
        assert_eq!(scsi_driver(&disk).as_deref(), Some("megaraid_sas"));
        assert_eq!(scsi_driver(&fixture.root().join("sys/devices/hosts/sda")), None);
    }

    #[test]
    fn a_backing_file_with_brackets_is_kept_whole() {
        let fixture = Fixture::new();
        fixture.file("sys/block/loop0/loop/backing_file", "/srv/disk[1].img\n");
        let facts = layer_facts(LayerKind::Loop, &fixture.root().join("sys/block/loop0"));
        assert_eq!(values(&facts), [("backing_file", "/srv/disk[1].img")]);
    }
}
