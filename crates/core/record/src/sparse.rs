//! A recorded histogram as it is handed on: the buckets that have a count, and no others.
//!
//! [`SparseHistogram`] takes some hundred bytes where a full one takes and clears 264 KiB. Exact
//! counts and bounds are in [`crate::Latency`].

use hdrhistogram::Histogram;

use crate::LatencyHistogram;
use crate::bucket_counts::{BUCKETS, bucket_of, highest_of, lowest_of};

/// Latencies in the bucket layout of every histogram of a record, 1 ns to 1 h with three significant
/// digits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseHistogram {
    /// Bucket and count, in rising order; no count is 0.
    buckets: Vec<(u16, u64)>,
}

impl SparseHistogram {
    /// Appends a bucket above all others; false if the bucket does not exist.
    pub(crate) fn push(&mut self, bucket: usize, count: u64) -> bool {
        debug_assert!(self.buckets.last().is_none_or(|last| usize::from(last.0) < bucket));
        match u16::try_from(bucket) {
            Ok(place) if bucket < BUCKETS => self.buckets.push((place, count)),
            _ => return false,
        }
        true
    }

    /// Adds counts of buckets, in rising order.
    // In one pass: to insert them one by one moves all above each.
    pub(crate) fn add(&mut self, rising: impl ExactSizeIterator<Item = (u16, u64)>) {
        let mut merged = Vec::with_capacity(self.buckets.len() + rising.len());
        let mut before = std::mem::take(&mut self.buckets).into_iter().peekable();
        for (bucket, count) in rising {
            while let Some(lower) = before.next_if(|counted| counted.0 < bucket) {
                merged.push(lower);
            }
            let same = before.next_if(|counted| counted.0 == bucket).map_or(0, |counted| counted.1);
            merged.push((bucket, same.saturating_add(count)));
        }
        merged.extend(before);
        self.buckets = merged;
    }

