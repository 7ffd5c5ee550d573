//! By what a thing is told from any other of its name.
//!
//! In: a path, or a directory of sysfs. Out: an [`Identity`], which the journal keeps and which is
//! compared before anything is touched. Not here: what follows from the comparison
//! ([`super::proof`]).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use serde::{Deserialize, Serialize};

use super::system::System;

/// Facts by name. Of a device its number, the kernel's running number of the disk (`diskseq`, new
/// for every disk and every change of medium) and its size; of a file its inode and when it was
/// born; of a mount the kernel's number of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Identity(BTreeMap<String, String>);

impl Identity {
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
            let shown = |it: &Self| it.get(name).unwrap_or("unknown").to_owned();
            format!("its {name} was {} and is {}", shown(self), shown(now))
        })
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }
}

/// Of a disk or partition, by its directory in sysfs; nothing if it is not there.
pub(super) fn disk_identity(system: &dyn System, directory: &str) -> Option<Identity> {
    let fact = |name: &str| system.read(Path::new(&format!("{directory}/{name}")));
    let size = fact("size")?;
    // A partition has the number of its disk, and begins somewhere on it.
    let diskseq = fact("diskseq").or_else(|| fact("../diskseq"));
    let facts = [("device", fact("dev")), ("diskseq", diskseq), ("size", Some(size))];
    let mut identity = Identity::of(facts);
    identity.0.extend(fact("start").map(|start| ("start".to_owned(), start)));
    Some(identity)
}

/// A device that is open, so that its number is not given to another one meanwhile.
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

/// Of a file or directory; links are not followed. Nothing if it is not there.
pub(super) fn file_identity(path: &Path) -> Option<Identity> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, mask).ok()?;
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth =
        has_birth.then(|| format!("{}.{:09}", stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec));
    let kind = rustix::fs::FileType::from_raw_mode(stat.stx_mode.into());
    Some(Identity::of([
        ("device", Some(number_of_filesystem(&stat))),
        ("inode", Some(stat.stx_ino.to_string())),
        ("birth", birth),
        ("size", kind.is_file().then(|| stat.stx_size.to_string())),
    ]))
}

fn number_of_filesystem(stat: &Statx) -> String {
    format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor)
}

/// STATX_MNT_ID_UNIQUE of Linux 6.8: a number that no later mount gets again (statx(2)).
const UNIQUE: u32 = 0x4000;

/// The number of the mount that is uppermost at a directory.
pub(super) fn mount_number(mount_point: &Path) -> Option<String> {
    let mask = StatxFlags::MNT_ID | StatxFlags::from_bits_retain(UNIQUE);
    let stat = rustix::fs::statx(CWD, mount_point, AtFlags::NO_AUTOMOUNT, mask).ok()?;
    Some(stat.stx_mnt_id.to_string())
}
