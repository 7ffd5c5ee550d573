//! Files with names: the journal remembers them, and the next run removes what a killed one left.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durio::{Durio, Running};
use crate::loops::Mount;
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};

const ENDLESS: &str = "run --quiet --rw randwrite --duration 60s --size 4MiB --target data/new";

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

/// Kills a run that has made `data/new`.
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
fn the_next_run_removes_what_a_killed_run_left_and_says_so() {
    let sandbox = Sandbox::new();
    let run = kill(&sandbox, sandbox.durio(ENDLESS));
    assert!(sandbox.data().join("new").exists(), "SIGKILL leaves a named file");
    sandbox.durio("report").word(&run).run().expect_exit(0).expect_stdout("PARTIAL");
    next_run(&sandbox).expect_stderr("removed").expect_stderr("data/new");
    assert!(sandbox.differences().is_empty());
    next_run(&sandbox).expect_no_stderr();
}

#[test]
fn a_file_that_took_the_name_of_one_left_behind_is_the_users() {
    let mut sandbox = Sandbox::new();
    kill(&sandbox, sandbox.durio(ENDLESS));
    // The old one is kept under another name, so that its inode is not given out again.
    let (new, old) = (sandbox.data().join("new"), sandbox.root().join("old"));
    fs::rename(&new, &old).unwrap();
    fs::write(&new, "the user's now\n").unwrap();
    sandbox.accept_changes();
    next_run(&sandbox).expect_no_stderr();
    assert_eq!(fs::read_to_string(&new).unwrap(), "the user's now\n");
    assert_eq!(sandbox.pointers().len(), 1, "nobody knows where the old one is");
    fs::remove_file(&new).unwrap();
    sandbox.accept_changes();
    next_run(&sandbox).expect_no_stderr();
    assert!(sandbox.pointers().is_empty(), "it is gone");
}

/// The mount of another filesystem hides what was left, as an unmounted disk would.
#[test]
fn a_file_whose_filesystem_is_not_there_is_removed_when_it_is_back() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    kill(&sandbox, sandbox.durio(ENDLESS));
    let other = Mount::tmpfs(1, &sandbox.data());
    next_run(&sandbox).expect_no_stderr();
    assert_eq!(sandbox.pointers().len(), 1);
    drop(other);
    next_run(&sandbox).expect_stderr("removed");
    assert!(sandbox.pointers().is_empty());
}

#[test]
fn a_run_that_lives_keeps_its_file() {
    let sandbox = Sandbox::new();
    let mut running = sandbox.durio(ENDLESS).start();
    wait_until_it_measures(&sandbox, &mut running);
    next_run(&sandbox).expect_no_stderr();
    assert!(sandbox.data().join("new").exists() && running.is_alive());
    running.signal(Signal::INT);
    running.wait().expect_exit(130);
}

/// With strace a filesystem without O_TMPFILE can be had anywhere: the kernel's answer is replaced
/// for exactly this directory. `-D` makes durio the child, and strace its companion.
fn without_unnamed_files(sandbox: &Sandbox, line: &str) -> Durio {
    let data = sandbox.data();
    let data = data.to_str().unwrap();
    let inject = "inject=?open,openat:error=EOPNOTSUPP:when=2+";
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
