//! A run's shapes against published ones: text, JSON, CSV; the page has no form for them.
//!
//! In: shapes. Out: bytes. Not here: the comparison.

use std::io;

use durio_compare::published::AgainstPublished;
use durio_compare::shape::{ShapeLevel, TOLERANCE};
use serde::Serialize;

use crate::figures::{decimal, deviation, percent};
use crate::json::write_document;
use crate::rows::place_name;
use crate::text::page::{Look, Page};
use crate::text::table::TextTable;
use crate::visible::CellWriter;
use crate::{Format, Options};

/// Name and version of the JSON document.
const SCHEMA: &str = "durio-compare-published-1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    tolerance: f64,
    against: &'a [AgainstPublished],
}

/// Writes shapes in `format`.
///
/// # Errors
/// What the writer says; and for HTML and fio's JSON, which there is none of, that it is unsupported.
pub fn write_published(
    format: Format,
    against: &[AgainstPublished],
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text(against, options, out),
        Format::Json => {
            write_document(&Document { schema: SCHEMA, tolerance: TOLERANCE, against }, out)
        }
        Format::Csv => comma_separated(against, out),
        Format::Html | Format::FioJson => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn text(all: &[AgainstPublished], options: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    let mut page = Page::new(options);
    page.paragraph("", Look::Bold, "durio compare: shapes against published results");
    let note = format!(
        "Ratios to the reference level within each table; within {} they are alike. Absolute rates \
         of other machines are not compared.",
        percent(TOLERANCE)
    );
    page.paragraph("  ", Look::Dim, &note);
    for it in all {
        let table = &it.table;
        let heading = format!(
            "{} at {} against {}: {}, {} {}, {}",
            table.operation.name(),
            place_name(&it.location),
            table.source,
            table.stack,
            table.workload,
            table.block_size,
            table.method
        );
        page.heading(&heading);
        let mut rows =
            TextTable::new(&page, ["in flight", "measured ×", "published ×", "deviation", ""]);
        it.shape.levels.iter().for_each(|level| rows.add_row(cells(level)));
        rows.put(&mut page);
    }
    out.write_all(page.text().as_bytes())
}

fn cells(it: &ShapeLevel) -> [String; 5] {
    let ratio = |value: Option<f64>| value.map_or_else(String::new, decimal);
    [
        it.level.to_string(),
        ratio(it.measured_ratio),
        ratio(it.published_ratio),
        it.deviation.map_or_else(String::new, deviation),
        it.word.words().to_owned(),
    ]
}

fn comma_separated(all: &[AgainstPublished], out: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = CellWriter::new(out);
    writer.write_record([
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
    ])?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
    for it in all {
        let table = &it.table;
        for level in &it.shape.levels {
            writer.write_record([
                &it.location,
                &table.source,
                &table.stack,
                &table.workload,
                &table.block_size,
                table.operation.name(),
                &level.level.to_string(),
                &number(level.measured_ratio),
                &number(level.published_ratio),
                &number(level.deviation),
                level.word.words(),
            ])?;
        }
    }
    writer.flush()
}
