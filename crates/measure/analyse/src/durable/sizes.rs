//! The cost of one writer's writes by their size, durable and not.
//!
//! The arms of the sizes' experiment give [`SizesFindings`]: a curve for each method with its cost
//! model, and the share of the unsynced bandwidth that durable writes keep at each size. Where a
//! model does not hold, a [`ModelDeviation`] names the limits of the layers that lie there: a limit
//! may be the reason, and the reason may be unknown, for a device's caches show no limit to the
//! kernel.

use durio_base::stats::least_squares::{distinct, float, median, range};
use durio_observe::Stack;
use durio_plan::Experiment;
use durio_workload::CacheMode;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};
use super::batching::{BatchAdvice, batch_advice};
use crate::DeclinedAnalysis;
use crate::cost_model::{self, CostModel, InverseEstimate, SizeCost};

/// The sizes of one method and cache mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeCurve {
    /// How it was set; its size is that of the first point.
    pub setting: ArmSetting,
    /// One for each size, rising.
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

/// A size at which behaviour changes, as the kernel reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeBoundary {
    pub layer: String,
    pub kind: BoundaryKind,
    pub size_bytes: f64,
}

/// The kind of a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundaryKind {
    /// Larger writes are several requests (`queue/max_sectors_kb`).
    LargestRequest,
    /// Smaller or unaligned writes make the device read first (`queue/physical_block_size`).
    PhysicalBlock,
    /// The page: smaller buffered writes read first, and filesystems allocate no less.
    Page,
}

impl BoundaryKind {
    /// As users read it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::LargestRequest => "the largest request",
            Self::PhysicalBlock => "the physical block",
            Self::Page => "the page of 4 KiB",
        }
    }
}

/// How the model deviates there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "misfit")]
pub enum DeviationKind {
    /// The cost per byte changes between these sizes.
    Bend {
        /// The last measured size below.
        from_bytes: f64,
        /// The first measured size above.
        to_bytes: f64,
        /// Cost per byte above ÷ below.
        factor: f64,
    },
    /// A size takes longer or shorter than the model says.
    Residual {
        size_bytes: f64,
        /// Measured ÷ model − 1.
        share: f64,
    },
}

/// Where the model does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelDeviation {
    #[serde(flatten)]
    pub kind: DeviationKind,
    /// The limits that lie there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<SizeBoundary>,
}

/// Pages of every architecture that durio runs on by default.
const PAGE_BYTES: f64 = 4096.0;

/// The least deviation that is reported.
// No user would plan for a smaller one.
const DEVIATION_MIN: f64 = 0.1;

/// The limits of all layers, rising, each once.
fn boundaries(stacks: &[Stack]) -> Vec<SizeBoundary> {
    let page =
        SizeBoundary { layer: "kernel".into(), kind: BoundaryKind::Page, size_bytes: PAGE_BYTES };
    let mut all = vec![page];
    for (_, layer) in stacks.iter().flat_map(Stack::walk) {
        let Some(block) = &layer.block else { continue };
        let of = |kind, size_bytes| SizeBoundary { layer: layer.name.clone(), kind, size_bytes };
        let largest = block.max_sectors_kib.map(|kib| float(kib) * 1024.0);
        all.extend(largest.map(|size| of(BoundaryKind::LargestRequest, size)));
        // The kernel assumes 512 for a device that reports nothing, and no write here is smaller.
        let physical =
            block.physical_block_size.map(|size| float(size.get())).filter(|size| *size > 512.0);
        all.extend(physical.map(|size| of(BoundaryKind::PhysicalBlock, size)));
    }
    all.sort_by(|a, b| a.size_bytes.total_cmp(&b.size_bytes));
    all.dedup();
    all
}

/// The model's bend, and sizes off by a tenth and by three times the median error.
fn deviations(
    model: &CostModel,
    costs: &[SizeCost],
    known: &[SizeBoundary],
) -> Vec<ModelDeviation> {
    let bend = model.bend.as_ref().map(|bend| {
        let factor = bend.ns_per_byte_above.value / model.ns_per_byte.value;
        let (from_bytes, to_bytes) = (bend.at_bytes, bend.below_bytes);
        // The first size that is split lies just above the limit; the lines cross somewhere between.
        let within =
            |boundary: &&SizeBoundary| (from_bytes..to_bytes).contains(&boundary.size_bytes);
        let kind = DeviationKind::Bend { from_bytes, to_bytes, factor };
        ModelDeviation { kind, near: known.iter().filter(within).cloned().collect() }
    });
    bend.into_iter().chain(residuals(model, costs, known)).collect()
}

