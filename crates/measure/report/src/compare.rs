//! Comparisons of runs with each other as documents.
//!
//! Shows a [`Comparison`]: the answer, its subject, other differences, the results of each step; as
//! records one per step and result.

mod names;
mod pictures;
mod published;

use durio_judge::compare::{
    Comparison, Difference, FigureComparison, FigureName, Gate, Method, Pair, PairAnswer,
    SideFacts, SideWord, StepComparison,
};
use durio_judge::summary::{Summary, SummaryFigure, SummaryVerdict};

use crate::document::chart::Chart;
use crate::document::{
    Cell, Column, DetailLevel, Document, Row, Section, SectionBody, Table, Tone, both, record,
    shown,
};
use crate::figures::{counted, deviation, factor, grouped, location_name, percent, rate};
use crate::{CaseOutcome, Report, TestCase};

pub use published::ShownShapes;

// A screen of 30 lines has room for this many of each: steps (those that differ come first), facts of
// the machines that differ, and lines of a gate.
const STEPS_MAX: usize = 6;
/// Different reasons why results are open that a screen names.
const OPEN_REASONS_MAX: usize = 3;
const FACTS_MAX: usize = 3;
const GATE_LINES_MAX: usize = 3;

// More charts than this make a page that browsers open slowly.
const CHARTS_MAX: usize = 60;

/// The ratios of the first two sides: of a comparison, and of the proof of a rule.
pub(crate) fn poster(comparison: &Comparison) -> Option<Chart> {
    comparison.pairs.first().map(pictures::ratios)
}

impl Report for Comparison {
    fn document(&self) -> Document {
        let labels: Vec<&str> = self.sides.iter().map(|side| side.label.as_str()).collect();
        let mut document = Document::new("durio compare", labels.join(" and "));
        document.poster = poster(self);
        let named = names::with_names(self);
        head(&named).into_iter().for_each(|section| document.push(section));
        // The answer of a job that failed comes before everything that explains it.
        document.sections.extend(named.gate.iter().map(|answer| gate(answer, self)));
        for it in &named.pairs {
            pair(it, self.gate.is_some(), &mut document);
        }
        document.push(how(self));
        document.records = records(self);
        document
    }

    fn summary(&self) -> Option<Summary> {
        let figure = |label: String, value: f64, unit| SummaryFigure { label, value, unit };
        let headline = self.answer.pairs.iter().flat_map(|pair| {
            let PairAnswer { baseline, other, unit, rates, ratio, .. } = pair;
            [
                figure(format!("{unit}, {baseline}"), rates[0], "per second"),
                figure(format!("{unit}, {other}"), rates[1], "per second"),
                figure(format!("{other} ÷ {baseline}"), *ratio, "times"),
            ]
        });
        let verdict = match &self.gate {
            Some(gate) if !gate.regressions.is_empty() => SummaryVerdict::Bad,
            Some(gate) if gate.undecided.is_empty() => SummaryVerdict::Good,
            // A limit exists with --fail-over alone.
            _ => SummaryVerdict::Unknown,
        };
        let headline = headline.collect();
        Some(Summary { verdict, sentence: self.sentence(), headline, reasons: self.reasons() })
    }

    /// Each result that the gate looks at.
    fn test_cases(&self) -> Vec<TestCase> {
        let case = |name: &String, outcome| TestCase {
            class: "durio compare".to_owned(),
            name: name.clone(),
            outcome,
        };
        let Some(gate) = &self.gate else { return Vec::new() };
        let failed =
            gate.regressions.iter().map(|line| case(line, CaseOutcome::Failed(line.clone())));
        let open = gate.undecided.iter().map(|line| case(line, CaseOutcome::Skipped(line.clone())));
        let passed = gate.excluded.iter().map(|line| case(line, CaseOutcome::Passed));
        failed.chain(open).chain(passed).collect()
    }
}

