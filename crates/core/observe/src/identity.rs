//! The facts that statx and statvfs give about a path.
//!
//! The kind, device number, mount and space of a path. The walk takes this as a function, so that
//! tests can describe files that do not exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_block::Alignment;
use rustix::fs::{AtFlags, CWD, FileType, StatVfs, Statx, StatxFlags};

use crate::block_node::DeviceNumber;
use crate::system_dir::SystemDir;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    Block(DeviceNumber),
    Character(DeviceNumber),
    /// A socket or a pipe.
    Other,
}

/// What the system knows of a path before `/sys` and `/proc` are read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathIdentity {
    pub(crate) kind: FileKind,
    /// Absolute and without symbolic links.
    pub(crate) absolute: PathBuf,
    /// Device of the filesystem that holds it.
    pub(crate) device: DeviceNumber,
    /// Within that filesystem; with its device the same for all names of a file.
    pub(crate) inode: u64,
    /// Absent before Linux 5.8.
    pub(crate) mount_id: Option<u64>,
    pub(crate) size: Bytes,
    pub(crate) free: Bytes,
    pub(crate) direct_io: Option<Alignment>,
}

/// How the walk asks for a [`PathIdentity`].
pub(crate) type Identify<'a> = &'a dyn Fn(&Path) -> io::Result<PathIdentity>;

/// A system that is looked at: this machine, a copy of another one, or a made-up one.
#[derive(Clone, Copy)]
pub(crate) struct ObservedSystem<'a> {
    pub(crate) root: &'a SystemDir,
    pub(crate) identify: Identify<'a>,
}

/// Asks the running system; symbolic links are followed, nothing is opened.
pub(crate) fn identify(path: &Path) -> io::Result<PathIdentity> {
    // The list of mounts knows real paths only.
    let absolute = fs::canonicalize(path)?;
    // A kernel that does not know a bit leaves it out of the answer (statx(2)).
    let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | StatxFlags::DIOALIGN;
    let stat = rustix::fs::statx(CWD, &absolute, AtFlags::empty(), mask)?;
    let (size, free) = rustix::fs::statvfs(&absolute).map(|stat| space(&stat)).unwrap_or_default();
    Ok(PathIdentity {
        kind: kind_of(&stat),
        absolute,
        device: DeviceNumber { major: stat.stx_dev_major, minor: stat.stx_dev_minor },
        inode: stat.stx_ino,
        mount_id: has(&stat, StatxFlags::MNT_ID).then_some(stat.stx_mnt_id),
        size,
        free,
        direct_io: direct_io_of(&stat),
    })
}

fn has(stat: &Statx, flag: StatxFlags) -> bool {
    stat.stx_mask & flag.bits() != 0
}

fn kind_of(stat: &Statx) -> FileKind {
    let number = DeviceNumber { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor };
    match FileType::from_raw_mode(u32::from(stat.stx_mode)) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::BlockDevice => FileKind::Block(number),
        FileType::CharacterDevice => FileKind::Character(number),
        _ => FileKind::Other,
    }
}

fn direct_io_of(stat: &Statx) -> Option<Alignment> {
    // Linux before 6.1 reports nothing, and later ones only files and block devices.
    has(stat, StatxFlags::DIOALIGN).then(|| Alignment {
        memory: Bytes::new(u64::from(stat.stx_dio_mem_align)),
        offset: Bytes::new(u64::from(stat.stx_dio_offset_align)),
    })
}

fn space(stat: &StatVfs) -> (Bytes, Bytes) {
    // Counts are in fragments, not in f_bsize (statvfs(3)); f_bavail leaves out root's reserve.
    let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(stat.f_frsize));
    (bytes(stat.f_blocks), bytes(stat.f_bavail))
}
