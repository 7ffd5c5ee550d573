//! Completions: how many, whose, when; waits with an end neither end early for nothing nor hold back
//! completions.

use std::time::{Duration, Instant};

use durio_block::{Clock, Completion, Engine, Operation, OperationKind, Ticks};

use super::bench::{
    BLOCK, Bench, DEPTH, SLOT_BLOCKS, WHOLE, exchange, exchange_all, fill, read, result, sync,
    write,
};
use super::{Case, Needs, Outcome, case};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Nothing, "nothing_in_flight_gives_nothing", nothing_in_flight_gives_nothing),
        case(
            Needs::Nothing,
            "every_operation_completes_once_as_itself",
            every_operation_completes_once,
        ),
        case(
            Needs::Nothing,
            "depth_operations_give_depth_completions",
            depth_operations_give_depth_completions,
        ),
        case(Needs::Nothing, "room_for_one_completion_suffices", room_for_one_completion_suffices),
        case(Needs::Nothing, "operations_join_those_in_flight", operations_join_those_in_flight),
        case(Needs::Nothing, "stamps_lie_in_order_between_submission_and_now", stamps_lie_in_order),
        case(Needs::Nothing, "the_last_in_flight_is_waited_for_at_the_drop", a_drop_in_flight),
        case(
            Needs::Storage,
            "what_was_in_flight_at_the_drop_is_whole",
            what_was_in_flight_at_the_drop,
        ),
        case(
            Needs::Storage,
            "a_delayed_completion_is_given_though_others_come_without_a_pause",
            a_delayed_completion_among_inline_ones,
        ),
        case(
            Needs::Storage,
            "completions_that_are_there_are_stamped_before_they_are_asked_for",
            stamped_when_seen,
        ),
        case(
            Needs::Nothing,
            "a_wait_with_nothing_in_flight_ends_at_its_deadline",
            nothing_in_flight,
        ),
        case(Needs::Nothing, "completions_do_not_wait_for_a_far_deadline", a_far_deadline),
        case(Needs::Nothing, "a_past_deadline_submits_and_loses_nothing", a_past_deadline),
    ]
}

fn nothing_in_flight_gives_nothing<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(1, 0)), &mut |engine| {
        assert_eq!(exchange(engine, &[], 4), []);
        assert!(result(engine, read(0, 0)) > 0);
        assert_eq!(exchange(engine, &[], 1), []);
    });
    Outcome::Passed
}

/// The slot's own length, so that a result tells whose it is: 1 to 4 blocks by turns.
fn own_length(slot: u32) -> u64 {
    (BLOCK * (1 + slot as usize % SLOT_BLOCKS)) as u64
}

fn own_read(slot: u32, block: u64) -> Operation {
    Operation { length: own_length(slot), ..read(slot, block) }
}

/// Asserts that the completion is of the read that [`own_read`] made for its slot.
fn assert_own(completion: &Completion) {
    let expected = own_length(completion.slot);
    let result = completion.result;
    assert_eq!(u64::try_from(result), Ok(expected), "result of slot {}", completion.slot);
}

fn every_operation_completes_once<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(64, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        for batch in 0..40_u32 {
            // Batches of 1 to 8, slots in another order each time.
            let slots = (0..=batch % DEPTH).map(|n| (n * 3 + batch) % DEPTH);
            let operations: Vec<_> = slots.map(|slot| own_read(slot, batch.into())).collect();
            for completion in exchange_all(engine, &operations, 2) {
                assert_own(&completion);
            }
        }
    });
    Outcome::Passed
}

fn all_slots() -> Vec<Operation> {
    (0..DEPTH).map(|slot| own_read(slot, slot.into())).collect()
}

fn depth_operations_give_depth_completions<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(16, 0)), &mut |engine| {
        for _ in 0..20 {
            let completions = exchange_all(engine, &all_slots(), 2 * DEPTH as usize);
            assert_eq!(completions.len(), DEPTH as usize);
        }
    });
    Outcome::Passed
}

fn room_for_one_completion_suffices<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(16, 0)), &mut |engine| {
        for _ in 0..5 {
            exchange_all(engine, &all_slots(), 1).iter().for_each(assert_own);
        }
    });
    Outcome::Passed
}

fn operations_join_those_in_flight<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(16, 0)), &mut |engine| {
        let mut given = exchange(engine, &all_slots(), 1);
        let (mut submitted, mut completed) = (DEPTH, 0);
        while let Some(completion) = given.pop() {
            assert_own(&completion);
            completed += 1;
            // The free slot goes back with its completion; the others stay in flight meanwhile.
            let again = (submitted < 50).then(|| own_read(completion.slot, 1));
            submitted += u32::from(again.is_some());
            given = exchange(engine, again.as_slice(), 1);
        }
        assert_eq!(completed, submitted);
    });
    Outcome::Passed
}

fn stamps_lie_in_order<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(16, 0)), &mut |engine| {
        let mut last = Ticks::default();
        for _ in 0..10 {
            let mut operations = all_slots();
            operations[3] = sync(OperationKind::Fdatasync, 3);
            let before = engine.clock().now();
            let completions = exchange_all(engine, &operations, 3);
            let after = engine.clock().now();
            for Completion { slot, submitted_at, completed_at, .. } in completions {
                assert!(submitted_at >= before, "slot {slot}: stamped before its submission");
                assert!(submitted_at <= completed_at, "slot {slot}: completed before submitted");
                assert!(completed_at <= after, "slot {slot}: completed in the future");
                assert!(completed_at >= last, "slot {slot}: given after a later one");
                last = completed_at;
            }
        }
    });
    Outcome::Passed
}

