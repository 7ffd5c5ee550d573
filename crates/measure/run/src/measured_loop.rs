//! The measured loop of one job over one engine; the closed one here, the open one in `open`.
//!
//! Per operation: the stream gives the next access, the engine performs it, the recorder takes its
//! latency. A place in the queue that is refilled as it is reaped starts with the completion's
//! clock value, so no time between two operations is lost. Nothing is allocated, nothing is
//! printed.

mod accounting;
mod alike;
mod closed;
mod group_commit;
mod open;
mod syncs;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use durio_base::Nanos;
use durio_block::{
    BlockError, Clock, Completion, Engine, Operation, OperationKind, Ticks, WriteFlags,
};
use durio_plan::{CompletionTime, DrainPolicy};
use durio_record::{Accounting, OperationName};
use durio_workload::{Access, BlockFiller, Stream, SyncMethod};

use crate::grid::{IntervalClock, JobBounds};
use crate::recorder::JobRecorder;
use alike::{Alike, LookTraits};
use syncs::{FillTime, Follows};

pub(crate) use accounting::{
    ClockPair, EarlyEnding, InFlightCount, JobFailure, Lateness, LoopResult, MISSED_MAX, Pacer,
    is_done,
};
pub(crate) use group_commit::Idle;

/// A place in the queue.
#[derive(Debug, Clone, Copy)]
struct Slot {
    start: Ticks,
    file: u32,
    offset: u64,
    length: u64,
    kind: OperationKind,
}

/// Where the operation in a place comes from, if that is not its own start.
#[derive(Debug, Clone, Copy, Default)]
struct Origin {
    /// Start of the write that a sync makes durable.
    commit_start: Ticks,
    /// When an operation of an open loop should have started.
    intended: Ticks,
}

pub(crate) struct MeasuredLoop<'a, E: Engine> {
    engine: &'a mut E,
    input: LoopInput<'a>,
    bounds: JobBounds,
    /// How writes are made durable, if not by themselves.
    follows: Follows,
    /// The pass that begins when nothing is in flight any more.
    next_pass: Option<Access>,
    /// Places of accesses, one per operation of the depth.
    places: usize,
    /// As many, and as many again for syncs that are linked.
    slots: Box<[Slot]>,
    /// Of the same places, where writes are followed by syncs or operations arrive.
    origins: Box<[Origin]>,
    /// Places that are not in use, and since when; an open loop's.
    free: Vec<(u32, Ticks)>,
    /// Operations for the next exchange, the first `queued` of them.
    queue: Box<[Operation]>,
    queued: usize,
    batch: usize,
    /// Where interval 0 begins; the same for all jobs.
    started: Ticks,
    series: IntervalClock,
    end: Ticks,
    /// Accesses that may still be issued; none once the job is to end.
    remaining: u64,
    /// Bytes of accesses that may still be issued, where blocks have several sizes.
    remaining_bytes: u64,
    /// An open loop ended before all accesses that it was to issue: by time, or as it was stopped.
    is_cut: bool,
    in_flight: InFlightCount,
    alike: Alike,
    /// Both clocks, when the loop began.
    began: ClockPair,
    last_completion: Ticks,
    /// A write is queued whose data is not made yet.
    unfilled: bool,
    filling: FillTime,
    result: LoopResult,
}

/// A read of nothing; `flags` are those of all writes.
#[inline]
pub(crate) const fn blank_operation(flags: WriteFlags) -> Operation {
    Operation {
        kind: OperationKind::Read,
        flags,
        link: false,
        file: 0,
        slot: 0,
        length: 0,
        offset: 0,
        intended_start: Ticks(0),
    }
}

pub(crate) struct LoopInput<'a> {
    pub(crate) stream: Stream,
    pub(crate) recorder: &'a mut JobRecorder,
    // The flags themselves: one load for each look, not two.
    pub(crate) stop: &'a AtomicBool,
    pub(crate) failed: &'a AtomicBool,
    pub(crate) write_flags: WriteFlags,
    /// Each write is made durable before the next.
    pub(crate) commits: bool,
    /// How, and how any write is.
    pub(crate) sync: SyncMethod,
    pub(crate) depth: u32,
    pub(crate) batch: u32,
    /// Blocks have several sizes.
    pub(crate) varied: bool,
    pub(crate) filler: BlockFiller,
    /// A further pass drops the cached pages of it.
    pub(crate) pass_files: Vec<OwnedFd>,
    /// The job ends with an fsync of each file.
    pub(crate) syncs_at_end: bool,
    pub(crate) files: u32,
    /// How the queue drains, if places are not refilled as they are reaped.
    pub(crate) drain: Option<DrainPolicy>,
    pub(crate) completion_time: CompletionTime,
}

