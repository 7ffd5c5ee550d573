//! What every engine must do, as test bodies that any engine can be put through.
//!
//! In: a way to build the engine ([`Suite::lend`]), what stores its data ([`Store`]), what to expect.
//! Out: a [`Report`] of what passed, was skipped (with the reason) or failed (with the message).
//! Not here: rates, printing, and abilities of one engine alone, such as the null engine's script.
//!
//! [`Files`] is the store of engines that go to the kernel. An engine over something else (a network
//! block device, a simulated disk) brings a store of its own, and is spared the bodies that are about
//! files.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use durio_block::{Buffers, Clock, Engine};

mod bench;
mod completions;
mod errors;
mod syncs;
mod transfers;

use bench::Bench;
pub use transfers::{Files, Store, Target};

/// What an engine is to be built over.
#[derive(Debug)]
pub struct Setup {
    /// What it reads and writes.
    pub target: Target,
    /// Buffers, at least as many as the depth.
    pub buffers: Buffers,
    /// The most operations in flight at a time.
    pub depth: u32,
}

/// The work of a case with an engine.
pub type EngineBody<'b, C> = dyn FnMut(&mut dyn Engine<Clock = C>) + 'b;

/// Builds an engine, lends it to a body, and drops it.
pub type Lend<'s, C> = dyn Fn(Setup, &mut EngineBody<'_, C>) + 's;

/// The suite for one engine in one mode.
#[expect(missing_debug_implementations, reason = "how an engine is built is code")]
pub struct Suite<'s, C> {
    /// How the engine is built.
    pub lend: &'s Lend<'s, C>,
    /// What stores the data.
    pub store: &'s dyn Store,
    /// The engine does I/O; if not, only bodies that look at no data and no error are run.
    pub stores_data: bool,
    /// The engine maps its files: they do not grow, and are open for reading.
    pub maps_files: bool,
    /// The errno of a write to /dev/full by this interface of the kernel.
    pub full_device_errno: i32,
    /// The errno of a write to a target that was opened for reading only.
    pub read_only_errno: i32,
}

/// A body that was not run to its end, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The body's name, a sentence.
    pub body: &'static str,
    /// The reason: the missing part.
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
    pub failed: Vec<Failure>,
}

impl Report {
    /// Accepts a suite of which every body passed or was skipped.
    ///
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
    Nothing,
    /// An engine with I/O: data and errors.
    Storage,
    /// As storage, with objects whose length need not be a multiple of a block.
    AnySize,
    /// As storage, with files of the kernel.
    Files,
    /// As files, by calls: files that grow, that cannot be read, or that have no pages.
    FilesByCalls,
    /// As files, through the page cache.
    BufferedFiles,
    /// As files, with O_DIRECT.
    DirectFiles,
}

/// One body of the suite, and what it needs.
struct Case<C> {
    name: &'static str,
    needs: Needs,
    run: fn(&Bench<'_, C>) -> Outcome,
}

fn case<C>(needs: Needs, name: &'static str, run: fn(&Bench<'_, C>) -> Outcome) -> Case<C> {
    Case { name, needs, run }
}

impl<'s, C: Clock> Suite<'s, C> {
    /// The suite for an engine that does I/O, and gives the errors of the kernel's files.
    #[must_use]
    pub fn new(lend: &'s Lend<'s, C>, store: &'s dyn Store) -> Self {
        let (full_device_errno, read_only_errno) = (libc::ENOSPC, libc::EBADF);
        let (stores_data, maps_files) = (true, false);
        Self { lend, store, stores_data, maps_files, full_device_errno, read_only_errno }
    }

    /// Runs all bodies that apply; one that fails does not stop the others.
    #[must_use]
    pub fn run(&self) -> Report {
        let mut report = Report::default();
        let cases = [transfers::cases(), completions::cases(), syncs::cases(), errors::cases()];
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
            Needs::AnySize => self.stores_data && self.store.takes_any_size(),
            Needs::Files => self.has_files(|_| true),
            Needs::FilesByCalls => !self.maps_files && self.has_files(|_| true),
            Needs::BufferedFiles => self.has_files(|files| !files.is_direct()),
            Needs::DirectFiles => self.has_files(Files::is_direct),
        }
    }

    fn has_files(&self, as_wanted: impl FnOnce(&Files) -> bool) -> bool {
        self.stores_data && self.store.files().is_some_and(as_wanted)
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
