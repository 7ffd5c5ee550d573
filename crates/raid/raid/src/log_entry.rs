//! An entry of the log of levels 5 and 6: the parity without the data about to be written.
//!
//! Encodes the write and the partial parity with a header that shows whether both are whole and to
//! which array they belong, and decodes it. `engine/stripes.rs` writes entries,
//! `engine/replaying.rs` applies them at a start. The format: docs/formats/raid-superblock.md.

use crate::geometry::{BLOCK, Geometry};
use crate::{COUNTED_MAX, Id, layout};

const MAGIC: &[u8; 8] = b"durioLOG";
const VERSION: u16 = 1;
const PARITY: usize = 10;
const COLUMN: usize = 11;
const LENGTH: usize = 12;
const ARRAY: usize = 16;
const MEMBER: usize = 32;
const EPOCH: usize = 48;
const NUMBER: usize = 56;
const OFFSET: usize = 64;
const SUM: usize = 72;
const CHECKSUM: usize = BLOCK as usize - 4;

/// The chunk and write of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) array: Id,
    /// The member that has it.
    pub(crate) member: Id,
    /// The table under which it was written.
    pub(crate) epoch: u64,
    /// Counts the writes of a run; both parities of one have the same.
    pub(crate) number: u64,
    /// Bytes from the start of the member's data.
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// The data chunk that is written.
    pub(crate) column: u8,
    /// Which of the parities: 0 is P.
    pub(crate) parity: u8,
}

