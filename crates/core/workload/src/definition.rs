//! What a workload is: plain data that is saved with every result.

use std::fmt;

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::blocks::validate_mix;
use crate::{
    BlockShare, CommitterThreads, Contents, GroupCommit, Renewal, Skew, SyncMethod, SyncPolicy,
};

/// The order of offsets within a job's region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Block after block, from the region's start, around at its end.
    Sequential,
    /// Uniform over the region's blocks, independent draws (a block may repeat).
    Random,
}

/// Which part of the target a job may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionRule {
    /// Every job may touch the whole target.
    Shared,
    /// Each job has a separate share: target size / jobs.
    ShareEach,
    /// Job k begins k times this many bytes after the first one; all reach to the end.
    OffsetEach {
        /// Distance between the starts of neighbouring jobs.
        #[serde(rename = "by_bytes")]
        by: Bytes,
    },
}

impl RegionRule {
    /// The default region of jobs on one target. Sequential jobs have a share each: a job behind
    /// another would find every block in a cache, or overwrite a block that was just written.
    pub fn default_of(pattern: Pattern, jobs: u32) -> Self {
        match pattern {
            Pattern::Sequential if jobs > 1 => Self::ShareEach,
            Pattern::Sequential | Pattern::Random => Self::Shared,
        }
    }
}

/// Through or past the page cache. Neither says anything about durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMode {
    /// O_DIRECT.
    Direct,
    /// Through the page cache.
    Buffered,
}

/// What a sequential writer does at the end of its region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// Starts over and overwrites in place, as a recycled log is.
    WrapAround,
    /// Returns the region to the preallocated state (allocated, unwritten) and starts over, as a
    /// log that moves to its next preallocated segment.
    Reallocate,
}

/// In which order random blocks come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// Each draw is independent: a block may come twice before another comes once.
    #[default]
    Independent,
    /// Each block comes once before any comes again, in an order that differs from pass to pass.
    EachOnce,
    /// Each block is jumped to once before any is jumped to again. Accesses that continue after a
    /// jump pass over any block and do not count: fio's map of blocks.
    JumpsOnce,
}

/// A share in thousandths, 0 to 1000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerMille(pub u16);

impl PerMille {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(1000);
}

/// How many of the accesses of a random pattern jump; the others continue where the previous access
/// of their kind, a read or a write, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JumpShares {
    #[serde(rename = "reads_per_mille")]
    pub reads: PerMille,
    #[serde(rename = "writes_per_mille")]
    pub writes: PerMille,
}

/// A part of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its first byte, from the start of the target.
    pub offset: Bytes,
    /// Length; only whole blocks of it are touched.
    pub length: Bytes,
}

/// One workload: which operations, by how many jobs, how durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Short name, as shown in tables.
    pub name: String,
    /// One sentence: the software or access pattern that it models.
    pub summary: String,
    pub pattern: Pattern,
    /// Share of reads among the accesses; the rest are writes.
    #[serde(rename = "read_share_per_mille")]
    pub read_share: PerMille,
    /// Bytes per access; the largest of the mix, where there is one.
    #[serde(rename = "block_size_bytes")]
    pub block_size: Bytes,
    /// Sizes by weight, for reads and writes; empty if all accesses have `block_size`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_mix: Vec<BlockShare>,
    /// Sizes of writes, where they differ from those of reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write_block_mix: Vec<BlockShare>,
    /// Which blocks are hot, with a random pattern.
    #[serde(default, skip_serializing_if = "Skew::is_uniform")]
    pub skew: Skew,
    /// The skew of writes, where it is not that of reads; both have zones then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_skew: Option<Skew>,
    /// In which order random blocks come back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub coverage: Coverage,
    /// With a random pattern: how many blocks follow each other before the next jump.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub run_length: u32,
    /// Reads and writes each continue where the previous access of their kind ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_cursors: bool,
    /// With a random pattern, if some accesses do not jump: how many do. Needs `own_cursors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumps: Option<JumpShares>,
    /// With a random pattern: an access that would continue past the region's end continues at its
    /// start; else it jumps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cursors_wrap: bool,
    /// With a sequential pattern: bytes left out after each block.
    #[serde(rename = "hole_bytes", default, skip_serializing_if = "is_default")]
    pub hole: Bytes,
    /// With independent random draws: offsets are multiples of it, and blocks may overlap; 0 for the
    /// smallest size.
    #[serde(rename = "align_bytes", default, skip_serializing_if = "is_default")]
    pub align: Bytes,
    /// The contents of writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contents: Contents,
    /// How these change from one write to the next.
    #[serde(default = "Renewal::of_old_records")]
    pub renewal: Renewal,
    /// Share of the writes that repeat an earlier one of the same job byte for byte; only where
    /// every other write is new.
    #[serde(rename = "duplicates_per_mille", default, skip_serializing_if = "is_default")]
    pub duplicates: PerMille,
    /// Which part of the target each job touches.
    pub region: RegionRule,
    /// The part of the target that all jobs together touch; all of it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Region>,
    /// Workers, in total; over several targets job k works on target k modulo their number.
    pub jobs: u32,
    /// Operations that each job keeps in flight.
    pub depth: u32,
    /// How writes are made durable.
    pub sync: SyncPolicy,
    /// Through or past the page cache.
    pub cache: CacheMode,
    /// What a sequential writer does at the end of its region.
    pub at_end: AtEnd,
    /// Each job drops the clean pages of its region from the page cache where a further pass over it
    /// begins; with independent draws, when they have moved as much as the region holds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drops_cache_each_pass: bool,
    /// Each job that writes ends with an fsync, which is part of its time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub syncs_at_end: bool,
    /// Each job is a log to which committers hand records of `block_size` (or of the mix); a write
    /// of the job is a batch of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_commit: Option<GroupCommit>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(value: &u32) -> bool {
    *value == 1
}

