//! libaio's system calls: io_submit and io_getevents.
//!
//! Asynchronous for direct I/O on files whose blocks are allocated. The kernel does everything
//! else (buffered transfers, writes with a flag on some filesystems) inside io_submit, and says so
//! nowhere; the stamps show it, as `submitted_at` is taken after io_submit returned.
//!
//! What the kernel does not take becomes a completion at once: its refusal (a negated errno),
//! -EOPNOTSUPP for a link and for a sync of a range, the result of a reallocation, which has no
//! opcode and is called for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::LookGap;
use super::sync::{file_of, no_transfer};
use super::{EngineDescriptor, EngineSetup, EngineUser};
use crate::aio_calls::{AioContext, ControlBlock, FDSYNC, FSYNC, IoEvent, PREAD, PWRITE};
use crate::clock::{WATCHED, wait_until};
use crate::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, ErrorKind,
    Operation, OperationKind, Ticks,
};

pub(super) struct AioDescriptor;

impl EngineDescriptor for AioDescriptor {
    const NAME: &'static str = "aio";
    const FIO_NAME: &'static str = "libaio";
    const IS_ASYNCHRONOUS: bool = true;
    const LINKS_SYNCS: bool = false;

    /// Missing in the kernel, forbidden by seccomp, or fs.aio-max-nr is used up.
    fn probe() -> Result<(), BlockError> {
        set_up(1).map(drop)
    }

    fn open<C: Clock + Copy, U: EngineUser<C>>(setup: EngineSetup<C>, user: U) -> U::Output {
        match AioEngine::new(setup.clock, setup.file, setup.buffers, setup.depth) {
            Ok(engine) => user.drive(
                engine.with_more_files(setup.more_files).with_blocking_syncs(setup.blocking_syncs),
            ),
            Err(error) => user.refused(error),
        }
    }
}

fn set_up(depth: u32) -> Result<AioContext, BlockError> {
    const OPERATION: &str = "set up an aio context";
    AioContext::new(depth).map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN) => {
            let reason = "more operations than fs.aio-max-nr leaves";
            BlockError::because(ErrorKind::Busy, OPERATION, reason)
        }
        _ => BlockError::new(OPERATION, error),
    })
}

/// The engine over io_submit.
#[derive(Debug)]
pub struct AioEngine<C: Clock> {
    clock: C,
    // Before the buffers: destroying it waits for what the kernel still does with them.
    context: AioContext,
    file: OwnedFd,
    more_files: Vec<OwnedFd>,
    buffers: Buffers,
    /// The control blocks of the current call, and their addresses.
    blocks: Vec<ControlBlock>,
    addresses: Vec<*mut ControlBlock>,
    events: Vec<IoEvent>,
    /// Completions that the caller has not been given yet.
    ready: VecDeque<Completion>,
    /// When the submission of the slot's operation had returned; none if not in flight.
    submitted_at: Vec<Option<Ticks>>,
    /// Operations that the kernel has taken and not answered.
    in_kernel: usize,
    depth: usize,
    /// fsync and fdatasync are called, and held up for, instead of submitted.
    blocking_syncs: bool,
    watch: LookGap,
    facts: EngineFacts,
}

impl<C: Clock> AioEngine<C> {
    /// An engine over an open file, for `depth` operations in flight.
    pub fn new(clock: C, file: OwnedFd, buffers: Buffers, depth: u32) -> Result<Self, BlockError> {
        let context = set_up(depth)?;
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let facts = facts_of(&file);
        Ok(Self {
            clock,
            context,
            file,
            more_files: Vec::new(),
            blocks: Vec::with_capacity(depth),
            addresses: Vec::with_capacity(depth),
            events: vec![IoEvent::default(); depth],
            ready: VecDeque::with_capacity(depth),
            submitted_at: vec![None; buffers.count()],
            buffers,
            in_kernel: 0,
            depth,
            blocking_syncs: false,
            watch: LookGap::default(),
            facts,
        })
    }

    /// The same with further files: [`Operation::file`] counts on from 1 in them.
    #[must_use]
    pub fn with_more_files(mut self, more_files: Vec<OwnedFd>) -> Self {
        self.more_files = more_files;
        self
    }

    /// Syncs by fsync(2) and fdatasync(2), during which nothing is submitted or taken. Many programs
    /// do so: the kernel's aio has syncs only since Linux 4.18.
    #[must_use]
    pub fn with_blocking_syncs(mut self, blocking: bool) -> Self {
        self.blocking_syncs = blocking;
        if blocking {
            self.facts.features.push("blocking_syncs".to_owned());
        }
        self
    }

