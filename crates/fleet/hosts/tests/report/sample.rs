//! Findings of made-up hosts, the same for the same number of hosts.

use std::collections::BTreeMap;

use durio_analyse::{Distribution, RunState};
use durio_hosts::{
    DifferingFact, FLEET_SCHEMA, FigureKey, FleetDoubt, FleetDoubtKind, FleetFindings, GroupFigure,
    GroupFindings, HostEvidence, HostFigure, HostFindings, HostOutcome, HostRun, HostShare,
    HostStatistic, HostVerdict, PooledFindings, RateMark, RateMarkKind, ScreeningMethod,
    ScreeningPower, SharedFact, SharedStorage, UnsteadyFigure,
};
use durio_record::OperationName;

/// Hosts of a rack.
const RACK: usize = 40;

pub(crate) fn key(workload: &str, operation: OperationName, statistic: HostStatistic) -> FigureKey {
    FigureKey { workload: workload.to_owned(), target: "data".to_owned(), operation, statistic }
}

/// From 5 % below to 5 % above the middle, in an order without a pattern that names have.
fn offset(at: usize) -> f64 {
    f64::from(u32::try_from(at * 7 % 11).unwrap()) - 5.0
}

/// Commit rates are 12,000/s and 120/s more for each per cent; latencies fall by as much.
fn figures(at: usize) -> Vec<HostFigure> {
    let latency = |middle: f64| middle - middle / 100.0 * offset(at);
    let values = [
        ("commit", OperationName::Commit, HostStatistic::Rate, 12_000.0 + 120.0 * offset(at)),
        ("commit", OperationName::Commit, HostStatistic::P50, latency(70_000.0)),
        ("commit", OperationName::Commit, HostStatistic::P99, latency(200_000.0)),
        ("commit", OperationName::Commit, HostStatistic::P999, latency(900_000.0)),
        ("lookup", OperationName::Read, HostStatistic::Rate, 46_000.0 + 460.0 * offset(at)),
        ("lookup", OperationName::Read, HostStatistic::P99, latency(400_000.0)),
    ];
    let figure = |(workload, operation, statistic, value)| HostFigure {
        key: key(workload, operation, statistic),
        value,
    };
    values.map(figure).into()
}

pub(crate) fn run(figures: Vec<HostFigure>) -> HostRun {
    HostRun {
        folder: "2026-11-30T10-00-00Z-check-1".to_owned(),
        state: RunState::Complete,
        started: "2026-11-30T10:00:00Z".to_owned(),
        is_confirmation: false,
        figures,
    }
}

fn host(at: usize) -> HostFindings {
    let waves = (0..60)
        .map(|second| 11_000.0 + 1_000.0 * f64::from((second + u32::try_from(at).unwrap()) % 3));
    HostFindings {
        name: format!("rack{}-db{:02}", at / RACK + 1, at % RACK + 1),
        outcome: HostOutcome::Measured,
        reason: None,
        group: Some(0),
        facts: BTreeMap::from([("model".to_owned(), "PM9A3".to_owned())]),
        runs: vec![run(figures(at))],
        verdict: HostVerdict::Alike,
        evidence: Vec::new(),
        unsteady: Vec::new(),
        shrunk_factor: 1.0,
        rate_over_time: waves.collect(),
    }
}

/// The figures of a group over its hosts.
fn group(hosts: &[HostFindings]) -> GroupFindings {
    let keys = figures(0).into_iter().map(|figure| figure.key);
    let group_figure = |key: FigureKey| {
        let figures = hosts.iter().flat_map(|host| &host.runs[0].figures);
        let mut values: Vec<f64> =
            figures.filter(|figure| figure.key == key).map(|figure| figure.value).collect();
        values.sort_by(f64::total_cmp);
        let middle = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        let (min, max) = (values[0], values[values.len() - 1]);
        GroupFigure { key, hosts: values.len(), median: middle, min, max, spread: 0.025 }
    };
    GroupFindings {
        facts: BTreeMap::from([("model".to_owned(), "PM9A3".to_owned())]),
        hosts: hosts.len(),
        method: match hosts.len() {
            0..5 => ScreeningMethod::TooFew,
            5..20 => ScreeningMethod::LeaveOneOut,
            _ => ScreeningMethod::Robust,
        },
        figures: keys.map(group_figure).collect(),
        differing: Vec::new(),
    }
}

fn pooled(hosts: &[HostFindings]) -> PooledFindings {
    let share = |host: &HostFindings| HostShare {
        host: host.name.clone(),
        share: 1.0 / hosts.len() as f64,
        p50_ns: Some(70_000),
        p99_ns: Some(200_000),
    };
    PooledFindings {
        workload: "commit".to_owned(),
        target: "data".to_owned(),
        operation: OperationName::Commit,
        hosts: hosts.len(),
        absent: Vec::new(),
        shared: None,
        window_seconds: 58.2,
        skew_seconds: 0.0004,
        rate: Some(12_000.0 * hosts.len() as f64),
        rate_error: None,
        no_rate: None,
        sum_of_rates: 12_060.0 * hosts.len() as f64,
        latency: Some(Distribution {
            count: 1_000_000,
            mean_ns: 80_000.0,
            min_ns: 40_000,
            p1_ns: Some(45_000),
            p50_ns: Some(70_000),
            p90_ns: Some(120_000),
            p99_ns: Some(800_000),
            p99_9_ns: Some(50_400_000),
            p99_99_ns: Some(60_000_000),
            max_ns: 61_000_000,
        }),
        mean_of_p99_ns: Some(5_700_000.0),
        fairness: 0.98,
        shares: hosts.iter().map(share).collect(),
        rate_over_time: vec![12_000.0 * hosts.len() as f64; 58],
        marks: Vec::new(),
    }
}

