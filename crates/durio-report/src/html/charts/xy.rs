//! Points and fitted lines on two logarithmic axes: cost against size, throughput against writers.
//!
//! In: series of figures above zero, and what the axes mean. Out: [`Chart`]. Not here: which figures.

use std::io;
use std::ops::Range;

use durio_units::Bytes;
use plotters::prelude::*;

use super::Chart;
use super::axis::{Axis, latency_label};
use super::canvas::{Colour, draw, failed, plot, stroke};
use crate::figures::{bandwidth, rate_bare};

const HEIGHT: u32 = 620;

/// More labels than this on an axis run into each other.
const MARKS_MAX: usize = 8;

/// What an axis means, and so how its marks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Bytes, marked at powers of two.
    Bytes,
    /// A plain number, marked at powers of two.
    Number,
    /// Nanoseconds.
    Latency,
    /// Bytes per second.
    Bandwidth,
    /// Per second.
    Rate,
}

/// Measured points, or a fitted line, of one colour.
#[derive(Debug)]
pub(crate) struct Series {
    /// For the legend.
    pub(crate) name: String,
    /// Its colour.
    pub(crate) colour: Colour,
    /// What was measured, as dots.
    pub(crate) points: Vec<(f64, f64)>,
    /// What was fitted, as a line; the dots are joined if it is empty.
    pub(crate) line: Vec<(f64, f64)>,
}

/// The chart; none with fewer than two points.
pub(crate) fn xy(series: &[Series], x: Scale, y: Scale) -> io::Result<Option<Chart>> {
    let all = || series.iter().flat_map(|it| it.points.iter().chain(&it.line));
    let usable = |it: &&(f64, f64)| is_usable(**it);
    if series.iter().flat_map(|it| &it.points).filter(usable).count() < 2 {
        return Ok(None);
    }
    let across = x.axis(all().filter(usable).map(|it| it.0));
    let up = y.axis(all().filter(usable).map(|it| it.1));
    let (svg, ()) = draw(HEIGHT, |sheet| {
        let (mut chart, _) = plot(sheet, across, up)?;
        for it in series {
            let of = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
                let usable = points.iter().filter(|it| is_usable(**it));
                usable.map(|it| (it.0.log10(), it.1.log10())).collect()
            };
            let joined = if it.line.is_empty() { of(&it.points) } else { of(&it.line) };
            chart.draw_series(LineSeries::new(joined, stroke(it.colour))).map_err(failed)?;
            let dots = of(&it.points).into_iter();
            let dots = dots.map(|at| Circle::new(at, 7, it.colour.rgb().filled()));
            chart.draw_series(dots).map_err(failed)?;
        }
        Ok(())
    })?;
    let legend = series.iter().map(|it| (it.name.clone(), it.colour)).collect();
    Ok(Some(Chart { svg, legend, values: None }))
}

fn is_usable((x, y): (f64, f64)) -> bool {
    let range = 1e-12..1e18;
    range.contains(&x) && range.contains(&y)
}

impl Scale {
    fn axis(self, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = values
            .map(f64::log10)
            .fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)));
        let range = low - 0.08..(high + 0.08).max(low + 0.4);
        let marks = match self {
            Self::Bytes | Self::Number => marks(&range, 2.0),
            Self::Latency | Self::Bandwidth | Self::Rate => marks(&range, 10.0),
        };
        Axis::new(range, marks, move |at| self.label(at))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn label(self, logarithm: f64) -> String {
        let value = 10_f64.powf(logarithm);
        match self {
            Self::Bytes => Bytes::new(value.round() as u64).to_string(),
            Self::Number => (value.round() as u64).to_string(),
            Self::Latency => latency_label(logarithm),
            Self::Bandwidth => bandwidth(value),
            Self::Rate => rate_bare(value),
        }
    }
}

/// Powers of a base within a range of decimal logarithms, thinned out; between powers of ten also
/// their double and fivefold, where there is room.
fn marks(range: &Range<f64>, base: f64) -> Vec<f64> {
    let steps: &[f64] = if base > 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (-40..=64).map(|power| f64::from(power) * base.log10());
    let all = powers.flat_map(|power| steps.iter().map(move |step| power + step.log10()));
    let within: Vec<f64> = all.filter(|mark| range.contains(mark)).collect();
    let whole = |mark: &&f64| (*mark - mark.round()).abs() < 1e-9;
    if base > 2.0 && within.len() > MARKS_MAX {
        return within.iter().filter(whole).copied().collect();
    }
    let every = within.len().div_ceil(MARKS_MAX).max(1);
    within.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_marked_at_powers_of_two() {
        let axis = Scale::Bytes.axis([4096.0, 65_536.0].into_iter());
        let labels: Vec<String> = axis.marks.iter().map(|it| (axis.label)(*it)).collect();
        assert_eq!(labels, ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
    }

    #[test]
    fn figures_that_are_none_are_left_out() {
        let odd = vec![(f64::NAN, 1.0), (1.0, 0.0), (2.0, f64::INFINITY), (4.0, 2.0)];
        let series = |points| Series {
            name: String::new(),
            colour: Colour::First,
            points,
            line: Vec::new(),
        };
        assert!(xy(&[series(odd.clone())], Scale::Number, Scale::Bandwidth).unwrap().is_none());
        let more = odd.into_iter().chain([(8.0, 3.0)]).collect();
        let chart = xy(&[series(more)], Scale::Number, Scale::Bandwidth).unwrap().unwrap();
        assert!(!chart.svg.contains("NaN") && !chart.svg.contains("inf"));
    }
}
