//! Small arrays by hand: who starts, who does not, and what each member is by the tables that are here.

mod maps;

use super::*;
use crate::Id;
use crate::geometry::{BLOCK, Geometry};
use crate::map_page::{self, PageName, regions_per_page, simulate_regions_per_page};
use crate::superblock::HISTORY_EPOCHS;
use MemberState::{Faulty, InSync, Rebuilding, Spare};
use durio_base::RaidLevel;

/// The epoch of a table.
const EPOCH: u64 = 9;
const DEVICE_BYTES: u64 = 8 << 20;
const FORCE: AssembleOptions = AssembleOptions { force: true, rejoin: false, fault: None };
const REJOIN: AssembleOptions = AssembleOptions { force: false, rejoin: true, fault: None };

fn plain() -> AssembleOptions {
    AssembleOptions::default()
}

fn member(at: usize) -> Id {
    Id([10 + u8::try_from(at).unwrap(); 16])
}

/// A table of members in these states, known to count.
fn table(level: RaidLevel, states: &[MemberState]) -> MemberTable {
    let entry = |(at, &state): (usize, &MemberState)| MemberEntry {
        member: member(at),
        state,
        by_map: false,
        replaces: None,
        since: 2,
        watermark: 0,
    };
    let members = states.iter().filter(|&&state| state != Spare).count();
    let geometry = Geometry {
        level,
        members: u8::try_from(members).unwrap(),
        chunk: 16 << 10,
        region: 64 << 10,
        member_bytes: 1 << 20,
    };
    let mut table = MemberTable {
        array: Id([7; 16]),
        name: String::new(),
        geometry,
        data_at: 1 << 20,
        epoch: EPOCH - 1,
        lineage: 77,
        history: std::array::from_fn(|age| age as u64),
        committed: EPOCH,
        voters: 0,
        revision: 30,
        entries: states.iter().enumerate().map(entry).collect(),
    };
    table.voters = in_sync(&table);
    table.advance();
    table
}

/// The table before it, as a member has that missed the last change.
fn before(table: &MemberTable) -> MemberTable {
    let mut history = table.history;
    history.rotate_left(1);
    let (epoch, lineage) = (table.epoch - 1, table.history[0]);
    MemberTable { epoch, lineage, history, committed: epoch, ..table.clone() }
}

/// A device that holds this entry of a table, with a clean map.
fn found(table: &MemberTable, at: usize) -> FoundDevice {
    let (table, member) = (table.clone(), member(at));
    let map = map(&table, 0, &[]);
    let superblock = Superblock { table, member, device_bytes: DEVICE_BYTES };
    FoundDevice::without_log(u8::try_from(at).unwrap() + 100, superblock, 0, map)
}

/// A map whose pages are whole in their first slots, with generation 5; these regions have
/// marks.
fn map(table: &MemberTable, set: u8, marks: &[(usize, u8)]) -> Vec<u8> {
    let pages = layout::map_pages(&table.geometry);
    let per_page = regions_per_page() as usize;
    let page = |page: u32| {
        let name = PageName { array: table.array, set, page };
        let mut block = vec![0; 2 * BLOCK as usize];
        let mut bytes = vec![0; per_page];
        let first = page as usize * per_page;
        let here = marks.iter().filter(|(region, _)| (first..first + per_page).contains(region));
        here.for_each(|(region, mark)| bytes[region - first] = *mark);
        map_page::encode(name, 5, bytes.into_iter(), &mut block[..BLOCK as usize]);
        block
    };
    (0..pages).flat_map(page).collect()
}

fn all(table: &MemberTable) -> Vec<FoundDevice> {
    (0..table.entries.len()).map(|at| found(table, at)).collect()
}

fn damaged(device: FoundDevice, damage: Damage) -> FoundDevice {
    FoundDevice { damage: Some(damage), ..device }
}

fn refused(devices: &[FoundDevice], options: AssembleOptions) -> AssembleError {
    assemble(devices, options).unwrap_err()
}

/// State, map and epoch of each entry.
fn states(plan: &StartPlan) -> Vec<(MemberState, bool, u64)> {
    plan.table.entries.iter().map(|entry| (entry.state, entry.by_map, entry.since)).collect()
}

