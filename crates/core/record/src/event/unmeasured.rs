//! Events of steps without a measurement, operation by operation: a commit's requests to the
//! devices, the effect of sync calls, and where the time of single operations went, as the kernel's
//! tracing shows it. The analyser computes medians over operations.

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::step::is_zero;

/// One request of a commit, as a device's driver got it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedRequest {
    /// The kernel's name of the device.
    pub device: String,
    /// The kernel's letters (blk_fill_rwbs): FF is a flush, a trailing F is FUA, M is metadata.
    pub flags: String,
    /// Bytes; zero for a flush.
    pub bytes: Bytes,
    /// From the start of the commit until the driver got it; the median of its commits.
    #[serde(rename = "issued_ns")]
    pub issued: Nanos,
    /// From there to its completion; the median of its commits. None if that was not seen.
    #[serde(rename = "service_ns", default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Nanos>,
}

/// Commits that sent the same requests in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedSequence {
    pub commits: u64,
    /// The requests, in the order in which the drivers got them.
    pub requests: Vec<TracedRequest>,
    /// From the start of the commit to its end; the median.
    #[serde(rename = "commit_ns")]
    pub commit: Nanos,
}

/// A few commits were made while the kernel traced what reached the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitsTraced {
    /// Index of the step in the plan.
    pub step: u32,
    /// The commits that were made.
    pub commits: u64,
    /// What they sent, the most frequent sequence first. Empty if nothing could be traced.
    pub sequences: Vec<TracedSequence>,
    /// Events that the kernel could not keep.
    pub lost: u64,
    /// Why nothing could be traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// The caller of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCaller {
    /// The C library's function, as a database calls it: a preloaded library may have replaced it.
    Library,
    /// The system call itself.
    Kernel,
}

/// Writes, each with a sync, and what reached the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedCalls {
    pub caller: SyncCaller,
    /// The call: fsync, fdatasync.
    pub call: String,
    pub calls: u64,
    /// Flushes that the devices below completed in that time; none if they do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
    /// Writes that they completed in that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
    /// The time of all calls.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// The error that a call gave, which ended them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

/// Sync calls were compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncCallsProbed {
    /// Index of the step in the plan.
    pub step: u32,
    pub calls: Vec<ProbedCalls>,
}

/// The parts of an operation's time. At each moment it is in exactly one of them, the first of this
/// order that fits: together they are the whole.
// A line has hundreds of operations, most of whose components are zero: those are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyComponents {
    /// A driver of a lowest device had a request of the operation (or a lowest device without
    /// requests had its queued I/O).
    #[serde(rename = "device_ns", skip_serializing_if = "is_zero")]
    pub device: Nanos,
    /// Something was queued to a block device and was with no lowest driver: layers such as md, dm and
    /// loop, and the scheduler's queue.
    #[serde(rename = "queued_ns", skip_serializing_if = "is_zero")]
    pub queued: Nanos,
    /// In a system call, before anything was queued; all of a call that queues nothing.
    #[serde(rename = "entry_ns", skip_serializing_if = "is_zero")]
    pub entry: Nanos,
    /// In a system call, after the last thing queued was done.
    #[serde(rename = "exit_ns", skip_serializing_if = "is_zero")]
    pub exit: Nanos,
    /// In a system call, between one thing done and the next queued.
    #[serde(rename = "between_ns", skip_serializing_if = "is_zero")]
    pub between: Nanos,
    /// Outside of system calls: in the program itself.
    #[serde(rename = "program_ns", skip_serializing_if = "is_zero")]
    pub program: Nanos,
}

/// I/O queued to one block device during an operation; a write and its flush in one count as both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathIo {
    /// Place of the device in [`PathTraced::devices`].
    pub device: u32,
    /// Reads (bios).
    pub reads: u32,
    pub read_bytes: Bytes,
    /// Writes (bios) with data.
    pub writes: u32,
    pub written_bytes: Bytes,
    /// Bios that ask for a flush before them.
    pub flushes: u32,
    /// Bios that ask to be durable themselves (FUA).
    pub fua: u32,
}

/// One operation: an access, and the sync calls that follow it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationPath {
    /// Where its time went.
    pub spent: LatencyComponents,
    /// How much of that its thread was on no processor.
    pub off_cpu: LatencyComponents,
    /// How often the thread left its processor to wait.
    pub waits: u32,
    /// How often the processor was taken from it.
    pub preemptions: u32,
    /// Queued I/O per device; devices without any are absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<PathIo>,
}

/// A block device below the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDevice {
    /// The kernel's name.
    pub name: String,
    /// No other device is below it.
    pub lowest: bool,
    /// Its driver is given requests; else it takes queued I/O as it is (zram, brd, md, dm).
    pub requests: bool,
}

/// Operations were made by one job, one at a time, while the kernel traced it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTraced {
    /// Index of the step in the plan.
    pub step: u32,
    /// The clock of the trace, as the kernel names it; empty if nothing was traced.
    pub clock: String,
    /// The smallest difference that it shows.
    #[serde(rename = "resolution_ns")]
    pub resolution: Nanos,
    /// The block devices below the target, top to bottom.
    pub devices: Vec<PathDevice>,
    /// The operations, in order; those of which events were lost are left out.
    pub operations: Vec<OperationPath>,
    /// Service latencies of the same operations without tracing, before and after.
    #[serde(rename = "untraced_service_ns", default)]
    pub untraced: Vec<Nanos>,
    /// Service latencies while the kernel traced.
    #[serde(rename = "traced_service_ns", default)]
    pub traced: Vec<Nanos>,
    /// Events that the kernel could not keep.
    pub lost: u64,
    /// Why nothing could be traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}
