//! How devices become members: added devices, spares, and replacements of working members.
//!
//! Takes newcomers and tables that count, and changes the table. Failures and superblocks are in
//! `membership.rs`, copying is in `copying.rs`.
//!
//! ```text
//!               tables, each made when the one before counts
//!  role         old in sync   old in sync   old faulty    new in sync
//!  replacement  rebuilding    in sync       in sync       -
//! ```
//!
//! A replacement has a separate entry, and a separate vote when it is in sync. So its member leaves
//! like a failed one, and if the member fails earlier, the replacement takes its role in its
//! current state.

use super::fault::Fault;
use super::output::EngineOutput;
use super::{Engine, Members, NO_PLACE, Run};
use crate::Id;
use crate::assembly::{FoundDevice, RoleDevice};
use crate::claims::Damage;
use crate::layout;
use crate::superblock::{MemberEntry, MemberState, Relation, SPARES_MAX};

/// A device that becomes a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// How the caller names it.
    pub device: u8,
    pub device_bytes: u64,
    /// Its new id, unless it is a member that was away. With a new id, the caller has zeroed all
    /// slots of its superblock and its whole map.
    pub id: Id,
    /// The metadata found on it, if it is a member that was away.
    pub found: Option<FoundDevice>,
}

/// Why a device does not become a member, or a scrub does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The role is taken, or does not exist.
    #[error("no member is missing in this role")]
    Taken,
    /// It is not in sync.
    #[error("only a member in sync can be replaced while in use: add a device in its place")]
    NotInSync,
    /// Levels 5 and 6.
    #[error("levels 5 and 6 cannot replace a working member: fail it, then add the new one")]
    Striped,
    /// One of its set is replaced already.
    #[error("a member with the same data is being replaced: wait until that is done")]
    Replaced,
    /// No room in the table.
    #[error("the array already has 8 spares and replacements, the maximum")]
    Full,
    /// At level 0, nothing can be copied to it.
    #[error("level 0 keeps one copy of everything: no spare can take the place of a member")]
    OneCopy,
    #[error("the device is too small for the data of a member")]
    TooSmall,
    /// A member of another array.
    #[error("the device is a member of another array")]
    Foreign,
    /// It continued alone, or was away for too long to know.
    #[error("the device may have newer writes than the others: erase it to discard them")]
    Diverged,
    /// The array did not write all of it.
    #[error("the device {0}; it can join as a new one, if its contents may be lost")]
    Damaged(Damage),
    /// It is one already.
    #[error("the device is a member already")]
    Doubled,
    /// The array has stopped or has not started, or some members do not know of a failure yet.
    #[error("the array is not running, or superblocks are being written")]
    NotRunning,
    /// At level 0, there is no other copy to compare with.
    #[error("level 0 keeps one copy of everything: there is nothing to compare")]
    NothingToCompare,
    /// A scrub is on its way.
    #[error("a scrub is running")]
    Scrubbing,
    /// A scrub is asked for when the array has not started, is being closed, or has stopped.
    #[error("the array does not run")]
    NoScrub,
}

/// The new role of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinAs {
    /// The member in a free role: one that was away is rebuilt by the map, any other completely.
    Member(u8),
    /// A replacement for a working member, which stays until this one is in sync.
    Replacement(u8),
    /// A spare, which takes the role of a member that fails.
    Spare,
}

impl Engine {
    /// The set of a place, and the place's bit there.
    pub(super) fn copy_at(&self, place: u8) -> (usize, Members) {
        (usize::from(place / self.stride), 1 << (place % self.stride))
    }

    /// The place of an entry at the start.
    pub(super) fn first_place(&self, at: usize) -> u8 {
        let copy = if at < usize::from(self.geometry.members) {
            at as u8 % self.width
        } else {
            self.width
        };
        self.table.set_of(at).map_or(NO_PLACE, |set| set * self.stride + copy)
    }

    /// The role whose data is in a place; irrelevant for a free place.
    pub(super) fn role_at(&self, place: u8) -> u8 {
        let at = self.places.iter().position(|&other| other == place).unwrap_or(0);
        self.table.entries[at].replaces.unwrap_or(at as u8)
    }

