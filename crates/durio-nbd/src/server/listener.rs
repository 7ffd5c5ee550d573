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

#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener, OwnSocket),
    Tcp(TcpListener, SocketAddr),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> Result<Self, NbdError> {
        let listener = match address {
            Address::Unix(path) => bind_unix(path),
            Address::Tcp(wanted) => {
                let bound = TcpListener::bind(wanted)
                    .and_then(|it| Ok((it.local_addr()?, it)))
                    .map(|(address, it)| Self::Tcp(it, address));
                bound.map_err(|error| NbdError::new(BIND, error))
            }
        };
        let listener = listener.map_err(|error| error.about(address.to_string()))?;
        // Whoever was announced may be gone when it is accepted: that must not hold up the others.
        let set = match &listener {
            Self::Unix(it, _) => it.set_nonblocking(true),
            Self::Tcp(it, _) => it.set_nonblocking(true),
        };
        set.map_err(|error| NbdError::new(BIND, error).about(address.to_string()))?;
        Ok(listener)
    }

    pub(super) fn address(&self) -> Address {
        match self {
            Self::Unix(_, own) => Address::Unix(own.path.clone()),
            Self::Tcp(_, address) => Address::Tcp(*address),
        }
    }

    /// A client; an error of the kind "would block" if there is none.
    pub(super) fn accept(&self) -> io::Result<Socket> {
        let socket = match self {
            Self::Unix(it, _) => {
                let (stream, _) = it.accept()?;
                stream.set_nonblocking(false)?;
                Socket::Unix(stream)
            }
            Self::Tcp(it, _) => {
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
        match self {
            Self::Unix(it, _) => it.as_fd(),
            Self::Tcp(it, _) => it.as_fd(),
        }
    }
}

fn bind_unix(path: &Path) -> Result<Listener, NbdError> {
    remove_dead_socket(path)?;
    let bound = UnixListener::bind(path).and_then(|it| Ok((it, OwnSocket::at(path)?)));
    let (listener, own) = bound.map_err(|error| NbdError::new(BIND, error))?;
    Ok(Listener::Unix(listener, own))
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
pub(super) struct OwnSocket {
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
