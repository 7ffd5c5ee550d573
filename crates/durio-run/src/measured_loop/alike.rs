//! What completions have in common is done once for all of them.
//!
//! What one look shows is often what one call submitted: on a target that completes inside the call,
//! all of a batch. One entry in each histogram serves for all of them, and what depends on the time
//! of the look alone is asked once.

use durio_block::{Clock, Completion, Engine, Ticks};
use durio_workload::AccessKind;

use super::{MeasuredLoop, RECORDED_AS, Slot};

/// Operations that were started and seen together. Those were submitted together (what starts at the
/// same time goes to the engine in one exchange), so they have the same latencies, and are recorded at
/// once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alike {
    pub(super) start: Ticks,
    pub(super) submitted: Ticks,
    pub(super) seen: Ticks,
    pub(super) kind: AccessKind,
    pub(super) count: u64,
}

impl Alike {
    pub(super) const NONE: Self = Self {
        start: Ticks(0),
        submitted: Ticks(0),
        seen: Ticks(0),
        kind: AccessKind::Read,
        count: 0,
    };
}

/// What completions that were seen at the same time have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) seen: Ticks,
    /// When their places start again: completions of which more were seen than one exchange gives
    /// have waited here, and their places were idle, which is no latency of the next operation.
    pub(super) start: Ticks,
    /// How long that was.
    pub(super) idle: u64,
}

impl Look {
    pub(super) const NONE: Self = Self { seen: Ticks(u64::MAX), start: Ticks(0), idle: 0 };
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Goes on to completions that were seen at `seen`.
    #[inline(always)]
    pub(super) fn turn_to(&mut self, seen: Ticks) -> Look {
        self.record_alike();
        self.see(seen);
        (self.alike.seen, self.alike.start) = (seen, Ticks(u64::MAX));
        // What is in flight is waited for; nothing starts at the end or after it.
        if seen >= self.end {
            self.remaining = 0;
        }
        // A reading of the clock less per operation, and no time between two of them is lost.
        let start = seen.max(self.engine.looked_at());
        Look { seen, start, idle: start.since(seen) }
    }

    /// Takes a completion of a plain job and refills its place.
    #[inline(always)]
    pub(super) fn settle_plain(&mut self, completion: &Completion, look: &Look) {
        let slot = completion.slot as usize;
        let Slot { start, length, kind, .. } = self.slots[slot];
        if i64::from(completion.result) == length.cast_signed() {
            self.count_alike(start, completion.submitted_at, kind);
        } else {
            self.fail(slot, completion.result);
        }
        if self.remaining > 0 && self.start_next::<true>(slot, look.start) {
            self.filling.idle_ticks += look.idle;
        } else {
            self.leave();
        }
    }

    #[inline(always)]
    fn count_alike(&mut self, start: Ticks, submitted: Ticks, kind: AccessKind) {
        // Not the stamp of submission: what starts together goes to the engine in one exchange.
        if (start, kind) == (self.alike.start, self.alike.kind) {
            self.alike.count += 1;
        } else {
            self.record_alike();
            self.alike = Alike { start, submitted, kind, count: 1, ..self.alike };
        }
    }

    /// Records the operations that were alike, at once.
    #[inline(always)]
    pub(super) fn record_alike(&mut self) {
        let Alike { start, submitted, seen, kind, count } = self.alike;
        if count == 0 {
            return;
        }
        self.alike.count = 0;
        let clock = self.engine.clock();
        let nanos = clock.nanos(seen.since(start));
        let recorded_as = RECORDED_AS[kind as usize];
        // Complete when the submitting call returned: one look-up serves for two histograms.
        if submitted == seen && self.engine.capabilities().asynchronous {
            self.input.recorder.record_at_once(recorded_as, nanos, count);
            return;
        }
        self.input.recorder.record_many(recorded_as, nanos, count);
        if self.engine.capabilities().asynchronous {
            let submit = clock.nanos(submitted.since(start));
            self.input.recorder.record_parts_of_many(recorded_as, submit, nanos, count);
        }
    }
}
