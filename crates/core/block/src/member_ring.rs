//! One io_uring over several files: the members of an array.
//!
//! durio-raid decides which member gets what. Clocks and measuring belong to the engines.
//!
//! ```text
//!  lend(Buffers) ──► LentBuffer ──► push, once for each member ──► exchange ──► MemberCompletion
//!                        └────────────────── take_back ◄───────────────┘
//! ```
//!
//! A buffer is lent to the ring as long as any operation may use it. A buffer that is asked back
//! earlier is kept until the last of its operations has ended, and is lost to the caller: so a
//! member that does not answer can be given up, and the kernel never writes to memory that has
//! another user.
//!
//! The ring keeps a member's file open, and its claim, until no operation is on its way, also when
//! the process is killed: the kernel lets go of a ring's files when its last request has ended. So
//! the next holder of the claim meets no late write.
//!
//! [`MemberRing::buffers`] makes buffers whose pages the kernel knows: it need not look them up and pin them
//! for each operation.
//!
//! The ring also carries the requests of a queue of a ublk device, so one thread waits for both.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::buffers::SlotMemory;
use crate::engines::{Ring, RingDescriptor, is_transient};
use crate::{BlockError, Buffers, UblkQueue, UblkRequest, WriteFlags};

/// Names the read of the waker in completions.
const WAKE: u64 = u64::MAX;
/// Identifies the end of a wait without an event.
const PATIENCE: u64 = u64::MAX - 1;
/// Names, with a tag, what a ublk queue waits for.
const UBLK: u64 = 1 << 63;
/// Names an operation without a buffer, with its tag; one that has a buffer is named by both, as in
/// [`name_of`]. There are fewer buffers.
const NO_BUFFER: u32 = u32::MAX >> 1;
/// Operations that may wait for a full queue of their device.
const WAITING_MAX: u32 = 512;
/// An eventfd is read as a number of 64 bits.
const WAKE_BYTES: u32 = 8;

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberAction {
    /// Read into the buffer.
    Read,
    /// Write the buffer; durable at its completion with [`WriteFlags::Dsync`].
    Write(WriteFlags),
    /// Make durable what completed before.
    Flush,
}

/// An operation on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberOperation {
    /// The member, as it was given to [`MemberRing::set_member`].
    pub member: u32,
    pub action: MemberAction,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// Bytes, from the start of the buffer; ignored for a flush.
    pub length: u32,
    /// Comes back with the completion.
    pub tag: u32,
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberCompletion {
    pub tag: u32,
    /// Bytes moved, zero for a flush, or a negated errno.
    pub result: i32,
}

/// A buffer that the ring has, by the caller's name for it. It is given back by
/// [`MemberRing::take_back`] and no other way.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct LentBuffer(u32);

/// Ends the wait of a ring from any thread.
#[derive(Debug, Clone)]
pub struct RingWaker(Arc<OwnedFd>);

impl RingWaker {
    /// A waker for one ring.
    pub fn new() -> Result<Self, BlockError> {
        let made = eventfd(0, EventfdFlags::CLOEXEC);
        let made = made.map_err(|errno| BlockError::new("make an eventfd", errno))?;
        Ok(Self(Arc::new(made)))
    }

