//! Files with names: the journal remembers them, and the next run removes what a killed one left.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durio::{Durio, Running};
use crate::loops::{Mount, sh};
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};
use crate::seeded::Seeded;

const ENDLESS: &str =
    "run --quiet --rw randwrite --duration 60s --size 4MiB --target data/new --create";

/// For a filesystem on which the file needs a name; the target is the next word.
const ENDLESS_NAMED: &str = "run --quiet --rw randwrite --duration 60s --size 4MiB --target";

/// The latest moment after which a run is killed.
const LATEST_MS: usize = 600;

/// Waits until the run measures, that is, until an event says so.
#[track_caller]
fn wait_until_it_measures(sandbox: &Sandbox, running: &mut Running) -> PathBuf {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(90) && running.is_alive() {
        for run in sandbox.runs() {
            let events = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
            // durio's own cost is step 0.
            if events.contains("\"event\":\"step_started\",\"step\":1") {
                return run;
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("it did not begin: {}", running.stderr());
}

/// Kills a run that has made its file.
fn kill(sandbox: &Sandbox, command: Durio) -> PathBuf {
    let mut running = command.start();
    let run = wait_until_it_measures(sandbox, &mut running);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code(), 137);
    run
}

fn next_run(sandbox: &Sandbox) -> crate::durio::Ended {
    sandbox.durio("run --quiet --engine null --ops 10").run().expect_exit(0)
}

#[test]
fn a_killed_run_leaves_nothing_and_the_name_is_the_users() {
    let mut sandbox = Sandbox::new();
    let run = kill(&sandbox, sandbox.durio(ENDLESS));
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
    sandbox.durio("report").word(&run).run().expect_exit(0).expect_stdout("PARTIAL");
    // As large as the file that was measured, and written at once.
    let mine = vec![7; 4 << 20];
    fs::write(sandbox.data().join("new"), &mine).unwrap();
    sandbox.accept_changes();
    next_run(&sandbox).expect_no_stderr();
    assert!(fs::read(sandbox.data().join("new")).unwrap() == mine);
}

#[test]
fn a_killed_command_can_be_given_again() {
    let sandbox = Sandbox::new();
    kill(&sandbox, sandbox.durio(ENDLESS));
    let again = sandbox.durio(&ENDLESS.replace("--duration 60s", "--ops 20")).run();
    again.expect_exit(0).expect_no_stderr();
}

/// Whatever the run does at that moment, also while it lays out its file.
#[test]
fn a_file_that_the_user_writes_at_once_after_a_kill_is_never_touched() {
    let mut seeded = Seeded::new();
    for turn in 0..10_usize {
        let mut sandbox = Sandbox::new();
        let size = if turn % 2 == 0 { "4MiB" } else { "400MiB" };
        let mut running = sandbox.durio(&ENDLESS.replace("4MiB", size)).start();
        let wait_ms = seeded.below(LATEST_MS + 1);
        thread::sleep(Duration::from_millis(wait_ms as u64));
        running.signal(Signal::KILL);
        running.wait();
        let new = sandbox.data().join("new");
        fs::write(&new, turn.to_le_bytes()).unwrap();
        sandbox.accept_changes();
        next_run(&sandbox).expect_no_stderr();
        assert_eq!(fs::read(&new).unwrap(), turn.to_le_bytes(), "killed after {wait_ms} ms");
    }
}

/// With strace a filesystem without O_TMPFILE can be had anywhere: the kernel's answer is replaced
/// for exactly this directory: the first three openings are looks at it, the fourth one asks for a file
/// without a name. `-D` makes durio the child, and strace its companion.
fn without_unnamed_files(sandbox: &Sandbox, line: &str) -> Durio {
    without_unnamed_files_in(sandbox, sandbox.data().to_str().unwrap(), line)
}

fn without_unnamed_files_in(sandbox: &Sandbox, data: &str, line: &str) -> Durio {
    let inject = "inject=?open,openat:error=EOPNOTSUPP:when=4";
    let quiet = ["strace", "-D", "-f", "-qqq", "--seccomp-bpf", "-o", "/dev/null"];
    sandbox.durio(line).word(data).within(quiet.into_iter().chain(["-P", data, "-e", inject]))
}

fn names_beside_the_users(directory: &Path) -> Vec<String> {
    let names = entries(directory).into_iter().map(|path| path.file_name().unwrap().to_owned());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name != "notes.txt" && name != "user.db").collect()
}

const CHECK: &str = "check --quiet --size 4MiB --workload lookup --format json";

#[test]
fn a_filesystem_without_unnamed_files_gets_a_named_one_that_is_gone_afterwards() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = format!("{CHECK} --duration 1s");
    without_unnamed_files(&sandbox, &line).run().expect_exit(0).json();
    let run = sandbox.the_run();
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    assert!(events.contains("\"layout\":\"named\""), "{events}");
    let journal = fs::read_to_string(run.join("journal.jsonl")).unwrap();
    assert!(journal.contains("/data/.durio-"), "{journal}");
    assert!(names_beside_the_users(&sandbox.data()).is_empty());
}

/// Kills a run whose file needs a name; gives the name, which is durio's own.
fn kill_named(sandbox: &Sandbox) -> PathBuf {
    kill(sandbox, without_unnamed_files(sandbox, ENDLESS_NAMED));
    let left = names_beside_the_users(&sandbox.data());
    assert!(left.len() == 1 && left[0].starts_with(".durio-"), "{left:?}");
    sandbox.data().join(&left[0])
}

