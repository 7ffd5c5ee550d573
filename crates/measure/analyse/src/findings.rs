//! The findings of a run: every number that a report shows, with its unit and its basis.
//!
//! This is also the JSON document of `--format json`: [`FINDINGS_SCHEMA`] names its version.
//! Latencies are nanoseconds, rates are per second, bandwidths bytes per second, shares 0 to 1.

mod judged;

use durio_base::Nanos;
use durio_base::stats::least_squares::float;
use durio_observe::{DeviceCounters, Host, Stack};
use durio_plan::{EngineKind, ParameterValue, Plan};
use durio_record::{Latency, Manifest, OperationName, Phase};
use durio_workload::{Arrivals, CacheMode, Workload};
use serde::{Deserialize, Serialize};

use crate::campaign::CampaignFindings;
use crate::declined::DeclinedStep;
use crate::durable::DurableFindings;
use crate::foreign_load::ForeignIo;
use crate::gated_start::GatedStart;
use crate::latency_breakdown::LatencyBreakdown;
use crate::prediction::PredictionFindings;
use crate::profile::ProfileFindings;
use crate::rate_variation::{Agreement, RateVariation};
use crate::why::WhyFindings;

pub use judged::{
    BandPosition, EvidenceReading, Explanation, ExplanationFact, ExplanationKind, MetLimit,
    PlacedClass, Placement, Signal, SignalWord, ThresholdSource, Verdict, VerdictWord,
    WarningFinding,
};

/// Name and version of the document.
pub const FINDINGS_SCHEMA: &str = "durio-findings-1";

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Every step ran to its limit.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// An error ended it.
    Failed,
    /// The record has no end: the run was killed, or is still running.
    Partial,
}

/// All findings of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Form of the document: [`FINDINGS_SCHEMA`].
    pub schema: String,
    /// Identity and command of the run.
    pub run: Manifest,
    pub state: RunState,
    /// Where the record is; as text.
    pub run_folder: String,
    /// The two results to read first: of the first durable workload, at its first location with
    /// results; `None` for campaigns, whose steps have no such first. Others are in their
    /// workloads' findings.
    #[serde(rename = "leading")]
    pub headline: Option<Headline>,
    /// Why the results are provisional, if they are.
    pub provisional: Option<String>,
    /// Commits that a check predicts, of each database at each location.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicted: Vec<PredictionFindings>,
    /// The measurements, in the order of the steps, each in all its rounds and streams.
    pub workloads: Vec<WorkloadFindings>,
    /// What brought the targets into their state, in the same form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditioning: Vec<WorkloadFindings>,
    /// The results of the steps together, if they are a campaign's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<CampaignFindings>,
    /// The log idle against the log under load, of a database's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileFindings>,
    /// A database's commits, if that was the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionFindings>,
    /// The cost of a durable write, if that was the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<DurableFindings>,
    /// Why the slowest of its own commits were slow, if it recorded that while it measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<WhyFindings>>,
    /// Fit or unfit, for each database that durio knows.
    pub verdicts: Vec<Verdict>,
    /// Each location's commits among those of typical storage, in a check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placement>,
    /// The signals on whether its flush can be trusted, most severe first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// Warnings to the reader of the results.
    pub warnings: Vec<WarningFinding>,
    /// What ended steps early.
    pub errors: Vec<String>,
    /// Steps that were refused, in the order in which that happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declined_steps: Vec<DeclinedStep>,
    /// durio's cost per I/O.
    pub self_cost: Vec<SelfCost>,
    /// The layers under each location.
    pub stack: Vec<Stack>,
    pub host: Host,
    /// The largest resident memory of the run's process, in bytes.
    pub memory_max_bytes: Option<u64>,
    pub plan: Plan,
}

/// The two results to read first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    pub workload: String,
    pub location: String,
    /// Durable commits per second, by one writer.
    pub durable_commits_per_second: f64,
    /// 99th percentile of a durable commit; `None` with fewer than 100 commits.
    pub commit_latency_ns_p99: Option<u64>,
    /// How much the rate varied; `None` with fewer than two whole intervals.
    #[serde(rename = "evenness", default, skip_serializing_if = "Option::is_none")]
    pub rate_variation: Option<RateVariation>,
    /// Rates of the same workload on the same target elsewhere in the run; `None` if it ran once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_workload: Option<Agreement>,
}

/// Summary of a set of latencies; a percentile is absent below 1 / (1 − q) samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub count: u64,
    pub mean_ns: f64,
    pub min_ns: u64,
    /// 1st percentile; absent below 100 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p1_ns: Option<u64>,
    pub p50_ns: Option<u64>,
    pub p90_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p99_9_ns: Option<u64>,
    pub p99_99_ns: Option<u64>,
    pub max_ns: u64,
}

