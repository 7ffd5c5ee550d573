//! io_uring: a ring with a registered file, registered buffers and a registered descriptor of its
//! own, as far as the kernel grants them.
//!
//! One exchange is at most two system calls: one that submits and looks, and one that waits, made
//! only when no completion is there. They are apart so that the end of submission can be stamped.
//!
//! With DEFER_TASKRUN the kernel shows asynchronous completions only in a call that asks for events
//! (IORING_ENTER_GETEVENTS). Every exchange asks: completions of operations that end inside the
//! submitting call would otherwise keep the queue busy while the others wait unseen for as long.
//! All that a look shows is stamped then, however few of them the caller has room for.
//!
//! No flag is set without a reason: SINGLE_ISSUER and DEFER_TASKRUN keep the kernel's completion
//! work in the job's own thread (what current fio sets too); SQPOLL, IOPOLL and COOP_TASKRUN are not
//! used, as no gain has been measured for them.

mod entries;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::thread;
use std::time::Duration;

use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue, types};
use rustix::io::Errno;

use super::{CompletionBatch, EngineDescriptor, EngineSetup, EngineUser, LookGap, Looks};
use crate::clock::{WATCHED, wait_until};
use crate::open::RANGE_SYNC_FLAGS;
use crate::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, Operation,
    OperationKind, Ticks,
};
use entries::SlotEntries;

pub(crate) use entries::RingDescriptor;

/// The kernel registers at most this many buffers (IORING_MAX_REG_BUFFERS, io_uring/rsrc.c).
const REGISTERED_BUFFERS_MAX: usize = 1 << 14;

/// No time: the slot is free.
const IDLE: Ticks = Ticks(u64::MAX);

/// No time: the operation is complete when the look after its submission is.
const AT_ITS_LOOK: Ticks = Ticks(0);

/// How often a submission is retried while the kernel has no memory for it, and how long is waited
/// before each: 2 s in all.
const REFUSALS_MAX: u32 = 2000;
const REFUSED_WAIT: Duration = Duration::from_millis(1);

/// A ring, built in the thread that uses it: SINGLE_ISSUER refuses every other.
pub struct Ring {
    pub(crate) ring: IoUring,
    facts: EngineFacts,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring for `depth` operations in flight.
    pub fn new(depth: u32) -> Result<Self, BlockError> {
        let fail = |error| BlockError::new("set up io_uring", error);
        let mut facts = EngineFacts::default();
        match IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(depth) {
            Ok(ring) => {
                facts.features = vec!["single_issuer".to_owned(), "defer_taskrun".to_owned()];
                Ok(Self { ring, facts })
            }
            // Kernels before 6.1 do not know the flags.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let fallback = "no single_issuer and defer_taskrun (kernel before 6.1)";
                facts.fallbacks.push(fallback.to_owned());
                Ok(Self { ring: IoUring::builder().build(depth).map_err(fail)?, facts })
            }
            Err(error) => Err(fail(error)),
        }
    }
}

pub(super) struct UringDescriptor;

impl EngineDescriptor for UringDescriptor {
    const NAME: &'static str = "uring";
    const FIO_NAME: &'static str = "io_uring";
    const IS_ASYNCHRONOUS: bool = true;
    const LINKS_SYNCS: bool = true;

    /// Missing in the kernel, forbidden by sysctl, seccomp or a missing right.
    fn probe() -> Result<(), BlockError> {
        Ring::new(1).map(drop)
    }

    fn open<C: Clock + Copy, U: EngineUser<C>>(setup: EngineSetup<C>, user: U) -> U::Output {
        let mut ring = match Ring::new(setup.entries) {
            Ok(ring) => ring,
            Err(error) => return user.refused(error),
        };
        let files: Vec<OwnedFd> = std::iter::once(setup.file).chain(setup.more_files).collect();
        match UringEngine::new(setup.clock, &mut ring, &files, setup.buffers) {
            Ok(engine) => user.drive(engine),
            Err(error) => user.refused(error),
        }
    }
}

/// The asynchronous engine over a [`Ring`].
pub struct UringEngine<'ring, C: Clock> {
    clock: C,
    descriptor: RingDescriptor,
    submitter: Submitter<'ring>,
    submissions: SubmissionQueue<'ring>,
    completions: CompletionQueue<'ring>,
    buffers: Buffers,
    buffers_are_registered: bool,
    entries: SlotEntries,
    /// When the submission of the slot's operation had returned; [`IDLE`] if not in flight.
    submitted_at: Vec<Ticks>,
    in_flight: usize,
    /// Completions that were seen and not given to the caller yet.
    seen: Looks,
    watch: LookGap,
    facts: EngineFacts,
}

