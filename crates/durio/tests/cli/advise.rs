//! `durio advise`: what it says, and that what it switches always comes back.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::loops::Mount;
use crate::requirements::has;
use crate::sandbox::Sandbox;

#[test]
fn rules_are_judged_and_the_exit_code_asks_nothing() {
    let sandbox = Sandbox::new();
    // With a file no server is asked.
    fs::write(sandbox.root().join("empty.conf"), "").unwrap();
    let line = "advise data --database postgresql --config empty.conf";
    let text = sandbox.durio(line).run().expect_exit(0).text();
    assert!(text.lines().count() <= 30, "{text}");
    let answers = ["Bad: ", "Caution: ", "Good: "];
    assert!(answers.iter().any(|word| text.starts_with(word)), "{text}");
    let whole = sandbox.durio(&format!("{line} --verbose")).run();
    let whole = whole.expect_exit(0).text();
    for part in ["Advice for data", "ndecided", "durio durable data", "not met,"] {
        assert!(text.contains(part) && whole.contains(part), "{part}: {text}");
    }
    assert!(whole.contains("SHOW"), "{whole}");
    let document = sandbox.durio("advise data --format json").run().expect_exit(0).json();
    assert_eq!(document["schema"], "durio-advice-1");
    assert!(document["advice"].as_array().unwrap().len() >= 45);
    assert!(sandbox.runs().is_empty(), "nothing is measured");
}

#[test]
fn rules_about_what_is_not_here_are_shown_with_all_alone() {
    let sandbox = Sandbox::new();
    let document = sandbox.durio("advise data --format json").run().expect_exit(0).json();
    let rules = document["advice"].as_array().unwrap();
    let named = |is_absent: bool| -> BTreeSet<String> {
        let those = rules.iter().filter(|it| (it["state"] == "not_applicable") == is_absent);
        let name = |it: &serde_json::Value| {
            format!("{} {}", it["rule"].as_str().unwrap(), it["name"].as_str().unwrap())
        };
        those.map(name).collect()
    };
    // A rule may be about one device here and not about another.
    let (absent, here) = (named(true), named(false));
    let absent: Vec<String> = absent.difference(&here).cloned().collect();
    // Those of databases, of which none was named, are among them.
    assert!(absent.iter().any(|rule| rule.starts_with("P08 ")), "{absent:?}");
    let shown = |line: &str| -> Vec<String> {
        let text = sandbox.durio(line).run().expect_exit(0).text();
        absent.iter().filter(|rule| text.contains(rule.as_str())).cloned().collect()
    };
    assert_eq!(shown("advise data --verbose"), [""; 0]);
    assert_eq!(shown("advise data --verbose --all"), absent);
}

#[test]
fn settings_decide_rules_of_databases() {
    let sandbox = Sandbox::new();
    let line = "advise data --database postgresql --rule P03 --setting effective_io_concurrency=";
    let with = |value: &str| sandbox.durio(&format!("{line}{value}")).run().expect_exit(0).text();
    assert!(with("1").contains("effective_io_concurrency to 16 (now 1)"), "{}", with("1"));
    assert!(with("32").starts_with("Good: nothing to change (1 rule met)."), "{}", with("32"));
    let config = sandbox.root().join("postgresql.conf");
    fs::write(&config, "fsync = off\n").unwrap();
    let line = "advise data --database postgresql --rule P08 --config postgresql.conf";
    sandbox.durio(line).run().expect_exit(0).expect_stdout("postgresql.conf:1");
}

