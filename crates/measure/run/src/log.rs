//! The common part of logs, virtual committers or threads: the queue of records, the place where
//! the next batch goes, and the batches so far.
//!
//! A policy and the records handed over decide which records are a batch, and where it is written.
//! Time, I/O and threads are in `measured_loop::group_commit` and `committer_threads`.
//!
//! The queue has records in the order in which they were handed over: those in flight, then those that
//! have joined the next batch, then the rest.

use std::collections::VecDeque;

use durio_base::Bytes;
use durio_block::Ticks;
use durio_record::Batches;
use durio_workload::{BlockFiller, GroupCommit, Region, Workload};

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

/// A record that a committer handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) handed: Ticks,
    /// When it should have been; the same in a closed loop.
    pub(crate) intended: Ticks,
    pub(crate) length: u64,
    /// The committer that handed it over, where that matters.
    pub(crate) committer: u32,
}

/// A batch that was taken for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogBatch {
    pub(crate) records: usize,
    pub(crate) bytes: u64,
    /// Records are left over for which it had no room.
    pub(crate) left_over: bool,
}

/// The queue. One batch is in flight at a time.
#[derive(Debug)]
pub(crate) struct LogQueue {
    records: VecDeque<Record>,
    batch_max: u64,
    in_flight: usize,
    joined: usize,
    joined_bytes: u64,
}

impl LogQueue {
    /// A queue for as many records as there are committers; batches have at most `batch_max`
    /// bytes, or one record.
    pub(crate) fn new(committers: usize, batch_max: u64) -> Self {
        let records = VecDeque::with_capacity(committers);
        Self { records, batch_max, in_flight: 0, joined: 0, joined_bytes: 0 }
    }

