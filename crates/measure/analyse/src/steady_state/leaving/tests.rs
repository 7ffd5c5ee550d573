//! Planted changes of each shape, noise without any, and figures that are none.

use durio_base::stats::least_squares::count;

use super::*;
use proptest::prelude::*;

/// Noise that is the same for the same seed (SplitMix64).
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (f64::from(u32::try_from(mixed >> 32).unwrap()) + 0.5) / (f64::from(u32::MAX) + 1.0)
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Rates around a level with log-normal noise whose neighbours are correlated.
    fn series(&mut self, length: usize, sigma: f64, correlation: f64) -> Vec<f64> {
        let mut state = self.normal();
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut next = || {
            state = correlation * state + fresh * self.normal();
            20_000.0 * (sigma * state).exp()
        };
        (0..length).map(|_| next()).collect()
    }
}

fn noisy(length: usize) -> Vec<f64> {
    Noise(7).series(length, 0.08, 0.3)
}

fn rates(series: &[f64]) -> Leaving {
    leaving(series, Better::Higher).unwrap()
}

fn planted(length: usize, factor: impl Fn(usize) -> f64) -> Vec<f64> {
    noisy(length).iter().enumerate().map(|(at, rate)| rate * factor(at)).collect()
}

#[test]
fn a_series_of_512_is_taken_as_it_is_and_a_longer_one_by_medians_of_two() {
    let place = |length: usize| {
        let series: Vec<f64> = (0..length)
            .map(|at| if at < 301 { 100.0 } else { 60.0 } + (at * at % 7) as f64 / 10.0)
            .collect();
        rates(&series).changes[0].at_interval
    };
    assert_eq!(place(512), 301);
    assert!(place(513) % 2 == 0, "{}", place(513));
    let most = |length: usize| leaving(&vec![1.0; length], Better::Higher).is_ok();
    assert_eq!([most(1_000_000), most(1_000_001)], [true, false]);
}

#[test]
fn a_run_is_back_that_ends_within_a_twentieth_of_its_first_level() {
    let change = |before_median, after_median| Change {
        at_interval: 1,
        before_median,
        after_median,
        probability: 0.0,
    };
    let back = |end| is_back(&change(100.0, 50.0), &change(50.0, end));
    assert_eq!([back(95.1), back(94.9), back(104.9), back(105.1)], [true, false, true, false]);
}

#[test]
fn credits_that_run_out_are_a_lasting_step_down() {
    let found = rates(&planted(600, |at| if at < 410 { 1.0 } else { 0.6 }));
    assert_eq!(
        (found.shape, found.is_worse, found.changes.len()),
        (LeavingShape::LastingStep, true, 1)
    );
    let change = found.changes[0];
    assert!(change.at_interval.abs_diff(410) <= 4, "{change:?}");
    assert!((change.after_median / change.before_median - 0.6).abs() < 0.03, "{change:?}");
    assert!(change.probability < 1e-6, "{change:?}");
    assert!(found.evidence[0].contains("instead of"), "{:?}", found.evidence);
}

#[test]
fn a_small_step_in_little_noise_is_found_and_one_below_the_least_is_not() {
    let step = |factor: f64| {
        let mut series = Noise(3).series(300, 0.02, 0.0);
        series.iter_mut().skip(150).for_each(|rate| *rate *= factor);
        rates(&series).shape
    };
    assert_eq!(step(0.92), LeavingShape::LastingStep);
    assert_eq!(step(0.97), LeavingShape::Steady);
}

#[test]
fn two_steps_down_are_two_changes() {
    let level = |at| match at {
        0..200 => 1.0,
        200..400 => 0.7,
        _ => 0.4,
    };
    let found = rates(&planted(600, level));
    assert_eq!(found.changes.len(), 2, "{found:?}");
    assert!(found.changes[1].at_interval.abs_diff(400) <= 4);
    assert!(found.is_worse);
}

