//! Storage that fails or is full half-way: exit code 3, the reason with its number, the record says
//! FAILED, nothing of durio's is left.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::durio::Ended;
use crate::loops::{Mount, sh};
use crate::requirements::has;
use crate::sandbox::Sandbox;
use crate::watch::Watch;

/// ext4 of 256 MiB on a loop device over a file in a memory filesystem of 24 MiB: when that is full,
/// the loop device answers writes with an error.
struct OverbookedDisk {
    // The inner one goes first.
    disk: Mount,
    _memory: Mount,
}

impl OverbookedDisk {
    fn new(sandbox: &Sandbox) -> Self {
        let memory = Mount::tmpfs(24, &sandbox.root().join("memory"));
        let image = memory.point().join("image");
        let disk = Mount::filesystem("ext4", &image, 256, &sandbox.root().join("disk"));
        Self { disk, _memory: memory }
    }

    /// A file that exists without occupying anything.
    fn preallocated_file(&self) -> String {
        let path = self.disk.point().join("file").display().to_string();
        sh(&format!("fallocate -l 64M '{path}'"));
        path
    }
}

fn errors_in_the_record(sandbox: &Sandbox) -> Vec<Value> {
    let events = fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == "error").collect()
}

/// EIO, or ENOSPC where the loop driver hands the reason through.
fn assert_failed_by_the_storage(sandbox: &Sandbox, ended: Ended) {
    let ended = ended.expect_exit(3).expect_stderr("os error");
    assert!(["os error 5", "os error 28"].iter().any(|errno| ended.stderr.contains(errno)));
    let errors = errors_in_the_record(sandbox);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!([5, 28].map(Value::from).contains(&errors[0]["errno"]), "{errors:?}");
    let report = sandbox.durio("report").word(sandbox.the_run()).run().expect_exit(0);
    report.expect_stdout("FAILED").expect_stdout("os error");
}

#[test]
fn writes_that_fail_half_way_end_the_run_with_their_reason() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = OverbookedDisk::new(&sandbox);
    let file = disk.preallocated_file();
    let line = "run --quiet --rw write --bs 64k --duration 30s --format json --no-self-cost";
    let ended = sandbox.durio(line).word("--target").word(&file).word("--destroy").word(&file);
    let ended = ended.run().expect_exit(3).expect_stderr("cannot write 65536 B at offset");
    let document = ended.json();
    assert_eq!(document["state"], "failed");
    assert!(document["workloads"][0]["iops"].as_f64().unwrap() > 0.0, "what was measured is shown");
    assert_failed_by_the_storage(&sandbox, ended);
    assert!(errors_in_the_record(&sandbox)[0]["offset_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_sync_that_fails_ends_the_run_for_it_told_of_lost_writes() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = OverbookedDisk::new(&sandbox);
    let file = disk.preallocated_file();
    let line = "run --quiet --rw write --bs 1m --buffered --sync fdatasync --duration 30s";
    let ended = sandbox.durio(line).word("--target").word(&file).word("--destroy").word(&file);
    assert_failed_by_the_storage(&sandbox, ended.run().expect_stderr("sync"));
}

#[test]
fn a_layout_that_fails_half_way_leaves_nothing() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = OverbookedDisk::new(&sandbox);
    let watch = Watch::new(disk.disk.point());
    let line = "run --quiet --rw write --ops 100 --size 128MiB --target disk/new --create";
    let ended = sandbox.durio(line).run().expect_stderr("cannot lay out");
    assert_failed_by_the_storage(&sandbox, ended);
    drop(watch);
}

#[test]
fn a_filesystem_that_is_too_full_is_refused_before_anything_is_made() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Mount::tmpfs(40, &sandbox.root().join("small"));
    let _watch = Watch::new(small.point());
    for line in
        ["check small", "check small --size 36MiB", "run --ops 5 --target small --size 41MiB"]
    {
        let ended = sandbox.durio(line).run().expect_exit(3).expect_no_stdout();
        ended.expect_stderr("40 MiB free").expect_stderr("hint:");
    }
    assert!(sandbox.runs().is_empty());
}

