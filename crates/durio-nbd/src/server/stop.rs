//! The end of a server: accept is woken, and open connections are shut down.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::NbdError;
use crate::socket::Socket;

/// Ends a server from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stopped: AtomicBool,
    /// Readable from the end on: what accept waits for besides clients.
    awaited: PipeReader,
    wake: PipeWriter,
    open: Mutex<Open>,
}

/// Connections, each under a number of its own.
#[derive(Debug, Default)]
struct Open {
    sockets: BTreeMap<u64, Arc<Socket>>,
    next: u64,
}

impl StopHandle {
    pub(super) fn new() -> Result<Self, NbdError> {
        let (awaited, wake) = io::pipe().map_err(|error| NbdError::new("make a pipe", error))?;
        let stopped = AtomicBool::new(false);
        Ok(Self(Arc::new(Shared { stopped, awaited, wake, open: Mutex::default() })))
    }

    /// Ends the server: no further client is accepted, and the open connections are closed after
    /// what is being carried out. Again and again is the same as once.
    pub fn stop(&self) {
        if self.0.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        // A pipe that nobody has read has room for a byte.
        let _ = (&self.0.wake).write_all(&[0]);
        self.lock().sockets.values().for_each(|socket| socket.shut_down());
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

    /// Notes a connection; none if there are as many as may be, or if the server ends.
    pub(super) fn register(&self, socket: Arc<Socket>, most: usize) -> Option<OpenConnection<'_>> {
        let mut open = self.lock();
        // Under the lock: a stop after this finds the connection in the list.
        if self.is_stopped() || open.sockets.len() >= most {
            return None;
        }
        let number = open.next;
        open.next += 1;
        open.sockets.insert(number, Arc::clone(&socket));
        Some(OpenConnection { handle: self, number, socket })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
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
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.handle.lock().sockets.remove(&self.number);
    }
}
