//! The cost of one writer's writes by their size, durable and not.
//!
//! The arms of the sizes' experiment give [`SizesFindings`]: a curve for each method with its cost
//! model, and the share of the unsynced bandwidth that durable writes keep at each size.

use durio_base::stats::least_squares::{distinct, range};
use durio_observe::Stack;
use durio_plan::Experiment;
use durio_workload::CacheMode;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};
use super::batching::{BatchAdvice, batch_advice};
use super::model_deviation::{ModelDeviation, PAGE_BYTES, SizeBoundary, boundaries, deviations};
use crate::DeclinedAnalysis;
use crate::cost_model::{self, CostModel, InverseEstimate, SizeCost};

/// One method's sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeCurve {
    /// How it was set; its size is that of the first point.
    pub setting: ArmSetting,
    /// Rising sizes.
    pub arms: Vec<DurableArm>,
    /// Fixed cost and cost per byte, from all repetitions, of sizes from 4 KiB on if these suffice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<CostModel>,
    /// Bandwidth in bytes per second by the cost per byte, beyond the bend if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes_per_second: Option<InverseEstimate>,
    /// Where the model does not hold.
    #[serde(rename = "misfits", default, skip_serializing_if = "Vec::is_empty")]
    pub deviations: Vec<ModelDeviation>,
    /// The model's advice on batches; only for durable writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batching: Option<BatchAdvice>,
    /// Why the model is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
}

/// Durable against unsynced writes of a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DurableShare {
    /// Bytes per write.
    pub size_bytes: f64,
    /// Position of the durable curve.
    pub durable_curve: usize,
    /// Position of the unsynced curve: buffered, where there is one.
    pub unsynced_curve: usize,
    /// Bandwidth of the durable over that of the unsynced writes; above 1 it is noise.
    pub share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizesFindings {
    /// A curve for each method and cache mode.
    pub curves: Vec<SizeCurve>,
    /// Durable against unsynced, by size.
    pub shares: Vec<DurableShare>,
    /// The limits that the kernel reports, which may bend a curve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boundaries: Vec<SizeBoundary>,
    /// Small durable writes keep [`FREE_SHARE`] or more of the bandwidth of unsynced ones that went
    /// past the cache, or of buffered ones: durability seems to cost nothing, which is what a
    /// storage that acknowledges too early looks like. `None` without sizes up to
    /// [`SMALL_BYTES`] on both sides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_at_small_sizes: Option<bool>,
}

/// Writes that a database's log makes.
pub const SMALL_BYTES: f64 = 16_384.0;

/// At this share durability costs less than measurements scatter. RavenDB (2025) takes the same
/// sign, that direct and durable small writes are hardly slower, as a reason to doubt the storage.
pub const FREE_SHARE: f64 = 0.9;

pub(super) fn sizes(measured: &ExperimentInput<'_>, stacks: &[Stack]) -> Option<SizesFindings> {
    let key = |setting: &ArmSetting| {
        (setting.method, setting.cache, setting.layout, setting.jobs, setting.location.clone())
    };
    let groups = by_key(arms(measured, Experiment::Sizes), key);
    let boundaries = boundaries(stacks);
    let curves: Vec<SizeCurve> =
        groups.into_iter().filter_map(|arms| curve(arms, &boundaries)).collect();
    let shares = shares(&curves);
    let free_at_small_sizes = is_free(&shares);
    (!curves.is_empty()).then_some(SizesFindings {
        curves,
        shares,
        boundaries,
        free_at_small_sizes,
    })
}

/// The times of single writes until they are durable, of every repetition.
// Only of one writer that waits for each: others' times contain waiting for each other.
fn costs(arms: &[DurableArm]) -> Vec<SizeCost> {
    let of = |arm: &DurableArm| {
        let size_bytes = arm.setting.size();
        let samples = arm.figures.iter().flat_map(|figures| figures.samples.clone());
        let cost = move |latency_ns| SizeCost { size_bytes, latency_ns };
        samples.map(move |sample| cost(sample.latency_ns_mean)).collect::<Vec<_>>()
    };
    arms.iter().filter(|arm| arm.setting.jobs == 1).flat_map(of).collect()
}

