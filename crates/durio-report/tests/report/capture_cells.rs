//! Each figure of a capture, a replay, a prediction and a watcher is in its row, below its title, with its
//! unit: in every format.

use std::collections::BTreeMap;

use durio_analyse::Findings;
use durio_analyse::capture::{
    BesideFigure, BesideRow, CaptureBeside, CaptureCost, CaptureFindings, CaptureSource,
    CapturedDeviceFindings, CapturedFileFindings, CapturedSize, FileClass, OffsetPattern,
    ReplayFindings,
};
use durio_analyse::history::{History, HistoryPoint, Metric, Percentiles, RunFigure};
use durio_analyse::prediction::{Bound, PredictionFindings, PredictionPoint};
use durio_observe::WriteCallRates;
use durio_record::LatencyHistogram;
use durio_report::{Format, Watched, WatchedLocation};
use durio_units::{Bytes, Nanos};

use crate::cells::{assert_csv, assert_facts, assert_table, bars, grids, in_full, panels};
use crate::sample;

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
            "new B/sync",
            "threads",
            "at once",
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
fn the_details_of_a_captured_file_are_its_own() {
    assert_facts(
        &capture(),
        &[
            ("class", "data: reason 2"),
            ("files", "3, 702 KiB"),
            ("multiples of", "1 KiB"),
            ("offsets", "100 go on, 2 write the tail again, 900 elsewhere, 0 unknown"),
            ("new bytes", "52 KiB of 102 KiB; the file grew by 32 KiB"),
            ("syncs", "fdatasync 22, fsync 12"),
            ("durable writes", "302"),
            ("between syncs", "8k 72.0 %, 16k 28.0 % by bytes"),
            ("time of a sync", "p50 112 µs, p99 212 µs"),
            ("from sync to sync", "p50 312 µs, p99 412 µs"),
            ("who syncs", "23 threads; at most 43 at once, 62 began while another was under way"),
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
        ("writes", "4000 (500 /s), 7 MiB"),
        ("durable", "1000 (125 /s)"),
        ("write sizes", "4k 50.0 %, 8k 30.0 %, 512 B 20.0 %"),
        (
            "cost",
            "12345 events (1.54 k/s); durio took 1.5 % of a processor, besides what the kernel takes for each event",
        ),
    ];
    assert_facts(&capture(), &facts);
    let text = in_full(Format::Text, &capture());
    let rates =
        "calls that write: 510 /s and 520 /s in the halves of the trace, 530 /s after it; 2.8 % less";
    assert!(text.contains(rates) && !text.contains("too low by as much"), "{text}");
    let mut slowed = capture();
    slowed.cost.slowdown = Some(0.031);
    let text = in_full(Format::Text, &slowed);
    assert!(text.contains("3.1 % less: rates here are too low by as much"), "{text}");
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
    ["syncs of a file at once", "6144", "18432", "1.06"],
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
        ("doubt", "other work took 0.3 processors meanwhile: operations begin late for that too"),
    ];
    assert_facts(&found, &facts);
    let mut quiet = found;
    quiet.replay.as_mut().unwrap().others = Some(0.25);
    assert!(!in_full(Format::Text, &quiet).contains("other work took"));
}

fn prediction(points: Vec<PredictionPoint>) -> Findings {
    let prediction = PredictionFindings { database: "etcd".into(), points, notes: Vec::new() };
    Findings { prediction: Some(prediction), ..sample::complete() }
}

fn point(number: u32, bound: Bound) -> PredictionPoint {
    let n = f64::from(number);
    let nanos = |hundreds: u64| Some((100 * hundreds + u64::from(number)) * 1000);
    PredictionPoint {
        clients: 10 * number,
        rate_per_second: 1000.0 * n + 500.0,
        // Of these only two digits are shown.
        expected: Some((1000.0 * n + 311.0, 1000.0 * n + 689.0)),
        rate_range: Some((1000.0 * n + 410.0, 1000.0 * n + 590.0)),
        offered_per_second: None,
        p50_ns: nanos(1),
        p99_ns: nanos(2),
        commits_per_sync: Some(n + 0.25),
        bytes_per_commit: 900.0 + n,
        log_share: 0.5 + 0.01 * n,
        processor_share: Some(0.7 + 0.01 * n),
        bound,
        twice_as_fast_at_most: Some(1000.0 * n + 880.0),
    }
}

