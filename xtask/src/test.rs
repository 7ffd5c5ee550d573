//! `cargo xtask test`: every check and every test, one after the other, and the sum.
//!
//! In: the checkout and this machine. Out: the tools' own output, what was skipped and why, what
//! failed, and as the very last line `N passed, N failed, N skipped`.
//! Not here: the meaning of a tool's output (`output`), the accounting (`tally`).
//!
//! Tests find two variables in their environment: `DURIO_TEST_MISSING`, the comma-separated names
//! of what this machine lacks (see `packages`), and `DURIO_TEST_SKIPS`, a file to which a test
//! that cannot run appends one line `test name: reason` before it returns.

mod output;
mod stages;
mod tally;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::packages;
use tally::Tally;

/// What may be left out or added.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the release build and the slow black-box tests
    #[arg(long, conflicts_with = "long")]
    fast: bool,
    /// Add what takes tens of minutes: timed devices and ZFS in the lab, a run of every built-in spec,
    /// longer fuzzing, attacks of full scale
    #[arg(long)]
    long: bool,
}

/// Runs all stages, whatever fails on the way.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut session = Session::default();
    let missing = session.timed("packages", packages::provide).join(",");
    session.stage("fmt", stages::fmt);
    session.stage("clippy", stages::clippy);
    session.stage("tidy", stages::tidy);
    session.stage("test", || stages::test(&["--workspace"], &missing));
    if !arguments.fast {
        session.stage("release build", stages::release_build);
        session.stage("slow tests", || stages::slow_tests(&missing));
        session.stage("fuzz", || stages::fuzz(arguments.long));
        session.stage("seams", stages::seams);
    }
    if arguments.long {
        session.stage("long tests", || stages::long_tests(&missing));
    }
    let profile = if arguments.fast { "debug" } else { "release" };
    session.stage("attack", || stages::attack(profile, arguments.long));
    session.print_summary();
    Ok(if session.sum.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The stages so far.
#[derive(Debug, Default)]
struct Session {
    times: Vec<(&'static str, Duration)>,
    sum: Tally,
}

impl Session {
    /// A stage that could not be carried out is one failure.
    fn stage(&mut self, name: &'static str, work: impl FnOnce() -> Result<Tally>) {
        let tally = self.timed(name, || {
            let tally = work().unwrap_or_else(|error| {
                println!("error: {error:#}");
                Tally::of_check(name, false)
            });
            println!("{name}: {tally}");
            tally
        });
        self.sum.add(tally);
    }

    fn timed<T>(&mut self, name: &'static str, work: impl FnOnce() -> T) -> T {
        println!("\n==== {name} ====");
        let start = Instant::now();
        let value = work();
        let took = start.elapsed();
        println!("{name} took {:.1} s", took.as_secs_f64());
        self.times.push((name, took));
        value
    }

    fn print_summary(&self) {
        println!("\n==== summary ====");
        for (name, took) in &self.times {
            println!("{:>8.1} s  {name}", took.as_secs_f64());
        }
        for (test, reason) in self.sum.skips() {
            println!("SKIPPED {test}: {reason}");
        }
        for test in self.sum.failures() {
            println!("FAILED {test}");
        }
        println!("{}", self.sum);
    }
}
