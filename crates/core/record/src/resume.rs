//! Where an interrupted run continues, from its plan and its events.

use std::collections::BTreeSet;

use durio_base::Nanos;
use durio_plan::{Plan, PlanSection, Role, Step};

use crate::{Event, Outcome, RoundDecision, TimedEvent};

/// Where an interrupted run continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumePoint {
    /// Index of the first step that is not finished; the first one of its section, where that is
    /// run in rounds or brings a target into its state: neither can be joined in the middle.
    pub step: u32,
    /// Steps before it that are run again, because what they made of the target does not last.
    pub repeated: Vec<u32>,
    /// Time of the last event.
    pub elapsed: Nanos,
    /// How often the run was resumed before.
    pub resumed_before: u32,
}

/// Finds where to continue; none if the run is finished.
pub fn resume_point<'e>(
    plan: &Plan,
    events: impl IntoIterator<Item = &'e TimedEvent>,
) -> Option<ResumePoint> {
    let mut finished = FinishedParts::default();
    for event in events {
        finished.take(plan, event);
    }
    if finished.run {
        return None;
    }
    let first = plan.steps.iter().find(|step| !finished.has(plan, step))?;
    let section = plan.section_of(first);
    // Rounds are judged by each other, and a state must be reached in one go.
    let indivisible =
        |section: &&PlanSection| section.rounds.is_some() || first.role == Role::Precondition;
    let step = section.filter(indivisible).map_or(first.index, |section| section.first_step);
    Some(ResumePoint {
        step,
        repeated: preconditions_of(plan, &plan.steps[step as usize]),
        elapsed: finished.elapsed,
        resumed_before: finished.resumed,
    })
}

#[derive(Default)]
struct FinishedParts {
    steps: BTreeSet<u32>,
    sections: BTreeSet<u32>,
    run: bool,
    resumed: u32,
    elapsed: Nanos,
}

impl FinishedParts {
    fn take(&mut self, plan: &Plan, timed: &TimedEvent) {
        // New times are added to it: events of one run never go back.
        self.elapsed = self.elapsed.max(timed.at);
        match &timed.event {
            Event::StepEnded(ended) if ended.outcome == Outcome::Complete => {
                self.steps.insert(ended.step);
            }
            // A refused step would be refused again.
            Event::StepDeclined(declined) => {
                self.steps.insert(declined.step);
            }
            Event::RoundEnded(ended)
                if matches!(ended.decision, RoundDecision::Reached | RoundDecision::NotReached) =>
            {
                self.sections.insert(ended.section);
            }
            Event::RunResumed(resumed) => {
                self.resumed += 1;
                // Steps after that place have been done again since, or are still to be done.
                self.steps.retain(|step| *step < resumed.step);
                let sections = plan.campaign.iter().flat_map(|campaign| &campaign.sections);
                let begun: BTreeSet<u32> = (0..)
                    .zip(sections)
                    .filter(|(_, section)| section.first_step < resumed.step)
                    .map(|(number, _)| number)
                    .collect();
                self.sections.retain(|section| begun.contains(section));
            }
            // The last one counts: a run that was interrupted and resumed ends more than once.
            Event::RunEnded(ended) => self.run = ended.outcome == Outcome::Complete,
            _ => {}
        }
    }

    /// A step of a section with rounds is finished with the last of them.
    fn has(&self, plan: &Plan, step: &Step) -> bool {
        match (plan.section_of(step), step.section) {
            (Some(section), Some(number)) if section.rounds.is_some() => {
                self.sections.contains(&number)
            }
            _ => self.steps.contains(&step.index),
        }
    }
}

