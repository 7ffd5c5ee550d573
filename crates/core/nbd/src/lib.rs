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
mod error;
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
pub use error::{NbdError, NbdErrorKind};
pub use kernel::{KernelClient, NBD_DEVICE_NEEDS, NbdDevice};
pub use server::{Server, StopHandle, serve_stream};
pub use socket::{Listener, Socket, is_dead_socket};
pub use storage::{
    Command, Connection, Export, Extent, MemoryStorage, PAYLOAD_MAX, Refusal, Request, Storage,
};
pub use uri::{Address, Endpoint, Uri};
