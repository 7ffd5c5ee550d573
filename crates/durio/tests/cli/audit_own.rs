//! `durio audit` of durio's own runs: nothing is impossible, and each doubt is one that a reader of
//! the figures shares.
//!
//! The steps are as short as can be and the machine may be busy: both are what an audit has to bear.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, path::PathBuf, sync::Mutex, thread};

use rustix::process::Signal;
use serde_json::Value;

use crate::durio::Durio;
use crate::sandbox::Sandbox;

/// Findings that a short run on a busy machine may have, each with why a reader would share it.
const SHARED: [(&str, &str); 10] = [
    ("too-short", "the steps are milliseconds long"),
    ("tail-gap", "the slowest in ten thousand were that slow; other work on the machine does it"),
    ("stalls", "half a second was that slow"),
    ("system-time", "the kernel's time limits writes into memory and memory devices"),
    ("submission-blocks", "a full queue or a busy processor held the submitting call up"),
    ("page-cache", "buffered, and not synced: the file fits into memory"),
    ("depth-not-real", "read-ahead-as-published reads through the page cache by libaio"),
    ("durability-without-sync", "logs as they were published, without a sync"),
    ("unlike-database", "logs as they were published, 32 in flight"),
    ("no-preconditioning", "devices that were made for the test"),
];

/// A run that takes longer is stopped: what it has recorded by then is audited. Where a slow disk has
/// let it record nothing, it is made again with a longer wait, and then in memory.
const STOPPED_AFTER: [(Duration, fn() -> Sandbox); 3] = [
    (Duration::from_secs(5), Sandbox::new),
    (Duration::from_secs(25), Sandbox::new),
    (Duration::from_secs(25), Sandbox::in_memory),
];

/// A doubt that durio itself causes comes back with every run; one that other work on the machine
/// causes (a worker that waits for a processor is a shortfall) does not. The impossible counts at
/// once.
const RUNS_WITH_A_DOUBT: usize = 4;

/// Runs durio, and says what was impossible or is a doubt that nobody shares.
fn unreasonable(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..RUNS_WITH_A_DOUBT {
        let audited = STOPPED_AFTER.into_iter().find_map(|(stopped_after, sandbox)| {
            let sandbox = sandbox();
            run(sandbox.durio(line), stopped_after);
            of_folder(&sandbox, &sandbox.the_run())
        });
        found = audited.unwrap_or_else(|| panic!("{line}: no figures in minutes"));
        if found.is_empty() || found.iter().any(|it| it.starts_with("impossible")) {
            break;
        }
    }
    found.into_iter().map(|found| format!("durio {line}: {found}")).collect()
}

fn run(durio: Durio, stopped_after: Duration) {
    let begin = Instant::now();
    let mut running = durio.start();
    while running.is_alive() && begin.elapsed() < stopped_after {
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::INT);
    let ended = running.wait();
    // A stopped run, and a search without an answer, have figures too.
    assert!([0, 3, 130].contains(&ended.code()), "{}", ended.stderr);
}

/// What its audit finds; none if it has no results.
fn of_folder(sandbox: &Sandbox, folder: &Path) -> Option<Vec<String>> {
    let audit = sandbox.durio("audit --format json").word(folder).run();
    if audit.stderr.contains("has no results") {
        return None;
    }
    assert!([0, 1].contains(&audit.code()), "{}", audit.stderr);
    let document = audit.json();
    assert!(document["claims"].as_u64().unwrap() > 0, "{document}");
    let findings = document["findings"].as_array().unwrap().iter();
    Some(findings.filter(|finding| !is_shared(finding)).map(words).collect())
}

fn is_shared(finding: &Value) -> bool {
    let known = SHARED.iter().any(|(rule, _)| finding["rule"] == *rule);
    known && finding["tier"] != "impossible" && finding["tier"] != "shortfall"
}

fn words(finding: &Value) -> String {
    let text = |name: &str| finding[name].as_str().unwrap_or_default();
    format!("{} {} ({}): {}", text("tier"), text("rule"), finding["line"], text("reason"))
}

#[track_caller]
fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn batches_linked_syncs_and_full_queues_are_not_called_impossible() {
    let write = "run --target data --size 16M --duration 200ms --rw write";
    let lines = [
        format!("{write} --bs 256 --sync fdatasync --buffered --committers 8"),
        format!("{write} --bs 8k --sync linked_fdatasync --engine uring"),
        "run --target data --size 16M --duration 200ms --rw read --bs 256k --engine uring --jobs 2 \
         --depth 16"
            .to_owned(),
    ];
    assert_none(&lines.iter().flat_map(|line| unreasonable(line)).collect::<Vec<_>>());
}