/// The steps of the section, the nearest before `step`, that brought one of its targets into its
/// state.
fn preconditions_of(plan: &Plan, step: &Step) -> Vec<u32> {
    let targets: Vec<usize> = step.loads().flat_map(|load| load.targets()).collect();
    let concerns = |other: &Step| {
        other.role == Role::Precondition
            && other.loads().flat_map(|load| load.targets()).any(|target| targets.contains(&target))
    };
    let before = &plan.steps[..step.index as usize];
    let Some(last) = before.iter().rev().find(|other| concerns(other)) else { return Vec::new() };
    // Its section starts over as a whole, so it needs no state from before.
    if step.role == Role::Precondition {
        return Vec::new();
    }
    let same_section = |other: &&Step| other.section == last.section && concerns(other);
    before.iter().filter(same_section).map(|other| other.index).collect()
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{EngineKind, Limit, Load};
    use durio_workload::Workload;
    use testkit::plans::campaign;

    use super::*;
    use crate::{RoundEnded, RunEnded, RunResumed, StepEnded};

    /// Preconditioning of one step, then two single steps, then a section of two in rounds.
    fn plan() -> Plan {
        let roles = [(0, Role::Precondition), (1, Role::Measure), (1, Role::Measure)];
        let rounds = [(2, Role::Measure); 2];
        let steps = roles.into_iter().chain(rounds);
        let steps: Vec<_> =
            steps.map(|(section, role)| (section, role, Limit::Operations(1))).collect();
        campaign(&steps, 2, 25)
    }

    fn ended(step: u32, round: u32, outcome: Outcome) -> Event {
        Event::StepEnded(StepEnded {
            step,
            round,
            outcome,
            measured: Nanos::ZERO,
            cpu: None,
            devices: Vec::new(),
            cpu_process_user: None,
            cpu_process_system: None,
            idle_before: None,
            context_switches: None,
        })
    }

    fn round(decision: RoundDecision) -> Event {
        Event::RoundEnded(RoundEnded { section: 2, round: 0, decision })
    }

    fn point(events: Vec<Event>) -> Option<(u32, Vec<u32>)> {
        let timed: Vec<TimedEvent> = (1..)
            .zip(events)
            .map(|(second, event)| TimedEvent { at: Nanos::from_secs(second), event })
            .collect();
        let point = resume_point(&plan(), &timed)?;
        assert_eq!(point.elapsed, Nanos::from_secs(timed.len() as u64));
        Some((point.step, point.repeated))
    }

    const DONE: Outcome = Outcome::Complete;

    #[test]
    fn it_goes_on_after_the_last_finished_step_with_its_preconditioning_again() {
        assert_eq!(point(vec![]), Some((0, vec![])));
        for outcome in [Outcome::Interrupted, Outcome::Failed] {
            let events = vec![ended(0, 0, DONE), ended(1, 0, outcome)];
            assert_eq!(point(events), Some((1, vec![0])), "{outcome:?}");
        }
        let two = vec![ended(0, 0, DONE), ended(1, 0, DONE)];
        assert_eq!(point(two), Some((2, vec![0])));
    }

    #[test]
    fn steps_without_figures_are_finished_as_others_are() {
        let mut plan = plan();
        plan.steps[1].role = Role::Trace;
        plan.steps[2].role = Role::ProbeSyncCalls;
        let timed = |event| TimedEvent { at: Nanos::from_secs(1), event };
        let mut events = vec![timed(ended(0, 0, DONE)), timed(ended(1, 0, DONE))];
        assert_eq!(resume_point(&plan, &events).unwrap().step, 2);
        events.push(timed(ended(2, 0, Outcome::Interrupted)));
        assert_eq!(resume_point(&plan, &events).unwrap().step, 2);
        events.push(timed(ended(2, 0, DONE)));
        assert_eq!(resume_point(&plan, &events).unwrap().step, 3);
    }

    #[test]
    fn rounds_begin_anew() {
        let mut events: Vec<Event> = (0..4).map(|step| ended(step, 0, DONE)).collect();
        assert_eq!(point(events.clone()), Some((3, vec![0])));
        events.extend([ended(4, 0, DONE), round(RoundDecision::Again), ended(3, 1, DONE)]);
        assert_eq!(point(events.clone()), Some((3, vec![0])));
        events.extend([ended(4, 1, DONE), round(RoundDecision::Reached)]);
        assert_eq!(point(events), None, "nothing is left to do");
    }

    #[test]
    fn a_finished_run_is_not_resumed_and_a_resumed_one_counts_from_there() {
        let memory_max = Bytes::ZERO;
        let run_ended = |outcome| Event::RunEnded(RunEnded { outcome, memory_max });
        assert_eq!(point(vec![run_ended(DONE)]), None);
        let resumed = RunResumed { step: 1, repeated: vec![0], resumed: String::new() };
        let events = vec![
            ended(0, 0, DONE),
            ended(1, 0, DONE),
            run_ended(Outcome::Interrupted),
            Event::RunResumed(resumed),
            ended(0, 0, DONE),
        ];
        assert_eq!(point(events), Some((1, vec![0])));
    }

    fn resumed_at(step: u32) -> Event {
        Event::RunResumed(RunResumed { step, repeated: Vec::new(), resumed: String::new() })
    }

    #[test]
    fn what_lies_behind_the_place_of_a_resumption_is_to_be_done_again() {
        let done =
            |steps: &[u32]| steps.iter().map(|&step| ended(step, 0, DONE)).collect::<Vec<_>>();
        let all = || {
            let mut events = done(&[0, 1, 2, 3, 4]);
            events.push(round(RoundDecision::Reached));
            events
        };
        let with = |step: u32| {
            let mut events = all();
            events.push(resumed_at(step));
            point(events).map(|point| point.0)
        };
        assert_eq!(point(all()), None);
        assert_eq!([with(0), with(1), with(2), with(3)], [Some(0), Some(1), Some(2), Some(3)]);
        // A section that had begun before keeps its end.
        assert_eq!(with(4), None);
        let not_reached = [done(&[0, 1, 2, 3, 4]), vec![round(RoundDecision::NotReached)]].concat();
        assert_eq!(point(not_reached), None);
        let declined =
            crate::StepDeclined { step: 1, round: 0, message: String::new(), errno: None };
        let events = [done(&[0]), vec![Event::StepDeclined(declined)]].concat();
        assert_eq!(point(events), Some((2, vec![0])));
    }

    #[test]
    fn resumptions_are_counted_and_the_last_end_of_a_run_counts() {
        let memory_max = Bytes::ZERO;
        let run_ended = |outcome| Event::RunEnded(RunEnded { outcome, memory_max });
        let at = |events: Vec<Event>| {
            let timed =
                events.into_iter().map(|event| TimedEvent { at: Nanos::from_secs(9), event });
            resume_point(&plan(), &timed.collect::<Vec<_>>())
        };
        let point = at(vec![resumed_at(0), resumed_at(0), ended(0, 0, DONE)]).unwrap();
        assert_eq!((point.step, point.resumed_before), (1, 2));
        assert_eq!(at(vec![]).unwrap().resumed_before, 0);
        assert!(at(vec![run_ended(DONE), run_ended(Outcome::Failed)]).is_some());
        assert!(at(vec![run_ended(Outcome::Interrupted), run_ended(DONE)]).is_none());
        // Times that go back change nothing.
        let back =
            [9, 5].map(|second| TimedEvent { at: Nanos::from_secs(second), event: Event::Unknown });
        assert_eq!(resume_point(&plan(), &back).unwrap().elapsed, Nanos::from_secs(9));
    }

    #[test]
    fn only_the_nearest_section_that_made_the_steps_targets_is_done_again() {
        let with = |targets: [usize; 5], roles: [Role; 5], step: usize| {
            let mut plan = plan();
            for (at, known) in plan.steps.iter_mut().enumerate() {
                known.load.target = targets[at];
                known.role = roles[at];
            }
            preconditions_of(&plan, &plan.steps[step])
        };
        use Role::{Measure, Precondition};
        // Sections 0, 1, 1, 2, 2.
        let roles = [Precondition, Precondition, Precondition, Measure, Measure];
        assert_eq!(with([0; 5], roles, 3), [1, 2]);
        assert_eq!(with([0, 0, 1, 0, 1], roles, 3), [1]);
        assert_eq!(with([0, 0, 1, 0, 1], roles, 4), [2]);
        assert_eq!(with([0, 1, 1, 0, 1], roles, 3), [0]);
        assert_eq!(with([0, 1, 1, 2, 1], roles, 3), [0; 0]);
        assert_eq!(with([0; 5], roles, 2), [0; 0], "a section starts over as a whole");
        assert_eq!(with([0; 5], [Measure; 5], 3), [0; 0]);
    }

    #[test]
    fn of_a_step_with_several_targets_what_made_each_of_them_is_done_again() {
        // Sections 0, 1, 1, 2, 2.
        let mut plan = plan();
        for (at, target) in [3, 2, 1, 0, 0].into_iter().enumerate() {
            plan.steps[at].load.target = target;
        }
        plan.steps[1].role = Role::Precondition;
        plan.steps[2].role = Role::Precondition;
        let of = |more: &[usize], beside: Option<usize>| {
            let mut plan = plan.clone();
            plan.steps[3].load.more_targets = more.to_vec();
            let load = |target| Load::new(target, Workload::default(), EngineKind::Null);
            plan.steps[3].beside = beside.map(load).into_iter().collect();
            preconditions_of(&plan, &plan.steps[3])
        };
        assert_eq!(of(&[], None), [0; 0]);
        assert_eq!(of(&[2, 1], None), [1, 2]);
        assert_eq!(of(&[1], None), [2]);
        assert_eq!(of(&[1], Some(2)), [1, 2]);
        assert_eq!(of(&[], Some(3)), [0]);
    }
}
