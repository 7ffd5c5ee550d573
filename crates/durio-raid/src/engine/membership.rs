//! Who is a member: failures, newcomers, spares, and the superblocks that say so.
//!
//! In: failures, newcomers. Out: writes of superblocks; and what waits for them goes on. Not here: which
//! members are trusted at the start (`assembly.rs`), copying to newcomers (`copying.rs`).
//!
//! Superblocks are written one table after another, to all members that are here. A table counts when
//! every one of them has it and these are at least half of the members in sync by the table before, its
//! base: so no majority can start without one that knows of it. Until then no write that lacks a copy is
//! answered, and no other table is made. Then it is written once more and says so.

use durio_units::Nanos;

use super::fault::Fault;
use super::output::TagFields;
use super::output::{Buffer, GENERATION_MASK, MemberOp, MemberOpKind, Outcome, Output, Owner};
use super::{Engine, Run, StopReason};
use crate::Id;
use crate::assembly::{self, Found, Present};
use crate::chain::Chain;
use crate::geometry::{BLOCK, MEMBERS_MAX};
use crate::layout;
use crate::superblock::{self, Entry, MemberState, Relation, SPARES_MAX, Table};

/// A bit for each of the two slots that are written, at the begin and at the end.
const BOTH_ENDS: u8 = 0b11;

/// The superblocks on their way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    pub(super) is_running: bool,
    pub(super) issued: Nanos,
    /// Of the table on its way.
    revision: u64,
    epoch: u64,
    /// Of each entry, the slots that are on their way.
    pub(super) pending: [u8; MEMBERS_MAX as usize + SPARES_MAX],
    /// Entries that have it.
    stored: u64,
    /// Entries in sync by it.
    in_sync: u64,
    /// A change of the members waits to be written.
    wants_epoch: bool,
    /// A watermark does.
    wants_revision: bool,
    /// A failure that not all survivors know of.
    failure: Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    None,
    /// Not in the superblocks that are on their way.
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
        failure: Failure::None,
    };
}

/// A device that becomes a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// How the caller names it.
    pub device: u8,
    /// Its size.
    pub device_bytes: u64,
    /// Its new id, if it is not a member that was away. Then the caller has zeroed all slots of its
    /// superblock and all of its map.
    pub id: Id,
    /// What was found on it, if it is a member that was away.
    pub found: Option<Found>,
}

/// Why a device does not become a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// The role is taken, or there is none.
    #[error("no member is missing in this role")]
    Taken,
    /// Too small.
    #[error("the device is too small for the data of a member")]
    TooSmall,
    /// Of another array.
    #[error("the device is a member of another array")]
    Foreign,
    /// It went on alone, or was away for too long to know.
    #[error("the device may have gone on without the others: erase it to give up what it has")]
    Diverged,
    /// It is one already.
    #[error("the device is a member already")]
    Doubled,
    /// The array has stopped or has not started, or not all members know of a failure yet.
    #[error("the array does not run, or superblocks are being written")]
    NotRunning,
}

impl Engine {
    /// Whether all survivors know of every failure.
    pub(super) fn is_settled(&self) -> bool {
        self.update.failure == Failure::None
    }

    /// The member on this device is gone, or is to be given up. Its operations count as ended; late
    /// completions are ignored.
    pub fn member_failed(&mut self, device: u8, out: &mut Output) {
        let is_it = |it: &Option<Present>| it.is_some_and(|it| it.device == device);
        while let Some(role) = self.devices.iter().position(is_it) {
            self.fail_role(role as u8, out);
            if matches!(self.run, Run::Stopped(_)) {
                return;
            }
        }
        self.pump(out);
    }

