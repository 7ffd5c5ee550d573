//! Latencies of an interval in a compact form: counts on a logarithmic scale, and the percentiles of
//! blocks of intervals that are drawn together.
//!
//! [`Bins`] are coarse enough to be resampled a thousand times and only give the scatter. The
//! results that are shown come from the recorded histograms.
//!
//! [`Mixture`] is built from the bins of each cell. A draw's distribution function is a weighted mean
//! of its blocks', so its percentile lies between the smallest and the largest that any block has.
//! Only bins between those two are kept, with every block's counts cumulated; the bin is then found
//! by bisection, and each step of that adds one number per block drawn.

use durio_record::SparseHistogram;

/// Bins per power of two: 0.55 to 0.78 % wide, and places within a bin are interpolated.
// It divides the 1024 buckets per power of two of a recorded histogram, so that each bucket falls
// into one bin whole.
const BINS_PER_OCTAVE: u64 = 128;

/// The binary logarithm of [`BINS_PER_OCTAVE`].
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
    /// Bins that have a latency, rising.
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
        all.sort_by_key(|pair| pair.0);
        *self = Self::default();
        all.into_iter().for_each(|(bin, count)| self.push(bin, u64::from(count)));
    }
}

const PER_MILLE: [u64; QUANTILES] = [500, 990, 999];

/// The number of percentiles: p50, p99 and p99.9.
pub(super) const QUANTILES: usize = 3;

/// The latencies of every block of cells, reduced to what percentiles need.
#[derive(Debug)]
pub(super) struct Mixture {
    /// How many latencies each block has.
    counts: Vec<u64>,
    /// One per percentile; empty without any latency.
    windows: [BinWindow; QUANTILES],
}

impl Mixture {
    /// Blocks of `length` cells, around the end; each is known by its first cell.
    pub(super) fn new(cells: &[&Bins], length: usize) -> Self {
        let rows = Rows::new(cells, length);
        let mut counts = vec![0; cells.len()];
        let mut ranges = [None; QUANTILES];
        rows.each_block(|block, upto| {
            let Some(&all) = upto.last().filter(|&&all| all > 0) else { return };
            counts.get_mut(block).into_iter().for_each(|count| *count = all);
            for (range, per_mille) in ranges.iter_mut().zip(PER_MILLE) {
                let column = upto.partition_point(|&below| !is_reached(below, all, per_mille));
                let (low, high) = range.unwrap_or((column, column));
                *range = Some((low.min(column), high.max(column)));
            }
        });
        let mut windows = ranges.map(|range| BinWindow::new(&rows, range));
        rows.each_block(|block, upto| {
            windows.iter_mut().for_each(|window| window.fill(block, upto));
        });
        Self { counts, windows }
    }

    /// Percentiles of the drawn blocks in nanoseconds, interpolated within bins; NaN if empty.
    pub(super) fn quantiles_ns(&self, starts: &[usize]) -> [f64; QUANTILES] {
        let all = sum_of(&self.counts, starts);
        let mut found = [f64::NAN; QUANTILES];
        for ((found, window), per_mille) in found.iter_mut().zip(&self.windows).zip(PER_MILLE) {
            *found = window.quantile_ns(starts, all, per_mille).unwrap_or(f64::NAN);
        }
        found
    }
}

/// True if `below` is at least `per_mille` thousandths of `all`: in whole numbers, so that it holds
/// for a sum of blocks wherever it holds for each.
const fn is_reached(below: u64, all: u64, per_mille: u64) -> bool {
    below.saturating_mul(1000) >= all.saturating_mul(per_mille)
}

/// The sum of the drawn blocks' values.
pub(super) fn sum_of(values: &[u64], starts: &[usize]) -> u64 {
    starts
        .iter()
        .filter_map(|&start| values.get(start))
        .fold(0, |sum, value| sum.saturating_add(*value))
}

/// The bins in which one percentile of any draw can lie.
#[derive(Debug)]
struct BinWindow {
    /// The column of its first bin among all that have a latency.
    first: usize,
    /// Its bins, in rising order.
    bins: Vec<u16>,
    /// Length of a slot: one count per block.
    blocks: usize,
    /// By slot and block: latencies below the first bin, then those up to the end of each.
    slots: Vec<u64>,
}