    /// Has the wait that is on its way end, or the next one.
    pub fn wake(&self) {
        // It fails only when 2^64 - 2 wakes are unread: then the ring wakes anyway.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

#[derive(Debug)]
struct LentBuffers {
    buffer: Buffers,
    in_flight: u32,
    /// The caller has given it up.
    is_given_up: bool,
    /// The kernel keeps its pages.
    is_registered: bool,
}

/// A ring over members, made in the thread that uses it.
pub struct MemberRing {
    ring: IoUring,
    members: u32,
    lent: Vec<Option<LentBuffers>>,
    free_lent: Vec<u32>,
    in_flight: usize,
    waker: RingWaker,
    /// What the kernel knows the pages of.
    registered: Option<Arc<SlotMemory>>,
    /// What the waker's read fills.
    wake_count: Buffers,
    is_watching: bool,
    has_patience: bool,
    is_patience_over: bool,
    ublk: Option<UblkQueue>,
    requests: VecDeque<UblkRequest>,
}

impl std::fmt::Debug for MemberRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberRing").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

impl MemberRing {
    /// A ring for `members` members, none of which is there yet. `depth` operations are handed to
    /// the kernel in one call; more may be on their way.
    pub fn new(members: u32, depth: u32, waker: RingWaker) -> Result<Self, BlockError> {
        let ring = Ring::new(depth)?.ring;
        // A place for each file, and one for what claims it.
        let none = vec![-1; members as usize * 2];
        let registered = ring.submitter().register_files(&none);
        registered.map_err(|error| BlockError::new("register files with io_uring", error))?;
        // What finds a device's queue full waits in a worker of the kernel's. By default there are four for
        // each processor, and one busy member takes all of them from the others. Linux before 5.15 keeps
        // those: it is slower, not wrong.
        let _ = ring.submitter().register_iowq_max_workers(&mut [WAITING_MAX, 0]);
        Ok(Self {
            ring,
            members,
            lent: Vec::new(),
            free_lent: Vec::new(),
            in_flight: 0,
            waker,
            registered: None,
            wake_count: Buffers::new(1, WAKE_BYTES as usize),
            is_watching: false,
            has_patience: false,
            is_patience_over: false,
            ublk: None,
            requests: VecDeque::new(),
        })
    }

    /// Takes the file of a member, and a descriptor that claims it for this process. Without a file
    /// the member is gone: operations on their way to it continue, and end at some time.
    ///
    /// # Panics
    /// If the member does not exist.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "closed here: the ring holds its own references"
    )]
    pub fn set_member(
        &mut self,
        member: u32,
        files: Option<(OwnedFd, Option<OwnedFd>)>,
    ) -> Result<(), BlockError> {
        assert!(member < self.members, "member {member} of {}", self.members);
        let raw = |file: Option<&OwnedFd>| file.map_or(-1, AsRawFd::as_raw_fd);
        let (file, claim) =
            files.as_ref().map_or((None, None), |pair| (Some(&pair.0), pair.1.as_ref()));
        for (place, file) in [(member, raw(file)), (self.members + member, raw(claim))] {
            let updated = self.ring.submitter().register_files_update(place, &[file]);
            updated.map_err(|error| BlockError::new("register a file with io_uring", error))?;
        }
        Ok(())
    }

    /// Makes buffers of one slot each, to be lent to this ring: the kernel keeps their pages for
    /// it. Where that is not permitted (RLIMIT_MEMLOCK of plain users before Linux 5.12), they are
    /// ordinary buffers.
    pub fn buffers(
        &mut self,
        count: usize,
        length: usize,
    ) -> Result<impl Iterator<Item = Buffers>, BlockError> {
        let buffers = Buffers::try_new(count, length)?;
        let addresses = buffers.memory().addresses();
        let all = libc::iovec { iov_base: addresses.start as *mut _, iov_len: addresses.len() };
        // SAFETY: the memory stays until the ring has ended, for `registered` keeps it.
        if unsafe { self.ring.submitter().register_buffers(&[all]) }.is_ok() {
            self.registered = Some(Arc::clone(buffers.memory()));
        }
        Ok(buffers.split())
    }

    /// Takes a buffer of one slot, for operations that name it.
    ///
    /// # Panics
    /// If it has several slots.
    pub fn lend(&mut self, buffer: Buffers) -> LentBuffer {
        assert_eq!(buffer.count(), 1, "slots of a buffer that is lent");
        let address = buffer.slot_pointer(0) as usize;
        let is_known = |memory: &Arc<SlotMemory>| memory.addresses().contains(&address);
        let is_registered = self.registered.as_ref().is_some_and(is_known);
        let lent = Some(LentBuffers { buffer, in_flight: 0, is_given_up: false, is_registered });
        if let Some(index) = self.free_lent.pop() {
            self.lent[index as usize] = lent;
            return LentBuffer(index);
        }
        self.lent.push(lent);
        // As many as fit into memory.
        LentBuffer(u32::try_from(self.lent.len() - 1).unwrap_or(NO_BUFFER))
    }

