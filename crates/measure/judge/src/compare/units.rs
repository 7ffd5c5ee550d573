//! Matching the steps of two sides, and whether a step's results can be used: it ended, kept to its
//! definition and ran at a steady rate.
//!
//! The results are [`MatchedUnits`] pairs of [`WorkloadUnit`]s, and the units without a counterpart.
//!
//! Steps are alike if name, definition, target and engine are; then, if one of a name is left on
//! each side, those are compared, and their differences are stated.

use std::collections::HashMap;

use durio_analyse::WorkloadFindings;
use durio_base::stats::least_squares::{count, float, line, mean};
use durio_plan::{ParameterValue, RawPath, Rounds, Step, Until};
use durio_workload::Workload;

use super::bootstrap::autocorrelation;
use super::side::{ComparedRun, IntervalGroup, Side, StepSeries};

/// One execution of a unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnitMember<'a> {
    pub(super) run: &'a ComparedRun,
    /// Position of the run in its side.
    pub(super) run_index: usize,
    pub(super) workload: &'a WorkloadFindings,
    pub(super) series: Option<&'a StepSeries>,
}

impl<'a> UnitMember<'a> {
    /// The step in the run's plan.
    pub(super) fn step(&self) -> Option<&'a Step> {
        self.run.findings.plan.steps.get(self.workload.step as usize)
    }
}

/// A workload in its place, as often as a side ran it.
#[derive(Debug)]
pub(super) struct WorkloadUnit<'a> {
    keys: [String; 4],
    pub(super) first: UnitMember<'a>,
    pub(super) members: Vec<UnitMember<'a>>,
}

impl WorkloadUnit<'_> {
    /// As readers see it.
    pub(super) fn title(&self) -> String {
        let workload = self.first.workload;
        let name = named(workload);
        match workload.location.as_str() {
            "" => format!("{name} ({})", workload.definition.summary),
            place => format!("{name} at {place} ({})", workload.definition.summary),
        }
    }
}

/// The units of both sides, by the position of each in its side.
#[derive(Debug)]
pub(super) struct MatchedUnits {
    /// Those that belong together, in the baseline's order.
    pub(super) pairs: Vec<(usize, usize)>,
    pub(super) only_baseline: Vec<usize>,
    pub(super) only_other: Vec<usize>,
}

/// The units of a side, in the order of its first run.
pub(super) fn units(side: &Side) -> Vec<WorkloadUnit<'_>> {
    let mut units: Vec<WorkloadUnit<'_>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (run_index, run) in side.runs.iter().enumerate() {
        for workload in run.findings.workloads.iter().filter(|workload| counts(run, workload)) {
            let series = run.series.get(&(workload.step, workload.round, workload.stream));
            let member = UnitMember { run, run_index, workload, series };
            let keys = keys(&member);
            match places.get(&keys[0]).and_then(|&place| units.get_mut(place)) {
                Some(unit) => unit.members.push(member),
                None => {
                    places.insert(keys[0].clone(), units.len());
                    units.push(WorkloadUnit { keys, first: member, members: vec![member] });
                }
            }
        }
    }
    units
}

/// The name with its levels, as `read, jobs 4`.
pub(super) fn named(workload: &WorkloadFindings) -> String {
    let levels = workload.levels.iter().map(ParameterValue::words);
    std::iter::once(workload.name.clone()).chain(levels).collect::<Vec<_>>().join(", ")
}

/// False for rounds before the window that judges a steady state: they only led to it.
fn counts(run: &ComparedRun, workload: &WorkloadFindings) -> bool {
    let plan = &run.findings.plan;
    let step = plan.steps.get(workload.step as usize);
    let rounds = step.and_then(|step| plan.section_of(step)?.rounds);
    let Some(Rounds { until: Until::SteadyState { window, .. }, .. }) = rounds else { return true };
    let same_step = run.findings.workloads.iter().filter(|other| other.step == workload.step);
    let last = same_step.map(|workload| workload.round).max().unwrap_or(0);
    workload.round + window > last
}

/// What identifies a step: everything; name and place; name alone; its section in a campaign.
fn keys(member: &UnitMember<'_>) -> [String; 4] {
    let (workload, plan) = (member.workload, &member.run.findings.plan);
    let is_here = |path: &&RawPath| path.to_string() == workload.location;
    // By its position, not by its path: another machine, or another drive, has another path there.
    let location = plan.locations().iter().position(is_here);
    // Joined by NUL, which names do not have: no two keys can run together.
    let place = format!("{}\0{location:?}\0{}", named(workload), workload.target);
    let bare =
        Workload { name: String::new(), summary: String::new(), ..workload.definition.clone() };
    let load = member.step().and_then(|step| step.stream(workload.stream));
    let rate = workload.open_loop.as_ref().map(|open| open.arrivals);
    let how = load.map(|load| (load.engine, load.batch, rate, plan.target_of(load).size));
    let section = member.step().and_then(|step| plan.section_of(step));
    let section = section.map_or(&workload.name, |section| &section.name);
    let within = format!("{section}\0{}", workload.stream);
    [format!("{place}\0{bare:?}\0{how:?}"), place, named(workload), within]
}

