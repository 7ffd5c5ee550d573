//! What a server does to its members, operation by operation: whether writes are durable, what becomes of a
//! request when a part of it fails, what stands in superblocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

use durio_base::RaidLevel;
use durio_block::{MemberAction, WriteFlags};
use durio_nbd::{Command, Refusal, Request, Storage};

use super::tests::{CHUNK, GEOMETRY, Members, carry_out, pattern, read, state, wait_until, write};
use super::*;
use crate::superblock::decode;
use crate::{
    AssembleOptions, BLOCK, Engine, EngineOutput, Geometry, Id, JoinAs, Member, MemberOp,
    MemberOpKind, MemberState, Newcomer, OpBuffer, assemble, create, layout,
};

const DURABLE: MemberAction = MemberAction::Write(WriteFlags::Dsync);

/// What an operation is for.
fn purpose(op: &MemberOp, device_bytes: u64) -> &'static str {
    let is_superblock =
        (0..4).any(|slot| layout::superblock_slot(device_bytes, slot) == Some(op.offset));
    match (op.kind, op.buffer) {
        (MemberOpKind::Read | MemberOpKind::Compare, _) => "read",
        (MemberOpKind::Zero, _) => "zeroes",
        (MemberOpKind::Log, _) => "entry of the log",
        (_, OpBuffer::Metadata(_)) if is_superblock => "superblock",
        (_, OpBuffer::Metadata(_)) => "page of the map",
        (_, OpBuffer::Request { .. }) => "data",
        (_, OpBuffer::Copy(_)) => "background copy",
        (_, OpBuffer::Stripe { .. }) => "chunk of a stripe",
        (_, OpBuffer::None) => "nothing",
    }
}

/// Writes, zeroes, loses a member and takes it back; what its members were asked for.
fn life(level: RaidLevel, members: u8) -> Option<BTreeMap<&'static str, BTreeSet<String>>> {
    let members_of = Members::with(Geometry { level, members, ..GEOMETRY });
    let devices: Vec<u8> = (0..members).collect();
    let server = members_of.serve_by(1, &devices)?;
    let handle = server.handle();
    let mut connection = handle.connect();
    let device_bytes = members_of.open(0).metadata().unwrap().len();
    wait_until(&handle, |status| status.engine.is_running);
    write(connection.as_mut(), 512, &pattern(3 * CHUNK as usize, 1)).unwrap();
    let zeroes = Command::WriteZeroes {
        offset: 0,
        length: 2 * u64::from(CHUNK),
        fua: false,
        no_hole: false,
    };
    super::tests::carry_out(connection.as_mut(), zeroes).unwrap();
    if level != RaidLevel::Raid0 {
        handle.fail(1).unwrap();
        write(connection.as_mut(), 0, &pattern(4 * CHUNK as usize, 2)).unwrap();
        wait_until(&handle, |status| status.engine.is_settled && status.devices[1].in_flight == 0);
        let found = members_of.find(1);
        let newcomer =
            Newcomer { device: 1, device_bytes, id: found.superblock.member, found: Some(found) };
        handle.add(JoinAs::Member(1), newcomer).unwrap();
        wait_until(&handle, |status| {
            state(status, 1) == MemberState::InSync && status.engine.roles[1].is_read
        });
    }
    read(connection.as_mut(), 0, 4096);
    drop(connection);
    let shared = Arc::clone(&handle.0);
    server.stop().unwrap();
    let mut seen: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (op, action) in shared.probe.take() {
        seen.entry(purpose(&op, device_bytes)).or_default().insert(format!("{action:?}"));
    }
    Some(seen)
}

#[test]
fn every_write_to_a_member_is_durable_whatever_it_is_for() {
    let data = ["data", "zeroes", "superblock"];
    for (level, members, others) in [
        (RaidLevel::Raid0, 3, &[][..]),
        (RaidLevel::Raid1, 3, &["page of the map", "background copy"]),
        (RaidLevel::Raid10, 4, &["page of the map", "background copy"]),
        (RaidLevel::Raid5, 3, &["page of the map", "entry of the log", "chunk of a stripe"]),
        (RaidLevel::Raid6, 5, &["page of the map", "entry of the log", "chunk of a stripe"]),
    ] {
        let Some(seen) = life(level, members) else { return };
        let durable = BTreeSet::from([format!("{DURABLE:?}")]);
        let reads = BTreeSet::from(["Read".to_owned()]);
        let expected: BTreeMap<_, _> = data
            .iter()
            .chain(others)
            .map(|&purpose| (purpose, durable.clone()))
            .chain([("read", reads)])
            .collect();
        assert_eq!(seen, expected, "{level:?}");
    }
}

