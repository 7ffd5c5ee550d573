//! Unpacks the archive a guest brought out into a folder.
//!
//! Writes files, folders and links into the folder, never outside it, never over existing files,
//! and no more than [`UnpackLimits`], whatever the archive says. Owners and times are ignored.
//!
//! The guest's command may be anything, so its output is not trusted: every name is looked up one
//! component at a time below the folder's descriptor ([`Folder`]), so no link is followed, not even
//! one of the same archive.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use durio_base::Bytes;
use durio_block::{Folder, read_bounded};
use durio_command::CommandError;

use crate::cpio::{CpioHeader, CpioKind, CpioReader};
use crate::error::{cannot, cannot_read, failed};

// Linux takes no longer target (PATH_MAX).
const LINK_BYTES_MAX: Bytes = Bytes::new(4096);
/// Depth of nested folders. A process that removes a tree may hold each of them open, 1024 at most.
const DEPTH_MAX: usize = 128;
/// Holes are found in steps of this size.
const PART_BYTES: usize = 1 << 16;

#[derive(Debug, Clone, Copy)]
struct UnpackLimits {
    entries: u64,
    /// The sum of all contents, including holes.
    bytes: u64,
}

// A run folder has a dozen files, a bench some thousand; a guest has a few GiB of memory for them.
const LIMITS: UnpackLimits = UnpackLimits { entries: 1_000_000, bytes: 64 << 30 };

/// Entries that were not unpacked: links that are absolute or lead outside, devices, FIFOs and
/// sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkippedEntries {
    pub count: u64,
    /// The first of them.
    pub first: Option<PathBuf>,
}

/// Opens the folder, creating it if needed, before anything runs.
pub(crate) fn open_or_make(folder: &Path) -> Result<Folder, CommandError> {
    Folder::open_or_make(folder)
        .map_err(|error| cannot(format!("make '{}'", folder.display()), error))
}

pub(crate) fn check_empty(folder: &Path) -> Result<(), CommandError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                let text =
                    format!("'{}' is not empty; name another folder by --out", folder.display());
                Err(failed(text))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_read(folder, error)),
    }
}

/// Keeps an archive until it is whole, in a file without a name on the destination's filesystem:
/// the guest may send more than fits in memory.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    length: u64,
}

impl Spool {
    pub(crate) fn new(folder: &Folder) -> Result<Self, CommandError> {
        let file = folder.make_unnamed().map_err(keeping)?;
        Ok(Self { file, length: 0 })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        write_with_holes(&self.file, self.length, bytes).map_err(keeping)?;
        self.length += bytes.len() as u64;
        // Contents, and at most this much around each.
        let most = LIMITS.entries.saturating_mul(2 * LINK_BYTES_MAX.get());
        match self.length > LIMITS.bytes.saturating_add(most) {
            true => Err(keeping(too_many("an archive of that length"))),
            false => Ok(()),
        }
    }

    pub(crate) fn unpack(self, folder: &Folder) -> Result<SkippedEntries, CommandError> {
        if self.length == 0 {
            return Ok(SkippedEntries::default());
        }
        let mut file = self.file;
        // Holes at the end were never written.
        file.set_len(self.length).map_err(keeping)?;
        file.seek(SeekFrom::Start(0)).map_err(keeping)?;
        unpack(io::BufReader::with_capacity(PART_BYTES, file), folder)
    }
}

fn keeping(error: io::Error) -> CommandError {
    cannot("keep the guest's output", error)
}

fn too_many(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it has {what}, more than a guest may copy out"),
    )
}

fn unpack(archive: impl Read, folder: &Folder) -> Result<SkippedEntries, CommandError> {
    unpack_within(LIMITS, archive, folder)
}

fn unpack_within(
    limits: UnpackLimits,
    archive: impl Read,
    folder: &Folder,
) -> Result<SkippedEntries, CommandError> {
    let unreadable = |error| cannot("read the guest's output", error);
    let mut reader = CpioReader::new(archive);
    let (mut entries, mut bytes) = (0, 0);
    let mut skipped = SkippedEntries::default();
    while let Some(header) = reader.next_entry().map_err(unreadable)? {
        entries += 1;
        bytes += header.size;
        if entries > limits.entries {
            let what = format!("more than {} entries", limits.entries);
            return Err(unreadable(too_many(what)));
        }
        // Checked by the headers, before a byte of the content is written.
        if bytes > limits.bytes {
            let what = format!("more than {} of contents", Bytes::new(limits.bytes));
            return Err(unreadable(too_many(what)));
        }
        let is_made = make(&header, &mut reader, folder).map_err(|error| {
            cannot(format!("unpack '{}' of the guest", header.path.display()), error)
        })?;
        if !is_made {
            skipped.count += 1;
            skipped.first.get_or_insert(header.path);
        }
    }
    Ok(skipped)
}

