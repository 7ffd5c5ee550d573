//! One committer: it hands a record over, sleeps until that is acknowledged, and hands over the
//! next. The one that finds the log free leads ([`Leader`]): it waits for more if that is wished, writes the batch, makes it durable and
//! wakes those whose records are in it.

use std::os::unix::net::UnixStream;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::thread::{park_timeout, sleep};
use std::time::Duration;

use durio_block::{Clock, Completion, Engine, Operation, OperationKind, SyncEngine, Ticks};
use durio_record::{OperationName, Pacing};
use durio_workload::{ArrivalSchedule, LogWriter};

use super::state::{CommitOutcome, CommitterState};
use super::{CommitterResult, CommitterTeam};
use crate::counters::ThreadUsage;
use crate::job_input::StartSignal;
use crate::log::LogBatch;
use crate::measured_loop::{
    EarlyEnding, InFlightCount, JobFailure, Lateness, MISSED_MAX, Pacer, blank_operation, is_done,
};

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

/// How often a leader that waits looks whether all is over.
const LOOK_NANOS: u64 = 100_000_000;

pub(super) struct Leader<C> {
    engine: SyncEngine<C>,
    /// The bytes of the batch, exchanged for the next one's.
    batch: Vec<u8>,
    woken: Vec<u32>,
    pub(super) in_flight: InFlightCount,
    pub(super) exchanges: u64,
}

impl<C: Clock> Leader<C> {
    pub(super) fn new(engine: SyncEngine<C>, bytes: usize, committers: u32) -> Self {
        // Those of a batch and the next leader.
        let woken = Vec::with_capacity(committers as usize + 1);
        Self {
            engine,
            batch: vec![0; bytes],
            woken,
            in_flight: InFlightCount::default(),
            exchanges: 0,
        }
    }
}

/// A batch that is being written.
#[derive(Clone, Copy)]
struct Batch {
    taken: LogBatch,
    offset: u64,
    length: u64,
    /// What makes it durable after its write.
    sync: Option<OperationKind>,
    delayed: bool,
}

/// The begin and the end of an operation.
type OperationSpan = (Ticks, Ticks);

