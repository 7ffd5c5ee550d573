//! Warnings of runs with several of everything: locations, workloads, steps, rounds, pauses. Each is
//! about the ones that it was seen in, and says what was seen there.

use durio_analyse::campaign::{CampaignFindings, Convergence, LongRun, SectionFindings};
use durio_analyse::steady_state::leaving::{Leaving, LeavingShape};
use durio_analyse::steady_state::{SteadyRule, SteadyState};
use durio_analyse::{SelfCost, WarningFinding};
use durio_base::{Bytes, Nanos};
use durio_observe::{Fact, FilesystemFacts};
use durio_plan::{
    Campaign, EngineKind, Goal, PlanSection, RawPath, Role, Rounds, SectionKind, Step, Target,
    TargetKind, Tracking, Until,
};
use durio_record::{OperationName, ProcessGap};
use durio_workload::SyncPolicy;

use super::warnings;
use crate::tests::{Sample, sample};

/// The warning of this code in a run on `/data` and, by a second step, on `/other`.
fn found(code: &str, spoil: impl FnOnce(&mut Sample)) -> Option<WarningFinding> {
    let mut sample = sample();
    let location = RawPath::from("/other");
    let target = Target {
        name: "table".to_owned(),
        kind: TargetKind::ExistingFile { path: location.clone() },
        location: Some(location),
        size: Bytes::from_gib(2),
        ..sample.plan.targets[0].clone()
    };
    sample.plan.targets.push(target);
    let mut step = Step { index: 1, ..sample.plan.steps[0].clone() };
    step.load.target = 1;
    sample.plan.steps.push(step);
    let mut stack = sample.environment.stacks[0].clone();
    stack.target = "/other".to_owned();
    sample.environment.stacks.push(stack);
    let mut workload = sample.workloads[0].clone();
    (workload.step, workload.location, workload.target) = (1, "/other".into(), "table".into());
    sample.workloads.push(workload);
    spoil(&mut sample);
    warnings(&sample.input()).into_iter().find(|warning| warning.code == code)
}

fn told(code: &str, spoil: impl FnOnce(&mut Sample)) -> (Vec<String>, String) {
    let warning = found(code, spoil).unwrap_or_else(|| panic!("no warning {code}"));
    (warning.about, warning.seen)
}

fn assert_told(found: &(Vec<String>, String), about: &[&str], seen: &str) {
    assert_eq!((found.0.as_slice(), found.1.as_str()), (owned(about).as_slice(), seen));
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_warning_names_the_location_that_it_is_about_and_each_with_its_own_figure() {
    let second = told("steal", |sample| {
        sample.workloads[1].cpu.machine_steal_share = Some(0.023);
    });
    assert_told(
        &second,
        &["commit on /other"],
        "commit on /other: the hypervisor took 2.3 % of the CPU time",
    );
    let both = told("steal", |sample| {
        sample.workloads[0].cpu.machine_steal_share = Some(0.31);
        sample.workloads[1].cpu.machine_steal_share = Some(0.023);
    });
    let seen = "commit on /data: the hypervisor took 31.0 % of the CPU time; \
                commit on /other: the hypervisor took 2.3 % of the CPU time";
    assert_told(&both, &["commit on /data", "commit on /other"], seen);
}

#[test]
fn every_location_in_memory_is_named_and_no_other() {
    let in_memory = |places: &'static [usize]| {
        told("memory", move |sample| {
            for &place in places {
                let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
                sample.environment.stacks[place].root.filesystem = Some(facts);
            }
            let steps = sample.plan.steps.iter_mut();
            steps.for_each(|step| step.load.workload.sync = SyncPolicy::NONE);
        })
    };
    assert_told(&in_memory(&[1]), &["/other"], "/other lies in memory");
    assert_told(&in_memory(&[0, 1]), &["/data", "/other"], "/data, /other lies in memory");
}

