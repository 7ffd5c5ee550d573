//! Who uses which device, on made-up machines and on this one.

use std::io::{Seek, Write};

use super::*;
use crate::identity::FileKind;
use crate::tests::fixture::Fixture;

fn usage(fixture: &Fixture, name: &str) -> DeviceUse {
    let dir = block_node::by_name(&fixture.root(), name).unwrap();
    usage_of(fixture, &Subject::Device(dir))
}

fn usage_of(fixture: &Fixture, subject: &Subject) -> DeviceUse {
    let identify = fixture.identify();
    usage_in(ObservedSystem { root: &fixture.root(), identify: &identify }, subject).unwrap()
}

fn mounts(found: &DeviceUse) -> Vec<(&str, &str)> {
    found.mounts.iter().map(|mount| (&*mount.device, &*mount.mount_point)).collect()
}

fn holders(found: &DeviceUse) -> Vec<(&str, &str)> {
    found.holders.iter().map(|holder| (&*holder.device, &*holder.holder)).collect()
}

fn two_partitions() -> Fixture {
    let fixture = Fixture::new();
    fixture.scsi_disk("sda", "8:0");
    fixture.partition("sda", "sda1", "8:1", 1);
    fixture.partition("sda", "sda2", "8:2", 2);
    fixture.mounts("");
    fixture
}

#[test]
fn an_unused_disk_is_free_and_named_by_its_serial() {
    let found = usage(&two_partitions(), "sda");
    assert!(!found.is_in_use());
    assert_eq!(found.serial.as_deref(), Some("S3RIAL"));
    assert_eq!(found.partitions, ["sda1", "sda2"]);
}

#[test]
fn a_disk_is_in_use_if_a_partition_is_mounted_and_the_other_partition_is_not() {
    let fixture = two_partitions();
    fixture.mounts("50 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n");
    let disk = usage(&fixture, "sda");
    assert_eq!(mounts(&disk), [("sda1", "/boot")]);
    assert!(disk.is_in_use());
    assert!(usage(&fixture, "sda1").is_in_use());
    assert!(!usage(&fixture, "sda2").is_in_use());
    assert_eq!(usage(&fixture, "sda2").serial.as_deref(), Some("S3RIAL"));
}

#[test]
fn a_mount_that_only_the_first_process_sees_counts() {
    let fixture = two_partitions();
    fixture.file("proc/1/mountinfo", "50 1 8:1 / /host rw - ext4 /dev/sda1 rw\n");
    assert_eq!(mounts(&usage(&fixture, "sda")), [("sda1", "/host")]);
}

#[test]
fn a_member_of_an_array_is_held_through_all_layers() {
    let fixture = two_partitions();
    fixture.mirror("md0", "9:0", &["sda1"]);
    fixture.volume("dm-0", "253:0", "vg-data", &["md0"]);
    fixture.mounts("50 1 253:0 / /data rw - xfs /dev/mapper/vg-data rw\n");
    let found = usage(&fixture, "sda");
    assert_eq!(holders(&found), [("sda1", "md0"), ("md0", "dm-0")]);
    assert_eq!(mounts(&found), [("dm-0", "/data")]);
    assert!(!usage(&fixture, "sda2").is_in_use());
}

#[test]
fn a_partition_is_held_by_what_holds_its_disk() {
    let fixture = two_partitions();
    fixture.volume("dm-0", "253:0", "mpatha", &["sda"]);
    assert_eq!(holders(&usage(&fixture, "sda2")), [("sda", "dm-0")]);
}

#[test]
fn swap_is_found_by_node_and_by_volume() {
    let fixture = two_partitions();
    fixture.volume("dm-1", "253:1", "vg-swap", &["sda2"]);
    let header = "Filename Type Size Used Priority\n";
    fixture.file("proc/swaps", format!("{header}/dev/sda1 partition 8 0 -2\n/dev/dm-1 p 8 0 -3\n"));
    assert_eq!(usage(&fixture, "sda").swaps, ["sda1", "dm-1"]);
    assert_eq!(usage(&fixture, "sda2").swaps, ["dm-1"]);
}

