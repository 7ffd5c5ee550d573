//! The plan of `durio durable`: experiments through the space of sync method, file mode, size and writers.
//!
//! A [`DurableRequest`] gives a plan with one section per experiment; its notes say what a wider
//! run would measure and this one does not.

mod experiments;
mod parts;
mod room;
#[cfg(test)]
mod tests;

use durio_base::Bytes;
use durio_plan::{
    BatchPolicy, Campaign, ClockChoice, EngineKind, Experiment, Load, Location, Plan, PlanSection,
    Purpose, SectionKind, Step,
};
use durio_workload::{CacheMode, SyncMethod};

use crate::{SpecError, null_target, plan_of, self_cost_step};
use parts::{AxisChoices, DurablePoint, ExperimentDraft, Times};
use room::{DurableTargets, FileRoom};

/// How much of the space `durio durable` goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DurableLength {
    /// About 30 s in all.
    Quick,
    /// About three minutes in all.
    Usual,
    /// The experiments at twice the time, and the whole cross: some twenty minutes.
    Full,
}

/// What the user asks of `durio durable`.
#[derive(Debug, Clone, PartialEq)]
pub struct DurableRequest {
    /// Where: a directory, or with permission to destroy it a file or a device.
    pub location: Location,
    pub length: DurableLength,
    /// Size of the log, instead of the length's; may be more than its share of the free space.
    pub size: Option<Bytes>,
    /// Only these experiments, by name; all of the length if empty.
    pub only: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    pub clock: ClockChoice,
    /// Begin of the names of files on filesystems without unnamed files: unique to the run.
    pub file_name: String,
}

/// The experiments in the order in which they run, the short ones first, with the names by which users
/// choose them; with blanks for hyphens, those of their sections.
const EXPERIMENTS: [(Experiment, &str); 12] = [
    (Experiment::Commands, "commands"),
    (Experiment::SyncCalls, "sync-calls"),
    (Experiment::Methods, "methods"),
    (Experiment::SyncEvery, "sync-every"),
    (Experiment::FlushSlope, "flush-slope"),
    (Experiment::FileModes, "file-modes"),
    (Experiment::Writers, "writers"),
    (Experiment::SizesAndWriters, "sizes-and-writers"),
    (Experiment::GroupCommit, "group-commit"),
    (Experiment::CommitDelay, "commit-delay"),
    (Experiment::Sizes, "sizes"),
    (Experiment::Cross, CROSS),
];

const CROSS: &str = "cross";

/// Makes the plan.
///
/// # Errors
/// If an experiment is unknown or not part of this length, a bound is violated, the location would be
/// overwritten without permission, or it holds too little.
pub fn plan_durable(request: &DurableRequest) -> Result<Plan, SpecError> {
    check_names(request)?;
    let room = FileRoom::of(request)?;
    let mut left_out = Vec::new();
    let mut drafts = Vec::new();
    for (experiment, name) in EXPERIMENTS {
        let name = name.replace('-', " ");
        drafts.extend(draft(experiment, name, request.length, &room, &mut left_out));
    }
    // Before the time is divided: what does not fit takes none of it.
    keep_what_fits(&mut drafts, &room, &mut left_out);
    // Before experiments are left out: a step lasts as long alone as among all.
    let times = Times::of(request.length, &drafts);
    keep_what_is_wanted(&mut drafts, &request.only, &mut left_out);
    if drafts.is_empty() {
        return Err(SpecError::cannot_measure("no experiment is left to measure here")
            .hint("name a directory, in which durio can create files of several kinds"));
    }
    Ok(assembled(request, &room, &times, drafts, left_out))
}

fn check_names(request: &DurableRequest) -> Result<(), SpecError> {
    let known = EXPERIMENTS.map(|(_, name)| name);
    if let Some(unknown) = request.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(SpecError::wrong_use(format!("'{unknown}' is not an experiment of durable"))
            .hint(format!("the experiments are {}", known.join(", "))));
    }
    if request.length != DurableLength::Full && request.only.iter().any(|name| name == CROSS) {
        return Err(SpecError::wrong_use("cross needs --thorough").hint("add --thorough"));
    }
    Ok(())
}

/// The points of an experiment; none, with a note, if this length or place leaves it out.
fn draft(
    experiment: Experiment,
    name: String,
    length: DurableLength,
    room: &FileRoom,
    left_out: &mut Vec<String>,
) -> Option<ExperimentDraft> {
    let needs_files = matches!(experiment, Experiment::FileModes | Experiment::Cross);
    if needs_files && !room.makes_files {
        left_out.push(format!("{name}: needs a directory, to create files of several kinds"));
        return None;
    }
    // Not refused whole: what each method sends is a question for a device as well.
    if experiment == Experiment::Commands && !room.makes_files {
        left_out.push(format!("{name}: all file modes except the existing one"));
    }
    let axes = AxisChoices::of(length, &name);
    let (summary, points) = match experiment {
        Experiment::Commands => experiments::commands(length, room),
        Experiment::SyncCalls => experiments::sync_calls(),
        Experiment::Methods => experiments::methods(),
        Experiment::SyncEvery => experiments::sync_every(&axes, left_out),
        Experiment::FlushSlope => experiments::flush_slope(&axes, left_out),
        Experiment::FileModes => experiments::file_modes(&axes, room, left_out),
        Experiment::Sizes => experiments::sizes(&axes, room, left_out),
        Experiment::Writers => experiments::writers(&axes, room, left_out),
        Experiment::SizesAndWriters => experiments::sizes_and_writers(&axes, room, left_out),
        Experiment::GroupCommit => experiments::group_commit(&axes, left_out),
        Experiment::CommitDelay => experiments::commit_delay(&axes, left_out),
        Experiment::Cross if length == DurableLength::Full => experiments::cross(room),
        Experiment::Cross => {
            let steps = experiments::cross(room).1.len();
            left_out.push(format!(
                "{name}: every method in every file mode at every size and number of writers, \
                 {steps} steps (--thorough)"
            ));
            return None;
        }
    };
    Some(ExperimentDraft { experiment, name, summary, points })
}

