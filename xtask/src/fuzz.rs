//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, each for a moment, from good inputs.
//!
//! In: a nightly toolchain of rustup; cargo-fuzz, which is installed below `target/` if it is missing.
//! Out: libFuzzer's own output; an input that it found stays in `fuzz/artifacts`. Not here: attacks on
//! a whole durio (`attack`), which need no nightly.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::workspace_root;

/// What is fuzzed, and where good inputs to begin with are.
const TARGETS: [(&str, Option<&str>); 9] = [
    ("campaign", Some("specs")),
    ("stack_bench", Some("specs/stacks")),
    ("profile", Some("crates/durio-workload/profiles")),
    ("job_file", Some("crates/durio/tests/fio")),
    ("command_line", None),
    ("fio_json", Some("crates/durio-fio/tests/fixtures")),
    ("table", None),
    ("settings", None),
    ("events", Some("crates/durio-record/tests/golden/v2")),
];

/// Five seconds and some 256 MiB for an input, as in `cargo xtask attack`. No good input is longer than
/// this but records, whose lines are alike.
const LIMITS: [&str; 4] = ["-timeout=5", "-rss_limit_mb=512", "-max_len=65536", "-print_funcs=0"];

/// What is fuzzed, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) seconds: u32,
    /// Only this target (can be repeated)
    #[arg(long, value_name = "TARGET")]
    pub(crate) only: Vec<String>,
}

/// Runs the targets; what was found is a failure.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(has_nightly(), "no nightly toolchain: rustup toolchain install nightly");
    let known: Vec<_> = names().collect();
    if let Some(name) = arguments.only.iter().find(|it| !known.contains(&it.as_str())) {
        bail!("no target '{name}' among {}", known.join(", "));
    }
    let failed = failed_targets(&arguments.only, arguments.seconds)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// All targets.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// The targets for which something was found, of those named or of all.
pub(crate) fn failed_targets(only: &[String], seconds: u32) -> Result<Vec<&'static str>> {
    let tools = workspace_root().join("target/tools");
    install(&tools)?;
    let mut failed = Vec::new();
    for (name, seeds) in TARGETS {
        let is_chosen = only.is_empty() || only.iter().any(|it| it == name);
        if is_chosen && !is_sound(name, seeds, seconds, &tools)? {
            failed.push(name);
        }
    }
    Ok(failed)
}

/// True if a nightly toolchain is installed.
pub(crate) fn has_nightly() -> bool {
    nightly(&["--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
}

/// True if nothing is found in so many seconds.
fn is_sound(name: &str, seeds: Option<&str>, seconds: u32, tools: &Path) -> Result<bool> {
    let root = workspace_root();
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    // What was found interesting earlier, which git does not keep.
    let corpus = root.join("target/fuzz-corpus").join(name);
    std::fs::create_dir_all(&corpus).with_context(|| corpus.display().to_string())?;
    let mut command = nightly(&["fuzz", "run", "--sanitizer", "none", "--target-dir"]);
    command.arg(root.join("target/fuzz")).arg(name).arg(corpus);
    command.args(seeds.map(|folder| root.join(folder))).arg("--").args(LIMITS);
    command.args(["-verbosity=0", &format!("-max_total_time={seconds}")]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [tools.join("bin")].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders)?).env("TMPDIR", scratch.path());
    println!("fuzz {name}");
    Ok(command.status().context("cargo fuzz does not start")?.success())
}

/// Installs cargo-fuzz, which Debian does not have.
fn install(tools: &Path) -> Result<()> {
    if tools.join("bin/cargo-fuzz").exists() {
        return Ok(());
    }
    let mut command = nightly(&["install", "--locked", "cargo-fuzz@0.13.2", "--root"]);
    let status = command.arg(tools).status().context("cargo does not start")?;
    ensure!(status.success(), "cargo-fuzz cannot be installed");
    Ok(())
}

/// rustup's cargo of the nightly toolchain, whatever toolchain runs this.
fn nightly(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments).current_dir(workspace_root().join("fuzz"));
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "CARGO_TARGET_DIR"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null());
    command
}
