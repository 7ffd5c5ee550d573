//! Open loop: when operations should start, whatever the storage does.
//!
//! An [`ArrivalSchedule`] gives the intended starts of one job in nanoseconds since the step's start. It
//! knows no clock and never waits.

use durio_base::Nanos;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::DefinitionError;
use crate::skew::unit;

/// When a workload's operations start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// As soon as the one before in the same place of the queue is done: a closed loop.
    #[default]
    Closed,
    /// At equal distances.
    Constant {
        /// Accesses per second, all jobs together.
        rate_per_second: f64,
    },
    /// At random: a Poisson process, with exponential gaps.
    Poisson {
        /// Mean accesses per second, all jobs together.
        rate_per_second: f64,
    },
}

// More than any kernel takes from one machine; gaps stay above a tick of every clock.
const RATE_MAX: f64 = 1e9;
/// One in a week.
const RATE_MIN: f64 = 1.0 / 604_800.0;

const NANOS_PER_SECOND: f64 = 1e9;

impl Arrivals {
    /// True for a closed loop.
    pub fn is_closed(&self) -> bool {
        *self == Self::Closed
    }

    /// The offered rate per second, all jobs together; none in a closed loop.
    pub fn rate_per_second(&self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Constant { rate_per_second } | Self::Poisson { rate_per_second } => {
                Some(*rate_per_second)
            }
        }
    }

    /// The most arrivals within `span`; none in a closed loop. A Poisson process exceeds it in fewer
    /// than one of 10¹⁰ spans.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and counts are not negative"
    )]
    pub fn count_max(&self, span: Nanos) -> Option<u64> {
        let mean = self.rate_per_second()? * span.as_secs_f64();
        // The first is at the start, and starts are rounded down to nanoseconds.
        let most = match self {
            // Bernstein's inequality: P(X ≥ m + x) ≤ exp(−x² / (2m + 2x/3)), at most e^−24.5 here.
            Self::Poisson { .. } => mean + 7.0 * mean.sqrt() + 25.0,
            _ => mean + 2.0,
        };
        Some(most as u64)
    }

    /// The same process at another rate; a closed loop stays one.
    #[must_use]
    pub fn at_rate(self, rate_per_second: f64) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Constant { .. } => Self::Constant { rate_per_second },
            Self::Poisson { .. } => Self::Poisson { rate_per_second },
        }
    }

    /// Checks the rate.
    ///
    /// # Errors
    /// If it is beyond what a schedule can keep.
    pub fn validate(&self) -> Result<(), DefinitionError> {
        match self.rate_per_second() {
            Some(rate) if !(RATE_MIN..=RATE_MAX).contains(&rate) => Err(DefinitionError(format!(
                "a rate must be between one per week and {RATE_MAX} per second, not {rate}"
            ))),
            _ => Ok(()),
        }
    }
}

/// The intended starts of one job, ascending, without end.
#[derive(Debug, Clone)]
pub struct ArrivalSchedule(ArrivalProcess);

#[derive(Debug, Clone)]
enum ArrivalProcess {
    /// Arrivals `next`, `next + jobs`, … of a common sequence with gaps of `gap` nanoseconds.
    Constant { gap: f64, next: u64, jobs: u64 },
    /// `mean` nanoseconds between this job's arrivals; `whole` and `part` are the time so far, kept
    /// apart so that no nanosecond is lost after days.
    Poisson { mean: f64, whole: u64, part: f64, random: Box<Xoshiro256PlusPlus> },
}

impl ArrivalSchedule {
    /// The schedule of job `job` of `jobs`; none for a closed loop. Constant arrivals of all jobs
    /// together are equally spaced; Poisson processes of jobs add up to one (their superposition).
    ///
    /// # Panics
    /// If [`Arrivals::validate`] rejects the rate.
    pub fn new(arrivals: &Arrivals, job: u32, jobs: u32, seed: u64) -> Option<Self> {
        let rate = arrivals.rate_per_second()?;
        assert!(arrivals.validate().is_ok(), "a rate of {rate}");
        let gap = NANOS_PER_SECOND / rate;
        Some(Self(match arrivals {
            Arrivals::Poisson { .. } => ArrivalProcess::Poisson {
                // Each job has its own process; together they have the rate.
                mean: gap * f64::from(jobs),
                whole: 0,
                part: 0.0,
                // Not the seed of the offsets itself: times and places would come of the same
                // draws.
                random: Box::new(Xoshiro256PlusPlus::seed_from_u64(seed.rotate_left(32))),
            },
            _ => ArrivalProcess::Constant { gap, next: job.into(), jobs: jobs.into() },
        }))
    }

