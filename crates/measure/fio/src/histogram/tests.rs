//! Tests of fio's histogram: published figures, and properties over all buckets.

use proptest::prelude::*;

use super::*;

fn bins(pairs: &[(u64, u64)]) -> FioBins {
    FioBins::from_middles(pairs.iter().copied()).unwrap()
}

#[test]
fn buckets_are_those_of_fio_s_table() {
    let known = [(0, 0), (127, 127), (128, 128), (129, 128), (130, 129), (255, 191), (256, 192)];
    for (latency, expected) in known {
        assert_eq!(bucket(latency), expected, "{latency}");
    }
    assert_eq!(bucket((1 << 34) - 1), 1855);
    assert_eq!(bucket(1 << 34), 1855);
    assert_eq!(bucket(u64::MAX), 1855);
}

#[test]
fn the_last_middle_is_the_one_that_fio_prints_for_all_above_17_s() {
    assert_eq!(middle_ns(1855), Some(17_112_760_320));
    assert_eq!(middle_ns(1856), None);
}

#[test]
fn every_middle_finds_its_bucket() {
    for index in 0..BUCKETS {
        assert_eq!(bucket(middle_ns(index).unwrap()), index);
    }
}

#[test]
fn a_value_that_is_no_middle_is_refused() {
    let error = FioBins::from_middles([(8_161, 1)]).unwrap_err();
    assert!(matches!(error, FioError::NotABucket { value_ns: 8_161 }));
}

#[test]
fn the_percentile_is_the_bucket_where_the_share_is_reached() {
    let bins = bins(&[(10, 1), (20, 1), (30, 1), (40, 1)]);
    for (percent, expected) in [(1.0, 10), (25.0, 10), (25.1, 20), (50.0, 20), (100.0, 40)] {
        assert_eq!(bins.percentile_ns(percent), Some(expected), "{percent}");
    }
}

#[test]
fn there_is_no_percentile_of_nothing_nor_beyond_100() {
    assert_eq!(FioBins::default().percentile_ns(50.0), None);
    for percent in [0.0, -1.0, 100.1, f64::NAN, f64::INFINITY] {
        assert_eq!(bins(&[(10, 1)]).percentile_ns(percent), None, "{percent}");
    }
}

#[test]
fn the_saved_form_is_a_list_of_pairs() {
    let text = serde_json::to_string(&bins(&[(20, 2), (10, 1)])).unwrap();
    assert_eq!(text, "[[10,1],[20,2]]");
}

#[test]
fn saved_bins_that_no_histogram_has_are_refused() {
    for (text, why) in [
        ("[[1856,1]]", "past the last one"),
        ("[[2,1],[1,1]]", "do not ascend"),
        ("[[1,1],[1,1]]", "do not ascend"),
        ("[[1,0]]", "has no count"),
    ] {
        let error = serde_json::from_str::<FioBins>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn counts_stay_at_their_limit() {
    let mut sum = bins(&[(10, u64::MAX), (20, 7)]);
    sum.merge(&sum.clone());
    assert_eq!(sum.total(), u64::MAX);
    assert_eq!(sum.percentile_ns(100.0), Some(10));
}

proptest! {
    #[test]
    fn the_middle_is_within_a_128th_of_every_latency_below_17_s(latency in 0_u64..(1 << 34)) {
        let middle = middle_ns(bucket(latency)).unwrap();
        prop_assert!(middle.abs_diff(latency) * 128 <= latency, "{} {}", latency, middle);
    }

    #[test]
    fn a_larger_latency_has_no_smaller_bucket(one: u64, other: u64) {
        prop_assert_eq!(bucket(one).cmp(&bucket(other)).then(one.cmp(&other)), one.cmp(&other));
    }

    #[test]
    fn saved_and_read_again_it_is_the_same(latencies: Vec<(u64, u32)>) {
        let mut bins = FioBins::default();
        latencies.iter().for_each(|&(latency, count)| bins.add(latency, count.into()));
        let text = serde_json::to_string(&bins).unwrap();
        prop_assert_eq!(&serde_json::from_str::<FioBins>(&text).unwrap(), &bins);
        prop_assert_eq!(FioBins::from_middles(bins.iter()).unwrap(), bins);
    }

    #[test]
    fn merging_is_counting_both(left: Vec<u64>, right: Vec<u64>) {
        let of = |values: &[u64]| {
            let mut bins = FioBins::default();
            values.iter().for_each(|&value| bins.add(value, 1));
            bins
        };
        let mut sum = of(&left);
        sum.merge(&of(&right));
        prop_assert_eq!(sum, of(&[left, right].concat()));
    }

    #[test]
    fn percentiles_never_fall(latencies in prop::collection::vec(any::<u64>(), 1..50),
                              low in 0.001_f64..100.0, high in 0.001_f64..100.0) {
        let mut bins = FioBins::default();
        latencies.iter().for_each(|&latency| bins.add(latency, 1));
        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        prop_assert!(bins.percentile_ns(low).unwrap() <= bins.percentile_ns(high).unwrap());
    }
}

fn needed(percent: f64, total: u64) -> u128 {
    let count = ExtendedFloat::HUNDREDTH.times(ExtendedFloat::from_count(total));
    count.times(ExtendedFloat::from_double(percent)).ceiling()
}

#[test]
fn whole_shares_are_whole() {
    assert_eq!(needed(50.0, 200), 100);
    assert_eq!(needed(100.0, 1_000_000_007), 1_000_000_007);
    assert_eq!(needed(25.0, 4), 1);
    assert_eq!(needed(12.5, 17), 3);
}

#[test]
fn fourteen_percent_of_50_samples_are_7_as_in_fio_and_unlike_in_doubles() {
    assert_eq!((14.0_f64 / 100.0 * 50.0).ceil(), 8.0);
    assert_eq!(needed(14.0, 50), 7);
    assert_eq!((needed(30.0, 50), needed(30.0, 100)), (15, 30));
}

#[test]
fn known_answers_of_a_c_compiler_s_long_double() {
    // ceill(total * 0.01L * percent), gcc on x86-64.
    let known = [
        (88.81038698471436, 2_222_085_222_797_998_944, 1_973_442_485_497_055_047),
        (24.988070565833553, 208_851_156, 52_187_875),
    ];
    for (percent, total, expected) in known {
        assert_eq!(needed(percent, total), expected);
    }
}

#[test]
fn extremes_do_not_overflow() {
    assert_eq!(needed(f64::MIN_POSITIVE, 1), 1);
    assert_eq!(needed(f64::from_bits(1), u64::MAX), 1);
    assert_eq!(needed(1e-300, u64::MAX), 1);
    assert_eq!(needed(f64::MAX, u64::MAX), u128::MAX);
    assert_eq!(needed(50.0, 0), 0);
}

#[test]
fn the_hundredth_is_the_nearest_of_64_bits() {
    // 2^70 / 100 lies between two whole numbers of 64 bits.
    let (below, rest) = ((1_u128 << 70) / 100, (1_u128 << 70) % 100);
    assert!(rest < 50);
    assert_eq!(u128::from(ExtendedFloat::HUNDREDTH.mantissa), below);
}
