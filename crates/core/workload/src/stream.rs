//! A job's endless, seeded sequence of accesses.

use durio_base::{Bytes, OperationKind};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::block_filler::spread;
use crate::file_order::{FileOrder, FileTurns};
use crate::varied::VariedAccesses;
use crate::{AtEnd, Coverage, Pattern, Region, SyncMethod, Workload};

/// One access: kind, place and length. File, offset and length are zero for syncs; a caller that
/// knows the write before a sync gives the sync the file of the write, and a `SyncFileRange` its
/// range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    pub kind: OperationKind,
    /// Nothing for an engine, and of no kind: a pass over this region begins, and its clean pages
    /// are dropped first.
    pub drops_cache: bool,
    /// Which of the files of the job, from 0.
    pub file: u32,
    /// First byte within the target.
    pub offset: u64,
    /// Bytes of the block.
    pub length: u64,
}

/// The seed of one job, from the plan's seed and the positions of step and job.
///
/// Neighbouring inputs give unrelated seeds.
pub fn job_seed(plan_seed: u64, step: u64, job: u64) -> u64 {
    spread(
        plan_seed
            .wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_add(job.wrapping_mul(0xD1B5_4A32_D192_ED03))
            .wrapping_add(0x9E37_79B9_7F4A_7C15),
    )
}

/// How the next access is found: blocks of one size have short ways.
#[derive(Debug)]
enum AccessOrder {
    Sequential,
    Random,
    Other(Box<OtherOrder>),
}

#[derive(Debug)]
struct OtherOrder {
    kind: OtherKind,
    /// The last one that was given. It lives here, and not in what a call returns, so that those of
    /// the short ways need not be in memory.
    access: Access,
}

#[derive(Debug)]
enum OtherKind {
    Varied(VariedAccesses),
    /// The accesses of each of several files, and whose turn it is.
    Files {
        files: Box<[Stream]>,
        turns: FileTurns,
    },
}

impl AccessOrder {
    fn of(workload: &Workload, region: Region, seed: u64) -> Self {
        match workload.pattern {
            _ if VariedAccesses::describes(workload) => {
                Self::other(OtherKind::Varied(VariedAccesses::new(workload, region, seed)))
            }
            Pattern::Sequential => Self::Sequential,
            Pattern::Random => Self::Random,
        }
    }

    fn other(kind: OtherKind) -> Self {
        Self::Other(Box::new(OtherOrder { kind, access: of_file(OperationKind::Read) }))
    }
}

impl OtherOrder {
    /// Apart from the short ways, which stay as short as they are, and are asked for first.
    #[cold]
    fn next(&mut self, random: &mut Xoshiro256PlusPlus, read_threshold: u64) -> &Access {
        self.access = match &mut self.kind {
            OtherKind::Varied(varied) => varied.next(random, read_threshold),
            OtherKind::Files { files, turns } => {
                let access = next_of(files, turns.next(random));
                // The pass that the file is to begin has an access in this very turn.
                if access.drops_cache {
                    turns.keep();
                }
                access
            }
        };
        &self.access
    }
}

/// The accesses of one job.
///
/// [`Stream::next_access`] gives the next block; [`Stream::follow_up`] says what must come after
/// a completed write before its place in the queue is free again.
#[derive(Debug)]
pub struct Stream {
    random: Xoshiro256PlusPlus,
    order: AccessOrder,
    at_end: AtEnd,
    drops_cache: bool,
    /// Below this threshold of 32 random bits an access is a read; 2³² means always.
    read_threshold: u64,
    block_size: u64,
    block_count: u64,
    region: Region,
    next_block: u64,
    sync: Option<OperationKind>,
    sync_every: u32,
    writes_since_sync: u32,
}