#[test]
fn a_disturbance_that_ends_is_temporary() {
    let found = rates(&planted(600, |at| if (250..400).contains(&at) { 0.5 } else { 1.0 }));
    assert_eq!((found.shape, found.is_worse), (LeavingShape::Temporary, true), "{found:?}");
    assert_eq!(found.changes.len(), 2);
}

#[test]
fn a_drive_that_fills_up_is_a_drift() {
    let found = rates(&planted(600, |at| 1.0 - 0.4 * count(at) / 600.0));
    assert_eq!((found.shape, found.is_worse), (LeavingShape::Drift, true), "{found:?}");
    let drift = found.drift.unwrap();
    assert!((drift.total_share + 0.4).abs() < 0.04, "{drift:?}");
    assert!((drift.per_interval * 600.0 / 20_000.0 + 0.4).abs() < 0.04, "{drift:?}");
}

#[test]
fn a_slow_slide_is_told_from_a_step_of_the_same_size() {
    const RUNS: usize = 12;
    for (share, least) in [(0.125, 8), (0.2, 12)] {
        let seed = 5;
        let mut noise = Noise(seed);
        let mut of_shape = |wanted: LeavingShape, factor: &dyn Fn(usize) -> f64| {
            let run = |noise: &mut Noise| {
                let series = noise.series(600, 0.08, 0.3);
                let changed: Vec<f64> =
                    series.iter().enumerate().map(|(at, rate)| rate * factor(at)).collect();
                rates(&changed).shape == wanted
            };
            (0..RUNS).filter(|_| run(&mut noise)).count()
        };
        let slides = of_shape(LeavingShape::Drift, &|at| 1.0 - share * count(at) / 600.0);
        let steps =
            of_shape(LeavingShape::LastingStep, &|at| if at < 300 { 1.0 } else { 1.0 - share });
        println!("seed {seed}, by {share}: {slides} slides, {steps} steps of {RUNS}");
        assert!(slides >= least && steps + 1 >= RUNS, "{slides} and {steps}");
    }
    assert_eq!(
        rates(&planted(600, |at| 1.0 - 0.02 * count(at) / 600.0)).shape,
        LeavingShape::Steady
    );
}

#[test]
fn garbage_collection_on_a_beat_is_periodic_dips() {
    let found = rates(&planted(600, |at| if at % 30 < 2 { 0.3 } else { 1.0 }));
    assert_eq!((found.shape, found.is_worse), (LeavingShape::PeriodicDips, true), "{found:?}");
    let dips = found.dips.unwrap();
    assert_eq!((dips.dips, dips.period_intervals), (20, Some(30.0)));
    assert!((dips.length_intervals_mean - 2.0).abs() < 1e-9);
    assert!(dips.depth_share_max > 0.65, "{dips:?}");
}

#[test]
fn dips_at_uneven_distances_are_irregular() {
    let at = [20, 31, 140, 300, 322, 480];
    let found = rates(&planted(600, |interval| if at.contains(&interval) { 0.2 } else { 1.0 }));
    assert_eq!(found.shape, LeavingShape::IrregularDips);
    let dips = found.dips.unwrap();
    assert_eq!((dips.dips, dips.period_intervals), (6, None));
}

#[test]
fn stalls_of_nothing_are_dips() {
    let found = rates(&planted(300, |at| if at % 50 == 10 { 0.0 } else { 1.0 }));
    assert_eq!(found.shape, LeavingShape::PeriodicDips);
    assert_eq!(found.dips.unwrap().depth_share_max, 1.0);
}

#[test]
fn a_step_and_dips_are_both_told() {
    let level = |at| if at < 300 { 1.0 } else { 0.5 };
    let found = rates(&planted(600, |at| level(at) * if at % 40 == 20 { 0.3 } else { 1.0 }));
    assert_eq!(found.shape, LeavingShape::LastingStep);
    assert_eq!(found.dips.unwrap().period_intervals, Some(40.0));
    assert_eq!(found.evidence.len(), 3, "{:?}", found.evidence);
}

