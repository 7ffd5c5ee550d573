//! Every key of a campaign spec, as the fields of structs; and a spec that was read: every value of
//! its kind, names that exist.
//!
//! The reader, the JSON schema and the reference in docs/formats/spec.md come from these fields and
//! their doc comments ([`crate::table`]).

use std::collections::BTreeSet;

use durio_base::{Bytes, RaidLevel};
use durio_plan::{EngineKind, FileLayout, Goal, Placement, Tracking};
use durio_workload::{AtEnd, CacheMode, Coverage, Pattern, PerMille, Skew, SyncMethod};

use super::value::{Mix, RateValue, Regions, Within};
use crate::SpecError;
use crate::table::field::AnySetting;
use crate::table::value::{Amount, Delay, FormatVersion, Name, Time, word_enums};
use crate::table::{
    Levels, OptionalValue, PlacedValue, ReferenceKey, SpecTable, SpecText, Texts, reference,
    settings, table,
};

/// Version of the format of spec files.
pub const SPEC_SCHEMA: u32 = 1;

table! {
    /// The whole file.
    pub(crate) struct CampaignFile [head: FileHead, steps: CampaignSteps] {
        /// What is read and written. At least one.
        target: Vec<PlacedValue<CampaignTargetTable>>,
    }
}

table! {
    /// What every file with steps begins with.
    pub(crate) struct FileHead {
        /// Version of this format: 1.
        schema: PlacedValue<FormatVersion<SPEC_SCHEMA>>,
        /// Short name.
        name: PlacedValue<Name>,
        /// Purpose, in one sentence.
        summary: OptionalValue<String>,
        /// After whom: title, author, date.
        source: OptionalValue<String>,
        /// Whether durio measures its own cost. Default: true.
        self_cost: OptionalValue<bool>,
    }
}

table! {
    /// The steps of the campaign.
    pub(crate) struct CampaignSteps {
        /// Defaults of every step.
        defaults: Option<PlacedValue<PointSettings>>,
        /// Preconditioning; not reported. Runs in its place among the steps.
        precondition: Vec<PlacedValue<StepTable>>,
        /// Measured steps, in the order of the file. At least one.
        step: Vec<PlacedValue<StepTable>>,
    }
}

table! {
    /// `[[target]]`.
    pub(crate) struct CampaignTargetTable {
        /// Short name that steps refer to.
        name: PlacedValue<Name>,
        /// Directory, file or block device, or a list of them that are one group (eight drives).
        /// Without it, --target gives it.
        path: OptionalValue<Texts>,
        /// Bytes of a file that durio makes, per path, or a share of the free space. Default: 1
        /// GiB, at most a tenth of the free space; an existing target is used whole.
        size: OptionalValue<Amount>,
        /// How a file that durio makes is laid out before. Default: incompressible.
        layout: OptionalValue<FileLayout>,
        /// In a directory: one file that all jobs share, or one of this size for each job. Default:
        /// shared.
        files: OptionalValue<Files>,
        /// Of several paths: whether fewer jobs than paths are an error, or use only the first
        /// paths. Default: refused.
        few_jobs: OptionalValue<FewJobs>,
        /// Declared layout, which cannot be measured.
        declared: Option<PlacedValue<DeclaredTable>>,
        /// Data sheet and price.
        sheet: Option<PlacedValue<SheetTable>>,
    }
}

table! {
    /// `[target.declared]`.
    pub(crate) struct DeclaredTable {
        /// RAID level.
        raid: OptionalValue<RaidLevel>,
        /// Members of the array.
        members: OptionalValue<u32>,
        /// Copies of each block (RAID1, RAID10).
        copies: OptionalValue<u32>,
        /// How often everything is replicated above the storage.
        replicas: OptionalValue<u32>,
    }
}

table! {
    /// `[target.sheet]`.
    pub(crate) struct SheetTable {
        /// Price of all devices of a path.
        price: OptionalValue<f64>,
        /// Currency of the price. Default: USD.
        currency: OptionalValue<String>,
        /// Random reads per second.
        random_read_iops: OptionalValue<f64>,
        /// Random writes per second.
        random_write_iops: OptionalValue<f64>,
        /// Sequential reads, bytes per second.
        read_bandwidth: OptionalValue<Bytes>,
        /// Sequential writes, bytes per second.
        write_bandwidth: OptionalValue<Bytes>,
    }
}

