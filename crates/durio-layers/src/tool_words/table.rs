//! The words that programs may be given, as data. Sources: mke2fs(8) and ext4(5) of e2fsprogs 1.47,
//! mkfs.xfs(8) and xfs(5) of xfsprogs 6.1 and 6.12, mkfs.btrfs(8) and btrfs(5) of btrfs-progs 6.2
//! and 6.12, mount(8) of util-linux 2.38, zfsprops(7) and zpoolprops(7) of OpenZFS 2.3.
//!
//! Left out are words that name a file or device (`-d`, `-l logdev=`, `-p`, `-r`, `device=`,
//! `journal_path=`, `compatibility=FILE`), labels and identifiers, by which `stack clean` tells what
//! is durio's, and what makes no filesystem that could be measured (`-n`, `-S`, `ro`).

use super::Tool;

/// A word with what may follow it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
}

/// What a word is followed by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    Nothing,
    Count,
    Percent,
    Size,
    One(&'static [&'static str]),
    /// Nothing or one of these.
    Maybe(&'static [&'static str]),
    /// One of these, with the separator and a number or without.
    Level(char, &'static [&'static str]),
    /// Some of these, separated by commas, each negated by `^` or not.
    Some(&'static [&'static str]),
    Pairs(&'static [Known]),
}

/// How words stand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// Options of a command.
    Options,
    /// Each is a list of names and pairs.
    List,
    /// Each is a pair.
    Pair,
}

const fn known(name: &'static str, takes: Takes) -> Known {
    Known { name, takes }
}

const fn flag(name: &'static str) -> Known {
    known(name, Takes::Nothing)
}

const fn count(name: &'static str) -> Known {
    known(name, Takes::Count)
}

const fn size(name: &'static str) -> Known {
    known(name, Takes::Size)
}

