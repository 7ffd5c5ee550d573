//! The published volume, planted models, and figures that are none.

use super::*;
use proptest::prelude::*;

const KIB: f64 = 1024.0;

/// RavenDB, "Performance discovery: IOPS vs. IOPS", 2025: an io2 volume with 16 000 IOPS, one
/// writer, dd with O_DIRECT and O_SYNC; KiB per write and MB/s, dd's MB of 10⁶ bytes.
const IO2: [(f64, f64); 6] =
    [(8.0, 7.1), (32.0, 26.9), (64.0, 50.2), (256.0, 144.0), (256.0, 146.0), (1024.0, 502.0)];

fn io2(mega: f64) -> Vec<SizeCost> {
    IO2.iter().map(|(kib, mb)| SizeCost::of_bandwidth(kib * KIB, mb * mega)).collect()
}

#[test]
fn a_durable_write_to_a_network_volume_has_a_fixed_cost_of_about_1_15_ms() {
    let found = fit(&io2(1e6)).unwrap();
    let fixed = found.fixed_ns;
    assert!((fixed.value / 1e6 - 1.15).abs() < 0.03, "{fixed:?}");
    assert!(fixed.plus_minus.unwrap() < 0.05e6, "{fixed:?}");
    assert!((found.ns_per_byte.value - 2.6).abs() < 0.1, "{:?}", found.ns_per_byte);
    // The bytes of 430 KiB would cost what the write costs: below it, fewer and larger writes win.
    let even = found.break_even_bytes.unwrap() / KIB;
    assert!((400.0..460.0).contains(&even), "{even}");
}

#[test]
fn its_cost_per_byte_bends_at_256_kib() {
    let found = fit(&io2(1e6)).unwrap();
    let bend = found.bend.as_ref().unwrap();
    assert_eq!((bend.at_bytes, bend.below_bytes), (256.0 * KIB, 1024.0 * KIB));
    assert!((bend.ns_per_byte_above.value - 0.35).abs() < 0.05, "{bend:?}");
    assert!(bend.evidence.contains("only one size is beyond"), "{}", bend.evidence);
    for point in io2(1e6) {
        let error = found.latency_ns(point.size_bytes) / point.latency_ns - 1.0;
        assert!(error.abs() < 0.02, "{point:?}: {error}");
    }
}

#[test]
fn the_meaning_of_mb_moves_the_fixed_cost_by_five_per_cent() {
    let (decimal, binary) = (fit(&io2(1e6)).unwrap(), fit(&io2(KIB * KIB)).unwrap());
    let moved = decimal.fixed_ns.value / binary.fixed_ns.value;
    assert!((moved - 1.048_576).abs() < 1e-6, "{moved}");
    assert_eq!(decimal.bend.unwrap().at_bytes, binary.bend.unwrap().at_bytes);
}

fn planted(fixed: f64, per_byte: f64) -> Vec<SizeCost> {
    (0..9)
        .map(|power| 4096.0 * f64::from(1 << power))
        .map(|size_bytes| SizeCost { size_bytes, latency_ns: fixed + per_byte * size_bytes })
        .collect()
}

#[test]
fn a_planted_line_is_found_without_a_bend() {
    let found = fit(&planted(80_000.0, 0.5)).unwrap();
    assert!((found.fixed_ns.value - 80_000.0).abs() < 1.0, "{found:?}");
    assert!((found.ns_per_byte.value - 0.5).abs() < 1e-6);
    assert_eq!((found.bend, found.outliers_bytes.len()), (None, 0));
}

#[test]
fn one_wrong_size_moves_neither_cost_and_is_named() {
    let mut points = planted(80_000.0, 0.5);
    points[4].latency_ns *= 3.0;
    let found = fit(&points).unwrap();
    assert!((found.fixed_ns.value / 80_000.0 - 1.0).abs() < 0.02, "{found:?}");
    assert!((found.ns_per_byte.value / 0.5 - 1.0).abs() < 0.02, "{found:?}");
    assert_eq!(found.outliers_bytes, [points[4].size_bytes]);
    assert_eq!(found.bend, None);
}

#[test]
fn scatter_of_five_per_cent_is_no_bend_and_widens_the_interval() {
    let scatter = [0.03, -0.05, 0.02, 0.04, -0.03, -0.02, 0.05, -0.04, 0.01];
    let mut points = planted(80_000.0, 0.5);
    points.iter_mut().zip(scatter).for_each(|(point, share)| point.latency_ns *= 1.0 + share);
    let found = fit(&points).unwrap();
    assert_eq!(found.bend, None);
    let interval = found.fixed_ns.plus_minus.unwrap();
    assert!((found.fixed_ns.value - 80_000.0).abs() < interval, "{found:?}");
}

#[test]
fn too_few_sizes_are_declined() {
    let points = planted(80_000.0, 0.5);
    assert!(matches!(fit(&points[..2]), Err(DeclinedAnalysis::TooFew { given: 2, .. })));
    assert!(matches!(fit(&[points[0]; 20]), Err(DeclinedAnalysis::TooFew { given: 1, .. })));
    assert!(matches!(fit(&[]), Err(DeclinedAnalysis::TooFew { .. })));
    let mut negative = points;
    negative[3].latency_ns = -1.0;
    assert!(matches!(fit(&negative), Err(DeclinedAnalysis::NotAFigure { position: 4, .. })));
}

#[test]
fn an_estimate_is_known_to_half_of_itself() {
    let is_known = |half| Estimate { value: 2.0, plus_minus: Some(half) }.is_known();
    assert_eq!([is_known(0.999), is_known(1.001)], [true, false]);
    assert!(Estimate { value: 2.0, plus_minus: None }.is_known());
    assert!(!Estimate { value: 0.0, plus_minus: None }.is_known());
}