/// A point of a distribution's curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Share of samples at or below the latency, 0 to 1 (below 1).
    pub quantile: f64,
    pub latency_ns: u64,
}

/// One kind of operation of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationFindings {
    pub operation: OperationName,
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
    /// Bytes per second; of commits, those that their writes moved.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: f64,
    /// Service latency (for commits: write and sync together).
    pub service: Distribution,
    /// Submit latency, for asynchronous engines.
    pub submit: Option<Distribution>,
    /// Completion latency, for asynchronous engines.
    pub completion: Option<Distribution>,
    /// Response latency, from the intended start, for open loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Distribution>,
    /// The service latency as a curve over the quantiles.
    pub curve: Vec<CurvePoint>,
    /// The response latency as a curve over the quantiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_curve: Vec<CurvePoint>,
    /// fio's histogram (bucket, count), if fio was the engine: the percentiles come from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fio_bins: Vec<(u32, u64)>,
    /// The whole latencies, if the analyser keeps them; not in the document.
    #[serde(skip)]
    pub kept: Option<KeptLatencies>,
}

/// Latencies of one kind of operation, for formats that show histograms.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptLatencies {
    pub service: Latency,
    /// Submit latency, for asynchronous engines.
    pub submit: Option<Latency>,
    /// Completion latency, for asynchronous engines.
    pub completion: Option<Latency>,
}

impl OperationFindings {
    /// The response latency at a percentile, from the curve; `None` with too few samples for it.
    pub fn response_curve_at(&self, percentile: f64) -> Option<u64> {
        let response = self.response.as_ref()?;
        let tail = float(response.count) * (1.0 - percentile / 100.0);
        if tail < 1.0 {
            return None;
        }
        let beyond =
            self.response_curve.iter().find(|point| point.quantile * 100.0 >= percentile - 1e-9);
        Some(beyond.map_or(response.max_ns, |point| point.latency_ns))
    }
}

/// An open loop: offered and reached rates, and delays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// The process of arrivals.
    pub arrivals: Arrivals,
    /// The rate of arrivals.
    pub offered_per_second: f64,
    /// Accesses per second that were done.
    pub achieved_per_second: f64,
    /// Arrivals that were due, over all phases.
    pub due: u64,
    /// Arrivals that found no place until the end: the storage did not keep up.
    pub never_started: u64,
    /// The share that was started.
    pub started_share: f64,
    /// The generator's lag: mean delay of the start of arrivals that found a free slot.
    pub lag_ns_mean: f64,
    /// The largest of those.
    pub lag_ns_max: u64,
    /// The latest start of all, for whatever reason.
    pub behind_ns_max: u64,
}

impl OpenLoop {
    /// True if at least 99 % of the arrivals were started: else the point is not part of a curve.
    pub fn keeps_up(&self) -> bool {
        self.started_share >= 0.99
    }
}

/// The batches of logs with group commit, all logs of a step together, over its measured phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchFindings {
    pub count: u64,
    /// Records per batch: the mean.
    pub records_mean: f64,
    /// Their median: half of the batches have at most this many.
    pub records_p50: u32,
    /// Their 99th percentile (the maximum below 100 batches).
    pub records_p99: u32,
    pub records_max: u32,
    /// Records made durable per sync call; `None` without such calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits_per_sync: Option<f64>,
    /// Share of the written bytes that only fill batches up, 0 to 1.
    pub padding_share: f64,
    /// Share of the batches before which the leader waited for more, 0 to 1.
    pub delayed_share: f64,
    /// Share of the batches that were full while records were left over, 0 to 1.
    pub full_share: f64,
    /// Writes completed by the device below with the most (others' I/O included), per record, over
    /// all phases. `None` without counters, or if other streams ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_writes_per_commit: Option<f64>,
    /// Numbers of records, each with its count of batches, ascending.
    pub sizes: Vec<(u32, u64)>,
}

/// A workload's written data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataFindings {
    /// In words, such as "incompressible, every block unique".
    pub contents: String,
    /// Share of the jobs' time spent making data before their writes started, 0 to 1: not in any
    /// latency, but in the time that the rate is divided by. Zero where records of a log are made
    /// while they are copied into a batch, and with fio as the engine.
    pub making_share: f64,
}

/// A step's effective settings, which may differ from its definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effective {
    pub engine: EngineKind,
    pub jobs: u32,
    /// Operations in flight per job.
    pub depth: u32,
    /// Operations per submission at most.
    pub batch: u32,
    /// Through or past the page cache.
    pub cache: CacheMode,
    /// The clock in use.
    pub clock: String,
    /// The features that the engine uses.
    pub features: Vec<String>,
    /// What could not be had, and why.
    pub fallbacks: Vec<String>,
}

