//! Engines over several files: each operation goes to the file that it names, syncs too.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use durio_block::testkit::{note_skip, open_path};
use durio_block::{
    AioEngine, BlockError, Buffers, Clock, Completion, Engine, EngineKind, EngineSetup, EngineUser,
    MonotonicClock, OpenMode, Operation, OperationKind, Ring, SyncEngine, Ticks, UringEngine,
    WriteFlags,
};

const BLOCK: usize = 4096;
const FILES: u32 = 3;

/// Three files of zeros, and each open.
fn files(directory: &Path) -> (Vec<PathBuf>, Vec<OwnedFd>) {
    let paths: Vec<_> = (0..FILES).map(|file| directory.join(file.to_string())).collect();
    let opened = paths.iter().map(|path| {
        fs::write(path, [0; 2 * BLOCK]).unwrap();
        open_path(path, OpenMode { write: true, ..OpenMode::default() }).unwrap().file
    });
    let opened = opened.collect();
    (paths, opened)
}

fn perform(engine: &mut impl Engine, kind: OperationKind, file: u32) {
    let length = if kind.is_transfer() { BLOCK as u64 } else { 0 };
    let operation = Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file,
        slot: 0,
        length,
        offset: if kind.is_transfer() { BLOCK as u64 } else { 0 },
        intended_start: Ticks::default(),
    };
    let mut completions = [Completion::default()];
    let mut count = engine.exchange(&[operation], &mut completions).unwrap();
    while count == 0 {
        count = engine.exchange(&[], &mut completions).unwrap();
    }
    assert_eq!(u64::try_from(completions[0].result).unwrap(), length, "{kind:?} of {file}");
}

/// Writes a mark of its own to each file in turn, syncs each, and reads it back.
fn goes_where_it_is_sent(engine: &mut impl Engine, paths: &[PathBuf]) {
    let mark = |file: u32| u8::try_from(file).unwrap() + 1;
    for file in 0..FILES {
        engine.slot_mut(0).fill(mark(file));
        perform(engine, OperationKind::Write, file);
        perform(engine, OperationKind::Fsync, file);
        perform(engine, OperationKind::Fdatasync, file);
    }
    for (file, path) in (0..).zip(paths) {
        let contents = fs::read(path).unwrap();
        assert_eq!(contents[..BLOCK], [0; BLOCK]);
        assert_eq!(contents[BLOCK..], [mark(file); BLOCK]);
        engine.slot_mut(0).fill(0);
        perform(engine, OperationKind::Read, file);
        assert_eq!(engine.slot_mut(0)[..], [mark(file); BLOCK]);
    }
}

#[test]
fn an_operation_of_the_sync_engine_goes_to_the_file_that_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let (paths, mut opened) = files(directory.path());
    let first = opened.remove(0);
    let engine = SyncEngine::new(MonotonicClock, first, Buffers::new(1, BLOCK));
    goes_where_it_is_sent(&mut engine.with_more_files(opened), &paths);
}

#[test]
fn an_operation_of_the_mmap_engine_goes_to_the_file_that_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let (paths, mut opened) = files(directory.path());
    let (file, more_files) = (opened.remove(0), opened);
    let setup = EngineSetup {
        clock: MonotonicClock,
        file,
        more_files,
        buffers: Buffers::new(1, BLOCK),
        depth: 1,
        entries: 1,
        blocking_syncs: false,
        advice: Some(rustix::fs::Advice::Random),
    };
    EngineKind::Mmap.open(setup, Paths(&paths));
}

struct Paths<'p>(&'p [PathBuf]);

impl<C: Clock> EngineUser<C> for Paths<'_> {
    type Output = ();

    fn drive<E: Engine<Clock = C>>(self, mut engine: E) {
        goes_where_it_is_sent(&mut engine, self.0);
    }

    fn refused(self, error: BlockError) {
        panic!("{error}: {}", error.source);
    }
}

#[test]
fn an_operation_of_aio_goes_to_the_file_that_it_names() {
    if let Err(error) = EngineKind::Aio.probe() {
        return note_skip("an_operation_of_aio_goes_to_the_file_that_it_names", &error);
    }
    let directory = tempfile::tempdir().unwrap();
    let (paths, mut opened) = files(directory.path());
    let first = opened.remove(0);
    let engine = AioEngine::new(MonotonicClock, first, Buffers::new(1, BLOCK), 1).unwrap();
    let engine = engine.with_more_files(opened);
    goes_where_it_is_sent(&mut engine.with_blocking_syncs(true), &paths);
}

#[test]
fn an_operation_of_io_uring_goes_to_the_file_that_it_names() {
    if let Err(error) = EngineKind::Uring.probe() {
        return note_skip("an_operation_of_io_uring_goes_to_the_file_that_it_names", &error);
    }
    let directory = tempfile::tempdir().unwrap();
    let (paths, opened) = files(directory.path());
    let mut ring = Ring::new(1).unwrap();
    let buffers = Buffers::new(1, BLOCK);
    let mut engine = UringEngine::new(MonotonicClock, &mut ring, &opened, buffers).unwrap();
    goes_where_it_is_sent(&mut engine, &paths);
}