impl<C: Clock + Copy + Send + Sync> CommitterTeam<'_, C> {
    /// Leads once: a batch is written, or nothing if all is over.
    pub(super) fn lead(&self, mut leader: Leader<C>) {
        let delayed = self.waits_for_more() && self.wait_for_more(&mut leader);
        let batch = {
            let mut state = self.lock();
            if self.is_over() {
                // Checked under the lock: a committer that hands over later finds that no records
                // are wanted any more.
                return self.step_down(state, leader, true);
            }
            match self.take(&mut state, &mut leader, delayed) {
                Some(batch) => batch,
                None => return self.step_down(state, leader, false),
            }
        };
        self.burn_for_batch();
        // A thread that waits for storage leaves the processor to others.
        self.give_turn();
        let mut flushed = self.flush(&mut leader, batch);
        for _ in 1..self.policy.software.map_or(1, |software| software.flushes) {
            let Ok((write, sync)) = flushed else { break };
            self.record_flush(&mut self.lock(), batch, write, sync);
            flushed = self.flush(&mut leader, batch);
        }
        self.take_turn(self.policy.committers);
        let mut state = self.lock();
        let failed = flushed.is_err();
        match flushed {
            Ok((write, sync)) => {
                self.acknowledge(&mut state, &mut leader, batch, write, sync);
                if self.policy.software.is_some_and(|software| software.apply.is_some()) {
                    return self.hand_out(state, leader);
                }
            }
            Err(ending) => {
                state.ending = ending;
                self.failed.set();
            }
        }
        self.step_down(state, leader, failed);
    }

    /// True if enough others are at work, and there is room for more.
    fn waits_for_more(&self) -> bool {
        // Most logs do not wait: they need not take the lock for it.
        if self.policy.delay.get() == 0 {
            return false;
        }
        let mut state = self.lock();
        state.join();
        // In a closed loop every committer that has not ended is at work.
        let waiting = u32::try_from(state.log.queue.len()).unwrap_or(u32::MAX);
        let at_work = if self.is_open { waiting } else { state.active };
        at_work.saturating_sub(1) >= self.policy.siblings && !state.log.queue.is_full()
    }

    /// Sleeps for the delay; false if it was cut short.
    fn wait_for_more(&self, leader: &mut Leader<C>) -> bool {
        let until = self.clock.now().plus(self.clock.ticks(self.policy.delay.get()));
        let mut none = [Completion::default(); 1];
        while !self.is_over() {
            let now = self.clock.now();
            if now >= until {
                return true;
            }
            let look = now.plus(self.clock.ticks(LOOK_NANOS));
            // Nothing is in flight: it only waits.
            if leader.engine.exchange_until(&[], &mut none, until.min(look)).is_err() {
                return false;
            }
        }
        false
    }

    /// Takes the waiting records, as far as a batch has room.
    fn take(
        &self,
        state: &mut CommitterState<C>,
        leader: &mut Leader<C>,
        delayed: bool,
    ) -> Option<Batch> {
        state.join();
        let taken = state.log.queue.take();
        if taken.records == 0 {
            return None;
        }
        // Exchanged, not copied, because the lock is held: others then hand over into the empty
        // one.
        std::mem::swap(&mut state.next_batch, &mut leader.batch);
        if state.log.policy.double_buffered {
            // The leftover records.
            state.join();
        }
        let (offset, length) = state.log.place(taken.bytes);
        let sync = state.sync_after_write();
        Some(Batch { taken, offset, length, sync, delayed })
    }

    /// Writes the batch and makes it durable, while others may hand over. Gives the times of the
    /// write and, if it is a call, of the sync.
    fn flush(
        &self,
        leader: &mut Leader<C>,
        batch: Batch,
    ) -> Result<(OperationSpan, Option<OperationSpan>), EarlyEnding> {
        let as_index = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (bytes, length) = (as_index(batch.taken.bytes), as_index(batch.length));
        let slot = &mut leader.engine.slot_mut(0)[..length];
        slot[..bytes].copy_from_slice(&leader.batch[..bytes]);
        // The rest has bytes of an older batch, and a log never rewrites those.
        slot[bytes..].fill(0);
        leader.in_flight.change(1, self.clock.reference_nanos());
        let flushed = self.write_and_sync(leader, batch);
        leader.in_flight.change(-1, self.clock.reference_nanos());
        flushed
    }

    fn write_and_sync(
        &self,
        leader: &mut Leader<C>,
        batch: Batch,
    ) -> Result<(OperationSpan, Option<OperationSpan>), EarlyEnding> {
        let write = self.perform(leader, batch, OperationKind::Write)?;
        let sync = batch.sync.map(|kind| self.perform(leader, batch, kind));
        Ok((write, sync.transpose()?))
    }

    fn perform(
        &self,
        leader: &mut Leader<C>,
        batch: Batch,
        kind: OperationKind,
    ) -> Result<OperationSpan, EarlyEnding> {
        let begin = self.clock.now();
        // A sync is of the whole file: it has neither a place nor a length.
        let is_write = kind == OperationKind::Write;
        let operation = Operation {
            kind,
            length: if is_write { batch.length } else { 0 },
            offset: if is_write { batch.offset } else { 0 },
            intended_start: begin,
            ..blank_operation(self.write_flags)
        };
        let mut completions = [Completion::default(); 1];
        leader.exchanges += 1;
        leader
            .engine
            .exchange(&[operation], &mut completions)
            .map_err(|error| EarlyEnding { engine_error: Some(error), failure: None })?;
        let Completion { result, completed_at, .. } = completions[0];
        if is_done(kind, operation.length, result) {
            return Ok((begin, completed_at));
        }
        // What could not be made durable is the batch, wherever the sync itself was.
        let Batch { offset, length, .. } = batch;
        let failure = Some(JobFailure { kind, offset, length, result });
        Err(EarlyEnding { failure, engine_error: None })
    }

    fn record_flush(
        &self,
        state: &mut CommitterState<C>,
        batch: Batch,
        write: OperationSpan,
        sync: Option<OperationSpan>,
    ) {
        let nanos = |(begin, end): OperationSpan| self.clock.nanos(end.since(begin));
        state.pass_to(sync.unwrap_or(write).1, &self.clock);
        state.recorder.record(OperationName::Write, nanos(write));
        state.recorder.record_bytes(OperationName::Write, batch.length);
        if let Some(sync) = sync {
            state.recorder.record(OperationName::Sync, nanos(sync));
        }
    }

    fn acknowledge(
        &self,
        state: &mut CommitterState<C>,
        leader: &mut Leader<C>,
        batch: Batch,
        write: OperationSpan,
        sync: Option<OperationSpan>,
    ) {
        self.record_flush(state, batch, write, sync);
        state.log.counts.add(&batch.taken, batch.length, batch.delayed);
        let applies = self.policy.software.is_some_and(|software| software.apply.is_some());
        let outcome = if applies { CommitOutcome::Flushed } else { CommitOutcome::Acknowledged };
        while let Some(record) = state.log.queue.acknowledge() {
            state.outcomes[record.committer as usize] = outcome;
            leader.woken.push(record.committer);
        }
    }

    /// Wakes the committers of a flushed batch for their part in it.
    fn hand_out(&self, mut state: MutexGuard<'_, CommitterState<C>>, leader: Leader<C>) {
        let mut members = state.spare.pop().unwrap_or_default();
        members.extend_from_slice(&leader.woken);
        state.applying = Some((leader, members.len()));
        drop(state);
        self.wake(&members);
        members.clear();
        self.lock().spare.push(members);
    }

    /// Does a committer's part in its flushed batch; the last one ends the batch.
    pub(super) fn apply(&self) {
        self.burn_to_apply();
        let mut state = self.lock();
        let Some((leader, left)) = state.applying.take() else { return };
        if left > 1 {
            state.applying = Some((leader, left - 1));
            return;
        }
        for &member in &leader.woken {
            state.outcomes[member as usize] = CommitOutcome::Acknowledged;
        }
        self.step_down(state, leader, false);
    }

    /// The committers to wake although their record still waits: the next leader, who is the first,
    /// or all.
    fn next_woken<'s>(
        &self,
        state: &'s CommitterState<C>,
    ) -> impl Iterator<Item = u32> + use<'s, C> {
        let software = self.policy.software;
        let count = match software.map(|software| (software.writer, software.wakes_all)) {
            Some((LogWriter::Committer, true)) => usize::MAX,
            // Another thread leads, and is awake; or this is the only one.
            Some((LogWriter::LogThread | LogWriter::EventLoop | LogWriter::Client, _)) => 0,
            Some((LogWriter::Committer, false)) | None => 1,
        };
        state.log.queue.waiting_records().take(count).map(|record| record.committer)
    }

    /// Gives the lead back and wakes the next leader, which is the first that waits. With
    /// `all_over`, no record will be acknowledged, and all are woken.
    fn step_down(
        &self,
        mut state: MutexGuard<'_, CommitterState<C>>,
        mut leader: Leader<C>,
        all_over: bool,
    ) {
        // Lists are passed around, for nothing is allocated while commits are measured.
        let next = state.spare.pop().unwrap_or_default();
        let mut woken = std::mem::replace(&mut leader.woken, next);
        if all_over {
            state.fail_all(&mut woken);
        } else {
            woken.extend(self.next_woken(&state));
        }
        // The tools are back before any thread is woken: the first to come leads. Waking happens
        // without the lock, which the woken threads want at once.
        state.leader = Some(leader);
        drop(state);
        self.wake(&woken);
        woken.clear();
        self.lock().spare.push(woken);
    }
}
