//! What every log has, whoever runs its committers: the queue of records, the place where the next
//! batch goes, and what the batches were.
//!
//! In: a policy, records as they are handed over. Out: which records are a batch, and where it is
//! written. Not here: time, I/O, threads (`measured_loop::log`, `committer_threads`).

mod counts;
mod position;
mod queue;

use durio_units::Bytes;
use durio_workload::{BlockFiller, GroupCommit, Region, Workload};

pub(crate) use counts::BatchCounts;
pub(crate) use position::LogPosition;
pub(crate) use queue::{LogQueue, Record, Taken};

/// A log before its first record.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) policy: GroupCommit,
    pub(crate) queue: LogQueue,
    pub(crate) counts: BatchCounts,
    pub(crate) position: LogPosition,
}

impl Log {
    /// The log of `workload` in `region`; none if it has no committers. Allocates everything that
    /// the log will ever need.
    pub(crate) fn of(workload: &Workload, region: Region) -> Option<Self> {
        let policy = workload.group_commit?;
        let committers = policy.committers as usize;
        Some(Self {
            policy,
            queue: LogQueue::new(committers, policy.batch_max.get()),
            counts: BatchCounts::new(committers),
            position: LogPosition::new(region),
        })
    }

    /// The bytes that a batch with `bytes` of records writes.
    pub(crate) fn padded(&self, bytes: u64) -> u64 {
        self.policy.padded(Bytes::new(bytes)).get()
    }
}

/// Makes a record of `length` bytes at `at` of a batch: that stands for copying it there, and costs
/// about as much.
#[inline]
pub(crate) fn put_record(batch: &mut [u8], (at, length): (u64, u64), filler: &mut BlockFiller) {
    let as_index = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (at, length) = (as_index(at), as_index(length));
    // A batch has room for what joined it, by the write's bound.
    let Some(place) = batch.get_mut(at..at.saturating_add(length)) else { return };
    filler.fill(place);
}
