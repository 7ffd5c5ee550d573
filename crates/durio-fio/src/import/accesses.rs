//! Which accesses: `rw`, its mix, its sizes, its distribution.
//!
//! In: [`PatternOptions`]. Out: those fields of a [`Workload`], and its sizes. Not here: regions.

use durio_units::Bytes;
use durio_workload::{Coverage, JumpShares, Pattern, PerMille, Skew, Workload, Zone};

use super::said::{Said, or};
use super::sizes::{SizeOptions, Sizes, sizes};
use crate::job_file::{
    AccessPattern, Direction, Distribution, Given, PatternOptions, PerDirection, Place,
    RandomGenerator, ReadWrite, Sequencer, ZoneShare,
};

/// fio's `rw` where nothing is said.
const ACCESS_DEFAULT: ReadWrite =
    ReadWrite { direction: Direction::Read, pattern: AccessPattern::Sequential { skip_bytes: 0 } };

/// Reads the pattern: a workload with these fields set, and its sizes.
pub(super) fn accesses(options: &PatternOptions, at: &Place, said: &mut Said) -> (Workload, Sizes) {
    let PatternOptions {
        access,
        sequencer,
        read_percent,
        block_bytes,
        align_bytes,
        block_range_bytes,
        block_split,
        block_unaligned,
        random_percent,
        distribution,
        no_random_map,
        generator,
    } = options;
    let ReadWrite { direction, pattern } = or(access.as_ref(), ACCESS_DEFAULT);
    let size_options = SizeOptions {
        block: block_bytes,
        range: block_range_bytes,
        split: block_split,
        align: align_bytes,
        unaligned: block_unaligned.as_ref(),
    };
    let sizes = sizes(&size_options, direction, said);
    let mut workload = Workload {
        read_share: read_share(direction, read_percent.as_ref()),
        block_size: Bytes::new(sizes.block_size),
        block_mix: sizes.mix.clone(),
        write_block_mix: sizes.write_mix.clone(),
        ..Workload::default()
    };
    match pattern {
        AccessPattern::Sequential { skip_bytes } => {
            sequential(&mut workload, skip_bytes, access.as_ref(), at, said);
        }
        AccessPattern::Random { run } => {
            let random = Random {
                direction,
                run,
                access: access.as_ref(),
                sequencer: sequencer.as_ref(),
                percent: random_percent,
                distribution: distribution.as_ref(),
                has_no_map: no_random_map.as_ref().is_some_and(|it| it.value),
                generator: generator.as_ref(),
            };
            random.set(&mut workload, said);
            if let Some(align) = sizes.alignment(at, said) {
                if !matches!(workload.skew, Skew::Uniform | Skew::Zones { .. }) {
                    let reason = "durio's hot blocks are aligned to the smallest size";
                    said.refuse_at(at, "random_distribution", reason);
                }
                // fio keeps no map of what was touched then.
                (workload.align, workload.coverage) = (Bytes::new(align), Coverage::Independent);
            }
        }
    }
    (workload, sizes)
}

/// fio mixes half and half unless it is told otherwise.
fn read_share(direction: Direction, percent: Option<&Given<u8>>) -> PerMille {
    match direction {
        Direction::Read => PerMille::ALL,
        Direction::Write => PerMille::NONE,
        Direction::Mixed => PerMille(u16::from(or(percent, 50)) * 10),
    }
}

fn sequential(
    workload: &mut Workload,
    skip_bytes: i64,
    access: Option<&Given<ReadWrite>>,
    at: &Place,
    said: &mut Said,
) {
    let at = access.map_or(at, |given| &given.at);
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

/// What is said of random accesses.
struct Random<'o> {
    direction: Direction,
    run: u32,
    access: Option<&'o Given<ReadWrite>>,
    sequencer: Option<&'o Given<Sequencer>>,
    percent: &'o PerDirection<Option<Given<u8>>>,
    distribution: Option<&'o Given<Distribution>>,
    has_no_map: bool,
    generator: Option<&'o Given<RandomGenerator>>,
}

