//! The streams of a profile: the log that commits wait for, and what runs at the same time.

use durio_units::{Bytes, Nanos};
use serde::Serialize;

use super::Sourced;
use crate::{BlockShare, Pattern, Skew, SyncMethod};

/// How a file is there before it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileHandling {
    /// It is empty and grows by what is appended.
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

    /// True if what was written once is another state than before: a second step needs a new file.
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
pub enum Pace {
    /// As fast as the storage answers.
    Unlimited,
    /// So many accesses per second, all jobs together.
    PerSecond(f64),
    /// So many bytes per second, all jobs together.
    BytesPerSecond(Bytes),
}

/// In which order blocks are touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Access {
    /// One after the other, or at random.
    pub pattern: Pattern,
    /// Which are hot.
    pub skew: Skew,
}

/// The log that commits wait for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogProfile {
    /// One sentence.
    pub summary: String,
    /// Bytes of a record that a commit hands over, by weight in thousandths.
    pub records: Sourced<Vec<BlockShare>>,
    /// Writes are filled up to a multiple of this; zero for not at all.
    pub padding: Sourced<Bytes>,
    /// How the file is there.
    pub file: Sourced<FileHandling>,
    /// Bytes of a file or segment; a run may shorten it.
    pub file_size: Sourced<Bytes>,
    /// The way to it.
    pub cache: Sourced<CachePath>,
    /// How a write is made durable.
    pub sync: Sourced<SyncMethod>,
    /// After how many writes.
    pub sync_every: Sourced<u32>,
    /// How many logs are written at the same time, each a file of its own.
    pub logs: Sourced<u32>,
    /// How many sessions commit to each log; one is a log without group commit.
    pub committers: Sourced<u32>,
    /// The most bytes of one batch, with several committers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_max: Option<Sourced<Bytes>>,
    /// How long a batch waits for more records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_delay: Option<Sourced<Nanos>>,
    /// It waits only with so many others at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_siblings: Option<Sourced<u32>>,
    /// How often records come.
    pub rate: Sourced<Pace>,
    /// What is done otherwise than by the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitting: Option<String>,
}

/// What a stream beside the log does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// A stream that runs beside the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamProfile {
    /// Short name, unlike every other's.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// What it does.
    pub kind: StreamKind,
    /// In which order.
    pub access: Sourced<Access>,
    /// Bytes per access, by weight in thousandths.
    pub sizes: Sourced<Vec<BlockShare>>,
    /// The way to the file.
    pub cache: Sourced<CachePath>,
    /// Workers.
    pub jobs: Sourced<u32>,
    /// Operations that each keeps in flight.
    pub depth: Sourced<u32>,
    /// How often.
    pub rate: Sourced<Pace>,
    /// How its file is there, for writers; one that is recycled is the data file itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Sourced<FileHandling>>,
    /// How writes are made durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sourced<SyncMethod>>,
    /// After how many writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_every: Option<Sourced<u32>>,
    /// True for a part of every commit: it runs also where the log is measured idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_every_commit: Option<Sourced<bool>>,
    /// What is done otherwise than by the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitting: Option<String>,
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
