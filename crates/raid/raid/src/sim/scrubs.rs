//! Scrubs of a simulated array, and differences that are planted for them.
//!
//! Reports a scrub that found a difference that does not exist, or missed one that does. `life.rs`
//! has other events.
//!
//! A difference is one bit behind the stamp of a sector, so requests and the model do not see it.

use super::campaign::set_of;
use super::drives::STAMP;
use super::life::Life;
use crate::geometry::{BytePlace, SECTOR};
use crate::{Mismatch, ScrubStatus};

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
        let mut sets = places.iter().map(|place| geometry.locate(place.offset).set);
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
    pub(super) fn scrub_whole(&mut self, repair: bool) -> Result<ScrubStatus, String> {
        self.campaign.tally.scrubs += 1;
        self.campaign.trace(|| format!("scrub, repair: {repair}"));
        self.engine.scrub(repair, &mut self.out).map_err(|error| format!("no scrub: {error}"))?;
        self.take_output()?;
        self.run_until_idle()?;
        let status = self.engine.status().scrub.ok_or("a scrub has no status")?;
        match status.is_running || status.done != status.all {
            true => Err(format!("a scrub has not ended: {status:?}")),
            false => Ok(status),
        }
    }

    /// Checks that this scrub finds these differences.
    fn scrub_finds(&mut self, repair: bool, expected: &[Mismatch]) -> Result<(), String> {
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
    fn draw_difference(&mut self) -> Option<(BytePlace, u64, Vec<Mismatch>)> {
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
        let offset = geometry.locate_back(start);
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
            let expected = parities.into_iter().map(|role| Mismatch { offset, role }).collect();
            return Some((place, sector, expected));
        }
        // The first copy counts as right.
        let differing = copies.iter().enumerate().skip(1);
        let differing = differing.filter(|(at, _)| chosen == 0 || *at == chosen);
        let expected = differing.map(|(_, &(role, _))| Mismatch { offset, role }).collect();
        Some((place, sector, expected))
    }

    /// Roles and devices of a set that are read, the first role first.
    pub(super) fn devices_of(&self, set: u8) -> Vec<(u8, usize)> {
        let geometry = &self.campaign.geometry;
        let roles = (0_u8..).zip(self.engine.status().roles).zip(self.engine.places());
        let of_set = roles.filter(|((role, status), _)| {
            status.is_read && set_of(geometry, usize::from(*role), status.replaces) == Some(set)
        });
        let mut of_set: Vec<_> = of_set.collect();
        of_set.sort_by_key(|(_, place)| **place);
        let device =
            |((role, status), _): ((u8, crate::RoleStatus), _)| Some((role, status.device?.into()));
        of_set.into_iter().filter_map(device).collect()
    }
}
