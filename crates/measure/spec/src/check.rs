//! The plan of `durio check`: which files, how large, how long.

use durio_base::{Bytes, Nanos, did_you_mean};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, Location, LocationFacts, Plan, Purpose,
    RawPath, Role, Step, Target, Threshold,
};
use durio_workload::{
    CacheMode, PerMille, SyncMethod, SyncPolicy, Workload, WorkloadFile, check_workloads,
};

use crate::predict::Predictions;
use crate::profile::{Profile, check_thresholds};
use crate::{
    DURATION_MAX, DURATION_MIN, SpecError, interval_for, null_target, plan_of, ramp_for,
    self_costs, with_costs,
};

/// The duration per workload from which results are not provisional.
// Shorter runs see no garbage collection, throttling or end of burst credits; durio-analyse calls
// them provisional (FULL_SECONDS).
pub const FULL_DURATION: Nanos = Nanos::from_secs(300);

/// The smallest set of files that `check` lays out by itself.
const FILES_MIN: Bytes = Bytes::from_mib(16);

/// A prediction is a rate of hundreds of commits or more: `durio predict` measures no longer either.
const PREDICTION_MAX: Nanos = Nanos::from_secs(5);

/// Predicted logs take one of so many parts of the room that `check` has.
const PREDICTED_PARTS: u64 = 4;

/// Calls of each kind.
// Enough to distinguish their flushes from others', over in a moment on any disk.
const SYNC_CALLS: u64 = 20;

/// The smallest data file.
// Two halves for `scan` with several blocks of 256 KiB in flight.
const DATA_MIN: Bytes = Bytes::from_mib(4);

/// How long `check` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckLength {
    /// Under 15 s in all.
    Quick,
    /// About 60 s in all.
    Usual,
    /// 300 s per workload.
    Thorough,
}

impl CheckLength {
    // Five workloads at this and three lines of committers at theirs: 9 s of the 15, 54 of the 60.
    // The rest is for ramps and for laying out files.
    fn duration(self) -> Nanos {
        match self {
            Self::Quick => Nanos::from_millis(1400),
            Self::Usual => Nanos::from_secs(9),
            Self::Thorough => FULL_DURATION,
        }
    }

    /// That of the lines for committers.
    fn duration_of_groups(self) -> Nanos {
        // Their results are rates, which need less time than percentiles.
        match self {
            Self::Quick => Nanos::from_millis(600),
            Self::Usual => Nanos::from_secs(3),
            Self::Thorough => FULL_DURATION,
        }
    }

    /// That of a predicted database with one number of clients.
    fn duration_of_predictions(self) -> Nanos {
        // Thirteen steps of the five usual databases take 13 s in all; quick has five.
        match self {
            Self::Quick => Nanos::from_millis(300),
            Self::Usual => Nanos::from_millis(900),
            Self::Thorough => PREDICTION_MAX,
        }
    }

    /// The most that the logs of all predicted databases take.
    fn predicted_size(self) -> Bytes {
        // Laying them out takes time, too. A log that is used up must not be full before its step
        // ends, and those of --thorough last longest.
        match self {
            Self::Quick => Bytes::from_mib(64),
            Self::Usual => Bytes::from_mib(256),
            Self::Thorough => Bytes::from_gib(1),
        }
    }

    fn data_size(self) -> Bytes {
        match self {
            Self::Quick => Bytes::from_mib(256),
            Self::Usual | Self::Thorough => Bytes::from_gib(1),
        }
    }
}

/// What the user asks of `durio check`.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRequest {
    /// The places to check, one after the other.
    pub locations: Vec<Location>,
    pub length: CheckLength,
    /// Duration per workload, instead of the length's.
    pub duration: Option<Nanos>,
    /// Size of the data file, instead of the length's.
    pub size: Option<Bytes>,
    /// Only these workloads; all if empty.
    pub only: Vec<String>,
    /// Databases whose commits are predicted, in each directory that has room for their logs.
    pub predicted: Vec<Profile>,
    /// Databases that the user asks about: their limits decide the verdict.
    pub asked: Vec<String>,
    /// Limits that the user sets, before those that are published.
    pub goals: Vec<Threshold>,
    /// Seed of every random choice.
    pub seed: u64,
    pub clock: ClockChoice,
    /// File name for filesystems without unnamed files: unique to the run.
    pub file_name: String,
}

