//! The decision after each round of a section: again, at which rate, or done.

use durio_plan::{Goal, Limit, Plan, PlanSection, Rounds, Tracking, Until};
use durio_record::RoundDecision;

use crate::measurement::Measurements;
use crate::search::{
    NextTrial, RateTrial, SearchFindings, Terms, findings, first_rate, next, rate_least, trial,
};
use crate::steady_state::{SteadyRule, SteadyState, steady_state};
use crate::{Analyser, DeclinedAnalysis, WorkloadFindings};

impl Analyser {
    /// Decides on a round of a section, from the observations of it so far.
    pub fn decide(&self, section: u32, round: u32) -> RoundDecision {
        let campaign = self.plan().campaign.as_ref();
        let section = campaign.and_then(|campaign| campaign.sections.get(section as usize));
        let Some((section, rounds)) = section.and_then(|section| Some((section, section.rounds?)))
        else {
            return RoundDecision::Reached;
        };
        let at = |step: u32, round: u32| self.so_far(step, round).first();
        match rounds.until {
            Until::SteadyState { .. } => {
                let series = tracked_series(section, rounds, round + 1, at);
                let state = judge(&series, rounds);
                // A rule that cannot be applied is never fulfilled; the plan's bound ends the
                // rounds.
                let reached = state.is_ok_and(|state| state.attained_at.is_some());
                if reached { RoundDecision::Reached } else { RoundDecision::Again }
            }
            Until::GoalFound { goal, .. } => {
                let trials = trials(section, goal, round + 1, at);
                let Some(terms) = terms(self.plan(), section, rounds, at) else {
                    return RoundDecision::Reached;
                };
                match next(&trials, terms) {
                    NextTrial::Try(rate_per_second) => RoundDecision::AgainAt { rate_per_second },
                    NextTrial::Settled => RoundDecision::Reached,
                    NextTrial::Hopeless => RoundDecision::NotReached,
                }
            }
        }
    }

    /// First rate of a section's search, from its closed-loop ceiling; `None` to use the plan's.
    pub fn first_rate(&self, section: u32) -> Option<f64> {
        let section = self.plan().campaign.as_ref()?.sections.get(section as usize)?;
        let at = |step: u32, round: u32| self.so_far(step, round).first();
        first_rate(terms(self.plan(), section, section.rounds?, at)?)
    }
}

/// The terms of a search; `None` for a section without one.
fn terms<'w>(
    plan: &Plan,
    section: &PlanSection,
    rounds: Rounds,
    at: impl Fn(u32, u32) -> Option<&'w WorkloadFindings>,
) -> Option<Terms> {
    let Until::GoalFound { goal, precision_per_mille, ceiling_step } = rounds.until else {
        return None;
    };
    let limit = plan.steps.get(section.first_step as usize).map(|step| step.limit);
    let seconds = match limit {
        Some(Limit::Duration(duration)) => Some(duration.as_secs_f64()),
        _ => None,
    };
    Some(Terms {
        precision: share(precision_per_mille),
        ceiling: ceiling_step.and_then(|step| at(step, 0)).map(|ceiling| ceiling.iops),
        rate_least: rate_least(goal, seconds),
    })
}

/// The tracked value of each round, if it has one.
pub(crate) fn tracked_series<'w>(
    section: &PlanSection,
    rounds: Rounds,
    count: u32,
    at: impl Fn(u32, u32) -> Option<&'w WorkloadFindings>,
) -> Vec<f64> {
    let Until::SteadyState { tracked, tracking, .. } = rounds.until else { return Vec::new() };
    let step = section.first_step + tracked;
    // Up to the first round that is missing: a gap would put later rounds into the wrong window.
    (0..count).map_while(|round| at(step, round)).map(|found| figure(found, tracking)).collect()
}

fn figure(workload: &WorkloadFindings, tracking: Tracking) -> f64 {
    match tracking {
        Tracking::Iops => workload.iops,
        Tracking::Bandwidth => workload.bandwidth,
        Tracking::LatencyMean => {
            workload.operation(workload.headline).map_or(0.0, |operation| operation.service.mean_ns)
        }
    }
}

/// The steady state of a series, by the rule of its section.
pub(crate) fn judge(series: &[f64], rounds: Rounds) -> Result<SteadyState, DeclinedAnalysis> {
    let Until::SteadyState { window, excursion_per_mille, slope_per_mille, .. } = rounds.until
    else {
        return steady_state(&[], &SteadyRule::SNIA);
    };
    let rule = SteadyRule {
        window_rounds: window as usize,
        excursion_share_max: share(excursion_per_mille),
        slope_share_max: share(slope_per_mille),
        rounds_max: rounds.max as usize,
    };
    steady_state(series, &rule)
}

