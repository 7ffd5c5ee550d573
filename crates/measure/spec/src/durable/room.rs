//! Which files there are and how large: at most a tenth of the free space, unless a size is named.

use durio_base::Bytes;
use durio_plan::{FileLayout, LocationFacts, Target};
use durio_workload::RegionRule;

use super::parts::{DurablePoint, PointFiles};
use super::{DurableLength, DurableRequest};
use crate::SpecError;
use crate::check::room_hint;

/// Sizes of the files that are there at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileRoom {
    /// The log of all.
    pub(super) log: Bytes,
    /// Each of the logs that are one writer's own.
    pub(super) own: Bytes,
    /// All files of a step that needs fresh ones; they are removed after it.
    pub(super) fresh: Bytes,
    /// False on a device or an existing file.
    pub(super) makes_files: bool,
}

/// The least bytes of a log.
// A batch of the largest bound four times.
const LOG_MIN: Bytes = Bytes::from_mib(4);

/// The most writers with a file each.
// As many as the experiment of writers goes up to.
const OWN_LOGS_MAX: u64 = 128;

/// An own log that is large enough for every size at which writers are many.
const OWN_LOG: Bytes = Bytes::from_mib(1);

/// All fresh files of a step.
// 16 384 commits of 4 KiB: more than a step lasts on most devices.
const FRESH: Bytes = Bytes::from_mib(64);

/// A share that the log, the own logs and the fresh files take of the room: 2, 1 and 1 of 4.
const SHARES: u64 = 4;

/// A log of a named size and the other files take up to twice that size; the third part is left to the
/// filesystem.
const FREE_PARTS: u64 = 3;

impl FileRoom {
    /// The sizes at the place of `request`.
    pub(super) fn of(request: &DurableRequest) -> Result<Self, SpecError> {
        let location = &request.location;
        let path = &location.path;
        if request.size.is_some_and(|size| size < LOG_MIN) {
            return Err(SpecError::wrong_use(format!("--size is less than {LOG_MIN}"))
                .hint("a log must hold several writes of the largest batches"));
        }
        match location.facts {
            LocationFacts::Directory { free, .. } => in_directory(request, free),
            LocationFacts::File { size } | LocationFacts::Device { size } => {
                if !location.destroy {
                    return Err(crate::would_destroy(path));
                }
                within_existing(request, size)
            }
            LocationFacts::Absent { .. } => {
                Err(SpecError::wrong_use(format!("'{path}' does not exist"))
                    .hint("name an existing directory, file or block device"))
            }
            LocationFacts::NullDevice => {
                Err(SpecError::cannot_measure(format!("'{path}' is not storage"))
                    .hint("name a directory, a file or a block device"))
            }
        }
    }

    /// True if every writer of `point` has room for one write at least.
    pub(super) fn holds(&self, point: &DurablePoint) -> bool {
        let workload = &point.workload;
        let record = workload.block_size;
        let largest = workload.group_commit.map_or(record, |policy| policy.write_max(record));
        let (size, sharers) = match (point.files, workload.region) {
            (PointFiles::Log, RegionRule::ShareEach) => (self.log, u64::from(workload.jobs)),
            (PointFiles::Log, _) => (self.log, 1),
            (PointFiles::OwnLogs(_), _) => (self.own, 1),
            (PointFiles::Fresh { size, .. }, _) => (size, 1),
        };
        size.get() / sharers >= largest.get()
    }
}

fn log_default(length: DurableLength) -> Bytes {
    match length {
        DurableLength::Quick => Bytes::from_mib(64),
        DurableLength::Usual | DurableLength::Full => Bytes::from_mib(128),
    }
}

