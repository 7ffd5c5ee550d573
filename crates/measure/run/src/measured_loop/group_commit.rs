//! The loop of a log: virtual committers hand it their records, which it writes and makes durable in
//! batches.
//!
//! When the log is free, the waiting records are one batch: one write, then one sync; none is
//! acknowledged before the sync has returned. In a closed loop a committer hands over its next
//! record at that very moment; in an open loop records arrive by a schedule, and each takes a
//! committer that has none. Commits are recorded from the hand-over to the acknowledgement; writes
//! and syncs are the log's. Nothing is allocated, nothing is printed.
//!
//! Double buffering: a record that arrives while a batch is in flight is copied into the next one
//! at once, else when the flush has returned. Here one thread is both the log and its committers,
//! so in a closed loop every record arrives when a flush returns, and a blocking engine lets it see
//! arrivals only then: the two differ only in an open loop with an asynchronous engine. Committers
//! with separate threads (`committer_threads`) show the difference.
//!
//! A record that arrives while every committer waits for an acknowledgement is handed over when one
//! has it: that is the storage's doing, and in its response. A record that arrives while the loop is
//! in the kernel with a batch would only have waited for that batch: its hand-over is when it
//! arrived. Only when the log was free is lateness the generator's own.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use durio_block::{Clock, Completion, Engine, OperationKind, Ticks};
use durio_record::{OperationName, Pacing};
use durio_workload::{Access, ArrivalSchedule};

use super::open::DueSchedule;
use super::{Lateness, LoopResult, MeasuredLoop, Pacer, RECORDED_AS};
use crate::log::{Log, LogBatch, Record, put_record};

/// What the log does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Free,
    /// A leader waits for more records.
    Delaying {
        until: Ticks,
    },
    /// A batch is written or made durable.
    Busy,
}

/// The batch in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    taken: LogBatch,
    offset: u64,
    length: u64,
    delayed: bool,
}

/// A measured loop with a log between its committers and its engine.
struct LogLoop<'a, 'b, E: Engine> {
    base: MeasuredLoop<'a, E>,
    log: &'b mut Log,
    committers: Committers<'b>,
    stage: Stage,
    batch: Batch,
    /// The engine's slot of the batch in flight.
    flying: u32,
    /// The slot of the next batch, and how many there are.
    filling: u32,
    slots: u32,
    delay: u64,
}

impl<'a, E: Engine> MeasuredLoop<'a, E> {
    /// Runs a log to the limit, to the first error or until it is stopped. Records that were handed
    /// over before the limit are waited for; after an error or a wish to stop only the batch in
    /// flight is.
    ///
    /// `started` is the common begin of all jobs. With a schedule the loop is open, else closed.
    pub(crate) fn run_log(
        self,
        started: Ticks,
        log: &mut Log,
        idle: &mut Idle,
        schedule: Option<ArrivalSchedule>,
    ) -> LoopResult {
        let delay = self.engine.clock().ticks(log.policy.delay.get());
        let slots = if log.policy.double_buffered { 2 } else { 1 };
        let (stage, batch) = (Stage::Free, Batch::default());
        let ramp_end = self.ramp_end(started);
        let committers = Committers::new(schedule, idle, ramp_end);
        let (flying, filling) = (0, 0);
        let log_loop =
            LogLoop { base: self, log, committers, stage, batch, flying, filling, slots, delay };
        log_loop.run(started)
    }
}

