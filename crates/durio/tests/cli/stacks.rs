//! Stacks that are planned, built on loop devices, measured, and taken down whatever happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::{Durio, Ended};
use crate::loops::sh;
use crate::requirements::has;
use crate::sandbox::{Sandbox, entries};

const NEEDED: [&str; 3] = ["root", "losetup", "mkfs.ext4"];

/// Two stacks on loop devices whose files are in the sandbox; the first one's ext4 has these keys.
fn spec(sandbox: &Sandbox, ext4: &str, duration: &str) -> PathBuf {
    let files = sandbox.root().join("files");
    fs::create_dir_all(&files).unwrap();
    let text = format!(
        r#"
schema = 1
name = "small"
self_cost = false
[target]
size = "4MiB"
[[stack]]
name = "first"
layers = [
    {{ loop = {{ size = "32MiB", directory = "{files}" }} }},
    {{ ext4 = {{ {ext4} }} }},
]
[[stack]]
name = "second"
layers = [{{ loop = {{ size = "32MiB", directory = "{files}" }} }}, {{ ext4 = {{}} }}]
[defaults]
duration = "{duration}"
[[step]]
name = "write"
reads = "0%"
[[step]]
name = "commit"
reads = "0%"
sync = "o_dsync"
"#,
        files = files.display()
    );
    let path = sandbox.root().join("small.toml");
    fs::write(&path, text).unwrap();
    path
}

fn bench(sandbox: &Sandbox, spec: &Path) -> Durio {
    sandbox.durio("stack bench").word(spec)
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("bench.json")).unwrap()).unwrap()
}

