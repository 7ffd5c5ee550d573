//! Each figure of a capture and of a replay is in its row, below its title, with its unit: in every format.

use std::collections::BTreeMap;

use durio_analyse::capture::{
    BesideFigure, BesideRow, CaptureBeside, CaptureCost, CaptureFindings, CaptureSource,
    CapturedDeviceFindings, CapturedFileFindings, CapturedSize, FileClass, OffsetPattern,
    ReplayFindings,
};
use durio_observe::WriteCallRates;
use durio_report::{Format, Options, write};

use crate::cells::{assert_csv, assert_facts, assert_table, bars, in_full};

const KIB: u64 = 1024;

fn sizes(sizes: &[(u64, u64)]) -> Vec<CapturedSize> {
    sizes.iter().map(|&(bytes, count)| CapturedSize { bytes, count }).collect()
}

/// A file that *number* tells apart in all its figures.
fn file(number: u64, path: &str, class: FileClass, pattern: OffsetPattern) -> CapturedFileFindings {
    let small = u32::try_from(number).unwrap();
    CapturedFileFindings {
        path: path.to_owned(),
        files: 1 + usize::try_from(number).unwrap(),
        class,
        class_because: format!("reason {number}"),
        writes: 1000 + number,
        written_bytes: (100 + number) * KIB,
        new_bytes: (50 + number) * KIB,
        grown_bytes: Some((30 + number) * KIB),
        file_bytes: (700 + number) * KIB,
        sizes: sizes(&[(4096, 60 + number), (512, 40 - number)]),
        alignment: 512 * number,
        pattern,
        flags: vec!["O_DSYNC"],
        syncs: BTreeMap::from([("fsync", 10 + number), ("fdatasync", 20 + number)]),
        durable_writes: 300 + number,
        batches: sizes(&[(8192, 70 + number), (16_384, 30 - number)]),
        new_bytes_per_sync: Some(f64::from(800 + small) + 0.4),
        writing_threads: 11 + usize::try_from(number).unwrap(),
        syncing_threads: 21 + usize::try_from(number).unwrap(),
        syncs_at_once: 41 + small,
        overlapping_syncs: 60 + number,
        sync_p50_ns: Some((110 + number) * 1000),
        sync_p99_ns: Some((210 + number) * 1000),
        between_syncs_p50_ns: Some((310 + number) * 1000),
        between_syncs_p99_ns: Some((410 + number) * 1000),
        syncs_per_second: 500.0,
        errors: 90 + number,
    }
}

const fn pattern(
    continued: u64,
    tail_rewritten: u64,
    elsewhere: u64,
    unknown: u64,
) -> OffsetPattern {
    OffsetPattern { continued, tail_rewritten, elsewhere, unknown }
}

fn device(number: u64, name: &str) -> CapturedDeviceFindings {
    CapturedDeviceFindings {
        name: name.to_owned(),
        reads: 9000 + number,
        writes: 500 * number,
        written_bytes: number * KIB * KIB,
        metadata_writes: 40 + number,
        fua: 60 + number,
        flushes: 250 * number,
        sizes: sizes(&[(4096 * number, 3), (512, 1)]),
    }
}

fn capture() -> CaptureFindings {
    CaptureFindings {
        write_p50_ns: Some(3_210_000),
        write_p99_ns: Some(4_320_000),
        schema: "durio-capture-1",
        source: CaptureSource { target: "process 812".into(), ..CaptureSource::default() },
        seconds: 8.0,
        ended_early: None,
        not_shown: None,
        processes: 3,
        writes: 4000,
        written_bytes: 7 * KIB * KIB,
        durable: 1000,
        sizes: sizes(&[(4096, 5), (8192, 3), (512, 2)]),
        files: vec![
            // 10 % and more of the tail again.
            file(1, "/data/wal/log", FileClass::Log, pattern(700, 200, 101, 0)),
            file(2, "/data/table", FileClass::Data, pattern(100, 2, 900, 0)),
            file(3, "/data/odd", FileClass::Unsynced, pattern(100, 1, 2, 900)),
        ],
        devices: vec![device(2, "vda"), device(3, "vdb")],
        ring_operations: 0,
        unnamed_calls: 0,
        cost: CaptureCost {
            cpu_ns: 40_000_000,
            cpu_share: 0.015,
            events: 12_345,
            events_per_second: 1540.0,
            write_calls: Some(WriteCallRates { halves: [510.0, 520.0], after: 530.0 }),
            slowdown: Some(0.028),
            lost_calls: 0,
            lost_requests: 0,
        },
        replay: None,
        why: None,
        beside: None,
    }
}

