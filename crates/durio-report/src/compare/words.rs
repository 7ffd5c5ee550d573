//! The words of a comparison, the same in the terminal and in the page.
//!
//! In: parts of a comparison. Out: text. Not here: layout.

use durio_analyse::compare::{
    Comparison, Difference, FigureComparison, FigureName, Method, Pair, SideFacts, StepComparison,
    Word,
};

use crate::figures::{ABSENT, bandwidth, counted, deviation, mean_latency, percent, rate};
use crate::rows::place_name;

/// The headings of [`cells`], after the figure's own.
pub(super) const COLUMNS: [&str; 5] = ["baseline", "other", "effect", "95 % interval", "p"];

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

fn value(figure: FigureName, value: Option<f64>) -> String {
    let show = match figure {
        FigureName::Rate => rate,
        FigureName::Bandwidth => bandwidth,
        _ => mean_latency,
    };
    value.map_or_else(|| ABSENT.to_owned(), show)
}

/// The cells under [`COLUMNS`].
pub(super) fn cells(it: &FigureComparison) -> [String; 5] {
    let effect = it.effect.map_or_else(String::new, deviation);
    let interval =
        it.interval.map(|[low, high]| format!("{} to {}", deviation(low), deviation(high)));
    let p = it.p.map_or_else(String::new, |p| format!("{p:.3}"));
    [
        value(it.figure, it.baseline),
        value(it.figure, it.other),
        effect,
        interval.unwrap_or_default(),
        p,
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
        (Word::CannotTell, _) => "cannot tell",
    }
}

/// The figures of which nothing can be told, and why.
pub(super) fn untold(step: &StepComparison) -> Vec<String> {
    let untold = step.figures.iter().filter(|it| it.word == Word::CannotTell);
    let line = |it: &FigureComparison| {
        let reason = it.reason.as_deref().unwrap_or("unknown");
        format!("{}: cannot tell: {reason}", figure_name(step, it.figure))
    };
    untold.map(line).collect()
}

/// Rates and 99th percentiles of all steps, counted by word.
pub(super) fn summary(pair: &Pair) -> String {
    let mut parts = Vec::new();
    let words = [
        (Word::Faster, "faster"),
        (Word::Slower, "slower"),
        (Word::NoDifference, "with no difference that these runs could show"),
        (Word::CannotTell, "of which these runs cannot tell"),
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
    let method = step.figures.iter().find_map(|it| it.method);
    let [a, b] = step.repeats;
    match method {
        Some(Method::Ranks) => format!(
            "{a} against {b} repeats, by their ranks: medians, and the median of all effects"
        ),
        _ if step.repeats == [1, 1] => {
            "one run against one, by blocks of their intervals".to_owned()
        }
        _ => format!("{a} against {b} repeats, by blocks of their intervals"),
    }
}

/// Said if any interval is by blocks.
pub(super) fn blocks_note(comparison: &Comparison) -> Option<String> {
    let steps = comparison.pairs.iter().flat_map(|it| &it.steps);
    let mut figures = steps.flat_map(|it| &it.figures);
    figures.any(|it| it.method == Some(Method::Blocks)).then(|| {
        format!(
            "Intervals by blocks come from each run's own intervals, drawn again {} times (seed {}). \
             What differs from one run to the next of the same thing is not in them: repeats tell, \
             5 or more per side.",
            comparison.resamples, comparison.settings.seed
        )
    })
}

/// How the words were found.
pub(super) fn rule(comparison: &Comparison) -> String {
    format!(
        "Faster or slower: the effect is more than {}, and its 95 % interval does not reach zero \
         (with 2 to 4 repeats, no repeat of one side lies among the other's).",
        percent(comparison.settings.threshold)
    )
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
