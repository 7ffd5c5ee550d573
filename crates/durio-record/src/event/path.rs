//! Where the time of single operations went, as the kernel's tracing shows it: an event of a step that
//! measures nothing.
//!
//! In: nothing; the runner fills it. Out: plain data, operation by operation. Not here: tracing, and
//! medians, which are the analyser's.

use durio_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The parts of an operation's time. At each moment it is in exactly one of them, the first of this
/// order that fits: together they are the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathStretches {
    /// A driver of a lowest device had a request of it (or a lowest device without requests had what
    /// was queued).
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(span: &Nanos) -> bool {
    *span == Nanos::ZERO
}

/// What was queued to one block device during an operation; a write and its flush in one count as
/// both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathIo {
    /// Place of the device in [`PathTraced::devices`].
    pub device: u32,
    /// Reads (bios).
    pub reads: u32,
    /// Their bytes.
    pub read_bytes: Bytes,
    /// Writes (bios) with data.
    pub writes: u32,
    /// Their bytes.
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
    pub spent: PathStretches,
    /// How much of that its thread was on no processor.
    pub off_cpu: PathStretches,
    /// How often the thread left its processor to wait.
    pub waits: u32,
    /// How often the processor was taken from it.
    pub preemptions: u32,
    /// What was queued, per device; devices to which nothing was are absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<PathIo>,
}

/// A block device below the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDevice {
    /// The kernel's name.
    pub name: String,
    /// It stands on no other.
    pub lowest: bool,
    /// Its driver is given requests; else it takes what is queued as it is (zram, brd, md, dm).
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
