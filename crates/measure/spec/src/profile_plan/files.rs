//! The files of a profile's plan: which stream has which, how large, how laid out.
//!
//! A file whose state a step uses up (one that grows, one that is allocated and unwritten) is there
//! once for each step; one that is overwritten in place is shared.

use durio_base::Bytes;
use durio_plan::{FileLayout, Location, LocationFacts, RawPath, Target};
use durio_workload::{GroupCommit, Workload};

use super::{Foreground, ProfileRequest};
use crate::profile::{FileHandling, LogProfile, StreamProfile};
use crate::{SpecError, null_target};

/// The file that readers read and in-place writers write.
pub(super) const DATA: &str = "data";

/// The data file, and the most that a growing file may have.
const USUAL: Bytes = Bytes::from_gib(1);
const QUICK: Bytes = Bytes::from_mib(256);

/// The smallest file.
// A few of the usual blocks for each job.
const LEAST: Bytes = Bytes::from_mib(4);

/// The step that uses a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
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

/// All files.
#[derive(Debug)]
pub(super) struct ProfileFiles {
    files: Vec<FileDraft>,
    pub(super) targets: Vec<Target>,
    /// The remark on files that are smaller than the profile's.
    pub(super) shortened: Option<String>,
}

impl ProfileFiles {
    pub(super) fn of(
        request: &ProfileRequest,
        foreground: Foreground<'_>,
    ) -> Result<Self, SpecError> {
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
    pub(super) fn of_stream(&self, stream: &str, when: When) -> Vec<usize> {
        let find = |name: &str| -> Vec<usize> {
            let is_it =
                |file: &FileDraft| file.stream == name && file.when.is_none_or(|it| it == when);
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
            data_least = Some(data_least.map_or(least, |it| it.max(least)));
        } else {
            files.extend(stream_files(stream, foreground, usual, least));
        }
    }
    let asked = request.profile.thresholds.iter().any(|it| it.of.is_none());
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
            Err(SpecError::cannot_measure(format!("'{path}' does not exist"))
                .hint("name an existing directory"))
        }
        LocationFacts::File { .. } | LocationFacts::Device { .. } | LocationFacts::NullDevice => {
            Err(SpecError::cannot_measure(format!("'{path}' is no directory")).hint(
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
        .hint("give a smaller --size, or make room"));
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
            .hint("make room, or name a larger storage with --target")),
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
