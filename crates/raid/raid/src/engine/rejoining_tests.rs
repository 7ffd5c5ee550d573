//! Devices that come back or are refused, and rebuilds that go on, event by event.

use super::bound_tests::started;
use super::output::{OpOwner, TagFields};
use super::tests::{CHUNK, complete_all, found, found_of, mark_alone, running};
use super::*;
use crate::{Damage, FoundDevice, Id, MemberEntry, MemberOp, MemberOpKind, OpBuffer};
use durio_base::RaidLevel;

/// Member 1 of level 10 as it was when it failed.
fn away() -> (Engine, EngineOutput, FoundDevice) {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let mut back = found(RaidLevel::Raid10).swap_remove(1);
    back.superblock.table = engine.table.clone();
    engine.member_failed(1, &mut out);
    complete_all(&mut engine, &mut out);
    (engine, out, back)
}

fn newcomer(back: FoundDevice) -> Newcomer {
    let (id, device_bytes) = (back.superblock.member, back.superblock.device_bytes);
    Newcomer { device: 1, device_bytes, id, found: Some(back) }
}

fn of_found(newcomer: &mut Newcomer) -> &mut FoundDevice {
    newcomer.found.as_mut().unwrap()
}

#[test]
fn a_device_that_cannot_be_a_member_is_refused_with_the_reason() {
    let (engine, _, back) = away();
    let refused = |what, change: &dyn Fn(&mut Newcomer)| {
        let mut newcomer = newcomer(back.clone());
        change(&mut newcomer);
        engine.refuse_newcomer(what, &newcomer).err()
    };
    let member = JoinAs::Member(1);
    assert_eq!(refused(member, &|_| {}), None);
    assert_eq!(refused(member, &|device| device.device_bytes += 1), None);
    assert_eq!(refused(member, &|device| device.device_bytes -= 1), Some(OrderError::TooSmall));
    let array = |device: &mut Newcomer| of_found(device).superblock.table.array = Id([8; 16]);
    assert_eq!(refused(member, &array), Some(OrderError::Foreign));
    // It has gone on by itself, for one epoch or for many.
    let lineage = |device: &mut Newcomer| of_found(device).superblock.table.lineage ^= 1;
    assert_eq!(refused(member, &lineage), Some(OrderError::Diverged));
    let epoch = |device: &mut Newcomer| of_found(device).superblock.table.epoch += 100;
    assert_eq!(refused(member, &epoch), Some(OrderError::Diverged));
    let damage = Damage::Truncated { has: 1, says: 2 };
    let damaged = |device: &mut Newcomer| of_found(device).damage = Some(damage);
    assert_eq!(refused(member, &damaged), Some(OrderError::Damaged(damage)));
    for other in [0, 2, 3] {
        let id = engine.table.entries[other].member;
        assert_eq!(refused(member, &|device| device.id = id), Some(OrderError::Doubled), "{other}");
    }
    for role in [0, 2, 4, 255] {
        assert_eq!(refused(JoinAs::Member(role), &|_| {}), Some(OrderError::Taken), "{role}");
    }
    assert_eq!(refused(JoinAs::Spare, &|_| {}), Some(OrderError::Taken));
    // As a replacement it would be itself twice.
    assert_eq!(refused(JoinAs::Replacement(0), &|_| {}), Some(OrderError::Doubled));
    let (mut unsettled, mut out) = running(RaidLevel::Raid10);
    unsettled.member_failed(1, &mut out);
    let refused = unsettled.refuse_newcomer(member, &newcomer(back.clone()));
    assert_eq!(refused, Err(OrderError::NotRunning));
    unsettled.member_failed(0, &mut out);
    assert_eq!(unsettled.status().stopped, Some(StopReason::LastCopy(0)));
    assert_eq!(unsettled.refuse_newcomer(member, &newcomer(back)), Err(OrderError::NotRunning));
}

fn owner(op: &MemberOp) -> OpOwner {
    TagFields::unpack(op.tag).unwrap().owner
}

