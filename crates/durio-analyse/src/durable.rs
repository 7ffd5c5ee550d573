//! What a durable write costs here: methods, file modes, sizes, writers, group commit.
//!
//! In: the plan of `durio durable`, the findings of its steps, and what was traced and probed. Out:
//! [`DurableFindings`]; no report has to compute anything from them. Not here: verdicts on the
//! storage; where a figure bears on one, it is given as evidence.

mod arm;
mod batching;
mod boundaries;
mod commands;
mod commit_delay;
mod contention;
mod cross;
pub(crate) mod device;
mod file_modes;
mod flush_slope;
mod group_commit;
mod left_out;
mod methods;
mod repeated;
mod sizes;
mod sync_every;
mod writers;

use durio_observe::Stack;
use durio_plan::{Purpose, Slice};
use durio_record::{CommitsTraced, SyncCallsProbed};
use serde::{Deserialize, Serialize};

pub(crate) use arm::Measured;
pub use arm::{Arm, Figures, Latencies, Sample, Setting};
pub use batching::{BATCH_SHARE, BatchAdvice, SizeShare, Unbatched};
pub use boundaries::{Boundary, BoundaryKind, Misfit, MisfitKind};
pub use commands::{CommandsFindings, request_words};
pub use commit_delay::{CommitDelayAdvice, CommitDelayFindings};
pub use contention::{Contention, HOLDS_SHARE, Interval, Law, WritersRate, contention};
pub use cross::{
    CrossCell, CrossFindings, LimitedBy, SizeElasticity, SizeRate, elasticity, limited_by,
};
pub use device::DeviceWork;
pub use file_modes::{FileModeRow, FileModesFindings};
pub use flush_slope::{
    AMOUNTS_MIN, FlushPoint, FlushSlope, FlushSlopeFindings, RISE_SHARE, SlopeShape, flush_slope,
};
pub use group_commit::{GroupCommitFindings, GroupCommitRow};
pub use left_out::LeftOut;
pub use methods::{MethodRow, MethodsFindings};
pub use repeated::RepeatedSetting;
pub use sizes::{DurableShare, FREE_SHARE, SMALL_BYTES, SizeCurve, SizesFindings};
pub use sync_every::{SharedSync, SyncEveryFindings, SyncEveryRow};
pub use writers::{WritersFindings, WritersRow};

/// What a durable write costs here. A part is empty if its question was not asked.
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
    /// The time of a flush against what was written before it.
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
    /// Sizes by writers.
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
    pub whole_cross: Vec<Arm>,
    /// What was left out.
    pub left_out: LeftOut,
}

/// The findings; `None` for plans of another purpose.
pub(crate) fn findings(
    measured: &Measured<'_>,
    stacks: &[Stack],
    traced: &[CommitsTraced],
    probed: &[SyncCallsProbed],
) -> Option<DurableFindings> {
    if measured.plan.purpose != Purpose::Durable {
        return None;
    }
    let sizes = sizes::sizes(measured, stacks);
    Some(DurableFindings {
        repeated: repeated::repeated(measured),
        methods: methods::methods(measured),
        sync_every: sync_every::sync_every(measured),
        flush_slopes: flush_slope::flush_slopes(measured),
        file_modes: file_modes::file_modes(measured),
        writers: writers::writers(measured, sizes.as_ref()),
        crosses: cross::crosses(measured),
        group_commit: group_commit::group_commit(measured, sizes.as_ref()),
        commit_delays: commit_delay::commit_delays(measured),
        commands: commands::commands(measured, traced),
        sync_calls: commands::probes(measured, probed),
        whole_cross: arm::arms(measured, Slice::Cross),
        left_out: left_out::left_out(measured.plan),
        sizes,
    })
}