    /// Records that are not acknowledged.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Records that are not in flight.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.records.len() - self.in_flight
    }

    /// Takes a record; each committer has one at most.
    #[inline]
    pub(crate) fn push(&mut self, record: Record) {
        debug_assert!(self.records.len() < self.records.capacity(), "a record of each committer");
        self.records.push_back(record);
    }

    /// The next record that joins the next batch, with its place in it; none without a record or
    /// without room.
    #[inline]
    pub(crate) fn join_next(&mut self) -> Option<(Record, u64)> {
        let record = *self.records.get(self.in_flight + self.joined)?;
        let bytes = self.joined_bytes.saturating_add(record.length);
        // One record always joins, however long: else it would wait for ever.
        if self.joined > 0 && bytes > self.batch_max {
            return None;
        }
        let at = self.joined_bytes;
        self.joined += 1;
        self.joined_bytes = bytes;
        Some((record, at))
    }

    /// True if no further record can join, whatever its size, or one could not.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.joined_bytes >= self.batch_max || self.joined < self.waiting()
    }

    /// Takes the joined records for writing; nothing must be in flight.
    #[inline]
    pub(crate) fn take(&mut self) -> LogBatch {
        debug_assert_eq!(self.in_flight, 0, "one batch at a time");
        let (records, bytes) = (self.joined, self.joined_bytes);
        self.in_flight = records;
        (self.joined, self.joined_bytes) = (0, 0);
        LogBatch { records, bytes, left_over: self.waiting() > 0 }
    }

    /// The next record of the batch in flight, which is acknowledged; none when all are.
    #[inline]
    pub(crate) fn acknowledge(&mut self) -> Option<Record> {
        self.in_flight = self.in_flight.checked_sub(1)?;
        self.records.pop_front()
    }

    /// The records that are not in flight, the oldest first.
    pub(crate) fn waiting_records(&self) -> impl Iterator<Item = &Record> {
        self.records.range(self.in_flight..)
    }

    /// Forgets the first record, in flight or not, and says whose it was.
    pub(crate) fn abandon_next(&mut self) -> Option<Record> {
        (self.in_flight, self.joined, self.joined_bytes) = (0, 0, 0);
        self.records.pop_front()
    }

    /// Forgets the records that are not in flight: they will not be written.
    pub(crate) fn abandon_waiting(&mut self) {
        self.records.truncate(self.in_flight);
        (self.joined, self.joined_bytes) = (0, 0);
    }

    /// Forgets all: nothing will be acknowledged.
    pub(crate) fn abandon(&mut self) {
        self.in_flight = 0;
        self.abandon_waiting();
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

    fn record(length: u64) -> Record {
        Record { handed: Ticks(0), intended: Ticks(0), length, committer: 0 }
    }

    fn hand_over(queue: &mut LogQueue, lengths: &[u64]) {
        lengths.iter().for_each(|&length| queue.push(record(length)));
    }

    fn join_all(queue: &mut LogQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.join_next()).map(|(_, at)| at).collect()
    }

    #[test]
    fn a_batch_has_what_fits_and_the_rest_waits() {
        let mut queue = LogQueue::new(4, 1000);
        hand_over(&mut queue, &[400, 600, 1, 400]);
        assert_eq!(join_all(&mut queue), [0, 400]);
        assert!(queue.is_full());
        assert_eq!(queue.take(), LogBatch { records: 2, bytes: 1000, left_over: true });
        assert_eq!((queue.len(), queue.waiting()), (4, 2));
        // The next batch fills while this one is in flight.
        assert_eq!(join_all(&mut queue), [0, 1]);
        assert!(!queue.is_full());
        assert_eq!(queue.acknowledge().map(|record| record.length), Some(400));
        assert_eq!(queue.acknowledge().map(|record| record.length), Some(600));
        assert_eq!(queue.acknowledge(), None);
        assert_eq!(queue.take(), LogBatch { records: 2, bytes: 401, left_over: false });
    }

    #[test]
    fn a_record_larger_than_the_bound_is_a_batch_of_its_own() {
        let mut queue = LogQueue::new(3, 100);
        hand_over(&mut queue, &[500, 500, 50]);
        assert_eq!(join_all(&mut queue), [0]);
        assert_eq!(queue.take(), LogBatch { records: 1, bytes: 500, left_over: true });
    }

    #[test]
    fn what_is_abandoned_is_never_acknowledged() {
        let mut queue = LogQueue::new(3, 100);
        hand_over(&mut queue, &[60, 60, 60]);
        join_all(&mut queue);
        queue.take();
        join_all(&mut queue);
        queue.abandon_waiting();
        assert_eq!((queue.len(), queue.waiting()), (1, 0));
        assert_eq!(queue.join_next(), None);
        queue.abandon();
        assert_eq!(queue.acknowledge(), None);
    }

    #[test]
    fn batches_are_counted_by_their_records_with_what_filled_them_up() {
        let mut counts = BatchCounts::new(4);
        let batch = |records, bytes, left_over| LogBatch { records, bytes, left_over };
        counts.add(&batch(3, 1000, true), 4096, false);
        counts.add(&batch(1, 8192, false), 8192, true);
        counts.add(&batch(3, 500, true), 4096, true);
        counts.add(&batch(4, 4097, false), 8192, true);
        let expected = Batches {
            sizes: vec![(1, 1), (3, 2), (4, 1)],
            padding: Bytes::new(3096 + 3596 + 4095),
            delayed: 3,
            full: 2,
        };
        assert_eq!(counts.batches(), expected);
        counts.clear();
        assert_eq!(counts.batches(), Batches::default());
    }

    #[test]
    fn a_batch_has_the_place_and_the_length_of_its_policy() {
        let region = Region { offset: Bytes::new(8192), length: Bytes::new(16_384) };
        let of = |group_commit| Workload { group_commit, ..Workload::default() };
        assert!(Log::of(&of(None), region).is_none());
        let places = |policy, lengths: [u64; 4]| {
            let mut log = Log::of(&of(Some(policy)), region).unwrap();
            lengths.map(|bytes| log.place(bytes))
        };
        let policy = GroupCommit::of(2);
        assert_eq!(
            places(policy, [100, 4097, 1, 1]),
            [(8192, 4096), (12_288, 8192), (20_480, 4096), (8192, 4096)]
        );
        let bare = GroupCommit { pad_to: Bytes::ZERO, ..policy };
        assert_eq!(
            places(bare, [100, 4097, 12_187, 1]),
            [(8192, 100), (8292, 4097), (12_389, 12_187), (8192, 1)]
        );
        let tail = GroupCommit { rewrites_tail: true, ..policy };
        assert_eq!(
            places(tail, [100, 4000, 96, 4096]),
            [(8192, 4096), (8192, 8192), (12_288, 4096), (12_288, 8192)]
        );
    }

    #[test]
    fn records_leave_the_queue_in_their_order_each_with_its_committer() {
        let waiting = |queue: &LogQueue| -> Vec<u32> {
            queue.waiting_records().map(|record| record.committer).collect()
        };
        let mut queue = LogQueue::new(4, 100);
        for (committer, length) in [(7, 60), (8, 30), (9, 20), (6, 10)] {
            queue.push(Record { committer, ..record(length) });
        }
        assert_eq!(join_all(&mut queue), [0, 60]);
        assert!(queue.is_full(), "the third does not fit");
        assert_eq!(queue.take(), LogBatch { records: 2, bytes: 90, left_over: true });
        assert_eq!(waiting(&queue), [9, 6]);
        assert_eq!(queue.acknowledge().map(|record| record.committer), Some(7));
        assert_eq!((waiting(&queue), queue.waiting()), (vec![9, 6], 2));
        let left = std::iter::from_fn(|| queue.abandon_next()).map(|record| record.committer);
        assert_eq!(left.collect::<Vec<_>>(), [8, 9, 6]);
    }

    #[test]
    fn a_record_is_made_at_its_place_of_a_batch_and_nowhere_else() {
        let mut batch = [0; 16];
        let mut filler = BlockFiller::unique(1);
        put_record(&mut batch, (4, 8), &mut filler);
        assert!(batch[..4] == [0; 4] && batch[12..] == [0; 4] && batch[4..12] != [0; 8]);
        let before = batch;
        put_record(&mut batch, (12, 5), &mut filler);
        assert_eq!(batch, before, "it does not fit");
        put_record(&mut batch, (12, 4), &mut filler);
        assert!(batch[..12] == before[..12] && batch != before);
    }
}
