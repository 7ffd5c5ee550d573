//! The cost of one sync, by the data that it has to make durable: the time of a flush against the
//! data written before it, and the cost of a write with a sync after every N.
//!
//! The arms of both experiments give [`FlushSlope`], a line and whether it rises, and
//! [`SharedSync`]. The signals judge what a slope implies for the device's cache.

use durio_base::stats::least_squares::{distinct, float, range};
use durio_plan::Experiment;
use serde::{Deserialize, Serialize};

use super::arm::{ArmSetting, DurableArm, ExperimentInput, arms, by_key};
use crate::DeclinedAnalysis;
use crate::cost_model::{Estimate, relative_fit, time};

/// Dirty data, and the flush after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlushPoint {
    /// Blocks written since the flush before.
    pub blocks: u32,
    pub dirty_bytes: f64,
    /// Median time of the flush.
    pub flush_ns_p50: f64,
}

/// The direction of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlopeShape {
    /// A flush takes longer the more was written before it.
    Rises,
    /// A flush takes as long after any amount.
    Flat,
    /// The times scatter too much.
    CannotTell,
}

impl SlopeShape {
    /// As users read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Rises => "rises",
            Self::Flat => "flat",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The line through the points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlushSlope {
    /// Time of a flush after next to nothing.
    pub intercept_ns: Estimate,
    /// What each MiB (2²⁰ bytes) of dirty data adds.
    pub ns_per_mib: Estimate,
    /// Whether it rises, by [`RISE_SHARE`].
    pub shape: SlopeShape,
    /// The line's rise over the measured range, as a share of its value at the least amount.
    pub rise_share: f64,
    /// Dirty bytes per second that a flush writes back, by the slope; `None` unless it rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_bytes_per_second: Option<f64>,
}

/// The test of one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlushSlopeFindings {
    /// How it was set; `every` is that of the first point.
    pub setting: ArmSetting,
    /// One for each amount of dirty data, rising.
    pub points: Vec<FlushPoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope: Option<FlushSlope>,
    /// Why the slope is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
}

/// Fewest different amounts: two parameters, and two to spare.
pub const AMOUNTS_MIN: usize = 4;

/// A flush that takes half as long again after the most dirty data as after the least rises, if the
/// slope's interval excludes zero; one whose rise is below that at the upper end of the interval is
/// flat. durio's rule: scatter of medians on idle storage stays well below a half.
pub const RISE_SHARE: f64 = 0.5;

const MIB: f64 = 1_048_576.0;

/// Fits the line, by least squares of the relative error.
///
/// # Errors
/// [`DeclinedAnalysis`] for fewer than [`AMOUNTS_MIN`] different amounts, or values that are not above
/// zero.
pub fn flush_slope(points: &[FlushPoint]) -> Result<FlushSlope, DeclinedAnalysis> {
    DeclinedAnalysis::unless_positive("flush time", points.iter().map(|point| point.flush_ns_p50))?;
    DeclinedAnalysis::unless_positive(
        "amount of dirty data",
        points.iter().map(|point| point.dirty_bytes),
    )?;
    let amounts = distinct(points.iter().map(|point| point.dirty_bytes));
    DeclinedAnalysis::unless_enough("amounts of dirty data", amounts.len(), AMOUNTS_MIN)?;
    let columns: Vec<[f64; 2]> =
        points.iter().map(|point| [1.0, point.dirty_bytes / MIB]).collect();
    let times: Vec<f64> = points.iter().map(|point| point.flush_ns_p50).collect();
    // Relative errors: a slow cache that was honest took 10 ms after one block and 1.1 s after 256.
    // By absolute ones the small amounts, where the intercept shows, would not count.
    let fit = relative_fit(&columns, &times).ok_or_else(|| DeclinedAnalysis::TooFew {
        what: "amounts of dirty data that differ enough".to_owned(),
        given: 1,
        needed: AMOUNTS_MIN,
    })?;
    let range = amounts.first().copied().zip(amounts.last().copied()).unwrap_or_default();
    Ok(of_line(fit.estimates, range))
}

