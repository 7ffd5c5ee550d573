//! Each figure of what a durable write costs is in its row, below its title, with its unit: in every
//! format.
//!
//! Arm *n* has *n*.5 k commits per second, *n* MiB/s, latencies of 100 + *n* µs (p50) to 600 + *n* µs (the
//! mean), and sends *n*.1 flushes, *n*.2 writes and *n*.3 bytes per byte to the devices.

use durio_analyse::durable::{
    Arm, CommandsFindings, CommitDelayAdvice, CommitDelayFindings, CrossCell, CrossFindings,
    DeviceWork, DurableFindings, DurableShare, Figures, FileModeRow, FileModesFindings, FlushPoint,
    FlushSlopeFindings, GroupCommitFindings, GroupCommitRow, Latencies, MethodRow, MethodsFindings,
    Setting, SizeCurve, SizesFindings, SyncEveryFindings, SyncEveryRow, WritersFindings,
    WritersRow,
};
use durio_analyse::ladder::RateAndLatency;
use durio_analyse::{BatchFindings, Findings};
use durio_plan::{EngineKind, FileLayout};
use durio_record::{CommitsTraced, TracedRequest, TracedSequence};
use durio_report::Format;
use durio_units::{Bytes, Nanos};
use durio_workload::{CacheMode, CommitterThreads, GroupCommit, SyncMethod};

use crate::cells::{ChartPanel, assert_table, bars, grids, in_full, panels};
use crate::sample;

const MIB: f64 = 1_048_576.0;
const KIB: u64 = 1024;

fn setting(method: SyncMethod, cache: CacheMode) -> Setting {
    Setting {
        location: "/srv/db".into(),
        engine: EngineKind::Uring,
        method,
        every: 1,
        cache,
        layout: Some(FileLayout::Incompressible),
        block_size: Bytes::from_kib(4),
        jobs: 1,
        files: 1,
        group_commit: None,
    }
}

fn latencies(hundreds: [u64; 5], number: u32) -> Latencies {
    let [p50, p99, p99_9, max, mean] = hundreds.map(|it| (it * 100 + u64::from(number)) * 1000);
    Latencies {
        count: 1000 + u64::from(number),
        mean_ns: mean as f64,
        p50_ns: Some(p50),
        p99_ns: Some(p99),
        p99_9_ns: Some(p99_9),
        max_ns: max,
    }
}

fn arm(number: u32, setting: Setting) -> Arm {
    let n = f64::from(number);
    let figures = Figures {
        rate_per_second: 1000.0 * n + 500.0,
        bandwidth_bytes_per_second: n * MIB,
        latency: latencies([1, 2, 3, 5, 6], number),
        sync: Some(latencies([7, 8, 9, 11, 12], number)),
        device: Some(DeviceWork {
            flushes_per_commit: Some(n + 0.1),
            flushes_per_sync_call: Some(n + 0.4),
            writes_per_commit: n + 0.2,
            bytes_per_byte: n + 0.3,
        }),
        batches: None,
        samples: vec![RateAndLatency {
            rate_per_second: 1000.0 * n + 500.0,
            latency_ns_mean: (600.0 + n) * 1000.0,
        }],
        noise_share: None,
    };
    Arm { setting, step: number, figures: Some(figures), problems: Vec::new() }
}

fn report(durable: DurableFindings) -> Findings {
    Findings { durable: Some(durable), ..sample::complete() }
}

fn panel<const N: usize>(units: [&str; 2], lines: &[(&str, [(f64, f64); N])]) -> ChartPanel {
    ChartPanel {
        units: units.map(str::to_owned),
        lines: lines.iter().map(|(name, points)| ((*name).to_owned(), points.to_vec())).collect(),
    }
}

const METHODS: [(SyncMethod, CacheMode); 6] = [
    (SyncMethod::None, CacheMode::Direct),
    (SyncMethod::ODsync, CacheMode::Direct),
    (SyncMethod::Fdatasync, CacheMode::Buffered),
    (SyncMethod::Fsync, CacheMode::Direct),
    (SyncMethod::RwfDsync, CacheMode::Direct),
    (SyncMethod::OSync, CacheMode::Buffered),
];