fn residuals(model: &CostModel, costs: &[SizeCost], known: &[SizeBoundary]) -> Vec<ModelDeviation> {
    let sizes = distinct(costs.iter().map(|cost| cost.size_bytes));
    let bound = (3.0 * model.residual_share).max(DEVIATION_MIN);
    let deviation = |(at, size): (usize, &f64)| {
        let same = costs.iter().filter(|cost| (cost.size_bytes - size).abs() < 0.5);
        let latencies: Vec<f64> = same.map(|cost| cost.latency_ns).collect();
        let share = median(&latencies)? / model.latency_ns(*size) - 1.0;
        let below = at.checked_sub(1).and_then(|at| sizes.get(at)).copied().unwrap_or(0.0);
        // Below a block the cost is that of reading first; above a limit it is that of splitting.
        let near = |boundary: &&SizeBoundary| match boundary.kind {
            BoundaryKind::LargestRequest => (below..*size).contains(&boundary.size_bytes),
            BoundaryKind::Page | BoundaryKind::PhysicalBlock => *size < boundary.size_bytes,
        };
        let kind = DeviationKind::Residual { size_bytes: *size, share };
        let near = || known.iter().filter(near).cloned().collect();
        (share.abs() > bound).then(|| ModelDeviation { kind, near: near() })
    };
    sizes.iter().enumerate().filter_map(deviation).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost_model::fit;

    fn costs(cost: impl Fn(f64) -> f64) -> Vec<SizeCost> {
        let sizes = (0..12).map(|power| 512.0 * f64::from(1 << power));
        sizes.map(|size_bytes| SizeCost { size_bytes, latency_ns: cost(size_bytes) }).collect()
    }

    fn known() -> Vec<SizeBoundary> {
        let of = |kind, size_bytes| SizeBoundary { layer: "vda".into(), kind, size_bytes };
        vec![of(BoundaryKind::Page, 4096.0), of(BoundaryKind::LargestRequest, 131_072.0)]
    }

    #[test]
    fn a_bend_at_the_largest_request_names_it() {
        let costs = costs(|size| 1e5 + 0.2 * size + 2.0 * (size - 131_072.0).max(0.0));
        let found = deviations(&fit(&costs).unwrap(), &costs, &known());
        let DeviationKind::Bend { from_bytes, factor, .. } = found[0].kind else {
            panic!("{found:?}")
        };
        assert!((from_bytes - 131_072.0).abs() < 1.0 && (factor - 11.0).abs() < 0.1, "{found:?}");
        assert_eq!(found[0].near, [known()[1].clone()]);
    }

    #[test]
    fn small_writes_that_read_first_are_named_with_the_page() {
        let costs = costs(|size| if size < 4096.0 { 3e5 } else { 1e5 + 0.5 * size });
        let model = fit(&costs[3..]).unwrap();
        let found = deviations(&model, &costs, &known());
        let near_page = |deviation: &&ModelDeviation| {
            deviation.near.iter().any(|boundary| boundary.kind == BoundaryKind::Page)
        };
        let small = found.iter().find(near_page).unwrap_or_else(|| panic!("{found:?}"));
        let DeviationKind::Residual { size_bytes, share } = small.kind else { panic!("{found:?}") };
        assert!(size_bytes < 4096.0 && share > 1.5, "{found:?}");
        assert_eq!(found.len(), 3, "512 to 2048 bytes: {found:?}");
    }

    #[test]
    fn a_line_that_holds_has_no_deviation() {
        let costs = costs(|size| 1e5 + 0.5 * size);
        assert_eq!(deviations(&fit(&costs).unwrap(), &costs, &known()), []);
    }

    #[test]
    fn a_size_is_told_from_a_tenth_off_on() {
        let off = |share: f64| {
            let mut costs = costs(|size| 1e5 + 0.5 * size);
            let model = fit(&costs).unwrap();
            costs[5].latency_ns *= 1.0 + share;
            deviations(&model, &costs, &known()).len()
        };
        assert_eq!([off(0.099), off(0.101), off(-0.099), off(-0.101)], [0, 1, 0, 1]);
    }

    #[test]
    fn the_kernels_page_is_a_limit_everywhere() {
        let page =
            SizeBoundary { layer: "kernel".into(), kind: BoundaryKind::Page, size_bytes: 4096.0 };
        assert_eq!(boundaries(&[]), [page]);
    }
}
