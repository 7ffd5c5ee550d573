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

/// Stdout without its line breaks.
fn in_one_line(ended: &Ended) -> String {
    ended.text().split_whitespace().collect::<Vec<_>>().join(" ")
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
    let text = in_one_line(&ended);
    assert!(text.starts_with("B equals A within 5 %: 1.00 × (1.00 to 1.00), "), "{text}");
    assert!(text.contains(" reads/s. No regression of more than 5 % "), "{text}");
    ended.expect_stdout("excluded for 2 results").expect_no_stderr();
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
fn one_run_a_side_has_a_ratio_and_no_interval_and_says_what_would_give_one() {
    let sandbox = Sandbox::new();
    let fast = null_run(&sandbox, "fast", "--null-latency 100us");
    let slow = null_run(&sandbox, "slow", "--null-latency 3ms");
    // Without a limit the ratio is the answer, and nothing is wrong.
    let ended = compare(&sandbox, &[&slow, &fast]).run().expect_exit(0).expect_no_stderr();
    let sentence = "B is 30 × A: 10 k against 333 reads/s; one run per side does not show how much \
                    runs vary";
    assert_eq!(ended.text().lines().next(), Some(sentence));
    ended
        .expect_stdout("30.0 × ")
        .expect_stdout("About 5 runs of each side would decide:\nfor i in $(seq 5); do durio run ");
    // A limit is not known to be kept, however large the difference.
    for sides in [[&slow, &fast], [&fast, &slow]] {
        let gated = |options: &str| {
            let command = compare(&sandbox, &[sides[0], sides[1]]).words("--fail-over 5%");
            command.words(options).run().expect_exit(3)
        };
        let ended = gated("");
        let text = in_one_line(&ended);
        assert!(text.contains("Regression of more than 5 %: undecided for 2 results"), "{text}");
        let reason = "one run per side does not show how much runs vary";
        let lines: Vec<String> = ended.text().lines().map(str::to_owned).collect();
        let undecided = lines.iter().filter(|line| line.trim().starts_with("undecided  ")).count();
        assert_eq!(undecided, 2, "{lines:#?}");
        ended.expect_stdout(reason).expect_stderr("durio: --fail-over: undecided");
        // Where the report is for programs, the sentence is on stderr.
        let ended = gated("--json");
        ended
            .expect_stderr("undecided for 2 results")
            .expect_stderr("hint: for i in $(seq 5); do ");
    }
}

#[test]
fn twice_the_rate_with_three_repeats_a_side_is_decided_with_its_ratio() {
    let sandbox = Sandbox::new();
    let a = side(&sandbox, "a", "", &[200, 230, 215]);
    let b = side(&sandbox, "b", "", &[100, 115, 108]);
    let ended = compare(&sandbox, &[&a, &b]).run().expect_exit(0).expect_no_stderr();
    ended.expect_stdout("B is 2.0 × A (1.").expect_stdout("2 faster");
    let document = document(&sandbox, &[&a, &b], "");
    assert_eq!(document["answer"]["pairs"][0]["word"], "faster");
    let ratio = document["answer"]["pairs"][0]["ratio"].as_f64().unwrap();
    assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    assert_eq!(document["answer"]["runs_needed"], Value::Null);
    assert_eq!(document["settings"]["threshold"], 0.05);
    assert!(document["summary"]["sentence"].as_str().unwrap().starts_with("B is 2.0 × A"));
}

#[test]
fn repeats_that_scatter_are_undecided_and_say_what_could_be_seen() {
    let sandbox = Sandbox::new();
    let a = side(&sandbox, "a", "", &[100, 110, 120]);
    let b = side(&sandbox, "b", "", &[105, 115, 125]);
    let ended = compare(&sandbox, &[&a, &b]).words("--fail-over 5%").run().expect_exit(3);
    ended
        .expect_stdout("Undecided: B is 0.96 × A (")
        .expect_stdout("too uncertain to tell whether")
        .expect_stdout("the repeats scatter by 9.")
        .expect_stdout("runs of each side would decide:")
        .expect_stdout("durio compare runs-a runs-b --fail-over 5%")
        .expect_stderr("durio: --fail-over: undecided");
}

#[test]
fn no_sentence_is_on_the_screen_twice() {
    let sandbox = Sandbox::new();
    let a = side(&sandbox, "a", "", &[1000, 1001, 1002]);
    let worse = side(&sandbox, "worse", "", &[1300, 1301, 1302]);
    let noisy = side(&sandbox, "noisy", "", &[900, 1000, 1400]);
    for (other, code) in [(&worse, 1), (&noisy, 3)] {
        let ended = compare(&sandbox, &[&a, other]).words("--fail-over 5%").run().expect_exit(code);
        let report = in_one_line(&ended);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let line = ended.stderr.trim().trim_start_matches("durio: ");
        assert!(!report.contains(line), "{line}: {report}");
    }
}

#[test]
fn sides_are_called_by_the_names_of_their_runs_or_of_the_command_line() {
    let sandbox = Sandbox::new();
    let runs = [("gp3", "3ms"), ("io2", "1ms")].map(|(name, latency)| {
        let options = format!("--name {name} --null-latency {latency}");
        null_run(&sandbox, name, &options)
    });
    let sides = [runs[0].as_path(), runs[1].as_path()];
    let ended = compare(&sandbox, &sides).run().expect_exit(0);
    ended.expect_stdout("io2 is 3.0 × gp3: ").expect_stdout("io2 against gp3");
    let ended = compare(&sandbox, &sides).words("--name old --name new").run().expect_exit(0);
    ended.expect_stdout("new is 3.0 × old: ");
    let ended = compare(&sandbox, &sides).words("--name old").run().expect_exit(2);
    ended.expect_no_stdout().expect_stderr("1 name for 2 sides");
}

#[test]
fn two_directories_are_measured_by_turns_and_then_compared() {
    let sandbox = Sandbox::new();
    let other = sandbox.root().join("other");
    fs::create_dir(&other).unwrap();
    let options = "--pairs 2 -- --quiet --duration 300ms --size 8MiB --workload commit";
    let command = sandbox.durio("compare data other").words(options).run().expect_exit(0);
    let turns: Vec<&str> =
        command.stderr.lines().filter(|line| line.starts_with("durio: run ")).collect();
    let expected = ["1 of 4: data", "2 of 4: other", "3 of 4: other", "4 of 4: data"];
    assert_eq!(turns, expected.map(|turn| format!("durio: run {turn}")));
    let text = command.text();
    let first = text.lines().next().unwrap();
    assert!(first.contains("B is ") || first.starts_with("B equals A within 5 %"), "{text}");
    assert!(first.contains(" × ") && text.contains("A  data: 2 runs, from "), "{text}");
    assert!(text.contains(": A and B are two paths on "), "{text}");
    assert!(sandbox.differences().is_empty());
    assert!(entries(&other).is_empty());
    // The runs stay, to be compared again.
    let kept = command.stderr.lines().find_map(|line| line.strip_prefix("durio: the runs are in "));
    let sides = ["a", "b"].map(|side| Path::new(kept.unwrap()).join(side));
    let document = document(&sandbox, &[&sides[0], &sides[1]], "");
    assert_eq!(document["pairs"][0]["steps"][0]["repeats"], json!([2, 2]));
    assert_eq!(document["pairs"][0]["steps"][0]["name"], "commit");
}

#[test]
fn the_plan_of_a_turn_has_every_workload_of_a_check_and_no_prediction() {
    let sandbox = Sandbox::new();
    // Given twice: each turn has it already.
    let options = "--pairs 1 -- --quiet --duration 100ms --size 8MiB --no-predictions";
    let command = sandbox.durio("compare data data").words(options).run().expect_exit(0);
    let kept = command.stderr.lines().find_map(|line| line.strip_prefix("durio: the runs are in "));
    let steps = |run: &Path| {
        let plan: Value =
            serde_json::from_slice(&fs::read(run.join("plan.json")).unwrap()).unwrap();
        let steps = plan["steps"].as_array().unwrap().iter().map(|step| &step["workload"]);
        let (predicting, others): (Vec<&Value>, Vec<_>) =
            steps.partition(|workload| !workload["group_commit"]["software"].is_null());
        let names = others.iter().map(|workload| workload["name"].as_str().unwrap().to_owned());
        (predicting.len(), names.collect::<Vec<_>>())
    };
    sandbox.durio("check data --quiet --duration 100ms --size 8MiB").run().expect_exit(0);
    let (predicting, names) = steps(&sandbox.runs().pop().unwrap());
    // Four databases with three numbers of clients, and SQLite with one.
    assert_eq!(predicting, 13);
    assert!(["commit", "lookup", "scan"].iter().all(|name| names.contains(&(*name).to_owned())));
    for side in ["a", "b"] {
        let run = entries(&Path::new(kept.unwrap()).join(side)).pop().unwrap();
        assert_eq!(steps(&run), (0, names.clone()), "{side}");
    }
}

#[test]
fn the_same_directory_twice_gives_repeats() {
    let sandbox = Sandbox::new();
    let options = "--pairs 2 -- --quiet --duration 300ms --size 8MiB --workload commit";
    let ended = sandbox.durio("compare data data").words(options).run().expect_exit(0);
    assert!(ended.text().contains(": these are repeats"), "{}", ended.text());
}

#[test]
fn directories_whose_runs_are_missing_do_not_pass_a_gate() {
    let sandbox = Sandbox::new();
    for name in ["before", "after"] {
        fs::create_dir(sandbox.root().join(name)).unwrap();
    }
    let ended = sandbox.durio("compare before after --fail-over 5%").run().expect_exit(3);
    ended.expect_no_stdout().expect_stderr("run.json").expect_stderr(
        "hint: to measure two directories without runs in alternation: durio compare A B --pairs 5",
    );
    assert!(!sandbox.state().join("durio/runs").exists(), "nothing was measured");
    // Runs are not measured again.
    let run = null_run(&sandbox, "run", EVEN);
    let ended = compare(&sandbox, &[&run, &run]).words("--pairs 3").run().expect_exit(2);
    ended.expect_no_stdout().expect_stderr("--pairs and the options after -- are for measuring");
    let ended = compare(&sandbox, &[&run, &run]).words("-- --quick").run().expect_exit(2);
    ended.expect_no_stdout().expect_stderr("are for measuring");
}

#[test]
fn another_depth_is_named_and_its_effect_with_it() {
    let sandbox = Sandbox::new();
    let deep = side(&sandbox, "deep", "--depth 4", &[100, 101, 102]);
    let flat = side(&sandbox, "flat", "", &[100, 101, 102]);
    let gated = |sides: [&Path; 2]| compare(&sandbox, &sides).words("--fail-over 5%").run();
    let ended =
        gated([&deep, &flat]).expect_exit(1).expect_stdout("DIFFERENT WORKLOADS: depth 4 → 1");
    ended
        .expect_stdout("-75.0 % slower")
        .expect_stdout("WORSE  B against A")
        .expect_stderr("--fail-over: there is a regression");
    gated([&flat, &deep])
        .expect_exit(0)
        .expect_stdout("B is 4.0 × A")
        .expect_stdout("4.00 × faster");
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
    with("9.5%").expect_exit(1).expect_stdout("p99 worse by 10.0 %");
    with("11%").expect_exit(0);
    with("5").expect_exit(1).expect_stdout("rate worse by 9.1 %");
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
    assert_eq!(words, [(json!("B"), json!("no_interval")), (json!("C"), json!("no_interval"))]);
    let said = document["summary"]["sentence"].as_str().unwrap();
    assert!(said.starts_with("B is 0.77 × A, ") && said.contains(". C is 1.25 × A, "), "{said}");
    assert_eq!(document["answer"]["command"], Value::Null, "of two sides only");
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
    ended.expect_stdout("only A").expect_stdout("No results of B could be compared with A");
    let ended = compare(&sandbox, &[&reads, &writes]).words("--format csv").run().expect_exit(3);
    ended.expect_stderr("durio: No results of B could be compared with A");
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
        .expect_stdout("not comparable: B ended before its limit")
        .expect_stderr("--fail-over: undecided");
    let ended = compare(&sandbox, &[&whole, &torn]).words("--force").run().expect_exit(0);
    ended.expect_stdout("caution: B ended before its limit").expect_stdout("no interval");
    // A report of several runs shows what it has, and claims no option that was not given.
    let report = sandbox.durio("report").word(&whole).word(&torn).run().expect_exit(0);
    assert!(!report.text().contains("--force"), "{}", report.text());
    report.expect_stdout("caution: B ended before its limit");
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
    // The words for kept runs mean one here too.
    let line = "run --quiet --engine null --ops 100 --no-self-cost --rw randread --name mine";
    sandbox.durio(line).run().expect_exit(0);
    for word in ["last", "mine"] {
        let ended = sandbox.durio("compare").word(word).words("--against").word("published:xinnor");
        ended.run().expect_exit(3).expect_stderr("no ladder");
    }
}

#[test]
fn a_bench_or_a_proof_is_named_with_the_command_that_shows_it() {
    let sandbox = Sandbox::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/record/tests/golden");
    let runs = sandbox.state().join("durio/runs");
    fs::create_dir_all(&runs).unwrap();
    let keep = |from: &str, name: &str| copy_folder(&golden.join(from), &runs.join(name));
    keep("proof1", "2026-11-20T034040-541Z-prove-12135");
    keep("bench1", "2026-11-21T200000-000Z-stack-42");
    let proof = "'prove-12135' is a power-cut proof (golden), not a run";
    for (line, error, hint) in [
        (
            "compare last --against published:xinnor",
            "durio: 'last' is a bench of stacks (mirror), not a run",
            "hint: durio report last compares its stacks and layers",
        ),
        ("compare prove-12135 last", proof, "hint: durio report prove-12135 shows which writes"),
        ("report prove-12135 last", proof, "hint: durio report prove-12135 shows which writes"),
    ] {
        let ended = sandbox.durio(line).run().expect_exit(3).expect_no_stdout();
        ended.expect_stderr(error).expect_stderr(hint);
    }
}