#[test]
fn a_captured_file_has_its_own_figures() {
    let expected = [
        [
            "file",
            "class",
            "writes",
            "sizes",
            "offsets",
            "durable",
            "new bytes per sync",
            "threads",
            "parallel syncs",
        ],
        [
            "wal/log",
            "log",
            "1001",
            "4k 61.0 %, 512 B 39.0 %",
            "append, tail rewritten",
            "333",
            "801",
            "22",
            "42",
        ],
        ["table", "data", "1002", "4k 62.0 %, 512 B 38.0 %", "random", "336", "802", "23", "43"],
        ["odd", "unsynced", "1003", "4k 63.0 %, 512 B 37.0 %", "unknown", "339", "803", "24", "44"],
    ];
    assert_table(&capture(), &expected);
    let expected = [
        [
            "file",
            "class",
            "writes",
            "written_bytes",
            "new_bytes",
            "syncs",
            "durable_writes",
            "syncing_threads",
            "syncs_at_once",
            "sync_p50_ns",
            "sync_p99_ns",
        ],
        [
            "/data/wal/log",
            "log",
            "1001",
            "103424",
            "52224",
            "32",
            "301",
            "22",
            "42",
            "111000",
            "211000",
        ],
        [
            "/data/table",
            "data",
            "1002",
            "104448",
            "53248",
            "34",
            "302",
            "23",
            "43",
            "112000",
            "212000",
        ],
        [
            "/data/odd",
            "unsynced",
            "1003",
            "105472",
            "54272",
            "36",
            "303",
            "24",
            "44",
            "113000",
            "213000",
        ],
    ];
    assert_csv(&capture(), &expected);
}

