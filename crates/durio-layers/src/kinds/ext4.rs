//! ext4.
//!
//! Words: mke2fs(8) and ext4(5) of e2fsprogs 1.47, mount(8) of util-linux 2.38.

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use super::mounted::{MadeFilesystem, mkfs, mount, uuid_words, words};
use super::{Kind, LayerKind, Role, SizesBelow};
use crate::check::{Below, Fault};
use crate::declared::filesystem_sizes;
use crate::needs::{Driver, Missing};
use crate::place::filesystem_uuid;
use crate::plan::{Draft, PlannedLayer};
use crate::superblock::{Head, Ours, Superblock};
use crate::tool_words::{Form, Takes, Tool, Word, ZERO_ONE, count, flag, maybe, one, size, word};

pub(crate) const KIND: Kind = Kind {
    word: "ext4",
    role: Role::Filesystem,
    drivers: &[DRIVER],
    tools: &[Tool::MKFS_EXT4, Tool::MOUNT_EXT4],
    superblock: Some(Superblock { signatures: &["ext2", "ext3", "ext4"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver::filesystem("ext4", "ext4");

/// mke2fs makes no journal in less than 2048 blocks, of 1 KiB in a filesystem this small
/// (e2fsprogs, lib/ext2fs/mkjournal.c), and without a journal it is no ext4 of this comparison.
const LEAST: Bytes = Bytes::from_mib(2);

/// ext4.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ext4 {
    /// Options of mkfs and mount.
    #[serde(flatten)]
    pub options: MadeFilesystem,
}

impl LayerKind for Ext4 {
    fn label(&self) -> Vec<String> {
        self.options.label(KIND.word, "")
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("mkfs.ext4", "e2fsprogs"), DRIVER.missing()]
    }

    fn check(&self, below: Below) -> Result<Below, Fault> {
        below.filesystem(1..=1, LEAST, "with a journal")
    }

    fn tool_words(&self) -> Vec<(Tool, &[String])> {
        vec![(Tool::MKFS_EXT4, &self.options.mkfs), (Tool::MOUNT_EXT4, &self.options.mount)]
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        filesystem_sizes(below, |group| group.sum)
    }

    fn plan(&self, draft: &mut Draft<'_>, below: &[String]) -> PlannedLayer {
        let mut all = own_words(&self.options.mkfs);
        all.extend(uuid_words(draft));
        mkfs(draft, "mkfs.ext4", all, below);
        mount(draft, "ext4", &self.options.mount, below)
    }
}

/// Of several `-E` mkfs.ext4 heeds the last one alone, so declared ones are joined with ours.
fn own_words(declared: &[String]) -> Vec<String> {
    let mut extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard".to_owned();
    let mut others = Vec::new();
    let mut rest = declared.iter();
    while let Some(word) = rest.next() {
        let value = match word.as_str() {
            "-E" => rest.next().map(String::as_str),
            word => word.strip_prefix("-E"),
        };
        match value {
            Some(value) => extended = format!("{extended},{value}"),
            None => others.push(word.clone()),
        }
    }
    words(&["-q", "-F", "-E", &extended], &others)
}

/// `s_uuid`, `s_volume_name`, `s_mnt_count` (Documentation/filesystems/ext4/super.rst).
fn superblock(head: &Head<'_>, tag: &str) -> Option<Ours> {
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(0x468, 16)? == uuid && head.is_text(0x478, 16, tag);
    let mounts = head.u16_le(0x434)?;
    is_ours.then_some((&["ext2", "ext3", "ext4"], mounts == 0))
}

impl Tool {
    /// mkfs.ext4(8).
    pub const MKFS_EXT4: Self =
        Self { name: "mkfs.ext4", heading: "`mkfs` of ext4", form: Form::Options, words: MKFS };
    /// mount(8) of ext4.
    pub const MOUNT_EXT4: Self =
        Self { name: "mount", heading: "`mount` of ext4", form: Form::List, words: MOUNT };
}

const MKFS: &[Word] = &[
    size("-b"),
    size("-C"),
    flag("-D"),
    word("-E", Takes::Pairs(EXTENDED)),
    one("-e", &["continue", "remount-ro"]),
    count("-g"),
    count("-G"),
    size("-i"),
    count("-I"),
    flag("-j"),
    word("-J", Takes::Pairs(JOURNAL)),
    word("-m", Takes::Percent),
    count("-N"),
    word("-O", Takes::Some(FEATURES)),
    one("-T", &["floppy", "small", "default", "big", "huge", "news", "largefile", "largefile4"]),
];

const EXTENDED: &[Word] = &[
    count("stride"),
    count("stripe_width"),
    count("stripe-width"),
    count("mmp_update_interval"),
    count("resize"),
    maybe("lazy_itable_init", ZERO_ONE),
    maybe("lazy_journal_init", ZERO_ONE),
    maybe("assume_storage_prezeroed", ZERO_ONE),
    maybe("packed_meta_blocks", ZERO_ONE),
    one("num_backup_sb", &["0", "1", "2"]),
    size("orphan_file_size"),
    one("encoding", &["utf8", "utf8-12.1"]),
    one("encoding_flags", &["strict"]),
    flag("no_copy_xattrs"),
    flag("discard"),
    flag("nodiscard"),
];

const JOURNAL: &[Word] = &[size("size"), size("fast_commit_size"), size("location")];

const FEATURES: &[&str] = &[
    "none",
    "64bit",
    "bigalloc",
    "casefold",
    "dir_index",
    "dir_nlink",
    "ea_inode",
    "encrypt",
    "ext_attr",
    "extent",
    "extents",
    "extra_isize",
    "fast_commit",
    "filetype",
    "flex_bg",
    "has_journal",
    "huge_file",
    "inline_data",
    "large_dir",
    "large_file",
    "meta_bg",
    "metadata_csum",
    "metadata_csum_seed",
    "mmp",
    "orphan_file",
    "project",
    "quota",
    "resize_inode",
    "sparse_super",
    "sparse_super2",
    "stable_inodes",
    "uninit_bg",
    "verity",
];

const MOUNT: &[Word] = &[
    flag("defaults"),
    flag("rw"),
    flag("atime"),
    flag("noatime"),
    flag("diratime"),
    flag("nodiratime"),
    flag("relatime"),
    flag("norelatime"),
    flag("strictatime"),
    flag("nostrictatime"),
    flag("lazytime"),
    flag("nolazytime"),
    flag("sync"),
    flag("async"),
    flag("dirsync"),
    flag("iversion"),
    flag("noiversion"),
    flag("i_version"),
    one("data", &["journal", "ordered", "writeback"]),
    one("data_err", &["ignore", "abort"]),
    maybe("barrier", ZERO_ONE),
    flag("nobarrier"),
    count("commit"),
    flag("journal_checksum"),
    flag("nojournal_checksum"),
    flag("journal_async_commit"),
    one("journal_ioprio", &["0", "1", "2", "3", "4", "5", "6", "7"]),
    flag("delalloc"),
    flag("nodelalloc"),
    flag("dioread_lock"),
    flag("dioread_nolock"),
    flag("nodioread_nolock"),
    count("min_batch_time"),
    count("max_batch_time"),
    count("stripe"),
    count("inode_readahead_blks"),
    maybe("auto_da_alloc", ZERO_ONE),
    flag("noauto_da_alloc"),
    flag("discard"),
    flag("nodiscard"),
    flag("init_itable"),
    flag("noinit_itable"),
    flag("block_validity"),
    flag("noblock_validity"),
    flag("no_mbcache"),
    flag("nombcache"),
    flag("prefetch_block_bitmaps"),
    flag("no_prefetch_block_bitmaps"),
    one("mb_optimize_scan", ZERO_ONE),
    count("max_dir_size_kb"),
    maybe("dax", &["always", "never", "inode"]),
    one("errors", &["continue", "remount-ro"]),
    flag("acl"),
    flag("noacl"),
    flag("user_xattr"),
    flag("nouser_xattr"),
    flag("quota"),
    flag("noquota"),
    flag("usrquota"),
    flag("grpquota"),
    flag("prjquota"),
    flag("inlinecrypt"),
];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::DeclaredStack;
    use crate::test_stacks::{TAG, ext4, loops, on_loops, stack, types_on};

    pub(crate) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![loops(1, 64), ext4()])]
    }

    #[test]
    fn extended_options_are_joined_with_ours() {
        let joined = own_words(&["-E".into(), "stride=4".into(), "-Estripe_width=8".into()]);
        let extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard,stride=4,stripe_width=8";
        assert_eq!(joined, ["-q", "-F", "-E", extended]);
    }

    #[test]
    fn a_device_has_room_for_a_journal() {
        assert!(on_loops(1, 2, ext4()).is_ok() && on_loops(1, 1, ext4()).is_err());
    }

    #[test]
    fn it_is_ours_by_label_and_identifier_and_fresh_until_it_is_mounted() {
        let (uuid, label) = (filesystem_uuid(TAG).1, TAG.as_bytes());
        let fresh = types_on("ext4", &[(0x468, &uuid), (0x478, label)]).unwrap();
        assert!(fresh.is_fresh && fresh.types.contains(&"ext4"));
        let mounted = types_on("ext4", &[(0x468, &uuid), (0x478, label), (0x434, &[1, 0])]);
        assert!(!mounted.unwrap().is_fresh);
        assert!(types_on("ext4", &[(0x478, label)]).is_err());
        assert!(types_on("ext4", &[(0x468, &uuid), (0x478, b"durioabc1234x")]).is_err());
    }
}
