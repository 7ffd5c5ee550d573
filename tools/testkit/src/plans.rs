//! Plans for the tests of several crates.

use durio_base::Nanos;
use durio_plan::{
    Campaign, ClockChoice, EngineKind, Limit, Load, PLAN_SCHEMA, Plan, PlanSection, Purpose, Role,
    Rounds, SectionKind, Step, Tracking, Until,
};
use durio_workload::Workload;

/// A campaign of steps on one target, each with the number of its section, its role and its limit. The
/// section `repeated` has at most `rounds`, until its rate is steady; the others have none.
pub fn campaign(steps: &[(u32, Role, Limit)], repeated: u32, rounds: u32) -> Plan {
    let step = |(index, &(section, role, limit)): (u32, &(u32, Role, Limit))| {
        let load = Load::new(0, Workload::default(), EngineKind::Null);
        let step = Step::new(role, load, limit, Nanos::from_secs(1));
        Step { index, section: Some(section), ..step }
    };
    let steps: Vec<Step> = (0..).zip(steps).map(step).collect();
    let section = |steps: &[Step]| {
        let until = Until::SteadyState {
            tracked: 0,
            tracking: Tracking::Iops,
            window: 5,
            excursion_per_mille: 200,
            slope_per_mille: 100,
        };
        let is_repeated = steps[0].section == Some(repeated);
        PlanSection {
            name: String::new(),
            summary: String::new(),
            kind: SectionKind::Single,
            first_step: steps[0].index,
            steps: u32::try_from(steps.len()).unwrap(),
            rounds: is_repeated.then_some(Rounds { max: rounds, until }),
            baseline: None,
        }
    };
    let sections = steps.chunk_by(|a, b| a.section == b.section).map(section).collect();
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Campaign,
        seed: 1,
        clock: ClockChoice::Auto,
        targets: Vec::new(),
        steps,
        campaign: Some(Campaign { sections, ..Campaign::default() }),
        thresholds: Vec::new(),
    }
}
