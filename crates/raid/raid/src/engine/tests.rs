//! The engine event by event, with members that complete when a test says so.

use super::output::{OpOwner, TagFields};
use super::*;
use crate::map_page::{self, DIRTY, PageName};
use crate::{
    ArrayRequest, AssembleOptions, FoundDevice, Id, Member, MemberEntry, MemberOp, MemberOpKind,
    OpBuffer, RequestKind, assemble, create,
};
use durio_base::RaidLevel;
use durio_observe::MismatchPlace;

pub(super) const CHUNK: u32 = 16 << 10;

/// Metadata of four new members, as assembly finds it.
pub(super) fn found(level: RaidLevel) -> Vec<FoundDevice> {
    found_of(level, 4)
}

pub(super) fn found_of(level: RaidLevel, members: u8) -> Vec<FoundDevice> {
    found_with(Geometry { level, members, chunk: CHUNK, region: 1 << 20, member_bytes: 1 << 26 })
}

pub(super) fn found_with(geometry: Geometry) -> Vec<FoundDevice> {
    let data_at = layout::data_at(&geometry, BLOCK);
    let device_bytes = layout::device_bytes(&geometry, data_at);
    let member = |number| Member { id: Id([number; 16]), device_bytes };
    let members: Vec<Member> = (1..=geometry.members).map(member).collect();
    let written = create(Id([9; 16]), "test", geometry, BLOCK, &members).unwrap();
    let find = |(device, blocks): (u8, &crate::Blocks)| {
        let read = |place| blocks.iter().find(|(at, _)| *at == place).unwrap().1.clone();
        let slots =
            [0, 1, 2, 3].map(|slot| read(layout::superblock_slot(device_bytes, slot).unwrap()));
        let [a, b, c, d] = &slots;
        let (superblock, slot) = crate::newest([a, b, c, d]).unwrap();
        let pages = 0..layout::map_pages(&geometry) * 2;
        let map =
            pages.flat_map(|slot| read(layout::map_slot(slot / 2, (slot % 2) as u8))).collect();
        FoundDevice::without_log(device, superblock, slot, map)
    };
    (0..).zip(&written).map(find).collect()
}

pub(super) fn running(level: RaidLevel) -> (Engine, EngineOutput) {
    let plan = assemble(&found(level), AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    complete_all(&mut engine, &mut out);
    assert!(engine.status().is_running);
    (engine, out)
}

/// Completes all, and what follows of it; all operations.
pub(super) fn complete_all(engine: &mut Engine, out: &mut EngineOutput) -> Vec<MemberOp> {
    let mut all = Vec::new();
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            all.push(op);
            engine.completed(op.tag, OpOutcome::Done, out);
        }
    }
    all
}

pub(super) fn write(tag: u64, offset: u64) -> ArrayRequest {
    ArrayRequest { tag, kind: RequestKind::Write, offset, length: 4096, buffer: 7 }
}

pub(super) fn answers(out: &mut EngineOutput) -> Vec<u64> {
    out.answers.drain(..).map(|answer| answer.result.map(|()| answer.tag).unwrap()).collect()
}

#[test]
fn a_write_to_a_dirty_region_costs_two_member_writes_and_nothing_else() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    let first = complete_all(&mut engine, &mut out);
    let marks = first.iter().filter(|op| matches!(op.buffer, OpBuffer::Metadata(_)));
    assert_eq!((marks.count(), first.len()), (2, 4));
    engine.submit(write(2, 8192), &mut out).unwrap();
    let second = complete_all(&mut engine, &mut out);
    let devices: Vec<u8> = second.iter().map(|op| op.device).collect();
    assert_eq!(devices, [0, 1]);
    assert!(second.iter().all(|op| op.kind == MemberOpKind::Write && op.length == 4096));
    assert_eq!(answers(&mut out), [1, 2]);
}

