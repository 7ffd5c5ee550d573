//! The connections of a server: how many there may be, the memory that they share for large requests,
//! and their end.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::NbdError;
use crate::socket::Socket;

/// Connections that have chosen an export; one more is refused, if each of them has sent a request.
const CONNECTIONS_MAX: usize = 64;

/// Clients that have not chosen an export. One more closes the first of them.
const GREETED_MAX: usize = 32;

/// Ends a server from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle(Arc<StopState>);

#[derive(Debug)]
struct StopState {
    stopped: AtomicBool,
    /// Readable once the server is stopped: accept waits for this and for clients.
    awaited: PipeReader,
    wake: PipeWriter,
    open: Mutex<ConnectionTable>,
    budget: Budget,
}

/// Connections, each under a unique number, in the order in which they came.
///
/// Clients that have not chosen an export are counted separately, so silent clients take no place
/// from working ones; nor does a client that has chosen an export but sent no request when another
/// needs its place.
#[derive(Debug, Default)]
struct ConnectionTable {
    sockets: BTreeMap<u64, (Arc<Socket>, ClientStage)>,
    next: u64,
}

/// The stage of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientStage {
    /// It has not chosen an export.
    Greeted,
    /// It has, and has asked for nothing.
    Idle,
    /// It has asked for something.
    Used,
}

impl ConnectionTable {
    fn count(&self, is_counted: impl Fn(ClientStage) -> bool) -> usize {
        self.sockets.values().filter(|(_, stage)| is_counted(*stage)).count()
    }

    /// False if it was closed in the meantime.
    fn advance(&mut self, number: u64, stage: ClientStage) -> bool {
        let known = self.sockets.get_mut(&number);
        known.map(|(_, of)| *of = stage).is_some()
    }

    /// Closes the first connection at this stage; false if no connection is at it.
    fn evict(&mut self, stage: ClientStage) -> bool {
        let first = self.sockets.iter().find(|(_, (_, of))| *of == stage);
        let Some(number) = first.map(|(number, _)| *number) else { return false };
        if let Some((socket, _)) = self.sockets.remove(&number) {
            socket.shut_down();
        }
        true
    }
}

impl StopHandle {
    pub(super) fn new() -> Result<Self, NbdError> {
        let (awaited, wake) = io::pipe().map_err(|error| NbdError::new("make a pipe", error))?;
        let stopped = AtomicBool::new(false);
        let (open, budget) = (Mutex::default(), Budget::new());
        Ok(Self(Arc::new(StopState { stopped, awaited, wake, open, budget })))
    }

    /// Ends the server: it accepts no more clients, and closes each open connection after its
    /// current batch. Repeated calls have no effect.
    pub fn stop(&self) {
        if self.0.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        // An unread pipe has room for a byte.
        let _ = (&self.0.wake).write_all(&[0]);
        self.lock().sockets.values().for_each(|(socket, _)| socket.shut_down());
        self.0.budget.end();
    }

    /// True from the first [`StopHandle::stop`] on.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Readable from the end on.
    pub(super) fn awaited(&self) -> BorrowedFd<'_> {
        self.0.awaited.as_fd()
    }

    /// Memory for unusually large requests.
    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Registers a connected client; `None` if the limit of clients is reached, or if the server
    /// ends.
    pub(super) fn register(&self, socket: Arc<Socket>) -> Option<OpenConnection<'_>> {
        let mut open = self.lock();
        // Under the lock: a later stop finds the connection in the list.
        if self.is_stopped() || open.count(|stage| stage == ClientStage::Used) >= CONNECTIONS_MAX {
            return None;
        }
        if open.count(|stage| stage == ClientStage::Greeted) >= GREETED_MAX {
            open.evict(ClientStage::Greeted);
        }
        let number = open.next;
        open.next += 1;
        open.sockets.insert(number, (Arc::clone(&socket), ClientStage::Greeted));
        Some(OpenConnection { handle: self, number, socket })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that a stop would shut down, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection<'h> {
    handle: &'h StopHandle,
    number: u64,
    socket: Arc<Socket>,
}