fn curve(mut arms: Vec<DurableArm>, boundaries: &[SizeBoundary]) -> Option<SizeCurve> {
    arms.sort_by_key(|arm| arm.setting.block_size);
    let setting = arms.first()?.setting.clone();
    let costs = costs(&arms);
    // Writes below a page read before they write, in the kernel or in the device: their cost is
    // another line (docs/design/0008).
    let (model, declined) = DeclinedAnalysis::split(cost_model::describe(&whole_pages(&costs)));
    let found = model.as_ref();
    let (smallest, largest) = range(costs.iter().map(|cost| cost.size_bytes));
    let batching = found.filter(|_| setting.is_durable());
    let batching = batching.and_then(|model| batch_advice(model, largest, smallest));
    Some(SizeCurve {
        deviations: found.map(|model| deviations(model, &costs, boundaries)).unwrap_or_default(),
        bandwidth_bytes_per_second: found.map(bandwidth),
        batching,
        model,
        declined,
        setting,
        arms,
    })
}

/// The sizes of a page or more, if those are enough for a line.
// A smaller write includes the kernel's or the device's reading before it, and would bend the line.
// The deviations show how far they lie off.
fn whole_pages(costs: &[SizeCost]) -> Vec<SizeCost> {
    let whole: Vec<SizeCost> =
        costs.iter().filter(|cost| cost.size_bytes >= PAGE_BYTES).copied().collect();
    let sizes = distinct(whole.iter().map(|cost| cost.size_bytes));
    if sizes.len() >= cost_model::SIZES_MIN { whole } else { costs.to_vec() }
}

/// One over the cost per byte, from nanoseconds to seconds.
fn bandwidth(model: &CostModel) -> InverseEstimate {
    let cost = model.bend.as_ref().map_or(model.ns_per_byte, |bend| bend.ns_per_byte_above);
    let found = cost.inverse();
    let per_second = |value: Option<f64>| value.map(|value| value * 1e9);
    InverseEstimate {
        value: per_second(found.value),
        low: per_second(found.low),
        high: per_second(found.high),
    }
}

/// Each durable curve against the unsynced one: the buffered, else the direct.
fn shares(curves: &[SizeCurve]) -> Vec<DurableShare> {
    let unsynced = |cache: CacheMode| {
        curves.iter().position(|curve| !curve.setting.is_durable() && curve.setting.cache == cache)
    };
    // Buffered, as a program writes that syncs nothing.
    let Some(other) = unsynced(CacheMode::Buffered).or_else(|| unsynced(CacheMode::Direct)) else {
        return Vec::new();
    };
    let durable = curves.iter().enumerate().filter(|(_, curve)| curve.setting.is_durable());
    let of_curve = |(at, curve): (usize, &SizeCurve)| -> Vec<DurableShare> {
        let share = |arm: &DurableArm| {
            let same = curves.get(other)?.arms.iter();
            let mut same = same.filter(|other| other.setting.block_size == arm.setting.block_size);
            let share = arm.bandwidth()? / same.next()?.bandwidth()?;
            let size_bytes = arm.setting.size();
            Some(DurableShare { size_bytes, durable_curve: at, unsynced_curve: other, share })
        };
        curve.arms.iter().filter_map(share).collect()
    };
    durable.flat_map(of_curve).collect()
}

fn is_free(shares: &[DurableShare]) -> Option<bool> {
    let small: Vec<f64> = shares
        .iter()
        .filter(|share| share.size_bytes <= SMALL_BYTES)
        .map(|share| share.share)
        .collect();
    (!small.is_empty()).then(|| small.iter().all(|share| *share >= FREE_SHARE))
}
