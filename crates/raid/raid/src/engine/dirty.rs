//! Tracks which regions may differ between copies, and the map that records this durably.
//!
//! Takes starts and ends of writes, and sweeps; returns writes of pages, and parts whose mark is
//! stored. `map_page.rs` has the block.
//!
//! ```text
//!            first write                 sweep, no writer           first write
//!   clean ───────────────► dirty ─────────────────────────► clean ─────────────►
//!                            │  a member is away               │
//!                            └──────────────────────► stale ◄──┘ as dirty, without a writer
//! ```
//!
//! A page is written to all copies of its set, including a replacement's. Marks that arrive during
//! that write are collected for the next one. A region that is already dirty on all copies costs a
//! write nothing.

use durio_base::Nanos;

use super::fault::Fault;
use super::lanes::PartPhase;
use super::membership::metadata_range;
use super::output::{
    EngineOutput, GENERATION_MASK, MemberOp, MemberOpKind, OpBuffer, OpOutcome, OpOwner, TagFields,
};
use super::{Engine, Members, Run, Set};
use crate::assembly::{OwnMarks, PlannedPage, own_marks};
use crate::engine::lanes::Chain;
use crate::geometry::{BLOCK, BytePlace};
use crate::layout;
use crate::map_page::{self, DIRTY, PageName, STALE, UNSYNCED, regions_per_page};

/// A region of a set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DirtyRegion {
    /// Writes that keep it dirty.
    pub(super) writers: u16,
    /// The region's byte in the map, or in its next write.
    pub(super) byte: u8,
    /// The map of each copy in sync says that it is dirty.
    pub(super) durable: bool,
    /// Copies may differ since before the start.
    pub(super) needs_sync: bool,
    /// A part of it could not be read from any copy: it stays so until the next start.
    pub(super) is_unreadable: bool,
    /// Written since the last sweep.
    pub(super) touched: bool,
}

/// A page of the map of a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapPage {
    pub(super) generation: u64,
    /// The generation that a returning member has: the next must be later.
    pub(super) generation_seen: u64,
    pub(super) issued: Nanos,
    /// Parts that wait for the next writing.
    pub(super) waiting: Chain,
    /// Parts that wait for the present one.
    pub(super) riding: Chain,
    /// Copies to which it is on its way.
    pub(super) pending: Members,
    pub(super) is_running: bool,
    /// Changed since the last write started.
    pub(super) is_wanted: bool,
}

/// The slots of a page on one member.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageSlots {
    /// The slot that is written next.
    pub(super) next: u8,
    /// A page was stored since the member took its role.
    pub(super) is_stored: bool,
}

impl Engine {
    /// The region of a place, counted over all sets.
    pub(super) fn region_at(&self, place: BytePlace) -> u32 {
        let within = (place.offset >> self.region_shift) as u32;
        u32::from(place.set) * self.regions_per_set + within
    }

    fn page_of(&self, region: u32) -> u32 {
        let (set, within) = (region / self.regions_per_set, region % self.regions_per_set);
        let of_set = if self.has(Fault::FirstPageMarked) { 0 } else { within / regions_per_page() };
        set * self.pages_per_set + of_set
    }

    /// Regions of a page, counted over all sets.
    fn regions_of(&self, page: u32) -> std::ops::Range<usize> {
        let (set, within) = (page / self.pages_per_set, page % self.pages_per_set);
        let first = within * regions_per_page();
        let end = (first + regions_per_page()).min(self.regions_per_set);
        let base = set * self.regions_per_set;
        (base + first) as usize..(base + end) as usize
    }

