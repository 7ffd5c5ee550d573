//! Where events go.

use durio_base::{Bytes, Nanos};
pub use durio_command::StopFlag;
use durio_record::{Event, RoundDecision};

/// How far a file is laid out; for the terminal, not for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutProgress {
    /// Index of the target in the plan.
    pub target: usize,
    pub done: Bytes,
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
