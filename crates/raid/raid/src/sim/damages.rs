//! Drives that something other than the engine wrote to between two starts: truncated, grown,
//! copied back in part, or restored from an older image.
//!
//! Damages a drive of a campaign between two lives, so that it must not be trusted any more.
//! `liars.rs` has drives that lie.
//!
//! A drive is damaged only if the others have everything acknowledged, and a start without it is
//! permitted. Damage without a trace in the superblocks is left out: a part between the two ends, an
//! image that is not older than the superblocks at the end that stays, and an image of a run that
//! ended in a crash, put back before the next start: a member that was briefly away looks the same.

use durio_simdisk::{Chance, Image};

use super::campaign::{CutCampaign, SMALL_PAGE};
use super::case::SimEventKind;
use super::drives::{Copies, Drive};
use crate::claims::Damage;
use crate::geometry::{BLOCK, SECTOR};
use crate::superblock::{self, MemberState, MemberTable, Superblock};
use crate::{AssembleOptions, FoundDevice, StartPlan, assemble, layout, simulated};

/// One life in this many starts with a damaged drive.
const SHARE: u64 = 12;

/// All drives are copied in one life of this many; one copy is put back when the start must see its age.
const COPY_SHARE: u64 = 4;

/// The damage of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DriveRemains {
    /// Nothing after this byte.
    UpTo(u64),
    /// The image replaces the data from and to this byte.
    ImageIn(u64, u64),
}

impl CutCampaign {
    /// Sometimes damages a drive; returns its number.
    pub(super) fn damage_some(&mut self) -> Result<Option<u8>, String> {
        let mut chance = self.chance_of_its_own(0xda3a_9e00);
        let is_drawn = chance.below(SHARE) == 0;
        if !self.may_be_damaged() {
            return Ok(None);
        }
        let damaged = if is_drawn { self.damage_one(&mut chance)? } else { None };
        if chance.below(4) == 0 {
            let images = self.drives.iter().map(|drive| Some(drive.disk.durable().clone()));
            self.images = images.collect();
        }
        Ok(damaged)
    }

    fn may_be_damaged(&self) -> bool {
        self.geometry.set_members() > 1
            && self.liar.is_none()
            && !self.hunts_starts
            && !self.has_given_up
            && self.page_regions == SMALL_PAGE
            && self.reduction.has(SimEventKind::Damages)
    }

    /// The step of a life at which all drives are copied.
    pub(super) fn draw_copy(&self, steps: u64) -> Option<u64> {
        let mut chance = self.chance_of_its_own(0xc0b1_e500);
        let is_drawn = chance.below(COPY_SHARE) == 0 && self.may_be_damaged();
        is_drawn.then(|| chance.below(steps.max(1)))
    }

    /// As a program does it that reads them while the array runs.
    pub(super) fn copy_drives(&mut self) {
        self.trace(|| "all drives are copied".to_owned());
        let images = self.drives.iter().map(|drive| Some(drive.disk.durable().clone()));
        let images = images.collect();
        self.copies = Copies { images, ended: 0 };
    }

    /// After a clean stop, or when the others know that a later epoch counts, a drive is again what it was
    /// while the array ran: the start must know that. Its number.
    pub(super) fn put_copy_back(&mut self) -> Option<u8> {
        if self.copies.images.is_empty() || !self.may_be_damaged() {
            return None;
        }
        let device = self.chance_of_its_own(0xbacc_0b1e).below(self.drives.len() as u64) as u8;
        let image = self.copies.images.get(usize::from(device))?.clone()?;
        let now =
            self.drives[usize::from(device)].find(device).filter(|found| found.damage.is_none())?;
        let size = now.superblock.device_bytes;
        let MemberTable { array, epoch, .. } = now.superblock.table;
        let has_ended = self.copies.ended & (1 << device) != 0;
        // The image of a drive that was away since then equals the drive.
        let counts = self.counts_without(device).min(epoch);
        let then = superblocks(&image, size);
        let is_it = |superblock: &Superblock| {
            let is_past = has_ended || superblock.table.epoch < counts;
            superblock.member == now.superblock.member && superblock.table.array == array && is_past
        };
        let are_it = then.iter().flatten().all(is_it) && then.iter().any(Option::is_some);
        if !are_it || !self.can_do_without(device) {
            return None;
        }
        self.copies = Copies::default();
        self.trace(|| format!("device {device} is restored to an earlier state"));
        self.drives[usize::from(device)].keep(DriveRemains::ImageIn(0, size), Some(&image));
        self.tally.put_back += 1;
        self.serving &= !(1 << device);
        self.model.lose_copy(self.number);
        Some(device)
    }

