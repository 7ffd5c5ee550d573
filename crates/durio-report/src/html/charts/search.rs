//! The rates that a search tried, with their latencies and the goal.

use std::io;

use durio_analyse::{SearchFindings, Trial};
use plotters::prelude::*;

use super::Chart;
use super::axis::{Axis, latency_axis, latency_label, linear_marks, logarithm};
use super::canvas::{Colour, Sheet, draw, failed, plot, stroke};
use super::labels::Labels;
use crate::figures::rate_bare;

const HEIGHT: u32 = 560;

/// The picture; none without a trial that has a latency.
pub(crate) fn search(found: &SearchFindings) -> io::Result<Option<Chart>> {
    if found.trials.iter().all(|trial| trial.latency_ns.is_none()) {
        return Ok(None);
    }
    let (svg, ()) = draw(HEIGHT, |sheet| draw_trials(sheet, found))?;
    let legend = vec![
        ("kept (dot, with its trial)".to_owned(), Colour::First),
        ("missed (cross)".to_owned(), Colour::Alarm),
        (format!("goal: {}", found.goal.latency), Colour::Third),
    ];
    Ok(Some(Chart { svg, legend, values: None }))
}

fn draw_trials(sheet: &Sheet<'_>, found: &SearchFindings) -> io::Result<()> {
    let highest = found.trials.iter().map(|it| it.rate_per_second).fold(0.0, f64::max);
    let right = if highest > 0.0 { highest * 1.06 } else { 1.0 };
    let x = Axis::new(0.0..right, linear_marks(right, 6.0), |it| format!("{}/s", rate_bare(it)));
    let goal = found.goal.latency.get();
    let latencies = found.trials.iter().filter_map(|trial| trial.latency_ns);
    let (range, marks) = latency_axis(latencies.chain([goal]));
    let (mut chart, frame) = plot(sheet, x, Axis::new(range, marks, latency_label))?;
    let line = vec![(0.0, logarithm(goal)), (right, logarithm(goal))];
    chart.draw_series([PathElement::new(line, stroke(Colour::Third))]).map_err(failed)?;
    let mut labels = Labels::new(frame.across, frame.down);
    for trial in &found.trials {
        let Some(at) = place(trial) else { continue };
        if trial.kept {
            let dot = Circle::new(at, 9, Colour::First.rgb().filled());
            chart.draw_series([dot]).map_err(failed)?;
        } else {
            let cross = Cross::new(at, 11, Colour::Alarm.rgb().stroke_width(5));
            chart.draw_series([cross]).map_err(failed)?;
        }
        labels.avoid(chart.backend_coord(&at));
    }
    for trial in found.trials.iter().rev() {
        let Some(at) = place(trial) else { continue };
        labels.put(sheet, chart.backend_coord(&at), &(trial.round + 1).to_string(), false)?;
    }
    Ok(())
}

fn place(trial: &Trial) -> Option<(f64, f64)> {
    let is_figure = trial.rate_per_second.is_finite();
    Some((trial.rate_per_second, logarithm(trial.latency_ns?))).filter(|_| is_figure)
}
