//! Rate and latencies over time: how even a storage is, and where it stalled.

use std::io;

use durio_analyse::{IntervalPoint, WorkloadFindings};
use durio_record::Phase;
use durio_units::Nanos;
use plotters::prelude::*;

use super::axis::{Axis, latency_axis, latency_label, linear_marks, logarithm};
use super::canvas::{Colour, Frame, Plot, Sheet, draw, failed, plot, stroke};
use super::{Chart, Values, rounded};
use crate::decimate::kept;
use crate::figures::{decimal, rate_bare};
use crate::rows::headline_rate;

/// The upper chart's share, and the whole.
const HEIGHT_RATE: u32 = 310;
const HEIGHT: u32 = 660;

/// A stall narrower than this share of the chart would not be seen.
const BAND_MIN: f64 = 0.004;

type Band = (f64, f64);

/// The chart of one workload, of at most `points_max` points, with lines at lasting changes; none
/// with fewer than two intervals.
pub(crate) fn over_time(
    workload: &WorkloadFindings,
    points_max: usize,
    changes: &[Nanos],
) -> io::Result<Option<Chart>> {
    let Some(end) = workload.intervals.last().map(|it| it.to.as_secs_f64()) else {
        return Ok(None);
    };
    // One that is cut short would be drawn as a stall or as a spike.
    let whole: Vec<_> = workload.intervals.iter().filter(|it| !it.cut_short).collect();
    if whole.len() < 2 {
        return Ok(None);
    }
    let series = Series { end, points: points(&whole, points_max) };
    let half = headline_rate(workload) / 2.0;
    let (stalls, ramp) = (stalls(&whole, half, end), ramp(&workload.intervals));
    let (svg, frames) = draw(HEIGHT, |sheet| {
        let (upper, lower) = sheet.split_vertically(HEIGHT_RATE);
        let rate = draw_rate(&upper, &series, &stalls, ramp)?;
        let latencies = draw_latencies(&lower, &series, &stalls, ramp)?;
        for frame in [(&upper, &rate), (&lower, &latencies)] {
            changes.iter().try_for_each(|at| draw_change(frame.0, frame.1, at.as_secs_f64()))?;
        }
        Ok([rate, latencies])
    })?;
    let mut legend = vec![
        ("rate".to_owned(), Colour::First),
        ("p50".to_owned(), Colour::Third),
        ("p99".to_owned(), Colour::Second),
    ];
    legend.extend(ramp.map(|_| ("ramp, not counted".to_owned(), Colour::Shade)));
    if !changes.is_empty() {
        legend.push(("lasting change".to_owned(), Colour::Ink));
    }
    if !stalls.is_empty() {
        legend.push(("stall (empty or under half)".to_owned(), Colour::Alarm));
    }
    let points = series.points.iter().map(Point::values).collect();
    Ok(Some(Chart { svg, legend, values: Some(Values::OverTime { frames, points }) }))
}

/// A line from top to bottom.
fn draw_change(sheet: &Sheet<'_>, frame: &Frame, at: f64) -> io::Result<()> {
    let (left, right) = frame.across;
    let share = at / (frame.x.1 - frame.x.0);
    #[expect(clippy::cast_possible_truncation, reason = "a place on the sheet")]
    let x = left + (f64::from(right - left) * share.clamp(0.0, 1.0)).round() as i32;
    // The lower half of the chart begins further down on the whole sheet.
    let above = sheet.get_base_pixel();
    let points = [frame.down.0, frame.down.1].map(|y| (x - above.0, y - above.1));
    sheet.draw(&PathElement::new(points, Colour::Ink.rgb().stroke_width(4))).map_err(failed)
}

struct Series {
    end: f64,
    points: Vec<Point>,
}

