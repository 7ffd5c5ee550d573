//! What is told of files by what was done to them.

mod conditions;

use durio_observe::{
    CaptureEnd, CaptureEvent, CapturedDevice, CapturedFile, DeviceRequest, TRACED_CALLS,
    TracedCall, WriteCallRates,
};
use durio_record::OperationTrace;
use durio_spec::profile::{Profile, StreamPace};

use super::files::folded_path;
use super::*;

const O_APPEND: u32 = 0o2000;
const O_DSYNC: u32 = 0o10000;

fn call(name: &str) -> &'static TracedCall {
    TRACED_CALLS.iter().find(|call| call.name == name).unwrap()
}

/// Calls of a made-up database, each a microsecond long.
#[derive(Default)]
struct Script {
    capture: Capture,
    now: u64,
    files: usize,
    captured: Vec<CapturedFile>,
    operations: Vec<TracedOperation>,
}

impl Script {
    /// A file that process 7 has open as descriptor `fd`.
    fn file(&mut self, path: &str, flags: u32, size: u64, position: Option<u64>) -> usize {
        let file = CapturedFile { path: path.to_owned(), flags, size: Some(size) };
        self.captured.push(file.clone());
        self.capture.take(CaptureEvent::File(file));
        let number = self.files;
        self.files += 1;
        let fd = i32::try_from(number).unwrap();
        self.capture.take(CaptureEvent::Opened { holder: (7, fd), file: number, position });
        number
    }

    fn enter(&mut self, task: u32, name: &str, file: usize, offset: Option<u64>) {
        self.now += 1000;
        let (at, fd) = (self.now, i32::try_from(file).unwrap());
        let (call, holder, file) = (call(name), (7, fd), Some(file));
        let durable = false;
        self.capture.take(CaptureEvent::Entered { at, task, call, holder, file, offset, durable });
    }

    fn leave(&mut self, task: u32, name: &str, result: i64) {
        self.now += 1000;
        let left = CaptureEvent::Left { at: self.now, task, call: call(name), result };
        self.operations.extend(self.capture.take(left));
    }

    fn call(&mut self, task: u32, name: &str, file: usize, offset: Option<u64>, result: i64) {
        self.enter(task, name, file, offset);
        self.leave(task, name, result);
    }

    fn finish(self, end: CaptureEnd) -> CaptureFindings {
        let end =
            CaptureEnd { duration_ns: 2_000_000_000, sizes: vec![Some(1); self.files], ..end };
        self.capture.finish(&end, CaptureSource::default())
    }
}

/// Ten commits into the last page of a log, and a table that is written here and there.
fn postgres() -> Script {
    let mut script = Script::default();
    let log = script.file("/d/pg_wal/000000010000000000000002", 2, 16 << 20, Some(0));
    let table = script.file("/d/base/5/16384", 2, 1 << 20, Some(0));
    for commit in 0..10 {
        let page = 8192 * (commit / 5);
        let task = 100 + u32::try_from(commit % 2).unwrap();
        script.call(task, "pwrite64", log, Some(page), 8192);
        script.call(task, "fdatasync", log, None, 0);
    }
    for page in [9, 3, 7, 1, 5] {
        script.call(50, "pwrite64", table, Some(8192 * page), 8192);
    }
    script.call(50, "fsync", table, None, 0);
    script
}

pub(super) fn short_capture() -> CaptureFindings {
    postgres().finish(CaptureEnd::default())
}

/// The same as a trace.
pub(super) fn short_trace() -> OperationTrace {
    let mut script = postgres();
    let files = std::mem::take(&mut script.captured);
    let operations = std::mem::take(&mut script.operations);
    let document = script.finish(CaptureEnd::default());
    OperationTrace::new(serde_json::to_value(document).unwrap(), files, operations)
}

fn only(findings: &CaptureFindings) -> &CapturedFileFindings {
    assert_eq!(findings.files.len(), 1, "{:?}", findings.files);
    &findings.files[0]
}