/// The fourth could not be measured, the third was faster than without a sync.
fn methods() -> Findings {
    let row = |((method, cache), number): ((SyncMethod, CacheMode), u32)| MethodRow {
        arm: arm(number, setting(method, cache)),
        share_of_unsynced: (number > 1).then(|| 0.3 + 0.01 * f64::from(number)),
        share_of_best: Some(0.8 + 0.01 * f64::from(number)),
    };
    let mut rows: Vec<MethodRow> = METHODS.into_iter().zip(1..).map(row).collect();
    rows[2].share_of_unsynced = Some(1.02);
    (rows[3].arm.figures, rows[3].share_of_unsynced, rows[3].share_of_best) = (None, None, None);
    let methods = MethodsFindings { rows, fastest: Some(4), steadiest: Some(1) };
    report(DurableFindings { methods: Some(methods), ..DurableFindings::default() })
}

const METHOD_ROWS: [[&str; 9]; 7] = [
    ["method", "cache", "per second", "p50", "p99", "p99.9", "flushes", "of unsynced", "of best"],
    ["unsynced", "direct", "1.5 k", "101 µs", "201 µs", "301 µs", "1.1", "", "81.0 %"],
    ["o_dsync", "direct", "2.5 k", "102 µs", "202 µs", "302 µs", "2.1", "32.0 %", "82.0 %"],
    ["fdatasync", "buffered", "3.5 k", "103 µs", "203 µs", "303 µs", "3.1", "noise", "83.0 %"],
    ["fsync", "direct", "not measured", "", "", "", "", "", ""],
    ["rwf_dsync", "direct", "5.5 k", "105 µs", "205 µs", "305 µs", "5.1", "35.0 %", "85.0 %"],
    ["o_sync", "buffered", "6.5 k", "106 µs", "206 µs", "306 µs", "6.1", "36.0 %", "86.0 %"],
];

#[test]
fn a_sync_method_has_its_own_figures_and_a_screen_has_those_of_databases_and_the_fastest() {
    let page = in_full(Format::Html, &methods());
    let tables = grids(Format::Html, &page);
    let titled: Vec<_> = tables.iter().filter(|it| it.titles == METHOD_ROWS[0]).collect();
    let [short, whole] = &titled[..] else { panic!("{} tables of methods", titled.len()) };
    assert_eq!(whole.rows, METHOD_ROWS[1..]);
    // Nothing but o_sync, which no database uses by default, is left out.
    assert_eq!(short.rows, METHOD_ROWS[1..6]);
    let mut all = methods();
    let found = all.durable.as_mut().unwrap().methods.as_mut().unwrap();
    found.rows.truncate(5);
    assert_table(&all, &METHOD_ROWS[..6]);
}

#[test]
fn bars_of_methods_have_the_rate_and_both_percentiles_of_their_method() {
    let page = in_full(Format::Html, &methods());
    let rates = [
        ("unsynced direct", "1.5 k/s"),
        ("o_dsync direct", "2.5 k/s"),
        ("fdatasync buffered", "3.5 k/s"),
        ("rwf_dsync direct", "5.5 k/s"),
        ("o_sync buffered", "6.5 k/s"),
    ];
    let expected: Vec<&str> = rates.iter().flat_map(|(title, rate)| [*title, *rate]).collect();
    assert_eq!(bars(&page, "Writes per second: longer is better"), expected);
    let latencies = [
        ("unsynced direct", "101 µs", "201 µs"),
        ("o_dsync direct", "102 µs", "202 µs"),
        ("fdatasync buffered", "103 µs", "203 µs"),
        ("rwf_dsync direct", "105 µs", "205 µs"),
        ("o_sync buffered", "106 µs", "206 µs"),
    ];
    let expected: Vec<&str> =
        latencies.iter().flat_map(|(title, p50, p99)| [*title, *p50, *p99]).collect();
    assert_eq!(bars(&page, "p50 and p99: shorter is better"), expected);
}

