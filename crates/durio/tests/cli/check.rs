//! `durio check`: what it measures, what decides its exit code, what it leaves.

use std::fs;

use serde_json::Value;

use crate::accounting::accounted;
use crate::loops::Mount;
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};

const SHORT: &str = "check data --quiet --duration 150ms --size 8MiB";

fn names(document: &Value, key: &str, name: &str) -> Vec<String> {
    let list = document[key].as_array().unwrap();
    list.iter().map(|entry| entry[name].as_str().unwrap().to_owned()).collect()
}

/// A disk that takes longer for a commit than the step lasts has none within the measured time; that one
/// stands in the last interval.
fn has_done_something(workload: &Value) -> bool {
    let rate = |value: &Value| value.as_f64().unwrap_or(0.0);
    let mut intervals = workload["intervals"].as_array().into_iter().flatten();
    rate(&workload["iops"]) > 0.0 || intervals.any(|it| rate(&it["rate_per_second"]) > 0.0)
}

#[test]
fn all_workloads_are_measured_and_the_directory_is_as_before() {
    let sandbox = Sandbox::new();
    let run = || sandbox.durio(SHORT).words("--format json").run().expect_exit(0).json();
    let document = accounted(run);
    let workloads = names(&document, "workloads", "name");
    assert_eq!(workloads[..2], ["commit", "commit-etcd"]);
    assert_eq!(workloads[2..5], ["commit-group-1", "commit-group-8", "commit-group-64"]);
    assert_eq!(workloads[5..], ["lookup", "scan", "mixed"]);
    // Databases that run on this machine come first.
    let mut predicted = names(&document, "predicted", "database");
    predicted.sort_unstable();
    assert_eq!(predicted, ["etcd", "mariadb", "postgresql", "redis", "sqlite-wal"]);
    for database in document["predicted"].as_array().unwrap() {
        let points = database["points"].as_array().unwrap();
        let clients: Vec<u64> = points.iter().filter_map(|it| it["clients"].as_u64()).collect();
        let is_alone = database["database"] == "sqlite-wal";
        assert_eq!(clients, if is_alone { vec![1] } else { vec![1, 8, 32] }, "{database}");
        assert_eq!(database["location"], "data");
    }
    assert_eq!(document["state"], "complete");
    assert!(has_done_something(&document["workloads"][0]), "{}", document["workloads"][0]);
    for database in ["etcd", "cockroachdb", "postgresql"] {
        assert!(names(&document, "verdicts", "database").iter().any(|name| name == database));
    }
    let codes = names(&document, "warnings", "code");
    assert_eq!(codes.iter().filter(|code| *code == "too-short").count(), 1, "{codes:?}");
    for (number, committers) in (2..).zip([1, 8, 64]) {
        let line = &document["workloads"][number];
        assert_eq!(line["definition"]["group_commit"]["committers"], committers);
        assert!(has_done_something(line), "{line}");
    }
    assert!(sandbox.differences().is_empty());
}

#[test]
fn only_the_named_workloads_are_measured() {
    let sandbox = Sandbox::new();
    let line = format!("{SHORT} --workload lookup --workload commit --format json");
    let document = sandbox.durio(&line).run().expect_exit(0).json();
    assert_eq!(names(&document, "workloads", "name"), ["commit", "lookup"]);
}

#[test]
fn two_places_are_set_side_by_side() {
    let sandbox = Sandbox::new();
    let line = "check data data/user.db --quiet --duration 100ms --size 4MiB --workload lookup";
    let document = sandbox.durio(line).words("--format json").run().expect_exit(0).json();
    assert_eq!(names(&document, "workloads", "location"), ["data", "data/user.db"]);
    assert_eq!(document["stack"].as_array().unwrap().len(), 2);
}

#[test]
fn a_verdict_decides_the_exit_code_only_when_its_database_was_named() {
    let sandbox = Sandbox::new();
    let line = format!("{SHORT} --workload commit");
    sandbox.durio(&line).run().expect_exit(0);
    // Without a documented threshold there is nothing that could be missed.
    sandbox.durio(&line).words("--database postgresql").run().expect_exit(0);
    // etcd's threshold is about a workload that was not measured: the question stays open.
    sandbox.durio(&line).words("--database etcd").run().expect_exit(3);
}