    /// Takes the map found at assembly. Regions that are dirty on any copy will be made equal; with
    /// stripes, only those whose parities were never made, because the log covers the writes in
    /// flight.
    pub(super) fn load_map(&mut self, planned: &[PlannedPage]) {
        for (page, plan) in (0_u32..).zip(planned) {
            let set = page / self.pages_per_set;
            if page % self.pages_per_set > 0 && self.has(Fault::FirstPageLoaded) {
                continue;
            }
            for ((region, any), all) in self.regions_of(page).zip(&plan.any).zip(&plan.all) {
                let is_dirty = any & DIRTY != 0;
                let is_unsure = plan.is_lost || any & UNSYNCED != 0;
                let needs_sync = is_dirty && (self.parities == 0 || is_unsure);
                // Until the resync is done, even across further starts.
                let unsynced = if self.parities > 0 && needs_sync { UNSYNCED } else { 0 };
                self.regions[region] = DirtyRegion {
                    byte: *any | unsynced,
                    durable: all & DIRTY != 0 && is_dirty,
                    needs_sync,
                    ..DirtyRegion::default()
                };
                self.unsynced += u32::from(needs_sync);
            }
            let state = &mut self.pages[page as usize];
            // All copies get the marks of each: otherwise they are lost with that copy.
            state.is_wanted = plan.any != plan.all;
            // A member that is away may have the one in flight at the end.
            state.generation = plan.generation + 2;
            for (copy, next) in (0_u8..).zip(&plan.next_slots) {
                let Set { in_sync, writable } = self.sets[set as usize];
                let is_stored = in_sync & (1 << copy) != 0 && next.is_some();
                let at = self.slots_at(set as u8 * self.stride + copy, page % self.pages_per_set);
                self.page_slots[at] = PageSlots { next: next.unwrap_or(0), is_stored };
                // A member that lacks a page gets it.
                let is_here = writable & (1 << copy) != 0;
                self.pages[page as usize].is_wanted |= is_here && !is_stored;
            }
        }
    }

    /// Parities of this region may be wrong, and no log corrects them: they are recomputed, now or
    /// later.
    pub(super) fn doubt_region(&mut self, offset: u64) {
        let at = self.region_at(BytePlace { set: 0, offset, column: 0 });
        let region = &mut self.regions[at as usize];
        region.byte |= DIRTY | UNSYNCED;
        if !std::mem::replace(&mut region.needs_sync, true) {
            self.unsynced += 1;
        }
        let page = self.page_of(at);
        self.pages[page as usize].is_wanted = true;
    }

    /// The parities of a region are right: no start needs to recompute them.
    pub(super) fn note_synced(&mut self, region: u32, out: &mut EngineOutput) {
        let byte = &mut self.regions[region as usize].byte;
        if *byte & UNSYNCED != 0 {
            *byte &= !UNSYNCED;
            let page = self.page_of(region);
            self.pages[page as usize].is_wanted = true;
            self.start_page(page, out);
        }
    }

    pub(super) fn slots_at(&self, place: u8, page_of_set: u32) -> usize {
        (u32::from(place) * self.pages_per_set + page_of_set) as usize
    }

    /// The member in this place lacks the map of its set: writes all of it.
    pub(super) fn want_map_for(&mut self, place: u8, out: &mut EngineOutput) {
        let set = u32::from(place / self.stride);
        for page in 0..self.pages_per_set {
            let at = self.slots_at(place, page);
            self.page_slots[at].is_stored = false;
            let page = set * self.pages_per_set + page;
            self.pages[page as usize].is_wanted = true;
            self.start_page(page, out);
        }
    }

    /// The marks of a member that was away are copied to it too, if it is rebuilt by the map. Its
    /// pages must not pass for newer ones than those it gets.
    pub(super) fn take_marks(&mut self, place: u8, map: &[u8], by_map: bool) {
        let set = place / self.stride;
        for page in 0..self.pages_per_set {
            let name = PageName { array: self.table.array, set, page };
            let index = u32::from(set) * self.pages_per_set + page;
            let regions = self.regions_of(index);
            let OwnMarks { marks, next, generation } = own_marks(name, map);
            if by_map {
                for (region, mark) in self.regions[regions].iter_mut().zip(marks) {
                    region.byte |= mark;
                }
            }
            let seen = &mut self.pages[index as usize].generation_seen;
            *seen = generation.max(*seen);
            // Not over its newest page: a cut would leave it without any.
            let at = self.slots_at(place, page);
            self.page_slots[at].next = next;
        }
    }

    /// True if no page is on its way.
    pub(super) fn has_quiet_map(&self) -> bool {
        self.pages.iter().all(|page| !page.is_running)
    }

