//! `durio why`: slow durable writes of a running program, and texts of traces.
//!
//! The program is durio itself, or dd, whose writes are durable one by one.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::capture::{can_trace, end, instances_of, writer};
use crate::replay::make_trace;
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};
use crate::watching::{address, get};

/// The kernel's number of fdatasync (syscall_64.tbl, asm-generic/unistd.h).
const FDATASYNC: u32 = if cfg!(target_arch = "x86_64") { 75 } else { 83 };

#[test]
fn what_cannot_be_watched_is_refused_with_what_to_do() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("garbage.trace"), b"\0\xff no trace\nat all\n").unwrap();
    fs::write(sandbox.root().join("empty.trace"), "").unwrap();
    for (line, code, said) in [
        ("why", 2, "--pid"),
        ("why --pid 1 --unit x", 2, "cannot be used with"),
        ("why --pid 0", 2, "0 is not in"),
        ("why --pid 1 --slower-than 0s", 2, "would call every write slow"),
        ("why --pid 1 --slower-than soon", 2, "soon"),
        ("why --pid 1 --worst 0", 2, "0 is not in 1..=1000"),
        ("why --pid 1 --worst 1001", 2, "1001 is not in 1..=1000"),
        ("why --pid 1 --worst 3 --slower-than 5ms", 2, "cannot be used with"),
        ("why --pid 1 --for 0s", 2, "watches nothing"),
        ("why --pid 1 --duration 0s", 2, "watches nothing"),
        ("why --pid 1 --save data", 2, "is not overwritten"),
        ("why --pid 1 --save none/windows", 2, "'none' is not a directory"),
        ("why --pid 1 --html data", 2, "is not overwritten"),
        ("why --pid 1 --format fio-json", 2, "not supported here"),
        ("why --unit a/b", 2, "invalid unit name"),
        ("why --path none", 3, "none"),
        ("why --trace none.trace", 3, "none.trace"),
        ("why --trace garbage.trace", 2, "'garbage.trace' is not a usable trace: no line is"),
        ("why --trace empty.trace", 2, "'empty.trace' is not a usable trace: no line is"),
        ("why --trace empty.trace --for 5s", 2, "--for"),
        ("why --trace empty.trace --save x", 2, "--save"),
        ("why --trace /dev/zero", 3, "it is a device"),
    ] {
        sandbox.durio(line).run().expect_exit(code).expect_stderr(said).expect_no_stdout();
    }
    assert!(!sandbox.root().join("windows").exists());
    if !can_trace() {
        return;
    }
    // Beyond the highest number that a kernel gives (PID_MAX_LIMIT).
    for (line, said) in [
        ("why --pid 4194305", "no process has the ID 4194305"),
        ("why --unit no-such-unit", "unit 'no-such-unit' is not running"),
        ("why --path data", "no process holds a file below"),
    ] {
        sandbox.durio(line).run().expect_exit(3).expect_stderr(said).expect_no_stdout();
    }
}

#[test]
fn who_may_not_trace_is_told_that_it_takes_root() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let ended = sandbox.durio_as_nobody("why --pid 1 --for 1s").run().expect_exit(3);
    ended.expect_stderr("needs root");
}

/// A trace of fdatasyncs by one thread, of these milliseconds each, a second apart, in which
/// another program has the processor.
fn kernel_trace(millis: &[u32]) -> String {
    let mut text = "# tracer: nop\n#\n".to_owned();
    for (second, &millis) in (100..).zip(millis) {
        let enter = format!("sys_enter: NR {FDATASYNC} (5, 0, 0, 0, 0, 0)");
        let away = "sched_switch: prev_comm=db prev_pid=815 prev_prio=120 prev_state=R ==> \
                    next_comm=gcc next_pid=900 next_prio=120";
        let back = "sched_switch: prev_comm=gcc prev_pid=900 prev_prio=120 prev_state=S ==> \
                    next_comm=db next_pid=815 next_prio=120";
        let exit = format!("sys_exit: NR {FDATASYNC} = 0");
        let end = millis * 1000;
        for (name, task, micros, event) in [
            ("db", 815, 0, enter.as_str()),
            ("db", 815, 2, away),
            ("gcc", 900, end - 2, back),
            ("db", 815, end, exit.as_str()),
        ] {
            writeln!(text, "{name:>16}-{task:<7} [001] ..... {second}.{micros:06}: {event}")
                .unwrap();
        }
    }
    text
}

