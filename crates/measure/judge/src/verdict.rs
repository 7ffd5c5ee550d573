//! Fit or unfit: results against documented thresholds, which the plan saves from the profiles
//! (`durio-spec`). Each threshold gets a verdict for each location, and for each state of a
//! profile (idle, under load). A database without a documented threshold gets the percentiles of
//! the operation it waits for, and no grade invented by durio.

use durio_analyse::{Distribution, ThresholdSource, Verdict, VerdictWord, WorkloadFindings};
use durio_base::stats::least_squares::float;
use durio_base::{Nanos, Rate};
use durio_observe::Host;
use durio_plan::{LatencyFigure, Purpose, Threshold, ThresholdBound};
use durio_record::OperationName;
use durio_spec::profile::check_thresholds;

use crate::RuleInput;
use crate::warning::invalid;

/// The verdicts that the plan asks for; none for plans that are not about a database.
pub(crate) fn verdicts(input: &RuleInput<'_>) -> Vec<Verdict> {
    match input.plan.purpose {
        Purpose::Check => check(input),
        Purpose::Profile | Purpose::Predict => each_state(input),
        Purpose::Run | Purpose::Campaign | Purpose::Sweep | Purpose::Durable => Vec::new(),
    }
}

/// Every threshold at every location.
fn check(input: &RuleInput<'_>) -> Vec<Verdict> {
    let mut thresholds = input.plan.thresholds.clone();
    if thresholds.is_empty() {
        // A plan of an older durio has none, and is judged by today's. Those that are shipped can be
        // read: a test of their crate reads every one.
        thresholds = check_thresholds().unwrap_or_default();
    }
    let mut locations: Vec<&str> = Vec::new();
    for workload in input.workloads {
        if !locations.contains(&workload.location.as_str()) {
            locations.push(&workload.location);
        }
    }
    let at = |location: &str| -> Vec<Verdict> {
        let one = |threshold: &Threshold| {
            let mut here = input.workloads.iter().filter(|workload| workload.location == location);
            verdict(
                input,
                threshold,
                here.find(|workload| workload.name == threshold.workload),
                location,
            )
        };
        thresholds.iter().map(one).collect()
    };
    locations.into_iter().flat_map(at).collect()
}

/// Every threshold in every state, or with every number of clients, in which its stream was measured.
fn each_state(input: &RuleInput<'_>) -> Vec<Verdict> {
    let first =
        input.plan.locations().first().map_or_else(String::new, |location| location.to_string());
    let mut verdicts = Vec::new();
    for threshold in &input.plan.thresholds {
        let before = verdicts.len();
        let measured =
            input.workloads.iter().filter(|workload| workload.name == threshold.workload);
        verdicts.extend(
            measured.map(|workload| verdict(input, threshold, Some(workload), &workload.location)),
        );
        if verdicts.len() == before {
            verdicts.push(verdict(input, threshold, None, &first));
        }
    }
    verdicts
}

