//! fio jobs as a plan of durio.
//!
//! ```text
//!  ResolvedJob per section ──► per copy: place and region ──► loads ──► one step per stonewall group
//!  facts about each path ────┘
//! ```
//!
//! Makes a [`Plan`] that gives the same results as fio would, with notes on the differences; or
//! lists every option that cannot be honoured, with its line. Nothing is changed silently: each
//! typed option is taken apart by name, so that a new one cannot be forgotten. The caller looks at
//! the paths, checks permissions and runs the plan.

mod accesses;
mod extent;
mod loads;
mod placement;
mod queue;
mod rows;
mod section;
mod targets;

pub use rows::{
    LogKind, LogRequest, ResultJob, ResultRow, ResultShape, ShownPercentiles, StreamPlace,
};
pub use targets::named_paths;

use std::path::Path;

use durio_plan::{ClockChoice, Location, PLAN_SCHEMA, Plan, Purpose};

use crate::job_file::{GivenOption, GivenValue, Remark, ResolvedJob, SourcePosition};
use targets::ImportTargets;

/// The settings that the plan needs in addition to the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSettings {
    /// Seed of every random choice.
    pub seed: u64,
    /// The clock of all latencies.
    pub clock: ClockChoice,
    /// Name of files that durio makes, where the filesystem has no unnamed ones; a number is added.
    pub file_name: String,
    /// Measures copies of a section apart, because fio's results have a row for each unless it asks
    /// for `group_reporting`; otherwise a section is one load wherever possible.
    pub copies_apart: bool,
}

/// A plan, with notes for its reader.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedPlan {
    pub plan: Plan,
    /// Differences from fio that leave the meaning of the results alone; each once.
    pub notes: Vec<Remark>,
    /// The rows and logs of fio's results, and which loads are in each.
    pub shape: ResultShape,
}

/// Makes the plan of `jobs`. `locate` says what a path of [`named_paths`] is.
///
/// # Errors
/// Everything that cannot be honoured, in the order of the jobs; at least one.
pub fn import(
    jobs: &[ResolvedJob],
    locate: &dyn Fn(&Path) -> Option<Location>,
    settings: &ImportSettings,
) -> Result<ImportedPlan, Vec<Remark>> {
    let mut said = ImportNotes::default();
    let mut targets = ImportTargets::new(locate, &settings.file_name);
    let mut sections = Vec::new();
    let mut copy = 0_u32;
    for job in jobs {
        said.begin(job);
        sections.extend(section::section(job, copy, settings, &mut targets, &mut said));
        copy = copy.saturating_add(job.copies);
    }
    if jobs.is_empty() {
        let reason = "there is no job: only defaults, or nothing at all";
        said.refuse_at(&SourcePosition::Word(1), "name", reason);
    }
    let targets = targets.finish(&mut said);
    let (steps, places) = loads::steps(&sections, &mut said);
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
    // A plan of refused jobs is incomplete, so its faults tell nothing new.
    if said.refusals.is_empty()
        && let Err(reason) = plan.validate()
    {
        let at = jobs.first().map_or(SourcePosition::Word(1), |job| job.at.clone());
        said.refuse_at(&at, "name", &reason);
    }
    match said.refusals.is_empty() {
        true => Ok(ImportedPlan { plan, notes: said.notes, shape: rows::shape(jobs, &places) }),
        false => Err(said.refusals),
    }
}

/// Notes and refusals so far, each once, in the order in which they came.
#[derive(Debug, Default)]
struct ImportNotes {
    notes: Vec<Remark>,
    refusals: Vec<Remark>,
}

impl ImportNotes {
    /// Takes over the notes and refusals from resolving the job.
    fn begin(&mut self, job: &ResolvedJob) {
        job.notes.iter().for_each(|note| add(&mut self.notes, note.clone()));
        job.refusals.iter().for_each(|refusal| add(&mut self.refusals, refusal.clone()));
    }

    fn refuse<T>(&mut self, given: &GivenValue<T>, reason: &str) {
        self.refuse_at(&given.at, given.option, reason);
    }

    /// Refuses an option that is present, or missing, at a place.
    fn refuse_at(&mut self, at: &SourcePosition, option: &str, reason: &str) {
        add(&mut self.refusals, Remark::new(at, option, reason));
    }

    /// Refuses an option unless its value is one that changes nothing.
    fn refuse_unless<T>(
        &mut self,
        given: &GivenOption<T>,
        is_neutral: impl Fn(&T) -> bool,
        reason: &str,
    ) {
        if let Some(given) = given.as_ref().filter(|given| !is_neutral(&given.value)) {
            self.refuse(given, reason);
        }
    }

    fn note<T>(&mut self, given: &GivenValue<T>, what: &str) {
        self.note_at(&given.at, given.option, what);
    }

    fn note_at(&mut self, at: &SourcePosition, option: &str, what: &str) {
        add(&mut self.notes, Remark::new(at, option, what));
    }
}

// Copies of a job, and jobs with the same defaults, would say the same again.
fn add(remarks: &mut Vec<Remark>, remark: Remark) {
    if !remarks.contains(&remark) {
        remarks.push(remark);
    }
}

/// The value that was given, or fio's default.
fn or<T: Copy>(given: &GivenOption<T>, default: T) -> T {
    given.as_ref().map_or(default, |given| given.value)
}

/// Where an option was given, or else the job begins.
fn place_or<'g, T>(given: &'g GivenOption<T>, job: &'g SourcePosition) -> &'g SourcePosition {
    given.as_ref().map_or(job, |given| &given.at)
}
