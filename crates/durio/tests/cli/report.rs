//! `durio report`: from the folder alone, wherever it is, and what is no run folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::requirements;
use crate::sandbox::{Sandbox, copy_folder};

fn made_run(sandbox: &Sandbox) -> PathBuf {
    let line = "check data --quiet --duration 100ms --size 4MiB --workload commit --workload scan";
    sandbox.durio(line).run().expect_exit(0);
    sandbox.the_run()
}

#[track_caller]
fn no_run_folder(sandbox: &Sandbox, path: &Path, words: &[&str]) {
    for format in ["text", "json"] {
        let ended = sandbox.durio("report --format").word(format).word(path).run();
        let mut ended = ended.expect_exit(3).expect_no_stdout();
        for word in words {
            ended = ended.expect_stderr(word);
        }
    }
}

fn without_folder(mut document: Value) -> Value {
    document["run_folder"] = Value::Null;
    document
}

#[test]
fn a_folder_that_was_moved_gives_the_same_findings() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let original: Value =
        serde_json::from_slice(&fs::read(run.join("findings.json")).unwrap()).unwrap();
    let moved = sandbox.root().join("moved elsewhere");
    fs::rename(&run, &moved).unwrap();
    // Neither what durio derived, nor the state folder, nor a home is needed.
    fs::remove_file(moved.join("findings.json")).unwrap();
    fs::remove_file(moved.join("report.html")).unwrap();
    fs::remove_dir_all(sandbox.state()).unwrap();
    let report = |format: &str| {
        let command = sandbox.durio("report --format").word(format).word(&moved);
        command.without_env("HOME").without_env("XDG_STATE_HOME").run().expect_exit(0)
    };
    let again = report("json").expect_no_stderr().json();
    assert_eq!(again["run_folder"], moved.to_str().unwrap());
    assert_eq!(without_folder(again), without_folder(original));
    report("text").expect_stdout("commits/s").expect_stdout("moved elsewhere");
    report("html").expect_stdout("</html>");
    report("csv").expect_stdout("commit");
    assert!(!sandbox.state().exists(), "report writes nothing");
}

#[test]
fn the_intervals_of_each_workload_are_lines_of_a_csv() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let file = sandbox.root().join("intervals.csv");
    let ended = sandbox.durio("report --intervals -o").word(&file).word(&run).run().expect_exit(0);
    ended.expect_no_stdout();
    let text = fs::read_to_string(&file).unwrap();
    let mut lines = text.lines();
    let columns = "run,location,step,workload,operation,round,repeat,stream,phase,from_ns,to_ns,\
                   rate_per_s,p50_ns,p99_ns,max_ns,cut_short";
    assert_eq!(lines.next(), Some(columns));
    let findings: Value =
        serde_json::from_slice(&fs::read(run.join("findings.json")).unwrap()).unwrap();
    let workloads = findings["workloads"].as_array().unwrap();
    let counts = workloads.iter().map(|one| one["intervals"].as_array().unwrap().len());
    assert_eq!(lines.clone().count(), counts.sum::<usize>());
    for workload in ["commit", "scan"] {
        assert!(lines.clone().any(|line| line.contains(&format!(",{workload},"))), "{text}");
    }
    let json = sandbox.durio("report --intervals --json").word(&run).run().expect_exit(0).json();
    assert_eq!(json["workloads"][0]["intervals"], workloads[0]["intervals"]);
    let refused = |line: &str, part: &str| {
        let ended = sandbox.durio(line).word(&run).run().expect_exit(2).expect_no_stdout();
        ended.expect_stderr(part);
    };
    refused(
        "report --intervals --format openmetrics",
        "expected text, json, html, markdown or csv",
    );
    refused("report --intervals last", "--intervals takes one run, not 2");
    refused("report --intervals --open", "--open");
}

