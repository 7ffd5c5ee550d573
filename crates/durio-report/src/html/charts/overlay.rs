//! Two sides' latencies over the nines of the quantile, on one sheet: a line per repeat.
//!
//! In: curves of the baseline and of the other side. Out: a drawing. Not here: its legend.

use std::io;

use durio_analyse::CurvePoint;
use plotters::prelude::*;

use super::axis::{
    Axis, latency_axis, latency_label, logarithm, nines, quantile_label, quantile_marks,
};
use super::canvas::{Colour, draw, failed, plot, stroke};
use super::decimate::kept;

const HEIGHT: u32 = 560;

/// More points than this on a curve cannot be told apart.
const POINTS_MAX: usize = 80;

/// More lines than this of one side hide each other.
const LINES_MAX: usize = 7;

/// The baseline in the first colour, the other in the second; none without a curve.
pub(crate) fn overlay(sides: &[Vec<Vec<CurvePoint>>; 2]) -> io::Result<Option<String>> {
    let colours = [Colour::First, Colour::Second];
    let lines = sides.iter().zip(colours).flat_map(|(curves, colour)| {
        let drawable = curves.iter().filter(|it| it.len() > 1).take(LINES_MAX);
        drawable.map(move |it| (colour, points(it)))
    });
    let lines: Vec<(Colour, Vec<(f64, u64)>)> = lines.collect();
    if lines.is_empty() {
        return Ok(None);
    }
    let (svg, ()) = draw(HEIGHT, |sheet| {
        let all = || lines.iter().flat_map(|(_, points)| points);
        let (y, y_marks) = latency_axis(all().map(|it| it.1));
        let nines_max = all().map(|it| it.0).fold(1.0, f64::max);
        let x = Axis::new(0.0..nines_max * 1.02, quantile_marks(nines_max), quantile_label);
        let (mut chart, _) = plot(sheet, x, Axis::new(y, y_marks, latency_label))?;
        for (colour, points) in &lines {
            let line = points.iter().map(|(nines, latency)| (*nines, logarithm(*latency)));
            chart.draw_series(LineSeries::new(line, stroke(*colour))).map_err(failed)?;
        }
        Ok(())
    })?;
    Ok(Some(svg))
}

fn points(curve: &[CurvePoint]) -> Vec<(f64, u64)> {
    let value = |index: usize| curve.get(index).map(|it| logarithm(it.latency_ns));
    let kept = kept(curve.len(), POINTS_MAX, &[&value]);
    let point = |it: &CurvePoint| (nines(it.quantile), it.latency_ns);
    kept.into_iter().filter_map(|it| curve.get(it).map(point)).collect()
}
