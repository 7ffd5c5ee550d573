//! Fit or unfit: measured figures against documented thresholds.
//!
//! A database is here only with what its own documents say. One without a documented threshold gets
//! the percentiles that its log waits for, and no grade of durio's invention.

use durio_record::OperationName;
use durio_stack::Host;
use durio_units::{Nanos, Rate};

use crate::warning::{Basis, disowned};
use crate::{Source, Verdict, VerdictWord, WorkloadFindings};

/// A threshold on one figure of one workload.
struct Criterion {
    database: &'static str,
    workload: &'static str,
    criterion: &'static str,
    figure: Figure,
    publisher: &'static str,
    document: &'static str,
    url: &'static str,
    note: Option<&'static str>,
}

enum Figure {
    /// p99 of the sync call, in nanoseconds, must be below.
    SyncP99Below(u64),
    /// I/Os per second must be at least this many per processor of this machine.
    IopsPerCpu(f64),
    /// Bytes per second, likewise.
    BandwidthPerCpu(f64),
}

const CRITERIA: [Criterion; 4] = [
    Criterion {
        database: "etcd",
        workload: "commit-etcd",
        criterion: "fdatasync of the log: p99 below 10 ms",
        figure: Figure::SyncP99Below(10_000_000),
        publisher: "etcd",
        document: "Frequently Asked Questions (v3.6), on wal_fsync_duration_seconds",
        url: "https://etcd.io/docs/v3.6/faq/",
        note: None,
    },
    Criterion {
        database: "etcd-openshift",
        workload: "commit-etcd",
        criterion: "fdatasync of the log: p99 below 20 ms",
        figure: Figure::SyncP99Below(20_000_000),
        publisher: "Red Hat",
        document: "OpenShift Container Platform 4.21, Effects of disk latency on etcd",
        url: "https://docs.redhat.com/en/documentation/openshift_container_platform/4.21/html/etcd/etcd-disk-latency_etcd-performance",
        note: Some("Red Hat's own test writes 8000 bytes per record; measured here with 2300"),
    },
    Criterion {
        database: "cockroachdb",
        workload: "mixed",
        criterion: "500 I/Os per second for each vCPU",
        figure: Figure::IopsPerCpu(500.0),
        publisher: "Cockroach Labs",
        document: "Production Checklist, Storage",
        url: "https://www.cockroachlabs.com/docs/stable/recommended-production-settings",
        note: Some("the document names no workload; 8 KiB, 70 % reads, not durable, stands in"),
    },
    Criterion {
        database: "cockroachdb",
        workload: "scan",
        criterion: "30 MB/s for each vCPU",
        figure: Figure::BandwidthPerCpu(30e6),
        publisher: "Cockroach Labs",
        document: "Production Checklist, Storage",
        url: "https://www.cockroachlabs.com/docs/stable/recommended-production-settings",
        note: Some("the document names no workload; sequential reads of 256 KiB stand in"),
    },
];

/// Databases whose documents give no threshold that `check` measures, with the workload that stands
/// for their commit.
const WITHOUT_THRESHOLD: [(&str, &str); 8] = [
    ("postgresql", "commit"),
    ("mysql", "commit"),
    ("mariadb", "commit"),
    ("mongodb", "commit"),
    ("sqlite", "commit"),
    ("redis", "commit-etcd"),
    ("rocksdb", "commit-etcd"),
    ("zookeeper", "commit-etcd"),
];

/// Every name that a verdict can be asked for.
#[must_use]
pub fn known_databases() -> Vec<&'static str> {
    let mut names: Vec<_> = CRITERIA.iter().map(|criterion| criterion.database).collect();
    names.extend(WITHOUT_THRESHOLD.iter().map(|(name, _)| *name));
    names.dedup();
    names
}

/// The verdicts for each location.
pub(crate) fn verdicts(basis: &Basis<'_>) -> Vec<Verdict> {
    let mut locations: Vec<&str> = Vec::new();
    for workload in basis.workloads {
        if !locations.contains(&workload.location.as_str()) {
            locations.push(&workload.location);
        }
    }
    let cpus = cpus(&basis.environment.host);
    let mut verdicts = Vec::new();
    for location in locations {
        let find = |name: &str| {
            let mut workloads = basis.workloads.iter();
            workloads.find(|workload| workload.location == location && workload.name == name)
        };
        for criterion in &CRITERIA {
            verdicts.push(judge(basis, criterion, find(criterion.workload), location, cpus));
        }
        for (database, name) in WITHOUT_THRESHOLD {
            verdicts.push(without_threshold(basis, database, name, find(name), location));
        }
    }
    verdicts
}

