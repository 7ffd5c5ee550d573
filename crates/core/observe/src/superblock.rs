//! The geometry that a filesystem's superblock gives, from the first bytes of its device. The
//! superblock is not checked.
//!
//! Places of fields are those of the kernel's Documentation/filesystems/ext4/super.rst and of the XFS
//! Algorithms and Data Structures book, chapter Superblocks.

use crate::Fact;

/// The facts of the filesystem of this type; none if the bytes are of another one.
///
/// Sizes are in bytes. `features` are those that a user chooses, by commas.
pub(crate) fn superblock_facts(fs_type: &str, bytes: &[u8]) -> Vec<Fact> {
    let found = match fs_type {
        "ext2" | "ext3" | "ext4" => ext(bytes),
        "xfs" => xfs(bytes),
        _ => None,
    };
    found.unwrap_or_default()
}

type Bits = &'static [(u64, &'static str)];

const EXT_COMPATIBLE: Bits = &[
    (0x4, "has_journal"),
    (0x10, "resize_inode"),
    (0x20, "dir_index"),
    (0x200, "sparse_super2"),
    (0x400, "fast_commit"),
    (0x1000, "orphan_file"),
];
const EXT_INCOMPATIBLE: Bits = &[
    (0x8, "journal_dev"),
    (0x10, "meta_bg"),
    (0x40, "extent"),
    (0x80, "64bit"),
    (0x100, "mmp"),
    (0x200, "flex_bg"),
    (0x2000, "metadata_csum_seed"),
    (0x8000, "inline_data"),
    (0x1_0000, "encrypt"),
    (0x2_0000, "casefold"),
];
const EXT_READ_ONLY: Bits = &[
    (0x8, "huge_file"),
    (0x100, "quota"),
    (0x200, "bigalloc"),
    (0x400, "metadata_csum"),
    (0x2000, "project"),
    (0x8000, "verity"),
];

fn ext(bytes: &[u8]) -> Option<Vec<Fact>> {
    let superblock = SuperblockFields { bytes: bytes.get(1024..)?, is_big_endian: false };
    let shift = superblock.u32(0x18)?;
    // Blocks are of 64 KiB at most (EXT4_MAX_BLOCK_SIZE).
    if superblock.u16(0x38)? != 0xef53 || shift > 6 {
        return None;
    }
    let block = 1024_u64 << shift;
    let blocks = |count: u64| (count > 0).then(|| count.saturating_mul(block).to_string());
    let features = [
        names(EXT_COMPATIBLE, superblock.u32(0x5c)?),
        names(EXT_INCOMPATIBLE, superblock.u32(0x60)?),
        names(EXT_READ_ONLY, superblock.u32(0x64)?),
    ];
    let count_of_groups = superblock.u32(0x4).zip(superblock.u32(0x20));
    let groups = count_of_groups.filter(|(_, per_group)| *per_group > 0);
    Some(known([
        ("block_size_bytes", blocks(1)),
        ("block_groups", groups.map(|(all, per_group)| all.div_ceil(per_group).to_string())),
        ("inode_size_bytes", superblock.u16(0x58).map(|size| size.to_string())),
        ("journal_size_bytes", ext_journal(&superblock)),
        ("stripe_unit_bytes", blocks(superblock.u16(0x164)?)),
        ("stripe_width_bytes", blocks(superblock.u32(0x170)?)),
        ("features", Some(features.concat().join(","))),
    ]))
}

/// The size of the journal's inode, which is kept here too: its high and its low half are the last
/// of seventeen words. A journal on a separate device has none.
fn ext_journal(superblock: &SuperblockFields<'_>) -> Option<String> {
    const INODE_BACKUP: u8 = 1;
    let has_journal = superblock.u32(0x5c)? & 0x4 != 0;
    // Zero where mke2fs kept no copy.
    let is_kept = *superblock.bytes.get(0xfd)? == INODE_BACKUP;
    let (high, low) = (superblock.u32(0x10c + 15 * 4)?, superblock.u32(0x10c + 16 * 4)?);
    let size = high << 32 | low;
    (has_journal && is_kept && size > 0).then(|| size.to_string())
}

const XFS_READ_ONLY: Bits =
    &[(0x1, "finobt"), (0x2, "rmapbt"), (0x4, "reflink"), (0x8, "inobtcount")];
const XFS_INCOMPATIBLE: Bits = &[
    (0x2, "sparse"),
    (0x8, "bigtime"),
    (0x20, "nrext64"),
    (0x40, "exchange"),
    (0x80, "parent"),
    (0x100, "metadir"),
];

fn xfs(bytes: &[u8]) -> Option<Vec<Fact>> {
    let superblock = SuperblockFields { bytes, is_big_endian: true };
    let block = superblock.u32(4)?;
    if !bytes.starts_with(b"XFSB") || !(512..=65536).contains(&block) {
        return None;
    }
    let blocks = |count: u64| (count > 0).then(|| (count * block).to_string());
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    // The low four bits are the version; only version 5 has checksums and these fields.
    let checked = superblock.u16(100)? & 0xf == 5;
    let mut features = if checked { vec!["crc"] } else { Vec::new() };
    if checked {
        features.extend(names(XFS_READ_ONLY, superblock.u32(212)?));
        features.extend(names(XFS_INCOMPATIBLE, superblock.u32(216)?));
    }
    // A log without a stripe unit has 0 or 1 there.
    let log_unit = superblock.u32(196).filter(|unit| *unit > 1);
    // A log on a separate device starts at zero here.
    let log = if superblock.u64(48)? == 0 { "external" } else { "internal" };
    Some(known([
        ("block_size_bytes", Some(block.to_string())),
        ("sector_size_bytes", text(superblock.u16(102))),
        ("inode_size_bytes", text(superblock.u16(104))),
        ("allocation_groups", text(superblock.u32(88))),
        ("log", Some(log.to_owned())),
        ("log_size_bytes", blocks(superblock.u32(96)?)),
        ("log_stripe_unit_bytes", text(log_unit)),
        ("stripe_unit_bytes", blocks(superblock.u32(184)?)),
        ("stripe_width_bytes", blocks(superblock.u32(188)?)),
        ("features", Some(features.join(","))),
    ]))
}

fn names(bits: Bits, value: u64) -> Vec<&'static str> {
    bits.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name).collect()
}

/// The facts with a value that is not empty.
fn known<const N: usize>(rows: [(&str, Option<String>); N]) -> Vec<Fact> {
    Fact::known(rows.map(|(name, value)| (name, value.filter(|value| !value.is_empty()))))
}

/// Numbers by their place, in one of the two orders of bytes.
struct SuperblockFields<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

impl SuperblockFields<'_> {
    fn number(&self, place: usize, len: usize) -> Option<u64> {
        let field = self.bytes.get(place..place.checked_add(len)?)?;
        let append = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(match self.is_big_endian {
            true => field.iter().fold(0, append),
            false => field.iter().rev().fold(0, append),
        })
    }

    fn u16(&self, place: usize) -> Option<u64> {
        self.number(place, 2)
    }

    fn u32(&self, place: usize) -> Option<u64> {
        self.number(place, 4)
    }

    fn u64(&self, place: usize) -> Option<u64> {
        self.number(place, 8)
    }
}

#[cfg(test)]
mod tests;
