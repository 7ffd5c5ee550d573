//! How the cost of each layer changed between two kernels, as one page for a browser.
//!
//! In: a comparison. Out: one HTML file with style and charts inside, without any script, and
//! forbidden by its own policy to ask anybody for anything. Not here: the words, which the terminal
//! shares, and the drawing of a bar.

use std::io;

use askama::Template;
use durio_analyse::attribution::{LabComparison, LayerChange, WorkloadChanges};

use super::changes::{
    NOTE, PROCESSOR_NOTE, name, processor, side_words, times, untold, what, word,
};
use super::pictures::{Picture, named};
use super::tables::Grid;
use crate::figures::mean_latency;
use crate::html::STYLE;
use crate::html::charts::{Colour, SpanGroup, SpanRow, spans};
use crate::visible::visible_lines;

/// Larger pages open slowly; further layers are in the tables.
const LAYERS_MAX: usize = 60;

/// What the template is filled with; all text in it is escaped there.
#[derive(Template)]
#[template(path = "changes.html")]
struct ChangesPage<'a> {
    comparison: &'a LabComparison,
    version: &'static str,
    style: &'static str,
    sides: [(&'static str, String); 2],
    note: &'static str,
    processor_note: &'static str,
    workloads: Vec<Part<'a>>,
}

struct Part<'a> {
    label: &'a str,
    tables: [(&'static str, Grid); 2],
    untold: Vec<String>,
    picture: Option<Picture>,
}

pub(super) fn write(comparison: &LabComparison, out: &mut dyn io::Write) -> io::Result<()> {
    let [before, after] = &comparison.sides;
    let parts = comparison.workloads.iter().map(|it| part(comparison, it));
    let page = ChangesPage {
        comparison,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        sides: [("A", side_words(before)), ("B", side_words(after))],
        note: NOTE,
        processor_note: PROCESSOR_NOTE,
        workloads: parts.collect::<io::Result<_>>()?,
    };
    let html = page.render().map_err(io::Error::other)?;
    out.write_all(visible_lines(&html).as_bytes())
}

fn part<'a>(comparison: &LabComparison, it: &'a WorkloadChanges) -> io::Result<Part<'a>> {
    Ok(Part {
        label: &it.label,
        tables: [
            ("Time per operation", times(&it.layers)),
            ("Processor time and context switches", processor(&it.layers)),
        ],
        untold: untold(&it.layers),
        picture: picture(comparison, &it.layers)?,
    })
}

/// Two bars for each layer.
fn picture(comparison: &LabComparison, layers: &[LayerChange]) -> io::Result<Option<Picture>> {
    let groups: Vec<SpanGroup> =
        layers.iter().take(LAYERS_MAX).map(|it| bars(name(layers, it), it)).collect();
    let further = match layers.len() > LAYERS_MAX {
        true => format!(" (the first {LAYERS_MAX})"),
        false => String::new(),
    };
    let title = format!("Each layer with all that lies below it{further}: {}", what(comparison));
    let legend = named([("A", Colour::First), ("B", Colour::Second)]);
    Ok(spans(&groups)?.map(|svg| Picture { title, legend, svg }))
}

fn bars(name: String, it: &LayerChange) -> SpanGroup {
    let [before, after] = it.time_per_operation_ns;
    let bar = |name: String, nanos: f64, colour, text| SpanRow {
        name,
        spans: vec![(0.0, nanos, colour)],
        text,
    };
    let changed = format!("{}, {}", mean_latency(after), word(it.change));
    let rows = vec![
        bar(name, before, Colour::First, mean_latency(before)),
        bar(String::new(), after, Colour::Second, changed),
    ];
    SpanGroup { title: String::new(), rows }
}
