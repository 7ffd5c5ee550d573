//! Replacements and spares, event by event.

use super::tests::{CHUNK, answers, complete_all, found, running, write};
use super::*;
use crate::superblock::{self, MemberTable};
use crate::{Id, MemberOpKind, OpBuffer};
use durio_base::RaidLevel;

fn newcomer(device: u8) -> Newcomer {
    let device_bytes = found(RaidLevel::Raid1)[0].superblock.device_bytes;
    Newcomer { device, device_bytes, id: Id([device + 100; 16]), found: None }
}

fn add(engine: &mut Engine, what: JoinAs, device: u8) -> Result<(), OrderError> {
    engine.refuse_newcomer(what, &newcomer(device))?;
    engine.add(what, &newcomer(device), &mut EngineOutput::default())
}

/// Completes all up to the end; each table that was written, once.
fn tables(engine: &mut Engine, out: &mut EngineOutput) -> Vec<MemberTable> {
    let mut tables: Vec<MemberTable> = Vec::new();
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            // The first slot of each pair is at the begin.
            if let (OpBuffer::Metadata(block), 0..2) = (op.buffer, op.offset / BLOCK) {
                let slot = (op.offset / BLOCK) as u8;
                let table = superblock::decode(engine.metadata(block), slot).unwrap().table;
                if tables.last().is_none_or(|last| last.revision < table.revision) {
                    tables.push(table);
                }
            }
            engine.completed(op.tag, OpOutcome::Done, out);
        }
    }
    tables
}

#[test]
fn the_old_member_is_in_sync_until_a_table_with_the_new_one_in_sync_counts() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.add(JoinAs::Replacement(1), &newcomer(7), &mut out).unwrap();
    let tables = tables(&mut engine, &mut out);
    let old = found(RaidLevel::Raid10)[1].superblock.member;
    let state_of = |table: &MemberTable, member: Id| {
        table.entries.iter().find(|entry| entry.member == member).map(|entry| entry.state)
    };
    use MemberState::{Faulty, InSync, Rebuilding};
    let states = tables.iter().map(|table| (state_of(table, old), state_of(table, Id([107; 16]))));
    let mut states: Vec<_> = states.collect();
    states.dedup();
    let expected = [
        (Some(InSync), Some(Rebuilding)),
        (Some(InSync), Some(InSync)),
        (Some(Faulty), Some(InSync)),
        (None, Some(InSync)),
    ];
    assert_eq!(states, expected);
    // Each change is a table of its own, on one that counts, with the votes of that: in the last, the
    // new member's has moved with it.
    let first = |at: usize| {
        let table = tables
            .iter()
            .find(|table| (state_of(table, old), state_of(table, Id([107; 16]))) == expected[at]);
        table.map(|table| (table.epoch - table.committed, table.voters)).unwrap()
    };
    assert_eq!([1, 2, 3].map(first), [(1, 0b01111), (1, 0b11111), (1, 0b01111)]);
    let status = engine.status();
    assert_eq!((status.roles[1].device, status.roles[1].is_read), (Some(7), true));
    assert_eq!(status.roles.len(), 4);
    assert!(engine.is_idle());
}

#[test]
fn a_write_goes_to_the_old_and_to_the_new_and_a_read_not_to_the_new() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    engine.add(JoinAs::Replacement(0), &newcomer(7), &mut out).unwrap();
    while engine.sets[0].writable.count_ones() < 3 || out.ops.iter().any(is_metadata) {
        for op in std::mem::take(&mut out.ops) {
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
    }
    out.ops.clear();
    engine.submit(write(2, 1 << 20), &mut out).unwrap();
    // Its region is marked.
    let writes = out.ops.iter().filter(|op| op.length == 4096 && !is_metadata(op));
    assert_eq!(writes.map(|op| op.device).collect::<Vec<_>>(), [0, 1, 7]);
    let kind = crate::RequestKind::Read;
    for tag in 3..9 {
        out.ops.clear();
        engine.submit(crate::ArrayRequest { kind, ..write(tag, tag << 20) }, &mut out).unwrap();
        assert!(out.ops.iter().all(|op| op.device != 7), "{:?}", out.ops);
    }
}

fn is_metadata(op: &crate::MemberOp) -> bool {
    matches!(op.buffer, OpBuffer::Metadata(_))
}

#[test]
fn a_replacement_that_fails_is_dropped_and_the_old_one_stays() {
    let (mut engine, mut out) = running(RaidLevel::Raid1);
    engine.add(JoinAs::Replacement(2), &newcomer(7), &mut out).unwrap();
    engine.member_failed(7, &mut out);
    assert!(out.has_lost);
    complete_all(&mut engine, &mut out);
    let status = engine.status();
    assert_eq!(status.roles.len(), 4);
    assert!(status.roles.iter().all(|role| role.is_read));
    // And another may begin.
    add(&mut engine, JoinAs::Replacement(2), 8).unwrap();
}

