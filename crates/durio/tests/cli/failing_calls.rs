//! Each call to storage fails once, one run for each: records, journals, state folder, replays, layouts and
//! campaigns that go on.
//!
//! strace answers the N-th call with an error, in the place of the kernel, until there is no N-th call
//! left. Whatever failed: exit code 3, its reason with its number, no figure, nothing left behind.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::advise::{PROVE, Place};
use crate::durio::Ended;
use crate::requirements::has;
use crate::resume::{LINE, interrupted, sandbox as campaign};
use crate::sandbox::{Sandbox, entries};

/// More than any command here makes.
const CALLS_MAX: usize = 60;

/// A call that fails.
struct Fault {
    /// System calls, as strace names them.
    calls: &'static str,
    error: &'static str,
    number: i32,
}

const fn fault(calls: &'static str, error: &'static str, number: i32) -> Fault {
    Fault { calls, error, number }
}

/// What keeps data: a full disk, a failing one, a name that cannot be made.
const WRITES: [Fault; 5] = [
    fault("write", "ENOSPC", 28),
    fault("fdatasync", "EIO", 5),
    fault("fsync", "EIO", 5),
    fault("rename,renameat,renameat2", "EIO", 5),
    fault("mkdirat", "ENOSPC", 28),
];

/// A run whose N-th call of a fault failed.
struct Failed {
    ended: Ended,
    /// strace's line of it.
    call: String,
}

/// None if the command makes fewer calls; `path` is what the call must be of.
fn run_with(
    sandbox: &Sandbox,
    line: &str,
    fault: &Fault,
    when: &str,
    path: Option<&Path>,
) -> Option<Failed> {
    let log = sandbox.root().join("strace.log");
    let Fault { calls, error, .. } = fault;
    let mut words: Vec<String> =
        ["strace", "-f", "-y", "-qqq", "--seccomp-bpf", "-o"].map(str::to_owned).to_vec();
    words.push(log.display().to_string());
    if let Some(path) = path {
        words.extend(["-P".to_owned(), path.display().to_string()]);
    }
    words.extend(["-e".to_owned(), format!("trace={calls}")]);
    words.extend(["-e".to_owned(), format!("inject={calls}:error={error}:when={when}")]);
    let ended = sandbox.durio(line).within(words).start().wait_at_most(Duration::from_secs(120));
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    fs::remove_file(&log).unwrap();
    let call = text.lines().find(|it| it.contains("INJECTED"))?.to_owned();
    Some(Failed { ended, call })
}

/// Has each call of each fault fail, on a new sandbox for each; gives how many did.
fn each_call_fails(
    make: impl Fn() -> Sandbox,
    line: &str,
    faults: &[Fault],
    is_of_state_or_data: impl Fn(&str) -> bool,
) -> usize {
    let mut failed_calls = 0;
    for fault in faults {
        for number in 1..=CALLS_MAX {
            assert!(number < CALLS_MAX, "{}: no end of its calls", fault.calls);
            let sandbox = make();
            let Some(failed) = run_with(&sandbox, line, fault, &number.to_string(), None) else {
                break;
            };
            if !is_of_state_or_data(&failed.call) {
                continue;
            }
            let Failed { ended, call } = failed;
            let about = format!("{line}: {call}\n{}", ended.stderr);
            assert_eq!(ended.code(), 3, "{about}");
            assert!(ended.stderr.contains(&format!("(os error {})", fault.number)), "{about}");
            assert!(ended.stdout.is_empty(), "a figure is shown: {about}{}", ended.text());
            assert_eq!(sandbox.differences(), Vec::<String>::new(), "{about}");
            let pointers = entries(&sandbox.state().join("durio/leftovers"));
            assert!(pointers.is_empty(), "{about}: {pointers:?}");
            failed_calls += 1;
            // Of what is there, nothing passes for a run that ended well.
            for run in sandbox.runs() {
                let report = sandbox.durio("report --format json").word(&run).run();
                let is_ended = report.code() == 0 && report.json()["state"] == "complete";
                let is_whole = run.join("events.jsonl").metadata().is_ok_and(|it| it.len() > 0)
                    && ["findings.json", "report.html", "run_", "fdatasync("]
                        .iter()
                        .any(|it| about.contains(it));
                assert!(!is_ended || is_whole, "{about}");
            }
        }
    }
    failed_calls
}

fn is_kept(call: &str) -> bool {
    ["/state/", "/state>", "/data/", "/data>"].iter().any(|it| call.contains(it))
}

