//! Where events go, and how a run is stopped from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use durio_base::{Bytes, Nanos};
use durio_record::{Event, RoundDecision};

/// How far a file is laid out; for the terminal, not for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutProgress {
    /// Index of the target in the plan.
    pub target: usize,
    /// Bytes written.
    pub done: Bytes,
    /// Bytes to write.
    pub total: Bytes,
}

/// Takes the events of a run.
pub trait EventSink {
    /// Takes an event that happened `at` after the run's begin.
    ///
    /// # Errors
    /// If the event cannot be kept: then the run ends, because a run without a record is worth
    /// nothing.
    fn event(
        &mut self,
        at: Nanos,
        event: Event,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Takes a sign of life during layout.
    fn layout_progress(&mut self, _progress: LayoutProgress) {}

    /// Decides what follows `round` of `section`, whose events it has. The runner itself derives no
    /// number, so it asks. By default, one round is enough.
    fn round_ended(&mut self, _section: u32, _round: u32) -> RoundDecision {
        RoundDecision::Reached
    }

    /// The rate with which a search begins, where the plan has a step before it that shows the
    /// highest possible rate. Without an answer it is the plan's.
    fn first_rate(&mut self, _section: u32) -> Option<f64> {
        None
    }
}

/// Set from a signal handler or another thread: the run ends at the next completion.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks the run to end.
    pub fn set(&self) {
        // The flag guards no data: a thread that sees it late only ends a moment later.
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if the run was asked to end.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for the measured loop.
    pub(crate) fn as_ref(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag itself, for signal handlers.
    #[must_use]
    pub fn as_atomic(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
