//! Operations one after the other, made by the calling thread, for steps that give no figures.
//!
//! In: a load with its open file. Out: an engine, and operations performed to their end.

use std::os::fd::OwnedFd;

use durio_block::{
    BlockError, Buffers, Clock, Completion, Engine, EngineSetup, EngineUser, Operation,
    OperationKind, Ticks, WriteFlags,
};
use durio_plan::EngineKind;
use durio_workload::{Access, AccessKind, BlockFiller, Stream, Workload};
use rustix::io::Errno;

use crate::error::RunError;
use crate::job::write_flags;
use crate::measured_loop::{Failure, kind_of, slots_per_operation};

/// What ended operations early.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) failure: Option<Failure>,
    pub(crate) engine_error: Option<BlockError>,
}

/// An operation did not come to its end; why is in [`Ending`].
pub(crate) struct Ended;

/// Runs `body` with an engine of this kind and one operation in flight; engines that reach no file
/// are none.
pub(crate) fn with_engine<C: Clock + Copy>(
    (kind, clock): (EngineKind, C),
    workload: &Workload,
    file: OwnedFd,
    seed: u64,
    body: &mut dyn FnMut(&mut dyn Engine<Clock = C>),
) -> Result<(), RunError> {
    let length = usize::try_from(workload.transfer_max().get()).unwrap_or(usize::MAX);
    // A sync that is linked to its write has a slot of its own.
    let slots = slots_per_operation(workload.sync.method);
    let mut buffers = Buffers::try_new(1, length)?.with_bare(slots - 1);
    BlockFiller::new(workload, !seed).prime(buffers.slot_mut(0));
    if matches!(kind, EngineKind::Null | EngineKind::Fio) {
        return Ok(());
    }
    let (depth, entries) = (1, if slots > 1 { 2 } else { 1 });
    let (more_files, blocking_syncs) = (Vec::new(), false);
    let setup = EngineSetup { clock, file, more_files, buffers, depth, entries, blocking_syncs };
    Ok(kind.open(setup, Lent(body))?)
}

/// What is done with an engine that is lent.
struct Lent<'a, C: Clock>(&'a mut dyn FnMut(&mut dyn Engine<Clock = C>));

impl<C: Clock> EngineUser<C> for Lent<'_, C> {
    type Output = Result<(), BlockError>;

    fn drive<E: Engine<Clock = C>>(self, mut engine: E) -> Self::Output {
        (self.0)(&mut engine);
        Ok(())
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error)
    }
}

/// Makes the data of an access, if it writes.
pub(crate) fn fill<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    filler: &mut BlockFiller,
    access: Access,
) {
    if access.kind == AccessKind::Write {
        let data = engine.slot_mut(0);
        let length = usize::try_from(access.length).unwrap_or(usize::MAX).min(data.len());
        filler.fill(&mut data[..length]);
    }
}

/// Performs an access, and in the same submission the sync that is linked to it, if one is.
pub(crate) fn access<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    workload: &Workload,
    access: Access,
    ending: &mut Ending,
) -> Result<(), Ended> {
    let method = workload.sync.method;
    let linked = method.linked_sync().filter(|_| access.kind == AccessKind::Write);
    let sync = linked.map(|kind| Access { kind, file: 0, offset: 0, length: 0 });
    let both: Vec<Access> = std::iter::once(access).chain(sync).collect();
    perform(engine, write_flags(method), &both, ending)
}

/// Performs the sync calls that follow an access of the stream, if any do.
pub(crate) fn follow_ups<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    stream: &mut Stream,
    access: Access,
    ending: &mut Ending,
) -> Result<(), Ended> {
    let mut kind = access.kind;
    while let Some(mut sync) = stream.follow_up(kind) {
        if sync.kind == AccessKind::SyncFileRange {
            (sync.offset, sync.length) = (access.offset, access.length);
        }
        perform(engine, WriteFlags::None, &[sync], ending)?;
        kind = sync.kind;
    }
    Ok(())
}

/// Performs accesses that are submitted together, each but the last linked to the next.
pub(crate) fn perform<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    flags: WriteFlags,
    accesses: &[Access],
    ending: &mut Ending,
) -> Result<(), Ended> {
    let last = accesses.len().saturating_sub(1);
    let operation = |(slot, access): (u32, &Access)| Operation {
        kind: kind_of(access.kind),
        flags,
        link: (slot as usize) < last,
        file: access.file,
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
                ending.engine_error = Some(error);
                return Err(Ended);
            }
        };
        submitted = &[];
        left = left.saturating_sub(count.max(1));
        for completion in completions.iter().take(count) {
            check(&operations, completion, ending);
        }
    }
    if ending.failure.is_some() { Err(Ended) } else { Ok(()) }
}

/// Keeps what failed; a cancellation gives way to its cause.
fn check(operations: &[Operation], completion: &Completion, ending: &mut Ending) {
    let Some(operation) = operations.get(completion.slot as usize) else { return };
    let Operation { kind, offset, length, .. } = *operation;
    let result = completion.result;
    let is_done = match kind {
        OperationKind::Read | OperationKind::Write => i64::from(result) == length.cast_signed(),
        _ => result >= 0,
    };
    let cancelled = -Errno::CANCELED.raw_os_error();
    let is_first = ending.failure.as_ref().is_none_or(|it| it.result == cancelled);
    if !is_done && is_first {
        ending.failure = Some(Failure { kind, offset, length, result });
    }
}
