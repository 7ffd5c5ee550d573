//! One committer: it hands a record over, sleeps until that is acknowledged, and hands over the
//! next.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread::{park_timeout, sleep};
use std::time::Duration;

use durio_block::{Clock, Ticks};
use durio_record::Pacing;
use durio_workload::ArrivalSchedule;

use super::state::{CommitOutcome, CommitterState};
use super::{CommitterResult, CommitterTeam};
use crate::counters::ThreadUsage;
use crate::pacer::{Lateness, MISSED_MAX, Pacer};
use crate::start_barrier::StartSignal;

// The longest sleep without a look whether the run is over.
const LOOK: Duration = Duration::from_millis(100);

/// Keeps a panicking thread from leaving others waiting for it.
pub(super) struct TellOfPanic<'a, 'b, C>(pub(super) &'b CommitterTeam<'a, C>);

impl<C> Drop for TellOfPanic<'_, '_, C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.store(true, Ordering::Relaxed);
            self.0.failed.set();
        }
    }
}

/// When the records of one committer, or the transactions of one client, are due.
pub(super) struct Arriving {
    schedule: ArrivalSchedule,
    pub(super) due: Ticks,
    /// Since when it has none that waits.
    free_since: Ticks,
    pacer: Pacer,
}

impl<C: Clock + Copy + Send + Sync> CommitterTeam<'_, C> {
    /// The body of a committer's thread.
    pub(super) fn commit(
        &self,
        me: u32,
        schedule: Option<ArrivalSchedule>,
        client: Option<&UnixStream>,
    ) -> CommitterResult {
        if self.barrier.wait() == StartSignal::Aborted {
            return CommitterResult::default();
        }
        let before = ThreadUsage::of_thread();
        let pacing = match (schedule, self.policy.software) {
            (schedule, Some(software)) => self.transact(me, &software, (schedule, client)),
            (Some(schedule), None) => Some(self.commit_on_arrival(me, schedule)),
            (None, None) => {
                self.commit_at_once(me);
                None
            }
        };
        // Otherwise a leader would wait for records of an ended committer.
        self.lock().active -= 1;
        CommitterResult { usage: ThreadUsage::of_thread().since(before), pacing }
    }

    /// A time since the begin, in nanoseconds, on the clock.
    fn at(&self, nanos: u64) -> Ticks {
        let started = self.started.get().copied().unwrap_or_default();
        started.plus(self.clock.ticks(nanos))
    }

    pub(super) fn end(&self) -> Ticks {
        self.bounds.end.map_or(Ticks(u64::MAX), |end| self.at(end))
    }

    fn ramp_end(&self) -> Ticks {
        self.at(self.bounds.ramp)
    }

    fn commit_at_once(&self, me: u32) {
        let end = self.end();
        loop {
            let now = self.clock.now();
            if now >= end || self.is_over() || !self.commit_one(me, (now, now)) {
                return;
            }
        }
    }

    fn commit_on_arrival(&self, me: u32, schedule: ArrivalSchedule) -> Pacing {
        let mut arriving = self.arriving(schedule);
        while self.wait_for(&arriving) {
            let now = self.clock.now();
            if now >= self.end() || !self.commit_one(me, (now, arriving.due)) {
                break;
            }
            self.answered(&mut arriving, now);
        }
        self.pacing_of(arriving)
    }

    /// The first arrival of a schedule.
    pub(super) fn arriving(&self, mut schedule: ArrivalSchedule) -> Arriving {
        let due = self.at(schedule.next_start());
        Arriving { schedule, due, free_since: Ticks::default(), pacer: Pacer::new(self.ramp_end()) }
    }

    /// Sleeps until the next one is due; false if nothing is, before the end.
    pub(super) fn wait_for(&self, arriving: &Arriving) -> bool {
        arriving.due < self.end() && self.sleep_until(arriving.due)
    }

    /// Records the answer: the due arrival was handed over then; moves to the next one.
    pub(super) fn answered(&self, arriving: &mut Arriving, handed_over: Ticks) {
        let late = self.clock.nanos(handed_over.since(arriving.due));
        let punctual = arriving.free_since <= arriving.due;
        let lateness = Lateness { punctual, behind_ns: late, lag_ns: late };
        arriving.pacer.started(arriving.due, lateness);
        arriving.free_since = self.clock.now();
        arriving.due = self.at(arriving.schedule.next_start());
    }

    /// What became of the arrivals, when no more of them are taken.
    pub(super) fn pacing_of(&self, mut arriving: Arriving) -> Pacing {
        // A job that ended by its count missed no arrival.
        if self.bounds.end.is_some() && self.lock().expects_records() {
            self.count_missed(&mut arriving);
            // The window is as long as it was meant to be, also if nothing more is due in it.
            self.sleep_until(self.end());
        }
        arriving.pacer.pacing()
    }

    /// Counts the arrivals that were due before the end and were not handed over.
    fn count_missed(&self, arriving: &mut Arriving) {
        let until = self.clock.now().min(self.end());
        // All committers together count no more than one job does.
        let bound = MISSED_MAX / u64::from(self.policy.committers.max(1));
        let Arriving { schedule, due, pacer, .. } = arriving;
        pacer.missed(*due, (until, bound), || self.at(schedule.next_start()));
    }

    /// Sleeps until `due`; false if all is over.
    fn sleep_until(&self, due: Ticks) -> bool {
        while !self.is_over() {
            let left = self.clock.nanos(due.since(self.clock.now()));
            if left == 0 {
                return true;
            }
            sleep(Duration::from_nanos(left).min(LOOK));
        }
        false
    }

    /// Hands a record over, waits for its acknowledgement and records that; false if there will be none.
    fn commit_one(&self, me: u32, times: (Ticks, Ticks)) -> bool {
        self.hand_over_and_wait(me, times, |state, (handed, intended)| {
            // Read by the committer itself: being woken and getting the lock are part of its
            // latency.
            let now = self.clock.now();
            let service = self.clock.nanos(now.since(handed));
            let response = self.is_open.then(|| self.clock.nanos(now.since(intended)));
            state.record_commit(service, response, (now, &self.clock));
        })
    }

    /// The same, of a transaction that is not over with it.
    pub(super) fn commit_record(&self, me: u32, times: (Ticks, Ticks)) -> bool {
        self.hand_over_and_wait(me, times, |_, _| ())
    }

    fn hand_over_and_wait(
        &self,
        me: u32,
        times: (Ticks, Ticks),
        acknowledged: impl FnOnce(&mut CommitterState<C>, (Ticks, Ticks)),
    ) -> bool {
        if !self.lock().hand_over(me, times) {
            return false;
        }
        let has_log_thread = self.has_log_thread();
        let mut has_applied = false;
        if has_log_thread {
            self.wake(&[self.policy.committers]);
        }
        loop {
            let mut state = self.lock();
            match state.outcomes[me as usize] {
                CommitOutcome::Acknowledged => {
                    acknowledged(&mut state, times);
                    return true;
                }
                CommitOutcome::Failed => return false,
                CommitOutcome::Flushed => {
                    state.outcomes[me as usize] = CommitOutcome::Waiting;
                    drop(state);
                    self.apply();
                    has_applied = true;
                    continue;
                }
                CommitOutcome::Waiting => {}
            }
            // The thread that waits and finds the tools leads, for its own record and all that wait
            // with it.
            let leader = if has_log_thread { None } else { state.leader.take() };
            drop(state);
            match leader {
                Some(leader) => self.lead(leader),
                None if self.has_panicked() => return false,
                None if self.yield_until_ready(me, has_applied) => {}
                None => {
                    park_timeout(LOOK);
                    self.burn_after_sleep(me);
                }
            }
        }
    }
}
