//! pread and pwrite, preadv2 and pwritev2: one operation at a time, each waited for.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ReadWriteFlags};

use super::{EngineDescriptor, EngineSetup, EngineUser};
use crate::clock::wait_until;
use crate::open::reallocate;
use crate::open::sync_file_range;
use crate::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, Operation,
    OperationKind, Ticks, WriteFlags,
};

/// The blocking engine.
///
/// Operations of one call run in order; those that find no room for their completion wait for the
/// next call, so that depth has its meaning for the caller, though only one is ever in the kernel.
#[derive(Debug)]
pub struct SyncEngine<C, T = FileCalls> {
    clock: C,
    calls: T,
    buffers: Buffers,
    waiting: VecDeque<Operation>,
    busy: Vec<bool>,
    cancel_next: bool,
}

/// How a blocking engine does one operation.
pub trait BlockingCalls: Debug {
    /// [`WriteFlags`] other than `None`.
    const WRITE_FLAGS: bool;
    /// [`OperationKind::SyncFileRange`] is possible.
    const RANGE_SYNCS: bool;

    /// Does it, with the data in the operation's slot; gives the bytes moved.
    ///
    /// # Errors
    /// The errno of the operation.
    fn call(&mut self, operation: &Operation, buffers: &mut Buffers) -> Result<usize, Errno>;

    /// How it was set up.
    fn facts(&self) -> EngineFacts {
        EngineFacts::default()
    }
}

/// pread, pwrite and pwritev2 on open files.
#[derive(Debug)]
pub struct FileCalls {
    file: OwnedFd,
    more_files: Vec<OwnedFd>,
}

pub(super) struct SyncDescriptor;

impl EngineDescriptor for SyncDescriptor {
    const NAME: &'static str = "sync";
    const FIO_NAME: &'static str = "psync";
    const IS_ASYNCHRONOUS: bool = false;
    const LINKS_SYNCS: bool = false;

    fn open<C: Clock + Copy, U: EngineUser<C>>(setup: EngineSetup<C>, user: U) -> U::Output {
        let engine = SyncEngine::new(setup.clock, setup.file, setup.buffers);
        user.drive(engine.with_more_files(setup.more_files))
    }
}

impl<C: Clock> SyncEngine<C> {
    /// An engine over an open file.
    #[must_use]
    pub fn new(clock: C, file: OwnedFd, buffers: Buffers) -> Self {
        Self::over(clock, FileCalls { file, more_files: Vec::new() }, buffers)
    }

    /// The same with further files: [`Operation::file`] counts on from 1 in them.
    #[must_use]
    pub fn with_more_files(self, more_files: Vec<OwnedFd>) -> Self {
        Self { calls: FileCalls { more_files, ..self.calls }, ..self }
    }
}

impl<C: Clock, T: BlockingCalls> SyncEngine<C, T> {
    pub(super) fn over(clock: C, calls: T, buffers: Buffers) -> Self {
        let slots = buffers.count();
        Self {
            clock,
            calls,
            buffers,
            waiting: VecDeque::with_capacity(slots),
            busy: vec![false; slots],
            cancel_next: false,
        }
    }

    /// Runs `operation` as its link allows and says what the kernel said.
    fn perform(&mut self, operation: &Operation) -> i32 {
        if std::mem::take(&mut self.cancel_next) {
            self.cancel_next = operation.link;
            return -libc::ECANCELED;
        }
        let result = self.result_of(operation);
        self.cancel_next = operation.link && !has_succeeded(operation, result);
        result
    }

    #[inline(always)]
    fn result_of(&mut self, operation: &Operation) -> i32 {
        loop {
            match self.calls.call(operation, &mut self.buffers) {
                Err(Errno::INTR) => {}
                // A transfer is at most 1 GiB (durio-workload), so it fits.
                Ok(count) => return i32::try_from(count).unwrap_or(i32::MAX),
                Err(errno) => return -errno.raw_os_error(),
            }
        }
    }

    #[inline(always)]
    fn completion(&self, operation: &Operation, result: i32) -> Completion {
        let completed_at = self.clock.now();
        Completion { slot: operation.slot, result, submitted_at: completed_at, completed_at }
    }

    /// Several operations, or some that wait: the first of them is done.
    #[inline(never)]
    fn exchange_in_turn(&mut self, operations: &[Operation], completion: &mut Completion) -> usize {
        self.claim(operations);
        let Some(operation) = self.waiting.pop_front() else { return 0 };
        let result = self.perform(&operation);
        *completion = self.completion(&operation, result);
        self.busy[operation.slot as usize] = false;
        1
    }

