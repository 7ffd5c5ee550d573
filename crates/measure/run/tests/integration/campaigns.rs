//! Campaigns as a whole: rounds, loads side by side, several targets, no idle time between steps.

use std::collections::BTreeSet;
use std::error::Error;

use durio_base::{Bytes, Nanos};
use durio_plan::{
    Campaign, ClockChoice, EngineKind, FileLayout, Limit, Load, NullScript, PLAN_SCHEMA, Plan,
    PlanSection, Purpose, RawPath, Role, Rounds, SectionKind, Step, Target, TargetKind, Tracking,
    Until,
};
use durio_record::{Event, Journal, Outcome, RoundDecision, RunResumed, StepEnded};
use durio_run::{EventSink, Resume, RunContext, StopFlag, run};
use durio_workload::{Arrivals, Pattern, PerMille, Workload};

/// Keeps every event; a section is repeated until its `last` round.
struct Sink {
    events: Vec<Event>,
    last: u32,
}

impl EventSink for Sink {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.events.push(event);
        Ok(())
    }

    fn round_ended(&mut self, _: u32, round: u32) -> RoundDecision {
        if round < self.last { RoundDecision::Again } else { RoundDecision::Reached }
    }
}

fn carry_out(plan: &Plan, last: u32, resume: Option<Resume>) -> Vec<Event> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let context = RunContext { resume, ..RunContext::new(&mut journal, StopFlag::default()) };
    let mut sink = Sink { events: Vec::new(), last };
    assert_eq!(run(plan, context, &mut sink).unwrap(), Outcome::Complete);
    sink.events
}

fn ends(events: &[Event]) -> Vec<&StepEnded> {
    let ends = events.iter().filter_map(|event| match event {
        Event::StepEnded(ended) => Some(ended),
        _ => None,
    });
    ends.collect()
}

fn file(directory: &str, name: &str) -> Target {
    let kind = TargetKind::NewFile {
        directory: RawPath::from(directory),
        file_name: RawPath::from(format!(".durio-test-{name}")),
        named: false,
        layout: FileLayout::ZeroFilled,
    };
    let size = Bytes::from_mib(8);
    Target { name: name.into(), location: None, kind, size, destroy: false }
}

fn plan(targets: Vec<Target>, sections: Vec<(Vec<Step>, Option<Rounds>)>) -> Plan {
    let mut steps = Vec::new();
    let mut described = Vec::new();
    for (number, (section, rounds)) in (0..).zip(sections) {
        described.push(PlanSection {
            name: format!("section {number}"),
            summary: String::new(),
            kind: SectionKind::Single,
            first_step: u32::try_from(steps.len()).unwrap(),
            steps: u32::try_from(section.len()).unwrap(),
            rounds,
            baseline: None,
        });
        for step in section {
            let index = u32::try_from(steps.len()).unwrap();
            steps.push(Step { index, section: Some(number), ..step });
        }
    }
    let plan = Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Campaign,
        seed: 7,
        clock: ClockChoice::Monotonic,
        targets,
        steps,
        campaign: Some(Campaign { sections: described, ..Campaign::default() }),
        thresholds: Vec::new(),
    };
    plan.validate().unwrap();
    plan
}

fn steady(max: u32) -> Option<Rounds> {
    let until = Until::SteadyState {
        tracked: 0,
        tracking: Tracking::Iops,
        window: 5,
        excursion_per_mille: 200,
        slope_per_mille: 100,
    };
    Some(Rounds { max, until })
}

fn step(role: Role, engine: EngineKind, workload: Workload, operations: u64) -> Step {
    let load = Load::new(0, workload, engine);
    Step::new(role, load, Limit::Operations(operations), Nanos::from_millis(100))
}

fn writes(jobs: u32, depth: u32) -> Workload {
    let read_share = PerMille::NONE;
    Workload {
        name: "w".into(),
        pattern: Pattern::Random,
        read_share,
        jobs,
        depth,
        ..Workload::default()
    }
}

fn scripted(operations: u64) -> Step {
    let mut step = step(Role::Measure, EngineKind::Null, writes(2, 1), operations);
    let latencies = vec![Nanos::from_micros(100)];
    step.load.script = Some(NullScript { latencies, fails_at: None });
    step
}

fn nowhere() -> Target {
    let kind = TargetKind::Scripted;
    let size = Bytes::from_mib(1);
    Target { name: "scripted".into(), location: None, kind, size, destroy: false }
}