impl Default for Workload {
    /// Sequential direct reads of 4 KiB by one job, one at a time.
    fn default() -> Self {
        Self {
            name: String::new(),
            summary: String::new(),
            pattern: Pattern::Sequential,
            read_share: PerMille::ALL,
            block_size: Bytes::from_kib(4),
            block_mix: Vec::new(),
            write_block_mix: Vec::new(),
            skew: Skew::Uniform,
            write_skew: None,
            coverage: Coverage::Independent,
            run_length: 1,
            own_cursors: false,
            jumps: None,
            cursors_wrap: false,
            hole: Bytes::ZERO,
            align: Bytes::ZERO,
            contents: Contents::Incompressible,
            // Written bytes are all new unless a definition says otherwise (docs/design/0010).
            renewal: Renewal::EachWrite,
            duplicates: PerMille::NONE,
            region: RegionRule::Shared,
            within: None,
            jobs: 1,
            depth: 1,
            sync: SyncPolicy::NONE,
            cache: CacheMode::Direct,
            at_end: AtEnd::WrapAround,
            drops_cache_each_pass: false,
            syncs_at_end: false,
            group_commit: None,
        }
    }
}

/// Why a definition cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionError(pub String);

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DefinitionError {}

/// The sentence of the first that is so.
fn first_fault(faults: &[(bool, &str)]) -> Result<(), DefinitionError> {
    match faults.iter().find(|(is_so, _)| *is_so) {
        Some((_, what)) => Err(DefinitionError((*what).to_owned())),
        None => Ok(()),
    }
}

// More threads than any machine runs; keeps jobs × depth within 32 bits.
const JOBS_MAX: u32 = 4096;
// The largest ring that io_uring grants (IORING_MAX_ENTRIES in the kernel's io_uring.c).
const DEPTH_MAX: u32 = 32_768;
// The kernel cuts a single read or write at just under 2 GiB (read(2), NOTES); stay well below.
const BLOCK_SIZE_MAX: Bytes = Bytes::from_gib(1);

impl Workload {
    /// True if there is any read.
    pub fn reads(&self) -> bool {
        self.read_share > PerMille::NONE
    }

    /// True if there is any write.
    pub fn writes(&self) -> bool {
        self.read_share < PerMille::ALL
    }

    /// True if every write, or every N-th, is made durable.
    pub fn is_durable(&self) -> bool {
        self.writes() && self.sync.method != SyncMethod::None
    }

    /// True if each single write is made durable before the next: then it is a commit.
    pub fn commits_each_write(&self) -> bool {
        self.is_durable() && self.sync.every == 1
    }

    /// True if the latency of a commit is taken: of each durable write, or of each record that is
    /// handed to a log.
    pub fn has_commits(&self) -> bool {
        self.commits_each_write() || (self.writes() && self.group_commit.is_some())
    }

    /// The largest read or write, in bytes: a block, or a batch of records.
    pub fn transfer_max(&self) -> Bytes {
        self.group_commit.map_or(self.block_size, |policy| policy.write_max(self.block_size))
    }

    /// What the parts of a target that jobs touch are multiples of, in bytes.
    fn region_unit(&self) -> Bytes {
        // Batches begin where the padding of the one before ends.
        let pad_to = self.group_commit.map(|policy| policy.pad_to);
        pad_to.filter(|pad_to| *pad_to > Bytes::ZERO).unwrap_or(self.block_size)
    }

