//! Network block device: a server over a small storage trait, and a client that is an engine.
//!
//! ```text
//!  server:  Storage ◄── batches of requests ── session ◄── handshake ◄── TCP or unix socket
//!  client:  Engine  ──► requests, all of a call at once ──► the same ──► completions
//!  kernel:  /dev/nbdN, attached to a server and detached by netlink
//! ```
//!
//! Serves a [`Storage`] ([`Server`]), or connects to a server ([`Uri`]) as an [`NbdEngine`], which
//! reads and writes a device that no kernel knows. Where a block device is wanted, the kernel's
//! client makes one of an export ([`KernelClient`]).
//!
//! The protocol is that of github.com/NetworkBlockDevice/nbd (`doc/proto.md`): fixed newstyle,
//! flush and FUA, trim, write zeroes, block sizes, structured replies, block status
//! (`base:allocation`). TLS, the old style of handshake and extended headers are not supported.
//!
//! Neither side trusts the other: lengths are bounded before they are believed, what reaches a storage
//! is within its export, and a peer that does not keep to the protocol loses its connection.

mod client;
mod control;
mod kernel;
mod server;
mod socket;
mod storage;
#[cfg(test)]
mod tests;
mod uri;
mod wire;

pub use client::NbdEngine;
pub use control::{ArrivedOrder, ControlServer, control_of, send_answer, send_order};
pub use kernel::{KernelClient, NBD_DEVICE_NEEDS, NbdDevice};
pub use server::{Server, StopHandle, serve_stream};
pub use socket::{Listener, Socket, is_dead_socket};
pub use storage::{
    Command, Connection, Export, Extent, MemoryStorage, PAYLOAD_MAX, Refusal, Request, Storage,
};
pub use uri::{Address, Endpoint, Uri};

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
