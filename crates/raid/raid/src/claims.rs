//! The metadata of a device: made for a new array, and checked against the device.
//!
//! From geometry and members come the blocks of a new array and their places ([`create`]). From a
//! device's size and blocks come its newest superblock, and why its data is not trusted
//! ([`recognize`]). The caller decides whether a device may be written to; `assembly.rs` checks
//! whether the other members know it.
//!
//! Slots 0 and 2, one at each end, are written together, and then slots 1 and 3. The whole, equal
//! pair stays while the other is written, so a power cut tears at most one pair, whatever was cut
//! before. If neither pair is whole, something other than the engine wrote to the device, and the
//! data between its ends may be anything.

use durio_base::Bytes;

use crate::geometry::{BLOCK, CreateError, Geometry};
use crate::layout::{self, SUPERBLOCKS};
use crate::superblock::{
    HISTORY_EPOCHS, MemberEntry, MemberState, MemberTable, NAME_BYTES, SPARES_MAX, Superblock,
    SuperblockError, decode, encode, newest,
};
use crate::{Fault, Id, map_page};

/// A device that becomes a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub id: Id,
    pub device_bytes: u64,
}

/// The writes to one device, in this order: places, and blocks of 4 KiB.
pub type Blocks = Vec<(u64, Vec<u8>)>;

/// Blocks of 4 KiB for each device, with their places: first the map, which is clean, then the
/// superblocks. The copies of a new array are assumed to be equal. Unwritten sectors may read
/// differently from each device, so the caller must zero devices that are not blank.
pub fn create(
    array: Id,
    name: &str,
    geometry: Geometry,
    data_alignment: u64,
    members: &[Member],
) -> Result<Vec<Blocks>, CreateError> {
    geometry.check()?;
    let roles = usize::from(geometry.members);
    if members.len() < roles || members.len() > roles + SPARES_MAX {
        return Err(CreateError::Devices);
    }
    if name.is_empty() || name.len() > NAME_BYTES {
        return Err(CreateError::Name);
    }
    let data_at = layout::data_at(&geometry, data_alignment);
    let needed = layout::device_bytes(&geometry, data_at);
    if let Some(small) = members.iter().position(|member| member.device_bytes < needed) {
        return Err(CreateError::TooSmall(small));
    }
    let is_doubled =
        |(at, member): (usize, &Member)| members[..at].iter().any(|o| o.id == member.id);
    if members.iter().enumerate().any(is_doubled) {
        return Err(CreateError::Doubled);
    }
    let entry = |(role, member): (usize, &Member)| MemberEntry {
        member: member.id,
        state: if role < roles { MemberState::InSync } else { MemberState::Spare },
        by_map: false,
        replaces: None,
        since: 1,
        watermark: 0,
    };
    let entries = members.iter().enumerate().map(entry).collect();
    let name = name.to_owned();
    let table = MemberTable {
        array,
        name,
        geometry,
        data_at,
        epoch: 1,
        lineage: 0,
        history: [0; HISTORY_EPOCHS],
        committed: 1,
        voters: (1 << geometry.members) - 1,
        revision: 1,
        entries,
    };
    Ok((0..).zip(members).map(|(role, member)| blocks(&table, role, member)).collect())
}

fn blocks(table: &MemberTable, role: u8, member: &Member) -> Blocks {
    let mut blocks = Vec::new();
    let set = role / table.geometry.set_members();
    for page in 0..layout::map_pages(&table.geometry) {
        let mut block = vec![0; BLOCK as usize];
        let name = map_page::PageName { array: table.array, set, page };
        map_page::encode(name, 1, std::iter::empty(), &mut block);
        // The second slot is invalid, so that no older page can be taken for a newer one.
        blocks.push((layout::map_slot(page, 1), vec![0; BLOCK as usize]));
        blocks.push((layout::map_slot(page, 0), block));
    }
    for slot in 0..SUPERBLOCKS {
        let mut block = vec![0; BLOCK as usize];
        encode(table, member.id, member.device_bytes, slot, &mut block);
        let place = layout::superblock_slot(member.device_bytes, slot);
        blocks.extend(place.map(|place| (place, block)));
    }
    blocks
}

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
        "has superblocks at its start and end that do not match: part of it was overwritten, or \
         copied from elsewhere"
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