    /// Hands all operations to the kernel, or finishes them at once.
    #[inline]
    fn submit(&mut self, operations: &[Operation]) -> Result<(), BlockError> {
        self.claim(operations);
        self.blocks.clear();
        let mut follows_link = false;
        for operation in operations {
            let follows = std::mem::replace(&mut follows_link, operation.link);
            if operation.link {
                self.finish(operation.slot, -libc::EOPNOTSUPP);
            } else if follows {
                self.finish(operation.slot, -libc::ECANCELED);
            } else if operation.kind == OperationKind::SyncFileRange {
                self.finish(operation.slot, -libc::EOPNOTSUPP);
            } else if operation.kind == OperationKind::Reallocate
                || self.blocking_syncs && is_sync(operation.kind)
            {
                // What came before it must not wait for it.
                self.flush()?;
                let result = self.call(operation);
                self.finish(operation.slot, result);
            } else {
                let block = self.block(operation);
                self.blocks.push(block);
            }
        }
        self.flush()
    }

    /// Marks the slots as in flight. All programmer's errors show here, before anything is done.
    #[inline]
    fn claim(&mut self, operations: &[Operation]) {
        // Completions that wait to be given count too: their slots are not free before.
        let room = self.depth - self.in_kernel - self.ready.len();
        assert!(operations.len() <= room, "more operations than the context was set up for");
        for operation in operations {
            let slot = operation.slot as usize;
            assert!(self.submitted_at[slot].is_none(), "slot {slot} is in flight");
            if matches!(operation.kind, OperationKind::Read | OperationKind::Write) {
                self.transfer_length(operation);
            }
            // A time that says no more than that the slot is taken; the submission puts the right
            // one.
            self.submitted_at[slot] = Some(Ticks::default());
        }
    }

    /// The length of a transfer, which never reaches beyond its slot.
    #[inline]
    fn transfer_length(&self, operation: &Operation) -> u64 {
        let (length, slot_length) = (operation.length, self.buffers.slot_length());
        assert!(length <= slot_length as u64, "{length} bytes in a slot of {slot_length}");
        length
    }

    #[inline]
    fn block(&self, operation: &Operation) -> ControlBlock {
        let common = ControlBlock {
            data: operation.slot.into(),
            file: file_of(operation, &self.file, &self.more_files).as_raw_fd().cast_unsigned(),
            ..ControlBlock::default()
        };
        let opcode = match operation.kind {
            OperationKind::Read => PREAD,
            OperationKind::Write => PWRITE,
            OperationKind::Fdatasync => return ControlBlock { opcode: FDSYNC, ..common },
            // `submit` has answered the last two: the kernel has no opcode for them.
            OperationKind::Fsync | OperationKind::Reallocate | OperationKind::SyncFileRange => {
                return ControlBlock { opcode: FSYNC, ..common };
            }
        };
        ControlBlock {
            opcode,
            rw_flags: if opcode == PWRITE { operation.flags.bits() } else { 0 },
            buffer: self.buffers.slot_pointer(operation.slot as usize).expose_provenance() as u64,
            length: self.transfer_length(operation),
            // An offset beyond the kernel's range becomes negative, which it refuses.
            offset: operation.offset.cast_signed(),
            ..common
        }
    }

    /// Submits the prepared blocks; one that the kernel refuses is finished with its errno.
    #[inline]
    fn flush(&mut self) -> Result<(), BlockError> {
        // Collected each time: pushing blocks may have moved the vector.
        self.addresses.clear();
        self.addresses.extend(self.blocks.iter_mut().map(std::ptr::from_mut));
        let (mut done, mut calls) = (0, 0);
        while done < self.addresses.len() {
            calls += 1;
            // SAFETY: the addresses are those of `self.blocks`, which nothing else touches during
            // the call; each names memory within a slot (asserted) that is claimed, so no reference
            // to it and no other operation on it exists, and the buffers live until `drop` has seen
            // every event.
            let outcome = unsafe { self.context.submit(&mut self.addresses[done..]) };
            match outcome {
                Ok(taken) if taken > 0 => {
                    self.stamp(done, taken);
                    done += taken;
                }
                // Out of requests until some are reaped.
                Ok(_) if self.in_kernel > 0 => self.stash_events()?,
                Err(error) if is_transient(&error) && self.in_kernel > 0 => self.stash_events()?,
                refusal => {
                    // Nothing is in the kernel that could make room: waiting would never end.
                    let errno = refusal.err().and_then(|error| error.raw_os_error());
                    self.finish(slot_of(self.blocks[done].data), -errno.unwrap_or(libc::EAGAIN));
                    done += 1;
                }
            }
        }
        if calls > 1 {
            // Submission ends with the last call, except for completions seen before it.
            let now = self.clock.now();
            for block in &self.blocks {
                self.submitted_at[slot_of(block.data) as usize] = Some(now);
            }
        }
        self.blocks.clear();
        Ok(())
    }