#[test]
fn a_number_of_clients_has_its_own_prediction() {
    let points = vec![
        point(1, Bound::Storage),
        point(2, Bound::Processors),
        PredictionPoint { expected: None, commits_per_sync: None, ..point(3, Bound::Waiting) },
        PredictionPoint {
            offered_per_second: Some(4600.0),
            twice_as_fast_at_most: None,
            processor_share: None,
            ..point(4, Bound::Offered)
        },
    ];
    let expected = [
        [
            "clients",
            "offered",
            "commits/s",
            "expected",
            "range",
            "p50",
            "p99",
            "per sync",
            "log busy",
            "CPU",
            "bound by",
            "disk ×2",
        ],
        [
            "10",
            "max",
            "1.5 k",
            "1.3 k to 1.7 k",
            "1.41 k to 1.59 k",
            "101 µs",
            "201 µs",
            "1.25",
            "51 %",
            "71 %",
            "storage",
            "≤ 1.88 k",
        ],
        [
            "20",
            "max",
            "2.5 k",
            "2.3 k to 2.7 k",
            "2.41 k to 2.59 k",
            "102 µs",
            "202 µs",
            "2.25",
            "52 %",
            "72 %",
            "CPU",
            "≤ 2.88 k",
        ],
        [
            "30",
            "max",
            "3.5 k",
            "-",
            "3.41 k to 3.59 k",
            "103 µs",
            "203 µs",
            "-",
            "53 %",
            "73 %",
            "wake-ups",
            "≤ 3.88 k",
        ],
        [
            "40",
            "4.6 k",
            "4.5 k",
            "4.3 k to 4.7 k",
            "4.41 k to 4.59 k",
            "104 µs",
            "204 µs",
            "4.25",
            "54 %",
            "-",
            "offered",
            "-",
        ],
    ];
    assert_table(&prediction(points), &expected);
}

/// A watcher of two places, of which *n*00 000 µs are the latencies.
fn watched() -> Watched {
    let location = |number: u64, name: &str| {
        let mut latencies = LatencyHistogram::new();
        (0..number).for_each(|_| latencies.record(80_000));
        (0..10 * number).for_each(|_| latencies.record(1_000_000 * number));
        let at = |hundreds: u64| Some((100 * hundreds + number) * 1000);
        let percentiles = Percentiles { p50_ns: at(1), p99_ns: at(2), p99_9_ns: at(3) };
        let seconds = f64::from(u32::try_from(number).unwrap());
        let history = History {
            schema: "durio-history-1".into(),
            target: name.to_owned(),
            host: "db1".into(),
            metric: Metric { workload: "commit".into(), figure: RunFigure::P99 },
            points: (1..=2)
                .map(|at: u32| HistoryPoint {
                    run: format!("probe-{number}{at}"),
                    started: format!("2026-11-2{at}T0{number}:30:00Z"),
                    value: f64::from(at) * 10_000.0 * seconds,
                })
                .collect(),
            changes: Vec::new(),
        };
        WatchedLocation {
            probes: 70 + number,
            failures: 40 + number,
            error: None,
            written: Bytes::new(9000 + number),
            latencies,
            latest: Some((format!("2026-11-27T1{number}:20:30Z"), percentiles)),
            succeeded_at: Some(1000.0 + seconds),
            running_since: (number == 2).then_some(2002.5),
            history: Some(history),
            ..WatchedLocation::new(name.to_owned())
        }
    };
    Watched {
        every: Nanos::from_secs(45),
        locations: vec![location(1, "/srv/a"), location(2, "/srv/b")],
    }
}

