//! Long steps that left their state: throttling, used-up burst credits, garbage collection.

use durio_plan::{Plan, Role};
use durio_record::Phase;
use durio_units::Nanos;
use serde::{Deserialize, Serialize};

use super::gather::Group;
use crate::steady_state::leaving::{Better, Leaving, Shape, leaving};
use crate::{IntervalPoint, WorkloadFindings};

/// A step whose rate changed while it ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongRun {
    /// Position of its row in the section.
    pub row: usize,
    /// Index of the step in the plan.
    pub step: u32,
    /// Round of its section.
    pub round: u32,
    /// Place of the load among those of the step.
    pub stream: u32,
    /// How its rate changed, over its measured intervals.
    pub leaving: Leaving,
    /// When the lasting changes were, since the step's begin.
    #[serde(rename = "changes_at_ns")]
    pub changes_at: Vec<Nanos>,
}

/// The measured steps that left their state.
pub(super) fn long_runs(plan: &Plan, groups: &[Group<'_>]) -> Vec<LongRun> {
    let is_measured =
        |step: u32| plan.steps.get(step as usize).is_some_and(|step| step.role == Role::Measure);
    let measured = groups.iter().enumerate().filter(|(_, group)| is_measured(group.first.step));
    let runs = measured.flat_map(|(row, group)| group.all.iter().map(move |it| (row, *it)));
    runs.filter_map(|(row, workload)| long_run(row, workload)).collect()
}

fn long_run(row: usize, workload: &WorkloadFindings) -> Option<LongRun> {
    let counts = |it: &&IntervalPoint| it.phase == Phase::Measure && !it.cut_short;
    let whole: Vec<&IntervalPoint> = workload.intervals.iter().filter(counts).collect();
    let rates: Vec<f64> = whole.iter().map(|it| it.rate).collect();
    // Too few intervals are no long run.
    let leaving = leaving(&rates, Better::Higher).ok().filter(|it| it.shape != Shape::Steady)?;
    let at = |interval: usize| whole.get(interval).map(|it| it.from);
    Some(LongRun {
        row,
        step: workload.step,
        round: workload.round,
        stream: workload.stream,
        changes_at: leaving.changes.iter().filter_map(|it| at(it.at_interval)).collect(),
        leaving,
    })
}
