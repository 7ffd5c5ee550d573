//! Compares ways of writing: sync methods, layouts of the file, and settings measured more than
//! once in the run.
//!
//! The arms of their experiments give rows with the shares of each other. A difference between rows
//! must exceed the distance between rates of the same setting; the flush slope does not count
//! there, because its writes are random.

use durio_plan::{Experiment, FileLayout};
use durio_workload::{CacheMode, SyncMethod};
use serde::{Deserialize, Serialize};

use super::EXPERIMENTS;
use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};
use crate::grouped;
use crate::rate_variation::{Agreement, agreement};

/// The methods that databases use for their logs by default, in the order of PostgreSQL's
/// wal_sync_method (open_datasync, fdatasync, fsync).
pub const DATABASE_METHODS: [SyncMethod; 3] =
    [SyncMethod::ODsync, SyncMethod::Fdatasync, SyncMethod::Fsync];

/// A method among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodRow {
    /// The method as set and measured.
    #[serde(flatten)]
    pub arm: DurableArm,
    /// Its rate as a share of that of unsynced writes with the same cache mode and file. Above 1 it
    /// is noise: a sync does not make a write faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_unsynced: Option<f64>,
    /// Its rate as a share of the fastest durable method's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_best: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodsFindings {
    /// One for each method, cache mode and file mode, in the order of the plan.
    pub rows: Vec<MethodRow>,
    /// Position of the durable method with the highest rate, which is what pg_test_fsync ranks by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest: Option<usize>,
    /// Position of the durable method with the lowest 99th percentile, which may be another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiest: Option<usize>,
}

pub(super) fn methods(measured: &ExperimentInput<'_>) -> Option<MethodsFindings> {
    let arms = arms(measured, Experiment::Methods);
    let durable = || arms.iter().enumerate().filter(|(_, arm)| arm.setting.is_durable());
    let rates = durable().filter_map(|(at, arm)| Some((at, arm.rate()?)));
    let fastest = rates.max_by(|a, b| a.1.total_cmp(&b.1));
    // The method with the highest rate may be the one with the longest pauses.
    let p99 = durable().filter_map(|(at, arm)| Some((at, arm.figures.as_ref()?.latency.p99_ns?)));
    let steadiest = p99.min_by_key(|(_, nanos)| *nanos).map(|(at, _)| at);
    let rows = arms.iter().map(|arm| MethodRow {
        share_of_unsynced: share(arm, unsynced(&arms, &arm.setting).and_then(DurableArm::rate)),
        share_of_best: share(arm, fastest.map(|fastest| fastest.1))
            .filter(|_| arm.setting.is_durable()),
        arm: arm.clone(),
    });
    let rows: Vec<MethodRow> = rows.collect();
    (!rows.is_empty()).then(|| MethodsFindings {
        rows,
        fastest: fastest.map(|fastest| fastest.0),
        steadiest,
    })
}

fn share(arm: &DurableArm, of: Option<f64>) -> Option<f64> {
    Some(arm.rate()? / of?)
}

/// The unsynced write that differs from an arm by the sync alone.
fn unsynced<'a>(arms: &'a [DurableArm], like: &ArmSetting) -> Option<&'a DurableArm> {
    let facts = |setting: &ArmSetting| -> (CacheMode, _, _, _, _) {
        (setting.cache, setting.layout, setting.block_size, setting.jobs, setting.location.clone())
    };
    // The fastest counts: a share of a disturbed one would make the sync look cheap.
    let is_alike =
        |arm: &&DurableArm| !arm.setting.is_durable() && facts(&arm.setting) == facts(like);
    arms.iter()
        .filter(is_alike)
        .max_by(|a, b| a.rate().partial_cmp(&b.rate()).unwrap_or(std::cmp::Ordering::Equal))
}

/// A layout among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileModeRow {
    /// As set and measured.
    #[serde(flatten)]
    pub arm: DurableArm,
    /// Its rate as a share of the recycled file's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_recycled: Option<f64>,
    /// Device writes per commit beyond the recycled file's: journal and metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further_writes_per_commit: Option<f64>,
}

/// The layouts with one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileModesFindings {
    /// One for each layout.
    pub rows: Vec<FileModeRow>,
}

pub(super) fn file_modes(measured: &ExperimentInput<'_>) -> Vec<FileModesFindings> {
    let key = |setting: &ArmSetting| {
        (setting.method, setting.cache, setting.block_size, setting.location.clone())
    };
    by_key(arms(measured, Experiment::FileModes), key).into_iter().map(beside_recycled).collect()
}

fn beside_recycled(arms: Vec<DurableArm>) -> FileModesFindings {
    // This layout has no extents to convert and no size to change: a mode's additional cost is the
    // filesystem's.
    let is_recycled = |arm: &&DurableArm| arm.setting.layout == Some(FileLayout::Incompressible);
    let recycled = arms.iter().find(is_recycled).cloned();
    let rate = recycled.as_ref().and_then(DurableArm::rate);
    let writes = recycled.as_ref().and_then(writes_per_commit);
    let row = |arm: DurableArm| FileModeRow {
        share_of_recycled: arm.rate().zip(rate).map(|(own, other)| own / other),
        further_writes_per_commit: writes_per_commit(&arm).zip(writes).map(|(a, b)| a - b),
        arm,
    };
    FileModesFindings { rows: arms.into_iter().map(row).collect() }
}

fn writes_per_commit(arm: &DurableArm) -> Option<f64> {
    Some(arm.figures.as_ref()?.device?.writes_per_commit)
}

/// A setting and its rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepeatedSetting {
    /// How it was set, each time.
    pub setting: ArmSetting,
    pub rates: Agreement,
}

/// Settings measured more than once, the farthest apart first.
pub(super) fn repeated(measured: &ExperimentInput<'_>) -> Vec<RepeatedSetting> {
    use Experiment::{Commands, FlushSlope, SyncCalls};
    // The others measure requests, calls and single flushes.
    let has_rates =
        |experiment: &&Experiment| !matches!(experiment, Commands | SyncCalls | FlushSlope);
    let all = EXPERIMENTS.iter().filter(has_rates);
    let all = all.flat_map(|experiment| arms(measured, *experiment));
    let found = grouped(all, |a, b| a.setting == b.setting).into_iter().filter_map(|alike| {
        let samples =
            alike.iter().flat_map(|arm| &arm.figures).flat_map(|figures| &figures.samples);
        let rates: Vec<f64> = samples.map(|sample| sample.rate_per_second).collect();
        Some(RepeatedSetting {
            setting: alike.into_iter().next()?.setting,
            rates: agreement(&rates)?,
        })
    });
    let mut found: Vec<RepeatedSetting> = found.collect();
    found.sort_by(|a, b| factor(&b.rates).total_cmp(&factor(&a.rates)));
    found
}

fn factor(rates: &Agreement) -> f64 {
    rates.rate_max_per_second / rates.rate_min_per_second.max(1e-9)
}