/// A campaign in which every host is like the others; below five hosts none is judged.
pub(crate) fn fleet(count: usize) -> FleetFindings {
    let mut hosts: Vec<HostFindings> = (0..count).map(host).collect();
    let group = group(&hosts);
    if group.method == ScreeningMethod::TooFew {
        hosts.iter_mut().for_each(|host| host.verdict = HostVerdict::NotJudged);
    }
    FleetFindings {
        schema: FLEET_SCHEMA.to_owned(),
        campaign: Some("racks".to_owned()),
        asked: count,
        pooled: vec![pooled(&hosts)],
        hosts,
        groups: vec![group],
        shared_facts: Vec::new(),
        power: ScreeningPower {
            hosts_tested: count,
            figures_tested: 6,
            false_suspects: 0.3,
            runs_for_ten_percent: Some(3),
        },
        doubts: Vec::new(),
    }
}

/// A commit rate that is lower by a third.
pub(crate) fn evidence() -> HostEvidence {
    HostEvidence {
        key: key("commit", OperationName::Commit, HostStatistic::Rate),
        value: 9_000.0,
        group_median: 12_060.0,
        factor: 1.34,
        interval: Some([1.28, 1.41]),
        p: 0.0004,
        is_confirmed: false,
    }
}

pub(crate) fn judge(host: &mut HostFindings, verdict: HostVerdict) {
    (host.verdict, host.shrunk_factor) = (verdict, 1.3);
    host.evidence = vec![evidence()];
}

/// Takes a host's runs away.
pub(crate) fn lose(host: &mut HostFindings, outcome: HostOutcome, reason: &str) {
    (host.outcome, host.verdict) = (outcome, HostVerdict::NotJudged);
    (host.reason, host.group) = (Some(reason.to_owned()), None);
    host.runs.clear();
    host.rate_over_time.clear();
}

/// A campaign in which everything went wrong that a report can say; needs 30 hosts.
pub(crate) fn troubled(count: usize) -> FleetFindings {
    let mut fleet = fleet(count);
    let outcomes = [
        HostOutcome::Lost,
        HostOutcome::Failed,
        HostOutcome::Refused,
        HostOutcome::Missing,
        HostOutcome::Partial,
    ];
    for (at, host) in fleet.hosts.iter_mut().enumerate().take(30) {
        match at {
            0..4 => judge(host, HostVerdict::Slow),
            4..12 => judge(host, HostVerdict::Suspect),
            12..14 => judge(host, HostVerdict::Cleared),
            14..17 => {
                host.verdict = HostVerdict::Unsteady;
                host.unsteady = vec![UnsteadyFigure {
                    key: key("commit", OperationName::Commit, HostStatistic::Rate),
                    scatter: 0.12,
                    group_scatter: 0.02,
                    drift: Some(1.2),
                    p: 0.001,
                }];
            }
            17..27 => {
                let reason = "silent since 2026-11-30T10:00:00Z, 14 s after the last heartbeat, in \
                              step 3 of 9 (commit), with 4 GiB still to write; the link was down";
                lose(host, outcomes[at % 5], reason);
            }
            _ => {}
        }
    }
    fleet.shared_facts = vec![
        SharedFact {
            group: 0,
            fact: "firmware".to_owned(),
            value: "GDC5".to_owned(),
            key: key("commit", OperationName::Commit, HostStatistic::P99),
            hosts_with: 12,
            hosts_without: count - 12,
            factor: 1.18,
            p: 3.2e-5,
        };
        3
    ];
    fleet.groups[0].differing = vec![
        DifferingFact {
            fact: "kernel".to_owned(),
            values: vec![("6.12.1".to_owned(), vec!["a".into(), "b".into()])],
        };
        4
    ];
    let doubt = FleetDoubt {
        kind: FleetDoubtKind::Skewed,
        hosts: Vec::new(),
        sentence: "The starts of step 3 are 14 ms apart, which is more than 10 ms.".to_owned(),
    };
    fleet.doubts = vec![doubt; 5];
    let mut shared = fleet.pooled[0].clone();
    let mark = |at_seconds, kind, host: Option<&str>| RateMark {
        at_seconds,
        kind,
        host: host.map(str::to_owned),
    };
    shared.marks = vec![
        mark(-2.5, RateMarkKind::Start, None),
        mark(-2.4, RateMarkKind::Start, None),
        mark(14.0, RateMarkKind::Lost, Some("rack1-db19")),
        mark(57.0, RateMarkKind::Stop, None),
    ];
    shared.shared = Some(SharedStorage::Detected("10.0.0.9:/export".to_owned()));
    (shared.rate_error, shared.absent) = (Some(0.0032), vec!["rack1-db20".to_owned()]);
    fleet.pooled = vec![shared.clone(), shared, fleet.pooled[0].clone()];
    fleet
}