/// The sides, and the runs that would decide an open answer.
fn head(comparison: &Comparison) -> [Section; 2] {
    let (mut head, mut local) =
        (Section::default(), Section { is_local: true, ..Section::default() });
    for it in &comparison.sides {
        head.toned(Tone::Strong, &it.label, side(it));
    }
    let answer = &comparison.answer;
    let Some(runs) = answer.runs_needed else { return [head, local] };
    let command = answer.command.as_deref().unwrap_or_default();
    let is_local = [" /", "=/", "'/"].iter().any(|path| command.contains(*path));
    let end = if command.is_empty() || is_local { "." } else { ":" };
    head.say(Tone::Plain, format!("About {runs} runs of each side would decide{end}"));
    if !command.is_empty() {
        let section = if is_local { &mut local } else { &mut head };
        section.push(DetailLevel::Summary, SectionBody::Verbatim(command.to_owned()));
    }
    [head, local]
}

/// The results of every step alone, and their basis.
pub(crate) fn figures(comparison: &Comparison) -> Vec<Section> {
    let mut sections = Vec::new();
    for pair in &comparison.pairs {
        let mut remarks = Section::default();
        for remark in &pair.remarks {
            remarks.toned(Tone::Warning, "NOTE", remark);
        }
        sections.push(remarks);
        let steps = pair.steps.iter().map(|compared| step(pair, compared, false));
        sections.extend(steps);
    }
    sections.push(how(comparison));
    sections
}

fn how(comparison: &Comparison) -> Section {
    let mut how = Section::detail("How it was compared");
    how.note(rule(comparison));
    blocks_note(comparison).into_iter().for_each(|note| how.note(note));
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
        // A result with regressions excluded needs no look.
        let shown = if tone == Tone::Good { 0 } else { GATE_LINES_MAX };
        for (at, line) in lines.iter().enumerate() {
            let level = if at < shown { DetailLevel::Summary } else { DetailLevel::Detail };
            section.toned_at(level, tone, word, line);
        }
        if shown > 0 && lines.len() > shown {
            let text = format!("{} in all; --verbose lists every one", lines.len());
            section.toned(tone, word, text);
        }
    }
    if !gate.excluded.is_empty() {
        section.note(format!("excluded for {}", counted(gate.excluded.len() as u64, "result")));
    }
    section
}

/// Steps of one side that a summary lists; of more it has the number.
const ONLY_MAX: usize = 4;

fn only_there(label: &str, titles: &[String], section: &mut Section) {
    let are_many = titles.len() > ONLY_MAX;
    if are_many {
        let count = counted(titles.len() as u64, "step");
        section.toned(Tone::Warning, label, format!("{count}; --verbose lists them"));
    }
    let level = if are_many { DetailLevel::Detail } else { DetailLevel::Summary };
    for title in titles {
        section.toned_at(level, Tone::Warning, label, title);
    }
}

fn pair(pair: &Pair, is_gated: bool, document: &mut Document) {
    let mut section = Section::new(format!("{} against {}", pair.other, pair.baseline));
    section.say(Tone::Strong, summary(pair));
    for remark in &pair.remarks {
        section.toned(Tone::Warning, "NOTE", remark);
    }
    for (at, it) in pair.environment.iter().enumerate() {
        let level = if at < FACTS_MAX { DetailLevel::Summary } else { DetailLevel::Detail };
        section.toned_at(level, Tone::Warning, "differs", difference(it));
    }
    if pair.environment.len() > FACTS_MAX {
        let text = format!("{} facts in all; --verbose lists every one", pair.environment.len());
        section.toned(Tone::Warning, "differs", text);
    }
    for (label, titles) in [(&pair.baseline, &pair.only_baseline), (&pair.other, &pair.only_other)]
    {
        only_there(&format!("only {label}"), titles, &mut section);
    }
    section.table(in_short(pair));
    for (why, steps) in grouped(pair.steps.iter().flat_map(against)) {
        let (tone, text) = why;
        let of = match steps.as_slice() {
            [one] => one.clone(),
            all => counted(all.len() as u64, "step"),
        };
        section.say(tone, format!("{text} ({of})"));
    }
    let open = pair.steps.iter().flat_map(|step| &step.figures);
    // The gate has each of them with its reason.
    let open = open.filter(|figure| !is_gated && figure.figure.is_gated());
    note_open(&mut section, open.filter_map(reason));
    if !pair.steps.is_empty() {
        let what = match pair.steps.len() {
            count if count > STEPS_MAX => format!("all {count} steps and results"),
            _ => "all results".to_owned(),
        };
        section.note(format!("{what} with their intervals: --verbose, or --format html"));
    }
    let drawn = drawn(&pair.steps);
    if drawn.contains(&false) {
        let note =
            format!("Distributions are drawn for {CHARTS_MAX} steps, those that differ first.");
        section.say_at(DetailLevel::Detail, Tone::Note, note);
    }
    document.push(section);
    for (it, drawn) in pair.steps.iter().zip(drawn) {
        document.push(Section { level: DetailLevel::Detail, ..step(pair, it, drawn) });
    }
}

