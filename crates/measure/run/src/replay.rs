//! Repeats a trace: the same operations at the same times, by as many threads, on separate files.
//!
//! Takes an [`OperationTrace`], a directory and a factor of speed; gives a [`Replay`] with each
//! operation as it went. `durio-analyse` adds them up.
//!
//! An operation begins when it is due, and not before those that it followed: the previous one of
//! its thread, and all of its file that had ended in the trace when it began ([`order`]). So a
//! group commit stays one on slower storage, and nothing is written that a database would not have
//! written yet. Only the parts of a file's old contents that are written again are laid out; the
//! rest is a hole, so that a database of terabytes needs only the room of the parts it touched.

#[cfg(test)]
mod tests;
mod worker;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, sleep};
use std::time::Duration;

use durio_base::{Bytes, Nanos};
use durio_block::{Clock, MonotonicClock};
use durio_observe::{CpuCounters, free_space};
use durio_record::{Journal, OperationTrace, ReplayedOperation};
use rustix::fs::statvfs;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::counters::CounterReading;
use crate::error::RunError;
use crate::job_input::{StartBarrier, StartSignal};
use crate::layout::{CHUNK, PreparedTarget, prepare_ranges};
use crate::{StopFlag, memory};
use worker::ReplayOrder;
use worker::Worker;

/// How a trace is replayed.
#[derive(Debug, Clone, Copy)]
pub struct ReplayWish<'a> {
    /// The operations to repeat.
    pub trace: &'a OperationTrace,
    pub directory: &'a Path,
    /// So many times as fast; above 0.
    pub speed: f64,
    /// Seed of the written data.
    pub seed: u64,
}

/// Where a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayProgress {
    /// So many bytes of so many are laid out.
    Layout(Bytes, Bytes),
    /// So many operations of so many are done.
    Operations(usize, usize),
}

/// How a replay went.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replay {
    /// Each operation that was done, in the order in which they began.
    pub operations: Vec<ReplayedOperation>,
    /// The directory's filesystem has no O_DIRECT, which the trace has.
    pub is_cached_instead: bool,
    /// What all processors did meanwhile, in ticks of a hundredth of a second.
    pub processors: Option<CpuCounters>,
    /// Processor time of this process in it.
    pub own_cpu: Nanos,
    /// The user ended it.
    pub interrupted: bool,
}

/// As for a step (durio-plan): more threads than any machine runs.
const THREADS_MAX: usize = 4096;

/// Between two looks at where it is.
const LOOK: Duration = Duration::from_millis(100);

/// Replays a trace; what it made is gone afterwards, however it ends.
///
/// # Errors
/// If the filesystem is full, or the storage answers an operation with an error.
pub fn replay(
    wish: ReplayWish<'_>,
    journal: &mut Journal,
    stop: &StopFlag,
    progress: &mut dyn FnMut(ReplayProgress),
) -> Result<Replay, RunError> {
    let files = Files::of(wish.trace);
    let order = ReplayOrder::of(wish.trace, &files.place_of);
    check_threads(order.threads().len())?;
    files.check_room(wish.directory)?;
    check_memory(wish.trace, &order)?;
    check_descriptors(wish.trace, &files, &order)?;
    let mut made = Vec::new();
    let result = files
        .make(wish, journal, stop, &mut made, progress)
        .and_then(|()| run(wish, &files, &order, &made, stop, progress));
    let mut removed = Ok(());
    for target in made {
        removed = removed.and(target.remove(journal));
    }
    let result = result.map_err(|error| match error.errno() {
        Some(errno) if errno == rustix::io::Errno::NOSPC.raw_os_error() => error.hint(ROOM),
        _ => error,
    });
    match (result, removed) {
        (Err(mut error), Err(left)) => {
            error.add_left(&left);
            Err(error)
        }
        (result, removed) => result.and_then(|replay| removed.map(|()| replay)),
    }
}

/// What helps on a full filesystem.
const ROOM: &str = "free some space, or capture for a shorter time";

/// Each thread has a buffer of the size of its largest write.
fn check_memory(trace: &OperationTrace, order: &ReplayOrder) -> Result<(), RunError> {
    let largest =
        |thread: &Vec<usize>| thread.iter().map(|place| trace.operations[*place].bytes).max();
    let need: u64 = order.threads().iter().filter_map(largest).fold(0, u64::saturating_add);
    match memory::available().filter(|free| free.get() < need) {
        None => Ok(()),
        Some(free) => Err(RunError::unsupported(format!(
            "the writes of {} threads need {} of memory, but only {free} is free",
            order.threads().len(),
            Bytes::new(need)
        ))),
    }
}

