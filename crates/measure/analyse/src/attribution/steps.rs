//! Matches the same workload on different points: the workloads of all points, and for each point
//! its measurement with the median rate, or the reason why it is missing.

use durio_plan::PublishedShare;
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use super::point::StackPoint;
use crate::campaign::baseline::drives;
use crate::grouping::{each_once, grouped};
use crate::{Findings, OperationFindings, WorkloadFindings};

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
        let is_it = |it: &&PublishedShare| {
            self.stream == 0 && named(&it.workload) && it.jobs.is_none_or(is_step)
        };
        point.published.iter().find(is_it)
    }

    /// For the reader: section, workload and levels; the section only if it says more.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.workload.clone();
        if let Some(section) = self.section.as_ref().filter(|it| **it != self.workload) {
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
    pub(super) found: &'a WorkloadFindings,
    /// The run of the workload.
    pub(super) run: &'a Findings,
    /// Operations per second of each repeat, rising.
    pub(super) rates: Vec<f64>,
    /// Repeats without results, in words.
    pub(super) left_out: Option<String>,
}

impl WorkloadMeasurement<'_> {
    /// Commits per second where there are any, else accesses per second.
    pub(super) fn rate(&self) -> f64 {
        self.found.headline_rate()
    }

    /// Operations of the engine for each one that [`Self::rate`] counts: 2 where an fdatasync
    /// follows each write, 1/64 where a write has the records of 64 committers.
    pub(super) fn engine_operations_each(&self) -> f64 {
        use OperationName::{Commit, Read, Sync, Write};
        let rate = |name| self.found.operation(name).map_or(0.0, |it| it.rate);
        // A linked sync is not a separate operation: there is one for each commit.
        let sync = self.found.definition.sync.method;
        let syncs = if sync.is_linked() { rate(Sync).max(rate(Commit)) } else { rate(Sync) };
        (rate(Read) + rate(Write) + syncs) / self.rate()
    }

    /// The operation that the workload is about.
    pub(super) fn headline(&self) -> Option<&OperationFindings> {
        self.found.operation(self.found.headline)
    }

    /// Targets that the load ran on at the same time.
    pub(super) fn drives(&self) -> u32 {
        drives(&self.run.plan, self.found.step, self.found.stream)
    }

    /// Operations offered at once: jobs × depth.
    pub(super) fn offered(&self) -> f64 {
        f64::from(self.found.effective.jobs) * f64::from(self.found.effective.depth)
    }
}

/// A point's measurement of a workload, or why it has none.
pub(super) fn measured<'a>(
    point: &StackPoint<'a>,
    key: &StepKey,
) -> Result<WorkloadMeasurement<'a>, String> {
    let mut repeats = repeats(point, key);
    let all = repeats.len();
    let fault = repeats.iter().find_map(|(_, found)| fault(found));
    repeats.retain(|(_, found)| self::fault(found).is_none());
    repeats.sort_by(|(_, a), (_, b)| a.headline_rate().total_cmp(&b.headline_rate()));
    // A measured repeat, not a mean: its results have to belong together.
    let middle = repeats.len().saturating_sub(1) / 2;
    let Some(&(run, found)) = repeats.get(middle) else {
        return Err(absence(point, fault));
    };
    let lost = all - repeats.len();
    let left_out = fault
        .filter(|_| lost > 0)
        .map(|fault| format!("{lost} of {all} repeats are left out: {fault}"));
    let rates = repeats.iter().map(|(_, found)| found.headline_rate()).collect();
    Ok(WorkloadMeasurement { found, run, rates, left_out })
}

/// The repeats of a workload, of all runs; of steps in rounds the last round.
fn repeats<'a>(point: &StackPoint<'a>, key: &StepKey) -> Vec<(&'a Findings, &'a WorkloadFindings)> {
    let mut all = Vec::new();
    for run in &point.runs {
        let here = run.workloads.iter().filter(|found| StepKey::of(run, found) == *key);
        let repeats = grouped(here, |a, b| (a.step, a.repeat) == (b.step, b.repeat));
        // Rounds converge to a state or a rate: the last one has it.
        let last = repeats.into_iter().filter_map(|it| it.into_iter().max_by_key(|it| it.round));
        all.extend(last.map(|found| (*run, found)));
    }
    all
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
        Some("its rate is no figure")
    } else {
        None
    }
}
