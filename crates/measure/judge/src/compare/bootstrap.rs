//! How far a run's results scatter, from that run alone: blocks of its intervals are drawn again,
//! and [`Replicates`] hold each result as each draw gives it. Differences between two runs do not
//! show here; no single run can show them.
//!
//! Intervals that follow each other are alike, so they are drawn in blocks (Künsch, The jackknife
//! and the bootstrap for general stationary observations, Ann. Statist. 17, 1989), around the end
//! (Politis and Romano, A circular block-resampling procedure, 1992). Percentiles are recomputed
//! from all latencies of the drawn blocks.

use durio_base::stats::least_squares::position;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::bins::{Bins, Mixture, QUANTILES, sum_of};
use super::side::{IntervalGroup, OperationLatencies};

/// Times that each run's intervals are drawn again.
// Only the scatter of the draws is used, which a thousand of them tell to 2 % (1 ÷ √2000).
pub(super) const RESAMPLES: usize = 1000;

/// Fewer cells than this say too little of how far they scatter.
// A block is an eighth of the cells at most: with fewer than eight even a single cell is longer.
pub(super) const CELLS_MIN: usize = 8;

/// The results that intervals hold, by their place in [`Replicates`].
pub(super) const FIGURES: usize = 10;

/// Natural logarithms of results: rate, bandwidth, then mean, p50, p99 and p99.9 of the headline
/// operation and of the sync calls. NaN where a result is absent.
pub(super) type Logarithms = [f64; FIGURES];

/// A step's results, drawn again.
#[derive(Debug)]
pub(super) struct Replicates {
    /// The results of the intervals as recorded.
    pub(super) centre: Logarithms,
    pub(super) draws: Vec<Logarithms>,
    /// Blocks per draw: how many independent pieces the run is taken to have.
    pub(super) blocks: usize,
    /// How much farther than the draws the results scatter: the correction for short blocks.
    pub(super) stretch: f64,
}

/// Draws [`RESAMPLES`] times from the cells; `None` with fewer than [`CELLS_MIN`].
pub(super) fn replicates(cells: &[IntervalGroup], seed: u64) -> Option<Replicates> {
    if cells.len() < CELLS_MIN {
        return None;
    }
    let (length, stretch) = blocks(cells);
    let blocks = (cells.len() / length).max(2);
    let sums = Sums::new(cells, length);
    let whole: Vec<usize> = (0..cells.len()).collect();
    let centre = Sums::new(cells, 1).figures(&whole);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut starts = vec![0; blocks];
    let draw = |_| {
        starts.fill_with(|| position(random.next_u64(), cells.len()));
        sums.figures(&starts)
    };
    let draws = (0..RESAMPLES).map(draw).collect();
    Some(Replicates { centre, draws, blocks, stretch })
}

/// Cells per block, and the stretch of [`Replicates`].
///
/// For a first-order autoregression with correlation r, the block length that estimates the
/// variance of a mean best is (√6 r / (1 − r²))^⅔ n^⅓ (Carlstein, The use of subseries values for
/// estimating the variance, Ann. Statist. 14, 1986); n^⅓ at least, because r is itself an estimate,
/// and an eighth of the cells at most. Blocks of that length miss the share 2 r / (1 − r²) / length
/// of the variance, the correlation across their ends (Künsch 1989, theorem 3.1, in the
/// autoregression's terms); the stretch makes up for it, up to a factor of two.
fn blocks(cells: &[IntervalGroup]) -> (usize, f64) {
    // Rates or mean latencies, whichever are more correlated, decide for all results: blocks that
    // are too short make intervals too narrow, blocks that are too long only make them less
    // certain.
    let rates: Vec<f64> = cells.iter().map(|cell| quotient(cell.count, cell.span_ns)).collect();
    let mean = |cell: &IntervalGroup| quotient(cell.headline.sum_ns, cell.headline.count);
    let means: Vec<f64> = cells.iter().map(mean).collect();
    // At 0.95 blocks are as long as they may be, whatever the number of cells.
    let r = autocorrelation(&rates).max(autocorrelation(&means)).clamp(0.0, 0.95);
    let root = (cells.len() as f64).cbrt();
    let best = (6.0_f64.sqrt() * r / (1.0 - r * r)).powf(2.0 / 3.0).max(1.0) * root;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 512")]
    let best = best.ceil() as usize;
    let length = best.min(cells.len() / 8).max(1);
    let missed = 2.0 * r / (1.0 - r * r) / length as f64;
    (length, 1.0 / (1.0 - missed).max(0.25).sqrt())
}

/// Correlation of neighbours, with Kendall's correction for short series (Note on bias in the
/// estimation of autocorrelation, Biometrika 41, 1954).
pub(super) fn autocorrelation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let product: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    if square <= 0.0 { 0.0 } else { product / square + (1.0 + 4.0 * product / square) / count }
}

