//! How the cost of each layer changed between two kernels, as a document.
//!
//! For each workload the times of its layers on both sides, and the conclusions; as records one per
//! workload and layer.

use durio_analyse::attribution::{
    CostChange, LabComparison, LayerChange, SideName, Timing, WorkloadChanges,
};

use super::icount_mark;
use crate::Report;
use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{
    Cell, Column, DetailLevel, Document, Section, SectionBody, Table, Tone, both, record, shown,
};
use crate::figures::{counted, decimal, grouped, mean_latency};

// Larger pages open slowly; further layers are in the tables.
const LAYERS_MAX: usize = 60;

impl Report for LabComparison {
    fn document(&self) -> Document {
        let mut document = Document::new("durio lab compare", "time per operation of each layer");
        document.push(head(self));
        for it in &self.workloads {
            document.push(workload(self, it));
        }
        let mut notes = Section::new("How to read the tables");
        notes.note(NOTE);
        notes.say_at(DetailLevel::Detail, Tone::Note, PROCESSOR_NOTE);
        document.push(notes);
        document.records = records(self);
        document
    }
}

fn head(comparison: &LabComparison) -> Section {
    let mut head = Section::default();
    for (label, side) in ["A", "B"].into_iter().zip(&comparison.sides) {
        head.toned(Tone::Strong, label, side_words(side));
    }
    if let Some(label) = &comparison.label {
        head.toned(Tone::Warning, "COUNTED", label);
    }
    for line in &comparison.only_one_side {
        head.toned(Tone::Warning, "NOTE", line);
    }
    if comparison.workloads.is_empty() {
        head.say(Tone::Bad, "nothing in common to compare");
    }
    head
}

fn workload(comparison: &LabComparison, it: &WorkloadChanges) -> Section {
    let mark = icount_mark(comparison.label.as_ref());
    let mut section = Section::new(format!("{}{mark}", it.label));
    let table = |titles: &[&str]| {
        Table::part(&columns(), titles, it.layers.iter().map(|layer| (it, layer, None)))
    };
    section.table(table(&[
        "layer", "A", "B", "B ÷ A", "95 %", "scatter", "added A", "added B", "B is",
    ]));
    for line in untold(&it.layers) {
        section.toned(Tone::Warning, "NOTE", line);
    }
    // It is not judged, and in a summary would look as if it were.
    let processor = table(&["layer", "CPU A", "CPU B", "CPU B ÷ A", "switches A", "switches B"]);
    section.push(DetailLevel::Detail, SectionBody::Table(processor));
    section.charts([chart(comparison, &it.layers)]);
    section
}

fn chart(comparison: &LabComparison, layers: &[LayerChange]) -> Chart {
    let further = match layers.len() > LAYERS_MAX {
        true => format!(" (the first {LAYERS_MAX})"),
        false => String::new(),
    };
    let title = format!("Each layer with all that lies below it{further}: {}", what(comparison));
    let groups = layers.iter().take(LAYERS_MAX).map(|layer| bars(name(layers, layer), layer));
    Chart::bars(title, groups.collect(), [("A", Colour::First), ("B", Colour::Second)])
}

fn bars(name: String, it: &LayerChange) -> BarGroup {
    let [before, after] = it.time_per_operation_ns;
    let changed = format!("{}, {}", mean_latency(after), word(it.change));
    let bars = vec![
        Bar::new(name, before, Colour::First, mean_latency(before)),
        Bar::new("", after, Colour::Second, changed),
    ];
    BarGroup::new("", bars)
}

/// Which bench on which kernel, how often.
fn side_words(side: &SideName) -> String {
    let repeats = counted(side.repeats as u64, "repeat");
    format!("{}, kernel {}, {repeats}", side.name, side.kernels.join(", "))
}

fn what(comparison: &LabComparison) -> &str {
    match (&comparison.label, comparison.timing) {
        (Some(label), _) => label,
        (None, Some(Timing::Wall)) => "time per operation in the lab, by the wall clock",
        (None, _) => "time per operation",
    }
}

/// A layer of a workload, and the label of counted results.
type ChangeRow<'c> = (&'c WorkloadChanges, &'c LayerChange, Option<&'c String>);

