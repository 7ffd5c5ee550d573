//! The phases of a ladder (linear, onset, saturated, retrograde), the levels that were the last
//! worth their load, and the knee: how many operations the storage works on at the same time.
//!
//! Checked points, their efficiencies and the fitted curve give [`Phases`], [`BestPoints`] and a
//! [`Knee`]. Whether a latency is good enough is not judged.

use durio_base::stats::least_squares::{mean, range};
use serde::{Deserialize, Serialize};

use super::{LadderKind, LadderPoint, Saturation};

/// Scaling is linear while the rate is at least this share of the linear extrapolation; a plain
/// measurement of latency at a low depth may be off by a tenth.
pub const LINEAR_EFFICIENCY: f64 = 0.90;

/// More load costs rate if the levels after the highest rate lie, in the mean, at least this share
/// below it; a plateau varies by less than 4 % in the published ladders.
pub const RETROGRADE_LOSS: f64 = 0.05;

/// Where a level lies on the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LadderPhase {
    /// The rate grows in proportion to the load.
    Linear,
    /// It grows by less.
    Onset,
    /// More load adds latency only.
    Saturated,
    /// More load costs rate.
    Retrograde,
}

/// More load gave less.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Retrograde {
    /// The level of the highest rate.
    pub peak_level: f64,
    /// How far the levels after it lie below it, in the (geometric) mean; 0 to 1.
    pub loss_share: f64,
    /// How many levels that is; one alone is weak evidence.
    pub levels_after: usize,
}

/// Where the phases start and end; between `linear_to` and `saturated_from` lies the onset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// The last level of the linear phase.
    pub linear_to_level: f64,
    /// The first level of saturation; `None` if the ladder ends before.
    pub saturated_from_level: Option<f64>,
    /// Set if more load gave less.
    pub retrograde: Option<Retrograde>,
    /// The rule, in words.
    pub rule: String,
}

impl Phases {
    /// The phase of a level; at a sharp knee, where linear meets saturated, it is linear.
    pub fn of(&self, level: f64) -> LadderPhase {
        if level <= self.linear_to_level {
            LadderPhase::Linear
        } else if self.retrograde.is_some_and(|back| level > back.peak_level) {
            LadderPhase::Retrograde
        } else if self.saturated_from_level.is_some_and(|from| level >= from) {
            LadderPhase::Saturated
        } else {
            LadderPhase::Onset
        }
    }
}

/// What load is measured in: operations in flight, or the offered rate.
pub(super) fn load(point: &LadderPoint, kind: LadderKind) -> f64 {
    match kind {
        LadderKind::Jobs | LadderKind::Depth => point.in_flight,
        LadderKind::OfferedRate => point.level,
    }
}

/// Rate of each point as a share of the linear extrapolation: of the best rate per operation in
/// flight that the ladder has, or of the offered rate itself.
pub(super) fn efficiencies(points: &[LadderPoint], kind: LadderKind) -> Vec<f64> {
    let per_load = |point: &LadderPoint| point.rate_per_second / load(point, kind);
    let unit = match kind {
        // The best and not the first: at low load processors and devices sleep in between, and
        // every later level would seem to scale better than linearly.
        LadderKind::Jobs | LadderKind::Depth => points.iter().map(per_load).fold(0.0, f64::max),
        LadderKind::OfferedRate => 1.0,
    };
    points.iter().map(|point| per_load(point) / unit).collect()
}

/// The phases of checked points.
pub(super) fn phases(points: &[LadderPoint], efficiencies: &[f64], best: &BestPoints) -> Phases {
    let is_linear = |pair: &(&LadderPoint, &f64)| *pair.1 >= LINEAR_EFFICIENCY;
    // The last that is, for one below it that dips is noise of a size that was accepted before.
    let linear = points.iter().zip(efficiencies).rev().find(is_linear);
    // An offered rate may never be achieved, not even at the first level.
    let linear_to_level = linear.map_or(0.0, |(point, _)| point.level);
    let saturated_from_level = (!best.at_ladder_end).then_some(best.level);
    Phases {
        linear_to_level: saturated_from_level
            .map_or(linear_to_level, |level| level.min(linear_to_level)),
        saturated_from_level,
        retrograde: retrograde(points),
        rule: phases_rule(),
    }
}

fn retrograde(points: &[LadderPoint]) -> Option<Retrograde> {
    let highest =
        |a: &&LadderPoint, b: &&LadderPoint| a.rate_per_second.total_cmp(&b.rate_per_second);
    let peak = points.iter().max_by(highest)?;
    let after = points.iter().filter(|point| point.level > peak.level);
    // All levels after the highest and not the last alone: the end of a plateau may be a single
    // dip.
    let falls: Vec<f64> =
        after.map(|point| (point.rate_per_second / peak.rate_per_second).ln()).collect();
    let loss_share = 1.0 - mean(&falls)?.exp();
    (loss_share >= RETROGRADE_LOSS).then_some(Retrograde {
        peak_level: peak.level,
        loss_share,
        levels_after: falls.len(),
    })
}

