//! `durio run --gate FD`: steps that start when the other end of a socket orders it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use durio_block::{Clock as _, MonotonicClock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::durio::{Ended, Running};
use crate::resume;
use crate::sandbox::Sandbox;

const JOB: &str =
    "run --quiet --rw randread --size 4MiB --no-self-cost --format json --target data";

const MILLI: u64 = 1_000_000;

const PATIENCE: Duration = Duration::from_secs(60);

/// The other end of a gate.
struct Coordinator {
    lines: BufReader<UnixStream>,
}

/// Starts durio with a gate. The child inherits the descriptor under the number that it has here.
fn gated(sandbox: &Sandbox, line: &str) -> (Running, Coordinator) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
    let running = sandbox.durio(&format!("{line} --gate {}", theirs.as_raw_fd())).start();
    (running, Coordinator { lines: BufReader::new(ours) })
}

impl Coordinator {
    #[track_caller]
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: '{line}'"))
    }

    /// The step that waits.
    #[track_caller]
    fn ready(&mut self) -> u64 {
        let message = self.next();
        message["ready"]["step"].as_u64().unwrap_or_else(|| panic!("{message}"))
    }

    fn send(&mut self, line: &str) {
        // At once: after a line that it refuses, durio may not read the next byte.
        self.lines.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn order(&mut self, at: u64, others: &str) {
        self.send(&format!(
            r#"{{"start":{{"at_ns":{at},"offset_ns":-40,"bound_ns":900{others}}}}}"#
        ));
    }
}

fn now() -> u64 {
    MonotonicClock.now().0
}

fn ended(step: u64, outcome: &str) -> Value {
    json!({"ended": {"step": step, "outcome": outcome}})
}

/// The actual start, on CLOCK_MONOTONIC.
fn started(document: &Value, workload: usize) -> u64 {
    let gated = &document["workloads"][workload]["gated"];
    let number = |key: &str| gated[key].as_i64().unwrap_or_else(|| panic!("{key} in {gated}"));
    (number("ordered_at_ns") + number("lateness_ns")).cast_unsigned()
}

