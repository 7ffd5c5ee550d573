//! Every key that a stack spec has beyond those of a campaign, as the tables of
//! `campaign/keys.rs`: the reader, the JSON schema and docs/formats/stack-spec.md come from them.

use crate::campaign::keys::{Key, Kind, LAYOUTS, LOAD, STEP, STEP_COMMON, key};

pub(crate) const RAWS: &[&str] = &["one", "all"];
const FILES: &[&str] = &["shared", "per-job"];
pub(crate) const LVM_LAYOUTS: &[&str] = &["linear", "striped", "raid1", "raid10"];
pub(crate) const DM_TARGETS: &[&str] = &["linear", "crypt", "delay", "flakey"];
pub(crate) const BTRFS_PROFILES: &[&str] = &["single", "raid1", "raid10"];
pub(crate) const ZFS_LAYOUTS: &[&str] = &["single", "mirror", "raidz1", "raidz2"];

/// The whole file, without `matrix` and `stack`, which are read before it.
pub(crate) const REST: &[Key] = &[
    key("schema", Kind::Count, "Version of this format: 1. Required."),
    key("name", Kind::Name, "Short name of the bench. Required."),
    key("summary", Kind::Text, "One sentence: what it shows."),
    key("source", Kind::Text, "After whom: title, author, date."),
    key(
        "self_cost",
        Kind::Flag,
        "false leaves out durio's measurements of its own cost. Default: true.",
    ),
    key("target", Kind::Table(&[TARGET]), "What of each point is read and written."),
    key(
        "defaults",
        Kind::Table(&[LOAD, STEP_COMMON]),
        "What holds for every step that does not say otherwise, as in a campaign.",
    ),
    key(
        "precondition",
        Kind::Tables(&[LOAD, STEP_COMMON, STEP]),
        "Brings each point into its state, as in a campaign.",
    ),
    key(
        "step",
        Kind::Tables(&[LOAD, STEP_COMMON, STEP]),
        "What is measured on every point, as in a campaign. At least one.",
    ),
    key("published", Kind::Tables(&[PUBLISHED]), "What somebody found, to be set beside it."),
];

/// What is read before the rest.
pub(crate) const FIRST: &[Key] = &[
    key(
        "matrix",
        Kind::Axes,
        "Axes: lists of texts, whole numbers or flags, for which \"{AXIS}\" stands in stacks.",
    ),
    key(
        "stack",
        Kind::Tables(&[STACK]),
        "A stack, or one for each of the axes' values that it names. At least one.",
    ),
];

/// `[[stack]]`.
pub(crate) const STACK: &[Key] = &[
    key(
        "name",
        Kind::Name,
        "Short name; values of axes that it does not name are appended. Required.",
    ),
    key(
        "layers",
        Kind::Tables(&[LAYER]),
        "The layers from the bottom, a source such as { ram = { size = \"1GiB\" } } first. Required.",
    ),
];

/// One layer: a table with one key.
pub(crate) const LAYER: &[Key] = &[
    key("ram", Kind::Table(&[MADE, COMMON]), "RAM disks of the kernel's brd."),
    key(
        "zram",
        Kind::Table(&[MADE, COMMON]),
        "Compressed RAM disks: several µs per write, which flatters the layers above.",
    ),
    key(
        "null",
        Kind::Table(&[MADE, NULL, COMMON]),
        "null_blk, memory-backed, with a request queue.",
    ),
    key(
        "loop",
        Kind::Table(&[MADE, LOOP, COMMON]),
        "Files of this machine as block devices, with direct I/O where it is possible.",
    ),
    key(
        "device",
        Kind::Table(&[DEVICE, COMMON]),
        "Existing block devices, each of which --destroy must name.",
    ),
    key("md", Kind::Table(&[MD, COMMON]), "A software RAID array of the kernel's md."),
    key("lvm", Kind::Table(&[LVM, COMMON]), "A logical volume."),
    key("dm", Kind::Table(&[DM, COMMON]), "A target of the device mapper over one device."),
    key("ext4", Kind::Table(&[FILESYSTEM, COMMON]), "An ext4 filesystem."),
    key("xfs", Kind::Table(&[FILESYSTEM, COMMON]), "An XFS filesystem."),
    key("btrfs", Kind::Table(&[BTRFS, FILESYSTEM, COMMON]), "A Btrfs over all devices below."),
    key("zfs", Kind::Table(&[ZFS, COMMON]), "A ZFS pool over all devices below, and a filesystem."),
];

/// What every layer may have.
pub(crate) const COMMON: &[Key] = &[
    key(
        "groups",
        Kind::Count,
        "The devices below in so many equal groups, in order, each of which becomes one device. Default: 1.",
    ),
    key("measured", Kind::Flag, "false: built, but no workload is run on it. Default: true."),
];

pub(crate) const MADE: &[Key] = &[
    key("count", Kind::Count, "How many. Default: 1."),
    key("size", Kind::Bytes, "Bytes of each. Required."),
];

pub(crate) const NULL: &[Key] = &[
    key(
        "completion",
        Kind::Delay,
        "Time from a request's start to its completion, by a timer. Default: at once.",
    ),
    key(
        "queue_depth",
        Kind::Count,
        "Requests that each device works on at once; more of them wait. Default: 64, as the driver has it.",
    ),
];

