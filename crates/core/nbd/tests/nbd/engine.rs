//! What is the client's own: how operations become requests, and what becomes of them when the
//! server is gone.

use std::thread;

use durio_block::{
    Buffers, Completion, Engine, MonotonicClock, Operation, OperationKind, Ticks, WriteFlags,
};
use durio_nbd::{Export, MemoryStorage, NbdEngine, NbdErrorKind, Refusal, Uri};

use crate::serving::{engine, served};
use crate::storages::{Seen, Watched};

const SIZE: u64 = 1 << 20;

fn operation(kind: OperationKind, slot: u32, offset: u64, length: u64) -> Operation {
    Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length,
        offset,
        intended_start: Ticks::default(),
    }
}

fn write(slot: u32, offset: u64) -> Operation {
    operation(OperationKind::Write, slot, offset, 4096)
}

pub(crate) fn read(slot: u32, offset: u64) -> Operation {
    operation(OperationKind::Read, slot, offset, 4096)
}

/// The results of operations, in their order.
fn results(engine: &mut NbdEngine<MonotonicClock>, operations: &[Operation]) -> Vec<i32> {
    let mut completions = vec![Completion::default(); operations.len()];
    let mut count = engine.exchange(operations, &mut completions).unwrap();
    while count < operations.len() {
        let more = engine.exchange(&[], &mut completions[count..]).unwrap();
        assert!(more > 0);
        count += more;
    }
    let of = |slot| completions.iter().find(|completion| completion.slot == slot).unwrap().result;
    operations.iter().map(|operation| of(operation.slot)).collect()
}

#[test]
fn operations_become_the_requests_of_their_kind() {
    let storage = Watched::new(Export::new("disk", SIZE));
    served(&storage, |uri| {
        let mut engine = engine(uri);
        let operations = [
            Operation { flags: WriteFlags::Dsync, ..write(0, 0) },
            Operation { flags: WriteFlags::Sync, ..write(1, 4096) },
            operation(OperationKind::Fsync, 2, 0, 0),
            operation(OperationKind::Fdatasync, 3, 0, 0),
            operation(OperationKind::Reallocate, 4, 8192, 65536),
            operation(OperationKind::SyncFileRange, 5, 0, 4096),
            read(6, 4096),
        ];
        let refused = -libc::EOPNOTSUPP;
        assert_eq!(results(&mut engine, &operations), [4096, 4096, 0, 0, 0, refused, 4096]);
        assert_eq!(engine.slot_mut(6)[..4096], [0x5a; 4096]);
        assert_eq!(engine.facts().features, ["nbd", "structured_replies", "flush", "fua"]);
    });
    let expected = [
        Seen::Write(0, 4096, true),
        Seen::Write(4096, 4096, true),
        Seen::Flush,
        Seen::Flush,
        Seen::WriteZeroes(8192, 65536, false, true),
        Seen::Read(4096, 4096),
    ];
    assert_eq!(storage.seen(), expected);
}

#[test]
fn what_is_asked_in_one_call_arrives_together() {
    let storage = Watched::new(Export::new("disk", SIZE));
    served(&storage, |uri| {
        let operations: Vec<_> = (0..8).map(|slot| read(slot, 0)).collect();
        assert_eq!(results(&mut engine(uri), &operations), [4096; 8]);
    });
    assert_eq!(storage.batches().len(), 1);
}

#[test]
fn without_a_volatile_cache_every_write_is_durable_and_a_sync_sends_nothing() {
    let (flush, fua) = (false, false);
    let storage = Watched::new(Export { flush, fua, ..Export::new("", SIZE) });
    served(&storage, |uri| {
        let mut engine = engine(uri);
        assert!(engine.capabilities().write_flags);
        let operations = [
            Operation { flags: WriteFlags::Dsync, ..write(0, 0) },
            operation(OperationKind::Fdatasync, 1, 0, 0),
        ];
        assert_eq!(results(&mut engine, &operations), [4096, 0]);
        assert_eq!(engine.facts().fallbacks.len(), 1);
    });
    assert_eq!(storage.seen(), [Seen::Write(0, 4096, false)]);
}

