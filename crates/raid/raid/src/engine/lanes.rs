//! Parts of requests, and their order: overlapping parts run one after the other.
//!
//! `transfer.rs` runs parts that may start.
//!
//! A part lies within one chunk, and a chunk has one lane: a list of the parts of its chunks in
//! order of arrival. A part starts when no earlier part in its lane overlaps it, unless both only
//! read. So two writes of the same bytes reach all copies in the same order, and a read never sees
//! a half-done write.

use durio_base::Nanos;

use crate::engine::fault::Fault;
use crate::engine::output::EngineOutput;
use crate::engine::{Engine, Members};
use crate::layout;

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Read,
    Write,
    Zero,
    /// A background copy, from one copy to others, or compared with others.
    Copy,
}

/// The state of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartPhase {
    Free,
    /// Behind another in its lane.
    Queued,
    /// In a list of parts that can start, or that wait for superblocks or for a mark.
    Waiting,
    /// Reads are on their way.
    Reading,
    /// Entries of the log are.
    Logging,
    /// Writes are on their way.
    Writing,
}

/// Whether a part is being made readable, piece by piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mending {
    No,
    /// The piece at this byte of it.
    At(u32),
    Over,
}

/// A piece of a request within one chunk, or a background copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkPart {
    pub(super) offset: u64,
    pub(super) issued: Nanos,
    pub(super) length: u32,
    pub(super) region: u32,
    pub(super) buffer_offset: u32,
    pub(super) generation: u32,
    pub(super) request: u16,
    pub(super) lane: u16,
    pub(super) lane_next: u16,
    pub(super) kind: PartKind,
    pub(super) phase: PartPhase,
    pub(super) set: u8,
    /// The column in the stripe.
    pub(super) column: u8,
    /// Copies with an operation in flight, a bit each.
    pub(super) remaining: Members,
    /// Copies that could not be read.
    pub(super) tried: Members,
    pub(super) mending: Mending,
    /// Nothing may overlap it, not even reads.
    pub(super) exclusive: bool,
    /// Keeps its region dirty.
    pub(super) holds_region: bool,
}

impl ChunkPart {
    pub(super) const FREE: Self = Self {
        offset: 0,
        issued: Nanos::new(0),
        length: 0,
        region: 0,
        buffer_offset: 0,
        generation: 0,
        request: NONE,
        lane: 0,
        lane_next: NONE,
        kind: PartKind::Read,
        phase: PartPhase::Free,
        set: 0,
        column: 0,
        remaining: 0,
        tried: 0,
        mending: Mending::No,
        exclusive: false,
        holds_region: false,
    };

    /// `shares_slot` if the parts of one lane share a slot of the log.
    fn conflicts(&self, other: &Self, shares_slot: bool) -> bool {
        let overlaps = self.set == other.set
            && self.offset < other.offset + u64::from(other.length)
            && other.offset < self.offset + u64::from(self.length);
        (self.exclusive || other.exclusive) && overlaps
            || (self.exclusive && other.exclusive && shares_slot)
    }
}

impl Engine {
    /// The lane of the chunk at this byte of the array.
    pub(super) fn lane_of(&self, at: u64) -> u16 {
        let number = match self.parities {
            0 => at >> self.chunk_shift,
            // The lane of the stripe: stripes that share a slot of the log share a lane.
            _ => layout::log_slot_of(&self.geometry, self.locate(at).offset),
        };
        number as u16 & (self.lanes.len() - 1) as u16
    }

    fn shares_slot(&self) -> bool {
        self.parities > 0 && !self.has(Fault::LogSlotShared)
    }

    /// Adds a part to its lane; it starts at once if nothing there overlaps it.
    #[inline(always)]
    pub(super) fn enter_lane(&mut self, index: u16, out: &mut EngineOutput) {
        let lane = &mut self.lanes[usize::from(self.parts[usize::from(index)].lane)];
        if *lane == NONE {
            *lane = index;
            return self.begin(index, out);
        }
        self.queue(index, out);
    }

    /// The same, behind others.
    fn queue(&mut self, index: u16, out: &mut EngineOutput) {
        let lane = self.lanes[usize::from(self.parts[usize::from(index)].lane)];
        let part = self.parts[usize::from(index)];
        let mut must_wait = false;
        let mut at = lane;
        loop {
            let before = &self.parts[usize::from(at)];
            must_wait |= part.conflicts(before, self.shares_slot());
            if before.lane_next == NONE {
                break;
            }
            at = before.lane_next;
        }
        self.parts[usize::from(at)].lane_next = index;
        if !must_wait || self.is_out_of_order(&part) {
            self.begin(index, out);
        }
    }

    fn is_out_of_order(&self, part: &ChunkPart) -> bool {
        self.has(Fault::NoOrder) && part.kind != PartKind::Copy
            || part.kind == PartKind::Copy
                && match self.copier.scrub_number() {
                    Some(_) => self.has(Fault::ScrubRacesWrite),
                    None => self.has(Fault::RebuildRacesWrite),
                }
    }

