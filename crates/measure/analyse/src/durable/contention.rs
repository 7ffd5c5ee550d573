//! How throughput grows with writers, as a law.
//!
//! Numbers of writers, and the total rate of each, give [`Contention`]: Gunther's universal
//! scalability law (Guerrilla Capacity Planning, 2007, chapter 4), X(n) = λ n ÷ (1 + σ (n − 1) + κ
//! n (n − 1)); with κ = 0 it is Amdahl's (1967), with both zero writers do not affect each other.
//!
//! n ÷ X(n), the time that a writer takes for a write, is linear in 1/λ, σ/λ and κ/λ, so that least
//! squares of its relative error need no start and find the best fit; neither σ nor κ may be below
//! zero. Intervals are by a bootstrap of the residuals (Efron, 1979): they respect the bounds.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;
use crate::cost_model::relative_fit;
use durio_base::stats::least_squares::{count, distinct, mean, position};
use durio_base::stats::student_95;

/// A number of writers and their total rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WritersRate {
    pub writers: f64,
    /// Writes per second, or any other unit of throughput.
    pub total_per_second: f64,
}

/// A value with the ends of the interval that covers it with 95 %, if the law holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FigureInterval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// Gunther's law with fitted parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// λ: the rate of a single writer, in the unit of the input.
    pub one_writer_per_second: FigureInterval,
    /// σ: the share of the work for which writers queue.
    pub contention: FigureInterval,
    /// κ: cost per pair, of agreeing among each other; above it throughput falls again.
    pub coherency: FigureInterval,
    /// Writers at which the law is highest, √((1 − σ) ÷ κ); `None` if it never falls.
    pub peak_writers: Option<f64>,
    /// Root of the mean squared relative error.
    pub residual_share: f64,
}

impl Law {
    /// Throughput by the law.
    pub fn total_per_second(&self, writers: f64) -> f64 {
        let (sigma, kappa) = (self.contention.value, self.coherency.value);
        let slowed = 1.0 + (writers - 1.0) * (sigma + kappa * writers);
        self.one_writer_per_second.value * writers / slowed
    }
}

/// How throughput grows with writers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contention {
    /// The law over all numbers of writers, or over those from `holds_from` on.
    pub law: Law,
    /// The smallest number of writers from which the law holds: its residual is at most
    /// [`HOLDS_SHARE`]. Above the first number, fewer writers are a special case; `None` if the law
    /// does not hold.
    pub holds_from: Option<f64>,
    /// Residual of the law over all numbers of writers.
    pub residual_share_all: f64,
}

/// Widest interval with which σ is reported.
// σ is a share: an interval of a half says nothing about it.
const SIGMA_WIDTH_MAX: f64 = 0.5;

impl Contention {
    /// The law, unless it does not describe the rates.
    ///
    /// # Errors
    /// [`DeclinedAnalysis::DoesNotDescribe`] if it misses them by more than [`HOLDS_SHARE`], or the share of
    /// the work for which writers queue could be nearly anything.
    pub fn describing(self) -> Result<Self, DeclinedAnalysis> {
        let sigma = self.law.contention;
        let why = if self.holds_from.is_none() {
            format!("it is off by {:.0} %", self.residual_share_all * 100.0)
        } else if sigma.high - sigma.low > SIGMA_WIDTH_MAX || sigma.value > 1.0 {
            let [low, high] = [sigma.low, sigma.high].map(|share| share * 100.0);
            format!("the scatter allows any σ from {low:.0} to {high:.0} %")
        } else {
            return Ok(self);
        };
        Err(DeclinedAnalysis::DoesNotDescribe { model: "Gunther's law".to_owned(), why })
    }
}

/// Fewest numbers of writers.
// Three parameters, and one to spare.
const LEVELS_MIN: usize = 4;

/// The law is taken to hold if it errs by at most a tenth: more than that shows on the chart.
pub const HOLDS_SHARE: f64 = 0.1;

/// Writers that are left out at most.
// If more had to be left out, the law would not fit.
const LEFT_OUT_MAX: usize = 2;

// So that 2.5 % at either end are ten draws, and the ends of an interval are not single ones.
const RESAMPLES: usize = 400;

