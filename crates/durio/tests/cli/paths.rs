//! Paths: missing, of the wrong kind, without the right, with every byte that a name may have.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use crate::loops::{Mount, sh};
use crate::requirements::has;
use crate::sandbox::Sandbox;

/// Neither command can measure what is at `path`, and both say its name.
#[track_caller]
fn cannot_be_measured(sandbox: &Sandbox, path: &str, words: &str) {
    refused(sandbox, path, 3, words);
}

#[track_caller]
fn is_missing(sandbox: &Sandbox, path: &str, words: &str) {
    refused(sandbox, path, 2, words);
}

#[track_caller]
fn refused(sandbox: &Sandbox, path: &str, code: i32, words: &str) {
    for command in ["check", "run --ops 5 --target"] {
        let ended = sandbox.durio(command).word(path).run().expect_exit(code).expect_no_stdout();
        ended.expect_stderr(&format!("'{path}'")).expect_stderr(words);
    }
    assert!(sandbox.runs().is_empty() && sandbox.pointers().is_empty());
}

#[test]
fn a_missing_path_is_named_with_what_could_be_given() {
    let sandbox = Sandbox::new();
    let ended = sandbox.durio("check data/missing").run().expect_exit(2).expect_no_stdout();
    ended.expect_stderr("'data/missing' does not exist").expect_stderr("hint: name an existing");
    is_missing(&sandbox, "data/missing/file", "No such file or directory");
}

#[test]
fn a_path_below_a_file_is_named() {
    let sandbox = Sandbox::new();
    is_missing(&sandbox, "data/notes.txt/below", "Not a directory");
}

#[test]
fn a_dangling_link_is_not_followed_to_a_new_file() {
    let mut sandbox = Sandbox::new();
    symlink("nowhere", sandbox.data().join("dangling")).unwrap();
    sandbox.accept_changes();
    is_missing(&sandbox, "data/dangling", "No such file or directory");
}

#[test]
fn a_link_that_leads_to_itself_is_named() {
    let mut sandbox = Sandbox::new();
    symlink("circle", sandbox.data().join("circle")).unwrap();
    sandbox.accept_changes();
    cannot_be_measured(&sandbox, "data/circle", "symbolic links");
}

#[test]
fn an_empty_path_is_wrong_use() {
    let sandbox = Sandbox::new();
    sandbox.durio("check").word("").run().expect_exit(2).expect_stderr("PATH");
    sandbox.durio("run --ops 5 --target").word("").run().expect_exit(2).expect_stderr("--target");
}

#[test]
fn pipes_sockets_and_terminals_are_no_storage_and_never_waited_for() {
    let mut sandbox = Sandbox::new();
    sh(&format!("mkfifo '{}'", sandbox.data().join("pipe").display()));
    let _socket = UnixListener::bind(sandbox.data().join("socket")).unwrap();
    sandbox.accept_changes();
    cannot_be_measured(&sandbox, "data/pipe", "neither a directory, a file nor a device");
    cannot_be_measured(&sandbox, "data/socket", "neither a directory, a file nor a device");
    cannot_be_measured(&sandbox, "/dev/tty", "not storage");
    cannot_be_measured(&sandbox, "/dev/urandom", "not storage");
}

