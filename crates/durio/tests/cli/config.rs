//! A user's defaults: applied, replaced, recorded, refused where they are wrong.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use serde_json::Value;

use crate::requirements::has;
use crate::sandbox::Sandbox;

#[test]
fn defaults_of_the_file_are_used_recorded_and_replaced_by_options() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("config.toml");
    let text =
        "[check]\nsize = \"8MiB\"\nduration = \"150ms\"\nworkload = [\"commit\"]\nquiet = true\n";
    fs::write(&file, text).unwrap();
    let durio = |line: &str| sandbox.durio(line).env("DURIO_CONFIG", &file).run();
    durio("config")
        .expect_exit(0)
        .expect_stdout("durio check --duration 150ms --quiet --size 8MiB");
    let document = durio("check data --size 4MiB --format json").expect_exit(0).json();
    assert_eq!(document["workloads"].as_array().unwrap().len(), 1);
    let command: Vec<&str> =
        document["run"]["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(command[..2], ["durio", "check"], "the tests' durio has a path");
    assert!(command.contains(&"150ms") && command.contains(&"4MiB"), "{command:?}");
    assert!(!command.contains(&"8MiB"), "{command:?}");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn a_file_that_is_wrong_stops_every_command_with_what_to_do() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("config.toml");
    let rows = [
        ("[chek]\nsize = \"1G\"\n", "did you mean 'check'"),
        ("[check]\nsise = \"1G\"\n", "config.toml:2:1: 'sise' is not an option of check"),
        ("[check\n", "config.toml:1:"),
        ("\u{0}\u{1}", "config.toml:1:"),
    ];
    for (text, word) in rows {
        fs::write(&file, text).unwrap();
        let ended = sandbox.durio("check data").env("DURIO_CONFIG", &file).run().expect_exit(2);
        ended.expect_stderr(word).expect_stderr("DURIO_CONFIG= runs without it");
    }
    // What clap finds wrong of a value names the option, which is the file's.
    fs::write(&file, "[check]\nsize = \"many\"\n").unwrap();
    let ended = sandbox.durio("check data").env("DURIO_CONFIG", &file).run().expect_exit(2);
    ended.expect_stderr("--size").expect_stderr("many");
    fs::remove_file(&file).unwrap();
    let none = sandbox.durio("config").env("DURIO_CONFIG", &file).run();
    none.expect_exit(0).expect_stdout("sets no option");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn a_file_gives_no_consent_for_anybody() {
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("config.toml");
    let before = fs::read(sandbox.user_file()).unwrap();
    let target = sandbox.user_file();
    for (text, option) in [
        (
            format!("[run]\ndestroy = [\"{}\"]\nrw = \"write\"\n", target.display()),
            "'destroy' of run",
        ),
        ("[run]\nyes = true\n".to_owned(), "'yes' of run"),
        ("[run]\ncreate = true\n".to_owned(), "'create' of run"),
        ("[run]\nforce-signature = false\n".to_owned(), "'force-signature' of run"),
        ("[raid.create]\nassume-clean = true\n".to_owned(), "'assume-clean' of create"),
    ] {
        fs::write(&file, text).unwrap();
        let run = sandbox.durio("run --ops 20 --target").word(&target);
        let ended = run.env("DURIO_CONFIG", &file).run().expect_exit(2);
        ended.expect_stderr(option).expect_stderr("only the command line can do");
    }
    assert_eq!(fs::read(target).unwrap(), before);
    assert!(sandbox.runs().is_empty());
}

#[test]
fn root_takes_no_options_that_somebody_else_can_write() {
    if !has(&["root"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.root().join("config.toml");
    fs::write(&file, "[run]\nops = \"20\"\n").unwrap();
    let ended = || sandbox.durio("config").env("DURIO_CONFIG", &file).run();
    let set = |mode: u32, owner: u32| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        chown(&file, Some(owner), None).unwrap();
    };
    for (mode, owner, word) in [
        (0o644, 1000, "belongs to user 1000"),
        (0o666, 0, "others can write to it"),
        (0o664, 0, "others can write to it"),
    ] {
        set(mode, owner);
        ended().expect_exit(2).expect_stderr(word).expect_stderr("DURIO_CONFIG= runs without it");
    }
    set(0o644, 0);
    ended().expect_exit(0).expect_stdout("durio run --ops 20");
}

/// As `sudo` and containers pass it on: another user's HOME must not stop every command.
#[test]
fn a_file_in_the_home_of_another_user_is_ignored_with_a_warning() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let folder = sandbox.root().join("home/.config/durio");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    fs::write(&file, "[runs]\nprobes = true\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let warning = format!("durio: ignoring '{}': Permission denied", file.display());
    for line in ["runs", "config"] {
        let durio = sandbox.durio_as_nobody(line).without_env("DURIO_CONFIG");
        let ended = durio.run().expect_exit(0);
        ended.expect_stderr(&warning).expect_stderr("hint: set HOME or XDG_CONFIG_HOME");
    }
    // One that is named must be read.
    let named = sandbox.durio_as_nobody("runs").env("DURIO_CONFIG", &file).run().expect_exit(2);
    named.expect_stderr("Permission denied").expect_stderr("DURIO_CONFIG= runs without it");
    // The same for root, who could read it and does not trust it.
    chown(&file, Some(65_534), None).unwrap();
    let ended = sandbox.durio("config").without_env("DURIO_CONFIG").run().expect_exit(0);
    ended.expect_stderr("it belongs to user 65534").expect_stdout("ignoring '");
    // No file can be in a home that is not a directory.
    let homeless = sandbox.durio("config").without_env("DURIO_CONFIG").env("HOME", "/dev/null");
    homeless.run().expect_exit(0).expect_no_stderr().expect_stdout("sets no option");
}

#[test]
fn a_pipe_or_a_device_in_place_of_the_file_is_refused_and_not_waited_for() {
    let sandbox = Sandbox::new();
    let pipe = sandbox.root().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for place in [pipe.as_path(), "/dev/zero".as_ref(), sandbox.root()] {
        let ended = sandbox.durio("runs").env("DURIO_CONFIG", place).run().expect_exit(2);
        ended.expect_stderr("it is not a regular file");
    }
}
