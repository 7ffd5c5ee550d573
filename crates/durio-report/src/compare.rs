//! A comparison as a document.
//!
//! In: a [`Comparison`]. Out: what is compared, the answer, what else differs, the figures of each
//! step. Not here: any figure or word that the comparison does not have.

mod records;
mod words;

use std::io;

use durio_analyse::CurvePoint;
use durio_compare::{Comparison, FigureComparison, Gate, Pair, StepComparison, Word};

pub use words::gate_advice;

use crate::decimate::kept;
use crate::document::chart::{Chart, Colour, Panel, Scale, Series, Style, Unit};
use crate::document::{Body, Cell, Document, Level, Section, Table, Tone};
use crate::figures::percent;
use crate::{Format, Options};

/// With more steps than this, a terminal has one table of rates and 99th percentiles for all.
const STEPS_IN_FULL: usize = 12;

/// More charts than this make a page that browsers open slowly.
const CHARTS_MAX: usize = 60;

/// More lines than this of one side hide each other.
const LINES_MAX: usize = 7;

/// More points than this on a curve cannot be told apart.
const POINTS_MAX: usize = 80;

/// Writes `comparison` in `format`.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk; and for fio's JSON, which has no
/// place for a comparison, that it is unsupported.
pub fn write_comparison(
    format: Format,
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    format.write(comparison, document, options, out)
}

fn document(comparison: &Comparison) -> Document {
    let labels: Vec<&str> = comparison.sides.iter().map(|it| it.label.as_str()).collect();
    let mut document = Document::new("durio compare", labels.join(" and "));
    let mut head = Section::default();
    for side in &comparison.sides {
        head.toned(Tone::Strong, &side.label, words::side(side));
    }
    document.push(head);
    document.sections.extend(comparison.gate.iter().map(|it| gate(it, comparison)));
    for it in &comparison.pairs {
        pair(it, &mut document);
    }
    document.push(how(comparison));
    document.records = records::records(comparison);
    document
}

/// The figures of every step alone, and how they were found.
pub(crate) fn figures(comparison: &Comparison) -> Vec<Section> {
    let mut sections = Vec::new();
    for pair in &comparison.pairs {
        let mut remarks = Section::default();
        for remark in &pair.remarks {
            remarks.toned(Tone::Warning, "NOTE", remark);
        }
        sections.push(remarks);
        let steps = pair.steps.iter().map(|it| step(pair, it, Level::Summary, false));
        sections.extend(steps);
    }
    sections.push(how(comparison));
    sections
}

fn how(comparison: &Comparison) -> Section {
    let mut how = Section::new("How it was compared");
    how.note(words::rule(comparison));
    words::blocks_note(comparison).into_iter().for_each(|it| how.note(it));
    how
}

fn gate(gate: &Gate, comparison: &Comparison) -> Section {
    let fail_over = comparison.settings.fail_over.unwrap_or_default();
    let mut section = Section::new(format!("Regression by more than {}", percent(fail_over)));
    if gate.regressions.is_empty() && gate.undecided.is_empty() {
        section.say(Tone::Good, "none");
    }
    let kinds = [
        (Tone::Bad, "WORSE", &gate.regressions),
        (Tone::Warning, "undecided", &gate.undecided),
        (Tone::Good, "ok", &gate.excluded),
    ];
    for (tone, word, lines) in kinds {
        lines.iter().for_each(|line| section.toned(tone, word, line));
    }
    words::gate_advice(comparison).into_iter().for_each(|it| section.say(Tone::Plain, it));
    section
}

fn pair(pair: &Pair, document: &mut Document) {
    let mut section = Section::new(format!("{} against {}", pair.other, pair.baseline));
    section.say(Tone::Strong, words::summary(pair));
    for remark in &pair.remarks {
        section.toned(Tone::Warning, "NOTE", remark);
    }
    for difference in &pair.environment {
        section.toned(Tone::Warning, "differs", words::difference(difference));
    }
    for (label, titles) in [(&pair.baseline, &pair.only_baseline), (&pair.other, &pair.only_other)]
    {
        let label = format!("only {label}");
        titles.iter().for_each(|title| section.toned(Tone::Warning, &label, title));
    }
    let is_short = pair.steps.len() > STEPS_IN_FULL;
    if is_short {
        section.table(in_short(pair));
        section.note("All figures of all steps: --format json, csv or html.");
    }
    let drawn = drawn(&pair.steps);
    if drawn.contains(&false) {
        let note =
            format!("Distributions are drawn for {CHARTS_MAX} steps, those that differ first.");
        section.push(Level::Detail, Body::Text(Tone::Note, note));
    }
    document.push(section);
    let level = if is_short { Level::Detail } else { Level::Summary };
    for (it, drawn) in pair.steps.iter().zip(drawn) {
        document.push(step(pair, it, level, drawn));
    }
}

