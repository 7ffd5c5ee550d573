//! Checks the media after a cut with a separate reader, and stripes with separate arithmetic.
//!
//! Takes disks, the trusted members and the model. Must not share the engine's reader of maps, nor its
//! sums.

use durio_simdisk::Disk;

use super::campaign::CutCampaign;
use super::drives::{Drive, STAMP};
use super::model::ArrayModel;
use crate::geometry::{BytePlace, Geometry, Stripe};
use crate::map_page::regions_per_page;
use crate::simulated;

const BLOCK: usize = 4096;
const SECTOR: u64 = 512;
/// Places from docs/formats/raid-superblock.md, not from the engine's code.
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
        if is_it && newest.as_ref().is_none_or(|(known, _)| generation > *known) {
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
        return check_parities(geometry, data_at, drives, trusted, all_equal, model);
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
                    false => value.is_some_and(|value| model.may_hold(at, value)),
                };
                if !may_hold {
                    let held = model.describe(at);
                    return Err(format!("sector {at}: member {member} holds invalid data; {held}"));
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

const SECTOR_BYTES: usize = SECTOR as usize;

type SectorBytes = [u8; SECTOR_BYTES];

/// The product by definition: polynomials, then the remainder modulo x^8 + x^4 + x^3 + x^2 + 1.
fn product(one: u8, other: u8) -> u8 {
    let mut long = (0..8).filter(|bit| other & (1 << bit) != 0);
    let mut long = long.by_ref().fold(0_u16, |sum, bit| sum ^ (u16::from(one) << bit));
    for bit in (8..15).rev() {
        if long & (1 << bit) != 0 {
            long ^= 0x11d << (bit - 8);
        }
    }
    long as u8
}

fn quotient(one: u8, other: u8) -> u8 {
    (0..=u8::MAX).find(|&candidate| product(candidate, other) == one).unwrap_or(0)
}

/// How often a column counts in a parity.
fn factor(parity: u8, column: u8) -> u8 {
    (0..column).fold(1, |power, _| if parity == 0 { 1 } else { product(power, 2) })
}

/// A parity of these columns, by Horner's rule: from the last on, doubled before the next is added.
fn parity_of(data: &[Option<SectorBytes>], parity: u8) -> SectorBytes {
    let mut sum = [0_u8; SECTOR_BYTES];
    for bytes in data.iter().rev() {
        if parity == 1 {
            sum.iter_mut().for_each(|byte| *byte = (*byte << 1) ^ ((*byte >> 7) * 0x1d));
        }
        if let Some(bytes) = bytes {
            sum.iter_mut().zip(bytes).for_each(|(to, from)| *to ^= from);
        }
    }
    sum
}

/// Restores the missing data, if the parities suffice.
fn restore(data: &mut [Option<SectorBytes>], parities: &[Option<SectorBytes>]) {
    let lost: Vec<u8> =
        (0..data.len() as u8).filter(|&column| data[usize::from(column)].is_none()).collect();
    let rest = |parity: u8| {
        let of = parity_of(data, parity);
        parities[usize::from(parity)]
            .map(|bytes| -> SectorBytes { std::array::from_fn(|at| bytes[at] ^ of[at]) })
    };
    let rests: Vec<(u8, SectorBytes)> =
        (0..parities.len() as u8).filter_map(|parity| Some((parity, rest(parity)?))).collect();
    match (&lost[..], &rests[..]) {
        ([one], [(parity, rest), ..]) => {
            let by = factor(*parity, *one);
            data[usize::from(*one)] = Some(rest.map(|byte| quotient(byte, by)));
        }
        ([one, other], [(_, p), (_, q)]) => {
            let (f, g) = (factor(1, *one), factor(1, *other));
            let a: SectorBytes =
                std::array::from_fn(|at| quotient(q[at] ^ product(g, p[at]), f ^ g));
            data[usize::from(*one)] = Some(a);
            data[usize::from(*other)] = Some(std::array::from_fn(|at| p[at] ^ a[at]));
        }
        _ => {}
    }
}

/// Compares data with the model, including that of absent members where parities must be right; and
/// the parities.
pub(super) fn check_parities(
    geometry: &Geometry,
    data_at: u64,
    drives: &[Drive],
    trusted: &TrustedMembers,
    all_equal: bool,
    model: &mut ArrayModel,
) -> Result<(), String> {
    let device_of = |role: u8| {
        let found = trusted.sets[0].iter().find(|(at, _)| *at == usize::from(role));
        found.map(|(_, device)| *device)
    };
    for sector in 0..geometry.member_bytes / SECTOR {
        let offset = sector * SECTOR;
        let stripe = geometry.stripe(offset);
        let read = |role: u8| -> Option<SectorBytes> {
            let mut sector = [0; SECTOR_BYTES];
            drives[device_of(role)?].disk.durable().read((data_at + offset) / SECTOR, &mut sector);
            Some(sector)
        };
        let mut data: Vec<Option<SectorBytes>> =
            (0..stripe.columns()).map(|column| read(stripe.member(column))).collect();
        let parities: Vec<Option<SectorBytes>> =
            (0..geometry.level.parities()).map(|number| read(stripe.parity(number))).collect();
        let region = (offset / geometry.region) as usize;
        let must_be_right = (all_equal || !trusted.dirty[region]) && !trusted.unsynced[region];
        let is_here: Vec<bool> = data.iter().map(Option::is_some).collect();
        // All zeros are common, and right.
        let is_blank =
            data.iter().chain(&parities).flatten().all(|sector| *sector == [0; SECTOR_BYTES]);
        if must_be_right && !is_blank && is_here.contains(&false) {
            restore(&mut data, &parities);
        }
        let mut values = Vec::new();
        for (column, bytes) in (0_u8..).zip(&data) {
            let at = (geometry.locate_back(BytePlace { set: 0, offset, column }) / SECTOR) as usize;
            let bytes = match bytes {
                Some(bytes) => bytes,
                None if is_blank => &[0; SECTOR_BYTES],
                None => continue,
            };
            let value = read_stamp(bytes, at)
                .filter(|&value| model.may_hold(at, value))
                .ok_or_else(|| {
                    let (held, is_here) = (model.describe(at), is_here[usize::from(column)]);
                    format!(
                        "sector {at}: a member holds what it must not, itself: {is_here}; {held}"
                    )
                })?;
            values.push((at, value));
        }
        let is_right = is_blank || are_right(stripe, &data, &parities);
        if must_be_right && !is_right {
            return Err(format!("sector {sector} of the members: wrong parity"));
        }
        if is_right && (all_equal || trusted.is_whole[0]) {
            values.into_iter().for_each(|(at, value)| model.settle(at, value));
        }
    }
    Ok(())
}

/// Whether the present parities match the data.
fn are_right(
    stripe: Stripe,
    data: &[Option<SectorBytes>],
    parities: &[Option<SectorBytes>],
) -> bool {
    let is_known = data.len() == usize::from(stripe.columns()) && data.iter().all(Option::is_some);
    let is_right = |(parity, bytes): (u8, &Option<SectorBytes>)| {
        bytes.is_none_or(|bytes| bytes == parity_of(data, parity))
    };
    is_known && (0..).zip(parities).all(is_right)
}

impl CutCampaign {
    /// Leaves older contents in a sector of each parity.
    pub(super) fn spoil_parities(&mut self) {
        let chunk = u64::from(self.geometry.chunk);
        for offset in (0..self.geometry.member_bytes).step_by(self.geometry.chunk as usize) {
            let stripe = self.geometry.stripe(offset);
            for parity in 0..self.geometry.level.parities() {
                let at = offset + self.chance.below(chunk / SECTOR) * SECTOR;
                let data = (self.data_at + at, vec![0xa5; SECTOR_BYTES]);
                let drive = &mut self.drives[usize::from(stripe.parity(parity))];
                simulated::write_blocks(&mut drive.disk, vec![data]);
            }
        }
    }
}
