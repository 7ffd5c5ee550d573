//! Which step comes next: the plan's order, rounds of sections, and where an interrupted run goes
//! on.

use durio_plan::{Plan, Until};
use durio_record::{RoundDecision, RoundEnded, RunResumed};

/// One run of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScheduledStep {
    pub(crate) position: usize,
    /// Round of its section.
    pub(crate) round: u32,
    /// The rate of this round, if it is not the plan's.
    pub(crate) rate: Option<f64>,
}

/// The way through a plan.
#[derive(Debug)]
pub(crate) struct StepSchedule<'a> {
    plan: &'a Plan,
    place: ScheduledStep,
    /// Steps that come before it, once each.
    repeated: std::collections::VecDeque<usize>,
}

impl<'a> StepSchedule<'a> {
    /// From the first step, or where `resume` says.
    pub(crate) fn new(plan: &'a Plan, resume: Option<&RunResumed>) -> Self {
        let position = resume.map_or(0, |resume| resume.step as usize);
        let repeated = resume.map_or_else(Vec::new, |resume| resume.repeated.clone());
        let repeated = repeated.into_iter().map(|step| step as usize);
        Self {
            plan,
            place: ScheduledStep { position, round: 0, rate: None },
            repeated: repeated.filter(|&step| step < plan.steps.len()).collect(),
        }
    }

    /// The step to run now; none at the end.
    pub(crate) fn current(&self) -> Option<ScheduledStep> {
        match self.repeated.front() {
            Some(&position) => Some(ScheduledStep { position, round: 0, rate: None }),
            None => Some(self.place).filter(|place| place.position < self.plan.steps.len()),
        }
    }

    /// Asks for the rate of the current step, if it begins a search that has a ceiling to go by.
    pub(crate) fn begin_search(&mut self, first_rate: impl FnOnce(u32) -> Option<f64>) {
        let ScheduledStep { position, round: 0, rate: None } = self.place else { return };
        // Repeated steps come first, at the plan's own rates.
        if self.repeated.is_empty()
            && let Some(section) = self.search_at(position)
        {
            self.place.rate = first_rate(section);
        }
    }

    /// The section that begins there, if that is a search that still needs its first rate.
    fn search_at(&self, position: usize) -> Option<u32> {
        let step = self.plan.steps.get(position)?;
        let section = self.plan.section_of(step)?;
        let until = section.rounds?.until;
        let asks = matches!(until, Until::GoalFound { ceiling_step: Some(_), .. });
        step.section.filter(|_| asks && section.range().start == position)
    }

    /// The step that follows if rounds continue; none at the end, or where the current step's
    /// results decide.
    pub(crate) fn likely_next(&self) -> Option<ScheduledStep> {
        if let Some(&next) = self.repeated.get(1) {
            return Some(ScheduledStep { position: next, round: 0, rate: None });
        }
        if !self.repeated.is_empty() {
            return Some(self.place).filter(|place| self.search_at(place.position).is_none());
        }
        let place = self.place;
        let next = match self.ending_section() {
            None => ScheduledStep { position: place.position + 1, ..place },
            Some((_, section)) => match section.rounds {
                // A steady state takes several rounds, so another one is the likely step.
                Some(rounds) if matches!(rounds.until, Until::SteadyState { .. }) => {
                    let round = place.round + 1;
                    ScheduledStep { position: section.range().start, round, rate: None }
                }
                // The next rate of a search depends on this round's results.
                Some(_) => return None,
                None => ScheduledStep { position: place.position + 1, round: 0, rate: None },
            },
        };
        let is_known = next.round > 0 || self.search_at(next.position).is_none();
        Some(next).filter(|next| is_known && next.position < self.plan.steps.len())
    }

    /// Moves on after the current step is done. At the end of a round `decide` gets the section and
    /// the round; its decision is returned.
    pub(crate) fn advance(
        &mut self,
        decide: impl FnOnce(u32, u32) -> RoundDecision,
    ) -> Option<RoundEnded> {
        if self.repeated.pop_front().is_some() {
            return None;
        }
        let Some((number, section)) = self.ending_section() else {
            self.place.position += 1;
            return None;
        };
        let Some(rounds) = section.rounds else {
            self.place = ScheduledStep { position: self.place.position + 1, round: 0, rate: None };
            return None;
        };
        let round = self.place.round;
        let decision = match decide(number, round) {
            RoundDecision::Again | RoundDecision::AgainAt { .. } if round + 1 >= rounds.max => {
                RoundDecision::NotReached
            }
            decision => decision,
        };
        let again =
            |rate| ScheduledStep { position: section.range().start, round: round + 1, rate };
        self.place = match decision {
            RoundDecision::Again => again(None),
            RoundDecision::AgainAt { rate_per_second } => again(Some(rate_per_second)),
            RoundDecision::Reached | RoundDecision::NotReached => {
                ScheduledStep { position: self.place.position + 1, round: 0, rate: None }
            }
        };
        Some(RoundEnded { section: number, round, decision })
    }

