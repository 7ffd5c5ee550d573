//! `cargo xtask test`: every check and every test, and the sum.
//!
//! Prints failures with their output, the time of each stage, the slowest tests, skips with their
//! reasons, and as the very last line `N passed, N failed, N skipped`. `tally` parses the tools'
//! output and counts.
//!
//! ```text
//!   packages ─┬─ build ──────┬─┬─ black-box tests ─ tests of crates ─ book ─ attack
//!             └─ fmt ─ tidy ─┘ ├─ slow black-box tests
//!                              └─ clippy ─ doc tests ─ seams ─ cuts ─ fuzz
//! ```
//!
//! Compilers and fuzzing have what processor time the tests leave; they touch nothing that `attack`
//! looks at, and neither do the slow tests, whose last work is in guests. A long run waits for both, and
//! has its long tests, instructions and packages before the book.
//!
//! Tests find two variables in their environment: `DURIO_TEST_MISSING`, the comma-separated names
//! of what this machine lacks (see `packages`), and `DURIO_TEST_SKIPS`, a file to which a test
//! that cannot run appends one line `test name: reason` before it returns.

mod stages;
mod tally;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tally::Tally;

use crate::packages;

/// Enough to see what holds the suite up.
const SLOWEST_TESTS: usize = 10;

/// What may be left out or added.
#[derive(Debug, clap::Args)]
pub(crate) struct TestArguments {
    /// Leave out the slow black-box tests, the toys and fuzzing
    #[arg(long, conflicts_with = "long")]
    fast: bool,
    /// Add what takes tens of minutes: timed devices, ZFS and further proofs in the lab, a run of every
    /// built-in spec, checks of full length, a million simulated cuts of the RAID engine, instructions
    /// per I/O against their goals, packages in a fresh Debian, longer fuzzing, attacks of full scale on
    /// a release build
    #[arg(long)]
    long: bool,
}

/// Runs all stages, even after failures.
pub(crate) fn run(arguments: &TestArguments) -> Result<ExitCode> {
    let session = TestSession { start: Instant::now(), found: Mutex::default() };
    // First: the programs that it installs decide which tests are skipped.
    let missing = session.timed("packages", packages::provide).join(",");
    let built = thread::scope(|scope| {
        scope.spawn(|| {
            session.stage("fmt", stages::fmt);
            session.stage("tidy", stages::tidy);
        });
        session.timed("build of the tests", stages::build)
    });
    match built {
        Ok(programs) => session.run_lanes(arguments, programs, &missing),
        Err(error) => {
            session.stage("build of the tests", || Err(error));
            session.run_last(arguments.long, &missing);
        }
    }
    Ok(if session.print_summary() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The stages so far.
#[derive(Debug)]
struct TestSession {
    start: Instant,
    found: Mutex<(Vec<StageTime>, Tally)>,
}

#[derive(Debug)]
struct StageTime {
    name: String,
    /// Since the suite's start: stages of the three lanes overlap.
    from: Duration,
    took: Duration,
}

impl TestSession {
    /// Runs independent stages concurrently: black-box tests mostly wait, for devices and for the end
    /// of runs, while compilers never do.
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
            let compilers = scope.spawn(|| self.compile(arguments, missing));
            let slow = scope.spawn(|| {
                if !arguments.fast {
                    test(&black_box, true);
                }
            });
            test(&black_box, false);
            test(&others, false);
            if arguments.long {
                // They build too, and some of them are timed.
                let _ = compilers.join();
                let _ = slow.join();
            }
            self.run_last(arguments.long, missing);
        });
    }

    /// What computes all the time, one after the other: cargo locks the target folder, and another
    /// would wait.
    fn compile(&self, arguments: &TestArguments, missing: &str) {
        // Tests have limits of time and compilers have none.
        let _ = rustix::process::nice(10);
        self.stage("clippy", stages::clippy);
        self.stage("doc tests", || stages::doc_tests(missing));
        if !arguments.fast {
            self.stage("seams", stages::seams);
            self.stage("simulated cuts", || stages::simulated_cuts(arguments.long));
            self.stage("fuzz", || stages::fuzz(arguments.long));
        }
    }

    /// What comes after the tests of this machine, since it looks at all of it or is timed.
    fn run_last(&self, is_long: bool, missing: &str) {
        if is_long {
            self.stage("long tests", || stages::long_tests(missing));
            self.stage("bench instructions", stages::instructions);
            self.stage("packages in a fresh Debian", stages::dist);
        }
        // The pages that are generated from the program, on the build that the tests made.
        self.stage("book", stages::book);
        // The existing build: the tests made the debug one, the long tests the release one.
        let profile = if is_long { "release" } else { "debug" };
        // It checks the whole machine for leftovers, those of tests too.
        self.stage("attack", || stages::attack(profile, is_long));
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
        self.found.lock().unwrap_or_else(PoisonError::into_inner).1.add(tally);
    }

    fn timed<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let from = self.start.elapsed();
        let value = work();
        let took = self.start.elapsed().saturating_sub(from);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.0.push(StageTime { name: name.to_owned(), from, took });
        value
    }

    /// True if nothing failed.
    fn print_summary(&self) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, sum) = &*found;
        println!("\n==== summary ====");
        print!("{}", time_table(times, self.start.elapsed()));
        let slowest = sum.slowest(SLOWEST_TESTS);
        if !slowest.is_empty() {
            println!(
                "slowest tests, each next to others (examples in documentation are not timed):"
            );
        }
        for (took, test) in slowest {
            println!("{:>8.1} s  {test}", took.as_secs_f64());
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

/// The stages by their start, then the whole suite.
fn time_table(stages: &[StageTime], suite: Duration) -> String {
    let mut stages: Vec<_> = stages.iter().collect();
    stages.sort_by_key(|stage| stage.from);
    let line = |took: Duration, from: Duration, name: &str| {
        format!("{:>8.1} s  from {:>7.1} s  {name}\n", took.as_secs_f64(), from.as_secs_f64())
    };
    let lines = stages.iter().map(|stage| line(stage.took, stage.from, &stage.name));
    let suite = line(suite, Duration::ZERO, "the suite");
    "stages, some of them side by side:\n".to_owned() + &lines.collect::<String>() + &suite
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_listed_by_their_start_with_the_suite_at_the_end() {
        let stage = |name: &str, from, took| StageTime {
            name: name.to_owned(),
            from: Duration::from_millis(from),
            took: Duration::from_millis(took),
        };
        // In the order of their ends: clippy ran next to the tests.
        let stages = [
            stage("build of the tests", 2500, 98_100),
            stage("clippy", 100_700, 41_040),
            stage("durio cli", 100_650, 321_000),
        ];
        let table = time_table(&stages, Duration::from_millis(421_700));
        let expected = "stages, some of them side by side:\n\
            \x20   98.1 s  from     2.5 s  build of the tests\n\
            \x20  321.0 s  from   100.7 s  durio cli\n\
            \x20   41.0 s  from   100.7 s  clippy\n\
            \x20  421.7 s  from     0.0 s  the suite\n";
        assert_eq!(table, expected);
    }
}
