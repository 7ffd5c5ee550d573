//! Each condition of a capture from both of its sides, with several files, threads and devices that differ.

use super::*;
use crate::capture::files::{FileState, classify, folded};

/// A file of this size after writes, each an offset and bytes.
fn written(size: u64, writes: &[(u64, u64)]) -> CapturedFileFindings {
    let file = CapturedFile { path: "/d/file".into(), flags: 2, size: Some(size) };
    let mut state = FileState::new(&file);
    for (offset, bytes) in writes {
        state.write((0, 10), 1, Some(*offset), *bytes);
    }
    folded(vec![state], 1.0).remove(0)
}

#[test]
fn a_write_is_placed_by_the_end_and_the_begin_of_the_one_before() {
    let of = |size, writes: &[(u64, u64)]| {
        let found = written(size, writes);
        let OffsetPattern { continued, tail_rewritten, elsewhere, unknown } = found.pattern;
        ([continued, tail_rewritten, elsewhere, unknown], found.new_bytes, found.grown_bytes)
    };
    // The first write of a file continues at its begin or at its end.
    assert_eq!(of(1000, &[(1000, 10)]), ([1, 0, 0, 0], 10, Some(10)));
    assert_eq!(of(1000, &[(999, 10)]), ([0, 0, 0, 1], 10, Some(9)));
    assert_eq!(of(1000, &[(0, 10)]), ([1, 0, 0, 0], 10, Some(0)));
    // After a write of bytes 0 to 99.
    let then = |second| of(0, &[(0, 100), second]);
    assert_eq!(then((100, 10)), ([2, 0, 0, 0], 110, Some(110)));
    assert_eq!(then((99, 10)), ([1, 1, 0, 0], 109, Some(109)));
    assert_eq!(then((0, 100)), ([1, 1, 0, 0], 100, Some(100)));
    assert_eq!(then((0, 40)), ([1, 1, 0, 0], 100, Some(100)));
    assert_eq!(then((101, 10)), ([1, 0, 1, 0], 110, Some(111)));
    assert_eq!(of(0, &[(50, 100), (49, 10)]), ([0, 0, 1, 1], 110, Some(150)));
}

#[test]
fn the_alignment_is_that_of_offsets_and_sizes_and_32_kib_at_most() {
    let of = |writes: &[(u64, u64)]| written(0, writes).alignment;
    assert_eq!(of(&[(65_536, 65_536)]), 32_768);
    assert_eq!(of(&[(16_384, 16_384)]), 16_384);
    assert_eq!([of(&[(512, 4096)]), of(&[(4096, 512)])], [512; 2]);
    assert_eq!([of(&[(0, 4096), (8192, 2048)]), of(&[(0, 3)])], [2048, 1]);
}

#[test]
fn a_part_of_eight_hexadecimal_capitals_is_a_number_and_one_of_seven_is_not() {
    for (path, folded) in [
        ("/d/ABCDEF12", "/d/#"),
        ("/d/ABCDEF1", "/d/ABCDEF#"),
        ("/d/ABCDEFG1", "/d/ABCDEFG#"),
        ("/d/abcdef12", "/d/abcdef#"),
        ("/d/FACADEAB/x7y12", "/d/#/x#y#"),
        ("12345678/", "#/"),
    ] {
        assert_eq!(folded_path(path), folded);
    }
}

#[test]
fn files_are_in_the_order_of_syncs_then_of_bytes_and_a_lone_one_keeps_its_numbers() {
    let mut script = Script::default();
    for (path, bytes, syncs) in
        [("/d/a1", 512, 1), ("/d/b2", 1024, 1), ("/d/c3", 8192, 0), ("/d/d4", 256, 3)]
    {
        let file = script.file(path, 2, 0, Some(0));
        script.call(7, "pwrite64", file, Some(0), bytes);
        (0..syncs).for_each(|_| script.call(7, "fsync", file, None, 0));
    }
    let findings = script.finish(CaptureEnd::default());
    let paths: Vec<&str> = findings.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/d/d4", "/d/b2", "/d/a1", "/d/c3"]);
}

