//! Block devices: read without asking, written only by name, never while in use.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::durio::Ended;
use crate::loops::{LoopDevice, Mount, sh, sparse_file};
use crate::requirements::has;
use crate::sandbox::Sandbox;
use crate::watch::Watch;

const MIB: u64 = 32;

/// A loop device over a file in a directory of its own.
struct Disk {
    device: LoopDevice,
    images: PathBuf,
}

impl Disk {
    fn new(sandbox: &Sandbox, signature: Option<&str>) -> Self {
        let images = sandbox.root().join("images");
        fs::create_dir(&images).unwrap();
        let image = images.join("image");
        sparse_file(&image, MIB);
        if let Some(command) = signature {
            sh(&format!("{command} '{}'", image.display()));
        }
        Self { device: LoopDevice::over(&image), images }
    }
}

fn check(sandbox: &Sandbox, disk: &Disk, options: &str) -> Ended {
    let line =
        format!("check {} --quiet --duration 100ms --format json {options}", disk.device.display());
    sandbox.durio(&line).run()
}

fn workloads(ended: &Ended) -> Vec<String> {
    let document = ended.json();
    let workloads = document["workloads"].as_array().unwrap();
    workloads.iter().map(|workload| workload["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_device_is_only_read() {
    if !has(&["root", "losetup"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, None);
    let _watch = Watch::new(&disk.images);
    let ended = check(&sandbox, &disk, "").expect_exit(0);
    assert_eq!(workloads(&ended), ["lookup", "scan"]);
    let run = format!("run --quiet --rw write --ops 5 --target {}", disk.device.display());
    sandbox.durio(&run).run().expect_exit(2).expect_stderr("--destroy");
}

#[test]
fn destroy_permits_the_writing_workloads_on_the_device_that_it_names() {
    if !has(&["root", "losetup"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, None);
    let mut watch = Watch::new(&disk.images);
    let ended = check(&sandbox, &disk, "--destroy /dev/loop-control").expect_exit(2);
    ended.expect_stderr("'/dev/loop-control' does not match any target").expect_no_stdout();
    assert!(watch.differences().is_empty());
    let ended = check(&sandbox, &disk, &format!("--destroy {}", disk.device.display()));
    let written = ["commit", "commit-group-1", "commit-group-8", "commit-group-64"];
    let names = [&written[..], &["lookup", "scan", "mixed"]].concat();
    assert_eq!(workloads(&ended.expect_exit(0)), names);
    assert_eq!(watch.differences().len(), 1, "it was written");
    watch.accept();
    assert_eq!(fs::metadata(disk.images.join("image")).unwrap().len(), MIB << 20);
}

#[test]
fn a_file_of_the_same_inode_on_another_filesystem_is_not_permitted() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounts = ["one", "two"].map(|name| Mount::tmpfs(16, &sandbox.root().join(name)));
    let files = mounts.each_ref().map(|mount| mount.point().join("file"));
    files.iter().for_each(|file| fs::write(file, vec![7; 4 << 20]).unwrap());
    let [one, two] = files.each_ref().map(|file| fs::metadata(file).unwrap().ino());
    assert_eq!(one, two, "memory filesystems count from the same number on");
    let run = |permit: &str| {
        let line = "run --quiet --buffered --rw write --ops 5 --target one/file --destroy";
        sandbox.durio(&format!("{line} {permit}")).run()
    };
    run("two/file").expect_exit(2).expect_stderr("'two/file' does not match any target");
    assert!(files.iter().all(|file| fs::read(file).unwrap() == vec![7; 4 << 20]));
    run("one/file").expect_exit(0);
    assert_ne!(fs::read(&files[0]).unwrap(), vec![7; 4 << 20]);
    assert_eq!(fs::read(&files[1]).unwrap(), vec![7; 4 << 20]);
}

#[test]
fn a_device_with_a_filesystem_on_it_needs_a_second_permission() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, Some("mkfs.ext4 -q -F"));
    let mut watch = Watch::new(&disk.images);
    let destroy = format!("--destroy {}", disk.device.display());
    let ended = check(&sandbox, &disk, &destroy).expect_exit(3).expect_no_stdout();
    ended.expect_stderr("ext4").expect_stderr("--force-signature");
    // Reading needs none.
    check(&sandbox, &disk, "").expect_exit(0);
    assert!(watch.differences().is_empty(), "{:?}", watch.differences());
    check(&sandbox, &disk, &format!("{destroy} --force-signature")).expect_exit(0);
    assert_eq!(watch.differences().len(), 1, "it was written");
    watch.accept();
}

#[test]
fn swap_space_on_a_device_is_a_signature_too() {
    if !has(&["root", "losetup", "mkswap"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, Some("mkswap -q"));
    let _watch = Watch::new(&disk.images);
    let destroy = format!("--destroy {}", disk.device.display());
    check(&sandbox, &disk, &destroy).expect_exit(3).expect_stderr("swap");
}

#[test]
fn a_mounted_device_and_the_file_below_it_are_never_written() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, Some("mkfs.ext4 -q -F"));
    let mounted = sandbox.root().join("mounted");
    let device = disk.device.display();
    let mount = Mount::new(&format!("-t ext4 {device}"), &mounted);
    sh(&format!("sync -f '{}'", mount.point().display()));
    let _watch = Watch::new(&disk.images);
    let image = disk.images.join("image").display().to_string();
    for target in [&device, &image] {
        let line = format!(
            "run --quiet --rw randwrite --ops 50 --target {target} --destroy {target} --force-signature"
        );
        let ended = sandbox.durio(&line).run().expect_exit(3).expect_no_stdout();
        ended.expect_stderr("in use").expect_stderr("does not write");
    }
    let both = format!("--destroy {device} --force-signature");
    check(&sandbox, &disk, &both).expect_exit(3).expect_stderr("mounted");
    assert!(sandbox.runs().is_empty());
}