// Which steps have a chart: those with a difference first.
fn drawn(steps: &[StepComparison]) -> Vec<bool> {
    let mut order = by_difference(steps);
    order.truncate(CHARTS_MAX);
    (0..steps.len()).map(|at| order.contains(&at)).collect()
}

/// The places of the steps, those with a difference first.
fn by_difference(steps: &[StepComparison]) -> Vec<usize> {
    let differs = |step: &StepComparison| {
        step.figures.iter().any(|figure| matches!(figure.word, SideWord::Faster | SideWord::Slower))
    };
    let mut order: Vec<usize> = (0..steps.len()).collect();
    // The sort is stable: among alike steps the order of the plan stays.
    order.sort_by_key(|&at| steps.get(at).is_none_or(|step| !differs(step)));
    order
}

/// What speaks against comparing a step, with its title.
fn against(step: &StepComparison) -> Vec<((Tone, String), String)> {
    let not = step.not_comparable.iter().map(|why| (Tone::Bad, format!("not comparable: {why}")));
    let differences =
        step_differences(step).into_iter().map(|difference| (Tone::Warning, difference));
    let cautions = step.cautions.iter();
    let cautions = cautions.map(|caution| (Tone::Warning, format!("caution: {caution}")));
    not.chain(differences).chain(cautions).map(|why| (why, title(step))).collect()
}

fn step(pair: &Pair, step: &StepComparison, is_drawn: bool) -> Section {
    let mut section = Section::new(title(step));
    for ((tone, text), _) in against(step) {
        section.say(tone, text);
    }
    if !step.figures.is_empty() {
        section.note(basis(step));
        let lines = step.figures.iter().map(Some);
        let lines = lines.map(|figure| ComparisonLine { pair, step, figure });
        section.table(labelled(Table::shown(&columns(), lines), pair));
        open_results(step).into_iter().for_each(|line| section.note(line));
    }
    section.charts(is_drawn.then(|| pictures::overlays(pair, step)).into_iter().flatten());
    section
}

/// The table of results with the sides' labels over its columns.
fn labelled(mut table: Table, pair: &Pair) -> Table {
    for column in &mut table.columns {
        match column.title.as_str() {
            "baseline" => column.title.clone_from(&pair.baseline),
            "other" => column.title.clone_from(&pair.other),
            "other is" => column.title = format!("{} is", pair.other),
            _ => {}
        }
    }
    table
}

