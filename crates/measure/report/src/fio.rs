//! Findings as fio writes its results, for programs and scripts that read those.
//!
//! Takes findings of an analyser that keeps histograms, and for [`write_fio`] also the rows and
//! formats that fio would print. Writes the document of fio 3.33 (json, json+), its terse lines,
//! its text for people, and the lines of its logs.
//!
//! Reads, writes and syncs have fio's meaning: `lat_ns` is durio's service latency, `slat_ns` its
//! submit and `clat_ns` its completion latency, or all of it where a call blocks. The time of
//! O_DSYNC and the like is in the write, that of fsync and fdatasync in `sync`.
//!
//! Left out, because fio has no place for it: commits (a write and its sync as one number), the
//! response latency of open loops (from the intended start; `clat` begins with the real one),
//! returns of log segments, verdicts and warnings. Anything that durio does not count is 0 (page
//! faults, short and dropped I/O), and anything it counts only in the mean lies at the mean
//! (`iodepth_level`, `iodepth_submit`, `iodepth_complete`).

mod job;
mod options;
mod rows;

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, SystemTime};

use durio_analyse::{Findings, IntervalPoint, KeptInterval, WorkloadFindings};
use durio_base::visible_lines;
use durio_fio::import::{LogKind, LogRequest, ResultRow, ResultShape, StreamPlace};
use durio_fio::job_file::{OutputFormat, PrintSettings};
use durio_fio::json::{DiskCounters, DiskUtil, FioOutput, OptionPairs};
use durio_fio::normal::RowFacts;
use durio_fio::{normal, terse};
use durio_observe::DeviceCounters;
use durio_record::{FolderName, OperationName, Phase};

use crate::figures::{grouped, precise};

/// The version in the results: a parser finds the fio whose format it is, a reader learns which
/// program wrote it.
pub fn fio_version(durio_version: &str) -> String {
    format!("fio-3.33-durio-{durio_version}")
}

/// What fio would print.
#[derive(Debug, Clone)]
pub struct FioRequest<'a> {
    /// The rows, and the loads in each.
    pub shape: &'a ResultShape,
    /// The options of global sections.
    pub global_options: OptionPairs,
    /// The formats, in the order of the command line.
    pub printing: &'a PrintSettings,
    /// Whether a text begins with the lines about the jobs; results after the first have none.
    pub has_head: bool,
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
    // fio knows no rounds: those before the last led to the state that the last one shows.
    let last = |workload: &&WorkloadFindings| {
        let same = |other: &&WorkloadFindings| {
            other.step == workload.step && other.stream == workload.stream
        };
        findings.workloads.iter().filter(same).all(|other| other.round <= workload.round)
    };
    let workloads = findings.workloads.iter().filter(last);
    let output = FioOutput {
        version: fio_version(&findings.run.durio_version),
        time: Some(findings.run.started.clone()),
        jobs: (0..).zip(workloads).map(|(number, load)| job::job(findings, number, load)).collect(),
        ..FioOutput::default()
    };
    out.write_all(durio_fio::json::write(&output).as_bytes())
}

