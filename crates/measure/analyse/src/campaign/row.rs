//! One line of a section's table: a step and stream, its repetitions or rounds taken together.

use durio_base::{Bytes, Nanos};
use durio_plan::{EngineKind, ParameterValue};
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use super::gather::RowGroup;
use crate::durable::device::SECTOR;
use crate::ladder::LadderPhase;
use crate::ladder::limits::LimitingFactor;
use crate::{Distribution, OperationFindings, WorkloadFindings};
use durio_base::stats::least_squares::{float, mean, median, range, saturating_sum};

/// The meaning of a row's values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "basis")]
pub enum RowBasis {
    /// Those of the one time that it was measured.
    Once,
    /// The median of each value over the repetitions.
    Repeats {
        count: usize,
        /// The lowest rate.
        rate_min_per_second: f64,
        /// The highest.
        rate_max_per_second: f64,
    },
    /// The mean of each value over the rounds of the measurement window, counted from one.
    Window {
        first_round: u32,
        last_round: u32,
        /// Whether the rule was fulfilled.
        steady: bool,
    },
    /// The trial that gave the search its answer, counted from one.
    Trial { round: u32 },
}

/// Latencies of a row; a percentile is absent if one of its measurements lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RowLatency {
    pub mean_ns: f64,
    /// 50th percentile.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
}

/// The load of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OfferedLoad {
    /// Accesses per second that were offered.
    pub offered_per_second: f64,
    /// Accesses per second that were done.
    pub achieved_per_second: f64,
    /// All but a hundredth of the arrivals were started: else the point is not part of a curve.
    pub keeps_up: bool,
}

/// One kind of operation within a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RowPart {
    pub operation: OperationName,
    /// Operations per second.
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
    pub service: RowLatency,
}

/// A step and stream, its repetitions or rounds taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CampaignRow {
    /// Index of the (first) step in the plan.
    pub step: u32,
    /// Place of the load among those of the step; above 0 it ran together with the first.
    pub stream: u32,
    /// Name of the workload.
    pub name: String,
    /// The location that the user named.
    pub location: String,
    /// Name of the target.
    pub target: String,
    /// Where it is on the axes of its section.
    pub levels: Vec<ParameterValue>,
    /// The meaning of the values.
    #[serde(flatten)]
    pub basis: RowBasis,
    /// The operation that the workload is about.
    pub headline: OperationName,
    /// True if every write was made durable.
    pub durable: bool,
    /// True if it ran to its limit, each time.
    pub complete: bool,
    /// Engine in use.
    pub engine: EngineKind,
    /// Jobs in use, in total.
    pub jobs: u32,
    /// Operations offered at once: jobs × depth.
    pub in_flight_offered: f64,
    /// Mean number in flight, as counted.
    pub in_flight_mean: f64,
    /// Bytes per access, the largest.
    pub block_size: Bytes,
    /// Commits per second where there are any, else accesses per second.
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
    /// Accesses per second.
    pub iops: f64,
    /// Bytes per second.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: f64,
    /// Service latency of the headline operation.
    pub service: Option<RowLatency>,
    /// Response latency of it, of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<RowLatency>,
    /// Every kind of operation, where there are several; the headline first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RowPart>,
    /// The rate offered by an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OfferedLoad>,
    /// Longest time in which nothing was in flight before it.
    #[serde(rename = "idle_before_ns", default, skip_serializing_if = "Option::is_none")]
    pub idle_before: Option<Nanos>,
    /// Bytes that the devices below read for each byte that was asked for; others' reads are in it,
    /// and a ramp is taken to be as fast as the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes_per_byte_read: Option<f64>,
    /// The same of writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_bytes_per_byte_written: Option<f64>,
    /// Where it lies on its curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<LadderPhase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitingFactor>,
}

impl CampaignRow {
    /// The level on an axis.
    #[must_use]
    pub fn level(&self, axis: &str) -> Option<&ParameterValue> {
        self.levels.iter().find(|level| level.axis == axis)
    }
}

