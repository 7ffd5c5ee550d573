//! Sends a folder to the host.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::port::Port;
use crate::cpio::{Header, Kind, Writer};
use crate::wire::Frame;

const PART_BYTES: usize = 1 << 18;

/// Sends all that is in the folder; anything but folders, files and links is left out.
///
/// # Errors
/// A file that cannot be read, is 4 GiB or larger, or changes meanwhile; those of the port.
pub(super) fn send(port: &Port, folder: &Path) -> io::Result<()> {
    let about = |error: io::Error| io::Error::other(format!("cannot bring out: {error}"));
    let buffered = io::BufWriter::with_capacity(PART_BYTES, Sender { port });
    let mut writer = Writer::new(buffered);
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        for entry in fs::read_dir(folder.join(&relative)).map_err(about)? {
            let entry = entry.map_err(about)?;
            let path = relative.join(entry.file_name());
            if entry.file_type().map_err(about)?.is_dir() {
                pending.push(path.clone());
            }
            append(&mut writer, &path, &entry.path()).map_err(about)?;
        }
    }
    writer.finish().map(drop).map_err(about)
}

fn append(writer: &mut Writer<impl Write>, path: &Path, source: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(source)?;
    let permissions = metadata.permissions().mode() & 0o777;
    let header = |kind, size| Header { path: path.to_owned(), kind, permissions, size };
    if metadata.is_dir() {
        writer.append(&header(Kind::Directory, 0), &mut io::empty())
    } else if metadata.is_symlink() {
        let target = fs::read_link(source)?;
        let target = target.as_os_str().as_bytes();
        writer.append(&header(Kind::Symlink, target.len() as u64), &mut &target[..])
    } else if metadata.is_file() {
        writer.append(&header(Kind::File, metadata.len()), &mut File::open(source)?)
    } else {
        Ok(())
    }
}

/// Each write is a frame.
#[derive(Debug)]
struct Sender<'a> {
    port: &'a Port,
}

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = bytes.get(..bytes.len().min(PART_BYTES)).unwrap_or_default();
        self.port.send(&Frame::Archive(part.to_vec()))?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
