//! Warnings about how a campaign went: rates not offered, states not reached, pauses.

use durio_base::{Nanos, percent};
use durio_plan::{Role, Until};

use super::{RuleInput, place};
use durio_analyse::WorkloadFindings;
use durio_analyse::campaign::SectionFindings;

// A drive that is left alone for longer may collect garbage or empty its fast cache before it is
// measured; preparing a step takes a few milliseconds.
const IDLE_MAX: Nanos = Nanos::from_millis(50);

// Rates of several hosts are added interval by interval: a hundredth of one may be counted in its
// neighbour. Long intervals would hide a start that missed its time by a tenth of a second.
const SKEW_MAX: Nanos = Nanos::from_millis(10);
const INTERVAL_PARTS: u64 = 100;

pub(super) fn time_scale(input: &RuleInput<'_>) -> Option<String> {
    let scale = durio_analyse::campaign::time_scale(input.plan.campaign.as_ref()?)?;
    Some(format!("steps ran for {} of the campaign's durations", percent(scale)))
}

/// True if the step looks for the limit, and has to go beyond it.
fn is_search(input: &RuleInput<'_>, workload: &WorkloadFindings) -> bool {
    let step = input.plan.steps.get(workload.step as usize);
    let section = step.and_then(|step| input.plan.section_of(step));
    let rounds = section.and_then(|section| section.rounds);
    rounds.is_some_and(|rounds| matches!(rounds.until, Until::GoalFound { .. }))
}

pub(super) fn offered_rate(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let open = workload.open_loop.filter(|open| !open.keeps_up())?;
    (!is_search(input, workload)).then(|| {
        format!(
            "{:.0} of {:.0} per second; {} of the arrivals never started",
            open.achieved_per_second,
            open.offered_per_second,
            percent(1.0 - open.started_share)
        )
    })
}

pub(super) fn idle_gap(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let idle = workload.idle_before.filter(|idle| *idle > IDLE_MAX)?;
    follows_preconditioning(input, workload)
        .then(|| format!("nothing was in flight for {idle} after preconditioning"))
}

pub(super) fn skewed(input: &RuleInput<'_>, workload: &WorkloadFindings) -> Option<String> {
    let skew = workload.gated.filter(|_| workload.stream == 0)?.skew_max();
    let interval = input.plan.steps.get(workload.step as usize)?.interval;
    let is_far = skew > SKEW_MAX || skew.get() > interval.get() / INTERVAL_PARTS;
    is_far.then(|| format!("started up to {skew} from the ordered time"))
}

fn follows_preconditioning(input: &RuleInput<'_>, workload: &WorkloadFindings) -> bool {
    let steps = &input.plan.steps;
    let section = steps.get(workload.step as usize).and_then(|step| input.plan.section_of(step));
    // From its second round on, a section's first step comes after its last.
    let again = section.filter(|section| section.first_step == workload.step && workload.round > 0);
    let before = match again {
        Some(section) => section.range().end.checked_sub(1),
        None => (workload.step as usize).checked_sub(1),
    };
    let before = before.and_then(|before| steps.get(before));
    workload.stream == 0 && before.is_some_and(|step| step.role == Role::Precondition)
}

pub(super) fn not_steady(_: &RuleInput<'_>, section: &SectionFindings) -> Vec<String> {
    let found = section.convergence.as_ref();
    let state = found.and_then(|found| found.state.as_ref());
    let state = state.filter(|state| state.attained_at.is_none());
    state.map(|state| format!("{}: {}", section.name, state.sentence)).into_iter().collect()
}

