//! The one error of this crate: its kind, the operation, the peer, and the cause.

use std::fmt;
use std::io;

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

/// A failed call, with its context.
#[derive(Debug, thiserror::Error)]
pub struct NbdError {
    /// The kind, on which callers can act.
    pub kind: NbdErrorKind,
    /// The operation, as in "cannot {operation}".
    pub operation: &'static str,
    /// The address or text, if one is known.
    pub subject: Option<String>,
    #[source]
    pub source: io::Error,
}

impl fmt::Display for NbdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.operation)?;
        if let Some(subject) = &self.subject {
            write!(f, " '{subject}'")?;
        }
        Ok(())
    }
}

impl NbdError {
    /// An error of a system call.
    pub(crate) fn new(operation: &'static str, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        Self { kind: kind_of(&source), operation, subject: None, source }
    }

    /// An error found by durio itself, with its reason.
    pub(crate) fn because(kind: NbdErrorKind, operation: &'static str, reason: &str) -> Self {
        Self { kind, operation, subject: None, source: io::Error::other(reason.to_owned()) }
    }

    /// The same, about something.
    #[must_use]
    pub(crate) fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }
}

fn kind_of(source: &io::Error) -> NbdErrorKind {
    match source.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::NotADirectory => NbdErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => NbdErrorKind::PermissionDenied,
        io::ErrorKind::AddrInUse => NbdErrorKind::Busy,
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::WouldBlock
        | io::ErrorKind::TimedOut => NbdErrorKind::Lost,
        _ => NbdErrorKind::Io,
    }
}
