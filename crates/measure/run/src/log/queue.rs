//! The records that wait for a log, in the order in which they were handed over: those in flight,
//! then those that have joined the next batch, then the rest.

use std::collections::VecDeque;

use durio_block::Ticks;

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
}
