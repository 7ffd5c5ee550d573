//! A campaign that was interrupted goes on where it ended, in its own folder.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::sandbox::Sandbox;

const SPEC: &str = r#"
schema = 1
name = "tiny"
summary = "reads by four jobs to one, after a pass of writes"

[[target]]
name = "data"
size = "8MiB"

[defaults]
block_size = "4KiB"
pattern = "random"
duration = "700ms"

[[precondition]]
name = "condition"
summary = "one pass"
reads = "0%"
jobs = 2
depth = 8
region = "share-each"
loops = 1

[[step]]
name = "read"
summary = "reads"
jobs = [4, 2, 1]
"#;

pub(crate) const LINE: &str = "run tiny.toml --quiet --format json --target data";

pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    fs::write(sandbox.root().join("tiny.toml"), SPEC).unwrap();
    sandbox.accept_changes();
    sandbox
}

/// Interrupts the campaign within its second ladder step.
pub(crate) fn interrupted(sandbox: &Sandbox, signal: Signal) {
    let mut running = sandbox.durio(LINE).start();
    let is_there = |run: &PathBuf| {
        let events = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
        events.contains("\"event\":\"step_started\",\"step\":2")
    };
    while !sandbox.runs().iter().any(is_there) {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(20));
    }
    running.signal(signal);
    running.wait_at_most(Duration::from_secs(60));
}

fn events(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap()
}

fn jobs_of(document: &serde_json::Value) -> Vec<u64> {
    let workloads = document["workloads"].as_array().unwrap();
    workloads.iter().map(|workload| workload["effective"]["jobs"].as_u64().unwrap()).collect()
}

#[test]
fn an_interrupted_campaign_goes_on_and_repeats_its_preconditioning() {
    let sandbox = sandbox();
    interrupted(&sandbox, Signal::INT);
    let ended = sandbox.durio(LINE).run().expect_exit(0).expect_stderr("resuming ");
    let document = ended.json();
    assert_eq!(document["state"], "complete");
    assert_eq!(jobs_of(&document), [4, 2, 1], "each step once");
    let events = events(&sandbox);
    assert_eq!(events.matches("\"event\":\"run_resumed\"").count(), 1, "{events}");
    assert!(events.matches("\"event\":\"target_prepared\"").count() >= 3, "laid out again");
    // What is finished is not gone on with: the same command makes a second run.
    sandbox.durio(LINE).run().expect_exit(0).expect_no_stderr();
    assert_eq!(sandbox.runs().len(), 2);
}

#[test]
fn a_killed_campaign_goes_on_too() {
    let mut sandbox = sandbox();
    interrupted(&sandbox, Signal::KILL);
    sandbox.may_leave_pointers();
    let document = sandbox.durio(LINE).run().expect_exit(0).expect_stderr("resuming ").json();
    assert_eq!((document["state"].as_str(), jobs_of(&document)), (Some("complete"), vec![4, 2, 1]));
    let report = sandbox.durio("report --format json").word(sandbox.the_run()).run();
    assert_eq!(jobs_of(&report.expect_exit(0).json()), [4, 2, 1], "the record alone says the same");
}

#[test]
fn another_spec_another_seed_and_a_wish_to_begin_anew_are_new_runs() {
    let mut sandbox = sandbox();
    interrupted(&sandbox, Signal::INT);
    let other = SPEC.replace("jobs = [4, 2, 1]", "jobs = [1]").replace("700ms", "100ms");
    fs::write(sandbox.root().join("other.toml"), other).unwrap();
    sandbox.accept_changes();
    let line = LINE.replace("tiny.toml", "other.toml");
    sandbox.durio(&line).run().expect_exit(0).expect_no_stderr();
    sandbox.durio(&format!("{LINE} --seed 4711")).run().expect_exit(0).expect_no_stderr();
    sandbox.durio(&format!("{LINE} --fresh")).run().expect_exit(0).expect_no_stderr();
    assert_eq!(sandbox.runs().len(), 4);
}
