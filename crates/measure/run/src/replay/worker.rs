//! One thread of a trace: its operations, one after the other. An operation waits for its thread's
//! last one, and for those of its file that had ended before it began.
//!
//! The operations of a file that had ended when another began are always the first ones in the
//! order of their ends. So an operation's condition is a number, and a file only needs to know how
//! many of its first ends have all come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Thread, current, park_timeout};
use std::time::Duration;

use durio_base::Bytes;
use durio_block::{
    Buffers, Clock, Completion, Engine, MonotonicClock, OpenMode, Operation, OperationKind,
    SyncEngine, Ticks, WriteFlags, start_write_back, wait_until,
};
use durio_record::{OperationTrace, ReplayedOperation, TracedOperation};
use durio_workload::BlockFiller;
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use super::{Files, ReplayWish};
use crate::error::RunError;
use crate::layout::PreparedTarget;
use crate::measured_loop::blank_operation;

/// The call that only begins to write back.
const HINT: &str = "sync_file_range";

/// No wait is longer, so that a wish to stop is heard.
const WAIT_MAX: u64 = 100_000_000;

pub(super) struct Worker<'a> {
    wish: ReplayWish<'a>,
    offsets: &'a [u64],
    order: &'a ReplayOrder,
    thread: &'a [usize],
    /// By operation of the thread: the place of its file in the engine.
    files: Vec<u32>,
    engine: SyncEngine<MonotonicClock>,
    /// Files once more on which sync_file_range is called: the engine's own waits, a database's does not.
    hinted: BTreeMap<u32, OwnedFd>,
    filler: BlockFiller,
    done: Vec<ReplayedOperation>,
}

impl<'a> Worker<'a> {
    /// Opens the files of the thread; true if O_DIRECT was in the trace and is not possible.
    pub(super) fn new(
        wish: ReplayWish<'a>,
        files: &'a Files,
        (order, thread): (&'a ReplayOrder, &'a [usize]),
        made: &[PreparedTarget],
        seed: u64,
    ) -> Result<(Self, bool), RunError> {
        let trace = wish.trace;
        let operations = || thread.iter().map(|place| &trace.operations[*place]);
        // By number, each with its place among those that are open.
        let used: BTreeSet<usize> = operations().map(|operation| operation.file).collect();
        let used: BTreeMap<usize, u32> = used.into_iter().zip(0..).collect();
        let is_hint = |operation: &&TracedOperation| operation.call.name == HINT;
        let with_hints: BTreeSet<usize> =
            operations().filter(is_hint).map(|operation| operation.file).collect();
        let (mut opened, mut hinted) = (Vec::new(), BTreeMap::new());
        let mut is_cached_instead = false;
        for (number, place) in &used {
            let file = &trace.files[*number];
            let mode = OpenMode {
                write: true,
                direct: file.has("O_DIRECT"),
                data_sync: file.has("O_DSYNC") && !file.has("O_SYNC"),
                sync: file.has("O_SYNC"),
                exclusive: false,
            };
            let target = &made[files.place_of[*number]];
            let open = target.open(mode)?;
            match mode.direct && open.direct && target.direct {
                true => {
                    let writes = thread
                        .iter()
                        .map(|place| (&trace.operations[*place], files.offsets[*place]));
                    check_alignment(target, writes.filter(|write| write.0.file == *number))?;
                }
                false => is_cached_instead |= mode.direct,
            }
            if with_hints.contains(number) {
                let again = open.file.try_clone().map_err(|error| {
                    RunError::target("cannot open a file once more").because(error)
                })?;
                hinted.insert(*place, again);
            }
            opened.push(open.file);
        }
        let largest = operations().map(|operation| operation.bytes).max().unwrap_or(0).max(1);
        let buffers = Buffers::try_new(1, usize::try_from(largest).unwrap_or(usize::MAX))?;
        let mut opened = opened.into_iter();
        let first = opened.next().ok_or_else(|| RunError::unsupported("a thread without files"))?;
        let engine =
            SyncEngine::new(MonotonicClock, first, buffers).with_more_files(opened.collect());
        let worker = Self {
            wish,
            offsets: &files.offsets,
            order,
            thread,
            files: operations().map(|operation| used[&operation.file]).collect(),
            engine,
            hinted,
            filler: BlockFiller::unique(seed),
            done: Vec::with_capacity(thread.len()),
        };
        Ok((worker, is_cached_instead))
    }

