//! Campaigns: spec files to plans.
//!
//! From the text of a spec ([`CampaignSpec::parse`]) and the facts about the places that it or the
//! command line names ([`CampaignRequest`]) comes a [`CampaignPlan`]: the plan, and the obstacles
//! to running it. No file, device or clock is used here.
//!
//! ```text
//!   text ── file (value) ── spec ── targets ─┐
//!                            └── axes ── load ── steps (rounds) ── plan
//! ```

pub(crate) mod axes;
pub(crate) mod file;
mod load;
pub(crate) mod steps;
mod targets;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::collections::BTreeSet;

use durio_plan::{
    BatchPolicy, Campaign, ClockChoice, EngineKind, Location, Plan, Purpose, Step, Target,
    TargetKind,
};

pub use file::{CampaignSpec, SPEC_SCHEMA, SpecTarget, spec_json_schema, spec_reference};

use crate::table::value::TimeScale;
use crate::{SpecError, path_traces, plan_of, self_cost_step, with_costs};
use axes::AxisPoint;
use file::Over;
use steps::{CampaignParts, StepContext, StepLadder};
use targets::{TargetPlaces, targets};

/// The most steps that need no confirmation.
// At the minute that a step takes by default, a week.
pub const STEPS_UNCONFIRMED_MAX: u64 = 10_000;
/// The most steps at all: a plan of some gigabytes.
const STEPS_MAX: u64 = 1_000_000;

/// What the user asks of a campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignRequest {
    pub spec: CampaignSpec,
    /// Per target of the spec, in its order, the places that it is.
    pub places: Vec<Vec<Location>>,
    /// Durations, ramps and pauses in thousandths of what the spec says; 1000 is as it says.
    pub time_scale_per_mille: u32,
    /// Sizes of files and volumes in bytes, in thousandths.
    pub size_scale_per_mille: u32,
    /// So many steps are meant.
    pub steps_confirmed: u64,
    /// Seed of every random choice.
    pub seed: u64,
    pub clock: ClockChoice,
    /// Begin of file names for filesystems without unnamed files: unique to the run.
    pub file_name: String,
}

/// A plan, and why it cannot be run as things are.
#[derive(Debug)]
pub struct CampaignPlan {
    pub plan: Plan,
    /// Missing permissions and missing space; a plan with any of them must not be run.
    pub obstacles: Vec<SpecError>,
}

/// Makes the plan.
///
/// # Errors
/// If the spec contradicts itself on these places: a block that does not fit, a ladder that
/// explodes, targets that overlap.
pub fn plan_campaign(request: &CampaignRequest) -> Result<CampaignPlan, SpecError> {
    let spec = &request.spec;
    let scale = TimeScale {
        time_per_mille: request.time_scale_per_mille,
        size_per_mille: request.size_scale_per_mille,
    };
    let ladders: Vec<StepLadder<'_>> = spec
        .file
        .all_steps()
        .into_iter()
        .map(|(is_precondition, block)| StepLadder::new(spec, is_precondition, block, scale))
        .collect::<Result<_, _>>()?;
    // Before any step is made: a slip in a list multiplies to millions.
    check_count(request, &ladders)?;
    let places =
        TargetPlaces { spec, places: &request.places, scale, file_name: &request.file_name };
    let made_targets = targets(places, &jobs_max(spec, &ladders))?;
    let making =
        StepContext { spec, targets: &made_targets.targets, groups: &made_targets.groups, scale };
    let mut made = CampaignParts::default();
    for ladder in &ladders {
        making.add(ladder, &mut made)?;
    }
    // After all steps: the kernel is slower while it traces, and no figure should pay for that.
    let followed = made.followed.iter().filter_map(|&place| made.steps.get(place));
    let followed = path_traces(followed);
    made.steps.extend(followed);
    // Obstacles and not errors: `durio plan` shows the plan all the same.
    let mut obstacles = made_targets.obstacles;
    obstacles.extend(missing_permissions(&made_targets.targets, &made.steps));
    let wanted = spec.file.head.self_cost.get().unwrap_or(true);
    let costs = if wanted { self_costs(&made.steps) } else { Vec::new() };
    let steps = with_costs(costs, made.steps, &mut made.sections);
    let campaign = Campaign {
        name: spec.name().to_owned(),
        summary: spec.summary(),
        sections: made.sections,
        declared: made_targets.declared,
        time_scale_per_mille: request.time_scale_per_mille,
        spec_hash: hash(request),
        ..Campaign::default()
    };
    let (seed, targets) = ((request.seed, request.clock), made_targets.targets);
    let plan = plan_of(Purpose::Campaign, seed, targets, steps);
    let plan = Plan { campaign: Some(campaign), ..plan };
    plan.validate().map_err(|reason| spec.source().error(0, reason))?;
    Ok(CampaignPlan { plan, obstacles })
}