#[test]
fn the_fastest_method_is_told_with_its_own_rate_and_the_steadiest_is_another() {
    let text = in_full(Format::Text, &methods());
    let has = |line: &str| text.lines().any(|shown| shown.trim().ends_with(line));
    // 1 / 5500 s.
    assert!(has("rwf_dsync direct: 5.5 k/s, 182 µs each"), "{text}");
    assert!(has("o_dsync direct has the lowest p99"), "{text}");
}

fn request(flags: &str, kib: u64, issued: u64, service: u64) -> TracedRequest {
    TracedRequest {
        device: "vda".into(),
        flags: flags.into(),
        bytes: Bytes::from_kib(kib),
        issued: Nanos::from_micros(issued),
        service: Some(Nanos::from_micros(service)),
    }
}

fn commands() -> Findings {
    let traced = |step: u32, commits: u64, sequences: Vec<TracedSequence>| CommitsTraced {
        step,
        commits,
        sequences,
        lost: 0,
        unavailable: None,
    };
    let sequence = |commits: u64, micros: u64, requests: Vec<TracedRequest>| TracedSequence {
        commits,
        requests,
        commit: Nanos::from_micros(micros),
    };
    let found = |method, cache, layout, short: &[&str], traced| CommandsFindings {
        method,
        cache,
        layout,
        block_size: Bytes::from_kib(4),
        short: short.iter().map(|it| (*it).to_owned()).collect(),
        reaches_media: Some(true),
        traced,
    };
    let journal =
        vec![request("W", 8, 6, 60), request("WSM", 16, 80, 70), request("FF", 0, 160, 220)];
    let commands = vec![
        found(
            SyncMethod::Fsync,
            CacheMode::Buffered,
            Some(FileLayout::Empty),
            &["W 8 KiB, WSM 16 KiB, FF", "W 8 KiB, FF"],
            traced(
                1,
                20,
                vec![
                    sequence(17, 390, journal),
                    sequence(3, 310, vec![request("W", 8, 5, 50), request("FF", 0, 60, 200)]),
                ],
            ),
        ),
        found(
            SyncMethod::ODsync,
            CacheMode::Direct,
            Some(FileLayout::Incompressible),
            &["WFS 4 KiB"],
            traced(2, 31, vec![sequence(30, 145, vec![request("WFS", 4, 8, 130)])]),
        ),
    ];
    report(DurableFindings { commands, ..DurableFindings::default() })
}

#[test]
fn a_sequence_of_a_commit_has_its_own_requests_commits_and_time() {
    let expected = [
        ["method", "file", "requests per commit", "commits", "time"],
        ["fsync buffered", "extend", "W 8 KiB, WSM 16 KiB, FF", "17 of 20", "390 µs"],
        ["fsync buffered", "extend", "W 8 KiB, FF", "3 of 20", "310 µs"],
        ["o_dsync direct", "recycled", "WFS 4 KiB", "30 of 31", "145 µs"],
    ];
    assert_table(&commands(), &expected);
    let page = in_full(Format::Html, &commands());
    let expected =
        ["fsync buffered, extend: 390 µs", "W WSM FF", "o_dsync direct, recycled: 145 µs", "WFS"];
    assert_eq!(bars(&page, "One commit at the device, median times, one scale"), expected);
}

