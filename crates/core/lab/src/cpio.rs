//! Archives in cpio's "newc" form, which a kernel unpacks at boot and a guest brings out; and [`Tree`],
//! the files that become one.
//!
//! The form is that of the kernel's documentation, driver-api/early-userspace/buffer-format: a header
//! of 110 characters (a magic number and 13 fields of 8 hexadecimal digits), the name with a zero
//! byte, the content; name and content are padded to 4 bytes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use durio_command::CommandError;
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;

use crate::error::{cannot, cannot_read};

const MAGIC: &[u8] = b"070701";
const HEADER_BYTES: usize = 110;
const TRAILER: &str = "TRAILER!!!";
// PATH_MAX: the kernel passes over longer names when it unpacks (init/initramfs.c).
const NAME_BYTES_MAX: usize = 4096;

/// The bits of a mode that hold an entry's type.
const KIND_MASK: u32 = 0o170_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpioKind {
    Directory,
    File,
    /// The content is where it points to.
    Symlink,
    /// A character device, by its major and minor number.
    Device(u32, u32),
    /// Anything else, by the bits of its mode.
    Other(u32),
}

impl CpioKind {
    fn bits(self) -> u32 {
        match self {
            Self::Directory => 0o040_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Device(..) => 0o020_000,
            Self::Other(bits) => bits,
        }
    }
}

/// An entry without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpioHeader {
    /// The name, relative to the archive's root.
    pub(crate) path: PathBuf,
    pub(crate) kind: CpioKind,
    pub(crate) permissions: u32,
    pub(crate) size: u64,
}

#[derive(Debug)]
pub(crate) struct CpioWriter<W> {
    sink: W,
    next_inode: u32,
}

impl<W: Write> CpioWriter<W> {
    pub(crate) fn new(sink: W) -> Self {
        Self { sink, next_inode: 1 }
    }

    /// Appends an entry with the bytes of `content`, whose length must be `header.size`.
    ///
    /// # Errors
    /// Errors of reader and writer; content of another length; a file of 4 GiB or more, which the
    /// form cannot hold.
    pub(crate) fn append(
        &mut self,
        header: &CpioHeader,
        content: &mut impl Read,
    ) -> io::Result<()> {
        let name = header.path.as_os_str().as_bytes();
        let size = u32::try_from(header.size)
            .map_err(|_| io::Error::other(format!("{} is too large", header.path.display())))?;
        self.write_header(name, header.kind, header.permissions, size)?;
        let copied = io::copy(&mut content.take(header.size), &mut self.sink)?;
        // The header, which holds the length, is already written.
        if copied != header.size {
            let what = format!("{} was truncated while being read", header.path.display());
            return Err(io::Error::other(what));
        }
        self.pad(size as usize)
    }

    /// Ends the archive, and returns the sink.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.write_header(TRAILER.as_bytes(), CpioKind::Other(0), 0, 0)?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn write_header(
        &mut self,
        name: &[u8],
        kind: CpioKind,
        permissions: u32,
        size: u32,
    ) -> io::Result<()> {
        let (major, minor) =
            if let CpioKind::Device(major, minor) = kind { (major, minor) } else { (0, 0) };
        let mode = kind.bits() | permissions;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // Unique for each: equal numbers mean hard links of one file.
        let inode = self.next_inode;
        self.next_inode = self.next_inode.wrapping_add(1);
        // ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
        let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.sink.write_all(MAGIC)?;
        for field in fields {
            write!(self.sink, "{field:08x}")?;
        }
        self.sink.write_all(name)?;
        self.sink.write_all(&[0])?;
        self.pad(HEADER_BYTES + name.len() + 1)
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.sink.write_all(&[0; 3][..padding(written)])
    }
}

fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

#[derive(Debug)]
pub(crate) struct CpioReader<R> {
    source: R,
    /// Unread bytes of the current entry's content and its padding.
    content_left: u64,
    padding_left: usize,
}

