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
//!
//! Here is also on which CPUs and memory copies run, from [`PlacementOptions`]; whether the machine has
//! those CPUs and nodes is checked elsewhere.

mod accesses;
mod extent;
mod loads;
mod queue;
mod rows;
mod section;
mod targets;

pub use rows::{
    LogKind, LogRequest, ResultJob, ResultRow, ResultShape, ShownPercentiles, StreamPlace,
};
pub use targets::named_paths;

use std::path::Path;

use durio_plan::{ClockChoice, Location, PLAN_SCHEMA, Placement, Plan, Purpose};
use targets::ImportTargets;

use crate::job_file::{
    CpuPolicy, GivenOption, GivenValue, MemoryPolicy, PlacementOptions, Remark, ResolvedJob,
    SourcePosition,
};

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
        let reason = "no job: the file has only defaults, or is empty";
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

/// Where the copies of a job run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CpuBinding {
    /// Anywhere, as fio does without an option.
    Anywhere,
    /// On a NUMA node, with memory from there.
    Node(u32),
    /// Copy k on the k-th of these CPUs.
    Cpus(Vec<u32>),
}

impl CpuBinding {
    /// For a load whose job k is copy k / n of binding k mod n, n being the number of bindings, which are
    /// all of one kind.
    fn interleaved(bindings: &[Self], copies: u32) -> Placement {
        match bindings.first() {
            None | Some(Self::Anywhere) => Placement::Anywhere,
            Some(Self::Node(node)) => Placement::Node(*node),
            Some(Self::Cpus(_)) => {
                let copies = 0..copies as usize;
                let cpus = copies.flat_map(|copy| {
                    bindings.iter().filter_map(move |binding| match binding {
                        Self::Cpus(cpus) => cpus.get(copy).copied(),
                        _ => None,
                    })
                });
                Placement::Cpus(cpus.collect())
            }
        }
    }

    /// True if both can be in one load.
    fn is_like(&self, other: &Self) -> bool {
        self == other || matches!((self, other), (Self::Cpus(_), Self::Cpus(_)))
    }
}

/// Reads where `copies` copies run, the first of which is the `first`th of all jobs.
fn binding(
    options: &PlacementOptions,
    (first, copies): (u32, u32),
    said: &mut ImportNotes,
) -> CpuBinding {
    // durio's jobs are threads; fio's are processes or threads, with the same results.
    let PlacementOptions { thread: _, cpus, cpu_policy, cpu_nodes, memory } = options;
    let node = cpu_nodes.as_ref().and_then(|nodes| single_node(nodes, said));
    check_memory(memory, node, said);
    let Some(cpus) = cpus else {
        return node.map_or(CpuBinding::Anywhere, CpuBinding::Node);
    };
    if let Some(nodes) = cpu_nodes {
        said.refuse(nodes, "give one of cpus_allowed and numa_cpu_nodes");
    }
    if or(cpu_policy, CpuPolicy::Shared) == CpuPolicy::Shared && cpus.value.len() > 1 {
        let reason = "durio puts each job on one CPU; add cpus_allowed_policy=split, or use \
                      numa_cpu_nodes, or start durio with taskset";
        said.refuse(cpus, reason);
    }
    // fio counts the copies of all jobs.
    let of_copy = |copy: u32| {
        let index = first.saturating_add(copy) as usize % cpus.value.len().max(1);
        cpus.value.get(index).copied()
    };
    CpuBinding::Cpus((0..copies).filter_map(of_copy).collect())
}

fn single_node(nodes: &GivenValue<Vec<u32>>, said: &mut ImportNotes) -> Option<u32> {
    if let [node] = nodes.value.as_slice() {
        return Some(*node);
    }
    let reason = "durio runs a job on one NUMA node; write a section per node";
    said.refuse(nodes, reason);
    None
}

// durio's memory is that of the node on which a job runs.
fn check_memory(memory: &GivenOption<MemoryPolicy>, node: Option<u32>, said: &mut ImportNotes) {
    said.refuse_unless(
        memory,
        |policy| match policy {
            MemoryPolicy::Default | MemoryPolicy::Local => true,
            MemoryPolicy::Prefer(preferred) => node == Some(*preferred),
            MemoryPolicy::Bind(nodes) => node.is_some_and(|node| *nodes == [node]),
            MemoryPolicy::Interleave(_) => false,
        },
        "durio's memory is that of the node on which a job runs; give numa_cpu_nodes with the same \
         single node",
    );
}