fn states(manifest: &Value) -> Vec<String> {
    let stacks = manifest["stacks"].as_array().unwrap();
    let of = |stack: &Value| {
        let layers = stack["layers"].as_array().unwrap();
        layers.iter().map(|layer| layer["state"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    stacks.iter().map(of).collect()
}

/// No file, loop device, mount or journal of the sandbox's benches is there.
#[track_caller]
fn assert_nothing_is_left(sandbox: &Sandbox) {
    assert_eq!(entries(&sandbox.root().join("files")), [""; 0].map(PathBuf::from));
    assert_eq!(entries(&sandbox.state().join("durio/stacks")), [""; 0].map(PathBuf::from));
    let place = sandbox.root().display().to_string();
    assert!(!sh("losetup -a").contains(&place));
    for run in sandbox.runs().iter().filter(|run| run.join("bench.json").exists()) {
        for stack in manifest(run)["stacks"].as_array().unwrap() {
            for layer in stack["layers"].as_array().unwrap() {
                if let Some(mount) = layer["mount"].as_str() {
                    assert!(!Path::new(mount).exists(), "{mount}");
                }
            }
        }
    }
}

#[test]
fn a_plan_shows_every_command_with_its_undo_and_builds_nothing() {
    let sandbox = Sandbox::new();
    let path = spec(&sandbox, "", "1m");
    let ended = sandbox.durio("stack plan").word(&path).run().expect_exit(0).expect_no_stderr();
    let ended = ended.expect_stdout("mkfs.ext4").expect_stdout("undo: ");
    let whole = ended.expect_stdout("stack 2 of 2: second").text();
    assert!(!whole.contains("of the spec's"), "{whole}");
    let json = sandbox.durio("stack plan --format json").word(&path).run().expect_exit(0).json();
    // Two stacks with two points each of two steps of a minute.
    assert_eq!(json["measured_ns"], 8 * 60_000_000_000_u64);
    assert!(json["stacks"][0]["layers"][1]["commands"].to_string().contains("mkfs.ext4"));
    let only = "stack plan --format json --only second --scale-time 0.5";
    let json = sandbox.durio(only).word(&path).run().expect_exit(0).json();
    assert_eq!(json["measured_ns"], 2 * 60_000_000_000_u64);
    assert_eq!(json["stacks"][0]["declared"]["name"], "second");
    let line = "times are 0.5 and sizes 1 of the spec's: results will be provisional\n";
    sandbox.durio("stack plan --scale-time 0.5").word(&path).run().expect_stdout(line);
    assert_eq!(entries(&sandbox.root().join("files")), [""; 0].map(PathBuf::from));
}

#[test]
fn a_quick_plan_has_steps_of_about_1_s_and_devices_of_320_mib_unless_its_own_are_smaller() {
    let sandbox = Sandbox::new();
    let plan = |options: &str, spec: &Path| {
        let line = format!("stack plan --format json {options}");
        let json = sandbox.durio(&line).word(spec).run().expect_exit(0).expect_no_stderr().json();
        let size = &json["stacks"][0]["declared"]["layers"][0]["size_bytes"];
        (json["measured_ns"].as_u64().unwrap(), size.as_u64().unwrap() >> 20)
    };
    // Three steps on 12 points: 10 s and a ramp of 500 ms, 1 s and the least ramp, 100 ms.
    let shipped = Path::new("loop-layers");
    assert_eq!(plan("", shipped), (36 * 10_500_000_000, 512));
    assert_eq!(plan("--quick", shipped), (36 * 1_100_000_000, 320));
    let ended = sandbox.durio("stack plan --quick").word(shipped).run().expect_exit(0);
    let line = "times are 0.1 and sizes 0.625 of the spec's: results will be provisional\n";
    ended.expect_stdout(line);
    // Eight steps of 60 s times 17 thousandths; a spec that is quick already stays as it is.
    let long = spec(&sandbox, "", "1m");
    assert_eq!(plan("--quick", &long), (8 * 1_020_000_000, 32));
    assert_eq!(plan("--quick --only first", &long), (4 * 1_020_000_000, 32));
    let short = spec(&sandbox, "", "1s");
    assert_eq!(plan("--quick", &short), (8 * 1_000_000_000, 32));
}

#[test]
fn every_spec_that_durio_brings_along_is_listed_and_planned() {
    let sandbox = Sandbox::new();
    let listed = sandbox.durio("stack plan").run().expect_exit(0);
    for name in ["raid-10-flagship", "ram-layers", "raid-modes", "loop-layers", "lab-suite"] {
        assert!(listed.text().contains(name), "{}", listed.text());
        sandbox.durio("stack plan").word(name).run().expect_exit(0).expect_no_stderr();
        sandbox.durio("stack plan --quick").word(name).run().expect_exit(0).expect_no_stderr();
    }
    // A folder of that name, such as one with results, is not what is meant.
    fs::create_dir(sandbox.root().join("raid-modes")).unwrap();
    sandbox.durio("stack plan raid-modes").run().expect_exit(0);
    sandbox.durio("stack plan .").run().expect_exit(3).expect_stderr("it is a folder");
}

#[test]
fn what_is_wrong_with_a_spec_is_told_with_its_line() {
    let sandbox = Sandbox::new();
    let path = spec(&sandbox, "mkfs = [\"-L\", 3]", "1s");
    let refused = |line: &str, expected: &str| {
        let ended = sandbox.durio(line).word(&path).run().expect_exit(2);
        assert!(ended.stderr.contains(expected), "{line}: {}", ended.stderr);
    };
    refused("stack plan", "small.toml:11:30: mkfs: expected a text in quotes");
    let path = spec(&sandbox, "mkfs = [\"-J\", \"device=/dev/loop7\"]", "1s");
    for line in ["stack plan", "stack bench"] {
        let place = "small.toml:11:30: mkfs: mkfs.ext4 is not given 'device=/dev/loop7'";
        let ended = sandbox.durio(line).word(&path).run().expect_exit(2).expect_stderr(place);
        ended.expect_stderr("allowed are size, fast_commit_size, location");
    }
    let path = spec(&sandbox, "", "1s");
    let refused = |line: &str, expected: &str| {
        let ended = sandbox.durio(line).word(&path).run().expect_exit(2);
        assert!(ended.stderr.contains(expected), "{line}: {}", ended.stderr);
    };
    refused("stack plan --only third", "its stacks are first, second");
    refused("stack bench --format fio-json", "fio-json is not supported here");
    refused("stack plan --format html", "html is not supported here");
    refused("stack bench --destroy /dev/null", "names no device");
    refused("stack bench --memory 4GiB", "need --lab");
    let text = fs::read_to_string(&path).unwrap();
    let loops = text.split_once("{ loop = ").unwrap().1.split_once('\n').unwrap().0;
    let device =
        text.replacen(&format!("{{ loop = {loops}"), "{ device = { path = \"/dev/no\" } },", 1);
    fs::write(&path, device).unwrap();
    refused("stack bench", "whatever is on '/dev/no' would be lost");
    refused("stack bench", "--destroy /dev/no");
    fs::write(&path, text).unwrap();
    refused("stack bench --lab --clock tsc", "--clock");
    refused("stack bench --lab --destroy /dev/null", "--destroy");
    for other in ["--scale-time", "--scale-size"] {
        let both = format!("'--quick' cannot be used with '{other} <FACTOR>'");
        for command in ["stack plan", "stack bench", "stack bench --lab"] {
            refused(&format!("{command} --quick {other} 0.5"), &both);
        }
    }
    refused("stack plan --scale-size 0.01", "--scale-size");
    sandbox.durio("stack plan nothing").run().expect_exit(2);
}

#[test]
fn who_is_not_root_is_told_so_before_anything_is_made() {
    if !has(&["root", "setpriv"]) {
        return;
    }
    let sandbox = Sandbox::for_everyone();
    let path = spec(&sandbox, "", "1s");
    let ended = sandbox.durio_as_nobody("stack bench").word(&path).run().expect_exit(3);
    assert!(ended.stderr.contains("root") && ended.stderr.contains("--lab"), "{}", ended.stderr);
    assert_eq!(sandbox.runs(), [""; 0].map(PathBuf::from));
}

#[test]
fn stacks_on_loop_devices_are_measured_layer_by_layer_and_taken_down() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = spec(&sandbox, "", "100ms");
    let ended = bench(&sandbox, &path).run().expect_exit(0);
    let ended = ended.expect_stdout("one run: durio report ").expect_stdout("01-first-loop");
    let first = ended.text().lines().next().unwrap_or_default().to_owned();
    assert!(first.contains(" is the fastest of 2 stacks on loop devices in "), "{first}");
    let lines = ended.text().lines().count();
    assert!(lines <= 30, "{lines} lines: {}", ended.text());
    let place = sandbox.root().join("files").display().to_string();
    let text = ended.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("devices: loop devices of 32 MiB in {place}")), "{text}");
    assert!(text.contains("devices that durio made (files) are not your storage."), "{text}");
    assert!(!ended.stderr.contains("layer 3 of 2"), "{}", ended.stderr);
    assert!(ended.stderr.contains("stack 2 of 2, second, layer 2 of 2: ext4"), "{}", ended.stderr);
    assert_nothing_is_left(&sandbox);
    let folder = sandbox.the_run();
    let manifest = manifest(&folder);
    assert_eq!(states(&manifest), ["measured measured", "measured measured"]);
    assert_eq!(manifest["stacks"][1]["tear_down"]["state"], "done");
    assert!(manifest["stacks"][0]["layers"][1]["commands"].to_string().contains("mkfs.ext4"));
    for run in ["01-first-loop", "02-first-ext4", "03-second-loop", "04-second-ext4"] {
        let document = sandbox
            .durio("report --format json")
            .word(folder.join(run))
            .run()
            .expect_exit(0)
            .json();
        let workloads = document["workloads"].as_array().unwrap();
        assert_eq!(workloads.len(), 2, "{run}");
        assert!(workloads.iter().all(|it| it["iops"].as_f64().unwrap() > 0.0), "{run}");
        // Of the device as much as of the file.
        assert!(document.to_string().contains("4194304"), "{run}");
    }
    let again = sandbox.durio("report").word(&folder).run().expect_exit(0);
    assert_eq!(again.text(), ended.text());
    let whole = sandbox.durio("report --verbose").word(&folder).run().expect_exit(0);
    whole.expect_stdout("BENCH small: complete").expect_stdout("02-first-ext4");
    let json = sandbox.durio("report --format json").word(&folder).run().expect_exit(0).json();
    assert_eq!(json["schema"], "durio-stack-findings-1");
    assert_eq!(json["points"].as_array().unwrap().len(), 4);
    let rows = json["workloads"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(
        rows.iter().all(|row| row["figures"]["share_of_raw"].as_f64().unwrap() > 0.0),
        "{json}"
    );
    let page = sandbox.durio("report --format html").word(&folder).run().expect_exit(0);
    assert_eq!(page.text(), std::fs::read_to_string(folder.join("report.html")).unwrap());
    a_comparison_is_shown_again_from_its_folder(&sandbox, &folder);
}

#[test]
fn a_quick_bench_has_short_steps_and_says_that_its_results_are_provisional() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = spec(&sandbox, "", "4s");
    let ended = bench(&sandbox, &path).word("--quick").run().expect_exit(0);
    let text = ended.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("PROVISIONAL durations are 25 % of what the campaign says"), "{text}");
    assert!(text.contains("results are final only from 300 s on"), "{text}");
    let lines = ended.text().lines().count();
    assert!(lines <= 30, "{lines} lines: {}", ended.text());
    assert_nothing_is_left(&sandbox);
    let folder = sandbox.the_run();
    let manifest = manifest(&folder);
    let scales = ["time_scale_per_mille", "size_scale_per_mille"].map(|key| manifest[key].as_u64());
    assert_eq!(scales, [Some(250), Some(1000)]);
    let json = sandbox.durio("report --format json").word(&folder).run().expect_exit(0).json();
    let reason = json["provisional"].as_str().unwrap();
    assert!(reason.starts_with("durations are 25 % of what the campaign says; "), "{reason}");
    let point = folder.join("04-second-ext4");
    let run = sandbox.durio("report --format json").word(point).run().expect_exit(0).json();
    for workload in run["workloads"].as_array().unwrap() {
        let measured = workload["measured_ns"].as_u64().unwrap();
        assert!((900_000_000..4_000_000_000).contains(&measured), "{measured}");
    }
}

