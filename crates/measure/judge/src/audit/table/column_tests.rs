//! Which field of a claim each column fills.

use durio_base::{Bytes, Nanos};

use super::*;

#[test]
fn each_column_fills_its_own_field() {
    let mut claim = Claim::default();
    for (column, text) in [
        ("source", "a"),
        ("stack", "b"),
        ("workload", "c"),
        ("block_size", "4k"),
        ("jobs", "3"),
        ("iodepth", "5"),
        ("durable", "d"),
        ("read_iops", "1201"),
        ("read_latency_us", "21"),
        ("write_iops", "1301"),
        ("write_latency_us", "31"),
        ("bandwidth_mb_s", "41"),
        ("note", "e"),
        ("engine", "f"),
        ("direct", "no"),
        ("paced", "yes"),
        ("runtime", "61s"),
        ("size", "7M"),
        ("memory", "9M"),
        ("target", "/g"),
        ("preconditioned", "no"),
        ("idle", "11s"),
        ("syncs", "13"),
        ("sync_latency_us", "51"),
        ("read_latency_min_us", "2"),
        ("write_latency_max_us", "71"),
        ("sync_latency_p99_us", "81"),
        ("read_latency_p99.9_us", "91"),
        ("write_latency_p50_us", "23"),
    ] {
        assert_eq!(set(&mut claim, column, text), Ok(()), "{column}");
    }
    let (rate, latency) = (|text| cell::rate(text).ok(), |text| cell::latency_ns(text).ok());
    let percentile = |percent: f64, text| vec![(percent, cell::latency_ns(text).unwrap())];
    let read = Operations {
        rate: rate("1201"),
        latency_ns_mean: latency("21"),
        latency_ns_min: latency("2"),
        percentiles_ns: percentile(99.9, "91"),
        ..Operations::default()
    };
    let write = Operations {
        rate: rate("1301"),
        latency_ns_mean: latency("31"),
        latency_ns_max: latency("71"),
        percentiles_ns: percentile(50.0, "23"),
        ..Operations::default()
    };
    let sync = Operations {
        latency_ns_mean: latency("51"),
        percentiles_ns: percentile(99.0, "81"),
        count: Some(13),
        ..Operations::default()
    };
    let expected = Claim {
        source: "a".into(),
        stack: "b".into(),
        workload: "c".into(),
        durable: "d".into(),
        note: "e".into(),
        block_size: Some(Bytes::from_kib(4)),
        jobs: Some(3),
        depth: Some(5),
        engine: Some("f".into()),
        buffered: Some(true),
        paced: true,
        runtime: Some(Nanos::from_secs(61)),
        size: Some(Bytes::from_mib(7)),
        memory: Some(Bytes::from_mib(9)),
        target: Some("/g".into()),
        preconditioned: Some(false),
        idle: Some(Nanos::from_secs(11)),
        bandwidth: cell::bandwidth("41").ok(),
        read,
        write,
        sync,
        ..Claim::default()
    };
    assert_eq!(claim, expected);
    set(&mut claim, "direct", "yes").unwrap();
    assert_eq!(claim.buffered, Some(false));
    let is_latency = |column| latency_column(column).is_some();
    assert!(is_latency("sync_latency_p100_us") && is_latency("read_latency_p0_us"));
    assert!(!is_latency("sync_latency_p101_us") && !is_latency("trim_latency_us"));
    assert!(!is_latency("read_latency_p99") && !is_latency("read_latency_99_us"));
}
