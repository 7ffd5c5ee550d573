//! Findings of a log with group commit: its figures, and a check that holds and can fail.

use durio_base::{Bytes, Nanos};
use durio_observe::DeviceCounters;
use durio_plan::{Limit, Load, Plan, Role, Step};
use durio_record::{Event, OperationName};
use durio_workload::{
    Arrivals, GroupCommit, PerMille, RegionRule, SyncMethod, SyncPolicy, Workload,
};

use super::{findings, is_named_inconsistent as is_inconsistent};
use crate::null_run::{self, events};

/// Two logs with 8 committers each; a write of 100 us and a sync of 900 us.
fn plan(arrivals: Arrivals) -> Plan {
    let workload = Workload {
        name: "log".to_owned(),
        read_share: PerMille::NONE,
        block_size: Bytes::new(256),
        region: RegionRule::ShareEach,
        jobs: 2,
        sync: SyncPolicy::each(SyncMethod::Fdatasync),
        group_commit: Some(GroupCommit::of(8)),
        ..Workload::default()
    };
    let latencies = vec![Nanos::from_micros(100), Nanos::from_micros(900)];
    let load = Load { arrivals, ..null_run::scripted(workload, latencies) };
    let limit = Limit::Duration(Nanos::from_secs(2));
    let mut step = Step::new(Role::Measure, load, limit, Nanos::from_millis(100));
    step.ramp = Nanos::from_millis(500);
    null_run::plan(vec![step])
}

#[test]
fn a_log_is_about_its_commits_and_says_what_its_batches_were() {
    let plan = plan(Arrivals::Closed);
    let mut events = events(&plan);
    for event in &mut events {
        if let Event::StepEnded(ended) = event {
            let device = |name: &str, writes_completed| DeviceCounters {
                name: name.to_owned(),
                writes_completed,
                ..DeviceCounters::default()
            };
            // Both phases: 2.5 s of 2 × 1000 batches, with a journal write each.
            ended.devices = vec![device("dm-0", 5000), device("sda", 10_000)];
        }
    }
    let findings = findings(&plan, &events);
    let workload = &findings.workloads[0];
    assert_eq!(workload.headline, OperationName::Commit);
    let commit = workload.operation(OperationName::Commit).unwrap();
    assert!((commit.rate - 16_000.0).abs() < 20.0, "{}", commit.rate);
    assert_eq!((commit.service.min_ns, commit.service.max_ns), (1_000_000, 1_000_000));
    assert!((workload.iops - 2000.0).abs() < 5.0, "batches per second: {}", workload.iops);
    let batches = workload.batches.as_ref().unwrap();
    assert_eq!((batches.records_p50, batches.records_p99, batches.records_max), (8, 8, 8));
    assert_eq!((batches.count, batches.commits_per_sync), (4000, Some(8.0)));
    assert_eq!(batches.padding_share, 0.5);
    assert_eq!(batches.device_writes_per_commit, Some(0.25));
    let in_flight = &workload.in_flight;
    assert_eq!((in_flight.counted, in_flight.offered), (2.0, 2.0));
    assert_eq!(in_flight.deviation, 0.0);
    assert!(!is_inconsistent(&plan, &events));
}

#[test]
fn an_open_loop_reaches_records_and_not_batches() {
    let plan = plan(Arrivals::Constant { rate_per_second: 4000.0 });
    let events = events(&plan);
    let open = findings(&plan, &events).workloads[0].open_loop.unwrap();
    assert!((open.achieved_per_second - 4000.0).abs() < 20.0, "{}", open.achieved_per_second);
    assert!(open.keeps_up());
    assert!(!is_inconsistent(&plan, &events));
}

#[test]
fn syncs_that_were_not_recorded_trip_the_check() {
    let plan = plan(Arrivals::Closed);
    let mut events = events(&plan);
    let intervals = events.iter_mut().filter_map(|event| match event {
        Event::Interval(interval) => Some(interval),
        _ => None,
    });
    for interval in intervals.take(3) {
        interval.operations.retain(|record| record.operation != OperationName::Sync);
    }
    assert!(is_inconsistent(&plan, &events));
}
