//! Watches other processes' storage use: their system calls, and requests to the devices below.
//!
//! Given processes, a unit or a directory, and a time, it emits one [`CaptureEvent`] after the
//! other and returns how it went; `durio-analyse` adds them up.
//!
//! Two trace instances, because a filter by processes would drop the events of disk interrupts and
//! kernel threads: calls are filtered by process (children follow), requests by device. Both ring
//! buffers are read raw, twenty times a second. The watched processes are not touched: their
//! descriptors are looked up in `/proc`, so a file that is opened and closed between two looks has
//! no name here.

mod instances;
mod watched;
mod write_calls;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_observe::{
    CallRole, CaptureEnd, CaptureEvent, CaptureEventKind, WriteCallRates, family_of, holders_below,
    processes_of_unit,
};
use rustix::time::{ClockId, clock_gettime};

use crate::error::RunError;
use crate::sink::StopFlag;
pub use instances::remove_dead_captures;
use instances::{RawEvent, TraceFiles, Tracing};
use watched::WatchedFiles;
use write_calls::{WriteCalls, untraced};

/// Whom to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureTarget {
    /// A process and its children.
    Process(u32),
    /// The processes of a unit of systemd.
    Unit(String),
    /// Processes that hold files below a directory open; only such files count.
    Directory(PathBuf),
}

/// The request for a capture.
#[derive(Debug, Clone)]
pub struct CaptureWish {
    /// Whom to watch.
    pub target: CaptureTarget,
    pub duration: Nanos,
}

/// Between two looks at the buffers: they hold 80,000 events of each processor.
const PAUSE: Duration = Duration::from_millis(50);

/// The time between two looks for new processes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The machine's own PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

impl CaptureTarget {
    /// The processes now.
    fn processes(&self, root: &Path) -> Result<Vec<u32>, RunError> {
        let (found, none) = match self {
            Self::Process(process) => {
                (family_of(root, *process), format!("there is no process {process}"))
            }
            Self::Unit(unit) => (
                processes_of_unit(root, unit).unwrap_or_default(),
                format!("there is no unit '{unit}' that runs (systemctl status {unit})"),
            ),
            Self::Directory(path) => (
                holders_below(root, path),
                format!(
                    "no process holds a file below '{}' open: start the database first",
                    path.display()
                ),
            ),
        };
        let own = std::process::id();
        let found: Vec<u32> = found.into_iter().filter(|process| *process != own).collect();
        // A process that may not be looked at has an empty list of descriptors.
        if found.is_empty() { Err(RunError::unsupported(none)) } else { Ok(found) }
    }
}

