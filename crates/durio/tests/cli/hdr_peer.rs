//! The histogram log in the hands of another library: Python's gives what Rust's gives, and what
//! the findings say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use crate::requirements::{has, output_of, python_with, skip};
use crate::sandbox::Sandbox;

const LIBRARY: &str = "hdrhistogram==0.10.3";
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// Per tag: count, then the values at the quantiles.
type Entries = BTreeMap<String, Vec<u64>>;

fn by_python(python: &Path, log: &Path) -> Entries {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/hdr_peer.py");
    let text = output_of(python, &[script.to_str().unwrap(), log.to_str().unwrap()]).unwrap();
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let tag = words.next().unwrap().to_owned();
        (tag, words.map(|word| word.parse::<u64>().unwrap()).collect())
    };
    text.lines().map(entry).collect()
}

fn histograms(log: &Path) -> BTreeMap<String, Histogram<u64>> {
    let mut all = BTreeMap::new();
    let bytes = fs::read(log).unwrap();
    for entry in IntervalLogIterator::new(&bytes) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        let text = interval.encoded_histogram();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        all.insert(interval.tag().unwrap().as_str().to_owned(), histogram);
    }
    all
}

fn by_rust(log: &Path) -> Entries {
    let row = |histogram: &Histogram<u64>| {
        let values = QUANTILES.map(|quantile| histogram.value_at_quantile(quantile));
        [vec![histogram.len()], values.to_vec()].concat()
    };
    histograms(log).iter().map(|(tag, histogram)| (tag.clone(), row(histogram))).collect()
}

/// The totals of all jobs of a step together, for one kind of operation.
fn total(log: &Path, step: u64, operation: &str) -> Histogram<u64> {
    let mut total = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
    let (prefix, suffix) = (format!("step{step}.job"), format!(".{operation}.service"));
    for (tag, histogram) in histograms(log) {
        if tag.starts_with(&prefix) && tag.ends_with(&suffix) {
            total.add(histogram).unwrap();
        }
    }
    total
}

fn assert_findings_agree(log: &Path, findings: &Value) {
    for workload in findings["workloads"].as_array().unwrap() {
        for operation in workload["operations"].as_array().unwrap() {
            let name = operation["operation"].as_str().unwrap();
            let service = &operation["service"];
            let total = total(log, workload["step"].as_u64().unwrap(), name);
            assert_eq!(service["count"], total.len(), "{name}");
            let max = service["max_ns"].as_u64().unwrap();
            let names = [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)];
            for (field, quantile) in names {
                let Some(value) = service[field].as_u64() else { continue };
                assert_eq!(value, total.value_at_quantile(quantile).min(max), "{name} {field}");
            }
        }
    }
}

#[test]
fn the_python_library_reads_the_histogram_log_and_finds_the_same() {
    if !has(&["python3", "python3-venv"]) {
        return;
    }
    let python = match python_with(LIBRARY, "hdrh.log") {
        Ok(python) => python,
        Err(reason) => return skip(&format!("no {LIBRARY}: {reason}")),
    };
    let sandbox = Sandbox::new();
    let scripted = "run --quiet --engine null --rw randrw --jobs 2 --depth 2 --ops 20000 \
                    --null-latency 1ns,80us,123456ns,300us,2ms,70s,2h --interval 1000h --format json";
    let real = "run --quiet --rw randrw --sync fdatasync --duration 300ms --target data \
                --size 4MiB --jobs 2 --format json";
    for line in [scripted, real] {
        let findings = sandbox.durio(line).run().expect_exit(0).json();
        let log = sandbox.runs().pop().unwrap().join("histograms.hlog");
        let rust = by_rust(&log);
        assert!(rust.len() > 4, "{rust:?}");
        assert_eq!(by_python(&python, &log), rust);
        assert_findings_agree(&log, &findings);
    }
}