impl BinWindow {
    fn new(rows: &Rows<'_>, range: Option<(usize, usize)>) -> Self {
        let blocks = rows.cells.len();
        let bins = range.and_then(|(low, high)| rows.bins.get(low..=high)).unwrap_or_default();
        let slots = vec![0; (bins.len() + 1) * blocks];
        Self { first: range.map_or(0, |range| range.0), bins: bins.to_vec(), blocks, slots }
    }

    fn fill(&mut self, block: usize, upto: &[u64]) {
        let below = self.first.checked_sub(1).and_then(|column| upto.get(column)).unwrap_or(&0);
        let within = upto.iter().skip(self.first).take(self.bins.len());
        let slots = self.slots.iter_mut().skip(block).step_by(self.blocks.max(1));
        for (slot, upto) in slots.zip(std::iter::once(below).chain(within)) {
            *slot = *upto;
        }
    }

    fn upto(&self, slot: usize, starts: &[usize]) -> u64 {
        let begin = slot * self.blocks;
        sum_of(self.slots.get(begin..begin + self.blocks).unwrap_or_default(), starts)
    }

    fn quantile_ns(&self, starts: &[usize], all: u64, per_mille: u64) -> Option<f64> {
        if all == 0 {
            return None;
        }
        let (mut low, mut high) = (0, self.bins.len().checked_sub(1)?);
        while low < high {
            let middle = low.midpoint(high);
            match is_reached(self.upto(middle + 1, starts), all, per_mille) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let below = self.upto(low, starts);
        let inside = self.upto(low + 1, starts).saturating_sub(below);
        // A bin is up to 0.78 % wide: without a place inside it percentiles would move in steps of
        // that.
        let rank = per_mille as f64 / 1000.0 * all as f64;
        let share = (rank - below as f64) / inside as f64;
        let bin = *self.bins.get(low)?;
        let (from, to) = (lowest_of(bin) as f64, lowest_of(bin.saturating_add(1)) as f64);
        Some(from + (to - from) * share.clamp(0.0, 1.0))
    }
}

/// Cells by the bins that any of them has.
struct Rows<'a> {
    cells: &'a [&'a Bins],
    length: usize,
    /// Bins with a latency, rising: the columns.
    bins: Vec<u16>,
    /// The column of each bin, from the first of `bins` on.
    columns: Vec<usize>,
}

