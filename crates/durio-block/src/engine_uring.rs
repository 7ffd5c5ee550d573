//! io_uring: a ring with a registered file, registered buffers and a registered descriptor of its
//! own, as far as the kernel grants them.
//!
//! One exchange is at most two system calls: one that submits, and one that waits, made only when
//! no completion is there. They are apart so that the end of submission can be stamped.
//!
//! No flag is set without a reason: SINGLE_ISSUER and DEFER_TASKRUN keep the kernel's completion
//! work in the job's own thread (what current fio sets too); SQPOLL, IOPOLL and COOP_TASKRUN are not
//! used, as no gain has been measured for them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue, types};

use crate::clock::{WATCHED, wait_until};
use crate::sync_range::RANGE_SYNC_FLAGS;
use crate::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, Operation,
    OperationKind, Ticks, WriteFlags,
};

/// The kernel registers at most this many buffers (IORING_MAX_REG_BUFFERS, io_uring/rsrc.c).
const REGISTERED_BUFFERS_MAX: usize = 1 << 14;

/// No time: the slot is free.
const IDLE: Ticks = Ticks(u64::MAX);

/// Where the one registered file is.
const FILE: types::Fixed = types::Fixed(0);

/// A ring, built in the thread that uses it: SINGLE_ISSUER refuses every other.
#[derive(Debug)]
pub struct Ring {
    ring: IoUringDebug,
    features: Vec<String>,
    fallbacks: Vec<String>,
}

/// The crate's ring has no Debug.
struct IoUringDebug(IoUring);

impl std::fmt::Debug for IoUringDebug {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IoUring").field(&self.0.as_raw_fd()).finish()
    }
}

impl Ring {
    /// A ring for `depth` operations in flight.
    ///
    /// # Errors
    /// If the kernel has no io_uring or forbids it.
    pub fn new(depth: u32) -> Result<Self, BlockError> {
        let mut fallbacks = Vec::new();
        let wanted = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(depth);
        let ring = match wanted {
            Ok(ring) => {
                let features = vec!["single_issuer".to_owned(), "defer_taskrun".to_owned()];
                return Ok(Self { ring: IoUringDebug(ring), features, fallbacks });
            }
            // Kernels before 6.1 do not know the flags.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                fallbacks.push("no single_issuer and defer_taskrun (kernel before 6.1)".to_owned());
                IoUring::builder().build(depth)
            }
            Err(error) => Err(error),
        };
        let ring = ring.map_err(|error| BlockError::new("set up io_uring", error))?;
        Ok(Self { ring: IoUringDebug(ring), features: Vec::new(), fallbacks })
    }
}

/// Says whether io_uring can be used here.
///
/// # Errors
/// The reason why not: missing in the kernel, forbidden by sysctl, seccomp or a missing right.
pub fn probe_uring() -> Result<(), BlockError> {
    Ring::new(1).map(drop)
}

/// The asynchronous engine over a [`Ring`].
pub struct UringEngine<'ring, C: Clock> {
    clock: C,
    submitter: Submitter<'ring>,
    submissions: SubmissionQueue<'ring>,
    completions: CompletionQueue<'ring>,
    buffers: Buffers,
    buffers_are_registered: bool,
    /// When the submission of the slot's operation had returned; [`IDLE`] if not in flight.
    submitted_at: Vec<Ticks>,
    in_flight: usize,
    facts: EngineFacts,
}

