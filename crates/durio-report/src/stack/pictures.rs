//! The charts of a bench: waterfalls, published beside measured shares, where the time goes.
//!
//! In: findings. Out: pictures with their legends. Not here: the drawing of a bar.

use std::io;

use durio_analyse::attribution::{
    PublishedOrder, StackFindings, Waterfall, WaterfallStep, WorkloadRows,
};
use durio_analyse::{Stretch, TimeSlices};

use super::words::{added, published_title, row_name, share};
use crate::figures::mean_latency;
use crate::html::charts::{Colour, SpanGroup, SpanRow, spans};

/// Larger pages open slowly; further stacks are in the tables.
const STACKS_MAX: usize = 40;

/// A drawing with its legend.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) legend: Vec<(String, &'static str)>,
    pub(super) svg: String,
}

/// All charts of a workload.
pub(super) fn pictures(
    findings: &StackFindings,
    workload: &WorkloadRows,
) -> io::Result<Vec<Picture>> {
    let mut pictures = Vec::new();
    pictures.extend(waterfalls(findings, &workload.waterfalls)?);
    pictures.extend(slices(findings, workload)?);
    if let Some(order) = &workload.published {
        pictures.extend(published(findings, order)?);
    }
    Ok(pictures)
}

fn waterfalls(findings: &StackFindings, falls: &[Waterfall]) -> io::Result<Option<Picture>> {
    let Some(first) = falls.first() else { return Ok(None) };
    let group = |fall: &Waterfall| SpanGroup {
        title: match fall.basis == first.basis {
            true => fall.stack.clone(),
            false => format!("{} ({})", fall.stack, fall.basis.words()),
        },
        rows: fall.steps.iter().enumerate().map(|(at, it)| step(at, it)).collect(),
    };
    let groups: Vec<SpanGroup> = falls.iter().take(STACKS_MAX).map(group).collect();
    let what = if findings.label.is_some() { "Software cost" } else { "Time" };
    let further = match falls.len() > STACKS_MAX {
        true => format!(" (the first {STACKS_MAX} stacks)"),
        false => String::new(),
    };
    Ok(spans(&groups)?.map(|svg| Picture {
        title: format!(
            "{what} that each layer adds, from raw to the top: {}{further}",
            first.basis.words()
        ),
        legend: named([
            ("raw storage", Colour::First),
            ("added", Colour::Second),
            ("taken away", Colour::Third),
        ]),
        svg,
    }))
}

/// A legend of fixed words.
pub(super) fn named<const N: usize>(legend: [(&str, Colour); N]) -> Vec<(String, &'static str)> {
    legend.map(|(name, colour)| (name.to_owned(), colour.class())).into()
}

fn step(at: usize, step: &WaterfallStep) -> SpanRow {
    let before = step.total_ns - step.added_ns;
    let colour = match (at, step.added_ns < 0.0) {
        (0, _) => Colour::First,
        (_, false) => Colour::Second,
        (_, true) => Colour::Third,
    };
    SpanRow {
        name: step.layer.clone(),
        spans: vec![(before, step.total_ns, colour)],
        text: if at == 0 { mean_latency(step.total_ns) } else { added(step.added_ns) },
    }
}

fn published(findings: &StackFindings, order: &PublishedOrder) -> io::Result<Option<Picture>> {
    let rows = |it: &durio_analyse::attribution::PublishedRow| {
        let bar = |name: &str, value: f64, colour| SpanRow {
            name: name.to_owned(),
            spans: vec![(0.0, value, colour)],
            text: share(value),
        };
        let mut rows = vec![bar(&it.name, it.published, Colour::Second)];
        rows.extend(it.measured.map(|measured| bar("", measured, Colour::First)));
        SpanGroup { title: String::new(), rows }
    };
    let groups: Vec<SpanGroup> = order.rows.iter().take(STACKS_MAX).map(rows).collect();
    let measured = if findings.label.is_some() { "measured, counted" } else { "measured" };
    Ok(spans(&groups)?.map(|svg| Picture {
        title: format!("{}: shares of raw", published_title(findings, order)),
        legend: named([("published", Colour::Second), (measured, Colour::First)]),
        svg,
    }))
}

/// The stretches of each colour, in the order in which they follow each other.
const PARTS: [(&str, &[Stretch], Colour); 4] = [
    ("program, and entry to first queue", &[Stretch::Program, Stretch::Entry], Colour::First),
    ("queued, in layers", &[Stretch::Queued], Colour::Second),
    ("issue to complete", &[Stretch::Device], Colour::Third),
    ("between I/Os, and last complete to exit", &[Stretch::Between, Stretch::Exit], Colour::Fourth),
];

fn slices(findings: &StackFindings, workload: &WorkloadRows) -> io::Result<Option<Picture>> {
    let rows = workload.rows.iter().filter_map(|row| {
        let slices = row.figures.as_ref()?.time_slices.as_ref()?;
        Some(one_behind_the_other(row_name(findings, row.point), slices))
    });
    let group = SpanGroup { title: String::new(), rows: rows.take(STACKS_MAX).collect() };
    Ok(spans(&[group])?.map(|svg| Picture {
        title: "Where the time of an operation goes, as traced".to_owned(),
        legend: named(PARTS.map(|(words, _, colour)| (words, colour))),
        svg,
    }))
}

fn one_behind_the_other(name: String, slices: &TimeSlices) -> SpanRow {
    let mut end = 0.0;
    let mut spans = Vec::new();
    for (_, stretches, colour) in PARTS {
        let means = stretches.iter().filter_map(|it| slices.slice(*it)).map(|it| it.mean_ns);
        let mean_ns: f64 = means.filter(|it| it.is_finite() && *it > 0.0).sum();
        if mean_ns > 0.0 {
            spans.push((end, end + mean_ns, colour));
            end += mean_ns;
        }
    }
    SpanRow { name, spans, text: mean_latency(end) }
}