/// Every block's sums, by its first cell.
struct Sums {
    span_ns: Vec<u64>,
    count: Vec<u64>,
    bytes: Vec<u64>,
    headline: OperationSums,
    sync: OperationSums,
}

impl Sums {
    fn new(cells: &[IntervalGroup], length: usize) -> Self {
        let of = |value: &dyn Fn(&IntervalGroup) -> u64| around(cells, length, value);
        Self {
            span_ns: of(&|cell| cell.span_ns),
            count: of(&|cell| cell.count),
            bytes: of(&|cell| cell.bytes),
            headline: OperationSums::new(cells, length, |cell| &cell.headline),
            sync: OperationSums::new(cells, length, |cell| &cell.sync),
        }
    }

    fn figures(&self, starts: &[usize]) -> Logarithms {
        let span = sum_of(&self.span_ns, starts);
        let [a, b, c, d] = self.headline.figures(starts);
        let [e, f, g, h] = self.sync.figures(starts);
        // Sums are divided, not rates averaged: a cell counts by its time, and the last one may be
        // shorter.
        let rate = quotient(sum_of(&self.count, starts), span);
        let bandwidth = quotient(sum_of(&self.bytes, starts), span);
        [rate, bandwidth, a, b, c, d, e, f, g, h].map(logarithm)
    }
}

/// The natural logarithm; NaN for zero and below.
pub(super) fn logarithm(value: f64) -> f64 {
    if value > 0.0 { value.ln() } else { f64::NAN }
}

/// One kind of operation's sums and percentiles.
struct OperationSums {
    count: Vec<u64>,
    sum_ns: Vec<u64>,
    mixture: Mixture,
}

impl OperationSums {
    fn new(
        cells: &[IntervalGroup],
        length: usize,
        of: impl Fn(&IntervalGroup) -> &OperationLatencies,
    ) -> Self {
        let bins: Vec<&Bins> = cells.iter().map(|cell| &of(cell).bins).collect();
        Self {
            count: around(cells, length, &|cell| of(cell).count),
            sum_ns: around(cells, length, &|cell| of(cell).sum_ns),
            mixture: Mixture::new(&bins, length),
        }
    }

    /// Mean, then the percentiles; NaN without latencies.
    fn figures(&self, starts: &[usize]) -> [f64; 1 + QUANTILES] {
        let [p50, p99, p99_9] = self.mixture.quantiles_ns(starts);
        [quotient(sum_of(&self.sum_ns, starts), sum_of(&self.count, starts)), p50, p99, p99_9]
    }
}

/// The sum over each block of `length` cells, around the end.
fn around(
    cells: &[IntervalGroup],
    length: usize,
    value: &dyn Fn(&IntervalGroup) -> u64,
) -> Vec<u64> {
    let block = |start: usize| {
        let members = (start..start + length).filter_map(|at| cells.get(at % cells.len()));
        members.map(value).fold(0, u64::saturating_add)
    };
    (0..cells.len()).map(block).collect()
}

