//! Latency over the nines of the quantile, one line per operation: the shape of the tail.

use std::io;

use durio_analyse::{CurvePoint, WorkloadFindings};
use durio_record::OperationName;
use plotters::prelude::*;

use super::axis::{
    Axis, latency_axis, latency_label, logarithm, nines, quantile_label, quantile_marks,
};
use super::canvas::{Colour, Frame, Sheet, draw, failed, plot, stroke};
use super::{Chart, Line, Values, rounded};
use crate::decimate::kept;
use crate::rows::operation_label;

const HEIGHT: u32 = 660;

/// More points than this on a curve cannot be told apart.
const POINTS_MAX: usize = 240;

/// The chart of one workload; none without a curve.
pub(crate) fn distribution(workload: &WorkloadFindings) -> io::Result<Option<Chart>> {
    let curves: Vec<_> = workload
        .operations
        .iter()
        .filter(|it| it.curve.len() > 1)
        .map(|it| (it.operation, points(&it.curve)))
        .collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let (svg, frame) = draw(HEIGHT, |sheet| draw_curves(sheet, &curves))?;
    let legend = curves.iter().map(|(it, _)| (operation_label(workload, *it), colour(*it)));
    let legend: Vec<_> = legend.collect();
    let lines = curves.into_iter().zip(&legend);
    let lines = lines.map(|((_, points), (name, _))| Line { name: name.clone(), points }).collect();
    Ok(Some(Chart { svg, legend, values: Some(Values::Distribution { frame, lines }) }))
}

/// The colour of an operation, the same in every chart.
pub(super) const fn colour(operation: OperationName) -> Colour {
    match operation {
        OperationName::Commit | OperationName::Read => Colour::First,
        OperationName::Write => Colour::Second,
        OperationName::Sync => Colour::Third,
        OperationName::Reallocate => Colour::Fourth,
    }
}

fn points(curve: &[CurvePoint]) -> Vec<(f64, u64)> {
    let value = |index: usize| curve.get(index).map(|it| logarithm(it.latency_ns));
    let kept = kept(curve.len(), POINTS_MAX, &[&value]);
    kept.into_iter().map(|it| (rounded(nines(curve[it].quantile)), curve[it].latency_ns)).collect()
}

fn draw_curves(
    sheet: &Sheet<'_>,
    curves: &[(OperationName, Vec<(f64, u64)>)],
) -> io::Result<Frame> {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let (y, y_marks) = latency_axis(all().map(|it| it.1));
    let nines_max = all().map(|it| it.0).fold(1.0, f64::max);
    let x = Axis::new(0.0..nines_max * 1.02, quantile_marks(nines_max), quantile_label);
    let y = Axis::new(y, y_marks, latency_label);
    let (mut chart, frame) = plot(sheet, x, y)?;
    for (operation, points) in curves {
        let line = points.iter().map(|(nines, latency)| (*nines, logarithm(*latency)));
        chart.draw_series(LineSeries::new(line, stroke(colour(*operation)))).map_err(failed)?;
    }
    Ok(frame)
}
