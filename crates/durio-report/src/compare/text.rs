//! A comparison for a terminal.
//!
//! In: a comparison and the terminal's width. Out: lines: what is compared, the answer, what else
//! differs, the figures. Not here: the words, which the page shares.

use std::io;

use durio_compare::{Comparison, FigureComparison, Gate, Pair, StepComparison, Word};

use super::words;
use crate::Options;
use crate::text::page::{Look, Page};
use crate::text::table::{TextCell, TextTable};

/// With more steps than this, one table of rates and 99th percentiles for all.
const STEPS_IN_FULL: usize = 12;

pub(super) fn write(
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    page.paragraph("", Look::Bold, "durio compare");
    for side in &comparison.sides {
        page.labelled(&side.label, 2, Look::Bold, &words::side(side));
    }
    for it in &comparison.pairs {
        pair(it, &mut page);
    }
    if let Some(it) = &comparison.gate {
        gate(it, comparison, &mut page);
    }
    page.heading("How");
    page.paragraph("  ", Look::Dim, &words::rule(comparison));
    if let Some(note) = words::blocks_note(comparison) {
        page.paragraph("  ", Look::Dim, &note);
    }
    out.write_all(page.text().as_bytes())
}

/// The figures of every step alone, and how they were found.
pub(crate) fn write_figures(comparison: &Comparison, page: &mut Page) {
    for it in &comparison.pairs {
        for remark in &it.remarks {
            page.labelled("NOTE", 7, Look::Warning, remark);
        }
        it.steps.iter().for_each(|step| in_full(step, page));
    }
    page.paragraph("  ", Look::Dim, &words::rule(comparison));
    if let Some(note) = words::blocks_note(comparison) {
        page.paragraph("  ", Look::Dim, &note);
    }
}

fn pair(pair: &Pair, page: &mut Page) {
    page.heading(&format!("{} against {}", pair.other, pair.baseline));
    page.paragraph("  ", Look::Bold, &words::summary(pair));
    for remark in &pair.remarks {
        page.labelled("NOTE", 7, Look::Warning, remark);
    }
    for difference in &pair.environment {
        page.labelled("differs", 7, Look::Warning, &words::difference(difference));
    }
    for (label, titles) in [(&pair.baseline, &pair.only_baseline), (&pair.other, &pair.only_other)]
    {
        for title in titles {
            page.labelled(&format!("only {label}"), 7, Look::Warning, title);
        }
    }
    match pair.steps.len() > STEPS_IN_FULL {
        true => in_short(pair, page),
        false => pair.steps.iter().for_each(|it| in_full(it, page)),
    }
}

fn notes(step: &StepComparison, page: &mut Page) {
    if let Some(differences) = words::step_differences(step) {
        page.paragraph("  ", Look::Warning, &differences);
    }
    for reason in &step.not_comparable {
        page.paragraph("  ", Look::Bad, &format!("not comparable because {reason}"));
    }
    for caution in &step.cautions {
        page.paragraph("  ", Look::Warning, &format!("compared by --force although {caution}"));
    }
}

fn in_full(step: &StepComparison, page: &mut Page) {
    page.heading(&words::title(step));
    notes(step, page);
    if step.figures.is_empty() {
        return;
    }
    page.paragraph("  ", Look::Dim, &words::basis(step));
    let mut header = vec![""];
    header.extend(words::COLUMNS);
    header.push("other is");
    let mut table = TextTable::new(page, header);
    for figure in &step.figures {
        table.add_row(row(&words::figure_name(step, figure.figure), figure));
    }
    table.put(page);
    for line in words::undecided(step) {
        page.paragraph("  ", Look::Dim, &line);
    }
}

fn row(name: &str, figure: &FigureComparison) -> Vec<TextCell> {
    let word = words::word(figure);
    let word = match figure.word {
        Word::Faster | Word::Slower => TextCell::bold(word),
        _ => word.into(),
    };
    let cells = words::cells(figure).into_iter().map(TextCell::from);
    std::iter::once(name.into()).chain(cells).chain([word]).collect()
}

fn in_short(pair: &Pair, page: &mut Page) {
    let mut header = vec!["step", "figure"];
    header.extend(words::COLUMNS);
    header.push("other is");
    page.blank();
    let mut table = TextTable::new(page, header);
    for step in &pair.steps {
        for figure in step.figures.iter().filter(|it| it.figure.is_gated()) {
            let mut cells = vec![TextCell::from(words::title(step))];
            cells.extend(row(&words::figure_name(step, figure.figure), figure));
            table.add_row(cells);
        }
    }
    table.put(page);
    let noted = |it: &&StepComparison| {
        !it.differences.is_empty() || !it.not_comparable.is_empty() || !it.cautions.is_empty()
    };
    for step in pair.steps.iter().filter(noted) {
        page.heading(&words::title(step));
        notes(step, page);
    }
    page.paragraph("  ", Look::Dim, "All figures of all steps: --format json, csv or html.");
}

fn gate(gate: &Gate, comparison: &Comparison, page: &mut Page) {
    let fail_over = comparison.settings.fail_over.unwrap_or_default();
    page.heading(&format!("Regression by more than {}", crate::figures::percent(fail_over)));
    if gate.regressions.is_empty() && gate.undecided.is_empty() {
        page.paragraph("  ", Look::Good, "none");
    }
    for line in &gate.regressions {
        page.labelled("WORSE", 9, Look::Bad, line);
    }
    for line in &gate.undecided {
        page.labelled("undecided", 9, Look::Warning, line);
    }
    for line in &gate.excluded {
        page.labelled("ok", 9, Look::Good, line);
    }
    if let Some(advice) = words::gate_advice(comparison) {
        page.paragraph("  ", Look::Plain, &advice);
    }
}
