//! The knee of a ladder: how many operations the storage works on at the same time.
//!
//! In: points, best point and the fitted curve. Out: [`Knee`]. Not here: the fit itself.

use serde::{Deserialize, Serialize};

use super::{BestPoints, LadderKind, Point, Saturation};

/// A curve that misses the figures by more than this, in the root mean square of ln(rate), is no
/// model of them.
const RESIDUAL_MAX: f64 = 0.15;

/// Two standard errors either side: about 95 %.
const ERRORS: f64 = 2.0;

/// A knee is told if its interval's ends differ by less than this factor.
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
        /// What the ladder reached: highest rate × lowest mean latency (or the highest rate).
        units: f64,
        /// Why it is not known better.
        why: String,
    },
    /// The figures do not tell.
    CannotTell {
        /// What stands against it.
        why: String,
    },
}

/// The knee of checked points.
pub(super) fn knee(
    points: &[Point],
    kind: LadderKind,
    best: &BestPoints,
    saturation: Option<&Saturation>,
) -> Knee {
    let units = units(points, kind);
    if best.at_ladder_end {
        let why = format!("the rate still grows at the last level, {}; go on raising", best.level);
        return Knee::AtLeast { units, why };
    }
    match saturation {
        None => cannot("the load does not rise with the level"),
        Some(fit) if fit.residual_share > RESIDUAL_MAX => cannot(&format!(
            "no curve fits: the best misses the rates by {:.0} %",
            fit.residual_share * 100.0
        )),
        Some(fit) if 2.0 * ERRORS * fit.knee_log_error > INTERVAL_MAX.ln() => cannot(&format!(
            "it depends on single levels: leaving one out in turn moves it by a factor of {:.1} \
             (standard error); add levels around {:.0}",
            fit.knee_log_error.exp(),
            fit.knee_load
        )),
        Some(fit) => measured(units, fit),
    }
}

fn measured(units: f64, fit: &Saturation) -> Knee {
    let spread = (ERRORS * fit.knee_log_error).exp();
    Knee::Measured {
        units,
        fitted: fit.knee_load,
        fitted_low: fit.knee_load / spread,
        fitted_high: fit.knee_load * spread,
    }
}

fn units(points: &[Point], kind: LadderKind) -> f64 {
    let highest = points.iter().map(|point| point.rate_per_second).fold(0.0, f64::max);
    let lowest = points.iter().map(|point| point.latency_ns_mean).fold(f64::INFINITY, f64::min);
    match kind {
        LadderKind::Jobs | LadderKind::Depth => highest * lowest / 1e9,
        LadderKind::OfferedRate => highest,
    }
}

fn cannot(why: &str) -> Knee {
    Knee::CannotTell { why: why.to_owned() }
}