/// The row of a group.
pub(super) fn row(group: &RowGroup<'_>) -> CampaignRow {
    let found = group.findings.as_slice();
    let first = group.first;
    // Rounds of a steady window are one state, whose mean is the result (SNIA); repetitions may
    // have an outlier, which a median leaves out.
    let taken = RowFindings { found, by_mean: matches!(group.basis, RowBasis::Window { .. }) };
    let offered = taken.of(|it| Some(it.open_loop?.offered_per_second));
    CampaignRow {
        step: first.step,
        stream: first.stream,
        name: first.name.clone(),
        location: first.location.clone(),
        target: first.target.clone(),
        levels: first.levels.clone(),
        basis: basis(group),
        headline: first.headline,
        durable: first.durable,
        complete: found.iter().all(|it| it.complete),
        engine: first.effective.engine,
        jobs: first.effective.jobs,
        in_flight_offered: first.in_flight.offered,
        in_flight_mean: taken.or_zero(|it| it.in_flight.counted),
        block_size: first.definition.block_size,
        rate: taken.or_zero(WorkloadFindings::headline_rate),
        iops: taken.or_zero(|it| it.iops),
        bandwidth: taken.or_zero(|it| it.bandwidth),
        service: taken.latency(|it| Some(&it.operation(it.headline)?.service)),
        response: taken.latency(|it| it.operation(it.headline)?.response.as_ref()),
        parts: parts(first, &taken),
        open_loop: offered.map(|offered_per_second| OfferedLoad {
            offered_per_second,
            achieved_per_second: taken
                .or_zero(|it| it.open_loop.map_or(0.0, |open| open.achieved_per_second)),
            keeps_up: found.iter().all(|it| it.open_loop.is_none_or(|open| open.keeps_up())),
        }),
        // The longest: a pause lets drives collect garbage, and one is enough to change the result.
        idle_before: found.iter().filter_map(|it| it.idle_before).max(),
        device_bytes_per_byte_read: taken.of(|it| device_share(it, true)),
        device_bytes_per_byte_written: taken.of(|it| device_share(it, false)),
        phase: None,
        limit: None,
    }
}

/// The findings of a row, to be taken together.
struct RowFindings<'a> {
    found: &'a [&'a WorkloadFindings],
    by_mean: bool,
}

impl<'a> RowFindings<'a> {
    /// A value that each of them has; else `None`.
    fn of(&self, figure: impl Fn(&'a WorkloadFindings) -> Option<f64>) -> Option<f64> {
        // All or nothing: a median of p99.9 over the steps long enough to have one would describe
        // only the longest.
        let figures: Option<Vec<f64>> = self.found.iter().map(|it| figure(it)).collect();
        let figures = figures?;
        if self.by_mean { mean(&figures) } else { median(&figures) }
    }

    fn or_zero(&self, figure: impl Fn(&'a WorkloadFindings) -> f64) -> f64 {
        self.of(|it| Some(figure(it))).unwrap_or(0.0)
    }

    fn latency(
        &self,
        of: impl Fn(&'a WorkloadFindings) -> Option<&'a Distribution>,
    ) -> Option<RowLatency> {
        let percentile = |which: fn(&Distribution) -> Option<u64>| {
            self.of(|it| which(of(it)?).map(float)).map(whole)
        };
        Some(RowLatency {
            mean_ns: self.of(|it| Some(of(it)?.mean_ns))?,
            p50_ns: percentile(|it| it.p50_ns),
            p99_ns: percentile(|it| it.p99_ns),
            p99_9_ns: percentile(|it| it.p99_9_ns),
        })
    }
}

fn parts(first: &WorkloadFindings, taken: &RowFindings<'_>) -> Vec<RowPart> {
    if first.operations.len() < 2 {
        return Vec::new();
    }
    let part = |operation: &OperationFindings| {
        let name = operation.operation;
        Some(RowPart {
            operation: name,
            rate: taken.of(|it| Some(it.operation(name)?.rate))?,
            service: taken.latency(|it| Some(&it.operation(name)?.service))?,
        })
    };
    first.operations.iter().filter_map(part).collect()
}

fn basis(group: &RowGroup<'_>) -> RowBasis {
    match group.basis {
        RowBasis::Once if group.findings.len() > 1 => {
            let (low, high) = range(group.findings.iter().map(|it| it.headline_rate()));
            RowBasis::Repeats {
                count: group.findings.len(),
                rate_min_per_second: low,
                rate_max_per_second: high,
            }
        }
        basis => basis,
    }
}

/// Bytes of the devices per byte of the operations, over the whole step.
fn device_share(workload: &WorkloadFindings, reads: bool) -> Option<f64> {
    let name = if reads { OperationName::Read } else { OperationName::Write };
    let asked = workload
        .operation(name)
        .or_else(|| (!reads).then(|| workload.operation(OperationName::Commit)).flatten())?
        .bandwidth;
    let devices = workload.devices.iter();
    let sectors =
        saturating_sum(devices.map(|it| if reads { it.sectors_read } else { it.sectors_written }));
    let span = workload.in_flight.span.max(workload.measured).as_secs_f64();
    let share = float(sectors) * SECTOR / (asked * span);
    let is_counted = workload.devices.iter().all(|device| !device.not_counted);
    let is_known = !workload.devices.is_empty() && is_counted && share.is_finite();
    is_known.then_some(share)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}
