//! Reads that fail, event by event.

use super::bound_tests::started;
use super::tests::{CHUNK, answers, complete_all, found, found_of, mark_alone, running, write};
use super::*;
use crate::{ArrayRequest, Id, MemberOp, MemberOpKind, OpBuffer, RequestKind};
use durio_base::RaidLevel;

fn read(tag: u64) -> ArrayRequest {
    ArrayRequest { kind: RequestKind::Read, ..write(tag, 0) }
}

fn newcomer(device: u8) -> Newcomer {
    let device_bytes = found(RaidLevel::Raid1)[0].superblock.device_bytes;
    Newcomer { device, device_bytes, id: Id([device + 100; 16]), found: None }
}

/// Ends the only operation that is on its way with an error.
fn fail_next(engine: &mut Engine, out: &mut EngineOutput) -> MemberOp {
    let op = out.ops.pop().unwrap();
    assert!(out.ops.is_empty(), "{:?}", out.ops);
    engine.completed(op.tag, OpOutcome::Error, out);
    op
}

#[test]
fn a_read_that_fails_is_answered_from_another_copy_and_written_back() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let read = ArrayRequest { kind: RequestKind::Read, ..write(1, 0) };
    engine.submit(read, &mut out).unwrap();
    let op = out.ops.pop().unwrap();
    engine.completed(op.tag, OpOutcome::Error, &mut out);
    let ops = complete_all(&mut engine, &mut out);
    let repair = ops.last().unwrap();
    assert_eq!((repair.device, repair.kind), (op.device, MemberOpKind::Write));
    assert_eq!(answers(&mut out), [1]);
}

#[test]
fn a_member_whose_reads_fail_again_and_again_is_given_up_and_the_last_copy_is_not() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let mut fail_one = |engine: &mut Engine, tag| {
        engine.submit(ArrayRequest { kind: RequestKind::Read, ..write(tag, 0) }, &mut out).unwrap();
        let op = out.ops.pop().unwrap();
        engine.completed(op.tag, OpOutcome::Error, &mut out);
        complete_all(engine, &mut out);
        engine.status().roles[usize::from(op.device)].state
    };
    for tag in 0..20 {
        assert_eq!(fail_one(&mut engine, tag), MemberState::InSync, "{tag}");
    }
    assert_eq!(fail_one(&mut engine, 20), MemberState::Faulty);
    for tag in 21..60 {
        assert_eq!(fail_one(&mut engine, tag), MemberState::InSync, "{tag}");
    }
    let now = |hours: u64| Nanos::from_secs(3600 * hours);
    let (mut engine, mut out) = running(RaidLevel::Raid1);
    engine.read_errors[0] = 20;
    engine.tick(Nanos::new(now(1).get() - 1), &mut out);
    assert_eq!(engine.read_errors[0], 20);
    engine.tick(now(1), &mut out);
    assert_eq!(engine.read_errors[0], 10);
    engine.tick(now(2), &mut out);
    assert_eq!(engine.read_errors[0], 5);
}

#[test]
fn when_no_copy_can_be_read_the_user_is_told_and_the_array_goes_on() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(read(1), &mut out).unwrap();
    let first = fail_next(&mut engine, &mut out);
    let second = fail_next(&mut engine, &mut out);
    assert_ne!(first.device, second.device);
    assert_eq!(out.answers.pop().unwrap().result, Err(RequestError::Unreadable));
    assert!(out.ops.is_empty() && engine.status().is_running);
    // What is written there can be read again.
    engine.submit(write(2, 0), &mut out).unwrap();
    engine.submit(read(3), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [2, 3]);
}

#[test]
fn a_third_copy_answers_when_two_fail_and_both_are_written() {
    let (mut engine, mut out) = running(RaidLevel::Raid1);
    engine.submit(read(1), &mut out).unwrap();
    let failed = [(); 2].map(|()| fail_next(&mut engine, &mut out).device);
    let ops = complete_all(&mut engine, &mut out);
    let is_repair = |op: &&MemberOp| {
        matches!(op.buffer, OpBuffer::Request { .. }) && op.kind == MemberOpKind::Write
    };
    let repaired: Vec<u8> = ops.iter().filter(is_repair).map(|op| op.device).collect();
    assert_eq!((repaired, answers(&mut out)), (failed.to_vec(), vec![1]));
}

