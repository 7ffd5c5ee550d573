//! A mounted filesystem: its relevant options, and its layout (blocks, journal, stripes, profiles,
//! features).
//!
//! The analyser judges the options; `superblock` reads the fields of a superblock.
//!
//! Only ext4 shows the options in effect, with defaults of the superblock. btrfs shows its layout
//! in sysfs. ext4 and XFS show next to nothing of theirs there: it comes from the superblock if the
//! device may be read, else from the mount's options.

use durio_base::Bytes;
use durio_block::Alignment;
use serde::{Deserialize, Serialize};

use crate::device_probe::DeviceProbe;
use crate::identity::PathIdentity;
use crate::identity::btrfs_of_member;
use crate::layer::{Layer, LayerKind};
use crate::mountinfo::MountEntry;
use crate::superblock::superblock_facts;
use crate::system_dir::{Fact, SystemDir};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesystemFacts {
    /// As the kernel calls it: `ext4`, `xfs`, `fuse.sshfs`.
    pub fs_type: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// The mounted object: a device, a server's export, a name.
    pub source: String,
    /// As udev links to the device; a copied image has the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Options of the mount, then of the filesystem, in order, each once.
    pub options: Vec<String>,
    /// Those of the options that bear on durability or speed.
    pub relevant_options: Vec<String>,
    /// Either the mount or the filesystem is read-only.
    pub read_only: bool,
    /// Size of the whole filesystem.
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

/// The facts of one mount; the layers below show whether it is backed by memory.
pub(crate) fn filesystem_facts(mount: &MountEntry, identity: &PathIdentity) -> FilesystemFacts {
    let options: Vec<String> =
        mount.options.iter().map(|option| option.to_string_lossy().into_owned()).collect();
    FilesystemFacts {
        fs_type: mount.fs_type.clone(),
        mount_point: mount.mount_point.display().to_string(),
        source: mount.source.to_string_lossy().into_owned(),
        uuid: None,
        relevant_options: options.iter().filter(|option| is_relevant(option)).cloned().collect(),
        options,
        read_only: mount.read_only,
        size: identity.size,
        free: identity.free,
        memory_backed: layer_kind(&mount.fs_type) == LayerKind::Memory,
        direct_io: identity.direct_io,
    }
}

/// The UUID of the filesystem on one of these devices.
pub(crate) fn filesystem_uuid(root: &SystemDir, devices: &[Layer]) -> Option<String> {
    let links = root.join("dev/disk/by-uuid");
    links.names("").into_iter().find(|uuid| {
        let device = links.link_name(uuid);
        device.is_some_and(|device| devices.iter().any(|known| known.name == device))
    })
}

/// Types that the ext4 driver mounts, and shows under its own name.
const EXT: &[&str] = &["ext2", "ext3", "ext4"];

/// What ext4 says where it has no journal.
const NO_JOURNAL: &str = "<none>";

/// The facts of the filesystem on the device that the kernel calls `device`.
///
/// `effective_options`: the options in effect, joined by commas. `journal`: `yes` or `none`.
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

pub(crate) fn geometry(
    root: &SystemDir,
    probe: &dyn DeviceProbe,
    mount: &MountEntry,
    dir: &SystemDir,
) -> Vec<Fact> {
    match mount.fs_type.as_str() {
        "btrfs" => btrfs(root, &dir.name()),
        "ext2" | "ext3" | "ext4" => {
            let mut facts = of_superblock(probe, mount, dir);
            facts.extend(ext_state(root, &dir.name()));
            facts
        }
        "xfs" => match of_superblock(probe, mount, dir) {
            // Only root may read the device; the options are shown to all.
            facts if facts.is_empty() => xfs_options(mount),
            facts => facts,
        },
        _ => Vec::new(),
    }
}

fn of_superblock(probe: &dyn DeviceProbe, mount: &MountEntry, dir: &SystemDir) -> Vec<Fact> {
    let bytes = probe.first_bytes(dir).unwrap_or_default();
    superblock_facts(&mount.fs_type, &bytes)
}

/// What ext4 and its journal show while they are mounted.
///
/// `journal_mode`: `ordered`, `writeback` or `journal`. `journal_transaction_max_blocks`: how much
/// one transaction can hold. `errors`: how many the filesystem has recorded, if any.
fn ext_state(root: &SystemDir, device: &str) -> Vec<Fact> {
    let options = root.text(format!("proc/fs/ext4/{device}/options"));
    let mode = options.as_deref().and_then(journal_mode);
    let errors = root.text(format!("sys/fs/ext4/{device}/errors_count"));
    Fact::known([
        ("journal_mode", mode),
        ("journal_transaction_max_blocks", transaction_blocks(root, device)),
        ("errors", errors.filter(|count| count != "0")),
    ])
}

fn journal_mode(options: &str) -> Option<String> {
    options.split_whitespace().find_map(|option| option.strip_prefix("data=")).map(str::to_owned)
}

/// From a sentence such as `7 transactions (2 requested), each up to 1024 blocks`, in the folder of
/// the device and the journal's inode.
fn transaction_blocks(root: &SystemDir, device: &str) -> Option<String> {
    let of_device = |journal: &SystemDir| {
        let name = journal.name();
        let inode = name.strip_prefix(device).and_then(|rest| rest.strip_prefix('-'));
        inode.is_some_and(|inode| inode.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let text = root.children("proc/fs/jbd2").iter().find(|entry| of_device(entry))?.text("info")?;
    // The sentence is made for people, and may change: only a number is taken.
    let (count, _) = text.split_once("each up to ")?.1.split_once(' ')?;
    count.parse::<u64>().is_ok().then(|| count.to_owned())
}

/// Stripes as they are given to mount, in sectors of 512 bytes.
fn xfs_options(mount: &MountEntry) -> Vec<Fact> {
    let sectors = |option: &str| {
        let sectors: u64 = mount.option_value(option)?.to_str()?.parse().ok()?;
        Some(sectors.checked_mul(512)?.to_string())
    };
    Fact::known([
        ("stripe_unit_bytes", sectors("sunit")),
        ("stripe_width_bytes", sectors("swidth")),
    ])
}

/// Profiles of btrfs, each a folder while it is in use.
const PROFILES: [&str; 9] =
    ["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid10", "raid5", "raid6"];

fn btrfs(root: &SystemDir, member: &str) -> Vec<Fact> {
    let Some(filesystem) = btrfs_of_member(root, member) else { return Vec::new() };
    let listed = |names: Vec<String>| (!names.is_empty()).then(|| names.join(","));
    // The folder has files with numbers in addition to the profiles.
    let profile = |kind: &str| {
        let mut names = filesystem.names(format!("allocation/{kind}"));
        names.retain(|name| PROFILES.contains(&name.as_str()));
        listed(names)
    };
    // A balance or a replacement in the background takes the devices' time.
    let running = filesystem.text("exclusive_operation").filter(|operation| operation != "none");
    Fact::known([
        ("block_size_bytes", filesystem.text("sectorsize")),
        ("node_size_bytes", filesystem.text("nodesize")),
        ("checksum", filesystem.text("checksum")),
        ("data_profile", profile("data")),
        ("metadata_profile", profile("metadata")),
        ("system_profile", profile("system")),
        ("running_operation", running),
        ("features", listed(filesystem.names("features"))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_probe::CopiedDevices;
    use crate::mountinfo::parse_mountinfo;
    use crate::tests::fixture::Fixture;

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
            ("ramfs", LayerKind::Memory),
            ("rootfs", LayerKind::Memory),
            ("devtmpfs", LayerKind::Memory),
            ("hugetlbfs", LayerKind::Memory),
            ("nfs", LayerKind::Network),
            ("cifs", LayerKind::Network),
            ("smb3", LayerKind::Network),
            ("9p", LayerKind::Network),
            ("ceph", LayerKind::Network),
            ("fuse", LayerKind::Fuse),
            ("fuseblk", LayerKind::Fuse),
            // A control filesystem of the kernel's: nothing is served through it.
            ("fusectl", LayerKind::Filesystem),
            ("ocfs2", LayerKind::Filesystem),
            ("tmpfsx", LayerKind::Filesystem),
        ];
        for (fs_type, kind) in rows {
            assert_eq!(layer_kind(fs_type), kind, "{fs_type}");
        }
    }

    #[test]
    fn a_uuid_is_that_of_the_link_to_one_of_the_devices() {
        let fixture = Fixture::new();
        for (uuid, device) in [("1-2", "sda1"), ("3-4", "dm-0")] {
            fixture.link(&format!("dev/disk/by-uuid/{uuid}"), &format!("dev/{device}"));
        }
        let found = |names: &[&str]| {
            let devices: Vec<Layer> =
                names.iter().map(|name| Layer::new(LayerKind::Disk, *name)).collect();
            filesystem_uuid(&fixture.root(), &devices)
        };
        assert_eq!(found(&["sda2", "dm-0"]).as_deref(), Some("3-4"));
        assert_eq!(found(&["sda1"]).as_deref(), Some("1-2"));
        assert_eq!(found(&["sda"]), None);
        assert_eq!(found(&[]), None);
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

    fn lines(fixture: &Fixture, mount: &str, device: &str) -> Vec<String> {
        let root = fixture.root();
        let mounts = parse_mountinfo(format!("50 1 8:0 / /data rw - {mount}\n").as_bytes());
        let dir = root.follow(format!("sys/block/{device}")).unwrap();
        let facts = geometry(&root, &CopiedDevices(&root), &mounts[0], &dir);
        facts.iter().map(|fact| format!("{}={}", fact.name, fact.value)).collect()
    }

    #[test]
    fn btrfs_tells_its_profiles_and_sizes() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        let folder = "sys/fs/btrfs/0bee-f";
        fixture.link(&format!("{folder}/devices/sda"), &fixture.path_of("sda"));
        for (file, content) in [
            ("nodesize", "16384"),
            ("sectorsize", "4096"),
            ("checksum", "crc32c (crc32c-intel)"),
            ("exclusive_operation", "none"),
            ("allocation/data/single/total_bytes", "1"),
            ("allocation/data/flags", "1"),
            ("allocation/metadata/raid1/total_bytes", "1"),
            ("features/skinny_metadata", "1"),
        ] {
            fixture.file(&format!("{folder}/{file}"), format!("{content}\n"));
        }
        let expected = [
            "block_size_bytes=4096",
            "node_size_bytes=16384",
            "checksum=crc32c (crc32c-intel)",
            "data_profile=single",
            "metadata_profile=raid1",
            "features=skinny_metadata",
        ];
        assert_eq!(lines(&fixture, "btrfs /dev/sda rw", "sda"), expected);
        fixture.file(&format!("{folder}/exclusive_operation"), "balance\n");
        fixture.file(&format!("{folder}/allocation/system/raid1c3/total_bytes"), "1\n");
        let told = lines(&fixture, "btrfs /dev/sda rw", "sda");
        assert_eq!(
            told[4..7],
            ["metadata_profile=raid1", "system_profile=raid1c3", "running_operation=balance"]
        );
    }

    #[test]
    fn ext4_tells_the_mode_and_the_largest_transaction_of_its_journal() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        fixture.file("proc/fs/ext4/sda/options", "rw\nbarrier\ndata=journal\n");
        fixture.file("sys/fs/ext4/sda/errors_count", "3\n");
        let sentence = "7 transactions (2 requested), each up to 1024 blocks\naverage: \n";
        fixture.file("proc/fs/jbd2/sda-8/info", sentence);
        fixture.file("proc/fs/jbd2/sda1-8/info", sentence.replace("1024", "1"));
        let expected = ["journal_mode=journal", "journal_transaction_max_blocks=1024", "errors=3"];
        assert_eq!(lines(&fixture, "ext4 /dev/sda rw", "sda"), expected);
    }

    #[test]
    fn xfs_tells_its_stripes_where_the_device_cannot_be_read() {
        let fixture = Fixture::new();
        fixture.scsi_disk("sda", "8:0");
        let mount = "xfs /dev/sda rw,sunit=128,swidth=384";
        let expected = ["stripe_unit_bytes=65536", "stripe_width_bytes=196608"];
        assert_eq!(lines(&fixture, mount, "sda"), expected);
        assert!(lines(&fixture, "xfs /dev/sda rw,sunit=x", "sda").is_empty());
        assert!(lines(&fixture, "f2fs /dev/sda rw", "sda").is_empty());
    }
}