/// The trials of a search so far.
pub(crate) fn trials<'w>(
    section: &PlanSection,
    goal: Goal,
    count: u32,
    at: impl Fn(u32, u32) -> Option<&'w WorkloadFindings>,
) -> Vec<RateTrial> {
    let rounds = (0..count).map_while(|round| Some((round, at(section.first_step, round)?)));
    rounds.filter_map(|(round, workload)| trial(round, workload, goal)).collect()
}

/// The findings of a search.
pub(crate) fn search_findings(
    plan: &Plan,
    section: &PlanSection,
    rounds: Rounds,
    table: &Measurements<'_>,
) -> Option<SearchFindings> {
    let Until::GoalFound { goal, .. } = rounds.until else { return None };
    let at = |step: u32, round: u32| table.at(step, round).map(|row| row.found);
    let trials = trials(section, goal, rounds.max, at);
    Some(findings(goal, trials, terms(plan, section, rounds, at)?))
}

fn share(per_mille: u16) -> f64 {
    f64::from(per_mille) / 1000.0
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;
    use durio_plan::{SectionKind, Step};

    use super::*;
    use crate::tests::sample::sample;

    const GOAL: Goal = Goal { percentile: 99.0, latency: Nanos::from_millis(2) };

    /// A section of the second step.
    fn section() -> PlanSection {
        PlanSection {
            name: String::new(),
            summary: String::new(),
            kind: SectionKind::Single,
            first_step: 1,
            steps: 1,
            rounds: None,
            baseline: None,
        }
    }

    fn rounds(ceiling_step: Option<u32>) -> Rounds {
        let until = Until::GoalFound { goal: GOAL, precision_per_mille: 50, ceiling_step };
        Rounds { max: 9, until }
    }

    #[test]
    fn a_search_has_the_time_of_its_own_step_and_the_rate_of_its_ceiling() {
        let mut plan = sample().plan;
        let mut ceiling = sample().workloads.remove(0);
        ceiling.iops = 777.0;
        let step = Step { index: 1, ..plan.steps[0].clone() };
        plan.steps.push(step);
        let terms = |limit, ceiling_step| {
            let mut plan = plan.clone();
            plan.steps[1].limit = limit;
            let at = |step: u32, round: u32| ((step, round) == (5, 0)).then_some(&ceiling);
            let found = super::terms(&plan, &section(), rounds(ceiling_step), at).unwrap();
            assert!((found.precision - 0.05).abs() < 1e-12, "{found:?}");
            (found.ceiling, found.rate_least)
        };
        let (with, least) = terms(Limit::Duration(Nanos::from_secs(26)), Some(5));
        // p99 needs 100 responses, and three tenths more are expected: 130 in 26 s.
        assert!(with == Some(777.0) && (least - 5.0).abs() < 1e-9, "{with:?} {least}");
        assert_eq!(terms(Limit::Operations(8), Some(4)), (None, 1.0));
        assert_eq!(terms(Limit::Operations(8), None), (None, 1.0));
        let until = Until::SteadyState {
            tracked: 0,
            tracking: Tracking::Iops,
            window: 5,
            excursion_per_mille: 200,
            slope_per_mille: 100,
        };
        let steady = Rounds { max: 9, until };
        assert!(super::terms(&plan, &section(), steady, |_, _| None).is_none());
    }

    #[test]
    fn trials_and_series_end_at_the_first_round_that_is_missing() {
        let found = |iops: f64| {
            let mut found = sample().workloads.remove(0);
            found.iops = iops;
            found.open_loop = Some(crate::OpenLoop {
                arrivals: durio_workload::Arrivals::Constant { rate_per_second: iops },
                offered_per_second: iops,
                achieved_per_second: iops,
                due: 3000,
                never_started: 0,
                started_share: 1.0,
                lag_ns_mean: 1.0,
                lag_ns_max: 2,
                behind_ns_max: 3,
            });
            found
        };
        let all = [found(10.0), found(20.0), found(30.0), found(40.0)];
        let at = |step: u32, round: u32| {
            let is_there = step == 1 && round != 2;
            all.get(round as usize).filter(|_| is_there)
        };
        let tried = |count| {
            let tried = trials(&section(), GOAL, count, at);
            tried.iter().map(|trial| (trial.round, trial.rate_per_second)).collect::<Vec<_>>()
        };
        assert_eq!(tried(4), [(0, 10.0), (1, 20.0)]);
        assert_eq!(tried(1), [(0, 10.0)]);
        let series = |tracked| {
            let until = Until::SteadyState {
                tracked,
                tracking: Tracking::Iops,
                window: 5,
                excursion_per_mille: 200,
                slope_per_mille: 100,
            };
            tracked_series(&section(), Rounds { max: 9, until }, 4, at)
        };
        assert_eq!((series(0), series(1)), (vec![10.0, 20.0], vec![]));
    }
}
