//! The bytes of written blocks: new ones for every write, at a cost that storage does not notice.
//!
//! A block is filled in units of 4 KiB, each from a separate key: the job's seed plus a counter.
//! The first 8 bytes of a unit are a bijection of its key, so no two units of a job are equal;
//! those of other jobs, steps and runs have other seeds, which are 64 bits that SplitMix64 spread.

use crate::{Contents, PerMille, Renewal, Workload};

// Contents are made in units of this many bytes: the smallest block of storages that compress or
// deduplicate (VDO, ZFS and btrfs use 4 KiB or multiples).
const UNIT: usize = 4096;

/// Fills the buffers of one job.
#[derive(Debug, Clone)]
pub struct BlockFiller {
    contents: Contents,
    renewal: Renewal,
    /// Writes need new bytes.
    renews: bool,
    duplicates: Option<Duplicates>,
    /// The key of the next unit.
    next: u64,
}

impl BlockFiller {
    /// A filler for one job of `workload`; the same seed gives the same bytes.
    pub fn new(workload: &Workload, seed: u64) -> Self {
        let share = workload.duplicates;
        let repeats = share > PerMille::NONE && workload.has_new_blocks();
        Self {
            contents: workload.contents.clone(),
            renewal: workload.renewal,
            renews: workload.contents.is_random() && workload.renewal != Renewal::Never,
            duplicates: repeats.then(|| Duplicates::new(share)),
            next: seed,
        }
    }

    /// A filler of incompressible blocks, every one unique.
    pub fn unique(seed: u64) -> Self {
        Self::new(&Workload::default(), seed)
    }

    /// True if [`BlockFiller::fill`] has anything to do for a write.
    #[inline]
    pub fn renews(&self) -> bool {
        self.renews
    }

    /// Fills a whole buffer before the first write from it.
    pub fn prime(&mut self, buffer: &mut [u8]) {
        match &self.contents {
            Contents::Pattern { bytes } => {
                // Laid once: a pattern is never renewed.
                let bytes = bytes.iter().cycle();
                buffer.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
            }
            contents => {
                let share = contents.random_share();
                let first = self.take_keys(buffer.len());
                fill_units(buffer, first, share);
            }
        }
    }

    /// Fills `data`, which is about to be written, as the definition wants: with new bytes, those
    /// of an earlier write, or the present ones with some changed.
    #[inline]
    pub fn fill(&mut self, data: &mut [u8]) {
        // Buffers that are written again and again are unique to a naive deduplication and nothing
        // to compression: 8 MiB of 4 KiB blocks became 61 kB with gzip (docs/design/0010).
        if !self.renews {
            return;
        }
        if self.renewal == Renewal::Scrambled {
            let stamp = self.take_keys(UNIT);
            return scramble(data, stamp);
        }
        let length = data.len();
        let earlier =
            self.duplicates.as_mut().and_then(|duplicates| duplicates.next(length, self.next));
        let first = match earlier {
            Some(first) => first,
            None => self.take_keys(length),
        };
        fill_units(data, first, self.contents.random_share());
    }

    /// The first key of a block's units.
    #[inline]
    fn take_keys(&mut self, length: usize) -> u64 {
        let first = self.next;
        self.next = first.wrapping_add(length.div_ceil(UNIT) as u64);
        first
    }
}

/// Decides which writes repeat earlier ones.
#[derive(Debug, Clone)]
struct Duplicates {
    share: PerMille,
    /// Thousandths of a duplicate that are due; the share is kept exactly, not by chance.
    due: u32,
    /// First key and length of the last new writes.
    earlier: Box<[(u64, usize)]>,
    /// How many new writes there were.
    count: usize,
}

// How many new writes can be repeated. More would be overwritten, on a small target, before their
// duplicate is there.
const EARLIER: usize = 64;

impl Duplicates {
    fn new(share: PerMille) -> Self {
        Self { share, due: 0, earlier: vec![(0, 0); EARLIER].into_boxed_slice(), count: 0 }
    }

    /// The first key of the write that one of `length` bytes repeats; none if it is new, and then
    /// has `key`.
    fn next(&mut self, length: usize, key: u64) -> Option<u64> {
        // Counted and not drawn: a ratio that was asked for holds in short runs too.
        self.due += u32::from(self.share.0);
        let found = if self.due >= 1000 { self.earlier_of(length, key) } else { None };
        match found {
            // Where no earlier write is as long, the duplicate stays due.
            Some(_) => self.due -= 1000,
            None => {
                self.earlier[self.count % EARLIER] = (key, length);
                self.count += 1;
            }
        }
        found
    }

