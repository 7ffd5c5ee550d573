//! What somebody else does with the names and devices of a builder that was killed, before clean
//! comes: nothing of it is touched, and clean says so.

use std::fs;
use std::path::Path;
use std::time::Duration;

use durio_layers::DeclaredStack;
use durio_layers::{CleanState, clean};

use crate::machine::{LoopDevice, Ours, Users, one_at_a_time, ready, run, wait_until_built};
use crate::{EXT4, MIB, XFS, declared};

/// A device of the user's with a filesystem of a build that was killed: still mounted.
struct Killed {
    ours: Ours,
    device: LoopDevice,
    mount: String,
}

fn on_device(device: &LoopDevice, filesystem: &str) -> DeclaredStack {
    let text = format!(
        r#"{{"name": "d", "layers": [{{"layer": "device", "paths": ["{}"]}}, {filesystem}]}}"#,
        device.node
    );
    serde_json::from_str(&text).unwrap()
}

fn killed_on_a_device(filesystem: &str, bytes: u64) -> Killed {
    let ours = Ours::new();
    let device = LoopDevice::blank(&ours.beside("disk"), bytes);
    let stack = on_device(&device, filesystem);
    let mut builder = ours.start_on(&stack, None, &[&device.node]);
    wait_until_built(&mut builder);
    builder.kill().unwrap();
    builder.wait().unwrap();
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let line = mounts.lines().find(|line| line.starts_with(&format!("{} ", device.node))).unwrap();
    let mount = line.split(' ').nth(1).unwrap().to_owned();
    Killed { ours, device, mount }
}

impl Killed {
    /// Clean, with what it says that it undid and left alone.
    fn clean(&self) -> (Vec<String>, Vec<String>) {
        match clean(&self.ours.journals).remove(0).state {
            CleanState::Cleaned { undone, left_alone } => (undone, left_alone),
            other => panic!("{other:?}"),
        }
    }

    /// Clean leaves the device as it is, byte by byte, and says why.
    fn assert_left_alone(&self, why: &str) {
        let before = fs::read(&self.device.node).unwrap();
        let (undone, left_alone) = self.clean();
        assert!(fs::read(&self.device.node).unwrap() == before, "{undone:?}");
        assert!(left_alone.iter().any(|line| line.contains(why)), "{left_alone:?}");
        let wiped = |line: &String| line.contains("wipefs");
        assert!(!undone.iter().any(wiped) && left_alone.iter().any(wiped), "{undone:?}");
        self.ours.assert_gone(&[]);
    }
}

const FILESYSTEMS: [(&str, &str, u64); 3] = [
    ("mkfs.ext4", EXT4, 32 * MIB),
    ("mkfs.xfs", XFS, 300 * MIB),
    ("mkfs.btrfs", r#"{"layer": "btrfs", "profile": "single"}"#, 128 * MIB),
];

#[test]
fn what_a_killed_builder_wrote_on_a_device_is_wiped_and_nothing_else() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    for (program, filesystem, bytes) in FILESYSTEMS {
        if !ready("wiped", &[program, "wipefs"], "loop") {
            continue;
        }
        let killed = killed_on_a_device(filesystem, bytes);
        let (undone, left_alone) = killed.clean();
        assert_eq!((undone.len(), left_alone.len()), (3, 0), "{undone:?} {left_alone:?}");
        let usage = durio_observe::device_use(Path::new(&killed.device.node)).unwrap();
        assert_eq!(usage.signatures, []);
        killed.ours.assert_gone(&[]);
    }
    users.assert_untouched();
}

#[test]
fn a_filesystem_that_somebody_used_since_is_left_alone() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    for (program, filesystem, bytes) in FILESYSTEMS {
        if !ready("used_since", &[program, "wipefs"], "loop") {
            continue;
        }
        let killed = killed_on_a_device(filesystem, bytes);
        run("umount", &[&killed.mount]);
        let place = killed.ours.beside("mnt");
        let mounted = killed.device.mounted(&place);
        fs::write(place.join("letter"), "dear reader").unwrap();
        drop(mounted);
        killed.assert_left_alone("another process ran `umount");
    }
    users.assert_untouched();
}

/// The label and the superblock of the first one are still among the bytes of the second.
#[test]
fn another_filesystem_over_that_of_a_killed_builder_is_left_alone() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("made_anew", &["mkfs.ext4", "mkfs.xfs", "wipefs"], "loop") {
        return;
    }
    for maker in [&["mkfs.xfs", "-q", "-f"][..], &["mkfs.ext4", "-q", "-F"], &["mkswap"]] {
        let killed = killed_on_a_device(EXT4, 300 * MIB);
        run("umount", &[&killed.mount]);
        let words: Vec<&str> =
            maker[1..].iter().copied().chain([killed.device.node.as_str()]).collect();
        run(maker[0], &words);
        killed.assert_left_alone("is on it, which this bench did not write");
    }
    users.assert_untouched();
}

