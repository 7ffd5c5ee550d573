//! Whether the rounds of a section came to a steady state, and long steps that left theirs:
//! throttling, used-up burst credits, garbage collection.

use durio_base::Nanos;
use durio_plan::{Plan, PlanSection, Role, Tracking, Until};
use durio_record::Phase;
use serde::{Deserialize, Serialize};

use super::gather::{FindingsIndex, RowGroup};
use crate::steady_state::SteadyState;
use crate::steady_state::leaving::{Better, Leaving, LeavingShape, leaving};
use crate::steering::{judge, tracked_series};
use crate::{DeclinedAnalysis, IntervalPoint, WorkloadFindings};

/// The rounds of a section as a series, and the judgement on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Name of the workload that is tracked.
    pub tracked: String,
    /// The tracked value.
    pub tracking: Tracking,
    /// That value in each round: per second, bytes per second, or nanoseconds.
    pub series: Vec<f64>,
    /// The judgement, with the lines of its picture.
    pub state: Option<SteadyState>,
    /// Why the judgement is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
}

/// The convergence of a section whose rounds end with a steady state.
pub(super) fn convergence(index: &FindingsIndex<'_>, section: &PlanSection) -> Option<Convergence> {
    let rounds = section.rounds?;
    let Until::SteadyState { tracked, tracking, .. } = rounds.until else { return None };
    let series = tracked_series(section, rounds, rounds.max, |step, round| index.at(step, round));
    let step = section.first_step.saturating_add(tracked);
    let (state, declined) = DeclinedAnalysis::split(judge(&series, rounds));
    Some(Convergence {
        tracked: index.at(step, 0).map_or_else(String::new, |it| it.name.clone()),
        tracking,
        series,
        state,
        declined,
    })
}

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
    /// When the lasting changes were, since the step's start.
    #[serde(rename = "changes_at_ns")]
    pub changes_at: Vec<Nanos>,
}

/// The measured steps that left their state.
pub(super) fn long_runs(plan: &Plan, groups: &[RowGroup<'_>]) -> Vec<LongRun> {
    let is_measured =
        |step: u32| plan.steps.get(step as usize).is_some_and(|step| step.role == Role::Measure);
    let measured = groups.iter().enumerate().filter(|(_, group)| is_measured(group.first.step));
    let runs = measured.flat_map(|(row, group)| group.all.iter().map(move |it| (row, *it)));
    runs.filter_map(|(row, workload)| long_run(row, workload)).collect()
}

fn long_run(row: usize, workload: &WorkloadFindings) -> Option<LongRun> {
    // The ramp leads to the state, and a cut interval's rate is not comparable.
    let counts = |it: &&IntervalPoint| it.phase == Phase::Measure && !it.cut_short;
    let whole: Vec<&IntervalPoint> = workload.intervals.iter().filter(counts).collect();
    let rates: Vec<f64> = whole.iter().map(|it| it.rate).collect();
    // Too few intervals are not a long run.
    let leaving =
        leaving(&rates, Better::Higher).ok().filter(|it| it.shape != LeavingShape::Steady)?;
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
