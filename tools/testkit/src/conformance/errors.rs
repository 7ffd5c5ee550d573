//! Errors: the kernel's errno as it is, for the operation that has it, and no other.
//! A slot has one operation in flight, and no reference to it exists meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use durio_block::testkit::open_path;
use durio_block::{Buffers, Clock, Completion, Engine, OpenMode, Operation, OperationKind};

use super::bench::{
    BLOCK, Bench, SLOT_BLOCKS, WHOLE, exchange, exchange_all, fill, pattern, read, result, results,
    sync, write,
};
use super::{Case, Needs, Outcome, Target, case};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Storage, "a_write_to_a_read_only_descriptor_fails", a_read_only_descriptor),
        case(
            Needs::FilesByCalls,
            "a_read_from_a_write_only_descriptor_fails",
            a_write_only_descriptor,
        ),
        case(Needs::FilesByCalls, "a_full_device_is_reported", a_full_device_is_reported),
        case(Needs::Files, "an_offset_beyond_every_file_is_refused", an_offset_beyond_every_file),
        case(Needs::Files, "a_refused_read_takes_nothing_from_the_others", a_refused_read),
        case(
            Needs::DirectFiles,
            "unaligned_direct_transfers_are_refused",
            unaligned_direct_transfers,
        ),
        case(
            Needs::Nothing,
            "a_slot_in_flight_cannot_be_borrowed",
            a_slot_in_flight_cannot_be_borrowed,
        ),
        case(
            Needs::Nothing,
            "a_slot_in_flight_cannot_be_used_again",
            a_slot_in_flight_cannot_be_used_again,
        ),
        case(
            Needs::Nothing,
            "a_slot_cannot_be_used_twice_in_a_call",
            a_slot_cannot_be_used_twice_in_a_call,
        ),
        case(
            Needs::Nothing,
            "a_slot_that_does_not_exist_cannot_be_used",
            a_slot_that_does_not_exist,
        ),
        case(
            Needs::Nothing,
            "no_room_for_completions_is_refused",
            no_room_for_completions_is_refused,
        ),
        case(Needs::Storage, "a_transfer_stays_within_its_slot", a_transfer_stays_within_its_slot),
    ]
}

fn a_read_only_descriptor<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(4, 0);
    let refused = -bench.suite.read_only_errno;
    bench.engine(bench.open_as(&name, false), &mut |engine| {
        fill(engine, 1, 100);
        // The bad one among good ones, and first, and alone.
        let operations = [read(0, 0), write(1, 1), read(2, 2)];
        assert_eq!(results(engine, &operations), [WHOLE, refused, WHOLE]);
        assert_eq!(results(engine, &[write(1, 1), read(0, 0)]), [refused, WHOLE]);
        assert_eq!(results(engine, &[write(1, 1), write(0, 0)]), [refused; 2]);
        assert_eq!(result(engine, write(1, 1)), refused);
        assert_eq!(result(engine, read(0, 0)), WHOLE);
    });
    bench.assert_holds(&name, &[0, 1, 2, 3]);
    Outcome::Passed
}

fn a_write_only_descriptor<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let path = bench.path(&bench.object(2, 0));
    let file = std::fs::File::options().write(true).open(&path).expect("opening the file again");
    bench.engine(Target::File(file.into()), &mut |engine| {
        assert_eq!(results(engine, &[read(0, 0), write(1, 1)]), [-libc::EBADF, WHOLE]);
    });
    Outcome::Passed
}

fn a_full_device_is_reported<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let Ok(full) = open_path(Path::new("/dev/full"), mode) else {
        return Outcome::Skipped("/dev/full cannot be opened".to_owned());
    };
    let errno = -bench.suite.full_device_errno;
    bench.engine(Target::File(full.file), &mut |engine| {
        assert_eq!(results(engine, &[write(0, 0), read(1, 0), write(2, 1)]), [errno, WHOLE, errno]);
    });
    Outcome::Passed
}

/// Offsets of the kernel have a sign; some filesystems take everything below (tmpfs).
fn an_offset_beyond_every_file<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(2, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        let far = Operation { offset: 1 << 63, ..write(0, 0) };
        let near = sync(OperationKind::Fdatasync, 1);
        assert_eq!(results(engine, &[far, near]), [-libc::EINVAL, 0]);
    });
    bench.assert_holds(&name, &[0, 1]);
    Outcome::Passed
}

/// One read of a batch is refused, at each place once: the others have their own blocks, and the refused
/// one has nothing.
fn a_refused_read<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    const UNTOUCHED: u64 = 99;
    let name = bench.object(4, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        for refused in 0..4 {
            let blocks = (0..4).zip([2, 0, 3, 1]);
            blocks.clone().for_each(|(slot, _)| fill(engine, slot, UNTOUCHED));
            let operation = |(slot, block)| match slot == refused {
                true => Operation { offset: 1 << 63, ..read(slot, block) },
                false => read(slot, block),
            };
            let operations: Vec<Operation> = blocks.clone().map(operation).collect();
            let expected = |slot: u32| if slot == refused { -libc::EINVAL } else { WHOLE };
            let expected: Vec<i32> = (0..4).map(expected).collect();
            assert_eq!(results(engine, &operations), expected);
            for (slot, block) in blocks {
                let block = if slot == refused { UNTOUCHED } else { block };
                let data = &engine.slot_mut(slot)[..BLOCK];
                assert!(data == pattern(block), "slot {slot} of refused {refused}: not {block}");
            }
        }
    });
    Outcome::Passed
}