settings! {
    /// What a load is: in `[defaults]`, `[[precondition]]`, `[[step]]` and `[[step.beside]]`.
    pub(crate) struct LoadSettings [commit: CommitSettings] {
        /// Name of a target, or a list of names: jobs are assigned to them round-robin. Default:
        /// the first target.
        target: OptionalValue<Texts>,
        /// Order of offsets. Default: sequential.
        pattern: Levels<Pattern>,
        /// Share of reads; the rest are writes. Default: 100%.
        reads: Levels<PerMille>,
        /// Bytes per access. Default: 4KiB.
        block_size: Levels<Bytes>,
        /// Sizes with weights in thousandths that add up to 1000; instead of block_size.
        block_mix: OptionalValue<Mix>,
        /// Sizes of writes, if they differ from the reads'.
        write_block_mix: OptionalValue<Mix>,
        /// Which blocks are hot, with a random pattern. Default: uniform.
        skew: Levels<Skew>,
        /// Whether each random block comes once before any comes again. Default: independent.
        coverage: Levels<Coverage>,
        /// With a random pattern: blocks that follow each other before the next jump. Default: 1.
        run_length: Levels<u32>,
        /// With a sequential pattern: bytes left out after each block.
        hole: Levels<Bytes>,
        /// Share of each 4 KiB written that is zeros; the rest is random. Default: 0%.
        compressible: Levels<PerMille>,
        /// Share of the writes that repeat an earlier one of the job; all others are unique.
        /// Default: 0%.
        duplicates: Levels<PerMille>,
        /// What a job may touch: all of it (shared), a share each, or from an offset per job to the
        /// end; offset:spread is ⌊100 / jobs⌋ % per job. Default: a share each for several
        /// sequential jobs, else shared.
        region: Levels<Regions>,
        /// The part of the target that all jobs together touch.
        within: Levels<Within>,
        /// Workers. Default: 1.
        jobs: Levels<u32>,
        /// Whether jobs counts all workers or the workers of each path. Default: in-total.
        jobs_are: OptionalValue<JobCount>,
        /// Operations that each job keeps in flight. Default: 1.
        depth: Levels<u32>,
        /// How writes are made durable. sync_file_range has an fdatasync after it; a linked sync is
        /// submitted with its write, by io_uring. Default: none.
        sync: Levels<SyncMethod>,
        /// With fsync or fdatasync: sync after every N writes of a job. Default: 1.
        sync_every: Levels<u32>,
        /// Past or through the page cache. Default: direct.
        cache: Levels<CacheMode>,
        /// Log file: at the end of its region a sequential writer overwrites in place, or gets
        /// fresh preallocated space. Default: wrap-around.
        at_end: Levels<AtEnd>,
        /// How operations are submitted. Default: sync for depth 1, else uring.
        engine: Levels<EngineKind>,
        /// With engine fio: its ioengine.
        fio_engine: Levels<String>,
        /// Operations per submission at most. Default: 4.
        batch: Levels<u32>,
        /// Offered accesses per second, all jobs together (open loop). Default: unlimited (closed
        /// loop).
        rate: Levels<RateValue>,
        /// With rate: Poisson or constant arrivals. Default: poisson.
        arrivals: Levels<ArrivalKind>,
        /// Processors of the jobs, and with a node their memory. Default: device-node.
        placement: Levels<Placement>,
    }
}

settings! {
    /// A log that committers share.
    pub(crate) struct CommitSettings {
        /// Each job is a log to which this many committers hand records of block_size; a write is a
        /// batch of records. Default: no log.
        committers: Levels<u32>,
        /// With committers: a thread for each, so that the cost of waking them is in the latency.
        /// Default: false.
        committer_threads: Levels<bool>,
        /// With committers: how long a leader waits for more records before it writes. Default: 0s.
        commit_delay: Levels<Delay>,
        /// With committers: a leader waits only if at least this many others are active. Default:
        /// 0.
        commit_siblings: Levels<u32>,
        /// With committers: the most bytes of records in a batch. Default: 1MiB.
        batch_max: Levels<Bytes>,
        /// With committers: batches are filled up to a multiple of this; 0B for not at all.
        /// Default: 4KiB.
        pad_to: Levels<Bytes>,
        /// With committers: records that arrive during a flush are copied at once. Default: true.
        double_buffer: Levels<bool>,
    }
}

