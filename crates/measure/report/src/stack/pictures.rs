//! The charts of a bench: waterfalls, published and measured shares, where the time goes.

use durio_analyse::attribution::{
    PublishedOrder, PublishedRow, StackFindings, Waterfall, WaterfallStep, WorkloadRows,
};
use durio_analyse::{LatencyBreakdown, LatencyComponent};

use super::{published_title, row_name};
use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::figures::{added, mean_latency, share};

// Larger pages open slowly; further stacks are in the tables.
const STACKS_MAX: usize = 40;

pub(super) fn pictures(findings: &StackFindings, workload: &WorkloadRows) -> Vec<Chart> {
    let published = workload.published.as_ref().map(|order| published(findings, order));
    let falls = waterfalls(findings, &workload.waterfalls);
    falls.into_iter().chain([components(findings, workload)]).chain(published).collect()
}

fn waterfalls(findings: &StackFindings, falls: &[Waterfall]) -> Option<Chart> {
    let first = falls.first()?;
    let group = |fall: &Waterfall| BarGroup {
        title: match fall.basis == first.basis {
            true => fall.stack.clone(),
            false => format!("{} ({})", fall.stack, fall.basis.words()),
        },
        bars: fall.steps.iter().enumerate().map(|(at, layer)| step(at, layer)).collect(),
    };
    let what = if findings.label.is_some() { "Software cost" } else { "Time" };
    let further = match falls.len() > STACKS_MAX {
        true => format!(" (the first {STACKS_MAX} stacks)"),
        false => String::new(),
    };
    let title = format!(
        "{what} that each layer adds, from raw to the top: {}{further}",
        first.basis.words()
    );
    let legend =
        [("raw storage", Colour::First), ("added", Colour::Second), ("taken away", Colour::Third)];
    Some(Chart::bars(title, falls.iter().take(STACKS_MAX).map(group).collect(), legend))
}

fn step(at: usize, step: &WaterfallStep) -> Bar {
    let before = step.total_ns - step.added_ns;
    let colour = match (at, step.added_ns < 0.0) {
        (0, _) => Colour::First,
        (_, false) => Colour::Second,
        (_, true) => Colour::Third,
    };
    Bar {
        name: step.layer.clone(),
        spans: vec![(before, step.total_ns, colour)],
        text: if at == 0 { mean_latency(step.total_ns) } else { added(step.added_ns) },
    }
}

fn published(findings: &StackFindings, order: &PublishedOrder) -> Chart {
    let group = |row: &PublishedRow| {
        let mut bars =
            vec![Bar::new(&row.name, row.published, Colour::Second, share(row.published))];
        bars.extend(
            row.measured.map(|interval| Bar::new("", interval, Colour::First, share(interval))),
        );
        BarGroup::new("", bars)
    };
    let measured = if findings.label.is_some() { "measured, counted" } else { "measured" };
    Chart::bars(
        format!("{}: shares of raw", published_title(findings, order)),
        order.rows.iter().take(STACKS_MAX).map(group).collect(),
        [("published", Colour::Second), (measured, Colour::First)],
    )
}

/// The components of each colour, in the order in which they follow each other.
const PARTS: [(&str, &[LatencyComponent], Colour); 4] = [
    (
        "program, and entry to first queue",
        &[LatencyComponent::Program, LatencyComponent::Entry],
        Colour::First,
    ),
    ("queued, in layers", &[LatencyComponent::Queued], Colour::Second),
    ("issue to complete", &[LatencyComponent::Device], Colour::Third),
    (
        "between I/Os, and last complete to exit",
        &[LatencyComponent::Between, LatencyComponent::Exit],
        Colour::Fourth,
    ),
];

fn components(findings: &StackFindings, workload: &WorkloadRows) -> Chart {
    let bars = workload.rows.iter().filter_map(|row| {
        let breakdown = row.figures.as_ref()?.latency_breakdown.as_ref()?;
        Some(one_behind_the_other(row_name(findings, row.point), breakdown))
    });
    let group = BarGroup::new("", bars.take(STACKS_MAX));
    let legend = PARTS.map(|(words, _, colour)| (words, colour));
    Chart::bars("Where the time of an operation goes, as traced", vec![group], legend)
}

fn one_behind_the_other(name: String, breakdown: &LatencyBreakdown) -> Bar {
    let mut end = 0.0;
    let mut spans = Vec::new();
    for (_, parts, colour) in PARTS {
        let means =
            parts.iter().filter_map(|part| breakdown.component(*part)).map(|part| part.mean_ns);
        let mean_ns: f64 = means.filter(|mean| mean.is_finite() && *mean > 0.0).sum();
        if mean_ns > 0.0 {
            spans.push((end, end + mean_ns, colour));
            end += mean_ns;
        }
    }
    Bar { name, spans, text: mean_latency(end) }
}