/// Each chunk in turn, so the piece that fails is the first, one in the middle, and the last.
#[test]
fn a_request_fails_if_one_of_its_pieces_does_and_its_neighbours_in_the_batch_do_not() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    let (chunk, data_at) = (u64::from(CHUNK), members.data_at);
    let data = pattern(6 * CHUNK as usize, 4);
    write(connection.as_mut(), 0, &data).unwrap();
    for (round, bad) in (1..).zip([0, 2, 3]) {
        handle
            .0
            .probe
            .fail(move |op| op.kind == MemberOpKind::Read && op.offset == data_at + bad * chunk);
        let (mut long, mut of_bad, mut other) =
            (vec![0; 4 * CHUNK as usize], vec![0; 512], vec![0; 2 * CHUNK as usize]);
        let commands = [
            Command::Read { offset: 0, into: &mut long },
            Command::Read { offset: bad * chunk, into: &mut of_bad },
            Command::Read { offset: 4 * chunk, into: &mut other },
            Command::Write { offset: 5 * chunk, data: &data[5 * CHUNK as usize..], fua: true },
        ];
        let mut batch = commands.map(|command| Request { command, outcome: Err(Refusal::Gone) });
        connection.carry_out(&mut batch);
        let outcomes = batch.map(|request| request.outcome);
        assert_eq!(outcomes, [Err(Refusal::Io), Err(Refusal::Io), Ok(()), Ok(())], "chunk {bad}");
        assert!(other == data[4 * CHUNK as usize..], "chunk {bad}");
        // Two requests need it, and each asks both copies.
        let status = handle.status().unwrap();
        assert_eq!([status.devices[0].errors, status.devices[1].errors], [2 * round; 2]);
        assert_eq!([state(&status, 0), state(&status, 1)], [MemberState::InSync; 2]);
    }
    handle.0.probe.fail(|_| false);
    assert!(read(connection.as_mut(), 0, data.len()) == data);
    server.stop().unwrap();
}

/// Without a second copy that is asked next, the piece that fails is done before the others.
#[test]
fn a_piece_that_fails_first_fails_its_request_though_the_others_are_read() {
    let members = Members::with(Geometry { level: RaidLevel::Raid0, ..GEOMETRY });
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    let (chunk, data_at) = (u64::from(CHUNK), members.data_at);
    write(connection.as_mut(), 0, &pattern(6 * CHUNK as usize, 4)).unwrap();
    for bad in 0..6 {
        let (device, offset) = ((bad % 2) as u8, data_at + bad / 2 * chunk);
        handle.0.probe.fail(move |op| (op.device, op.offset) == (device, offset));
        let mut into = vec![0; 6 * CHUNK as usize];
        let all = Command::Read { offset: 0, into: &mut into };
        assert_eq!(carry_out(connection.as_mut(), all), Err(Refusal::Io), "chunk {bad}");
    }
    server.stop().unwrap();
}

#[test]
fn a_transfer_that_ends_early_is_a_failed_one() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    let data = pattern(CHUNK as usize, 4);
    write(connection.as_mut(), 0, &data).unwrap();
    // Of 16 KiB the first member has 12 KiB left.
    members.open(0).set_len(members.data_at + 12_288).unwrap();
    for _ in 0..2 {
        assert!(read(connection.as_mut(), 0, data.len()) == data);
    }
    let status = handle.status().unwrap();
    assert!(status.devices[0].errors > 0 && status.devices[1].errors == 0, "{status:?}");
    server.stop().unwrap();
}

