//! The measurements of a stack bench: one point for each stack and number of layers built, and each
//! workload as measured on every point.
//!
//! [`BenchPoints`] is plain data with findings of ordinary runs, checked; [`WorkloadTable`] has, of
//! one workload, the measurement with the median rate on each point, or why it is missing.

use durio_plan::PublishedShare;
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use crate::measurement::{Measurement, Measurements};
use crate::raid_efficiency::ArrayLayout;
use crate::{DeclinedAnalysis, Findings, WorkloadFindings, each_once, grouped};

/// Most points that a bench has.
pub const POINTS_MAX: usize = 1_000;

/// The points of a bench, in the order in which they were measured.
#[derive(Debug, Clone)]
pub struct BenchPoints<'a> {
    pub name: String,
    /// The bench's purpose, in a sentence.
    pub summary: String,
    /// How time passed, if it was measured in the lab; `None` for the machine itself.
    pub timing: Option<Timing>,
    /// The points; each lies on one before it.
    pub points: Vec<StackPoint<'a>>,
}

pub use durio_observe::LabTiming as Timing;

/// The kind of a point's topmost layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PointKind {
    /// The devices at the bottom.
    Raw,
    Raid,
    /// A logical volume, or a target of the device mapper.
    Volume,
    Filesystem,
}

/// What makes the devices at the bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseKind {
    /// RAM disks of brd.
    Ram,
    Zram,
    /// Devices of the null_blk driver.
    Null,
    /// Files as block devices.
    Loop,
    Device,
}

/// The devices at the bottom of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub kind: BaseKind,
    /// For the reader; raw points of equal kind and label are measurements of the same thing.
    pub label: String,
}

impl Base {
    /// True if stacks on both can be compared: their devices differ in number and size at most.
    pub fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && self.completion() == other.completion()
    }

    /// How devices of null_blk complete, from their label: `done after 4 ms, 2 at a time`.
    pub fn completion(&self) -> Option<&str> {
        let (_, completion) = self.label.split_once(", ")?;
        (self.kind == BaseKind::Null).then_some(completion)
    }
}

/// A RAID array as built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaidPoint {
    /// Its layout when whole.
    pub array: ArrayLayout,
    /// Members that are failed and removed.
    pub degraded_members: u32,
}

/// A stack with the layers that are built so far.
#[derive(Debug, Clone)]
pub struct StackPoint<'a> {
    /// Name of the stack.
    pub stack: String,
    /// Label of the topmost layer, for the reader.
    pub layer: String,
    /// What that layer is.
    pub kind: PointKind,
    /// The storage at the bottom.
    pub base: Base,
    /// The point just below: its position in [`BenchPoints::points`], of the same stack and before this
    /// one; `None` if this is the lowest that was to be measured.
    pub below: Option<usize>,
    /// The array, if the topmost layer is one.
    pub raid: Option<RaidPoint>,
    /// For an array without `raid`: why it has no model.
    pub no_model: Option<&'static str>,
    pub published: Vec<PublishedShare>,
    /// The findings of its runs: empty if it failed, several if it was repeated.
    pub runs: Vec<&'a Findings>,
    /// Why runs are missing, or what went wrong.
    pub failure: Option<String>,
}

impl StackPoint<'_> {
    /// Stack and layer, as they are named to the reader.
    pub fn name(&self) -> String {
        format!("{} in stack {}", self.layer, self.stack)
    }
}

/// An error unless every point lies on an earlier one of its stack and published shares are valid.
pub(super) fn check(bench: &BenchPoints<'_>) -> Result<(), DeclinedAnalysis> {
    let points = &bench.points;
    DeclinedAnalysis::unless_enough("points", points.len(), 1)?;
    DeclinedAnalysis::if_too_many("points", points.len(), POINTS_MAX)?;
    // An invalid share would win or lose every pair of the published order.
    let shares = points.iter().flat_map(|point| &point.published).map(|share| share.share_of_raw);
    DeclinedAnalysis::unless_positive("published share", shares)?;
    for (at, point) in points.iter().enumerate() {
        let Some(below) = point.below else { continue };
        let under = points.get(below).filter(|under| below < at && under.stack == point.stack);
        if under.is_none() {
            let why = format!("{} is on none of the earlier points of its stack", point.name());
            return Err(DeclinedAnalysis::NoSuchLayout { why });
        }
    }
    Ok(())
}

/// The kernels that the runs were made on, each once, in the order of the points.
pub(super) fn kernels(bench: &BenchPoints<'_>) -> Vec<String> {
    let runs = bench.points.iter().flat_map(|point| &point.runs);
    each_once(runs.map(|run| run.host.kernel.clone()))
}

