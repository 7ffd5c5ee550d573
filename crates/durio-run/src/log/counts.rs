//! What the batches of a log were: how many records each had, what was filled up, what was waited
//! for.

use durio_record::Batches;
use durio_units::Bytes;

use super::Taken;

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
