//! The document of a stack bench: plain data. Latencies are nanoseconds, rates are per second,
//! shares 0 to 1 (above 1 where a layer is faster than the one below).

use serde::{Deserialize, Serialize};

use super::points::{Base, BenchPoints, PointKind, RaidPoint, StepKey, Timing, full_name};
use crate::campaign::RowLatency;
use crate::mirror::{MirrorComparison, Penalty};
use crate::raid_efficiency::{RaidModel, model};
use crate::{LatencyBreakdown, WarningFinding};
use durio_base::stats::least_squares::float;

/// Name and version of the document.
pub const STACK_FINDINGS_SCHEMA: &str = "durio-stack-findings-1";

/// The meaning of instruction-counted values, printed next to them.
pub const COUNTED_LABEL: &str =
    "software cost per I/O without contention, from counted instructions: not a speed";

/// All findings of a bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StackFindings {
    /// Form of the document: [`STACK_FINDINGS_SCHEMA`].
    pub schema: String,
    /// Short name of the bench.
    pub name: String,
    /// The bench's purpose, in a sentence.
    pub summary: String,
    /// How time passed, if it was measured in the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// The kind of the values, if they are not speeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Why the results are provisional, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisional: Option<String>,
    /// Kernels that the runs were made on, each once.
    pub kernels: Vec<String>,
    /// The points, in the order given.
    pub points: Vec<PointFacts>,
    pub workloads: Vec<WorkloadRows>,
    /// Warnings to the reader of the results.
    pub warnings: Vec<WarningFinding>,
}

/// The facts of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointFacts {
    /// Name of the stack.
    pub stack: String,
    /// Label of the topmost layer.
    pub layer: String,
    /// The layers from the top down, without the raw storage: `ext4 on RAID5`.
    pub name: String,
    /// The kind of the topmost layer.
    pub kind: PointKind,
    /// The storage at the bottom.
    pub base: Base,
    /// Position of the point just below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<usize>,
    /// The array, if the topmost layer is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidFacts>,
    /// Why results are missing, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Facts that follow from the layout of an array alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaidFacts {
    /// The model of the whole array; `None` if the layout cannot exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<RaidModel>,
    /// Why the model is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
    /// Members that are failed and removed.
    pub degraded_members: u32,
    /// Further failures that it survives whichever members they hit.
    pub failures_left_min: u32,
    /// Further failures that it survives if they hit the right members.
    pub failures_left_max: u32,
}

/// One workload on all points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRows {
    pub key: StepKey,
    /// The same in words.
    pub label: String,
    /// A row for each point, in their order.
    pub rows: Vec<LayerRow>,
    /// The time that each layer adds, a waterfall for each stack with two points or more.
    pub waterfalls: Vec<Waterfall>,
    /// Published against measured shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedOrder>,
}

/// One workload on one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerRow {
    /// Position of the point in [`StackFindings::points`].
    pub point: usize,
    /// Why results are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<RowFigures>,
}

/// The results of a row; if repeated, all but the interval are of the repeat with the median rate.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RowFigures {
    /// Commits per second where there are any, else accesses per second.
    pub rate_per_second: f64,
    /// How sure that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_interval: Option<RateInterval>,
    /// How often it was measured.
    pub repeats: usize,
    /// 1 ÷ rate: for counted values, the software's time for an operation.
    pub time_per_operation_ns: f64,
    /// Service latency of the headline operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<RowLatency>,
    /// User and system CPU time per operation; `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_operation: Option<f64>,
    /// Context switches of the jobs per operation: where they waited, and where another process
    /// took the processor, which on one processor is how a woken process takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_operation: Option<f64>,
    /// Those of them in which the jobs did not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches_per_operation: Option<f64>,
    /// The raw storage that it is a share of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_point: Option<usize>,
    /// Rate ÷ that of the raw storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_raw: Option<f64>,
    /// Rate ÷ that of the point just below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_below: Option<f64>,
    /// Its difference to the raw storage; `None` for the raw storage itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_raw: Option<AddedCost>,
    /// Its difference to the point just below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_below: Option<AddedCost>,
    /// What reached the devices; `None` if nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceCost>,
    /// Where the time went.
    #[serde(default, rename = "time_slices", skip_serializing_if = "Option::is_none")]
    pub latency_breakdown: Option<LatencyBreakdown>,
    /// The array against its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidRow>,
    /// The mirror against the slowest of as many single devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MirrorRow>,
    /// The published share of raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_share_of_raw: Option<f64>,
    /// A remark on the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A range around a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RateInterval {
    pub low_per_second: f64,
    pub high_per_second: f64,
    pub basis: IntervalBasis,
}

/// The origin of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalBasis {
    /// The lowest and the highest of the repeats.
    Repeats,
    /// 95 %, from the means of ten batches of one run: what differs between runs is not in it.
    Batches,
}

/// A layer's cost over another: differences, below zero if it takes less.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AddedCost {
    /// Position of the other point.
    pub point: usize,
    /// Difference of 1 ÷ rate.
    pub time_per_operation_ns: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns_mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns_p50: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns_p99: Option<f64>,
    /// CPU time per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_operation: Option<f64>,
    /// Voluntary context switches per operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_operation: Option<f64>,
}