impl<E: Engine> LogLoop<'_, '_, E> {
    fn run(mut self, started: Ticks) -> LoopResult {
        // A log has one operation in flight: its batch's write, or the sync after it.
        let mut completions = [Completion::default(); 1];
        self.base.begin(started);
        // Nothing has completed yet: what arrives from here on finds the log free.
        self.base.last_completion = self.base.began.ticks;
        self.greet();
        loop {
            self.look_at_the_end();
            self.hand_over_due();
            self.lead();
            if self.is_done() {
                break;
            }
            let count = match self.exchange(&mut completions) {
                Ok(count) => count,
                Err(error) => {
                    self.base.break_off(error);
                    break;
                }
            };
            for completion in &completions[..count] {
                self.settle(completion);
            }
        }
        let is_open = !self.committers.are_closed();
        let window = if is_open { self.base.window_end() } else { Ticks::default() };
        if self.base.series.is_over(window) {
            self.rotate(window);
        }
        self.base.result.pacing = self.count_missed();
        self.base.result.batches = Some(self.log.counts.batches());
        self.base.finish(window)
    }

    /// Nothing is handed over after the end; after an error or a wish to stop, nothing is written.
    fn look_at_the_end(&mut self) {
        if self.base.is_over() {
            self.base.end_now();
            self.log.queue.abandon_waiting();
            if self.stage != Stage::Busy {
                self.stage = Stage::Free;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Free && self.log.queue.len() == 0 && !self.expects_arrivals()
    }

    fn exchange(
        &mut self,
        completions: &mut [Completion],
    ) -> Result<usize, durio_block::BlockError> {
        self.base.result.exchanges += 1;
        let queued = std::mem::take(&mut self.base.queued);
        let deadline = match self.stage {
            // Nobody arrives before the acknowledgement: no deadline, so the engine may wait as long as it likes.
            Stage::Busy if self.committers.are_closed() => None,
            Stage::Busy | Stage::Free => Some(self.next_arrival()),
            Stage::Delaying { until } => Some(until.min(self.next_arrival())),
        };
        let operations = &self.base.queue[..queued];
        match deadline {
            None => self.base.engine.exchange(operations, completions),
            Some(deadline) => self.base.engine.exchange_until(operations, completions, deadline),
        }
    }

    /// Hands a record over that should have been at `intended`.
    #[inline]
    fn hand_over(&mut self, handed: Ticks, intended: Ticks) {
        let access = self.base.input.stream.next_access();
        self.base.count_down(&access);
        self.log.queue.push(Record { handed, intended, length: access.length, committer: 0 });
    }

    /// Copies what waits into the next batch, as far as there is room.
    #[inline]
    fn join(&mut self) {
        while let Some((record, at)) = self.log.queue.join_next() {
            let batch = self.base.engine.slot_mut(self.filling);
            put_record(batch, (at, record.length), &mut self.base.input.filler);
        }
    }

    /// Leads, if the log is free and a record waits: writes the batch, now or after the delay.
    fn lead(&mut self) {
        match self.stage {
            Stage::Busy if self.slots == 1 => {}
            Stage::Busy => self.join(),
            Stage::Free if self.log.queue.len() == 0 => {}
            Stage::Free => {
                self.join();
                let now = self.base.engine.clock().now();
                match self.waits_for_more() {
                    true => self.stage = Stage::Delaying { until: now.plus(self.delay) },
                    false => self.write(now, false),
                }
            }
            Stage::Delaying { until } => {
                self.join();
                let now = self.base.engine.clock().now();
                if now >= until {
                    self.write(now, true);
                }
            }
        }
    }

    /// True if the leader waits: enough others have a record that is not acknowledged, and there is
    /// room for more.
    fn waits_for_more(&self) -> bool {
        // As PostgreSQL's commit_delay with commit_siblings: alone a delay only costs (docs/design/0007).
        let others = self.log.queue.len() - 1;
        self.delay > 0 && others >= self.log.policy.siblings as usize && !self.log.queue.is_full()
    }

    /// Writes what has joined the batch.
    #[inline]
    fn write(&mut self, now: Ticks, delayed: bool) {
        let taken = self.log.queue.take();
        let (offset, length) = self.log.place(taken.bytes);
        self.batch = Batch { taken, offset, length, delayed };
        self.fill_up(taken.bytes, length);
        self.flying = self.filling;
        // With two slots records join the next batch while this one is in flight.
        self.filling = (self.filling + 1) % self.slots;
        self.start(OperationKind::Write, now);
        let nanos = self.base.engine.clock().reference_nanos();
        self.base.in_flight.change(1, nanos);
        self.stage = Stage::Busy;
    }

    /// Zeros fill the batch up: the buffer still has bytes of an older one.
    #[inline]
    fn fill_up(&mut self, bytes: u64, length: u64) {
        let as_index = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let slot = self.base.engine.slot_mut(self.filling);
        let end = as_index(length).min(slot.len());
        slot[as_index(bytes).min(end)..end].fill(0);
    }

    /// Queues the batch's write, or what makes it durable.
    #[inline]
    fn start(&mut self, kind: OperationKind, now: Ticks) {
        let Batch { offset, length, .. } = self.batch;
        let place = &mut self.base.slots[0];
        (place.start, place.kind) = (now, kind);
        (place.offset, place.length) = (offset, length);
        let is_write = kind == OperationKind::Write;
        let operation = &mut self.base.queue[0];
        operation.kind = kind;
        operation.slot = self.flying;
        // A sync is of the whole file: it has neither a place nor a length.
        operation.length = if is_write { length } else { 0 };
        operation.offset = if is_write { offset } else { 0 };
        operation.intended_start = now;
        self.base.queued = 1;
    }

    #[inline]
    fn settle(&mut self, completion: &Completion) {
        let now = completion.completed_at;
        if self.base.series.is_over(now) {
            self.rotate(now);
        }
        self.base.last_completion = now;
        let place = self.base.slots[0];
        if !place.is_done_by(completion.result) {
            self.fail(completion.result);
            return;
        }
        self.record(completion);
        match self.base.input.stream.follow_up(place.kind) {
            Some(Access { kind, .. }) => self.start(kind, now),
            None => self.acknowledge(now),
        }
    }

    #[cold]
    fn rotate(&mut self, now: Ticks) {
        if self.base.rotate(now) {
            self.log.counts.clear();
        }
    }

    /// Nobody's record is acknowledged any more.
    #[cold]
    fn fail(&mut self, result: i32) {
        self.base.fail(0, result);
        self.log.queue.abandon();
        self.is_free_again();
    }

    /// Records the log's own operation.
    #[inline]
    fn record(&mut self, completion: &Completion) {
        let (clock, place) = (self.base.engine.clock(), &self.base.slots[0]);
        let now = completion.completed_at;
        let nanos = clock.nanos(now.since(place.start));
        let recorded_as = RECORDED_AS[place.kind as usize];
        self.base.input.recorder.record(recorded_as, nanos);
        let submit = clock.nanos(completion.submitted_at.since(place.start));
        // Only the log's own operations: a commit is several, and has no such parts.
        self.base.input.recorder.record_parts(recorded_as, submit, nanos);
        if recorded_as == OperationName::Write {
            // Batches differ in length: bytes do not follow from the count.
            self.base.input.recorder.record_bytes(recorded_as, place.length);
        }
    }

    fn is_free_again(&mut self) {
        let nanos = self.base.engine.clock().reference_nanos();
        self.base.in_flight.change(-1, nanos);
        self.stage = Stage::Free;
    }

    /// The batch is durable: tells every committer whose record is in it.
    #[inline]
    fn acknowledge(&mut self, now: Ticks) {
        self.is_free_again();
        let Batch { taken, length, delayed, .. } = self.batch;
        self.log.counts.add(&taken, length, delayed);
        while let Some(record) = self.log.queue.acknowledge() {
            let clock = self.base.engine.clock();
            self.base
                .input
                .recorder
                .record(OperationName::Commit, clock.nanos(now.since(record.handed)));
            if !self.committers.are_closed() {
                let response = clock.nanos(now.since(record.intended));
                self.base.input.recorder.record_response(OperationName::Commit, response);
                self.committers.release(now);
            }
        }
        if self.committers.are_closed() {
            // A committer whose record is acknowledged has the next one at that very moment.
            self.hand_over_next(taken.records, now);
        }
    }

    /// The committers of the last batch hand over their next records.
    #[inline]
    fn hand_over_next(&mut self, records: usize, now: Ticks) {
        for _ in 0..records {
            if !self.base.may_start(now) {
                return;
            }
            self.hand_over(now, now);
        }
    }
}

/// Since when each committer has no record, the longest first.
pub(crate) type Idle = VecDeque<Ticks>;

struct Committers<'b> {
    /// What arrives; none in a closed loop.
    due: Option<DueSchedule>,
    idle: &'b mut Idle,
    pacer: Pacer,
}

impl<'b> Committers<'b> {
    fn new(schedule: Option<ArrivalSchedule>, idle: &'b mut Idle, ramp_end: Ticks) -> Self {
        let due = schedule.map(|schedule| DueSchedule { schedule, next: Ticks::default() });
        Self { due, idle, pacer: Pacer::new(ramp_end) }
    }

