//! The cost of a durable write, as a function of its size.
//!
//! Sizes, and the mean time of a write of each, give a [`CostModel`]: a fixed cost, a cost per
//! byte, and the bend where the latter changes. Rates of more than one writer do not fit: their
//! time per write contains waiting for the others.
//!
//! The line is fitted by least squares of the relative error ([`relative_fit`]), so that the small
//! writes, whose time is the fixed cost, count as much as the large.
//!
//! Without a point far off this is plain least squares, whose intervals by Student's distribution
//! are exact for normal errors. With one, Huber's weights (Robust estimation of a location
//! parameter, 1964) keep it from moving the line, and the variance is corrected for what they take
//! away (Huber, Robust Statistics, 1981, section 7.6, the first of the three estimates there).

use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;
use durio_base::stats::least_squares::{
    NORMAL_MEDIAN, Solution, count, distinct, mean, median, weighted,
};
use durio_base::stats::student_95;

/// A size, as measured with one writer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeCost {
    pub size_bytes: f64,
    /// Mean time of a write until it is durable.
    pub latency_ns: f64,
}

impl SizeCost {
    /// From the bandwidth of one writer that waits for each write (dd's MB is 10⁶ bytes, others'
    /// 2²⁰).
    pub fn of_bandwidth(size_bytes: f64, bytes_per_second: f64) -> Self {
        Self { size_bytes, latency_ns: size_bytes / bytes_per_second * 1e9 }
    }
}

/// A value with the interval that covers it with 95 %, if the model holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// Half of the width of the interval; `None` without a point to spare.
    pub plus_minus: Option<f64>,
}

impl Estimate {
    /// The ends of the interval; `None` without one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.plus_minus.map(|half| (self.value - half, self.value + half))
    }

    /// True unless either half of the interval exceeds half of the value, which would mislead.
    pub fn is_known(&self) -> bool {
        self.value > 0.0 && self.plus_minus.is_none_or(|half| half <= KNOWN_WITHIN * self.value)
    }

    /// One over it, with the ends of its interval turned over: a bandwidth of a cost per byte. The
    /// upper end is `None` where the interval reaches zero: then any larger value is possible.
    pub fn inverse(&self) -> InverseEstimate {
        let end = |value: f64| (value > 0.0).then(|| 1.0 / value);
        let ends = self.interval();
        InverseEstimate {
            value: end(self.value),
            low: ends.and_then(|(_, high)| end(high)),
            high: ends.and_then(|(low, _)| end(low)),
        }
    }
}

/// One over an [`Estimate`]: its interval is not even on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InverseEstimate {
    /// The value; `None` if its divisor is not above zero.
    pub value: Option<f64>,
    /// The lower end of the interval that covers it with 95 %.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// A change of the cost per byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bend {
    /// The measured size at which it is.
    pub at_bytes: f64,
    /// It is below this, the next measured size.
    pub below_bytes: f64,
    /// Cost per byte beyond it.
    pub ns_per_byte_above: Estimate,
    pub evidence: String,
}

/// The cost of a write: `fixed_ns` + `ns_per_byte` × size, up to the bend if there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Cost of a write whatever its size.
    pub fixed_ns: Estimate,
    /// Cost of each byte, up to the bend.
    pub ns_per_byte: Estimate,
    /// Where the cost per byte changes.
    pub bend: Option<Bend>,
    /// Median of the relative errors' sizes.
    pub residual_share: f64,
    /// Size whose bytes cost as much as the write itself; `None` if bytes cost nothing.
    pub break_even_bytes: Option<f64>,
    /// Sizes whose time lies more than three times the scatter from the model, at least 10 %.
    pub outliers_bytes: Vec<f64>,
}