    /// The next intended start, in nanoseconds since the step's start.
    #[inline]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds of a run are below 2⁵³; gaps are not negative"
    )]
    pub fn next_start(&mut self) -> u64 {
        match &mut self.0 {
            ArrivalProcess::Constant { gap, next, jobs } => {
                // From the beginning each time: added up, the gaps would drift by their rounding.
                let start = *next as f64 * *gap;
                *next += *jobs;
                start as u64
            }
            ArrivalProcess::Poisson { mean, whole, part, random } => {
                // With parts of nanoseconds: fio's gaps of whole microseconds offer 394,000 per
                // second where 300,000 are asked for.
                *part -= unit(random).ln() * *mean;
                let full = part.floor();
                *part -= full;
                *whole += full as u64;
                *whole
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The starts of all jobs together, in order, up to `count`.
    fn starts(arrivals: &Arrivals, jobs: u32, count: usize) -> Vec<u64> {
        let each = count / jobs as usize + 1000;
        let mut all: Vec<u64> = (0..jobs)
            .flat_map(|job| {
                let mut schedule =
                    ArrivalSchedule::new(arrivals, job, jobs, 100 + u64::from(job)).unwrap();
                (0..each).map(move |_| schedule.next_start()).collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        all.truncate(count);
        all
    }

    #[test]
    fn constant_arrivals_of_all_jobs_are_equally_spaced_and_never_drift() {
        for (rate, jobs) in [(1000.0, 1), (300_000.0, 7), (1e6, 3), (3.0, 2)] {
            let arrivals = Arrivals::Constant { rate_per_second: rate };
            let starts = starts(&arrivals, jobs, 100_000);
            for (index, &start) in starts.iter().enumerate() {
                let exact = index as f64 * 1e9 / rate;
                assert!((start as f64 - exact).abs() <= 1.0, "{rate} {index}: {start} {exact}");
            }
        }
    }

    #[test]
    fn poisson_gaps_are_exponential_for_one_job_and_for_many_together() {
        for (rate, jobs) in [(1000.0, 1), (300_000.0, 8)] {
            let arrivals = Arrivals::Poisson { rate_per_second: rate };
            let starts = starts(&arrivals, jobs, 200_000);
            let gaps: Vec<f64> =
                starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * rate / 1e9).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            assert!((mean - 1.0).abs() < 0.01, "{rate}: mean {mean}");
            // Kolmogorov and Smirnov against 1 − e^−x; starts are whole nanoseconds, hence the
            // allowance of a nanosecond of the mean gap.
            let mut sorted = gaps.clone();
            sorted.sort_by(f64::total_cmp);
            let distance = sorted.iter().enumerate().map(|(index, gap)| {
                (1.0 - (-gap).exp() - (index as f64 + 0.5) / sorted.len() as f64).abs()
            });
            let bound = 1.63 / (sorted.len() as f64).sqrt() + rate / 1e9;
            let distance = distance.fold(0.0, f64::max);
            assert!(distance < bound, "{rate}: {distance} against {bound}");
        }
    }

    #[test]
    fn rates_that_no_schedule_can_keep_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e9, 1e-9] {
            assert!(Arrivals::Constant { rate_per_second: rate }.validate().is_err(), "{rate}");
        }
        assert!(Arrivals::Poisson { rate_per_second: 1e6 }.validate().is_ok());
        assert!(ArrivalSchedule::new(&Arrivals::Closed, 0, 1, 1).is_none());
    }

    #[test]
    fn rates_are_kept_changed_and_bounded() {
        let constant = |rate_per_second| Arrivals::Constant { rate_per_second };
        let poisson = |rate_per_second| Arrivals::Poisson { rate_per_second };
        assert_eq!(constant(5.0).at_rate(7.0), constant(7.0));
        assert_eq!(poisson(5.0).at_rate(7.0), poisson(7.0));
        assert_eq!(Arrivals::Closed.at_rate(7.0), Arrivals::Closed);
        assert!(
            Arrivals::Closed.is_closed() && !constant(1.0).is_closed() && !poisson(1.0).is_closed()
        );
        assert_eq!(constant(5.0).rate_per_second(), Some(5.0));
        assert_eq!(poisson(6.0).rate_per_second(), Some(6.0));
        assert_eq!(Arrivals::Closed.rate_per_second(), None);
        let fits = |rate| constant(rate).validate().is_ok();
        assert!(
            fits(RATE_MIN) && !fits(RATE_MIN * 0.999) && fits(RATE_MAX) && !fits(RATE_MAX * 1.001)
        );
        assert!(Arrivals::Closed.validate().is_ok());
    }

    #[test]
    fn a_span_has_at_most_the_arrivals_of_its_bound() {
        let span = Nanos::from_millis(500);
        let constant = Arrivals::Constant { rate_per_second: 3_000.0 };
        assert_eq!(constant.count_max(span), Some(1_502));
        let poisson = Arrivals::Poisson { rate_per_second: 20_000.0 };
        // 10,000, 7 standard deviations of 100, and 25.
        assert_eq!(poisson.count_max(span), Some(10_725));
        assert_eq!(Arrivals::Closed.count_max(span), None);
        for arrivals in [constant, poisson] {
            let within = starts(&arrivals, 3, 20_000).partition_point(|&at| at <= span.get());
            let most = arrivals.count_max(span).unwrap();
            let mean = arrivals.rate_per_second().unwrap() / 2.0;
            assert!(within as u64 <= most && within as f64 >= 0.9 * mean, "{within} of {most}");
        }
    }

    #[test]
    fn jobs_take_turns_and_each_has_its_own_process() {
        let starts = |arrivals: &Arrivals, job, jobs| {
            let mut schedule = ArrivalSchedule::new(arrivals, job, jobs, 5).unwrap();
            [0; 4].map(|_| schedule.next_start())
        };
        let constant = Arrivals::Constant { rate_per_second: 1e6 };
        assert_eq!(starts(&constant, 0, 3), [0, 3000, 6000, 9000]);
        assert_eq!(starts(&constant, 2, 3), [2000, 5000, 8000, 11_000]);
        // With one seed, the process of three jobs is three times as slow.
        let poisson = Arrivals::Poisson { rate_per_second: 1e3 };
        let (one, three) = (starts(&poisson, 0, 1), starts(&poisson, 0, 3));
        for (one, three) in one.into_iter().zip(three) {
            assert!(three.abs_diff(3 * one) <= 3, "{one} {three}");
        }
        assert!(one.is_sorted_by(|a, b| a < b), "{one:?}");
    }
}
