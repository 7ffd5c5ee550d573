//! The places that the user names, what must be known of them to plan, and the targets that they are.

use std::path::Path;

use durio_base::Bytes;

use crate::{FileLayout, RawPath, Target, TargetKind};

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
    File { size: Bytes },
    /// A block device.
    Device { size: Bytes },
    /// A character device that completes at once: /dev/zero, /dev/null, /dev/full.
    NullDevice,
}

/// A place that the user named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// As the user wrote it.
    pub path: RawPath,
    pub facts: LocationFacts,
    /// True if the user permitted to overwrite it (`--destroy` with this very path).
    pub destroy: bool,
}

impl Location {
    /// The target that it is: what exists, or a file that durio makes, in a directory as `file_name`.
    #[must_use]
    pub fn target(
        &self,
        name: String,
        file_name: String,
        layout: FileLayout,
        size: Bytes,
    ) -> Target {
        let path = self.path.clone();
        let kind = match self.facts {
            LocationFacts::Directory { .. } => {
                let file_name = RawPath::from(file_name);
                TargetKind::NewFile { directory: path, file_name, named: false, layout }
            }
            LocationFacts::Absent { .. } => {
                let own = path.as_path().file_name().map(RawPath::from);
                let file_name = own.unwrap_or_else(|| RawPath::from(file_name));
                TargetKind::NewFile { directory: self.parent(), file_name, named: true, layout }
            }
            LocationFacts::File { .. } => TargetKind::ExistingFile { path },
            LocationFacts::Device { .. } => TargetKind::Device { path },
            LocationFacts::NullDevice => TargetKind::NullDevice { path },
        };
        Target { name, location: Some(self.path.clone()), kind, size, destroy: self.destroy }
    }

    /// The directory in which it is, or would be.
    #[must_use]
    pub fn parent(&self) -> RawPath {
        let parent = self.path.as_path().parent();
        // The parent of a bare name is an empty path, which no call takes.
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        RawPath::from(parent.unwrap_or(Path::new(".")))
    }
}