/// Little's law, both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InFlightFindings {
    /// Mean number in flight by latency × rate.
    pub by_latency: f64,
    /// Mean number in flight by the independent time-weighted count.
    pub counted: f64,
    /// jobs × depth: operations offered at once.
    pub offered: f64,
    /// by_latency / counted − 1.
    pub deviation: f64,
    /// How long was counted.
    #[serde(rename = "span_ns")]
    pub span: Nanos,
    /// The engine's clock against the reference clock over that time, − 1.
    pub clock_deviation: f64,
    /// Mean measured time of a job ÷ the step's: below 1 some jobs finished before others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs_time_share: Option<f64>,
}

/// The device's time per request, by the kernel's counters, and the rest of the latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceTime {
    pub device: String,
    /// Requests per read or write of the workload. The kernel counts a flush that a sync waits for
    /// as a write, with the time that it took.
    pub requests_per_access: f64,
    /// Mean time of a request, from its entry into the device's queue to its completion there.
    pub request_ns_mean: f64,
    /// Mean time per read or write (with its sync, where it has one) outside of the device: in the
    /// submitting call, in the kernel above the device's queue, and until durio saw the completion.
    pub outside_ns_mean: f64,
    /// That as a share of the latencies.
    pub outside_share: f64,
    /// The latencies in three parts, with one operation under way per thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<TimeShares>,
}

/// Where the time of operations went, by counters alone: shares of the sum of all latencies of the
/// step, which add up to 1.
///
/// A thread with one operation under way waits for a CPU, has a request at the device, or is in the
/// kernel above the device. The kernel counts the first two; where they overlap, the wait counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeShares {
    /// Mean latency of a read or write, with its sync if it has one.
    pub mean_ns: f64,
    /// From the issue of a request to its completion.
    pub device: f64,
    /// Ready to run, without a CPU.
    pub cpu_wait: f64,
    /// The rest: system calls, and sleep until another thread of the kernel was done (a journal's).
    pub kernel: f64,
}

/// Where the processors' time went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuFindings {
    /// CPU time per operation, in nanoseconds: of the jobs and the rest of the process.
    pub per_operation_ns: f64,
    /// User CPU time of the jobs, in cores.
    pub user_cores: f64,
    /// System CPU time of the jobs, in cores.
    pub system_cores: f64,
    /// CPU time of the process outside of its jobs' threads, in cores: the kernel's workers for
    /// what io_uring cannot do at once. None in records that have it not.
    #[serde(default)]
    pub workers_cores: Option<f64>,
    /// CPU time of the busiest job, as a share of one core.
    pub busiest_job_share: f64,
    /// CPU time of each job, as a share of one core; with several threads in a job, their mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub job_shares: Vec<f64>,
    /// System time (with interrupts) of the whole machine, as a share of all cores.
    pub machine_system_share: Option<f64>,
    /// Time stolen by the hypervisor, as a share of all cores.
    pub machine_steal_share: Option<f64>,
    /// CPUs that other programs used at the same time, on average over ramp and measured phase; with
    /// kernel threads where `kernel_cores` is unknown. `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_cores: Option<f64>,
    /// CPUs that kernel threads used at the same time, for durio's I/O or other programs'. `None` if
    /// it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_cores: Option<f64>,
    /// Time that the process was held back by its CPU quota.
    #[serde(rename = "throttled_ns")]
    pub throttled: Option<Nanos>,
}

/// A point of the time series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalPoint {
    /// Whether it counts for the results.
    pub phase: Phase,
    /// Start, since the step's start.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// Accesses (commits, where there are any) per second.
    #[serde(rename = "rate_per_second")]
    pub rate: f64,
    /// 50th percentile of the headline operation; `None` without a completion.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the headline operation (the maximum below 100 samples).
    pub p99_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// The longest time in which a job did not look for completions.
    #[serde(rename = "unwatched_ns_max", default, skip_serializing_if = "Option::is_none")]
    pub unwatched_max: Option<Nanos>,
    /// Shorter than half of the step's intervals: at a step's end such an interval holds only the
    /// operations still in flight, and its rate is meaningless. Charts leave it out.
    #[serde(default)]
    pub cut_short: bool,
    /// Counts by operation, if the analyser keeps them; not in the document.
    #[serde(skip)]
    pub kept: Vec<KeptInterval>,
}

/// What one interval has of one kind of operation, for formats that show series by operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptInterval {
    pub operation: OperationName,
    pub count: u64,
    pub bytes: u64,
    /// Sum of their service latencies.
    pub service_ns: u64,
}

