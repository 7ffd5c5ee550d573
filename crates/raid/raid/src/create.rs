//! The metadata of a new array.
//!
//! Takes geometry and members; returns blocks and their places. The caller decides whether a device
//! may be written to.

use crate::geometry::{BLOCK, Geometry, GeometryError};
use crate::layout::{self, SUPERBLOCKS};
use crate::superblock::{
    HISTORY_EPOCHS, MemberEntry, MemberState, MemberTable, NAME_BYTES, SPARES_MAX, encode,
};
use crate::{Id, map_page};

/// A device that becomes a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub id: Id,
    pub device_bytes: u64,
}

/// Why the array cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The geometry is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Too few members, or too many spares.
    #[error("the number of devices does not fit the members and at most 8 spares")]
    Devices,
    /// A member or spare has no room.
    #[error("device {0} is too small for the data of a member")]
    TooSmall(usize),
    /// Two have one name.
    #[error("two members have the same id")]
    Doubled,
    /// A name that does not fit.
    #[error("the name of an array has 1 to 32 bytes")]
    Name,
}

/// The writes to one device, in this order: places, and blocks of 4 KiB.
pub type Blocks = Vec<(u64, Vec<u8>)>;

/// Blocks of 4 KiB for each device, with their places: first the map, which is clean, then the
/// superblocks. The copies of a new array are assumed to be equal. Unwritten sectors may read
/// differently from each device, so the caller must zero devices that are not blank.
///
/// # Errors
/// [`CreateError`].
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