/// Sizes of the three files.
#[derive(Debug, Clone, Copy)]
struct FileSizes {
    data: Bytes,
    log: Bytes,
    segment: Bytes,
}

/// Size of the log file of the usual check.
// Larger than any device's volatile write cache that answers in microseconds would hide, small
// enough to lay out at once.
const LOG: Bytes = Bytes::from_mib(128);

// etcd's segment (server/storage/wal: `SegmentSizeBytes` = 64 × 1000 × 1000).
const SEGMENT: Bytes = Bytes::new(64_000_000);

/// Makes the plan.
///
/// # Errors
/// If a bound is violated, nothing can be measured at a location, or it holds too little.
pub fn plan_check(request: &CheckRequest) -> Result<Plan, SpecError> {
    check_names(&request.only)?;
    let duration = checked_duration(request)?;
    let mut targets = vec![null_target()];
    let mut steps = Vec::new();
    for location in &request.locations {
        add_location(request, location, duration, &mut targets, &mut steps)?;
    }
    if steps.is_empty() {
        return Err(SpecError::wrong_use("no workload is left to run")
            .hint("existing data is only read (lookup, scan), unless --destroy names it"));
    }
    let all = with_costs(self_costs(&steps), steps, &mut []);
    let plan = plan_of(Purpose::Check, (request.seed, request.clock), targets, all);
    for goal in &request.goals {
        if !plan.steps.iter().flat_map(Step::loads).any(|load| load.workload.name == goal.workload)
        {
            let text = format!("the goal '{}' needs a workload that is not run", goal.criterion);
            return Err(SpecError::wrong_use(text).hint("see --workload and --destroy"));
        }
    }
    let mut published = check_thresholds()?;
    for threshold in &mut published {
        threshold.asked = request.asked.contains(&threshold.database);
    }
    // Stable: documented ones stay before the others.
    published.sort_by_key(|threshold| !threshold.asked);
    let thresholds = request.goals.iter().cloned().chain(published).collect();
    Ok(Plan { thresholds, ..plan })
}

fn check_names(only: &[String]) -> Result<(), SpecError> {
    let known: Vec<String> =
        check_workloads().into_iter().map(|(_, workload)| workload.name).collect();
    match only.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(SpecError::wrong_use(format!("'{name}' is not a workload of check"))
            .hint(did_you_mean(
                name,
                &known.iter().map(String::as_str).collect::<Vec<_>>(),
                "the workloads are",
            ))),
        None => Ok(()),
    }
}

fn checked_duration(request: &CheckRequest) -> Result<Nanos, SpecError> {
    let duration = request.duration.unwrap_or(request.length.duration());
    if duration < DURATION_MIN || duration > DURATION_MAX {
        return Err(SpecError::wrong_use(format!(
            "a duration of {duration} per workload measures nothing useful"
        ))
        .hint("give 100ms to 31d; 300s or more for final results"));
    }
    Ok(duration)
}

fn add_location(
    request: &CheckRequest,
    location: &Location,
    duration: Nanos,
    targets: &mut Vec<Target>,
    steps: &mut Vec<Step>,
) -> Result<(), SpecError> {
    let sizes = sizes_for(request, location)?;
    let mut place = |files| {
        let target = target_for(request, location, files, sizes);
        // Workloads with one kind of file share it: laying out three files takes time and room
        // enough.
        targets.iter().position(|known| *known == target).unwrap_or_else(|| {
            targets.push(target);
            targets.len() - 1
        })
    };
    let wanted = |workload: &Workload, files| {
        let is_asked_for = request.only.is_empty() || request.only.contains(&workload.name);
        is_asked_for && fits(workload, files, location)
    };
    let mut is_durable = false;
    for (files, workload) in check_workloads() {
        if !wanted(&workload, files) {
            continue;
        }
        if workload.is_durable() && !is_durable {
            // Before the first result: whether syncs arrive at all.
            steps.push(sync_calls(place(WorkloadFile::Log)));
            is_durable = true;
        }
        let index = place(files);
        let is_group = request.duration.is_none() && workload.group_commit.is_some();
        let groups = request.length.duration_of_groups();
        let load = load(workload, index);
        steps.push(step(load, if is_group { groups } else { duration }));
    }
    add_predictions(request, location, targets, steps);
    Ok(())
}

