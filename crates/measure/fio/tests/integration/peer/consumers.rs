//! Results that were never fio's, in the hands of programs that read fio's.

use std::fs;
use std::process::Command;

use durio_fio::histogram::FioBins;
use durio_fio::json::{
    DirectionFigures, FioJob, FioOutput, LatencyBlock, LatencyShares, SyncSection, write,
};
use serde_json::Value;

use crate::peer::requirements::has;

/// Latencies of 100, 200, .. 1000 µs.
fn latency() -> LatencyBlock {
    let mut bins = FioBins::default();
    (1..=10).for_each(|step| bins.add(step * 100_000, 1));
    let percentile = |percent: f64| (percent, bins.percentile_ns(percent).unwrap());
    LatencyBlock {
        min: 100_000,
        max: 1_000_000,
        mean: 550_000.0,
        stddev: 302_765.0,
        n: Some(10),
        percentiles: vec![percentile(50.0), percentile(99.0)],
        bins,
    }
}

fn output(depth: u32, jobs: u32) -> FioOutput {
    let option = |name: &str, value: String| (name.to_owned(), value);
    let options = vec![
        option("rw", "randwrite".to_owned()),
        option("bs", "4k".to_owned()),
        option("iodepth", depth.to_string()),
        option("numjobs", jobs.to_string()),
    ];
    let direction = DirectionFigures {
        iops: f64::from(1000 * depth * jobs),
        bw: u64::from(4000 * depth * jobs),
        lat_ns: latency(),
        ..DirectionFigures::default()
    };
    let job = FioJob {
        jobname: "log".to_owned(),
        options: Some(options),
        write: Some(direction),
        sync: Some(SyncSection { total_ios: 10, lat_ns: latency() }),
        latency: LatencyShares::from_counts(latency().bins.iter()),
        ..FioJob::default()
    };
    FioOutput { version: "fio-3.33".to_owned(), jobs: vec![job], ..FioOutput::default() }
}

/// etcd's documents tell people to read this figure.
#[test]
fn jq_finds_the_99th_percentile_of_syncs_where_etcd_s_documents_look_for_it() {
    if !has("jq") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fio.json");
    fs::write(&path, write(&output(1, 1))).unwrap();
    let filter = ".jobs[0].sync.lat_ns.percentile[\"99.000000\"]";
    let answer = Command::new("jq").arg(filter).arg(&path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "1003520");
}

/// The keys are those of fio-plot 1.1.21 (jsonparsing_support.py, jsonimport.py); it finds options
/// as text, and without `job options` it fails.
#[test]
fn what_fio_plot_looks_for_is_there() {
    let text = write(&output(4, 2));
    let document: Value = serde_json::from_str(&text).unwrap();
    let job = &document["jobs"][0];
    for (option, expected) in
        [("iodepth", "4"), ("numjobs", "2"), ("rw", "randwrite"), ("bs", "4k")]
    {
        assert_eq!(job["job options"][option], expected, "{option}");
    }
    for path in [
        "/write/bw",
        "/write/iops",
        "/write/iops_stddev",
        "/write/lat_ns/mean",
        "/write/lat_ns/stddev",
        "/usr_cpu",
        "/sys_cpu",
    ] {
        assert!(job.pointer(path).is_some_and(Value::is_number), "{path}");
    }
    let labels = [("latency_ns", 10), ("latency_us", 10), ("latency_ms", 12)];
    for (key, count) in labels {
        assert_eq!(job[key].as_object().unwrap().len(), count, "{key}");
    }
    assert!(document["fio version"].is_string() && document["jobs"].is_array());
}