impl<C: Clock> std::fmt::Debug for UringEngine<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UringEngine").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<'ring, C: Clock> UringEngine<'ring, C> {
    /// An engine over an open file, or over several ([`Operation::file`] is the place of one among
    /// them), which the ring keeps open until the engine is dropped. Buffers
    /// that the kernel does not register (RLIMIT_MEMLOCK of plain users) are used unregistered,
    /// and the facts say so.
    pub fn new(
        clock: C,
        ring: &'ring mut Ring,
        files: &[OwnedFd],
        buffers: Buffers,
    ) -> Result<Self, BlockError> {
        let mut facts = ring.facts.clone();
        let (descriptor, registered) = RingDescriptor::register(ring.ring.as_raw_fd());
        let (submitter, submissions, completions) = ring.ring.split();
        match registered {
            Ok(()) => facts.features.push("registered_ring".to_owned()),
            Err(error) => facts.fallbacks.push(format!("ring is not registered: {error}")),
        }
        let files: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        submitter
            .register_files(&files)
            .map_err(|error| BlockError::new("register the file with io_uring", error))?;
        facts.features.push("registered_file".to_owned());
        // They count against RLIMIT_MEMLOCK of users without CAP_IPC_LOCK (io_uring_register(2)).
        let registered = register_buffers(&submitter, &buffers);
        let buffers_are_registered = registered.is_ok();
        match registered {
            Ok(()) => facts.features.push("registered_buffers".to_owned()),
            Err(error) => facts.fallbacks.push(format!("buffers are not registered: {error}")),
        }
        let submitted_at = vec![IDLE; buffers.count()];
        let entries = SlotEntries::new(&buffers, buffers_are_registered);
        let seen = Looks::new(submitted_at.len());
        Ok(Self {
            clock,
            descriptor,
            submitter,
            submissions,
            completions,
            buffers,
            buffers_are_registered,
            entries,
            submitted_at,
            in_flight: 0,
            seen,
            watch: LookGap::default(),
            facts,
        })
    }

    /// The entry of an operation that is not a transfer.
    #[cold]
    fn other(operation: &Operation) -> squeue::Entry {
        let file = types::Fixed(operation.file);
        let entry = match operation.kind {
            OperationKind::Fdatasync => {
                opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build()
            }
            OperationKind::Reallocate => opcode::Fallocate::new(file, operation.length)
                .offset(operation.offset)
                .mode(libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            OperationKind::SyncFileRange => {
                let length = u32::try_from(operation.length).unwrap_or(u32::MAX);
                opcode::SyncFileRange::new(file, length)
                    .offset(operation.offset)
                    .flags(RANGE_SYNC_FLAGS)
                    .build()
            }
            OperationKind::Fsync | OperationKind::Read | OperationKind::Write => {
                opcode::Fsync::new(file).build()
            }
        };
        let entry = entry.user_data(u64::from(operation.slot));
        if operation.link { entry.flags(squeue::Flags::IO_LINK) } else { entry }
    }

    /// Marks the slots as in flight. All programmer's errors show here, before the first entry is
    /// in the ring, from where the kernel would take it with the next call.
    #[inline(always)]
    fn claim(&mut self, operations: &[Operation]) {
        // What the kernel has taken since the last look at the ring's head is free only after this.
        if self.submissions.len() + operations.len() > self.submissions.capacity() {
            self.submissions.sync();
        }
        let room = self.submissions.capacity() - self.submissions.len();
        assert!(operations.len() <= room, "more operations than the ring was built for");
        let longest = self.buffers.slot_length() as u64;
        let submitted_at = &mut self.submitted_at[..];
        for operation in operations {
            let place = &mut submitted_at[operation.slot as usize];
            if *place != IDLE {
                in_flight(operation.slot);
            }
            *place = AT_ITS_LOOK;
            assert!(
                operation.length <= longest || !operation.kind.is_transfer(),
                "{} bytes in a slot of {longest}",
                operation.length,
            );
        }
    }

    /// Puts the operations into the ring, submits them and looks for completions.
    #[inline(always)]
    fn submit(&mut self, operations: &[Operation]) -> Result<(), BlockError> {
        let was_idle = self.in_flight == 0;
        self.claim(operations);
        let mut entries = self.entries.in_use();
        for operation in operations {
            // SAFETY: a transfer's pointer and length lie within the slot (asserted), the slot is
            // claimed, so no reference to it and no other operation on it exists, and the buffers
            // live until `drop` has reaped every operation. The others have no pointer.
            let pushed = unsafe {
                match entries.transfer(operation) {
                    Some(transfer) => self.submissions.push(transfer),
                    None => self.submissions.push(&Self::other(operation)),
                }
            };
            assert!(pushed.is_ok(), "more operations than the ring was built for");
            // One by one: whatever is in the ring, `drop` must wait for.
            self.in_flight += 1;
        }
        self.enter(0)?;
        let now = self.look();
        if was_idle {
            self.watch.waited(now);
        } else {
            self.watch.looked(now);
        }
        // Where all that is in flight was complete by now, each takes the time from its look.
        if self.completions.len() < self.in_flight {
            let submitted_at = &mut self.submitted_at[..];
            for operation in operations {
                submitted_at[operation.slot as usize] = now;
            }
        }
        Ok(())
    }

    /// Submits the ring's entries, lets the kernel show completions, and waits for `wanted` of
    /// them. The ring is empty after that, unless the call fails.
    #[inline(always)]
    fn enter(&mut self, wanted: u32) -> Result<(), BlockError> {
        let (queued, entered) = self.enter_once(wanted);
        match entered {
            Ok(taken) if taken == queued => Ok(()),
            entered => self.enter_again(entered, wanted),
        }
    }

    /// How many entries were in the ring, and how many of them the kernel took.
    #[inline(always)]
    fn enter_once(&mut self, wanted: u32) -> (u32, Result<u32, Errno>) {
        self.submissions.sync();
        // A ring has at most 2¹⁵ entries (io_uring_setup(2)).
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let queued = self.submissions.len() as u32;
        // Justification: the crate's safe calls ask for events only if they wait for one.
        // SAFETY: the entries were pushed under the conditions of `submit`.
        (queued, unsafe { self.descriptor.enter(queued, wanted) })
    }

    /// After a call that was refused or interrupted, or did not take all.
    #[cold]
    fn enter_again(
        &mut self,
        mut entered: Result<u32, Errno>,
        wanted: u32,
    ) -> Result<(), BlockError> {
        let mut refusals = 0;
        loop {
            self.submissions.sync();
            match entered {
                Ok(_) if self.submissions.is_empty() => return Ok(()),
                Ok(_) => {}
                Err(error) if is_transient(error) => {
                    // It ends a wait, or a refusal that says nothing of what the job did before.
                    let now = self.look();
                    self.watch.waited(now);
                    // Completions that are there make room; let the caller take them.
                    if self.submissions.is_empty() && !self.completions.is_empty() {
                        return Ok(());
                    }
                    if error != Errno::INTR {
                        refusals += 1;
                        if refusals > REFUSALS_MAX {
                            return Err(BlockError::new("enter io_uring", error));
                        }
                        thread::sleep(REFUSED_WAIT);
                    }
                }
                Err(error) => return Err(BlockError::new("enter io_uring", error)),
            }
            (_, entered) = self.enter_once(wanted);
        }
    }

    /// Stamps all completions that have come since the last look; gives the time of this one.
    #[inline(always)]
    fn look(&mut self) -> Ticks {
        // Those that were seen by an earlier look and wait for the caller are still in the queue.
        let seen = self.completions.len();
        self.completions.sync();
        let now = self.clock.now();
        let count = self.completions.len() - seen;
        if count > 0 {
            self.seen.push(CompletionBatch { count, at: now });
        }
        now
    }

    /// Waits until a completion is there.
    fn wait(&mut self) -> Result<(), BlockError> {
        while self.seen.is_empty() {
            self.enter(1)?;
            let now = self.look();
            self.watch.waited(now);
        }
        Ok(())
    }

    /// Waits until a completion is there, or the deadline: in the kernel, and for the last 20 us by
    /// looking again and again, for the kernel's timeouts come late.
    fn wait_for_one(&mut self, deadline: Ticks) -> Result<(), BlockError> {
        let mut now = self.clock.now();
        while self.seen.is_empty() && now < deadline {
            let sleep = self.clock.nanos(deadline.since(now)).saturating_sub(WATCHED);
            let timeout = types::Timespec::from(Duration::from_nanos(sleep));
            // IORING_ENTER_EXT_ARG: the time is an argument of the wait, without an entry of its
            // own in the ring.
            let arguments = types::SubmitArgs::new().timespec(&timeout);
            match self.submitter.submit_with_args(1, &arguments) {
                Ok(_) => {}
                // ETIME: its timeout expired.
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {}
                Err(error) if Errno::from_io_error(&error).is_some_and(is_transient) => {}
                Err(error) => return Err(BlockError::new("wait for io_uring", error)),
            }
            now = self.look();
            self.watch.waited(now);
        }
        Ok(())
    }

    /// Gives the caller the completions that were seen, the oldest first.
    #[inline(always)]
    fn reap(&mut self, completions: &mut [Completion]) -> usize {
        let mut given = 0;
        let submitted_at = &mut self.submitted_at[..];
        while given < completions.len()
            && let Some(look) = self.seen.take(completions.len() - given)
        {
            for completion in &mut completions[given..given + look.count] {
                let Some(entry) = self.completions.next() else { break };
                #[expect(clippy::cast_possible_truncation, reason = "a slot, as submitted")]
                let slot = entry.user_data() as u32;
                let stamp = std::mem::replace(&mut submitted_at[slot as usize], IDLE);
                let submitted_at = if stamp == AT_ITS_LOOK { look.at } else { stamp };
                let result = entry.result();
                *completion = Completion { slot, result, submitted_at, completed_at: look.at };
            }
            given += look.count;
        }
        self.in_flight -= given;
        given
    }
}

