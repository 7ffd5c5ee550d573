//! The format of superblocks and of the map: golden blocks, damage, tables that were made apart.

use durio_base::RaidLevel;
use proptest::prelude::*;

use super::*;
use crate::map_page::{self, DIRTY, PageName, STALE};

const SUPERBLOCK: &str = "tests/golden/superblock-v1.bin";
const REPLACING: &str = "tests/golden/superblock-v2.bin";
const STRIPES: &str = "tests/golden/superblock-v3.bin";
const MAP_PAGE: &str = "tests/golden/map-page-v1.bin";

pub(crate) fn table() -> MemberTable {
    let entry = |(number, state): (u8, MemberState)| MemberEntry {
        member: Id([number; 16]),
        state,
        by_map: state == MemberState::Rebuilding,
        replaces: None,
        since: 3 + u64::from(number),
        watermark: if state == MemberState::Rebuilding { 1 << 20 } else { 0 },
    };
    use MemberState::{Faulty, InSync, Rebuilding, Spare};
    let states = [(1, InSync), (2, Rebuilding), (3, InSync), (4, Faulty), (5, Spare)];
    let mut table = MemberTable {
        array: Id(*b"array 0123456789"),
        name: "golden".to_owned(),
        geometry: Geometry {
            level: RaidLevel::Raid10,
            members: 4,
            chunk: 16 << 10,
            region: 1 << 26,
            member_bytes: 1 << 30,
        },
        data_at: 1 << 20,
        epoch: 8,
        lineage: 0x0123_4567_89ab_cdef,
        history: std::array::from_fn(|age| age as u64),
        committed: 7,
        voters: 0b1101,
        revision: 21,
        entries: states.into_iter().map(entry).collect(),
    };
    table.advance();
    table
}

fn block(table: &MemberTable, slot: u8) -> Vec<u8> {
    let mut block = vec![0xff; BLOCK as usize];
    encode(table, Id([1; 16]), (1 << 30) + (2 << 20), slot, &mut block);
    block
}

/// Compares with the file, or writes it.
pub(crate) fn hold_against(path: &str, made: &[u8]) {
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        std::fs::write(path, made).unwrap();
    }
    assert!(
        std::fs::read(path).unwrap() == made,
        "{path} differs: a format has one meaning for ever"
    );
}

#[test]
fn the_golden_superblock_is_what_is_written_and_read() {
    let block = block(&table(), 2);
    hold_against(SUPERBLOCK, &block);
    let read = decode(&block, 2).unwrap();
    let member = Id([1; 16]);
    assert_eq!(read, Superblock { table: table(), member, device_bytes: (1 << 30) + (2 << 20) });
}

/// Member 3, in sync in role 2, is being replaced by member 5.
fn replacing() -> MemberTable {
    let mut table = table();
    let (state, replaces) = (MemberState::Rebuilding, Some(2));
    table.entries[4] = MemberEntry { state, replaces, watermark: 1 << 20, ..table.entries[4] };
    table.advance();
    table
}

#[test]
fn the_golden_superblock_with_a_replacement_is_what_is_written_and_read() {
    let block = block(&replacing(), 2);
    hold_against(REPLACING, &block);
    assert_eq!(block[8], 2);
    assert_eq!(decode(&block, 2).unwrap().table, replacing());
}

#[test]
fn the_golden_superblock_of_level_6_is_what_is_written_and_read() {
    let mut table = table();
    table.geometry.level = RaidLevel::Raid6;
    table.data_at = 8 << 20;
    table.geometry.member_bytes -= 8 << 20;
    let mut made = block(&table, 2);
    hold_against(STRIPES, &made);
    assert_eq!(made[8], 3);
    assert_eq!(decode(&made, 2).unwrap().table, table);
    made[8] = 1;
    seal(&mut made);
    assert_eq!(decode(&made, 2), Err(SuperblockError::Invalid("level")));
}

#[test]
fn replacements_that_contradict_the_roles_are_refused() {
    let refused = |change: &dyn Fn(&mut MemberTable)| {
        let mut table = replacing();
        change(&mut table);
        decode(&block(&table, 0), 0).unwrap_err()
    };
    let roles = SuperblockError::Invalid("roles");
    let replacements = SuperblockError::Invalid("replacements");
    assert_eq!(refused(&|table| table.entries[4].replaces = None), roles);
    assert_eq!(refused(&|table| table.entries[4].state = MemberState::Spare), roles);
    assert_eq!(refused(&|table| table.entries[1].replaces = Some(0)), roles);
    assert_eq!(refused(&|table| table.entries[4].replaces = Some(4)), replacements);
    let second = |table: &mut MemberTable| {
        table.entries.push(MemberEntry {
            member: Id([6; 16]),
            replaces: Some(3),
            ..table.entries[4]
        });
    };
    assert_eq!(refused(&second), replacements);
}