#[test]
fn rounds_are_told_by_number_and_end_when_it_is_decided() {
    let rounds = (vec![scripted(10), scripted(20)], steady(9));
    let plan = plan(vec![nowhere()], vec![(vec![scripted(5)], None), rounds]);
    let events = carry_out(&plan, 2, None);
    let told: Vec<(u32, u32)> = ends(&events).iter().map(|step| (step.step, step.round)).collect();
    assert_eq!(told, [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
    let decisions: Vec<RoundDecision> = events
        .iter()
        .filter_map(|event| match event {
            Event::RoundEnded(ended) => Some(ended.decision),
            _ => None,
        })
        .collect();
    assert_eq!(decisions, [RoundDecision::Again, RoundDecision::Again, RoundDecision::Reached]);
}

#[test]
fn a_resumed_run_tells_where_it_goes_on_and_repeats_what_it_must() {
    let plan = plan(vec![nowhere()], vec![(vec![scripted(1), scripted(2), scripted(3)], None)]);
    let event = RunResumed { step: 2, repeated: vec![0], resumed: "now".into() };
    let resume = Resume { event: event.clone(), elapsed: Nanos::from_secs(5) };
    let events = carry_out(&plan, 0, Some(resume));
    assert_eq!(events.first(), Some(&Event::RunResumed(event)));
    assert_eq!(ends(&events).iter().map(|step| step.step).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn loads_run_side_by_side_and_are_told_apart() {
    let mut pair = scripted(100);
    let mut slow = scripted(0).load;
    slow.workload.jobs = 3;
    slow.arrivals = Arrivals::Constant { rate_per_second: 1000.0 };
    slow.own_limit = Some(Limit::Duration(Nanos::from_millis(50)));
    pair.beside = vec![slow];
    let events = carry_out(&plan(vec![nowhere()], vec![(vec![pair], None)]), 0, None);
    let mut counts = [0_u64; 2];
    let mut jobs = BTreeSet::new();
    for event in &events {
        match event {
            Event::Interval(interval) => {
                for record in &interval.operations {
                    counts[interval.stream as usize] += record.service.exact.count;
                }
            }
            Event::JobEnded(job) => {
                assert!(jobs.insert((job.stream, job.job)));
                assert_eq!(job.pacing.is_some(), job.stream == 1);
            }
            _ => {}
        }
    }
    assert_eq!(counts, [100, 50]);
    assert_eq!(jobs, BTreeSet::from([(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)]));
}

#[test]
fn jobs_are_spread_over_the_targets_of_their_load() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = directory.path().to_str().unwrap();
    let targets = vec![file(place, "a"), file(place, "b"), file(place, "c")];
    let mut step = step(Role::Measure, EngineKind::Sync, writes(5, 1), 500);
    step.load.more_targets = vec![1, 2];
    step.load.workload.region = durio_workload::RegionRule::ShareEach;
    let events = carry_out(&plan(targets, vec![(vec![step], None)]), 0, None);
    let prepared = events.iter().filter(|event| matches!(event, Event::TargetPrepared(_)));
    assert_eq!(prepared.count(), 3, "every target of the load is made ready");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
}

/// The bound is generous, and one of the steps has to keep it, for other tests run beside it; what is
/// measured on an idle machine is in docs/benchmarks.md.
#[test]
fn between_preconditioning_and_measurement_hardly_any_time_is_idle_and_it_is_recorded() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let targets = vec![file(directory.path().to_str().unwrap(), "idle")];
    let condition = step(Role::Precondition, EngineKind::Uring, writes(8, 128), 4000);
    let measure = step(Role::Measure, EngineKind::Sync, writes(8, 1), 400);
    let sections = vec![(vec![condition], None), (vec![measure], steady(3))];
    let events = carry_out(&plan(targets, sections), 2, None);
    let ends = ends(&events);
    assert_eq!(ends[0].idle_before, None, "a layout came before");
    let idle: Vec<Nanos> = ends[1..].iter().map(|ended| ended.idle_before.unwrap()).collect();
    assert!(idle.iter().min().unwrap() < &Nanos::from_millis(500), "{idle:?}");
}

#[test]
fn a_pause_before_a_step_is_kept_and_recorded_as_idle_time() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let targets = vec![file(directory.path().to_str().unwrap(), "pause")];
    let burst = step(Role::Measure, EngineKind::Sync, writes(1, 1), 20);
    let pause_before = Nanos::from_millis(300);
    let after = Step { pause_before, ..burst.clone() };
    let events = carry_out(&plan(targets, vec![(vec![burst, after], None)]), 0, None);
    let idle = ends(&events)[1].idle_before.unwrap();
    assert!(idle >= pause_before, "{idle}");
}

#[test]
fn a_pause_ends_at_once_when_the_run_shall_end() {
    let pause_before = Nanos::from_secs(3600);
    let step = Step { pause_before, ..scripted(10) };
    let plan = plan(vec![nowhere()], vec![(vec![step], None)]);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut journal = Journal::begin(folder.path(), None).unwrap();
    let stop = StopFlag::default();
    let context = RunContext::new(&mut journal, stop.clone());
    let later = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        stop.set();
    });
    let mut sink = Sink { events: Vec::new(), last: 0 };
    assert_eq!(run(&plan, context, &mut sink).unwrap(), Outcome::Interrupted);
    later.join().unwrap();
}