impl<C: Clock> UringEngine<'_, C> {
    /// Makes the engine as it is for plain users with little lockable memory, for tests.
    #[cfg(any(test, feature = "testkit"))]
    pub fn unregister_buffers(&mut self) {
        assert_eq!(self.in_flight, 0, "operations on registered buffers are in flight");
        if std::mem::take(&mut self.buffers_are_registered) {
            let outcome = self.submitter.unregister_buffers();
            self.entries = SlotEntries::new(&self.buffers, false);
            self.facts.fallbacks.push(format!("buffers are not registered: {outcome:?}"));
        }
    }

    /// Takes back the registrations, so that the ring serves another engine. The thread's table of
    /// registered rings holds a reference to the ring, which would keep it and its file open until
    /// the thread ends, long after both were dropped.
    fn unregister(&mut self) {
        // A failure leaves the ring as it is without this call, and `drop` cannot report it.
        let _ = self.submitter.unregister_files();
        if self.buffers_are_registered {
            let _ = self.submitter.unregister_buffers();
        }
        let _ = self.descriptor.unregister();
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

#[cold]
fn in_flight(slot: u32) -> ! {
    panic!("slot {slot} is in flight")
}

/// EINTR: a signal came; EAGAIN and EBUSY: the kernel is out of requests until some are reaped.
pub(crate) fn is_transient(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::AGAIN | Errno::BUSY)
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
        if self.submitted_at[slot as usize] != IDLE {
            in_flight(slot);
        }
        self.buffers.slot_mut(slot as usize)
    }

    #[inline(always)]
    fn exchange(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        if self.in_flight == 0 && operations.is_empty() {
            return Ok(0);
        }
        self.submit(operations)?;
        match self.reap(completions) {
            0 => {
                self.wait()?;
                Ok(self.reap(completions))
            }
            count => Ok(count),
        }
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        assert!(!completions.is_empty(), "no room for completions");
        if self.in_flight == 0 && operations.is_empty() {
            wait_until(&self.clock, deadline);
            return Ok(0);
        }
        self.submit(operations)?;
        self.wait_for_one(deadline)?;
        Ok(self.reap(completions))
    }

    #[inline(always)]
    fn looked_at(&self) -> Ticks {
        self.watch.last()
    }

    fn take_unwatched(&mut self) -> u64 {
        self.watch.take()
    }
}

impl<C: Clock> Drop for UringEngine<'_, C> {
    /// Waits for everything in flight: the kernel may write to the buffers until then.
    fn drop(&mut self) {
        let mut completions = [Completion::default(); 16];
        while self.in_flight > 0 {
            if self.exchange(&[], &mut completions).is_err() {
                return self.buffers.leak();
            }
        }
        self.unregister();
    }
}