    /// One of the last new writes of the same length, another one each time.
    fn earlier_of(&self, length: usize, key: u64) -> Option<u64> {
        let known = self.count.min(EARLIER);
        let draw = spread(key ^ u64::from(self.due)) % EARLIER as u64;
        let begin = usize::try_from(draw).unwrap_or(0);
        // Whole writes are repeated, so that storage with blocks of any size up to theirs finds
        // them.
        let candidates = (0..known).map(|step| self.earlier[(begin + step) % known]);
        candidates.filter(|(_, its)| *its == length).map(|(first, _)| first).next()
    }
}

/// Fills units of `data` from the key `first` on: of each the `share` is random, the rest zeros.
#[inline]
fn fill_units(data: &mut [u8], first: u64, share: PerMille) {
    let mut key = first;
    for unit in data.chunks_mut(UNIT) {
        let zeros = unit.len() * usize::from(PerMille::ALL.0.saturating_sub(share.0)) / 1000;
        let (random, rest) = unit.split_at_mut(unit.len() - zeros);
        fill_random(random, key);
        // At the end of each unit, where every compressor stores zeros for almost nothing.
        rest.fill(0);
        key = key.wrapping_add(1);
    }
}

// Generators side by side: the row of one step is vectorised, and its operations do not wait for
// each other.
const LANES: usize = 16;

/// The states of all generators, which are the output too: first those of one half, then of the
/// other.
type GeneratorStates = [[u8; 8]; 2 * LANES];

/// Fills `data` with bytes that only `key` gives.
///
/// Each lane is a pair (x, y) that is written as it is and then becomes x' = x + y,
/// y' = (y ⊕ y ≫ 23) + x', a bijection of 128 bits. No multiplication and no table: SSE2 does two
/// lanes at once, and a row is made from the one before, which is in the first-level cache. The
/// quality is that which compressors need, not that of a generator for statistics.
#[inline(never)]
fn fill_random(data: &mut [u8], key: u64) {
    let (words, end) = data.as_chunks_mut::<8>();
    let (rows, rest) = words.as_chunks_mut::<{ 2 * LANES }>();
    let first = first_row(key);
    let mut last = None;
    for row in rows {
        match last {
            None => *row = first,
            Some(last) => next_row(last, row),
        }
        last = Some(&*row);
    }
    if rest.is_empty() && end.is_empty() {
        return;
    }
    let mut row = first;
    if let Some(last) = last {
        next_row(last, &mut row);
    }
    let (for_rest, for_end) = row.split_at(rest.len());
    rest.copy_from_slice(for_rest);
    end.copy_from_slice(&for_end[0][..end.len()]);
}

/// The lanes of a key; the first 8 bytes are unlike those of any other key.
#[inline]
fn first_row(key: u64) -> GeneratorStates {
    let (x, y) = (spread(key), spread(!key));
    let mut seeds = [[0; 8]; 2 * LANES];
    let mut lane = 0;
    for place in 0..LANES {
        seeds[place] = x.wrapping_add(lane).to_le_bytes();
        seeds[LANES + place] = (y ^ lane).to_le_bytes();
        // Weyl's sequence of the golden ratio, as in SplitMix64.
        lane = lane.wrapping_add(0x9E37_79B9_7F4A_7C15);
    }
    // The seeds of two keys whose lowest bytes are equal by chance are equal there in every lane.
    let mut row = [[0; 8]; 2 * LANES];
    next_row(&seeds, &mut row);
    row[0] = x.to_le_bytes();
    row
}

#[inline]
fn next_row(last: &GeneratorStates, next: &mut GeneratorStates) {
    for lane in 0..LANES {
        let (x, y) = (u64::from_le_bytes(last[lane]), u64::from_le_bytes(last[LANES + lane]));
        let x = x.wrapping_add(y);
        let y = (y ^ (y >> 23)).wrapping_add(x);
        next[lane] = x.to_le_bytes();
        next[LANES + lane] = y.to_le_bytes();
    }
}

// SplitMix64's finalizer (Steele, Lea, Flood 2014): a bijection.
#[inline]
pub(crate) const fn spread(key: u64) -> u64 {
    let z = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Changes as little of each 512 bytes as fio does.
// fio 3.33 changes a word that counts sectors at one of eight places, and the time at another. Its
// third word is the time in seconds, which many writes share: left out, storage finds as much again as
// it does of fio's.
fn scramble(data: &mut [u8], stamp: u64) {
    let place = (spread(stamp) % 8) as usize * 64;
    for (number, sector) in (0_u64..).zip(data.chunks_mut(512)) {
        // As an offset counts: its lowest byte stays.
        for (at, word) in [(place, stamp.wrapping_add(number << 9)), (56, stamp)] {
            if let Some(target) = sector.get_mut(at..at + 8) {
                target.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests;
