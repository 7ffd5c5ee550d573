//! Reallocation: the range reads as zeros, and the size stays.

use std::fs;
use std::os::fd::AsFd;

use durio_base::Bytes;

use super::bench::{BLOCK, Bench, WHOLE, pattern, result, results, write};
use super::{Case, Needs, Outcome, case};
use crate::{Clock, Operation, OperationKind, supports_reallocate};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Files, "reallocation_zeroes_the_range_and_keeps_the_size", reallocation),
        case(Needs::Files, "a_reallocation_that_fails_says_so", a_reallocation_that_fails_says_so),
    ]
}

fn reallocate(slot: u32, block: u64, blocks: u64) -> Operation {
    Operation {
        kind: OperationKind::Reallocate,
        length: blocks * BLOCK as u64,
        ..write(slot, block)
    }
}

fn reallocation<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let probe = bench.open(&bench.object(1, 0)).into_file();
    if !supports_reallocate(probe.as_fd(), Bytes::new(BLOCK as u64)) {
        return Outcome::Skipped("the filesystem has no FALLOC_FL_ZERO_RANGE".to_owned());
    }
    let name = bench.object(8, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        engine.slot_mut(1).copy_from_slice(&[pattern(5); 4].concat());
        // Longer than a slot, as it moves no data, and beyond the end of the file.
        let operations = [write(1, 0), reallocate(0, 2, 3), reallocate(3, 7, 9)];
        assert_eq!(results(engine, &operations), [WHOLE, 0, 0]);
    });
    let contents = fs::read(bench.path(&name)).expect("reading the file of the suite");
    assert_eq!(contents.len(), 8 * BLOCK, "size of the file");
    for (place, data) in contents.chunks_exact(BLOCK).enumerate() {
        let expected = match place {
            0 => pattern(5),
            2..=4 | 7 => [0; BLOCK],
            _ => pattern(place as u64),
        };
        assert!(data == expected, "contents of block {place}");
    }
    Outcome::Passed
}

fn a_reallocation_that_fails_says_so<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    bench.engine(bench.open_as(&bench.object(8, 0), false), &mut |engine| {
        assert_eq!(result(engine, reallocate(0, 2, 3)), -libc::EBADF);
    });
    Outcome::Passed
}
