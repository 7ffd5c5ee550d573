//! Checks the media after a cut with a separate reader.
//!
//! Takes disks, the trusted members and the model. Must not share the engine's reader of maps.

use durio_simdisk::Disk;

use super::drives::{Drive, STAMP};
use super::model::ArrayModel;
use super::stripes;
use crate::geometry::{BytePlace, Geometry};
use crate::map_page::regions_per_page;

const BLOCK: usize = 4096;
const SECTOR: u64 = 512;
/// From docs/formats/raid-superblock.md.
const MAP_BLOCK: u64 = 2;
const SET: usize = 10;
const PAGE: usize = 12;
const REGIONS: usize = 64;
const CHECKSUM: usize = 4092;
const UNSYNCED: u8 = 4;

/// The trusted members of a set, and the regions that may differ.
pub(super) struct TrustedMembers {
    /// Entries and device numbers by set, without a drive that is known to lie.
    pub(super) sets: Vec<Vec<(usize, usize)>>,
    /// By set: no other member will be trusted at the next start.
    pub(super) is_whole: Vec<bool>,
    /// By set and region.
    pub(super) dirty: Vec<bool>,
    /// The same, by region of stripes, where parities were never made.
    pub(super) unsynced: Vec<bool>,
    /// Dirty regions, and those that only a member in rebuild may have.
    pub(super) resynced: Vec<bool>,
    /// The same, and regions that a member that was away may lack.
    pub(super) marked: Vec<bool>,
}

impl TrustedMembers {
    /// Reads the maps of the trusted members, and of others, with their sets, that come back.
    pub(super) fn read(
        geometry: &Geometry,
        drives: &[Drive],
        sets: Vec<Vec<(usize, usize)>>,
        is_whole: Vec<bool>,
        others: &[(usize, usize)],
    ) -> Self {
        let regions = geometry.regions() as usize;
        let mut trusted = Self {
            dirty: vec![false; regions * sets.len()],
            unsynced: vec![false; regions],
            resynced: Vec::new(),
            marked: vec![false; regions * sets.len()],
            sets,
            is_whole,
        };
        for (set, members) in trusted.sets.iter().enumerate() {
            for &(_, member) in members {
                // All regions of a lost page may be dirty.
                let map = newest_map(&drives[member].disk, set, geometry, 1 | UNSYNCED);
                for (region, byte) in map.iter().take(regions).enumerate() {
                    trusted.dirty[set * regions + region] |= byte & 1 != 0;
                    trusted.unsynced[region] |= byte & UNSYNCED != 0;
                    trusted.marked[set * regions + region] |= *byte != 0;
                }
            }
        }
        trusted.resynced = trusted.dirty.clone();
        for &(set, member) in others {
            let map = newest_map(&drives[member].disk, set, geometry, 0);
            for (region, byte) in map.iter().take(regions).enumerate() {
                trusted.resynced[set * regions + region] |= byte & 1 != 0;
                trusted.marked[set * regions + region] |= *byte != 0;
            }
        }
        trusted
    }
}

/// The map of a member of a set: for each page the newer whole slot of two, or `lost` for all of
/// its regions. The map of an earlier set does not count. Empty at level 0.
pub(super) fn newest_map(disk: &Disk, set: usize, geometry: &Geometry, lost: u8) -> Vec<u8> {
    if geometry.set_members() == 1 {
        return Vec::new();
    }
    let in_page = regions_per_page() as usize;
    let pages = (geometry.regions() as usize).div_ceil(in_page);
    let page = |page| newest_page(disk, set, page).unwrap_or_else(|| vec![lost; in_page]);
    (0..pages).flat_map(|at| page(at).into_iter().take(in_page)).collect()
}

fn newest_page(disk: &Disk, set: usize, page: usize) -> Option<Vec<u8>> {
    let mut newest = None;
    for slot in 0..2 {
        let mut block = vec![0; BLOCK];
        let at = MAP_BLOCK + 2 * page as u64 + slot;
        disk.durable().read(at * (BLOCK as u64 / SECTOR), &mut block);
        let sum = crc32c::crc32c(&block[..CHECKSUM]).to_le_bytes();
        let generation = block[32..40].try_into().map_or(0, u64::from_le_bytes);
        let is_whole = block.starts_with(b"durioMAP") && block[CHECKSUM..] == sum;
        let number = block[PAGE..PAGE + 4].try_into().map_or(0, u32::from_le_bytes);
        let is_it = is_whole && usize::from(block[SET]) == set && number as usize == page;
        if is_it && newest.as_ref().is_none_or(|(it, _)| generation > *it) {
            newest = Some((generation, block[REGIONS..CHECKSUM].to_vec()));
        }
    }
    newest.map(|(_, regions)| regions)
}

/// Compares all copies in sync with the model. Where a region is not dirty they must be equal; if
/// `all_equal`, everywhere.
pub(super) fn check(
    geometry: &Geometry,
    data_at: u64,
    drives: &[Drive],
    trusted: &TrustedMembers,
    all_equal: bool,
    model: &mut ArrayModel,
) -> Result<(), String> {
    if geometry.level.parities() > 0 {
        return stripes::check(geometry, data_at, drives, trusted, all_equal, model);
    }
    let sectors = geometry.member_bytes / SECTOR;
    for (set, members) in trusted.sets.iter().enumerate() {
        for sector in 0..sectors {
            let place = BytePlace { set: set as u8, offset: sector * SECTOR, column: 0 };
            let at = (geometry.locate_back(place) / SECTOR) as usize;
            let region = (place.offset / geometry.region) as usize;
            let must_be_equal =
                all_equal || !trusted.dirty[set * geometry.regions() as usize + region];
            let mut first = None;
            let mut is_equal = true;
            for &(_, member) in members {
                let value = value_of(&drives[member].disk, data_at / SECTOR + sector, at);
                let may_hold = match model.is_weak(at) {
                    true => model.may_ever_hold(at, value),
                    false => value.is_some_and(|it| model.may_hold(at, it)),
                };
                if !may_hold {
                    let held = model.describe(at);
                    return Err(format!(
                        "sector {at}: member {member} holds what it must not; {held}"
                    ));
                }
                is_equal &= *first.get_or_insert(value) == value;
            }
            if must_be_equal && !is_equal && !model.is_weak(at) {
                return Err(format!("sector {at} of set {set}: copies differ, region {region}"));
            }
            // An absent copy may be trusted at the next start, if this one is incomplete.
            if let Some(value) = first.flatten().filter(|_| is_equal && trusted.is_whole[set]) {
                model.settle(at, value);
            }
        }
    }
    Ok(())
}

/// The value in a sector of a disk, if it belongs to sector `at` of the array.
fn value_of(disk: &Disk, sector: u64, at: usize) -> Option<u32> {
    disk.durable().sector(sector).map_or(Some(0), |bytes| read_stamp(bytes, at))
}

/// The value of a sector; `None` if it belongs elsewhere.
pub(super) fn read_stamp(bytes: &[u8], at: usize) -> Option<u32> {
    let value = u32::from_le_bytes(bytes[..STAMP / 2].try_into().ok()?);
    let place = u32::from_le_bytes(bytes[STAMP / 2..STAMP].try_into().ok()?);
    match value {
        0 => (place == 0).then_some(0),
        _ => (place as usize == at).then_some(value),
    }
}