#[test]
fn the_golden_page_of_the_map_is_what_is_written_and_read() {
    let name = PageName { array: Id(*b"array 0123456789"), set: 1, page: 2 };
    let mut block = vec![0xff; BLOCK as usize];
    map_page::encode(name, 77, [0, DIRTY, STALE, DIRTY | STALE].into_iter(), &mut block);
    hold_against(MAP_PAGE, &block);
    let (generation, regions) = map_page::decode(name, &block).unwrap();
    assert_eq!((generation, &regions[..5]), (77, &[0, 1, 2, 3, 0][..]));
}

#[test]
fn a_superblock_in_another_slot_is_none() {
    assert_eq!(decode(&block(&table(), 0), 1), Err(SuperblockError::Damaged));
}

#[test]
fn a_newer_version_is_named_and_not_read() {
    let mut block = block(&table(), 0);
    block[8] = 4;
    seal(&mut block);
    assert_eq!(decode(&block, 0), Err(SuperblockError::Newer(4)));
}

#[test]
fn the_newest_whole_slot_is_taken() {
    let (old, mut new) = (table(), table());
    new.revision += 1;
    let empty = vec![0; BLOCK as usize];
    let mut torn = block(&new, 1);
    torn[700] ^= 1;
    let (found, slot) = newest([&block(&old, 0), &torn, &block(&old, 2), &block(&new, 3)]).unwrap();
    assert_eq!((found.table.revision, slot), (new.revision, 1));
    let (found, slot) = newest([&block(&old, 0), &torn, &empty, &empty]).unwrap();
    assert_eq!((found.table.revision, slot), (old.revision, 0));
    assert_eq!(newest([&empty; 4].map(|slot| &slot[..])), Err(SuperblockError::Missing));
    assert_eq!(newest([&empty, &torn, &empty, &empty]), Err(SuperblockError::Damaged));
}

#[test]
fn tables_that_were_made_apart_differ_in_lineage() {
    let parent = table();
    let (mut one, mut other) = (parent.clone(), parent.clone());
    one.entries[0].state = MemberState::Faulty;
    one.advance();
    other.entries[2].state = MemberState::Faulty;
    other.advance();
    assert_eq!(one.relation_of(&parent), Relation::Ancestor);
    assert_eq!(one.relation_of(&other), Relation::Diverged);
    other.advance();
    assert_eq!(other.relation_of(&one), Relation::Diverged);
    for _ in 0..HISTORY_EPOCHS {
        one.advance();
    }
    assert_eq!(one.relation_of(&parent), Relation::Unknown);
}

/// What a superblock of this table reads as, on a device of this size.
fn read_back(table: &MemberTable, device_bytes: u64) -> Result<MemberTable, SuperblockError> {
    let mut block = vec![0xff; BLOCK as usize];
    encode(table, Id([1; 16]), device_bytes, 0, &mut block);
    decode(&block, 0).map(|found| found.table)
}

