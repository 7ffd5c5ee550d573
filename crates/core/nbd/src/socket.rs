//! A connected socket, of either family.
//!
//! Reading and writing take it shared: one thread may be in a call while another ends it.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
};

/// A connected stream of bytes.
#[derive(Debug)]
pub enum Socket {
    /// Within this machine.
    Unix(UnixStream),
    /// Over a network.
    Tcp(TcpStream),
}

impl Socket {
    /// Has small answers leave at once.
    pub(crate) fn without_delay(self) -> io::Result<Self> {
        if let Self::Tcp(stream) = &self {
            stream.set_nodelay(true)?;
        }
        Ok(self)
    }

    /// Limits how long to wait for the other side.
    ///
    /// # Errors
    /// For a time of zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(timeout).and_then(|()| stream.set_write_timeout(timeout))
            }
        }
    }

    /// Whether reading and writing wait.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(is_nonblocking),
            Self::Tcp(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }

    /// Reads the bytes that have arrived, without waiting.
    ///
    /// # Errors
    /// With the kind "would block" if none have; else those of recv(2).
    pub fn read_by_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = recv(self, buffer, RecvFlags::DONTWAIT)?;
        Ok(count)
    }

    /// Ends the connection, also for a thread that waits on it.
    pub fn shut_down(&self) {
        // A socket that is already closed is fine.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&*stream).read(buffer),
            Socket::Tcp(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&*stream).write(bytes),
            Socket::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => (&*stream).write_vectored(pieces),
            Socket::Tcp(stream) => (&*stream).write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects to a unix socket. A stopped server, which does not accept, queues some clients and
/// blocks the next: this one for `patience`, or not at all.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if the server has not accepted by then; else what connect(2)
/// gives.
pub(crate) fn connect_unix(path: &Path, patience: Option<Duration>) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    match patience {
        Some(_) => set_socket_timeout(&socket, Timeout::Send, patience)?,
        None => rustix::io::ioctl_fionbio(&socket, true)?,
    }
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// A peer with scripted words, and what it received.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct ScriptedPeer {
    pub(crate) input: io::Cursor<Vec<u8>>,
    pub(crate) output: Vec<u8>,
}

#[cfg(test)]
impl ScriptedPeer {
    pub(crate) fn new(words: &[&[u8]]) -> Self {
        Self { input: io::Cursor::new(words.concat()), output: Vec::new() }
    }
}

#[cfg(test)]
impl Read for ScriptedPeer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

#[cfg(test)]
impl Write for ScriptedPeer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long to spin for the next request before the thread sleeps. A client that waits for each
/// answer sends its next request within this; a sleeping thread on another processor takes as long
/// again to wake, in a virtual machine several times as long.
const WATCHED: Duration = Duration::from_micros(30);

/// A socket whose reader spins for a moment, and yields to other threads while spinning.
#[derive(Debug)]
pub(crate) struct WatchedSocket<'s>(pub(crate) &'s Socket);

impl Read for WatchedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begin = Instant::now();
        loop {
            match recv(self.0, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((count, _)) => return Ok(count),
                Err(Errno::AGAIN) if begin.elapsed() < WATCHED => std::thread::yield_now(),
                Err(Errno::AGAIN) => return self.0.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for WatchedSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
