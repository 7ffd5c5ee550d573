//! A table of results, as CSV, to claims, and why one could not be read.
//!
//! The input is bytes with a header line; columns may be in any order. Memory holds one row at a
//! time, plus the rows that are compared.
//!
//! The columns of `measure/judge/data/published-results.csv` must be there, except `note`. Optional
//! are the others of [`COLUMNS`], `sync_latency_us`, and for read, write and sync `_latency_min_us`,
//! `_latency_max_us` and percentiles as `_latency_p99.9_us`. Any other is named in a note and ignored.
//!
//! A [`Guard`] watches the bytes on their way to the CSV reader, and reports what that accepts
//! silently: a quote that is never closed, bytes that are not text.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use thiserror::Error;

use super::cell::{self, CellResult};
use super::claim::{Claim, ClaimPlace, Operations};
use super::phrases::describe;
use super::{AuditFindings, Auditor};

/// Puts a cell into its field.
type CellSetter = fn(&mut Claim, &str) -> CellResult<()>;

/// The columns but those of latencies other than the mean, and what takes their cells.
const COLUMNS: [(&str, CellSetter); 23] = [
    ("source", |claim, text| put(&mut claim.source, text)),
    ("stack", |claim, text| put(&mut claim.stack, text)),
    ("workload", |claim, text| put(&mut claim.workload, text)),
    ("block_size", |claim, text| cell::size(text).map(|size| claim.block_size = Some(size))),
    ("jobs", |claim, text| cell::count(text).map(|count| claim.jobs = Some(count))),
    ("iodepth", |claim, text| cell::count(text).map(|count| claim.depth = Some(count))),
    ("durable", |claim, text| put(&mut claim.durable, text)),
    ("read_iops", |claim, text| set_rate(&mut claim.read, text)),
    ("read_latency_us", |claim, text| set_latency(&mut claim.read, LatencyColumn::Mean, text)),
    ("write_iops", |claim, text| set_rate(&mut claim.write, text)),
    ("write_latency_us", |claim, text| set_latency(&mut claim.write, LatencyColumn::Mean, text)),
    ("bandwidth_mb_s", set_bandwidth),
    ("note", |claim, text| put(&mut claim.note, text)),
    ("engine", |claim, text| put(claim.engine.get_or_insert_default(), text)),
    ("direct", |claim, text| cell::yes_no(text).map(|yes| claim.buffered = Some(!yes))),
    ("paced", |claim, text| cell::yes_no(text).map(|yes| claim.paced = yes)),
    ("runtime", |claim, text| cell::duration(text).map(|time| claim.runtime = Some(time))),
    ("size", |claim, text| cell::size(text).map(|size| claim.size = Some(size))),
    ("memory", |claim, text| cell::size(text).map(|size| claim.memory = Some(size))),
    ("target", |claim, text| put(claim.target.get_or_insert_default(), text)),
    ("preconditioned", |claim, text| {
        cell::yes_no(text).map(|yes| claim.preconditioned = Some(yes))
    }),
    ("idle", |claim, text| cell::duration(text).map(|time| claim.idle = Some(time))),
    ("syncs", |claim, text| {
        text.parse().map(|count| claim.sync.count = Some(count)).map_err(|_| "whole number")
    }),
];

fn put(field: &mut String, text: &str) -> CellResult<()> {
    text.clone_into(field);
    Ok(())
}

fn set_rate(operations: &mut Operations, text: &str) -> CellResult<()> {
    operations.rate = Some(cell::rate(text)?);
    let unit = cell::written_unit(text);
    let scale = cell::rate_unit(unit.unwrap_or_default())?;
    operations.rate_has_unit = scale > 1.0;
    operations.rate_of_lost_carry = cell::of_lost_carry(text).map(|carry| carry.scaled(scale));
    Ok(())
}

fn set_bandwidth(claim: &mut Claim, text: &str) -> CellResult<()> {
    claim.bandwidth = Some(cell::bandwidth(text)?);
    claim.bandwidth_unit = cell::written_unit(text).map(str::to_owned);
    let scale = cell::bandwidth_unit(claim.bandwidth_unit.as_deref().unwrap_or_default());
    let carry = cell::of_lost_carry(text).zip(scale);
    claim.bandwidth_of_lost_carry = carry.map(|(carry, scale)| carry.scaled(scale));
    Ok(())
}

/// The first this many columns must be there; their cells may be empty.
const REQUIRED: usize = 12;

// Characters of a cell that an error shows.
const SHOWN_MAX: usize = 40;