#[test]
fn each_bound_of_a_superblock_is_kept_on_both_sides() {
    let device_bytes = (1 << 30) + (2 << 20);
    let assert_bound =
        |last: &dyn Fn(&mut MemberTable), beyond: &dyn Fn(&mut MemberTable), word| {
            let [mut good, mut bad] = [table(), table()];
            last(&mut good);
            beyond(&mut bad);
            assert_eq!(read_back(&good, device_bytes), Ok(good), "{word}");
            let error = Err(SuperblockError::Invalid(word));
            assert_eq!(read_back(&bad, device_bytes), error, "{word}");
        };
    // Two blocks of superblocks, two of the only page of the map, data, two of superblocks.
    let room = device_bytes - (1 << 30) - 8192;
    assert_bound(&|table| table.data_at = 16384, &|table| table.data_at = 12288, "sizes");
    assert_bound(&|table| table.data_at = 20480, &|table| table.data_at = 20480 + 2048, "sizes");
    assert_bound(&|table| table.data_at = room, &|table| table.data_at = room + 4096, "sizes");
    assert_bound(&|table| table.data_at = room, &|table| table.data_at = u64::MAX - 4095, "sizes");
    let most = 4_611_686_018_427_387_903;
    let words = "an impossible epoch";
    assert_bound(&|table| table.epoch = most, &|table| table.epoch = most + 1, words);
    assert_bound(&|table| table.revision = most, &|table| table.revision = most + 1, words);
    let words = "it counts before it was made";
    assert_bound(&|table| table.committed = 9, &|table| table.committed = 10, words);
    let words = "votes of no member";
    assert_bound(&|table| table.voters = 0b1_1111, &|table| table.voters = 0b10_0000, words);
    let words = "a member beyond the array";
    assert_bound(&|table| table.entries[0].since = 9, &|table| table.entries[0].since = 10, words);
    let watermark = |bytes: u64| move |table: &mut MemberTable| table.entries[1].watermark = bytes;
    assert_bound(&watermark(1 << 30), &watermark((1 << 30) + 1), words);
    let member = |number| move |table: &mut MemberTable| table.entries[4].member = Id([number; 16]);
    assert_bound(&member(6), &member(4), "a member twice");
    assert_bound(&member(6), &member(1), "a member twice");
    let spares = |count: usize| {
        move |table: &mut MemberTable| {
            let numbers = (0..count).map(|at| 5 + u8::try_from(at).unwrap());
            let spare = table.entries[4];
            table.entries.truncate(4);
            table
                .entries
                .extend(numbers.map(|number| MemberEntry { member: Id([number; 16]), ..spare }));
        }
    };
    assert_bound(&spares(8), &spares(9), "number of members");
    assert_bound(&spares(0), &|table| table.entries.truncate(3), "number of members");
    // One replacement in each set.
    let two = |roles: [u8; 2]| {
        move |table: &mut MemberTable| {
            table.entries = replacing().entries;
            table.entries.push(MemberEntry { member: Id([6; 16]), ..table.entries[4] });
            table.entries[4].replaces = Some(roles[0]);
            table.entries[5].replaces = Some(roles[1]);
        }
    };
    assert_bound(&two([0, 2]), &two([0, 1]), "replacements");
    assert_bound(&two([3, 1]), &two([3, 2]), "replacements");
    assert_bound(&two([3, 1]), &two([1, 4]), "replacements");
}

#[test]
fn the_room_of_a_device_is_what_its_superblock_says() {
    let needed = (1 << 20) + (1 << 30) + 8192;
    assert_eq!(read_back(&table(), needed), Ok(table()));
    assert_eq!(read_back(&table(), needed - 1), Err(SuperblockError::Invalid("sizes")));
}

#[test]
fn each_level_has_its_number_and_is_read_as_it_was_written() {
    for (level, number) in [
        (RaidLevel::Raid0, 0),
        (RaidLevel::Raid1, 1),
        (RaidLevel::Raid10, 10),
        (RaidLevel::Raid5, 5),
        (RaidLevel::Raid6, 6),
    ] {
        let mut table = table();
        table.geometry.level = level;
        table.data_at = 8 << 20;
        table.geometry.member_bytes -= 8 << 20;
        let mut block = block(&table, 0);
        assert_eq!((block[10], block[11], block[12]), (number, 4, 5), "{level:?}");
        assert_eq!(decode(&block, 0).unwrap().table, table);
        block[10] = 2;
        seal(&mut block);
        assert_eq!(decode(&block, 0), Err(SuperblockError::Invalid("level")));
    }
}

