//! fio's latency histogram: its buckets, its percentiles bit for bit, sparse counts.
//!
//! Built from latencies or from bins as fio prints them, with a compact form for the run record.
//! durio's own histogram is finer. The layout is that of `FIO_IO_U_PLAT_*` in fio's stat.h,
//! unchanged since fio 3.0: 29 groups of 64 buckets; exact below 128 ns, then 64 buckets per
//! doubling, the last one open.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::FioError;

/// How many bits of a value choose its bucket in a group.
const BUCKET_BITS: u32 = 6;
const GROUP_BUCKETS: u16 = 1 << BUCKET_BITS;
/// How many buckets there are.
pub const BUCKETS: u16 = 29 * GROUP_BUCKETS;

/// The bucket of a latency, 0 to 1855; all from 2^34 ns (17.2 s) share the last one.
pub fn bucket(latency_ns: u64) -> u16 {
    let dropped_bits = latency_ns.checked_ilog2().unwrap_or(0).saturating_sub(BUCKET_BITS);
    // With d dropped bits the value is 64..=127 shifted by d: group d + 1, or group 0 and 1 exactly.
    let bucket = (u64::from(dropped_bits) << BUCKET_BITS) + (latency_ns >> dropped_bits);
    u16::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// The latency in ns that fio prints for a bucket: its middle; `None` from 1856.
pub fn middle_ns(bucket: u16) -> Option<u64> {
    if bucket >= BUCKETS {
        return None;
    }
    let dropped_bits = (bucket >> BUCKET_BITS).saturating_sub(1);
    let first = u64::from(bucket - (dropped_bits << BUCKET_BITS)) << dropped_bits;
    Some(first + ((1 << dropped_bits) >> 1))
}

/// Counts per bucket of fio's histogram, without the empty ones.
///
/// Saved as a list of `[bucket, count]` in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u16, u64)>", into = "Vec<(u16, u64)>")]
pub struct FioBins {
    counts: BTreeMap<u16, u64>,
}

impl FioBins {
    /// Counts `count` latencies of `latency_ns`; counts stay at `u64::MAX` when they reach it.
    pub fn add(&mut self, latency_ns: u64, count: u64) {
        self.add_to(bucket(latency_ns), count);
    }

    /// Counts all of `other` too, as fio does for the jobs of a group.
    pub fn merge(&mut self, other: &Self) {
        for (&bucket, &count) in &other.counts {
            self.add_to(bucket, count);
        }
    }

    /// From `(middle in ns, count)` as in `bins` of json+, in any order.
    ///
    /// # Errors
    /// For a value that is not the middle of a bucket.
    pub fn from_middles(bins: impl IntoIterator<Item = (u64, u64)>) -> Result<Self, FioError> {
        let mut found = Self::default();
        for (value_ns, count) in bins {
            found.add_middle(value_ns, count)?;
        }
        Ok(found)
    }

    /// Counts `count` more in the bucket whose middle is `value_ns`.
    ///
    /// # Errors
    /// If no bucket has this middle.
    pub fn add_middle(&mut self, value_ns: u64, count: u64) -> Result<(), FioError> {
        let bucket = bucket(value_ns);
        if middle_ns(bucket) != Some(value_ns) {
            let what = format!("{value_ns} ns is not the middle of a bucket of fio's histogram");
            return Err(FioError::Other(what));
        }
        self.add_to(bucket, count);
        Ok(())
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many latencies were counted; `u64::MAX` if more.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |total, &count| total.saturating_add(count))
    }

    /// The middle of each bucket in ns with its count, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts
            .iter()
            .filter_map(|(&bucket, &count)| middle_ns(bucket).map(|middle| (middle, count)))
    }

    /// Each bucket with its count, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.counts.iter().map(|(&bucket, &count)| (bucket, count))
    }

    /// The percentile as fio prints it, in ns: the middle of the first bucket at which the counts so
    /// far reach `percent` / 100 × total, computed as fio does on x86-64 (`calc_clat_percentiles`
    /// in fio's stat.c). It may exceed the largest latency, as fio's does. `None` if nothing was
    /// counted, or unless 0 < `percent` <= 100.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        // Written so that NaN is refused too.
        if !(percent > 0.0 && percent <= 100.0) {
            return None;
        }
        let per_percent = ExtendedFloat::HUNDREDTH.times(ExtendedFloat::from_count(self.total()));
        let needed = per_percent.times(ExtendedFloat::from_double(percent)).ceiling();
        // Compared as whole numbers: the count that is needed was rounded as fio rounds it.
        let mut so_far = 0_u64;
        self.iter().find_map(|(middle, count)| {
            so_far = so_far.saturating_add(count);
            (u128::from(so_far) >= needed).then_some(middle)
        })
    }

    fn add_to(&mut self, bucket: u16, count: u64) {
        if count > 0 {
            let old = self.counts.entry(bucket).or_default();
            *old = old.saturating_add(count);
        }
    }
}

impl From<FioBins> for Vec<(u16, u64)> {
    fn from(bins: FioBins) -> Self {
        bins.counts.into_iter().collect()
    }
}

impl TryFrom<Vec<(u16, u64)>> for FioBins {
    type Error = FioError;