    /// The section whose last step is the current one.
    fn ending_section(&self) -> Option<(u32, &'a durio_plan::PlanSection)> {
        let step = self.plan.steps.get(self.place.position)?;
        let section = self.plan.section_of(step)?;
        let is_last = section.range().end == self.place.position + 1;
        is_last.then_some((step.section?, section))
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;
    use durio_plan::{
        Campaign, ClockChoice, EngineKind, Limit, Load, PLAN_SCHEMA, PlanSection, Purpose, Role,
        Rounds, SectionKind, Step, Tracking,
    };
    use durio_workload::Workload;

    use super::*;

    /// Sections of so many steps, with rounds at most.
    fn plan(sections: &[(u32, Option<u32>)]) -> Plan {
        let mut steps = Vec::new();
        let mut built = Vec::new();
        for (number, &(count, max)) in (0..).zip(sections) {
            let first_step = u32::try_from(steps.len()).unwrap();
            for _ in 0..count {
                let load = Load::new(0, Workload::default(), EngineKind::Null);
                let limit = Limit::Operations(1);
                let step = Step::new(Role::Measure, load, limit, Nanos::from_secs(1));
                let index = u32::try_from(steps.len()).unwrap();
                steps.push(Step { index, section: Some(number), ..step });
            }
            let until = Until::SteadyState {
                tracked: 0,
                tracking: Tracking::Iops,
                window: 5,
                excursion_per_mille: 200,
                slope_per_mille: 100,
            };
            built.push(PlanSection {
                name: format!("s{number}"),
                summary: String::new(),
                kind: SectionKind::Single,
                first_step,
                steps: count,
                rounds: max.map(|max| Rounds { max, until }),
                baseline: None,
            });
        }
        Plan {
            schema: PLAN_SCHEMA,
            purpose: Purpose::Campaign,
            seed: 1,
            clock: ClockChoice::Auto,
            targets: Vec::new(),
            steps,
            campaign: Some(Campaign { sections: built, ..Campaign::default() }),
            thresholds: Vec::new(),
        }
    }

    /// (step, round) in order, with the decisions of `decide`; every step was foreseen, unless a
    /// decision changed it.
    fn walk(
        plan: &Plan,
        resume: Option<&RunResumed>,
        decide: impl Fn(u32, u32) -> RoundDecision,
    ) -> Vec<(usize, u32)> {
        let mut schedule = StepSchedule::new(plan, resume);
        let mut walked = Vec::new();
        while let Some(place) = schedule.current() {
            walked.push((place.position, place.round));
            assert!(walked.len() < 100, "no end");
            schedule.advance(&decide);
        }
        walked
    }

    #[test]
    fn a_section_is_repeated_until_it_is_decided_otherwise_or_its_rounds_are_used_up() {
        let plan = plan(&[(1, None), (2, Some(4)), (1, None)]);
        let steady_after = |last: u32| {
            move |_, round| if round < last { RoundDecision::Again } else { RoundDecision::Reached }
        };
        let once = walk(&plan, None, steady_after(0));
        assert_eq!(once, [(0, 0), (1, 0), (2, 0), (3, 0)]);
        let thrice = walk(&plan, None, steady_after(2));
        assert_eq!(thrice, [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2), (3, 0)]);
        assert_eq!(walk(&plan, None, steady_after(99)).len(), 1 + 2 * 4 + 1);
    }

    #[test]
    fn a_search_begins_with_the_rate_that_is_asked_for_and_is_not_made_ready_before() {
        let mut plan = plan(&[(1, None), (1, Some(3))]);
        let goal = durio_plan::Goal { percentile: 99.0, latency: Nanos::from_millis(2) };
        let until = Until::GoalFound { goal, precision_per_mille: 50, ceiling_step: Some(0) };
        plan.campaign.as_mut().unwrap().sections[1].rounds = Some(Rounds { max: 3, until });
        let mut schedule = StepSchedule::new(&plan, None);
        schedule.begin_search(|_| panic!("the first step searches nothing"));
        assert_eq!(schedule.likely_next(), None, "its rate is not known yet");
        schedule.advance(|_, _| RoundDecision::Reached);
        schedule.begin_search(|section| Some(100.0 + f64::from(section)));
        assert_eq!(
            schedule.current(),
            Some(ScheduledStep { position: 1, round: 0, rate: Some(101.0) })
        );
        schedule.advance(|_, _| RoundDecision::AgainAt { rate_per_second: 7.0 });
        schedule.begin_search(|_| panic!("the second round has its rate"));
        assert_eq!(
            schedule.current(),
            Some(ScheduledStep { position: 1, round: 1, rate: Some(7.0) })
        );
    }

    #[test]
    fn the_last_round_without_a_result_is_told() {
        let plan = plan(&[(1, Some(2))]);
        let mut schedule = StepSchedule::new(&plan, None);
        assert_eq!(
            schedule.advance(|_, _| RoundDecision::Again).unwrap().decision,
            RoundDecision::Again
        );
        let last = schedule.advance(|_, _| RoundDecision::Again).unwrap();
        assert_eq!((last.round, last.decision), (1, RoundDecision::NotReached));
        assert_eq!(schedule.current(), None);
    }

