//! The measured loop of one job over one engine; the closed one here, the open one in `open`.
//!
//! Per operation: the stream says what is next, the engine does it, the recorder takes its latency.
//! A place in the queue that is refilled as it is reaped starts with the completion's clock value,
//! so no time between two operations is lost. Nothing is allocated, nothing is printed.

mod group_commit;
mod open;
mod syncs;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use durio_block::{Clock, Completion, Engine, Operation, OperationKind, Ticks, WriteFlags};
use durio_record::{Accounting, Batches, Pacing};
use durio_units::Nanos;
use durio_workload::{Access, AccessKind, Stream, SyncMethod};
use rustix::io::Errno;

use crate::recorder::{Place, Recorder};
use crate::sink::StopFlag;
use syncs::Follows;

pub(crate) use group_commit::Idle;
pub(crate) use open::MISSED_MAX;

/// The boundaries of a job, in ticks since its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// End of the ramp.
    pub(crate) ramp: u64,
    /// End of the step; none if operations are counted.
    pub(crate) end: Option<u64>,
    /// Length of an interval.
    pub(crate) interval: u64,
    /// Accesses to issue; `u64::MAX` if something else ends the step.
    pub(crate) operations: u64,
    /// Bytes of accesses to issue, where blocks have several sizes; `u64::MAX` as above.
    pub(crate) bytes: u64,
}

impl Bounds {
    /// The end of the interval that begins at `begin`; the ramp's last one ends with the ramp.
    pub(crate) fn interval_end(&self, begin: u64) -> u64 {
        let end = begin.saturating_add(self.interval);
        if begin < self.ramp { end.min(self.ramp) } else { end }
    }
}

/// A place in the queue.
#[derive(Debug, Clone, Copy)]
struct Slot {
    start: Ticks,
    /// Start of the write that a sync makes durable.
    commit_start: Ticks,
    /// When it should have started; the start itself in a closed loop.
    intended: Ticks,
    offset: u64,
    length: u64,
    kind: AccessKind,
}

/// What ended a job early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: OperationKind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Bytes moved, or a negated errno.
    pub(crate) result: i32,
}

/// What the loop counted besides latencies.
#[derive(Debug, Default)]
pub(crate) struct LoopResult {
    pub(crate) accounting: Accounting,
    /// What became of the schedule of an open loop.
    pub(crate) pacing: Option<Pacing>,
    /// The batches of a log.
    pub(crate) batches: Option<Batches>,
    /// Begin and end on the reference clock.
    pub(crate) reference: (u64, u64),
    /// From the end of the ramp to the last completion.
    pub(crate) measured: Nanos,
    /// From the common begin to the last completion, in nanoseconds.
    pub(crate) end_ns: u64,
    pub(crate) exchanges: u64,
    pub(crate) failure: Option<Failure>,
    /// Another error of the engine itself.
    pub(crate) engine_error: Option<durio_block::BlockError>,
}

/// One job's loop.
pub(crate) struct MeasuredLoop<'a, E: Engine> {
    engine: &'a mut E,
    stream: Stream,
    recorder: &'a mut Recorder,
    stop: &'a AtomicBool,
    failed: &'a AtomicBool,
    bounds: Bounds,
    /// Each write is made durable before the next.
    commits: bool,
    /// How, if not by the write itself.
    follows: Follows,
    /// Blocks have several sizes.
    varied: bool,
    /// Places of accesses, one per operation of the depth.
    places: usize,
    /// As many, and as many again for syncs that are linked.
    slots: Vec<Slot>,
    /// Places that are not in use, and since when; an open loop's.
    free: Vec<(u32, Ticks)>,
    /// Operations for the next exchange, the first `queued` of them.
    queue: Box<[Operation]>,
    queued: usize,
    batch: usize,
    /// Where interval 0 begins; the same for all jobs.
    started: Ticks,
    interval_end: Ticks,
    interval_begin: u64,
    interval_index: u64,
    end: Ticks,
    /// Accesses that may still be issued; none once the job is to end.
    remaining: u64,
    /// Bytes of accesses that may still be issued, where blocks have several sizes.
    remaining_bytes: u64,
    in_flight: InFlightCount,
    /// Both clocks, when the loop began.
    began: ClockPair,
    last_completion: Ticks,
    stamp: u64,
    result: LoopResult,
}

