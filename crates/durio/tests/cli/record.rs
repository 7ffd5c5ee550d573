//! A record that was damaged: cut anywhere, with bytes turned over, with rubbish. `report` shows
//! what can be read or says why not; it never panics (every run here asserts that).

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::durio::Ended;
use crate::requirements::has;
use crate::sandbox::{Sandbox, copy_folder};
use crate::seeded::Seeded;

const TIMES: usize = 50;

/// A run with ramp, intervals, several jobs and every kind of operation.
fn made_run(sandbox: &Sandbox) -> PathBuf {
    let line = "run --quiet --engine null --rw randrw --jobs 2 --depth 2 --sync fdatasync \
                --null-latency 100us,300us,2ms --duration 500ms --ramp 100ms --interval 100ms";
    sandbox.durio(line).run().expect_exit(0);
    sandbox.the_run()
}

fn report(sandbox: &Sandbox, run: &Path) -> Ended {
    sandbox.durio("report --format json").word(run).run()
}

/// Reads a folder in which `name` is `bytes`.
#[track_caller]
fn report_with(sandbox: &Sandbox, run: &Path, name: &str, bytes: &[u8], about: &str) -> Ended {
    fs::write(run.join(name), bytes).unwrap();
    let ended = report(sandbox, run);
    let code = ended.code();
    assert!(code == 0 || code == 3, "{name} {about}: {code}\n{}", ended.stderr);
    if code == 0 {
        ended.json();
    } else {
        assert!(ended.stderr.starts_with("durio: "), "{name} {about}: {}", ended.stderr);
    }
    ended
}

#[test]
fn a_record_cut_anywhere_is_read_as_far_as_it_goes() {
    let mut seeded = Seeded::new();
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    // A killed run ends after a whole event; a histogram that an event refers to must be there.
    for (name, times) in [("events.jsonl", TIMES), ("histograms.hlog", TIMES / 4)] {
        let whole = fs::read(run.join(name)).unwrap();
        for _ in 0..times {
            let length = seeded.below(whole.len());
            let about = format!("cut to {length} bytes");
            let is_whole_event = name == "events.jsonl" && whole[..length].ends_with(b"\n");
            let code =
                if is_whole_event || (name == "events.jsonl" && length == 0) { 0 } else { 3 };
            let ended = report_with(&sandbox, &run, name, &whole[..length], &about);
            let document = ended.expect_exit(code).json();
            assert_eq!(document["state"], "partial", "{name} {about}");
            let errors = document["errors"].as_array().unwrap();
            assert_eq!(errors.is_empty(), code == 0, "{name} {about}: {errors:?}");
            let says = |error: &Value| error.as_str().unwrap().contains("bytes are left out");
            assert!(errors.iter().all(says), "{name} {about}: {errors:?}");
        }
        fs::write(run.join(name), &whole).unwrap();
    }
    assert_eq!(report(&sandbox, &run).expect_exit(0).json()["state"], "complete");
}

#[test]
fn a_record_with_bytes_turned_over_is_read_or_refused() {
    let mut seeded = Seeded::new();
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let names = ["events.jsonl", "histograms.hlog", "run.json", "plan.json", "environment.json"];
    for name in names {
        let whole = fs::read(run.join(name)).unwrap();
        for _ in 0..TIMES / 5 {
            let mut bytes = whole.clone();
            let position = seeded.below(bytes.len());
            bytes[position] ^= 1 << seeded.below(8);
            report_with(&sandbox, &run, name, &bytes, &format!("bit turned at {position}"));
        }
        fs::write(run.join(name), &whole).unwrap();
    }
}

/// Replaces each number of each kind of event, one after the other, by a hostile one.
#[test]
fn numbers_that_no_run_would_give_do_not_end_in_a_panic() {
    let mut seeded = Seeded::new();
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let whole = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let hostile =
        [json!(0), json!(u64::MAX), json!(u64::MAX / 2), json!(1), json!(-1), json!(1e300)];
    let mut kinds: Vec<String> = Vec::new();
    for (number, line) in whole.lines().enumerate() {
        let event: Value = serde_json::from_str(line).unwrap();
        let kind = event["event"].as_str().unwrap().to_owned();
        if kinds.contains(&kind) {
            continue;
        }
        kinds.push(kind);
        for path in numbers_in(&event, "") {
            let mut event = event.clone();
            *event.pointer_mut(&path).unwrap() = hostile[seeded.below(hostile.len())].clone();
            let changed = event.to_string();
            let replace = |(at, line)| if at == number { changed.as_str() } else { line };
            let lines: Vec<&str> = whole.lines().enumerate().map(replace).collect();
            let text = lines.join("\n") + "\n";
            let about = format!("line {number}: {changed}");
            report_with(&sandbox, &run, "events.jsonl", text.as_bytes(), &about);
        }
    }
    assert!(kinds.len() >= 5, "{kinds:?}");
}

#[test]
fn a_step_on_a_target_that_the_plan_does_not_have_is_refused() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let mut plan: Value =
        serde_json::from_slice(&fs::read(run.join("plan.json")).unwrap()).unwrap();
    plan["steps"][0]["target"] = json!(99);
    let text = plan.to_string();
    report_with(&sandbox, &run, "plan.json", text.as_bytes(), "target 99").expect_exit(3);
}

/// JSON pointers of all numbers.
fn numbers_in(value: &Value, path: &str) -> Vec<String> {
    match value {
        Value::Number(_) => vec![path.to_owned()],
        Value::Array(items) => {
            let within = items.iter().enumerate().take(1);
            within.flat_map(|(at, item)| numbers_in(item, &format!("{path}/{at}"))).collect()
        }
        Value::Object(fields) => {
            let within = fields.iter();
            within.flat_map(|(name, item)| numbers_in(item, &format!("{path}/{name}"))).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn events_of_a_newer_durio_are_passed_over() {
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let before = report(&sandbox, &run).expect_exit(0).json();
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let (first, rest) = events.split_once('\n').unwrap();
    let strange = r#"{"at_ns":5,"event":"moon_phase","phase":{"full":true}}"#;
    fs::write(run.join("events.jsonl"), format!("{first}\n{strange}\n{rest}")).unwrap();
    assert_eq!(report(&sandbox, &run).expect_exit(0).expect_no_stderr().json(), before);
}

#[test]
fn rubbish_of_a_hundred_mebibytes_is_not_taken_into_memory() {
    if !has(&["prlimit"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let run = made_run(&sandbox);
    let rubbish = [
        ("events.jsonl", b'x'),
        ("events.jsonl", b'\n'),
        ("events.jsonl", 0),
        ("histograms.hlog", b'x'),
    ];
    for (number, (name, byte)) in rubbish.into_iter().enumerate() {
        let copy = sandbox.root().join(format!("rubbish {number}"));
        copy_folder(&run, &copy);
        let mut file = File::create(copy.join(name)).unwrap();
        let mebibyte = vec![byte; 1 << 20];
        (0..100).for_each(|_| file.write_all(&mebibyte).unwrap());
        drop(file);
        let limited = sandbox.durio("report --format json").word(&copy);
        let ended = limited.within(["prlimit", "--as=536870912"]).run();
        assert!([0, 3].contains(&ended.code()), "{name} of {byte}: {}", ended.stderr);
        fs::remove_dir_all(copy).unwrap();
    }
}
