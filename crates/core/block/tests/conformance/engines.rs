//! Every engine through the same suite, with buffered files and with O_DIRECT.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use durio_base::Nanos;
use durio_block::testkit::{note_skip, open_path};
use durio_block::{
    AioEngine, BlockError, Buffers, Clock, Completion, Engine, EngineKind, MmapEngine,
    MonotonicClock, NullAnswers, NullEngine, OpenMode, Operation, OperationKind, Ring, SyncEngine,
    Ticks, TscClock, UringEngine, VirtualClock, WriteFlags,
};
use testkit::conformance::{EngineBody, Files, Lend, Setup, Suite};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// One line of error and cause, or none if the engine can be used.
fn reason(probe: Result<(), BlockError>) -> Option<String> {
    probe.err().map(|error| format!("{error}: {}", error.source))
}

/// A ring. Its memory counts against RLIMIT_MEMLOCK of plain users, and the kernel gives it back
/// some time after a ring was closed, so tests in parallel may have to wait for it.
fn ring(depth: u32) -> Result<Ring, BlockError> {
    for _ in 0..200 {
        match Ring::new(depth) {
            Err(error) if error.source.kind() == ErrorKind::OutOfMemory => {
                std::thread::sleep(Duration::from_millis(10));
            }
            outcome => return outcome,
        }
    }
    Ring::new(depth)
}

fn probe_ring() -> Result<(), BlockError> {
    match ring(1) {
        // The crate's own probe must say the same, but for the memory of other tests.
        Ok(_) => Ok(()),
        Err(error) => Err(EngineKind::Uring.probe().err().unwrap_or(error)),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Buffered,
    Direct,
}

fn direct_is_possible(directory: &Path) -> bool {
    let path = directory.join("probe");
    File::create(&path).expect("a file");
    let mode = OpenMode { direct: true, ..OpenMode::default() };
    open_path(&path, mode).expect("the file").direct
}

fn run<C: Clock>(test: &str, mode: Mode, lend: &Lend<'_, C>) {
    run_with(test, mode, lend, |_| {});
}

fn run_with<C: Clock>(
    test: &str,
    mode: Mode,
    lend: &Lend<'_, C>,
    adapt: impl FnOnce(&mut Suite<'_, C>),
) {
    let directory = directory();
    if mode == Mode::Direct && !direct_is_possible(directory.path()) {
        return note_skip(test, &"the filesystem has no O_DIRECT");
    }
    let files = Files::new(directory.path(), mode == Mode::Direct);
    let mut suite = Suite::new(lend, &files);
    adapt(&mut suite);
    let report = suite.run();
    report.assert_passed();
    for skipped in report.skipped {
        note_skip(&format!("{test}: {}", skipped.body), &skipped.reason);
    }
}

#[test]
fn the_null_engine_conforms() {
    let lend = |setup: Setup, body: &mut EngineBody<'_, VirtualClock>| {
        let script = NullAnswers::new([7, 3, 3, 5].map(Nanos::new).to_vec(), None);
        body(&mut NullEngine::new(script, setup.buffers));
    };
    run_with("the_null_engine_conforms", Mode::Buffered, &lend, |suite| suite.stores_data = false);
}

fn lend_sync<C: Clock>(clock: C, setup: Setup, body: &mut EngineBody<'_, C>) {
    body(&mut SyncEngine::new(clock, setup.target.into_file(), setup.buffers));
}

#[test]
fn the_sync_engine_conforms_with_buffered_files() {
    run("the_sync_engine_conforms_with_buffered_files", Mode::Buffered, &|setup, body| {
        lend_sync(MonotonicClock, setup, body);
    });
}

#[test]
fn the_sync_engine_conforms_with_direct_files() {
    run("the_sync_engine_conforms_with_direct_files", Mode::Direct, &|setup, body| {
        lend_sync(MonotonicClock, setup, body);
    });
}

#[test]
fn the_sync_engine_conforms_with_the_time_stamp_counter() {
    let test = "the_sync_engine_conforms_with_the_time_stamp_counter";
    let Some(clock) = TscClock::calibrate() else {
        return note_skip(test, &"no time-stamp counter");
    };
    run(test, Mode::Direct, &|setup, body| lend_sync(clock, setup, body));
}

fn run_mmap(test: &str, mode: Mode) {
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        let file = setup.target.into_file();
        body(&mut MmapEngine::mapped(MonotonicClock, file, setup.buffers).expect("an engine"));
    };
    run_with(test, mode, &lend, |suite| suite.maps_files = true);
}

#[test]
fn the_mmap_engine_conforms_with_buffered_files() {
    run_mmap("the_mmap_engine_conforms_with_buffered_files", Mode::Buffered);
}

#[test]
fn the_mmap_engine_conforms_with_direct_files() {
    run_mmap("the_mmap_engine_conforms_with_direct_files", Mode::Direct);
}