fn unaligned_direct_transfers<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(4, 0);
    let mut probe = Buffers::new(1, BLOCK);
    if rustix::io::pread(bench.open(&name).into_file(), probe.slot_mut(0), 1)
        != Err(rustix::io::Errno::INVAL)
    {
        return Outcome::Skipped("the filesystem takes unaligned direct transfers".to_owned());
    }
    bench.engine(bench.open(&name), &mut |engine| {
        let unaligned =
            |operation: Operation| Operation { offset: operation.offset + 1, ..operation };
        let odd = Operation { length: 2300, ..write(3, 0) };
        let operations =
            [read(0, 0), unaligned(read(1, 1)), unaligned(write(2, 1)), odd, read(4, 3)];
        let refused = -libc::EINVAL;
        assert_eq!(results(engine, &operations), [WHOLE, refused, refused, refused, WHOLE]);
        fill(engine, 2, 1);
        assert_eq!(results(engine, &[read(1, 1), write(2, 1)]), [WHOLE; 2]);
        assert_eq!(result(engine, read(1, 1)), WHOLE);
    });
    Outcome::Passed
}

fn assert_panics(what: &str, action: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(action));
    assert!(outcome.is_err(), "{what} was let through");
}

/// Submits on two slots and takes one completion: gives the slot that is still in flight.
fn one_in_flight<C: Clock>(engine: &mut dyn Engine<Clock = C>) -> u32 {
    let completions = exchange(engine, &[read(0, 0), read(1, 1)], 1);
    assert_eq!(completions.len(), 1);
    let done = completions[0].slot;
    assert!(done < 2, "slot {done} was not in flight");
    // The slot of a completed operation is free again.
    engine.slot_mut(done);
    1 - done
}

/// The operations of a call that panicked do not go along with those of the next.
fn assert_nothing_is_left<C: Clock>(engine: &mut dyn Engine<Clock = C>) {
    assert_eq!(exchange(engine, &[], 4), []);
    assert!(exchange_all(engine, &[read(5, 0), read(6, 0)], 4).iter().all(|c| c.result > 0));
}

/// Every body has its own engine, dropped right after the panic.
fn with_engine<C: Clock>(
    bench: &Bench<'_, C>,
    body: &mut dyn FnMut(&mut dyn Engine<Clock = C>),
) -> Outcome {
    bench.engine(bench.open(&bench.object(8, 0)), body);
    Outcome::Passed
}

fn a_slot_in_flight_cannot_be_borrowed<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    with_engine(bench, &mut |engine| {
        let slot = one_in_flight(engine);
        assert_panics("a reference to a slot in flight", || {
            engine.slot_mut(slot);
        });
        // The refusal did no harm: it completes, and is free.
        let completions = exchange(engine, &[], 4);
        assert_eq!(completions.iter().map(|c| c.slot).collect::<Vec<_>>(), [slot]);
        engine.slot_mut(slot);
    })
}

fn a_slot_in_flight_cannot_be_used_again<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    with_engine(bench, &mut |engine| {
        let slot = one_in_flight(engine);
        assert_panics("a second operation on a slot in flight", || {
            exchange(engine, &[read(3, 3), read(slot, 2)], 1);
        });
        let completions = exchange(engine, &[], 4);
        assert_eq!(completions.iter().map(|c| c.slot).collect::<Vec<_>>(), [slot]);
        assert_nothing_is_left(engine);
    })
}

fn a_slot_cannot_be_used_twice_in_a_call<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    with_engine(bench, &mut |engine| {
        assert_panics("two operations on a slot", || {
            exchange(engine, &[read(2, 0), read(3, 0), read(2, 1)], 1);
        });
        assert_nothing_is_left(engine);
    })
}

/// Beyond every engine's slots.
const NO_SLOT: u32 = u32::MAX;

fn a_slot_that_does_not_exist<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    with_engine(bench, &mut |engine| {
        assert_panics("a reference to no slot", || {
            engine.slot_mut(NO_SLOT);
        });
        assert_panics("an operation on no slot", || {
            exchange(engine, &[read(NO_SLOT, 0)], 1);
        });
    })
}

fn no_room_for_completions_is_refused<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    with_engine(bench, &mut |engine| {
        let mut none: [Completion; 0] = [];
        assert_panics("an exchange without room", || {
            let _ = engine.exchange(&[read(0, 0)], &mut none);
        });
    })
}

fn a_transfer_stays_within_its_slot<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let length = ((SLOT_BLOCKS + 1) * BLOCK) as u64;
    for operation in [read(1, 0), write(1, 0)] {
        let too_long = Operation { length, ..operation };
        bench.engine(bench.open(&bench.object(8, 0)), &mut |engine| {
            assert_panics("a transfer longer than its slot", || {
                exchange(engine, &[read(0, 0), too_long], 2);
                exchange(engine, &[], 2);
            });
        });
    }
    Outcome::Passed
}
