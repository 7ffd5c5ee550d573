//! How the contents of a device are recognised as a build's, by its first bytes.
//!
//! A label or an identifier counts only at its exact place in a superblock: old bytes elsewhere
//! outlive every mkfs. Each kind of layer gives that place ([`crate::kinds`]).

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