/// One measurement of durio's own cost per engine, depth and batch.
fn self_costs(steps: &[Step]) -> Vec<Step> {
    let loads = steps.iter().flat_map(Step::loads);
    let own = [EngineKind::Sync, EngineKind::Uring, EngineKind::Aio, EngineKind::Mmap];
    let used: BTreeSet<(usize, u32, u32)> = loads
        // By all of them, for all change the cost: with batches of 1 io_uring takes more than
        // twice the processor time per I/O that it takes with 32 (docs/benchmarks.md, null target).
        .filter_map(|load| {
            let engine = own.iter().position(|engine| *engine == load.engine)?;
            Some((engine, load.workload.depth, load.batch.submit_max))
        })
        .collect();
    used.into_iter()
        .map(|(engine, depth, submit_max)| {
            self_cost_step(0, own[engine], depth, BatchPolicy { submit_max })
        })
        .collect()
}

fn check_count(request: &CampaignRequest, ladders: &[StepLadder<'_>]) -> Result<(), SpecError> {
    let paths = |ladder: &StepLadder<'_>| match ladder.block.over.get() {
        // An upper bound, whichever targets the step names: it is asked before anything is
        // resolved.
        Some(Over::OneByOne) => request.places.iter().map(Vec::len).sum::<usize>() as u64,
        _ => 1,
    };
    let count = ladders.iter().fold(0_u64, |sum, ladder| {
        sum.saturating_add(ladder.steps().saturating_mul(paths(ladder).max(1)))
    });
    if count > STEPS_MAX {
        return Err(SpecError::wrong_use(format!(
            "{}: the ladders multiply to {count} steps, more than {STEPS_MAX}",
            request.spec.source_name
        ))
        .hint("split the spec, or vary fewer keys together"));
    }
    if count > STEPS_UNCONFIRMED_MAX && count > request.steps_confirmed {
        return Err(SpecError::wrong_use(format!(
            "{}: the ladders multiply to {count} steps",
            request.spec.source_name
        ))
        .hint(format!("if that is meant, confirm it with --confirm-steps {count}")));
    }
    Ok(())
}

/// The most jobs that any load has on each target of the spec.
fn jobs_max(spec: &CampaignSpec, ladders: &[StepLadder<'_>]) -> Vec<u32> {
    let names = spec.target_names();
    let mut most = vec![1; names.len()];
    let mut note = |wanted: Vec<&str>, jobs: Option<u32>| {
        for (name, most) in names.iter().zip(&mut most) {
            if wanted.contains(name) {
                *most = jobs.unwrap_or(1).max(*most);
            }
        }
    };
    let first = names.first().copied().unwrap_or_default();
    for ladder in ladders {
        for point in AxisPoint::all(&ladder.axes) {
            let main = &ladder.block.settings.load;
            note(ladder.targets_named_by(main, first), ladder.at(&point).all.load.jobs.get());
            for beside in &ladder.block.beside {
                let jobs = point.beside(beside, &ladder.defaults).jobs.get();
                note(ladder.targets_named_by(&beside.load, first), jobs);
            }
        }
    }
    // As many as a workload may have; beyond, the workload is refused.
    most.into_iter().map(|jobs| jobs.min(4096)).collect()
}

fn missing_permissions(targets: &[Target], steps: &[Step]) -> Vec<SpecError> {
    let is_written = |index: usize| steps.iter().any(|step| step.writes_to(index));
    let missing =
        (0..).zip(targets).filter(|(index, target)| !target.may_be_written() && is_written(*index));
    missing
        .filter_map(|(_, target)| match &target.kind {
            TargetKind::ExistingFile { path } | TargetKind::Device { path } => {
                Some(crate::would_destroy(path))
            }
            _ => None,
        })
        .collect()
}

/// FNV-1a (64 bits) of what the plan is made of: the spec, the places, the scales.
fn hash(request: &CampaignRequest) -> String {
    let mut text = request.spec.text.clone();
    for (target, places) in request.spec.targets().iter().zip(&request.places) {
        for place in places {
            text.push_str(&format!("\0{}={}", target.name, place.path));
        }
    }
    let (time, size) = (request.time_scale_per_mille, request.size_scale_per_mille);
    // NUL, which no path has: without a separator two requests could give one text.
    text.push_str(&format!("\0{time}\0{size}"));
    // Not a hash of the standard library: that may be another one in the next version of Rust, and
    // this is saved.
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, fold))
}
