//! What an operator does in the life of an array: drives that fail, drives that join, and scrubs, with
//! differences that are planted for them.
//!
//! Reports a scrub that found a difference that does not exist, or missed one that does.
//! `starting.rs` decides which drives are present at a start, `life.rs` has other events.
//!
//! A difference is one bit behind the stamp of a sector, so requests and the model do not see it.

use super::drives::STAMP;
use super::life::Life;
use super::media;
use crate::geometry::{BytePlace, SECTOR};
use crate::superblock::MemberState;
use crate::{JoinAs, Newcomer, RoleStatus};
use durio_observe::{ArrayScrub, MismatchPlace};

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
                self.gone |= 1 << device;
                self.engine.member_failed(device as u8, &mut self.out);
            } else {
                self.campaign.trace(|| format!("device {device} answers no more"));
                self.campaign.drives[device].is_stalled = true;
            }
        }
    }

    /// Closes drives that the engine has given up: their operations in flight are lost.
    pub(super) fn drop_unused(&mut self) -> Result<(), String> {
        let now = self.used_now();
        let lost = self.used & !now;
        if lost == 0 {
            return Ok(());
        }
        // A replacement that takes its role sends the old member away; a member in rebuild is given up
        // where no copy could be read, also in an earlier life.
        let may = self.campaign.may_be_unreadable || self.may_retire;
        let liar = self.campaign.suspect().map_or(0, |liar| 1 << liar.device);
        let answering = lost & !self.gone & !liar;
        if !may && answering != 0 {
            return Err(format!("devices {answering:#b} are marked failed although they answer"));
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
        self.gone &= now;
        Ok(())
    }

    /// The last copy stops the array if it is gone, and not otherwise.
    pub(super) fn check_stop(&self) -> Result<(), String> {
        use crate::StopReason::{LastCopy, LastStripe};
        if !self.engine.is_stopped() {
            return Ok(());
        }
        let status = self.engine.status();
        let Some(LastCopy(stopped) | LastStripe(stopped)) = status.stopped else { return Ok(()) };
        let of_role = status
            .roles
            .iter()
            .enumerate()
            .filter(|(at, role)| *at == usize::from(stopped) || role.replaces == Some(stopped));
        let devices = of_role.filter_map(|(_, role)| role.device);
        let devices = devices.fold(0_u64, |bits, device| bits | 1 << device);
        if self.campaign.may_be_unreadable || devices & self.gone != 0 {
            return Ok(());
        }
        Err(format!("the array stops because of role {stopped} although it answers"))
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
            || !self.campaign.reduction.has(super::case::SimEventKind::Joins)
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
                        self.may_retire = true;
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

impl Life<'_> {
    /// Starts a scrub, or stops it.
    pub(super) fn scrub_some(&mut self) {
        let draw = self.campaign.chance.below(8);
        let repair = draw.is_multiple_of(2);
        if self.engine.scrub(repair, &mut self.out).is_ok() {
            self.campaign.tally.scrubs += 1;
            self.campaign.trace(|| format!("scrub, repair: {repair}"));
        } else if draw == 1 {
            self.campaign.trace(|| "scrub stopped".to_owned());
            self.engine.stop_scrub();
        }
    }

    /// Copies in sync never differ where a scrub compares them, except for planted differences.
    pub(super) fn check_scrub(&mut self) -> Result<(), String> {
        if self.is_planted || self.engine.mismatches() == 0 {
            return Ok(());
        }
        let places = self.engine.status().scrub.map(|status| status.places).unwrap_or_default();
        let geometry = self.campaign.geometry;
        let mut sets = places.iter().map(|place| geometry.locate(place.offset_bytes).set);
        if self.campaign.suspect().is_some() && sets.all(|set| self.is_suspect_set(set)) {
            return Ok(());
        }
        Err(format!("a scrub found copies that differ: {places:?}"))
    }

    /// In an idle array, flips a bit of one copy: a scrub must find it, and correct it if it
    /// repairs.
    pub(super) fn plant_difference(&mut self) -> Result<(), String> {
        let Some((place, sector, expected)) = self.draw_difference() else { return Ok(()) };
        let (was_calm, scrubs) = (self.is_calm, self.scrubs);
        (self.is_calm, self.scrubs, self.is_planted) = (true, false, true);
        let none = Vec::new();
        let is_clean = self.engine.status().regions_dirty == 0;
        self.campaign.trace(|| format!("planted in sector {sector} of set {}", place.set));
        self.scrub_finds(false, &expected)?;
        if is_clean && self.engine.status().regions_dirty != 0 {
            return Err("a scrub without repair marked a region".to_owned());
        }
        let region = self.region_of(place.set, place.offset);
        // Also to a member that is away, and comes back by the map.
        (self.may_resync[region], self.may_rejoin[region]) = (true, true);
        self.scrub_finds(true, &expected)?;
        self.scrub_finds(false, &none)?;
        (self.is_calm, self.scrubs, self.is_planted) = (was_calm, scrubs, false);
        self.campaign.tally.differences += 1;
        let geometry = self.campaign.geometry;
        if geometry.level.parities() > 0 {
            return self.check_stripes();
        }
        let copies = self.devices_of(place.set).into_iter().map(|(_, device)| {
            let mut data = [0; SECTOR as usize];
            self.campaign.drives[device].disk.durable().read(sector, &mut data);
            data
        });
        let copies: Vec<_> = copies.collect();
        if copies.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(format!("copies of sector {sector} differ after a repair"));
        }
        Ok(())
    }

    /// Runs a scrub to its end.
    pub(super) fn scrub_whole(&mut self, repair: bool) -> Result<ArrayScrub, String> {
        self.campaign.tally.scrubs += 1;
        self.campaign.trace(|| format!("scrub, repair: {repair}"));
        self.engine.scrub(repair, &mut self.out).map_err(|error| format!("no scrub: {error}"))?;
        self.take_output()?;
        self.run_until_idle()?;
        let status = self.engine.status().scrub.ok_or("a scrub has no status")?;
        match status.is_running || status.done_bytes != status.all_bytes {
            true => Err(format!("a scrub has not finished: {status:?}")),
            false => Ok(status),
        }
    }

    /// Checks that this scrub finds these differences.
    fn scrub_finds(&mut self, repair: bool, expected: &[MismatchPlace]) -> Result<(), String> {
        let status = self.scrub_whole(repair)?;
        let places = &status.places;
        let found = expected.len() as u64;
        let is_right = places == expected && status.mismatches == found;
        let is_repaired = status.repaired == if repair { found } else { 0 };
        if !is_right || !is_repaired {
            return Err(format!("a scrub must find {expected:?}: {status:?}"));
        }
        Ok(())
    }

    /// Flips a bit of one copy. Returns the member's sector and the scrub's expected report; `None`
    /// if concurrent events make the report unpredictable.
    fn draw_difference(&mut self) -> Option<(BytePlace, u64, Vec<MismatchPlace>)> {
        let status = self.engine.status();
        let is_stalled = self.campaign.drives.iter().any(|drive| drive.is_stalled);
        if self.had_errors || is_stalled || !status.is_running {
            return None;
        }
        let geometry = self.campaign.geometry;
        let chance = &mut self.campaign.chance;
        let set = chance.below(u64::from(geometry.sets())) as u8;
        let offset = chance.below(geometry.member_bytes / SECTOR) * SECTOR;
        let byte = STAMP + chance.below(SECTOR - STAMP as u64) as usize;
        let copies = self.devices_of(set);
        let is_striped = geometry.level.parities() > 0;
        if copies.len() < if is_striped { geometry.members.into() } else { 2 } {
            return None;
        }
        let chosen = self.campaign.chance.below(copies.len() as u64) as usize;
        let place = BytePlace { set, offset, column: 0 };
        let sector = (self.campaign.data_at + offset) / SECTOR;
        self.campaign.drives[copies[chosen].1].turn_bit(sector, byte);
        let start =
            BytePlace { set, offset: offset - offset % u64::from(geometry.chunk), column: 0 };
        let offset_bytes = geometry.locate_back(start);
        if is_striped {
            // Data counts as right.
            let stripe = geometry.stripe(place.offset);
            let mut parities: Vec<u8> =
                (0..geometry.level.parities()).map(|number| stripe.parity(number)).collect();
            parities.sort_unstable();
            let role = copies[chosen].0;
            if parities.contains(&role) {
                parities = vec![role];
            }
            let expected =
                parities.into_iter().map(|role| MismatchPlace { offset_bytes, role }).collect();
            return Some((place, sector, expected));
        }
        // The first copy counts as right.
        let differing = copies.iter().enumerate().skip(1);
        let differing = differing.filter(|(at, _)| chosen == 0 || *at == chosen);
        let expected =
            differing.map(|(_, &(role, _))| MismatchPlace { offset_bytes, role }).collect();
        Some((place, sector, expected))
    }

    /// Roles and devices of a set that are read, the first role first.
    pub(super) fn devices_of(&self, set: u8) -> Vec<(u8, usize)> {
        let geometry = &self.campaign.geometry;
        let roles = (0_u8..).zip(self.engine.status().roles).zip(self.engine.places());
        let of_set = roles.filter(|((role, status), _)| {
            status.is_read && geometry.set_of(usize::from(*role), status.replaces) == Some(set)
        });
        let mut of_set: Vec<_> = of_set.collect();
        of_set.sort_by_key(|(_, place)| **place);
        let device =
            |((role, status), _): ((u8, crate::RoleStatus), _)| Some((role, status.device?.into()));
        of_set.into_iter().filter_map(device).collect()
    }
}
