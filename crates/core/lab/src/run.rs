//! Runs one guest to its end, and how a guest ends.
//!
//! Takes a request, two writers and a stop condition, and returns how the guest ended.

use std::io::Write;
use std::time::Duration;

use durio_observe::LabFacts;

use crate::prepared::{Boot, PreparedGuest};
use crate::qemu::KVM;
use crate::unpack::SkippedEntries;
use crate::{LabError, LabRequest};

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabExit {
    /// The command ended with this exit code; 128 + N if signal N ended it, 127 if the command does
    /// not exist, 126 if it cannot be run.
    Code(u8),
    /// The limit was reached.
    TimeLimit,
    /// The guest died before or while running the command; the known facts about it.
    GuestFailed(String),
    /// The caller asked to stop.
    Stopped,
    /// A [`crate::Cutter`] cut its power.
    Cut,
}

/// A guest that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOutcome {
    pub exit: LabExit,
    /// The facts about the guest.
    pub facts: LabFacts,
    /// From the start of QEMU to the start of the command, if it was started.
    pub first_command_after: Option<Duration>,
    /// Whether the kernel was unpacked before its start; otherwise its image unpacked itself, which
    /// is slow in a guest.
    pub was_unpacked: bool,
    /// The time to prepare the guest's files, before QEMU was started. Each outcome of a guest
    /// prepared once has the same.
    pub preparation: Duration,
    /// The end of the output of the kernel and QEMU.
    pub console: String,
    /// Brought out files that did not reach the folder of the request.
    pub skipped: SkippedEntries,
}

impl LabOutcome {
    /// Why the guest failed by KVM before its command started, if that may be the cause.
    pub(crate) fn fault_of_kvm(&self) -> Option<String> {
        match &self.exit {
            LabExit::GuestFailed(reason)
                if self.facts.accelerator == KVM && self.first_command_after.is_none() =>
            {
                Some(format!("a guest failed: {reason}"))
            }
            _ => None,
        }
    }
}

/// Where the command's output goes.
pub struct Streams<'a> {
    /// The command's stdout.
    pub stdout: &'a mut dyn Write,
    /// The command's stderr.
    pub stderr: &'a mut dyn Write,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// Runs one guest to its end and leaves nothing behind: its files are in memory, and QEMU is ended
/// in every case.
///
/// # Errors
/// If the guest cannot be started, or the files it brings out cannot be written. How a started
/// guest ended is an outcome.
pub fn run(
    request: &LabRequest,
    streams: &mut Streams<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<LabOutcome, LabError> {
    let streams = Streams { stdout: &mut *streams.stdout, stderr: &mut *streams.stderr };
    let boot = Boot { streams, stop, cutter: None, witness: None };
    PreparedGuest::new(request.clone())?.boot(boot)
}