#[test]
fn calls_of_two_threads_that_overlap_keep_their_own_files_and_times() {
    let mut script = Script::default();
    let (a, b) = (script.file("/d/a", 2, 0, Some(0)), script.file("/d/b", 2, 0, Some(0)));
    script.enter(1, "pwrite64", a, Some(0));
    script.enter(2, "pwrite64", b, Some(4096));
    script.leave(1, "pwrite64", 512);
    script.now += 500;
    script.leave(2, "pwrite64", 8192);
    let seen: Vec<_> = script
        .operations
        .iter()
        .map(|done| (done.task, done.file, done.offset, done.bytes, done.begin, done.nanos))
        .collect();
    assert_eq!(seen, [(1, 0, Some(0), 512, 1000, 2000), (2, 1, Some(4096), 8192, 2000, 2500)]);
    let findings = script.finish(CaptureEnd::default());
    let bytes: Vec<_> =
        findings.files.iter().map(|file| (file.path.as_str(), file.written_bytes)).collect();
    assert_eq!(bytes, [("/d/b", 8192), ("/d/a", 512)]);
}

#[test]
fn a_return_without_its_call_or_of_another_call_is_not_an_operation() {
    let mut script = Script::default();
    let file = script.file("/d/log", 2, 0, Some(0));
    script.leave(1, "write", 100);
    script.enter(1, "write", file, None);
    script.leave(1, "fsync", 0);
    script.leave(1, "write", 100);
    // Of another thread.
    script.enter(2, "write", file, None);
    script.leave(3, "write", 100);
    assert!(script.operations.is_empty(), "{:?}", script.operations);
    assert!(script.finish(CaptureEnd::default()).files.is_empty());
}

#[test]
fn a_write_with_an_offset_leaves_the_position_and_each_descriptor_has_its_own() {
    let mut script = Script::default();
    let first = script.file("/d/f", 2, 8192, Some(0));
    let second = script.file("/d/f", 2, 8192, Some(4096));
    script.call(1, "write", first, None, 100);
    script.call(1, "pwrite64", first, Some(5000), 50);
    script.call(1, "write", second, None, 20);
    script.call(1, "write", first, None, 30);
    script.call(1, "write", second, None, 10);
    let places: Vec<_> =
        script.operations.iter().map(|done| (done.file, done.offset, done.bytes)).collect();
    let expected = [
        (0, Some(0), 100),
        (0, Some(5000), 50),
        (1, Some(4096), 20),
        (0, Some(100), 30),
        (1, Some(4116), 10),
    ];
    assert_eq!(places, expected);
    let findings = script.finish(CaptureEnd::default());
    let found = only(&findings);
    assert_eq!((found.path.as_str(), found.files, found.writes), ("/d/f", 1, 5));
}

#[test]
fn flags_are_of_the_descriptor_that_wrote() {
    let mut script = Script::default();
    let durable = script.file("/d/log", 1 | O_DSYNC, 100, Some(0));
    let plain = script.file("/d/log", 1, 100, Some(0));
    for file in [durable, plain, plain, durable, plain] {
        script.call(1, "pwrite64", file, Some(0), 512);
    }
    let findings = script.finish(CaptureEnd::default());
    let found = only(&findings);
    assert_eq!((found.writes, found.durable_writes), (5, 2));
    assert_eq!(found.flags, ["O_DSYNC"]);
    // Only the first goes to the end.
    let mut script = Script::default();
    let appended = script.file("/d/log", 1 | O_APPEND, 100, None);
    let unknown = script.file("/d/log", 1, 100, None);
    script.call(1, "write", appended, None, 20);
    script.call(1, "write", unknown, None, 30);
    let places: Vec<_> = script.operations.iter().map(|done| (done.file, done.offset)).collect();
    assert_eq!(places, [(0, Some(100)), (1, None)]);
}

