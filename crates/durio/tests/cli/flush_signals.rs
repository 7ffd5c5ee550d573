//! Signals on whether a flush can be trusted, on storage that differs in just that.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::durio::Durio;
use crate::loops::{Mount, sh, sparse_file};
use crate::requirements::{has, skip};
use crate::sandbox::Sandbox;

const CHECK: &str =
    "check place --quiet --duration 150ms --size 16MiB --workload commit --format json";

/// Of each signal the word, the id and the layer.
fn signals(durio: Durio) -> Vec<(String, String, String)> {
    let document = durio.run().expect_exit(0).json();
    let text = |signal: &Value, key: &str| signal[key].as_str().unwrap().to_owned();
    let signals = document["signals"].as_array().unwrap();
    for signal in signals {
        let read = signal["read"].as_array().unwrap();
        assert!(read.iter().all(|it| !it["where"].as_str().unwrap().is_empty()), "{signal}");
        assert!(!read.is_empty(), "{signal}");
    }
    signals.iter().map(|it| (text(it, "word"), text(it, "id"), text(it, "layer"))).collect()
}

#[track_caller]
fn assert_has(signals: &[(String, String, String)], word: &str, id: &str) {
    let found = signals.iter().any(|(w, i, _)| w == word && i == id);
    assert!(found, "no {word} {id} in {signals:?}");
}

/// No signal of this name about a layer that is named after the place.
#[track_caller]
fn assert_not_at(signals: &[(String, String, String)], id: &str, place: &Path) {
    let place = place.display().to_string();
    let found = signals.iter().any(|(_, i, layer)| i == id && layer.contains(&place));
    assert!(!found, "{id} at {place} in {signals:?}");
}

fn on_a_loop_device(kind: &str, mib: u64) {
    if !has(&["root", "losetup", &format!("mkfs.{kind}")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (image, point) = (sandbox.root().join("image"), sandbox.root().join("place"));
    let _place = Mount::filesystem(kind, &image, mib, &point);
    let found = signals(sandbox.durio(CHECK));
    assert_has(&found, "fact", "loop-backing");
    for id in ["barriers-off", "memory-backed", "no-journal", "hidden-below"] {
        assert_not_at(&found, id, &point);
    }
}

#[test]
fn ext4_on_a_loop_device_sends_flushes_to_its_file() {
    on_a_loop_device("ext4", 64);
}

#[test]
fn xfs_on_a_loop_device_sends_flushes_to_its_file() {
    on_a_loop_device("xfs", 320);
}

#[test]
fn btrfs_on_a_loop_device_sends_flushes_to_its_file() {
    on_a_loop_device("btrfs", 256);
}

#[test]
fn ext4_without_barriers_is_an_unsafe_configuration() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (image, point) = (sandbox.root().join("image"), sandbox.root().join("place"));
    let _place = Mount::filesystem_with("-o nobarrier", "ext4", &image, 64, &point);
    let found = signals(sandbox.durio(CHECK));
    assert_has(&found, "unsafe-config", "barriers-off");
    assert_eq!(found[0].0, "unsafe-config", "most severe first: {found:?}");
    let text = sandbox.durio(&CHECK.replace("json", "text --verbose")).run().expect_exit(0);
    let text = text.expect_stdout("Can its flush be trusted?").expect_stdout("UNSAFE-CONFIG");
    text.expect_stdout("mount option = nobarrier [/proc/self/mountinfo]");
}

#[test]
fn ext4_without_a_journal_is_told() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (image, point) = (sandbox.root().join("image"), sandbox.root().join("place"));
    sparse_file(&image, 64);
    sh(&format!("mkfs.ext4 -q -F -O ^has_journal '{}'", image.display()));
    let _place = Mount::new(&format!("-o loop '{}'", image.display()), &point);
    let found = signals(sandbox.durio(CHECK));
    let is_here = |layer: &str| layer.contains(&point.display().to_string());
    let told = found.iter().any(|(_, id, layer)| id == "no-journal" && is_here(layer));
    assert!(told, "{found:?}");
}

#[test]
fn a_memory_filesystem_is_an_unsafe_configuration_and_has_no_device() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let _place = Mount::tmpfs(64, &sandbox.root().join("place"));
    let found = signals(sandbox.durio(CHECK));
    assert_has(&found, "unsafe-config", "memory-backed");
    assert!(found.iter().all(|(_, id, _)| id != "flush-sent"), "{found:?}");
}

/// A compressed RAM disk of its own, gone at the end of the test.
struct Zram {
    number: u32,
}

impl Zram {
    /// None where the kernel has none.
    fn new(mib: u64) -> Option<Self> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").ok()?;
        let zram = Self { number: number.trim().parse().ok()? };
        fs::write(format!("/sys/block/zram{}/disksize", zram.number), format!("{mib}M")).unwrap();
        Some(zram)
    }

    fn node(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let number = self.number;
        let _ = fs::write(format!("/sys/block/zram{number}/reset"), "1");
        let removed = fs::write("/sys/class/zram-control/hot_remove", number.to_string());
        assert!(removed.is_ok() || std::thread::panicking(), "zram{number} is still there");
    }
}

#[test]
fn ext4_on_a_compressed_ram_disk_lies_in_memory() {
    if !has(&["root", "mkfs.ext4"]) {
        return;
    }
    let Some(zram) = Zram::new(64) else { return skip("the kernel makes no zram devices") };
    let sandbox = Sandbox::new();
    sh(&format!("mkfs.ext4 -q -F {}", zram.node()));
    let _place = Mount::new(&format!("-t ext4 {}", zram.node()), &sandbox.root().join("place"));
    let found = signals(sandbox.durio(CHECK));
    assert_has(&found, "unsafe-config", "memory-backed");
}

/// Makes fsync and its like do nothing, as libraries for tests do.
const SWALLOWS: &str = "int fsync(int fd) { (void)fd; return 0; }\n\
                        int fdatasync(int fd) { (void)fd; return 0; }\n";

fn compiled(sandbox: &Sandbox, name: &str) -> String {
    let (source, library) = (sandbox.root().join("swallows.c"), sandbox.root().join(name));
    fs::write(&source, SWALLOWS).unwrap();
    let line = format!("cc -shared -fPIC -o '{}' '{}'", library.display(), source.display());
    sh(&line);
    library.display().to_string()
}

#[test]
fn a_preloaded_library_is_told_and_one_that_is_known_to_swallow_syncs_weighs_more() {
    if !has(&["cc"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = CHECK.replace("place", "data");
    let plain = signals(sandbox.durio(&line));
    assert!(plain.iter().all(|(_, id, _)| id != "preloaded"), "{plain:?}");
    let unknown = compiled(&sandbox, "hook.so");
    let found = signals(sandbox.durio(&line).env("LD_PRELOAD", &unknown));
    assert_has(&found, "suspect", "preloaded");
    let known = compiled(&sandbox, "libnosync.so");
    let found = signals(sandbox.durio(&line).env("LD_PRELOAD", &known));
    assert_has(&found, "unsafe-config", "sync-swallower");
    // Flushes of others on the same device can hide it in one run, not in several.
    let is_seen = |_: &u32| {
        let found = signals(sandbox.durio(&line).env("LD_PRELOAD", &known));
        found.iter().any(|(_, id, _)| id == "syncs-swallowed")
    };
    assert!((0..5).any(|attempt| is_seen(&attempt)), "{found:?}");
}

#[test]
fn reads_alone_ask_nothing_of_a_flush() {
    let sandbox = Sandbox::new();
    let line = "check data/user.db --quiet --duration 100ms --workload scan --format json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(document["signals"], Value::Null);
}