/// Number in flight over time, on the engine's reference clock: a side of Little's law that shares
/// no stamp with the latencies. The clock is read only when the number changes, so a closed loop at
/// full depth costs nothing.
#[derive(Debug, Default)]
pub(crate) struct InFlightCount {
    now: u64,
    since: u64,
    pub(crate) integral: u64,
}

impl InFlightCount {
    pub(crate) fn begin(&mut self, reference_nanos: u64) {
        self.since = reference_nanos;
    }

    #[cold]
    pub(crate) fn change(&mut self, by: i64, reference_nanos: u64) {
        self.integral += self.now * reference_nanos.saturating_sub(self.since);
        self.since = reference_nanos;
        self.now = self.now.saturating_add_signed(by);
    }
}

fn blank_operation(flags: WriteFlags) -> Operation {
    Operation {
        kind: OperationKind::Read,
        flags,
        link: false,
        slot: 0,
        length: 0,
        offset: 0,
        intended_start: Ticks::default(),
    }
}

/// The engine's clock and its reference, read at the same moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClockPair {
    pub(crate) ticks: Ticks,
    pub(crate) reference_nanos: u64,
}

impl ClockPair {
    /// Of several readings the one in which the least time passed between the two clocks: on a
    /// busy machine a thread can lose the processor in between.
    pub(crate) fn read(clock: &impl Clock) -> Self {
        let readings = (0..8).map(|_| {
            let before = clock.now();
            let reference_nanos = clock.reference_nanos();
            let width = clock.now().since(before);
            (width, Self { ticks: before.plus(width / 2), reference_nanos })
        });
        readings.min_by_key(|(width, _)| *width).map(|(_, pair)| pair).unwrap_or_default()
    }
}

/// What the loop needs besides the engine.
pub(crate) struct LoopInput<'a> {
    pub(crate) stream: Stream,
    pub(crate) recorder: &'a mut Recorder,
    pub(crate) stop: &'a StopFlag,
    pub(crate) failed: &'a StopFlag,
    pub(crate) write_flags: WriteFlags,
    /// Each write is made durable before the next.
    pub(crate) commits: bool,
    /// How, and how any write is.
    pub(crate) sync: SyncMethod,
    pub(crate) depth: u32,
    pub(crate) batch: u32,
    /// Blocks have several sizes.
    pub(crate) varied: bool,
    /// Distinguishes the stamps in written blocks from those of other jobs and runs.
    pub(crate) stamp: u64,
}

impl<'a, E: Engine> MeasuredLoop<'a, E> {
    pub(crate) fn new(engine: &'a mut E, bounds: Bounds, input: LoopInput<'a>) -> Self {
        let depth = input.depth as usize;
        let follows = Follows::of(input.sync);
        let operations_each = slots_per_operation(input.sync);
        let idle = Slot {
            start: Ticks::default(),
            commit_start: Ticks::default(),
            intended: Ticks::default(),
            offset: 0,
            length: 0,
            kind: AccessKind::Read,
        };
        Self {
            engine,
            stream: input.stream,
            recorder: input.recorder,
            stop: input.stop.as_ref(),
            failed: input.failed.as_ref(),
            bounds,
            commits: input.commits,
            follows,
            varied: input.varied,
            places: depth,
            slots: vec![idle; depth * operations_each],
            free: Vec::with_capacity(depth),
            queue: vec![blank_operation(input.write_flags); depth * operations_each]
                .into_boxed_slice(),
            queued: 0,
            batch: (input.batch as usize).min(depth) * operations_each,
            started: Ticks::default(),
            interval_end: Ticks::default(),
            interval_begin: 0,
            interval_index: 0,
            end: Ticks::default(),
            remaining: bounds.operations,
            remaining_bytes: bounds.bytes,
            in_flight: InFlightCount::default(),
            began: ClockPair::default(),
            last_completion: Ticks::default(),
            stamp: input.stamp,
            result: LoopResult::default(),
        }
    }

    /// The begin that all jobs of a step agree on: whoever comes first reads the clock.
    pub(crate) fn common_start(&self, started: &OnceLock<Ticks>) -> Ticks {
        *started.get_or_init(|| self.engine.clock().now())
    }

