//! Fits a curve of rate against load to a ladder.
//!
//! The points give a [`Saturation`], the best of three models. Phases and best points come from the
//! measurements and need no model.
//!
//! The load is scaled so that the first level is 1, and residuals are taken of ln(rate): a relative
//! error counts the same at every level. Rates are relative to the first, so that no digit of a
//! residual depends on their unit. Their scale then follows from the mean residual, and one or two
//! parameters of shape remain; they are searched on a grid that closes in.

use serde::{Deserialize, Serialize};

use super::phases::load;
use super::{LadderKind, LadderPoint};
use durio_base::stats::least_squares::{count, mean};

/// A curve of rate against load, with its shape's parameters. Loads are scaled: `u` is 1 at the first
/// level; `r` is the rate per load of a storage without load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "model")]
pub enum SaturationModel {
    /// min(r·u, r·knee): the asymptotic bounds of a closed queueing network (Denning and Buzen,
    /// 1978; Lazowska and others, Quantitative System Performance, 1984, chapter 5).
    TwoAsymptotes,
    /// r·u ÷ (1 + (u ÷ knee)^p)^(1/p): the same asymptotes, joined smoothly; sharper for larger p.
    SmoothAsymptotes {
        /// p, 1 to 16.
        sharpness: f64,
    },
    /// r·u ÷ (1 + σ(u−1) + κu(u−1)): Gunther's universal scalability law (Guerrilla Capacity
    /// Planning, 2007, chapter 4); the only one of the three that falls for a large load.
    UniversalScalability {
        /// σ: the share that is serial, waiting for something shared.
        contention: f64,
        /// κ: cost per pair, of agreeing among each other.
        coherency: f64,
    },
}

/// The curve that fits best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    #[serde(flatten)]
    pub model: SaturationModel,
    /// r: operations per second per operation in flight (or per offered operation per second).
    pub unloaded_rate_per_load: f64,
    /// Highest rate of the curve, at whatever load.
    pub highest_rate_per_second: f64,
    /// Load at which the asymptotes cross: highest rate ÷ unloaded rate per load.
    pub knee_load: f64,
    /// Standard error of ln(knee) by the jackknife (Tukey 1958): each level left out in turn.
    pub knee_log_error: f64,
    /// Root of the mean squared residual of ln(rate).
    pub residual_share: f64,
    /// The criterion by which this curve was chosen, in words.
    pub criterion: String,
}

/// A smaller residual counts as this.
// Published rates have three digits, and repeated ones differ more: below it a residual says
// nothing, and would let a curve with more parameters win by fitting the rounding.
const RESIDUAL_FLOOR: f64 = 0.005;

/// Grid points per parameter, and how often the grid closes in around the best of them.
const GRID: usize = 17;
// Each round closes in to a quarter: after nine a step is a millionth of the range (4⁻⁸ ÷ 16).
const ROUNDS: usize = 9;

/// A curve to search for, with its shape's parameters as logarithms.
#[derive(Debug, Clone, Copy)]
enum CurveCandidate {
    Two,
    Smooth,
    Universal,
}

/// In order of parsimony: a tie goes to the first.
const CANDIDATES: [CurveCandidate; 3] =
    [CurveCandidate::Two, CurveCandidate::Smooth, CurveCandidate::Universal];

/// Loads and logarithmic rates, both relative to the first.
struct LoadRates {
    loads: Vec<f64>,
    log_rates: Vec<f64>,
}

/// A shape with the logarithmic rate at load 1 that suits it, and its residual.
#[derive(Debug, Clone, Copy)]
struct FittedShape {
    at: [f64; 2],
    log_unit_rate: f64,
    squares: f64,
}