#[test]
fn io_properties_are_those_of_a_run_that_measured_all_four() {
    let sandbox = Sandbox::new();
    let check = made_run(&sandbox);
    let refused = sandbox.durio("report --io-properties").word(&check).run().expect_exit(3);
    let refused = refused.expect_no_stdout().expect_stderr("random reads of at most 4 KiB at data");
    refused.expect_stderr("hint: durio run io-properties --target data=DIR measures all of them");
    let both = sandbox.durio("report --io-properties --json").word(&check).run();
    both.expect_exit(2).expect_stderr("--json");
    let line = "run io-properties --target data --quiet --scale-time 0.002 --scale-size 0.001";
    sandbox.durio(line).run().expect_exit(0);
    let text = sandbox.durio("report last --io-properties").run().expect_exit(0).text();
    let keys: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(": ")).map(|(key, _)| key).collect();
    let expected = [
        "# PROVISIONAL",
        "  - mountpoint",
        "    read_iops",
        "    read_bandwidth",
        "    write_iops",
        "    write_bandwidth",
    ];
    assert_eq!(keys, expected, "{text}");
    for line in text.lines().skip(4) {
        let (_, value) = line.split_once(": ").unwrap();
        assert!(value.parse::<u64>().unwrap() > 0, "{text}");
    }
}

#[test]
fn a_report_changes_nothing_in_the_folder() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let _watch = crate::watch::Watch::new(&run);
    for format in ["text", "json", "html", "markdown", "csv"] {
        sandbox.durio("report --format").word(format).word(&run).run().expect_exit(0);
    }
}

#[test]
fn a_folder_that_may_only_be_read_is_enough() {
    if !crate::requirements::has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let line = "run --quiet --engine null --ops 100 --out folders";
    sandbox.durio(line).run().expect_exit(0);
    let run = crate::sandbox::entries(&sandbox.root().join("folders")).pop().unwrap();
    sandbox.durio_as_nobody("report").word(&run).run().expect_exit(0).expect_stdout("randread");
}

#[test]
fn what_is_no_run_folder_is_said_to_be_none() {
    let sandbox = Sandbox::new();
    let empty = sandbox.root().join("empty");
    fs::create_dir(&empty).unwrap();
    no_run_folder(&sandbox, &empty, &["empty", "run.json"]);
    no_run_folder(&sandbox, &sandbox.data(), &["data", "run.json"]);
    no_run_folder(&sandbox, &sandbox.user_file(), &["user.db"]);
    no_run_folder(&sandbox, Path::new("/dev/null"), &["/dev/null"]);
}

#[test]
fn a_run_folder_that_does_not_exist_is_said_not_to_exist() {
    let sandbox = Sandbox::new();
    no_run_folder(&sandbox, Path::new("missing"), &["missing", "neither a path nor a run"]);
}

#[test]
fn a_newer_schema_asks_for_a_newer_durio() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let path = run.join("run.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["schema"] = json!(999);
    manifest.as_object_mut().unwrap().remove("durio_version");
    fs::write(&path, manifest.to_string()).unwrap();
    no_run_folder(&sandbox, &run, &["999", "newer durio"]);
}

#[test]
fn a_missing_or_broken_part_is_named() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    for (number, name) in ["plan.json", "environment.json", "run.json"].iter().enumerate() {
        let copy = sandbox.root().join(format!("copy {number}"));
        copy_folder(&run, &copy);
        for broken in ["", "{", "[]", "{\"schema\":\"one\"}", "\u{feff}{}", "nul\0l"] {
            fs::write(copy.join(name), broken).unwrap();
            no_run_folder(&sandbox, &copy, &[name]);
        }
        fs::remove_file(copy.join(name)).unwrap();
        no_run_folder(&sandbox, &copy, &[name]);
    }
    for name in ["events.jsonl", "histograms.hlog"] {
        let copy = sandbox.root().join(format!("without {name}"));
        copy_folder(&run, &copy);
        fs::remove_file(copy.join(name)).unwrap();
        no_run_folder(&sandbox, &copy, &[name]);
    }
}

/// The line with which etcd's documents read the 99th percentile of syncs out of fio's result.
#[test]
fn jq_reads_the_syncs_of_fio_json_as_etcds_documents_tell() {
    if !requirements::has(&["jq"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "run --quiet --engine null --rw write --sync fdatasync --ops 2000 \
                --null-latency 2ms,2ms --format fio-json";
    let ended = sandbox.durio(line).run().expect_exit(0);
    let path = sandbox.root().join("fio.json");
    std::fs::write(&path, &ended.stdout).unwrap();
    let mut jq = std::process::Command::new("jq");
    let output = jq.arg(r#".jobs[0].sync.lat_ns.percentile["99.000000"]"#).arg(&path);
    let output = output.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let nanos: u64 = printed.trim().parse().unwrap();
    // The middle of fio's bucket, which is 1.6 % wide.
    assert!(nanos.abs_diff(2_000_000) < 32_000, "{nanos}");
    std::fs::remove_file(path).unwrap();
}