settings! {
    /// What ends a step: one that a step says replaces all of the defaults.
    pub(crate) struct LimitSettings {
        /// How long, after the ramp. Default: 60s.
        duration: Levels<Time>,
        /// Instead of a duration: bytes of all jobs; 100% is all paths.
        volume: Levels<Amount>,
        /// Instead of a duration: accesses of all jobs.
        operations: Levels<u32>,
        /// Instead of a duration: this many times the size of all paths, over all jobs.
        loops: Levels<u32>,
    }
}

settings! {
    /// The settings of a step outside its load, where defaults make sense.
    pub(crate) struct StepSettings {
        /// Time at the start that is not part of the results. Default: 0s.
        ramp: OptionalValue<Time>,
        /// Length of recorded intervals. Default: a fiftieth of the duration.
        interval: OptionalValue<Time>,
        /// How often the whole ladder is run. Default: 1.
        repeats: OptionalValue<u32>,
        /// Idle time before each step. Default: 0s.
        pause: Levels<Time>,
        /// The first job that is done ends the step. Default: false.
        first_job_ends_all: OptionalValue<bool>,
        /// Memory for the page cache, by a memory cgroup, for buffered runs; 100% is all paths.
        memory_bound: Levels<Amount>,
        /// The kernel's read-ahead while the step runs.
        read_ahead: Levels<Bytes>,
        /// Drop the target's pages from the page cache before.
        drop_cache: Levels<bool>,
        /// After all steps, follow some operations of this one through the kernel, by one job:
        /// where their time goes (needs tracefs). Default: false.
        trace_path: OptionalValue<bool>,
    }
}

settings! {
    /// What `[defaults]` and points may say.
    pub(crate) struct PointSettings [load: LoadSettings, limit: LimitSettings, step: StepSettings] {}
}

table! {
    /// `[[precondition]]` and `[[step]]`.
    pub(crate) struct StepTable [settings: PointSettings] {
        /// Short name.
        name: PlacedValue<Name>,
        /// Purpose, in one sentence.
        summary: OptionalValue<String>,
        /// The axes from the outermost loop to the innermost. Default: the order of the lists in
        /// the file.
        order: OptionalValue<Texts>,
        /// With y: the axis to the right of a map.
        x: OptionalValue<String>,
        /// With x: the axis upwards.
        y: OptionalValue<String>,
        /// Points of a ladder one by one, where several keys change together.
        points: Vec<PlacedValue<PointSettings>>,
        /// Whether the paths of the target are loaded together or one after another. Default:
        /// together.
        over: OptionalValue<Over>,
        /// Target whose section of the same name is the baseline.
        baseline: OptionalValue<String>,
        /// Repeats the whole section until something is so.
        rounds: Option<PlacedValue<RoundsTable>>,
        /// A load that runs at the same time; its lists are axes named NAME.KEY.
        beside: Vec<PlacedValue<BesideTable>>,
    }
}

table! {
    /// `[[step.beside]]`.
    pub(crate) struct BesideTable "the load beside" [load: LoadSettings] {
        /// Short name.
        name: PlacedValue<Name>,
    }
}

table! {
    /// `rounds = { … }`.
    pub(crate) struct RoundsTable {
        /// Maximum number of rounds. Default: 25.
        max: OptionalValue<u32>,
        /// Until this value of the tracked step is steady, by the SNIA rule.
        steady_state: OptionalValue<Tracking>,
        /// Which step of the section is tracked, by its values. Default: the first.
        tracked: Option<PlacedValue<LoadSettings>>,
        /// Rounds that must be steady. Default: 5.
        window: OptionalValue<u32>,
        /// Largest (max − min) / mean in the window. Default: 20%.
        excursion: OptionalValue<PerMille>,
        /// Largest rise or fall of the fitted line over the window, of the mean. Default: 10%.
        slope: OptionalValue<PerMille>,
        /// Or: until the highest rate that keeps this goal is found.
        goal: OptionalValue<Goal>,
        /// How well that rate must be known. Default: 2%.
        precision: OptionalValue<PerMille>,
    }
}

