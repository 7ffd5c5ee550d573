//! Which figure of which workload a verdict is about, and how it is said: every kind of limit, with
//! figures of which no two are alike.

use durio_base::Bytes;
use durio_observe::FilesystemFacts;
use durio_plan::{ParameterValue, RawPath, Target};

use super::*;
use crate::tests::{Sample, sample};

/// The verdicts on a goal of the workload `commit`.
fn all(bound: ThresholdBound, spoil: impl FnOnce(&mut Sample)) -> Vec<Verdict> {
    let mut sample = sample();
    let goal = Threshold::goal("a goal".to_owned(), "commit".to_owned(), bound);
    sample.plan.thresholds = vec![goal];
    spoil(&mut sample);
    verdicts(&sample.input())
}

fn one(bound: ThresholdBound, spoil: impl FnOnce(&mut Sample)) -> Verdict {
    all(bound, spoil).remove(0)
}

fn below(operation: OperationName, figure: LatencyFigure, micros: u64) -> ThresholdBound {
    ThresholdBound::LatencyBelow { operation, figure, limit: Nanos::from_micros(micros) }
}

#[test]
fn a_limit_is_held_against_the_figure_and_the_operation_that_it_names() {
    let spoil = |sample: &mut Sample| {
        let write = &mut sample.operation(OperationName::Write).service;
        (write.mean_ns, write.p50_ns, write.p99_ns) = (31_000.0, Some(29_000), Some(57_000));
        (write.p99_9_ns, write.max_ns) = (Some(83_000), 97_000);
    };
    for (figure, nanos, limit, measured) in [
        (LatencyFigure::Mean, 31_000.0, "mean of write < 90 µs", "commit: mean 31 µs"),
        (LatencyFigure::P50, 29_000.0, "p50 of write < 90 µs", "commit: p50 29 µs"),
        (LatencyFigure::P99, 57_000.0, "p99 of write < 90 µs", "commit: p99 57 µs"),
        (LatencyFigure::P99_9, 83_000.0, "p99.9 of write < 90 µs", "commit: p99.9 83 µs"),
        (LatencyFigure::Max, 97_000.0, "max of write < 90 µs", "commit: max 97 µs"),
    ] {
        let found = one(below(OperationName::Write, figure, 90), spoil);
        let word = if nanos < 90_000.0 { VerdictWord::Fit } else { VerdictWord::Unfit };
        assert_eq!((found.verdict, found.value), (word, Some(nanos)), "{limit}");
        assert_eq!((found.limit.as_str(), found.measured.as_str()), (limit, measured));
        assert_eq!((found.threshold, found.unit.as_str()), (Some(90_000.0), "ns"));
        assert!((found.headroom.unwrap() - 90_000.0 / nanos).abs() < 1e-9, "{limit}");
    }
    // Of the commits, the syncs and the writes each have their own.
    let sync = one(below(OperationName::Sync, LatencyFigure::P99, 701), spoil);
    assert_eq!((sync.verdict, sync.value), (VerdictWord::Fit, Some(700_000.0)));
}

/// 1250 commits a second in 3000 accesses a second, and 8.192 MB/s, on four processors.
fn rates(sample: &mut Sample) {
    sample.workloads[0].iops = 3000.0;
    sample.operation(OperationName::Commit).rate = 1250.0;
}

#[test]
fn a_rate_that_is_just_reached_is_enough_and_its_headroom_is_what_is_left() {
    let of = |at_least_per_second| one(ThresholdBound::RateAtLeast { at_least_per_second }, rates);
    let just = of(1250.0);
    assert_eq!((just.verdict, just.value), (VerdictWord::Fit, Some(1250.0)));
    assert_eq!((just.limit.as_str(), just.unit.as_str()), ("rate ≥ 1.25 k/s", "per second"));
    assert_eq!(of(1250.5).verdict, VerdictWord::Unfit);
    let half = of(2500.0);
    assert_eq!(half.measured, "commit: 1.25 k/s I/Os");
    assert!((half.headroom.unwrap() - 0.5).abs() < 1e-9, "{half:?}");
    assert!((of(500.0).headroom.unwrap() - 2.5).abs() < 1e-9);
}

#[test]
fn limits_per_processor_are_of_all_processors_and_of_accesses_and_bytes() {
    let operations =
        |at_least_per_second| one(ThresholdBound::OperationsPerCpu { at_least_per_second }, rates);
    let few = operations(800.0);
    assert_eq!(
        (few.verdict, few.value, few.threshold),
        (VerdictWord::Unfit, Some(3000.0), Some(3200.0))
    );
    assert_eq!(
        (few.limit.as_str(), few.measured.as_str()),
        ("rate ≥ 3.2 k/s", "commit: 3 k/s I/Os")
    );
    assert_eq!(few.criterion, "a goal, of which 4 may be used here");
    assert_eq!(operations(750.0).verdict, VerdictWord::Fit);
    let bytes = |bytes| one(ThresholdBound::BandwidthPerCpu { at_least: Bytes::new(bytes) }, rates);
    let enough = bytes(2_000_000);
    assert_eq!((enough.verdict, enough.value), (VerdictWord::Fit, Some(8_192_000.0)));
    assert_eq!((enough.threshold, enough.unit.as_str()), (Some(8e6), "bytes per second"));
    assert_eq!(
        (enough.limit.as_str(), enough.measured.as_str()),
        ("bandwidth ≥ 8 MB/s", "commit: 8 MB/s")
    );
    assert_eq!(bytes(2_048_001).verdict, VerdictWord::Unfit);
    let in_all = one(ThresholdBound::BandwidthAtLeast { at_least: Bytes::new(8_192_000) }, rates);
    assert_eq!((in_all.verdict, in_all.criterion.as_str()), (VerdictWord::Fit, "a goal"));
}