impl<C: Clock> std::fmt::Debug for UringEngine<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringEngine").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<'ring, C: Clock> UringEngine<'ring, C> {
    /// An engine over an open file, which the ring keeps open until the engine is dropped. Buffers
    /// that the kernel does not register (RLIMIT_MEMLOCK of plain users) are used unregistered,
    /// and the facts say so.
    ///
    /// # Errors
    /// If the kernel does not register the file.
    pub fn new(
        clock: C,
        ring: &'ring mut Ring,
        file: &OwnedFd,
        buffers: Buffers,
    ) -> Result<Self, BlockError> {
        let mut facts =
            EngineFacts { features: ring.features.clone(), fallbacks: ring.fallbacks.clone() };
        // The registration of the ring's descriptor lives in this submitter: it must be kept.
        let (mut submitter, submissions, completions) = ring.ring.0.split();
        match submitter.register_ring_fd() {
            Ok(()) => facts.features.push("registered_ring".to_owned()),
            Err(error) => facts.fallbacks.push(format!("ring is not registered: {error}")),
        }
        submitter
            .register_files(&[file.as_raw_fd()])
            .map_err(|error| BlockError::new("register the file with io_uring", error))?;
        facts.features.push("registered_file".to_owned());
        let registered = register_buffers(&submitter, &buffers);
        let buffers_are_registered = registered.is_ok();
        match registered {
            Ok(()) => facts.features.push("registered_buffers".to_owned()),
            Err(error) => facts.fallbacks.push(format!("buffers are not registered: {error}")),
        }
        let submitted_at = vec![IDLE; buffers.count()];
        Ok(Self {
            clock,
            submitter,
            submissions,
            completions,
            buffers,
            buffers_are_registered,
            submitted_at,
            in_flight: 0,
            facts,
        })
    }

    #[inline]
    fn entry(&self, operation: &Operation) -> squeue::Entry {
        let entry = match operation.kind {
            OperationKind::Read => self.read(operation),
            OperationKind::Write => self.write(operation),
            OperationKind::Fsync => opcode::Fsync::new(FILE).build(),
            OperationKind::Fdatasync => {
                opcode::Fsync::new(FILE).flags(types::FsyncFlags::DATASYNC).build()
            }
            OperationKind::Reallocate => opcode::Fallocate::new(FILE, operation.length)
                .offset(operation.offset)
                .mode(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            OperationKind::SyncFileRange => {
                opcode::SyncFileRange::new(FILE, transfer_length(operation))
                    .offset(operation.offset)
                    .flags(RANGE_SYNC_FLAGS)
                    .build()
            }
        };
        let entry = entry.user_data(u64::from(operation.slot));
        if operation.link { entry.flags(squeue::Flags::IO_LINK) } else { entry }
    }

    #[inline]
    fn read(&self, operation: &Operation) -> squeue::Entry {
        let pointer = self.buffers.slot_pointer(operation.slot as usize);
        let (length, offset) = (transfer_length(operation), operation.offset);
        if self.buffers_are_registered {
            let index = buffer_index(operation.slot);
            opcode::ReadFixed::new(FILE, pointer, length, index).offset(offset).build()
        } else {
            opcode::Read::new(FILE, pointer, length).offset(offset).build()
        }
    }

    #[inline]
    fn write(&self, operation: &Operation) -> squeue::Entry {
        let pointer = self.buffers.slot_pointer(operation.slot as usize);
        let (length, offset) = (transfer_length(operation), operation.offset);
        let flags = match operation.flags {
            WriteFlags::None => 0,
            WriteFlags::Dsync => libc::RWF_DSYNC,
            WriteFlags::Sync => libc::RWF_SYNC,
        };
        if self.buffers_are_registered {
            let index = buffer_index(operation.slot);
            let entry = opcode::WriteFixed::new(FILE, pointer, length, index);
            entry.offset(offset).rw_flags(flags).build()
        } else {
            opcode::Write::new(FILE, pointer, length).offset(offset).rw_flags(flags).build()
        }
    }

    /// Checks that a transfer does not reach beyond its slot.
    #[inline]
    fn check_length(&self, operation: &Operation) {
        assert!(
            operation.length <= self.buffers.slot_length() as u64
                || !matches!(operation.kind, OperationKind::Read | OperationKind::Write),
            "{} bytes in a slot of {}",
            operation.length,
            self.buffers.slot_length()
        );
    }

    /// Marks the slots as in flight. All programmer's errors show here, before the first entry is
    /// in the ring, from where the kernel would take it with the next call.
    #[inline]
    fn claim(&mut self, operations: &[Operation]) {
        let room = self.submissions.capacity() - self.submissions.len();
        assert!(operations.len() <= room, "more operations than the ring was built for");
        for operation in operations {
            let slot = operation.slot as usize;
            let place = &mut self.submitted_at[slot];
            assert!(*place == IDLE, "slot {slot} is in flight");
            *place = Ticks::default();
            self.check_length(operation);
        }
    }

    /// Puts the operations into the ring and tells the kernel.
    #[inline]
    fn submit(&mut self, operations: &[Operation]) -> Result<(), BlockError> {
        // Entries that the kernel has consumed since are free again only after this.
        self.submissions.sync();
        self.claim(operations);
        for operation in operations {
            let entry = self.entry(operation);
            // SAFETY: the entry's pointer and length lie within the slot (asserted), the slot is
            // claimed, so no reference to it and no other operation on it exists, and the buffers
            // live until `drop` has reaped every operation.
            let pushed = unsafe { self.submissions.push(&entry) };
            assert!(pushed.is_ok(), "more operations than the ring was built for");
            // One by one: whatever is in the ring, `drop` must wait for.
            self.in_flight += 1;
        }
        self.submissions.sync();
        self.enter(0)?;
        let submitted_at = self.clock.now();
        for operation in operations {
            self.submitted_at[operation.slot as usize] = submitted_at;
        }
        Ok(())
    }

    /// Submits what is in the ring and waits for `wanted` completions.
    #[inline]
    fn enter(&mut self, wanted: usize) -> Result<(), BlockError> {
        loop {
            match self.submitter.submit_and_wait(wanted) {
                Ok(_) => {
                    self.submissions.sync();
                    if self.submissions.is_empty() {
                        return Ok(());
                    }
                }
                Err(error) if is_transient(&error) => {
                    self.submissions.sync();
                    self.completions.sync();
                    // Completions that are there make room; let the caller take them.
                    if self.submissions.is_empty() && !self.completions.is_empty() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(BlockError::new("enter io_uring", error)),
            }
        }
    }

    /// Waits until a completion is there, or the deadline: in the kernel, and for the last 20 us by
    /// looking again and again, for the kernel's timeouts come late.
    fn wait_for_one(&mut self, deadline: Ticks) -> Result<(), BlockError> {
        loop {
            self.completions.sync();
            if !self.completions.is_empty() {
                return Ok(());
            }
            let left = self.clock.nanos(deadline.since(self.clock.now()));
            if left == 0 {
                return Ok(());
            }
            let sleep = left.saturating_sub(WATCHED);
            let timeout = types::Timespec::from(Duration::from_nanos(sleep));
            // With DEFER_TASKRUN completions appear only in a call that asks for them, so also the
            // look that does not wait is one.
            let arguments = types::SubmitArgs::new().timespec(&timeout);
            match self.submitter.submit_with_args(1, &arguments) {
                Ok(_) => {}
                Err(error) if is_transient(&error) || is_timeout(&error) => {}
                Err(error) => return Err(BlockError::new("wait for io_uring", error)),
            }
        }
    }

    #[inline]
    fn reap(&mut self, completions: &mut [Completion]) -> usize {
        let mut count = 0;
        // The place is taken first: without one, no entry leaves the ring.
        for (completion, entry) in completions.iter_mut().zip(&mut self.completions) {
            let completed_at = self.clock.now();
            #[expect(clippy::cast_possible_truncation, reason = "the slot that `entry` put there")]
            let slot = entry.user_data() as u32;
            let submitted_at = std::mem::replace(&mut self.submitted_at[slot as usize], IDLE);
            *completion = Completion { slot, result: entry.result(), submitted_at, completed_at };
            count += 1;
        }
        self.in_flight -= count;
        count
    }
}

impl<C: Clock> UringEngine<'_, C> {
    /// Makes the engine as it is for plain users with little lockable memory, for tests.
    #[cfg(any(test, feature = "testkit"))]
    pub fn unregister_buffers(&mut self) {
        assert_eq!(self.in_flight, 0, "operations on registered buffers are in flight");
        if std::mem::take(&mut self.buffers_are_registered) {
            let outcome = self.submitter.unregister_buffers();
            self.facts.fallbacks.push(format!("buffers are not registered: {outcome:?}"));
        }
    }

    /// Takes back the registrations, so that the ring serves another engine. The thread's table of
    /// registered rings holds a reference to the ring, which would keep it and its file open until
    /// the thread ends, long after both were dropped.
    fn unregister(&mut self) {
        // A failure leaves what would be there without this; `drop` has nobody to tell.
        let _ = self.submitter.unregister_files();
        if self.buffers_are_registered {
            let _ = self.submitter.unregister_buffers();
        }
        let _ = self.submitter.unregister_ring_fd();
    }
}

