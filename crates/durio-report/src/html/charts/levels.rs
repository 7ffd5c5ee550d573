//! Rate as bars and latency as lines, level by level.

use std::io;

use durio_analyse::campaign::{Curve, Row, RowLatency};
use plotters::prelude::*;

use super::Chart;
use super::axis::{Axis, latency_axis, latency_label, linear_marks, logarithm};
use super::canvas::{Colour, Sheet, draw, failed, plot, stroke};
use crate::figures::rate_bare;

const HEIGHT_RATE: u32 = 330;
const HEIGHT: u32 = 660;

/// More labels than this below the bars would run into each other.
const LABELS_MAX: usize = 10;

/// The chart of a curve with two rows or more.
pub(crate) fn levels(curve: &Curve, rows: &[&Row]) -> io::Result<Chart> {
    let labels: Vec<String> = rows
        .iter()
        .map(|row| row.level(&curve.axis).map_or_else(String::new, |it| it.label.clone()))
        .collect();
    let (svg, ()) = draw(HEIGHT, |sheet| {
        let (upper, lower) = sheet.split_vertically(HEIGHT_RATE);
        draw_rates(&upper, rows)?;
        draw_latencies(&lower, rows, labels)
    })?;
    let names = [("rate", Colour::First), ("mean", Colour::Third), ("p99", Colour::Second)];
    let legend = names.map(|(name, colour)| (name.to_owned(), colour)).to_vec();
    Ok(Chart { svg, legend, values: None })
}

/// The place of a level: one unit each.
#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
fn place(at: usize) -> f64 {
    at as f64
}

/// An axis with a label for some of the levels, or for none.
fn axis(count: usize, labels: Vec<String>) -> Axis {
    let every = count.div_ceil(LABELS_MAX).max(1);
    let marks = (0..count).step_by(every).map(place).collect();
    Axis::new(-0.6..place(count) - 0.4, marks, move |at| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
        let at = at.round().max(0.0) as usize;
        labels.get(at).cloned().unwrap_or_default()
    })
}

fn draw_rates(sheet: &Sheet<'_>, rows: &[&Row]) -> io::Result<()> {
    let highest = rows.iter().map(|row| row.rate).filter(|it| it.is_finite()).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.08 } else { 1.0 };
    let y = Axis::new(0.0..top, linear_marks(top, 4.0), |it| format!("{}/s", rate_bare(it)));
    let (mut chart, _) = plot(sheet, axis(rows.len(), Vec::new()), y)?;
    let bars = rows.iter().enumerate().map(|(at, row)| {
        let corners = [(place(at) - 0.32, 0.0), (place(at) + 0.32, row.rate.clamp(0.0, top))];
        Rectangle::new(corners, Colour::First.rgb().filled())
    });
    chart.draw_series(bars).map_err(failed)?;
    Ok(())
}

/// A latency as its decimal logarithm.
type Figure<'a> = &'a dyn Fn(&RowLatency) -> Option<f64>;

fn draw_latencies(sheet: &Sheet<'_>, rows: &[&Row], labels: Vec<String>) -> io::Result<()> {
    let mean = |it: &RowLatency| it.mean_ns.is_finite().then(|| it.mean_ns.max(1.0).log10());
    let p99 = |it: &RowLatency| it.p99_ns.map(logarithm);
    let latency = |row: &Row| row.response.or(row.service);
    let all = rows.iter().filter_map(|row| latency(row));
    let figures = all.flat_map(|it| [mean(&it), p99(&it)]).flatten();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let (range, marks) = latency_axis(figures.map(|it| 10_f64.powf(it).round() as u64));
    let y = Axis::new(range, marks, latency_label);
    let (mut chart, _) = plot(sheet, axis(rows.len(), labels), y)?;
    let lines: [(Colour, Figure<'_>); 2] = [(Colour::Third, &mean), (Colour::Second, &p99)];
    for (colour, figure) in lines {
        let points = rows.iter().enumerate();
        let points = points.filter_map(|(at, row)| Some((place(at), figure(&latency(row)?)?)));
        let points: Vec<_> = points.collect();
        let line = LineSeries::new(points.clone(), stroke(colour));
        chart.draw_series(line).map_err(failed)?;
        let dots = points.into_iter().map(|at| Circle::new(at, 7, colour.rgb().filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    Ok(())
}
