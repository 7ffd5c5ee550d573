//! The common work for several completions is done once.
//!
//! Completions seen by one look were often submitted by one call: on a target that completes inside
//! the call, a whole batch. One entry in each histogram serves for all of them, and checks that
//! depend only on the time of the look run once.

use durio_block::{Clock, Completion, Engine, OperationKind, Ticks};
use durio_workload::Access;

use super::{MeasuredLoop, RECORDED_AS, Slot};
use crate::recorder::JobRecorder;

/// Operations that were started and seen together. Those were submitted together (operations that
/// start at the same time go to the engine in one exchange), so they have the same latencies, and
/// are recorded at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alike {
    pub(super) start: Ticks,
    pub(super) submitted: Ticks,
    pub(super) seen: Ticks,
    pub(super) kind: OperationKind,
    pub(super) count: u64,
}

impl Alike {
    pub(super) const NONE: Self = Self {
        start: Ticks(0),
        submitted: Ticks(0),
        seen: Ticks(0),
        kind: OperationKind::Read,
        count: 0,
    };
}

/// What completions that were seen at the same time have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookTraits {
    pub(super) seen: Ticks,
    /// When their places start again: completions beyond one exchange's limit have waited here, and
    /// their places were idle, which is not latency of the next operation.
    pub(super) start: Ticks,
    /// How long that was.
    pub(super) idle: u64,
}

impl LookTraits {
    pub(super) const NONE: Self = Self { seen: Ticks(u64::MAX), start: Ticks(0), idle: 0 };
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Turns to completions that were seen at `seen`.
    #[inline(always)]
    pub(super) fn turn_to(&mut self, seen: Ticks) -> LookTraits {
        self.record_alike();
        self.see(seen);
        (self.alike.seen, self.alike.start) = (seen, Ticks(u64::MAX));
        // Operations in flight are waited for; nothing starts at the end or after it.
        if seen >= self.end {
            self.remaining = 0;
        }
        // A reading of the clock less per operation, and no time between two of them is lost.
        let start = seen.max(self.engine.looked_at());
        LookTraits { seen, start, idle: start.since(seen) }
    }

    /// Takes a completion of a plain job and refills its place: the parts of [`Self::settle`] and of
    /// [`Self::start`] that such a job needs, in one, which looks its place up once.
    #[inline(always)]
    pub(super) fn settle_plain(&mut self, completion: &Completion, look: &LookTraits) {
        let place = &mut self.slots[completion.slot as usize];
        let Slot { start, length, kind, .. } = *place;
        if i64::from(completion.result) != length.cast_signed() {
            self.fail(completion.slot as usize, completion.result);
            return self.leave();
        }
        let ended = (start, completion.submitted_at, kind);
        self.alike.count(ended, self.engine, self.input.recorder);
        if let Some(remaining) = self.remaining.checked_sub(1) {
            self.remaining = remaining;
            let Access { kind, offset, length, .. } = self.input.stream.next_access();
            (place.start, place.offset, place.length, place.kind) =
                (look.start, offset, length, kind);
            // Flags are the same for all, there is one file, and nothing is linked.
            let operation = &mut self.queue[self.queued];
            // A plain job has no third kind.
            let is_write = kind == OperationKind::Write;
            operation.kind = if is_write { OperationKind::Write } else { OperationKind::Read };
            operation.slot = completion.slot;
            operation.length = length;
            operation.offset = offset;
            operation.intended_start = look.start;
            self.queued += 1;
            if is_write {
                self.unfilled = self.input.filler.renews();
            }
            // The completion waited here to be given: its place was idle, and idle time is in no latency.
            self.filling.idle_ticks += look.idle;
        } else {
            self.leave();
        }
    }

    /// Records the operations that were alike, at once.
    #[inline(always)]
    pub(super) fn record_alike(&mut self) {
        self.alike.record(self.engine, self.input.recorder);
    }
}

impl Alike {
    /// One more operation that was seen in the present look.
    #[inline(always)]
    fn count<E: Engine>(
        &mut self,
        (start, submitted, kind): (Ticks, Ticks, OperationKind),
        engine: &E,
        recorder: &mut JobRecorder,
    ) {
        // Not the stamp of submission: operations that start together go to the engine in one
        // exchange.
        if start == self.start && kind == self.kind {
            self.count += 1;
        } else {
            self.record(engine, recorder);
            *self = Self { start, submitted, kind, count: 1, ..*self };
        }
    }

    #[inline(always)]
    fn record<E: Engine>(&mut self, engine: &E, recorder: &mut JobRecorder) {
        let Self { start, submitted, seen, kind, count } = *self;
        if count == 0 {
            return;
        }
        self.count = 0;
        let clock = engine.clock();
        let nanos = clock.nanos(seen.since(start));
        let recorded_as = RECORDED_AS[kind as usize];
        // Complete when the submitting call returned: one look-up serves for two histograms.
        if submitted == seen && engine.capabilities().asynchronous {
            recorder.record_at_once(recorded_as, nanos, count);
            return;
        }
        recorder.record_many(recorded_as, nanos, count);
        if engine.capabilities().asynchronous {
            let submit = clock.nanos(submitted.since(start));
            recorder.record_parts_of_many(recorded_as, submit, nanos, count);
        }
    }
}
