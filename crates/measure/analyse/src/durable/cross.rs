//! Sizes by writers, at equal volume: does the number of writes limit, or their bytes?

use durio_plan::Experiment;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};

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
    #[must_use]
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
    /// The smaller size.
    pub from_bytes: f64,
    /// The larger size.
    pub to_bytes: f64,
    pub elasticity: f64,
    /// Its meaning, by [`limited_by`].
    pub limited_by: LimitedBy,
}

/// Time of a write at a size, with the same number of writers at work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeRate {
    /// Bytes per write.
    pub size_bytes: f64,
    /// Bytes per second, all writers together.
    pub bandwidth_bytes_per_second: f64,
}

/// Below a third of the growth in size the time follows the number of writes, above two thirds the
/// bytes. By the cost model the elasticity is the share of the bytes in the time of a write: the
/// bounds are those where one part is twice the other.
#[must_use]
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
#[must_use]
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
    groups.into_iter().map(of_group).filter(|cross| !cross.cells.is_empty()).collect()
}

fn of_group(mut arms: Vec<DurableArm>) -> CrossFindings {
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