impl Stream {
    /// The stream of `workload` over `region`.
    ///
    /// # Panics
    /// If the region holds no block: [`Workload::region_of`] gives only regions that do.
    pub fn new(workload: &Workload, region: Region, seed: u64) -> Self {
        let block_count = region.length.get() / workload.block_size.get();
        assert!(block_count > 0, "region {region:?} holds no block of {}", workload.block_size);
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            order: AccessOrder::of(workload, region, seed),
            at_end: workload.at_end,
            drops_cache: workload.drops_cache_each_pass,
            read_threshold: (u64::from(workload.read_share.0) << 32) / 1000,
            block_size: workload.block_size.get(),
            block_count,
            region,
            next_block: 0,
            sync: match workload.sync.method {
                SyncMethod::Fsync => Some(OperationKind::Fsync),
                SyncMethod::Fdatasync => Some(OperationKind::Fdatasync),
                SyncMethod::FileRange => Some(OperationKind::SyncFileRange),
                // The others are in the write, or linked to it.
                _ => None,
            },
            sync_every: workload.sync.every,
            writes_since_sync: 0,
        }
    }

    /// The stream of a job over several files: `order` says whose turn it is, and each has its own
    /// order over the same region. For one file it is that of [`Stream::new`].
    ///
    /// # Panics
    /// As [`Stream::new`].
    pub fn over_files(
        workload: &Workload,
        region: Region,
        seed: u64,
        (files, order): (u32, FileOrder),
    ) -> Self {
        let stream = Self::new(workload, region, seed);
        if files <= 1 {
            return stream;
        }
        // Separate seeds, or all files would be accessed in one order.
        let of_file = |file: u32| Self::new(workload, region, job_seed(seed, 0, file.into()));
        let files: Box<[Self]> = (0..files).map(of_file).collect();
        // Blocks that are drawn again and again never come to an end.
        let is_free =
            workload.pattern == Pattern::Random && workload.coverage == Coverage::Independent;
        let each = (!is_free).then_some(stream.block_count);
        let turns = FileTurns::new(order, files.len(), each);
        Self { order: AccessOrder::other(OtherKind::Files { files, turns }), ..stream }
    }

    /// True if a pass over the region needs preparation at its start: the region is returned to the
    /// preallocated state, or its cached pages are dropped.
    pub fn has_passes(&self) -> bool {
        self.at_end == AtEnd::Reallocate || self.drops_cache
    }

    /// The next access; never a sync. One that drops the cache is for the caller to do, and the
    /// next access follows it.
    #[inline(always)]
    pub fn next_access(&mut self) -> Access {
        match &mut self.order {
            AccessOrder::Random => self.next_random(),
            AccessOrder::Sequential => self.next_sequential(),
            AccessOrder::Other(order) => *order.next(&mut self.random, self.read_threshold),
        }
    }

    /// What the place in the queue that completed `kind` must do before its next access.
    ///
    /// A sync after the N-th completed write: it is issued when that write is complete, so it
    /// covers it in every engine. After a `SyncFileRange` comes an fdatasync. A linked sync is not
    /// a follow-up: it is submitted with its write ([`SyncMethod::linked_sync`]).
    #[inline]
    pub fn follow_up(&mut self, kind: OperationKind) -> Option<Access> {
        let sync = self.sync?;
        match kind {
            OperationKind::Write => {}
            // It flushes no cache and writes no metadata, so durability comes with what follows.
            OperationKind::SyncFileRange => return Some(of_file(OperationKind::Fdatasync)),
            _ => return None,
        }
        self.writes_since_sync += 1;
        if self.writes_since_sync < self.sync_every {
            return None;
        }
        self.writes_since_sync = 0;
        Some(of_file(sync))
    }

    #[inline(always)]
    fn next_sequential(&mut self) -> Access {
        if self.next_block == self.block_count {
            self.next_block = 0;
            // Overwritten in place, the segment would hold written blocks from the second pass on,
            // where fdatasync has no extent to convert: a quarter faster on ext4
            // (docs/design/0003).
            if self.at_end == AtEnd::Reallocate {
                return self.region_access(false);
            }
            if self.drops_cache {
                return self.region_access(true);
            }
        }
        let block = self.next_block;
        self.next_block += 1;
        let kind = if self.is_pure() { self.pure_kind() } else { self.mixed_kind() };
        self.block_access(kind, block)
    }

    #[inline(always)]
    fn next_random(&mut self) -> Access {
        let draw = self.random.next_u64();
        // The high half of the product is uniform below block_count (Lemire 2019); the bias is
        // block_count / 2⁶⁴. The low bits choose the kind.
        let product = u128::from(draw) * u128::from(self.block_count);
        let block = (product >> 64) as u64;
        self.block_access(self.kind_of(draw), block)
    }

    fn is_pure(&self) -> bool {
        self.read_threshold == 0 || self.read_threshold == 1 << 32
    }

    fn pure_kind(&self) -> OperationKind {
        if self.read_threshold == 0 { OperationKind::Write } else { OperationKind::Read }
    }

    fn mixed_kind(&mut self) -> OperationKind {
        let draw = self.random.next_u64();
        self.kind_of(draw)
    }

    #[inline(always)]
    fn kind_of(&self, draw: u64) -> OperationKind {
        match draw & 0xFFFF_FFFF < self.read_threshold {
            true => OperationKind::Read,
            false => OperationKind::Write,
        }
    }

    #[inline(always)]
    fn block_access(&self, kind: OperationKind, block: u64) -> Access {
        let offset = self.region.offset.get() + block * self.block_size;
        Access { kind, drops_cache: false, file: 0, offset, length: self.block_size }
    }

    fn region_access(&self, drops_cache: bool) -> Access {
        Access {
            kind: OperationKind::Reallocate,
            drops_cache,
            file: 0,
            offset: self.region.offset.get(),
            length: Bytes::new(self.block_count * self.block_size).get(),
        }
    }
}

const fn of_file(kind: OperationKind) -> Access {
    Access { kind, drops_cache: false, file: 0, offset: 0, length: 0 }
}

fn next_of(files: &mut [Stream], file: usize) -> Access {
    // A load has as many files as a plan has targets at most: their number fits.
    #[expect(clippy::cast_possible_truncation, reason = "see above")]
    let number = file as u32;
    Access { file: number, ..files[file].next_access() }
}

#[cfg(test)]
mod tests;