#[test]
fn names_may_have_every_byte_and_the_documents_stay_valid() {
    let sandbox = Sandbox::new();
    let names: [&[u8]; 6] = [
        b"with space",
        b"line\nfeed",
        b"quote'\"quote",
        b"<b>&amp;",
        b"latin \xe9 \xff\xfe",
        b"\x1b[31mred",
    ];
    for name in names {
        let directory = sandbox.root().join(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        let line = "check --quiet --duration 100ms --size 4MiB --workload commit --format json";
        let ended = sandbox.durio(line).word(&directory).run().expect_exit(0);
        let location = ended.json()["workloads"][0]["location"].as_str().unwrap().to_owned();
        assert!(!location.is_empty());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{}", directory.display());
        let run = sandbox.runs().pop().unwrap();
        for format in ["text", "json", "html", "markdown", "csv"] {
            let ended = sandbox.durio("report --format").word(format).word(&run).run();
            let ended = ended.expect_exit(0).expect_no_stderr();
            assert!(String::from_utf8(ended.stdout.clone()).is_ok(), "{format}: not UTF-8");
            let is_escape = ended.stdout.contains(&0x1b);
            assert!(!is_escape, "{format}: an escape from the name");
        }
    }
}

/// HTML knows no control characters but blanks.
#[test]
fn the_page_has_no_control_characters_from_names() {
    let sandbox = Sandbox::new();
    let name = "red \u{1b}[31m \u{7} \u{1}";
    fs::create_dir(sandbox.root().join(name)).unwrap();
    let line = "check --quiet --duration 100ms --size 4MiB --workload commit --format html";
    let ended = sandbox.durio(line).word(name).run().expect_exit(0);
    let is_control = |byte: &u8| *byte < 0x20 && !b"\n\t\r\x0c".contains(byte);
    let control: Vec<&u8> = ended.stdout.iter().filter(|byte| is_control(byte)).collect();
    assert!(control.is_empty(), "{control:?}");
}

#[test]
fn names_with_every_byte_are_written_when_destroy_names_them() {
    let mut sandbox = Sandbox::new();
    let file = sandbox.data().join(OsStr::from_bytes(b"odd \xff\n'name'"));
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    sandbox.accept_changes();
    let line = "run --quiet --rw randwrite --ops 20 --target";
    sandbox.durio(line).word(&file).run().expect_exit(2);
    assert!(sandbox.differences().is_empty());
    sandbox.durio(line).word(&file).word("--destroy").word(&file).run().expect_exit(0);
    assert_eq!(sandbox.differences().len(), 1);
    sandbox.accept_changes();
}

#[test]
fn a_directory_without_the_right_to_write_is_refused_with_a_hint() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    for line in ["check data", "run --target data --rw randwrite --ops 5 --size 1MiB"] {
        let ended = sandbox.durio_as_nobody(&format!("{line} --quiet")).run().expect_exit(3);
        ended.expect_no_stdout().expect_stderr("Permission denied").expect_stderr("hint: run as");
    }
    // Reading what everybody may read needs no right.
    let line = "check data/user.db --quiet --duration 100ms --workload lookup";
    sandbox.durio_as_nobody(line).run().expect_exit(0);
}

#[test]
fn a_file_without_the_right_to_read_is_refused_with_a_hint() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let mut sandbox = Sandbox::for_everyone();
    fs::set_permissions(sandbox.user_file(), fs::Permissions::from_mode(0o600)).unwrap();
    sandbox.accept_changes();
    let ended = sandbox.durio_as_nobody("check data/user.db --quiet").run().expect_exit(3);
    ended.expect_stderr("Permission denied").expect_stderr("hint: run as");
    fs::set_permissions(sandbox.data(), fs::Permissions::from_mode(0o700)).unwrap();
    let ended = sandbox.durio_as_nobody("check data/user.db --quiet").run().expect_exit(3);
    ended.expect_stderr("cannot look at 'data/user.db': Permission denied");
}

#[test]
fn a_directory_mounted_for_reading_only_is_refused_with_a_hint() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let point = sandbox.root().join("readonly");
    let mount = Mount::new(&format!("--bind '{}'", sandbox.data().display()), &point);
    sh(&format!("mount -o remount,bind,ro '{}'", mount.point().display()));
    for line in
        ["check readonly", "run --target readonly/new --create --rw randwrite --ops 5 --size 1MiB"]
    {
        let ended = sandbox.durio(&format!("{line} --quiet")).run().expect_exit(3);
        ended.expect_stderr("Read-only file system").expect_stderr("hint: name a place");
    }
    // What exists there can be read.
    let line = "check readonly/user.db --quiet --duration 100ms --workload lookup";
    sandbox.durio(line).run().expect_exit(0);
    let line =
        "run --quiet --rw randwrite --ops 5 --target readonly/user.db --destroy readonly/user.db";
    sandbox.durio(line).run().expect_exit(3).expect_stderr("Read-only file system");
}