#[test]
fn the_next_run_removes_the_named_file_of_a_killed_one_and_says_so() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let left = kill_named(&sandbox);
    next_run(&sandbox).expect_stderr("removed").expect_stderr(left.to_str().unwrap());
    assert!(sandbox.differences().is_empty());
    next_run(&sandbox).expect_no_stderr();
}

/// While it lays out its file, measures, or removes the file.
#[test]
fn a_named_file_is_gone_after_the_next_run_whenever_its_run_is_killed() {
    if !has(&["strace"]) {
        return;
    }
    let mut seeded = Seeded::new();
    for turn in 0..8_usize {
        let sandbox = Sandbox::new();
        let line = match turn % 2 {
            0 => ENDLESS_NAMED.replace("4MiB", "200MiB"),
            _ => ENDLESS_NAMED.replace("--duration 60s", "--ops 20 --no-self-cost"),
        };
        let mut running = without_unnamed_files(&sandbox, &line).start();
        let wait_ms = seeded.below(LATEST_MS + 1);
        thread::sleep(Duration::from_millis(wait_ms as u64));
        running.signal(Signal::KILL);
        running.wait();
        let ended = next_run(&sandbox);
        assert!(!ended.stderr.contains("leaves it too"), "after {wait_ms} ms: {}", ended.stderr);
        assert!(sandbox.differences().is_empty() && sandbox.pointers().is_empty());
    }
}

/// Stays, is told once with how to remove it, and the run is forgotten.
#[track_caller]
fn stays_and_is_told_once(sandbox: &Sandbox, left: &Path, contents: &[u8]) {
    let name = left.to_str().unwrap();
    next_run(sandbox).expect_stderr("durio leaves it too").expect_stderr(&format!("rm '{name}'"));
    next_run(sandbox).expect_no_stderr();
    assert!(fs::read(left).unwrap() == contents && sandbox.pointers().is_empty());
}

#[test]
fn a_file_that_took_the_name_of_one_left_behind_is_the_users() {
    if !has(&["strace"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let left = kill_named(&sandbox);
    fs::remove_file(&left).unwrap();
    fs::write(&left, "mine").unwrap();
    sandbox.accept_changes();
    stays_and_is_told_once(&sandbox, &left, b"mine");
}

#[test]
fn a_file_left_behind_that_the_user_overwrites_in_place_is_the_users() {
    if !has(&["strace"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let left = kill_named(&sandbox);
    // Another size is seen at once, other contents once the run is dead for longer than its last sign
    // of life may be old.
    thread::sleep(Duration::from_secs(4));
    let mine = vec![7; 4 << 20];
    fs::write(&left, &mine).unwrap();
    sandbox.accept_changes();
    stays_and_is_told_once(&sandbox, &left, &mine);
}

/// The mount of another filesystem hides what was left, as an unmounted disk would.
#[test]
fn a_file_whose_filesystem_is_not_there_is_removed_when_it_is_back() {
    if !has(&["root", "strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    kill_named(&sandbox);
    let other = Mount::tmpfs(1, &sandbox.data());
    next_run(&sandbox).expect_no_stderr();
    assert_eq!(sandbox.pointers().len(), 1);
    drop(other);
    next_run(&sandbox).expect_stderr("removed");
    assert!(sandbox.pointers().is_empty());
}

#[test]
fn a_run_that_lives_keeps_its_file() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let mut running = without_unnamed_files(&sandbox, ENDLESS_NAMED).start();
    wait_until_it_measures(&sandbox, &mut running);
    next_run(&sandbox).expect_no_stderr();
    assert!(names_beside_the_users(&sandbox.data()).len() == 1 && running.is_alive());
    running.signal(Signal::INT);
    running.wait().expect_exit(130);
}

/// The error of the storage ends the run; the file that stays must be named beside it.
#[test]
fn a_file_that_stays_on_a_filesystem_that_was_shut_down_is_named() {
    if !has(&["root", "strace", "mkfs.ext4", "xfs_io"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    let backing = sandbox.root().join("backing");
    let mounted = Mount::filesystem("ext4", &backing, 64, &sandbox.root().join("mounted"));
    let point = mounted.point().to_str().unwrap();
    let mut running = without_unnamed_files_in(&sandbox, point, ENDLESS_NAMED).start();
    wait_until_it_measures(&sandbox, &mut running);
    let left = names_beside_the_users(mounted.point());
    let left = left.iter().find(|name| name.starts_with(".durio-")).unwrap();
    sh(&format!("xfs_io -x -c shutdown '{point}'"));
    let ended = running.wait().expect_exit(3).expect_stderr("Input/output error");
    ended.expect_stderr(left).expect_stderr("next run");
    next_run(&sandbox).expect_no_stderr();
    assert_eq!(sandbox.pointers().len(), 1, "nobody can look at it now");
    drop(mounted);
    fs::remove_dir(sandbox.root().join("mounted")).unwrap();
    sandbox.may_leave_pointers();
}

#[test]
fn what_a_killed_check_left_on_a_filesystem_without_unnamed_files_is_removed() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    kill(&sandbox, without_unnamed_files(&sandbox, &format!("{CHECK} --duration 60s")));
    let left = names_beside_the_users(&sandbox.data());
    assert!(left.len() == 1 && left[0].starts_with(".durio-"), "{left:?}");
    next_run(&sandbox).expect_stderr("removed").expect_stderr(&left[0]);
    assert!(sandbox.differences().is_empty());
}