impl OpenConnection<'_> {
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The client has chosen an export; false if the server is full.
    pub(super) fn chooses(&self) -> bool {
        let mut open = self.handle.lock();
        let is_full = open.count(|stage| stage != ClientStage::Greeted) >= CONNECTIONS_MAX;
        (!is_full || open.evict(ClientStage::Idle)) && open.advance(self.number, ClientStage::Idle)
    }

    /// The client has sent a request; false if it was closed in the meantime.
    pub(super) fn asks(&self) -> bool {
        self.handle.lock().advance(self.number, ClientStage::Used)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.handle.lock().sockets.remove(&self.number);
    }
}

/// Memory for large requests of all clients: eight of the largest.
pub(super) const BUDGET: usize = 8 * crate::PAYLOAD_MAX as usize + 8 * RESERVE;
/// For their heads, and for small requests in front of them.
const RESERVE: usize = 1 << 20;

/// Memory for large requests of all connections; a request waits until its memory is free.
///
/// Most requests are small, and each connection has memory for those. A larger request reserves all
/// its memory at once, before its data has come: two requests that each had half would wait for
/// each other.
#[derive(Debug)]
pub(super) struct Budget {
    /// Free bytes; `None` when the server ends.
    free: Mutex<Option<usize>>,
    changed: Condvar,
}

/// Reserved bytes, until this is dropped.
#[derive(Debug)]
pub(super) struct BudgetShare<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self { free: Mutex::new(Some(BUDGET)), changed: Condvar::new() }
    }

    /// Waits until this many bytes are free; `None` if the server ends.
    pub(super) fn take(&self, bytes: usize) -> Option<BudgetShare<'_>> {
        let bytes = bytes.min(BUDGET);
        let mut free = self.lock();
        loop {
            match &mut *free {
                None => return None,
                Some(left) if *left >= bytes => {
                    *left -= bytes;
                    return Some(BudgetShare { budget: self, bytes });
                }
                Some(_) => {}
            }
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn end(&self) {
        *self.lock() = None;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BudgetShare<'_> {
    fn drop(&mut self) {
        if let Some(free) = &mut *self.budget.lock() {
            *free += self.bytes;
        }
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn of_more_than_32_clients_that_have_not_chosen_the_first_is_closed() {
        let handle = StopHandle::new().unwrap();
        let mut clients = Vec::new();
        let mut open = Vec::new();
        for _ in 0..33 {
            let (client, server) = UnixStream::pair().unwrap();
            client.set_nonblocking(true).unwrap();
            clients.push(client);
            open.push(handle.register(Arc::new(Socket::from(server))).unwrap());
            let mut read = || clients[0].read(&mut [0]).map_err(|error| error.kind());
            let expected = if open.len() <= 32 { Err(io::ErrorKind::WouldBlock) } else { Ok(0) };
            assert_eq!(read(), expected, "{} clients", open.len());
        }
        let second = clients[1].read(&mut [0]).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        // The place of the first is gone, and the others can choose.
        let chosen: Vec<_> = open.iter().map(OpenConnection::chooses).collect();
        assert_eq!(chosen, [&[false][..], &[true; 32]].concat());
    }

    #[test]
    fn eight_of_the_largest_requests_have_memory_and_a_ninth_waits_for_one_of_them() {
        let budget = Budget::new();
        let largest = crate::PAYLOAD_MAX as usize + 28;
        let mut shares: Vec<_> = (0..8).map(|_| budget.take(largest).unwrap()).collect();
        // 1 MiB for each is left, without the heads of the requests.
        assert_eq!(*budget.lock(), Some(8 * 1_048_576 - 8 * 28));
        thread::scope(|scope| {
            let ninth = scope.spawn(|| budget.take(largest).is_some());
            thread::sleep(Duration::from_millis(20));
            assert!(!ninth.is_finished());
            shares.pop();
            assert!(ninth.join().unwrap());
        });
        drop(shares);
        assert_eq!(*budget.lock(), Some(BUDGET));
    }

    #[test]
    fn nobody_waits_for_memory_of_a_server_that_ends() {
        let budget = Budget::new();
        let all = budget.take(usize::MAX).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.take(1).is_none());
            thread::sleep(Duration::from_millis(20));
            budget.end();
            assert!(waiting.join().unwrap());
        });
        drop(all);
        assert!(budget.take(1).is_none());
    }
}
