//! The drives of a simulated array, one of which may lie, and their images; the geometries of such
//! arrays, and drives and starts in words, for a trace.
//!
//! Takes sizes and cuts. Operations on drives are in `simulated.rs`, their order is in `life.rs`.

use std::collections::HashSet;

use durio_base::RaidLevel;
use durio_simdisk::{Chance, Disk, Image, Lie, NamedProfile, Profile, ZOO};
use twox_hash::XxHash3_64;

use super::Liars;
use crate::geometry::{BLOCK, Geometry, SECTOR};
use crate::superblock::MemberTable;
use crate::{FoundDevice, Id, StartPlan, layout, simulated, superblock};

/// One campaign in this many has a liar.
const SHARE: u64 = 8;
/// Where the epoch stands in a superblock, from docs/formats/raid-superblock.md.
const EPOCH: usize = 48;
/// A member this small never has the zoo's 64 KiB in its cache.
const CACHE_LIMIT: u64 = 8 << 10;

/// Bytes of a sector that hold its value.
pub(super) const STAMP: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Drive {
    pub(super) disk: Disk,
    pub(super) id: Id,
    /// Its size as others see it: smaller than its disk if the file was truncated, larger if it
    /// grew.
    pub(super) bytes: u64,
    /// It has no FUA.
    pub(super) flushes: bool,
    /// Answers nothing, for ever.
    pub(super) is_stalled: bool,
}

impl Drive {
    pub(super) fn blank(profile: Profile, flushes: bool, number: u64, seed: u64) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        let disk = Disk::new(profile, seed);
        let bytes = disk.size();
        Self { disk, id: Id(id), bytes, flushes, is_stalled: false }
    }

    /// What assembly reads of it; `None` if it has no superblock.
    pub(super) fn find(&mut self, device: u8) -> Option<FoundDevice> {
        simulated::find(&mut self.disk, device, self.bytes)
    }

    /// Flips a bit on the medium, without the engine's knowledge.
    pub(super) fn turn_bit(&mut self, sector: u64, byte: usize) {
        let mut data = [0; SECTOR as usize];
        self.disk.durable().read(sector, &mut data);
        data[byte] ^= 1;
        simulated::write_blocks(&mut self.disk, vec![(sector * SECTOR, data.to_vec())]);
    }

    /// Cuts the power and restores it: operations in flight are lost.
    pub(super) fn reset(&mut self) {
        self.disk.cut();
        // An honest disk comes back; another has no power then.
        let _ = self.disk.restore();
        self.is_stalled = false;
    }
}

/// An image of each drive, of an earlier life.
pub(super) type Images = Vec<Option<Image>>;

/// Images that were made while the array ran.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) images: Images,
    /// Drives that took part in a clean stop since, a bit each.
    pub(super) ended: u64,
}

/// Drives that lie, by name.
pub fn lies() -> impl Iterator<Item = &'static NamedProfile> {
    ZOO.iter().filter(|profile| profile.lie.is_some())
}

/// Why a lie cannot be seen in an array; `None` if it can.
#[must_use]
pub fn why_unseen(name: &str) -> Option<&'static str> {
    (name == "flush-one-connection").then_some("an array has one connection to each member")
}

#[derive(Debug)]
pub(super) struct Liar {
    pub(super) device: usize,
    named: &'static NamedProfile,
    /// The checks take the liar for honest.
    pub(super) is_believed: bool,
    /// Hashes of the superblocks written to it.
    written: HashSet<u64>,
    /// The newest epoch that it claimed to have stored.
    pub(super) epoch: u64,
    /// It did not know that one at a start.
    pub(super) has_forgotten: bool,
    /// Sets to which it has belonged, a bit each.
    pub(super) sets: u64,
}

impl Liar {
    /// One of `drives` drives, if this campaign has a liar.
    pub(super) fn draw(liars: Liars, seed: u64, drives: u64) -> Option<Self> {
        // A separate generator: honest campaigns do not depend on it.
        let mut chance = Chance::new(seed ^ 0x11a5);
        let all: Vec<_> = lies().collect();
        let drawn = all[chance.below(all.len() as u64) as usize];
        let device = chance.below(drives) as usize;
        let is_share = chance.below(SHARE) == 0;
        let named = match liars {
            Liars::None => None,
            Liars::Some => is_share.then_some(drawn),
            Liars::Every => Some(drawn),
            Liars::Only(name) | Liars::Believed(name) => durio_simdisk::named(name),
        };
        let is_believed = matches!(liars, Liars::Believed(_));
        let (written, epoch, has_forgotten, sets) = (HashSet::new(), 0, false, 0);
        named.map(|named| Self { device, named, is_believed, written, epoch, has_forgotten, sets })
    }

