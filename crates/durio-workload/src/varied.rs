//! Accesses that are more than blocks of one size in plain order: size mixes, skew, runs of blocks
//! between jumps, holes, a place for reads and one for writes, and blocks that each come once.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::blocks::SizeChoice;
use crate::permutation::Permutation;
use crate::skew::BlockDistribution;
use crate::touched::Touched;
use crate::{Access, AccessKind, Coverage, JumpShares, Pattern, Region, Workload};

/// Where the next place comes from.
#[derive(Debug)]
enum Places {
    /// From the end of the one before.
    Sequential {
        hole: u64,
    },
    Uniform,
    Hot(BlockDistribution),
    /// Groups of a run's blocks, each once a pass.
    EachOnce {
        permutation: Permutation,
        key: u64,
        next: u64,
        groups: u64,
        group_length: u64,
    },
    /// The next unit from a draw on that was not touched in this pass.
    Untouched {
        touched: Touched,
        distribution: Option<BlockDistribution>,
    },
}

#[derive(Debug)]
pub(crate) struct Varied {
    places: Places,
    reads: SizeChoice,
    writes: SizeChoice,
    /// Offsets are multiples of it: the smallest size, or the alignment.
    unit: u64,
    region: Region,
    /// The end of the access before, from the region's begin: of reads and of writes, or of all.
    cursors: [u64; 2],
    own_cursors: bool,
    jumps: Option<JumpThresholds>,
    run_length: u32,
    /// Blocks that still follow the last jump.
    run_left: u32,
    /// The page cache is dropped where a pass begins.
    drops_cache: bool,
    /// Bytes until independent draws have moved as much as the region holds.
    pass_left: u64,
}

/// Below these thresholds of 32 random bits an access jumps.
#[derive(Debug, Clone, Copy)]
struct JumpThresholds {
    reads: u64,
    writes: u64,
}

impl JumpThresholds {
    fn new(shares: JumpShares) -> Self {
        let of = |per_mille: u16| (u64::from(per_mille) << 32) / 1000;
        Self { reads: of(shares.reads.0), writes: of(shares.writes.0) }
    }
}

/// A place, or that the pass is over.
enum Found {
    Place { place: u64, length: u64 },
    NewPass,
}

impl Varied {
    /// True if the workload needs more than plain order.
    pub(crate) fn describes(workload: &Workload) -> bool {
        // Whatever needs none of this keeps the short ways of `Stream`.
        workload.has_mix()
            || !workload.skew.is_uniform()
            || workload.run_length > 1
            || workload.hole.get() > 0
            || workload.align.get() > 0
            || workload.coverage != Coverage::Independent
            || workload.own_cursors
            || workload.jumps.is_some()
            // In plain sequence `Stream` sees the end of a pass itself.
            || (workload.drops_cache_each_pass && workload.pattern == Pattern::Random)
    }