/// A row for each step, with the results that a gate would look at.
fn in_short(pair: &Pair) -> Table {
    let (a, b) = (&pair.baseline, &pair.other);
    let figures = ["rate", "p99"].map(|figure| {
        [format!("{a} {figure}"), format!("{b} {figure}"), format!("{b} against {a}")]
    });
    let mut table =
        Table::new(std::iter::once("step".to_owned()).chain(figures.into_iter().flatten()));
    let several = pair.steps.iter().any(|step| step.locations != pair.steps[0].locations);
    for (place, at) in by_difference(&pair.steps).into_iter().enumerate() {
        let Some(step) = pair.steps.get(at) else { continue };
        let name = if several { title(step) } else { step.name.clone() };
        let gated = step.figures.iter().filter(|figure| figure.figure.is_gated());
        let cells = gated.flat_map(|figure| {
            let sides = [figure.baseline, figure.other].map(|side| value(figure.figure, side));
            sides.into_iter().chain([judged(figure)])
        });
        let cells = std::iter::once(Cell::Text(name)).chain(cells).collect();
        let level = if place < STEPS_MAX { DetailLevel::Summary } else { DetailLevel::Detail };
        table.rows.push(Row { level, cells, ..Row::default() });
    }
    table
}

/// The effect with its word, as `+4.2 % faster` or `22.1 × faster`.
fn judged(it: &FigureComparison) -> Cell {
    let words = match it.effect.map(change) {
        // A note says once that no result of a single run has one.
        Some(effect) if it.word == SideWord::NoInterval => effect,
        Some(effect) => format!("{effect} {}", word(it)),
        None => word(it).to_owned(),
    };
    Cell::Word(tone(it), words)
}

/// An effect as people say it: in per cent, or as a factor where it is large.
fn change(effect: f64) -> String {
    match effect {
        effect if effect >= 1.0 => factor(1.0 + effect),
        // From a tenth on, percentages differ in their last digits alone.
        effect if effect <= -0.9 => format!("÷ {:.0}", 1.0 / (1.0 + effect)),
        effect => deviation(effect),
    }
}

const fn tone(figure: &FigureComparison) -> Tone {
    match figure.word {
        SideWord::Faster => Tone::Good,
        SideWord::Slower => Tone::Bad,
        SideWord::Undecided => Tone::Warning,
        SideWord::NoDifference | SideWord::NoInterval => Tone::Plain,
    }
}

fn side(side: &SideFacts) -> String {
    let runs = counted(side.runs.len() as u64, "run");
    let first = side.runs.iter().map(|run| run.started.as_str()).min().unwrap_or("nothing");
    format!("{}: {runs}, from {first}", side.source)
}

fn difference(it: &Difference) -> String {
    format!("{} {} → {}", it.what, it.baseline, it.other)
}

/// The result's name, with the operation of the latencies.
fn figure_name(step: &StepComparison, figure: FigureName) -> String {
    match figure {
        FigureName::Mean | FigureName::P50 | FigureName::P99 | FigureName::P99_9 => {
            format!("{} {}", step.headline.name(), figure.name())
        }
        _ => figure.name().to_owned(),
    }
}

// Figures of one column are of several kinds: each has its unit.
fn value(figure: FigureName, value: Option<f64>) -> Cell {
    Cell::or_absent(value, |value| match figure {
        FigureName::Rate => Cell::text(rate(value)),
        FigureName::Bandwidth => Cell::Bandwidth(value),
        _ => Cell::Latency(value),
    })
}

/// The word, as short as a table needs it.
fn word(it: &FigureComparison) -> &'static str {
    match (it.word, it.figure) {
        (SideWord::Faster, FigureName::CpuPerOperation) => "cheaper",
        (SideWord::Slower, FigureName::CpuPerOperation) => "dearer",
        (SideWord::Faster, _) => "faster",
        (SideWord::Slower, _) => "slower",
        (SideWord::NoDifference, _) => "no difference",
        (SideWord::Undecided, _) => "undecided",
        (SideWord::NoInterval, _) => "no interval",
    }
}

/// Why a result is open, with its word; `None` if it is decided.
fn reason(it: &FigureComparison) -> Option<(&'static str, String)> {
    Some((word(it), it.reason.clone()?))
}

