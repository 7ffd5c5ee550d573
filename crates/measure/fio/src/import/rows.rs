//! The rows of fio's results: which copies are one row, and which loads measure them.
//!
//! From [`OutputOptions`], the jobs, and the load of each copy to a [`ResultShape`], which holds no
//! results itself.

use durio_base::Nanos;

use super::{ImportNotes, or};
use crate::job_file::{GivenOption, OutputOptions, ResolvedJob};

/// The most lines of a log per series; longer runs get longer intervals.
const LINES_MAX: u64 = 50_000;
/// The bytes of a job's name that fio's results keep (`FIO_JOBNAME_SIZE` in its stat.h, less the
/// zero at the end).
const NAME_BYTES_MAX: usize = 127;
/// The line of a log that is asked for per I/O.
const FINEST: Nanos = Nanos::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reporting {
    /// Each copy has a separate row or log.
    pub(super) is_apart: bool,
    /// Sections have one row together.
    pub(super) is_grouped: bool,
    /// How long the lines of its logs are.
    pub(super) log_interval: Option<Nanos>,
}

pub(super) fn reporting(
    options: &OutputOptions,
    copies_apart: bool,
    duration: Option<Nanos>,
    said: &mut ImportNotes,
) -> Reporting {
    let OutputOptions {
        group_reporting,
        disk_util: _,
        completion_percentiles: _,
        total_percentiles: _,
        submit_percentiles: _,
        percentiles: _,
        bandwidth_log,
        latency_log,
        rate_log,
        log_average_ms,
        per_job_logs: _,
    } = options;
    let log = bandwidth_log.as_ref().or(latency_log.as_ref()).or(rate_log.as_ref());
    let asked = Nanos::from_millis(u64::from(or(log_average_ms, 0)));
    let least = Nanos::new(duration.map_or(0, |duration| duration.get() / LINES_MAX));
    // Without log_avg_msec fio logs each I/O, which durio does not keep.
    let interval = if asked == Nanos::ZERO { FINEST } else { asked }.max(least);
    if let Some(log) = log.filter(|_| interval != asked) {
        let what = format!(
            "logs have a line per {interval}, not per I/O; set log_avg_msec for another interval"
        );
        match log_average_ms {
            Some(given) => said.note(given, &what),
            None => said.note(log, &what),
        }
    }
    let is_grouped = log.is_none() && or(group_reporting, false);
    Reporting {
        is_apart: copies_apart && !is_grouped,
        is_grouped,
        log_interval: log.map(|_| interval),
    }
}

/// A load of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlace {
    /// Index of its step.
    pub step: u32,
    /// Its place among the loads of the step.
    pub stream: u32,
}

/// Copies of a job, by their numbers among the copies of all jobs, that are in one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopiesPlace {
    pub(super) first: u32,
    pub(super) copies: u32,
    pub(super) at: StreamPlace,
}

impl CopiesPlace {
    fn holds(&self, copy: u32) -> bool {
        copy.checked_sub(self.first).is_some_and(|after| after < self.copies)
    }
}

/// The rows and the logs of fio's results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResultShape {
    /// The requested results, job by job.
    pub jobs: Vec<ResultJob>,
    /// The rows in fio's order.
    pub rows: Vec<ResultRow>,
    /// In the order of the copies.
    pub logs: Vec<LogRequest>,
    /// Whether the counters of block devices are shown.
    pub shows_disks: bool,
}

/// A job as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultJob {
    pub name: String,
    /// Its reporting group, from 0.
    pub group: u32,
    /// How many copies run.
    pub copies: u32,
    /// The load that measures the first one.
    pub place: StreamPlace,
}

/// A job's copy, or the jobs of a reporting group.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultRow {
    /// The name of the first job.
    pub name: String,
    /// The first job's description.
    pub description: String,
    /// The reporting group, from 0.
    pub group: u32,
    /// The last job's own options, as fio lists them.
    pub options: Vec<(String, String)>,
    /// Which percentiles are shown.
    pub percentiles: ShownPercentiles,
    /// How many copies are in it.
    pub copies: u32,
    /// The loads that measure them.
    pub places: Vec<StreamPlace>,
}

/// Which percentiles are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownPercentiles {
    /// Percentiles of the submit latency.
    pub submit: bool,
    /// Percentiles of the completion latency.
    pub completion: bool,
    /// Percentiles of the total latency.
    pub total: bool,
    /// Percentages, in ascending order.
    pub list: Vec<f64>,
}