fn in_directory(request: &DurableRequest, free: Bytes) -> Result<FileRoom, SpecError> {
    let path = &request.location.path;
    let room = match request.size {
        Some(log) => divided(log, log.get() / 2),
        None => {
            let tenth = free.get() / 10;
            // With less, two of the four shares do not hold the smallest log.
            if tenth < LOG_MIN.get() / 2 * SHARES {
                return Err(SpecError::cannot_measure(format!(
                    "'{path}' has only {free} free, and durable uses at most a tenth of it"
                ))
                .hint(room_hint(free, FREE_PARTS, LOG_MIN, LOG_MIN)));
            }
            let log = log_default(request.length).get().min(tenth / SHARES * 2);
            divided(Bytes::new(log).rounded_down_to(Bytes::from_mib(1)), tenth / SHARES)
        }
    };
    let sum = [room.log.get(), room.own.get().saturating_mul(OWN_LOGS_MAX), room.fresh.get()]
        .into_iter()
        .fold(0, u64::saturating_add);
    if sum > free.get() {
        let (log, sum) = (room.log, Bytes::new(sum));
        return Err(SpecError::cannot_measure(format!(
            "--size {log} needs {sum} with its other files, but '{path}' has {free} free"
        ))
        .hint("use a smaller --size, or free some space"));
    }
    Ok(room)
}

/// The room with this log, and as many bytes for all own logs and again for fresh files.
fn divided(log: Bytes, other: u64) -> FileRoom {
    let page = Bytes::from_kib(4);
    // Whole pages, for O_DIRECT takes no regions that end within a block.
    let own = Bytes::new(other / OWN_LOGS_MAX).min(OWN_LOG).rounded_down_to(page);
    let fresh = Bytes::new(other).min(FRESH).rounded_down_to(Bytes::from_mib(1));
    FileRoom { log, own, fresh, makes_files: true }
}

fn within_existing(request: &DurableRequest, size: Bytes) -> Result<FileRoom, SpecError> {
    let path = &request.location.path;
    let log = request.size.unwrap_or(size.min(log_default(request.length)));
    let log = log.rounded_down_to(Bytes::from_kib(4));
    if log > size || log < LOG_MIN {
        return Err(SpecError::cannot_measure(format!(
            "'{path}' has {size}; durable needs at least {LOG_MIN} and at most its size, not \
             {log}"
        )));
    }
    Ok(FileRoom { log, own: Bytes::ZERO, fresh: log.min(FRESH), makes_files: false })
}

/// The targets of a plan while its steps are made.
pub(super) struct DurableTargets<'a> {
    request: &'a DurableRequest,
    room: &'a FileRoom,
    pub(super) all: Vec<Target>,
    log: Option<usize>,
    own: Vec<usize>,
}

impl<'a> DurableTargets<'a> {
    /// `first` comes before all others.
    pub(super) fn new(request: &'a DurableRequest, room: &'a FileRoom, first: Target) -> Self {
        Self { request, room, all: vec![first], log: None, own: Vec::new() }
    }

    /// The target of a step, and its further ones.
    pub(super) fn of(&mut self, files: &PointFiles) -> (usize, Vec<usize>) {
        match *files {
            PointFiles::Log => (self.log(), Vec::new()),
            PointFiles::OwnLogs(count) => {
                while self.own.len() < count as usize {
                    let name = format!("log of writer {}", self.own.len() + 1);
                    let made = self.file(name, FileLayout::Incompressible, self.room.own);
                    self.own.push(made);
                }
                first_and_others(self.own.iter().copied().take(count as usize))
            }
            PointFiles::Fresh { layout, size, count } => {
                let made: Vec<usize> = (0..count)
                    .map(|_| self.file(format!("fresh log {}", self.all.len()), layout, size))
                    .collect();
                first_and_others(made.into_iter())
            }
        }
    }

    fn log(&mut self) -> usize {
        if let Some(log) = self.log {
            return log;
        }
        let log = self.file("log".to_owned(), FileLayout::Incompressible, self.room.log);
        *self.log.insert(log)
    }

    fn file(&mut self, name: String, layout: FileLayout, size: Bytes) -> usize {
        let file_name = format!("{}.{}", self.request.file_name, self.all.len());
        self.all.push(self.request.location.target(name, file_name, layout, size));
        self.all.len() - 1
    }
}

fn first_and_others(mut targets: impl Iterator<Item = usize>) -> (usize, Vec<usize>) {
    let first = targets.next().unwrap_or(0);
    (first, targets.collect())
}
