//! Two special closed loops, with the accounting of the general one.
//!
//! An engine that waits for each operation does one at a time and nothing after it, so it needs no
//! queue to keep: with one operation that never leaves the stack, a read through the page cache
//! costs a third fewer instructions of durio's own.
//!
//! A [`DrainPolicy`] lets the queue fill, then drain, or pauses: fio's `iodepth_batch_complete_min`,
//! `iodepth_batch_complete_max`, `iodepth_low` and `thinktime`. As in fio, completions are taken only
//! when the queue is full, nothing more is to start or a pause is due.

use durio_block::{Clock, Completion, Engine, Operation, OperationKind, Ticks};
use durio_plan::{CompletionTime, DrainPolicy};
use durio_workload::Access;

use super::{LoopResult, MeasuredLoop, RECORDED_AS, Slot, blank_operation};

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Runs to the limit, to the first error or until it is stopped.
    pub(super) fn run_blocking(mut self, started: Ticks) -> LoopResult {
        self.begin(started);
        let mut now = self.engine.clock().now();
        self.last_completion = now;
        let nanos = self.engine.clock().reference_nanos();
        // Once for the whole loop: from here to its end one operation is in flight.
        self.in_flight.change(1, nanos);
        let flags = self.queue[0].flags;
        let mut completions = [Completion::default()];
        // By the last stamp: another reading of the clock is 10 ns (TSC) to 22 ns, in a loop that
        // takes 250 for a read of /dev/zero.
        while self.may_start(now) && !self.is_over() {
            let Access { kind, offset, length, .. } = self.input.stream.next_access();
            self.remaining -= 1;
            // The data first: its making is the generator's work and in no latency (docs/design/0010).
            let start = if kind == OperationKind::Write { self.fill_one(length, now) } else { now };
            let operation =
                Operation { kind, length, offset, intended_start: start, ..blank_operation(flags) };
            self.result.exchanges += 1;
            match self.engine.exchange(&[operation], &mut completions) {
                Ok(count) => assert_eq!(count, 1, "an operation that is waited for completes"),
                Err(error) => {
                    self.break_off(error);
                    break;
                }
            }
            now = completions[0].completed_at;
            self.see(now);
            if i64::from(completions[0].result) == length.cast_signed() {
                let nanos = self.engine.clock().nanos(now.since(start));
                self.input.recorder.record(RECORDED_AS[kind as usize], nanos);
            } else {
                // Only a failure needs its place: the slot is not kept up to date for others.
                self.slots[0] = Slot { start, file: 0, offset, length, kind };
                self.fail(0, completions[0].result);
            }
        }
        let nanos = self.engine.clock().reference_nanos();
        self.in_flight.change(-1, nanos);
        self.finish(Ticks::default())
    }

    /// Makes the data of a write that would start at `now`; gives the time when it starts.
    fn fill_one(&mut self, length: u64, now: Ticks) -> Ticks {
        self.slots[0] = Slot { start: now, file: 0, offset: 0, length, kind: OperationKind::Write };
        let operation = &mut self.queue[0];
        (operation.kind, operation.slot) = (OperationKind::Write, 0);
        operation.length = length;
        self.queued = 1;
        self.unfilled = self.input.filler.renews();
        self.fill_writes();
        self.queued = 0;
        self.slots[0].start
    }
}

/// Completions that the engine gave and the job has not taken, the oldest first.
struct GivenCompletions {
    buffer: Box<[Completion]>,
    count: usize,
    /// Accesses that the job has taken, and how many those were when the last pause was due.
    taken: u64,
    taken_at_pause: u64,
}

/// Nanoseconds between two checks of the stop flag during a pause.
const PAUSE_SLICE: u64 = 50_000_000;