word_enums! {
    /// What `jobs` counts.
    JobCount { "in-total" => InTotal, "per-target" => PerTarget }
    /// What `rate` is offered as.
    ArrivalKind { "poisson" => Poisson, "constant" => Constant }
    /// How the paths of a target are loaded.
    Over { "together" => Together, "one-by-one" => OneByOne }
    /// How many files jobs have in a directory.
    Files { "shared" => Shared, "per-job" => PerJob }
    /// What fewer jobs than paths are.
    FewJobs { "refused" => Refused, "first-paths" => FirstPaths }
}

impl CampaignFile {
    /// Preconditions and steps in the order of the file; true for a precondition.
    pub(crate) fn all_steps(&self) -> Vec<(bool, &PlacedValue<StepTable>)> {
        let preconditions = self.steps.precondition.iter().map(|block| (true, block));
        let steps = self.steps.step.iter().map(|block| (false, block));
        let mut all: Vec<_> = preconditions.chain(steps).collect();
        // TOML has two lists of them: a precondition between two steps is known by its place alone.
        all.sort_by_key(|(_, block)| block.at);
        all
    }

    /// What every step takes that does not say otherwise.
    pub(crate) fn defaults(&self) -> PointSettings {
        self.steps.defaults.as_ref().map(|defaults| defaults.value.clone()).unwrap_or_default()
    }
}

/// A spec file that was read and is consistent in itself; [`crate::plan_campaign`] checks the parts
/// that depend on targets.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignSpec {
    /// Path or name, for messages.
    pub(crate) source_name: String,
    /// The file as it is.
    pub(crate) text: String,
    pub(crate) file: CampaignFile,
}

/// A target of a spec and the paths that it gives; none if `--target` must.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecTarget {
    /// Its name in the spec.
    pub name: String,
    pub paths: Vec<String>,
}

