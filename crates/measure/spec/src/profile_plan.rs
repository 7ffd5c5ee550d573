//! The plan of a profile: the log idle, then under the database's own background load.
//!
//! From a [`Profile`] and the directories for its log and its data comes a plan whose sections are
//! `idle`, `under load` and, where the documents ask for results that no stream of the profile
//! shows, the workloads of `durio check` that show them. Verdicts and the runtime of group commit
//! are elsewhere.
//!
//! The foreground is the log; without a log, the profile's first writer, else its first stream.

#[cfg(test)]
mod tests;

use durio_base::{Bytes, Nanos};
use durio_plan::{
    Campaign, ClockChoice, EngineKind, FileLayout, Limit, Load, Location, LocationFacts,
    ParameterValue, Plan, PlanSection, Purpose, RawPath, Role, SectionKind, Step, Target,
};
use durio_workload::{Arrivals, GroupCommit, Workload, check_workloads};

use crate::profile::{FileHandling, LogProfile, Profile, StreamKind, StreamProfile};
use crate::{
    DURATION_MAX, DURATION_MIN, SpecError, interval_for, null_target, plan_of, ramp_for,
    self_costs, with_costs,
};

/// The usual time of a step.
// More than a hundred of the ten commits a second that etcd's backend makes, so that their p99 is
// known.
const DURATION: Nanos = Nanos::from_secs(12);

/// Per step with `--quick`.
const DURATION_QUICK: Nanos = Nanos::from_secs(2);

/// What the user asks of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRequest {
    pub profile: Profile,
    /// The directory of its logs.
    pub log: Location,
    /// The directory of everything else; may be the same.
    pub data: Location,
    /// Two seconds per step on small files.
    pub quick: bool,
    /// Time per step, instead of the usual one.
    pub duration: Option<Nanos>,
    /// Size of the data file; may be more than a tenth of the free space.
    pub size: Option<Bytes>,
    /// Seed of every random choice.
    pub seed: u64,
    pub clock: ClockChoice,
    /// Begin of file names for filesystems without unnamed files: unique to the run.
    pub file_name: String,
}

impl ProfileRequest {
    fn time(&self) -> Result<Nanos, SpecError> {
        let usual = if self.quick { DURATION_QUICK } else { DURATION };
        let duration = self.duration.unwrap_or(usual);
        match duration < DURATION_MIN || duration > DURATION_MAX {
            false => Ok(duration),
            true => Err(SpecError::wrong_use(format!(
                "a duration of {duration} per step measures nothing useful"
            ))
            .hint("give 100ms to 31d")),
        }
    }
}

/// What a run of a profile is about.
#[derive(Debug, Clone, Copy)]
enum Foreground<'a> {
    Log,
    Stream(&'a StreamProfile),
}

impl<'a> Foreground<'a> {
    /// A profile has a log or a stream: who read it made sure.
    fn of(profile: &'a Profile) -> Result<Self, SpecError> {
        if profile.log.is_some() {
            return Ok(Self::Log);
        }
        let writer = profile.streams.iter().find(|stream| stream.kind == StreamKind::Write);
        let first = writer.or(profile.streams.first());
        first
            .map(Self::Stream)
            .ok_or_else(|| SpecError::wrong_use("the profile has neither a log nor a stream"))
    }

    fn name(self) -> &'a str {
        match self {
            Self::Log => "log",
            Self::Stream(stream) => &stream.name,
        }
    }

    fn is(self, stream: &StreamProfile) -> bool {
        matches!(self, Self::Stream(it) if it.name == stream.name)
    }
}

/// Makes the plan.
///
/// # Errors
/// If a place is not a directory, room is too small, or a duration measures nothing.
pub fn plan_profile(request: &ProfileRequest) -> Result<Plan, SpecError> {
    let profile = &request.profile;
    let foreground = Foreground::of(profile)?;
    let duration = request.time()?;
    let files = ProfileFiles::of(request, foreground)?;
    let mut made = ProfileSteps { profile, foreground, files: &files, duration }.all()?;
    let all = with_costs(self_costs(&made.steps), made.steps, &mut made.sections);
    let campaign = Campaign {
        name: profile.name.clone(),
        summary: format!("{}: {}", profile.title, profile.summary),
        sections: made.sections,
        notes: notes(profile, &files),
        ..Campaign::default()
    };
    let plan = plan_of(Purpose::Profile, (request.seed, request.clock), files.targets, all);
    let plan = Plan { campaign: Some(campaign), thresholds: profile.run_thresholds(), ..plan };
    plan.validate().map_err(SpecError::wrong_use)?;
    Ok(plan)
}

