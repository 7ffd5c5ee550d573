//! Syncs and write flags: they complete, and they do what they say.
//!
//! What they say shows in the page cache: after a sync, cachestat(2) finds no page of the file
//! that is yet to be written. That the device's own cache was flushed is beyond this suite
//! (durio-prove).
//!
//! Syncs of a range are done or refused, and write their range and no other. Behind a link the next
//! operation starts only after this one has succeeded, or not at all.

use std::path::Path;

use durio_block::testkit::unwritten_pages;
use durio_block::{Buffers, Clock, Completion, Engine, Operation, OperationKind, WriteFlags};

use super::bench::{
    BLOCK, Bench, DEPTH, WHOLE, exchange_all, fill, linked, read, result, results, sync, write,
};
use super::{Case, Needs, Outcome, case};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Nothing, "syncs_complete_with_zero", syncs_complete_with_zero),
        case(Needs::Nothing, "syncs_complete_among_writes", syncs_complete_among_writes),
        case(Needs::Storage, "write_flags_work_or_are_refused", write_flags_work_or_are_refused),
        case(Needs::BufferedFiles, "syncs_leave_nothing_unwritten", syncs_leave_nothing_unwritten),
        case(
            Needs::BufferedFiles,
            "write_flags_leave_nothing_unwritten",
            write_flags_leave_nothing_unwritten,
        ),
        case(Needs::Nothing, "range_syncs_work_or_are_refused", range_syncs_work_or_are_refused),
        case(Needs::Storage, "a_range_sync_that_fails_says_so", a_failure_is_said),
        case(Needs::Nothing, "a_range_sync_takes_part_in_chains", a_part_of_a_chain),
        case(Needs::BufferedFiles, "a_range_sync_writes_its_range_and_no_other", its_range_only),
        case(Needs::Nothing, "a_sync_needs_no_memory", a_sync_needs_no_memory),
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

const SYNCS: [OperationKind; 2] = [OperationKind::Fsync, OperationKind::Fdatasync];

const FLAGS: [WriteFlags; 2] = [WriteFlags::Dsync, WriteFlags::Sync];

fn syncs_complete_with_zero<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(1, 0)), &mut |engine| {
        for kind in SYNCS {
            assert_eq!(result(engine, sync(kind, 0)), 0, "{kind:?}");
        }
        assert_eq!(results(engine, &[sync(SYNCS[0], 5), sync(SYNCS[1], 2)]), [0, 0]);
    });
    Outcome::Passed
}

fn syncs_complete_among_writes<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(8, 0)), &mut |engine| {
        let operations =
            [write(0, 0), sync(SYNCS[0], 1), write(2, 2), sync(SYNCS[1], 3), write(4, 4)];
        assert_eq!(results(engine, &operations), [WHOLE, 0, WHOLE, 0, WHOLE]);
    });
    Outcome::Passed
}

fn write_flags_work_or_are_refused<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(4, 0);
    let mut can = false;
    bench.engine(bench.open(&name), &mut |engine| {
        can = engine.capabilities().write_flags;
        let expected = if can { WHOLE } else { -libc::EOPNOTSUPP };
        for (slot, flags) in (1_u32..).zip(FLAGS) {
            fill(engine, slot, 100 + u64::from(slot));
            let operation = Operation { flags, ..write(slot, slot.into()) };
            assert_eq!(result(engine, operation), expected, "{flags:?}");
        }
    });
    bench.assert_holds(&name, if can { &[0, 101, 102, 3] } else { &[0, 1, 2, 3] });
    Outcome::Passed
}

/// Why the page cache cannot tell here, if so: a plain write must leave a trace in it.
pub(super) fn cannot_tell(path: &Path) -> Option<String> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(path).expect("opening the file again");
    file.write_all_at(&super::bench::pattern(0), 0).expect("writing it");
    match unwritten_pages(&file) {
        None => Some("no cachestat(2)".to_owned()),
        Some(0) => Some("the filesystem counts no unwritten pages".to_owned()),
        Some(_) => None,
    }
}

fn syncs_leave_nothing_unwritten<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    nothing_unwritten_after(bench, &mut |engine, turn| {
        assert_eq!(result(engine, write(0, 0)), WHOLE);
        assert_eq!(result(engine, sync(SYNCS[turn], 0)), 0);
    })
}

fn write_flags_leave_nothing_unwritten<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    nothing_unwritten_after(bench, &mut |engine, turn| {
        let operation = Operation { flags: FLAGS[turn], ..write(0, 0) };
        if engine.capabilities().write_flags {
            assert_eq!(exchange_all(engine, &[operation], 1)[0].result, WHOLE);
        } else {
            assert_eq!(result(engine, sync(SYNCS[1], 0)), 0);
        }
    })
}

