//! Whether what is on a device is what a build wrote there.
//!
//! In: the first bytes of a device, the signatures found on it, the tag of the build. Out: what the
//! programs call it, or what is foreign. Not here: reading, and who used the device meanwhile.
//!
//! A label or an identifier counts at its exact place in a superblock alone: old bytes elsewhere
//! outlive every mkfs. Places of fields: Documentation/filesystems/ext4/super.rst; XFS Algorithms
//! and Data Structures, "Superblocks"; btrfs, fs/btrfs/accessors.h; md, include/uapi/linux/raid/
//! md_p.h; LVM, lib/format_text/layout.h; ZFS On-Disk Specification, chapter 1.

use super::check::{MOST_DEVICES, MOST_LAYERS};
use super::place::{filesystem_uuid, md_uuid_bytes, volume_uuid};
use durio_observe::Signature;

/// What a build wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    /// What wipefs(8) calls it.
    pub(super) types: Vec<&'static str>,
    /// Nobody has mounted or filled it since it was made, as far as it says so itself.
    pub(super) is_fresh: bool,
}

/// So many bytes are enough for every place that is looked at.
pub(super) const HEAD: durio_units::Bytes = durio_units::Bytes::from_mib(2);

/// All signatures are this build's.
///
/// # Errors
/// The first one that is not.
pub(super) fn written(head: &[u8], signatures: &[Signature], tag: &str) -> Result<Written, String> {
    let head = Head(head);
    let mut written = Written { types: Vec::new(), is_fresh: true };
    for signature in signatures {
        let found = match signature.name.as_str() {
            "ext2" | "ext3" | "ext4" => ext(&head, tag),
            "xfs" => xfs(&head, tag),
            "btrfs" => btrfs(&head, tag),
            "md 1.2" => md(&head, tag),
            "lvm2" => lvm(&head, tag),
            "zfs" => zfs(&head, tag),
            _ => None,
        };
        let Some((types, is_fresh)) = found else {
            return Err(format!("{} is on it, which this bench did not write", signature.name));
        };
        written.types.extend(types);
        written.is_fresh &= is_fresh;
    }
    Ok(written)
}

/// What wipefs calls it, and whether it is as it was made.
type Ours = (&'static [&'static str], bool);

struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn at(&self, place: usize, length: usize) -> Option<&[u8]> {
        self.0.get(place..place.checked_add(length)?)
    }

    /// A text that is filled up with zeros.
    fn is_text(&self, place: usize, length: usize, text: &str) -> bool {
        let rest = self.at(place, length).and_then(|field| field.strip_prefix(text.as_bytes()));
        rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    }

    fn u16_le(&self, place: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.at(place, 2)?.try_into().ok()?))
    }

    fn u64_le(&self, place: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.at(place, 8)?.try_into().ok()?))
    }

    fn u64_be(&self, place: usize) -> Option<u64> {
        Some(u64::from_be_bytes(self.at(place, 8)?.try_into().ok()?))
    }
}

/// `s_uuid`, `s_volume_name`, `s_mnt_count`.
fn ext(head: &Head<'_>, tag: &str) -> Option<Ours> {
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(0x468, 16)? == uuid && head.is_text(0x478, 16, tag);
    let mounts = head.u16_le(0x434)?;
    is_ours.then_some((&["ext2", "ext3", "ext4"], mounts == 0))
}

/// `sb_uuid`, `sb_fname`; a new filesystem has one chunk of inodes and three of them in use.
fn xfs(head: &Head<'_>, tag: &str) -> Option<Ours> {
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(32, 16)? == uuid && head.is_text(108, 12, tag);
    let is_fresh = head.u64_be(128)? == 64 && head.u64_be(136)? == 61;
    is_ours.then_some((&["xfs"], is_fresh))
}

/// `fsid`, `label`. How many generations mkfs makes depends on its version: nothing tells that it
/// was never mounted.
fn btrfs(head: &Head<'_>, tag: &str) -> Option<Ours> {
    const SUPER: usize = 0x1_0000;
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(SUPER + 0x20, 16)? == uuid && head.is_text(SUPER + 0x12b, 256, tag);
    is_ours.then_some((&["btrfs"], false))
}

/// `set_uuid`, `set_name`, which begins with the name of a host or not.
fn md(head: &Head<'_>, tag: &str) -> Option<Ours> {
    let field = head.at(4096 + 32, 32)?;
    let name = std::str::from_utf8(field).ok()?.trim_end_matches('\0');
    let name = name.rsplit(':').next().unwrap_or(name);
    let is_ours = name.strip_prefix(tag).is_some_and(|rest| rest.starts_with('-'))
        && head.at(4096 + 16, 16)? == md_uuid_bytes(name);
    is_ours.then_some((&["linux_raid_member"], false))
}

/// The identifier of the physical volume, and no group on it but one of this build's: another
/// group keeps the identifier.
fn lvm(head: &Head<'_>, tag: &str) -> Option<Ours> {
    const LABEL: usize = 512;
    const METADATA: usize = 4096;
    let uuid = head.at(LABEL + 32, 32)?;
    let mut layers = (0..MOST_LAYERS).flat_map(|layer| (0..MOST_DEVICES).map(move |n| (layer, n)));
    let is_uuid = |(layer, n)| volume_uuid(tag, layer, n).replace('-', "").as_bytes() == uuid;
    let is_ours = layers.any(is_uuid) && head.at(METADATA + 4, 16)? == b" LVM2 x[5A%r0N*>";
    let text = usize::try_from(head.u64_le(METADATA + 40)?).ok()?;
    // Where the text of the group stands, from the begin of the area; zero without a group.
    let group = head.at(METADATA.checked_add(text)?, tag.len())?;
    (is_ours && (text == 0 || group == tag.as_bytes())).then_some((&["LVM2_member"], text == 0))
}

/// The name of the pool in the first label: a list of names and values in XDR, from 16 KiB on.
fn zfs(head: &Head<'_>, tag: &str) -> Option<Ours> {
    let label = head.at(16 << 10, 112 << 10)?;
    let key: &[u8] = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01";
    let place = label.windows(key.len()).position(|window| window == key)? + key.len();
    let length = usize::try_from(u32::from_be_bytes(label.get(place..place + 4)?.try_into().ok()?));
    let name = label.get(place + 4..(place + 4).checked_add(length.ok()?)?)?;
    (name == tag.as_bytes()).then_some((&["zfs_member"], false))
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
