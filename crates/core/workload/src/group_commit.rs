//! Group commit: many committers hand records to a log, and share its writes and syncs; and a
//! database's own work for a commit, in addition to those.
//!
//! [`GroupCommit`] and [`Software`] are plain data that is saved with every result; `durio-run`
//! carries out the one and burns the processor time of the other.

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::DefinitionError;

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
    pub const fn thread_count(&self) -> u32 {
        match self.threads {
            CommitterThreads::Multiplexed => 1,
            CommitterThreads::OneEach => self.committers,
        }
    }

    /// The largest write of a batch, in bytes: its bound, or a record of every committer if that is
    /// less, filled up; with the block that it begins in, where that is written again.
    pub fn write_max(&self, record_max: Bytes) -> Bytes {
        let of_all = record_max.get().saturating_mul(self.committers.into());
        // A record is written whatever its size, so the bound may be less than one.
        let padded = self.padded(Bytes::new(self.batch_max.max(record_max).get().min(of_all)));
        let tail = if self.rewrites_tail { self.pad_to.get() } else { 0 };
        Bytes::new(padded.get().saturating_add(tail))
    }

    /// The bytes that a batch of `bytes` writes: filled up to a multiple of `pad_to`.
    #[inline]
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
                "a last block that is rewritten needs a size, to which batches are padded"
                    .to_owned(),
            );
        }
        if self.delay > DELAY_MAX {
            return fail(format!("a commit delay is at most {DELAY_MAX}, not {}", self.delay));
        }
        match self.software {
            Some(_) if self.threads != CommitterThreads::OneEach => {
                fail("the software of a database needs a thread for each committer".to_owned())
            }
            Some(software) if software.writer == LogWriter::Client && self.committers > 1 => {
                fail("a log written by the client has one committer".to_owned())
            }
            Some(software) => software.validate(),
            None => Ok(()),
        }
    }
}

/// Who sends transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientThreads {
    /// The database is a library: its callers commit.
    Embedded,
    /// One thread, with a connection for each client: it sends the next transaction of each as soon as it
    /// has read the answer.
    One,
    /// A thread for each client, with a separate connection.
    Each,
}

/// Who writes and syncs the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogWriter {
    /// Each client has a thread of the server. A thread that finds the log free writes for all that
    /// wait.
    Committer,
    /// The same threads hand their records to a thread for the log alone.
    LogThread,
    /// One thread serves all clients: it writes for those whose requests it found together.
    EventLoop,
    /// The client that commits, for itself alone. Others would poll for their turn, so there is one.
    Client,
}

/// The threads of a database and of its clients, and the processor time that they take, in time of
/// the processor on which it was measured (docs/method/predict.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    pub clients: ClientThreads,
    /// Who writes the log.
    pub writer: LogWriter,
    /// A flush that ends wakes all that wait, also those whose records it did not have.
    pub wakes_all: bool,
    /// How often a batch is written and synced, one after the other, before it is acknowledged.
    #[serde(default = "once")]
    pub flushes: u32,
    /// The server's threads take turns on the processors, each at most this long, in the order in
    /// which they became ready, as a built-in scheduler gives them (Go's): not even a flush that
    /// ends overtakes. None if that is left to the kernel.
    #[serde(default, rename = "turn_ns", skip_serializing_if = "Option::is_none")]
    pub turn: Option<Nanos>,
    /// Time of the client, between an answer and its next transaction.
    #[serde(rename = "client_ns")]
    pub client: Nanos,
    /// Time of the server, before the record is handed to the log.
    #[serde(rename = "before_ns")]
    pub before: Nanos,
    /// Time of the server, from the acknowledgement to the answer.
    #[serde(rename = "after_ns")]
    pub after: Nanos,
    /// Time of the log's writer for each batch: others wait for it.
    #[serde(rename = "batch_ns")]
    pub batch: Nanos,
    /// Time of each committer of a flushed batch; none if they have no part in it. The batch ends,
    /// and the next starts, when the last of them has taken it.
    #[serde(default, rename = "apply_ns", skip_serializing_if = "Option::is_none")]
    pub apply: Option<Nanos>,
    /// Before a committer sleeps, it yields its processor for this long, if that was worth it
    /// before; none if it sleeps at once.
    #[serde(default, rename = "yields_ns", skip_serializing_if = "Option::is_none")]
    pub yields: Option<Nanos>,
    /// Time of a server thread each time it has slept, until its caches are warm again.
    #[serde(rename = "wake_ns")]
    pub wake: Nanos,
}

/// More files than any database syncs for a commit.
const FLUSHES_MAX: u32 = 16;

const fn once() -> u32 {
    1
}

// The storage does not limit the rate of a transaction that computes longer.
const TIME_MAX: Nanos = Nanos::from_secs(1);