impl<'a> Rows<'a> {
    fn new(cells: &'a [&'a Bins], length: usize) -> Self {
        let ranges = cells.iter().filter_map(|bins| bins.range());
        let range = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let all = range.map(|(first, last)| first..=last).into_iter().flatten();
        let mut is_used = vec![false; range.map_or(0, |range| usize::from(range.1 - range.0) + 1)];
        let first = range.map_or(0, |range| range.0);
        for (bin, _) in cells.iter().flat_map(|bins| bins.iter()) {
            let place = usize::from(bin.saturating_sub(first));
            is_used.get_mut(place).into_iter().for_each(|used| *used = true);
        }
        let used = all.zip(&is_used).filter(|(_, is_used)| **is_used);
        let bins: Vec<u16> = used.map(|(bin, _)| bin).collect();
        let number = |next: &mut usize, is_used: &bool| {
            let column = *next;
            *next += usize::from(*is_used);
            Some(column)
        };
        let columns = is_used.iter().scan(0, number).collect();
        Self { cells, length, bins, columns }
    }

    /// Shows each block's latencies up to the end of each column, in the order of blocks.
    fn each_block(&self, mut look: impl FnMut(usize, &[u64])) {
        let mut counts = vec![0; self.bins.len()];
        let mut upto = vec![0; self.bins.len()];
        (0..self.length).for_each(|cell| self.change(cell, &mut counts, u64::saturating_add));
        for block in 0..self.cells.len() {
            let mut sum: u64 = 0;
            for (upto, count) in upto.iter_mut().zip(&counts) {
                sum = sum.saturating_add(*count);
                *upto = sum;
            }
            look(block, &upto);
            // The window moves on by one cell: what leaves it is taken off, what enters is added.
            self.change(block, &mut counts, u64::saturating_sub);
            self.change(block + self.length, &mut counts, u64::saturating_add);
        }
    }

    /// Applies a cell's counts, going around the end.
    fn change(&self, cell: usize, counts: &mut [u64], apply: impl Fn(u64, u64) -> u64) {
        let Some(cell) = self.cells.get(cell % self.cells.len().max(1)) else { return };
        let first = self.bins.first().copied().unwrap_or_default();
        for (bin, count) in cell.iter() {
            let column = self.columns.get(usize::from(bin.saturating_sub(first)));
            if let Some(sum) = column.and_then(|&column| counts.get_mut(column)) {
                *sum = apply(*sum, u64::from(count));
            }
        }
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
        values
            .take_while(|value| *value < 3_600_000_000_000)
            .for_each(|value| latency.record(value));
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

    fn bins(values: &[u64]) -> Bins {
        let mut latency = Latency::default();
        values.iter().for_each(|&value| latency.record(value));
        latency.histogram().map(Bins::of).unwrap_or_default()
    }

    /// By merging all that was drawn and walking through it.
    fn walked(cells: &[Bins], length: usize, starts: &[usize], per_mille: u64) -> f64 {
        let mut merged = Bins::default();
        for start in starts {
            (0..length).for_each(|cell| merged.add(&cells[(start + cell) % cells.len()]));
        }
        let all: u64 = merged.iter().map(|pair| u64::from(pair.1)).sum();
        let mut below = 0;
        for (bin, count) in merged.iter() {
            let count = u64::from(count);
            if (below + count) * 1000 >= all * per_mille {
                let rank = per_mille as f64 / 1000.0 * all as f64;
                let (from, to) = (lowest_of(bin) as f64, lowest_of(bin + 1) as f64);
                let share = (rank - below as f64) / count as f64;
                return from + (to - from) * share.clamp(0.0, 1.0);
            }
            below += count;
        }
        f64::NAN
    }

    proptest! {
        #[test]
        fn the_percentiles_of_a_draw_are_those_of_its_merged_latencies(
            cells in prop::collection::vec(prop::collection::vec(1_u64..5_000_000, 0..60), 1..20),
            length in 1_usize..4,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
        ) {
            let cells: Vec<Bins> = cells.iter().map(|latencies| bins(latencies)).collect();
            let starts: Vec<usize> = picks.iter().map(|pick| pick.index(cells.len())).collect();
            let mixture = Mixture::new(&cells.iter().collect::<Vec<_>>(), length);
            let found = mixture.quantiles_ns(&starts);
            for (found, per_mille) in found.iter().zip(PER_MILLE) {
                let expected = walked(&cells, length, &starts, per_mille);
                prop_assert!(found.to_bits() == expected.to_bits()
                    || (found.is_nan() && expected.is_nan()), "{found} {expected}");
            }
        }
    }

    #[test]
    fn blocks_without_latencies_neither_count_nor_harm() {
        let cells = [bins(&[]), bins(&[100, 101]), bins(&[])];
        let mixture = Mixture::new(&cells.iter().collect::<Vec<_>>(), 1);
        assert!(mixture.quantiles_ns(&[0, 2]).iter().all(|quantile| quantile.is_nan()));
        assert_eq!(mixture.quantiles_ns(&[0, 1]), mixture.quantiles_ns(&[1]));
        assert!((mixture.quantiles_ns(&[1])[0] - 101.0).abs() < 1e-9, "the end of the bin of 100");
        assert!(Mixture::new(&[], 1).quantiles_ns(&[0]).iter().all(|quantile| quantile.is_nan()));
    }

    #[test]
    fn alike_blocks_need_few_bins() {
        let all: Vec<u64> = (1..=1000).map(|micros| micros * 1000).collect();
        let cells: Vec<Bins> = (0..50).map(|_| bins(&all)).collect();
        let mixture = Mixture::new(&cells.iter().collect::<Vec<_>>(), 4);
        assert!(mixture.windows.iter().all(|window| window.bins.len() == 1), "{mixture:?}");
    }
}
