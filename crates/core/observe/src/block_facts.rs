//! The kernel's facts about a block device.
//!
//! Reads a device's directory in sysfs. A partition has few facts: its queue, cache and model are
//! those of the disk below.
//!
//! The kernel joins several controllers of an NVMe namespace into one device. With this native
//! multipath, its default, a namespace lies below its subsystem, and `device` leads there:
//! transport, address and state are those of the controllers (drivers/nvme/host/multipath.c). Paths
//! that are separate devices (dm-multipath) are layers, and not handled here.

use std::path::Path;

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::Fact;
use crate::block_node::{is_numbered, scsi_disk_of};
use crate::system_dir::SystemDir;

/// How many bytes a sector in sysfs is, whatever the device's block size.
const SECTOR: u64 = 512;

/// The bit of the virtio-blk feature by which the hypervisor offers a flush (VIRTIO_BLK_F_FLUSH).
const VIRTIO_BLK_F_FLUSH: usize = 9;

/// Bytes before the text in a page of vital product data.
const VPD_HEADER: usize = 4;

/// What the block layer takes the device's cache for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteCache {
    /// Volatile: syncs are sent to the device as flushes.
    WriteBack,
    /// None, or not volatile: no flush is ever sent.
    WriteThrough,
}

/// The kernel's facts about a block device; absent if it does not show them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockFacts {
    /// Size of the whole device.
    #[serde(rename = "size_bytes")]
    pub size: Option<Bytes>,
    /// The device's own name for itself.
    pub model: Option<String>,
    /// Who made it; a number on virtio.
    pub vendor: Option<String>,
    /// The device's serial number.
    pub serial: Option<String>,
    /// The worldwide name, equal on every host that reaches the device (iSCSI, Fibre Channel, NVMe over
    /// fabrics).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwid: Option<String>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// The block layer's view of the cache, which decides whether flushes are sent.
    pub write_cache: Option<WriteCache>,
    /// The driver's word for the device's own cache (virtio, SCSI), which may differ.
    pub device_write_cache: Option<String>,
    /// The device takes writes that bypass its cache.
    pub fua: Option<bool>,
    /// The device says that it has spinning platters; hypervisors say so of anything.
    pub rotational: Option<bool>,
    /// Made by the kernel rather than found on a bus.
    pub virtual_device: Option<bool>,
    /// The smallest unit of a request.
    #[serde(rename = "logical_block_size_bytes")]
    pub logical_block_size: Option<Bytes>,
    /// The smallest unit that is written without reading first.
    #[serde(rename = "physical_block_size_bytes")]
    pub physical_block_size: Option<Bytes>,
    /// The largest request, in KiB.
    pub max_sectors_kib: Option<u64>,
    /// How many requests the scheduler holds.
    pub nr_requests: Option<u64>,
    pub read_ahead_kib: Option<u64>,
    /// The memory node nearest to the device; also absent if the kernel names none.
    pub numa_node: Option<i32>,
    /// The hypervisor offers a flush; known for virtio-blk only.
    pub virtio_flush: Option<bool>,
    /// The device refuses writes.
    pub read_only: Option<bool>,
    /// The medium can be taken out.
    pub removable: Option<bool>,
}

pub(crate) fn read_block_facts(dir: &SystemDir) -> BlockFacts {
    BlockFacts {
        size: size_of(dir),
        // SD and MMC cards have a name there and no model.
        model: dir.text("device/model").or_else(|| dir.text("device/name")),
        vendor: dir.text("device/vendor"),
        serial: serial_of(dir),
        // NVMe has the first file, SCSI the second.
        wwid: dir.text("wwid").or_else(|| dir.text("device/wwid")),
        scheduler: dir.choice("queue/scheduler"),
        write_cache: match dir.text("queue/write_cache").as_deref() {
            Some("write back") => Some(WriteCache::WriteBack),
            Some("write through") => Some(WriteCache::WriteThrough),
            _ => None,
        },
        device_write_cache: device_write_cache_of(dir),
        fua: dir.flag("queue/fua"),
        rotational: dir.flag("queue/rotational"),
        virtual_device: is_virtual(dir),
        logical_block_size: dir.number("queue/logical_block_size").map(Bytes::new),
        physical_block_size: dir.number("queue/physical_block_size").map(Bytes::new),
        max_sectors_kib: dir.number("queue/max_sectors_kb"),
        nr_requests: dir.number("queue/nr_requests"),
        read_ahead_kib: dir.number("queue/read_ahead_kb"),
        numa_node: numa_node_of(dir),
        virtio_flush: virtio_flush_of(dir),
        read_only: dir.flag("ro"),
        removable: dir.flag("removable"),
    }
}