/// The best of the three curves; `None` if the load does not rise.
pub(super) fn fit(points: &[LadderPoint], kind: LadderKind) -> Option<Saturation> {
    let (first, first_rate) = (load(points.first()?, kind), points.first()?.rate_per_second);
    let data = LoadRates {
        loads: points.iter().map(|point| load(point, kind) / first).collect(),
        // Relative to the first: the knee of a ladder whose rate only falls once depended on the
        // unit.
        log_rates: points.iter().map(|point| (point.rate_per_second / first_rate).ln()).collect(),
    };
    let reach = data.loads.iter().copied().fold(0.0, f64::max);
    if reach <= 1.0 || !reach.is_finite() {
        return None;
    }
    let fits = CANDIDATES.map(|candidate| (candidate, search(candidate, &data, reach)));
    let criterion = |fit: &(CurveCandidate, FittedShape)| bayes(fit.0, &fit.1, data.loads.len());
    let (candidate, fitted) =
        // Strictly smaller: at a tie the curve with fewer parameters stays.
        fits.into_iter().reduce(|a, b| if criterion(&b) < criterion(&a) { b } else { a })?;
    Some(saturation(candidate, &fitted, &data, reach, [first, first_rate]))
}

/// Schwarz' criterion (1978): m ln(S ÷ m) + k ln m, with the residuals' floor.
fn bayes(candidate: CurveCandidate, fitted: &FittedShape, levels: usize) -> f64 {
    let levels = count(levels);
    let parameters = if matches!(candidate, CurveCandidate::Two) { 2.0 } else { 3.0 };
    let variance = (fitted.squares / levels).max(RESIDUAL_FLOOR * RESIDUAL_FLOOR);
    levels * variance.ln() + parameters * levels.ln()
}

fn saturation(
    candidate: CurveCandidate,
    fitted: &FittedShape,
    data: &LoadRates,
    reach: f64,
    [first, first_rate]: [f64; 2],
) -> Saturation {
    let log_knee = candidate.log_knee(fitted.at);
    Saturation {
        model: candidate.model(fitted.at),
        unloaded_rate_per_load: fitted.log_unit_rate.exp() * first_rate / first,
        highest_rate_per_second: (fitted.log_unit_rate + log_knee).exp() * first_rate,
        knee_load: log_knee.exp() * first,
        knee_log_error: jackknife(candidate, data, reach),
        residual_share: (fitted.squares / count(data.loads.len())).sqrt(),
        criterion: format!(
            "least squares of ln(rate); of three curves the one with the smallest Bayesian \
             information criterion, residuals below {RESIDUAL_FLOOR} taken as that"
        ),
    }
}

/// Standard error of ln(knee): √((m−1)/m · Σ(θᵢ − θ̄)²).
fn jackknife(candidate: CurveCandidate, data: &LoadRates, reach: f64) -> f64 {
    let levels = data.loads.len();
    let without = |left_out: usize| {
        let keep = |values: &[f64]| -> Vec<f64> {
            let kept = values.iter().enumerate().filter(|(index, _)| *index != left_out);
            kept.map(|(_, value)| *value).collect()
        };
        LoadRates { loads: keep(&data.loads), log_rates: keep(&data.log_rates) }
    };
    // The same curve each time: choosing again would put the choice into the error of the knee.
    let knees: Vec<f64> = (0..levels)
        .map(|left_out| candidate.log_knee(search(candidate, &without(left_out), reach).at))
        .collect();
    let centre = mean(&knees).unwrap_or_default();
    let squares: f64 = knees.iter().map(|knee| (knee - centre).powi(2)).sum();
    (squares * (count(levels) - 1.0) / count(levels)).sqrt()
}

/// The best shape on a grid that closes in.
fn search(candidate: CurveCandidate, data: &LoadRates, reach: f64) -> FittedShape {
    let mut bounds = candidate.bounds(reach);
    let mut best: Option<FittedShape> = None;
    for _ in 0..ROUNDS {
        for at in grid(bounds) {
            let fitted = residual(candidate, at, data);
            if best.is_none_or(|best| fitted.squares < best.squares) {
                best = Some(fitted);
            }
        }
        bounds = closer(bounds, candidate.bounds(reach), best.map_or([0.0; 2], |best| best.at));
    }
    best.unwrap_or(FittedShape { at: [0.0; 2], log_unit_rate: 0.0, squares: f64::INFINITY })
}

type ShapeBounds = [(f64, f64); 2];

fn grid(bounds: ShapeBounds) -> impl Iterator<Item = [f64; 2]> {
    let along = |(low, high): (f64, f64)| {
        let steps = if high > low { GRID } else { 1 };
        let width = (high - low) / count(GRID - 1);
        (0..steps).map(move |step| low + width * count(step))
    };
    along(bounds[0]).flat_map(move |first| along(bounds[1]).map(move |second| [first, second]))
}