/// One step of the plan, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFindings {
    /// Name of the workload.
    pub name: String,
    /// Index of the step in the plan.
    pub step: u32,
    /// Place of the load among those of the step.
    #[serde(default)]
    pub stream: u32,
    /// Round of the step's section.
    #[serde(default)]
    pub round: u32,
    /// Repetition of the step.
    #[serde(default)]
    pub repeat: u32,
    /// Index of its section in the plan's campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<u32>,
    /// Where it is on the axes of its section.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<ParameterValue>,
    /// The location that the user named.
    pub location: String,
    /// Name of the target below it.
    pub target: String,
    pub definition: Workload,
    /// The settings in effect.
    pub effective: Effective,
    /// True if the step ran to its limit.
    pub complete: bool,
    /// True if every write was made durable.
    pub durable: bool,
    /// Length of the measured phase.
    #[serde(rename = "measured_ns")]
    pub measured: Nanos,
    /// The operation that the workload is about: commit, read or write.
    pub headline: OperationName,
    /// Accesses (reads and writes) per second.
    pub iops: f64,
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: f64,
    /// Each kind of operation; the headline first.
    pub operations: Vec<OperationFindings>,
    /// The offered rate, in an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
    /// The batches of its logs, with group commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<BatchFindings>,
    /// The written data; `None` if it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataFindings>,
    /// Time in which nothing was in flight before it, where another step came before.
    #[serde(rename = "idle_before_ns", default, skip_serializing_if = "Option::is_none")]
    pub idle_before: Option<Nanos>,
    /// Its start, if another process ordered it (`durio run --gate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gated: Option<GatedStart>,
    /// Operations in flight, by Little's law and as counted.
    pub in_flight: InFlightFindings,
    pub cpu: CpuFindings,
    /// Context switches of the jobs per operation, where their threads waited: of the same
    /// operations as CPU time (reads, writes and syncs). None in records that have them not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches_per_operation: Option<f64>,
    /// The same where the processor was taken from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub involuntary_switches_per_operation: Option<f64>,
    /// Context switches of the whole machine per operation; `None` with concurrent streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_switches_per_operation: Option<f64>,
    /// Where the time of one operation goes, if that was traced.
    #[serde(default, rename = "time_slices", skip_serializing_if = "Option::is_none")]
    pub latency_breakdown: Option<LatencyBreakdown>,
    /// The device's time for its requests, where the path shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_time: Option<DeviceTime>,
    /// I/O of other programs on the device below, if there was certainly some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_io: Option<ForeignIo>,
    /// Longest time without a look for completions while some were outstanding; `None` if each
    /// operation is waited for.
    #[serde(rename = "unwatched_ns_max", default, skip_serializing_if = "Option::is_none")]
    pub unwatched_max: Option<Nanos>,
    /// How much the rate varied.
    #[serde(rename = "evenness")]
    pub rate_variation: Option<RateVariation>,
    /// The time series, the ramp included.
    pub intervals: Vec<IntervalPoint>,
    /// The counters of the devices below over that time (others' I/O included).
    pub devices: Vec<DeviceCounters>,
    /// Calls that handed operations over, if the analyser keeps them; not in the document.
    #[serde(skip)]
    pub exchanges: u64,
}

impl WorkloadFindings {
    /// The findings of one kind of operation.
    pub fn operation(&self, name: OperationName) -> Option<&OperationFindings> {
        self.operations.iter().find(|operation| operation.operation == name)
    }

    /// Why it has no results, if no operation completed after the ramp; its rates of 0 are not
    /// measurements.
    pub fn unmeasured(&self) -> Option<String> {
        let ramped = self.intervals.iter().any(|point| point.phase == Phase::Ramp);
        let nothing = "no operation was completed";
        self.operations.is_empty().then(|| match ramped && self.measured == Nanos::ZERO {
            true => "it finished before its ramp was over".to_owned(),
            false if self.measured == Nanos::ZERO => nothing.to_owned(),
            false => format!("{nothing} in the {} that count", self.measured),
        })
    }

    /// Commits per second where there are any, else accesses per second.
    pub fn headline_rate(&self) -> f64 {
        self.operation(OperationName::Commit).map_or(self.iops, |commit| commit.rate)
    }

    /// Completed syncs: calls, or syncs linked to a write, one for each commit; `None` if the
    /// writes themselves are durable, or nothing is. The device's flushes are compared with this.
    pub fn sync_count(&self) -> Option<u64> {
        let linked = self.definition.sync.method.is_linked();
        let calls = self.operation(OperationName::Sync);
        let commits = self.operation(OperationName::Commit).filter(|_| linked);
        calls.or(commits).map(|operation| operation.service.count)
    }
}

/// durio's cost on a target that completes at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCost {
    pub engine: EngineKind,
    pub depth: u32,
    /// User and system CPU time per I/O, in nanoseconds; the kernel's part for an empty read is in it.
    pub per_operation_ns: f64,
    /// I/Os per second that one job reached.
    pub iops: f64,
}