#[test]
fn another_disk_under_the_name_of_the_device_is_left_alone() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("another_disk", &["mkfs.ext4", "wipefs"], "loop") {
        return;
    }
    let killed = killed_on_a_device(EXT4, 32 * MIB);
    run("umount", &[&killed.mount]);
    // The very bytes, in another file.
    let (from, to) = (killed.ours.beside("disk"), killed.ours.beside("copy"));
    fs::copy(&from, &to).unwrap();
    run("losetup", &["--detach", &killed.device.node]);
    run("losetup", &[&killed.device.node, to.to_str().unwrap()]);
    killed.assert_left_alone("its diskseq was");
    users.assert_untouched();
}

#[test]
fn a_file_in_the_place_of_the_one_that_a_killed_builder_made_is_left_alone() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("file_anew", &["mkfs.ext4"], "loop") {
        return;
    }
    let ours = Ours::on_disk();
    let mut builder = ours.start(&declared("loop", 1, 16 * MIB, EXT4), None);
    wait_until_built(&mut builder);
    builder.kill().unwrap();
    builder.wait().unwrap();
    let backing = ours.loops().remove(0).trim().to_owned();
    let node = run("losetup", &["--noheadings", "--output", "NAME", "--associated", &backing]);
    run("umount", &[&node]);
    run("losetup", &["--detach", &node]);
    fs::remove_file(&backing).unwrap();
    fs::write(&backing, "mine").unwrap();
    let outcomes = clean(&ours.journals);
    let CleanState::Cleaned { undone, left_alone } = &outcomes[0].state else {
        panic!("{outcomes:?}")
    };
    assert_eq!(fs::read_to_string(&backing).unwrap(), "mine");
    // The mount point alone was there and ours.
    assert_eq!(undone.len(), 1, "{undone:?}");
    assert!(left_alone.iter().any(|line| line.contains("remove file")), "{left_alone:?}");
    assert!(left_alone.iter().any(|line| line.contains("remove directory")), "{left_alone:?}");
    users.assert_untouched();
}

#[test]
fn a_filesystem_of_a_killed_builder_under_another_mount_stays_until_that_is_gone() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("mounted_over", &["mkfs.ext4", "wipefs"], "loop") {
        return;
    }
    let killed = killed_on_a_device(EXT4, 32 * MIB);
    run("mount", &["-t", "tmpfs", "none", &killed.mount]);
    fs::write(Path::new(&killed.mount).join("letter"), "dear reader").unwrap();
    let outcomes = clean(&killed.ours.journals);
    let kept = matches!(&outcomes[0].state, CleanState::Kept { undone, failures, .. }
        if undone.is_empty() && failures[0].contains("mounted over it"));
    let letter = fs::read_to_string(Path::new(&killed.mount).join("letter"));
    run("umount", &[&killed.mount]);
    assert!(kept, "{outcomes:?}");
    assert_eq!(letter.unwrap(), "dear reader");
    let (undone, left_alone) = killed.clean();
    assert_eq!((undone.len(), left_alone.len()), (3, 0), "{undone:?} {left_alone:?}");
    users.assert_untouched();
}

/// What is left on the device at most is what clean names, with what to do about it.
#[test]
fn builders_on_a_device_are_killed_and_the_device_is_blank_or_named() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    let mut random = crate::machine::Random(13);
    for (program, filesystem, bytes) in FILESYSTEMS {
        if !ready("killed_on_device", &[program, "wipefs"], "loop") {
            continue;
        }
        let mut wiped = 0;
        for _ in 0..5 {
            let ours = Ours::new();
            let device = LoopDevice::blank(&ours.beside("disk"), bytes);
            let stack = on_device(&device, filesystem);
            let mut builder = ours.start_on(&stack, None, &[&device.node]);
            std::thread::sleep(Duration::from_secs_f64(0.3 * random.fraction()));
            builder.kill().unwrap();
            builder.wait().unwrap();
            let outcomes = clean(&ours.journals);
            let named = outcomes.iter().any(|outcome| match &outcome.state {
                CleanState::Cleaned { left_alone, .. } => !left_alone.is_empty(),
                other => panic!("{other:?}"),
            });
            let usage = durio_observe::device_use(Path::new(&device.node)).unwrap();
            assert!(!usage.is_in_use() && (usage.signatures.is_empty() || named), "{outcomes:?}");
            wiped += usize::from(usage.signatures.is_empty());
            ours.assert_gone(&[]);
        }
        assert!(wiped > 0, "{filesystem}");
    }
    users.assert_untouched();
}
