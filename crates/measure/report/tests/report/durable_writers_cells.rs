//! Each figure of writers, of logs that they share and of syncs that several writes share is in its row,
//! below its title, with its unit: in every format.
//!
//! Arms are numbered as in `durable_cells`.

use durio_analyse::durable::{
    ArmSetting, CommitDelayAdvice, CommitDelayFindings, CrossCell, CrossFindings, DurableArm,
    DurableFindings, FlushPoint, FlushSlopeFindings, GroupCommitFindings, GroupCommitRow,
    SyncEveryFindings, SyncEveryRow, WritersFindings, WritersRow,
};
use durio_analyse::{BatchFindings, Findings};
use durio_base::{Bytes, Nanos};
use durio_plan::FileLayout;
use durio_report::Format;
use durio_workload::{CacheMode, CommitterThreads, GroupCommit, SyncMethod};

use crate::cells::{assert_table, bars, in_full, panels};
use crate::durable_cells::{MIB, arm, panel, report, setting, sized};

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
        arm: arm(number, ArmSetting { every, ..setting(SyncMethod::Fdatasync, CacheMode::Direct) }),
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
fn log(number: u32, policy: GroupCommit, jobs: u32) -> DurableArm {
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
    let gains: Vec<&str> = text.lines().filter(|line| line.contains("× as often")).collect();
    let expected = [
        "31 committers commit 3.25 × as often by sharing syncs (records of 8 KiB)",
        "8 committers commit 1.75 × as often by sharing syncs (records of 8 KiB)",
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
