//! Command lines: every command with options that are drawn, their values good or mutated.
//!
//! Runs durio with each line and judges the result. `inputs` has the files that lines name.
//!
//! No line names anything outside the case, and measurements are small: a line that could write has
//! a size and a count, and names only targets in the case's folder.
//!
//! Also variables of the environment that durio or its libraries read, with invalid values.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;
use std::{fs, thread};

use anyhow::Result;

use super::WatchedCase;
use crate::attack::arena::{Arena, AttackCase, CAMPAIGN, write};
use crate::attack::launch::PseudoTerminal;
use crate::attack::mutate::token;
use crate::attack::random::Random;
use crate::attack::witness::faults;

/// The time limit of a command that measures for a moment, even on a busy machine.
const MEASURING_LIMIT: Duration = Duration::from_secs(30);

/// Memory that a job takes with its thread, its ring and its latencies: 4096 jobs of each engine took
/// 54 to 103 KiB each.
const JOB_BYTES: u64 = 128 << 10;

/// The start of a line, its fixed end, and the options that may be between them.
type CommandShape =
    (&'static str, &'static str, &'static [(&'static str, &'static [&'static str])]);

const NUMBERS: &[&str] = &["0", "1", "2", "7", "64", "4096", "65536"];
const SIZES: &[&str] = &["0", "1", "512", "4k", "4KiB", "1MiB", "4097", "16EiB"];
const TIMES: &[&str] = &["0s", "1ns", "10ms", "50ms"];
const FORMATS: &[&str] = &["text", "json", "html", "csv", "fio-json", "xml"];
const FLAG: &[&str] = &[];

const COMMANDS: [CommandShape; 12] = [
    (
        "run",
        "--quiet --target data --size 1MiB --ops 50",
        &[
            ("--rw", &["read", "write", "randrw", "randwrite"]),
            ("--bs", SIZES),
            ("--depth", NUMBERS),
            ("--jobs", NUMBERS),
            ("--engine", &["null", "sync", "uring", "aio"]),
            ("--mix", NUMBERS),
            ("--sync", &["none", "fsync", "o_dsync", "rwf_dsync", "linked_fsync"]),
            ("--batch", NUMBERS),
            ("--sync-every", NUMBERS),
            ("--rewrite", FLAG),
            ("--buffered", FLAG),
            ("--shared", FLAG),
            ("--share-each", FLAG),
            ("--cpus", &["0", "0-1", "0,0", "9999", "1-0"]),
            ("--node", NUMBERS),
            ("--no-self-cost", FLAG),
            ("--interval", TIMES),
            ("--ramp", TIMES),
            ("--format", FORMATS),
            ("--seed", NUMBERS),
            ("--clock", &["auto", "tsc", "monotonic"]),
            ("--out", &["out"]),
            ("--trace-path", FLAG),
            ("--destroy", &["data", "nothing"]),
        ],
    ),
    (
        "run",
        "--quiet --engine null --ops 200",
        &[
            ("--rate", NUMBERS),
            ("--constant", FLAG),
            ("--null-latency", &["1us", "1us,5ms", "0s"]),
            ("--null-fails-at", NUMBERS),
            ("--jobs", NUMBERS),
            ("--depth", NUMBERS),
            ("--bs", SIZES),
            ("--interval", TIMES),
            ("--committers", NUMBERS),
            ("--committer-threads", FLAG),
            ("--commit-delay", TIMES),
            ("--commit-siblings", NUMBERS),
            ("--batch-max", SIZES),
            ("--pad-to", SIZES),
            ("--no-double-buffer", FLAG),
            ("--sync", &["fsync", "o_dsync"]),
            ("--rw", &["write", "read"]),
            ("--format", FORMATS),
            ("--size", SIZES),
        ],
    ),
    (
        "sweep",
        "--quiet --engine null --trials 2 --duration 100ms",
        &[
            ("--goal", &["p99=2ms", "p0=1s", "p100=0s", "p99.99999=1ns", "x"]),
            ("--from", NUMBERS),
            ("--precision", NUMBERS),
            ("--equally-spaced", FLAG),
            ("--format", FORMATS),
        ],
    ),
    (
        "check",
        "--quiet --size 2MiB --duration 100ms data",
        &[
            ("--workload", &["commit", "lookup", "scan", "mixed", "x"]),
            ("--quick", FLAG),
            ("--database", &["postgresql", "etcd", "x"]),
            ("--format", FORMATS),
            ("--seed", NUMBERS),
        ],
    ),
    (
        "plan",
        "small.toml",
        &[
            ("--target", &["data", "data=data", "x=data", "=", "data="]),
            ("--scale-time", NUMBERS),
            ("--scale-size", NUMBERS),
            ("--quick", FLAG),
            ("--confirm-steps", NUMBERS),
            ("--duration", TIMES),
            ("--size", SIZES),
            ("--format", FORMATS),
            ("--schema", FLAG),
        ],
    ),
    (
        "stack plan",
        "loop-layers",
        &[
            ("--only", &["ext4-on-loop", "x"]),
            ("--scale-time", NUMBERS),
            ("--scale-size", NUMBERS),
            ("--confirm-steps", NUMBERS),
            ("--destroy", &["data", "/dev/nothing"]),
            ("--format", FORMATS),
        ],
    ),
    ("stack show", "data", &[("--format", FORMATS), ("--root", &["data", "."])]),
    (
        "advise",
        "data",
        &[
            ("--database", &["postgresql", "x"]),
            ("--role", &["log", "data", "scan"]),
            ("--all", FLAG),
            ("--rule", NUMBERS),
            ("--setting", &["commit_delay=100", "=", "x"]),
            ("--format", FORMATS),
        ],
    ),
    ("profile show", "postgresql", &[("--format", FORMATS)]),
    (
        "fio",
        "--plan --name=x --directory=data --size=1m",
        &[
            ("--rw", &["read", "randwrite"]),
            ("--bs", SIZES),
            ("--iodepth", NUMBERS),
            ("--numjobs", NUMBERS),
            ("--runtime", NUMBERS),
            ("--ioengine", &["libaio", "sync", "x"]),
            ("--rwmixread", NUMBERS),
            ("--nrfiles", NUMBERS),
            ("--rate_iops", NUMBERS),
        ],
    ),
    ("completions", "", &[("bash", FLAG), ("zsh", FLAG)]),
    ("help", "", &[("run", FLAG), ("stack", FLAG)]),
];

