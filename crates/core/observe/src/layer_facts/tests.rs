//! What each kind of block layer tells of itself, and no other.

use super::*;
use crate::tests::fixture::Fixture;

fn values(facts: &[Fact]) -> Vec<(&str, &str)> {
    facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())).collect()
}

fn facts_of(fixture: &Fixture, kind: LayerKind, path: &str) -> Vec<Fact> {
    layer_facts(&fixture.root(), kind, &fixture.root().join(path))
}

#[test]
fn a_bcache_device_tells_its_mode() {
    let fixture = Fixture::new();
    let mode = "writethrough [writeback] writearound none\n";
    fixture.file("sys/block/bcache0/bcache/cache_mode", mode);
    let facts = facts_of(&fixture, LayerKind::Bcache, "sys/block/bcache0");
    assert_eq!(values(&facts), [("cache_mode", "writeback")]);
}

#[test]
fn a_volume_tells_its_maker_and_not_its_identifier() {
    let fixture = Fixture::new();
    fixture.file("sys/block/dm-0/dm/name", "vg-data\n");
    fixture.file("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-0123456789-data\n");
    let facts = facts_of(&fixture, LayerKind::Dm, "sys/block/dm-0");
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
    let facts = facts_of(&fixture, LayerKind::Loop, "sys/block/loop0");
    assert_eq!(values(&facts), [("backing_file", "/srv/disk[1].img")]);
}

#[test]
fn layouts_of_ten_are_written_as_their_makers_write_them() {
    let rows = [
        (0x102, Some("n2")),
        (0x103, Some("n3")),
        (0x201, Some("f2")),
        (0x1_0201, Some("o2")),
        (0x2_0201, Some("f2")),
        (0x202, Some("n2f2")),
        (0, None),
        (0x101, Some("n1")),
    ];
    for (layout, words) in rows {
        assert_eq!(raid10(layout).as_deref(), words, "{layout:#x}");
    }
}

#[test]
fn an_array_tells_its_layout_and_its_members() {
    let fixture = Fixture::new();
    for (file, content) in [
        ("level", "raid5"),
        ("layout", "2"),
        ("dev-sda/slot", "0"),
        ("dev-sda/errors", "0"),
        ("dev-sdb/slot", "none"),
        ("dev-sdb/errors", "7"),
    ] {
        fixture.file(&format!("sys/block/md0/md/{file}"), format!("{content}\n"));
    }
    let facts = md_facts(&fixture.root().join("sys/block/md0"));
    let expected = [
        Fact::new("layout_words", "left-symmetric"),
        Fact::new("slot_sda", "0"),
        Fact::new("slot_sdb", "none"),
        Fact::new("errors_sdb", "7"),
    ];
    assert_eq!(facts, expected);
}

#[test]
fn a_level_without_layouts_tells_none() {
    let fixture = Fixture::new();
    fixture.file("sys/block/md0/md/level", "raid1\n");
    fixture.file("sys/block/md0/md/layout", "0\n");
    assert_eq!(md_facts(&fixture.root().join("sys/block/md0")), []);
    fixture.file("sys/block/md0/md/level", "raid5\n");
    fixture.file("sys/block/md0/md/layout", "99\n");
    assert_eq!(md_facts(&fixture.root().join("sys/block/md0")), []);
}

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
    let facts = || lines(&alignment(&dir));
    let expected =
        ["start_bytes=1048576", "start_modulo_physical_block_bytes=0", "start_modulo_mib_bytes=0"];
    assert_eq!(facts(), expected);
    fixture.file(&format!("{disk}/sda1/start"), "63\n");
    fixture.file(&format!("{disk}/queue/optimal_io_size"), "65536\n");
    let expected = [
        "start_bytes=32256",
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
        "bus=nvme",
        "pci_address=pci0000:02",
        "pcie_link_speed=8.0 GT/s PCIe",
        "pcie_link_width_max=4",
        "driver=nvme",
        "hardware_queues=1",
    ];
    assert_eq!(lines(&disk_facts(&fixture.root(), &dir)), expected);
}

#[test]
fn a_null_device_tells_its_own_settings_before_those_of_the_module() {
    let fixture = Fixture::new();
    let dir = fixture.block("sys/devices/virtual/block/nullb0", "252:0");
    fixture.file("sys/module/null_blk/parameters/completion_nsec", "10000\n");
    let facts = || lines(&disk_facts(&fixture.root(), &dir));
    assert_eq!(facts(), ["driver=null_blk", "null_completion_nsec=10000"]);
    fixture.file("sys/kernel/config/nullb/nullb0/power", "1\n");
    fixture.file("sys/kernel/config/nullb/nullb0/memory_backed", "1\n");
    assert_eq!(facts(), ["driver=null_blk", "null_memory_backed=1"]);
    let other = fixture.block("sys/devices/virtual/block/nullbox", "252:1");
    assert_eq!(driver(&other), None);
}

