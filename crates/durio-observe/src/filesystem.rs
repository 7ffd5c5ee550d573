//! What is known of a mounted filesystem, and which of its options matter.
//!
//! In: a mount entry and what statvfs said. Out: [`FilesystemFacts`] and the kind of layer.
//! Not here: judging an option; that is the analyser's.

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::layer::LayerKind;
use crate::mountinfo::MountEntry;

/// What direct I/O on a file demands; both zero where the file cannot be opened for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectIoAlignment {
    /// Of the buffer's address.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// Of the offset and of the length.
    #[serde(rename = "offset_bytes")]
    pub offset: Bytes,
}

/// A mounted filesystem.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesystemFacts {
    /// As the kernel calls it: `ext4`, `xfs`, `fuse.sshfs`.
    pub fs_type: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// What is mounted: a device, a server's export, a name.
    pub source: String,
    /// Of the mount, then of the filesystem, in order, each once.
    pub options: Vec<String>,
    /// Those of the options that bear on durability or speed.
    pub relevant_options: Vec<String>,
    /// Either the mount or the filesystem is read-only.
    pub read_only: bool,
    /// Of the whole filesystem.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// Available to a process without privileges.
    #[serde(rename = "free_bytes")]
    pub free: Bytes,
    /// All that is written stays in memory: tmpfs, or any filesystem on zram or a RAM disk.
    pub memory_backed: bool,
    /// Known for files on Linux 6.1 and later.
    pub direct_io: Option<DirectIoAlignment>,
}

/// Options that matter as they stand.
const RELEVANT_WORDS: &[&str] = &[
    "async",
    "autodefrag",
    "barrier",
    "compress",
    "dax",
    "delalloc",
    "dioread_lock",
    "dioread_nolock",
    "dirsync",
    "discard",
    "flush_merge",
    "flushoncommit",
    "hard",
    "journal_async_commit",
    "journal_checksum",
    "lazytime",
    "noatime",
    "noauto_da_alloc",
    "nobarrier",
    "nodatacow",
    "nodatasum",
    "nodelalloc",
    "nodiscard",
    "noflush_merge",
    "noload",
    "nologreplay",
    "norecovery",
    "nostrictsync",
    "notreelog",
    "relatime",
    "soft",
    "ssd",
    "strictatime",
    "strictsync",
    "sync",
    "treelog",
    "volatile",
    "writeback_cache",
    "wsync",
];

/// Options that matter whatever their value.
const RELEVANT_NAMES: &[&str] = &[
    "active_logs",
    "actimeo",
    "allocsize",
    "atgc",
    "barrier",
    "cache",
    "checkpoint",
    "commit",
    "compress",
    "compress-force",
    "compress_algorithm",
    "compress_mode",
    "data",
    "data_err",
    "dax",
    "discard",
    "errors",
    "fsync",
    "fsync_mode",
    "huge",
    "journal_dev",
    "journal_path",
    "local_lock",
    "logbsize",
    "logbufs",
    "logdev",
    "max_batch_time",
    "min_batch_time",
    "nconnect",
    "proto",
    "rescue",
    "rsize",
    "rtdev",
    "space_cache",
    "stripe",
    "sunit",
    "swidth",
    "upperdir",
    "vers",
    "wsize",
];

/// True for an option that bears on durability or speed.
fn is_relevant(option: &str) -> bool {
    match option.split_once('=') {
        Some((name, _)) => RELEVANT_NAMES.contains(&name),
        None => RELEVANT_WORDS.contains(&option),
    }
}

/// The kind of layer that a type of filesystem makes.
pub(crate) fn layer_kind(fs_type: &str) -> LayerKind {
    match fs_type {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" | "rootfs" => LayerKind::Memory,
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "ceph" | "afs" | "lustre"
        | "gpfs" | "ocfs2_dlmfs" | "pvfs2" | "vboxsf" => LayerKind::Network,
        "overlay" => LayerKind::Overlay,
        "fuse" | "fuseblk" => LayerKind::Fuse,
        other if other.starts_with("fuse.") => LayerKind::Fuse,
        _ => LayerKind::Filesystem,
    }
}

/// The facts of one mount; whether it is backed by memory is told by what lies below it.
pub(crate) fn filesystem_facts(mount: &MountEntry, identity: &Identity) -> FilesystemFacts {
    let options: Vec<String> =
        mount.options.iter().map(|option| option.to_string_lossy().into_owned()).collect();
    FilesystemFacts {
        fs_type: mount.fs_type.clone(),
        mount_point: mount.mount_point.display().to_string(),
        source: mount.source.to_string_lossy().into_owned(),
        relevant_options: options.iter().filter(|option| is_relevant(option)).cloned().collect(),
        options,
        read_only: mount.read_only,
        size: identity.size,
        free: identity.free,
        memory_backed: layer_kind(&mount.fs_type) == LayerKind::Memory,
        direct_io: identity.direct_io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_bear_on_durability_or_speed_are_told_from_the_rest() {
        for option in ["nobarrier", "barrier=0", "data=writeback", "discard=async", "compress=zstd"]
        {
            assert!(is_relevant(option), "{option}");
        }
        for option in ["notreelog", "volatile", "fsync_mode=nobarrier", "cache=loose", "sync"] {
            assert!(is_relevant(option), "{option}");
        }
        for option in ["rw", "nosuid", "mode=755", "size=24k", "resuid=65534", "datamine=1"] {
            assert!(!is_relevant(option), "{option}");
        }
    }

    #[test]
    fn types_of_filesystem_make_their_kind_of_layer() {
        let rows = [
            ("ext4", LayerKind::Filesystem),
            ("zfs", LayerKind::Filesystem),
            ("tmpfs", LayerKind::Memory),
            ("nfs4", LayerKind::Network),
            ("virtiofs", LayerKind::Network),
            ("fuse.sshfs", LayerKind::Fuse),
            ("overlay", LayerKind::Overlay),
        ];
        for (fs_type, kind) in rows {
            assert_eq!(layer_kind(fs_type), kind, "{fs_type}");
        }
    }
}
