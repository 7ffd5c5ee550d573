//! The cost of one writer's writes by their size, durable and not.
//!
//! The arms of the sizes' experiment give [`SizesFindings`]: a curve for each method with its cost
//! model, and the share of the unsynced bandwidth that durable writes keep at each size. Where a
//! model does not hold, a [`ModelDeviation`] names the limits of the layers that lie there: a limit
//! may be the reason, and the reason may be unknown, for a device's caches show no limit to the
//! kernel. What a model means for batches is [`BatchAdvice`]: how large a write must be for a share of
//! the bandwidth, what share a record size reaches alone, and the price of doing without batches.

use durio_base::stats::least_squares::{distinct, float, median, range};
use durio_observe::Stack;
use durio_plan::Experiment;
use durio_workload::CacheMode;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};
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

/// A size and the share of the bandwidth that it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeShare {
    pub size_bytes: f64,
    /// Share of the highest bandwidth, 0 to 1.
    pub share: f64,
    /// The size is beyond those measured.
    pub is_extrapolated: bool,
}

/// The cost of making each record durable separately.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UnbatchedCost {
    /// Bytes of a record.
    pub record_bytes: f64,
    /// Records in a batch of [`BatchAdvice::batch_bytes`].
    pub records_per_batch: f64,
    /// Time of single records ÷ time of the batch, by the model. A record below the smallest
    /// measured size is taken to cost as much as that size.
    pub factor: f64,
}

/// What follows for batches, with one writer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchAdvice {
    /// The highest bandwidth by the model, in bytes per second, at whatever size.
    pub bandwidth_bytes_per_second: f64,
    /// Write sizes for 50, 80 and 95 % of it.
    pub for_shares: Vec<SizeShare>,
    /// What records of these sizes reach, each made durable by itself.
    pub of_records: Vec<SizeShare>,
    /// Reference batch: that for [`BATCH_SHARE`] of the bandwidth, at most the largest measured.
    pub batch_bytes: f64,
    /// The price of doing without batches.
    pub unbatched: Vec<UnbatchedCost>,
}

/// Shares whose size is reported.
const SHARES: [f64; 3] = [0.5, 0.8, 0.95];

/// Beyond it each doubling of the batch gains less than a tenth: with a fixed cost F and s / B, the
/// share is s ÷ (s + F·B), 0.8 at 4 F·B and 0.89 at 8 F·B.
pub const BATCH_SHARE: f64 = 0.8;

/// Record sizes of databases: a small row's log record, a filesystem block, a PostgreSQL page.
const RECORDS: [f64; 3] = [256.0, 4096.0, 8192.0];

/// `None` unless both the write and its bytes cost something.
fn batch_advice(model: &CostModel, largest: f64, smallest: f64) -> Option<BatchAdvice> {
    let per_byte_beyond =
        model.bend.as_ref().map_or(model.ns_per_byte.value, |bend| bend.ns_per_byte_above.value);
    if model.fixed_ns.value <= 0.0 || model.ns_per_byte.value <= 0.0 || per_byte_beyond <= 0.0 {
        return None;
    }
    let asymptote = 1.0 / per_byte_beyond;
    let at_bend = model.bend.as_ref().map_or(0.0, |bend| rate(model, bend.at_bytes));
    // Where bytes cost more beyond the bend, the bandwidth is highest at the bend itself.
    let highest = asymptote.max(at_bend);
    let share = |size: f64| SizeShare {
        size_bytes: size,
        share: rate(model, size) / highest,
        is_extrapolated: size > largest,
    };
    let for_shares: Vec<SizeShare> =
        SHARES.iter().filter_map(|share| size_for(model, share * highest)).map(share).collect();
    // Within the measured sizes: beyond them the line is only extended, and no advice rests on
    // that.
    let batch = size_for(model, BATCH_SHARE * highest)?.min(largest).max(smallest);
    let unbatched = RECORDS.iter().filter(|record| **record < batch);
    Some(BatchAdvice {
        bandwidth_bytes_per_second: highest * 1e9,
        of_records: RECORDS.iter().map(|record| alone(model, *record, smallest, highest)).collect(),
        batch_bytes: batch,
        unbatched: unbatched.map(|record| price(model, *record, batch, smallest)).collect(),
        for_shares,
    })
}

/// Bytes per nanosecond with writes of a size.
fn rate(model: &CostModel, size: f64) -> f64 {
    size / model.latency_ns(size)
}

fn alone(model: &CostModel, record: f64, smallest: f64, highest: f64) -> SizeShare {
    let reached = record / model.latency_ns(record.max(smallest));
    SizeShare { size_bytes: record, share: reached / highest, is_extrapolated: record < smallest }
}