#[test]
fn a_write_is_durable_by_its_own_flag_and_then_waits_as_a_sync_does() {
    let mut script = Script::default();
    let log = script.file("/d/log", 1, 0, Some(0));
    let entered = |at, offset, durable| CaptureEvent::Entered {
        at,
        task: 5,
        call: call("pwrite64"),
        holder: (7, 0),
        file: Some(log),
        offset: Some(offset),
        durable,
    };
    let left = |at| CaptureEvent::Left { at, task: 5, call: call("pwrite64"), result: 512 };
    script.capture.take(entered(1000, 0, false));
    let first = script.capture.take(left(1400)).unwrap();
    script.capture.take(entered(2000, 512, true));
    let second = script.capture.take(left(2900)).unwrap();
    assert_eq!((first.durable, second.durable), (false, true));
    let findings = script.finish(CaptureEnd::default());
    let found = only(&findings);
    assert_eq!((found.writes, found.durable_writes, found.durable()), (2, 1, 1));
    assert_eq!((found.sync_p50_ns, found.syncing_threads), (Some(900), 1));
}

#[test]
fn a_sync_that_fails_is_an_error_and_not_an_operation() {
    let mut script = Script::default();
    let log = script.file("/d/log", 2, 0, Some(0));
    script.call(1, "pwrite64", log, Some(0), 512);
    script.call(1, "fsync", log, None, -5);
    script.call(1, "fsync", log, None, 0);
    script.call(1, "pwrite64", log, Some(512), -28);
    let calls: Vec<&str> = script.operations.iter().map(|done| done.call.name).collect();
    assert_eq!(calls, ["pwrite64", "fsync"]);
    let findings = script.finish(CaptureEnd::default());
    assert_eq!((only(&findings).errors, only(&findings).writes), (2, 1));
}

#[test]
fn calls_on_files_that_cannot_be_named_are_counted_unless_they_only_seek() {
    let mut script = Script::default();
    script.file("/d/log", 2, 0, Some(0));
    let mut unnamed = |name: &str, file| {
        let call = call(name);
        let (holder, offset, durable) = ((7, 9), None, false);
        let entered = CaptureEvent::Entered { at: 1, task: 9, call, holder, file, offset, durable };
        script.capture.take(entered);
        script.capture.unnamed_calls
    };
    assert_eq!(unnamed("lseek", None), 0);
    assert_eq!((unnamed("write", None), unnamed("fsync", None)), (1, 2));
    // Of the only file, and of one that was never announced.
    assert_eq!((unnamed("write", Some(0)), unnamed("write", Some(1))), (2, 3));
}

#[test]
fn each_device_has_its_own_requests() {
    let mut capture = Capture::default();
    let write = |bytes, fua, metadata| DeviceRequest::Write { bytes, fua, metadata };
    for (device, request) in [
        (1, write(4096, true, true)),
        (0, write(8192, false, false)),
        (1, DeviceRequest::Flush),
        (0, write(8192, false, false)),
        (0, DeviceRequest::Read(512)),
        (1, write(512, false, false)),
        (1, write(4096, true, false)),
    ] {
        capture.take(CaptureEvent::Issued { device, request });
    }
    let device =
        |name: &str| CapturedDevice { name: name.to_owned(), number: (8, 0), has_requests: true };
    let end = CaptureEnd { devices: ["a", "b", "c"].map(device).into(), ..CaptureEnd::default() };
    let findings = capture.finish(&end, CaptureSource::default());
    let size = |(bytes, count)| CapturedSize { bytes, count };
    let expected = [
        CapturedDeviceFindings {
            name: "a".into(),
            reads: 1,
            writes: 2,
            written_bytes: 16_384,
            sizes: vec![size((8192, 2))],
            ..CapturedDeviceFindings::default()
        },
        CapturedDeviceFindings {
            name: "b".into(),
            writes: 3,
            written_bytes: 8704,
            metadata_writes: 1,
            fua: 2,
            flushes: 1,
            sizes: [(4096, 2), (512, 1)].map(size).into(),
            ..CapturedDeviceFindings::default()
        },
        CapturedDeviceFindings { name: "c".into(), ..CapturedDeviceFindings::default() },
    ];
    assert_eq!(findings.devices, expected);
}

