//! The results of a job's operations, and the errors that ended them early: plain data. Latencies
//! are in the recorder.

use durio_base::Nanos;
use durio_block::{BlockError, OperationKind};
use durio_record::{Accounting, Batches, Pacing};
use rustix::io::Errno;

/// What ended a job early.
#[derive(Debug)]
pub(crate) struct JobFailure {
    pub(crate) kind: OperationKind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Bytes moved, or a negated errno.
    pub(crate) result: i32,
}

/// What ended operations early, if anything did.
#[derive(Debug, Default)]
pub(crate) struct EarlyEnding {
    pub(crate) failure: Option<JobFailure>,
    /// Another error of the engine itself.
    pub(crate) engine_error: Option<BlockError>,
}

impl EarlyEnding {
    pub(crate) const fn is_early(&self) -> bool {
        self.failure.is_some() || self.engine_error.is_some()
    }

    /// Keeps a failure, the first of several.
    pub(crate) fn keep(&mut self, failure: JobFailure) {
        // io_uring cancels a sync whose linked write failed, and may show that first: a cancellation
        // gives way to its cause.
        let cancelled = -Errno::CANCELED.raw_os_error();
        if self.failure.as_ref().is_none_or(|known| known.result == cancelled) {
            self.failure = Some(failure);
        }
    }
}

/// The loop's counts; latencies are elsewhere.
#[derive(Debug, Default)]
pub(crate) struct LoopResult {
    pub(crate) accounting: Accounting,
    /// What became of the schedule of an open loop.
    pub(crate) pacing: Option<Pacing>,
    pub(crate) batches: Option<Batches>,
    pub(crate) reference: (u64, u64),
    /// From the end of the ramp to the end.
    pub(crate) measured: Nanos,
    /// From the common begin to the end, in nanoseconds: the last completion, or the end of an open
    /// loop's window if that is later.
    pub(crate) end_ns: u64,
    pub(crate) exchanges: u64,
    pub(crate) ending: EarlyEnding,
}

/// True if a completion with this result has done all of an operation. Moving too few bytes is a
/// failure: the rest would be another operation, with another latency.
pub(crate) fn is_done(kind: OperationKind, length: u64, result: i32) -> bool {
    match kind {
        OperationKind::Read | OperationKind::Write => i64::from(result) == length.cast_signed(),
        _ => result >= 0,
    }
}
