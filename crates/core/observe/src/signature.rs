//! Recognises the contents of a device by magic numbers at both ends, and whether a process holds
//! it.
//!
//! When in doubt it reports: a signature too many costs one more option on the command line, one
//! too few costs data.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use durio_base::Bytes;
use durio_block::MEMBER_SIGNATURE;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Something recognised on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The device or partition that it is on.
    pub device: String,
    /// What it is: `ext4`, `xfs`, `lvm2`, `md 1.2`, `gpt`.
    pub name: String,
    /// Its offset on that device.
    pub offset: Bytes,
}

type SignatureMatch = (&'static str, u64);

/// Magic numbers at a fixed place from the beginning.
const AT_HEAD: &[(&str, u64, &[u8])] = &[
    ("xfs", 0, b"XFSB"),
    ("btrfs", 0x1_0040, b"_BHRfS_M"),
    ("luks", 0, b"LUKS\xba\xbe"),
    // The second header of LUKS2, which outlives an overwritten first one.
    ("luks", 0x4000, b"SKUL\xba\xbe"),
    ("exfat", 3, b"EXFAT   "),
    ("ntfs", 3, b"NTFS    "),
    ("vfat", 0x36, b"FAT12   "),
    ("vfat", 0x36, b"FAT16   "),
    ("vfat", 0x52, b"FAT32   "),
    ("gpt", 512, b"EFI PART"),
    ("gpt", 4096, b"EFI PART"),
    ("f2fs", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("erofs", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    ("squashfs", 0, b"hsqs"),
    ("iso9660", 0x8001, b"CD001"),
    ("jfs", 0x8000, b"JFS1"),
    ("gfs2", 0x1_0000, &[0x01, 0x16, 0x19, 0x70]),
    ("bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("bcachefs", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("ceph bluestore", 0, b"bluestore block device"),
    ("oracle asm", 32, b"ORCLDISK"),
    ("vdo", 0, b"dmvdo001"),
    ("dm-integrity", 0, b"integrt\0"),
];

/// Magic numbers at a fixed place before the end.
const AT_TAIL: &[(&str, u64, &[u8])] = &[
    ("gpt", 512, b"EFI PART"),
    ("gpt", 4096, b"EFI PART"),
    ("imsm raid", 1024, b"Intel Raid ISM Cfg Sig. "),
    ("ddf raid", 512, &[0xde, 0x11, 0xde, 0x11]),
];

/// All that is recognised, in the order of the device.
pub(crate) fn find_signatures(device: &str, sample: &DeviceSample) -> Vec<Signature> {
    let mut found = table_rows(sample);
    found.extend(ext(sample));
    found.extend(swap(sample));
    found.extend(lvm(sample));
    found.extend(md(sample));
    found.extend(zfs(sample));
    found.extend(durio_raid(sample));
    found.extend(mbr(sample).filter(|_| !found.iter().any(explains_boot_sector)));
    found.sort_by_key(|(_, offset)| *offset);
    found.dedup();
    let signature = |(name, offset): SignatureMatch| Signature {
        device: device.to_owned(),
        name: name.to_owned(),
        offset: Bytes::new(offset),
    };
    found.into_iter().map(signature).collect()
}

fn table_rows(sample: &DeviceSample) -> Vec<SignatureMatch> {
    let head = AT_HEAD.iter().map(|(name, offset, magic)| (*name, Some(*offset), *magic));
    let tail =
        AT_TAIL.iter().map(|(name, back, magic)| (*name, sample.size.checked_sub(*back), *magic));
    head.chain(tail)
        .filter_map(|(name, offset, magic)| Some((name, offset?, magic)))
        .filter(|(_, offset, magic)| sample.has(*offset, magic))
        .map(|(name, offset, _)| (name, offset))
        .collect()
}

/// The superblock of ext2, ext3 and ext4.
const EXT: u64 = 1024;
const EXT_MAGIC: u64 = EXT + 0x38;
const EXT_BLOCK_SIZE_LOG: u64 = EXT + 0x18;
const EXT_REVISION: u64 = EXT + 0x4c;
const EXT_COMPATIBLE: u64 = EXT + 0x5c;
const EXT_INCOMPATIBLE: u64 = EXT + 0x60;
const EXT_READ_ONLY_COMPATIBLE: u64 = EXT + 0x64;

const EXT_HAS_JOURNAL: u32 = 0x4;
const EXT_JOURNAL_DEVICE: u32 = 0x8;
/// The incompatible features that ext2 and ext3 know: compression, filetype, recover, journal
/// device, meta_bg.
const EXT3_INCOMPATIBLE: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10;
/// sparse_super, large_file, btree_dir.
const EXT3_READ_ONLY_COMPATIBLE: u32 = 0x1 | 0x2 | 0x4;

fn ext(sample: &DeviceSample) -> Option<SignatureMatch> {
    // Two bytes are little of a magic number; the block size and revision must be possible too.
    let possible = sample.u32_le(EXT_REVISION)? <= 1 && sample.u32_le(EXT_BLOCK_SIZE_LOG)? <= 6;
    if !possible || !sample.has(EXT_MAGIC, &[0x53, 0xef]) {
        return None;
    }
    let incompatible = sample.u32_le(EXT_INCOMPATIBLE)?;
    let beyond_ext3 = incompatible & !EXT3_INCOMPATIBLE != 0
        || sample.u32_le(EXT_READ_ONLY_COMPATIBLE)? & !EXT3_READ_ONLY_COMPATIBLE != 0;
    let journal = sample.u32_le(EXT_COMPATIBLE)? & EXT_HAS_JOURNAL != 0;
    let name = match (beyond_ext3, journal) {
        _ if incompatible & EXT_JOURNAL_DEVICE != 0 => "ext journal",
        (true, _) => "ext4",
        (false, true) => "ext3",
        (false, false) => "ext2",
    };
    Some((name, EXT_MAGIC))
}

/// The mark is at the end of the first page, whose size depends on the machine.
fn swap(sample: &DeviceSample) -> Option<SignatureMatch> {
    // A system that is suspended to disk puts the last in the place of the others
    // (kernel/power/swap.c).
    let marks: [&[u8]; 3] = [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0"];
    // x86 has pages of 4 KiB, ARM and POWER up to 64 KiB.
    let places = [4096, 8192, 16384, 65536].map(|page: u64| page - 10);
    let place = places.into_iter().find(|at| marks.iter().any(|mark| sample.has(*at, mark)))?;
    Some(("swap", place))
}

/// The label of a physical volume is in one of the first four sectors.
fn lvm(sample: &DeviceSample) -> Option<SignatureMatch> {
    let mut sectors = (0..4).map(|sector| sector * 512);
    let place =
        sectors.find(|at| sample.has(*at, b"LABELONE") && sample.has(at + 24, b"LVM2 001"))?;
    Some(("lvm2", place))
}

const MD_MAGIC: u32 = 0xa92b_4efc;

/// Superblocks of md: three places of version 1, and that of version 0.90, which is written in
/// the order of the machine.
fn md(sample: &DeviceSample) -> Vec<SignatureMatch> {
    let magic = MD_MAGIC.to_le_bytes();
    // Both places are from md's own formulas: 8 KiB before the end, down to 4 KiB; and the last
    // whole 64 KiB.
    let last_version_1 = (sample.size & !511).checked_sub(8 << 10).map(|place| place & !4095);
    let version_0 = (sample.size & !0xffff).checked_sub(0x1_0000);
    let places = [
        ("md 1.1", Some(0)),
        ("md 1.2", Some(4096)),
        ("md 1.0", last_version_1),
        ("md 0.90", version_0),
    ];
    let found = places.into_iter().filter_map(|(name, place)| Some((name, place?)));
    found
        .filter(|(name, place)| {
            sample.has(*place, &magic)
                || (*name == "md 0.90" && sample.has(*place, &MD_MAGIC.to_be_bytes()))
        })
        .collect()
}

/// A member of a durio array has two superblocks in its first blocks and two in its last whole ones
/// (docs/formats/raid-superblock.md).
fn durio_raid(sample: &DeviceSample) -> Option<SignatureMatch> {
    let end = sample.size & !4095;
    let places = [Some(0), Some(4096), end.checked_sub(8192), end.checked_sub(4096)];
    let place = places.into_iter().flatten().find(|at| sample.has(*at, b"durioRDS"))?;
    Some((MEMBER_SIGNATURE, place))
}

const ZFS_LABEL: u64 = 256 << 10;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Uberblocks fill the second half of a label; two labels stand at each end.
fn zfs(sample: &DeviceSample) -> Option<SignatureMatch> {
    // ZFS takes a device's size down to a multiple of a label's.
    let end = sample.size / ZFS_LABEL * ZFS_LABEL;
    let labels = [Some(0), end.checked_sub(2 * ZFS_LABEL), end.checked_sub(ZFS_LABEL)];
    let slots = (0..128).map(|slot| ZFS_LABEL / 2 + slot * 1024);
    let mut places =
        labels.into_iter().flatten().flat_map(|label| slots.clone().map(move |s| label + s));
    // It is in the byte order of the machine that wrote it.
    let is_uberblock = |at: &u64| {
        sample.has(*at, &ZFS_MAGIC.to_le_bytes()) || sample.has(*at, &ZFS_MAGIC.to_be_bytes())
    };
    places.find(is_uberblock).map(|place| ("zfs", place))
}

/// A partition table of the old kind: the mark, and four entries of which one is used.
fn mbr(sample: &DeviceSample) -> Option<SignatureMatch> {
    let entries = sample.at(446, 64)?;
    let mut rows = entries.chunks(16);
    let plausible = rows.clone().all(|entry| entry[0] & 0x7f == 0);
    // An entry of type 0 is free.
    let used = rows.any(|entry| entry[4] != 0);
    (plausible && used && sample.has(510, &[0x55, 0xaa])).then_some(("mbr", 510))
}

/// A filesystem that begins with a boot sector bears the mark of a partition table too, and a GPT
/// has one for show.
fn explains_boot_sector((name, _): &SignatureMatch) -> bool {
    matches!(*name, "gpt" | "vfat" | "exfat" | "ntfs")
}

/// Holds the first label of ZFS, the longest signature at the beginning.
const HEAD_LEN: u64 = 256 << 10;

/// Holds the last two labels of ZFS (2 × 256 KiB), which end at a multiple of 256 KiB.
const TAIL_LEN: u64 = 768 << 10;

/// The first and the last bytes of a device or partition.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct DeviceSample {
    pub(crate) size: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl DeviceSample {
    /// The `len` bytes at `offset`, if they were read.
    pub(crate) fn at(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let tail_start = self.size - self.tail.len() as u64;
        let within = |bytes, start| slice_at(bytes, offset.checked_sub(start)?, len);
        within(&self.head, 0).or_else(|| within(&self.tail, tail_start))
    }

    pub(crate) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    pub(crate) fn u32_le(&self, offset: u64) -> Option<u32> {
        let bytes = self.at(offset, 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let head = bytes[..bytes.len().min(256 << 10)].to_vec();
        let tail = bytes[bytes.len().saturating_sub(768 << 10)..].to_vec();
        Self { size: bytes.len() as u64, head, tail }
    }
}

fn slice_at(bytes: &[u8], start: u64, len: usize) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(len)?)
}

/// The size of an opened device or file.
pub(crate) fn size_of_file(file: &mut File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Reads both ends of the `size` bytes that begin at `start`.
pub(crate) fn read_sample(file: &File, start: u64, size: u64) -> io::Result<DeviceSample> {
    // On a small device both pieces overlap, or are all of it.
    let tail_len = size.min(TAIL_LEN);
    let head = read_at(file, start, size.min(HEAD_LEN))?;
    let tail = read_at(file, start + (size - tail_len), tail_len)?;
    Ok(DeviceSample { size, head, tail })
}

fn read_at(file: &File, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut bytes = vec![0; len];
    // A short read is an error: the unread bytes may hold anything.
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// True if the kernel says that a filesystem, an array or a program holds the device for itself,
/// whatever namespace it is in.
///
/// Opening a block device for reading with O_EXCL asks exactly this; it is let go at once.
pub(crate) fn is_claimed(device: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    matches!(rustix::fs::open(device, flags, Mode::empty()), Err(Errno::BUSY))
}

#[cfg(test)]
mod tests;