/// The processors that a database here would have: a limit on them is its limit too.
fn cpus(host: &Host) -> u32 {
    // 0 stands for what could not be read, and limits nothing.
    let known = [host.cpus_online, host.cpus_allowed].into_iter().filter(|&cpus| cpus > 0);
    let cpus = known.min().unwrap_or(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let quota = host.cgroup.cpu_quota_cores.map(|cores| cores.ceil() as u32);
    cpus.min(quota.unwrap_or(cpus)).max(1)
}

fn verdict(
    input: &RuleInput<'_>,
    threshold: &Threshold,
    workload: Option<&WorkloadFindings>,
    location: &str,
) -> Verdict {
    let plain = Verdict {
        database: threshold.database.clone(),
        location: location.to_owned(),
        verdict: VerdictWord::NoDocumentedThreshold,
        provisional: input.provisional.is_some(),
        criterion: threshold.criterion.clone(),
        limit: String::new(),
        measured: String::new(),
        workload: workload.map_or_else(|| threshold.workload.clone(), name_in_state),
        doubt: None,
        value: None,
        headroom: None,
        threshold: None,
        unit: "ns".to_owned(),
        source: None,
        note: None,
        asked: threshold.asked,
    };
    match threshold.bound {
        ThresholdBound::Undocumented => without_threshold(input, plain, workload),
        _ => judge(input, plain, threshold, workload),
    }
}

fn judge(
    input: &RuleInput<'_>,
    plain: Verdict,
    threshold: &Threshold,
    workload: Option<&WorkloadFindings>,
) -> Verdict {
    let (bound, cpus) = (threshold.bound, cpus(&input.environment.host));
    let (value, limit, unit) = compared(bound, workload, f64::from(cpus));
    let known = workload.filter(|_| value.is_some());
    let doubt =
        known.and_then(|workload| invalid(input, workload).or_else(|| too_short(bound, workload)));
    let is_below = matches!(bound, ThresholdBound::LatencyBelow { .. });
    let name = &plain.workload;
    let (verdict, measured, doubt) = match (value, doubt) {
        (Some(value), Some(doubt)) => {
            let measured = format!("{name}: {}, but {doubt}", shown(bound, value));
            (VerdictWord::CannotTell, measured, Some(doubt))
        }
        (Some(value), None) => {
            let is_met = if is_below { value < limit } else { value >= limit };
            let word = if is_met { VerdictWord::Fit } else { VerdictWord::Unfit };
            let too_few = known.is_some_and(|workload| has_too_few(bound, workload));
            let least = if too_few { " or more, by the p50 of few operations" } else { "" };
            (word, format!("{name}: {}{least}", shown(bound, value)), None)
        }
        (None, _) => {
            let text = format!("{name} was not measured, or not long enough");
            (VerdictWord::CannotTell, text.clone(), Some(text))
        }
    };
    let judged = value.filter(|value| doubt.is_none() && *value > 0.0);
    let headroom = judged.map(|value| if is_below { limit / value } else { value / limit });
    let is_per_cpu = matches!(
        bound,
        ThresholdBound::OperationsPerCpu { .. } | ThresholdBound::BandwidthPerCpu { .. }
    );
    let criterion = match is_per_cpu {
        true => format!("{}, of which {cpus} may be used here", plain.criterion),
        false => plain.criterion,
    };
    Verdict {
        verdict,
        criterion,
        limit: in_short(threshold.bound, limit),
        measured,
        doubt,
        value,
        headroom,
        threshold: Some(limit),
        unit: unit.to_owned(),
        source: source(threshold),
        note: threshold.note.clone(),
        ..plain
    }
}

fn without_threshold(
    input: &RuleInput<'_>,
    plain: Verdict,
    workload: Option<&WorkloadFindings>,
) -> Verdict {
    let headline = workload.and_then(|workload| workload.operation(workload.headline));
    let p99 = headline.and_then(|operation| operation.service.p99_ns);
    let name = &plain.workload;
    let measured = match (headline, p99) {
        (Some(headline), Some(p99)) => {
            let p50 = headline.service.p50_ns;
            let p50 = p50.map_or_else(String::new, |p50| format!("p50 {}, ", Nanos::new(p50)));
            let what = match headline.operation {
                OperationName::Commit => "durable commit",
                other => other.name(),
            };
            format!("{name}: {p50}p99 {} per {what}", Nanos::new(p99))
        }
        _ => format!("{name} was not measured, or not long enough"),
    };
    let value = p99.map(float);
    let note = workload.and_then(|workload| invalid(input, workload));
    Verdict { measured, value, note, ..plain }
}

/// A run that is shorter than the longest operation permitted could not have shown one.
fn too_short(bound: ThresholdBound, workload: &WorkloadFindings) -> Option<String> {
    let ThresholdBound::LatencyBelow { operation, figure: LatencyFigure::Max, limit } = bound
    else {
        return None;
    };
    let kept = latencies_of(workload, operation)?.max_ns < limit.get();
    let measured = workload.measured;
    (kept && measured < limit)
        .then(|| format!("{measured} are shorter than the limit: give a longer --duration"))
}

/// The workload's name, and in which state of a profile's database, or with how many clients, it was
/// measured.
fn name_in_state(workload: &WorkloadFindings) -> String {
    let levels = workload.levels.iter().filter_map(|level| match level.axis.as_str() {
        "state" => Some(level.label.clone()),
        "clients" if level.label == "1" => Some("1 client".to_owned()),
        "clients" => Some(format!("{} clients", level.label)),
        _ => None,
    });
    [workload.name.clone()].into_iter().chain(levels).collect::<Vec<_>>().join(", ")
}

fn source(threshold: &Threshold) -> Option<ThresholdSource> {
    Some(ThresholdSource {
        publisher: threshold.publisher.clone().unwrap_or_default(),
        document: threshold.document.clone()?,
        url: threshold.url.clone().unwrap_or_default(),
        kind: threshold.kind,
    })
}

/// Value, limit and unit. A step that did not run to its end gives no value.
fn compared(
    bound: ThresholdBound,
    workload: Option<&WorkloadFindings>,
    cpus: f64,
) -> (Option<f64>, f64, &'static str) {
    let workload = workload.filter(|workload| workload.complete);
    match bound {
        ThresholdBound::LatencyBelow { operation, figure, limit } => {
            let latencies = workload.and_then(|workload| latencies_of(workload, operation));
            let limit = float(limit.get());
            let value = latencies.and_then(|latencies| {
                figure_of(latencies, figure).or_else(|| over(latencies, limit))
            });
            (value, limit, "ns")
        }
        ThresholdBound::OperationsPerCpu { at_least_per_second } => {
            (workload.map(|workload| workload.iops), at_least_per_second * cpus, "per second")
        }
        ThresholdBound::BandwidthPerCpu { at_least } => (
            workload.map(|workload| workload.bandwidth),
            float(at_least.get()) * cpus,
            "bytes per second",
        ),
        ThresholdBound::RateAtLeast { at_least_per_second } => {
            let commits = |workload: &WorkloadFindings| {
                workload
                    .operation(OperationName::Commit)
                    .map_or(workload.iops, |commit| commit.rate)
            };
            (workload.map(commits), at_least_per_second, "per second")
        }
        ThresholdBound::BandwidthAtLeast { at_least } => {
            (workload.map(|workload| workload.bandwidth), float(at_least.get()), "bytes per second")
        }
        ThresholdBound::Undocumented => (None, 0.0, "ns"),
    }
}

fn latencies_of(workload: &WorkloadFindings, operation: OperationName) -> Option<&Distribution> {
    let findings = workload.operation(operation)?;
    // Who commits at a rate of its own waits from when the commit was due.
    let since_due = findings.response.as_ref().filter(|_| operation == OperationName::Commit);
    Some(since_due.unwrap_or(&findings.service))
}

/// If too few operations were timed for the percentile that is bounded.
fn has_too_few(bound: ThresholdBound, workload: &WorkloadFindings) -> bool {
    let ThresholdBound::LatencyBelow { operation, figure, .. } = bound else { return false };
    latencies_of(workload, operation)
        .is_some_and(|latencies| figure_of(latencies, figure).is_none())
}

fn figure_of(latencies: &Distribution, figure: LatencyFigure) -> Option<f64> {
    let exact = |nanos: Option<u64>| nanos.map(float);
    match figure {
        LatencyFigure::Mean => (latencies.count > 0).then_some(latencies.mean_ns),
        LatencyFigure::P50 => exact(latencies.p50_ns),
        LatencyFigure::P99 => exact(latencies.p99_ns),
        LatencyFigure::P99_9 => exact(latencies.p99_9_ns),
        LatencyFigure::Max => (latencies.count > 0).then_some(float(latencies.max_ns)),
    }
}

/// The median where it is over the limit: too few operations for a percentile above it, but no such
/// percentile can be lower.
fn over(latencies: &Distribution, limit: f64) -> Option<f64> {
    latencies.p50_ns.map(float).filter(|p50| *p50 >= limit)
}

/// The bound, with its limit on this machine.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
fn in_short(bound: ThresholdBound, limit: f64) -> String {
    match bound {
        ThresholdBound::LatencyBelow { operation, figure, limit } => {
            format!("{} of {} < {limit}", figure.word(), operation.name())
        }
        ThresholdBound::OperationsPerCpu { .. } | ThresholdBound::RateAtLeast { .. } => {
            format!("rate ≥ {}", Rate::of(limit as u64, Nanos::from_secs(1)))
        }
        ThresholdBound::BandwidthPerCpu { .. }
        | ThresholdBound::BandwidthAtLeast { .. }
        | ThresholdBound::Undocumented => {
            format!("bandwidth ≥ {:.0} MB/s", limit / 1e6)
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
fn shown(bound: ThresholdBound, value: f64) -> String {
    match bound {
        ThresholdBound::LatencyBelow { figure, .. } => {
            format!("{} {}", figure.word(), Nanos::new(value as u64))
        }
        ThresholdBound::OperationsPerCpu { .. } | ThresholdBound::RateAtLeast { .. } => {
            format!("{} I/Os", Rate::of(value as u64, Nanos::from_secs(1)))
        }
        ThresholdBound::BandwidthPerCpu { .. }
        | ThresholdBound::BandwidthAtLeast { .. }
        | ThresholdBound::Undocumented => {
            format!("{:.0} MB/s", value / 1e6)
        }
    }
}

#[cfg(test)]
mod figure_tests;

#[cfg(test)]
mod tests {
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
        verdicts(&sample.input()).remove(0)
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
        verdicts(&sample.input())
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
        let verdicts = verdicts(&sample().input());
        let cockroach = verdicts.iter().find(|verdict| verdict.database == "cockroachdb").unwrap();
        assert!(cockroach.criterion.contains("of which 4"), "{}", cockroach.criterion);
        assert_eq!(cockroach.threshold, Some(2000.0));
    }

    #[test]
    fn a_record_is_judged_by_the_thresholds_that_its_plan_took_along() {
        let strict = verdict_on_etcd(|sample| {
            let mut threshold = check_thresholds().unwrap().remove(0);
            threshold.bound = ThresholdBound::LatencyBelow {
                operation: OperationName::Sync,
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
            let sync = log
                .operations
                .iter_mut()
                .find(|operation| operation.operation == OperationName::Sync);
            sync.unwrap().service.p99_ns = Some(15_000_000);
        });
        let of = |database: &str| -> Vec<(VerdictWord, &str)> {
            let its = found.iter().filter(|verdict| verdict.database == database);
            its.map(|verdict| (verdict.verdict, verdict.measured.split(": ").next().unwrap()))
                .collect()
        };
        let (idle, loaded) = ("log, idle", "log, under load");
        assert_eq!(
            of("etcd"),
            [
                (VerdictWord::Fit, idle),
                (VerdictWord::Unfit, loaded),
                (VerdictWord::CannotTell, "backend-commit was not measured, or not long enough"),
            ]
        );
        assert_eq!(of("etcd-openshift"), [(VerdictWord::Fit, idle), (VerdictWord::Fit, loaded)]);
        assert!(found.iter().all(|verdict| verdict.source.is_some()));
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
        assert!(found[0].note.as_ref().unwrap().contains("not from Microsoft"));
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
            let sync = log
                .operations
                .iter_mut()
                .find(|operation| operation.operation == OperationName::Sync);
            sync.unwrap().service.max_ns = 1_500_000_000;
        });
        assert_eq!(stall, VerdictWord::Unfit);
    }
}
