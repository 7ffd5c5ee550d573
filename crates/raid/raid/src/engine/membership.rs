//! Membership: failures, and the superblocks that record them.
//!
//! Takes failures and writes superblocks; operations that wait for those continue afterwards.
//! `assembly.rs` decides which members are trusted at the start, `joining.rs` has newcomers and
//! spares, `copying.rs` copies to them.
//!
//! Superblocks are written one table after another, to all present members. A table counts when
//! every one of them has it and they are at least half of the members in sync by the table before,
//! its base: so no majority can start without a member that knows it. Until then no write that
//! lacks a copy is answered, and no other table is made. Then the table is written once more,
//! marked as counting.

use durio_base::Nanos;

use super::fault::Fault;
use super::output::{
    EngineOutput, GENERATION_MASK, MemberOp, MemberOpKind, OpBuffer, OpOutcome, OpOwner, TagFields,
};
use super::{Engine, NO_PLACE, Run, StopReason};
use crate::assembly::{self, RoleDevice};
use crate::engine::lanes::Chain;
use crate::geometry::{BLOCK, MEMBERS_MAX};
use crate::layout;
use crate::superblock::{self, MemberEntry, MemberState, MemberTable, SPARES_MAX};

/// A bit for each of the two written slots, at the start and at the end.
const BOTH_ENDS: u8 = 0b11;

/// The superblocks on their way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    pub(super) is_running: bool,
    pub(super) issued: Nanos,
    /// The table being written.
    revision: u64,
    epoch: u64,
    /// The slots being written, for each entry.
    pub(super) pending: [u8; MEMBERS_MAX as usize + SPARES_MAX],
    /// Entries that have it.
    stored: u64,
    /// Entries in sync by it.
    in_sync: u64,
    /// A change of the members must be written.
    pub(super) wants_epoch: bool,
    /// A watermark has moved, which takes a new revision of the table.
    wants_revision: bool,
    /// A failure that some survivors do not know of.
    failure: FailureStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureStage {
    None,
    /// Not in the superblocks in flight.
    Waiting,
    Storing,
}

impl Update {
    pub(super) const FIRST: Self = Self {
        is_running: false,
        issued: Nanos::new(0),
        revision: 0,
        epoch: 0,
        pending: [0; MEMBERS_MAX as usize + SPARES_MAX],
        stored: 0,
        in_sync: 0,
        wants_epoch: true,
        wants_revision: false,
        failure: FailureStage::None,
    };
}

impl Engine {
    /// Whether all survivors know of every failure.
    pub(super) fn is_settled(&self) -> bool {
        self.update.failure == FailureStage::None
    }

    /// The member on this device is gone, or must be given up. Its operations count as ended; late
    /// completions are ignored.
    pub fn member_failed(&mut self, device: u8, out: &mut EngineOutput) {
        let is_it =
            |present: &Option<RoleDevice>| present.is_some_and(|present| present.device == device);
        while let Some(role) = self.devices.iter().position(is_it) {
            self.fail_role(role as u8, out);
            if matches!(self.run, Run::Stopped(_)) {
                return;
            }
        }
        self.pump(out);
    }

    /// The entry whose copy is in this place fails.
    pub(super) fn fail_place(&mut self, place: u8, out: &mut EngineOutput) {
        if let Some(at) = self.places.iter().position(|&other| other == place) {
            self.fail_role(at as u8, out);
        }
    }

    /// A failed member in sync lacks the map's regions from now on; the last copy stops the array.
    pub(super) fn fail_role(&mut self, role: u8, out: &mut EngineOutput) {
        let Some(entry) = self.table.entries.get(usize::from(role)).copied() else { return };
        if self.devices[usize::from(role)].is_none() || matches!(self.run, Run::Stopped(_)) {
            return;
        }
        let place = self.places[usize::from(role)];
        if place != NO_PLACE {
            let (set, bit) = self.copy_at(place);
            let left = (self.sets[set].in_sync & !bit).count_ones();
            if left < u32::from(self.geometry.columns()) {
                // Its superblock must keep saying that it is in sync: nothing else has the data.
                let reason = match self.parities {
                    0 => StopReason::LastCopy(entry.replaces.unwrap_or(role)),
                    _ => StopReason::LastStripe(role),
                };
                return self.stop_with(reason, out);
            }
            self.sets[set].in_sync &= !bit;
            self.sets[set].writable &= !bit;
            self.outstanding[usize::from(place)] = 0;
            let by_map = entry.by_map || entry.state == MemberState::InSync;
            let (state, since) = (MemberState::Faulty, self.table.epoch + 1);
            self.table.entries[usize::from(role)] = MemberEntry { state, by_map, since, ..entry };
            self.update.failure = FailureStage::Waiting;
        }
        self.devices[usize::from(role)] = None;
        out.has_lost = true;
        self.update.wants_epoch = true;
        self.update.pending[usize::from(role)] = 0;
        if place != NO_PLACE {
            // Before a spare takes the place, which would inherit these operations.
            self.release_pages(place, out);
            self.release_parts(place, out);
        }
        self.check_update(out);
        self.start_update(out);
    }