fn a_drop_in_flight<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(16, 0);
    for _ in 0..20 {
        bench.engine(bench.open(&name), &mut |engine| {
            exchange(engine, &all_slots(), 1);
        });
    }
    Outcome::Passed
}

fn what_was_in_flight_at_the_drop<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(DEPTH.into(), 0);
    let mut asynchronous = false;
    bench.engine(bench.open(&name), &mut |engine| {
        asynchronous = engine.capabilities().asynchronous;
        for slot in 0..DEPTH {
            fill(engine, slot, 100 + u64::from(slot));
        }
        let writes: Vec<_> = (0..DEPTH).map(|slot| write(slot, slot.into())).collect();
        exchange(engine, &writes, 1);
    });
    if asynchronous {
        // Submitted is in the kernel: the drop can but wait for it.
        let expected: Vec<u64> = (100..).take(DEPTH as usize).collect();
        bench.assert_holds(&name, &expected);
    }
    Outcome::Passed
}

/// A read beyond the file's end: the kernel answers it inside the submitting call.
fn inline_read(slot: u32) -> Operation {
    read(slot, 1 << 20)
}

/// A sync is carried out by another thread of the kernel; reads that end in the submitting call
/// keep the queue of completions busy meanwhile, and room is never left.
fn a_delayed_completion_among_inline_ones<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    /// A thousand times what a sync of a clean file takes, and several times a stall of a disk.
    const PATIENCE: Duration = Duration::from_secs(5);
    bench.engine(bench.open(&bench.object(1, 0)), &mut |engine| {
        for delayed in [OperationKind::Fdatasync, OperationKind::Fsync] {
            let mut operations: Vec<Operation> = (1..DEPTH).map(inline_read).collect();
            operations.insert(0, sync(delayed, 0));
            let begin = Instant::now();
            let mut is_there = false;
            while !is_there {
                assert!(begin.elapsed() < PATIENCE, "{delayed:?} was held back for {PATIENCE:?}");
                let given = exchange(engine, &operations, 2);
                is_there = given.iter().any(|completion| completion.slot == 0);
                let again = given.iter().filter(|completion| completion.slot != 0);
                operations = again.map(|completion| inline_read(completion.slot)).collect();
            }
            while !exchange(engine, &std::mem::take(&mut operations), 2).is_empty() {}
        }
    });
    Outcome::Passed
}

/// An operation that is complete when the first exchange returns does not become slower by being
/// taken later.
fn stamped_when_seen<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(1, 0)), &mut |engine| {
        if !engine.capabilities().asynchronous {
            return;
        }
        let operations: Vec<Operation> = (0..DEPTH).map(inline_read).collect();
        let mut given = exchange(engine, &operations, 1);
        let seen = engine.clock().now();
        while given.len() < operations.len() {
            std::thread::sleep(Duration::from_millis(1));
            given.extend(exchange(engine, &[], 1));
        }
        let late = given.iter().filter(|completion| completion.completed_at > seen).count();
        assert_eq!(late, 0, "completions that were stamped when they were asked for");
    });
    Outcome::Passed
}

/// Long enough that no machine reaches it by accident.
const FAR_NANOS: u64 = 60_000_000_000;

fn until<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    operations: &[Operation],
    deadline: Ticks,
) -> Vec<Completion> {
    let mut completions = vec![Completion::default(); 2];
    let count = engine.exchange_until(operations, &mut completions, deadline);
    completions.truncate(count.expect("the exchange"));
    completions
}

fn after<C: Clock>(engine: &dyn Engine<Clock = C>, nanos: u64) -> Ticks {
    let clock = engine.clock();
    clock.now().plus(clock.ticks(nanos))
}

fn nothing_in_flight<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(1, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        for nanos in [0, 3_000, 2_000_000] {
            let deadline = after(engine, nanos);
            assert_eq!(until(engine, &[], deadline), []);
            assert!(engine.clock().now() >= deadline, "ended before {nanos} ns were over");
        }
    });
    Outcome::Passed
}

fn a_far_deadline<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(4, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        let deadline = after(engine, FAR_NANOS);
        let mut seen = until(engine, &[read(0, 0), read(1, 1), read(2, 2)], deadline);
        while seen.len() < 3 {
            let more = until(engine, &[], deadline);
            assert!(!more.is_empty(), "nothing came of what is in flight");
            seen.extend(more);
        }
        assert!(engine.clock().now() < deadline, "completions waited for the deadline");
        assert!(seen.iter().all(|completion| completion.result == WHOLE));
    });
    Outcome::Passed
}

fn a_past_deadline<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(2, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        engine.slot_mut(1)[..BLOCK].fill(0);
        let mut seen = until(engine, &[read(1, 1)], Ticks::default());
        while seen.is_empty() {
            let deadline = after(engine, 1_000_000);
            seen.extend(until(engine, &[], deadline));
        }
        assert_eq!((seen.len(), seen[0].slot, seen[0].result), (1, 1, WHOLE));
        // Nothing is left: the place can be used again.
        let deadline = after(engine, FAR_NANOS);
        assert_eq!(until(engine, &[read(1, 0)], deadline).len(), 1);
    });
    Outcome::Passed
}