/// What reached the devices at the bottom, others' I/O included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "word")]
pub enum DeviceCost {
    /// The devices below count their requests.
    Counted {
        /// Device writes per write of the application.
        writes_per_write: f64,
        /// Bytes written at the devices per byte that the application wrote.
        bytes_per_byte: f64,
        /// Flushes per sync call; `None` without such calls, or if flushes are not counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flushes_per_sync_call: Option<f64>,
    },
    /// They do not, but single operations were traced: what these queued to the lowest devices.
    Traced {
        /// Device writes per write of the application.
        writes_per_write: f64,
        /// Bytes written at the devices per byte that the application wrote.
        bytes_per_byte: f64,
    },
    /// They do not, or were not asked.
    CannotTell { why: String },
}

/// An array's rate as a share of its model's; `declined` says why the model does not apply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RaidRow {
    /// Rate of all drives together, without the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_rate_per_second: Option<f64>,
    /// How that was had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    /// True if the processor, not the drives, limits the raw rate.
    #[serde(default)]
    pub processor_bound: bool,
    /// Measured rate ÷ that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_drives: Option<f64>,
    /// Share of the raw rate that the model gives to this mix, device writes only counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theoretical_share: Option<f64>,
    /// Measured rate ÷ (raw rate × theoretical share).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
    /// The share with device reads counted like writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theoretical_share_reads_counted: Option<f64>,
    /// The efficiency with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency_reads_counted: Option<f64>,
    /// For a degraded array: the point of the same array whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<usize>,
    /// For a degraded array: its rate ÷ that of the whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_healthy: Option<f64>,
    /// Why the model was not applied, or the whole array not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

/// A mirror's expected and measured times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MirrorRow {
    /// Time per write ÷ the single device's; only with as much in flight per drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<Penalty>,
    /// Its latencies against the maximum of independent draws from the single device's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<MirrorComparison>,
    /// A remark on the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// Which time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaterfallBasis {
    LatencyP50,
    /// Mean service latency, where a median is lacking.
    LatencyMean,
    /// 1 ÷ rate: for counted values, or without measured latencies.
    TimePerOperation,
}

impl WaterfallBasis {
    /// As readers know it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::LatencyP50 => "median service latency",
            Self::LatencyMean => "mean service latency",
            Self::TimePerOperation => "mean time per operation (1 ÷ rate)",
        }
    }

    pub(super) fn of(self, figures: &RowFigures) -> Option<f64> {
        let service = figures.service.as_ref();
        match self {
            Self::LatencyP50 => service?.p50_ns.map(float),
            Self::LatencyMean => service.map(|service| service.mean_ns),
            Self::TimePerOperation => Some(figures.time_per_operation_ns),
        }
    }
}

/// The layers of one stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waterfall {
    /// Name of the stack.
    pub stack: String,
    /// The kind of time.
    pub basis: WaterfallBasis,
    /// From the bottom up; points without results are left out.
    pub steps: Vec<WaterfallStep>,
}

/// One layer of a waterfall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaterfallStep {
    /// Position of the point.
    pub point: usize,
    /// Label of its topmost layer.
    pub layer: String,
    /// The time with this layer on top.
    pub total_ns: f64,
    /// Its difference to the step before; below zero if it takes less. All of it for the first.
    pub added_ns: f64,
}

/// Published shares against measured ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedOrder {
    pub sources: Vec<String>,
    /// Layer by layer, the largest published share first; raw storage is left out.
    pub rows: Vec<PublishedRow>,
    /// Pairs in the same order on both sides.
    pub pairs_same: usize,
    /// Pairs in the opposite order.
    pub pairs_other: usize,
    /// Pairs that one side cannot tell apart.
    pub pairs_undecided: usize,
    pub sentence: String,
}

/// One layer, wherever it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// The layers from the top down.
    pub name: String,
    /// Its share of raw as published.
    pub published: f64,
    /// The measured share; the median of several stacks; `None` without results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// Scatter of the measured shares: half of their range ÷ their median.
    pub spread: f64,
}

/// The facts of the point at a position.
pub(super) fn facts(bench: &BenchPoints<'_>, at: usize) -> Option<PointFacts> {
    let point = bench.points.get(at)?;
    Some(PointFacts {
        stack: point.stack.clone(),
        layer: point.layer.clone(),
        name: full_name(&bench.points, at),
        kind: point.kind,
        base: point.base.clone(),
        below: point.below,
        raid: point.raid.map(raid_facts),
        failure: point.failure.clone(),
    })
}

fn raid_facts(raid: RaidPoint) -> RaidFacts {
    let model = model(raid.array);
    // The least holds whichever members are gone; the most only if they were the right ones.
    let left = |survived: u32| survived.saturating_sub(raid.degraded_members);
    let of =
        |failures: fn(&RaidModel) -> u32| model.as_ref().map_or(0, |model| left(failures(model)));
    RaidFacts {
        failures_left_min: of(|model| model.failures_survived_min),
        failures_left_max: of(|model| model.failures_survived_max),
        degraded_members: raid.degraded_members,
        declined: model.as_ref().err().map(ToString::to_string),
        model: model.ok(),
    }
}
