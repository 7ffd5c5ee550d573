//! Large members, last regions, time limits, full queues and ends, event by event.

use super::tests::{CHUNK, answers, complete_all, found, found_of, found_with, running, write};
use super::*;
use crate::map_page::{self, PageName};
use crate::{
    ArrayRequest, AssembleOptions, FoundDevice, Id, MemberOp, MemberOpKind, OpBuffer, RequestKind,
    assemble,
};
use durio_base::RaidLevel;

pub(super) fn started(devices: &[FoundDevice], config: Config) -> (Engine, EngineOutput) {
    let plan = assemble(devices, AssembleOptions::default()).unwrap();
    let mut out = EngineOutput::default();
    let engine = Engine::start(plan, &config, &mut out);
    (engine, out)
}

/// The same, when the first superblocks are stored.
fn settled(devices: &[FoundDevice], config: Config) -> (Engine, EngineOutput) {
    let (mut engine, mut out) = started(devices, config);
    complete_all(&mut engine, &mut out);
    assert!(engine.status().is_running);
    (engine, out)
}

#[test]
fn a_write_marks_the_region_and_the_page_of_its_place_also_beyond_4_gib() {
    let geometry = Geometry {
        level: RaidLevel::Raid10,
        members: 4,
        chunk: CHUNK,
        region: 1 << 20,
        member_bytes: 6 << 30,
    };
    let devices = found_with(geometry);
    // Two blocks of superblocks, then two slots of each of two pages.
    let (chunk, data_at) = (u64::from(CHUNK), 24_576);
    for (set, place, page, index) in [
        (0_u8, 0_u64, 0_u32, 0_usize),
        (0, 4027 << 20, 0, 4027),
        (1, 4028 << 20, 1, 0),
        (1, 5 << 30, 1, 1092),
        (0, (6 << 30) - chunk, 1, 2115),
    ] {
        let (mut engine, mut out) = settled(&devices, Config::default());
        let offset = (place / chunk * 2 + u64::from(set)) * chunk;
        engine.submit(write(1, offset + 8192), &mut out).unwrap();
        let marks = std::mem::take(&mut out.ops);
        // Into the slot that does not hold the newest page.
        let slot = if page == 0 { 12_288 } else { 20_480 };
        let both = [2 * set, 2 * set + 1];
        let places: Vec<(u8, u64)> = marks.iter().map(|mark| (mark.device, mark.offset)).collect();
        assert_eq!(places, both.map(|device| (device, slot)), "{place}");
        let OpBuffer::Metadata(block) = marks[0].buffer else { panic!("{marks:?}") };
        let name = PageName { array: Id([9; 16]), set, page };
        let (_, regions) = map_page::decode(name, engine.metadata(block)).unwrap();
        let marked: Vec<usize> = (0..regions.len()).filter(|&at| regions[at] != 0).collect();
        assert_eq!(marked, [index], "{place}");
        marks.iter().for_each(|mark| engine.completed(mark.tag, OpOutcome::Done, &mut out));
        let written = complete_all(&mut engine, &mut out);
        let written: Vec<_> = written.iter().map(|op| (op.device, op.offset)).collect();
        assert_eq!(written, both.map(|device| (device, data_at + place + 8192)), "{place}");
        assert_eq!((answers(&mut out), engine.status().regions_dirty), (vec![1], 1));
        let read = ArrayRequest { kind: RequestKind::Read, ..write(2, offset + 4096) };
        engine.submit(read, &mut out).unwrap();
        let read = complete_all(&mut engine, &mut out);
        assert_eq!((read.len(), read[0].offset), (1, data_at + place + 4096), "{place}");
        assert!(both.contains(&read[0].device), "{place}");
    }
}

#[test]
fn a_resync_ends_with_the_last_chunk_of_a_region_that_is_not_whole() {
    let chunk = u64::from(CHUNK);
    for (level, members, sets) in [(RaidLevel::Raid1, 3, 1), (RaidLevel::Raid10, 4, 2)] {
        let member_bytes = (2 << 20) + 5 * chunk;
        let mut devices =
            found_with(Geometry { level, members, chunk: CHUNK, region: 1 << 20, member_bytes });
        devices.iter_mut().for_each(|device| device.map.fill(0));
        let (mut engine, mut out) = started(&devices, Config::default());
        assert_eq!(engine.status().regions_unsynced, 3 * u32::from(sets), "{level:?}");
        let ops = complete_all(&mut engine, &mut out);
        let places = |device: u8, kind: MemberOpKind| {
            let is_it =
                |op: &&MemberOp| op.buffer.is_copy() && op.device == device && op.kind == kind;
            let places = ops.iter().filter(is_it).map(|op| op.offset - engine.data_at);
            let mut places: Vec<u64> = places.collect();
            places.sort_unstable();
            places
        };
        let all: Vec<u64> = (0..133).map(|number| number * chunk).collect();
        for device in 0..members {
            let is_first = device % (members / sets) == 0;
            let kind = if is_first { MemberOpKind::Read } else { MemberOpKind::Write };
            assert!(places(device, kind) == all, "{level:?} {device}");
        }
        assert!(ops.iter().all(|op| !op.buffer.is_copy() || op.length == CHUNK), "{level:?}");
        assert_eq!(engine.status().regions_unsynced, 0, "{level:?}");
    }
}

