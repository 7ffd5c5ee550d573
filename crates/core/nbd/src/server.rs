//! The server: an address, a thread for each connection, and an end.
//!
//! ```text
//!  bind ──► serve: accept ──► thread: handshake ──► session: requests in batches ──► Connection
//!             ▲                          └──── either ends with the connection ────┘
//!  StopHandle ┘ wakes accept, and shuts the open connections down
//! ```
//!
//! Serves a [`Storage`] at an address. TLS is not supported (a client that asks for it is refused),
//! and access is limited only by the permissions of the socket's folder, or by the network.

mod connections;
mod handshake;
mod session;
mod stream;

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, recv};

use crate::socket::{Listener, Socket, WatchedSocket};
use crate::{Address, NbdError, NbdErrorKind, Storage};
use connections::{Budget, OpenConnection};

pub use connections::StopHandle;

/// How long a client may take to choose an export: longer than any program takes.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a client may be silent within a request, or leave its answers unread: others may wait
/// for its memory.
const WITHIN_REQUEST: Duration = Duration::from_secs(60);

/// The wait for a full file table or another transient shortage.
const BREATH: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Server {
    listener: Listener,
    stop: StopHandle,
}

impl Server {
    /// Binds an address. A unix socket without a listener is replaced; the port 0 is any free one.
    ///
    /// # Errors
    /// If a server answers there, if the file is not a socket, or if the system refuses.
    pub fn bind(address: &Address) -> Result<Self, NbdError> {
        let listener = Listener::bind(address)?;
        Ok(Self { listener, stop: StopHandle::new()? })
    }

    /// Its address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> Address {
        self.listener.address()
    }

    /// The handle that ends [`Server::serve`].
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Serves clients, each in a separate thread, until it is stopped. A client's error ends only
    /// its connection.
    ///
    /// # Panics
    /// If the storage panics, or if it exports sizes that the protocol does not permit.
    pub fn serve(&self, storage: &dyn Storage) -> Result<(), NbdError> {
        storage.export().assert_valid();
        let outcome = thread::scope(|scope| {
            let accepted = self.accept_until_stopped(&|socket| {
                thread::Builder::new()
                    .name("nbd connection".to_owned())
                    .spawn_scoped(scope, move || self.serve_client(socket, storage))
                    .map(drop)
            });
            // An error ends the connections too: the scope waits for their threads.
            self.stop.stop();
            accepted
        });
        outcome.map_err(|error| NbdError::new("accept connections", error))
    }

    fn accept_until_stopped(&self, begin: &dyn Fn(Socket) -> io::Result<()>) -> io::Result<()> {
        while self.wait_for_client()? {
            match self.listener.accept().and_then(begin) {
                Ok(()) => {}
                Err(error) if is_passing(&error) => thread::sleep(BREATH),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// False if it is to end.
    fn wait_for_client(&self) -> io::Result<bool> {
        let mut awaited = [self.listener.as_fd(), self.stop.awaited()]
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        match poll(&mut awaited, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!self.stop.is_stopped()),
            Err(error) => Err(error.into()),
        }
    }

    fn serve_client(&self, socket: Socket, storage: &dyn Storage) {
        // A client beyond the limit sees its connection closed.
        let Some(open) = self.stop.register(Arc::new(socket)) else { return };
        // A client's error is not reported on this side.
        let _ = serve_socket(&open, &self.stop, storage);
    }
}

/// Transient errors: a connection lost before it was accepted, or a temporary lack of resources.
fn is_passing(error: &io::Error) -> bool {
    let wants = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EAGAIN];
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
        || error.raw_os_error().is_some_and(|code| wants.contains(&code))
}

fn serve_socket(
    open: &OpenConnection<'_>,
    stop: &StopHandle,
    storage: &dyn Storage,
) -> Result<(), NbdError> {
    let socket = open.socket();
    let set = |timeout| {
        socket.set_timeout(timeout).map_err(|error| NbdError::new("set a timeout", error))
    };
    let mut stream = DeadlineSocket { socket, deadline: Instant::now() + HANDSHAKE };
    let Some(agreed) = handshake::run(&mut stream, storage.export())? else { return Ok(()) };
    set(None)?;
    if !open.chooses() {
        return Ok(());
    }
    let mut connection = storage.connect();
    if !has_come(socket) || !open.asks() {
        return Ok(());
    }
    set(Some(WITHIN_REQUEST))?;
    session::run(&mut WatchedSocket(socket), connection.as_mut(), &agreed, stop.budget())
}

/// Waits for the first byte, which stays unread; false if none comes.
fn has_come(socket: &Socket) -> bool {
    let mut first = [0; 1];
    loop {
        match recv(socket, &mut first[..], RecvFlags::PEEK) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return outcome.is_ok_and(|(count, _)| count > 0),
        }
    }
}

/// A socket with a time limit for all reads and writes together.
#[derive(Debug)]
struct DeadlineSocket<'s> {
    socket: &'s Socket,
    deadline: Instant,
}

impl DeadlineSocket<'_> {
    fn hurry(&self) -> io::Result<&Socket> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_timeout(Some(left))?;
        Ok(self.socket)
    }
}

impl Read for DeadlineSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.hurry()?.read(buffer)
    }
}

impl Write for DeadlineSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hurry()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves one client on a stream, from start to end.
pub fn serve_stream(
    stream: &mut (impl Read + Write),
    storage: &dyn Storage,
) -> Result<(), NbdError> {
    let Some(agreed) = handshake::run(stream, storage.export())? else { return Ok(()) };
    session::run(stream, storage.connect().as_mut(), &agreed, &Budget::new())
}

/// An error of a client that violates the protocol.
fn violation(reason: &str) -> NbdError {
    NbdError::because(NbdErrorKind::Protocol, "serve a client", reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn all_words_of_a_handshake_together_have_10_seconds() {
        let (mine, mut client) = UnixStream::pair().unwrap();
        let socket = Socket::from(mine);
        let begin = Instant::now();
        let time = Duration::from_millis(100);
        let mut stream = DeadlineSocket { socket: &socket, deadline: begin + time };
        thread::scope(|scope| {
            // It is never silent for long.
            scope.spawn(|| {
                while client.write_all(&[7]).is_ok() && begin.elapsed() < Duration::from_secs(20) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let error = stream.read_exact(&mut [0; 20_000]).unwrap_err();
            let kinds = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
            assert!(kinds.contains(&error.kind()), "{error}");
            // The client would go on for 20 s.
            assert!((time..Duration::from_secs(15)).contains(&begin.elapsed()));
            socket.shut_down();
        });
        assert_eq!((HANDSHAKE.as_secs(), WITHIN_REQUEST.as_secs()), (10, 60));
    }
}
