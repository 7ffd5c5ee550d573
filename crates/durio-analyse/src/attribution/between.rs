//! The same bench on two kernels: how the cost per I/O of each layer changed.
//!
//! In: two [`StackFindings`]. Out: [`LabComparison`]. Not here: absolute speeds, and runs that are
//! no benches ([`compare`](crate::compare)).
//!
//! The cost is time per operation, 1 ÷ rate. Its noise is that of the repeats: the ratio lies
//! between lowest ÷ highest and highest ÷ lowest of the two sides.

use serde::{Deserialize, Serialize};

use super::findings::{IntervalBasis, PointFacts, RowFigures, StackFindings, WorkloadRows};
use super::point::Timing;
use crate::Declined;

/// Name and version of the document.
pub const LAB_COMPARE_SCHEMA: &str = "durio-lab-compare-1";

/// Ratios nearer to one are no difference: rates repeat to one per cent at best.
const SAME: f64 = 0.01;

/// Two benches beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabComparison {
    /// [`LAB_COMPARE_SCHEMA`].
    pub schema: String,
    /// How time passed, on both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// What the figures are, if they are not speeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The baseline, and the other.
    pub sides: [SideName; 2],
    /// Workload by workload.
    pub workloads: Vec<WorkloadChanges>,
    /// Workloads and points that only one side has, in words.
    pub only_one_side: Vec<String>,
}

/// A side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideName {
    /// Name of the bench.
    pub name: String,
    /// Its kernels.
    pub kernels: Vec<String>,
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadChanges {
    /// In words.
    pub label: String,
    /// Layer by layer, in the order of the baseline.
    pub layers: Vec<LayerChange>,
}

/// One point on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerChange {
    /// Name of the stack.
    pub stack: String,
    /// The layers from the top down.
    pub name: String,
    /// Time per operation on the baseline and on the other.
    pub time_per_operation_ns: [f64; 2],
    /// Other ÷ baseline: above 1 it became dearer.
    pub ratio: f64,
    /// Where the ratio may lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_range: Option<[f64; 2]>,
    /// What that range is of.
    pub noise: Noise,
    /// Time that the layer adds to the point just below; `None` of the lowest, and where the point
    /// below has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ns: Option<[f64; 2]>,
    /// Other ÷ baseline of the added time; `None` unless both sides add something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ratio: Option<f64>,
    /// CPU time per operation, of the other ÷ that of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ratio: Option<f64>,
    /// Context switches per operation on both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_operation: Option<[f64; 2]>,
    /// The word.
    pub change: CostChange,
}

/// How a cost changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// Less than before, by more than the noise.
    Cheaper,
    /// More than before, by more than the noise.
    Dearer,
    /// Nothing beyond the noise.
    NoDifference,
}

/// What the range of a ratio is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    /// The repeats of both sides.
    Repeats,
    /// The intervals within single runs: what differs between runs is not in it.
    WithinRuns,
    /// It is not known.
    Unknown,
}

/// Sets two benches beside each other; points are the same if stack and layers are named alike.
///
/// # Errors
///
/// [`Declined::NoSuchRule`] if one is counted and the other is not.
pub fn compare_labs(
    baseline: &StackFindings,
    other: &StackFindings,
) -> Result<LabComparison, Declined> {
    if baseline.timing != other.timing {
        let why = "one side counts instructions and the other does not, or one is no lab: their \
                   times are of different kinds; measure both with the same --timing";
        return Err(Declined::NoSuchRule { why: why.to_owned() });
    }
    let mut only_one_side = only(baseline, other, "the baseline");
    only_one_side.extend(only(other, baseline, "the other side"));
    let workloads = baseline.workloads.iter().filter_map(|rows| {
        let others = other.workloads.iter().find(|it| it.key == rows.key)?;
        Some(changes([baseline, other], [rows, others]))
    });
    Ok(LabComparison {
        schema: LAB_COMPARE_SCHEMA.to_owned(),
        timing: baseline.timing,
        label: baseline.label.clone(),
        sides: [side(baseline), side(other)],
        workloads: workloads.filter(|it| !it.layers.is_empty()).collect(),
        only_one_side,
    })
}

