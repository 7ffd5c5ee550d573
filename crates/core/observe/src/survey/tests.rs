//! The walk over made-up machines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::*;
use crate::device_probe::CopiedDevices;
use crate::tests::fixture::Fixture;
use crate::{StackErrorKind, WriteCache, leaf_devices};

const ROOT_ON_VDA1: &str = "27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw,discard\n";

fn survey(fixture: &Fixture, path: impl AsRef<Path>) -> Stack {
    let (root, identify) = (fixture.root(), fixture.identify());
    Survey::new(ObservedSystem { root: &root, identify: &identify }, &CopiedDevices(&root))
        .stack(path.as_ref())
        .unwrap()
}

fn outline(stack: &Stack) -> Vec<String> {
    let line = |(depth, layer): (usize, &Layer)| format!("{depth} {:?} {}", layer.kind, layer.name);
    stack.walk().map(line).collect()
}

fn virtio_machine() -> Fixture {
    let fixture = Fixture::new();
    fixture.virtio_disk("vda", "254:0");
    fixture.partition("vda", "vda1", "254:1", 1);
    fixture.mounts(ROOT_ON_VDA1);
    fixture
}

#[test]
fn ext4_on_a_virtio_partition_leads_to_the_disk() {
    let fixture = virtio_machine();
    fixture.knows("/srv/db", FileKind::Regular, "254:1", Some(27));
    let stack = survey(&fixture, "/srv/db");
    let expected = ["0 File /srv/db", "1 Filesystem /", "2 Partition vda1", "3 Disk vda"];
    assert_eq!(outline(&stack), expected);
    assert_eq!(leaf_devices(&stack), ["vda"]);
    let facts = stack.filesystem().unwrap();
    assert_eq!((facts.fs_type.as_str(), facts.source.as_str()), ("ext4", "/dev/vda1"));
    assert_eq!(facts.relevant_options, ["relatime", "discard"]);
    assert!(!facts.memory_backed && !facts.read_only);
    let partition = &stack.root.below[0].below[0];
    assert_eq!(partition.device.as_deref(), Some("254:1"));
    assert_eq!(partition.fact("start_bytes"), Some("1048576"));
    assert_eq!(partition.block.as_ref().unwrap().write_cache, None);
    let disk = partition.below[0].block.as_ref().unwrap();
    assert_eq!(disk.write_cache, Some(WriteCache::WriteBack));
}

#[test]
fn xfs_on_a_mirror_of_nvme_partitions_leads_to_both() {
    let fixture = Fixture::new();
    for (disk, partition, numbers) in
        [("nvme0n1", "nvme0n1p1", ["259:0", "259:1"]), ("nvme1n2", "nvme1n2p1", ["259:2", "259:3"])]
    {
        fixture.nvme_disk(disk, numbers[0]);
        fixture.partition(disk, partition, numbers[1], 1);
    }
    fixture.mirror("md0", "9:0", &["nvme0n1p1", "nvme1n2p1"]);
    fixture.mounts("50 1 9:0 / /data rw,noatime - xfs /dev/md0 rw,logbsize=256k,noquota\n");
    fixture.knows("/data", FileKind::Directory, "9:0", None);
    let stack = survey(&fixture, "/data");
    let expected = [
        "0 Directory /data",
        "1 Filesystem /data",
        "2 Md md0",
        "3 Partition nvme0n1p1",
        "4 Disk nvme0n1",
        "3 Partition nvme1n2p1",
        "4 Disk nvme1n2",
    ];
    assert_eq!(outline(&stack), expected);
    assert_eq!(leaf_devices(&stack), ["nvme0n1", "nvme1n2"]);
    let md = &stack.root.below[0].below[0];
    assert_eq!(md.fact("consistency_policy"), Some("bitmap"));
    assert_eq!(md.fact("bitmap"), Some("+8"));
    assert_eq!(md.fact("member_nvme0n1p1"), Some("in_sync"));
    let disk = &md.below[1].below[0];
    assert_eq!(disk.block.as_ref().unwrap().model.as_deref(), Some("FASTDISK 3000"));
    assert_eq!(disk.fact("transport"), Some("pcie"));
}

#[test]
fn a_logical_volume_leads_to_its_disk() {
    let fixture = Fixture::new();
    fixture.scsi_disk("sda", "8:0");
    fixture.volume("dm-0", "253:0", "vg-data", &["sda"]);
    fixture.mounts("50 1 253:0 / /data rw - ext4 /dev/mapper/vg-data rw,nobarrier\n");
    fixture.knows("/data/x", FileKind::Regular, "253:0", Some(50));
    let stack = survey(&fixture, "/data/x");
    let expected = ["0 File /data/x", "1 Filesystem /data", "2 Dm dm-0", "3 Disk sda"];
    assert_eq!(outline(&stack), expected);
    let volume = &stack.root.below[0].below[0];
    assert_eq!(volume.fact("dm_name"), Some("vg-data"));
    assert_eq!(volume.fact("dm_type"), Some("LVM"));
}

