//! The kinds of this crate's one error.

use std::io;

use durio_base::{CallError, CallErrorKind};

/// Errors that callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NbdErrorKind {
    /// Not found: no socket, no server, no export of that name.
    NotFound,
    /// A right is missing.
    PermissionDenied,
    /// Another process uses the address.
    Busy,
    /// The other side cannot do this, or refuses to.
    Unsupported,
    /// A text that cannot be understood.
    Usage,
    /// The other side violates the protocol.
    Protocol,
    /// The connection ended, or did not answer in time.
    Lost,
    /// The system answered with an error.
    Io,
}

/// A failed call on an address, an export or a connection.
pub type NbdError = CallError<NbdErrorKind>;

impl CallErrorKind for NbdErrorKind {
    fn from_system(source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::NotADirectory => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::AddrInUse => Self::Busy,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut => Self::Lost,
            _ => Self::Io,
        }
    }
}
