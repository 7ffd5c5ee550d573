//! Latencies of an interval in a compact form: counts on a logarithmic scale.
//!
//! [`Bins`] are coarse enough to be resampled a thousand times and only give the scatter. The
//! results that are shown come from the recorded histograms.

use durio_record::SparseHistogram;

/// Bins per power of two: 0.55 to 0.78 % wide, and places within a bin are interpolated.
// It divides the 1024 buckets per power of two of a recorded histogram, so that each bucket falls
// into one bin whole.
const BINS_PER_OCTAVE: u64 = 128;

/// log2 of [`BINS_PER_OCTAVE`].
const MAGNITUDE: u32 = 7;

/// The bin of a latency: one per nanosecond below 256, then [`BINS_PER_OCTAVE`] per power of two.
pub(super) fn bin_of(nanos: u64) -> u16 {
    let shift = (nanos | (BINS_PER_OCTAVE - 1)).ilog2().saturating_sub(MAGNITUDE);
    let bin = u64::from(shift) * BINS_PER_OCTAVE + (nanos >> shift);
    // 57 × 128 + 255 at most.
    u16::try_from(bin).unwrap_or(u16::MAX)
}

/// The smallest latency of a bin, in nanoseconds; that of the next bin is its end.
pub(super) fn lowest_of(bin: u16) -> u64 {
    let bin = u64::from(bin);
    if bin < 2 * BINS_PER_OCTAVE {
        return bin;
    }
    let shift = bin / BINS_PER_OCTAVE - 1;
    let within = bin - shift * BINS_PER_OCTAVE;
    within.checked_shl(u32::try_from(shift).unwrap_or(u32::MAX)).unwrap_or(u64::MAX)
}

/// Counts of those bins that have any, in rising order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bins {
    // Two vectors instead of one of pairs, of which each would take 8 bytes for its 6: a comparison
    // holds those of up to 512 cells for every step of every run.
    /// Which bins.
    places: Vec<u16>,
    /// How many latencies are in each; saturates.
    counts: Vec<u32>,
}

impl Bins {
    /// The latencies of a histogram, each of whose buckets lies within one bin.
    pub(super) fn of(histogram: &SparseHistogram) -> Self {
        let mut bins = Self::default();
        for (lowest, _, count) in histogram.buckets() {
            bins.push(bin_of(lowest), count);
        }
        bins.places.shrink_to_fit();
        bins.counts.shrink_to_fit();
        bins
    }

    /// These latencies, without the 264 KiB of a histogram: simulations make millions.
    #[cfg(test)]
    pub(super) fn of_latencies(nanos: &mut [u64]) -> Self {
        nanos.sort_unstable();
        let mut bins = Self::default();
        nanos.iter().for_each(|&nanos| bins.push(bin_of(nanos), 1));
        bins
    }

    /// Adds to the last bin, or to one above it.
    fn push(&mut self, bin: u16, count: u64) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match self.counts.last_mut() {
            Some(last) if self.places.last() == Some(&bin) => *last = last.saturating_add(count),
            _ => {
                self.places.push(bin);
                self.counts.push(count);
            }
        }
    }

    /// Bins and their counts, in rising order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, u32)> {
        self.places.iter().copied().zip(self.counts.iter().copied())
    }

    /// First and last bin; `None` without latencies.
    pub(super) fn range(&self) -> Option<(u16, u16)> {
        Some((*self.places.first()?, *self.places.last()?))
    }

    /// Takes all latencies of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        let mut all: Vec<(u16, u32)> = self.iter().chain(other.iter()).collect();
        // Two rising runs: the stable sort merges them.
        all.sort_by_key(|it| it.0);
        *self = Self::default();
        all.into_iter().for_each(|(bin, count)| self.push(bin, u64::from(count)));
    }
}

#[cfg(test)]
mod tests {
    use durio_record::Latency;
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Bins {
        let mut latency = Latency::default();
        values.iter().for_each(|&value| latency.record(value));
        latency.histogram().map(Bins::of).unwrap_or_default()
    }

    #[test]
    fn bins_follow_each_other_without_a_gap() {
        for bin in 0..5000 {
            assert_eq!(bin_of(lowest_of(bin)), bin);
            assert_eq!(bin_of(lowest_of(bin + 1) - 1), bin);
        }
        assert_eq!(lowest_of(bin_of(3_600_000_000_000)), 3_590_592_659_456);
        let (low, high) = (lowest_of(1000), lowest_of(1001));
        assert!((high - low) * 100 < low, "{low} to {high}");
    }

    #[test]
    fn latencies_have_the_bins_of_their_histogram() {
        let mut values = [70_000, 3, 5_000_000, 3, 4];
        assert_eq!(of(&values), Bins::of_latencies(&mut values));
    }

    #[test]
    fn nothing_has_no_bins() {
        assert_eq!(of(&[]).range(), None);
        let mut bins = of(&[7]);
        bins.add(&of(&[]));
        assert_eq!(bins, of(&[7]));
    }

    #[test]
    fn every_bucket_of_a_histogram_lies_within_one_bin() {
        let values = (0..42).flat_map(|power| (0..1024).map(move |part| (1024 + part) << power));
        let mut latency = Latency::default();
        values.take_while(|it| *it < 3_600_000_000_000).for_each(|it| latency.record(it));
        for (lowest, highest, _) in latency.histogram().unwrap().buckets() {
            assert_eq!(bin_of(lowest), bin_of(highest));
        }
    }

    proptest! {
        #[test]
        fn sums_of_parts_equal_the_whole(
            a in prop::collection::vec(0_u64..4_000_000_000_000, 0..40),
            b in prop::collection::vec(0_u64..5_000, 0..40),
        ) {
            let mut sum = of(&a);
            sum.add(&of(&b));
            let whole = of(&[a.clone(), b.clone()].concat());
            prop_assert_eq!(&sum, &whole);
            let count: u64 = whole.iter().map(|(_, count)| u64::from(count)).sum();
            prop_assert_eq!(count, (a.len() + b.len()) as u64);
        }
    }
}
