//! Which accesses (`rw`, its mix, its sizes, its distribution), the contents of writes, and how they
//! are made durable.
//!
//! [`PatternOptions`] become fields of a [`Workload`] and its [`AccessSizes`]; regions are chosen
//! elsewhere. [`DataOptions`] give contents, how they change from write to write, and how many
//! repeat, as fio means it; [`DurabilityOptions`] give the [`SyncPolicy`]. The contents of laid-out
//! files are set elsewhere.

use durio_base::Bytes;
use durio_workload::{
    BlockShare, ByteZone, Contents, Coverage, JumpShares, Pattern, PerMille, Renewal, Skew,
    SyncMethod, SyncPolicy, Workload, Zone,
};

use super::{ImportNotes, or, place_or};
use crate::job_file::{
    AccessPattern, BlockSizeShare, DataOptions, Direction, DurabilityOptions, Each, GivenOption,
    GivenValue, OffsetDistribution, PatternOptions, PerDirection, RandomGenerator, ReadWrite,
    Sequencer, SourcePosition, SyncOpen, ZoneShare,
};

// fio's `rw` where nothing is said.
const ACCESS_DEFAULT: ReadWrite =
    ReadWrite { direction: Direction::Read, pattern: AccessPattern::Sequential { skip_bytes: 0 } };

/// Reads the pattern: a workload with these fields set, and its sizes.
pub(super) fn accesses(
    options: &PatternOptions,
    at: &SourcePosition,
    said: &mut ImportNotes,
) -> (Workload, AccessSizes) {
    // Every option is named here, so that a new one does not compile until it is honoured: those of
    // random accesses and of sizes are taken below.
    let PatternOptions {
        access,
        sequencer: _,
        read_percent,
        block_bytes: _,
        align_bytes: _,
        block_range_bytes: _,
        block_split: _,
        block_unaligned: _,
        random_percent: _,
        distribution: _,
        no_random_map: _,
        generator: _,
    } = options;
    let ReadWrite { direction, pattern } = or(access, ACCESS_DEFAULT);
    let sizes = sizes(options, direction, said);
    let mut workload = Workload {
        read_share: match direction {
            Direction::Read => PerMille::ALL,
            Direction::Write => PerMille::NONE,
            // fio mixes half and half by default.
            Direction::Mixed => PerMille(u16::from(or(read_percent, 50)) * 10),
        },
        block_size: Bytes::new(sizes.block_size),
        block_mix: sizes.mix.clone(),
        write_block_mix: sizes.write_mix.clone(),
        ..Workload::default()
    };
    match pattern {
        AccessPattern::Sequential { skip_bytes } => {
            sequential(&mut workload, skip_bytes, place_or(access, at), said);
        }
        AccessPattern::Random { run } => {
            random(&mut workload, options, (direction, run), said);
            if let Some(align) = sizes.alignment(at, said) {
                let has_places =
                    matches!(workload.skew, Skew::Zones { .. } | Skew::ByteZones { .. });
                if !workload.skew.is_uniform() && !has_places {
                    let reason = "durio's hot blocks are aligned to the smallest size";
                    said.refuse_at(at, "random_distribution", reason);
                }
                // fio keeps no map of touched blocks in this case.
                (workload.align, workload.coverage) = (Bytes::new(align), Coverage::Independent);
            }
        }
    }
    (workload, sizes)
}

fn sequential(
    workload: &mut Workload,
    skip_bytes: i64,
    at: &SourcePosition,
    said: &mut ImportNotes,
) {
    workload.pattern = Pattern::Sequential;
    match u64::try_from(skip_bytes) {
        Ok(hole) => workload.hole = Bytes::new(hole),
        Err(_) => {
            said.refuse_at(at, "rw", "durio does not go backwards; use randread or randwrite");
        }
    }
    // fio has a place for reads and one for writes.
    workload.own_cursors = workload.reads() && workload.writes();
}