    /// The bit of the replacement in a set.
    pub(super) fn replacement_in(&self, set: u8) -> Members {
        let others = usize::from(self.geometry.members)..self.places.len();
        let places = self.places[others].iter().filter(|&&place| place != NO_PLACE);
        let of_set =
            places.map(|&place| self.copy_at(place)).filter(|copy| copy.0 == usize::from(set));
        of_set.fold(0, |bits, (_, bit)| bits | bit)
    }

    /// Later entries of the table move up, with their votes.
    fn remove_entry(&mut self, at: usize) {
        self.table.entries.remove(at);
        self.devices.remove(at);
        self.places.remove(at);
        let below = self.voters & ((1 << at) - 1);
        self.voters = self.voters >> (at + 1) << at | below;
    }

    /// Removes lost spares. They had no vote, so no table must record it first.
    pub(super) fn drop_lost_spares(&mut self) {
        let roles = usize::from(self.geometry.members);
        for at in (roles..self.table.entries.len()).rev() {
            if self.devices[at].is_none() && self.places[at] == NO_PLACE {
                self.remove_entry(at);
            }
        }
    }

    /// Replacements take the roles of members that are out, in their present state; failed ones are
    /// dropped.
    pub(super) fn take_roles(&mut self) {
        for at in (usize::from(self.geometry.members)..self.table.entries.len()).rev() {
            let entry = self.table.entries[at];
            let Some(role) = entry.replaces.map(usize::from) else { continue };
            let is_lost = entry.state == MemberState::Faulty;
            let is_out = self.table.entries[role].state == MemberState::Faulty;
            // No vote is lost before that counts: a table names the voters of its base.
            if is_lost && self.is_known(at) {
                self.remove_entry(at);
            } else if !is_lost && is_out && self.is_known(role) {
                self.table.entries[role] = MemberEntry { replaces: None, ..entry };
                self.devices[role] = self.devices[at];
                self.places[role] = self.places[at];
                self.voters |= (self.voters >> at & 1) << role;
                self.remove_entry(at);
            } else {
                continue;
            }
            self.update.wants_epoch = true;
        }
    }

    /// Spares take the place of members that failed.
    pub(super) fn take_spares(&mut self) {
        let roles = usize::from(self.geometry.members);
        let mut spare = self.table.entries.len();
        for role in 0..roles {
            let is_faulty = self.table.entries[role].state == MemberState::Faulty;
            // Its vote is not lost before that counts: a table names the voters of its base.
            let is_free = is_faulty && self.is_known(role);
            if !is_free || self.width == 1 {
                continue;
            }
            let is_last_taken = spare < self.table.entries.len();
            if !(is_last_taken && self.has(Fault::SpareTakenTwice)) {
                spare = (roles..self.table.entries.len())
                    .find(|&at| self.places[at] == NO_PLACE && self.devices[at].is_some())
                    .unwrap_or(usize::MAX);
            }
            let Some(device) = self.devices.get(spare).copied().flatten() else { return };
            let member = self.table.entries[spare].member;
            if !self.has(Fault::SpareTakenTwice) {
                self.remove_entry(spare);
                spare = self.table.entries.len();
            }
            self.join(role, member, device, false);
        }
    }

    /// Adds a device.
    ///
    /// # Errors
    /// [`OrderError`]; nothing has changed then.
    pub fn add(
        &mut self,
        what: JoinAs,
        newcomer: &Newcomer,
        out: &mut EngineOutput,
    ) -> Result<(), OrderError> {
        self.refuse_newcomer(what, newcomer)?;
        let mut next_slot = 0;
        let Newcomer { device, device_bytes: mut bytes, id, ref found } = *newcomer;
        if let Some(FoundDevice { superblock, slot, .. }) = found {
            self.table.revision = self.table.revision.max(superblock.table.revision);
            next_slot = 1 - slot;
            // If the device grew, the last superblocks stay where they are.
            bytes = superblock.device_bytes;
        }
        let present = RoleDevice { device, bytes, next_slot };
        match what {
            JoinAs::Member(role) => {
                let entry = self.table.entries[usize::from(role)];
                let is_last = |device: &FoundDevice| {
                    entry.was_here_until(device.superblock.table.epoch)
                        || self.has(Fault::ImageBackByMap)
                };
                let is_last = found.as_ref().is_some_and(is_last);
                let by_map = is_last && id == entry.member && entry.by_map;
                if let Some(found) = found {
                    self.take_marks(self.places[usize::from(role)], &found.map, by_map);
                }
                self.join(usize::from(role), id, present, by_map);
            }
            JoinAs::Replacement(role) => {
                let (at, place) = (self.table.entries.len(), self.free_place(role));
                self.push_entry(MemberEntry { replaces: Some(role), ..self.new_entry(id) }, place);
                if let Some(found) = found {
                    self.take_marks(place, &found.map, false);
                }
                self.join(at, id, present, false);
            }
            JoinAs::Spare => {
                self.push_entry(self.new_entry(id), NO_PLACE);
                self.devices[self.table.entries.len() - 1] = Some(present);
                self.update.wants_epoch = true;
            }
        }
        self.start_update(out);
        self.pump(out);
        Ok(())
    }