/// The numbers are those of the kernel's `drivers/md/raid5.h` and `raid0.h`.
#[test]
fn layouts_of_parity_and_of_stripes_have_the_names_of_their_numbers() {
    let rows = [
        (0, Some("left-asymmetric")),
        (1, Some("right-asymmetric")),
        (2, Some("left-symmetric")),
        (3, Some("right-symmetric")),
        (4, Some("parity-first")),
        (5, Some("parity-last")),
        (6, None),
        (7, None),
        (8, Some("ddf-zero-restart")),
        (9, Some("ddf-N-restart")),
        (10, Some("ddf-N-continue")),
        (11, None),
        (15, None),
        (16, Some("left-asymmetric-6")),
        (17, Some("right-asymmetric-6")),
        (18, Some("left-symmetric-6")),
        (19, Some("right-symmetric-6")),
        (20, Some("parity-first-6")),
        (21, None),
    ];
    for (layout, words) in rows {
        assert_eq!(parity(layout), words, "{layout}");
    }
    let stripes = [0, 1, 2, 3].map(raid0);
    assert_eq!(stripes, [None, Some("original"), Some("alternate"), None]);
}

#[test]
fn a_layout_is_read_as_its_level_means_it() {
    let rows = [
        ("raid4", "5", Some("parity-last")),
        ("raid5", "3", Some("right-symmetric")),
        ("raid6", "18", Some("left-symmetric-6")),
        ("raid10", "258", Some("n2")),
        ("raid0", "2", Some("alternate")),
        ("linear", "2", None),
    ];
    for (level, layout, words) in rows {
        let fixture = Fixture::new();
        fixture.files("sys/block/md0/md", &[("level", level), ("layout", layout)]);
        let told = layout_words(&fixture.root().join("sys/block/md0"));
        assert_eq!(told.as_deref(), words, "{level} {layout}");
    }
}

#[test]
fn the_first_bus_above_a_disk_is_told() {
    let fixture = Fixture::new();
    let rows = [
        ("pci0000:00/0000:00:05.0/virtio2/block/vda", Some("virtio")),
        ("platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", Some("mmc")),
        ("pci0000:00/host3/rport-3:0-0/target3:0:0/block/sda", Some("fibre-channel")),
        ("pci0000:00/ata3/host2/target2:0:0/block/sda", Some("ata")),
        // A word that only begins like a bus is none.
        ("platform/usbnet/block/sda", None),
        ("platform/sessions/block/sda", None),
    ];
    for (place, bus) in rows {
        let dir = fixture.root().join(format!("sys/devices/{place}"));
        assert_eq!(bus_of(&dir), bus, "{place}");
    }
}

#[test]
fn each_kind_tells_what_is_in_its_own_files() {
    let fixture = Fixture::new();
    let dir = "sys/block/x";
    let rows = [
        ("loop/backing_file", "/srv/a b.img"),
        ("loop/dio", "1"),
        ("loop/offset", "1048576"),
        ("loop/sizelimit", "512"),
        ("loop/autoclear", "0"),
        ("pid", "4711"),
        ("backend", "backup"),
        ("comp_algorithm", "lzo [zstd] lz4"),
        ("backing_dev", "/dev/sdb"),
        ("disksize", "8589934592"),
        ("bcache/cache_mode", "writethrough [writearound] none"),
        ("bcache/state", "dirty"),
        ("bcache/dirty_data", "3.5M"),
        ("bcache/sequential_cutoff", "4.0M"),
        ("partition", "3"),
        ("alignment_offset", "3072"),
    ];
    fixture.files(dir, &rows);
    let told: [(LayerKind, &[&str]); 5] = [
        (
            LayerKind::Loop,
            &[
                "backing_file=/srv/a b.img",
                "dio=1",
                "offset=1048576",
                "sizelimit=512",
                "autoclear=0",
            ],
        ),
        (LayerKind::Nbd, &["pid=4711", "backend=backup"]),
        (LayerKind::Zram, &["comp_algorithm=zstd", "backing_dev=/dev/sdb", "disksize=8589934592"]),
        (
            LayerKind::Bcache,
            &["cache_mode=writearound", "state=dirty", "dirty_data=3.5M", "sequential_cutoff=4.0M"],
        ),
        (LayerKind::Partition, &["partition=3", "alignment_offset=3072"]),
    ];
    for (kind, expected) in told {
        assert_eq!(lines(&facts_of(&fixture, kind, dir)), expected, "{kind:?}");
    }
}
