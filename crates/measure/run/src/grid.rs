//! Where the intervals of a step lie: one grid, in nanoseconds since the step's begin.
//!
//! Ramp, interval and limit give the bounds of each interval ([`Grid`]), the end of a job
//! ([`JobBounds`]), and its place among the intervals on the clock of its engine ([`IntervalClock`]). Jobs
//! and collector share it: two grids, each rounded in a different way, would after a while number
//! the same interval differently.

use durio_base::{Bytes, Nanos};
use durio_block::{Clock, Ticks};
use durio_plan::Limit;
use durio_record::Phase;
use durio_workload::Workload;

/// The bounds of a step's intervals. The last one of the ramp ends with the ramp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    ramp: u64,
    interval: u64,
}

impl Grid {
    /// A grid of intervals of this length, in nanoseconds, after and within a ramp.
    pub(crate) fn new(ramp: u64, interval: u64) -> Self {
        // Intervals of no length would never reach the time that is looked for.
        Self { ramp, interval: interval.max(1) }
    }

    pub(crate) fn ramp_intervals(&self) -> u64 {
        self.ramp.div_ceil(self.interval)
    }

    /// Phase, begin and end of interval `index`, in nanoseconds since the step's begin.
    pub(crate) fn span(&self, index: u64) -> (Phase, u64, u64) {
        let ramp_intervals = self.ramp_intervals();
        if index < ramp_intervals {
            let from = index * self.interval;
            return (Phase::Ramp, from, from.saturating_add(self.interval).min(self.ramp));
        }
        let from = self.ramp.saturating_add((index - ramp_intervals).saturating_mul(self.interval));
        (Phase::Measure, from, from.saturating_add(self.interval))
    }
}

/// The boundaries of a job, in nanoseconds since the step's begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobBounds {
    pub(crate) ramp: u64,
    /// End of the step; none if operations are counted.
    pub(crate) end: Option<u64>,
    pub(crate) interval: u64,
    /// Accesses to issue; `u64::MAX` if something else ends the step.
    pub(crate) operations: u64,
    /// Bytes of accesses to issue, where blocks have several sizes; `u64::MAX` as above.
    pub(crate) bytes: u64,
}

impl JobBounds {
    /// The share of job `index` in a load's limit: operations and bytes are divided, the first jobs
    /// take the rest.
    pub(crate) fn of(
        limit: Limit,
        (ramp, interval): (Nanos, Nanos),
        workload: &Workload,
        index: u32,
    ) -> Self {
        let (ramp_end, interval_each) = (ramp.get(), interval.get());
        let share = |count: u64| {
            let jobs = u64::from(workload.jobs);
            count / jobs + u64::from(u64::from(index) < count % jobs)
        };
        let end = |duration: Nanos| Some(ramp_end.saturating_add(duration.get()));
        let (operations, bytes) = (u64::MAX, u64::MAX);
        let all = Self { ramp: ramp_end, end: None, interval: interval_each, operations, bytes };
        match limit {
            Limit::Duration(duration) => Self { end: end(duration), ..all },
            Limit::Operations(count) => Self { operations: share(count), ..all },
            // With a mix of sizes the end is found after an access: one would be made.
            Limit::Volume(Bytes::ZERO) => Self { operations: 0, ..all },
            Limit::Volume(bytes) if workload.has_mix() => Self { bytes: share(bytes.get()), ..all },
            Limit::Volume(bytes) => {
                let blocks = bytes.get().div_ceil(workload.block_size.get());
                Self { operations: share(blocks), ..all }
            }
            Limit::VolumeWithin { volume, duration } => {
                let of_volume = Self::of(Limit::Volume(volume), (ramp, interval), workload, index);
                Self { end: end(duration), ..of_volume }
            }
        }
    }

    pub(crate) fn grid(&self) -> Grid {
        Grid::new(self.ramp, self.interval)
    }
}

/// The interval that a job is in, on its engine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntervalClock {
    grid: Grid,
    started: Ticks,
    index: u64,
    end: Ticks,
}

// Ten years: longer than any run, and no clock overflows.
const END_MAX_NANOS: u64 = 10 * 366 * 86_400 * 1_000_000_000;

impl IntervalClock {
    pub(crate) fn new(grid: Grid) -> Self {
        Self { grid, started: Ticks::default(), index: 0, end: Ticks::default() }
    }

    /// Interval 0 begins at `started`.
    pub(crate) fn begin(&mut self, started: Ticks, clock: &impl Clock) {
        (self.started, self.index) = (started, 0);
        self.end = self.end_of(0, clock);
    }

    fn end_of(&self, index: u64, clock: &impl Clock) -> Ticks {
        let (_, _, end) = self.grid.span(index);
        // Each end from the begin, never by adding up: sums of rounded ticks fell short of the ramp, and every
        // later interval was numbered one too high.
        self.started.plus(clock.ticks(end.min(END_MAX_NANOS)))
    }

