//! Folders that must be the user's own: how they are reached, and how they are removed.
//!
//! A state folder holds journals that decide which files are removed, also by root. So its path is
//! walked one component at a time, and a link on the way is followed only if its maker could
//! exchange the whole path anyway: root, the user, or the owner of `/` (root again, as a user
//! namespace shows it), in a folder where no other user can rename it. Folders on the way may
//! belong to others: without a link they lead only to their owners' files. From the first own
//! folder on no link is followed at all.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, open, openat, readlinkat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{Folder, HOLDING, single};

/// No other user may look into a folder of the state.
const OWN_MODE: Mode = Mode::from_raw_mode(0o700);
/// A folder on the way is searched, not read: others' homes often permit no more.
const PASSING: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The kernel's own limit of links in a path.
const LINKS_MAX: u32 = 40;
/// Folders within a run folder: a bench, its layers, their runs, and some to spare.
const DEPTH_MAX: u32 = 8;

impl Folder {
    /// The user's own folder at an absolute path; none if it is not there.
    ///
    /// # Errors
    /// If a link of another user is on the way, or the folder is a link or not the user's own.
    pub fn open_own_path(path: &Path) -> io::Result<Option<Self>> {
        absent(own_at(path, false))
    }

    /// The same, made with all its parents where it is not there.
    ///
    /// # Errors
    /// As [`Folder::open_own_path`], and if it cannot be made.
    pub fn make_own_path(path: &Path) -> io::Result<Self> {
        own_at(path, true)
    }

    /// The user's own folder of this name in it; none if it is not there.
    ///
    /// # Errors
    /// If it is a link, or not the user's own.
    pub fn own_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Self>> {
        let name = single(name.as_ref())?;
        absent(openat(&self.held, name, HOLDING | OFlags::NOFOLLOW, Mode::empty()).map_err(
            |errno| match errno {
                Errno::LOOP | Errno::NOTDIR => refused("it is a link or not a folder".to_owned()),
                other => other.into(),
            },
        ))?
        .map(|held| {
            let folder = Self { held, path: self.path.join(name) };
            folder.check_own().map(|()| folder)
        })
        .transpose()
    }

    /// The same, made where it is not there; no other user may look into a new one, whatever the umask.
    ///
    /// # Errors
    /// If it is a link or not the user's own, or cannot be made.
    pub fn own_folder_or_make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = single(name.as_ref())?;
        match mkdirat(&self.held, name, OWN_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.own_folder(name)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Refuses a folder of another user; takes the right to write from all others.
    fn check_own(&self) -> io::Result<()> {
        let facts = fstat(&self.held)?;
        if facts.st_uid != self.own_id()? {
            return Err(refused(format!("it belongs to user {}", facts.st_uid)));
        }
        if facts.st_mode & 0o022 != 0 {
            // An earlier version made it with what the umask left.
            let _ = fchmod(&self.held, Mode::from_raw_mode(facts.st_mode & 0o7755));
        }
        // Some filesystems have one mode for all.
        self.check_owner()
    }

    /// How long ago something was made in it or removed from it; zero if its clock is ahead.
    pub fn age(&self) -> io::Result<Duration> {
        let modified = fs::File::from(self.held.try_clone()?).metadata()?.modified()?;
        Ok(modified.elapsed().unwrap_or_default())
    }

    /// Removes a folder of the user's own with all that is in it. Nothing is followed: neither a link
    /// nor a mount.
    ///
    /// # Errors
    /// If it is a link, another user's, or on another filesystem, or something cannot be removed.
    pub fn remove_own_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.remove_down_to(single(name.as_ref())?, DEPTH_MAX)
    }

    fn remove_down_to(&self, name: &OsStr, depth: u32) -> io::Result<()> {
        let folder = self.own_folder(name)?.ok_or(io::ErrorKind::NotFound)?;
        if depth == 0 || fstat(&folder.held)?.st_dev != fstat(&self.held)?.st_dev {
            let reason =
                "it is nested deeper than any run folder, or a filesystem is mounted there";
            return Err(refused(format!("'{}': {reason}", folder.path.display())));
        }
        for inside in folder.names()? {
            match unlinkat(&folder.held, &inside, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => folder.remove_down_to(&inside, depth - 1)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        self.remove_folder(name)
    }
}

fn own_at(path: &Path, make: bool) -> io::Result<Folder> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = walk(path.parent().unwrap_or(Path::new("/")), make)?;
    match make {
        true => parent.own_folder_or_make(name),
        false => parent.own_folder(name)?.ok_or_else(|| io::ErrorKind::NotFound.into()),
    }
}

/// The folder at a path, through links that can be trusted; it can be passed through, not read.
fn walk(path: &Path, make: bool) -> io::Result<Folder> {
    if !path.is_absolute() {
        return Err(refused(format!("'{}' is not an absolute path", path.display())));
    }
    let root = || -> io::Result<Folder> {
        let held = open("/", PASSING | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Folder { held, path: PathBuf::from("/") })
    };
    let mut at = root()?;
    let mut rest: VecDeque<OsString> = steps(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let held = match openat(&at.held, &name, PASSING, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                // The XDG specification wants missing parents to be private.
                match mkdirat(&at.held, &name, OWN_MODE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                openat(&at.held, &name, PASSING, Mode::empty())?
            }
            other => other?,
        };
        match FileType::from_raw_mode(fstat(&held)?.st_mode) {
            FileType::Directory if name == ".." => {
                at.path.pop();
                at.held = held;
            }
            FileType::Directory => at = Folder { held, path: at.path.join(name) },
            FileType::Symlink => {
                links += 1;
                let place = at.path.join(&name);
                check_link(&at.held, &held, &place)?;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = readlinkat(&held, "", Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    at = root()?;
                }
                for step in steps(&target).collect::<Vec<_>>().into_iter().rev() {
                    rest.push_front(step);
                }
            }
            _ => {
                let text = format!("'{}' is not a directory", at.path.join(&name).display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, text));
            }
        }
    }
    Ok(at)
}

fn steps(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn check_link(folder: &OwnedFd, link: &OwnedFd, path: &Path) -> io::Result<()> {
    let root = open("/", PASSING | OFlags::DIRECTORY, Mode::empty())?;
    let trusted = [0, geteuid().as_raw(), fstat(&root)?.st_uid];
    let (folder, link): (Stat, Stat) = (fstat(folder)?, fstat(link)?);
    let is_sticky = folder.st_mode & 0o1000 != 0;
    let is_fixed = trusted.contains(&folder.st_uid) && (folder.st_mode & 0o022 == 0 || is_sticky);
    if trusted.contains(&link.st_uid) && is_fixed {
        return Ok(());
    }
    let owner = link.st_uid;
    Err(refused(format!("'{}' is a link that user {owner} can replace", path.display())))
}

fn absent<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}
