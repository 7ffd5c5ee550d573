//! `durio fleet`: the report of many hosts from their folders, and the program for what needs a
//! network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::durio::Durio;
use crate::requirements::search_path;
use crate::sandbox::{Sandbox, entries};

/// A folder with a folder for each host, with a run that was made here.
fn hosts(sandbox: &Sandbox, count: u32) -> PathBuf {
    let folder = sandbox.root().join("hosts");
    for at in 1..=count {
        let host = folder.join(format!("db{at}"));
        fs::create_dir_all(&host).unwrap();
        let line =
            "check data --quiet --no-predictions --duration 100ms --size 4MiB --workload commit";
        sandbox.durio(line).word("--out").word(&host).run().expect_exit(0);
    }
    folder
}

#[test]
fn eight_loose_folders_are_one_report_in_every_format() {
    let sandbox = Sandbox::new();
    let folder = hosts(&sandbox, 8);
    let _watch = crate::watch::Watch::new(&folder);
    let report = |options: &str| {
        sandbox.durio("fleet report").word(&folder).words(options).run().expect_exit(0)
    };
    let text = report("").text();
    assert!(text.contains("durio fleet report: 8 hosts\n"), "{text}");
    assert!(text.contains("\nHosts, worst first\n") && text.contains("\n  db1 "), "{text}");
    assert!(text.lines().count() <= 45, "{text}");
    let json = report("--json").json();
    assert!(json["summary"]["sentence"].as_str().unwrap().contains("commits/s ("), "{json}");
    assert_eq!(json["schema"], "durio-fleet-findings-1");
    let names = json["hosts"].as_array().unwrap().iter().map(|host| host["name"].as_str().unwrap());
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert_eq!(names, ["db1", "db2", "db3", "db4", "db5", "db6", "db7", "db8"]);
    assert_eq!(json["hosts"][0]["outcome"], "measured");
    for format in ["html", "markdown", "csv", "openmetrics"] {
        report(&format!("--format {format}")).expect_stdout("db8");
    }
    let page = sandbox.root().join("hosts.html");
    sandbox.durio("fleet report").word(&folder).word("-o").word(&page).run().expect_exit(0);
    assert!(fs::read_to_string(page).unwrap().contains("<title>db8: "));
    // Without folders of hosts, the machine's name in the records says whose runs they are.
    let each = entries(&folder).into_iter().flat_map(|host| entries(&host));
    let line = sandbox.durio("fleet report --json");
    let again = each.fold(line, |line, run| line.word(run)).run().expect_exit(0).json();
    assert_eq!(again["asked"], 1);
    assert_eq!(again["hosts"][0]["runs"].as_array().unwrap().len(), 8);
}

#[test]
fn a_goal_decides_the_exit_code_and_names_the_hosts_that_miss_it() {
    let sandbox = Sandbox::new();
    let folder = hosts(&sandbox, 2);
    let goal =
        |text: &str| sandbox.durio("fleet report").word(&folder).word("--goal").word(text).run();
    goal("commit rate > 1").expect_exit(0);
    let missed = goal("commit p50 < 1ns").expect_exit(1);
    let missed = missed.expect_stdout("Bad: goal missed: commit p50 < 1ns on 2 hosts");
    let missed = missed.expect_stderr("durio: goal missed: commit p50 < 1ns on 2 hosts (");
    // Worst first, which is either.
    missed.expect_stderr("db1").expect_stderr("db2");
    // The run has no such workload.
    goal("lookup p99 < 5ms").expect_exit(3).expect_stdout("goal not compared: lookup p99 < 5ms");
    goal("commit max < 5ms").expect_exit(2).expect_stderr("rate, p50, p99 and p99.9");
    goal("commit").expect_exit(2).expect_stderr("goal");
}

#[test]
fn folders_without_a_run_are_no_fleet() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.root().join("empty")).unwrap();
    for folder in ["missing", "empty"] {
        let ended = sandbox.durio("fleet report").word(folder).run().expect_exit(3);
        ended.expect_no_stdout().expect_stderr(folder);
    }
    sandbox.durio("fleet report").run().expect_exit(2).expect_stderr("DIR");
    sandbox.durio("fleet").run().expect_exit(2).expect_stderr("report");
}

/// A copy of durio, next to which no other program lies.
fn alone(sandbox: &Sandbox, line: &str, path: &Path) -> Durio {
    let program = sandbox.root().join("alone/durio");
    if !program.exists() {
        fs::create_dir(sandbox.root().join("alone")).unwrap();
        // Not by this process: another test's child may have the copy open for writing.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_durio")).arg(&program).status();
        assert!(copied.unwrap().success());
    }
    let path = format!("PATH={}", path.display());
    sandbox.durio(line).program(&program).within(["env", &path])
}

#[test]
fn the_other_commands_are_those_of_the_program_for_a_network() {
    let sandbox = Sandbox::new();
    let script = "#!/bin/sh\necho \"$0 $*\"\nexit 7\n";
    let folder = sandbox.program("durio-fleet", script);
    let path = format!("{}:{}", folder.display(), search_path());
    let line = "fleet run db-ladder --hosts db[01-40] --target data=/srv/data --help";
    let ended = alone(&sandbox, line, Path::new(&path)).run().expect_exit(7);
    let words = "durio-fleet run db-ladder --hosts db[01-40] --target data=/srv/data --help\n";
    assert!(ended.text().ends_with(words), "{}", ended.text());
    // One that lies next to durio is of the same version.
    let neighbour = sandbox.root().join("alone/durio-fleet");
    let copied = Command::new("cp").arg(folder.join("durio-fleet")).arg(&neighbour).status();
    assert!(copied.unwrap().success());
    let ended = alone(&sandbox, "fleet status x", Path::new(&path)).run().expect_exit(7);
    assert_eq!(ended.text(), format!("{} status x\n", neighbour.display()));
}

#[test]
fn without_that_program_durio_says_where_to_put_it() {
    let sandbox = Sandbox::new();
    let nowhere = Path::new("/nonexistent");
    for command in ["run", "confirm", "status", "stop", "resume", "collect", "join"] {
        let ended = alone(&sandbox, &format!("fleet {command}"), nowhere).run().expect_exit(3);
        let text = format!("durio fleet {command} needs the program durio-fleet, which is not");
        ended.expect_no_stdout().expect_stderr(&text).expect_stderr("next to durio");
    }
    let unknown = alone(&sandbox, "fleet confrim x", nowhere).run().expect_exit(2);
    unknown.expect_stderr("'confrim' is not a command").expect_stderr("did you mean 'confirm'?");
    let unknown = alone(&sandbox, "fleet zzzzzz", nowhere).run().expect_exit(2);
    unknown.expect_stderr("expected report, run, check");
}
