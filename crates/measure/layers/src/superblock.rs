//! Whether a build wrote the contents of a device.
//!
//! Takes the first bytes of a device, the signatures found on it and the tag of the build; returns
//! the programs' names for the contents, or the foreign signature.
//!
//! A label or an identifier counts only at its exact place in a superblock: old bytes elsewhere
//! outlive every mkfs. Each kind of layer gives that place ([`crate::kinds`]).

use durio_observe::Signature;

use crate::kinds::KINDS;

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

/// All signatures are this build's.
///
/// # Errors
/// The first one that is not.
pub(super) fn written(
    head: &[u8],
    signatures: &[Signature],
    tag: &str,
) -> Result<WrittenSuperblock, String> {
    let head = DeviceHead(head);
    // A device may hold several superblocks of ours: if one has changed, the whole device may have
    // been used.
    let mut written = WrittenSuperblock { types: Vec::new(), is_fresh: true };
    for signature in signatures {
        let is_meant = |it: &&SuperblockFormat| it.signatures.contains(&signature.name.as_str());
        // One foreign signature, and the whole device is another user's.
        let superblock = KINDS.iter().filter_map(|kind| kind.superblock.as_ref()).find(is_meant);
        let found = superblock.and_then(|superblock| (superblock.read)(&head, tag));
        let Some((types, is_fresh)) = found else {
            return Err(format!("{} is on it, which this bench did not write", signature.name));
        };
        written.types.extend(types);
        written.is_fresh &= is_fresh;
    }
    Ok(written)
}

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
#[path = "superblock_tests.rs"]
mod tests;