fn tick(engine: &mut Engine, out: &mut EngineOutput, millis: u64) -> u32 {
    engine.tick(Nanos::new(millis * 1_000_000), out);
    complete_all(engine, out);
    engine.status().regions_dirty
}

#[test]
fn a_region_is_cleared_5_to_10_seconds_after_its_last_write_has_ended() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.submit(write(1, 0), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    let dirty = [4999, 5000, 9999, 10_000].map(|millis| tick(&mut engine, &mut out, millis));
    assert_eq!(dirty, [1, 1, 1, 0]);
    // Of two the one that was written again stays.
    for tag in [2, 3] {
        engine.submit(write(tag, tag << 22), &mut out).unwrap();
    }
    complete_all(&mut engine, &mut out);
    assert_eq!(tick(&mut engine, &mut out, 15_000), 2);
    engine.submit(write(4, 2 << 22), &mut out).unwrap();
    complete_all(&mut engine, &mut out);
    let dirty = [20_000, 25_000].map(|millis| tick(&mut engine, &mut out, millis));
    assert_eq!(dirty, [1, 0]);
    // While a write is on its way it is never cleared.
    engine.submit(write(5, 0), &mut out).unwrap();
    let marks = std::mem::take(&mut out.ops);
    marks.iter().for_each(|mark| engine.completed(mark.tag, OpOutcome::Done, &mut out));
    let writes = std::mem::take(&mut out.ops);
    let dirty = [30_000, 35_000, 40_000].map(|millis| tick(&mut engine, &mut out, millis));
    assert_eq!((dirty, writes.len()), ([1; 3], 2));
    writes.iter().for_each(|write| engine.completed(write.tag, OpOutcome::Done, &mut out));
    let dirty = [45_000, 50_000].map(|millis| tick(&mut engine, &mut out, millis));
    assert_eq!(dirty, [1, 0]);
}

fn states(engine: &Engine) -> Vec<MemberState> {
    engine.status().roles.iter().map(|role| role.state).collect()
}

#[test]
fn a_page_of_the_map_that_a_member_owes_for_more_than_30_seconds_fails_that_member() {
    use MemberState::{Faulty, InSync};
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    // Of the second set.
    engine.submit(write(1, u64::from(CHUNK)), &mut out).unwrap();
    let marks = std::mem::take(&mut out.ops);
    assert_eq!(marks.iter().map(|mark| mark.device).collect::<Vec<_>>(), [2, 3]);
    engine.completed(marks[0].tag, OpOutcome::Done, &mut out);
    engine.tick(Nanos::from_secs(30), &mut out);
    complete_all(&mut engine, &mut out);
    assert_eq!((states(&engine), out.answers.len()), (vec![InSync; 4], 0));
    engine.tick(Nanos::new(30_000_000_001), &mut out);
    complete_all(&mut engine, &mut out);
    assert_eq!(states(&engine), [InSync, InSync, InSync, Faulty]);
    assert_eq!(answers(&mut out), [1]);
}

#[test]
fn a_superblock_that_a_member_owes_for_more_than_30_seconds_fails_that_member() {
    use MemberState::{Faulty, InSync};
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(0, &mut out);
    // Member 2 owes the one at its end.
    while !out.ops.is_empty() {
        for op in std::mem::take(&mut out.ops) {
            if op.device != 2 || op.offset < 2 * BLOCK {
                engine.completed(op.tag, OpOutcome::Done, &mut out);
            }
        }
    }
    engine.tick(Nanos::from_secs(30), &mut out);
    assert_eq!(states(&engine), [Faulty, InSync, InSync, InSync]);
    assert!(!engine.status().is_settled);
    engine.tick(Nanos::new(30_000_000_001), &mut out);
    complete_all(&mut engine, &mut out);
    assert_eq!(states(&engine), [Faulty, InSync, Faulty, InSync]);
    let status = engine.status();
    assert_eq!((status.is_settled, status.is_running, status.stopped), (true, true, None));
}