#[test]
fn marks_of_writes_that_wait_together_are_one_write() {
    let (mut engine, mut out) = running(RaidLevel::Raid1);
    for tag in 0..10 {
        engine.submit(write(tag, tag << 20), &mut out).unwrap();
    }
    let all = complete_all(&mut engine, &mut out);
    let marks = all.iter().filter(|op| matches!(op.buffer, OpBuffer::Metadata(_))).count();
    // The first goes alone, to four copies; nine wait for it, and ride on the second.
    assert_eq!(marks, 8);
    assert_eq!(answers(&mut out).len(), 10);
}

#[test]
fn an_overlapping_write_begins_when_the_one_before_is_answered() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    engine.submit(write(2, 0), &mut out).unwrap();
    engine.submit(write(3, 512), &mut out).unwrap();
    engine.submit(write(4, 8192), &mut out).unwrap();
    let offsets: Vec<u64> = out.ops.iter().map(|op| op.offset - engine.data_at).collect();
    assert_eq!(offsets, [0, 0, 8192, 8192]);
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [1, 2, 4, 3]);
}

#[test]
fn a_write_is_answered_when_the_others_know_of_the_copy_that_failed() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    answers(&mut out);
    engine.submit(write(2, 0), &mut out).unwrap();
    let ops = std::mem::take(&mut out.ops);
    engine.completed(ops[0].tag, OpOutcome::Done, &mut out);
    engine.completed(ops[1].tag, OpOutcome::Error, &mut out);
    assert!(out.answers.is_empty());
    // Two slots on each of three survivors.
    assert_eq!(out.ops.len(), 6);
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [2]);
    assert_eq!(engine.status().roles[1].state, MemberState::Faulty);
}

#[test]
fn the_last_copy_is_never_given_up_and_stops_the_array() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(0, &mut out);
    complete_all(&mut engine, &mut out);
    engine.submit(write(1, 0), &mut out).unwrap();
    engine.member_failed(1, &mut out);
    assert_eq!(engine.status().stopped, Some(StopReason::LastCopy(1)));
    assert_eq!(engine.status().roles[1].state, MemberState::InSync);
    assert_eq!(out.answers[0].result, Err(RequestError::Stopped));
    assert_eq!(engine.submit(write(2, 0), &mut out), Err(RequestError::Stopped));
}

#[test]
fn reads_go_to_the_copy_with_less_to_do() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    for tag in 0..4 {
        let kind = RequestKind::Read;
        engine.submit(ArrayRequest { kind, ..write(tag, tag * 4096) }, &mut out).unwrap();
    }
    let devices: Vec<u8> = out.ops.iter().map(|op| op.device).collect();
    assert_eq!(devices, [0, 1, 0, 1]);
}

#[test]
fn a_member_that_owes_an_answer_for_too_long_has_failed() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    engine.submit(write(2, 0), &mut out).unwrap();
    let ops = std::mem::take(&mut out.ops);
    engine.completed(ops[0].tag, OpOutcome::Done, &mut out);
    engine.tick(Nanos::from_secs(31), &mut out);
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [1, 2]);
    // Too late.
    engine.completed(ops[1].tag, OpOutcome::Done, &mut out);
    assert_eq!(engine.status().roles[1].device, None);
}

#[test]
fn a_closed_array_leaves_nothing_dirty() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(engine.status().regions_dirty, 1);
    engine.close(&mut out);
    complete_all(&mut engine, &mut out);
    assert!(engine.is_idle());
    assert_eq!(engine.status().regions_dirty, 0);
    assert_eq!(engine.submit(write(2, 0), &mut out), Err(RequestError::Stopped));
}

#[test]
fn the_end_is_an_epoch_of_its_own_that_is_known_to_count() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let (before, members) = (engine.table.epoch, engine.devices.len());
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    engine.close(&mut out);
    let mut superblocks = 0;
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            let is_superblock =
                TagFields::unpack(op.tag).is_some_and(|fields| fields.owner == OpOwner::Superblock);
            assert!(!is_superblock || engine.status().regions_dirty == 0);
            superblocks += usize::from(is_superblock);
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
    }
    // Twice at both ends of each: the table, and that it counts.
    assert_eq!((engine.table.epoch, superblocks), (before + 1, members * 4));
    assert_eq!(engine.table.committed, before + 1);
    engine.close(&mut out);
    assert!(out.ops.is_empty() && engine.is_idle());
}