#[test]
fn five_operations_of_a_ring_write_or_sync() {
    let is_counted = |opcode: &u8| {
        let mut capture = Capture::default();
        capture.take(CaptureEvent::Ring { opcode: *opcode });
        capture.ring_operations == 1
    };
    let counted: Vec<u8> = (0..=u8::MAX).filter(is_counted).collect();
    assert_eq!(counted, [2, 3, 5, 8, 23]);
}

#[test]
fn the_cost_of_a_capture_is_of_its_own_seconds() {
    let cost = |duration_ns| {
        let end = CaptureEnd {
            duration_ns,
            processes: 5,
            cpu_ns: 1_000_000_000,
            events: 6000,
            lost_calls: 3,
            lost_requests: 7,
            ..CaptureEnd::default()
        };
        let findings = Capture::default().finish(&end, CaptureSource::default());
        assert_eq!(findings.processes, 5);
        let cost = findings.cost;
        assert_eq!((cost.cpu_ns, cost.events), (1_000_000_000, 6000));
        assert_eq!((cost.lost_calls, cost.lost_requests), (3, 7));
        (findings.seconds, cost.cpu_share, cost.events_per_second)
    };
    assert_eq!(cost(4_000_000_000), (4.0, 0.25, 1500.0));
    assert_eq!(cost(0), (0.0, 0.0, 0.0));
}

#[test]
fn a_slowdown_is_more_than_the_halves_differ_and_than_chance() {
    let is_told = |first, second, seconds: u64| {
        let end = CaptureEnd {
            write_calls: Some(WriteCallRates { halves: [first, second], after: 1000.0 }),
            duration_ns: seconds * 1_000_000_000,
            ..CaptureEnd::default()
        };
        Capture::default().finish(&end, CaptureSource::default()).cost.slowdown.is_some()
    };
    // Of 1000 calls, a tenth of 10 s: 3 / √1000 is 9.49 %.
    assert_eq!((is_told(906.0, 906.0, 10), is_told(905.0, 905.0, 10)), (false, true));
    // Of 4000 calls, 4 s at most: 4.74 %.
    assert_eq!((is_told(953.0, 953.0, 60), is_told(952.0, 952.0, 60)), (false, true));
    assert_eq!((is_told(953.0, 953.0, 600), is_told(952.0, 952.0, 600)), (false, true));
    // 10 % less, between halves that differ by 10.2 and by 9.8 %, whichever is faster.
    assert_eq!((is_told(951.0, 849.0, 60), is_told(949.0, 851.0, 60)), (false, true));
    assert_eq!((is_told(849.0, 951.0, 60), is_told(851.0, 949.0, 60)), (false, true));
}

#[test]
fn files_are_temporary_only_if_all_of_their_name_are_gone_and_none_was_synced() {
    let classes = |paths: [&str; 2], syncs: bool, sizes: [Option<u64>; 2]| {
        let mut script = Script::default();
        for (path, bytes) in paths.into_iter().zip([512, 1024]) {
            let file = script.file(path, 2, 0, Some(0));
            script.call(7, "pwrite64", file, Some(0), bytes);
            if syncs {
                script.call(7, "fsync", file, None, 0);
            }
        }
        let end = CaptureEnd { duration_ns: 1, sizes: sizes.into(), ..CaptureEnd::default() };
        let findings = script.capture.finish(&end, CaptureSource::default());
        findings.files.iter().map(|file| file.class).collect::<Vec<_>>()
    };
    use FileClass::{Log, Temporary, Unsynced};
    // The second has more bytes, so it is first.
    assert_eq!(classes(["/a", "/b"], false, [None, Some(1)]), [Unsynced, Temporary]);
    assert_eq!(classes(["/a", "/b"], false, [Some(1), None]), [Temporary, Unsynced]);
    assert_eq!(classes(["/t1", "/t2"], false, [None, Some(1)]), [Unsynced]);
    assert_eq!(classes(["/t1", "/t2"], false, [None, None]), [Temporary]);
    assert_eq!(classes(["/t1", "/t2"], true, [None, None]), [Log]);
}