    /// Takes a part out of its lane; parts that waited only for it become ready.
    #[inline(always)]
    pub(super) fn leave_lane(&mut self, index: u16) {
        let &ChunkPart { lane, lane_next, .. } = &self.parts[usize::from(index)];
        let head = &mut self.lanes[usize::from(lane)];
        if *head == index {
            *head = lane_next;
            if lane_next == NONE {
                return;
            }
        } else {
            let mut before = *head;
            while self.parts[usize::from(before)].lane_next != index {
                before = self.parts[usize::from(before)].lane_next;
            }
            self.parts[usize::from(before)].lane_next = lane_next;
        }
        self.parts[usize::from(index)].lane_next = NONE;
        self.wake_lane(lane);
    }

    fn wake_lane(&mut self, lane: u16) {
        let head = self.lanes[usize::from(lane)];
        let mut at = head;
        while at != NONE {
            let part = self.parts[usize::from(at)];
            if part.phase == PartPhase::Queued && !self.is_blocked(head, at, &part) {
                self.parts[usize::from(at)].phase = PartPhase::Waiting;
                self.ready.push(at, &mut self.links);
            }
            at = part.lane_next;
        }
    }

    fn is_blocked(&self, head: u16, index: u16, part: &ChunkPart) -> bool {
        let mut at = head;
        while at != index {
            let before = &self.parts[usize::from(at)];
            if part.conflicts(before, self.shares_slot()) {
                return true;
            }
            at = before.lane_next;
        }
        false
    }
}

pub(crate) const NONE: u16 = u16::MAX;

/// First and last of a list of slots, linked through an array: a queue of parts without allocation. A slot
/// is in one list at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    first: u16,
    last: u16,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(crate) fn push(&mut self, slot: u16, links: &mut [u16]) {
        links[usize::from(slot)] = NONE;
        match self.last {
            NONE => self.first = slot,
            last => links[usize::from(last)] = slot,
        }
        self.last = slot;
    }

    pub(crate) fn pop(&mut self, links: &[u16]) -> Option<u16> {
        let first = (self.first != NONE).then_some(self.first)?;
        self.first = links[usize::from(first)];
        if self.first == NONE {
            self.last = NONE;
        }
        Some(first)
    }

    /// Appends all of another list.
    pub(crate) fn append(&mut self, other: Self, links: &mut [u16]) {
        if other.is_empty() {
            return;
        }
        match self.last {
            NONE => self.first = other.first,
            last => links[usize::from(last)] = other.first,
        }
        self.last = other.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_as_they_went_in() {
        let mut links = [NONE; 8];
        let (mut one, mut other) = (Chain::EMPTY, Chain::EMPTY);
        [3, 1, 7].into_iter().for_each(|slot| one.push(slot, &mut links));
        [0, 5].into_iter().for_each(|slot| other.push(slot, &mut links));
        one.append(other, &mut links);
        let out: Vec<u16> = std::iter::from_fn(|| one.pop(&links)).collect();
        assert_eq!((out, one.is_empty()), (vec![3, 1, 7, 0, 5], true));
    }

    #[test]
    fn a_list_that_became_empty_is_filled_again_and_an_empty_one_adds_nothing() {
        let mut links = [NONE; 8];
        let (mut one, mut other) = (Chain::EMPTY, Chain::EMPTY);
        assert_eq!(one.pop(&links), None);
        one.append(Chain::EMPTY, &mut links);
        assert!(one.is_empty());
        one.push(4, &mut links);
        assert_eq!((one.pop(&links), one.pop(&links)), (Some(4), None));
        [2, 6].into_iter().for_each(|slot| other.push(slot, &mut links));
        one.append(other, &mut links);
        one.push(1, &mut links);
        let out: Vec<u16> = std::iter::from_fn(|| one.pop(&links)).collect();
        assert_eq!(out, [2, 6, 1]);
    }

    #[test]
    fn parts_conflict_where_they_overlap_and_one_of_them_writes() {
        let part = |set: u8, offset: u64, length: u32, exclusive: bool| ChunkPart {
            set,
            offset,
            length,
            exclusive,
            ..ChunkPart::FREE
        };
        // Bytes 4096 to 5119 of set 1.
        let write = part(1, 4096, 1024, true);
        let meets = |set, offset, length, exclusive| {
            let other = part(set, offset, length, exclusive);
            let both = [write.conflicts(&other, false), other.conflicts(&write, false)];
            assert_eq!(both[0], both[1]);
            both[0]
        };
        assert!(meets(1, 4096, 1024, false) && meets(1, 4500, 1, true) && meets(1, 0, 9999, false));
        assert_eq!((meets(1, 5119, 512, true), meets(1, 5120, 512, true)), (true, false));
        assert_eq!((meets(1, 3584, 513, false), meets(1, 3584, 512, true)), (true, false));
        assert!(!meets(0, 4096, 1024, true) && !meets(2, 4096, 1024, false));
        let read = part(1, 4096, 1024, false);
        assert!(!read.conflicts(&read, false) && !read.conflicts(&read, true));
        // Writes of one slot of the log wait for each other wherever they are.
        let far = |exclusive| part(1, 1 << 20, 512, exclusive);
        assert!(write.conflicts(&far(true), true) && !write.conflicts(&far(true), false));
        assert!(!write.conflicts(&far(false), true) && !read.conflicts(&far(true), true));
    }
}
