//! Whether, and from which round on, a storage is in its steady state.
//!
//! The tracked value of each round gives a [`SteadyState`], with the lines of a convergence plot.
//! Whether a long run leaves the state again is in [`leaving`].
//!
//! The rule is that of the SNIA Solid State Storage Performance Test Specification 2.0.2 (2020):
//! over the last five rounds the range of the values is at most 20 % of their mean, and the least
//! squares line through them rises or falls by at most 10 % of it from the first to the last; after
//! 25 rounds without it, it counts as not attained.

pub mod leaving;

use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;
use durio_base::stats::least_squares::{count, line, mean, range};

/// When a state counts as steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyRule {
    /// Rounds that are looked at together.
    pub window_rounds: usize,
    /// Largest range of the values in the window, as a share of their mean.
    pub excursion_share_max: f64,
    /// Largest rise or fall of the least squares line over the window, as a share of the mean.
    pub slope_share_max: f64,
    /// Rounds after which it counts as not attained; later ones are not looked at.
    pub rounds_max: usize,
}

impl SteadyRule {
    /// The rule of the SNIA specification.
    pub const SNIA: Self =
        Self { window_rounds: 5, excursion_share_max: 0.20, slope_share_max: 0.10, rounds_max: 25 };

    fn check(&self) -> Result<(), DeclinedAnalysis> {
        let shares = [self.excursion_share_max, self.slope_share_max];
        let why = if self.window_rounds < 2 {
            "a window needs at least two rounds"
        } else if self.rounds_max < self.window_rounds {
            "the window is longer than the rounds allowed"
        } else if !shares.iter().all(|share| share.is_finite() && *share >= 0.0) {
            "its shares must be finite and not below zero"
        } else {
            return Ok(());
        };
        Err(DeclinedAnalysis::NoSuchRule { why: why.to_owned() })
    }
}

/// A straight line of a plot, over rounds counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PlotLine {
    /// The line's value at the window's first round.
    pub at_first: f64,
    /// The line's value at the window's last round.
    pub at_last: f64,
}

/// Lines to draw over the rounds of a window, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConvergenceLines {
    pub mean: PlotLine,
    /// Half the allowed range above it: 110 % by the SNIA rule.
    pub upper: PlotLine,
    /// Half the allowed range below it: 90 %.
    pub lower: PlotLine,
    /// The least squares line.
    pub best_fit: PlotLine,
}

/// A window of rounds, with the numbers that decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its first round, from one.
    pub first_round: usize,
    /// Its last round, from one.
    pub last_round: usize,
    /// Mean of the values: the result, if the state is steady.
    pub mean: f64,
    /// (Largest − smallest) ÷ mean.
    pub excursion_share: f64,
    /// |slope per round| × (rounds − 1) ÷ mean.
    pub slope_share: f64,
    /// The lines of the plot.
    pub lines: ConvergenceLines,
}

/// The judgement of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// The round, from one, with which the rule was fulfilled; `None` if it was not.
    pub attained_at: Option<usize>,
    /// The window that fulfilled it, else the last that could be judged; `None` if none could.
    pub window: Option<Window>,
    pub rule: SteadyRule,
    /// The result and its basis, as a sentence.
    pub sentence: String,
}

/// What rounds may exceed a limit by.
// They may lie exactly on it; this is the error of the arithmetic.
const ROUNDING: f64 = 1e-12;

/// Judges the rounds in order. A window with a value that is not finite and above zero is not
/// steady, whatever its range: a storage that does nothing has no state. A rule that accepts or
/// refuses everything is declined.
pub(crate) fn steady_state(
    rounds: &[f64],
    rule: &SteadyRule,
) -> Result<SteadyState, DeclinedAnalysis> {
    rule.check()?;
    let mut last = None;
    // A state that comes later is not SNIA's: it must be reached within the rounds allowed.
    let allowed = rounds.get(..rule.rounds_max).unwrap_or(rounds);
    for (index, figures) in allowed.windows(rule.window_rounds).enumerate() {
        // A window with a stalled round is passed over; a later one may still be steady.
        let Some(window) = window(index, figures, rule) else { continue };
        last = Some(window);
        if is_steady(&window, rule) {
            return Ok(state(Some(window.last_round), last, rounds.len(), rule));
        }
    }
    Ok(state(None, last, rounds.len(), rule))
}

fn window(index: usize, figures: &[f64], rule: &SteadyRule) -> Option<Window> {
    DeclinedAnalysis::unless_positive("figure", figures.iter().copied()).ok()?;
    let (mean, (at_first, slope)) = (mean(figures)?, line(figures)?);
    let (smallest, largest) = range(figures.iter().copied());
    let span = count(figures.len()) - 1.0;
    let level = |figure: f64| PlotLine { at_first: figure, at_last: figure };
    let half = rule.excursion_share_max / 2.0;
    Some(Window {
        first_round: index + 1,
        last_round: index + figures.len(),
        mean,
        excursion_share: (largest - smallest) / mean,
        // Over the whole window, as SNIA has it. fio's limit of a slope is per interval: its 10 %
        // are four times as loose.
        slope_share: slope.abs() * span / mean,
        lines: ConvergenceLines {
            mean: level(mean),
            upper: level(mean * (1.0 + half)),
            lower: level(mean * (1.0 - half)),
            best_fit: PlotLine { at_first, at_last: at_first + slope * span },
        },
    })
}

fn is_steady(window: &Window, rule: &SteadyRule) -> bool {
    window.excursion_share <= rule.excursion_share_max + ROUNDING
        && window.slope_share <= rule.slope_share_max + ROUNDING
}

fn state(
    attained_at: Option<usize>,
    window: Option<Window>,
    rounds: usize,
    rule: &SteadyRule,
) -> SteadyState {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let judged = window.map(|window| {
        format!(
            "rounds {} to {}: range {} of the mean (at most {}), slope {} (at most {})",
            window.first_round,
            window.last_round,
            percent(window.excursion_share),
            percent(rule.excursion_share_max),
            percent(window.slope_share),
            percent(rule.slope_share_max)
        )
    });
    let sentence = match (attained_at, judged) {
        (Some(round), Some(judged)) => format!("steady with round {round}; {judged}"),
        (_, Some(judged)) if rounds >= rule.rounds_max => {
            format!("not attained in {} rounds; {judged}", rule.rounds_max)
        }
        (_, Some(judged)) => format!("not attained yet in {rounds} rounds; {judged}"),
        (_, None) => format!(
            "undecided: no {} consecutive rounds have results above zero",
            rule.window_rounds
        ),
    };
    SteadyState { attained_at, window, rule: *rule, sentence }
}

#[cfg(test)]
mod tests {
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
            assert!(found.sentence.contains("undecided"), "{}", found.sentence);
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
            assert!(matches!(
                steady_state(&[1.0; 9], &rule),
                Err(DeclinedAnalysis::NoSuchRule { .. })
            ));
        }
    }

    #[test]
    fn a_rule_may_allow_no_range_and_no_slope_at_all() {
        let none =
            SteadyRule { excursion_share_max: 0.0, slope_share_max: 0.0, ..SteadyRule::SNIA };
        let of = |rounds: &[f64]| steady_state(rounds, &none).unwrap().attained_at;
        assert_eq!(of(&[43.0, 42.0, 42.0, 42.0, 42.0, 42.0]), Some(6));
        assert_eq!(of(&[42.0, 42.0, 42.0, 42.0, 42.001]), None);
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
}
