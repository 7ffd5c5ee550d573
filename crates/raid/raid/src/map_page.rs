//! A page of the map of dirty regions: a byte per region.
//!
//! Encodes the bytes of regions in a block that shows whether it is whole, its array, set, page and
//! generation; and decodes it. `engine/dirty.rs` decides when to write it. The format:
//! docs/formats/raid-superblock.md.

use crate::geometry::BLOCK;
use crate::{COUNTED_MAX, Id};

/// Regions for which a page has room.
pub(crate) const REGIONS_PER_PAGE: u32 = (CHECKSUM - REGIONS) as u32;

/// Regions in a page.
#[cfg(not(any(test, feature = "simulate")))]
pub(crate) const fn regions_per_page() -> u32 {
    REGIONS_PER_PAGE
}

#[cfg(any(test, feature = "simulate"))]
std::thread_local! {
    static SIMULATED_REGIONS: std::cell::Cell<u32> = const { std::cell::Cell::new(REGIONS_PER_PAGE) };
}

/// Regions in a page: fewer in a thread that simulates, so that a small member has several pages.
/// Other threads are not affected.
#[cfg(any(test, feature = "simulate"))]
pub(crate) fn regions_per_page() -> u32 {
    SIMULATED_REGIONS.get()
}

/// Makes this thread use this many.
#[cfg(any(test, feature = "simulate"))]
pub(crate) fn simulate_regions_per_page(regions: u32) {
    SIMULATED_REGIONS.set(regions);
}
/// Copies may differ: writes were in flight.
pub(crate) const DIRTY: u8 = 1;
/// A member that is away lacks writes to this region.
pub(crate) const STALE: u8 = 2;
/// The parities are not known to match the data.
pub(crate) const UNSYNCED: u8 = 4;

const MAGIC: &[u8; 8] = b"durioMAP";
const VERSION: u16 = 1;
const SET: usize = 10;
const PAGE: usize = 12;
const ARRAY: usize = 16;
const GENERATION: usize = 32;
const REGIONS: usize = 64;
const CHECKSUM: usize = BLOCK as usize - 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageName {
    pub(crate) array: Id,
    pub(crate) set: u8,
    pub(crate) page: u32,
}

pub(crate) fn encode(
    name: PageName,
    generation: u64,
    regions: impl Iterator<Item = u8>,
    to: &mut [u8],
) {
    to.fill(0);
    to[..8].copy_from_slice(MAGIC);
    to[8..10].copy_from_slice(&VERSION.to_le_bytes());
    to[SET] = name.set;
    to[PAGE..PAGE + 4].copy_from_slice(&name.page.to_le_bytes());
    to[ARRAY..ARRAY + 16].copy_from_slice(&name.array.0);
    to[GENERATION..GENERATION + 8].copy_from_slice(&generation.to_le_bytes());
    to[REGIONS..CHECKSUM].iter_mut().zip(regions).for_each(|(to, byte)| *to = byte);
    let checksum = crc32c::crc32c(&to[..CHECKSUM]);
    to[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
}

/// Its generation and the bytes of its regions; `None` if it is not whole, or another page.
pub(crate) fn decode(name: PageName, from: &[u8]) -> Option<(u64, &[u8])> {
    let checksum = crc32c::crc32c(from.get(..CHECKSUM)?).to_le_bytes();
    let is_it = from[CHECKSUM..] == checksum
        && from[..8] == *MAGIC
        && from[8..10] == VERSION.to_le_bytes()
        && from[SET] == name.set
        && from[PAGE..PAGE + 4] == name.page.to_le_bytes()
        && from[ARRAY..ARRAY + 16] == name.array.0;
    let generation = from[GENERATION..GENERATION + 8].try_into().ok().map(u64::from_le_bytes)?;
    let is_it = is_it && generation < COUNTED_MAX;
    is_it.then_some((generation, &from[REGIONS..CHECKSUM]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written_and_no_other_page_is() {
        let name = PageName { array: Id([7; 16]), set: 1, page: 3 };
        let mut block = [0xff; BLOCK as usize];
        encode(name, 9, [DIRTY, 0, STALE].into_iter(), &mut block);
        let (generation, regions) = decode(name, &block).expect("it is whole");
        assert_eq!((generation, &regions[..4]), (9, &[DIRTY, 0, STALE, 0][..]));
        assert_eq!(regions.len(), REGIONS_PER_PAGE as usize);
        for other in [
            PageName { array: Id([8; 16]), ..name },
            PageName { set: 0, ..name },
            PageName { page: 2, ..name },
        ] {
            assert!(decode(other, &block).is_none());
        }
    }

    #[test]
    fn a_turned_bit_anywhere_is_seen() {
        let name = PageName { array: Id([7; 16]), set: 0, page: 0 };
        let mut block = [0; BLOCK as usize];
        encode(name, 9, std::iter::repeat_n(DIRTY, 100), &mut block);
        for at in 0..block.len() {
            block[at] ^= 4;
            assert!(decode(name, &block).is_none(), "byte {at}");
            block[at] ^= 4;
        }
    }

    #[test]
    fn a_generation_that_no_page_comes_to_is_not_believed() {
        let name = PageName { array: Id([7; 16]), set: 0, page: 0 };
        for (generation, is_read) in [
            (4_611_686_018_427_387_903, true),
            (4_611_686_018_427_387_904, false),
            (u64::MAX, false),
        ] {
            let mut block = [0; BLOCK as usize];
            encode(name, generation, [DIRTY].into_iter(), &mut block);
            assert_eq!(decode(name, &block).is_some(), is_read, "{generation}");
        }
    }
}
