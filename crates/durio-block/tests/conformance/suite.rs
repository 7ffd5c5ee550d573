//! What every engine must do, as test bodies that any engine can be put through.
//!
//! In: a way to build the engine ([`Suite::lend`]), a directory for files, what to expect. Out: a
//! [`Report`] of what passed, was skipped (with the reason) or failed (with the message).
//! Not here: figures, printing, and what is one engine's own, such as the null engine's script.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use durio_block::{Buffers, Clock, Engine};

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
pub(crate) struct Setup {
    /// The open file.
    pub(crate) file: OwnedFd,
    /// Buffers, at least as many as the depth.
    pub(crate) buffers: Buffers,
    /// Operations in flight.
    pub(crate) depth: u32,
}

/// What is done with an engine.
pub(crate) type Body<'b, C> = dyn FnMut(&mut dyn Engine<Clock = C>) + 'b;

/// Builds an engine, lends it to a body, and drops it.
pub(crate) type Lend<'s, C> = dyn Fn(Setup, &mut Body<'_, C>) + 's;

/// The suite for one engine in one mode.
pub(crate) struct Suite<'s, C> {
    /// How the engine is built.
    pub(crate) lend: &'s Lend<'s, C>,
    /// An existing directory for the files of the suite, on the filesystem to be used.
    pub(crate) directory: &'s Path,
    /// Files are opened with O_DIRECT.
    pub(crate) direct: bool,
    /// The engine does I/O; if not, only bodies that look at no data and no error are run.
    pub(crate) stores_data: bool,
    /// The errno of a write to /dev/full by this interface of the kernel.
    pub(crate) full_device_errno: i32,
}

/// A body that was not run to its end, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    /// The body's name, a sentence.
    pub(crate) body: &'static str,
    /// What is missing here.
    pub(crate) reason: String,
}

/// A body that failed, and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The body's name, a sentence.
    pub(crate) body: &'static str,
    /// The message of its panic.
    pub(crate) message: String,
}

/// What became of each body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Report {
    /// Names of those that passed.
    pub(crate) passed: Vec<&'static str>,
    /// Those that could not be run here.
    pub(crate) skipped: Vec<Skip>,
    /// Those that failed.
    pub(crate) failed: Vec<Failure>,
}

impl Report {
    /// Panics if a body failed, with the messages of all that did, or if none was run.
    pub(crate) fn assert_passed(&self) {
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
    pub(crate) fn new(lend: &'s Lend<'s, C>, directory: &'s Path) -> Self {
        let full_device_errno = libc::ENOSPC;
        Self { lend, directory, direct: false, stores_data: true, full_device_errno }
    }

    /// Runs all bodies that apply; one that fails does not stop the others.
    pub(crate) fn run(&self) -> Report {
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

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