pub(crate) fn size_of(dir: &SystemDir) -> Option<Bytes> {
    dir.number("size").map(from_sectors)
}

pub(crate) fn from_sectors(sectors: u64) -> Bytes {
    Bytes::new(sectors.saturating_mul(SECTOR))
}

/// The serial number of the block device with this folder in sysfs, such as `/sys/block/sda`.
pub fn device_serial(folder: &Path) -> Option<String> {
    serial_of(&SystemDir::at(folder))
}

/// The serial number, from wherever the bus keeps it.
pub(crate) fn serial_of(dir: &SystemDir) -> Option<String> {
    // virtio-blk has the file at the disk, NVMe and MMC at the controller or card; SCSI shows the
    // raw page of vital product data alone.
    let plain = dir.text("serial").or_else(|| dir.text("device/serial"));
    plain.or_else(|| vpd_text(&dir.bytes("device/vpd_pg80")?))
}

fn vpd_text(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page.get(VPD_HEADER..)?).into_owned();
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    (!text.is_empty()).then(|| text.to_owned())
}

fn device_write_cache_of(dir: &SystemDir) -> Option<String> {
    let virtio = dir.choice("cache_type");
    virtio.or_else(|| scsi_disk_of(dir)?.text("cache_type"))
}

fn is_virtual(dir: &SystemDir) -> Option<bool> {
    let path = dir.path().to_string_lossy();
    // With multipath the kernel puts real NVMe namespaces under a virtual subsystem.
    let nvme = path.contains("/devices/virtual/nvme-subsystem/");
    // A directory outside of the device tree says neither.
    path.contains("/devices/").then(|| path.contains("/devices/virtual/") && !nvme)
}

fn numa_node_of(dir: &SystemDir) -> Option<i32> {
    let within_sysfs = dir.ancestors().take_while(|above| above.name() != "devices");
    let node: i32 = within_sysfs.into_iter().find_map(|above| above.number("numa_node"))?;
    // -1 is NUMA_NO_NODE: the firmware does not say where the device is.
    (node >= 0).then_some(node)
}

fn virtio_flush_of(dir: &SystemDir) -> Option<bool> {
    if !dir.name().starts_with("vd") {
        return None;
    }
    let features = dir.text("device/features")?;
    // The file is a string of digits, bit 0 first (features_show in drivers/virtio/virtio.c).
    features.as_bytes().get(VIRTIO_BLK_F_FLUSH).map(|bit| *bit == b'1')
}

// Beginnings of models, by the documents of Amazon EC2, Google Compute Engine and Azure about disks. The
// first that fits is taken: a volume's `nvme_card-pd` begins with the local disk's `nvme_card`.
const CLOUD_MODELS: [(&str, CloudProvider, CloudDisk); 9] = [
    ("Amazon Elastic Block Store", CloudProvider::Amazon, CloudDisk::Volume),
    ("nvme_card-pd", CloudProvider::Google, CloudDisk::Volume),
    ("PersistentDisk", CloudProvider::Google, CloudDisk::Volume),
    ("MSFT NVMe Accelerator", CloudProvider::Azure, CloudDisk::Volume),
    ("Msft Virtual Disk", CloudProvider::Azure, CloudDisk::Volume),
    ("Amazon EC2 NVMe Instance Storage", CloudProvider::Amazon, CloudDisk::Local),
    ("nvme_card", CloudProvider::Google, CloudDisk::Local),
    ("EphemeralDisk", CloudProvider::Google, CloudDisk::Local),
    ("Microsoft NVMe Direct Disk", CloudProvider::Azure, CloudDisk::Local),
];