/// Writes fio's output, in all the requested formats, in fio's order.
///
/// # Errors
/// The writer's errors.
pub fn write_fio(
    findings: &Findings,
    request: &FioRequest<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let whole = document(findings, request);
    let mut formats = request.printing.formats.clone();
    // fio prints them in a fixed order, whatever --output-format lists first.
    formats.sort();
    if request.has_head && request.printing.is_for_people() {
        let heads: Vec<_> =
            request.shape.jobs.iter().filter_map(|job| options::head(findings, job)).collect();
        // Job names and paths are of other hands; fio prints them as they are.
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

// Those that fio's terse lines have of each row, also where nothing was measured.
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
    // fio counts a started second (eta.c).
    let elapsed = request.elapsed.as_millis().div_ceil(1000);
    FioOutput {
        version: fio_version(&findings.run.durio_version),
        timestamp: Some(since.as_secs()),
        timestamp_ms: u64::try_from(since.as_millis()).ok(),
        time: Some(of_day(request.now)),
        global_options: request.global_options.clone(),
        jobs: rows::jobs(findings, request.shape, u64::try_from(elapsed).unwrap_or(u64::MAX)),
        disk_util: request.shape.shows_disks.then(|| disks(findings)).flatten(),
        ..FioOutput::default()
    }
}

fn facts(request: &FioRequest<'_>) -> Vec<RowFacts> {
    let of = |copies| RowFacts { copies, process: request.process };
    request.shape.rows.iter().map(|row| of(row.copies)).collect()
}

/// The findings of a load; none if the run ended before it.
fn workload_at(findings: &Findings, place: StreamPlace) -> Option<&WorkloadFindings> {
    findings
        .workloads
        .iter()
        .find(|workload| workload.step == place.step && workload.stream == place.stream)
}

/// `disk_util`: the counters of the lowest block devices; none without counters of the kernel, as
/// in fio.
fn disks(findings: &Findings) -> Option<Vec<DiskUtil>> {
    let measured = findings.workloads.iter();
    // fio counts from the start of the first job to the end of the last.
    let whole: u64 = measured
        .clone()
        .filter(|workload| workload.stream == 0)
        .map(|workload| workload.measured.get())
        .sum();
    let counted =
        measured.flat_map(|workload| &workload.devices).filter(|device| !device.not_counted);
    let disk = |(name, counters): (&String, Vec<&DeviceCounters>)| {
        let sum = |counter: fn(&DeviceCounters) -> u64| {
            counters.iter().map(|device| counter(device)).sum::<u64>()
        };
        let own = DiskCounters {
            read_ios: sum(|device| device.reads_completed),
            write_ios: sum(|device| device.writes_completed),
            read_merges: sum(|device| device.reads_merged),
            write_merges: sum(|device| device.writes_merged),
            read_ticks: sum(|device| device.read_ms),
            write_ticks: sum(|device| device.write_ms),
            in_queue: sum(|device| device.weighted_io_ms),
            util: share(sum(|device| device.io_ms), whole),
            ..DiskCounters::default()
        };
        DiskUtil { name: name.clone(), own, ..DiskUtil::default() }
    };
    let disks: Vec<_> =
        grouped(counted.map(|device| (&device.name, device))).into_iter().map(disk).collect();
    (!disks.is_empty()).then_some(disks)
}

fn share(busy_ms: u64, whole_ns: u64) -> f64 {
    match whole_ns {
        0 => 0.0,
        // The kernel counts busy time in whole ticks, whose sum may exceed the time measured.
        _ => (100.0 * precise(busy_ms) * 1e6 / precise(whole_ns)).min(100.0),
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
// The first of 1970 was a Thursday.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const SECONDS_PER_DAY: u64 = 86_400;

/// As ctime(3) has it, `Sun Nov 22 10:16:31 2026`; in UTC, where fio has the local time.
fn of_day(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let day = usize::try_from(since.as_secs() / SECONDS_PER_DAY % 7).unwrap_or(0);
    let day = DAYS.get(day).copied().unwrap_or_default();
    // 2026-11-22T10:16:31.000Z
    let text = FolderName::rfc3339(time);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let number = |range| part(range).parse::<usize>().unwrap_or(0);
    let month = MONTHS.get(number(5..7).saturating_sub(1)).copied().unwrap_or_default();
    format!("{day} {month} {:2} {} {}", number(8..10), part(11..19), part(0..4))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioLog {
    pub name: String,
    /// Every line of the file.
    pub text: String,
}

/// The logs that are asked for; copies that share a file stand in it one after the other.
pub fn fio_logs(findings: &Findings, requests: &[LogRequest]) -> Vec<FioLog> {
    let mut logs: Vec<FioLog> = Vec::new();
    for request in requests {
        let Some(workload) = workload_at(findings, request.place) else { continue };
        for (kind, text) in texts(workload, request) {
            let number = request.number.map_or_else(String::new, |number| format!(".{number}"));
            let name = format!("{}_{kind}{number}.log", request.prefix);
            match logs.iter_mut().find(|log| log.name == name) {
                Some(log) => log.text.push_str(&text),
                None => logs.push(FioLog { name, text }),
            }
        }
    }
    logs
}

/// Whether a log of latencies is asked for of an engine whose submit and completion latencies have
/// no series, only totals: fio's `_slat` and `_clat` are not written then.
pub fn has_unrecorded_parts(findings: &Findings, requests: &[LogRequest]) -> bool {
    let of_latency = requests.iter().filter(|request| request.kind == LogKind::Latency);
    let mut workloads = of_latency.filter_map(|request| workload_at(findings, request.place));
    workloads.any(has_parts)
}

fn has_parts(workload: &WorkloadFindings) -> bool {
    workload.operations.iter().any(|operation| operation.submit.is_some())
}

fn texts(workload: &WorkloadFindings, request: &LogRequest) -> Vec<(&'static str, String)> {
    let text = || lines(workload, request);
    match request.kind {
        LogKind::Bandwidth => vec![("bw", text())],
        LogKind::Rate => vec![("iops", text())],
        LogKind::Latency if has_parts(workload) => vec![("lat", text())],
        // A call that blocks is all completion, and fio's log of submissions is empty.
        LogKind::Latency => vec![("lat", text()), ("clat", text()), ("slat", String::new())],
    }
}

fn lines(workload: &WorkloadFindings, request: &LogRequest) -> String {
    let is_measured = |interval: &&IntervalPoint| interval.phase == Phase::Measure;
    let start = workload.intervals.iter().find(is_measured).map_or(0, |first| first.from.get());
    let definition = &workload.definition;
    let directions = [
        (0, OperationName::Read, definition.reads()),
        (1, OperationName::Write, definition.writes()),
    ];
    let size = if request.is_averaged { 0 } else { definition.block_size.get() };
    let mut text = String::new();
    // A line does not say how long its interval was: one cut short would pass for a whole one.
    for point in
        workload.intervals.iter().filter(is_measured).filter(|interval| !interval.cut_short)
    {
        let time = point.to.get().saturating_sub(start).div_ceil(1_000_000);
        for (number, operation, _) in directions.into_iter().filter(|(_, _, is_done)| *is_done) {
            let kept = point.kept.iter().find(|kept| kept.operation == operation);
            if let Some(value) = value(request.kind, point, kept) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{time}, {value}, {number}, {size}, 0");
            }
        }
    }
    text
}

fn value(kind: LogKind, point: &IntervalPoint, kept: Option<&KeptInterval>) -> Option<u64> {
    let span = point.to.saturating_sub(point.from).get();
    let per_second = |count: u64| {
        let scaled = u128::from(count) * 1_000_000_000;
        scaled.checked_div(u128::from(span)).and_then(|rate| u64::try_from(rate).ok())
    };
    match kind {
        LogKind::Bandwidth => {
            per_second(kept.map_or(0, |kept| kept.bytes)).map(|bytes| bytes >> 10)
        }
        LogKind::Rate => per_second(kept.map_or(0, |kept| kept.count)),
        LogKind::Latency => kept.and_then(|kept| kept.service_ns.checked_div(kept.count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_ctime_writes_them() {
        let at = |seconds| of_day(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        // date -u -d @N '+%a %b %e %H:%M:%S %Y'
        assert_eq!(at(1_795_342_591), "Sun Nov 22 10:16:31 2026");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
    }
}
