//! `durio durable`: what it measures and leaves out, what decides its exit code, what it leaves.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::sandbox::Sandbox;

const SHORT: &str = "durable data --quick --size 8MiB";

/// (method, cache) of the steps in a list of the document.
fn methods(document: &Value, list: &str) -> Vec<(String, String)> {
    let label = |step: &Value, axis: &str| -> String {
        let levels = step["levels"].as_array().unwrap();
        let level = levels.iter().find(|level| level["axis"] == axis).unwrap();
        level["label"].as_str().unwrap().to_owned()
    };
    let empty = Vec::new();
    let steps = document[list].as_array().unwrap_or(&empty);
    steps.iter().map(|step| (label(step, "method"), label(step, "cache"))).collect()
}

#[test]
fn every_method_is_measured_or_named_as_refused_and_the_directory_is_as_before() {
    let sandbox = Sandbox::new();
    let line = format!("{SHORT} --quiet --only methods --format json");
    let document = sandbox.durio(&line).run().expect_exit(0).expect_no_stderr().json();
    assert_eq!(document["state"], "complete");
    let sections = document["campaign"]["sections"].as_array().unwrap();
    assert_eq!((sections.len(), &sections[0]["name"]), (1, &Value::from("methods")));
    let planned: Vec<Value> = document["plan"]["steps"].as_array().unwrap()[1..].to_vec();
    let planned = methods(&serde_json::json!({ "planned": planned }), "planned");
    let mut told = methods(&document, "workloads");
    assert!(told.contains(&("fdatasync".to_owned(), "buffered".to_owned())), "{told:?}");
    told.extend(methods(&document, "declined_steps"));
    told.sort();
    let mut expected = planned.clone();
    expected.sort();
    assert_eq!(told, expected);
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn progress_names_experiment_and_step_and_how_much_is_left_out() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio(SHORT).words("--only file-modes").run().expect_exit(0);
    ended
        .expect_stderr("durio: 4 steps in 1 experiment, about ")
        .expect_stderr("; 2 parts left out (the report names them)")
        .expect_stderr("file modes, recycled, fdatasync: ")
        .expect_stderr("file modes, extending, fdatasync: ")
        .expect_stdout("report: ");
    let plan = fs::read_to_string(sandbox.the_run().join("plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["purpose"], "durable");
    assert_eq!(plan["campaign"]["left_out"].as_array().unwrap().len(), 2, "the record says it too");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn wrong_use_is_refused_before_anything_is_begun() {
    let sandbox = Sandbox::new();
    let rows: [(&str, i32, &[&str]); 9] = [
        ("durable data --only nosuch", 2, &["'nosuch'", "methods", "commit-delay"]),
        ("durable data --only cross", 2, &["--thorough"]),
        ("durable data --quick --full", 2, &["--quick", "--thorough"]),
        ("durable data --size 1MiB", 2, &["--size"]),
        ("durable data notes", 2, &["notes"]),
        ("durable data/user.db", 2, &["user.db", "--destroy"]),
        ("durable data --size 900TiB", 3, &["free"]),
        ("durable nowhere", 2, &["nowhere"]),
        ("durable /dev/zero", 3, &["/dev/zero"]),
    ];
    for (line, code, words) in rows {
        let mut ended = sandbox.durio(line).run().expect_exit(code).expect_no_stdout();
        for word in words {
            ended = ended.expect_stderr(word);
        }
    }
    assert!(sandbox.runs().is_empty(), "a run was begun");
    assert!(sandbox.differences().is_empty());
}

#[test]
fn an_existing_file_that_may_be_destroyed_is_written_within_its_size() {
    let mut sandbox = Sandbox::new();
    let before = fs::read(sandbox.user_file()).unwrap();
    let line = "durable data/user.db --destroy data/user.db --quick --only flush-slope";
    let ended = sandbox.durio(line).words("--format json").run().expect_exit(0);
    let document = ended.json();
    let measured = document["workloads"].as_array().unwrap().len();
    let declined = document["declined_steps"].as_array().map_or(0, Vec::len);
    assert_eq!(measured + declined, 4);
    let after = fs::read(sandbox.user_file()).unwrap();
    assert_eq!(after.len(), before.len());
    assert_eq!(after == before, measured == 0);
    sandbox.accept_changes();
}

#[test]
fn an_interrupted_run_says_so_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let line = format!("{SHORT} --quiet --only file-modes --format json");
    let mut running = sandbox.durio(&line).start();
    let has_begun = |_: &u32| {
        thread::sleep(Duration::from_millis(20));
        sandbox.runs().iter().any(|run| {
            let events = fs::read_to_string(run.join("events.jsonl")).unwrap_or_default();
            events.contains("target_prepared")
        })
    };
    assert!((0..500).any(|attempt| has_begun(&attempt)), "no run begins");
    running.signal(Signal::INT);
    let ended = running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
    assert!(sandbox.differences().is_empty(), "{}", ended.stderr);
    let report = sandbox.durio("report --format json").word(sandbox.the_run());
    assert_eq!(report.run().expect_exit(0).json()["state"], "interrupted");
}

/// The kernel of this test knows no flags of single writes.
#[test]
#[ignore = "slow"]
fn a_method_that_the_kernel_refuses_is_named_with_the_reason_and_the_rest_is_measured() {
    if !crate::requirements::has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let refused = "inject=pwritev2:error=EOPNOTSUPP";
    let without = ["strace", "-D", "-f", "-qqq", "--seccomp-bpf", "-o", "/dev/null"];
    let without = without.into_iter().chain(["-e", "trace=pwritev2", "-e", refused]);
    let line = format!("{SHORT} --quiet --only methods --format json");
    let document = sandbox.durio(&line).within(without).run().expect_exit(0).json();
    let declined = methods(&document, "declined_steps");
    assert_eq!(declined.len(), 4, "{declined:?}");
    assert!(declined.iter().all(|(method, _)| method.starts_with("rwf_")), "{declined:?}");
    let reason = document["declined_steps"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("not supported"), "{reason}");
    assert!(methods(&document, "workloads").len() >= 10);
}

#[test]
fn a_quick_run_is_to_take_some_twenty_seconds() {
    let sandbox = Sandbox::in_memory();
    let seconds = sandbox.planned_by(sandbox.durio("durable data --quick --quiet"));
    assert!((15.0..30.0).contains(&seconds), "{seconds} s");
}

#[test]
#[ignore = "slow"]
fn quick_measures_for_some_twenty_seconds() {
    // A disk of 100 writes a second takes minutes to lay out the files.
    let sandbox = Sandbox::in_memory();
    sandbox.durio("durable data --quick --quiet").run().expect_exit(0);
    let seconds = sandbox.planned_seconds();
    assert!((15.0..30.0).contains(&seconds), "{seconds} s");
}
