//! Identities: how a thing, and the contents of a device, are distinguished from any other of that
//! name.
//!
//! Reads the [`LayerIdentity`] of a path: facts that distinguish it. The journal keeps it, and it is
//! compared before anything is touched; [`crate::undo`] draws the conclusion.
//!
//! What a build wrote to a device is recognised by the device's first bytes. A label or an identifier
//! counts only at its exact place in a superblock: old bytes elsewhere outlive every mkfs. Each kind
//! of layer gives that place ([`crate::kinds`]).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use durio_base::Bytes;
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Facts by name. A device has its number, the kernel's running number of the disk (`diskseq`, new
/// for every disk and every change of medium) and its size; a file its inode and time of birth; a
/// mount its number in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct LayerIdentity(BTreeMap<String, String>);

impl LayerIdentity {
    pub(super) fn of<const N: usize>(facts: [(&str, Option<String>); N]) -> Self {
        let known = facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)));
        Self(known.collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn with(mut self, name: &str, fact: &str) -> Self {
        self.0.insert(name.to_owned(), fact.to_owned());
        self
    }

    /// The first fact that is another one now.
    pub(super) fn difference(&self, now: &Self) -> Option<String> {
        let names = self.0.keys().chain(now.0.keys().filter(|name| !self.0.contains_key(*name)));
        names.into_iter().find(|name| self.0.get(*name) != now.0.get(*name)).map(|name| {
            let shown = |identity: &Self| identity.get(name).unwrap_or("unknown").to_owned();
            format!("its {name} was {} and is {}", shown(self), shown(now))
        })
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }
}

/// A device held open, so that its number is not given to another one in the meantime.
#[derive(Debug)]
pub(super) struct HeldDevice {
    directory: String,
    _file: Option<File>,
}

impl HeldDevice {
    /// By its directory in sysfs; without a file on a scripted machine.
    pub(super) const fn new(directory: String, file: Option<File>) -> Self {
        Self { directory, _file: file }
    }

    pub(super) fn directory(&self) -> &str {
        &self.directory
    }
}

/// Opens a block device for reading, and not for itself alone: a program such as mkfs takes it so.
pub(super) fn open_device(device: &Path) -> io::Result<HeldDevice> {
    // NONBLOCK: the open of a drive without a medium would wait for one.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(device, flags, Mode::empty())?);
    let stat = rustix::fs::fstat(&file)?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device() {
        return Err(io::Error::other("it is not a block device"));
    }
    let number = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let directory = format!("/sys/dev/block/{}:{}", number.0, number.1);
    Ok(HeldDevice::new(directory, Some(file)))
}

/// The identity of a file or directory; links are not followed. Nothing if it does not exist.
pub(super) fn file_identity(path: &Path) -> Option<LayerIdentity> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, FILE_FACTS).ok()?;
    Some(identity_of(&stat))
}

/// The identity of an open file.
pub(super) fn open_identity(file: impl AsFd) -> io::Result<LayerIdentity> {
    Ok(identity_of(&rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, FILE_FACTS)?))
}

const FILE_FACTS: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

fn identity_of(stat: &Statx) -> LayerIdentity {
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth =
        has_birth.then(|| format!("{}.{:09}", stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec));
    let kind = rustix::fs::FileType::from_raw_mode(stat.stx_mode.into());
    LayerIdentity::of([
        ("device", Some(number_of_filesystem(stat))),
        ("inode", Some(stat.stx_ino.to_string())),
        // Filesystems give a freed inode's number to the next file; its time of birth is another
        // one.
        ("birth", birth),
        // A directory's size changes with its entries and identifies nothing.
        ("size", kind.is_file().then(|| stat.stx_size.to_string())),
    ])
}

/// Makes a directory that only this user can enter, and opens it, so that no other process can have
/// replaced it.
pub(super) fn made_directory(path: &Path) -> io::Result<LayerIdentity> {
    // Other users who can enter could place links where root then writes.
    fs::DirBuilder::new().mode(0o700).create(path)?;
    let folder = open_folder(path)?;
    let stat = rustix::fs::fstat(&folder)?;
    match stat.st_uid == rustix::process::geteuid().as_raw() {
        true => open_identity(&folder),
        false => Err(io::Error::other("another directory has taken its place")),
    }
}

/// Makes a file, with all of its space, in a folder that is still the one that was made.
pub(super) fn made_file(
    path: &Path,
    size: Bytes,
    folder: &LayerIdentity,
) -> io::Result<LayerIdentity> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = open_folder(parent)?;
    if let Some(what) = folder.difference(&open_identity(&parent)?) {
        return Err(io::Error::other(format!("its folder has been replaced: {what}")));
    }
    // EXCL and NOFOLLOW: never over a file or through a link that another process put there.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = File::from(rustix::fs::openat(&parent, name, flags, mode)?);
    let made = allocate(&file, size).and_then(|()| open_identity(&file));
    if made.is_err() {
        // Without an identity no undo could prove that the file is this build's. Only root writes
        // to the build's folder, so the name is still this file's.
        rustix::fs::unlinkat(&parent, name, AtFlags::empty())?;
    }
    made
}