#[test]
fn the_slow_calls_of_a_trace_of_the_kernel_are_explained_without_root() {
    let sandbox = Sandbox::new();
    let path = sandbox.root().join("kernel.trace");
    fs::write(&path, kernel_trace(&[1, 30, 200, 2, 50])).unwrap();
    for (words, slow, longest) in [
        ("", 5, 200_000_000),
        ("--worst 2", 2, 200_000_000),
        ("--slower-than 30ms", 3, 200_000_000),
        ("--slower-than 201ms", 0, 200_000_000),
    ] {
        let line = format!("why --trace kernel.trace --json {words}");
        let document = sandbox.durio(&line).run().expect_exit(0).json();
        assert_eq!(document["schema"], "durio-why-1");
        let watch = &document["watch"];
        assert_eq!((&watch["calls"], &watch["slow"]), (&5.into(), &slow.into()), "{line}");
        assert_eq!(watch["max_ns"], longest, "{line}");
        assert_eq!(watch["target"], "the trace kernel.trace");
        let calls = document["calls"].as_array().unwrap();
        assert_eq!(calls.len(), slow, "{line}");
        if let Some(first) = calls.first() {
            assert_eq!(first["latency_ns"], longest, "the slowest is first: {first}");
            assert_eq!((&first["call"], &first["thread"]), (&"fdatasync".into(), &815.into()));
            assert!(first.to_string().contains("gcc"), "{first}");
        }
    }
    sandbox.durio("why --trace kernel.trace --html page.html").run().expect_exit(0);
    assert!(fs::read_to_string(sandbox.root().join("page.html")).unwrap().contains("gcc"));
}

#[test]
fn a_watch_without_a_slow_call_says_so_and_ends_with_its_process() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "4s");
    let line = format!("why --pid {} --slower-than 1h --for 60s --json --save w", running.id());
    let watch = sandbox.durio(&line).start();
    running.wait();
    let ended = watch.wait_at_most(Duration::from_secs(30)).expect_exit(0);
    let ended = ended.expect_stderr("no call was slow");
    let document = ended.json();
    let watch = &document["watch"];
    assert!(watch["ended_early"].as_str().unwrap().contains("the watched process ended after"));
    assert!(watch["calls"].as_u64() > Some(0), "{watch}");
    assert_eq!((&watch["slow"], &watch["limit_ns"]), (&0.into(), &3_600_000_000_000_u64.into()));
    assert!(!sandbox.root().join("w").exists());
}

#[test]
fn an_interrupt_shows_what_was_seen_and_what_a_kill_leaves_the_next_watch_removes() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let running = writer(&sandbox, "60s");
    let line = format!("why --pid {} --for 60s --json", running.id());
    let ended_by = |signal| {
        let mut watch = sandbox.durio(&line).start();
        let process = watch.id();
        let begin = Instant::now();
        while instances_of(process).is_empty() && begin.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_secs(2));
        watch.signal(signal);
        (watch.wait(), process)
    };
    let (ended, process) = ended_by(Signal::INT);
    assert_eq!(instances_of(process), "", "after an interrupt");
    let document = ended.expect_exit(130).json();
    assert_eq!(document["watch"]["interrupted"], true);
    let (_, process) = ended_by(Signal::KILL);
    sandbox.durio(&line.replace("60s", "10ms")).run().expect_exit(0);
    assert_eq!(instances_of(process), "", "after a kill");
    end(running);
}