    /// Stops for good: every request fails, and nothing is written any more.
    pub(super) fn stop_with(&mut self, reason: StopReason, out: &mut EngineOutput) {
        self.run = Run::Stopped(reason);
        self.refuse_all(out);
    }

    /// Requests superblocks with a new epoch.
    pub(super) fn want_epoch(&mut self, out: &mut EngineOutput) {
        self.update.wants_epoch = true;
        self.start_update(out);
    }

    /// Once the map is clean for good: an image of a member that was copied while the array ran has
    /// an older epoch than the others, and is not taken for the member.
    pub(super) fn store_end(&mut self, out: &mut EngineOutput) {
        let is_due = !self.has_stored_end && !self.has(Fault::EndKeepsEpoch);
        if is_due && self.run == Run::Running && self.has_quiet_map() {
            self.has_stored_end = true;
            self.want_epoch(out);
        }
    }

    /// Requests superblocks with the present epoch.
    pub(super) fn want_revision(&mut self, out: &mut EngineOutput) {
        self.update.wants_revision = true;
        self.start_update(out);
    }

    pub(super) fn start_update(&mut self, out: &mut EngineOutput) {
        let is_wanted = self.update.wants_epoch || self.update.wants_revision;
        if self.update.is_running || !is_wanted || matches!(self.run, Run::Stopped(_)) {
            return;
        }
        // Marks that only one member has must be on all before a member can be dropped.
        if self.run == Run::Starting && (!self.has_quiet_map() || self.is_replaying()) {
            return;
        }
        // Do not start to write a table that too few members can store: a later start that found it
        // on one member alone would take its few members in sync for all.
        if !self.are_enough(assembly::in_sync(&self.table)) {
            return self.stop_with(StopReason::NoMajority, out);
        }
        self.table.revision += 1;
        if let Some(mut found) = self.uncounted.take() {
            // The base of the next table. It must not name an untrusted member as in sync.
            found.revision = self.table.revision;
            self.write_table(&found, assembly::in_sync(&self.table), out);
            self.uncounted = Some(found);
            return;
        }
        self.drop_lost_spares();
        (self.table.committed, self.table.voters) = (self.committed, self.voters);
        let keeps_epoch = self.has(Fault::DegradedStartKeepsEpoch)
            && self.run == Run::Starting
            && self.devices.iter().any(Option::is_none);
        if self.update.wants_epoch && !keeps_epoch {
            self.table.advance();
        }
        (self.update.wants_epoch, self.update.wants_revision) = (false, false);
        if self.update.failure == FailureStage::Waiting {
            self.update.failure = FailureStage::Storing;
        }
        let table = self.table.clone();
        self.write_table(&table, u64::MAX, out);
    }

    /// Writes superblocks to these entries.
    fn write_table(&mut self, table: &MemberTable, to: u64, out: &mut EngineOutput) {
        let update = &mut self.update;
        update.is_running = true;
        update.issued = self.now;
        (update.epoch, update.revision) = (table.epoch, table.revision);
        update.stored = 0;
        update.in_sync = assembly::in_sync(table);
        for at in (0..table.entries.len()).filter(|at| to & (1 << at) != 0) {
            if let Some(device) = self.devices[at] {
                self.update.pending[at] = BOTH_ENDS;
                self.write_superblocks(table, at, device, out);
            }
        }
    }

    /// Whether these are half of the members in sync before.
    fn are_enough(&self, members: u64) -> bool {
        assembly::is_half(members, self.voters)
    }

    fn write_superblocks(
        &mut self,
        table: &MemberTable,
        at: usize,
        device: RoleDevice,
        out: &mut EngineOutput,
    ) {
        let member = table.entries[at].member;
        let first = if self.has(Fault::OneMetadataSlot) { 0 } else { device.next_slot };
        for end in 0..2_u8 {
            let slot = first + 2 * end;
            let block = at as u32 * 2 + u32::from(end);
            let to = &mut self.metadata[metadata_range(block)];
            superblock::encode(table, member, device.bytes, slot, to);
            let generation = self.update.revision as u32 & GENERATION_MASK;
            let (owner, role) = (OpOwner::Superblock, at as u8);
            let tag = TagFields { owner, role, generation, index: u32::from(end) }.pack();
            // Its size was checked when it became a member.
            let offset = layout::superblock_slot(device.bytes, slot).unwrap_or(0);
            let (kind, buffer) = (MemberOpKind::Write, OpBuffer::Metadata(block));
            let (device, length) = (device.device, BLOCK as u32);
            out.ops.push(MemberOp { device, kind, offset, length, buffer, tag });
        }
    }

