//! Findings from real events of the null engine: exact figures, and planted faults that must be
//! named.

mod group_commit;

use durio_analyse::{Analyser, Findings, RunState};
use durio_base::Nanos;
use durio_judge::judge;
use durio_observe::Host;
use durio_plan::{Limit, Plan, Role, Step};
use durio_record::{Environment, Event, OperationName};
use durio_workload::self_cost_workload;

use crate::null_run::events;

fn plan(latencies: &[u64], jobs: u32, depth: u32, operations: u64) -> Plan {
    let mut workload = self_cost_workload(depth);
    workload.jobs = jobs;
    let latencies = latencies.iter().map(|&latency| Nanos::new(latency)).collect();
    let load = crate::null_run::scripted(workload, latencies);
    let limit = Limit::Operations(operations);
    crate::null_run::plan(vec![Step::new(Role::Measure, load, limit, Nanos::from_millis(100))])
}

fn analyser(plan: &Plan, events: &[Event]) -> Analyser {
    let environment = Environment { host: Host::default(), stacks: Vec::new() };
    let mut analyser = Analyser::new(crate::null_run::manifest("test"), plan.clone(), environment);
    events.iter().for_each(|event| analyser.observe(event));
    analyser
}

fn findings(plan: &Plan, events: &[Event]) -> Findings {
    judge(analyser(plan, events).finish(String::new()))
}

fn is_named_inconsistent(plan: &Plan, events: &[Event]) -> bool {
    findings(plan, events).warnings.iter().any(|warning| warning.code == "inconsistent")
}

#[test]
fn percentiles_of_a_script_are_exact_within_a_bucket() {
    // 98 of 100 take 100 µs, one 1 ms, one 20 ms.
    let mut script = vec![100_000; 98];
    script.extend([1_000_000, 20_000_000]);
    let plan = plan(&script, 1, 1, 50_000);
    let findings = findings(&plan, &events(&plan));
    let read = findings.workloads[0].operation(OperationName::Read).unwrap();
    let near = |value: Option<u64>, expected: u64| {
        assert!(value.unwrap().abs_diff(expected) <= expected / 1000, "{value:?} {expected}");
    };
    assert_eq!(read.service.count, 50_000);
    assert!((read.service.mean_ns - (98.0 * 100_000.0 + 21_000_000.0) / 100.0).abs() < 1e-6);
    near(read.service.p50_ns, 100_000);
    near(read.service.p90_ns, 100_000);
    near(read.service.p99_ns, 1_000_000);
    near(read.service.p99_9_ns, 20_000_000);
    assert_eq!(read.service.max_ns, 20_000_000);
    // 308 µs each, one after the other.
    assert!((findings.workloads[0].iops - 1e9 / 308_000.0).abs() < 0.01);
    assert_eq!(findings.state, RunState::Complete);
}

#[test]
fn intervals_add_up_to_the_totals_of_the_jobs_and_leave_no_gap() {
    for (jobs, depth, operations) in [(1, 1, 10_007), (3, 4, 20_011), (5, 2, 3)] {
        let plan = plan(&[90_000, 110_000, 3_000_000], jobs, depth, operations);
        let (mut in_intervals, mut in_jobs, mut end) = (0, 0, Nanos::ZERO);
        for event in events(&plan) {
            match event {
                Event::Interval(interval) => {
                    assert_eq!(interval.from, end);
                    end = interval.to;
                    let counts = interval.operations.iter();
                    in_intervals += counts.map(|record| record.service.exact.count).sum::<u64>();
                }
                Event::JobEnded(job) => {
                    let counts = job.operations.iter();
                    in_jobs += counts.map(|record| record.service.exact.count).sum::<u64>();
                }
                _ => {}
            }
        }
        assert_eq!((in_intervals, in_jobs), (operations, operations), "{jobs} × {depth}");
    }
}

#[test]
fn a_stall_shows_as_intervals_without_a_completion() {
    let mut script = vec![100_000; 5000];
    script.push(1_000_000_000);
    let plan = plan(&script, 1, 1, 10_002);
    let findings = findings(&plan, &events(&plan));
    let evenness = findings.workloads[0].rate_variation.unwrap();
    // Half a second of work, a stall of one second, twice; intervals of 100 ms.
    assert!(evenness.intervals_empty >= 17, "{evenness:?}");
    assert!(findings.warnings.iter().any(|warning| warning.code == "stalls"));
}

#[test]
fn planted_accounting_faults_trip_the_check() {
    let plan = plan(&[100_000, 300_000], 2, 4, 20_000);
    let honest = events(&plan);
    assert!(!is_named_inconsistent(&plan, &honest));

    // An interval whose latencies were lost.
    let mut lost = honest.clone();
    let first = lost.iter().position(|event| matches!(event, Event::Interval(_))).unwrap();
    lost.remove(first);
    assert!(is_named_inconsistent(&plan, &lost));

    // Latencies that were capped, as a histogram that ends too early would.
    let mut capped = honest.clone();
    spoil_sums(&mut capped, |sum, count| sum.min(count * 195_000));
    assert!(is_named_inconsistent(&plan, &capped));

    // Latencies that begin after the submission.
    let mut late_start = honest.clone();
    spoil_sums(&mut late_start, |sum, count| sum - count * 5_000);
    assert!(is_named_inconsistent(&plan, &late_start));

    // Operations that were counted twice.
    let mut twice = honest;
    let repeated = twice[first].clone();
    twice.insert(first, repeated);
    assert!(is_named_inconsistent(&plan, &twice));
}

fn spoil_sums(events: &mut [Event], spoil: impl Fn(u64, u64) -> u64) {
    for event in events {
        if let Event::Interval(interval) = event {
            for record in &mut interval.operations {
                let exact = &mut record.service.exact;
                exact.sum_ns = spoil(exact.sum_ns, exact.count);
            }
        }
    }
}

#[test]
fn a_record_without_an_end_is_partial_and_keeps_what_it_has() {
    let plan = plan(&[100_000], 1, 1, 10_000);
    let mut events = events(&plan);
    events.truncate(events.len() / 2);
    let findings = findings(&plan, &events);
    assert_eq!(findings.state, RunState::Partial);
    assert!(!findings.workloads[0].complete);
    assert!(findings.workloads[0].iops > 9_000.0);
}

#[test]
fn a_record_that_is_damaged_is_not_complete_even_after_its_end() {
    let plan = plan(&[100_000], 1, 1, 10_000);
    let mut analyser = analyser(&plan, &events(&plan));
    analyser.damaged("line 7".to_owned());
    let findings = analyser.finish(String::new()).findings;
    assert_eq!((findings.state, findings.errors), (RunState::Partial, vec!["line 7".to_owned()]));
}
