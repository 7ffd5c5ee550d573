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
//!
//! Before it, durio looks how often the processes call to write, as the kernel counts it for each of
//! them, traced or not.

mod instances;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_observe::{
    CallRole, CaptureEnd, CaptureEvent, CaptureEventKind, CapturedDevice, CapturedFile,
    WriteCallRates, block_device_number, descriptors, has_request_queue, leaf_devices, open_file,
    process_of,
};
use instances::{RawEvent, Tracing};
use rustix::fs::OFlags;

use crate::StopFlag;
use crate::error::RunError;
use crate::trace_files::TraceFiles;
use crate::watched_processes::{
    CaptureTarget, WriteCalls, cpu_time, monotonic, refuse_other_namespace, stacks_below, untraced,
};

/// The request for a capture.
#[derive(Debug, Clone)]
pub struct CaptureWish {
    pub target: CaptureTarget,
    pub duration: Nanos,
}

/// Between two looks at the buffers: they hold 80,000 events of each processor.
const PAUSE: Duration = Duration::from_millis(50);

/// The time between two looks for new processes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

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
    refuse_other_namespace(root)?;
    let processes = wish.target.processes(root)?;
    let duration = Duration::from_nanos(wish.duration.get());
    let mut watched = WatchedFiles::new(root, wish.target.places().first().map(PathBuf::as_path));
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
    tracing.note_losses(&mut end);
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

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptorKind {
    /// The file of this number.
    File(usize),
    /// A socket, a pipe, a terminal, a file elsewhere: nothing that is looked for.
    Other,
    /// It was gone before we could look.
    Gone,
}

/// The files of the watched processes.
#[derive(Debug)]
struct WatchedFiles<'a> {
    root: &'a Path,
    /// Only files below it count.
    below: Option<&'a Path>,
    descriptors: HashMap<(u32, i32), DescriptorKind>,
    /// By path and those flags that decide how a write becomes durable.
    files: HashMap<(PathBuf, u32), usize>,
    /// Their paths, by the numbers in `files`.
    paths: Vec<PathBuf>,
    /// Processes by thread; none of threads that were gone.
    threads: HashMap<u32, Option<u32>>,
}

/// O_APPEND, O_DSYNC, O_SYNC, O_DIRECT of this machine (arm has another O_DIRECT).
const WRITE_FLAGS: u32 =
    OFlags::APPEND.bits() | OFlags::DSYNC.bits() | OFlags::SYNC.bits() | OFlags::DIRECT.bits();

impl<'a> WatchedFiles<'a> {
    fn new(root: &'a Path, below: Option<&'a Path>) -> Self {
        Self {
            root,
            below,
            descriptors: HashMap::new(),
            files: HashMap::new(),
            paths: Vec::new(),
            threads: HashMap::new(),
        }
    }