/// Gives a changed block its right checksum.
fn seal(block: &mut [u8]) {
    let checksum = crc32c::crc32c(&block[..CHECKSUM]);
    block[CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn what_is_none_of_ours_is_missing_and_not_damaged() {
    let whole = block(&table(), 0);
    assert_eq!(decode(&[], 0), Err(SuperblockError::Missing));
    assert_eq!(decode(&whole[..4095], 0), Err(SuperblockError::Missing));
    let mut foreign = whole.clone();
    foreign[7] = b'T';
    seal(&mut foreign);
    assert_eq!(decode(&foreign, 0), Err(SuperblockError::Missing));
    let mut versioned = whole;
    for (version, error) in [(0, 0), (4, 4), (256, 256)] {
        versioned[8..10].copy_from_slice(&u16::to_le_bytes(version));
        seal(&mut versioned);
        assert_eq!(decode(&versioned, 0), Err(SuperblockError::Newer(error)));
    }
}

#[test]
fn a_name_has_32_bytes_at_most() {
    let named = |name: String| {
        let table = MemberTable { name, ..table() };
        read_back(&table, 2 << 30).unwrap().name.len()
    };
    assert_eq!([0, 1, 31, 32, 33].map(|length| named("n".repeat(length))), [0, 1, 31, 32, 32]);
}

#[test]
fn a_set_is_found_by_role_and_by_who_is_replaced() {
    let sets = |table: &MemberTable| (0..5).map(|at| table.set_of(at)).collect::<Vec<_>>();
    assert_eq!(sets(&table()), [Some(0), Some(0), Some(1), Some(1), None]);
    assert_eq!(sets(&replacing()), [Some(0), Some(0), Some(1), Some(1), Some(1)]);
}

#[test]
fn the_slot_of_the_newest_is_counted_within_its_pair() {
    let (old, mut newer) = (table(), table());
    newer.revision += 1;
    for (place, pair) in [(0_u8, 0), (1, 1), (2, 0), (3, 1)] {
        let blocks: Vec<_> =
            (0..4).map(|slot| block(if slot == place { &newer } else { &old }, slot)).collect();
        let found = newest([0, 1, 2, 3].map(|slot| &blocks[slot][..])).unwrap();
        assert_eq!((found.0.table.revision, found.1), (newer.revision, pair), "slot {place}");
    }
}

#[test]
fn of_slots_that_are_none_the_one_that_comes_nearest_is_told() {
    let (whole, empty) = (block(&table(), 0), vec![0; BLOCK as usize]);
    let mut torn = whole.clone();
    torn[700] ^= 1;
    let later = {
        let mut block = block(&table(), 1);
        block[8] = 4;
        seal(&mut block);
        block
    };
    let invalid = {
        let mut block = block(&table(), 1);
        block[10] = 2;
        seal(&mut block);
        block
    };
    let told = |slots: [&[u8]; 4]| newest(slots).map(|found| found.1);
    let (level, newer) = (SuperblockError::Invalid("level"), SuperblockError::Newer(4));
    assert_eq!(told([&torn, &empty, &empty, &empty]), Err(SuperblockError::Damaged));
    assert_eq!(told([&torn, &invalid, &empty, &torn]), Err(level));
    assert_eq!(told([&empty, &invalid, &torn, &empty]), Err(level));
    assert_eq!(told([&whole, &invalid, &torn, &empty]), Ok(0));
    // A later durio may mean something else by the others.
    assert_eq!(told([&whole, &later, &empty, &empty]), Err(newer));
}

#[test]
fn a_table_remembers_64_epochs_and_counts_when_it_was_written_again() {
    let parent = table();
    let mut newest = parent.clone();
    for age in 1..=64 {
        newest.advance();
        assert_eq!(newest.relation_of(&parent), Relation::Ancestor, "{age} epochs");
        assert_eq!(parent.relation_of(&newest), Relation::Diverged);
    }
    newest.advance();
    assert_eq!((newest.epoch, newest.relation_of(&parent)), (74, Relation::Unknown));
    assert_eq!(newest.relation_of(&newest), Relation::Ancestor);
    newest.committed = 73;
    assert!(!newest.is_known_to_count());
    newest.committed = 74;
    assert!(newest.is_known_to_count());
}

#[test]
fn how_far_a_rebuild_is_belongs_to_no_lineage() {
    let lineage = |change: &dyn Fn(&mut MemberEntry)| {
        let mut table = table();
        change(&mut table.entries[1]);
        table.advance();
        table.lineage
    };
    let same = lineage(&|_| {});
    assert_eq!(lineage(&|entry| entry.watermark += 4096), same);
    assert_ne!(lineage(&|entry| entry.since += 1), same);
    assert_ne!(lineage(&|entry| entry.by_map = false), same);
}

proptest! {
    #[test]
    fn bytes_with_a_right_checksum_never_panic(
        changes in proptest::collection::vec((0_usize..2272, any::<u8>()), 1..20),
    ) {
        let mut block = block(&table(), 0);
        for (at, byte) in changes {
            block[at] = byte;
        }
        seal(&mut block);
        if let Ok(read) = decode(&block, 0) {
            let geometry = read.table.geometry;
            prop_assert!(read.table.data_at + geometry.member_bytes <= read.device_bytes);
            prop_assert!(read.table.entries.len() >= usize::from(geometry.members));
        }
    }

    #[test]
    fn a_torn_superblock_is_never_taken(sectors in 1_u8..255) {
        let (old, mut new) = (block(&table(), 0), table());
        new.revision += 1;
        new.entries[0].since = 9;
        new.entries[4].member = Id([9; 16]);
        new.history[63] = 1;
        let new = block(&new, 0);
        let mut torn = old.clone();
        for sector in (0..8).filter(|sector| sectors & (1 << sector) != 0) {
            torn[sector * 512..][..512].copy_from_slice(&new[sector * 512..][..512]);
        }
        prop_assume!(torn != old && torn != new);
        prop_assert!(decode(&torn, 0).is_err());
    }
}