/// Sets the order of random accesses, `run` of them in a row after each jump.
fn random(
    workload: &mut Workload,
    options: &PatternOptions,
    (direction, run): (Direction, u32),
    said: &mut ImportNotes,
) {
    let PatternOptions { sequencer, distribution, no_random_map, generator, .. } = options;
    workload.pattern = Pattern::Random;
    workload.run_length = run;
    if let Some(given) = distribution {
        (workload.skew, workload.write_skew) = skews(given, direction, said);
    }
    workload.jumps = jumps(&options.random_percent, direction);
    let goes_on = workload.jumps.is_some() || run > 1;
    // fio has a place for reads and one for writes.
    workload.own_cursors =
        workload.jumps.is_some() || run > 1 && workload.reads() && workload.writes();
    said.refuse_unless(
        sequencer,
        |sequencer| *sequencer == Sequencer::Sequential || run == 1,
        "durio does not repeat one offset",
    );
    // fio has no map of blocks for any other distribution, even without norandommap; lfsr needs
    // none to give each block once.
    let is_uniform =
        distribution.as_ref().is_none_or(|given| given.value == OffsetDistribution::Uniform);
    let is_lfsr = generator.as_ref().is_some_and(|given| given.value == RandomGenerator::Lfsr);
    if is_uniform && (is_lfsr || !or(no_random_map, false)) {
        workload.coverage = if goes_on { Coverage::JumpsOnce } else { Coverage::EachOnce };
    }
}

// fio's `percentage_random`, where it is less than all.
fn jumps(percent: &Each<u8>, direction: Direction) -> Option<JumpShares> {
    let share = |given: &GivenOption<u8>| PerMille(u16::from(or(given, 100)) * 10);
    let shares = JumpShares { reads: share(&percent.read), writes: share(&percent.write) };
    let of_reads = direction != Direction::Write && shares.reads < PerMille::ALL;
    let of_writes = direction != Direction::Read && shares.writes < PerMille::ALL;
    (of_reads || of_writes).then_some(shares)
}

/// The skew of a distribution, and that of writes where it is another; uniform where it is refused.
fn skews(
    given: &GivenValue<OffsetDistribution>,
    direction: Direction,
    said: &mut ImportNotes,
) -> (Skew, Option<Skew>) {
    let mut of = |direction| {
        convert(&given.value, direction).unwrap_or_else(|reason| {
            said.refuse(given, reason);
            Skew::Uniform
        })
    };
    if direction == Direction::Write {
        return (of(Direction::Write), None);
    }
    let reads = of(Direction::Read);
    let writes = (direction == Direction::Mixed).then(|| of(Direction::Write));
    let writes = writes.filter(|writes| *writes != reads);
    (reads, writes)
}

fn convert(distribution: &OffsetDistribution, direction: Direction) -> Result<Skew, &'static str> {
    match distribution {
        OffsetDistribution::Uniform => Ok(Skew::Uniform),
        OffsetDistribution::Zipf { center: Some(_), .. }
        | OffsetDistribution::Pareto { center: Some(_), .. } => {
            Err("durio scatters hot blocks and has no center; leave it out")
        }
        OffsetDistribution::Zipf { theta, center: None } => thousandths(*theta, 10_000)
            .map(|theta_per_mille| Skew::Zipf { theta_per_mille })
            .ok_or("durio supports zipf from 0.001 to 10 in steps of 0.001"),
        OffsetDistribution::Pareto { share, center: None } => thousandths(*share, 999)
            .and_then(|h| Some(Skew::Pareto { h_per_mille: u16::try_from(h).ok()? }))
            .ok_or("durio supports pareto from 0.001 to 0.999 in steps of 0.001"),
        OffsetDistribution::Normal { .. } => {
            Err("fio's normal distribution differs: a mean of twelve draws, moved by at most half \
                 the deviation, and scattered over the region; use zipf, pareto or zoned")
        }
        OffsetDistribution::Zoned(zones) => zoned(zones, direction),
        OffsetDistribution::ZonedBytes(zones) => {
            let zone = |zone: &ZoneShare| ByteZone {
                accesses: PerMille(u16::from(zone.access_percent) * 10),
                size: Bytes::new(zone.size),
            };
            Ok(Skew::ByteZones { zones: side(zones, direction).iter().map(zone).collect() })
        }
    }
}

