//! From the steps of a ladder of load to its phases, its knee and its best points.
//!
//! In: for each level of load (jobs, depth or offered rate) the rate and latency that were measured.
//! Out: [`LadderFindings`]. Not here: running a ladder, and what limited a step
//! ([`limits`] tells that from the evidence of one step).

mod best;
mod checked;
mod knee;
pub mod limits;
mod phases;
mod saturation;

use serde::{Deserialize, Serialize};

use crate::Declined;

pub use best::{BestPoints, WORTHWHILE_ELASTICITY};
pub use knee::Knee;
pub use phases::{LINEAR_EFFICIENCY, Phase, Phases, RETROGRADE_LOSS, Retrograde};
pub use saturation::{Saturation, SaturationModel};

/// What is raised from level to level.
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

/// Rate and latency of the reads or of the writes of a mixed step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Operations per second.
    pub rate_per_second: f64,
    /// Mean service latency.
    pub latency_ns_mean: f64,
}

/// One level of a ladder, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
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
    pub read: Option<Part>,
    /// The writes, of a mixed step.
    pub write: Option<Part>,
}

impl Point {
    /// A level of one kind of operation, of which only means are known.
    #[must_use]
    pub fn of_means(level: f64, in_flight: f64, part: Part) -> Self {
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
    #[must_use]
    pub fn of_mix(level: f64, in_flight: f64, read: Part, write: Part) -> Self {
        let rate = read.rate_per_second + write.rate_per_second;
        let waited = read.rate_per_second * read.latency_ns_mean
            + write.rate_per_second * write.latency_ns_mean;
        let both = Part { rate_per_second: rate, latency_ns_mean: waited / rate };
        let point = Self::of_means(level, in_flight, both);
        Self { read: Some(read), write: Some(write), ..point }
    }
}

/// What a level is, among the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointFindings {
    /// The level as measured.
    pub measured: Point,
    /// Where it lies on the curve.
    pub phase: Phase,
    /// Rate as a share of the linear extrapolation of the ladder's best rate per operation in
    /// flight; of an offered rate, the share of it that was achieved.
    pub efficiency_share: f64,
    /// d ln(rate) ÷ d ln(level) from the level before it: 1 is perfect scaling, 0 none, below 0 a
    /// loss. `None` for the first level.
    pub elasticity: Option<f64>,
    /// Rate × mean latency ÷ operations in flight, by Little's law 1 for a closed loop: above it one
    /// of the figures is wrong, below it jobs spent time elsewhere or latency is understated.
    pub little_share: f64,
}

/// A point of the curve of latency against rate, in the order of the levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyAtRate {
    /// The level.
    pub level: f64,
    /// Operations per second.
    pub rate_per_second: f64,
    /// Mean service latency.
    pub latency_ns_mean: f64,
    /// 99 % quantile, if there is one.
    pub latency_ns_p99: Option<f64>,
}

/// What a ladder tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LadderFindings {
    /// What was raised.
    pub kind: LadderKind,
    /// Each level with its phase and efficiency.
    pub points: Vec<PointFindings>,
    /// Where the phases begin and end.
    pub phases: Phases,
    /// Which levels were the last that were worth their load.
    pub best: BestPoints,
    /// The knee: how many operations the storage works on at the same time.
    pub knee: Knee,
    /// The curve that was fitted; `None` if none fits.
    pub saturation: Option<Saturation>,
    /// Latency against rate, to be drawn.
    pub latency_against_rate: Vec<LatencyAtRate>,
    /// What is odd about the figures, as sentences.
    pub notes: Vec<String>,
}

/// Fewest levels from which phases can be told: two that scale, one that bends, one that is flat.
pub const LEVELS_MIN: usize = 4;

/// Most levels that are taken; a ladder of a thousand steps is a mistake.
pub const LEVELS_MAX: usize = 256;

/// Analyses a ladder: levels rising, rates and latencies above zero.
///
/// # Errors
///
/// [`Declined`] for fewer than [`LEVELS_MIN`] or more than [`LEVELS_MAX`] levels, levels that do not
/// rise, figures that are not finite and above zero, and a rate that dips so far that neither phase
/// nor knee could be trusted.
pub fn analyse(points: &[Point], kind: LadderKind) -> Result<LadderFindings, Declined> {
    checked::check(points)?;
    let efficiencies = phases::efficiencies(points, kind);
    let best = best::best_points(points);
    let phases = phases::phases(points, &efficiencies, &best);
    let saturation = saturation::fit(points, kind);
    Ok(LadderFindings {
        kind,
        knee: knee::knee(points, kind, &best, saturation.as_ref()),
        points: point_findings(points, &efficiencies, &phases),
        notes: checked::notes(points, kind, &efficiencies),
        latency_against_rate: points.iter().map(latency_at_rate).collect(),
        phases,
        best,
        saturation,
    })
}

fn point_findings(points: &[Point], efficiencies: &[f64], phases: &Phases) -> Vec<PointFindings> {
    let before = std::iter::once(None).chain(points.iter().map(Some));
    let found = points.iter().zip(efficiencies).zip(before).map(|((point, efficiency), before)| {
        PointFindings {
            measured: point.clone(),
            phase: phases.of(point.level),
            efficiency_share: *efficiency,
            elasticity: before.map(|before| best::elasticity(before, point)),
            little_share: checked::little_share(point),
        }
    });
    found.collect()
}

fn latency_at_rate(point: &Point) -> LatencyAtRate {
    LatencyAtRate {
        level: point.level,
        rate_per_second: point.rate_per_second,
        latency_ns_mean: point.latency_ns_mean,
        latency_ns_p99: point.latency_ns_p99,
    }
}
