//! Queues that fill up and drain, as fio's do with batches of completions.

use durio_plan::DrainPolicy;
use durio_record::OperationName;
use durio_workload::self_cost_workload;

use super::{Bounds, LatencyHistogram, null_engine, run_draining, total};

const US: u64 = 1000;
/// Of successive operations, over and over.
const LATENCIES: [u64; 4] = [100 * US, 200 * US, 300 * US, 400 * US];

/// Latencies in microseconds, and the end.
fn drained(policy: DrainPolicy, operations: u64) -> (Vec<u64>, u64) {
    let bounds = Bounds { ramp: 0, end: None, interval: u64::MAX, operations, bytes: u64::MAX };
    let mut engine = null_engine(&LATENCIES, 4);
    let (result, intervals) =
        run_draining(&mut engine, &self_cost_workload(4), bounds, (None, Some(policy)));
    let latency: LatencyHistogram = total(&intervals, OperationName::Read);
    assert_eq!(latency.exact.sum_ns, result.accounting.in_flight_ns, "Little's law");
    let values = latency.histogram().iter_recorded().flat_map(|bucket| {
        // Buckets of this size are below a microsecond wide.
        let times = usize::try_from(bucket.count_at_value()).unwrap();
        std::iter::repeat_n(bucket.value_iterated_to() / US, times)
    });
    (values.collect(), result.end_ns / US)
}

#[test]
fn the_next_batch_starts_when_all_of_the_last_are_back() {
    let policy = DrainPolicy { take_min: 4, take_max: 4, refill_at: 4 };
    assert_eq!(drained(policy, 8), (vec![400; 8], 800));
    assert_eq!(drained(policy, 6), (vec![200, 200, 400, 400, 400, 400], 600), "two at the end");
}

#[test]
fn the_queue_is_filled_again_when_it_has_run_low() {
    let policy = DrainPolicy { take_min: 1, take_max: 4, refill_at: 2 };
    // The first two are taken at 100 and 200 us; then two more start, which take 100 and 200 us.
    assert_eq!(drained(policy, 6), (vec![100, 100, 200, 200, 300, 400], 400));
    let policy = DrainPolicy { refill_at: 4, ..policy };
    // Each place at once: the fifth starts at 100 us and is back with the second.
    assert_eq!(drained(policy, 5), (vec![100, 100, 200, 300, 400], 400));
}

#[test]
fn no_more_are_taken_at_a_time_than_permitted() {
    // Two of the four are back after 200 us, and one after the other is taken.
    let policy = DrainPolicy { take_min: 2, take_max: 2, refill_at: 4 };
    assert_eq!(drained(policy, 4), (vec![200, 200, 400, 400], 400));
}