#[test]
fn what_is_no_request_is_refused() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let size = engine.size();
    let refused = |engine: &mut Engine, offset, length| {
        let request = ArrayRequest { length, ..write(1, offset) };
        engine.submit(request, &mut EngineOutput::default()).unwrap_err()
    };
    assert_eq!(refused(&mut engine, 100, 512), RequestError::Unaligned);
    assert_eq!(refused(&mut engine, 0, 0), RequestError::Unaligned);
    assert_eq!(refused(&mut engine, size - 512, 1024), RequestError::Beyond);
    assert_eq!(refused(&mut engine, u64::MAX - 511, 1024), RequestError::Beyond);
    let kind = RequestKind::Flush;
    engine.submit(ArrayRequest { kind, length: 0, ..write(5, 0) }, &mut out).unwrap();
    assert_eq!(answers(&mut out), [5]);
}

#[test]
fn half_of_the_members_do_not_start_and_no_member_twice() {
    let all = found(RaidLevel::Raid10);
    let options = AssembleOptions::default();
    let half = [all[0].clone(), all[2].clone()];
    let refused = assemble(&half, options).unwrap_err();
    assert_eq!(refused, crate::AssembleError::NoMajority { present: 2, voters: 4 });
    assert!(assemble(&half, AssembleOptions { force: true, ..options }).is_ok());
    let one_set = [all[0].clone(), all[1].clone()];
    assert_eq!(assemble(&one_set, options).unwrap_err(), crate::AssembleError::Incomplete(1));
    let mut twins = all.clone();
    twins.push(FoundDevice { device: 9, ..all[1].clone() });
    assert_eq!(assemble(&twins, options).unwrap_err(), crate::AssembleError::Cloned(1, 9));
    assert_eq!(assemble(&[], options).unwrap_err(), crate::AssembleError::Nothing);
}

/// Three copies, of which the last was rebuilt: a table that has it in sync is on those of `holders`.
fn promoted_on(holders: &[usize]) -> Vec<FoundDevice> {
    let mut all = found_of(RaidLevel::Raid1, 3);
    let mut base = all[0].superblock.table.clone();
    base.entries[2] = MemberEntry { state: MemberState::Rebuilding, since: 2, ..base.entries[2] };
    base.advance();
    (base.revision, base.committed, base.voters) = (2, 2, 0b011);
    let mut next = base.clone();
    next.entries[2] = MemberEntry { state: MemberState::InSync, since: 3, ..next.entries[2] };
    next.advance();
    next.revision = 3;
    for (at, device) in all.iter_mut().enumerate() {
        device.superblock.table = if holders.contains(&at) { next.clone() } else { base.clone() };
    }
    all
}

#[test]
fn a_table_that_may_not_count_needs_a_majority_of_its_base_or_half_that_has_it() {
    let start = |holders: &[usize], here: [usize; 2]| {
        let all = promoted_on(holders);
        assemble(&here.map(|at| all[at].clone()), AssembleOptions::default()).map(|_| ())
    };
    // Member 0 may have gone on without member 1, as half of the two that were in sync.
    let refused = crate::AssembleError::NoMajority { present: 1, voters: 2 };
    assert_eq!(start(&[2], [1, 2]), Err(refused.clone()));
    assert_eq!(start(&[2], [0, 2]), Err(refused));
    assert_eq!(start(&[2], [0, 1]), Ok(()));
    assert_eq!(start(&[1, 2], [1, 2]), Ok(()));
}

