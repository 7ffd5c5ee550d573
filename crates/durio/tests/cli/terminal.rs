//! A terminal that is closed while durio runs in it, and signals that come several at a time.
//!
//! The terminal is a pseudo-terminal with an interactive shell, so that the signals of a hang-up come
//! from the kernel and from the shell, as they do when a window is closed.

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use crate::loops::sh;
use crate::requirements::{has, search_path};
use crate::sandbox::{Sandbox, entries};
use crate::seeded::Seeded;

const NEEDED: [&str; 2] = ["bash", "setsid"];
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell in a terminal of its own.
struct Terminal {
    controller: Option<OwnedFd>,
    shell: Child,
}

impl Terminal {
    fn open(sandbox: &Sandbox, kind: &str) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let controller = controller.unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let side = || {
            let no_controlling = i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).unwrap();
            let mut options = File::options();
            options.read(true).write(true).custom_flags(no_controlling);
            options.open(name.to_str().unwrap()).unwrap()
        };
        // Whoever runs the tests may ignore hang-ups (nohup, a service); a window's shell does not.
        let mut command = Command::new("env");
        command.args(["--default-signal", "setsid", "--ctty"]);
        command.args(["bash", "--norc", "--noprofile", "-i"]).env_clear();
        command.env("PATH", search_path()).env("TERM", kind).env("HOME", sandbox.root());
        command.env("XDG_STATE_HOME", sandbox.state()).current_dir(sandbox.root());
        let shell = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        Self { controller: Some(controller), shell }
    }

    /// Runs `durio LINE`; how it ends is written to the file `code`.
    fn durio(&self, line: &str) {
        // The handler keeps the shell that waits alive; a child begins without it.
        let durio = env!("CARGO_BIN_EXE_durio");
        let line = format!("sh -c \"trap : HUP INT; '{durio}' {line}; echo \\$? >code\"\n");
        rustix::io::write(self.controller.as_ref().unwrap(), line.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows a question, and answers it.
    fn answer(&self, question: &str, answer: &str) {
        let controller = self.controller.as_ref().unwrap();
        rustix::io::ioctl_fionbio(controller, true).unwrap();
        let seen = RefCell::new(String::new());
        wait_for(question, || {
            let mut bytes = [0; 4096];
            let count = rustix::io::read(controller, &mut bytes).unwrap_or(0);
            seen.borrow_mut().push_str(&String::from_utf8_lossy(&bytes[..count]));
            seen.borrow().contains(question)
        });
        rustix::io::write(controller, answer.as_bytes()).unwrap();
    }

    /// The window is closed.
    fn close(&mut self) {
        self.controller = None;
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.controller = None;
        let begin = Instant::now();
        while self.shell.try_wait().unwrap().is_none() {
            if begin.elapsed() > Duration::from_secs(10) {
                let _ = self.shell.kill();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits until it is so.
#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// How durio ended in the terminal.
#[track_caller]
fn exit_code(sandbox: &Sandbox) -> i32 {
    let file = sandbox.root().join("code");
    let code = || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'));
    wait_for("the end of durio", || code().is_some());
    code().unwrap().trim().parse().unwrap()
}

fn events(sandbox: &Sandbox) -> String {
    let run = sandbox.runs().first().map(|run| run.join("events.jsonl"));
    run.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
}

/// Closes the terminal so long after `begun`, and gives how durio ended.
fn hang_up(sandbox: &Sandbox, line: &str, begun: impl Fn() -> bool, after: Duration) -> i32 {
    let mut terminal = Terminal::open(sandbox, "xterm");
    terminal.durio(line);
    wait_for("durio to begin", begun);
    thread::sleep(after);
    terminal.close();
    exit_code(sandbox)
}

#[test]
fn a_terminal_that_is_closed_ends_a_run_in_order_and_leaves_nothing() {
    if !has(&NEEDED) {
        return;
    }
    let mut seeded = Seeded::new();
    for moment in 0..20 {
        let sandbox = Sandbox::new();
        let line = "run --rw randrw --duration 20s --size 8MiB --target data/new --create";
        let after = Duration::from_millis(seeded.below(400) as u64);
        let code = hang_up(&sandbox, line, || !events(&sandbox).is_empty(), after);
        assert_eq!(code, 130, "moment {moment}, {after:?}");
        assert!(sandbox.differences().is_empty(), "{after:?}: {:?}", sandbox.differences());
        let events = events(&sandbox);
        assert!(events.contains(r#""outcome":"interrupted""#), "{after:?}: {events}");
        assert!(sandbox.the_run().join("report.html").exists());
    }
}

fn bench_spec(sandbox: &Sandbox) -> PathBuf {
    let files = sandbox.root().join("files");
    fs::create_dir_all(&files).unwrap();
    let text = format!(
        r#"
schema = 1
name = "small"
self_cost = false
[target]
size = "4MiB"
[[stack]]
name = "only"
layers = [
    {{ loop = {{ size = "32MiB", directory = "{files}", measured = false }} }},
    {{ ext4 = {{}} }},
]
[defaults]
duration = "20s"
[[step]]
name = "write"
reads = "0%"
"#,
        files = files.display()
    );
    let path = sandbox.root().join("small.toml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_terminal_that_is_closed_takes_a_bench_down_at_any_moment() {
    if !has(&NEEDED) || !has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let mut seeded = Seeded::new();
    for moment in 0..6 {
        let sandbox = Sandbox::new();
        let line = format!("stack bench {}", bench_spec(&sandbox).display());
        let files = sandbox.root().join("files");
        // From the first thing that is built on; later ones while it measures.
        let after =
            Duration::from_millis(seeded.below(if moment % 2 == 0 { 60 } else { 700 }) as u64);
        let code = hang_up(&sandbox, &line, || !entries(&files).is_empty(), after);
        assert_eq!(code, 130, "{after:?}");
        assert_eq!(entries(&files), [""; 0].map(PathBuf::from), "{after:?}");
        assert!(!sh("losetup -a").contains(&sandbox.root().display().to_string()), "{after:?}");
        assert_eq!(entries(&sandbox.state().join("durio/stacks")), [""; 0].map(PathBuf::from));
        let manifest = fs::read(sandbox.the_run().join("bench.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(manifest["outcome"], "interrupted", "{after:?}");
        let mount = manifest["stacks"][0]["layers"][1]["mount"].as_str().map(Path::new);
        assert!(mount.is_none_or(|mount| !mount.exists()), "{mount:?}");
    }
}

/// Programs that a bench runs while it is undone must not die by a signal to durio's group.
#[test]
fn hang_ups_that_keep_coming_do_not_reach_the_programs_that_undo_a_bench() {
    if !has(&["root", "losetup", "mkfs.ext4", "setsid"]) {
        return;
    }
    for _ in 0..3 {
        let sandbox = Sandbox::new();
        let line = format!("stack bench {}", bench_spec(&sandbox).display());
        let mut running =
            sandbox.durio(&line).within(["setsid", "env", "--default-signal=HUP"]).start();
        let files = sandbox.root().join("files");
        wait_for("durio to begin", || !entries(&files).is_empty());
        let group = Pid::from_raw(running.id().try_into().unwrap()).unwrap();
        let begin = Instant::now();
        while running.is_alive() && begin.elapsed() < PATIENCE {
            let _ = kill_process_group(group, Signal::HUP);
            thread::sleep(Duration::from_micros(200));
        }
        running.wait_at_most(PATIENCE).expect_exit(130);
        assert_eq!(entries(&files), [""; 0].map(PathBuf::from));
        assert!(!sh("losetup -a").contains(&sandbox.root().display().to_string()));
    }
}

#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    if !has(&["nohup"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --duration 700h";
    let mut running = sandbox.durio(line).within(["nohup"]).start();
    wait_for("durio to begin", || events(&sandbox).contains("step_started"));
    running.signal(Signal::HUP);
    thread::sleep(Duration::from_millis(300));
    assert!(running.is_alive(), "{}", running.stderr());
    running.signal(Signal::TERM);
    running.wait_at_most(PATIENCE).expect_exit(130);
}

#[test]
fn only_a_yes_removes_runs_and_an_empty_answer_is_a_no() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    for operations in [10, 20, 30] {
        let line = format!("run --quiet --engine null --ops {operations}");
        sandbox.durio(&line).run().expect_exit(0);
    }
    for (answer, left) in [
        ("\n", 3),
        ("n\n", 3),
        ("yes and no\n", 3),
        ("y\n", 2),
        (" \n", 2),
        // The end of the input.
        ("\u{4}", 2),
        ("Y\n", 1),
        ("yes\n", 0),
    ] {
        let terminal = Terminal::open(&sandbox, "xterm");
        terminal.durio("runs rm last");
        terminal.answer("continue? [y/N]", answer);
        assert_eq!(exit_code(&sandbox), 0, "{answer:?}");
        assert_eq!(sandbox.runs().len(), left, "{answer:?}");
        fs::remove_file(sandbox.root().join("code")).unwrap();
    }
}

#[test]
fn a_long_run_that_is_not_agreed_to_does_nothing_and_is_wrong_use() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    for answer in ["\n", "no\n", "\u{4}"] {
        let terminal = Terminal::open(&sandbox, "xterm");
        terminal.durio("run --quiet --target data --size 4MiB --duration 1h");
        terminal.answer("continue? [y/N]", answer);
        assert_eq!(exit_code(&sandbox), 2, "{answer:?}");
        fs::remove_file(sandbox.root().join("code")).unwrap();
    }
    assert!(sandbox.runs().is_empty() && sandbox.differences().is_empty());
}

/// A fio that does not end when it is told to, so that an orderly end takes 10 s.
fn slow_to_end(sandbox: &Sandbox) -> crate::durio::Running {
    let script = "#!/bin/sh\ncase $1 in --version) echo fio-3.33; exit;; esac\n\
                  trap '' INT\ntouch began\nexec sleep 8\n";
    let folder = sandbox.program("fio", script);
    let line = "run --quiet --engine fio:psync --rw randread --target data/user.db --duration 9s";
    let path = format!("{}:{}", folder.display(), search_path());
    let durio = sandbox.durio(line).within(["env", "--default-signal=HUP"]);
    let running = durio.env("PATH", path).start();
    wait_for("fio", || sandbox.root().join("began").exists());
    running
}

#[test]
fn signals_of_one_wish_do_not_hurry_and_a_later_one_does() {
    let mut sandbox = Sandbox::new();
    sandbox.may_leave_pointers();
    let mut running = slow_to_end(&sandbox);
    // As timeout(1) signals, a wrapper hands on, and a terminal that is closed besides.
    for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::HUP, Signal::INT, Signal::TERM] {
        running.signal(signal);
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(1500));
    for _ in 0..3 {
        running.signal(Signal::HUP);
        thread::sleep(Duration::from_millis(100));
    }
    assert!(running.is_alive(), "{}", running.stderr());
    let asked_again = Instant::now();
    running.signal(Signal::INT);
    running.wait_at_most(PATIENCE).expect_exit(130);
    assert!(asked_again.elapsed() < Duration::from_secs(3), "{:?}", asked_again.elapsed());
}

#[test]
fn a_run_that_timeout_ends_leaves_nothing() {
    if !has(&["timeout"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "run --quiet --rw randrw --duration 20s --size 8MiB --target data/new --create";
    // Its time begins before durio's: not too short for a busy machine.
    sandbox.durio(line).within(["timeout", "2"]).run().expect_exit(124);
    assert!(sandbox.differences().is_empty());
    assert!(events(&sandbox).contains(r#""outcome":"interrupted""#), "{}", events(&sandbox));
}
