//! One way of writing, as it was set and as it was measured.
//!
//! In: the findings of a slice's steps. Out: [`Arm`]s: repetitions of a step taken together, with
//! the facts that tell them apart taken from the workload and the target. Not here: what follows
//! from several of them.

use durio_plan::{EngineKind, FileLayout, Load, Plan, Slice, Step, TargetKind};
use durio_record::OperationName;
use durio_units::Bytes;
use durio_workload::{CacheMode, GroupCommit, SyncMethod, Workload};
use serde::{Deserialize, Serialize};

use super::device::{DeviceWork, device_work};
use crate::{BatchFindings, Distribution, OperationFindings, WorkloadFindings};
use durio_stats::least_squares::{count, mean, median};

/// How an arm was set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The location that the user named.
    pub location: String,
    /// Engine in use.
    pub engine: EngineKind,
    /// How writes are made durable.
    pub method: SyncMethod,
    /// After how many writes.
    pub every: u32,
    /// Through or past the page cache, in effect.
    pub cache: CacheMode,
    /// How the file was laid out; none for what existed and for devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<FileLayout>,
    /// Bytes of a write, or of a committer's record.
    #[serde(rename = "block_size_bytes")]
    pub block_size: Bytes,
    /// Writers.
    pub jobs: u32,
    /// Files or devices that they write to.
    pub files: u32,
    /// Committers that share each writer's syncs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_commit: Option<GroupCommit>,
}

impl Setting {
    fn of(plan: &Plan, load: &Load, cache: CacheMode, engine: EngineKind) -> Self {
        let target = plan.targets.get(load.target);
        let layout = target.and_then(|target| match &target.kind {
            TargetKind::NewFile { layout, .. } => Some(*layout),
            _ => None,
        });
        let location = target.and_then(|target| target.location.as_ref());
        let Workload { sync, block_size, jobs, group_commit, .. } = &load.workload;
        Self {
            location: location.map_or_else(String::new, ToString::to_string),
            engine,
            method: sync.method,
            every: sync.every,
            cache,
            layout,
            block_size: *block_size,
            jobs: *jobs,
            files: u32::try_from(load.targets().count()).unwrap_or(u32::MAX),
            group_commit: *group_commit,
        }
    }

    /// True if every write, or every N-th, is made durable.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.method != SyncMethod::None
    }

    /// Bytes of a write as a figure.
    pub(super) fn size(&self) -> f64 {
        bytes(self.block_size)
    }

    /// Those who commit at the same time: committers, or independent writers.
    #[must_use]
    pub fn committers(&self) -> u32 {
        let each = self.group_commit.map_or(1, |policy| policy.committers);
        self.jobs.saturating_mul(each)
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of writes")]
pub(super) fn bytes(size: Bytes) -> f64 {
    size.get() as f64
}

/// Latencies in figures; a percentile is absent where too few samples were taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// 50th percentile.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// Exact maximum.
    pub max_ns: u64,
}

impl Latencies {
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

/// One repetition, for fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Commits (or writes) per second.
    pub rate_per_second: f64,
    /// Mean latency of a commit (or write).
    pub latency_ns_mean: f64,
}

/// What was measured of an arm. Of several repetitions: the one whose rate is in the middle, for
/// its figures belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Commits per second where each write is one, else writes per second.
    pub rate_per_second: f64,
    /// Bytes of writes per second, padding not counted.
    pub bandwidth_bytes_per_second: f64,
    /// Of a commit, or of a write where there are none.
    pub latency: Latencies,
    /// Of the sync calls alone, where they are calls of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Latencies>,
    /// What reached the devices for each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceWork>,
    /// Records per batch, of a log with group commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<BatchFindings>,
    /// Every repetition.
    pub samples: Vec<Sample>,
    /// How far the rate may be off by chance: the standard error as a share of it, from the scatter
    /// of the intervals or of the repetitions, whichever is more. `None` without either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_share: Option<f64>,
}

/// A way of writing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// How it was set.
    #[serde(flatten)]
    pub setting: Setting,
    /// Index of its (first) step in the plan.
    pub step: u32,
    /// What was measured; `None` if nothing was: then `problems` says why, if that is known.
    pub figures: Option<Figures>,
    /// What could not be had, failed, or ended early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Arm {
    pub(super) fn rate(&self) -> Option<f64> {
        self.figures.as_ref().map(|it| it.rate_per_second).filter(|rate| *rate > 0.0)
    }

    pub(super) fn bandwidth(&self) -> Option<f64> {
        self.figures.as_ref().map(|it| it.bandwidth_bytes_per_second).filter(|it| *it > 0.0)
    }
}

/// The errors that ended steps, by the step.
pub(crate) type StepErrors = [(u32, String)];

/// What the slices are made of.
pub(crate) struct Measured<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) workloads: &'a [WorkloadFindings],
    pub(crate) errors: &'a StepErrors,
}

