//! A run's shapes against published ones, as a document.
//!
//! In: shapes. Out: a table for each, and a record for each level. Not here: the comparison.

use std::io;

use durio_compare::published::AgainstPublished;
use durio_compare::shape::TOLERANCE;
use serde::Serialize;

use crate::document::{Cell, Document, Section, Table};
use crate::figures::percent;
use crate::run::place_name;
use crate::{Format, Options};

/// Name and version of the JSON document.
const SCHEMA: &str = "durio-compare-published-1";

#[derive(Serialize)]
struct Shapes<'a> {
    schema: &'static str,
    tolerance: f64,
    against: &'a [AgainstPublished],
}

/// Writes shapes in `format`.
///
/// # Errors
/// What the writer says; and for fio's JSON, which there is none of, that it is unsupported.
pub fn write_published(
    format: Format,
    against: &[AgainstPublished],
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let shapes = Shapes { schema: SCHEMA, tolerance: TOLERANCE, against };
    format.write(&shapes, |it| document(it.against), options, out)
}

fn document(all: &[AgainstPublished]) -> Document {
    let mut document = Document::new("durio compare", "shapes against published results");
    let mut head = Section::default();
    head.note(format!(
        "Ratios to the reference level within each table; within {} they are alike. Absolute rates \
         of other machines are not compared.",
        percent(TOLERANCE)
    ));
    document.push(head);
    document.sections.extend(all.iter().map(section));
    document.records = records(all);
    document
}

fn section(it: &AgainstPublished) -> Section {
    let table = &it.table;
    let mut section = Section::new(format!(
        "{} at {} against {}: {}, {} {}, {}",
        table.operation.name(),
        place_name(&it.location),
        table.source,
        table.stack,
        table.workload,
        table.block_size,
        table.method
    ));
    section.table(Table::of(
        &it.shape.levels,
        [
            ("in flight", |it| Cell::text(it.level.to_string())),
            ("measured ×", |it| Cell::of(it.measured_ratio, Cell::Number)),
            ("published ×", |it| Cell::of(it.published_ratio, Cell::Number)),
            ("deviation", |it| Cell::of(it.deviation, Cell::Deviation)),
            ("", |it| Cell::text(it.word.words())),
        ],
    ));
    section
}

fn records(all: &[AgainstPublished]) -> Table {
    Table::of(
        all.iter().flat_map(|it| it.shape.levels.iter().map(move |level| (it, level))),
        [
            ("location", |(it, _)| Cell::text(&it.location)),
            ("source", |(it, _)| Cell::text(&it.table.source)),
            ("stack", |(it, _)| Cell::text(&it.table.stack)),
            ("workload", |(it, _)| Cell::text(&it.table.workload)),
            ("block_size", |(it, _)| Cell::text(&it.table.block_size)),
            ("operation", |(it, _)| Cell::text(it.table.operation.name())),
            ("level", |(_, level)| Cell::text(level.level.to_string())),
            ("measured_ratio", |(_, level)| Cell::of(level.measured_ratio, Cell::Number)),
            ("published_ratio", |(_, level)| Cell::of(level.published_ratio, Cell::Number)),
            ("deviation", |(_, level)| Cell::of(level.deviation, Cell::Number)),
            ("word", |(_, level)| Cell::text(level.word.words())),
        ],
    )
}