    /// The last epoch that the others know to count.
    fn counts_without(&mut self, device: u8) -> u64 {
        let others = (0..).zip(&mut self.drives).filter(|(at, _)| *at != device);
        let tables =
            others.filter_map(|(at, drive)| drive.find(at)).map(|found| found.superblock.table);
        tables.max_by_key(|table| (table.epoch, table.revision)).map_or(0, |table| table.committed)
    }

    /// A drive that no later table has reached would have, beside others that were away, the votes of then.
    pub(super) fn erase_unless_after(&mut self, device: u8, epoch: u64) {
        let at = usize::from(device);
        if self.drives[at].find(device).is_none_or(|found| found.superblock.table.epoch <= epoch) {
            self.drives[at] = self.blank_drive(at);
        }
    }

    fn damage_one(&mut self, chance: &mut Chance) -> Result<Option<u8>, String> {
        let device = chance.below(self.drives.len() as u64) as u8;
        let at = usize::from(device);
        let before = self.drives[at].find(device).filter(|found| found.damage.is_none());
        let Some(before) = before else { return Ok(None) };
        if chance.below(6) == 0 {
            let more = BLOCK * (1 + chance.below(8));
            self.tally.damages += 1;
            self.trace(|| format!("device {device} grows by {more}"));
            self.drives[at].bytes += more;
            return match self.drives[at].find(device) == Some(before) {
                true => Ok(None),
                false => Err(format!("device {device} grew, and is treated as another")),
            };
        }
        let size = before.superblock.device_bytes;
        if !self.can_do_without(device) {
            return Ok(None);
        }
        let blocks = size / BLOCK;
        let cut = BLOCK * chance.below(blocks);
        let end = cut + BLOCK * (2 + chance.below(blocks));
        match chance.below(4) {
            0 => {
                self.trace(|| format!("device {device} is truncated to {cut}"));
                self.drives[at].keep(DriveRemains::UpTo(cut), None);
                self.drives[at].bytes = cut;
            }
            1 => {
                // At least the superblocks at its end are lost.
                let cut = cut.min(size - 2 * BLOCK);
                self.trace(|| format!("device {device} is zero from {cut} on"));
                self.drives[at].keep(DriveRemains::UpTo(cut), None);
            }
            2 => {
                let Some(image) = self.older_image(&before, true) else { return Ok(None) };
                let (from, to) = match chance.below(2) {
                    0 => (0, end.clamp(2 * BLOCK, size - 2 * BLOCK)),
                    _ => (cut.clamp(2 * BLOCK, size - 2 * BLOCK), size),
                };
                self.trace(|| format!("device {device} has an older image from {from} to {to}"));
                self.drives[at].keep(DriveRemains::ImageIn(from, to), Some(&image));
            }
            _ => {
                let Some(image) = self.older_image(&before, false) else { return Ok(None) };
                self.trace(|| format!("device {device} is restored from an older image"));
                self.drives[at].keep(DriveRemains::ImageIn(0, size), Some(&image));
                self.check_restored(device)?;
            }
        }
        self.tally.damages += 1;
        self.serving &= !(1 << device);
        self.model.lose_copy(self.number);
        Ok(Some(device))
    }