#[test]
fn a_run_ends_at_each_call_of_its_record_that_fails() {
    if !has(&["strace"]) {
        return;
    }
    let line = "run --quiet --engine null --ops 50 --rw write --sync fdatasync --no-self-cost";
    let failed = each_call_fails(Sandbox::in_memory, line, &WRITES, is_kept);
    // Plan, environment, manifest, pointer, events, histograms, findings, report, and their folders.
    assert!((38..=50).contains(&failed), "{failed}");
}

#[test]
fn a_run_ends_at_each_call_of_its_layout_and_its_measured_part_that_fails() {
    if !has(&["strace"]) {
        return;
    }
    let is_of_data = |call: &str| call.contains("/data/") || call.contains("/data>");
    let line = "run --quiet --engine sync --rw randrw --size 256KiB --ops 6 --no-self-cost \
                --sync fdatasync --seed 7 --target data --interval 1h";
    let storage = [
        fault("pwrite64,pwritev,pwritev2", "EIO", 5),
        fault("fdatasync", "EIO", 5),
        fault("fsync", "EIO", 5),
        fault("ftruncate,fallocate", "ENOSPC", 28),
    ];
    let mut failed_calls = 0;
    for fault in &storage {
        for number in 1..CALLS_MAX {
            let sandbox = Sandbox::new();
            let Some(Failed { ended, call }) =
                run_with(&sandbox, line, fault, &number.to_string(), None)
            else {
                break;
            };
            if !is_of_data(&call) {
                continue;
            }
            let about = format!("{call}\n{}", ended.stderr);
            assert_eq!(ended.code(), 3, "{about}");
            assert!(ended.stderr.contains(&format!("(os error {})", fault.number)), "{about}");
            let report = sandbox.durio("report --format json").word(sandbox.the_run()).run();
            let state = report.json()["state"].as_str().unwrap().to_owned();
            assert!(["failed", "partial"].contains(&&*state), "{state}: {about}");
            assert_eq!(sandbox.differences(), Vec::<String>::new(), "{about}");
            failed_calls += 1;
        }
    }
    assert!(failed_calls >= 8, "{failed_calls}");
}

/// Two threads that write and sync, as strace tells of them.
fn replayed() -> Sandbox {
    let mut sandbox = Sandbox::new();
    let mut text = String::new();
    for at in 0..6 {
        let time = 1_795_000_000.0 + f64::from(at) / 1000.0;
        let (log, table) = ("3</old/log>", "4</old/table>");
        let (place, page) = (8192 * at, 8192 * (at % 4));
        text +=
            &format!("800 {time:.6} pwrite64({log}, \"\"..., 8192, {place}) = 8192 <0.00002>\n");
        text += &format!("801 {:.6} fdatasync({log}) = 0 <0.00010>\n", time + 0.0001);
        text +=
            &format!("802 {time:.6} pwrite64({table}, \"\"..., 8192, {page}) = 8192 <0.00002>\n");
    }
    fs::write(sandbox.root().join("strace.txt"), text).unwrap();
    sandbox.durio("capture --strace strace.txt --trace t.trace").run().expect_exit(0);
    sandbox.accept_changes();
    sandbox
}

#[test]
fn a_replay_ends_at_each_call_that_fails() {
    if !has(&["strace"]) {
        return;
    }
    let storage = [
        fault("pwrite64,pwritev,pwritev2", "EIO", 5),
        fault("fdatasync", "EIO", 5),
        fault("fsync", "EIO", 5),
        fault("ftruncate,fallocate", "ENOSPC", 28),
    ];
    let failed = each_call_fails(replayed, "replay t.trace data --quiet", &storage, is_kept);
    // A table of six writes and a log of six, two layouts; each thread counts for itself.
    assert!(failed >= 14, "{failed}");
}

/// What a durio that does something else says, which sets back what others left changed.
fn next_durio(sandbox: &Sandbox) -> String {
    sandbox.durio("run --quiet --engine null --ops 10").run().expect_exit(0).stderr
}

