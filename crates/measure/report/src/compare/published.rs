//! Comparisons of a run's shapes with published ones as documents: a table for each, and a record for
//! each level.

use durio_judge::compare::published::{AgainstPublished, ShapeLevel, ShapeWord, TOLERANCE};
use durio_judge::summary::{Summary, SummaryFigure, SummaryVerdict};
use serde::Serialize;

use crate::Report;
use crate::document::{Cell, Column, Document, Section, Table, both, record};
use crate::figures::{counted, decimal, location_name, percent};

/// Shapes, as they are saved: with a separate schema, because no folder has them.
#[derive(Debug, Serialize)]
pub struct ShownShapes<'a> {
    schema: &'static str,
    tolerance: f64,
    against: &'a [AgainstPublished],
}

impl<'a> ShownShapes<'a> {
    /// Shapes with their schema.
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
        document.sections.extend(self.against.iter().map(shapes));
        let rows = self.against.iter();
        let rows =
            rows.flat_map(|shapes| shapes.shape.levels.iter().map(move |level| (shapes, level)));
        document.records = Table::records(&shape_columns(), rows);
        document
    }

    fn summary(&self) -> Option<Summary> {
        let all: Vec<LadderGrowth<'_>> = self.against.iter().filter_map(growth).collect();
        let first = all.first()?;
        let is_same =
            |one: &&LadderGrowth<'_>| (one.levels, one.measured) == (first.levels, first.measured);
        let same = all.iter().filter(is_same).take(TABLES_MAX);
        let published: Vec<String> =
            same.map(|one| format!("{} ({})", decimal(one.published), one.stack)).collect();
        let more = match all.len() - published.len() {
            0 => String::new(),
            more => format!("; {} below", counted(more as u64, "more table")),
        };
        let ([from, to], measured) = (first.levels, first.measured);
        let figure =
            |label: &str, value| SummaryFigure { label: label.to_owned(), value, unit: "times" };
        Some(Summary {
            verdict: SummaryVerdict::Unknown,
            sentence: format!(
                "From {from} to {to} operations in flight the rate grows by a factor of {}; published: \
                 {}{more}",
                decimal(measured),
                published.join(" and ")
            ),
            headline: vec![figure("measured", measured), figure("published", first.published)],
            reasons: vec!["published ratios are not a limit".to_owned()],
        })
    }
}

/// Tables that the sentence names.
const TABLES_MAX: usize = 2;

/// How often the rate of the reference level is reached at the highest level of both tables.
struct LadderGrowth<'a> {
    stack: &'a str,
    /// The lowest and the highest level.
    levels: [u32; 2],
    measured: f64,
    published: f64,
}

fn growth(against: &AgainstPublished) -> Option<LadderGrowth<'_>> {
    let levels = against.shape.levels.iter().filter(|level| level.word != ShapeWord::Reference);
    let compared = levels.filter(|level| level.deviation.is_some());
    let top = compared.max_by_key(|level| level.level)?;
    Some(LadderGrowth {
        stack: &against.table.stack,
        levels: [against.shape.reference_level?, top.level],
        measured: top.measured_ratio?,
        published: top.published_ratio?,
    })
}

fn shapes(it: &AgainstPublished) -> Section {
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
    let rows = it.shape.levels.iter().map(|level| (it, level));
    section.table(Table::shown(&shape_columns(), rows));
    section
}

fn shape_columns<'s>() -> Vec<Column<(&'s AgainstPublished, &'s ShapeLevel)>> {
    vec![
        record("location", |(shape, _)| Cell::text(&shape.location)),
        record("source", |(shape, _)| Cell::text(&shape.table.source)),
        record("stack", |(shape, _)| Cell::text(&shape.table.stack)),
        record("workload", |(shape, _)| Cell::text(&shape.table.workload)),
        record("block_size", |(shape, _)| Cell::text(&shape.table.block_size)),
        record("operation", |(shape, _)| Cell::text(shape.table.operation.name())),
        both("level", "in flight", |(_, level)| Cell::text(level.level.to_string())),
        both("measured_ratio", "measured ×", |(_, level)| {
            Cell::of(level.measured_ratio, Cell::Number)
        }),
        both("published_ratio", "published ×", |(_, level)| {
            Cell::of(level.published_ratio, Cell::Number)
        }),
        both("deviation", "deviation", |(_, level)| Cell::of(level.deviation, Cell::Deviation)),
        both("word", "", |(_, level)| Cell::text(level.word.words())),
    ]
}
