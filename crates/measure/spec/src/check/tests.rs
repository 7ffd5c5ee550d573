//! Checks as campaigns: their steps, time, room and limits.

use durio_command::CommandErrorKind;

use super::*;
use crate::profile::profile;
use crate::{CampaignRequest, CampaignSpec, plan_campaign, shipped_spec, usual_databases};

fn request(facts: LocationFacts) -> CheckRequest {
    CheckRequest {
        locations: vec![Location { path: RawPath::from("/x"), facts, destroy: false }],
        length: CheckLength::Usual,
        duration: None,
        size: None,
        only: Vec::new(),
        predicted: Vec::new(),
        asked: Vec::new(),
        goals: Vec::new(),
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-1".to_owned(),
    }
}

fn directory(free: Bytes) -> LocationFacts {
    LocationFacts::Directory { free, filesystem: 1 }
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.measured_steps().map(|step| step.load.workload.name.as_str()).collect()
}

#[test]
fn a_directory_gets_all_workloads_in_about_a_minute() {
    let plan = plan_check(&request(directory(Bytes::from_gib(80))));
    let plan = plan.unwrap();
    let all: Vec<_> = check_workloads().into_iter().map(|(_, workload)| workload.name).collect();
    assert_eq!(names(&plan), all);
    assert!(plan.duration() > Nanos::from_secs(50) && plan.duration() < Nanos::from_secs(58));
    let sizes: Vec<_> = plan.targets.iter().skip(1).map(|target| target.size).collect();
    assert_eq!(sizes, [LOG, SEGMENT, Bytes::from_gib(1)]);
}

/// Many hosts run it, whose results must be those of `durio check` on one.
#[test]
fn the_campaign_of_the_name_check_has_the_files_workloads_and_times_of_a_usual_check() {
    let spec = CampaignSpec::parse("check", shipped_spec("check").unwrap().text).unwrap();
    let check = request(directory(Bytes::from_gib(80)));
    let campaign = plan_campaign(&CampaignRequest {
        places: vec![check.locations.clone(); spec.targets().len()],
        spec,
        time_scale_per_mille: 1000,
        size_scale_per_mille: 1000,
        steps_confirmed: 0,
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-1".to_owned(),
    });
    let steps = |plan: &Plan| -> Vec<_> {
        let of = |step: &Step| {
            let file = plan.target_of(&step.load).clone();
            (file, step.load.workload.clone(), step.load.engine, step.limit, step.ramp)
        };
        plan.measured_steps().map(of).collect()
    };
    assert_eq!(steps(&campaign.unwrap().plan), steps(&plan_check(&check).unwrap()));
}

#[test]
fn quick_leaves_time_for_layout_and_a_named_duration_holds_for_all() {
    let good = request(directory(Bytes::from_gib(80)));
    let quick = CheckRequest { length: CheckLength::Quick, ..good.clone() };
    assert!(plan_check(&quick).unwrap().duration() < Nanos::from_secs(11));
    let duration = Nanos::from_secs(5);
    let named = plan_check(&CheckRequest { duration: Some(duration), ..good }).unwrap();
    let mut measured = named.measured_steps();
    assert!(measured.all(|step| step.limit == Limit::Duration(duration)));
}

#[test]
fn predictions_add_15_seconds_at_most_and_quick_stays_below_12() {
    let good = CheckRequest {
        predicted: usual_databases().unwrap(),
        ..request(directory(Bytes::from_gib(80)))
    };
    let plan = plan_check(&good).unwrap();
    assert_eq!(names(&plan)[8..10], ["postgresql-1", "postgresql-8"]);
    assert_eq!(names(&plan)[14], "sqlite-wal-1");
    assert_eq!((names(&plan).len(), names(&plan)[20]), (21, "etcd-32"));
    let alone = plan_check(&request(directory(Bytes::from_gib(80)))).unwrap();
    let seconds = (plan.duration().get() - alone.duration().get()) / 1_000_000_000;
    assert!((12..15).contains(&seconds), "{seconds}");
    let quick = plan_check(&CheckRequest { length: CheckLength::Quick, ..good.clone() });
    let quick = quick.unwrap();
    assert_eq!((names(&quick).len(), names(&quick)[8]), (13, "postgresql-8"));
    assert!(quick.duration() < Nanos::from_secs(12), "{}", quick.duration());
    // A database that is used up has a log for each step.
    let logs = plan.targets.iter().filter(|target| target.name.starts_with("etcd-log-"));
    assert_eq!(logs.count(), 3);
    let one = vec![profile("redis").unwrap()];
    let one = CheckRequest { length: CheckLength::Quick, predicted: one, ..good };
    assert_eq!(names(&plan_check(&one).unwrap())[8..], ["redis-1", "redis-8", "redis-32"]);
}

#[test]
fn each_number_of_clients_has_its_own_log_where_a_step_uses_it_up() {
    let predicted = ["redis", "postgresql", "etcd"].map(|name| profile(name).unwrap()).to_vec();
    let request = CheckRequest { predicted, ..request(directory(Bytes::from_gib(80))) };
    let plan = plan_check(&request).unwrap();
    let logs = plan.measured_steps().map(|step| {
        (step.load.workload.name.as_str(), plan.targets[step.load.target].name.as_str())
    });
    let logs: Vec<_> = logs.filter(|(_, log)| log.contains("-log-")).collect();
    let expected = [
        ("redis-1", "redis-log-1"),
        ("redis-8", "redis-log-2"),
        ("redis-32", "redis-log-3"),
        ("postgresql-1", "postgresql-log-1"),
        ("postgresql-8", "postgresql-log-1"),
        ("postgresql-32", "postgresql-log-1"),
        ("etcd-1", "etcd-log-1"),
        ("etcd-8", "etcd-log-2"),
        ("etcd-32", "etcd-log-3"),
    ];
    assert_eq!(logs, expected);
}

