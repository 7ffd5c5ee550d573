//! Group commit: many committers hand records to a log, and share its writes and syncs.
//!
//! [`GroupCommit`] is plain data that is saved with every result; `durio-run` carries it out.

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::{DefinitionError, LogWriter, Software};

/// Who runs the committers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitterThreads {
    /// They are virtual clients of the thread that writes the log: waking them costs nothing.
    #[default]
    Multiplexed,
    /// A thread each, which sleeps until its record is acknowledged: a committer that finds no
    /// leader leads, writes and syncs for all that wait, and wakes them.
    OneEach,
}

/// How committers share a log's writes.
///
/// Each committer hands one record to the log and hands over its next when that is acknowledged (or
/// when it arrives, in an open loop). Records that wait when the log is free are one batch: they are
/// written together, made durable by one sync, and acknowledged only after that sync returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCommit {
    /// Committers of each log (of each job), 1 to 65 536.
    pub committers: u32,
    /// Who runs them.
    #[serde(default)]
    pub threads: CommitterThreads,
    /// How long a leader waits for more records before it writes (PostgreSQL's `commit_delay`);
    /// zero for not at all.
    // In a closed loop of virtual committers a delay can only cost time, as all of a batch come
    // back at once: it is measured with a thread each, or in an open loop (docs/design/0007).
    #[serde(rename = "delay_ns", default)]
    pub delay: Nanos,
    /// The leader waits only if at least this many other committers are at work (PostgreSQL's
    /// `commit_siblings`): in a closed loop all of them always are, in an open one those whose
    /// record is not acknowledged yet. As PostgreSQL counts its active transactions, those that
    /// wait for the log already are among them. A batch that is full is not waited with.
    #[serde(default)]
    pub siblings: u32,
    /// The most bytes of records in a batch; further ones wait for the next batch. At least one
    /// record is written whatever its size.
    #[serde(rename = "batch_bytes_max")]
    pub batch_max: Bytes,
    /// Batches are filled up to a multiple of this; zero for not at all. O_DIRECT needs the
    /// logical block size of the device or a multiple of it.
    #[serde(rename = "pad_to_bytes", default)]
    pub pad_to: Bytes,
    /// The last block of `pad_to` bytes is written again until it is full: a batch begins where the records of
    /// the one before end, not where what filled it up ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rewrites_tail: bool,
    /// Records that arrive while a batch is flushed are copied into the next one at once; without
    /// it they are copied when the flush has returned.
    #[serde(default)]
    pub double_buffered: bool,
    /// What the database does itself for each commit; none where the storage alone is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
}

// More threads or places than any database has sessions.
const COMMITTERS_MAX: u32 = 65_536;

// With a thread each: as for jobs.
const THREADS_MAX: u32 = 4096;

// A batch is one write, and that is bounded as a block is.
const BATCH_MAX: Bytes = Bytes::from_mib(64);

// A leader that waits longer than a second is a mistaken unit.
const DELAY_MAX: Nanos = Nanos::from_secs(1);

impl GroupCommit {
    /// The default batch bound: 1 MiB, beyond which larger writes gain little on any storage in the
    /// project's published tables (measure/judge/data/published-results.csv).
    pub const BATCH_MAX_DEFAULT: Bytes = Bytes::from_mib(1);

    /// `committers` on one log, multiplexed, with no delay, padded to 4 KiB, double-buffered.
    #[must_use]
    pub const fn of(committers: u32) -> Self {
        Self {
            committers,
            threads: CommitterThreads::Multiplexed,
            delay: Nanos::ZERO,
            siblings: 0,
            batch_max: Self::BATCH_MAX_DEFAULT,
            pad_to: Bytes::from_kib(4),
            rewrites_tail: false,
            double_buffered: true,
            software: None,
        }
    }

    /// The threads that commit.
    #[must_use]
    pub const fn thread_count(&self) -> u32 {
        match self.threads {
            CommitterThreads::Multiplexed => 1,
            CommitterThreads::OneEach => self.committers,
        }
    }

