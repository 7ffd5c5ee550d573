//! The results of a campaign on many hosts: every number that its report shows.
//!
//! This is also the JSON document of `durio fleet report --format json`: [`FLEET_SCHEMA`] names its
//! version. Latencies are nanoseconds, rates per second, shares 0 to 1, factors 1 for equal.

use std::collections::BTreeMap;

use durio_analyse::{Distribution, RunState};
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

/// Name and version of the document.
pub const FLEET_SCHEMA: &str = "durio-fleet-findings-1";

/// The smallest group in which a host is judged against the others.
pub const JUDGED_HOSTS_MIN: usize = 5;

/// From this size of a group on, hosts are screened by robust statistics.
pub const ROBUST_HOSTS_MIN: usize = 20;

/// All findings of one campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetFindings {
    pub schema: String,
    /// Name of the campaign; `None` for run folders that were collected by other means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// Hosts that were asked to run; those found, if the folders have no list.
    pub asked: usize,
    /// Confirmed as slow first, then suspects, then by their effect, worst first.
    pub hosts: Vec<HostFindings>,
    /// Hosts that are alike, largest group first.
    pub groups: Vec<GroupFindings>,
    /// Facts that explain slower hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_facts: Vec<SharedFact>,
    /// Workloads of all hosts taken together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pooled: Vec<PooledFindings>,
    pub power: ScreeningPower,
    /// Reasons to read the results with care, such as different plans or skewed starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<FleetDoubt>,
}

/// A reason to read the results with care.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetDoubt {
    pub kind: FleetDoubtKind,
    /// The hosts concerned; empty if all are.
    pub hosts: Vec<String>,
    /// One sentence with the numbers.
    pub sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FleetDoubtKind {
    /// Hosts ran different plans.
    MixedPlans,
    /// Hosts ran different versions of durio.
    MixedVersions,
    /// Starts that were agreed differ by more than 10 ms or 1 % of an interval, or none was agreed.
    Skewed,
    /// Hosts started steps by themselves, as the campaign was ordered.
    FreeStart,
    /// A host was lost while others ran: its load is unknown.
    Lost,
    /// A run was cut, or cannot be read, on hosts that have complete ones.
    CutRun,
    /// Two names have the same machine ID.
    SameMachine,
    /// Machines have filesystems with the same UUID, on drives that are not known to be the same.
    CopiedFilesystem,
    /// Too few hosts or runs to judge.
    FewHosts,
    /// A record contradicts itself.
    Contradiction,
}

/// How a host ended the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostOutcome {
    /// A run is complete and collected. The host is judged by its complete runs; others are a
    /// [`FleetDoubtKind::CutRun`].
    Measured,
    /// Its runs were cut; their complete steps count.
    Partial,
    /// durio failed on the host.
    Failed,
    /// The host fell silent.
    Lost,
    /// The host did not permit the plan, or has another version.
    Refused,
    /// The host was asked and has no run.
    Missing,
}

/// A host with its runs, and the verdict on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFindings {
    pub name: String,
    pub outcome: HostOutcome,
    /// Why it is not [`HostOutcome::Measured`], as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Place of its group in [`FleetFindings::groups`]; `None` without runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
    /// Model, firmware, kernel, mount options and so on, by name.
    pub facts: BTreeMap<String, String>,
    pub runs: Vec<HostRun>,
    pub verdict: HostVerdict,
    /// Figures in which the host is worse than its group, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<HostEvidence>,
    /// Figures whose repeats scatter or drift more than those of the group, surest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsteady: Vec<UnsteadyFigure>,
    /// The effect that orders hosts: the largest factor, shrunk towards 1 by the scatter of runs. It
    /// decides nothing, and includes the effect of shared facts.
    pub shrunk_factor: f64,
    /// Rate of the first workload's headline in whole intervals of the newest complete run, per
    /// second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_over_time: Vec<f64>,
}

/// The verdict on a host's level and scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostVerdict {
    /// Confirmed by fresh runs.
    Slow,
    /// Screened out; needs fresh runs.
    Suspect,
    /// Not suspect, but its repeats scatter or drift more than those of its group.
    Unsteady,
    /// Suspect before, and cleared by fresh runs.
    Cleared,
    /// No difference from its group found, other than that of a [`SharedFact`].
    Alike,
    /// Not measured, or in a group that is too small.
    NotJudged,
}

/// One run of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRun {
    /// The run folder; as text.
    pub folder: String,
    pub state: RunState,
    /// Start, in RFC 3339, by the host's clock.
    pub started: String,
    /// True for a run that was made to confirm or clear suspects.
    #[serde(default)]
    pub is_confirmation: bool,
    /// None of a run that was cut if the host has complete ones.
    pub figures: Vec<HostFigure>,
}

/// A number by which hosts are compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FigureKey {
    pub workload: String,
    /// The spec's name of the target.
    pub target: String,
    pub operation: OperationName,
    pub statistic: HostStatistic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostStatistic {
    /// Per second; the others are service latencies in nanoseconds.
    Rate,
    P50,
    P99,
    P999,
}