#[test]
fn eight_files_of_a_capture_are_shown_and_the_others_with_verbose() {
    let file = |number: u64| {
        file(number, &format!("/data/file-{number}"), FileClass::Log, pattern(700, 200, 101, 0))
    };
    let found = CaptureFindings { files: (1..=11).map(file).collect(), ..capture() };
    let shown = |verbose: bool| {
        let mut out = Vec::new();
        let options = Options { width: 1000, verbose, ..Options::default() };
        write(Format::Text, &found, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let rows = |text: &str| -> Vec<String> {
        let first = text.lines().filter_map(|line| line.split_whitespace().next());
        first.filter(|word| word.starts_with("file-")).map(str::to_owned).collect()
    };
    let names = |most: u64| -> Vec<String> { (1..=most).map(|at| format!("file-{at}")).collect() };
    let text = shown(false);
    assert_eq!(rows(&text), names(8), "{text}");
    assert!(text.contains("\n  3 more with --verbose\n"), "{text}");
    let text = shown(true);
    assert_eq!(rows(&text), names(11), "{text}");
}

#[test]
fn the_details_of_a_captured_file_are_its_own() {
    assert_facts(
        &capture(),
        &[
            ("class", "data: reason 2"),
            ("files", "3, 702 KiB"),
            ("multiples of", "1 KiB"),
            ("offsets", "100 continue, 2 rewrite the tail, 900 elsewhere, 0 unknown"),
            ("new bytes", "52 KiB of 102 KiB; the file grew by 32 KiB"),
            ("syncs", "fdatasync 22, fsync 12"),
            ("durable writes", "302"),
            ("between syncs", "8k 72.0 %, 16k 28.0 % by bytes"),
            ("time of a sync", "p50 112 µs, p99 212 µs"),
            ("from sync to sync", "p50 312 µs, p99 412 µs"),
            ("who syncs", "23 threads; at most 43 syncs in parallel, 62 started during another"),
            ("failed calls", "92"),
        ],
    );
}

#[test]
fn a_device_of_a_capture_has_its_own_figures_per_sync_of_all_files() {
    let expected = [
        [
            "device",
            "writes",
            "written",
            "sizes",
            "metadata",
            "flushes",
            "FUA",
            "writes/sync",
            "flushes/sync",
        ],
        ["vda", "1000", "2 MiB", "8k 75.0 %, 512 B 25.0 %", "42", "500", "62", "1", "0.5"],
        ["vdb", "1500", "3 MiB", "12k 75.0 %, 512 B 25.0 %", "43", "750", "63", "1.5", "0.75"],
    ];
    assert_table(&capture(), &expected);
}

#[test]
fn the_summary_of_a_capture_has_its_rates_and_its_cost() {
    let facts = [
        ("watched", "8.0 s, processes: 3"),
        ("writes", "4000 (500 /s), 7 MiB, p50 3.21 ms, p99 4.32 ms"),
        ("durable", "1000 (125 /s)"),
        ("write sizes", "4k 50.0 %, 8k 30.0 %, 512 B 20.0 %"),
        (
            "cost",
            "12345 events (1.54 k/s); durio used 1.5 % of a CPU, in addition to the kernel's time for each event",
        ),
    ];
    assert_facts(&capture(), &facts);
    let text = in_full(Format::Text, &capture());
    let rates = "calls that write: 510 /s and 520 /s in the halves of the trace, 530 /s after it; 2.8 % less";
    assert!(text.contains(rates) && !text.contains("too low by as much"), "{text}");
    let mut slowed = capture();
    slowed.cost.slowdown = Some(0.031);
    let text = in_full(Format::Text, &slowed);
    assert!(text.contains("3.1 % less: rates here are too low by as much"), "{text}");
}

#[test]
fn lost_events_of_calls_and_of_devices_are_told_apart_in_every_format() {
    let calls = "29 events of calls: counts and rates of files are too low, and pairs are broken";
    let requests = "17 events of devices were lost: these counts are too low";
    for (lost_calls, lost_requests) in [(29, 17), (29, 0), (0, 17), (0, 0)] {
        let mut found = capture();
        (found.cost.lost_calls, found.cost.lost_requests) = (lost_calls, lost_requests);
        for format in [Format::Text, Format::Markdown, Format::Html] {
            let text = in_full(format, &found);
            let is_told = [calls, requests].map(|sentence| text.contains(sentence));
            assert_eq!(is_told, [lost_calls > 0, lost_requests > 0], "{format}: {text}");
            assert_eq!(text.contains("no event of a call"), lost_calls == 0, "{format}: {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&in_full(Format::Json, &found)).unwrap();
        let cost = &json["cost"];
        let events = [cost["lost_calls"].as_u64(), cost["lost_requests"].as_u64()];
        assert_eq!(events, [Some(lost_calls), Some(lost_requests)], "events");
    }
}

#[test]
fn bars_of_a_capture_have_the_bytes_and_the_syncs_of_their_file() {
    let page = in_full(Format::Html, &capture());
    let written = ["wal/log", "101 KiB", "table", "102 KiB", "odd", "103 KiB"];
    assert_eq!(bars(&page, "Bytes written, by file"), written);
    let durable = ["wal/log", "333", "table", "336", "odd", "339"];
    assert_eq!(bars(&page, "Syncs and durable writes, by file"), durable);
    let sizes = ["4k", "50.0 %", "8k", "30.0 %", "512 B", "20.0 %"];
    assert_eq!(bars(&page, "Sizes of writes"), sizes);
}

const FIGURES: [BesideFigure; 11] = [
    BesideFigure::Writes,
    BesideFigure::Written,
    BesideFigure::WrittenIn(8192),
    BesideFigure::Durable,
    BesideFigure::SyncingThreads,
    BesideFigure::SyncsAtOnce,
    BesideFigure::SyncP50,
    BesideFigure::SyncP99,
    BesideFigure::DeviceWrites,
    BesideFigure::DeviceWritten,
    BesideFigure::DeviceFlushes,
];

/// Each figure is 1024 × its number, and 3 more now.
fn beside() -> CaptureBeside {
    let row = |(figure, number): (BesideFigure, u32)| {
        let before = f64::from(number) * 1024.0;
        BesideRow {
            figure,
            before,
            now: before * 3.0,
            ratio: Some(1.0 + f64::from(number) / 100.0),
        }
    };
    let mut rows: Vec<BesideRow> = FIGURES.into_iter().zip(1..).map(row).collect();
    rows[10].ratio = None;
    let before = CaptureSource {
        target: "mysqld".into(),
        date: "2026-10-05".into(),
        ..CaptureSource::default()
    };
    CaptureBeside { before, before_lost_calls: 0, before_untraced: 0, rows }
}

const BESIDE_ROWS: [[&str; 4]; 11] = [
    ["writes/s", "1024", "3072", "1.01"],
    ["written/s", "2 KiB", "6 KiB", "1.02"],
    ["in writes of 8k", "3 KiB", "9 KiB", "1.03"],
    ["syncs and durable writes/s", "4096", "12288", "1.04"],
    ["threads that sync a file", "5120", "15360", "1.05"],
    ["parallel syncs of a file", "6144", "18432", "1.06"],
    ["time of a sync, p50", "7.17 µs", "21.5 µs", "1.07"],
    ["time of a sync, p99", "8.19 µs", "24.6 µs", "1.08"],
    ["writes of devices/s", "9216", "27648", "1.09"],
    ["written to devices/s", "10 KiB", "30 KiB", "1.10"],
    ["flushes of devices/s", "11264", "33792", ""],
];

#[test]
fn an_earlier_capture_stands_before_this_one_figure_by_figure() {
    let found = CaptureFindings { beside: Some(beside()), ..capture() };
    let titles = ["", "before", "now", "now / before"];
    assert_table(&found, &[&[titles][..], &BESIDE_ROWS].concat());
    let replayed = CaptureFindings { replay: Some(replay()), ..found };
    let titles = ["", "trace", "replay", "replay / trace"];
    assert_table(&replayed, &[&[titles][..], &BESIDE_ROWS].concat());
}

fn replay() -> ReplayFindings {
    ReplayFindings {
        speed: 2.0,
        operations: 900,
        done: 800,
        threads: 6,
        planned_seconds: 40.0,
        taken_seconds: 41.5,
        kept_up: Some(false),
        late_p50_ns: Some(120_000),
        late_p99_ns: Some(340_000),
        late_max_ns: Some(560_000),
        held: 200,
        lag_p99_ns: Some(78_000),
        others: Some(0.3),
        is_cached_instead: false,
    }
}

#[test]
fn a_replay_says_how_late_it_was_and_what_it_should_have_taken() {
    let found = CaptureFindings { replay: Some(replay()), ..capture() };
    let facts = [
        ("replayed", "800 operations by 6 threads in 41.5 s, at 2 times the speed of the trace"),
        ("kept up", "no: it took 41.5 s instead of 40 s; here this load is too much"),
        (
            "began late by",
            "p50 120 µs, p99 340 µs, at most 560 µs; 25.0 % waited for an earlier one",
        ),
        ("durio's own delay", "p99 78 µs, of operations that waited for none"),
        ("doubt", "other work used 0.3 CPUs in that time, which also delays operations"),
    ];
    assert_facts(&found, &facts);
    let first = "Bad: the storage did not keep up with the trace (800 operations in 41.5 s, 40 s \
                 planned). Caveat: other work used 0.3 CPUs.\n";
    assert!(in_full(Format::Text, &found).starts_with(first), "{}", in_full(Format::Text, &found));
    let mut quiet = found;
    let replay = quiet.replay.as_mut().unwrap();
    (replay.others, replay.kept_up) = (Some(0.25), Some(true));
    let text = in_full(Format::Text, &quiet);
    let first = "Good: the storage kept up with the trace, 800 operations in 41.5 s.\n";
    assert!(text.starts_with(first) && !text.contains("other work used"), "{text}");
}

#[test]
fn a_capture_says_first_what_it_saw_in_a_second_and_has_no_verdict() {
    let text = in_full(Format::Text, &capture());
    let first =
        "500 writes/s (896 KiB/s) and 125 syncs and durable writes/s by 3 processes in 8 s.\n";
    assert!(text.starts_with(first), "{text}");
}
