//! The layout of a member.
//!
//! Takes sizes and returns places. The blocks' contents are in `superblock.rs` and `map_page.rs`.
//!
//! ```text
//!  block  0 1      2 ...                                data_at             end
//!         SS SS    page 0 0, 1 1 …  slots of the log     data                SS SS
//! ```
//!
//! Each block of metadata has two slots, written in turn, so that a torn write leaves the previous
//! one. Levels 5 and 6 have a log: a slot is a header and a chunk, and each stripe has its slot.

use crate::geometry::{BLOCK, Geometry};
use crate::map_page::regions_per_page;

/// Slots of the superblock: two at the start, two at the end.
pub const SUPERBLOCKS: u8 = 4;
/// Where the map begins.
const MAP_AT: u64 = 2 * BLOCK;
/// Blocks of superblocks at the end.
const END: u64 = 2 * BLOCK;

/// Bytes of all chunks in a log, about.
const LOG_BYTES: u64 = 4 << 20;
/// Slots that a log has even if they are larger.
const LOG_SLOTS_MIN: u64 = 16;

/// Bytes to which data is aligned on a member, unless a test wants less.
pub const DATA_ALIGNMENT: u64 = 1 << 20;

/// Pages of the map of one member.
#[must_use]
pub fn map_pages(geometry: &Geometry) -> u32 {
    if geometry.set_members() == 1 { 0 } else { geometry.regions().div_ceil(regions_per_page()) }
}

/// Where data begins, with this alignment.
#[must_use]
pub fn data_at(geometry: &Geometry, alignment: u64) -> u64 {
    let log_bytes = log_slots(geometry) * log_slot_bytes(geometry);
    (MAP_AT + map_bytes(geometry) + log_bytes).next_multiple_of(alignment)
}

/// Slots of the log of a member, a power of two; none without parity.
#[must_use]
pub fn log_slots(geometry: &Geometry) -> u64 {
    if geometry.level.parities() == 0 {
        return 0;
    }
    let chunk = u64::from(geometry.chunk);
    let most = (LOG_BYTES / chunk).max(LOG_SLOTS_MIN);
    // Fewer than a small array has stripes.
    let quarter = (geometry.member_bytes / chunk / 4).max(1);
    1 << quarter.min(most).ilog2()
}

/// Bytes of a slot: a block, then a chunk.
#[must_use]
pub fn log_slot_bytes(geometry: &Geometry) -> u64 {
    BLOCK + u64::from(geometry.chunk)
}

/// The slot of a stripe.
#[must_use]
pub fn log_slot_of(geometry: &Geometry, offset: u64) -> u64 {
    (offset / u64::from(geometry.chunk)) & log_slots(geometry).saturating_sub(1)
}

/// The place of a slot of the log.
#[must_use]
pub fn log_slot(geometry: &Geometry, slot: u64) -> u64 {
    MAP_AT + map_bytes(geometry) + slot * log_slot_bytes(geometry)
}

/// Bytes of the map, both slots of each page.
#[must_use]
pub fn map_bytes(geometry: &Geometry) -> u64 {
    u64::from(map_pages(geometry)) * 2 * BLOCK
}

/// The place of a slot of a page of the map; slot 0 of page 0 begins the map.
#[must_use]
pub fn map_slot(page: u32, slot: u8) -> u64 {
    MAP_AT + (u64::from(page) * 2 + u64::from(slot)) * BLOCK
}

/// The place of a slot of the superblock on a device of this size; `None` if it is too small.
#[must_use]
pub fn superblock_slot(device_bytes: u64, slot: u8) -> Option<u64> {
    let blocks = device_bytes / BLOCK;
    let end = (blocks * BLOCK).checked_sub(END).filter(|&end| end >= MAP_AT)?;
    Some(if slot < 2 { u64::from(slot) * BLOCK } else { end + u64::from(slot - 2) * BLOCK })
}

/// Bytes that a device needs for data of this geometry from `data_at` on.
#[must_use]
pub fn device_bytes(geometry: &Geometry, data_at: u64) -> u64 {
    data_at + geometry.member_bytes + END
}