#[test]
fn a_loop_device_leads_to_the_file_and_on_to_its_disk() {
    let fixture = virtio_machine();
    fixture.loop_device("loop3", "7:3", "/srv/disk.img");
    fixture.knows_block("/dev/loop3", "7:3");
    fixture.knows("/srv/disk.img", FileKind::Regular, "254:1", Some(27));
    let stack = survey(&fixture, "/dev/loop3");
    let expected = [
        "0 Loop loop3",
        "1 File /srv/disk.img",
        "2 Filesystem /",
        "3 Partition vda1",
        "4 Disk vda",
    ];
    assert_eq!(outline(&stack), expected);
    assert_eq!(leaf_devices(&stack), ["vda"]);
    assert_eq!(stack.root.fact("dio"), Some("1"));
}

#[test]
fn a_loop_device_on_a_removed_file_is_the_lowest_device() {
    let fixture = virtio_machine();
    fixture.loop_device("loop3", "7:3", "/srv/disk.img (deleted)");
    fixture.knows_block("/dev/loop3", "7:3");
    let stack = survey(&fixture, "/dev/loop3");
    assert_eq!(outline(&stack), ["0 Loop loop3", "1 Unknown /srv/disk.img (deleted)"]);
    assert_eq!(leaf_devices(&stack), ["loop3"]);
}

#[test]
fn btrfs_has_an_anonymous_device_and_leads_to_all_its_members() {
    let fixture = Fixture::new();
    fixture.scsi_disk("sda", "8:0");
    fixture.scsi_disk("sdb", "8:16");
    fixture.mounts("60 1 0:44 /@db /data rw - btrfs /dev/sda rw,compress=zstd:3,subvol=/@db\n");
    fixture.knows("/data/x", FileKind::Regular, "0:51", Some(60));
    fixture.knows_block("/dev/sda", "8:0");
    let stack = survey(&fixture, "/data/x");
    assert_eq!(outline(&stack)[1..], ["1 Filesystem /data", "2 Disk sda"]);
    assert_eq!(stack.filesystem().unwrap().relevant_options, ["compress=zstd:3"]);

    for name in ["sda", "sdb"] {
        fixture.link(&format!("sys/fs/btrfs/0bee-f/devices/{name}"), &fixture.path_of(name));
    }
    assert_eq!(leaf_devices(&survey(&fixture, "/data/x")), ["sda", "sdb"]);
}

#[test]
fn an_overlay_leads_to_the_filesystem_of_its_upper_directory() {
    let fixture = virtio_machine();
    let options = "rw,lowerdir=/l1:/l2,upperdir=/var/up\\040per,workdir=/var/work,volatile";
    let overlay = format!("70 27 0:60 / /merged rw - overlay overlay {options}\n");
    fixture.mounts(format!("{ROOT_ON_VDA1}{overlay}"));
    fixture.knows("/merged/x", FileKind::Regular, "0:60", Some(70));
    fixture.knows("/var/up per", FileKind::Directory, "254:1", Some(27));
    let stack = survey(&fixture, "/merged/x");
    let expected = [
        "0 File /merged/x",
        "1 Overlay /merged",
        "2 Directory /var/up per",
        "3 Filesystem /",
        "4 Partition vda1",
        "5 Disk vda",
    ];
    assert_eq!(outline(&stack), expected);
    let relevant = &stack.filesystem().unwrap().relevant_options;
    assert_eq!(relevant.last().map(String::as_str), Some("volatile"));
}

#[test]
fn an_overlay_whose_upper_directory_is_out_of_sight_ends_unknown() {
    let fixture = Fixture::new();
    fixture.mounts("70 27 0:60 / / rw - overlay overlay rw,upperdir=/host/up\n");
    fixture.knows("/", FileKind::Directory, "0:60", Some(70));
    let stack = survey(&fixture, "/");
    assert_eq!(outline(&stack), ["0 Directory /", "1 Overlay /", "2 Unknown /host/up"]);
    assert!(leaf_devices(&stack).is_empty());
}