    /// Checks whether a device could join now, before it is erased.
    pub fn refuse_newcomer(&self, what: JoinAs, newcomer: &Newcomer) -> Result<(), OrderError> {
        if self.run != Run::Running || !self.is_settled() {
            return Err(OrderError::NotRunning);
        }
        let members = usize::from(self.geometry.members);
        let entry = |role: u8| self.table.entries[..members].get(usize::from(role));
        let role = match what {
            JoinAs::Member(role) => {
                let is_free = entry(role).is_some_and(|entry| entry.state == MemberState::Faulty);
                if !is_free || self.width == 1 {
                    return Err(OrderError::Taken);
                }
                Some(role)
            }
            JoinAs::Replacement(role) => {
                if self.parities > 0 {
                    return Err(OrderError::Striped);
                }
                if entry(role).is_none_or(|entry| entry.state != MemberState::InSync) {
                    return Err(OrderError::NotInSync);
                }
                if self.replacement_in(role / self.width) != 0 {
                    return Err(OrderError::Replaced);
                }
                None
            }
            JoinAs::Spare if self.width == 1 => return Err(OrderError::OneCopy),
            // A device with member metadata would bring its old state with it when it becomes a
            // member.
            JoinAs::Spare if newcomer.found.is_some() => return Err(OrderError::Taken),
            JoinAs::Spare => None,
        };
        if role.is_none() && self.table.entries.len() == members + SPARES_MAX {
            return Err(OrderError::Full);
        }
        if let Some(damage) = newcomer.found.as_ref().and_then(|found| found.damage) {
            return Err(OrderError::Damaged(damage));
        }
        if newcomer.device_bytes < layout::device_bytes(&self.geometry, self.data_at) {
            return Err(OrderError::TooSmall);
        }
        let others = (0..).zip(&self.table.entries).filter(|(at, _)| Some(*at) != role);
        if others.map(|(_, entry)| entry).any(|entry| entry.member == newcomer.id) {
            return Err(OrderError::Doubled);
        }
        if let Some(FoundDevice { superblock, .. }) = &newcomer.found {
            if superblock.table.array != self.table.array {
                return Err(OrderError::Foreign);
            }
            if self.table.relation_of(&superblock.table) != Relation::Ancestor {
                return Err(OrderError::Diverged);
            }
        }
        Ok(())
    }

    /// A free place in the set of a role: a set has one place more than it has copies.
    fn free_place(&self, role: u8) -> u8 {
        let first = role / self.width * self.stride;
        let mut places = first..first + self.stride;
        places.find(|place| !self.places.contains(place)).unwrap_or(NO_PLACE)
    }

    fn new_entry(&self, member: Id) -> MemberEntry {
        let (state, since) = (MemberState::Spare, self.table.epoch + 1);
        MemberEntry { member, state, by_map: false, replaces: None, since, watermark: 0 }
    }

    fn push_entry(&mut self, entry: MemberEntry, place: u8) {
        self.table.entries.push(entry);
        self.devices.push(None);
        self.places.push(place);
    }

    fn join(&mut self, at: usize, member: Id, device: RoleDevice, by_map: bool) {
        let replaces = self.table.entries[at].replaces;
        let state = MemberState::Rebuilding;
        self.table.entries[at] = MemberEntry { state, by_map, replaces, ..self.new_entry(member) };
        self.devices[at] = Some(device);
        let place = usize::from(self.places[at]);
        self.device_numbers[place] = device.device;
        self.outstanding[place] = 0;
        self.read_errors[place] = 0;
        self.rebuilt[place] = 0;
        self.rebuilt_before[place] = 0;
        self.has_background = true;
        self.update.wants_epoch = true;
    }
}
