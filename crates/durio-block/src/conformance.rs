//! What every engine must do, as test bodies that any engine can be put through.
//!
//! In: a way to build the engine ([`Suite::lend`]), a directory for files, what to expect. Out: a
//! [`Report`] of what passed, was skipped (with the reason) or failed (with the message).
//! Not here: figures, printing, and what is one engine's own, such as the null engine's script.
//!
//! An engine's test is a function that builds it, and a few lines that run the suite:
//!
//! ```no_run
//! use durio_block::conformance::{Body, Setup, Suite};
//! use durio_block::{MonotonicClock, SyncEngine};
//!
//! fn lend(setup: Setup, body: &mut Body<'_, MonotonicClock>) {
//!     body(&mut SyncEngine::new(MonotonicClock, setup.file, setup.buffers));
//! }
//! let report = Suite::new(&lend, "/var/tmp/empty".as_ref()).run();
//! report.assert_passed();
//! ```

use std::any::Any;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::{BlockError, Buffers, Clock, Engine, OpenMode, OpenTarget};

mod bench;
mod chains;
mod completions;
mod deadlines;
mod errors;
mod range_syncs;
mod ranges;
mod slots;
mod syncs;
mod transfers;

use bench::Bench;

/// What an engine is to be built over.
#[derive(Debug)]
pub struct Setup {
    /// The open file.
    pub file: OwnedFd,
    /// Buffers, at least as many as the depth.
    pub buffers: Buffers,
    /// Operations in flight.
    pub depth: u32,
}

/// Opens a file of a test by its name, also for writing, which durio itself does with a permit alone.
///
/// # Errors
/// If it cannot be opened.
pub fn open_path(path: &Path, mode: OpenMode) -> Result<OpenTarget, BlockError> {
    crate::open::open_path(path, mode)
}

/// What is done with an engine.
pub type Body<'b, C> = dyn FnMut(&mut dyn Engine<Clock = C>) + 'b;

/// Builds an engine, lends it to a body, and drops it.
pub type Lend<'s, C> = dyn Fn(Setup, &mut Body<'_, C>) + 's;

/// The suite for one engine in one mode.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct Suite<'s, C> {
    /// How the engine is built.
    pub lend: &'s Lend<'s, C>,
    /// An existing directory for the files of the suite, on the filesystem to be used.
    pub directory: &'s Path,
    /// Files are opened with O_DIRECT.
    pub direct: bool,
    /// The engine does I/O; if not, only bodies that look at no data and no error are run.
    pub stores_data: bool,
    /// The errno of a write to /dev/full by this interface of the kernel.
    pub full_device_errno: i32,
}

/// A body that was not run to its end, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The body's name, a sentence.
    pub body: &'static str,
    /// What is missing here.
    pub reason: String,
}

/// A body that failed, and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The body's name, a sentence.
    pub body: &'static str,
    /// The message of its panic.
    pub message: String,
}

/// What became of each body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Names of those that passed.
    pub passed: Vec<&'static str>,
    /// Those that could not be run here.
    pub skipped: Vec<Skip>,
    /// Those that failed.
    pub failed: Vec<Failure>,
}

impl Report {
    /// # Panics
    /// If a body failed, with the messages of all that did, or if none was run.
    pub fn assert_passed(&self) {
        let failures: Vec<String> = self
            .failed
            .iter()
            .map(|failure| format!("{}: {}", failure.body, failure.message))
            .collect();
        assert!(failures.is_empty(), "the engine fails\n  {}", failures.join("\n  "));
        assert!(!self.passed.is_empty(), "nothing was run");
    }
}

/// The end of a body that did not panic.
enum Outcome {
    Passed,
    Skipped(String),
}

/// What a body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Any engine.
    Nothing,
    /// An engine with I/O: data or errors of a real file.
    Storage,
    /// As storage, with buffered files.
    BufferedFiles,
    /// As storage, with O_DIRECT.
    DirectFiles,
}

/// One body.
struct Case<C> {
    name: &'static str,
    needs: Needs,
    run: fn(&Bench<'_, C>) -> Outcome,
}

fn case<C>(needs: Needs, name: &'static str, run: fn(&Bench<'_, C>) -> Outcome) -> Case<C> {
    Case { name, needs, run }
}

impl<'s, C: Clock> Suite<'s, C> {
    /// The suite with buffered files, for an engine that does I/O.
    #[must_use]
    pub fn new(lend: &'s Lend<'s, C>, directory: &'s Path) -> Self {
        let full_device_errno = libc::ENOSPC;
        Self { lend, directory, direct: false, stores_data: true, full_device_errno }
    }

    /// Runs all bodies that apply; one that fails does not stop the others.
    #[must_use]
    pub fn run(&self) -> Report {
        let mut report = Report::default();
        let cases = [
            transfers::cases(),
            completions::cases(),
            slots::cases(),
            syncs::cases(),
            ranges::cases(),
            range_syncs::cases(),
            chains::cases(),
            errors::cases(),
            deadlines::cases(),
        ];
        for case in cases.into_iter().flatten() {
            if self.fits(case.needs) {
                self.run_case(&case, &mut report);
            }
        }
        report
    }

    fn fits(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Storage => self.stores_data,
            Needs::BufferedFiles => self.stores_data && !self.direct,
            Needs::DirectFiles => self.stores_data && self.direct,
        }
    }

    fn run_case(&self, case: &Case<C>, report: &mut Report) {
        let bench = Bench::new(self);
        // Every body builds its own engine and files, so nothing that a panic left is used again.
        match catch_unwind(AssertUnwindSafe(|| (case.run)(&bench))) {
            Ok(Outcome::Passed) => report.passed.push(case.name),
            Ok(Outcome::Skipped(reason)) => report.skipped.push(Skip { body: case.name, reason }),
            Err(panic) => {
                let message = message_of(panic.as_ref());
                report.failed.push(Failure { body: case.name, message });
            }
        }
    }
}

/// Adds a line to the file that DURIO_TEST_SKIPS names, if it does: what a test could not do here.
///
/// # Panics
/// If the file cannot be written: a skip that nobody hears of would pass for a success.
pub fn note_skip(test: &str, reason: &dyn std::fmt::Display) {
    if let Some(path) = std::env::var_os("DURIO_TEST_SKIPS") {
        let file = File::options().append(true).create(true).open(path);
        let written = file.and_then(|mut file| {
            // One call, so that lines of tests in parallel do not mix.
            file.write_all(format!("{test}: {reason}\n").as_bytes())
        });
        written.expect("writing the list of skips");
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
