//! What every engine does: take operations, give completions.

use durio_base::OperationKind;

use crate::{BlockError, Clock, Ticks};

/// Per-write flags of pwritev2(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteFlags {
    #[default]
    None,
    /// The data is durable when the write completes (RWF_DSYNC).
    Dsync,
    /// Data and metadata are durable when the write completes (RWF_SYNC).
    Sync,
}

impl WriteFlags {
    /// As pwritev2(2) and the kernel's asynchronous interfaces take them.
    #[inline]
    pub(crate) const fn bits(self) -> i32 {
        match self {
            Self::None => 0,
            Self::Dsync => libc::RWF_DSYNC,
            Self::Sync => libc::RWF_SYNC,
        }
    }
}

/// One operation, as handed to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub kind: OperationKind,
    /// Flags of a write.
    pub flags: WriteFlags,
    /// The next operation of the same call starts only when this one has succeeded, a transfer in
    /// full; else it ends with -ECANCELED.
    pub link: bool,
    /// The file, by its place among those of the engine; 0 for the first.
    pub file: u32,
    /// The buffer slot, and the operation's name in its completion; one operation in flight each.
    pub slot: u32,
    /// Bytes; at most the slot's length for reads and writes.
    pub length: u64,
    /// First byte in the target.
    pub offset: u64,
    /// Start time in open loops; engines with a private clock start it then.
    pub intended_start: Ticks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    pub slot: u32,
    /// Bytes moved, zero for syncs, or a negated errno.
    pub result: i32,
    /// When the submitting call had returned; equals `completed_at` where submission is completion,
    /// and may be later for a completion seen while a refused submission was repeated.
    pub submitted_at: Ticks,
    /// When the completion was seen.
    pub completed_at: Ticks,
}

/// An engine's features. It answers unsupported operations with -EOPNOTSUPP, and never replaces
/// them; the successor of an unsupported link is cancelled like that of any failed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// More than one operation can be in flight.
    pub asynchronous: bool,
    /// [`WriteFlags`] other than `None`.
    pub write_flags: bool,
    /// [`OperationKind::SyncFileRange`] is possible.
    pub range_syncs: bool,
    pub links: bool,
}

/// How the engine was set up, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineFacts {
    /// Features in use: registered buffers, ring flags, ….
    pub features: Vec<String>,
    /// Features that were wanted and unavailable, with the reason.
    pub fallbacks: Vec<String>,
}

/// Takes operations and gives completions.
///
/// An engine owns its buffers and keeps them until the kernel is done with them, also when it is
/// dropped early.
pub trait Engine {
    /// The clock that stamps completions.
    type Clock: Clock;

    fn clock(&self) -> &Self::Clock;

    /// What the engine can do.
    fn capabilities(&self) -> Capabilities;

    /// How it was set up.
    fn facts(&self) -> EngineFacts;

    /// The contents of a slot that is not in flight.
    ///
    /// # Panics
    /// If the slot is in flight or does not exist.
    fn slot_mut(&mut self, slot: u32) -> &mut [u8];

    /// Submits all of `operations`, looks for completions, then fills `completions` from its start
    /// and says how many.
    ///
    /// What a look finds is stamped at once, also what finds no room and is given later. Every
    /// exchange looks, also one that has completions left from an earlier look.
    ///
    /// Waits for the first completion if any operation is in flight; does not wait for a second.
    /// With nothing in flight and nothing to submit, returns 0. Engines on a virtual clock take it for
    /// an [`Engine::exchange_until`] that never ends by its deadline.
    ///
    /// # Errors
    /// If the submission itself fails. A failed operation is a completion with a negative result.
    ///
    /// # Panics
    /// If `completions` is empty, or an operation names a slot that is in flight or does not exist:
    /// a programmer's error, of which no operation of the call reaches the target.
    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        self.exchange_until(operations, completions, Ticks::NEVER)
    }

    /// As [`Engine::exchange`], but waits no longer than until `deadline`, also with nothing in
    /// flight: then 0 completions say that the deadline is there (a blocking engine, which is in
    /// the kernel until its operation is done, may be later). For open loops, whose next operation
    /// starts then.
    ///
    /// # Panics
    /// As [`Engine::exchange`].
    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError>;

    /// When the engine last looked for completions. A place whose completion was seen earlier than
    /// this, and waited to be given, is prepared again no earlier. Zero for engines that do one
    /// operation at a time, and for those on a virtual clock.
    #[inline(always)]
    fn looked_at(&self) -> Ticks {
        Ticks(0)
    }

    /// The longest time without checking for completions since the last call of this, in ticks: while
    /// something was in flight, without the waits for it. What completes in such a stretch is seen
    /// late by as much. Zero for engines that do one operation at a time.
    fn take_unwatched(&mut self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::WriteFlags;

    /// By include/uapi/linux/fs.h of the kernel.
    #[test]
    fn flags_of_writes_have_the_bits_that_the_kernel_knows() {
        let flags = [WriteFlags::None, WriteFlags::Dsync, WriteFlags::Sync];
        assert_eq!(flags.map(WriteFlags::bits), [0, 2, 4]);
    }
}