/// The cloud that a disk belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudProvider {
    Amazon,
    Google,
    Azure,
}

/// What a cloud gives a virtual machine as a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloudDisk {
    /// A disk of the host: its content survives a reboot, and not a stop.
    Local,
    /// A volume of replicated storage.
    Volume,
}

impl CloudProvider {
    /// The provider and its kind of disk, by the names that it gives its disks; none if no known cloud
    /// uses the names.
    pub fn of_disk(vendor: &str, model: &str) -> Option<(Self, CloudDisk)> {
        // SCSI pads vendors with blanks, and Azure's model alone is a plain `Virtual Disk`.
        let both = format!("{} {model}", vendor.trim());
        let fits = |known: &str| model.starts_with(known) || both.trim_end() == known;
        let known = CLOUD_MODELS.iter().find(|(known, ..)| fits(known));
        known.map(|(_, provider, disk)| (*provider, *disk))
    }
}

impl CloudDisk {
    /// The kind of disk, by the names that its provider gives it; none if no known cloud uses the
    /// names.
    pub fn of(vendor: &str, model: &str) -> Option<Self> {
        CloudProvider::of_disk(vendor, model).map(|(_, disk)| disk)
    }
}

/// A way to a namespace.
pub(crate) struct NvmePath {
    /// `nvme1c2n1`; the controller's name where the kernel shows no path.
    name: String,
    pub(crate) controller: SystemDir,
    /// Which of several paths are good (ANA), if the subsystem reports it.
    access: Option<String>,
}

/// The paths to a namespace below a subsystem; none for other devices.
pub(crate) fn nvme_paths(dir: &SystemDir) -> Vec<NvmePath> {
    let subsystem =
        dir.follow("device").filter(|subsystem| subsystem.name().starts_with("nvme-subsys"));
    let Some(subsystem) = subsystem else { return Vec::new() };
    let name = dir.name();
    let Some((head, namespace)) = name.rsplit_once('n') else { return Vec::new() };
    let is_path = |name: &String| {
        let rest = name.strip_prefix(head).and_then(|rest| rest.strip_prefix('c'));
        rest.and_then(|rest| rest.rsplit_once('n')).is_some_and(|(_, number)| number == namespace)
    };
    let controllers = subsystem.names("").into_iter().filter(|name| is_numbered(name, "nvme"));
    let way = |controller: SystemDir| {
        let path = controller.names("").into_iter().find(is_path);
        let access = path.as_ref().and_then(|path| controller.text(format!("{path}/ana_state")));
        NvmePath { name: path.unwrap_or_else(|| controller.name()), controller, access }
    };
    let mut ways: Vec<NvmePath> =
        controllers.filter_map(|name| subsystem.follow(name)).map(way).collect();
    // A controller of the subsystem need not lead to each of its namespaces.
    if ways.iter().any(|way| is_path(&way.name)) {
        ways.retain(|way| is_path(&way.name));
    }
    ways
}

