//! Findings as fio writes its results (json+), for programs that read those.
//!
//! In: findings, best of an analyser that keeps histograms. Out: the document of fio 3.33, one job
//! per step and load, of the last round and without preconditioning.
//!
//! Reads, writes and syncs have fio's meaning: `lat_ns` is durio's service latency, `slat_ns` its
//! submit and `clat_ns` its completion latency, or all of it where a call blocks. What O_DSYNC and
//! its like take is in the write, what fsync and fdatasync take is in `sync`.
//!
//! Not here, because fio has no place for it: commits (a write and its sync as one figure), the
//! response latency of open loops (from the intended start; `clat` begins with the real one),
//! returns of log segments, verdicts and warnings, and the series over time. Where findings have
//! no histograms, `bins` and `stddev` are absent or 0 and percentiles come from the curve.

mod latency;
mod options;

use std::io;

use durio_analyse::{Findings, OperationFindings, WorkloadFindings};
use durio_fio::json::{Direction, FioJob, FioOutput, LatencyShares, SyncSection};
use durio_record::{OperationName, Phase};
use durio_units::Nanos;

pub(crate) fn write(findings: &Findings, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(durio_fio::json::write(&document(findings)).as_bytes())
}

fn document(findings: &Findings) -> FioOutput {
    let last = |it: &&WorkloadFindings| {
        let same = |other: &&WorkloadFindings| other.step == it.step && other.stream == it.stream;
        findings.workloads.iter().filter(same).all(|other| other.round <= it.round)
    };
    let workloads = findings.workloads.iter().filter(last);
    FioOutput {
        // Whoever looks at it learns who wrote it; whoever parses it finds no old fio.
        version: format!("durio-{} (as fio-3.33)", findings.run.durio_version),
        time: Some(findings.run.started.clone()),
        jobs: (0..).zip(workloads).map(|(number, it)| job(findings, number, it)).collect(),
        ..FioOutput::default()
    }
}

fn job(findings: &Findings, number: u64, workload: &WorkloadFindings) -> FioJob {
    let direction = |name| direction(workload, workload.operation(name));
    let sync = workload.operation(OperationName::Sync);
    let sync =
        sync.map(|it| SyncSection { total_ios: it.service.count, lat_ns: latency::service(it) });
    let jobs = f64::from(workload.effective.jobs.max(1));
    let (read, write) = (direction(OperationName::Read), direction(OperationName::Write));
    FioJob {
        jobname: workload.name.clone(),
        groupid: number,
        error: i64::from(!workload.complete),
        elapsed: Some(workload.measured.get() / 1_000_000_000),
        options: Some(options::options(findings, workload)),
        latency: LatencyShares::from_counts(
            read.clat_ns.bins.iter().chain(write.clat_ns.bins.iter()),
        ),
        iodepth_level: depth_level(workload),
        read: Some(read),
        write: Some(write),
        trim: Some(Direction::default()),
        sync: Some(sync.unwrap_or_default()),
        job_runtime: Some(milliseconds(workload.measured)),
        usr_cpu: finite(100.0 * workload.cpu.user_cores / jobs),
        sys_cpu: finite(100.0 * workload.cpu.system_cores / jobs),
        ..FioJob::default()
    }
}

fn direction(workload: &WorkloadFindings, operation: Option<&OperationFindings>) -> Direction {
    let Some(it) = operation else { return Direction::default() };
    let bandwidth = whole(it.bandwidth);
    let mut direction = Direction {
        io_bytes: whole(it.bandwidth * seconds(workload.measured)),
        bw_bytes: bandwidth,
        bw: bandwidth >> 10,
        iops: finite(it.rate),
        runtime: milliseconds(workload.measured),
        total_ios: it.service.count,
        slat_ns: latency::submit(it),
        clat_ns: latency::completion(it),
        lat_ns: latency::service(it),
        bw_agg: 100.0,
        ..Direction::default()
    };
    sample(workload, it, &mut direction);
    direction
}

/// fio's samples of rate and bandwidth, from durio's intervals: of whole ones of the measured phase,
/// and only where all accesses are of one kind, for the intervals do not tell reads from writes.
fn sample(workload: &WorkloadFindings, operation: &OperationFindings, direction: &mut Direction) {
    let is_mixed = workload.definition.reads() && workload.definition.writes();
    let measured = workload.intervals.iter().filter(|it| it.phase == Phase::Measure);
    let rates: Vec<f64> =
        measured.filter(|it| !it.cut_short && it.rate.is_finite()).map(|it| it.rate).collect();
    if is_mixed || rates.is_empty() || operation.rate <= 0.0 {
        return;
    }
    let kib = operation.bandwidth / operation.rate / 1024.0;
    let bandwidths: Vec<f64> = rates.iter().map(|rate| rate * kib).collect();
    let (count, iops, bw) = (rates.len() as u64, spread(&rates), spread(&bandwidths));
    (direction.iops_samples, direction.bw_samples) = (count, count);
    (direction.iops_min, direction.iops_max) = (whole(iops.min), whole(iops.max));
    (direction.bw_min, direction.bw_max) = (whole(bw.min), whole(bw.max));
    (direction.iops_mean, direction.iops_stddev) = (finite(iops.mean), finite(iops.deviation));
    (direction.bw_mean, direction.bw_dev) = (finite(bw.mean), finite(bw.deviation));
}

struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    deviation: f64,
}

/// Bounds, mean and standard deviation (divided by n − 1, as fio does).
#[expect(clippy::cast_precision_loss, reason = "a number of intervals")]
fn spread(values: &[f64]) -> Spread {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
    Spread {
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(0.0, f64::max),
        mean,
        deviation: if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 },
    }
}

/// Everything at the level of the mean number in flight of a job: durio counts the mean, not how
/// often which depth was there.
fn depth_level(workload: &WorkloadFindings) -> Vec<(String, f64)> {
    const LEVELS: [(&str, f64); 7] = [
        ("1", 1.0),
        ("2", 2.0),
        ("4", 4.0),
        ("8", 8.0),
        ("16", 16.0),
        ("32", 32.0),
        (">=64", 64.0),
    ];
    let depth = workload.in_flight.counted / f64::from(workload.effective.jobs.max(1));
    let place = LEVELS.iter().rposition(|(_, least)| depth.round() >= *least);
    let level = |(index, (label, _)): (usize, &(&str, f64))| {
        let is_here = Some(index) == place || (place.is_none() && index == 0 && depth > 0.0);
        ((*label).to_owned(), if is_here { 100.0 } else { 0.0 })
    };
    LEVELS.iter().enumerate().map(level).collect()
}

fn milliseconds(time: Nanos) -> u64 {
    time.get() / 1_000_000
}

#[expect(clippy::cast_precision_loss, reason = "a time in seconds")]
fn seconds(time: Nanos) -> f64 {
    time.get() as f64 / 1e9
}

/// To the nearest whole number; what is none is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates and makes 0 of what is no number"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