/// The state and the reason of the only run, which the gate has ended.
fn expect_interrupted(sandbox: &Sandbox, ended: Ended, reason: &str) {
    let ended = ended.expect_exit(130).expect_stderr(reason);
    assert!(!ended.stderr.contains("hint:"), "{}", ended.stderr);
    let run = sandbox.the_run();
    let document = sandbox.durio("report --format json").word(&run).run().expect_exit(0).json();
    assert_eq!(document["state"], "interrupted");
    let errors = document["errors"].as_array().unwrap();
    assert!(errors.iter().any(|it| it.as_str().unwrap().contains(reason)), "{errors:?}");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn a_step_waits_for_its_order_and_starts_at_its_time() {
    let sandbox = Sandbox::new();
    let (running, mut gate) = gated(&sandbox, &format!("{JOB} --duration 500ms --ramp 100ms"));
    let expected = json!({"ready": {"step": 0, "section": 0, "round": 0, "workload": "randread",
                                    "target": "file", "seconds": 0.6}});
    assert_eq!(gate.next(), expected);
    let at = now() + 200 * MILLI;
    gate.order(at, "");
    assert_eq!(gate.next(), ended(0, "complete"));
    let document = running.wait().expect_exit(0).json();
    let found = &document["workloads"][0]["gated"];
    assert_eq!((&found["ordered_at_ns"], &found["offset_ns"]), (&json!(at), &json!(-40)));
    assert_eq!(found["bound_ns"], 900);
    assert!(started(&document, 0) >= at, "{found}");
    let verbose = sandbox.durio("report --verbose").word(sandbox.the_run()).run().expect_exit(0);
    verbose.expect_stdout("ordered start");
    let plain = sandbox.durio("report").word(sandbox.the_run()).run().expect_exit(0).text();
    assert!(!plain.contains("ordered start"), "{plain}");
}

#[test]
fn a_start_whose_time_is_past_is_made_at_once_and_is_skewed() {
    let sandbox = Sandbox::new();
    let (running, mut gate) = gated(&sandbox, &format!("{JOB} --duration 200ms"));
    assert_eq!(gate.ready(), 0);
    gate.order(now() - 30 * MILLI, "");
    let document = running.wait().expect_exit(0).json();
    let lateness = document["workloads"][0]["gated"]["lateness_ns"].as_i64().unwrap();
    assert!(lateness >= 30 * MILLI.cast_signed(), "{lateness}");
    let warnings = document["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|it| it["code"] == "skewed"), "{warnings:?}");
}

#[test]
fn two_processes_start_at_the_same_time() {
    let sandboxes = [Sandbox::new(), Sandbox::new()];
    let mut started_together =
        sandboxes.each_ref().map(|sandbox| gated(sandbox, &format!("{JOB} --duration 300ms")));
    for (_, gate) in &mut started_together {
        assert_eq!(gate.ready(), 0);
    }
    let at = now() + 300 * MILLI;
    for (_, gate) in &mut started_together {
        gate.order(at, "");
    }
    let [first, second] = started_together.map(|(running, mut gate)| {
        assert_eq!(gate.next(), ended(0, "complete"));
        started(&running.wait().expect_exit(0).json(), 0)
    });
    assert!(first >= at && second >= at && first.abs_diff(second) < 50 * MILLI, "{first} {second}");
}

/// Steps 3, 4 and 5 are measured, for 0.7 s each; those before prepare.
#[test]
fn steps_start_by_a_timetable_without_further_messages() {
    let sandbox = resume::sandbox();
    let (running, mut gate) = gated(&sandbox, resume::LINE);
    assert_eq!(gate.ready(), 3);
    let at = [100, 1_500, 3_000].map(|millis| now() + millis * MILLI);
    let others =
        format!(r#","timetable":[{{"step":4,"at_ns":{}}},{{"step":5,"at_ns":{}}}]"#, at[1], at[2]);
    gate.order(at[0], &others);
    for step in [3, 4, 5] {
        assert_eq!(gate.next(), ended(step, "complete"));
    }
    let document = running.wait().expect_exit(0).json();
    for (place, at) in at.into_iter().enumerate() {
        assert!(started(&document, place) >= at, "{place}");
        assert_eq!(document["workloads"][place]["gated"]["ordered_at_ns"], at);
    }
}

#[test]
#[ignore = "slow"]
fn free_steps_start_by_themselves() {
    for free in [r#","free":true"#, r#","free":"section""#] {
        let sandbox = resume::sandbox();
        let (running, mut gate) = gated(&sandbox, resume::LINE);
        assert_eq!(gate.ready(), 3);
        gate.order(now() + 50 * MILLI, free);
        for step in [3, 4, 5] {
            assert_eq!(gate.next(), ended(step, "complete"), "{free}");
        }
        let document = running.wait().expect_exit(0).json();
        let is_gated = |place: usize| document["workloads"][place]["gated"].is_object();
        assert_eq!([0, 1, 2].map(is_gated), [true, false, false], "{free}");
    }
}

#[test]
fn every_step_waits_where_none_is_free() {
    let sandbox = resume::sandbox();
    let (running, mut gate) = gated(&sandbox, resume::LINE);
    for step in [3, 4, 5] {
        assert_eq!(gate.ready(), step);
        gate.order(now() + 20 * MILLI, r#","free":false"#);
        assert_eq!(gate.next(), ended(step, "complete"));
    }
    running.wait().expect_exit(0);
}

#[test]
fn a_hang_up_in_the_middle_of_a_step_ends_the_run_and_leaves_no_file() {
    let sandbox = Sandbox::new();
    let line = "run --quiet --rw randrw --duration 60s --interval 50ms --size 4MiB --no-self-cost \
                --target data/new --create";
    let (running, mut gate) = gated(&sandbox, line);
    assert_eq!(gate.ready(), 0);
    let at = now() + 20 * MILLI;
    gate.order(at, "");
    thread::sleep(Duration::from_millis(600));
    drop(gate);
    let begin = Instant::now();
    let ended = running.wait_at_most(PATIENCE).expect_stdout("INTERRUPTED");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    expect_interrupted(&sandbox, ended, "the gate was closed");
    assert!(!sandbox.data().join("new").exists());
    let events = fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap();
    assert!(events.contains(r#""event":"step_gated""#), "{events}");
}

#[test]
fn a_signal_ends_the_wait_for_an_order_and_blames_no_gate() {
    let sandbox = Sandbox::new();
    let (mut running, mut gate) = gated(&sandbox, &format!("{JOB} --duration 60s"));
    assert_eq!(gate.ready(), 0);
    running.signal(Signal::INT);
    assert_eq!(gate.next(), ended(0, "interrupted"));
    let ended = running.wait_at_most(PATIENCE).expect_exit(130);
    assert!(!ended.stderr.contains("gate"), "{}", ended.stderr);
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn a_hang_up_or_an_abort_before_the_first_step_starts_none() {
    let abort = r#"{"abort":"a host is missing"}"#;
    for (line, reason) in [(None, "the gate was closed"), (Some(abort), "a host is missing")] {
        let sandbox = Sandbox::new();
        let (running, mut gate) = gated(&sandbox, &format!("{JOB} --duration 60s"));
        assert_eq!(gate.ready(), 0);
        match line {
            Some(line) => {
                gate.send(line);
                assert_eq!(gate.next(), ended(0, "interrupted"));
            }
            None => drop(gate),
        }
        let ended = running.wait_at_most(PATIENCE).expect_no_stdout();
        expect_interrupted(&sandbox, ended, reason);
        let events = fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap();
        assert!(!events.contains("step_started"), "{events}");
    }
}

#[test]
fn a_line_outside_the_protocol_ends_the_run_with_the_reason() {
    let order = |at: u64, rest: &str| {
        format!(r#"{{"start":{{"at_ns":{at},"offset_ns":0,"bound_ns":0{rest}}}}}"#)
    };
    let day = 86_400_000 * MILLI;
    let twice = format!("{0}\n{0}\n{0}", order(now(), ""));
    let long = format!(r#"{{"abort":"{}"}}"#, "x".repeat(64 << 10));
    for (line, reason) in [
        ("start now".to_owned(), "the gate sent an invalid line"),
        (r#"{"begin":{"at_ns":1}}"#.to_owned(), "unknown variant `begin`"),
        (r#"{"start":{"at_ns":1}}"#.to_owned(), "missing field `offset_ns`"),
        (order(1, r#","hurry":true"#), "unknown field `hurry`"),
        (order(1, r#","free":"always""#), r#"free is true, false or "section""#),
        (order(now() + 2 * day, ""), "more than 24 h ahead"),
        (long, "more than 64 KiB"),
        (twice, "several starts at once"),
    ] {
        let sandbox = Sandbox::new();
        let (running, mut gate) = gated(&sandbox, &format!("{JOB} --duration 60s"));
        assert_eq!(gate.ready(), 0);
        gate.send(&line);
        expect_interrupted(&sandbox, running.wait_at_most(PATIENCE), reason);
    }
}

#[test]
fn a_descriptor_of_anything_but_a_connected_socket_is_wrong_use() {
    let sandbox = Sandbox::new();
    let file = fs::File::open(sandbox.root()).unwrap();
    fcntl_setfd(&file, FdFlags::empty()).unwrap();
    for number in [file.as_raw_fd(), 1_000_000] {
        let ended = sandbox.durio(&format!("{JOB} --gate {number}")).run().expect_exit(2);
        let what = format!("--gate {number} is not a connected Unix stream socket");
        ended.expect_no_stdout().expect_stderr(&what);
    }
    sandbox.durio(&format!("{JOB} --gate 2")).run().expect_exit(2).expect_stderr("--gate");
    assert!(sandbox.runs().is_empty() && sandbox.differences().is_empty());
}
