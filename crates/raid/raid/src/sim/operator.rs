//! Drives that fail in a life, and drives that join.
//!
//! `starting.rs` decides which drives are present at a start.

use super::life::Life;
use super::media;
use crate::superblock::MemberState;
use crate::{JoinAs, Newcomer, RoleStatus};

impl Life<'_> {
    pub(super) fn fail_some(&mut self) {
        let draw = self.campaign.chance.below(8);
        let count = if draw == 0 { 2 } else { 1 };
        for _ in 0..count {
            let drawn = self.campaign.chance.below(self.campaign.drives.len() as u64) as usize;
            let device = self.campaign.doomed.take().map_or(drawn, usize::from);
            if self.used & (1 << device) == 0 {
                continue;
            }
            self.campaign.tally.failures += 1;
            if draw < 6 {
                self.campaign.trace(|| format!("device {device} goes away"));
                self.engine.member_failed(device as u8, &mut self.out);
            } else {
                self.campaign.trace(|| format!("device {device} answers no more"));
                self.campaign.drives[device].is_stalled = true;
            }
        }
    }

    /// Closes drives that the engine has given up: their operations in flight are lost.
    pub(super) fn drop_unused(&mut self) {
        let now = self.used_now();
        let lost = self.used & !now;
        if lost == 0 {
            return;
        }
        self.used = now;
        self.has_lost = true;
        self.campaign.model.lose_copy(self.campaign.number);
        self.flights.retain(|flight| lost & (1 << flight.op.device) == 0);
        // Operations for these drives that were not started yet.
        self.out.ops.retain(|op| lost & (1 << op.device) == 0);
        for device in (0..self.campaign.drives.len()).filter(|device| lost & (1 << device) != 0) {
            self.campaign.trace(|| format!("device {device} is out"));
            self.campaign.drives[device].reset();
        }
    }

    pub(super) fn used_now(&self) -> u64 {
        let roles = self.engine.status().roles;
        roles.iter().filter_map(|role| role.device).fold(0, |bits, device| bits | 1 << device)
    }

    /// An unused drive takes a free role, replaces a working member, or becomes a spare.
    pub(super) fn add_some(&mut self) {
        self.count_replaced();
        let status = self.engine.status();
        let members = usize::from(self.campaign.geometry.members);
        let roles = &status.roles[..members];
        let is_free =
            |role: &RoleStatus| role.state == MemberState::Faulty && role.device.is_none();
        let device = self.campaign.chance.below(self.campaign.drives.len() as u64) as usize;
        if self.is_calm
            || !self.campaign.reduction.has(super::reduction::SimEventKind::Joins)
            || self.used & (1 << device) != 0
            || !status.is_running
            || !status.is_settled
        {
            return;
        }
        let has_free = roles.iter().any(is_free);
        // Data that a lying drive has forgotten would be found missing later.
        let is_lost = self.campaign.is_liar(device)
            && self.campaign.drives[device].find(device as u8).is_none();
        let is_blank = self.campaign.chance.below(4) == 0 || is_lost;
        if is_blank {
            self.campaign.drives[device] = self.campaign.blank_drive(device);
            self.campaign.serving &= !(1 << device);
        }
        let drive = &mut self.campaign.drives[device];
        let (id, device_bytes) = (drive.id, drive.bytes);
        let found = drive.find(device as u8);
        let newcomer = Newcomer { device: device as u8, device_bytes, id, found };
        let free = (0..).zip(roles).filter(|(_, role)| is_free(role));
        let mut wishes: Vec<JoinAs> = free.map(|(role, _)| JoinAs::Member(role)).collect();
        if !has_free {
            let role = self.campaign.chance.below(members as u64) as u8;
            let is_spare = !self.campaign.hunts_starts && self.campaign.chance.below(8) == 0;
            wishes.push(if is_spare { JoinAs::Spare } else { JoinAs::Replacement(role) });
        }
        for what in wishes {
            if self.engine.add(what, &newcomer, &mut self.out).is_ok() {
                self.campaign.trace(|| format!("device {device} joins as {what:?}"));
                self.used |= 1 << device;
                let tally = &mut self.campaign.tally;
                let role = match what {
                    JoinAs::Spare => return,
                    JoinAs::Member(role) => {
                        tally.rejoined += 1;
                        role
                    }
                    JoinAs::Replacement(role) => {
                        tally.replacements += 1;
                        self.replacement = Some(device as u8);
                        role
                    }
                };
                let set = role / self.campaign.geometry.set_members();
                let regions = self.campaign.geometry.regions() as usize;
                let disk = &self.campaign.drives[device].disk;
                let map = media::newest_map(disk, set.into(), &self.campaign.geometry, 0);
                for (region, byte) in map.iter().take(regions).enumerate() {
                    self.may_rejoin[usize::from(set) * regions + region] |= *byte != 0;
                }
                return;
            }
        }
    }

    pub(super) fn count_replaced(&mut self) {
        let roles = self.engine.status().roles;
        let is_it = |role: &&RoleStatus| role.device.is_some() && role.device == self.replacement;
        if roles.iter().find(is_it).is_some_and(|role| role.is_read && role.replaces.is_none()) {
            self.replacement = None;
            self.campaign.tally.replaced += 1;
        }
    }
}
