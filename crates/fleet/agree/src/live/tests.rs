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
fn a_host_in_another_round_of_the_step_is_not_compared() {
    let mut board = LiveBoard::default();
    take(&mut board, "a", &reads(&[(1_000, 100)]), SECOND);
    take(&mut board, "b", &reads(&[(1_000, 100)]), SECOND);
    take(&mut board, "c", &LiveReport { round: 1, ..reads(&[(1_000, 10)]) }, SECOND);
    let found = document(&board, &["a", "b", "c"], SECOND);
    let compared: Vec<&str> = found.slowest.iter().map(|slow| slow.host.as_str()).collect();
    assert_eq!(compared, ["a", "b"]);
    assert_eq!(found.hosts[2].figures.as_ref().unwrap().of_median, None);
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

fn counts_of(report: &mut LiveReport) -> &mut LiveOperation {
    &mut report.streams[0].operations[0]
}

#[test]
fn each_number_of_a_report_is_accepted_at_its_limit_and_refused_with_one_more() {
    type Change = fn(&mut LiveReport, u64);
    let rows: [(&str, u64, Change); 8] = [
        ("step", 4_095, |report, step| report.step = u32::try_from(step).unwrap()),
        ("number of streams", 64, |report, count| {
            report.streams = vec![report.streams[0].clone(); usize::try_from(count).unwrap()];
        }),
        ("span", 3_600_000_000_000, |report, span| report.streams[0].span = Nanos::new(span)),
        ("rate", 1_000_000_000, |report, count| counts_of(report).exact.count = count),
        // 1,100 bytes per nanosecond of a second, and the rest of a division.
        ("rate", 1_100_000_001_099, |report, bytes| counts_of(report).bytes = Bytes::new(bytes)),
        ("latency", 3_600_000_000_000, |report, longest| counts_of(report).exact.max_ns = longest),
        ("latency", 1_000, |report, shortest| counts_of(report).exact.min_ns = shortest),
        ("number of histograms", 32, |report, count| {
            counts_of(report).histograms = vec![String::new(); usize::try_from(count).unwrap()];
        }),
    ];
    for (wrong, most, change) in rows {
        for (number, expected) in [(most, Ok(())), (most + 1, Err(wrong))] {
            let mut report = reads(&[(1_000, 10)]);
            change(&mut report, number);
            let encoded = serde_json::to_vec(&report).unwrap();
            assert_eq!(LiveReport::decode(&encoded).map(|_| ()), expected, "{wrong} {number}");
        }
    }
    let mut encoded = reads(&[(1_000, 10)]).encode().unwrap();
    encoded.resize(262_144, b' ');
    assert!(LiveReport::decode(&encoded).is_ok());
    encoded.push(b' ');
    assert_eq!(LiveReport::decode(&encoded), Err("size"));
}

#[test]
fn counts_are_over_the_time_of_their_stream_streams_add_up_and_the_fastest_comes_first() {
    let mut report = reads(&[(1_000, 100)]);
    report.streams[0].span = Nanos::from_secs(2);
    let mut other = reads(&[(5_000, 30)]).streams.remove(0);
    (other.stream, other.span) = (1, Nanos::from_millis(500));
    let writes = reads(&[(5_000, 90)]).streams.remove(0).operations.remove(0);
    other.operations.push(LiveOperation { operation: OperationName::Write, ..writes });
    report.streams.push(other);
    let mut board = LiveBoard::default();
    take(&mut board, "a", &report, SECOND);
    let found = document(&board, &["a"], SECOND);
    let totals: Vec<(OperationName, f64, f64)> = found
        .operations
        .iter()
        .map(|total| (total.operation, total.operations_per_second, total.bytes_per_second))
        .collect();
    let expected =
        [(OperationName::Write, 180.0, 737_280.0), (OperationName::Read, 110.0, 450_560.0)];
    assert_eq!(totals, expected);
    // The operation of which the fleet makes most.
    let host = found.hosts[0].figures.as_ref().unwrap();
    assert_eq!((host.operations_per_second, host.bytes_per_second), (180.0, 737_280.0));
    assert_eq!(found.hosts[0].recent, [290.0]);
    // 3 s and twice the longest time.
    for (millis, reporting) in [(8_000, 1), (8_001, 0)] {
        let found = document(&board, &["a"], Nanos::from_millis(millis));
        assert_eq!(found.hosts_reporting, reporting, "{millis} ms");
    }
}

#[test]
fn a_host_that_makes_none_of_the_main_operation_is_the_slowest() {
    let mut board = LiveBoard::default();
    take(&mut board, "a", &reads(&[(1_000, 100)]), SECOND);
    take(&mut board, "b", &reads(&[(1_000, 100)]), SECOND);
    let mut writes = reads(&[(1_000, 10)]);
    counts_of(&mut writes).operation = OperationName::Write;
    take(&mut board, "c", &writes, SECOND);
    let found = document(&board, &["a", "b", "c"], SECOND);
    assert_eq!((found.slowest[0].host.as_str(), found.slowest[0].of_median), ("c", 0.0));
    let host = found.hosts[2].figures.as_ref().unwrap();
    assert_eq!((host.operations_per_second, host.p99_ns, host.of_median), (0.0, None, Some(0.0)));
}

#[test]
fn the_rates_of_the_last_sixty_reports_are_kept() {
    let mut board = LiveBoard::default();
    for second in 1..=61 {
        take(&mut board, "a", &reads(&[(1_000, second)]), Nanos::from_secs(second));
    }
    let found = document(&board, &["a"], Nanos::from_secs(61));
    let recent = &found.hosts[0].recent;
    assert_eq!((recent.len(), recent[0], recent[59]), (60, 2.0, 61.0));
}

#[test]
fn a_document_names_its_campaign_and_a_host_that_is_lost_has_no_figures() {
    let mut board = LiveBoard::default();
    take(&mut board, "a", &reads(&[(1_000, 10)]), SECOND);
    take(&mut board, "b", &reads(&[(1_000, 10)]), SECOND);
    let silent = Some(Nanos::from_secs(4));
    let standings = [
        HostStanding { host: "a", state: HostState::Running, silent: None },
        HostStanding { host: "b", state: HostState::Lost, silent },
    ];
    let head = ("0123", "check", Nanos::from_secs(7));
    let found = board.document(head, standings.into_iter(), SECOND);
    assert_eq!((found.schema, found.hosts_reporting), (1, 1));
    let found = serde_json::to_value(&found).unwrap();
    assert!(found["campaign"] == "0123" && found["name"] == "check", "{found}");
    assert_eq!(found["elapsed_ns"], 7_000_000_000_u64);
    assert_eq!(found["operations"][0]["operation"], "read");
    let [a, b] = [&found["hosts"][0], &found["hosts"][1]];
    assert!(a["state"] == "running" && a["silent_ns"].is_null(), "{a}");
    assert!(a["figures"]["phase"] == "measure" && a["figures"]["step"] == 1, "{a}");
    assert!(b["silent_ns"] == 4_000_000_000_u64 && b["figures"].is_null(), "{b}");
}

/// What a relay sends of these hosts.
fn region(hosts: &[(&str, LiveReport)]) -> Vec<u8> {
    let mut board = LiveBoard::default();
    for (host, report) in hosts {
        take(&mut board, host, report, SECOND);
    }
    let encoded = board.drain().unwrap();
    // Nothing is sent twice.
    assert_eq!(board.drain(), None);
    encoded
}

#[test]
fn a_region_is_the_sum_of_its_hosts_with_the_rate_and_p99_of_each() {
    let hosts =
        [("a", reads(&[(1_000, 1_000)])), ("b", reads(&[(1_000_000, 100)])), ("c", reads(&[]))];
    let (mut direct, mut relayed) = (LiveBoard::default(), LiveBoard::default());
    for (host, report) in &hosts {
        take(&mut direct, host, report, SECOND);
    }
    let encoded = region(&hosts);
    let is_planned = |host: &str, step: u32| ["a", "b", "c"].contains(&host) && step == 1;
    relayed.take_region(("relay-1", &encoded), SECOND, is_planned).unwrap();
    let names = ["a", "b", "c"];
    assert_eq!(document(&relayed, &names, SECOND), document(&direct, &names, SECOND));
    let p99 = document(&relayed, &names, SECOND).operations[0].p99_ns;
    assert_eq!(p99, Some(1_000_447));
    // With a host that has no relay.
    take(&mut relayed, "d", &reads(&[(50_000_000, 100)]), SECOND);
    let total = &document(&relayed, &["a", "b", "c", "d"], SECOND).operations[0];
    assert_eq!((total.hosts, total.operations_per_second), (4, 1_200.0));
    // The bucket of 50 ms.
    assert!((50_000_000..50_100_000).contains(&total.p99_ns.unwrap()), "{total:?}");
}

#[test]
fn figures_of_hosts_that_are_not_behind_the_relay_and_impossible_ones_are_refused() {
    let encoded = region(&[("a", reads(&[(1_000, 10)]))]);
    let refused = |encoded: &[u8], host: &'static str| {
        let mut board = LiveBoard::default();
        board.take_region(("relay-1", encoded), SECOND, |known, _| known == host)
    };
    assert_eq!(refused(&encoded, "a"), Ok(()));
    assert_eq!(refused(&encoded, "b"), Err("step"));
    let text = String::from_utf8(encoded).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        refused(text.replace(from, to).as_bytes(), "a")
    };
    assert_eq!(changed("\"count\":10", "\"count\":11"), Err("count of histograms"));
    assert_eq!(changed("\"max_ns\":1000", "\"max_ns\":999"), Err("latency"));
    assert_eq!(changed("\"rate\":10.0", "\"rate\":1e10"), Err("rate"));
    // 3 s, and twice the longest interval of an hour.
    let current =
        |nanos: u64| changed("\"current_ns\":5000000000", &format!("\"current_ns\":{nanos}"));
    assert_eq!(current(7_203_000_000_000), Ok(()));
    assert_eq!(current(7_203_000_000_001), Err("span"));
    assert_eq!(refused(b"{}", "a"), Err("form"));
    let mut board = LiveBoard::default();
    let mut twice = |now| board.take_region(("r", text.as_bytes()), now, |_, _| true);
    assert_eq!(twice(SECOND), Ok(()));
    assert_eq!(twice(Nanos::from_millis(1_249)), Err("frequency"));
}