#[test]
fn more_than_half_of_the_members_in_sync_must_be_here() {
    let no_majority = |present, voters| Some(AssembleError::NoMajority { present, voters });
    for (states, here, error) in [
        (&[InSync; 2][..], &[0][..], no_majority(1, 2)),
        (&[InSync; 2], &[0, 1], None),
        (&[InSync; 3], &[2], no_majority(1, 3)),
        (&[InSync; 3], &[0, 2], None),
        (&[InSync; 4], &[1, 3], no_majority(2, 4)),
        (&[InSync; 4], &[1, 2, 3], None),
        // Who is not in sync has no vote.
        (&[InSync, Rebuilding, Faulty, InSync], &[0, 1, 2], no_majority(1, 2)),
        (&[InSync, Rebuilding, Faulty, InSync], &[0, 3], None),
        (&[Faulty, InSync, Spare], &[1], None),
        (&[InSync, InSync, Spare], &[1, 2], no_majority(1, 2)),
    ] {
        let table = table(RaidLevel::Raid1, states);
        let devices: Vec<_> = here.iter().map(|&at| found(&table, at)).collect();
        let plan = assemble(&devices, plain());
        assert_eq!(plan.as_ref().err(), error.as_ref(), "{states:?} {here:?}");
        let plan = plan.or_else(|_| assemble(&devices, FORCE)).unwrap();
        assert_eq!(plan.is_forced, error.is_some());
        let voters = if error.is_some() { 0 } else { table.voters };
        assert_eq!((plan.committed, plan.voters), (EPOCH, voters));
        assert!(plan.uncounted.is_none());
        for at in 0..states.len() {
            let is_used = here.contains(&at) && states[at] != Faulty;
            assert_eq!(plan.has(u8::try_from(at).unwrap() + 100), is_used, "{states:?} {at}");
        }
    }
}

#[test]
fn half_of_the_voters_must_have_data_that_can_be_trusted() {
    let table = table(RaidLevel::Raid1, &[InSync; 4]);
    let with_damaged = |count: usize| {
        let mut devices = all(&table);
        devices.iter_mut().take(count).for_each(|device| device.damage = Some(Damage::EndsDiffer));
        assemble(&devices, plain()).map(|plan| states(&plan))
    };
    let lost = (Faulty, false, EPOCH + 1);
    let kept = (InSync, false, 2);
    assert_eq!(with_damaged(0), Ok(vec![kept; 4]));
    assert_eq!(with_damaged(1), Ok(vec![lost, kept, kept, kept]));
    assert_eq!(with_damaged(2), Ok(vec![lost, lost, kept, kept]));
    assert_eq!(with_damaged(3), Err(AssembleError::NoMajority { present: 1, voters: 4 }));
    assert_eq!(with_damaged(4), Err(AssembleError::Incomplete(0)));
}

/// Member 3 failed, and nobody knows whether the table that says so counts.
fn uncounted() -> MemberTable {
    let mut table = table(RaidLevel::Raid1, &[InSync, InSync, InSync, Faulty]);
    table.committed = EPOCH - 1;
    table.voters = 0b1111;
    table
}

#[test]
fn a_table_that_may_not_count_starts_if_half_of_its_base_have_it_or_most_of_its_base_are_here() {
    let newest = uncounted();
    let base = MemberTable { voters: 0b1111, ..before(&newest) };
    let no_majority = |present, voters| Some(AssembleError::NoMajority { present, voters });
    for (with_newest, with_base, error) in [
        (&[0, 1][..], &[][..], None),
        (&[0], &[1], no_majority(2, 4)),
        (&[0], &[1, 2], None),
        (&[0, 1], &[2], None),
        (&[2], &[], no_majority(1, 3)),
        // Who failed by the newest still counts for its base.
        (&[0], &[1, 3], None),
        (&[0], &[3], no_majority(1, 3)),
    ] {
        let newer = with_newest.iter().map(|&at| found(&newest, at));
        let older = with_base.iter().map(|&at| found(&base, at));
        let devices: Vec<_> = newer.chain(older).collect();
        let plan = assemble(&devices, plain());
        assert_eq!(plan.as_ref().err(), error.as_ref(), "{with_newest:?} {with_base:?}");
        let Ok(plan) = plan else { continue };
        assert_eq!((plan.committed, plan.voters), (EPOCH - 1, 0b1111));
        assert_eq!(plan.uncounted, Some(newest.clone()), "it is stored anew");
    }
    let forced = assemble(&[found(&newest, 0)], FORCE).unwrap();
    assert!(forced.uncounted.is_none());
    assert_eq!((forced.committed, forced.voters), (EPOCH - 1, 0));
}

