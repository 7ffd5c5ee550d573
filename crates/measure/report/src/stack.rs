//! A bench of stacks as a document.
//!
//! Shows [`StackFindings`]: ladders, then each workload: rates, costs, where the time goes, arrays
//! next to their models, published shares. Adds no number to the findings.

mod changes;
mod pictures;
mod tables;

use std::collections::BTreeSet;

use durio_analyse::attribution::{
    BaseKind, DeviceCost, LayerRow, MirrorRow, PublishedOrder, RowFigures, StackFindings, Timing,
    Waterfall, WaterfallStep, WorkloadRows,
};
use durio_analyse::{LatencyBreakdown, each_once};
use durio_judge::summary::{Summary, of_stacks};

use crate::Report;
use crate::document::{Cell, DetailLevel, Document, Section, Table, Tone};
use crate::figures::{added, counted, decimal, grouped, latency, mean_latency, share};
use pictures::{LADDER_NOTE, ladders};
use tables::{
    ARRAYS_NOTE, COST_NOTE, INTERVAL_NOTE, PUBLISHED_NOTE, array_words, arrays, costs, published,
    rates, records,
};

impl Report for StackFindings {
    fn document(&self) -> Document {
        let mut document = Document::new("durio stack bench", &self.name);
        document.push(head(self));
        // Without a workload the reasons of all points follow below.
        if !self.workloads.is_empty() {
            document.push(glance(self));
        }
        let mut said = Notes::default();
        for ladder in ladders(self) {
            let mut section =
                Section::detail(format!("{}{}", ladder.title(), icount_mark(self.label.as_ref())));
            section.table(ladder.table(self));
            section.charts(ladder.pictures(self));
            document.push(section);
            said.of_columns.push(LADDER_NOTE);
        }
        for it in &self.workloads {
            document.push(workload(self, it, &mut said));
        }
        if self.workloads.is_empty() {
            document.push(nothing(self));
        }
        let mut notes = Section::detail("How to read the tables");
        each_once(said.of_columns).into_iter().for_each(|note| notes.note(note));
        document.push(notes);
        document.records = records(self);
        document
    }

    fn summary(&self) -> Option<Summary> {
        of_stacks(self)
    }

    fn has_field_summary(&self) -> bool {
        true
    }
}

/// Remarks given once, however many workloads there are.
#[derive(Default)]
struct Notes {
    of_columns: Vec<&'static str>,
    models: BTreeSet<String>,
}

// Figures that count instructions are never shown without saying so.
fn icount_mark(label: Option<&String>) -> &'static str {
    if label.is_some() { " (counted)" } else { "" }
}

fn head(findings: &StackFindings) -> Section {
    let mut head = Section::default();
    if !findings.summary.is_empty() {
        head.say(Tone::Plain, &findings.summary);
    }
    head.note(bench_line(findings));
    head.note(devices_line(findings));
    findings.label.iter().for_each(|label| head.toned(Tone::Warning, "COUNTED", label));
    findings.provisional.iter().for_each(|why| head.toned(Tone::Warning, "PROVISIONAL", why));
    let warnings =
        findings.warnings.iter().map(|warning| ((&warning.why, &warning.advice), &warning.seen));
    let alike_max = if has_several_warnings(findings) { 1 } else { ALIKE_MAX };
    for ((why, advice), seen) in grouped(warnings) {
        let (shown, more) = seen.split_at(seen.len().min(alike_max));
        shown.iter().for_each(|seen| head.toned(Tone::Warning, "WARNING", *seen));
        if !more.is_empty() {
            head.fact("", format!("{} more of this kind; --verbose lists them", more.len()));
        }
        for seen in more {
            head.toned_at(DetailLevel::Detail, Tone::Warning, "WARNING", *seen);
        }
        head.toned_at(DetailLevel::Detail, Tone::Plain, "", why);
        head.fact("", format!("→ {advice}"));
    }
    head
}

/// Warnings of one kind that a summary has; of several kinds one each.
const ALIKE_MAX: usize = 2;

fn has_several_warnings(findings: &StackFindings) -> bool {
    each_once(findings.warnings.iter().map(|warning| &warning.code)).len() > 1
}

// The most workloads side by side on a screen.
const GLANCE_MAX: usize = 3;

/// Stacks on a screen that has few lines above them.
const STACKS_MAX: usize = 10;

