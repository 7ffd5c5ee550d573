//! The stages of `cargo xtask test`: each runs one tool and says how it went.
//!
//! In: the checkout. Out: a [`Tally`] for each stage, and the tool's output as it comes.
//! Not here: the order of the stages, the sum.

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use super::output::Output;
use super::tally::{Tally, read_skips};
use crate::{attack, cargo, fuzz, packages, seams, tidy};

/// What was found in hours stays found in the tests beside the code; this finds what is new and near.
const FUZZ_SECONDS: u32 = 5;
const FUZZ_SECONDS_LONG: u32 = 60;
/// Of the slow tests, those that take minutes each: no part of the everyday suite.
const LONG: [&str; 3] = [
    "lab_timed::",
    "lab_zfs::",
    "audit_own::every_built_in_spec_makes_runs_that_its_own_audit_believes",
];

/// Formatting, as one test.
pub(super) fn fmt() -> Result<Tally> {
    // Left to itself, rustfmt colours its output in a pipe too.
    let colour = if io::stdout().is_terminal() { "auto" } else { "never" };
    let arguments = ["fmt", "--all", "--check", "--", "--color", colour];
    let status = status_of(&mut cargo::command(&arguments))?;
    Ok(Tally::of_check("fmt", status.success()))
}

/// Lints, as one test.
pub(super) fn clippy() -> Result<Tally> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let status = status_of(&mut cargo::command(&arguments))?;
    Ok(Tally::of_check("clippy", status.success()))
}

/// The rules of the house, as one test.
pub(super) fn tidy() -> Result<Tally> {
    let problems = tidy::problems()?;
    tidy::print(&problems);
    Ok(Tally::of_check("tidy", problems.is_empty()))
}

/// The release build of the product, which is a test only if it fails.
pub(super) fn release_build() -> Result<Tally> {
    let status = status_of(&mut cargo::command(&["build", "--release", "-p", "durio"]))?;
    Ok(if status.success() { Tally::default() } else { Tally::of_check("release build", false) })
}

/// The slow black-box tests, on the release build.
const SLOW: [&str; 7] = ["--release", "-p", "durio", "--test", "cli", "--", "--ignored"];

/// The slow part of the black-box tests, but for those that are long.
pub(super) fn slow_tests(missing: &str) -> Result<Tally> {
    let others = LONG.iter().flat_map(|it| ["--skip", it]);
    test(&SLOW.into_iter().chain(others).collect::<Vec<_>>(), missing)
}

/// The long part.
pub(super) fn long_tests(missing: &str) -> Result<Tally> {
    test(&SLOW.into_iter().chain(LONG).collect::<Vec<_>>(), missing)
}

/// The attack suite, each case a test, on the build of this profile.
pub(super) fn attack(profile: &str, is_long: bool) -> Result<Tally> {
    let built = cargo::metadata()?.target_directory.into_std_path_buf().join(profile);
    let outcomes = attack::suite(&built.join("durio"), is_long)?;
    Ok(Tally::of_attacks(&outcomes))
}

/// A short run of each fuzz target, where the toolchain for them is there.
pub(super) fn fuzz(is_long: bool) -> Result<Tally> {
    if !fuzz::has_nightly() {
        return Ok(Tally::of_skip("fuzz", "no nightly toolchain"));
    }
    let seconds = if is_long { FUZZ_SECONDS_LONG } else { FUZZ_SECONDS };
    let failed = fuzz::failed_targets(&[], seconds)?;
    let mut tally = Tally::default();
    for name in fuzz::names() {
        tally.add(Tally::of_check(&format!("fuzz {name}"), !failed.contains(&name)));
    }
    Ok(tally)
}

/// Toys that are added to a copy of the tree, each a test.
pub(super) fn seams() -> Result<Tally> {
    let mut tally = Tally::default();
    for outcome in seams::outcomes()? {
        tally.add(Tally::of_check(&outcome.name, outcome.is_good));
    }
    Ok(tally)
}

/// `cargo test` with these arguments: its output is passed on and counted.
pub(super) fn test(arguments: &[&str], missing: &str) -> Result<Tally> {
    let skips = NamedTempFile::new().context("no file for the reports of skipped tests")?;
    let mut command = cargo::command(&["test", "--no-fail-fast"]);
    command
        .args(arguments)
        .env("PATH", packages::search_path())
        .env("DURIO_TEST_MISSING", missing)
        .env("DURIO_TEST_SKIPS", skips.path());
    let mut output = Output::default();
    let status = relay(&mut command, |line| output.read_line(line))?;
    output.end_program();
    let reported = fs::read(skips.path()).context("the reports of skipped tests are gone")?;
    let skips = read_skips(&String::from_utf8_lossy(&reported));
    Ok(Tally::of_tests(&output, skips, status.success(), &format!("test {}", arguments.join(" "))))
}

fn status_of(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("{command:?} does not start"))
}

/// Passes every line of the command's output on to ours and to `each_line`.
fn relay(command: &mut Command, mut each_line: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?} does not start"))?;
    if let Some(stdout) = child.stdout.take() {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            io::stdout().lock().write_all(&line)?;
            each_line(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }
    Ok(child.wait()?)
}