    /// A member in sync that fails lacks from now on what the map names; the last copy stops the array.
    pub(super) fn fail_role(&mut self, role: u8, out: &mut Output) {
        let Some(entry) = self.table.entries.get(usize::from(role)).copied() else { return };
        if self.devices[usize::from(role)].is_none() || matches!(self.run, Run::Stopped(_)) {
            return;
        }
        if entry.state != MemberState::Spare {
            let (set, bit) = (role / self.copies, 1 << (role % self.copies));
            if self.sets[usize::from(set)].in_sync & !bit == 0 {
                // Its superblock must go on saying that it is in sync: nothing else has the data.
                return self.stop_with(StopReason::LastCopy(role), out);
            }
            self.sets[usize::from(set)].in_sync &= !bit;
            self.sets[usize::from(set)].writable &= !bit;
            let by_map = entry.by_map || entry.state == MemberState::InSync;
            let (state, since) = (MemberState::Faulty, self.table.epoch + 1);
            self.table.entries[usize::from(role)] = Entry { state, by_map, since, ..entry };
            self.update.failure = Failure::Waiting;
        }
        self.devices[usize::from(role)] = None;
        self.outstanding[usize::from(role)] = 0;
        self.update.wants_epoch = true;
        self.update.pending[usize::from(role)] = 0;
        if entry.state != MemberState::Spare {
            // Before a spare takes the role, whose operations these would be then.
            self.release_pages(role, out);
            self.release_role(role, out);
        }
        self.check_update(out);
        self.start_update(out);
    }

    /// Stops for ever: every request is answered with an error, and nothing is written any more.
    pub(super) fn stop_with(&mut self, reason: StopReason, out: &mut Output) {
        self.run = Run::Stopped(reason);
        self.refuse_all(out);
    }

    /// Asks for superblocks with a new epoch.
    pub(super) fn want_epoch(&mut self, out: &mut Output) {
        self.update.wants_epoch = true;
        self.start_update(out);
    }

    /// Asks for superblocks with the present epoch.
    pub(super) fn want_revision(&mut self, out: &mut Output) {
        self.update.wants_revision = true;
        self.start_update(out);
    }

    pub(super) fn start_update(&mut self, out: &mut Output) {
        let is_wanted = self.update.wants_epoch || self.update.wants_revision;
        if self.update.is_running || !is_wanted || matches!(self.run, Run::Stopped(_)) {
            return;
        }
        // Marks that one member alone has must be on all before one of them can be dropped.
        if self.run == Run::Starting && !self.has_quiet_map() {
            return;
        }
        // A table that too few can store is not begun: whoever found it on one member alone would take
        // its few members in sync for all.
        if !self.are_enough(assembly::in_sync(&self.table)) {
            return self.stop_with(StopReason::NoMajority, out);
        }
        self.table.revision += 1;
        if let Some(mut found) = self.uncounted.take() {
            // The base of the next table. Who is not trusted must not be told that it is in sync.
            found.revision = self.table.revision;
            self.write_table(&found, assembly::in_sync(&self.table), out);
            self.uncounted = Some(found);
            return;
        }
        self.drop_lost_spares();
        (self.table.committed, self.table.voters) = (self.committed, self.voters);
        if self.update.wants_epoch {
            self.table.advance();
        }
        (self.update.wants_epoch, self.update.wants_revision) = (false, false);
        if self.update.failure == Failure::Waiting {
            self.update.failure = Failure::Storing;
        }
        let table = self.table.clone();
        self.write_table(&table, u64::MAX, out);
    }

