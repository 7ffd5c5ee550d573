//! Files that durio makes, and their removal.
//!
//! A new file has no name where the filesystem supports that (O_TMPFILE), else a random one;
//! exactly that file is removed. The journal that remembers it is in durio-record.
//!
//! A user's name is never used: a file under such a name is the user's, at any time. A file that
//! needs a name carries a mark: the random word in its name, the same word in an extended
//! attribute, and the numbers by which the filesystem identifies its inodes. Each alone is too
//! weak: a copy has the attribute, a file that was overwritten in place has all of them.
//!
//! Between the look at a name and its removal the name can change hands; the kernel has no call
//! that unlinks an open file. So the name is first moved to a random one that no other process
//! knows, then the moved file is compared with the open file, and removed or moved back.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, StatxFlags, XattrFlags, fgetxattr,
    fsetxattr, fstat, fstatfs, open as open_at, openat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl};
use serde::{Deserialize, Serialize};

use crate::open::{OpenMode, OpenTarget, reopen};
use crate::{BlockError, ErrorKind};

/// A file that durio made.
#[derive(Debug)]
pub struct NewFile {
    /// Open for reading and writing.
    pub file: OwnedFd,
    /// Its path, if it has one; a file without vanishes with its last descriptor.
    pub path: Option<PathBuf>,
    /// Device and inode: they find it again after a rename.
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

/// Behind the name of a file that is being removed.
const ASIDE: &str = ".removing";

// So much later than the last sign of life of its run a file may have changed: the sign is given
// each second, and the kernel's clock of files ticks.
const AFTER_LAST_SIGN: Duration = Duration::from_secs(2);

const OPERATION: &str = "remove the file";

/// The outcome of a file's removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    Removed,
    /// It was gone already.
    Absent,
    /// It stays, for this reason.
    Kept(&'static str),
}

/// A journal's entry about a file that a dead run left.
#[derive(Debug, Clone, Copy)]
pub struct LeftFile<'a> {
    /// Where it was made.
    pub path: &'a Path,
    /// Device and inode; none if the run ended while it made the file.
    pub identity: Option<(u64, u64)>,
    /// Its mark; none in journals of versions that had none.
    pub mark: Option<&'a FileMark>,
    /// Its size since it was laid out; none before, and if it grows.
    pub size: Option<u64>,
    /// When its run gave the last sign of life.
    pub last_sign: SystemTime,
}

impl NewFile {
    /// Removes the file, if it has a name.
    pub fn remove(self) -> Result<Removal, BlockError> {
        let Some(path) = &self.path else { return Ok(Removal::Absent) };
        let fail = |errno: Errno| BlockError::at(OPERATION, path, errno);
        let before = fstat(&self.file).map_err(fail)?;
        let name = path.file_name().unwrap_or_default();
        let removal = take_away(self.directory.as_fd(), Path::new(name), &self.file, &before);
        match removal.map_err(fail)? {
            Removal::Absent if before.st_nlink > 0 => {
                Ok(Removal::Kept("it was moved while durio used it"))
            }
            removal => Ok(removal),
        }
    }
}

