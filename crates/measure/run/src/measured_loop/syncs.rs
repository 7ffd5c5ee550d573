//! Syncs in the measured loop: calls that follow a write, a range's sync and the file's after it,
//! and syncs that are linked to their write.
//!
//! Handles completions of jobs whose writes are made durable by syncs: records them, and decides
//! what the place does next, or that it is free. `mod` records writes that are durable by
//! themselves like any write.
//!
//! A linked sync has a separate place, behind those of the writes and as many. It is submitted in
//! one exchange with its write and starts in the kernel, so its latency cannot be seen: a write is
//! recorded from preparation to completion, a commit from there to the completion of its sync, and
//! the number of syncs is the number of commits. Operations in flight are counted in places of
//! writes, each from preparation to the end of the commit.

use durio_block::{Clock, Completion, Engine};
use durio_record::OperationName;
use durio_workload::{AccessKind, SyncMethod};

use super::{MeasuredLoop, Slot, kind_of};

/// The sync after a write, or with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// Nothing: it is not durable, or it is by itself.
    Nothing,
    /// A sync of the file.
    Call,
    /// A sync of its range, then of the file: recorded as one sync.
    RangeThenFile,
    /// This sync, linked to it.
    Linked(AccessKind),
}

impl Follows {
    pub(super) fn of(method: SyncMethod) -> Self {
        match method.linked_sync() {
            Some(kind) => Self::Linked(kind),
            None if method == SyncMethod::FileRange => Self::RangeThenFile,
            None if method.is_separate_call() => Self::Call,
            None => Self::Nothing,
        }
    }
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Records a completion of a job with syncs. Gives back the place that is free now, if one is.
    #[inline]
    pub(super) fn conclude_with_sync(
        &mut self,
        slot: usize,
        completion: &Completion,
    ) -> Option<usize> {
        if let Follows::Linked(_) = self.follows {
            return self.conclude_linked(slot, completion);
        }
        let place = self.slots[slot];
        if !place.is_done_by(completion.result) {
            self.fail(slot, completion.result);
            return Some(slot);
        }
        if self.follows == Follows::RangeThenFile && place.kind != AccessKind::Write {
            self.record_range_sync(slot, completion);
        } else {
            self.record(slot, completion);
        }
        let Some(mut access) = self.input.stream.follow_up(place.kind) else { return Some(slot) };
        // The file that was written. fio syncs another one where a job has several (fio#1904).
        access.file = place.file;
        if access.kind == AccessKind::SyncFileRange {
            (access.offset, access.length) = (place.offset, place.length);
        }
        self.start(slot, access, completion.completed_at);
        if place.kind == AccessKind::SyncFileRange {
            // The two calls are one sync.
            self.slots[slot].start = place.start;
        }
        None
    }

    /// Records a completion that may be the second half of a sync, after its range's, or another
    /// access.
    fn record_range_sync(&mut self, slot: usize, completion: &Completion) {
        match self.slots[slot].kind {
            AccessKind::SyncFileRange => {}
            AccessKind::Fdatasync => {
                let now = completion.completed_at;
                let nanos = self.engine.clock().nanos(now.since(self.slots[slot].start));
                self.input.recorder.record(OperationName::Sync, nanos);
                if self.input.commits {
                    self.record_commit(slot, now, nanos);
                }
            }
            _ => self.record(slot, completion),
        }
    }

    /// A write's place is free when its sync is complete too; the other accesses have none.
    fn conclude_linked(&mut self, slot: usize, completion: &Completion) -> Option<usize> {
        let place = self.slots[slot];
        if !place.is_done_by(completion.result) {
            self.fail(slot, completion.result);
        } else if slot < self.places {
            self.record(slot, completion);
        } else {
            // Only the end of the sync itself is seen: it began in the kernel.
            self.record_commit(slot, completion.completed_at, 0);
        }
        match slot.checked_sub(self.places) {
            Some(of_write) => Some(of_write),
            None => (place.kind != AccessKind::Write).then_some(slot),
        }
    }

    /// Puts the sync behind the write that was queued last, and links the two.
    pub(super) fn link_sync(&mut self, slot: usize, kind: AccessKind) {
        let behind = slot + self.places;
        let write = self.slots[slot];
        self.slots[behind] = Slot { kind, offset: 0, length: 0, ..write };
        self.origins[behind] = self.origins[slot];
        let [write, sync] = &mut self.queue[self.queued - 1..=self.queued] else { return };
        // io_uring orders nothing by itself: unlinked, the sync could begin before its write is
        // complete.
        write.link = true;
        *sync = *write;
        sync.kind = kind_of(kind);
        sync.link = false;
        // A depth is at most 2¹⁴ with links (durio-workload).
        sync.slot = u32::try_from(behind).unwrap_or(u32::MAX);
        // io_uring syncs the whole file where neither offset nor length is given.
        (sync.offset, sync.length) = (0, 0);
        self.queued += 1;
    }
}