/// Each of two places has room for its files, both together do not, and as overlays they look like
/// two filesystems: the space ends in a layout.
#[test]
fn space_that_ends_during_the_layout_is_told_with_a_hint_and_given_back() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Mount::tmpfs(40, &sandbox.root().join("small"));
    let overlays = ["one", "two"].map(|name| overlay(&sandbox, small.point(), name));
    let free = || sh(&format!("df --output=avail -k '{}' | tail -1", small.point().display()));
    let before = free();
    let _watch = Watch::new(small.point());
    let line = "check one two --quiet --size 12MiB --duration 100ms \
                --workload commit --workload lookup";
    let ended = sandbox.durio(line).run().expect_exit(3);
    let ended = ended.expect_stderr("No space left on device").expect_stderr("hint:");
    ended.expect_stdout("FAILED");
    assert_eq!(errors_in_the_record(&sandbox)[0]["errno"], 28);
    assert_eq!(free(), before, "KiB free");
    drop(overlays);
}

fn overlay(sandbox: &Sandbox, small: &Path, name: &str) -> Mount {
    for part in ["upper", "work"] {
        fs::create_dir_all(small.join(name).join(part)).unwrap();
    }
    let (place, lower) = (small.join(name), sandbox.data());
    let (place, lower) = (place.display(), lower.display());
    let options = format!(
        "-t overlay -o lowerdir={lower},upperdir={place}/upper,workdir={place}/work overlay"
    );
    Mount::new(&options, &sandbox.root().join(name))
}

#[test]
fn places_that_share_the_space_of_a_filesystem_are_told_so() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Mount::tmpfs(40, &sandbox.root().join("small"));
    for name in ["one", "two"] {
        fs::create_dir(small.point().join(name)).unwrap();
    }
    let line = "check small/one small/two --quiet --size 12MiB --duration 100ms";
    let ended = sandbox.durio(line).run().expect_exit(3).expect_no_stdout();
    ended.expect_stderr("72 MiB").expect_stderr("all 2 directories");
}

#[test]
fn a_full_disk_under_the_run_folder_is_told_apart_from_the_measured_one() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Mount::tmpfs(1, &sandbox.root().join("small"));
    sh(&format!("fallocate -l 1M '{0}/full' || true", small.point().display()));
    let line =
        "run --quiet --rw randwrite --ops 50 --size 4MiB --target data/new --create --out small";
    let ended = sandbox.durio(line).run().expect_exit(3);
    ended.expect_stderr("No space left on device").expect_stderr("--out");
}

/// The record's disk becomes full while the run goes on, with a named file made already.
#[test]
fn a_disk_that_becomes_full_under_the_record_ends_the_run_and_its_files() {
    if !has(&["root"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let small = Mount::tmpfs(1, &sandbox.root().join("small"));
    let ballast = small.point().join("ballast");
    sh(&format!("fallocate -l 800K '{}'", ballast.display()));
    let line = "run --quiet --rw randwrite --duration 60s --interval 1ms --size 4MiB \
                --target data/new --create --out small";
    let ended = sandbox.durio(line).run().expect_exit(3).expect_stderr("cannot record the run");
    ended.expect_stderr("No space left on device").expect_stderr("--out");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
    let run = crate::sandbox::entries(small.point()).remove(0);
    let report = sandbox.durio("report --format json").word(run).run();
    // The last event may be there only in part, which is told.
    assert!([0, 3].contains(&report.code()), "{}", report.code());
    assert_eq!(report.json()["state"], "partial");
    sandbox.may_leave_pointers();
}

/// A shell with `ulimit -f` sends SIGXFSZ; the write must fail rather than the process end.
#[test]
fn a_limit_on_the_size_of_files_leaves_no_named_file_behind() {
    if !has(&["prlimit"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "run --quiet --rw randwrite --ops 50 --size 4MiB --target data/new --create";
    let ended = sandbox.durio(line).within(["prlimit", "--fsize=2097152"]).run();
    assert!(!sandbox.data().join("new").exists(), "exit code {}", ended.code());
    ended.expect_exit(3).expect_stderr("cannot lay out");
}