fn price(model: &CostModel, record: f64, batch: f64, smallest: f64) -> UnbatchedCost {
    // A batch holds whole records.
    let records_per_batch = (batch / record).floor();
    let each = model.latency_ns(record.max(smallest));
    let factor = records_per_batch * each / model.latency_ns(records_per_batch * record);
    UnbatchedCost { record_bytes: record, records_per_batch, factor }
}

/// The smallest size with this many bytes per nanosecond: s = F · r ÷ (1 − a · r) on each of the
/// line's pieces, F its value at zero and a its slope.
fn size_for(model: &CostModel, rate: f64) -> Option<f64> {
    let on = |fixed: f64, slope: f64| {
        let size = fixed * rate / (1.0 - slope * rate);
        (slope * rate < 1.0 && size > 0.0).then_some(size)
    };
    let (fixed, slope) = (model.fixed_ns.value, model.ns_per_byte.value);
    let first = on(fixed, slope);
    let Some(bend) = &model.bend else { return first };
    let above = bend.ns_per_byte_above.value;
    let second = || on(fixed + (slope - above) * bend.at_bytes, above);
    first.filter(|size| *size <= bend.at_bytes).or_else(second)
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

    fn model(cost: impl Fn(f64) -> f64) -> CostModel {
        let sizes = (0..9).map(|power| 4096.0 * f64::from(1 << power));
        let point = |size_bytes| SizeCost { size_bytes, latency_ns: cost(size_bytes) };
        fit(&sizes.map(point).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_size_for_a_share_follows_from_fixed_cost_and_bandwidth() {
        // 1 ms, and a byte per nanosecond: half of the bandwidth with 1 MB, 80 % with 4, 95 % with 19.
        let found = batch_advice(&model(|size| 1e6 + size), 1_048_576.0, 4096.0).unwrap();
        let sizes: Vec<f64> = found.for_shares.iter().map(|share| share.size_bytes / 1e6).collect();
        for (found, planted) in sizes.iter().zip([1.0, 4.0, 19.0]) {
            assert!((found / planted - 1.0).abs() < 1e-6, "{sizes:?}");
        }
        let beyond: Vec<bool> =
            found.for_shares.iter().map(|share| share.is_extrapolated).collect();
        assert_eq!(beyond, [false, true, true]);
        assert!((found.bandwidth_bytes_per_second / 1e9 - 1.0).abs() < 1e-6);
        assert!((found.batch_bytes - 1_048_576.0).abs() < 1e-6, "no larger than what was measured");
    }

    #[test]
    fn the_price_of_doing_without_batches_is_the_fixed_cost_again_and_again() {
        let found = batch_advice(&model(|size| 1e6 + size), 1_048_576.0, 4096.0).unwrap();
        let small = found.unbatched[0];
        assert!((small.records_per_batch - 4096.0).abs() < 1e-9);
        let planted = 4096.0 * (1e6 + 4096.0) / (1e6 + 1_048_576.0);
        assert!((small.factor / planted - 1.0).abs() < 1e-6, "{small:?}");
        assert!(found.of_records[0].is_extrapolated && !found.of_records[1].is_extrapolated);
        assert!((found.of_records[1].share - 4096.0 / (1e6 + 4096.0)).abs() < 1e-6);
    }

    #[test]
    fn beyond_a_bend_the_second_line_counts() {
        let at = 65_536.0;
        let bent = |size: f64| 1e5 + 0.1 * size + 0.9 * (size - at).max(0.0);
        let model = model(bent);
        assert!(model.bend.is_some());
        for rate in [0.2, 0.5, 0.9] {
            let size = size_for(&model, rate).unwrap();
            assert!((size / bent(size) / rate - 1.0).abs() < 1e-6, "{rate}: {size}");
        }
    }

    #[test]
    fn a_write_that_costs_nothing_needs_no_batch() {
        assert_eq!(
            batch_advice(&model(|size| size), 1e6, 4096.0)
                .map(|advice| advice.for_shares.len())
                .unwrap_or(0),
            0
        );
    }

    #[test]
    fn the_reference_batch_has_four_fifths_of_the_bandwidth() {
        let found = batch_advice(&model(|size| 1e6 + size), 1e8, 4096.0).unwrap();
        assert!((found.batch_bytes / 4e6 - 1.0).abs() < 1e-6, "{found:?}");
        // Some 15 625 records of 256 bytes, each of which costs what 4 KiB do.
        let small = found.unbatched[0];
        let records = small.records_per_batch;
        assert!((records - 15_625.0).abs() < 1.5, "{small:?}");
        let factor = records * 1_004_096.0 / (1e6 + 256.0 * records);
        assert!((small.factor / factor - 1.0).abs() < 1e-6, "{small:?}");
    }
}