/// Bounds a quarter as wide around the best, within the outer ones.
fn closer(bounds: ShapeBounds, outer: ShapeBounds, best: [f64; 2]) -> ShapeBounds {
    std::array::from_fn(|i| {
        let reach = (bounds[i].1 - bounds[i].0) / 8.0;
        ((best[i] - reach).max(outer[i].0), (best[i] + reach).min(outer[i].1))
    })
}

fn residual(candidate: CurveCandidate, at: [f64; 2], data: &LoadRates) -> FittedShape {
    let left: Vec<f64> = data
        .loads
        .iter()
        .zip(&data.log_rates)
        .map(|(load, log_rate)| log_rate - load.ln() - candidate.log_drop(at, *load))
        .collect();
    let log_unit_rate = mean(&left).unwrap_or_default();
    let squares = left.iter().map(|left| (left - log_unit_rate).powi(2)).sum();
    FittedShape { at, log_unit_rate, squares }
}

impl CurveCandidate {
    /// Where the logarithms of the parameters of shape may lie, for loads of 1 to `reach`. A smooth
    /// knee beyond eight times the last level looks like no knee; a sharp one outside of the levels
    /// looks like one at their end.
    fn bounds(self, reach: f64) -> ShapeBounds {
        let knee = (0.125_f64.ln(), (8.0 * reach).ln());
        match self {
            Self::Two => [(0.0, reach.ln()), (0.0, 0.0)],
            Self::Smooth => [knee, (0.0, 16.0_f64.ln())],
            // Below these no ladder loses anything that could be measured; logarithms need an end.
            Self::Universal => [(1e-8_f64.ln(), 0.0), (1e-14_f64.ln(), 0.0)],
        }
    }

    /// ln of the share of linear scaling that is left at a load.
    fn log_drop(self, at: [f64; 2], load: f64) -> f64 {
        match self {
            Self::Two => -(load.ln() - at[0]).max(0.0),
            Self::Smooth => {
                let (log_ratio, sharpness) = (load.ln() - at[0], at[1].exp());
                // The larger of the two terms is taken out: no power can overflow.
                -log_ratio.max(0.0) - (-sharpness * log_ratio.abs()).exp().ln_1p() / sharpness
            }
            Self::Universal => {
                let [contention, coherency] = at.map(f64::exp);
                -((load - 1.0) * (contention + coherency * load)).ln_1p()
            }
        }
    }

    /// ln of the knee: highest rate over the rate at load 1.
    fn log_knee(self, at: [f64; 2]) -> f64 {
        match self {
            Self::Two | Self::Smooth => at[0],
            Self::Universal => {
                let [contention, coherency] = at.map(f64::exp);
                // The maximum of the law, where its derivative is zero.
                let peak = ((1.0 - contention) / coherency).sqrt().max(1.0);
                peak.ln() + self.log_drop(at, peak)
            }
        }
    }