    /// Operations in flight over all jobs.
    pub fn in_flight_max(&self) -> u32 {
        // At most 2^27, by the bounds of both.
        self.jobs * self.depth
    }

    /// Checks every bound that does not depend on the target.
    ///
    /// # Errors
    /// The first violated bound, as a sentence.
    pub fn validate(&self) -> Result<(), DefinitionError> {
        let fail = |text: String| Err(DefinitionError(text));
        let Self { block_size, jobs, depth, read_share, .. } = self;
        if *block_size == Bytes::ZERO || *block_size > BLOCK_SIZE_MAX {
            return fail(format!("block size must be 1 B to {BLOCK_SIZE_MAX}, not {block_size}"));
        }
        if !(1..=JOBS_MAX).contains(jobs) {
            return fail(format!("jobs must be 1 to {JOBS_MAX}, not {jobs}"));
        }
        if !(1..=DEPTH_MAX).contains(depth) {
            return fail(format!("depth must be 1 to {DEPTH_MAX}, not {depth}"));
        }
        if *read_share > PerMille::ALL {
            return fail(format!("share of reads is {} of 1000", read_share.0));
        }
        self.sync.validate(self.depth)?;
        if self.at_end == AtEnd::Reallocate && self.pattern == Pattern::Random {
            return fail("only a sequential writer reaches the end of its region".to_owned());
        }
        self.validate_sizes()?;
        self.validate_order()?;
        self.validate_contents()?;
        self.validate_log()
    }

    fn validate_log(&self) -> Result<(), DefinitionError> {
        let Some(policy) = &self.group_commit else { return Ok(()) };
        policy.validate()?;
        let (method, is_sequential) = (self.sync.method, self.pattern == Pattern::Sequential);
        first_fault(&[
            (
                self.reads() || !is_sequential || self.hole > Bytes::ZERO,
                "committers write to a log, one batch after another",
            ),
            (
                self.depth != 1 || self.sync.every != 1,
                "a log has one batch in flight, and a sync for each",
            ),
            (self.at_end != AtEnd::WrapAround, "a log of batches starts over at its end"),
            (
                method.is_linked() || method == SyncMethod::FileRange,
                "a batch is synced by fsync, by fdatasync or in its write",
            ),
        ])?;
        let threads = u64::from(self.jobs) * u64::from(policy.committers);
        if policy.threads == CommitterThreads::OneEach && threads > u64::from(JOBS_MAX) {
            return Err(DefinitionError(format!(
                "{threads} committers with one thread each exceed {JOBS_MAX}"
            )));
        }
        Ok(())
    }

    fn validate_sizes(&self) -> Result<(), DefinitionError> {
        for mix in [&self.block_mix, &self.write_block_mix] {
            validate_mix(mix, BLOCK_SIZE_MAX)?;
            if let Some(share) = mix.iter().find(|share| share.size > self.block_size) {
                return Err(DefinitionError(format!(
                    "the mix has blocks of {}, larger than the block size {}",
                    share.size, self.block_size
                )));
            }
        }
        let is_segment = self.at_end == AtEnd::Reallocate;
        first_fault(&[
            (is_segment && self.has_mix(), "a log segment is written in blocks of one size"),
            (is_segment && self.own_cursors, "a log segment is written at one position"),
        ])
    }

    fn validate_order(&self) -> Result<(), DefinitionError> {
        self.skew.validate()?;
        let write_skew = self.write_skew.as_ref();
        write_skew.map_or(Ok(()), Skew::validate)?;
        let is_random = self.pattern == Pattern::Random;
        let is_each_once = self.coverage != Coverage::Independent;
        let random_only = self.run_length > 1
            || !self.skew.is_uniform()
            || self.jumps.is_some()
            || self.cursors_wrap
            || is_each_once;
        let has_hot_blocks = !matches!(self.skew, Skew::Uniform | Skew::Zones { .. });
        first_fault(&[
            (
                write_skew.is_some_and(|skew| skew.is_uniform() != self.skew.is_uniform())
                    || write_skew.is_some() && is_each_once,
                "reads and writes with separate zones must be independent draws",
            ),
            (self.run_length == 0, "a run has at least one block"),
            (
                // Aligned blocks may overlap, so they cannot each come once.
                self.align > Bytes::ZERO && (!is_random || is_each_once),
                "an alignment is one of independent random draws",
            ),
            (!is_random && random_only, "runs, jumps, skew and coverage are for random patterns"),
            (
                is_random && self.hole > Bytes::ZERO,
                "holes between blocks are for sequential patterns",
            ),
            (
                is_each_once && has_hot_blocks,
                "blocks that are each accessed once cannot be skewed, except by zones",
            ),
            (
                self.jumps.is_some_and(|jumps| jumps.reads.max(jumps.writes) > PerMille::ALL),
                "a share of jumps is 0 to 1000 thousandths",
            ),
            (
                self.jumps.is_some() && !self.own_cursors,
                "jumps need separate positions for reads and writes",
            ),
        ])
    }

