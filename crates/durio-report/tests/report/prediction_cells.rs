//! Each figure of a prediction is in its row, below its title, with its unit: in every format.

use durio_analyse::Findings;
use durio_analyse::prediction::{Bound, PredictionFindings, PredictionPoint};

use crate::cells::assert_table;
use crate::sample;

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
