//! The three phases of a ladder, and a fourth: linear, onset, saturated, retrograde.
//!
//! In: points, their efficiencies and the best point. Out: [`Phases`]. Not here: the fitted curve.

use serde::{Deserialize, Serialize};

use super::{BestPoints, LadderKind, Point, WORTHWHILE_ELASTICITY};
use durio_stats::least_squares::mean;

/// Scaling is linear while the rate is at least this share of the linear extrapolation; a tenth is
/// what a plain measurement of latency at a low depth may be off by.
pub const LINEAR_EFFICIENCY: f64 = 0.90;

/// More load costs rate if the levels after the highest rate lie, in the mean, at least this share
/// below it; a plateau's own ups and downs in the published ladders are below 4 %.
pub const RETROGRADE_LOSS: f64 = 0.05;

/// Where a level lies on the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
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

/// Where the phases begin and end; between `linear_to` and `saturated_from` lies the onset.
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
    /// The phase of a level. A level that is the last of the linear phase and the first of
    /// saturation, a sharp knee, is linear.
    #[must_use]
    pub fn of(&self, level: f64) -> Phase {
        if level <= self.linear_to_level {
            Phase::Linear
        } else if self.retrograde.is_some_and(|back| level > back.peak_level) {
            Phase::Retrograde
        } else if self.saturated_from_level.is_some_and(|from| level >= from) {
            Phase::Saturated
        } else {
            Phase::Onset
        }
    }
}

/// What load is measured in: operations in flight, or the offered rate.
pub(super) fn load(point: &Point, kind: LadderKind) -> f64 {
    match kind {
        LadderKind::Jobs | LadderKind::Depth => point.in_flight,
        LadderKind::OfferedRate => point.level,
    }
}

/// Rate of each point as a share of the linear extrapolation: of the best rate per operation in
/// flight that the ladder has, or of the offered rate itself.
pub(super) fn efficiencies(points: &[Point], kind: LadderKind) -> Vec<f64> {
    let per_load = |point: &Point| point.rate_per_second / load(point, kind);
    let unit = match kind {
        LadderKind::Jobs | LadderKind::Depth => points.iter().map(per_load).fold(0.0, f64::max),
        LadderKind::OfferedRate => 1.0,
    };
    points.iter().map(|point| per_load(point) / unit).collect()
}

/// The phases of checked points.
pub(super) fn phases(points: &[Point], efficiencies: &[f64], best: &BestPoints) -> Phases {
    let is_linear = |pair: &(&Point, &f64)| *pair.1 >= LINEAR_EFFICIENCY;
    let linear = points.iter().zip(efficiencies).rev().find(is_linear);
    // An offered rate may never be achieved, not even at the first level.
    let linear_to_level = linear.map_or(0.0, |(point, _)| point.level);
    let saturated_from_level = (!best.at_ladder_end).then_some(best.level);
    Phases {
        linear_to_level: saturated_from_level.map_or(linear_to_level, |it| it.min(linear_to_level)),
        saturated_from_level,
        retrograde: retrograde(points),
        rule: rule(),
    }
}

fn retrograde(points: &[Point]) -> Option<Retrograde> {
    let highest = |a: &&Point, b: &&Point| a.rate_per_second.total_cmp(&b.rate_per_second);
    let peak = points.iter().max_by(highest)?;
    let after = points.iter().filter(|point| point.level > peak.level);
    let falls: Vec<f64> =
        after.map(|point| (point.rate_per_second / peak.rate_per_second).ln()).collect();
    let loss_share = 1.0 - mean(&falls)?.exp();
    (loss_share >= RETROGRADE_LOSS).then_some(Retrograde {
        peak_level: peak.level,
        loss_share,
        levels_after: falls.len(),
    })
}

fn rule() -> String {
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