    /// Whether a start that trusts only the others has all acknowledged data.
    fn can_do_without(&mut self, device: u8) -> bool {
        let mut found = self.present();
        for present in found.iter_mut().filter(|present| present.device == device) {
            present.damage = Some(Damage::EndsDiffer);
        }
        let starts = |found: &[FoundDevice]| {
            let plan = assemble(found, AssembleOptions::default());
            plan.is_ok_and(|plan| plan.doubts.is_empty() && self.gives_nothing_up(&plan))
        };
        let without: Vec<FoundDevice> =
            found.iter().filter(|present| present.device != device).cloned().collect();
        let has_bad_log = self.geometry.level.parities() > 0 && self.may_be_unreadable;
        !has_bad_log && starts(&found) && starts(&without)
    }

    /// An earlier image, whose superblocks are all older than the drive's present ones; unless only
    /// a part of it is used, all of it is of an earlier epoch than the others know to count.
    fn older_image(&mut self, now: &FoundDevice, for_a_part: bool) -> Option<Image> {
        let device = usize::from(now.device);
        let counts = self.counts_without(now.device);
        let image = self.images.get(device)?.clone()?;
        let table = &now.superblock.table;
        let size = now.superblock.device_bytes;
        let then = superblocks(&image, size);
        let oldest = superblocks(self.drives[device].disk.durable(), size);
        let oldest = oldest
            .iter()
            .map(|slot| slot.as_ref().map_or(0, |superblock| superblock.table.revision))
            .min()?;
        let is_older = then.iter().flatten().all(|superblock| {
            let is_of_now =
                superblock.member == now.superblock.member && superblock.table.array == table.array;
            let is_old = match for_a_part {
                true => superblock.table.revision < oldest,
                false => superblock.table.epoch < table.committed.min(counts),
            };
            is_of_now && is_old && superblock.device_bytes == size
        });
        (is_older && then.iter().any(Option::is_some)).then_some(image)
    }

    /// Checks that all drives together know that it is old, then erases it: with others away, it
    /// would count with its old votes.
    fn check_restored(&mut self, device: u8) -> Result<(), String> {
        let found = self.present();
        let options = AssembleOptions { rejoin: true, fault: self.fault, ..Default::default() };
        let plan = assemble(&found, options).map_err(|error| format!("restored: {error}"))?;
        self.check_damaged(Some(device), &plan)?;
        self.drives[usize::from(device)] = self.blank_drive(device.into());
        Ok(())
    }

    /// Checks that it is not read, and is written only if it is rebuilt whole.
    pub(super) fn check_damaged(
        &mut self,
        damaged: Option<u8>,
        plan: &StartPlan,
    ) -> Result<(), String> {
        let Some(device) = damaged else { return Ok(()) };
        let is_damaged = self.drives[usize::from(device)].find(device);
        let is_damaged = is_damaged.is_none_or(|found| found.damage.is_some());
        let entries = plan.table.entries.iter().zip(&plan.devices);
        for (entry, _) in
            entries.filter(|(_, present)| present.is_some_and(|present| present.device == device))
        {
            if is_damaged || entry.state == MemberState::InSync {
                return Err(format!("device {device} is damaged, and used as {:?}", entry.state));
            }
        }
        if is_damaged {
            // The operator takes it for a new drive.
            self.drives[usize::from(device)] = self.blank_drive(device.into());
        }
        Ok(())
    }
}

/// Those in the slots of a device of this size that are whole.
fn superblocks(image: &Image, size: u64) -> [Option<Superblock>; 4] {
    [0, 1, 2, 3].map(|slot| {
        let mut block = vec![0; BLOCK as usize];
        let place = layout::superblock_slot(size, slot).unwrap_or(0);
        image.read(place / SECTOR, &mut block);
        superblock::decode(&block, slot).ok()
    })
}

impl Drive {
    /// Writes over it without the engine's knowledge.
    fn keep(&mut self, kept: DriveRemains, image: Option<&Image>) {
        let (from, to) = match kept {
            DriveRemains::UpTo(from) => (from, self.disk.size()),
            DriveRemains::ImageIn(from, to) => (from, to),
        };
        let mut data = vec![0; (to - from) as usize];
        if let Some(image) = image {
            image.read(from / SECTOR, &mut data);
        }
        simulated::write_blocks(&mut self.disk, vec![(from, data)]);
    }
}