impl Random<'_> {
    fn set(&self, workload: &mut Workload, said: &mut Said) {
        workload.pattern = Pattern::Random;
        workload.run_length = self.run;
        workload.skew =
            self.distribution.map_or(Skew::Uniform, |given| skew(given, self.direction, said));
        workload.jumps = self.jumps();
        workload.own_cursors = workload.jumps.is_some();
        self.check(said);
        if self.covers() {
            workload.coverage = Coverage::EachOnce;
            self.tell_of_runs(said);
        }
    }

    /// fio's `percentage_random`, where it is less than all.
    fn jumps(&self) -> Option<JumpShares> {
        let share = |given: &Option<Given<u8>>| PerMille(u16::from(or(given.as_ref(), 100)) * 10);
        let shares =
            JumpShares { reads: share(&self.percent.read), writes: share(&self.percent.write) };
        let of_reads = self.direction != Direction::Write && shares.reads < PerMille::ALL;
        let of_writes = self.direction != Direction::Read && shares.writes < PerMille::ALL;
        (of_reads || of_writes).then_some(shares)
    }

    fn check(&self, said: &mut Said) {
        said.refuse_unless(
            self.sequencer,
            |sequencer| *sequencer == Sequencer::Sequential || self.run == 1,
            "durio does not go to the same offset again and again",
        );
    }

    /// Whether each block comes once before any comes again. Zipf and pareto have no map in fio.
    fn covers(&self) -> bool {
        let is_hot = self.distribution.is_some_and(|given| {
            matches!(given.value, Distribution::Zipf { .. } | Distribution::Pareto { .. })
        });
        let is_lfsr = self.generator.is_some_and(|given| given.value == RandomGenerator::Lfsr);
        !is_hot && (is_lfsr || !self.has_no_map)
    }

    /// In fio the accesses that follow a jump are not in its map.
    fn tell_of_runs(&self, said: &mut Said) {
        if let (true, Some(given)) = (self.run > 1, self.access) {
            let what = "durio's runs do not overlap within a pass over the blocks, fio's may";
            said.note(given, what);
        }
    }
}

/// The skew of a distribution; uniform where it is refused.
fn skew(given: &Given<Distribution>, direction: Direction, said: &mut Said) -> Skew {
    match convert(&given.value, direction) {
        Ok(skew) => skew,
        Err(reason) => {
            said.refuse(given, &reason);
            Skew::Uniform
        }
    }
}

fn convert(distribution: &Distribution, direction: Direction) -> Result<Skew, String> {
    match distribution {
        Distribution::Uniform => Ok(Skew::Uniform),
        Distribution::Zipf { center: Some(_), .. }
        | Distribution::Pareto { center: Some(_), .. } => {
            Err("durio scatters the hot blocks and knows no center; leave it out".to_owned())
        }
        Distribution::Zipf { theta, center: None } => {
            let theta_per_mille = thousandths(*theta, 10_000)
                .ok_or("durio knows zipf from 0.001 to 10 in steps of 0.001")?;
            Ok(Skew::Zipf { theta_per_mille })
        }
        Distribution::Pareto { share, center: None } => {
            let h = thousandths(*share, 999).and_then(|h| u16::try_from(h).ok());
            let h_per_mille =
                h.ok_or("durio knows pareto from 0.001 to 0.999 in steps of 0.001")?;
            Ok(Skew::Pareto { h_per_mille })
        }
        Distribution::Normal { .. } => {
            Err("fio's normal distribution is another: a mean of twelve draws, moved by half the \
             deviation at most, and scattered over the region; use zipf, pareto or zoned"
                .to_owned())
        }
        Distribution::Zoned(zones) => zoned(zones, direction),
        Distribution::ZonedBytes(_) => {
            Err("durio's zones are shares of the region; write them in percent (zoned)".to_owned())
        }
    }
}

/// A number in whole thousandths from 1 to `max`.
fn thousandths(number: f64, max: u32) -> Option<u32> {
    let scaled = number * 1000.0;
    let is_whole = (scaled - scaled.round()).abs() < 1e-6;
    let is_within = scaled.round() >= 1.0 && scaled.round() <= f64::from(max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to `max`")]
    (is_whole && is_within).then(|| scaled.round() as u32)
}

fn zoned(zones: &PerDirection<Vec<ZoneShare>>, direction: Direction) -> Result<Skew, String> {
    let zones = match direction {
        Direction::Mixed if zones.read != zones.write => {
            return Err("durio's reads and writes have the same zones".to_owned());
        }
        Direction::Write => &zones.write,
        Direction::Read | Direction::Mixed => &zones.read,
    };
    let mut built = Vec::with_capacity(zones.len() + 1);
    let mut size_so_far = 0_u16;
    for zone in zones {
        let size = u16::try_from(zone.size).ok().filter(|percent| *percent <= 100);
        let size = PerMille(size.ok_or("a zone of more than 100 percent")? * 10);
        size_so_far = size_so_far.saturating_add(size.0);
        built.push(Zone { accesses: PerMille(u16::from(zone.access_percent) * 10), size });
    }
    let rest = 1000_u16.checked_sub(size_so_far).ok_or("zones of more than 100 percent")?;
    if rest > 0 {
        // fio never goes there.
        built.push(Zone { accesses: PerMille::NONE, size: PerMille(rest) });
    }
    Ok(Skew::Zones { zones: built })
}
