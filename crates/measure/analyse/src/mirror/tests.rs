//! Distributions whose maximum is known, and the published cards.

use super::*;
use proptest::prelude::*;

/// A distribution by its quantile function, in `samples` equal parts.
fn of(samples: u64, quantile: impl Fn(f64) -> f64) -> Vec<LatencyCount> {
    let middle = |index| (f64::from(u32::try_from(index).unwrap()) + 0.5) / float(samples);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a test's ns")]
    let latency =
        |index: u64| LatencyCount { latency_ns: quantile(middle(index)) as u64, count: 1 };
    (0..samples).map(latency).collect()
}

#[test]
fn constant_latencies_have_no_penalty() {
    let found = predict(&[LatencyCount { latency_ns: 80_000, count: 1_000 }], 2).unwrap();
    assert_eq!((found.penalty, found.slowest.latency_ns_p99), (1.0, 80_000));
}

#[test]
fn uniform_and_exponential_latencies_give_four_thirds_and_three_halves() {
    let uniform = predict(&of(100_000, |q| q * 2e5), 2).unwrap();
    assert!((uniform.penalty - 4.0 / 3.0).abs() < 1e-3, "{}", uniform.penalty);
    let exponential = of(100_000, |q| -(1.0 - q).ln() * 1e5);
    for (copies, expected) in [(2, 1.5), (3, 1.5 + 1.0 / 3.0)] {
        let found = predict(&exponential, copies).unwrap().penalty;
        assert!((found - expected).abs() < 2e-3, "{found} for {expected}");
    }
}

#[test]
fn a_percentile_of_the_slower_is_a_higher_one_of_the_single() {
    // Of uniform latencies to 100 µs: the median of the larger of two is at √0.5.
    let found = predict(&of(100_000, |q| q * 1e5), 2).unwrap();
    let near = |found: u64, expected: f64| (float(found) / expected - 1.0).abs() < 1e-3;
    assert!(near(found.slowest.latency_ns_p50, 70_711.0), "{found:?}");
    assert!(near(found.slowest.latency_ns_p99, 99_499.0), "{found:?}");
    assert!(near(found.single.latency_ns_p50, 50_000.0), "{found:?}");
}

#[test]
fn the_order_of_the_latencies_and_empty_buckets_do_not_matter() {
    let sorted = of(1_000, |q| q * 1e5);
    let mut turned = sorted.clone();
    turned.reverse();
    turned.insert(5, LatencyCount { latency_ns: 77, count: 0 });
    assert_eq!(predict(&sorted, 2), predict(&turned, 2));
}

#[test]
fn a_mirror_that_only_waits_meets_its_prediction_and_a_slower_one_exceeds_it() {
    let single = of(10_000, |q| -(1.0 - q).ln() * 1e5);
    // The larger of two exponential draws, by its quantile function.
    let mirror = of(10_000, |q| -(1.0 - q.sqrt()).ln() * 1e5);
    let found = compare_with_prediction(&single, &mirror, 2).unwrap();
    assert!((found.mean_ratio - 1.0).abs() < 0.01, "{found:?}");
    assert!((found.p99_ratio - 1.0).abs() < 0.01, "{found:?}");
    let slower = of(10_000, |q| -(1.0 - q.sqrt()).ln() * 2e5);
    let found = compare_with_prediction(&single, &slower, 2).unwrap();
    assert!((found.mean_ratio - 2.0).abs() < 0.02, "{found:?}");
}

// Percona, "RAID throughput on FusionIO", 24 March 2010: 16 KiB random writes per second, by one
// thread and by 16.
const SINGLE: [f64; 2] = [14_357.65, 32_447.07];
const RAID1: [f64; 2] = [9_821.12, 15_220.57];
const RAID0: [f64; 2] = [12_993.91, 43_023.12];
const RAID1_OVER_0: [f64; 2] = [7_395.75, 13_536.86];
const RAID0_OVER_1: [f64; 2] = [8_830.49, 18_687.97];
const RAID10_N2: [f64; 2] = [10_634.62, 31_038.5];

#[test]
fn with_one_thread_waiting_for_the_slower_card_explains_the_mirror() {
    let found = penalty(SINGLE[0], RAID1[0], 2).unwrap();
    assert!((found.measured - 1.462).abs() < 0.001, "{}", found.measured);
    // Just below the 1.5 of exponential latencies: the cards' latencies would have to vary a lot.
    assert_eq!(found.verdict, PenaltyVerdict::Explained);
    assert!((found.least_variation.unwrap() - 0.80).abs() < 0.005, "{found:?}");
}