/// Which steps have a chart: those with a difference first.
fn drawn(steps: &[StepComparison]) -> Vec<bool> {
    let differs = |step: &StepComparison| {
        step.figures.iter().any(|it| matches!(it.word, Word::Faster | Word::Slower))
    };
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&it| steps.get(it).is_none_or(|step| !differs(step)));
    order.truncate(CHARTS_MAX);
    (0..steps.len()).map(|it| order.contains(&it)).collect()
}

/// What keeps a step from being compared is said whatever the `level` of its figures.
fn step(pair: &Pair, step: &StepComparison, level: Level, is_drawn: bool) -> Section {
    let mut section = Section::new(words::title(step));
    words::step_differences(step).into_iter().for_each(|it| section.say(Tone::Warning, it));
    for reason in &step.not_comparable {
        section.say(Tone::Bad, format!("not comparable because {reason}"));
    }
    for caution in &step.cautions {
        section.say(Tone::Warning, format!("compared by --force although {caution}"));
    }
    if !step.figures.is_empty() {
        section.push(level, Body::Text(Tone::Note, words::basis(step)));
        let mut table = Table::new([""].into_iter().chain(words::COLUMNS));
        step.figures.iter().for_each(|it| table.row(row(step, it)));
        section.push(level, Body::Table(table));
        for line in words::undecided(step) {
            section.push(level, Body::Text(Tone::Note, line));
        }
    }
    section.charts(is_drawn.then(|| overlay(pair, step)));
    section
}

fn in_short(pair: &Pair) -> Table {
    let mut table = Table::new(["step", "figure"].into_iter().chain(words::COLUMNS));
    for step in &pair.steps {
        for figure in step.figures.iter().filter(|it| it.figure.is_gated()) {
            table.row(std::iter::once(Cell::text(words::title(step))).chain(row(step, figure)));
        }
    }
    table
}

fn row(step: &StepComparison, figure: &FigureComparison) -> Vec<Cell> {
    let tone = match figure.word {
        Word::Faster => Tone::Good,
        Word::Slower => Tone::Bad,
        Word::NoDifference | Word::Undecided => Tone::Plain,
    };
    let mut cells = vec![Cell::text(words::figure_name(step, figure.figure))];
    cells.extend(words::cells(figure));
    cells.push(Cell::Word(tone, words::word(figure).to_owned()));
    cells
}

/// Two sides' latencies over the nines of the quantile, a line per repeat.
fn overlay(pair: &Pair, step: &StepComparison) -> Chart {
    let sides = [(&pair.baseline, Colour::First), (&pair.other, Colour::Second)];
    let mut series = Vec::new();
    for (curves, (name, colour)) in step.curves.iter().zip(sides) {
        let drawable = curves.iter().filter(|it| it.len() > 1).take(LINES_MAX);
        let line = |it| Series::new(name, colour, Style::Line, tail(it, POINTS_MAX));
        series.extend(drawable.map(|it: &Vec<CurvePoint>| line(it)));
    }
    let title = format!(
        "{} latency over percentiles (both logarithmic), a line per repeat",
        step.headline.name()
    );
    let (x, y) = (Scale::Nines, Scale::Logarithmic(Unit::Latency));
    Chart::plot(title, vec![Panel { x, y, series }])
}

/// Latencies over the nines of their quantiles, −log10(1 − q): at most so many points.
#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
pub(crate) fn tail(curve: &[CurvePoint], points_max: usize) -> Vec<(f64, f64)> {
    let nines = |quantile: f64| -(1.0 - quantile.clamp(0.0, 1.0 - 1e-9)).log10();
    let value = |at: usize| curve.get(at).map(|it| (it.latency_ns.max(1) as f64).log10());
    let kept = kept(curve.len(), points_max, &[&value]);
    let kept = kept.into_iter().filter_map(|at| curve.get(at));
    // The drawing is no finer, and every byte is sent around.
    let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
    kept.map(|it| (rounded(nines(it.quantile)), it.latency_ns as f64)).collect()
}