    /// True if `now` lies beyond the current interval. An interval includes its end: a completion
    /// at the last tick of a step belongs to it.
    #[inline(always)]
    pub(crate) fn is_over(&self, now: Ticks) -> bool {
        now > self.end
    }

    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// Goes to the interval in which `now` lies; true if the ramp ended on the way.
    pub(crate) fn advance(&mut self, now: Ticks, clock: &impl Clock) -> bool {
        let before = self.index;
        while self.is_over(now) {
            self.index += 1;
            self.end = self.end_of(self.index, clock);
        }
        let first_measured = self.grid.ramp_intervals();
        before < first_measured && self.index >= first_measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use durio_workload::{BlockShare, PerMille};
    use proptest::prelude::*;

    /// Ticks of a third of a nanosecond and the like: no interval is a whole number of them.
    struct OddClock(u64);

    impl Clock for OddClock {
        fn now(&self) -> Ticks {
            Ticks(0)
        }

        fn nanos(&self, ticks: u64) -> u64 {
            ticks * 1000 / self.0
        }

        fn ticks(&self, nanos: u64) -> u64 {
            u64::try_from(u128::from(nanos) * u128::from(self.0) / 1000).unwrap()
        }
    }

    #[test]
    fn the_ramp_s_last_interval_ends_with_it() {
        let grid = Grid::new(250, 100);
        assert_eq!(grid.span(2), (Phase::Ramp, 200, 250));
        assert_eq!(grid.span(3), (Phase::Measure, 250, 350));
        assert_eq!(Grid::new(0, 100).span(0), (Phase::Measure, 0, 100));
    }

    /// End, operations and bytes of each of five jobs.
    fn bounds(limit: Limit, workload: &Workload) -> [(Option<u64>, u64, u64); 5] {
        let times = (Nanos::new(700), Nanos::new(100));
        [0, 1, 2, 3, 4].map(|job| {
            let bounds = JobBounds::of(limit, times, workload, job);
            assert_eq!((bounds.ramp, bounds.interval), (700, 100));
            (bounds.end, bounds.operations, bounds.bytes)
        })
    }

    #[test]
    fn a_time_begins_behind_the_ramp_and_an_amount_is_shared_out_from_the_first_job_on() {
        let plain = Workload { jobs: 5, block_size: Bytes::from_kib(8), ..Workload::default() };
        let share = |kib| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(500) };
        let mixed = Workload { block_mix: vec![share(4), share(8)], ..plain.clone() };
        let all = u64::MAX;
        let duration = Nanos::new(9000);
        for workload in [&plain, &mixed] {
            let timed = bounds(Limit::Duration(duration), workload);
            assert_eq!(timed, [(Some(9700), all, all); 5]);
            let counted = bounds(Limit::Operations(12), workload);
            assert_eq!(counted, [3, 3, 2, 2, 2].map(|count| (None, count, all)));
            let nothing = bounds(Limit::Volume(Bytes::ZERO), workload);
            assert_eq!(nothing, [(None, 0, all); 5]);
        }
        // Eight blocks, the last of them for a single byte.
        let volume = Bytes::new(7 * 8192 + 1);
        let blocks = bounds(Limit::Volume(volume), &plain);
        assert_eq!(blocks, [2, 2, 2, 1, 1].map(|count| (None, count, all)));
        let bytes = bounds(Limit::Volume(volume), &mixed);
        assert_eq!(bytes, [11_469; 5].map(|part| (None, all, part)));
        let bytes = bounds(Limit::Volume(Bytes::new(1003)), &mixed);
        assert_eq!(bytes, [201, 201, 201, 200, 200].map(|part| (None, all, part)));
        let within = bounds(Limit::VolumeWithin { volume, duration }, &plain);
        assert_eq!(within, [2, 2, 2, 1, 1].map(|count| (Some(9700), count, all)));
    }

    proptest! {
        /// Intervals that were added up in ticks fell short of a ramp of ten of them, which made an
        /// eleventh of a few ticks, and every later one was numbered one too high.
        #[test]
        fn a_job_numbers_its_intervals_as_the_grid_does_on_any_clock(
            rate in 300_u64..6000,
            ramp in 0_u64..3_000_000_000,
            tenth in 1_u64..20,
            at in prop::collection::vec(0_u64..6_000_000_000, 1..20),
        ) {
            let ramp = if tenth % 2 == 0 { tenth * 100_000_000 } else { ramp };
            let grid = Grid::new(ramp, 100_000_000);
            let clock = OddClock(rate);
            let mut series = IntervalClock::new(grid);
            series.begin(Ticks(12_345), &clock);
            let mut at = at;
            at.sort_unstable();
            for nanos in at {
                series.advance(Ticks(12_345).plus(clock.ticks(nanos)), &clock);
                let (_, from, to) = grid.span(series.index());
                // A tick is up to 4 ns.
                prop_assert!(from <= nanos + 4 && nanos <= to + 4, "{nanos} in {from} to {to}");
            }
        }

        #[test]
        fn the_end_of_the_ramp_is_told_once(ramp in 1_u64..1000, interval in 1_u64..300) {
            let clock = OddClock(1000);
            let mut series = IntervalClock::new(Grid::new(ramp, interval));
            series.begin(Ticks(0), &clock);
            let told = (1..2000).step_by(7).filter(|&at| series.advance(Ticks(at), &clock));
            prop_assert_eq!(told.count(), 1);
        }
    }
}
