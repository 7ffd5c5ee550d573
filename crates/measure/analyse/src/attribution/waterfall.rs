//! The time of an operation, layer by layer from raw storage to the top of a stack.
//!
//! [`Waterfall`]s are made from rows.

use serde::{Deserialize, Serialize};

use super::findings::{LayerRow, RowFigures};
use super::point::{StackPoint, way_down};
use durio_base::stats::least_squares::float;

/// Which time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaterfallBasis {
    /// Median service latency.
    LatencyP50,
    /// Mean service latency, where a median is lacking.
    LatencyMean,
    /// 1 ÷ rate: for counted values, or without measured latencies.
    TimePerOperation,
}

impl WaterfallBasis {
    /// As readers know it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::LatencyP50 => "median service latency",
            Self::LatencyMean => "mean service latency",
            Self::TimePerOperation => "mean time per operation (1 ÷ rate)",
        }
    }

    fn of(self, figures: &RowFigures) -> Option<f64> {
        let service = figures.service.as_ref();
        match self {
            Self::LatencyP50 => service?.p50_ns.map(float),
            Self::LatencyMean => service.map(|it| it.mean_ns),
            Self::TimePerOperation => Some(figures.time_per_operation_ns),
        }
    }
}

/// The layers of one stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waterfall {
    /// Name of the stack.
    pub stack: String,
    /// The kind of time.
    pub basis: WaterfallBasis,
    /// From the bottom up; points without results are left out.
    pub steps: Vec<WaterfallStep>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaterfallStep {
    /// Position of the point.
    pub point: usize,
    /// Label of its topmost layer.
    pub layer: String,
    /// The time with this layer on top.
    pub total_ns: f64,
    /// Its difference to the step before; below zero if it takes less. All of it for the first.
    pub added_ns: f64,
}

/// A waterfall for each point that nothing was built on, from the bottom of its stack.
pub(super) fn waterfalls(
    points: &[StackPoint<'_>],
    rows: &[LayerRow],
    counted: bool,
) -> Vec<Waterfall> {
    let is_top = |at: &usize| points.iter().all(|point| point.below != Some(*at));
    let tops = (0..points.len()).filter(is_top);
    tops.filter_map(|top| waterfall(points, rows, top, counted)).collect()
}

fn waterfall(
    points: &[StackPoint<'_>],
    rows: &[LayerRow],
    top: usize,
    counted: bool,
) -> Option<Waterfall> {
    let way = way_down(points, top).filter_map(|at| Some((at, rows.get(at)?.figures.as_ref()?)));
    let mut way: Vec<(usize, &RowFigures)> = way.collect();
    way.reverse();
    let basis = basis(&way, counted);
    // One basis for all steps: a median less a mean would be no layer's time.
    let mut steps: Vec<WaterfallStep> = Vec::new();
    for (at, figures) in way {
        let total_ns = basis.of(figures)?;
        let before = steps.last().map_or(0.0, |step| step.total_ns);
        let layer = points.get(at)?.layer.clone();
        steps.push(WaterfallStep { point: at, layer, total_ns, added_ns: total_ns - before });
    }
    let stack = points.get(top)?.stack.clone();
    (steps.len() > 1).then_some(Waterfall { stack, basis, steps })
}

/// The time that every layer has.
fn basis(way: &[(usize, &RowFigures)], counted: bool) -> WaterfallBasis {
    let has = |basis: WaterfallBasis| way.iter().all(|(_, figures)| basis.of(figures).is_some());
    // Counted results use the rate: on the one processor a latency includes the turns of other
    // jobs.
    let latencies = [WaterfallBasis::LatencyP50, WaterfallBasis::LatencyMean];
    let found = latencies.into_iter().find(|basis| !counted && has(*basis));
    found.unwrap_or(WaterfallBasis::TimePerOperation)
}