fn register_buffers(submitter: &Submitter<'_>, buffers: &Buffers) -> io::Result<()> {
    if buffers.count_with_memory() > REGISTERED_BUFFERS_MAX {
        return Err(io::Error::from_raw_os_error(libc::E2BIG));
    }
    let slots: Vec<libc::iovec> = (0..buffers.count_with_memory())
        .map(|slot| libc::iovec {
            iov_base: buffers.slot_pointer(slot).cast(),
            iov_len: buffers.slot_length(),
        })
        .collect();
    // Justification: registration saves the pinning of pages per operation (65 ns measured).
    // SAFETY: each slot is valid memory of that length, owned by `buffers`, which the engine keeps
    // until it is dropped, after every operation is reaped.
    unsafe { submitter.register_buffers(&slots) }
}

/// The length of a transfer; `check_length` has seen it.
#[inline]
fn transfer_length(operation: &Operation) -> u32 {
    u32::try_from(operation.length).unwrap_or(u32::MAX)
}

#[inline]
fn buffer_index(slot: u32) -> u16 {
    // Registered buffers are at most 2¹⁴.
    u16::try_from(slot).unwrap_or(u16::MAX)
}

/// ETIME: what the kernel says when the time of a wait is over.
fn is_timeout(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETIME)
}