    /// Looks at all open files of these processes; gives the devices below those that they may
    /// write.
    fn begin(
        &mut self,
        processes: &[u32],
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> Vec<CapturedDevice> {
        let mut folders = BTreeSet::new();
        folders.extend(self.below.map(Path::to_path_buf));
        for &process in processes {
            for fd in descriptors(self.root, process) {
                let Ok(number) = i32::try_from(fd) else { continue };
                let Some(file) = open_file(self.root, process, fd) else { continue };
                // O_RDONLY is zero.
                if file.flags & OFlags::ACCMODE.bits() != 0 {
                    folders.extend(file.path.parent().map(Path::to_path_buf));
                }
                self.look((process, number), Position::AsItIs, emit);
            }
            // A database that holds no file yet has its data where it runs.
            folders.extend(fs::read_link(self.root.join(format!("proc/{process}/cwd"))));
        }
        self.devices(&folders)
    }

    fn devices(&self, folders: &BTreeSet<PathBuf>) -> Vec<CapturedDevice> {
        let mut found: Vec<CapturedDevice> = Vec::new();
        for name in stacks_below(folders).iter().flat_map(leaf_devices) {
            let Some(number) = block_device_number(self.root, &name) else { continue };
            if found.iter().all(|device| device.number != number) {
                let has_requests = has_request_queue(self.root, &name);
                found.push(CapturedDevice { name, number, has_requests });
            }
        }
        found
    }

    /// The process of a thread.
    fn process(&mut self, thread: u32) -> Option<u32> {
        let root = self.root;
        *self.threads.entry(thread).or_insert_with(|| process_of(root, thread))
    }

    fn processes(&self) -> usize {
        self.threads.values().flatten().collect::<HashSet<_>>().len()
    }

    fn closed(&mut self, holder: (u32, i32)) {
        self.descriptors.remove(&holder);
    }

    fn opened(&mut self, holder: (u32, i32), emit: &mut dyn FnMut(CaptureEvent)) {
        self.look(holder, Position::Begin, emit);
    }

    /// The file of a descriptor; none if it is not a watched file, and `usize::MAX` if the file is
    /// unknown.
    fn file(&mut self, holder: (u32, i32), emit: &mut dyn FnMut(CaptureEvent)) -> Option<usize> {
        let known = self.descriptors.get(&holder).copied();
        match known.unwrap_or_else(|| self.look(holder, Position::Unknown, emit)) {
            DescriptorKind::File(file) => Some(file),
            DescriptorKind::Other => None,
            DescriptorKind::Gone => self.below.is_none().then_some(usize::MAX),
        }
    }

    fn look(
        &mut self,
        holder: (u32, i32),
        position: Position,
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> DescriptorKind {
        let (process, fd) = holder;
        let link = self.root.join(format!("proc/{process}/fd/{fd}"));
        let open = u32::try_from(fd).ok().and_then(|fd| open_file(self.root, process, fd));
        let found = match open {
            Some(open) if self.below.is_none_or(|folder| open.path.starts_with(folder)) => {
                let number = self.number(&open.path, open.flags, open.size, emit);
                let position = match position {
                    Position::AsItIs => open.position,
                    Position::Begin => Some(0),
                    Position::Unknown => None,
                };
                emit(CaptureEvent::Opened { holder, file: number, position });
                DescriptorKind::File(number)
            }
            Some(_) => DescriptorKind::Other,
            None if fs::symlink_metadata(&link).is_ok() => DescriptorKind::Other,
            None => DescriptorKind::Gone,
        };
        self.descriptors.insert(holder, found);
        found
    }

    fn number(
        &mut self,
        path: &Path,
        flags: u32,
        size: Option<u64>,
        emit: &mut dyn FnMut(CaptureEvent),
    ) -> usize {
        let key = (path.to_owned(), flags & WRITE_FLAGS);
        if let Some(number) = self.files.get(&key) {
            return *number;
        }
        let number = self.paths.len();
        self.files.insert(key, number);
        self.paths.push(path.to_owned());
        let path = path.to_string_lossy().into_owned();
        emit(CaptureEvent::File(CapturedFile { path, flags, size }));
        number
    }

    /// Bytes of each file now; none of those that are gone.
    fn sizes(&self) -> Vec<Option<u64>> {
        self.paths.iter().map(|path| fs::metadata(path).ok().map(|facts| facts.len())).collect()
    }
}

/// The known position of a descriptor when it is looked at.
#[derive(Debug, Clone, Copy)]
enum Position {
    /// Not written since the look, so that the position is as it was seen.
    AsItIs,
    /// It was just opened.
    Begin,
    Unknown,
}

#[cfg(test)]
mod event_tests;

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_file_just_opened_is_written_from_its_begin_wherever_it_is_by_the_time_of_the_look() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = fs::File::create(folder.path().join("log")).unwrap();
        file.write_all(&[7; 300]).unwrap();
        let own = (std::process::id(), file.as_raw_fd());
        let mut events = Vec::new();
        let mut emit = |event: CaptureEvent| events.push(event);
        let mut watched = WatchedFiles::new(Path::new("/"), None);
        watched.look(own, Position::AsItIs, &mut emit);
        watched.opened(own, &mut emit);
        watched.look(own, Position::Unknown, &mut emit);
        let positions = events.iter().filter_map(|event| match event {
            CaptureEvent::Opened { holder, file: 0, position } if *holder == own => Some(*position),
            _ => None,
        });
        assert_eq!(positions.collect::<Vec<_>>(), [Some(300), Some(0), None], "bytes");
    }
}
