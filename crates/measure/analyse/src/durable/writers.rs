//! Writers on one file and on separate files, whether one log with batches beats them, and logs
//! with group commit against as many independent writers. The arms of both experiments, and the
//! cost model of one writer, give [`WritersFindings`] and [`GroupCommitFindings`]. Sizes by writers,
//! at equal volume, give [`CrossFindings`]: does the number of writes limit, or their bytes?

use durio_plan::Experiment;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};
use super::contention::{Contention, WritersRate, contention};
use super::sizes::SizesFindings;
use crate::DeclinedAnalysis;
use crate::cost_model::CostModel;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritersRow {
    /// Settings and results; rate and bandwidth are those of all writers together.
    #[serde(flatten)]
    pub arm: DurableArm,
    /// Bytes per second of each writer, in the mean.
    pub per_writer_bytes_per_second: f64,
    /// Rate ÷ (writers × the rate of one).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency_share: Option<f64>,
    /// Rate of one writer with as many records in each of its writes ÷ this rate, by the cost model
    /// of one writer: above 1 a log with batches beats independent writers. `None` without a model
    /// of this method, or if the batch is larger than the measured sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batched_gain: Option<f64>,
}

/// Writers with one method and size, on files of a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritersFindings {
    /// A file each; else all on one.
    pub file_each: bool,
    /// One for each number of writers, rising.
    pub rows: Vec<WritersRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<Contention>,
    /// Why the law is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
}

pub(super) fn writers(
    measured: &ExperimentInput<'_>,
    sizes: Option<&SizesFindings>,
) -> Vec<WritersFindings> {
    let key = |setting: &ArmSetting| {
        (
            setting.method,
            setting.cache,
            setting.layout,
            setting.block_size,
            setting.location.clone(),
        )
    };
    let by_method = by_key(arms(measured, Experiment::Writers), key);
    by_method.into_iter().flat_map(|arms| by_files(arms, sizes)).collect()
}

/// A single writer has a separate file and belongs to both kinds.
fn by_files(arms: Vec<DurableArm>, sizes: Option<&SizesFindings>) -> Vec<WritersFindings> {
    let (one, several): (Vec<DurableArm>, Vec<DurableArm>) =
        arms.into_iter().partition(|arm| arm.setting.jobs == 1);
    // Were it measured on both kinds of files, it would count twice where λ rests.
    let one = one.into_iter().take(1);
    let (each, shared): (Vec<DurableArm>, Vec<DurableArm>) =
        several.into_iter().partition(|arm| arm.setting.files == arm.setting.jobs);
    let kinds = [(false, shared), (true, each)].into_iter().filter(|(_, arms)| !arms.is_empty());
    let mut kinds: Vec<(bool, Vec<DurableArm>)> = kinds.collect();
    // One writer alone is shown, too.
    if kinds.is_empty() {
        kinds.push((false, Vec::new()));
    }
    let with_one = |(file_each, arms): (bool, Vec<DurableArm>)| {
        findings(file_each, one.clone().chain(arms).collect(), sizes)
    };
    kinds.into_iter().map(with_one).filter(|found| !found.rows.is_empty()).collect()
}

fn findings(
    file_each: bool,
    mut arms: Vec<DurableArm>,
    sizes: Option<&SizesFindings>,
) -> WritersFindings {
    arms.sort_by_key(|arm| arm.setting.jobs);
    let alone = arms.iter().find(|arm| arm.setting.jobs == 1).and_then(DurableArm::rate);
    let row = |arm: &DurableArm| {
        let jobs = f64::from(arm.setting.jobs.max(1));
        Some(WritersRow {
            per_writer_bytes_per_second: arm.bandwidth()? / jobs,
            efficiency_share: arm.rate().zip(alone).map(|(rate, alone)| rate / (jobs * alone)),
            batched_gain: arm.rate().zip(batched_rate(sizes, &arm.setting)).map(|(a, b)| b / a),
            arm: arm.clone(),
        })
    };
    let points: Vec<WritersRate> = arms.iter().flat_map(points).collect();
    let law = contention(&points).and_then(Contention::describing);
    let (contention, declined) = DeclinedAnalysis::split(law);
    let rows = arms.iter().filter_map(row).collect();
    WritersFindings { file_each, rows, contention, declined }
}

