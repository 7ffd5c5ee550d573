//! How the cost of each layer changed between two kernels, as records: one per workload and layer.
//!
//! Figures are in the units of the JSON document. Not here: the words that people read.

use durio_analyse::attribution::{CostChange, LabComparison, LayerChange};

use crate::document::{Cell, Table};

struct Line<'f> {
    comparison: &'f LabComparison,
    workload: &'f str,
    layer: &'f LayerChange,
}

impl Line<'_> {
    fn repeats(&self, side: usize) -> Cell {
        Cell::text(self.layer.time_per_operation_ns_of_repeats[side].len().to_string())
    }
}

fn number(value: Option<f64>) -> Cell {
    Cell::of(value, Cell::Number)
}

fn side(pair: Option<[f64; 2]>, side: usize) -> Cell {
    number(pair.map(|pair| pair[side]))
}

pub(super) fn records(comparison: &LabComparison) -> Table {
    let lines = comparison.workloads.iter().flat_map(|it| {
        it.layers.iter().map(move |layer| Line { comparison, workload: &it.label, layer })
    });
    Table::of(
        lines,
        [
            ("workload", |it| Cell::text(it.workload)),
            ("stack", |it| Cell::text(&it.layer.stack)),
            ("name", |it| Cell::text(&it.layer.name)),
            ("repeats_a", |it| it.repeats(0)),
            ("repeats_b", |it| it.repeats(1)),
            ("time_per_operation_ns_a", |it| side(Some(it.layer.time_per_operation_ns), 0)),
            ("time_per_operation_ns_b", |it| side(Some(it.layer.time_per_operation_ns), 1)),
            ("scatter_a", |it| side(it.layer.scatter, 0)),
            ("scatter_b", |it| side(it.layer.scatter, 1)),
            ("ratio", |it| Cell::Number(it.layer.ratio)),
            ("ratio_low", |it| side(it.layer.ratio_interval, 0)),
            ("ratio_high", |it| side(it.layer.ratio_interval, 1)),
            ("added_ns_a", |it| side(it.layer.added_ns, 0)),
            ("added_ns_b", |it| side(it.layer.added_ns, 1)),
            ("added_ratio", |it| number(it.layer.added_ratio)),
            ("cpu_ns_per_operation_a", |it| side(it.layer.cpu_ns_per_operation, 0)),
            ("cpu_ns_per_operation_b", |it| side(it.layer.cpu_ns_per_operation, 1)),
            ("cpu_ratio", |it| number(it.layer.cpu_ratio)),
            ("context_switches_per_operation_a", |it| {
                side(it.layer.context_switches_per_operation, 0)
            }),
            ("context_switches_per_operation_b", |it| {
                side(it.layer.context_switches_per_operation, 1)
            }),
            ("change", |it| Cell::text(word(it.layer.change))),
            ("reason", |it| Cell::of(it.layer.reason.as_ref(), Cell::text)),
            ("label", |it| Cell::of(it.comparison.label.as_ref(), Cell::text)),
        ],
    )
}

/// As the JSON document has it.
const fn word(change: CostChange) -> &'static str {
    match change {
        CostChange::Cheaper => "cheaper",
        CostChange::Dearer => "dearer",
        CostChange::NoDifference => "no_difference",
        CostChange::Undecided => "undecided",
    }
}