#[cfg(test)]
mod tests {
    use durio_base::RaidLevel;

    use super::*;

    fn of(level: RaidLevel, chunk: u32, region: u64, member_bytes: u64) -> Geometry {
        Geometry { level, members: 4, chunk, region, member_bytes }
    }

    #[test]
    fn a_member_of_a_mirror_has_superblocks_its_map_data_and_superblocks() {
        let small = of(RaidLevel::Raid10, 16 << 10, 1 << 20, 4 << 20);
        assert_eq!((map_pages(&small), map_bytes(&small), log_slots(&small)), (1, 8192, 0));
        assert_eq!([BLOCK, DATA_ALIGNMENT].map(|to| data_at(&small, to)), [16_384, 1_048_576]);
        assert_eq!(device_bytes(&small, 1_048_576), 5_251_072);
        let pages = [4027, 4028, 4029, 8056, 8057]
            .map(|regions| map_pages(&of(RaidLevel::Raid1, 4096, 4096, regions * 4096)));
        assert_eq!(pages, [1, 1, 2, 2, 3]);
        // Part of a region is one.
        assert_eq!(map_pages(&of(RaidLevel::Raid1, 4096, 8192, 4028 * 8192 + 4096)), 2);
        let single = of(RaidLevel::Raid0, 16 << 10, 1 << 20, 1 << 40);
        assert_eq!((map_pages(&single), data_at(&single, BLOCK)), (0, 8192));
        let slots = [(0, 0), (0, 1), (1, 0), (4, 1)].map(|(page, slot)| map_slot(page, slot));
        assert_eq!(slots, [8192, 12_288, 16_384, 45_056]);
    }

    #[test]
    fn a_member_of_stripes_has_a_log_behind_its_map() {
        let large = of(RaidLevel::Raid5, 16 << 10, 64 << 10, 1 << 30);
        assert_eq!(
            (map_pages(&large), log_slots(&large), log_slot_bytes(&large)),
            (5, 256, 20_480)
        );
        assert_eq!([0, 1, 255].map(|slot| log_slot(&large, slot)), [49_152, 69_632, 5_271_552]);
        assert_eq!([BLOCK, DATA_ALIGNMENT].map(|to| data_at(&large, to)), [5_292_032, 6_291_456]);
        // Stripes share slots in turn, each with all of its bytes.
        let places = [0, 16_383, 16_384, 255 << 14, 256 << 14, (1 << 30) - 1];
        assert_eq!(places.map(|place| log_slot_of(&large, place)), [0, 0, 1, 255, 0, 255]);
        for (chunk, stripes, slots) in [
            (16 << 10, 3, 1),
            (16 << 10, 8, 2),
            (16 << 10, 15, 2),
            (16 << 10, 16, 4),
            (16 << 10, 1023, 128),
            (16 << 10, 1024, 256),
            (16 << 10, 1 << 20, 256),
            (4 << 10, 1 << 20, 1024),
            (256 << 10, 1 << 10, 16),
            (1 << 20, 1 << 10, 16),
        ] {
            let geometry = of(RaidLevel::Raid6, chunk, 1 << 30, u64::from(chunk) * stripes);
            assert_eq!(log_slots(&geometry), slots, "{stripes} stripes of {chunk}");
        }
    }

    #[test]
    fn superblocks_are_in_the_first_and_the_last_two_whole_blocks_of_a_device() {
        let all = |bytes| [0, 1, 2, 3].map(|slot| superblock_slot(bytes, slot));
        let ends = |third: u64| [0, 4096, third, third + 4096].map(Some);
        assert_eq!(all(8 << 20), ends(8_380_416));
        assert_eq!(all((8 << 20) + 4095), ends(8_380_416));
        assert_eq!(all((8 << 20) + 4096), ends(8_384_512));
        assert_eq!(all((5 << 40) + 77), ends((5 << 40) - 8192));
        assert_eq!(all(16_384), ends(8192));
        for bytes in [0, 4096, 8192, 16_383] {
            assert_eq!(all(bytes), [None; 4], "{bytes}");
        }
    }
}
