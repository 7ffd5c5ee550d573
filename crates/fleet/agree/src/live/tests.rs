//! Reports as hosts send them, and as a hostile one does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use super::*;

const SECOND: Nanos = Nanos::from_secs(1);

/// An entry of the log of these many operations of these nanoseconds, with so many digits.
fn entry(latencies: &[(u64, u64)], digits: u8) -> String {
    let mut full: Histogram<u64> =
        Histogram::new_with_bounds(1, 3_600_000_000_000, digits).unwrap();
    latencies.iter().for_each(|&(nanos, count)| full.record_n(nanos, count).unwrap());
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&full, &mut bytes).unwrap();
    STANDARD.encode(bytes)
}

fn exact(latencies: &[(u64, u64)]) -> Exact {
    Exact {
        count: latencies.iter().map(|(_, count)| count).sum(),
        sum_ns: latencies.iter().map(|(nanos, count)| nanos * count).sum(),
        min_ns: latencies.iter().map(|(nanos, _)| *nanos).min().unwrap_or(0),
        max_ns: latencies.iter().map(|(nanos, _)| *nanos).max().unwrap_or(0),
    }
}

/// A second of reads of 4 KiB.
fn reads(latencies: &[(u64, u64)]) -> LiveReport {
    let exact = exact(latencies);
    let counts = LiveOperation {
        operation: OperationName::Read,
        bytes: Bytes::from_kib(4 * exact.count),
        exact,
        histograms: vec![entry(latencies, 3)],
    };
    let stream = LiveStream { stream: 0, span: SECOND, operations: vec![counts] };
    LiveReport { step: 1, round: 0, phase: Phase::Measure, streams: vec![stream] }
}

fn take(board: &mut LiveBoard, host: &str, report: &LiveReport, now: Nanos) {
    let encoded = report.clone().encode().unwrap();
    board.take((host, &encoded), now, |step| step == report.step).unwrap();
}

fn document(board: &LiveBoard, hosts: &[&str], now: Nanos) -> LiveDocument {
    let standings =
        hosts.iter().map(|host| HostStanding { host, state: HostState::Running, silent: None });
    board.document(("0", "check", now), standings, now)
}

#[test]
fn the_p99_of_a_fleet_is_of_all_latencies_together_and_not_the_mean_of_its_hosts() {
    let mut board = LiveBoard::default();
    // The slow host has one in eleven of all reads: its p99 of 1 ms is the fleet's.
    take(&mut board, "a", &reads(&[(1_000, 1_000)]), SECOND);
    take(&mut board, "b", &reads(&[(1_000_000, 100)]), SECOND);
    let found = document(&board, &["a", "b", "c"], SECOND);
    assert_eq!((found.hosts_reporting, found.hosts.len()), (2, 3));
    let [total] = &found.operations[..] else { panic!("{:?}", found.operations) };
    assert_eq!((total.operation, total.hosts), (OperationName::Read, 2));
    assert_eq!((total.operations_per_second, total.bytes_per_second), (1_100.0, 4_505_600.0));
    // The bucket of 1 ms ends at 1,000,447 ns; the mean of both hosts would be 500 µs.
    assert_eq!(total.p99_ns, Some(1_000_447));
    let hosts: Vec<Option<u64>> =
        found.hosts.iter().map(|host| host.figures.as_ref()?.p99_ns).collect();
    assert_eq!(hosts, [Some(1_000), Some(1_000_447), None]);
}

#[test]
fn the_five_slowest_are_named_with_their_share_of_the_median() {
    let mut board = LiveBoard::default();
    let hosts = ["a", "b", "c", "d", "e", "f", "g"];
    for (host, count) in hosts.iter().zip([100, 40, 100, 110, 100, 100, 90]) {
        take(&mut board, host, &reads(&[(1_000, count)]), SECOND);
    }
    let found = document(&board, &hosts, SECOND);
    let slowest: Vec<(&str, f64)> =
        found.slowest.iter().map(|slow| (slow.host.as_str(), slow.of_median)).collect();
    assert_eq!(slowest, [("b", 0.4), ("g", 0.9), ("a", 1.0), ("c", 1.0), ("e", 1.0)]);
    assert_eq!(found.hosts[3].figures.as_ref().unwrap().of_median, Some(1.1));
    // A host in another step is not compared with them, and one host has no others.
    let other = LiveReport { step: 2, ..reads(&[(1_000, 1)]) };
    take(&mut board, "h", &other, SECOND);
    assert_eq!(document(&board, &["a", "b", "h"], SECOND).slowest.len(), 2);
    assert!(document(&board, &["a"], SECOND).slowest.is_empty());
}

