//! A drive that lies, and what must hold all the same.
//!
//! Checks what an array must not do even with a lying drive. durio-simdisk implements the lies.
//!
//! In some campaigns of levels 1 and 10 one drive lies, in one way of the zoo. Data that it did not
//! store is gone, and it has a vote at each start. These must hold:
//!
//! - No panic, and the array becomes idle without requests. It may be lost with the drive, but
//!   never while honest drives have all of it.
//! - The liar's answers were once written at that place: older data, never another place's. A drive
//!   that flips bits, stores in wrong places, or was in two sets may answer anything: data has no
//!   checksums.
//! - An honest copy's answers keep the full promise, unless it is *weak*: then they were once
//!   written there. A sector becomes weak when its data is copied from the liar, when no honest
//!   copy of its set is in sync, or when a start trusts an honest copy that lacks something,
//!   because the drives that knew it were away and the liar has forgotten it. The next acknowledged
//!   write that an honest copy has makes it strong, and so do honest copies that are equal and
//!   alone in question after a cut.
//! - So a set without the liar keeps the full promise, unless such a start gave it up.
//! - The superblock taken from the liar was written whole. A liar that went back in time is not
//!   trusted as in sync, and the member is rebuilt whole, not by the map: no record names what it
//!   lacks.
//! - After a scrub that repairs, all copies answer the same.
//!
//! Halves are not split there: the liar's half may have forgotten that it ran. A liar can be taken
//! for honest ([`super::Liars::Believed`]): then everything is judged as in any campaign, and the lie must
//! be found.

use super::campaign::CutCampaign;
use super::drives::{Drive, Liar};
use super::life::Life;
use crate::geometry::SECTOR;
use crate::superblock::{MemberState, MemberTable};
use crate::{
    AssembleOptions, FoundDevice, MemberOp, MemberOpKind, OpBuffer, RoleStatus, StartPlan, assemble,
};
use durio_base::RaidLevel;

impl CutCampaign {
    /// The drive that is known to lie.
    pub(super) fn suspect(&self) -> Option<&Liar> {
        self.liar.as_ref().filter(|liar| !liar.is_believed)
    }

    pub(super) fn is_liar(&self, device: usize) -> bool {
        self.liar.as_ref().is_some_and(|liar| liar.device == device)
    }

    pub(super) fn is_suspect(&self, device: usize) -> bool {
        self.suspect().is_some_and(|liar| liar.device == device)
    }

    /// Checks what a start must not do with a liar; data that its vote may have hidden becomes
    /// weak.
    pub(super) fn check_start(
        &mut self,
        plan: &StartPlan,
        found: &[FoundDevice],
    ) -> Result<(), String> {
        let Some(liar) = self.liar.as_mut().filter(|liar| !liar.is_believed) else { return Ok(()) };
        let device = liar.device;
        let is_it = |present: &&FoundDevice| usize::from(present.device) == device;
        let own = found.iter().find(is_it);
        own.map_or(Ok(()), |found| liar.check_written(found))?;
        let epoch = own.map_or(0, |found| found.superblock.table.epoch);
        liar.has_forgotten |= epoch < liar.epoch;
        let has_forgotten = liar.has_forgotten;
        let honest: Vec<FoundDevice> =
            found.iter().filter(|present| !is_it(present)).cloned().collect();
        let Some(honest) = newest_of(&honest) else { return Ok(()) };
        let is_newest = epoch > honest.epoch;
        for (at, entry) in plan.table.entries.iter().enumerate() {
            let Some(present) = plan.devices[at].map(|device| usize::from(device.device)) else {
                continue;
            };
            let is_in_sync = entry.state == MemberState::InSync;
            let before = honest.entries.iter().find(|other| other.member == entry.member);
            let was_in_sync = before.is_some_and(|before| before.state == MemberState::InSync);
            if present == device {
                if !was_in_sync || epoch >= honest.committed {
                    continue;
                }
                self.tally.went_back += 1;
                if is_in_sync || entry.by_map {
                    return Err(format!(
                        "device {device} was rolled back but is trusted: {entry:?}"
                    ));
                }
            } else if is_in_sync && self.serving & (1 << present) == 0 {
                if !(was_in_sync && has_forgotten || is_newest) {
                    return Err(format!("device {present} is not in sync but is trusted"));
                }
                let set = self.geometry.set_of(at, entry.replaces);
                self.trace(|| format!("device {present} may lack something"));
                self.tally.misled += 1;
                set.into_iter().for_each(|set| self.weaken(set));
            }
        }
        Ok(())
    }

