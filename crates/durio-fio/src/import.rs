//! fio jobs as a plan of durio.
//!
//! ```text
//!  ResolvedJob per section ──► per copy: place and region ──► loads ──► one step per stonewall group
//!  facts about each path ────┘
//! ```
//!
//! In: jobs, and what each named path is. Out: a [`Plan`] that gives the same figures as fio would,
//! with notes on what differs beside them; or every option that cannot be honoured, with its line.
//! Nothing is changed silently: each typed option is taken apart by name, so that a new one cannot
//! be forgotten. Not here: looking at paths, permissions, running.

mod accesses;
mod extent;
mod files;
mod loads;
mod place;
mod placement;
mod queue;
mod rows;
mod said;
mod section;
mod sizes;
mod targets;
mod timing;
mod writes;

pub use place::{PlaceFacts, named_paths};
pub use rows::{LogKind, LogRequest, Percentiles, ResultJob, ResultRow, ResultShape, StreamPlace};

use std::path::Path;

use durio_plan::{ClockChoice, PLAN_SCHEMA, Plan, Purpose};

use crate::job_file::{Note, Place, Refusal, ResolvedJob};
use said::Said;
use targets::Targets;

/// What the plan needs besides the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSettings {
    /// Seed of every random choice.
    pub seed: u64,
    /// The clock of all latencies.
    pub clock: ClockChoice,
    /// Name of files that durio makes, where the filesystem has no unnamed ones; a number is added.
    pub file_name: String,
}

/// A plan, and what its reader must know.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedPlan {
    /// The plan.
    pub plan: Plan,
    /// What is not as in fio, without effect on what the figures mean; each once.
    pub notes: Vec<Note>,
    /// The rows and logs of fio's results, and which loads are in each.
    pub shape: ResultShape,
}

/// Makes the plan of `jobs`. `facts` says what a path of [`named_paths`] is.
///
/// # Errors
/// Everything that cannot be honoured, in the order of the jobs; at least one.
pub fn import(
    jobs: &[ResolvedJob],
    facts: &dyn Fn(&Path) -> Option<PlaceFacts>,
    settings: &ImportSettings,
) -> Result<ImportedPlan, Vec<Refusal>> {
    let mut said = Said::default();
    let mut targets = Targets::new(facts, &settings.file_name);
    let mut sections = Vec::new();
    let mut copy = 0_u32;
    for job in jobs {
        said.begin(job);
        sections.extend(section::section(job, copy, &mut targets, &mut said));
        copy = copy.saturating_add(job.copies);
    }
    if jobs.is_empty() {
        said.refuse_at(
            &Place::Word(1),
            "name",
            "there is no job: only defaults, or nothing at all",
        );
    }
    let targets = targets.finish(&mut said);
    let (mut steps, places) = loads::steps(&sections, &mut said);
    timing::set_pauses(&sections, &mut steps, &mut said);
    let plan = Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Run,
        seed: settings.seed,
        clock: settings.clock,
        targets,
        steps,
        campaign: None,
        thresholds: Vec::new(),
    };
    if said.refusals.is_empty()
        && let Err(reason) = plan.validate()
    {
        let at = jobs.first().map_or(Place::Word(1), |job| job.at.clone());
        said.refuse_at(&at, "name", &reason);
    }
    match said.refusals.is_empty() {
        true => Ok(ImportedPlan { plan, notes: said.notes, shape: rows::shape(jobs, &places) }),
        false => Err(said.refusals),
    }
}
