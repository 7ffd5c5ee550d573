//! The open loop: operations start when their schedule says, whatever the storage does.
//!
//! Service latency is from the start as it was, response latency from the start as it should have
//! been; both are kept. An arrival that is due while every place in the queue is taken waits for
//! one: that is the storage's doing, and in its response. The time by which an arrival started late
//! though a place was free is the generator's doing, and counted apart ([`Pacing`]).

use std::sync::atomic::Ordering;

use durio_block::{Clock, Completion, Engine, Ticks};
use durio_record::Pacing;
use durio_workload::{AccessKind, Schedule};

use super::syncs::Follows;
use super::{LoopResult, MeasuredLoop, succeeded};
use crate::recorder::Place;

/// No wait is longer, so that a wish to stop is heard.
pub(super) const WAIT_MAX_NANOS: u64 = 100_000_000;

/// The schedule with what is due next.
pub(super) struct Due {
    pub(super) schedule: Schedule,
    pub(super) next: Ticks,
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Runs `schedule` to the limit, to the first error or until it is stopped; waits for what is
    /// in flight.
    ///
    /// `started` is the common begin of all jobs.
    pub(crate) fn run_open(mut self, started: Ticks, schedule: Schedule) -> LoopResult {
        let mut completions = vec![Completion::default(); self.batch];
        self.begin(started);
        self.last_completion = self.began.ticks;
        for slot in (0..self.places).rev() {
            self.free.push((u32::try_from(slot).unwrap_or(u32::MAX), Ticks::default()));
        }
        let mut due = Due { schedule, next: started };
        self.advance(&mut due);
        let mut pacing = Pacing::default();
        loop {
            if self.is_over() || self.engine.clock().now() >= self.end {
                self.remaining = 0;
            }
            self.start_due(&mut due, &mut pacing);
            if self.in_flight.now == 0 && !self.may_start(due.next) {
                break;
            }
            let deadline = self.deadline(&due);
            self.result.exchanges += 1;
            let queued = std::mem::take(&mut self.queued);
            let exchanged =
                self.engine.exchange_until(&self.queue[..queued], &mut completions, deadline);
            match exchanged {
                Ok(count) => completions[..count].iter().for_each(|it| self.settle_open(it)),
                Err(error) => {
                    self.failed.store(true, Ordering::Relaxed);
                    self.result.engine_error = Some(error);
                    break;
                }
            }
        }
        self.count_missed(&mut due, &mut pacing);
        self.result.pacing = Some(pacing);
        self.finish()
    }

    pub(super) fn advance(&self, due: &mut Due) {
        let clock = self.engine.clock();
        due.next = self.started.plus(clock.ticks(due.schedule.next_start()));
    }

    /// Starts what is due, as far as there are places and one exchange takes it.
    fn start_due(&mut self, due: &mut Due, pacing: &mut Pacing) {
        let now = self.engine.clock().now();
        while due.next <= now && self.may_start(due.next) && self.queued < self.queue.len() {
            // The place at the bottom is free for the longest time.
            let Some(&(_, free_since)) = self.free.first() else { return };
            let Some((slot, _)) = self.free.pop() else { return };
            let late = self.engine.clock().nanos(now.since(due.next));
            pacing.due += 1;
            pacing.started += 1;
            pacing.behind_ns_max = pacing.behind_ns_max.max(late);
            if free_since <= due.next {
                pacing.punctual += 1;
                pacing.lag_ns_sum = pacing.lag_ns_sum.saturating_add(late);
                pacing.lag_ns_max = pacing.lag_ns_max.max(late);
            }
            let access = self.stream.next_access();
            self.count_down(&access);
            self.start(slot as usize, access, now, (now, due.next));
            let nanos = self.engine.clock().reference_nanos();
            self.in_flight.change(1, nanos);
            self.advance(due);
        }
    }

    /// Until when nothing has to be started.
    fn deadline(&self, due: &Due) -> Ticks {
        let clock = self.engine.clock();
        let latest = clock.now().plus(clock.ticks(WAIT_MAX_NANOS));
        let can_start = !self.free.is_empty() && self.may_start(due.next);
        if can_start { due.next.min(latest) } else { latest }
    }

    /// Takes a completion; its place is free until an arrival needs it.
    fn settle_open(&mut self, completion: &Completion) {
        let place = self.slots[completion.slot as usize];
        let now = completion.completed_at;
        let freed = self.conclude(completion.slot as usize, completion);
        if succeeded(&place, completion.result) {
            let response = self.engine.clock().nanos(now.since(place.intended));
            self.record_response(place.kind, response);
        }
        if let Some(slot) = freed {
            self.free.push((u32::try_from(slot).unwrap_or(u32::MAX), now));
            let nanos = self.engine.clock().reference_nanos();
            self.in_flight.change(-1, nanos);
        }
    }

    fn record_response(&mut self, kind: AccessKind, nanos: u64) {
        match kind {
            AccessKind::Read => self.recorder.record_response(Place::Read, nanos),
            AccessKind::Write => {
                self.recorder.record_response(Place::Write, nanos);
                if self.commits && self.follows == Follows::Nothing {
                    self.recorder.record_response(Place::Commit, nanos);
                }
            }
            AccessKind::Fsync | AccessKind::Fdatasync if self.commits => {
                self.recorder.record_response(Place::Commit, nanos);
            }
            AccessKind::Fsync
            | AccessKind::Fdatasync
            | AccessKind::Reallocate
            | AccessKind::SyncFileRange => {}
        }
    }

    /// Counts the arrivals that were due before the end and found no place until then.
    pub(super) fn count_missed(&mut self, due: &mut Due, pacing: &mut Pacing) {
        let end = self.last_completion.min(self.end);
        while self.bounds.end.is_some() && due.next < end && pacing.due < MISSED_MAX {
            pacing.due += 1;
            self.advance(due);
        }
    }
}

/// More arrivals are not counted one by one: at 20 ns each that takes seconds.
pub(crate) const MISSED_MAX: u64 = 1 << 28;