#[test]
fn the_page_of_a_watcher_has_the_probes_of_each_place() {
    let mut page = Vec::new();
    watched().write_page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let tables = grids(Format::Html, &page);
    let titles = ["location", "latest probe (UTC)", "p50", "p99", "p99.9", "probes", "failed"];
    assert_eq!(tables[0].titles, titles);
    let rows = [
        ["/srv/a", "2026-11-27 11:20", "101 µs", "201 µs", "301 µs", "71", "41"],
        ["/srv/b", "2026-11-27 12:20", "102 µs", "202 µs", "302 µs", "72", "42"],
    ];
    assert_eq!(tables[0].rows, rows);
    assert!(page.contains("a probe every 45 s"), "{page}");
    let rows = [
        [["probe-11", "2026-11-21 01:30", "10 µs"], ["probe-12", "2026-11-22 01:30", "20 µs"]],
        [["probe-21", "2026-11-21 02:30", "20 µs"], ["probe-22", "2026-11-22 02:30", "40 µs"]],
    ];
    for (table, rows) in tables[1..].iter().zip(rows) {
        assert_eq!(table.titles, ["run", "begun (UTC)", "value"]);
        assert_eq!(table.rows, rows);
    }
    assert_eq!(tables.len(), 3);
    let chart = panels(&page, "From run to run");
    assert_eq!(chart[0].units, ["number", "latency"]);
    assert_eq!(chart[0].lines, [("p99".to_owned(), vec![(1.0, 10_000.0), (2.0, 20_000.0)])]);
}

#[test]
fn prometheus_gets_the_figures_of_each_place_in_base_units() {
    let mut text = Vec::new();
    watched().write_metrics(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let version = format!("durio_watch_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    let mut expected = vec![version, "durio_watch_interval_seconds 45".to_owned()];
    let places = ["/srv/a", "/srv/b"].into_iter().zip(1_u64..);
    for (place, n) in places.clone() {
        let label = format!("location=\"{place}\"");
        expected.push(format!("durio_watch_probes_total{{{label},result=\"ok\"}} {}", 70 + n));
        expected.push(format!("durio_watch_probes_total{{{label},result=\"failed\"}} {}", 40 + n));
    }
    for (place, n) in places.clone() {
        expected
            .push(format!("durio_watch_written_bytes_total{{location=\"{place}\"}} {}", 9000 + n));
    }
    for (place, n) in places.clone() {
        let name = "durio_watch_last_success_timestamp_seconds";
        expected.push(format!("{name}{{location=\"{place}\"}} {}", 1000 + n));
    }
    let name = "durio_watch_running_since_timestamp_seconds";
    expected.push(format!("{name}{{location=\"/srv/b\"}} 2002.5"));
    for (place, n) in places.clone() {
        for (quantile, hundreds) in [("0.5", 1), ("0.99", 2), ("0.999", 3)] {
            let name = "durio_watch_last_commit_latency_seconds";
            expected.push(format!(
                "{name}{{location=\"{place}\",quantile=\"{quantile}\"}} 0.000{hundreds}0{n}"
            ));
        }
    }
    for (place, n) in places {
        let bucket = |bound: &str, count: u64| {
            let name = "durio_watch_commit_latency_seconds_bucket";
            format!("{name}{{location=\"{place}\",le=\"{bound}\"}} {count}")
        };
        for bound in [
            "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025",
            "0.05", "0.1", "0.25", "0.5", "1", "2.5", "10", "+Inf",
        ] {
            // So many of 80 µs, ten times as many of 1 or 2 ms.
            let limit = bound.parse::<f64>().unwrap_or(f64::INFINITY);
            let fast = if limit >= 80e-6 { n } else { 0 };
            let slow = if limit >= 1e-3 * n as f64 { 10 * n } else { 0 };
            expected.push(bucket(bound, fast + slow));
        }
        let sum = (80e-6 + 10e-3 * n as f64) * n as f64;
        let name = "durio_watch_commit_latency_seconds";
        expected.push(format!("{name}_sum{{location=\"{place}\"}} {sum:.5}"));
        expected.push(format!("{name}_count{{location=\"{place}\"}} {}", 11 * n));
    }
    assert_eq!(lines, expected);
}
