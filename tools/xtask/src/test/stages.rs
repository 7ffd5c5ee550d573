//! The stages of `cargo xtask test`: each runs one tool, returns a [`Tally`], and prints the output
//! of failures.

use std::io::{self, BufReader, IsTerminal, Read};
use std::num::NonZero;
use std::process::{Command, ExitStatus, Stdio};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Message;
use cargo_metadata::camino::Utf8PathBuf;
use tempfile::NamedTempFile;

use super::tally::{Tally, TestOutput, read_skips};
use crate::{attack, book, cargo, dist, fuzz, packages, seams, sim, tidy};

// Findings of longer runs stay as regular tests in the crates; this finds new faults that are easy
// to reach.
const FUZZ_SECONDS: u32 = 5;
// Some 5000 a second, with the engine optimised in every build.
const SIMULATED_CUTS: u64 = 100_000;
const SIMULATED_CUTS_LONG: u64 = 1_000_000;
const FUZZ_SECONDS_LONG: u32 = 60;
// Per core: a test waits for most of its time, and each measures on its own.
const BLACK_BOX_THREADS: usize = 3;
// More than one per core: most slow tests boot a guest, which computes where KVM does not work.
const SLOW_THREADS_MORE: usize = 1;
/// Crates with examples in their documentation. rustdoc compiles every crate that it is given, and cargo
/// compiles what they depend on again, with the features of these crates alone: only the lowest has any.
const WITH_EXAMPLES: [&str; 1] = ["durio-base"];
/// Slow tests that the everyday suite leaves out: each takes minutes, or a faster test, which is named
/// here, finds the same faults.
const LONG: [&str; 12] = [
    "lab_timed::",
    "lab_zfs::",
    "audit_own::every_built_in_spec_makes_runs_that_its_own_audit_believes",
    // The planned times are in the everyday suite, in `check` and `durable`.
    "check::quick_measures_for_less_than_twelve_seconds",
    "check::the_default_check_of_the_current_directory_ends_with_the_summary",
    "durable::quick_measures_for_some_twenty_seconds",
    // durio-fio: `what_fio_plot_looks_for_is_there`; `fio_stand_in` compares the logs with those of fio.
    "fio_plot::",
    // The server with two queues is killed and replaced too, and so is the one that writes zeroes.
    "lab_raid::a_killed_server_is_followed_by_the_next_under_a_mounted_filesystem",
    // The test of crash states has the same disk, front end and paths.
    "proving_guests::a_guest_loses_what_is_durable_by_fua_on_nvme_and_keeps_what_is_flushed",
    // durio-prove: `proof_in_guest` with appended and replaced files, on this machine.
    "proving_guests::an_appended_and_a_replaced_file_last_and_a_rename_that_nobody_synced_does_not",
    // durio-prove: `arrays` cuts the power of honest members; `lab_raid` serves a mirror in a guest.
    "proving_guests::durios_own_mirror_keeps_its_word",
    // `proving` resumes a proof, `proving_commands` interrupts a guest.
    "proving_guests::an_interrupt_ends_the_guests_of_a_proof_and_it_can_be_resumed",
];

/// Formatting, as one test.
pub(super) fn fmt() -> Result<Tally> {
    // By default, rustfmt colours its output in a pipe too.
    let colour = if io::stdout().is_terminal() { "auto" } else { "never" };
    let arguments = ["fmt", "--all", "--check", "--", "--color", colour];
    let status = status_of(&mut cargo::command(&arguments))?;
    Ok(Tally::of_check("fmt", status.success()))
}

/// Lints, as one test.
pub(super) fn clippy() -> Result<Tally> {
    // Without --all-targets clippy skips tests.
    let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let status = status_of(&mut cargo::command(&arguments))?;
    Ok(Tally::of_check("clippy", status.success()))
}

/// The project's rules, as one test.
pub(super) fn tidy() -> Result<Tally> {
    let problems = tidy::problems()?;
    tidy::print(&problems);
    Ok(Tally::of_check("tidy", problems.is_empty()))
}

/// A test program that is built.
#[derive(Debug)]
pub(super) struct TestProgram {
    name: String,
    executable: Utf8PathBuf,
    folder: Utf8PathBuf,
    can_time: bool,
}

impl TestProgram {
    /// Its package and target.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// True for the tests that run the durio binary.
    pub(super) fn is_black_box(&self) -> bool {
        self.name == "durio cli"
    }
}

