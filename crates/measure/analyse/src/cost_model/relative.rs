//! Least squares of the relative error, and what to do with a point that lies far off.
//!
//! Each measured value has columns whose weighted sum should be that value. [`FittedParameters`] has the
//! weights as estimates, and the relative errors.
//!
//! Without a point far off this is plain least squares, whose intervals by Student's distribution
//! are exact for normal errors. With one, Huber's weights (Robust estimation of a location
//! parameter, 1964) keep it from moving the line, and the variance is corrected for what they take
//! away (Huber, Robust Statistics, 1981, section 7.6, the first of the three estimates there).

use super::{Estimate, NORMAL_MEDIAN, RESIDUAL_FLOOR, median_size, scatter};
use durio_base::stats::least_squares::{Solution, count, weighted};
use durio_base::stats::student::student_95;

/// Huber's constant: 95 % of the efficiency of least squares for normal errors.
// Smaller bounds lose more of that, larger ones let a wrong value pull harder.
const HUBER: f64 = 1.345;

/// Reweighting has converged long before.
const REWEIGHTINGS: usize = 30;

/// A point this many times the scatter off is far off.
// One in 15 000 normal errors is.
const FAR: f64 = 4.0;

/// No published or measured value is suspect for being this little off.
const FAR_MIN: f64 = 0.1;

/// Parameters, their intervals, and the relative errors that they leave.
#[derive(Debug, Clone)]
pub(crate) struct FittedParameters<const P: usize> {
    /// The parameters, each with its interval.
    pub(crate) estimates: [Estimate; P],
    /// 1 − model ÷ value, for each measured value.
    pub(crate) relative: Vec<f64>,
}

/// Fits values by sums of columns; `None` for dependent columns or values not above zero.
pub(crate) fn relative_fit<const P: usize>(
    columns: &[[f64; P]],
    figures: &[f64],
) -> Option<FittedParameters<P>> {
    if !figures.iter().all(|figure| figure.is_finite() && *figure > 0.0) {
        return None;
    }
    // Divided by the value, every residual is a relative error, and the target is 1.
    let scaled = columns.iter().zip(figures).map(|(row, figure)| row.map(|cell| cell / figure));
    let rows: Vec<[f64; P]> = scaled.collect();
    let targets = vec![1.0; rows.len()];
    let plain = weighted(&rows, &targets, &targets)?;
    let (robust, weights) = reweighted(&rows, &targets, plain.clone())?;
    let found = errors(&rows, &robust.parameters);
    // Weights that are always on made the intervals too narrow: their coverage was tested on 200
    // seeded runs (docs/design/0008).
    if has_far(&found, P) {
        let variance = corrected_variance(&found, &weights, P);
        return Some(finished(&robust.parameters, &plain, variance, found));
    }
    let found = errors(&rows, &plain.parameters);
    let squares: f64 = found.iter().map(|error| error * error).sum();
    let variance = squares / count(found.len().saturating_sub(P));
    Some(finished(&plain.parameters, &plain, variance, found))
}

/// `plain` gives the spread of the parameters for errors of one: that of the design alone.
fn finished<const P: usize>(
    parameters: &[f64; P],
    plain: &Solution<P>,
    variance: f64,
    relative: Vec<f64>,
) -> FittedParameters<P> {
    let quantile = student_95(relative.len().saturating_sub(P));
    let estimate = |i: usize| Estimate {
        value: parameters[i],
        plus_minus: quantile.map(|t| t * (variance * plain.unit_variance[i]).sqrt()),
    };
    FittedParameters { estimates: std::array::from_fn(estimate), relative }
}

/// Iteratively reweighted least squares.
fn reweighted<const P: usize>(
    rows: &[[f64; P]],
    targets: &[f64],
    mut solution: Solution<P>,
) -> Option<(Solution<P>, Vec<f64>)> {
    let mut weights = Vec::new();
    for _ in 0..REWEIGHTINGS {
        weights = huber_weights(&errors(rows, &solution.parameters));
        solution = weighted(rows, targets, &weights)?;
    }
    Some((solution, weights))
}

fn errors<const P: usize>(rows: &[[f64; P]], parameters: &[f64; P]) -> Vec<f64> {
    let predicted =
        |row: &[f64; P]| row.iter().zip(parameters).map(|(cell, p)| cell * p).sum::<f64>();
    rows.iter().map(|row| 1.0 - predicted(row)).collect()
}

fn huber_weights(errors: &[f64]) -> Vec<f64> {
    let bound = HUBER * scatter(errors);
    errors.iter().map(|error| (bound / error.abs()).min(1.0)).collect()
}

/// Whether any point lies far off.
fn has_far(errors: &[f64], parameters: usize) -> bool {
    // The median of few errors understates their scatter by the parameters fitted to them.
    let spare = errors.len().saturating_sub(parameters).max(1);
    let few = (count(errors.len()) / count(spare)).sqrt();
    let scatter = (NORMAL_MEDIAN * median_size(errors) * few).max(RESIDUAL_FLOOR);
    errors.iter().any(|error| error.abs() > (FAR * scatter).max(FAR_MIN))
}

/// K² · Σψ² ÷ (m − p) ÷ (mean ψ′)², with K = 1 + p ÷ m · (1 − mean ψ′) ÷ mean ψ′; ψ is the error times
/// its weight, and ψ′ is one for errors of full weight.
fn corrected_variance(errors: &[f64], weights: &[f64], parameters: usize) -> f64 {
    let points = count(errors.len());
    let full = weights.iter().filter(|weight| **weight >= 1.0).count();
    let slope = (count(full) / points).max(1.0 / points);
    let factor = 1.0 + count(parameters) / points * (1.0 - slope) / slope;
    let squares: f64 = errors.iter().zip(weights).map(|(e, w)| (e * w).powi(2)).sum();
    let degrees = count(errors.len().saturating_sub(parameters));
    factor * factor * squares / degrees / (slope * slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_loses_weight_beyond_1_345_times_the_scatter() {
        // The median is 0.1, the scatter 0.14826, the bound 0.19941.
        let weights = huber_weights(&[0.1, -0.1, 0.1994, -0.1, 0.398_82]);
        assert_eq!(weights[..4], [1.0; 4]);
        assert!((weights[4] - 0.5).abs() < 1e-4, "{weights:?}");
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
}
