//! Stacks that are really built on this machine, and builders that are really killed.
//!
//! Environment: `DURIO_TEST_SKIPS`, where a test that could not run leaves a line; such a line is
//! no failure. They need root, loop devices or zram, and the programs that make filesystems.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod machine;
mod reuse;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use durio_layers::DeclaredStack;
use durio_layers::{
    BuildError, BuildOptions, BuildPlace, BuildProgress, Builder, BuiltLayer, CleanState, clean,
};
use machine::{Ours, Users, one_at_a_time, ready};

/// A stack as a spec would declare it, on devices of `bytes` each.
fn declared(source: &str, count: u32, bytes: u64, filesystem: &str) -> DeclaredStack {
    let text = format!(
        r#"{{"name": "native", "layers": [
            {{"layer": "{source}", "count": {count}, "size_bytes": {bytes}}}, {filesystem}]}}"#
    );
    serde_json::from_str(&text).unwrap()
}

const EXT4: &str = r#"{"layer": "ext4", "mount": ["noatime"]}"#;
const XFS: &str = r#"{"layer": "xfs"}"#;
const BTRFS: &str = r#"{"layer": "btrfs", "profile": "raid1"}"#;
const MIB: u64 = 1 << 20;

fn build_all(
    declared: &DeclaredStack,
    place: &BuildPlace,
    journals: &Path,
) -> Result<Vec<BuiltLayer>, BuildError> {
    let mut builder = Builder::new(declared, place, journals, BuildOptions::default())?;
    let mut layers = Vec::new();
    while let Some(layer) = builder.build_next()? {
        layers.push(layer);
    }
    let mount = layers.iter().find_map(|layer| layer.mount.clone());
    if let Some(mount) = &mount {
        fs::write(mount.join("file"), vec![7_u8; 100_000]).unwrap();
        assert_eq!(fs::read(mount.join("file")).unwrap().len(), 100_000);
    }
    builder.tear_down()?;
    assert!(mount.is_none_or(|mount| !mount.exists()));
    Ok(layers)
}

#[test]
fn filesystems_are_built_on_files_and_compressed_memory_and_torn_down() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    let cases = [
        ("loop", 1, 16 * MIB, EXT4, "mkfs.ext4"),
        ("loop", 1, 300 * MIB, XFS, "mkfs.xfs"),
        ("loop", 2, 128 * MIB, BTRFS, "mkfs.btrfs"),
        ("zram", 1, 64 * MIB, EXT4, "mkfs.ext4"),
        ("zram", 1, 300 * MIB, XFS, "mkfs.xfs"),
        ("zram", 2, 128 * MIB, BTRFS, "mkfs.btrfs"),
    ];
    for (source, count, bytes, filesystem, program) in cases {
        if !ready("filesystems_are_built", &[program], source) {
            continue;
        }
        let ours = Ours::on_disk();
        let stack = declared(source, count, bytes, filesystem);
        let layers = build_all(&stack, &ours.place(), &ours.journals).unwrap();
        assert_eq!(layers.len(), 2);
        assert_eq!(layers[0].devices.len(), usize::try_from(count).unwrap());
        assert!(layers[1].commands.iter().any(|line| line.starts_with(program)));
        ours.assert_gone(&[]);
    }
    users.assert_untouched();
}

/// Kills builders at times drawn from `seed`, over the whole time that a build takes.
fn kill_builders(test: &str, seed: u64, tries: u32, stack: &DeclaredStack, needs: (&str, &str)) {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready(test, &[needs.0], needs.1) {
        return;
    }
    let whole = machine::time_of_build(stack);
    let mut random = machine::Random(seed);
    let mut cleaned = 0;
    for attempt in 0..tries {
        let ours = Ours::new();
        let before = machine::unsized_zram();
        let mut builder = ours.start(stack, None);
        std::thread::sleep(whole.mul_f64(random.fraction()));
        builder.kill().unwrap();
        builder.wait().unwrap();
        let outcomes = clean(&ours.journals);
        let all = outcomes.iter().all(|o| matches!(o.state, CleanState::Cleaned { .. }));
        assert!(all, "try {attempt}: {outcomes:?}");
        let ids: Vec<String> = outcomes.iter().map(|outcome| outcome.id.clone()).collect();
        ours.assert_gone(&ids);
        machine::assert_no_new_zram(&before);
        assert!(clean(&ours.journals).is_empty());
        cleaned += outcomes.len();
    }
    // Most of them had begun; otherwise the times are wrong and nothing was shown.
    assert!(cleaned * 2 >= usize::try_from(tries).unwrap(), "{cleaned} of {tries} had begun");
    users.assert_untouched();
}