impl HostStatistic {
    /// True if a larger number is better.
    pub fn is_higher_better(self) -> bool {
        self == Self::Rate
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFigure {
    #[serde(flatten)]
    pub key: FigureKey,
    pub value: f64,
}

/// Why a host is slow or suspect, or how it was cleared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostEvidence {
    #[serde(flatten)]
    pub key: FigureKey,
    /// Median of the host's runs, on a logarithmic scale.
    pub value: f64,
    /// Median of its group; after confirmation, mean of the hosts that ran at the same time. The
    /// effect of a shared fact of the host is included.
    pub group_median: f64,
    /// How much worse it is: 1.2 is a rate 1.2 times lower or a latency 1.2 times higher.
    pub factor: f64,
    /// 95 % interval of the factor; `None` below three runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Adjusted for the number of tests.
    pub p: f64,
    /// True if it comes from fresh runs.
    #[serde(default)]
    pub is_confirmed: bool,
}

/// A figure whose repeats on one host differ more than those on the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnsteadyFigure {
    #[serde(flatten)]
    pub key: FigureKey,
    /// Standard deviation of the host's repeats, without the one farthest off: 0.1 is 10 %.
    pub scatter: f64,
    /// Standard deviation of the repeats of the group's other hosts.
    pub group_scatter: f64,
    /// By what factor the figure got worse from the first run to the last; `None` if it does not
    /// drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
    /// Adjusted for the number of tests.
    pub p: f64,
}

/// Hosts that are alike, and compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupFindings {
    /// The facts by which hosts are grouped.
    pub facts: BTreeMap<String, String>,
    pub hosts: usize,
    pub method: ScreeningMethod,
    /// Each figure over the hosts.
    pub figures: Vec<GroupFigure>,
    /// Other facts that differ within the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing: Vec<DifferingFact>,
}

impl GroupFindings {
    /// Hosts that have a figure; the others were cut before, or made fresh runs alone.
    pub fn measured(&self) -> usize {
        self.figures.iter().map(|figure| figure.hosts).max().unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreeningMethod {
    /// Below [`JUDGED_HOSTS_MIN`] hosts with figures: shown, not judged.
    TooFew,
    /// Below [`ROBUST_HOSTS_MIN`]: each host against all others by Student's t, Holm over hosts
    /// and figures; if more than one host is suspected, also as [`Self::Robust`].
    LeaveOneOut,
    /// Median and MAD, Benjamini-Hochberg over hosts.
    Robust,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupFigure {
    #[serde(flatten)]
    pub key: FigureKey,
    pub hosts: usize,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// 1.4826 × MAD of the logarithms of the hosts' medians.
    pub spread: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DifferingFact {
    pub fact: String,
    /// Each value with its hosts, most hosts first.
    pub values: Vec<(String, Vec<String>)>,
}

/// A fact that slower hosts have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedFact {
    pub group: usize,
    pub fact: String,
    pub value: String,
    #[serde(flatten)]
    pub key: FigureKey,
    pub hosts_with: usize,
    pub hosts_without: usize,
    /// Median of the others ÷ median of these, as a factor of how much worse these are.
    pub factor: f64,
    /// Of the rank test, adjusted for the number of facts and figures.
    pub p: f64,
}

/// What the screening can find.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ScreeningPower {
    pub hosts_tested: usize,
    pub figures_tested: usize,
    /// Innocent hosts that are expected among the suspects, as far as runs are undisturbed.
    pub false_suspects: f64,
    /// Runs of each host that find a host that is 10 % slower in one figure in 90 of 100 cases;
    /// `None` if scatter is unknown, or if the hosts differ so much that runs do not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_for_ten_percent: Option<u32>,
}

/// One operation of one workload over all hosts that ran it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PooledFindings {
    pub workload: String,
    pub target: String,
    pub operation: OperationName,
    pub hosts: usize,
    /// Other hosts with this step, whose newest run had ended before these started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// How it is known that the hosts share the storage; `None` for local drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedStorage>,
    /// From the last host's start to the first host's end.
    pub window_seconds: f64,
    /// Latest start − earliest start.
    pub skew_seconds: f64,
    /// Counts of the common window ÷ its length; `None` with the reason in `no_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// The most by which clocks and starts may make `rate` wrong, as a share of it; `None` for local
    /// drives and where no starts were agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_error: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_rate: Option<String>,
    /// Sum of each host's mean rate: what a sum of reports would say.
    pub sum_of_rates: f64,
    /// Latencies of all hosts in the common window; `None` without a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Distribution>,
    /// Mean of the hosts' p99: a number that no request saw, for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_of_p99_ns: Option<f64>,
    /// Jain's index of the rates: 1 if all hosts have the same, 1/n if one has all.
    pub fairness: f64,
    /// Every host of the pool, largest share first.
    pub shares: Vec<HostShare>,
    /// Operations per second of all hosts in each second of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_over_time: Vec<f64>,
    /// Starts, losses and stops, as far as their times are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<RateMark>,
}

/// A moment that may explain a change of the rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateMark {
    /// Since the start of `rate_over_time`; hosts start before it.
    pub at_seconds: f64,
    pub kind: RateMarkKind,
    /// The host that was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateMarkKind {
    /// The first or the last host started the step.
    Start,
    /// A host fell silent.
    Lost,
    /// The operator or the policy stopped the campaign.
    Stop,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostShare {
    pub host: String,
    /// Of the operations of the common window, 0 to 1.
    pub share: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
}

/// How it is known that hosts share a storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedStorage {
    /// `shared = true` in the spec.
    Stated,
    /// The same filesystem, export or device, by its identity.
    Detected(String),
}