fn phases_rule() -> String {
    format!(
        "linear up to the last level whose rate is at least {:.0} % of the linear extrapolation; \
         saturated from the last level that was worth its load, if levels follow it (from there on \
         ln(rate) grows by less than {WORTHWHILE_ELASTICITY} of ln(load)); onset between them; \
         retrograde after the highest rate, if the levels after it lie in the mean at least \
         {:.0} % below it",
        LINEAR_EFFICIENCY * 100.0,
        RETROGRADE_LOSS * 100.0
    )
}

/// A step is worth its load while it raises the rate by at least this share of what perfect scaling
/// would, on logarithmic scales: 0.1 is 7.2 % more rate for twice the load.
///
/// The published study that names optimal points (Xinnor and Reperio, 2025) draws its line between
/// 0.05 (random writes on xiRAID, 32 to 96 jobs: not worth it) and 0.19 (the same on md, 16 to 32
/// jobs: worth it); a tenth is their geometric mean.
pub const WORTHWHILE_ELASTICITY: f64 = 0.1;

/// The levels after which more load was not worth it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestPoints {
    /// Every level the step to which was worth it, and from which the next was not; rising.
    pub levels: Vec<f64>,
    /// The last of them.
    pub level: f64,
    pub rate_per_second: f64,
    pub latency_ns_mean: f64,
    /// Whether it is the last level measured: it may not be the end of scaling.
    pub at_ladder_end: bool,
    /// The rule, in words.
    pub rule: String,
}

/// Gain in rate per gain in load between two levels, both logarithmic.
pub(super) fn elasticity(from: &LadderPoint, to: &LadderPoint) -> f64 {
    (to.rate_per_second / from.rate_per_second).ln() / (to.level / from.level).ln()
}

/// The best points of checked points, of which there is at least one.
pub(super) fn best_points(points: &[LadderPoint]) -> BestPoints {
    let worth = worthwhile(points);
    // A run of levels that were worth it ends in one best point; after a plateau there may be a
    // second.
    let follows = |index: &usize| worth.contains(&(index + 1));
    let ends: Vec<&LadderPoint> =
        worth.iter().filter(|index| !follows(index)).filter_map(|i| points.get(*i)).collect();
    let best = ends.last().copied();
    BestPoints {
        levels: ends.iter().map(|point| point.level).collect(),
        level: best.map_or(0.0, |point| point.level),
        rate_per_second: best.map_or(0.0, |point| point.rate_per_second),
        latency_ns_mean: best.map_or(0.0, |point| point.latency_ns_mean),
        at_ladder_end: worth.last().is_some_and(|last| last + 1 == points.len()),
        rule: best_rule(),
    }
}

/// Positions of the levels that were worth going to from the last level that was: a level is
/// compared with that one, so that a dip and its recovery do not pass for growth.
fn worthwhile(points: &[LadderPoint]) -> Vec<usize> {
    let mut worth = Vec::new();
    let mut last: Option<&LadderPoint> = None;
    for (index, point) in points.iter().enumerate() {
        if last.is_none_or(|last| elasticity(last, point) >= WORTHWHILE_ELASTICITY) {
            worth.push(index);
            last = Some(point);
        }
    }
    worth
}

fn best_rule() -> String {
    format!(
        "a level is worth its load if ln(rate) has grown by at least {WORTHWHILE_ELASTICITY} of \
         what ln(load) has since the last level that was (7.2 % more rate for twice the load); a \
         best point is a level that is worth it before one that is not"
    )
}

/// A curve with a larger root mean square residual of ln(rate) does not fit.
const RESIDUAL_MAX: f64 = 0.15;

/// Two standard errors either side: about 95 %.
const ERRORS: f64 = 2.0;

/// A knee is reported if its interval's ends differ by less than this factor.
const INTERVAL_MAX: f64 = 4.0;

/// Where latency begins to grow because the storage has no more parallel units: by Little's law,
/// highest rate × latency without load. For an offered rate: the highest rate itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "knee")]
pub enum Knee {
    /// The ladder shows it.
    Measured {
        /// Highest rate measured × lowest mean latency measured: the parallel units of the storage
        /// (for an offered rate: the highest rate measured, per second).
        units: f64,
        /// The same from the fitted curve.
        fitted: f64,
        /// Lower end of the interval of `fitted`: two standard errors of the jackknife.
        fitted_low: f64,
        /// Upper end of it.
        fitted_high: f64,
    },
    /// The ladder ended before it.
    AtLeast {
        /// The ladder's result: highest rate × lowest mean latency (or the highest rate).
        units: f64,
        /// Why it is not known better.
        why: String,
    },
    /// The measurements do not show one.
    CannotTell {
        /// The evidence against a knee.
        why: String,
    },
}

