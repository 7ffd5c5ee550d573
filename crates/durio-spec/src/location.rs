//! The places that the user names, and what must be known of them to plan.

use durio_plan::RawPath;
use durio_units::Bytes;

/// What a location is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocationFacts {
    /// A directory in which files can be laid out.
    Directory {
        /// Bytes that this user may still allocate.
        free: Bytes,
        /// Which filesystem it is on: several directories of one share its free space.
        filesystem: u64,
    },
    /// A path that does not exist, in an existing directory.
    Absent {
        /// Bytes that this user may still allocate there.
        free: Bytes,
    },
    /// An existing regular file.
    File {
        /// Its size.
        size: Bytes,
    },
    /// A block device.
    Device {
        /// Its size.
        size: Bytes,
    },
    /// A character device that completes at once: /dev/zero, /dev/null, /dev/full.
    NullDevice,
}

/// A place that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// As the user wrote it.
    pub path: RawPath,
    /// What it is.
    pub facts: LocationFacts,
    /// True if the user permitted to overwrite it (`--destroy` with this very path).
    pub destroy: bool,
}
