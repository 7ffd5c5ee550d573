//! A bound socket: makes a unix socket, distinguishes it from other files of that name, and removes
//! it.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use crate::socket::{Socket, connect_unix};
use crate::{Address, NbdError, NbdErrorKind};

const BIND: &str = "serve at";

/// Write permission on a socket permits to connect.
const SOCKET_MODE: Mode = Mode::from_raw_mode(0o600);

/// Connected clients waiting to be accepted: as many as the kernel allows (it reduces this).
const BACKLOG: i32 = 4096;

/// A bound address. A unix socket is removed with it.
#[derive(Debug)]
pub struct Listener(BoundSocket);

#[derive(Debug)]
enum BoundSocket {
    Unix(UnixListener, OwnSocket),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    /// Binds an address. A unix socket without a listener is replaced; only its owner can connect
    /// to it, whatever the umask.
    ///
    /// # Errors
    /// If a server answers there, if the file is not a socket, or if the system refuses.
    pub fn bind(address: &Address) -> Result<Self, NbdError> {
        let listener = match address {
            Address::Unix(path) => bind_unix(path),
            Address::Tcp(wanted) => {
                let bound = TcpListener::bind(wanted)
                    .and_then(|it| Ok((it.local_addr()?, it)))
                    .map(|(address, it)| BoundSocket::Tcp(it, address));
                bound.map_err(|error| NbdError::new(BIND, error))
            }
        };
        let listener = listener.map_err(|error| error.about(address.to_string()))?;
        // A client may be gone when it is accepted: that must not hold up the others.
        let set = match &listener {
            BoundSocket::Unix(it, _) => it.set_nonblocking(true),
            BoundSocket::Tcp(it, _) => it.set_nonblocking(true),
        };
        set.map_err(|error| NbdError::new(BIND, error).about(address.to_string()))?;
        Ok(Self(listener))
    }

    /// Its address, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> Address {
        match &self.0 {
            BoundSocket::Unix(_, own) => Address::Unix(own.path.clone()),
            BoundSocket::Tcp(_, address) => Address::Tcp(*address),
        }
    }

    /// Accepts a client.
    ///
    /// # Errors
    /// With the kind "would block" if no client waits; else those of accept(2).
    pub fn accept(&self) -> io::Result<Socket> {
        let socket = match &self.0 {
            BoundSocket::Unix(it, _) => {
                let (stream, _) = it.accept()?;
                stream.set_nonblocking(false)?;
                Socket::Unix(stream)
            }
            BoundSocket::Tcp(it, _) => {
                let (stream, _) = it.accept()?;
                stream.set_nonblocking(false)?;
                Socket::Tcp(stream)
            }
        };
        socket.without_delay()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            BoundSocket::Unix(it, _) => it.as_fd(),
            BoundSocket::Tcp(it, _) => it.as_fd(),
        }
    }
}

fn bind_unix(path: &Path) -> Result<BoundSocket, NbdError> {
    remove_dead_socket(path)?;
    let bound = listen_at(path).and_then(|listener| Ok((listener, OwnSocket::at(path)?)));
    let (listener, own) = bound.map_err(|error| NbdError::new(BIND, error))?;
    Ok(BoundSocket::Unix(listener, own))
}

/// A name gets the permissions of the socket that is bound to it, minus the umask. So others can
/// never connect, as they could for a moment with a chmod of the name, and the umask, which all
/// threads share, stays as it is.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, SOCKET_MODE)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket without a listener, and nothing else.
fn remove_dead_socket(path: &Path) -> Result<(), NbdError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        outcome => outcome.map_err(|error| NbdError::new(BIND, error))?,
    };
    if !metadata.file_type().is_socket() {
        return Err(NbdError::because(NbdErrorKind::Busy, BIND, "it exists and is no socket"));
    }
    match connect_unix(path, None) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let reason = "somebody serves there already, and clients wait for it";
            Err(NbdError::because(NbdErrorKind::Busy, BIND, reason))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| NbdError::new(BIND, error))
        }
        Err(error) => Err(NbdError::new(BIND, error)),
        Ok(_) => Err(NbdError::because(NbdErrorKind::Busy, BIND, "somebody serves there already")),
    }
}

/// Whether this is a unix socket without a listener.
#[must_use]
pub fn is_dead_socket(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
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
        if identity(&self.path).is_ok_and(|it| it == self.device_and_inode) {
            // If it stays behind, the next server finds it dead.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|it| (it.dev(), it.ino()))
}

/// A server that never accepts, with its queue of waiting clients full.
#[cfg(test)]
pub(crate) fn full_listener(
    path: &Path,
) -> (std::os::fd::OwnedFd, Vec<std::os::unix::net::UnixStream>) {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    let waiting = std::iter::from_fn(|| connect_unix(path, None).ok());
    let waiting = waiting.collect();
    (socket, waiting)
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
        let (_server, waiting) = full_listener(&path);
        // One more than listen(2) was told.
        assert_eq!(waiting.len(), 2);
        let error = Listener::bind(&Address::Unix(path.clone())).unwrap_err();
        assert_eq!(error.kind, NbdErrorKind::Busy);
        let reason = "somebody serves there already, and clients wait for it";
        assert_eq!(error.source.to_string(), reason);
        assert!(path.exists());
    }
}