    /// # Errors
    /// If buckets do not ascend or exceed 1855, or if a count is 0.
    fn try_from(pairs: Vec<(u16, u64)>) -> Result<Self, FioError> {
        let wrong = |what: String| Err(FioError::Other(format!("bins of fio's histogram: {what}")));
        if let Some((bucket, _)) = pairs.iter().find(|&&(bucket, _)| bucket >= BUCKETS) {
            return wrong(format!("bucket {bucket} is past the last one, {}", BUCKETS - 1));
        }
        // Empty buckets are never saved, so one was changed.
        if let Some((bucket, _)) = pairs.iter().find(|&&(_, count)| count == 0) {
            return wrong(format!("bucket {bucket} has no count"));
        }
        if !pairs.is_sorted_by(|(earlier, _), (later, _)| earlier < later) {
            return wrong("the buckets do not ascend".to_owned());
        }
        Ok(Self { counts: pairs.into_iter().collect() })
    }
}

/// The few operations of x86's extended floating point with which fio finds a percentile: `mantissa` ×
/// 2^`exponent`, the mantissa's highest bit set unless the value is 0.
// fio's source says `(long double) percent / 100.0 * count`; its Makefile has it compiled with
// `-ffast-math`, and so fio computes (count × 0.01) × percent, with 64 bits of mantissa, rounded to
// nearest, ties to even (seen in the machine code of Debian's fio 3.33 and of fio 3.42 built with gcc).
// Doubles do not do: 14 % of 50 samples are 8 samples in doubles, and 7 in fio. On other machines
// `long double` may differ where a percentage falls on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExtendedFloat {
    mantissa: u64,
    exponent: i32,
}

impl ExtendedFloat {
    /// A hundredth, rounded to 64 bits.
    const HUNDREDTH: Self = Self { mantissa: 0xa3d7_0a3d_70a3_d70a, exponent: -70 };

    /// The value of a positive finite double, exactly.
    fn from_double(value: f64) -> Self {
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let stored = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0);
        let (mantissa, exponent) = match stored {
            0 => (fraction, -1074),
            stored => (fraction | (1 << 52), stored - 1075),
        };
        Self::rounded(mantissa.into(), exponent)
    }

    fn from_count(value: u64) -> Self {
        Self::rounded(value.into(), 0)
    }

    fn times(self, factor: Self) -> Self {
        let product = u128::from(self.mantissa) * u128::from(factor.mantissa);
        Self::rounded(product, self.exponent.saturating_add(factor.exponent))
    }

    /// The smallest whole number that is not below the value; `u128::MAX` if that has more bits.
    fn ceiling(self) -> u128 {
        let mantissa = u128::from(self.mantissa);
        let places = self.exponent.unsigned_abs();
        if mantissa == 0 {
            0
        } else if self.exponent < 0 {
            // 64 places down to nothing: a positive value below 1.
            if places >= 64 { 1 } else { mantissa.div_ceil(1 << places) }
        } else if places < 64 {
            mantissa << places
        } else {
            u128::MAX
        }
    }

    /// `value` × 2^`exponent` to 64 bits.
    fn rounded(value: u128, exponent: i32) -> Self {
        let bits = 128 - value.leading_zeros();
        let Some(surplus) = bits.checked_sub(64).filter(|&surplus| surplus > 0) else {
            return Self::shifted_up(value, 64 - bits, exponent);
        };
        let (kept, half) = (value >> surplus, 1_u128 << (surplus - 1));
        let rest = value & ((1 << surplus) - 1);
        // Ties go to even, as the processor rounds.
        let up = rest > half || (rest == half && kept & 1 == 1);
        let exponent = exponent.saturating_add_unsigned(surplus);
        match u64::try_from(kept + u128::from(up)) {
            Ok(mantissa) => Self { mantissa, exponent },
            Err(_) => Self { mantissa: 1 << 63, exponent: exponent + 1 },
        }
    }

    fn shifted_up(value: u128, places: u32, exponent: i32) -> Self {
        let mantissa = u64::try_from(value << (places % 64)).unwrap_or(u64::MAX);
        Self { mantissa, exponent: exponent.saturating_sub_unsigned(places % 64) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bins(pairs: &[(u64, u64)]) -> FioBins {
        FioBins::from_middles(pairs.iter().copied()).unwrap()
    }

    #[test]
    fn buckets_are_those_of_fio_s_table() {
        let known =
            [(0, 0), (127, 127), (128, 128), (129, 128), (130, 129), (255, 191), (256, 192)];
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
        let said = "8161 ns is not the middle of a bucket of fio's histogram";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn the_percentile_is_the_bucket_where_the_share_is_reached() {
        let bins = bins(&[(10, 1), (20, 1), (30, 1), (40, 1)]);
        for (percent, expected) in [(1.0, 10), (25.0, 10), (25.1, 20), (50.0, 20), (100.0, 40)] {
            assert_eq!(bins.percentile_ns(percent), Some(expected), "{percent}");
        }
        let unordered = FioBins::from_middles([(10_048, 3), (8_160, 1)]).unwrap();
        assert_eq!(unordered.percentile_ns(50.0), Some(10_048));
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
}
