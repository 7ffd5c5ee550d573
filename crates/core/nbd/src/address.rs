//! Where a server is.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket in the filesystem.
    Unix(PathBuf),
    /// An address and port of this machine.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}