/// Fits the law.
///
/// # Errors
/// [`DeclinedAnalysis`] for fewer than four different numbers of writers, or values that are not above
/// zero.
pub fn contention(points: &[WritersRate]) -> Result<Contention, DeclinedAnalysis> {
    DeclinedAnalysis::if_too_many("points", points.len(), crate::ladder::LEVELS_MAX)?;
    DeclinedAnalysis::unless_positive(
        "number of writers",
        points.iter().map(|point| point.writers),
    )?;
    DeclinedAnalysis::unless_positive(
        "throughput",
        points.iter().map(|point| point.total_per_second),
    )?;
    let levels = distinct(points.iter().map(|point| point.writers));
    DeclinedAnalysis::unless_enough("numbers of writers", levels.len(), LEVELS_MIN)?;
    let all = fit(points).ok_or(DeclinedAnalysis::NotRising { position: 1 })?;
    let left_out = levels.len().saturating_sub(LEVELS_MIN).min(LEFT_OUT_MAX);
    // A single writer shares its flush with no other, two already do (blk-flush merges waiting
    // flushes): the first levels may lie off the law of the rest.
    let tried = levels.iter().take(left_out + 1).find_map(|first| {
        let kept: Vec<WritersRate> =
            points.iter().filter(|point| point.writers >= *first).copied().collect();
        let found = fit(&kept).filter(|fit| fit.residual_share <= HOLDS_SHARE)?;
        Some((*first, kept, found))
    });
    let (holds_from, kept, found) = match tried {
        Some((first, kept, found)) => (Some(first), kept, found),
        None => (None, points.to_vec(), all),
    };
    Ok(Contention {
        law: with_intervals(&kept, found),
        holds_from,
        residual_share_all: all.residual_share,
    })
}

/// 1/λ, σ/λ, κ/λ, and how well they fit.
#[derive(Debug, Clone, Copy)]
struct ContentionFit {
    parameters: [f64; 3],
    residual_share: f64,
}

impl ContentionFit {
    fn time(&self, writers: f64) -> f64 {
        let [a, b, c] = self.parameters;
        a + (writers - 1.0) * (b + c * writers)
    }

    fn law(&self) -> [f64; 3] {
        let [a, b, c] = self.parameters;
        [1.0 / a, b / a, c / a]
    }
}

/// The best fit with λ and none, either or both of σ and κ, no parameter below zero.
fn fit(points: &[WritersRate]) -> Option<ContentionFit> {
    let times: Vec<f64> =
        points.iter().map(|point| point.writers / point.total_per_second).collect();
    let queue: Vec<f64> = points.iter().map(|point| point.writers - 1.0).collect();
    let pairs: Vec<f64> =
        points.iter().map(|point| point.writers * (point.writers - 1.0)).collect();
    let one = |column: &[f64]| -> Option<[f64; 2]> {
        let rows: Vec<[f64; 2]> = column.iter().map(|cell| [1.0, *cell]).collect();
        Some(relative_fit(&rows, &times)?.estimates.map(|estimate| estimate.value))
    };
    let both = || -> Option<[f64; 3]> {
        let rows: Vec<[f64; 3]> =
            queue.iter().zip(&pairs).map(|(queue, pairs)| [1.0, *queue, *pairs]).collect();
        Some(relative_fit(&rows, &times)?.estimates.map(|estimate| estimate.value))
    };
    let free = relative_fit(&vec![[1.0]; times.len()], &times).map(|fit| fit.estimates[0].value);
    // Least squares with bounds: the best point has some of the bounded parameters at zero, and
    // with two there are four cases, each of which is solved exactly.
    let candidates = [
        free.map(|a| [a, 0.0, 0.0]),
        one(&queue).map(|[a, b]| [a, b, 0.0]),
        one(&pairs).map(|[a, c]| [a, 0.0, c]),
        both(),
    ];
    // A parameter below zero would say that writers help each other; that is noise.
    let feasible =
        |parameters: &[f64; 3]| parameters[0] > 0.0 && parameters[1] >= 0.0 && parameters[2] >= 0.0;
    let fits = candidates.into_iter().flatten().filter(feasible).map(|parameters| {
        let fit = ContentionFit { parameters, residual_share: 0.0 };
        let squares: Vec<f64> =
            residuals(&fit, points).iter().map(|residual| residual * residual).collect();
        ContentionFit { residual_share: mean(&squares).unwrap_or_default().sqrt(), ..fit }
    });
    fits.min_by(|a, b| a.residual_share.total_cmp(&b.residual_share))
}

/// Time by the law over the measured, − 1.
fn residuals(fit: &ContentionFit, points: &[WritersRate]) -> Vec<f64> {
    points
        .iter()
        .map(|point| fit.time(point.writers) * point.total_per_second / point.writers - 1.0)
        .collect()
}