#[test]
fn if_the_old_one_fails_the_new_one_goes_on_from_where_it_is() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.add(JoinAs::Replacement(0), &newcomer(7), &mut out).unwrap();
    let half = 1 << 25;
    while engine.status().roles[4].rebuilt < half {
        for op in std::mem::take(&mut out.ops) {
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
    }
    out.ops.retain(|op| op.device != 0);
    engine.member_failed(0, &mut out);
    let ops = complete_all(&mut engine, &mut out);
    let copies = ops.iter().filter(|op| op.buffer.is_copy());
    let copied =
        copies.filter(|op| op.kind == MemberOpKind::Write && op.device == 7).count() as u64;
    let left = ((1 << 26) - half) / u64::from(CHUNK);
    assert!(copied <= left + 1, "{copied} of {left}");
    assert_eq!(engine.status().roles[0].device, Some(7));
    assert!(engine.status().roles[0].is_read);
}

#[test]
fn what_cannot_be_replaced_or_be_a_spare_is_refused() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(3, &mut out);
    complete_all(&mut engine, &mut out);
    assert_eq!(add(&mut engine, JoinAs::Replacement(3), 7), Err(OrderError::NotInSync));
    assert_eq!(add(&mut engine, JoinAs::Replacement(4), 7), Err(OrderError::NotInSync));
    add(&mut engine, JoinAs::Replacement(0), 7).unwrap();
    assert_eq!(add(&mut engine, JoinAs::Replacement(1), 8), Err(OrderError::Replaced));
    assert_eq!(add(&mut engine, JoinAs::Replacement(2), 7), Err(OrderError::Doubled));
    for device in 8..15 {
        add(&mut engine, JoinAs::Spare, device).unwrap();
    }
    assert_eq!(add(&mut engine, JoinAs::Spare, 15), Err(OrderError::Full));
    assert_eq!(add(&mut engine, JoinAs::Replacement(2), 15), Err(OrderError::Full));
    let (mut striped, _) = running(RaidLevel::Raid0);
    assert_eq!(add(&mut striped, JoinAs::Spare, 7), Err(OrderError::OneCopy));
}

#[test]
fn a_spare_that_was_added_takes_the_role_of_a_member_that_fails() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.add(JoinAs::Spare, &newcomer(7), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(engine.status().roles[4].state, MemberState::Spare);
    engine.member_failed(2, &mut out);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [1]);
    assert_eq!(engine.status().roles[2].device, Some(7));
    // The copies let more users pass first, until it is plain that there are none.
    assert!(!engine.status().roles[2].is_read);
    engine.tick(Nanos::from_secs(1), &mut out);
    complete_all(&mut engine, &mut out);
    assert!(engine.status().roles[2].is_read && engine.status().roles.len() == 4);
}

#[test]
fn a_rebuild_lets_users_pass_between_two_copies() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(1, &mut out);
    complete_all(&mut engine, &mut out);
    engine.add(JoinAs::Member(1), &newcomer(7), &mut out).unwrap();
    // Whoever is answered asks for the next write at once.
    let (mut copies, mut writes) = (0, 0);
    engine.submit(write(0, 1 << 20), &mut out).unwrap();
    while writes < 40 {
        let op = out.ops.remove(0);
        copies += u32::from(op.buffer.is_copy() && op.kind == MemberOpKind::Write);
        engine.completed(op.tag, OpOutcome::Done, &mut out);
        for tag in answers(&mut out) {
            writes += 1;
            engine.submit(write(tag + 1, 1 << 20), &mut out).unwrap();
        }
    }
    assert!((8..=10).contains(&copies), "{copies} copies beside 40 writes");
    complete_all(&mut engine, &mut out);
    engine.tick(Nanos::from_secs(1), &mut out);
    complete_all(&mut engine, &mut out);
    assert!(engine.status().roles[1].is_read);
}

#[test]
fn a_scrub_waits_for_the_copies_of_a_rebuild_whose_member_failed() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(1, &mut out);
    complete_all(&mut engine, &mut out);
    engine.add(JoinAs::Member(1), &newcomer(7), &mut out).unwrap();
    // Until several copies are on their way.
    while out.ops.iter().filter(|op| op.buffer.is_copy()).count() < 8 {
        let op = out.ops.remove(0);
        engine.completed(op.tag, OpOutcome::Done, &mut out);
    }
    engine.scrub(true, &mut out).unwrap();
    engine.member_failed(7, &mut out);
    out.ops.retain(|op| op.device != 7);
    let mut compared = 0;
    // The latest first, so that slots become free in any order.
    while let Some(op) = out.ops.pop() {
        compared += u32::from(op.kind == MemberOpKind::Compare);
        assert!(op.kind != MemberOpKind::Compare || op.buffer == OpBuffer::Copy(0), "{op:?}");
        engine.completed(op.tag, OpOutcome::Done, &mut out);
    }
    let status = engine.status().scrub.unwrap();
    assert_eq!((status.is_running, status.done_bytes), (false, status.all_bytes));
    // Of the other set.
    assert_eq!(compared, (1 << 26) / CHUNK);
}

#[test]
fn the_only_copy_of_level_0_is_replaced() {
    let (mut engine, mut out) = running(RaidLevel::Raid0);
    engine.add(JoinAs::Replacement(3), &newcomer(7), &mut out).unwrap();
    let ops = complete_all(&mut engine, &mut out);
    let written = ops.iter().filter(|op| op.buffer.is_copy() && op.device == 7);
    assert_eq!(written.count(), (1 << 26) / CHUNK as usize);
    assert_eq!(engine.status().roles[3].device, Some(7));
    assert_eq!(engine.status().stopped, None);
}