#[test]
fn a_member_that_comes_back_keeps_its_newest_superblock_and_page_until_the_next_are_whole() {
    // The last two blocks of a member of this size, which has grown since.
    let end = 67_125_248;
    for (slot, is_marked, places, page) in [
        (0, false, [4096, end + 4096, 0, end], 12_288),
        (0, true, [4096, end + 4096, 0, end], 8192),
        (1, false, [0, end, 4096, end + 4096], 12_288),
        (1, true, [0, end, 4096, end + 4096], 8192),
    ] {
        let (mut engine, mut out, mut back) = away();
        back.slot = slot;
        back.superblock.table.revision = 500;
        if is_marked {
            // In the second slot of the only page.
            mark_alone(&mut back, 0, 3);
        }
        let grown = Newcomer { device_bytes: end + (1 << 20), ..newcomer(back) };
        engine.add(JoinAs::Member(1), &grown, &mut out).unwrap();
        let ops = complete_all(&mut engine, &mut out);
        let of = |kind: OpOwner| {
            let own = ops.iter().filter(move |op| op.device == 1 && owner(op) == kind);
            own.map(|op| op.offset).collect::<Vec<u64>>()
        };
        assert_eq!(of(OpOwner::Superblock)[..4], places, "slot {slot}");
        assert_eq!(of(OpOwner::Page)[0], page, "marked: {is_marked}");
        assert!(engine.table.revision > 500 && engine.status().roles[1].is_read);
    }
}

#[test]
fn a_watermark_is_stored_each_16_mib_and_never_ahead_of_what_is_copied() {
    let config = Config { watermark_every: 16 << 20, ..Config::default() };
    let (mut engine, mut out) = started(&found(RaidLevel::Raid10), config);
    complete_all(&mut engine, &mut out);
    engine.member_failed(1, &mut out);
    complete_all(&mut engine, &mut out);
    let device_bytes = found(RaidLevel::Raid10)[1].superblock.device_bytes;
    let newcomer = Newcomer { device: 7, device_bytes, id: Id([70; 16]), found: None };
    engine.add(JoinAs::Member(1), &newcomer, &mut out).unwrap();
    let (mut copied, mut stored) = (0, Vec::new());
    while !out.ops.is_empty() {
        let op = out.ops.remove(0);
        let is_copy = op.buffer.is_copy() && op.kind == MemberOpKind::Write;
        copied += if is_copy { u64::from(CHUNK) } else { 0 };
        engine.completed(op.tag, OpOutcome::Done, &mut out);
        let entry = engine.table.entries[1];
        let rebuilt = engine.status().roles[1].rebuilt;
        assert!(entry.watermark <= copied && rebuilt <= copied, "{copied}: {rebuilt} {entry:?}");
        assert!(entry.state == MemberState::Rebuilding || copied == 1 << 26, "{copied}");
        if let (OpOwner::Superblock, OpBuffer::Metadata(block)) = (owner(&op), op.buffer) {
            // The first slot of each pair is at the begin.
            let slot = (op.offset / BLOCK) as u8;
            if op.offset < 2 * BLOCK && op.device == 0 {
                let of_slot = crate::superblock::decode(engine.metadata(block), slot);
                stored.extend(of_slot.map(|superblock| superblock.table.entries[1].watermark));
            }
        }
    }
    stored.dedup();
    stored.retain(|&watermark| watermark > 0);
    assert_eq!(stored[..3], [16 << 20, 32 << 20, 48 << 20]);
    let role = engine.status().roles[1];
    assert_eq!((role.state, role.is_read, role.rebuilt), (MemberState::InSync, true, 1 << 26));
}

/// The last member is being rebuilt, up to 48 of its 64 MiB.
fn half_rebuilt(level: RaidLevel, members: u8) -> Vec<FoundDevice> {
    let mut devices = found_of(level, members);
    let mut table = devices[0].superblock.table.clone();
    let last = usize::from(members) - 1;
    let (state, watermark) = (MemberState::Rebuilding, 48 << 20);
    table.entries[last] = MemberEntry { state, watermark, ..table.entries[last] };
    table.voters = in_sync(&table);
    devices.iter_mut().for_each(|device| device.superblock.table = table.clone());
    devices
}