#[test]
fn a_database_that_is_named_is_alone_in_the_first_sentence() {
    let sandbox = Sandbox::new();
    let check = |database: &str| {
        let line = "check data --quiet --duration 100ms --size 4MiB --format json --database";
        sandbox.durio(line).word(database).run().expect_exit(0)
    };
    for (called, name, product) in [
        ("postgres", "postgresql", "PostgreSQL"),
        ("sqlite", "sqlite-wal", "SQLite"),
        ("mysql", "mysql", "MySQL (by MariaDB's model)"),
    ] {
        let said =
            if called == "mysql" { "MySQL is predicted with the model of MariaDB" } else { "" };
        let document = check(called).expect_stderr(said).json();
        assert_eq!(names(&document, "predicted", "database"), [name]);
        let label = document["summary"]["headline"][0]["label"].as_str().unwrap();
        assert!(label.starts_with(&format!("{product} commits with ")), "{label}");
        let sentence = document["summary"]["sentence"].as_str().unwrap();
        assert!(sentence.contains("about ") && !sentence.contains("one writer"), "{sentence}");
    }
    // durio has no model of MongoDB, and nobody publishes a limit for it.
    let mongo = check("mongo").json();
    assert_eq!(mongo["predicted"], Value::Null);
    assert!(sandbox.differences().is_empty());
    let run = sandbox.runs().pop().unwrap();
    let text = sandbox.durio("report").word(run).run();
    text.expect_stdout("durio run profile:mongodb --target data");
    let line = format!("{SHORT} --database postgres --no-predictions --format json");
    let document = sandbox.durio(&line).run().expect_exit(0).json();
    assert_eq!(document["predicted"], Value::Null);
    assert_eq!(names(&document, "workloads", "name").len(), 8);
}

/// The report that is made again later has the question, too.
#[test]
fn a_named_database_that_is_unfit_is_the_verdict_of_every_report() {
    let sandbox = Sandbox::new();
    // Its workload is not measured: that is no verdict, as in the exit code.
    let line = format!("{SHORT} --workload commit --database etcd --format json");
    let document = sandbox.durio(&line).run().expect_exit(3).json();
    assert_eq!(document["summary"]["verdict"], "unknown");
    let said = "Unknown: the limit of etcd could not be compared; ";
    assert!(document["summary"]["sentence"].as_str().unwrap().starts_with(said), "{document}");
    let text = sandbox.durio("report").word(sandbox.the_run()).run().text();
    assert!(text.starts_with(said), "{text}");
}

/// One commit has a mean, so that a disk with three commits a second decides it too.
#[test]
fn a_goal_decides_the_exit_code_and_a_wrong_one_says_what_is_right() {
    let sandbox = Sandbox::new();
    let check = |goal: &str| {
        let line = "check data --quiet --duration 3s --size 8MiB --workload commit --goal";
        sandbox.durio(line).word(goal).run()
    };
    check("commit rate > 1").expect_exit(0).expect_stdout("rate ≥ 1 /s");
    // Beside other work the figures may contradict each other, which decides nothing.
    let decided = (0..5).map(|_| check("commit mean < 1ns")).find(|ended| ended.code() != 3);
    let missed = decided.unwrap().expect_exit(1).expect_stdout("mean of commit < 1 ns");
    // For a script whose report is in a file.
    missed.expect_stderr("durio: goal missed at data: commit mean < 1ns; measured commit: ");
    check("commit p99 > 1ms").expect_exit(2).expect_stderr("p99 < 1ms");
    check("comit p99 < 1ms").expect_exit(2).expect_stderr("did you mean 'commit'?");
    check("lookup p99 < 1ms").expect_exit(2).expect_stderr("a workload that is not run");
    let line = format!("{SHORT} --workload commit --database postgresql");
    let ended = sandbox.durio(&line).run().expect_exit(0);
    ended.expect_stderr("no limit is published for postgresql").expect_stderr("--goal");
}

#[test]
fn memory_is_not_called_durable() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let _memory = Mount::tmpfs(64, &sandbox.root().join("memory"));
    let line = "check memory --quiet --duration 300ms --size 8MiB";
    let text = sandbox.durio(line).run().expect_exit(0).text();
    let first = text.lines().next().unwrap();
    let said = "Unknown: memory is in memory and does not survive a power cut; ";
    assert!(first.starts_with(said) && text.lines().count() <= 30, "{text}");
    assert!(!text.contains("durable commit"), "{text}");
    // A goal is not met by what is lost with the power.
    let goal = sandbox.durio(line).word("--goal").word("commit rate > 1").run();
    goal.expect_exit(3).expect_stderr("cannot tell for goal");
}

#[test]
fn a_storage_that_is_unfit_for_the_named_database_gives_exit_code_one() {
    if !has(&["strace"]) {
        return;
    }
    let sandbox = Sandbox::new();
    // 1000 commits at most, and 100 for a p99 also where a processor is had a tenth of the time.
    let line = "check data --quiet --duration 12s --size 8MiB --workload commit-etcd";
    let quiet = ["strace", "-D", "-f", "-qqq", "--seccomp-bpf", "-o", "/dev/null"];
    let delay = ["-e", "trace=fdatasync", "-e", "inject=fdatasync:retval=0:delay_exit=12000"];
    let slow = quiet.into_iter().chain(delay);
    let command = sandbox.durio(line).words("--database etcd --format json").within(slow);
    let document = command.run().expect_exit(1).json();
    let verdicts = document["verdicts"].as_array().unwrap();
    let etcd = verdicts.iter().find(|verdict| verdict["database"] == "etcd").unwrap();
    assert_eq!(etcd["verdict"], "unfit");
    assert_eq!(document["summary"]["verdict"], "bad");
    let sentence = document["summary"]["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Bad: the storage is unfit for etcd (p99 of sync < 10 ms, "));
    assert!(etcd["value"].as_f64().unwrap() > etcd["threshold"].as_f64().unwrap(), "{etcd}");
    assert_eq!(document["state"], "complete");
}

