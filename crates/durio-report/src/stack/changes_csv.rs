//! How the cost of each layer changed between two kernels, as CSV.
//!
//! In: a comparison. Out: a header and a line per workload and layer; an absent value is an empty
//! cell. Figures are in the units of the JSON document. Not here: the words of the terminal.

use std::io;

use durio_analyse::attribution::{CostChange, LabComparison, LayerChange};

use crate::visible::CellWriter;

const HEADER: [&str; 23] = [
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

pub(super) fn write(comparison: &LabComparison, out: &mut dyn io::Write) -> io::Result<()> {
    let label = comparison.label.as_deref().unwrap_or_default();
    let mut writer = CellWriter::new(out);
    writer.write_record(HEADER)?;
    for workload in &comparison.workloads {
        for layer in &workload.layers {
            writer.write_record(record(&workload.label, layer, label))?;
        }
    }
    writer.flush()
}

fn record(workload: &str, it: &LayerChange, label: &str) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
    let both = |pair: Option<[f64; 2]>| pair.map_or([None; 2], |pair| pair.map(Some)).map(number);
    let mut record = [workload, &it.stack, &it.name].map(str::to_owned).to_vec();
    let repeats = it.time_per_operation_ns_of_repeats.each_ref();
    record.extend(repeats.map(|side| side.len().to_string()));
    record.extend(both(Some(it.time_per_operation_ns)));
    record.extend(both(it.scatter));
    record.push(number(Some(it.ratio)));
    record.extend(both(it.ratio_interval));
    record.extend(both(it.added_ns));
    record.push(number(it.added_ratio));
    record.extend(both(it.cpu_ns_per_operation));
    record.push(number(it.cpu_ratio));
    record.extend(both(it.context_switches_per_operation));
    record.push(word(it.change).to_owned());
    record.extend([it.reason.clone().unwrap_or_default(), label.to_owned()]);
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
