//! `durio prove states`: crash states of logs that were made by hand and by other programs, checked by
//! commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use durio_simdisk::trace::{FLUSH, WriteLogEntry, superblock};
use rustix::process::Signal;

use crate::durio::Durio;
use crate::requirements::has;
use crate::sandbox::Sandbox;

/// Two records are written, flushed and told; then a third, which nobody waited for. In the log a write
/// stands where its flush ended.
fn log(sandbox: &Sandbox) -> PathBuf {
    let record = |number: u8| WriteLogEntry::write(u64::from(number), 0, &[b'0' + number; 512]);
    let flush = WriteLogEntry::write(0, FLUSH, &[]);
    let entries = [
        record(1),
        flush.clone(),
        WriteLogEntry::mark("one"),
        record(2),
        flush,
        WriteLogEntry::mark("two"),
        record(3),
        WriteLogEntry::mark("dm-log-writes-end"),
    ];
    let mut bytes = superblock(entries.len() as u64).to_vec();
    entries.iter().for_each(|entry| bytes.extend(entry.to_bytes()));
    let path = sandbox.root().join("log");
    fs::write(&path, bytes).unwrap();
    path
}

/// The states of the log, each checked by a script, with a folder for temporary files of its own.
fn states(sandbox: &Sandbox, options: &str, script: &str) -> Durio {
    let scratch = sandbox.root().join("scratch");
    fs::create_dir_all(&scratch).unwrap();
    let check = sandbox.program("check", &format!("#!/bin/sh\n{script}\n")).join("check");
    let line = format!("prove states log {options} --");
    sandbox.durio(&line).word(check).env("TMPDIR", scratch)
}

fn left_behind(sandbox: &Sandbox) -> usize {
    fs::read_dir(sandbox.root().join("scratch")).unwrap().count()
}

/// Each mark promises its record.
const RECORDS: &str = "case $DURIO_MARK in
    one) grep -q 1 $DURIO_STATE || exit 1;;
    two) grep -q 1 $DURIO_STATE && grep -q 2 $DURIO_STATE || exit 1;;
esac";

#[test]
fn a_log_whose_marks_keep_their_word_passes_in_every_state() {
    let sandbox = Sandbox::new();
    log(&sandbox);
    let told = "echo \"$DURIO_MARK $(tr -d '\\0' < $DURIO_STATE | tr -s 123)\" >> seen";
    let run = states(&sandbox, "--size 8KiB", &format!("{RECORDS}\n{told}"));
    let text = run.run().expect_exit(0).text();
    assert!(text.contains("6 crash states checked, none failed."), "{text}");
    let seen = fs::read_to_string(sandbox.root().join("seen")).unwrap();
    let mut seen: Vec<&str> = seen.lines().map(str::trim).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["", "1", "one 1", "one 12", "two 12", "two 123"]);
    assert_eq!(left_behind(&sandbox), 0);
}

#[test]
fn a_state_that_fails_is_told_and_made_again_by_its_name() {
    let sandbox = Sandbox::new();
    log(&sandbox);
    // The third record was never promised.
    let script = "test \"$DURIO_MARK\" != two || grep 3 $DURIO_STATE >&2 || exit 1";
    let document =
        states(&sandbox, "--size 8KiB --format json", script).run().expect_exit(1).json();
    assert_eq!(document["schema"], "durio-crash-states-1");
    assert_eq!((&document["states"], &document["failed"]), (&6.into(), &1.into()), "{document}");
    let failure = &document["failures"][0];
    assert_eq!((&failure["mark"], &failure["reason"]), (&"two".into(), &"exit code 1".into()));
    let name = failure["state"].as_str().unwrap();
    let only = format!("--size 8KiB --only {name}");
    states(&sandbox, &format!("{only} --save bad.img"), script)
        .run()
        .expect_exit(1)
        .expect_stdout("1 of 1 crash state failed");
    let saved = fs::read(sandbox.root().join("bad.img")).unwrap();
    assert_eq!((saved.len(), saved[2 * 512], saved[3 * 512]), (8192, b'2', 0));
    let save = format!("prove states log {only} --save bad.img");
    sandbox.durio(&save).run().expect_exit(3).expect_stderr("bad.img");
    assert_eq!(fs::read(sandbox.root().join("bad.img")).unwrap(), saved);
    let no_state = states(&sandbox, "--size 8KiB --only 99:all", "exit 0");
    no_state.run().expect_exit(2).expect_stderr("no state '99:all'");
}