    /// Notes that the kernel took these blocks.
    #[inline]
    fn stamp(&mut self, first: usize, count: usize) {
        let now = self.clock.now();
        // A look or a wait follows; there was neither until here.
        if self.in_kernel == 0 {
            self.watch.waited(now);
        } else {
            self.watch.looked(now);
        }
        for block in &self.blocks[first..first + count] {
            self.submitted_at[slot_of(block.data) as usize] = Some(now);
        }
        self.in_kernel += count;
    }

    /// Does what the kernel's aio does not, and waits for it.
    fn call(&self, operation: &Operation) -> i32 {
        let file = file_of(operation, &self.file, &self.more_files);
        loop {
            match no_transfer(file.as_fd(), operation) {
                Ok(()) => return 0,
                Err(Errno::INTR) => {}
                Err(errno) => return -errno.raw_os_error(),
            }
        }
    }

    /// Notes a completion that the kernel will not send.
    fn finish(&mut self, slot: u32, result: i32) {
        let now = self.clock.now();
        let completion = Completion { slot, result, submitted_at: now, completed_at: now };
        self.ready.push_back(completion);
    }

    /// Waits for an event and keeps it and its like for the caller.
    fn stash_events(&mut self) -> Result<(), BlockError> {
        self.look(1, None)?;
        Ok(())
    }

    /// Takes all events that are there, waits for `wanted` of them, stamps them and keeps them for
    /// the caller.
    #[inline]
    fn look(&mut self, wanted: usize, timeout: Option<&libc::timespec>) -> Result<(), BlockError> {
        let count = self.context.events(wanted, &mut self.events, timeout);
        let count =
            count.map_err(|error| BlockError::new("take events of the aio context", error))?;
        self.in_kernel -= count;
        let now = self.clock.now();
        if wanted > 0 {
            self.watch.waited(now);
        } else {
            self.watch.looked(now);
        }
        for event in &self.events[..count] {
            let slot = slot_of(event.data);
            let submitted_at = self.submitted_at[slot as usize].unwrap_or(now);
            // A transfer is at most 1 GiB (durio-workload), so it fits.
            let result = i32::try_from(event.result).unwrap_or(i32::MAX);
            self.ready.push_back(Completion { slot, result, submitted_at, completed_at: now });
        }
        Ok(())
    }

    /// Looks until something is there for the caller, or the deadline is. The kernel's timeouts
    /// come late, so the last 20 us are spent looking again and again.
    fn look_until(&mut self, deadline: Ticks) -> Result<(), BlockError> {
        loop {
            let left = self.clock.nanos(deadline.since(self.clock.now()));
            let sleep = left.saturating_sub(WATCHED);
            let timeout = libc::timespec {
                // Not by the name of its type, which libc is about to change for musl. In place of
                // what does not fit, 68 years.
                tv_sec: (sleep / 1_000_000_000).try_into().unwrap_or(i32::MAX.into()),
                // Below 10⁹.
                tv_nsec: libc::c_long::try_from(sleep % 1_000_000_000).unwrap_or(0),
            };
            self.look(1, Some(&timeout))?;
            if left == 0 || !self.ready.is_empty() {
                return Ok(());
            }
        }
    }

    /// Gives the caller the available completions, the oldest first.
    #[inline]
    fn give(&mut self, completions: &mut [Completion]) -> usize {
        let mut count = 0;
        while count < completions.len() {
            let Some(completion) = self.ready.pop_front() else { break };
            self.submitted_at[completion.slot as usize] = None;
            completions[count] = completion;
            count += 1;
        }
        count
    }
}

fn facts_of(file: &OwnedFd) -> EngineFacts {
    // Buffered transfers are done inside io_submit, one after the other (fs/aio.c calls the file's
    // read_iter and write_iter, which wait for the page cache).
    let direct = rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT));
    let mut facts = EngineFacts { features: vec!["aio_context".to_owned()], fallbacks: vec![] };
    if !direct {
        facts.fallbacks.push("not asynchronous: the file is open without O_DIRECT".to_owned());
    }
    facts
}

/// The slot that [`AioEngine::block`] put into a block; slots are 32 bits wide.
#[inline]
fn slot_of(data: u64) -> u32 {
    u32::try_from(data).unwrap_or(u32::MAX)
}

fn is_sync(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::Fsync | OperationKind::Fdatasync)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}

