//! What a commit sends to the devices, and what sync calls come to: events of steps that measure
//! nothing.
//!
//! In: nothing; the runner fills them. Out: plain data. Not here: tracing and counting themselves.

use durio_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// One request of a commit, as a device's driver got it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedRequest {
    /// The kernel's name of the device.
    pub device: String,
    /// The kernel's letters (blk_fill_rwbs): FF is a flush, a trailing F is FUA, M is metadata.
    pub flags: String,
    /// Bytes; zero for a flush.
    pub bytes: Bytes,
    /// From the begin of the commit until the driver got it; the median of its commits.
    #[serde(rename = "issued_ns")]
    pub issued: Nanos,
    /// From there to its completion; the median of its commits. None if that was not seen.
    #[serde(rename = "service_ns", default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Nanos>,
}

/// Commits that sent the same requests in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedSequence {
    /// How many commits.
    pub commits: u64,
    /// The requests, in the order in which the drivers got them.
    pub requests: Vec<TracedRequest>,
    /// From the begin of the commit to its end; the median.
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

/// Through whom a sync is called.
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
    /// Through whom.
    pub caller: SyncCaller,
    /// The call: fsync, fdatasync.
    pub call: String,
    /// How often.
    pub calls: u64,
    /// Flushes that the devices below completed meanwhile; none if they do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
    /// Writes that they completed meanwhile.
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
    /// What was called.
    pub calls: Vec<ProbedCalls>,
}
