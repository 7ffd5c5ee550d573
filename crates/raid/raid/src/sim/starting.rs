//! Starts of a simulated array: drives that are found, left out, and forced; and a life from there.
//!
//! Takes a campaign's drives; returns a plan for the next life, or the broken promise of a start.
//! `life.rs` runs the array.

use super::campaign::CutCampaign;
use super::case::SimEventKind;
use super::drives::{Drive, describe, describe_found};
use super::life::Life;
use super::media::{self, TrustedMembers};
use super::model::ArrayModel;
use crate::superblock::{MemberState, MemberTable, Relation};
use crate::{AssembleError, AssembleOptions, FoundDevice, StartPlan, assemble, layout};

impl CutCampaign {
    /// All drives with a superblock.
    pub(super) fn present(&mut self) -> Vec<FoundDevice> {
        (0..).zip(&mut self.drives).filter_map(|(at, drive)| drive.find(at)).collect()
    }

    /// The same in any order.
    pub(super) fn found(&mut self) -> Vec<FoundDevice> {
        let mut found = self.present();
        if self.has_bad_drive && self.chance.below(2) == 0 {
            let slot = self.chance.below(layout::log_slots(&self.geometry));
            for FoundDevice { log, .. } in found.iter_mut().filter(|device| device.device == 0) {
                log.entries
                    .retain(|entry| layout::log_slot_of(&self.geometry, entry.offset) != slot);
                log.lost.push(slot);
            }
        }
        for at in (1..found.len()).rev() {
            let other = self.chance.below(at as u64 + 1) as usize;
            found.swap(at, other);
        }
        found
    }

    pub(super) fn options(&mut self) -> AssembleOptions {
        let rejoin = self.chance.below(5) != 0;
        AssembleOptions { force: self.has_given_up, rejoin, fault: self.fault }
    }

    /// `None` if the array is lost with a lying drive.
    pub(super) fn assemble(&mut self, with_all: bool) -> Result<Option<StartPlan>, String> {
        let mut found = self.found();
        found.iter().for_each(|device| self.trace(|| describe_found(device)));
        let mut options = self.options();
        let leaves_out = match self.hunts_starts {
            // A table that is not known to count, and other drives that lack it.
            true if found.iter().any(|device| !device.superblock.table.is_known_to_count()) => {
                self.chance.below(8) != 0
            }
            true => self.chance.below(8) < 3,
            // Wrong parities show only when a member is away.
            false if self.misses_one => true,
            false if self.geometry.level.parities() > 0 => self.chance.below(2) == 0,
            false => self.chance.below(5) == 0,
        };
        if leaves_out
            && !with_all
            && !self.has_given_up
            && self.reduction.has(SimEventKind::Absences)
        {
            let some = self.leave_out(&found);
            if let Some(plan) = self.assemble_some(&some, options) {
                self.model.lose_copy(self.number);
                self.trace(|| format!("start with {} of {} drives", some.len(), found.len()));
                self.check_start(&plan, &some)?;
                return Ok(Some(plan));
            }
        }
        loop {
            match assemble(&found, options) {
                Ok(plan) => {
                    self.trace(|| format!("start with {} drives", found.len()));
                    self.check_start(&plan, &found)?;
                    return Ok(Some(plan));
                }
                Err(AssembleError::Diverged(device)) if self.suspect().is_none() => {
                    self.tally.refusals += 1;
                    self.trace(|| format!("refused: device {device} continued separately"));
                    found = self.give_up_some(&found, options)?;
                }
                Err(error) if self.suspect().is_some() => {
                    self.trace(|| format!("refused: {error}"));
                    let Some(kept) = self.start_without_liar(&found, options)? else {
                        return Ok(None);
                    };
                    found = kept;
                }
                Err(AssembleError::LogLost(device)) if self.has_bad_drive && !options.force => {
                    self.tally.refusals += 1;
                    self.trace(|| format!("refused: the log of device {device} cannot be read"));
                    options.force = true;
                    self.is_forced = true;
                }
                Err(error) => return Err(format!("all drives are here: {error}")),
            }
            options.force = true;
            self.is_forced = true;
        }
    }

    /// Some of the drives, in their order.
    fn leave_out(&mut self, found: &[FoundDevice]) -> Vec<FoundDevice> {
        if self.hunts_starts {
            let mut others =
                found.iter().map(|device| device.device).filter(|&device| device != self.left_out);
            self.left_out = others.next_back().unwrap_or(self.left_out);
            self.leave_out_by_plan(found);
            return found.iter().filter(|device| device.device != self.left_out).cloned().collect();
        }
        let most = if std::mem::take(&mut self.misses_one) { 1 } else { 2 };
        let count = 1 + self.chance.below(most) as usize;
        found[..found.len().saturating_sub(count)].to_vec()
    }