#[test]
fn a_start_makes_the_newest_table_count_before_the_next() {
    let plan = assemble(&promoted_on(&[2]), AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    let mut written = Vec::new();
    while !out.ops.is_empty() {
        let ops = std::mem::take(&mut out.ops);
        let OpBuffer::Metadata(block) = ops[0].buffer else { panic!("data at the start") };
        let slot = (ops[0].offset / BLOCK) as u8;
        let table = crate::superblock::decode(engine.metadata(block), slot).unwrap().table;
        written.push((table.epoch, table.committed, table.voters));
        ops.iter().for_each(|op| engine.completed(op.tag, OpOutcome::Done, &mut out));
    }
    assert_eq!(written, [(3, 2, 0b011), (4, 3, 0b111), (4, 4, 0b111)]);
}

/// Marks a region in the map of a member that was found.
pub(super) fn mark_alone(found: &mut FoundDevice, set: u8, region: usize) {
    let name = PageName { array: Id([9; 16]), set, page: 0 };
    let bytes = (0..=region).map(|number| if number == region { DIRTY } else { 0 });
    map_page::encode(name, 5, bytes, &mut found.map[BLOCK as usize..2 * BLOCK as usize]);
}

#[test]
fn a_mark_that_one_copy_has_alone_is_on_all_before_the_first_superblock() {
    let mut all = found(RaidLevel::Raid10);
    mark_alone(&mut all[1], 0, 3);
    let plan = assemble(&all, AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    // To the slot that does not hold the newest page.
    let places: Vec<(u8, u64)> = out.ops.iter().map(|op| (op.device, op.offset)).collect();
    assert_eq!(places, [(0, layout::map_slot(0, 1)), (1, layout::map_slot(0, 0))]);
    let ops = complete_all(&mut engine, &mut out);
    let copied = ops.iter().filter(|op| op.buffer.is_copy() && op.device == 1);
    assert_eq!(copied.count(), (1 << 20) / CHUNK as usize);
}

#[test]
fn a_member_that_comes_back_gets_what_its_own_map_names() {
    let own = running(RaidLevel::Raid10).0.table;
    assert_eq!(copied_back(own), [3; (1 << 20) / CHUNK as usize]);
}

#[test]
fn a_member_from_before_the_start_in_which_it_failed_is_rebuilt_whole() {
    let older = found(RaidLevel::Raid10).swap_remove(1).superblock.table;
    let all = copied_back(older);
    assert!(all.is_sorted());
    assert_eq!((all.len(), all[0], all[4095]), (4096, 0, 63));
}

/// Megabytes of a member in which chunks are copied to it, when it comes back with this table.
fn copied_back(own: MemberTable) -> Vec<u64> {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(1, &mut out);
    complete_all(&mut engine, &mut out);
    let mut back = found(RaidLevel::Raid10).swap_remove(1);
    back.superblock.table = own;
    mark_alone(&mut back, 0, 3);
    let superblock = &back.superblock;
    let (id, device_bytes) = (superblock.member, superblock.device_bytes);
    let newcomer = Newcomer { device: 1, device_bytes, id, found: Some(back) };
    engine.add(JoinAs::Member(1), &newcomer, &mut out).unwrap();
    let ops = complete_all(&mut engine, &mut out);
    assert!(engine.status().roles[1].is_read);
    let copies = ops.iter().filter(|op| op.buffer.is_copy());
    let written = copies.filter(|copy| copy.kind == MemberOpKind::Write);
    written.map(|copy| (copy.offset - engine.data_at) >> 20).collect()
}

#[test]
fn level_0_writes_one_copy_without_a_map() {
    let (mut engine, mut out) = running(RaidLevel::Raid0);
    engine.submit(ArrayRequest { length: 2 * CHUNK, ..write(1, 0) }, &mut out).unwrap();
    let ops = complete_all(&mut engine, &mut out);
    assert_eq!(ops.iter().map(|op| op.device).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(answers(&mut out), [1]);
}

/// What a scrub asks for, where these devices differ from the copy that was read.
pub(super) fn scrub_all(
    engine: &mut Engine,
    out: &mut EngineOutput,
    differing: &[u8],
) -> Vec<MemberOp> {
    let mut all = Vec::new();
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            all.push(op);
            let is_compared = op.kind == MemberOpKind::Compare;
            let differs = is_compared && differing.contains(&op.device);
            let outcome = if differs { OpOutcome::Differs } else { OpOutcome::Done };
            engine.completed(op.tag, outcome, out);
        }
    }
    all
}

fn scrub_status(engine: &Engine) -> ArrayScrub {
    engine.status().scrub.unwrap()
}

/// Devices of the operations of a kind.
fn of_kind(ops: &[MemberOp], kind: MemberOpKind) -> Vec<u8> {
    ops.iter().filter(|op| op.kind == kind).map(|op| op.device).collect()
}

#[test]
fn a_scrub_compares_each_chunk_of_each_set_and_writes_nothing() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.scrub(false, &mut out).unwrap();
    assert!(!engine.is_idle());
    assert_eq!(engine.scrub(true, &mut out), Err(OrderError::Scrubbing));
    let ops = scrub_all(&mut engine, &mut out, &[3]);
    let chunks = (1 << 26) / CHUNK as usize;
    let expected = |first, second| [vec![first; chunks], vec![second; chunks]].concat();
    assert_eq!(of_kind(&ops, MemberOpKind::Read), expected(0, 2));
    assert_eq!(of_kind(&ops, MemberOpKind::Compare), expected(1, 3));
    assert_eq!(ops.len(), 4 * chunks);
    let status = scrub_status(&engine);
    assert_eq!((status.done_bytes, status.skipped_bytes), (2 << 26, 0));
    assert_eq!((status.mismatches, status.repaired), (chunks as u64, 0));
    assert_eq!(status.places.len(), 64);
    // The second set has every other chunk of the array.
    assert_eq!(status.places[1], MismatchPlace { offset_bytes: 3 * u64::from(CHUNK), role: 3 });
    assert!(!status.is_running && engine.is_idle());
}

