//! The connections of a server, and its stop: wakes accept, and shuts down open connections.
//!
//! Clients that have not chosen an export are counted separately, so silent clients take no place
//! from working ones; nor does a client that has chosen an export but sent no request when another
//! needs its place.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

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
            open.push(handle.register(Arc::new(Socket::Unix(server))).unwrap());
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
}