/// Transport and state of all ways, and of several each by itself.
pub(crate) fn path_facts(dir: &SystemDir, ways: &[NvmePath]) -> Vec<Fact> {
    let of_all = |file: &str| {
        let mut values: Vec<String> =
            ways.iter().filter_map(|way| way.controller.text(file)).collect();
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then(|| values.join(", "))
    };
    let mut facts = Fact::known([("transport", of_all("transport")), ("state", of_all("state"))]);
    match ways {
        [] => {}
        [only] => facts.extend(Fact::known([("address", only.controller.text("address"))])),
        _ => {
            facts.push(Fact::new("paths", ways.len().to_string()));
            facts.extend(Fact::known([("path_policy", dir.text("device/iopolicy"))]));
            facts.extend(ways.iter().map(|way| {
                let words = ["transport", "state", "address"].map(|file| way.controller.text(file));
                let words = words.into_iter().chain([way.access.clone()]).flatten();
                let text = words.collect::<Vec<_>>().join(", ");
                Fact::new(format!("path_{}", way.name), text)
            }));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::Fixture;

    #[test]
    fn a_volume_is_no_local_disk_though_its_model_begins_like_one() {
        let found = |vendor, model| CloudDisk::of(vendor, model);
        assert_eq!(found("", "nvme_card-pd"), Some(CloudDisk::Volume));
        assert_eq!(found("", "nvme_card3"), Some(CloudDisk::Local));
        assert_eq!(found("Google  ", "EphemeralDisk   "), Some(CloudDisk::Local));
        assert_eq!(found("Msft    ", "Virtual Disk    "), Some(CloudDisk::Volume));
        assert_eq!(found("", "Virtual Disk"), None);
    }

    #[test]
    fn a_cloud_s_disk_names_its_provider() {
        use CloudProvider::{Amazon, Azure, Google};
        let found = |vendor, model| CloudProvider::of_disk(vendor, model);
        for (vendor, model, expected) in [
            ("", "Amazon Elastic Block Store", Some((Amazon, CloudDisk::Volume))),
            ("", "Amazon EC2 NVMe Instance Storage", Some((Amazon, CloudDisk::Local))),
            ("Google  ", "PersistentDisk  ", Some((Google, CloudDisk::Volume))),
            ("", "nvme_card-pd", Some((Google, CloudDisk::Volume))),
            ("", "nvme_card", Some((Google, CloudDisk::Local))),
            ("", "MSFT NVMe Accelerator v1.0", Some((Azure, CloudDisk::Volume))),
            ("", "Microsoft NVMe Direct Disk", Some((Azure, CloudDisk::Local))),
            ("ATA", "Samsung SSD 850", None),
        ] {
            assert_eq!(found(vendor, model), expected, "{vendor} {model}");
        }
    }

    #[test]
    fn an_empty_directory_has_no_facts() {
        let fixture = Fixture::new();
        let facts = read_block_facts(&fixture.root());
        assert_eq!(facts, BlockFacts::default());
    }

    #[test]
    fn a_virtio_disk_tells_whether_it_can_flush() {
        let fixture = Fixture::new();
        let dir = fixture.virtio_disk("vda", "254:0");
        let facts = read_block_facts(&dir);
        assert_eq!(facts.virtio_flush, Some(true));
        assert_eq!(facts.device_write_cache.as_deref(), Some("write back"));
        assert_eq!(facts.write_cache, Some(WriteCache::WriteBack));
        assert_eq!(facts.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(facts.size, Some(Bytes::from_gib(1)));
        assert_eq!((facts.virtual_device, facts.fua), (Some(false), Some(false)));
        fixture.file("sys/devices/pci0000:00/virtio1/features", "0010000000\n");
        assert_eq!(read_block_facts(&dir).virtio_flush, Some(false));
    }

    #[test]
    fn a_scsi_disk_tells_its_own_cache_and_serial() {
        let fixture = Fixture::new();
        let dir = fixture.scsi_disk("sda", "8:0");
        let facts = read_block_facts(&dir);
        assert_eq!(facts.device_write_cache.as_deref(), Some("write through"));
        assert_eq!(facts.write_cache, Some(WriteCache::WriteBack));
        assert_eq!(facts.serial.as_deref(), Some("S3RIAL"));
        assert_eq!((facts.numa_node, facts.virtio_flush), (Some(1), None));
        assert_eq!(facts.wwid, None);
        let place = |file: &str| dir.path().join(file);
        std::fs::write(place("device/wwid"), "naa.6001405a\n").unwrap();
        assert_eq!(read_block_facts(&dir).wwid.as_deref(), Some("naa.6001405a"));
        std::fs::write(place("wwid"), "uuid.1-2\n").unwrap();
        assert_eq!(read_block_facts(&dir).wwid.as_deref(), Some("uuid.1-2"));
    }

    #[test]
    fn an_nvme_namespace_behind_multipath_is_not_virtual() {
        let fixture = Fixture::new();
        let path = "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
        fixture.file(&format!("{path}/size"), "8\n");
        let facts = read_block_facts(&fixture.root().join(path));
        assert_eq!(facts.virtual_device, Some(false));
        let loop_dir = fixture.root().join("sys/devices/virtual/block/loop0");
        assert_eq!(read_block_facts(&loop_dir).virtual_device, Some(true));
    }

    #[test]
    fn memory_nodes_are_numbers_from_zero_on() {
        let fixture = Fixture::new();
        fixture.file("sys/devices/pci0/numa_node", "-1\n");
        fixture.file("sys/devices/pci0/block/vda/size", "8\n");
        assert_eq!(numa_node_of(&fixture.root().join("sys/devices/pci0/block/vda")), None);
        fixture.file("sys/devices/pci0/numa_node", "0\n");
        assert_eq!(numa_node_of(&fixture.root().join("sys/devices/pci0/block/vda")), Some(0));
    }

    const SUBSYSTEM: &str = "sys/devices/virtual/nvme-subsystem/nvme-subsys1";

    /// A controller of the subsystem, and its path to a namespace.
    fn controller(fixture: &Fixture, name: &str, path: Option<&str>, facts: [&str; 3]) {
        let dir = format!("sys/devices/virtual/nvme-fabrics/ctl/{name}");
        let [transport, state, address] = facts;
        fixture.files(&dir, &[("transport", transport), ("state", state), ("address", address)]);
        if let Some((path, access)) = path.and_then(|path| path.split_once(' ')) {
            fixture.file(&format!("{dir}/{path}/ana_state"), access);
        }
        fixture.link(&format!("{SUBSYSTEM}/{name}"), &dir);
    }

    fn head(fixture: &Fixture) -> SystemDir {
        let path = format!("{SUBSYSTEM}/nvme1n2");
        let dir = fixture.block(&path, "259:2");
        fixture.files(SUBSYSTEM, &[("iopolicy", "round-robin")]);
        fixture.link(&format!("{path}/device"), SUBSYSTEM);
        dir
    }

    fn lines(dir: &SystemDir) -> Vec<String> {
        let facts = path_facts(dir, &nvme_paths(dir));
        facts.iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn each_controller_that_leads_to_a_namespace_is_a_path() {
        let fixture = Fixture::new();
        let dir = head(&fixture);
        let of = |name, path, transport, state, address| {
            controller(&fixture, name, path, [transport, state, address]);
        };
        of("nvme3", Some("nvme1c3n2 optimized"), "tcp", "live", "traddr=192.0.2.3");
        of("nvme5", Some("nvme1c5n2 inaccessible"), "rdma", "connecting", "traddr=192.0.2.5");
        // It leads to another namespace alone.
        of("nvme7", Some("nvme1c7n12 optimized"), "fc", "live", "traddr=nn-7");
        assert_eq!(
            lines(&dir),
            [
                "transport=rdma, tcp",
                "state=connecting, live",
                "paths=2",
                "path_policy=round-robin",
                "path_nvme1c3n2=tcp, live, traddr=192.0.2.3, optimized",
                "path_nvme1c5n2=rdma, connecting, traddr=192.0.2.5, inaccessible",
            ]
        );
    }

    #[test]
    fn one_controller_is_no_path_of_several() {
        let fixture = Fixture::new();
        let dir = head(&fixture);
        controller(&fixture, "nvme1", None, ["pcie", "live", "0000:02:00.0"]);
        assert_eq!(lines(&dir), ["transport=pcie", "state=live", "address=0000:02:00.0"]);
        // A namespace that stands below its controller has none.
        assert!(nvme_paths(&fixture.nvme_disk("nvme0n1", "259:0")).is_empty());
    }
}
