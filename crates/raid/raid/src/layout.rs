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