    fn validate_contents(&self) -> Result<(), DefinitionError> {
        let zeros = match self.contents {
            Contents::Compressible { zeros } => zeros,
            _ => PerMille::NONE,
        };
        let has_no_pattern =
            matches!(&self.contents, Contents::Pattern { bytes } if bytes.is_empty());
        first_fault(&[
            (self.duplicates > PerMille::ALL, "a share of duplicates is 0 to 1000 thousandths"),
            (zeros > PerMille::ALL, "a share of zeros is 0 to 1000 thousandths"),
            (has_no_pattern, "a pattern has bytes"),
            (
                self.duplicates > PerMille::NONE && !self.has_new_blocks(),
                "duplicates are a share of the writes that would otherwise be new",
            ),
        ])
    }

    /// True if writes have bytes that no other write has, but for the duplicates asked for.
    pub fn has_new_blocks(&self) -> bool {
        self.renewal == Renewal::EachWrite && self.contents.is_random()
    }

    /// True if accesses are of several sizes.
    pub fn has_mix(&self) -> bool {
        !self.block_mix.is_empty() || !self.write_block_mix.is_empty()
    }

    /// Every size that occurs, each once, ascending.
    pub fn block_sizes(&self) -> Vec<Bytes> {
        let mut sizes: Vec<Bytes> = self.mix(false).iter().map(|share| share.size).collect();
        sizes.extend(self.mix(true).iter().map(|share| share.size));
        // Where only writes have a mix, reads add the single size.
        if sizes.is_empty() || self.mix(false).is_empty() && self.reads() {
            sizes.push(self.block_size);
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The mix of reads or of writes; empty if they are of one size.
    pub(crate) fn mix(&self, writes: bool) -> &[BlockShare] {
        if writes && !self.write_block_mix.is_empty() {
            &self.write_block_mix
        } else {
            &self.block_mix
        }
    }

    /// The part of a target of `size` that the `place`-th of `sharers` jobs on it touches, in whole
    /// blocks.
    ///
    /// # Errors
    /// If the part does not hold one block.
    ///
    /// # Panics
    /// If `place` is not below `sharers`.
    pub fn region_among(
        &self,
        place: u32,
        sharers: u32,
        size: Bytes,
    ) -> Result<Region, DefinitionError> {
        assert!(place < sharers, "job {place} of {sharers}");
        let all = self.confined(size)?;
        let (place, unit) = (u64::from(place), self.region_unit());
        let (offset, length) = match self.region {
            RegionRule::Shared => (0, all.length.get()),
            RegionRule::ShareEach => {
                // The remainder of the division is touched by no job, so that all jobs have as
                // much.
                let share = Bytes::new(all.length.get() / u64::from(sharers));
                let share = share.rounded_down_to(unit).get();
                (share * place, share)
            }
            RegionRule::OffsetEach { by } => {
                let offset = by.rounded_down_to(unit).get().saturating_mul(place);
                (offset, all.length.get().saturating_sub(offset))
            }
        };
        let length = Bytes::new(length).rounded_down_to(unit);
        if length < self.transfer_max() {
            // One block is enough for jobs that share the part.
            let shares = if self.region == RegionRule::Shared { 1 } else { sharers };
            let what = if self.group_commit.is_some() { "batch" } else { "block" };
            return Err(DefinitionError(format!(
                "a target of {size} does not hold a {what} of {} for each of {shares} jobs",
                self.transfer_max()
            )));
        }
        Ok(Region { offset: Bytes::new(all.offset.get() + offset), length })
    }

    /// What all jobs together touch of a target of `size`.
    fn confined(&self, size: Bytes) -> Result<Region, DefinitionError> {
        let Some(within) = self.within else {
            return Ok(Region { offset: Bytes::ZERO, length: size });
        };
        let end = within.offset.get().checked_add(within.length.get());
        if end.is_none_or(|end| end > size.get()) {
            return Err(DefinitionError(format!(
                "a target of {size} ends before {} from {} on",
                within.length, within.offset
            )));
        }
        Ok(within)
    }

    /// The part of a target of `size` that `job` touches, if all jobs work on it.
    ///
    /// # Errors
    /// If the part does not hold one block.
    ///
    /// # Panics
    /// If `job` is not below `jobs`.
    pub fn region_of(&self, job: u32, size: Bytes) -> Result<Region, DefinitionError> {
        self.region_among(job, self.jobs, size)
    }
}

#[cfg(test)]
mod tests;
