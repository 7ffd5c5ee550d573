//! What a leader does: it waits for more if that is wished, writes the batch, makes it durable and
//! wakes those whose records are in it.

use durio_block::{
    BlockError, Clock, Completion, Engine, Operation, OperationKind, SyncEngine, Ticks,
};

use super::CommitterThreads;
use super::state::{Fate, State};
use crate::log::Taken;
use crate::measured_loop::{Failure, InFlightCount, kind_of};
use crate::recorder::Place;

/// How often a leader that waits looks whether all is over.
const LOOK_NANOS: u64 = 100_000_000;

/// The tools of whoever leads.
pub(super) struct Leader<C> {
    engine: SyncEngine<C>,
    /// The bytes of the batch, exchanged for the next one's.
    batch: Vec<u8>,
    /// Committers to be woken.
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
    taken: Taken,
    offset: u64,
    length: u64,
    /// What makes it durable after its write.
    sync: Option<OperationKind>,
    delayed: bool,
}

/// How a batch ended.
enum Flushed {
    /// When the write and, where it is a call, the sync began and ended.
    Durable {
        write: (Ticks, Ticks),
        sync: Option<(Ticks, Ticks)>,
    },
    Failed(Failure),
    Broken(BlockError),
}

impl<C: Clock + Copy + Send + Sync> CommitterThreads<'_, C> {
    /// Leads once: a batch is written, or nothing if all is over.
    pub(super) fn lead(&self, mut leader: Leader<C>) {
        let delayed = self.waits_for_more() && self.wait_for_more(&mut leader);
        let batch = {
            let mut state = self.lock();
            if self.is_over() {
                return self.step_down(state, leader, true);
            }
            match self.take(&mut state, &mut leader, delayed) {
                Some(batch) => batch,
                None => return self.step_down(state, leader, false),
            }
        };
        let flushed = self.flush(&mut leader, batch);
        let mut state = self.lock();
        let failed = self.conclude(&mut state, &mut leader, batch, flushed);
        self.step_down(state, leader, failed);
    }

    /// True if enough others are at work, and there is room for more.
    fn waits_for_more(&self) -> bool {
        if self.policy.delay.get() == 0 {
            return false;
        }
        let mut state = self.lock();
        state.join();
        // In a closed loop whoever has not ended is at work.
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

    /// Takes what waits, as far as a batch has room.
    fn take(&self, state: &mut State<C>, leader: &mut Leader<C>, delayed: bool) -> Option<Batch> {
        state.join();
        let taken = state.log.queue.take();
        if taken.records == 0 {
            return None;
        }
        std::mem::swap(&mut state.next_batch, &mut leader.batch);
        if state.log.policy.double_buffered {
            // What is left over.
            state.join();
        }
        let length = state.log.padded(taken.bytes);
        let offset = state.log.position.place(length);
        let sync = state.sync_after_write().map(kind_of);
        Some(Batch { taken, offset, length, sync, delayed })
    }

    /// Writes the batch and makes it durable; nobody is kept from handing over meanwhile.
    fn flush(&self, leader: &mut Leader<C>, batch: Batch) -> Flushed {
        let as_index = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (bytes, length) = (as_index(batch.taken.bytes), as_index(batch.length));
        let slot = &mut leader.engine.slot_mut(0)[..length];
        slot[..bytes].copy_from_slice(&leader.batch[..bytes]);
        slot[bytes..].fill(0);
        leader.in_flight.change(1, self.clock.reference_nanos());
        let flushed = self.write_and_sync(leader, batch);
        leader.in_flight.change(-1, self.clock.reference_nanos());
        flushed
    }

    fn write_and_sync(&self, leader: &mut Leader<C>, batch: Batch) -> Flushed {
        let write = match self.perform(leader, batch, OperationKind::Write) {
            Ok(span) => span,
            Err(failed) => return failed,
        };
        let Some(kind) = batch.sync else { return Flushed::Durable { write, sync: None } };
        match self.perform(leader, batch, kind) {
            Ok(sync) => Flushed::Durable { write, sync: Some(sync) },
            Err(failed) => failed,
        }
    }

    /// One operation, from its begin to its end.
    fn perform(
        &self,
        leader: &mut Leader<C>,
        batch: Batch,
        kind: OperationKind,
    ) -> Result<(Ticks, Ticks), Flushed> {
        let begin = self.clock.now();
        let is_write = kind == OperationKind::Write;
        let operation = Operation {
            kind,
            flags: self.write_flags,
            link: false,
            file: 0,
            slot: 0,
            length: if is_write { batch.length } else { 0 },
            offset: if is_write { batch.offset } else { 0 },
            intended_start: begin,
        };
        let mut completions = [Completion::default(); 1];
        leader.exchanges += 1;
        leader.engine.exchange(&[operation], &mut completions).map_err(Flushed::Broken)?;
        let Completion { result, completed_at, .. } = completions[0];
        let succeeded = match is_write {
            true => i64::from(result) == batch.length.cast_signed(),
            false => result >= 0,
        };
        match succeeded {
            true => Ok((begin, completed_at)),
            false => {
                let Batch { offset, length, .. } = batch;
                Err(Flushed::Failed(Failure { kind, offset, length, result }))
            }
        }
    }

    /// Says what became of every record of the batch; true if all is over.
    fn conclude(
        &self,
        state: &mut State<C>,
        leader: &mut Leader<C>,
        batch: Batch,
        flushed: Flushed,
    ) -> bool {
        match flushed {
            Flushed::Durable { write, sync } => {
                self.acknowledge(state, leader, batch, write, sync);
                return false;
            }
            Flushed::Failed(failure) => state.failure = Some(failure),
            Flushed::Broken(error) => state.engine_error = Some(error),
        }
        self.failed.set();
        true
    }

    fn acknowledge(
        &self,
        state: &mut State<C>,
        leader: &mut Leader<C>,
        batch: Batch,
        write: (Ticks, Ticks),
        sync: Option<(Ticks, Ticks)>,
    ) {
        let nanos = |(begin, end): (Ticks, Ticks)| self.clock.nanos(end.since(begin));
        state.pass_to(sync.unwrap_or(write).1, &self.clock);
        state.recorder.record(Place::Write, nanos(write));
        state.recorder.record_bytes(Place::Write, batch.length);
        if let Some(sync) = sync {
            state.recorder.record(Place::Sync, nanos(sync));
        }
        state.log.counts.add(&batch.taken, batch.length, batch.delayed);
        while let Some(record) = state.log.queue.acknowledge() {
            state.fates[record.committer as usize] = Fate::Acknowledged;
            leader.woken.push(record.committer);
        }
    }

    /// Gives the lead back and wakes those who are concerned: the next leader is the first that
    /// waits. With `all_over`, nobody's record will be acknowledged.
    fn step_down(
        &self,
        mut state: std::sync::MutexGuard<'_, State<C>>,
        mut leader: Leader<C>,
        all_over: bool,
    ) {
        let next = state.spare.pop().unwrap_or_default();
        let mut woken = std::mem::replace(&mut leader.woken, next);
        if all_over {
            state.fail_all(&mut woken);
        } else if let Some(first) = state.log.queue.first_waiting() {
            woken.push(first.committer);
        }
        state.leader = Some(leader);
        drop(state);
        self.wake(&woken);
        woken.clear();
        self.lock().spare.push(woken);
    }
}
