//! A table of results, as CSV, to claims.
//!
//! In: bytes with a header line; columns in any order. Out: findings. Not here: rules. One row is in
//! memory at a time, besides those that are compared.
//!
//! The columns of `durio-compare/data/published-results.csv` must be there, but `note`. These may be: `engine`,
//! `direct`, `paced`, `runtime`, `size`, `memory`, `target`, `preconditioned`, `idle`, `syncs`,
//! `sync_latency_us`, and for read, write and sync `_latency_min_us`, `_latency_max_us` and
//! percentiles as `_latency_p99.9_us`. Others are named in a note and not read.

use std::io::Read;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::auditor::Auditor;
use super::cell::{self, Cell};
use super::guard::Guard;
use super::phrases::describe;
use super::{AuditError, AuditFindings, Claim, Line, Operations};

/// Columns that must be there; their cells may be empty.
const REQUIRED: [&str; 12] = [
    "source",
    "stack",
    "workload",
    "block_size",
    "jobs",
    "iodepth",
    "durable",
    "read_iops",
    "read_latency_us",
    "write_iops",
    "write_latency_us",
    "bandwidth_mb_s",
];

/// Characters of a cell that an error shows.
const SHOWN_MAX: usize = 40;

/// Audits a table of published results.
///
/// # Errors
/// The first thing that cannot be understood, with its line and column.
pub fn audit_table(bytes: impl Read) -> Result<AuditFindings, AuditError> {
    let guard = Guard::new(bytes);
    let lines = guard.row_lines();
    let next_line = move || lines.borrow_mut().pop_front().unwrap_or(1);
    let mut reader = ReaderBuilder::new().has_headers(false).from_reader(guard);
    let mut record = ByteRecord::new();
    if !reader.read_byte_record(&mut record).map_err(|it| error(it, 1))? {
        return Err(AuditError::Empty);
    }
    let columns = columns(&record, next_line())?;
    let mut auditor = Auditor::new();
    let unread: Vec<_> = columns.iter().filter(|name| !is_read(name)).cloned().collect();
    if !unread.is_empty() {
        auditor.note(format!("columns that were not looked at: {}", unread.join(", ")));
    }
    let mut rows = 0_u64;
    loop {
        let read = reader.read_byte_record(&mut record);
        let line = next_line();
        if !read.map_err(|it| error(it, line))? {
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
    if columns.first().is_some_and(|first| first.starts_with(['{', '['])) {
        return Err(AuditError::Json);
    }
    let missing: Vec<_> =
        REQUIRED.into_iter().filter(|name| !columns.iter().any(|it| it == name)).collect();
    match missing.is_empty() {
        true => Ok(columns),
        false => Err(AuditError::MissingColumns { missing: missing.join(", ") }),
    }
}

/// Nobody says which of a tool's figures were printed. fio averages `iops avg` over samples of 500 ms
/// and leaves out the last that is not full, which is 0.8 % of a minute.
const TOLERANCE: f64 = 0.01;

fn claim(columns: &[String], record: &ByteRecord, line: u64) -> Result<Claim, AuditError> {
    let line_of = Some(Line::Number(line));
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

/// True for columns that [`set`] takes.
fn is_read(column: &str) -> bool {
    let named =
        ["note", "engine", "direct", "runtime", "size", "memory", "target", "preconditioned"];
    let more = ["idle", "syncs", "paced"];
    REQUIRED.contains(&column)
        || named.contains(&column)
        || more.contains(&column)
        || latency_column(column).is_some()
}

/// Puts a cell into its field.
fn set(claim: &mut Claim, column: &str, text: &str) -> Cell<()> {
    match column {
        "source" => text.clone_into(&mut claim.source),
        "stack" => text.clone_into(&mut claim.stack),
        "workload" => text.clone_into(&mut claim.workload),
        "durable" => text.clone_into(&mut claim.durable),
        "note" => text.clone_into(&mut claim.note),
        "block_size" => claim.block_size = Some(cell::size(text)?),
        "jobs" => claim.jobs = Some(cell::count(text)?),
        "iodepth" => claim.depth = Some(cell::count(text)?),
        "read_iops" => claim.read.rate = Some(cell::rate(text)?),
        "write_iops" => claim.write.rate = Some(cell::rate(text)?),
        "bandwidth_mb_s" => claim.bandwidth = Some(cell::bandwidth(text)?),
        "engine" => claim.engine = Some(text.to_owned()),
        "direct" => claim.buffered = Some(!cell::yes_no(text)?),
        "paced" => claim.paced = cell::yes_no(text)?,
        "runtime" => claim.runtime = Some(cell::duration(text)?),
        "size" => claim.size = Some(cell::size(text)?),
        "memory" => claim.memory = Some(cell::size(text)?),
        "target" => claim.target = Some(text.to_owned()),
        "preconditioned" => claim.preconditioned = Some(cell::yes_no(text)?),
        "idle" => claim.idle = Some(cell::duration(text)?),
        "syncs" => claim.sync.count = Some(text.parse().map_err(|_| "whole number")?),
        _ => return set_latency(claim, column, text),
    }
    Ok(())
}

enum LatencyKind {
    Mean,
    Min,
    Max,
    Percentile(f64),
}

/// Operation and kind of `read_latency_us`, `write_latency_p99.9_us` and the like.
fn latency_column(column: &str) -> Option<(&str, LatencyKind)> {
    let (operation, rest) = column.split_once("_latency_")?;
    if !["read", "write", "sync"].contains(&operation) {
        return None;
    }
    let kind = match rest {
        "us" => LatencyKind::Mean,
        "min_us" => LatencyKind::Min,
        "max_us" => LatencyKind::Max,
        _ => {
            let percent: f64 = rest.strip_prefix('p')?.strip_suffix("_us")?.parse().ok()?;
            LatencyKind::Percentile(percent).in_range()?
        }
    };
    Some((operation, kind))
}

impl LatencyKind {
    fn in_range(self) -> Option<Self> {
        match self {
            Self::Percentile(percent) if !(0.0..=100.0).contains(&percent) => None,
            kind => Some(kind),
        }
    }
}

fn set_latency(claim: &mut Claim, column: &str, text: &str) -> Cell<()> {
    let Some((operation, kind)) = latency_column(column) else { return Ok(()) };
    let operations: &mut Operations = match operation {
        "read" => &mut claim.read,
        "write" => &mut claim.write,
        _ => &mut claim.sync,
    };
    let figure = cell::latency_ns(text)?;
    match kind {
        LatencyKind::Mean => operations.latency_ns_mean = Some(figure),
        LatencyKind::Min => operations.latency_ns_min = Some(figure),
        LatencyKind::Max => operations.latency_ns_max = Some(figure),
        LatencyKind::Percentile(percent) => operations.percentiles_ns.push((percent, figure)),
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

fn error(error: csv::Error, line: u64) -> AuditError {
    match error.into_kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            AuditError::Fields { line, expected: expected_len, found: len }
        }
        ErrorKind::Io(error) => match error.downcast::<AuditError>() {
            Ok(error) => error,
            Err(error) => AuditError::Read(error),
        },
        other => AuditError::Read(std::io::Error::other(format!("{other:?}"))),
    }
}
