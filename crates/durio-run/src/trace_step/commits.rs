//! Commits, one after the other, with a mark before and after each.
//!
//! A commit is as many writes as the workload's sync policy makes durable together, and the sync; for
//! methods that sync each write by itself, one write.

use durio_block::{
    AioEngine, BlockError, Buffers, Completion, Engine, MonotonicClock, Operation, OperationKind,
    Ring, SyncEngine, Ticks, UringEngine,
};
use durio_plan::EngineKind;
use durio_workload::{Access, AccessKind, Stream, Workload, job_seed};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use super::instance::TraceInstance;
use crate::error::RunError;
use crate::job::{fill, write_flags};
use crate::measured_loop::{Failure, kind_of, slots_per_operation};
use crate::sink::StopFlag;
use crate::step::Arming;
use crate::unmeasured::SingleLoad;

/// What became of the commits.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Commits that were acknowledged.
    pub(super) commits: u64,
    /// What ended them early.
    pub(super) failure: Option<Failure>,
    pub(super) engine_error: Option<BlockError>,
    /// Why a mark could not be written.
    pub(super) mark_error: Option<String>,
}

/// Makes the commits of a step; with the null engine, none.
pub(super) fn make_commits(
    arming: Arming<'_>,
    single: &mut SingleLoad,
    marks: Option<&mut TraceInstance>,
) -> Result<Made, RunError> {
    let workload = &single.effective.workload;
    let Some(file) = single.file.take() else { return Ok(Made::default()) };
    let seed = job_seed(arming.plan.seed, arming.step.index.into(), 0);
    let length = usize::try_from(workload.block_size.get()).unwrap_or(usize::MAX);
    // A sync that is linked to its write has a slot of its own.
    let slots = slots_per_operation(workload.sync.method);
    let mut buffers = Buffers::try_new(1, length)?.with_bare(slots - 1);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(!seed);
    fill(buffers.slot_mut(0), workload.contents, &mut random);
    let mut committing = Committing {
        stream: Stream::new(workload, single.region, seed),
        workload,
        count: single.count,
        stop: arming.stop,
        marks,
        made: Made::default(),
    };
    let clock = MonotonicClock;
    match single.effective.engine {
        EngineKind::Uring => {
            let mut ring = Ring::new(if slots > 1 { 2 } else { 1 })?;
            committing.run(&mut UringEngine::new(clock, &mut ring, &file, buffers)?);
        }
        EngineKind::Aio => committing.run(&mut AioEngine::new(clock, file, buffers, 1)?),
        EngineKind::Sync | EngineKind::Null | EngineKind::Fio => {
            committing.run(&mut SyncEngine::new(clock, file, buffers));
        }
    }
    Ok(committing.made)
}

/// Commits on their way.
struct Committing<'a> {
    stream: Stream,
    workload: &'a Workload,
    count: u64,
    stop: &'a StopFlag,
    marks: Option<&'a mut TraceInstance>,
    made: Made,
}

/// A commit did not come to its end; why is in [`Made`].
struct Ended;

impl Committing<'_> {
    fn run(&mut self, engine: &mut dyn Engine<Clock = MonotonicClock>) {
        while self.made.commits < self.count && !self.stop.is_set() {
            if self.commit(engine).is_err() {
                return;
            }
            self.made.commits += 1;
        }
    }

    fn commit(&mut self, engine: &mut dyn Engine<Clock = MonotonicClock>) -> Result<(), Ended> {
        // A segment that is returned to its first state at its end is no part of a commit.
        let mut access = self.next_write(engine)?;
        self.mark("begin");
        for left in (0..self.workload.sync.every).rev() {
            self.write(engine, access)?;
            let mut kind = access.kind;
            while let Some(mut sync) = self.stream.follow_up(kind) {
                if sync.kind == AccessKind::SyncFileRange {
                    (sync.offset, sync.length) = (access.offset, access.length);
                }
                self.perform(engine, &[sync])?;
                kind = sync.kind;
            }
            if left > 0 {
                access = self.next_write(engine)?;
            }
        }
        self.mark("end");
        Ok(())
    }

    fn next_write(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
    ) -> Result<Access, Ended> {
        loop {
            let access = self.stream.next_access();
            if access.kind == AccessKind::Write {
                return Ok(access);
            }
            self.perform(engine, &[access])?;
        }
    }

    /// A write, and in the same submission the sync that is linked to it, if one is.
    fn write(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
        write: Access,
    ) -> Result<(), Ended> {
        match self.workload.sync.method.linked_sync() {
            Some(kind) => self.perform(engine, &[write, Access { kind, offset: 0, length: 0 }]),
            None => self.perform(engine, &[write]),
        }
    }

    fn mark(&mut self, word: &str) {
        let Some(marks) = &mut self.marks else { return };
        if let Err(reason) = marks.mark(word, self.made.commits) {
            self.made.mark_error = Some(reason);
            self.marks = None;
        }
    }

    /// Performs accesses that are submitted together, each but the last linked to the next.
    fn perform(
        &mut self,
        engine: &mut dyn Engine<Clock = MonotonicClock>,
        accesses: &[Access],
    ) -> Result<(), Ended> {
        let flags = write_flags(self.workload.sync.method);
        let last = accesses.len().saturating_sub(1);
        let operation = |(slot, access): (u32, &Access)| Operation {
            kind: kind_of(access.kind),
            flags,
            link: (slot as usize) < last,
            slot,
            length: access.length,
            offset: access.offset,
            intended_start: Ticks::default(),
        };
        let operations: Vec<Operation> = (0..).zip(accesses).map(operation).collect();
        let mut submitted = operations.as_slice();
        let mut left = operations.len();
        while left > 0 {
            let mut completions = [Completion::default(); 2];
            let count = match engine.exchange(submitted, &mut completions) {
                Ok(count) => count,
                Err(error) => {
                    self.made.engine_error = Some(error);
                    return Err(Ended);
                }
            };
            submitted = &[];
            left = left.saturating_sub(count.max(1));
            for completion in completions.iter().take(count) {
                self.check(&operations, completion);
            }
        }
        if self.made.failure.is_some() { Err(Ended) } else { Ok(()) }
    }

    /// Keeps what failed; a cancellation gives way to its cause.
    fn check(&mut self, operations: &[Operation], completion: &Completion) {
        let Some(operation) = operations.get(completion.slot as usize) else { return };
        let Operation { kind, offset, length, .. } = *operation;
        let result = completion.result;
        let is_done = match kind {
            OperationKind::Write => i64::from(result) == length.cast_signed(),
            _ => result >= 0,
        };
        let cancelled = -Errno::CANCELED.raw_os_error();
        let is_first = self.made.failure.as_ref().is_none_or(|it| it.result == cancelled);
        if !is_done && is_first {
            self.made.failure = Some(Failure { kind, offset, length, result });
        }
    }
}
