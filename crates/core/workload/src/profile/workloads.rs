//! Streams of a profile as a [`Workload`] and [`Arrivals`] that do the same, as far as workloads
//! can.

use durio_base::{Bytes, Nanos};

use super::{CachePath, FileHandling, LogProfile, StreamKind, StreamPace, StreamProfile};
use crate::{
    Arrivals, AtEnd, BlockShare, CacheMode, CommitterThreads, GroupCommit, Pattern, PerMille,
    RegionRule, Software, SyncPolicy, Workload,
};

impl LogProfile {
    /// What the log does, by the name `log`. Without group commit a record is a write, filled up to
    /// the padding; with it, batches are filled up.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let grouped = self.group_commit();
        let padding = if grouped.is_some() { Bytes::ZERO } else { self.padding.value };
        let (block_size, block_mix) = sizes(&padded(&self.records.value, padding));
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
            region: RegionRule::default_of(Pattern::Sequential, self.logs.value),
            jobs: self.logs.value,
            sync: SyncPolicy { method: self.sync.value, every: self.sync_every.value },
            cache: mode(self.cache.value),
            at_end: if is_renewed { AtEnd::Reallocate } else { AtEnd::WrapAround },
            group_commit: grouped,
            ..Workload::default()
        }
    }

    /// The log's workload for `clients` clients of a database with this software.
    #[must_use]
    pub fn transactions(&self, clients: u32, software: Software) -> Workload {
        let policy = GroupCommit {
            committers: clients,
            threads: CommitterThreads::OneEach,
            software: Some(software),
            ..self.policy()
        };
        let (block_size, block_mix) = sizes(&self.records.value);
        Workload {
            block_size,
            block_mix,
            at_end: AtEnd::WrapAround,
            group_commit: Some(policy),
            ..self.workload()
        }
    }

    fn group_commit(&self) -> Option<GroupCommit> {
        (self.committers.value > 1 || self.rewrites_tail()).then(|| self.policy())
    }

    /// True if the last block is written again until it is full.
    pub(super) fn rewrites_tail(&self) -> bool {
        self.rewrites_tail.as_ref().is_some_and(|it| it.value)
    }

    fn policy(&self) -> GroupCommit {
        GroupCommit {
            committers: self.committers.value,
            // The result is the storage's then: with a thread each, waking them takes additional
            // time (docs/design/0007).
            threads: CommitterThreads::Multiplexed,
            delay: self.commit_delay.as_ref().map_or(Nanos::ZERO, |it| it.value),
            siblings: self.commit_siblings.as_ref().map_or(0, |it| it.value),
            batch_max: self
                .batch_max
                .as_ref()
                .map_or(GroupCommit::BATCH_MAX_DEFAULT, |it| it.value),
            pad_to: self.padding.value,
            rewrites_tail: self.rewrites_tail(),
            double_buffered: true,
            software: None,
        }
    }

    /// When records come.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        arrivals(self.rate.value, &self.records.value)
    }
}

impl StreamProfile {
    /// What the stream does, by its name.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let (block_size, block_mix) = sizes(&self.sizes.value);
        let writes = self.kind == StreamKind::Write;
        let access = &self.access.value;
        let sync = match (&self.sync, &self.sync_every) {
            (Some(method), Some(every)) if writes => {
                SyncPolicy { method: method.value, every: every.value }
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
            region: RegionRule::default_of(access.pattern, self.jobs.value),
            jobs: self.jobs.value,
            depth: self.depth.value,
            sync,
            cache: mode(self.cache.value),
            ..Workload::default()
        }
    }

    /// When its accesses start.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        arrivals(self.rate.value, &self.sizes.value)
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