/// The processors that a database here would have: a limit on them is its limit too.
fn cpus(host: &Host) -> u32 {
    let known = [host.cpus_online, host.cpus_allowed].into_iter().filter(|&cpus| cpus > 0);
    let cpus = known.min().unwrap_or(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let quota = host.cgroup.cpu_quota_cores.map(|cores| cores.ceil() as u32);
    cpus.min(quota.unwrap_or(cpus)).max(1)
}

fn judge(
    basis: &Basis<'_>,
    criterion: &Criterion,
    workload: Option<&WorkloadFindings>,
    location: &str,
    cpus: u32,
) -> Verdict {
    let (value, threshold, unit) = figures(&criterion.figure, workload, f64::from(cpus));
    let doubt = workload.filter(|_| value.is_some()).and_then(|it| disowned(basis, it));
    let word = match (value, &criterion.figure) {
        _ if doubt.is_some() => VerdictWord::CannotTell,
        (None, _) => VerdictWord::CannotTell,
        (Some(value), Figure::SyncP99Below(_)) => fit_if(value < threshold),
        (Some(value), _) => fit_if(value >= threshold),
    };
    let measured = match (value, doubt) {
        (Some(value), Some(doubt)) => {
            format!("{}: {}, but {doubt}", criterion.workload, shown(value, unit))
        }
        (Some(value), None) => format!("{}: {}", criterion.workload, shown(value, unit)),
        (None, _) => {
            format!("{} was not measured, or too briefly for this figure", criterion.workload)
        }
    };
    Verdict {
        database: criterion.database.to_owned(),
        location: location.to_owned(),
        verdict: word,
        provisional: basis.provisional.is_some(),
        criterion: criterion_text(criterion, cpus),
        measured,
        value,
        threshold: Some(threshold),
        unit: unit.to_owned(),
        source: Some(Source {
            publisher: criterion.publisher.to_owned(),
            document: criterion.document.to_owned(),
            url: criterion.url.to_owned(),
        }),
        note: criterion.note.map(str::to_owned),
    }
}

fn criterion_text(criterion: &Criterion, cpus: u32) -> String {
    match criterion.figure {
        Figure::SyncP99Below(_) => criterion.criterion.to_owned(),
        Figure::IopsPerCpu(_) | Figure::BandwidthPerCpu(_) => {
            format!("{}, of which {cpus} may be used here", criterion.criterion)
        }
    }
}

const fn fit_if(met: bool) -> VerdictWord {
    if met { VerdictWord::Fit } else { VerdictWord::Unfit }
}

/// Measured value, threshold and unit. A step that did not run to its end gives no value.
#[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
fn figures(
    figure: &Figure,
    workload: Option<&WorkloadFindings>,
    cpus: f64,
) -> (Option<f64>, f64, &'static str) {
    let workload = workload.filter(|workload| workload.complete);
    match figure {
        Figure::SyncP99Below(limit) => {
            let sync = workload.and_then(|workload| workload.operation(OperationName::Sync));
            let p99 = sync.and_then(|sync| sync.service.p99_ns);
            (p99.map(|nanos| nanos as f64), *limit as f64, "ns")
        }
        Figure::IopsPerCpu(each) => {
            (workload.map(|workload| workload.iops), each * cpus, "per second")
        }
        Figure::BandwidthPerCpu(each) => {
            (workload.map(|workload| workload.bandwidth), each * cpus, "bytes per second")
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ns" => format!("p99 {}", Nanos::new(value as u64)),
        "per second" => format!("{} I/Os", Rate::of(value as u64, Nanos::from_secs(1))),
        _ => format!("{:.0} MB/s", value / 1e6),
    }
}

fn without_threshold(
    basis: &Basis<'_>,
    database: &str,
    name: &str,
    workload: Option<&WorkloadFindings>,
    location: &str,
) -> Verdict {
    let commit = workload.and_then(|workload| workload.operation(OperationName::Commit));
    let p99 = commit.and_then(|commit| commit.service.p99_ns);
    let measured = match (commit, p99) {
        (Some(commit), Some(p99)) => {
            let p50 = commit
                .service
                .p50_ns
                .map_or_else(String::new, |p50| format!("p50 {}, ", Nanos::new(p50)));
            format!("{name}: {p50}p99 {} per durable commit", Nanos::new(p99))
        }
        _ => format!("{name} was not measured, or too briefly"),
    };
    Verdict {
        database: database.to_owned(),
        location: location.to_owned(),
        verdict: VerdictWord::NoDocumentedThreshold,
        provisional: basis.provisional.is_some(),
        criterion: "its documents give no threshold that this check measures".to_owned(),
        measured,
        #[expect(clippy::cast_precision_loss, reason = "latencies far below 2⁵³ ns")]
        value: p99.map(|nanos| nanos as f64),
        threshold: None,
        unit: "ns".to_owned(),
        source: None,
        note: workload.and_then(|workload| disowned(basis, workload)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warning::sample::{Sample, sample};
    use durio_stack::{CgroupLimits, FilesystemFacts};

    fn verdict_on_etcd(spoil: impl FnOnce(&mut Sample)) -> Verdict {
        let mut sample = sample();
        sample.workloads[0].name = "commit-etcd".to_owned();
        spoil(&mut sample);
        verdicts(&sample.basis()).remove(0)
    }

    #[test]
    fn a_threshold_that_is_met_is_fit_and_one_that_is_missed_is_not() {
        assert_eq!(verdict_on_etcd(|_| {}).verdict, VerdictWord::Fit);
        let slow = verdict_on_etcd(|sample| {
            sample.operation(OperationName::Sync).service.p99_ns = Some(10_000_000);
        });
        assert_eq!(slow.verdict, VerdictWord::Unfit);
    }

    #[test]
    fn figures_that_the_report_disowns_give_no_verdict_but_their_reason() {
        let verdict = verdict_on_etcd(|sample| {
            let facts = FilesystemFacts { memory_backed: true, ..FilesystemFacts::default() };
            sample.environment.stacks[0].root.filesystem = Some(facts);
        });
        assert_eq!(verdict.verdict, VerdictWord::CannotTell);
        assert!(verdict.measured.contains("memory"), "{}", verdict.measured);
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
}