pub(super) fn command_line(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    fs::write(case.path("small.toml"), CAMPAIGN)?;
    let (begin, end, options) = random.pick(&COMMANDS);
    let mut words: Vec<String> = begin.split(' ').map(str::to_owned).collect();
    for _ in 0..random.below(6) {
        words.extend(option(&random.pick(options), end, random));
    }
    words.extend(end.split_whitespace().map(str::to_owned));
    let mut launch = case.durio("").limit(MEASURING_LIMIT);
    for word in words.iter().filter(|word| !word.contains('\0')) {
        launch = launch.word(word);
    }
    let watched = WatchedCase::begin(&case);
    let mut ended = launch.run()?;
    // Memory for the requested number of jobs is expected.
    ended.peak = ended.peak.saturating_sub(most_jobs(&words) * JOB_BYTES);
    Ok(watched.judge(&ended))
}

/// The most jobs that any word of the line can request; durio refuses more than fio's 4096.
fn most_jobs(words: &[String]) -> u64 {
    let number = |word: &String| word.trim_start_matches("--jobs=").parse::<u64>().ok();
    let numbers = words.iter().filter_map(number).filter(|&jobs| jobs <= 4096);
    if words.iter().any(|word| word.starts_with("--jobs")) { numbers.max().unwrap_or(0) } else { 0 }
}