impl<'a, E: Engine> MeasuredLoop<'a, E> {
    pub(crate) fn new(engine: &'a mut E, bounds: JobBounds, input: LoopInput<'a>) -> Self {
        let depth = input.depth as usize;
        let operations_each = slots_per_operation(input.sync);
        let idle = Slot {
            start: Ticks::default(),
            file: 0,
            offset: 0,
            length: 0,
            kind: OperationKind::Read,
        };
        Self {
            engine,
            bounds,
            follows: Follows::of(input.sync),
            next_pass: None,
            places: depth,
            slots: vec![idle; depth * operations_each].into_boxed_slice(),
            origins: vec![Origin::default(); depth * operations_each].into_boxed_slice(),
            free: Vec::with_capacity(depth),
            queue: vec![blank_operation(input.write_flags); depth * operations_each]
                .into_boxed_slice(),
            queued: 0,
            batch: (input.batch as usize).min(depth) * operations_each,
            started: Ticks::default(),
            series: IntervalClock::new(bounds.grid()),
            end: Ticks::default(),
            remaining: bounds.operations,
            remaining_bytes: bounds.bytes,
            is_cut: false,
            in_flight: InFlightCount::default(),
            alike: Alike::NONE,
            began: ClockPair::default(),
            last_completion: Ticks::default(),
            unfilled: false,
            filling: FillTime::default(),
            result: LoopResult::default(),
            input,
        }
    }

    /// The begin that all jobs of a step agree on: whoever comes first reads the clock.
    pub(crate) fn common_start(&self, started: &OnceLock<Ticks>) -> Ticks {
        *started.get_or_init(|| self.engine.clock().now())
    }

    /// Runs to the limit, to the first error or until it is stopped; waits for operations in flight.
    ///
    /// `started` is the common begin of all jobs; this one may have been woken later.
    pub(crate) fn run(self, started: Ticks) -> LoopResult {
        // A loop without what most jobs do not need: a question that only some jobs need shows in the
        // instructions per I/O (`cargo xtask bench instructions`).
        let is_plain = self.follows == Follows::Nothing
            && !self.input.varied
            && !self.input.commits
            && self.input.files == 1
            && self.input.completion_time == CompletionTime::Seen;
        if let Some(policy) = self.input.drain {
            return self.run_draining(started, policy);
        }
        match (is_plain && !self.input.stream.has_passes(), self.engine.capabilities().asynchronous)
        {
            (true, false) if self.places == 1 => self.run_blocking(started),
            (true, _) => self.run_closed::<true>(started),
            (false, _) => self.run_closed::<false>(started),
        }
    }

    fn run_closed<const PLAIN: bool>(mut self, started: Ticks) -> LoopResult {
        // Completions beyond a batch wait in the engine: refilling all of them before the next submission
        // lets a device run dry (docs/design/0002).
        let mut completions = vec![Completion::default(); self.batch];
        self.begin(started);
        self.fill();
        while self.in_flight.now > 0 {
            // Asked once per exchange: nobody sees the difference of a batch, and every operation would pay.
            if self.is_over() {
                self.remaining = 0;
            }
            self.fill_writes();
            self.result.exchanges += 1;
            let count = match self.engine.exchange(&self.queue[..self.queued], &mut completions) {
                Ok(count) => count,
                Err(error) => {
                    self.break_off(error);
                    break;
                }
            };
            self.queued = 0;
            if !PLAIN {
                self.stamp_taken(&mut completions[..count]);
            }
            // Operations of two looks are never recorded as one, though the stamps may be equal.
            let mut look = LookTraits::NONE;
            for completion in &completions[..count] {
                if completion.completed_at != look.seen {
                    look = self.turn_to(completion.completed_at);
                }
                match PLAIN {
                    true => self.settle_plain(completion, &look),
                    false => self.settle(completion, &look),
                }
            }
            if !PLAIN && self.next_pass.is_some() && self.begin_pass() {
                self.fill();
            }
        }
        self.record_alike();
        self.finish(Ticks::default())
    }