/// Two at a time: the specs with the most steps take as long as all others.
fn unreasonable_of_all(lines: Vec<String>) -> Vec<String> {
    let (left, found) = (Mutex::new(lines), Mutex::new(Vec::new()));
    let work = || {
        while let Some(line) = { left.lock().unwrap().pop() } {
            found.lock().unwrap().extend(unreasonable(&line));
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    found.into_inner().unwrap()
}

#[test]
#[ignore = "slow"]
fn every_command_makes_runs_that_its_own_audit_believes() {
    let run = |options: &str| format!("run --target data --size 16M --duration 200ms {options}");
    let write = |options: &str| run(&format!("--rw write --bs 4k {options}"));
    let records = |options: &str| {
        run(&format!("--rw write --bs 256 --sync fdatasync --buffered --committers 8 {options}"))
    };
    let fio = |options: &str| format!("fio -- --name=job --size=8m --directory=data {options}");
    let profile = |name: &str| format!("run profile:{name} --target data --quick");
    let lines = [
        "check --quick data".to_owned(),
        "durable --quick data".to_owned(),
        "sweep --target data --rw randread --bs 4k --size 16M --duration 200ms --goal p99=5ms \
         --trials 5"
            .to_owned(),
        run("--rw randread --bs 4k"),
        run("--rw randread --bs 4k --engine uring --depth 16 --jobs 2 --ramp 100ms"),
        run("--rw randrw --mix 70 --bs 8k --engine uring --depth 8"),
        run("--rw randwrite --bs 4k --engine aio --depth 16"),
        run("--rw randread --bs 4k --rate 1000"),
        run("--rw randread --bs 4k --rate 20 --constant"),
        run("--rw read --bs 4k --buffered"),
        write("--sync fsync"),
        write("--sync o_dsync"),
        write("--sync rwf_dsync --buffered"),
        write("--sync linked_fsync --engine uring --depth 4"),
        write("--sync fdatasync --sync-every 16 --buffered"),
        write("--sync fdatasync --jobs 8"),
        records(""),
        records("--commit-delay 200us"),
        records("--committer-threads"),
        records("--rate 500"),
        "run --target data --size 16M --ops 1000 --rw randread --bs 4k --jobs 4".to_owned(),
        "run --target /dev/zero --rw randread --engine uring --depth 32 --ops 100000".to_owned(),
        fio("--rw=write --bs=8k --fdatasync=1"),
        fio("--rw=randread --bs=4k --runtime=1 --time_based --ioengine=io_uring --iodepth=8"),
        profile("postgresql"),
        profile("mysql"),
        profile("etcd"),
        profile("kafka"),
        profile("sqlite-rollback"),
        profile("scylladb"),
    ];
    assert_none(&unreasonable_of_all(lines.to_vec()));
}

#[test]
#[ignore = "slow"]
fn every_built_in_spec_makes_runs_that_its_own_audit_believes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/spec/specs");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let specs = entries.filter(|path| path.extension().is_some_and(|it| it == "toml"));
    let line = |path: PathBuf| {
        let name = path.file_stem().unwrap().display().to_string();
        format!("run {name} --target data --scale-time 0.001 --scale-size 0.001")
    };
    let lines: Vec<String> = specs.map(line).collect();
    assert!(lines.len() >= 27, "{lines:?}");
    assert_none(&unreasonable_of_all(lines));
}

#[test]
#[ignore = "slow"]
fn every_run_of_a_stack_bench_is_believed_by_its_own_audit() {
    if !crate::requirements::has(&["root", "losetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let files = sandbox.root().join("files");
    fs::create_dir(&files).unwrap();
    let text = format!(
        "schema = 1\nname = \"small\"\n[target]\nsize = \"4MiB\"\n[[stack]]\nname = \"one\"\n\
         layers = [{{ loop = {{ size = \"32MiB\", directory = \"{}\" }} }}, {{ ext4 = {{}} }}]\n\
         [defaults]\nduration = \"200ms\"\n[[step]]\nname = \"write\"\nreads = \"0%\"\n\
         [[step]]\nname = \"commit\"\nreads = \"0%\"\nsync = \"o_dsync\"\n",
        files.display()
    );
    fs::write(sandbox.root().join("small.toml"), text).unwrap();
    sandbox.durio("stack bench small.toml").run().expect_exit(0);
    let bench = sandbox.the_run();
    let inside = crate::sandbox::entries(&bench);
    let runs: Vec<_> = inside.iter().filter(|path| path.join("events.jsonl").exists()).collect();
    assert_eq!(runs.len(), 2, "the device and the filesystem: {inside:?}");
    assert_none(&runs.iter().flat_map(|run| of_folder(&sandbox, run).unwrap()).collect::<Vec<_>>());
}
