//! Where the time of an operation goes on its way through the layers.
//!
//! In: nothing; plain data that a trace and the processes' counters give. Out: the same, in the
//! rows. Not here: tracing.

use serde::{Deserialize, Serialize};

/// A part of an operation's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathPart {
    /// From the entry into the system call to the block queue: filesystem and RAID.
    EntryToQueue,
    /// From the queue to the device.
    QueueToIssue,
    /// In the device.
    IssueToComplete,
    /// From the device's completion to the exit of the system call.
    CompleteToExit,
}

impl PathPart {
    /// As readers know it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::EntryToQueue => "entry to queue",
            Self::QueueToIssue => "queue to issue",
            Self::IssueToComplete => "issue to complete",
            Self::CompleteToExit => "complete to exit",
        }
    }
}

/// How long a part took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeSlice {
    /// Which part.
    pub part: PathPart,
    /// Mean over the operations that were traced.
    pub mean_ns: f64,
}

/// The parts of an operation's time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeSlices {
    /// Operations that were traced.
    pub operations: u64,
    /// The parts, in the order in which they follow each other; those that could be seen.
    pub slices: Vec<TimeSlice>,
    /// Mean time per operation with its thread on a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_cpu_ns: Option<f64>,
    /// Mean time per operation with its thread asleep or waiting for a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_cpu_ns: Option<f64>,
}

/// What was seen of a workload's way through one point, beside its findings.
#[derive(Debug, Clone, PartialEq)]
pub struct PathFacts {
    /// Name of the workload; of a ladder, all its steps have the same.
    pub workload: String,
    /// Levels in words ([`durio_plan::Level::words`]); empty to mean every step of that name.
    pub levels: Vec<String>,
    /// Voluntary context switches of the jobs per operation.
    pub context_switches_per_operation: Option<f64>,
    /// Where the time went.
    pub time_slices: Option<TimeSlices>,
}
