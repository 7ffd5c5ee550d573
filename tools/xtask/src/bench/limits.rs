//! durio's limits for itself: size of the binary, time of `--help`, memory, number in flight.
//!
//! Takes durio, and a quick check of the folder for files; returns goals.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::figures::median;
use super::goals::BenchGoal;
use super::session::{BenchSession, Priority};
use super::{durio, scratch};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
const HELP_CALLS: usize = 20;

/// The size of the release binary.
pub(super) fn binary_size(session: &BenchSession) -> Result<BenchGoal> {
    let bytes = fs::metadata(session.program()).context("no binary")?.len();
    let kibibytes = u32::try_from(bytes / 1024).map_or(f64::INFINITY, f64::from);
    Ok(BenchGoal::at_most("release binary", kibibytes / 1024.0, 8.0, 2, " MiB"))
}

/// Calls `--help`, and checks the folder for files.
pub(super) fn measure(session: &BenchSession) -> Result<Vec<BenchGoal>> {
    let help = help_milliseconds(session)?;
    eprintln!("durio check --quick");
    let folder = scratch::subfolder(session.scratch(), "checked")?;
    let words = session.durio().check_quick(&folder);
    let check = durio::parse_check(&session.run(&words, Priority::Plain)?.stdout)?;
    // The user determines the buffers: jobs × depth × block size.
    let memory = (check.memory - check.buffers) / MEBIBYTE;
    let in_flight = format!(
        "check --quick: in flight / (jobs × depth), least of {} asynchronous workloads",
        check.asynchronous
    );
    Ok(vec![
        BenchGoal::at_most("--help, median of 20 calls", help, 5.0, 2, " ms"),
        BenchGoal::at_most(
            format!("check --quick: peak memory less {:.0} MiB buffers", check.buffers / MEBIBYTE),
            memory,
            64.0,
            1,
            " MiB",
        ),
        BenchGoal::at_most(
            "check --quick: Little's law, largest deviation",
            check.deviation,
            0.02,
            6,
            "",
        ),
        BenchGoal::at_least(in_flight, check.in_flight, 0.9),
    ])
}

fn help_milliseconds(session: &BenchSession) -> Result<f64> {
    let mut times = Vec::with_capacity(HELP_CALLS);
    for _ in 0..HELP_CALLS {
        session.interrupt().check()?;
        let mut command = Command::new(session.program());
        command.arg("--help").stdin(Stdio::null()).stdout(Stdio::null());
        let begin = Instant::now();
        let status = command.status().context("cannot run durio")?;
        // The first call may read the binary from the disk; the median ignores it.
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        ensure!(status.success(), "durio --help failed");
    }
    Ok(median(&times))
}