#[test]
fn latencies_get_worse_upwards() {
    let rising = planted(300, |at| if at < 100 { 1.0 } else { 1.5 });
    let as_latency = leaving(&rising, Better::Lower).unwrap();
    assert_eq!((as_latency.shape, as_latency.is_worse), (LeavingShape::LastingStep, true));
    assert!(!rates(&rising).is_worse);
    let spikes = planted(300, |at| if at % 25 == 3 { 6.0 } else { 1.0 });
    assert_eq!(leaving(&spikes, Better::Lower).unwrap().shape, LeavingShape::PeriodicDips);
    assert_eq!(rates(&spikes).shape, LeavingShape::Steady);
}

#[test]
fn a_day_of_seconds_is_taken_together_and_still_placed() {
    let found = rates(&planted(86_400, |at| if at < 50_000 { 1.0 } else { 0.8 }));
    assert_eq!((found.shape, found.changes.len()), (LeavingShape::LastingStep, 1));
    assert!(found.changes[0].at_interval.abs_diff(50_000) <= 400, "{:?}", found.changes);
}

#[test]
fn noise_without_a_change_raises_an_alarm_in_at_most_one_run_of_a_hundred() {
    const RUNS: u64 = 200;
    for (sigma, correlation) in [(0.05, 0.0), (0.15, 0.0), (0.15, 0.5), (0.15, 0.8)] {
        let seed = 20_261_121;
        let mut noise = Noise(seed);
        let alarms = (0..RUNS)
            .filter(|_| rates(&noise.series(300, sigma, correlation)).shape != LeavingShape::Steady)
            .count();
        println!("seed {seed}, sigma {sigma}, correlation {correlation}: {alarms} of {RUNS}");
        assert!(alarms <= 2, "{alarms} alarms in {RUNS} runs");
    }
}

#[test]
fn a_quarter_less_is_found_in_most_runs_even_in_correlated_noise() {
    const RUNS: u64 = 30;
    for (correlation, least) in [(0.0, 30), (0.5, 28), (0.8, 15)] {
        let seed = 20_261_122;
        let mut noise = Noise(seed);
        let mut found = 0;
        for _ in 0..RUNS {
            let mut series = noise.series(300, 0.15, correlation);
            series.iter_mut().skip(150).for_each(|rate| *rate *= 0.75);
            found += usize::from(rates(&series).is_worse);
        }
        println!("seed {seed}, correlation {correlation}: found in {found} of {RUNS}");
        assert!(found >= least, "{found} of {RUNS}");
    }
}

#[test]
fn too_short_a_series_and_figures_that_are_none_are_declined() {
    assert!(matches!(leaving(&[1.0; 29], Better::Higher), Err(DeclinedAnalysis::TooFew { .. })));
    let mut broken = vec![1.0; 30];
    broken[4] = f64::NAN;
    let declined = leaving(&broken, Better::Higher).unwrap_err();
    assert!(matches!(declined, DeclinedAnalysis::NotAFigure { position: 5, .. }));
    broken[4] = -1.0;
    assert!(leaving(&broken, Better::Higher).is_err());
    assert_eq!(rates(&[5.0; 100]).shape, LeavingShape::Steady);
    assert_eq!(rates(&[0.0; 100]).shape, LeavingShape::Steady);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_series_makes_it_panic(
        wild in prop::collection::vec(any::<f64>(), 0..60),
        tame in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9_f64], 30..200),
    ) {
        let _ = leaving(&wild, Better::Lower);
        prop_assert!(leaving(&tame, Better::Higher).is_ok());
        prop_assert!(leaving(&tame, Better::Lower).is_ok());
    }

    #[test]
    fn the_shape_does_not_depend_on_the_unit(
        seed in any::<u64>(), power in -20..20_i32, at in 30..170_usize, factor in 0.3..1.0_f64,
    ) {
        let mut series = Noise(seed).series(200, 0.1, 0.2);
        series.iter_mut().skip(at).for_each(|rate| *rate *= factor);
        let scaled: Vec<f64> = series.iter().map(|rate| rate * 2.0_f64.powi(power)).collect();
        let (here, there) = (rates(&series), rates(&scaled));
        prop_assert_eq!(here.shape, there.shape);
        let places = |found: &Leaving| -> Vec<usize> {
            found.changes.iter().map(|change| change.at_interval).collect()
        };
        prop_assert_eq!(places(&here), places(&there));
    }
}