fn notes(profile: &Profile, files: &ProfileFiles) -> Vec<String> {
    let fittings = profile.fittings().map(|(stream, text)| format!("{stream}: {text}"));
    fittings.chain(profile.notes.iter().cloned()).chain(files.shortened.clone()).collect()
}

pub(crate) fn section(name: &str, summary: String, first_step: u32, steps: u32) -> PlanSection {
    PlanSection {
        name: name.to_owned(),
        summary,
        kind: SectionKind::Single,
        first_step,
        steps,
        rounds: None,
        baseline: None,
    }
}

// The files: a stream whose file is used up by a step (one that grows, one that is allocated and
// unwritten) has one for each step; one that is overwritten in place is shared.

/// The file that readers read and in-place writers write.
const DATA: &str = "data";

/// The data file, and the most that a growing file may have.
const USUAL: Bytes = Bytes::from_gib(1);
const QUICK: Bytes = Bytes::from_mib(256);

/// The least bytes of a file.
// A few of the usual blocks for each job.
const LEAST: Bytes = Bytes::from_mib(4);

/// The step that uses a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Idle,
    Loaded,
}

/// A file before its size is settled.
#[derive(Debug, Clone)]
struct FileDraft {
    stream: String,
    /// The step that has it for itself; none if all share it.
    when: Option<When>,
    layout: FileLayout,
    wanted: Bytes,
    least: Bytes,
    is_log: bool,
}

/// The files of all streams, and the targets that they become.
#[derive(Debug)]
struct ProfileFiles {
    files: Vec<FileDraft>,
    targets: Vec<Target>,
    /// The remark on files that are smaller than the profile's.
    shortened: Option<String>,
}

impl ProfileFiles {
    fn of(request: &ProfileRequest, foreground: Foreground<'_>) -> Result<Self, SpecError> {
        let files = wanted(request, foreground);
        let (log, data) = (directory(&request.log)?, directory(&request.data)?);
        // Files of one filesystem share its tenth; of two, each has its own.
        let sizes = match log.filesystem == data.filesystem {
            true => sizes(request, &files, &|_| true, data)?,
            false => {
                let of_log = sizes(request, &files, &|file| file.is_log, log)?;
                let of_data = sizes(request, &files, &|file| !file.is_log, data)?;
                of_log.into_iter().zip(of_data).map(|(log, data)| log.or(data)).collect()
            }
        };
        let mut targets = vec![null_target()];
        for (file, size) in files.iter().zip(&sizes) {
            let number = targets.len();
            targets.push(target(request, file, size.unwrap_or(file.wanted), number));
        }
        let shortened = shortened(&files, &targets);
        Ok(Self { files, targets, shortened })
    }

    /// The indices of a stream's targets in a step.
    fn of_stream(&self, stream: &str, when: When) -> Vec<usize> {
        let find = |name: &str| -> Vec<usize> {
            let is_it =
                |file: &FileDraft| file.stream == name && file.when.is_none_or(|step| step == when);
            let files = self.files.iter().enumerate();
            files.filter(|(_, file)| is_it(file)).map(|(at, _)| at + 1).collect()
        };
        // A stream without separate files works in place, on the common data file.
        let own = find(stream);
        if own.is_empty() { find(DATA) } else { own }
    }
}