#[test]
fn the_newest_run_of_the_storage_decides_rules_without_being_named() {
    let sandbox = Sandbox::new();
    let line =
        "advise data --database postgresql --rule P01 --setting commit_delay=0 --format json";
    let without = sandbox.durio(line).run().expect_exit(0).json();
    assert_eq!(without["advice"][0]["state"], "cannot_tell");
    assert_eq!(without["run"], serde_json::Value::Null);
    let check = "check data --quiet --duration 200ms --size 8MiB --workload commit --format json";
    sandbox.durio(check).run().expect_exit(0);
    let run = sandbox.the_run();
    let name = run.file_name().unwrap().to_str().unwrap();
    let found = sandbox.durio(line).run().expect_exit(0).json();
    let named = sandbox.durio(line).word("--run").word(&run).run().expect_exit(0).json();
    for with in [&found, &named] {
        let flush = &with["advice"][0]["read"][0];
        assert_eq!(flush["fact"], "run.flush_8k", "{with}");
        assert!(flush["place"].as_str().unwrap().ends_with(name));
    }
    let origin = found["origins"][0].as_str().unwrap();
    assert!(origin.starts_with(&format!("run {name}, ")) && origin.ends_with(" old"), "{origin}");
    // Another mount than the run's.
    let elsewhere = sandbox.durio(&line.replace(" data ", " /proc ")).run().expect_exit(0).json();
    assert_eq!(elsewhere["run"], serde_json::Value::Null, "{elsewhere}");
}

#[test]
fn lines_to_paste_are_written_as_new_files_and_never_over_others() {
    let sandbox = Sandbox::new();
    // With a file no server is asked, and the file sets nothing.
    fs::write(sandbox.root().join("empty.conf"), "").unwrap();
    let line = "advise data --database postgresql --config empty.conf \
                --setting effective_io_concurrency=1 --write new";
    sandbox.durio(line).run().expect_exit(0).expect_stderr("wrote new/postgresql.sql; run it as");
    let path = sandbox.root().join("new/postgresql.sql");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("-- Written by durio advise. To install: "), "{text}");
    for part in [
        "ALTER SYSTEM SET effective_io_concurrency = '16';\n",
        "ALTER SYSTEM SET fsync = 'on';\n",
        "SELECT pg_reload_conf();\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Only version 18 knows it.
    assert!(!text.contains("io_method ="), "{text}");
    sandbox.durio(line).run().expect_exit(2).expect_stderr("exists already");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let system = line.replace("--write new", "--write /etc/durio-test");
    sandbox.durio(&system).run().expect_exit(2).expect_stderr("directory of the system");
    assert!(!Path::new("/etc/durio-test").exists());
}

#[test]
fn a_rule_of_one_database_is_judged_for_it_and_one_of_several_names_the_option() {
    let sandbox = Sandbox::new();
    let line = "advise data --rule P03 --setting effective_io_concurrency=1";
    sandbox.durio(line).run().expect_exit(0).expect_stdout("effective_io_concurrency = '16'");
    let text = sandbox.durio("advise data --rule C09").run().expect_exit(0).text();
    assert!(text.contains("it needs --database postgresql or oracle"), "{text}");
}

#[test]
fn what_does_not_exist_is_refused_with_what_was_meant() {
    let sandbox = Sandbox::new();
    let rows = [
        ("advise data --rule scheduler-nvm", "did you mean 'scheduler-nvme'?"),
        ("advise data --database postgresq", "did you mean 'postgresql'?"),
        ("advise data --database postgresql --setting comit_delay=1", "'commit_delay'"),
        ("advise data --database postgresql --setting commit_delay=soon", "not a time"),
        ("advise data --setting x", "NAME=VALUE"),
        ("advise data --role disk", "log, data or scan"),
        ("advise data --prove B25", "it can prove"),
        ("advise data --prove W06 --value o_never", "none of"),
        ("advise data --pairs 3", "--prove"),
    ];
    for (line, expected) in rows {
        sandbox.durio(line).run().expect_exit(2).expect_stderr(expected);
    }
    sandbox.durio("advise nowhere").run().expect_exit(2).expect_stderr("nowhere");
    let line = "advise data --database mysql --config nowhere.cnf";
    sandbox.durio(line).run().expect_exit(3).expect_stderr("nowhere.cnf");
    sandbox.durio("advise data --run data").run().expect_exit(3);
}