/// Figures around 100, with this value from each of these places on for one interval.
fn with(base: [f64; 3], length: usize, places: &[usize], value: f64) -> Vec<f64> {
    let mut series: Vec<f64> = base.into_iter().cycle().take(length).collect();
    places.iter().for_each(|at| series[*at] = value);
    series
}

const FLAT: [f64; 3] = [100.0; 3];

fn count_of(series: &[f64], better: Better) -> Option<usize> {
    dips(series, &[], better).map(|dip| dip.dips)
}

#[test]
fn a_dip_loses_three_tenths_of_the_level() {
    let places = [5, 15, 25, 35];
    let rates = |value| count_of(&with(FLAT, 60, &places, value), Better::Higher);
    assert_eq!([rates(70.1), rates(69.9)], [None, Some(4)]);
    // A latency of which three tenths are too much.
    let latencies = |value| count_of(&with(FLAT, 60, &places, value), Better::Lower);
    assert_eq!([latencies(142.8), latencies(142.9)], [None, Some(4)]);
}

#[test]
fn a_dip_lies_five_deviations_off() {
    // Half of the distances are 6 at most, so that a deviation is 8.9 and five are 44.5.
    let noisy = |value| with([94.0, 100.0, 106.0], 90, &[4, 16, 28, 40], value);
    assert_eq!(count_of(&noisy(55.6), Better::Higher), None);
    assert_eq!(count_of(&noisy(55.4), Better::Higher), Some(4));
}

#[test]
fn four_dips_are_enough_and_a_third_of_all_intervals_is_no_other_level() {
    let few = |places: &[usize]| count_of(&with(FLAT, 60, places, 50.0), Better::Higher);
    assert_eq!([few(&[5, 15, 25]), few(&[5, 15, 25, 35])], [None, Some(4)]);
    let places: Vec<usize> = (0..10).map(|at| 3 * at).collect();
    let found = dips(&with(FLAT, 30, &places, 50.0), &[], Better::Higher).unwrap();
    assert!((found.intervals_share - 1.0 / 3.0).abs() < 1e-12, "{found:?}");
    assert_eq!(count_of(&with(FLAT, 29, &places, 50.0), Better::Higher), None);
}

#[test]
fn distances_are_even_that_vary_by_a_fifth_at_most() {
    let period = |short: usize, long: usize| {
        let places = [10, 10 + short, 10 + short + long, 10 + 2 * short + long];
        let last = 10 + 2 * (short + long);
        let series = with(FLAT, last + 100, &[&places[..], &[last]].concat(), 50.0);
        dips(&series, &[], Better::Higher).unwrap().period_intervals
    };
    assert_eq!([period(801, 1199), period(799, 1201)], [Some(1000.0), None]);
}

#[test]
fn each_stretch_has_its_own_level() {
    let mut series = with(FLAT, 60, &[5, 15, 25], 65.0);
    series.extend(with([10.0; 3], 60, &[5, 15, 25], 4.0));
    let change =
        Change { at_interval: 60, before_median: 100.0, after_median: 10.0, probability: 0.0 };
    let found = dips(&series, &[change], Better::Higher).unwrap();
    assert_eq!((found.dips, found.length_intervals_mean), (6, 1.0));
    assert!((found.depth_share_max - 0.6).abs() < 1e-12, "{found:?}");
}
