//! Links: the next operation only after this one has succeeded, or not at all.

use super::bench::{Bench, WHOLE, exchange_all, fill, linked, read, result, results, sync, write};
use super::{Case, Needs, Outcome, case};
use crate::{Clock, Completion, OperationKind};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Nothing, "links_complete_in_order_or_are_refused", links_complete_in_order),
        case(Needs::Storage, "a_refused_link_writes_nothing", a_refused_link_writes_nothing),
        case(Needs::Storage, "a_failed_link_cancels_its_successors", a_failed_link_cancels),
        case(Needs::AnySize, "a_short_transfer_cancels_its_successor", a_short_transfer_cancels),
        case(Needs::Storage, "a_link_ends_with_its_call", a_link_ends_with_its_call),
        case(
            Needs::Storage,
            "a_linked_read_sees_the_write_before_it",
            a_linked_read_sees_the_write,
        ),
    ]
}

const REFUSED: i32 = -libc::EOPNOTSUPP;
const CANCELLED: i32 = -libc::ECANCELED;

fn position(completions: &[Completion], slot: u32) -> usize {
    completions.iter().position(|c| c.slot == slot).unwrap_or(usize::MAX)
}

fn links_complete_in_order<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(16, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        let can = engine.capabilities().links;
        for turn in 0..20 {
            // An unlinked read, a write and its sync, and a chain of three.
            let operations = [
                read(0, turn % 16),
                linked(write(1, 1)),
                sync(OperationKind::Fdatasync, 2),
                linked(write(3, 3)),
                linked(sync(OperationKind::Fsync, 4)),
                write(5, 5),
            ];
            let completions = exchange_all(engine, &operations, 2);
            let of = |slot| completions[position(&completions, slot)].result;
            let given: Vec<i32> = (0..6).map(of).collect();
            if !can {
                assert_eq!(given, [WHOLE, REFUSED, CANCELLED, REFUSED, REFUSED, CANCELLED]);
                continue;
            }
            assert_eq!(given, [WHOLE, WHOLE, 0, WHOLE, 0, WHOLE]);
            for (first, second) in [(1, 2), (3, 4), (4, 5)] {
                let (first, second) =
                    (position(&completions, first), position(&completions, second));
                assert!(first < second, "a successor completed before what it is linked to");
            }
        }
    });
    Outcome::Passed
}

fn a_refused_link_writes_nothing<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(3, 0);
    let mut can = false;
    bench.engine(bench.open(&name), &mut |engine| {
        can = engine.capabilities().links;
        fill(engine, 0, 100);
        fill(engine, 1, 101);
        let expected = if can { [WHOLE, WHOLE] } else { [REFUSED, CANCELLED] };
        assert_eq!(results(engine, &[linked(write(0, 0)), write(1, 1)]), expected);
    });
    bench.assert_holds(&name, if can { &[100, 101, 2] } else { &[0, 1, 2] });
    Outcome::Passed
}

/// A write to what is open for reading only: it fails, whatever the target.
fn a_failed_link_cancels<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let read_only = -bench.suite.read_only_errno;
    bench.engine(bench.open_as(&bench.object(4, 0), false), &mut |engine| {
        let failed = if engine.capabilities().links { read_only } else { REFUSED };
        let alone = [linked(write(0, 0)), sync(OperationKind::Fdatasync, 1), read(2, 2)];
        assert_eq!(results(engine, &alone), [failed, CANCELLED, WHOLE]);
        if engine.capabilities().links {
            let chain = [linked(write(0, 0)), linked(read(1, 1)), read(2, 2), read(3, 3)];
            assert_eq!(results(engine, &chain), [failed, CANCELLED, CANCELLED, WHOLE]);
            let late = [linked(read(1, 1)), linked(write(0, 0)), read(2, 2), read(3, 3)];
            assert_eq!(results(engine, &late), [WHOLE, failed, CANCELLED, WHOLE]);
        }
    });
    Outcome::Passed
}

fn a_short_transfer_cancels<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(2, 100)), &mut |engine| {
        if engine.capabilities().links {
            let short = [linked(read(0, 2)), sync(OperationKind::Fdatasync, 1), read(2, 0)];
            assert_eq!(results(engine, &short), [100, CANCELLED, WHOLE]);
            let empty = [linked(read(0, 7)), sync(OperationKind::Fdatasync, 1), read(2, 0)];
            assert_eq!(results(engine, &empty), [0, CANCELLED, WHOLE]);
        }
    });
    Outcome::Passed
}

fn a_link_ends_with_its_call<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let read_only = -bench.suite.read_only_errno;
    bench.engine(bench.open_as(&bench.object(4, 0), false), &mut |engine| {
        let failed = if engine.capabilities().links { read_only } else { REFUSED };
        assert_eq!(result(engine, linked(write(0, 0))), failed);
        assert_eq!(result(engine, read(1, 0)), WHOLE);
        assert_eq!(results(engine, &[read(1, 0), linked(write(0, 0))]), [WHOLE, failed]);
        assert_eq!(results(engine, &[read(0, 0), read(1, 0)]), [WHOLE, WHOLE]);
    });
    Outcome::Passed
}

fn a_linked_read_sees_the_write<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(4, 0)), &mut |engine| {
        if !engine.capabilities().links {
            return;
        }
        for turn in 0..50 {
            fill(engine, 0, 500 + turn);
            assert_eq!(results(engine, &[linked(write(0, 2)), read(1, 2)]), [WHOLE, WHOLE]);
            let seen =
                engine.slot_mut(1)[..super::bench::BLOCK] == super::bench::pattern(500 + turn);
            assert!(seen, "the read came before the write it is linked to");
        }
    });
    Outcome::Passed
}
