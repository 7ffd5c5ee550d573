//! Proofs by power cuts of simulated disks: the same seed gives the same table, a liar is found, an
//! interrupted proof goes on as if nothing had happened.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::{Ended, Running};
use crate::sandbox::Sandbox;
use crate::seeded::Seeded;

/// An honest disk and a liar that is found soon, by a flush and by FUA, on a virtual clock.
const FEW: &str = "prove run few.toml --seed 7";

const FEW_SPEC: &str = r#"
schema = 1
name = "few"
cuts = 5

[[disk]]
profile = ["write-back", "flush-ignored"]

[[arm]]
path = ["fdatasync", "rwf_dsync"]
depth = 8
"#;

/// The same over NBD, where times are this machine's.
const FEW_OVER_NBD: &str =
    "prove run prove-smoke --only nbd/write-back/ --only nbd/flush-ignored/ --cuts 5 --seed 7";

/// Long enough to be killed in the middle.
const LONG: &str = r#"
schema = 1
name = "long"
cuts = 400

[[disk]]
profile = ["write-back", "protected", "drops", "torn"]

[[arm]]
path = ["fdatasync", "rwf_dsync"]
depth = [1, 8]
"#;

fn text_of(ended: &Ended) -> String {
    String::from_utf8(ended.stdout.clone()).unwrap()
}

fn few() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("few.toml"), FEW_SPEC).unwrap();
    sandbox
}

fn long() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::write(sandbox.root().join("long.toml"), LONG).unwrap();
    sandbox
}

fn lines_of_cuts(run: &Path) -> usize {
    fs::read(run.join("cuts.jsonl")).map_or(0, |it| it.iter().filter(|&&it| it == b'\n').count())
}