#[test]
fn a_mounted_device_can_be_read() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, Some("mkfs.ext4 -q -F"));
    let mounted = sandbox.root().join("mounted");
    let _mount = Mount::new(&format!("-t ext4 -o ro,noload {}", disk.device.display()), &mounted);
    let _watch = Watch::new(&disk.images);
    check(&sandbox, &disk, "").expect_exit(0);
}

#[test]
fn a_device_without_the_right_to_read_is_refused_with_a_hint() {
    if !has(&["root", "losetup", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let disk = Disk::new(&sandbox, None);
    let line = format!("check {} --quiet", disk.device.display());
    let ended = sandbox.durio_as_nobody(&line).run().expect_exit(3);
    ended.expect_stderr("Permission denied").expect_stderr("hint: run as");
}

#[test]
fn two_names_of_one_device_are_refused() {
    if !has(&["root", "losetup"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = Disk::new(&sandbox, None);
    let link = sandbox.root().join("link");
    std::os::unix::fs::symlink(disk.device.display(), &link).unwrap();
    check(&sandbox, &disk, "link").expect_exit(2).expect_stderr("are the same");
}

#[test]
fn a_partition_is_written_where_it_lies_and_never_together_with_its_disk() {
    if !has(&["root", "losetup", "addpart"]) {
        return;
    }
    const SECTOR: usize = 512;
    let sandbox = Sandbox::new();
    let images = sandbox.root().join("images");
    fs::create_dir(&images).unwrap();
    let image = images.join("image");
    fs::write(&image, vec![7; 32 << 20]).unwrap();
    let disk = LoopDevice::with_partitions(&image, &[(2048, 16384), (32768, 24576)]);
    let [first, second] = [1, 2].map(|number| disk.partition(number));
    for (one, other) in [(&disk.display(), &first), (&second, &disk.display())] {
        let line = format!("check {one} {other} --quiet --duration 100ms");
        let refused = sandbox.durio(&line).run().expect_exit(2).expect_no_stdout();
        let words = format!("'{one}' and '{other}' overlap: one is part of the other");
        refused.expect_stderr(&words).expect_stderr("name either the disk or its partitions");
    }
    // Neighbours have nothing in common.
    let line = format!("check {first} {second} --quiet --duration 100ms");
    sandbox.durio(&line).run().expect_exit(0);
    let line =
        format!("run --quiet --rw write --bs 64k --ops 192 --target {second} --destroy {second}");
    sandbox.durio(&line).run().expect_exit(0);
    let now = fs::read(&image).unwrap();
    let (begin, end) = (32768 * SECTOR, (32768 + 24576) * SECTOR);
    assert!(now[..begin].iter().chain(&now[end..]).all(|byte| *byte == 7));
    // All 12 MiB of it.
    let is_old = |block: &[u8]| block.iter().all(|byte| *byte == 7);
    assert_eq!(now[begin..end].chunks(4096).filter(|block| is_old(block)).count(), 0);
}
