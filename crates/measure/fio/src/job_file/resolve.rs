//! From sections to jobs: applies defaults, reads values, names settings that cannot be honoured.
//!
//! Makes a [`ResolvedJob`] per job section of a [`JobFile`]. Settings apply in the order in which
//! they stand, each by its row of the table of options, so that later ones win. Clones (`numjobs`
//! is a number of the job), defaults of options not given, and files are left to later stages.

use std::collections::BTreeMap;
use std::fmt;

use super::options::{Class, OptionRow, WrittenValue, find_option};
use super::values;
use super::{
    ALL_FILENAMES_MAX, BlockSizeShare, Direction, FILENAMES_MAX, JOBS_MAX, JobFile, JobOptions,
    JobSection, JobSetting, PerDirection, SourcePosition,
};
use crate::FioError;

/// A value and where it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenValue<T> {
    pub value: T,
    /// The option that gave it.
    pub option: &'static str,
    pub at: SourcePosition,
}

/// What a job file says about one thing, if it does.
pub type GivenOption<T> = Option<GivenValue<T>>;

/// What a job file says about reads, writes and trims.
pub type Each<T> = PerDirection<GivenOption<T>>;

/// A remark on an option: a note if the option does not affect the work; else a refusal, as it
/// cannot be honoured and the job must not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub option: String,
    /// Its value as written.
    pub value: Option<String>,
    pub at: SourcePosition,
    /// Why it has no effect; or why it is refused, and what to do: a sentence without its end.
    pub what: String,
    /// True for a note on an option that durio ignores, as it changes nothing that is measured.
    pub is_ignored: bool,
}

impl Remark {
    pub(crate) fn new(at: &SourcePosition, option: &str, what: &str) -> Self {
        let (option, what) = (option.to_owned(), what.to_owned());
        Self { option, value: None, at: at.clone(), what, is_ignored: false }
    }

    fn of(setting: &JobSetting, what: &str) -> Self {
        Self { value: setting.value.clone(), ..Self::new(&setting.at, setting.name, what) }
    }

    fn ignored(setting: &JobSetting, what: &str) -> Self {
        Self { is_ignored: true, ..Self::of(setting, what) }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, value, at, what, is_ignored: _ } = self;
        match value {
            Some(value) => write!(f, "{at}: {option}={value}: {what}"),
            None => write!(f, "{at}: {option}: {what}"),
        }
    }
}

/// A job section with its options after all defaults before it.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedJob {
    /// The section's own `name=`, or else the section's name.
    pub name: String,
    /// The section's name, after which fio names files.
    pub section: String,
    /// Where the job begins.
    pub at: SourcePosition,
    /// Jobs of one group run at the same time; groups run one after another, from 0.
    pub group: u32,
    /// Which reporting group, for [`super::ExitScope::Group`]: it also begins with `new_group`, from 0.
    pub reporting_group: u32,
    /// How many copies run, from 1.
    pub copies: u32,
    /// What the job does.
    pub options: JobOptions,
    /// The section's own options that have a value, by name, as fio lists them.
    pub listed: Vec<(String, String)>,
    /// Options that do not affect the work.
    pub notes: Vec<Remark>,
    /// Options that cannot be honoured; the job must not run if there is one.
    pub refusals: Vec<Remark>,
}

