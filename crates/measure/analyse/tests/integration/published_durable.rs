//! Durable writes that others have published: their figures in, their conclusions out.
//!
//! RavenDB, 2025, from the project's own table (measure/judge/data/published-results.csv).

use std::collections::HashMap;

use durio_analyse::cost_model::{CostModel, SizeCost, fit};
use durio_analyse::durable::{
    Contention, LimitedBy, SizeRate, WritersRate, contention, elasticity, limited_by,
};

const TABLE: &str = include_str!("../../../judge/data/published-results.csv");
const METAL: &str = "bench machine NVMe 4TB";
const IO2: &str = "AWS m6i.2xlarge io2 16000 IOPS";
const LOCAL: &str = "AWS i4i.xlarge local NVMe";

/// Bytes per write, writers, bytes per second in total.
struct Row {
    size: f64,
    jobs: f64,
    bandwidth: f64,
}

/// The rows of a machine, durable or not.
fn rows(config: &str, durable: bool) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(TABLE.as_bytes());
    let all = reader.deserialize().map(Result::unwrap);
    let own = all.filter(|row: &HashMap<String, String>| {
        row["source"] == "ravendb-2025"
            && row.values().any(|cell| cell == config)
            && row["durable"].contains("O_SYNC") == durable
    });
    own.map(|row| Row {
        size: size(&row["block_size"]),
        jobs: row["jobs"].parse().unwrap(),
        bandwidth: row["bandwidth_mb_s"].parse::<f64>().unwrap() * 1e6,
    })
    .collect()
}

fn size(text: &str) -> f64 {
    let (digits, unit) = text.split_at(text.len() - 1);
    digits.parse::<f64>().unwrap() * if unit == "M" { 1_048_576.0 } else { 1024.0 }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.5
}

/// The ladder of writers at a size.
fn ladder(config: &str, size: f64) -> Vec<WritersRate> {
    let own = rows(config, true).into_iter().filter(|row| near(row.size, size));
    own.map(|row| WritersRate { writers: row.jobs, total_per_second: row.bandwidth / size })
        .collect()
}

/// The cost model of one writer.
fn model(config: &str) -> CostModel {
    let own = rows(config, true).into_iter().filter(|row| near(row.jobs, 1.0));
    let costs: Vec<SizeCost> =
        own.map(|row| SizeCost::of_bandwidth(row.size, row.bandwidth)).collect();
    fit(&costs).unwrap()
}

fn metal_8k() -> Contention {
    contention(&ladder(METAL, 8192.0)).unwrap()
}

#[test]
fn per_writer_throughput_falls_while_the_total_rises() {
    let points = ladder(METAL, 8192.0);
    assert_eq!(points.len(), 6, "1, 2, 4, 8, 16 and 128 writers");
    let per_writer = |at: usize| points[at].total_per_second / points[at].writers;
    assert!((1..6).all(|at| per_writer(at) < 0.5 * per_writer(0)));
    let last = points.last().unwrap();
    assert!(last.total_per_second > 30.0 * points[0].total_per_second);
}

#[test]
fn no_law_holds_from_one_writer_on_for_the_second_halves_the_first() {
    let found = metal_8k();
    // The total falls from 15.5 to 11.9 MB/s with the second writer and rises in proportion from
    // there on: no law of queueing for something shared does that. One writer is a case of its own.
    assert!(found.residual_share_all > 0.2, "{found:?}");
    assert_eq!(found.holds_from, Some(2.0), "{found:?}");
    assert!(found.law.contention.value < 0.01, "writers do not queue: {found:?}");
    let total = found.law.total_per_second(128.0) * 8192.0 / 1e6;
    assert!((total / 522.56 - 1.0).abs() < 0.1, "{total}");
}

#[test]
fn the_number_of_writes_limits_and_not_their_size() {
    // 8 writers of 128 MiB in 8 KiB: 6.55 MB/s each; of 16 KiB, 11.8. The same with one writer on io2.
    for (config, jobs) in [(METAL, 8.0), (IO2, 1.0), (IO2, 8.0)] {
        let mut own: Vec<Row> =
            rows(config, true).into_iter().filter(|row| near(row.jobs, jobs)).collect();
        own.retain(|row| row.size < 65_000.0);
        own.sort_by(|a, b| a.size.total_cmp(&b.size));
        let of = |row: &Row| SizeRate {
            size_bytes: row.size,
            bandwidth_bytes_per_second: row.bandwidth,
        };
        let found = elasticity(of(&own[0]), of(own.last().unwrap())).unwrap();
        assert_eq!(limited_by(found), LimitedBy::Number, "{config}, {jobs}: {found}");
    }
}

#[test]
fn with_large_writes_it_is_the_bytes() {
    let of = |mega: f64, mb: f64| SizeRate {
        size_bytes: mega * 1_048_576.0,
        bandwidth_bytes_per_second: mb * 1e6,
    };
    let found = elasticity(of(1.0, 3600.0), of(16.0, 4600.0)).unwrap();
    assert_eq!(limited_by(found), LimitedBy::Bytes, "{found}");
}

#[test]
fn one_log_with_batches_beats_independent_writers() {
    // What the publication ends with as a wish: 16 records of 8 KiB in one write of 128 KiB.
    let model = model(METAL);
    for (writers, mb_per_second) in [(8.0, 52.4), (16.0, 91.2), (128.0, 522.56)] {
        let batched = writers * 8192.0 / model.latency_ns(writers * 8192.0) * 1e3;
        let gain = batched / mb_per_second;
        assert!((1.3..6.0).contains(&gain), "{writers}: {gain}");
    }
}

#[test]
fn a_volume_in_the_network_scales_with_writers_where_small_writes_do_not_fill_it() {
    let total = |size: f64, jobs: f64| {
        let row =
            rows(IO2, true).into_iter().find(|row| near(row.size, size) && near(row.jobs, jobs));
        row.unwrap().bandwidth
    };
    for (size, efficiency) in [(8192.0, 0.65), (32_768.0, 0.70), (1_048_576.0, 0.46)] {
        let found = total(size, 8.0) / (8.0 * total(size, 1.0));
        assert!((found - efficiency).abs() < 0.02, "{size}: {found}");
    }
}

#[test]
fn the_local_drive_of_a_cloud_makes_small_durable_writes_suspiciously_fast() {
    // Its durable writes of 256 KiB are as fast as the buffered ones: the publication doubts it.
    let of = |durable: bool| {
        let rows = rows(LOCAL, durable).into_iter().filter(|row| near(row.size, 262_144.0));
        rows.map(|row| row.bandwidth).fold(0.0, f64::max)
    };
    assert!(of(true) >= of(false));
    // The metal machine's are not.
    let slow = rows(METAL, true).into_iter().find(|row| near(row.size, 32_768.0)).unwrap();
    let fast = rows(METAL, false).into_iter().find(|row| near(row.size, 32_768.0)).unwrap();
    assert!(slow.bandwidth < 0.05 * fast.bandwidth);
}
