//! A stack as somebody declares it, from the bottom up, before it is there.
//!
//! In: nothing; plain data. Out: [`DeclaredStack`] and what its layers can be. Each layer turns a
//! list of devices into a list of devices, or into one mounted filesystem. Not here: how it is
//! written in a spec, whether it can be built, and building it.

use durio_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Layers from the bottom up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredStack {
    /// Its name, unique within a spec.
    pub name: String,
    /// The layers; the first one is a source of devices.
    pub layers: Vec<DeclaredLayer>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredLayer {
    /// What it is.
    #[serde(flatten)]
    pub kind: DeclaredKind,
    /// The devices below are divided into so many equal groups, in order, and each group becomes
    /// one device; 1 by default. So arrays are nested.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub groups: u32,
    /// True if the workloads are run on it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub measured: bool,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(value: &u32) -> bool {
    *value == 1
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_yes(value: &bool) -> bool {
    *value
}

/// What a layer is. Lists of words are handed to the program that makes the layer, as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "layer")]
pub enum DeclaredKind {
    /// RAM disks of the kernel's brd: no request queue, no statistics.
    Ram(Made),
    /// Compressed RAM disks: several microseconds per write, not for a raw baseline.
    Zram(Made),
    /// null_blk, memory-backed, with a request queue.
    Null {
        /// How many, and how large.
        #[serde(flatten)]
        made: Made,
        /// Time from a request's start to its completion by a timer; at once without it.
        #[serde(rename = "completion_ns", default, skip_serializing_if = "Option::is_none")]
        completion: Option<Nanos>,
        /// Requests that each device works on at once, 1 to 10240; what exceeds it waits in the
        /// block layer. The driver's own, 64, without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queue_depth: Option<u32>,
    },
    /// Files of the host as block devices, with direct I/O where the filesystem has it.
    Loop {
        /// How many, and how large.
        #[serde(flatten)]
        made: Made,
        /// Where the files are made; the directory for temporary files without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<String>,
    },
    /// Existing block devices; whatever is on them is lost.
    Device {
        /// Where they are.
        paths: Vec<String>,
    },
    /// A software RAID array of the kernel's md.
    Md(DeclaredMd),
    /// A logical volume.
    Lvm {
        /// How it is laid out.
        layout: LvmLayout,
        /// Stripe size, with striped and raid10.
        #[serde(rename = "chunk_bytes", default, skip_serializing_if = "Option::is_none")]
        chunk: Option<Bytes>,
    },
    /// A target of the device mapper over each device by itself.
    Dm {
        /// Which.
        #[serde(flatten)]
        target: DmTarget,
    },
    /// ext4.
    Ext4(MadeFilesystem),
    /// XFS.
    Xfs(MadeFilesystem),
    /// Btrfs over one device or several.
    Btrfs {
        /// How data and metadata are laid out.
        profile: BtrfsProfile,
        /// Further options.
        #[serde(flatten)]
        options: MadeFilesystem,
    },
    /// A ZFS pool with one filesystem.
    Zfs {
        /// How the devices are joined.
        layout: ZfsLayout,
        /// Properties of the filesystem: `recordsize=4k`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        properties: Vec<String>,
        /// Properties of the pool: `ashift=12`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pool_properties: Vec<String>,
    },
}

/// Devices that durio makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
}

/// Where md keeps which parts of an array may differ between its members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MdBitmap {
    /// Nowhere.
    None,
    /// On the members.
    Internal,
    /// In a file on another filesystem.
    External(String),
    /// The kernel's lockless bitmap, on the members.
    Lockless,
}

/// A software RAID array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredMd {
    /// 0, 1, 4, 5, 6 or 10.
    pub level: u8,
    /// mdadm's word for the layout: n2, f2, o2, left-symmetric; md's own default without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Chunk, with striped levels; mdadm's own default without it.
    #[serde(rename = "chunk_bytes", default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Bytes>,
    /// The bitmap; level 0 has none.
    pub bitmap: MdBitmap,
    /// Bytes of the array per bit; mdadm's own default without it.
    #[serde(rename = "bitmap_chunk_bytes", default, skip_serializing_if = "Option::is_none")]
    pub bitmap_chunk: Option<Bytes>,
    /// Partial parity log, level 5 only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ppl: bool,
    /// The last device is the journal, levels 4 to 6.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub journal: bool,
    /// Whether the copies or the parity are made equal before anything is measured; without it the
    /// members are taken to be in step, as new devices full of zeros are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub initial_sync: bool,
    /// So many members, from the last, are failed and removed once the array is there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub removed: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// Layout of a logical volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LvmLayout {
    /// One device after the other.
    Linear,
    /// Striped over all devices.
    Striped,
    /// As many copies as devices.
    Raid1,
    /// Striped over pairs.
    Raid10,
}

/// A target of the device mapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "target")]
pub enum DmTarget {
    /// The device as it is.
    Linear,
    /// Encrypted with a key made for the occasion.
    Crypt,
    /// Every read and write takes this much longer.
    Delay {
        /// By how much, in whole milliseconds.
        #[serde(rename = "delay_ns")]
        delay: Nanos,
    },
    /// Works for a while and then returns errors for a while.
    Flakey {
        /// Seconds of the former.
        up_seconds: u32,
        /// Seconds of the latter.
        down_seconds: u32,
    },
}

/// Options of mkfs and mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFilesystem {
    /// Words for mkfs, beside those that name the device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mkfs: Vec<String>,
    /// Mount options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount: Vec<String>,
}

/// Layout of Btrfs data and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BtrfsProfile {
    /// One copy.
    Single,
    /// Two copies on different devices.
    Raid1,
    /// Striped over two copies.
    Raid10,
}

/// Layout of a ZFS pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZfsLayout {
    /// Data spread over all devices.
    Single,
    /// Each device holds everything.
    Mirror,
    /// One parity.
    Raidz1,
    /// Two parities.
    Raidz2,
}

impl DeclaredKind {
    /// Its word in a spec: `md`, `ext4`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ram(_) => "ram",
            Self::Zram(_) => "zram",
            Self::Null { .. } => "null",
            Self::Loop { .. } => "loop",
            Self::Device { .. } => "device",
            Self::Md(_) => "md",
            Self::Lvm { .. } => "lvm",
            Self::Dm { .. } => "dm",
            Self::Ext4(_) => "ext4",
            Self::Xfs(_) => "xfs",
            Self::Btrfs { .. } => "btrfs",
            Self::Zfs { .. } => "zfs",
        }
    }

    /// True if it is a mounted filesystem and no device: nothing can lie above it.
    #[must_use]
    pub const fn is_filesystem(&self) -> bool {
        matches!(self, Self::Ext4(_) | Self::Xfs(_) | Self::Btrfs { .. } | Self::Zfs { .. })
    }

    /// True if it lies on nothing that is declared.
    #[must_use]
    pub const fn is_source(&self) -> bool {
        matches!(
            self,
            Self::Ram(_)
                | Self::Zram(_)
                | Self::Null { .. }
                | Self::Loop { .. }
                | Self::Device { .. }
        )
    }
}