fn lend_uring<C: Clock>(clock: C, setup: Setup, body: &mut EngineBody<'_, C>) {
    let mut ring = ring(setup.depth).expect("a ring");
    let engine = UringEngine::new(clock, &mut ring, &[setup.target.into_file()], setup.buffers);
    body(&mut engine.expect("an engine"));
}

fn run_uring(test: &str, mode: Mode) {
    match reason(probe_ring()) {
        Some(reason) => note_skip(test, &reason),
        None => run(test, mode, &|setup, body| lend_uring(MonotonicClock, setup, body)),
    }
}

#[test]
fn the_uring_engine_conforms_with_buffered_files() {
    run_uring("the_uring_engine_conforms_with_buffered_files", Mode::Buffered);
}

#[test]
fn the_uring_engine_conforms_with_direct_files() {
    run_uring("the_uring_engine_conforms_with_direct_files", Mode::Direct);
}

#[test]
fn the_uring_engine_conforms_with_unregistered_buffers() {
    let test = "the_uring_engine_conforms_with_unregistered_buffers";
    if let Some(reason) = reason(probe_ring()) {
        return note_skip(test, &reason);
    }
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        let mut ring = ring(setup.depth).unwrap();
        let engine =
            UringEngine::new(MonotonicClock, &mut ring, &[setup.target.into_file()], setup.buffers);
        let mut engine = engine.unwrap();
        engine.unregister_buffers();
        body(&mut engine);
    };
    run(test, Mode::Direct, &lend);
}

#[test]
fn the_uring_engine_conforms_with_the_time_stamp_counter() {
    let test = "the_uring_engine_conforms_with_the_time_stamp_counter";
    if let Some(reason) = reason(probe_ring()) {
        return note_skip(test, &reason);
    }
    let Some(clock) = TscClock::calibrate() else {
        return note_skip(test, &"no time-stamp counter");
    };
    run(test, Mode::Direct, &|setup, body| lend_uring(clock, setup, body));
}

fn run_aio(test: &str, mode: Mode) {
    if let Some(reason) = reason(EngineKind::Aio.probe()) {
        return note_skip(test, &reason);
    }
    let lend = |setup: Setup, body: &mut EngineBody<'_, MonotonicClock>| {
        let engine =
            AioEngine::new(MonotonicClock, setup.target.into_file(), setup.buffers, setup.depth);
        body(&mut engine.expect("an engine"));
    };
    // The driver of /dev/full has no write_iter, without which the kernel's aio writes nothing.
    run_with(test, mode, &lend, |suite| suite.full_device_errno = 22);
}

#[test]
fn the_aio_engine_conforms_with_buffered_files() {
    run_aio("the_aio_engine_conforms_with_buffered_files", Mode::Buffered);
}

#[test]
fn the_aio_engine_conforms_with_direct_files() {
    run_aio("the_aio_engine_conforms_with_direct_files", Mode::Direct);
}

fn read_of(slot: u32) -> Operation {
    Operation {
        kind: OperationKind::Read,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length: 4096,
        offset: 0,
        intended_start: Ticks::default(),
    }
}

#[test]
fn a_ring_serves_one_engine_after_another() {
    if let Some(reason) = reason(probe_ring()) {
        return note_skip("a_ring_serves_one_engine_after_another", &reason);
    }
    let directory = directory();
    let path = directory.path().join("file");
    let mut ring = ring(1).unwrap();
    for turn in 0..3_u8 {
        std::fs::write(&path, [turn; 4096]).unwrap();
        let file = open_path(&path, OpenMode::default()).unwrap().file;
        let buffers = Buffers::new(1, 4096);
        let mut engine = UringEngine::new(MonotonicClock, &mut ring, &[file], buffers).unwrap();
        let mut completions = [Completion::default()];
        assert_eq!(engine.exchange(&[read_of(0)], &mut completions).unwrap(), 1);
        assert_eq!(engine.slot_mut(0), [turn; 4096]);
    }
}

/// A ring that a thread's table of registered rings keeps alive would hold the target open, and
/// the table has 16 places.
#[test]
fn a_dropped_uring_engine_leaves_nothing_registered_in_its_thread() {
    let test = "a_dropped_uring_engine_leaves_nothing_registered_in_its_thread";
    if let Some(reason) = reason(probe_ring()) {
        return note_skip(test, &reason);
    }
    let directory = directory();
    let path = directory.path().join("file");
    std::fs::write(&path, [1; 4096]).unwrap();
    for turn in 0..40 {
        let mut ring = ring(1).unwrap();
        let file = open_path(&path, OpenMode::default()).unwrap().file;
        let buffers = Buffers::new(1, 4096);
        let engine = UringEngine::new(MonotonicClock, &mut ring, &[file], buffers).unwrap();
        let facts = engine.facts();
        if turn == 0 && !facts.features.iter().any(|feature| feature == "registered_ring") {
            return note_skip(test, &"the kernel registers no rings");
        }
        let registered = facts.features.iter().any(|feature| feature == "registered_ring");
        assert!(registered, "engine {turn}: {:?}", facts.fallbacks);
    }
}