#[test]
fn half_of_the_base_must_have_data_that_can_be_trusted() {
    let newest = uncounted();
    let mut devices: Vec<_> = (0..3).map(|at| found(&newest, at)).collect();
    devices[1].damage = Some(Damage::EndsDiffer);
    assert!(assemble(&devices, plain()).is_ok());
    devices[2].damage = Some(Damage::EndsDiffer);
    let few = AssembleError::NoMajority { present: 1, voters: 4 };
    assert_eq!(refused(&devices, plain()), few);
}

#[test]
fn the_newest_table_decides_and_the_next_revision_follows_from_all() {
    let newest = table(RaidLevel::Raid1, &[InSync, InSync, Faulty]);
    let old = MemberTable { revision: 99, ..before(&newest) };
    let plan = assemble(&[found(&old, 2), found(&newest, 0), found(&newest, 1)], plain()).unwrap();
    assert_eq!((plan.table.epoch, plan.table.revision), (EPOCH, 99));
    assert_eq!(states(&plan)[2], (Faulty, false, 2));
    // Of one epoch, the later revision.
    let later = MemberTable { revision: 31, name: "later".to_owned(), ..newest.clone() };
    let plan = assemble(&[found(&later, 0), found(&newest, 1)], plain()).unwrap();
    assert_eq!(plan.table.name, "later");
}

#[test]
fn devices_that_make_no_array_are_refused_by_name() {
    let table = table(RaidLevel::Raid1, &[InSync; 3]);
    assert_eq!(refused(&[], plain()), AssembleError::Nothing);
    let mut other = found(&table, 1);
    other.superblock.table.array = Id([8; 16]);
    assert_eq!(refused(&[found(&table, 0), other], FORCE), AssembleError::Mixed);
    let copy = FoundDevice { device: 5, ..found(&table, 2) };
    let devices = [found(&table, 0), found(&table, 2), copy.clone()];
    assert_eq!(refused(&devices, FORCE), AssembleError::Cloned(102, 5));
    // A damaged device that says it is another member is left out, and told by nobody.
    let copy = damaged(copy, Damage::EndsDiffer);
    let plan = assemble(&[found(&table, 0), copy, found(&table, 2)], plain()).unwrap();
    let devices: Vec<_> =
        plan.devices.iter().map(|device| device.map(|device| device.device)).collect();
    assert_eq!(devices, [Some(100), None, Some(102)]);
    // One of itself alone stays, for what it knows of the others.
    let alone = damaged(found(&table, 1), Damage::EndsDiffer);
    let plan = assemble(&[found(&table, 0), alone, found(&table, 2)], plain()).unwrap();
    assert_eq!(states(&plan)[1], (Faulty, false, EPOCH + 1));
}

#[test]
fn a_member_that_went_on_alone_is_named_and_nothing_starts() {
    let newest = table(RaidLevel::Raid1, &[InSync; 3]);
    let apart = MemberTable { lineage: 1234, ..before(&newest) };
    let devices = [found(&newest, 0), found(&apart, 2), found(&newest, 1)];
    assert_eq!(refused(&devices, plain()), AssembleError::Diverged(102));
    assert_eq!(refused(&devices, FORCE), AssembleError::Diverged(102));
}