#[test]
fn a_rebuild_goes_on_from_its_watermark_and_with_stripes_also_copies_what_was_marked_below() {
    for (level, members, marked) in
        [(RaidLevel::Raid1, 3, None), (RaidLevel::Raid5, 4, None), (RaidLevel::Raid5, 4, Some(3))]
    {
        let mut devices = half_rebuilt(level, members);
        if let Some(region) = marked {
            devices.iter_mut().for_each(|device| mark_alone(device, 0, region));
        }
        let (mut engine, mut out) = started(&devices, Config::default());
        let ops = complete_all(&mut engine, &mut out);
        let is_copy = |op: &&MemberOp| {
            let is_data = op.buffer.is_copy() || matches!(op.buffer, OpBuffer::Stripe { .. });
            is_data && op.kind == MemberOpKind::Write && op.device == members - 1
        };
        let places = ops.iter().filter(is_copy).map(|op| (op.offset - engine.data_at) >> 20);
        let mut places: Vec<u64> = places.collect();
        assert_eq!(places.len() % 64, 0, "{level:?}: 64 chunks in each MiB");
        places.dedup();
        let expected: Vec<u64> =
            marked.map(|region| region as u64).into_iter().chain(48..64).collect();
        assert_eq!(places, expected, "{level:?}");
        assert!(engine.status().roles.iter().all(|role| role.is_read), "{level:?}");
    }
}

#[test]
fn a_new_drive_in_the_place_of_one_that_was_half_rebuilt_gets_everything() {
    for (level, members) in [(RaidLevel::Raid1, 3), (RaidLevel::Raid5, 4)] {
        let devices = half_rebuilt(level, members);
        let (mut engine, mut out) = started(&devices, Config::default());
        while !engine.status().is_running {
            let op = out.ops.remove(0);
            engine.completed(op.tag, OpOutcome::Done, &mut out);
        }
        let last = members - 1;
        engine.member_failed(last, &mut out);
        out.ops.retain(|op| op.device != last);
        complete_all(&mut engine, &mut out);
        assert_eq!(engine.status().roles[usize::from(last)].state, MemberState::Faulty);
        let device_bytes = devices[0].superblock.device_bytes;
        let newcomer = Newcomer { device: 9, device_bytes, id: Id([70; 16]), found: None };
        engine.add(JoinAs::Member(last), &newcomer, &mut out).unwrap();
        let ops = complete_all(&mut engine, &mut out);
        let is_copy = |op: &&MemberOp| {
            let is_data = op.buffer.is_copy() || matches!(op.buffer, OpBuffer::Stripe { .. });
            is_data && op.kind == MemberOpKind::Write && op.device == 9
        };
        let places = ops.iter().filter(is_copy).map(|op| op.offset - engine.data_at);
        let mut places: Vec<u64> = places.collect();
        places.sort_unstable();
        let all: Vec<u64> = (0..4096).map(|number| number * u64::from(CHUNK)).collect();
        assert!(places == all, "{level:?}: {} chunks", places.len());
        assert!(engine.status().roles.iter().all(|role| role.is_read), "{level:?}");
    }
}

#[test]
fn a_spare_that_is_lost_is_no_member_any_more_and_the_others_stay() {
    let (mut engine, mut out) = running(RaidLevel::Raid10);
    let device_bytes = found(RaidLevel::Raid10)[0].superblock.device_bytes;
    for device in [7, 8] {
        let id = Id([device + 100; 16]);
        let newcomer = Newcomer { device, device_bytes, id, found: None };
        engine.add(JoinAs::Spare, &newcomer, &mut out).unwrap();
        complete_all(&mut engine, &mut out);
    }
    engine.member_failed(7, &mut out);
    complete_all(&mut engine, &mut out);
    let roles = engine.status().roles;
    let devices: Vec<_> = roles.iter().map(|role| role.device).collect();
    assert_eq!(devices, [Some(0), Some(1), Some(2), Some(3), Some(8)]);
    assert_eq!(roles[4].state, MemberState::Spare);
    assert!(roles[..4].iter().all(|role| role.is_read));
    // The one that is left takes a place.
    engine.member_failed(2, &mut out);
    complete_all(&mut engine, &mut out);
    let role = engine.status().roles[2];
    assert_eq!((role.device, role.is_read), (Some(8), true));
}
