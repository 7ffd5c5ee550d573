//! A folder that is held open, so that files made in it are made in that very folder.
//!
//! Every call looks a path up again, and a user with write access to one of its folders can put a
//! link in between. So the folder is opened once, and everything else goes by one name at a time
//! below its descriptor: no link is followed, and no existing file is opened to be overwritten.
//! This walk does what openat2(2) would with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, and works on
//! kernels and in containers that refuse that call.

mod own;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, fcntl_getfl,
    fcntl_setfl, flock, fstat, fsync, mkdirat, open, openat, renameat, renameat_with, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::open::open_regular_at;

/// Only the owner may write, whatever the umask.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const HOLDING: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    held: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// The folder that the user's path leads to, by links too.
    pub fn open(path: &Path) -> io::Result<Self> {
        let place = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self { held: open(place, HOLDING, Mode::empty())?, path: path.to_owned() })
    }

    /// The same, made with all its parents where it is not there.
    pub fn open_or_make(path: &Path) -> io::Result<Self> {
        if !path.as_os_str().is_empty() {
            fs::create_dir_all(path)?;
        }
        Self::open(path)
    }

    /// Makes the folder, which must not be there, with all its parents.
    pub fn make(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = Self::open_or_make(path.parent().unwrap_or(Path::new("")))?;
        let folder = parent.make_folder(name)?;
        // The parent may belong to another user, who may have replaced the folder.
        folder.check_owner()?;
        Ok(Self { path: path.to_owned(), ..folder })
    }

    /// Where it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses, as root, a folder in which another user can add or exchange files: durio's files
    /// there would be under that user's control.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] with the reason, for root alone.
    pub fn check_owner(&self) -> io::Result<()> {
        if !geteuid().is_root() {
            return Ok(());
        }
        let facts = fstat(&self.held)?;
        let reason = if facts.st_uid != self.own_id()? {
            format!("it belongs to user {}, and durio runs as root", facts.st_uid)
        } else if facts.st_mode & 0o022 != 0 {
            // A sticky bit does not help: others could still make a name before durio does.
            "others can write to it, and durio runs as root".to_owned()
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
    }

    /// The user that owns new files of this process on this filesystem. NFS maps root to `nobody`,
    /// and other filesystems have one owner for all files.
    fn own_id(&self) -> io::Result<u32> {
        let user = geteuid().as_raw();
        if fstat(&self.held)?.st_uid == user {
            return Ok(user);
        }
        // If no file can be made here, its owner cannot be determined.
        Ok(self.make_unnamed().and_then(|file| Ok(fstat(&file)?.st_uid)).unwrap_or(user))
    }

    /// The folder of this name in it.
    ///
    /// # Errors
    /// If it does not exist, or is a link.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = single(name.as_ref())?;
        let held = openat(&self.held, name, HOLDING | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Self { held, path: self.path.join(name) })
    }

    /// Makes a folder in it, where nothing has the name.
    pub fn make_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        mkdirat(&self.held, single(name.as_ref())?, FOLDER_MODE)?;
        self.folder(name)
    }

    /// Makes a file, which must not be there.
    pub fn make_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.make_file_with(name, FILE_MODE.bits())
    }

    /// The same with these permissions, as far as the umask has them.
    pub fn make_file_with(&self, name: impl AsRef<OsStr>, permissions: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(permissions & 0o777);
        Ok(openat(&self.held, single(name.as_ref())?, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// Makes a link, which is not followed, where nothing has the name.
    pub fn make_link(&self, name: impl AsRef<OsStr>, target: &Path) -> io::Result<()> {
        Ok(symlinkat(target, &self.held, single(name.as_ref())?)?)
    }

    /// A file without a name on the filesystem of the folder, gone when it is closed.
    pub fn make_unnamed(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(&self.held, ".", flags, Mode::from_raw_mode(0o600)) {
            // A filesystem that has none (overlayfs before Linux 6.3, NFS): it loses its name at once.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let name = format!(".durio-{}", std::process::id());
                let file = self.make_file_with(&name, 0o600)?;
                self.remove_file(&name)?;
                Ok(file)
            }
            other => Ok(other?.into()),
        }
    }

    /// Opens an own file, to read it and to continue writing it.
    ///
    /// # Errors
    /// If it does not exist, is not a regular file, has other names elsewhere, or has another
    /// owner.
    pub fn open_own(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.held, single(name.as_ref())?, flags, Mode::empty());
        let refused = |reason| io::Error::new(io::ErrorKind::PermissionDenied, reason);
        let file = file.map_err(|errno| match errno {
            Errno::LOOP => refused("it is a symbolic link"),
            other => other.into(),
        })?;
        let facts = fstat(&file)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return Err(refused("it is not a regular file"));
        }
        // Another user may have linked a file to this name.
        if facts.st_nlink != 1 {
            return Err(refused("it has other names (hard links)"));
        }
        if facts.st_uid != self.own_id()? {
            return Err(refused("it belongs to another user"));
        }
        Ok(file.into())
    }

    /// Opens an own file to append to it, or makes it, for its owner alone.
    ///
    /// # Errors
    /// As [`Folder::open_own`], but for a file that is not there.
    pub fn append_own(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let file = match self.open_own(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_file_with(&name, 0o600)?
            }
            other => other?,
        };
        fcntl_setfl(&file, (fcntl_getfl(&file)? - OFlags::NONBLOCK) | OFlags::APPEND)?;
        Ok(file)
    }

    /// True if something has this name; a link is not followed.
    pub fn has(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match statat(&self.held, single(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// If it is not a regular file.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        open_regular_at(&self.held, Path::new(single(name.as_ref())?))
    }

    /// Replaces a file at once: readers see the old or the new one, whole, also after a power loss.
    /// An existing file is not opened; a link of that name is replaced, not followed.
    ///
    /// # Errors
    /// If it cannot be written, for example because the disk is full; the old file stays then.
    pub fn replace(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        let name = single(name.as_ref())?;
        let mut new = std::ffi::OsString::from(".");
        new.push(name);
        new.push(".new");
        // Left by a process that was killed here.
        self.remove_file(&new)?;
        let mut file = self.make_file(&new)?;
        // Before the rename: else after a power loss the name may lead to a file that is empty.
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| self.rename(&new, name));
        if renamed.is_err() {
            let _ = self.remove_file(&new);
        }
        // The new name is in the folder, whose own sync makes it last.
        renamed.and_then(|()| self.sync())
    }

    /// Renames a file in it, replacing any file of the new name.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.held, single(from.as_ref())?, &self.held, single(to.as_ref())?)?)
    }

    /// Removes a file or link; a missing file is not an error.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match unlinkat(&self.held, single(name.as_ref())?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes a folder in it that is empty.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.held, single(name.as_ref())?, AtFlags::REMOVEDIR)?)
    }

    /// All names in it, in no order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let is_entry = |name: &OsString| name != "." && name != "..";
        let entries = Dir::read_from(&self.held)?;
        let names =
            entries.map(|entry| Ok(OsString::from_vec(entry?.file_name().to_bytes().to_vec())));
        names.filter(|name| !name.as_ref().is_ok_and(|name| !is_entry(name))).collect()
    }

    /// Whether we, as this user, have made it.
    pub fn is_own(&self) -> io::Result<bool> {
        Ok(fstat(&self.held)?.st_uid == geteuid().as_raw())
    }

    /// Locks it against other processes that lock it, as long as it is held; false if one of them has it.
    ///
    /// # Errors
    /// If the filesystem has no locks.
    pub fn try_lock(&self) -> io::Result<bool> {
        match flock(&self.held, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            other => Ok(other.map(|()| true)?),
        }
    }

    /// Makes the names in it last.
    pub fn sync(&self) -> io::Result<()> {
        match fsync(&self.held) {
            // Some network and userland filesystems have no sync of folders.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Gives a file or folder a path at which nothing is.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every filesystem can (NFS).
        Err(Errno::INVAL) if to.symlink_metadata().is_err() => fs::rename(from, to),
        other => Ok(other?),
    }
}

/// The name, if it is one: it leads neither up nor further down.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => {
            let reason = format!("'{}' is not a name of one file", name.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
        }
    }
}

#[cfg(test)]
mod tests;