#[test]
fn a_repair_marks_the_region_before_it_writes_the_copy_that_differs() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.scrub(true, &mut out).unwrap();
    let read = out.ops.pop().unwrap();
    assert_eq!((read.device, read.kind), (0, MemberOpKind::Read));
    engine.completed(read.tag, OpOutcome::Done, &mut out);
    let compare = out.ops.pop().unwrap();
    assert_eq!((compare.device, compare.buffer), (1, OpBuffer::Copy(0)));
    engine.completed(compare.tag, OpOutcome::Differs, &mut out);
    let marks = std::mem::take(&mut out.ops);
    assert!(marks.iter().all(|mark| matches!(mark.buffer, OpBuffer::Metadata(_))), "{marks:?}");
    assert_eq!(marks.len(), 2);
    marks.iter().for_each(|mark| engine.completed(mark.tag, OpOutcome::Done, &mut out));
    let write = out.ops.pop().unwrap();
    let expected = (1, MemberOpKind::Write, compare.offset, OpBuffer::Copy(0));
    assert_eq!((write.device, write.kind, write.offset, write.buffer), expected);
    assert!(out.ops.is_empty());
    engine.completed(write.tag, OpOutcome::Done, &mut out);
    scrub_all(&mut engine, &mut out, &[]);
    let status = scrub_status(&engine);
    assert_eq!((status.mismatches, status.repaired), (1, 1));
    assert_eq!(status.places, [MismatchPlace { offset_bytes: 0, role: 1 }]);
}

#[test]
fn a_chunk_is_compared_when_the_write_before_has_ended() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    let marks = std::mem::take(&mut out.ops);
    engine.scrub(false, &mut out).unwrap();
    assert_eq!(out.ops, []);
    marks.iter().for_each(|mark| engine.completed(mark.tag, OpOutcome::Done, &mut out));
    let writes = std::mem::take(&mut out.ops);
    assert_eq!(of_kind(&writes, MemberOpKind::Write), [0, 1]);
    writes.iter().for_each(|write| engine.completed(write.tag, OpOutcome::Done, &mut out));
    assert_eq!(of_kind(&out.ops, MemberOpKind::Read), [0]);
    // And a write that comes now waits for it.
    engine.submit(write(2, 0), &mut out).unwrap();
    assert!(of_kind(&out.ops, MemberOpKind::Write).is_empty());
    scrub_all(&mut engine, &mut out, &[]);
    assert_eq!(answers(&mut out), [1, 2]);
}

