//! How the cost of each layer changed between two kernels, as records: one per workload and layer.
//!
//! Figures are in the units of the JSON document. Not here: the words that people read.

use durio_analyse::attribution::{CostChange, LabComparison, LayerChange};

use crate::document::{Cell, Table};

const COLUMNS: [&str; 23] = [
    "workload",
    "stack",
    "name",
    "repeats_a",
    "repeats_b",
    "time_per_operation_ns_a",
    "time_per_operation_ns_b",
    "scatter_a",
    "scatter_b",
    "ratio",
    "ratio_low",
    "ratio_high",
    "added_ns_a",
    "added_ns_b",
    "added_ratio",
    "cpu_ns_per_operation_a",
    "cpu_ns_per_operation_b",
    "cpu_ratio",
    "context_switches_per_operation_a",
    "context_switches_per_operation_b",
    "change",
    "reason",
    "label",
];

pub(super) fn records(comparison: &LabComparison) -> Table {
    let label = comparison.label.as_deref().unwrap_or_default();
    let mut records = Table::new(COLUMNS);
    for workload in &comparison.workloads {
        workload.layers.iter().for_each(|it| records.row(record(&workload.label, it, label)));
    }
    records
}

fn record(workload: &str, it: &LayerChange, label: &str) -> Vec<Cell> {
    let number = |value| Cell::of(value, Cell::Number);
    let both = |pair: Option<[f64; 2]>| pair.map_or([None; 2], |pair| pair.map(Some)).map(number);
    let mut record = [workload, &it.stack, &it.name].map(Cell::text).to_vec();
    let repeats = it.time_per_operation_ns_of_repeats.each_ref();
    record.extend(repeats.map(|side| Cell::text(side.len().to_string())));
    record.extend(both(Some(it.time_per_operation_ns)));
    record.extend(both(it.scatter));
    record.push(number(Some(it.ratio)));
    record.extend(both(it.ratio_interval));
    record.extend(both(it.added_ns));
    record.push(number(it.added_ratio));
    record.extend(both(it.cpu_ns_per_operation));
    record.push(number(it.cpu_ratio));
    record.extend(both(it.context_switches_per_operation));
    record.push(Cell::text(word(it.change)));
    record.extend([Cell::text(it.reason.clone().unwrap_or_default()), Cell::text(label)]);
    record
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
