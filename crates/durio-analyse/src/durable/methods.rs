//! Sync methods side by side.

use durio_plan::Slice;
use durio_workload::CacheMode;
use serde::{Deserialize, Serialize};

use super::arm::{Arm, Measured, Setting, arms};

/// A method among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MethodRow {
    /// The method as set and measured.
    #[serde(flatten)]
    pub arm: Arm,
    /// Its rate as a share of that of unsynced writes with the same cache mode and file. Above 1 it
    /// is noise: a sync does not make a write faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_unsynced: Option<f64>,
    /// Its rate as a share of the fastest durable method's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_best: Option<f64>,
}

/// The methods.
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

pub(super) fn methods(measured: &Measured<'_>) -> Option<MethodsFindings> {
    let arms = arms(measured, Slice::Methods);
    let durable = || arms.iter().enumerate().filter(|(_, it)| it.setting.is_durable());
    let rates = durable().filter_map(|(at, arm)| Some((at, arm.rate()?)));
    let fastest = rates.max_by(|a, b| a.1.total_cmp(&b.1));
    let p99 = durable().filter_map(|(at, it)| Some((at, it.figures.as_ref()?.latency.p99_ns?)));
    let steadiest = p99.min_by_key(|(_, nanos)| *nanos).map(|(at, _)| at);
    let rows = arms.iter().map(|arm| MethodRow {
        share_of_unsynced: share(arm, unsynced(&arms, &arm.setting).and_then(Arm::rate)),
        share_of_best: share(arm, fastest.map(|it| it.1)).filter(|_| arm.setting.is_durable()),
        arm: arm.clone(),
    });
    let rows: Vec<MethodRow> = rows.collect();
    (!rows.is_empty()).then(|| MethodsFindings { rows, fastest: fastest.map(|it| it.0), steadiest })
}

fn share(arm: &Arm, of: Option<f64>) -> Option<f64> {
    Some(arm.rate()? / of?)
}

/// The unsynced write that differs from an arm by the sync alone.
fn unsynced<'a>(arms: &'a [Arm], like: &Setting) -> Option<&'a Arm> {
    let facts = |it: &Setting| -> (CacheMode, _, _, _, _) {
        (it.cache, it.layout, it.block_size, it.jobs, it.location.clone())
    };
    let is_alike = |it: &&Arm| !it.setting.is_durable() && facts(&it.setting) == facts(like);
    arms.iter()
        .filter(is_alike)
        .max_by(|a, b| a.rate().partial_cmp(&b.rate()).unwrap_or(std::cmp::Ordering::Equal))
}