fn columns<'c>() -> Vec<Column<ChangeRow<'c>>> {
    fn side(pair: Option<[f64; 2]>, side: usize, kind: fn(f64) -> Cell) -> Cell {
        Cell::or_absent(pair.map(|pair| pair[side]), kind)
    }
    fn repeats(layer: &LayerChange, side: usize) -> Cell {
        Cell::text(layer.time_per_operation_ns_of_repeats[side].len().to_string())
    }
    vec![
        record("workload", |(workload, ..)| Cell::text(&workload.label)),
        record("stack", |(_, layer, _)| Cell::text(&layer.stack)),
        record("name", |(_, layer, _)| Cell::text(&layer.name)),
        shown("layer", |(workload, layer, _)| Cell::text(name(&workload.layers, layer))),
        record("repeats_a", |(_, layer, _)| repeats(layer, 0)),
        record("repeats_b", |(_, layer, _)| repeats(layer, 1)),
        both("time_per_operation_ns_a", "A", |(_, layer, _)| {
            Cell::Latency(layer.time_per_operation_ns[0])
        }),
        both("time_per_operation_ns_b", "B", |(_, layer, _)| {
            Cell::Latency(layer.time_per_operation_ns[1])
        }),
        shown("B ÷ A", |(_, layer, _)| Cell::text(ratio(layer.ratio))),
        shown("95 %", |(_, layer, _)| Cell::text(interval(layer))),
        shown("scatter", |(_, layer, _)| Cell::text(scatter(layer))),
        record("scatter_a", |(_, layer, _)| side(layer.scatter, 0, Cell::Number)),
        record("scatter_b", |(_, layer, _)| side(layer.scatter, 1, Cell::Number)),
        record("ratio", |(_, layer, _)| Cell::Number(layer.ratio)),
        record("ratio_low", |(_, layer, _)| side(layer.ratio_interval, 0, Cell::Number)),
        record("ratio_high", |(_, layer, _)| side(layer.ratio_interval, 1, Cell::Number)),
        both("added_ns_a", "added A", |(_, layer, _)| side(layer.added_ns, 0, Cell::Added)),
        both("added_ns_b", "added B", |(_, layer, _)| side(layer.added_ns, 1, Cell::Added)),
        record("added_ratio", |(_, layer, _)| Cell::of(layer.added_ratio, Cell::Number)),
        both("cpu_ns_per_operation_a", "CPU A", |(_, layer, _)| {
            side(layer.cpu_ns_per_operation, 0, Cell::Latency)
        }),
        both("cpu_ns_per_operation_b", "CPU B", |(_, layer, _)| {
            side(layer.cpu_ns_per_operation, 1, Cell::Latency)
        }),
        shown("CPU B ÷ A", |(_, layer, _)| {
            Cell::or_absent(layer.cpu_ratio.map(ratio), Cell::Text)
        }),
        record("cpu_ratio", |(_, layer, _)| Cell::of(layer.cpu_ratio, Cell::Number)),
        both("context_switches_per_operation_a", "switches A", |(_, layer, _)| {
            side(layer.context_switches_per_operation, 0, Cell::Number)
        }),
        both("context_switches_per_operation_b", "switches B", |(_, layer, _)| {
            side(layer.context_switches_per_operation, 1, Cell::Number)
        }),
        shown("B is", |(_, layer, _)| {
            Cell::Word(tone(layer.change), word(layer.change).to_owned())
        }),
        record("change", |(_, layer, _)| Cell::saved(&layer.change)),
        record("reason", |(_, layer, _)| Cell::of(layer.reason.as_ref(), Cell::text)),
        record("label", |(.., label)| Cell::of(*label, Cell::text)),
    ]
}

/// In the units of the JSON document.
fn records(comparison: &LabComparison) -> Table {
    let label = comparison.label.as_ref();
    let rows = comparison
        .workloads
        .iter()
        .flat_map(|workload| workload.layers.iter().map(move |layer| (workload, layer, label)));
    Table::records(&columns(), rows)
}

const fn tone(change: CostChange) -> Tone {
    match change {
        CostChange::Cheaper => Tone::Good,
        CostChange::Dearer => Tone::Bad,
        CostChange::NoDifference | CostChange::Undecided => Tone::Plain,
    }
}

/// The layer, with its stack where others have a layer of that name.
fn name(layers: &[LayerChange], it: &LayerChange) -> String {
    let same = layers.iter().filter(|other| other.name == it.name).count();
    if same > 1 { format!("{} [{}]", it.name, it.stack) } else { it.name.clone() }
}

// With three decimals, for repeats are that close; where they are not, digits say nothing.
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

const fn word(change: CostChange) -> &'static str {
    match change {
        CostChange::Cheaper => "cheaper",
        CostChange::Dearer => "dearer",
        CostChange::NoDifference => "no different",
        CostChange::Undecided => "undecided",
    }
}

/// Why layers are not judged, each reason with the layers that it is of, or all.
fn untold(layers: &[LayerChange]) -> Vec<String> {
    let undecided = layers.iter().filter(|layer| layer.change == CostChange::Undecided);
    let reasons = grouped(undecided.map(|figure| {
        (figure.reason.as_deref().unwrap_or("the noise is not known"), name(layers, figure))
    }));
    let line = |(reason, names): (&str, Vec<String>)| match names.len() == layers.len() {
        true => format!("cannot decide what is cheaper or dearer: {reason}"),
        false => format!("undecided of {}: {reason}", names.join(", ")),
    };
    reasons.into_iter().map(line).collect()
}

/// Said under the tables.
const NOTE: &str = "A, B: time per operation of the layer with all that lies below it, geometric mean of the \
     repeats. B ÷ A: above 1 it became dearer; 95 %: the confidence interval of that (Welch's, of the \
     logarithms of the repeats). scatter: highest ÷ lowest repeat less one, of A and of B. added: time \
     that the layer adds to the one just below. cheaper, dearer: the interval does not hold 1 and \
     the change is more than 1 %; no different: it lies within 1 %; undecided: neither is shown.";

/// The note under the layers' processor times.
const PROCESSOR_NOTE: &str = "CPU, switches: processor time and context switches of the jobs per operation, mean of the \
     repeats; not judged.";