#[test]
fn a_loop_device_on_a_disk_is_a_holder_that_the_kernel_does_not_list() {
    let fixture = two_partitions();
    fixture.loop_device("loop0", "7:0", "/dev/sda2");
    fixture.mounts("50 1 7:0 / /mnt rw - ext4 /dev/loop0 rw\n");
    let found = usage(&fixture, "sda");
    assert_eq!(holders(&found), [("sda2", "loop0")]);
    assert_eq!(mounts(&found), [("loop0", "/mnt")]);
}

#[test]
fn every_member_of_a_mounted_btrfs_is_in_use() {
    let fixture = two_partitions();
    fixture.link("sys/fs/btrfs/0bee-f/devices/sda2", &fixture.path_of("sda2"));
    fixture.mounts("50 1 0:40 / /data rw - btrfs /dev/sda1 rw\n");
    assert_eq!(holders(&usage(&fixture, "sda2")), [("sda2", "btrfs 0bee-f")]);
    assert_eq!(mounts(&usage(&fixture, "sda1")), [("sda1", "/data")]);
}

#[test]
fn a_file_is_in_use_as_swap_or_below_a_loop_device() {
    let fixture = two_partitions();
    fixture.loop_device("loop0", "7:0", "/srv/a b.img");
    fixture.knows("/srv/a b.img", FileKind::Regular, "8:1", None);
    fixture.file("proc/swaps", "Filename\n/srv/swap\\040file file 8 0 -2\n");
    let held = usage_of(&fixture, &fixture.subject("/srv/a b.img"));
    assert_eq!(holders(&held), [("/srv/a b.img", "loop0")]);
    fixture.knows("/srv/swap file", FileKind::Regular, "8:1", None);
    let swap = usage_of(&fixture, &fixture.subject("/srv/swap file"));
    assert_eq!(swap.swaps, ["/srv/swap file"]);
    fixture.knows("/srv/free", FileKind::Regular, "8:1", None);
    assert!(!usage_of(&fixture, &fixture.subject("/srv/free")).is_in_use());
}

#[test]
fn a_file_is_in_use_by_all_its_names() {
    let fixture = two_partitions();
    fixture.loop_device("loop0", "7:0", "/srv/image");
    fixture.knows("/srv/image", FileKind::Regular, "8:1", None);
    fixture.knows("/srv/swap", FileKind::Regular, "8:1", None);
    fixture.file("proc/swaps", "Filename\n/srv/swap file 8 0 -2\n");
    for (name, of) in [("/bound/image", "/srv/image"), ("/srv/link", "/srv/swap")] {
        fixture.knows_as(name, of);
        assert!(usage_of(&fixture, &fixture.subject(name)).is_in_use(), "{name}");
    }
}

#[test]
fn a_program_that_has_a_file_open_for_writing_is_named_by_whatever_name_it_opened_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("data"), folder.path().join("link"));
    std::fs::write(&path, "x").unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    let writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    let mut reader = std::process::Command::new("sleep");
    reader.arg("60").stdin(std::fs::File::open(&path).unwrap());
    let mut reader = reader.spawn().unwrap();
    assert_eq!(device_use(&link).unwrap().writers, [""; 0], "a reader, and this process itself");
    let mut program = std::process::Command::new("sleep").arg("60").stdout(writer).spawn().unwrap();
    let found = device_use(&link).unwrap();
    for child in [&mut program, &mut reader] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(found.writers, [format!("sleep (process {})", program.id())]);
    assert!(found.is_in_use());
}

#[test]
fn without_a_list_of_mounts_nothing_is_called_free() {
    let fixture = Fixture::new();
    let dir = fixture.scsi_disk("sda", "8:0");
    let identify = fixture.identify();
    let system = ObservedSystem { root: &fixture.root(), identify: &identify };
    let answer = usage_in(system, &Subject::Device(dir));
    assert_eq!(answer.unwrap_err().kind, StackErrorKind::Unreadable);
}