    /// The largest write of a batch, in bytes: its bound, or a record of every committer if that is
    /// less, filled up; with the block that it begins in, where that is written again.
    #[must_use]
    pub fn write_max(&self, record_max: Bytes) -> Bytes {
        let of_all = record_max.get().saturating_mul(self.committers.into());
        // A record is written whatever its size, so the bound may be less than one.
        let padded = self.padded(Bytes::new(self.batch_max.max(record_max).get().min(of_all)));
        let tail = if self.rewrites_tail { self.pad_to.get() } else { 0 };
        Bytes::new(padded.get().saturating_add(tail))
    }

    /// The bytes that a batch of `bytes` writes: filled up to a multiple of `pad_to`.
    #[inline]
    #[must_use]
    pub fn padded(&self, bytes: Bytes) -> Bytes {
        Bytes::new(match self.pad_to.get() {
            0 => bytes.get(),
            pad => bytes.get().div_ceil(pad).saturating_mul(pad),
        })
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// The first violated bound, as a sentence.
    pub fn validate(&self) -> Result<(), DefinitionError> {
        let fail = |text: String| Err(DefinitionError(text));
        if self.committers == 0 || self.committers > COMMITTERS_MAX {
            let committers = self.committers;
            return fail(format!("committers must be 1 to {COMMITTERS_MAX}, not {committers}"));
        }
        if self.threads == CommitterThreads::OneEach && self.committers > THREADS_MAX {
            return fail(format!(
                "with a thread each there are at most {THREADS_MAX} committers, not {}",
                self.committers
            ));
        }
        if self.batch_max == Bytes::ZERO || self.batch_max > BATCH_MAX {
            return fail(format!("a batch has 1 B to {BATCH_MAX}, not {}", self.batch_max));
        }
        if self.pad_to > BATCH_MAX {
            return fail(format!("batches are filled up to at most {BATCH_MAX}"));
        }
        if self.rewrites_tail && self.pad_to == Bytes::ZERO {
            return fail(
                "a last block that is written again has a size: batches are filled up to it"
                    .to_owned(),
            );
        }
        if self.delay > DELAY_MAX {
            return fail(format!("a commit delay is at most {DELAY_MAX}, not {}", self.delay));
        }
        match self.software {
            Some(_) if self.threads != CommitterThreads::OneEach => fail(
                "what a database does itself takes threads: a thread for each committer".to_owned(),
            ),
            Some(software) if software.writer == LogWriter::Client && self.committers > 1 => {
                fail("where the client writes the log, there is one".to_owned())
            }
            Some(software) => software.validate(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_checked() {
        let good = GroupCommit::of(64);
        good.validate().unwrap();
        let bad = [
            GroupCommit { committers: 0, ..good },
            GroupCommit { committers: COMMITTERS_MAX + 1, ..good },
            GroupCommit { threads: CommitterThreads::OneEach, committers: 5000, ..good },
            GroupCommit { batch_max: Bytes::ZERO, ..good },
            GroupCommit { batch_max: Bytes::from_gib(1), ..good },
            GroupCommit { pad_to: Bytes::from_gib(1), ..good },
            GroupCommit { delay: Nanos::from_secs(2), ..good },
            GroupCommit { rewrites_tail: true, pad_to: Bytes::ZERO, ..good },
        ];
        for policy in bad {
            policy.validate().unwrap_err();
        }
    }

    #[test]
    fn the_largest_write_is_the_bound_filled_up() {
        let policy = GroupCommit { batch_max: Bytes::new(5000), ..GroupCommit::of(64) };
        assert_eq!(policy.write_max(Bytes::new(256)), Bytes::from_kib(8));
        let few = GroupCommit { committers: 3, ..policy };
        assert_eq!(few.write_max(Bytes::new(256)), Bytes::from_kib(4), "one record of each");
        assert_eq!(policy.write_max(Bytes::new(9000)), Bytes::from_kib(12));
        let bare = GroupCommit { pad_to: Bytes::ZERO, ..policy };
        assert_eq!(bare.write_max(Bytes::new(256)), Bytes::new(5000));
        // From the last byte of a block on.
        let tail = GroupCommit { rewrites_tail: true, ..policy };
        assert_eq!(tail.write_max(Bytes::new(256)), Bytes::from_kib(12));
    }
}
