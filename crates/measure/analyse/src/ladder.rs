//! From the steps of a ladder of load to its phases, its knee and its best points.
//!
//! The rate and latency at each level of load (jobs, depth or offered rate) give
//! [`LadderFindings`]. [`limits`] finds what limited a step, from the evidence of that step.

pub mod limits;
mod phases;
mod saturation;

use serde::{Deserialize, Serialize};

use crate::DeclinedAnalysis;

pub use phases::{
    BestPoints, Knee, LINEAR_EFFICIENCY, LadderPhase, Phases, RETROGRADE_LOSS, Retrograde,
    WORTHWHILE_ELASTICITY,
};
pub use saturation::{Saturation, SaturationModel};

/// The parameter raised from level to level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LadderKind {
    /// Jobs, each with the same depth.
    Jobs,
    /// Operations that a job keeps in flight, with the same jobs.
    Depth,
    /// Operations per second that are offered, whatever the storage achieves (open loop).
    OfferedRate,
}

/// Rate and latency of one kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateAndLatency {
    pub rate_per_second: f64,
    pub latency_ns_mean: f64,
}

/// One level of a ladder, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LadderPoint {
    /// Jobs, depth, or offered operations per second, as [`LadderKind`] says.
    pub level: f64,
    /// Operations offered at once: jobs × depth; for an offered rate, the mean number in flight.
    pub in_flight: f64,
    /// Operations per second, reads and writes together.
    pub rate_per_second: f64,
    /// Mean service latency, over reads and writes in proportion to their number.
    pub latency_ns_mean: f64,
    /// Median of the service latency, if there were enough samples.
    pub latency_ns_p50: Option<f64>,
    /// 99 % quantile of the service latency, if there were enough samples.
    pub latency_ns_p99: Option<f64>,
    /// The reads, of a mixed step.
    pub read: Option<RateAndLatency>,
    /// The writes, of a mixed step.
    pub write: Option<RateAndLatency>,
}

impl LadderPoint {
    /// A level of one kind of operation, of which only means are known.
    pub fn of_means(level: f64, in_flight: f64, part: RateAndLatency) -> Self {
        Self {
            level,
            in_flight,
            rate_per_second: part.rate_per_second,
            latency_ns_mean: part.latency_ns_mean,
            latency_ns_p50: None,
            latency_ns_p99: None,
            read: None,
            write: None,
        }
    }

    /// A mixed level: rates are added, latencies weighed by their rates.
    pub fn of_mix(level: f64, in_flight: f64, read: RateAndLatency, write: RateAndLatency) -> Self {
        let rate = read.rate_per_second + write.rate_per_second;
        let waited = read.rate_per_second * read.latency_ns_mean
            + write.rate_per_second * write.latency_ns_mean;
        let both = RateAndLatency { rate_per_second: rate, latency_ns_mean: waited / rate };
        let point = Self::of_means(level, in_flight, both);
        Self { read: Some(read), write: Some(write), ..point }
    }
}

/// A level's position among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointFindings {
    /// The level as measured.
    pub measured: LadderPoint,
    /// Where it lies on the curve.
    pub phase: LadderPhase,
    /// Rate as a share of the linear extrapolation of the ladder's best rate per operation in
    /// flight; of an offered rate, the share of it that was achieved.
    pub efficiency_share: f64,
    /// d ln(rate) ÷ d ln(level) from the previous level: 1 scales perfectly, 0 not at all.
    pub elasticity: Option<f64>,
    /// Rate × mean latency ÷ operations in flight, by Little's law 1 for a closed loop: above it
    /// one of the values is wrong, below it jobs spent time elsewhere or latency is understated.
    pub little_share: f64,
}

/// A point of the curve of latency against rate, in the order of the levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyAtRate {
    pub level: f64,
    pub rate_per_second: f64,
    pub latency_ns_mean: f64,
    /// 99 % quantile, if there is one.
    pub latency_ns_p99: Option<f64>,
}

/// The results of a ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LadderFindings {
    pub kind: LadderKind,
    /// Each level with its phase and efficiency.
    pub points: Vec<PointFindings>,
    /// Where the phases start and end.
    pub phases: Phases,
    /// Which levels were the last that were worth their load.
    pub best: BestPoints,
    /// The knee: how many operations the storage works on at the same time.
    pub knee: Knee,
    /// The curve that was fitted; `None` if none fits.
    pub saturation: Option<Saturation>,
    /// Latency against rate, to be drawn.
    pub latency_against_rate: Vec<LatencyAtRate>,
    /// Oddities of the results, as sentences.
    pub notes: Vec<String>,
}

/// Fewest levels that show phases: two that scale, one that bends, one that is flat.
pub const LEVELS_MIN: usize = 4;

/// Most levels that are taken; a ladder of a thousand steps is a mistake.
pub const LEVELS_MAX: usize = 256;