/// A read of an empty pipe is in flight for as long as one likes.
#[test]
fn a_uring_engine_dropped_with_operations_in_flight_waits_for_them() {
    let test = "a_uring_engine_dropped_with_operations_in_flight_waits_for_them";
    if let Some(reason) = reason(probe_ring()) {
        return note_skip(test, &reason);
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[1; 4096]).unwrap();
    let mut ring = ring(2).unwrap();
    let buffers = Buffers::new(2, 4096);
    let mut engine =
        UringEngine::new(MonotonicClock, &mut ring, &[reader.into()], buffers).unwrap();
    let mut completions = [Completion::default()];
    assert_eq!(engine.exchange(&[read_of(0), read_of(1)], &mut completions).unwrap(), 1);
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            written.store(true, Ordering::SeqCst);
            writer.write_all(&[2; 4096]).unwrap();
        });
        drop(engine);
        assert!(written.load(Ordering::SeqCst), "dropped while the kernel held the buffers");
    });
}

/// The first read of the pipe is complete when the submitting call returns, the second half a second later.
#[test]
fn a_uring_operation_that_waits_was_submitted_when_its_call_returned() {
    let test = "a_uring_operation_that_waits_was_submitted_when_its_call_returned";
    if let Some(reason) = reason(probe_ring()) {
        return note_skip(test, &reason);
    }
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[1; 4096]).unwrap();
    let mut ring = ring(2).unwrap();
    let buffers = Buffers::new(2, 4096);
    let mut engine =
        UringEngine::new(MonotonicClock, &mut ring, &[reader.into()], buffers).unwrap();
    let mut completions = [Completion::default()];
    let begin = MonotonicClock.now();
    assert_eq!(engine.exchange(&[read_of(0), read_of(1)], &mut completions).unwrap(), 1);
    let returned = MonotonicClock.now();
    let [first] = completions;
    assert!(begin <= first.submitted_at && first.submitted_at <= first.completed_at, "{first:?}");
    std::thread::sleep(Duration::from_millis(50));
    let written = MonotonicClock.now();
    writer.write_all(&[2; 4096]).unwrap();
    assert_eq!(engine.exchange(&[], &mut completions).unwrap(), 1);
    let [second] = completions;
    assert!((begin..=returned).contains(&second.submitted_at), "{second:?}");
    assert!(second.completed_at >= written && second.slot != first.slot, "{second:?}");
    // Alone in flight, and complete when its call returns.
    writer.write_all(&[3; 4096]).unwrap();
    assert_eq!(engine.exchange(&[read_of(0)], &mut completions).unwrap(), 1);
    let [third] = completions;
    assert!(third.submitted_at >= written && third.submitted_at == third.completed_at, "{third:?}");
}

#[test]
fn an_aio_context_that_the_kernel_does_not_grant_is_an_error_with_its_reason() {
    let test = "an_aio_context_that_the_kernel_does_not_grant_is_an_error_with_its_reason";
    if let Some(reason) = reason(EngineKind::Aio.probe()) {
        return note_skip(test, &reason);
    }
    let file = File::open("/dev/zero").unwrap().into();
    let error = AioEngine::new(MonotonicClock, file, Buffers::new(1, 4096), 1 << 24).unwrap_err();
    assert_eq!(error.to_string(), "cannot set up an aio context");
}

/// io_submit takes at most what the context has room for; the engine waits for room meanwhile.
#[test]
fn aio_takes_many_operations_at_once_again_and_again() {
    let test = "aio_takes_many_operations_at_once_again_and_again";
    if let Some(reason) = reason(EngineKind::Aio.probe()) {
        return note_skip(test, &reason);
    }
    let directory = directory();
    let path = directory.path().join("file");
    std::fs::write(&path, [1; 4096]).unwrap();
    let file = open_path(&path, OpenMode { direct: true, ..OpenMode::default() }).unwrap().file;
    let depth = 500_u32;
    let buffers = Buffers::new(depth as usize, 4096);
    let mut engine = AioEngine::new(MonotonicClock, file, buffers, depth).unwrap();
    let operations: Vec<Operation> = (0..depth).map(read_of).collect();
    let mut completions = vec![Completion::default(); depth as usize];
    for _ in 0..5 {
        let mut count = engine.exchange(&operations, &mut completions).unwrap();
        while count < depth as usize {
            count += engine.exchange(&[], &mut completions).unwrap();
        }
        assert_eq!(count, depth as usize);
    }
}
