//! `durio audit` of durio's runs and of fio's results.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::durio::Ended;
use crate::sandbox::Sandbox;

/// A run of five minutes on the virtual clock.
fn null_run(sandbox: &Sandbox) -> std::path::PathBuf {
    let line = "run --quiet --engine null --rw randread --duration 300s --null-latency 4ms,5ms";
    sandbox.durio(line).run().expect_exit(0);
    sandbox.the_run()
}

fn audit(sandbox: &Sandbox, path: &Path) -> Ended {
    sandbox.durio("audit").word(path).run()
}

/// The run's findings with a change.
fn changed(run: &Path, name: &str, change: impl FnOnce(&mut Value)) -> std::path::PathBuf {
    let mut findings: Value =
        serde_json::from_slice(&fs::read(run.join("findings.json")).unwrap()).unwrap();
    change(&mut findings);
    let path = run.join(name);
    fs::write(&path, serde_json::to_vec_pretty(&findings).unwrap()).unwrap();
    path
}

#[test]
fn a_sound_run_is_clean_as_folder_as_findings_and_in_fios_form() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox);
    audit(&sandbox, &run).expect_exit(0).expect_no_stderr().expect_stdout("clean: no finding in 1");
    let findings = audit(&sandbox, &run.join("findings.json")).expect_exit(0);
    findings.expect_stdout("clean: no finding in 1");
    let fio = sandbox.durio("report --format fio-json").word(&run).run().expect_exit(0);
    let path = sandbox.root().join("as-fio.json");
    fs::write(&path, &fio.stdout).unwrap();
    audit(&sandbox, &path).expect_exit(0).expect_stdout("clean: no finding in 1");
    fs::remove_file(path).unwrap();
}

#[test]
fn figures_that_cannot_be_are_told_with_their_step() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox);
    let planted = changed(&run, "planted.json", |findings| {
        let service = &mut findings["workloads"][0]["operations"][0]["service"];
        service["mean_ns"] = (service["mean_ns"].as_f64().unwrap() * 2.0).into();
        service["max_ns"] = (service["max_ns"].as_u64().unwrap() * 2).into();
    });
    let ended = audit(&sandbox, &planted).expect_exit(1);
    ended.expect_stdout("in-flight-impossible").expect_stdout("randread");
    let json = sandbox.durio("audit --format json").word(&planted).run().expect_exit(1).json();
    assert_eq!(json["schema"], "durio-audit-1");
    assert!(json["findings"][0]["line"].as_str().unwrap().contains("randread"), "{json}");
}

/// One entry: 100 s of reads at depth 1, each of `latency_us`.
fn fio(latency_us: u32) -> String {
    format!(
        r#"fio: this is a message
{{ "fio version" : "fio-3.39", "jobs" : [
  {{ "jobname" : "reads", "job options" : {{ "name" : "reads", "rw" : "randread", "bs" : "4k",
      "direct" : "1", "runtime" : "400" }},
    "read" : {{ "io_bytes" : 16384000000, "bw_bytes" : 40960000, "iops" : 10000.0,
      "runtime" : 400000, "total_ios" : 4000000,
      "lat_ns" : {{ "min" : 30000, "max" : 900000, "mean" : {latency_us}000.0, "N" : 4000000,
        "percentile" : {{ "50.000000" : 39000, "99.000000" : 150000 }} }} }} }} ] }}
"#
    )
}

#[test]
fn a_result_of_fio_is_known_by_what_it_is() {
    let sandbox = Sandbox::new();
    let path = sandbox.root().join("result");
    fs::write(&path, fio(99)).unwrap();
    audit(&sandbox, &path).expect_exit(0).expect_stdout("clean: no finding in 1 row");
    fs::write(&path, fio(110)).unwrap();
    audit(&sandbox, &path).expect_exit(1).expect_stdout("line 3:");
    fs::write(&path, fio(40)).unwrap();
    audit(&sandbox, &path).expect_exit(0).expect_stdout("in-flight-shortfall");
    fs::remove_file(path).unwrap();
}

#[test]
fn documents_that_cannot_be_read_say_why_and_what_to_do() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox);
    let path = sandbox.root().join("document");
    let refused = |bytes: &[u8], words: &str| {
        fs::write(&path, bytes).unwrap();
        let ended = audit(&sandbox, &path).expect_exit(3).expect_no_stdout();
        ended.expect_stderr("cannot audit").expect_stderr("hint:").expect_stderr(words);
    };
    let whole = fio(99);
    refused(&whole.as_bytes()[..whole.len() - 40], "truncated inside jobs");
    refused(br#"{"fio version" : "fio-3.39", "jobs" : []}"#, "no job");
    refused(br#"{"fio version" : "fio-2.2", "jobs" : [{"jobname" : "a"}]}"#, "fio-2.2");
    refused(b"{\"a\" : 1}", "not a fio result");
    refused(b"[]", "JSON");
    let findings = fs::read(run.join("findings.json")).unwrap();
    // Between two lines: within a number it is another error.
    let half = &findings[..findings.len() / 2];
    let end = half.iter().rposition(|byte| *byte == b'\n').unwrap();
    refused(&findings[..end], "EOF");
    let newer = String::from_utf8(findings).unwrap();
    refused(newer.replace("durio-findings-1", "durio-findings-9").as_bytes(), "durio-findings-9");
    fs::remove_file(&path).unwrap();
}

#[test]
fn large_files_end_in_an_error_and_in_time() {
    let sandbox = Sandbox::new();
    let path = sandbox.root().join("large");
    let file = fs::File::create(&path).unwrap();
    file.set_len(100 << 20).unwrap();
    audit(&sandbox, &path).expect_exit(3).expect_stderr("not text");
    let mut text = b"{\"fio version\" : \"".to_vec();
    text.resize(8 << 20, b' ');
    fs::write(&path, text).unwrap();
    audit(&sandbox, &path).expect_exit(3).expect_stderr("truncated inside");
    fs::remove_file(path).unwrap();
}

#[test]
fn a_damaged_or_newer_run_folder_is_refused_or_read_as_far_as_it_goes() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox);
    let log = run.join("histograms.hlog");
    let whole = fs::read(&log).unwrap();
    fs::write(&log, &whole[..whole.len() / 2]).unwrap();
    audit(&sandbox, &run).expect_exit(3).expect_stderr("damaged").expect_stdout("randread");
    let manifest = fs::read_to_string(run.join("run.json")).unwrap();
    let newer = manifest.replace("\"schema\": 2", "\"schema\": 99");
    assert_ne!(newer, manifest);
    fs::write(run.join("run.json"), newer).unwrap();
    audit(&sandbox, &run).expect_exit(3).expect_no_stdout().expect_stderr("newer");
    audit(&sandbox, sandbox.root()).expect_exit(3).expect_stderr("run.json");
}
