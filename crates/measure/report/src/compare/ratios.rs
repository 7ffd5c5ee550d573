//! The picture of a comparison: each result of the other side as a multiple of the baseline's.

use durio_judge::compare::{FigureComparison, Pair, StepComparison};

use super::{by_difference, figure_name};
use crate::document::chart::{Bar, BarGroup, Chart, Colour};
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
        ("95 % interval", Colour::Second),
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
    let interval = figure.interval.map(|ends| ends.map(|end| 1.0 + end));
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
    Some(BarGroup::new(title, [baseline, Bar { name: String::new(), spans, text }]))
}
