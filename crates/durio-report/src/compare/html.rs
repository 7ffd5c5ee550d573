//! A comparison as one page for a browser, which needs nothing but itself.
//!
//! In: a comparison. Out: one HTML file with style and charts inside, without any script, and
//! forbidden by its own policy to ask anybody for anything. Not here: the words, which the terminal
//! shares, and the drawing of a chart.

use std::io;

use askama::Template;
use durio_compare::{Comparison, FigureComparison, Pair, StepComparison, Word};

use super::words;
use crate::html::STYLE;
use crate::html::charts::overlay;
use crate::visible::visible_lines;

/// More charts than this make a page that browsers open slowly.
const CHARTS_MAX: usize = 60;

/// What the template is filled with; all text in it is escaped there.
#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage<'a> {
    comparison: &'a Comparison,
    version: &'static str,
    style: &'static str,
    columns: [&'static str; 4],
    sides: Vec<(&'a str, String)>,
    fail_over: String,
    pairs: Vec<PairPart<'a>>,
    advice: Option<String>,
    rule: String,
    blocks_note: Option<String>,
}

struct PairPart<'a> {
    pair: &'a Pair,
    summary: String,
    steps: Vec<StepPart<'a>>,
    charts_note: Option<String>,
}

struct StepPart<'a> {
    step: &'a StepComparison,
    title: String,
    basis: String,
    differences: Option<String>,
    rows: Vec<RowPart>,
    undecided: Vec<String>,
    svg: Option<String>,
}

struct RowPart {
    name: String,
    cells: [String; 4],
    class: &'static str,
    word: &'static str,
}

pub(super) fn write(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    let pairs = comparison.pairs.iter().map(pair).collect::<io::Result<Vec<_>>>()?;
    let page = ComparePage {
        comparison,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        columns: words::COLUMNS,
        sides: comparison.sides.iter().map(|it| (it.label.as_str(), words::side(it))).collect(),
        fail_over: crate::figures::percent(comparison.settings.fail_over.unwrap_or_default()),
        pairs,
        advice: words::gate_advice(comparison),
        rule: words::rule(comparison),
        blocks_note: words::blocks_note(comparison),
    };
    let html = page.render().map_err(io::Error::other)?;
    out.write_all(visible_lines(&html).as_bytes())
}

fn pair(pair: &Pair) -> io::Result<PairPart<'_>> {
    let drawn = drawn(&pair.steps);
    let steps = pair.steps.iter().zip(&drawn).map(|(step, drawn)| part(step, *drawn));
    let left_out = drawn.iter().filter(|it| !**it).count();
    Ok(PairPart {
        pair,
        summary: words::summary(pair),
        steps: steps.collect::<io::Result<_>>()?,
        charts_note: (left_out > 0).then(|| {
            format!("Distributions are drawn for {CHARTS_MAX} steps, those that differ first.")
        }),
    })
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

fn part(step: &StepComparison, is_drawn: bool) -> io::Result<StepPart<'_>> {
    let row = |it: &FigureComparison| RowPart {
        name: words::figure_name(step, it.figure),
        cells: words::cells(it),
        class: match it.word {
            Word::Faster => "good",
            Word::Slower => "bad",
            Word::NoDifference | Word::Undecided => "plain",
        },
        word: words::word(it),
    };
    Ok(StepPart {
        step,
        title: words::title(step),
        basis: words::basis(step),
        differences: words::step_differences(step),
        rows: step.figures.iter().map(row).collect(),
        undecided: words::undecided(step),
        svg: if is_drawn { overlay(&step.curves)? } else { None },
    })
}