    /// A superblock was written, or not.
    pub(super) fn superblock_completed(
        &mut self,
        tag: TagFields,
        outcome: OpOutcome,
        out: &mut EngineOutput,
    ) {
        let at = usize::from(tag.role);
        let bit = 1_u8 << (tag.index & 1);
        let is_ours = self.update.revision as u32 & GENERATION_MASK == tag.generation;
        let Some(pending) = self.update.pending.get_mut(at).filter(|_| is_ours) else { return };
        if *pending & bit == 0 {
            return;
        }
        if outcome != OpOutcome::Done {
            return self.fail_role(tag.role, out);
        }
        *pending &= !bit;
        if *pending == 0 {
            self.update.stored |= 1 << at;
            if let Some(device) = &mut self.devices[at] {
                device.next_slot = 1 - device.next_slot;
            }
            self.check_update(out);
        }
    }

    /// All present members have the table: it counts, if they are enough.
    fn check_update(&mut self, out: &mut EngineOutput) {
        let is_over = !self.update.is_running || matches!(self.run, Run::Stopped(_));
        if is_over || self.update.pending.iter().any(|&bits| bits != 0) {
            return;
        }
        self.update.is_running = false;
        // A rebuilt member has a vote again when it is in sync again.
        if !self.are_enough(self.update.stored & self.update.in_sync) {
            return self.stop_with(StopReason::NoMajority, out);
        }
        (self.committed, self.voters) = (self.update.epoch, self.update.in_sync);
        if self.uncounted.take().is_some() {
            return self.start_update(out);
        }
        // Members that the table has in sync are read from now on.
        for (at, entry) in self.table.entries.iter().enumerate() {
            let was_stored = self.update.in_sync & (1 << at) != 0;
            if was_stored && entry.state == MemberState::InSync {
                let (set, bit) = self.copy_at(self.places[at]);
                self.sets[set].in_sync |= bit;
            }
        }
        if self.update.failure == FailureStage::Storing {
            self.update.failure = FailureStage::None;
        }
        self.admit_stored(out);
        // Before anything can request the next superblocks, which would be in flight to a spare.
        self.take_roles();
        self.take_spares();
        // The next table says it too.
        self.update.wants_revision |= !self.table.is_known_to_count();
        if self.is_settled() {
            self.release_settled(out);
        }
        self.start_update(out);
    }

    /// Members that know that they are in rebuild get writes from now on: before, they might be
    /// taken for members in sync that lack nothing.
    fn admit_stored(&mut self, out: &mut EngineOutput) {
        for at in 0..self.places.len() {
            let (place, is_here) = (self.places[at], self.devices[at].is_some());
            if place == NO_PLACE || !is_here || !self.is_known(at) {
                continue;
            }
            let (set, bit) = self.copy_at(place);
            if self.sets[set].writable & bit == 0 {
                self.sets[set].writable |= bit;
                self.want_map_for(place, out);
            }
        }
    }

    /// Whether the table that gave this entry its state counts.
    pub(super) fn is_known(&self, at: usize) -> bool {
        self.table.entries[at].since <= self.committed
    }

    fn release_settled(&mut self, out: &mut EngineOutput) {
        if self.run == Run::Starting {
            self.run = Run::Running;
        }
        // Unless the table that ends the draining is the next one.
        self.is_draining &= self.update.wants_epoch;
        let held = std::mem::replace(&mut self.held, Chain::EMPTY);
        self.ready.append(held, &mut self.links);
        let mut unsettled = std::mem::replace(&mut self.unsettled, Chain::EMPTY);
        while let Some(index) = unsettled.pop(&self.links) {
            self.finish(index, Ok(()), out);
        }
    }

    /// Fails members that have owed a superblock or a page for too long.
    pub(super) fn fail_late_metadata(&mut self, limit: Nanos, out: &mut EngineOutput) {
        if self.update.is_running && self.now.saturating_sub(self.update.issued) > limit {
            // Collected first: each failure starts an update, which the other members owe from then on.
            let late = (0..self.update.pending.len()).filter(|&at| self.update.pending[at] != 0);
            let late = late.fold(0_u64, |bits, at| bits | 1 << at);
            for at in 0..self.update.pending.len() as u8 {
                let owes = self.update.pending[usize::from(at)] != 0;
                if late & (1 << at) != 0 || owes && self.has(Fault::NextTableLate) {
                    self.fail_role(at, out);
                }
            }
        }
        for page in 0..self.pages.len() as u32 {
            let state = self.pages[page as usize];
            if !state.is_running || self.now.saturating_sub(state.issued) <= limit {
                continue;
            }
            let set = (page / self.pages_per_set) as u8;
            for copy in (0..self.stride).filter(|copy| state.pending & (1 << copy) != 0) {
                self.fail_place(set * self.stride + copy, out);
            }
        }
    }
}

/// Bytes of a block among the engine's metadata.
pub(super) fn metadata_range(block: u32) -> std::ops::Range<usize> {
    let first = block as usize * BLOCK as usize;
    first..first + BLOCK as usize
}