#[test]
fn a_check_may_change_its_state_and_the_next_one_is_as_a_cut_leaves_it() {
    let sandbox = Sandbox::new();
    log(&sandbox);
    let script = "test ! -e $(dirname $DURIO_STATE)/more || exit 1
        ! grep -q 9 $DURIO_STATE || exit 1
        echo 9 >> $DURIO_STATE; mkdir $(dirname $DURIO_STATE)/more";
    states(&sandbox, "--size 8KiB", script).run().expect_exit(0);
    assert_eq!(left_behind(&sandbox), 0);
}

#[test]
fn what_a_check_cannot_tell_is_undecided() {
    let sandbox = Sandbox::new();
    log(&sandbox);
    for (options, script, why) in [
        ("", "exit 2", "exit code 2"),
        ("", "kill -9 $$", "SIGKILL"),
        ("--limit 1 --time-limit 1s", "sleep 600", "did not end"),
    ] {
        let run = states(&sandbox, &format!("--size 8KiB {options}"), script).run().expect_exit(3);
        let text = run.text();
        assert!(text.contains("Undecided") && text.contains(why), "{text}");
    }
    let missing = sandbox.durio("prove states log --size 8KiB -- ./no-such-check");
    missing.run().expect_exit(3).expect_stderr("no-such-check");
}

#[test]
fn what_cannot_be_a_log_or_a_disk_is_refused() {
    let sandbox = Sandbox::new();
    let path = log(&sandbox);
    let run = |options: &str| states(&sandbox, options, "exit 0").run().expect_exit(2);
    run("--size 1KiB").expect_stderr("at least 2048 bytes");
    run("").expect_stderr("--size");
    fs::write(sandbox.root().join("odd"), [1; 700]).unwrap();
    run("--base odd").expect_stderr("ends within a sector");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 512]).unwrap();
    run("--size 8KiB").expect_stderr("damaged");
    fs::write(&path, "a letter").unwrap();
    run("--size 8KiB").expect_stderr("not a log");
    assert_eq!(left_behind(&sandbox), 0);
}

#[test]
fn ctrl_c_ends_the_check_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    log(&sandbox);
    let pid = sandbox.root().join("pid");
    let script = "echo $$ > pid.new; mv pid.new pid; exec sleep 600";
    let mut running = states(&sandbox, "--size 8KiB", script).start();
    let begin = Instant::now();
    while !pid.exists() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{}", running.stderr());
        sleep(Duration::from_millis(20));
    }
    running.signal(Signal::INT);
    running.wait().expect_exit(130).expect_stdout("Interrupted");
    assert_eq!(left_behind(&sandbox), 0);
    let pid = fs::read_to_string(pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

/// A filesystem is copied to a disk, and somebody is told. What nbdcopy promises with --flush: all of it
/// is durable when it has ended. Without, nothing is.
#[test]
fn a_copy_that_is_not_flushed_is_found_by_e2fsck_and_one_that_is_passes() {
    if !has(&["mkfs.ext4", "e2fsck", "nbdcopy"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let program = |name| Command::new(crate::requirements::program_path(name).unwrap());
    let image = sandbox.root().join("fs.img");
    fs::File::create(&image).unwrap().set_len(2 << 20).unwrap();
    let made = program("mkfs.ext4").args(["-q", "-F"]).arg(&image).status().unwrap();
    assert!(made.success());
    let e2fsck = crate::requirements::program_path("e2fsck").unwrap();
    let script = format!(
        "test \"$DURIO_MARK\" = copied || exit 0; {} -fn $DURIO_STATE || exit 1",
        e2fsck.display()
    );
    for (flush, code) in [(&["--flush"][..], 0), (&[], 1)] {
        let _ = fs::remove_file(sandbox.root().join("log"));
        let serve = "simdisk serve --size 2MiB --socket disk --record log";
        let mut disk = sandbox.durio(serve).start();
        let begin = Instant::now();
        while !sandbox.root().join("disk.control").exists() {
            assert!(begin.elapsed() < Duration::from_secs(120), "{}", disk.stderr());
            sleep(Duration::from_millis(20));
        }
        let uri = format!("nbd+unix:///?socket={}", sandbox.root().join("disk").display());
        let copied = program("nbdcopy").args(flush).arg(&image).arg(uri).status().unwrap();
        assert!(copied.success());
        sandbox.durio("simdisk mark copied --socket disk").run().expect_exit(0);
        disk.signal(Signal::INT);
        disk.wait().expect_exit(0);
        states(&sandbox, "--size 2MiB --limit 40", &script).run().expect_exit(code);
    }
}
