//! Latencies of many operations: a histogram, and the exact values that it cannot keep.
//!
//! A histogram has only the buckets with a count: some hundred bytes where a full one takes and
//! clears 264 KiB, so a step can have thousands of jobs. Its layout is that of HdrHistogram; the
//! measured loop counts in the same one, densely (durio-run).

use serde::{Deserialize, Serialize};

/// The largest latency that a histogram resolves: 1 h.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of every histogram.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Buckets of the same width per power of two: the next power of two above 2 × 10³, for three
/// significant digits.
const SUB_BUCKETS: u64 = 2048;

/// log2 of half of them: the upper half of each power's sub-buckets is its own.
const HALF_MAGNITUDE: u32 = 10;

/// The exact side of a set of latencies, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exact {
    pub count: u64,
    pub sum_ns: u64,
    /// The smallest; 0 without latencies.
    pub min_ns: u64,
    /// The largest; 0 without latencies.
    pub max_ns: u64,
}

impl Exact {
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        // Without a latency it is 0, which no later one would get below.
        self.min_ns = if self.count == 0 { nanos } else { self.min_ns.min(nanos) };
        self.max_ns = self.max_ns.max(nanos);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(nanos);
    }

    /// Takes all latencies of `other`.
    pub fn add(&mut self, other: &Self) {
        // Its smallest is 0, and would become that of all.
        if other.count == 0 {
            return;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// The mean in nanoseconds; `None` without a latency.
    #[expect(clippy::cast_precision_loss, reason = "a mean is a quotient")]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// Latencies in the bucket layout of every histogram of a record, 1 ns to 1 h with three significant
/// digits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseHistogram {
    /// Bucket and count, in rising order; no count is 0.
    buckets: Vec<(u16, u64)>,
}

impl SparseHistogram {
    /// Buckets up to [`LATENCY_NS_MAX`]: 2048 << 31 ns is the first power above it.
    pub const BUCKETS: usize = 33 << HALF_MAGNITUDE;

    /// The bucket that counts a latency; one beyond the last bucket (73 minutes) counts as 1 h, as
    /// HdrHistogram's saturating record does.
    #[inline(always)]
    pub fn bucket_of(nanos: u64) -> usize {
        let bucket = unbounded_bucket(nanos);
        if bucket < Self::BUCKETS { bucket } else { unbounded_bucket(LATENCY_NS_MAX) }
    }

    /// Appends a bucket above all others; false if the bucket does not exist.
    pub(crate) fn push(&mut self, bucket: usize, count: u64) -> bool {
        debug_assert!(self.buckets.last().is_none_or(|last| usize::from(last.0) < bucket));
        match u16::try_from(bucket) {
            Ok(place) if bucket < Self::BUCKETS => self.buckets.push((place, count)),
            _ => return false,
        }
        true
    }

    /// Adds counts of buckets, none 0, in rising order.
    fn add(&mut self, rising: impl IntoIterator<Item = (u16, u64)>) {
        // A sum of many intervals soon has nearly every bucket: its counts are raised in place.
        let known = self.buckets.len();
        let mut above = 0;
        for (bucket, count) in rising {
            let rest = &self.buckets[above..known];
            // Neighbours lie close together: the search doubles its reach from the last one.
            let mut reach = 1;
            while rest.get(reach - 1).is_some_and(|known| known.0 < bucket) {
                reach *= 2;
            }
            let (from, to) = (reach / 2, reach.min(rest.len()));
            match rest[from..to].binary_search_by_key(&bucket, |known| known.0) {
                Ok(place) => {
                    above += from + place + 1;
                    let sum = &mut self.buckets[above - 1].1;
                    *sum = sum.saturating_add(count);
                }
                Err(place) => {
                    above += from + place;
                    self.buckets.push((bucket, count));
                }
            }
        }
        if self.buckets.len() > known {
            // The stable sort merges two runs in linear time.
            self.buckets.sort_by_key(|bucket| bucket.0);
        }
    }

    /// How many latencies there are; saturates.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.1))
    }

    /// How many latencies lie in buckets up to that of `nanos`; saturates.
    pub fn count_up_to(&self, nanos: u64) -> u64 {
        let last = unbounded_bucket(nanos);
        let counted = self.buckets.iter().take_while(|bucket| usize::from(bucket.0) <= last);
        counted.fold(0, |sum, bucket| sum.saturating_add(bucket.1))
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
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "counts as the full-histogram crate does")]
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
}

