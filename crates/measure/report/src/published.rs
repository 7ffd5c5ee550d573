//! A run's shapes against published ones, as a document.
//!
//! A table for each shape, and a record for each level.

use durio_judge::compare::published::AgainstPublished;
use durio_judge::compare::shape::TOLERANCE;
use serde::Serialize;

use crate::Report;
use crate::document::{Cell, Document, Section, Table};
use crate::figures::percent;
use crate::run::location_name;

/// Shapes, as they are saved: with a separate schema, because no folder has them.
#[derive(Debug, Serialize)]
pub struct ShownShapes<'a> {
    schema: &'static str,
    tolerance: f64,
    against: &'a [AgainstPublished],
}

impl<'a> ShownShapes<'a> {
    /// Shapes with their schema.
    #[must_use]
    pub const fn new(against: &'a [AgainstPublished]) -> Self {
        Self { schema: "durio-compare-published-1", tolerance: TOLERANCE, against }
    }
}

impl Report for ShownShapes<'_> {
    fn document(&self) -> Document {
        let mut document = Document::new("durio compare", "shapes against published results");
        let mut head = Section::default();
        head.note(format!(
            "Ratios to the reference level within each table; within {} they are alike. Absolute \
             rates of other machines are not compared.",
            percent(TOLERANCE)
        ));
        document.push(head);
        document.sections.extend(self.against.iter().map(section));
        document.records = records(self.against);
        document
    }
}

fn section(it: &AgainstPublished) -> Section {
    let table = &it.table;
    let mut section = Section::new(format!(
        "{} at {} against {}: {}, {} {}, {}",
        table.operation.name(),
        location_name(&it.location),
        table.source,
        table.stack,
        table.workload,
        table.block_size,
        table.method
    ));
    section.table(Table::with_columns(
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
    Table::with_columns(
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