    /// True if the member in this place has every page of its set's map as it is now.
    pub(super) fn has_map(&self, place: u8) -> bool {
        let set = u32::from(place / self.stride);
        (0..self.pages_per_set).all(|page| {
            let is_stored = self.page_slots[self.slots_at(place, page)].is_stored;
            is_stored && !self.pages[(set * self.pages_per_set + page) as usize].is_running
        })
    }

    /// Marks the region of a part, which waits until the mark is stored.
    pub(super) fn mark(&mut self, index: u16, out: &mut EngineOutput) {
        let region = self.parts[usize::from(index)].region;
        self.regions[region as usize].byte |= DIRTY;
        let page = self.page_of(region);
        let state = &mut self.pages[page as usize];
        state.is_wanted = true;
        self.parts[usize::from(index)].phase = PartPhase::Waiting;
        if !self.has(Fault::MarkNotAwaited) {
            self.pages[page as usize].waiting.push(index, &mut self.links);
        }
        self.start_page(page, out);
    }

    /// Writes every page that has changed.
    pub(super) fn start_pages(&mut self, out: &mut EngineOutput) {
        for page in 0..self.pages.len() as u32 {
            self.start_page(page, out);
        }
    }

    /// Writes a page to all copies, unless it is in flight or unchanged.
    pub(super) fn start_page(&mut self, page: u32, out: &mut EngineOutput) {
        let regions = self.regions_of(page);
        let state = &mut self.pages[page as usize];
        if state.is_running || !state.is_wanted || matches!(self.run, Run::Stopped(_)) {
            return;
        }
        state.is_running = true;
        state.is_wanted = false;
        state.riding = std::mem::replace(&mut state.waiting, Chain::EMPTY);
        state.generation = state.generation.max(state.generation_seen) + 1;
        state.issued = self.now;
        let generation = state.generation;
        let (set, page_of_set) = (page / self.pages_per_set, page % self.pages_per_set);
        let name = PageName { array: self.table.array, set: set as u8, page: page_of_set };
        let block = self.first_page + page;
        let regions = match self.has(Fault::NeighbourPageWritten) {
            true => {
                self.regions_of(set * self.pages_per_set + (page_of_set + 1) % self.pages_per_set)
            }
            false => regions,
        };
        let bytes = self.regions[regions].iter().map(|region| region.byte);
        map_page::encode(name, generation, bytes, &mut self.metadata[metadata_range(block)]);
        let mut copies = self.sets[set as usize].writable;
        let is_mark = !self.pages[page as usize].riding.is_empty();
        if is_mark && self.has(Fault::MarkOnOneMember) {
            copies &= copies.wrapping_neg();
        }
        self.pages[page as usize].pending = copies;
        for copy in (0..self.stride).filter(|copy| copies & (1 << copy) != 0) {
            self.write_page(set as u8 * self.stride + copy, page, block, out);
        }
    }

    fn write_page(&mut self, place: u8, page: u32, block: u32, out: &mut EngineOutput) {
        let page_of_set = page % self.pages_per_set;
        let slot = if self.has(Fault::OneMetadataSlot) {
            0
        } else {
            self.page_slots[self.slots_at(place, page_of_set)].next
        };
        let generation = self.pages[page as usize].generation as u32 & GENERATION_MASK;
        let tag = TagFields { owner: OpOwner::Page, role: place, generation, index: page }.pack();
        out.ops.push(MemberOp {
            device: self.device_numbers[usize::from(place)],
            kind: MemberOpKind::Write,
            offset: layout::map_slot(page_of_set, slot),
            length: BLOCK as u32,
            buffer: OpBuffer::Metadata(block),
            tag,
        });
    }