/// Sets units against each other, first by all that they are, at last by their names.
pub(super) fn matched(baseline: &[WorkloadUnit<'_>], other: &[WorkloadUnit<'_>]) -> MatchedUnits {
    let mut found = MatchedUnits {
        pairs: Vec::new(),
        only_baseline: (0..baseline.len()).collect(),
        only_other: (0..other.len()).collect(),
    };
    // From the strictest key to the loosest, so that a name alone never takes a unit that has an
    // exact match.
    for key in 0..4 {
        found.take(baseline, other, key);
    }
    found.pairs.sort_unstable();
    found
}

impl MatchedUnits {
    /// Takes the units whose key of this kind is unique on both sides.
    fn take(&mut self, baseline: &[WorkloadUnit<'_>], other: &[WorkloadUnit<'_>], key: usize) {
        let single = |units: &[WorkloadUnit<'_>], open: &[usize]| {
            let mut places: HashMap<String, Option<usize>> = HashMap::new();
            for &place in open {
                let Some(name) = units.get(place).and_then(|unit| unit.keys.get(key)) else {
                    continue;
                };
                // Two of the same name match nothing: either could belong to the other side.
                places.entry(name.clone()).and_modify(|place| *place = None).or_insert(Some(place));
            }
            places
        };
        let others = single(other, &self.only_other);
        let baselines = single(baseline, &self.only_baseline);
        let partner = |(name, place): (&String, &Option<usize>)| {
            Some(((*place)?, others.get(name).copied().flatten()?))
        };
        let pairs: Vec<(usize, usize)> = baselines.iter().filter_map(partner).collect();
        let taken: (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
        self.only_baseline.retain(|place| !taken.0.contains(place));
        self.only_other.retain(|place| !taken.1.contains(place));
        self.pairs.extend(pairs);
    }
}

/// The best line through the rates may rise or fall by this share of their mean over the whole
/// phase: the criterion for the slope of SNIA's Solid State Storage Performance Test Specification,
/// Enterprise, 2.0.1, "steady state".
const DRIFT_MAX: f64 = 0.10;

/// A drift must be this many standard errors from zero, because short runs scatter.
// Among steady runs with normal scatter, 3 in 1000 drift farther by chance.
const DRIFT_ERRORS: f64 = 3.0;

/// Fewer cells show no drift.
const CELLS_MIN: usize = 10;

/// What speaks against one side's results.
#[derive(Debug)]
pub(super) struct SideFaults {
    /// Why they are unusable.
    pub(super) faults: Vec<String>,
    /// How far the rate drifted in most of the runs.
    pub(super) drifts: Vec<String>,
}

/// What speaks against one side's results; nothing if they are fine.
pub(super) fn faults(label: &str, members: &[UnitMember<'_>]) -> SideFaults {
    let of = |member: &UnitMember<'_>| {
        let place = match members.len() {
            1 => label.to_owned(),
            _ => format!("{label}, run {} ({})", member.run_index + 1, member.run.findings.run.run),
        };
        (faults_of_one(&place, member), drifted(&place, member))
    };
    let (faults, drifts): (Vec<_>, Vec<_>) = members.iter().map(of).unzip();
    let drifts: Vec<String> = drifts.into_iter().flatten().collect();
    // If a few of many repeats drift, that is part of the repeats' scatter, and counted as such:
    // else more repeats would decide less, because each is as likely to drift. If most do, it is
    // the step.
    let is_of_most = 2 * drifts.len() > members.len();
    SideFaults {
        faults: faults.into_iter().flatten().collect(),
        drifts: if is_of_most { drifts } else { Vec::new() },
    }
}

fn faults_of_one(place: &str, member: &UnitMember<'_>) -> Vec<String> {
    let workload = member.workload;
    let mut faults = Vec::new();
    if !workload.complete {
        faults.push(format!("{place} ended before its limit"));
    }
    // If I/O went through the page cache instead of past it, the results depend on memory as much
    // as on the storage.
    if workload.effective.cache != workload.definition.cache {
        let fallbacks = workload.effective.fallbacks.join("; ");
        faults.push(format!("{place} could not use its defined cache mode: {fallbacks}"));
    }
    faults
}

fn drifted(place: &str, member: &UnitMember<'_>) -> Option<String> {
    let drift = drift(member.series.map(|series| series.cells()).unwrap_or_default())?;
    let way = if drift > 0.0 { "rose" } else { "fell" };
    let share = drift.abs() * 100.0;
    Some(format!("{place} did not reach a steady state: its rate {way} by {share:.0} %"))
}

/// The share of the mean by which the rate drifted, if more than steady state allows.
fn drift(cells: &[IntervalGroup]) -> Option<f64> {
    let rate = |cell: &IntervalGroup| float(cell.count) / float(cell.span_ns.max(1));
    let rates: Vec<f64> = cells.iter().map(rate).collect();
    if rates.len() < CELLS_MIN {
        return None;
    }
    let (cells, mean, (start, slope)) = (count(rates.len()), mean(&rates)?, line(&rates)?);
    // Σ (i − (n − 1) ÷ 2)², the spread of the positions.
    let squares = cells * (cells * cells - 1.0) / 12.0;
    let rest = rates.iter().enumerate().map(|(at, rate)| rate - start - slope * count(at));
    let rest: Vec<f64> = rest.collect();
    // Below one: a correlation of one would make any drift chance.
    let r = autocorrelation(&rest).clamp(0.0, 0.95);
    // Neighbours that are alike say less than as many independent cells: (1 + r) ÷ (1 − r).
    let variance = rest.iter().map(|rest| rest * rest).sum::<f64>() / (cells - 2.0);
    let error = (variance / squares * (1.0 + r) / (1.0 - r)).sqrt();
    let drift = slope * (cells - 1.0) / mean;
    let is_clear = slope.abs() > DRIFT_ERRORS * error;
    (is_clear && drift.is_finite() && drift.abs() > DRIFT_MAX).then_some(drift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(rates: impl IntoIterator<Item = u64>) -> Vec<IntervalGroup> {
        let cell =
            |count| IntervalGroup { span_ns: 1_000_000_000, count, ..IntervalGroup::default() };
        rates.into_iter().map(cell).collect()
    }

    #[test]
    fn a_rate_that_falls_by_a_fifth_is_not_steady() {
        let drift = drift(&cells((0..50).map(|at| 10_000 - at * 40 + at % 7 * 20))).unwrap();
        assert!((drift + 0.217).abs() < 0.01, "{drift}");
    }

    #[test]
    fn noise_and_a_small_drift_are_steady() {
        assert_eq!(drift(&cells((0..50).map(|at| 10_000 - at * 10))), None);
        assert_eq!(drift(&cells((0..50).map(|at| 10_000 + at * 7919 % 1000 * 10))), None);
        assert_eq!(drift(&cells([0; 50])), None);
        assert_eq!(drift(&cells([5, 1])), None);
        assert_eq!(drift(&[]), None);
    }

    fn of_counts(counts: impl IntoIterator<Item = u64>) -> Vec<IntervalGroup> {
        counts
            .into_iter()
            .map(|count| IntervalGroup { span_ns: 1, count, ..IntervalGroup::default() })
            .collect()
    }

    #[test]
    fn a_drift_of_a_tenth_is_steady_and_a_little_more_is_not() {
        // Mean 100,000; over ten steps the rate changes by a tenth of that.
        assert_eq!(drift(&of_counts((0..11).map(|at| 95_000 + 1000 * at))), None);
        let rising = drift(&of_counts((0..11).map(|at| 94_995 + 1001 * at))).unwrap();
        assert!((rising - 0.1001).abs() < 1e-9, "{rising}");
        let falling = drift(&of_counts((0..11).map(|at| 105_005 - 1001 * at))).unwrap();
        assert!((falling + 0.1001).abs() < 1e-9, "{falling}");
    }

    #[test]
    fn ten_cells_show_a_drift_and_nine_do_not() {
        let rising = |cells: u64| drift(&of_counts((0..cells).map(|at| 1000 + 100 * at)));
        assert_eq!(rising(9), None);
        assert!((rising(10).unwrap() - 900.0 / 1450.0).abs() < 1e-9);
    }

    #[test]
    fn a_drift_counts_from_three_standard_errors_on_with_neighbours_that_are_alike() {
        // Errors by NumPy: the rest's correlation is 0.588; the slope is 2.994 and 3.015 errors.
        let noise =
            [0, 300, 500, 200, -400, -700, -300, 100, 600, 800, 300, -200, -600, -100, 400, -500];
        let sloped = |slope: i64| {
            let rates = (0..).zip(noise).map(|(at, noise)| 5000 + slope * at + noise);
            drift(&of_counts(rates.map(|rate| u64::try_from(rate).unwrap())))
        };
        assert_eq!(sloped(161), None);
        assert!((sloped(162).unwrap() - 0.354_779_411_764_706).abs() < 1e-9);
    }
}
