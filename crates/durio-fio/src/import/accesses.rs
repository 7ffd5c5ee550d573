//! Which accesses: `rw`, its mix, its sizes, its distribution.
//!
//! In: [`PatternOptions`]. Out: those fields of a [`Workload`], and its sizes. Not here: regions.

use durio_units::Bytes;
use durio_workload::{Coverage, Pattern, PerMille, Skew, Workload};

use super::said::{Said, or};
use super::sizes::{SizeOptions, Sizes, sizes};
use super::skew::skew;
use crate::job_file::{
    AccessPattern, Direction, Distribution, Given, PatternOptions, PerDirection, Place,
    RandomGenerator, ReadWrite, Sequencer,
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
        block_is_by_order,
        random_percent,
        distribution,
        no_random_map,
        soft_random_map,
        generator,
        repeatable,
        seed,
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
    said.refuse_unless(
        "bs_is_seq_rand",
        block_is_by_order.as_ref(),
        |on| !on,
        "durio's sizes are for reads and writes",
    );
    said_of_numbers(repeatable.as_ref(), seed.as_ref(), said);
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
                soft_map: soft_random_map.as_ref(),
                generator: generator.as_ref(),
            };
            random.set(&mut workload, at, said);
            sizes.check_alignment(at, said);
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

fn said_of_numbers(repeatable: Option<&Given<bool>>, seed: Option<&Given<u64>>, said: &mut Said) {
    let what = "durio draws its own numbers; every run has its seed in the record, and --seed \
                repeats it";
    if let Some(given) = repeatable {
        said.note("randrepeat", given, what);
    }
    if let Some(given) = seed {
        said.note("randseed", given, what);
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
    if workload.reads() && workload.writes() {
        let reason = "fio reads and writes at two places that move on by themselves, durio at one; \
                      write a job that reads and one that writes";
        said.refuse_at(at, "rw", reason);
    }
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
    soft_map: Option<&'o Given<bool>>,
    generator: Option<&'o Given<RandomGenerator>>,
}

impl Random<'_> {
    fn set(&self, workload: &mut Workload, at: &Place, said: &mut Said) {
        workload.pattern = Pattern::Random;
        workload.run_length = self.run;
        workload.skew =
            self.distribution.map_or(Skew::Uniform, |given| skew(given, self.direction, said));
        self.check(said);
        if self.covers() {
            workload.coverage = Coverage::EachOnce;
            self.check_map(workload, at, said);
        }
    }

    fn check(&self, said: &mut Said) {
        said.refuse_unless(
            "rw_sequencer",
            self.sequencer,
            |sequencer| *sequencer == Sequencer::Sequential || self.run == 1,
            "durio does not go to the same offset again and again",
        );
        for percent in [&self.percent.read, &self.percent.write] {
            said.refuse_unless(
                "percentage_random",
                percent.as_ref(),
                |percent| *percent == 100,
                "durio's accesses are all random or all sequential; write two jobs",
            );
        }
        if let Some(given) = self.soft_map {
            said.note("softrandommap", given, "durio's map needs no memory");
        }
    }

    /// Whether each block comes once before any comes again. Zipf and pareto have no map in fio.
    fn covers(&self) -> bool {
        let is_hot = self.distribution.is_some_and(|given| {
            matches!(given.value, Distribution::Zipf { .. } | Distribution::Pareto { .. })
        });
        let is_lfsr = self.generator.is_some_and(|given| given.value == RandomGenerator::Lfsr);
        !is_hot && (is_lfsr || !self.has_no_map)
    }

    /// With a map fio cuts accesses short that meet touched blocks.
    fn check_map(&self, workload: &Workload, at: &Place, said: &mut Said) {
        let what = if workload.has_mix() {
            "accesses of several sizes"
        } else if workload.run_length > 1 {
            "runs of accesses"
        } else if !workload.skew.is_uniform() {
            "zones"
        } else {
            return;
        };
        let at = self.access.map_or(at, |given| &given.at);
        let reason = format!(
            "with {what} fio's map of touched blocks cuts accesses short or moves them; add \
             norandommap, then fio and durio do the same"
        );
        said.refuse_at(at, "norandommap", &reason);
    }
}