    #[inline]
    fn are_closed(&self) -> bool {
        self.due.is_none()
    }

    /// A committer's record is acknowledged.
    #[inline]
    fn release(&mut self, now: Ticks) {
        self.idle.push_back(now);
    }
}

impl<E: Engine> LogLoop<'_, '_, E> {
    /// The first records: of all committers in a closed loop, those that the schedule has in an open
    /// one.
    fn greet(&mut self) {
        let now = self.base.engine.clock().now();
        let committers = self.log.policy.committers;
        if self.committers.are_closed() {
            if !self.base.is_over() {
                self.hand_over_next(committers as usize, now);
            }
            return;
        }
        // Free from the beginning: the first arrivals need not wait.
        for _ in 0..committers {
            self.committers.release(Ticks::default());
        }
        if let Some(due) = &mut self.committers.due {
            self.base.advance(due);
        }
    }

    /// Hands over the arrived records, as far as committers have none.
    fn hand_over_due(&mut self) {
        if self.committers.are_closed() {
            return;
        }
        let now = self.base.engine.clock().now();
        if now >= self.base.end {
            self.base.end_now();
        }
        while let Some(due) = self.committers.due.as_ref().map(|due| due.next)
            && due <= now
            && self.base.may_start(due)
            && let Some(idle_since) = self.committers.idle.pop_front()
        {
            self.arrive(due, now, idle_since);
        }
    }