    /// Where operations are over when they are taken, that is now.
    fn stamp_taken(&self, completions: &mut [Completion]) {
        if self.input.completion_time == CompletionTime::Taken {
            let now = self.engine.clock().now();
            completions.iter_mut().for_each(|completion| completion.completed_at = now);
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        // Relaxed: nothing is handed over with the flags.
        self.input.stop.load(Ordering::Relaxed) | self.input.failed.load(Ordering::Relaxed)
    }

    fn begin(&mut self, started: Ticks) {
        let clock = self.engine.clock();
        self.started = started;
        self.series.begin(started, clock);
        // Compared with each stamp, so once and for all in ticks.
        self.end = self.bounds.end.map_or(Ticks(u64::MAX), |end| started.plus(clock.ticks(end)));
        // Both clocks at once: the two sides of Little's law must be of the same time.
        self.began = ClockPair::read(clock);
        self.in_flight.begin(self.began.reference_nanos);
    }

    /// The end of the ramp of a job that begins at `started`.
    fn ramp_end(&self, started: Ticks) -> Ticks {
        started.plus(self.engine.clock().ticks(self.bounds.ramp))
    }

    fn fill(&mut self) {
        let now = self.engine.clock().now();
        self.last_completion = now;
        for slot in 0..self.places {
            let is_stopped = self.input.stop.load(Ordering::Relaxed);
            if self.may_start(now) && !is_stopped && self.start_next(slot, now) {
                // From here on each place is refilled as it is reaped, and the number in flight stays.
                let nanos = self.engine.clock().reference_nanos();
                self.in_flight.change(1, nanos);
            }
        }
    }

    #[inline(always)]
    fn may_start(&self, now: Ticks) -> bool {
        now < self.end && self.remaining > 0
    }

    /// Gives false if nothing starts before the next pass begins.
    fn start_next(&mut self, slot: usize, now: Ticks) -> bool {
        if self.next_pass.is_some() {
            return false;
        }
        let access = self.input.stream.next_access();
        if access.drops_cache {
            self.next_pass = Some(access);
            return false;
        }
        self.count_down(&access);
        self.origins[slot] = Origin { commit_start: now, intended: now };
        self.start(slot, access, now);
        true
    }

    #[inline(always)]
    fn count_down(&mut self, access: &Access) {
        self.remaining -= 1;
        if self.input.varied {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(access.length);
            // The access that takes the last byte is made whole.
            if self.remaining_bytes == 0 {
                self.remaining = 0;
            }
        }
    }

    fn start(&mut self, slot: usize, access: Access, now: Ticks) {
        let Access { kind, file, offset, length, .. } = access;
        self.slots[slot] = Slot { start: now, offset, length, file, kind };
        // A depth is at most 2¹⁵ (durio-workload).
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let index = slot as u32;
        // Flags are the same for all.
        let operation = &mut self.queue[self.queued];
        operation.kind = kind;
        operation.link = false;
        operation.file = file;
        operation.slot = index;
        operation.length = length;
        operation.offset = offset;
        operation.intended_start = now;
        self.queued += 1;
        if kind == OperationKind::Write {
            self.unfilled = self.input.filler.renews();
            if let Follows::Linked(sync) = self.follows {
                self.link_sync(slot, sync);
            }
        }
    }

    /// Takes a completion and refills its place.
    fn settle(&mut self, completion: &Completion, look: &LookTraits) {
        let slot = completion.slot as usize;
        let Some(slot) = self.conclude(slot, completion) else { return };
        if self.remaining > 0 && self.start_next(slot, look.start) {
            // The completion waited here to be given: its place was idle, and idle time is in no latency.
            self.filling.idle_ticks += look.idle;
        } else {
            self.leave();
        }
    }

    /// A place stays empty.
    #[cold]
    fn leave(&mut self) {
        let nanos = self.engine.clock().reference_nanos();
        self.in_flight.change(-1, nanos);
    }

    /// Something completed at `now`: what follows belongs to the interval in which that is.
    #[inline(always)]
    fn see(&mut self, now: Ticks) {
        if self.series.is_over(now) {
            self.rotate(now);
        }
        self.last_completion = now;
    }

    /// Records a completion. Gives back its place, unless a sync is to follow there or to come.
    fn conclude(&mut self, slot: usize, completion: &Completion) -> Option<usize> {
        if self.follows != Follows::Nothing {
            return self.conclude_with_sync(slot, completion);
        }
        if self.slots[slot].is_done_by(completion.result) {
            self.record(slot, completion);
        } else {
            self.fail(slot, completion.result);
        }
        Some(slot)
    }

    fn record(&mut self, slot: usize, completion: &Completion) {
        let clock = self.engine.clock();
        let now = completion.completed_at;
        let place = &self.slots[slot];
        let (start, submitted, kind) = (place.start, completion.submitted_at, place.kind);
        let nanos = clock.nanos(now.since(start));
        let recorded_as = RECORDED_AS[kind as usize];
        self.input.recorder.record(recorded_as, nanos);
        // A constant of the engine's type: the compiler leaves the question out.
        if self.engine.capabilities().asynchronous {
            let submit = clock.nanos(submitted.since(start));
            self.input.recorder.record_parts(recorded_as, submit, nanos);
        }
        // With one block size the bytes follow from the count.
        if self.input.varied {
            self.input.recorder.record_bytes(recorded_as, place.length);
        }
        if self.input.commits {
            self.record_commit(slot, now, nanos);
        }
    }

    #[inline]
    fn record_commit(&mut self, slot: usize, now: Ticks, nanos: u64) {
        match (self.slots[slot].kind, self.follows) {
            (OperationKind::Write, Follows::Nothing) => {
                self.input.recorder.record(OperationName::Commit, nanos);
            }
            (OperationKind::Fsync | OperationKind::Fdatasync, _) => {
                let nanos = self.engine.clock().nanos(now.since(self.origins[slot].commit_start));
                self.input.recorder.record(OperationName::Commit, nanos);
            }
            _ => {}
        }
    }

    /// The engine itself has failed: the other jobs end too.
    #[cold]
    fn break_off(&mut self, error: BlockError) {
        self.input.failed.store(true, Ordering::Relaxed);
        self.result.ending.engine_error.get_or_insert(error);
    }

    #[cold]
    fn fail(&mut self, slot: usize, result: i32) {
        let Slot { kind, offset, length, .. } = self.slots[slot];
        // No further access; operations in flight are waited for.
        self.remaining = 0;
        self.input.failed.store(true, Ordering::Relaxed);
        // Nothing is tried again: after a failed sync the kernel may have dropped dirty pages.
        self.result.ending.keep(JobFailure { kind, offset, length, result });
    }

    /// Closes the interval that is over, and passes those in which nothing completed; true if the
    /// ramp ended.
    #[cold]
    fn rotate(&mut self, now: Ticks) -> bool {
        let unwatched = self.engine.take_unwatched();
        let clock = self.engine.clock();
        let ramp_ended = self.series.advance(now, clock);
        self.input.recorder.rotate(self.series.index(), clock.nanos(unwatched));
        // Parts are kept per job and not per interval, so the ramp's would be among the measured.
        if ramp_ended {
            self.input.recorder.forget_parts();
        }
        ramp_ended
    }

    /// The end of an open loop's window: as long as was asked for, whenever its last operation
    /// completed; else its rate would depend on the last arrival. None where all was done before.
    fn window_end(&self) -> Ticks {
        match self.bounds.end {
            // A job that had issued all it was to issue ended with that: nothing was due any more.
            Some(_) if self.is_cut => self.engine.clock().now().min(self.end),
            _ => Ticks::default(),
        }
    }

    /// The end is the last completion, or that of the window if it is later.
    fn finish(mut self, window: Ticks) -> LoopResult {
        for file in 0..self.input.files {
            // Within the measured time: fio leaves the sync of fsync_on_close out of it, and shows
            // 2576 MiB/s where with end_fsync it shows 731 (fio#831).
            if self.input.syncs_at_end && !self.result.ending.is_early() {
                self.sync_at_end(file);
            }
        }
        let unwatched = self.engine.take_unwatched();
        let clock = self.engine.clock();
        let ended = ClockPair::read(clock);
        // What waited for its data was not in flight, though its place was taken.
        let idle = clock.nanos(self.filling.idle_ticks);
        self.input.recorder.set_unwatched(clock.nanos(unwatched));
        let end_ns = clock.nanos(self.last_completion.max(window).since(self.started));
        self.result.accounting = Accounting {
            in_flight_ns: self.in_flight.integral.saturating_sub(idle),
            span_ns: ended.reference_nanos.saturating_sub(self.began.reference_nanos),
            engine_span_ns: clock.nanos(ended.ticks.since(self.began.ticks)),
            filling_ns: clock.nanos(self.filling.ticks),
        };
        self.result.reference = (self.began.reference_nanos, ended.reference_nanos);
        self.result.end_ns = end_ns;
        self.result.measured = Nanos::new(end_ns.saturating_sub(self.bounds.ramp));
        self.result
    }
}

impl Slot {
    /// True if a completion with this result has done all of the operation.
    #[inline(always)]
    fn is_done_by(&self, result: i32) -> bool {
        match self.kind {
            // A short transfer is a failure: it would be counted as a whole block, with the latency
            // of a part.
            OperationKind::Read | OperationKind::Write => {
                i64::from(result) == self.length.cast_signed()
            }
            OperationKind::Fsync
            | OperationKind::Fdatasync
            | OperationKind::Reallocate
            | OperationKind::SyncFileRange => result >= 0,
        }
    }
}

/// How each kind of operation is recorded, in the order of [`OperationKind`].
const RECORDED_AS: [OperationName; 6] = [
    OperationName::Read,
    OperationName::Write,
    OperationName::Sync,
    OperationName::Sync,
    OperationName::Reallocate,
    OperationName::Sync,
];

/// Slots of the engine for each operation of the depth: one, and another if a sync is linked to it.
pub(crate) const fn slots_per_operation(method: SyncMethod) -> usize {
    if method.is_linked() { 2 } else { 1 }
}
