//! The words of a comparison, for every format.
//!
//! In: parts of a comparison. Out: text and cells. Not here: what stands where.

use durio_compare::{
    Comparison, Difference, FigureComparison, FigureName, Method, Pair, SideFacts, StepComparison,
    Word,
};

use crate::document::Cell;
use crate::figures::{counted, deviation, percent, rate};
use crate::run::place_name;

/// The headings of [`cells`], after the figure's own.
pub(super) const COLUMNS: [&str; 5] = ["baseline", "other", "effect", "95 % interval", "other is"];

/// A side in one line.
pub(super) fn side(side: &SideFacts) -> String {
    let runs = counted(side.runs.len() as u64, "run");
    let first = side.runs.iter().map(|it| it.started.as_str()).min().unwrap_or("nothing");
    format!("{}: {runs}, from {first}", side.source)
}

/// What differs, in one line each.
pub(super) fn difference(it: &Difference) -> String {
    format!("{} {} → {}", it.what, it.baseline, it.other)
}

/// The figure's name, with the operation that the latencies are of.
pub(super) fn figure_name(step: &StepComparison, figure: FigureName) -> String {
    match figure {
        FigureName::Mean | FigureName::P50 | FigureName::P99 | FigureName::P99_9 => {
            format!("{} {}", step.headline.name(), figure.name())
        }
        _ => figure.name().to_owned(),
    }
}

/// Figures of one column are of several kinds: each has its unit.
fn value(figure: FigureName, value: Option<f64>) -> Cell {
    Cell::or_absent(value, |value| match figure {
        FigureName::Rate => Cell::text(rate(value)),
        FigureName::Bandwidth => Cell::Bandwidth(value),
        _ => Cell::Latency(value),
    })
}

/// The cells under [`COLUMNS`] but for the last.
pub(super) fn cells(it: &FigureComparison) -> [Cell; 4] {
    let interval =
        it.interval.map(|[low, high]| format!("{} to {}", deviation(low), deviation(high)));
    [
        value(it.figure, it.baseline),
        value(it.figure, it.other),
        Cell::of(it.effect, Cell::Deviation),
        Cell::of(interval, Cell::Text),
    ]
}

/// The word, as short as a table needs it.
pub(super) fn word(it: &FigureComparison) -> &'static str {
    match (it.word, it.figure) {
        (Word::Faster, FigureName::CpuPerOperation) => "cheaper",
        (Word::Slower, FigureName::CpuPerOperation) => "dearer",
        (Word::Faster, _) => "faster",
        (Word::Slower, _) => "slower",
        (Word::NoDifference, _) => "no difference",
        (Word::Undecided, _) => "undecided",
    }
}

/// Why figures are undecided, those with one reason in one line.
pub(super) fn undecided(step: &StepComparison) -> Vec<String> {
    let mut lines: Vec<(String, &str)> = Vec::new();
    for it in step.figures.iter().filter(|it| it.word == Word::Undecided) {
        let reason = it.reason.as_deref().unwrap_or("unknown");
        let name = figure_name(step, it.figure);
        match lines.iter_mut().find(|(_, known)| *known == reason) {
            Some((names, _)) => names.push_str(&format!(", {name}")),
            None => lines.push((name, reason)),
        }
    }
    lines.into_iter().map(|(names, reason)| format!("{names}: undecided: {reason}")).collect()
}

/// Rates and 99th percentiles of all steps, counted by word.
pub(super) fn summary(pair: &Pair) -> String {
    let mut parts = Vec::new();
    let words = [
        (Word::Faster, "faster"),
        (Word::Slower, "slower"),
        (Word::NoDifference, "with no difference"),
        (Word::Undecided, "undecided"),
    ];
    for (word, words) in words {
        match pair.gated_with(word) {
            0 => {}
            count => parts.push(format!("{count} {words}")),
        }
    }
    let refused = pair.steps.iter().filter(|it| !it.not_comparable.is_empty()).count();
    if refused > 0 {
        parts.push(format!("{} not comparable", counted(refused as u64, "step")));
    }
    if parts.is_empty() {
        return "nothing in common that could be compared".to_owned();
    }
    format!("rates and 99th percentiles: {}", parts.join(", "))
}

/// How many repeats the figures of a step are of.
pub(super) fn basis(step: &StepComparison) -> String {
    let [a, b] = step.repeats;
    match [a, b].contains(&1) {
        true => format!("{a} against {}, by blocks of their intervals", counted(b as u64, "run")),
        false => format!("{a} against {b} repeats: geometric means"),
    }
}

/// Said if any interval is by blocks.
pub(super) fn blocks_note(comparison: &Comparison) -> Option<String> {
    let steps = comparison.pairs.iter().flat_map(|it| &it.steps);
    let mut figures = steps.flat_map(|it| &it.figures);
    figures.any(|it| it.method == Some(Method::Blocks)).then(|| {
        format!(
            "Blocks of each run's own intervals are drawn again {} times (seed {}) and widen the \
             interval of few repeats. Of a single run that interval holds nothing of what differs \
             from one run to the next of the same thing, so it decides nothing: repeats do, 5 or more \
             per side.",
            comparison.resamples, comparison.settings.seed
        )
    })
}

/// How the words were found.
pub(super) fn rule(comparison: &Comparison) -> String {
    let threshold = percent(comparison.settings.threshold);
    format!(
        "Faster or slower: the effect is more than {threshold}, and its 95 % interval (Welch's, of the \
         logarithms of the repeats) does not reach zero. No difference: the interval lies within \
         {threshold} on both sides of zero. Undecided: neither is shown."
    )
}

/// What would decide a gate that is undecided, as a sentence; none if nothing is, or if more runs do
/// not help.
#[must_use]
pub fn gate_advice(comparison: &Comparison) -> Option<String> {
    let needed = comparison.gate.as_ref()?.repeats_needed?;
    // As the option takes it, in tenths.
    let fail_over = (comparison.settings.fail_over? * 1000.0).round() / 10.0;
    Some(format!(
        "About {needed} repeats per side would decide: name several runs per side (a1,a2,… b1,b2,…), or \
         let them take turns: durio compare --interleave A.toml B.toml --pairs {needed} --fail-over \
         {fail_over}% -- OPTIONS"
    ))
}

/// The step, and what it is of.
pub(super) fn title(step: &StepComparison) -> String {
    let [a, b] = step.locations.each_ref().map(|it| place_name(it));
    match a == b {
        true => format!("{} at {a}", step.name),
        false => format!("{} at {a} against {b}", step.name),
    }
}

/// What differs between the steps, in one line; nothing if nothing does.
pub(super) fn step_differences(step: &StepComparison) -> Option<String> {
    let all: Vec<_> = step.differences.iter().map(difference).collect();
    match (all.is_empty(), step.different_workload) {
        (true, _) => None,
        (false, true) => Some(format!("DIFFERENT WORKLOADS: {}", all.join(", "))),
        (false, false) => Some(format!("differs: {}", all.join(", "))),
    }
}
