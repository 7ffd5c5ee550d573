//! Comparisons as text, JSON, HTML, CSV.
//!
//! In: [`Comparison`] or shapes against published ones. Out: bytes, into a writer.
//! Not here: any figure or word that the comparison does not have.

mod comma_separated;
mod html;
mod published;
mod text;
mod words;

use std::io;

use durio_compare::Comparison;

pub use published::write_published;
pub(crate) use text::write_figures;
pub use words::gate_advice;

use crate::{Format, Options};

/// Writes `comparison` in `format`.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk; and for fio's JSON, which has no
/// place for a comparison, that it is unsupported.
pub fn write_comparison(
    format: Format,
    comparison: &Comparison,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::Text => text::write(comparison, options, out),
        Format::Json => crate::json::write_document(comparison, out),
        Format::Html => html::write(comparison, out),
        Format::Csv => comma_separated::write(comparison, out),
        Format::FioJson => Err(io::ErrorKind::Unsupported.into()),
    }
}
