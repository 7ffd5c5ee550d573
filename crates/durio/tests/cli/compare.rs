//! `durio compare`: what it says of runs that are alike, of runs that differ, and of no runs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::durio::{Durio, Ended};
use crate::sandbox::{Sandbox, copy_folder, entries};

/// A run of the null engine, whose virtual time passes at once, in a folder of this name.
fn null_run(sandbox: &Sandbox, name: &str, options: &str) -> PathBuf {
    let line = "run --quiet --engine null --duration 2s --no-self-cost --out";
    let pattern = if options.contains("--rw") { "" } else { "--rw randread" };
    sandbox.durio(line).word(name).words(pattern).words(options).run().expect_exit(0);
    entries(&sandbox.root().join(name)).pop().unwrap()
}

const EVEN: &str = "--null-latency 100us,130us,90us,110us,105us,900us,95us";

fn compare(sandbox: &Sandbox, sides: &[&Path]) -> Durio {
    sides.iter().fold(sandbox.durio("compare"), |command, side| command.word(side))
}

fn document(sandbox: &Sandbox, sides: &[&Path], options: &str) -> Value {
    let command = compare(sandbox, sides).words("--format json").words(options);
    let document = command.run().expect_exit(0).json();
    assert_eq!(document["schema"], "durio-compare-1");
    document
}

fn figure<'a>(step: &'a Value, name: &str) -> &'a Value {
    let figures = step["figures"].as_array().unwrap();
    figures.iter().find(|it| it["figure"] == name).unwrap()
}

/// A side of runs with these scripted latencies in microseconds, in a directory of this name.
fn side(sandbox: &Sandbox, name: &str, options: &str, micros: &[u64]) -> PathBuf {
    for base in micros {
        null_run(sandbox, name, &format!("{options} --null-latency {base}us"));
    }
    sandbox.root().join(name)
}

#[test]
fn repeats_of_the_same_thing_show_no_difference() {
    let sandbox = Sandbox::new();
    let [a, b] = ["a", "b"].map(|name| side(&sandbox, name, "", &[1000, 1001, 1002]));
    let ended = compare(&sandbox, &[&a, &b]).words("--fail-over 5%").run().expect_exit(0);
    ended
        .expect_stdout("with no difference")
        .expect_stdout("none")
        .expect_stdout("excluded for 2 figures");
    let document = document(&sandbox, &[&a, &b], "--fail-over 5%");
    let step = &document["pairs"][0]["steps"][0];
    assert_eq!(step["different_workload"], false);
    assert_eq!(step["differences"], json!([]));
    for name in ["rate", "p50", "p99"] {
        assert_eq!(figure(step, name)["word"], "no_difference", "{name}: {step}");
    }
    assert_eq!(document["gate"]["excluded"].as_array().map(Vec::len), Some(2), "{document}");
}

#[test]
fn one_run_a_side_decides_nothing_and_says_what_would() {
    let sandbox = Sandbox::new();
    let [a, b] = ["a", "b"].map(|name| null_run(&sandbox, name, EVEN));
    let slow = null_run(&sandbox, "slow", "--null-latency 900us");
    for other in [&b, &slow] {
        let ended = compare(&sandbox, &[&a, other]).words("--fail-over 5%").run().expect_exit(3);
        ended
            .expect_stdout("undecided")
            .expect_stderr("one run per side does not show how far runs of the same thing differ")
            .expect_stderr("--interleave A.toml B.toml --pairs 5 --fail-over 5%");
        // Without the question the figures are shown, and nothing is wrong.
        compare(&sandbox, &[&a, other]).run().expect_exit(0).expect_stdout("undecided");
    }
}

#[test]
fn repeats_that_scatter_are_undecided_and_say_what_could_be_seen() {
    let sandbox = Sandbox::new();
    let a = side(&sandbox, "a", "", &[100, 110, 120]);
    let b = side(&sandbox, "b", "", &[105, 115, 125]);
    let ended = compare(&sandbox, &[&a, &b]).words("--fail-over 5%").run().expect_exit(3);
    ended
        .expect_stderr("--fail-over is undecided: B against A")
        .expect_stderr("the repeats scatter by 9.")
        .expect_stderr("repeats per side would decide")
        .expect_stdout("could be seen");
}

