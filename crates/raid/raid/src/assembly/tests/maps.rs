//! Maps and logs of small arrays by hand: which regions are copied, which parities are doubted.

use super::*;
use crate::assembly::pages::{is_sound, plan_page};
use crate::log_entry::LogEntry;
use crate::map_page::{DIRTY, STALE, UNSYNCED};
use durio_base::RaidLevel;

/// A map of one page with these bytes at its begin, in a slot.
fn page(name: PageName, slot: u8, generation: u64, bytes: &[u8]) -> Vec<u8> {
    let block = BLOCK as usize;
    let mut map = vec![0; 2 * block * (name.page as usize + 1)];
    let at = (name.page as usize * 2 + usize::from(slot)) * block;
    map_page::encode(name, generation, bytes.iter().copied(), &mut map[at..at + block]);
    map
}

#[test]
fn a_page_of_the_map_is_planned_from_all_copies_by_their_states() {
    let table = table(RaidLevel::Raid1, &[InSync; 4]);
    let name = PageName { array: table.array, set: 0, page: 1 };
    let with_page = |slot, generation, bytes: &[u8]| {
        let map = page(name, slot, generation, bytes);
        FoundDevice { map, ..found(&table, 0) }
    };
    let entry = |state, by_map| MemberEntry { state, by_map, ..table.entries[0] };
    let both = DIRTY | STALE;
    let (one, two) =
        (with_page(0, 7, &[0, DIRTY, STALE, both]), with_page(1, 8, &[0, 0, STALE, 1]));
    let copies = [(entry(InSync, false), Some(&one)), (entry(InSync, false), Some(&two))];
    let planned = plan_page(name, &copies);
    assert_eq!((planned.generation, planned.is_lost), (8, false));
    assert_eq!(planned.any[..5], [0, DIRTY, STALE, both, 0]);
    assert_eq!(planned.all[..5], [0, 0, STALE, DIRTY, 0]);
    assert_eq!(planned.next_slots, [Some(1), Some(0)]);
    assert_eq!((planned.any.len(), planned.all.len()), (4028, 4028));
    // A copy in sync without the page: all of it may be dirty.
    let empty = found(&table, 1);
    let copies = [(entry(InSync, false), Some(&one)), (entry(InSync, false), Some(&empty))];
    let planned = plan_page(name, &copies);
    assert_eq!((planned.generation, planned.is_lost), (7, false));
    assert_eq!(planned.any[..5], [1, 1, both, both, 1]);
    assert_eq!(planned.all[..5], [0, DIRTY, 0, DIRTY, 0]);
    assert_eq!(planned.next_slots, [Some(1), None]);
    assert!(plan_page(name, &copies[1..]).is_lost);
    // A member that is rebuilt by the map has what it names itself copied, and all that it marked stays.
    let named = with_page(0, 9, &[UNSYNCED, DIRTY, 0, STALE]);
    let rest = |state, by_map| {
        let clean = with_page(1, 3, &[]);
        let copies = [(entry(InSync, false), Some(&clean)), (entry(state, by_map), Some(&named))];
        let planned = plan_page(name, &copies);
        assert_eq!((planned.generation, planned.is_lost), (9, false));
        assert_eq!(planned.all, [0; 4028]);
        planned.any[..5].to_vec()
    };
    assert_eq!(rest(Rebuilding, true), [STALE, both, 0, STALE, 0]);
    assert_eq!(rest(Rebuilding, false), [0, DIRTY, 0, 0, 0]);
    assert_eq!(rest(Faulty, true), [0; 5]);
    assert_eq!(rest(Spare, false), [0; 5]);
    // Nobody knows what it lacks whose page is lost.
    let copies = [(entry(InSync, false), Some(&one)), (entry(Rebuilding, true), Some(&empty))];
    assert_eq!(plan_page(name, &copies).any[..5], [STALE, both, STALE, both, STALE]);
}

