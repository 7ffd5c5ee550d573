//! From findings of steps, streams and rounds to the groups that a row is made of.

use std::collections::HashMap;

use super::{CampaignInput, Convergence, RowBasis};
use crate::{SearchFindings, WorkloadFindings};

/// Findings by step and stream, each in the order of its rounds.
pub(super) struct FindingsIndex<'a> {
    by_step: HashMap<u32, Vec<&'a WorkloadFindings>>,
}

impl<'a> FindingsIndex<'a> {
    pub(super) fn of(measured: &CampaignInput<'a>) -> Self {
        let mut by_step: HashMap<u32, Vec<&WorkloadFindings>> = HashMap::new();
        for workload in measured.preconditioning.iter().chain(measured.workloads) {
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

impl RowBasis {
    /// That of the rounds of a section that count.
    pub(super) fn of_rounds(
        convergence: Option<&Convergence>,
        search: Option<&SearchFindings>,
    ) -> Self {
        let number = |round: usize| u32::try_from(round).unwrap_or(u32::MAX);
        let window = convergence.and_then(|it| it.state.as_ref()).and_then(|state| {
            let window = state.window?;
            Some(Self::Window {
                first_round: number(window.first_round),
                last_round: number(window.last_round),
                steady: state.attained_at.is_some(),
            })
        });
        let trial = search.and_then(answer);
        let trial = trial.map(|round| Self::Trial { round: round.saturating_add(1) });
        window.or(trial).unwrap_or(Self::Once)
    }

    /// Whether a round counts, numbered from zero as in the record.
    fn has(self, round: u32) -> bool {
        let number = round.saturating_add(1);
        match self {
            Self::Once | Self::Repeats { .. } => true,
            Self::Window { first_round, last_round, .. } => {
                (first_round..=last_round).contains(&number)
            }
            Self::Trial { round } => number == round,
        }
    }
}

/// The last trial at the highest rate that kept the goal; else the last of all.
fn answer(found: &SearchFindings) -> Option<u32> {
    let kept = |rate: f64| {
        // Rates come from halving and doubling, and may differ in their last digits.
        let is_it = |rate_tried: f64| (rate_tried / rate - 1.0).abs() < 1e-9;
        found.trials.iter().rfind(|trial| trial.kept && is_it(trial.rate_per_second))
    };
    let trial = found.kept_per_second.and_then(kept).or(found.trials.last())?;
    Some(trial.round)
}

/// What one row is made of: the same step and stream, repeated or in rounds.
pub(super) struct RowGroup<'a> {
    /// What all of them are.
    pub(super) first: &'a WorkloadFindings,
    /// The findings that count; at least one.
    pub(super) findings: Vec<&'a WorkloadFindings>,
    /// All rounds of it, also those that do not count.
    pub(super) all: Vec<&'a WorkloadFindings>,
    pub(super) basis: RowBasis,
}

impl<'a> RowGroup<'a> {
    /// The one with the median rate: its results belong together, those of a mean do not.
    pub(super) fn middle(&self) -> &'a WorkloadFindings {
        let mut sorted = self.findings.clone();
        sorted.sort_by(|a, b| a.iops.total_cmp(&b.iops));
        sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(self.first)
    }
}

/// The groups of some steps, in their order.
pub(super) fn groups<'a>(
    index: &FindingsIndex<'a>,
    steps: impl Iterator<Item = u32>,
    basis: RowBasis,
) -> Vec<RowGroup<'a>> {
    let mut groups: Vec<RowGroup<'a>> = Vec::new();
    for step in steps {
        for stream in index.step(step).chunk_by(|a, b| a.stream == b.stream) {
            take(&mut groups, stream, basis);
        }
    }
    groups
}

fn take<'a>(groups: &mut Vec<RowGroup<'a>>, stream: &[&'a WorkloadFindings], basis: RowBasis) {
    // A step without such rounds (a ceiling, a run that was stopped) counts with the rounds it has.
    let taken: Vec<_> = stream.iter().filter(|it| basis.has(it.round)).copied().collect();
    let (findings, basis) = match taken.is_empty() {
        true => (stream.to_vec(), RowBasis::Once),
        false => (taken, basis),
    };
    let Some(first) = findings.first().copied() else { return };
    match groups.iter_mut().find(|group| is_repeat(group.first, first)) {
        Some(group) => {
            group.findings.extend(findings);
            group.all.extend(stream);
        }
        None => groups.push(RowGroup { first, findings, all: stream.to_vec(), basis }),
    }
}

/// Whether two steps are the same but for their repetition.
fn is_repeat(a: &WorkloadFindings, b: &WorkloadFindings) -> bool {
    // Steps of one repetition are different steps, however alike they look.
    a.repeat != b.repeat
        && a.stream == b.stream
        && a.levels == b.levels
        && a.name == b.name
        && (&a.location, &a.target) == (&b.location, &b.target)
        && a.effective.engine == b.effective.engine
        && a.definition == b.definition
}