    /// Writes superblocks to these entries.
    fn write_table(&mut self, table: &Table, to: u64, out: &mut Output) {
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

    /// Whether these are half of those that were in sync before.
    fn are_enough(&self, members: u64) -> bool {
        assembly::is_half(members, self.voters)
    }

    fn drop_lost_spares(&mut self) {
        let roles = usize::from(self.geometry.members);
        for at in (roles..self.table.entries.len()).rev() {
            if self.devices[at].is_none() {
                self.table.entries.remove(at);
                self.devices.remove(at);
            }
        }
    }

    fn write_superblocks(&mut self, table: &Table, at: usize, device: Present, out: &mut Output) {
        let member = table.entries[at].member;
        let first = if self.has(Fault::OneMetadataSlot) { 0 } else { device.next_slot };
        for end in 0..2_u8 {
            let slot = first + 2 * end;
            let block = at as u32 * 2 + u32::from(end);
            let to = &mut self.metadata[metadata_range(block)];
            superblock::encode(table, member, device.bytes, slot, to);
            let generation = self.update.revision as u32 & GENERATION_MASK;
            let (owner, role) = (Owner::Superblock, at as u8);
            let tag = TagFields { owner, role, generation, index: u32::from(end) }.pack();
            // Its size was checked when it became a member.
            let offset = layout::superblock_slot(device.bytes, slot).unwrap_or(0);
            let (kind, buffer) = (MemberOpKind::Write, Buffer::Metadata(block));
            let (device, length) = (device.device, BLOCK as u32);
            out.ops.push(MemberOp { device, kind, offset, length, buffer, tag });
        }
    }

    /// A superblock was written, or not.
    pub(super) fn superblock_completed(
        &mut self,
        tag: TagFields,
        outcome: Outcome,
        out: &mut Output,
    ) {
        let at = usize::from(tag.role);
        let bit = 1_u8 << (tag.index & 1);
        let is_ours = self.update.revision as u32 & GENERATION_MASK == tag.generation;
        let Some(pending) = self.update.pending.get_mut(at).filter(|_| is_ours) else { return };
        if *pending & bit == 0 {
            return;
        }
        if outcome != Outcome::Done {
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

    /// Everybody who is here has the table: it counts, if they are enough.
    fn check_update(&mut self, out: &mut Output) {
        let is_over = !self.update.is_running || matches!(self.run, Run::Stopped(_));
        if is_over || self.update.pending.iter().any(|&it| it != 0) {
            return;
        }
        self.update.is_running = false;
        // One that is rebuilt has a voice again when it is in sync again.
        if !self.are_enough(self.update.stored & self.update.in_sync) {
            return self.stop_with(StopReason::NoMajority, out);
        }
        (self.committed, self.voters) = (self.update.epoch, self.update.in_sync);
        if self.uncounted.take().is_some() {
            return self.start_update(out);
        }
        self.promote_stored();
        if self.update.failure == Failure::Storing {
            self.update.failure = Failure::None;
        }
        self.admit_stored(out);
        // Before anything can ask for the next superblocks, which would be on their way to a spare.
        self.take_spares();
        // The next table says it too.
        self.update.wants_revision |= !self.table.is_known_to_count();
        if self.is_settled() {
            self.release_settled(out);
        }
        self.start_update(out);
    }

    /// Members that the table has in sync are read from now on.
    fn promote_stored(&mut self) {
        for (role, entry) in (0..self.geometry.members).zip(&self.table.entries) {
            let was_stored = self.update.in_sync & (1 << role) != 0;
            if was_stored && entry.state == MemberState::InSync {
                self.sets[usize::from(role / self.copies)].in_sync |= 1 << (role % self.copies);
            }
        }
    }

    /// Members that know that they are rebuilt get writes from now on: before, they might be taken for
    /// members in sync that lack nothing.
    fn admit_stored(&mut self, out: &mut Output) {
        for role in 0..self.geometry.members {
            let (set, bit) = (usize::from(role / self.copies), 1 << (role % self.copies));
            let is_here = self.devices[usize::from(role)].is_some();
            if is_here && self.is_known(role) && self.sets[set].writable & bit == 0 {
                self.sets[set].writable |= bit;
                self.want_map_for(role, out);
            }
        }
    }

    /// Whether the table that gave this role its state counts.
    pub(super) fn is_known(&self, role: u8) -> bool {
        self.table.entries[usize::from(role)].since <= self.committed
    }

    fn release_settled(&mut self, out: &mut Output) {
        if self.run == Run::Starting {
            self.run = Run::Running;
        }
        let held = std::mem::replace(&mut self.held, Chain::EMPTY);
        self.ready.append(held, &mut self.links);
        let mut unsettled = std::mem::replace(&mut self.unsettled, Chain::EMPTY);
        while let Some(index) = unsettled.pop(&self.links) {
            self.finish(index, Ok(()), out);
        }
    }

    /// Spares take the place of members that failed.
    fn take_spares(&mut self) {
        let roles = usize::from(self.geometry.members);
        let mut spare = self.table.entries.len();
        for role in 0..roles {
            let is_faulty = self.table.entries[role].state == MemberState::Faulty;
            // Its vote is not lost before that counts: a table names the voters of its base.
            let is_free = is_faulty && self.is_known(role as u8);
            if !is_free || self.copies == 1 {
                continue;
            }
            let is_last_taken = spare < self.table.entries.len();
            if !(is_last_taken && self.has(Fault::SpareTakenTwice)) {
                spare = (roles..self.table.entries.len())
                    .find(|&at| self.devices[at].is_some())
                    .unwrap_or(usize::MAX);
            }
            let Some(device) = self.devices.get(spare).copied().flatten() else { return };
            let member = self.table.entries[spare].member;
            if !self.has(Fault::SpareTakenTwice) {
                self.table.entries.remove(spare);
                self.devices.remove(spare);
                spare = self.table.entries.len();
            }
            self.join(role as u8, member, device, false);
        }
    }

    /// Adds a device in a role that is free: a member that was away gets what it lacks by the map, any
    /// other is rebuilt.
    ///
    /// # Errors
    /// [`AddError`]; then nothing has happened.
    pub fn add(&mut self, role: u8, newcomer: &Newcomer, out: &mut Output) -> Result<(), AddError> {
        if self.run != Run::Running || !self.is_settled() {
            return Err(AddError::NotRunning);
        }
        let entry = self.table.entries.get(usize::from(role)).copied().ok_or(AddError::Taken)?;
        if entry.state != MemberState::Faulty || self.copies == 1 {
            return Err(AddError::Taken);
        }
        if newcomer.device_bytes < layout::device_bytes(&self.geometry, self.data_at) {
            return Err(AddError::TooSmall);
        }
        let is_doubled = |other: &Entry| other.member == newcomer.id;
        let others = (0..).zip(&self.table.entries).filter(|(at, _)| *at != usize::from(role));
        if others.map(|(_, it)| it).any(is_doubled) {
            return Err(AddError::Doubled);
        }
        let mut next_slot = 0;
        if let Some(Found { superblock, slot, .. }) = &newcomer.found {
            if superblock.table.array != self.table.array {
                return Err(AddError::Foreign);
            }
            if self.table.relation_of(&superblock.table) != Relation::Ancestor {
                return Err(AddError::Diverged);
            }
            self.table.revision = self.table.revision.max(superblock.table.revision);
            next_slot = 1 - slot;
        }
        let by_map = newcomer.found.is_some() && newcomer.id == entry.member && entry.by_map;
        if let Some(found) = &newcomer.found {
            self.take_marks(role, &found.map, by_map);
        }
        let (device, bytes) = (newcomer.device, newcomer.device_bytes);
        self.join(role, newcomer.id, Present { device, bytes, next_slot }, by_map);
        self.start_update(out);
        self.pump(out);
        Ok(())
    }

    fn join(&mut self, role: u8, member: Id, device: Present, by_map: bool) {
        let (state, since) = (MemberState::Rebuilding, self.table.epoch + 1);
        let at = usize::from(role);
        self.table.entries[at] = Entry { member, state, by_map, since, watermark: 0 };
        self.devices[at] = Some(device);
        self.device_numbers[at] = device.device;
        self.outstanding[at] = 0;
        self.rebuilt[at] = 0;
        self.has_background = true;
        self.update.wants_epoch = true;
    }

    /// Members that have owed a superblock or a page for too long fail.
    pub(super) fn fail_late_metadata(&mut self, limit: Nanos, out: &mut Output) {
        if self.update.is_running && self.now.saturating_sub(self.update.issued) > limit {
            for at in 0..self.update.pending.len() as u8 {
                if self.update.pending[usize::from(at)] != 0 {
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
            for copy in (0..self.copies).filter(|copy| state.pending & (1 << copy) != 0) {
                self.fail_role(set * self.copies + copy, out);
            }
        }
    }
}

/// Bytes of a block among the engine's metadata.
pub(super) fn metadata_range(block: u32) -> std::ops::Range<usize> {
    let first = block as usize * BLOCK as usize;
    first..first + BLOCK as usize
}