/// Removes a file that a dead run left, if all that is known of it still holds.
///
/// # Errors
/// If this cannot be determined now: its filesystem is not there, or a look at it fails.
pub fn remove_left(left: &LeftFile<'_>) -> Result<Removal, BlockError> {
    let fail = |errno: Errno| BlockError::at(OPERATION, left.path, errno);
    let (parent, name) = (left.path.parent(), left.path.file_name());
    let (Some(parent), Some(name)) = (parent, name) else { return Err(fail(Errno::INVAL)) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = open_at(parent, flags, Mode::empty()).map_err(fail)?;
    let found = match look(directory.as_fd(), Path::new(name)).map_err(fail)? {
        Some(found) => Some((found, name.to_owned(), false)),
        // Its run may have been killed between the two steps of the removal.
        None => {
            let name = aside(Path::new(name));
            look(directory.as_fd(), Path::new(&name))
                .map_err(fail)?
                .map(|found| (found, name, true))
        }
    };
    let Some((found, name, was_checked)) = found else { return absent(left, directory.as_fd()) };
    let Some(file) = open_regular(&found).map_err(fail)? else {
        return Ok(Removal::Kept("its name now belongs to something that is not a file"));
    };
    let stat = fstat(&file).map_err(fail)?;
    match doubt(left, file.as_fd(), &stat, was_checked) {
        Some(reason) => Ok(Removal::Kept(reason)),
        None => take_away(directory.as_fd(), Path::new(&name), &file, &stat).map_err(fail),
    }
}

/// The file is gone if the filesystem that it was made on is there.
fn absent(left: &LeftFile<'_>, directory: BorrowedFd<'_>) -> Result<Removal, BlockError> {
    let device = fstat(directory).map(|stat| stat.st_dev).ok();
    if left.identity.is_none_or(|(made_on, _)| device == Some(made_on)) {
        return Ok(Removal::Absent);
    }
    let reason = "its filesystem is not mounted";
    Err(BlockError::because(ErrorKind::NotFound, OPERATION, reason).about(left.path.display()))
}

/// The file or node of this name, of any type, without an effect on it.
fn look(directory: BorrowedFd<'_>, name: &Path) -> Result<Option<OwnedFd>, Errno> {
    match openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Opens the found file if it is regular: opening a device or a FIFO has effects.
fn open_regular(found: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    if FileType::from_raw_mode(fstat(found)?.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    open_at(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(Some)
}

/// Why the file may be another one than durio made, or have other contents than durio wrote. What
/// `was_checked` was moved, which changes its time.
fn doubt(
    left: &LeftFile<'_>,
    file: BorrowedFd<'_>,
    stat: &Stat,
    was_checked: bool,
) -> Option<&'static str> {
    let size = stat.st_size.cast_unsigned();
    let Some((device, inode)) = left.identity else {
        // Its inode is unknown; an empty file under a random name is safe to remove.
        let is_random = left.mark.is_some_and(|mark| left.path.ends_with(mark.file_name()));
        return (!is_random || size > 0).then_some("its run ended while it made the file");
    };
    if inode != stat.st_ino || left.mark.is_some_and(|mark| !mark.is_on(file)) {
        return Some("another file has its name now");
    }
    // The number of a device may be another one after each mount (btrfs, memory filesystems).
    if device != stat.st_dev && !left.mark.is_some_and(|mark| mark.in_attribute) {
        return Some("its filesystem has another device number now");
    }
    if left.size.is_some_and(|laid_out| laid_out != size) {
        return Some("its size was changed");
    }
    let changed = changed_at(stat).is_none_or(|at| at > left.last_sign + AFTER_LAST_SIGN);
    (left.mark.is_some() && changed && !was_checked).then_some("it was changed after its run ended")
}

/// When anything of the file changed last: what it contains, its attributes, its names. A user can set
/// back the time of its contents (`cp -p`), but not this one.
fn changed_at(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_ctime).ok()?;
    let nanos = u32::try_from(stat.st_ctime_nsec).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

fn aside(name: &Path) -> OsString {
    let mut name = name.as_os_str().to_owned();
    name.push(ASIDE);
    name
}

/// Unlinks the name if it is that of the open file, which looked so `before`.
fn take_away(
    directory: BorrowedFd<'_>,
    name: &Path,
    file: &OwnedFd,
    before: &Stat,
) -> Result<Removal, Errno> {
    const ANOTHER: Removal = Removal::Kept("another file has its name now");
    let aside = aside(name);
    let moves = |from: &Path, to: &Path| {
        renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE)
    };
    match moves(name, Path::new(&aside)) {
        Ok(()) if is_it(directory, Path::new(&aside), file, before)? => {
            unlinkat(directory, &aside, AtFlags::empty()).map(|()| Removal::Removed)
        }
        Ok(()) => match moves(Path::new(&aside), name) {
            Ok(()) => Ok(ANOTHER),
            Err(_) => Ok(Removal::Kept(
                "another file had its name, and was renamed with .removing appended",
            )),
        },
        Err(Errno::NOENT) => Ok(Removal::Absent),
        // Filesystems without such a rename (NFS), and a name that is being removed already.
        Err(_) if is_it(directory, name, file, before)? => {
            unlinkat(directory, name, AtFlags::empty()).map(|()| Removal::Removed)
        }
        Err(_) => Ok(ANOTHER),
    }
}

/// True if the name is that of the open file, and the file was not written to since.
fn is_it(
    directory: BorrowedFd<'_>,
    name: &Path,
    file: &OwnedFd,
    before: &Stat,
) -> Result<bool, Errno> {
    let named = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    };
    let now = fstat(file)?;
    let contents = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    Ok((named.st_dev, named.st_ino) == (now.st_dev, now.st_ino)
        && contents(&now) == contents(before))
}
