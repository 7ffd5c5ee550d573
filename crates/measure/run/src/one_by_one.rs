//! Operations one after the other, made by the calling thread, for steps that give no results.
//!
//! A load with its open file gives an engine, and operations performed to their end.

use std::os::fd::OwnedFd;

use durio_block::{
    BlockError, Buffers, Clock, Completion, Engine, EngineSetup, EngineUser, Operation,
    OperationKind, WriteFlags,
};
use durio_plan::EngineKind;
use durio_workload::{Access, BlockFiller, Region, Stream, Workload};

use crate::error::RunError;
use crate::job_input::write_flags;
use crate::measured_loop::{
    EarlyEnding, JobFailure, blank_operation, is_done, slots_per_operation,
};

/// An operation did not come to its end; why is in [`EarlyEnding`].
pub(crate) struct EndedEarly;

/// Runs `body` with an engine of this kind and one operation in flight; does nothing for engines
/// that reach no file.
pub(crate) fn with_engine<C: Clock + Copy>(
    (kind, clock): (EngineKind, C),
    workload: &Workload,
    file: OwnedFd,
    seed: u64,
    body: &mut dyn FnMut(&mut dyn Engine<Clock = C>),
) -> Result<(), RunError> {
    let length = usize::try_from(workload.transfer_max().get()).unwrap_or(usize::MAX);
    // A sync that is linked to its write has a separate slot.
    let slots = slots_per_operation(workload.sync.method);
    let mut buffers = Buffers::try_new(1, length)?.with_bare(slots - 1);
    BlockFiller::new(workload, !seed).prime(buffers.slot_mut(0));
    if matches!(kind, EngineKind::Null | EngineKind::Fio) {
        return Ok(());
    }
    // A linked sync needs an entry of the ring in addition to its write's.
    let (depth, entries) = (1, if slots > 1 { 2 } else { 1 });
    let (more_files, blocking_syncs, advice) = (Vec::new(), false, None);
    let setup =
        EngineSetup { clock, file, more_files, buffers, depth, entries, blocking_syncs, advice };
    Ok(kind.open(setup, EngineUse(body))?)
}

/// The work to do with a lent engine.
struct EngineUse<'a, C: Clock>(&'a mut dyn FnMut(&mut dyn Engine<Clock = C>));

impl<C: Clock> EngineUser<C> for EngineUse<'_, C> {
    type Output = Result<(), BlockError>;

    fn drive<E: Engine<Clock = C>>(self, mut engine: E) -> Self::Output {
        (self.0)(&mut engine);
        Ok(())
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error)
    }
}

/// The operations of a load, made one after the other.
pub(crate) struct OneByOne<'a> {
    stream: Stream,
    filler: BlockFiller,
    workload: &'a Workload,
    pub(crate) ending: EarlyEnding,
}

impl<'a> OneByOne<'a> {
    pub(crate) fn new(workload: &'a Workload, region: Region, seed: u64) -> Self {
        // An engine would take the access that drops the cache for one that zeroes the region.
        let kept = Workload { drops_cache_each_pass: false, ..workload.clone() };
        let stream = Stream::new(&kept, region, seed);
        let filler = BlockFiller::new(workload, seed);
        Self { stream, filler, workload, ending: EarlyEnding::default() }
    }

    /// The next access; if it writes, its data is made.
    pub(crate) fn next<C: Clock>(&mut self, engine: &mut dyn Engine<Clock = C>) -> Access {
        let access = self.stream.next_access();
        if access.kind == OperationKind::Write {
            let data = engine.slot_mut(0);
            let length = usize::try_from(access.length).unwrap_or(usize::MAX).min(data.len());
            self.filler.fill(&mut data[..length]);
        }
        access
    }

    /// Performs an access alone, or with the sync that is linked to it in the same submission.
    pub(crate) fn access<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        access: Access,
    ) -> Result<(), EndedEarly> {
        let method = self.workload.sync.method;
        let linked = method.linked_sync().filter(|_| access.kind == OperationKind::Write);
        let sync =
            linked.map(|kind| Access { kind, drops_cache: false, file: 0, offset: 0, length: 0 });
        let both: Vec<Access> = std::iter::once(access).chain(sync).collect();
        self.perform(engine, write_flags(method), &both)
    }

    /// Performs an access, and the sync calls that follow it.
    pub(crate) fn access_and_syncs<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        access: Access,
    ) -> Result<(), EndedEarly> {
        self.access(engine, access)?;
        let mut kind = access.kind;
        while let Some(mut sync) = self.stream.follow_up(kind) {
            if sync.kind == OperationKind::SyncFileRange {
                (sync.offset, sync.length) = (access.offset, access.length);
            }
            self.perform(engine, WriteFlags::None, &[sync])?;
            kind = sync.kind;
        }
        Ok(())
    }

    /// Performs accesses that are submitted together, each but the last linked to the next.
    fn perform<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        flags: WriteFlags,
        accesses: &[Access],
    ) -> Result<(), EndedEarly> {
        let last = accesses.len().saturating_sub(1);
        let operation = |(slot, access): (u32, &Access)| Operation {
            kind: access.kind,
            link: (slot as usize) < last,
            file: access.file,
            slot,
            length: access.length,
            offset: access.offset,
            ..blank_operation(flags)
        };
        let operations: Vec<Operation> = (0..).zip(accesses).map(operation).collect();
        let mut submitted = operations.as_slice();
        let mut left = operations.len();
        while left > 0 {
            let mut completions = [Completion::default(); 2];
            let count = match engine.exchange(submitted, &mut completions) {
                Ok(count) => count,
                Err(error) => {
                    self.ending.engine_error = Some(error);
                    return Err(EndedEarly);
                }
            };
            submitted = &[];
            // An engine that gives nothing must not hold the run up for ever.
            left = left.saturating_sub(count.max(1));
            for completion in completions.iter().take(count) {
                let Some(operation) = operations.get(completion.slot as usize) else { continue };
                let Operation { kind, offset, length, .. } = *operation;
                let result = completion.result;
                if !is_done(kind, length, result) {
                    self.ending.keep(JobFailure { kind, offset, length, result });
                }
            }
        }
        if self.ending.failure.is_some() { Err(EndedEarly) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;

    use super::*;

    #[test]
    fn a_traced_workload_reads_pass_after_pass_and_never_zeroes_its_region() {
        let workload =
            Workload { drops_cache_each_pass: true, jobs: 1, depth: 1, ..Workload::default() };
        let region = Region { offset: Bytes::new(0), length: Bytes::new(65_536) };
        let mut traced = OneByOne::new(&workload, region, 1);
        // A pass has 16 blocks.
        let kinds: Vec<_> = (0..100).map(|_| traced.stream.next_access().kind).collect();
        assert!(!kinds.contains(&OperationKind::Reallocate), "{kinds:?}");
    }
}
