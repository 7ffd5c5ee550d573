//! fio's logs, `_bw.1.log` and its like: a line per interval and direction.
//!
//! From the series of loads and the requested logs come names and text. A line is the time in ms
//! since the end of the ramp, the value, 0 for reads or 1 for writes, the size of accesses (0 where
//! the line is about many, as in fio), and 0 for the offset. Values are KiB per second, accesses
//! per second, or the mean latency in ns. Unlike fio's, a log has a line of 0 for an interval in
//! which nothing completed, so that a stall is seen.

use std::fmt::Write as _;

use durio_analyse::{Findings, IntervalPoint, KeptInterval, WorkloadFindings};
use durio_fio::import::{LogKind, LogRequest};
use durio_record::{OperationName, Phase};

use super::workload_at;

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