/// Makes an entry; false if it is of a kind that is not brought out.
fn make(header: &CpioHeader, reader: &mut CpioReader<impl Read>, top: &Folder) -> io::Result<bool> {
    let parts = parts_of(&header.path)?;
    let Some((name, parents)) = parts.split_last() else { return Err(outside()) };
    match header.kind {
        CpioKind::Device(..) | CpioKind::Other(_) => Ok(false),
        CpioKind::Directory => inner_folder(top, &parts).map(|_| true),
        CpioKind::File => {
            let parent = inner_folder(top, parents)?;
            // No setuid or setgid, and never a file that its owner cannot read or remove.
            let permissions = header.permissions & 0o777 | 0o600;
            let file = parent.as_ref().unwrap_or(top).make_file_with(name, permissions)?;
            copy_with_holes(reader, &file, header.size).map(|()| true)
        }
        CpioKind::Symlink => {
            let bytes = read_bounded(&mut *reader, LINK_BYTES_MAX)?;
            let target = PathBuf::from(std::ffi::OsString::from_vec(bytes));
            if !stays_inside(&target, parents.len()) {
                return Ok(false);
            }
            let parent = inner_folder(top, parents)?;
            parent.as_ref().unwrap_or(top).make_link(name, &target).map(|()| true)
        }
    }
}

/// The names of a path that leads down and nowhere else.
fn parts_of(path: &Path) -> io::Result<Vec<&Path>> {
    let down = |part| match part {
        Component::Normal(name) => Ok(Path::new(name)),
        _ => Err(outside()),
    };
    let parts = path.components().map(down).collect::<io::Result<Vec<_>>>()?;
    match parts.len() > DEPTH_MAX {
        true => Err(io::Error::other(format!("it is nested more than {DEPTH_MAX} folders deep"))),
        false => Ok(parts),
    }
}

fn outside() -> io::Error {
    io::Error::other("its name is empty or points outside the folder")
}

/// The folder of these names, created if missing; `None` for the top itself.
fn inner_folder(top: &Folder, names: &[&Path]) -> io::Result<Option<Folder>> {
    let mut inner: Option<Folder> = None;
    for name in names {
        let outer = inner.as_ref().unwrap_or(top);
        let made = match outer.make_folder(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => outer.folder(name),
            other => other,
        };
        inner = Some(made?);
    }
    Ok(inner)
}

/// True if a link in a folder this far below the top leads to something below the top. Its steps up
/// must come first: after a name, which may be a link's, a step up may lead anywhere.
fn stays_inside(target: &Path, depth: usize) -> bool {
    let is_step = |part: &Component<'_>| matches!(part, Component::ParentDir | Component::CurDir);
    let steps = target.components().take_while(is_step);
    let up = steps.filter(|part| *part == Component::ParentDir).count();
    let mut names = target.components().skip_while(is_step);
    !target.as_os_str().is_empty()
        && up <= depth
        && names.all(|part| matches!(part, Component::Normal(_)))
}

/// Copies `length` bytes; runs of zeros become holes.
fn copy_with_holes(content: &mut impl Read, file: &File, length: u64) -> io::Result<()> {
    let mut part = vec![0; PART_BYTES];
    let mut at = 0;
    while at < length {
        let wanted = usize::try_from(length - at).unwrap_or(usize::MAX).min(PART_BYTES);
        let part = part.get_mut(..wanted).unwrap_or_default();
        content.read_exact(part)?;
        write_with_holes(file, at, part)?;
        at += wanted as u64;
    }
    file.set_len(length)
}

/// Writes to a new file; zeros stay holes.
fn write_with_holes(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    let mut at = at;
    for part in bytes.chunks(PART_BYTES) {
        if part.iter().any(|&byte| byte != 0) {
            file.write_all_at(part, at)?;
        }
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
