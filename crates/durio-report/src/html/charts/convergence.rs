//! Rounds one after the other: the tracked figure, and in the window mean, band and slope.

use std::io;

use durio_analyse::campaign::Convergence;
use durio_analyse::steady_state::{PlotLine, Window};
use plotters::prelude::*;

use super::Chart;
use super::axis::{Axis, linear_marks};
use super::canvas::{Colour, Plot, Sheet, draw, failed, plot, stroke};
use crate::campaign_facts::tracked_figure;

const HEIGHT: u32 = 560;

/// The picture; none without a round that has a figure.
pub(crate) fn convergence(found: &Convergence) -> io::Result<Option<Chart>> {
    let series: Vec<f64> = found.series.iter().copied().filter(|it| it.is_finite()).collect();
    if series.is_empty() {
        return Ok(None);
    }
    let window = found.state.as_ref().and_then(|state| state.window);
    let (svg, ()) = draw(HEIGHT, |sheet| draw_rounds(sheet, found, &series, window.as_ref()))?;
    let mut legend = vec![("each round".to_owned(), Colour::First)];
    if let Some(window) = window {
        let rounds = format!("rounds {} to {}", window.first_round, window.last_round);
        legend.push((format!("mean of {rounds}"), Colour::Third));
        legend.push(("fitted line".to_owned(), Colour::Second));
        legend.push(("allowed range".to_owned(), Colour::Shade));
    }
    Ok(Some(Chart { svg, legend, values: None }))
}

#[expect(clippy::cast_precision_loss, reason = "the number of a round")]
fn place(round: usize) -> f64 {
    round as f64
}

fn draw_rounds(
    sheet: &Sheet<'_>,
    found: &Convergence,
    series: &[f64],
    window: Option<&Window>,
) -> io::Result<()> {
    let upper = window.map_or(0.0, |window| window.lines.upper.at_first);
    let highest = series.iter().copied().fold(upper, f64::max);
    let top = if highest > 0.0 { highest * 1.08 } else { 1.0 };
    let tracking = found.tracking;
    let y = Axis::new(0.0..top, linear_marks(top, 5.0), move |it| tracked_figure(tracking, it));
    let rounds = place(series.len());
    let marks = linear_marks(rounds, 10.0).into_iter().filter(|it| *it >= 1.0 && it.fract() == 0.0);
    let x = Axis::new(0.5..rounds + 0.5, marks.collect(), |it| format!("{it:.0}"));
    let (mut chart, _) = plot(sheet, x, y)?;
    if let Some(window) = window {
        draw_window(&mut chart, window)?;
    }
    let points = || series.iter().enumerate().map(|(at, it)| (place(at + 1), *it));
    chart.draw_series(LineSeries::new(points(), stroke(Colour::First))).map_err(failed)?;
    let dots = points().map(|at| Circle::new(at, 8, Colour::First.rgb().filled()));
    chart.draw_series(dots).map_err(failed)?;
    Ok(())
}

fn draw_window(chart: &mut Plot<'_, '_>, window: &Window) -> io::Result<()> {
    let (from, to) = (place(window.first_round), place(window.last_round));
    let lines = &window.lines;
    let corners = [(from, lines.lower.at_first), (to, lines.upper.at_last)];
    let band = Rectangle::new(corners, Colour::Shade.rgb().mix(0.25).filled());
    chart.draw_series([band]).map_err(failed)?;
    let line = |line: PlotLine, colour: Colour| {
        PathElement::new(vec![(from, line.at_first), (to, line.at_last)], stroke(colour))
    };
    let drawn = [line(lines.mean, Colour::Third), line(lines.best_fit, Colour::Second)];
    chart.draw_series(drawn).map_err(failed)?;
    Ok(())
}