/// Space is looked at later: advice about a --size would be of no use there.
#[test]
fn places_that_take_no_files_are_refused_as_such() {
    let sandbox = Sandbox::new();
    for line in ["check /proc", "durable /sys", "run --target /proc --rw write --ops 5"] {
        let ended = sandbox.durio(line).run().expect_exit(3).expect_no_stdout();
        let ended = ended.expect_stderr("a filesystem with no free space");
        assert!(!ended.stderr.contains("--size"), "{}", ended.stderr);
    }
    if !has(&["root"]) {
        return;
    }
    let small = Mount::tmpfs(12, &sandbox.root().join("small"));
    let size = sandbox.durio("check small --quick").run().expect_exit(3);
    let ended = size.expect_stderr("has only 12 MiB free").expect_stderr("with 16 MiB free");
    assert!(!ended.stderr.contains("for example"), "{}", ended.stderr);
    sh(&format!("mount -o remount,ro '{}'", small.point().display()));
    let ended = sandbox.durio("check small --quick").run().expect_exit(3);
    let ended = ended.expect_stderr("cannot make files in 'small': Read-only file system");
    assert!(!ended.stderr.contains("--size"), "{}", ended.stderr);
}

#[test]
fn an_empty_mount_point_without_its_disk_is_named() {
    let sandbox = Sandbox::new();
    let point = sandbox.root().join("mnt");
    fs::create_dir(&point).unwrap();
    let line = "run --quiet --target mnt --rw randwrite --ops 5 --size 1MiB";
    let ended = sandbox.durio(line).run().expect_exit(0);
    ended.expect_stderr("durio: nothing is mounted at 'mnt', an empty directory on");
    fs::write(point.join("PG_VERSION"), "17").unwrap();
    let ended = sandbox.durio(line).run().expect_exit(0);
    assert!(!ended.stderr.contains("nothing is mounted"), "{}", ended.stderr);
}

#[test]
fn a_run_folder_that_cannot_be_made_is_named() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --ops 10 --out";
    for out in ["data/notes.txt", "/proc/nowhere", "/dev/null"] {
        sandbox.durio(line).word(out).run().expect_exit(3).expect_stderr(out).expect_no_stdout();
    }
}

#[test]
fn a_run_folder_without_the_right_to_make_it_is_named() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let line = "run --quiet --engine null --ops 10 --out data";
    let ended = sandbox.durio_as_nobody(line).run().expect_exit(3);
    ended.expect_stderr("Permission denied").expect_stderr("data");
}

#[test]
fn a_home_that_cannot_be_written_to_is_answered_with_both_ways_out() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let durio = |line: &str| {
        let durio = sandbox.durio_as_nobody(line).without_env("XDG_STATE_HOME");
        durio.env("HOME", "/nonexistent").run().expect_exit(3)
    };
    let ended = durio("run --quiet --engine null --ops 10").expect_no_stdout();
    ended
        .expect_stderr("cannot use the state folder '/nonexistent/.local/state/durio'")
        .expect_stderr("hint: set XDG_STATE_HOME to a directory that you can write to")
        .expect_stderr("hint: or give --out DIR");
    // The folder that could not be made, not the one that it would be made in alone.
    durio("doctor data").expect_stderr("cannot make '/nonexistent/.local/state/durio' in '/'");
}

#[test]
fn without_a_home_out_says_where_the_run_folder_shall_be() {
    let sandbox = Sandbox::new();
    let homeless = || sandbox.durio("run --quiet --engine null --ops 10");
    let homeless = || homeless().without_env("HOME").without_env("XDG_STATE_HOME");
    let ended = homeless().run().expect_exit(3).expect_no_stdout();
    ended.expect_stderr("neither XDG_STATE_HOME nor HOME").expect_stderr("hint: or give --out DIR");
    homeless().words("--out elsewhere").run().expect_exit(0).expect_stdout("elsewhere/");
    let check = sandbox.durio("check data --quiet --duration 100ms --size 4MiB --workload commit");
    let check = check.without_env("HOME").without_env("XDG_STATE_HOME").words("--out elsewhere");
    check.run().expect_exit(0);
}

#[test]
fn a_state_folder_that_is_no_absolute_path_is_passed_over() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --ops 10";
    sandbox.durio(line).env("XDG_STATE_HOME", "relative").run().expect_exit(0);
    assert!(!sandbox.root().join("relative").exists());
    assert!(sandbox.root().join("home/.local/state/durio/runs").is_dir());
}
