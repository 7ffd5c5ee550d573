//! Stripes whose parities stand for nothing, event by event.

use super::tests::{
    CHUNK, answers, complete_all, found, found_of, mark_alone, running, scrub_all, write,
};
use super::*;
use crate::log_entry::LogEntry;
use crate::{
    ArrayRequest, AssembleOptions, FoundDevice, Id, MemberOp, MemberOpKind, OpBuffer, RequestKind,
    assemble,
};
use durio_base::RaidLevel;
use durio_observe::MismatchPlace;

/// Level 5 of four members: the first stripe has its parity on member 3, its first chunk on member 0. Parities were
/// never made, and member 0 has failed.
fn unsynced_without_the_first() -> (Engine, EngineOutput) {
    let mut all = found(RaidLevel::Raid5);
    all.iter_mut().for_each(|device| device.map.fill(0));
    let plan = assemble(&all, AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    while !engine.status().is_running {
        for op in std::mem::take(&mut out.ops) {
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
    }
    engine.member_failed(0, &mut out);
    complete_all(&mut engine, &mut out);
    (engine, out)
}

#[test]
fn a_write_that_nobody_could_read_is_not_acknowledged() {
    let (mut engine, mut out) = unsynced_without_the_first();
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    let answer = out.answers.pop().unwrap();
    assert_eq!(answer.result, Err(RequestError::Unreadable));
    // A chunk whose member is here is written and read as ever.
    engine.submit(write(2, CHUNK_OF_MEMBER_1), &mut out).unwrap();
    let read = ArrayRequest { kind: RequestKind::Read, ..write(3, CHUNK_OF_MEMBER_1) };
    engine.submit(read, &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [2, 3]);
}

const CHUNK_OF_MEMBER_1: u64 = super::tests::CHUNK as u64;

#[test]
fn a_write_whose_member_fails_under_it_is_not_acknowledged_where_no_parity_has_it() {
    let mut all = found(RaidLevel::Raid5);
    all.iter_mut().for_each(|device| device.map.fill(0));
    let plan = assemble(&all, AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    // In the last region, which is resynced last.
    let request = write(1, engine.size() - 3 * CHUNK_OF_MEMBER_1);
    engine.submit(request, &mut out).unwrap();
    let (stripe, offset) = (engine.geometry.stripe((1 << 26) - 1), (1 << 26) - CHUNK_OF_MEMBER_1);
    let own = stripe.member(0);
    let is_it = |op: &MemberOp| {
        let is_write = op.kind == MemberOpKind::Write && op.device == own;
        is_write && matches!(op.buffer, OpBuffer::Request { .. }) && op.offset > offset
    };
    while !out.ops.iter().any(is_it) {
        for op in std::mem::take(&mut out.ops) {
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
    }
    engine.member_failed(own, &mut out);
    complete_all(&mut engine, &mut out);
    assert_eq!(out.answers.pop().unwrap().result, Err(RequestError::Unreadable));
}

#[test]
fn what_a_member_has_is_not_replaced_by_what_no_parity_stands_for() {
    let (mut engine, mut out) = unsynced_without_the_first();
    let back = found(RaidLevel::Raid5).swap_remove(0);
    let (id, device_bytes) = (back.superblock.member, back.superblock.device_bytes);
    let newcomer = Newcomer { device: 0, device_bytes, id, found: Some(back) };
    engine.add(JoinAs::Member(0), &newcomer, &mut out).unwrap();
    let ops = complete_all(&mut engine, &mut out);
    let is_copy = |op: &&MemberOp| {
        op.device == 0
            && matches!(op.buffer, OpBuffer::Stripe { .. })
            && op.kind == MemberOpKind::Write
    };
    assert_eq!(ops.iter().filter(is_copy).count(), 0);
    assert_eq!(engine.status().roles[0].state, MemberState::Faulty);
}

/// Member 1 is away, a write of the first chunk was on its way, and that chunk cannot be read.
fn start_that_reads_an_error(force: bool) -> (Engine, EngineOutput) {
    let mut all: Vec<FoundDevice> = found(RaidLevel::Raid5);
    let (array, member) = (Id([9; 16]), all[3].superblock.member);
    let (epoch, number, offset, length) = (1, 1, 0, 4096);
    let entry = LogEntry { array, member, epoch, number, offset, length, column: 0, parity: 0 };
    all[3].log.entries.push(entry);
    mark_alone(&mut all[3], 0, 0);
    all.remove(1);
    let options = AssembleOptions { force, ..AssembleOptions::default() };
    let plan = assemble(&all, options).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    let is_read = |op: &MemberOp| op.device == 0 && op.kind == MemberOpKind::Read;
    let at = out.ops.iter().position(is_read).unwrap();
    let op = out.ops.remove(at);
    engine.completed(op.tag, OpOutcome::Error, &mut out);
    complete_all(&mut engine, &mut out);
    (engine, out)
}

#[test]
fn a_sector_that_cannot_be_read_does_not_end_each_start() {
    let (engine, _) = start_that_reads_an_error(false);
    assert_eq!(engine.status().stopped, Some(StopReason::LastStripe(0)));
    let (mut engine, mut out) = start_that_reads_an_error(true);
    let status = engine.status();
    assert_eq!((status.stopped, status.is_running), (None, true));
    // What the parity stands for is not known there, and elsewhere it is.
    let read = |tag, offset| ArrayRequest { kind: RequestKind::Read, ..write(tag, offset) };
    engine.submit(read(1, CHUNK_OF_MEMBER_1), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(out.answers.pop().unwrap().result, Err(RequestError::Unreadable));
    engine.submit(read(2, 12 << 20), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [2]);
}

#[test]
fn a_parity_whose_replay_loses_its_chunk_is_made_from_the_other_parity() {
    // The first stripe has P on member 3, Q on member 0, and its first chunk on member 1.
    let mut all: Vec<FoundDevice> = found(RaidLevel::Raid6);
    let (array, epoch, number, offset, length) = (Id([9; 16]), 1, 6, 8192, 4096);
    for (at, parity) in [(0, 1), (3, 0)] {
        let member = all[at].superblock.member;
        let entry = LogEntry { array, member, epoch, number, offset, length, column: 0, parity };
        all[at].log.entries.push(entry);
    }
    mark_alone(&mut all[3], 0, 0);
    let plan = assemble(&all, AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let mut engine = Engine::start(plan, &Config::default(), &mut out);
    let data = engine.data_at + offset;
    let partial = layout::log_slot(&engine.geometry, 0) + BLOCK;
    let (mut replayed, mut reads_of_chunk) = (Vec::new(), 0);
    while !engine.status().is_running && !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            if matches!(op.buffer, OpBuffer::Stripe { .. }) {
                replayed.push((op.device, op.kind, op.offset));
            }
            reads_of_chunk += u32::from((op.device, op.offset) == (1, data));
            // The one for Q, when P is right.
            let is_bad = (op.device, op.offset, reads_of_chunk) == (1, data, 2);
            let outcome = if is_bad { OpOutcome::Error } else { OpOutcome::Done };
            engine.completed(op.tag, outcome, &mut out);
        }
    }
    use MemberOpKind::{Read, Write};
    let of_p = [(1, Read, data), (3, Read, partial), (3, Write, data)];
    let begun = [(1, Read, data), (0, Read, partial)];
    let of_q = [(3, Read, data), (0, Read, partial), (3, Read, partial), (0, Write, data)];
    assert_eq!(replayed, [&of_p[..], &begun, &of_q].concat());
    assert!(engine.status().is_running);
    assert_eq!(engine.status().roles[1].state, MemberState::Faulty);
}

#[test]
fn a_small_write_reads_as_few_chunks_as_it_can_then_logs_and_then_writes() {
    for (level, members, reads, logs, writes) in [
        (RaidLevel::Raid5, 3, 1, 1, 2),
        (RaidLevel::Raid5, 4, 2, 1, 2),
        (RaidLevel::Raid5, 16, 2, 1, 2),
        (RaidLevel::Raid6, 4, 1, 2, 3),
        (RaidLevel::Raid6, 5, 2, 2, 3),
        (RaidLevel::Raid6, 6, 3, 2, 3),
        (RaidLevel::Raid6, 16, 3, 2, 3),
    ] {
        let plan = assemble(&found_of(level, members), AssembleOptions::default()).unwrap();
        let mut out = EngineOutput::default();
        let mut engine = Engine::start(plan, &Config::default(), &mut out);
        engine.submit(write(1, 0), &mut out).unwrap();
        complete_all(&mut engine, &mut out);
        engine.submit(write(2, 8192), &mut out).unwrap();
        let ops = complete_all(&mut engine, &mut out);
        let kinds: Vec<_> = ops.iter().map(|op| op.kind).collect();
        let of = |kind: MemberOpKind, count: usize| vec![kind; count];
        let expected = [
            of(MemberOpKind::Read, reads),
            of(MemberOpKind::Log, logs),
            of(MemberOpKind::Write, writes),
        ];
        assert_eq!(kinds, expected.concat(), "{level:?} of {members}");
        assert!(ops.iter().all(|op| op.length == 4096));
        assert_eq!(answers(&mut out), [1, 2]);
    }
}

#[test]
fn a_scrub_of_stripes_compares_each_parity_and_names_the_stripe_and_the_member_of_a_wrong_one() {
    for (level, wrong, second, compared) in
        [(RaidLevel::Raid5, 1024, 12, 4096), (RaidLevel::Raid6, 2048, 2, 8192)]
    {
        for repair in [false, true] {
            let (mut engine, mut out) = running(level);
            engine.scrub(repair, &mut out).unwrap();
            let begun = engine.status().scrub.unwrap();
            assert_eq!((begun.is_running, begun.done_bytes, begun.all_bytes), (true, 0, 1 << 26));
            // Of four members the last has P of each fourth stripe, and Q of the one after it.
            let ops = scrub_all(&mut engine, &mut out, &[3]);
            let compares = ops.iter().filter(|op| op.kind == MemberOpKind::Compare);
            assert_eq!(compares.count(), compared, "{level:?}");
            let status = engine.status().scrub.unwrap();
            let repaired = if repair { wrong } else { 0 };
            let found = (status.mismatches, status.repaired, status.unreadable);
            assert_eq!(found, (wrong, repaired, 0), "{level:?}");
            let offset = second * u64::from(CHUNK);
            let places = [
                MismatchPlace { offset_bytes: 0, role: 3 },
                MismatchPlace { offset_bytes: offset, role: 3 },
            ];
            assert_eq!((&status.places[..2], status.places.len()), (&places[..], 64), "{level:?}");
            assert_eq!(
                (status.is_running, status.done_bytes, status.skipped_bytes),
                (false, 1 << 26, 0)
            );
        }
        // Without a member nothing tells data and parity apart.
        let (mut engine, mut out) = running(level);
        engine.member_failed(1, &mut out);
        complete_all(&mut engine, &mut out);
        engine.scrub(false, &mut out).unwrap();
        assert!(complete_all(&mut engine, &mut out).is_empty(), "{level:?}");
        let status = engine.status().scrub.unwrap();
        assert_eq!(
            (status.is_running, status.done_bytes, status.skipped_bytes),
            (false, 1 << 26, 1 << 26)
        );
    }
}