impl CostModel {
    /// Time of a write of this size by the model.
    pub fn latency_ns(&self, size_bytes: f64) -> f64 {
        let bent = self.bend.as_ref().map_or(0.0, |bend| {
            let change = bend.ns_per_byte_above.value - self.ns_per_byte.value;
            change * (size_bytes - bend.at_bytes).max(0.0)
        });
        self.fixed_ns.value + self.ns_per_byte.value * size_bytes + bent
    }
}

/// An interval's half width, as a share of its value, up to which the value is worth reading.
const KNOWN_WITHIN: f64 = 0.5;

/// A model that misses half of the times by more than this share describes nothing.
const MISSES_MAX: f64 = 0.25;

/// Fewest different sizes for a line.
pub const SIZES_MIN: usize = 3;

/// Fewest sizes for a bend: three for the line, one beyond the bend, one to spare.
pub const SIZES_FOR_BEND: usize = 5;

/// Most points that are taken.
pub const POINTS_MAX: usize = 1_000;

/// Smaller relative errors mean nothing.
// Published numbers have two or three digits.
const RESIDUAL_FLOOR: f64 = 0.005;

/// By so much the criterion of a bend must be smaller.
// Kass and Raftery (1995): smaller by 6 is strong evidence, by 10 very strong. A bend is tried at
// each of several sizes, and the best of them wins by chance more often than one would: of 400
// straight lines with errors of 5 %, strong evidence saw a bend in a tenth, very strong in a
// hundredth.
const STRONG: f64 = 10.0;

/// Fits the model.
///
/// # Errors
///
/// [`DeclinedAnalysis`] for fewer than [`SIZES_MIN`] different sizes, more than [`POINTS_MAX`] points, or
/// values that are not above zero.
pub fn fit(points: &[SizeCost]) -> Result<CostModel, DeclinedAnalysis> {
    DeclinedAnalysis::if_too_many("points", points.len(), POINTS_MAX)?;
    DeclinedAnalysis::unless_positive("size", points.iter().map(|point| point.size_bytes))?;
    DeclinedAnalysis::unless_positive("latency", points.iter().map(|point| point.latency_ns))?;
    let sizes = distinct(points.iter().map(|point| point.size_bytes));
    DeclinedAnalysis::unless_enough("different sizes", sizes.len(), SIZES_MIN)?;
    // Different, and yet too near each other for the digits: the columns are dependent then.
    let too_alike = || DeclinedAnalysis::TooFew {
        what: "sizes that differ enough".to_owned(),
        given: 1,
        needed: SIZES_MIN,
    };
    let straight = of_points(points, |size| [1.0, size]).ok_or_else(too_alike)?;
    let [fixed_ns, ns_per_byte] = straight.estimates;
    let bent = best_bend(points, &sizes, bayes(&straight.relative, 2));
    Ok(bent.unwrap_or_else(|| model(points, fixed_ns, ns_per_byte, None, &straight.relative)))
}

/// Fits the model, and declines one that does not describe the times.
pub(crate) fn describe(points: &[SizeCost]) -> Result<CostModel, DeclinedAnalysis> {
    let model = fit(points)?;
    let why = if model.residual_share > MISSES_MAX {
        format!("half of the times are off by more than {:.0} %", model.residual_share * 100.0)
    } else if !model.fixed_ns.is_known() {
        let (low, high) = model.fixed_ns.interval().unwrap_or_default();
        let [low, high] = [low, high].map(time);
        format!("the scatter allows any fixed cost from {low} to {high}")
    } else {
        return Ok(model);
    };
    Err(DeclinedAnalysis::DoesNotDescribe {
        model: "a model of fixed cost and bandwidth".to_owned(),
        why,
    })
}

/// A time; negative values, possible at an interval's end, become zero.
pub(crate) fn time(nanos: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let whole = nanos.round() as u64;
    durio_base::Nanos::new(whole).to_string()
}

fn of_points<const P: usize>(
    points: &[SizeCost],
    columns: impl Fn(f64) -> [f64; P],
) -> Option<FittedParameters<P>> {
    let rows: Vec<[f64; P]> = points.iter().map(|point| columns(point.size_bytes)).collect();
    let latencies: Vec<f64> = points.iter().map(|point| point.latency_ns).collect();
    relative_fit(&rows, &latencies)
}

