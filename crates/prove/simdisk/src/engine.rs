//! An engine over a disk, on a virtual clock.
//!
//! Takes operations and completes them when the disk's pace and a seed say so: operations that
//! start at the same moment may end in another order.
//!
//! It stands where a kernel stands: a sync becomes a flush, a durable write one with FUA, and neither is
//! sent to a disk that declares no volatile cache (block/blk-core.c of Linux 6.12).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use durio_base::Nanos;
use durio_block::{
    BlockError, Buffers, Capabilities, Clock, Completion, Engine, EngineFacts, Operation,
    OperationKind, Ticks, VirtualClock, WriteFlags,
};

use crate::disk::{Disk, Ticket};
use crate::image::SECTOR;
use crate::{Chance, DiskError, DiskRequest};

/// The nanoseconds of an operation that does not reach the disk.
const PACE_MIN: u64 = 1000;

/// A disk that several engines, or the connections of a server, share.
#[derive(Debug, Clone)]
pub struct SharedDisk(Arc<Mutex<Disk>>);

impl SharedDisk {
    #[must_use]
    pub fn new(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Disk> {
        // Every change of a disk is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
struct QueuedOperation {
    due: Ticks,
    /// Its place in the order of submission, which decides among those due at the same time.
    number: u64,
    submitted_at: Ticks,
    operation: Operation,
    /// `None` if the disk does not see the operation, or its answer is known already.
    ticket: Option<Ticket>,
    result: i32,
}

/// An engine over a simulated disk.
///
/// It has several connections to the disk, as a kernel has several queues, and uses any of them.
#[derive(Debug)]
pub struct SimEngine {
    disk: SharedDisk,
    connections: u32,
    clock: VirtualClock,
    buffers: Buffers,
    pending: Vec<QueuedOperation>,
    busy: Vec<bool>,
    submitted_count: u64,
    chance: Chance,
    is_read_only: bool,
}

impl SimEngine {
    /// An engine whose time begins at `start`; its pace varies by `seed`.
    ///
    /// # Panics
    /// If it has no connection.
    #[must_use]
    pub fn new(
        disk: SharedDisk,
        connections: u32,
        start: Ticks,
        seed: u64,
        buffers: Buffers,
    ) -> Self {
        assert!(connections > 0, "an engine without a connection");
        let clock = VirtualClock::default();
        clock.advance_to(start);
        let slots = buffers.count();
        let pending = Vec::with_capacity(slots);
        let chance = Chance::new(seed);
        Self {
            disk,
            connections,
            clock,
            buffers,
            pending,
            busy: vec![false; slots],
            submitted_count: 0,
            chance,
            is_read_only: false,
        }
    }

    /// The same, which refuses to write.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    #[must_use]
    pub fn disk(&self) -> &SharedDisk {
        &self.disk
    }

    /// All operations of a call are checked before any of them reaches the disk.
    fn claim(&mut self, operations: &[Operation]) {
        for (at, operation) in operations.iter().enumerate() {
            let slot = operation.slot;
            assert!(!self.busy[slot as usize], "slot {slot} is in flight");
            let is_again = operations[..at].iter().any(|operation| operation.slot == slot);
            assert!(!is_again, "slot {slot} is used twice");
        }
        operations.iter().for_each(|operation| self.busy[operation.slot as usize] = true);
    }

    fn submit(&mut self, operation: &Operation, before: Option<i32>) -> i32 {
        let start = self.clock.now().max(operation.intended_start);
        let (ticket, result, pace) = match before {
            _ if operation.link => (None, -libc::EOPNOTSUPP, 0),
            Some(result) if result < 0 => (None, -libc::ECANCELED, 0),
            _ => self.begin(operation, start),
        };
        let jitter = self.chance.below(pace / 2 + 1);
        self.pending.push(QueuedOperation {
            // Nothing is free: time advances with every operation.
            due: start.plus((pace + jitter).max(PACE_MIN)),
            number: self.submitted_count,
            submitted_at: self.clock.now(),
            operation: *operation,
            ticket,
            result,
        });
        self.submitted_count += 1;
        result
    }

    /// The disk's ticket, or an answer; and the minimum duration.
    fn begin(&mut self, operation: &Operation, start: Ticks) -> (Option<Ticket>, i32, u64) {
        let connection = self.chance.below(u64::from(self.connections));
        let connection = u32::try_from(connection).unwrap_or(0);
        let disk = &mut *self.disk.lock();
        let pace = disk.profile().pace;
        let declares_cache = disk.profile().declares_cache();
        let now = Nanos::new(start.0);
        if operation.kind == OperationKind::SyncFileRange {
            return (None, -libc::EOPNOTSUPP, 0);
        }
        if !operation.offset.is_multiple_of(SECTOR as u64) {
            return (None, -libc::EINVAL, 0);
        }
        let writes = matches!(operation.kind, OperationKind::Write | OperationKind::Reallocate);
        if self.is_read_only && writes {
            return (None, -libc::EPERM, 0);
        }
        let sector = operation.offset / SECTOR as u64;
        let fua = operation.flags != WriteFlags::None && declares_cache;
        let length = operation.length;
        if operation.kind.is_transfer() && !length.is_multiple_of(SECTOR as u64) {
            return (None, -libc::EINVAL, 0);
        }
        let moved = i32::try_from(length).unwrap_or(-libc::EINVAL);
        let (request, result, pace) = match operation.kind {
            OperationKind::Read => (DiskRequest::Read { sector }, moved, pace.read),
            OperationKind::Write => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let data = &self.buffers.slot_mut(operation.slot as usize)[..length];
                let pace = if fua { pace.durable } else { pace.write };
                (DiskRequest::Write { sector, data, fua }, moved, pace)
            }
            OperationKind::Fsync | OperationKind::Fdatasync if !declares_cache => {
                return (None, 0, 0);
            }
            OperationKind::Fsync | OperationKind::Fdatasync => {
                (DiskRequest::Flush, 0, pace.durable)
            }
            OperationKind::Reallocate => {
                let sectors = length / SECTOR as u64;
                (DiskRequest::Zero { sector, sectors, fua: false }, 0, pace.write)
            }
            OperationKind::SyncFileRange => return (None, -libc::EOPNOTSUPP, 0),
        };
        match disk.begin(connection, now, request) {
            Ok(ticket) => (Some(ticket), result, pace.get()),
            Err(error) => (None, -errno(error, operation.kind), 0),
        }
    }

    fn finish(&mut self, pending: &QueuedOperation) -> Completion {
        let slot = pending.operation.slot;
        self.busy[slot as usize] = false;
        let mut result = pending.result;
        if let Some(ticket) = pending.ticket {
            // Only transfers have memory.
            let into: &mut [u8] = if pending.operation.kind == OperationKind::Read {
                let length = usize::try_from(pending.operation.length).unwrap_or(usize::MAX);
                &mut self.buffers.slot_mut(slot as usize)[..length]
            } else {
                &mut []
            };
            let ended = self.disk.lock().end(ticket, Nanos::new(pending.due.0), into);
            if let Err(error) = ended {
                result = -errno(error, pending.operation.kind);
            }
        }
        Completion { slot, result, submitted_at: pending.submitted_at, completed_at: pending.due }
    }

    /// Takes the operations, and returns the next completion, if it is due by `latest`.
    fn take(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        latest: Ticks,
    ) -> usize {
        assert!(!completions.is_empty(), "no room for completions");
        self.claim(operations);
        let mut before = None;
        for operation in operations {
            let result = self.submit(operation, before);
            before = operation.link.then_some(result);
        }
        let mut count = 0;
        while count < completions.len() {
            let due = |pending: &QueuedOperation| (pending.due, pending.number);
            let earliest = (0..self.pending.len()).min_by_key(|&at| due(&self.pending[at]));
            let Some(index) = earliest else { break };
            // Time advances only for the first completion: a batch has those of one moment.
            let limit = if count == 0 { latest } else { self.clock.now() };
            if self.pending[index].due > limit {
                break;
            }
            let pending = self.pending.swap_remove(index);
            self.clock.advance_to(pending.due);
            completions[count] = self.finish(&pending);
            count += 1;
        }
        count
    }
}

/// The kernel's error number.
fn errno(error: DiskError, kind: OperationKind) -> i32 {
    match (error, kind) {
        (DiskError::BeyondEnd, OperationKind::Write | OperationKind::Reallocate) => libc::ENOSPC,
        _ => libc::EIO,
    }
}

impl Engine for SimEngine {
    type Clock = VirtualClock;

    fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { asynchronous: true, write_flags: true, range_syncs: false, links: false }
    }

    fn facts(&self) -> EngineFacts {
        EngineFacts { features: vec!["virtual clock".to_owned()], fallbacks: Vec::new() }
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "slot {slot} is in flight");
        self.buffers.slot_mut(slot as usize)
    }

    fn exchange_until(
        &mut self,
        operations: &[Operation],
        completions: &mut [Completion],
        deadline: Ticks,
    ) -> Result<usize, BlockError> {
        let count = self.take(operations, completions, deadline);
        if count == 0 && deadline != Ticks::NEVER {
            self.clock.advance_to(deadline);
        }
        Ok(count)
    }
}