impl Default for ShownPercentiles {
    // fio's default.
    fn default() -> Self {
        let list = [
            1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
            99.95, 99.99,
        ];
        Self { submit: false, completion: true, total: false, list: list.to_vec() }
    }
}

/// What a log is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Bandwidth in KiB per second.
    Bandwidth,
    /// The latency, in nanoseconds.
    Latency,
    /// Rate in accesses per second.
    Rate,
}

/// A log that a job asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    pub kind: LogKind,
    /// What the names of its files begin with.
    pub prefix: String,
    /// The number of the copy among those of all jobs, from 1; none where copies share a file.
    pub number: Option<u32>,
    /// The load that measures it.
    pub place: StreamPlace,
    /// Whether its lines are asked for per time, and not per I/O.
    pub is_averaged: bool,
}

/// The rows and logs of `jobs`, whose copies are in the loads of `places`.
pub(super) fn shape(jobs: &[ResolvedJob], places: &[CopiesPlace]) -> ResultShape {
    let mut shape = ResultShape { shows_disks: true, ..ResultShape::default() };
    let mut number = 0_u32;
    for job in jobs {
        shape.shows_disks &= or(&job.options.output.disk_util, true);
        for copy in number..number.saturating_add(job.copies) {
            // A job that only lays files out has no load.
            let Some(place) = places.iter().find(|place| place.holds(copy)) else { continue };
            if copy == number {
                let ResolvedJob { name, reporting_group: group, copies, .. } = job;
                let (name, group, copies) = (name.clone(), *group, *copies);
                shape.jobs.push(ResultJob { name, group, copies, place: place.at });
            }
            add_copy(&mut shape.rows, job, place.at);
            shape.logs.extend(logs(job, copy + 1, place.at));
        }
        number = number.saturating_add(job.copies);
    }
    shape
}

// As in fio: a copy has its own row unless it has `group_reporting` and the copy before is of the
// same group; the options are those of the last. Copies in one load always share a row.
fn add_copy(rows: &mut Vec<ResultRow>, job: &ResolvedJob, place: StreamPlace) {
    let is_grouped = or(&job.options.output.group_reporting, false);
    let joins = |row: &&mut ResultRow| {
        (is_grouped && row.group == job.reporting_group) || row.places.last() == Some(&place)
    };
    match rows.last_mut().filter(joins) {
        Some(row) => {
            row.copies += 1;
            row.options.clone_from(&job.listed);
            if row.places.last() != Some(&place) {
                row.places.push(place);
            }
        }
        None => rows.push(row(job, place)),
    }
}

/// The beginning of a text: at most `bytes_max` bytes, cut between characters.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut ends = (0..=bytes_max.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or_default()
}

fn row(job: &ResolvedJob, place: StreamPlace) -> ResultRow {
    let output = &job.options.output;
    let usual = ShownPercentiles::default();
    // An empty list is fio's own.
    let list = output.percentiles.as_ref().filter(|given| !given.value.is_empty());
    let description = job.options.name.description.as_ref();
    ResultRow {
        name: cut(&job.name, NAME_BYTES_MAX).to_owned(),
        description: description.map_or_else(String::new, |given| given.value.clone()),
        group: job.reporting_group,
        options: job.listed.clone(),
        percentiles: ShownPercentiles {
            submit: or(&output.submit_percentiles, usual.submit),
            completion: or(&output.completion_percentiles, usual.completion),
            total: or(&output.total_percentiles, usual.total),
            list: list.map_or(usual.list, |given| given.value.clone()),
        },
        copies: 1,
        places: vec![place],
    }
}

fn logs(job: &ResolvedJob, number: u32, place: StreamPlace) -> Vec<LogRequest> {
    let output = &job.options.output;
    let is_apart = or(&output.per_job_logs, true);
    let is_averaged = or(&output.log_average_ms, 0) > 0;
    let asked = [
        (LogKind::Bandwidth, &output.bandwidth_log),
        (LogKind::Latency, &output.latency_log),
        (LogKind::Rate, &output.rate_log),
    ];
    let log = |(kind, name): (LogKind, &GivenOption<String>)| {
        let name = &name.as_ref()?.value;
        let prefix = if name.is_empty() { &job.name } else { name };
        let number = is_apart.then_some(number);
        Some(LogRequest { kind, prefix: prefix.clone(), number, place, is_averaged })
    };
    asked.into_iter().filter_map(log).collect()
}