    pub(super) fn name(&self) -> &'static str {
        self.named.name
    }

    /// A drive of its kind, and whether it has no FUA.
    pub(super) fn profile(&self, bytes: u64) -> (Profile, bool) {
        let mut profile = self.named.profile(bytes);
        for lie in &mut profile.lies {
            if let Lie::IgnoredAbove(limit) = lie {
                *limit = CACHE_LIMIT;
            }
        }
        (profile, !self.named.on_fua)
    }

    /// Its answers may never have been written there.
    pub(super) fn answers_anything(&self) -> bool {
        matches!(self.named.lie, Some(Lie::BitRot(_) | Lie::Misdirects { .. }))
    }

    /// It may answer with errors.
    pub(super) fn has_errors(&self) -> bool {
        matches!(self.named.lie, Some(Lie::LatentErrors(_) | Lie::Dies(_) | Lie::Shrinks(_)))
    }

    /// It answers the same when it is read again.
    pub(super) fn is_steady(&self) -> bool {
        !matches!(self.named.lie, Some(Lie::StaleReadsPerMille(_) | Lie::MirrorLags(_)))
    }

    /// A superblock is being written to it, or was written.
    pub(super) fn note_superblock(&mut self, block: &[u8], is_done: bool) {
        if is_done {
            let epoch = block[EPOCH..EPOCH + 8].try_into().map_or(0, u64::from_le_bytes);
            self.epoch = self.epoch.max(epoch);
        } else {
            self.written.insert(XxHash3_64::oneshot(block));
        }
    }

    /// Checks that the found superblock was written to it, in one of the slots.
    pub(super) fn check_written(&self, found: &FoundDevice) -> Result<(), String> {
        let superblock::Superblock { table, member, device_bytes } = &found.superblock;
        let mut block = [0; BLOCK as usize];
        for slot in 0..layout::SUPERBLOCKS {
            superblock::encode(table, *member, *device_bytes, slot, &mut block);
            if self.written.contains(&XxHash3_64::oneshot(&block)) {
                return Ok(());
            }
        }
        Err(format!("device {}: its superblock was never written", self.device))
    }
}

pub(super) fn draw_geometry(chance: &mut Chance, only_four: bool) -> Geometry {
    let (level, members) = match chance.below(9) {
        _ if only_four => (RaidLevel::Raid10, 4),
        0..=3 => (RaidLevel::Raid10, 4),
        4 => (RaidLevel::Raid10, 6),
        5 => (RaidLevel::Raid1, 2),
        6 => (RaidLevel::Raid1, 3),
        7 => (RaidLevel::Raid0, 2),
        _ => (RaidLevel::Raid1, 4),
    };
    let chunk = 4096_u32 << chance.below(2);
    let region = u64::from(chunk) << chance.below(2);
    Geometry { level, members, chunk, region, member_bytes: 16 * 4096 }
}

/// Small, so that rebuilds are short.
pub(super) fn three_copies() -> Geometry {
    let (level, chunk) = (RaidLevel::Raid1, 4096);
    Geometry { level, members: 3, chunk, region: u64::from(chunk), member_bytes: 4 * 4096 }
}

pub(super) fn draw_stripes(chance: &mut Chance) -> Geometry {
    let (level, members) = match chance.below(6) {
        0..=1 => (RaidLevel::Raid5, 3),
        2 => (RaidLevel::Raid5, 4),
        3..=4 => (RaidLevel::Raid6, 4),
        _ => (RaidLevel::Raid6, 5),
    };
    let chunk = 4096_u32 << chance.below(2);
    let region = u64::from(chunk) << chance.below(2);
    // Half of them are small, so that rebuilds end often.
    Geometry { level, members, chunk, region, member_bytes: 8192 << (1 + 2 * chance.below(2)) }
}

pub(super) fn describe_found(found: &FoundDevice) -> String {
    let MemberTable { epoch, revision, committed, voters, ref entries, .. } =
        found.superblock.table;
    let states: Vec<String> = entries.iter().map(|entry| format!("{:?}", entry.state)).collect();
    let states = states.join(", ");
    let device = found.device;
    format!("device {device} has {epoch}.{revision} on {committed} by {voters:b}: {states}")
}

pub(super) fn describe(plan: &StartPlan) -> String {
    let entries = plan.table.entries.iter().zip(&plan.devices);
    let words = entries.map(|(entry, device)| {
        let device = device.map_or_else(|| "-".to_owned(), |device| device.device.to_string());
        let by_map = if entry.by_map { " by map" } else { "" };
        format!("{:?}{by_map} on {device}", entry.state)
    });
    let words: Vec<String> = words.collect();
    format!("epoch {}: {}", plan.table.epoch, words.join(", "))
}