fn parsed(findings: &CaptureFindings) -> Profile {
    let text = profile_text(findings).unwrap();
    Profile::parse("captured.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_segment_that_is_filled_is_no_commit_of_the_profile() {
    let mut script = postgres();
    // As often as PostgreSQL does it: the next segment, by 256 KiB, then one sync.
    let segment = script.file("/d/pg_wal/000000010000000000000003", 2, 0, Some(0));
    for part in 0..64 {
        script.call(100, "pwrite64", segment, Some(part << 18), 1 << 18);
    }
    script.call(100, "fsync", segment, None, 0);
    let profile = parsed(&script.finish(CaptureEnd::default()));
    assert_eq!(profile.log.unwrap().records.value.0[0].size.get(), 1638, "as without it");
}

#[test]
fn each_call_that_succeeded_is_an_operation_of_the_trace() {
    let trace = short_trace();
    let of = |name: &str| {
        trace.operations.iter().filter(|operation| operation.call.name == name).count()
    };
    assert_eq!((of("pwrite64"), of("fdatasync"), of("fsync")), (15, 10, 1));
    let first = trace.operations[0];
    assert_eq!((first.begin, first.nanos, first.offset, first.bytes), (0, 1000, Some(0), 8192));
    assert_eq!(trace.operations[1].begin, 2000, "of a microsecond each, and one between");
    let mut script = Script::default();
    let log = script.file("/d/log", O_APPEND, 100, None);
    script.call(1, "write", log, None, 20);
    script.call(1, "write", log, None, -28);
    script.call(1, "write", log, None, 0);
    script.call(1, "fsync", log, None, -5);
    let offsets: Vec<_> =
        script.operations.iter().map(|operation| (operation.offset, operation.bytes)).collect();
    let why = "it goes to the end, and what failed or wrote nothing is none";
    assert_eq!(offsets, [(Some(100), 20)], "{why}");
    let findings = script.finish(CaptureEnd::default());
    assert_eq!((findings.writes, findings.written_bytes), (1, 20));
}

#[test]
fn a_log_and_a_table_are_told_apart_by_what_is_done_to_them() {
    let findings = postgres().finish(CaptureEnd::default());
    let [log, table] = findings.files.as_slice() else { panic!("{:?}", findings.files) };
    assert_eq!((log.class, table.class), (FileClass::Log, FileClass::Data));
    assert!(log.class_because.starts_with("100 % of writes continue"), "{}", log.class_because);
    let pattern = OffsetPattern { continued: 2, tail_rewritten: 8, elsewhere: 0, unknown: 0 };
    assert_eq!(log.pattern, pattern);
    assert_eq!((log.writes, log.durable(), log.new_bytes), (10, 10, 16384));
    assert_eq!((log.syncing_threads, log.syncs_at_once, log.overlapping_syncs), (2, 1, 0));
    assert_eq!((log.alignment, log.grown_bytes), (8192, Some(0)));
    assert_eq!(log.sync_p50_ns, Some(1000));
    assert_eq!(findings.sizes, [CapturedSize { bytes: 8192, count: 15 }]);
    assert_eq!((table.pattern.elsewhere, table.pattern.unknown), (4, 1));
}

#[test]
fn the_profile_has_what_a_sync_made_durable_and_is_read_by_durio() {
    let profile = parsed(&postgres().finish(CaptureEnd::default()));
    let log = profile.log.as_ref().unwrap();
    // 16384 new bytes and 10 syncs.
    assert_eq!(log.records.value.0[0].size.get(), 1638);
    assert_eq!((log.padding.value.0.get(), log.committers.value.get()), (8192, 1));
    assert_eq!(log.sync.value.name(), "fdatasync");
    assert_eq!(log.rate.value, StreamPace::PerSecond(5.0), "ten in two seconds");
    let [table] = profile.streams.as_slice() else { panic!("{:?}", profile.streams) };
    assert_eq!(
        (table.name.as_str(), table.sync_every.as_ref().unwrap().value.get()),
        ("data-base", 5)
    );
    assert_eq!(profile.sources[0].kind.word(), "traced");
    // Reads and committers, which no trace has; nothing was lost or left out.
    assert_eq!(profile.notes.len(), 2, "{:?}", profile.notes);
}

#[test]
fn an_appended_file_grows_where_its_position_is_not_said() {
    let mut script = Script::default();
    let log = script.file("/d/appendonly.aof", 1 | O_APPEND, 1000, None);
    for bytes in [100, 50, 150] {
        script.call(7, "write", log, None, bytes);
        script.call(7, "fdatasync", log, None, 0);
    }
    let findings = script.finish(CaptureEnd::default());
    let it = only(&findings);
    assert_eq!((it.pattern.continued, it.grown_bytes, it.class), (3, Some(300), FileClass::Log));
    assert_eq!(it.flags, ["O_APPEND"]);
    let profile = parsed(&findings);
    let sizes: Vec<_> =
        profile.log.unwrap().records.value.0.iter().map(|record| record.size.get()).collect();
    assert_eq!(sizes, [50, 100, 150]);
}

#[test]
fn a_position_is_known_from_lseek_and_unknown_before() {
    let mut script = Script::default();
    let file = script.file("/d/file", 2, 8192, None);
    script.call(7, "write", file, None, 512);
    script.call(7, "lseek", file, None, 4096);
    script.call(7, "write", file, None, 512);
    script.call(7, "write", file, None, 512);
    let findings = script.finish(CaptureEnd::default());
    let pattern = only(&findings).pattern;
    assert_eq!((pattern.unknown, pattern.continued), (2, 1));
}

#[test]
fn writes_of_a_file_with_o_dsync_are_durable_by_themselves() {
    let mut script = Script::default();
    let log = script.file("/d/log", 1 | O_DSYNC, 1 << 20, Some(0));
    (0..4).for_each(|at| script.call(7, "pwrite64", log, Some(512 * at), 512));
    let findings = script.finish(CaptureEnd::default());
    assert_eq!((only(&findings).durable_writes, findings.durable), (4, 4));
    assert_eq!(parsed(&findings).log.unwrap().sync.value.name(), "o_dsync");
}

#[test]
fn syncs_that_run_at_once_are_counted() {
    let mut script = Script::default();
    let log = script.file("/d/log", 2, 0, Some(0));
    script.call(1, "pwrite64", log, Some(0), 512);
    for task in 1..=3 {
        script.enter(task, "fsync", log, None);
    }
    for task in 1..=3 {
        script.leave(task, "fsync", 0);
    }
    script.call(1, "fsync", log, None, 0);
    let findings = script.finish(CaptureEnd::default());
    let it = only(&findings);
    assert_eq!((it.syncs_at_once, it.overlapping_syncs, it.syncs["fsync"]), (3, 2, 4));
}

#[test]
fn a_file_that_is_gone_and_was_never_synced_is_temporary_and_makes_no_profile() {
    let mut script = Script::default();
    let file = script.file("/d/pgsql_tmp/x", 2, 0, Some(0));
    script.call(7, "pwrite64", file, Some(0), 8192);
    // What failed has written nothing.
    script.call(7, "pwrite64", file, Some(8192), -28);
    let end = CaptureEnd { duration_ns: 1, sizes: vec![None], ..CaptureEnd::default() };
    let findings = script.capture.finish(&end, CaptureSource::default());
    let it = only(&findings);
    assert_eq!((it.class, it.writes, it.errors), (FileClass::Temporary, 1, 1));
    assert_eq!(profile_text(&findings), None);
}

#[test]
fn hints_to_write_back_make_nothing_durable() {
    let mut script = Script::default();
    let file = script.file("/d/base/1", 2, 0, Some(0));
    script.call(7, "pwrite64", file, Some(0), 8192);
    script.call(7, "sync_file_range", file, None, 0);
    let findings = script.finish(CaptureEnd::default());
    assert_eq!((findings.durable, profile_text(&findings)), (0, None));
}

#[test]
fn requests_rings_and_calls_without_a_name_are_counted_and_losses_are_in_the_profile() {
    let mut script = postgres();
    let device = CapturedDevice { name: "sda".to_owned(), number: (8, 0), has_requests: true };
    for request in [
        DeviceRequest::Write { bytes: 8192, fua: true, metadata: false },
        DeviceRequest::Write { bytes: 4096, fua: false, metadata: true },
        DeviceRequest::Flush,
        DeviceRequest::Read(4096),
    ] {
        script.capture.take(CaptureEvent::Issued { device: 0, request });
    }
    script.capture.take(CaptureEvent::Ring { opcode: 23 });
    script.capture.take(CaptureEvent::Ring { opcode: 22 });
    let unnamed = CaptureEvent::Entered {
        at: 1,
        task: 9,
        call: call("write"),
        holder: (7, 99),
        file: None,
        offset: None,
        durable: false,
    };
    script.capture.take(unnamed);
    let (lost_calls, lost_requests) = (12, 5);
    let end =
        CaptureEnd { devices: vec![device], lost_calls, lost_requests, ..CaptureEnd::default() };
    let findings = script.finish(end);
    let it = &findings.devices[0];
    assert_eq!((it.name.as_str(), it.writes, it.written_bytes), ("sda", 2, 12288));
    assert_eq!((it.fua, it.metadata_writes, it.flushes, it.reads), (1, 1, 1, 1));
    assert_eq!((findings.ring_operations, findings.unnamed_calls), (1, 1));
    assert!(parsed(&findings).notes.iter().any(|note| note.starts_with("12 events were lost")));
}

#[test]
fn generations_of_a_file_are_one_and_short_words_keep_their_letters() {
    assert_eq!(folded_path("/d/pg_wal/0000000100000000000000AB"), "/d/pg_wal/#");
    assert_eq!(folded_path("/d/base/5/16384.1"), "/d/base/#/#.#");
    assert_eq!(folded_path("/d/FACADE/ib_logfile0"), "/d/FACADE/ib_logfile#");
    let mut script = Script::default();
    for name in ["/d/wal/1", "/d/wal/2"] {
        let file = script.file(name, 1, 0, Some(0));
        script.call(7, "write", file, None, 512);
        script.call(7, "fsync", file, None, 0);
    }
    let findings = script.finish(CaptureEnd::default());
    let it = only(&findings);
    assert_eq!((it.path.as_str(), it.files, it.pattern.continued), ("/d/wal/#", 2, 2));
}

#[test]
fn hostile_names_make_a_profile_that_is_read_all_the_same() {
    let mut script = Script::default();
    for name in ["/d/\"]\n\u{1b}[31m\\\u{7f}", "/d/ü/öä", "/d/--", "/d/log", "/e/log"] {
        let file = script.file(name, 1, 0, Some(0));
        script.call(7, "write", file, None, 513);
        script.call(7, "fsync", file, None, 0);
    }
    let profile = parsed(&script.finish(CaptureEnd::default()));
    assert_eq!(profile.streams.len(), 4);
}

#[test]
fn a_slowdown_is_told_where_the_halves_of_the_trace_are_alike() {
    let slowed = |first, second, after| {
        let end = CaptureEnd {
            write_calls: Some(WriteCallRates { halves: [first, second], after }),
            duration_ns: 60_000_000_000,
            ..CaptureEnd::default()
        };
        Capture::default().finish(&end, CaptureSource::default()).cost.slowdown
    };
    let less = slowed(910.0, 890.0, 1000.0).unwrap();
    assert!((less - 0.1).abs() < 1e-9, "{less}");
    assert_eq!(slowed(1200.0, 700.0, 1000.0), None, "they differ by more than it");
    assert_eq!(slowed(0.0, 5.0, 0.0), None, "nothing was done");
    assert_eq!(slowed(2.0, 2.0, 4.0), None, "a few calls");
    assert_eq!(slowed(1100.0, 1100.0, 1000.0), None, "faster by chance");
}

#[test]
fn a_profile_says_which_share_of_files_and_sizes_it_leaves_out() {
    let mut script = Script::default();
    let log = script.file("/d/log", 2, 0, Some(0));
    // 14 sizes: the first of 87 writes, each other of one; a profile takes 12.
    let sizes = (0..87).map(|_| 512).chain((2..=14).map(|number| 512 * number));
    let mut offset = 0;
    for bytes in sizes {
        script.call(1, "pwrite64", log, Some(offset), bytes);
        script.call(1, "fdatasync", log, None, 0);
        offset += u64::try_from(bytes).unwrap();
    }
    // Six files more, of which it takes the four that are written most.
    for (name, pages) in ["a", "b", "c", "d", "e", "f"].into_iter().zip([70, 60, 50, 40, 2, 1]) {
        let file = script.file(&format!("/d/{name}"), 2, 1 << 20, Some(0));
        for page in 0..pages {
            script.call(2, "pwrite64", file, Some(8192 * (page * 37 % 101)), 8192);
        }
    }
    let profile = parsed(&script.finish(CaptureEnd::default()));
    // 3 pages of 223, which with the log's 97,792 bytes are 1,924,608.
    let files = "2 more files are missing: 1.3 % of the bytes written".to_owned();
    assert!(profile.notes.contains(&files), "{:?}", profile.notes);
    let sizes = "/d/log: 2 sizes are not in it, of 2.0 % of its syncs".to_owned();
    assert!(profile.notes.contains(&sizes), "{:?}", profile.notes);
}

/// A file whose writes go on so often, and elsewhere otherwise, and that is synced so often.
fn class_of(continued: u64, elsewhere: u64, durable: u64, most: u64) -> FileClass {
    let mut file = postgres().finish(CaptureEnd::default()).files.remove(0);
    file.pattern = OffsetPattern { continued, elsewhere, ..OffsetPattern::default() };
    (file.writes, file.durable_writes) = (continued + elsewhere, durable);
    file.syncs.clear();
    super::files::classify(&file, most).0
}

#[test]
fn a_log_is_in_order_by_four_fifths_and_synced_a_tenth_as_often_as_any() {
    assert_eq!(
        [class_of(799, 201, 500, 500), class_of(801, 199, 500, 500)],
        [FileClass::Data, FileClass::Log]
    );
    assert_eq!(
        [class_of(900, 100, 99, 1000), class_of(900, 100, 101, 1000)],
        [FileClass::Checkpoint, FileClass::Log]
    );
}

#[test]
fn percentiles_of_syncs_are_of_all_files_of_a_name() {
    let mut script = Script::default();
    for (name, count, nanos) in [("/d/wal/1", 60, 7_000), ("/d/wal/2", 40, 9_000)] {
        let file = script.file(name, 1, 0, Some(0));
        for _ in 0..count {
            script.call(7, "write", file, None, 512);
            script.enter(7, "fsync", file, None);
            script.now += nanos - 1000;
            script.leave(7, "fsync", 0);
        }
    }
    let few = script.captured.len();
    let findings = script.finish(CaptureEnd::default());
    let it = only(&findings);
    assert_eq!((few, it.files, it.writes, it.syncs["fsync"]), (2, 2, 100, 100));
    assert_eq!((it.sync_p50_ns, it.sync_p99_ns), (Some(7_000), Some(9_000)));
    // 2 µs of a write and its begin lie between.
    assert_eq!((it.between_syncs_p50_ns, it.between_syncs_p99_ns), (Some(10_000), None));
    assert!((it.syncs_per_second - 50.0).abs() < 1e-9, "in two seconds");
    assert_eq!(percentile(&[5; 99], 99), None);
    let of = |count: u64, percent| percentile(&(1..=count).collect::<Vec<_>>(), percent);
    assert_eq!([of(100, 99), of(101, 99), of(1000, 99)], [Some(99), Some(100), Some(990)]);
    assert_eq!(
        [of(1, 50), of(2, 50), of(3, 50), of(100, 50)],
        [Some(1), Some(1), Some(2), Some(50)]
    );
    assert_eq!([of(0, 50), of(0, 99)], [None; 2]);
}

#[test]
fn each_file_has_its_own_figures_and_the_capture_their_sum() {
    let mut script = Script::default();
    let log = script.file("/d/log", 1 | O_DSYNC, 3 * 512, Some(3 * 512));
    let table = script.file("/d/table", 2, 1 << 20, Some(0));
    for at in 3..8 {
        script.call(1, "pwrite64", log, Some(512 * at), 512);
    }
    for (task, page) in [(2, 1), (3, 9), (4, 5)] {
        script.call(task, "pwrite64", table, Some(4096 * page), 8192);
    }
    script.enter(2, "fdatasync", table, None);
    script.enter(3, "fsync", table, None);
    script.leave(2, "fdatasync", 0);
    script.leave(3, "fsync", 0);
    let findings = script.finish(CaptureEnd { sizes: Vec::new(), ..CaptureEnd::default() });
    let [log, table] = &findings.files[..] else { panic!("{:?}", findings.files) };
    let counts = |found: &CapturedFileFindings| {
        (found.writes, found.written_bytes, found.durable_writes, found.durable(), found.alignment)
    };
    assert_eq!(counts(log), (5, 2560, 5, 5, 512));
    assert_eq!(counts(table), (3, 24_576, 0, 2, 4096));
    let threads = |found: &CapturedFileFindings| {
        (found.writing_threads, found.syncing_threads, found.syncs_at_once)
    };
    assert_eq!([threads(log), threads(table)], [(1, 1, 0), (3, 2, 2)]);
    assert_eq!(
        [&log.sizes[..], &table.sizes[..]],
        [
            &[CapturedSize { bytes: 512, count: 5 }][..],
            &[CapturedSize { bytes: 8192, count: 3 }][..],
        ]
    );
    assert_eq!((table.syncs["fdatasync"], table.syncs["fsync"]), (1, 1));
    // 24 KiB and two syncs.
    assert_eq!((log.new_bytes_per_sync, table.new_bytes_per_sync), (Some(512.0), Some(12_288.0)));
    assert_eq!((findings.writes, findings.written_bytes, findings.durable), (8, 27_136, 7));
    let sizes = [CapturedSize { bytes: 512, count: 5 }, CapturedSize { bytes: 8192, count: 3 }];
    assert_eq!(findings.sizes, sizes);
}

#[test]
fn a_sync_of_a_mebibyte_is_a_commits_and_one_of_more_fills_a_segment() {
    let record = |bytes: i64| {
        let mut script = postgres();
        let log = script.file("/d/pg_wal/000000010000000000000003", 2, 0, Some(0));
        script.call(100, "pwrite64", log, Some(0), bytes);
        script.call(100, "fsync", log, None, 0);
        parsed(&script.finish(CaptureEnd::default())).log.unwrap().records.value.0[0].size.get()
    };
    // 16 KiB in ten syncs, or 16 KiB and a mebibyte in eleven.
    assert_eq!(record((1 << 20) + 1), 1638);
    assert_eq!(record(1 << 20), 96_815);
}

#[test]
fn a_log_whose_tail_is_written_again_at_odd_bytes_makes_a_profile_that_is_read() {
    let tail = |begin: u64| {
        let mut script = Script::default();
        let log = script.file("/d/log", 2, 0, Some(0));
        for commit in 0..20 {
            script.call(1, "pwrite64", log, Some(begin * (commit / 10)), 1024);
            script.call(1, "fdatasync", log, None, 0);
        }
        parsed(&script.finish(CaptureEnd::default())).log.unwrap()
    };
    let (odd, sector, whole) = (tail(1023), tail(512), tail(1024));
    assert_eq!((odd.padding.value.0.get(), odd.rewrites_tail.map(|tail| tail.value)), (0, None));
    assert_eq!(
        (sector.padding.value.0.get(), sector.rewrites_tail.map(|tail| tail.value)),
        (512, Some(true))
    );
    assert_eq!(
        (whole.padding.value.0.get(), whole.rewrites_tail.map(|tail| tail.value)),
        (1024, Some(true))
    );
}

#[test]
fn writes_have_percentiles_of_their_latency_only_where_syncs_are_not_shown() {
    let percentiles = |writes: u64, not_shown: Option<&str>| {
        let mut script = Script::default();
        let files = [script.file("/d/a", 0, 0, Some(0)), script.file("/d/b", 0, 0, Some(0))];
        // The slowest first, alternating between the files.
        for micros in (1..=writes).rev() {
            let file = files[usize::try_from(micros % 2).unwrap()];
            script.enter(7, "pwrite64", file, Some(4096 * micros));
            script.now += (micros - 1) * 1000;
            script.leave(7, "pwrite64", 4096);
        }
        let not_shown = not_shown.map(str::to_owned);
        let findings = script.finish(CaptureEnd { not_shown, ..CaptureEnd::default() });
        (findings.write_p50_ns, findings.write_p99_ns)
    };
    assert_eq!(percentiles(100, Some("syncs")), (Some(50_000), Some(99_000)));
    assert_eq!(percentiles(99, Some("syncs")), (Some(50_000), None));
    assert_eq!(percentiles(100, None), (None, None));
}

#[test]
fn of_a_file_the_times_of_the_first_2_to_the_20_writes_are_kept_and_all_are_counted() {
    let file = CapturedFile { path: "/d/log".into(), flags: 2, size: Some(0) };
    let mut state = super::files::FileState::new(&file);
    let most = 1_u64 << 20;
    for write in 0..=most {
        // 8 bytes each: 8 MiB. The last one is slower.
        let nanos = if write < most { 10 } else { 99 };
        state.write((0, nanos), 1, Some(512 * write), 512);
    }
    let times = state.take_write_times();
    assert_eq!((times.len(), times.iter().max()), (1_048_576, Some(&10)));
    let found = super::files::folded(vec![state], 1.0);
    assert_eq!((found[0].writes, found[0].written_bytes), (most + 1, 512 * (most + 1)));
}
