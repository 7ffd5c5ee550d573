//! `durio run --engine fio`: the installed fio does the work, and its figures are shown as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::requirements::{has, search_path};
use crate::sandbox::Sandbox;

const RUN: &str = "run --quiet --format json --target data --size 4MiB";

/// fio that keeps a copy of its result in `kept`.
fn keeping_fio(sandbox: &Sandbox, kept: &Path) -> PathBuf {
    let fio = std::env::split_paths(&search_path())
        .map(|folder| folder.join("fio"))
        .find(|path| path.is_file())
        .unwrap();
    let script = format!(
        "#!/bin/sh\n'{}' \"$@\"\ncode=$?\nfor word; do case \"$word\" in --output=*) cp \
         \"${{word#--output=}}\" '{}';; esac; done\nexit $code\n",
        fio.display(),
        kept.display()
    );
    sandbox.program("fio", &script)
}

/// The findings of durio and the document of the fio that it ran.
fn both(sandbox: &Sandbox, line: &str) -> (Value, Value) {
    let kept = sandbox.root().join("kept.json");
    let folder = keeping_fio(sandbox, &kept);
    let path = format!("{}:{}", folder.display(), search_path());
    let durio = sandbox.durio(&format!("{RUN} {line}")).env("PATH", path);
    let findings = durio.run().expect_exit(0).json();
    let text = fs::read_to_string(kept).unwrap();
    (findings, serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap())
}

#[track_caller]
fn same_percentiles(operation: &Value, block: &Value) {
    assert_eq!(operation["service"]["count"], block["N"]);
    assert_eq!(operation["service"]["max_ns"], block["max"]);
    let mut compared = 0;
    for (name, percent) in
        [("p50_ns", "50.000000"), ("p90_ns", "90.000000"), ("p99_ns", "99.000000")]
    {
        if operation["service"][name].is_u64() {
            assert_eq!(operation["service"][name], block["percentile"][percent], "{name}");
            compared += 1;
        }
    }
    assert!(compared >= 2, "{operation}");
}

#[test]
fn percentiles_are_fio_s_own() {
    if !has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "--engine fio:psync --rw randread --bs 4k --ops 500";
    let (findings, fio) = both(&sandbox, line);
    let load = &findings["workloads"][0];
    assert_eq!(load["effective"]["engine"], "fio");
    assert_eq!(load["operations"][0]["service"]["count"], 500);
    same_percentiles(&load["operations"][0], &fio["jobs"][0]["read"]["lat_ns"]);
    let again = sandbox.durio("report --format json").word(sandbox.the_run()).run().json();
    assert_eq!(again["workloads"], findings["workloads"], "from the record alone");
}

#[test]
fn a_log_has_its_writes_and_its_syncs() {
    if !has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "--engine fio --rw write --bs 8k --sync fdatasync --ops 100";
    let (findings, fio) = both(&sandbox, line);
    let operations = findings["workloads"][0]["operations"].as_array().unwrap();
    let of = |name: &str| operations.iter().find(|it| it["operation"] == name).unwrap();
    assert_eq!(findings["workloads"][0]["headline"], "write");
    assert_eq!(of("write")["service"]["count"], 100);
    same_percentiles(of("sync"), &fio["jobs"][0]["sync"]["lat_ns"]);
}

#[test]
fn several_jobs_in_flight_are_one_load() {
    if !has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "--engine fio:libaio --rw randrw --mix 70 --depth 4 --jobs 3 --duration 300ms";
    let (findings, fio) = both(&sandbox, line);
    let jobs = fio["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 3);
    let sum: u64 = jobs.iter().map(|job| job["read"]["total_ios"].as_u64().unwrap()).sum();
    let operations = findings["workloads"][0]["operations"].as_array().unwrap();
    let read = operations.iter().find(|it| it["operation"] == "read").unwrap();
    assert_eq!(read["service"]["count"], sum);
    assert!(read["submit"]["count"].is_u64(), "{read}");
}

#[test]
fn what_fio_has_not_is_refused() {
    if !has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for (line, part) in [
        ("--engine fio --rw write --sync rwf_dsync --ops 10", "rwf_dsync"),
        ("--engine fio --rw randrw --mix 99.5 --duration 10ms", "995 thousandths"),
        ("--engine fio:psync --rw randread --depth 4 --ops 10", "its depth is 1"),
    ] {
        sandbox.durio(&format!("{RUN} {line}")).run().expect_exit(3).expect_stderr(part);
    }
    let ended = sandbox.durio(&format!("{RUN} --engine fio:rbd")).run().expect_exit(2);
    ended.expect_stderr("psync");
}

#[test]
fn without_fio_or_with_an_old_one_it_cannot_be_measured() {
    let sandbox = Sandbox::new();
    let line = format!("{RUN} --engine fio --ops 10");
    let ended = sandbox.durio(&line).within(["PATH=/nowhere"]).run().expect_exit(3);
    ended.expect_stderr("fio is not installed");
    let old = sandbox.program("fio", "#!/bin/sh\necho fio-2.2.10\n");
    let path = format!("PATH={}", old.display());
    let ended = sandbox.durio(&line).within([path]).run().expect_exit(3);
    ended.expect_stderr("fio-2.2.10").expect_stderr("or later is needed");
}

#[test]
fn an_interrupt_ends_fio_and_leaves_a_partial_record() {
    if !has(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = format!("{RUN} --engine fio --rw randread --duration 60s");
    let mut running = sandbox.durio(&line).start();
    let journal = || fs::read_to_string(sandbox.the_run().join("events.jsonl")).unwrap_or_default();
    while sandbox.runs().is_empty() || !journal().contains("step_started") {
        assert!(running.is_alive());
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    let ended = running.wait_at_most(Duration::from_secs(60)).expect_exit(130);
    assert_eq!(ended.json()["workloads"][0]["complete"], false);
}
