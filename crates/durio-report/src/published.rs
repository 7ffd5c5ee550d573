//! A run's shapes against published ones, as a document.
//!
//! In: shapes. Out: a table for each, and a record for each level. Not here: the comparison.

use std::io;

use durio_compare::published::AgainstPublished;
use durio_compare::shape::{ShapeLevel, TOLERANCE};
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
    let titles = ["in flight", "measured ×", "published ×", "deviation", ""];
    section.table(Table::new(titles).with(it.shape.levels.iter().map(|it| cells(it).into())));
    section
}

fn cells(it: &ShapeLevel) -> [Cell; 5] {
    [
        Cell::text(it.level.to_string()),
        Cell::of(it.measured_ratio, Cell::Number),
        Cell::of(it.published_ratio, Cell::Number),
        Cell::of(it.deviation, Cell::Deviation),
        Cell::text(it.word.words()),
    ]
}

fn records(all: &[AgainstPublished]) -> Table {
    let columns = [
        "location",
        "source",
        "stack",
        "workload",
        "block_size",
        "operation",
        "level",
        "measured_ratio",
        "published_ratio",
        "deviation",
        "word",
    ];
    let mut records = Table::new(columns);
    for it in all {
        let table = &it.table;
        let of = [&it.location, &table.source, &table.stack, &table.workload, &table.block_size]
            .map(Cell::text);
        for level in &it.shape.levels {
            let operation = Cell::text(table.operation.name());
            records.row(of.iter().cloned().chain([operation]).chain(cells(level)));
        }
    }
    records
}
