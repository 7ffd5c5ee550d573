//! Peers of tests: one with scripted words, and a server that never accepts.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use crate::socket::connect_unix;

/// A peer with scripted words, and what it received.
#[derive(Debug, Default)]
pub(crate) struct ScriptedPeer {
    pub(crate) input: io::Cursor<Vec<u8>>,
    pub(crate) output: Vec<u8>,
}

impl ScriptedPeer {
    pub(crate) fn new(words: &[&[u8]]) -> Self {
        Self { input: io::Cursor::new(words.concat()), output: Vec::new() }
    }
}

impl Read for ScriptedPeer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for ScriptedPeer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A server that never accepts, with its queue of waiting clients full.
pub(crate) fn full_listener(path: &Path) -> (OwnedFd, Vec<UnixStream>) {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 1).unwrap();
    let waiting = std::iter::from_fn(|| connect_unix(path, None).ok());
    let waiting = waiting.collect();
    (socket, waiting)
}
