//! Accesses that are more than blocks of one size in plain order: size mixes, skew, runs of blocks
//! between jumps, holes, a place for reads and one for writes, and blocks that each come once.

use durio_base::OperationKind;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::blocks::SizeChoice;
use crate::each_once::{Permutation, TouchedUnits};
use crate::skew::BlockDistribution;
use crate::{Access, Coverage, JumpShares, Pattern, Region, Workload};

/// Where the next place comes from.
#[derive(Debug)]
enum PlaceSource {
    /// From the end of the one before.
    Sequential {
        hole: u64,
    },
    Uniform,
    /// Writes have a distribution only where it is not that of reads.
    Hot {
        reads: BlockDistribution,
        writes: Option<BlockDistribution>,
    },
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
        touched: TouchedUnits,
        distribution: Option<BlockDistribution>,
    },
}

#[derive(Debug)]
pub(crate) struct VariedAccesses {
    places: PlaceSource,
    reads: SizeChoice,
    writes: SizeChoice,
    /// Offsets are multiples of it: the smallest size, or the alignment.
    unit: u64,
    region: Region,
    /// The end of the previous access, from the region's start: of reads and of writes, or of all.
    cursors: [u64; 2],
    own_cursors: bool,
    /// With a random pattern, accesses past the region's end continue at its start.
    wraps: bool,
    coverage: Coverage,
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
enum PassPlace {
    Place { place: u64, length: u64 },
    NewPass,
}

impl VariedAccesses {
    /// True if the workload needs more than plain order.
    pub(crate) fn describes(workload: &Workload) -> bool {
        // Workloads that need none of this keep the short ways of `Stream`.
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
            wraps: workload.cursors_wrap,
            coverage: workload.coverage,
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
            true => OperationKind::Read,
            false => OperationKind::Write,
        };
        let sizes = if kind == OperationKind::Read { &self.reads } else { &self.writes };
        let length = sizes.choose(draw >> 32);
        let mut found = self.find(kind, length, random);
        if matches!(found, PassPlace::NewPass) {
            if self.drops_cache {
                return self.drop_of_cache();
            }
            found = self.find(kind, length, random);
        }
        let PassPlace::Place { place, length } = found else {
            // A pass that has started has a place.
            return self.drop_of_cache();
        };
        let mut end = place + length;
        if let PlaceSource::Sequential { hole } = self.places {
            end += hole;
        }
        self.cursors[self.cursor_of(kind)] = end;
        self.pass_left = self.pass_left.saturating_sub(length);
        Access {
            kind,
            drops_cache: false,
            file: 0,
            offset: self.region.offset.get() + place,
            length,
        }
    }

    fn cursor_of(&self, kind: OperationKind) -> usize {
        usize::from(self.own_cursors && kind == OperationKind::Write)
    }

    fn drop_of_cache(&self) -> Access {
        let Region { offset, length } = self.region;
        let (offset, length) = (offset.get(), length.get());
        Access { kind: OperationKind::Read, drops_cache: true, file: 0, offset, length }
    }