    fn arrive(&mut self, due: Ticks, now: Ticks, idle_since: Ticks) {
        let free_since = self.base.last_completion;
        let could = due.max(idle_since);
        // Until its last completion the loop was in the kernel.
        let handed = if could <= free_since { could } else { now };
        let clock = self.base.engine.clock();
        let late = Lateness {
            punctual: idle_since <= due,
            behind_ns: clock.nanos(handed.since(due)),
            lag_ns: clock.nanos(handed.since(could)),
        };
        self.committers.pacer.started(due, late);
        self.hand_over(handed, due);
        if let Some(due) = &mut self.committers.due {
            self.base.advance(due);
        }
    }

    /// True if more may arrive before the end.
    fn expects_arrivals(&self) -> bool {
        self.committers.due.is_some() && self.base.remaining > 0
    }

    /// Until when nothing has to be handed over.
    fn next_arrival(&self) -> Ticks {
        let latest = self.base.next_look();
        match &self.committers.due {
            Some(due) if !self.committers.idle.is_empty() && self.base.may_start(due.next) => {
                due.next.min(latest)
            }
            _ => latest,
        }
    }

    /// What became of the schedule, with the arrivals that found no committer until the end.
    fn count_missed(&mut self) -> Option<Pacing> {
        let mut due = self.committers.due.take()?;
        self.base.count_missed(&mut due, &mut self.committers.pacer);
        Some(self.committers.pacer.pacing())
    }
}
