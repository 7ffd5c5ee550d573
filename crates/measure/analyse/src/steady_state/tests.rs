//! The limits of the rule, met exactly and missed by a hair.

use super::*;
use proptest::prelude::*;

fn judge(rounds: &[f64]) -> SteadyState {
    steady_state(rounds, &SteadyRule::SNIA).unwrap()
}

#[test]
fn a_range_of_exactly_20_per_cent_is_steady_and_a_hair_more_is_not() {
    // Symmetric around the middle round: the slope is zero.
    let at = judge(&[100.0, 90.0, 110.0, 90.0, 110.0 - 1e-9]);
    assert_eq!(at.attained_at, Some(5));
    let exact = judge(&[110.0, 90.0, 100.0, 90.0, 110.0]);
    assert_eq!(exact.attained_at, Some(5));
    assert!((exact.window.unwrap().excursion_share - 0.2).abs() < 1e-12);
    let above = judge(&[110.01, 90.0, 100.0, 90.0, 110.01]);
    assert_eq!(above.attained_at, None);
    assert!(above.sentence.contains("not attained yet in 5 rounds"), "{}", above.sentence);
}

#[test]
fn a_slope_of_exactly_10_per_cent_over_the_window_is_steady_and_a_hair_more_is_not() {
    // 2.5 % of the mean per round: 10 % over the four steps of five rounds.
    let exact = judge(&[95.0, 97.5, 100.0, 102.5, 105.0]);
    assert_eq!(exact.attained_at, Some(5));
    let window = exact.window.unwrap();
    assert!((window.slope_share - 0.1).abs() < 1e-12, "{window:?}");
    assert!((window.excursion_share - 0.1).abs() < 1e-12);
    // Well within the range, but rising: the range alone would accept it.
    let above = judge(&[94.9, 97.45, 100.0, 102.55, 105.1]);
    assert_eq!(above.attained_at, None);
    let falling = judge(&[106.0, 103.0, 100.0, 97.0, 94.0]);
    assert_eq!(falling.attained_at, None);
    assert!(falling.window.unwrap().excursion_share < 0.2);
}

#[test]
fn a_drive_that_settles_is_steady_with_the_first_window_that_is() {
    let rounds = [600.0, 420.0, 310.0, 210.0, 150.0, 105.0, 101.0, 99.0, 100.0, 100.0, 100.0];
    let found = judge(&rounds);
    let window = found.window.unwrap();
    assert_eq!(found.attained_at, Some(10));
    assert_eq!((window.first_round, window.last_round), (6, 10));
    assert!((window.mean - 101.0).abs() < 1e-9);
}

#[test]
fn after_25_rounds_it_is_not_attained_even_if_it_would_be_later() {
    let mut rounds: Vec<f64> = (0..25).map(|round| 1000.0 * 0.9_f64.powi(round)).collect();
    rounds.extend([80.0; 10]);
    let found = judge(&rounds);
    assert_eq!(found.attained_at, None);
    assert_eq!(found.window.unwrap().last_round, 25);
    assert!(found.sentence.contains("not attained in 25 rounds"), "{}", found.sentence);
    let longer = SteadyRule { rounds_max: 40, ..SteadyRule::SNIA };
    // Rounds 24 to 28: 88.6, 79.8 and three times 80; a range of 10.8 %, a slope of 8.4 %.
    assert_eq!(steady_state(&rounds, &longer).unwrap().attained_at, Some(28));
}

#[test]
fn constant_rounds_are_steady_and_rounds_of_nothing_are_not() {
    assert_eq!(judge(&[42.0; 5]).attained_at, Some(5));
    for nothing in [0.0, f64::NAN, f64::INFINITY, -1.0] {
        let found = judge(&[nothing; 8]);
        assert_eq!((found.attained_at, found.window), (None, None));
        assert!(found.sentence.contains("cannot tell"), "{}", found.sentence);
    }
    assert_eq!(judge(&[]).window, None);
    assert_eq!(judge(&[42.0; 4]).attained_at, None);
}

#[test]
fn a_window_with_a_missing_round_does_not_count() {
    let found = judge(&[100.0, f64::NAN, 100.0, 100.0, 100.0, 100.0, 100.0]);
    assert_eq!(found.attained_at, Some(7));
}

#[test]
fn the_lines_of_the_plot_are_mean_band_and_fit() {
    let lines = judge(&[96.0, 98.0, 100.0, 102.0, 104.0]).window.unwrap().lines;
    assert_eq!((lines.mean.at_first, lines.mean.at_last), (100.0, 100.0));
    assert!((lines.upper.at_last - 110.0).abs() < 1e-9);
    assert!((lines.lower.at_first - 90.0).abs() < 1e-9);
    assert!((lines.best_fit.at_first - 96.0).abs() < 1e-9);
    assert!((lines.best_fit.at_last - 104.0).abs() < 1e-9);
}

#[test]
fn rules_that_decide_nothing_are_declined() {
    for rule in [
        SteadyRule { window_rounds: 1, ..SteadyRule::SNIA },
        SteadyRule { rounds_max: 4, ..SteadyRule::SNIA },
        SteadyRule { slope_share_max: f64::NAN, ..SteadyRule::SNIA },
        SteadyRule { excursion_share_max: -0.1, ..SteadyRule::SNIA },
    ] {
        assert!(matches!(steady_state(&[1.0; 9], &rule), Err(DeclinedAnalysis::NoSuchRule { .. })));
    }
}

proptest! {
    #[test]
    fn the_round_does_not_depend_on_the_unit(
        rounds in prop::collection::vec(50.0..150.0_f64, 0..40), power in -20..20_i32,
    ) {
        let factor = 2.0_f64.powi(power);
        let scaled: Vec<f64> = rounds.iter().map(|figure| figure * factor).collect();
        prop_assert_eq!(judge(&rounds).attained_at, judge(&scaled).attained_at);
    }

    #[test]
    fn no_rounds_make_it_panic(
        rounds in prop::collection::vec(any::<f64>(), 0..40),
        window_rounds in any::<usize>(), rounds_max in any::<usize>(), limit in any::<f64>(),
    ) {
        let _ = judge(&rounds);
        let rule = SteadyRule {
            window_rounds,
            excursion_share_max: limit,
            slope_share_max: limit,
            rounds_max,
        };
        let _ = steady_state(&rounds, &rule);
    }
}