/// The stacks of which a screen keeps to 30 lines.
fn stacks_max(findings: &StackFindings) -> usize {
    let is_warned = has_several_warnings(findings) || findings.warnings.len() > ALIKE_MAX;
    let further = [findings.provisional.is_some(), is_warned];
    STACKS_MAX - 2 * further.into_iter().filter(|is_there| *is_there).count()
}

/// The stacks side by side, those on like devices together, the fastest first: the rate that the
/// topmost layer of each has left, at the highest level of a ladder.
fn glance(findings: &StackFindings) -> Section {
    let mut section = Section::new(format!("Stacks{}", icount_mark(findings.label.as_ref())));
    let ladders = ladders(findings);
    let is_lower =
        |workload: &&WorkloadRows| ladders.iter().any(|ladder| ladder.is_below_its_top(workload));
    let all: Vec<_> = findings.workloads.iter().filter(|workload| !is_lower(workload)).collect();
    let shown = all.get(..GLANCE_MAX).unwrap_or(&all);
    let mut tops: Vec<usize> =
        (0..findings.points.len()).filter(|at| is_top(findings, *at)).collect();
    let first = |at: usize| figures_at(shown.first()?, at).map(|figures| figures.rate_per_second);
    let kind = |at: usize| {
        let base = &findings.points.get(at)?.base;
        findings.points.iter().position(|point| point.base.is_like(base))
    };
    // Stacks without a result come last.
    let key = |at: usize| first(at).unwrap_or(-1.0);
    tops.sort_by(|a, b| kind(*a).cmp(&kind(*b)).then(key(*b).total_cmp(&key(*a))));
    let stacks = tops.iter().filter_map(|at| Some(&findings.points.get(*at)?.stack));
    let are_distinct = each_once(stacks).len() == tops.len();
    let stacks_max = stacks_max(findings);
    let mut table = glance_head(shown);
    for (place, at) in tops.iter().enumerate() {
        let cells = shown.iter().flat_map(|workload| {
            let figures = figures_at(workload, *at);
            let p99 = figures.and_then(|figures| figures.service.as_ref()?.p99_ns);
            [
                Cell::or_absent(figures, |figures| Cell::Rate(figures.rate_per_second)),
                Cell::or_absent(figures.and_then(|figures| figures.share_of_raw), Cell::Factor),
                Cell::or_absent(p99, Cell::nanos),
            ]
        });
        let name = match findings.points.get(*at) {
            Some(point) if are_distinct => point.stack.clone(),
            _ => row_name(findings, *at),
        };
        table.row(std::iter::once(Cell::Text(name)).chain(cells));
        if let Some(row) = table.rows.last_mut().filter(|_| place >= stacks_max) {
            row.level = DetailLevel::Detail;
        }
    }
    section.table(table);
    failures(findings, &mut section);
    let more = tops.len().saturating_sub(stacks_max);
    glance_notes(findings, &all, more, &mut section);
    section
}

fn figures_at(workload: &WorkloadRows, point: usize) -> Option<&RowFigures> {
    workload.rows.iter().find(|row| row.point == point)?.figures.as_ref()
}

/// The latencies of further workloads have no room on a screen.
fn glance_head(shown: &[&WorkloadRows]) -> Table {
    let titles = shown.iter().flat_map(|workload| {
        [format!("{} per s", workload.label), "× raw".to_owned(), "p99".to_owned()]
    });
    let mut table = Table::new(std::iter::once("stack".to_owned()).chain(titles));
    let latencies = table.columns.iter_mut().filter(|column| column.title == "p99");
    latencies.skip(1).for_each(|column| column.level = DetailLevel::Detail);
    table
}

/// The first layer of each stack that failed: those above it failed for the same reason.
fn failures(findings: &StackFindings, section: &mut Section) {
    let points = findings.points.iter().enumerate();
    let failed =
        points.filter_map(|(at, point)| Some((&point.stack, (at, point.failure.as_ref()?))));
    for (_, of_stack) in grouped(failed) {
        if let Some((at, why)) = of_stack.first() {
            section.toned(Tone::Bad, &row_name(findings, *at), why.as_str());
        }
    }
}