    fn model(self, at: [f64; 2]) -> SaturationModel {
        match self {
            Self::Two => SaturationModel::TwoAsymptotes,
            Self::Smooth => SaturationModel::SmoothAsymptotes { sharpness: at[1].exp() },
            Self::Universal => SaturationModel::UniversalScalability {
                contention: at[0].exp(),
                coherency: at[1].exp(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::RateAndLatency;

    fn ladder(levels: &[f64], mut rate: impl FnMut(f64) -> f64) -> Vec<LadderPoint> {
        let point = |level: &f64| {
            let part = RateAndLatency { rate_per_second: rate(*level), latency_ns_mean: 1e5 };
            LadderPoint::of_means(*level, *level, part)
        };
        levels.iter().map(point).collect()
    }

    const DOUBLING: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

    #[test]
    fn two_planted_asymptotes_are_found() {
        let found = fit(&ladder(&DOUBLING, |n| 1e4 * n.min(24.0)), LadderKind::Depth).unwrap();
        assert_eq!(found.model, SaturationModel::TwoAsymptotes);
        assert!((found.knee_load / 24.0 - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.highest_rate_per_second / 2.4e5 - 1.0).abs() < 1e-3);
        assert!(found.residual_share < 1e-3 && found.knee_log_error < 0.01, "{found:?}");
    }

    #[test]
    fn a_planted_smooth_knee_is_found_with_its_sharpness() {
        let smooth = |n: f64| 5e3 * n / (1.0 + (n / 30.0).powi(3)).powf(1.0 / 3.0);
        let found = fit(&ladder(&DOUBLING, smooth), LadderKind::Depth).unwrap();
        let SaturationModel::SmoothAsymptotes { sharpness } = found.model else {
            panic!("{found:?}")
        };
        assert!((sharpness - 3.0).abs() < 0.05, "{found:?}");
        assert!((found.knee_load / 30.0 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_planted_universal_law_is_found_with_its_parameters() {
        let law = |n: f64| 1e4 * n / (1.0 + 0.03 * (n - 1.0) + 2e-4 * n * (n - 1.0));
        let found = fit(&ladder(&DOUBLING, law), LadderKind::Jobs).unwrap();
        let SaturationModel::UniversalScalability { contention, coherency } = found.model else {
            panic!("{found:?}")
        };
        assert!((contention / 0.03 - 1.0).abs() < 0.03, "{found:?}");
        assert!((coherency / 2e-4 - 1.0).abs() < 0.03, "{found:?}");
        let peak = law((0.97_f64 / 2e-4).sqrt());
        assert!((found.highest_rate_per_second / peak - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn rates_that_only_fall_have_their_knee_at_the_first_level_in_any_unit() {
        let levels = [1.0, 2.866_301_192_925_726, 3.009_616_252_572_015_5, 7.289_143_924_126_074];
        let rates = [1e4, 9e3, 8.1e3, 11_481.831_242_332_157];
        for unit in [1.0, 0.5, 1e-3, 3.7] {
            let mut rates = rates.iter().map(|rate| rate * unit);
            let found = fit(&ladder(&levels, |_| rates.next().unwrap()), LadderKind::Jobs);
            let found = found.unwrap();
            assert_eq!(found.model, SaturationModel::TwoAsymptotes);
            assert!((found.knee_load - 1.0).abs() < 1e-9, "{found:?}");
            assert!(
                (found.highest_rate_per_second / unit / 9_560.0 - 1.0).abs() < 0.01,
                "{found:?}"
            );
        }
    }

    #[test]
    fn residuals_below_half_a_percent_are_as_good_as_none() {
        let of = |candidate, residual: f64| {
            let squares = 8.0 * residual * residual;
            bayes(candidate, &FittedShape { at: [0.0; 2], log_unit_rate: 0.0, squares }, 8)
        };
        let none = of(CurveCandidate::Two, 0.0);
        assert_eq!(of(CurveCandidate::Two, 0.0049).to_bits(), none.to_bits());
        assert!(of(CurveCandidate::Two, 0.0051) > none);
        // One parameter more costs ln 8.
        assert!((of(CurveCandidate::Smooth, 0.0049) - none - 8.0_f64.ln()).abs() < 1e-9);
        let found = fit(&ladder(&DOUBLING, |n| n.min(24.0)), LadderKind::Depth).unwrap();
        assert!(found.criterion.contains("residuals below 0.005 "), "{}", found.criterion);
    }

    #[test]
    fn noise_widens_the_error_of_the_knee() {
        let quiet = fit(&ladder(&DOUBLING, |n| n.min(24.0)), LadderKind::Depth).unwrap();
        let mut points = ladder(&DOUBLING, |n| n.min(24.0));
        let noise = [0.05, -0.04, 0.03, -0.05, 0.04, -0.03, 0.05, -0.04, 0.02];
        points
            .iter_mut()
            .zip(noise)
            .for_each(|(point, share)| point.rate_per_second *= 1.0 + share);
        let noisy = fit(&points, LadderKind::Depth).unwrap();
        assert!(noisy.knee_log_error > 4.0 * quiet.knee_log_error.max(0.005), "{noisy:?}");
        assert!((noisy.knee_load / 24.0).ln().abs() < 3.0 * noisy.knee_log_error, "{noisy:?}");
    }
}
