//! Which levels of a ladder were the last that were worth their load.
//!
//! In: the points. Out: [`BestPoints`]. Not here: whether their latency is good enough for anybody.

use serde::{Deserialize, Serialize};

use super::Point;

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
    /// Rate there.
    pub rate_per_second: f64,
    /// Mean latency there.
    pub latency_ns_mean: f64,
    /// Whether it is the last level measured: it may not be the end of scaling.
    pub at_ladder_end: bool,
    /// The rule, in words.
    pub rule: String,
}

/// Gain in rate per gain in load between two levels, both logarithmic.
pub(super) fn elasticity(from: &Point, to: &Point) -> f64 {
    (to.rate_per_second / from.rate_per_second).ln() / (to.level / from.level).ln()
}

/// The best points of checked points, of which there is at least one.
pub(super) fn best_points(points: &[Point]) -> BestPoints {
    let worth = worthwhile(points);
    let follows = |index: &usize| worth.contains(&(index + 1));
    let ends: Vec<&Point> =
        worth.iter().filter(|index| !follows(index)).filter_map(|i| points.get(*i)).collect();
    let best = ends.last().copied();
    BestPoints {
        levels: ends.iter().map(|point| point.level).collect(),
        level: best.map_or(0.0, |point| point.level),
        rate_per_second: best.map_or(0.0, |point| point.rate_per_second),
        latency_ns_mean: best.map_or(0.0, |point| point.latency_ns_mean),
        at_ladder_end: worth.last().is_some_and(|last| last + 1 == points.len()),
        rule: rule(),
    }
}

/// Positions of the levels that were worth going to from the last level that was: a level is
/// compared with that one, so that a dip and its recovery do not pass for growth.
fn worthwhile(points: &[Point]) -> Vec<usize> {
    let mut worth = Vec::new();
    let mut last: Option<&Point> = None;
    for (index, point) in points.iter().enumerate() {
        if last.is_none_or(|last| elasticity(last, point) >= WORTHWHILE_ELASTICITY) {
            worth.push(index);
            last = Some(point);
        }
    }
    worth
}

fn rule() -> String {
    format!(
        "a level is worth its load if ln(rate) has grown by at least {WORTHWHILE_ELASTICITY} of \
         what ln(load) has since the last level that was (7.2 % more rate for twice the load); a \
         best point is a level that is worth it before one that is not"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::Part;

    fn ladder(rates: &[(f64, f64)]) -> Vec<Point> {
        let point = |(level, rate): &(f64, f64)| {
            let part = Part { rate_per_second: *rate, latency_ns_mean: 1e9 * level / rate };
            Point::of_means(*level, *level, part)
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
    fn small_steps_are_judged_by_their_own_size() {
        // 12 % more load for 6 % more rate: an elasticity of a half.
        let best = best_points(&ladder(&[(100.0, 10.0), (112.0, 10.6), (125.0, 11.2)]));
        assert!(best.at_ladder_end);
    }
}