#[test]
fn another_depth_is_named_and_its_effect_with_it() {
    let sandbox = Sandbox::new();
    let deep = side(&sandbox, "deep", "--depth 4", &[100, 101, 102]);
    let flat = side(&sandbox, "flat", "", &[100, 101, 102]);
    let gated = |sides: [&Path; 2]| compare(&sandbox, &sides).words("--fail-over 5%").run();
    let ended =
        gated([&deep, &flat]).expect_exit(1).expect_stdout("DIFFERENT WORKLOADS: depth 4 → 1");
    ended.expect_stdout("slower").expect_stdout("-75.0 %").expect_stderr("regression: B against A");
    gated([&flat, &deep]).expect_exit(0).expect_stdout("+300.0 %").expect_stdout("faster");
    // Without the question there is no negative answer.
    compare(&sandbox, &[&deep, &flat]).run().expect_exit(0).expect_stdout("slower");
    let document = document(&sandbox, &[&deep, &flat], "");
    let rate = figure(&document["pairs"][0]["steps"][0], "rate");
    let [low, high] = [0, 1].map(|end| rate["interval"][end].as_f64().unwrap());
    assert!(low <= -0.749 && (-0.751..0.0).contains(&high), "{rate}");
}

#[test]
fn only_rate_and_p99_decide_and_only_beyond_what_is_allowed() {
    let sandbox = Sandbox::new();
    let a = side(&sandbox, "a", "", &[1000, 1001, 1002]);
    let b = side(&sandbox, "b", "", &[1100, 1101, 1102]);
    let with =
        |allowed: &str| compare(&sandbox, &[&a, &b]).words("--fail-over").word(allowed).run();
    // The rate is 9.1 % lower, p99 10 % higher.
    with("9.5%").expect_exit(1).expect_stderr("p99 worse by 10.0 %");
    with("11%").expect_exit(0);
    with("5").expect_exit(1).expect_stderr("rate worse by 9.1 %");
    let ended = compare(&sandbox, &[&a, &b]).words("--threshold 20%").run().expect_exit(0);
    ended.expect_stdout("with no difference");
}

#[test]
fn repeats_are_judged_by_how_far_they_scatter() {
    let sandbox = Sandbox::new();
    let a = side(&sandbox, "a", "", &[100, 101, 102, 103, 104]);
    let b = side(&sandbox, "b", "", &[120, 121, 122, 123, 124]);
    let document = document(&sandbox, &[&a, &b], "");
    let step = &document["pairs"][0]["steps"][0];
    assert_eq!(step["repeats"], json!([5, 5]));
    let rate = figure(step, "rate");
    assert_eq!((&rate["method"], &rate["word"]), (&json!("repeats"), &json!("slower")));
    assert!(rate["p_worse"].as_f64().unwrap() < 1e-6, "{rate}");
    assert!((rate["repeats_scatter"].as_f64().unwrap() - 0.0145).abs() < 5e-4, "{rate}");
    // Two of them, in the other way of writing.
    let sides = [&a, &b].map(|side| {
        let runs: Vec<_> =
            entries(side).into_iter().take(2).map(|it| it.display().to_string()).collect();
        PathBuf::from(runs.join(","))
    });
    let ended = compare(&sandbox, &[&sides[0], &sides[1]]).word("--verbose").run().expect_exit(0);
    ended.expect_stdout("2 against 2 repeats").expect_stdout("slower");
}

#[test]
fn every_further_side_is_set_against_the_first() {
    let sandbox = Sandbox::new();
    let runs = ["100us", "130us", "80us"]
        .map(|it| null_run(&sandbox, it, &format!("--null-latency {it}")));
    let sides: Vec<&Path> = runs.iter().map(PathBuf::as_path).collect();
    let document = document(&sandbox, &sides, "");
    let words: Vec<_> = document["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| {
            assert_eq!(pair["baseline"], "A");
            (pair["other"].clone(), figure(&pair["steps"][0], "rate")["word"].clone())
        })
        .collect();
    assert_eq!(words, [(json!("B"), json!("undecided")), (json!("C"), json!("undecided"))]);
    for (format, part) in [("html", "C against A"), ("csv", "A,C,randread")] {
        let command = compare(&sandbox, &sides).words("--format").word(format);
        command.run().expect_exit(0).expect_no_stderr().expect_stdout(part);
    }
}

#[test]
fn the_same_run_on_both_sides_is_said_to_be_no_evidence() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox, "a", EVEN);
    let copy = sandbox.root().join("copy");
    copy_folder(&run, &copy);
    for other in [&run, &copy] {
        compare(&sandbox, &[&run, other]).run().expect_exit(0).expect_stdout("it is no evidence");
    }
    let twice = format!("{0},{0}", run.display());
    let ended = compare(&sandbox, &[&run, Path::new(&twice)]).run();
    ended.expect_exit(2).expect_no_stdout().expect_stderr("named twice");
}

