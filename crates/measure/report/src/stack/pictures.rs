//! The pictures of a bench: ladders, waterfalls, published and measured shares, where the time goes.
//!
//! Makes a table and charts for each ladder from findings: its levels side by side, rate against jobs,
//! depth or committers, layer by layer. Each level is a separate workload with its own details.

use durio_analyse::attribution::{
    PointKind, PublishedOrder, PublishedRow, RowFigures, StackFindings, Waterfall, WaterfallStep,
    WorkloadRows,
};
use durio_analyse::{LatencyBreakdown, LatencyComponent};

use super::{published_title, row_name};
use crate::document::chart::{AxisUnit, Bar, BarGroup, Chart, ChartSeries, Colour};
use crate::document::{Cell, Table};
use crate::figures::{added, grouped, mean_latency, share};

// Fewer levels do not make a curve.
const CHART_LEVELS_MIN: usize = 3;
// Further stacks are in the table.
const CHARTS_MAX: usize = 12;

/// Said under the table of a ladder.
pub(super) const LADDER_NOTE: &str =
    "In a ladder, of raw is a share of the raw storage's rate at the same level.";

/// A workload at several levels of one axis.
#[derive(Debug)]
pub(super) struct WorkloadLadder<'f> {
    /// What varies: `jobs`.
    axis: &'f str,
    name: &'f str,
    /// Each level with its workload, the lowest level first.
    levels: Vec<(f64, &'f WorkloadRows)>,
}

/// Every ladder, in the order in which they were measured.
pub(super) fn ladders(findings: &StackFindings) -> Vec<WorkloadLadder<'_>> {
    let levels = findings.workloads.iter().filter_map(|workload| {
        let key = &workload.key;
        let (axis, level) = key.level()?;
        Some(((axis, key.workload.as_str(), key.section.as_deref(), key.stream), (level, workload)))
    });
    let mut ladders = Vec::new();
    for ((axis, workload, section, stream), mut levels) in grouped(levels) {
        // A bench runs its steps in the order of the spec, which may fall or jump.
        levels.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        // Loads of `beside` have separate names in the section.
        let name = section.filter(|_| stream == 0).unwrap_or(workload);
        ladders.push(WorkloadLadder { axis, name, levels });
    }
    ladders.retain(|ladder| ladder.levels.len() > 1);
    ladders
}

impl WorkloadLadder<'_> {
    /// True for one of its levels but the highest.
    pub(super) fn is_below_its_top(&self, workload: &WorkloadRows) -> bool {
        let below = self.levels.iter().rev().skip(1);
        below.into_iter().any(|(_, lower)| std::ptr::eq(*lower, workload))
    }

    pub(super) fn title(&self) -> String {
        format!("{}: rate by {}", self.name, self.axis)
    }

    /// Rates of all points, and the share of raw storage that those above it keep.
    pub(super) fn table(&self, findings: &StackFindings) -> Table {
        let levels = self.levels.iter().map(|(level, _)| level.to_string());
        let mut table = Table::new(std::iter::once(format!("per s, {}", self.axis)).chain(levels));
        for (at, point) in findings.points.iter().enumerate() {
            let mut row = |name: String, cell: &dyn Fn(&RowFigures) -> Cell| {
                let cells = self.figures(at).map(|figures| Cell::or_absent(figures, cell));
                table.row(std::iter::once(Cell::Text(name)).chain(cells));
            };
            row(row_name(findings, at), &|figures| Cell::Rate(figures.rate_per_second));
            if point.kind != PointKind::Raw {
                let share =
                    |figures: &RowFigures| Cell::or_absent(figures.share_of_raw, Cell::Share);
                row("of raw".to_owned(), &share);
            }
        }
        table
    }

    fn figures(&self, point: usize) -> impl Iterator<Item = Option<&RowFigures>> {
        self.levels.iter().map(move |(_, workload)| {
            workload.rows.iter().find(|row| row.point == point)?.figures.as_ref()
        })
    }

    /// One chart of all points, or where they are too many for that one of each stack.
    pub(super) fn pictures(&self, findings: &StackFindings) -> Vec<Chart> {
        if self.levels.len() < CHART_LEVELS_MIN {
            return Vec::new();
        }
        let all: Vec<usize> = (0..findings.points.len()).collect();
        // More lines than colours cannot be distinguished: then each stack has a chart.
        if all.len() <= Colour::SERIES.len() {
            return vec![self.picture(findings, &all, &self.title())];
        }
        let same = |a: &usize, b: &usize| findings.points[*a].stack == findings.points[*b].stack;
        let of_stack = |points: &[usize]| {
            let stack = points.first().map_or("", |at| findings.points[*at].stack.as_str());
            self.picture(findings, points, &format!("{stack}: {}", self.title()))
        };
        all.chunk_by(same).take(CHARTS_MAX).map(of_stack).collect()
    }

    /// The lowest of the points and those above it, as far as there are colours.
    fn picture(&self, findings: &StackFindings, points: &[usize], title: &str) -> Chart {
        let series = points.iter().zip(Colour::SERIES).flat_map(|(at, colour)| {
            let rates = self.levels.iter().map(|(level, _)| *level).zip(self.figures(*at));
            let points =
                rates.filter_map(|(level, figures)| Some((level, figures?.rate_per_second)));
            ChartSeries::measured(row_name(findings, *at), colour, points.collect(), Vec::new())
        });
        let (x, y) = (AxisUnit::Number.logarithmic(), AxisUnit::Rate.logarithmic());
        Chart::plot(format!("{title}, per second"), x, y, series.collect()).across(self.axis)
    }
}

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
        point: None,
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
    Bar { name, spans, point: None, text: mean_latency(end) }
}