/// Completes writes alone, and what follows of them.
fn complete_writes(engine: &mut Engine, out: &mut EngineOutput) {
    while let Some(at) = out.ops.iter().position(|op| op.kind == MemberOpKind::Write) {
        let op = out.ops.remove(at);
        engine.completed(op.tag, OpOutcome::Done, out);
    }
}

#[test]
fn while_there_are_requests_four_of_them_pass_between_two_copies() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let pass = |engine: &mut Engine, out: &mut EngineOutput, tag| {
        engine.submit(write(tag, 1 << 20), out).unwrap();
        complete_writes(engine, out);
        assert_eq!(answers(out), [tag]);
    };
    pass(&mut engine, &mut out, 0);
    engine.scrub(false, &mut out).unwrap();
    // One passes while the first chunk is compared.
    pass(&mut engine, &mut out, 1);
    for kind in [MemberOpKind::Read, MemberOpKind::Compare] {
        let op = out.ops.pop().unwrap();
        assert_eq!((op.kind, out.ops.len()), (kind, 0));
        engine.completed(op.tag, OpOutcome::Done, &mut out);
    }
    for tag in 2..5 {
        assert_eq!(out.ops, [], "before request {tag}");
        pass(&mut engine, &mut out, tag);
    }
    assert_eq!(out.ops, []);
    pass(&mut engine, &mut out, 5);
    assert_eq!(of_kind(&out.ops, MemberOpKind::Read), [0]);
}

#[test]
fn the_larger_a_chunk_the_more_requests_pass() {
    let passes = [4, 16, 20, 64, 1024].map(|kib| copying::pass_of(kib << 10));
    assert_eq!(passes, [4, 4, 5, 16, 256]);
}

#[test]
fn a_scrub_of_level_0_is_refused() {
    let (mut engine, mut out) = running(RaidLevel::Raid0);
    assert_eq!(engine.scrub(true, &mut out), Err(OrderError::NothingToCompare));
    assert_eq!(engine.status().scrub, None);
}

#[test]
fn a_scrub_of_an_array_that_is_closed_is_refused_and_one_that_runs_ends() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.scrub(true, &mut out).unwrap();
    engine.close(&mut out);
    complete_all(&mut engine, &mut out);
    assert!(engine.is_idle());
    assert_eq!(scrub_status(&engine).done_bytes, u64::from(CHUNK));
    assert_eq!(engine.scrub(true, &mut out), Err(OrderError::NoScrub));
}

#[test]
fn a_scrub_waits_until_a_member_is_rebuilt() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.scrub(false, &mut out).unwrap();
    engine.member_failed(1, &mut out);
    let before = found(RaidLevel::Raid10).swap_remove(1).superblock;
    out.ops.retain(|op| op.device != 1);
    while !engine.status().is_settled {
        for op in std::mem::take(&mut out.ops) {
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
    }
    let (id, device_bytes) = (Id([7; 16]), before.device_bytes);
    let newcomer = Newcomer { device: 5, device_bytes, id, found: None };
    engine.add(JoinAs::Member(1), &newcomer, &mut out).unwrap();
    let ops = scrub_all(&mut engine, &mut out, &[]);
    let last_copy = |op: &MemberOp| op.buffer.is_copy() && op.kind == MemberOpKind::Write;
    let rebuilt = ops.iter().rposition(last_copy).unwrap();
    let early = ops[..rebuilt].iter().filter(|op| op.kind == MemberOpKind::Compare).count();
    let late = of_kind(&ops[rebuilt..], MemberOpKind::Compare);
    // One set had one copy in sync when the scrub came to it; at most a chunk of the other was begun.
    assert!(early <= 1 && late.len() >= (1 << 26) / CHUNK as usize - 1, "{early} {}", late.len());
    let status = scrub_status(&engine);
    assert_eq!((status.done_bytes, status.mismatches), (status.all_bytes, 0));
}