/// Audits a table of published results.
///
/// # Errors
/// The first thing that cannot be understood, with its line and column.
pub fn audit_table(bytes: impl Read) -> Result<AuditFindings, AuditError> {
    let guard = Guard::new(without_byte_order_mark(bytes).map_err(AuditError::Read)?);
    let lines = guard.row_lines();
    let next_line = move || lines.borrow_mut().pop_front().unwrap_or(1);
    let mut reader = ReaderBuilder::new().has_headers(false).from_reader(guard);
    let mut record = ByteRecord::new();
    if !reader.read_byte_record(&mut record).map_err(|error| audit_error(error, 1))? {
        return Err(AuditError::Empty);
    }
    let columns = columns(&record, next_line())?;
    let mut auditor = Auditor::new();
    let is_read = |name: &str| is_known(name) || latency_column(name).is_some();
    let unread: Vec<_> = columns.iter().filter(|name| !is_read(name)).cloned().collect();
    if !unread.is_empty() {
        auditor.note(format!("columns that were ignored: {}", unread.join(", ")));
    }
    let mut rows = 0_u64;
    loop {
        let read = reader.read_byte_record(&mut record);
        let line = next_line();
        if !read.map_err(|error| audit_error(error, line))? {
            break;
        }
        auditor.observe(claim(&columns, &record, line)?);
        rows += 1;
    }
    if rows == 0 { Err(AuditError::NoRow) } else { Ok(auditor.finish()) }
}

fn columns(header: &ByteRecord, line: u64) -> Result<Vec<String>, AuditError> {
    let mut columns: Vec<String> = Vec::new();
    for field in header {
        let name = text(field, line)?.trim().to_ascii_lowercase();
        if columns.contains(&name) && !name.is_empty() {
            return Err(AuditError::ColumnTwice { column: shown(&name) });
        }
        columns.push(name);
    }
    // fio's result is JSON, and easily given in place of a table.
    if columns.first().is_some_and(|first| first.starts_with(['{', '['])) {
        return Err(AuditError::Json);
    }
    let required = COLUMNS[..REQUIRED].iter().map(|(name, _)| *name);
    let missing: Vec<_> =
        required.filter(|name| !columns.iter().any(|column| column == name)).collect();
    match missing.is_empty() {
        true => Ok(columns),
        false => Err(AuditError::MissingColumns { missing: missing.join(", ") }),
    }
}

// Sources do not say which of a tool's numbers were printed. fio averages `iops avg` over samples
// of 500 ms and leaves out the last partial one, which is 0.8 % of a minute.
const TOLERANCE: f64 = 0.01;

fn claim(columns: &[String], record: &ByteRecord, line: u64) -> Result<Claim, AuditError> {
    let line_of = Some(ClaimPlace::Number(line));
    let mut claim = Claim { line: line_of, tolerance: TOLERANCE, ..Claim::default() };
    for (column, field) in columns.iter().zip(record) {
        let cell = text(field, line)?.trim();
        if cell.is_empty() {
            continue;
        }
        set(&mut claim, column, cell).map_err(|expected| AuditError::Cell {
            line,
            column: column.clone(),
            text: shown(cell),
            expected,
        })?;
    }
    for operations in [&mut claim.read, &mut claim.write, &mut claim.sync] {
        operations.percentiles_ns.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    describe(&mut claim);
    Ok(claim)
}

fn is_known(column: &str) -> bool {
    COLUMNS.iter().any(|(name, _)| *name == column)
}

fn set(claim: &mut Claim, column: &str, text: &str) -> CellResult<()> {
    if let Some((_, set)) = COLUMNS.iter().find(|(name, _)| *name == column) {
        return set(claim, text);
    }
    let Some((operation, latency)) = latency_column(column) else { return Ok(()) };
    let operations = match operation {
        "read" => &mut claim.read,
        "write" => &mut claim.write,
        _ => &mut claim.sync,
    };
    set_latency(operations, latency, text)
}

#[derive(Clone, Copy)]
enum LatencyColumn {
    Mean,
    Min,
    Max,
    Percentile(f64),
}

/// Operation and kind of `read_latency_us`, `write_latency_p99.9_us` and the like.
fn latency_column(column: &str) -> Option<(&str, LatencyColumn)> {
    let (operation, rest) = column.split_once("_latency_")?;
    let latency = match rest {
        "us" => LatencyColumn::Mean,
        "min_us" => LatencyColumn::Min,
        "max_us" => LatencyColumn::Max,
        _ => {
            let percent: f64 = rest.strip_prefix('p')?.strip_suffix("_us")?.parse().ok()?;
            LatencyColumn::Percentile(
                Some(percent).filter(|percent| (0.0..=100.0).contains(percent))?,
            )
        }
    };
    ["read", "write", "sync"].contains(&operation).then_some((operation, latency))
}

fn set_latency(operations: &mut Operations, latency: LatencyColumn, text: &str) -> CellResult<()> {
    let figure = cell::latency_ns(text)?;
    match latency {
        LatencyColumn::Mean => {
            operations.latency_ns_mean = Some(figure);
            operations.latency_has_unit = cell::written_unit(text).is_some();
        }
        LatencyColumn::Min => operations.latency_ns_min = Some(figure),
        LatencyColumn::Max => operations.latency_ns_max = Some(figure),
        LatencyColumn::Percentile(percent) => operations.percentiles_ns.push((percent, figure)),
    }
    Ok(())
}

fn text(field: &[u8], line: u64) -> Result<&str, AuditError> {
    std::str::from_utf8(field).map_err(|_| AuditError::NotText { line })
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

fn audit_error(error: csv::Error, line: u64) -> AuditError {
    match error.into_kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            AuditError::Fields { line, expected: expected_len, found: len }
        }
        // The guard's errors come back through the reader.
        ErrorKind::Io(error) => match error.downcast::<AuditError>() {
            Ok(error) => error,
            Err(error) => AuditError::Read(error),
        },
        other => AuditError::Read(std::io::Error::other(format!("{other:?}"))),
    }
}

