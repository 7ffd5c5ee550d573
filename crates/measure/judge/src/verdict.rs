//! Fit or unfit: results against documented thresholds, which the plan saves from the profiles
//! (`durio-spec`). Each threshold gets a verdict for each location, and for each state of a
//! profile (idle, under load). A database without a documented threshold gets the percentiles of
//! the operation it waits for, and no grade invented by durio.

use durio_base::{Nanos, Rate};
use durio_observe::Host;
use durio_plan::{LatencyFigure, Purpose, Threshold, ThresholdBound, TimedOperation};
use durio_record::OperationName;

use crate::Basis;
use crate::warning::invalid;
use durio_analyse::{Distribution, ThresholdSource, Verdict, VerdictWord, WorkloadFindings};
use durio_spec::profile::check_thresholds;

#[cfg(test)]
mod tests;

/// The verdicts that the plan asks for; none for plans that are not about a database.
pub(crate) fn verdicts(basis: &Basis<'_>) -> Vec<Verdict> {
    match basis.plan.purpose {
        Purpose::Check => check(basis),
        Purpose::Profile | Purpose::Predict => each_state(basis),
        Purpose::Run | Purpose::Campaign | Purpose::Sweep | Purpose::Durable => Vec::new(),
    }
}

/// Every threshold at every location.
fn check(basis: &Basis<'_>) -> Vec<Verdict> {
    let mut thresholds = basis.plan.thresholds.clone();
    if thresholds.is_empty() {
        // A plan of an older durio has none, and is judged by today's. Those that are shipped can be
        // read: a test of their crate reads every one.
        thresholds = check_thresholds().unwrap_or_default();
    }
    let mut locations: Vec<&str> = Vec::new();
    for workload in basis.workloads {
        if !locations.contains(&workload.location.as_str()) {
            locations.push(&workload.location);
        }
    }
    let at = |location: &str| -> Vec<Verdict> {
        let one = |threshold: &Threshold| {
            let mut here = basis.workloads.iter().filter(|it| it.location == location);
            verdict(basis, threshold, here.find(|it| it.name == threshold.workload), location)
        };
        thresholds.iter().map(one).collect()
    };
    locations.into_iter().flat_map(at).collect()
}