    fn claim(&mut self, operations: &[Operation]) {
        for operation in operations {
            let slot = operation.slot as usize;
            assert!(!self.busy[slot], "slot {slot} is in flight");
            self.busy[slot] = true;
        }
        self.waiting.extend(operations);
        // A link leads to an operation of the same call only.
        if let (Some(last), false) = (self.waiting.back_mut(), operations.is_empty()) {
            last.link = false;
        }
    }
}

impl BlockingCalls for FileCalls {
    const WRITE_FLAGS: bool = true;
    const RANGE_SYNCS: bool = true;

    #[inline(always)]
    fn call(&mut self, operation: &Operation, buffers: &mut Buffers) -> Result<usize, Errno> {
        let file = file_of(operation, &self.file, &self.more_files);
        match operation.kind {
            OperationKind::Read => {
                let data = buffers.slot_mut(operation.slot as usize);
                let data = &mut data[..length_of(operation)];
                rustix::io::pread(file, data, operation.offset)
            }
            OperationKind::Write => write(file, operation, buffers),
            _ => no_transfer(file.as_fd(), operation).map(|()| 0),
        }
    }
}

#[inline]
fn write(file: &OwnedFd, operation: &Operation, buffers: &mut Buffers) -> Result<usize, Errno> {
    let data = &buffers.slot_mut(operation.slot as usize)[..length_of(operation)];
    if operation.flags == WriteFlags::None {
        return rustix::io::pwrite(file, data, operation.offset);
    }
    let flags = ReadWriteFlags::from_bits_retain(operation.flags.bits().cast_unsigned());
    rustix::io::pwritev2(file, &[IoSlice::new(data)], operation.offset, flags)
}

/// The file of an operation: the first one, or one of the others.
///
/// # Panics
/// If the operation's file number is out of range.
#[inline(always)]
pub(crate) fn file_of<'f>(
    operation: &Operation,
    first: &'f OwnedFd,
    others: &'f [OwnedFd],
) -> &'f OwnedFd {
    match operation.file {
        0 => first,
        file => &others[file as usize - 1],
    }
}

/// Performs operations other than transfers. A separate function, so that two comparisons decide
/// reads and writes, without a jump table.
#[inline(never)]
pub(crate) fn no_transfer(file: BorrowedFd<'_>, operation: &Operation) -> Result<(), Errno> {
    let (offset, length) = (operation.offset, operation.length);
    match operation.kind {
        OperationKind::Read | OperationKind::Write => Err(Errno::INVAL),
        OperationKind::Fsync => rustix::fs::fsync(file),
        OperationKind::Fdatasync => rustix::fs::fdatasync(file),
        OperationKind::Reallocate => reallocate(file, offset, length),
        OperationKind::SyncFileRange => sync_file_range(file, offset, length),
    }
}

/// As io_uring has it: a transfer that falls short breaks its link.
#[inline]
fn has_succeeded(operation: &Operation, result: i32) -> bool {
    match operation.kind {
        OperationKind::Read | OperationKind::Write => {
            u64::try_from(result).is_ok_and(|moved| moved == operation.length)
        }
        OperationKind::Fsync
        | OperationKind::Fdatasync
        | OperationKind::Reallocate
        | OperationKind::SyncFileRange => result == 0,
    }
}

#[inline]
pub(super) fn length_of(operation: &Operation) -> usize {
    usize::try_from(operation.length).unwrap_or(usize::MAX)
}

impl<C: Clock, T: BlockingCalls> Engine for SyncEngine<C, T> {
    type Clock = C;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        let (write_flags, range_syncs) = (T::WRITE_FLAGS, T::RANGE_SYNCS);
        Capabilities { asynchronous: false, write_flags, range_syncs, links: true }
    }

    fn facts(&self) -> EngineFacts {
        self.calls.facts()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.buffers.slot_mut(slot as usize)
    }

    // Inlined into the measured loops: a call costs half of durio's overhead per I/O
    // (docs/benchmarks.md).
    #[inline(always)]
    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        // The usual case, a depth of one: no queue is touched. With nothing waiting nothing is in
        // flight, and the link of an operation that nothing follows leads nowhere.
        if let ([operation], true) = (operations, self.waiting.is_empty()) {
            let slots = self.busy.len();
            assert!((operation.slot as usize) < slots, "slot {} of {slots}", operation.slot);
            let result = self.result_of(operation);
            completions[0] = self.completion(operation, result);
            return Ok(1);
        }
        Ok(self.exchange_in_turn(operations, &mut completions[0]))
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.exchange(operations, completions)?;
        if count == 0 {
            wait_until(&self.clock, deadline);
        }
        Ok(count)
    }
}
