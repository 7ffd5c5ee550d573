//! Plans of every shipped profile, and places that have no room for one.

use durio_command::CommandErrorKind;
use durio_plan::{FileLayout, LocationFacts, Purpose, RawPath, Step, TargetKind};

use super::*;
use crate::profile::{profile, profile_names};

fn directory(path: &str, free: Bytes, filesystem: u64) -> Location {
    let facts = LocationFacts::Directory { free, filesystem };
    Location { path: RawPath::from(path), facts, destroy: false }
}

fn request(name: &str, free: Bytes) -> ProfileRequest {
    ProfileRequest {
        profile: profile(name).unwrap(),
        log: directory("/x", free, 1),
        data: directory("/x", free, 1),
        quick: false,
        duration: None,
        size: None,
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-1".to_owned(),
    }
}

fn measured(plan: &Plan) -> Vec<&Step> {
    plan.measured_steps().collect()
}

#[test]
fn every_profile_makes_a_valid_plan_idle_and_under_load() {
    for name in profile_names() {
        let plan = plan_profile(&request(name, Bytes::from_gib(200))).unwrap();
        assert_eq!(plan.purpose, Purpose::Profile);
        plan.validate().unwrap();
        let steps = measured(&plan);
        assert!(steps.len() >= 2, "{name}");
        let labels: Vec<&str> =
            steps.iter().take(2).map(|step| step.levels[0].label.as_str()).collect();
        assert_eq!(labels, ["idle", "under load"], "{name}");
        assert_eq!(steps[0].load.workload, steps[1].load.workload, "{name}");
        assert!(steps[1].beside.len() > steps[0].beside.len(), "{name}");
        assert!(!plan.thresholds.is_empty(), "{name}");
        for step in &plan.steps {
            for load in step.loads() {
                for job in 0..load.workload.jobs {
                    let place = load.place_of(job);
                    let size = plan.targets[place.target].size;
                    load.workload.region_among(place.place, place.sharers, size).unwrap();
                }
            }
        }
    }
}

#[test]
fn files_never_take_more_than_a_tenth_of_the_free_space() {
    for name in profile_names() {
        for gib in [2, 10, 50, 400] {
            let free = Bytes::from_gib(gib);
            let Ok(plan) = plan_profile(&request(name, free)) else { continue };
            let sum: u64 = plan.targets.iter().skip(1).map(|target| target.size.get()).sum();
            assert!(sum <= free.get() / 10, "{name}: {sum} of {free}");
        }
    }
}

#[test]
fn a_file_that_is_used_up_is_there_for_each_step_and_one_in_place_is_shared() {
    let plan = plan_profile(&request("etcd", Bytes::from_gib(200))).unwrap();
    let steps = measured(&plan);
    assert_ne!(steps[0].load.target, steps[1].load.target);
    let names: Vec<&str> = plan.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["null", "log-idle", "log-loaded", "data"]);
    let plan = plan_profile(&request("postgresql", Bytes::from_gib(200))).unwrap();
    let steps = measured(&plan);
    assert_eq!(steps[0].load.target, steps[1].load.target);
    let TargetKind::NewFile { layout, .. } = &plan.targets[1].kind else { panic!() };
    assert_eq!(*layout, FileLayout::Incompressible);
}

#[test]
fn several_logs_have_a_file_each() {
    let plan = plan_profile(&request("ravendb", Bytes::from_gib(200))).unwrap();
    let load = &measured(&plan)[0].load;
    assert_eq!(load.targets().count(), 8);
    assert_eq!(load.workload.jobs, 8);
}

#[test]
fn log_and_data_can_lie_on_different_storages() {
    let log = directory("/log", Bytes::from_gib(100), 2);
    let apart = ProfileRequest { log, ..request("etcd", Bytes::from_gib(200)) };
    let plan = plan_profile(&apart).unwrap();
    let place = |name: &str| {
        let found = plan.targets.iter().find(|target| target.name == name).unwrap();
        found.location.as_ref().unwrap().to_string()
    };
    assert_eq!((place("log-idle"), place("data")), ("/log".to_owned(), "/x".to_owned()));
}

#[test]
fn what_is_fitted_and_what_is_shortened_is_said() {
    let plan = plan_profile(&request("etcd", Bytes::from_gib(4))).unwrap();
    let notes = plan.campaign.unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("memory map")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("shortened")), "{notes:?}");
}

#[test]
fn workloads_that_only_the_documents_ask_for_are_measured_too() {
    let plan = plan_profile(&request("cockroachdb", Bytes::from_gib(200))).unwrap();
    let names: Vec<&str> =
        measured(&plan).iter().map(|step| step.load.workload.name.as_str()).collect();
    assert_eq!(names, ["log", "log", "scan", "mixed"]);
    let judged: Vec<&str> =
        plan.thresholds.iter().map(|threshold| threshold.workload.as_str()).collect();
    assert_eq!(judged, ["log", "log", "mixed", "scan"]);
}

#[test]
fn a_profile_without_a_log_is_about_its_first_writer() {
    let plan = plan_profile(&request("kafka", Bytes::from_gib(200))).unwrap();
    let step = measured(&plan)[0];
    assert_eq!(step.load.workload.name, "segments");
    assert!(!step.load.workload.is_durable());
}

#[test]
fn a_part_of_every_commit_runs_also_where_the_log_is_idle() {
    let plan = plan_profile(&request("mysql", Bytes::from_gib(200))).unwrap();
    let names = |step: &Step| -> Vec<String> {
        step.beside.iter().map(|load| load.workload.name.clone()).collect()
    };
    let steps = measured(&plan);
    assert_eq!(names(steps[0]), ["binlog"]);
    assert_eq!(names(steps[1]), ["lookups", "binlog", "doublewrite", "pages"]);
    let target = |step: &Step, at: usize| step.beside[at].target;
    assert_ne!(target(steps[0], 0), target(steps[1], 1), "a growing file for each");
}

#[test]
fn places_without_room_and_times_without_sense_are_refused() {
    let good = request("etcd", Bytes::from_gib(200));
    let kind = |request: &ProfileRequest| plan_profile(request).unwrap_err().kind;
    let cannot = CommandErrorKind::CannotMeasure;
    assert_eq!(kind(&request("etcd", Bytes::from_mib(100))), cannot);
    for (facts, expected) in [
        (LocationFacts::Absent { free: Bytes::from_gib(1) }, CommandErrorKind::WrongUse),
        (LocationFacts::Device { size: Bytes::from_gib(100) }, cannot),
        (LocationFacts::NullDevice, cannot),
    ] {
        let data = Location { facts, ..good.data.clone() };
        assert_eq!(kind(&ProfileRequest { data, ..good.clone() }), expected);
    }
    let huge = ProfileRequest { size: Some(Bytes::new(u64::MAX)), ..good.clone() };
    assert_eq!(kind(&huge), cannot);
    let short = ProfileRequest { duration: Some(Nanos::ZERO), ..good };
    assert_eq!(kind(&short), CommandErrorKind::WrongUse);
}