/// EINTR: a signal came; EAGAIN and EBUSY: the kernel is out of requests until some are reaped.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

impl<C: Clock> Engine for UringEngine<'_, C> {
    type Clock = C;

    fn clock(&self) -> &C {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: true, write_flags: true, range_syncs: true, links: true }
    }

    fn facts(&self) -> EngineFacts {
        self.facts.clone()
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(self.submitted_at[slot as usize] == IDLE, "slot {slot} is in flight");
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
        if self.in_flight == 0 {
            return Ok(0);
        }
        self.completions.sync();
        if self.completions.is_empty() {
            self.enter(1)?;
            self.completions.sync();
        }
        Ok(self.reap(completions))
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
        if self.in_flight == 0 {
            wait_until(&self.clock, deadline);
            return Ok(0);
        }
        self.wait_for_one(deadline)?;
        Ok(self.reap(completions))
    }
}

impl<C: Clock> Drop for UringEngine<'_, C> {
    /// Waits for everything in flight: the kernel may write to the buffers until then.
    fn drop(&mut self) {
        let mut completions = [Completion::default(); 16];
        while self.in_flight > 0 {
            if self.exchange(&[], &mut completions).is_err() {
                // The ring does not answer any more: leak the buffers rather than free memory that
                // the kernel may still write to.
                let buffers = std::mem::replace(&mut self.buffers, Buffers::new(1, 1));
                std::mem::forget(buffers);
                return;
            }
        }
        self.unregister();
    }
}