const fn one(name: &'static str, words: &'static [&'static str]) -> Known {
    known(name, Takes::One(words))
}

const fn maybe(name: &'static str, words: &'static [&'static str]) -> Known {
    known(name, Takes::Maybe(words))
}

const ZERO_ONE: &[&str] = &["0", "1"];
const ON_OFF: &[&str] = &["on", "off"];

const MKFS_EXT4: &[Known] = &[
    size("-b"),
    size("-C"),
    flag("-D"),
    known("-E", Takes::Pairs(EXT4_EXTENDED)),
    one("-e", &["continue", "remount-ro"]),
    count("-g"),
    count("-G"),
    size("-i"),
    count("-I"),
    flag("-j"),
    known("-J", Takes::Pairs(EXT4_JOURNAL)),
    known("-m", Takes::Percent),
    count("-N"),
    known("-O", Takes::Some(EXT4_FEATURES)),
    one("-T", &["floppy", "small", "default", "big", "huge", "news", "largefile", "largefile4"]),
];

const EXT4_EXTENDED: &[Known] = &[
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

const EXT4_JOURNAL: &[Known] = &[size("size"), size("fast_commit_size"), size("location")];

const EXT4_FEATURES: &[&str] = &[
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

const MKFS_XFS: &[Known] = &[
    known("-b", Takes::Pairs(&[size("size"), count("log")])),
    known("-d", Takes::Pairs(XFS_DATA)),
    known("-i", Takes::Pairs(XFS_INODES)),
    known("-l", Takes::Pairs(XFS_LOG)),
    known("-m", Takes::Pairs(XFS_METADATA)),
    known("-n", Takes::Pairs(XFS_NAMING)),
    known("-s", Takes::Pairs(&[size("size"), size("sectsize"), count("log")])),
];

const XFS_DATA: &[Known] = &[
    count("agcount"),
    size("agsize"),
    size("size"),
    size("su"),
    count("sw"),
    count("sunit"),
    count("swidth"),
    maybe("noalign", ZERO_ONE),
    size("sectsize"),
    count("concurrency"),
    size("cowextsize"),
    size("extszinherit"),
    one("rtinherit", &["0"]),
    one("daxinherit", ZERO_ONE),
    count("projinherit"),
];

const XFS_INODES: &[Known] = &[
    size("size"),
    count("perblock"),
    count("maxpct"),
    maybe("align", ZERO_ONE),
    one("attr", &["0", "1", "2"]),
    maybe("projid32bit", ZERO_ONE),
    maybe("sparse", ZERO_ONE),
    maybe("nrext64", ZERO_ONE),
    maybe("exchange", ZERO_ONE),
];

const XFS_LOG: &[Known] = &[
    maybe("internal", &["1"]),
    size("size"),
    count("agnum"),
    one("version", &["1", "2"]),
    size("su"),
    count("sunit"),
    size("sectsize"),
    maybe("lazy-count", ZERO_ONE),
    count("concurrency"),
];

const XFS_METADATA: &[Known] = &[
    maybe("crc", ZERO_ONE),
    maybe("finobt", ZERO_ONE),
    maybe("inobtcount", ZERO_ONE),
    maybe("rmapbt", ZERO_ONE),
    maybe("reflink", ZERO_ONE),
    maybe("bigtime", ZERO_ONE),
    maybe("metadir", ZERO_ONE),
];

const XFS_NAMING: &[Known] = &[
    size("size"),
    one("version", &["2", "ci"]),
    maybe("ftype", ZERO_ONE),
    maybe("parent", ZERO_ONE),
];

const BTRFS_PROFILES: &[&str] =
    &["single", "dup", "raid0", "raid1", "raid1c3", "raid1c4", "raid5", "raid6", "raid10"];
const BTRFS_CHECKSUMS: &[&str] = &["crc32c", "xxhash", "sha256", "blake2"];
const BTRFS_FEATURES: &[&str] = &[
    "mixed-bg",
    "quota",
    "squota",
    "extref",
    "raid56",
    "skinny-metadata",
    "no-holes",
    "zoned",
    "free-space-tree",
    "block-group-tree",
    "raid-stripe-tree",
];

const MKFS_BTRFS: &[Known] = &[
    size("-b"),
    size("--byte-count"),
    one("-d", BTRFS_PROFILES),
    one("--data", BTRFS_PROFILES),
    one("-m", BTRFS_PROFILES),
    one("--metadata", BTRFS_PROFILES),
    flag("-M"),
    flag("--mixed"),
    size("-n"),
    size("--nodesize"),
    size("-s"),
    size("--sectorsize"),
    one("--csum", BTRFS_CHECKSUMS),
    one("--checksum", BTRFS_CHECKSUMS),
    known("-O", Takes::Some(BTRFS_FEATURES)),
    known("--features", Takes::Some(BTRFS_FEATURES)),
    known("-R", Takes::Some(BTRFS_FEATURES)),
    known("--runtime-features", Takes::Some(BTRFS_FEATURES)),
];

const MOUNT_EXT4: &[Known] = &[
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

const MOUNT_XFS: &[Known] = &[
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
    size("allocsize"),
    flag("attr2"),
    flag("noattr2"),
    flag("barrier"),
    flag("nobarrier"),
    maybe("dax", &["always", "never", "inode"]),
    flag("discard"),
    flag("nodiscard"),
    flag("filestreams"),
    flag("ikeep"),
    flag("noikeep"),
    flag("inode32"),
    flag("inode64"),
    flag("largeio"),
    flag("nolargeio"),
    count("logbufs"),
    size("logbsize"),
    flag("noalign"),
    flag("swalloc"),
    flag("wsync"),
    count("sunit"),
    count("swidth"),
    flag("noquota"),
    flag("quota"),
    flag("uquota"),
    flag("usrquota"),
    flag("uqnoenforce"),
    flag("gquota"),
    flag("grpquota"),
    flag("gqnoenforce"),
    flag("pquota"),
    flag("prjquota"),
    flag("pqnoenforce"),
    size("max_atomic_write"),
];

const BTRFS_COMPRESSION: Takes = Takes::Level(':', &["zlib", "lzo", "zstd", "no", "none"]);

const MOUNT_BTRFS: &[Known] = &[
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
    flag("acl"),
    flag("noacl"),
    flag("autodefrag"),
    flag("noautodefrag"),
    flag("barrier"),
    flag("nobarrier"),
    count("commit"),
    known("compress", BTRFS_COMPRESSION),
    known("compress-force", BTRFS_COMPRESSION),
    flag("datacow"),
    flag("nodatacow"),
    flag("datasum"),
    flag("nodatasum"),
    maybe("discard", &["sync", "async"]),
    flag("nodiscard"),
    flag("flushoncommit"),
    flag("noflushoncommit"),
    size("max_inline"),
    count("metadata_ratio"),
    maybe("space_cache", &["v1", "v2"]),
    flag("nospace_cache"),
    flag("clear_cache"),
    flag("ssd"),
    flag("ssd_spread"),
    flag("nossd"),
    flag("nossd_spread"),
    count("thread_pool"),
    flag("treelog"),
    flag("notreelog"),
];

const ZFS_CHECKSUMS: &[&str] = &[
    "on",
    "off",
    "fletcher2",
    "fletcher4",
    "sha256",
    "noparity",
    "sha512",
    "skein",
    "edonr",
    "blake3",
];

const ZFS_COMPRESSIONS: &[&str] = &["on", "off", "lzjb", "lz4", "zle", "gzip", "zstd", "zstd-fast"];

const CACHES: &[&str] = &["all", "none", "metadata"];

const ZFS: &[Known] = &[
    size("recordsize"),
    one("sync", &["standard", "always", "disabled"]),
    one("logbias", &["latency", "throughput"]),
    known("compression", Takes::Level('-', ZFS_COMPRESSIONS)),
    one("checksum", ZFS_CHECKSUMS),
    one("atime", ON_OFF),
    one("relatime", ON_OFF),
    one("primarycache", CACHES),
    one("secondarycache", CACHES),
    one("prefetch", CACHES),
    one("direct", &["disabled", "standard", "always"]),
    one("dedup", &["on", "off", "verify", "sha256", "sha512", "skein", "edonr", "blake3"]),
    one("copies", &["1", "2", "3"]),
    one("redundant_metadata", &["all", "most", "some", "none"]),
    one("dnodesize", &["legacy", "auto", "1k", "2k", "4k", "8k", "16k"]),
    size("special_small_blocks"),
    one("xattr", &["on", "off", "sa", "dir"]),
    one("acltype", &["off", "nfsv4", "posix"]),
];

const SWITCH: &[&str] = &["enabled", "disabled"];

const ZPOOL: &[Known] = &[
    count("ashift"),
    one("autotrim", ON_OFF),
    one("failmode", &["wait", "continue"]),
    one("compatibility", &["off", "legacy"]),
    one("feature@allocation_classes", SWITCH),
    one("feature@async_destroy", SWITCH),
    one("feature@blake3", SWITCH),
    one("feature@block_cloning", SWITCH),
    one("feature@bookmark_v2", SWITCH),
    one("feature@bookmark_written", SWITCH),
    one("feature@bookmarks", SWITCH),
    one("feature@device_rebuild", SWITCH),
    one("feature@device_removal", SWITCH),
    one("feature@draid", SWITCH),
    one("feature@dynamic_gang_header", SWITCH),
    one("feature@edonr", SWITCH),
    one("feature@embedded_data", SWITCH),
    one("feature@empty_bpobj", SWITCH),
    one("feature@enabled_txg", SWITCH),
    one("feature@encryption", SWITCH),
    one("feature@extensible_dataset", SWITCH),
    one("feature@fast_dedup", SWITCH),
    one("feature@filesystem_limits", SWITCH),
    one("feature@head_errlog", SWITCH),
    one("feature@hole_birth", SWITCH),
    one("feature@large_blocks", SWITCH),
    one("feature@large_dnode", SWITCH),
    one("feature@large_microzap", SWITCH),
    one("feature@livelist", SWITCH),
    one("feature@log_spacemap", SWITCH),
    one("feature@longname", SWITCH),
    one("feature@lz4_compress", SWITCH),
    one("feature@multi_vdev_crash_dump", SWITCH),
    one("feature@obsolete_counts", SWITCH),
    one("feature@project_quota", SWITCH),
    one("feature@raidz_expansion", SWITCH),
    one("feature@redacted_datasets", SWITCH),
    one("feature@redaction_bookmarks", SWITCH),
    one("feature@redaction_list_spill", SWITCH),
    one("feature@resilver_defer", SWITCH),
    one("feature@sha512", SWITCH),
    one("feature@skein", SWITCH),
    one("feature@spacemap_histogram", SWITCH),
    one("feature@spacemap_v2", SWITCH),
    one("feature@userobj_accounting", SWITCH),
    one("feature@vdev_zaps_v2", SWITCH),
    one("feature@zilsaxattr", SWITCH),
    one("feature@zpool_checkpoint", SWITCH),
    one("feature@zstd_compress", SWITCH),
];

impl Tool {
    pub(super) const ALL: [Self; 8] = [
        Self::MkfsExt4,
        Self::MkfsXfs,
        Self::MkfsBtrfs,
        Self::MountExt4,
        Self::MountXfs,
        Self::MountBtrfs,
        Self::ZfsProperties,
        Self::ZpoolProperties,
    ];

    /// As the user knows it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MkfsExt4 => "mkfs.ext4",
            Self::MkfsXfs => "mkfs.xfs",
            Self::MkfsBtrfs => "mkfs.btrfs",
            Self::MountExt4 | Self::MountXfs | Self::MountBtrfs => "mount",
            Self::ZfsProperties => "the ZFS filesystem",
            Self::ZpoolProperties => "the ZFS pool",
        }
    }

    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::MkfsExt4 => "`mkfs` of ext4",
            Self::MkfsXfs => "`mkfs` of xfs",
            Self::MkfsBtrfs => "`mkfs` of btrfs",
            Self::MountExt4 => "`mount` of ext4",
            Self::MountXfs => "`mount` of xfs",
            Self::MountBtrfs => "`mount` of btrfs",
            Self::ZfsProperties => "`properties` of zfs",
            Self::ZpoolProperties => "`pool_properties` of zfs",
        }
    }

    pub(super) const fn known(self) -> &'static [Known] {
        match self {
            Self::MkfsExt4 => MKFS_EXT4,
            Self::MkfsXfs => MKFS_XFS,
            Self::MkfsBtrfs => MKFS_BTRFS,
            Self::MountExt4 => MOUNT_EXT4,
            Self::MountXfs => MOUNT_XFS,
            Self::MountBtrfs => MOUNT_BTRFS,
            Self::ZfsProperties => ZFS,
            Self::ZpoolProperties => ZPOOL,
        }
    }

    pub(super) const fn form(self) -> Form {
        match self {
            Self::MkfsExt4 | Self::MkfsXfs | Self::MkfsBtrfs => Form::Options,
            Self::MountExt4 | Self::MountXfs | Self::MountBtrfs => Form::List,
            Self::ZfsProperties | Self::ZpoolProperties => Form::Pair,
        }
    }
}
