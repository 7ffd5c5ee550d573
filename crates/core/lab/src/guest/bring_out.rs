//! Sends a folder to the host.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::port::Port;
use crate::LabError;
use crate::tree::Tree;
use crate::wire::GuestFrame;

const PART_BYTES: usize = 1 << 18;

/// Sends the contents of the folder, but only folders, files and links.
///
/// # Errors
/// If a file cannot be read, is 4 GiB or larger, or changes during the copy; errors of the port.
pub(super) fn send(port: &Port, folder: &Path) -> io::Result<()> {
    let mut tree = Tree::default();
    let sent = tree
        .host_tree(Path::new("/"), folder)
        .and_then(|()| tree.write_to(BufWriter::with_capacity(PART_BYTES, Sender { port })));
    sent.map(drop).map_err(|error| match error {
        LabError::Io { source, .. } => io::Error::other(format!("cannot bring out: {source}")),
        other => io::Error::other(other),
    })
}

/// Each write is a frame.
#[derive(Debug)]
struct Sender<'a> {
    port: &'a Port,
}

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A frame has a limit, and the host keeps one in memory.
        let part = bytes.get(..bytes.len().min(PART_BYTES)).unwrap_or_default();
        self.port.send(&GuestFrame::Archive(part.to_vec()))?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