impl<E: Engine> MeasuredLoop<'_, E> {
    pub(super) fn run_draining(mut self, started: Ticks, policy: DrainPolicy) -> LoopResult {
        // One place more than completions can wait here, so that an exchange always has room.
        let buffer = vec![Completion::default(); self.slots.len() + 1].into_boxed_slice();
        let mut given = GivenCompletions { buffer, count: 0, taken: 0, taken_at_pause: 0 };
        self.begin(started);
        let begin = self.engine.clock().now();
        self.last_completion = begin;
        for slot in (0..self.places).rev() {
            self.free.push((u32::try_from(slot).unwrap_or(u32::MAX), begin));
        }
        while self.fill_and_drain(&mut given, policy) {}
        self.finish(Ticks::default())
    }

    /// One turn; gives false after the last one.
    fn fill_and_drain(&mut self, given: &mut GivenCompletions, policy: DrainPolicy) -> bool {
        if self.is_over() {
            self.remaining = 0;
        }
        if self.next_pass.is_some() && !self.begin_pass() || !self.fill_up(given, policy) {
            return false;
        }
        let is_full = self.free.is_empty();
        while self.in_flight.now > 0 {
            if !self.take(given, policy) {
                return false;
            }
            if is_full && self.in_flight.now <= u64::from(policy.refill_at) {
                break;
            }
        }
        if !self.pause_if_due(given, policy) {
            return false;
        }
        self.in_flight.now > 0 || self.remaining > 0 || self.next_pass.is_some()
    }

    /// Starts accesses until the queue is full, and hands them over by the batch.
    fn fill_up(&mut self, given: &mut GivenCompletions, policy: DrainPolicy) -> bool {
        while let Some(&(slot, _)) = self.free.last() {
            let now = self.engine.clock().now();
            if now >= self.end {
                self.remaining = 0;
            }
            if self.remaining == 0 || !self.start_next(slot as usize, now) {
                break;
            }
            self.free.pop();
            let nanos = self.engine.clock().reference_nanos();
            self.in_flight.change(1, nanos);
            if self.queued >= self.batch && !self.hand_over(given, false) {
                return false;
            }
            // A full queue drains first.
            if !self.free.is_empty() && !self.pause_if_due(given, policy) {
                return false;
            }
        }
        true
    }

    /// Waits for all operations in flight and pauses, if enough were taken since the last pause was
    /// due.
    fn pause_if_due(&mut self, given: &mut GivenCompletions, policy: DrainPolicy) -> bool {
        let Some(think) = policy.think else { return true };
        if given.taken < given.taken_at_pause + think.after {
            return true;
        }
        // As in fio, completions taken for this pause count towards the next one.
        given.taken_at_pause = given.taken;
        while self.in_flight.now > 0 {
            if !self.take(given, policy) {
                return false;
            }
        }
        let clock = self.engine.clock();
        let slice = clock.ticks(PAUSE_SLICE);
        let mut now = clock.now();
        let end = self.end.min(now.plus(clock.ticks(think.length_ns)));
        while now < end && !self.is_over() {
            let waited =
                self.engine.exchange_until(&[], &mut given.buffer, end.min(now.plus(slice)));
            if let Err(error) = waited {
                self.break_off(error);
                return false;
            }
            now = self.engine.clock().now();
        }
        true
    }

    /// Hands over the queued operations, and keeps the completions; waits for one if asked to.
    /// Gives false if the engine failed.
    fn hand_over(&mut self, given: &mut GivenCompletions, waits: bool) -> bool {
        self.fill_writes();
        let queued = std::mem::take(&mut self.queued);
        // A look for completions alone hands nothing over.
        self.result.exchanges += u64::from(queued > 0);
        let (operations, room) = (&self.queue[..queued], &mut given.buffer[given.count..]);
        let exchanged = match waits {
            true => self.engine.exchange(operations, room),
            false => self.engine.exchange_until(operations, room, Ticks::default()),
        };
        match exchanged {
            Ok(count) => given.count += count,
            Err(error) => self.break_off(error),
        }
        self.result.ending.engine_error.is_none()
    }

    /// Takes as many completions as one call of fio's would, all at one time.
    fn take(&mut self, given: &mut GivenCompletions, policy: DrainPolicy) -> bool {
        let least = u64::from(policy.take_min.max(1)).min(self.in_flight.now);
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        while self.queued > 0 || given.count < least {
            let waits = given.count < least;
            if !self.hand_over(given, waits) {
                return false;
            }
        }
        let taken = given.count.min(policy.take_max as usize).max(least);
        let now = self.engine.clock().now();
        let nanos = self.engine.clock().reference_nanos();
        for place in 0..taken {
            let mut completion = given.buffer[place];
            if self.input.completion_time == CompletionTime::Taken {
                completion.completed_at = now;
            }
            self.see(completion.completed_at);
            if let Some(slot) = self.conclude(completion.slot as usize, &completion) {
                self.free.push((u32::try_from(slot).unwrap_or(u32::MAX), now));
                self.in_flight.change(-1, nanos);
            }
        }
        given.buffer.copy_within(taken..given.count, 0);
        given.count -= taken;
        given.taken += taken as u64;
        true
    }
}
