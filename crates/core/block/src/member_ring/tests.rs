//! The ring with files as members: data, errors, buffers that are asked back early, wakes.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;

use super::*;

const LENGTH: usize = 4096;
const LENGTH_WORD: u32 = 4096;
const WHOLE: i32 = 4096;
const LONG: Duration = Duration::from_secs(60);

/// A ring over files of four blocks; none where the kernel has no io_uring.
fn ring(files: &[File]) -> Option<MemberRing> {
    let waker = RingWaker::new().unwrap();
    // A ring without a place more would be the same as one with.
    let mut ring = match MemberRing::new(3, 8, waker) {
        Ok(ring) => ring,
        Err(error) => {
            crate::testkit::note_skip("member_ring", &error);
            return None;
        }
    };
    for (member, file) in (0..).zip(files) {
        ring.set_member(member, Some((file.try_clone().unwrap().into(), None))).unwrap();
    }
    Some(ring)
}

fn files() -> [File; 2] {
    [(); 2].map(|()| {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * LENGTH as u64).unwrap();
        file
    })
}

fn filled(byte: u8) -> Buffers {
    let mut buffer = Buffers::new(1, LENGTH);
    buffer.slot_mut(0).fill(byte);
    buffer
}

fn operation(member: u32, action: MemberAction, tag: u32) -> MemberOperation {
    MemberOperation { member, action, offset: LENGTH as u64, length: LENGTH_WORD, tag }
}

/// Results by tag.
fn wait_for(ring: &mut MemberRing, count: usize) -> Vec<(u32, i32)> {
    let mut completions = Vec::new();
    while completions.len() < count {
        ring.exchange(LONG, &mut completions).unwrap();
    }
    let mut results: Vec<_> =
        completions.iter().map(|completion| (completion.tag, completion.result)).collect();
    results.sort_unstable();
    results
}

const DURABLE: MemberAction = MemberAction::Write(WriteFlags::Dsync);

#[test]
fn buffers_whose_pages_the_kernel_keeps_carry_data_as_any_others_do() {
    let files = files();
    let Some(mut ring) = ring(&files) else { return };
    let mut buffers: Vec<_> = ring.buffers(3, LENGTH).unwrap().collect();
    assert!(ring.registered.is_some(), "the kernel did not take them");
    buffers[1].slot_mut(0).fill(9);
    let [_, written, read] = buffers.try_into().unwrap();
    let (written, read) = (ring.lend(written), ring.lend(read));
    ring.push(operation(0, DURABLE, 1), Some(&written)).unwrap();
    assert_eq!(wait_for(&mut ring, 1), [(1, WHOLE)]);
    ring.push(operation(0, MemberAction::Read, 2), Some(&read)).unwrap();
    assert_eq!(wait_for(&mut ring, 1), [(2, WHOLE)]);
    let mut bytes = [0; LENGTH];
    files[0].read_exact_at(&mut bytes, LENGTH as u64).unwrap();
    assert_eq!((bytes[0], bytes[LENGTH - 1]), (9, 9));
    // The memory of all of them is one allocation: each is still its own after the others are gone.
    drop(ring.take_back(written));
    assert!(ring.take_back(read).unwrap().slot(0).iter().all(|&byte| byte == 9));
}

#[test]
fn one_buffer_goes_to_several_members_and_comes_back() {
    let files = files();
    let Some(mut ring) = ring(&files) else { return };
    let lent = ring.lend(filled(7));
    ring.push(operation(0, DURABLE, 10), Some(&lent)).unwrap();
    ring.push(operation(1, DURABLE, 11), Some(&lent)).unwrap();
    assert_eq!(ring.in_flight(), 2);
    assert_eq!(wait_for(&mut ring, 2), [(10, WHOLE), (11, WHOLE)]);
    assert!(ring.take_back(lent).is_some());
    for file in &files {
        let mut bytes = [0; 3 * LENGTH];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes[LENGTH..2 * LENGTH].iter().all(|&byte| byte == 7));
        assert!(bytes[..LENGTH].iter().chain(&bytes[2 * LENGTH..]).all(|&byte| byte == 0));
    }
    let lent = ring.lend(filled(1));
    ring.push(operation(1, MemberAction::Read, 12), Some(&lent)).unwrap();
    ring.push(operation(0, MemberAction::Flush, 13), None).unwrap();
    assert_eq!(wait_for(&mut ring, 2), [(12, WHOLE), (13, 0)]);
    assert_eq!(ring.take_back(lent).unwrap().slot(0), [7; LENGTH]);
}