    /// Starts an array that does not start with all drives, by force with the best ones, and gives
    /// up the others; `None` if it is lost with the liar.
    pub(super) fn start_without_liar(
        &mut self,
        found: &[FoundDevice],
        options: AssembleOptions,
    ) -> Result<Option<Vec<FoundDevice>>, String> {
        let forced = AssembleOptions { force: true, ..options };
        let is_honest = |present: &&FoundDevice| !self.is_suspect(present.device.into());
        let honest: Vec<FoundDevice> = found.iter().filter(is_honest).cloned().collect();
        let mut sides = vec![found.to_vec()];
        for from in [&honest[..], found] {
            let holders = from.iter().map(|device| &device.superblock.table);
            sides.extend(holders.map(|table| Self::side_of(table, from)));
        }
        let plans =
            sides.into_iter().filter_map(|side| Some((assemble(&side, forced).ok()?, side)));
        let best = plans.min_by_key(|(plan, _)| !self.gives_nothing_up(plan));
        let Some((_, kept)) = best else {
            let everything =
                (0..self.geometry.sets()).all(|set| self.is_served_honestly(set, &honest));
            self.tally.lost_with_liar += 1;
            self.trace(|| "lost with the drive that lies".to_owned());
            return match everything {
                true => Err("honest drives have everything, and nothing starts".to_owned()),
                false => Ok(None),
            };
        };
        self.model.lose_copy(self.number);
        self.give_up_others(found, &kept);
        Ok(Some(kept))
    }

    /// By the newest table of honest drives, one of them that has everything is in sync in this set.
    fn is_served_honestly(&self, set: u8, honest: &[FoundDevice]) -> bool {
        let Some(newest) = newest_of(honest) else { return false };
        newest.entries.iter().enumerate().any(|(at, entry)| {
            let is_it = |device: &&FoundDevice| device.superblock.member == entry.member;
            let has_all = |device: &FoundDevice| self.serving & (1 << device.device) != 0;
            entry.state == MemberState::InSync
                && self.geometry.set_of(at, entry.replaces) == Some(set)
                && honest.iter().find(is_it).is_some_and(has_all)
        })
    }

    /// All sectors of a set become weak.
    fn weaken(&mut self, set: u8) {
        let geometry = self.geometry;
        let of_set = |sector: &usize| geometry.locate(*sector as u64 * SECTOR).set == set;
        (0..self.model.sectors())
            .filter(of_set)
            .for_each(|sector| self.model.weaken(sector, self.number));
    }

    /// A superblock that is written to the liar.
    pub(super) fn note_superblock(&mut self, device: usize, block: &[u8], is_done: bool) {
        let is_superblock = block.starts_with(b"durioRDS");
        let liar = self.liar.as_mut().filter(|liar| liar.device == device && is_superblock);
        if let Some(liar) = liar {
            liar.note_superblock(block, is_done);
        }
    }
}