#[test]
fn three_sizes_make_a_line_five_a_bend_and_a_thousand_points_are_taken() {
    assert!(fit(&planted(80_000.0, 0.5)[..3]).is_ok());
    let bent = |sizes: usize| {
        let mut points = planted(80_000.0, 0.5);
        points.truncate(sizes);
        let last = points.last_mut().unwrap();
        last.latency_ns *= 3.0;
        fit(&points).unwrap().bend.is_some()
    };
    assert_eq!([bent(4), bent(5)], [false, true]);
    let many = |count: usize| {
        let mut points: Vec<SizeCost> =
            planted(80_000.0, 0.5).into_iter().cycle().take(count).collect();
        points.truncate(count);
        fit(&points).is_ok()
    };
    assert_eq!([many(1000), many(1001)], [true, false]);
}

#[test]
fn a_model_describes_times_of_which_half_are_off_by_a_quarter_at_most() {
    // Each size once above the line and once below: the median error is share ÷ (1 + share²).
    let describes = |share: f64| {
        let off = |factor: f64| {
            planted(80_000.0, 0.5)
                .into_iter()
                .map(move |cost| SizeCost { latency_ns: cost.latency_ns * factor, ..cost })
        };
        let points: Vec<SizeCost> = off(1.0 + share).chain(off(1.0 - share)).collect();
        describe(&points).map(|_| ())
    };
    assert_eq!(describes(0.262), Ok(()));
    let why = describes(0.275).unwrap_err().to_string();
    assert!(why.contains("half of the times are off by more than 26 %"), "{why}");
}

#[test]
fn scatter_is_the_deviation_of_normal_errors_with_that_median_and_half_a_percent_at_least() {
    assert!((scatter(&[0.1, -0.1, 0.1, -0.3]) - 0.148_26).abs() < 1e-9);
    assert!((scatter(&[0.0033, -0.0033]) - 0.005).abs() < 1e-9);
    assert!((scatter(&[0.0034, -0.0034]) - 0.005_040_84).abs() < 1e-9);
}

proptest! {
    #[test]
    fn no_figures_make_it_panic(
        figures in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8),
        small in prop::collection::vec((1.0..1e6_f64, 1.0..1e9_f64), 3..8),
    ) {
        let of = |figures: &[(f64, f64)]| {
            let point = |(size_bytes, latency_ns): &(f64, f64)| SizeCost {
                size_bytes: *size_bytes,
                latency_ns: *latency_ns,
            };
            fit(&figures.iter().map(point).collect::<Vec<_>>())
        };
        let _ = of(&figures);
        if let Ok(found) = of(&small) {
            prop_assert!(found.fixed_ns.value.is_finite());
        }
    }

    #[test]
    fn times_twice_as_long_cost_twice_as_much(
        fixed in 1e3..1e7_f64, per_byte in 0.01..10.0_f64, power in 1..5_i32,
    ) {
        let factor = 2.0_f64.powi(power);
        let slower = |mut points: Vec<SizeCost>| {
            points.iter_mut().for_each(|point| point.latency_ns *= factor);
            points
        };
        let points = planted(fixed, per_byte);
        let (here, there) = (fit(&points).unwrap(), fit(&slower(points)).unwrap());
        prop_assert!((there.fixed_ns.value / here.fixed_ns.value / factor - 1.0).abs() < 1e-6);
    }
}

#[test]
fn an_error_loses_weight_beyond_1_345_times_the_scatter() {
    // The median is 0.1, the scatter 0.14826, the bound 0.19941.
    let weights = huber_weights(&[0.1, -0.1, 0.1994, -0.1, 0.398_82]);
    assert_eq!(weights[..4], [1.0; 4]);
    assert!((weights[4] - 0.5).abs() < 1e-4, "{weights:?}");
}

#[test]
fn beside_a_far_value_the_interval_is_that_of_errors_held_within_the_bound() {
    let found = relative_fit(&[[1.0]; 5], &[100.0, 100.0, 100.0, 100.0, 200.0]).unwrap();
    let [Estimate { value, plus_minus }] = found.estimates;
    // The bound is 1.345 × 0.005 = 0.006725, the far value's error times its weight: the four others pull
    // as much, 4 × (value ÷ 100 − 1) ÷ 100 = 0.006725 ÷ 200.
    assert!((value - 100.084_062_5).abs() < 1e-6, "{value}");
    // Squares of 4 × 0.000840625² + 0.006725², a mean slope of 4 ÷ 5, K = 1.05 and four degrees make a
    // variance of 2.0694e-5; that of the design is 1 ÷ 4.25e-4, Student's quantile 2.7764.
    let half = plus_minus.unwrap();
    assert!((half - 0.612_66).abs() < 1e-4, "{half}");
}

#[test]
fn a_point_is_far_at_four_times_the_scatter_and_a_tenth_at_least() {
    let with = |error: f64, median: f64| has_far(&[median, -median, median, -median, error], 0);
    // 4 × 1.4826 × 0.1.
    assert_eq!([with(0.592, 0.1), with(0.594, 0.1)], [false, true]);
    assert_eq!([with(0.0999, 0.001), with(-0.1001, 0.001)], [false, true]);
    // Two parameters of five points leave three: the scatter is that much larger.
    let few = |error: f64| has_far(&[0.1, -0.1, 0.1, -0.1, error], 2);
    assert_eq!([few(0.765), few(0.767)], [false, true]);
}