#[test]
fn a_file_mode_has_its_own_figures_and_its_share_of_the_recycled_file() {
    let row = |(layout, number): (FileLayout, u32)| FileModeRow {
        arm: arm(
            number,
            Setting { layout: Some(layout), ..setting(SyncMethod::Fdatasync, CacheMode::Direct) },
        ),
        share_of_recycled: (number < 4).then(|| 0.5 + 0.01 * f64::from(number)),
        further_writes_per_commit: Some(f64::from(number) + 0.6),
    };
    let layouts = [
        FileLayout::Empty,
        FileLayout::Preallocated,
        FileLayout::ZeroFilled,
        FileLayout::Incompressible,
    ];
    let rows: Vec<FileModeRow> = layouts.into_iter().zip(1..).map(row).collect();
    let mut buffered = row((FileLayout::Empty, 5));
    buffered.arm.setting.cache = CacheMode::Buffered;
    let file_modes = vec![FileModesFindings { rows }, FileModesFindings { rows: vec![buffered] }];
    let found = report(DurableFindings { file_modes, ..DurableFindings::default() });
    let expected = [
        [
            "file",
            "method",
            "per second",
            "p50",
            "p99",
            "flushes",
            "writes",
            "device bytes",
            "of recycled",
        ],
        ["extend", "fdatasync direct", "1.5 k", "101 µs", "201 µs", "1.1", "1.2", "1.3", "51.0 %"],
        [
            "preallocated",
            "fdatasync direct",
            "2.5 k",
            "102 µs",
            "202 µs",
            "2.1",
            "2.2",
            "2.3",
            "52.0 %",
        ],
        [
            "zero-filled",
            "fdatasync direct",
            "3.5 k",
            "103 µs",
            "203 µs",
            "3.1",
            "3.2",
            "3.3",
            "53.0 %",
        ],
        ["recycled", "fdatasync direct", "4.5 k", "104 µs", "204 µs", "4.1", "4.2", "4.3", ""],
        ["extend", "fdatasync buffered", "5.5 k", "105 µs", "205 µs", "5.1", "5.2", "5.3", ""],
    ];
    assert_table(&found, &expected);
    let text = in_full(Format::Text, &found);
    for line in [
        "fdatasync direct: 51.0 % of the rate of the recycled file, with 1.6 more device writes per commit",
        "fdatasync direct: 52.0 % of the rate of the recycled file, with 2.6 more device writes per commit",
        "fdatasync direct: 53.0 % of the rate of the recycled file, with 3.6 more device writes per commit",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

fn sized(number: u32, method: SyncMethod, kib: u64, jobs: u32) -> Arm {
    let plain = setting(method, CacheMode::Direct);
    arm(number, Setting { block_size: Bytes::from_kib(kib), jobs, ..plain })
}

fn sizes() -> Findings {
    let curve = |method, first: u32, sizes: [u64; 2]| SizeCurve {
        setting: setting(method, CacheMode::Direct),
        arms: sizes.into_iter().zip(first..).map(|(kib, at)| sized(at, method, kib, 1)).collect(),
        model: None,
        bandwidth_bytes_per_second: None,
        deviations: Vec::new(),
        batching: None,
        declined: None,
    };
    let share = |durable_curve, kib: u64, share| DurableShare {
        size_bytes: (kib * KIB) as f64,
        durable_curve,
        unsynced_curve: 2,
        share,
    };
    let sizes = SizesFindings {
        curves: vec![
            curve(SyncMethod::ODsync, 1, [4, 64]),
            curve(SyncMethod::Fdatasync, 3, [4, 64]),
            curve(SyncMethod::None, 5, [4, 64]),
        ],
        shares: vec![share(1, 64, 0.14), share(0, 64, 0.12), share(0, 4, 0.11), share(1, 4, 0.13)],
        boundaries: Vec::new(),
        free_at_small_sizes: None,
    };
    report(DurableFindings { sizes: Some(sizes), ..DurableFindings::default() })
}

#[test]
fn a_size_has_its_own_figures_and_the_share_of_its_own_curve() {
    let expected = [
        ["method", "size", "per second", "bandwidth", "mean", "p99", "device bytes", "of unsynced"],
        ["o_dsync direct", "4 KiB", "1.5 k", "1 MiB/s", "601 µs", "201 µs", "1.3", "11.0 %"],
        ["o_dsync direct", "64 KiB", "2.5 k", "2 MiB/s", "602 µs", "202 µs", "2.3", "12.0 %"],
        ["fdatasync direct", "4 KiB", "3.5 k", "3 MiB/s", "603 µs", "203 µs", "3.3", "13.0 %"],
        ["fdatasync direct", "64 KiB", "4.5 k", "4 MiB/s", "604 µs", "204 µs", "4.3", "14.0 %"],
        ["unsynced direct", "4 KiB", "5.5 k", "5 MiB/s", "605 µs", "205 µs", "5.3", ""],
        ["unsynced direct", "64 KiB", "6.5 k", "6 MiB/s", "606 µs", "206 µs", "6.3", ""],
    ];
    assert_table(&sizes(), &expected);
    let page = in_full(Format::Html, &sizes());
    let title = "Mean time of a write against its size; dots measured, lines fitted";
    let lines = [
        ("o_dsync direct", [(4096.0, 601_000.0), (65_536.0, 602_000.0)]),
        ("fdatasync direct", [(4096.0, 603_000.0), (65_536.0, 604_000.0)]),
        ("unsynced direct", [(4096.0, 605_000.0), (65_536.0, 606_000.0)]),
    ];
    assert_eq!(panels(&page, title), [panel(["bytes", "latency"], &lines)]);
}

fn writers() -> Findings {
    let row = |(jobs, number): (u32, u32)| WritersRow {
        arm: sized(number, SyncMethod::ODsync, 8, jobs),
        per_writer_bytes_per_second: f64::from(number) * 1024.0 * 10.0,
        efficiency_share: Some(0.7 + 0.01 * f64::from(number)),
        batched_gain: (number % 3 == 2).then(|| f64::from(number) + 0.7),
    };
    let of = |file_each, first: u32| WritersFindings {
        file_each,
        rows: [1, 6, 20].into_iter().zip(first..).map(row).collect(),
        contention: None,
        declined: None,
    };
    let writers = vec![of(false, 1), of(true, 4)];
    report(DurableFindings { writers, ..DurableFindings::default() })
}

#[test]
fn writers_have_their_total_their_own_share_of_it_and_where_they_write() {
    let expected = [
        [
            "files",
            "writers",
            "per second",
            "total",
            "per writer",
            "mean",
            "p99",
            "efficiency",
            "batches gain",
        ],
        ["one file", "1", "1.5 k", "1 MiB/s", "10 KiB/s", "601 µs", "201 µs", "71.0 %", ""],
        ["one file", "6", "2.5 k", "2 MiB/s", "20 KiB/s", "602 µs", "202 µs", "72.0 %", "2.7 ×"],
        ["one file", "20", "3.5 k", "3 MiB/s", "30 KiB/s", "603 µs", "203 µs", "73.0 %", ""],
        ["a file each", "1", "4.5 k", "4 MiB/s", "40 KiB/s", "604 µs", "204 µs", "74.0 %", ""],
        ["a file each", "6", "5.5 k", "5 MiB/s", "50 KiB/s", "605 µs", "205 µs", "75.0 %", "5.7 ×"],
        ["a file each", "20", "6.5 k", "6 MiB/s", "60 KiB/s", "606 µs", "206 µs", "76.0 %", ""],
    ];
    assert_table(&writers(), &expected);
    let text = in_full(Format::Text, &writers());
    for line in [
        "o_dsync direct, 8 KiB, one file: one log that writes 6 records at once beats 6 independent writers: 2.7 × their rate by the cost model of one writer",
        "o_dsync direct, 8 KiB, a file each: one log that writes 6 records at once beats 6 independent writers: 5.7 × their rate by the cost model of one writer",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn the_chart_of_writers_has_the_bytes_of_all_and_of_each() {
    let page = in_full(Format::Html, &writers());
    for (files, first) in [("one file", 1.0), ("a file each", 4.0)] {
        let title = format!("o_dsync direct, 8 KiB, {files}: throughput against writers");
        let points = |unit: f64| {
            [(1.0, 0.0), (6.0, 1.0), (20.0, 2.0)].map(|(jobs, more)| (jobs, (first + more) * unit))
        };
        // A chart has five digits.
        let mib: [(f64, f64); 3] =
            points(MIB).map(|(jobs, bytes)| (jobs, (bytes / 100.0).round() * 100.0));
        let lines = [("total", mib), ("per writer", points(10_240.0))];
        assert_eq!(panels(&page, &title), [panel(["number", "bandwidth"], &lines)]);
    }
}

#[test]
fn a_size_by_writers_has_its_own_figures() {
    let cell = |(number, kib, jobs): (u32, u64, u32)| CrossCell {
        arm: sized(number, SyncMethod::ODsync, kib, jobs),
        seconds_per_volume: 10.0 + f64::from(number),
    };
    let of = |cells: &[(u32, u64, u32)]| CrossFindings {
        cells: cells.iter().copied().map(cell).collect(),
        volume_bytes: 1024.0 * MIB,
        elasticities: Vec::new(),
        limited_by: None,
    };
    let crosses = vec![of(&[(1, 4, 2), (2, 64, 2), (3, 4, 7)]), of(&[(4, 16, 3)])];
    let found = report(DurableFindings { crosses, ..DurableFindings::default() });
    let expected = [
        ["writers", "size", "per second", "bandwidth", "time for 1 GiB", "p99"],
        ["2", "4 KiB", "1.5 k", "1 MiB/s", "11 s", "201 µs"],
        ["2", "64 KiB", "2.5 k", "2 MiB/s", "12 s", "202 µs"],
        ["7", "4 KiB", "3.5 k", "3 MiB/s", "13 s", "203 µs"],
        ["3", "16 KiB", "4.5 k", "4 MiB/s", "14 s", "204 µs"],
    ];
    assert_table(&found, &expected);
}

#[test]
fn every_combination_of_the_whole_cross_has_its_own_figures() {
    let mut whole_cross = vec![
        sized(1, SyncMethod::ODsync, 4, 2),
        sized(2, SyncMethod::Fdatasync, 64, 9),
        sized(3, SyncMethod::None, 16, 5),
    ];
    whole_cross[1].setting.layout = Some(FileLayout::Empty);
    whole_cross[2].setting.layout = None;
    let found = report(DurableFindings { whole_cross, ..DurableFindings::default() });
    let expected = [
        ["method", "file", "size", "writers", "per second", "bandwidth", "p50", "p99"],
        ["o_dsync direct", "recycled", "4 KiB", "2", "1.5 k", "1 MiB/s", "101 µs", "201 µs"],
        ["fdatasync direct", "extend", "64 KiB", "9", "2.5 k", "2 MiB/s", "102 µs", "202 µs"],
        ["unsynced direct", "as it is", "16 KiB", "5", "3.5 k", "3 MiB/s", "103 µs", "203 µs"],
    ];
    assert_table(&found, &expected);
}

#[test]
fn a_sync_of_several_writes_has_the_latencies_of_the_sync_and_the_rate_of_the_writes() {
    let row = |(every, number): (u32, u32)| SyncEveryRow {
        arm: arm(number, Setting { every, ..setting(SyncMethod::Fdatasync, CacheMode::Direct) }),
        ns_per_write: (20.0 + f64::from(number)) * 1000.0,
    };
    let of = |rows: [(u32, u32); 2]| SyncEveryFindings {
        rows: rows.map(row).into(),
        line: None,
        declined: None,
    };
    let sync_every = vec![of([(1, 1), (16, 2)]), of([(3, 3), (64, 4)])];
    let found = report(DurableFindings { sync_every, ..DurableFindings::default() });
    let expected = [
        ["method", "N", "writes per second", "per write", "sync p50", "sync p99"],
        ["fdatasync direct", "1", "1.5 k", "21 µs", "701 µs", "801 µs"],
        ["fdatasync direct", "16", "2.5 k", "22 µs", "702 µs", "802 µs"],
        ["fdatasync direct", "3", "3.5 k", "23 µs", "703 µs", "803 µs"],
        ["fdatasync direct", "64", "4.5 k", "24 µs", "704 µs", "804 µs"],
    ];
    assert_table(&found, &expected);
}

#[test]
fn a_flush_has_the_data_before_it_and_its_own_time() {
    let of = |method, points: &[(u32, f64, f64)]| FlushSlopeFindings {
        setting: setting(method, CacheMode::Direct),
        points: points
            .iter()
            .map(|&(blocks, kib, micros)| FlushPoint {
                blocks,
                dirty_bytes: kib * 1024.0,
                flush_ns_p50: micros * 1000.0,
            })
            .collect(),
        slope: None,
        declined: None,
    };
    let flush_slopes = vec![
        of(SyncMethod::Fdatasync, &[(3, 12.0, 71.0), (40, 160.0, 72.0)]),
        of(SyncMethod::Fsync, &[(5, 20.0, 83.0), (60, 240.0, 84.0)]),
    ];
    let found = report(DurableFindings { flush_slopes, ..DurableFindings::default() });
    let expected = [
        ["method", "blocks", "dirty data", "flush p50"],
        ["fdatasync direct", "3", "12 KiB", "71 µs"],
        ["fdatasync direct", "40", "160 KiB", "72 µs"],
        ["fsync direct", "5", "20 KiB", "83 µs"],
        ["fsync direct", "60", "240 KiB", "84 µs"],
    ];
    assert_table(&found, &expected);
    let page = in_full(Format::Html, &found);
    let title = "Time of a flush against the data written before it";
    let lines = [
        ("fdatasync direct", [(12_288.0, 71_000.0), (163_840.0, 72_000.0)]),
        ("fsync direct", [(20_480.0, 83_000.0), (245_760.0, 84_000.0)]),
    ];
    assert_eq!(panels(&page, title), [panel(["bytes", "latency"], &lines)]);
}

/// A log that *number* tells apart: 40 + *number* records in its largest batch.
fn log(number: u32, policy: GroupCommit, jobs: u32) -> Arm {
    let mut log = sized(number, SyncMethod::Fdatasync, 8, jobs);
    log.setting.group_commit = Some(policy);
    let n = u64::from(number);
    log.figures.as_mut().unwrap().batches = Some(BatchFindings {
        count: 100,
        records_mean: f64::from(number) + 0.5,
        records_p50: 20 + number,
        records_p99: 30 + number,
        records_max: 40 + number,
        commits_per_sync: Some(f64::from(number) + 0.8),
        padding_share: 0.1,
        delayed_share: 0.2,
        full_share: 0.3,
        device_writes_per_commit: Some(f64::from(number) + 0.9),
        // Of 100: so many of one record, of two and three, of eight to fifteen.
        sizes: vec![(1, 10 + n), (2, 20), (3, n), (9, 70 - 2 * n)],
    });
    log
}

fn group_commit() -> Findings {
    let row = |number: u32, policy, gain| GroupCommitRow {
        arm: log(number, policy, 1),
        independent: Some(sized(number + 1, SyncMethod::Fdatasync, 8, policy.committers)),
        gain: Some(gain),
        predicted_per_second: Some(f64::from(number) * 11_000.0),
    };
    let threads = GroupCommit { threads: CommitterThreads::OneEach, ..GroupCommit::of(31) };
    let found = GroupCommitFindings {
        rows: vec![row(1, GroupCommit::of(8), 1.75), row(3, threads, 3.25)],
        others: vec![log(5, GroupCommit::of(3), 2)],
    };
    report(DurableFindings { group_commit: Some(found), ..DurableFindings::default() })
}

#[test]
fn a_log_that_is_shared_has_its_own_row_above_that_of_independent_writers() {
    let expected = [
        [
            "committers",
            "arm",
            "record",
            "commits per second",
            "mean",
            "p99",
            "records per batch",
            "device writes",
            "gain",
            "by the model",
        ],
        [
            "8",
            "one log",
            "8 KiB",
            "1.5 k",
            "601 µs",
            "201 µs",
            "1.5 (max 41)",
            "1.2",
            "1.75 ×",
            "11 k",
        ],
        ["8", "independent", "8 KiB", "2.5 k", "602 µs", "202 µs", "", "2.2", "", ""],
        [
            "31",
            "one log, a thread each",
            "8 KiB",
            "3.5 k",
            "603 µs",
            "203 µs",
            "3.5 (max 43)",
            "3.2",
            "3.25 ×",
            "33 k",
        ],
        ["31", "independent", "8 KiB", "4.5 k", "604 µs", "204 µs", "", "4.2", "", ""],
        ["6", "one log", "8 KiB", "5.5 k", "605 µs", "205 µs", "5.5 (max 45)", "5.2", "", ""],
    ];
    assert_table(&group_commit(), &expected);
    let text = in_full(Format::Text, &group_commit());
    let gains: Vec<&str> = text.lines().filter(|line| line.contains("× the commits")).collect();
    let expected = [
        "31 committers with records of 8 KiB: 3.25 × the commits of independent writers",
        "8 committers with records of 8 KiB: 1.75 × the commits of independent writers",
    ];
    for (line, expected) in gains[gains.len() - 2..].iter().zip(expected) {
        assert!(line.ends_with(expected), "{line}");
    }
    let page = in_full(Format::Html, &group_commit());
    let expected = [
        "8 committers",
        "1: 11 %",
        "2 to 3: 21 %",
        "8 to 15: 68 %",
        "31 committers",
        "1: 13 %",
        "2 to 3: 23 %",
        "8 to 15: 64 %",
    ];
    assert_eq!(bars(&page, "Records per batch, by committers"), expected);
}

#[test]
fn a_commit_delay_has_its_own_figures_and_the_advice_stands_in_its_row() {
    let policy = |micros, kib, committers| GroupCommit {
        delay: Nanos::from_micros(micros),
        batch_max: Bytes::from_kib(kib),
        ..GroupCommit::of(committers)
    };
    let advice = |arm, micros| CommitDelayAdvice {
        delay: Nanos::from_micros(micros),
        batch_max: Bytes::from_kib(128),
        arm,
        without: 0,
        gain_share: 0.35,
        best_gain_share: 0.41,
        noise_share: 0.05,
        p99_share: Some(-0.125),
    };
    let commit_delays = vec![
        CommitDelayFindings {
            arms: vec![
                log(1, policy(0, 64, 16), 1),
                log(2, policy(50, 128, 16), 1),
                log(3, policy(200, 256, 16), 1),
            ],
            advice: Some(advice(1, 50)),
        },
        CommitDelayFindings {
            arms: vec![log(4, policy(0, 64, 33), 1), log(5, policy(80, 512, 33), 1)],
            advice: Some(advice(0, 0)),
        },
    ];
    let found = report(DurableFindings { commit_delays, ..DurableFindings::default() });
    let expected = [
        [
            "delay",
            "batch bound",
            "committers",
            "commits per second",
            "mean",
            "p99",
            "records per batch",
            "advised",
        ],
        ["0 ns", "64 KiB", "16", "1.5 k", "601 µs", "201 µs", "1.5 (max 41)", ""],
        ["50 µs", "128 KiB", "16", "2.5 k", "602 µs", "202 µs", "2.5 (max 42)", "advised"],
        ["200 µs", "256 KiB", "16", "3.5 k", "603 µs", "203 µs", "3.5 (max 43)", ""],
        ["0 ns", "64 KiB", "33", "4.5 k", "604 µs", "204 µs", "4.5 (max 44)", "advised"],
        ["80 µs", "512 KiB", "33", "5.5 k", "605 µs", "205 µs", "5.5 (max 45)", ""],
    ];
    assert_table(&found, &expected);
    let text = in_full(Format::Text, &found);
    for line in [
        "16 committers: a delay of 50 µs: 35.0 % more commits than without, p99 -12.5 %; batches up to 128 KiB",
        "33 committers: no delay: the best gains 41.0 %, and up to 5.0 % is noise; batches up to 128 KiB",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
