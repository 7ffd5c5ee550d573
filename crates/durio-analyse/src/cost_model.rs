//! What a durable write costs, as a function of its size.
//!
//! In: sizes, and the mean time of a write of each. Out: [`CostModel`]: a fixed cost, a cost per
//! byte, and the bend where the latter changes. Not here: rates of more than one writer, whose time
//! per write contains waiting for the others.
//!
//! The line is fitted by least squares of the relative error, so that the small writes, whose time
//! is the fixed cost, count as much as the large; a point that lies far off counts less by Huber's
//! weights (1964).

use serde::{Deserialize, Serialize};

use crate::Declined;
use crate::least_squares::{count, mean, median, student_95, weighted};

/// A size, as measured with one writer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeCost {
    /// Bytes per write.
    pub size_bytes: f64,
    /// Mean time of a write until it is durable.
    pub latency_ns: f64,
}

impl SizeCost {
    /// From a bandwidth in bytes per second that one writer achieved, waiting for each write. Mind
    /// the unit: dd's MB is 10⁶ bytes, many other programs' is 2²⁰.
    #[must_use]
    pub fn of_bandwidth(size_bytes: f64, bytes_per_second: f64) -> Self {
        Self { size_bytes, latency_ns: size_bytes / bytes_per_second * 1e9 }
    }
}

/// A figure with the interval that covers it with 95 %, as far as the model holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Half of the width of the interval; `None` without a point to spare.
    pub plus_minus: Option<f64>,
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
    /// What the figures say for it, and how much.
    pub evidence: String,
}

/// What a write costs: `fixed_ns` + `ns_per_byte` × size, up to the bend if there is one.
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
    /// The size whose bytes cost as much as the write itself; `None` if bytes cost nothing. Smaller
    /// writes pay for their number.
    pub break_even_bytes: Option<f64>,
    /// Sizes whose time lies more than three times the scatter from the model, at least 10 %.
    pub outliers_bytes: Vec<f64>,
}

impl CostModel {
    /// Time of a write of this size by the model.
    #[must_use]
    pub fn latency_ns(&self, size_bytes: f64) -> f64 {
        let bent = self.bend.as_ref().map_or(0.0, |bend| {
            let change = bend.ns_per_byte_above.value - self.ns_per_byte.value;
            change * (size_bytes - bend.at_bytes).max(0.0)
        });
        self.fixed_ns.value + self.ns_per_byte.value * size_bytes + bent
    }
}

/// Fewest different sizes for a line.
pub const SIZES_MIN: usize = 3;

/// Fewest different sizes for a bend: a line has three, the part beyond it one more of its own, and
/// one is to spare.
pub const SIZES_FOR_BEND: usize = 5;

/// Most points that are taken.
pub const POINTS_MAX: usize = 1_000;

/// Published figures have two or three digits: smaller relative errors say nothing.
const RESIDUAL_FLOOR: f64 = 0.005;

/// Kass and Raftery (1995): a criterion smaller by 6 is strong evidence, by 10 very strong.
const STRONG: f64 = 6.0;

/// Huber's constant: 95 % of the efficiency of least squares for normal errors.
const HUBER: f64 = 1.345;

/// From the median of absolute errors to the standard deviation of normal ones.
const NORMAL_MEDIAN: f64 = 1.4826;

/// Reweighting has converged long before.
const REWEIGHTINGS: usize = 30;

/// Fits the model.
///
/// # Errors
///
/// [`Declined`] for fewer than [`SIZES_MIN`] different sizes, more than [`POINTS_MAX`] points, or
/// figures that are not above zero.
pub fn fit(points: &[SizeCost]) -> Result<CostModel, Declined> {
    Declined::if_too_many("points", points.len(), POINTS_MAX)?;
    Declined::unless_positive("size", points.iter().map(|point| point.size_bytes))?;
    Declined::unless_positive("latency", points.iter().map(|point| point.latency_ns))?;
    let sizes = different_sizes(points);
    Declined::unless_enough("different sizes", sizes.len(), SIZES_MIN)?;
    let too_alike = || Declined::TooFew {
        what: "sizes that differ enough".to_owned(),
        given: 1,
        needed: SIZES_MIN,
    };
    let straight = robust(points, |size| [1.0, size]).ok_or_else(too_alike)?;
    match best_bend(points, &sizes, bayes(&straight.relative, 2)) {
        Some(bent) => Ok(bent),
        None => Ok(straight_model(points, &straight)),
    }
}