#[test]
fn a_member_is_what_the_newest_table_says_if_its_own_is_not_too_old() {
    let mut newest = table(RaidLevel::Raid1, &[InSync, InSync, InSync, Rebuilding]);
    newest.entries[3].watermark = 128 << 10;
    newest.committed = EPOCH - 1;
    let old = before(&newest);
    // Nothing was acknowledged under the newest that is not known to count.
    let with = |own: [&MemberTable; 2]| {
        let mut devices = vec![found(&newest, 0), found(&newest, 1)];
        devices.extend([found(own[0], 2), found(own[1], 3)]);
        devices
    };
    let plan = assemble(&with([&old, &old]), plain()).unwrap();
    assert_eq!(states(&plan)[2..], [(InSync, false, 2), (Rebuilding, false, 2)]);
    assert_eq!(plan.table.entries[3].watermark, 128 << 10);
    // One older has not what was acknowledged since.
    let older = before(&old);
    let plan = assemble(&with([&older, &older]), plain()).unwrap();
    let away = (Faulty, false, EPOCH + 1);
    assert_eq!(states(&plan)[2..], [away, away]);
    assert!(plan.devices[2].is_none() && plan.devices[3].is_none());
    let plan = assemble(&with([&older, &older]), REJOIN).unwrap();
    let back = (Rebuilding, false, EPOCH + 1);
    assert_eq!(states(&plan)[2..], [back, back]);
    assert_eq!(plan.table.entries[3].watermark, 0);
    assert!(plan.devices[2].is_some() && plan.devices[3].is_some());
}

#[test]
fn a_member_of_before_memory_is_not_taken_back() {
    let mut newest = table(RaidLevel::Raid1, &[InSync, InSync, Faulty]);
    let old = newest.clone();
    (0..=HISTORY_EPOCHS).for_each(|_| newest.advance());
    newest.committed = newest.epoch;
    assert_eq!(newest.relation_of(&old), Relation::Unknown);
    let devices = [found(&newest, 0), found(&newest, 1), found(&old, 2)];
    let plan = assemble(&devices, REJOIN).unwrap();
    assert_eq!(states(&plan)[2], (Faulty, false, 2));
}

#[test]
fn a_member_that_is_away_lacks_what_the_map_of_its_set_names() {
    let mut newest = table(RaidLevel::Raid1, &[InSync, InSync, InSync, Rebuilding]);
    newest.entries[3].by_map = true;
    let plan = assemble(&[found(&newest, 0), found(&newest, 1)], plain()).unwrap();
    let away = |by_map| (Faulty, by_map, EPOCH + 1);
    assert_eq!(states(&plan)[2..], [away(true), away(true)]);
    // A rebuild that knew no map has none now.
    newest.entries[3].by_map = false;
    let plan = assemble(&[found(&newest, 0), found(&newest, 1)], plain()).unwrap();
    assert_eq!(states(&plan)[3], away(false));
    // Nothing names what a damaged one lacks.
    newest.entries[3].by_map = true;
    let device = damaged(found(&newest, 3), Damage::Truncated { has: 1, says: 2 });
    let plan = assemble(&[found(&newest, 0), found(&newest, 1), device], plain()).unwrap();
    assert_eq!(states(&plan)[3], away(false));
    // One that failed is taken back with the map, if it is asked for.
    newest.entries[3].state = Faulty;
    let devices = [found(&newest, 0), found(&newest, 1), found(&newest, 3)];
    assert_eq!(states(&assemble(&devices, plain()).unwrap())[3], (Faulty, true, 2));
    let back = (Rebuilding, true, EPOCH + 1);
    assert_eq!(states(&assemble(&devices, REJOIN).unwrap())[3], back);
    assert_eq!(states(&assemble(&devices[..2], REJOIN).unwrap())[3], (Faulty, true, 2));
}