    /// A write of a page has ended on one copy.
    pub(super) fn page_completed(
        &mut self,
        tag: TagFields,
        outcome: OpOutcome,
        out: &mut EngineOutput,
    ) {
        let bit = 1 << (tag.role % self.stride);
        let Some(state) = self.pages.get_mut(tag.index as usize) else { return };
        let is_ours = state.generation as u32 & GENERATION_MASK == tag.generation;
        if !is_ours || state.pending & bit == 0 {
            return;
        }
        if outcome != OpOutcome::Done {
            return self.fail_place(tag.role, out);
        }
        state.pending &= !bit;
        let is_last = state.pending == 0;
        let at = self.slots_at(tag.role, tag.index % self.pages_per_set);
        let slots = &mut self.page_slots[at];
        *slots = PageSlots { next: 1 - slots.next, is_stored: true };
        if is_last {
            self.page_stored(tag.index, out);
        }
    }

    /// Every copy has the page: parts that waited for it continue.
    fn page_stored(&mut self, page: u32, out: &mut EngineOutput) {
        let state = &mut self.pages[page as usize];
        state.is_running = false;
        let mut riding = std::mem::replace(&mut state.riding, Chain::EMPTY);
        while let Some(index) = riding.pop(&self.links) {
            let region = self.parts[usize::from(index)].region;
            self.regions[region as usize].durable = true;
            self.issue_writes(index, out);
        }
        self.start_page(page, out);
        if self.run == Run::Starting {
            self.start_update(out);
        }
    }

    /// A copy failed: no page waits for it.
    pub(super) fn release_pages(&mut self, place: u8, out: &mut EngineOutput) {
        let (set, bit) = (u32::from(place / self.stride), 1 << (place % self.stride));
        for page in set * self.pages_per_set..(set + 1) * self.pages_per_set {
            let state = &mut self.pages[page as usize];
            let was_pending = state.pending & bit != 0;
            state.pending &= !bit;
            if was_pending && state.pending == 0 {
                self.page_stored(page, out);
            }
        }
    }

    /// A part no longer keeps its region dirty.
    #[inline(always)]
    pub(super) fn release_region(&mut self, index: u16) {
        let part = &self.parts[usize::from(index)];
        if part.holds_region {
            let region = &mut self.regions[part.region as usize];
            region.writers -= 1;
            region.touched = true;
        }
    }

    /// Clears regions without writes since the last sweep; if `at_once`, all regions without a
    /// write in progress.
    pub(super) fn sweep(&mut self, at_once: bool, out: &mut EngineOutput) {
        self.swept = self.now;
        for page in 0..self.pages.len() as u32 {
            let first = (page / self.pages_per_set) as usize * usize::from(self.width);
            // A replacement does not count: if it fails, it gets everything the next time.
            let is_whole = (first..first + usize::from(self.width)).all(|at| self.is_read(at));
            let may_have_writers = self.has(Fault::ClearUnderWriter);
            let mut has_changed = false;
            let regions = self.regions_of(page);
            for region in &mut self.regions[regions] {
                let is_idle = region.writers == 0 || may_have_writers;
                let is_touched = std::mem::replace(&mut region.touched, false) && !at_once;
                if !is_idle || is_touched || region.needs_sync {
                    continue;
                }
                // A member that is away lacks the dirty regions.
                let was_written = region.byte & (DIRTY | STALE) != 0;
                let rest = if was_written && !is_whole { STALE } else { 0 };
                has_changed |= rest != region.byte;
                region.byte = rest;
                region.durable = false;
            }
            self.pages[page as usize].is_wanted |= has_changed;
            self.start_page(page, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{complete_all, running, write};
    use super::*;
    use durio_base::RaidLevel;

    #[test]
    fn the_next_page_is_later_than_those_of_all_members_that_came_back() {
        for generations in [[70, 50], [50, 70], [1, 70]] {
            let (mut engine, mut out) = running(RaidLevel::Raid1);
            let name = PageName { array: engine.table.array, set: 0, page: 0 };
            for (place, generation) in (2..).zip(generations) {
                let mut map = vec![0; 2 * BLOCK as usize];
                map_page::encode(name, generation, [].into_iter(), &mut map[BLOCK as usize..]);
                engine.take_marks(place, &map, true);
            }
            engine.submit(write(1, 0), &mut out).unwrap();
            complete_all(&mut engine, &mut out);
            assert_eq!(engine.pages[0].generation, 71, "{generations:?}");
        }
    }
}
