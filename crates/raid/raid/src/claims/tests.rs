//! What is made of a device that was truncated, grown, overwritten in part, or put together of two.

use std::convert::Infallible;

use super::*;
use crate::Id;
use crate::superblock::tests::table;
use crate::superblock::{MemberTable, encode};

const SIZE: u64 = (1 << 30) + (2 << 20);
const MEMBER: Id = Id([3; 16]);

/// Blocks of a device by their place.
type Blocks = Vec<(u64, Vec<u8>)>;

fn revised(revision: u64) -> MemberTable {
    MemberTable { revision, ..table() }
}

/// Superblocks of these revisions in the slots; none where it is 0.
fn device(revisions: [u64; 4]) -> Blocks {
    let slots = (0_u8..).zip(revisions).filter(|(_, revision)| *revision > 0);
    let block = |(slot, revision): (u8, u64)| {
        let mut block = vec![0; BLOCK as usize];
        encode(&revised(revision), MEMBER, SIZE, slot, &mut block);
        (layout::superblock_slot(SIZE, slot).unwrap(), block)
    };
    slots.map(block).collect()
}

/// What is found on a device of this size; places that are not named are zeros.
fn look(bytes: u64, blocks: &Blocks) -> Result<RecognizedMember, SuperblockError> {
    let read = |place: u64| {
        assert!(place + BLOCK <= bytes, "{place} is beyond the end");
        let block = blocks.iter().find(|(at, _)| *at == place);
        Ok::<_, Infallible>(block.map_or_else(|| vec![0; BLOCK as usize], |block| block.1.clone()))
    };
    let Ok(recognized) = recognize(bytes, read);
    recognized
}

/// Newest revision, the pair that stays, and what is wrong.
fn found(bytes: u64, blocks: &Blocks) -> (u64, u8, Option<Damage>) {
    let RecognizedMember { superblock, slot, damage } = look(bytes, blocks).unwrap();
    assert_eq!((superblock.member, superblock.device_bytes), (MEMBER, SIZE));
    (superblock.table.revision, slot, damage)
}

#[test]
fn a_member_is_trusted_if_a_pair_of_slots_is_whole_and_equal() {
    for (revisions, newest, slot) in [
        ([21, 20, 21, 20], 21, 0),
        ([20, 21, 20, 21], 21, 1),
        ([1, 1, 1, 1], 1, 0),
        // A power cut while slots 0 and 2 were written, or 1 and 3: torn, old or new.
        ([22, 21, 20, 21], 22, 1),
        ([20, 21, 22, 21], 22, 1),
        ([0, 21, 20, 21], 21, 1),
        ([22, 21, 0, 21], 22, 1),
        ([0, 21, 0, 21], 21, 1),
        ([22, 23, 22, 0], 23, 0),
        ([22, 3, 22, 23], 23, 0),
        // The first superblock of a member that was away for long.
        ([99, 5, 0, 5], 99, 1),
    ] {
        assert_eq!(found(SIZE, &device(revisions)), (newest, slot, None), "{revisions:?}");
    }
}

#[test]
fn a_device_whose_ends_were_not_written_together_is_damaged() {
    for (revisions, newest, slot) in [
        // The end, or the start, is gone.
        ([21, 20, 0, 0], 21, 0),
        ([0, 0, 20, 21], 21, 1),
        // One slot at each end.
        ([21, 0, 0, 20], 21, 0),
        ([0, 20, 21, 0], 21, 0),
        // One end is of an older image.
        ([11, 10, 21, 20], 21, 0),
        ([20, 21, 10, 11], 21, 1),
        // A pair does not count across slots.
        ([20, 21, 21, 20], 21, 1),
    ] {
        let damage = Some(Damage::EndsDiffer);
        assert_eq!(found(SIZE, &device(revisions)), (newest, slot, damage), "{revisions:?}");
    }
}

#[test]
fn ends_of_two_members_or_of_two_arrays_are_no_pair() {
    let whole = device([21, 20, 21, 20]);
    let with_end = |member: Id, table: MemberTable| {
        let mut blocks = whole.clone();
        for (slot, revision) in [(2_u8, 21), (3, 20)] {
            let table = MemberTable { revision, ..table.clone() };
            encode(&table, member, SIZE, slot, &mut blocks[usize::from(slot)].1);
        }
        look(SIZE, &blocks).unwrap().damage
    };
    assert_eq!(with_end(MEMBER, table()), None);
    assert_eq!(with_end(Id([4; 16]), table()), Some(Damage::EndsDiffer));
    let other_array = MemberTable { array: Id([5; 16]), ..table() };
    assert_eq!(with_end(MEMBER, other_array), Some(Damage::EndsDiffer));
}

#[test]
fn a_shorter_device_was_truncated_wherever_it_ends() {
    let blocks = device([21, 20, 21, 20]);
    for has in [2 * BLOCK, 3 * BLOCK + 1, 5 * BLOCK, SIZE / 2, SIZE - BLOCK, SIZE - 1] {
        let damage = Some(Damage::Truncated { has, says: SIZE });
        assert_eq!(found(has, &blocks), (21, 0, damage), "{has} bytes");
    }
    assert_eq!(
        look(BLOCK, &blocks).unwrap().damage,
        Some(Damage::Truncated { has: BLOCK, says: SIZE })
    );
    for has in [0, 1, BLOCK - 1] {
        assert_eq!(look(has, &blocks), Err(SuperblockError::Missing), "{has} bytes");
    }
    let words = Damage::Truncated { has: 4 << 20, says: 8 << 20 }.to_string();
    assert_eq!(words, "has 4 MiB, its superblock says 8 MiB: it was truncated");
}

#[test]
fn a_device_that_grew_has_its_last_superblocks_where_its_end_was() {
    let blocks = device([20, 21, 20, 21]);
    for more in [1, BLOCK, 1 << 20] {
        assert_eq!(found(SIZE + more, &blocks), (21, 1, None));
    }
    // Nothing tells where that was.
    assert_eq!(look(SIZE + (1 << 20), &device([0, 0, 20, 21])), Err(SuperblockError::Missing));
    assert_eq!(found(SIZE + BLOCK, &device([21, 20, 0, 0])).2, Some(Damage::EndsDiffer));
}