/// Every file with the size that it would have with all the room in the world.
fn wanted(request: &ProfileRequest, foreground: Foreground<'_>) -> Vec<FileDraft> {
    let usual = if request.quick { QUICK } else { USUAL };
    let mut files = Vec::new();
    if let Some(log) = &request.profile.log {
        files.extend(log_files(log, usual));
    }
    let mut data_least = None::<Bytes>;
    for stream in &request.profile.streams {
        let least = least(&stream.workload(), stream.jobs.value.get());
        if stream.file_handling() == FileHandling::Recycled {
            data_least = Some(data_least.map_or(least, |most| most.max(least)));
        } else {
            files.extend(stream_files(stream, foreground, usual, least));
        }
    }
    let asked = request.profile.thresholds.iter().any(|threshold| threshold.of.is_none());
    if let Some(least) = data_least.or(asked.then_some(LEAST)) {
        files.push(FileDraft {
            stream: DATA.to_owned(),
            when: None,
            layout: FileLayout::Incompressible,
            wanted: request.size.unwrap_or(usual).max(least),
            least,
            is_log: false,
        });
    }
    files
}

/// As many as there are logs, for each step that needs fresh ones.
fn log_files(log: &LogProfile, usual: Bytes) -> Vec<FileDraft> {
    let handling = log.file.value;
    let wanted = match handling {
        FileHandling::Extend => usual,
        _ => log.file_size.value.min(usual),
    };
    let least = least(&log.workload(), 1);
    let file = |when| FileDraft {
        stream: "log".to_owned(),
        when,
        layout: layout(handling),
        wanted: wanted.max(least),
        least,
        is_log: true,
    };
    let steps: &[Option<When>] = match handling.is_used_up() {
        true => &[Some(When::Idle), Some(When::Loaded)],
        false => &[None],
    };
    let each = |when: &Option<When>| vec![file(*when); log.logs.value.get() as usize];
    steps.iter().flat_map(each).collect()
}

fn stream_files(
    stream: &StreamProfile,
    foreground: Foreground<'_>,
    usual: Bytes,
    least: Bytes,
) -> Vec<FileDraft> {
    let handling = stream.file_handling();
    let in_both = foreground.is(stream) || stream.runs_always();
    let steps: &[Option<When>] = match handling.is_used_up() && in_both {
        true => &[Some(When::Idle), Some(When::Loaded)],
        false => &[None],
    };
    let file = |when: &Option<When>| FileDraft {
        stream: stream.name.clone(),
        when: *when,
        layout: layout(handling),
        wanted: usual.max(least),
        least,
        // Streams that are a part of every commit lie with the log.
        is_log: stream.runs_always(),
    };
    steps.iter().map(file).collect()
}

pub(crate) const fn layout(handling: FileHandling) -> FileLayout {
    match handling {
        FileHandling::Extend => FileLayout::Empty,
        FileHandling::Preallocated => FileLayout::Preallocated,
        FileHandling::ZeroFilled => FileLayout::ZeroFilled,
        // Written once before, with contents: the state that a recycled log finds.
        FileHandling::Recycled => FileLayout::Incompressible,
    }
}

/// Four writes of the largest size for each of `jobs`.
fn least(workload: &Workload, jobs: u32) -> Bytes {
    let write = |group: &GroupCommit| group.write_max(workload.block_size);
    let largest = workload.group_commit.as_ref().map_or(workload.block_size, write);
    let bytes = largest.get().saturating_mul(4).saturating_mul(jobs.into());
    LEAST.max(Bytes::new(bytes))
}

/// A directory with its room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectoryRoom<'a> {
    pub(crate) path: &'a RawPath,
    pub(crate) free: Bytes,
    filesystem: u64,
}

pub(crate) fn directory(location: &Location) -> Result<DirectoryRoom<'_>, SpecError> {
    let path = &location.path;
    match location.facts {
        LocationFacts::Directory { free, filesystem } => {
            Ok(DirectoryRoom { path, free, filesystem })
        }
        LocationFacts::Absent { .. } => {
            Err(SpecError::wrong_use(format!("'{path}' does not exist"))
                .hint("name an existing directory"))
        }
        LocationFacts::File { .. } | LocationFacts::Device { .. } | LocationFacts::NullDevice => {
            Err(SpecError::cannot_measure(format!("'{path}' is not a directory")).hint(
                "a profile has several files at the same time: name a directory on the storage",
            ))
        }
    }
}

