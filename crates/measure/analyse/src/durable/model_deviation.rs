//! Where a cost model does not hold, and which known limits lie there.
//!
//! The model, its data and the layers under the location give [`ModelDeviation`]s. A limit at a
//! deviation may be its reason; a device's caches show no limit to the kernel, so the reason may be
//! unknown.

use durio_observe::Stack;
use serde::{Deserialize, Serialize};

use crate::cost_model::{CostModel, SizeCost};
use durio_base::stats::least_squares::{distinct, float, median};

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
        /// The first above.
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
pub(super) const PAGE_BYTES: f64 = 4096.0;

/// The least deviation that is reported.
// No user would plan for a smaller one.
const DEVIATION_MIN: f64 = 0.1;

/// The limits of all layers, rising, each once.
pub(super) fn boundaries(stacks: &[Stack]) -> Vec<SizeBoundary> {
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
pub(super) fn deviations(
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
