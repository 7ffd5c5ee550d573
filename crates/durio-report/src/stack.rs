//! A bench of stacks as a document.
//!
//! In: [`StackFindings`]. Out: ladders, then each workload: rates, costs, where the time goes, arrays
//! beside their models, published shares. Not here: any figure that the findings do not have.

mod change_records;
mod changes;
mod ladders;
mod pictures;
mod records;
mod tables;
mod words;

use std::collections::BTreeSet;
use std::io;

use durio_analyse::attribution::{LayerRow, StackFindings, Waterfall, WorkloadRows};

pub use changes::write_lab_comparison;

use crate::document::{Document, Section, Tone};
use crate::figures::mean_latency;
use crate::{Format, Options};
use ladders::{LADDER_NOTE, ladders};
use tables::{ARRAYS_NOTE, array_words, arrays, costs, published, rates};

/// Writes the findings of a bench of stacks in `format`.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk; and for fio's JSON, which has no
/// place for them, that it is unsupported.
pub fn render_stack(
    format: Format,
    findings: &StackFindings,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    format.write(findings, document, options, out)
}

fn document(findings: &StackFindings) -> Document {
    let mut document = Document::new("durio stack bench", &findings.name);
    document.push(head(findings));
    let mut said = Said::default();
    for ladder in ladders(findings) {
        let mut section = Section::new(format!("{}{}", ladder.title(), counted(findings)));
        section.table(ladder.table(findings));
        section.charts(ladder.pictures(findings));
        document.push(section);
        said.note(LADDER_NOTE);
    }
    for it in &findings.workloads {
        document.push(workload(findings, it, &mut said));
    }
    if findings.workloads.is_empty() {
        document.push(nothing(findings));
    }
    let mut notes = Section::new("How to read the tables");
    said.notes.into_iter().for_each(|it| notes.note(it));
    document.push(notes);
    document.records = records::records(findings);
    document
}

/// What a reader is told once, however many workloads there are.
#[derive(Default)]
struct Said {
    /// What the columns are, for the end.
    notes: Vec<&'static str>,
    models: BTreeSet<String>,
}

impl Said {
    fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn counted(findings: &StackFindings) -> &'static str {
    if findings.label.is_some() { " (counted)" } else { "" }
}

fn head(findings: &StackFindings) -> Section {
    let mut head = Section::default();
    head.say(Tone::Plain, &findings.summary);
    head.note(words::head(findings));
    findings.label.iter().for_each(|label| head.toned(Tone::Warning, "COUNTED", label));
    for warning in &findings.warnings {
        head.toned(Tone::Warning, "WARNING", &warning.seen);
        head.fact("", &warning.why);
        head.fact("", format!("→ {}", warning.advice));
    }
    head
}

/// Every point failed before a workload was run.
fn nothing(findings: &StackFindings) -> Section {
    let mut section = Section::new("Nothing was measured");
    for (at, point) in findings.points.iter().enumerate() {
        let why = point.failure.as_deref().unwrap_or("no workload was run");
        section.toned(Tone::Bad, &words::row_name(findings, at), why);
    }
    section
}

fn workload(findings: &StackFindings, it: &WorkloadRows, said: &mut Said) -> Section {
    let mut section = Section::new(format!("{}{}", it.label, counted(findings)));
    section.table(rates(findings, it));
    said.note(words::INTERVAL_NOTE);
    section.table(costs(findings, it));
    said.note(words::COST_NOTE);
    notes(findings, &it.rows, &mut section);
    waterfalls(&it.waterfalls, &mut section);
    raid(findings, it, said, &mut section);
    if let (Some(order), Some(table)) = (&it.published, published(it)) {
        section.say(Tone::Strong, words::published_title(findings, order));
        section.table(table);
        section.say(Tone::Plain, &order.sentence);
        said.note(words::PUBLISHED_NOTE);
    }
    section.charts(pictures::pictures(findings, it));
    section
}

fn notes(findings: &StackFindings, rows: &[LayerRow], section: &mut Section) {
    for row in rows {
        for line in words::remarks(findings, row) {
            section.toned(Tone::Warning, "NOTE", line);
        }
        let figures = row.figures.as_ref();
        if let Some(slices) = figures.and_then(|it| it.time_slices.as_ref()) {
            let name = words::row_name(findings, row.point);
            section.toned(Tone::Note, "time", words::slices(&name, slices));
        }
    }
    for line in words::untold(findings, rows) {
        section.toned(Tone::Note, "NOTE", line);
    }
}

fn waterfalls(falls: &[Waterfall], section: &mut Section) {
    let Some(first) = falls.first() else { return };
    section.say(Tone::Strong, format!("From raw to the top: {}", first.basis.words()));
    for fall in falls {
        let steps: Vec<String> =
            fall.steps.iter().enumerate().map(|(at, step)| words::step(at, step)).collect();
        let total = mean_latency(fall.steps.last().map_or(0.0, |step| step.total_ns));
        let other = match fall.basis == first.basis {
            true => String::new(),
            false => format!(" ({})", fall.basis.words()),
        };
        section.fact(&fall.stack, format!("{} = {total}{other}", steps.join(" ")));
    }
}

fn raid(findings: &StackFindings, it: &WorkloadRows, said: &mut Said, section: &mut Section) {
    let table = arrays(findings, it);
    if !table.rows.is_empty() {
        section.table(table);
        said.note(ARRAYS_NOTE);
        for line in array_words(findings, it) {
            if said.models.insert(line.clone()) {
                section.toned(Tone::Note, "model", line);
            }
        }
    }
    for row in &it.rows {
        let Some(mirror) = row.figures.as_ref().and_then(|it| it.mirror.as_ref()) else { continue };
        for line in words::mirror(&words::row_name(findings, row.point), mirror) {
            section.toned(Tone::Note, "mirror", line);
        }
    }
}
