//! Slots: one operation in flight each, and no reference to a slot in flight.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::bench::{BLOCK, Bench, SLOT_BLOCKS, exchange, exchange_all, read, write};
use super::{Case, Needs, Outcome, case};
use crate::{Clock, Completion, Engine, Operation};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
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
    // What is done is free again.
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
