//! Removes exactly the file that durio made, or says why it stays.
//!
//! Between the look at a name and its removal the name can change hands; the kernel has no call
//! that unlinks an open file. So the name is first moved to a random one that no other process
//! knows, then the moved file is compared with the open file, and removed or moved back.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fstat, open as open_at, openat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::{FileMark, NewFile};
use crate::{BlockError, ErrorKind};

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
    /// It was gone.
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
    ///
    /// # Errors
    /// If it cannot be removed.
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
        return Ok(Removal::Kept("what has its name now is no file"));
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
    let reason = "the filesystem that it was made on is not there";
    Err(BlockError::because(ErrorKind::NotFound, OPERATION, Some(left.path), reason))
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
        return Some("its size is not what durio gave it");
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
            Err(_) => {
                Ok(Removal::Kept("another file had its name, and has .removing behind that now"))
            }
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