/// Its figures are good enough for etcd, and say nothing of any storage.
#[test]
fn memory_is_fit_for_no_database() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let _memory = Mount::tmpfs(64, &sandbox.root().join("memory"));
    let line = "check memory --quiet --duration 1s --size 8MiB --workload commit-etcd";
    let ended = sandbox.durio(line).words("--database etcd").run().expect_exit(3);
    ended.expect_stderr("cannot tell for etcd").expect_stderr("memory");
}

#[test]
fn holes_in_a_file_are_no_storage_either() {
    let mut sandbox = Sandbox::new();
    crate::loops::sparse_file(&sandbox.data().join("holes"), 8);
    sandbox.accept_changes();
    let line = "check data/holes --quiet --duration 1s --workload lookup --format json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    let warnings = document["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "sparse"), "{warnings:?}");
}

/// The question that the user asked has no answer: the reason must not be looked for in a table.
#[test]
fn an_open_question_is_said_on_stderr() {
    let sandbox = Sandbox::new();
    let line = format!("{SHORT} --workload commit --database etcd");
    sandbox.durio(&line).run().expect_exit(3).expect_stderr("etcd");
}

#[test]
fn out_keeps_the_run_folder_and_nothing_else_in_the_measured_directory() {
    let mut sandbox = Sandbox::new();
    let line = format!("{SHORT} --workload commit --out data --format json");
    let document = sandbox.durio(&line).run().expect_exit(0).json();
    let differences = sandbox.differences();
    let folder = document["run_folder"].as_str().unwrap();
    assert!(folder.starts_with(&sandbox.data().display().to_string()), "{folder}");
    assert!(differences.iter().all(|words| words.starts_with(folder)), "{differences:?}");
    assert_eq!(entries(&sandbox.data()).len(), 3, "the user's two files and the run folder");
    assert!(sandbox.runs().is_empty(), "another run folder in the state folder");
    sandbox.accept_changes();
}

#[test]
fn an_existing_file_is_only_read() {
    let sandbox = Sandbox::new();
    let line = "check data/user.db --quiet --duration 100ms --format json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(names(&document, "workloads", "name"), ["lookup", "scan"]);
}

#[test]
fn a_file_without_the_right_to_write_is_read_all_the_same() {
    let mut sandbox = Sandbox::new();
    let mut permissions = fs::metadata(sandbox.user_file()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(sandbox.user_file(), permissions).unwrap();
    sandbox.accept_changes();
    sandbox
        .durio("check data/user.db --quiet --duration 100ms --workload scan")
        .run()
        .expect_exit(0);
}

#[test]
fn an_empty_file_is_too_small_and_says_so() {
    let mut sandbox = Sandbox::new();
    fs::write(sandbox.data().join("empty"), "").unwrap();
    sandbox.accept_changes();
    sandbox.durio("check data/empty").run().expect_exit(3).expect_stderr("data/empty");
}

#[test]
fn a_check_is_to_take_less_than_75_seconds_and_a_quick_one_less_than_twelve() {
    let sandbox = Sandbox::new();
    let seconds = sandbox.planned_by(sandbox.durio("check .").directory(&sandbox.data()));
    assert!((12.0..75.0).contains(&seconds), "{seconds} s");
    let sandbox = Sandbox::new();
    let seconds = sandbox.planned_by(sandbox.durio("check data --quick"));
    assert!(seconds < 12.0, "{seconds} s");
}

#[test]
#[ignore = "slow"]
fn quick_measures_for_less_than_twelve_seconds() {
    let sandbox = Sandbox::new();
    let document = sandbox.durio("check data --quick --format json").run().expect_exit(0).json();
    assert!(sandbox.planned_seconds() < 12.0, "{} s", sandbox.planned_seconds());
    assert_eq!(document["workloads"].as_array().unwrap().len(), 8);
    assert_eq!(document["predicted"].as_array().unwrap().len(), 5);
}

#[test]
#[ignore = "slow"]
fn the_default_check_of_the_current_directory_ends_with_the_summary() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio("check .").directory(&sandbox.data()).run().expect_exit(0);
    assert!(sandbox.planned_seconds() < 75.0, "{} s", sandbox.planned_seconds());
    ended.expect_stdout(" commits/s with 8 clients, p99 ").expect_stdout("report: ");
}
