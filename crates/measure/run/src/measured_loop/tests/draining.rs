//! Queues that fill up and drain, as fio's do with batches of completions.

use durio_block::{Clock as _, Engine as _, Ticks};
use durio_plan::{DrainPolicy, ThinkTime};
use durio_record::OperationName;
use durio_workload::self_cost_workload;

use super::{JobBounds, null_engine, run_draining, total};

const US: u64 = 1000;
/// Of successive operations, over and over.
const LATENCIES: [u64; 4] = [100 * US, 200 * US, 300 * US, 400 * US];

/// Latencies in microseconds, and the end.
fn drained(policy: DrainPolicy, operations: u64) -> (Vec<u64>, u64) {
    let bounds = JobBounds { ramp: 0, end: None, interval: u64::MAX, operations, bytes: u64::MAX };
    let depth = policy.refill_at.max(policy.take_max);
    let mut engine = null_engine(&LATENCIES, depth);
    let (result, intervals) =
        run_draining(&mut engine, &self_cost_workload(depth), bounds, (None, Some(policy)));
    let latency = total(&intervals, OperationName::Read);
    assert_eq!(latency.exact.sum_ns, result.accounting.in_flight_ns, "Little's law");
    let values = latency.histogram().unwrap().buckets().flat_map(|(_, highest, count)| {
        // Buckets of this size are below a microsecond wide.
        std::iter::repeat_n(highest / US, usize::try_from(count).unwrap())
    });
    (values.collect(), result.end_ns / US)
}

#[test]
fn the_next_batch_starts_when_all_of_the_last_are_back() {
    let policy = DrainPolicy { take_min: 4, take_max: 4, refill_at: 4, think: None };
    assert_eq!(drained(policy, 8), (vec![400; 8], 800));
    assert_eq!(drained(policy, 6), (vec![200, 200, 400, 400, 400, 400], 600), "two at the end");
}

#[test]
fn the_queue_is_filled_again_when_it_has_run_low() {
    let policy = DrainPolicy { take_min: 1, take_max: 4, refill_at: 2, think: None };
    // The first two are taken at 100 and 200 us; then two more start, which take 100 and 200 us.
    assert_eq!(drained(policy, 6), (vec![100, 100, 200, 200, 300, 400], 400));
    let policy = DrainPolicy { refill_at: 4, ..policy };
    // Each place at once: the fifth starts at 100 us and is back with the second.
    assert_eq!(drained(policy, 5), (vec![100, 100, 200, 300, 400], 400));
}

#[test]
fn no_more_are_taken_at_a_time_than_permitted() {
    // Two of the four are back after 200 us, and one after the other is taken.
    let policy = DrainPolicy { take_min: 2, take_max: 2, refill_at: 4, think: None };
    assert_eq!(drained(policy, 4), (vec![200, 200, 400, 400], 400));
}

#[test]
fn a_job_pauses_after_as_many_accesses_as_it_is_told_and_with_nothing_in_flight() {
    let think = |after| Some(ThinkTime { length_ns: 1000 * US, after });
    let alone = DrainPolicy { take_min: 1, take_max: 1, refill_at: 1, think: think(2) };
    assert_eq!(
        drained(alone, 5),
        (vec![100, 100, 200, 300, 400], 100 + 200 + 1000 + 700 + 1000 + 100)
    );
    let alone = DrainPolicy { think: think(3), ..alone };
    assert_eq!(drained(alone, 5), (vec![100, 100, 200, 300, 400], 600 + 1000 + 400 + 100));
    // The first pause waits for all four; they count towards the second, which follows one access.
    let four = DrainPolicy { refill_at: 4, ..alone };
    let four = DrainPolicy { think: think(1), ..four };
    assert_eq!(
        drained(four, 6),
        (vec![100, 100, 200, 200, 300, 400], 400 + 1000 + 100 + 1000 + 200)
    );
}

#[test]
fn a_pause_ends_with_the_time_of_the_run() {
    let think = Some(ThinkTime { length_ns: 1_000_000 * US, after: 1 });
    let policy = DrainPolicy { take_min: 1, take_max: 1, refill_at: 1, think };
    let end = Some(700 * US);
    let bounds =
        JobBounds { ramp: 0, end, interval: u64::MAX, operations: u64::MAX, bytes: u64::MAX };
    let mut engine = null_engine(&LATENCIES, 1);
    run_draining(&mut engine, &self_cost_workload(1), bounds, (None, Some(policy)));
    let clock = engine.clock();
    assert_eq!(clock.nanos(clock.now().since(Ticks(0))), 700 * US);
}
