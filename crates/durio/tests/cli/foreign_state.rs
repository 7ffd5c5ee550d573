//! State folders in which another user has put something: nothing behind it is removed or made.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::requirements::has;
use crate::sandbox::Sandbox;

const OTHER_USER: u32 = 65_534;
/// As durio names it: the name alone proves nothing.
const RUN: &str = "2026-01-02T030405-678Z-run-4711";
const PROBE: &str = "2026-01-02T030405-678Z-watch-4711";
const REPLAY: &str = "2026-01-02T030405-678Z-replay-4711";
const NULL: &str = "run --quiet --engine null --ops 200 --rw write --sync fdatasync";

/// Folders that another user would like to have removed, an hour old.
fn make_victims(sandbox: &Sandbox) -> PathBuf {
    let victims = sandbox.root().join("victims");
    for name in [RUN, PROBE, REPLAY, "precious"] {
        let folder = victims.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("run.json"), "{ damaged").unwrap();
        fs::write(folder.join("data"), "mine").unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::open(&folder).unwrap().set_modified(hour_ago).unwrap();
    }
    victims
}

/// Every path below a folder, with what is in its files.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_folder = path.symlink_metadata().unwrap().is_dir();
        let text = match fs::read_link(&path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) if is_folder => Vec::new(),
            Err(_) => fs::read(&path).unwrap(),
        };
        found.push((path.clone(), text));
        if is_folder {
            found.extend(contents(&path));
        }
    }
    found.sort();
    found
}

fn give_away(folder: &Path) {
    let owner = format!("{OTHER_USER}:{OTHER_USER}");
    assert!(Command::new("chown").args(["-hR", &owner]).arg(folder).status().unwrap().success());
}

/// Every command that keeps something in the state folder, or removes something there.
const COMMANDS: [&str; 6] = [
    "replay t.trace data --quiet",
    "runs prune --yes --keep 0 --older-than 0d",
    NULL,
    "check --quick data",
    "watch data --every 10s --keep 1",
    "stack clean",
];

fn make_trace(sandbox: &Sandbox) {
    let line = "800 1000.000000 pwrite64(3</old/log>, \"\"..., 8192, 0) = 8192 <0.000020>\n";
    fs::write(sandbox.root().join("strace.txt"), line).unwrap();
    sandbox.durio("capture --strace strace.txt --trace t.trace").run().expect_exit(0);
}

#[test]
fn nothing_is_removed_or_made_behind_a_link_in_the_state_folder() {
    let mut sandbox = Sandbox::new();
    // What the link in place of the folder of pointers leads to.
    sandbox.may_leave_pointers();
    make_trace(&sandbox);
    let victims = make_victims(&sandbox);
    let state = sandbox.state().join("durio");
    let _ = fs::remove_dir_all(&state);
    fs::create_dir_all(&state).unwrap();
    for part in ["runs", "watch", "replays", "leftovers", "stacks", "settings"] {
        symlink(&victims, state.join(part)).unwrap();
    }
    let before = (contents(&victims), contents(&state));
    for command in COMMANDS {
        let ended = sandbox.durio(command).run().expect_exit(3);
        ended.expect_stderr("it is a link or not a folder");
        assert_eq!((contents(&victims), contents(&state)), before, "{command}");
    }
    for command in ["runs rm --yes", "report"] {
        sandbox.durio(command).word(RUN).run().expect_exit(3).expect_stderr("it is a link");
    }
    // A run into a folder that the user names needs no state folder.
    sandbox.durio(&format!("{NULL} --out elsewhere")).run().expect_exit(0);
    assert_eq!((contents(&victims), contents(&state)), before);
}

#[test]
fn root_uses_no_state_folder_of_another_user() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    make_trace(&sandbox);
    let state = sandbox.state().join("durio");
    let _ = fs::remove_dir_all(&state);
    fs::create_dir_all(&state).unwrap();
    for part in ["runs", "watch", "replays"] {
        fs::create_dir(state.join(part)).unwrap();
        for name in [RUN, PROBE, REPLAY, "precious"] {
            fs::create_dir(state.join(part).join(name)).unwrap();
            fs::write(state.join(part).join(name).join("run.json"), "{").unwrap();
        }
    }
    give_away(&state);
    let before = contents(&state);
    for command in COMMANDS {
        let ended = sandbox.durio(command).run().expect_exit(3);
        ended.expect_stderr("it belongs to user 65534").expect_stderr("hint: set XDG_STATE_HOME");
        assert_eq!(contents(&state), before, "{command}");
    }
    sandbox.durio(&format!("{NULL} --out elsewhere")).run().expect_exit(0);
    assert_eq!(contents(&state), before);
    // A link of that user on the way, to a state folder of root's own.
    let own = sandbox.root().join("own");
    fs::create_dir(&own).unwrap();
    symlink(&own, sandbox.root().join("way")).unwrap();
    lchown(sandbox.root().join("way"), Some(OTHER_USER), None).unwrap();
    let by_link = || sandbox.durio(NULL).env("XDG_STATE_HOME", sandbox.root().join("way"));
    by_link().run().expect_exit(3).expect_stderr("is a link that user 65534 can replace");
    assert_eq!(contents(&own), []);
    // Root's own link is one that an administrator made for a home that lies elsewhere.
    lchown(sandbox.root().join("way"), Some(0), None).unwrap();
    by_link().run().expect_exit(0);
    assert_eq!(fs::read_dir(own.join("durio/runs")).unwrap().count(), 1);
}