/// Watches until its time is over, `stop` is set or all processes are gone. `root` is the folder
/// that contains `proc` and `sys`.
///
/// # Errors
/// If no process matches the target, or the kernel does not let this process trace.
pub fn capture(
    wish: &CaptureWish,
    root: &Path,
    stop: &StopFlag,
    emit: &mut dyn FnMut(CaptureEvent),
) -> Result<CaptureEnd, RunError> {
    // First: a user without the right to trace sees no files of others either, and would get an
    // error that they do not exist.
    let files = TraceFiles::open(root).map_err(RunError::unsupported)?;
    if fs::read_link(root.join("proc/self/ns/pid"))
        .is_ok_and(|namespace| namespace != Path::new(FIRST_NAMESPACE))
    {
        return Err(RunError::unsupported(
            "durio runs in a PID namespace (a container), and the kernel's events have the numbers of the \
             machine: run it on the host, or with the host's PID namespace",
        ));
    }
    let processes = wish.target.processes(root)?;
    let duration = Duration::from_nanos(wish.duration.get());
    let below = match &wish.target {
        CaptureTarget::Directory(path) => Some(path.as_path()),
        _ => None,
    };
    let mut watched = WatchedFiles::new(root, below);
    let devices = watched.begin(&processes, emit);
    let tracing =
        Tracing::begin(files, root, &processes, &devices).map_err(RunError::unsupported)?;
    let cpu = cpu_time();
    let begin = Instant::now();
    let mut half = WriteCalls::now(root, &processes);
    let mut first_half = None;
    let mut end = CaptureEnd { devices, ..CaptureEnd::default() };
    let mut reading = EventDelivery { watched: &mut watched, end: &mut end, held: Vec::new() };
    let mut looked = begin;
    loop {
        // Events older than this are in the buffers now, on every processor.
        let until = monotonic();
        reading.read(&tracing, until, emit)?;
        let passed = begin.elapsed();
        if stop.is_set() {
            reading.end.interrupted = true;
            break;
        }
        if passed >= duration {
            break;
        }
        if passed >= duration / 2 && first_half.is_none() {
            first_half = half.rate(root);
            half = WriteCalls::now(root, &processes);
        }
        if !processes.iter().any(|process| root.join(format!("proc/{process}")).exists()) {
            reading.end.ended_early =
                Some(format!("the watched process ended after {:.1} s", passed.as_secs_f64()));
            break;
        }
        if looked.elapsed() >= LOOK_AGAIN && !matches!(wish.target, CaptureTarget::Process(_)) {
            looked = Instant::now();
            // An empty list is not the end: the database may be restarting.
            let now = wish.target.processes(root).unwrap_or_default();
            tracing.also(root, &now).map_err(RunError::unsupported)?;
        }
        sleep(PAUSE);
    }
    let second_half = half.rate(root);
    tracing.stop();
    reading.read(&tracing, u64::MAX, emit)?;
    end.duration_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    [end.lost_calls, end.lost_requests] = tracing.lost();
    end.cpu_ns = cpu_time().saturating_sub(cpu);
    end.sizes = watched.sizes();
    end.processes = watched.processes();
    // Its events cost every process something as long as they are on.
    drop(tracing);
    let is_whole = !end.interrupted && end.ended_early.is_none();
    let after = if is_whole { untraced(root, &processes, duration, stop) } else { None };
    end.write_calls = first_half
        .zip(second_half)
        .zip(after)
        .map(|((first, second), after)| WriteCallRates { halves: [first, second], after });
    Ok(end)
}

/// Events on their way from the buffers to the caller.
struct EventDelivery<'a, 'r> {
    watched: &'a mut WatchedFiles<'r>,
    end: &'a mut CaptureEnd,
    /// Read, and perhaps younger than some that were not read yet.
    held: Vec<RawEvent>,
}

impl EventDelivery<'_, '_> {
    fn read(
        &mut self,
        tracing: &Tracing,
        until: u64,
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> Result<(), RunError> {
        let before = self.held.len();
        tracing.read(&mut self.held).map_err(RunError::unsupported)?;
        self.end.events += (self.held.len() - before) as u64;
        self.held.sort_by_key(|event| event.at);
        let ready = self.held.partition_point(|event| event.at < until);
        for event in self.held.drain(..ready) {
            take(self.watched, &self.end.devices, event, emit);
        }
        Ok(())
    }
}

fn take(
    watched: &mut WatchedFiles<'_>,
    devices: &[durio_observe::CapturedDevice],
    event: RawEvent,
    emit: &mut dyn FnMut(CaptureEvent),
) {
    let RawEvent { at, task, kind } = event;
    match kind {
        CaptureEventKind::Entered { call, fd, offset, durable } => {
            let Some(process) = watched.process(task) else { return };
            let holder = (process, fd);
            match call.role {
                CallRole::Close => watched.closed(holder),
                CallRole::Open => {}
                CallRole::Write | CallRole::Sync | CallRole::Seek => {
                    let Some(file) = watched.file(holder, emit) else { return };
                    let file = Some(file).filter(|file| *file != usize::MAX);
                    emit(CaptureEvent::Entered { at, task, call, holder, file, offset, durable });
                }
            }
        }
        CaptureEventKind::Left { call, result } => match (call.role, i32::try_from(result)) {
            (CallRole::Open, Ok(fd)) if fd >= 0 => {
                if let Some(process) = watched.process(task) {
                    watched.opened((process, fd), emit);
                }
            }
            (CallRole::Open | CallRole::Close, _) => {}
            _ => emit(CaptureEvent::Left { at, task, call, result }),
        },
        CaptureEventKind::Issued { device, request } => {
            if let Some(device) = devices.iter().position(|known| known.number == device) {
                emit(CaptureEvent::Issued { device, request });
            }
        }
        CaptureEventKind::Ring { opcode } => emit(CaptureEvent::Ring { opcode }),
    }
}

/// The clock of the trace, nanoseconds.
fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn cpu_time() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
