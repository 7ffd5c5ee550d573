//! The cost of a durable write here: methods, file modes, sizes, writers, group commit.
//!
//! The plan of `durio durable`, the findings of its steps, and its traces and probes give
//! [`DurableFindings`]; reports compute nothing from them. Where a result bears on a verdict about
//! the storage, it is given as evidence.

mod arm;
mod commit_delay;
mod contention;
mod device;
mod methods;
mod sizes;
mod sync_cost;
mod writers;

use durio_observe::Stack;
use durio_plan::{Experiment, Load, Plan, Purpose};
use durio_record::{CommitsTraced, SyncCallsProbed};
use serde::{Deserialize, Serialize};

use crate::each_once;
pub use crate::measurement::DeviceWork;

pub(crate) use arm::ExperimentInput;
pub use arm::{ArmFigures, ArmLatencies, ArmSetting, DurableArm};
pub use commit_delay::{CommitDelayAdvice, CommitDelayFindings};
pub use contention::{Contention, FigureInterval, HOLDS_SHARE, Law, WritersRate, contention};
pub use device::{CommandsFindings, request_words};
pub use methods::{
    DATABASE_METHODS, FileModeRow, FileModesFindings, MethodRow, MethodsFindings, RepeatedSetting,
};
pub use sizes::{
    BATCH_SHARE, BatchAdvice, BoundaryKind, DeviationKind, DurableShare, FREE_SHARE,
    ModelDeviation, SMALL_BYTES, SizeBoundary, SizeCurve, SizeShare, SizesFindings, UnbatchedCost,
};
pub use sync_cost::{
    AMOUNTS_MIN, FlushPoint, FlushSlope, FlushSlopeFindings, RISE_SHARE, SharedSync, SlopeShape,
    SyncEveryFindings, SyncEveryRow, flush_slope,
};
pub use writers::{
    CrossCell, CrossFindings, GroupCommitFindings, GroupCommitRow, LimitedBy, SizeElasticity,
    SizeRate, WritersFindings, WritersRow, elasticity, limited_by,
};

/// The cost of a durable write here. A part is empty if its question was not asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DurableFindings {
    /// Ways of writing that were measured more than once in the run, the farthest apart first: what
    /// a difference between other rows must exceed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<RepeatedSetting>,
    /// Sync methods side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<MethodsFindings>,
    /// A sync after every N writes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sync_every: Vec<SyncEveryFindings>,
    /// The time of a flush against the data written before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flush_slopes: Vec<FlushSlopeFindings>,
    /// Layouts of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_modes: Vec<FileModesFindings>,
    /// Sizes of one writer's writes, with the cost models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<SizesFindings>,
    /// Numbers of writers, with the contention models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<WritersFindings>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crosses: Vec<CrossFindings>,
    /// Group commit against independent writers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_commit: Option<GroupCommitFindings>,
    /// Commit delays and batch bounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commit_delays: Vec<CommitDelayFindings>,
    /// What commits sent to the devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandsFindings>,
    /// Sync calls, through the C library and through the kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sync_calls: Vec<SyncCallsProbed>,
    /// Every combination that the whole cross measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole_cross: Vec<DurableArm>,
    /// The unmeasured part of all possible combinations.
    #[serde(rename = "left_out")]
    pub skipped: SkippedParts,
}

/// The findings; `None` for plans of another purpose.
pub(crate) fn findings(
    measured: &ExperimentInput<'_>,
    stacks: &[Stack],
    traced: &[CommitsTraced],
    probed: &[SyncCallsProbed],
) -> Option<DurableFindings> {
    if measured.plan.purpose != Purpose::Durable {
        return None;
    }
    let sizes = sizes::sizes(measured, stacks);
    Some(DurableFindings {
        repeated: methods::repeated(measured),
        methods: methods::methods(measured),
        sync_every: sync_cost::sync_every(measured),
        flush_slopes: sync_cost::flush_slopes(measured),
        file_modes: methods::file_modes(measured),
        writers: writers::writers(measured, sizes.as_ref()),
        crosses: writers::crosses(measured),
        group_commit: writers::group_commit(measured, sizes.as_ref()),
        commit_delays: commit_delay::commit_delays(measured),
        commands: device::commands(measured, traced),
        sync_calls: device::probes(measured, probed),
        whole_cross: arm::arms(measured, Experiment::Cross),
        skipped: skipped(measured.plan),
        sizes,
    })
}

/// The parts that a plan leaves out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SkippedParts {
    /// The plan's statements, a sentence each.
    pub said: Vec<String>,
    /// Questions that no section asks.
    #[serde(rename = "slices")]
    pub experiments: Vec<Experiment>,
    /// Combinations of every method, cache mode, file mode, size and number of writers that occur.
    pub combinations: u64,
    /// The combinations that steps measure.
    pub measured: u64,
}

/// Every question of a run of this kind.
const EXPERIMENTS: [Experiment; 11] = [
    Experiment::Commands,
    Experiment::SyncCalls,
    Experiment::Methods,
    Experiment::SyncEvery,
    Experiment::FlushSlope,
    Experiment::FileModes,
    Experiment::Sizes,
    Experiment::Writers,
    Experiment::SizesAndWriters,
    Experiment::GroupCommit,
    Experiment::CommitDelay,
];

fn skipped(plan: &Plan) -> SkippedParts {
    let asked =
        |experiment: &Experiment| plan.steps.iter().any(|step| arm::is_of(plan, step, *experiment));
    let steps = plan.measured_steps().map(|step| &step.load);
    // Group commit and syncs after several writes are separate questions, not combinations.
    let plain =
        |load: &&Load| load.workload.group_commit.is_none() && load.workload.sync.every == 1;
    let measured: Vec<[String; 5]> = each_once(steps.filter(plain).map(|load| {
        let workload = &load.workload;
        [
            workload.sync.method.name().to_owned(),
            format!("{:?}", workload.cache),
            format!("{:?}", arm::layout_of(plan, load)),
            workload.block_size.get().to_string(),
            workload.jobs.to_string(),
        ]
    }));
    let values =
        |axis: usize| each_once(measured.iter().filter_map(|values| values.get(axis))).len() as u64;
    SkippedParts {
        said: plan.campaign.as_ref().map(|campaign| campaign.left_out.clone()).unwrap_or_default(),
        experiments: EXPERIMENTS.iter().filter(|experiment| !asked(experiment)).copied().collect(),
        combinations: (0..5).map(values).fold(1, u64::saturating_mul),
        measured: measured.len() as u64,
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares and sizes that were made up are small"
)]
mod tests;