/// The knee of checked points.
pub(super) fn knee(
    points: &[LadderPoint],
    kind: LadderKind,
    best: &BestPoints,
    saturation: Option<&Saturation>,
) -> Knee {
    let units = units(points, kind);
    if best.at_ladder_end {
        let why =
            format!("the rate still grows at the last level, {}; add higher levels", best.level);
        return Knee::AtLeast { units, why };
    }
    let why = match saturation {
        None => "the load does not rise with the level".to_owned(),
        Some(fit) if fit.residual_share > RESIDUAL_MAX => {
            format!(
                "no curve fits: the best misses the rates by {:.0} %",
                fit.residual_share * 100.0
            )
        }
        Some(fit) if 2.0 * ERRORS * fit.knee_log_error > INTERVAL_MAX.ln() => format!(
            "it depends on single levels: leaving one out in turn moves it by a factor of {:.1} \
             (standard error); add levels around {:.0}",
            fit.knee_log_error.exp(),
            fit.knee_load
        ),
        Some(fit) => {
            let (fitted, spread) = (fit.knee_load, (ERRORS * fit.knee_log_error).exp());
            let (fitted_low, fitted_high) = (fitted / spread, fitted * spread);
            return Knee::Measured { units, fitted, fitted_low, fitted_high };
        }
    };
    Knee::CannotTell { why }
}