    pub(crate) fn new(workload: &Workload, region: Region, seed: u64) -> Self {
        let reads = SizeChoice::new(workload.mix(false), workload.block_size);
        let writes = SizeChoice::new(workload.mix(true), workload.block_size);
        let unit = match (workload.reads(), workload.writes()) {
            _ if workload.align.get() > 0 => workload.align.get(),
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
            cursors: [0; 2],
            own_cursors: workload.own_cursors,
            jumps: workload.jumps.map(JumpThresholds::new),
            run_length: workload.run_length,
            run_left: 0,
            drops_cache: workload.drops_cache_each_pass,
            pass_left: region.length.get(),
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
        let mut found = self.find(kind, length, random);
        if matches!(found, Found::NewPass) {
            // A pass begins with a jump.
            self.run_left = 0;
            if self.drops_cache {
                return self.region_access(AccessKind::DropCache);
            }
            found = self.find(kind, length, random);
        }
        let Found::Place { place, length } = found else {
            // A pass that has begun has a place.
            return self.region_access(AccessKind::DropCache);
        };
        let mut end = place + length;
        if let Places::Sequential { hole } = self.places {
            end += hole;
        }
        self.cursors[self.cursor_of(kind)] = end;
        self.pass_left = self.pass_left.saturating_sub(length);
        Access { kind, file: 0, offset: self.region.offset.get() + place, length }
    }

    fn cursor_of(&self, kind: AccessKind) -> usize {
        usize::from(self.own_cursors && kind == AccessKind::Write)
    }

    fn region_access(&self, kind: AccessKind) -> Access {
        Access { kind, file: 0, offset: self.region.offset.get(), length: self.region.length.get() }
    }

    /// Where an access of `length`, or of another length that fits, goes, from the region's begin.
    fn find(&mut self, kind: AccessKind, length: u64, random: &mut Xoshiro256PlusPlus) -> Found {
        let cursor = self.cursors[self.cursor_of(kind)];
        if matches!(self.places, Places::Sequential { .. }) {
            return self.follow(kind, (cursor, length), random);
        }
        let fits = cursor + length <= self.region.length.get();
        // A run ends where the region does.
        let in_run = self.run_left > 0 && fits;
        if in_run || (fits && self.stays(kind, random)) {
            self.run_left = self.run_left.saturating_sub(u32::from(in_run));
            if let Some(length) = self.go_on(cursor, length) {
                return Found::Place { place: cursor, length };
            }
        }
        // The jump itself is the first of its run.
        self.run_left = self.run_length - 1;
        self.jump(kind, length, random)
    }

    /// How much of `length` at the cursor is left to this pass; none where it has been there already.
    fn go_on(&mut self, cursor: u64, length: u64) -> Option<u64> {
        let Places::Untouched { touched, .. } = &mut self.places else { return Some(length) };
        let free = touched.touch(cursor / self.unit, length.div_ceil(self.unit)) * self.unit;
        (free > 0).then(|| length.min(free))
    }

    /// Whether a random access goes on where the one before of its kind ended.
    fn stays(&self, kind: AccessKind, random: &mut Xoshiro256PlusPlus) -> bool {
        let Some(jumps) = self.jumps else { return false };
        let threshold = if kind == AccessKind::Read { jumps.reads } else { jumps.writes };
        random.next_u64() >> 32 >= threshold
    }

    /// In sequence the last size before the region's end is one that fits.
    fn follow(
        &mut self,
        kind: AccessKind,
        (cursor, length): (u64, u64),
        random: &mut Xoshiro256PlusPlus,
    ) -> Found {
        let left = self.region.length.get().saturating_sub(cursor);
        let sizes = if kind == AccessKind::Read { &self.reads } else { &self.writes };
        if left < sizes.smallest() {
            let cursor = self.cursor_of(kind);
            self.cursors[cursor] = 0;
            return Found::NewPass;
        }
        Found::Place { place: cursor, length: fitting(sizes, (length, left), random) }
    }

    fn jump(&mut self, kind: AccessKind, length: u64, random: &mut Xoshiro256PlusPlus) -> Found {
        let sizes = if kind == AccessKind::Read { &self.reads } else { &self.writes };
        let last = (self.region.length.get() - length) / self.unit;
        let unit = self.unit;
        let place = match &mut self.places {
            // Never here: `follow` finds them.
            Places::Sequential { .. } => 0,
            // Independent draws never come round: a pass is what moves as much as the region holds.
            Places::Uniform | Places::Hot(_) if self.drops_cache && self.pass_left == 0 => {
                self.pass_left = self.region.length.get();
                return Found::NewPass;
            }
            Places::Uniform => uniform(random, last + 1) * unit,
            // A large block at the end of the region begins where it just fits.
            Places::Hot(distribution) => distribution.draw(random).min(last) * unit,
            Places::EachOnce { permutation, key, next, groups, group_length } => {
                if *next == *groups {
                    // Another key, or every pass would have the same order.
                    *key = key.wrapping_add(1);
                    *permutation = Permutation::new(*groups, *key);
                    *next = 0;
                    return Found::NewPass;
                }
                let group = permutation.of(*next);
                *next += 1;
                group * *group_length
            }
            Places::Untouched { touched, distribution } => {
                let units = self.region.length.get() / unit;
                let drawn = match distribution {
                    Some(distribution) => distribution.draw(random),
                    None => uniform(random, units),
                };
                let Some(place) = touched.next_free(drawn.min(units - 1)) else {
                    touched.clear();
                    return Found::NewPass;
                };
                // The region's end takes a size that fits, what is touched cuts an access short.
                let left = self.region.length.get() - place * unit;
                let length = fitting(sizes, (length, left), random);
                let free = touched.touch(place, length.div_ceil(unit)) * unit;
                return Found::Place { place: place * unit, length: length.min(free) };
            }
        };
        Found::Place { place, length }
    }
}

// Sizes that are drawn until one fits; then the smallest is taken.
const FITTING_DRAWS: u32 = 64;

/// `length`, or another size if it is more than what is left.
fn fitting(
    sizes: &SizeChoice,
    (mut length, left): (u64, u64),
    random: &mut Xoshiro256PlusPlus,
) -> u64 {
    // Bounded: of a mix in which small sizes are rare, nearly every draw would miss.
    for _ in 0..FITTING_DRAWS {
        if length <= left {
            return length;
        }
        length = sizes.choose(random.next_u64() >> 32);
    }
    sizes.smallest()
}

// Uniform below `count` (Lemire 2019), as in plain order.
fn uniform(random: &mut Xoshiro256PlusPlus, count: u64) -> u64 {
    let product = u128::from(random.next_u64()) * u128::from(count);
    // The high half is below `count`.
    u64::try_from(product >> 64).unwrap_or(0)
}

fn places(workload: &Workload, region: Region, unit: u64, seed: u64) -> Places {
    if workload.pattern == Pattern::Sequential {
        return Places::Sequential { hole: workload.hole.get() };
    }
    let distribution = BlockDistribution::new(&workload.skew, region.length.get() / unit);
    if workload.coverage == Coverage::EachOnce {
        let is_even = !workload.has_mix() && workload.jumps.is_none();
        // Uneven steps do not fit groups of one length: what was touched has to be remembered.
        if !is_even || distribution.is_some() {
            return Places::Untouched {
                touched: Touched::new(region.length.get() / unit),
                distribution,
            };
        }
        let group_length = workload.block_size.get() * u64::from(workload.run_length);
        let groups = region.length.get().div_ceil(group_length);
        let permutation = Permutation::new(groups, seed);
        return Places::EachOnce { permutation, key: seed, next: 0, groups, group_length };
    }
    match distribution {
        Some(distribution) => Places::Hot(distribution),
        None => Places::Uniform,
    }
}