/// Builds all tests and the programs that they run.
pub(super) fn build() -> Result<Vec<TestProgram>> {
    // The whole workspace at once: for single packages cargo unifies features again, and recompiles
    // crates. This form of messages leaves errors readable on stderr.
    let words = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let mut child = cargo::command(&words).stdout(Stdio::piped()).spawn()?;
    let messages = child.stdout.take().context("no output of cargo")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(messages)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        // Programs that tests start are built too, and are not tests.
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else {
            continue;
        };
        let folder = artifact.manifest_path.parent().context("a manifest without a folder")?;
        let package = folder.file_name().unwrap_or_default();
        let name = format!("{package} {}", artifact.target.name);
        let can_time = can_time_tests(&executable);
        programs.push(TestProgram { name, executable, folder: folder.to_owned(), can_time });
    }
    ensure!(child.wait()?.success(), "the tests do not compile");
    Ok(programs)
}

/// Libtest's time of each test, which a stable toolchain gives only to those who ask like this.
///
/// The variable is read by the test program as it runs; nothing is compiled with it.
const TIMED: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");
const TIMED_ARGUMENTS: [&str; 3] = ["-Z", "unstable-options", "--report-time"];

/// False once a toolchain no longer takes [`TIMED_ARGUMENTS`]: then tests run without times.
fn can_time_tests(executable: &Utf8PathBuf) -> bool {
    let mut list = Command::new(executable);
    list.args(TIMED_ARGUMENTS).arg("--list").env(TIMED.0, TIMED.1);
    list.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// Runs a test program, or its slow tests except for the long ones.
pub(super) fn test_program(program: &TestProgram, is_slow: bool, missing: &str) -> Result<Tally> {
    let mut command = Command::new(&program.executable);
    // As in `cargo test`: tests name files relative to their package.
    command.current_dir(&program.folder).stdin(Stdio::null());
    if program.is_black_box() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = if is_slow { cores + SLOW_THREADS_MORE } else { cores * BLACK_BOX_THREADS };
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    if program.can_time {
        command.args(TIMED_ARGUMENTS).env(TIMED.0, TIMED.1);
    }
    if is_slow {
        command.arg("--ignored").args(LONG.iter().flat_map(|test| ["--skip", test]));
    }
    test(&mut command, &program.name, missing)
}

/// The examples in the documentation.
pub(super) fn doc_tests(missing: &str) -> Result<Tally> {
    let packages = WITH_EXAMPLES.iter().flat_map(|name| ["-p", name]);
    // Otherwise cargo stops at the first crate with a failure.
    let mut command = cargo::command(&["test", "--doc", "--no-fail-fast"]);
    test(command.args(packages), "doc tests", missing)
}

/// The long part, on the release build, which is what users run.
pub(super) fn long_tests(missing: &str) -> Result<Tally> {
    let words = ["test", "--release", "-p", "durio", "--test", "cli", "--", "--ignored"];
    let mut command = cargo::command(&words);
    test(command.args(LONG), "long tests", missing)
}

/// The instructions of an I/O on the release build, compared with its goals.
pub(super) fn instructions() -> Result<Tally> {
    let words = ["run", "--quiet", "--package", "xtask", "--", "bench", "instructions", "--check"];
    let is_good = cargo::command(&words).status().context("cargo cannot be run")?.success();
    Ok(Tally::of_check("bench instructions", is_good))
}

/// The attack suite, each case a test, on the build of this profile.
pub(super) fn attack(profile: &str, is_long: bool) -> Result<Tally> {
    let built = cargo::metadata()?.target_directory.into_std_path_buf().join(profile);
    let outcomes = attack::suite(&built.join("durio"), is_long)?;
    Ok(Tally::of_attacks(&outcomes))
}

/// The book's sources: generated pages are current, links lead somewhere.
pub(super) fn book() -> Result<Tally> {
    let built = cargo::metadata()?.target_directory.into_std_path_buf().join("debug/durio");
    let problems = book::problems(&built)?;
    problems.iter().for_each(|problem| println!("{problem}"));
    Ok(Tally::of_check("book", problems.is_empty()))
}

/// A short run of each fuzz target.
pub(super) fn fuzz(is_long: bool) -> Result<Tally> {
    let seconds = if is_long { FUZZ_SECONDS_LONG } else { FUZZ_SECONDS };
    let failed = fuzz::failed_targets(&[], seconds)?;
    let mut tally = Tally::default();
    for name in fuzz::names() {
        tally.add(Tally::of_check(&format!("fuzz {name}"), !failed.contains(&name)));
    }
    Ok(tally)
}

/// Simulated power cuts of the RAID engine, as one test.
pub(super) fn simulated_cuts(is_long: bool) -> Result<Tally> {
    let cuts = if is_long { SIMULATED_CUTS_LONG } else { SIMULATED_CUTS };
    let violation = sim::suite(cuts);
    if let Some(what) = &violation {
        println!("cargo xtask sim raid: {what}");
    }
    let name = format!("{cuts} simulated power cuts of RAID");
    Ok(Tally::of_check(&name, violation.is_none()))
}

/// Toys added to a copy of the tree, each a test.
pub(super) fn seams() -> Result<Tally> {
    let mut tally = Tally::default();
    for outcome in seams::outcomes()? {
        tally.add(Tally::of_check(&outcome.name, outcome.is_good));
    }
    Ok(tally)
}

/// The packages in a fresh Debian, each check a test.
pub(super) fn dist() -> Result<Tally> {
    let checks = match dist::test()? {
        dist::TryOutcome::Skipped(reason) => return Ok(Tally::of_skip("dist", reason)),
        dist::TryOutcome::Checked(checks) => checks,
    };
    let mut tally = Tally::default();
    for check in checks {
        tally.add(Tally::of_check(&format!("dist: {}", check.name), check.is_good));
    }
    Ok(tally)
}

/// A command that prints the output of tests: counts it, and shows it if a test failed.
fn test(command: &mut Command, name: &str, missing: &str) -> Result<Tally> {
    // Not by the output: libtest hides the output of passed tests.
    let skips = NamedTempFile::new().context("no file for the reports of skipped tests")?;
    command
        .env("PATH", packages::search_path())
        .env("DURIO_TEST_MISSING", missing)
        .env("DURIO_TEST_SKIPS", skips.path());
    let (text, is_success) = text_of(command)?;
    let mut output = TestOutput::default();
    text.lines().for_each(|line| output.read_line(line.trim_end()));
    output.end_program();
    let reported = fs::read(skips.path()).context("the reports of skipped tests are gone")?;
    let skips = read_skips(&String::from_utf8_lossy(&reported));
    let tally = Tally::of_tests(&output, skips, is_success, name);
    if tally.failed() > 0 {
        println!("\n==== {name} ====\n{text}");
    }
    Ok(tally)
}

fn status_of(command: &mut Command) -> Result<ExitStatus> {
    command.status().with_context(|| format!("{command:?} does not start"))
}

/// The whole output of a command, and whether it succeeded.
fn text_of(command: &mut Command) -> Result<(String, bool)> {
    // One pipe for both streams keeps a crash's message behind the test that it ended.
    let (mut reader, writer) = io::pipe().context("no pipe")?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("{command:?} does not start"))?;
    // Otherwise the output would never end: this side would still hold the pipe.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    Ok((String::from_utf8_lossy(&text).into_owned(), child.wait()?.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_toolchain_times_each_test() {
        let this = Utf8PathBuf::from_path_buf(std::env::current_exe().unwrap()).unwrap();
        assert!(can_time_tests(&this), "the suite would list no slowest tests");
    }

    #[test]
    fn every_long_test_exists_and_is_a_slow_one() {
        let folder = cargo::workspace_root().join("crates/durio/tests/cli");
        for name in LONG {
            let (module, test) = name.split_once("::").unwrap();
            let text = fs::read_to_string(folder.join(format!("{module}.rs"))).unwrap();
            let slow = format!("#[ignore = \"slow\"]\nfn {test}");
            assert!(text.contains(&slow), "{name}");
        }
    }

    #[test]
    fn every_crate_with_examples_has_them_run() {
        let sources = cargo::workspace_root().join("crates");
        let search = ["-rlE", "--include=*.rs", r"^\s*//[/!] ```(no_run|rust|should_panic)?$"];
        let found = Command::new("grep").args(search).arg(&sources).output().unwrap();
        let opened = |path: &str| {
            // A fence that is opened as text is closed like an example.
            let text = fs::read_to_string(path).unwrap();
            let fences = text.lines().filter_map(|line| line.trim_start().split_once(" ```"));
            fences.step_by(2).any(|(_, language)| language != "text")
        };
        let paths = String::from_utf8(found.stdout).unwrap();
        let paths = paths.lines().filter(|path| opened(path));
        let folders: std::collections::BTreeSet<_> =
            paths.filter_map(|path| Some(path.split_once("/src/")?.0)).collect();
        let with_examples = WITH_EXAMPLES.map(|name| cargo::crate_folder(name).unwrap());
        let root = cargo::workspace_root();
        let with_examples = with_examples.map(|folder| root.join(folder).display().to_string());
        assert_eq!(folders.into_iter().collect::<Vec<_>>(), with_examples);
    }
}