/// Waits until a proof has had so many cuts; its folder.
fn wait_for_cuts(sandbox: &Sandbox, running: &mut Running, count: usize) -> PathBuf {
    loop {
        assert!(running.is_alive(), "{}", running.stderr());
        match sandbox.runs().last() {
            Some(run) if lines_of_cuts(run) >= count => return run.clone(),
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// What came out, without the times and names of this run.
fn series(document: &Value) -> &Vec<Value> {
    document["series"].as_array().unwrap()
}

#[test]
fn the_same_seed_gives_the_same_table_and_another_seed_other_cuts() {
    let sandbox = few();
    let first = sandbox.durio(FEW).run().expect_exit(0).expect_stderr("durio: seed 7");
    let second = sandbox.durio(FEW).run().expect_exit(0);
    assert_eq!(text_of(&first), text_of(&second));
    first.expect_stdout("as expected: 3 lost nothing, 1 lied and was caught");
    let json = |seed: &str| {
        let line = FEW.replace("--seed 7", seed);
        sandbox.durio(&line).words("--format json").run().expect_exit(0).json()
    };
    let (one, same, other) = (json("--seed 7"), json("--seed 7"), json("--seed 8"));
    assert_eq!(series(&one).len(), 4, "two disks, two paths");
    assert_eq!(series(&one), series(&same));
    assert_ne!(series(&one), series(&other));
    // The seed that durio chose repeats its proof as well.
    let chosen = sandbox.durio(&FEW.replace("--seed 7", "")).run().expect_exit(0);
    let seed = chosen.stderr.lines().find_map(|it| it.strip_prefix("durio: seed ")).unwrap();
    let again = sandbox.durio(&FEW.replace("--seed 7", "--seed")).word(seed).run();
    assert_eq!(text_of(&chosen), text_of(&again));
}

#[test]
fn over_nbd_the_same_seed_makes_the_same_writes_and_finds_the_same() {
    let sandbox = Sandbox::new();
    let found = || {
        let document =
            sandbox.durio(FEW_OVER_NBD).words("--format json").run().expect_exit(0).json();
        let all = series(&document).iter();
        let fields = ["name", "verdict", "cuts_done", "acknowledged", "controls", "in_flight"];
        all.map(|it| fields.map(|field| it[field].clone())).collect::<Vec<_>>()
    };
    let first = found();
    assert_eq!((first.len(), &first), (4, &found()));
}

#[test]
fn an_array_of_durios_own_keeps_its_word_and_a_lying_member_is_found() {
    let sandbox = Sandbox::new();
    let found = sandbox.durio("prove run prove-array --seed 7 --json").run().expect_exit(0).json();
    let series = found["series"].as_array().unwrap();
    let verdict = |name: &str| {
        let found = series.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(found["as_expected"], true, "{found}");
        found["verdict"]["verdict"].as_str().unwrap()
    };
    for level in ["raid1", "raid10"] {
        assert_eq!(verdict(&format!("{level}/write-back/fdatasync/8")), "no_loss");
        assert_eq!(verdict(&format!("{level}/fua-ignored/fdatasync/8")), "breaks");
        for member in [0, 1] {
            assert_eq!(verdict(&format!("{level}/bit-rot@{member}/fdatasync/8")), "breaks");
        }
    }
}

#[test]
fn no_cut_keeps_more_than_was_acknowledged_and_controls_show_that_it_was_one() {
    let sandbox = Sandbox::new();
    sandbox
        .durio("prove run prove-smoke --only write-back/ --cuts 20 --seed 3")
        .run()
        .expect_exit(0);
    let cuts = fs::read_to_string(sandbox.the_run().join("cuts.jsonl")).unwrap();
    let mut lost = 0;
    for line in cuts.lines() {
        let cut: Value = serde_json::from_str(line).unwrap();
        let found = &cut["findings"];
        let count = |name: &str| found[name].as_u64().unwrap();
        assert!(count("kept") <= count("acknowledged"), "{line}");
        assert_eq!(found["findings"].as_array().unwrap().len(), 0, "{line}");
        lost += found["controls"]["lost"].as_u64().unwrap();
    }
    assert!(lost > 0, "no control was lost in 80 cuts");
}

#[test]
fn a_liar_that_is_not_found_and_one_that_nobody_expected_exit_with_one() {
    let sandbox = Sandbox::new();
    // Of 1000 writes it drops one: a single cut does not show it.
    let line = "prove run prove-smoke --only nbd/drops/fdatasync --cuts 1 --seed 7";
    sandbox.durio(line).run().expect_exit(1).expect_stdout("No loss: in 1 effective power cut of");
    let run = sandbox.the_run();
    let manifest = fs::read_to_string(run.join("proof.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
    manifest["plan"]["series"][0]["expected"] = serde_json::json!({"expect": "holds"});
    manifest["plan"]["series"][0]["target"]["profile"] = "flush-ignored".into();
    fs::write(run.join("proof.json"), manifest.to_string()).unwrap();
    fs::remove_file(run.join("cuts.jsonl")).unwrap();
    let ended = sandbox.durio("prove run --resume last").run().expect_exit(1);
    ended.expect_stdout("PROVED: the simulated disk 'flush-ignored' by fdatasync at depth 1");
}

#[test]
fn a_proof_whose_cuts_show_nothing_exits_with_three_and_says_why() {
    let sandbox = Sandbox::new();
    sandbox.durio("prove run prove-smoke --only nbd/write-back/fdatasync --cuts 1").run();
    let run = sandbox.the_run();
    let line = fs::read_to_string(run.join("cuts.jsonl")).unwrap();
    let mut cut: Value = serde_json::from_str(&line).unwrap();
    // All of its life is at risk on a simulated disk.
    cut["findings"]["acknowledged"] = 3.into();
    let lines: Vec<String> = (1..=3)
        .map(|number| {
            cut["cut"] = number.into();
            format!("{cut}\n")
        })
        .collect();
    fs::write(run.join("cuts.jsonl"), lines.concat()).unwrap();
    let ended = sandbox.durio("prove run --resume last").run().expect_exit(3);
    ended.expect_stdout("Inconclusive").expect_stdout("the target was idle");
}

#[test]
fn an_interrupted_proof_says_so_and_goes_on_to_the_same_table() {
    let sandbox = long();
    let line = "prove run long.toml --seed 5 --format json";
    let whole = sandbox.durio(line).run().expect_exit(0).json();
    let mut running = sandbox.durio(line).start();
    let before = sandbox.the_run();
    while sandbox.runs().len() < 2 {
        assert!(running.is_alive(), "{}", running.stderr());
        thread::sleep(Duration::from_millis(1));
    }
    let run = wait_for_cuts(&sandbox, &mut running, 20);
    assert_ne!(run, before);
    running.signal(Signal::INT);
    let ended = running.wait().expect_exit(130);
    assert_eq!(ended.json()["outcome"], "interrupted");
    sandbox.durio("runs").run().expect_exit(0).expect_stdout("interrupted");
    let shown = sandbox.durio("report last").run().expect_exit(0);
    shown.expect_stdout("Interrupted. Resume with: durio prove run --resume RUN");
    let ended = sandbox.durio("prove run --format json --resume").word(&run).run().expect_exit(0);
    assert_eq!(series(&ended.json()), series(&whole));
    assert_eq!(sandbox.runs().len(), 2, "in its own folder");
}

#[test]
fn a_proof_that_is_killed_again_and_again_comes_to_the_same_table() {
    let sandbox = long();
    let mut seeded = Seeded::new();
    let line = "prove run long.toml --seed 6 --format json --out";
    let (whole, killed) = (sandbox.root().join("whole"), sandbox.root().join("killed"));
    for folder in [&whole, &killed] {
        fs::create_dir(folder).unwrap();
    }
    let whole = sandbox.durio(line).word(&whole).run().expect_exit(0).json();
    let mut running = sandbox.durio(line).word(&killed).start();
    let run = loop {
        match crate::sandbox::entries(&killed).first() {
            Some(run) if run.join("proof.json").exists() => break run.clone(),
            _ => thread::sleep(Duration::from_millis(1)),
        }
    };
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(seeded.below(400) as u64));
        running.signal(Signal::KILL);
        running.wait();
        // Whatever is there is shown, and nothing is said of what is not decided.
        sandbox.durio("report").word(&run).run().expect_exit(0).expect_no_stderr();
        running = sandbox.durio("prove run --format json --resume").word(&run).start();
    }
    let ended = running.wait().expect_exit(0).json();
    assert_eq!(series(&ended), series(&whole));
    assert_eq!((&ended["outcome"], &ended["not_begun"]), (&"complete".into(), &0.into()));
}

#[test]
fn a_proof_is_reported_from_its_folder_in_every_format() {
    let sandbox = few();
    let text = text_of(&sandbox.durio(FEW).run().expect_exit(0));
    let run = sandbox.the_run();
    for file in ["findings.json", "report.html"] {
        fs::remove_file(run.join(file)).unwrap();
    }
    let shown = sandbox.durio("report last").run().expect_exit(0).expect_no_stderr();
    assert_eq!(text_of(&shown), text);
    let of = |format: &str| {
        let ended = sandbox.durio("report last --format").word(format).run();
        ended.expect_exit(0).expect_no_stderr()
    };
    assert_eq!(of("json").json()["schema"], "durio-proof-1");
    of("html").expect_stdout("<!doctype html>").expect_stdout("flush-ignored");
    of("markdown").expect_stdout("| flush-ignored ");
    let csv = text_of(&of("csv"));
    assert_eq!(csv.lines().count(), 1 + 4, "{csv}");
    assert!(
        csv.lines().any(|it| it.starts_with("flush-ignored/fdatasync/8,fdatasync,8,lost,true"))
    );
    let refused = sandbox.durio("report last --format fio-json").run().expect_exit(2);
    refused.expect_stderr("fio-json");
    sandbox.durio("runs").run().expect_stdout("prove run").expect_stdout("few");
}

#[test]
fn a_list_of_runs_tells_what_a_proof_found() {
    let sandbox = few();
    sandbox.durio(FEW).run().expect_exit(0);
    let listed = sandbox.durio("runs").run().expect_exit(0).expect_no_stderr();
    listed.expect_stdout("4 of 4 as expected").expect_stdout("few");
    let json = sandbox.durio("runs --format json").run().json();
    assert_eq!(json["runs"][0]["found"], "4 of 4 as expected");
    assert_eq!(json["runs"][0]["state"], "complete");
    sandbox.durio("runs rm last --yes").run().expect_exit(0);
    assert!(sandbox.runs().is_empty());
}

#[test]
fn a_spec_with_a_fault_is_refused_with_its_place_and_what_to_do() {
    let sandbox = Sandbox::new();
    let disk = "[[disk]]\nprofile = \"write-back\"\n";
    let arm = "[[arm]]\npath = \"fdatasync\"\n";
    for (spec, place, what) in [
        (
            format!("[[disk]]\nprofile = \"flush-ignord\"\n{arm}"),
            "4:11",
            "did you mean 'flush-ignored'?",
        ),
        (format!("{disk}size = \"100KiB\"\n{arm}"), "5:8", "256 KiB to 4 GiB"),
        (format!("{disk}{arm}depth = 0\n"), "7:9", "1 to 64"),
        (format!("{disk}{arm}deph = 1\n"), "7:1", "did you mean 'depth'?"),
        (format!("{disk}{arm}via = \"tcp\"\n"), "7:7", "process, nbd"),
        (format!("cuts = \"many\"\n{disk}{arm}"), "3:8", "cuts"),
        (format!("{disk}{arm}path ="), "7:", ""),
    ] {
        fs::write(sandbox.root().join("x.toml"), format!("schema = 1\nname = \"x\"\n{spec}"))
            .unwrap();
        for command in ["prove run x.toml", "prove plan x.toml"] {
            let ended = sandbox.durio(command).run().expect_exit(2).expect_no_stdout();
            ended.expect_stderr(&format!("x.toml:{place}")).expect_stderr(what);
        }
    }
    let refused = |line: &str| sandbox.durio(line).run().expect_exit(2).expect_no_stdout();
    refused("prove run prove-smokes").expect_stderr("did you mean 'prove-smoke'?");
    refused("prove run prove-smoke --only nothing-has-this").expect_stderr("--only expects a part");
    refused("prove run prove-smoke --cuts 0").expect_stderr("--cuts");
    refused("prove run").expect_stderr("SPEC");
    refused("prove run --resume last --seed 3").expect_stderr("--seed");
    assert!(sandbox.runs().is_empty(), "nothing was begun");
}

#[test]
fn what_is_no_proof_is_not_gone_on_with() {
    let sandbox = few();
    let none = |line: &str| sandbox.durio(line).run().expect_exit(3).expect_no_stdout();
    none("prove run --resume last").expect_stderr("there are no runs yet");
    none("prove run --resume data").expect_stderr("proof.json");
    sandbox.durio(FEW).run().expect_exit(0);
    let manifest = sandbox.the_run().join("proof.json");
    let text = fs::read_to_string(&manifest).unwrap();
    // As a newer durio, or somebody, wrote it.
    for (now, other) in [
        ("\"schema\": 1,\n  \"proof\"", "\"schema\": 2,\n  \"proof\""),
        ("\"profile\": \"write-back\"", "\"profile\": \"no-such-disk\""),
        ("\"size\": 1048576", "\"size\": 4097"),
        ("\"depth\": 8", "\"depth\": 0"),
        ("\"write_cells\": 1", "\"write_cells\": 0"),
        ("\"write_cells\": 1", "\"write_cells\": 9000"),
        ("\"cuts\": 5", "\"cuts\": 99"),
    ] {
        assert!(text.contains(now), "{now}");
        fs::write(&manifest, text.replace(now, other)).unwrap();
        fs::remove_file(sandbox.the_run().join("cuts.jsonl")).ok();
        let code = sandbox.durio("prove run --resume last").run().code();
        // More cuts than before are as good as any.
        let expected = if other.contains("99") { 0 } else { 3 };
        assert_eq!(code, expected, "{other}");
    }
}

#[test]
fn the_built_in_proofs_are_listed_and_shown_without_doing_anything() {
    let sandbox = Sandbox::new();
    sandbox.durio("prove plan").run().expect_exit(0).expect_stdout("  prove-smoke  ");
    let shown = sandbox.durio("prove plan prove-smoke --only reorders").run().expect_exit(0);
    shown.expect_stdout("4 series").expect_stdout("lost within 120");
    let plan = sandbox.durio("prove plan prove-smoke --format json").run().expect_exit(0).json();
    assert!(series(&plan).len() > 80);
    let schema = sandbox.durio("prove plan --schema").run().expect_exit(0).json();
    assert_eq!(schema["title"], "durio proof spec");
    assert!(sandbox.runs().is_empty());
}

#[test]
fn what_a_killed_proof_left_is_removed_by_the_next_one_and_what_lives_or_is_anothers_stays() {
    let sandbox = Sandbox::new();
    let temporary = sandbox.root().join("tmp");
    let folder = |name: &str| {
        let folder = temporary.join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    let dead = ["durio-one", "durio-two"].map(folder);
    for folder in &dead {
        drop(UnixListener::bind(folder.join("disk.sock")).unwrap());
    }
    let alive = folder("durio-alive").join("disk.sock");
    let _listener = UnixListener::bind(&alive).unwrap();
    let mine = folder("durio-mine").join("notes");
    fs::write(&mine, "mine").unwrap();
    let line = "prove run prove-smoke --only nbd/write-back/fdatasync --cuts 1 --seed 7";
    let mut ended = sandbox.durio(line).env("TMPDIR", &temporary).run();
    for left in &dead {
        ended = ended.expect_stderr(&format!("removed '{}'", left.display()));
    }
    assert!(alive.exists() && mine.exists());
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 2, "its own disks are gone too");
}
