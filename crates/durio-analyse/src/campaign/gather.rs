//! From findings of steps, streams and rounds to the groups that a row is made of.

use std::collections::HashMap;

use super::{Convergence, Measured};
use crate::{SearchFindings, WorkloadFindings};

/// Findings by step and stream, each in the order of its rounds.
pub(super) struct Index<'a> {
    by_step: HashMap<u32, Vec<&'a WorkloadFindings>>,
}

impl<'a> Index<'a> {
    pub(super) fn of(measured: &Measured<'a>) -> Self {
        let mut by_step: HashMap<u32, Vec<&WorkloadFindings>> = HashMap::new();
        for workload in measured.all() {
            by_step.entry(workload.step).or_default().push(workload);
        }
        for rounds in by_step.values_mut() {
            rounds.sort_by_key(|it| (it.stream, it.round));
        }
        Self { by_step }
    }

    /// All streams of a step in all their rounds.
    fn step(&self, step: u32) -> &[&'a WorkloadFindings] {
        self.by_step.get(&step).map_or(&[], Vec::as_slice)
    }

    /// The first stream of a step's round.
    pub(super) fn at(&self, step: u32, round: u32) -> Option<&'a WorkloadFindings> {
        self.step(step).iter().find(|it| it.round == round && it.stream == 0).copied()
    }
}

/// Which rounds of a section count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoundsTaken {
    All,
    /// The measurement window, rounds counted from zero; and whether it was steady.
    Window {
        first: u32,
        last: u32,
        steady: bool,
    },
    /// The trial that gave the search its answer.
    Trial(u32),
}

impl RoundsTaken {
    pub(super) fn of(convergence: Option<&Convergence>, search: Option<&SearchFindings>) -> Self {
        match (convergence, search) {
            (Some(found), _) => Self::of_window(found),
            (None, Some(found)) => answer(found).map_or(Self::All, Self::Trial),
            (None, None) => Self::All,
        }
    }

    fn of_window(found: &Convergence) -> Self {
        let state = found.state.as_ref();
        let steady = state.is_some_and(|state| state.attained_at.is_some());
        let round = |number: usize| u32::try_from(number.saturating_sub(1)).unwrap_or(u32::MAX);
        state.and_then(|state| state.window).map_or(Self::All, |window| Self::Window {
            first: round(window.first_round),
            last: round(window.last_round),
            steady,
        })
    }

    fn contains(self, round: u32) -> bool {
        match self {
            Self::All => true,
            Self::Window { first, last, .. } => (first..=last).contains(&round),
            Self::Trial(trial) => round == trial,
        }
    }
}

/// The last trial at the highest rate that kept the goal; else the last of all.
fn answer(found: &SearchFindings) -> Option<u32> {
    let kept = |rate: f64| {
        let is_it = |rate_tried: f64| (rate_tried / rate - 1.0).abs() < 1e-9;
        found.trials.iter().rfind(|trial| trial.kept && is_it(trial.rate_per_second))
    };
    let trial = found.kept_per_second.and_then(kept).or(found.trials.last())?;
    Some(trial.round)
}

/// What one row is made of: the same step and stream, repeated or in rounds.
pub(super) struct Group<'a> {
    /// What all of them are.
    pub(super) first: &'a WorkloadFindings,
    /// The findings that count; at least one.
    pub(super) findings: Vec<&'a WorkloadFindings>,
    /// All rounds of it, also those that do not count.
    pub(super) all: Vec<&'a WorkloadFindings>,
    pub(super) rounds: RoundsTaken,
}

impl<'a> Group<'a> {
    /// The one whose rate is in the middle: its figures belong together, those of a mean do not.
    pub(super) fn middle(&self) -> &'a WorkloadFindings {
        let mut sorted = self.findings.clone();
        sorted.sort_by(|a, b| a.iops.total_cmp(&b.iops));
        sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(self.first)
    }
}

/// The groups of some steps, in their order.
pub(super) fn groups<'a>(
    index: &Index<'a>,
    steps: impl Iterator<Item = u32>,
    rounds: RoundsTaken,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for step in steps {
        for stream in index.step(step).chunk_by(|a, b| a.stream == b.stream) {
            take(&mut groups, stream, rounds);
        }
    }
    groups
}

fn take<'a>(groups: &mut Vec<Group<'a>>, stream: &[&'a WorkloadFindings], rounds: RoundsTaken) {
    // Where a step has no round of those (a ceiling, a run that was stopped), what it has counts.
    let taken: Vec<_> = stream.iter().filter(|it| rounds.contains(it.round)).copied().collect();
    let (findings, rounds) = match taken.is_empty() {
        true => (stream.to_vec(), RoundsTaken::All),
        false => (taken, rounds),
    };
    let Some(first) = findings.first().copied() else { return };
    match groups.iter_mut().find(|group| is_repeat(group.first, first)) {
        Some(group) => {
            group.findings.extend(findings);
            group.all.extend(stream);
        }
        None => groups.push(Group { first, findings, all: stream.to_vec(), rounds }),
    }
}

/// Whether two steps are the same but for their repetition.
fn is_repeat(a: &WorkloadFindings, b: &WorkloadFindings) -> bool {
    a.repeat != b.repeat
        && a.stream == b.stream
        && a.levels == b.levels
        && a.name == b.name
        && (&a.location, &a.target) == (&b.location, &b.target)
        && a.effective.engine == b.effective.engine
        && a.definition == b.definition
}