/// The bucket of a value; [`SparseHistogram::BUCKETS`] or more for values beyond the last.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 55 << 10, from 64 bits of value")]
fn unbounded_bucket(nanos: u64) -> usize {
    let magnitude = (nanos | (SUB_BUCKETS - 1)).ilog2() - HALF_MAGNITUDE;
    let within = nanos >> magnitude;
    // The first power of two fills 2048 buckets, every further one 1024 more.
    ((u64::from(magnitude) << HALF_MAGNITUDE) + within) as usize
}

/// The smallest value of a bucket.
pub(crate) fn lowest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB_BUCKETS {
        return bucket;
    }
    let magnitude = (bucket >> HALF_MAGNITUDE) - 1;
    (bucket - (magnitude << HALF_MAGNITUDE)) << magnitude
}

/// The largest value of a bucket.
fn highest_of(bucket: usize) -> u64 {
    lowest_of(bucket + 1) - 1
}

/// The latencies of an event, or of many. On disk the histogram is an entry of the histogram log,
/// found by its tag; an empty set of latencies has none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Count, sum, smallest and largest.
    #[serde(flatten)]
    pub exact: Exact,
    /// Tag of the entry in the histogram log.
    #[serde(rename = "histogram", default, skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
    #[serde(skip)]
    pub(crate) histogram: Option<SparseHistogram>,
}

impl Latency {
    /// The histogram; none without latencies, or if the record lost it.
    pub fn histogram(&self) -> Option<&SparseHistogram> {
        self.histogram.as_ref()
    }