#[test]
fn an_image_in_a_file_shows_what_is_on_it() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[b"XFSB".as_slice(), &[0; 8192]].concat()).unwrap();
    // Closed: a program that another test is just starting has a copy of every open file.
    let path = file.into_temp_path();
    let found = device_use(&path).unwrap();
    assert_eq!(found.signature_names(), ["xfs"]);
    assert_eq!(found.size, Bytes::new(8196));
    assert!(!found.is_in_use());
}

#[test]
fn what_is_on_a_partition_is_looked_for_where_the_partition_begins() {
    const SECTOR: u64 = 512;
    let fixture = two_partitions();
    let disk = fixture.path_of("sda");
    for (name, start, size) in [("sda1", "2048", "4096"), ("sda2", "8192", "16384")] {
        fixture.files(&format!("{disk}/{name}"), &[("start", start), ("size", size)]);
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(24576 * SECTOR).unwrap();
    let mut put = |at: u64, bytes: &[u8]| {
        file.seek(std::io::SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    put(SECTOR, b"EFI PART");
    put(2048 * SECTOR, b"XFSB");
    put(8192 * SECTOR + 0x1_0040, b"_BHRfS_M");
    // Behind the end of the first partition, and in none.
    put(6144 * SECTOR, b"XFSB");
    let subject = Subject::Device(block_node::by_name(&fixture.root(), "sda").unwrap());
    let mut found = usage_of(&fixture, &subject);
    read_content(file.path(), &subject, &mut found).unwrap();
    let signatures = found
        .signatures
        .iter()
        .map(|signature| (&*signature.device, &*signature.name, signature.offset.get()));
    assert_eq!(
        signatures.collect::<Vec<_>>(),
        [("sda", "gpt", 512), ("sda1", "xfs", 0), ("sda2", "btrfs", 0x1_0040)]
    );
}

#[test]
fn a_directory_and_a_character_device_are_no_devices() {
    for path in ["/", "/dev/null"] {
        let error = device_use(Path::new(path)).unwrap_err();
        assert_eq!(error.kind, StackErrorKind::NotADevice, "{path}");
    }
}

#[test]
fn the_access_mode_tells_a_writer() {
    for (info, expected) in [
        ("pos:\t0\nflags:\t0100000\nmnt_id:\t29\n", false),
        ("pos:\t0\nflags:\t0100001\n", true),
        ("pos:\t0\nflags:\t02100002\n", true),
        ("flags:\t012000000\n", false),
        ("", false),
        ("flags:\tx\n", false),
    ] {
        assert_eq!(is_open_for_writing(info), expected, "{info}");
    }
}

#[test]
fn an_unused_file_that_cannot_be_read_is_an_error_and_not_empty() {
    // A regular file that can be opened, and has neither a size nor a first byte.
    let error = device_use(Path::new("/proc/self/mem")).unwrap_err();
    assert_eq!(error.kind, StackErrorKind::Unreadable, "{error}");
}

#[test]
fn the_same_inode_of_another_filesystem_is_another_file_and_each_loop_device_on_one_is_a_holder() {
    let fixture = two_partitions();
    for (name, number, backing) in [
        ("loop0", "7:0", "/other/image"),
        ("loop1", "7:1", "/srv/image"),
        ("loop2", "7:2", "/srv/link"),
    ] {
        fixture.loop_device(name, number, backing);
    }
    fixture.knows("/srv/image", FileKind::Regular, "8:1", None);
    fixture.knows_as("/srv/link", "/srv/image");
    fixture.knows_on("/other/image", "8:2", "/srv/image");
    fixture.file("proc/swaps", "Filename\n/other/image file 8 0 -2\n");
    let found = usage_of(&fixture, &fixture.subject("/srv/image"));
    assert_eq!(holders(&found), [("/srv/image", "loop1"), ("/srv/image", "loop2")]);
    assert!(found.swaps.is_empty(), "{:?}", found.swaps);
    let other = usage_of(&fixture, &fixture.subject("/other/image"));
    assert_eq!(holders(&other), [("/other/image", "loop0")]);
    assert_eq!(other.swaps, ["/other/image"]);
}

#[test]
fn every_mount_of_a_disk_and_of_the_partitions_of_what_is_built_on_it_is_told_once() {
    let fixture = two_partitions();
    fixture.mirror("md0", "9:0", &["sda2"]);
    fixture.partition("md0", "md0p1", "259:7", 1);
    fixture.loop_device("loop0", "7:0", "/dev/sda1");
    fixture.partition("loop0", "loop0p2", "259:9", 2);
    let own = "50 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n\
        51 1 259:7 / /data rw - xfs /dev/md0p1 rw\n\
        52 1 259:9 / /image rw - vfat /dev/loop0p2 rw\n\
        53 1 8:1 /sub /bound rw - ext4 /dev/sda1 rw\n";
    fixture.mounts(own);
    let host = "54 1 8:1 / /host rw - ext4 /dev/sda1 rw\n";
    fixture.file("proc/1/mountinfo", format!("{own}{host}"));
    let expected = [
        ("sda1", "/boot"),
        ("md0p1", "/data"),
        ("loop0p2", "/image"),
        ("sda1", "/bound"),
        ("sda1", "/host"),
    ];
    assert_eq!(mounts(&usage(&fixture, "sda")), expected);
}

#[test]
fn of_several_btrfs_each_member_is_one_of_its_own() {
    let fixture = two_partitions();
    for (filesystem, member) in [("0aaa-1", "sda1"), ("0bbb-2", "sda2")] {
        let link = format!("sys/fs/btrfs/{filesystem}/devices/{member}");
        fixture.link(&link, &fixture.path_of(member));
    }
    fixture
        .mounts("50 1 0:40 / /a rw - btrfs /dev/sda1 rw\n51 1 0:41 / /b rw - btrfs /dev/sda2 rw\n");
    for (member, filesystem, place) in
        [("sda1", "btrfs 0aaa-1", "/a"), ("sda2", "btrfs 0bbb-2", "/b")]
    {
        let found = usage(&fixture, member);
        assert_eq!(holders(&found), [(member, filesystem)]);
        assert_eq!(mounts(&found), [(member, place)]);
    }
}

#[test]
fn each_user_is_a_clause_and_a_claim_without_one_is_somebodys() {
    let mount = MountUse { device: "sda1".into(), mount_point: "/boot".into() };
    let holder = Holder { device: "sda3".into(), holder: "md0".into() };
    let found = DeviceUse {
        mounts: vec![mount],
        swaps: vec!["sda2".into()],
        holders: vec![holder],
        writers: vec!["postgres (process 812)".into()],
        claimed: true,
        ..DeviceUse::default()
    };
    let expected = [
        "sda1 is mounted on /boot",
        "sda2 is swap",
        "sda3 is part of md0",
        "postgres (process 812) has it open for writing",
    ];
    assert_eq!(found.usage().users, expected);
    let claimed = DeviceUse { claimed: true, ..DeviceUse::default() };
    assert!(claimed.is_in_use() && claimed.users().is_empty());
    assert_eq!(claimed.usage().users, ["another process or filesystem holds it exclusively"]);
    assert!(!DeviceUse::default().is_in_use());
}

#[test]
fn an_open_file_is_the_target_by_its_filesystem_and_inode_and_a_device_by_its_kind_and_number() {
    use std::os::unix::fs::MetadataExt;
    let file = tempfile::NamedTempFile::new().unwrap();
    let metadata = file.as_file().metadata().unwrap();
    let (device, inode) = (metadata.dev(), metadata.ino());
    let is = |identity| leads_to(file.path(), identity);
    assert!(is(TargetIdentity::Inode(device, inode)));
    assert!(!is(TargetIdentity::Inode(device + 1, inode)), "the same inode of another filesystem");
    assert!(!is(TargetIdentity::Inode(device, inode + 1)), "another inode of the filesystem");
    // A file has the number 0:0, and /dev/null that of a RAM disk.
    assert!(!is(TargetIdentity::Device(makedev(0, 0))));
    assert!(!leads_to(Path::new("/dev/null"), TargetIdentity::Device(makedev(1, 3))));
    let path = file.path().to_owned();
    file.close().unwrap();
    assert!(!leads_to(&path, TargetIdentity::Inode(device, inode)));
}
