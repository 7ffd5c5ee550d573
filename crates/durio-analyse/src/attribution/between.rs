//! The same bench on two kernels: how the cost per I/O of each layer changed.
//!
//! In: [`StackFindings`] of each repeat on both. Out: [`LabComparison`]. Not here: absolute speeds,
//! and runs that are no benches ([`compare`](crate::compare)).
//!
//! The cost is time per operation, 1 ÷ rate. A repeat is a guest of its own: what differs from one
//! boot to the next is the noise, and repeats within one guest do not show it. The rule is in
//! `verdict.rs`.

use serde::{Deserialize, Serialize};

use super::findings::{RowFigures, StackFindings};
use super::gathered::{Gathered, GatheredPoint, gathered};
use super::point::Timing;
use super::verdict::verdict;
use crate::Declined;

/// Name and version of the document.
pub const LAB_COMPARE_SCHEMA: &str = "durio-lab-compare-1";

/// Benches on two kernels beside each other.
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
    /// Its kernels, each once.
    pub kernels: Vec<String>,
    /// How many benches there are of it, each in a guest of its own.
    pub repeats: usize,
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadChanges {
    /// In words.
    pub label: String,
    /// Layer by layer, in the order of the baseline.
    pub layers: Vec<LayerChange>,
}

/// One point on both sides. Of pairs the first is the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerChange {
    /// Name of the stack.
    pub stack: String,
    /// The layers from the top down.
    pub name: String,
    /// Time per operation, of the layer with all that lies below it: geometric mean of the repeats.
    pub time_per_operation_ns: [f64; 2],
    /// The same of each repeat, in the order in which they were made.
    pub time_per_operation_ns_of_repeats: [Vec<f64>; 2],
    /// How far the repeats of each side scatter: highest ÷ lowest − 1; `None` unless both have two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scatter: Option<[f64; 2]>,
    /// Other ÷ baseline: above 1 it became dearer.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio, by the scatter of the repeats; `None` unless both sides
    /// have two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_interval: Option<[f64; 2]>,
    /// Time that the layer adds to the point just below, mean of the repeats; `None` of the lowest,
    /// and where the point below has no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ns: Option<[f64; 2]>,
    /// Other ÷ baseline of the added time; `None` unless both sides add something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_ratio: Option<f64>,
    /// CPU time per operation, mean of the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_operation: Option<[f64; 2]>,
    /// Other ÷ baseline of the CPU time per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ratio: Option<f64>,
    /// Context switches per operation, mean of the repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_operation: Option<[f64; 2]>,
    /// The word.
    pub change: CostChange,
    /// Why it is undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a cost changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostChange {
    /// Less than before, by more than the noise.
    Cheaper,
    /// More than before, by more than the noise.
    Dearer,
    /// The interval lies within 1 % on both sides of none.
    NoDifference,
    /// Neither: the repeats scatter too far, or a side was measured once.
    Undecided,
}

/// Sets the benches of two kernels beside each other, one of each repeat; points are the same if
/// stack and layers are named alike. A point that a repeat has no figures of has one repeat less.
///
/// # Errors
///
/// [`Declined::TooFew`] without a bench of a side; [`Declined::NoSuchRule`] if times are counted in
/// one bench and not in another.
pub fn compare_labs(
    baseline: &[StackFindings],
    other: &[StackFindings],
) -> Result<LabComparison, Declined> {
    let too_few = |given| Declined::TooFew { what: "benches of a kernel".into(), given, needed: 1 };
    let (first, of_other) = baseline.first().zip(other.first()).ok_or(too_few(0))?;
    if baseline.iter().chain(other).any(|it| it.timing != first.timing) {
        let why = "one side counts instructions and the other does not, or one is no lab: their \
                   times are of different kinds; measure both with the same --timing";
        return Err(Declined::NoSuchRule { why: why.to_owned() });
    }
    let [before, after] = [gathered(baseline), gathered(other)];
    let mut only_one_side = only(&before, &after, "the baseline");
    only_one_side.extend(only(&after, &before, "the other side"));
    let workloads = before.iter().filter_map(|it| Some(changes(it, it.like(&after)?)));
    Ok(LabComparison {
        schema: LAB_COMPARE_SCHEMA.to_owned(),
        timing: first.timing,
        label: first.label.clone(),
        sides: [side(first, baseline), side(of_other, other)],
        workloads: workloads.filter(|it| !it.layers.is_empty()).collect(),
        only_one_side,
    })
}

