//! A comparison as records: one per step and figure.
//!
//! Figures are in the units of the JSON document, effects and intervals shares.

use durio_compare::{Comparison, FigureComparison, Pair, StepComparison, Word};

use crate::document::{Cell, Table};

const COLUMNS: [&str; 23] = [
    "baseline_side",
    "other_side",
    "workload",
    "baseline_location",
    "other_location",
    "target",
    "baseline_repeats",
    "other_repeats",
    "different_workload",
    "operation",
    "figure",
    "baseline",
    "other",
    "effect",
    "interval_low",
    "interval_high",
    "p_worse",
    "worse_at_most",
    "repeats_scatter",
    "visible",
    "method",
    "word",
    "reason",
];

pub(super) fn records(comparison: &Comparison) -> Table {
    let mut table = Table::new(COLUMNS);
    for pair in &comparison.pairs {
        for step in &pair.steps {
            if step.figures.is_empty() {
                let reason = Cell::text(step.not_comparable.join("; "));
                let none = std::iter::repeat_n(Cell::Empty, 11);
                let rest = none.chain([Cell::text("not_comparable"), reason]);
                table.row(of_step(pair, step).into_iter().chain(rest));
            }
            for figure in &step.figures {
                table.row(of_step(pair, step).into_iter().chain(of_figure(figure)));
            }
        }
    }
    table
}

fn of_step(pair: &Pair, step: &StepComparison) -> [Cell; 10] {
    let [place_a, place_b] = step.locations.each_ref().map(Cell::text);
    let [repeats_a, repeats_b] = step.repeats.map(|it| Cell::text(it.to_string()));
    [
        Cell::text(&pair.baseline),
        Cell::text(&pair.other),
        Cell::text(&step.name),
        place_a,
        place_b,
        Cell::text(&step.target),
        repeats_a,
        repeats_b,
        Cell::text(step.different_workload.to_string()),
        Cell::text(step.headline.name()),
    ]
}

fn of_figure(it: &FigureComparison) -> [Cell; 13] {
    let number = |value| Cell::of(value, Cell::Number);
    let word = match it.word {
        Word::Faster => "faster",
        Word::Slower => "slower",
        Word::NoDifference => "no_difference",
        Word::Undecided => "undecided",
    };
    [
        Cell::text(it.figure.name()),
        number(it.baseline),
        number(it.other),
        number(it.effect),
        number(it.interval.map(|it| it[0])),
        number(it.interval.map(|it| it[1])),
        number(it.p_worse),
        number(it.worse_at_most),
        number(it.repeats_scatter),
        number(it.visible),
        Cell::of(it.method, |it| Cell::text(format!("{it:?}").to_lowercase())),
        Cell::text(word),
        Cell::text(it.reason.clone().unwrap_or_default()),
    ]
}