#[test]
fn an_overlay_named_by_a_relative_path_is_not_looked_up_from_here() {
    let fixture = Fixture::new();
    fixture.mounts("70 27 0:60 / / rw - overlay overlay rw,upperdir=up\n");
    fixture.knows("/", FileKind::Directory, "0:60", Some(70));
    fixture.knows("up", FileKind::Directory, "0:60", Some(70));
    assert_eq!(outline(&survey(&fixture, "/"))[2..], ["2 Unknown up"]);
}

#[test]
fn an_overlay_without_an_upper_directory_leads_to_the_lower_ones() {
    let fixture = Fixture::new();
    fixture.mounts("70 27 0:60 / / ro - overlay overlay ro,lowerdir=/l1:/l2\n");
    fixture.knows("/", FileKind::Directory, "0:60", Some(70));
    let stack = survey(&fixture, "/");
    assert_eq!(outline(&stack)[2..], ["2 Unknown /l1", "2 Unknown /l2"]);
}

#[test]
fn tmpfs_and_nfs_have_nothing_below_and_only_one_is_memory() {
    let fixture = Fixture::new();
    fixture.mounts(
        "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=24k\n\
         26 24 0:28 / /mnt rw - nfs4 server:/export rw,vers=4.2,hard\n",
    );
    fixture.knows("/dev/shm", FileKind::Directory, "0:23", Some(25));
    fixture.knows("/mnt", FileKind::Directory, "0:28", Some(26));
    let shm = survey(&fixture, "/dev/shm");
    assert_eq!(outline(&shm), ["0 Directory /dev/shm", "1 Memory /dev/shm"]);
    assert!(shm.filesystem().unwrap().memory_backed);
    let nfs = survey(&fixture, "/mnt");
    assert_eq!(outline(&nfs), ["0 Directory /mnt", "1 Network /mnt"]);
    assert!(!nfs.filesystem().unwrap().memory_backed);
    assert_eq!(nfs.filesystem().unwrap().source, "server:/export");
}

#[test]
fn a_filesystem_on_zram_is_backed_by_memory() {
    let fixture = Fixture::new();
    fixture.block("sys/devices/virtual/block/zram0", "253:0");
    fixture.mounts("50 1 253:0 / /fast rw - ext4 /dev/zram0 rw\n");
    fixture.knows("/fast", FileKind::Directory, "253:0", Some(50));
    let stack = survey(&fixture, "/fast");
    assert!(stack.filesystem().unwrap().memory_backed);
    assert_eq!(leaf_devices(&stack), ["zram0"]);
}

#[test]
fn an_external_log_is_a_device_below_the_filesystem() {
    let fixture = Fixture::new();
    fixture.scsi_disk("sda", "8:0");
    fixture.scsi_disk("sdb", "8:16");
    fixture.mounts("50 1 8:0 / /data rw - xfs /dev/sda rw,logdev=/dev/sdb\n");
    fixture.knows("/data", FileKind::Directory, "8:0", Some(50));
    let stack = survey(&fixture, "/data");
    assert_eq!(outline(&stack)[2..], ["2 Disk sda", "2 Disk sdb"]);
    assert_eq!(stack.root.below[0].below[1].fact("role"), Some("external_log"));
}

#[test]
fn a_pool_whose_devices_are_not_shown_ends_unknown() {
    let fixture = Fixture::new();
    fixture.mounts("50 1 0:70 / /tank rw - zfs tank/db rw,xattr\n");
    fixture.knows("/tank", FileKind::Directory, "0:70", Some(50));
    assert_eq!(outline(&survey(&fixture, "/tank"))[2..], ["2 Unknown tank/db"]);
}

#[test]
fn rings_and_endless_branching_end_unknown() {
    let fixture = Fixture::new();
    for name in ["md0", "md1", "md2"] {
        fixture.block(&format!("sys/devices/virtual/block/{name}"), &format!("9:{}", &name[2..]));
    }
    // Two ways on at each level would be 2^32 layers.
    for (upper, lower) in [
        ("md0", "md1"),
        ("md0", "md2"),
        ("md1", "md0"),
        ("md1", "md2"),
        ("md2", "md0"),
        ("md2", "md1"),
    ] {
        fixture.link(
            &format!("sys/devices/virtual/block/{upper}/slaves/{lower}"),
            &format!("sys/devices/virtual/block/{lower}"),
        );
    }
    fixture.knows_block("/dev/md0", "9:0");
    let stack = survey(&fixture, "/dev/md0");
    let count = stack.walk().count();
    assert!((1000..10_000).contains(&count), "{count}");
    assert!(stack.walk().any(|(_, layer)| layer.kind == LayerKind::Unknown));
}

