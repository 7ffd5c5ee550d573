//! How the accesses of a load reach the kernel: batches, queues that drain, pauses, advice.

use serde::{Deserialize, Serialize};

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

/// A queue that fills up, then drains before it is filled again; else each place is refilled as it
/// is reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainPolicy {
    /// At least this many completions are taken at a time.
    pub take_min: u32,
    /// At most this many.
    pub take_max: u32,
    /// The queue is filled again when no more than this many operations are left in it.
    pub refill_at: u32,
    /// Pauses of the job, for which the queue drains wholly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTime>,
}

/// Pauses of a job between its accesses, in which nothing is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkTime {
    pub length_ns: u64,
    /// A pause follows when this many accesses have completed since the last one began; at least 1.
    pub after: u64,
}

/// When an asynchronous operation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionTime {
    /// When a look for completions first sees it.
    #[default]
    Seen,
    /// When the job takes it from the queue, in which it may have waited for others: fio's.
    Taken,
}

/// Advice to the kernel about the accesses of a load (posix_fadvise).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessAdvice {
    /// POSIX_FADV_RANDOM: no read-ahead.
    Random,
    /// POSIX_FADV_SEQUENTIAL: twice the read-ahead.
    Sequential,
    /// POSIX_FADV_NOREUSE.
    NoReuse,
}
