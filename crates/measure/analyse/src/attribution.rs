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
mod points;
mod raid;
mod rows;

#[cfg(test)]
mod tests;

pub use between::{
    CostChange, LAB_COMPARE_SCHEMA, LabComparison, LayerChange, SideName, WorkloadChanges,
    compare_labs,
};
pub use findings::{
    AddedCost, COUNTED_LABEL, DeviceCost, IntervalBasis, LayerRow, MirrorRow, PointFacts,
    PublishedOrder, PublishedRow, RaidFacts, RaidRow, RateInterval, RowFigures,
    STACK_FINDINGS_SCHEMA, StackFindings, Waterfall, WaterfallBasis, WaterfallStep, WorkloadRows,
};
pub use from_bench::bench_of;
pub use points::{
    Base, BaseKind, BenchPoints, POINTS_MAX, PointKind, RaidPoint, StackPoint, StepKey, Timing,
};

use crate::{DeclinedAnalysis, WarningFinding};
use durio_base::stats::least_squares::median;
use points::WorkloadTable;

/// Compares the points of a bench, workload by workload.
///
/// # Errors
///
/// [`DeclinedAnalysis`] without a point, with more than [`POINTS_MAX`], with a point that lies on none of
/// the points of its stack before it, or with a published share that is not a number. What is wrong
/// with single figures is told in their rows.
pub fn attribution(bench: &BenchPoints<'_>) -> Result<StackFindings, DeclinedAnalysis> {
    points::check(bench)?;
    let keys = points::keys(&bench.points);
    let tables: Vec<WorkloadTable<'_>> =
        keys.into_iter().map(|key| WorkloadTable::new(bench, key)).collect();
    let mut warnings = warnings(bench);
    warnings.extend(drift(bench, &tables));
    Ok(StackFindings {
        schema: STACK_FINDINGS_SCHEMA.to_owned(),
        name: bench.name.clone(),
        summary: bench.summary.clone(),
        timing: bench.timing,
        label: (bench.timing == Some(Timing::Counted)).then(|| COUNTED_LABEL.to_owned()),
        provisional: provisional(bench),
        kernels: points::kernels(bench),
        points: (0..bench.points.len()).filter_map(|at| findings::facts(bench, at)).collect(),
        workloads: tables.iter().map(rows::workload_rows).collect(),
        warnings,
    })
}

/// Why the results are provisional, as the first of the runs says it.
// Counted instructions hardly differ between a short run and a long one.
fn provisional(bench: &BenchPoints<'_>) -> Option<String> {
    let mut runs = bench.points.iter().flat_map(|point| &point.runs);
    let reason = runs.find_map(|run| run.provisional.clone());
    reason.filter(|_| bench.timing != Some(Timing::Counted))
}

/// Raw rates of the same devices that are farther from their median make the shares of the stacks
/// doubtful.
// A busy machine adds a tenth, which is more than most layers cost.
const DRIFT_SHARE: f64 = 0.1;

/// Warnings that need no results.
fn warnings(bench: &BenchPoints<'_>) -> Vec<WarningFinding> {
    [counted(bench), zram(bench), kernels(bench)].into_iter().flatten().collect()
}

fn counted(bench: &BenchPoints<'_>) -> Option<WarningFinding> {
    (bench.timing == Some(Timing::Counted)).then(|| WarningFinding {
        code: "counted-timing".to_owned(),
        about: Vec::new(),
        seen: "time was counted in instructions, on one virtual processor".to_owned(),
        why: "the figures are software cost per I/O without contention: no lock is ever waited \
              for, and a device takes no time but what it was given on the virtual clock"
            .to_owned(),
        advice: "compare shares and costs with each other; never read them as speed, nor set them \
                 beside published speeds without saying so"
            .to_owned(),
    })
}

fn zram(bench: &BenchPoints<'_>) -> Option<WarningFinding> {
    let over_zram = bench.points.iter().filter(|point| point.base.kind == BaseKind::Zram);
    let mut about: Vec<String> = over_zram.map(|point| point.stack.clone()).collect();
    about.dedup();
    (!about.is_empty()).then(|| WarningFinding {
        code: "zram-baseline".to_owned(),
        about,
        seen: "the raw storage is zram".to_owned(),
        why: "it compresses every write, which takes several microseconds: shares of such a raw \
              rate flatter the layers above"
            .to_owned(),
        advice: "use RAM disks (brd) or null_blk, in the lab if the machine has none".to_owned(),
    })
}

fn kernels(bench: &BenchPoints<'_>) -> Option<WarningFinding> {
    let kernels = points::kernels(bench);
    (kernels.len() > 1).then(|| WarningFinding {
        code: "several-kernels".to_owned(),
        about: Vec::new(),
        seen: format!("the points were measured on {}", kernels.join(", ")),
        why: "the difference between two layers is also one between kernels".to_owned(),
        advice: "measure the whole bench on one kernel".to_owned(),
    })
}

/// Raw storage that was not the same from stack to stack, a warning for each workload.
fn drift(bench: &BenchPoints<'_>, tables: &[WorkloadTable<'_>]) -> Vec<WarningFinding> {
    let mut warnings = Vec::new();
    let mut done: Vec<&Base> = Vec::new();
    for point in bench.points.iter().filter(|point| point.kind == PointKind::Raw) {
        // Each base once: several stacks stand on the same devices.
        if !done.contains(&&point.base) {
            done.push(&point.base);
            warnings.extend(tables.iter().filter_map(|table| drift_of(table, &point.base)));
        }
    }
    warnings
}

fn drift_of(table: &WorkloadTable<'_>, base: &Base) -> Option<WarningFinding> {
    let alike = table.points.iter().enumerate();
    let alike = alike.filter(|(_, point)| point.kind == PointKind::Raw && point.base == *base);
    let rates: Vec<(&str, f64)> = alike
        .filter_map(|(at, point)| Some((point.stack.as_str(), table.at(at)?.rate())))
        .collect();
    let all: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    // The median and not the mean: one disturbed stack must not make all others look off.
    let middle = median(&all)?;
    let off = |rate: f64| rate / middle - 1.0;
    let far: Vec<(&str, f64)> =
        rates.into_iter().filter(|(_, rate)| off(*rate).abs() > DRIFT_SHARE).collect();
    let of_stack = |(stack, rate): &(&str, f64)| format!("{stack} {:+.1} %", off(*rate) * 100.0);
    let seen: Vec<String> = far.iter().map(of_stack).collect();
    (!far.is_empty()).then(|| WarningFinding {
        code: "raw-drift".to_owned(),
        about: far.iter().map(|(stack, _)| (*stack).to_owned()).collect(),
        seen: format!(
            "{}: raw rates are off the median of {} stacks over {}: {}",
            table.key.label(),
            all.len(),
            base.label,
            seen.join(", ")
        ),
        why: "the same devices were not as fast for each stack: its shares hold against its own \
              raw rate, and are doubtful beside those of other stacks"
            .to_owned(),
        advice: "leave the machine alone and repeat; precondition devices that have a state"
            .to_owned(),
    })
}
