//! A comparison as records: one per step and figure.
//!
//! Figures are in the units of the JSON document, effects and intervals shares.

use durio_compare::{Comparison, FigureComparison, Pair, StepComparison, Word};

use crate::document::{Cell, Table};

struct Line<'c> {
    pair: &'c Pair,
    step: &'c StepComparison,
    /// None where the step cannot be compared.
    figure: Option<&'c FigureComparison>,
}

impl Line<'_> {
    fn number(&self, figure: impl Fn(&FigureComparison) -> Option<f64>) -> Cell {
        Cell::of(self.figure.and_then(figure), Cell::Number)
    }
}

pub(super) fn records(comparison: &Comparison) -> Table {
    let steps =
        comparison.pairs.iter().flat_map(|pair| pair.steps.iter().map(move |it| (pair, it)));
    let lines = steps.flat_map(|(pair, step)| {
        let none = step.figures.is_empty().then_some(None);
        let figures = step.figures.iter().map(Some).chain(none);
        figures.map(move |figure| Line { pair, step, figure })
    });
    Table::of(
        lines,
        [
            ("baseline_side", |it| Cell::text(&it.pair.baseline)),
            ("other_side", |it| Cell::text(&it.pair.other)),
            ("workload", |it| Cell::text(&it.step.name)),
            ("baseline_location", |it| Cell::text(&it.step.locations[0])),
            ("other_location", |it| Cell::text(&it.step.locations[1])),
            ("target", |it| Cell::text(&it.step.target)),
            ("baseline_repeats", |it| Cell::text(it.step.repeats[0].to_string())),
            ("other_repeats", |it| Cell::text(it.step.repeats[1].to_string())),
            ("different_workload", |it| Cell::text(it.step.different_workload.to_string())),
            ("operation", |it| Cell::text(it.step.headline.name())),
            ("figure", |it| Cell::of(it.figure, |it| Cell::text(it.figure.name()))),
            ("baseline", |it| it.number(|it| it.baseline)),
            ("other", |it| it.number(|it| it.other)),
            ("effect", |it| it.number(|it| it.effect)),
            ("interval_low", |it| it.number(|it| Some(it.interval?[0]))),
            ("interval_high", |it| it.number(|it| Some(it.interval?[1]))),
            ("p_worse", |it| it.number(|it| it.p_worse)),
            ("worse_at_most", |it| it.number(|it| it.worse_at_most)),
            ("repeats_scatter", |it| it.number(|it| it.repeats_scatter)),
            ("visible", |it| it.number(|it| it.visible)),
            ("method", |it| {
                let method = it.figure.and_then(|it| it.method);
                Cell::of(method, |it| Cell::text(format!("{it:?}").to_lowercase()))
            }),
            ("word", |it| Cell::text(it.figure.map_or("not_comparable", |it| word(it.word)))),
            ("reason", |it| match it.figure {
                Some(it) => Cell::of(it.reason.as_ref(), Cell::text),
                None => Cell::text(it.step.not_comparable.join("; ")),
            }),
        ],
    )
}

const fn word(word: Word) -> &'static str {
    match word {
        Word::Faster => "faster",
        Word::Slower => "slower",
        Word::NoDifference => "no_difference",
        Word::Undecided => "undecided",
    }
}