pub(crate) const LOOP: &[Key] =
    &[key("directory", Kind::Text, "Where the files are. Default: that for temporary files.")];

pub(crate) const DEVICE: &[Key] =
    &[key("path", Kind::Texts, "A device or a list of devices, by paths below /dev. Required.")];

pub(crate) const MD: &[Key] = &[
    key("level", Kind::Count, "0, 1, 4, 5, 6 or 10. Required."),
    key("layout", Kind::Text, "mdadm's word: n2, f2, o2, left-symmetric … Default: that of mdadm."),
    key("chunk", Kind::Bytes, "Bytes on a member before the next one. Default: that of mdadm."),
    key(
        "bitmap",
        Kind::Text,
        "none, internal, lockless, or external:FILE on another filesystem: it is made in a new folder of durio's own beside that path. Default: none.",
    ),
    key("bitmap_chunk", Kind::Bytes, "Bytes of the array per bit. Default: that of mdadm."),
    key("ppl", Kind::Flag, "Partial parity log, of level 5. Default: false."),
    key("journal", Kind::Flag, "The last device is the journal, of levels 4 to 6. Default: false."),
    key(
        "initial_sync",
        Kind::Flag,
        "Members are made equal before anything is measured, however long it takes. Default: false, for new devices are all zeros.",
    ),
    key(
        "removed",
        Kind::Count,
        "So many members are failed and removed, the last ones. Default: 0.",
    ),
    key(
        "degraded",
        Kind::Flag,
        "true adds a stack NAME-degraded, of which one member more is removed. Default: false.",
    ),
];

pub(crate) const LVM: &[Key] = &[
    key("layout", Kind::Choice(LVM_LAYOUTS), "How it lies on the devices. Default: linear."),
    key("chunk", Kind::Bytes, "Stripe size of striped and raid10. Default: that of LVM."),
];

pub(crate) const DM: &[Key] = &[
    key("target", Kind::Choice(DM_TARGETS), "Which one. Required."),
    key("delay", Kind::Delay, "With delay: what every access takes more, in whole milliseconds."),
    key("up", Kind::Delay, "With flakey: how long it works, in whole seconds."),
    key("down", Kind::Delay, "With flakey: how long it fails then, in whole seconds."),
];

pub(crate) const FILESYSTEM: &[Key] = &[
    key(
        "mkfs",
        Kind::Texts,
        "Words for the program that makes it, of those listed below: no device, label or file.",
    ),
    key("mount", Kind::Texts, "Options with which it is mounted, of those listed below."),
];

pub(crate) const BTRFS: &[Key] = &[key(
    "profile",
    Kind::Choice(BTRFS_PROFILES),
    "Copies of data and metadata. Default: single.",
)];

pub(crate) const ZFS: &[Key] = &[
    key("layout", Kind::Choice(ZFS_LAYOUTS), "How the devices are joined. Default: single."),
    key("properties", Kind::Texts, "Of the filesystem, of those listed below: \"recordsize=4k\"."),
    key("pool_properties", Kind::Texts, "Of the pool, of those listed below: \"ashift=12\"."),
];

/// `[target]`.
pub(crate) const TARGET: &[Key] = &[
    key(
        "size",
        Kind::Amount,
        "Bytes of the file on a filesystem, or a share of its free space. Default: 1 GiB, at most a tenth of the free space.",
    ),
    key(
        "region",
        Kind::Amount,
        "What is touched of each device, from its begin, at most all of it. Default: size if that is in bytes, else 100%.",
    ),
    key(
        "raw",
        Kind::Choice(RAWS),
        "Where a layer has several devices: only the first is measured, or all side by side. Default: one.",
    ),
    key("layout", Kind::Choice(LAYOUTS), "How a file is laid out before. Default: incompressible."),
    key(
        "files",
        Kind::Choice(FILES),
        "One file that all jobs share, or one for each. Default: shared.",
    ),
];

/// `[[published]]`.
pub(crate) const PUBLISHED: &[Key] = &[
    key("stack", Kind::Text, "Name of a stack, with the values of its axes. Required."),
    key("layer", Kind::Text, "Which of its layers, by its word: md, xfs. Default: the uppermost."),
    key(
        "workload",
        Kind::Text,
        "Name of a step; if it is several workloads, that of one, as a report has it: write, o_dsync. Required.",
    ),
    key("jobs", Kind::Count, "Which point of its ladder, where jobs are one of its axes."),
    key("share_of_raw", Kind::Number, "Its rate as a share of the raw device's: 0.0274. Required."),
    key("rate", Kind::Number, "Its rate, in accesses per second."),
    key("source", Kind::Text, "Where it stands. Default: the source of the file."),
];

/// Every table with the heading under which it is described.
pub(crate) const SECTIONS: &[(&str, &[Key])] = &[
    ("The file", REST),
    ("The file: what is made", FIRST),
    ("[[stack]]", STACK),
    ("A layer", LAYER),
    ("Every layer", COMMON),
    ("ram, zram, null and loop", MADE),
    ("null", NULL),
    ("loop", LOOP),
    ("device", DEVICE),
    ("md", MD),
    ("lvm", LVM),
    ("dm", DM),
    ("ext4, xfs and btrfs", FILESYSTEM),
    ("btrfs", BTRFS),
    ("zfs", ZFS),
    ("[target]", TARGET),
    ("[[published]]", PUBLISHED),
];