impl<R: Read> CpioReader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, content_left: 0, padding_left: 0 }
    }

    /// The next entry; `None` at the archive's end.
    ///
    /// # Errors
    /// An archive that is truncated or of another form.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<CpioHeader>> {
        // Skip the unread rest of the last content.
        io::copy(self, &mut io::sink())?;
        self.skip(self.padding_left)?;
        let mut header = [0; HEADER_BYTES];
        self.source.read_exact(&mut header)?;
        let fields = fields_of(&header)?;
        let [_, mode, _, _, _, _, size, _, _, major, minor, name_size, _] = fields;
        let path = self.read_name(name_size as usize)?;
        if path.as_os_str() == TRAILER {
            return Ok(None);
        }
        (self.content_left, self.padding_left) = (u64::from(size), padding(size as usize));
        let kind = kind_of(mode, major, minor);
        let permissions = mode & 0o7777;
        Ok(Some(CpioHeader { path, kind, permissions, size: size.into() }))
    }

    fn read_name(&mut self, size: usize) -> io::Result<PathBuf> {
        // Before memory is allocated. Linux has no longer paths (PATH_MAX).
        if size == 0 || size > NAME_BYTES_MAX {
            return Err(malformed("a name that is empty or too long"));
        }
        let mut name = vec![0; size];
        self.source.read_exact(&mut name)?;
        self.skip(padding(HEADER_BYTES + size))?;
        if name.pop() != Some(0) || name.contains(&0) {
            return Err(malformed("a name that is not terminated"));
        }
        Ok(PathBuf::from(OsString::from_vec(name)))
    }

    fn skip(&mut self, count: usize) -> io::Result<()> {
        let mut bytes = [0; 4];
        self.source.read_exact(bytes.get_mut(..count).unwrap_or_default())
    }
}

/// Reads the rest of the last entry's content.
impl<R: Read> Read for CpioReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.content_left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(part) = buffer.get_mut(..wanted).filter(|part| !part.is_empty()) else {
            return Ok(0);
        };
        let read = self.source.read(part)?;
        // An archive that ends within a content is damaged; zero would look like the content's end.
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content_left -= read as u64;
        Ok(read)
    }
}

fn fields_of(header: &[u8; HEADER_BYTES]) -> io::Result<[u32; 13]> {
    let digits = header.strip_prefix(MAGIC).ok_or_else(|| malformed("no header"))?;
    let mut fields = [0; 13];
    for (field, digits) in fields.iter_mut().zip(digits.chunks_exact(8)) {
        // from_str_radix accepts a sign, which the form does not have.
        let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'));
        let number = text.and_then(|text| u32::from_str_radix(text, 16).ok());
        *field = number.ok_or_else(|| malformed("a field that is not a number"))?;
    }
    Ok(fields)
}

