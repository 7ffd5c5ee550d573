//! Matching the steps of two sides.
//!
//! The results are [`MatchedUnits`] pairs of [`WorkloadUnit`]s, and the units without a counterpart.
//!
//! Steps are alike if name, definition, target and engine are; then, if one of a name is left on
//! each side, those are compared, and their differences are stated.

use std::collections::HashMap;

use durio_plan::{ParameterValue, RawPath, Rounds, Step, Until};
use durio_workload::Workload;

use super::side::{ComparedRun, Side, StepSeries};
use durio_analyse::WorkloadFindings;

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
        for workload in run.findings.workloads.iter().filter(|it| counts(run, it)) {
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
    let same_step = run.findings.workloads.iter().filter(|it| it.step == workload.step);
    let last = same_step.map(|it| it.round).max().unwrap_or(0);
    workload.round + window > last
}

/// What identifies a step: everything; name and place; name alone; its section in a campaign.
fn keys(member: &UnitMember<'_>) -> [String; 4] {
    let (workload, plan) = (member.workload, &member.run.findings.plan);
    let is_here = |it: &&RawPath| it.to_string() == workload.location;
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
                let Some(name) = units.get(place).and_then(|it| it.keys.get(key)) else { continue };
                // Two of the same name match nothing: either could belong to the other side.
                places.entry(name.clone()).and_modify(|it| *it = None).or_insert(Some(place));
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
        self.only_baseline.retain(|it| !taken.0.contains(it));
        self.only_other.retain(|it| !taken.1.contains(it));
        self.pairs.extend(pairs);
    }
}