#[test]
fn limits_of_databases_that_the_user_asks_about_come_first_and_are_marked() {
    let asked = vec!["etcd".to_owned(), "kafka".to_owned()];
    let good = CheckRequest { asked, ..request(directory(Bytes::from_gib(80))) };
    let thresholds = plan_check(&good).unwrap().thresholds;
    let first: Vec<&str> = thresholds.iter().map(|limit| limit.database.as_str()).collect();
    assert_eq!(first[..2], ["etcd", "kafka"]);
    let marked = thresholds.iter().filter(|limit| limit.asked);
    assert!(marked.clone().all(|limit| ["etcd", "kafka"].contains(&&*limit.database)));
    assert_eq!(marked.count(), 2);
}

#[test]
fn files_never_take_more_than_a_tenth_of_the_free_space() {
    for mib in [170, 200, 1000, 2000, 5000, 20_000] {
        let free = Bytes::from_mib(mib);
        let request =
            CheckRequest { predicted: usual_databases().unwrap(), ..request(directory(free)) };
        let plan = plan_check(&request).unwrap();
        let sum: u64 = plan.targets.iter().skip(1).map(|target| target.size.get()).sum();
        assert!(sum <= free.get() / 10, "{sum} of {free}");
    }
}

/// The hint is followed word by word.
#[test]
fn the_size_that_is_offered_where_room_is_short_fits() {
    for mib in [0, 1, 12, 15, 16, 20, 63, 64, 159] {
        let request = request(directory(Bytes::from_mib(mib)));
        let hint = plan_check(&request).unwrap_err().hints.remove(0);
        let size = hint.rsplit_once("--size ").filter(|(_, size)| size.ends_with("MiB"));
        let plan = |free: Bytes, size: Bytes| {
            let request = CheckRequest { size: Some(size), ..request.clone() };
            let locations =
                vec![Location { facts: directory(free), ..request.locations[0].clone() }];
            plan_check(&CheckRequest { locations, ..request }).is_ok()
        };
        assert_eq!(size.is_some(), mib >= 16, "{mib} MiB: {hint}");
        match size {
            Some((_, size)) => {
                assert!(plan(Bytes::from_mib(mib), size.parse().unwrap()), "{hint}");
            }
            None => {
                assert!(hint.contains("with 16 MiB free"), "{hint}");
                assert!(
                    plan(Bytes::from_mib(16), DATA_MIN)
                        && !plan(Bytes::from_mib(mib.min(11)), DATA_MIN)
                );
            }
        }
    }
}

#[test]
fn what_exists_is_only_read_without_destroy() {
    let facts = LocationFacts::Device { size: Bytes::from_gib(10) };
    let plan = plan_check(&request(facts)).unwrap();
    assert_eq!(names(&plan), ["lookup", "scan"]);
    let mut destroying = request(facts);
    destroying.locations[0].destroy = true;
    let plan = plan_check(&destroying).unwrap();
    let commits = ["commit", "commit-group-1", "commit-group-8", "commit-group-64"];
    assert_eq!(names(&plan)[..4], commits);
    assert_eq!(names(&plan)[4..], ["lookup", "scan", "mixed"]);
    assert!(plan.measured_steps().all(|step| plan.target_of(&step.load).may_be_written()));
}

#[test]
fn durations_and_sizes_that_measure_nothing_are_refused() {
    let good = request(directory(Bytes::from_gib(80)));
    let check = |request: CheckRequest, kind| {
        assert_eq!(plan_check(&request).unwrap_err().kind, kind);
    };
    let wrong = CommandErrorKind::WrongUse;
    check(CheckRequest { duration: Some(Nanos::ZERO), ..good.clone() }, wrong);
    check(CheckRequest { duration: Some(Nanos::from_secs(1 << 33)), ..good.clone() }, wrong);
    check(CheckRequest { size: Some(Bytes::new(1)), ..good.clone() }, wrong);
    check(CheckRequest { only: vec!["nothing".into()], ..good.clone() }, wrong);
    let cannot = CommandErrorKind::CannotMeasure;
    check(CheckRequest { size: Some(Bytes::from_gib(90)), ..good.clone() }, cannot);
    check(CheckRequest { size: Some(Bytes::new(u64::MAX)), ..good }, cannot);
    check(request(directory(Bytes::from_mib(100))), cannot);
    check(request(LocationFacts::Absent { free: Bytes::from_gib(1) }), wrong);
    check(request(LocationFacts::NullDevice), cannot);
}

#[test]
fn directories_of_one_filesystem_share_its_free_space() {
    let free = Bytes::from_gib(10);
    let both = |filesystem: u64| {
        let mut request = request(directory(free));
        let facts = LocationFacts::Directory { free, filesystem };
        request.locations.push(Location { path: RawPath::from("/y"), facts, destroy: false });
        request
    };
    let sum = |request: &CheckRequest| -> u64 {
        let plan = plan_check(request).unwrap();
        plan.targets.iter().skip(1).map(|target| target.size.get()).sum()
    };
    assert!(sum(&both(1)) <= free.get() / 10);
    assert!(sum(&both(2)) > free.get() / 10);
    let size = Some(Bytes::from_gib(6));
    assert!(plan_check(&CheckRequest { size, ..both(2) }).is_ok());
    let error = plan_check(&CheckRequest { size, ..both(1) }).unwrap_err();
    assert_eq!(error.kind, CommandErrorKind::CannotMeasure);
    assert!(error.to_string().contains("all 2 directories"), "{error}");
}