// Far more than a row of results has; a row is held in memory whole.
pub(super) const ROW_MAX: usize = 1 << 20;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GuardState {
    FieldStart,
    Bare,
    Quoted,
    /// After a quote within quotes: their end, or the first of two that stand for one.
    QuoteInQuoted,
}

/// First lines of rows that were passed on, the oldest first.
pub(super) type RowLines = Rc<RefCell<VecDeque<u64>>>;

/// The bytes without a byte order mark, which spreadsheets write before a table.
pub(super) fn without_byte_order_mark(mut bytes: impl Read) -> io::Result<impl Read> {
    let mut first = Vec::new();
    bytes.by_ref().take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut first)?;
    if first == BYTE_ORDER_MARK {
        first.clear();
    }
    Ok(Cursor::new(first).chain(bytes))
}

/// A reader that fails where a table is broken.
#[derive(Debug)]
pub(super) struct Guard<R> {
    inner: R,
    state: GuardState,
    line: u64,
    opened: u64,
    row_line: u64,
    row_bytes: usize,
    in_row: bool,
    after_return: bool,
    rows: RowLines,
    ended: bool,
}

impl<R: Read> Guard<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            state: GuardState::FieldStart,
            line: 1,
            opened: 1,
            row_line: 1,
            row_bytes: 0,
            in_row: false,
            after_return: false,
            rows: RowLines::default(),
            ended: false,
        }
    }

    /// Filled while reading; the reader of a row must take the row's line.
    pub(super) fn row_lines(&self) -> RowLines {
        Rc::clone(&self.rows)
    }

    fn watch(&mut self, byte: u8) -> Result<(), AuditError> {
        // A table that was saved as UTF-16 has a zero in every letter of ASCII.
        if byte == 0 {
            return Err(AuditError::NotText { line: self.line });
        }
        self.row_bytes += 1;
        if self.row_bytes > ROW_MAX {
            return Err(AuditError::LongRow { line: self.row_line, limit: ROW_MAX });
        }
        self.state = match (self.state, byte) {
            (GuardState::FieldStart, b'"') => {
                self.opened = self.line;
                GuardState::Quoted
            }
            (GuardState::Quoted, b'"') => GuardState::QuoteInQuoted,
            (GuardState::Quoted, _) | (GuardState::QuoteInQuoted, b'"') => GuardState::Quoted,
            (_, b',' | b'\n' | b'\r') => GuardState::FieldStart,
            _ => GuardState::Bare,
        };
        match byte {
            b'\n' | b'\r' => self.end_line(byte),
            _ if !self.in_row => {
                self.in_row = true;
                self.row_line = self.line;
                self.rows.borrow_mut().push_back(self.line);
            }
            _ => {}
        }
        self.after_return = byte == b'\r';
        Ok(())
    }

    fn end_line(&mut self, byte: u8) {
        // A carriage return ends a line as well, together with a line feed that follows.
        if !(byte == b'\n' && self.after_return) {
            self.line += 1;
        }
        if self.state != GuardState::Quoted {
            self.in_row = false;
            self.row_bytes = 0;
        }
    }
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() && !self.ended {
            self.ended = true;
            if self.state == GuardState::Quoted {
                return Err(io::Error::other(AuditError::OpenQuote { line: self.opened }));
            }
        }
        for &byte in buffer.iter().take(count) {
            self.watch(byte).map_err(io::Error::other)?;
        }
        Ok(count)
    }
}

