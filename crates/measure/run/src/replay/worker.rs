//! One thread of a trace: its operations, one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use durio_base::Bytes;
use durio_block::{
    Buffers, Clock, Completion, Engine, MonotonicClock, OpenMode, Operation, OperationKind,
    SyncEngine, Ticks, WriteFlags, start_write_back, wait_until,
};
use durio_record::{ReplayedOperation, TracedOperation};
use durio_workload::BlockFiller;
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use super::order::ReplayOrder;
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
        let file = self.files[place];
        let kind = match traced.call.name {
            "fsync" => OperationKind::Fsync,
            "fdatasync" => OperationKind::Fdatasync,
            HINT => {
                self.hinted.get(&file).map_or(Ok(()), start_write_back)?;
                return Ok(MonotonicClock.now());
            }
            _ => OperationKind::Write,
        };
        let flags = if traced.durable { WriteFlags::Dsync } else { WriteFlags::None };
        let (length, offset) = (traced.bytes, self.offsets[index]);
        let operation = Operation { kind, file, length, offset, ..blank_operation(flags) };
        let mut completion = [Completion::default()];
        self.engine.exchange(&[operation], &mut completion)?;
        let [Completion { result, completed_at, .. }] = completion;
        let what = || {
            let path = &self.wish.trace.files[traced.file].path;
            match traced.bytes {
                0 => format!("cannot sync what stands for '{path}'"),
                bytes => format!(
                    "cannot write {} at {offset} of what stands for '{path}'",
                    Bytes::new(bytes)
                ),
            }
        };
        match u64::try_from(result) {
            Ok(moved) if moved == traced.bytes => Ok(completed_at),
            Ok(moved) => Err(RunError::target(format!("{}: {moved} were written", what()))),
            Err(_) => Err(RunError::target(what())
                .because(std::io::Error::from(Errno::from_raw_os_error(-result)))),
        }
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
        .hint("choose storage with blocks as small as those of the trace's")),
    }
}