/// Notes why results are open, those with one reason in one line; if a screen has no room for all
/// reasons, only the number of results: the steps have them.
fn note_open(section: &mut Section, reasons: impl Iterator<Item = (&'static str, String)>) {
    let reasons: Vec<_> = grouped(reasons.map(|reason| (reason, ()))).into_iter().collect();
    if reasons.len() > OPEN_REASONS_MAX {
        let results: usize = reasons.iter().map(|(_, results)| results.len()).sum();
        let results = counted(results as u64, "result");
        section.note(format!("{results} undecided, mostly because repeats scatter too much"));
        return;
    }
    for ((word, why), results) in reasons {
        section.note(format!("{word}: {why} ({})", counted(results.len() as u64, "result")));
    }
}

/// Why results are open, those with one reason in one line.
fn open_results(step: &StepComparison) -> Vec<String> {
    let open = step.figures.iter();
    let open = open.filter_map(|figure| Some((reason(figure)?, figure_name(step, figure.figure))));
    let line = |((word, why), names): ((&str, String), Vec<String>)| {
        format!("{}: {word}: {why}", names.join(", "))
    };
    grouped(open).into_iter().map(line).collect()
}

/// Rates and 99th percentiles of all steps, counted by word.
fn summary(pair: &Pair) -> String {
    let mut parts = Vec::new();
    let words = [
        (SideWord::Faster, "faster"),
        (SideWord::Slower, "slower"),
        (SideWord::NoDifference, "with no difference"),
        (SideWord::Undecided, "undecided"),
        (SideWord::NoInterval, "without an interval"),
    ];
    for (word, words) in words {
        match pair.gated_with(word) {
            0 => {}
            count => parts.push(format!("{count} {words}")),
        }
    }
    let refused = pair.steps.iter().filter(|step| !step.not_comparable.is_empty()).count();
    if refused > 0 {
        parts.push(format!("{} not comparable", counted(refused as u64, "step")));
    }
    if parts.is_empty() {
        return "nothing in common to compare".to_owned();
    }
    format!("rates and 99th percentiles: {}", parts.join(", "))
}

/// The number of runs behind the results of a step.
fn basis(step: &StepComparison) -> String {
    let [a, b] = step.repeats;
    // Welch's interval needs the scatter of two repeats on each side (docs/design/0005).
    match [a, b].contains(&1) {
        true => format!("{a} against {}, by blocks of their intervals", counted(b as u64, "run")),
        false => format!("{a} against {b} repeats: geometric means"),
    }
}

fn blocks_note(comparison: &Comparison) -> Option<String> {
    let steps = comparison.pairs.iter().flat_map(|pair| &pair.steps);
    let mut figures = steps.flat_map(|step| &step.figures);
    figures.any(|figure| figure.method == Some(Method::Blocks)).then(|| {
        format!(
            "Blocks of each run's own intervals are drawn again {} times (seed {}), which widens the \
             interval of few repeats. They cannot show how far a single run is from the next one: \
             that takes repeats, 5 or more per side.",
            comparison.resamples, comparison.settings.seed
        )
    })
}

fn rule(comparison: &Comparison) -> String {
    let threshold = percent(comparison.settings.threshold);
    format!(
        "The margin is {threshold} (--threshold). Faster or slower: the effect is more than that, and \
         its 95 % interval (Welch's, of the logarithms of the repeats) does not reach zero. No \
         difference: the interval lies within the margin on both sides of zero. Undecided: the \
         interval spans the margin."
    )
}

fn title(step: &StepComparison) -> String {
    let [a, b] = step.locations.each_ref().map(|location| location_name(location));
    match a == b {
        true => format!("{} at {a}", step.name),
        false => format!("{} at {a} against {b}", step.name),
    }
}

/// What differs between the steps, in one line; nothing if nothing does.
fn step_differences(step: &StepComparison) -> Option<String> {
    let all: Vec<_> = step.differences.iter().map(difference).collect();
    match (all.is_empty(), step.different_workload) {
        (true, _) => None,
        (false, true) => Some(format!("DIFFERENT WORKLOADS: {}", all.join(", "))),
        (false, false) => Some(format!("differs: {}", all.join(", "))),
    }
}

/// A result of a step; none where the step cannot be compared.
struct ComparisonLine<'c> {
    pair: &'c Pair,
    step: &'c StepComparison,
    figure: Option<&'c FigureComparison>,
}