fn add_predictions(
    request: &CheckRequest,
    location: &Location,
    targets: &mut Vec<Target>,
    steps: &mut Vec<Step>,
) {
    let LocationFacts::Directory { free, filesystem } = location.facts else { return };
    let Predictions { databases, log_max } =
        predictions(request, free, sharing(request, filesystem));
    let wished = request.duration.unwrap_or(request.length.duration_of_predictions());
    for database in databases {
        let first = targets.len();
        targets.extend(database.logs(location, &request.file_name, log_max));
        let logs = (first..targets.len()).cycle();
        for (clients, log) in database.clients.iter().zip(logs) {
            steps.push(step(database.load(*clients, log), wished.min(PREDICTION_MAX)));
        }
    }
}

/// The predictions of a directory with so much free space, which other directories share.
fn predictions(request: &CheckRequest, free: Bytes, sharing: u64) -> Predictions<'_> {
    // Several databases with each number of clients would take longer than all the rest.
    let brief = request.length == CheckLength::Quick && request.predicted.len() > 1;
    let part = Bytes::new(free.get() / 10 / sharing.max(1) / PREDICTED_PARTS);
    Predictions::new(&request.predicted, brief, part.min(request.length.predicted_size()))
}

/// Whether sync calls reach the devices, through the C library as a database calls them, and
/// without it.
fn sync_calls(target: usize) -> Step {
    let workload = Workload {
        name: "sync-calls".to_owned(),
        summary: "whether sync calls reach the device, through the C library and without it"
            .to_owned(),
        read_share: PerMille::NONE,
        // libeatmydata and its like replace the C library's fsync: that is why the calls are made
        // with it and without.
        sync: SyncPolicy::each(SyncMethod::Fsync),
        cache: CacheMode::Buffered,
        ..Workload::default()
    };
    let load = Load::new(target, workload, EngineKind::Sync);
    let limit = Limit::Operations(SYNC_CALLS);
    let step = Step::new(Role::ProbeSyncCalls, load, limit, Nanos::from_secs(1));
    Step { declinable: true, ..step }
}

// Only directories take files; existing targets are written only with the user's permission.
fn fits(workload: &Workload, files: WorkloadFile, location: &Location) -> bool {
    match location.facts {
        LocationFacts::Directory { .. } => true,
        LocationFacts::File { .. } | LocationFacts::Device { .. } => {
            // A preallocated segment is a thing of filesystems.
            files != WorkloadFile::Segment && (location.destroy || !workload.writes())
        }
        LocationFacts::Absent { .. } | LocationFacts::NullDevice => false,
    }
}

fn sizes_for(request: &CheckRequest, location: &Location) -> Result<FileSizes, SpecError> {
    let path = &location.path;
    match location.facts {
        LocationFacts::Directory { free, filesystem } => {
            sizes_in_directory(request, path, free, sharing(request, filesystem))
        }
        LocationFacts::File { size } | LocationFacts::Device { size } => {
            let data = request.size.unwrap_or(size);
            if data > size || data < DATA_MIN {
                return Err(SpecError::cannot_measure(format!(
                    "'{path}' has {size}; check needs at least {DATA_MIN} and at most its size, \
                     not {data}"
                ))
                .hint("name a directory, in which durio can create its files"));
            }
            Ok(FileSizes { data, log: LOG.min(data), segment: Bytes::ZERO })
        }
        LocationFacts::Absent { .. } => {
            Err(SpecError::wrong_use(format!("'{path}' does not exist"))
                .hint("name an existing directory, file or block device"))
        }
        LocationFacts::NullDevice => {
            Err(SpecError::cannot_measure(format!("'{path}' is not storage"))
                .hint("name a directory, a file or a block device; durio run takes null devices"))
        }
    }
}

/// How many of the directories to check are on this filesystem.
fn sharing(request: &CheckRequest, wanted: u64) -> u64 {
    let is_there = |location: &&Location| matches!(location.facts, LocationFacts::Directory { filesystem, .. } if filesystem == wanted);
    request.locations.iter().filter(is_there).count() as u64
}