impl CampaignSpec {
    /// Reads a spec; `source_name` is its path or name, for messages.
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key or a wrong value, lacks something, or names something
    /// that it does not have. The message begins with `NAME:LINE:COLUMN`.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, SpecError> {
        let source = SpecText { name: source_name, text };
        Self::of(source, source.table("", 0, &source.parse("a spec")?)?)
    }

    /// The spec with this file, checked.
    pub(crate) fn of(source: SpecText<'_>, file: CampaignFile) -> Result<Self, SpecError> {
        let (source_name, text) = (source.name.to_owned(), source.text.to_owned());
        let spec = Self { source_name, text, file };
        spec.check_targets()?;
        spec.check_steps()?;
        Ok(spec)
    }

    pub fn name(&self) -> &str {
        &self.file.head.name.0
    }

    /// Its summary and its sources.
    pub fn summary(&self) -> String {
        let summary = self.file.head.summary.get().unwrap_or_default();
        match self.file.head.source.one() {
            None => summary,
            Some(source) if summary.is_empty() => format!("after {source}"),
            Some(source) => format!("{summary} (after {source})"),
        }
    }

    /// Its targets, in order.
    pub fn targets(&self) -> Vec<SpecTarget> {
        let targets = self.file.target.iter();
        let paths = targets.clone().map(|target| target.path.get().unwrap_or_default().to_vec());
        let of = |(name, paths): (&str, _)| SpecTarget { name: name.to_owned(), paths };
        self.target_names().into_iter().zip(paths).map(of).collect()
    }

    pub(crate) fn target_names(&self) -> Vec<&str> {
        self.file.target.iter().map(|target| target.name.0.as_str()).collect()
    }

    pub(crate) fn source(&self) -> SpecText<'_> {
        SpecText { name: &self.source_name, text: &self.text }
    }

    fn check_targets(&self) -> Result<(), SpecError> {
        let targets = self.file.target.iter().map(|target| (target.name.0.as_str(), target.at));
        self.check_unique("target", targets)?;
        match self.file.target.is_empty() {
            true => {
                let error = self.source().error(0, "no target");
                Err(error.hint("add [[target]] with name = \"data\""))
            }
            false => Ok(()),
        }
    }

    fn check_unique<'a>(
        &self,
        what: &str,
        names: impl Iterator<Item = (&'a str, usize)>,
    ) -> Result<(), SpecError> {
        let mut known = BTreeSet::new();
        for (name, at) in names {
            if !known.insert(name) {
                return Err(self
                    .source()
                    .error(at, format!("'{name}' names more than one {what}")));
            }
        }
        Ok(())
    }

    fn check_steps(&self) -> Result<(), SpecError> {
        let defaults = self.file.steps.defaults.iter();
        defaults
            .map(|defaults| &defaults.load)
            .try_for_each(|load| self.check_target_names(load))?;
        let steps = self.file.all_steps();
        let names = steps.iter().map(|(_, step)| (step.name.0.as_str(), step.at));
        // A section finds its baseline's by name, and a reader its results.
        self.check_unique("step or precondition", names)?;
        for (_, step) in steps {
            self.check_target_names(&step.settings.load)?;
            let baseline = step.baseline.one();
            baseline.map_or(Ok(()), |name| self.check_target_name(name, step.baseline.at))?;
            let rows = step.points.iter().flat_map(|row| row.fields());
            let tracked = step.rounds.iter().flat_map(|rounds| &rounds.tracked);
            // Once the first value of such a list was taken and the others were lost without a
            // word.
            self.check_no_lists(rows.chain(tracked.flat_map(|load| load.fields())))?;
            let beside = step.beside.iter().map(|load| (load.name.0.as_str(), load.at));
            self.check_unique("load beside", beside)?;
            step.beside.iter().try_for_each(|load| self.check_target_names(&load.load))?;
        }
        match self.file.steps.step.is_empty() {
            true => Err(self.source().error(0, "no step to measure")),
            false => Ok(()),
        }
    }

    /// A point has one value of each setting.
    fn check_no_lists<'a>(
        &self,
        mut settings: impl Iterator<Item = (&'static str, &'a dyn AnySetting)>,
    ) -> Result<(), SpecError> {
        match settings.find(|(_, setting)| setting.is_axis()) {
            None => Ok(()),
            Some((key, list)) => {
                let text = format!("'{key}' of a point needs one value, not a list");
                Err(self.source().error(list.at(), text))
            }
        }
    }

    fn check_target_names(&self, load: &LoadSettings) -> Result<(), SpecError> {
        let named = load.target.one().map_or(&[][..], |names| &names.0);
        named.iter().try_for_each(|name| self.check_target_name(name, name.at))
    }

    fn check_target_name(&self, name: &str, at: usize) -> Result<(), SpecError> {
        let known = self.target_names();
        match known.contains(&name) {
            true => Ok(()),
            false => {
                let what = format!("unknown target '{}'", name.escape_debug());
                Err(self.source().unknown(name, at, what, &known, "the targets are"))
            }
        }
    }
}

/// Keys that stand in several tables.
pub(crate) fn shared_keys() -> Vec<ReferenceKey> {
    PointSettings::all_keys()
}

/// The JSON schema (draft 2020-12) of spec files, for editors that check TOML by one.
pub fn spec_json_schema() -> String {
    let keys = CampaignFile::all_keys();
    format!("{:#}\n", reference::file("durio campaign spec", &keys, &shared_keys()))
}

/// Tables of all keys, as Markdown.
pub fn spec_reference() -> String {
    reference::tables(&sections())
}

/// Every table with the heading under which it is described.
fn sections() -> Vec<(&'static str, Vec<ReferenceKey>)> {
    let load = "A load: [defaults], [[precondition]], [[step]], [[step.beside]], points";
    let step = [LimitSettings::keys(), StepSettings::keys()].concat();
    vec![
        ("The file", [FileHead::keys(), CampaignFile::keys(), CampaignSteps::keys()].concat()),
        ("[[target]]", CampaignTargetTable::keys()),
        ("[target.declared]", DeclaredTable::keys()),
        ("[target.sheet]", SheetTable::keys()),
        (load, [LoadSettings::keys(), CommitSettings::keys()].concat()),
        ("A step: [defaults], [[precondition]], [[step]], points", step),
        ("[[precondition]] and [[step]] alone", StepTable::keys()),
        ("[[step.beside]]", BesideTable::keys()),
        ("rounds", RoundsTable::keys()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::check_reference;

    #[test]
    fn the_reference_and_the_schema_are_what_the_code_says() {
        check_reference("spec", &spec_json_schema(), &spec_reference(), &sections());
    }
}