#[test]
fn a_part_or_a_run_of_another_user_in_roots_own_state_folder_stays() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.durio(NULL).run().expect_exit(0);
    sandbox.durio(NULL).run().expect_exit(0);
    let runs = sandbox.runs();
    chown(&runs[0], Some(OTHER_USER), None).unwrap();
    let prune = || sandbox.durio("runs prune --yes --keep 0 --older-than 0d").run();
    prune().expect_exit(3).expect_stderr("stays: it belongs to user 65534");
    assert!(runs[0].join("events.jsonl").exists());
    chown(&runs[0], Some(0), None).unwrap();
    chown(runs[0].parent().unwrap(), Some(OTHER_USER), None).unwrap();
    prune().expect_exit(3).expect_stderr("/durio/runs': it belongs to user 65534");
    assert!(runs[0].exists());
}

#[test]
fn a_run_whose_manifest_is_damaged_or_a_link_is_of_no_age() {
    let sandbox = Sandbox::new();
    (0..5).for_each(|_| drop(sandbox.durio(NULL).run().expect_exit(0)));
    let runs = sandbox.runs();
    let manifest = |run: usize| runs[run].join("run.json");
    fs::write(manifest(0), "{ damaged").unwrap();
    let elsewhere = sandbox.root().join("elsewhere.json");
    fs::rename(manifest(1), &elsewhere).unwrap();
    symlink(&elsewhere, manifest(1)).unwrap();
    let text = fs::read_to_string(manifest(2)).unwrap();
    let started = text.split("\"started\": \"").nth(1).unwrap().split('"').next().unwrap();
    fs::write(manifest(2), text.replace(started, "")).unwrap();
    let listed = sandbox.durio("runs").run().expect_exit(0);
    assert_eq!(listed.text().matches("damaged: run.json").count(), 3, "{}", listed.text());
    let prune = |age: &str| {
        let line = format!("runs prune --yes --keep 0 --older-than {age}");
        sandbox.durio(&line).run().expect_exit(0)
    };
    prune("90d").expect_stderr("no run is that old");
    assert_eq!(sandbox.runs(), runs);
    prune("0d").expect_stderr("removed 2 runs");
    assert_eq!(sandbox.runs(), runs[..3]);
    let rm = |run: usize| sandbox.durio("runs rm --yes").word(runs[run].file_name().unwrap()).run();
    // By its name a damaged one is removed; a link proves nothing of the folder that it is in.
    rm(0).expect_exit(0);
    rm(1).expect_exit(3).expect_stderr("it is a symbolic link");
    assert_eq!(sandbox.runs(), runs[1..3]);
}

#[test]
fn a_run_that_lives_is_not_removed_nor_a_folder_of_another_name() {
    let sandbox = Sandbox::new();
    sandbox.durio(NULL).run().expect_exit(0);
    let run = sandbox.the_run();
    let copy = run.with_file_name("precious");
    assert!(Command::new("cp").arg("-r").args([&run, &copy]).status().unwrap().success());
    let rm = |name: &Path| sandbox.durio("runs rm --yes").word(name.file_name().unwrap()).run();
    rm(&copy).expect_exit(3).expect_stderr("it is not a run folder");
    assert!(copy.join("run.json").exists());
    let journal = fs::File::open(run.join("journal.jsonl")).unwrap();
    rustix::fs::flock(&journal, rustix::fs::FlockOperation::LockExclusive).unwrap();
    rm(&run).expect_exit(3).expect_stderr("it is still running");
    drop(journal);
    rm(&run).expect_exit(0);
    assert!(!run.exists() && copy.exists());
}

#[test]
fn no_other_user_may_look_into_the_state_folder_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    for mask in ["000", "002", "077"] {
        let _ = fs::remove_dir_all(sandbox.state());
        let script = format!("umask {mask}; exec \"$0\" \"$@\"");
        sandbox.durio(NULL).within(["sh", "-c", &script]).run().expect_exit(0);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let state = sandbox.state().join("durio");
        for folder in [sandbox.state(), state.clone(), state.join("runs"), state.join("leftovers")]
        {
            assert_eq!(mode(&folder), 0o700, "{mask} {}", folder.display());
        }
        let run = sandbox.the_run();
        assert_eq!(mode(&run.join("journal.jsonl")), 0o600, "{mask}");
        assert_eq!(mode(&run) & 0o022, 0, "{mask}");
    }
}
