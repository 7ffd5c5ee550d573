//! The superblock: a member's knowledge of the array.
//!
//! Encodes and decodes the table of members. `assembly.rs` decides which of several is believed.
//! The format: docs/formats/raid-superblock.md.

use crate::geometry::{BLOCK, Geometry, MEMBERS_MAX};
use crate::layout::{self, SUPERBLOCKS};
use crate::{COUNTED_MAX, Id};
use durio_base::RaidLevel;

/// Spares of an array at most.
pub const SPARES_MAX: usize = 8;
/// Epochs whose lineage a table remembers.
pub const HISTORY_EPOCHS: usize = 64;
/// Bytes of an array's name at most.
pub const NAME_BYTES: usize = 32;

const MAGIC: &[u8; 8] = b"durioRDS";
/// Version of a table without a replacement.
const VERSION: u16 = 1;
/// Version of a table with a replacement.
const VERSION_REPLACING: u16 = 2;
/// Version for levels 5 and 6.
const VERSION_PARITY: u16 = 3;
const LEVEL: usize = 10;
const MEMBERS: usize = 11;
const ENTRIES_COUNT: usize = 12;
const SLOT: usize = 13;
const ARRAY: usize = 16;
const MEMBER: usize = 32;
const EPOCH: usize = 48;
const REVISION: usize = 56;
const CHUNK: usize = 64;
const REGION: usize = 72;
const MEMBER_BYTES: usize = 80;
const DATA_AT: usize = 88;
const DEVICE_BYTES: usize = 96;
const NAME: usize = 104;
const LINEAGE: usize = 136;
const COMMITTED: usize = 144;
const VOTERS: usize = 152;
const ENTRIES: usize = 160;
const ENTRY_BYTES: usize = 40;
const HISTORY: usize = ENTRIES + ENTRY_BYTES * (MEMBERS_MAX as usize + SPARES_MAX);
const CHECKSUM: usize = BLOCK as usize - 4;

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// Has every acknowledged write.
    InSync,
    /// Gets every write; lacks older data from the watermark on.
    Rebuilding,
    /// Is away, or failed.
    Faulty,
    /// Waits to take the place of a faulty one.
    Spare,
}

/// A member in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberEntry {
    pub member: Id,
    pub state: MemberState,
    /// Lacks only the regions in the map of its set: it was in sync once.
    pub by_map: bool,
    /// The role that it takes over from a working member when it is in sync: it is listed among the
    /// spares until then.
    pub replaces: Option<u8>,
    /// The epoch that made its state.
    pub since: u64,
    /// Bytes of its data that are rebuilt.
    pub watermark: u64,
}

impl MemberEntry {
    /// Whether a member whose own table has this epoch was here when its state was made. An older one may
    /// be an image, and the map does not name what that lacks.
    pub(crate) fn was_here_until(&self, epoch: u64) -> bool {
        epoch.saturating_add(1) >= self.since
    }
}

/// The array, as its members agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberTable {
    pub array: Id,
    /// Its name, at most [`NAME_BYTES`] bytes.
    pub name: String,
    /// The place of the data.
    pub geometry: Geometry,
    /// Where data begins on each member.
    pub data_at: u64,
    /// Grows with each change of membership.
    pub epoch: u64,
    /// Derived from all tables up to this one: tables of one epoch that were made separately have
    /// different lineages.
    pub lineage: u64,
    /// The lineages of the epochs before, the latest first.
    pub history: [u64; HISTORY_EPOCHS],
    /// The last epoch known to count when this was written: its own, or the one before.
    pub committed: u64,
    /// Those of `entries` that were in sync by that table, a bit each: half of them must store a
    /// table before it counts.
    pub voters: u64,
    /// Grows with each write of superblocks.
    pub revision: u64,
    /// The members by their role, then replacements and spares.
    pub entries: Vec<MemberEntry>,
}

/// The relation of a table to one that is newer, or as new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The same, or one from which the newer was made.
    Ancestor,
    /// Both were made from an older one.
    Diverged,
    /// It is too old to know.
    Unknown,
}