/// The rate of every repetition.
fn points(arm: &DurableArm) -> Vec<WritersRate> {
    let writers = f64::from(arm.setting.jobs);
    let samples = arm.figures.iter().flat_map(|figures| &figures.samples);
    samples
        .map(|sample| WritersRate { writers, total_per_second: sample.rate_per_second })
        .collect()
}

/// Records per second of one writer whose writes hold a record of each committer.
fn batched_rate(sizes: Option<&SizesFindings>, setting: &ArmSetting) -> Option<f64> {
    let (model, largest) = model_of(sizes?, setting)?;
    let committers = f64::from(setting.committers());
    let batch = committers * setting.size();
    // Beyond the largest measured size the line is only drawn on: no comparison rests on that.
    (batch <= largest).then(|| committers / model.latency_ns(batch) * 1e9)
}

/// One writer's cost model with the same method and cache mode, and the largest fitted size.
fn model_of<'a>(sizes: &'a SizesFindings, setting: &ArmSetting) -> Option<(&'a CostModel, f64)> {
    let key = |setting: &ArmSetting| (setting.method, setting.cache, setting.location.clone());
    let curve = sizes.curves.iter().find(|curve| key(&curve.setting) == key(setting))?;
    let largest = curve.arms.iter().map(|arm| arm.setting.size()).fold(0.0, f64::max);
    Some((curve.model.as_ref()?, largest))
}

/// A log with group commit against its independent writers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCommitRow {
    /// Settings and results: rate and latency of commits as a committer sees them.
    #[serde(flatten)]
    pub arm: DurableArm,
    /// As many independent writers with the same method and record size, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub independent: Option<DurableArm>,
    /// Its rate over theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// Commits per second by the cost model of one writer, if every batch held a record of each
    /// committer: the log's limit while the model holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_per_second: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupCommitFindings {
    /// The logs, in the order of the plan.
    pub rows: Vec<GroupCommitRow>,
    /// Independent writers without a log to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<DurableArm>,
}

pub(super) fn group_commit(
    measured: &ExperimentInput<'_>,
    sizes: Option<&SizesFindings>,
) -> Option<GroupCommitFindings> {
    let all = arms(measured, Experiment::GroupCommit);
    let (logs, writers): (Vec<DurableArm>, Vec<DurableArm>) =
        all.into_iter().partition(|arm| arm.setting.group_commit.is_some());
    let rows: Vec<GroupCommitRow> =
        logs.into_iter().map(|arm| log_row(arm, &writers, sizes)).collect();
    let is_beside = |arm: &DurableArm| rows.iter().any(|row| row.independent.as_ref() == Some(arm));
    let others: Vec<DurableArm> = writers.iter().filter(|arm| !is_beside(arm)).cloned().collect();
    (!rows.is_empty() || !others.is_empty()).then_some(GroupCommitFindings { rows, others })
}

fn log_row(
    arm: DurableArm,
    writers: &[DurableArm],
    sizes: Option<&SizesFindings>,
) -> GroupCommitRow {
    let is_like = |other: &ArmSetting| {
        let log = &arm.setting;
        other.committers() == log.committers()
            && (other.method, other.block_size) == (log.method, log.block_size)
            && other.location == log.location
    };
    let independent = writers.iter().find(|arm| is_like(&arm.setting)).cloned();
    let other = independent.as_ref().and_then(DurableArm::rate);
    GroupCommitRow {
        // Both are measured: the block layer merges concurrent flushes, so that independent writers
        // do better than a flush each (docs/design/0007).
        gain: arm.rate().zip(other).map(|(own, other)| own / other),
        predicted_per_second: batched_rate(sizes, &arm.setting),
        independent,
        arm,
    }
}

/// What limits writes as they grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Their number: a larger write takes hardly longer.
    Number,
    /// Their bytes: a larger write takes as much longer.
    Bytes,
    Both,
}

impl LimitedBy {
    /// As users read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Number => "number of writes",
            Self::Bytes => "bytes",
            Self::Both => "both",
        }
    }
}

/// d ln(time of a write) ÷ d ln(size), from one measured size to the next: 0 if a larger write
/// takes no longer, 1 if its time grows in proportion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeElasticity {
    pub writers: u32,
    pub from_bytes: f64,
    pub to_bytes: f64,
    pub elasticity: f64,
    /// Its meaning, by [`limited_by`].
    pub limited_by: LimitedBy,
}

