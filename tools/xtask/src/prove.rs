//! `cargo xtask prove`: proofs that are too long for the tests.
//!
//! Needs the checkout and a kernel of the lab. Prints durio's table of results and expectations,
//! and the elapsed time; returns durio's exit code. The built-in proof spec `prove-matrix` has the
//! cells and their expected results.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::cargo;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ProveTask {
    /// Cuts the power of guests with simulated disks: devices of QEMU × filesystems and arrays ×
    /// honest and lying disks; an hour and more on two processors
    ///
    /// Runs `durio prove run prove-matrix` of the release build. The exit code is durio's: 0 if every
    /// cell is as expected, 1 if one is not, 3 if one came to no verdict.
    Matrix {
        /// Only series whose name contains TEXT, such as nvme/btrfs; may be given several times
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
    },
}

pub(crate) fn run(command: &ProveTask) -> Result<ExitCode> {
    match command {
        ProveTask::Matrix { only } => matrix(only),
    }
}

fn matrix(only: &[String]) -> Result<ExitCode> {
    let built = cargo::command(&["build", "--release", "-p", "durio"]).status();
    ensure!(built.context("cannot run cargo")?.success(), "durio cannot be built");
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let begin = Instant::now();
    let mut durio = Command::new(target.join("release/durio"));
    durio.args(["prove", "run", "prove-matrix"]);
    durio.args(only.iter().flat_map(|text| ["--only", text]));
    let status = durio.status().context("cannot run durio")?;
    println!("{} s", begin.elapsed().as_secs());
    // Ended by a signal, it has reported nothing.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