impl ComparisonLine<'_> {
    fn cell(&self, cell: impl Fn(&FigureComparison) -> Cell) -> Cell {
        Cell::of(self.figure, cell)
    }

    fn number(&self, figure: impl Fn(&FigureComparison) -> Option<f64>) -> Cell {
        self.cell(|compared| Cell::of(figure(compared), Cell::Number))
    }
}

fn columns<'c>() -> Vec<Column<ComparisonLine<'c>>> {
    vec![
        record("baseline_side", |line| Cell::text(&line.pair.baseline)),
        record("other_side", |line| Cell::text(&line.pair.other)),
        record("workload", |line| Cell::text(&line.step.name)),
        record("baseline_location", |line| Cell::text(&line.step.locations[0])),
        record("other_location", |line| Cell::text(&line.step.locations[1])),
        record("target", |line| Cell::text(&line.step.target)),
        record("baseline_repeats", |line| Cell::text(line.step.repeats[0].to_string())),
        record("other_repeats", |line| Cell::text(line.step.repeats[1].to_string())),
        record("different_workload", |line| Cell::text(line.step.different_workload.to_string())),
        record("operation", |line| Cell::text(line.step.headline.name())),
        shown("", |line| line.cell(|figure| Cell::text(figure_name(line.step, figure.figure)))),
        record("figure", |line| line.cell(|figure| Cell::text(figure.figure.name()))),
        shown("baseline", |line| line.cell(|figure| value(figure.figure, figure.baseline))),
        record("baseline", |line| line.number(|figure| figure.baseline)),
        shown("other", |line| line.cell(|figure| value(figure.figure, figure.other))),
        record("other", |line| line.number(|figure| figure.other)),
        both("effect", "effect", |line| {
            line.cell(|figure| Cell::of(figure.effect, Cell::Deviation))
        }),
        shown("95 % interval", |line| {
            // A single run's blocks say nothing of the next run.
            let figure = line.figure.filter(|figure| figure.word != SideWord::NoInterval);
            let interval = figure.and_then(|figure| figure.interval);
            Cell::of(interval, |[low, high]| {
                Cell::text(format!("{} to {}", deviation(low), deviation(high)))
            })
        }),
        record("interval_low", |line| line.number(|figure| Some(figure.interval?[0]))),
        record("interval_high", |line| line.number(|figure| Some(figure.interval?[1]))),
        record("p_worse", |line| line.number(|figure| figure.p_worse)),
        record("worse_at_most", |line| line.number(|figure| figure.worse_at_most)),
        record("repeats_scatter", |line| line.number(|figure| figure.repeats_scatter)),
        record("visible", |line| line.number(|figure| figure.visible)),
        record("method", |line| {
            line.cell(|figure| Cell::of(figure.method, |method| Cell::saved(&method)))
        }),
        shown("other is", |line| {
            line.cell(|figure| Cell::Word(tone(figure), word(figure).to_owned()))
        }),
        record("word", |line| match line.figure {
            Some(it) => Cell::saved(&it.word),
            None => Cell::text("not_comparable"),
        }),
        record("reason", |line| match line.figure {
            Some(it) => Cell::of(it.reason.as_ref(), Cell::text),
            None => Cell::text(line.step.not_comparable.join("; ")),
        }),
    ]
}

fn records(comparison: &Comparison) -> Table {
    let steps =
        comparison.pairs.iter().flat_map(|pair| pair.steps.iter().map(move |step| (pair, step)));
    let lines = steps.flat_map(|(pair, step)| {
        // A step that cannot be compared has a record too: a missing row would look like no change.
        let none = step.figures.is_empty().then_some(None);
        let figures = step.figures.iter().map(Some).chain(none);
        figures.map(move |figure| ComparisonLine { pair, step, figure })
    });
    Table::records(&columns(), lines)
}