    /// Does the operations, until they are done or `is_over`; gives the done ones, and the error.
    pub(super) fn run(
        mut self,
        began: Ticks,
        is_over: &dyn Fn() -> bool,
    ) -> (Vec<ReplayedOperation>, Option<RunError>) {
        // Otherwise the kernel may wake it 50 us late, with others (prctl(2), PR_SET_TIMERSLACK).
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let since = |at: Ticks| at.since(began);
        let mut ready = 0;
        for (place, &index) in self.thread.iter().enumerate() {
            let traced = &self.wish.trace.operations[index];
            // Data to write is made before it is due, unless the thread is late.
            let bytes = usize::try_from(traced.bytes).unwrap_or(usize::MAX);
            self.filler.fill(&mut self.engine.slot_mut(0)[..bytes]);
            let due = self.due(traced);
            while since(MonotonicClock.now()) < due && !is_over() {
                let next = due.min(since(MonotonicClock.now()) + WAIT_MAX);
                wait_until(&MonotonicClock, began.plus(next));
            }
            let waited = self.order.wait(index, is_over);
            if is_over() {
                break;
            }
            let begin = since(MonotonicClock.now());
            if waited {
                ready = begin;
            }
            let end = match self.perform(traced, place, index) {
                Ok(end) => since(end).max(begin + 1),
                Err(error) => return (self.done, Some(error)),
            };
            self.order.is_done(index);
            self.done.push(ReplayedOperation { operation: index, due, ready, begin, end });
            ready = end;
        }
        (self.done, None)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds of a trace are below 2⁵³; a speed is above 0"
    )]
    fn due(&self, traced: &TracedOperation) -> u64 {
        (traced.begin as f64 / self.wish.speed) as u64
    }

    /// Does one; gives when it had ended.
    fn perform(
        &mut self,
        traced: &TracedOperation,
        place: usize,
        index: usize,
    ) -> Result<Ticks, RunError> {
        let (file, offset) = (self.files[place], self.offsets[index]);
        let Some(operation) = operation_of(traced, file, offset) else {
            self.hinted.get(&file).map_or(Ok(()), start_write_back)?;
            return Ok(MonotonicClock.now());
        };
        let mut completion = [Completion::default()];
        self.engine.exchange(&[operation], &mut completion)?;
        let [Completion { result, completed_at, .. }] = completion;
        let path = &self.wish.trace.files[traced.file].path;
        check_result(traced, offset, path, result)?;
        Ok(completed_at)
    }
}

/// What an engine does for it; `None` for a hint, which engines do not give.
fn operation_of(traced: &TracedOperation, file: u32, offset: u64) -> Option<Operation> {
    let kind = match traced.call.name {
        "fsync" => OperationKind::Fsync,
        "fdatasync" => OperationKind::Fdatasync,
        HINT => return None,
        _ => OperationKind::Write,
    };
    let flags = if traced.durable { WriteFlags::Dsync } else { WriteFlags::None };
    Some(Operation { kind, file, length: traced.bytes, offset, ..blank_operation(flags) })
}

/// Refuses an error, and a write that is not whole.
fn check_result(
    traced: &TracedOperation,
    offset: u64,
    path: &str,
    result: i32,
) -> Result<(), RunError> {
    let what = || match traced.bytes {
        0 => format!("cannot sync the replacement of '{path}'"),
        bytes => {
            format!("cannot write {} at {offset} of the replacement of '{path}'", Bytes::new(bytes))
        }
    };
    match u64::try_from(result) {
        Ok(moved) if moved == traced.bytes => Ok(()),
        Ok(moved) => Err(RunError::target(format!("{}: only {moved} were written", what()))),
        Err(_) => Err(RunError::target(what())
            .because(std::io::Error::from(Errno::from_raw_os_error(-result)))),
    }
}

/// Refuses writes that O_DIRECT does not take here.
fn check_alignment<'t>(
    target: &PreparedTarget,
    mut writes: impl Iterator<Item = (&'t TracedOperation, u64)>,
) -> Result<(), RunError> {
    let unit = target.alignment.map_or(1, |alignment| alignment.offset.get().max(1));
    let is_odd = |write: &(&TracedOperation, u64)| !(write.0.bytes | write.1).is_multiple_of(unit);
    match writes.find(|write| write.0.bytes > 0 && is_odd(write)) {
        None => Ok(()),
        Some((operation, offset)) => Err(RunError::unsupported(format!(
            "the trace writes {} at {offset} with O_DIRECT, which takes multiples of {} here",
            Bytes::new(operation.bytes),
            Bytes::new(unit)
        ))
        .hint("use storage whose blocks are as small as the trace's")),
    }
}