    /// Adds the counts of another.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.add(other.buckets.iter().copied());
    }

    /// The counts of a full histogram.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let mut sparse = Self::default();
        let mut missing = histogram.len();
        // From the smallest to where all are found: most of 33,792 buckets are empty.
        for bucket in bucket_of(histogram.min()).min(BUCKETS)..BUCKETS {
            if missing == 0 {
                break;
            }
            let count = histogram.count_at(lowest_of(bucket));
            if count > 0 {
                sparse.push(bucket, count);
                missing = missing.saturating_sub(count);
            }
        }
        sparse.buckets.shrink_to_fit();
        sparse
    }

    /// How many latencies there are; saturates.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.1))
    }

    /// Smallest and largest latency of a bucket in nanoseconds, and its count; in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let bounds = |&(bucket, count): &(u16, u64)| {
            (lowest_of(bucket.into()), highest_of(bucket.into()), count)
        };
        self.buckets.iter().map(bounds)
    }

    /// The latency in nanoseconds at or below which this share of them lies, 0 to 1, as
    /// HdrHistogram has it: the largest of the bucket, and of quantile 0 the smallest. 0 if empty.
    #[must_use]
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "as the crate for full histograms counts")]
        let wanted = (quantile.min(1.0) * self.count() as f64).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "`as` saturates, and the quantile of a nonsense share is the smallest"
        )]
        let wanted = (wanted as u64).max(1);
        let mut below = 0_u64;
        let reached = self.buckets.iter().find(|bucket| {
            below = below.saturating_add(bucket.1);
            below >= wanted
        });
        // Rounding may ask for one more than there are.
        match reached.or(self.buckets.last()) {
            None => 0,
            Some(&(bucket, _)) if quantile == 0.0 => lowest_of(bucket.into()),
            Some(&(bucket, _)) => highest_of(bucket.into()),
        }
    }

    /// Counts everything in `total`'s histogram; its exact side is not touched.
    pub(crate) fn count_in(&self, total: &mut LatencyHistogram) {
        for &(bucket, count) in &self.buckets {
            total.record_bucket(lowest_of(bucket.into()), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::LATENCY_NS_MAX;

    fn full(values: &[u64]) -> LatencyHistogram {
        let mut latency = LatencyHistogram::new();
        values.iter().for_each(|&value| latency.record(value));
        latency
    }

    fn check(values: &[u64]) {
        let full = full(values);
        let sparse = SparseHistogram::of(full.histogram());
        assert_eq!(sparse.count(), full.histogram().len());
        let mut again = LatencyHistogram::new();
        sparse.count_in(&mut again);
        assert_eq!(again.histogram(), full.histogram());
        for quantile in [0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.9999, 1.0, 2.0] {
            let expected = full.histogram().value_at_quantile(quantile);
            assert_eq!(sparse.value_at_quantile(quantile), expected, "{quantile} of {values:?}");
        }
    }

    #[test]
    fn the_ends_of_the_scale_are_where_they_are_in_the_full_one() {
        check(&[]);
        check(&[0]);
        check(&[0, 1, 2047, 2048, LATENCY_NS_MAX, 4_398_046_511_103, u64::MAX]);
    }

    #[test]
    fn a_bucket_beyond_the_last_is_refused() {
        let mut sparse = SparseHistogram::default();
        assert!(sparse.push(BUCKETS - 1, 1));
        for bucket in [BUCKETS, 1 << 16, usize::MAX] {
            assert!(!sparse.push(bucket, 1));
        }
        assert_eq!(sparse.count(), 1);
    }

    proptest! {
        #[test]
        fn every_figure_is_that_of_the_full_histogram(
            wide in prop::collection::vec(0_u64..5_000_000_000_000, 0..60),
            narrow in prop::collection::vec(90_000_u64..110_000, 0..60),
        ) {
            check(&wide);
            check(&[wide, narrow].concat());
        }
    }

    #[test]
    fn buckets_are_told_with_both_ends_and_their_counts() {
        let mut latency = LatencyHistogram::new();
        for (value, times) in [(0, 2), (2047, 3), (2049, 4), (10_001, 5)] {
            (0..times).for_each(|_| latency.record(value));
        }
        let sparse = SparseHistogram::of(latency.histogram());
        let buckets: Vec<_> = sparse.buckets().collect();
        assert_eq!(buckets, [(0, 0, 2), (2047, 2047, 3), (2048, 2049, 4), (10_000, 10_007, 5)]);
        assert_eq!(sparse.count(), 14);
        let at = [0.0, 2.0 / 14.0, 0.15, 5.0 / 14.0, 0.5, 9.0 / 14.0, 0.65, 1.0];
        let expected = [0, 0, 2047, 2047, 2049, 2049, 10_007, 10_007];
        assert_eq!(at.map(|quantile| sparse.value_at_quantile(quantile)), expected);
    }

    #[test]
    fn counts_are_added_bucket_by_bucket_in_order() {
        let of = |buckets: &[(u16, u64)]| SparseHistogram { buckets: buckets.to_vec() };
        let added = |to: &[(u16, u64)], more: &[(u16, u64)]| {
            let mut sum = of(to);
            sum.add(more.iter().copied());
            sum.buckets
        };
        assert_eq!(added(&[], &[(3, 1), (9, 2)]), [(3, 1), (9, 2)]);
        assert_eq!(added(&[(3, 1), (9, 2)], &[]), [(3, 1), (9, 2)]);
        let sum = added(&[(1, 1), (3, 2), (9, 4)], &[(0, 8), (3, 16), (4, 32), (10, 64)]);
        assert_eq!(sum, [(0, 8), (1, 1), (3, 18), (4, 32), (9, 4), (10, 64)]);
        assert_eq!(added(&[(3, u64::MAX)], &[(3, 1)]), [(3, u64::MAX)]);
    }
}