/// The arms of all sections that answer this question, in the order of their steps.
pub(super) fn arms(measured: &Measured<'_>, slice: Slice) -> Vec<Arm> {
    let mut groups: Vec<(Setting, Vec<&Step>)> = Vec::new();
    let steps = measured.plan.measured_steps().filter(|step| is_of(measured.plan, step, slice));
    for step in steps {
        let effective = found(measured, step.index).next().map(|it| &it.effective);
        let cache = effective.map_or(step.load.workload.cache, |it| it.cache);
        let engine = effective.map_or(step.load.engine, |it| it.engine);
        let setting = Setting::of(measured.plan, &step.load, cache, engine);
        match groups.iter_mut().find(|(other, _)| *other == setting) {
            Some((_, steps)) => steps.push(step),
            None => groups.push((setting, vec![step])),
        }
    }
    groups.into_iter().filter_map(|(setting, steps)| arm(measured, setting, &steps)).collect()
}

/// Whether a step is of a section that answers this question.
pub(super) fn is_of(plan: &Plan, step: &Step, slice: Slice) -> bool {
    use durio_plan::SectionKind;
    let section = plan.section_of(step);
    section.is_some_and(|it| matches!(it.kind, SectionKind::Slice { slice: of } if of == slice))
}

/// The findings of a step's first load.
fn found<'a>(
    measured: &Measured<'a>,
    step: u32,
) -> impl Iterator<Item = &'a WorkloadFindings> + use<'a> {
    measured.workloads.iter().filter(move |it| it.step == step && it.stream == 0)
}

fn arm(measured: &Measured<'_>, setting: Setting, steps: &[&Step]) -> Option<Arm> {
    let all: Vec<&WorkloadFindings> =
        steps.iter().flat_map(|step| found(measured, step.index)).collect();
    let is_step = |step: u32| steps.iter().any(|it| it.index == step);
    let errors = measured.errors.iter().filter(|(step, _)| is_step(*step));
    let mut problems: Vec<String> = errors.map(|(_, message)| message.clone()).collect();
    problems.extend(all.iter().flat_map(|it| it.effective.fallbacks.iter().cloned()));
    if problems.is_empty() && all.iter().any(|it| !it.complete) {
        problems.push("ended before its limit".to_owned());
    }
    if all.is_empty() && problems.is_empty() {
        problems.push("not measured: the run ended before it".to_owned());
    }
    let mut distinct: Vec<String> = Vec::new();
    problems.into_iter().for_each(|it| {
        if !distinct.contains(&it) {
            distinct.push(it);
        }
    });
    let figures = figures(&setting, &all);
    Some(Arm { setting, step: steps.first()?.index, figures, problems: distinct })
}

/// The operation whose rate and latency an arm is about.
fn headline(found: &WorkloadFindings) -> Option<&OperationFindings> {
    found.operation(OperationName::Commit).or_else(|| found.operation(OperationName::Write))
}

fn figures(setting: &Setting, all: &[&WorkloadFindings]) -> Option<Figures> {
    let mut sorted: Vec<(&WorkloadFindings, &OperationFindings)> =
        all.iter().filter_map(|it| Some((*it, headline(it)?))).collect();
    sorted.sort_by(|a, b| a.1.rate.total_cmp(&b.1.rate));
    let sample = |it: &(&WorkloadFindings, &OperationFindings)| Sample {
        rate_per_second: it.1.rate,
        latency_ns_mean: it.1.service.mean_ns,
    };
    let samples: Vec<Sample> = sorted.iter().map(sample).collect();
    let (middle, operation) = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    let sync = middle.operation(OperationName::Sync).map(|it| Latencies::of(&it.service));
    Some(Figures {
        rate_per_second: operation.rate,
        bandwidth_bytes_per_second: operation.rate * setting.size(),
        latency: Latencies::of(&operation.service),
        sync,
        device: device_work(middle, operation),
        batches: middle.batches.clone(),
        noise_share: noise(&sorted),
        samples,
    })
}

/// Standard error of the mean rate, as a share of it.
fn noise(sorted: &[(&WorkloadFindings, &OperationFindings)]) -> Option<f64> {
    let within = sorted.iter().filter_map(|(found, _)| {
        let evenness = found.evenness.as_ref()?;
        #[expect(clippy::cast_precision_loss, reason = "a count of intervals")]
        let intervals = evenness.intervals.max(1) as f64;
        Some(evenness.coefficient_of_variation / intervals.sqrt())
    });
    let within = median(&within.collect::<Vec<_>>());
    let rates: Vec<f64> = sorted.iter().map(|(_, operation)| operation.rate).collect();
    let between = spread_of_mean(&rates);
    [within, between].into_iter().flatten().reduce(f64::max)
}

/// Standard deviation ÷ √n ÷ mean; none of fewer than two.
fn spread_of_mean(rates: &[f64]) -> Option<f64> {
    let centre = mean(rates).filter(|it| *it > 0.0 && rates.len() > 1)?;
    let squares: f64 = rates.iter().map(|rate| (rate - centre).powi(2)).sum();
    let members = count(rates.len());
    Some((squares / (members - 1.0) / members).sqrt() / centre)
}

/// Arms in groups that are alike by a key, in the order of the first of each.
pub(super) fn grouped<K: PartialEq>(arms: Vec<Arm>, key: impl Fn(&Setting) -> K) -> Vec<Vec<Arm>> {
    let mut groups: Vec<(K, Vec<Arm>)> = Vec::new();
    for arm in arms {
        let of = key(&arm.setting);
        match groups.iter_mut().find(|(other, _)| *other == of) {
            Some((_, group)) => group.push(arm),
            None => groups.push((of, vec![arm])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