/// The files of all directories on a filesystem, `sharing` of them, are there at the same time.
fn sizes_in_directory(
    request: &CheckRequest,
    path: &RawPath,
    free: Bytes,
    sharing: u64,
) -> Result<FileSizes, SpecError> {
    let predicted = predictions(request, free, sharing).size();
    // Who names a size may have more than the tenth that durio takes by itself.
    let Some(data) = request.size else {
        return default_sizes(request.length, path, (free, predicted), sharing);
    };
    if data < DATA_MIN {
        return Err(SpecError::wrong_use(format!("--size {data} is less than {DATA_MIN}")));
    }
    let log = LOG.min(data);
    let segment = SEGMENT.min(data);
    let logs = log.get() + segment.get() + predicted;
    let sum = data.get().saturating_add(logs).saturating_mul(sharing);
    if sum > free.get() {
        return Err(SpecError::cannot_measure(format!(
            "--size {data} needs {} with its logs{}, but '{path}' has {free} free",
            Bytes::new(sum),
            each_of(sharing)
        ))
        .hint("use a smaller --size, or free some space"));
    }
    Ok(FileSizes { data, log, segment })
}

fn each_of(sharing: u64) -> String {
    match sharing {
        0 | 1 => String::new(),
        _ => format!(" for all {sharing} directories on its filesystem"),
    }
}

/// At most a tenth of the free space for all files, of which the logs of `predicted` bytes are some.
fn default_sizes(
    length: CheckLength,
    path: &RawPath,
    (free, predicted): (Bytes, u64),
    sharing: u64,
) -> Result<FileSizes, SpecError> {
    // A newcomer's first run must not fill a disk.
    let tenth = free.get() / 10 / sharing.max(1);
    if tenth < FILES_MIN.get() {
        return Err(SpecError::cannot_measure(format!(
            "'{path}' has only {free} free, and check uses at most a tenth of it{}",
            each_of(sharing)
        ))
        .hint(room_hint(free, FREE_PARTS * sharing.max(1), DATA_MIN, FILES_MIN)));
    }
    // Where room is short the data keeps most of it: reads from few blocks are reads from some
    // cache.
    let tenth = tenth.saturating_sub(predicted);
    let log = LOG.get().min(tenth / 4);
    let segment = SEGMENT.get().min(tenth / 8);
    let data = length.data_size().get().min(tenth - log - segment);
    // Whole MiB keep every block size of the workloads a divisor.
    let whole = |bytes| Bytes::new(bytes).rounded_down_to(Bytes::from_mib(1));
    Ok(FileSizes { data: whole(data), log: whole(log), segment: Bytes::new(segment) })
}

/// A data file with its log and segment takes up to three times its size; the fourth part is left to
/// the filesystem.
const FREE_PARTS: u64 = 4;

/// The way out where a tenth of the free space is too little: a size that fits, at most `usual`, if one
/// of `parts` of the free space is at least `least`.
pub(crate) fn room_hint(free: Bytes, parts: u64, least: Bytes, usual: Bytes) -> String {
    let fits = Bytes::new(free.get() / parts).min(usual).rounded_down_to(Bytes::from_mib(1));
    if fits >= least {
        let mib = fits.get() >> 20;
        return format!("free some space, or permit more with --size, for example --size {mib}MiB");
    }
    let needed = Bytes::new(least.get().saturating_mul(parts));
    format!("free some space: with {needed} free, the smallest --size ({least}) fits")
}

fn target_for(
    request: &CheckRequest,
    location: &Location,
    files: WorkloadFile,
    sizes: FileSizes,
) -> Target {
    let (name, layout, size) = match files {
        WorkloadFile::Data => ("data", FileLayout::Incompressible, sizes.data),
        WorkloadFile::Log => ("log", FileLayout::ZeroFilled, sizes.log),
        WorkloadFile::Segment => ("segment", FileLayout::Preallocated, sizes.segment),
    };
    let file_name = format!("{}.{name}", request.file_name);
    location.target(name.to_owned(), file_name, layout, size)
}

fn load(workload: Workload, target: usize) -> Load {
    let engine = if workload.depth == 1 { EngineKind::Sync } else { EngineKind::Uring };
    Load::new(target, workload, engine)
}

fn step(load: Load, duration: Nanos) -> Step {
    let ramp = ramp_for(duration);
    let interval = interval_for(duration, ramp);
    Step { ramp, ..Step::new(Role::Measure, load, Limit::Duration(duration), interval) }
}

#[cfg(test)]
mod tests;
