//! Archives in cpio's "newc" form, which a kernel unpacks at boot and a guest brings out.
//!
//! Writes and reads archives; does not touch the filesystem.
//!
//! The form is that of the kernel's documentation, driver-api/early-userspace/buffer-format: a header
//! of 110 characters (a magic number and 13 fields of 8 hexadecimal digits), the name with a zero
//! byte, the content; name and content are padded to 4 bytes.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

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
    /// Bytes of content.
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
            let what = format!("{} became shorter while it was read", header.path.display());
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
            return Err(malformed("a name that does not end where it should"));
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
        *field = number.ok_or_else(|| malformed("a field that is no number"))?;
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
    io::Error::new(io::ErrorKind::InvalidData, format!("no cpio archive: {what}"))
}

#[cfg(test)]
#[path = "cpio_tests.rs"]
mod tests;
