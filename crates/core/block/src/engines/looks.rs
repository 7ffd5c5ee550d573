//! Looks for completions: what they found, and how long an asynchronous engine went without one.
//!
//! [`Looks`] keeps the time of each look and its count of completions, the oldest first, until the
//! caller has taken them. [`LookGap`] keeps the longest time between two looks while an operation in
//! flight might have completed. Waiting in the kernel for a completion is looking.

use crate::Ticks;

/// The longest time without a look, for engines that keep something in flight.
#[derive(Debug, Default)]
pub struct LookGap {
    last: Ticks,
    longest: u64,
}

impl LookGap {
    /// A look at `now`; something has been in flight since the one before.
    #[inline(always)]
    pub fn looked(&mut self, now: Ticks) {
        self.longest = self.longest.max(now.since(self.last));
        self.last = now;
    }

    /// A look at `now` that ends a wait for completions, or before which nothing was in flight.
    #[inline(always)]
    pub fn waited(&mut self, now: Ticks) {
        // Else the time of an idle job would show as time without a look.
        self.last = now;
    }

    /// When the last look was.
    #[inline(always)]
    #[must_use]
    pub fn last(&self) -> Ticks {
        self.last
    }

    /// The longest time without a look, in ticks; counting starts over.
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.longest)
    }
}

/// Completions that a look found, or a part of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompletionBatch {
    pub(crate) count: usize,
    pub(crate) at: Ticks,
}

/// Looks of which completions are left.
#[derive(Debug)]
pub(crate) struct Looks {
    ring: Box<[CompletionBatch]>,
    /// Numbers of the oldest look and of the next one; a place is the number modulo the ring's length.
    first: usize,
    next: usize,
}

impl Looks {
    /// For at most `completions_max` completions at a time, and so at most as many looks.
    pub(crate) fn new(completions_max: usize) -> Self {
        // A power of two: a place is a mask and no division, in a loop where instructions count.
        let ring = vec![CompletionBatch::default(); completions_max.next_power_of_two()];
        Self { ring: ring.into_boxed_slice(), first: 0, next: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// A look that found at least one.
    #[inline(always)]
    pub(crate) fn push(&mut self, look: CompletionBatch) {
        let place = self.next & (self.ring.len() - 1);
        self.ring[place] = look;
        self.next = self.next.wrapping_add(1);
    }

    /// Up to `room` completions of the oldest look, at least one if there is room.
    #[inline(always)]
    pub(crate) fn take(&mut self, room: usize) -> Option<CompletionBatch> {
        if self.is_empty() {
            return None;
        }
        let place = self.first & (self.ring.len() - 1);
        let look = &mut self.ring[place];
        let count = look.count.min(room);
        let taken = CompletionBatch { count, ..*look };
        look.count -= count;
        if look.count == 0 {
            self.first = self.first.wrapping_add(1);
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn the_longest_time_without_a_look_does_not_contain_waits() {
        let mut watch = LookGap::default();
        watch.waited(Ticks(100));
        watch.looked(Ticks(107));
        watch.waited(Ticks(900));
        watch.looked(Ticks(903));
        assert_eq!(watch.take(), 7);
        watch.looked(Ticks(905));
        assert_eq!(watch.take(), 2);
    }

    proptest! {
        /// The peer is a queue with the time of each completion.
        #[test]
        fn every_completion_is_given_once_in_order_with_the_time_of_its_look(
            completions_max in 1_usize..40,
            steps in prop::collection::vec((any::<bool>(), 1_usize..12), 0..200),
        ) {
            let (mut looks, mut peer) = (Looks::new(completions_max), VecDeque::new());
            for (time, (is_look, count)) in steps.into_iter().enumerate() {
                let at = Ticks(time as u64);
                if is_look {
                    let count = count.min(completions_max - peer.len());
                    if count > 0 {
                        looks.push(CompletionBatch { count, at });
                        peer.extend(vec![at; count]);
                    }
                } else if let Some(taken) = looks.take(count) {
                    prop_assert!((1..=count).contains(&taken.count));
                    let expected: Vec<Ticks> = peer.drain(..taken.count).collect();
                    prop_assert!(expected.iter().all(|&at| at == taken.at));
                }
                prop_assert_eq!(looks.is_empty(), peer.is_empty());
            }
        }
    }
}