pub(super) fn left_state(input: &RuleInput<'_>, section: &SectionFindings) -> Vec<String> {
    let worse = section.long_runs.iter().filter(|run| run.leaving.is_worse);
    let text = |run: &durio_analyse::campaign::LongRun| {
        let is_it = |workload: &&WorkloadFindings| {
            (workload.step, workload.round, workload.stream) == (run.step, run.round, run.stream)
        };
        let workload = input.workloads.iter().find(is_it)?;
        let evidence = run.leaving.evidence.first()?;
        Some(format!("{}: {evidence}", place(workload, &workload.name)))
    };
    worse.filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use durio_plan::{Campaign, Step};

    use super::*;
    use crate::tests::{Sample, check_quiet, check_warns};
    use durio_analyse::{GatedStart, OpenLoop};

    const OPEN: OpenLoop = OpenLoop {
        arrivals: durio_workload::Arrivals::Closed,
        offered_per_second: 2000.0,
        achieved_per_second: 1000.0,
        due: 2000,
        never_started: 1000,
        started_share: 0.5,
        lag_ns_mean: 0.0,
        lag_ns_max: 0,
        behind_ns_max: 0,
    };

    #[test]
    fn the_words_name_the_pause_that_is_too_long() {
        let what = &super::super::TEXTS.get("idle-gap").unwrap().what;
        assert!(what.contains(&format!("for more than {IDLE_MAX} ")), "{what}");
    }

    #[test]
    fn a_rate_that_was_not_reached_is_named_unless_it_was_searched_for() {
        check_warns("offered-rate", |sample| {
            sample.workloads[0].open_loop = Some(OPEN);
        });
        check_quiet("offered-rate", |sample| {
            sample.workloads[0].open_loop = Some(OpenLoop { started_share: 0.995, ..OPEN });
        });
    }

    #[test]
    fn a_pause_is_named_only_after_preconditioning_and_above_its_threshold() {
        let spoil = |sample: &mut Sample, role: Role, idle: Nanos| {
            let measured = sample.plan.steps.remove(0);
            let before = Step { role, ..measured.clone() };
            sample.plan.steps = vec![before, Step { index: 1, ..measured }];
            sample.workloads[0].step = 1;
            sample.workloads[0].idle_before = Some(idle);
        };
        check_warns("idle-gap", |sample| {
            spoil(sample, Role::Precondition, Nanos::from_millis(51));
        });
        check_quiet("idle-gap", |sample| {
            spoil(sample, Role::Precondition, Nanos::from_millis(50));
        });
        check_quiet("idle-gap", |sample| spoil(sample, Role::Measure, Nanos::from_secs(9)));
        // The streams of a step begin together: the first speaks for all.
        check_quiet("idle-gap", |sample| {
            spoil(sample, Role::Precondition, Nanos::from_millis(51));
            sample.workloads[0].stream = 1;
        });
    }

    #[test]
    fn a_start_away_from_its_order_is_named_above_ten_milliseconds_or_a_hundredth_of_an_interval() {
        let start = |sample: &mut Sample, interval, lateness_ns, bound_ns| {
            let (offset_ns, ordered_at_ns) = (123_456, 9_000_000_000);
            let gated = GatedStart { lateness_ns, offset_ns, bound_ns, ordered_at_ns };
            sample.plan.steps[0].interval = interval;
            sample.workloads[0].gated = Some(gated);
        };
        let long = Nanos::from_secs(5);
        check_quiet("skewed", |sample| start(sample, long, 4_000_000, 6_000_000));
        check_warns("skewed", |sample| start(sample, long, 4_000_000, 6_000_001));
        check_warns("skewed", |sample| start(sample, long, -4_000_000, 6_000_001));
        let short = Nanos::from_millis(200);
        check_quiet("skewed", |sample| start(sample, short, 1_500_000, 500_000));
        check_warns("skewed", |sample| start(sample, short, 1_500_000, 500_001));
        // The streams of a step start together: the first speaks for all.
        check_quiet("skewed", |sample| {
            start(sample, long, 20_000_000, 0);
            sample.workloads[0].stream = 1;
        });
        let seen = crate::tests::seen("skewed", |sample| start(sample, long, 12_000_000, 500_000));
        assert_eq!(seen.unwrap(), "commit: started up to 12.5 ms from the ordered time");
    }

    #[test]
    fn scaled_durations_are_named() {
        check_warns("time-scale", |sample| {
            let campaign = Campaign { time_scale_per_mille: 50, ..Campaign::default() };
            sample.plan.campaign = Some(campaign);
        });
        check_quiet("time-scale", |sample| {
            let campaign = Campaign { time_scale_per_mille: 1000, ..Campaign::default() };
            sample.plan.campaign = Some(campaign);
        });
    }
}
