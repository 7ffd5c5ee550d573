//! `durio doctor`: what it finds, what prevents a check, and that nothing stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::durio::Ended;
use crate::loops::{Mount, sh};
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};

/// The row of this name.
#[track_caller]
fn row(ended: &Ended, name: &str) -> Value {
    let document = ended.json();
    let rows = document["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("{name}: {rows:?}"))
        .clone()
}

#[track_caller]
fn state(ended: &Ended, name: &str) -> String {
    row(ended, name)["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_directory_on_a_filesystem_is_fine_and_nothing_stays() {
    if !has(&["root", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let backing = sandbox.root().join("image");
    let mount = Mount::filesystem("ext4", &backing, 512, &sandbox.root().join("place"));
    let before = entries(mount.point());
    let ended = sandbox.durio("doctor place --json").run().expect_exit(0).expect_no_stderr();
    let document = ended.json();
    assert_eq!(document["schema"], "durio-doctor-1");
    assert_eq!(document["can_check"], true);
    for name in ["directory", "files", "O_DIRECT", "fdatasync", "write flags", "state folder"] {
        assert_eq!(state(&ended, name), "ok", "{}", row(&ended, name));
    }
    // A tenth of 512 MiB is less than what a check lays out.
    assert_eq!(state(&ended, "room"), "limited");
    assert_eq!(entries(mount.point()), before);
    assert!(!sandbox.state().exists(), "a state folder was made");
}

#[test]
fn what_a_user_has_in_the_directory_is_as_it_was() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio("doctor data").run().expect_exit(0).expect_no_stderr();
    let text = ended.expect_stdout("durio check can run here").text();
    assert!(
        text.lines().count() <= 45 && text.lines().all(|it| it.chars().count() <= 100),
        "{text}"
    );
    assert_eq!(sandbox.differences(), [""; 0]);
    // Without a directory it is the current one.
    sandbox.durio("doctor").directory(&sandbox.data()).run().expect_exit(0);
    assert_eq!(sandbox.differences(), [""; 0]);
}

#[test]
fn memory_is_told_from_a_disk() {
    let sandbox = Sandbox::in_memory();
    let ended = sandbox.durio("doctor data --json").run().expect_exit(0);
    let found = row(&ended, "directory");
    assert_eq!(found["state"], "limited");
    assert!(found["found"].as_str().unwrap().starts_with("memory-backed: tmpfs"), "{found}");
    assert_eq!(state(&ended, "device counters"), "no");
}

#[test]
fn without_the_directory_the_machine_is_shown_all_the_same() {
    let sandbox = Sandbox::new();
    for name in ["nowhere", "nowhere/else"] {
        let ended = sandbox.durio("doctor --json").word(name).run().expect_exit(3);
        let ended = ended.expect_stderr("does not exist").expect_stderr("hint: name an existing");
        assert_eq!(ended.json()["can_check"], false);
        assert_eq!(state(&ended, "directory"), "no");
        assert!(row(&ended, "clock")["state"].is_string());
    }
    let ended = sandbox.durio("doctor data/user.db").run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("is not a directory").expect_stderr("hint:");
}

#[test]
fn a_directory_mounted_for_reading_only_prevents_a_check() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let point = sandbox.root().join("readonly");
    let mount = Mount::new(&format!("--bind '{}'", sandbox.data().display()), &point);
    sh(&format!("mount -o remount,bind,ro '{}'", mount.point().display()));
    let ended = sandbox.durio("doctor readonly --json").run().expect_exit(3);
    let ended = ended.expect_stderr("Read-only file system").expect_stderr("hint: name a place");
    assert_eq!((state(&ended, "files"), state(&ended, "room")), ("no".into(), "ok".into()));
}

#[test]
fn a_user_without_rights_is_told_what_is_missing() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let ended = sandbox.durio_as_nobody("doctor data --json").run().expect_exit(3);
    let ended = ended.expect_stderr("Permission denied").expect_stderr("hint: run as");
    assert_eq!((state(&ended, "files"), state(&ended, "rights")), ("no".into(), "limited".into()));
    assert_eq!(state(&ended, "state folder"), "ok");
    let place = sandbox.root().join("place");
    fs::create_dir(&place).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
    sandbox.durio_as_nobody("doctor place").run().expect_exit(0).expect_stdout("not root");
    assert_eq!(entries(&place).len(), 0);
}

#[test]
fn a_state_folder_that_cannot_be_made_prevents_a_check() {
    let sandbox = Sandbox::new();
    let doctor = || sandbox.durio("doctor data --json");
    let homeless = doctor().without_env("HOME").without_env("XDG_STATE_HOME");
    let ended = homeless.run().expect_exit(3).expect_stderr("neither XDG_STATE_HOME nor HOME");
    assert_eq!(state(&ended, "state folder"), "no");
    let ended = doctor().env("XDG_STATE_HOME", sandbox.user_file()).run().expect_exit(3);
    ended.expect_stderr("is not a directory").expect_stderr("hint: set XDG_STATE_HOME");
}

#[test]
fn a_file_too_many_is_answered_with_how_to_raise_the_limit() {
    if !has(&["prlimit"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for few in ["--nofile=8", "--nofile=12"] {
        let ended = sandbox.durio("run --target data").within(["prlimit", few]).run();
        ended.expect_exit(3).expect_stderr("open files").expect_stderr("hint: raise the limit");
    }
}

#[test]
fn limits_of_the_process_are_found_by_trying() {
    if !has(&["root", "prlimit", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let few = sandbox.durio("doctor data --json").within(["prlimit", "--nofile=32"]);
    let ended = few.run().expect_exit(3).expect_stderr("durio check needs");
    assert_eq!(state(&ended, "open files"), "no");
    // Root may lock any amount.
    sandbox.durio_as_nobody("--version").run().expect_exit(0);
    let setpriv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let wrapper = ["prlimit", "--memlock=65536"].into_iter().chain(setpriv);
    let locked = sandbox.durio_as_nobody("doctor data --json").within(wrapper);
    let ended = locked.run().expect_exit(3);
    let found = row(&ended, "io_uring");
    // A machine that forbids rings says so before.
    if found["state"] == "limited" {
        assert!(found["found"].as_str().unwrap().contains("limited to 64 KiB"), "{found}");
        assert!(found["remedy"].as_str().unwrap().contains("ulimit -l"), "{found}");
    } else {
        assert_eq!(found["state"], "no", "{found}");
    }
}

#[test]
fn a_virtualisation_that_makes_qemu_abort_leaves_no_core() {
    if !has(&["prlimit"]) {
        return;
    }
    let sandbox = Sandbox::new();
    // It answers as QEMU does until it is to run a guest.
    let script = "#!/bin/sh\ncase \"$1\" in\n--version) echo 'QEMU emulator version 7.2.0' ;;\n\
                  -L) ;;\n*) sleep 0.2; kill -ABRT $$ ;;\nesac\n";
    let folder = sandbox.program("qemu-system-x86_64", script);
    let path = format!("{}:{}", folder.display(), crate::requirements::search_path());
    let doctor = sandbox.durio("doctor --json").directory(&sandbox.data()).env("PATH", path);
    let ended = doctor.within(["prlimit", "--core=unlimited"]).run().expect_exit(0);
    assert_eq!(state(&ended, "KVM"), "no");
    assert_eq!(state(&ended, "QEMU"), "ok");
    assert_eq!(sandbox.differences(), [""; 0]);
}