fn nothing_unwritten_after<C: Clock>(
    bench: &Bench<'_, C>,
    action: &mut dyn FnMut(&mut dyn Engine<Clock = C>, usize),
) -> Outcome {
    if let Some(reason) = cannot_tell(&bench.path(&bench.object(1, 0))) {
        return Outcome::Skipped(reason);
    }
    for turn in 0..2 {
        let name = bench.object(1, 0);
        bench.engine(bench.open(&name), &mut |engine| {
            action(engine, turn);
            let file = std::fs::File::open(bench.path(&name)).expect("opening the file again");
            assert_eq!(unwritten_pages(&file), Some(0), "pages yet to be written, turn {turn}");
        });
    }
    Outcome::Passed
}

const REFUSED: i32 = -libc::EOPNOTSUPP;

/// Further apart than the largest folio, which is written as one.
const FAR: u64 = 1024;

fn range(slot: u32, block: u64, blocks: u64) -> Operation {
    Operation {
        kind: OperationKind::SyncFileRange,
        length: blocks * BLOCK as u64,
        ..write(slot, block)
    }
}

fn expected<C: Clock>(engine: &dyn Engine<Clock = C>, result: i32) -> i32 {
    if engine.capabilities().range_syncs { result } else { REFUSED }
}

fn range_syncs_work_or_are_refused<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(16, 0)), &mut |engine| {
        let done = expected(engine, 0);
        assert_eq!(result(engine, range(0, 0, 1)), done);
        // Longer than a slot, as it moves no data, and beyond the end of the file.
        let operations = [write(1, 1), range(3, 2, 8), range(0, 15, 9), write(2, 2)];
        assert_eq!(results(engine, &operations), [WHOLE, done, done, WHOLE]);
    });
    Outcome::Passed
}

fn a_failure_is_said<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(1, 0)), &mut |engine| {
        let beyond = Operation { offset: u64::MAX, ..range(0, 0, 1) };
        assert_eq!(result(engine, beyond), expected(engine, -libc::EINVAL));
    });
    Outcome::Passed
}

fn a_part_of_a_chain<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open(&bench.object(4, 0)), &mut |engine| {
        let can = engine.capabilities();
        if !can.links || !can.range_syncs {
            return;
        }
        let chain =
            [linked(write(4, 1)), linked(range(0, 1, 1)), sync(OperationKind::Fdatasync, 2)];
        for _ in 0..10 {
            assert_eq!(results(engine, &chain), [WHOLE, 0, 0]);
        }
    });
    Outcome::Passed
}

fn its_range_only<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(FAR + 1, 0);
    if let Some(reason) = cannot_tell(&bench.path(&bench.object(1, 0))) {
        return Outcome::Skipped(reason);
    }
    bench.engine(bench.open(&name), &mut |engine| {
        if !engine.capabilities().range_syncs {
            return;
        }
        let file = std::fs::File::open(bench.path(&name)).expect("opening the file again");
        assert_eq!(results(engine, &[write(0, 0), write(1, FAR)]), [WHOLE, WHOLE]);
        let both = unwritten_pages(&file);
        assert_eq!(result(engine, range(0, FAR, 1)), 0);
        let one = unwritten_pages(&file);
        assert!(Some(0) < one && one < both, "{both:?} pages yet to be written, then {one:?}");
        assert_eq!(result(engine, range(0, 0, 1)), 0);
        assert_eq!(unwritten_pages(&file), Some(0), "pages yet to be written");
    });
    Outcome::Passed
}

fn a_sync_needs_no_memory<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let half = DEPTH / 2;
    let buffers = Buffers::new(half as usize, BLOCK).with_bare(half as usize);
    bench.engine_with(buffers, bench.open(&bench.object(4, 0)), &mut |engine| {
        let links = engine.capabilities().links;
        for turn in 0..10 {
            let operations: Vec<Operation> = (0..half)
                .flat_map(|slot| {
                    let write = Operation { link: links, ..write(slot, slot.into()) };
                    [write, sync(OperationKind::Fdatasync, slot + half)]
                })
                .collect();
            let completions = exchange_all(engine, &operations, 3);
            for completion in completions {
                let whole = if completion.slot < half { WHOLE } else { 0 };
                assert_eq!(completion.result, whole, "turn {turn}, slot {}", completion.slot);
            }
        }
    });
    Outcome::Passed
}

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

/// A write to a file that is open for reading only: it fails, whatever the target.
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
