//! One way of writing, with its settings and results.
//!
//! The findings of an experiment's steps give [`DurableArm`]s: repetitions of a step taken together, with
//! distinguishing facts from the workload and the target.

use durio_base::Bytes;
use durio_plan::{EngineKind, Experiment, FileLayout, Load, Plan, Step, TargetKind};
use durio_record::OperationName;
use durio_workload::{CacheMode, GroupCommit, SyncMethod, Workload};
use serde::{Deserialize, Serialize};

use crate::ladder::RateAndLatency;
use crate::measurement::{DeviceWork, Measurement, Measurements};
use crate::{BatchFindings, Distribution, OperationFindings, WorkloadFindings, each_once, grouped};
use durio_base::stats::least_squares::{float, median};
use durio_base::stats::repeats::Mean;

/// How an arm was set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSetting {
    /// The location that the user named.
    pub location: String,
    pub engine: EngineKind,
    /// How writes are made durable.
    pub method: SyncMethod,
    /// After how many writes.
    pub every: u32,
    /// Through or past the page cache, in effect.
    pub cache: CacheMode,
    /// The layout of the file; `None` for existing files and devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<FileLayout>,
    /// Bytes of a write, or of a committer's record.
    #[serde(rename = "block_size_bytes")]
    pub block_size: Bytes,
    /// Concurrent writers, one per job.
    pub jobs: u32,
    /// Files or devices that they write to.
    pub files: u32,
    /// Committers that share each writer's syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_commit: Option<GroupCommit>,
}

impl ArmSetting {
    fn of(measured: &ExperimentInput<'_>, step: &Step) -> Self {
        let (plan, load) = (measured.plan, &step.load);
        // The settings in effect: a measurement through the cache is not reported as direct.
        let effective = first_streams(measured, step.index).next().map(|row| &row.found.effective);
        let location = plan.targets.get(load.target).and_then(|target| target.location.as_ref());
        let Workload { sync, block_size, jobs, group_commit, cache, .. } = &load.workload;
        Self {
            location: location.map_or_else(String::new, ToString::to_string),
            engine: effective.map_or(load.engine, |effective| effective.engine),
            method: sync.method,
            every: sync.every,
            cache: effective.map_or(*cache, |effective| effective.cache),
            layout: layout_of(plan, load),
            block_size: *block_size,
            jobs: *jobs,
            files: u32::try_from(load.targets().count()).unwrap_or(u32::MAX),
            group_commit: *group_commit,
        }
    }

    /// True if every write, or every N-th, is made durable.
    pub fn is_durable(&self) -> bool {
        self.method != SyncMethod::None
    }

    /// Bytes of a write as a number.
    pub(super) fn size(&self) -> f64 {
        float(self.block_size.get())
    }

    /// Concurrent committers, or independent writers.
    pub fn committers(&self) -> u32 {
        let each = self.group_commit.map_or(1, |policy| policy.committers);
        self.jobs.saturating_mul(each)
    }
}

/// The layout of a load's file; `None` for existing files and devices.
pub(super) fn layout_of(plan: &Plan, load: &Load) -> Option<FileLayout> {
    match &plan.targets.get(load.target)?.kind {
        TargetKind::NewFile { layout, .. } => Some(*layout),
        _ => None,
    }
}

/// Mean and percentiles of latencies; a percentile is absent if there are too few samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ArmLatencies {
    pub count: u64,
    pub mean_ns: f64,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p99_9_ns: Option<u64>,
    pub max_ns: u64,
}

impl ArmLatencies {
    pub(super) fn of(service: &Distribution) -> Self {
        Self {
            count: service.count,
            mean_ns: service.mean_ns,
            p50_ns: service.p50_ns,
            p99_ns: service.p99_ns,
            p99_9_ns: service.p99_9_ns,
            max_ns: service.max_ns,
        }
    }
}

/// The results of an arm: the repetition with the median rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmFigures {
    /// Commits per second where each write is one, else writes per second.
    pub rate_per_second: f64,
    /// Bytes of writes per second, padding not counted.
    pub bandwidth_bytes_per_second: f64,
    /// Latency of a commit, or of a write if there are no commits.
    pub latency: ArmLatencies,
    /// Latency of the sync calls alone, if they are separate calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<ArmLatencies>,
    /// What reached the devices for each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceWork>,
    /// Records per batch, of a log with group commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<BatchFindings>,
    /// Every repetition, for fits.
    pub samples: Vec<RateAndLatency>,
    /// How far the rate may be off by chance: the standard error as a share of it, from the scatter
    /// of the intervals or of the repetitions, whichever is more. `None` without either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_share: Option<f64>,
}

/// A way of writing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DurableArm {
    /// How it was set.
    #[serde(flatten)]
    pub setting: ArmSetting,
    /// Index of its (first) step in the plan.
    pub step: u32,
    /// The results; `None` if nothing was measured: then `problems` gives the reason, if known.
    pub figures: Option<ArmFigures>,
    /// What could not be had, failed, or ended early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl DurableArm {
    pub(super) fn rate(&self) -> Option<f64> {
        self.figures.as_ref().map(|figures| figures.rate_per_second).filter(|rate| *rate > 0.0)
    }

    pub(super) fn bandwidth(&self) -> Option<f64> {
        self.figures
            .as_ref()
            .map(|figures| figures.bandwidth_bytes_per_second)
            .filter(|bandwidth| *bandwidth > 0.0)
    }
}

