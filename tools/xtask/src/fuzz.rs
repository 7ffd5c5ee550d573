//! `cargo xtask fuzz`: the fuzz targets of `tools/fuzz/`, each for a moment, from good inputs.
//!
//! Runs the package in `tools/fuzz/` and passes on libFuzzer's output; inputs that it finds stay in
//! `tools/fuzz/artifacts`. `attack` attacks a whole durio.
//!
//! cargo-fuzz is not used: it needs a nightly compiler for sanitizers, which find little where nothing
//! is unsafe, and feedback from coverage is a pass of LLVM that a stable compiler runs as well.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::cargo::{self, workspace_root};

/// The targets, each with the folder of good inputs to start from.
const TARGETS: [(&str, Option<&str>); 18] = [
    ("campaign", Some("crates/measure/spec/specs")),
    ("stack_bench", Some("crates/measure/spec/specs/stacks")),
    ("profile", Some("crates/measure/spec/profiles")),
    ("job_file", Some("crates/durio/tests/fio")),
    ("command_line", None),
    ("fio_json", Some("crates/measure/fio/tests/fixtures")),
    ("table", None),
    ("settings", None),
    ("events", Some("crates/core/record/tests/golden/v2")),
    ("nbd_server", None),
    ("nbd_client", None),
    ("proof_spec", Some("crates/measure/spec/specs/proofs")),
    ("proof_folder", Some("crates/core/record/tests/golden/proof1")),
    ("write_log", None),
    ("stamp", None),
    ("ledger", None),
    ("operation_trace", Some("crates/core/record/tests/golden/trace1")),
    ("trace_text", Some("crates/core/observe/tests/traces")),
];

// Some 256 MiB for an input, as in `cargo xtask attack`; much more for the time, since other stages
// of the suite run concurrently and nothing is optimised. Only records are longer good inputs, and
// their lines are alike. libFuzzer's limit of memory is on the whole process, its corpus included.
const LIMITS: [&str; 4] = ["-timeout=60", "-rss_limit_mb=512", "-max_len=65536", "-print_funcs=0"];

/// The flags of cargo-fuzz 0.13 for a build without sanitizers: counters and comparisons of every
/// edge.
const FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// What is fuzzed, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArguments {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) seconds: u32,
    /// Only this target (can be repeated)
    #[arg(long, value_name = "TARGET")]
    pub(crate) only: Vec<String>,
}

/// Runs the targets; a finding is a failure.
pub(crate) fn run(arguments: &FuzzArguments) -> Result<ExitCode> {
    let known: Vec<_> = names().collect();
    if let Some(name) = arguments.only.iter().find(|chosen| !known.contains(&chosen.as_str())) {
        bail!("no target '{name}' among {}", known.join(", "));
    }
    let failed = failed_targets(&arguments.only, arguments.seconds)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// The targets with findings, among those named or all. Each processor runs one at a time.
pub(crate) fn failed_targets(only: &[String], seconds: u32) -> Result<Vec<&'static str>> {
    let programs = build()?;
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|chosen| chosen == name);
    let chosen: Vec<_> = TARGETS.into_iter().filter(|(name, _)| is_chosen(name)).collect();
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let work = |worker: usize| -> Result<Vec<&'static str>> {
        let mut failed = Vec::new();
        for &(name, seeds) in chosen.iter().skip(worker).step_by(workers) {
            if !is_sound(&programs.join(name), name, seeds, seconds)? {
                failed.push(name);
            }
        }
        Ok(failed)
    };
    let work = &work;
    let failed: Result<Vec<Vec<_>>> = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        let ends = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ends.map(|end| end.unwrap_or_else(|_| Err(anyhow!("a thread panicked")))).collect()
    });
    Ok(failed?.concat())
}

/// Builds all targets, and gives the folder of their programs.
fn build() -> Result<PathBuf> {
    // With a triple cargo leaves build scripts and macros without the flags, which they cannot link.
    let triple = host_triple()?;
    let target = workspace_root().join("target/fuzz");
    let mut command = cargo::command(&["build", "--quiet", "--release", "--target", &triple]);
    command.current_dir(workspace_root().join("tools/fuzz"));
    // Cargo prefers this variable to RUSTFLAGS and to configuration: a user's flags do not get in.
    // A separate target folder has a separate lock, so other stages do not wait for this build.
    command.env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    ensure!(command.status()?.success(), "the fuzz targets do not compile");
    Ok(target.join(triple).join("release"))
}

/// The machine that this compiler compiles for.
fn host_triple() -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().context("rustc does not start")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say for what it compiles")
}

/// True if nothing is found in `seconds`.
fn is_sound(program: &Path, name: &str, seeds: Option<&str>, seconds: u32) -> Result<bool> {
    let root = workspace_root();
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    // Inputs found interesting earlier, which git does not keep.
    let corpus = root.join("target/fuzz-corpus").join(name);
    let artifacts = root.join("tools/fuzz/artifacts").join(name);
    // libFuzzer makes no folders itself.
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut command = Command::new(program);
    // libFuzzer writes to the first folder that is named and only reads the others: seeds in the
    // checkout stay as they are.
    command.arg(corpus).args(seeds.map(|folder| root.join(folder))).args(LIMITS);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-verbosity=0", &format!("-max_total_time={seconds}")]);
    println!("fuzz {name}");
    // A target that crashes or times out does not remove its files.
    Ok(command.env("TMPDIR", scratch.path()).status().context("cannot run it")?.success())
}