/// Analyses a ladder: levels rising, rates and latencies above zero.
///
/// # Errors
///
/// [`DeclinedAnalysis`] for fewer than [`LEVELS_MIN`] or more than [`LEVELS_MAX`] levels, levels that do
/// not rise, values that are not finite and above zero, and a rate that dips so far that neither
/// phase nor knee could be trusted.
pub fn analyse(
    points: &[LadderPoint],
    kind: LadderKind,
) -> Result<LadderFindings, DeclinedAnalysis> {
    check(points)?;
    let efficiencies = phases::efficiencies(points, kind);
    let best = phases::best_points(points);
    let phases = phases::phases(points, &efficiencies, &best);
    let saturation = saturation::fit(points, kind);
    let latency_at_rate = |point: &LadderPoint| LatencyAtRate {
        level: point.level,
        rate_per_second: point.rate_per_second,
        latency_ns_mean: point.latency_ns_mean,
        latency_ns_p99: point.latency_ns_p99,
    };
    Ok(LadderFindings {
        kind,
        knee: phases::knee(points, kind, &best, saturation.as_ref()),
        points: point_findings(points, &efficiencies, &phases),
        notes: notes(points, kind, &efficiencies),
        latency_against_rate: points.iter().map(latency_at_rate).collect(),
        phases,
        best,
        saturation,
    })
}

fn point_findings(
    points: &[LadderPoint],
    efficiencies: &[f64],
    phases: &Phases,
) -> Vec<PointFindings> {
    let before = std::iter::once(None).chain(points.iter().map(Some));
    let found = points.iter().zip(efficiencies).zip(before).map(|((point, efficiency), before)| {
        PointFindings {
            measured: point.clone(),
            phase: phases.of(point.level),
            efficiency_share: *efficiency,
            elasticity: before.map(|before| phases::elasticity(before, point)),
            little_share: little_share(point),
        }
    });
    found.collect()
}

/// A level this far below both an earlier and a later one is noise that no model should smooth
/// over.
// Repeated steps of an undisturbed device differ by a few per cent.
const DIP_MAX: f64 = 0.20;

/// Little's law cannot be exceeded by more.
// It cannot be exceeded at all: two per cent are left for rounding.
const LITTLE_MAX: f64 = 1.02;

/// Below it the shortfall is worth a sentence.
const LITTLE_MIN: f64 = 0.90;

/// The first levels' rate per operation may lie this far below the best before it is called odd.
const SUPERLINEAR_FROM: f64 = 0.90;

/// An error if the points are too few, too many, not rising, invalid, or too noisy.
fn check(points: &[LadderPoint]) -> Result<(), DeclinedAnalysis> {
    DeclinedAnalysis::unless_enough("levels", points.len(), LEVELS_MIN)?;
    DeclinedAnalysis::if_too_many("levels", points.len(), LEVELS_MAX)?;
    DeclinedAnalysis::unless_positive("level", points.iter().map(|point| point.level))?;
    DeclinedAnalysis::unless_positive(
        "number in flight",
        points.iter().map(|point| point.in_flight),
    )?;
    DeclinedAnalysis::unless_positive("rate", points.iter().map(|point| point.rate_per_second))?;
    DeclinedAnalysis::unless_positive(
        "mean latency",
        points.iter().map(|point| point.latency_ns_mean),
    )?;
    let falls = |pair: (&LadderPoint, &LadderPoint)| pair.1.level <= pair.0.level;
    if let Some(index) = points.iter().zip(points.iter().skip(1)).position(falls) {
        return Err(DeclinedAnalysis::NotRising { position: index + 2 });
    }
    let rates: Vec<f64> = points.iter().map(|point| point.rate_per_second).collect();
    for (index, point) in points.iter().enumerate() {
        let (before, after) = rates.split_at(index);
        // A rate that falls and stays low is retrograde; one that recovers contradicts both sides.
        let highest = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
        let beside = highest(before).min(highest(after.get(1..).unwrap_or_default()));
        let dip_share = 1.0 - point.rate_per_second / beside;
        if beside > 0.0 && dip_share > DIP_MAX {
            return Err(DeclinedAnalysis::Noisy { level: point.level, dip_share });
        }
    }
    Ok(())
}

/// Rate × latency ÷ in flight.
fn little_share(point: &LadderPoint) -> f64 {
    point.rate_per_second * point.latency_ns_mean / 1e9 / point.in_flight
}

/// Oddities of the ladder, as sentences.
fn notes(points: &[LadderPoint], kind: LadderKind, efficiencies: &[f64]) -> Vec<String> {
    // What follows holds load against load offered, which only a closed loop bounds.
    if kind == LadderKind::OfferedRate {
        return Vec::new();
    }
    let mut notes: Vec<String> = points.iter().filter_map(little_note).collect();
    notes.extend(superlinear_note(points, efficiencies));
    notes
}

fn little_note(point: &LadderPoint) -> Option<String> {
    let share = little_share(point);
    let says = if share > LITTLE_MAX {
        "impossible: one of the results is wrong"
    } else if share < LITTLE_MIN {
        "a shortfall: jobs spent time elsewhere, or latency is understated"
    } else {
        return None;
    };
    let (level, percent) = (point.level, share * 100.0);
    Some(format!(
        "level {level}: rate × mean latency is {percent:.0} % of the operations in flight; {says}"
    ))
}

fn superlinear_note(points: &[LadderPoint], efficiencies: &[f64]) -> Option<String> {
    let (first, share) = points.iter().zip(efficiencies).next()?;
    if *share >= SUPERLINEAR_FROM {
        return None;
    }
    let best = points.iter().zip(efficiencies).max_by(|a, b| a.1.total_cmp(b.1))?;
    Some(format!(
        "the rate per operation in flight is highest at level {}, {:.0} % above that of level {}: \
         load does not make storage faster, but it wakes a sleeping CPU or device; or a result is \
         wrong",
        best.0.level,
        (best.1 / share - 1.0) * 100.0,
        first.level
    ))
}
