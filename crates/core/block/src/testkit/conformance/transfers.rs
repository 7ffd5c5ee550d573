//! Data: what is written is read back, lengths, the end of the file, the null target.

use std::fs;
use std::path::Path;

use super::bench::{
    BLOCK, Bench, DEPTH, SLOT_BLOCKS, WHOLE, exchange, exchange_all, fill, pattern, read, result,
    results, write,
};
use super::{Case, Needs, Outcome, Target, case};
use crate::testkit::open_path;
use crate::{Clock, Engine, OpenMode, Operation};

pub(super) fn cases<C: Clock>() -> Vec<Case<C>> {
    vec![
        case(Needs::Storage, "what_is_written_is_read_back", what_is_written_is_read_back),
        case(Needs::Storage, "what_others_wrote_is_read", what_others_wrote_is_read),
        case(Needs::Nothing, "a_transfer_gives_its_length", a_transfer_gives_its_length),
        case(
            Needs::BufferedFiles,
            "odd_lengths_and_offsets_are_kept",
            odd_lengths_and_offsets_are_kept,
        ),
        case(Needs::AnySize, "a_read_past_the_end_gives_what_is_there", a_read_past_the_end),
        case(Needs::FilesByCalls, "a_write_past_the_end_grows_the_file", a_write_past_the_end),
        case(Needs::Files, "dev_zero_is_a_null_target", dev_zero_is_a_null_target),
    ]
}

/// Blocks of a file that is written in full.
const BLOCKS: u64 = 61;

/// The n-th block to be used: all of them once, not in their order, as 23 and 61 share no divisor.
fn shuffled(n: u64) -> u64 {
    n * 23 % BLOCKS
}

fn what_is_written_is_read_back<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(BLOCKS, 0);
    // Not what is there already.
    let new = |block| block + 1000;
    bench.engine(bench.open(&name), &mut |engine| {
        keep_in_flight(engine, &mut |engine, slot, block| {
            fill(engine, slot, new(block));
            write(slot, block)
        });
    });
    bench.assert_holds(&name, &(0..BLOCKS).map(new).collect::<Vec<_>>());
    Outcome::Passed
}

fn what_others_wrote_is_read<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(BLOCKS, 0);
    bench.engine(bench.open_as(&name, false), &mut |engine| {
        for n in (0..BLOCKS).step_by(DEPTH as usize) {
            let blocks = (0..DEPTH).zip((n..BLOCKS).map(shuffled));
            let operations: Vec<_> =
                blocks.clone().map(|(slot, block)| read(slot, block)).collect();
            assert!(results(engine, &operations).iter().all(|&result| result == WHOLE));
            for (slot, block) in blocks {
                assert!(engine.slot_mut(slot)[..BLOCK] == pattern(block), "data of block {block}");
            }
        }
    });
    Outcome::Passed
}

/// Runs an operation on every block, as many in flight as there are slots, each slot filled again
/// as soon as it is free.
fn keep_in_flight<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    next: &mut dyn FnMut(&mut dyn Engine<Clock = C>, u32, u64) -> Operation,
) {
    let mut blocks = (0..BLOCKS).map(shuffled);
    let mut free: Vec<u32> = (0..DEPTH).collect();
    let mut completed = 0;
    while completed < BLOCKS {
        let mut operations = Vec::new();
        for slot in free.drain(..) {
            let Some(block) = blocks.next() else { break };
            operations.push(next(engine, slot, block));
        }
        let completions = exchange(engine, &operations, 3);
        assert!(!completions.is_empty(), "no completion after {completed} of {BLOCKS}");
        for completion in completions {
            assert_eq!(completion.result, WHOLE);
            free.push(completion.slot);
            completed += 1;
        }
    }
}

fn a_transfer_gives_its_length<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(SLOT_BLOCKS as u64, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        for length in (1..=SLOT_BLOCKS).map(|blocks| (blocks * BLOCK) as u64) {
            for operation in [read(0, 0), write(1, 0)] {
                let moved = result(engine, Operation { length, ..operation });
                assert_eq!(u64::try_from(moved), Ok(length));
            }
        }
    });
    Outcome::Passed
}

fn odd_lengths_and_offsets_are_kept<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(2, 0);
    let path = bench.path(&name);
    let mut expected = fs::read(&path).expect("reading the file of the suite");
    expected[2300..4600].copy_from_slice(&pattern(7)[..2300]);
    bench.engine(bench.open(&name), &mut |engine| {
        fill(engine, 0, 7);
        let odd = Operation { length: 2300, offset: 2300, ..write(0, 0) };
        assert_eq!(result(engine, odd), 2300);
    });
    assert!(fs::read(&path).expect("reading it again") == expected);
    Outcome::Passed
}

fn a_read_past_the_end<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(3, 100);
    bench.engine(bench.open_as(&name, false), &mut |engine| {
        engine.slot_mut(0).fill(0xee);
        engine.slot_mut(1).fill(0xee);
        assert_eq!(results(engine, &[read(0, 3), read(1, 5)]), [100, 0]);
        let data = engine.slot_mut(0);
        assert!(data[..100] == pattern(3)[..100], "the data before the end");
        // Direct I/O fetches the whole block, whose rest the filesystem keeps zero.
        let untouched = |byte: &u8| *byte == 0xee || *byte == 0;
        assert!(data[100..].iter().all(untouched), "garbage behind the end");
        assert!(engine.slot_mut(1).iter().all(untouched), "garbage beyond the end");
    });
    Outcome::Passed
}

fn a_write_past_the_end<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let name = bench.object(2, 0);
    bench.engine(bench.open(&name), &mut |engine| {
        fill(engine, 0, 2);
        fill(engine, 1, 3);
        let both = [write(0, 2), write(1, 3)];
        assert!(exchange_all(engine, &both, 2).iter().all(|c| c.result == WHOLE));
    });
    bench.assert_holds(&name, &[0, 1, 2, 3]);
    Outcome::Passed
}

fn dev_zero_is_a_null_target<C: Clock>(bench: &Bench<'_, C>) -> Outcome {
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let Ok(zero) = open_path(Path::new("/dev/zero"), mode) else {
        return Outcome::Skipped("/dev/zero cannot be opened".to_owned());
    };
    bench.engine(Target::File(zero.file), &mut |engine| {
        engine.slot_mut(0).fill(0xee);
        fill(engine, 1, 1);
        assert_eq!(results(engine, &[read(0, 9), write(1, 9)]), [WHOLE, WHOLE]);
        assert!(engine.slot_mut(0)[..BLOCK].iter().all(|&byte| byte == 0));
        assert!(engine.slot_mut(1)[..BLOCK] == pattern(1), "a write changed its slot");
    });
    Outcome::Passed
}