/// The input of the experiments.
pub(crate) struct ExperimentInput<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) table: &'a Measurements<'a>,
    /// The errors that ended steps, by the step.
    pub(crate) errors: &'a [(u32, String)],
}

/// The arms of all sections that answer this question, in the order of their steps.
pub(super) fn arms(measured: &ExperimentInput<'_>, experiment: Experiment) -> Vec<DurableArm> {
    let steps =
        measured.plan.measured_steps().filter(|step| is_of(measured.plan, step, experiment));
    let set = steps.map(|step| (ArmSetting::of(measured, step), step.index));
    let groups = grouped(set, |a, b| a.0 == b.0);
    groups.into_iter().filter_map(|group| arm(measured, group)).collect()
}

/// Whether a step is in a section of this experiment.
pub(super) fn is_of(plan: &Plan, step: &Step, experiment: Experiment) -> bool {
    use durio_plan::SectionKind;
    let section = plan.section_of(step);
    section.is_some_and(
        |section| matches!(section.kind, SectionKind::Experiment { experiment: of } if of == experiment),
    )
}

/// The measurements of a step's first load.
fn first_streams<'a>(
    measured: &ExperimentInput<'a>,
    step: u32,
) -> impl Iterator<Item = Measurement<'a>> + use<'a> {
    measured.table.of_step(step).iter().filter(|row| row.stream == 0).copied()
}

/// The arm of steps that are set alike.
fn arm(measured: &ExperimentInput<'_>, group: Vec<(ArmSetting, u32)>) -> Option<DurableArm> {
    let steps: Vec<u32> = group.iter().map(|(_, step)| *step).collect();
    let (setting, step) = group.into_iter().next()?;
    let all: Measurements<'_> =
        steps.iter().flat_map(|step| first_streams(measured, *step)).collect();
    let errors = measured.errors.iter().filter(|(step, _)| steps.contains(step));
    let mut problems: Vec<String> = errors.map(|(_, message)| message.clone()).collect();
    // A fallback never passes for the requested method: it is reported with the results.
    problems.extend(all.iter().flat_map(|row| row.effective.fallbacks.clone()));
    if problems.is_empty() && all.iter().any(|row| !row.complete) {
        problems.push("ended before its limit".to_owned());
    }
    if all.is_empty() && problems.is_empty() {
        problems.push("not measured: the run ended before it".to_owned());
    }
    let figures = figures(&setting, &all);
    Some(DurableArm { setting, step, figures, problems: each_once(problems) })
}

/// The operation whose rate and latency an arm is about.
fn headline(found: &WorkloadFindings) -> Option<&OperationFindings> {
    found.operation(OperationName::Commit).or_else(|| found.operation(OperationName::Write))
}

fn figures(setting: &ArmSetting, all: &Measurements<'_>) -> Option<ArmFigures> {
    let repeats: Measurements<'_> =
        all.iter().filter(|row| headline(row).is_some()).copied().collect();
    let repeats = repeats.rising(|found| headline(found).map_or(0.0, |operation| operation.rate));
    let sample = |operation: &OperationFindings| RateAndLatency {
        rate_per_second: operation.rate,
        latency_ns_mean: operation.service.mean_ns,
    };
    let samples: Vec<_> = repeats.iter().filter_map(|row| headline(row).map(sample)).collect();
    let middle = repeats.middle()?.found;
    let operation = headline(middle)?;
    let sync = middle.operation(OperationName::Sync);
    Some(ArmFigures {
        rate_per_second: operation.rate,
        bandwidth_bytes_per_second: operation.rate * setting.size(),
        latency: ArmLatencies::of(&operation.service),
        sync: sync.map(|sync| ArmLatencies::of(&sync.service)),
        device: middle.device_work(operation),
        batches: middle.batches.clone(),
        noise_share: noise(&repeats, &samples),
        samples,
    })
}

/// Standard error of the mean rate, as a share of it.
fn noise(repeats: &Measurements<'_>, samples: &[RateAndLatency]) -> Option<f64> {
    let within = repeats.iter().filter_map(|row| {
        let evenness = row.rate_variation.as_ref()?;
        // Scatter of consecutive intervals; a correlation between them is not allowed for.
        Some(evenness.coefficient_of_variation / float(evenness.intervals.max(1)).sqrt())
    });
    let within = median(&within.collect::<Vec<_>>());
    let rates: Vec<f64> = samples.iter().map(|sample| sample.rate_per_second).collect();
    let between = Mean::of(&rates).filter(|mean| mean.value > 0.0);
    let between = between.map(|mean| mean.variance.sqrt() / mean.value);
    [within, between].into_iter().flatten().reduce(f64::max)
}

/// Arms in groups that are alike by a key, in the order of the first of each.
pub(super) fn by_key<K: PartialEq>(
    arms: Vec<DurableArm>,
    key: impl Fn(&ArmSetting) -> K,
) -> Vec<Vec<DurableArm>> {
    grouped(arms, |a, b| key(&a.setting) == key(&b.setting))
}
