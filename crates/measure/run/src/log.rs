//! The common part of logs, virtual committers or threads: the queue of records, the place where
//! the next batch goes, and the batches so far.
//!
//! A policy and the records handed over decide which records are a batch, and where it is written.
//! Time, I/O and threads are in `measured_loop::log` and `committer_threads`.

mod queue;

use durio_base::Bytes;
use durio_record::Batches;
use durio_workload::{BlockFiller, GroupCommit, Region, Workload};

pub(crate) use queue::{LogBatch, LogQueue, Record};

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

    /// Where a batch with `bytes` of records is written, and how many bytes that write has.
    #[inline]
    pub(crate) fn place(&mut self, bytes: u64) -> (u64, u64) {
        let length = self.policy.padded(Bytes::new(bytes)).get();
        match self.policy.rewrites_tail {
            true => self.position.place_behind(bytes, self.policy.pad_to.get()),
            false => (self.position.place(length), length),
        }
    }
}

/// Makes a record of `length` bytes at `at` of a batch: that stands for copying it there, and costs
/// about as much.
#[inline]
pub(crate) fn put_record(batch: &mut [u8], (at, length): (u64, u64), filler: &mut BlockFiller) {
    let as_index = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (at, length) = (as_index(at), as_index(length));
    // A batch has room for its joined records, by the write's bound.
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

    /// Counts an acknowledged batch; `written` are its bytes with padding.
    #[inline]
    pub(crate) fn add(&mut self, batch: &LogBatch, written: u64, delayed: bool) {
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

    /// The same of a log that ends amid a block of `unit` bytes, which is written again: gives where the write
    /// begins, and its length.
    #[inline]
    fn place_behind(&mut self, bytes: u64, unit: u64) -> (u64, u64) {
        let whole = |behind: u64| self.begin + (behind - self.begin).div_ceil(unit) * unit;
        let fits = self.next.checked_add(bytes).is_some_and(|end| whole(end) <= self.end);
        let behind = if fits { self.next } else { self.begin };
        let from = self.begin + (behind - self.begin) / unit * unit;
        let to = whole(behind + bytes);
        self.next = behind + bytes;
        (from, to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_is_written_again_until_it_is_full() {
        let region = Region { offset: Bytes::new(4096), length: Bytes::new(3 * 4096) };
        let mut position = LogPosition::new(region);
        let mut place = |bytes| position.place_behind(bytes, 4096);
        assert_eq!([3000, 1000, 96].map(&mut place), [(4096, 4096); 3]);
        // It is full: the next one has a block of its own, and one goes over into a third.
        assert_eq!([100, 4000].map(&mut place), [(8192, 4096), (8192, 8192)]);
        // The region ends with that block.
        assert_eq!([4090, 200].map(&mut place), [(12288, 4096), (4096, 4096)]);
    }

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