    /// The contents of a lent buffer; none while an operation on it is on its way.
    #[must_use]
    pub fn contents(&self, buffer: &LentBuffer) -> Option<&[u8]> {
        let lent = self.lent.get(buffer.0 as usize)?.as_ref();
        lent.filter(|lent| lent.in_flight == 0).map(|lent| lent.buffer.slot(0))
    }

    /// Returns a buffer; none if an operation is on its way with it, after which it is freed.
    pub fn take_back(&mut self, buffer: LentBuffer) -> Option<Buffers> {
        let LentBuffer(index) = self.idle(buffer)?;
        self.free_lent.push(index);
        self.lent[index as usize].take().map(|lent| lent.buffer)
    }

    /// The buffer, if no operation is on its way with it; else it is freed after that.
    pub fn idle(&mut self, buffer: LentBuffer) -> Option<LentBuffer> {
        let lent = self.lent[buffer.0 as usize].as_mut()?;
        lent.is_given_up = lent.in_flight > 0;
        (!lent.is_given_up).then_some(buffer)
    }

    /// Serves a queue of a ublk device: requests come with [`MemberRing::exchange`]. `buffer` gives one of a
    /// chunk, for each tag. If there are several queues, this thread runs where its requests come from.
    ///
    /// # Panics
    /// If a buffer is too small.
    pub fn serve(
        &mut self,
        queue: UblkQueue,
        mut buffer: impl FnMut() -> Buffers,
    ) -> Result<(), BlockError> {
        queue.bind_thread();
        let tags = 0..queue.depth();
        self.ublk = Some(queue);
        for tag in tags {
            let lent = self.lend(buffer());
            self.await_request(tag, None, lent)?;
        }
        self.enter(0)
    }

    /// Whether a queue of a ublk device is served here.
    #[must_use]
    pub const fn serves_queue(&self) -> bool {
        self.ublk.is_some()
    }

    /// A request that has come.
    pub fn next_request(&mut self) -> Option<UblkRequest> {
        self.requests.pop_front()
    }

    /// Answers a request, with bytes or a negated errno. The buffer holds the data of a read; it
    /// has the size of a chunk, and the next request of this tag gets it.
    ///
    /// # Panics
    /// If the request does not exist, or the buffer is too small or not lent.
    pub fn answer(&mut self, tag: u16, result: i32, buffer: LentBuffer) -> Result<(), BlockError> {
        self.await_request(tag, Some(result), buffer)
    }

    /// Has a tag wait for a request, whose data may come into this buffer from now on.
    fn await_request(
        &mut self,
        tag: u16,
        answer: Option<i32>,
        buffer: LentBuffer,
    ) -> Result<(), BlockError> {
        let lent = self.lent[buffer.0 as usize].as_mut().expect("it is there until taken back");
        lent.in_flight += 1;
        let queue = self.ublk.as_mut().expect("requests come of a queue");
        let entry = queue.await_request(tag, answer, buffer, &lent.buffer);
        self.push_entry(&entry.user_data(UBLK | u64::from(tag)))
    }

    /// Operations that have not ended.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Adds an operation, which the next [`MemberRing::exchange`] hands to the kernel, or this call if
    /// there are many.
    ///
    /// # Panics
    /// If the member does not exist, or a transfer has no buffer or more bytes than its buffer.
    pub fn push(
        &mut self,
        operation: MemberOperation,
        buffer: Option<&LentBuffer>,
    ) -> Result<(), BlockError> {
        assert!(operation.member < self.members, "member {}", operation.member);
        let buffer =
            buffer.map(|slice| slice.0).filter(|_| operation.action != MemberAction::Flush);
        let lent = buffer.and_then(|index| self.lent[index as usize].as_mut());
        let (pointer, is_registered) = match lent {
            Some(lent) => {
                let room = lent.buffer.slot_length();
                assert!(operation.length as usize <= room, "{operation:?} in {room} bytes");
                lent.in_flight += 1;
                (lent.buffer.slot_pointer(0), lent.is_registered)
            }
            None => {
                assert_eq!(operation.action, MemberAction::Flush, "a transfer without a buffer");
                (std::ptr::null_mut(), false)
            }
        };
        self.in_flight += 1;
        let name = name_of(buffer.unwrap_or(NO_BUFFER), operation.tag);
        let entry = entry_of(&operation, pointer, is_registered).user_data(name);
        self.push_entry(&entry)
    }

