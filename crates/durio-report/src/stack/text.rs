//! A bench of stacks for the terminal.
//!
//! In: findings. Out: text. Not here: the words, which the page shares.

use std::collections::BTreeSet;
use std::io;

use durio_analyse::attribution::{LayerRow, StackFindings, Waterfall, WorkloadRows};

use super::ladders::{LADDER_NOTE, ladders};
use super::tables::{ARRAYS_NOTE, Grid, GridRow, array_words, arrays, costs, published, rates};
use super::words;
use crate::Options;
use crate::text::page::{Look, Page};
use crate::text::table::TextTable;

pub(super) fn write(
    findings: &StackFindings,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    page.paragraph("", Look::Bold, &format!("durio stack bench: {}", findings.name));
    page.paragraph("  ", Look::Plain, &findings.summary);
    page.paragraph("  ", Look::Dim, &words::head(findings));
    if let Some(label) = &findings.label {
        page.labelled("COUNTED", 7, Look::Warning, label);
    }
    warnings(findings, &mut page);
    let mut said = Said::default();
    for ladder in ladders(findings) {
        page.heading(&format!("{}{}", ladder.title(), counted(findings)));
        table(ladder.table(findings), &mut page);
        said.note(LADDER_NOTE);
    }
    for it in &findings.workloads {
        workload(findings, it, &mut said, &mut page);
    }
    if findings.workloads.is_empty() {
        nothing(findings, &mut page);
    }
    if !said.notes.is_empty() {
        page.heading("How to read the tables");
        said.notes.iter().for_each(|note| page.paragraph("  ", Look::Dim, note));
    }
    out.write_all(page.text().as_bytes())
}

/// What a reader is told once, however many workloads there are.
#[derive(Default)]
struct Said<'a> {
    /// What the columns are, for the end.
    notes: Vec<&'a str>,
    models: BTreeSet<String>,
}

impl<'a> Said<'a> {
    fn note(&mut self, note: &'a str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn counted(findings: &StackFindings) -> &'static str {
    if findings.label.is_some() { " (counted)" } else { "" }
}

fn warnings(findings: &StackFindings, page: &mut Page) {
    for warning in &findings.warnings {
        page.labelled("WARNING", 7, Look::Warning, &warning.seen);
        page.labelled("", 7, Look::Plain, &warning.why);
        page.labelled("", 7, Look::Plain, &format!("→ {}", warning.advice));
    }
}

/// Every point failed before a workload was run.
fn nothing(findings: &StackFindings, page: &mut Page) {
    page.heading("Nothing was measured");
    for (at, point) in findings.points.iter().enumerate() {
        let why = point.failure.as_deref().unwrap_or("no workload was run");
        page.labelled(&words::row_name(findings, at), 12, Look::Bad, why);
    }
}

fn workload(findings: &StackFindings, it: &WorkloadRows, said: &mut Said<'_>, page: &mut Page) {
    page.heading(&format!("{}{}", it.label, counted(findings)));
    table(rates(findings, it), page);
    said.note(words::INTERVAL_NOTE);
    page.blank();
    table(costs(findings, it), page);
    said.note(words::COST_NOTE);
    notes(findings, &it.rows, page);
    waterfalls(&it.waterfalls, page);
    raid(findings, it, said, page);
    published_shares(findings, it, said, page);
}

/// Rows without figures have their reason in the notes below.
fn table(grid: Grid, page: &mut Page) {
    let columns = grid.header.len() - 1;
    let mut table = TextTable::new(page, grid.header);
    for row in grid.rows {
        let GridRow { name, mut cells, .. } = row;
        cells.resize(columns, "-".to_owned());
        cells.insert(0, name);
        table.add_row(cells);
    }
    table.put(page);
}

fn notes(findings: &StackFindings, rows: &[LayerRow], page: &mut Page) {
    for row in rows {
        for line in words::remarks(findings, row) {
            page.labelled("NOTE", 4, Look::Warning, &line);
        }
        let figures = row.figures.as_ref();
        if let Some(slices) = figures.and_then(|it| it.time_slices.as_ref()) {
            let name = words::row_name(findings, row.point);
            page.labelled("time", 4, Look::Dim, &words::slices(&name, slices));
        }
    }
    for line in words::untold(findings, rows) {
        page.labelled("NOTE", 4, Look::Dim, &line);
    }
}

fn waterfalls(falls: &[Waterfall], page: &mut Page) {
    let Some(first) = falls.first() else { return };
    page.blank();
    page.paragraph("  ", Look::Bold, &format!("From raw to the top: {}", first.basis.words()));
    for fall in falls {
        let steps: Vec<String> =
            fall.steps.iter().enumerate().map(|(at, step)| words::step(at, step)).collect();
        let total = fall.steps.last().map_or(0.0, |step| step.total_ns);
        let other = match fall.basis == first.basis {
            true => String::new(),
            false => format!(" ({})", fall.basis.words()),
        };
        let line = format!("{} = {}{other}", steps.join(" "), crate::figures::mean_latency(total));
        page.labelled(&fall.stack, 12, Look::Plain, &line);
    }
}

fn raid(findings: &StackFindings, it: &WorkloadRows, said: &mut Said<'_>, page: &mut Page) {
    let grid = arrays(findings, it);
    if !grid.rows.is_empty() {
        page.blank();
        table(grid, page);
        said.note(ARRAYS_NOTE);
        for line in array_words(findings, it) {
            if !said.models.insert(line.clone()) {
                continue;
            }
            page.labelled("model", 6, Look::Dim, &line);
        }
    }
    for row in &it.rows {
        let Some(mirror) = row.figures.as_ref().and_then(|it| it.mirror.as_ref()) else { continue };
        for line in words::mirror(&words::row_name(findings, row.point), mirror) {
            page.labelled("mirror", 6, Look::Dim, &line);
        }
    }
}

fn published_shares(
    findings: &StackFindings,
    it: &WorkloadRows,
    said: &mut Said<'_>,
    page: &mut Page,
) {
    let (Some(order), Some(grid)) = (&it.published, published(it)) else { return };
    page.blank();
    page.paragraph("  ", Look::Bold, &words::published_title(findings, order));
    table(grid, page);
    said.note(words::PUBLISHED_NOTE);
    page.paragraph("  ", Look::Plain, &order.sentence);
}
