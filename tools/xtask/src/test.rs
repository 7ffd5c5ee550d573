//! `cargo xtask test`: every check and every test, and the sum.
//!
//! Prints failures with their output, skips with their reasons, the time of each stage, and as the
//! very last line `N passed, N failed, N skipped`. `output` parses the tools' output, `tally`
//! counts.
//!
//! ```text
//!   packages ─ fmt ─ tidy ─ build ─┬─ black-box tests ─────────────────────────┬─ long tests ─ instructions ─ dist ─ attack
//!                                  ├─ slow tests ─ tests of crates ────────────┤
//!                                  └─ clippy ─ doc tests ─ seams ─ cuts ─ fuzz ┘
//! ```
//!
//! Tests find two variables in their environment: `DURIO_TEST_MISSING`, the comma-separated names
//! of what this machine lacks (see `packages`), and `DURIO_TEST_SKIPS`, a file to which a test
//! that cannot run appends one line `test name: reason` before it returns.

mod output;
mod stages;
mod tally;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::packages;
use tally::Tally;

/// What may be left out or added.
#[derive(Debug, clap::Args)]
pub(crate) struct TestArguments {
    /// Leave out the slow black-box tests, the toys and fuzzing
    #[arg(long, conflicts_with = "long")]
    fast: bool,
    /// Add what takes tens of minutes: timed devices and ZFS in the lab, a run of every built-in spec,
    /// a million simulated cuts of the RAID engine, instructions per I/O against their goals, packages
    /// in a fresh Debian, longer fuzzing, attacks of full scale on a release build
    #[arg(long)]
    long: bool,
}

/// Runs all stages, even after failures.
pub(crate) fn run(arguments: &TestArguments) -> Result<ExitCode> {
    let session = TestSession::default();
    // First: the programs that it installs decide which tests are skipped.
    let missing = session.timed("packages", packages::provide).join(",");
    // Before minutes of compiling: these take seconds.
    session.stage("fmt", stages::fmt);
    session.stage("tidy", stages::tidy);
    match session.timed("build of the tests", stages::build) {
        Ok(programs) => session.run_lanes(arguments, programs, &missing),
        Err(error) => session.stage("build of the tests", || Err(error)),
    }
    if arguments.long {
        session.stage("long tests", || stages::long_tests(&missing));
        session.stage("bench instructions", stages::instructions);
        session.stage("packages in a fresh Debian", stages::dist);
    }
    // The pages that are generated from the program, on the build that the tests made.
    session.stage("book", stages::book);
    // The existing build: the tests made the debug one, the long tests the release one.
    let profile = if arguments.long { "release" } else { "debug" };
    // Alone: it checks the whole machine for leftovers.
    session.stage("attack", || stages::attack(profile, arguments.long));
    Ok(if session.print_summary() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The stages so far.
#[derive(Debug, Default)]
struct TestSession(Mutex<(Vec<(String, Duration)>, Tally)>);

impl TestSession {
    /// Runs independent stages concurrently: black-box tests mostly wait, for devices, for guests
    /// and for the end of runs, while compilers never do.
    fn run_lanes(
        &self,
        arguments: &TestArguments,
        programs: Vec<stages::TestProgram>,
        missing: &str,
    ) {
        let (black_box, others): (Vec<_>, Vec<_>) =
            programs.into_iter().partition(stages::TestProgram::is_black_box);
        let test = |programs: &[stages::TestProgram], is_slow| {
            for program in programs {
                let name = if is_slow { "slow black-box tests" } else { program.name() };
                self.stage(name, || stages::test_program(program, is_slow, missing));
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| test(&black_box, false));
            scope.spawn(|| {
                if !arguments.fast {
                    test(&black_box, true);
                }
                test(&others, false);
            });
            scope.spawn(|| {
                // Tests have limits of time and compilers have none.
                let _ = rustix::process::nice(10);
                // One after the other: cargo locks the target folder, and another would wait.
                self.stage("clippy", stages::clippy);
                self.stage("doc tests", || stages::doc_tests(missing));
                if !arguments.fast {
                    self.stage("seams", stages::seams);
                    self.stage("simulated cuts", || stages::simulated_cuts(arguments.long));
                    self.stage("fuzz", || stages::fuzz(arguments.long));
                }
            });
        });
    }

    /// A stage that could not be carried out is one failure.
    fn stage(&self, name: &str, work: impl FnOnce() -> Result<Tally>) {
        let tally = self.timed(name, || {
            work().unwrap_or_else(|error| {
                println!("error: {error:#}");
                Tally::of_check(name, false)
            })
        });
        println!("{name}: {tally}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.add(tally);
    }

    fn timed<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = work();
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.push((name.to_owned(), start.elapsed()));
        value
    }

    /// True if nothing failed.
    fn print_summary(&self) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, sum) = &*found;
        println!("\n==== summary ====");
        for (name, took) in times.iter().filter(|(_, took)| took.as_secs() > 0) {
            println!("{:>8.1} s  {name}", took.as_secs_f64());
        }
        for (test, reason) in sum.skips() {
            println!("SKIPPED {test}: {reason}");
        }
        for test in sum.failures() {
            println!("FAILED {test}");
        }
        println!("{sum}");
        sum.failed() == 0
    }
}