#[test]
fn a_write_that_one_copy_refuses_is_answered_when_the_other_has_it_and_knows_of_the_loss() {
    let members = Members::new();
    let Some(server) = members.serve(&[0, 1]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    write(connection.as_mut(), 0, &pattern(512, 1)).unwrap();
    let data_at = members.data_at;
    handle.0.probe.take();
    handle
        .0
        .probe
        .fail(move |op| op.device == 1 && op.kind == MemberOpKind::Write && op.offset == data_at);
    write(connection.as_mut(), 0, &pattern(512, 2)).unwrap();
    let status = handle.status().unwrap();
    assert_eq!([state(&status, 0), state(&status, 1)], [MemberState::InSync, MemberState::Faulty]);
    assert_eq!([status.devices[0].errors, status.devices[1].errors], [0, 1]);
    assert_eq!([status.devices[0].is_used, status.devices[1].is_used], [true, false]);
    // Both ends of the copy that is left say so, on the disk, before the answer.
    let newest = members.find(0).superblock.table;
    assert_eq!(newest.entries[1].state, MemberState::Faulty);
    let device_bytes = members.open(0).metadata().unwrap().len();
    let seen = handle.0.probe.take();
    let superblocks = seen.iter().filter(|(op, _)| purpose(op, device_bytes) == "superblock");
    let superblocks: Vec<_> = superblocks.map(|(op, _)| (op.device, op.offset)).collect();
    let ends = superblocks[..2].iter().map(|(_, offset)| *offset > members.data_at);
    assert_eq!(ends.collect::<Vec<_>>(), [false, true]);
    assert!(superblocks.iter().all(|(device, _)| *device == 0), "{superblocks:?}");
    drop(connection);
    server.stop().unwrap();
}

/// All four slots of a device; those that hold no superblock are an error.
fn slots(file: &File) -> [Result<crate::Superblock, crate::SuperblockError>; 4] {
    let device_bytes = file.metadata().unwrap().len();
    [0, 1, 2, 3].map(|slot| {
        let mut block = vec![0; BLOCK as usize];
        let place = layout::superblock_slot(device_bytes, slot).unwrap();
        file.read_exact_at(&mut block, place).unwrap();
        decode(&block, slot)
    })
}

#[test]
fn all_four_superblocks_of_an_added_member_are_its_own_and_those_of_the_others_follow() {
    let members = Members::new();
    let Some(server) = members.serve(&[0]) else { return };
    let handle = server.handle();
    write(handle.connect().as_mut(), 0, &pattern(100 * 1024, 5)).unwrap();
    let file = File::create_new(members.path(5)).unwrap();
    // Not as long as the others: the slots at its end are elsewhere.
    let device_bytes = members.open(0).metadata().unwrap().len() + 3 * BLOCK + 77;
    file.set_len(device_bytes).unwrap();
    // A member of another array, in all of its slots.
    let foreign = Members::new();
    for slot in 0..4 {
        let place = layout::superblock_slot(device_bytes, slot).unwrap();
        let mut block = vec![0; BLOCK as usize];
        foreign.open(1).read_exact_at(&mut block, u64::from(slot % 2) * BLOCK).unwrap();
        file.write_all_at(&block, place).unwrap();
    }
    make_blank(&file, device_bytes, &GEOMETRY).unwrap();
    assert!(slots(&file).iter().all(|slot| *slot == Err(crate::SuperblockError::Missing)));
    handle.open(&members.member(5)).unwrap();
    let newcomer = Newcomer { device: 5, device_bytes, id: Id([5; 16]), found: None };
    handle.add(JoinAs::Member(1), newcomer).unwrap();
    wait_until(&handle, |status| status.engine.roles[1].is_read && status.engine.is_settled);
    server.stop().unwrap();
    for (device, id) in [(0, Id([1; 16])), (5, Id([5; 16]))] {
        let all = slots(&members.open(device)).map(Result::unwrap);
        assert!(
            all.iter()
                .all(|superblock| superblock.member == id && superblock.table.array == Id([9; 16])),
            "{device}"
        );
        // Both ends have the same, and the pairs are written in turn.
        let revisions = all.each_ref().map(|superblock| superblock.table.revision);
        assert_eq!([revisions[0], revisions[1]], [revisions[2], revisions[3]], "{device}");
        assert_eq!(revisions[0].abs_diff(revisions[1]), 1, "{device}: {revisions:?}");
        let newest = all.iter().max_by_key(|superblock| superblock.table.revision).unwrap();
        let states = newest.table.entries.iter().map(|entry| (entry.member, entry.state));
        let expected = [(Id([1; 16]), MemberState::InSync), (Id([5; 16]), MemberState::InSync)];
        assert_eq!(states.collect::<Vec<_>>(), expected, "{device}");
    }
}

#[test]
fn the_limits_of_a_server_are_these() {
    let Config { requests_max, parts_max, timeout, clear_after, watermark_every, .. } =
        Config::default();
    assert_eq!((requests_max, parts_max), (256, 1024));
    assert_eq!((timeout.get(), clear_after.get()), (30_000_000_000, 5_000_000_000));
    assert_eq!(watermark_every, 67_108_864);
    assert_eq!((DEVICES_MAX, THREADS_MAX), (64, 64));
    assert_eq!(super::array::TICK, Duration::from_millis(250));
}

/// Three pages of the map: 10 240 regions of 4 KiB.
const PAGES: Geometry = Geometry {
    level: RaidLevel::Raid10,
    members: 4,
    chunk: 4096,
    region: 4096,
    member_bytes: 40 << 20,
};

#[test]
fn marks_in_each_page_of_a_map_are_counted_and_the_next_start_finds_them() {
    let members = Members::with(PAGES);
    let marked = || [0, 1, 2, 3].map(|device| marked_regions(&members.find(device)));
    let Some(server) = members.serve(&[0, 1, 2, 3]) else { return };
    let handle = server.handle();
    let mut connection = handle.connect();
    // Chunks go over the sets in turn. The first and the last region of pages, and of the set.
    let second = [0_u64, 4027, 4028, 8055, 8056, 10_239].map(|region| region * 2 + 1);
    for chunk in second.into_iter().chain([80]) {
        write(connection.as_mut(), chunk * 4096, &pattern(512, 1)).unwrap();
    }
    assert_eq!(marked(), [1, 1, 6, 6]);
    // As if the power went now.
    let found: Vec<_> = (0..4).map(|device| members.find(device)).collect();
    drop(connection);
    server.stop().unwrap();
    assert_eq!(marked(), [0; 4]);
    for (devices, unsynced) in [(&found[..], 7), (&found[1..], 7)] {
        let plan = assemble(devices, AssembleOptions::default()).unwrap();
        let mut out = EngineOutput::default();
        let engine = Engine::start(plan, &Config::default(), &mut out);
        assert_eq!(engine.status().regions_unsynced, unsynced);
    }
}

#[test]
fn all_pages_of_a_map_are_left_unsynced_and_nothing_else_of_a_new_member() {
    let data_at = layout::data_at(&PAGES, layout::DATA_ALIGNMENT);
    let device_bytes = layout::device_bytes(&PAGES, data_at);
    let members = [1, 2, 3, 4].map(|number| Member { id: Id([number; 16]), device_bytes });
    let created = create(Id([9; 16]), "test", PAGES, layout::DATA_ALIGNMENT, &members).unwrap();
    for before in &created {
        let mut blocks = before.clone();
        leave_unsynced(&mut blocks, &PAGES);
        assert_eq!((blocks.len(), before.len()), (10, 10), "six of the map, four superblocks");
        for ((place, block), (_, old)) in blocks.iter().zip(before) {
            let is_map = (8192..32_768).contains(place);
            let is_kept = if is_map { block.iter().all(|&byte| byte == 0) } else { block == old };
            assert!(is_kept, "{place}");
        }
    }
}

#[test]
fn a_device_is_made_blank_in_its_superblocks_and_its_whole_map_alone() {
    let data_at = layout::data_at(&PAGES, layout::DATA_ALIGNMENT);
    let device_bytes = layout::device_bytes(&PAGES, data_at) + 77;
    let folder = tempfile::tempdir().unwrap();
    let file = File::create_new(folder.path().join("device")).unwrap();
    file.set_len(device_bytes).unwrap();
    // The begin, as far as data; and the end.
    let end = device_bytes - 77 - 4 * BLOCK;
    for place in [0, end] {
        file.write_all_at(&[0xff; 64 << 10], place).unwrap();
    }
    make_blank(&file, device_bytes, &PAGES).unwrap();
    let are_blank = |place: u64| {
        let mut bytes = vec![1; 64 << 10];
        file.read_exact_at(&mut bytes, place).unwrap();
        let is_zero = |block: &[u8]| {
            let zeros = block.iter().filter(|&&byte| byte == 0).count();
            assert!(zeros == 0 || zeros == block.len());
            zeros > 0
        };
        bytes.chunks(BLOCK as usize).map(is_zero).collect::<Vec<bool>>()
    };
    let begin = are_blank(0);
    let blank: Vec<usize> = (0..16).filter(|&block| begin[block]).collect();
    assert_eq!(blank, [0, 1, 2, 3, 4, 5, 6, 7]);
    let tail = are_blank(end);
    let blank: Vec<usize> = (0..16).filter(|&block| tail[block]).collect();
    assert_eq!(blank, [2, 3]);
}