/// A number in whole thousandths from 1 to `max`.
fn thousandths(number: f64, max: u32) -> Option<u32> {
    let scaled = number * 1000.0;
    // Doubles of decimal fractions miss them by less.
    let is_whole = (scaled - scaled.round()).abs() < 1e-6;
    let is_within = scaled.round() >= 1.0 && scaled.round() <= f64::from(max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to `max`")]
    (is_whole && is_within).then(|| scaled.round() as u32)
}

/// The list given for reads or for writes.
fn side<T>(zones: &PerDirection<Vec<T>>, direction: Direction) -> &[T] {
    if direction == Direction::Write { &zones.write } else { &zones.read }
}

fn zoned(zones: &PerDirection<Vec<ZoneShare>>, direction: Direction) -> Result<Skew, &'static str> {
    let zones = side(zones, direction);
    let mut built = Vec::with_capacity(zones.len() + 1);
    let mut size_so_far = 0_u16;
    for zone in zones {
        let size = u16::try_from(zone.size).ok().filter(|percent| *percent <= 100);
        let size = PerMille(size.ok_or("a zone of more than 100 percent")? * 10);
        size_so_far = size_so_far.saturating_add(size.0);
        built.push(Zone { accesses: PerMille(u16::from(zone.access_percent) * 10), size });
    }
    // durio's zones have to cover the region.
    let rest = 1000_u16.checked_sub(size_so_far).ok_or("zones of more than 100 percent")?;
    if rest > 0 {
        // fio never goes there.
        built.push(Zone { accesses: PerMille::NONE, size: PerMille(rest) });
    }
    Ok(Skew::Zones { zones: built })
}

// fio's block size where nothing is said.
const BLOCK_DEFAULT: u64 = 4096;
// As many as a `Workload` takes.
const SIZES_MAX: u64 = 512;

#[derive(Debug)]
pub(super) struct AccessSizes {
    pub(super) block_size: u64,
    /// Shares for reads, or for all accesses; empty for one size.
    mix: Vec<BlockShare>,
    /// Shares for writes, where they differ.
    write_mix: Vec<BlockShare>,
    /// The smallest of all.
    pub(super) smallest: u64,
    /// The smallest of each direction that occurs, and its `blockalign`.
    smallest_each: Vec<(u64, GivenOption<u64>)>,
}

impl AccessSizes {
    pub(super) fn is_single(&self) -> bool {
        self.mix.is_empty() && self.write_mix.is_empty()
    }

    /// What random offsets are multiples of, if not of the smallest size; refused where reads and
    /// writes differ in it.
    fn alignment(&self, at: &SourcePosition, said: &mut ImportNotes) -> Option<u64> {
        let unit = |(smallest, align): &(u64, GivenOption<u64>)| or(align, *smallest);
        let common = self.smallest_each.first().map_or(self.smallest, unit);
        let other = self.smallest_each.iter().find(|each| unit(each) != common);
        if let Some((_, align)) = other {
            let reason = format!(
                "fio would align reads to {common} bytes and writes to another size; durio has \
                 one alignment: give blockalign={common}"
            );
            said.refuse_at(place_or(align, at), "blockalign", &reason);
        }
        (common != self.smallest && common > 0).then_some(common)
    }
}

/// Reads the sizes of the directions that occur.
fn sizes(options: &PatternOptions, direction: Direction, said: &mut ImportNotes) -> AccessSizes {
    let PatternOptions { block_bytes, block_range_bytes: range, block_split: split, .. } = options;
    let unaligned = options.block_unaligned.as_ref().filter(|given| given.value);
    let mut mix =
        |block: &GivenOption<u64>, range: &GivenOption<(u64, u64)>, split: &GivenOption<Vec<_>>| {
            // bs comes last wherever it stands; bssplit with bsrange is refused where jobs are
            // resolved.
            match (split, range) {
                (Some(split), _) => split_shares(split, said),
                (None, Some(range)) => range_shares(range, unaligned, said),
                (None, None) => single(or(block, BLOCK_DEFAULT)),
            }
        };
    let reads =
        (direction != Direction::Write).then(|| mix(&block_bytes.read, &range.read, &split.read));
    let writes =
        (direction != Direction::Read).then(|| mix(&block_bytes.write, &range.write, &split.write));
    let smallest = |mix: &[BlockShare]| mix.iter().map(|share| share.size.get()).min();
    let align = &options.align_bytes;
    let each = [(&reads, &align.read), (&writes, &align.write)].into_iter();
    let smallest_each = each.filter_map(|(mix, align)| {
        Some((smallest(mix.as_ref()?).unwrap_or(BLOCK_DEFAULT), align.clone()))
    });
    let smallest_each: Vec<_> = smallest_each.collect();
    let shares = reads.iter().chain(&writes).flatten();
    let differs = reads.is_some() && writes.is_some() && reads != writes;
    let block_size = shares.map(|share| share.size.get()).max().unwrap_or(BLOCK_DEFAULT);
    let first = reads.clone().or_else(|| writes.clone()).unwrap_or_default();
    let is_single = first.len() == 1 && !differs;
    AccessSizes {
        block_size,
        smallest: smallest_each.iter().map(|(size, _)| *size).min().unwrap_or(BLOCK_DEFAULT),
        mix: if is_single { Vec::new() } else { first },
        write_mix: writes.filter(|_| differs).unwrap_or_default(),
        smallest_each,
    }
}

