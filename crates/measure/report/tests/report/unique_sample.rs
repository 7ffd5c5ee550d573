//! A run of five workloads in which no figure is like another: a figure in a wrong place is a wrong figure.
//!
//! Operation *n* (1 for the first of the first workload, 11 for that of the second …) has *n*.5 k
//! operations per second, *n* MiB/s, and latencies of 100 + *n* µs (p50) to 500 + *n* µs (the maximum).

use durio_analyse::{CurvePoint, Distribution, Findings, IntervalPoint, Verdict};
use durio_base::Nanos;
use durio_record::Phase;

use crate::sample;

const MIB: f64 = 1_048_576.0;

pub(crate) fn unique() -> Findings {
    numbered(sample::complete())
}

/// The workloads at `/srv/db` as in [`unique`], and then those at `/dev/vdb`, whose numbers go on.
pub(crate) fn at_two_places() -> Findings {
    numbered(sample::two_locations())
}

fn numbered(mut findings: Findings) -> Findings {
    for (index, workload) in (0_u32..).zip(&mut findings.workloads) {
        workload.iops = f64::from(70_500 + 1000 * index);
        workload.bandwidth = f64::from(60 + index) * 1024.0 * MIB;
        workload.measured = Nanos::from_secs(u64::from(200 + index));
        (workload.effective.jobs, workload.effective.depth) = (2 + index, 10 + index);
        workload.effective.batch = 20 + index;
        for (operation, number) in workload.operations.iter_mut().zip(10 * index + 1..) {
            operation.rate = f64::from(number) * 1000.0 + 500.0;
            operation.bandwidth = f64::from(number) * MIB;
            operation.service = distribution(u64::from(number));
            operation.curve = curve(u64::from(number));
        }
        workload.intervals = intervals(u64::from(index));
    }
    for (verdict, number) in findings.verdicts.iter_mut().zip(1_u32..) {
        number_verdict(verdict, number);
    }
    findings
}

fn distribution(number: u64) -> Distribution {
    let at = |hundreds: u64| (100 * hundreds + number) * 1000;
    Distribution {
        count: 7_000_000 + number,
        mean_ns: f64::from(u32::try_from(at(6)).unwrap()),
        min_ns: at(0),
        p1_ns: Some(at(7)),
        p50_ns: Some(at(1)),
        p90_ns: Some(at(8)),
        p99_ns: Some(at(2)),
        p99_9_ns: Some(at(3)),
        p99_99_ns: Some(at(4)),
        max_ns: at(5),
    }
}

fn curve(number: u64) -> Vec<CurvePoint> {
    let point = |(quantile, hundreds): (f64, u64)| CurvePoint {
        quantile,
        latency_ns: (100 * hundreds + number) * 1000,
    };
    [(0.0, 0), (0.5, 1), (0.99, 2), (0.999, 3)].map(point).into()
}

/// Four seconds, with rates and latencies of their own.
fn intervals(index: u64) -> Vec<IntervalPoint> {
    let point = |(second, rate): (u64, f64)| IntervalPoint {
        phase: Phase::Measure,
        from: Nanos::from_secs(second),
        to: Nanos::from_secs(second + 1),
        rate: rate * f64::from(u32::try_from(index + 1).unwrap()),
        p50_ns: Some(110_000 + 1000 * index + 10_000 * second),
        p99_ns: Some(410_000 + 1000 * index + 10_000 * second),
        max_ns: Some(910_000 + 1000 * index + 10_000 * second),
        unwatched_max: None,
        cut_short: false,
        kept: Vec::new(),
    };
    [(0, 8000.0), (1, 4000.0), (2, 1000.0), (3, 6000.0)].map(point).into()
}

/// Each measured value is held against its own limit with its own headroom.
fn number_verdict(verdict: &mut Verdict, number: u32) {
    if verdict.value.is_some() {
        verdict.value = Some(f64::from(number) * 1_100_000.0);
        verdict.headroom = Some(f64::from(number) + 0.25);
        verdict.limit = format!("p99 of sync < {} ms", 50 + number);
        verdict.workload = format!("workload {number}");
    }
}
