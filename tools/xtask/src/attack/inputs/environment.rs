//! The environment: variables that durio or its libraries read, with invalid values.
//!
//! Nothing outside the case can be written: folders are in the case, or cannot exist.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::WatchedCase;
use crate::attack::arena::{Arena, AttackCase};
use crate::attack::corpus::write;
use crate::attack::mutate::token;
use crate::attack::random::Random;
use crate::attack::terminal::PseudoTerminal;
use crate::attack::verdict::faults;

/// The exit code of `durio lab` without a kernel or QEMU, as documented in its help.
const LAB_FAILED: i32 = 125;

const COMMANDS: [&str; 8] = [
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
    let mut launch = case.durio(random.pick(&COMMANDS)).limit(Duration::from_secs(10));
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
    const COMMANDS: [&str; 6] = [
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
    let launch = case.durio(random.pick(&COMMANDS)).env("TERM", term).env(name, value);
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
