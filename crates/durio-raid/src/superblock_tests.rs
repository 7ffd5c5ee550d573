//! The format of superblocks and of the map: golden blocks, damage, tables that were made apart.

use proptest::prelude::*;

use super::*;
use crate::map_page::{self, DIRTY, PageName, STALE};

const SUPERBLOCK: &str = "tests/golden/superblock-v1.bin";
const REPLACING: &str = "tests/golden/superblock-v2.bin";
const STRIPES: &str = "tests/golden/superblock-v3.bin";
const MAP_PAGE: &str = "tests/golden/map-page-v1.bin";

pub(crate) fn table() -> Table {
    let entry = |(number, state): (u8, MemberState)| Entry {
        member: Id([number; 16]),
        state,
        by_map: state == MemberState::Rebuilding,
        replaces: None,
        since: 3 + u64::from(number),
        watermark: if state == MemberState::Rebuilding { 1 << 20 } else { 0 },
    };
    use MemberState::{Faulty, InSync, Rebuilding, Spare};
    let states = [(1, InSync), (2, Rebuilding), (3, InSync), (4, Faulty), (5, Spare)];
    let mut table = Table {
        array: Id(*b"array 0123456789"),
        name: "golden".to_owned(),
        geometry: Geometry {
            level: Level::StripedMirrors,
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

fn block(table: &Table, slot: u8) -> Vec<u8> {
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
fn replacing() -> Table {
    let mut table = table();
    let (state, replaces) = (MemberState::Rebuilding, Some(2));
    table.entries[4] = Entry { state, replaces, watermark: 1 << 20, ..table.entries[4] };
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
    table.geometry.level = Level::DoubleParity;
    table.data_at = 8 << 20;
    table.geometry.member_bytes -= 8 << 20;
    let mut made = block(&table, 2);
    hold_against(STRIPES, &made);
    assert_eq!(made[8], 3);
    assert_eq!(decode(&made, 2).unwrap().table, table);
    made[8] = 1;
    let checksum = crc32c::crc32c(&made[..CHECKSUM]).to_le_bytes();
    made[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum);
    assert_eq!(decode(&made, 2), Err(SuperblockError::Invalid("level")));
}

#[test]
fn replacements_that_contradict_the_roles_are_refused() {
    let refused = |change: &dyn Fn(&mut Table)| {
        let mut table = replacing();
        change(&mut table);
        decode(&block(&table, 0), 0).unwrap_err()
    };
    let roles = SuperblockError::Invalid("roles");
    let replacements = SuperblockError::Invalid("replacements");
    assert_eq!(refused(&|it| it.entries[4].replaces = None), roles);
    assert_eq!(refused(&|it| it.entries[4].state = MemberState::Spare), roles);
    assert_eq!(refused(&|it| it.entries[1].replaces = Some(0)), roles);
    assert_eq!(refused(&|it| it.entries[4].replaces = Some(4)), replacements);
    let second = |it: &mut Table| {
        it.entries.push(Entry { member: Id([6; 16]), replaces: Some(3), ..it.entries[4] });
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
    let checksum = crc32c::crc32c(&block[..CHECKSUM]).to_le_bytes();
    block[CHECKSUM..].copy_from_slice(&checksum);
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
    assert_eq!(newest([&empty; 4].map(|it| &it[..])), Err(SuperblockError::Missing));
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

proptest! {
    #[test]
    fn bytes_with_a_right_checksum_never_panic(
        changes in proptest::collection::vec((0_usize..2272, any::<u8>()), 1..20),
    ) {
        let mut block = block(&table(), 0);
        for (at, byte) in changes {
            block[at] = byte;
        }
        let checksum = crc32c::crc32c(&block[..CHECKSUM]).to_le_bytes();
        block[CHECKSUM..].copy_from_slice(&checksum);
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
        for sector in (0..8).filter(|it| sectors & (1 << it) != 0) {
            torn[sector * 512..][..512].copy_from_slice(&new[sector * 512..][..512]);
        }
        prop_assume!(torn != old && torn != new);
        prop_assert!(decode(&torn, 0).is_err());
    }
}