    #[test]
    fn a_resumed_run_repeats_what_its_state_needs_and_goes_on() {
        let plan = plan(&[(1, None), (1, None), (2, None)]);
        let event = RunResumed { step: 2, repeated: vec![0], resumed: String::new() };
        let walked = walk(&plan, Some(&event), |_, _| RoundDecision::Reached);
        assert_eq!(walked, [(0, 0), (2, 0), (3, 0)]);
    }

    #[test]
    fn the_next_step_is_foreseen_where_it_does_not_depend_on_a_search() {
        let plan = plan(&[(1, None), (2, Some(3)), (1, None)]);
        let mut schedule = StepSchedule::new(&plan, None);
        let mut foreseen = Vec::new();
        for _ in 0..4 {
            foreseen.push(schedule.likely_next().map(|next| (next.position, next.round)));
            schedule.advance(|_, _| RoundDecision::Again);
        }
        assert_eq!(foreseen, [Some((1, 0)), Some((2, 0)), Some((1, 1)), Some((2, 1))]);
    }

    #[test]
    fn repeated_steps_come_first_and_those_that_the_plan_lacks_are_left_out() {
        let plan = plan(&[(1, None), (1, None), (2, None)]);
        let event = RunResumed { step: 3, repeated: vec![1, 4, 0], resumed: String::new() };
        let mut schedule = StepSchedule::new(&plan, Some(&event));
        let mut walked = Vec::new();
        while let Some(place) = schedule.current() {
            let likely = schedule.likely_next().map(|next| next.position);
            walked.push((place.position, likely));
            assert_eq!(schedule.advance(|_, _| RoundDecision::Reached), None);
        }
        assert_eq!(walked, [(1, Some(0)), (0, Some(3)), (3, None)]);
    }

    /// The plan with a search in its second section, which has a ceiling or not.
    fn searching(sections: &[(u32, Option<u32>)], ceiling_step: Option<u32>) -> Plan {
        let mut plan = plan(sections);
        let goal = durio_plan::Goal { percentile: 99.0, latency: Nanos::from_millis(2) };
        let until = Until::GoalFound { goal, precision_per_mille: 50, ceiling_step };
        let sections = &mut plan.campaign.as_mut().unwrap().sections;
        sections[1].rounds = Some(Rounds { max: 2, until });
        plan
    }

    #[test]
    fn a_search_of_several_steps_has_one_rate_a_round_and_ends_with_its_last_round() {
        let plan = searching(&[(1, None), (2, Some(2)), (1, None)], Some(0));
        let mut schedule = StepSchedule::new(&plan, None);
        schedule.advance(|_, _| panic!("a section without rounds"));
        schedule.begin_search(|section| Some(10.0 * f64::from(section)));
        let at = |position, round, rate| Some(ScheduledStep { position, round, rate });
        assert_eq!(schedule.current(), at(1, 0, Some(10.0)));
        assert_eq!(schedule.likely_next(), at(2, 0, Some(10.0)));
        assert_eq!(schedule.advance(|_, _| panic!("amid a round")), None);
        assert_eq!(schedule.current(), at(2, 0, Some(10.0)));
        assert_eq!(schedule.likely_next(), None, "the round's results decide");
        let again = |rate_per_second| RoundDecision::AgainAt { rate_per_second };
        let ended = schedule.advance(|section, round| {
            assert_eq!((section, round), (1, 0));
            again(7.0)
        });
        assert_eq!(ended, Some(RoundEnded { section: 1, round: 0, decision: again(7.0) }));
        assert_eq!(schedule.current(), at(1, 1, Some(7.0)));
        assert_eq!(schedule.likely_next(), at(2, 1, Some(7.0)));
        schedule.advance(|_, _| panic!("amid a round"));
        let decision = RoundDecision::NotReached;
        let last = schedule.advance(|_, _| again(9.0));
        assert_eq!(last, Some(RoundEnded { section: 1, round: 1, decision }));
        assert_eq!(schedule.current(), at(3, 0, None));
        assert_eq!(schedule.likely_next(), None, "it is the last step");
    }

    #[test]
    fn only_a_search_with_a_ceiling_asks_for_its_first_rate_and_not_while_steps_are_repeated() {
        let sections = [(1, None), (1, Some(2))];
        let plan = searching(&sections, None);
        let mut schedule = StepSchedule::new(&plan, None);
        assert_eq!(schedule.likely_next().map(|next| next.position), Some(1));
        schedule.advance(|_, _| panic!("a section without rounds"));
        schedule.begin_search(|_| panic!("it has its rate"));
        let plan = searching(&sections, Some(0));
        let event = RunResumed { step: 1, repeated: vec![0], resumed: String::new() };
        let mut schedule = StepSchedule::new(&plan, Some(&event));
        schedule.begin_search(|_| panic!("a repeated step"));
        assert_eq!(schedule.likely_next(), None, "its rate is not known yet");
        schedule.advance(|_, _| panic!("a repeated step"));
        schedule.begin_search(|_| Some(5.0));
        assert_eq!(schedule.current().and_then(|step| step.rate), Some(5.0));
    }
}