#[test]
fn each_set_has_its_pages_with_the_replacement_as_last_copy() {
    simulate_regions_per_page(8);
    let table = replacing(RaidLevel::Raid10, Rebuilding);
    let mut devices = all(&table);
    for at in [2, 3, 4] {
        devices[at].map = map(&table, 1, &[(3, DIRTY), (9, DIRTY)]);
    }
    devices[4].map[100] ^= 1;
    let plan = assemble(&devices, plain()).unwrap();
    let copies: Vec<_> = plan.pages.iter().map(|page| page.next_slots.clone()).collect();
    let whole = Some(1);
    let expected =
        [vec![whole; 2], vec![whole; 2], vec![whole, whole, None], vec![whole, whole, whole]];
    assert_eq!(copies, expected);
    let dirty = |at: usize| plan.pages[at].all.iter().position(|&page| page == DIRTY);
    assert_eq!([0, 1, 2, 3].map(dirty), [None, None, Some(3), Some(1)]);
}

#[test]
fn of_two_slots_of_a_page_the_later_whole_one_counts_and_the_other_is_written_next() {
    let name = PageName { array: Id([7; 16]), set: 1, page: 1 };
    let both = |first: u64, second: u64| {
        let mut map = page(name, 0, first, &[DIRTY]);
        map[3 * BLOCK as usize..].copy_from_slice(&page(name, 1, second, &[0, STALE])[12288..]);
        map
    };
    let marks = |map: &[u8]| {
        let own = own_marks(name, map);
        let marks: Vec<_> = own.marks.collect();
        assert_eq!(marks.len(), 4028);
        (own.generation, own.next, marks[..3].to_vec())
    };
    assert_eq!(marks(&both(5, 4)), (5, 1, vec![STALE, 0, 0]));
    assert_eq!(marks(&both(5, 6)), (6, 0, vec![0, STALE, 0]));
    let mut torn = both(5, 6);
    torn[3 * BLOCK as usize + 99] ^= 1;
    assert_eq!(marks(&torn), (5, 1, vec![STALE, 0, 0]));
    torn[2 * BLOCK as usize + 99] ^= 1;
    assert_eq!(marks(&torn), (0, 0, vec![STALE, STALE, STALE]));
}

/// An entry of the log of a member in its role, of the first stripe of a region.
fn log_entry(table: &MemberTable, role: u8, region: u64) -> LogEntry {
    let offset = region * table.geometry.region;
    let stripe = table.geometry.stripe(offset);
    let parity = (0..2).find(|&number| stripe.parity(number) == role);
    LogEntry {
        array: table.array,
        member: table.entries[usize::from(role)].member,
        epoch: EPOCH,
        number: 40 + region,
        offset,
        length: 512,
        column: 1,
        parity: parity.expect("the role has a parity of it"),
    }
}

#[test]
fn an_entry_is_sound_if_a_member_of_this_role_can_have_written_it() {
    // Stripe 0 has P on member 4 and Q on member 0.
    let geometry = table(RaidLevel::Raid6, &[InSync; 5]).geometry;
    let last = geometry.member_bytes - 16384;
    let sound = |role, offset, length, column, parity| {
        let (array, member) = (Id([7; 16]), Id([8; 16]));
        let (epoch, number) = (EPOCH, 1);
        let entry = LogEntry { array, member, epoch, number, offset, length, column, parity };
        is_sound(&geometry, role, &entry)
    };
    assert!(sound(4, 0, 512, 0, 0) && sound(0, 0, 512, 0, 1));
    // The other's parity, none, and a third that there is not.
    assert!(!sound(0, 0, 512, 0, 0) && !sound(4, 0, 512, 0, 1) && !sound(2, 0, 512, 0, 0));
    assert!(!sound(1, 0, 512, 0, 2));
    // Three columns.
    assert_eq!([1, 2, 3, 4].map(|column| sound(4, 0, 512, column, 0)), [true, true, false, false]);
    assert_eq!(
        [0, 1, 16384, 16385].map(|number| sound(4, 0, number, 0, 0)),
        [false, true, true, false]
    );
    // Within a chunk.
    assert!(sound(4, 8192, 8192, 0, 0) && !sound(4, 8192, 8193, 0, 0));
    assert!(sound(4, 16383, 1, 0, 0) && !sound(4, 16383, 2, 0, 0));
    // Stripe 63 is the last.
    assert!(sound(1, last, 512, 0, 0));
    assert!(!sound(0, geometry.member_bytes, 512, 0, 0));
}