#[test]
fn a_full_engine_takes_the_next_request_when_one_is_answered() {
    let config = Config { requests_max: 3, parts_max: 8, ..Config::default() };
    let (mut engine, mut out) = settled(&found(RaidLevel::Raid0), config);
    let chunk = u64::from(CHUNK);
    let long = |offset, chunks: u32| ArrayRequest { length: chunks * CHUNK, ..write(9, offset) };
    // Nine parts, which there will never be.
    assert_eq!(engine.submit(long(0, 9), &mut out), Err(RequestError::Beyond));
    assert_eq!(engine.submit(long(512, 8), &mut out), Err(RequestError::Beyond));
    assert_eq!(engine.submit(long(0, 8), &mut out), Ok(()));
    assert_eq!(engine.submit(write(1, 0), &mut out), Err(RequestError::Busy));
    complete_all(&mut engine, &mut out);
    assert_eq!(answers(&mut out), [9]);
    for tag in 1..=3 {
        assert_eq!(engine.submit(write(tag, tag * chunk), &mut out), Ok(()));
    }
    assert_eq!(engine.submit(write(4, 0), &mut out), Err(RequestError::Busy));
    let op = out.ops.remove(1);
    engine.completed(op.tag, OpOutcome::Done, &mut out);
    assert_eq!(answers(&mut out), [2]);
    assert_eq!(engine.submit(write(4, 0), &mut out), Ok(()));
    assert_eq!(engine.submit(write(5, 4 * chunk), &mut out), Err(RequestError::Busy));
    complete_all(&mut engine, &mut out);
    let mut answered = answers(&mut out);
    answered.sort_unstable();
    assert_eq!(answered, [1, 3, 4]);
}

#[test]
fn a_request_fails_if_any_of_its_parts_does_whether_it_ends_first_or_last() {
    for bad in 0..4 {
        for is_first in [true, false] {
            let (mut engine, mut out) = running(RaidLevel::Raid0);
            let kind = RequestKind::Read;
            let read = ArrayRequest { kind, length: 4 * CHUNK, ..write(1, 0) };
            engine.submit(read, &mut out).unwrap();
            let mut ops = std::mem::take(&mut out.ops);
            assert_eq!(ops.iter().map(|op| op.device).collect::<Vec<_>>(), [0, 1, 2, 3]);
            let failing = ops.remove(bad);
            ops.insert(if is_first { 0 } else { 3 }, failing);
            for op in &ops {
                assert_eq!(out.answers, []);
                let is_bad = op.tag == failing.tag;
                let outcome = if is_bad { OpOutcome::Error } else { OpOutcome::Done };
                engine.completed(op.tag, outcome, &mut out);
            }
            let results: Vec<_> = out.answers.iter().map(|answer| answer.result).collect();
            assert_eq!(results, [Err(RequestError::Unreadable)], "part {bad} {is_first}");
        }
    }
}

#[test]
fn an_array_that_stops_answers_each_of_its_requests_once() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    engine.member_failed(0, &mut out);
    complete_all(&mut engine, &mut out);
    // Behind marks, behind another, over several chunks, and on its way to a member.
    let kind = RequestKind::Zero;
    for request in [
        write(1, 0),
        write(2, 0),
        write(3, u64::from(CHUNK)),
        ArrayRequest { kind, length: 5 * CHUNK, ..write(4, 1 << 22) },
        ArrayRequest { kind: RequestKind::Read, ..write(5, 1 << 23) },
    ] {
        engine.submit(request, &mut out).unwrap();
    }
    let left = std::mem::take(&mut out.ops);
    engine.member_failed(1, &mut out);
    let mut answered: Vec<_> =
        out.answers.drain(..).map(|answer| (answer.tag, answer.result)).collect();
    answered.sort_unstable_by_key(|answer| answer.0);
    assert_eq!(answered, [1, 2, 3, 4, 5].map(|tag| (tag, Err(RequestError::Stopped))));
    left.iter().for_each(|op| engine.completed(op.tag, OpOutcome::Done, &mut out));
    assert!(out.answers.is_empty() && out.ops.is_empty(), "{out:?}");
    assert!(engine.is_idle() && !engine.status().is_running);
}

#[test]
fn members_that_fail_before_the_others_know_stop_an_array_if_they_are_more_than_half() {
    for (members, failing, stopped) in [
        (2, &[1][..], None),
        (3, &[1], None),
        (3, &[1, 2], Some(StopReason::NoMajority)),
        (4, &[1, 3], None),
        (4, &[1, 2, 3], Some(StopReason::NoMajority)),
    ] {
        let devices = found_of(RaidLevel::Raid1, members);
        let (mut engine, mut out) = settled(&devices, Config::default());
        failing.iter().for_each(|&device| engine.member_failed(device, &mut out));
        complete_all(&mut engine, &mut out);
        assert_eq!(engine.status().stopped, stopped, "{failing:?} of {members}");
        // One after the other they may all go but the last.
        let (mut engine, mut out) = settled(&devices, Config::default());
        for &device in failing {
            engine.member_failed(device, &mut out);
            complete_all(&mut engine, &mut out);
        }
        assert_eq!(engine.status().stopped, None, "{failing:?} of {members}");
    }
}
