//! How often the comparison is wrong, by simulation: intervals whose state is a first-order
//! autoregression, as those of storage are, with and without a real difference.

use durio_record::{Latency, LatencyHistogram};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::bins::Bins;
use super::bootstrap::replicates;
use super::comparison::{FigureComparison, FigureName, Settings, Word};
use super::effect::{Repeat, figure};
use super::series::{Cell, Latencies};

const SEED: u64 = 20_261_121;
const INTERVALS: usize = 50;

struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// A normal deviate, near enough: the sum of twelve uniform ones (Irwin-Hall).
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
    }
}

/// What a run is like.
#[derive(Clone, Copy)]
struct Model {
    /// Correlation of neighbouring intervals.
    r: f64,
    /// Standard deviation of an interval's state, as a share.
    scatter: f64,
    /// Latencies per interval.
    samples: usize,
    /// Added to the logarithm of every latency.
    shift: f64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some milliseconds")]
fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}

/// One run: latencies are log-normal with a fifth of scatter, around the interval's state.
fn cells(model: Model, draws: &mut Draws) -> Vec<Cell> {
    let mut state = draws.normal();
    let innovation = (1.0 - model.r * model.r).sqrt();
    let cell = |_| {
        state = model.r * state + innovation * draws.normal();
        let centre = 100_000_f64.ln() + model.shift + model.scatter * state;
        if model.samples == 0 {
            // Rates alone, where latencies are not looked at.
            let sum_ns = whole(centre.exp() * 1000.0);
            return Cell { span_ns: sum_ns, count: 1000, ..Cell::default() };
        }
        let mut latency = LatencyHistogram::new();
        for _ in 0..model.samples {
            latency.record(whole((centre + 0.2 * draws.normal()).exp()));
        }
        let latency = Latency::from(latency);
        let (count, sum_ns) = (latency.exact.count, latency.exact.sum_ns);
        let bins = latency.histogram().map(Bins::of).unwrap_or_default();
        let headline = Latencies { count, sum_ns, bins };
        // One in flight: the time is the sum of the latencies.
        Cell { span_ns: sum_ns, count, headline, ..Cell::default() }
    };
    (0..INTERVALS).map(cell).collect()
}

fn repeat(cells: &[Cell], seed: u64) -> Repeat {
    let replicates = replicates(cells, seed).unwrap();
    let mut values = [None; FigureName::ALL.len()];
    for (value, centre) in values.iter_mut().zip(replicates.centre) {
        *value = Some(centre.exp()).filter(|it| it.is_finite());
    }
    Repeat { values, replicates: Some(replicates) }
}

/// The share of comparisons, of one run against one, that end in one of `words`.
fn share(name: FigureName, a: Model, b: Model, times: u64, words: &[Word], threshold: f64) -> f64 {
    let mut draws = Draws(Xoshiro256PlusPlus::seed_from_u64(SEED));
    let settings = Settings { threshold, ..Settings::default() };
    let mut hits = 0.0;
    for time in 0..times {
        let a = [repeat(&cells(a, &mut draws), 2 * time)];
        let b = [repeat(&cells(b, &mut draws), 2 * time + 1)];
        let found: FigureComparison = figure(name, &a, &b, &settings).unwrap();
        hits += f64::from(u8::from(words.contains(&found.word)));
    }
    let share = hits / times as f64;
    eprintln!("seed {SEED}: {name:?} r {} {words:?}: {:.1} %", a.r, share * 100.0);
    share
}

const DIFFERENT: [Word; 2] = [Word::Faster, Word::Slower];

#[test]
fn equal_runs_are_seldom_called_different() {
    for r in [0.0, 0.3, 0.6] {
        let model = Model { r, scatter: 0.1, samples: 0, shift: 0.0 };
        // No threshold: the interval alone has to hold.
        let alarms = share(FigureName::Rate, model, model, 400, &DIFFERENT, 0.0);
        assert!(alarms <= 0.08, "r = {r}: {alarms}");
    }
}

#[test]
fn equal_runs_have_equal_tails() {
    let model = Model { r: 0.3, scatter: 0.1, samples: 60, shift: 0.0 };
    for name in [FigureName::P50, FigureName::P99] {
        let alarms = share(name, model, model, 30, &DIFFERENT, 0.0);
        // Few pairs, to be quick: a coarse net, for gross errors.
        assert!(alarms <= 0.10, "{name:?}: {alarms}");
    }
}

#[test]
fn a_real_difference_of_five_per_cent_is_found() {
    let shift = 1.05_f64.ln();
    for (scatter, found_at_least) in [(0.03, 0.85), (0.06, 0.50)] {
        let a = Model { r: 0.3, scatter, samples: 0, shift: 0.0 };
        let b = Model { shift, ..a };
        let found = share(FigureName::Rate, a, b, 200, &[Word::Slower], 0.03);
        assert!(found >= found_at_least, "scatter {scatter}: {found}");
    }
}

#[test]
fn with_the_threshold_small_real_differences_are_left_alone() {
    let a = Model { r: 0.3, scatter: 0.03, samples: 0, shift: 0.0 };
    let b = Model { shift: 1.01_f64.ln(), ..a };
    let found = share(FigureName::Rate, a, b, 200, &DIFFERENT, 0.03);
    assert!(found <= 0.03, "{found}");
}
