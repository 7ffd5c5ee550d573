//! Syncs of a range: they are done or refused, and they write their range and no other.
//!
//! As for whole syncs, the page cache is the witness (cachestat(2)).

use super::bench::{
    BLOCK, Bench, DEPTH, WHOLE, exchange_all, linked, result, results, sync, unwritten_pages, write,
};
use super::{Case, Needs, Outcome, case, syncs};
use crate::{Buffers, Clock, Engine, Operation, OperationKind};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Nothing, "range_syncs_work_or_are_refused", range_syncs_work_or_are_refused),
        case(Needs::Storage, "a_range_sync_that_fails_says_so", a_failure_is_said),
        case(Needs::Nothing, "a_range_sync_takes_part_in_chains", a_part_of_a_chain),
        case(Needs::BufferedFiles, "a_range_sync_writes_its_range_and_no_other", its_range_only),
        case(Needs::Nothing, "a_sync_needs_no_memory", a_sync_needs_no_memory),
    ]
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
    if let Some(reason) = syncs::cannot_tell(&bench.path(&bench.object(1, 0))) {
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