#[test]
fn a_device_that_is_read_directly_is_named_and_files_are_not() {
    assert_eq!(found("raw-reads", |_| {}), None);
    let device = told("raw-reads", |sample| {
        sample.plan.targets[1].kind = TargetKind::Device { path: RawPath::from("/other") };
    });
    let seen = "reads of /other go wherever the device has data or not";
    assert_told(&device, &["/other"], seen);
}

#[test]
fn holes_are_those_of_the_file_of_the_workload() {
    let allocated = |place: usize, bytes: u64| {
        move |sample: &mut Sample| {
            let fact = Fact { name: "allocated_bytes".into(), value: bytes.to_string() };
            sample.environment.stacks[place].root.facts.push(fact);
        }
    };
    // Of 2 GiB there, and of 1 GiB here.
    let second = told("sparse", allocated(1, 1 << 30));
    let seen = "commit on /other: 1 GiB of 2 GiB are allocated";
    assert_told(&second, &["commit on /other"], seen);
    assert_eq!(found("sparse", allocated(0, 1 << 30)), None);
}

#[test]
fn the_longest_of_several_pauses_of_durio_is_named_with_their_number() {
    let gap = |step, from, span| ProcessGap {
        step,
        round: 0,
        from: Nanos::from_secs(from),
        span: Nanos::from_secs(span),
    };
    let paused = told("stopped", |sample| {
        sample.process_gaps = vec![gap(1, 3, 2), gap(0, 5, 60), gap(1, 40, 7), gap(1, 90, 4)];
        sample.workloads[0].effective.engine = EngineKind::Fio;
    });
    let seen = "commit on /other: durio itself did not run 3 times, the longest for 7 s from 40 s \
                on; the maximum occurred at another time";
    assert_told(&paused, &["commit on /other"], seen);
}

#[test]
fn submission_is_that_of_reads_or_writes_whichever_takes_longer() {
    let seen = |read: u64, write: u64| {
        let (_, seen) = told("submit", |sample| {
            let mut reads = sample.operation(OperationName::Write).clone();
            reads.operation = OperationName::Read;
            sample.workloads[0].operations.push(reads);
            for (name, nanos) in [(OperationName::Read, read), (OperationName::Write, write)] {
                let operation = sample.operation(name);
                let mut submit = operation.service.clone();
                submit.p50_ns = Some(nanos);
                operation.submit = Some(submit);
            }
        });
        seen
    };
    assert_eq!(seen(14_000, 3_000), "commit on /data: submission takes 14 µs (p50)");
    assert_eq!(seen(3_000, 17_000), "commit on /data: submission takes 17 µs (p50)");
}

#[test]
fn a_job_is_held_against_the_fastest_that_its_engine_can_do() {
    let cost =
        |depth, iops| SelfCost { engine: EngineKind::Sync, depth, per_operation_ns: 1.0, iops };
    let speaks = |costs: [SelfCost; 3]| {
        found("durio-limit", |sample| sample.self_cost = costs.into()).is_some()
    };
    // A thousand a second are half of two thousand and more than half of 1900.
    assert!(!speaks([cost(1, 500.0), cost(8, 2000.0), cost(4, 1500.0)]));
    assert!(speaks([cost(1, 500.0), cost(8, 1900.0), cost(4, 1500.0)]));
}

#[test]
fn the_machine_has_no_part_in_figures_of_virtual_time() {
    let spoil = |engine: EngineKind| {
        move |sample: &mut Sample| {
            for workload in &mut sample.workloads {
                workload.effective.engine = engine;
                workload.cpu.machine_steal_share = Some(0.5);
                workload.cpu.machine_system_share = Some(0.5);
                workload.cpu.busiest_job_share = 0.99;
                workload.cpu.throttled = Some(Nanos::from_secs(1));
            }
            sample.self_cost.push(SelfCost { engine, depth: 1, per_operation_ns: 1.0, iops: 1.0 });
        }
    };
    for code in ["steal", "system-cpu", "one-core", "throttled", "durio-limit"] {
        assert_eq!(found(code, spoil(EngineKind::Null)), None);
        assert!(found(code, spoil(EngineKind::Sync)).is_some(), "{code}");
    }
}