    fn push_entry(&mut self, entry: &squeue::Entry) -> Result<(), BlockError> {
        loop {
            // SAFETY: the entry's pointer is that of a lent buffer, which has room for its length
            // (asserted) and is freed only when no operation is on its way with it, or it is the
            // waker's count, which lives as long; `drop` waits for both. Or it is that of a ublk tag,
            // which has room for the longest request and is leaked while the tag waits for one.
            let pushed = unsafe { self.ring.submission().push(entry) };
            if pushed.is_ok() {
                return Ok(());
            }
            self.enter(0)?;
        }
    }

    /// Hands over the pushed operations and adds those that ended to `completions`. If none has, it
    /// waits for a completion or a wake, at most `patience`, which counts from an earlier call if
    /// that did not use it up; with no patience it does not wait. True if a patience has passed
    /// since the last call, so a caller that always passes one need not read a clock.
    ///
    /// # Errors
    /// If the kernel refuses. A failed operation is a completion with a negative result.
    pub fn exchange(
        &mut self,
        patience: Duration,
        completions: &mut Vec<MemberCompletion>,
    ) -> Result<bool, BlockError> {
        if !self.is_watching {
            self.watch()?;
        }
        if patience.is_zero() {
            self.enter(0)?;
        } else {
            self.enter_for(patience)?;
        }
        self.reap(completions);
        Ok(std::mem::take(&mut self.is_patience_over))
    }

    fn watch(&mut self) -> Result<(), BlockError> {
        let file = types::Fd(self.waker.0.as_raw_fd());
        let pointer = self.wake_count.slot_pointer(0);
        let read = opcode::Read::new(file, pointer, WAKE_BYTES);
        self.push_entry(&read.build().user_data(WAKE))?;
        self.is_watching = true;
        Ok(())
    }

    /// Hands over the pushed operations, and waits for `wanted` completions.
    fn enter(&mut self, wanted: u32) -> Result<(), BlockError> {
        let descriptor = RingDescriptor::plain(self.ring.as_raw_fd());
        loop {
            let queued = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
            // SAFETY: the entries were pushed under the conditions of `push_entry`.
            match unsafe { descriptor.enter(queued, wanted) } {
                Ok(taken) if taken == queued => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                // Completions must be taken first, or memory is short: the caller comes again.
                Err(error) if is_transient(error) && !self.ring.completion().is_empty() => {
                    return Ok(());
                }
                Err(error) if is_transient(error) => std::thread::yield_now(),
                Err(error) => return Err(BlockError::new("enter io_uring", error)),
            }
        }
    }

    /// Waits for a completion. What ends the wait otherwise is one more operation, and stays for the next
    /// wait when something came before: a timer for each wait costs more than all else here.
    fn enter_for(&mut self, patience: Duration) -> Result<(), BlockError> {
        if !self.has_patience {
            let until = types::Timespec::from(patience);
            // The kernel reads the time when it takes the entry, which is in `enter`.
            let entry = opcode::Timeout::new(&raw const until).build().user_data(PATIENCE);
            self.push_entry(&entry)?;
            self.has_patience = true;
            return self.enter(1);
        }
        self.enter(1)
    }