/// Why a table of results could not be read.
#[derive(Debug, Error)]
pub enum AuditError {
    #[error("reading failed")]
    Read(#[source] io::Error),
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// There is a header and nothing below.
    #[error("the table has a header and no row")]
    NoRow,
    /// Bytes that are not UTF-8.
    #[error("line {line} is not text in UTF-8")]
    NotText {
        /// From 1; the header is line 1.
        line: u64,
    },
    /// A JSON document where a table should be.
    #[error("the file is JSON, not a table")]
    Json,
    /// Columns that every table of results has.
    #[error("the header lacks the columns {missing}")]
    MissingColumns {
        /// Names of columns, with commas.
        missing: String,
    },
    /// A column is there twice.
    #[error("the header has the column '{column}' twice")]
    ColumnTwice { column: String },
    /// A cell that cannot be understood.
    #[error("line {line}, column {column}: '{text}' is not a {expected}")]
    Cell {
        /// From 1; the header is line 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// The first [`SHOWN_MAX`] characters of the cell.
        text: String,
        expected: &'static str,
    },
    /// A row with more or fewer fields than the header.
    #[error("line {line} has {found} fields, the header has {expected}")]
    Fields {
        /// From 1; the header is line 1.
        line: u64,
        /// Fields of the header.
        expected: u64,
        /// Fields of the row.
        found: u64,
    },
    /// The file ends within quotes.
    #[error("the quote that is opened in line {line} is never closed")]
    OpenQuote {
        /// From 1; the header is line 1.
        line: u64,
    },
    /// A row that no table of results has.
    #[error("the row that begins in line {line} has more than {limit} bytes")]
    LongRow {
        /// From 1; the header is line 1.
        line: u64,
        /// Bytes that a row may have.
        limit: usize,
    },
}

impl AuditError {
    /// What to do about it.
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
                "the first line names the columns; leave the cells of unknown values empty"
            }
            Self::ColumnTwice { .. } => "rename or remove one of them",
            Self::Cell { .. } => "correct the cell, or leave it empty if the value is unknown",
            Self::Fields { .. } => "put fields that have commas in them between double quotes",
            Self::OpenQuote { .. } => "close the quote; the file may have been cut off",
            Self::LongRow { .. } => "check whether a quote is missing, and whether it is a table",
        }
    }
}

#[cfg(test)]
mod column_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_forty_characters_of_a_cell() {
        let long = "ä".repeat(40);
        assert_eq!(shown(&long), long);
        assert_eq!(shown(&format!("{long}b")), format!("{long}…"));
    }

    fn through(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let read = Guard::new(without_byte_order_mark(bytes).unwrap()).read_to_end(&mut out);
        read.map(|_| out).map_err(|error| error.to_string())
    }

    #[test]
    fn sound_tables_pass_unchanged() {
        for text in ["", "a", "a,b\n", "\"a\",\"b\"\"c\"\r\n", "3.5\" disk,x\n", "\"a\nb\",c"] {
            assert_eq!(through(text.as_bytes()).unwrap(), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_start_only() {
        assert_eq!(through("\u{feff}a".as_bytes()).unwrap(), b"a");
        assert_eq!(through("a\u{feff}".as_bytes()).unwrap(), "a\u{feff}".as_bytes());
        assert_eq!(through(&[0xef, 0xbb]).unwrap(), [0xef, 0xbb]);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_named_with_its_line() {
        assert!(through(b"a,b\nc,\"d\ne\nf").unwrap_err().contains("line 2"));
        assert!(through(b"a,\"d\"\"").unwrap_err().contains("line 1"));
    }

    #[test]
    fn rows_are_known_by_the_line_in_which_they_begin() {
        let text = "a,b\n\n\"c\n\nd\",e\r\nf,g\rh,i\r\n\r\nj";
        let mut guard = Guard::new(text.as_bytes());
        guard.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(*guard.row_lines().borrow(), [1, 3, 6, 7, 9]);
    }

    #[test]
    fn a_zero_byte_and_a_row_without_end_are_refused() {
        assert!(through(b"a\nb\0c").unwrap_err().contains("line 2"));
        let long = vec![b'x'; ROW_MAX + 1];
        assert!(through(&long).unwrap_err().contains("line 1"));
        assert!(through(&[b"a\n".as_slice(), &long[..ROW_MAX]].concat()).is_ok());
    }
}
