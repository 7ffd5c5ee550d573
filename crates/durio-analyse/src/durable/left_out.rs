//! What was not measured, of all that could have been.

use durio_plan::{Plan, Slice, TargetKind};
use serde::{Deserialize, Serialize};

/// What a plan leaves out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LeftOut {
    /// What the plan itself says, a sentence each.
    pub said: Vec<String>,
    /// Questions that no section asks.
    pub slices: Vec<Slice>,
    /// Combinations of every method, cache mode, file mode, size and number of writers that occur.
    pub combinations: u64,
    /// Of them, those that steps measure.
    pub measured: u64,
}

/// Every question of a run of this kind.
const SLICES: [Slice; 11] = [
    Slice::Commands,
    Slice::SyncCalls,
    Slice::Methods,
    Slice::SyncEvery,
    Slice::FlushSlope,
    Slice::FileModes,
    Slice::Sizes,
    Slice::Writers,
    Slice::SizesAndWriters,
    Slice::GroupCommit,
    Slice::CommitDelay,
];

pub(super) fn left_out(plan: &Plan) -> LeftOut {
    let asked = |slice: &Slice| plan.steps.iter().any(|step| super::arm::is_of(plan, step, *slice));
    let mut axes: [Vec<String>; 5] = Default::default();
    let mut measured: Vec<[String; 5]> = Vec::new();
    for step in plan.measured_steps() {
        let workload = &step.load.workload;
        if workload.group_commit.is_some() || workload.sync.every != 1 {
            continue;
        }
        let layout = plan.targets.get(step.load.target).map(|it| &it.kind);
        let layout = match layout {
            Some(TargetKind::NewFile { layout, .. }) => format!("{layout:?}"),
            _ => String::new(),
        };
        let place = [
            workload.sync.method.name().to_owned(),
            format!("{:?}", workload.cache),
            layout,
            workload.block_size.get().to_string(),
            workload.jobs.to_string(),
        ];
        for (axis, value) in axes.iter_mut().zip(&place) {
            if !axis.contains(value) {
                axis.push(value.clone());
            }
        }
        if !measured.contains(&place) {
            measured.push(place);
        }
    }
    let sizes = axes.iter().map(|axis| axis.len() as u64);
    LeftOut {
        said: plan.campaign.as_ref().map(|it| it.left_out.clone()).unwrap_or_default(),
        slices: SLICES.iter().filter(|slice| !asked(slice)).copied().collect(),
        combinations: if measured.is_empty() { 0 } else { sizes.fold(1, u64::saturating_mul) },
        measured: measured.len() as u64,
    }
}
