//! The streams of a profile: the log that commits wait for, and what runs at the same time.
//!
//! As they stand in the file, and as a [`Workload`] and [`Arrivals`] that do the same, as far as
//! workloads can.

use std::num::NonZeroU32;

use durio_base::{Bytes, Nanos};
use durio_workload::{
    Arrivals, AtEnd, BlockShare, CacheMode, ClientThreads, CommitterThreads, GroupCommit,
    LogWriter, Pattern, PerMille, RegionRule, Skew, Software, SyncMethod, SyncPolicy, Workload,
};
use serde::Serialize;

use super::SourcedValue;
use super::facts::{FactField, facts_table};
use crate::SpecError;
use crate::table::{Faults, Field, PlacedValue, ReferenceKey, SpecTable, TableEntries};

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
    /// True if a write leaves the file in another state: a second step needs a new file.
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

/// Order in which a stream accesses its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessOrderProfile {
    /// One after the other, or at random.
    pub pattern: Pattern,
    pub skew: Skew,
}

/// Sizes by weight in thousandths, the larger ones after the smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SizesByWeight(pub Vec<BlockShare>);

/// What writes are filled up to a multiple of; zero for not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Padding(pub Bytes);

facts_table! {
    /// The log that commits wait for.
    pub struct LogProfile "[log]" {
        /// One sentence.
        summary: String,
        /// Bytes of a record that a commit hands over, by weight in thousandths.
        records: SourcedValue<SizesByWeight>,
        /// Writes are filled up to a multiple of this; zero for not at all.
        padding: SourcedValue<Padding>,
        /// The last of those is written again until it is full.
        #[serde(skip_serializing_if = "Option::is_none")]
        rewrites_tail: Option<SourcedValue<bool>>,
        /// State of the file.
        file: SourcedValue<FileHandling>,
        /// Bytes of a file or segment; a run may shorten it.
        file_size: SourcedValue<Bytes>,
        /// The way to it.
        cache: SourcedValue<CachePath>,
        /// How a write is made durable.
        sync: SourcedValue<SyncMethod>,
        /// After how many writes.
        sync_every: SourcedValue<NonZeroU32>,
        /// Number of logs written at the same time, each in a separate file.
        logs: SourcedValue<NonZeroU32>,
        /// How many sessions commit to each log; one is a log without group commit.
        committers: SourcedValue<NonZeroU32>,
        /// The most bytes of one batch, with several committers.
        #[serde(skip_serializing_if = "Option::is_none")]
        batch_max: Option<SourcedValue<Bytes>>,
        /// How long a batch waits for more records.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit_delay: Option<SourcedValue<Nanos>>,
        /// It waits only with so many others at work.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit_siblings: Option<SourcedValue<NonZeroU32>>,
        /// How often records come.
        rate: SourcedValue<StreamPace>,
        /// How durio differs from the database, where it cannot do the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        fitting: Option<String>,
    }
}

facts_table! {
    /// What the database does itself for a commit, as [`crate::Software`] has it.
    pub struct SoftwareProfile "[software]" {
        /// Who sends transactions, and by how many threads.
        clients: SourcedValue<ClientThreads>,
        /// Who writes and syncs the log.
        writer: SourcedValue<LogWriter>,
        /// A finished flush wakes all waiters, including those whose records it did not contain.
        wakes_all: SourcedValue<bool>,
        /// How often a batch is written and synced before it is acknowledged; once, if it is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        flushes: Option<SourcedValue<NonZeroU32>>,
        /// The server's threads take turns of at most this, in a queue of their own; the kernel's order, if it
        /// is not said.
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<SourcedValue<Nanos>>,
        /// Processor time of the client for a transaction.
        client: SourcedValue<Nanos>,
        /// Processor time of the server, before the record is handed to the log.
        before: SourcedValue<Nanos>,
        /// Processor time of the server, from the acknowledgement to the answer.
        after: SourcedValue<Nanos>,
        /// Processor time of the log's writer, for each batch.
        batch: SourcedValue<Nanos>,
        /// Processor time of each committer of a flushed batch, before the next one begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        apply: Option<SourcedValue<Nanos>>,
        /// How long a committer yields its processor before it sleeps, if that was worth it before.
        #[serde(skip_serializing_if = "Option::is_none")]
        yields: Option<SourcedValue<Nanos>>,
        /// Processor time of a server thread each time it has slept, until its caches are warm.
        wake: SourcedValue<Nanos>,
    }
}