fn side(findings: &StackFindings) -> SideName {
    SideName { name: findings.name.clone(), kernels: findings.kernels.clone() }
}

/// A row with what its point is.
type Row<'a> = (&'a PointFacts, &'a RowFigures);

fn rows<'a>(findings: &'a StackFindings, rows: &'a WorkloadRows) -> Vec<Row<'a>> {
    let with_figures = rows
        .rows
        .iter()
        .filter_map(|row| Some((findings.points.get(row.point)?, row.figures.as_ref()?)));
    with_figures.collect()
}

fn same_point(a: &Row<'_>, b: &Row<'_>) -> bool {
    a.0.stack == b.0.stack && a.0.name == b.0.name
}

/// What only `here` has, in words.
fn only(here: &StackFindings, there: &StackFindings, word: &str) -> Vec<String> {
    let mut only = Vec::new();
    for workload in &here.workloads {
        let others = there.workloads.iter().find(|it| it.key == workload.key);
        let others = others.map(|it| rows(there, it)).unwrap_or_default();
        for row in rows(here, workload) {
            if !others.iter().any(|other| same_point(&row, other)) {
                let point = row.0;
                only.push(format!(
                    "{} on {} in stack {}: measured on {word} only",
                    workload.label, point.name, point.stack
                ));
            }
        }
    }
    only
}

fn changes(sides: [&StackFindings; 2], workloads: [&WorkloadRows; 2]) -> WorkloadChanges {
    let [before, after] = [rows(sides[0], workloads[0]), rows(sides[1], workloads[1])];
    let change = |row: &Row<'_>| {
        let other = after.iter().find(|other| same_point(row, other))?;
        Some(layer_change(row, other))
    };
    let layers = before.iter().filter_map(change).collect();
    WorkloadChanges { label: workloads[0].label.clone(), layers }
}

fn layer_change(baseline: &Row<'_>, other: &Row<'_>) -> LayerChange {
    let (point, before) = *baseline;
    let after = other.1;
    let ratio = after.time_per_operation_ns / before.time_per_operation_ns;
    let (ratio_range, noise) = range(before, after);
    let added = |figures: &RowFigures| figures.against_below.map(|it| it.time_per_operation_ns);
    let added_ns = added(before).zip(added(after)).map(<[f64; 2]>::from);
    let of_added = added_ns.filter(|both| both.iter().all(|it| *it > 0.0));
    let cpu = before.cpu_ns_per_operation.zip(after.cpu_ns_per_operation);
    let switches = |it: &RowFigures| it.context_switches_per_operation;
    LayerChange {
        stack: point.stack.clone(),
        name: point.name.clone(),
        time_per_operation_ns: [before.time_per_operation_ns, after.time_per_operation_ns],
        ratio,
        ratio_range,
        noise,
        added_ns,
        added_ratio: of_added.map(|[a, b]| b / a),
        cpu_ratio: cpu.map(|(a, b)| b / a),
        context_switches_per_operation: switches(before).zip(switches(after)).map(<[f64; 2]>::from),
        change: word(ratio, ratio_range),
    }
}

/// Where the ratio of times may lie, which is that of the rates turned over.
fn range(before: &RowFigures, after: &RowFigures) -> (Option<[f64; 2]>, Noise) {
    let Some((a, b)) = before.rate_interval.zip(after.rate_interval) else {
        return (None, Noise::Unknown);
    };
    let noise = match (a.basis, b.basis) {
        (IntervalBasis::Repeats, IntervalBasis::Repeats) => Noise::Repeats,
        _ => Noise::WithinRuns,
    };
    let range = [a.low_per_second / b.high_per_second, a.high_per_second / b.low_per_second];
    match range.iter().all(|it| it.is_finite()) {
        true => (Some(range), noise),
        false => (None, Noise::Unknown),
    }
}

fn word(ratio: f64, range: Option<[f64; 2]>) -> CostChange {
    let [low, high] = range.unwrap_or([ratio, ratio]);
    if (low..=high).contains(&1.0) || (ratio - 1.0).abs() < SAME {
        CostChange::NoDifference
    } else if ratio > 1.0 {
        CostChange::Dearer
    } else {
        CostChange::Cheaper
    }
}
