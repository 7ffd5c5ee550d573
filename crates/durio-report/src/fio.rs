//! Findings as fio writes its results, for programs and scripts that read those.
//!
//! In: findings, of an analyser that keeps histograms; for [`write_fio`] also which rows and formats
//! fio would print. Out: the document of fio 3.33 (json, json+), its terse lines, its text for
//! people; the lines of its logs.
//!
//! Reads, writes and syncs have fio's meaning: `lat_ns` is durio's service latency, `slat_ns` its
//! submit and `clat_ns` its completion latency, or all of it where a call blocks. What O_DSYNC and
//! its like take is in the write, what fsync and fdatasync take is in `sync`.
//!
//! Not here, because fio has no place for it: commits (a write and its sync as one figure), the
//! response latency of open loops (from the intended start; `clat` begins with the real one),
//! returns of log segments, verdicts and warnings. What durio does not count is 0 (page faults,
//! short and dropped I/O), and what it counts only in the mean lies at the mean (`iodepth_level`,
//! `iodepth_submit`, `iodepth_complete`).

mod disks;
mod job;
mod latency;
mod logs;
mod merge;
mod options;
mod rows;
mod time;

use std::io;
use std::time::{Duration, SystemTime};

use durio_analyse::{Findings, WorkloadFindings};
use durio_fio::import::{ResultRow, ResultShape, StreamPlace};
use durio_fio::job_file::{OutputFormat, PrintSettings};
use durio_fio::json::{FioOutput, Options};
use durio_fio::normal::RowFacts;
use durio_fio::{normal, terse};

use crate::visible::visible_lines;

pub use logs::{FioLog, fio_logs, has_unrecorded_parts};

/// The version that results say they are of: whoever parses it finds the fio whose format it is,
/// whoever looks at it learns who wrote it.
#[must_use]
pub fn fio_version(durio_version: &str) -> String {
    format!("fio-3.33-durio-{durio_version}")
}

/// What fio would print.
#[derive(Debug, Clone)]
pub struct FioRequest<'a> {
    /// The rows.
    pub shape: &'a ResultShape,
    /// The options of global sections.
    pub global_options: Options,
    /// The formats.
    pub printing: &'a PrintSettings,
    /// When it is printed.
    pub now: SystemTime,
    /// How long the program has been running.
    pub elapsed: Duration,
    /// The number of its process.
    pub process: u32,
}

/// [`crate::Format::FioJson`]: a job per load of the last round, without preconditioning, with every
/// histogram.
pub(crate) fn write_json(findings: &Findings, out: &mut dyn io::Write) -> io::Result<()> {
    let last = |it: &&WorkloadFindings| {
        let same = |other: &&WorkloadFindings| other.step == it.step && other.stream == it.stream;
        findings.workloads.iter().filter(same).all(|other| other.round <= it.round)
    };
    let workloads = findings.workloads.iter().filter(last);
    let output = FioOutput {
        version: fio_version(&findings.run.durio_version),
        time: Some(findings.run.started.clone()),
        jobs: (0..).zip(workloads).map(|(number, it)| job::job(findings, number, it)).collect(),
        ..FioOutput::default()
    };
    out.write_all(durio_fio::json::write(&output).as_bytes())
}

/// Writes what fio would print, in all the formats that are asked for, in fio's order.
///
/// # Errors
/// What the writer says.
pub fn write_fio(
    findings: &Findings,
    request: &FioRequest<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let whole = document(findings, request);
    let mut formats = request.printing.formats.clone();
    formats.sort();
    if request.printing.is_for_people() {
        let heads: Vec<_> =
            request.shape.jobs.iter().filter_map(|it| options::head(findings, it)).collect();
        out.write_all(visible_lines(&normal::head(&whole.version, &heads)).as_bytes())?;
    }
    for format in formats {
        let text = match format {
            OutputFormat::Terse => visible_lines(&terse::write(
                &whole,
                request.printing.terse_version,
                &percentiles(request.shape),
            )),
            OutputFormat::Json => durio_fio::json::write(&rows::without_bins(whole.clone())),
            OutputFormat::JsonPlus => durio_fio::json::write(&whole),
            OutputFormat::Normal => visible_lines(&normal::write(&whole, &facts(request))),
        };
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Those that fio's terse lines have of each row, also where nothing was measured.
fn percentiles(shape: &ResultShape) -> Vec<Vec<f64>> {
    let shows_some = |row: &ResultRow| row.percentiles.completion || row.percentiles.total;
    let list = |row: &ResultRow| match shows_some(row) {
        true => row.percentiles.list.clone(),
        false => Vec::new(),
    };
    shape.rows.iter().map(list).collect()
}

fn document(findings: &Findings, request: &FioRequest<'_>) -> FioOutput {
    let since = request.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let elapsed = request.elapsed.as_millis().div_ceil(1000);
    FioOutput {
        version: fio_version(&findings.run.durio_version),
        timestamp: Some(since.as_secs()),
        timestamp_ms: u64::try_from(since.as_millis()).ok(),
        time: Some(time::of_day(request.now)),
        global_options: request.global_options.clone(),
        jobs: rows::jobs(findings, request.shape, u64::try_from(elapsed).unwrap_or(u64::MAX)),
        disk_util: request.shape.shows_disks.then(|| disks::disks(findings)).flatten(),
        ..FioOutput::default()
    }
}

fn facts(request: &FioRequest<'_>) -> Vec<RowFacts> {
    let of = |copies| RowFacts { copies, process: request.process };
    request.shape.rows.iter().map(|row| of(row.copies)).collect()
}

/// The findings of a load; none if the run ended before it.
fn workload_at(findings: &Findings, place: StreamPlace) -> Option<&WorkloadFindings> {
    findings.workloads.iter().find(|it| it.step == place.step && it.stream == place.stream)
}
