//! Sockets of either family: connected, and bound with a file that is told from others of its name.
//!
//! Reading and writing take a socket shared: one thread may be in a call while another ends it.

use std::fs;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, fchmod};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, socket_with,
};

use crate::{Address, NbdError, NbdErrorKind};

/// A connected stream of bytes of either family: none of the calls of a `UnixStream` that are used here asks
/// for the family.
#[derive(Debug)]
pub struct Socket(UnixStream);

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self(stream)
    }
}

impl Socket {
    /// Small answers leave at once.
    pub(crate) fn over_tcp(stream: impl Into<OwnedFd>) -> io::Result<Self> {
        let stream = stream.into();
        set_tcp_nodelay(&stream, true)?;
        Ok(Self(stream.into()))
    }

    /// Limits how long to wait for the other side.
    ///
    /// # Errors
    /// For a time of zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout).and_then(|()| self.0.set_write_timeout(timeout))
    }

    /// Whether reading and writing wait.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(is_nonblocking)
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
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(pieces)
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

const BIND: &str = "serve at";

/// Write permission on a socket permits to connect.
const SOCKET_MODE: Mode = Mode::from_raw_mode(0o600);

/// Connected clients waiting to be accepted: as many as the kernel allows (it reduces this).
const BACKLOG: i32 = 4096;

/// A bound address. A unix socket is removed with it.
#[derive(Debug)]
pub struct Listener {
    listener: OwnedFd,
    address: Address,
    _own: Option<OwnSocket>,
}

impl Listener {
    /// Binds an address. A unix socket without a listener is replaced; only its owner can connect
    /// to it, whatever the umask.
    ///
    /// # Errors
    /// If a server answers there, if the file is not a socket, or if the system refuses.
    pub fn bind(address: &Address) -> Result<Self, NbdError> {
        let bound = match address {
            Address::Unix(path) => remove_dead_socket(path).and_then(|()| {
                let listener = listen_at(path).and_then(|own| Ok((own, OwnSocket::at(path)?)));
                let (listener, own) = listener.map_err(|error| NbdError::new(BIND, error))?;
                Ok(Self { listener, address: address.clone(), _own: Some(own) })
            }),
            Address::Tcp(wanted) => TcpListener::bind(wanted)
                .and_then(|listener| {
                    let address = Address::Tcp(listener.local_addr()?);
                    Ok(Self { listener: listener.into(), address, _own: None })
                })
                .map_err(|error| NbdError::new(BIND, error)),
        };
        let bound = bound.map_err(|error| error.about(address))?;
        // A client may be gone when it is accepted: that must not hold up the others.
        rustix::io::ioctl_fionbio(&bound.listener, true)
            .map_err(|error| NbdError::new(BIND, error).about(address))?;
        Ok(bound)
    }

    /// Its address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// Accepts a client.
    ///
    /// # Errors
    /// With the kind "would block" if no client waits; else those of accept(2).
    pub fn accept(&self) -> io::Result<Socket> {
        let client = retry_on_intr(|| accept_with(&self.listener, SocketFlags::CLOEXEC))?;
        match self.address {
            Address::Unix(_) => Ok(Socket(client.into())),
            Address::Tcp(_) => Socket::over_tcp(client),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// A name gets the permissions of the socket that is bound to it, minus the umask. So others can
/// never connect, as they could for a moment with a chmod of the name, and the umask, which all
/// threads share, stays as it is.
fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, SOCKET_MODE)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Removes a socket without a listener, and nothing else.
fn remove_dead_socket(path: &Path) -> Result<(), NbdError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        outcome => outcome.map_err(|error| NbdError::new(BIND, error))?,
    };
    if !metadata.file_type().is_socket() {
        return Err(NbdError::because(NbdErrorKind::Busy, BIND, "it exists and is not a socket"));
    }
    match connect_unix(path, None) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let reason = "a server is listening there already, and clients wait for it";
            Err(NbdError::because(NbdErrorKind::Busy, BIND, reason))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| NbdError::new(BIND, error))
        }
        Err(error) => Err(NbdError::new(BIND, error)),
        Ok(_) => {
            Err(NbdError::because(NbdErrorKind::Busy, BIND, "a server is listening there already"))
        }
    }
}

/// Whether this is a unix socket without a listener.
#[must_use]
pub fn is_dead_socket(path: &Path) -> bool {
    let is_socket =
        fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let connected = connect_unix(path, None);
    is_socket && connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A socket made by this server; removed with it, unless another file has the name by then.
#[derive(Debug)]
struct OwnSocket {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl OwnSocket {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), device_and_inode: identity(path)? })
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.device_and_inode) {
            // If it stays behind, the next server finds it dead.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustix::process::umask;

    use super::*;

    /// The only test of this program that changes the umask, which all threads share; none of the others
    /// looks at permissions.
    #[test]
    fn only_the_owner_can_connect_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let before = umask(Mode::empty());
        for mask in [0o000, 0o002, 0o022, 0o077] {
            umask(Mode::from_raw_mode(mask));
            let listener = Listener::bind(&Address::Unix(path.clone())).unwrap();
            let mode = fs::symlink_metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "umask {mask:03o}");
            drop(listener);
        }
        umask(before);
    }

    #[test]
    fn a_name_at_which_a_server_accepts_nobody_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (_server, waiting) = crate::tests::full_listener(&path);
        // One more than listen(2) was told.
        assert_eq!(waiting.len(), 2);
        let error = Listener::bind(&Address::Unix(path.clone())).unwrap_err();
        assert_eq!(error.kind, NbdErrorKind::Busy);
        let reason = "a server is listening there already, and clients wait for it";
        assert_eq!(error.source.to_string(), reason);
        assert!(path.exists());
    }
}