fn kind_of(mode: u32, major: u32, minor: u32) -> CpioKind {
    match mode & KIND_MASK {
        0o040_000 => CpioKind::Directory,
        0o100_000 => CpioKind::File,
        0o120_000 => CpioKind::Symlink,
        0o020_000 => CpioKind::Device(major, minor),
        other => CpioKind::Other(other),
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid cpio archive: {what}"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory,
    /// A file with these contents.
    Bytes(Vec<u8>),
    /// A file of this machine.
    Host(PathBuf),
    Symlink(PathBuf),
    Device(u32, u32),
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
}

impl Tree {
    pub(crate) fn directory(&mut self, path: impl AsRef<Path>) {
        self.put(path.as_ref(), Node::Directory);
    }

    pub(crate) fn bytes(&mut self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) {
        self.put(path.as_ref(), Node::Bytes(bytes.into()));
    }

    /// A copy of a file of this machine, with its permissions.
    pub(crate) fn host_file(&mut self, path: impl AsRef<Path>, file: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Host(file.into()));
    }

    pub(crate) fn symlink(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.put(path.as_ref(), Node::Symlink(target.into()));
    }

    pub(crate) fn device(&mut self, path: impl AsRef<Path>, major: u32, minor: u32) {
        self.put(path.as_ref(), Node::Device(major, minor));
    }

    /// Copies a file or a folder of this machine with its contents; links stay links, and only
    /// files, folders and links are copied.
    pub(crate) fn host_tree(&mut self, path: &Path, source: &Path) -> Result<(), CommandError> {
        // No recursion: the user's folders determine the depth.
        let mut pending = vec![(path.to_owned(), source.to_owned())];
        while let Some((path, source)) = pending.pop() {
            let fail = |error| cannot_read(&source, error);
            let kind = fs::symlink_metadata(&source).map_err(fail)?.file_type();
            if kind.is_symlink() {
                self.symlink(&path, fs::read_link(&source).map_err(fail)?);
            } else if kind.is_dir() {
                self.directory(&path);
                for entry in fs::read_dir(&source).map_err(fail)? {
                    let entry = entry.map_err(fail)?;
                    pending.push((path.join(entry.file_name()), entry.path()));
                }
            } else if kind.is_file() {
                self.host_file(&path, &source);
            }
        }
        Ok(())
    }

    /// The last node wins, but a folder never replaces an existing node.
    fn put(&mut self, path: &Path, node: Node) {
        // The root itself exists on either side, and an entry has a name.
        if path.parent().is_none() {
            return;
        }
        // The kernel makes no folders that an archive does not name.
        for parent in path.ancestors().skip(1).filter(|parent| parent.parent().is_some()) {
            self.nodes.entry(parent.to_owned()).or_insert(Node::Directory);
        }
        if node == Node::Directory {
            self.nodes.entry(path.to_owned()).or_insert(node);
        } else {
            self.nodes.insert(path.to_owned(), node);
        }
    }

    /// The archive, in memory that is freed when the file is closed.
    pub(crate) fn archive(&self) -> Result<File, CommandError> {
        let fail = |error: io::Error| cannot("make the guest's files", error);
        let buffered = self.write_to(BufWriter::with_capacity(1 << 20, memory_file()?))?;
        buffered.into_inner().map_err(|error| fail(error.into_error()))
    }

    /// The archive, placed after another one of this length, in separate memory.
    pub(crate) fn archive_behind(&self, first: &File, length: u64) -> Result<File, CommandError> {
        let fail = |error: Errno| cannot("make the guest's files", error.into());
        let memory = memory_file()?;
        let mut done = 0;
        // By offset: the position of `first` is shared with other boots.
        while done < length {
            let left = usize::try_from(length - done).unwrap_or(usize::MAX);
            if sendfile(&memory, first, Some(&mut done), left).map_err(fail)? == 0 {
                break;
            }
        }
        self.write_to(memory)
    }

    /// Writes the archive, and returns the sink.
    pub(crate) fn write_to<W: io::Write>(&self, sink: W) -> Result<W, CommandError> {
        let mut writer = CpioWriter::new(sink);
        for (path, node) in &self.nodes {
            append(&mut writer, path, node)?;
        }
        writer.finish().map_err(|error| cannot("make the guest's files", error))
    }
}

/// QEMU opens it by our descriptor: without a name, nothing can be left behind.
fn memory_file() -> Result<File, CommandError> {
    let memory = memfd_create("durio-lab", MemfdFlags::CLOEXEC);
    Ok(memory.map_err(|error| cannot("make the guest's files", error.into()))?.into())
}

fn append(
    writer: &mut CpioWriter<impl io::Write>,
    path: &Path,
    node: &Node,
) -> Result<(), CommandError> {
    let name = path.strip_prefix("/").unwrap_or(path);
    let (kind, permissions, mut bytes): (_, _, &[u8]) = match node {
        Node::Directory => (CpioKind::Directory, 0o755, &[]),
        Node::Device(major, minor) => (CpioKind::Device(*major, *minor), 0o600, &[]),
        Node::Bytes(bytes) => (CpioKind::File, 0o644, bytes),
        Node::Symlink(target) => (CpioKind::Symlink, 0o777, target.as_os_str().as_bytes()),
        Node::Host(file) => return append_host(writer, name, file),
    };
    let header = CpioHeader { path: name.to_owned(), kind, permissions, size: bytes.len() as u64 };
    let written = writer.append(&header, &mut bytes);
    written.map_err(|error| cannot("make the guest's files", error))
}

fn append_host(
    writer: &mut CpioWriter<impl io::Write>,
    name: &Path,
    path: &Path,
) -> Result<(), CommandError> {
    let fail = |error| cannot_read(path, error);
    let mut file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    let header = CpioHeader {
        path: name.to_owned(),
        kind: CpioKind::File,
        permissions: metadata.permissions().mode() & 0o777,
        size: metadata.len(),
    };
    writer.append(&header, &mut file).map_err(fail)
}

#[cfg(test)]
mod tests;
