//! The processes that a capture or a watch of slow calls looks at, the storage below their files,
//! and how often they call to write with and without being traced.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use durio_observe::{Stack, family_of, holders_below, processes_of_unit, read_stack, write_calls};
use rustix::time::{ClockId, clock_gettime};

use crate::StopFlag;
use crate::error::RunError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureTarget {
    /// A process and its children.
    Process(u32),
    /// The processes of a unit of systemd.
    Unit(String),
    /// Processes that hold files below a directory open; only such files count.
    Directory(PathBuf),
    /// durio itself and its children, such as fio; only files at or below these paths count.
    Own(Vec<PathBuf>),
}

impl CaptureTarget {
    pub(crate) fn processes(&self, root: &Path) -> Result<Vec<u32>, RunError> {
        let (found, none) = match self {
            Self::Process(process) => {
                (family_of(root, *process), format!("no process has the ID {process}"))
            }
            Self::Unit(unit) => (
                processes_of_unit(root, unit).unwrap_or_default(),
                format!("unit '{unit}' is not running (see systemctl status {unit})"),
            ),
            Self::Directory(path) => (
                holders_below(root, path),
                format!(
                    "no process holds a file below '{}' open: start the database first",
                    path.display()
                ),
            ),
            Self::Own(_) => return Ok(family_of(root, std::process::id())),
        };
        let own = std::process::id();
        let found: Vec<u32> = found.into_iter().filter(|process| *process != own).collect();
        // A process that may not be looked at has an empty list of descriptors.
        if found.is_empty() { Err(RunError::unsupported(none)) } else { Ok(found) }
    }

    /// The paths at or below which alone files count; empty if all do.
    pub(crate) fn places(&self) -> &[PathBuf] {
        match self {
            Self::Directory(path) => std::slice::from_ref(path),
            Self::Own(places) => places,
            Self::Process(_) | Self::Unit(_) => &[],
        }
    }
}

/// The machine's own PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Refuses to watch from within another PID namespace.
pub(crate) fn refuse_other_namespace(root: &Path) -> Result<(), RunError> {
    let namespace = fs::read_link(root.join("proc/self/ns/pid"));
    match namespace.is_ok_and(|namespace| namespace != Path::new(FIRST_NAMESPACE)) {
        true => Err(RunError::unsupported(
            "durio runs in a PID namespace (a container), but kernel events carry the host's \
             process numbers: run it on the host, or with the host's PID namespace",
        )),
        false => Ok(()),
    }
}

/// The layers below these folders; files of one filesystem have one stack.
pub(crate) fn stacks_below(folders: &BTreeSet<PathBuf>) -> Vec<Stack> {
    let mut seen = HashSet::new();
    // The files of all block devices are in one filesystem.
    let number = |facts: &fs::Metadata| match facts.file_type().is_block_device() {
        true => facts.rdev(),
        false => facts.dev(),
    };
    let is_new =
        |folder: &&PathBuf| fs::metadata(folder).is_ok_and(|facts| seen.insert(number(&facts)));
    folders.iter().filter(is_new).filter_map(|folder| read_stack(folder).ok()).collect()
}

/// The clock of traces: nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

pub(crate) fn cpu_time() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// The calling thread's alone, next to threads that measure.
pub(crate) fn thread_cpu_time() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// How long is looked after a trace, at most.
const LOOK_MAX: Duration = Duration::from_secs(4);
/// And which part of the trace's own time.
const LOOK_PART: u32 = 10;
/// Between two looks at the wish to stop.
const STOP_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The calls of each process, at a time.
#[derive(Debug, Clone)]
pub(crate) struct WriteCalls {
    at: Instant,
    calls: BTreeMap<u32, u64>,
}

impl WriteCalls {
    pub(crate) fn now(root: &Path, processes: &[u32]) -> Self {
        let calls =
            processes.iter().filter_map(|process| Some((*process, write_calls(root, *process)?)));
        Self { calls: calls.collect(), at: Instant::now() }
    }

    /// Calls per second since then, of processes that existed then and still do; none without such
    /// processes.
    pub(crate) fn rate(&self, root: &Path) -> Option<f64> {
        let since = |(process, before): (&u32, &u64)| {
            Some(write_calls(root, *process)?.saturating_sub(*before))
        };
        let calls: Vec<u64> = self.calls.iter().filter_map(since).collect();
        #[expect(clippy::cast_precision_loss, reason = "calls of minutes")]
        let sum = calls.iter().sum::<u64>() as f64;
        (!calls.is_empty()).then(|| sum / self.at.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
    }
}

/// The rate without a trace, for a part of `duration`; none if `stop` is set during it.
pub(crate) fn untraced(
    root: &Path,
    processes: &[u32],
    duration: Duration,
    stop: &StopFlag,
) -> Option<f64> {
    let begin = WriteCalls::now(root, processes);
    let until = begin.at + LOOK_MAX.min(duration / LOOK_PART);
    while Instant::now() < until && !stop.is_set() {
        sleep(STOP_LOOK_PAUSE.min(until.saturating_duration_since(Instant::now())));
    }
    if stop.is_set() { None } else { begin.rate(root) }
}
