//! The plan of `durio sweep`: a closed loop that shows the ceiling, then rounds of an open loop, each
//! at another rate.

use durio_base::Nanos;
use durio_plan::{
    Campaign, Goal, Limit, Plan, PlanSection, Purpose, Role, Rounds, SectionKind, Step, Until,
};
use durio_workload::{Arrivals, PerMille};

use crate::{RunRequest, SpecError, plan_run};

/// What the user asks of `durio sweep`.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRequest {
    /// The job; its duration is that of one trial. Its arrivals say how the rate is offered; the rate
    /// itself is where the search begins, unless that is the ceiling's.
    pub run: RunRequest,
    /// What must be kept.
    pub goal: Goal,
    /// The target width of the interval.
    pub precision: PerMille,
    /// At most this many rates are tried.
    pub trials_max: u32,
    /// The search begins below what the closed loop reaches, and not at the rate of the arrivals.
    pub from_ceiling: bool,
}

/// Makes the plan.
///
/// # Errors
/// If the request contradicts itself, would overwrite an existing target, or does not fit.
pub fn plan_sweep(request: &SweepRequest) -> Result<Plan, SpecError> {
    check(request)?;
    let arrivals = request.run.arrivals;
    // The closed loop first: above its rate an open one only fills its queue.
    let closed = RunRequest { arrivals: Arrivals::Closed, ..request.run.clone() };
    let mut plan = plan_run(&closed)?;
    plan.purpose = Purpose::Sweep;
    let Some(measured) = plan.steps.iter().position(|step| step.role == Role::Measure) else {
        return Err(SpecError::wrong_use("a sweep needs something to measure"));
    };
    let mut ceiling = plan.steps[measured].clone();
    let mut search = ceiling.clone();
    ceiling.load.workload.name = format!("{} closed loop", ceiling.load.workload.name);
    ceiling.section = Some(0);
    search.load.arrivals = arrivals;
    search.section = Some(1);
    plan.steps.truncate(measured);
    let first = u32::try_from(measured).unwrap_or(u32::MAX);
    (ceiling.index, search.index) = (first, first + 1);
    plan.steps.extend([ceiling, search]);
    plan.campaign = Some(campaign(request, first, &plan.steps));
    Ok(plan)
}

fn campaign(request: &SweepRequest, ceiling: u32, steps: &[Step]) -> Campaign {
    let goal = request.goal;
    let name = steps.last().map_or("", |step| step.load.workload.name.as_str());
    let section = |name: &str, summary: String, first_step, rounds| PlanSection {
        name: name.to_owned(),
        summary,
        kind: SectionKind::Single,
        first_step,
        steps: 1,
        rounds,
        baseline: None,
    };
    let until = Until::GoalFound {
        goal,
        precision_per_mille: request.precision.0,
        ceiling_step: request.from_ceiling.then_some(ceiling),
    };
    let rounds = Rounds { max: request.trials_max, until };
    Campaign {
        name: "sweep".to_owned(),
        summary: format!(
            "{name}: the highest rate with p{} within {}",
            goal.percentile, goal.latency
        ),
        sections: vec![
            section("ceiling", "a closed loop: the maximum rate".to_owned(), ceiling, None),
            section(
                "search",
                format!(
                    "an open loop: p{} of the response within {}",
                    goal.percentile, goal.latency
                ),
                ceiling + 1,
                Some(rounds),
            ),
        ],
        ..Campaign::default()
    }
}

