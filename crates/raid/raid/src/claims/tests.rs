//! What is made of a device that was truncated, grown, overwritten in part, or put together of two.

use std::convert::Infallible;

use durio_base::RaidLevel;

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

#[test]
fn an_array_is_made_of_enough_devices_that_are_large_enough_and_differ() {
    let geometry = Geometry {
        level: RaidLevel::Raid1,
        members: 2,
        chunk: 16 << 10,
        region: 1 << 20,
        member_bytes: 4 << 20,
    };
    let made = |name: &str, geometry: Geometry, devices: &[(u8, u64)]| {
        let member = |&(id, device_bytes): &(u8, u64)| Member { id: Id([id; 16]), device_bytes };
        let members: Vec<Member> = devices.iter().map(member).collect();
        let made = create(Id([9; 16]), name, geometry, layout::DATA_ALIGNMENT, &members);
        made.map(|blocks| blocks.len())
    };
    // 1 MiB before the data, 4 MiB of it, and two blocks.
    let bytes = 5_251_072;
    let of = |devices: &[(u8, u64)]| made("a", geometry, devices);
    let many = |count: u8| of(&(1..=count).map(|id| (id, bytes)).collect::<Vec<_>>());
    assert_eq!([many(2), many(10)], [Ok(2), Ok(10)]);
    assert_eq!([many(1), many(11)], [Err(CreateError::Devices); 2]);
    assert_eq!(of(&[(1, bytes), (2, bytes - 1)]), Err(CreateError::TooSmall(1)));
    assert_eq!(of(&[(1, bytes), (2, bytes), (3, bytes - 1)]), Err(CreateError::TooSmall(2)));
    assert_eq!(of(&[(1, bytes), (2, bytes), (1, bytes)]), Err(CreateError::Doubled));
    let named = |length: usize| made(&"n".repeat(length), geometry, &[(1, bytes), (2, bytes)]);
    assert_eq!([named(1), named(32)], [Ok(2), Ok(2)]);
    assert_eq!([named(0), named(33)], [Err(CreateError::Name); 2]);
    let five = Geometry { members: 5, ..geometry };
    let refused = made("a", five, &[(1, bytes), (2, bytes)]);
    assert_eq!(refused, Err(CreateError::Members));
}

#[test]
fn each_new_member_has_the_clean_map_of_its_own_set_and_four_superblocks_of_its_own() {
    let geometry = Geometry {
        level: RaidLevel::Raid10,
        members: 4,
        chunk: 16 << 10,
        region: 1 << 20,
        member_bytes: 4 << 20,
    };
    let array = Id([9; 16]);
    let member =
        |id: u8| Member { id: Id([id; 16]), device_bytes: (8 << 20) + 4096 * u64::from(id) };
    let members = [1, 2, 3, 4, 5].map(member);
    let made = create(array, "a", geometry, layout::DATA_ALIGNMENT, &members).unwrap();
    for ((role, blocks), member) in made.iter().enumerate().zip(&members) {
        assert_eq!(blocks.len(), 6, "role {role}");
        let at = |place: u64| {
            let found = blocks.iter().find(|(known, _)| *known == place);
            found.map(|(_, block)| block.as_slice()).unwrap()
        };
        for set in 0..2 {
            let name = map_page::PageName { array, set, page: 0 };
            let page = map_page::decode(name, at(layout::map_slot(0, 0)));
            assert_eq!(page.is_some(), role / 2 == usize::from(set), "role {role}, set {set}");
            let is_clean = page.is_none_or(|(generation, regions)| {
                generation == 1 && regions.iter().all(|region| *region == 0)
            });
            assert!(is_clean, "role {role}");
        }
        assert!(at(layout::map_slot(0, 1)).iter().all(|byte| *byte == 0), "role {role}");
        for slot in 0..4 {
            let place = layout::superblock_slot(member.device_bytes, slot).unwrap();
            let superblock = decode(at(place), slot).unwrap();
            assert_eq!(superblock.member, member.id);
            assert_eq!(superblock.device_bytes, member.device_bytes);
            let table = superblock.table;
            assert_eq!((table.voters, table.epoch, table.committed, table.revision), (15, 1, 1, 1));
            let states: Vec<_> = table.entries.iter().map(|entry| entry.state).collect();
            use MemberState::{InSync, Spare};
            assert_eq!(states, [InSync, InSync, InSync, InSync, Spare]);
        }
    }
}
