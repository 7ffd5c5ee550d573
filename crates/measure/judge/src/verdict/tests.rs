//! Verdicts on a clean run that each test spoils.

use durio_base::Bytes;
use durio_observe::{CgroupLimits, FilesystemFacts};
use durio_plan::{ParameterValue, Provenance};
use durio_spec::profile::profile;

use super::*;
use crate::tests::{Sample, sample};

fn verdict_on_etcd(spoil: impl FnOnce(&mut Sample)) -> Verdict {
    let mut sample = sample();
    sample.workloads[0].name = "commit-etcd".to_owned();
    spoil(&mut sample);
    verdicts(&sample.basis()).remove(0)
}

/// A run of a profile whose log was measured idle and under load.
fn verdicts_on_profile(name: &str, spoil: impl FnOnce(&mut Sample)) -> Vec<Verdict> {
    let mut sample = sample();
    sample.plan.purpose = Purpose::Profile;
    sample.plan.thresholds = profile(name).unwrap().run_thresholds();
    let in_state = |value, label: &str| {
        let mut log = sample.workloads[0].clone();
        log.name = "log".to_owned();
        log.levels =
            vec![ParameterValue { axis: "state".to_owned(), value, label: label.to_owned() }];
        log
    };
    sample.workloads = vec![in_state(0.0, "idle"), in_state(1.0, "under load")];
    spoil(&mut sample);
    verdicts(&sample.basis())
}

#[test]
fn a_threshold_that_is_met_is_fit_and_one_that_is_missed_is_not() {
    let fit = verdict_on_etcd(|_| {});
    assert_eq!(fit.verdict, VerdictWord::Fit);
    assert_eq!(fit.headroom, Some(fit.threshold.unwrap() / fit.value.unwrap()));
    let slow = verdict_on_etcd(|sample| {
        sample.operation(OperationName::Sync).service.p99_ns = Some(10_000_000);
    });
    assert_eq!(slow.verdict, VerdictWord::Unfit);
    assert!(slow.headroom.unwrap() <= 1.0);
}

#[test]
fn few_operations_miss_a_limit_on_their_p99_by_their_median_and_never_meet_it() {
    let of_few = |p50| {
        verdict_on_etcd(|sample| {
            let service = &mut sample.operation(OperationName::Sync).service;
            (service.p50_ns, service.p99_ns) = (Some(p50), None);
        })
    };
    let slow = of_few(30_000_000);
    assert_eq!((slow.verdict, slow.value), (VerdictWord::Unfit, Some(30_000_000.0)));
    assert!(slow.measured.contains("p99 30 ms or more"), "{}", slow.measured);
    assert_eq!(of_few(1_000).verdict, VerdictWord::CannotTell);
}

#[test]
fn goals_are_held_against_rates_of_commits_and_bandwidths_whatever_the_processors() {
    let met = |bound: ThresholdBound| {
        let verdict = verdict_on_etcd(|sample| {
            let goal = Threshold::goal("a goal".to_owned(), "commit-etcd".to_owned(), bound);
            sample.plan.thresholds = vec![goal];
        });
        assert_eq!((verdict.database.as_str(), verdict.criterion.as_str()), ("goal", "a goal"));
        (verdict.verdict, verdict.value.unwrap())
    };
    let (word, rate) = met(ThresholdBound::RateAtLeast { at_least_per_second: 1.0 });
    assert_eq!(word, VerdictWord::Fit);
    let beyond = ThresholdBound::RateAtLeast { at_least_per_second: rate * 1.01 };
    assert_eq!(met(beyond).0, VerdictWord::Unfit);
    let (word, bytes) = met(ThresholdBound::BandwidthAtLeast { at_least: Bytes::new(1) });
    assert!(word == VerdictWord::Fit && bytes > rate);
}

#[test]
fn invalid_figures_give_no_verdict_but_their_reason() {
    let verdict = verdict_on_etcd(|sample| {
        let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
        sample.environment.stacks[0].root.filesystem = Some(facts);
    });
    assert_eq!((verdict.verdict, verdict.headroom), (VerdictWord::CannotTell, None));
    assert!(verdict.measured.contains("memory"), "{}", verdict.measured);
    assert!(verdict.doubt.unwrap().contains("memory"));
}

