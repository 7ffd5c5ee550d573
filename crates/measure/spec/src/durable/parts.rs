//! The parts of an experiment: points, each with its workload, its files and its time; and the
//! values of its axes by length.

use std::fmt::Display;

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, Experiment, FileLayout, ParameterValue, Role};
use durio_workload::{CacheMode, PerMille, RegionRule, SyncMethod, SyncPolicy, Workload};

use super::DurableLength;

/// An experiment before its steps have targets and times.
#[derive(Debug)]
pub(super) struct ExperimentDraft {
    pub(super) experiment: Experiment,
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) points: Vec<DurablePoint>,
}

/// A step-to-be.
#[derive(Debug, Clone)]
pub(super) struct DurablePoint {
    pub(super) workload: Workload,
    pub(super) engine: EngineKind,
    pub(super) files: PointFiles,
    pub(super) span: PointSpan,
    pub(super) levels: Vec<ParameterValue>,
    pub(super) role: Role,
}

/// Which files a point writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PointFiles {
    /// The log of all: written once before, so recycled.
    Log,
    /// As many recycled logs as writers; each experiment uses the same ones.
    OwnLogs(u32),
    /// Files that no other step has written to.
    Fresh {
        layout: FileLayout,
        /// The size of each file.
        size: Bytes,
        count: u32,
    },
}

/// How long a point lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PointSpan {
    /// This number of shares of the run's time.
    Shares(u32),
    /// A share of the run's time, or until this volume is written.
    Within(Bytes),
    /// This time, or until this volume is written: not part of the shared time.
    Fixed(Nanos, Bytes),
    /// This number of writes.
    Operations(u64),
}

impl DurablePoint {
    /// A point of `workload` on the log.
    pub(super) fn new(workload: Workload, levels: Vec<ParameterValue>) -> Self {
        Self {
            workload,
            engine: EngineKind::Sync,
            files: PointFiles::Log,
            span: PointSpan::Shares(1),
            levels,
            role: Role::Measure,
        }
    }

    /// Where it is, as it is shown.
    pub(super) fn words(&self) -> String {
        self.levels.iter().map(ParameterValue::words).collect::<Vec<_>>().join(", ")
    }
}

/// Sequential writes of `block_size` by one writer, each made durable by `method`.
pub(super) fn durable(block_size: Bytes, method: SyncMethod, cache: CacheMode) -> Workload {
    Workload {
        read_share: PerMille::NONE,
        block_size,
        sync: SyncPolicy::each(method),
        cache,
        ..Workload::default()
    }
}

/// The same by several writers, each in a separate share of the file.
pub(super) fn shared(jobs: u32, workload: Workload) -> Workload {
    // Walking the same blocks, commits were up to 36 % faster than the storage.
    Workload { jobs, region: RegionRule::ShareEach, ..workload }
}

/// A place on an axis of numbers, labelled `label`.
pub(super) fn level(axis: &str, value: f64, label: impl Into<String>) -> ParameterValue {
    ParameterValue { axis: axis.to_owned(), value, label: label.into() }
}

pub(super) fn count_level(axis: &str, count: u32) -> ParameterValue {
    level(axis, f64::from(count), count.to_string())
}

pub(super) fn bytes_level(axis: &str, bytes: Bytes) -> ParameterValue {
    #[expect(clippy::cast_precision_loss, reason = "sizes of blocks are far below 2^53")]
    level(axis, bytes.get() as f64, bytes.to_string())
}

pub(super) fn method_level(method: SyncMethod) -> ParameterValue {
    let place = SyncMethod::ALL.iter().position(|known| *known == method).unwrap_or(0);
    let value = u32::try_from(place).unwrap_or(u32::MAX);
    level("method", f64::from(value), method.name())
}

pub(super) fn cache_level(cache: CacheMode) -> ParameterValue {
    match cache {
        CacheMode::Direct => level("cache", 0.0, "direct"),
        CacheMode::Buffered => level("cache", 1.0, "buffered"),
    }
}

/// The four file modes, from the one with the least work for the filesystem on.
pub(super) const LAYOUTS: [FileLayout; 4] = [
    FileLayout::Incompressible,
    FileLayout::ZeroFilled,
    FileLayout::Preallocated,
    FileLayout::Empty,
];

pub(super) fn layout_level(layout: FileLayout) -> ParameterValue {
    match layout {
        FileLayout::Incompressible => level("layout", 0.0, "recycled"),
        FileLayout::ZeroFilled => level("layout", 1.0, "zero-filled"),
        FileLayout::Preallocated => level("layout", 2.0, "preallocated"),
        FileLayout::Empty => level("layout", 3.0, "extending"),
    }
}

/// Chooses values for an experiment, and says which it does not choose.
pub(super) struct AxisChoices<'a> {
    length: DurableLength,
    experiment: &'a str,
}

impl<'a> AxisChoices<'a> {
    pub(super) fn of(length: DurableLength, experiment: &'a str) -> Self {
        Self { length, experiment }
    }

    /// The values of an axis: all, or with `--quick` those of `quick`.
    pub(super) fn values<T: Copy + PartialEq>(
        &self,
        all: &[T],
        quick: &[T],
        words: impl Fn(T) -> String,
        left_out: &mut Vec<String>,
    ) -> Vec<T> {
        if self.length != DurableLength::Quick {
            return all.to_vec();
        }
        let others: Vec<String> =
            all.iter().filter(|value| !quick.contains(value)).map(|&it| words(it)).collect();
        if !others.is_empty() {
            left_out.push(format!("{}: {} (--quick)", self.experiment, shortened(&others, ", ")));
        }
        quick.to_vec()
    }
}

/// A number or a size with its axis.
pub(super) fn named<T: Display>(axis: &str) -> impl Fn(T) -> String {
    move |value| format!("{axis} {value}")
}

/// The words, or where there are many the first and how many more.
pub(super) fn shortened(words: &[String], between: &str) -> String {
    const SHOWN: usize = 6;
    match words.len() {
        count if count <= SHOWN + 1 => words.join(between),
        count => format!("{}{between}and {} more", words[..SHOWN].join(between), count - SHOWN),
    }
}