/// Time of a write at a size, with the same number of writers at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeRate {
    pub size_bytes: f64,
    /// Bytes per second, all writers together.
    pub bandwidth_bytes_per_second: f64,
}

/// Below a third of the growth in size the time follows the number of writes, above two thirds the
/// bytes. By the cost model the elasticity is the share of the bytes in the time of a write: the
/// bounds are those where one part is twice the other.
pub fn limited_by(elasticity: f64) -> LimitedBy {
    if elasticity < 1.0 / 3.0 {
        LimitedBy::Number
    } else if elasticity > 2.0 / 3.0 {
        LimitedBy::Bytes
    } else {
        LimitedBy::Both
    }
}

/// The elasticity between two sizes; `None` for values that are not above zero or equal sizes.
pub fn elasticity(small: SizeRate, large: SizeRate) -> Option<f64> {
    let grown = (large.size_bytes / small.size_bytes).ln();
    // Time is writers × size ÷ bandwidth: with equal writers, what bandwidth gains of the growth in
    // size, time does not.
    let gained = (large.bandwidth_bytes_per_second / small.bandwidth_bytes_per_second).ln();
    let found = 1.0 - gained / grown;
    (grown.abs() > 0.0 && found.is_finite()).then_some(found)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrossCell {
    /// As set and measured.
    #[serde(flatten)]
    pub arm: DurableArm,
    /// Time for the volume that all cells have, by the rate that was measured.
    pub seconds_per_volume: f64,
}

/// Sizes by writers with one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrossFindings {
    pub cells: Vec<CrossCell>,
    /// The volume for which the cells' times are given.
    pub volume_bytes: f64,
    /// Along the sizes, for each number of writers.
    pub elasticities: Vec<SizeElasticity>,
    /// What limits in most of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<LimitedBy>,
}

/// A volume that is easily compared.
const VOLUME_BYTES: f64 = 1_073_741_824.0;

pub(super) fn crosses(measured: &ExperimentInput<'_>) -> Vec<CrossFindings> {
    let key = |setting: &ArmSetting| {
        (setting.method, setting.cache, setting.layout, setting.location.clone())
    };
    let groups = by_key(arms(measured, Experiment::SizesAndWriters), key);
    groups.into_iter().map(cross).filter(|cross| !cross.cells.is_empty()).collect()
}

fn cross(mut arms: Vec<DurableArm>) -> CrossFindings {
    arms.sort_by_key(|arm| (arm.setting.jobs, arm.setting.block_size));
    let cell = |arm: DurableArm| {
        let seconds_per_volume = VOLUME_BYTES / arm.bandwidth()?;
        Some(CrossCell { arm, seconds_per_volume })
    };
    let cells: Vec<CrossCell> = arms.into_iter().filter_map(cell).collect();
    // Neighbours by writers and size; pairs of different numbers of writers have no elasticity.
    let elasticities: Vec<SizeElasticity> = cells.windows(2).filter_map(step).collect();
    let limited_by = most(&elasticities);
    CrossFindings { cells, volume_bytes: VOLUME_BYTES, elasticities, limited_by }
}

fn step(pair: &[CrossCell]) -> Option<SizeElasticity> {
    let [small, large] = pair else { return None };
    let (a, b) = (&small.arm.setting, &large.arm.setting);
    let of = |cell: &CrossCell| {
        let bandwidth_bytes_per_second = cell.arm.bandwidth()?;
        Some(SizeRate { size_bytes: cell.arm.setting.size(), bandwidth_bytes_per_second })
    };
    let elasticity = elasticity(of(small)?, of(large)?)?;
    (a.jobs == b.jobs && a.files == b.files).then(|| SizeElasticity {
        writers: a.jobs,
        from_bytes: a.size(),
        to_bytes: b.size(),
        elasticity,
        limited_by: limited_by(elasticity),
    })
}

fn most(found: &[SizeElasticity]) -> Option<LimitedBy> {
    let kinds = [LimitedBy::Number, LimitedBy::Bytes, LimitedBy::Both];
    let count = |kind: LimitedBy| found.iter().filter(|found| found.limited_by == kind).count();
    kinds.into_iter().max_by_key(|kind| count(*kind)).filter(|kind| count(*kind) > 0)
}