/// Point `at` and those below it in its stack, from the top down.
pub(super) fn way_down(points: &[StackPoint<'_>], at: usize) -> impl Iterator<Item = usize> {
    // `check` has made sure that each lies on one before it, so that this ends.
    std::iter::successors(Some(at), |at| points.get(*at)?.below.filter(|below| below < at))
}

/// The layers of point `at` from the top down, without the raw storage.
pub(super) fn full_name(points: &[StackPoint<'_>], at: usize) -> String {
    let way = way_down(points, at).filter_map(|at| Some((at, points.get(at)?)));
    let named = way.filter(|(place, point)| *place == at || point.kind != PointKind::Raw);
    named.map(|(_, point)| point.layer.as_str()).collect::<Vec<_>>().join(" on ")
}

/// What makes two steps the same workload, whatever they ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepKey {
    /// Name of the workload.
    pub workload: String,
    /// The section of the campaign, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Where it is on the axes of its section, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<String>,
    /// Place of the load among those of the step; above 0 it ran together with the first.
    #[serde(default)]
    pub stream: u32,
}

impl StepKey {
    fn of(run: &Findings, found: &WorkloadFindings) -> Self {
        let sections = run.plan.campaign.as_ref().map(|campaign| &campaign.sections);
        let at = found.section.and_then(|section| usize::try_from(section).ok());
        Self {
            workload: found.name.clone(),
            section: at.and_then(|at| Some(sections?.get(at)?.name.clone())),
            levels: found.levels.iter().map(durio_plan::ParameterValue::words).collect(),
            stream: found.stream,
        }
    }

    /// The published share of a point.
    pub(super) fn published<'p>(&self, point: &'p StackPoint<'_>) -> Option<&'p PublishedShare> {
        let named = |name: &str| self.workload == name || self.section.as_deref() == Some(name);
        // A publication may give one share for a whole ladder, or one for a step of it.
        let of_ladder = self.levels.iter().any(|words| words.starts_with("jobs "));
        let is_step = |jobs: u32| !of_ladder || self.levels.contains(&format!("jobs {jobs}"));
        let is_it = |share: &&PublishedShare| {
            self.stream == 0 && named(&share.workload) && share.jobs.is_none_or(is_step)
        };
        point.published.iter().find(is_it)
    }

    /// Its place on an axis, if it has only one and the place is a plain number: `jobs`, 96.
    pub fn level(&self) -> Option<(&str, f64)> {
        let [words] = self.levels.as_slice() else { return None };
        let (axis, number) = words.rsplit_once(' ')?;
        Some((axis, number.parse().ok().filter(|value: &f64| value.is_finite())?))
    }

    /// For the reader: section, workload and levels; the section only if it says more.
    pub fn label(&self) -> String {
        let mut label = self.workload.clone();
        if let Some(section) = self.section.as_ref().filter(|section| **section != self.workload) {
            label = format!("{section}: {label}");
        }
        let beside = (self.stream > 0).then(|| format!("stream {}", self.stream));
        for words in self.levels.iter().chain(&beside) {
            label = format!("{label}, {words}");
        }
        label
    }
}

/// Every workload of the points, in the order in which it first comes.
pub(super) fn keys(points: &[StackPoint<'_>]) -> Vec<StepKey> {
    let runs = points.iter().flat_map(|point| &point.runs);
    each_once(runs.flat_map(|run| run.workloads.iter().map(|found| StepKey::of(run, found))))
}

/// A workload as measured on a point.
#[derive(Debug, Clone)]
pub(super) struct WorkloadMeasurement<'a> {
    /// The repeat with the median rate (the lower of the middle two).
    pub(super) row: Measurement<'a>,
    /// Operations per second of each repeat, rising.
    pub(super) rates: Vec<f64>,
    /// Repeats without results, in words.
    pub(super) left_out: Option<String>,
}

impl WorkloadMeasurement<'_> {
    /// Commits per second where there are any, else accesses per second.
    pub(super) fn rate(&self) -> f64 {
        self.row.headline_rate()
    }

    /// Operations of the engine for each one that [`Self::rate`] counts: 2 where an fdatasync
    /// follows each write, 1/64 where a write has the records of 64 committers.
    pub(super) fn engine_operations_each(&self) -> f64 {
        use OperationName::{Commit, Read, Sync, Write};
        let rate = |name| self.row.operation(name).map_or(0.0, |operation| operation.rate);
        // A linked sync is not a separate operation: there is one for each commit.
        let sync = self.row.definition.sync.method;
        let syncs = if sync.is_linked() { rate(Sync).max(rate(Commit)) } else { rate(Sync) };
        (rate(Read) + rate(Write) + syncs) / self.rate()
    }

    /// Operations offered at once: jobs × depth.
    pub(super) fn offered(&self) -> f64 {
        f64::from(self.row.effective.jobs) * f64::from(self.row.effective.depth)
    }
}