/// Every threshold in every state, or with every number of clients, in which its stream was measured.
fn each_state(basis: &Basis<'_>) -> Vec<Verdict> {
    let first = basis.plan.locations().first().map_or_else(String::new, |it| it.to_string());
    let mut verdicts = Vec::new();
    for threshold in &basis.plan.thresholds {
        let before = verdicts.len();
        let measured = basis.workloads.iter().filter(|it| it.name == threshold.workload);
        verdicts.extend(measured.map(|it| verdict(basis, threshold, Some(it), &it.location)));
        if verdicts.len() == before {
            verdicts.push(verdict(basis, threshold, None, &first));
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
    basis: &Basis<'_>,
    threshold: &Threshold,
    workload: Option<&WorkloadFindings>,
    location: &str,
) -> Verdict {
    let plain = Verdict {
        database: threshold.database.clone(),
        location: location.to_owned(),
        verdict: VerdictWord::NoDocumentedThreshold,
        provisional: basis.provisional.is_some(),
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
    };
    match threshold.bound {
        ThresholdBound::Undocumented => without_threshold(basis, plain, workload),
        _ => judged(basis, plain, threshold, workload),
    }
}

fn judged(
    basis: &Basis<'_>,
    plain: Verdict,
    threshold: &Threshold,
    workload: Option<&WorkloadFindings>,
) -> Verdict {
    let (bound, cpus) = (threshold.bound, cpus(&basis.environment.host));
    let (value, limit, unit) = compared(bound, workload, f64::from(cpus));
    let known = workload.filter(|_| value.is_some());
    let doubt = known.and_then(|it| invalid(basis, it).or_else(|| too_short(bound, it)));
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
            let too_few = known.is_some_and(|it| has_too_few(bound, it));
            let least = if too_few { " or more, by the p50 of few operations" } else { "" };
            (word, format!("{name}: {}{least}", shown(bound, value)), None)
        }
        (None, _) => {
            let text = format!("{name} was not measured, or too briefly for this figure");
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
    basis: &Basis<'_>,
    plain: Verdict,
    workload: Option<&WorkloadFindings>,
) -> Verdict {
    let headline = workload.and_then(|it| it.operation(it.headline));
    let p99 = headline.and_then(|it| it.service.p99_ns);
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
        _ => format!("{name} was not measured, or too briefly"),
    };
    #[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
    let value = p99.map(|nanos| nanos as f64);
    let note = workload.and_then(|workload| invalid(basis, workload));
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
#[expect(clippy::cast_precision_loss, reason = "latencies and bandwidths far below 2⁵³")]
fn compared(
    bound: ThresholdBound,
    workload: Option<&WorkloadFindings>,
    cpus: f64,
) -> (Option<f64>, f64, &'static str) {
    let workload = workload.filter(|workload| workload.complete);
    match bound {
        ThresholdBound::LatencyBelow { operation, figure, limit } => {
            let latencies = workload.and_then(|it| latencies_of(it, operation));
            let limit = limit.get() as f64;
            let value = latencies.and_then(|it| figure_of(it, figure).or_else(|| over(it, limit)));
            (value, limit, "ns")
        }
        ThresholdBound::OperationsPerCpu { at_least_per_second } => {
            (workload.map(|it| it.iops), at_least_per_second * cpus, "per second")
        }
        ThresholdBound::BandwidthPerCpu { at_least } => {
            (workload.map(|it| it.bandwidth), at_least.get() as f64 * cpus, "bytes per second")
        }
        ThresholdBound::RateAtLeast { at_least_per_second } => {
            let commits = |it: &WorkloadFindings| {
                it.operation(OperationName::Commit).map_or(it.iops, |commit| commit.rate)
            };
            (workload.map(commits), at_least_per_second, "per second")
        }
        ThresholdBound::BandwidthAtLeast { at_least } => {
            (workload.map(|it| it.bandwidth), at_least.get() as f64, "bytes per second")
        }
        ThresholdBound::Undocumented => (None, 0.0, "ns"),
    }
}

fn latencies_of(workload: &WorkloadFindings, operation: TimedOperation) -> Option<&Distribution> {
    let name = match operation {
        TimedOperation::Sync => OperationName::Sync,
        TimedOperation::Commit => OperationName::Commit,
        TimedOperation::Read => OperationName::Read,
        TimedOperation::Write => OperationName::Write,
    };
    let findings = workload.operation(name)?;
    // Who commits at a rate of its own waits from when the commit was due.
    let since_due = findings.response.as_ref().filter(|_| name == OperationName::Commit);
    Some(since_due.unwrap_or(&findings.service))
}

/// If too few operations were timed for the percentile that is bounded.
fn has_too_few(bound: ThresholdBound, workload: &WorkloadFindings) -> bool {
    let ThresholdBound::LatencyBelow { operation, figure, .. } = bound else { return false };
    latencies_of(workload, operation).is_some_and(|it| figure_of(it, figure).is_none())
}

#[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
fn figure_of(latencies: &Distribution, figure: LatencyFigure) -> Option<f64> {
    let exact = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64);
    match figure {
        LatencyFigure::Mean => (latencies.count > 0).then_some(latencies.mean_ns),
        LatencyFigure::P50 => exact(latencies.p50_ns),
        LatencyFigure::P99 => exact(latencies.p99_ns),
        LatencyFigure::P99_9 => exact(latencies.p99_9_ns),
        LatencyFigure::Max => (latencies.count > 0).then_some(latencies.max_ns as f64),
    }
}

/// The median where it is over the limit: too few operations for a percentile above it, but no such
/// percentile can be lower.
#[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
fn over(latencies: &Distribution, limit: f64) -> Option<f64> {
    latencies.p50_ns.map(|nanos| nanos as f64).filter(|p50| *p50 >= limit)
}

/// The bound, with its limit on this machine.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
fn in_short(bound: ThresholdBound, limit: f64) -> String {
    match bound {
        ThresholdBound::LatencyBelow { operation, figure, limit } => {
            format!("{} of {} < {limit}", figure.word(), operation.word())
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