    /// The place of an access of `length`, or of another length that fits, from the region's start.
    fn find(
        &mut self,
        kind: OperationKind,
        length: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> PassPlace {
        let cursor = self.cursors[self.cursor_of(kind)];
        if matches!(self.places, PlaceSource::Sequential { .. }) {
            return self.follow(kind, (cursor, length), random);
        }
        let in_run = self.run_left > 0;
        match in_run {
            true => self.run_left -= 1,
            // The access drawn here is the first of its run, whether it jumps or not.
            false => self.run_left = self.run_length - 1,
        }
        if in_run || self.stays(kind, random) {
            if let Some(found) = self.go_on(kind, length, random) {
                return found;
            }
            if self.coverage != Coverage::EachOnce {
                return self.leave_the_end(kind, length, random);
            }
            self.run_left = self.run_length - 1;
        }
        self.jump(kind, length, random)
    }

    /// The place after the last access; none at the region's end, and where this pass has been there.
    fn go_on(
        &mut self,
        kind: OperationKind,
        length: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<PassPlace> {
        let cursor = self.cursor_of(kind);
        let sizes = if kind == OperationKind::Read { &self.reads } else { &self.writes };
        let size = self.region.length.get();
        if size.saturating_sub(self.cursors[cursor]) < sizes.smallest() {
            if !self.wraps {
                return None;
            }
            self.cursors[cursor] = 0;
            if self.drops_cache {
                return Some(PassPlace::NewPass);
            }
        }
        let place = self.cursors[cursor];
        let mut length = fitting(sizes, (length, size - place), random);
        if let (PlaceSource::Untouched { touched, .. }, Coverage::EachOnce) =
            (&mut self.places, self.coverage)
        {
            let free = touched.touch(place / self.unit, length.div_ceil(self.unit)) * self.unit;
            length = length.min(free);
        }
        (length > 0).then_some(PassPlace::Place { place, length })
    }

    /// A jump for lack of a place to continue; no map of blocks counts it.
    fn leave_the_end(
        &mut self,
        kind: OperationKind,
        length: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> PassPlace {
        if self.coverage == Coverage::Independent {
            return self.jump(kind, length, random);
        }
        let last = (self.region.length.get() - length) / self.unit;
        PassPlace::Place { place: uniform(random, last + 1) * self.unit, length }
    }

    fn begin_pass(&mut self) -> PassPlace {
        self.cursors = [0; 2];
        // A pass begins with a jump.
        self.run_left = 0;
        PassPlace::NewPass
    }

    /// Whether a random access continues where the previous one of its kind ended.
    fn stays(&self, kind: OperationKind, random: &mut Xoshiro256PlusPlus) -> bool {
        let Some(jumps) = self.jumps else { return false };
        let threshold = if kind == OperationKind::Read { jumps.reads } else { jumps.writes };
        random.next_u64() >> 32 >= threshold
    }

    /// In sequence the last size before the region's end is one that fits.
    fn follow(
        &mut self,
        kind: OperationKind,
        (cursor, length): (u64, u64),
        random: &mut Xoshiro256PlusPlus,
    ) -> PassPlace {
        let left = self.region.length.get().saturating_sub(cursor);
        let sizes = if kind == OperationKind::Read { &self.reads } else { &self.writes };
        if left < sizes.smallest() {
            let cursor = self.cursor_of(kind);
            self.cursors[cursor] = 0;
            return PassPlace::NewPass;
        }
        PassPlace::Place { place: cursor, length: fitting(sizes, (length, left), random) }
    }

    fn jump(
        &mut self,
        kind: OperationKind,
        length: u64,
        random: &mut Xoshiro256PlusPlus,
    ) -> PassPlace {
        let sizes = if kind == OperationKind::Read { &self.reads } else { &self.writes };
        let last = (self.region.length.get() - length) / self.unit;
        let unit = self.unit;
        let place = match &mut self.places {
            // Never here: `follow` finds them.
            PlaceSource::Sequential { .. } => 0,
            // Independent draws never come round: a pass is what moves as much as the region holds.
            PlaceSource::Uniform | PlaceSource::Hot { .. }
                if self.drops_cache && self.pass_left == 0 =>
            {
                self.pass_left = self.region.length.get();
                return self.begin_pass();
            }
            PlaceSource::Uniform => uniform(random, last + 1) * unit,
            // A large block at the end of the region begins where it just fits.
            PlaceSource::Hot { reads, writes } => {
                let hot = if kind == OperationKind::Write { writes.as_ref() } else { None };
                hot.unwrap_or(reads).draw(random).min(last) * unit
            }
            PlaceSource::EachOnce { permutation, key, next, groups, group_length } => {
                if *next == *groups {
                    // Another key, or every pass would have the same order.
                    *key = key.wrapping_add(1);
                    *permutation = Permutation::new(*groups, *key);
                    *next = 0;
                    return self.begin_pass();
                }
                let group = permutation.of(*next);
                *next += 1;
                group * *group_length
            }
            PlaceSource::Untouched { touched, distribution } => {
                let units = self.region.length.get() / unit;
                let drawn = match distribution {
                    Some(distribution) => distribution.draw(random),
                    None => uniform(random, units),
                };
                let Some(place) = touched.next_free(drawn.min(units - 1)) else {
                    touched.clear();
                    return self.begin_pass();
                };
                // The region's end takes a size that fits; touched blocks cut an access short.
                let left = self.region.length.get() - place * unit;
                let length = fitting(sizes, (length, left), random);
                let free = touched.touch(place, length.div_ceil(unit)) * unit;
                return PassPlace::Place { place: place * unit, length: length.min(free) };
            }
        };
        PassPlace::Place { place, length }
    }
}

// Sizes that are drawn until one fits; then the smallest is taken.
const FITTING_DRAWS: u32 = 64;

/// `length`, or another size if it is more than `left`.
fn fitting(
    sizes: &SizeChoice,
    (mut length, left): (u64, u64),
    random: &mut Xoshiro256PlusPlus,
) -> u64 {
    // Bounded: in a mix where small sizes are rare, nearly every draw would miss.
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

fn places(workload: &Workload, region: Region, unit: u64, seed: u64) -> PlaceSource {
    if workload.pattern == Pattern::Sequential {
        return PlaceSource::Sequential { hole: workload.hole.get() };
    }
    let blocks_of = |skew| BlockDistribution::new(skew, region.length.get() / unit, unit);
    let distribution = blocks_of(&workload.skew);
    if workload.coverage != Coverage::Independent {
        let jumps_alone = workload.coverage == Coverage::JumpsOnce;
        let is_even = !workload.has_mix() && (workload.jumps.is_none() || jumps_alone);
        // Uneven steps do not fit groups of one length: touched blocks have to be remembered.
        if !is_even || distribution.is_some() {
            return PlaceSource::Untouched {
                touched: TouchedUnits::new(region.length.get() / unit),
                distribution,
            };
        }
        let run_length = if jumps_alone { 1 } else { workload.run_length };
        let group_length = workload.block_size.get() * u64::from(run_length);
        let groups = region.length.get().div_ceil(group_length);
        let permutation = Permutation::new(groups, seed);
        return PlaceSource::EachOnce { permutation, key: seed, next: 0, groups, group_length };
    }
    match distribution {
        Some(reads) => {
            PlaceSource::Hot { reads, writes: workload.write_skew.as_ref().and_then(blocks_of) }
        }
        None => PlaceSource::Uniform,
    }
}