fn quotient(a: u64, b: u64) -> f64 {
    if b == 0 { f64::NAN } else { a as f64 / b as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rates: impl IntoIterator<Item = u64>) -> Vec<IntervalGroup> {
        let cell =
            |count| IntervalGroup { span_ns: 1_000_000_000, count, ..IntervalGroup::default() };
        rates.into_iter().map(cell).collect()
    }

    #[test]
    fn blocks_are_longer_where_neighbours_are_alike() {
        let unlike = blocks(&cells((0..512_u64).map(|at| 1000 + at * 7919 % 101)));
        assert_eq!((unlike.0, unlike.1 > 1.2), (8, false), "{unlike:?}");
        let alike = blocks(&cells((0..512_u64).map(|at| 1000 + at / 16 * 7919 % 101)));
        assert!(alike.0 > 30 && alike.1 < 1.6, "{alike:?}");
        assert_eq!(blocks(&cells([5; 20])).0, 2);
    }

    #[test]
    fn even_intervals_scatter_not_at_all() {
        let found = replicates(&cells([5; 20]), 1).unwrap();
        assert!(found.draws.iter().all(|draw| (draw[0] - 5e-9_f64.ln()).abs() < 1e-12));
        assert!(found.centre[2].is_nan(), "no latency");
        assert!(replicates(&cells([5; 7]), 1).is_none());
    }

    #[test]
    fn quantiles_of_all_blocks_are_those_of_the_histogram() {
        let mut latency = durio_record::Latency::default();
        (1..=20_000_u64).for_each(|root| latency.record(root * root));
        let bins = super::super::bins::Bins::of(latency.histogram().unwrap());
        let headline = OperationLatencies { count: 20_000, sum_ns: latency.exact.sum_ns, bins };
        let cell =
            IntervalGroup { span_ns: 1, count: 20_000, headline, ..IntervalGroup::default() };
        let found = replicates(&vec![cell; 10], 1).unwrap();
        for (at, quantile) in [0.5_f64, 0.99, 0.999].iter().enumerate() {
            let exact = (quantile * 20_000.0).powi(2);
            assert!((found.centre[3 + at].exp() / exact - 1.0).abs() < 0.001, "{quantile}");
        }
    }

    #[test]
    fn the_correlation_of_neighbours_has_kendall_s_correction() {
        // By NumPy, from the definition.
        let found = autocorrelation(&[1.0, 2.0, 4.0, 3.0, 5.0, 9.0, 8.0]);
        assert!((found - 0.960_811_984_368_215_5).abs() < 1e-12, "{found}");
        let found = autocorrelation(&[5.0, 1.0, 5.0, 1.0, 5.0, 1.0, 6.0]);
        assert!((found + 1.112_061_040_632_469_1).abs() < 1e-12, "{found}");
        assert!(autocorrelation(&[4.0, 4.0, 4.0]).abs() < 1e-12);
    }

    #[test]
    fn blocks_have_the_length_and_the_stretch_of_their_correlation() {
        // By NumPy, from the formulas above: r = 0.6223 in 200 cells.
        let wave = [0, 40, 80, 60, -20, -60, -90, -30];
        let rates = (0..200).map(|at| 1000 + wave[at % 8] + i64::try_from(at).unwrap() * 7919 % 61);
        let (length, stretch) = blocks(&cells(rates.map(|rate| u64::try_from(rate).unwrap())));
        assert_eq!(length, 11);
        assert!((stretch - 1.107_446_384_012_031).abs() < 1e-9, "{stretch}");
        // An eighth of the cells at most, and a stretch of two at most.
        let rates =
            (0..64).map(|at| 1000 + wave[at / 2 % 8] + i64::try_from(at).unwrap() * 7919 % 23);
        let (length, stretch) = blocks(&cells(rates.map(|rate| u64::try_from(rate).unwrap())));
        assert_eq!(length, 8);
        assert!((stretch - 2.0).abs() < 1e-9, "{stretch}");
        // A latency that wanders counts as a rate does.
        let latency = |at: u64| OperationLatencies {
            count: 10,
            sum_ns: 1000 + at * at,
            ..OperationLatencies::default()
        };
        let cell = |at| IntervalGroup {
            span_ns: 1,
            count: 10,
            headline: latency(at),
            ..IntervalGroup::default()
        };
        let wandering: Vec<IntervalGroup> = (0..64).map(cell).collect();
        assert_eq!(blocks(&wandering).0, 8);
        let even = vec![IntervalGroup { span_ns: 1, count: 5, ..IntervalGroup::default() }; 64];
        assert_eq!(blocks(&even), (4, 1.0));
    }

    #[test]
    fn each_figure_of_a_draw_is_in_its_place() {
        // Ten cells that differ in all: sums by hand over the four cells drawn.
        let bins = |nanos: u64| Bins::of_latencies(&mut [nanos]);
        let latencies = |count: u64, sum_ns: u64| OperationLatencies {
            count,
            sum_ns,
            bins: bins(sum_ns / count),
        };
        let cell = |at: u64| IntervalGroup {
            span_ns: 10 + at,
            count: 3 * at + 1,
            bytes: 4096 * (at + 2),
            headline: latencies(at + 1, 100 * (at + 1)),
            sync: latencies(2, 2 * (at + 40)),
        };
        let cells: Vec<IntervalGroup> = (0..10).map(cell).collect();
        // Blocks of two from cells 1 and 9, which goes around the end: cells 1, 2, 9 and 0.
        let found = Sums::new(&cells, 2).figures(&[1, 9]).map(f64::exp);
        let span = 11.0 + 12.0 + 19.0 + 10.0;
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
        };
        near(found[0], (4.0 + 7.0 + 28.0 + 1.0) / span);
        near(found[1], 4096.0 * (3.0 + 4.0 + 11.0 + 2.0) / span);
        near(found[2], 100.0);
        near(found[6], (41.0 + 42.0 + 49.0 + 40.0) / 4.0);
        // Percentiles of one latency per cell: of the headline all 100, of syncs 40, 41, 42, 49.
        near(found[3], 100.5);
        near(found[7], 42.0);
        near(found[8], 49.0 + 0.96);
        near(found[9], 49.0 + 0.996);
    }

    #[test]
    fn only_what_is_above_zero_has_a_logarithm_and_nothing_is_divided_by_zero() {
        assert!(
            logarithm(0.0).is_nan() && logarithm(-1.0).is_nan() && logarithm(f64::NAN).is_nan()
        );
        assert_eq!((logarithm(1.0), quotient(7, 2)), (0.0, 3.5));
        assert!(quotient(7, 0).is_nan());
        assert_eq!((RESAMPLES, CELLS_MIN), (1000, 8));
    }
}
