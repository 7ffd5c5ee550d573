//! Data: writes are read back, lengths, the end of the file, the null target; a reallocated
//! range reads as zeros, and the size stays.
//!
//! [`Store`] keeps the data of the suite: the bodies prepare it, and look at it past the engine,
//! through it alone.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_block::testkit::open_path;
use durio_block::{Clock, Engine, OpenMode, Operation, OperationKind, supports_reallocate};

use super::bench::{
    BLOCK, Bench, DEPTH, SLOT_BLOCKS, WHOLE, exchange, exchange_all, fill, pattern, read, result,
    results, write,
};
use super::{Case, Needs, Outcome, case};

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
        case(Needs::Files, "reallocation_zeroes_the_range_and_keeps_the_size", reallocation),
        case(Needs::Files, "a_reallocation_that_fails_says_so", a_reallocation_that_fails_says_so),
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
    // Not the blocks' contents so far.
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

/// Objects with a name, each a row of bytes. A fault of the store itself is a panic.
pub trait Store {
    /// Makes an object of these contents, durable, in place of one of that name.
    fn create(&self, name: &str, contents: &[u8]);

    /// What the object holds. Asked when no engine is over it.
    fn contents(&self, name: &str) -> Vec<u8>;

    /// The object, for an engine that may write or not.
    fn open(&self, name: &str, write: bool) -> Target {
        Target::Object { name: name.to_owned(), write }
    }

    /// True if an object can end within a block.
    fn takes_any_size(&self) -> bool {
        true
    }

    /// The files that the objects are, for bodies that need more of them than data.
    fn files(&self) -> Option<&Files> {
        None
    }
}

/// What an engine is built over.
#[derive(Debug)]
pub enum Target {
    File(OwnedFd),
    /// An object of a store without files, and whether it is to be written to.
    Object {
        /// Its name in the store.
        name: String,
        /// False if writes have to fail.
        write: bool,
    },
}

impl Target {
    /// The open file.
    ///
    /// # Panics
    /// If the store has no file: it does not fit the engine.
    #[must_use]
    pub fn into_file(self) -> OwnedFd {
        match self {
            Self::File(file) => file,
            Self::Object { name, .. } => panic!("'{name}' is not a file"),
        }
    }
}

/// Files of a directory.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    direct: bool,
}

impl Files {
    /// Files of an existing directory, opened with O_DIRECT or not.
    #[must_use]
    pub fn new(directory: &Path, direct: bool) -> Self {
        Self { directory: directory.to_owned(), direct }
    }

    /// True if they are opened with O_DIRECT.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Where the object is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Store for Files {
    fn create(&self, name: &str, contents: &[u8]) {
        let path = self.path(name);
        fs::write(&path, contents).expect("writing the file of the suite");
        // Blocks without a place on the disk would turn asynchronous writes into blocking ones.
        fs::File::open(&path).and_then(|file| file.sync_all()).expect("syncing it");
    }

    fn contents(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("reading the file of the suite")
    }

    fn open(&self, name: &str, write: bool) -> Target {
        let mode = OpenMode { write, direct: self.direct, ..OpenMode::default() };
        let target = open_path(&self.path(name), mode).expect("opening the file of the suite");
        assert_eq!(target.direct, self.direct, "O_DIRECT is not possible here");
        Target::File(target.file)
    }

    fn files(&self) -> Option<&Files> {
        Some(self)
    }
}