/// Of two turns with the same bench, which differ in nothing and are not judged.
fn a_comparison_is_shown_again_from_its_folder(sandbox: &Sandbox, bench: &Path) {
    let folder = sandbox.root().join("comparison");
    fs::create_dir(&folder).unwrap();
    for turn in ["a1", "b1"] {
        sh(&format!("cp -a '{}' '{}'", bench.display(), folder.join(turn).display()));
    }
    let manifest = r#"{"schema": 1, "comparison": "c", "durio_version": "0", "started": "",
        "command": [], "kernels": ["x", "y"], "repeats": 3, "seed": 1, "benches": [
        {"side": "a", "repeat": 1, "folder": "a1"}, {"side": "b", "repeat": 1, "folder": "b1"}]}"#;
    fs::write(folder.join("lab-compare.json"), manifest).unwrap();
    let report = |format: &str| sandbox.durio(&format!("report --format {format}")).word(&folder);
    let text = report("text").run().expect_exit(0);
    text.expect_stdout("one run per side; use --repeat N to find out").expect_stdout("1.000");
    let json = report("json").run().expect_exit(0).json();
    let layers = json["workloads"][0]["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 4);
    assert!(layers.iter().all(|it| it["ratio"] == 1.0 && it["change"] == "undecided"), "{json}");
    report("html").run().expect_exit(0).expect_stdout("<svg");
    report("csv").run().expect_exit(0).expect_stdout("context_switches_per_operation_a");
    report("fio-json").run().expect_exit(2).expect_stderr("fio-json is not supported here");
    fs::remove_dir_all(folder.join("b1")).unwrap();
    report("text").run().expect_exit(3).expect_no_stdout();
}