#[test]
fn a_sync_method_is_proved_without_any_right() {
    let sandbox = Sandbox::new();
    let line = "advise data --prove W06 --pairs 1 --duration 300ms --size 4MiB";
    let mut ended = sandbox.durio(line).run().expect_exit(0);
    for part in ["B is ", "A = fsync", "B = fdatasync", "no interval", "nothing was changed"] {
        ended = ended.expect_stdout(part);
    }
}

/// A filesystem on a loop device of its own, whose settings are nobody else's.
pub(crate) struct Place {
    mount: Mount,
    pub(crate) setting: PathBuf,
}

impl Place {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        let image = sandbox.root().join("image");
        let mount = Mount::filesystem("ext4", &image, 64, &sandbox.root().join("place"));
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let point = mount.point().to_str().unwrap().to_owned();
        let line = mounts.lines().find(|line| line.contains(&point)).unwrap();
        let device = line.split(' ').next().unwrap().rsplit('/').next().unwrap();
        let setting = Path::new("/sys/class/block").join(device).join("queue/read_ahead_kb");
        fs::write(&setting, "64").unwrap();
        Self { mount, setting }
    }

    pub(crate) fn value(&self) -> String {
        fs::read_to_string(&self.setting).unwrap().trim().to_owned()
    }

    /// Waits until the setting has the rule's value, or the time is over.
    fn wait_until_switched(&self) {
        let begin = Instant::now();
        while self.value() != "4096" {
            assert!(begin.elapsed() < Duration::from_secs(30), "it was never switched");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

pub(crate) const PROVE: &str = "advise place --prove A01 --size 8MiB --pairs";

#[test]
fn a_proof_shows_before_and_after_and_what_is_restored() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox);
    let mut ended = sandbox.durio(&format!("{PROVE} 1 --verbose")).run().expect_exit(0);
    for part in ["B is ", "A = 64", "B = 4096", "no interval", "restored", "64, read back"] {
        ended = ended.expect_stdout(part);
    }
    assert_eq!(place.value(), "64");
    let line = format!("{PROVE} 1 --value 64");
    sandbox.durio(&line).run().expect_exit(3).expect_stderr("64 already");
    let line = format!("{PROVE} 1 --value many");
    sandbox.durio(&line).run().expect_exit(2).expect_stderr("not a number");
    assert_eq!(place.value(), "64");
}

#[test]
fn an_error_in_the_middle_restores() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox);
    // The second side's run finds no room: the first one fits.
    let running = sandbox.durio(&format!("{PROVE} 50")).start();
    place.wait_until_switched();
    let _ = fs::write(place.mount.point().join("full"), vec![1; 100 << 20]);
    let ended = running.wait();
    assert_eq!(ended.code(), 3, "{}", ended.stderr);
    assert_eq!(place.value(), "64");
    ended.expect_stderr("restored: 64");
}

#[test]
fn an_interrupt_restores_at_once() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::new(&sandbox);
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = sandbox.durio(&format!("{PROVE} 100")).start();
        place.wait_until_switched();
        running.signal(signal);
        running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
        assert_eq!(place.value(), "64");
    }
}

#[test]
fn after_a_kill_the_next_durio_restores_and_says_so() {
    if !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.may_leave_pointers();
    let place = Place::new(&sandbox);
    let mut running = sandbox.durio(&format!("{PROVE} 100")).start();
    place.wait_until_switched();
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code(), 137);
    let null = "run --quiet --engine null --ops 10";
    let ended = sandbox.durio(null).run().expect_exit(0);
    // Its last run, which nobody killed, may have been the one that brought it back.
    assert_eq!(place.value(), "64", "{}", ended.stderr);
    thread::sleep(Duration::from_millis(1500));
    sandbox.durio(null).run().expect_exit(0).expect_no_stderr();
    assert_eq!(place.value(), "64");
}

#[test]
fn without_the_right_nothing_is_switched() {
    if !has(&["root", "losetup", "mkfs.ext4", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let place = Place::new(&sandbox);
    let ended = sandbox.durio_as_nobody(&format!("{PROVE} 1")).run().expect_exit(3);
    ended.expect_stderr("cannot change").expect_stderr("run as root");
    assert_eq!(place.value(), "64");
}