/// How often a waiting thread checks for the end.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct ReplayOrder {
    /// The operations of each worker, in order.
    threads: Vec<Vec<usize>>,
    /// One for each operation of the trace.
    places: Vec<ReplayPlace>,
    /// One for each file of the trace.
    ends: Vec<Ends>,
    done: AtomicUsize,
    is_ended: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct ReplayPlace {
    file: usize,
    /// Its place among the ends of the file.
    rank: usize,
    /// The number of the file's ends that come before it begins.
    needs: usize,
}

/// The ends of a file's operations.
#[derive(Default)]
struct Ends {
    /// The number of first ends that have all come.
    whole: AtomicUsize,
    state: Mutex<EndsState>,
}

#[derive(Default)]
struct EndsState {
    came: Vec<bool>,
    /// Who waits for how many.
    waiting: Vec<(usize, Thread)>,
}

impl Ends {
    fn lock(&self) -> MutexGuard<'_, EndsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplayOrder {
    /// The order of a trace; `file_of` says for each captured file which one it is.
    pub(super) fn of(trace: &OperationTrace, file_of: &[usize]) -> Self {
        let mut threads: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let files = file_of.iter().max().map_or(0, |last| last + 1);
        let mut by_end: Vec<Vec<(u64, usize)>> = vec![Vec::new(); files];
        for (index, operation) in trace.operations.iter().enumerate() {
            threads.entry(operation.task).or_default().push(index);
            by_end[file_of[operation.file]].push((operation.end(), index));
        }
        let mut places = vec![ReplayPlace::default(); trace.operations.len()];
        for (file, ends) in by_end.iter_mut().enumerate() {
            ends.sort_unstable();
            for (rank, &(_, index)) in ends.iter().enumerate() {
                let begin = trace.operations[index].begin;
                let needs = ends.partition_point(|ended| ended.0 <= begin);
                places[index] = ReplayPlace { file, rank, needs };
            }
        }
        let ends = by_end
            .iter()
            .map(|file| EndsState { came: vec![false; file.len()], waiting: Vec::new() })
            .map(|state| Ends { whole: AtomicUsize::new(0), state: Mutex::new(state) });
        Self {
            threads: joined(threads.into_values().collect(), trace),
            places,
            ends: ends.collect(),
            done: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
        }
    }

    /// The operations of each thread of the replay, in order.
    pub(super) fn threads(&self) -> &[Vec<usize>] {
        &self.threads
    }

    /// Waits until all that the operation needs is done; true if it had to.
    pub(super) fn wait(&self, operation: usize, is_over: &dyn Fn() -> bool) -> bool {
        let ReplayPlace { file, needs, .. } = self.places[operation];
        let ends = &self.ends[file];
        if ends.whole.load(Ordering::Acquire) >= needs {
            return false;
        }
        let mut state = ends.lock();
        if ends.whole.load(Ordering::Acquire) < needs {
            state.waiting.push((needs, current()));
        }
        drop(state);
        while ends.whole.load(Ordering::Acquire) < needs && !is_over() {
            park_timeout(LOOK);
        }
        true
    }

