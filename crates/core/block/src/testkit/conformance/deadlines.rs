//! Waits with an end: they neither end early for nothing nor hold back what is there.

use super::bench::{BLOCK, Bench, WHOLE, read};
use super::{Case, Needs, Outcome, case};
use crate::{Clock, Completion, Engine, Operation, Ticks};

/// Long enough that no machine reaches it by accident.
const FAR_NANOS: u64 = 60_000_000_000;

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(
            Needs::Nothing,
            "a_wait_with_nothing_in_flight_ends_at_its_deadline",
            nothing_in_flight,
        ),
        case(Needs::Nothing, "completions_do_not_wait_for_a_far_deadline", a_far_deadline),
        case(Needs::Nothing, "a_past_deadline_submits_and_loses_nothing", a_past_deadline),
    ]
}

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