#[test]
fn a_stack_that_cannot_be_built_is_told_and_the_next_one_is_measured() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = spec(&sandbox, "mkfs = [\"-I\", \"100\"]", "100ms");
    let ended = bench(&sandbox, &path).word("--quiet").run().expect_exit(3);
    ended.expect_stdout("mkfs.ext4").expect_stdout("inode size");
    let manifest = manifest(&sandbox.the_run());
    assert_eq!(states(&manifest), ["measured failed", "measured measured"]);
    assert_eq!(manifest["outcome"], "failed");
    assert_nothing_is_left(&sandbox);
}

/// `stack clean` finds nothing but kernel traces, which belong to the machine: those of other tests.
#[track_caller]
fn assert_clean_finds_nothing(sandbox: &Sandbox) {
    let ended = sandbox.durio("stack clean").run().expect_exit(0);
    let shown = ended.text();
    let foreign = |line: &str| line.starts_with("removed the kernel trace ");
    let rest: Vec<&str> = shown.lines().filter(|line| !line.is_empty() && !foreign(line)).collect();
    let only_traces = rest.is_empty() && shown.lines().any(foreign);
    assert!(only_traces || shown.contains("no bench left anything"), "{shown}");
}

/// Ends a bench by a signal while it measures the filesystem of its first stack.
fn stopped(sandbox: &Sandbox, signal: Signal) -> Ended {
    let path = spec(sandbox, "", "20s");
    // The raw points would take as long.
    let text = fs::read_to_string(&path).unwrap();
    let without = text.replace("32MiB\", directory", "32MiB\", measured = false, directory");
    fs::write(&path, without).unwrap();
    let mut running = bench(sandbox, &path).start();
    let begin = Instant::now();
    while !sandbox.runs().first().is_some_and(|run| run.join("01-first-ext4/run.json").exists()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}", running.stderr());
        if !running.is_alive() {
            let ended = running.wait();
            panic!("it ended by itself:\n{}{}", ended.stderr, ended.text());
        }
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(100));
    running.signal(signal);
    running.wait_at_most(Duration::from_secs(60))
}