fn of_line([intercept_ns, ns_per_mib]: [Estimate; 2], (least, most): (f64, f64)) -> FlushSlope {
    let start = (intercept_ns.value + ns_per_mib.value * least / MIB).max(1.0);
    let rise = |slope: f64| slope * (most - least) / MIB / start;
    let (low, high) = ns_per_mib.interval().unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let rise_share = rise(ns_per_mib.value);
    // Flat needs evidence too, at the upper end of the interval: scatter must not pass for a cache
    // that has nothing to write.
    let shape = if low > 0.0 && rise_share >= RISE_SHARE {
        SlopeShape::Rises
    } else if rise(high) < RISE_SHARE {
        SlopeShape::Flat
    } else {
        SlopeShape::CannotTell
    };
    let rises = shape == SlopeShape::Rises;
    FlushSlope {
        intercept_ns,
        ns_per_mib,
        shape,
        rise_share,
        flush_bytes_per_second: rises.then(|| MIB / ns_per_mib.value * 1e9),
    }
}

pub(super) fn flush_slopes(measured: &ExperimentInput<'_>) -> Vec<FlushSlopeFindings> {
    let key = |setting: &ArmSetting| {
        (
            setting.method,
            setting.cache,
            setting.layout,
            setting.block_size,
            setting.location.clone(),
        )
    };
    let groups = by_key(arms(measured, Experiment::FlushSlope), key);
    groups.into_iter().filter_map(|arms| slope_of(&arms)).collect()
}

fn slope_of(arms: &[DurableArm]) -> Option<FlushSlopeFindings> {
    let mut points: Vec<FlushPoint> = arms.iter().filter_map(point).collect();
    points.sort_by_key(|point| point.blocks);
    let found = flush_slope(&points).and_then(|slope| describing_slope(slope, &points));
    let (slope, declined) = DeclinedAnalysis::split(found);
    Some(FlushSlopeFindings { setting: arms.first()?.setting.clone(), points, slope, declined })
}

/// A line through times that scatter by more than they rise is not worth reading.
fn describing_slope(
    slope: FlushSlope,
    points: &[FlushPoint],
) -> Result<FlushSlope, DeclinedAnalysis> {
    if slope.shape != SlopeShape::CannotTell {
        return Ok(slope);
    }
    let (low, high) = range(points.iter().map(|point| point.flush_ns_p50));
    let why = format!(
        "flushes take {} to {} whatever was written before, which would hide a rise",
        time(low),
        time(high)
    );
    Err(DeclinedAnalysis::DoesNotDescribe { model: "a line".to_owned(), why })
}

fn point(arm: &DurableArm) -> Option<FlushPoint> {
    let sync = arm.figures.as_ref()?.sync?;
    let blocks = arm.setting.every;
    let dirty_bytes = arm.setting.size() * f64::from(blocks);
    Some(FlushPoint { blocks, dirty_bytes, flush_ns_p50: sync.p50_ns.map_or(sync.mean_ns, float) })
}

/// N and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncEveryRow {
    /// As set and measured.
    #[serde(flatten)]
    pub arm: DurableArm,
    /// Time of the writer per write, its share of the syncs in it: one over the rate.
    pub ns_per_write: f64,
}

/// The cost of a write as a line over 1 ÷ N: the write itself, and a sync shared by N.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SharedSync {
    /// The write without its sync.
    pub write_ns: Estimate,
    /// A sync; where it takes longer the more was written, `residual_share_max` says by how much.
    pub sync_ns: Estimate,
    /// The largest relative error.
    pub residual_share_max: f64,
}

/// One method's row of N.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncEveryFindings {
    /// One for each N, rising.
    pub rows: Vec<SyncEveryRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SharedSync>,
    /// Why the line is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
}

/// Fewest different N for a line.
// Two parameters, and one to spare.
const POINTS_MIN: usize = 3;

pub(super) fn sync_every(measured: &ExperimentInput<'_>) -> Vec<SyncEveryFindings> {
    let key = |setting: &ArmSetting| {
        (
            setting.method,
            setting.cache,
            setting.layout,
            setting.block_size,
            setting.jobs,
            setting.location.clone(),
        )
    };
    let groups = by_key(arms(measured, Experiment::SyncEvery), key);
    groups.into_iter().map(every_rows).filter(|found| !found.rows.is_empty()).collect()
}