#[test]
fn what_is_left_of_a_stopped_scrub_does_not_count_for_the_next() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.scrub(true, &mut out).unwrap();
    engine.stop_scrub();
    assert!(!scrub_status(&engine).is_running);
    engine.scrub(true, &mut out).unwrap();
    let read = out.ops.pop().unwrap();
    engine.completed(read.tag, OpOutcome::Done, &mut out);
    let compare = out.ops.pop().unwrap();
    engine.completed(compare.tag, OpOutcome::Differs, &mut out);
    assert_eq!(of_kind(&out.ops, MemberOpKind::Read), [0]);
    assert_eq!((scrub_status(&engine).done_bytes, scrub_status(&engine).mismatches), (0, 0));
    scrub_all(&mut engine, &mut out, &[]);
    assert_eq!(scrub_status(&engine).done_bytes, 2 << 26);
}

#[test]
fn a_copy_that_cannot_be_read_is_no_mismatch_and_is_written_by_a_repair_alone() {
    for (repair, repaired) in [(false, 0), (true, 1)] {
        let (mut engine, mut out) = running(RaidLevel::Raid10);
        engine.scrub(repair, &mut out).unwrap();
        let read = out.ops.pop().unwrap();
        engine.completed(read.tag, OpOutcome::Done, &mut out);
        let compare = out.ops.pop().unwrap();
        engine.completed(compare.tag, OpOutcome::Error, &mut out);
        let ops = scrub_all(&mut engine, &mut out, &[]);
        let data: Vec<MemberOp> = ops.iter().filter(|op| op.buffer.is_copy()).copied().collect();
        assert_eq!(of_kind(&data, MemberOpKind::Write).len(), repaired);
        let status = scrub_status(&engine);
        let counts = (status.mismatches, status.unreadable, status.repaired);
        assert_eq!(counts, (0, 1, repaired as u64));
        assert_eq!(engine.status().roles[1].state, MemberState::InSync);
    }
}

#[test]
fn a_chunk_whose_first_copy_fails_is_compared_again_with_another() {
    let mut out = EngineOutput::default();
    let plan = assemble(&found_of(RaidLevel::Raid1, 3), AssembleOptions::default()).unwrap();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    complete_all(&mut engine, &mut out);
    engine.scrub(true, &mut out).unwrap();
    let read = out.ops.pop().unwrap();
    engine.completed(read.tag, OpOutcome::Done, &mut out);
    let compares = std::mem::take(&mut out.ops);
    assert_eq!(of_kind(&compares, MemberOpKind::Compare), [1, 2]);
    engine.completed(compares[0].tag, OpOutcome::Differs, &mut out);
    engine.member_failed(0, &mut out);
    engine.completed(compares[1].tag, OpOutcome::Differs, &mut out);
    let ops = scrub_all(&mut engine, &mut out, &[]);
    let first = ops.iter().find(|op| op.buffer.is_copy()).unwrap();
    assert_eq!((first.device, first.kind, first.offset), (1, MemberOpKind::Read, read.offset));
    let status = scrub_status(&engine);
    assert_eq!((status.mismatches, status.done_bytes), (0, status.all_bytes));
}

#[test]
fn a_set_with_one_copy_in_sync_is_left_out() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(3, &mut out);
    complete_all(&mut engine, &mut out);
    engine.scrub(false, &mut out).unwrap();
    let ops = scrub_all(&mut engine, &mut out, &[]);
    assert!(ops.iter().all(|op| op.device < 2));
    let status = scrub_status(&engine);
    assert_eq!((status.done_bytes, status.skipped_bytes), (2 << 26, 1 << 26));
}
