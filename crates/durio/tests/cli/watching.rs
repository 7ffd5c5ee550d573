//! `durio watch` and OpenMetrics: what Prometheus gets, and what is left when the watcher is killed.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::durio::Running;
use crate::proof_parts::wait_until;
use crate::requirements::{has, output_of, python_with, skip};
use crate::sandbox::{Sandbox, entries};

/// The address that a watcher says.
pub(crate) fn address(watcher: &Running) -> String {
    let begin = Instant::now();
    loop {
        let stderr = watcher.stderr();
        if let Some((_, rest)) = stderr.split_once("http://") {
            return rest.split('/').next().unwrap().to_owned();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{stderr}");
        sleep(Duration::from_millis(20));
    }
}

/// Head and body of an answer.
pub(crate) fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

const LIBRARY: &str = "prometheus-client==0.23.1";

/// What Prometheus' own library reads of it: name and value of each sample; none without it.
fn samples(sandbox: &Sandbox, text: &str) -> Option<Vec<(String, f64)>> {
    const SCRIPT: &str = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read
for family in read(open(sys.argv[1]).read()):
    for sample in family.samples: print(sample.name, sample.value)";
    if !has(&["python3", "python3-venv"]) {
        return None;
    }
    let python = match python_with(LIBRARY, "prometheus_client.openmetrics.parser") {
        Ok(python) => python,
        Err(reason) => {
            skip(&format!("no {LIBRARY}: {reason}"));
            return None;
        }
    };
    let file = sandbox.root().join("durio.prom");
    fs::write(&file, text).unwrap();
    let lines = output_of(&python, &["-c", SCRIPT, file.to_str().unwrap()]);
    let lines = lines.unwrap_or_else(|reason| panic!("{reason}: {text}"));
    let sample = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    Some(lines.lines().map(sample).collect())
}

fn value(samples: &[(String, f64)], name: &str) -> f64 {
    samples.iter().find(|it| it.0 == name).unwrap_or_else(|| panic!("{name}: {samples:?}")).1
}

/// Waits until a watcher has made so many probes, and gives what it then serves.
fn after_probes(watcher: &Running, address: &str, probes: u64) -> String {
    let begin = Instant::now();
    loop {
        let (_, text) = get(address, "/metrics");
        if text.contains(&format!("result=\"ok\"}} {probes}\n")) {
            return text;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{}\n{text}", watcher.stderr());
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_watcher_finds_its_probes_whatever_the_name_of_the_folder() {
    let sandbox = Sandbox::in_memory();
    let names: [&[u8]; 3] = [b"back\\slash", b"no-\xff-text", b"plain"];
    let folders = names.map(|name| sandbox.root().join(OsStr::from_bytes(name)));
    // As records have it.
    let saved = ["back\\\\slash", "no-\\xFF-text", "plain"];
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let probe_once = |keep: &str| {
        let line = format!("watch --every 600s --keep {keep} --listen 127.0.0.1:0");
        let watch = folders.iter().fold(sandbox.durio(&line), |watch, it| watch.word(it));
        let mut watcher = watch.start();
        let address = address(&watcher);
        let latest = |line: &&str| {
            line.starts_with("durio_watch_last_commit_latency_seconds{")
                && line.contains("quantile=\"0.5\"")
        };
        wait_until("each folder was probed once and its probe found", || {
            let (_, text) = get(&address, "/metrics");
            let probed = text.matches("result=\"ok\"} 1\n").count();
            (probed, text.lines().filter(latest).count()) == (3, 3)
        });
        wait_until("each probe is told", || watcher.stderr().matches(": p50 ").count() == 3);
        watcher.signal(Signal::INT);
        watcher.wait().expect_exit(0).stderr
    };
    let said = probe_once("5");
    for (folder, saved) in folders.iter().zip(saved) {
        assert_eq!(said.matches(&format!("/{saved}: p50 ")).count(), 1, "{said}");
        let history = || sandbox.durio("history --probes --json");
        let found = history().word(folder).run().expect_exit(0).json();
        assert_eq!(found["points"].as_array().unwrap().len(), 1, "{saved}");
        let target = found["target"].as_str().unwrap();
        assert!(target.ends_with(&format!("/{saved}")), "{target}");
        // As a list shows it, copied from there.
        assert_eq!(history().word(target).run().expect_exit(0).json(), found);
    }
    let probes = || entries(&sandbox.state().join("durio/watch"));
    let first = probes();
    probe_once("1");
    let second = probes();
    assert_eq!((first.len(), second.len()), (3, 3), "{second:?}");
    assert!(first.iter().all(|it| !second.contains(it)), "{first:?} {second:?}");
}

#[test]
fn prometheus_reads_a_watcher_and_a_killed_one_has_its_history() {
    let sandbox = Sandbox::new();
    let line = "watch data --every 10s --listen 127.0.0.1:0";
    let mut watcher = sandbox.durio(line).start();
    let address = self::address(&watcher);
    let text = after_probes(&watcher, &address, 1);
    if let Some(samples) = samples(&sandbox, &text) {
        assert_eq!(value(&samples, "durio_watch_commit_latency_seconds_count"), 200.0);
        assert_eq!(value(&samples, "durio_watch_interval_seconds"), 10.0);
        // 200 commits of 8 KiB, and the file of 128 KiB.
        let written = value(&samples, "durio_watch_written_bytes_total");
        assert_eq!(written, f64::from(200 * 8192 + (128 << 10)));
    }
    let (head, page) = get(&address, "/");
    assert!(head.contains("text/html") && page.contains("durio watch"), "{head}");
    assert!(page.contains("default-src 'none'") && !page.contains("src="), "the page asks nobody");
    assert!(get(&address, "/passwd").0.contains(" 404 "));
    let taken = format!("watch data --listen {address}");
    sandbox.durio(&taken).run().expect_exit(3).expect_stderr("cannot listen at");
    watcher.signal(Signal::KILL);
    drop(watcher);
    let rows = sandbox.durio("runs --probes --format json").run().expect_exit(0).json();
    assert!(!rows["runs"].as_array().unwrap().is_empty(), "{rows}");
    let listed = sandbox.durio("runs --format json").run().expect_exit(0).json();
    assert!(listed["runs"].as_array().unwrap().is_empty(), "probes are no runs: {listed}");
    let history = "history --probes --metric commit.p50 --format json";
    let history = sandbox.durio(history).run().expect_exit(0).json();
    assert!(!history["points"].as_array().unwrap().is_empty(), "{history}");
    // It may have been killed in a probe: the next run takes away what that one left.
    sandbox.durio("run --quiet --engine null --ops 10").run().expect_exit(0);
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

/// What comes back for a request that is sent as it is.
fn sent(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn no_request_ends_or_silences_a_watcher_and_foreign_pages_get_nothing() {
    let sandbox = Sandbox::new();
    let mut watcher = sandbox.durio("watch data --every 1h --listen 127.0.0.1:0").start();
    let address = self::address(&watcher);
    after_probes(&watcher, &address, 1);
    for length in ["99999999999999", "18446744073709551615"] {
        let head =
            format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
        assert!(sent(&address, &head).starts_with("HTTP/1.1 405 "));
    }
    // A web page whose name means this machine.
    let foreign = sent(&address, "GET /metrics HTTP/1.1\r\nHost: evil.example:9119\r\n\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421 ") && !foreign.contains("durio_"), "{foreign}");
    // More connections than it has descriptors left, and then again descriptors for them.
    let id = watcher.id();
    let open = || entries(Path::new(&format!("/proc/{id}/fd"))).len();
    let limit = |count: usize| {
        let limit = format!("--nofile={count}:");
        let set = Command::new("prlimit").args(["--pid", &id.to_string(), &limit]).status();
        assert!(set.unwrap().success());
    };
    limit(open() + 3);
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&address).unwrap()).collect();
    wait_until("it has no descriptor left", || watcher.stderr().contains("Too many open files"));
    limit(1024);
    assert!(get(&address, "/metrics").0.starts_with("HTTP/1.1 200 "), "{}", watcher.stderr());
    drop(silent);
    assert!(!watcher.stderr().contains("not loopback"), "{}", watcher.stderr());
    watcher.signal(Signal::TERM);
    watcher.wait().expect_exit(0);
    let mut open = sandbox.durio("watch data --every 1h --listen 0.0.0.0:0").start();
    wait_until("it says who can come", || open.stderr().contains("is not loopback: every machine"));
    open.signal(Signal::TERM);
    open.wait().expect_exit(0);
}

#[test]
fn old_probes_go_and_a_signal_ends_a_watcher_in_order() {
    let sandbox = Sandbox::new();
    let mut watcher = sandbox.durio("watch data --every 10s --keep 1 --listen 127.0.0.1:0").start();
    let address = self::address(&watcher);
    after_probes(&watcher, &address, 2);
    watcher.signal(Signal::TERM);
    let ended = watcher.wait().expect_exit(0);
    assert_eq!(ended.stderr.matches("p50").count(), 2, "{}", ended.stderr);
    let kept = entries(&sandbox.state().join("durio/watch"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn only_directories_are_watched_and_not_too_often() {
    let sandbox = Sandbox::new();
    for (line, code, word) in [
        ("watch data/user.db", 2, "not a directory"),
        ("watch missing", 2, "not a directory"),
        ("watch data --every 1s", 2, "10s or more"),
        ("watch data --listen 9119", 2, "127.0.0.1:9119"),
        ("watch data --keep 0", 2, "--keep"),
    ] {
        sandbox.durio(line).run().expect_exit(code).expect_stderr(word);
    }
    assert!(sandbox.differences().is_empty(), "{:?}", sandbox.differences());
}

#[test]
fn a_run_is_openmetrics_for_the_textfile_collector() {
    let sandbox = Sandbox::new();
    // Findings without a figure have no such form, and say so.
    let ended = sandbox.durio("doctor data --format openmetrics").run().expect_exit(2);
    ended.expect_no_stdout().expect_stderr("not supported");
    let line = "check data --quiet --duration 150ms --size 8MiB --format openmetrics";
    let text = sandbox.durio(line).run().expect_exit(0).text();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let verdicts = ["good", "caution", "unknown", "bad"]
        .map(|word| format!("durio_verdict_info{{verdict=\"{word}\"}} 1\n"));
    assert_eq!(verdicts.iter().filter(|line| text.contains(*line)).count(), 1, "{text}");
    if let Some(samples) = samples(&sandbox, &text) {
        assert!(value(&samples, "durio_latency_seconds") > 0.0);
        assert_eq!(value(&samples, "durio_run_info"), 1.0);
    }
}
