//! The facts that statx and statvfs give about a path: its kind, device number, mount and space; and
//! the block device in sysfs behind a name that a mount or a list of swaps gives, such as
//! `/dev/sda1` or `/dev/mapper/vg-data`.
//!
//! The walk takes [`PathIdentity`] from a function, so that tests can describe files that do not
//! exist.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use durio_base::Bytes;
use durio_block::Alignment;
use rustix::fs::{AtFlags, CWD, FileType, StatVfs, Statx, StatxFlags};

use crate::block_node::{self, DeviceNumber};
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
    // Counts are in fragments, not in f_bsize (statvfs(3)).
    (Bytes::new(stat.f_blocks.saturating_mul(stat.f_frsize)), free_space(stat))
}

/// Bytes of a filesystem that any user may still allocate.
pub fn free_space(stat: &StatVfs) -> Bytes {
    // f_bavail leaves out the blocks reserved for root, f_bfree does not (statvfs(3)).
    Bytes::new(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The block device that `source` names, by its node or, where `/dev` lacks it, by its name.
pub(crate) fn device_of_source(system: ObservedSystem<'_>, source: &OsStr) -> Option<SystemDir> {
    let path = Path::new(source);
    // `tmpfs` and the like name nothing, and a relative path was relative to the mounting process.
    if !path.is_absolute() {
        return None;
    }
    match (system.identify)(path).map(|identity| identity.kind) {
        Ok(FileKind::Block(number)) => block_node::by_number(system.root, number),
        _ => by_node_name(system.root, path),
    }
}

fn by_node_name(root: &SystemDir, node: &Path) -> Option<SystemDir> {
    let name = node.strip_prefix("/dev").ok()?.to_str()?;
    match name.strip_prefix("mapper/") {
        // udev makes the link; a container may have none.
        Some(volume) => by_volume_name(root, volume),
        None => block_node::by_name(root, name),
    }
}

fn by_volume_name(root: &SystemDir, volume: &str) -> Option<SystemDir> {
    let named = |dir: &SystemDir| dir.text("dm/name").as_deref() == Some(volume);
    let names = root.names("sys/block").into_iter();
    names.filter_map(|name| block_node::by_name(root, &name)).find(named)
}

/// The devices of a mount's source; bcachefs joins several by colons.
pub(crate) fn devices_of_source(system: ObservedSystem<'_>, source: &OsStr) -> Vec<SystemDir> {
    if let Some(device) = device_of_source(system, source) {
        return vec![device];
    }
    let parts = source.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    parts.filter_map(|part| device_of_source(system, part)).collect()
}

/// All devices of the mounted btrfs that `member` is one of; only `member` if none is shown.
pub(crate) fn btrfs_devices(root: &SystemDir, member: SystemDir) -> Vec<SystemDir> {
    match btrfs_of_member(root, &member.name()) {
        Some(filesystem) => {
            let devices = filesystem.join("devices");
            devices.names("").iter().filter_map(|name| devices.follow(name)).collect()
        }
        None => vec![member],
    }
}

/// The sysfs directory of the mounted btrfs that the device of this name is one of.
pub(crate) fn btrfs_of_member(root: &SystemDir, member: &str) -> Option<SystemDir> {
    let mut filesystems = root.children("sys/fs/btrfs").into_iter();
    filesystems.find(|filesystem| filesystem.join("devices").follow(member).is_some())
}

#[cfg(test)]
mod tests {
    use rustix::fs::StatVfsMountFlags;

    use super::*;
    use crate::tests::fixture::Fixture;

    /// A filesystem whose every count is another one.
    fn counts(f_frsize: u64, f_blocks: u64, [f_bfree, f_bavail]: [u64; 2]) -> StatVfs {
        StatVfs {
            f_bsize: 65_536,
            f_frsize,
            f_blocks,
            f_bfree,
            f_bavail,
            f_files: 11,
            f_ffree: 7,
            f_favail: 5,
            f_fsid: 3,
            f_flag: StatVfsMountFlags::empty(),
            f_namemax: 255,
        }
    }

    #[test]
    fn free_space_is_without_the_blocks_reserved_for_root_and_counted_in_fragments() {
        // The rows: bytes of a fragment; fragments in all, free, and free for any user.
        let rows = [
            (counts(4096, 1000, [300, 250]), 4_096_000, 1_024_000),
            (counts(1024, 1000, [300, 250]), 1_024_000, 256_000),
            // Only root may still write.
            (counts(4096, 1000, [50, 0]), 4_096_000, 0),
            (counts(512, 9, [9, 8]), 4608, 4096),
            (counts(4096, u64::MAX, [u64::MAX, u64::MAX - 1]), u64::MAX, u64::MAX),
        ];
        for (stat, size, free) in rows {
            assert_eq!(free_space(&stat), Bytes::new(free));
            assert_eq!(space(&stat), (Bytes::new(size), Bytes::new(free)));
        }
    }

    fn name_of(fixture: &Fixture, source: &str) -> Option<String> {
        let identify = fixture.identify();
        let system = ObservedSystem { root: &fixture.root(), identify: &identify };
        let device = device_of_source(system, OsStr::new(source));
        device.map(|dir| dir.name())
    }

    #[test]
    fn a_device_without_a_node_is_found_by_its_name() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        fixture.volume("dm-3", "253:3", "vg-data", &["sda"]);
        assert_eq!(name_of(&fixture, "/dev/sda").as_deref(), Some("sda"));
        assert_eq!(name_of(&fixture, "/dev/mapper/vg-data").as_deref(), Some("dm-3"));
        assert_eq!(name_of(&fixture, "/dev/mapper/vg-other"), None);
        assert_eq!(name_of(&fixture, "tmpfs"), None);
        assert_eq!(name_of(&fixture, "server:/export"), None);
    }

    #[test]
    fn several_devices_may_be_joined_by_colons() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        fixture.scsi_disk("sdb", "8:16");
        let identify = fixture.identify();
        let source = OsStr::new("/dev/sda:/dev/sdb");
        let system = ObservedSystem { root: &fixture.root(), identify: &identify };
        let devices = devices_of_source(system, source);
        let names: Vec<_> = devices.iter().map(SystemDir::name).collect();
        assert_eq!(names, ["sda", "sdb"]);
    }
}