#[test]
fn an_interrupt_takes_everything_down_and_leaves_a_folder_that_says_so() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    let ended = stopped(&sandbox, Signal::INT).expect_exit(130);
    ended.expect_stdout("INTERRUPTED");
    assert_nothing_is_left(&sandbox);
    let manifest = manifest(&sandbox.the_run());
    assert_eq!(manifest["outcome"], "interrupted");
    assert_eq!(states(&manifest), ["built partial", "waiting waiting"]);
    sandbox.durio("report").word(sandbox.the_run()).run().expect_exit(0);
    assert_clean_finds_nothing(&sandbox);
}

#[test]
fn after_a_kill_clean_takes_down_the_rest() {
    if !has(&NEEDED) {
        return;
    }
    let sandbox = Sandbox::new();
    assert_eq!(stopped(&sandbox, Signal::KILL).code(), 137);
    assert!(!entries(&sandbox.root().join("files")).is_empty(), "it was killed with a stack there");
    let listed = sandbox.durio("report").word(sandbox.the_run()).run().expect_exit(0);
    listed.expect_stdout("PARTIAL: still running, or killed");
    let ended = sandbox.durio("stack clean").run().expect_exit(0);
    ended.expect_stdout("stack 'first'").expect_stdout("taken down");
    assert_nothing_is_left(&sandbox);
    assert_clean_finds_nothing(&sandbox);
}
