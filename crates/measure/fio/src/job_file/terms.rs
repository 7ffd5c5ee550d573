//! The words of option values: patterns, engines, distributions, policies.

/// A value for each kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerDirection<T> {
    pub read: T,
    pub write: T,
    pub trim: T,
}

/// How much: fio's three ways of saying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeValue {
    Bytes(u64),
    /// Percent of the file or device, 0 to 100.
    Percent(u8),
    /// Zones of a zoned device.
    Zones(u32),
}

/// Which kinds of access a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
    /// Reads and writes, mixed.
    Mixed,
}

/// The order of the offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessPattern {
    /// One after another; `skip_bytes` are left out after each access.
    Sequential {
        /// `write:4k`: bytes between accesses; negative goes backwards.
        skip_bytes: i64,
    },
    /// At random offsets, `run` accesses in a row for each.
    Random {
        /// `randread:8`: accesses for each offset that is drawn; 1 without a number.
        run: u32,
    },
}

/// The value of `rw`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadWrite {
    /// Reads, writes, or both.
    pub direction: Direction,
    /// The order of the offsets.
    pub pattern: AccessPattern,
}

/// What the number of `rw=randread:8` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequencer {
    /// Accesses one after another.
    Sequential,
    /// The same offset again.
    Identical,
}

/// A block size and its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizeShare {
    /// Size in bytes, from 1.
    pub bytes: u64,
    /// Percent of accesses, from 1 to 100.
    pub percent: u8,
}

/// `random_distribution`. A center is the place of the hottest offset, 0 to 1 of the region.
#[derive(Debug, Clone, PartialEq)]
pub enum OffsetDistribution {
    /// Every offset is equally likely.
    Uniform,
    /// Zipf's law with exponent `theta`, above 0 and not 1.
    Zipf {
        /// The exponent of the distribution.
        theta: f64,
        /// The place that is hit most, as a share of the file.
        center: Option<f64>,
    },
    /// Pareto's law: `share` of the offsets gets 1 - `share` of the accesses.
    Pareto {
        /// Between 0 and 1.
        share: f64,
        /// The place that is hit most, as a share of the file.
        center: Option<f64>,
    },
    /// Normal, with a deviation in percent of the region.
    Normal {
        /// 0 to below 100.
        deviation_percent: f64,
        /// The place that is hit most, as a share of the file.
        center: Option<f64>,
    },
    /// Zones in percent of the region.
    Zoned(PerDirection<Vec<ZoneShare>>),
    ZonedBytes(PerDirection<Vec<ZoneShare>>),
}

/// A part of the region and its share of accesses, which add up to 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneShare {
    pub access_percent: u8,
    /// Percent of the region, or bytes.
    pub size: u64,
}

/// The value of `file_service_type`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileService {
    /// Which file comes next.
    pub order: FileServiceOrder,
    /// Accesses before the next file, from 1.
    pub accesses: u32,
}

/// Which file comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum FileServiceOrder {
    /// Any of the open files.
    Random,
    /// The next one in turn.
    RoundRobin,
    /// The next one when this one is done.
    Sequential,
    /// Any, some more often.
    Skewed(OffsetDistribution),
}

/// `ioengine`, of those that durio has a counterpart for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioEngine {
    /// read and write at a file position.
    Sync,
    Psync,
    /// readv and writev at a file position, neighbours of one submission joined.
    Vsync,
    Pvsync,
    /// preadv2 and pwritev2, which take flags.
    Pvsync2,
    /// Asynchronous I/O by Linux's io_submit.
    Libaio,
    IoUring,
    Posixaio,
    /// Copies to and from mapped files.
    Mmap,
    /// Nothing is read or written.
    Null,
}

/// The value of `io_submit_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubmitMode {
    /// The job's own thread submits.
    Inline,
    /// Separate threads submit for it.
    Offload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateProcess {
    /// Operations start at even distances.
    Linear,
    /// At random, independent of each other.
    Poisson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomGenerator {
    // tausworthe: random, and a map of touched blocks. durio treats it and tausworthe64 alike: it
    // draws numbers with its own generator.
    Tausworthe,
    /// tausworthe64: the same with 64 bits.
    Tausworthe64,
    /// lfsr: every offset once without a map.
    Lfsr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncOpen {
    /// Durable as usual, by a later sync.
    None,
    Sync,
    Dsync,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallocate {
    /// Files are not allocated before.
    None,
    /// The filesystem's own, else nothing: fio's default.
    Native,
    /// posix_fallocate, which may write zeros.
    Posix,
    /// Beyond the end of the file, which keeps its size.
    Keep,
    /// ftruncate, which leaves a hole.
    Truncate,
}

/// The value of `fadvise_hint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceHint {
    None,
    /// Random or sequential, as the job's accesses are: fio's default.
    Pattern,
    Random,
    Sequential,
    /// Each page is used once.
    NoReuse,
}

/// The value of `exit_what`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitScope {
    /// Jobs of the reporting group.
    Group,
    /// Jobs that run, until the next stonewall.
    Stonewall,
    /// All jobs, even those not started.
    All,
}

/// The value of `cpus_allowed_policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuPolicy {
    /// Each copy may use all.
    Shared,
    /// Each copy gets a different one.
    Split,
}

/// The value of `numa_mem_policy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// The policy of the kernel.
    Default,
    /// The node of the asking thread.
    Local,
    /// This node if possible.
    Prefer(u32),
    /// Memory of these nodes only.
    Bind(Vec<u32>),
    /// These nodes in turn; empty means all nodes with memory.
    Interleave(Vec<u32>),
}