fn check_threads(threads: usize) -> Result<(), RunError> {
    if threads <= THREADS_MAX {
        return Ok(());
    }
    Err(RunError::unsupported(format!(
        "the trace has {threads} threads; durio starts at most {THREADS_MAX}"
    )))
}

/// Descriptors of the process for other uses: streams, the trace, the journal and others.
const DESCRIPTORS_BESIDE: u64 = 64;

/// Files that a replay has open, at most.
fn descriptors(trace: &OperationTrace, files: &Files, order: &ReplayOrder) -> u64 {
    // Each file with its directory, and for each thread each that it uses; perhaps once more for hints.
    let of_threads = order.threads().iter().map(|thread| {
        let used: std::collections::BTreeSet<usize> =
            thread.iter().map(|place| trace.operations[*place].file).collect();
        2 * used.len()
    });
    (2 * files.needs.len() + of_threads.sum::<usize>()) as u64 + DESCRIPTORS_BESIDE
}

/// Permits as many open files as a replay needs, if that may be.
fn check_descriptors(
    trace: &OperationTrace,
    files: &Files,
    order: &ReplayOrder,
) -> Result<(), RunError> {
    let need = descriptors(trace, files, order);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= need) {
        return Ok(());
    }
    match limit.maximum.filter(|most| *most < need) {
        Some(most) => Err(RunError::unsupported(format!(
            "a replay of this trace needs {need} open files, but this process may have {most}"
        ))
        .hint("raise the limit: ulimit -Hn, as root")),
        // For this process alone.
        None => {
            setrlimit(Resource::Nofile, Rlimit { current: Some(need), ..limit }).map_err(|errno| {
                RunError::target(format!("cannot have {need} files open"))
                    .because(std::io::Error::from(errno))
            })
        }
    }
}

/// The files that a trace needs.
struct Files {
    /// By number of a captured file: the place among `needs`. One path is one file.
    place_of: Vec<usize>,
    needs: Vec<Need>,
    /// Where each operation writes.
    offsets: Vec<u64>,
}

/// What a file had before, and what it comes to.
#[derive(Default)]
struct Need {
    /// Bytes of it before; none where nobody knows.
    size: Option<u64>,
    /// Where the last write ended.
    end: u64,
    /// The highest end of a write.
    highest: u64,
    /// Ranges that are written, of whole chunks ([`CHUNK`]): apart and in order once all are known.
    touched: Vec<Range<u64>>,
}

impl Need {
    /// Bytes that it has before. Where that is not known, written ranges were there before: a log is written again.
    fn begins_with(&self) -> u64 {
        self.size.unwrap_or(self.highest)
    }

    fn touch(&mut self, offset: u64, bytes: u64) {
        self.end = offset.saturating_add(bytes);
        self.highest = self.highest.max(self.end);
        let chunk = CHUNK.get();
        let range = offset / chunk * chunk..self.end.div_ceil(chunk).saturating_mul(chunk);
        match self.touched.last_mut() {
            // Most writes are where the one before was, or go on there.
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => self.touched.push(range),
        }
    }

    /// Joins ranges that overlap or follow each other.
    fn join(&mut self) {
        self.touched.sort_unstable_by_key(|range| range.start);
        self.touched.dedup_by(|next, last| {
            let is_joined = next.start <= last.end;
            if is_joined {
                last.end = last.end.max(next.end);
            }
            is_joined
        });
    }

    /// The ranges that are laid out: those that the trace writes.
    fn laid_out(&self) -> Vec<Range<u64>> {
        let size = self.begins_with();
        let before = self.touched.iter().filter(|range| range.start < size);
        before.map(|range| range.start..range.end.min(size)).collect()
    }

    /// Bytes that it takes in the end.
    fn room(&self) -> u64 {
        let whole = self.highest.max(self.begins_with());
        self.touched
            .iter()
            .map(|range| range.end.min(whole) - range.start)
            .fold(0, u64::saturating_add)
    }
}