impl Software {
    /// Checks every bound.
    ///
    /// # Errors
    /// The first violated bound, as a sentence.
    pub fn validate(&self) -> Result<(), DefinitionError> {
        let fail = |text: &str| Err(DefinitionError(text.to_owned()));
        if [self.client, self.before, self.after, self.batch, self.wake]
            .iter()
            .chain(&self.apply)
            .chain(&self.turn)
            .chain(&self.yields)
            .any(|time| *time > TIME_MAX)
        {
            return fail("processor time of a transaction is at most a second");
        }
        if self.flushes == 0 || self.flushes > FLUSHES_MAX {
            return Err(DefinitionError(format!(
                "a batch is written and synced 1 to {FLUSHES_MAX} times, not {}",
                self.flushes
            )));
        }
        let is_embedded = self.clients == ClientThreads::Embedded;
        if is_embedded && self.writer == LogWriter::EventLoop {
            return fail("an event loop has its own clients: it cannot be embedded");
        }
        if is_embedded && self.client > Nanos::ZERO {
            return fail("an embedded database has no client: its callers' time is 'before'");
        }
        if self.apply.is_some() && self.writer != LogWriter::Committer {
            return fail("only committers that write the log take part in the end of a batch");
        }
        if self.yields.is_some() && self.writer != LogWriter::Committer {
            return fail("only committers that write the log yield before they sleep");
        }
        if self.turn == Some(Nanos::ZERO) {
            return fail("a turn must be longer than 0");
        }
        if self.turn.is_some() && self.writer != LogWriter::LogThread {
            return fail("turns are for a log with a separate writer thread");
        }
        if !is_embedded && self.writer == LogWriter::Client {
            return fail("where the client writes the log, the database is embedded in it");
        }
        Ok(())
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
    fn each_bound_is_itself_permitted_and_the_next_is_not() {
        let good = GroupCommit::of(64);
        let each = CommitterThreads::OneEach;
        let mib = |count: u64| Bytes::new(count << 20);
        let past = |bytes: Bytes| Bytes::new(bytes.get() + 1);
        let second = Nanos::new(1_000_000_000);
        let rows = [
            (GroupCommit { committers: 1, ..good }, true),
            (GroupCommit { committers: 65_536, ..good }, true),
            (GroupCommit { committers: 65_537, ..good }, false),
            (GroupCommit { threads: each, committers: 4096, ..good }, true),
            (GroupCommit { threads: each, committers: 4097, ..good }, false),
            (GroupCommit { batch_max: Bytes::new(1), ..good }, true),
            (GroupCommit { batch_max: mib(64), ..good }, true),
            (GroupCommit { batch_max: past(mib(64)), ..good }, false),
            (GroupCommit { pad_to: mib(64), ..good }, true),
            (GroupCommit { pad_to: past(mib(64)), ..good }, false),
            (GroupCommit { delay: second, ..good }, true),
            (GroupCommit { delay: Nanos::new(1_000_000_001), ..good }, false),
            (GroupCommit { rewrites_tail: true, pad_to: Bytes::new(1), ..good }, true),
        ];
        for (policy, is_permitted) in rows {
            assert_eq!(policy.validate().is_ok(), is_permitted, "{policy:?}");
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

    #[test]
    fn contradictions_and_bounds_are_refused() {
        let good = Software {
            clients: ClientThreads::One,
            writer: LogWriter::Committer,
            wakes_all: true,
            flushes: 1,
            turn: None,
            client: Nanos::from_micros(2),
            before: Nanos::from_micros(10),
            after: Nanos::ZERO,
            batch: Nanos::ZERO,
            apply: None,
            yields: None,
            wake: Nanos::ZERO,
        };
        good.validate().unwrap();
        let embedded = Software { clients: ClientThreads::Embedded, ..good };
        embedded.validate().unwrap_err();
        let embedded = Software { client: Nanos::ZERO, ..embedded };
        embedded.validate().unwrap();
        Software { writer: LogWriter::EventLoop, ..embedded }.validate().unwrap_err();
        Software { writer: LogWriter::Client, ..embedded }.validate().unwrap();
        Software { writer: LogWriter::Client, ..good }.validate().unwrap_err();
        Software { before: Nanos::from_secs(2), ..good }.validate().unwrap_err();
        let apply = Some(Nanos::ZERO);
        Software { apply, ..good }.validate().unwrap();
        Software { apply, writer: LogWriter::LogThread, ..good }.validate().unwrap_err();
        Software { apply: Some(Nanos::from_secs(2)), ..good }.validate().unwrap_err();
        let yields = Some(Nanos::from_micros(100));
        Software { yields, ..good }.validate().unwrap();
        Software { yields, writer: LogWriter::LogThread, ..good }.validate().unwrap_err();
        let turns = Software { turn: Some(Nanos::new(1)), writer: LogWriter::LogThread, ..good };
        turns.validate().unwrap();
        Software { turn: Some(Nanos::ZERO), ..turns }.validate().unwrap_err();
        Software { writer: LogWriter::Committer, ..turns }.validate().unwrap_err();
        Software { flushes: 0, ..good }.validate().unwrap_err();
        Software { flushes: 17, ..good }.validate().unwrap_err();
        Software { flushes: 16, ..good }.validate().unwrap();
        let second = Nanos::from_secs(1);
        let past = Nanos::new(second.get() + 1);
        let times: [fn(&mut Software, Nanos); 7] = [
            |software, time| software.client = time,
            |software, time| software.before = time,
            |software, time| software.after = time,
            |software, time| software.batch = time,
            |software, time| software.wake = time,
            |software, time| software.apply = Some(time),
            |software, time| software.yields = Some(time),
        ];
        for (place, set) in times.into_iter().enumerate() {
            let fits = |time| {
                let mut software = good;
                set(&mut software, time);
                software.validate().is_ok()
            };
            assert!(fits(second) && !fits(past), "time {place}");
        }
        let turn = |time| Software { turn: Some(time), ..turns }.validate().is_ok();
        assert!(turn(second) && !turn(past));
        // With its commits: software takes a thread for each committer, and a client that writes is alone.
        let of = |writer, threads, committers| {
            let software = Some(Software { writer, ..embedded });
            GroupCommit { threads, software, ..GroupCommit::of(committers) }.validate().is_ok()
        };
        let (each, shared) = (CommitterThreads::OneEach, CommitterThreads::Multiplexed);
        assert!(of(LogWriter::Committer, each, 2) && !of(LogWriter::Committer, shared, 2));
        assert!(of(LogWriter::Client, each, 1) && !of(LogWriter::Client, each, 2));
    }
}