#[test]
fn a_device_that_sysfs_does_not_show_is_unknown() {
    let fixture = Fixture::new();
    fixture.mounts(ROOT_ON_VDA1);
    fixture.knows("/srv", FileKind::Directory, "254:1", Some(27));
    let stack = survey(&fixture, "/srv");
    assert_eq!(outline(&stack)[2..], ["2 Unknown block device"]);
    assert_eq!(stack.root.below[0].below[0].device.as_deref(), Some("254:1"));
}

#[test]
fn without_mounts_the_device_number_leads_on() {
    let fixture = virtio_machine();
    fixture.mounts("");
    fixture.knows("/srv", FileKind::Directory, "254:1", Some(27));
    let expected = ["1 Unknown filesystem", "2 Partition vda1", "3 Disk vda"];
    assert_eq!(outline(&survey(&fixture, "/srv"))[1..], expected);
}

#[test]
fn a_path_that_is_no_text_is_followed() {
    let fixture = virtio_machine();
    let path = PathBuf::from(OsString::from_vec(b"/srv/\xff\xfe.img".to_vec()));
    fixture.loop_device("loop0", "7:0", b"/srv/\xff\xfe.img");
    fixture.knows_block("/dev/loop0", "7:0");
    fixture.knows(&path, FileKind::Regular, "254:1", Some(27));
    let stack = survey(&fixture, "/dev/loop0");
    assert_eq!(outline(&stack)[1], "1 File /srv/\u{fffd}\u{fffd}.img");
    assert_eq!(leaf_devices(&stack), ["vda"]);
    assert_eq!(survey(&fixture, &path).target, "/srv/\u{fffd}\u{fffd}.img");
}

#[test]
fn a_character_device_has_no_layers_below() {
    let fixture = Fixture::new();
    let zero = DeviceNumber { major: 1, minor: 5 };
    fixture.knows("/dev/zero", FileKind::Character(zero), "0:6", None);
    let stack = survey(&fixture, "/dev/zero");
    assert_eq!(outline(&stack), ["0 CharacterDevice /dev/zero"]);
    assert_eq!(stack.root.device.as_deref(), Some("1:5"));
}

#[test]
fn a_target_that_does_not_exist_is_an_error() {
    let fixture = virtio_machine();
    let (root, identify) = (fixture.root(), fixture.identify());
    let error =
        Survey::new(ObservedSystem { root: &root, identify: &identify }, &CopiedDevices(&root))
            .stack(Path::new("/gone"))
            .unwrap_err();
    assert_eq!(error.kind, StackErrorKind::NotFound);
}

#[test]
fn this_machine_has_a_stack_under_the_temporary_directory() {
    let dir = tempfile::tempdir().unwrap();
    let stack = read_stack(dir.path()).unwrap();
    assert_eq!(stack.root.kind, LayerKind::Directory);
    assert!(stack.filesystem().is_some_and(|facts| facts.size >= facts.free));
    let text = serde_json::to_string(&stack).unwrap();
    assert_eq!(serde_json::from_str::<Stack>(&text).unwrap(), stack);
}

fn copied() -> Fixture {
    let fixture = Fixture::new();
    fixture.virtio_disk("vda", "254:0");
    fixture.loop_device("loop3", "7:3", "/srv/disk.img");
    fixture.file("srv/disk.img", "");
    fixture.mounts("27 1 254:0 / / rw - ext4 /dev/vda rw\n");
    fixture
}

fn kinds_of_copy(fixture: &Fixture, path: &str) -> Vec<LayerKind> {
    let stack = read_stack_in(fixture.root().path(), Path::new(path)).unwrap();
    stack.walk().map(|(_, layer)| layer.kind).collect()
}

#[test]
fn directories_files_and_devices_are_told_apart_without_nodes() {
    use LayerKind::{Directory, Disk, File, Filesystem, Loop};
    let fixture = copied();
    assert_eq!(kinds_of_copy(&fixture, "/srv"), [Directory, Filesystem, Disk]);
    assert_eq!(kinds_of_copy(&fixture, "/dev/loop3"), [Loop, File, Filesystem, Disk]);
    assert_eq!(kinds_of_copy(&fixture, "/dev/vda"), [Disk]);
}

#[test]
fn without_a_list_of_mounts_no_path_is_known() {
    let fixture = Fixture::new();
    let error = read_stack_in(fixture.root().path(), Path::new("/srv")).unwrap_err();
    assert_eq!(error.kind, StackErrorKind::NotFound);
}

#[test]
fn the_copied_machine_tells_of_itself() {
    let fixture = copied();
    fixture.file("proc/sys/kernel/osrelease", "5.4.0-other\n");
    assert_eq!(read_host_in(fixture.root().path()).kernel, "5.4.0-other");
}