#[test]
fn more_operations_than_the_ring_holds_all_end() {
    let files = files();
    let Some(mut ring) = ring(&files) else { return };
    let lent = ring.lend(filled(9));
    for tag in 0..100_u32 {
        ring.push(operation(tag % 2, DURABLE, tag), Some(&lent)).unwrap();
    }
    let results = wait_for(&mut ring, 100);
    assert!(results.iter().all(|result| result.1 == WHOLE), "{results:?}");
    assert!(ring.take_back(lent).is_some());
}

#[test]
fn errors_are_results_and_a_member_that_is_gone_is_one() {
    let [file, mut short] = files();
    short.set_len(0).unwrap();
    short.write_all(&[3; 100]).unwrap();
    let read_only = File::open("/dev/null").unwrap();
    let Some(mut ring) = ring(&[file, short, read_only]) else { return };
    let lent = ring.lend(filled(0));
    let at_begin =
        |member, tag| MemberOperation { offset: 0, ..operation(member, MemberAction::Read, tag) };
    // A file that has shrunk, one that may not be written to, one that was taken away.
    ring.push(at_begin(1, 1), Some(&lent)).unwrap();
    ring.push(operation(2, DURABLE, 2), Some(&lent)).unwrap();
    ring.set_member(0, None).unwrap();
    ring.push(operation(0, DURABLE, 3), Some(&lent)).unwrap();
    assert_eq!(wait_for(&mut ring, 3), [(1, 100), (2, -libc::EBADF), (3, -libc::EBADF)]);
    assert!(ring.take_back(lent).is_some());
}

/// A pipe answers a read only when somebody writes: a member that hangs.
#[test]
fn a_buffer_that_is_asked_back_early_is_kept_until_its_operation_has_ended() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let Some(mut ring) = ring(&[]) else { return };
    ring.set_member(0, Some((reader.into(), None))).unwrap();
    let lent = ring.lend(filled(0));
    let hangs =
        MemberOperation { length: 5, offset: u64::MAX, ..operation(0, MemberAction::Read, 1) };
    ring.push(hangs, Some(&lent)).unwrap();
    let mut completions = Vec::new();
    ring.exchange(Duration::ZERO, &mut completions).unwrap();
    assert!(completions.is_empty() && ring.take_back(lent).is_none());
    // Its place is not given to another meanwhile.
    let other = ring.lend(filled(1));
    ring.set_member(0, None).unwrap();
    writer.write_all(b"hello").unwrap();
    assert_eq!(wait_for(&mut ring, 1), [(1, 5)]);
    assert_eq!(ring.take_back(other).unwrap().slot(0), [1; LENGTH]);
    assert_eq!(ring.in_flight(), 0);
}

#[test]
fn a_member_that_hangs_for_ever_can_be_abandoned() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let Some(mut ring) = ring(&[]) else { return };
    ring.set_member(0, Some((reader.into(), None))).unwrap();
    let lent = ring.lend(filled(0));
    let hangs = MemberOperation { offset: u64::MAX, ..operation(0, MemberAction::Read, 1) };
    ring.push(hangs, Some(&lent)).unwrap();
    ring.exchange(Duration::ZERO, &mut Vec::new()).unwrap();
    ring.abandon();
}