#[test]
fn within_a_pid_namespace_nothing_is_watched() {
    if !can_trace() {
        return;
    }
    let durio = env!("CARGO_BIN_EXE_durio");
    let sandbox = Sandbox::new();
    let line = "unshare --pid --fork --mount-proc";
    let said = crate::loops::sh(&format!(
        "cd {}; {line} {durio} why --pid 1 --for 1s 2>&1; echo $?",
        sandbox.root().display()
    ));
    assert!(said.contains("PID namespace (a container)") && said.ends_with('3'), "{said}");
}

#[test]
fn without_the_right_to_trace_why_is_refused_before_anything_is_measured() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    make_trace(&sandbox, 10);
    // The state folder is to be nobody's.
    let _ = fs::remove_dir_all(sandbox.state());
    let measuring = "--target . --rw write --sync fdatasync --ops 10 --why --out runs";
    fs::create_dir(sandbox.root().join("runs")).unwrap();
    for (name, mode) in [("runs", 0o777), ("t.trace", 0o644)] {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(sandbox.root().join(name), mode).unwrap();
    }
    for line in [
        "check . --quick --workload commit --why --out runs",
        &format!("run {measuring}"),
        "run profile:redis --target . --quick --why --out runs",
        "watch . --why",
        "replay t.trace . --why",
    ] {
        let place = sandbox.root().join("runs");
        let line = line.replace(" . ", &format!(" {} ", place.display()));
        let ended = sandbox.durio_as_nobody(&line).run().expect_exit(3);
        let ended = ended.expect_stderr("--why cannot record slow commits: no permission to trace");
        ended.expect_stderr("measure without --why").expect_no_stdout();
        assert!(entries(&place).is_empty(), "{line}");
    }
}

#[test]
fn a_check_explains_its_own_commits_and_its_folder_shows_them_again() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "check data --quick --workload commit --workload commit-etcd --why --json";
    let document = sandbox.durio(line).run().expect_exit(0).json();
    let why = &document["why"];
    let watch = &why["watch"];
    assert_eq!((&watch["target"], &watch["interrupted"]), (&"durio itself".into(), &false.into()));
    assert!(watch["calls"].as_u64() > Some(0), "{watch}");
    assert!(watch["rate_unrecorded"].is_null() && watch["cpu_seconds"].as_f64() > Some(0.0));
    let calls = why["calls"].as_array().unwrap();
    assert!((1..=20).contains(&calls.len()), "{why}");
    let data = sandbox.data().canonicalize().unwrap();
    for call in calls {
        // Neither the layout of the file nor a sync of the record is a commit.
        assert!(["fdatasync", "pwrite64"].contains(&call["call"].as_str().unwrap()), "{call}");
        // A descriptor that was closed before the look has no name.
        let path = call["path"].as_str().map(std::path::Path::new);
        assert!(path.is_none_or(|path| path.starts_with(&data)), "{call}");
        assert!(call["cause"].is_string() && !call["pieces"].as_array().unwrap().is_empty());
    }
    let folder = document["run_folder"].as_str().unwrap();
    let saved: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(format!("{folder}/why.json")).unwrap()).unwrap();
    assert_eq!(saved["schema"], "durio-why-1");
    assert_eq!(saved["calls"], why["calls"]);
    let again = sandbox.durio(&format!("report {folder} --json")).run().expect_exit(0).json();
    assert_eq!(again["why"], *why);
    let text = sandbox.durio(&format!("report {folder}")).run().expect_exit(0);
    text.expect_stdout("Slow commits").expect_stdout("include what recording cost");
    // It is optional.
    fs::write(format!("{folder}/why.json"), "{\"schema\":\"durio-why-2\"}").unwrap();
    let left_out = sandbox.durio(&format!("report {folder} --json")).run().expect_exit(0);
    let left_out = left_out.expect_stderr("durio: slow commits are left out: ").json();
    assert!(left_out["why"].is_null(), "{left_out}");
}

