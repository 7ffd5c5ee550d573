//! Each figure of what a durable write costs is in its row, below its title, with its unit: in every
//! format.
//!
//! Arm *n* has *n*.5 k commits per second, *n* MiB/s, latencies of 100 + *n* µs (p50) to 600 + *n* µs (the
//! mean), and sends *n*.1 flushes, *n*.2 writes and *n*.3 bytes per byte to the devices.

use durio_analyse::Findings;
use durio_analyse::durable::{
    ArmFigures, ArmLatencies, ArmSetting, CommandsFindings, DeviceWork, DurableArm,
    DurableFindings, DurableShare, FileModeRow, FileModesFindings, MethodRow, MethodsFindings,
    SizeCurve, SizesFindings,
};
use durio_analyse::ladder::RateAndLatency;
use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, FileLayout};
use durio_record::{CommitsTraced, TracedRequest, TracedSequence};
use durio_report::Format;
use durio_workload::{CacheMode, SyncMethod};

use crate::cells::{ChartPanel, assert_table, bars, grids, in_full, panels};
use crate::sample;

pub(crate) const MIB: f64 = 1_048_576.0;
const KIB: u64 = 1024;

pub(crate) fn setting(method: SyncMethod, cache: CacheMode) -> ArmSetting {
    ArmSetting {
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

fn latencies(hundreds: [u64; 5], number: u32) -> ArmLatencies {
    let [p50, p99, p99_9, max, mean] =
        hundreds.map(|hundreds| (hundreds * 100 + u64::from(number)) * 1000);
    ArmLatencies {
        count: 1000 + u64::from(number),
        mean_ns: mean as f64,
        p50_ns: Some(p50),
        p99_ns: Some(p99),
        p99_9_ns: Some(p99_9),
        max_ns: max,
    }
}

pub(crate) fn arm(number: u32, setting: ArmSetting) -> DurableArm {
    let n = f64::from(number);
    let figures = ArmFigures {
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
    DurableArm { setting, step: number, figures: Some(figures), problems: Vec::new() }
}

pub(crate) fn report(durable: DurableFindings) -> Findings {
    Findings { durable: Some(durable), ..sample::complete() }
}

pub(crate) fn panel<const N: usize>(
    units: [&str; 2],
    lines: &[(&str, [(f64, f64); N])],
) -> ChartPanel {
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
    let titled: Vec<_> = tables.iter().filter(|table| table.titles == METHOD_ROWS[0]).collect();
    let [short, whole] = &titled[..] else { panic!("{} tables of methods", titled.len()) };
    assert_eq!(whole.rows, METHOD_ROWS[1..]);
    // In the order of wal_sync_method; o_sync, which no database uses by default, is left out.
    let shown = [0, 2, 3, 4, 5, 1].map(|at| METHOD_ROWS[at]);
    assert_eq!(short.rows, shown[1..]);
    let mut all = methods();
    let found = all.durable.as_mut().unwrap().methods.as_mut().unwrap();
    found.rows.truncate(5);
    assert_table(&all, &shown);
}

#[test]
fn bars_of_methods_have_the_rate_and_both_percentiles_of_their_method() {
    let page = in_full(Format::Html, &methods());
    let rates = [
        ("o_dsync direct", "2.5 k/s"),
        ("fdatasync buffered", "3.5 k/s"),
        ("rwf_dsync direct", "5.5 k/s"),
        ("o_sync buffered", "6.5 k/s"),
        ("unsynced direct", "1.5 k/s"),
    ];
    let expected: Vec<&str> = rates.iter().flat_map(|(title, rate)| [*title, *rate]).collect();
    assert_eq!(bars(&page, "Writes per second: longer is better"), expected);
    let latencies = [
        ("o_dsync direct", "102 µs", "202 µs"),
        ("fdatasync buffered", "103 µs", "203 µs"),
        ("rwf_dsync direct", "105 µs", "205 µs"),
        ("o_sync buffered", "106 µs", "206 µs"),
        ("unsynced direct", "101 µs", "201 µs"),
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
        short: short.iter().map(|short| (*short).to_owned()).collect(),
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
            ArmSetting {
                layout: Some(layout),
                ..setting(SyncMethod::Fdatasync, CacheMode::Direct)
            },
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
        "fdatasync direct reaches 51.0 % of its rate on a recycled file; 1.6 more device writes per commit",
        "fdatasync direct reaches 52.0 % of its rate on a recycled file; 2.6 more device writes per commit",
        "fdatasync direct reaches 53.0 % of its rate on a recycled file; 3.6 more device writes per commit",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

pub(crate) fn sized(number: u32, method: SyncMethod, kib: u64, jobs: u32) -> DurableArm {
    let plain = setting(method, CacheMode::Direct);
    arm(number, ArmSetting { block_size: Bytes::from_kib(kib), jobs, ..plain })
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

#[test]
fn a_fastest_method_is_doubted_from_a_twentieth_of_noise_and_not_ranked_from_a_quarter() {
    let said = |noise_share| {
        let mut found = methods();
        let rows = &mut found.durable.as_mut().unwrap().methods.as_mut().unwrap().rows;
        rows[4].arm.figures.as_mut().unwrap().noise_share = Some(noise_share);
        let text = in_full(Format::Text, &found);
        let line = text.lines().find(|line| line.contains("rwf_dsync direct: 5.5 k/s"));
        line.unwrap().split_once("182 µs each").unwrap().1.to_owned()
    };
    assert_eq!([said(0.05), said(0.0501)], ["", "; not steady: by its intervals ± 10.0 %"]);
    let ends = ["; not steady: by its intervals ± 50.0 %", "; not steady: too noisy to rank"];
    assert_eq!([said(0.25), said(0.2501)], ends);
}
