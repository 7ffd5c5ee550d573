//! Accesses that are more than blocks of one size in plain order: size mixes, skew, runs of blocks
//! between jumps, holes, and blocks that each come once.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::blocks::SizeChoice;
use crate::permutation::Permutation;
use crate::skew::Hotness;
use crate::{Access, AccessKind, Coverage, Pattern, Region, Workload};

/// Where the next place comes from.
#[derive(Debug)]
enum Places {
    /// From the end of the one before.
    Sequential {
        hole: u64,
    },
    Uniform,
    Hot(Hotness),
    /// Groups of a run's blocks, each once a pass.
    EachOnce {
        permutation: Permutation,
        key: u64,
        next: u64,
        groups: u64,
        group_length: u64,
    },
}

/// The varied part of a stream.
#[derive(Debug)]
pub(crate) struct Varied {
    places: Places,
    reads: SizeChoice,
    writes: SizeChoice,
    /// Offsets are multiples of it: the smallest size.
    unit: u64,
    region: Region,
    /// The end of the access before, from the region's begin.
    cursor: u64,
    run_length: u32,
    /// Blocks that still follow the last jump.
    run_left: u32,
}

impl Varied {
    /// True if the workload needs more than plain order.
    pub(crate) fn describes(workload: &Workload) -> bool {
        workload.has_mix()
            || !workload.skew.is_uniform()
            || workload.run_length > 1
            || workload.hole.get() > 0
            || workload.coverage != Coverage::Independent
    }

    pub(crate) fn new(workload: &Workload, region: Region, seed: u64) -> Self {
        let reads = SizeChoice::new(workload.mix(false), workload.block_size);
        let writes = SizeChoice::new(workload.mix(true), workload.block_size);
        let unit = match (workload.reads(), workload.writes()) {
            (true, false) => reads.smallest(),
            (false, true) => writes.smallest(),
            _ => reads.smallest().min(writes.smallest()),
        };
        Self {
            places: places(workload, region, unit, seed),
            reads,
            writes,
            unit,
            region,
            cursor: 0,
            run_length: workload.run_length,
            run_left: 0,
        }
    }

    /// The next access; `read_threshold` as in [`crate::Stream`].
    pub(crate) fn next(&mut self, random: &mut Xoshiro256PlusPlus, read_threshold: u64) -> Access {
        let draw = random.next_u64();
        let kind = match draw & 0xFFFF_FFFF < read_threshold {
            true => AccessKind::Read,
            false => AccessKind::Write,
        };
        let sizes = if kind == AccessKind::Read { &self.reads } else { &self.writes };
        let length = sizes.choose(draw >> 32);
        let place = self.place(length, random);
        self.cursor = place + length;
        if let Places::Sequential { hole } = self.places {
            self.cursor += hole;
        }
        Access { kind, offset: self.region.offset.get() + place, length }
    }

    /// Where an access of `length` goes, from the region's begin.
    fn place(&mut self, length: u64, random: &mut Xoshiro256PlusPlus) -> u64 {
        let fits = self.cursor + length <= self.region.length.get();
        match &self.places {
            Places::Sequential { .. } => {
                return if fits { self.cursor } else { 0 };
            }
            _ if self.run_left > 0 && fits => {
                self.run_left -= 1;
                return self.cursor;
            }
            _ => self.run_left = self.run_length - 1,
        }
        self.jump(length, random)
    }

    fn jump(&mut self, length: u64, random: &mut Xoshiro256PlusPlus) -> u64 {
        let last = (self.region.length.get() - length) / self.unit;
        let unit = self.unit;
        match &mut self.places {
            Places::Sequential { .. } => 0,
            Places::Uniform => {
                // Uniform below the count (Lemire 2019), as in plain order.
                let product = u128::from(random.next_u64()) * u128::from(last + 1);
                (product >> 64) as u64 * unit
            }
            // A large block at the end of the region begins where it just fits.
            Places::Hot(hotness) => hotness.draw(random).min(last) * unit,
            Places::EachOnce { permutation, key, next, groups, group_length } => {
                if *next == *groups {
                    *key = key.wrapping_add(1);
                    *permutation = Permutation::new(*groups, *key);
                    *next = 0;
                }
                let group = permutation.of(*next);
                *next += 1;
                group * *group_length
            }
        }
    }
}

fn places(workload: &Workload, region: Region, unit: u64, seed: u64) -> Places {
    if workload.pattern == Pattern::Sequential {
        return Places::Sequential { hole: workload.hole.get() };
    }
    if workload.coverage == Coverage::EachOnce {
        let group_length = workload.block_size.get() * u64::from(workload.run_length);
        let groups = region.length.get().div_ceil(group_length);
        let permutation = Permutation::new(groups, seed);
        return Places::EachOnce { permutation, key: seed, next: 0, groups, group_length };
    }
    match Hotness::new(&workload.skew, region.length.get() / unit) {
        Some(hotness) => Places::Hot(hotness),
        None => Places::Uniform,
    }
}