impl SoftwareProfile {
    /// As it is run.
    pub fn software(&self) -> Software {
        Software {
            clients: self.clients.value,
            writer: self.writer.value,
            wakes_all: self.wakes_all.value,
            flushes: self.flushes.as_ref().map_or(1, |flushes| flushes.value.get()),
            turn: self.turn.as_ref().map(|turn| turn.value),
            client: self.client.value,
            before: self.before.value,
            after: self.after.value,
            batch: self.batch.value,
            apply: self.apply.as_ref().map(|apply| apply.value),
            yields: self.yields.as_ref().map(|yields| yields.value),
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

facts_table! {
    /// A stream that runs beside the log.
    pub struct StreamProfile {
        /// Short name, unlike every other's.
        name: String,
        /// One sentence.
        summary: String,
        /// The list that it is in.
        kind: StreamKind,
        /// Order in which it accesses its file.
        access: SourcedValue<AccessOrderProfile>,
        /// Bytes per access, by weight in thousandths.
        sizes: SourcedValue<SizesByWeight>,
        /// The way to the file.
        cache: SourcedValue<CachePath>,
        /// Workers, each with its own operations in flight.
        jobs: SourcedValue<NonZeroU32>,
        /// Operations that each keeps in flight.
        depth: SourcedValue<NonZeroU32>,
        /// How often it reads or writes.
        rate: SourcedValue<StreamPace>,
        /// How its file is there, for writers; one that is recycled is the data file itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<SourcedValue<FileHandling>>,
        /// How writes are made durable.
        #[serde(skip_serializing_if = "Option::is_none")]
        sync: Option<SourcedValue<SyncMethod>>,
        /// After how many writes.
        #[serde(skip_serializing_if = "Option::is_none")]
        sync_every: Option<SourcedValue<NonZeroU32>>,
        /// True for a part of every commit: it runs also where the log is measured idle.
        #[serde(skip_serializing_if = "Option::is_none")]
        with_every_commit: Option<SourcedValue<bool>>,
        /// How durio differs from the database, where it cannot do the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        fitting: Option<String>,
    }
}

impl StreamProfile {
    /// True if it runs also where the log is measured idle.
    pub fn runs_always(&self) -> bool {
        self.with_every_commit.as_ref().is_some_and(|always| always.value)
    }

    /// How its file is there; readers read the data file.
    pub fn file_handling(&self) -> FileHandling {
        self.file.as_ref().map_or(FileHandling::Recycled, |file| file.value)
    }
}

// More streams than a database runs at once.
const STREAMS_MAX: usize = 64;
/// What `[[write]]` must say and `[[read]]` does not.
const OF_WRITERS: [&str; 3] = ["file", "sync", "sync_every"];

/// A table of `[[read]]` or `[[write]]`.
struct StreamTable<const WRITES: bool>(StreamProfile);

impl<const WRITES: bool> SpecTable for StreamTable<WRITES> {
    const NOUN: &'static str = if WRITES { "[[write]]" } else { "[[read]]" };

    fn read(entries: &TableEntries<'_>, faults: &mut Faults) -> Option<Self> {
        for key in OF_WRITERS.iter().filter(|key| WRITES && entries.item(key).is_none()) {
            faults.add(usize::MAX, entries.missing(key, ""));
        }
        let kind = if WRITES { StreamKind::Write } else { StreamKind::Read };
        StreamProfile::read(entries, faults).map(|stream| Self(StreamProfile { kind, ..stream }))
    }

    fn keys() -> Vec<ReferenceKey> {
        Vec::new()
    }

    fn all_keys() -> Vec<ReferenceKey> {
        Vec::new()
    }

    fn names() -> Vec<&'static str> {
        let mut names = StreamProfile::names();
        names.retain(|key| WRITES || !(OF_WRITERS.contains(key) || *key == "with_every_commit"));
        names
    }
}

/// The tables of `[[read]]`, then those of `[[write]]`.
impl Field for Vec<StreamProfile> {
    fn absent(entries: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        let readers = streams::<false>(entries, "read")?;
        Ok(readers.into_iter().chain(streams::<true>(entries, "write")?).collect())
    }

    fn names(_: &'static str) -> Vec<&'static str> {
        vec!["read", "write"]
    }
}

fn streams<const WRITES: bool>(
    entries: &TableEntries<'_>,
    key: &'static str,
) -> Result<Vec<StreamProfile>, SpecError> {
    let Some(item) = entries.item(key) else { return Ok(Vec::new()) };
    let tables = Vec::<PlacedValue<StreamTable<WRITES>>>::read(item)?;
    if tables.len() > STREAMS_MAX {
        let what = format!("{} streams are more than {STREAMS_MAX}", tables.len());
        return Err(item.source.error(item.at(), what));
    }
    Ok(tables.into_iter().map(|table| table.value.0).collect())
}

/// Not a key: it follows from the list in which the stream stands.
impl Field for StreamKind {
    fn absent(_: &TableEntries<'_>, _: &'static str) -> Result<Self, SpecError> {
        Ok(Self::Read)
    }

    fn names(_: &'static str) -> Vec<&'static str> {
        Vec::new()
    }
}

impl FactField for StreamKind {}

impl LogProfile {
    /// What the log does, by the name `log`. Without group commit a record is a write, filled up to
    /// the padding; with it, batches are filled up.
    pub fn workload(&self) -> Workload {
        let grouped = self.group_commit();
        let padding = if grouped.is_some() { Bytes::ZERO } else { self.padding.value.0 };
        let (block_size, block_mix) = sizes(&padded(&self.records.value.0, padding));
        // A log of writes of one size returns its segments to the unwritten state, as one that
        // moves to its next segment does.
        let is_renewed = self.file.value == FileHandling::Preallocated
            && grouped.is_none()
            && block_mix.is_empty();
        Workload {
            name: "log".to_owned(),
            summary: self.summary.clone(),
            pattern: Pattern::Sequential,
            read_share: PerMille::NONE,
            block_size,
            block_mix,
            region: RegionRule::default_of(Pattern::Sequential, self.logs.value.get()),
            jobs: self.logs.value.get(),
            sync: SyncPolicy { method: self.sync.value, every: self.sync_every.value.get() },
            cache: mode(self.cache.value),
            at_end: if is_renewed { AtEnd::Reallocate } else { AtEnd::WrapAround },
            group_commit: grouped,
            ..Workload::default()
        }
    }

    /// The log's workload for `clients` clients of a database with this software.
    pub fn transactions(&self, clients: u32, software: Software) -> Workload {
        let policy = GroupCommit {
            committers: clients,
            threads: CommitterThreads::OneEach,
            software: Some(software),
            ..self.policy()
        };
        let (block_size, block_mix) = sizes(&self.records.value.0);
        Workload {
            block_size,
            block_mix,
            at_end: AtEnd::WrapAround,
            group_commit: Some(policy),
            ..self.workload()
        }
    }

    fn group_commit(&self) -> Option<GroupCommit> {
        (self.committers.value.get() > 1 || self.rewrites_tail()).then(|| self.policy())
    }

    /// True if the last block is written again until it is full.
    pub(super) fn rewrites_tail(&self) -> bool {
        self.rewrites_tail.as_ref().is_some_and(|tail| tail.value)
    }

    fn policy(&self) -> GroupCommit {
        GroupCommit {
            committers: self.committers.value.get(),
            // The result is the storage's then: with a thread each, waking them takes additional
            // time (docs/design/0007).
            threads: CommitterThreads::Multiplexed,
            delay: self.commit_delay.as_ref().map_or(Nanos::ZERO, |delay| delay.value),
            siblings: self.commit_siblings.as_ref().map_or(0, |siblings| siblings.value.get()),
            batch_max: self
                .batch_max
                .as_ref()
                .map_or(GroupCommit::BATCH_MAX_DEFAULT, |most| most.value),
            pad_to: self.padding.value.0,
            rewrites_tail: self.rewrites_tail(),
            double_buffered: true,
            software: None,
        }
    }

    /// Records of a rate in bytes come at equal distances, of a rate per second at random.
    pub fn arrivals(&self) -> Arrivals {
        arrivals(self.rate.value, &self.records.value.0)
    }
}

impl StreamProfile {
    /// What the stream does, by its name.
    pub fn workload(&self) -> Workload {
        let (block_size, block_mix) = sizes(&self.sizes.value.0);
        let writes = self.kind == StreamKind::Write;
        let access = &self.access.value;
        let sync = match (&self.sync, &self.sync_every) {
            (Some(method), Some(every)) if writes => {
                SyncPolicy { method: method.value, every: every.value.get() }
            }
            _ => SyncPolicy::NONE,
        };
        Workload {
            name: self.name.clone(),
            summary: self.summary.clone(),
            pattern: access.pattern,
            skew: access.skew.clone(),
            read_share: if writes { PerMille::NONE } else { PerMille::ALL },
            block_size,
            block_mix,
            region: RegionRule::default_of(access.pattern, self.jobs.value.get()),
            jobs: self.jobs.value.get(),
            depth: self.depth.value.get(),
            sync,
            cache: mode(self.cache.value),
            ..Workload::default()
        }
    }

    /// When its accesses start.
    pub fn arrivals(&self) -> Arrivals {
        arrivals(self.rate.value, &self.sizes.value.0)
    }
}

// A memory map is read through the page cache.
fn mode(path: CachePath) -> CacheMode {
    match path {
        CachePath::Direct => CacheMode::Direct,
        CachePath::Buffered | CachePath::Mmap => CacheMode::Buffered,
    }
}

fn padded(mix: &[BlockShare], to: Bytes) -> Vec<BlockShare> {
    let up = |size: Bytes| match to.get() {
        0 => size,
        to => Bytes::new(size.get().div_ceil(to).saturating_mul(to)),
    };
    let mut all: Vec<BlockShare> = Vec::new();
    for share in mix {
        let size = up(share.size);
        // Records of two sizes may be filled up to the same write.
        match all.iter_mut().find(|known| known.size == size) {
            Some(known) => known.weight.0 = known.weight.0.saturating_add(share.weight.0),
            None => all.push(BlockShare { size, weight: share.weight }),
        }
    }
    all
}

/// The largest size, and the mix if there are several.
fn sizes(mix: &[BlockShare]) -> (Bytes, Vec<BlockShare>) {
    let largest = mix.iter().map(|share| share.size).max().unwrap_or(Bytes::ZERO);
    match mix {
        [only] if only.weight == PerMille::ALL => (largest, Vec::new()),
        several => (largest, several.to_vec()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes per second far below 2⁵³")]
fn arrivals(pace: StreamPace, mix: &[BlockShare]) -> Arrivals {
    match pace {
        StreamPace::Unlimited => Arrivals::Closed,
        StreamPace::PerSecond(rate_per_second) => Arrivals::Poisson { rate_per_second },
        StreamPace::BytesPerSecond(bytes) => {
            let mean: f64 = mix
                .iter()
                .map(|share| share.size.get() as f64 * f64::from(share.weight.0) / 1000.0)
                .sum();
            Arrivals::Constant { rate_per_second: bytes.get() as f64 / mean }
        }
    }
}