#[test]
fn a_copy_that_cannot_be_written_back_is_given_up_and_the_read_is_answered() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(read(1), &mut out).unwrap();
    let failed = fail_next(&mut engine, &mut out);
    let other = out.ops.pop().unwrap();
    engine.completed(other.tag, OpOutcome::Done, &mut out);
    // The mark of the region, then the repair.
    let is_repair = |op: &MemberOp| matches!(op.buffer, OpBuffer::Request { .. });
    while !out.ops.iter().any(is_repair) {
        let op = out.ops.remove(0);
        engine.completed(op.tag, OpOutcome::Done, &mut out);
    }
    let repair = out.ops.remove(out.ops.iter().position(is_repair).unwrap());
    assert_eq!((repair.device, repair.kind), (failed.device, MemberOpKind::Write));
    engine.completed(repair.tag, OpOutcome::Error, &mut out);
    assert!(out.answers.is_empty(), "answered before the others know");
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [1]);
    assert_eq!(engine.status().roles[usize::from(failed.device)].state, MemberState::Faulty);
}

#[test]
fn a_member_is_not_in_sync_that_lacks_what_could_not_be_read() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(1, &mut out);
    complete_all(&mut engine, &mut out);
    let device_bytes = super::tests::found(RaidLevel::Raid10)[0].superblock.device_bytes;
    let newcomer = Newcomer { device: 7, device_bytes, id: Id([70; 16]), found: None };
    engine.add(JoinAs::Member(1), &newcomer, &mut out).unwrap();
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            let is_source = op.kind == MemberOpKind::Read && op.buffer.is_copy();
            let is_bad = is_source && op.offset > 32 << 20;
            engine.completed(
                op.tag,
                if is_bad { OpOutcome::Error } else { OpOutcome::Done },
                &mut out,
            );
        }
    }
    let status = engine.status();
    assert_eq!(
        (status.roles[1].state, status.roles[0].state),
        (MemberState::Faulty, MemberState::InSync)
    );
    assert!(status.is_running && !status.roles[1].is_read);
}

#[test]
fn a_member_is_not_in_sync_whose_set_has_a_region_that_could_not_be_resynced() {
    use MemberState::{Faulty, InSync};
    let expected = [(0, [Faulty, InSync, InSync, InSync], 1, 4096), (2, [InSync; 4], 0, 4160)];
    for (rebuilt, states, read_from, copied) in expected {
        let mut all = found(RaidLevel::Raid10);
        let mut table = all[0].superblock.table.clone();
        table.entries[rebuilt].state = MemberState::Rebuilding;
        table.voters = in_sync(&table);
        for (at, device) in all.iter_mut().enumerate() {
            device.superblock.table = table.clone();
            let (set, region) = if at < 2 { (0, 3) } else { (1, 5) };
            mark_alone(device, set, region);
        }
        let (mut engine, mut out) = started(&all, Config::default());
        assert_eq!(engine.status().regions_unsynced, 2);
        let mut writes = 0;
        while !out.ops.is_empty() {
            for op in std::mem::take(&mut out.ops) {
                let is_data = op.buffer.is_copy();
                writes += u32::from(
                    is_data && op.kind == MemberOpKind::Write && usize::from(op.device) == rebuilt,
                );
                // Of the region of the first set; the rebuild can read it afterwards.
                let is_bad = is_data
                    && op.kind == MemberOpKind::Read
                    && op.device < 2
                    && engine.status().regions_unsynced == 2;
                let outcome = if is_bad { OpOutcome::Error } else { OpOutcome::Done };
                engine.completed(op.tag, outcome, &mut out);
            }
        }
        let status = engine.status();
        assert_eq!(status.roles.iter().map(|role| role.state).collect::<Vec<_>>(), states);
        assert_eq!((status.is_running, status.regions_unsynced), (true, 0));
        assert_eq!(writes, copied, "chunks written to member {rebuilt}");
        // Its copies still differ: the one that was read there before is read.
        engine.submit(ArrayRequest { offset: 6 << 20, ..read(1) }, &mut out).unwrap();
        assert_eq!(out.ops.iter().map(|op| op.device).collect::<Vec<_>>(), [read_from]);
        complete_all(&mut engine, &mut out);
        assert_eq!(answers(&mut out), [1]);
    }
}

#[test]
fn a_rebuild_writes_also_the_copy_that_it_could_not_read() {
    let (mut engine, mut out) = started(&found_of(RaidLevel::Raid1, 3), Config::default());
    complete_all(&mut engine, &mut out);
    engine.member_failed(2, &mut out);
    complete_all(&mut engine, &mut out);
    engine.add(JoinAs::Member(2), &newcomer(7), &mut out).unwrap();
    let mut sources = Vec::new();
    let mut writes = Vec::new();
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            let sixth = engine.data_at + 5 * u64::from(CHUNK);
            let is_of_sixth = op.buffer.is_copy() && op.offset == sixth;
            let mut outcome = OpOutcome::Done;
            if is_of_sixth && op.kind == MemberOpKind::Read {
                sources.push(op.device);
                outcome = if op.device == 0 { OpOutcome::Error } else { OpOutcome::Done };
            } else if is_of_sixth {
                writes.push((op.device, op.kind));
            }
            engine.completed(op.tag, outcome, &mut out);
        }
    }
    assert_eq!(sources, [0, 1]);
    assert_eq!(writes, [(0, MemberOpKind::Write), (7, MemberOpKind::Write)]);
    assert_eq!(engine.read_errors[..3], [1, 0, 0]);
    assert!(engine.status().roles.iter().all(|role| role.is_read));
}

