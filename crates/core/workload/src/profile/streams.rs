//! The streams of a profile: the log that commits wait for, and what runs at the same time.

use durio_base::{Bytes, Nanos};
use serde::Serialize;

use super::SourcedValue;
use super::table::table;
use super::values::{
    access, bytes, cache, client_threads, count, file, flag, log_writer, mix, pace, padding, sync,
    text, time,
};
use crate::{BlockShare, ClientThreads, LogWriter, Pattern, Skew, Software, SyncMethod};

/// How a file is there before it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileHandling {
    /// It is empty and grows by appends.
    Extend,
    /// Allocated with fallocate, unwritten.
    Preallocated,
    /// Filled with zeros before it is used.
    ZeroFilled,
    /// It holds old contents, which are overwritten in place.
    Recycled,
}

impl FileHandling {
    /// Every way, with its word in files.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("extend", Self::Extend),
        ("preallocated", Self::Preallocated),
        ("zero-filled", Self::ZeroFilled),
        ("recycled", Self::Recycled),
    ];

    /// True if a write leaves the file in another state: a second step needs a new file.
    #[must_use]
    pub const fn is_used_up(self) -> bool {
        matches!(self, Self::Extend | Self::Preallocated)
    }
}

/// The way to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePath {
    /// O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered,
    /// Through a memory map; durio reads through the page cache instead, and says so.
    Mmap,
}

impl CachePath {
    /// Every way, with its word in files.
    pub const WORDS: [(&'static str, Self); 3] =
        [("direct", Self::Direct), ("buffered", Self::Buffered), ("mmap", Self::Mmap)];
}

/// How often something is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPace {
    /// As fast as the storage answers.
    Unlimited,
    /// Accesses per second, all jobs together.
    PerSecond(f64),
    /// Bytes per second, all jobs together.
    BytesPerSecond(Bytes),
}

/// In which order blocks are touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessOrderProfile {
    /// One after the other, or at random.
    pub pattern: Pattern,
    /// Which are hot.
    pub skew: Skew,
}

table! {
    /// The log that commits wait for.
    struct LogProfile {
        /// One sentence.
        summary: String = plain_needed(text),
        /// Bytes of a record that a commit hands over, by weight in thousandths.
        records: SourcedValue<Vec<BlockShare>> = fact_needed(mix),
        /// Writes are filled up to a multiple of this; zero for not at all.
        padding: SourcedValue<Bytes> = fact_needed(padding),
        /// The last of those is written again until it is full.
        #[serde(skip_serializing_if = "Option::is_none")]
        rewrites_tail: Option<SourcedValue<bool>> = fact(flag),
        /// How the file is there.
        file: SourcedValue<FileHandling> = fact_needed(file),
        /// Bytes of a file or segment; a run may shorten it.
        file_size: SourcedValue<Bytes> = fact_needed(bytes),
        /// The way to it.
        cache: SourcedValue<CachePath> = fact_needed(cache),
        /// How a write is made durable.
        sync: SourcedValue<SyncMethod> = fact_needed(sync),
        /// After how many writes.
        sync_every: SourcedValue<u32> = fact_needed(count),
        /// How many logs are written at the same time, each a file of its own.
        logs: SourcedValue<u32> = fact_needed(count),
        /// How many sessions commit to each log; one is a log without group commit.
        committers: SourcedValue<u32> = fact_needed(count),
        /// The most bytes of one batch, with several committers.
        #[serde(skip_serializing_if = "Option::is_none")]
        batch_max: Option<SourcedValue<Bytes>> = fact(bytes),
        /// How long a batch waits for more records.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit_delay: Option<SourcedValue<Nanos>> = fact(time),
        /// It waits only with so many others at work.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit_siblings: Option<SourcedValue<u32>> = fact(count),
        /// How often records come.
        rate: SourcedValue<StreamPace> = fact_needed(pace),
        /// What is done otherwise than by the database.
        #[serde(skip_serializing_if = "Option::is_none")]
        fitting: Option<String> = plain(text),
    }
}

