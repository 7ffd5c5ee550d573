//! The smallest devices that a layer takes.
//!
//! In: at most so large is each device. Out: a fault if that is too small for sure. What a program
//! itself needs on top, it says itself.

use durio_units::Bytes;

use super::Fault;
use crate::{BtrfsProfile, DeclaredKind, DeclaredMd, MdBitmap};

/// mkfs.xfs refuses less since xfsprogs 5.19 (mkfs.xfs(8): "must be at least 300 MiB").
const XFS: Bytes = Bytes::from_mib(300);

/// mke2fs makes no journal in less than 2048 blocks, of 1 KiB in a filesystem this small
/// (e2fsprogs, lib/ext2fs/mkjournal.c), and without a journal it is no ext4 of this comparison.
const EXT4: Bytes = Bytes::from_mib(2);

/// What mkfs.btrfs 6.2 names as its minimum with one copy of everything, 47 185 920 bytes.
const BTRFS_SINGLE: Bytes = Bytes::new(47_185_920);

/// The same of each of several devices with raid1 and raid10.
const BTRFS_MIRRORED: Bytes = Bytes::new(131_072_000);

/// `SPA_MINDEVSIZE` (OpenZFS, include/sys/fs/zfs.h).
const ZFS: Bytes = Bytes::from_mib(64);

/// One extent of 4 MiB behind the first MiB, where LVM keeps its metadata, and one for the
/// metadata of a copy.
const LVM: Bytes = Bytes::from_mib(9);

/// Room for superblock, bitmap, log and a chunk: mdadm reserves 1 MiB of small devices (mdadm,
/// super1.c) and rounds the rest down to chunks.
const MD: Bytes = Bytes::from_mib(4);

pub(super) fn check(kind: &DeclaredKind, size: Option<Bytes>) -> Result<(), Fault> {
    match kind {
        DeclaredKind::Ext4(_) => at_least(EXT4, size, "with a journal"),
        DeclaredKind::Xfs(_) => at_least(XFS, size, "of one device"),
        DeclaredKind::Btrfs { profile: BtrfsProfile::Single, .. } => {
            at_least(BTRFS_SINGLE, size, "of each device")
        }
        DeclaredKind::Btrfs { .. } => at_least(BTRFS_MIRRORED, size, "of each device"),
        DeclaredKind::Zfs { .. } => at_least(ZFS, size, "of each device"),
        _ => Ok(()),
    }
}

pub(super) fn check_lvm(size: Option<Bytes>) -> Result<(), Fault> {
    at_least(LVM, size, "of each device")
}

pub(super) fn check_md(md: &DeclaredMd, size: Option<Bytes>) -> Result<(), Fault> {
    // A device must hold a chunk beside the metadata, and mdadm's default is 512 KiB.
    let chunk = md.chunk.unwrap_or(Bytes::from_kib(512)).get();
    let bitmap =
        if matches!(md.bitmap, MdBitmap::None | MdBitmap::External(_)) { 0 } else { 1 << 20 };
    let least = Bytes::new(MD.get().saturating_add(chunk).saturating_add(bitmap));
    at_least(least, size, "of each device")
}

fn at_least(least: Bytes, size: Option<Bytes>, of_what: &str) -> Result<(), Fault> {
    match size {
        Some(size) if size < least => Err(format!(
            "it needs {least} {of_what} or more and there is {size}; declare larger devices"
        )),
        _ => Ok(()),
    }
}
