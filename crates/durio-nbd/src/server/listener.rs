//! A bound socket: a unix socket is made, told apart from others that stand there, and removed.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::socket::Socket;
use crate::{Address, ErrorKind, NbdError};

const BIND: &str = "serve at";

/// A bound address. A unix socket is removed with it.
#[derive(Debug)]
pub struct Listener(Bound);

#[derive(Debug)]
enum Bound {
    Unix(UnixListener, OwnSocket),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    /// Takes an address. A unix socket that nobody answers at is replaced.
    ///
    /// # Errors
    /// If somebody answers there, if what stands there is no socket, or if the system refuses.
    pub fn bind(address: &Address) -> Result<Self, NbdError> {
        let listener = match address {
            Address::Unix(path) => bind_unix(path),
            Address::Tcp(wanted) => {
                let bound = TcpListener::bind(wanted)
                    .and_then(|it| Ok((it.local_addr()?, it)))
                    .map(|(address, it)| Bound::Tcp(it, address));
                bound.map_err(|error| NbdError::new(BIND, error))
            }
        };
        let listener = listener.map_err(|error| error.about(address.to_string()))?;
        // Whoever was announced may be gone when it is accepted: that must not hold up the others.
        let set = match &listener {
            Bound::Unix(it, _) => it.set_nonblocking(true),
            Bound::Tcp(it, _) => it.set_nonblocking(true),
        };
        set.map_err(|error| NbdError::new(BIND, error).about(address.to_string()))?;
        Ok(Self(listener))
    }

    /// Where it is, with the port that was free.
    #[must_use]
    pub fn address(&self) -> Address {
        match &self.0 {
            Bound::Unix(_, own) => Address::Unix(own.path.clone()),
            Bound::Tcp(_, address) => Address::Tcp(*address),
        }
    }

    /// Somebody who has connected.
    ///
    /// # Errors
    /// Of the kind "would block" if there is nobody; else those of accept(2).
    pub fn accept(&self) -> io::Result<Socket> {
        let socket = match &self.0 {
            Bound::Unix(it, _) => {
                let (stream, _) = it.accept()?;
                stream.set_nonblocking(false)?;
                Socket::Unix(stream)
            }
            Bound::Tcp(it, _) => {
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
            Bound::Unix(it, _) => it.as_fd(),
            Bound::Tcp(it, _) => it.as_fd(),
        }
    }
}

fn bind_unix(path: &Path) -> Result<Bound, NbdError> {
    remove_dead_socket(path)?;
    let bound = UnixListener::bind(path).and_then(|it| Ok((it, OwnSocket::at(path)?)));
    let (listener, own) = bound.map_err(|error| NbdError::new(BIND, error))?;
    Ok(Bound::Unix(listener, own))
}

/// Removes a socket at which nobody answers any more, and nothing else.
fn remove_dead_socket(path: &Path) -> Result<(), NbdError> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        outcome => outcome.map_err(|error| NbdError::new(BIND, error))?,
    };
    if !metadata.file_type().is_socket() {
        return Err(NbdError::because(ErrorKind::Busy, BIND, "it exists and is no socket"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| NbdError::new(BIND, error))
        }
        Err(error) => Err(NbdError::new(BIND, error)),
        Ok(_) => Err(NbdError::because(ErrorKind::Busy, BIND, "somebody serves there already")),
    }
}

/// The socket that this server made; it goes with the server, unless another stands there by then.
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
            // Left behind, it is found to be dead by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|it| (it.dev(), it.ino()))
}