#[test]
fn an_image_older_than_the_failure_comes_back_whole_and_not_by_the_map() {
    for (level, count) in [(RaidLevel::Raid1, 3), (RaidLevel::Raid10, 6), (RaidLevel::Raid5, 3)] {
        let mut newest = table(level, &vec![InSync; count]);
        let last = count - 1;
        newest.entries[last] = MemberEntry { by_map: true, since: EPOCH, ..newest.entries[last] };
        let start = |newest: &MemberTable, own: &MemberTable| {
            let mut devices: Vec<_> = (0..last).map(|at| found(newest, at)).collect();
            devices.push(found(own, last));
            let plan = assemble(&devices, REJOIN).unwrap();
            let words: Vec<_> = plan.behind(&devices).map(|device| device.to_string()).collect();
            (states(&plan)[last], words)
        };
        let back = |newest: &MemberTable, own: &MemberTable| start(newest, own).0;
        let (own, image) = (before(&newest), before(&before(&newest)));
        newest.entries[last].state = Faulty;
        assert_eq!(back(&newest, &own), (Rebuilding, true, EPOCH + 1), "{level:?}");
        assert_eq!(back(&newest, &image), (Rebuilding, false, EPOCH + 1), "{level:?}");
        let missed = |epochs, what| {
            vec![format!("member {last} missed {epochs}, the newest is 9): {what} resynced")]
        };
        let by_map = missed("1 epoch (it has 8", "the regions that the map names are");
        assert_eq!(start(&newest, &own).1, by_map);
        assert_eq!(start(&newest, &image).1, missed("2 epochs (it has 7", "all of it is"));
        // One that was being rebuilt by the map has none either.
        newest.entries[last].state = Rebuilding;
        assert_eq!(start(&newest, &newest), ((Rebuilding, true, EPOCH), Vec::new()), "{level:?}");
        assert_eq!(back(&newest, &image), (Rebuilding, false, EPOCH + 1), "{level:?}");
    }
}

#[test]
fn a_set_without_a_copy_and_a_stripe_without_enough_do_not_start_even_by_force() {
    let start = |level, count: usize, here: &[usize]| {
        let table = table(level, &vec![InSync; count]);
        let devices: Vec<_> = here.iter().map(|&at| found(&table, at)).collect();
        assemble(&devices, FORCE).err()
    };
    let few = |present, needed| Some(AssembleError::TooFew { present, needed });
    assert_eq!(start(RaidLevel::Raid0, 3, &[0, 2]), Some(AssembleError::Incomplete(1)));
    assert_eq!(start(RaidLevel::Raid0, 3, &[0, 1, 2]), None);
    assert_eq!(start(RaidLevel::Raid10, 6, &[0, 3]), Some(AssembleError::Incomplete(2)));
    assert_eq!(start(RaidLevel::Raid10, 6, &[1, 2, 4]), None);
    assert_eq!(start(RaidLevel::Raid5, 5, &[0, 1, 2]), few(3, 4));
    assert_eq!(start(RaidLevel::Raid5, 5, &[0, 1, 2, 4]), None);
    assert_eq!(start(RaidLevel::Raid6, 5, &[3, 4]), few(2, 3));
    assert_eq!(start(RaidLevel::Raid6, 5, &[0, 3, 4]), None);
}

#[test]
fn only_at_level_0_and_by_force_is_a_damaged_device_used() {
    let ends = Damage::EndsDiffer;
    let short = Damage::Truncated { has: 1, says: 2 };
    let start = |level, damage, options| {
        let table = table(level, &[InSync; 2]);
        let devices = [found(&table, 0), damaged(found(&table, 1), damage)];
        assemble(&devices, options).map(|plan| states(&plan)[1].0)
    };
    assert_eq!(start(RaidLevel::Raid0, ends, plain()), Err(AssembleError::Incomplete(1)));
    assert_eq!(start(RaidLevel::Raid0, ends, FORCE), Ok(InSync));
    assert_eq!(start(RaidLevel::Raid0, short, FORCE), Err(AssembleError::Incomplete(1)));
    assert_eq!(start(RaidLevel::Raid1, ends, FORCE), Ok(Faulty));
    let faulty = AssembleOptions { fault: Some(Fault::EndsNotCompared), ..plain() };
    assert_eq!(start(RaidLevel::Raid1, ends, faulty), Ok(InSync));
    assert_eq!(start(RaidLevel::Raid1, short, faulty), Ok(Faulty));
}

/// Entry 4 takes the place of role 2.
fn replacing(level: RaidLevel, state: MemberState) -> MemberTable {
    let mut table = table(level, &[InSync, InSync, InSync, InSync, Spare]);
    table.entries[4] = MemberEntry { state, replaces: Some(2), ..table.entries[4] };
    table
}