#[test]
fn builders_of_btrfs_in_files_are_killed_and_cleaned_up() {
    let stack = declared("loop", 2, 64 * MIB, r#"{"layer": "btrfs", "profile": "single"}"#);
    kill_builders("killed_loop_btrfs", 3, 5, &stack, ("mkfs.btrfs", "loop"));
}

#[test]
fn builders_of_xfs_in_a_file_are_killed_and_cleaned_up() {
    let stack = declared("loop", 1, 300 * MIB, XFS);
    kill_builders("killed_loop_xfs", 5, 5, &stack, ("mkfs.xfs", "loop"));
}

#[test]
fn builders_of_ext4_on_a_file_are_killed_and_cleaned_up() {
    let stack = declared("loop", 1, 64 * MIB, EXT4);
    kill_builders("killed_loop_ext4", 7, 5, &stack, ("mkfs.ext4", "loop"));
}

#[test]
fn builders_on_compressed_memory_are_killed_and_cleaned_up() {
    let stack = declared("zram", 4, machine::ZRAM_BYTES, BTRFS);
    kill_builders("killed_zram_btrfs", 11, 6, &stack, ("mkfs.btrfs", "zram"));
}

/// A shell script that stands in for a program, in a folder for PATH. A shell writes it: a program
/// that this process has open for writing cannot be started.
fn planted(folder: &Path, name: &str, script: &str) {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    let script = format!("#!/bin/sh\n{script}\n");
    let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
    let mut shell = std::process::Command::new("sh");
    let written = shell.args(["-c", write, "sh", &script]).arg(&path).status();
    assert!(written.unwrap().success());
}

#[test]
fn what_mkfs_says_when_it_fails_is_in_the_error_and_everything_is_undone() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("mkfs_fails", &["mkfs.ext4"], "loop") {
        return;
    }
    let ours = Ours::new();
    let planted_in = ours.beside("planted");
    planted(&planted_in, "mkfs.ext4", "echo the disk smells of smoke >&2; exit 3");
    let stack = declared("loop", 1, 16 * MIB, EXT4);
    let builder = ours.start(&stack, Some(&planted_in));
    let output = builder.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("mkfs.ext4 -q -F") && said.contains("exit status: 3"), "{said}");
    assert!(said.contains("the disk smells of smoke"), "{said}");
    ours.assert_gone(&[]);
    users.assert_untouched();
}

/// The builder is gone and its mkfs still works on the device: it is waited for.
#[test]
fn a_program_that_outlives_its_builder_is_waited_for() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("outlives", &["mkfs.ext4"], "loop") {
        return;
    }
    let ours = Ours::new();
    let (planted_in, started) = (ours.beside("planted"), ours.beside("started"));
    let script = format!("touch {}; sleep 1", started.display());
    planted(&planted_in, "mkfs.ext4", &script);
    let mut builder = ours.start(&declared("loop", 1, 16 * MIB, EXT4), Some(&planted_in));
    while !started.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    builder.kill().unwrap();
    builder.wait().unwrap();
    let (since, outcomes) = (Instant::now(), clean(&ours.journals));
    assert!(matches!(outcomes[0].state, CleanState::Cleaned { .. }), "{outcomes:?}");
    assert!(since.elapsed() > Duration::from_millis(300), "{:?}", since.elapsed());
    ours.assert_gone(&[outcomes[0].id.clone()]);
    users.assert_untouched();
}

#[test]
fn what_an_earlier_run_left_hinders_neither_a_new_build_nor_its_own_cleaning() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("leftover", &["mkfs.ext4"], "loop") {
        return;
    }
    let ours = Ours::new();
    let stack = declared("loop", 1, 16 * MIB, EXT4);
    let mut builder = ours.start(&stack, None);
    machine::wait_until_built(&mut builder);
    builder.kill().unwrap();
    builder.wait().unwrap();
    assert!(!ours.loops().is_empty(), "the killed builder's device is still there");
    build_all(&stack, &ours.place(), &ours.journals).unwrap();
    assert_eq!(ours.loops().len(), 1, "the new build took down its own alone");
    let outcomes = clean(&ours.journals);
    assert!(matches!(outcomes[0].state, CleanState::Cleaned { .. }), "{outcomes:?}");
    ours.assert_gone(&[outcomes[0].id.clone()]);
    users.assert_untouched();
}

#[test]
fn a_device_with_a_filesystem_is_refused_then_forced_then_left_wiped() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("existing_device", &["mkfs.ext4", "wipefs"], "loop") {
        return;
    }
    let ours = Ours::new();
    let device = machine::LoopDevice::with_ext4(&ours.beside("disk"));
    let text = format!(
        r#"{{"name": "d", "layers": [{{"layer": "device", "paths": ["{}"]}}, {EXT4}]}}"#,
        device.node
    );
    let stack: DeclaredStack = serde_json::from_str(&text).unwrap();
    let mut place = ours.place();
    let refused =
        |place: &BuildPlace| build_all(&stack, place, &ours.journals).unwrap_err().to_string();
    assert!(refused(&place).contains("--destroy"));
    place.destroy.push(device.node.clone().into());
    assert!(refused(&place).contains("ext4 is on it; wipe it, or add --force-signature"));
    place.force = true;
    let mounted = device.mounted(&ours.beside("mnt"));
    assert!(refused(&place).contains("it is in use (mounted at"), "{}", refused(&place));
    drop(mounted);
    build_all(&stack, &place, &ours.journals).unwrap();
    let usage = durio_observe::device_use(Path::new(&device.node)).unwrap();
    assert_eq!(usage.signatures, [], "what we wrote is wiped");
    drop(device);
    ours.assert_gone(&[]);
    users.assert_untouched();
}

#[test]
fn the_stop_flag_tears_down_what_is_there() {
    let (_alone, users) = (one_at_a_time(), Users::new());
    if !ready("stop_flag", &["mkfs.ext4"], "loop") {
        return;
    }
    let ours = Ours::new();
    let undone = std::cell::Cell::new(0);
    let asked = std::cell::Cell::new(0);
    let stop = || asked.replace(asked.get() + 1) >= 5;
    let told = |progress: BuildProgress<'_>| {
        undone.set(undone.get() + u32::from(matches!(progress, BuildProgress::Undo(_))));
    };
    let options = BuildOptions { stop: &stop, progress: &told };
    let stack = declared("loop", 1, 16 * MIB, EXT4);
    let mut builder = Builder::new(&stack, &ours.place(), &ours.journals, options).unwrap();
    let outcome = std::iter::from_fn(|| builder.build_next().transpose()).last();
    assert!(matches!(outcome, Some(Err(BuildError::Stopped(_)))));
    drop(builder);
    assert!(undone.get() >= 3, "{}", undone.get());
    ours.assert_gone(&[]);
    users.assert_untouched();
}
