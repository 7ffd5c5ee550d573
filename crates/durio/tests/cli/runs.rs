//! Runs are found again by words, listed, set in a row, and removed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::durio::Ended;
use crate::requirements::has;
use crate::sandbox::Sandbox;

const NULL: &str = "run --quiet --engine null --ops 200 --rw write --sync fdatasync";

fn run(sandbox: &Sandbox, words: &str) -> PathBuf {
    sandbox.durio(&format!("{NULL} {words}")).run().expect_exit(0);
    sandbox.runs().into_iter().next_back().unwrap()
}

fn name(folder: &std::path::Path) -> String {
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

fn folder_of(ended: Ended) -> String {
    ended.expect_exit(0).json()["run_folder"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_is_found_by_when_it_was_by_its_name_and_by_a_part_of_it() {
    let sandbox = Sandbox::new();
    let first = run(&sandbox, "--name before");
    let last = run(&sandbox, "");
    let own = name(&last).split_once("Z-").unwrap().1.to_owned();
    for (word, folder) in [
        ("last", &last),
        ("last~1", &first),
        ("before", &first),
        (name(&first).as_str(), &first),
        (own.as_str(), &last),
        (last.to_str().unwrap(), &last),
    ] {
        let ended = sandbox.durio("report --json").word(word).run();
        assert_eq!(folder_of(ended), folder.canonicalize().unwrap().to_str().unwrap(), "{word}");
    }
    // The latest is what one asks for without a word.
    assert!(folder_of(sandbox.durio("report --json").run()).ends_with(&name(&last)));
    let ended = sandbox.durio("report last~2").run().expect_exit(3);
    ended.expect_stderr("2 are kept").expect_stderr("durio runs");
    sandbox.durio("report nosuch").run().expect_exit(3).expect_stderr("neither a path nor a run");
    let ended = sandbox.durio("report 20").run().expect_exit(2);
    ended.expect_stderr("means 2 runs").expect_stderr("give more of the name");
    let compared = sandbox.durio("compare before last --json").run().expect_exit(0).json();
    assert_eq!(compared["pairs"].as_array().map(Vec::len), Some(1));
    sandbox.durio("audit last").run().expect_exit(0);
    sandbox.durio("advise . --run last --json").run().expect_exit(0);
    // The latest of two runs of one name, as a nightly run wants it.
    let again = run(&sandbox, "--name before");
    for (word, folder) in [("before", &again), ("before~0", &again), ("before~1", &first)] {
        assert!(
            folder_of(sandbox.durio("report --json").word(word).run()).ends_with(&name(folder))
        );
    }
    let ended = sandbox.durio("report before~2").run().expect_exit(3);
    ended.expect_stderr("no run 'before~2': 2 of that name");
    sandbox.durio(&format!("{NULL} --name last")).run().expect_exit(2).expect_stderr("not a name");
}

#[test]
fn what_is_in_the_current_directory_goes_before_a_run_of_that_name() {
    let sandbox = Sandbox::new();
    let made = run(&sandbox, "--name here");
    run(&sandbox, "");
    fs::rename(&made, sandbox.root().join("last")).unwrap();
    let ended = sandbox.durio("report last --json").run();
    assert!(folder_of(ended).ends_with("/last"));
}

#[test]
fn runs_are_listed_with_what_they_found_and_a_damaged_one_is_said_to_be() {
    let sandbox = Sandbox::new();
    let listed = sandbox.durio("runs").run().expect_exit(0);
    listed.expect_stdout("there are no runs yet");
    let first = run(&sandbox, "--name before");
    let second = run(&sandbox, "--null-latency 100us");
    let rows = || sandbox.durio("runs --json").run().expect_exit(0).json()["runs"].clone();
    let found = rows();
    assert_eq!(found[0]["run"], name(&second));
    assert_eq!((&found[1]["label"], &found[1]["command"]), (&"before".into(), &"run".into()));
    assert!(found[0]["bytes"].as_u64().unwrap() > 1000 && !found[0]["leading"].is_null());
    sandbox.durio("runs").run().expect_exit(0).expect_stdout("before").expect_stdout("commits");
    // The index is made from the folders: an index that is damaged or gone changes nothing.
    let index = sandbox.state().join("durio/runs-index.json");
    for damage in ["", "{", "[]", "{\"schema\":9,\"rows\":{}}"] {
        fs::write(&index, damage).unwrap();
        assert_eq!(rows(), found, "{damage}");
    }
    fs::write(first.join("run.json"), "{ no json").unwrap();
    fs::write(second.join("findings.json"), "torn").unwrap();
    let text = sandbox.durio("runs").run().expect_exit(0).text();
    assert!(text.contains("damaged: run.json") && text.contains("no end"), "{text}");
}

#[test]
fn runs_are_removed_when_somebody_says_so_and_only_those_of_the_state_folder() {
    let sandbox = Sandbox::new();
    let folders: Vec<PathBuf> = (0..3).map(|_| run(&sandbox, "")).collect();
    let named = run(&sandbox, "--name keep");
    sandbox.durio("runs rm last").run().expect_exit(2).expect_stderr("--yes");
    assert_eq!(sandbox.runs().len(), 4);
    sandbox.durio("runs rm --yes last~1").run().expect_exit(0).expect_stderr("removed 1 run");
    assert!(!folders[2].exists() && named.exists());
    let elsewhere = sandbox.root().join("elsewhere");
    sandbox.durio(&format!("{NULL} --out elsewhere")).run().expect_exit(0);
    let there = crate::sandbox::entries(&elsewhere).remove(0);
    let ended = sandbox.durio("runs rm --yes").word(&there).run().expect_exit(2);
    ended.expect_stderr("not in the state folder");
    assert!(there.exists());
    sandbox.durio("runs prune --yes").run().expect_exit(0).expect_stderr("no run is that old");
    sandbox.durio("runs prune --yes --keep 1 --older-than 0d").run().expect_exit(0);
    // The one with a name stays, whatever its age.
    assert!(named.exists() && !folders[0].exists() && !folders[1].exists());
    sandbox.durio("runs prune --older-than soon").run().expect_exit(2).expect_stderr("not an age");
}

#[test]
fn several_runs_are_removed_at_once_and_one_that_is_named_twice_is_one() {
    let sandbox = Sandbox::new();
    let folders: Vec<PathBuf> = (0..4).map(|_| run(&sandbox, "")).collect();
    let are_there = || folders.iter().map(|folder| folder.exists()).collect::<Vec<_>>();
    // If one of them cannot be removed, none is.
    sandbox.durio("runs rm --yes last nosuch").run().expect_exit(3).expect_stderr("nosuch");
    assert_eq!(are_there(), [true; 4]);
    let line = format!("runs rm --yes last~1 last~3 {}", name(&folders[2]));
    sandbox.durio(&line).run().expect_exit(0).expect_stderr("removed 2 runs");
    assert_eq!(are_there(), [false, true, false, true]);
}

#[test]
fn a_link_among_the_runs_is_not_followed_to_what_it_leads_to() {
    let sandbox = Sandbox::new();
    let kept = run(&sandbox, "");
    sandbox.durio(&format!("{NULL} --out elsewhere")).run().expect_exit(0);
    let there = crate::sandbox::entries(&sandbox.root().join("elsewhere")).remove(0);
    let link = kept.with_file_name("a-link");
    std::os::unix::fs::symlink(&there, &link).unwrap();
    let ended = sandbox.durio("runs rm --yes").word(&link).run().expect_exit(2);
    ended.expect_stderr("not in the state folder");
    assert!(there.join("run.json").exists() && link.is_symlink() && kept.exists());
    fs::remove_file(link).unwrap();
}

#[test]
fn the_newest_are_kept_when_the_others_are_pruned() {
    let sandbox = Sandbox::new();
    let folders: Vec<PathBuf> = (0..3).map(|_| run(&sandbox, "")).collect();
    let line = "runs prune --keep 2 --older-than 0d";
    sandbox.durio(line).run().expect_exit(2).expect_stderr("--yes");
    assert_eq!(sandbox.runs().len(), 3);
    sandbox.durio(line).word("--yes").run().expect_exit(0).expect_stderr("removed 1 run");
    let are_there: Vec<bool> = folders.iter().map(|folder| folder.exists()).collect();
    assert_eq!(are_there, [false, true, true]);
}

#[test]
fn the_page_of_a_run_is_opened_or_its_path_is_said() {
    let sandbox = Sandbox::new();
    let folder = run(&sandbox, "");
    let open = || sandbox.durio("report last --open").without_env("DISPLAY");
    let ended = open().without_env("WAYLAND_DISPLAY").run().expect_exit(0);
    let ended = ended.expect_stderr("no display here");
    assert!(ended.text().trim_end().ends_with("/report.html"), "{}", ended.text());
    let bin = sandbox.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for (script, says) in [("echo \"$1\" > opened", ""), ("exit 3", "no browser")] {
        fs::write(bin.join("xdg-open"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(bin.join("xdg-open"), fs::Permissions::from_mode(0o755)).unwrap();
        let ended = open().env("WAYLAND_DISPLAY", "w").env("PATH", &path).run().expect_exit(0);
        ended.expect_stdout("/report.html").expect_stderr(says);
    }
    let opened = fs::read_to_string(sandbox.root().join("opened")).unwrap();
    assert!(opened.trim_end().ends_with("/report.html"), "{opened}");
    fs::remove_file(folder.join("report.html")).unwrap();
    open().run().expect_exit(3).expect_stderr("--format html");
}

#[test]
fn a_figure_is_followed_from_run_to_run() {
    let sandbox = Sandbox::new();
    sandbox.durio("history").run().expect_exit(3).expect_stderr("durio runs");
    for latency in ["100us", "100us", "200us"] {
        run(&sandbox, &format!("--null-latency {latency}"));
    }
    // A null engine has no location, and is a target all the same.
    let line = "history --metric write.p50";
    let found = sandbox.durio(line).word("--json").run().expect_exit(0).json();
    let values: Vec<f64> = found["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["value"].as_f64().unwrap())
        .collect();
    assert_eq!(values.len(), 3);
    assert!(values[2] > 1.9 * values[0], "{values:?}");
    sandbox.durio(line).run().expect_exit(0).expect_stdout("3 runs").expect_stdout("█");
    let page = sandbox.durio(line).words("--format html").run().expect_exit(0);
    page.expect_stdout("Over time");
    sandbox.durio("history --metric write").run().expect_exit(2).expect_stderr("commit.p99");
    sandbox.durio("history --metric nosuch.rate").run().expect_exit(3).expect_stderr("nosuch");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_listed_all_the_same() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    sandbox.durio_as_nobody(NULL).run().expect_exit(0);
    let state = sandbox.state().join("durio");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o500)).unwrap();
    sandbox.durio_as_nobody("runs").run().expect_exit(0).expect_stdout("run-");
    assert!(!state.join("runs-index.json").exists());
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_thousand_runs_are_listed() {
    let sandbox = Sandbox::new();
    let one = run(&sandbox, "");
    for at in 0..999 {
        let copy = one.with_file_name(format!("2026-01-01T000000-{at:03}Z-run-{at}"));
        fs::create_dir(&copy).unwrap();
        for file in ["run.json", "environment.json", "findings.json"] {
            fs::copy(one.join(file), copy.join(file)).unwrap();
        }
    }
    let count = || {
        let found = sandbox.durio("runs --json").run().expect_exit(0).json();
        found["runs"].as_array().map(Vec::len)
    };
    assert_eq!(count(), Some(1000));
    // From the index.
    assert_eq!(count(), Some(1000));
}