#[test]
fn who_is_replaced_does_not_come_back_and_a_replacement_that_was_away_is_none() {
    let newest = {
        let mut table = replacing(RaidLevel::Raid10, InSync);
        table.entries[1].state = Faulty;
        table.entries[2].state = Faulty;
        table
    };
    let plan = assemble(&all(&newest), REJOIN).unwrap();
    let new_states: Vec<_> = plan.table.entries.iter().map(|entry| entry.state).collect();
    assert_eq!(new_states, [InSync, Rebuilding, Faulty, InSync, InSync]);
    // A replacement that did not end keeps nobody away.
    let newest = {
        let mut table = replacing(RaidLevel::Raid10, Rebuilding);
        table.entries[2].state = Faulty;
        table
    };
    let plan = assemble(&all(&newest), REJOIN).unwrap();
    assert_eq!([2, 4].map(|at| states(&plan)[at].0), [Rebuilding, Rebuilding]);
    // It was away itself, and is not asked back.
    let newest = replacing(RaidLevel::Raid10, Rebuilding);
    let mut devices = all(&newest);
    devices[4] = found(&before(&newest), 4);
    let plan = assemble(&devices, REJOIN).unwrap();
    assert_eq!(states(&plan)[4], (Faulty, false, EPOCH + 1));
    // A spare stays one, here or not.
    let newest = table(RaidLevel::Raid1, &[InSync, InSync, Spare]);
    assert_eq!(states(&assemble(&all(&newest)[..2], plain()).unwrap())[2], (Spare, false, 2));
    assert_eq!(states(&assemble(&all(&newest), REJOIN).unwrap())[2], (Spare, false, 2));
}

#[test]
fn at_level_0_a_member_counts_and_not_the_replacement_that_may_differ() {
    let newest = replacing(RaidLevel::Raid0, InSync);
    let plan = assemble(&all(&newest), plain()).unwrap();
    assert_eq!(states(&plan)[2], (InSync, false, 2));
    assert_eq!(states(&plan)[4], (Rebuilding, false, EPOCH + 1));
    // Without the old one it counts itself.
    let mut devices = all(&newest);
    devices.remove(2);
    let plan = assemble(&devices, plain()).unwrap();
    assert_eq!([2, 4].map(|at| states(&plan)[at].0), [Faulty, InSync]);
    // In other levels a map names what they differ in.
    let plan = assemble(&all(&replacing(RaidLevel::Raid10, InSync)), plain()).unwrap();
    assert_eq!(states(&plan)[4], (InSync, false, 2));
}

#[test]
fn a_rebuild_goes_on_where_a_whole_map_names_what_was_written_since() {
    simulate_regions_per_page(8);
    let mark = 256 << 10;
    let watermark = |level, by_map: bool, torn: Option<usize>| {
        let mut table = replacing(level, Rebuilding);
        table.entries[4] = MemberEntry { watermark: mark, by_map, ..table.entries[4] };
        let mut devices = all(&table);
        devices[4].map = map(&table, 2 / table.geometry.set_members(), &[]);
        if let Some(at) = torn {
            devices[4].map[at] ^= 1;
        }
        assemble(&devices, plain()).unwrap().table.entries[4].watermark
    };
    let level = RaidLevel::Raid10;
    assert_eq!(watermark(level, false, None), mark);
    assert_eq!(watermark(level, true, None), 0);
    // 16 regions are two pages, each with two slots.
    assert_eq!(watermark(level, false, Some(100)), 0);
    assert_eq!(watermark(level, false, Some(100 + 2 * BLOCK as usize)), 0);
    assert_eq!(watermark(level, false, Some(100 + BLOCK as usize)), mark);
    assert_eq!(watermark(RaidLevel::Raid0, false, None), 0);
}

#[test]
fn a_device_is_used_with_its_size_and_the_slot_that_is_written_next() {
    let newest = table(RaidLevel::Raid1, &[InSync, InSync, Faulty]);
    let mut devices = all(&newest);
    devices[1].slot = 1;
    devices[1].superblock.device_bytes = DEVICE_BYTES + BLOCK;
    let plan = assemble(&devices, plain()).unwrap();
    let present = |device, bytes, next_slot| Some(RoleDevice { device, bytes, next_slot });
    let expected = [present(100, DEVICE_BYTES, 1), present(101, DEVICE_BYTES + BLOCK, 0), None];
    assert_eq!(plan.devices, expected);
}
