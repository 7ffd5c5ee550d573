//! The parts of an experiment: points, each with its workload, its files and its time; and the
//! values of its axes by length. The run's time is divided among the points.

use std::fmt::Display;

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, Experiment, FileLayout, Limit, ParameterValue, Role};
use durio_workload::{CacheMode, PerMille, RegionRule, SyncMethod, SyncPolicy, Workload};

use super::DurableLength;
use crate::interval_for;

/// An experiment before its steps have targets and times.
#[derive(Debug)]
pub(super) struct ExperimentDraft {
    pub(super) experiment: Experiment,
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) points: Vec<DurablePoint>,
}

/// A point of an experiment, from which a step is made.
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
            all.iter().filter(|value| !quick.contains(value)).map(|&value| words(value)).collect();
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

/// The time of one share.
#[derive(Debug)]
pub(super) struct Times {
    share: Nanos,
}

/// When a step ends, and how it is recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepTiming {
    pub(super) limit: Limit,
    pub(super) ramp: Nanos,
    pub(super) interval: Nanos,
}

/// The promised time less laying out files, tracing commits and starting jobs: what remains for
/// steps that last by the clock.
fn budget(length: DurableLength) -> Nanos {
    match length {
        DurableLength::Quick => Nanos::from_secs(22),
        DurableLength::Usual => Nanos::from_secs(160),
        DurableLength::Full => Nanos::from_secs(320),
    }
}

/// The shortest time of one point.
// Ten commits of a disk that turns 7200 times a minute and takes two turns for each (the write, and
// the flush), so that a mean is one of several.
const SHARE_MIN: Nanos = Nanos::from_millis(170);

/// From this number of jobs on, a step is one interval. Their histograms are merged at the end of
/// each interval, on processors that measure.
const MANY_JOBS: u32 = 16;

impl Times {
    pub(super) fn of(length: DurableLength, drafts: &[ExperimentDraft]) -> Self {
        let shares = |span: &PointSpan| match span {
            PointSpan::Shares(count) => u64::from(*count),
            PointSpan::Within(_) => 1,
            // The cross would leave the other experiments no time, and twenty commits take none
            // worth dividing.
            PointSpan::Fixed(..) | PointSpan::Operations(_) => 0,
        };
        let points = drafts.iter().flat_map(|draft| &draft.points);
        let sum: u64 = points.map(|point| shares(&point.span)).sum();
        let share = Nanos::new(budget(length).get() / sum.max(1));
        // With few points, none lasts longer than with many.
        let most = Nanos::new(budget(length).get() / 60);
        Self { share: share.min(most).max(SHARE_MIN) }
    }

    pub(super) fn timing(&self, span: PointSpan, jobs: u32) -> StepTiming {
        match span {
            PointSpan::Shares(count) => {
                let whole = self.share.get().saturating_mul(count.into());
                // A tenth is for one-time work: threads start, pages are touched.
                let ramp = Nanos::new(whole / 10);
                let duration = Nanos::new(whole - ramp.get());
                let interval = interval(duration, ramp, jobs);
                StepTiming { limit: Limit::Duration(duration), ramp, interval }
            }
            PointSpan::Within(volume) => within(volume, self.share, jobs),
            PointSpan::Fixed(duration, volume) => within(volume, duration, jobs),
            PointSpan::Operations(count) => StepTiming {
                limit: Limit::Operations(count),
                ramp: Nanos::ZERO,
                interval: Nanos::from_secs(1),
            },
        }
    }
}

fn within(volume: Bytes, duration: Nanos, jobs: u32) -> StepTiming {
    let interval = interval(duration, Nanos::ZERO, jobs);
    StepTiming { limit: Limit::VolumeWithin { volume, duration }, ramp: Nanos::ZERO, interval }
}

fn interval(duration: Nanos, ramp: Nanos, jobs: u32) -> Nanos {
    let usual = interval_for(duration, ramp);
    if jobs >= MANY_JOBS { usual.max(duration) } else { usual }
}