#[test]
fn a_replay_and_a_probe_explain_their_own_commits() {
    if !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    make_trace(&sandbox, 400);
    let replayed = sandbox.durio("replay t.trace data --quiet --json --why").run().json();
    let watch = &replayed["why"]["watch"];
    // The first ones may have begun before all threads were seen to run; a write counts if it waited.
    assert!((390..=1200).contains(&watch["calls"].as_u64().unwrap()), "{watch}");
    assert!(!replayed["why"]["calls"].as_array().unwrap().is_empty(), "{replayed}");
    let mut watcher = sandbox.durio("watch data --every 10s --listen 127.0.0.1:0 --why").start();
    let address = address(&watcher);
    let begin = Instant::now();
    let metrics = loop {
        let (_, metrics) = get(&address, "/metrics");
        if metrics.contains("durio_watch_last_success") {
            break metrics;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{metrics}");
        sleep(Duration::from_millis(100));
    };
    let (_, page) = get(&address, "/");
    watcher.signal(Signal::TERM);
    watcher.wait().expect_exit(0);
    assert!(metrics.contains("durio_slow_commit_seconds_total{location="), "{metrics}");
    assert!(page.contains("data: slow commits") && page.contains("Timeline of call 1"), "{page}");
}

/// Ends it, whatever the test finds.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_processor_that_a_program_of_higher_priority_takes_is_the_cause_and_its_window_is_kept() {
    if !can_trace() || !has(&["dd", "taskset", "chrt", "timeout"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let file = format!("of={}", sandbox.root().join("log").display());
    let program = Command::new("taskset")
        .args(["-c", "0", "dd", "if=/dev/zero", &file, "bs=512", "oflag=dsync"])
        .stderr(Stdio::null())
        .spawn();
    let program = Ended(program.unwrap());
    let id = program.0.id();
    // Where much else goes on, the ring may be too small for the time of a call: it is doubted then.
    let watched = |attempt: u32| {
        let words = format!("--for 5s --json --save windows{attempt}");
        let watch = sandbox.durio(&format!("why --pid {id} --slower-than 100ms {words}")).start();
        let begin = Instant::now();
        while instances_of(watch.id()).is_empty() && begin.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_millis(500));
        // For 400 ms, three times: the kernel leaves others 50 ms of each second.
        for _ in 0..3 {
            let hog = ["0.4", "chrt", "-f", "50", "taskset", "-c", "0", "sh", "-c"];
            let _ = Command::new("timeout").args(hog).arg("while :; do :; done").status();
            sleep(Duration::from_millis(300));
        }
        let document = watch.wait().expect_exit(0).json();
        let calls = document["calls"].as_array().unwrap().clone();
        let sure = calls.iter().find(|call| call.get("doubts").is_none())?.clone();
        Some((sure, calls, format!("windows{attempt}")))
    };
    let (sure, calls, windows) = (0..4).find_map(watched).expect("a call that is not doubted");
    drop(program);
    assert_eq!(sure["cause"], "processor-taken", "{sure}");
    assert!(sure["sentence"].as_str().unwrap().contains("sh ("), "{sure}");
    assert!(sure["path"].as_str().unwrap().ends_with("/log"), "{sure}");
    let windows = entries(&sandbox.root().join(windows));
    assert!(!windows.is_empty());
    // Explained elsewhere it is the same: the text has whole microseconds.
    let line = format!("why --json --trace {}", windows[0].display());
    let again = sandbox.durio(&line).run().expect_exit(0).json();
    let own = calls.iter().find(|call| {
        let ns = |call: &serde_json::Value| call["latency_ns"].as_u64().unwrap();
        ns(call).abs_diff(ns(&again["calls"][0])) <= 2000
    });
    assert_eq!(again["calls"][0]["cause"], own.unwrap()["cause"], "{again}");
}
