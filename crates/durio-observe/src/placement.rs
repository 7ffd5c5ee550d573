//! Where a device stands: the offset of a partition against the blocks below, the link to the bus,
//! the driver, and the module's settings where the device is made by one.
//!
//! In: the device's directory in sysfs. Out: named values. Not here: what is behind a link.

use crate::Fact;
use crate::block_facts::from_sectors;
use crate::layer::LayerKind;
use crate::system_dir::SystemDir;

/// What partitions are aligned to by convention.
const MIB: u64 = 1 << 20;

/// The facts of a block layer that follow from where it stands.
pub(crate) fn placement(root: &SystemDir, kind: LayerKind, dir: &SystemDir) -> Vec<Fact> {
    match kind {
        LayerKind::Partition => alignment(dir),
        LayerKind::Disk => {
            let mut facts = link(dir);
            facts.extend(driver(dir).map(|driver| Fact::new("driver", driver)));
            facts.extend(hardware_queues(dir));
            facts.extend(null_block(root, dir));
            facts
        }
        _ => Vec::new(),
    }
}

/// What is left of a partition's start over whole blocks of the disk, over its optimal requests, and
/// over MiB; zero is aligned.
fn alignment(dir: &SystemDir) -> Vec<Fact> {
    let Some(start) = dir.number("start").map(|sectors| from_sectors(sectors).get()) else {
        return Vec::new();
    };
    let of_disk = |file: &str| dir.join("..").number::<u64>(format!("queue/{file}"));
    let boundaries = [
        ("start_modulo_physical_block_bytes", of_disk("physical_block_size")),
        ("start_modulo_optimal_io_bytes", of_disk("optimal_io_size")),
        ("start_modulo_mib_bytes", Some(MIB)),
    ];
    let known = boundaries.into_iter().filter_map(|(name, boundary)| Some((name, boundary?)));
    // An optimal size of zero is one that the device does not tell.
    known
        .filter(|(_, boundary)| *boundary > 0)
        .map(|(name, boundary)| Fact::new(name, (start % boundary).to_string()))
        .collect()
}

const LINK: [(&str, &str); 4] = [
    ("pcie_link_speed", "current_link_speed"),
    ("pcie_link_speed_max", "max_link_speed"),
    ("pcie_link_width", "current_link_width"),
    ("pcie_link_width_max", "max_link_width"),
];

/// The PCIe link nearest to the device: that of the NVMe or of the host adapter before it.
fn link(dir: &SystemDir) -> Vec<Fact> {
    let within_sysfs = dir.ancestors().take_while(|above| above.name() != "devices");
    // A function inside of the root complex has no link, and the kernel says so in its way.
    let has_link = |above: &SystemDir| {
        above.text("current_link_speed").is_some_and(|speed| speed != "Unknown")
    };
    let linked = within_sysfs.into_iter().find(has_link);
    let Some(linked) = linked else { return Vec::new() };
    let read = |(name, file)| Some(Fact::new(name, linked.text(file)?));
    let mut facts = vec![Fact::new("pci_address", linked.name())];
    facts.extend(LINK.into_iter().filter_map(read));
    facts
}

/// Beginnings of names of devices that no bus shows a driver of.
const MADE: [(&str, &str); 3] = [("nullb", "null_blk"), ("ublkb", "ublk"), ("rbd", "rbd")];

/// The driver of the device, or of the controller that it is a namespace of.
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

fn hardware_queues(dir: &SystemDir) -> Option<Fact> {
    let count = dir.names("mq").len();
    (count > 0).then(|| Fact::new("hardware_queues", count.to_string()))
}

/// Settings of null_blk that decide what its figures mean.
const NULL_BLOCK: [&str; 5] =
    ["memory_backed", "completion_nsec", "irqmode", "queue_mode", "cache_size"];

/// Of a device that was made by configfs, its own; else those of the module, which may have changed
/// since it was made.
fn null_block(root: &SystemDir, dir: &SystemDir) -> Vec<Fact> {
    if !dir.name().starts_with("nullb") {
        return Vec::new();
    }
    let own = root.join("sys/kernel/config/nullb").join(dir.name());
    let module = root.join("sys/module/null_blk/parameters");
    let place = if own.contains("power") { own } else { module };
    let read = |file| Some(Fact::new(format!("null_{file}"), place.text(file)?));
    NULL_BLOCK.iter().copied().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn lines(facts: &[Fact]) -> Vec<String> {
        facts.iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn a_partition_tells_what_is_left_over_of_its_start() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        let dir = fixture.partition("sda", "sda1", "8:1", 1);
        let disk = fixture.path_of("sda");
        fixture.file(&format!("{disk}/queue/physical_block_size"), "4096\n");
        fixture.file(&format!("{disk}/queue/optimal_io_size"), "0\n");
        let facts = || lines(&placement(&fixture.root(), LayerKind::Partition, &dir));
        assert_eq!(facts(), ["start_modulo_physical_block_bytes=0", "start_modulo_mib_bytes=0"]);
        fixture.file(&format!("{disk}/sda1/start"), "63\n");
        fixture.file(&format!("{disk}/queue/optimal_io_size"), "65536\n");
        let expected = [
            "start_modulo_physical_block_bytes=3584",
            "start_modulo_optimal_io_bytes=32256",
            "start_modulo_mib_bytes=32256",
        ];
        assert_eq!(facts(), expected);
    }

    #[test]
    fn a_namespace_tells_the_link_and_the_driver_of_its_controller() {
        let fixture = Fixture::new();
        let dir = fixture.nvme_disk("nvme0n1", "259:0");
        let bus = "sys/devices/pci0000:02";
        fixture.file(&format!("{bus}/current_link_speed"), "8.0 GT/s PCIe\n");
        fixture.file(&format!("{bus}/max_link_width"), "4\n");
        fixture.link(&format!("{bus}/nvme/nvme0/device"), bus);
        fixture.link(&format!("{bus}/driver"), "sys/bus/pci/drivers/nvme");
        fixture.file(&format!("{}/mq/0/nr_tags", fixture.path_of("nvme0n1")), "1023\n");
        let expected = [
            "pci_address=pci0000:02",
            "pcie_link_speed=8.0 GT/s PCIe",
            "pcie_link_width_max=4",
            "driver=nvme",
            "hardware_queues=1",
        ];
        assert_eq!(lines(&placement(&fixture.root(), LayerKind::Disk, &dir)), expected);
    }

    #[test]
    fn a_null_device_tells_its_own_settings_before_those_of_the_module() {
        let fixture = Fixture::new();
        let dir = fixture.block("sys/devices/virtual/block/nullb0", "252:0");
        fixture.file("sys/module/null_blk/parameters/completion_nsec", "10000\n");
        let facts = || lines(&placement(&fixture.root(), LayerKind::Disk, &dir));
        assert_eq!(facts(), ["driver=null_blk", "null_completion_nsec=10000"]);
        fixture.file("sys/kernel/config/nullb/nullb0/power", "1\n");
        fixture.file("sys/kernel/config/nullb/nullb0/memory_backed", "1\n");
        assert_eq!(facts(), ["driver=null_blk", "null_memory_backed=1"]);
        let other = fixture.block("sys/devices/virtual/block/nullbox", "252:1");
        assert_eq!(driver(&other), None);
    }
}