#[test]
fn positions_are_known_if_those_of_half_of_the_writes_are() {
    let class = |elsewhere, unknown| {
        let mut file = postgres().finish(CaptureEnd::default()).files.remove(0);
        file.pattern = OffsetPattern { elsewhere, unknown, ..OffsetPattern::default() };
        (file.writes, file.durable_writes) = (elsewhere + unknown, 100);
        file.syncs.clear();
        classify(&file, 100).0
    };
    assert_eq!((class(5, 5), class(4, 6)), (FileClass::Data, FileClass::Log));
}

#[test]
fn the_reason_of_a_class_has_the_writes_and_threads_of_its_own_syncs() {
    let findings = postgres().finish(CaptureEnd::default());
    let [log, table] = &findings.files[..] else { panic!("{:?}", findings.files) };
    let ends = |file: &CapturedFileFindings, words: &str| file.class_because.ends_with(words);
    assert!(ends(log, "; 1.0 writes per sync; synced by 2 threads"), "{}", log.class_because);
    assert!(ends(table, "; 5.0 writes per sync; synced by one thread"), "{}", table.class_because);
    assert!(table.class_because.starts_with("0 % of writes"), "{}", table.class_because);
}

#[test]
fn files_grow_if_more_than_half_of_what_is_new_made_them_larger() {
    let mut file = written(0, &[(0, 100)]);
    let mut grows = |grown| {
        file.grown_bytes = grown;
        file.grows()
    };
    assert_eq!([grows(Some(50)), grows(Some(51)), grows(None)], [false, true, false]);
}

#[test]
fn syncs_of_all_calls_but_hints_are_durable_with_writes_that_are_so_by_themselves() {
    let mut file = written(0, &[(0, 100)]);
    file.syncs = BTreeMap::from([("fdatasync", 3), ("fsync", 2), ("sync_file_range", 70)]);
    file.durable_writes = 4;
    assert_eq!((file.sync_calls(), file.durable()), (5, 9));
}

#[test]
fn a_batch_is_what_was_written_since_the_sync_before_and_an_empty_one_does_not_count() {
    let mut script = Script::default();
    let log = script.file("/d/log", 2, 0, Some(0));
    for (offset, bytes, syncs) in [(0, 100, 0), (100, 200, 2), (300, 50, 1), (350, 50, 1)] {
        script.call(1, "pwrite64", log, Some(offset), bytes);
        (0..syncs).for_each(|_| script.call(1, "fsync", log, None, 0));
    }
    let findings = script.finish(CaptureEnd::default());
    let batches = [CapturedSize { bytes: 50, count: 2 }, CapturedSize { bytes: 300, count: 1 }];
    assert_eq!(only(&findings).batches, batches);
    // 400 bytes and four syncs.
    assert_eq!(only(&findings).new_bytes_per_sync, Some(100.0));
}

#[test]
fn growth_is_of_all_files_of_a_name_and_unknown_if_one_is() {
    let of = |first: Option<u64>, second: Option<u64>| {
        let states = [("/w/1", first, 300), ("/w/2", second, 5000)].map(|(path, size, bytes)| {
            let file = CapturedFile { path: path.into(), flags: 2, size };
            let mut state = FileState::new(&file);
            state.write((0, 1), 1, Some(0), bytes);
            state
        });
        let found = folded(states.into(), 1.0).remove(0);
        (found.files, found.grown_bytes, found.file_bytes)
    };
    assert_eq!(of(Some(100), Some(1000)), (2, Some(4200), 5300));
    assert_eq!(of(Some(400), Some(1000)), (2, Some(4000), 5400));
    assert_eq!(of(None, Some(1000)), (2, None, 5300));
}