#[test]
fn every_limit_of_the_kernel_is_told() {
    let (_, seen) = told("limits", |sample| {
        let host = &mut sample.environment.host;
        (host.cpus_online, host.cpus_allowed) = (8, 6);
        host.cgroup.io_max = owned(&["8:0 rbps=1", "8:16 wiops=7"]);
        host.cgroup.cpu_quota_cores = Some(2.5);
    });
    let expected = "io.max 8:0 rbps=1, 8:16 wiops=7; cpu.max allows 2.50 of 8 CPUs; only 6 of 8 CPUs \
                    may be used";
    assert_eq!(seen, expected);
}

fn section(name: &str, first_step: u32, steps: u32) -> PlanSection {
    PlanSection {
        name: name.to_owned(),
        summary: String::new(),
        kind: SectionKind::Single,
        first_step,
        steps,
        rounds: None,
        baseline: None,
    }
}

/// A section of both steps, of which these two have the roles, and the idle time before the first.
fn rounds_of(roles: [Role; 2], round: u32) -> impl FnOnce(&mut Sample) {
    move |sample| {
        sample.plan.campaign =
            Some(Campaign { sections: vec![section("all", 0, 2)], ..Campaign::default() });
        for (step, role) in sample.plan.steps.iter_mut().zip(roles) {
            (step.role, step.section) = (role, Some(0));
        }
        sample.workloads[0].round = round;
        sample.workloads[0].idle_before = Some(Nanos::from_millis(70));
    }
}

#[test]
fn from_its_second_round_on_the_first_step_of_a_section_comes_after_its_last() {
    let last_prepares = [Role::Measure, Role::Precondition];
    assert_eq!(found("idle-gap", rounds_of(last_prepares, 0)), None);
    assert_eq!(found("idle-gap", rounds_of([Role::Measure; 2], 1)), None);
    let (_, seen) = told("idle-gap", rounds_of(last_prepares, 1));
    let expected =
        "commit on /data, round 2: nothing was in flight for 70 ms after preconditioning";
    assert_eq!(seen, expected);
}

#[test]
fn a_rate_that_was_searched_for_may_be_beyond_what_the_storage_can() {
    let behind = |until: Option<Until>| {
        move |sample: &mut Sample| {
            rounds_of([Role::Measure; 2], 0)(sample);
            let sections = &mut sample.plan.campaign.as_mut().unwrap().sections;
            sections[0].rounds = until.map(|until| Rounds { max: 9, until });
            sample.workloads[1].open_loop = Some(durio_analyse::OpenLoop {
                arrivals: durio_workload::Arrivals::Constant { rate_per_second: 400.0 },
                offered_per_second: 400.0,
                achieved_per_second: 300.0,
                due: 400,
                never_started: 100,
                started_share: 0.75,
                lag_ns_mean: 1.0,
                lag_ns_max: 2,
                behind_ns_max: 3,
            });
        }
    };
    let goal = Goal { percentile: 99.0, latency: Nanos::from_millis(1) };
    let search = Until::GoalFound { goal, precision_per_mille: 50, ceiling_step: None };
    assert_eq!(found("offered-rate", behind(Some(search))), None);
    let (about, seen) = told("offered-rate", behind(None));
    assert_eq!(about, ["commit on /other"]);
    let expected = "commit on /other: 300 of 400 per second; 25 % of the arrivals never started";
    assert_eq!(seen, expected);
}

fn section_findings(name: &str) -> SectionFindings {
    SectionFindings {
        name: name.to_owned(),
        summary: String::new(),
        kind: SectionKind::Single,
        rows: Vec::new(),
        curves: Vec::new(),
        maps: Vec::new(),
        convergence: None,
        search: None,
        baselines: Vec::new(),
        long_runs: Vec::new(),
    }
}

