//! Starts that a host has acknowledged: of its next step, and of those that need no further order.

use durio_base::Nanos;
use durio_record::fleet::ClockOffset;

use crate::clock::{aged, on_host};
use crate::message::{CampaignStep, TimetableEntry};

/// A start that the child does not know yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingStart {
    pub(super) step: CampaignStep,
    pub(super) attempt: u32,
    /// On the host's clock.
    pub(super) at: Nanos,
    pub(super) not_after: Nanos,
    pub(super) clock: ClockOffset,
    pub(super) is_timetable: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Timetable {
    /// The coordinator's, whose clock is meant.
    pub(super) incarnation: u64,
    pub(super) attempt: u32,
    pub(super) clock: ClockOffset,
    /// When the offset was known, on the coordinator's clock.
    pub(super) known_at: Nanos,
    pub(super) entries: Vec<TimetableEntry>,
}

impl Timetable {
    pub(super) fn start_of(&self, step: CampaignStep) -> Option<PendingStart> {
        let entry = self.entries.iter().find(|entry| entry.step == step)?;
        let clock = aged(self.clock, entry.at.saturating_sub(self.known_at));
        Some(PendingStart {
            step,
            attempt: self.attempt,
            at: on_host(entry.at, clock),
            not_after: on_host(entry.not_after, clock),
            clock,
            is_timetable: true,
        })
    }
}
