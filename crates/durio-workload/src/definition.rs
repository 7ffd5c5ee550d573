//! What a workload is: plain data that is saved with every result.

use std::fmt;

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

/// The order of offsets within a job's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Block after block, from the region's start, around at its end.
    Sequential,
    /// Uniform over the region's blocks, independent draws (a block may repeat).
    Random,
}

/// Which part of the target a job may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionRule {
    /// Every job may touch the whole target.
    Shared,
    /// Each job has a share of its own: target size / jobs.
    ShareEach,
}

/// Through or past the page cache. Neither says anything about durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMode {
    /// O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// How a write is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMethod {
    /// Not at all: the writes are not durable.
    None,
    /// fsync(2) after the write.
    Fsync,
    /// fdatasync(2) after the write.
    Fdatasync,
    /// File opened with O_DSYNC.
    ODsync,
    /// File opened with O_SYNC.
    OSync,
    /// RWF_DSYNC on each write.
    RwfDsync,
    /// RWF_SYNC on each write.
    RwfSync,
}

impl SyncMethod {
    /// Every method, in the order in which help texts list them.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Fsync,
        Self::Fdatasync,
        Self::ODsync,
        Self::OSync,
        Self::RwfDsync,
        Self::RwfSync,
    ];

    /// The name that users write and read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::ODsync => "o_dsync",
            Self::OSync => "o_sync",
            Self::RwfDsync => "rwf_dsync",
            Self::RwfSync => "rwf_sync",
        }
    }

    /// True if the method is a call of its own after the write.
    #[must_use]
    pub const fn is_separate_call(self) -> bool {
        matches!(self, Self::Fsync | Self::Fdatasync)
    }
}

impl fmt::Display for SyncMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The sync method and after how many writes of a job it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncPolicy {
    /// How.
    pub method: SyncMethod,
    /// After every this many writes; at least 1. Only separate calls know more than 1.
    pub every: u32,
}

impl SyncPolicy {
    /// No write is made durable.
    pub const NONE: Self = Self { method: SyncMethod::None, every: 1 };

    /// Every write is made durable by `method`.
    #[must_use]
    pub const fn each(method: SyncMethod) -> Self {
        Self { method, every: 1 }
    }
}

/// What a sequential writer does at the end of its region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// Starts over and overwrites in place, as a recycled log is.
    WrapAround,
    /// Returns the region to the preallocated state (allocated, unwritten) and starts over, as a
    /// log that moves to its next preallocated segment.
    Reallocate,
}

/// A share in thousandths, 0 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerMille(pub u16);

impl PerMille {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(1000);
}

/// A part of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First byte.
    pub offset: Bytes,
    /// Length; only whole blocks of it are touched.
    pub length: Bytes,
}

/// One workload: which operations, by how many jobs, how durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Short name, as shown in tables.
    pub name: String,
    /// One sentence: what it stands for.
    pub summary: String,
    /// Order of offsets.
    pub pattern: Pattern,
    /// Share of reads among the accesses; the rest are writes.
    #[serde(rename = "read_share_per_mille")]
    pub read_share: PerMille,
    /// Bytes per access.
    #[serde(rename = "block_size_bytes")]
    pub block_size: Bytes,
    /// Which part of the target each job touches.
    pub region: RegionRule,
    /// Workers, in total.
    pub jobs: u32,
    /// Operations that each job keeps in flight.
    pub depth: u32,
    /// How writes are made durable.
    pub sync: SyncPolicy,
    /// Through or past the page cache.
    pub cache: CacheMode,
    /// What a sequential writer does at the end of its region.
    pub at_end: AtEnd,
}

/// Why a definition cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError(pub String);

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DefinitionError {}

/// More threads than any machine runs; keeps jobs × depth within 32 bits.
const JOBS_MAX: u32 = 4096;
/// The largest ring that io_uring grants (IORING_MAX_ENTRIES in the kernel's io_uring.c).
const DEPTH_MAX: u32 = 32_768;
/// The kernel cuts a single read or write at just under 2 GiB (read(2), NOTES); stay well below.
const BLOCK_SIZE_MAX: Bytes = Bytes::from_gib(1);

impl Workload {
    /// True if there is any read.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.read_share > PerMille::NONE
    }

    /// True if there is any write.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.read_share < PerMille::ALL
    }

    /// True if every write, or every N-th, is made durable.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.writes() && self.sync.method != SyncMethod::None
    }

    /// True if each single write is made durable before the next: then it is a commit.
    #[must_use]
    pub fn commits_each_write(&self) -> bool {
        self.is_durable() && self.sync.every == 1
    }

    /// Operations in flight over all jobs.
    #[must_use]
    pub fn in_flight_max(&self) -> u32 {
        self.jobs * self.depth
    }

    /// Checks every bound that does not depend on the target.
    ///
    /// # Errors
    /// The first violated bound, as a sentence.
    pub fn validate(&self) -> Result<(), DefinitionError> {
        let fail = |text: String| Err(DefinitionError(text));
        if self.block_size == Bytes::ZERO || self.block_size > BLOCK_SIZE_MAX {
            return fail(format!(
                "block size must be 1 B to {BLOCK_SIZE_MAX}, not {}",
                self.block_size
            ));
        }
        if self.jobs == 0 || self.jobs > JOBS_MAX {
            return fail(format!("jobs must be 1 to {JOBS_MAX}, not {}", self.jobs));
        }
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return fail(format!("depth must be 1 to {DEPTH_MAX}, not {}", self.depth));
        }
        if self.read_share > PerMille::ALL {
            return fail(format!("share of reads is {} of 1000", self.read_share.0));
        }
        if self.sync.every == 0 {
            return fail("sync every 0 writes has no meaning; use --sync none".to_owned());
        }
        if self.sync.every > 1 && !self.sync.method.is_separate_call() {
            return fail(format!("{} applies to every write, not every N", self.sync.method));
        }
        if self.at_end == AtEnd::Reallocate && self.pattern == Pattern::Random {
            return fail("only a sequential writer reaches the end of its region".to_owned());
        }
        Ok(())
    }

    /// The part of a target of `size` that `job` touches, in whole blocks.
    ///
    /// # Errors
    /// If the part does not hold one block.
    ///
    /// # Panics
    /// If `job` is not below `jobs`.
    pub fn region_of(&self, job: u32, size: Bytes) -> Result<Region, DefinitionError> {
        assert!(job < self.jobs, "job index {job} of {}", self.jobs);
        let (index, shares) = match self.region {
            RegionRule::Shared => (0, 1),
            RegionRule::ShareEach => (u64::from(job), u64::from(self.jobs)),
        };
        let length = Bytes::new(size.get() / shares).rounded_down_to(self.block_size);
        if length == Bytes::ZERO {
            return Err(DefinitionError(format!(
                "a target of {size} does not hold a block of {} for each of {shares} jobs",
                self.block_size
            )));
        }
        Ok(Region { offset: Bytes::new(length.get() * index), length })
    }
}