impl Life<'_> {
    /// Records which drive belongs to which set, and marks sectors weak that no honest copy vouches
    /// for.
    pub(super) fn note_members(&mut self) {
        let Some(device) = self.campaign.suspect().map(|liar| liar.device) else { return };
        let geometry = self.campaign.geometry;
        let mut vouched = 0_u64;
        let mut sets = 0;
        for (at, role) in self.engine.status().roles.iter().enumerate() {
            let set = geometry.set_of(at, role.replaces).map_or(0, |set| 1 << set);
            let is_it = role.device == Some(device as u8);
            sets |= if is_it { set } else { 0 };
            vouched |= if !is_it && role.is_read { set } else { 0 };
        }
        for set in (0..geometry.sets()).filter(|set| vouched & (1 << set) == 0) {
            self.campaign.weaken(set);
        }
        if let Some(liar) = &mut self.campaign.liar {
            liar.sets |= sets;
            // Losing a rebuild's writes exposes its data of the other set.
            self.campaign.model.holds_anything |= liar.sets.count_ones() > 1;
            self.had_errors |= liar.has_errors();
        }
    }

    /// The liar is, or was, one of this set.
    pub(super) fn is_suspect_set(&mut self, set: u8) -> bool {
        self.note_members();
        self.campaign.suspect().is_some_and(|liar| liar.sets & (1 << set) != 0)
    }

    /// Tracks data of the liar that an operation brings to a request, or to honest copies.
    pub(super) fn note_source(&mut self, op: &MemberOp) {
        let Some(device) = self.campaign.suspect().map(|liar| liar.device) else { return };
        let is_liar = usize::from(op.device) == device;
        if is_liar && op.kind == MemberOpKind::Write && !matches!(op.buffer, OpBuffer::Metadata(_))
        {
            // It may have joined another set.
            self.note_members();
        }
        let sectors = u64::from(op.length) / SECTOR;
        let (source, mask) = match op.buffer {
            OpBuffer::Request { buffer, offset } => {
                let first = u64::from(offset) / SECTOR;
                let mask = (((1_u64 << sectors) - 1) << first) as u32;
                (&mut self.sources.requests[buffer as usize], mask)
            }
            OpBuffer::Copy(number) => (&mut self.sources.copies, 1 << number),
            // Stripes have no liar.
            OpBuffer::Stripe { .. } | OpBuffer::Metadata(_) | OpBuffer::None => return,
        };
        match op.kind {
            MemberOpKind::Read if is_liar => *source |= mask,
            MemberOpKind::Read => *source &= !mask,
            // A request's write has no read source.
            MemberOpKind::Write if !is_liar && *source & mask != 0 => {
                let roles = self.engine.status().roles;
                let at = roles.iter().position(|role| role.device == Some(op.device)).unwrap_or(0);
                let geometry = self.campaign.geometry;
                let set = geometry.set_of(at, roles[at].replaces).unwrap_or(0);
                let first = op.offset - self.campaign.data_at;
                for offset in (first..first + u64::from(op.length)).step_by(SECTOR as usize) {
                    let place = crate::geometry::BytePlace { set, offset, column: 0 };
                    let sector = geometry.locate_back(place) / SECTOR;
                    self.campaign.model.weaken(sector as usize, self.campaign.number);
                }
            }
            _ => {}
        }
    }

    /// By set: no absent copy may have more of the liar's data than the present ones.
    pub(super) fn are_whole(&self) -> Vec<bool> {
        let geometry = self.campaign.geometry;
        let mut are_whole = vec![true; geometry.sets().into()];
        if self.campaign.suspect().is_some() {
            for (at, role) in self.engine.status().roles.iter().enumerate() {
                if let Some(set) = geometry.set_of(at, role.replaces) {
                    are_whole[usize::from(set)] &= role.is_read;
                }
            }
        }
        are_whole
    }

    /// Whether a read may have found older data in a sector of its buffer: it was read from the
    /// liar, or the sector was weak then.
    pub(super) fn may_be_older(&self, slot: usize, within: usize, at: usize, number: u32) -> bool {
        let model = &self.campaign.model;
        let was_weak = model.is_weak(at) || model.was_written_after(at, number);
        let is_of_liar = self.sources.requests[slot] & (1 << within) != 0;
        self.campaign.suspect().is_some() && (is_of_liar || was_weak)
    }

    /// A write was acknowledged: sectors that an honest copy has become strong.
    pub(super) fn strengthen(&mut self, sectors: std::ops::Range<usize>, number: u32) {
        let Some(device) = self.campaign.suspect().map(|liar| liar.device) else { return };
        let geometry = self.campaign.geometry;
        let is_honest = |role: &RoleStatus| role.is_read && role.device != Some(device as u8);
        let roles = self.engine.status().roles;
        let honest = roles.iter().enumerate().filter(|(_, role)| is_honest(role));
        let sets = honest.filter_map(|(at, role)| geometry.set_of(at, role.replaces));
        let vouched = sets.fold(0_u64, |bits, set| bits | 1 << set);
        for sector in sectors {
            if vouched & (1 << geometry.locate(sector as u64 * SECTOR).set) != 0 {
                self.campaign.model.strengthen(sector, number);
            }
        }
    }

    /// In an idle array, a scrub that repairs makes all copies answer the same.
    pub(super) fn repair_all(&mut self) -> Result<(), String> {
        let Some(liar) = self.campaign.suspect() else { return Ok(()) };
        let (device, is_steady, has_errors) = (liar.device, liar.is_steady(), liar.has_errors());
        let is_stalled = self.campaign.drives.iter().any(|drive| drive.is_stalled);
        let geometry = self.campaign.geometry;
        let is_running = self.engine.status().is_running;
        if geometry.level == RaidLevel::Raid0 || is_stalled || !is_running || has_errors {
            return Ok(());
        }
        let was_calm = std::mem::replace(&mut self.is_calm, true);
        let scrubs = std::mem::replace(&mut self.scrubs, false);
        let status = self.scrub_whole(true)?;
        if is_steady && status.repaired != status.mismatches + status.unreadable {
            return Err(format!("a repair left something: {status:?}"));
        }
        for set in 0..geometry.sets() {
            let devices = self.devices_of(set).into_iter().map(|(_, device)| device);
            let compared: Vec<usize> =
                devices.filter(|other| is_steady || *other != device).collect();
            let mut read = |other: usize| {
                self.campaign.drives[other].read_data(&geometry, self.campaign.data_at)
            };
            if compared.windows(2).any(|pair| read(pair[0]) != read(pair[1])) {
                return Err(format!("copies of set {set} differ after a repair"));
            }
        }
        let status = self.scrub_whole(false)?;
        if is_steady && status.mismatches > 0 {
            return Err(format!("a scrub after a repair finds more: {status:?}"));
        }
        (self.is_calm, self.scrubs) = (was_calm, scrubs);
        self.campaign.tally.repairs += 1;
        Ok(())
    }
}

/// The newest table of these.
fn newest_of(found: &[FoundDevice]) -> Option<&MemberTable> {
    let tables = found.iter().map(|device| &device.superblock.table);
    tables.max_by_key(|table| (table.epoch, table.revision))
}

impl Drive {
    /// All data of a member, as the drive returns it.
    fn read_data(&mut self, geometry: &crate::geometry::Geometry, data_at: u64) -> Vec<u8> {
        let mut data = vec![0; geometry.member_bytes as usize];
        // Unreadable data stays zero.
        let _ = self.disk.read(data_at / SECTOR, &mut data, durio_simdisk::Leg::First);
        data
    }
}