/// Resolves all jobs.
///
/// # Errors
/// The first value that fio would reject, or would read as something else than it says. Options
/// that are understood and cannot be honoured are refusals of their job, not errors.
pub fn resolve(file: &JobFile) -> Result<Vec<ResolvedJob>, FioError> {
    let mut jobs: Vec<ResolvedJob> = Vec::new();
    let mut defaults = JobDraft::default();
    let mut is_partial = false;
    let mut file_number = 0;
    let mut is_first_of_file = false;
    let exit_all = exit_all_anywhere(file);
    let (mut copies, mut names) = (0_u32, 0_usize);
    for section in &file.sections {
        if section.file_number != file_number {
            // Each job file of a command line begins with fresh defaults in fio, and its first job
            // waits.
            (file_number, is_first_of_file) = (section.file_number, true);
            defaults = JobDraft::default();
        }
        if section.is_global {
            defaults.add(section)?;
            continue;
        }
        let mut draft = defaults.clone();
        // fio gives each job its section's name after it has copied the defaults.
        draft.options.name.name = None;
        draft.add(section)?;
        draft.options.timing.exit_all.clone_from(&exit_all);
        let mut job = draft.job(section, (&jobs, &mut is_partial), is_first_of_file);
        copies = copies.saturating_add(job.copies);
        if copies > JOBS_MAX {
            let what =
                format!("more than {JOBS_MAX} jobs including all copies, which is fio's limit");
            return Err(FioError::job_file(&section.at, what));
        }
        names += job.options.target.filenames.as_ref().map_or(0, |given| given.value.len());
        if names > ALL_FILENAMES_MAX {
            let what = format!("the jobs so far name more than {ALL_FILENAMES_MAX} files");
            return Err(FioError::job_file(&section.at, what));
        }
        job.refusals.extend(file.read_only.as_ref().and_then(|at| writes_read_only(&job, at)));
        jobs.push(job);
        is_first_of_file = false;
    }
    Ok(jobs)
}

// With `--readonly` fio refuses jobs that write.
fn writes_read_only(job: &ResolvedJob, at: &SourcePosition) -> Option<Remark> {
    let access = job.options.pattern.access.as_ref();
    let writes = access.filter(|given| given.value.direction != Direction::Read)?;
    Some(Remark::new(&writes.at, "rw", &format!("with --readonly ({at}) no job may write")))
}

/// The place of the last `exitall`.
// fio takes it for all jobs, wherever it stands and whatever its value.
fn exit_all_anywhere(file: &JobFile) -> Option<GivenValue<bool>> {
    let mut settings = file.sections.iter().flat_map(|section| &section.settings);
    let found = settings.find(|setting| setting.name == "exitall")?;
    Some(GivenValue { value: true, option: found.name, at: found.at.clone() })
}

/// The state of a job while its settings are taken one by one.
#[derive(Debug, Clone, Default)]
struct JobDraft<'f> {
    options: JobOptions,
    /// For each option, the setting that counts.
    last: BTreeMap<&'static str, Last<'f>>,
    taken: usize,
}

#[derive(Debug, Clone)]
struct Last<'f> {
    setting: &'f JobSetting,
    row: &'static OptionRow,
    /// Counts all settings of the job: a larger one came later.
    order: usize,
    /// Why the value of an honoured option is refused.
    refusal: Option<String>,
}

impl<'f> JobDraft<'f> {
    // fio reads `kb_base` before all others of a section in a file, and in order on a command line.
    fn add(&mut self, section: &'f JobSection) -> Result<(), FioError> {
        let is_line = |setting: &&JobSetting| {
            matches!(setting.at, SourcePosition::Line { .. }) && setting.name == "kb_base"
        };
        // Taken twice: the first time for the settings before it.
        for setting in section.settings.iter().filter(is_line).chain(&section.settings) {
            self.set(setting).map_err(|what| {
                FioError::job_file(&setting.at, format!("{}: {what}", setting.name))
            })?;
        }
        Ok(())
    }

    fn set(&mut self, setting: &'f JobSetting) -> Result<(), String> {
        let Some(row) = find_option(setting.name) else { return Ok(()) };
        let base = self.options.name.kb_base.as_ref().map_or(1024, |given| given.value);
        let written = WrittenValue { setting, text: setting.value.as_deref(), base };
        let refusal = match row.class {
            Class::Honoured(effect) => effect(&mut self.options, &written)?,
            Class::Noted { .. } => row.kind.check(&written).map(|()| None)?,
            Class::Refused { .. } => None,
        };
        // Bounds the memory of many jobs that inherit from their defaults.
        let names = self.options.target.filenames.as_ref().map_or(0, |given| given.value.len());
        if names > FILENAMES_MAX {
            return Err(format!("more than {FILENAMES_MAX} files for one job"));
        }
        self.taken += 1;
        self.last.insert(setting.name, Last { setting, row, order: self.taken, refusal });
        Ok(())
    }