fn allocate(file: &File, size: Bytes) -> io::Result<()> {
    // Allocated ahead: a write into a hole makes the filesystem below allocate, which is not a cost
    // of the measured stack. Ctrl-C or a closed terminal interrupts the call; the build stops after
    // the step.
    let allocate = || rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.get());
    match rustix::io::retry_on_intr(allocate) {
        // A filesystem that cannot allocate ahead gets a file with holes.
        Err(Errno::OPNOTSUPP) => file.set_len(size.get()),
        other => Ok(other?),
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    // NOFOLLOW: a link in its place would have root make its files wherever the link leads.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn number_of_filesystem(stat: &Statx) -> String {
    format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor)
}

/// STATX_MNT_ID_UNIQUE of Linux 6.8: a number that no later mount gets again (statx(2)).
const UNIQUE: u32 = 0x4000;

/// The number of the mount that is uppermost at a directory.
pub(super) fn mount_number(mount_point: &Path) -> Option<String> {
    // Both bits: kernels before 6.8 pass over the one that they do not know and give the old
    // number, which a later mount may get again. It is the best that there is.
    let mask = StatxFlags::MNT_ID | StatxFlags::from_bits_retain(UNIQUE);
    let stat = rustix::fs::statx(CWD, mount_point, AtFlags::NO_AUTOMOUNT, mask).ok()?;
    Some(stat.stx_mnt_id.to_string())
}

/// How the data that a kind of layer writes to a device is recognised.
pub(crate) struct SuperblockFormat {
    /// What it is called where signatures are found.
    pub(crate) signatures: &'static [&'static str],
    /// Reads it, for the tag of a build; nothing if it is not that build's.
    pub(crate) read: fn(&DeviceHead<'_>, &str) -> Option<Ours>,
}

/// What a build wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WrittenSuperblock {
    /// What wipefs(8) calls it.
    pub(super) types: Vec<&'static str>,
    /// Not mounted or filled since it was made, as far as it says so itself.
    pub(super) is_fresh: bool,
}

/// Enough bytes for every place that is read.
pub(super) const HEAD: durio_base::Bytes = durio_base::Bytes::from_mib(2);

/// What wipefs calls it, and whether it is as it was made.
pub(crate) type Ours = (&'static [&'static str], bool);

/// The first bytes of a device.
pub(crate) struct DeviceHead<'a>(pub(crate) &'a [u8]);

impl DeviceHead<'_> {
    pub(crate) fn at(&self, place: usize, length: usize) -> Option<&[u8]> {
        self.0.get(place..place.checked_add(length)?)
    }

    /// A text that is filled up with zeros.
    pub(crate) fn is_text(&self, place: usize, length: usize, text: &str) -> bool {
        let rest = self.at(place, length).and_then(|field| field.strip_prefix(text.as_bytes()));
        rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    }

    pub(crate) fn u16_le(&self, place: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.at(place, 2)?.try_into().ok()?))
    }

    pub(crate) fn u64_le(&self, place: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.at(place, 8)?.try_into().ok()?))
    }

    pub(crate) fn u64_be(&self, place: usize) -> Option<u64> {
        Some(u64::from_be_bytes(self.at(place, 8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_in_the_very_folder_that_was_made_and_over_nothing() {
        let outer = tempfile::tempdir().unwrap();
        let (folder, moved) = (outer.path().join("folder"), outer.path().join("moved"));
        let made = made_directory(&folder).unwrap();
        let size = Bytes::from_kib(64);
        let file = made_file(&folder.join("a"), size, &made).unwrap();
        assert_eq!(file_identity(&folder.join("a")), Some(file.clone()));
        assert!(made_file(&folder.join("a"), size, &made).is_err());
        std::os::unix::fs::symlink(outer.path().join("target"), folder.join("b")).unwrap();
        assert!(made_file(&folder.join("b"), size, &made).is_err());
        // Another folder, and a link to one, under the same name.
        fs::rename(&folder, &moved).unwrap();
        std::os::unix::fs::symlink(outer.path(), &folder).unwrap();
        assert!(made_file(&folder.join("c"), size, &made).is_err());
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        let error = made_file(&folder.join("c"), size, &made).unwrap_err();
        assert!(error.to_string().contains("its folder has been replaced"), "{error}");
        assert!(!outer.path().join("target").exists() && !outer.path().join("c").exists());
        // The same name and content again.
        fs::write(moved.join("a"), vec![0; 64 << 10]).unwrap();
        fs::remove_file(moved.join("a")).unwrap();
        fs::write(moved.join("a"), vec![0; 64 << 10]).unwrap();
        assert!(file.difference(&file_identity(&moved.join("a")).unwrap()).is_some());
    }

    #[test]
    fn a_file_that_does_not_fit_is_an_error_and_is_not_left_behind() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("folder");
        let made = made_directory(&folder).unwrap();
        let error = made_file(&folder.join("a"), Bytes::new(1 << 62), &made).unwrap_err();
        let expected = [Errno::NOSPC, Errno::FBIG].map(|errno| Some(errno.raw_os_error()));
        assert!(expected.contains(&error.raw_os_error()), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}
