//! Operations that have the same latencies are recorded at once.
//!
//! What one look shows is often what one call submitted: on a target that completes inside the call,
//! all of a batch. One entry in each histogram serves for all of them.

use durio_block::{Clock, Engine, Ticks};
use durio_workload::AccessKind;

use super::{MeasuredLoop, PLACES};

/// Operations that were started, submitted and seen together: they have the same latencies, and are
/// recorded at once.
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

impl<E: Engine> MeasuredLoop<'_, E> {
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
        let recorded_as = PLACES[kind as usize];
        self.recorder.record_many(recorded_as, nanos, count);
        if self.engine.capabilities().asynchronous {
            let submit = clock.nanos(submitted.since(start));
            self.recorder.record_parts_of_many(recorded_as, submit, nanos, count);
        }
    }
}