/// Five members of level 5, all regions dirty but for region 3.
fn dirty_stripes(table: &MemberTable) -> Vec<FoundDevice> {
    let marks: Vec<_> =
        (0..16).filter(|mark| *mark != 3).map(|mark| (mark, DIRTY | UNSYNCED)).collect();
    let mut devices = all(table);
    devices.iter_mut().for_each(|device| device.map = map(table, 0, &marks));
    devices
}

#[test]
fn a_parity_is_doubted_where_an_entry_of_a_member_in_sync_stands_for_a_dirty_region() {
    simulate_regions_per_page(8);
    let table = table(RaidLevel::Raid5, &[InSync; 5]);
    // Of stripes 0, 12, 36, 56: P goes round from the last member.
    let roles = [(0, 4), (3, 2), (9, 3), (14, 3)];
    let entry = |(region, role)| log_entry(&table, role, region);
    let mut devices = dirty_stripes(&table);
    for (region, role) in roles {
        devices[usize::from(role)].log.entries.push(entry((region, role)));
    }
    let numbers = |devices: &[FoundDevice]| -> Vec<_> {
        let plan = assemble(devices, plain()).unwrap();
        plan.doubts.iter().map(|(role, doubt)| (*role, doubt.number())).collect()
    };
    assert_eq!(numbers(&devices), [(3, 49), (3, 54), (4, 40)]);
    let with = |change: &dyn Fn(&mut LogEntry)| {
        let mut devices = devices.clone();
        change(&mut devices[4].log.entries[0]);
        numbers(&devices).len()
    };
    assert_eq!(with(&|entry| entry.array = Id([1; 16])), 2);
    assert_eq!(with(&|entry| entry.member = member(3)), 2);
    assert_eq!(with(&|entry| entry.length = 0), 2);
    // What it wrote before it was in sync.
    assert_eq!((with(&|entry| entry.epoch = 2), with(&|entry| entry.epoch = 1)), (3, 2));
    // Of a member that is rebuilt nothing counts.
    let mut rebuilt = table.clone();
    rebuilt.entries[4].state = Rebuilding;
    devices.iter_mut().for_each(|device| device.superblock.table = rebuilt.clone());
    assert_eq!(numbers(&devices), [(3, 49), (3, 54)]);
}

#[test]
fn parities_in_slots_that_cannot_be_read_are_doubted_and_needed_where_a_member_is_missing() {
    let table = table(RaidLevel::Raid5, &[InSync; 5]);
    assert_eq!(layout::log_slots(&table.geometry), 16);
    let mut devices = dirty_stripes(&table);
    // Slot 4 is of stripes 4, 20, 36, 52, with P on members 0, 4, 3, 2.
    devices[3].log.lost = vec![4];
    let lost = |at: u64| (3, Doubt::Lost(at * 16384));
    let plan = assemble(&devices, plain()).unwrap();
    assert_eq!(plan.doubts, [lost(36)]);
    assert_eq!(plan.doubts[0].1.number(), 0);
    // Slot 8, of stripes 8, 24, 40, 56; and slot 12, whose stripe 12 is clean and 28, 44, 60 are of
    // members 1, 0, 4.
    devices[3].log.lost = vec![8, 12];
    assert_eq!(assemble(&devices, plain()).unwrap().doubts, [lost(56)]);
    let away = [1, 2, 3, 4].map(|at| devices[at].clone());
    assert_eq!(refused(&away, plain()), AssembleError::LogLost(103));
    assert_eq!(assemble(&away, FORCE).unwrap().doubts, [lost(56)]);
    // Entries that are whole stand for what is missing.
    devices[3].log.lost = Vec::new();
    devices[4].log.entries.push(log_entry(&table, 4, 0));
    let away = [1, 2, 3, 4].map(|at| devices[at].clone());
    assert_eq!(assemble(&away, plain()).unwrap().doubts.len(), 1);
}

#[test]
fn mirrors_have_no_parity_to_doubt() {
    let table = table(RaidLevel::Raid1, &[InSync; 3]);
    let mut devices = dirty_stripes(&table);
    devices[0].log.lost = vec![0];
    assert_eq!(assemble(&devices, plain()).unwrap().doubts, []);
}