impl Files {
    fn of(trace: &OperationTrace) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut needs: Vec<Need> = Vec::new();
        let mut place_of = Vec::with_capacity(trace.files.len());
        for file in &trace.files {
            let place = *places.entry(&file.path).or_insert(needs.len());
            if place == needs.len() {
                // Where the first write without an offset goes: the end, or the begin where nobody knows.
                let end = file.size.unwrap_or(0);
                needs.push(Need { size: file.size, end, ..Need::default() });
            }
            place_of.push(place);
        }
        let mut offsets = Vec::with_capacity(trace.operations.len());
        for operation in &trace.operations {
            let need = &mut needs[place_of[operation.file]];
            let offset = operation.offset.unwrap_or(need.end);
            offsets.push(offset);
            if operation.bytes > 0 {
                need.touch(offset, operation.bytes);
            }
        }
        needs.iter_mut().for_each(Need::join);
        Self { place_of, needs, offsets }
    }

    fn check_room(&self, directory: &Path) -> Result<(), RunError> {
        let room: u64 = self.needs.iter().map(Need::room).fold(0, u64::saturating_add);
        let facts = statvfs(directory).map_err(|errno| {
            RunError::target(format!("cannot look at '{}'", directory.display()))
                .because(std::io::Error::from(errno))
        })?;
        let (room, free) = (Bytes::new(room), free_space(&facts));
        if room <= free {
            return Ok(());
        }
        let directory = directory.display();
        Err(RunError::unsupported(format!(
            "the files of the trace need {room}, but '{directory}' has {free} free"
        ))
        .hint(ROOM))
    }

    fn make(
        &self,
        wish: ReplayWish<'_>,
        journal: &mut Journal,
        stop: &StopFlag,
        made: &mut Vec<PreparedTarget>,
        progress: &mut dyn FnMut(ReplayProgress),
    ) -> Result<(), RunError> {
        let ranges: Vec<Vec<Range<u64>>> = self.needs.iter().map(Need::laid_out).collect();
        let all = Bytes::new(ranges.iter().flatten().map(|range| range.end - range.start).sum());
        let mut done = 0;
        for ((index, need), ranges) in (0..).zip(&self.needs).zip(&ranges) {
            let parts = (Bytes::new(need.begins_with()), ranges.as_slice());
            let seed = durio_workload::job_seed(wish.seed, u64::MAX, index);
            let target = prepare_ranges(wish.directory, parts, journal, seed, stop, &mut |_| {
                done = all.get().min(done + CHUNK.get());
                progress(ReplayProgress::Layout(Bytes::new(done), all));
            })?;
            made.push(target);
        }
        Ok(())
    }
}

/// Starts the threads, lets them begin together, and waits until all have ended.
fn run(
    wish: ReplayWish<'_>,
    files: &Files,
    order: &ReplayOrder,
    made: &[PreparedTarget],
    stop: &StopFlag,
    progress: &mut dyn FnMut(ReplayProgress),
) -> Result<Replay, RunError> {
    let operations = &wish.trace.operations;
    let failed = Mutex::new(None);
    let barrier = StartBarrier::default();
    let begin = std::sync::OnceLock::new();
    let before = CounterReading::read(&[]);
    let ended = std::thread::scope(|scope| {
        // Whatever ends this before all have been started: nobody waits for ever.
        let aborted = AbortOnDrop(&barrier);
        let mut handles = Vec::new();
        let mut is_cached_instead = false;
        for (index, thread) in (0..).zip(order.threads()) {
            let seed = durio_workload::job_seed(wish.seed, 0, index);
            let (worker, cached) = Worker::new(wish, files, (order, thread), made, seed)?;
            is_cached_instead |= cached;
            let (failed, barrier, begin) = (&failed, &barrier, &begin);
            let body = move || {
                if barrier.wait() == StartSignal::Aborted {
                    return Vec::new();
                }
                let _guard = EndOnPanic(order);
                let begin = *begin.get_or_init(|| MonotonicClock.now());
                let (done, error) = worker.run(begin, &|| stop.is_set() || order.is_ended());
                if let Some(error) = error {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    order.end();
                }
                done
            };
            let handle = Builder::new().name(format!("thread {index}")).spawn_scoped(scope, body);
            let count = handles.len();
            handles.push(handle.map_err(|error| {
                RunError::target(format!("cannot start more than {count} threads"))
                    .because(error)
                    .hint("raise the limit on processes (ulimit -u)")
            })?);
        }
        barrier.release(StartSignal::Go);
        drop(aborted);
        while !handles.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            progress(ReplayProgress::Operations(order.done(), operations.len()));
            sleep(LOOK);
        }
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let done: Vec<Vec<ReplayedOperation>> = handles.into_iter().map(join).collect();
        Ok::<_, RunError>((done, is_cached_instead))
    });
    let (done, is_cached_instead) = ended?;
    let watched = CounterReading::read(&[]).since(&before);
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut operations: Vec<ReplayedOperation> = done.into_iter().flatten().collect();
    operations.sort_by_key(|operation| operation.begin);
    let interrupted = operations.len() < wish.trace.operations.len();
    let own = watched.process;
    let own_cpu = Nanos::new(own.user.get().saturating_add(own.system.get()));
    Ok(Replay { operations, is_cached_instead, processors: watched.cpu, own_cpu, interrupted })
}

struct AbortOnDrop<'a>(&'a StartBarrier);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        // The first decision counts.
        self.0.release(StartSignal::Aborted);
    }
}

/// Ends the replay for all when one thread panics: the others may wait for it.
struct EndOnPanic<'a>(&'a ReplayOrder);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}
