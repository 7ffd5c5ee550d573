//! How the cost of each layer changed between two kernels, as text.
//!
//! In: a comparison. Out: text, and the words that the page shares. Not here: the comparison.

use std::io;

use durio_analyse::attribution::{CostChange, LabComparison, LayerChange, SideName, Timing};

use super::tables::{Grid, GridRow, columns};
use super::words::{added, number_or_absent, time_or_absent};
use crate::Options;
use crate::figures::{ABSENT, counted, decimal, mean_latency};
use crate::text::page::{Look, Page};
use crate::text::table::TextTable;

/// Of the times.
const COLUMNS: [&str; 9] =
    ["layer", "A", "B", "B ÷ A", "95 %", "scatter", "added A", "added B", "B is"];

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
        page.labelled("COUNTED", 7, Look::Warning, label);
    }
    for workload in &comparison.workloads {
        page.heading(&workload.label);
        let mut table = TextTable::new(&page, COLUMNS);
        for GridRow { name, cells, .. } in times(&workload.layers).rows {
            table.add_row(std::iter::once(name).chain(cells));
        }
        table.put(&mut page);
        for line in untold(&workload.layers) {
            page.labelled("NOTE", 4, Look::Warning, &line);
        }
    }
    if comparison.workloads.is_empty() {
        page.paragraph("  ", Look::Bad, "nothing in common that could be compared");
    }
    for line in &comparison.only_one_side {
        page.labelled("NOTE", 4, Look::Warning, line);
    }
    page.paragraph("  ", Look::Dim, NOTE);
    out.write_all(page.text().as_bytes())
}

/// Which bench on which kernel, how often.
pub(super) fn side_words(side: &SideName) -> String {
    let repeats = counted(side.repeats as u64, "repeat");
    format!("{}, kernel {}, {repeats}", side.name, side.kernels.join(", "))
}

/// What the figures of a chart are.
pub(super) fn what(comparison: &LabComparison) -> &str {
    match (&comparison.label, comparison.timing) {
        (Some(label), _) => label,
        (None, Some(Timing::Wall)) => "time per operation in the lab, by the wall clock",
        (None, _) => "time per operation",
    }
}

/// The times of layers as a table.
pub(super) fn times(layers: &[LayerChange]) -> Grid {
    let row = |it: &LayerChange| GridRow { name: name(layers, it), cells: cells(it), absent: None };
    Grid { header: columns(COLUMNS.to_vec()), rows: layers.iter().map(row).collect() }
}

fn cells(it: &LayerChange) -> Vec<String> {
    let mut cells: Vec<String> = it.time_per_operation_ns.map(mean_latency).into();
    cells.extend([ratio(it.ratio), interval(it), scatter(it)]);
    cells.extend(pair(it.added_ns).map(|it| it.map_or_else(|| ABSENT.to_owned(), added)));
    cells.push(word(it.change).to_owned());
    cells
}

/// What the layers take of the processor, for which only the page has room.
pub(super) fn processor(layers: &[LayerChange]) -> Grid {
    let row = |it: &LayerChange| {
        let mut cells = pair(it.cpu_ns_per_operation).map(time_or_absent).to_vec();
        cells.push(it.cpu_ratio.map_or_else(|| ABSENT.to_owned(), ratio));
        cells.extend(pair(it.context_switches_per_operation).map(number_or_absent));
        GridRow { name: name(layers, it), cells, absent: None }
    };
    let header = vec!["layer", "CPU A", "CPU B", "CPU B ÷ A", "switches A", "switches B"];
    Grid { header: columns(header), rows: layers.iter().map(row).collect() }
}

fn pair(pair: Option<[f64; 2]>) -> [Option<f64>; 2] {
    pair.map_or([None; 2], |pair| pair.map(Some))
}

/// The layer, with its stack where others have a layer of that name.
pub(super) fn name(layers: &[LayerChange], it: &LayerChange) -> String {
    let same = layers.iter().filter(|other| other.name == it.name).count();
    if same > 1 { format!("{} [{}]", it.name, it.stack) } else { it.name.clone() }
}

/// With three decimals, for repeats are that close; where they are not, digits say nothing.
fn ratio(value: f64) -> String {
    match value.abs() {
        it if it < 100.0 => format!("{value:.3}"),
        it if it < 1000.0 => decimal(value),
        _ => "> 999".to_owned(),
    }
}

fn interval(it: &LayerChange) -> String {
    let Some([low, high]) = it.ratio_interval else { return "unknown".to_owned() };
    format!("{}–{}", ratio(low), ratio(high))
}

fn scatter(it: &LayerChange) -> String {
    let Some(both) = it.scatter else { return "unknown".to_owned() };
    let percent = |share: f64| match share * 100.0 {
        it if it < 1000.0 => decimal(it),
        _ => "> 999".to_owned(),
    };
    let [a, b] = both.map(percent);
    format!("{a}, {b} %")
}

/// As users read it.
pub(super) const fn word(change: CostChange) -> &'static str {
    match change {
        CostChange::Cheaper => "cheaper",
        CostChange::Dearer => "dearer",
        CostChange::NoDifference => "no different",
        CostChange::Undecided => "undecided",
    }
}

/// Why layers are not judged, each reason with the layers that it is of, or all.
pub(super) fn untold(layers: &[LayerChange]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for it in layers.iter().filter(|it| it.change == CostChange::Undecided) {
        let reason = it.reason.as_deref().unwrap_or("the noise is not known");
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name(layers, it)),
            None => reasons.push((reason, vec![name(layers, it)])),
        }
    }
    let line = |(reason, names): (&str, Vec<String>)| match names.len() == layers.len() {
        true => format!("undecided what is cheaper or dearer: {reason}"),
        false => format!("undecided of {}: {reason}", names.join(", ")),
    };
    reasons.into_iter().map(line).collect()
}

/// Said under the tables.
pub(super) const NOTE: &str = "A, B: time per operation of the layer with all that lies below it, geometric mean of the \
     repeats. B ÷ A: above 1 it became dearer; 95 %: the confidence interval of that (Welch's, of the \
     logarithms of the repeats). scatter: highest ÷ lowest repeat less one, of A and of B. added: time \
     that the layer adds to the one just below. cheaper, dearer: the interval does not hold 1 and \
     the change is more than 1 %; no different: it lies within 1 %; undecided: neither is shown.";

/// Said under what the layers take of the processor.
pub(super) const PROCESSOR_NOTE: &str = "CPU, switches: processor time and context switches of the jobs per operation, mean of the \
     repeats; not judged.";