fn every_rows(arms: Vec<DurableArm>) -> SyncEveryFindings {
    let row = |arm: DurableArm| {
        let ns_per_write = f64::from(arm.setting.jobs) * 1e9 / arm.rate()?;
        Some(SyncEveryRow { arm, ns_per_write })
    };
    let mut rows: Vec<SyncEveryRow> = arms.into_iter().filter_map(row).collect();
    rows.sort_by_key(|row| row.arm.setting.every);
    let (line, declined) = DeclinedAnalysis::split(shared_sync(&rows));
    SyncEveryFindings { rows, line, declined }
}

fn shared_sync(rows: &[SyncEveryRow]) -> Result<SharedSync, DeclinedAnalysis> {
    let durable: Vec<&SyncEveryRow> =
        rows.iter().filter(|row| row.arm.setting.is_durable()).collect();
    DeclinedAnalysis::unless_enough("numbers of writes per sync", durable.len(), POINTS_MIN)?;
    let columns = durable.iter().map(|row| [1.0, 1.0 / f64::from(row.arm.setting.every.max(1))]);
    let figures: Vec<f64> = durable.iter().map(|row| row.ns_per_write).collect();
    let fit = relative_fit(&columns.collect::<Vec<_>>(), &figures);
    let fit = fit.ok_or_else(|| DeclinedAnalysis::TooFew {
        what: "numbers of writes per sync that differ".to_owned(),
        given: 1,
        needed: POINTS_MIN,
    })?;
    let [write_ns, sync_ns] = fit.estimates;
    let residual_share_max = fit.relative.iter().map(|error| error.abs()).fold(0.0, f64::max);
    describing_line(SharedSync { write_ns, sync_ns, residual_share_max })
}

/// A line that misses a point by more than half describes nothing; below that it is reported.
const MISSES_MAX: f64 = 0.5;