#[test]
fn a_wake_ends_a_wait_and_is_not_lost_when_it_comes_before() {
    let Some(mut ring) = ring(&[]) else { return };
    let waker = ring.waker.clone();
    waker.wake();
    let mut completions = Vec::new();
    assert!(!ring.exchange(LONG, &mut completions).unwrap());
    let (begun, awaited) = mpsc::channel();
    let other = std::thread::spawn(move || {
        awaited.recv().unwrap();
        waker.wake();
    });
    begun.send(()).unwrap();
    ring.exchange(LONG, &mut completions).unwrap();
    other.join().unwrap();
    assert!(completions.is_empty());
}

#[test]
fn a_claim_is_held_until_the_member_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("member");
    std::fs::write(&path, [0; LENGTH]).unwrap();
    let open = || OwnedFd::from(File::open(&path).unwrap());
    let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    let Some(mut ring) = ring(&[]) else { return };
    let claim = open();
    rustix::fs::flock(&claim, lock).unwrap();
    ring.set_member(0, Some((open(), Some(claim)))).unwrap();
    assert!(rustix::fs::flock(open(), lock).is_err());
    ring.set_member(0, None).unwrap();
    // The kernel lets go of a file that is taken off a ring in its own time.
    while rustix::fs::flock(open(), lock).is_err() {
        ring.exchange(Duration::from_millis(1), &mut Vec::new()).unwrap();
    }
}

/// The flags of the entry as the kernel reads them (io_uring_sqe.rw_flags), whatever ring they are for.
#[test]
fn a_durable_write_has_its_flag_in_the_entry_with_any_buffer() {
    // Of the entry's 64 bytes: the operation's code, then after lengths and places its flags.
    let words = |action, is_registered| {
        let mut byte = 0;
        let entry = entry_of(&operation(1, action, 7), &raw mut byte, is_registered);
        // SAFETY: an entry is the 64 bytes of io_uring_sqe, and has no padding.
        let bytes: [u8; 64] = unsafe { *std::ptr::from_ref(&entry).cast() };
        (bytes[0], u32::from_ne_bytes(bytes[28..32].try_into().unwrap()))
    };
    const { assert!(size_of::<squeue::Entry>() == 64) };
    let write = |flags| MemberAction::Write(flags);
    let opcodes = [
        opcode::WriteFixed::CODE,
        opcode::Write::CODE,
        opcode::ReadFixed::CODE,
        opcode::Read::CODE,
        opcode::Fsync::CODE,
    ];
    assert_eq!(words(write(WriteFlags::Dsync), true), (opcodes[0], 2));
    assert_eq!(words(write(WriteFlags::Dsync), false), (opcodes[1], 2));
    assert_eq!(words(write(WriteFlags::Sync), false), (opcodes[1], 4));
    assert_eq!(words(write(WriteFlags::None), true), (opcodes[0], 0));
    assert_eq!(words(MemberAction::Read, true), (opcodes[2], 0));
    assert_eq!(words(MemberAction::Read, false), (opcodes[3], 0));
    assert_eq!(words(MemberAction::Flush, false), (opcodes[4], 1));
}

#[test]
fn the_contents_of_a_buffer_are_shown_before_and_after_an_operation_on_it_and_not_meanwhile() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let Some(mut ring) = ring(&[]) else { return };
    ring.set_member(0, Some((reader.into(), None))).unwrap();
    let (lent, other) = (ring.lend(filled(3)), ring.lend(filled(8)));
    assert_eq!(ring.contents(&lent).unwrap(), [3; LENGTH]);
    let hangs =
        MemberOperation { length: 5, offset: u64::MAX, ..operation(0, MemberAction::Read, 1) };
    ring.push(hangs, Some(&lent)).unwrap();
    assert!(ring.contents(&lent).is_none());
    assert_eq!(ring.contents(&other).unwrap(), [8; LENGTH]);
    writer.write_all(b"hello").unwrap();
    assert_eq!(wait_for(&mut ring, 1), [(1, 5)]);
    assert_eq!(ring.contents(&lent).unwrap()[..7], *b"hello\x03\x03");
}
