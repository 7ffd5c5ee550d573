//! Queues between front ends and the server's threads, and among the threads: jobs, orders,
//! answers, buffers, and the array.
//!
//! A front end copies data to write into a buffer of the pool and hands that over; read data comes
//! back in one. So a client's memory is never given to the kernel.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use durio_block::{Buffers, LentBuffer, MemberRing, RingWaker};
use durio_nbd::Refusal;

use super::ServerError;
use super::array::{LockedArray, Threads};
use crate::RequestKind;
use crate::superblock::MemberTable;

/// Buffers that are kept for the next job.
pub(super) const BUFFERS_KEPT: usize = 512;

/// How long a thread spins, yielding to others, before it sleeps: about as long as a sleeping
/// thread takes to wake in a virtual machine.
pub(super) const WATCHED: Duration = Duration::from_micros(30);

/// A request, within one chunk if it reads or writes.
#[derive(Debug)]
pub(super) struct ArrayJob {
    pub(super) kind: RequestKind,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) data: WritePayload,
    pub(super) from: Asker,
}

/// The data to write, if any.
#[derive(Debug)]
pub(super) enum WritePayload {
    None,
    Own(Buffers),
    /// By the ring of the thread that has the job.
    Lent(LentBuffer),
}

/// The recipient of the answer.
#[derive(Debug)]
pub(super) enum Asker {
    /// A front end of another thread, by its name for the job.
    Mailbox(u32, Arc<Mailbox>),
    /// The ublk queue of the thread's ring, by the request's tag.
    Ublk(u16),
}

/// A job that is done.
#[derive(Debug)]
pub(super) struct FinishedJob {
    pub(super) number: u32,
    /// [`Refusal::Io`] if the array cannot do it, [`Refusal::Shutdown`] if the server is ending.
    pub(super) result: Result<(), Refusal>,
    pub(super) data: Option<Buffers>,
}

/// Where the answers of one front end's thread arrive.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    arrived: Mutex<Vec<FinishedJob>>,
    signal: Condvar,
}

impl Mailbox {
    pub(super) fn put(&self, done: FinishedJob) {
        let mut arrived = self.lock();
        arrived.push(done);
        if arrived.len() == 1 {
            self.signal.notify_one();
        }
    }

    /// Waits for at least one.
    pub(super) fn take(&self) -> Vec<FinishedJob> {
        let begin = Instant::now();
        let mut arrived = self.lock();
        while arrived.is_empty() && begin.elapsed() < WATCHED {
            drop(arrived);
            std::thread::yield_now();
            arrived = self.lock();
        }
        while arrived.is_empty() {
            arrived = self.signal.wait(arrived).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut *arrived)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FinishedJob>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task from another thread, with the ring of the thread that gets it.
pub(super) type ThreadOrder = Box<dyn FnOnce(&mut MemberRing, &mut LockedArray) + Send>;

#[derive(Default)]
pub(super) struct QueuedWork {
    pub(super) jobs: Vec<ArrayJob>,
    pub(super) orders: Vec<ThreadOrder>,
    has_ended: bool,
}

/// State shared by front ends and the server's threads.
pub(super) struct ServerState {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) chunk: u32,
    /// The members' alignment of offsets and lengths.
    pub(super) alignment: u32,
    array: Mutex<LockedArray>,
    /// One for each thread.
    pub(super) desks: Vec<Arc<Desk>>,
    connections: AtomicUsize,
    #[cfg(test)]
    pub(super) probe: super::tests::RingProbe,
}

/// Where things are left for one of the server's threads.
pub(super) struct Desk {
    chunk: u32,
    incoming: Mutex<QueuedWork>,
    /// `incoming` is not empty: a check costs less than a lock.
    has_come: AtomicBool,
    pool: Mutex<Vec<Buffers>>,
    is_asleep: AtomicBool,
    pub(super) waker: RingWaker,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerState").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ServerState {
    pub(super) fn new(
        table: &MemberTable,
        alignment: u32,
        array: LockedArray,
        wakers: impl Iterator<Item = RingWaker>,
    ) -> Self {
        let chunk = table.geometry.chunk;
        Self {
            name: table.name.clone(),
            size: table.geometry.size(),
            chunk,
            alignment,
            array: Mutex::new(array),
            desks: wakers.map(|waker| Arc::new(Desk::new(chunk, waker))).collect(),
            connections: AtomicUsize::new(0),
            #[cfg(test)]
            probe: super::tests::RingProbe::default(),
        }
    }