fn glance_notes(
    findings: &StackFindings,
    all: &[&WorkloadRows],
    more_stacks: usize,
    section: &mut Section,
) {
    let mut note =
        "× raw: rate ÷ rate of the raw storage below (one device unless the spec measures several)."
            .to_owned();
    let rows = all.iter().take(GLANCE_MAX).flat_map(|workload| &workload.rows);
    let mut shares = rows.filter_map(|row| {
        row.figures.as_ref()?.share_of_raw.filter(|_| is_top(findings, row.point))
    });
    // Less is the spread of runs.
    if shares.any(|share| share > 1.05) {
        note.push_str(
            " Above 1 ×, several devices share the work, or a layer caches or merges writes.",
        );
    }
    section.note(note);
    let more = [
        (more_stacks, "further stack"),
        (all.len().saturating_sub(GLANCE_MAX), "further workload"),
    ];
    let more = more.iter().filter(|(count, _)| *count > 0);
    let more: String =
        more.map(|(count, what)| format!("{}, ", counted(*count as u64, what))).collect();
    section.note(format!("--verbose: {more}every layer, its cost, and the devices' work"));
}

/// True for a point on which no other stands.
fn is_top(findings: &StackFindings, at: usize) -> bool {
    findings.points.iter().all(|point| point.below != Some(at))
}

/// Every point failed before a workload was run.
fn nothing(findings: &StackFindings) -> Section {
    let mut section = Section::new("Nothing was measured");
    for (at, point) in findings.points.iter().enumerate() {
        let why = point.failure.as_deref().unwrap_or("no workload was run");
        section.toned(Tone::Bad, &row_name(findings, at), why);
    }
    section
}

fn workload(findings: &StackFindings, it: &WorkloadRows, said: &mut Notes) -> Section {
    let title = format!("{}{}", it.label, icount_mark(findings.label.as_ref()));
    let mut section = Section::detail(title);
    section.table(rates(findings, it));
    said.of_columns.push(INTERVAL_NOTE);
    section.table(costs(findings, it));
    said.of_columns.push(COST_NOTE);
    notes(findings, &it.rows, &mut section);
    waterfalls(&it.waterfalls, &mut section);
    raid(findings, it, said, &mut section);
    if let (Some(order), Some(table)) = (&it.published, published(it)) {
        section.say(Tone::Strong, published_title(findings, order));
        section.table(table);
        section.say(Tone::Plain, &order.sentence);
        said.of_columns.push(PUBLISHED_NOTE);
    }
    section.charts(pictures::pictures(findings, it));
    section
}

fn notes(findings: &StackFindings, rows: &[LayerRow], section: &mut Section) {
    for row in rows {
        for line in remarks(findings, row) {
            section.toned(Tone::Warning, "NOTE", line);
        }
        let figures = row.figures.as_ref();
        if let Some(breakdown) = figures.and_then(|figures| figures.latency_breakdown.as_ref()) {
            let name = row_name(findings, row.point);
            section.toned(Tone::Note, "time", breakdown_words(&name, breakdown));
        }
    }
    for line in untold(findings, rows) {
        section.toned(Tone::Note, "NOTE", line);
    }
}

fn waterfalls(falls: &[Waterfall], section: &mut Section) {
    // The basis of most of them stands in the title; one that differs says so itself.
    let Some(first) = falls.first() else { return };
    section.say(Tone::Strong, format!("From raw to the top: {}", first.basis.words()));
    for fall in falls {
        let steps: Vec<String> =
            fall.steps.iter().enumerate().map(|(at, step)| step_words(at, step)).collect();
        let total = mean_latency(fall.steps.last().map_or(0.0, |step| step.total_ns));
        // Times of different bases must not stand side by side unsaid.
        let other = match fall.basis == first.basis {
            true => String::new(),
            false => format!(" ({})", fall.basis.words()),
        };
        section.fact(&fall.stack, format!("{} = {total}{other}", steps.join(" ")));
    }
}

fn raid(findings: &StackFindings, it: &WorkloadRows, said: &mut Notes, section: &mut Section) {
    let table = arrays(findings, it);
    if !table.rows.is_empty() {
        section.table(table);
        said.of_columns.push(ARRAYS_NOTE);
        for line in array_words(findings, it) {
            // The same arrays are below every workload.
            if said.models.insert(line.clone()) {
                section.toned(Tone::Note, "model", line);
            }
        }
    }
    for row in &it.rows {
        let Some(mirror) = row.figures.as_ref().and_then(|figures| figures.mirror.as_ref()) else {
            continue;
        };
        for line in mirror_words(&row_name(findings, row.point), mirror) {
            section.toned(Tone::Note, "mirror", line);
        }
    }
}

