//! Checks the superblocks of a device against the device.
//!
//! Takes its size and blocks; returns its newest superblock, and why its data is not trusted.
//! `assembly.rs` checks whether the other members know it.
//!
//! Slots 0 and 2, one at each end, are written together, and then slots 1 and 3. The whole, equal
//! pair stays while the other is written, so a power cut tears at most one pair, whatever was cut
//! before. If neither pair is whole, something other than the engine wrote to the device, and the
//! data between its ends may be anything.

use durio_base::Bytes;

use crate::Fault;
use crate::geometry::BLOCK;
use crate::layout::{self, SUPERBLOCKS};
use crate::superblock::{Superblock, SuperblockError, decode, newest};

/// Why the data of a device is not trusted, though a superblock is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is shorter than its superblock says.
    #[error(
        "has {}, its superblock says {}: it was truncated",
        Bytes::new(*has),
        Bytes::new(*says)
    )]
    Truncated {
        /// Bytes of the device.
        has: u64,
        /// Bytes that it had.
        says: u64,
    },
    /// The superblocks at its two ends were not written together.
    #[error(
        "has superblocks at its start and at its end that do not belong together: a part of it \
         was overwritten, or copied from elsewhere"
    )]
    EndsDiffer,
}

impl Damage {
    /// Whether a planted fault makes the engine overlook it.
    pub(crate) fn is_overlooked(self, fault: Option<Fault>) -> bool {
        let overlooked_by = match self {
            Self::Truncated { .. } => Fault::TruncatedMemberTrusted,
            Self::EndsDiffer => Fault::EndsNotCompared,
        };
        overlooked_by.is_in(fault)
    }
}

/// A device that was a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognizedMember {
    /// The newest superblock that is whole.
    pub superblock: Superblock,
    /// The pair of slots that the next write of the superblock leaves alone.
    pub slot: u8,
    /// Why it is not to be trusted.
    pub damage: Option<Damage>,
}

/// Reads the superblocks of a device through `read`, which gets the place of a block.
///
/// # Errors
/// Errors of `read`; the inner error if no superblock was found.
pub fn recognize<E>(
    device_bytes: u64,
    mut read: impl FnMut(u64) -> Result<Vec<u8>, E>,
) -> Result<Result<RecognizedMember, SuperblockError>, E> {
    let mut blocks: [Vec<u8>; SUPERBLOCKS as usize] = Default::default();
    let mut read_slots = |blocks: &mut [Vec<u8>], slots: std::ops::Range<u8>, size: u64| {
        for slot in slots {
            // A truncated member may be smaller than the minimum.
            let place = layout::superblock_slot(size.max(4 * BLOCK), slot);
            if let Some(place) = place.filter(|place| place + BLOCK <= device_bytes) {
                blocks[usize::from(slot)] = read(place)?;
            }
        }
        Ok(())
    };
    read_slots(&mut blocks, 0..2, device_bytes)?;
    // A device that grew has its last superblocks at its old end.
    let at_start = newest(blocks.each_ref().map(Vec::as_slice));
    let said = at_start.map_or(device_bytes, |(superblock, _)| superblock.device_bytes);
    read_slots(&mut blocks, 2..SUPERBLOCKS, said.min(device_bytes))?;
    let blocks = blocks.each_ref().map(Vec::as_slice);
    let recognized = newest(blocks).map(|(superblock, newest)| {
        let says = superblock.device_bytes;
        let equal = [newest, 1 - newest].into_iter().find(|&pair| is_equal(blocks, pair));
        let damage = match device_bytes < says {
            true => Some(Damage::Truncated { has: device_bytes, says }),
            false => equal.is_none().then_some(Damage::EndsDiffer),
        };
        RecognizedMember { superblock, slot: equal.unwrap_or(newest), damage }
    });
    Ok(recognized)
}

/// Whether the superblocks of a pair of slots are whole and equal.
fn is_equal(blocks: [&[u8]; SUPERBLOCKS as usize], pair: u8) -> bool {
    let [start, end] = [pair, pair + 2].map(|slot| decode(blocks[usize::from(slot)], slot));
    start.is_ok() && start == end
}

#[cfg(test)]
mod tests;