impl<C: Clock> Engine for AioEngine<C> {
    type Clock = C;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: true, write_flags: true, range_syncs: false, links: false }
    }

    fn facts(&self) -> EngineFacts {
        self.facts.clone()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(self.submitted_at[slot as usize].is_none(), "slot {slot} is in flight");
        self.buffers.slot_mut(slot as usize)
    }

    #[inline]
    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        if !operations.is_empty() {
            self.submit(operations)?;
        }
        if self.in_kernel > 0 {
            self.look(usize::from(self.ready.is_empty()), None)?;
        }
        Ok(self.give(completions))
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        if !operations.is_empty() {
            self.submit(operations)?;
        }
        match (self.in_kernel > 0, self.ready.is_empty()) {
            (true, true) => self.look_until(deadline)?,
            (true, false) => self.look(0, None)?,
            (false, true) => wait_until(&self.clock, deadline),
            (false, false) => {}
        }
        Ok(self.give(completions))
    }

    #[inline(always)]
    fn looked_at(&self) -> Ticks {
        self.watch.last()
    }

    fn take_unwatched(&mut self) -> u64 {
        self.watch.take()
    }
}

impl<C: Clock> Drop for AioEngine<C> {
    /// Waits for everything in flight: the kernel may write to the buffers until then.
    fn drop(&mut self) {
        while self.in_kernel > 0 {
            if self.stash_events().is_err() {
                return self.buffers.leak();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::open_path;
    use crate::{MonotonicClock, OpenMode, WriteFlags};

    /// io_setup rounds up to a page of events: 16 times 500 operations are beyond that.
    #[test]
    fn a_context_with_too_little_room_is_emptied_until_all_operations_are_in() {
        if let Err(error) = super::AioDescriptor::probe() {
            return crate::testkit::note_skip("a_context_with_too_little_room", &error);
        }
        let mode = OpenMode::default();
        let file = open_path("/dev/zero".as_ref(), mode).unwrap().file;
        let slots = 8000;
        let buffers = Buffers::new(slots, 512);
        let mut engine = AioEngine::new(MonotonicClock, file, buffers, 1).unwrap();
        engine.depth = slots;
        let operations: Vec<Operation> = (0..8000).map(read_of).collect();
        let mut seen = vec![false; slots];
        let mut completions = vec![Completion::default(); 64];
        let mut count = engine.exchange(&operations, &mut completions).unwrap();
        assert!(!engine.ready.is_empty(), "everything found room at once");
        while count > 0 {
            for completion in &completions[..count] {
                assert_eq!(completion.result, 512);
                assert!(completion.submitted_at <= completion.completed_at);
                assert!(completion.submitted_at > Ticks::default());
                assert!(!std::mem::replace(&mut seen[completion.slot as usize], true));
            }
            count = engine.exchange(&[], &mut completions).unwrap();
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    fn read_of(slot: u32) -> Operation {
        Operation {
            kind: OperationKind::Read,
            flags: WriteFlags::None,
            link: false,
            file: 0,
            slot,
            length: 512,
            offset: 0,
            intended_start: Ticks::default(),
        }
    }

    #[test]
    fn a_block_says_what_is_to_be_done_where_and_how() {
        if let Err(error) = super::AioDescriptor::probe() {
            return crate::testkit::note_skip("a_block_says_what_is_to_be_done", &error);
        }
        let open = || open_path("/dev/zero".as_ref(), OpenMode::default()).unwrap().file;
        let (buffers, second) = (Buffers::new(2, 4096), open());
        let number = second.as_raw_fd().cast_unsigned();
        let engine = AioEngine::new(MonotonicClock, open(), buffers, 2).unwrap();
        let engine = engine.with_more_files(vec![second]);
        let first = engine.block(&read_of(0)).file;
        let address = engine.buffers.slot_pointer(1).expose_provenance() as u64;
        // Opcodes and flags by linux/aio_abi.h and linux/fs.h.
        for (kind, flags, opcode, rw_flags) in [
            (OperationKind::Read, WriteFlags::None, 0, 0),
            (OperationKind::Read, WriteFlags::Dsync, 0, 0),
            (OperationKind::Write, WriteFlags::None, 1, 0),
            (OperationKind::Write, WriteFlags::Dsync, 1, 2),
            (OperationKind::Write, WriteFlags::Sync, 1, 4),
        ] {
            let operation = Operation { kind, flags, file: 1, offset: 1 << 40, ..read_of(1) };
            let block = engine.block(&operation);
            assert_eq!((block.opcode, block.rw_flags), (opcode, rw_flags), "{kind:?} {flags:?}");
            assert_eq!((block.data, block.file), (1, number));
            assert_eq!((block.buffer, block.length, block.offset), (address, 512, 1 << 40));
        }
        assert_ne!(first, number);
        for (kind, opcode) in [(OperationKind::Fsync, 2), (OperationKind::Fdatasync, 3)] {
            let block = engine.block(&Operation { kind, file: 1, offset: 9, ..read_of(1) });
            assert_eq!((block.opcode, block.data, block.file), (opcode, 1, number), "{kind:?}");
            // With anything else in them the kernel refuses a sync.
            assert_eq!((block.buffer, block.length, block.offset), (0, 0, 0), "{kind:?}");
        }
    }
}
