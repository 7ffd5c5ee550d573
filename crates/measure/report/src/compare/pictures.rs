//! The pictures of a comparison: each result of the other side as a multiple of the baseline's, and both
//! sides of a step in one chart: latency by percentile, and rate over time.

use durio_judge::compare::{FigureComparison, Pair, SideWord, StepComparison};

use super::{by_difference, figure_name};
use crate::document::chart::{
    AxisScale, AxisUnit, Bar, BarGroup, Chart, ChartSeries, Colour, Style, kept, rounded, tail,
};
use crate::figures::decimal;

/// More steps than this do not fit a first screen; those with a difference come first.
const STEPS_MAX: usize = 3;

/// A wider interval would leave the ratio a hair; it is cut at this multiple of the longer bar.
const INTERVAL_MAX: f64 = 2.0;

pub(super) fn ratios(pair: &Pair) -> Chart {
    let order = by_difference(&pair.steps).into_iter().take(STEPS_MAX);
    let groups = order.filter_map(|at| pair.steps.get(at)).flat_map(|step| {
        let gated = step.figures.iter().filter(|figure| figure.figure.is_gated());
        gated.filter_map(move |figure| group(step, figure))
    });
    let legend = [
        (pair.baseline.as_str(), Colour::Shade),
        (pair.other.as_str(), Colour::First),
        ("95 % interval, with the estimate as a point", Colour::Second),
    ];
    let title = format!(
        "{} as a multiple of {}: longer is better for rates, shorter for latencies",
        pair.other, pair.baseline
    );
    Chart::bars(title, groups.collect(), legend).scaled_by_group()
}

/// The baseline, which is 1, and below it the other side up to the interval's end; `None` without a ratio.
fn group(step: &StepComparison, figure: &FigureComparison) -> Option<BarGroup> {
    let ratio = 1.0 + figure.effect?;
    // A single run's blocks say nothing of the next run.
    let interval = figure.interval.filter(|_| figure.word != SideWord::NoInterval);
    let interval = interval.map(|ends| ends.map(|end| 1.0 + end));
    let (spans, text) = match interval {
        Some([low, high]) => (
            vec![
                (0.0, low, Colour::First),
                (low, high.min(INTERVAL_MAX * ratio.max(1.0)), Colour::Second),
            ],
            format!("{} ({} to {})", decimal(ratio), decimal(low), decimal(high)),
        ),
        None => (vec![(0.0, ratio, Colour::First)], decimal(ratio)),
    };
    let title = format!("{}, {}", step.name, figure_name(step, figure.figure));
    let baseline = Bar::new("", 1.0, Colour::Shade, "1".to_owned());
    let point = interval.map(|_| ratio);
    Some(BarGroup::new(title, [baseline, Bar { name: String::new(), spans, point, text }]))
}

// More lines than this of one side hide each other.
const LINES_MAX: usize = 7;

// More points than this cannot be distinguished on a line.
const POINTS_MAX: usize = 80;

/// Latencies over the nines of the quantile, and rates over time, a line per repeat.
pub(super) fn overlays(pair: &Pair, step: &StepComparison) -> [Chart; 2] {
    let name = step.headline.name();
    let curves = step.curves.each_ref().map(|curves| -> Vec<OverlayLine> {
        curves.iter().map(|curve| tail(curve, POINTS_MAX)).collect()
    });
    // Rates of different workloads are different things.
    let is_same = !step.different_workload;
    let rates = step.rates.each_ref().map(|lines| -> Vec<OverlayLine> {
        lines.iter().filter(|_| is_same).map(|line| fitting(line)).collect()
    });
    [
        Chart::plot(
            format!("{name} latency over percentiles (both logarithmic), a line per repeat"),
            AxisScale::Nines,
            AxisUnit::Latency.logarithmic(),
            laid_over(pair, curves),
        ),
        Chart::plot(
            format!("{name} rate over time, a line per repeat"),
            AxisUnit::Seconds.linear(),
            AxisUnit::Rate.linear(),
            laid_over(pair, rates),
        ),
    ]
}

type OverlayLine = Vec<(f64, f64)>;

/// The lines of both sides, with a colour and a kind of line for each side.
fn laid_over(pair: &Pair, sides: [Vec<OverlayLine>; 2]) -> Vec<ChartSeries> {
    let styles = [
        (&pair.baseline, Colour::First, Style::Line),
        (&pair.other, Colour::Second, Style::Dashes),
    ];
    let mut series = Vec::new();
    for (lines, (name, colour, style)) in sides.into_iter().zip(styles) {
        // A single point makes no line, but would still have its colour in the legend.
        let drawable = lines.into_iter().filter(|line| line.len() > 1).take(LINES_MAX);
        series.extend(drawable.map(|line| ChartSeries::new(name, colour, style, line)));
    }
    series
}

/// The extremes of a long line.
fn fitting(line: &[(f64, f64)]) -> OverlayLine {
    let rate = |at: usize| line.get(at).map(|point| point.1);
    let kept = kept(line.len(), POINTS_MAX, &[&rate]).into_iter();
    kept.filter_map(|at| line.get(at)).map(|(at, rate)| (rounded(*at), rounded(*rate))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_extremes_and_a_short_one_everything() {
        let line = |count: u32| -> OverlayLine {
            let rate = |at: u32| if at == 150 { 9.0 } else { f64::from(at % 2) };
            (0..count).map(|at| (f64::from(at) + 0.5, rate(at))).collect()
        };
        assert_eq!(fitting(&line(80)), line(80));
        let kept = fitting(&line(200));
        assert!(kept.len() <= POINTS_MAX && kept.contains(&(150.5, 9.0)), "{kept:?}");
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0), "{kept:?}");
    }
}
