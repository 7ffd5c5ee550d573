//! Files that durio makes, and their removal.
//!
//! In: a directory. Out: an open file, without a name where the filesystem has that (O_TMPFILE), else
//! under a random name of durio's own; and the removal of exactly that file. Not here: the journal
//! that remembers it (durio-record), and what existed before ([`crate::open`]).
//!
//! A name that a user gave is never used: whatever has that name is the user's, at any time. What
//! needs a name carries a mark: the random word in its name, the same word in an extended attribute,
//! and the numbers by which the filesystem tells its inodes apart. None of them is enough alone: a
//! copy has the attribute, a file that was overwritten in place all of them.

mod mark;
mod removal;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, fstatfs, open as open_at};
use rustix::io::Errno;

use crate::BlockError;
use crate::open::{OpenMode, OpenTarget, reopen};
pub use mark::FileMark;
pub use removal::{LeftFile, Removal, remove_left};

/// A file that durio made.
#[derive(Debug)]
pub struct NewFile {
    /// Open for reading and writing.
    pub file: OwnedFd,
    /// Its path, if it has one; a file without vanishes with its last descriptor.
    pub path: Option<PathBuf>,
    /// Device and inode.
    pub identity: (u64, u64),
    /// What else tells a file with a name from every other.
    pub mark: Option<FileMark>,
    /// The directory that it was made in, wherever that is moved.
    directory: OwnedFd,
}

/// Filesystems that do not sync a file without a name as they sync another, so that its figures would
/// be of no database's file: Btrfs (its log leaves out what has no link,
/// `btrfs_log_inode_parent` in fs/btrfs/tree-log.c; Linux 6.18 was seen to send the same flushes), ZFS (`zfs_log_write` leaves out what is unlinked),
/// F2FS (its fsync takes a whole checkpoint instead), bcachefs (not known).
const SYNC_BY_NAME: [u32; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0xca45_1a4e];

/// Makes a file without a name in `directory`; none where the filesystem has no such files, or does not
/// sync them as others.
///
/// # Errors
/// If no file can be made there.
pub fn create_unnamed(directory: &Path) -> Result<Option<NewFile>, BlockError> {
    let parent = open_directory(directory)?;
    let magic = fstatfs(&parent).ok().and_then(|it| u32::try_from(it.f_type).ok());
    if magic.is_some_and(|magic| SYNC_BY_NAME.contains(&magic)) {
        return Ok(None);
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE;
    match open_at(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => new_file(file, None, None, parent).map(Some),
        // Filesystems and kernels without O_TMPFILE answer with one of these.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => Ok(None),
        Err(errno) => Err(BlockError::at("make a file in", directory, errno)),
    }
}

/// Makes a file in `directory` under the name of this mark, which must not exist, and marks it.
///
/// # Errors
/// If no file can be made there.
pub fn create_named(directory: &Path, mark: FileMark) -> Result<NewFile, BlockError> {
    let parent = open_directory(directory)?;
    let path = directory.join(mark.file_name());
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = open_at(&path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|errno| BlockError::at("make the file", &path, errno))?;
    let mark = mark.put_on(file.as_fd());
    new_file(file, Some(path), Some(mark), parent)
}

impl NewFile {
    /// Opens it once more, with another mode: the only way to a file without a name.
    ///
    /// # Errors
    /// If it cannot be opened so.
    pub fn open(&self, mode: OpenMode) -> Result<OpenTarget, BlockError> {
        reopen(&self.file, mode)
    }
}

fn open_directory(directory: &Path) -> Result<OwnedFd, BlockError> {
    open_at(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| BlockError::at("make a file in", directory, errno))
}

fn new_file(
    file: OwnedFd,
    path: Option<PathBuf>,
    mark: Option<FileMark>,
    directory: OwnedFd,
) -> Result<NewFile, BlockError> {
    let stat =
        fstat(&file).map_err(|errno| BlockError::new("look at a file that was made", errno))?;
    Ok(NewFile { file, path, identity: (stat.st_dev, stat.st_ino), mark, directory })
}
