//! Replays of made-up traces, held against the rule of what waits for what.

use durio_observe::{CapturedFile, TRACED_CALLS};
use durio_record::TracedOperation;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Files of the traces: two ways to open the first, one of unknown size.
fn files() -> Vec<CapturedFile> {
    let file = |path: &str, flags, size| CapturedFile { path: path.to_owned(), flags, size };
    vec![file("log", 0, Some(100_000)), file("log", 0o10_000, Some(100_000)), file("data", 0, None)]
}

fn operation() -> impl Strategy<Value = TracedOperation> {
    // Within a millisecond, so that many are under way at once.
    let parts = (0..1_000_000_u64, 1..200_000_u64, 0..4_u32, 0..3_usize, 0..8_usize);
    let places = (proptest::option::of(0..200_000_u64), 1..20_000_u64, any::<bool>());
    (parts, places).prop_map(|((begin, nanos, task, file, call), (offset, bytes, durable))| {
        let call = &TRACED_CALLS[call];
        let is_write = call.role == durio_observe::CallRole::Write;
        let bytes = if is_write { bytes } else { 0 };
        let offset = offset.filter(|_| is_write);
        TracedOperation { begin, nanos, task, file, call, offset, bytes, durable }
    })
}

/// Replays a trace, and says what broke the rule.
fn broken(operations: Vec<TracedOperation>, speed: f64) -> Option<String> {
    let trace = OperationTrace::new(Value::Null, files(), operations);
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let wish = ReplayWish { trace: &trace, directory: folder.path(), speed, seed: 7 };
    let replay = replay(wish, &mut journal, &StopFlag::default(), &mut |_| {}).unwrap();
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    if files != 1 {
        return Some(format!("{files} files are left, of which the journal is one"));
    }
    let mut done = replay.operations.clone();
    done.sort_by_key(|operation| operation.operation);
    if done.iter().map(|operation| operation.operation).ne(0..trace.operations.len()) {
        return Some(format!("not each once: {done:?}"));
    }
    violation(&trace, &done)
}