/// The sizes of the files that lie in `room`: those that are wanted, or as much less as a tenth of
/// the free space asks for. Only the data file's may be asked to be more.
fn sizes(
    request: &ProfileRequest,
    files: &[FileDraft],
    is_there: &dyn Fn(&FileDraft) -> bool,
    room: DirectoryRoom<'_>,
) -> Result<Vec<Option<Bytes>>, SpecError> {
    let is_asked = |file: &FileDraft| file.stream == DATA && request.size.is_some();
    let here = || files.iter().filter(|file| is_there(file));
    let sum = |files: &mut dyn Iterator<Item = &FileDraft>| {
        files.fold(0_u64, |sum, file| sum.saturating_add(file.wanted.get()))
    };
    let asked = sum(&mut here().filter(|file| is_asked(file)));
    let shared = sum(&mut here().filter(|file| !is_asked(file)));
    let (path, free) = (room.path, room.free);
    let tenth = free.get() / 10;
    if asked > free.get().saturating_sub(tenth) {
        return Err(SpecError::cannot_measure(format!(
            "--size {} does not fit: '{path}' has {free} free, and the logs need some of it",
            Bytes::new(asked)
        ))
        .hint("use a smaller --size, or free some space"));
    }
    let size = |file: &FileDraft| -> Result<Bytes, SpecError> {
        if shared <= tenth || is_asked(file) {
            return Ok(file.wanted);
        }
        let part = u128::from(file.wanted.get()) * u128::from(tenth) / u128::from(shared.max(1));
        let part = Bytes::new(u64::try_from(part).unwrap_or(u64::MAX));
        let part = part.rounded_down_to(Bytes::from_mib(1));
        match part >= file.least {
            true => Ok(part),
            false => Err(SpecError::cannot_measure(format!(
                "'{path}' has only {free} free: a tenth of it, shared by all files of the \
                 profile, leaves {part} for {} that needs {}",
                file.stream, file.least
            ))
            .hint("free some space, or name larger storage with --target")),
        }
    };
    files.iter().map(|file| is_there(file).then(|| size(file)).transpose()).collect()
}

fn target(request: &ProfileRequest, file: &FileDraft, size: Bytes, number: usize) -> Target {
    let location = if file.is_log { &request.log } else { &request.data };
    let name = match file.when {
        None => file.stream.clone(),
        Some(When::Idle) => format!("{}-idle", file.stream),
        Some(When::Loaded) => format!("{}-loaded", file.stream),
    };
    let file_name = format!("{}.{number}", request.file_name);
    // A profile writes only to its own files, whatever --destroy names.
    Target { destroy: false, ..location.target(name, file_name, file.layout, size) }
}

fn shortened(files: &[FileDraft], targets: &[Target]) -> Option<String> {
    let pairs = files.iter().zip(targets.iter().skip(1));
    let short = pairs.filter(|(file, target)| target.size < file.wanted);
    let mut names: Vec<String> = short
        .map(|(file, target)| format!("{} {} of {}", target.name, target.size, file.wanted))
        .collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "files are shortened, so that all take at most a tenth of the free space: {}",
            names.join(", ")
        )
    })
}

/// What the steps are made from.
#[derive(Debug, Clone, Copy)]
struct ProfileSteps<'a> {
    profile: &'a Profile,
    foreground: Foreground<'a>,
    files: &'a ProfileFiles,
    duration: Nanos,
}

/// Steps and sections, neither numbered for the whole plan yet.
#[derive(Debug, Default)]
struct ProfileParts {
    steps: Vec<Step>,
    sections: Vec<PlanSection>,
}

impl ProfileParts {
    fn add(&mut self, name: &str, summary: String, steps: Vec<Step>) {
        let first = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let count = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let index = u32::try_from(self.sections.len()).unwrap_or(u32::MAX);
        let section_of = |step| Step { section: Some(index), ..step };
        self.steps.extend(steps.into_iter().map(section_of));
        self.sections.push(section(name, summary, first, count));
    }
}