#[test]
fn processors_that_may_not_be_used_do_not_count() {
    let mut host = Host { cpus_online: 8, cpus_allowed: 6, ..Host::default() };
    assert_eq!(cpus(&host), 6);
    host.cgroup = CgroupLimits { cpu_quota_cores: Some(1.5), ..CgroupLimits::default() };
    assert_eq!(cpus(&host), 2);
    host.cpus_allowed = 0;
    host.cgroup.cpu_quota_cores = Some(99.0);
    assert_eq!(cpus(&host), 8, "what is not known limits nothing");
    assert_eq!(cpus(&Host::default()), 1);
}

#[test]
fn the_number_of_processors_is_in_the_criterion() {
    let verdicts = verdicts(&sample().basis());
    let cockroach = verdicts.iter().find(|it| it.database == "cockroachdb").unwrap();
    assert!(cockroach.criterion.contains("of which 4"), "{}", cockroach.criterion);
    assert_eq!(cockroach.threshold, Some(2000.0));
}

#[test]
fn a_record_is_judged_by_the_thresholds_that_its_plan_took_along() {
    let strict = verdict_on_etcd(|sample| {
        let mut threshold = check_thresholds().unwrap().remove(0);
        threshold.bound = ThresholdBound::LatencyBelow {
            operation: TimedOperation::Sync,
            figure: LatencyFigure::P99,
            limit: Nanos::new(1),
        };
        sample.plan.thresholds = vec![threshold];
    });
    assert_eq!((strict.verdict, strict.threshold), (VerdictWord::Unfit, Some(1.0)));
}

#[test]
fn the_log_of_a_profile_is_judged_idle_and_under_load() {
    let found = verdicts_on_profile("etcd", |sample| {
        let log = &mut sample.workloads[1];
        let sync = log.operations.iter_mut().find(|it| it.operation == OperationName::Sync);
        sync.unwrap().service.p99_ns = Some(15_000_000);
    });
    let of = |database: &str| -> Vec<(VerdictWord, &str)> {
        let its = found.iter().filter(|it| it.database == database);
        its.map(|it| (it.verdict, it.measured.split(": ").next().unwrap())).collect()
    };
    let (idle, loaded) = ("log, idle", "log, under load");
    assert_eq!(
        of("etcd"),
        [
            (VerdictWord::Fit, idle),
            (VerdictWord::Unfit, loaded),
            (
                VerdictWord::CannotTell,
                "backend-commit was not measured, or too briefly for this figure"
            ),
        ]
    );
    assert_eq!(of("etcd-openshift"), [(VerdictWord::Fit, idle), (VerdictWord::Fit, loaded)]);
    assert!(found.iter().all(|it| it.source.is_some()));
}

#[test]
fn a_profile_without_threshold_gets_percentiles_in_both_states_and_no_grade() {
    let found = verdicts_on_profile("postgresql", |_| {});
    assert_eq!(found.len(), 2);
    for verdict in found {
        assert_eq!(verdict.verdict, VerdictWord::NoDocumentedThreshold);
        assert!(verdict.measured.contains("p99"), "{}", verdict.measured);
        assert_eq!(verdict.source, None);
    }
}

#[test]
fn practice_is_called_practice() {
    let found = verdicts_on_profile("sqlserver", |_| {});
    let source = found[0].source.as_ref().unwrap();
    assert_eq!(source.kind, Some(Provenance::Practice));
    assert!(found[0].note.as_ref().unwrap().contains("not Microsoft's word"));
}

#[test]
fn a_run_that_is_shorter_than_a_stall_cannot_rule_it_out_and_one_stall_is_enough() {
    let word = |spoil: fn(&mut durio_analyse::WorkloadFindings)| {
        let found = verdicts_on_profile("zookeeper", |sample| spoil(&mut sample.workloads[0]));
        found[0].verdict
    };
    assert_eq!(word(|log| log.measured = Nanos::from_secs(300)), VerdictWord::Fit);
    assert_eq!(word(|log| log.measured = Nanos::from_millis(900)), VerdictWord::CannotTell);
    let stall = word(|log| {
        log.measured = Nanos::from_millis(900);
        let sync = log.operations.iter_mut().find(|it| it.operation == OperationName::Sync);
        sync.unwrap().service.max_ns = 1_500_000_000;
    });
    assert_eq!(stall, VerdictWord::Unfit);
}
