//! The data of writes is made before they start, and its time is not latency.
//!
//! Queued writes without data get it, and their starts move later by the time that took. Making
//! data is the generator's work: it is counted apart ([`durio_record::Accounting::filling_ns`]), as
//! an idle place in the queue. The reason is in docs/design/0010.

use durio_block::{Clock, Engine, OperationKind};

use super::MeasuredLoop;

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