fn campaign(sections: Vec<SectionFindings>) -> CampaignFindings {
    CampaignFindings {
        name: "c".to_owned(),
        summary: String::new(),
        provisional: None,
        sections,
        targets: Vec::new(),
    }
}

#[test]
fn sections_that_did_not_become_steady_are_named_with_what_they_came_to() {
    let judged = |name: &str, attained_at, sentence: &str| {
        let state = SteadyState {
            attained_at,
            window: None,
            rule: SteadyRule::SNIA,
            sentence: sentence.to_owned(),
        };
        let convergence = Convergence {
            tracked: "write".to_owned(),
            tracking: Tracking::Iops,
            series: vec![1.0, 2.0],
            state: Some(state),
            declined: None,
        };
        SectionFindings { convergence: Some(convergence), ..section_findings(name) }
    };
    let spoil = |sample: &mut Sample| {
        sample.campaign = Some(campaign(vec![
            judged("one", Some(7), "it was steady"),
            judged("two", None, "it rose to the end"),
            section_findings("three"),
            judged("four", None, "it swung"),
        ]));
    };
    let seen = "two: it rose to the end; four: it swung";
    assert_told(&told("not-steady", spoil), &["two", "four"], seen);
}

#[test]
fn a_step_that_got_worse_is_named_by_its_step_round_and_stream() {
    let run = |(step, round, stream): (u32, u32, u32), is_worse, evidence: &str| LongRun {
        row: 0,
        step,
        round,
        stream,
        leaving: Leaving {
            shape: LeavingShape::LastingStep,
            is_worse,
            changes: Vec::new(),
            drift: None,
            dips: None,
            evidence: owned(&[evidence, "and more"]),
        },
        changes_at: Vec::new(),
    };
    let spoil = |sample: &mut Sample| {
        let first = sample.workloads[0].clone();
        for (name, round, stream) in [("again", 2, 0), ("beside", 2, 1)] {
            let mut workload = first.clone();
            workload.name = name.to_owned();
            (workload.round, workload.stream) = (round, stream);
            sample.workloads.push(workload);
        }
        let long_runs = vec![
            run((0, 2, 1), true, "it fell by a half"),
            run((0, 2, 0), false, "it rose"),
            run((1, 0, 0), true, "it fell by a third"),
            run((0, 9, 0), true, "nobody"),
        ];
        let long = SectionFindings { long_runs, ..section_findings("long") };
        sample.campaign = Some(campaign(vec![section_findings("short"), long]));
    };
    let seen = "beside, round 3: it fell by a half; commit: it fell by a third";
    assert_told(&told("left-state", spoil), &["long"], seen);
}

#[test]
fn a_run_and_a_campaign_that_are_too_short_have_advice_of_their_own() {
    let advice = |is_campaign: bool| {
        let warning = found("too-short", |sample| {
            sample.provisional = Some("7 s are short".to_owned());
            sample.campaign = is_campaign.then(|| campaign(Vec::new()));
        });
        let warning = warning.unwrap();
        assert_eq!(warning.seen, "7 s are short");
        warning.advice
    };
    assert_eq!(advice(false), "use --thorough before you buy, size or blame anything");
    let of_campaign = "give each step its full time before you buy, size or blame anything";
    assert_eq!(advice(true), of_campaign);
}

#[test]
fn notes_are_a_warning_each_and_of_a_campaign_one_of_all() {
    let seen = |is_campaign: bool| -> Vec<String> {
        let mut sample = sample();
        sample.notes = owned(&["a", "b", "c", "d", "e"]);
        sample.campaign = is_campaign.then(|| campaign(Vec::new()));
        let found = warnings(&sample.input()).into_iter();
        found.filter(|warning| warning.code == "note").map(|warning| warning.seen).collect()
    };
    assert_eq!(seen(false), ["a", "b", "c", "d", "e"]);
    assert_eq!(seen(true), ["a; b; c; d; and 1 more note"]);
}
