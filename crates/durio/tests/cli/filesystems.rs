//! Every filesystem that can be made here: `check` works on it and leaves its directory empty.

use serde_json::Value;

use crate::loops::Mount;
use crate::requirements::has;
use crate::sandbox::Sandbox;
use crate::watch::Watch;

const CHECK: &str = "check place --quiet --duration 150ms --size 16MiB --format json";

fn check_in(sandbox: &Sandbox, place: &Mount, kind: &str) -> Value {
    let _watch = Watch::new(place.point());
    let document = sandbox.durio(CHECK).run().expect_exit(0).json();
    assert_eq!(document["workloads"].as_array().unwrap().len(), 8);
    assert!(document["stack"].to_string().contains(kind), "{}", document["stack"]);
    document
}

fn check_on_a_loop_device(kind: &str, mib: u64) {
    if !has(&["root", "losetup", &format!("mkfs.{kind}")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = sandbox.root().join("image");
    let place = Mount::filesystem(kind, &image, mib, &sandbox.root().join("place"));
    let stack = check_in(&sandbox, &place, kind)["stack"].to_string();
    assert!(stack.contains("loop"), "the loop device and what is below it: {stack}");
}

#[test]
fn ext4_is_checked_and_left_as_it_was() {
    check_on_a_loop_device("ext4", 128);
}

#[test]
fn xfs_is_checked_and_left_as_it_was() {
    check_on_a_loop_device("xfs", 320);
}

#[test]
fn btrfs_is_checked_and_left_as_it_was() {
    check_on_a_loop_device("btrfs", 256);
}

/// The log of Btrfs leaves out what has no link: a sync would cost nothing, and be no sync.
#[test]
fn on_btrfs_the_file_has_a_name_while_it_is_measured() {
    if !has(&["root", "losetup", "mkfs.btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let image = sandbox.root().join("image");
    let place = Mount::filesystem("btrfs", &image, 256, &sandbox.root().join("place"));
    let line = "run --quiet --rw write --sync fdatasync --duration 60s --size 4MiB --target place";
    let mut running = sandbox.durio(line).start();
    let names = || crate::sandbox::entries(place.point());
    while names().is_empty() {
        assert!(running.is_alive(), "{}", running.stderr());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(names()[0].file_name().unwrap().to_string_lossy().starts_with(".durio-"));
    running.signal(rustix::process::Signal::INT);
    running.wait().expect_exit(130);
    assert!(names().is_empty(), "{:?}", names());
}

#[test]
fn memory_is_checked_and_told_to_be_no_storage_once() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Mount::tmpfs(64, &sandbox.root().join("place"));
    let document = check_in(&sandbox, &place, "tmpfs");
    let told = |list: &str, key: &str, name: &str| {
        let list = document[list].as_array().unwrap();
        list.iter().filter(|entry| entry[key] == name).count()
    };
    assert_eq!(told("signals", "id", "memory-backed"), 1, "{}", document["signals"]);
    assert_eq!(told("warnings", "code", "memory"), 0, "{}", document["warnings"]);
}

#[test]
fn an_overlay_is_checked_and_left_as_it_was() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for name in ["upper", "work"] {
        std::fs::create_dir(sandbox.root().join(name)).unwrap();
    }
    let root = sandbox.root().display();
    let options = format!(
        "-t overlay -o lowerdir={root}/data,upperdir={root}/upper,workdir={root}/work overlay"
    );
    let place = Mount::new(&options, &sandbox.root().join("place"));
    check_in(&sandbox, &place, "overlay");
}