fn units(points: &[LadderPoint], kind: LadderKind) -> f64 {
    let (_, highest) = range(points.iter().map(|point| point.rate_per_second));
    let (lowest, _) = range(points.iter().map(|point| point.latency_ns_mean));
    match kind {
        LadderKind::Jobs | LadderKind::Depth => highest * lowest / 1e9,
        LadderKind::OfferedRate => highest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::RateAndLatency;

    fn ladder(rates: &[(f64, f64)]) -> Vec<LadderPoint> {
        let point = |(level, rate): &(f64, f64)| {
            let part =
                RateAndLatency { rate_per_second: *rate, latency_ns_mean: 1e9 * level / rate };
            LadderPoint::of_means(*level, *level, part)
        };
        rates.iter().map(point).collect()
    }

    #[test]
    fn the_best_is_the_last_level_before_the_plateau() {
        let best = best_points(&ladder(&[
            (1.0, 10.0),
            (2.0, 20.0),
            (4.0, 30.0),
            (8.0, 31.0),
            (9.0, 31.5),
        ]));
        assert_eq!((best.levels, best.level, best.at_ladder_end), (vec![4.0], 4.0, false));
    }

    #[test]
    fn a_dip_and_its_recovery_do_not_pass_for_growth() {
        let best = best_points(&ladder(&[
            (1.0, 10.0),
            (2.0, 20.0),
            (3.0, 17.0),
            (4.0, 20.0),
            (5.0, 20.1),
        ]));
        assert_eq!(best.levels, [2.0]);
    }

    #[test]
    fn growth_after_a_plateau_is_a_second_best_point_at_the_end() {
        let best = best_points(&ladder(&[(1.0, 10.0), (2.0, 10.1), (4.0, 20.0), (8.0, 40.0)]));
        assert_eq!((best.levels, best.at_ladder_end), (vec![1.0, 8.0], true));
    }

    #[test]
    fn a_level_is_worth_its_load_from_a_tenth_of_perfect_scaling_on() {
        let best = |growth: f64| {
            let rate = 20.0 * 2_f64.powf(growth);
            best_points(&ladder(&[(1.0, 10.0), (2.0, 20.0), (4.0, rate)])).level
        };
        assert_eq!([best(0.099), best(0.101)], [2.0, 4.0]);
    }

    fn phases_of(rates: &[(f64, f64)]) -> Phases {
        let points = ladder(rates);
        phases(&points, &efficiencies(&points, LadderKind::Jobs), &best_points(&points))
    }

    #[test]
    fn scaling_is_linear_down_to_nine_tenths_of_the_best_rate_per_operation() {
        let linear = |share: f64| {
            let rates = [(1.0, 10.0), (2.0, 20.0), (4.0, 40.0 * share), (8.0, 55.0)];
            phases_of(&rates).linear_to_level
        };
        assert_eq!([linear(0.899), linear(0.901)], [2.0, 4.0]);
    }

    #[test]
    fn more_load_costs_rate_if_the_levels_after_the_peak_lie_5_percent_below_it() {
        let falls = |share: f64| {
            let after = 30.0 * (1.0 - share);
            // Their geometric mean.
            let rates =
                [(1.0, 10.0), (2.0, 20.0), (4.0, 30.0), (8.0, after * 1.01), (16.0, after / 1.01)];
            phases_of(&rates)
                .retrograde
                .map(|retrograde| (retrograde.peak_level, retrograde.levels_after))
        };
        assert_eq!([falls(0.049), falls(0.051)], [None, Some((4.0, 2))]);
    }

    /// The knee of a fit at 20 whose logarithm is so far off, and that misses the rates by so much.
    fn knee_of(knee_log_error: f64, residual_share: f64) -> Knee {
        let points = ladder(&[(1.0, 10.0), (2.0, 20.0), (4.0, 30.0), (8.0, 31.0), (9.0, 31.5)]);
        let fitted = super::super::saturation::fit(&points, LadderKind::Jobs).unwrap();
        let fit = Saturation { knee_load: 20.0, knee_log_error, residual_share, ..fitted };
        knee(&points, LadderKind::Jobs, &best_points(&points), Some(&fit))
    }

    #[test]
    fn a_knee_is_told_if_its_interval_ends_within_a_factor_of_four() {
        let Knee::Measured { fitted, fitted_low, fitted_high, .. } = knee_of(0.1, 0.01) else {
            panic!("{:?}", knee_of(0.1, 0.01));
        };
        // Two standard errors either side.
        let expected = [20.0, 20.0 / 0.2_f64.exp(), 20.0 * 0.2_f64.exp()];
        for (found, expected) in [fitted, fitted_low, fitted_high].into_iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found}, expected {expected}");
        }
        let is_measured =
            |error, residual| matches!(knee_of(error, residual), Knee::Measured { .. });
        // ln 4 is 1.3863, of which four standard errors are 0.3466 each.
        assert_eq!([is_measured(0.346, 0.01), is_measured(0.347, 0.01)], [true, false]);
        assert_eq!([is_measured(0.1, 0.149), is_measured(0.1, 0.151)], [true, false]);
    }

    #[test]
    fn a_ladder_has_four_levels_to_256() {
        let of = |levels: u32| {
            let rates: Vec<(f64, f64)> =
                (1..=levels).map(|at| (f64::from(at), 10.0 * f64::from(at))).collect();
            super::super::analyse(&ladder(&rates), LadderKind::Jobs).is_ok()
        };
        assert_eq!([of(3), of(4), of(256), of(257)], [false, true, true, false]);
    }

    #[test]
    fn a_dip_of_a_fifth_is_noise_that_no_model_smooths_over() {
        let of = |share: f64| {
            let rates = [(1.0, 10.0), (2.0, 20.0), (4.0, 20.0 * (1.0 - share)), (8.0, 25.0)];
            super::super::analyse(&ladder(&rates), LadderKind::Jobs).is_ok()
        };
        assert_eq!([of(0.199), of(0.201)], [true, false]);
    }

    #[test]
    fn littles_law_may_be_missed_by_a_tenth_and_exceeded_by_two_percent() {
        let notes = |share: f64| {
            let mut points = ladder(&[(1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 80.0)]);
            points[2].latency_ns_mean *= share;
            super::super::analyse(&points, LadderKind::Jobs).unwrap().notes
        };
        assert_eq!([notes(1.019), notes(0.901)], [[""; 0]; 2]);
        assert!(notes(1.021)[0].starts_with("level 4: ") && notes(1.021)[0].contains("impossible"));
        assert!(notes(0.899)[0].starts_with("level 4: ") && notes(0.899)[0].contains("shortfall"));
    }

    #[test]
    fn a_first_level_that_is_a_tenth_slower_per_operation_is_odd() {
        let notes = |share: f64| {
            let points = ladder(&[(1.0, 10.0 * share), (2.0, 20.0), (4.0, 40.0), (8.0, 80.0)]);
            super::super::analyse(&points, LadderKind::Jobs).unwrap().notes
        };
        assert_eq!(notes(0.901), [""; 0]);
        let said = notes(0.899);
        assert!(
            said[0].contains("highest at level") && said[0].contains("11 % above that of level 1"),
            "{said:?}"
        );
    }

    #[test]
    fn small_steps_are_judged_by_their_own_size() {
        // 12 % more load for 6 % more rate: an elasticity of a half.
        let best = best_points(&ladder(&[(100.0, 10.0), (112.0, 10.6), (125.0, 11.2)]));
        assert!(best.at_ladder_end);
    }
}
