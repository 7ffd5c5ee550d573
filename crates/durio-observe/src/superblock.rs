//! What a filesystem's superblock says of its geometry.
//!
//! In: the first bytes of the device that it is on. Out: named values. Not here: reading, and
//! whether the filesystem is whole.
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

type Bits = &'static [(u32, &'static str)];

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
    let superblock = Little(bytes.get(1024..)?);
    let shift = superblock.u32(0x18)?;
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
    Some(present([
        ("block_size_bytes", blocks(1)),
        ("block_groups", groups.map(|(all, per_group)| all.div_ceil(per_group).to_string())),
        ("inode_size_bytes", superblock.u16(0x58).map(|size| size.to_string())),
        ("journal_size_bytes", ext_journal(&superblock)),
        ("stripe_unit_bytes", blocks(superblock.u16(0x164)?.into())),
        ("stripe_width_bytes", blocks(superblock.u32(0x170)?.into())),
        ("features", Some(features.concat().join(","))),
    ]))
}

/// The size of the journal's inode, which is kept here too: its high and its low half are the last of
/// seventeen words. A journal on a device of its own has none.
fn ext_journal(superblock: &Little<'_>) -> Option<String> {
    const INODE_BACKUP: u8 = 1;
    let has_journal = superblock.u32(0x5c)? & 0x4 != 0;
    let is_kept = *superblock.0.get(0xfd)? == INODE_BACKUP;
    let (high, low) = (superblock.u32(0x10c + 15 * 4)?, superblock.u32(0x10c + 16 * 4)?);
    let size = u64::from(high) << 32 | u64::from(low);
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
    let superblock = Big(bytes);
    let block = u64::from(superblock.u32(4)?);
    if !bytes.starts_with(b"XFSB") || !(512..=65536).contains(&block) {
        return None;
    }
    let blocks = |count: u32| (count > 0).then(|| u64::from(count) * block);
    let text = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string());
    let checked = superblock.u16(100)? & 0xf == 5;
    let mut features = if checked { vec!["crc"] } else { Vec::new() };
    if checked {
        features.extend(names(XFS_READ_ONLY, superblock.u32(212)?));
        features.extend(names(XFS_INCOMPATIBLE, superblock.u32(216)?));
    }
    // A log without a stripe unit has 0 or 1 there.
    let log_unit = superblock.u32(196).filter(|unit| *unit > 1).map(u64::from);
    // A log on a device of its own begins at zero here.
    let log = if superblock.u64(48)? == 0 { "external" } else { "internal" };
    Some(present([
        ("block_size_bytes", Some(block.to_string())),
        ("sector_size_bytes", superblock.u16(102).map(|size| size.to_string())),
        ("inode_size_bytes", superblock.u16(104).map(|size| size.to_string())),
        ("allocation_groups", superblock.u32(88).map(|count| count.to_string())),
        ("log", Some(log.to_owned())),
        ("log_size_bytes", text(blocks(superblock.u32(96)?))),
        ("log_stripe_unit_bytes", text(log_unit)),
        ("stripe_unit_bytes", text(blocks(superblock.u32(184)?))),
        ("stripe_width_bytes", text(blocks(superblock.u32(188)?))),
        ("features", Some(features.join(","))),
    ]))
}

fn names(bits: Bits, value: u32) -> Vec<&'static str> {
    bits.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| *name).collect()
}

fn present<const N: usize>(rows: [(&str, Option<String>); N]) -> Vec<Fact> {
    let known = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.filter(|(_, value)| !value.is_empty()).map(|(name, it)| Fact::new(name, it)).collect()
}

fn field<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place.checked_add(N)?)?.try_into().ok()
}

/// Numbers with their least significant byte first.
struct Little<'a>(&'a [u8]);

impl Little<'_> {
    fn u16(&self, place: usize) -> Option<u16> {
        field(self.0, place).map(u16::from_le_bytes)
    }

    fn u32(&self, place: usize) -> Option<u32> {
        field(self.0, place).map(u32::from_le_bytes)
    }
}

/// Numbers with their most significant byte first.
struct Big<'a>(&'a [u8]);

impl Big<'_> {
    fn u16(&self, place: usize) -> Option<u16> {
        field(self.0, place).map(u16::from_be_bytes)
    }

    fn u32(&self, place: usize) -> Option<u32> {
        field(self.0, place).map(u32::from_be_bytes)
    }

    fn u64(&self, place: usize) -> Option<u64> {
        field(self.0, place).map(u64::from_be_bytes)
    }
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;