/// Leaves out the points whose blocks the files do not hold.
fn keep_what_fits(drafts: &mut Vec<ExperimentDraft>, room: &FileRoom, left_out: &mut Vec<String>) {
    for draft in drafts.iter_mut() {
        let (fitting, others) =
            std::mem::take(&mut draft.points).into_iter().partition(|point| room.holds(point));
        draft.points = fitting;
        let names: Vec<String> = others.iter().map(DurablePoint::words).collect();
        if !names.is_empty() {
            let names = parts::shortened(&names, "; ");
            left_out.push(format!("{}: too large for the free space: {names}", draft.name));
        }
    }
    drafts.retain(|draft| !draft.points.is_empty());
}

fn keep_what_is_wanted(
    drafts: &mut Vec<ExperimentDraft>,
    only: &[String],
    left_out: &mut Vec<String>,
) {
    if only.is_empty() {
        return;
    }
    let is_wanted =
        |draft: &ExperimentDraft| only.iter().any(|name| name.replace('-', " ") == draft.name);
    let others: Vec<String> =
        drafts.iter().filter(|draft| !is_wanted(draft)).map(|draft| draft.name.clone()).collect();
    drafts.retain(is_wanted);
    let names: Vec<&str> = drafts.iter().map(|draft| draft.name.as_str()).collect();
    // Notes on an experiment that is not wanted are of no use.
    left_out.retain(|said| names.iter().any(|name| said.starts_with(&format!("{name}: "))));
    if !others.is_empty() {
        left_out.push(format!("by --only: {}", others.join(", ")));
    }
}

fn assembled(
    request: &DurableRequest,
    room: &FileRoom,
    times: &Times,
    drafts: Vec<ExperimentDraft>,
    left_out: Vec<String>,
) -> Plan {
    let mut targets = DurableTargets::new(request, room, null_target());
    // All methods but the linked ones are of the sync engine, one write at a time.
    let mut steps = vec![self_cost_step(0, EngineKind::Sync, 1, BatchPolicy::DEFAULT)];
    let mut sections = Vec::new();
    for (section, draft) in (0..).zip(drafts) {
        let first_step = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        for point in draft.points {
            let step = step(&draft.name, &draft.summary, point, times, &mut targets);
            let drop_cache = steps.last().is_some_and(|before| leaves_pages(before, &step));
            steps.push(Step { section: Some(section), drop_cache, ..step });
        }
        let count = u32::try_from(steps.len()).unwrap_or(u32::MAX) - first_step;
        sections.push(PlanSection {
            name: draft.name,
            summary: draft.summary,
            kind: SectionKind::Experiment { experiment: draft.experiment },
            first_step,
            steps: count,
            rounds: None,
            baseline: None,
        });
    }
    let campaign = Campaign {
        name: "durable".to_owned(),
        summary: format!("What a durable write costs at {}", request.location.path),
        sections,
        left_out,
        ..Campaign::default()
    };
    let plan = plan_of(Purpose::Durable, (request.seed, request.clock), targets.all, steps);
    Plan { campaign: Some(campaign), ..plan }
}

fn step(
    name: &str,
    summary: &str,
    point: DurablePoint,
    times: &Times,
    targets: &mut DurableTargets<'_>,
) -> Step {
    let DurablePoint { mut workload, engine, files, span, levels, role } = point;
    name.clone_into(&mut workload.name);
    summary.clone_into(&mut workload.summary);
    let timing = times.timing(span, workload.jobs);
    let (target, more_targets) = targets.of(&files);
    let load = Load { more_targets, ..Load::new(target, workload, engine) };
    Step {
        ramp: timing.ramp,
        // A kernel without RWF_DSYNC or a filesystem without O_DIRECT is a finding, and the other
        // steps run (docs/design/0008).
        declinable: true,
        levels,
        ..Step::new(role, load, timing.limit, timing.interval)
    }
}

/// True if `next` would pay for pages that `before` left in the page cache of the same file: dirty
/// ones by its first sync, any by its first writes past the cache.
fn leaves_pages(before: &Step, next: &Step) -> bool {
    let (old, new) = (&before.load.workload, &next.load.workload);
    let is_unsynced = old.sync.method == SyncMethod::None && old.writes();
    let turns_direct = (old.cache, new.cache) == (CacheMode::Buffered, CacheMode::Direct);
    before.load.target == next.load.target && (is_unsynced || turns_direct)
}
