//! What undoes a step.
//!
//! In: names that begin with the tag of a build. Out: [`Undo`], which is shown, saved in the
//! journal and carried out. Not here: carrying out.

use serde::{Deserialize, Serialize};

/// What undoes one step. Each is done only if the thing is there and is proven to be ours
/// ([`super::proof`]); so it can be done twice, and before the step itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "undo")]
pub enum Undo {
    /// A file that was made.
    RemoveFile {
        /// Where.
        path: String,
    },
    /// A directory that was made, if it is empty.
    RemoveDirectory {
        /// Where.
        path: String,
    },
    /// The loop devices of a file that was made.
    DetachLoop {
        /// The file.
        file: String,
        /// The device, as a rule a placeholder.
        #[serde(default)]
        device: String,
    },
    /// A compressed RAM disk.
    RemoveZram {
        /// Its number, as a rule a placeholder.
        number: String,
    },
    /// The RAM disks of brd, with the driver.
    UnloadBrd {
        /// How many were asked for.
        count: u32,
        /// KiB of each.
        size_kib: u64,
    },
    /// A device of null_blk.
    RemoveNull {
        /// Its name in configfs.
        name: String,
    },
    /// A RAID array.
    StopArray {
        /// mdadm's form of its identifier.
        uuid: String,
        /// The link to its device.
        link: String,
        /// The file that mdadm makes for its bitmap.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bitmap: Option<String>,
    },
    /// A group of logical volumes, with its volumes.
    RemoveVolumeGroup {
        /// Its name.
        name: String,
        /// LVM's settings that keep it to our devices.
        config: String,
    },
    /// A device of the device mapper.
    RemoveMapped {
        /// Its name.
        name: String,
    },
    /// A ZFS pool.
    DestroyPool {
        /// Its name.
        name: String,
    },
    /// A mounted filesystem.
    Unmount {
        /// The mount point, a directory that was made.
        mount_point: String,
        /// The device that is mounted, as a rule a placeholder.
        #[serde(default)]
        source: String,
    },
    /// What this build wrote to a device of the user's, and nothing else.
    Wipe {
        /// The device.
        device: String,
        /// The label of what this build wrote; the identifiers follow from it.
        tag: String,
    },
}