/// The layer, with its stack where others have a layer of that name.
pub(super) fn row_name(findings: &StackFindings, at: usize) -> String {
    let Some(point) = findings.points.get(at) else { return String::new() };
    let same = findings.points.iter().filter(|other| other.name == point.name).count();
    match same {
        0 | 1 => point.name.clone(),
        _ => format!("{} [{}]", point.name, point.stack),
    }
}

fn bench_line(findings: &StackFindings) -> String {
    let timing = match findings.timing {
        None => "on this machine",
        Some(Timing::Counted) => "in the lab, counted",
        Some(Timing::Wall) => "in the lab, by the wall clock",
    };
    let stacks = each_once(findings.points.iter().map(|point| &point.stack));
    let stacks = counted(stacks.len() as u64, "stack");
    let points = counted(findings.points.len() as u64, "point");
    format!("{stacks}, {points}, {timing}, kernel {}", findings.kernels.join(", "))
}

/// Where the devices are; the sentence says which are not the user's storage.
fn devices_line(findings: &StackFindings) -> String {
    let bases = each_once(findings.points.iter().map(|point| &point.base));
    let names: Vec<&str> = bases.iter().map(|base| base.label.as_str()).collect();
    let names = names.join("; ");
    if bases.iter().all(|base| base.kind == BaseKind::Device) {
        return format!("devices: {names}");
    }
    format!("devices: {names}; durio check DIR measures your storage")
}

/// Why a row, or a part of it, is to be read with care: one line each.
fn remarks(findings: &StackFindings, row: &LayerRow) -> Vec<String> {
    let name = row_name(findings, row.point);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(row.absent.iter().map(|why| format!("{name}: no results: {why}")));
    let Some(figures) = &row.figures else { return lines };
    lines.extend(figures.remarks.iter().map(|remark| format!("{name}: {remark}")));
    lines
}

/// Why device writes are unknown, each reason with its rows.
fn untold(findings: &StackFindings, rows: &[LayerRow]) -> Vec<String> {
    let why = |row: &LayerRow| match row.figures.as_ref()?.devices.as_ref()? {
        DeviceCost::CannotTell { why } => Some((why.clone(), row_name(findings, row.point))),
        _ => None,
    };
    let line = |(why, names): (String, Vec<String>)| {
        format!("device writes: cannot tell of {}: {why}", names.join(", "))
    };
    grouped(rows.iter().filter_map(why)).into_iter().map(line).collect()
}

fn mirror_words(name: &str, row: &MirrorRow) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(beside) = &row.beside {
        let (slowest, measured) = (&beside.predicted.slowest, &beside.measured);
        lines.push(format!(
            "{name}: the slower of {} independent draws from the single device would take {} on \
             average and {} at p99; measured {} and {}: {} and {} times that",
            beside.predicted.copies,
            mean_latency(slowest.latency_ns_mean),
            latency(slowest.latency_ns_p99),
            mean_latency(measured.latency_ns_mean),
            latency(measured.latency_ns_p99),
            decimal(beside.mean_ratio),
            decimal(beside.p99_ratio),
        ));
    }
    lines.extend(row.penalty.iter().map(|penalty| format!("{name}: {}", penalty.sentence)));
    lines.extend(row.remark.iter().map(|remark| format!("{name}: {remark}")));
    lines
}

fn breakdown_words(name: &str, breakdown: &LatencyBreakdown) -> String {
    let passed = breakdown.components.iter().filter(|component| component.mean_ns > 0.0);
    let mut parts: Vec<String> = passed
        .map(|component| {
            format!("{} {}", component.component.words(), mean_latency(component.mean_ns))
        })
        .collect();
    parts.push(format!("{} of it on no processor", share(breakdown.off_cpu_share)));
    format!("{name}: {} ({} traced)", parts.join(", "), breakdown.operations)
}

fn step_words(at: usize, step: &WaterfallStep) -> String {
    match at {
        0 => format!("{} {}", step.layer, mean_latency(step.total_ns)),
        _ => format!("{} {}", added(step.added_ns), step.layer),
    }
}

/// The title over published shares; counted results never stand there without their label.
pub(super) fn published_title(findings: &StackFindings, order: &PublishedOrder) -> String {
    let title = format!("Beside what was published: {}", order.sources.join(", "));
    match &findings.label {
        Some(label) => format!("{title} (measured here: {label})"),
        None => title,
    }
}