fn side(first: &StackFindings, repeats: &[StackFindings]) -> SideName {
    let mut kernels: Vec<String> = Vec::new();
    for kernel in repeats.iter().flat_map(|it| &it.kernels) {
        if !kernels.contains(kernel) {
            kernels.push(kernel.clone());
        }
    }
    SideName { name: first.name.clone(), kernels, repeats: repeats.len() }
}

/// What only `here` has, in words.
fn only(here: &[Gathered<'_>], there: &[Gathered<'_>], word: &str) -> Vec<String> {
    let mut only = Vec::new();
    for workload in here {
        let others = workload.like(there);
        for GatheredPoint { facts, .. } in &workload.points {
            if !others.is_some_and(|it| it.points.iter().any(|point| point.is_same(facts))) {
                only.push(format!(
                    "{} on {} in stack {}: measured on {word} only",
                    workload.label, facts.name, facts.stack
                ));
            }
        }
    }
    only
}

fn changes(before: &Gathered<'_>, after: &Gathered<'_>) -> WorkloadChanges {
    let change = |point: &GatheredPoint<'_>| {
        let other = after.points.iter().find(|other| other.is_same(point.facts))?;
        layer_change(point, other)
    };
    let layers = before.points.iter().filter_map(change).collect();
    WorkloadChanges { label: before.label.to_owned(), layers }
}

fn layer_change(baseline: &GatheredPoint<'_>, other: &GatheredPoint<'_>) -> Option<LayerChange> {
    let sides = [baseline, other];
    let costs = |point: &GatheredPoint<'_>| -> Vec<f64> {
        point.figures.iter().map(|it| it.time_per_operation_ns).collect()
    };
    let costs = sides.map(costs);
    let verdict = verdict([&costs[0], &costs[1]])?;
    let both =
        |of: &dyn Fn(&RowFigures) -> Option<f64>| Some([baseline.mean(of)?, other.mean(of)?]);
    let added_ns = both(&|it| Some(it.against_below?.time_per_operation_ns));
    let cpu = both(&|it| it.cpu_ns_per_operation);
    let quotient = |[a, b]: [f64; 2]| (a > 0.0 && b > 0.0).then(|| b / a);
    Some(LayerChange {
        stack: baseline.facts.stack.clone(),
        name: baseline.facts.name.clone(),
        time_per_operation_ns: verdict.means,
        scatter: scatter(&costs),
        time_per_operation_ns_of_repeats: costs,
        ratio: verdict.ratio,
        ratio_interval: verdict.interval,
        added_ns,
        added_ratio: added_ns.and_then(quotient),
        cpu_ns_per_operation: cpu,
        cpu_ratio: cpu.and_then(quotient),
        context_switches_per_operation: both(&|it| it.context_switches_per_operation),
        change: verdict.change,
        reason: verdict.reason,
    })
}

/// Highest ÷ lowest − 1 of both sides; none unless both have two repeats.
fn scatter(costs: &[Vec<f64>; 2]) -> Option<[f64; 2]> {
    let of = |side: &Vec<f64>| {
        let low = side.iter().copied().fold(f64::INFINITY, f64::min);
        side.iter().copied().fold(f64::NEG_INFINITY, f64::max) / low - 1.0
    };
    costs.iter().all(|it| it.len() > 1).then(|| costs.each_ref().map(of))
}
