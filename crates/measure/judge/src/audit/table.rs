//! A table of results, as CSV, to claims.
//!
//! The input is bytes with a header line; columns may be in any order. Memory holds one row at a
//! time, plus the rows that are compared.
//!
//! The columns of `measure/judge/data/published-results.csv` must be there, except `note`. Optional
//! are the others of [`COLUMNS`], `sync_latency_us`, and for read, write and sync `_latency_min_us`,
//! `_latency_max_us` and percentiles as `_latency_p99.9_us`. Any other is named in a note and ignored.

use std::io::Read;

use csv::{ByteRecord, ErrorKind, ReaderBuilder};

use super::auditor::Auditor;
use super::cell::{self, CellResult};
use super::guard::{Guard, without_byte_order_mark};
use super::phrases::describe;
use super::{AuditError, AuditFindings, Claim, ClaimPlace, Operations};

/// Puts a cell into its field.
type CellSetter = fn(&mut Claim, &str) -> CellResult<()>;

/// The columns but those of latencies other than the mean, and what takes their cells.
const COLUMNS: [(&str, CellSetter); 23] = [
    ("source", |claim, text| put(&mut claim.source, text)),
    ("stack", |claim, text| put(&mut claim.stack, text)),
    ("workload", |claim, text| put(&mut claim.workload, text)),
    ("block_size", |claim, text| cell::size(text).map(|it| claim.block_size = Some(it))),
    ("jobs", |claim, text| cell::count(text).map(|it| claim.jobs = Some(it))),
    ("iodepth", |claim, text| cell::count(text).map(|it| claim.depth = Some(it))),
    ("durable", |claim, text| put(&mut claim.durable, text)),
    ("read_iops", |claim, text| set_rate(&mut claim.read, text)),
    ("read_latency_us", |claim, text| set_latency(&mut claim.read, LatencyColumn::Mean, text)),
    ("write_iops", |claim, text| set_rate(&mut claim.write, text)),
    ("write_latency_us", |claim, text| set_latency(&mut claim.write, LatencyColumn::Mean, text)),
    ("bandwidth_mb_s", set_bandwidth),
    ("note", |claim, text| put(&mut claim.note, text)),
    ("engine", |claim, text| put(claim.engine.get_or_insert_default(), text)),
    ("direct", |claim, text| cell::yes_no(text).map(|it| claim.buffered = Some(!it))),
    ("paced", |claim, text| cell::yes_no(text).map(|it| claim.paced = it)),
    ("runtime", |claim, text| cell::duration(text).map(|it| claim.runtime = Some(it))),
    ("size", |claim, text| cell::size(text).map(|it| claim.size = Some(it))),
    ("memory", |claim, text| cell::size(text).map(|it| claim.memory = Some(it))),
    ("target", |claim, text| put(claim.target.get_or_insert_default(), text)),
    ("preconditioned", |claim, text| cell::yes_no(text).map(|it| claim.preconditioned = Some(it))),
    ("idle", |claim, text| cell::duration(text).map(|it| claim.idle = Some(it))),
    ("syncs", |claim, text| {
        text.parse().map(|it| claim.sync.count = Some(it)).map_err(|_| "whole number")
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
    if !reader.read_byte_record(&mut record).map_err(|it| error(it, 1))? {
        return Err(AuditError::Empty);
    }
    let columns = columns(&record, next_line())?;
    let mut auditor = Auditor::new();
    let is_read = |name: &str| is_known(name) || latency_column(name).is_some();
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
    // fio's result is JSON, and easily given in place of a table.
    if columns.first().is_some_and(|first| first.starts_with(['{', '['])) {
        return Err(AuditError::Json);
    }
    let required = COLUMNS[..REQUIRED].iter().map(|(name, _)| *name);
    let missing: Vec<_> = required.filter(|name| !columns.iter().any(|it| it == name)).collect();
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
            LatencyColumn::Percentile(Some(percent).filter(|it| (0.0..=100.0).contains(it))?)
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

fn error(error: csv::Error, line: u64) -> AuditError {
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

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn an_error_shows_forty_characters_of_a_cell() {
        let long = "ä".repeat(40);
        assert_eq!(shown(&long), long);
        assert_eq!(shown(&format!("{long}b")), format!("{long}…"));
    }
}
