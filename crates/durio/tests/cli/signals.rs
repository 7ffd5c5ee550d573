//! Stopped by the user, at any moment: exit code 130, a partial record, nothing left.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durio::Ended;
use crate::sandbox::Sandbox;
use crate::seeded::Seeded;

const LATEST_MS: usize = 600;

const UNNAMED: &str = "check data --quiet --duration 150ms --size 8MiB --format json";
const NAMED: &str =
    "run --quiet --rw randrw --duration 2s --size 8MiB --target data/new --create --format json";

fn stop_after(sandbox: &Sandbox, line: &str, signal: Signal, wait_ms: usize) -> Ended {
    let mut running = sandbox.durio(line).start();
    thread::sleep(Duration::from_millis(wait_ms as u64));
    running.signal(signal);
    running.wait_at_most(Duration::from_secs(60))
}

/// What holds whenever the signal came.
fn assert_ended_in_order(sandbox: &Sandbox, ended: &Ended, signal: Signal, wait_ms: usize) {
    let code = ended.code();
    // The process may end at once as long as it has made nothing.
    let has_record = sandbox.runs().iter().any(|run| run.join("run.json").exists());
    let at_once = code == 128 + signal.as_raw() && !has_record;
    let about = format!("after {wait_ms} ms: {code}\n{}", ended.stderr);
    assert!(code == 130 || code == 0 || at_once, "{about}");
    assert!(sandbox.differences().is_empty(), "{about}: {:?}", sandbox.differences());
    if at_once {
        return;
    }
    let run = sandbox.the_run();
    let document = sandbox.durio("report --format json").word(&run).run().expect_exit(0).json();
    let expected = if code == 0 { "complete" } else { "interrupted" };
    assert_eq!(document["state"], expected, "{about}");
    if code == 130 && !ended.stdout.is_empty() {
        assert_eq!(ended.json()["state"], "interrupted", "{about}");
    }
}

fn stop_at_moments(signal: Signal, moments: usize) {
    let mut seeded = Seeded::new();
    for moment in 0..moments {
        let sandbox = Sandbox::new();
        let wait_ms = seeded.below(LATEST_MS + 1);
        let line = if moment % 2 == 0 { UNNAMED } else { NAMED };
        let ended = stop_after(&sandbox, line, signal, wait_ms);
        assert_ended_in_order(&sandbox, &ended, signal, wait_ms);
    }
}

#[test]
fn an_interrupt_at_any_moment_leaves_a_partial_record_and_nothing_else() {
    stop_at_moments(Signal::INT, 12);
}

#[test]
fn a_termination_at_any_moment_leaves_a_partial_record_and_nothing_else() {
    stop_at_moments(Signal::TERM, 6);
}

#[test]
fn an_interrupted_run_shows_what_it_has_and_says_that_it_was_stopped() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --duration 30s --size 4MiB --target data --no-self-cost";
    let mut running = sandbox.durio(line).start();
    let begin = Instant::now();
    // On a slow disk its file is laid out for seconds.
    let has_figures = || {
        let events = sandbox.runs().pop().map(|run| fs::read_to_string(run.join("events.jsonl")));
        events.is_some_and(|events| events.is_ok_and(|it| it.contains("\"event\":\"interval\"")))
    };
    while !has_figures() && begin.elapsed() < Duration::from_secs(25) {
        thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::INT);
    let ended = running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
    ended.expect_stdout("INTERRUPTED").expect_stdout("randread").expect_stdout("report: ");
    let events = fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap();
    assert!(events.contains("\"outcome\":\"interrupted\""), "{events}");
}

#[test]
fn a_virtual_clock_can_be_interrupted_too() {
    let sandbox = Sandbox::new();
    let mut running = sandbox.durio("run --quiet --engine null --duration 700h").start();
    while sandbox.runs().is_empty() {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::INT);
    running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
}

/// In memory: a slow disk would still be laying out the file.
#[test]
fn a_kill_in_the_middle_leaves_a_record_that_can_be_read_and_is_marked() {
    let mut sandbox = Sandbox::in_memory();
    let line = "run --quiet --duration 30s --interval 50ms --size 4MiB --target data";
    let ended = stop_after(&sandbox, line, Signal::KILL, 1200);
    assert_eq!(ended.code(), 137);
    sandbox.may_leave_pointers();
    let run = sandbox.the_run();
    for format in ["text", "html"] {
        let ended = sandbox.durio("report --format").word(format).word(&run).run().expect_exit(0);
        assert!(ended.text().to_uppercase().contains("PARTIAL"), "{}", ended.text());
    }
    let document = sandbox.durio("report --format json").word(&run).run().expect_exit(0).json();
    assert_eq!(document["state"], "partial");
    assert!(document["workloads"][0]["iops"].as_f64().unwrap() > 0.0, "its intervals are there");
}

/// In memory, where no storage can be slow.
#[test]
fn a_stop_of_durio_is_told_as_its_own_and_blames_no_device() {
    let sandbox = Sandbox::in_memory();
    let line = "run --quiet --rw randwrite --sync fdatasync --size 4MiB --duration 5s \
                --interval 500ms --no-self-cost --target data --format json";
    let mut running = sandbox.durio(line).start();
    while !sandbox.runs().iter().any(|run| has_begun(run)) {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(700));
    running.signal(Signal::STOP);
    thread::sleep(Duration::from_millis(2000));
    running.signal(Signal::CONT);
    let document = running.wait().expect_exit(0).json();
    let warnings = document["warnings"].as_array().unwrap();
    let of = |code: &str| warnings.iter().find(|it| it["code"] == code);
    let stopped = of("stopped").unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(stopped["seen"].as_str().unwrap().contains("durio itself did not run"), "{stopped}");
    assert!(of("stalls").is_none() && of("noisy").is_none(), "{warnings:?}");
    let events = fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap();
    // A busy machine may have let it wait before, too.
    let gaps = events.lines().filter(|line| line.contains("process_gap"));
    let gaps = gaps.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let longest = gaps.filter_map(|gap| gap["span_ns"].as_u64()).max();
    assert!(longest >= Some(2_000_000_000), "{longest:?}");
    let report = sandbox.durio("report --verbose").word(sandbox.the_run()).run().expect_exit(0);
    report.expect_stdout("WARNING  stopped");
}

fn has_begun(run: &std::path::Path) -> bool {
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
    events.contains("\"event\":\"interval\"")
}

#[test]
fn a_limit_of_files_or_descriptors_is_an_error_and_ends_no_command_by_a_signal() {
    let sandbox = Sandbox::new();
    let limited = |limit: &str, line: &str| {
        let shell = format!("ulimit {limit}; exec \"$@\"");
        sandbox.durio(line).within(["sh", "-c", &shell, "sh"]).run()
    };
    // What they say goes to files, too.
    for line in ["doctor data", "runs", "explain torn-pages"] {
        let code = limited("-f 0", line).code();
        assert!([2, 3].contains(&code), "{line}: {code}");
    }
    for line in ["watch data", "prove witness --ledger ledger", "prove run prove-smoke"] {
        limited("-n 4", line).expect_exit(3).expect_stderr("Too many open files");
    }
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}