    fn job(
        self,
        section: &JobSection,
        (jobs, is_partial): (&[ResolvedJob], &mut bool),
        is_first_of_file: bool,
    ) -> ResolvedJob {
        let (mut notes, mut refusals) = (Vec::new(), Vec::new());
        let mut last: Vec<_> = self.last.values().collect();
        last.sort_by_key(|last| last.order);
        for one in last {
            self.sort_out(one, &mut notes, &mut refusals);
        }
        self.check_block_sizes(&mut notes, &mut refusals);
        let timing = &self.options.timing;
        let is_set =
            |given: &Option<GivenValue<bool>>| given.as_ref().is_some_and(|given| given.value);
        let is_walled = is_set(&timing.stonewall) || is_first_of_file && section.file_number > 0;
        let awaited = timing.wait_for.as_ref().map(|given| given.value.as_str());
        let (waits, why_not) = waits(is_partial, is_walled, awaited, jobs);
        refusals.extend(why_not.map(|reason| Remark::new(&section.at, "wait_for", &reason)));
        let begins_group = is_walled || is_set(&timing.new_group);
        let previous = jobs.last();
        let first_or =
            |begins: bool, last: Option<u32>| last.map_or(0, |group| group + u32::from(begins));
        let name = self.options.name.name.as_ref();
        ResolvedJob {
            name: name.map_or_else(|| section.name.clone(), |given| given.value.clone()),
            section: section.name.clone(),
            at: section.at.clone(),
            group: first_or(waits, previous.map(|job| job.group)),
            reporting_group: first_or(begins_group, previous.map(|job| job.reporting_group)),
            copies: self.options.name.copies.as_ref().map_or(1, |given| given.value),
            options: self.options,
            listed: section.valued_options(),
            notes,
            refusals,
        }
    }

    /// What the table says of a setting that counts.
    fn sort_out(&self, last: &Last<'_>, notes: &mut Vec<Remark>, refusals: &mut Vec<Remark>) {
        let Last { setting, row, refusal: why, .. } = last;
        // Whatever the option would do: fio drops a job for an option of another engine.
        if let Some(reason) = self.wrong_engine(row) {
            return refusals.push(Remark::of(setting, &reason));
        }
        let is_neutral = |unless| is_neutral(setting.value.as_deref(), unless);
        match row.class {
            Class::Honoured(_) => refusals.extend(why.as_ref().map(|why| Remark::of(setting, why))),
            Class::Noted { unless, .. } if is_neutral(unless) => {}
            Class::Noted { reason, .. } => notes.push(Remark::ignored(setting, reason)),
            Class::Refused { refines: Some(other), .. } if self.is_off(other) => {
                let what = format!("it has no effect without {other}");
                notes.push(Remark::ignored(setting, &what));
            }
            Class::Refused { unless, .. } if is_neutral(unless) => {}
            Class::Refused { reason, .. } => refusals.push(Remark::of(setting, reason)),
        }
    }

    fn is_off(&self, option: &str) -> bool {
        let value = self.last.get(option).and_then(|last| last.setting.value.as_deref());
        value.is_none_or(|value| value == "0")
    }

    /// Why an engine's option is wrong with the job's engine.
    // fio drops such a job.
    fn wrong_engine(&self, row: &OptionRow) -> Option<String> {
        let named = self.last.get("ioengine").and_then(|last| last.setting.value.as_deref());
        // fio's default on Linux.
        let engine = named.unwrap_or("psync");
        let fits = row.engines.is_empty() || row.engines.contains(&engine);
        (!fits).then(|| {
            let engines = row.engines.join(", ");
            format!("the engine {engine} has no such option (engines that have it: {engines})")
        })
    }