impl MemberTable {
    /// Whether it was written again after enough members had it.
    pub(crate) fn is_known_to_count(&self) -> bool {
        self.committed == self.epoch
    }

    /// Makes the table of the next epoch, whose lineage is derived from its contents.
    pub(crate) fn advance(&mut self) {
        self.history.rotate_right(1);
        self.history[0] = self.lineage;
        self.epoch += 1;
        let mut bytes = [0; 16 + ENTRY_BYTES * (MEMBERS_MAX as usize + SPARES_MAX)];
        bytes[..8].copy_from_slice(&self.lineage.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        for (to, entry) in bytes[16..].chunks_exact_mut(ENTRY_BYTES).zip(&self.entries) {
            // A rebuild's progress does not belong to an epoch.
            encode_entry(&MemberEntry { watermark: 0, ..*entry }, to);
        }
        self.lineage = twox_hash::XxHash3_64::oneshot(&bytes);
    }

    /// The set of an entry; none of a spare.
    pub(crate) fn set_of(&self, at: usize) -> Option<u8> {
        self.geometry.set_of(at, self.entries[at].replaces)
    }

    /// The relation of an older table to this one.
    pub(crate) fn relation_of(&self, older: &Self) -> Relation {
        let is_as = |lineage: u64| match lineage == older.lineage {
            true => Relation::Ancestor,
            false => Relation::Diverged,
        };
        match self.epoch.checked_sub(older.epoch) {
            Some(0) => is_as(self.lineage),
            Some(age) => {
                let age = usize::try_from(age - 1).unwrap_or(usize::MAX);
                self.history.get(age).map_or(Relation::Unknown, |&then| is_as(then))
            }
            None => Relation::Diverged,
        }
    }
}

/// The table, and whose superblock it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    pub table: MemberTable,
    /// The member on which this superblock lies.
    pub member: Id,
    /// Bytes of its device.
    pub device_bytes: u64,
}

/// Why a block is not a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Not one of durio's.
    #[error("has no superblock of a durio RAID")]
    Missing,
    /// It has the magic number, but a wrong checksum or slot.
    #[error("has a damaged superblock")]
    Damaged,
    /// Written by a later durio.
    #[error("has a superblock of version {0}, but this durio reads up to 3: use a newer durio")]
    Newer(u16),
    /// The checksum is right, but the contents are invalid.
    #[error("has a superblock that contradicts itself: {0}")]
    Invalid(&'static str),
}

