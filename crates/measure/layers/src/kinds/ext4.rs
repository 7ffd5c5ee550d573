//! ext4.
//!
//! Words: mke2fs(8) and ext4(5) of e2fsprogs 1.47, mount(8) of util-linux 2.38.

use super::mounted::{MadeFilesystem, mkfs, mount, uuid_words, words};
use super::prelude::*;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "ext4",
    help: "An ext4 filesystem.",
    role: LayerRole::Filesystem,
    drivers: &[DRIVER],
    tools: &[Tool::MKFS_EXT4, Tool::MOUNT_EXT4],
    superblock: Some(SuperblockFormat { signatures: &["ext2", "ext3", "ext4"], read: superblock }),
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver::filesystem("ext4", "ext4");

// mke2fs makes no journal in less than 2048 blocks, of 1 KiB in a filesystem this small (e2fsprogs,
// lib/ext2fs/mkjournal.c), and this comparison is about ext4 with a journal.
const LEAST: Bytes = Bytes::from_mib(2);

spec_keys! {
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Ext4 {
        /// Options of mkfs and mount.
        #[serde(flatten)]
        pub options: MadeFilesystem,
    }
}

impl BuildableLayer for Ext4 {
    fn label(&self) -> Vec<String> {
        self.options.label(KIND.word, "")
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("mkfs.ext4", "e2fsprogs"), DRIVER.missing()]
    }

    fn check(&self, below: Below) -> Result<Below, CheckFault> {
        below.filesystem(1..=1, LEAST, "with a journal")
    }

    fn tool_words(&self) -> ToolWords<'_> {
        self.options.tool_words(Tool::MKFS_EXT4, Tool::MOUNT_EXT4)
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        filesystem_sizes(below, |group| group.sum)
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer {
        let mut all = own_words(&self.options.mkfs);
        all.extend(uuid_words(draft));
        mkfs(draft, "mkfs.ext4", all, below);
        mount(draft, "ext4", &self.options.mount, below)
    }
}

// mkfs.ext4 heeds only the last of several `-E`, so declared ones are joined with ours.
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
    // -F, for mkfs asks where a filesystem is on the device already. Without lazy_…=0 a thread
    // of the kernel writes the rest of the tables while workloads are measured.
    words(&["-q", "-F", "-E", &extended], &others)
}

/// `s_uuid`, `s_volume_name`, `s_mnt_count` (Documentation/filesystems/ext4/super.rst).
fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    let uuid = filesystem_uuid(tag).1;
    let is_ours = head.at(0x468, 16)? == uuid && head.is_text(0x478, 16, tag);
    // ext4 counts mounts for writing, so zero means unused since mkfs.
    let mounts = head.u16_le(0x434)?;
    is_ours.then_some((&["ext2", "ext3", "ext4"], mounts == 0))
}

impl Tool {
    pub(crate) const MKFS_EXT4: Self =
        Self { name: "mkfs.ext4", heading: "`mkfs` of ext4", form: WordForm::Options, words: MKFS };
    pub(crate) const MOUNT_EXT4: Self =
        Self { name: "mount", heading: "`mount` of ext4", form: WordForm::List, words: MOUNT };
}

const MKFS: &[ToolWord] = word_list! {
    WordArgument::Size => "-b" "-C";
    WordArgument::Nothing => "-D";
    WordArgument::Pairs(EXTENDED) => "-E";
    WordArgument::One(&["continue", "remount-ro"]) => "-e";
    WordArgument::Count => "-g" "-G";
    WordArgument::Size => "-i";
    WordArgument::Count => "-I";
    WordArgument::Nothing => "-j";
    WordArgument::Pairs(JOURNAL) => "-J";
    WordArgument::Percent => "-m";
    WordArgument::Count => "-N";
    WordArgument::Some(FEATURES) => "-O";
    WordArgument::One(&["floppy", "small", "default", "big", "huge", "news", "largefile", "largefile4"]) =>
        "-T";
};

const EXTENDED: &[ToolWord] = word_list! {
    WordArgument::Count => "stride" "stripe_width" "stripe-width" "mmp_update_interval" "resize";
    WordArgument::Maybe(ZERO_ONE) => "lazy_itable_init" "lazy_journal_init" "assume_storage_prezeroed"
        "packed_meta_blocks";
    WordArgument::One(&["0", "1", "2"]) => "num_backup_sb";
    WordArgument::Size => "orphan_file_size";
    WordArgument::One(&["utf8", "utf8-12.1"]) => "encoding";
    WordArgument::One(&["strict"]) => "encoding_flags";
    WordArgument::Nothing => "no_copy_xattrs" "discard" "nodiscard";
};

const JOURNAL: &[ToolWord] = word_list! {
    WordArgument::Size => "size" "fast_commit_size" "location";
};

#[rustfmt::skip]
const FEATURES: &[&str] = &[
    "none", "64bit", "bigalloc", "casefold", "dir_index", "dir_nlink", "ea_inode", "encrypt",
    "ext_attr", "extent", "extents", "extra_isize", "fast_commit", "filetype", "flex_bg",
    "has_journal", "huge_file", "inline_data", "large_dir", "large_file", "meta_bg",
    "metadata_csum", "metadata_csum_seed", "mmp", "orphan_file", "project", "quota", "resize_inode",
    "sparse_super", "sparse_super2", "stable_inodes", "uninit_bg", "verity",
];

const MOUNT: &[ToolWord] = word_list! {
    WordArgument::Nothing => "defaults" "rw" "atime" "noatime" "diratime" "nodiratime" "relatime"
        "norelatime" "strictatime" "nostrictatime" "lazytime" "nolazytime" "sync" "async" "dirsync"
        "iversion" "noiversion" "i_version";
    WordArgument::One(&["journal", "ordered", "writeback"]) => "data";
    WordArgument::One(&["ignore", "abort"]) => "data_err";
    WordArgument::Maybe(ZERO_ONE) => "barrier";
    WordArgument::Nothing => "nobarrier";
    WordArgument::Count => "commit";
    WordArgument::Nothing => "journal_checksum" "nojournal_checksum" "journal_async_commit";
    WordArgument::One(&["0", "1", "2", "3", "4", "5", "6", "7"]) => "journal_ioprio";
    WordArgument::Nothing => "delalloc" "nodelalloc" "dioread_lock" "dioread_nolock" "nodioread_nolock";
    WordArgument::Count => "min_batch_time" "max_batch_time" "stripe" "inode_readahead_blks";
    WordArgument::Maybe(ZERO_ONE) => "auto_da_alloc";
    WordArgument::Nothing => "noauto_da_alloc" "discard" "nodiscard" "init_itable" "noinit_itable"
        "block_validity" "noblock_validity" "no_mbcache" "nombcache" "prefetch_block_bitmaps"
        "no_prefetch_block_bitmaps";
    WordArgument::One(ZERO_ONE) => "mb_optimize_scan";
    WordArgument::Count => "max_dir_size_kb";
    WordArgument::Maybe(&["always", "never", "inode"]) => "dax";
    WordArgument::One(&["continue", "remount-ro"]) => "errors";
    WordArgument::Nothing => "acl" "noacl" "user_xattr" "nouser_xattr" "quota" "noquota" "usrquota"
        "grpquota" "prjquota" "inlinecrypt";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeclaredStack;
    use crate::tests::stacks::{TAG, ext4, loops, on_loops, stack, types_on};

    pub(super) fn examples() -> Vec<DeclaredStack> {
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
