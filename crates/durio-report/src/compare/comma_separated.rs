//! A comparison as CSV: one line per step and figure, plain numbers.
//!
//! In: a comparison. Out: a header and lines; an absent value is an empty cell. Figures are in the
//! units of the JSON document, effects and intervals shares. Not here: differences of environment.

use std::io;

use durio_compare::{Comparison, FigureComparison, Pair, StepComparison, Word};

use crate::visible::CellWriter;

const HEADER: [&str; 23] = [
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

pub(super) fn write(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = CellWriter::new(out);
    writer.write_record(HEADER)?;
    for pair in &comparison.pairs {
        for step in &pair.steps {
            if step.figures.is_empty() {
                let mut record = of_step(pair, step);
                record.extend(std::iter::repeat_n(String::new(), 11));
                record.extend(["not_comparable".to_owned(), step.not_comparable.join("; ")]);
                writer.write_record(&record)?;
            }
            for figure in &step.figures {
                let mut record = of_step(pair, step);
                record.extend(of_figure(figure));
                writer.write_record(&record)?;
            }
        }
    }
    writer.flush()
}

fn of_step(pair: &Pair, step: &StepComparison) -> Vec<String> {
    let [place_a, place_b] = step.locations.clone();
    let [repeats_a, repeats_b] = step.repeats;
    vec![
        pair.baseline.clone(),
        pair.other.clone(),
        step.name.clone(),
        place_a,
        place_b,
        step.target.clone(),
        repeats_a.to_string(),
        repeats_b.to_string(),
        step.different_workload.to_string(),
        step.headline.name().to_owned(),
    ]
}

fn of_figure(it: &FigureComparison) -> [String; 13] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
    let method = it.method.map_or_else(String::new, |it| format!("{it:?}").to_lowercase());
    let word = match it.word {
        Word::Faster => "faster",
        Word::Slower => "slower",
        Word::NoDifference => "no_difference",
        Word::Undecided => "undecided",
    };
    [
        it.figure.name().to_owned(),
        number(it.baseline),
        number(it.other),
        number(it.effect),
        number(it.interval.map(|it| it[0])),
        number(it.interval.map(|it| it[1])),
        number(it.p_worse),
        number(it.worse_at_most),
        number(it.repeats_scatter),
        number(it.visible),
        method,
        word.to_owned(),
        it.reason.clone().unwrap_or_default(),
    ]
}