/// Makes the block for a slot.
pub(crate) fn encode(table: &MemberTable, member: Id, device_bytes: u64, slot: u8, to: &mut [u8]) {
    to.fill(0);
    to[..8].copy_from_slice(MAGIC);
    let is_replacing = table.entries.iter().any(|entry| entry.replaces.is_some());
    let version = match table.geometry.level.parities() {
        0 if is_replacing => VERSION_REPLACING,
        0 => VERSION,
        _ => VERSION_PARITY,
    };
    to[8..10].copy_from_slice(&version.to_le_bytes());
    to[LEVEL] = table.geometry.level.number();
    to[MEMBERS] = table.geometry.members;
    to[ENTRIES_COUNT] = u8::try_from(table.entries.len()).unwrap_or(u8::MAX);
    to[SLOT] = slot;
    to[ARRAY..ARRAY + 16].copy_from_slice(&table.array.0);
    to[MEMBER..MEMBER + 16].copy_from_slice(&member.0);
    to[CHUNK..CHUNK + 4].copy_from_slice(&table.geometry.chunk.to_le_bytes());
    for (at, value) in [
        (EPOCH, table.epoch),
        (REVISION, table.revision),
        (REGION, table.geometry.region),
        (MEMBER_BYTES, table.geometry.member_bytes),
        (DATA_AT, table.data_at),
        (DEVICE_BYTES, device_bytes),
        (LINEAGE, table.lineage),
        (COMMITTED, table.committed),
        (VOTERS, table.voters),
    ] {
        to[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    let name = table.name.as_bytes();
    let length = name.len().min(NAME_BYTES);
    to[NAME..NAME + length].copy_from_slice(&name[..length]);
    for (to, entry) in to[ENTRIES..].chunks_exact_mut(ENTRY_BYTES).zip(&table.entries) {
        encode_entry(entry, to);
    }
    for (to, lineage) in to[HISTORY..].chunks_exact_mut(8).zip(table.history) {
        to.copy_from_slice(&lineage.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&to[..CHECKSUM]);
    to[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
}

fn encode_entry(entry: &MemberEntry, to: &mut [u8]) {
    to[..16].copy_from_slice(&entry.member.0);
    to[16] = match entry.state {
        MemberState::InSync => 1,
        MemberState::Rebuilding => 2,
        MemberState::Faulty => 3,
        MemberState::Spare => 4,
    };
    to[17] = u8::from(entry.by_map);
    to[18] = entry.replaces.map_or(0, |role| role + 1);
    to[24..32].copy_from_slice(&entry.since.to_le_bytes());
    to[32..40].copy_from_slice(&entry.watermark.to_le_bytes());
}

/// Reads the block of a slot.
pub(crate) fn decode(from: &[u8], slot: u8) -> Result<Superblock, SuperblockError> {
    if from.len() < BLOCK as usize || from[..8] != *MAGIC {
        return Err(SuperblockError::Missing);
    }
    if from[CHECKSUM..CHECKSUM + 4] != crc32c::crc32c(&from[..CHECKSUM]).to_le_bytes() {
        return Err(SuperblockError::Damaged);
    }
    let version = u16::from_le_bytes([from[8], from[9]]);
    if !(VERSION..=VERSION_PARITY).contains(&version) {
        return Err(SuperblockError::Newer(version));
    }
    // A block in the place of another was misdirected.
    if from[SLOT] != slot {
        return Err(SuperblockError::Damaged);
    }
    let superblock = Superblock {
        table: decode_table(from)?,
        member: id(from, MEMBER),
        device_bytes: word(from, DEVICE_BYTES),
    };
    check(&superblock)?;
    Ok(superblock)
}

fn decode_table(from: &[u8]) -> Result<MemberTable, SuperblockError> {
    let level = RaidLevel::of_number(from[LEVEL]).ok_or(SuperblockError::Invalid("level"))?;
    let geometry = Geometry {
        level,
        members: from[MEMBERS],
        chunk: u32::from_le_bytes([from[CHUNK], from[65], from[66], from[67]]),
        region: word(from, REGION),
        member_bytes: word(from, MEMBER_BYTES),
    };
    geometry.check().map_err(|_| SuperblockError::Invalid("geometry"))?;
    let has_stripes = from[8..10] == VERSION_PARITY.to_le_bytes();
    if has_stripes != (geometry.level.parities() > 0) {
        return Err(SuperblockError::Invalid("level"));
    }
    let count = usize::from(from[ENTRIES_COUNT]);
    let members = usize::from(geometry.members);
    if count < members || count > members + SPARES_MAX {
        return Err(SuperblockError::Invalid("number of members"));
    }
    let name = &from[NAME..NAME + NAME_BYTES];
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
    Ok(MemberTable {
        array: id(from, ARRAY),
        name: String::from_utf8_lossy(&name[..length]).into_owned(),
        geometry,
        data_at: word(from, DATA_AT),
        epoch: word(from, EPOCH),
        lineage: word(from, LINEAGE),
        history: std::array::from_fn(|age| word(from, HISTORY + 8 * age)),
        committed: word(from, COMMITTED),
        voters: word(from, VOTERS),
        revision: word(from, REVISION),
        entries: from[ENTRIES..]
            .chunks_exact(ENTRY_BYTES)
            .take(count)
            .map(decode_entry)
            .collect::<Result<_, _>>()?,
    })
}

fn decode_entry(from: &[u8]) -> Result<MemberEntry, SuperblockError> {
    let state = match from[16] {
        1 => MemberState::InSync,
        2 => MemberState::Rebuilding,
        3 => MemberState::Faulty,
        4 => MemberState::Spare,
        _ => return Err(SuperblockError::Invalid("state of a member")),
    };
    Ok(MemberEntry {
        member: id(from, 0),
        state,
        by_map: from[17] == 1,
        replaces: from[18].checked_sub(1),
        since: word(from, 24),
        watermark: word(from, 32),
    })
}

fn check(superblock: &Superblock) -> Result<(), SuperblockError> {
    let table = &superblock.table;
    let geometry = &table.geometry;
    let needed = layout::data_at(geometry, BLOCK);
    let room = table.data_at.checked_add(geometry.member_bytes + 2 * BLOCK);
    let is_between_blocks = !table.data_at.is_multiple_of(BLOCK);
    if table.data_at < needed
        || is_between_blocks
        || room.is_none_or(|room| room > superblock.device_bytes)
    {
        return Err(SuperblockError::Invalid("sizes"));
    }
    if table.epoch >= COUNTED_MAX || table.revision >= COUNTED_MAX {
        return Err(SuperblockError::Invalid("an impossible epoch"));
    }
    if table.committed > table.epoch {
        return Err(SuperblockError::Invalid("it counts before it was made"));
    }
    if table.voters.checked_shr(table.entries.len() as u32).is_some_and(|beyond| beyond != 0) {
        return Err(SuperblockError::Invalid("votes of no member"));
    }
    let members = usize::from(geometry.members);
    let (roles, others) = table.entries.split_at(members);
    let is_spare = |entry: &MemberEntry| entry.state == MemberState::Spare;
    let is_role = |entry: &MemberEntry| !is_spare(entry) && entry.replaces.is_none();
    let is_other = |entry: &MemberEntry| is_spare(entry) == entry.replaces.is_none();
    if !roles.iter().all(is_role) || !others.iter().all(is_other) {
        return Err(SuperblockError::Invalid("roles"));
    }
    let sets =
        others.iter().filter_map(|entry| entry.replaces).map(|role| role / geometry.set_members());
    let is_twice = |(at, set)| sets.clone().take(at).any(|other| other == set);
    if sets.clone().any(|set| set >= geometry.sets()) || sets.clone().enumerate().any(is_twice) {
        return Err(SuperblockError::Invalid("replacements"));
    }
    let ids = table.entries.iter().map(|entry| entry.member);
    if (1..).zip(ids.clone()).any(|(next, id)| ids.clone().skip(next).any(|other| other == id)) {
        return Err(SuperblockError::Invalid("a member twice"));
    }
    let is_beyond =
        |entry: &MemberEntry| entry.since > table.epoch || entry.watermark > geometry.member_bytes;
    if table.entries.iter().any(is_beyond) {
        return Err(SuperblockError::Invalid("a member beyond the array"));
    }
    Ok(())
}

/// The newest whole superblock among the four slots of a device, and the slot of each pair that it is
/// in: the other is written next.
///
/// # Errors
/// The error of the slot that is closest to a superblock.
pub fn newest(blocks: [&[u8]; SUPERBLOCKS as usize]) -> Result<(Superblock, u8), SuperblockError> {
    let mut best: Result<(Superblock, u8), _> = Err(SuperblockError::Missing);
    for (slot, block) in (0_u8..).zip(blocks) {
        match (decode(block, slot), &best) {
            // Its writes to the others may have an unknown meaning.
            (Err(error @ SuperblockError::Newer(_)), _) => return Err(error),
            (Ok(found), Ok((held, _))) if found.table.revision <= held.table.revision => {}
            (Ok(found), _) => best = Ok((found, slot % 2)),
            (Err(error), Err(SuperblockError::Missing | SuperblockError::Damaged)) => {
                if error != SuperblockError::Missing {
                    best = Err(error);
                }
            }
            (Err(_), _) => {}
        }
    }
    best
}

fn word(from: &[u8], at: usize) -> u64 {
    from[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

fn id(from: &[u8], at: usize) -> Id {
    from[at..at + 16].try_into().map_or(Id([0; 16]), Id)
}

#[cfg(test)]
pub(crate) mod tests;