#[test]
fn what_the_export_cannot_do_is_refused_and_not_sent() {
    let (fua, write_zeroes) = (false, false);
    let storage = Watched::new(Export { fua, write_zeroes, ..Export::new("", SIZE) });
    served(&storage, |uri| {
        let mut engine = engine(uri);
        assert!(!engine.capabilities().write_flags);
        let operations = [
            Operation { flags: WriteFlags::Dsync, ..write(0, 0) },
            operation(OperationKind::Reallocate, 1, 0, 4096),
        ];
        assert_eq!(results(&mut engine, &operations), [-libc::EOPNOTSUPP; 2]);
    });
    assert_eq!(storage.seen(), []);
}

#[test]
fn the_end_of_the_export_is_the_end_of_a_device() {
    let storage = Watched::new(Export::new("", SIZE));
    served(&storage, |uri| {
        let operations = [
            write(0, SIZE - 4096),
            write(1, SIZE - 2048),
            write(2, u64::MAX),
            read(3, SIZE - 1000),
            read(4, SIZE),
            operation(OperationKind::Reallocate, 5, SIZE, 1),
            operation(OperationKind::Read, 6, 0, 0),
        ];
        let expected = [4096, -libc::ENOSPC, -libc::EINVAL, 1000, 0, -libc::ENOSPC, 0];
        assert_eq!(results(&mut engine(uri), &operations), expected);
    });
    assert_eq!(
        storage.seen(),
        [Seen::Write(SIZE - 4096, 4096, false), Seen::Read(SIZE - 1000, 1000)]
    );
}

#[test]
fn blocks_that_the_server_does_not_take_are_refused_before_anything_is_sent() {
    let export = Export { block_size_min: 512, block_size_max: 8192, ..Export::new("", SIZE) };
    served(&MemoryStorage::new(export), |uri| {
        let connect = |length| NbdEngine::connect(uri, MonotonicClock, Buffers::new(1, length));
        let error = connect(16384).unwrap_err();
        let words = format!("{error}: {}", error.source);
        let expected = "cannot send blocks of '16384 bytes': the server takes at most 8192 bytes \
                        at a time";
        assert_eq!((error.kind, words.as_str()), (NbdErrorKind::Unsupported, expected));
        let mut engine = connect(8192).unwrap();
        assert_eq!(results(&mut engine, &[read(0, 100)]), [-libc::EINVAL]);
        let wrong = Uri { export: "other".to_owned(), ..uri.clone() };
        let error = NbdEngine::connect(&wrong, MonotonicClock, Buffers::new(1, 512)).unwrap_err();
        assert_eq!(error.kind, NbdErrorKind::NotFound);
    });
}

#[test]
fn a_server_that_stops_ends_what_is_in_flight_and_all_that_comes_later() {
    let storage = MemoryStorage::new(Export::new("", SIZE));
    let mut left = None;
    served(&storage, |uri| {
        let mut engine = engine(uri);
        assert_eq!(results(&mut engine, &[read(0, 0)]), [4096]);
        left = Some(engine);
    });
    let mut engine = left.unwrap();
    let lost = -libc::ENOTCONN;
    for _ in 0..3 {
        assert_eq!(results(&mut engine, &[write(0, 0), read(1, 0), write(2, 0)]), [lost; 3]);
    }
    assert_eq!(engine.lost().unwrap().kind, NbdErrorKind::Lost);
    let mut completions = [Completion::default(); 2];
    assert_eq!(engine.exchange(&[], &mut completions).unwrap(), 0);
    let deadline = Ticks(durio_block::Clock::now(engine.clock()).0 + 1_000_000);
    assert_eq!(engine.exchange_until(&[], &mut completions, deadline).unwrap(), 0);
}

