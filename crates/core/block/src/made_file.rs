//! Files that durio makes, and their removal.
//!
//! A new file has no name where the filesystem supports that (O_TMPFILE), else a random one;
//! exactly that file is removed. The journal that remembers it is in durio-record.
//!
//! A user's name is never used: a file under such a name is the user's, at any time. A file that
//! needs a name carries a mark: the random word in its name, the same word in an extended
//! attribute, and the numbers by which the filesystem identifies its inodes. Each alone is too
//! weak: a copy has the attribute, a file that was overwritten in place has all of them.

mod removal;
#[cfg(test)]
mod tests;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, StatxFlags, XattrFlags, fgetxattr, fsetxattr, fstat, fstatfs,
    open as open_at, statx,
};
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl};
use serde::{Deserialize, Serialize};

use crate::BlockError;
use crate::open::{OpenMode, OpenTarget, reopen};
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

/// Filesystems that sync a file without a name unlike other files, so that its results would not
/// apply to a database's: Btrfs (its log leaves out files without a link, `btrfs_log_inode_parent`
/// in fs/btrfs/tree-log.c; Linux 6.18 was seen to send the same flushes), ZFS (`zfs_log_write`
/// leaves out unlinked files), F2FS (its fsync takes a whole checkpoint instead), bcachefs (not
/// known).
const SYNC_BY_NAME: [u32; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0xca45_1a4e];

/// Makes a file without a name in `directory`; none where the filesystem has no such files, or does not
/// sync them as others.
///
/// # Errors
/// If no file can be made there.
pub fn create_unnamed(directory: &Path) -> Result<Option<NewFile>, BlockError> {
    let parent = open_directory(directory)?;
    let magic = fstatfs(&parent).ok().and_then(|facts| u32::try_from(facts.f_type).ok());
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

/// How the names begin that durio gives; the random word follows.
const NAME: &str = ".durio-";

/// The attribute that has the random word. Of the user's attributes, for `trusted` ones need
/// CAP_SYS_ADMIN (xattr(7)) and durio is used without; that a copy takes it along (`cp -a`) does no
/// harm, for it is never the only sign.
const ATTRIBUTE: &str = "user.durio";

/// A random word of 122 bits, as text; random.c of the kernel makes a new one for each reader.
const RANDOM_WORD: &str = "/proc/sys/kernel/random/uuid";

/// FS_IOC_GETVERSION, `_IOR('v', 1, long)` (linux/fs.h).
const GET_VERSION: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<std::ffi::c_long>(b'v', 1);

/// What tells a file that durio made with a name from every other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// The random word in its name.
    pub word: String,
    /// True if the same word is in its attribute `user.durio`; false before the file is made, and on
    /// filesystems without such attributes.
    #[serde(default)]
    pub in_attribute: bool,
    /// When the filesystem says that it was made: seconds and nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth: Option<(i64, u32)>,
    /// The generation of its inode, where the filesystem tells: another one each time that the
    /// inode's number is given out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

impl FileMark {
    /// A new one, of a file that is not there yet.
    ///
    /// # Errors
    /// If the kernel gives no random word.
    pub fn new() -> Result<Self, BlockError> {
        let word = fs::read_to_string(RANDOM_WORD)
            .map_err(|error| BlockError::at("read", Path::new(RANDOM_WORD), error))?;
        let word = word.trim().to_owned();
        Ok(Self { word, in_attribute: false, birth: None, generation: None })
    }

    /// The name that only a file of this mark has.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{NAME}{}", self.word)
    }

    /// Writes the mark on a file that was just made, and adds what the filesystem tells of it.
    fn put_on(self, file: BorrowedFd<'_>) -> Self {
        let written = fsetxattr(file, ATTRIBUTE, self.word.as_bytes(), XattrFlags::CREATE);
        let in_attribute = written.is_ok() && has_word(file, &self.word);
        Self { in_attribute, birth: birth(file), generation: generation(file), ..self }
    }

    /// True if the file has all that was found on the file when it was made.
    fn is_on(&self, file: BorrowedFd<'_>) -> bool {
        (!self.in_attribute || has_word(file, &self.word))
            && (self.birth.is_none() || self.birth == birth(file))
            && (self.generation.is_none() || self.generation == generation(file))
    }
}

fn has_word(file: BorrowedFd<'_>, word: &str) -> bool {
    // One byte more: a longer value is another one.
    let mut value = vec![0; word.len() + 1];
    fgetxattr(file, ATTRIBUTE, &mut value[..]) == Ok(word.len())
        && value.starts_with(word.as_bytes())
}

fn birth(file: BorrowedFd<'_>) -> Option<(i64, u32)> {
    let stat = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    known.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec))
}

fn generation(file: BorrowedFd<'_>) -> Option<u32> {
    // The request says long, and the filesystems put an int: the first of two words on 64 bits.
    let mut version = [0_u32; size_of::<std::ffi::c_long>() / 4];
    // SAFETY: the kernel writes a long at most, there is room for one, and all of it has a value.
    unsafe { ioctl(file, Updater::<GET_VERSION, _>::new(&mut version)) }.ok()?;
    Some(version[0])
}
