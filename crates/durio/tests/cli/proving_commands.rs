//! `durio prove exec`: what is refused before anything is booted, and a database under power cuts.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::Durio;
use crate::guests::{bootable, with_kernels};
use crate::sandbox::{Sandbox, entries};

/// Half a minute on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(600);
const SQLITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prove/sqlite.sh");

#[test]
fn what_cannot_be_proved_is_wrong_use() {
    let sandbox = Sandbox::new();
    for (options, part) in [
        ("-- true", "--check"),
        ("--check true", "COMMAND"),
        ("--check true --cuts 0 -- true", "--cuts"),
        ("--check true --disk flush-ignord -- true", "flush-ignored"),
        ("--check true --size 8MiB -- true", "16 MiB to 4 GiB"),
        ("--check true --front-end floppy -- true", "--front-end"),
        ("--check true --write-cache much -- true", "--write-cache"),
        ("--check true --root none -- true", "--root"),
        ("--check true --format fio-json -- true", "--format"),
    ] {
        let line = format!("prove exec --out out {options}");
        sandbox.durio(&line).run().expect_exit(2).expect_no_stdout().expect_stderr(part);
        assert!(!sandbox.root().join("out").exists(), "{options}");
    }
    Durio::new().words("prove command-in-guest {}").run().expect_exit(2).expect_stderr("guest");
}

#[test]
fn without_a_kernel_or_a_file_of_the_guest_nothing_is_decided() {
    let sandbox = Sandbox::new();
    for (option, part) in [("--kernel 6.1.0-none", "6.1.0-none"), ("--file none", "'none'")] {
        let line = format!("prove exec {option} --out out --check true -- true");
        sandbox.durio(&line).run().expect_exit(3).expect_no_stdout().expect_stderr(part);
    }
}

/// A proof of SQLite in a guest, in one cut.
fn sqlite(sandbox: &Sandbox, options: &str, exit: i32) -> Value {
    let script = "/durio/sqlite.sh";
    let line = with_kernels(sandbox, "prove exec --cuts 1 --seed 7 --format json --out out");
    let line = line.words("--file").word(format!("{SQLITE}:{script}")).words(options);
    let line = line.word("--setup").word(format!("{script} setup"));
    let line = line.word("--check").word(format!("{script} check"));
    let line = line.words(&format!("-- {script} load"));
    line.start().wait_at_most(PATIENCE).expect_exit(exit).json()["series"][0].clone()
}

#[test]
#[ignore = "slow"]
fn a_database_keeps_its_commits_on_an_honest_disk_and_loses_them_on_one_that_ignores_flushes() {
    let Some(sandbox) = bootable(&["mkfs.ext4", "sqlite3"]) else { return };
    let honest = sqlite(&sandbox, "--disk write-back", 0);
    assert_eq!(
        (&honest["verdict"]["verdict"], &honest["effective"]),
        (&"no_loss".into(), &1.into())
    );
    assert!(honest["at_risk"].as_u64() >= Some(32), "{honest}");
    let liar = sqlite(&sandbox, "--disk flush-ignored --root hermetic --tool sqlite3", 1);
    assert_eq!(liar["verdict"]["verdict"], "breaks", "{liar}");
    // What was acknowledged last, and what the check has to say of it, is in the record.
    assert!(liar["loss"]["check"]["last_acknowledged"].as_str().unwrap().contains("committed"));
    assert!(!liar["loss"]["check"]["said"].as_str().unwrap().is_empty(), "{liar}");
    for folder in entries(&sandbox.root().join("out")) {
        sandbox.durio("report").word(folder).run().expect_exit(0).expect_stdout("sqlite.sh load");
    }
}

#[test]
#[ignore = "slow"]
fn a_command_that_ends_before_the_cut_decides_nothing_and_an_interrupt_ends_its_guest() {
    let Some(sandbox) = bootable(&["mkfs.ext4"]) else { return };
    let line = "prove exec --out out --check true -- sh -c";
    let ended = with_kernels(&sandbox, line).word("echo why >&2; exit 9").start();
    let ended = ended.wait_at_most(PATIENCE).expect_exit(3);
    ended.expect_stderr("exit code 9").expect_stderr("why").expect_stderr("until its power is cut");
    let mut running = with_kernels(&sandbox, line).word("sleep 1000").start();
    std::thread::sleep(Duration::from_secs(3));
    assert!(running.is_alive(), "{}", running.stderr());
    running.signal(Signal::INT);
    running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
}
