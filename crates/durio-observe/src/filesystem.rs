//! What is known of a mounted filesystem, and which of its options matter.
//!
//! In: a mount entry and what statvfs said; the root of `/sys` and `/proc`, the type, and the device's
//! name. Out: [`FilesystemFacts`] and the kind of layer; what the kernel says beyond mount options: of
//! all filesystems only ext4 shows what is in effect, defaults of the superblock included.
//! Not here: judging an option; that is the analyser's.

use durio_block::Alignment;
use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::layer::LayerKind;
use crate::mountinfo::MountEntry;
use crate::system_dir::{Fact, SystemDir};

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
    pub direct_io: Option<Alignment>,
}

/// Options that matter as they stand.
const RELEVANT_WORDS: &str = "async autodefrag barrier compress dax delalloc dioread_lock \
    dioread_nolock dirsync discard flush_merge flushoncommit hard journal_async_commit \
    journal_checksum lazytime noatime noauto_da_alloc nobarrier nodatacow nodatasum nodelalloc \
    nodiscard noflush_merge noload nologreplay norecovery nostrictsync notreelog relatime soft ssd \
    strictatime strictsync sync treelog volatile writeback_cache wsync";

/// Options that matter whatever their value.
const RELEVANT_NAMES: &str = "active_logs actimeo allocsize atgc barrier cache checkpoint commit \
    compress compress-force compress_algorithm compress_mode data data_err dax discard errors fsync \
    fsync_mode huge journal_dev journal_path local_lock logbsize logbufs logdev max_batch_time \
    min_batch_time nconnect proto rescue rsize rtdev space_cache stripe sunit swidth upperdir vers \
    wsize";

fn is_relevant(option: &str) -> bool {
    let (word, list) = match option.split_once('=') {
        Some((name, _)) => (name, RELEVANT_NAMES),
        None => (option, RELEVANT_WORDS),
    };
    list.split_whitespace().any(|known| known == word)
}

pub(crate) fn layer_kind(fs_type: &str) -> LayerKind {
    match fs_type {
        // rootfs and devtmpfs are tmpfs or, without it, ramfs.
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

/// Types that the ext4 driver mounts, and shows under its own name.
const EXT: &[&str] = &["ext2", "ext3", "ext4"];

/// What ext4 says where it has no journal.
const NO_JOURNAL: &str = "<none>";

/// The facts of the filesystem on the device that the kernel calls `device`.
///
/// `effective_options`: what is in effect, joined by commas. `journal`: `yes` or `none`.
pub(crate) fn filesystem_state(root: &SystemDir, fs_type: &str, device: &str) -> Vec<Fact> {
    if !EXT.contains(&fs_type) {
        return Vec::new();
    }
    // As elsewhere in sysfs, a slash in a device's name is written as an exclamation mark.
    let device = device.replace('/', "!");
    let options = root.text(format!("proc/fs/ext4/{device}/options"));
    let options = options.map(|text| text.split_whitespace().collect::<Vec<_>>().join(","));
    let journal = root.text(format!("sys/fs/ext4/{device}/journal_task"));
    let journal = journal.map(|task| if task == NO_JOURNAL { "none" } else { "yes" }.to_owned());
    Fact::known([("effective_options", options), ("journal", journal)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

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

    #[test]
    fn ext4_tells_what_is_in_effect_and_whether_it_has_a_journal() {
        let fixture = Fixture::new();
        fixture.file("proc/fs/ext4/vda/options", "rw\nbsddf\nnobarrier\n");
        fixture.file("sys/fs/ext4/vda/journal_task", "<none>\n");
        fixture.file("sys/fs/ext4/vdb/journal_task", "181\n");
        let root = fixture.root();
        let expected =
            [Fact::new("effective_options", "rw,bsddf,nobarrier"), Fact::new("journal", "none")];
        assert_eq!(filesystem_state(&root, "ext4", "vda"), expected);
        assert_eq!(filesystem_state(&root, "ext3", "vdb"), [Fact::new("journal", "yes")]);
        assert_eq!(filesystem_state(&root, "xfs", "vda"), []);
        assert_eq!(filesystem_state(&root, "ext4", "vdc"), []);
    }
}
