//! The open loop: operations start when their schedule says, whatever the storage does.
//!
//! Service latency is from the start as it was, response latency from the start as it should have
//! been; both are kept. An arrival that is due while every place in the queue is taken waits for
//! one: that is the storage's doing, and in its response. The time by which an arrival started late
//! though a place was free is the generator's doing, and counted apart ([`Pacer`]).

use durio_block::{Clock, Completion, Engine, OperationKind, Ticks};
use durio_record::OperationName;
use durio_workload::ArrivalSchedule;

use super::syncs::Follows;
use super::{Lateness, LoopResult, MISSED_MAX, MeasuredLoop, Origin, Pacer};

// No wait is longer, so that a wish to stop is heard.
const WAIT_MAX_NANOS: u64 = 100_000_000;

/// The schedule with its next arrival.
pub(super) struct DueSchedule {
    pub(super) schedule: ArrivalSchedule,
    pub(super) next: Ticks,
}

impl<E: Engine> MeasuredLoop<'_, E> {
    /// Runs `schedule` to the limit, to the first error or until it is stopped; waits for the
    /// operations in flight.
    ///
    /// `started` is the common begin of all jobs.
    pub(crate) fn run_open(mut self, started: Ticks, schedule: ArrivalSchedule) -> LoopResult {
        // Room for all that a look can show: completions waiting here would count as in flight.
        let mut completions = vec![Completion::default(); self.slots.len()];
        self.begin(started);
        self.last_completion = self.began.ticks;
        for slot in (0..self.places).rev() {
            self.free.push((u32::try_from(slot).unwrap_or(u32::MAX), Ticks::default()));
        }
        let mut due = DueSchedule { schedule, next: started };
        self.advance(&mut due);
        let mut pacer = Pacer::new(self.ramp_end(started));
        loop {
            if self.is_over() || self.engine.clock().now() >= self.end {
                self.end_now();
            }
            self.start_due(&mut due, &mut pacer);
            if self.in_flight.now == 0 && self.remaining == 0 {
                break;
            }
            // Never for longer than the next arrival: an engine that waits for completions starts nothing.
            let deadline = self.deadline(&due);
            let queued = std::mem::take(&mut self.queued);
            self.result.exchanges += u64::from(queued > 0);
            let exchanged =
                self.engine.exchange_until(&self.queue[..queued], &mut completions, deadline);
            match exchanged {
                Ok(count) => {
                    self.stamp_taken(&mut completions[..count]);
                    let reference = self.engine.clock().reference_nanos();
                    // With one reading for all of a look: their places came free at the same
                    // moment.
                    completions[..count]
                        .iter()
                        .for_each(|completion| self.settle_open(completion, reference));
                }
                Err(error) => {
                    self.break_off(error);
                    break;
                }
            }
        }
        self.count_missed(&mut due, &mut pacer);
        self.result.pacing = Some(pacer.pacing());
        let window = self.window_end();
        // Intervals without completions up to the window's end are intervals all the same.
        if self.series.is_over(window) {
            self.rotate(window);
        }
        self.finish(window)
    }

    pub(super) fn advance(&self, due: &mut DueSchedule) {
        let clock = self.engine.clock();
        due.next = self.started.plus(clock.ticks(due.schedule.next_start()));
    }

    /// Starts nothing more, even if operations remain.
    pub(super) fn end_now(&mut self) {
        self.is_cut |= self.remaining > 0;
        self.remaining = 0;
    }

    /// Starts the due arrivals, as far as there are places and one exchange takes them.
    fn start_due(&mut self, due: &mut DueSchedule, pacer: &mut Pacer) {
        if self.next_pass.is_some() && !self.begin_pass() {
            return;
        }
        let now = self.engine.clock().now();
        let (mut punctual, mut latest) = (0, 0);
        // Both clocks at the same moment: the two sides of Little's law begin together.
        let reference = self.engine.clock().reference_nanos();
        while due.next <= now && self.may_start(due.next) && self.queued < self.queue.len() {
            // The place at the bottom is free for the longest time.
            let Some(&(_, free_since)) = self.free.first() else { break };
            let access = self.input.stream.next_access();
            // The arrival is not lost: it stays due until the pass has started.
            if access.drops_cache {
                self.next_pass = Some(access);
                break;
            }
            let Some((slot, _)) = self.free.pop() else { break };
            let late = self.engine.clock().nanos(now.since(due.next));
            // A place that came free only later kept it waiting: that is the storage's doing, and
            // no lag.
            let is_punctual = free_since <= due.next;
            let late_by = Lateness { punctual: is_punctual, behind_ns: late, lag_ns: late };
            if pacer.started(due.next, late_by) {
                (punctual, latest) = (punctual + 1, late.max(latest));
            }
            self.count_down(&access);
            self.origins[slot as usize] = Origin { commit_start: now, intended: due.next };
            self.start(slot as usize, access, now);
            self.in_flight.change(1, reference);
            self.advance(due);
        }
        // Making their data is the generator's doing too.
        let filling = self.fill_writes();
        pacer.lagged(punctual, latest, filling);
    }

    /// When a wait must be over, so that a wish to stop and the end of the window are heard.
    pub(super) fn next_look(&self) -> Ticks {
        let clock = self.engine.clock();
        let now = clock.now();
        let latest = now.plus(clock.ticks(WAIT_MAX_NANOS));
        if now < self.end { latest.min(self.end) } else { latest }
    }

    /// Until when nothing has to be started.
    fn deadline(&self, due: &DueSchedule) -> Ticks {
        let latest = self.next_look();
        let waits_for_pass = self.next_pass.is_some() && self.in_flight.now > 0;
        let can_start = !self.free.is_empty() && self.may_start(due.next) && !waits_for_pass;
        if can_start { due.next.min(latest) } else { latest }
    }

    /// Takes a completion; its place is free until an arrival needs it.
    fn settle_open(&mut self, completion: &Completion, reference: u64) {
        let slot = completion.slot as usize;
        let (kind, intended) = (self.slots[slot].kind, self.origins[slot].intended);
        let succeeded = self.slots[slot].is_done_by(completion.result);
        let now = completion.completed_at;
        self.see(now);
        let freed = self.conclude(slot, completion);
        if succeeded {
            let response = self.engine.clock().nanos(now.since(intended));
            self.record_response(kind, response);
        }
        if let Some(slot) = freed {
            self.free.push((u32::try_from(slot).unwrap_or(u32::MAX), now));
            self.in_flight.change(-1, reference);
        }
    }

    fn record_response(&mut self, kind: OperationKind, nanos: u64) {
        match kind {
            OperationKind::Read => self.input.recorder.record_response(OperationName::Read, nanos),
            OperationKind::Write => {
                self.input.recorder.record_response(OperationName::Write, nanos);
                if self.input.commits && self.follows == Follows::Nothing {
                    self.input.recorder.record_response(OperationName::Commit, nanos);
                }
            }
            OperationKind::Fsync | OperationKind::Fdatasync if self.input.commits => {
                self.input.recorder.record_response(OperationName::Commit, nanos);
            }
            OperationKind::Fsync
            | OperationKind::Fdatasync
            | OperationKind::Reallocate
            | OperationKind::SyncFileRange => {}
        }
    }

    /// Counts the arrivals that were due before the end and found no place until then.
    pub(super) fn count_missed(&self, due: &mut DueSchedule, pacer: &mut Pacer) {
        if self.bounds.end.is_none() || !self.is_cut {
            return;
        }
        // After a stop nothing is owed: arrivals due later were not missed.
        let end = self.engine.clock().now().min(self.end);
        pacer.missed(due.next, (end, MISSED_MAX), || {
            self.advance(due);
            due.next
        });
    }
}
