//! Syncs and write flags: they complete, and they do what they say.
//!
//! What they say shows in the page cache: after a sync, cachestat(2) finds no page of the file
//! that is yet to be written. That the device's own cache was flushed is beyond this suite
//! (durio-prove).

use std::path::Path;

use super::bench::{
    Bench, WHOLE, exchange_all, fill, result, results, sync, unwritten_pages, write,
};
use super::{Case, Needs, Outcome, case};
use crate::{Clock, Engine, Operation, OperationKind, WriteFlags};

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
