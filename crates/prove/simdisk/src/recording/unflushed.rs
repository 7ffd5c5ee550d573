//! Which writes a power cut may lose, event by event.
//!
//! Turns events into the writes that each makes durable, in the order in which they must be stored.
//!
//! If two writes cover a sector, the one that began later wins, even if it is durable first: only
//! the rest of the older write remains. dm-log-writes keeps the older write whole, and a replay of
//! its log stores it over the newer one.

use std::collections::HashMap;

use super::{DiskEvent, Write};
use crate::image::SectorMask;

/// Writes that have started and are not known to be durable, in starting order.
#[derive(Debug, Clone, Default)]
pub struct Unflushed {
    writes: Vec<UnflushedWrite>,
}

#[derive(Debug, Clone)]
struct UnflushedWrite {
    write: Write,
    ended: Option<u64>,
}

/// For each page: the writes made durable there, each with its place among them.
type StoredWrites = HashMap<u64, Vec<(u64, usize, SectorMask)>>;

impl Unflushed {
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &Write> {
        self.writes.iter().map(|it| &it.write)
    }

    /// Takes an event, and returns the writes that it made durable.
    pub fn take(&mut self, event: &DiskEvent) -> Vec<Write> {
        match event {
            DiskEvent::Begun(write) => {
                self.writes.push(UnflushedWrite { write: write.clone(), ended: None });
            }
            DiskEvent::Ended { write, order, durable } => {
                // The latest are found first: few are in flight.
                let mut latest = self.writes.iter_mut().rev();
                let Some(pending) = latest.find(|it| it.write.number == *write) else {
                    return Vec::new();
                };
                pending.ended = Some(*order);
                if *durable {
                    return self.settle(|it| it.write.number == *write);
                }
            }
            DiskEvent::Flushed { covers } => {
                return self.settle(|it| it.ended.is_some_and(|order| order <= *covers));
            }
            DiskEvent::Mark(_) => {}
            DiskEvent::Cut => self.writes.clear(),
        }
        Vec::new()
    }

    /// Whether an event would make something durable.
    #[must_use]
    pub fn changes_with(&self, event: &DiskEvent) -> bool {
        match event {
            DiskEvent::Ended { durable, .. } => *durable,
            DiskEvent::Flushed { covers } => {
                self.writes.iter().any(|it| it.ended.is_some_and(|order| order <= *covers))
            }
            DiskEvent::Begun(_) | DiskEvent::Mark(_) | DiskEvent::Cut => false,
        }
    }

    /// The writes that ended without a flush.
    pub(crate) fn take_ended(&mut self) -> Vec<Write> {
        self.settle(|it| it.ended.is_some())
    }

    /// Takes writes out, in the order of their ends.
    fn settle(&mut self, takes: impl Fn(&UnflushedWrite) -> bool) -> Vec<Write> {
        let all = std::mem::take(&mut self.writes);
        let (mut taken, left): (Vec<UnflushedWrite>, Vec<UnflushedWrite>) =
            all.into_iter().partition(takes);
        self.writes = left;
        taken.sort_by_key(|it| it.ended);
        let mut stored = StoredWrites::new();
        for (place, pending) in taken.iter().enumerate() {
            for part in &pending.write.parts {
                let here = (pending.write.number, place, part.mask);
                stored.entry(part.page).or_default().push(here);
            }
        }
        let places = taken.iter_mut().enumerate().map(|(place, it)| (it, place));
        places.for_each(|(it, place)| void(&mut it.write, place, &stored));
        self.writes.iter_mut().for_each(|it| void(&mut it.write, usize::MAX, &stored));
        taken.retain(|it| !it.write.parts.is_empty());
        taken.into_iter().map(|it| it.write).collect()
    }
}

/// Removes from a write the sectors that later, already stored writes have replaced.
fn void(write: &mut Write, place: usize, stored: &StoredWrites) {
    for part in &mut write.parts {
        for &(number, earlier, mask) in stored.get(&part.page).into_iter().flatten() {
            if number > write.number && earlier < place {
                part.mask &= !mask;
            }
        }
    }
    write.parts.retain(|part| part.mask != 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::WritePart;

    fn write(number: u64, page: u64, mask: SectorMask) -> DiskEvent {
        DiskEvent::Begun(Write { number, parts: vec![WritePart { page, mask, data: None }] })
    }

    fn ended(write: u64, order: u64, durable: bool) -> DiskEvent {
        DiskEvent::Ended { write, order, durable }
    }

    fn numbers(writes: &[Write]) -> Vec<(u64, SectorMask)> {
        writes.iter().map(|it| (it.number, it.parts[0].mask)).collect()
    }

    #[test]
    fn the_order_is_that_of_the_kernel() {
        // The example in dm-log-writes.c: a, b, c; c and a end; a flush and d with FUA; b ends.
        let mut unflushed = Unflushed::default();
        let before = [write(1, 1, 1), write(2, 2, 1), write(3, 3, 1), ended(3, 1, false)];
        let after = [ended(1, 2, false), write(4, 4, 1), ended(2, 3, false)];
        for event in before.iter().chain(&after) {
            assert!(unflushed.take(event).is_empty());
        }
        let flushed = unflushed.take(&DiskEvent::Flushed { covers: 2 });
        assert_eq!(numbers(&flushed), [(3, 1), (1, 1)]);
        assert_eq!(numbers(&unflushed.take(&ended(4, 4, true))), [(4, 1)]);
        assert_eq!(unflushed.writes().map(Write::number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn what_a_durable_write_replaced_of_an_older_one_is_void() {
        let mut unflushed = Unflushed::default();
        for event in [write(1, 1, 0b11), ended(1, 1, false), write(2, 1, 0b10)] {
            unflushed.take(&event);
        }
        assert_eq!(numbers(&unflushed.take(&ended(2, 2, true))), [(2, 0b10)]);
        assert_eq!(numbers(&unflushed.take(&DiskEvent::Flushed { covers: 2 })), [(1, 0b01)]);
    }

    #[test]
    fn of_two_that_end_the_other_way_round_the_later_stays() {
        let mut unflushed = Unflushed::default();
        let events = [write(1, 1, 0b11), write(2, 1, 0b10), ended(2, 1, false), ended(1, 2, false)];
        events.iter().for_each(|event| drop(unflushed.take(event)));
        let flushed = unflushed.take(&DiskEvent::Flushed { covers: 2 });
        assert_eq!(numbers(&flushed), [(2, 0b10), (1, 0b01)]);
    }
}