impl<'a> ProfileSteps<'a> {
    fn all(self) -> Result<ProfileParts, SpecError> {
        let mut made = ProfileParts::default();
        let name = self.foreground.name();
        let always = self.beside(When::Idle);
        let with = match always.is_empty() {
            true => String::new(),
            false => format!(", with the parts of every commit: {}", names(&always)),
        };
        made.add("idle", format!("{name} alone{with}"), vec![self.step(When::Idle)?]);
        let others = self.beside(When::Loaded);
        // Without more loads than the idle step has, it would be the idle step once again.
        if others.len() > always.len() {
            let summary = format!("{name} beside {}", names(&others));
            made.add("under load", summary, vec![self.step(When::Loaded)?]);
        }
        let asked = self.asked()?;
        if !asked.is_empty() {
            let summary = "the data file alone, with workloads of durio check".to_owned();
            made.add("what the documents ask for", summary, asked);
        }
        Ok(made)
    }

    /// The streams that run with the foreground.
    fn beside(self, when: When) -> Vec<&'a StreamProfile> {
        let runs = |stream: &&StreamProfile| {
            !self.foreground.is(stream) && (when == When::Loaded || stream.runs_always())
        };
        self.profile.streams.iter().filter(runs).collect()
    }

    fn step(self, when: When) -> Result<Step, SpecError> {
        let load = match (self.foreground, &self.profile.log) {
            (Foreground::Stream(stream), _) => self.stream(stream, when)?,
            (Foreground::Log, Some(log)) => {
                let load = self.load("log", when, log.workload())?;
                Load { arrivals: log.arrivals(), ..load }
            }
            (Foreground::Log, None) => return Err(SpecError::wrong_use("there is no log")),
        };
        let streams = self.beside(when);
        let beside = streams.into_iter().map(|stream| self.stream(stream, when));
        let (value, label) = match when {
            When::Idle => (0.0, "idle"),
            When::Loaded => (1.0, "under load"),
        };
        let level = ParameterValue { axis: STATE_AXIS.to_owned(), value, label: label.to_owned() };
        Ok(Step {
            beside: beside.collect::<Result<_, _>>()?,
            levels: vec![level],
            // Otherwise readers would find the new files in memory.
            drop_cache: when == When::Loaded,
            ..self.timed(load)
        })
    }

    fn stream(self, stream: &StreamProfile, when: When) -> Result<Load, SpecError> {
        let load = self.load(&stream.name, when, stream.workload())?;
        Ok(Load { arrivals: stream.arrivals(), ..load })
    }

    fn load(self, stream: &str, when: When, workload: Workload) -> Result<Load, SpecError> {
        let targets = self.files.of_stream(stream, when);
        let Some((first, more)) = targets.split_first() else {
            return Err(SpecError::wrong_use(format!("the stream '{stream}' has no file")));
        };
        let engine = if workload.depth == 1 { EngineKind::Sync } else { EngineKind::Uring };
        Ok(Load { more_targets: more.to_vec(), ..Load::new(*first, workload, engine) })
    }

    fn timed(self, load: Load) -> Step {
        let ramp = ramp_for(self.duration);
        let interval = interval_for(self.duration, ramp);
        Step { ramp, ..Step::new(Role::Measure, load, Limit::Duration(self.duration), interval) }
    }

    /// The workloads of check that thresholds name and no stream shows.
    fn asked(self) -> Result<Vec<Step>, SpecError> {
        let thresholds = &self.profile.thresholds;
        let wanted = |name: &str| {
            thresholds
                .iter()
                .any(|threshold| threshold.of.is_none() && threshold.check.as_deref() == Some(name))
        };
        let workloads =
            check_workloads().into_iter().filter(|(_, workload)| wanted(&workload.name));
        let step = |(_, workload): (_, Workload)| {
            // On the data file, which both steps share and neither uses up.
            let load = self.load(DATA, When::Idle, workload)?;
            Ok(self.timed(Load { arrivals: Arrivals::Closed, ..load }))
        };
        workloads.map(step).collect()
    }
}

/// The axis on which idle is 0 and under load is 1.
const STATE_AXIS: &str = "state";

fn names(streams: &[&StreamProfile]) -> String {
    streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>().join(", ")
}