/// What began before it could have: before it was due, or before those had ended that it had followed.
fn violation(trace: &OperationTrace, done: &[ReplayedOperation]) -> Option<String> {
    let path = |place: usize| &trace.files[trace.operations[place].file].path;
    for (place, operation) in done.iter().enumerate() {
        let own = &trace.operations[place];
        if operation.begin < operation.due || operation.begin > operation.end {
            return Some(format!("at odd times: {operation:?}"));
        }
        for (other, before) in done.iter().enumerate() {
            let theirs = &trace.operations[other];
            let is_followed = match theirs.task == own.task {
                true => other < place,
                false => path(other) == path(place) && theirs.end() <= own.begin,
            };
            if is_followed && before.end > operation.begin {
                return Some(format!(
                    "{own:?} began as {operation:?}, before {theirs:?} as {before:?}"
                ));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_begins_before_what_it_had_followed(
        operations in prop::collection::vec(operation(), 1..60),
        speed in prop::sample::select(vec![0.5, 1.0, 1e6]),
    ) {
        let broken = broken(operations, speed);
        prop_assert!(broken.is_none(), "{}", broken.unwrap());
    }
}

#[test]
fn the_rule_is_broken_by_what_begins_too_early() {
    let one = |begin, task| TracedOperation {
        begin,
        nanos: 10,
        task,
        file: 0,
        call: &TRACED_CALLS[1],
        offset: Some(0),
        bytes: 8,
        durable: false,
    };
    let trace = OperationTrace::new(Value::Null, files(), vec![one(0, 1), one(10, 2), one(30, 2)]);
    let at = |operation, begin, end| ReplayedOperation { operation, due: 0, ready: 0, begin, end };
    assert_eq!(violation(&trace, &[at(0, 0, 5), at(1, 5, 6), at(2, 6, 9)]), None);
    for early in [[at(0, 0, 5), at(1, 4, 6), at(2, 6, 9)], [at(0, 0, 5), at(1, 5, 8), at(2, 7, 9)]]
    {
        assert!(violation(&trace, &early).unwrap().contains("before"));
    }
}

#[test]
fn only_what_is_written_again_is_laid_out() {
    let gib = 1 << 30;
    let file = CapturedFile { path: "table".into(), flags: 0, size: Some(100 * gib) };
    let write = |offset, bytes| TracedOperation {
        begin: 0,
        nanos: 1,
        task: 1,
        file: 0,
        call: &TRACED_CALLS[1],
        offset: Some(offset),
        bytes,
        durable: false,
    };
    // Within a chunk, over the border of two, and beyond the end.
    let operations = vec![write(5, 8), write(2 * CHUNK.get() - 1, 2), write(100 * gib, 4096)];
    let trace = OperationTrace::new(Value::Null, vec![file], operations);
    let files = Files::of(&trace);
    let need = &files.needs[0];
    assert_eq!(need.laid_out().as_slice(), std::slice::from_ref(&(0..3 * CHUNK.get())));
    assert_eq!(need.room(), 3 * CHUNK.get() + 4096);
    // A file that grew by a hole takes the room of what is in it.
    let file = CapturedFile { path: "hole".into(), flags: 0, size: Some(0) };
    let trace = OperationTrace::new(Value::Null, vec![file], vec![write(900 * gib, 8192)]);
    let files = Files::of(&trace);
    assert_eq!((files.needs[0].laid_out().len(), files.needs[0].room()), (0, 8192));
}

#[test]
fn a_replay_has_4096_threads_at_most() {
    let refused = check_threads(4097).unwrap_err().to_string();
    assert_eq!(refused, "the trace has 4097 threads; durio starts at most 4096");
    assert!(check_threads(4096).is_ok());
}

#[test]
fn a_replay_opens_each_file_twice_and_twice_for_each_thread_that_uses_it_and_64_others() {
    let one = |begin, task, file| TracedOperation {
        begin,
        nanos: 10,
        task,
        file,
        call: &TRACED_CALLS[1],
        offset: Some(0),
        bytes: 8,
        durable: false,
    };
    // Two threads at once, of which one uses two files.
    let operations = vec![one(0, 1, 0), one(0, 2, 0), one(20, 2, 2), one(40, 2, 2)];
    let trace = OperationTrace::new(Value::Null, files(), operations);
    let files = Files::of(&trace);
    let order = ReplayOrder::of(&trace, &files.place_of);
    assert_eq!((files.needs.len(), order.threads().len()), (2, 2));
    assert_eq!(descriptors(&trace, &files, &order), 2 * 2 + 2 * 3 + 64);
}

fn written(begin: u64, task: u32, file: usize, offset: Option<u64>, bytes: u64) -> TracedOperation {
    let call = &TRACED_CALLS[1];
    TracedOperation { begin, nanos: 10, task, file, call, offset, bytes, durable: false }
}

#[test]
fn an_operation_is_due_when_it_was_divided_by_the_speed() {
    let due = |speed: f64| -> Vec<u64> {
        let folder = tempfile::tempdir().unwrap();
        let operations = vec![written(0, 1, 0, Some(0), 8), written(90_000, 2, 2, Some(0), 8)];
        let trace = OperationTrace::new(Value::Null, files(), operations);
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let wish = ReplayWish { trace: &trace, directory: folder.path(), speed, seed: 7 };
        let done = replay(wish, &mut journal, &StopFlag::default(), &mut |_| {}).unwrap();
        let mut due: Vec<u64> = done.operations.iter().map(|operation| operation.due).collect();
        due.sort_unstable();
        due
    };
    assert_eq!(
        (due(1.0), due(3.0), due(0.5)),
        (vec![0, 90_000], vec![0, 30_000], vec![0, 180_000])
    );
}

/// A file that two descriptors have is one.
#[test]
fn a_write_without_an_offset_goes_to_the_end_of_its_file() {
    let operations = vec![
        written(0, 1, 0, None, 300),
        written(1, 1, 1, None, 50),
        written(2, 1, 0, None, 5),
        written(3, 1, 0, Some(70), 20),
        // Of unknown size.
        written(4, 1, 2, None, 400),
        written(5, 1, 2, None, 1),
        written(6, 1, 2, Some(900), 100),
    ];
    let trace = OperationTrace::new(Value::Null, files(), operations);
    let files = Files::of(&trace);
    assert_eq!(files.place_of, [0, 0, 1]);
    assert_eq!(files.offsets, [100_000, 100_300, 100_350, 70, 0, 400, 900]);
}

#[test]
fn ranges_that_overlap_or_follow_each_other_are_laid_out_once_and_up_to_the_old_end() {
    let chunk = CHUNK.get();
    let mut need = Need { size: Some(2 * chunk + 100), ..Need::default() };
    for (offset, bytes) in [(5 * chunk, 10), (chunk, 1), (2 * chunk, 5), (0, chunk + 1)] {
        need.touch(offset, bytes);
    }
    need.join();
    assert_eq!(need.touched, [0..3 * chunk, 5 * chunk..6 * chunk]);
    assert_eq!((need.end, need.highest), (chunk + 1, 5 * chunk + 10));
    let old = 0..2 * chunk + 100;
    assert_eq!(need.laid_out(), [old]);
    assert_eq!(need.room(), 3 * chunk + 10);
    // One that begins where the old contents end is new.
    let mut need = Need { size: Some(chunk), ..Need::default() };
    need.touch(chunk, 1);
    need.join();
    assert_eq!((need.laid_out().len(), need.room()), (0, 1));
}

#[test]
fn a_file_of_unknown_size_was_as_long_as_what_is_written() {
    let mut need = Need::default();
    need.touch(700, 300);
    need.touch(100, 50);
    need.join();
    let written = 0..1000;
    assert_eq!((need.begins_with(), need.laid_out(), need.room()), (1000, vec![written], 1000));
}
