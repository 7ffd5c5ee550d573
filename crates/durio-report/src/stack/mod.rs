//! Benches of stacks, and two of them beside each other, as text, JSON, HTML, CSV.
//!
//! In: [`StackFindings`] or [`LabComparison`]. Out: bytes, into a writer.
//! Not here: any figure or word that the findings do not have.

mod changes;
mod changes_csv;
mod changes_page;
mod comma_separated;
mod html;
mod ladders;
mod pictures;
mod tables;
mod text;
mod words;

use std::io;

use durio_analyse::attribution::{LabComparison, StackFindings};

use crate::{Format, Options};

/// Writes the findings of a bench of stacks in `format`.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk; and for fio's JSON, which has no
/// place for them, that it is unsupported.
pub fn render_stack(
    format: Format,
    findings: &StackFindings,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::write(findings, options, out),
        Format::Json => crate::json::write_document(findings, out),
        Format::Html => html::write(findings, out),
        Format::Csv => comma_separated::write(findings, out),
        Format::FioJson => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Writes how the cost of each layer changed between two kernels.
///
/// # Errors
/// What the writer says; and for fio's JSON, which has no place for it, that it is unsupported.
pub fn write_lab_comparison(
    format: Format,
    comparison: &LabComparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => changes::text(comparison, options, out),
        Format::Json => crate::json::write_document(comparison, out),
        Format::Html => changes_page::write(comparison, out),
        Format::Csv => changes_csv::write(comparison, out),
        Format::FioJson => Err(io::ErrorKind::Unsupported.into()),
    }
}