    /// Runs to the limit, to the first error or until it is stopped; waits for what is in flight.
    ///
    /// `started` is the common begin of all jobs; this one may have been woken later.
    pub(crate) fn run(mut self, started: Ticks) -> LoopResult {
        let mut completions = vec![Completion::default(); self.batch];
        self.begin(started);
        self.fill();
        while self.in_flight.now > 0 {
            if self.is_over() {
                self.remaining = 0;
            }
            self.result.exchanges += 1;
            let count = match self.engine.exchange(&self.queue[..self.queued], &mut completions) {
                Ok(count) => count,
                Err(error) => {
                    self.failed.store(true, Ordering::Relaxed);
                    self.result.engine_error = Some(error);
                    break;
                }
            };
            self.queued = 0;
            for completion in &completions[..count] {
                self.settle(completion);
            }
        }
        self.finish()
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    fn begin(&mut self, started: Ticks) {
        self.started = started;
        self.interval_end = started.plus(self.bounds.interval_end(0));
        self.end = self.bounds.end.map_or(Ticks(u64::MAX), |end| started.plus(end));
        self.began = ClockPair::read(self.engine.clock());
        self.in_flight.begin(self.began.reference_nanos);
    }

    fn fill(&mut self) {
        let now = self.engine.clock().now();
        self.last_completion = now;
        for slot in 0..self.places {
            if self.may_start(now) && !self.stop.load(Ordering::Relaxed) {
                self.start_next(slot, now);
                let nanos = self.engine.clock().reference_nanos();
                self.in_flight.change(1, nanos);
            }
        }
    }

    #[inline(always)]
    fn may_start(&self, now: Ticks) -> bool {
        now < self.end && self.remaining > 0
    }

    #[inline(always)]
    fn start_next(&mut self, slot: usize, now: Ticks) {
        let access = self.stream.next_access();
        self.count_down(&access);
        self.start(slot, access, now, (now, now));
    }

    #[inline(always)]
    fn count_down(&mut self, access: &Access) {
        self.remaining -= 1;
        if self.varied {
            self.remaining_bytes = self.remaining_bytes.saturating_sub(access.length);
            if self.remaining_bytes == 0 {
                self.remaining = 0;
            }
        }
    }

    #[inline(always)]
    fn start(
        &mut self,
        slot: usize,
        access: Access,
        now: Ticks,
        (commit_start, intended): (Ticks, Ticks),
    ) {
        let place = &mut self.slots[slot];
        place.start = now;
        place.commit_start = commit_start;
        place.intended = intended;
        place.kind = access.kind;
        place.offset = access.offset;
        place.length = access.length;
        // A depth is at most 2¹⁵ (durio-workload).
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let index = slot as u32;
        // Flags are the same for all.
        let operation = &mut self.queue[self.queued];
        operation.kind = kind_of(access.kind);
        operation.link = false;
        operation.slot = index;
        operation.length = access.length;
        operation.offset = access.offset;
        operation.intended_start = now;
        self.queued += 1;
        if access.kind == AccessKind::Write {
            self.stamp += 1;
            let data = self.engine.slot_mut(index);
            let written = usize::try_from(access.length).unwrap_or(usize::MAX).min(data.len());
            stamp_blocks(&mut data[..written], self.stamp);
            if let Follows::Linked(sync) = self.follows {
                self.link_sync(slot, sync);
            }
        }
    }

    /// Takes a completion and refills its place.
    #[inline(always)]
    fn settle(&mut self, completion: &Completion) {
        let slot = completion.slot as usize;
        let now = completion.completed_at;
        let Some(slot) = self.conclude(slot, completion) else { return };
        if self.may_start(now) {
            self.start_next(slot, now);
        } else {
            let nanos = self.engine.clock().reference_nanos();
            self.in_flight.change(-1, nanos);
        }
    }

    /// Records a completion. Gives back its place, unless a sync is to follow there or to come.
    #[inline(always)]
    fn conclude(&mut self, slot: usize, completion: &Completion) -> Option<usize> {
        let now = completion.completed_at;
        if now > self.interval_end {
            self.rotate(now);
        }
        self.last_completion = now;
        let place = self.slots[slot];
        if self.follows != Follows::Nothing {
            return self.conclude_with_sync(slot, &place, completion);
        }
        if succeeded(&place, completion.result) {
            self.record(&place, completion);
        } else {
            self.fail(slot, completion.result);
        }
        Some(slot)
    }

    #[inline(always)]
    fn record(&mut self, place: &Slot, completion: &Completion) {
        let clock = self.engine.clock();
        let now = completion.completed_at;
        let nanos = clock.nanos(now.since(place.start));
        let recorded_as = PLACES[place.kind as usize];
        self.recorder.record(recorded_as, nanos);
        if completion.submitted_at != now {
            let submit = clock.nanos(completion.submitted_at.since(place.start));
            self.recorder.record_parts(recorded_as, submit, nanos.saturating_sub(submit));
        }
        if self.varied {
            self.recorder.record_bytes(recorded_as, place.length);
        }
        if self.commits {
            self.record_commit(place, now, nanos);
        }
    }

    #[inline]
    fn record_commit(&mut self, place: &Slot, now: Ticks, nanos: u64) {
        match (place.kind, self.follows) {
            (AccessKind::Write, Follows::Nothing) => self.recorder.record(Place::Commit, nanos),
            (AccessKind::Fsync | AccessKind::Fdatasync, _) => {
                let nanos = self.engine.clock().nanos(now.since(place.commit_start));
                self.recorder.record(Place::Commit, nanos);
            }
            _ => {}
        }
    }

    #[cold]
    fn fail(&mut self, slot: usize, result: i32) {
        let place = &self.slots[slot];
        // No further access; what is in flight is waited for.
        self.remaining = 0;
        self.failed.store(true, Ordering::Relaxed);
        // A cancellation gives way to its cause, whichever is seen first.
        let cancelled = -Errno::CANCELED.raw_os_error();
        if self.result.failure.as_ref().is_none_or(|known| known.result == cancelled) {
            self.result.failure = Some(Failure {
                kind: kind_of(place.kind),
                offset: place.offset,
                length: place.length,
                result,
            });
        }
    }

    /// Closes the interval that is over, and passes those in which nothing completed.
    #[cold]
    fn rotate(&mut self, now: Ticks) {
        let mut next = self.interval_index;
        let ramp_was_over = self.interval_begin >= self.bounds.ramp;
        // An interval has its end: what completes with the last tick of a step belongs to it.
        while now > self.interval_end {
            self.interval_begin = self.interval_end.since(self.started);
            self.interval_end = self.started.plus(self.bounds.interval_end(self.interval_begin));
            next += 1;
        }
        self.recorder.rotate(next);
        self.interval_index = next;
        if !ramp_was_over && self.interval_begin >= self.bounds.ramp {
            self.recorder.forget_parts();
        }
    }

    fn finish(mut self) -> LoopResult {
        let clock = self.engine.clock();
        let ended = ClockPair::read(clock);
        let span = self.last_completion.since(self.started);
        self.result.accounting = Accounting {
            in_flight_ns: self.in_flight.integral,
            span_ns: ended.reference_nanos.saturating_sub(self.began.reference_nanos),
            engine_span_ns: clock.nanos(ended.ticks.since(self.began.ticks)),
        };
        self.result.reference = (self.began.reference_nanos, ended.reference_nanos);
        self.result.end_ns = clock.nanos(span);
        self.result.measured = Nanos::new(clock.nanos(span.saturating_sub(self.bounds.ramp)));
        self.result
    }
}

#[inline]
fn succeeded(place: &Slot, result: i32) -> bool {
    match place.kind {
        AccessKind::Read | AccessKind::Write => i64::from(result) == place.length.cast_signed(),
        AccessKind::Fsync
        | AccessKind::Fdatasync
        | AccessKind::Reallocate
        | AccessKind::SyncFileRange => result >= 0,
    }
}

/// The blocks in which a written slot differs from every other that durio writes: no storage can
/// answer two writes with one.
const STAMP_STRIDE: usize = 4096;

#[inline]
pub(crate) fn stamp_blocks(data: &mut [u8], stamp: u64) {
    for block in data.chunks_mut(STAMP_STRIDE) {
        if let Some(head) = block.first_chunk_mut::<8>() {
            *head = stamp.to_le_bytes();
        }
    }
}

#[inline]
pub(crate) fn kind_of(kind: AccessKind) -> OperationKind {
    match kind {
        AccessKind::Read => OperationKind::Read,
        AccessKind::Write => OperationKind::Write,
        AccessKind::Fsync => OperationKind::Fsync,
        AccessKind::Fdatasync => OperationKind::Fdatasync,
        AccessKind::Reallocate => OperationKind::Reallocate,
        AccessKind::SyncFileRange => OperationKind::SyncFileRange,
    }
}

/// How each kind of access is recorded, in the order of [`AccessKind`].
const PLACES: [Place; 6] =
    [Place::Read, Place::Write, Place::Sync, Place::Sync, Place::Reallocate, Place::Sync];

/// Slots of the engine for each operation of the depth: one, and another if a sync is linked to it.
pub(crate) const fn slots_per_operation(method: SyncMethod) -> usize {
    if method.is_linked() { 2 } else { 1 }
}