#[test]
fn a_power_cut_answers_nothing() {
    let mut storage = Watched::new(Export::new("", SIZE));
    storage.of_writes = Err(Refusal::Gone);
    served(&storage, |uri| {
        let mut engine = engine(uri);
        let lost = -libc::ENOTCONN;
        assert_eq!(results(&mut engine, &[read(0, 0)]), [4096]);
        assert_eq!(results(&mut engine, &[read(0, 0), write(1, 0), read(2, 0)]), [lost; 3]);
    });
}

#[test]
fn refusals_of_the_storage_are_errors_of_their_operations() {
    let cases = [
        (Refusal::Permission, libc::EPERM),
        (Refusal::Io, libc::EIO),
        (Refusal::Memory, libc::ENOMEM),
        (Refusal::Invalid, libc::EINVAL),
        (Refusal::NoSpace, libc::ENOSPC),
        (Refusal::TooLong, libc::EOVERFLOW),
        (Refusal::Unsupported, libc::EOPNOTSUPP),
        (Refusal::Shutdown, libc::ESHUTDOWN),
    ];
    for (refusal, errno) in cases {
        let mut storage = Watched::new(Export::new("", SIZE));
        storage.of_writes = Err(refusal);
        served(&storage, |uri| {
            let operations = [read(0, 0), write(1, 0), read(2, 0)];
            assert_eq!(results(&mut engine(uri), &operations), [4096, -errno, 4096]);
        });
    }
}

#[test]
fn more_than_the_sockets_hold_goes_through_in_both_directions() {
    const LENGTH: usize = 4 << 20;
    let storage = MemoryStorage::new(Export::new("", 8 * LENGTH as u64));
    served(&storage, |uri| {
        let buffers = Buffers::new(8, LENGTH);
        let mut engine = NbdEngine::connect(uri, MonotonicClock, buffers).unwrap();
        let all = |kind| -> Vec<_> {
            let length = LENGTH as u64;
            (0..8).map(|slot| operation(kind, slot, u64::from(slot) * length, length)).collect()
        };
        for slot in 0..8_u8 {
            engine.slot_mut(slot.into()).fill(slot + 1);
        }
        let whole = i32::try_from(LENGTH).unwrap();
        assert_eq!(results(&mut engine, &all(OperationKind::Write)), [whole; 8]);
        // Reads whose answers wait while the writes are sent.
        let mut both = all(OperationKind::Read);
        both[4..].iter_mut().for_each(|operation| operation.kind = OperationKind::Write);
        assert_eq!(results(&mut engine, &both), [whole; 8]);
        assert_eq!(results(&mut engine, &all(OperationKind::Read)), [whole; 8]);
        for slot in 0..8_u8 {
            assert!(engine.slot_mut(slot.into()).iter().all(|&byte| byte == slot + 1));
        }
    });
}

#[test]
fn engines_of_several_threads_share_an_export() {
    let storage = MemoryStorage::new(Export::new("", SIZE));
    served(&storage, |uri| {
        thread::scope(|scope| {
            for mark in 0..8_u8 {
                scope.spawn(move || {
                    let mut engine = engine(uri);
                    let offset = u64::from(mark) * 4096;
                    for _ in 0..50 {
                        engine.slot_mut(0).fill(mark);
                        assert_eq!(results(&mut engine, &[write(0, offset)]), [4096]);
                        assert_eq!(results(&mut engine, &[read(1, offset)]), [4096]);
                        assert_eq!(engine.slot_mut(1)[..4096], [mark; 4096]);
                    }
                });
            }
        });
    });
    for mark in 0..8 {
        let block = usize::from(mark) * 4096;
        assert_eq!(storage.contents()[block..block + 4096], [mark; 4096]);
    }
}

#[test]
fn nobody_at_the_address_is_an_error_with_the_address() {
    let uri: Uri = "nbd+unix:///x?socket=/nowhere/socket".parse().unwrap();
    let error = NbdEngine::connect(&uri, MonotonicClock, Buffers::new(1, 512)).unwrap_err();
    assert_eq!(error.kind, NbdErrorKind::NotFound);
    assert_eq!(error.to_string(), "cannot connect to 'nbd+unix:///x?socket=/nowhere/socket'");
}
