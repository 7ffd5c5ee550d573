//! A record as if everything had taken longer.
//!
//! Lengthens every measured time of an event, including its histograms. CPU time and counters,
//! which the gate ignores, stay.

use durio_base::Nanos;
use durio_record::{Event, Exact, Latency, OperationRecord};

/// Makes the times of an event longer by `factor`.
pub(super) fn stretch(event: &mut Event, factor: f64) {
    let longer = |nanos: &mut Nanos| *nanos = Nanos::new(longer(nanos.get(), factor));
    match event {
        Event::Interval(interval) => {
            longer(&mut interval.from);
            longer(&mut interval.to);
            stretch_all(&mut interval.operations, factor);
        }
        Event::JobEnded(job) => {
            longer(&mut job.measured);
            stretch_all(&mut job.operations, factor);
        }
        Event::StepEnded(step) => longer(&mut step.measured),
        _ => {}
    }
}

fn stretch_all(operations: &mut [OperationRecord], factor: f64) {
    for it in operations {
        it.service = latency(&it.service, factor);
        for other in [&mut it.submit, &mut it.completion, &mut it.response].into_iter().flatten() {
            *other = latency(other, factor);
        }
    }
}

fn latency(latency: &Latency, factor: f64) -> Latency {
    let exact = latency.exact;
    let stretched = Exact {
        count: exact.count,
        sum_ns: longer(exact.sum_ns, factor),
        min_ns: longer(exact.min_ns, factor),
        max_ns: longer(exact.max_ns, factor),
    };
    let buckets = latency.histogram().into_iter().flat_map(|histogram| histogram.buckets());
    // The record does not have a latency's place in its bucket.
    let counts =
        buckets.map(|(lowest, highest, count)| (longer(lowest.midpoint(highest), factor), count));
    Latency::about(stretched, counts)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a time that was measured, far below 2^53 ns"
)]
fn longer(nanos: u64, factor: f64) -> u64 {
    (nanos as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_and_their_sum_are_longer_and_none_is_lost() {
        let mut full = Latency::default();
        (1..=1000_u64).for_each(|it| full.record(it * 1000));
        let found = latency(&full, 1.1);
        assert_eq!(found.exact.count, 1000);
        assert_eq!((found.exact.min_ns, found.exact.max_ns), (1100, 1_100_000));
        let median = found.histogram().expect("latencies").value_at_quantile(0.5);
        assert!((549_000..=551_500).contains(&median), "{median}");
    }
}