    // With `bs`, `bsrange` and `bssplit` together fio does not do what they say.
    fn check_block_sizes(&self, notes: &mut Vec<Remark>, refusals: &mut Vec<Remark>) {
        let setting = |name| self.last.get(name).map(|last| last.setting);
        let (range, split) = (setting("bsrange"), setting("bssplit"));
        if let (Some(_), Some(split)) = (range, split) {
            let reason = "fio combines it with bsrange by the order of lines; give one";
            refusals.push(Remark::of(split, reason));
        }
        if let (Some(by), Some(bs)) = (split.or(range), setting("bs")) {
            let what = format!("{} overrides bs, even a later one", by.name);
            notes.push(Remark::of(bs, &what));
        }
        let pattern = &self.options.pattern;
        if pattern.block_unaligned.as_ref().is_some_and(|given| given.value) {
            return;
        }
        let mut shares = pattern.block_split.read.iter().chain(&pattern.block_split.write);
        if let Some((shares, bytes)) =
            shares.find_map(|given| Some((given, rounded(&given.value)?)))
        {
            let reason = format!(
                "fio rounds {bytes} bytes down to a multiple of the smallest size; \
                 add bs_unaligned, or give multiples"
            );
            let value = split.and_then(|last| last.value.clone());
            refusals.push(Remark { value, ..Remark::new(&shares.at, "bssplit", &reason) });
        }
    }
}

/// A size that is not a multiple of the smallest one.
fn rounded(shares: &[BlockSizeShare]) -> Option<u64> {
    let smallest = shares.iter().map(|share| share.bytes).min()?;
    shares
        .iter()
        .map(|bytes| bytes.bytes)
        .find(|bytes| bytes.checked_rem(smallest).is_some_and(|bytes| bytes > 0))
}

/// Whether a value is one of those with which nothing changes, as text or as a number.
fn is_neutral(value: Option<&str>, unless: &[&str]) -> bool {
    let Some(value) = value else { return false };
    let number = values::size(value, 1024).ok();
    let is_same = |neutral: &&str| {
        // 0k is 0 too, and malloc is not a number.
        value.trim() == *neutral || (number.is_some() && number == values::size(neutral, 1024).ok())
    };
    unless.iter().any(is_same)
}

/// Whether a job waits for all groups so far; `awaited` is the name in `wait_for`. A refusal is a
/// sentence about that. `is_partial` says that the group before waits for one job by its name, so
/// that a job without a wait would not wait for that group.
fn waits(
    is_partial: &mut bool,
    is_walled: bool,
    awaited: Option<&str>,
    jobs: &[ResolvedJob],
) -> (bool, Option<String>) {
    let begins = match (is_walled, awaited) {
        (true, _) => Ok(true),
        (false, Some(name)) => waits_for(name, jobs),
        (false, None) if *is_partial => {
            Err("fio would run this job, which waits for none, next to the earlier ones")
        }
        (false, None) => Ok(false),
    };
    if begins == Ok(true) {
        *is_partial = !is_walled;
    }
    match begins {
        Ok(begins) => (begins, None),
        Err(reason) => (false, Some(format!("{reason}; use stonewall for order"))),
    }
}

/// Whether a job that waits for those called `name` begins a group, or joins the last one.
fn waits_for(name: &str, jobs: &[ResolvedJob]) -> Result<bool, &'static str> {
    let group_of = |job: &ResolvedJob| job.group;
    let last = jobs.last().map(group_of).ok_or("no earlier job has that name")?;
    let awaited = jobs.iter().rfind(|job| job.name == name);
    let awaited = awaited.map(group_of).ok_or("no earlier job has that name")?;
    let is_alone = jobs.iter().all(|job| (job.name == name) == (job.group == awaited));
    match last - awaited {
        _ if !is_alone => Err("other jobs run at the same time as the awaited one"),
        0 => Ok(true),
        1 => Ok(false),
        _ => Err("other jobs start between the awaited job and this one"),
    }
}
