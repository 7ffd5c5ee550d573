//! What every log has, whoever runs its committers: the queue of records, the place where the next
//! batch goes, and what the batches were.
//!
//! In: a policy, records as they are handed over. Out: which records are a batch, and where it is
//! written. Not here: time, I/O, threads (`measured_loop::log`, `committer_threads`).

mod counts;
mod position;
mod queue;

use durio_units::Bytes;
use durio_workload::{GroupCommit, Region, Workload};

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
    /// The bytes of a record, of the largest size; each is stamped when it is copied.
    pub(crate) template: Box<[u8]>,
}

impl Log {
    /// The log of `workload` in `region`, whose records are cut from `template`; none if it has no
    /// committers. Allocates everything that the log will ever need.
    pub(crate) fn of(workload: &Workload, region: Region, template: Box<[u8]>) -> Option<Self> {
        let policy = workload.group_commit?;
        let committers = policy.committers as usize;
        Some(Self {
            policy,
            queue: LogQueue::new(committers, policy.batch_max.get()),
            counts: BatchCounts::new(committers),
            position: LogPosition::new(region),
            template,
        })
    }

    /// The bytes that a batch with `bytes` of records writes.
    pub(crate) fn padded(&self, bytes: u64) -> u64 {
        self.policy.padded(Bytes::new(bytes)).get()
    }
}

/// Puts a record of `template` at `at` of a batch, unlike every other by its `stamp`.
#[inline]
pub(crate) fn put_record(batch: &mut [u8], at: usize, template: &[u8], stamp: u64) {
    // A batch has room for what joined it, by the write's bound.
    let Some(place) = batch.get_mut(at..at + template.len()) else { return };
    place.copy_from_slice(template);
    crate::measured_loop::stamp_blocks(place, stamp);
}