/// One workload on every point.
#[derive(Debug)]
pub(super) struct WorkloadTable<'a> {
    pub(super) points: &'a [StackPoint<'a>],
    pub(super) counted: bool,
    pub(super) key: StepKey,
    /// By point: its measurement, or why it is missing.
    pub(super) measured: Vec<Result<WorkloadMeasurement<'a>, String>>,
}

impl<'a> WorkloadTable<'a> {
    pub(super) fn new(bench: &'a BenchPoints<'a>, key: StepKey) -> Self {
        let measured = bench.points.iter().map(|point| measured(point, &key)).collect();
        let counted = bench.timing == Some(Timing::Counted);
        Self { points: &bench.points, counted, key, measured }
    }

    /// The measurement on the point at a position.
    pub(super) fn at(&self, at: usize) -> Option<&WorkloadMeasurement<'a>> {
        self.measured.get(at)?.as_ref().ok()
    }

    /// Position of the raw storage that a point is compared with: its stack's, or else the median
    /// rate of the other stacks over the same devices.
    pub(super) fn raw(&self, at: usize) -> Option<usize> {
        let own = way_down(self.points, at).last()?;
        let is_raw = |point: &StackPoint<'_>| point.kind == PointKind::Raw;
        if self.at(own).is_some() && self.points.get(own).is_some_and(is_raw) {
            return Some(own);
        }
        let base = &self.points.get(at)?.base;
        let alike = self.points.iter().enumerate();
        let alike = alike.filter(|(_, point)| is_raw(point) && point.base == *base);
        let mut others: Vec<(usize, f64)> =
            alike.filter_map(|(at, _)| Some((at, self.at(at)?.rate()))).collect();
        // The median, because a disturbed raw run would move the shares of every layer that borrows
        // it.
        others.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        others.get(others.len().saturating_sub(1) / 2).map(|(at, _)| *at)
    }
}

/// A point's measurement of a workload, or why it has none.
fn measured<'a>(point: &StackPoint<'a>, key: &StepKey) -> Result<WorkloadMeasurement<'a>, String> {
    let all = repeats(point, key);
    let fault = all.iter().find_map(|row| fault(row));
    let whole: Measurements<'_> =
        all.iter().filter(|row| self::fault(row).is_none()).copied().collect();
    let whole = whole.rising(WorkloadFindings::headline_rate);
    let Some(row) = whole.middle() else {
        return Err(absence(point, fault));
    };
    let (lost, all) = (all.len() - whole.len(), all.len());
    let left_out = fault
        .filter(|_| lost > 0)
        .map(|fault| format!("{lost} of {all} repeats were left out: {fault}"));
    let rates = whole.iter().map(|row| row.headline_rate()).collect();
    Ok(WorkloadMeasurement { row, rates, left_out })
}

/// The repeats of a workload, of all runs; of steps in rounds the last round.
fn repeats<'a>(point: &StackPoint<'a>, key: &StepKey) -> Measurements<'a> {
    let of_run = |run: &&'a Findings| {
        let here = run.workloads.iter().filter(|found| StepKey::of(run, found) == *key);
        let repeats = grouped(here, |a, b| (a.step, a.repeat) == (b.step, b.repeat));
        // Rounds converge to a state or a rate: the last one has it.
        let last = repeats
            .into_iter()
            .filter_map(|rounds| rounds.into_iter().max_by_key(|found| found.round));
        let plan = &run.plan;
        last.map(|found| Measurement { plan, found }).collect::<Vec<_>>()
    };
    point.runs.iter().flat_map(of_run).collect()
}

fn absence(point: &StackPoint<'_>, fault: Option<&'static str>) -> String {
    let failure = point.failure.clone();
    let reason = failure.or_else(|| fault.map(str::to_owned));
    reason.unwrap_or_else(|| match point.runs.is_empty() {
        true => "not measured".to_owned(),
        false => "this workload was not run here".to_owned(),
    })
}

/// Higher rates are invalid.
// They would overflow when multiplied.
const RATE_MAX: f64 = 1e15;

fn fault(found: &WorkloadFindings) -> Option<&'static str> {
    let rate = found.headline_rate();
    if !found.complete {
        Some("it ended before its limit")
    } else if rate == 0.0 {
        Some("nothing was completed")
    } else if !(1e-9..=RATE_MAX).contains(&rate) {
        Some("its rate is not a number")
    } else {
        None
    }
}
