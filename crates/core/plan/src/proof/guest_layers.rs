//! What a guest under proof puts on its disks: an array, a filesystem, both or neither.

use std::fmt;
use std::str::FromStr;

use durio_base::RaidLevel;
use serde::{Deserialize, Serialize};

/// What a guest puts on its disks, by its word: `raw`, `ext4`, `md-raid1`, `durio-raid5-xfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuestLayers {
    /// The array of all disks; without one there is one disk.
    pub array: Option<GuestArray>,
    /// The filesystem on the array or the disk, with a file that is written to; without one the
    /// device itself is.
    pub filesystem: Option<GuestFilesystem>,
}

/// An array of a guest's disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestArray {
    pub kind: GuestArrayKind,
    pub level: RaidLevel,
}

/// The RAID software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuestArrayKind {
    Md,
    /// durio's array, served by ublk.
    Durio,
}

durio_base::worded! {
    /// A filesystem in a guest.
    #[derive(PartialOrd, Ord)]
    pub enum GuestFilesystem {
        Ext4 = "ext4",
        Xfs = "xfs",
        /// It writes each block to a new place.
        Btrfs = "btrfs",
    }
}

impl GuestLayers {
    pub const RAW: Self = Self { array: None, filesystem: None };
    pub const EXT4: Self = Self { filesystem: Some(GuestFilesystem::Ext4), ..Self::RAW };
    pub const XFS: Self = Self { filesystem: Some(GuestFilesystem::Xfs), ..Self::RAW };
    pub const BTRFS: Self = Self { filesystem: Some(GuestFilesystem::Btrfs), ..Self::RAW };

    /// An array of the kernel's md alone.
    pub const fn md(level: RaidLevel) -> Self {
        Self { array: Some(GuestArray { kind: GuestArrayKind::Md, level }), filesystem: None }
    }

    /// An array of durio alone.
    pub const fn durio(level: RaidLevel) -> Self {
        Self { array: Some(GuestArray { kind: GuestArrayKind::Durio, level }), filesystem: None }
    }

    /// The same array with a filesystem on it.
    #[must_use]
    pub const fn with(self, filesystem: GuestFilesystem) -> Self {
        Self { filesystem: Some(filesystem), ..self }
    }

    /// Disks that it takes: as few as the level is used with.
    pub const fn disks(self) -> u32 {
        match self.array {
            None => 1,
            Some(GuestArray { level, .. }) => level.members().0 as u32,
        }
    }

    /// True if a device is written to, and no file.
    pub const fn is_device(self) -> bool {
        self.filesystem.is_none()
    }

    /// The RAID level of a durio array.
    pub const fn durio_level(self) -> Option<RaidLevel> {
        match self.array {
            Some(GuestArray { kind: GuestArrayKind::Durio, level }) => Some(level),
            _ => None,
        }
    }
}

impl fmt::Display for GuestLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filesystem = self.filesystem.map(GuestFilesystem::word);
        let Some(GuestArray { kind, level }) = self.array else {
            return f.pad(filesystem.unwrap_or("raw"));
        };
        let kind = match kind {
            GuestArrayKind::Md => "md",
            GuestArrayKind::Durio => "durio",
        };
        write!(f, "{kind}-{}", level.word())?;
        filesystem.map_or(Ok(()), |filesystem| write!(f, "-{filesystem}"))
    }
}

impl FromStr for GuestLayers {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let array_of = |word: &str| {
            let (kind, level) = match word.split_once('-')? {
                ("md", level) => (GuestArrayKind::Md, level),
                ("durio", level) => (GuestArrayKind::Durio, level),
                _ => return None,
            };
            let level = RaidLevel::of_word(level)?;
            Some(Self { array: Some(GuestArray { kind, level }), filesystem: None })
        };
        let whole = match (word, GuestFilesystem::of_word(word)) {
            ("raw", _) => Some(Self::RAW),
            (_, Some(filesystem)) => Some(Self::RAW.with(filesystem)),
            _ => array_of(word),
        };
        let above = || {
            let (array, filesystem) = word.rsplit_once('-')?;
            Some(array_of(array)?.with(GuestFilesystem::of_word(filesystem)?))
        };
        whole.or_else(above).ok_or_else(|| {
            format!(
                "unknown layers '{word}': expected raw, a filesystem (ext4, xfs, btrfs), an array \
                 (md-raid1, durio-raid5; levels 0, 1, 5, 6, 10) or both (md-raid1-ext4)"
            )
        })
    }
}

impl TryFrom<String> for GuestLayers {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        word.parse()
    }
}

impl From<GuestLayers> for String {
    fn from(layers: GuestLayers) -> Self {
        layers.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_a_guest_are_an_array_a_filesystem_both_or_neither() {
        let durio = GuestLayers::durio(RaidLevel::Raid5).with(GuestFilesystem::Xfs);
        let md = GuestLayers::md(RaidLevel::Raid10);
        let known = [
            ("raw", GuestLayers::RAW, 1),
            ("btrfs", GuestLayers::BTRFS, 1),
            ("md-raid0", GuestLayers::md(RaidLevel::Raid0), 2),
            ("md-raid1-ext4", GuestLayers::md(RaidLevel::Raid1).with(GuestFilesystem::Ext4), 2),
            ("md-raid10", md, 4),
            ("durio-raid5-xfs", durio, 3),
            ("durio-raid6", GuestLayers::durio(RaidLevel::Raid6), 4),
        ];
        for (word, layers, disks) in known {
            assert_eq!(word.parse(), Ok(layers), "{word}");
            assert_eq!((layers.to_string().as_str(), layers.disks()), (word, disks));
            assert_eq!(layers.is_device(), layers.filesystem.is_none());
        }
        assert_eq!((durio.durio_level(), md.durio_level()), (Some(RaidLevel::Raid5), None));
        for word in [
            "",
            "zfs",
            "raw-ext4",
            "md-raid7",
            "md-raid01",
            "lvm-raid1",
            "md-raid1-raw",
            "ext4-md-raid1",
        ] {
            let error = word.parse::<GuestLayers>().unwrap_err();
            assert!(
                error.starts_with(&format!("unknown layers '{word}': expected raw")),
                "{error}"
            );
        }
        assert!(serde_json::from_str::<GuestLayers>("\"md-raid1-ext4\"").is_ok());
    }
}
