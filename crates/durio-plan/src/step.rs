//! One workload over one target, by one engine, for so long.

use std::fmt;

use durio_units::{Bytes, Nanos};
use durio_workload::Workload;
use serde::{Deserialize, Serialize};

/// How operations are submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// No I/O: scripted latencies on a virtual clock.
    Null,
    /// pread and pwrite, preadv2 and pwritev2: each job waits for each operation.
    Sync,
    /// io_uring.
    Uring,
    /// libaio's system calls.
    Aio,
}

impl EngineKind {
    /// Every engine, in the order in which help texts list them.
    pub const ALL: [Self; 4] = [Self::Null, Self::Sync, Self::Uring, Self::Aio];

    /// The name that users write and read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Sync => "sync",
            Self::Uring => "uring",
            Self::Aio => "aio",
        }
    }

    /// True if a job can have more than one operation in flight.
    #[must_use]
    pub const fn is_asynchronous(self) -> bool {
        !matches!(self, Self::Sync)
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many operations a job gathers before it enters the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPolicy {
    /// At most this many completions are taken, and their places refilled, per submission.
    pub submit_max: u32,
}

impl BatchPolicy {
    /// Four: most of what larger batches save in CPU time (docs/benchmarks.md), without letting the
    /// device run dry as they do (docs/design/0002-refill-as-reaped.md).
    pub const DEFAULT: Self = Self { submit_max: 4 };
}

/// Which clock stamps the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockChoice {
    /// The TSC where it is reliable, else CLOCK_MONOTONIC.
    Auto,
    /// The processor's time-stamp counter.
    Tsc,
    /// clock_gettime(CLOCK_MONOTONIC).
    Monotonic,
}

/// When a step ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// After this time; operations in flight are waited for.
    #[serde(rename = "duration_ns")]
    Duration(Nanos),
    /// After this many accesses over all jobs (syncs that follow writes are not counted).
    Operations(u64),
}

/// Whose figures a step gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// durio's own cost per I/O, on the null target.
    SelfCost,
    /// The target's.
    Measure,
}

/// What the null engine answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullScript {
    /// Latencies of successive operations, repeated from the start; at least one.
    #[serde(rename = "latencies_ns")]
    pub latencies: Vec<Nanos>,
    /// The operation (counted from 0, per job) that fails with EIO.
    pub fails_at: Option<u64>,
}

/// One workload over one target, by one engine, for so long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Position in the plan.
    pub index: u32,
    /// Whose figures it gives.
    pub role: Role,
    /// Index of the target in the plan.
    pub target: usize,
    /// Which operations.
    pub workload: Workload,
    /// How they are submitted.
    pub engine: EngineKind,
    /// How many at once.
    pub batch: BatchPolicy,
    /// The null engine's answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<NullScript>,
    /// When it ends, after the ramp.
    pub limit: Limit,
    /// Time at the start that is recorded apart and not part of the figures.
    #[serde(rename = "ramp_ns")]
    pub ramp: Nanos,
    /// Length of the recorded intervals.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// Repetition, from 0.
    pub repeat: u32,
}

impl Step {
    /// The bytes of all buffers of all jobs.
    #[must_use]
    pub fn buffer_bytes(&self) -> Bytes {
        let slots = u64::from(self.workload.in_flight_max());
        Bytes::new(self.workload.block_size.get().saturating_mul(slots))
    }
}
