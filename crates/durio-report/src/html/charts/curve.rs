//! Latency against rate: what a storage gives, and what it takes for it.

use std::io;

use durio_analyse::campaign::{Curve, Row};
use durio_analyse::ladder::{Knee, LadderKind};
use plotters::prelude::*;

use super::Chart;
use super::axis::{Axis, latency_axis, latency_label, linear_marks, logarithm};
use super::canvas::{Colour, Plot, Sheet, draw, failed, plot, stroke};
use super::labels::Labels;
use crate::figures::rate_bare;

const HEIGHT: u32 = 660;

/// A row on the chart; latencies as their decimal logarithms.
struct Point {
    rate: f64,
    mean: f64,
    p99: Option<f64>,
    label: String,
    level: f64,
    is_reached: bool,
}

/// The curve of a ladder; none without latencies.
///
/// Of an open loop the latencies are those of the response.
pub(crate) fn latency_at_rate(curve: &Curve, rows: &[&Row]) -> io::Result<Option<Chart>> {
    let points: Vec<Point> = rows.iter().filter_map(|row| point(curve, row)).collect();
    if points.len() < 2 {
        return Ok(None);
    }
    let of_response = rows.iter().any(|row| row.response.is_some());
    let (svg, knee) = draw(HEIGHT, |sheet| draw_points(sheet, curve, &points))?;
    let which = if of_response { "response, " } else { "" };
    let mut legend = vec![
        (
            format!("{which}mean, by {}", crate::campaign_table::axis_name(&curve.axis)),
            Colour::First,
        ),
        (format!("{which}p99"), Colour::Second),
    ];
    if best_of(curve).is_some() {
        legend.push(("best point (ring)".to_owned(), Colour::Third));
    }
    if knee {
        legend.push(("knee: where the fitted asymptotes cross".to_owned(), Colour::Fourth));
    }
    if points.iter().any(|it| !it.is_reached) {
        legend.push(("offered rate not reached (cross)".to_owned(), Colour::Alarm));
    }
    Ok(Some(Chart { svg, legend, values: None }))
}

fn point(curve: &Curve, row: &Row) -> Option<Point> {
    let latency = row.response.or(row.service)?;
    let level = row.level(&curve.axis)?;
    let is_figure = row.rate.is_finite() && latency.mean_ns.is_finite();
    is_figure.then(|| Point {
        rate: row.rate,
        mean: latency.mean_ns.max(1.0).log10(),
        p99: latency.p99_ns.map(logarithm),
        label: level.label.clone(),
        level: level.value,
        is_reached: row.open_loop.is_none_or(|open| open.keeps_up),
    })
}

/// The crossing of the asymptotes: highest rate, and latency without load.
fn knee_of(curve: &Curve) -> Option<(f64, f64)> {
    let ladder = curve.ladder.as_ref()?;
    let told = matches!(ladder.knee, Knee::Measured { .. });
    let fit = ladder.saturation.as_ref().filter(|_| told)?;
    let latency = 1e9 / fit.unloaded_rate_per_load;
    let is_load = ladder.kind != LadderKind::OfferedRate && latency.is_finite();
    is_load.then(|| (fit.highest_rate_per_second, latency.max(1.0).log10()))
}

/// Draws the curve; true if there is a knee on it.
fn draw_points(sheet: &Sheet<'_>, curve: &Curve, points: &[Point]) -> io::Result<bool> {
    let knee = knee_of(curve);
    let highest = points.iter().map(|it| it.rate).chain(knee.map(|it| it.0)).fold(0.0, f64::max);
    let right = if highest > 0.0 { highest * 1.06 } else { 1.0 };
    let x = Axis::new(0.0..right, linear_marks(right, 6.0), |it| format!("{}/s", rate_bare(it)));
    let figures = points.iter().flat_map(|it| [Some(it.mean), it.p99]).flatten();
    let (range, marks) = latency_axis(figures.chain(knee.map(|it| it.1)).map(nanos));
    let y = Axis::new(range, marks, latency_label);
    let (mut chart, frame) = plot(sheet, x, y)?;
    if let Some((rate, latency)) = knee {
        let colour = Colour::Fourth.rgb();
        let line = [(rate, frame.y.0), (rate, frame.y.1)];
        chart.draw_series([PathElement::new(line, colour.stroke_width(2))]).map_err(failed)?;
        chart
            .draw_series([TriangleMarker::new((rate, latency), 16, colour.filled())])
            .map_err(failed)?;
    }
    let p99: Vec<_> = points.iter().filter_map(|it| Some((it.rate, it.p99?))).collect();
    chart.draw_series(LineSeries::new(p99, stroke(Colour::Second))).map_err(failed)?;
    let means = points.iter().map(|it| (it.rate, it.mean));
    chart.draw_series(LineSeries::new(means, stroke(Colour::First))).map_err(failed)?;
    let best = best_of(curve);
    marks_of(&mut chart, points, best)?;
    let mut labels = Labels::new(frame.across, frame.down);
    let place = |it: &Point| chart.backend_coord(&(it.rate, it.mean));
    points.iter().for_each(|it| labels.avoid(place(it)));
    // The best, the ends, then the others.
    let is_best = |it: &Point| best.is_some_and(|best| (it.level - best).abs() < 1e-9);
    let (first, last) = (points.iter().take(1), points.iter().rev().take(1));
    let weightiest = points.iter().filter(|it| is_best(it)).chain(last).chain(first);
    let mut done: Vec<f64> = Vec::new();
    for point in weightiest.chain(points.iter().rev()) {
        if !done.contains(&point.level) {
            done.push(point.level);
            labels.put(sheet, place(point), &point.label, is_steep(points, point, &place))?;
        }
    }
    Ok(knee.is_some())
}

/// The best level; none where what was offered was not reached.
fn best_of(curve: &Curve) -> Option<f64> {
    let ladder = curve.ladder.as_ref().filter(|_| curve.not_reached_from.is_none())?;
    Some(ladder.best.level)
}

/// Whether the line to the point before, or from the first to the next, rises more than it goes.
fn is_steep(points: &[Point], point: &Point, place: &impl Fn(&Point) -> (i32, i32)) -> bool {
    let at = points.iter().position(|it| std::ptr::eq(it, point)).unwrap_or(0);
    let Some([a, b]) = points.get(at.saturating_sub(1)..).and_then(|it| it.first_chunk()) else {
        return false;
    };
    let ((from_x, from_y), (to_x, to_y)) = (place(a), place(b));
    to_x.abs_diff(from_x) < to_y.abs_diff(from_y)
}

fn marks_of(chart: &mut Plot<'_, '_>, points: &[Point], best: Option<f64>) -> io::Result<()> {
    for it in points {
        let at = (it.rate, it.mean);
        if it.is_reached {
            let dot = Circle::new(at, 8, Colour::First.rgb().filled());
            chart.draw_series([dot]).map_err(failed)?;
        } else {
            let cross = Cross::new(at, 11, Colour::Alarm.rgb().stroke_width(5));
            chart.draw_series([cross]).map_err(failed)?;
        }
        if best.is_some_and(|best| (it.level - best).abs() < 1e-9) {
            let ring = Circle::new(at, 17, Colour::Third.rgb().stroke_width(5));
            chart.draw_series([ring]).map_err(failed)?;
        }
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn nanos(logarithm: f64) -> u64 {
    10_f64.powf(logarithm).round() as u64
}