    /// The array, unless a thread has left it in the middle of something.
    pub(super) fn array(&self) -> Result<MutexGuard<'_, LockedArray>, ServerError> {
        self.array.lock().map_err(|_| ServerError::Ended)
    }

    /// Wakes threads to take the work left for them.
    pub(super) fn wake(&self, threads: Threads) {
        if threads != 0 {
            let is_meant = |(at, _): &(usize, &Arc<Desk>)| threads >> at & 1 != 0;
            self.desks.iter().enumerate().filter(is_meant).for_each(|(_, desk)| desk.announce());
        }
    }

    /// Ends the array, because a thread has ended, in order or not. Returns the thread's
    /// unprocessed input.
    pub(super) fn end(&self, thread: u8) -> QueuedWork {
        // Also one that is in the middle of something is over.
        self.array.lock().unwrap_or_else(PoisonError::into_inner).end();
        self.wake(Threads::MAX);
        self.desks[usize::from(thread)].end()
    }

    /// Connections go to the threads in turn.
    pub(super) fn desk_of_connection(&self) -> &Desk {
        &self.desks[self.connections.fetch_add(1, Ordering::Relaxed) % self.desks.len()]
    }
}

impl Desk {
    fn new(chunk: u32, waker: RingWaker) -> Self {
        Self {
            chunk,
            incoming: Mutex::default(),
            has_come: AtomicBool::new(false),
            pool: Mutex::default(),
            is_asleep: AtomicBool::new(false),
            waker,
        }
    }

    /// Hands jobs over; gives them back if the thread has ended.
    pub(super) fn push_jobs(&self, jobs: Vec<ArrayJob>) -> Result<(), Vec<ArrayJob>> {
        let mut incoming = self.lock();
        if incoming.has_ended {
            return Err(jobs);
        }
        incoming.jobs.extend(jobs);
        drop(incoming);
        self.announce();
        Ok(())
    }

    pub(super) fn push_order(&self, order: ThreadOrder) -> Result<(), ServerError> {
        let mut incoming = self.lock();
        if incoming.has_ended {
            return Err(ServerError::Ended);
        }
        incoming.orders.push(order);
        drop(incoming);
        self.announce();
        Ok(())
    }

    /// Announces new input. Wakes a sleeping thread once.
    fn announce(&self) {
        self.has_come.store(true, Ordering::SeqCst);
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Announces that the thread is about to sleep; false if something has arrived in the meantime.
    /// The order matters: input that arrives after the check finds the thread asleep.
    pub(super) fn falls_asleep(&self) -> bool {
        self.is_asleep.store(true, Ordering::SeqCst);
        let is_empty = !self.has_come.load(Ordering::SeqCst);
        if !is_empty {
            self.awakes();
        }
        is_empty
    }

    pub(super) fn awakes(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    /// The pending input, if any.
    pub(super) fn take(&self) -> Option<QueuedWork> {
        if !self.has_come.load(Ordering::SeqCst) {
            return None;
        }
        let mut incoming = self.lock();
        // A later push sets it again.
        self.has_come.store(false, Ordering::SeqCst);
        let has_ended = incoming.has_ended;
        Some(std::mem::replace(&mut incoming, QueuedWork { has_ended, ..QueuedWork::default() }))
    }

    /// Closes the queue and returns its unprocessed input.
    fn end(&self) -> QueuedWork {
        let mut incoming = self.lock();
        let rest = std::mem::take(&mut *incoming);
        incoming.has_ended = true;
        rest
    }

    /// A buffer of a chunk.
    pub(super) fn buffer(&self) -> Buffers {
        let free = self.pool().pop();
        free.unwrap_or_else(|| Buffers::new(1, self.chunk as usize))
    }

    /// The same with this in it.
    pub(super) fn copy_of(&self, source: &[u8]) -> Buffers {
        let mut copy = self.buffer();
        copy.slot_mut(0)[..source.len()].copy_from_slice(source);
        copy
    }

    pub(super) fn give_back(&self, buffer: Buffers) {
        let mut pool = self.pool();
        if pool.len() < BUFFERS_KEPT {
            pool.push(buffer);
        }
    }

    fn pool(&self) -> MutexGuard<'_, Vec<Buffers>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, QueuedWork> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