/// The same workload on a second location, whose syncs have a p99 of 30 ms.
fn two_locations(sample: &mut Sample) {
    let mut other = sample.workloads[0].clone();
    other.location = "/other".to_owned();
    let sync = other.operations.iter_mut().find(|found| found.operation == OperationName::Sync);
    sync.unwrap().service.p99_ns = Some(30_000_000);
    sample.workloads.push(other);
    let location = Some(RawPath::from("/other"));
    sample.plan.targets.push(Target { location, ..sample.plan.targets[0].clone() });
    let mut stack = sample.environment.stacks[0].clone();
    stack.target = "/other".to_owned();
    sample.environment.stacks.push(stack);
}

#[test]
fn each_location_is_judged_by_what_was_measured_there() {
    let bound = below(OperationName::Sync, LatencyFigure::P99, 10_000);
    let words = |found: &[Verdict]| -> Vec<(String, VerdictWord, Option<f64>)> {
        let one = |it: &Verdict| (it.location.clone(), it.verdict, it.value);
        found.iter().map(one).collect()
    };
    let found = all(bound, two_locations);
    let expected = [
        ("/data".to_owned(), VerdictWord::Fit, Some(700_000.0)),
        ("/other".to_owned(), VerdictWord::Unfit, Some(30_000_000.0)),
    ];
    assert_eq!(words(&found), expected);
    // Memory below the one says nothing of the other.
    let found = all(bound, |sample| {
        two_locations(sample);
        let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
        sample.environment.stacks[1].root.filesystem = Some(facts);
    });
    let doubts: Vec<bool> = found.iter().map(|verdict| verdict.doubt.is_some()).collect();
    assert_eq!(doubts, [false, true], "{found:?}");
    assert_eq!(found[1].verdict, VerdictWord::CannotTell);
}

#[test]
fn commits_that_come_at_a_rate_wait_from_when_they_were_due_and_writes_do_not() {
    let spoil = |sample: &mut Sample| {
        for operation in &mut sample.workloads[0].operations {
            let mut response = operation.service.clone();
            response.p99_ns = Some(20_000_000);
            operation.response = Some(response);
        }
    };
    let of = |operation| one(below(operation, LatencyFigure::P99, 10_000), spoil);
    let commit = of(OperationName::Commit);
    assert_eq!((commit.verdict, commit.value), (VerdictWord::Unfit, Some(20_000_000.0)));
    assert_eq!(of(OperationName::Write).value, Some(700_000.0));
}

#[test]
fn a_step_that_was_cut_short_gives_no_value() {
    for bound in [
        below(OperationName::Sync, LatencyFigure::P99, 10_000),
        ThresholdBound::RateAtLeast { at_least_per_second: 1.0 },
        ThresholdBound::BandwidthAtLeast { at_least: Bytes::new(1) },
    ] {
        let found = one(bound, |sample| sample.workloads[0].complete = false);
        assert_eq!((found.verdict, found.value), (VerdictWord::CannotTell, None));
        assert_eq!(found.measured, "commit was not measured, or not long enough");
        assert_eq!(found.headroom, None);
    }
}

#[test]
fn the_median_of_few_operations_misses_a_limit_that_it_just_reaches() {
    let of = |micros| {
        one(below(OperationName::Sync, LatencyFigure::P99, micros), |sample| {
            sample.operation(OperationName::Sync).service.p99_ns = None;
        })
        .verdict
    };
    assert_eq!([of(480), of(481)], [VerdictWord::Unfit, VerdictWord::CannotTell]);
}

#[test]
fn the_number_of_clients_stands_behind_the_workload() {
    let of = |axis: &str, value: f64, label: &str| {
        let bound = ThresholdBound::RateAtLeast { at_least_per_second: 1.0 };
        one(bound, |sample| {
            let (axis, label) = (axis.to_owned(), label.to_owned());
            sample.workloads[0].levels = vec![ParameterValue { axis, value, label }];
        })
        .workload
    };
    assert_eq!(of("clients", 1.0, "1"), "commit, 1 client");
    assert_eq!(of("clients", 17.0, "17"), "commit, 17 clients");
    assert_eq!(of("state", 1.0, "under load"), "commit, under load");
    assert_eq!(of("depth", 4.0, "4"), "commit");
}

#[test]
fn without_a_limit_the_percentiles_are_those_of_the_operation_that_is_waited_for() {
    let of = |headline| {
        one(ThresholdBound::Undocumented, |sample| {
            let write = &mut sample.operation(OperationName::Write).service;
            (write.p50_ns, write.p99_ns) = (Some(29_000), Some(57_000));
            sample.workloads[0].headline = headline;
        })
    };
    let commit = of(OperationName::Commit);
    assert_eq!(commit.measured, "commit: p50 480 µs, p99 700 µs per durable commit");
    assert_eq!((commit.value, commit.threshold), (Some(700_000.0), None));
    let write = of(OperationName::Write);
    assert_eq!(write.measured, "commit: p50 29 µs, p99 57 µs per write");
    assert_eq!(write.verdict, VerdictWord::NoDocumentedThreshold);
}