fn single(bytes: u64) -> Vec<BlockShare> {
    vec![BlockShare { size: Bytes::new(bytes), weight: PerMille::ALL }]
}

fn split_shares(
    split: &GivenValue<Vec<BlockSizeShare>>,
    said: &mut ImportNotes,
) -> Vec<BlockShare> {
    if split.value.len() as u64 > SIZES_MAX {
        said.refuse(split, &format!("durio mixes at most {SIZES_MAX} sizes"));
        return single(BLOCK_DEFAULT);
    }
    let share = |share: &BlockSizeShare| BlockShare {
        size: Bytes::new(share.bytes),
        weight: PerMille(u16::from(share.percent) * 10),
    };
    split.value.iter().map(share).collect()
}

// fio draws every multiple of the least equally often, where the most is one of them.
fn range_shares(
    range: &GivenValue<(u64, u64)>,
    unaligned: Option<&GivenValue<bool>>,
    said: &mut ImportNotes,
) -> Vec<BlockShare> {
    let (least, most) = range.value;
    if let Some(unaligned) = unaligned.filter(|_| least != most) {
        said.refuse(unaligned, "durio draws from a list of sizes, not any number of bytes");
        return single(most);
    }
    let count = most.checked_div(least).unwrap_or(0);
    if most.checked_rem(least) != Some(0) || count > SIZES_MAX {
        let reason = format!(
            "durio draws from at most {SIZES_MAX} sizes, multiples of the least up to the most; \
             write the sizes as bssplit"
        );
        said.refuse(range, &reason);
        return single(most.max(1));
    }
    if !1000_u64.is_multiple_of(count) {
        said.note(range, "the sizes' shares are rounded to thousandths");
    }
    // Differences of rounded edges add up to 1000, as rounded shares would not.
    let edge = |number: u64| u16::try_from(number * 1000 / count).unwrap_or(0);
    let share = |number: u64| BlockShare {
        size: Bytes::new(least * number),
        weight: PerMille(edge(number) - edge(number - 1)),
    };
    (1..=count).map(share).collect()
}

// durio spreads zeros over units of this size.
const UNIT: u64 = 4096;

/// Sets the data that `workload` writes; a read-only workload writes none.
pub(super) fn set_data(options: &DataOptions, workload: &mut Workload, said: &mut ImportNotes) {
    let DataOptions {
        compressible_percent,
        compress_chunk_bytes,
        refill,
        zeros,
        scramble,
        duplicate_percent,
        pattern,
    } = options;
    if !workload.writes() {
        return;
    }
    let percent = compressible_percent.as_ref().filter(|given| given.value > 0);
    let duplicates = duplicate_percent.as_ref().filter(|given| given.value > 0);
    if let (Some(given), Some(_)) = (percent, pattern) {
        let reason = "durio's compressible blocks end in zeros, not in a buffer_pattern";
        return said.refuse(given, reason);
    }
    if let Some(given) = percent
        && compress_chunk_bytes.as_ref().is_none_or(|given| given.value != UNIT)
    {
        let what = format!("durio keeps the share of zeros in each {UNIT} bytes");
        said.note(given, &what);
    }
    workload.contents = match (pattern, percent) {
        (Some(pattern), _) => Contents::Pattern { bytes: pattern.value.clone() },
        _ if or(zeros, false) => Contents::Compressible { zeros: PerMille::ALL },
        (_, Some(given)) => Contents::Compressible { zeros: per_mille(given) },
        (_, None) => Contents::Incompressible,
    };
    // A pattern and zeros are never changed; a share of duplicates sets refill_buffers, a share of
    // zeros does so where it is not given (fixup_options in fio's init.c).
    let is_refilled = duplicates.is_some() || or(refill, percent.is_some());
    workload.renewal = match workload.contents.is_random() {
        false => Renewal::Never,
        true if is_refilled => Renewal::EachWrite,
        true if or(scramble, true) => Renewal::Scrambled,
        true => Renewal::Never,
    };
    if let (Some(given), true) = (duplicates, workload.has_new_blocks()) {
        workload.duplicates = per_mille(given);
    }
}

