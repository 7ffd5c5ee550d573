//! Latencies of many operations: a histogram, and the exact values that it cannot keep.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::SparseHistogram;

/// The largest latency that a histogram resolves: 1 h.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of every histogram.
pub const SIGNIFICANT_DIGITS: u8 = 3;

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
    /// Takes one latency.
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
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean is a quotient")]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// A histogram of 1 ns to 1 h with three significant digits, and the exact side.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram {
    /// Count, sum, smallest and largest.
    pub exact: Exact,
    histogram: Histogram<u64>,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty one; allocates all of its 264 KiB.
    ///
    /// # Panics
    /// Never: the bounds are constants that the histogram accepts (a test makes one).
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("constant bounds");
        Self { exact: Exact::default(), histogram }
    }

    /// Takes one latency. A value beyond the last bucket (73 minutes) is counted as 1 h; the exact
    /// side stays exact.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.exact.record(nanos);
        self.histogram.saturating_record(nanos);
    }

    /// Counts `times` latencies of `nanos` in the histogram alone.
    pub fn record_bucket(&mut self, nanos: u64, times: u64) {
        self.histogram.saturating_record_n(nanos, times);
    }

    /// Takes all latencies of `other`.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Self) {
        if other.exact.count == 0 {
            return;
        }
        self.exact.add(&other.exact);
        self.histogram.add(&other.histogram).expect("equal bounds");
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        // The crate's reset writes all of 264 KiB, also of an empty one.
        if self.exact.count > 0 || !self.histogram.is_empty() {
            self.histogram.reset();
            self.exact = Exact::default();
        }
    }

    /// The histogram, for percentiles and serialisation.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }
}

/// The latencies of an event. On disk the histogram is an entry of the histogram log, found by its
/// tag; an empty set of latencies has none.
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

impl From<LatencyHistogram> for Latency {
    fn from(full: LatencyHistogram) -> Self {
        Self::from(&full)
    }
}

impl From<&LatencyHistogram> for Latency {
    fn from(full: &LatencyHistogram) -> Self {
        let exact = full.exact;
        let histogram = (exact.count > 0).then(|| SparseHistogram::of(full.histogram()));
        Self { exact, tag: None, histogram }
    }
}

impl Latency {
    /// The histogram; none without latencies, or if the record lost it.
    #[must_use]
    pub fn histogram(&self) -> Option<&SparseHistogram> {
        self.histogram.as_ref()
    }

    /// Takes all latencies of `other`; those whose histogram the record lost are left out.
    pub fn add(&mut self, other: &Self) {
        if let Some(histogram) = &other.histogram {
            self.exact.add(&other.exact);
            self.histogram.get_or_insert_default().add_all(histogram);
        }
    }

    /// Adds these latencies to `total`.
    pub fn add_to(&self, total: &mut LatencyHistogram) {
        if let Some(histogram) = &self.histogram {
            total.exact.add(&self.exact);
            histogram.count_in(total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_side_is_exact_where_the_histogram_is_not() {
        let mut latency = LatencyHistogram::new();
        for nanos in [1_234_567, 999, 1_000_003] {
            latency.record(nanos);
        }
        let exact = Exact { count: 3, sum_ns: 2_235_569, min_ns: 999, max_ns: 1_234_567 };
        assert_eq!(latency.exact, exact);
        assert!(latency.histogram().max() > 1_234_567, "a bucket's edge");
    }

    #[test]
    fn latencies_beyond_an_hour_are_counted_and_the_exact_maximum_kept() {
        let mut latency = LatencyHistogram::new();
        latency.record(2 * LATENCY_NS_MAX);
        latency.record(0);
        assert_eq!(latency.exact.max_ns, 2 * LATENCY_NS_MAX);
        assert_eq!(latency.histogram().len(), 2);
    }

    #[test]
    fn sums_of_parts_equal_the_whole() {
        let (mut whole, mut even, mut odd) = Default::default();
        fn take(latency: &mut LatencyHistogram, nanos: u64) {
            latency.record(nanos);
        }
        for nanos in 1..1000_u64 {
            take(&mut whole, nanos * nanos);
            take(if nanos % 2 == 0 { &mut even } else { &mut odd }, nanos * nanos);
        }
        even.add(&odd);
        assert_eq!(even, whole);
        even.clear();
        even.add(&LatencyHistogram::new());
        assert_eq!(even.exact, Exact::default());
        assert!(even.histogram().is_empty());
    }

    #[test]
    fn sparse_latencies_add_up_to_what_full_ones_do() {
        let parts = [&[900, 5_000_000, 7][..], &[], &[7, 42_000, u64::MAX]];
        let (mut sparse, mut full) = (Latency::default(), LatencyHistogram::new());
        for part in parts {
            let mut latency = LatencyHistogram::new();
            part.iter().for_each(|&nanos| latency.record(nanos));
            sparse.add(&Latency::from(&latency));
            full.add(&latency);
        }
        assert_eq!(sparse, Latency::from(&full));
        assert_eq!((sparse.exact.count, sparse.exact.min_ns), (6, 7));
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
    }

    #[test]
    fn a_set_has_a_histogram_if_it_has_a_latency() {
        let mut full = LatencyHistogram::new();
        assert_eq!(Latency::from(&full), Latency::default());
        full.record(1000);
        full.record_bucket(5000, 2);
        let latency = Latency::from(&full);
        assert_eq!((latency.exact.count, latency.histogram().unwrap().count()), (1, 3));
        let mut total = LatencyHistogram::new();
        latency.add_to(&mut total);
        assert_eq!((total.exact, total.histogram().len()), (full.exact, 3));
        // Counts without an exact side are forgotten too.
        total.exact = Exact::default();
        total.clear();
        assert_eq!((total.histogram().len(), total.exact.count), (0, 0));
        full.clear();
        assert_eq!((full.histogram().len(), full.exact), (0, Exact::default()));
    }

    #[test]
    fn histograms_have_three_digits_up_to_an_hour() {
        assert_eq!((LATENCY_NS_MAX, SIGNIFICANT_DIGITS), (3_600_000_000_000, 3));
    }
}