    /// The operation is done.
    pub(super) fn is_done(&self, operation: usize) {
        let ReplayPlace { file, rank, .. } = self.places[operation];
        let ends = &self.ends[file];
        let mut state = ends.lock();
        state.came[rank] = true;
        let before = ends.whole.load(Ordering::Relaxed);
        let whole = before + state.came[before..].iter().take_while(|came| **came).count();
        ends.whole.store(whole, Ordering::Release);
        // Only threads whose wait is over: waking all others too would keep a late replay late.
        state.waiting.retain(|(needs, thread)| {
            let waits = *needs > whole;
            if !waits {
                thread.unpark();
            }
            waits
        });
        drop(state);
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are done.
    pub(super) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// No operation begins any more.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

/// Threads of which one ended before the other began are one: a server may start thousands, one after the other.
fn joined(mut threads: Vec<Vec<usize>>, trace: &OperationTrace) -> Vec<Vec<usize>> {
    threads.sort_by_key(|thread| thread.first().copied());
    let mut joined: Vec<Vec<usize>> = Vec::new();
    // By the end of its last operation, the earliest first.
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    for thread in threads {
        let begin = thread.first().map_or(0, |first| trace.operations[*first].begin);
        let end = thread.iter().map(|place| trace.operations[*place].end()).max().unwrap_or(0);
        match free.peek().copied() {
            Some(Reverse((before, place))) if before <= begin => {
                free.pop();
                joined[place].extend(thread);
                free.push(Reverse((end, place)));
            }
            _ => {
                free.push(Reverse((end, joined.len())));
                joined.push(thread);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use durio_observe::{CapturedFile, TRACED_CALLS};
    use durio_record::{Journal, TracedOperation};
    use rustix::fs::{OFlags, fcntl_getfl};
    use serde_json::Value;

    use super::*;
    use crate::StopFlag;

    /// Operations of two files: begin, end, thread, file.
    fn trace(spans: &[(u64, u64, u32, usize)]) -> OperationTrace {
        let file = |path: &str| CapturedFile { path: path.into(), flags: 0, size: None };
        let operation = |&(begin, end, task, file): &(u64, u64, u32, usize)| TracedOperation {
            begin,
            nanos: end - begin,
            task,
            file,
            call: &TRACED_CALLS[0],
            offset: Some(0),
            bytes: 1,
            durable: false,
        };
        let operations = spans.iter().map(operation).collect();
        OperationTrace::new(Value::Null, vec![file("a"), file("b")], operations)
    }

    #[test]
    fn an_operation_waits_for_those_of_its_file_that_had_ended_and_for_no_other() {
        // Two at once, then one that saw the first end, one of another file, and one that saw both end.
        let spans = [(0, 10, 1, 0), (5, 30, 2, 0), (12, 20, 3, 0), (25, 40, 4, 1), (30, 50, 5, 0)];
        let order = ReplayOrder::of(&trace(&spans), &[0, 1]);
        let may_begin = |operation| !order.wait(operation, &|| true);
        assert!(may_begin(0) && may_begin(1) && may_begin(3));
        assert!(!may_begin(2) && !may_begin(4));
        order.is_done(1);
        assert!(!may_begin(2), "another one was done");
        order.is_done(0);
        assert!(may_begin(2) && !may_begin(4));
        order.is_done(2);
        assert!(may_begin(4));
        // Never more than two at once, of two files.
        assert_eq!((order.done(), order.threads().len()), (3, 2));
    }

    #[test]
    fn what_ended_when_an_operation_began_ended_before_it() {
        // One of its file ends a nanosecond before, one just then, one a nanosecond later.
        let spans = [(0, 29, 1, 0), (1, 30, 2, 0), (2, 31, 3, 0), (30, 50, 4, 0)];
        let order = ReplayOrder::of(&trace(&spans), &[0, 1]);
        let may_begin = || !order.wait(3, &|| true);
        order.is_done(0);
        order.is_done(2);
        assert!(!may_begin(), "the one that ended just then is not done");
        order.is_done(1);
        assert!(may_begin());
        let order = ReplayOrder::of(&trace(&spans), &[0, 1]);
        order.is_done(0);
        order.is_done(1);
        assert!(!order.wait(3, &|| true), "the one that ended later is none of its");
    }

    #[test]
    fn an_operation_is_ready_when_what_it_waited_for_is_done_or_else_after_the_one_before() {
        // The second one begins when the first has ended, in another thread.
        let trace = trace(&[(0, 10, 1, 0), (10, 25, 2, 0), (20, 30, 1, 0)]);
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let wish = ReplayWish { trace: &trace, directory: folder.path(), speed: 1.0, seed: 7 };
        let files = Files::of(&trace);
        let (mut made, stop) = (Vec::new(), StopFlag::default());
        files.make(wish, &mut journal, &stop, &mut made, &mut |_| {}).unwrap();
        let began = MonotonicClock.now();
        let order = ReplayOrder::of(&trace, &files.place_of);
        let parts = (&order, order.threads[1].as_slice());
        let (second, _) = Worker::new(wish, &files, parts, &made, 7).unwrap();
        let (done, freed) = std::thread::scope(|scope| {
            let running = scope.spawn(move || second.run(began, &|| false).0);
            while order.ends[0].lock().waiting.is_empty() && !running.is_finished() {
                std::thread::yield_now();
            }
            let freed = MonotonicClock.now().since(began);
            order.is_done(0);
            (running.join().unwrap(), freed)
        });
        let [waited] = done.as_slice() else { panic!("{done:?}") };
        assert_eq!((waited.operation, waited.due, waited.ready), (1, 10, waited.begin));
        assert!(freed <= waited.ready && waited.begin < waited.end, "{freed}: {waited:?}");
        // Those of the first thread wait for no other.
        let order = ReplayOrder::of(&trace, &files.place_of);
        let parts = (&order, order.threads[0].as_slice());
        let (worker, _) = Worker::new(wish, &files, parts, &made, 7).unwrap();
        let (done, _) = worker.run(began, &|| false);
        let [first, last] = done.as_slice() else { panic!("{done:?}") };
        assert_eq!((first.operation, first.ready), (0, 0));
        assert_eq!((last.operation, last.ready), (2, first.end));
        for target in made {
            target.remove(&mut journal).unwrap();
        }
    }

    fn traced(call: &str, bytes: u64, durable: bool) -> TracedOperation {
        let call = TRACED_CALLS.iter().find(|known| known.name == call).unwrap();
        let offset = Some(0);
        TracedOperation { begin: 0, nanos: 1, task: 1, file: 0, call, offset, bytes, durable }
    }

    #[test]
    fn a_call_is_repeated_as_it_was_with_its_flags() {
        let of = |call, bytes, durable| {
            let operation = operation_of(&traced(call, bytes, durable), 3, 12_288)?;
            let Operation { kind, flags, file, length, offset, .. } = operation;
            Some((kind, flags, (file, length, offset)))
        };
        let found = [
            of("pwrite64", 8192, false),
            of("pwritev2", 512, true),
            of("fsync", 0, false),
            of("fdatasync", 0, false),
            of("sync_file_range", 0, false),
        ];
        let expected = [
            Some((OperationKind::Write, WriteFlags::None, (3, 8192, 12_288))),
            Some((OperationKind::Write, WriteFlags::Dsync, (3, 512, 12_288))),
            Some((OperationKind::Fsync, WriteFlags::None, (3, 0, 12_288))),
            Some((OperationKind::Fdatasync, WriteFlags::None, (3, 0, 12_288))),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_is_opened_with_the_flags_that_make_its_writes_durable_or_direct() {
        const DSYNC: u32 = 0o10_000;
        const SYNC: u32 = 0o4_010_000;
        let direct = OFlags::DIRECT.bits();
        let all = [0, DSYNC, SYNC, direct, direct | DSYNC, direct | SYNC, 0o2000 | SYNC];
        let file =
            |flags: u32| CapturedFile { path: format!("{flags:o}"), flags, size: Some(8192) };
        // The descriptor for a hint is a copy of the opened one, with the same flags.
        let hint = |file| TracedOperation { file, ..traced("sync_file_range", 0, false) };
        let hints = (0..all.len()).map(hint).collect();
        let trace = OperationTrace::new(Value::Null, all.map(file).to_vec(), hints);
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::begin(folder.path(), None).unwrap();
        let wish = ReplayWish { trace: &trace, directory: folder.path(), speed: 1.0, seed: 7 };
        let files = Files::of(&trace);
        let (mut made, stop) = (Vec::new(), StopFlag::default());
        files.make(wish, &mut journal, &stop, &mut made, &mut |_| {}).unwrap();
        let order = ReplayOrder::of(&trace, &files.place_of);
        let parts = (&order, order.threads[0].as_slice());
        let (worker, is_cached_instead) = Worker::new(wish, &files, parts, &made, 7).unwrap();
        let is_direct = made[0].direct;
        assert_eq!(is_cached_instead, !is_direct);
        for (place, flags) in (0..).zip(all) {
            let possible = if is_direct { SYNC | direct } else { SYNC };
            let found = fcntl_getfl(&worker.hinted[&place]).unwrap().bits() & possible;
            assert_eq!(found, flags & possible, "{found:o} for {flags:o}");
        }
        drop(worker);
        for target in made {
            target.remove(&mut journal).unwrap();
        }
    }

    #[test]
    fn what_was_not_written_as_a_whole_is_an_error() {
        let check = |call, bytes, result| {
            let checked = check_result(&traced(call, bytes, false), 4096, "wal/log", result);
            checked.map_err(|error| (error.to_string(), error.errno()))
        };
        assert_eq!(check("pwrite64", 8192, 8192), Ok(()));
        assert_eq!(check("fdatasync", 0, 0), Ok(()));
        let write = "cannot write 8 KiB at 4096 of the replacement of 'wal/log'";
        for moved in [0, 5120, 8191] {
            let expected = Err((format!("{write}: only {moved} were written"), None));
            assert_eq!(check("pwrite64", 8192, moved), expected);
        }
        assert_eq!(check("pwrite64", 8192, -28), Err((write.to_owned(), Some(28))));
        let sync = "cannot sync the replacement of 'wal/log'";
        assert_eq!(check("fsync", 0, -5), Err((sync.to_owned(), Some(5))));
    }

    #[test]
    fn threads_that_came_one_after_the_other_are_one() {
        let spans: Vec<_> = (0..1000_u32)
            .map(|number| (u64::from(10 * number), u64::from(10 * number + 10), 7 + number, 0))
            .collect();
        let order = ReplayOrder::of(&trace(&spans), &[0, 1]);
        assert_eq!(order.threads(), [(0..1000).collect::<Vec<usize>>()]);
    }
}
