//! How the cost of each layer changed between two benches, as text and CSV.
//!
//! In: a comparison. Out: bytes, into a writer. Not here: the comparison.

use std::io;

use durio_analyse::attribution::{CostChange, LabComparison, LayerChange, Noise, SideName};

use crate::Options;
use crate::figures::{ABSENT, decimal, deviation, mean_latency};
use crate::text::page::{Look, Page, clean};
use crate::text::table::{new_table, put};

const COLUMNS: [&str; 8] = ["layer", "A", "B", "B ÷ A", "noise", "added A", "added B", "B is"];

pub(super) fn text(
    comparison: &LabComparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    page.paragraph("", Look::Bold, "durio lab compare: time per operation of each layer");
    for (label, side) in ["A", "B"].into_iter().zip(&comparison.sides) {
        page.labelled(label, 2, Look::Bold, &side_words(side));
    }
    if let Some(label) = &comparison.label {
        page.labelled("COUNTED", 7, Look::Heed, label);
    }
    for workload in &comparison.workloads {
        page.heading(&workload.label);
        let mut table = new_table(&page, COLUMNS.to_vec());
        table.add_rows(workload.layers.iter().map(cells));
        put(table, &mut page);
    }
    if comparison.workloads.is_empty() {
        page.paragraph("  ", Look::Bad, "nothing in common that could be compared");
    }
    for line in &comparison.only_one_side {
        page.labelled("NOTE", 4, Look::Heed, line);
    }
    page.paragraph("  ", Look::Dim, &how(comparison));
    out.write_all(page.text().as_bytes())
}

fn side_words(side: &SideName) -> String {
    format!("{}, kernel {}", side.name, side.kernels.join(", "))
}

fn cells(it: &LayerChange) -> Vec<String> {
    let [before, after] = it.time_per_operation_ns.map(mean_latency);
    let [added_before, added_after] = match it.added_ns {
        Some(both) => both.map(super::words::added),
        None => [ABSENT, ABSENT].map(str::to_owned),
    };
    let name = format!("{} [{}]", it.name, it.stack);
    vec![
        clean(&name),
        before,
        after,
        decimal(it.ratio),
        noise(it),
        added_before,
        added_after,
        word(it.change).to_owned(),
    ]
}

/// The range of the ratio, as deviations from it.
fn noise(it: &LayerChange) -> String {
    let Some([low, high]) = it.ratio_range else { return "unknown".to_owned() };
    let mark = if it.noise == Noise::Repeats { "*" } else { "" };
    let [below, above] = [low, high].map(|end| deviation(end / it.ratio - 1.0));
    format!("{below} {above}{mark}")
}

const fn word(change: CostChange) -> &'static str {
    match change {
        CostChange::Cheaper => "cheaper",
        CostChange::Dearer => "dearer",
        CostChange::NoDifference => "no different",
    }
}

/// How the words were found.
fn how(comparison: &LabComparison) -> String {
    let all = comparison.workloads.iter().flat_map(|it| &it.layers);
    let no_repeats = all.clone().any(|it| it.noise != Noise::Repeats);
    let caution = match no_repeats {
        true => {
            " Where there is no *, one side was measured once: what differs from one run to the \
             next is not in the noise."
        }
        false => "",
    };
    format!(
        "added: time that the layer adds to the one just below. cheaper, dearer: the noise does not \
         reach B ÷ A = 1, and the change is at least 1 %. *: noise from the repeats.{caution}"
    )
}

const HEADER: [&str; 15] = [
    "workload",
    "stack",
    "name",
    "time_per_operation_ns_a",
    "time_per_operation_ns_b",
    "ratio",
    "ratio_low",
    "ratio_high",
    "noise",
    "added_ns_a",
    "added_ns_b",
    "added_ratio",
    "cpu_ratio",
    "context_switches_per_operation_b",
    "change",
];

pub(super) fn comma_separated(
    comparison: &LabComparison,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(HEADER)?;
    for workload in &comparison.workloads {
        for layer in &workload.layers {
            writer.write_record(record(&workload.label, layer))?;
        }
    }
    writer.flush()
}

fn record(workload: &str, it: &LayerChange) -> [String; 15] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
    let noise = match it.noise {
        Noise::Repeats => "repeats",
        Noise::WithinRuns => "within_runs",
        Noise::Unknown => "unknown",
    };
    let [before, after] = it.time_per_operation_ns;
    [
        workload.to_owned(),
        it.stack.clone(),
        it.name.clone(),
        number(Some(before)),
        number(Some(after)),
        number(Some(it.ratio)),
        number(it.ratio_range.map(|it| it[0])),
        number(it.ratio_range.map(|it| it[1])),
        noise.to_owned(),
        number(it.added_ns.map(|it| it[0])),
        number(it.added_ns.map(|it| it[1])),
        number(it.added_ratio),
        number(it.cpu_ratio),
        number(it.context_switches_per_operation.map(|it| it[1])),
        word(it.change).replace(' ', "_"),
    ]
}