fn different_sizes(points: &[SizeCost]) -> Vec<f64> {
    let mut sizes: Vec<f64> = points.iter().map(|point| point.size_bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// Parameters, their intervals, and the relative errors that they leave.
struct Robust<const P: usize> {
    estimates: [Estimate; P],
    relative: Vec<f64>,
}

/// Iteratively reweighted least squares of the relative error.
fn robust<const P: usize>(
    points: &[SizeCost],
    columns: impl Fn(f64) -> [f64; P],
) -> Option<Robust<P>> {
    let rows: Vec<[f64; P]> = points
        .iter()
        .map(|point| columns(point.size_bytes).map(|cell| cell / point.latency_ns))
        .collect();
    let targets = vec![1.0; rows.len()];
    let mut weights = vec![1.0; rows.len()];
    let mut solution = weighted(&rows, &targets, &weights)?;
    for _ in 0..REWEIGHTINGS {
        weights = huber_weights(&errors(&rows, &solution.parameters));
        solution = weighted(&rows, &targets, &weights)?;
    }
    let relative = errors(&rows, &solution.parameters);
    let degrees = rows.len().saturating_sub(P);
    let squares: f64 = relative.iter().zip(&weights).map(|(e, w)| w * e * e).sum();
    let estimate = |i: usize| Estimate {
        value: solution.parameters[i],
        plus_minus: student_95(degrees)
            .map(|t| t * (squares / count(degrees) * solution.unit_variance[i]).sqrt()),
    };
    Some(Robust { estimates: std::array::from_fn(estimate), relative })
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

/// Scale of the errors by their median; at least the floor.
fn scatter(errors: &[f64]) -> f64 {
    (NORMAL_MEDIAN * median_size(errors)).max(RESIDUAL_FLOOR)
}

fn median_size(errors: &[f64]) -> f64 {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    median(&sizes).unwrap_or_default()
}

/// Schwarz' criterion for errors of Laplace's distribution, 2m ln(mean size) + k ln m: a point far
/// off counts by its distance, not by the square of it.
fn bayes(errors: &[f64], parameters: usize) -> f64 {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let points = count(errors.len());
    let spread = mean(&sizes).unwrap_or_default().max(RESIDUAL_FLOOR);
    2.0 * points * spread.ln() + count(parameters) * points.ln()
}

fn straight_model(points: &[SizeCost], fit: &Robust<2>) -> CostModel {
    let [fixed_ns, ns_per_byte] = fit.estimates;
    model(points, fixed_ns, ns_per_byte, None, &fit.relative)
}

/// The bent line with the smallest criterion, if that is strongly better than the straight one. The
/// bend is tried at each measured size that has two below it and one above.
fn best_bend(points: &[SizeCost], sizes: &[f64], straight: f64) -> Option<CostModel> {
    if sizes.len() < SIZES_FOR_BEND {
        return None;
    }
    let tried = sizes.windows(2).skip(2).filter_map(|pair| {
        let &[at, next] = pair else { return None };
        let fit = robust(points, |size| [1.0, size, (size - at).max(0.0)])?;
        // The place of the bend is a parameter, too.
        Some((bayes(&fit.relative, 4), at, next, fit))
    });
    let (criterion, at, next, fit) = tried.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let better = straight - criterion;
    (better >= STRONG).then(|| bent_model(points, (at, next), better, &fit))
}

fn bent_model(
    points: &[SizeCost],
    (at_bytes, below_bytes): (f64, f64),
    better: f64,
    fit: &Robust<3>,
) -> CostModel {
    let [fixed_ns, ns_per_byte, change] = fit.estimates;
    let above = Estimate {
        value: ns_per_byte.value + change.value,
        plus_minus: change.plus_minus.zip(ns_per_byte.plus_minus).map(|(a, b)| a.hypot(b)),
    };
    let mut beyond: Vec<f64> =
        points.iter().map(|point| point.size_bytes).filter(|size| *size > at_bytes).collect();
    beyond.sort_by(f64::total_cmp);
    beyond.dedup();
    let caution = if beyond.len() == 1 {
        "; a single size lies beyond it, so that one wrong figure would look the same"
    } else {
        ""
    };
    let evidence = format!(
        "a byte costs {:.3} ns up to {at_bytes:.0} bytes and {:.3} ns beyond; the criterion for two \
         lines is smaller by {better:.0} (strong from {STRONG} on){caution}",
        ns_per_byte.value, above.value
    );
    let bend = Bend { at_bytes, below_bytes, ns_per_byte_above: above, evidence };
    model(points, fixed_ns, ns_per_byte, Some(bend), &fit.relative)
}

fn model(
    points: &[SizeCost],
    fixed_ns: Estimate,
    ns_per_byte: Estimate,
    bend: Option<Bend>,
    errors: &[f64],
) -> CostModel {
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

#[cfg(test)]
mod tests;