/// An option and its value, which is invalid one time in three.
fn option(
    (name, values): &(&'static str, &'static [&'static str]),
    end: &str,
    random: &mut Random,
) -> Vec<String> {
    // Options that keep the line harmless are given once, by us.
    if end.contains(name) {
        return Vec::new();
    }
    let is_path = ["--destroy", "--out", "--root", "--target"].contains(name);
    let value = match values.is_empty() {
        true => return vec![(*name).to_owned()],
        false if !is_path && random.once_in(3) => token(random).to_owned(),
        false => random.pick(values).to_owned(),
    };
    match random.once_in(2) && name.starts_with("--") {
        true => vec![format!("{name}={value}")],
        false => vec![(*name).to_owned(), value],
    }
}

/// The exit code of `durio lab` without a kernel or QEMU, as documented in its help.
const LAB_FAILED: i32 = 125;

const ENVIRONMENT_COMMANDS: [&str; 8] = [
    "run --engine null --ops 20",
    "report run",
    "report --format html run",
    "stack show data",
    "advise data",
    "plan",
    "help run",
    "lab kernels",
];

const TEXTS: [&str; 13] = [
    "TERM",
    "COLUMNS",
    "LINES",
    "LANG",
    "LC_ALL",
    "NO_COLOR",
    "FORCE_COLOR",
    "TZ",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "DURIO_LAB_OUT",
    "DURIO_TEST",
    "CI",
];
const FOLDERS: [&str; 6] =
    ["HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR", "PATH", "DURIO_KERNELS"];

pub(super) fn environment(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let case = arena.case()?;
    write(&random.pick(&arena.corpus()?.runs), &case.path("run"))?;
    fs::write(case.path("file"), "the user's\n")?;
    let mut launch = case.durio(random.pick(&ENVIRONMENT_COMMANDS)).limit(Duration::from_secs(10));
    for _ in 0..=random.below(3) {
        launch = match random.once_in(2) {
            true => launch.env(random.pick(&TEXTS), text(random)),
            false => launch.env(random.pick(&FOLDERS), folder(&case, random)),
        };
    }
    let watched = WatchedCase::begin(&case);
    let ended = launch.run()?;
    Ok(watched.judge_but(&ended, &[LAB_FAILED]))
}

/// On a terminal that announces no capabilities, or for a user who wants no colours.
pub(super) fn dumb_terminal(
    arena: &Arena,
    number: usize,
    random: &mut Random,
) -> Result<Vec<String>> {
    const ENVIRONMENT_COMMANDS: [&str; 6] = [
        "report nothing",
        "run --engine nothing",
        "nothing",
        "help",
        "plan nothing",
        "run --engine null --ops 20",
    ];
    const VARIABLES: [(&str, &str); 3] = [("TERM", "dumb"), ("NO_COLOR", "1"), ("TERM", "")];
    let case = arena.case()?;
    let (name, value) = VARIABLES[number % VARIABLES.len()];
    let term = if name == "TERM" { value } else { "xterm-256color" };
    let launch = case.durio(random.pick(&ENVIRONMENT_COMMANDS)).env("TERM", term).env(name, value);
    let (window, running) = PseudoTerminal::start(launch)?;
    let reader = thread::spawn(|| window.read_to_end());
    let mut wrong = faults(&running.wait(Duration::from_secs(10))?);
    let printed = reader.join().unwrap_or_default();
    // A user without colours may still have a terminal whose cursor moves.
    let ends = if name == "TERM" { None } else { Some(b'm') };
    if has_escape(&printed, ends) {
        wrong.push(format!("escapes with {name}={value}"));
    }
    Ok(wrong)
}

/// True if there is an escape; if `ends` is given, one with parameters (ECMA-48, CSI) that ends so.
fn has_escape(printed: &[u8], ends: Option<u8>) -> bool {
    let mut escapes = printed.split(|byte| *byte == 0x1b).skip(1);
    escapes.any(|rest| match (ends, rest) {
        (Some(end), [b'[', rest @ ..]) => {
            rest.iter().find(|byte| (0x40..=0x7e).contains(*byte)) == Some(&end)
        }
        _ => true,
    })
}

fn text(random: &mut Random) -> OsString {
    match random.below(6) {
        0 => OsString::from_vec(vec![0xff, 0xfe, b'x']),
        1 => "dumb".into(),
        // Linux starts no program with a variable of more than 128 KiB (MAX_ARG_STRLEN).
        2 => "x".repeat(random.below(60_000)).into(),
        _ => token(random).into(),
    }
}

/// A folder of the case, or a path that is not a folder: nothing writable belongs to others.
fn folder(case: &AttackCase, random: &mut Random) -> OsString {
    match random.below(7) {
        0 => OsString::new(),
        1 => "/dev/null".into(),
        2 => "/proc/nothing".into(),
        3 => case.path("file").into(),
        4 => case.path("state").join("x".repeat(200)).into(),
        5 => OsString::from_vec(
            [case.path("state/").into_os_string().into_vec(), vec![0xff]].concat(),
        ),
        _ => case.path("state/\u{1b}[31m<b>#;").into(),
    }
}