#[test]
fn a_setting_is_not_changed_where_its_old_value_cannot_be_kept() {
    if !has(&["strace", "root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox);
    let line = format!("{PROVE} 1 --duration 100ms");
    let mut failed_calls = Vec::new();
    for fault in &WRITES {
        for number in 1..CALLS_MAX {
            let settings = sandbox.state().join("durio/settings");
            // It is made for the first setting.
            let _ = fs::remove_dir(&settings);
            let failed = run_with(&sandbox, &line, fault, &number.to_string(), None);
            let is_of_settings = |it: &Failed| it.call.contains("settings");
            let Some(Failed { ended, call }) = failed.filter(is_of_settings) else {
                // Calls of the runs come after those of the journal.
                if failed_calls.contains(&fault.calls) || number > 6 {
                    break;
                }
                continue;
            };
            let about = format!("{call}\n{}", ended.stderr);
            assert_eq!(ended.code(), 3, "{about}");
            assert!(ended.stderr.contains(&format!("(os error {})", fault.number)), "{about}");
            assert!(ended.stdout.is_empty(), "a figure is shown: {about}{}", ended.text());
            // No child run started: its calls would fail too.
            assert!(!ended.stderr.contains("run 1 of 2"), "{about}");
            assert_eq!(place.value(), "64", "{about}");
            assert_eq!(next_durio(&sandbox), "", "{about}");
            assert_eq!(place.value(), "64", "{about}");
            failed_calls.push(fault.calls);
        }
    }
    // The folder, the entry, its sync and that of its name, and the name.
    let expected = ["write", "fsync", "fsync", "rename,renameat,renameat2", "mkdirat"];
    assert_eq!(failed_calls, expected);
}

#[test]
fn a_setting_that_cannot_be_set_back_is_told_and_the_next_durio_sets_it_back() {
    if !has(&["strace", "root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox);
    let setting = fs::canonicalize(&place.setting).unwrap();
    let line = format!("{PROVE} 1 --duration 100ms");
    let mut left = Vec::new();
    for number in 1..CALLS_MAX {
        let refused = fault("write", "EIO", 5);
        let failed = run_with(&sandbox, &line, &refused, &number.to_string(), Some(&setting));
        let Some(Failed { ended, call }) = failed else { break };
        let about = format!("{call}\n{}", ended.stderr);
        assert_eq!(ended.code(), 3, "{about}");
        assert!(ended.stderr.contains("(os error 5)"), "{about}");
        let (value, said) = (place.value(), next_durio(&sandbox));
        if value == "64" {
            assert_eq!(said, "", "{about}");
        } else {
            let words = format!("set it back yourself: echo 64 > {}", place.setting.display());
            assert!(ended.stderr.contains(&words), "{about}");
            assert!(said.contains("to 64; a killed run had left it at 4096"), "{said}");
        }
        assert_eq!(place.value(), "64", "{about}");
        left.push(value);
    }
    // Both sides' values are set, and the last one is undone.
    assert_eq!(left, ["64", "64", "4096"]);
}

#[test]
fn a_campaign_whose_record_cannot_be_read_is_not_gone_on_with_and_nothing_of_it_is_cut_off() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = campaign();
    interrupted(&sandbox, Signal::KILL);
    let run = sandbox.the_run();
    let files = ["events.jsonl", "histograms.hlog", "run.json", "plan.json", "environment.json"];
    let before = files.map(|name| fs::read(run.join(name)).unwrap());
    let read = fault("read", "EIO", 5);
    let mut failed_calls = 0;
    for name in files {
        // Once, and from then on: a failing sector is read again and again.
        for when in ["1", "2", "1+"] {
            let path = run.join(name);
            let Some(Failed { ended, call }) = run_with(&sandbox, LINE, &read, when, Some(&path))
            else {
                continue;
            };
            let ended = ended.expect_exit(3).expect_stderr("(os error 5)").expect_no_stdout();
            ended.expect_stderr(run.to_str().unwrap());
            failed_calls += 1;
            assert_eq!(sandbox.runs(), std::slice::from_ref(&run), "{name} {when}: {call}");
            let now = files.map(|name| fs::read(run.join(name)).unwrap());
            assert!(now == before, "{name} {when}: {call}");
        }
    }
    assert_eq!(failed_calls, 15);
    // Nothing was lost of it: it goes on, and is whole then.
    let ended = sandbox.durio(LINE).run().expect_exit(0).expect_stderr("resuming ");
    assert_eq!(ended.json()["state"], "complete");
    assert!(fs::read(run.join("events.jsonl")).unwrap().starts_with(&before[0]));
}

#[test]
fn a_run_ends_if_the_name_of_its_folder_cannot_be_made_last() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::in_memory();
    let runs = sandbox.state().join("durio/runs");
    let line = "run --quiet --engine null --ops 50 --rw write --sync fdatasync --no-self-cost";
    let failed = run_with(&sandbox, line, &fault("fsync", "EIO", 5), "1", Some(&runs));
    let Failed { ended, call } = failed.expect("the folder of runs is never synced");
    assert!(call.contains("durio/runs>"), "{call}");
    ended.expect_exit(3).expect_stderr("(os error 5)").expect_no_stdout();
}
