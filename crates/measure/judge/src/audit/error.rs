//! The one error of this crate: a file that cannot be audited, where, and what to do.

use std::io;

use thiserror::Error;

/// Why a table of results could not be read.
#[derive(Debug, Error)]
pub enum AuditError {
    /// Reading failed.
    #[error("reading failed")]
    Read(#[source] io::Error),
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// There is a header and nothing below.
    #[error("the table has a header and no row")]
    NoRow,
    /// Bytes that are not UTF-8.
    #[error("line {line} is no text in UTF-8")]
    NotText {
        /// From 1.
        line: u64,
    },
    /// A JSON document where a table should be.
    #[error("the file is JSON, not a table")]
    Json,
    /// Columns that every table of results has.
    #[error("the header lacks the columns {missing}")]
    MissingColumns {
        /// Names, with commas.
        missing: String,
    },
    /// A column is there twice.
    #[error("the header has the column '{column}' twice")]
    ColumnTwice { column: String },
    /// A cell that cannot be understood.
    #[error("line {line}, column {column}: '{text}' is no {expected}")]
    Cell {
        /// From 1; the header is line 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// The cell, shortened.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A row with more or fewer fields than the header.
    #[error("line {line} has {found} fields, the header has {expected}")]
    Fields {
        /// From 1.
        line: u64,
        /// Fields of the header.
        expected: u64,
        /// Fields of the row.
        found: u64,
    },
    /// The file ends within quotes.
    #[error("the quote that is opened in line {line} is never closed")]
    OpenQuote {
        /// From 1.
        line: u64,
    },
    /// A row that no table of results has.
    #[error("the row that begins in line {line} has more than {limit} bytes")]
    LongRow {
        /// From 1.
        line: u64,
        /// Bytes that a row may have.
        limit: usize,
    },
}

impl AuditError {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Read(_) => "check the path and the rights",
            Self::Empty | Self::NoRow => {
                "give a table with a header and a row for each measured point"
            }
            Self::NotText { .. } => {
                "only a CSV table can be audited; save it as UTF-8 text, not compressed"
            }
            Self::Json => "give a CSV table with a row for each measured point",
            Self::MissingColumns { .. } => {
                "the first line names the columns; leave the cells of unknown figures empty"
            }
            Self::ColumnTwice { .. } => "rename or remove one of them",
            Self::Cell { .. } => "correct the cell, or leave it empty if the figure is unknown",
            Self::Fields { .. } => "put fields that have commas in them between double quotes",
            Self::OpenQuote { .. } => "close the quote; the file may have been cut off",
            Self::LongRow { .. } => "check whether a quote is missing, and whether it is a table",
        }
    }
}