    /// The tag of the histogram's entry in the log; none before it is written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn record(&mut self, nanos: u64) {
        self.exact.record(nanos);
        self.count_in_bucket(nanos, 1);
    }

    /// Takes all latencies of `other`, unless the record lost their histogram: percentiles would
    /// be of others than the count.
    pub fn add(&mut self, other: &Self) {
        if let Some(histogram) = &other.histogram {
            self.add_counted(&other.exact, histogram.buckets.iter().copied());
        }
    }

    /// Takes the latencies of a histogram; what is exact of them is known already.
    pub fn add_histogram(&mut self, histogram: &SparseHistogram) {
        self.histogram.get_or_insert_default().add(histogram.buckets.iter().copied());
    }

    /// Takes latencies that were counted elsewhere: their exact side, and the counts of their
    /// buckets ([`SparseHistogram::bucket_of`]), none 0, in rising order.
    pub fn add_counted(&mut self, exact: &Exact, rising: impl IntoIterator<Item = (u16, u64)>) {
        self.exact.add(exact);
        self.histogram.get_or_insert_default().add(rising);
    }

    /// Latencies of which only `exact` is exact, and `counts` says how many are about as long as a
    /// value in nanoseconds.
    pub fn about(exact: Exact, counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        if exact.count == 0 {
            return Self::default();
        }
        let mut latency = Self { exact, tag: None, histogram: Some(SparseHistogram::default()) };
        for (nanos, count) in counts {
            latency.count_in_bucket(nanos, count);
        }
        latency
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are 33,792 buckets")]
    fn count_in_bucket(&mut self, nanos: u64, count: u64) {
        let bucket = SparseHistogram::bucket_of(nanos) as u16;
        self.histogram.get_or_insert_default().add((count > 0).then_some((bucket, count)));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    const BUCKETS: usize = SparseHistogram::BUCKETS;

    /// HdrHistogram's own, with values and how often each is in it.
    pub(crate) fn full(values: &[(u64, u64)]) -> Histogram<u64> {
        let mut full = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).unwrap();
        values.iter().for_each(|&(value, times)| full.saturating_record_n(value, times));
        full
    }

    /// The same counts, bucket by bucket, as HdrHistogram gives them.
    pub(crate) fn sparse(full: &Histogram<u64>) -> SparseHistogram {
        let mut sparse = SparseHistogram::default();
        for bucket in 0..BUCKETS {
            let count = full.count_at(lowest_of(bucket));
            assert!(count == 0 || sparse.push(bucket, count));
        }
        sparse
    }

    fn latency(values: &[u64]) -> Latency {
        let mut latency = Latency::default();
        values.iter().for_each(|&value| latency.record(value));
        latency
    }

    fn check(values: &[u64]) {
        let counted: Vec<_> = values.iter().map(|&value| (value, 1)).collect();
        let full = full(&counted);
        let found = latency(values).histogram.unwrap_or_default();
        assert_eq!(found, sparse(&full), "{values:?}");
        assert_eq!(found.count(), full.len());
        for quantile in [0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.9999, 1.0, 2.0] {
            let expected = full.value_at_quantile(quantile);
            assert_eq!(found.value_at_quantile(quantile), expected, "{quantile} of {values:?}");
        }
        for &value in values {
            assert_eq!(found.count_up_to(value), full.count_between(0, value), "{value}");
        }
    }

    #[test]
    fn the_ends_of_the_scale_are_where_they_are_in_the_full_one() {
        check(&[]);
        check(&[0]);
        check(&[0, 1, 2047, 2048, LATENCY_NS_MAX, 4_398_046_511_103, u64::MAX]);
        check(&[0, LATENCY_NS_MAX - 1, LATENCY_NS_MAX, LATENCY_NS_MAX + 1, 1 << 60]);
    }

    #[test]
    fn the_layout_is_the_crates_around_every_power_of_two() {
        let powers = (0..58).map(|power| 1_u64 << power);
        for power in powers {
            check(&[power - 1, power, power + 1, power + power / 3]);
        }
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
            small in prop::collection::vec(0_u64..5000, 0..60),
        ) {
            check(&wide);
            check(&small);
            check(&[wide, narrow].concat());
        }
    }

    #[test]
    fn buckets_are_told_with_both_ends_and_their_counts() {
        let mut all = Latency::default();
        for (value, times) in [(0, 2), (2047, 3), (2049, 4), (10_001, 5)] {
            (0..times).for_each(|_| all.record(value));
        }
        let sparse = all.histogram().unwrap();
        let buckets: Vec<_> = sparse.buckets().collect();
        assert_eq!(buckets, [(0, 0, 2), (2047, 2047, 3), (2048, 2049, 4), (10_000, 10_007, 5)]);
        assert_eq!(sparse.count(), 14);
        let at = [0.0, 2.0 / 14.0, 0.15, 5.0 / 14.0, 0.5, 9.0 / 14.0, 0.65, 1.0];
        let expected = [0, 0, 2047, 2047, 2049, 2049, 10_007, 10_007];
        assert_eq!(at.map(|quantile| sparse.value_at_quantile(quantile)), expected);
        let up_to = [0, 2046, 2047, 2048, 9_999, 10_000, u64::MAX];
        assert_eq!(up_to.map(|nanos| sparse.count_up_to(nanos)), [2, 2, 5, 9, 9, 14, 14]);
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
        assert_eq!(added(&[(3, 1), (9, 2)], &[(3, 4), (9, 8)]), [(3, 5), (9, 10)]);
    }

    #[test]
    fn the_exact_side_is_exact_where_the_histogram_is_not() {
        let latency = latency(&[1_234_567, 999, 1_000_003]);
        let exact = Exact { count: 3, sum_ns: 2_235_569, min_ns: 999, max_ns: 1_234_567 };
        assert_eq!(latency.exact, exact);
        let highest = latency.histogram().unwrap().value_at_quantile(1.0);
        assert!(highest > 1_234_567, "a bucket's edge");
    }

    #[test]
    fn latencies_beyond_an_hour_are_counted_and_the_exact_maximum_kept() {
        let latency = latency(&[2 * LATENCY_NS_MAX, 0]);
        assert_eq!(latency.exact.max_ns, 2 * LATENCY_NS_MAX);
        assert_eq!(latency.histogram().unwrap().count(), 2);
    }

    #[test]
    fn sums_of_parts_equal_the_whole() {
        let squares: Vec<u64> = (1..1000).map(|number| number * number).collect();
        let (even, odd): (Vec<_>, Vec<_>) = squares.iter().partition(|square| *square % 2 == 0);
        let mut sum = latency(&even);
        sum.add(&latency(&odd));
        assert_eq!(sum, latency(&squares));
        let mut nothing = Latency::default();
        nothing.add(&Latency::default());
        assert_eq!(nothing, Latency::default());
        // The record lost the histogram of these.
        nothing.add(&Latency { histogram: None, ..sum });
        assert_eq!(nothing, Latency::default());
    }

    #[test]
    fn sparse_latencies_add_up_to_what_full_ones_do() {
        let parts = [&[900, 5_000_000, 7][..], &[], &[7, 42_000, u64::MAX]];
        let (mut sum, mut whole) = (Latency::default(), full(&[]));
        for part in parts {
            sum.add(&latency(part));
            part.iter().for_each(|&nanos| whole.saturating_record(nanos));
        }
        assert_eq!(sum.histogram(), Some(&sparse(&whole)));
        assert_eq!((sum.exact.count, sum.exact.min_ns), (6, 7));
    }

    #[test]
    fn a_mean_is_the_sum_by_the_number_and_none_without_one() {
        let of = |values: &[u64]| {
            let mut exact = Exact::default();
            values.iter().for_each(|&nanos| exact.record(nanos));
            exact
        };
        assert_eq!(of(&[]).mean_ns(), None);
        assert_eq!(of(&[7]).mean_ns(), Some(7.0));
        assert_eq!(of(&[10, 15, 20, 45]).mean_ns(), Some(22.5));
        // Nothing is added to nothing, and nothing to something.
        let mut sum = Exact::default();
        sum.add(&Exact::default());
        assert_eq!(sum, Exact::default());
        sum.add(&of(&[5, 9]));
        sum.add(&Exact::default());
        assert_eq!(sum, Exact { count: 2, sum_ns: 14, min_ns: 5, max_ns: 9 });
        sum.add(&of(&[3]));
        assert_eq!(sum, Exact { count: 3, sum_ns: 17, min_ns: 3, max_ns: 9 });
        sum.record(2);
        assert_eq!((sum.min_ns, sum.max_ns, sum.mean_ns()), (2, 9, Some(4.75)));
        // The least is not that of the last.
        sum.add(&of(&[8, 40]));
        assert_eq!(sum, Exact { count: 6, sum_ns: 67, min_ns: 2, max_ns: 40 });
    }

    #[test]
    fn a_set_has_a_histogram_if_it_has_a_latency() {
        assert_eq!(Latency::about(Exact::default(), [(5, 1)]), Latency::default());
        let exact = latency(&[1000]).exact;
        let latency = Latency::about(exact, [(5000, 2), (70, 0), (1000, 1)]);
        let buckets: Vec<_> = latency.histogram().unwrap().buckets().collect();
        assert_eq!((latency.exact.count, latency.histogram().unwrap().count()), (1, 3));
        assert_eq!(buckets, [(1000, 1000, 1), (5000, 5003, 2)]);
        let mut total = Latency::default();
        total.add(&latency);
        assert_eq!(total, latency);
        assert_eq!(Latency::about(exact, []).histogram().map(SparseHistogram::count), Some(0));
    }

    #[test]
    fn histograms_have_three_digits_up_to_an_hour() {
        assert_eq!((LATENCY_NS_MAX, SIGNIFICANT_DIGITS), (3_600_000_000_000, 3));
    }
}