/// Scale of the errors by their median; at least the floor.
fn scatter(errors: &[f64]) -> f64 {
    (NORMAL_MEDIAN * median_size(errors)).max(RESIDUAL_FLOOR)
}

fn median_size(errors: &[f64]) -> f64 {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    median(&sizes).unwrap_or_default()
}

/// Schwarz' criterion for errors of Laplace's distribution, 2m ln(mean size) + k ln m.
// A point far off counts by its distance, not by the square of it.
fn bayes(errors: &[f64], parameters: usize) -> f64 {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let points = count(errors.len());
    let spread = mean(&sizes).unwrap_or_default().max(RESIDUAL_FLOOR);
    2.0 * points * spread.ln() + count(parameters) * points.ln()
}

/// The bent line with the smallest criterion, if that is strongly better than the straight one. The
/// bend is tried at each measured size that has two below it and one above.
fn best_bend(points: &[SizeCost], sizes: &[f64], straight: f64) -> Option<CostModel> {
    if sizes.len() < SIZES_FOR_BEND {
        return None;
    }
    // Two sizes below the bend and it itself hold the first line, one above holds the second.
    let tried = sizes.windows(2).skip(2).filter_map(|pair| {
        let &[at, next] = pair else { return None };
        // A hinge: the lines meet at the bend. A jump would need one parameter more, and few sizes
        // bear it.
        let fit = of_points(points, |size| [1.0, size, (size - at).max(0.0)])?;
        // The place of the bend is a parameter, too.
        Some((bayes(&fit.relative, 4), at, next, fit))
    });
    let (criterion, at_bytes, below_bytes, fit) = tried.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let better = straight - criterion;
    if better < STRONG {
        return None;
    }
    let [fixed_ns, ns_per_byte, change] = fit.estimates;
    // As if both were independent: a steeper first line leaves less change, so that the interval
    // comes out too wide rather than too narrow.
    let both = |(a, b): (f64, f64)| (a.powi(2) + b.powi(2)).sqrt();
    let above = Estimate {
        value: ns_per_byte.value + change.value,
        plus_minus: change.plus_minus.zip(ns_per_byte.plus_minus).map(both),
    };
    let sizes = points.iter().map(|point| point.size_bytes);
    let beyond = distinct(sizes.filter(|size| *size > at_bytes));
    let caution = if beyond.len() == 1 {
        "; only one size is beyond it, so a single wrong result would look the same"
    } else {
        ""
    };
    let evidence = format!(
        "a byte costs {:.3} ns up to {at_bytes:.0} bytes and {:.3} ns beyond; the criterion for two \
         lines is smaller by {better:.0} (very strong from {STRONG} on){caution}",
        ns_per_byte.value, above.value
    );
    let bend = Bend { at_bytes, below_bytes, ns_per_byte_above: above, evidence };
    Some(model(points, fixed_ns, ns_per_byte, Some(bend), &fit.relative))
}

fn model(
    points: &[SizeCost],
    fixed_ns: Estimate,
    ns_per_byte: Estimate,
    bend: Option<Bend>,
    errors: &[f64],
) -> CostModel {
    // 3 in 1000 normal errors lie farther out.
    let far = (3.0 * scatter(errors)).max(0.1);
    let outliers = points.iter().zip(errors).filter(|(_, error)| error.abs() > far);
    let is_cost = fixed_ns.value > 0.0 && ns_per_byte.value > 0.0;
    CostModel {
        fixed_ns,
        ns_per_byte,
        bend,
        residual_share: median_size(errors),
        break_even_bytes: is_cost.then(|| fixed_ns.value / ns_per_byte.value),
        outliers_bytes: outliers.map(|(point, _)| point.size_bytes).collect(),
    }
}

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
mod tests;