#[test]
fn figures_count_until_they_are_3_s_and_two_intervals_old() {
    let mut board = LiveBoard::default();
    take(&mut board, "a", &reads(&[(5, 1)]), SECOND);
    for (seconds, reporting) in [(2, 1), (6, 1), (7, 0)] {
        let found = document(&board, &["a"], Nanos::from_secs(seconds));
        assert_eq!(found.hosts_reporting, reporting, "{seconds} s");
    }
    let ended = HostStanding { host: "a", state: HostState::Ended, silent: None };
    let found = board.document(("0", "x", SECOND), [ended].into_iter(), SECOND);
    assert_eq!((found.hosts_reporting, found.hosts[0].recent.len()), (0, 1));
}

#[test]
fn a_report_that_no_run_can_have_made_is_refused() {
    let refused = |change: &dyn Fn(&mut LiveReport)| {
        let mut report = reads(&[(1_000, 10)]);
        change(&mut report);
        let encoded = serde_json::to_vec(&report).unwrap();
        LiveBoard::default().take(("a", &encoded), SECOND, |step| step == 1)
    };
    fn counts(report: &mut LiveReport) -> &mut LiveOperation {
        &mut report.streams[0].operations[0]
    }
    let refused_for = |reason, change: &dyn Fn(&mut LiveReport)| {
        assert_eq!(refused(change), Err(reason));
    };
    assert_eq!(refused(&|_| ()), Ok(()));
    refused_for("step", &|report| report.step = 2);
    refused_for("step", &|report| report.step = 4_096);
    refused_for("span", &|report| report.streams[0].span = Nanos::ZERO);
    refused_for("span", &|report| report.streams[0].span = Nanos::from_secs(3_601));
    refused_for("number of streams", &|report| {
        report.streams = vec![report.streams[0].clone(); 65];
    });
    refused_for("operation twice", &|report| {
        let again = counts(report).clone();
        report.streams[0].operations.push(again);
    });
    refused_for("rate", &|report| counts(report).exact.count = 1_000_000_001);
    refused_for("rate", &|report| counts(report).bytes = Bytes::new(u64::MAX));
    refused_for("latency", &|report| counts(report).exact.min_ns = 1_001);
    refused_for("latency", &|report| counts(report).exact.max_ns = 3_600_000_000_001);
    refused_for("count of histograms", &|report| counts(report).exact.count = 11);
    refused_for("histogram", &|report| {
        counts(report).histograms = vec![entry(&[(1_000, 10)], 2)];
    });
    refused_for("histogram", &|report| counts(report).histograms = vec!["garbage".to_owned()]);
    refused_for("number of histograms", &|report| {
        let one = entry(&[], 3);
        counts(report).histograms.extend(vec![one; 32]);
    });
    refused_for("size", &|report| {
        counts(report).histograms = vec!["x".repeat(REPORT_BYTES_MAX)];
    });
}

#[test]
fn negative_counts_and_other_texts_are_no_report() {
    let text = String::from_utf8(reads(&[(1_000, 10)]).encode().unwrap()).unwrap();
    assert!(text.contains("\"count\":10,"), "{text}");
    let hostile = [
        text.replace("\"count\":10,", "\"count\":-10,"),
        text.replace("\"count\":10,", "\"count\":1e3,"),
        text.replace("\"read\"", "\"format\""),
        text.replace("\"step\":1", "\"step\":\"../x\""),
        String::new(),
        "[".repeat(100_000),
    ];
    for text in hostile {
        assert_eq!(LiveReport::decode(text.as_bytes()), Err("form"), "{text:.80}");
    }
    assert_eq!(LiveReport::decode(&[0xff; 10]), Err("form"));
}

#[test]
fn more_than_four_reports_in_a_second_are_not_read() {
    let mut board = LiveBoard::default();
    let encoded = reads(&[(1_000, 10)]).encode().unwrap();
    let mut at =
        |millis, bytes: &[u8]| board.take(("a", bytes), Nanos::from_millis(millis), |_| true);
    assert_eq!(at(1_000, b"garbage"), Err("form"));
    assert_eq!(at(1_249, &encoded), Err("frequency"));
    assert_eq!(at(1_499, &encoded), Ok(()));
}

#[test]
fn a_report_that_is_too_large_goes_without_histograms() {
    let mut report = reads(&[(1_000, 10)]);
    report.streams[0].operations[0].histograms = vec!["x".repeat(REPORT_BYTES_MAX / 30); 32];
    let sent = LiveReport::decode(&report.encode().unwrap()).unwrap();
    assert!(sent.streams[0].operations[0].histograms.is_empty());
    let mut board = LiveBoard::default();
    take(&mut board, "a", &sent, SECOND);
    let found = document(&board, &["a"], SECOND);
    assert_eq!(
        (found.operations[0].operations_per_second, found.operations[0].p99_ns),
        (10.0, None)
    );
}

#[test]
fn a_host_reports_on_a_subject_that_it_may_publish_on() {
    assert_eq!(LiveReport::subject("c1", "db1.example"), "c.c1.h.db1,example.live");
}