table! {
    /// What the database does itself for a commit, as [`crate::Software`] has it.
    struct SoftwareProfile {
        /// Who sends transactions.
        clients: SourcedValue<ClientThreads> = fact_needed(client_threads),
        /// Who writes and syncs the log.
        writer: SourcedValue<LogWriter> = fact_needed(log_writer),
        /// A flush that ends wakes all that wait, also those whose records it did not have.
        wakes_all: SourcedValue<bool> = fact_needed(flag),
        /// How often a batch is written and synced before it is acknowledged; once, if it is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        flushes: Option<SourcedValue<u32>> = fact(count),
        /// The server's threads take turns of at most this, in a queue of their own; the kernel's order, if it
        /// is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<SourcedValue<Nanos>> = fact(time),
        /// Processor time of the client for a transaction.
        client: SourcedValue<Nanos> = fact_needed(time),
        /// Of the server, before the record is handed to the log.
        before: SourcedValue<Nanos> = fact_needed(time),
        /// Of the server, from the acknowledgement to the answer.
        after: SourcedValue<Nanos> = fact_needed(time),
        /// Of whoever writes the log, for each batch.
        batch: SourcedValue<Nanos> = fact_needed(time),
        /// Of each committer of a batch that is flushed, before the next one begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        apply: Option<SourcedValue<Nanos>> = fact(time),
        /// For so long a committer yields its processor before it sleeps, if that was worth it before.
        #[serde(skip_serializing_if = "Option::is_none")]
        yields: Option<SourcedValue<Nanos>> = fact(time),
        /// Of a thread of the server each time it has slept.
        wake: SourcedValue<Nanos> = fact_needed(time),
    }
}

impl SoftwareProfile {
    /// As it is run.
    #[must_use]
    pub fn software(&self) -> Software {
        Software {
            clients: self.clients.value,
            writer: self.writer.value,
            wakes_all: self.wakes_all.value,
            flushes: self.flushes.as_ref().map_or(1, |it| it.value),
            turn: self.turn.as_ref().map(|it| it.value),
            client: self.client.value,
            before: self.before.value,
            after: self.after.value,
            batch: self.batch.value,
            apply: self.apply.as_ref().map(|it| it.value),
            yields: self.yields.as_ref().map(|it| it.value),
            wake: self.wake.value,
        }
    }

    /// Its processor times by their keys; not how long it yields or a turn lasts, which are rules.
    pub(super) fn times(&self) -> Vec<(&'static str, Nanos)> {
        let times = [
            ("client", Some(&self.client)),
            ("before", Some(&self.before)),
            ("after", Some(&self.after)),
            ("batch", Some(&self.batch)),
            ("apply", self.apply.as_ref()),
            ("wake", Some(&self.wake)),
        ];
        times.into_iter().filter_map(|(key, time)| Some((key, time?.value))).collect()
    }
}

/// The kind of a stream next to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    Read,
    Write,
}

table! {
    /// A stream that runs beside the log.
    struct StreamProfile {
        /// Short name, unlike every other's.
        name: String = plain_needed(text),
        /// One sentence.
        summary: String = plain_needed(text),
        kind: StreamKind = stream_kind() of [],
        /// In which order.
        access: SourcedValue<AccessOrderProfile> = fact_needed(access),
        /// Bytes per access, by weight in thousandths.
        sizes: SourcedValue<Vec<BlockShare>> = fact_needed(mix),
        /// The way to the file.
        cache: SourcedValue<CachePath> = fact_needed(cache),
        /// Workers.
        jobs: SourcedValue<u32> = fact_needed(count),
        /// Operations that each keeps in flight.
        depth: SourcedValue<u32> = fact_needed(count),
        rate: SourcedValue<StreamPace> = fact_needed(pace),
        /// How its file is there, for writers; one that is recycled is the data file itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<SourcedValue<FileHandling>> = fact(file),
        /// How writes are made durable.
        #[serde(skip_serializing_if = "Option::is_none")]
        sync: Option<SourcedValue<SyncMethod>> = fact(sync),
        /// After how many writes.
        #[serde(skip_serializing_if = "Option::is_none")]
        sync_every: Option<SourcedValue<u32>> = fact(count),
        /// True for a part of every commit: it runs also where the log is measured idle.
        #[serde(skip_serializing_if = "Option::is_none")]
        with_every_commit: Option<SourcedValue<bool>> = fact(flag),
        /// What is done otherwise than by the database.
        #[serde(skip_serializing_if = "Option::is_none")]
        fitting: Option<String> = plain(text),
    }
}

impl StreamProfile {
    /// True if it runs also where the log is measured idle.
    #[must_use]
    pub fn runs_always(&self) -> bool {
        self.with_every_commit.as_ref().is_some_and(|it| it.value)
    }

    /// How its file is there; readers read the data file.
    #[must_use]
    pub fn file_handling(&self) -> FileHandling {
        self.file.as_ref().map_or(FileHandling::Recycled, |it| it.value)
    }
}
