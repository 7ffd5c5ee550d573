//! What surrounds the accesses in the measured loop: the data of writes, the syncs that make them
//! durable, the passes over a region.
//!
//! Syncs are calls that follow a write, a range's sync and the file's after it, or linked to their
//! write. Completions of such jobs are recorded here, and what the place does next, or that it is
//! free, is decided here. The loop records writes that are durable by themselves like any write.
//!
//! A linked sync has a separate place, behind those of the writes and as many. It is submitted in
//! one exchange with its write and starts in the kernel, so its latency cannot be seen: a write is
//! recorded from preparation to completion, a commit from there to the completion of its sync, and
//! the number of syncs is the number of commits. Operations in flight are counted in places of
//! writes, each from preparation to the end of the commit.
//!
//! A job can drop the page cache where a pass over its region begins, and sync when it is done. The
//! stream says where a pass begins; the last sync is recorded. `layout` drops the pages before a
//! step.
//!
//! The data of writes is made before they start, and its time is not latency: their starts move later by the time that took. Making
//! data is the generator's work: it is counted apart ([`durio_record::Accounting::filling_ns`]), as
//! an idle place in the queue. The reason is in docs/design/0010.

use std::os::fd::AsFd;

use durio_block::{Clock, Completion, Engine, OperationKind, drop_cached};
use durio_record::OperationName;
use durio_workload::{Access, SyncMethod};

use super::{MeasuredLoop, Origin, Slot};

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
    Linked(OperationKind),
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
        if self.follows == Follows::RangeThenFile && place.kind != OperationKind::Write {
            self.record_range_sync(slot, completion);
        } else {
            self.record(slot, completion);
        }
        let Some(mut access) = self.input.stream.follow_up(place.kind) else { return Some(slot) };
        // The file that was written. fio syncs another one where a job has several (fio#1904).
        access.file = place.file;
        if access.kind == OperationKind::SyncFileRange {
            (access.offset, access.length) = (place.offset, place.length);
        }
        self.start(slot, access, completion.completed_at);
        if place.kind == OperationKind::SyncFileRange {
            // The two calls are one sync.
            self.slots[slot].start = place.start;
        }
        None
    }

    /// Records a completion that may be the second half of a sync, after its range's, or another
    /// access.
    fn record_range_sync(&mut self, slot: usize, completion: &Completion) {
        match self.slots[slot].kind {
            OperationKind::SyncFileRange => {}
            OperationKind::Fdatasync => {
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
            None => (place.kind != OperationKind::Write).then_some(slot),
        }
    }

    /// Puts the sync behind the write that was queued last, and links the two.
    pub(super) fn link_sync(&mut self, slot: usize, kind: OperationKind) {
        let behind = slot + self.places;
        let write = self.slots[slot];
        self.slots[behind] = Slot { kind, offset: 0, length: 0, ..write };
        self.origins[behind] = self.origins[slot];
        let [write, sync] = &mut self.queue[self.queued - 1..=self.queued] else { return };
        // io_uring orders nothing by itself: unlinked, the sync could begin before its write is
        // complete.
        write.link = true;
        *sync = *write;
        sync.kind = kind;
        sync.link = false;
        // A depth is at most 2¹⁴ with links (durio-workload).
        sync.slot = u32::try_from(behind).unwrap_or(u32::MAX);
        // io_uring syncs the whole file where neither offset nor length is given.
        (sync.offset, sync.length) = (0, 0);
        self.queued += 1;
    }
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Drops the cached pages of the pass that is to begin, if one is and nothing is in flight; the
    /// time is in the rate and in no latency. Gives false while operations of the pass before are
    /// in flight: they would wait for the drop, and their data would be cached again.
    #[cold]
    pub(super) fn begin_pass(&mut self) -> bool {
        if self.in_flight.now > 0 {
            return false;
        }
        let Some(pass) = self.next_pass.take() else { return true };
        if let Some(file) = self.input.pass_files.get(pass.file as usize)
            && let Err(error) = drop_cached(file.as_fd(), pass.offset, pass.length)
        {
            self.break_off(error);
        }
        true
    }

    /// Syncs a file when nothing else is in flight. What it takes is part of the job's time.
    #[cold]
    pub(super) fn sync_at_end(&mut self, file: u32) {
        let fsync =
            Access { kind: OperationKind::Fsync, drops_cache: false, file, offset: 0, length: 0 };
        let begin = self.engine.clock().now();
        let nanos = self.engine.clock().reference_nanos();
        self.in_flight.change(1, nanos);
        self.origins[0] = Origin { commit_start: begin, intended: begin };
        self.start(0, fsync, begin);
        let mut completions = [Completion::default()];
        let mut queued = std::mem::take(&mut self.queued);
        let completion = loop {
            // An asynchronous engine may return nothing; submitted operations must not be submitted
            // again.
            match self.engine.exchange(&self.queue[..queued], &mut completions) {
                Ok(0) => queued = 0,
                Ok(_) => break completions[0],
                Err(error) => {
                    self.break_off(error);
                    return;
                }
            }
        };
        let now = completion.completed_at;
        self.see(now);
        let nanos = self.engine.clock().reference_nanos();
        self.in_flight.change(-1, nanos);
        if self.slots[0].is_done_by(completion.result) {
            let nanos = self.engine.clock().nanos(now.since(begin));
            self.input.recorder.record(OperationName::Sync, nanos);
        } else {
            self.fail(0, completion.result);
        }
    }
}

/// The time in which data was made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FillTime {
    /// The job's time, in ticks.
    pub(super) ticks: u64,
    /// The same for every operation that waited in the meantime, and the time for which places
    /// waited for their turn to be filled again.
    pub(super) idle_ticks: u64,
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Fills the buffers of all queued writes, and lets queued operations start after that. Gives
    /// the nanoseconds that it took.
    #[inline]
    pub(super) fn fill_writes(&mut self) -> u64 {
        match std::mem::take(&mut self.unfilled) {
            true => self.fill_queued(),
            false => 0,
        }
    }

    fn fill_queued(&mut self) -> u64 {
        // Two readings of the clock for all queued writes, not for each.
        let begin = self.engine.clock().now();
        for operation in &self.queue[..self.queued] {
            if operation.kind == OperationKind::Write {
                let data = self.engine.slot_mut(operation.slot);
                let length = usize::try_from(operation.length).unwrap_or(usize::MAX);
                let length = length.min(data.len());
                self.input.filler.fill(&mut data[..length]);
            }
        }
        let spent = self.engine.clock().now().since(begin);
        self.filling.ticks += spent;
        for operation in &mut self.queue[..self.queued] {
            let slot = operation.slot as usize;
            let (place, origin) = (&mut self.slots[slot], &mut self.origins[slot]);
            place.start = place.start.plus(spent);
            // A commit begins when its record is made (docs/design/0010).
            origin.commit_start = origin.commit_start.plus(spent);
            operation.intended_start = operation.intended_start.plus(spent);
            // A linked sync is in flight with its write.
            if slot < self.places {
                self.filling.idle_ticks += spent;
            }
        }
        self.engine.clock().nanos(spent)
    }
}