#[test]
fn with_16_threads_no_waiting_explains_it() {
    // A reader of the publication explained the loss by the slower of two cards. The figures say
    // that this cannot be all: 2.13 times the time, and the longer of two is less than their sum.
    // At 15 220 writes per second each card had less to do than alone, so that its own latency
    // cannot have been the longer.
    let found = penalty(SINGLE[1], RAID1[1], 2).unwrap();
    assert!((found.measured - 2.132).abs() < 0.001, "{}", found.measured);
    assert_eq!(found.verdict, PenaltyVerdict::BeyondWaiting);
    assert_eq!(found.least_variation, None);
    assert!(found.sentence.contains("less than the sum"), "{}", found.sentence);
}

#[test]
fn mirrors_of_stripes_cost_more_than_waiting_and_the_n2_layout_does_not() {
    // Against the stripe over two cards: the only published baseline; a stripe over four would be
    // faster, and each penalty larger.
    let verdict = |mirror: [f64; 2], i: usize| penalty(RAID0[i], mirror[i], 2).unwrap().verdict;
    assert_eq!(verdict(RAID1_OVER_0, 0), PenaltyVerdict::OnlyByLongTail);
    assert_eq!(verdict(RAID1_OVER_0, 1), PenaltyVerdict::BeyondWaiting);
    assert_eq!(verdict(RAID0_OVER_1, 0), PenaltyVerdict::Explained);
    assert_eq!(verdict(RAID0_OVER_1, 1), PenaltyVerdict::BeyondWaiting);
    assert_eq!(verdict(RAID10_N2, 0), PenaltyVerdict::Explained);
    assert_eq!(verdict(RAID10_N2, 1), PenaltyVerdict::Explained);
}

#[test]
fn what_independent_copies_would_cost_stands_beside_it() {
    let found = penalty(SINGLE[1], RAID1[1], 2).unwrap();
    assert_eq!((found.if_constant, found.if_exponential, found.at_most), (1.0, 1.5, 2.0));
    assert!((found.if_uniform - 4.0 / 3.0).abs() < 1e-12);
    assert_eq!(penalty(1e5, 1e5, 2).unwrap().verdict, PenaltyVerdict::None);
}

#[test]
fn no_samples_and_no_copies_are_declined() {
    assert!(matches!(predict(&[], 2), Err(DeclinedAnalysis::TooFew { .. })));
    let empty = [LatencyCount { latency_ns: 5, count: 0 }];
    assert!(matches!(predict(&empty, 2), Err(DeclinedAnalysis::TooFew { .. })));
    for copies in [0, 65, u32::MAX] {
        assert!(predict(&of(10, |q| q * 1e5), copies).is_err());
    }
    assert!(predict(&of(10, |q| q * 1e5), 64).is_ok());
    assert!(penalty(1.0, 1.0, 1).is_err());
    assert!(penalty(0.0, 1.0, 2).is_err());
}

proptest! {
    #[test]
    fn the_slowest_is_between_one_copy_and_all_of_them_one_after_the_other(
        latencies in prop::collection::vec((any::<u32>(), 1..1_000_000_u64), 1..50),
        copies in 1..10_u32,
    ) {
        let counts: Vec<LatencyCount> = latencies
            .into_iter()
            .map(|(latency, count)| LatencyCount { latency_ns: latency.into(), count })
            .collect();
        let found = predict(&counts, copies).unwrap();
        prop_assert!(found.penalty > 1.0 - 1e-9 && found.penalty <= f64::from(copies) + 1e-9);
        prop_assert!(found.slowest.latency_ns_p99 >= found.single.latency_ns_p99);
    }

    #[test]
    fn no_counts_make_it_panic(
        counts in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        copies in any::<u32>(), a in any::<f64>(), b in any::<f64>(),
    ) {
        let counts: Vec<LatencyCount> = counts
            .into_iter()
            .map(|(latency_ns, count)| LatencyCount { latency_ns, count })
            .collect();
        let _ = predict(&counts, copies);
        let _ = compare_with_prediction(&counts, &counts, 2);
        let _ = penalty(a, b, copies);
    }
}