    /// If only one drive knows that it was taken into sync, another continues without it and is
    /// left out afterwards.
    fn leave_out_by_plan(&mut self, found: &[FoundDevice]) {
        let holds_alone = |device: &&FoundDevice| {
            let table = &device.superblock.table;
            let is_taken_in = crate::assembly::in_sync(table) & !table.voters != 0;
            let has_it = |other: &&FoundDevice| other.superblock.table.lineage == table.lineage;
            is_taken_in && table.voters != 0 && found.iter().filter(has_it).count() == 1
        };
        let Some(alone) = found.iter().find(holds_alone) else { return };
        let table = &alone.superblock.table;
        let went_on = |device: &&FoundDevice| {
            table.relation_of(&device.superblock.table) == Relation::Diverged
        };
        self.left_out = found.iter().find(went_on).unwrap_or(alone).device;
        self.doomed =
            found.iter().map(|device| device.device).find(|&device| device != self.left_out);
        self.keeps_out = true;
    }

    fn assemble_some(
        &mut self,
        found: &[FoundDevice],
        options: AssembleOptions,
    ) -> Option<StartPlan> {
        let refused = match assemble(found, options) {
            Ok(plan) => return (!self.is_forced || self.gives_nothing_up(&plan)).then_some(plan),
            Err(error) => error,
        };
        self.tally.refusals += 1;
        self.trace(|| format!("with {} drives: {refused}", found.len()));
        let may_force = matches!(refused, AssembleError::NoMajority { .. });
        if !may_force || self.chance.below(3) != 0 {
            return None;
        }
        let plan = assemble(found, AssembleOptions { force: true, ..options }).ok()?;
        self.is_forced |= self.gives_nothing_up(&plan);
        self.gives_nothing_up(&plan).then_some(plan)
    }

    /// True if each member that would be read has all acknowledged data.
    pub(super) fn gives_nothing_up(&self, plan: &StartPlan) -> bool {
        let entries = plan.table.entries.iter().zip(&plan.devices);
        let mut read = entries.filter(|(entry, _)| entry.state == MemberState::InSync);
        read.all(|(_, device)| {
            device.is_some_and(|present| self.serving & (1 << present.device) != 0)
        })
    }

    /// Gives up all members that continued separately from those that served.
    fn give_up_some(
        &mut self,
        found: &[FoundDevice],
        options: AssembleOptions,
    ) -> Result<Vec<FoundDevice>, String> {
        self.model.lose_copy(self.number);
        let is_enough = |side: &Vec<FoundDevice>| {
            let forced = AssembleOptions { force: true, ..options };
            assemble(side, forced).is_ok_and(|plan| self.gives_nothing_up(&plan))
        };
        let sides = found.iter().map(|device| Self::side_of(&device.superblock.table, found));
        let sides = sides.filter(is_enough);
        let kept = sides.max_by_key(Vec::len).ok_or("no side has all acknowledged writes")?;
        self.give_up_others(found, &kept);
        Ok(kept)
    }

    /// The members that did not diverge from this table.
    pub(super) fn side_of(table: &MemberTable, found: &[FoundDevice]) -> Vec<FoundDevice> {
        let is_ours = |device: &&FoundDevice| {
            table.relation_of(&device.superblock.table) != Relation::Diverged
        };
        found.iter().filter(is_ours).cloned().collect()
    }

    /// Erases found drives that are not kept.
    pub(super) fn give_up_others(&mut self, found: &[FoundDevice], kept: &[FoundDevice]) {
        self.has_given_up = true;
        for device in 0..self.drives.len() {
            let is_there = |side: &[FoundDevice]| {
                side.iter().any(|present| usize::from(present.device) == device)
            };
            if is_there(found) && !is_there(kept) {
                self.trace(|| format!("device {device} is given up"));
                self.drives[device] = self.blank_drive(device);
            }
        }
    }