fn per_mille(percent: &GivenValue<u8>) -> PerMille {
    PerMille(u16::from(percent.value.min(100)) * 10)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) depth: u32,
    /// The engine's syncs hold up the job.
    pub(super) blocks: bool,
    /// Its writes are memory accesses, not calls.
    pub(super) is_mapped: bool,
    /// Passes over the region may be several, each of which fio ends.
    pub(super) has_passes: bool,
}

/// Sets how `workload` makes its writes durable; refuses two methods at once. True if a sync holds up
/// its job.
pub(super) fn set_syncs(
    options: &DurabilityOptions,
    writing: Writing,
    (workload, at): (&mut Workload, &SourcePosition),
    said: &mut ImportNotes,
) -> bool {
    let DurabilityOptions { open, fsync_every, fdatasync_every, fsync_at_end, fsync_on_close } =
        options;
    if !writing.writes {
        let given = fsync_every.as_ref().or(fdatasync_every.as_ref());
        if let Some(given) = given.filter(|given| given.value > 0) {
            said.note(given, "a job that only reads syncs nothing");
        }
        return false;
    }
    if writing.is_mapped {
        let reason = "it has no effect on mapped files, as in fio; use fsync=1 or fdatasync=1";
        said.refuse_unless(open, |open| *open == SyncOpen::None, reason);
    }
    let every = |given: &GivenOption<u32>, method| SyncPolicy { method, every: or(given, 0) };
    let policies = [
        match or(open, SyncOpen::None) {
            SyncOpen::None => SyncPolicy::NONE,
            SyncOpen::Sync => SyncPolicy::each(SyncMethod::OSync),
            SyncOpen::Dsync => SyncPolicy::each(SyncMethod::ODsync),
        },
        every(fsync_every, SyncMethod::Fsync),
        every(fdatasync_every, SyncMethod::Fdatasync),
    ];
    let mut policies =
        policies.into_iter().filter(|policy| *policy != SyncPolicy::NONE && policy.every > 0);
    let policy = policies.next().unwrap_or(SyncPolicy::NONE);
    let last = fdatasync_every.as_ref().or(fsync_every.as_ref());
    let at = last.map_or(at, |given| &given.at);
    if policies.next().is_some() {
        let reason = "durio uses one way to make writes durable: one of fsync, fdatasync, sync";
        said.refuse_at(at, "fsync", reason);
    }
    separate_calls(policy, writing, at, said);
    let at_end = [fsync_at_end, fsync_on_close].map(|given| at_end(given, writing, said));
    let is_call = policy.method.is_separate_call();
    // With a sync after each write, the last write has its own.
    workload.syncs_at_end = at_end.contains(&true) && !(is_call && policy.every == 1);
    workload.sync = policy;
    writing.blocks && is_call && writing.depth > 1
}

fn at_end(given: &GivenOption<bool>, writing: Writing, said: &mut ImportNotes) -> bool {
    if writing.has_passes {
        let reason = "fio syncs at the end of each pass over the file, durio once at the end of \
                      all; use a single pass";
        said.refuse_unless(given, |on| !on, reason);
    }
    or(given, false)
}

fn separate_calls(
    policy: SyncPolicy,
    writing: Writing,
    at: &SourcePosition,
    said: &mut ImportNotes,
) {
    if !policy.method.is_separate_call() {
        return;
    }
    let option = policy.method.name();
    said.note_at(at, option, "durio also syncs after the last write, which fio leaves out");
    if writing.depth > 1 && writing.blocks {
        let what = "the job submits nothing until each sync returns, as in fio before 3.41; later \
                    versions keep syncs in flight";
        said.note_at(at, option, what);
    }
    if writing.depth > 1 {
        let what = "durio syncs when the write that the sync covers is complete; fio does not wait \
                    for writes in flight";
        said.note_at(at, option, what);
    }
    if writing.reads {
        let what = "durio syncs only after writes; older fio (such as 3.33) also syncs after \
                    reads";
        said.note_at(at, option, what);
    }
}