#[test]
fn a_drive_in_the_place_of_one_with_many_read_errors_has_20_of_its_own() {
    for is_spare in [false, true] {
        let (mut engine, mut out) = running(RaidLevel::Raid10);
        if is_spare {
            engine.add(JoinAs::Spare, &newcomer(7), &mut out).unwrap();
            complete_all(&mut engine, &mut out);
        }
        let fail_one = |engine: &mut Engine, out: &mut EngineOutput, tag| {
            engine.submit(read(tag), out).unwrap();
            let failed = fail_next(engine, out).device;
            complete_all(engine, out);
            assert_eq!(answers(out), [tag]);
            failed
        };
        for tag in 0..21 {
            assert_eq!(engine.status().roles[0].state, MemberState::InSync, "{tag}");
            assert_eq!(fail_one(&mut engine, &mut out, tag), 0);
        }
        assert!(engine.status().roles[0].device != Some(0));
        if !is_spare {
            engine.add(JoinAs::Member(0), &newcomer(7), &mut out).unwrap();
        }
        // The copies let users pass first, until it is plain that there are none.
        engine.tick(Nanos::from_secs(1), &mut out);
        complete_all(&mut engine, &mut out);
        for tag in 21..42 {
            let role = engine.status().roles[0];
            assert_eq!((role.device, role.is_read), (Some(7), true), "{is_spare} {tag}");
            assert_eq!(fail_one(&mut engine, &mut out, tag), 7);
        }
        assert_eq!(engine.status().roles[0].state, MemberState::Faulty, "{is_spare}");
    }
}

#[test]
fn a_member_of_stripes_is_given_up_at_the_21st_error_and_not_where_it_is_needed() {
    for (failed, at_last) in [(None, MemberState::Faulty), (Some(3), MemberState::InSync)] {
        let (mut engine, mut out) = running(RaidLevel::Raid5);
        failed.into_iter().for_each(|device| engine.member_failed(device, &mut out));
        complete_all(&mut engine, &mut out);
        for tag in 0..21 {
            assert_eq!(engine.status().roles[0].state, MemberState::InSync, "{failed:?} {tag}");
            engine.submit(read(tag), &mut out).unwrap();
            assert_eq!(fail_next(&mut engine, &mut out).device, 0);
            complete_all(&mut engine, &mut out);
            // Its parity is away, if a member is.
            let answer = out.answers.pop().unwrap();
            assert_eq!(answer.result.is_ok(), failed.is_none(), "{tag}");
        }
        let status = engine.status();
        assert_eq!((status.roles[0].state, status.stopped), (at_last, None), "{failed:?}");
    }
}

#[test]
fn errors_where_copies_may_differ_do_not_count_and_the_copy_that_is_read_stays() {
    let mut all = found(RaidLevel::Raid10);
    [0, 1].into_iter().for_each(|device| mark_alone(&mut all[device], 0, 3));
    let (mut engine, mut out) = started(&all, Config::default());
    // Copies stay on their way, so the region stays as it is.
    let pass = |engine: &mut Engine, out: &mut EngineOutput, errors: &mut u32| {
        while !out.ops.is_empty() {
            for op in std::mem::take(&mut out.ops) {
                let is_read = op.device == 0 && op.kind == MemberOpKind::Read;
                if op.buffer.is_copy() {
                    continue;
                }
                let fails = is_read && *errors > 0;
                *errors -= u32::from(fails);
                let outcome = if fails { OpOutcome::Error } else { OpOutcome::Done };
                engine.completed(op.tag, outcome, out);
            }
        }
    };
    pass(&mut engine, &mut out, &mut 0);
    assert_eq!(engine.status().regions_unsynced, 1);
    // The ninth chunk of region 3 of the first set.
    let offset = (6 << 20) + 16 * u64::from(CHUNK);
    for tag in 0..40 {
        let read = ArrayRequest { kind: RequestKind::Read, ..write(tag, offset) };
        engine.submit(read, &mut out).unwrap();
        // As a whole, and then the only piece of it.
        let mut errors = 2;
        pass(&mut engine, &mut out, &mut errors);
        assert_eq!((answers(&mut out), errors), (vec![tag], 0));
    }
    assert_eq!(engine.status().roles[0].state, MemberState::InSync);
    assert_eq!(engine.read_errors[0], 0);
}