fn with_intervals(points: &[WritersRate], fit: ContentionFit) -> Law {
    let draws = draws(points, &fit);
    let [lambda, sigma, kappa] = fit.law();
    let interval = |at: usize, value: f64| {
        let mut values: Vec<f64> = draws.iter().map(|draw| draw[at]).collect();
        values.sort_by(f64::total_cmp);
        let end = |place: usize| values.get(place).copied().unwrap_or(value);
        // 2.5 % at either end.
        let cut = values.len() / 40;
        FigureInterval { value, low: end(cut), high: end(values.len().saturating_sub(cut + 1)) }
    };
    // Where the law's derivative is zero; there is no peak without κ.
    let peak = ((1.0 - sigma) / kappa).sqrt();
    Law {
        one_writer_per_second: interval(0, lambda),
        contention: interval(1, sigma),
        coherency: interval(2, kappa),
        peak_writers: (peak.is_finite() && peak >= 1.0).then_some(peak),
        residual_share: fit.residual_share,
    }
}

/// The laws of redrawn data: the fitted values with residuals drawn with replacement, enlarged for
/// the fitted parameters and for the small number of residuals (the quantile of Student over the
/// normal one).
fn draws(points: &[WritersRate], fit: &ContentionFit) -> Vec<[f64; 3]> {
    let own = residuals(fit, points);
    let spare = points
        .len()
        .saturating_sub(fit.parameters.iter().filter(|parameter| **parameter > 0.0).count());
    let few = student_95(spare.max(1)).unwrap_or(1.96) / 1.959_964;
    let enlarged = (count(own.len()) / count(spare.max(1))).sqrt() * few;
    // A fixed seed: a report of the same run must show the same interval again.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut draw = |_| {
        let again: Vec<WritersRate> = points
            .iter()
            .map(|point| {
                let error = enlarged * own[position(random.next_u64(), own.len())];
                // A large residual that is enlarged could make a time negative, and its rate
                // invalid.
                let time = fit.time(point.writers) * (1.0 + error).max(0.05);
                WritersRate { total_per_second: point.writers / time, ..*point }
            })
            .collect();
        super::contention::fit(&again).map(|fit| fit.law())
    };
    (0..RESAMPLES).filter_map(&mut draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLING: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn points(total: impl Fn(f64) -> f64) -> Vec<WritersRate> {
        let point =
            |writers: &f64| WritersRate { writers: *writers, total_per_second: total(*writers) };
        DOUBLING.iter().map(point).collect()
    }

    fn law(n: f64) -> f64 {
        1000.0 * n / (1.0 + 0.05 * (n - 1.0) + 4e-4 * n * (n - 1.0))
    }

    #[test]
    fn a_planted_law_is_found() {
        let found = contention(&points(law)).unwrap();
        assert!((found.law.one_writer_per_second.value / 1000.0 - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.law.contention.value / 0.05 - 1.0).abs() < 1e-6);
        assert!((found.law.coherency.value / 4e-4 - 1.0).abs() < 1e-6);
        let peak = found.law.peak_writers.unwrap();
        assert!((peak - (0.95_f64 / 4e-4).sqrt()).abs() < 0.01, "{peak}");
        assert_eq!(found.holds_from, Some(1.0));
        assert!((found.law.total_per_second(8.0) / law(8.0) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn amdahls_law_never_falls() {
        let found = contention(&points(|n| 1000.0 * n / (1.0 + 0.2 * (n - 1.0)))).unwrap();
        assert!((found.law.contention.value - 0.2).abs() < 1e-6, "{found:?}");
        assert!(
            found.law.coherency.value.abs() < 1e-6
                && found.law.peak_writers.is_none_or(|peak| peak > 1e3)
        );
    }

    #[test]
    fn intervals_cover_the_planted_parameters() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut noise = || {
            let uniform = |bits: u64| count(position(bits, 1 << 30)) / f64::from(1 << 30);
            (0..12).map(|_| uniform(random.next_u64())).sum::<f64>() - 6.0
        };
        let mut covered = [0_usize; 3];
        for _ in 0..40 {
            let mut noisy = points(law);
            noisy.extend(points(law));
            noisy.iter_mut().for_each(|point| point.total_per_second *= 1.0 + 0.03 * noise());
            let found = contention(&noisy).unwrap().law;
            let all = [found.one_writer_per_second, found.contention, found.coherency];
            for ((covered, it), planted) in covered.iter_mut().zip(all).zip([1000.0, 0.05, 4e-4]) {
                *covered += usize::from((it.low..=it.high).contains(&planted));
            }
        }
        assert!(covered.iter().all(|count| *count >= 36), "{covered:?} of 40");
    }

    #[test]
    fn a_law_that_misses_the_rates_or_knows_nothing_is_declined() {
        assert!(contention(&points(law)).unwrap().describing().is_ok());
        // One writer is disturbed, the others are not: seen on a busy machine.
        let disturbed = [(1.0, 334.0), (4.0, 62_200.0), (16.0, 22_600.0), (64.0, 126_000.0)];
        let point = |(writers, total_per_second)| WritersRate { writers, total_per_second };
        let found = contention(&disturbed.map(point)).unwrap().describing();
        let Err(DeclinedAnalysis::DoesNotDescribe { why, .. }) = found else { panic!("{found:?}") };
        assert!(why.starts_with("it is off by 6"), "{why}");
        let mut vague = contention(&points(law)).unwrap();
        vague.law.contention = FigureInterval { value: 0.637, low: 0.0, high: 17.54 };
        let why = vague.describing().unwrap_err().to_string();
        assert!(why.contains("any σ from 0 to 1754 %"), "{why}");
    }

    #[test]
    fn too_few_writers_are_declined() {
        let few = &points(law)[..3];
        assert!(matches!(contention(few), Err(DeclinedAnalysis::TooFew { given: 3, .. })));
        let mut odd = points(law);
        odd[2].total_per_second = f64::NAN;
        assert!(matches!(contention(&odd), Err(DeclinedAnalysis::NotAFigure { position: 3, .. })));
    }

    /// Rates of a law, each as often above it by this share as below.
    fn scattered(share: f64, levels: usize) -> Vec<WritersRate> {
        let law = &points(law)[..levels];
        let of = |factor: f64| {
            law.iter().map(move |point| WritersRate {
                total_per_second: point.total_per_second * factor,
                ..*point
            })
        };
        of(1.0 + share).chain(of(1.0 - share)).collect()
    }

    #[test]
    fn a_law_holds_if_it_errs_by_a_tenth_at_most() {
        // The root of the mean squared error is the share over √(1 + share²).
        let holds = |share| contention(&scattered(share, 8)).unwrap().holds_from;
        assert_eq!([holds(0.0985), holds(0.1025)], [Some(1.0), None]);
    }

    #[test]
    fn an_interval_is_as_wide_as_the_scatter_and_the_points_to_spare_make_it() {
        let found = contention(&scattered(0.02, 8)).unwrap().law;
        let half = |it: FigureInterval| (it.high - it.low) / 2.0;
        // 2 % of 16 points with three parameters: by least squares, and Student's 2.16 for the 13
        // that are spare, ± 21.6 of 1000 per second, and ± 0.0034 of σ.
        let (rate, share) = (half(found.one_writer_per_second), half(found.contention));
        assert!((17.0..27.0).contains(&rate), "{rate} per second");
        assert!((0.0027..0.0055).contains(&share), "{share}");
    }

    #[test]
    fn two_numbers_of_writers_are_left_out_at_most_and_four_are_kept() {
        let off = |count: usize, levels: usize| {
            let mut points = points(law);
            points.truncate(levels);
            points[..count].iter_mut().for_each(|point| point.total_per_second /= 40.0);
            contention(&points).unwrap().holds_from
        };
        assert_eq!(
            [off(0, 8), off(1, 8), off(2, 8), off(3, 8)],
            [Some(1.0), Some(2.0), Some(4.0), None]
        );
        assert_eq!(
            [off(0, 4), off(1, 5), off(2, 6), off(2, 5)],
            [Some(1.0), Some(2.0), Some(4.0), None]
        );
    }

    #[test]
    fn a_share_that_is_not_known_to_a_half_is_not_told() {
        let is_told = |value: f64, width: f64| {
            let mut found = contention(&points(law)).unwrap();
            found.law.contention = FigureInterval { value, low: 0.2, high: 0.2 + width };
            found.describing().is_ok()
        };
        assert_eq!([is_told(0.3, 0.499), is_told(0.3, 0.501)], [true, false]);
        assert_eq!([is_told(0.999, 0.1), is_told(1.001, 0.1)], [true, false]);
    }
}