#[test]
fn what_has_nothing_in_common_is_not_silently_fine() {
    let sandbox = Sandbox::new();
    let reads = null_run(&sandbox, "a", EVEN);
    let writes = null_run(&sandbox, "b", &format!("--rw randwrite {EVEN}"));
    let ended = compare(&sandbox, &[&reads, &writes]).run().expect_exit(3);
    ended.expect_stdout("only A").expect_stderr("nothing of B could be compared with A");
    let commits = null_run(&sandbox, "c", &format!("--rw randwrite --sync fdatasync {EVEN}"));
    let ended = compare(&sandbox, &[&writes, &commits]).words("--force").run().expect_exit(3);
    ended.expect_stdout("not comparable: A measures writes, B commits");
}

#[test]
fn a_run_that_was_killed_is_compared_only_by_force() {
    let sandbox = Sandbox::new();
    let whole = null_run(&sandbox, "a", EVEN);
    let torn = sandbox.root().join("torn");
    copy_folder(&whole, &torn);
    let events = fs::read_to_string(torn.join("events.jsonl")).unwrap();
    let kept: Vec<_> = events.lines().take_while(|it| !it.contains("job_ended")).collect();
    fs::write(torn.join("events.jsonl"), kept.join("\n") + "\n").unwrap();
    let ended = compare(&sandbox, &[&whole, &torn]).words("--fail-over 5%").run().expect_exit(3);
    ended
        .expect_stdout("not comparable: B did not run to its limit")
        .expect_stderr("--fail-over is undecided");
    let ended = compare(&sandbox, &[&whole, &torn]).words("--force").run().expect_exit(0);
    ended.expect_stdout("compared by --force although B did not run").expect_stdout("undecided");
}

#[test]
fn a_damaged_record_is_said_to_be_damaged() {
    let sandbox = Sandbox::new();
    let whole = null_run(&sandbox, "a", EVEN);
    let broken = sandbox.root().join("broken");
    copy_folder(&whole, &broken);
    let events = fs::read_to_string(broken.join("events.jsonl")).unwrap();
    fs::write(broken.join("events.jsonl"), events.replacen("\"interval\"", "\"interval\":\0", 1))
        .unwrap();
    let ended = compare(&sandbox, &[&whole, &broken]).run().expect_exit(3);
    ended.expect_stderr("the record is damaged").expect_stdout("not comparable: B");
}

#[test]
fn what_is_no_side_is_said_to_be_none() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox, "a", EVEN);
    let empty = sandbox.root().join("empty");
    fs::create_dir(&empty).unwrap();
    let refused = |other: &Path, code: i32, words: &[&str]| {
        let ended = compare(&sandbox, &[&run, other]).run().expect_exit(code).expect_no_stdout();
        words.iter().fold(ended, |ended: Ended, word| ended.expect_stderr(word));
    };
    refused(&empty, 3, &["empty", "run.json"]);
    refused(Path::new("missing"), 3, &["missing", "neither a path nor a run"]);
    refused(Path::new("missing,also-missing"), 3, &["missing", "neither a path nor a run"]);
    refused(&sandbox.user_file(), 3, &["user.db"]);
    let newer = sandbox.root().join("newer");
    copy_folder(&run, &newer);
    let manifest = fs::read(newer.join("run.json")).unwrap();
    let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
    manifest["schema"] = json!(99);
    fs::write(newer.join("run.json"), manifest.to_string()).unwrap();
    refused(&newer, 3, &["99", "newer durio"]);
    compare(&sandbox, &[&run]).run().expect_exit(2).expect_stderr("one side");
    for options in ["--fail-over x", "--threshold -1%", "--format pdf"] {
        compare(&sandbox, &[&run, &run]).words(options).run().expect_exit(2).expect_no_stdout();
    }
}

#[test]
fn the_same_seed_gives_the_same_document() {
    let sandbox = Sandbox::new();
    let [a, b] = [EVEN, "--null-latency 100us,150us,2ms,90us"]
        .map(|it| null_run(&sandbox, &it.len().to_string(), it));
    let with = |seed: &str| document(&sandbox, &[&a, &b], &format!("--seed {seed}"));
    assert_eq!(with("7"), with("7"));
}

#[test]
fn published_ladders_are_found_by_their_words() {
    let sandbox = Sandbox::new();
    let run = null_run(&sandbox, "a", EVEN);
    let against = |name: &str| compare(&sandbox, &[&run]).words("--against").word(name).run();
    against("published:nobody").expect_exit(2).expect_stderr("xinnor-reperio-2025");
    against("nobody").expect_exit(2).expect_stderr("published:NAME");
    against("published:xinnor randread").expect_exit(3).expect_stderr("no ladder");
}
