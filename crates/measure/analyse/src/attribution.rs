//! What each layer of a stack costs: the points of a stack bench, compared.
//!
//! [`BenchPoints`] has the findings of the same workloads on raw storage, RAID, volumes and filesystems;
//! [`StackFindings`] are plain data, and a point without results is a row with the reason. The
//! models of RAID and mirrors ([`raid_efficiency`](crate::raid_efficiency),
//! [`mirror`](crate::mirror)) are applied here.
//!
//! Shares are rate ÷ rate. A layer's share of raw is the product of the shares of below along its
//! stack, as long as every point of it was measured.

mod between;
mod findings;
mod from_bench;
mod point;
mod published;
mod raid;
mod rows;
mod steps;
mod warnings;
mod waterfall;

#[cfg(test)]
mod tests;

pub use between::{
    CostChange, LAB_COMPARE_SCHEMA, LabComparison, LayerChange, SideName, WorkloadChanges,
    compare_labs,
};
pub use findings::{
    AddedCost, COUNTED_LABEL, DeviceCost, IntervalBasis, LayerRow, PointFacts, RaidFacts,
    RateInterval, RowFigures, STACK_FINDINGS_SCHEMA, StackFindings, WorkloadRows,
};
pub use from_bench::bench_of;
pub use point::{
    Base, BaseKind, BenchPoints, POINTS_MAX, PointKind, RaidPoint, StackPoint, Timing,
};
pub use published::{PublishedOrder, PublishedRow};
pub use raid::{MirrorRow, RaidRow};
pub use steps::StepKey;
pub use waterfall::{Waterfall, WaterfallBasis, WaterfallStep};

use crate::DeclinedAnalysis;
use rows::WorkloadTable;

/// Compares the points of a bench, workload by workload.
///
/// # Errors
///
/// [`DeclinedAnalysis`] without a point, with more than [`POINTS_MAX`], with a point that lies on none of
/// the points of its stack before it, or with a published share that is no figure. What is wrong
/// with single figures is told in their rows.
pub fn attribution(bench: &BenchPoints<'_>) -> Result<StackFindings, DeclinedAnalysis> {
    point::check(bench)?;
    let keys = steps::keys(&bench.points);
    let tables: Vec<WorkloadTable<'_>> =
        keys.into_iter().map(|key| WorkloadTable::new(bench, key)).collect();
    let mut warnings = warnings::of_bench(bench);
    warnings.extend(warnings::drift(bench, &tables));
    Ok(StackFindings {
        schema: STACK_FINDINGS_SCHEMA.to_owned(),
        name: bench.name.clone(),
        summary: bench.summary.clone(),
        timing: bench.timing,
        label: (bench.timing == Some(Timing::Counted)).then(|| COUNTED_LABEL.to_owned()),
        kernels: point::kernels(bench),
        points: (0..bench.points.len()).filter_map(|at| findings::facts(bench, at)).collect(),
        workloads: tables.iter().map(WorkloadTable::workload_rows).collect(),
        warnings,
    })
}
