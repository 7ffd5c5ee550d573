//! The files and devices to read and write.

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::RawPath;

/// How a file that durio makes is laid out before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileLayout {
    /// Fully written with incompressible contents, no two blocks alike.
    Incompressible,
    /// Fully written with zeros.
    ZeroFilled,
    /// Allocated with fallocate, unwritten.
    Preallocated,
    /// Empty: it grows as it is written.
    Empty,
}

/// The kind of a target, and with it what may happen to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TargetKind {
    /// A file that durio lays out in `directory` and removes at the end. It has no name (O_TMPFILE)
    /// where the filesystem supports that, else a random one: files under a user's name are the
    /// user's.
    NewFile {
        directory: RawPath,
        /// What it is called in texts.
        file_name: RawPath,
        /// True if the user named it so, false if only the directory was named.
        named: bool,
        /// Contents.
        layout: FileLayout,
    },
    /// A regular file that existed before.
    ExistingFile { path: RawPath },
    /// A block device.
    Device { path: RawPath },
    /// A character device that completes at once, such as /dev/zero: the null target.
    NullDevice { path: RawPath },
    /// Nothing: the null engine's scripted latencies.
    Scripted,
}

/// A file or device to read and write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Short name within the plan: data, log, segment, device, null.
    pub name: String,
    /// The user's path under which this target lies; none for durio's null target.
    pub location: Option<RawPath>,
    /// Kind and place.
    #[serde(flatten)]
    pub kind: TargetKind,
    /// The bytes that may be touched, from the start.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// True if the user permitted to overwrite what exists (`--destroy`).
    pub destroy: bool,
}

impl Target {
    /// True if steps may write to this target.
    #[must_use]
    pub fn may_be_written(&self) -> bool {
        match self.kind {
            // durio may write to what it makes; existing targets need the user's permission.
            TargetKind::NewFile { .. } | TargetKind::NullDevice { .. } | TargetKind::Scripted => {
                true
            }
            TargetKind::ExistingFile { .. } | TargetKind::Device { .. } => self.destroy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_target_survives_its_saved_form() {
        let path = RawPath::from("/x");
        let (directory, file_name) = (path.clone(), path.clone());
        let layout = FileLayout::ZeroFilled;
        let kinds = [
            TargetKind::NewFile { directory, file_name, named: false, layout },
            TargetKind::ExistingFile { path: path.clone() },
            TargetKind::Device { path: path.clone() },
            TargetKind::NullDevice { path: path.clone() },
            TargetKind::Scripted,
        ];
        for kind in kinds {
            let location = Some(path.clone());
            let size = Bytes::from_mib(1);
            let target = Target { name: "data".into(), location, kind, size, destroy: false };
            let text = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&text).unwrap(), target, "{text}");
        }
    }
}