    fn reap(&mut self, completions: &mut Vec<MemberCompletion>) {
        let Self { ring, ublk, .. } = self;
        for entry in ring.completion() {
            match entry.user_data() {
                WAKE => self.is_watching = false,
                PATIENCE => (self.has_patience, self.is_patience_over) = (false, true),
                of_tag if of_tag & UBLK != 0 => {
                    #[expect(clippy::cast_possible_truncation, reason = "a tag, as pushed")]
                    let tag = of_tag as u16;
                    let Some(ended) = ublk.as_mut().and_then(|queue| queue.ended(tag)) else {
                        continue;
                    };
                    release(ended.buffer.0, &mut self.lent, &mut self.free_lent);
                    // Else the device is gone; the buffer stays, unused, as long as the ring.
                    if entry.result() == 0 {
                        self.requests.push_back(ended);
                    }
                }
                name => {
                    #[expect(clippy::cast_possible_truncation, reason = "as in `name_of`")]
                    let (buffer, tag) = ((name >> 32) as u32, name as u32);
                    self.in_flight -= 1;
                    if buffer != NO_BUFFER {
                        release(buffer, &mut self.lent, &mut self.free_lent);
                    }
                    completions.push(MemberCompletion { tag, result: entry.result() });
                }
            }
        }
    }

    /// Waits for the waker's read, and for every operation.
    fn drain(&mut self) -> Result<(), BlockError> {
        let mut completions = Vec::new();
        self.waker.wake();
        while self.in_flight > 0 || self.is_watching {
            self.enter(1)?;
            self.reap(&mut completions);
        }
        Ok(())
    }

    /// Gives up operations of members that do not answer: memory that they may still use is lost, and
    /// the ring's end does not wait for them.
    pub fn abandon(&mut self) {
        self.lent.iter_mut().flatten().for_each(|lent| lent.buffer.leak());
        self.wake_count.leak();
        (self.in_flight, self.is_watching) = (0, false);
    }
}

impl Drop for MemberRing {
    /// Waits for everything in flight: the kernel may write to the buffers until then.
    fn drop(&mut self) {
        let drained = self.drain();
        // Now, not some time after the ring is closed: the next user must find no claim.
        let _ = self.ring.submitter().unregister_files();
        // Buffers that the kernel may still fill.
        let waiting = self.ublk.iter_mut().flat_map(UblkQueue::waiting);
        for LentBuffer(index) in waiting {
            self.lent[index as usize].iter_mut().for_each(|lent| lent.buffer.leak());
        }
        if drained.is_err() {
            self.lent.iter_mut().flatten().for_each(|lent| lent.buffer.leak());
            self.wake_count.leak();
        }
    }
}

/// An operation's name: its buffer and the caller's tag.
fn name_of(buffer: u32, tag: u32) -> u64 {
    u64::from(buffer) << 32 | u64::from(tag)
}

/// An operation on a buffer has ended.
fn release(buffer: u32, lent: &mut [Option<LentBuffers>], free: &mut Vec<u32>) {
    let place = &mut lent[buffer as usize];
    let Some(held) = place else { return };
    held.in_flight -= 1;
    if held.in_flight == 0 && held.is_given_up {
        *place = None;
        free.push(buffer);
    }
}

fn entry_of(operation: &MemberOperation, pointer: *mut u8, is_registered: bool) -> squeue::Entry {
    let &MemberOperation { member, action, offset, length, .. } = operation;
    let file = types::Fixed(member);
    match (action, is_registered) {
        (MemberAction::Read, true) => {
            opcode::ReadFixed::new(file, pointer, length, 0).offset(offset).build()
        }
        (MemberAction::Read, false) => {
            opcode::Read::new(file, pointer, length).offset(offset).build()
        }
        (MemberAction::Write(flags), true) => {
            let write = opcode::WriteFixed::new(file, pointer, length, 0);
            write.offset(offset).rw_flags(flags.bits()).build()
        }
        (MemberAction::Write(flags), false) => {
            let write = opcode::Write::new(file, pointer, length);
            write.offset(offset).rw_flags(flags.bits()).build()
        }
        (MemberAction::Flush, _) => {
            opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build()
        }
    }
}

#[cfg(test)]
mod tests;