fn check(request: &SweepRequest) -> Result<(), SpecError> {
    let wrong = |text: &str| Err(SpecError::wrong_use(text));
    let percentile = request.goal.percentile;
    if !(percentile > 0.0 && percentile < 100.0) {
        return Err(SpecError::wrong_use(format!(
            "a goal needs a percentile above 0 and below 100, not {percentile}"
        )));
    }
    if request.goal.latency == Nanos::ZERO {
        return wrong("a latency goal of 0 can never be met");
    }
    if request.run.arrivals.is_closed() {
        return wrong("a sweep needs an open loop, because it sets the rate");
    }
    // The answer has to be kept twice and another rate to fail.
    if request.trials_max < 3 || request.precision == PerMille::NONE {
        return wrong("a search needs at least 3 trials and a precision above 0");
    }
    match request.run.limit {
        Limit::Duration(_) => Ok(()),
        Limit::Operations(_) | Limit::Volume(_) | Limit::VolumeWithin { .. } => {
            wrong("each trial of a sweep has a fixed duration: give --duration, not --ops")
        }
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::{
        BatchPolicy, ClockChoice, EngineKind, Location, LocationFacts, Placement, RawPath,
    };
    use durio_workload::Workload;

    use super::*;

    fn request() -> SweepRequest {
        let free = Bytes::from_gib(80);
        let facts = LocationFacts::Directory { free, filesystem: 1 };
        let run = RunRequest {
            location: Some(Location { path: RawPath::from("/x"), facts, destroy: false }),
            workload: Workload { name: "reads".to_owned(), ..Workload::default() },
            engine: EngineKind::Sync,
            fio_engine: None,
            arrivals: Arrivals::Poisson { rate_per_second: 700.0 },
            placement: Placement::DeviceNode,
            batch: BatchPolicy::DEFAULT,
            script: None,
            limit: Limit::Duration(Nanos::from_secs(3)),
            ramp: Nanos::from_millis(200),
            interval: None,
            size: None,
            self_cost: true,
            trace_path: true,
            seed: 5,
            clock: ClockChoice::Auto,
            file_name: ".durio-1".to_owned(),
        };
        let goal = Goal { percentile: 99.9, latency: Nanos::from_millis(2) };
        SweepRequest { run, goal, precision: PerMille(30), trials_max: 12, from_ceiling: true }
    }

    #[test]
    fn the_ceiling_is_a_closed_loop_and_the_search_begins_behind_it() {
        let plan = plan_sweep(&request()).unwrap();
        let steps: Vec<_> = plan
            .steps
            .iter()
            .map(|step| {
                let load = &step.load;
                (step.index, step.role, step.section, load.workload.name.as_str(), load.arrivals)
            })
            .collect();
        let closed = Arrivals::Closed;
        let open = Arrivals::Poisson { rate_per_second: 700.0 };
        assert_eq!(
            steps[1..],
            [
                (1, Role::Measure, Some(0), "reads closed loop", closed),
                (2, Role::Measure, Some(1), "reads", open),
            ]
        );
        assert_eq!((plan.purpose, steps[0].1), (Purpose::Sweep, Role::SelfCost));
        let measured = &plan.steps[1..];
        assert!(measured.iter().all(|step| step.ramp == Nanos::from_millis(200)));
        assert!(measured.iter().all(|step| step.limit == Limit::Duration(Nanos::from_secs(3))));
        let sections = plan.campaign.unwrap().sections;
        assert_eq!((sections[0].first_step, sections[0].rounds), (1, None));
        let goal = request().goal;
        let until = Until::GoalFound { goal, precision_per_mille: 30, ceiling_step: Some(1) };
        assert_eq!(sections[1].first_step, 2);
        assert_eq!(sections[1].rounds, Some(Rounds { max: 12, until }));
        let own = SweepRequest { from_ceiling: false, ..request() };
        let sections = plan_sweep(&own).unwrap().campaign.unwrap().sections;
        let until = Until::GoalFound { goal, precision_per_mille: 30, ceiling_step: None };
        assert_eq!(sections[1].rounds, Some(Rounds { max: 12, until }));
    }

    #[test]
    fn a_search_that_cannot_end_or_begin_is_refused() {
        let good = request();
        let with_goal = |percentile, nanos| SweepRequest {
            goal: Goal { percentile, latency: Nanos::new(nanos) },
            ..good.clone()
        };
        let with_run = |run| SweepRequest { run, ..good.clone() };
        let run = &good.run;
        for (request, part) in [
            (with_goal(0.0, 1), "above 0 and below 100, not 0"),
            (with_goal(100.0, 1), "above 0 and below 100, not 100"),
            (with_goal(50.0, 0), "can never be met"),
            (SweepRequest { trials_max: 2, ..good.clone() }, "at least 3 trials"),
            (SweepRequest { precision: PerMille::NONE, ..good.clone() }, "a precision above 0"),
            (
                with_run(RunRequest { arrivals: Arrivals::Closed, ..run.clone() }),
                "a sweep needs an open loop",
            ),
            (
                with_run(RunRequest { limit: Limit::Operations(9), ..run.clone() }),
                "give --duration, not --ops",
            ),
        ] {
            let error = plan_sweep(&request).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        for fits in [
            with_goal(99.999, 1),
            SweepRequest { trials_max: 3, precision: PerMille(1), ..good.clone() },
        ] {
            assert!(plan_sweep(&fits).is_ok(), "{fits:?}");
        }
    }
}
