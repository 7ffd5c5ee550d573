//! What every log has, whoever runs its committers: the queue of records, the place where the next
//! batch goes, and what the batches were.
//!
//! In: a policy, records as they are handed over. Out: which records are a batch, and where it is
//! written. Not here: time, I/O, threads (`measured_loop::log`, `committer_threads`).

mod queue;

use durio_record::Batches;
use durio_units::Bytes;
use durio_workload::{BlockFiller, GroupCommit, Region, Workload};

pub(crate) use queue::{LogQueue, Record, Taken};

/// A log before its first record.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) policy: GroupCommit,
    pub(crate) queue: LogQueue,
    pub(crate) counts: BatchCounts,
    pub(crate) position: LogPosition,
}

impl Log {
    /// The log of `workload` in `region`; none if it has no committers. Allocates everything that
    /// the log will ever need.
    pub(crate) fn of(workload: &Workload, region: Region) -> Option<Self> {
        let policy = workload.group_commit?;
        let committers = policy.committers as usize;
        Some(Self {
            policy,
            // Each committer has one record at most.
            queue: LogQueue::new(committers, policy.batch_max.get()),
            counts: BatchCounts::new(committers),
            position: LogPosition::new(region),
        })
    }

    /// The bytes that a batch with `bytes` of records writes.
    pub(crate) fn padded(&self, bytes: u64) -> u64 {
        self.policy.padded(Bytes::new(bytes)).get()
    }
}

/// Makes a record of `length` bytes at `at` of a batch: that stands for copying it there, and costs
/// about as much.
#[inline]
pub(crate) fn put_record(batch: &mut [u8], (at, length): (u64, u64), filler: &mut BlockFiller) {
    let as_index = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (at, length) = (as_index(at), as_index(length));
    // A batch has room for what joined it, by the write's bound.
    let Some(place) = batch.get_mut(at..at.saturating_add(length)) else { return };
    filler.fill(place);
}

/// Counts batches without allocating.
#[derive(Debug)]
pub(crate) struct BatchCounts {
    /// Batches by their number of records.
    sizes: Box<[u64]>,
    padding: u64,
    delayed: u64,
    full: u64,
}

impl BatchCounts {
    /// For batches of at most `committers` records.
    pub(crate) fn new(committers: usize) -> Self {
        let sizes = vec![0; committers + 1].into_boxed_slice();
        Self { sizes, padding: 0, delayed: 0, full: 0 }
    }

    /// Counts a batch that is acknowledged; `written` are its bytes with what filled it up.
    #[inline]
    pub(crate) fn add(&mut self, batch: &Taken, written: u64, delayed: bool) {
        if let Some(count) = self.sizes.get_mut(batch.records) {
            *count += 1;
        }
        self.padding += written.saturating_sub(batch.bytes);
        self.delayed += u64::from(delayed);
        self.full += u64::from(batch.left_over);
    }

    /// Forgets all: the ramp is over.
    pub(crate) fn clear(&mut self) {
        self.sizes.fill(0);
        (self.padding, self.delayed, self.full) = (0, 0, 0);
    }

    /// As it is recorded.
    pub(crate) fn batches(&self) -> Batches {
        let sizes = (0..).zip(&self.sizes).filter(|(_, count)| **count > 0);
        Batches {
            sizes: sizes.map(|(records, &count)| (records, count)).collect(),
            padding: Bytes::new(self.padding),
            delayed: self.delayed,
            full: self.full,
        }
    }
}

/// The end of a log, in bytes of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPosition {
    begin: u64,
    next: u64,
    end: u64,
}

impl LogPosition {
    /// A log that begins at the begin of `region`.
    pub(crate) fn new(region: Region) -> Self {
        let begin = region.offset.get();
        Self { begin, next: begin, end: begin.saturating_add(region.length.get()) }
    }

    /// Where a write of `length` bytes goes. One that would reach past the end goes to the begin:
    /// the region holds the largest batch (`Workload::region_among`).
    #[inline]
    pub(crate) fn place(&mut self, length: u64) -> u64 {
        let fits = self.next.checked_add(length).is_some_and(|end| end <= self.end);
        let at = if fits { self.next } else { self.begin };
        self.next = at.saturating_add(length);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_does_not_fit_any_more_goes_to_the_begin() {
        let region = Region { offset: Bytes::new(4096), length: Bytes::new(10_000) };
        let mut position = LogPosition::new(region);
        let places = [4096, 4096, 2000, 10_000, 1].map(|length| position.place(length));
        assert_eq!(places, [4096, 8192, 4096, 4096, 4096]);
        let mut exact = LogPosition::new(Region { length: Bytes::new(8192), ..region });
        assert_eq!([4096, 4096, 4096].map(|length| exact.place(length)), [4096, 8192, 4096]);
    }
}