struct Point {
    /// The interval's middle, in seconds.
    at: f64,
    rate: f64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl Point {
    fn of(interval: &IntervalPoint) -> Self {
        let middle = f64::midpoint(interval.from.as_secs_f64(), interval.to.as_secs_f64());
        let &IntervalPoint { rate, p50_ns, p99_ns, .. } = interval;
        Self { at: rounded(middle), rate: rounded(rate), p50_ns, p99_ns }
    }

    fn values(&self) -> (f64, f64, Option<u64>, Option<u64>) {
        (self.at, self.rate, self.p50_ns, self.p99_ns)
    }
}

fn points(intervals: &[&IntervalPoint], points_max: usize) -> Vec<Point> {
    let rate = |index: usize| intervals.get(index).map(|it| it.rate);
    let p50 = |index: usize| intervals.get(index)?.p50_ns.map(logarithm);
    let p99 = |index: usize| intervals.get(index)?.p99_ns.map(logarithm);
    let kept = kept(intervals.len(), points_max, &[&rate, &p50, &p99]);
    kept.into_iter().map(|index| Point::of(intervals[index])).collect()
}

/// Where nothing, or under half of the average, was completed; bands that touch are one.
fn stalls(intervals: &[&IntervalPoint], half: f64, end: f64) -> Vec<Band> {
    let measured = intervals.iter().filter(|it| it.phase == Phase::Measure);
    let mut bands: Vec<Band> = Vec::new();
    for interval in measured.filter(|it| it.rate < half) {
        let from = interval.from.as_secs_f64();
        let to = interval.to.as_secs_f64().max(from + end * BAND_MIN);
        match bands.last_mut() {
            Some(last) if from <= last.1 => last.1 = to,
            _ => bands.push((from, to)),
        }
    }
    bands
}

fn ramp(intervals: &[IntervalPoint]) -> Option<Band> {
    let last = intervals.iter().rfind(|it| it.phase == Phase::Ramp)?;
    Some((0.0, last.to.as_secs_f64()))
}

fn time_axis(end: f64, label: fn(f64) -> String) -> Axis {
    Axis::new(0.0..end, linear_marks(end, 6.0), label)
}

fn seconds(at: f64) -> String {
    format!("{} s", decimal(at))
}

fn draw_rate(
    sheet: &Sheet<'_>,
    series: &Series,
    stalls: &[Band],
    ramp: Option<Band>,
) -> io::Result<Frame> {
    let highest = series.points.iter().map(|it| it.rate).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.08 } else { 1.0 };
    let y = Axis::new(0.0..top, linear_marks(top, 6.0), |it| format!("{}/s", rate_bare(it)));
    let (mut chart, frame) = plot(sheet, time_axis(series.end, |_| String::new()), y)?;
    bands(&mut chart, &frame, stalls, ramp)?;
    let line = series.points.iter().map(|it| (it.at, it.rate));
    chart.draw_series(LineSeries::new(line, stroke(Colour::First))).map_err(failed)?;
    Ok(frame)
}

fn draw_latencies(
    sheet: &Sheet<'_>,
    series: &Series,
    stalls: &[Band],
    ramp: Option<Band>,
) -> io::Result<Frame> {
    let all = series.points.iter().flat_map(|it| [it.p50_ns, it.p99_ns]).flatten();
    let (range, marks) = latency_axis(all);
    let y = Axis::new(range, marks, latency_label);
    let (mut chart, frame) = plot(sheet, time_axis(series.end, seconds), y)?;
    bands(&mut chart, &frame, stalls, ramp)?;
    line_with_gaps(&mut chart, series, Colour::Third, |it| it.p50_ns)?;
    line_with_gaps(&mut chart, series, Colour::Second, |it| it.p99_ns)?;
    Ok(frame)
}

/// Shades the ramp, and marks the stalls over the whole height.
fn bands(
    chart: &mut Plot<'_, '_>,
    frame: &Frame,
    stalls: &[Band],
    ramp: Option<Band>,
) -> io::Result<()> {
    let band = |(from, to): Band, colour: Colour, opacity: f64| {
        let corners = [(from, frame.y.0), (to.min(frame.x.1), frame.y.1)];
        Rectangle::new(corners, colour.rgb().mix(opacity).filled())
    };
    let shaded = ramp.into_iter().map(|it| band(it, Colour::Shade, 0.22));
    chart.draw_series(shaded).map_err(failed)?;
    let marked = stalls.iter().map(|it| band(*it, Colour::Alarm, 0.3));
    chart.draw_series(marked).map_err(failed)?;
    Ok(())
}

fn line_with_gaps(
    chart: &mut Plot<'_, '_>,
    series: &Series,
    colour: Colour,
    value: impl Fn(&Point) -> Option<u64>,
) -> io::Result<()> {
    for part in series.points.split(|it| value(it).is_none()).filter(|part| !part.is_empty()) {
        let line = part.iter().filter_map(|it| Some((it.at, logarithm(value(it)?))));
        chart.draw_series(LineSeries::new(line, stroke(colour))).map_err(failed)?;
    }
    Ok(())
}