    /// Forces two halves to run without each other; they must not be joined afterwards. False if
    /// two halves cannot be formed.
    pub(super) fn split(&mut self) -> Result<bool, String> {
        let found = self.found();
        let options = AssembleOptions { force: true, rejoin: true, fault: self.fault };
        let all: u64 = (1 << self.geometry.members) - 1;
        let Ok(plan) = assemble(&found, options) else { return Ok(false) };
        let is_whole = self.serving.count_ones() == all.count_ones()
            && crate::assembly::in_sync(&plan.table) == all;
        if !is_whole || !self.gives_nothing_up(&plan) {
            return Ok(false);
        }
        let copies = usize::from(self.geometry.set_members());
        let roles = plan.devices.iter().take(usize::from(self.geometry.members)).enumerate();
        let first: u64 = roles
            .filter(|(role, _)| role % copies == 0)
            .filter_map(|(_, device)| device.map(|present| 1 << present.device))
            .sum();
        let halves = [first, self.serving & !first];
        let before = self.model.clone();
        let mut models = Vec::new();
        let here = |half: u64, found: &[FoundDevice]| -> Vec<FoundDevice> {
            found.iter().filter(|device| half & (1 << device.device) != 0).cloned().collect()
        };
        if halves.iter().any(|&half| assemble(&here(half, &found), options).is_err()) {
            // The table that completes it is on one half only.
            return Ok(false);
        }
        for half in halves {
            self.serving = half;
            self.model = before.clone();
            self.model.lose_copy(self.number);
            self.trace(|| format!("half {half:b} is forced to start"));
            let found = here(half, &self.found());
            let plan =
                assemble(&found, options).map_err(|error| format!("half forced: {error}"))?;
            let steps = self.chance.below(100);
            self.live_with(plan, steps, false, true)?;
            models.push(std::mem::replace(&mut self.model, ArrayModel::new(0)));
        }
        let found = self.found();
        if assemble(&found, AssembleOptions { force: false, ..options }).is_ok() {
            return Err("halves that continued separately are assembled into one array".to_owned());
        }
        self.tally.refusals += 1;
        let kept = self.chance.below(2) as usize;
        self.serving = halves[kept];
        self.model = models.swap_remove(kept);
        for device in 0..self.drives.len() {
            if halves[1 - kept] & (1 << device) != 0 {
                self.drives[device] = self.blank_drive(device);
            }
        }
        Ok(true)
    }

    /// Checks the media, runs the array, and cuts its power.
    pub(super) fn live_with(
        &mut self,
        plan: StartPlan,
        steps: u64,
        is_settled: bool,
        is_calm: bool,
    ) -> Result<(), String> {
        // A drive that is not a member any more starts nothing unknown to the present ones.
        let is_all = plan.devices[..self.geometry.members.into()].iter().all(Option::is_some);
        let trusted = self.trusted(&plan);
        self.trace(|| describe(&plan));
        let (geometry, data_at) = (self.geometry, self.data_at);
        media::check(&geometry, data_at, &self.drives, &trusted, false, &mut self.model)?;
        let copied_at = self.draw_copy(steps);
        let mut life = Life::begin(self, plan, &trusted, is_calm);
        life.run(steps, copied_at)?;
        if is_calm {
            life.run_until_it_serves()?;
        }
        if is_settled {
            life.settle()?;
        }
        let (has_run, has_run_whole) = life.end();
        (self.doomed, self.keeps_out) = (None, false);
        self.is_forced &= !(has_run_whole && is_all);
        self.has_given_up &= !has_run;
        let serving = self.serving;
        self.trace(|| format!("power cut; in sync were devices {serving:b}"));
        self.drives.iter_mut().for_each(Drive::reset);
        self.tally.cuts += 1;
        Ok(())
    }

    fn trusted(&self, plan: &StartPlan) -> TrustedMembers {
        let sets = usize::from(self.geometry.sets());
        let (mut read, mut others) = (vec![Vec::new(); sets], Vec::new());
        let mut is_whole = vec![true; sets];
        for (at, (entry, device)) in plan.table.entries.iter().zip(&plan.devices).enumerate() {
            let Some(set) = self.geometry.set_of(at, entry.replaces).map(usize::from) else {
                continue;
            };
            let is_in_sync = entry.state == MemberState::InSync;
            // A replacement in rebuild is not trusted at the next start either; but it may have
            // more of a lying drive's data than the others.
            let is_rebuilt = entry.state == MemberState::Rebuilding && entry.replaces.is_some();
            // A member that only this start rebuilds, at level 0, may be trusted by the next start
            // without it.
            let is_older = entry.since <= plan.table.epoch;
            let is_rebuilt = is_rebuilt && is_older && self.suspect().is_none();
            is_whole[set] &= is_in_sync || is_rebuilt;
            let Some(device) = device.map(|device| usize::from(device.device)) else { continue };
            if self.is_suspect(device) {
                continue;
            }
            others.push((set, device));
            if is_in_sync {
                read[set].push((at, device));
            }
        }
        TrustedMembers::read(&self.geometry, &self.drives, read, is_whole, &others)
    }
}