impl LogEntry {
    /// Makes the header of a partial parity.
    pub(crate) fn encode(&self, partial: &[u8], to: &mut [u8]) {
        to.fill(0);
        to[..8].copy_from_slice(MAGIC);
        to[8..10].copy_from_slice(&VERSION.to_le_bytes());
        (to[PARITY], to[COLUMN]) = (self.parity, self.column);
        to[LENGTH..LENGTH + 4].copy_from_slice(&self.length.to_le_bytes());
        to[ARRAY..ARRAY + 16].copy_from_slice(&self.array.0);
        to[MEMBER..MEMBER + 16].copy_from_slice(&self.member.0);
        for (at, value) in [(EPOCH, self.epoch), (NUMBER, self.number), (OFFSET, self.offset)] {
            to[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        to[SUM..SUM + 4].copy_from_slice(&crc32c::crc32c(partial).to_le_bytes());
        let checksum = crc32c::crc32c(&to[..CHECKSUM]);
        to[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Decodes a slot; `None` if it is not whole.
    pub(crate) fn decode(slot: &[u8]) -> Option<Self> {
        let (from, chunk) = slot.split_at_checked(BLOCK as usize)?;
        let word = |at: usize| from[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let sum = |at: usize| from[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let id = |at: usize| from[at..at + 16].try_into().map_or(Id([0; 16]), Id);
        let is_header = from.starts_with(MAGIC)
            && from[8..10] == VERSION.to_le_bytes()
            && sum(CHECKSUM) == crc32c::crc32c(&from[..CHECKSUM]);
        let partial = chunk.get(..sum(LENGTH) as usize).filter(|_| is_header)?;
        let is_whole = crc32c::crc32c(partial) == sum(SUM) && word(NUMBER) < COUNTED_MAX;
        is_whole.then(|| Self {
            array: id(ARRAY),
            member: id(MEMBER),
            epoch: word(EPOCH),
            number: word(NUMBER),
            offset: word(OFFSET),
            length: sum(LENGTH),
            column: from[COLUMN],
            parity: from[PARITY],
        })
    }
}

/// A log as found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FoundLog {
    /// Entries that are whole.
    pub(crate) entries: Vec<LogEntry>,
    /// Slots that cannot be read.
    pub(crate) lost: Vec<u64>,
}

/// Reads a log through `read`, which returns false if it cannot read a member's bytes.
pub(crate) fn read_log(
    geometry: &Geometry,
    mut read: impl FnMut(u64, &mut [u8]) -> bool,
) -> FoundLog {
    let mut slot = vec![0; layout::log_slot_bytes(geometry) as usize];
    let mut log = FoundLog::default();
    for number in 0..layout::log_slots(geometry) {
        if !read(layout::log_slot(geometry, number), &mut slot) {
            log.lost.push(number);
            continue;
        }
        // An entry in the slot of another was misdirected.
        let is_here = |entry: &LogEntry| layout::log_slot_of(geometry, entry.offset) == number;
        log.entries.extend(LogEntry::decode(&slot).filter(is_here));
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::hold_against;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_a_torn_one_is_not() {
        let entry = LogEntry {
            array: Id([7; 16]),
            member: Id([8; 16]),
            epoch: 9,
            number: 10,
            offset: 65536,
            length: 1024,
            column: 2,
            parity: 1,
        };
        let mut slot = vec![0xff; 2 * BLOCK as usize];
        let (header, chunk) = slot.split_at_mut(BLOCK as usize);
        entry.encode(&chunk[..1024], header);
        hold_against("tests/golden/log-entry-v1.bin", header);
        assert_eq!(LogEntry::decode(&slot), Some(entry));
        for at in (0..BLOCK as usize + 1024).step_by(37) {
            slot[at] ^= 1;
            assert_eq!(LogEntry::decode(&slot), None, "byte {at}");
            slot[at] ^= 1;
        }
        slot[BLOCK as usize + 1024] ^= 1;
        assert_eq!(LogEntry::decode(&slot), Some(entry));
        assert_eq!(LogEntry::decode(&slot[..100]), None);
    }

    fn entry(number: u64, offset: u64) -> LogEntry {
        let (array, member) = (Id([7; 16]), Id([8; 16]));
        LogEntry { array, member, epoch: 9, number, offset, length: 512, column: 2, parity: 1 }
    }

    /// A slot that holds it.
    fn slot_of(entry: &LogEntry, bytes: usize) -> Vec<u8> {
        let mut slot = vec![3; bytes];
        let (header, chunk) = slot.split_at_mut(BLOCK as usize);
        entry.encode(&chunk[..entry.length as usize], header);
        slot
    }

    #[test]
    fn a_number_that_no_entry_comes_to_is_not_believed() {
        for (number, is_read) in
            [(4_611_686_018_427_387_903, true), (4_611_686_018_427_387_904, false)]
        {
            let slot = slot_of(&entry(number, 0), 2 * BLOCK as usize);
            assert_eq!(LogEntry::decode(&slot).is_some(), is_read, "{number}");
        }
    }

    #[test]
    fn of_a_log_whole_entries_in_their_own_slots_are_found_and_slots_that_cannot_be_read() {
        // 64 stripes in 16 slots.
        let geometry = Geometry {
            level: durio_base::RaidLevel::Raid5,
            members: 4,
            chunk: 16 << 10,
            region: 64 << 10,
            member_bytes: 1 << 20,
        };
        let [first, sixth, last, strayed] =
            [entry(1, 0), entry(2, 22 * 16384), entry(3, 63 * 16384 + 512), entry(4, 16384)];
        let mut asked = Vec::new();
        let log = read_log(&geometry, |place, into| {
            asked.push(place);
            // Behind the superblocks and the only page of the map.
            let number = (place - 16_384) / 20_480;
            let held = match number {
                0 => Some(&first),
                // Of stripe 1, in the place of one of stripe 2.
                2 => Some(&strayed),
                6 => Some(&sixth),
                15 => Some(&last),
                _ => None,
            };
            match held {
                Some(entry) => into.copy_from_slice(&slot_of(entry, 20_480)),
                None => into.fill(0),
            }
            ![3, 9].contains(&number)
        });
        assert_eq!(asked, (0..16).map(|slot| 16_384 + slot * 20_480).collect::<Vec<u64>>());
        assert_eq!((log.entries, log.lost), (vec![first, sixth, last], vec![3, 9]));
    }
}