fn describing_line(line: SharedSync) -> Result<SharedSync, DeclinedAnalysis> {
    let why = if line.residual_share_max > MISSES_MAX {
        format!("it is off by up to {:.0} %", line.residual_share_max * 100.0)
    } else if !line.sync_ns.is_known() {
        let (low, high) = line.sync_ns.interval().unwrap_or_default();
        format!("the scatter allows any sync time from {} to {}", time(low), time(high))
    } else {
        return Ok(line);
    };
    Err(DeclinedAnalysis::DoesNotDescribe {
        model: "a model of write and shared sync".to_owned(),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(latency_ns: impl Fn(f64) -> f64) -> Vec<FlushPoint> {
        let scatter = [0.02, -0.03, 0.01, 0.03, -0.02, -0.01, 0.02];
        let point = |(power, scatter): (u32, f64)| {
            let blocks = 1 << (2 * power);
            let dirty_bytes = f64::from(blocks) * 4096.0;
            let flush_ns_p50 = latency_ns(dirty_bytes / MIB) * (1.0 + scatter);
            FlushPoint { blocks, dirty_bytes, flush_ns_p50 }
        };
        (0..7).zip(scatter).map(point).collect()
    }

    #[test]
    fn a_cache_that_is_written_back_rises_at_its_bandwidth() {
        let found = flush_slope(&points(|mib| 400_000.0 + 2e6 * mib)).unwrap();
        assert_eq!(found.shape, SlopeShape::Rises);
        assert!((found.ns_per_mib.value / 2e6 - 1.0).abs() < 0.1, "{found:?}");
        assert!((found.intercept_ns.value / 4e5 - 1.0).abs() < 0.05, "{found:?}");
        let bandwidth = found.flush_bytes_per_second.unwrap();
        assert!((bandwidth / (MIB * 500.0) - 1.0).abs() < 0.1, "{bandwidth}");
    }

    #[test]
    fn a_flush_that_does_nothing_is_flat() {
        let found = flush_slope(&points(|_| 25_000.0)).unwrap();
        assert_eq!((found.shape, found.flush_bytes_per_second), (SlopeShape::Flat, None));
    }

    #[test]
    fn scatter_is_neither() {
        let mut found = points(|_| 25_000.0);
        for (at, point) in found.iter_mut().enumerate() {
            point.flush_ns_p50 *= [1.0, 4.0, 0.6, 2.5, 0.5, 3.0, 1.2][at];
        }
        assert_eq!(flush_slope(&found).unwrap().shape, SlopeShape::CannotTell);
    }

    #[test]
    fn a_line_through_scatter_is_not_given() {
        let mut scattered = points(|_| 25_000.0);
        for (at, point) in scattered.iter_mut().enumerate() {
            point.flush_ns_p50 *= [1.0, 4.0, 0.6, 2.5, 0.5, 3.0, 1.2][at];
        }
        let found = describing_slope(flush_slope(&scattered).unwrap(), &scattered);
        assert!(found.unwrap_err().to_string().contains("does not fit"));
        let rising = points(|mib| 400_000.0 + 2e6 * mib);
        assert!(describing_slope(flush_slope(&rising).unwrap(), &rising).is_ok());
    }

    #[test]
    fn too_few_amounts_are_declined() {
        let few = &points(|_| 1e5)[..3];
        assert!(matches!(flush_slope(few), Err(DeclinedAnalysis::TooFew { given: 3, .. })));
        let bad = vec![FlushPoint { blocks: 1, dirty_bytes: 4096.0, flush_ns_p50: 0.0 }; 9];
        assert!(matches!(flush_slope(&bad), Err(DeclinedAnalysis::NotAFigure { .. })));
    }

    #[test]
    fn a_line_that_misses_its_points_or_knows_nothing_is_declined() {
        let known = |value: f64| Estimate { value, plus_minus: Some(value / 10.0) };
        let line = |sync_ns, residual_share_max| SharedSync {
            write_ns: known(3e3),
            sync_ns,
            residual_share_max,
        };
        assert!(describing_line(line(known(4e5), 0.4)).is_ok());
        let why = describing_line(line(known(4e5), 0.912)).unwrap_err().to_string();
        assert!(why.contains("off by up to 91 %"), "{why}");
        let vague = Estimate { value: 361e3, plus_minus: Some(751e3) };
        let why = describing_line(line(vague, 0.1)).unwrap_err().to_string();
        assert!(why.contains("any sync time from 0 ns to 1.11 ms"), "{why}");
    }

    #[test]
    fn the_time_of_a_flush_is_told_per_mib_and_its_bandwidth_in_bytes() {
        let point = |mib: u32| FlushPoint {
            blocks: 256 * mib,
            dirty_bytes: 1_048_576.0 * f64::from(mib),
            flush_ns_p50: 4e5 + 2e6 * f64::from(mib),
        };
        let found = flush_slope(&[1, 2, 3, 5, 9].map(point)).unwrap();
        assert!((found.ns_per_mib.value / 2e6 - 1.0).abs() < 1e-6, "{found:?}");
        // 500 MiB in a second.
        let bandwidth = found.flush_bytes_per_second.unwrap();
        assert!((bandwidth / 524_288_000.0 - 1.0).abs() < 1e-6, "{bandwidth}");
        assert!(flush_slope(&[1, 2, 3, 5].map(point)).is_ok());
    }

    #[test]
    fn a_flush_rises_from_half_as_long_again_on() {
        let known = |value: f64| Estimate { value, plus_minus: Some(value * 1e-6) };
        // From 1 ms after nothing to 1 + rise ms after 1 MiB.
        let shape = |rise: f64| of_line([known(1e6), known(1e6 * rise)], (0.0, 1_048_576.0)).shape;
        assert_eq!([shape(0.499), shape(0.501)], [SlopeShape::Flat, SlopeShape::Rises]);
    }

    #[test]
    fn a_line_describes_what_it_misses_by_half_at_most() {
        let known = |value: f64| Estimate { value, plus_minus: Some(value / 10.0) };
        let describes = |residual_share_max: f64| {
            let line = SharedSync { write_ns: known(3e3), sync_ns: known(4e5), residual_share_max };
            describing_line(line).is_ok()
        };
        assert_eq!([describes(0.499), describes(0.501)], [true, false]);
    }
}
