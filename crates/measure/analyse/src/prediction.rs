//! A prediction: commits of a database by its clients, and what bounds them. The plan and the
//! findings of its steps give [`PredictionFindings`]; docs/method/predict.md compares them with
//! real databases.

use durio_plan::{Plan, Purpose};
use durio_record::OperationName;
use serde::{Deserialize, Serialize};

use crate::measurement::{Measurement, Measurements};
use crate::{OperationFindings, WorkloadFindings};

/// From this share of its time on, a log or the processors are said to bound the rate.
// Durio's choice: if less than a seventh of the time is left, anything else gains little.
const BUSY: f64 = 0.85;

/// Predicted rates were so near to real ones in 14 of 17 cases, on a machine that nothing was fitted to
/// (docs/method/predict.md).
pub const USUALLY_WITHIN: f64 = 0.15;

/// The results of a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionFindings {
    pub database: String,
    /// Where, in a check, which may have several locations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// By clients, as they were run.
    pub points: Vec<PredictionPoint>,
    /// Differences from the real database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionPoint {
    pub clients: u32,
    pub rate_per_second: f64,
    /// Between which rates the real one is expected: those from which this is off by [`USUALLY_WITHIN`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<(f64, f64)>,
    /// Rate of the intervals, least and most; `None` with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_range: Option<(f64, f64)>,
    /// The arrival rate of transactions; `None` if each client sent the next after the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_second: Option<f64>,
    /// Latency of a transaction as its client sees it, from when it was due: 50th percentile.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// Commits that share a sync, on average.
    pub commits_per_sync: Option<f64>,
    /// Bytes that a commit writes, with what fills writes up.
    pub bytes_per_commit: f64,
    /// Share of the time in which the log was being written or synced, 0 to 1.
    pub log_share: f64,
    /// Share of the machine's processors that clients and database took, 0 to 1; `None` if their
    /// number is unknown.
    pub processor_share: Option<f64>,
    /// What bounds the rate.
    pub bound: RateBound,
    /// The most commits per second on a storage twice as fast; `None` if they arrive at a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twice_as_fast_at_most: Option<f64>,
}

/// What bounds a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateBound {
    /// The log was being written or synced most of the time.
    Storage,
    /// The processors had no time left.
    Processors,
    /// Neither: threads waited to be woken, or for each other.
    Waiting,
    /// No more transactions came.
    Offered,
}

impl RateBound {
    /// As tables say it; `durio explain` knows each.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Storage => "disk",
            Self::Processors => "CPU",
            Self::Waiting => "waits",
            Self::Offered => "offered",
        }
    }
}

/// The findings of a prediction's plan; `None` for other plans, or before any measurement.
pub(crate) fn findings(
    plan: &Plan,
    table: &Measurements<'_>,
    processors: u32,
) -> Option<PredictionFindings> {
    let campaign = plan.campaign.as_ref().filter(|_| plan.purpose == Purpose::Predict)?;
    let points = table.iter().filter_map(|row| point(row, processors)).collect();
    let (database, notes) = (campaign.name.clone(), campaign.notes.clone());
    Some(PredictionFindings { database, location: None, points, notes })
}

/// True of a step of a check that predicts a database: its threads burn processor time as the
/// database does, which rules for other workloads would object to.
pub(crate) fn is_of_check(plan: &Plan, found: &WorkloadFindings) -> bool {
    let policy = found.definition.group_commit;
    plan.purpose == Purpose::Check && policy.is_some_and(|policy| policy.software.is_some())
}

/// The predictions of a check by those steps, which are named `DATABASE-CLIENTS`.
pub(crate) fn of_check(table: &Measurements<'_>, processors: u32) -> Vec<PredictionFindings> {
    let mut all: Vec<PredictionFindings> = Vec::new();
    // A step that was cut short has no rate to compare.
    for row in table.iter().filter(|row| row.complete) {
        let Some(found) = point(row, processors) else { continue };
        let suffix = format!("-{}", found.clients);
        let Some(database) = row.name.strip_suffix(suffix.as_str()) else { continue };
        let location = Some(row.location.clone());
        let known =
            all.iter_mut().find(|known| known.database == database && known.location == location);
        match known {
            Some(known) => known.points.push(found),
            None => all.push(PredictionFindings {
                database: database.to_owned(),
                location,
                points: vec![found],
                notes: Vec::new(),
            }),
        }
    }
    all
}

fn point(row: &Measurement<'_>, processors: u32) -> Option<PredictionPoint> {
    let clients = row.load()?.workload.group_commit?.committers;
    let commit = row.operation(OperationName::Commit)?;
    let writes = [OperationName::Write, OperationName::Sync].map(|name| row.operation(name));
    let busy = writes.iter().flatten().map(|write| write.rate * mean_seconds(write));
    let log_share = busy.sum::<f64>().min(1.0);
    let cores = row.cpu.user_cores + row.cpu.system_cores;
    let processor_share = (processors > 0).then(|| (cores / f64::from(processors)).min(1.0));
    let bound = if row.open_loop.is_some_and(|open| open.keeps_up()) {
        RateBound::Offered
    } else if processor_share.is_some_and(|share| share >= BUSY) {
        RateBound::Processors
    } else if log_share >= BUSY {
        RateBound::Storage
    } else {
        RateBound::Waiting
    };
    let batches = row.batches.as_ref();
    let latency = commit.response.as_ref().unwrap_or(&commit.service);
    let bytes = writes[0].map_or(0.0, |write| write.bandwidth);
    Some(PredictionPoint {
        clients,
        rate_per_second: commit.rate,
        // An offered rate that was reached is not a prediction.
        expected: (bound != RateBound::Offered)
            .then(|| (commit.rate / (1.0 + USUALLY_WITHIN), commit.rate / (1.0 - USUALLY_WITHIN))),
        rate_range: row
            .rate_variation
            .map(|range| (range.rate_min_per_second, range.rate_max_per_second)),
        offered_per_second: row.open_loop.map(|open| open.offered_per_second),
        p50_ns: latency.p50_ns,
        p99_ns: latency.p99_ns,
        commits_per_sync: batches.and_then(|batches| batches.commits_per_sync),
        bytes_per_commit: if commit.rate > 0.0 { bytes / commit.rate } else { 0.0 },
        log_share,
        processor_share,
        bound,
        twice_as_fast_at_most: row.open_loop.is_none().then(|| {
            let flush = writes.iter().flatten().map(|write| mean_seconds(write)).sum();
            twice_as_fast(f64::from(clients), commit.rate, flush, processor_share)
        }),
    })
}

fn mean_seconds(operation: &OperationFindings) -> f64 {
    operation.service.mean_ns / 1e9
}

/// The bounds of operational analysis for a closed system (Denning and Buzen, 1978): `clients`
/// commit `rate` times a second, so each commit and the time up to the next take clients / rate. A
/// commit waits for its flush and, among several clients, for the one in progress: a storage twice
/// as fast saves half of that. And the processors cannot do more than all of their time.
fn twice_as_fast(clients: f64, rate: f64, flush: f64, processor_share: Option<f64>) -> f64 {
    if rate <= 0.0 {
        return 0.0;
    }
    let flushes = if clients > 1.0 { 2.0 } else { 1.0 };
    let takes = clients / rate;
    // However much of it the flushes are, twice as fast is the most.
    let shortened = (takes - flushes * flush / 2.0).max(takes / 2.0);
    let by_processors =
        processor_share.filter(|share| *share > 0.0).map_or(f64::INFINITY, |share| rate / share);
    (clients / shortened).min(by_processors).max(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_twice_as_fast_saves_one_client_half_of_its_flush() {
        // 100 µs, of which 80 are the flush.
        let most = twice_as_fast(1.0, 10_000.0, 80e-6, Some(0.1));
        assert!((most - 1e6 / 60.0).abs() < 1.0, "{most}");
    }

    #[test]
    fn processors_that_are_busy_gain_nothing() {
        let most = twice_as_fast(32.0, 30_000.0, 90e-6, Some(1.0));
        assert!((most - 30_000.0).abs() < 1.0, "{most}");
    }

    #[test]
    fn never_more_than_twice() {
        let most = twice_as_fast(8.0, 80_000.0, 100e-6, None);
        assert!((most - 160_000.0).abs() < 1.0, "{most}");
    }

    use durio_base::Nanos;
    use durio_workload::GroupCommit;

    use crate::tests::sample::sample;

    #[test]
    fn a_check_has_a_prediction_for_each_database_and_location_with_its_whole_steps() {
        let mut made = sample();
        let software = durio_workload::Software {
            clients: durio_workload::ClientThreads::One,
            writer: durio_workload::LogWriter::Committer,
            wakes_all: true,
            flushes: 1,
            turn: None,
            client: Nanos::ZERO,
            before: Nanos::ZERO,
            after: Nanos::ZERO,
            batch: Nanos::ZERO,
            apply: None,
            yields: None,
            wake: Nanos::ZERO,
        };
        let policy =
            |clients| Some(GroupCommit { software: Some(software), ..GroupCommit::of(clients) });
        let step = made.plan.steps[0].clone();
        let commit = made.workloads[0].clone();
        let mut found = Vec::new();
        for (name, location, clients, complete) in [
            ("postgresql-1", "/a", 1, true),
            ("postgresql-8", "/a", 8, true),
            ("postgresql-32", "/a", 32, false),
            ("redis-8", "/a", 8, true),
            ("postgresql-1", "/b", 1, true),
        ] {
            let mut step = step.clone();
            step.load.workload.group_commit = policy(clients);
            made.plan.steps.push(step);
            let mut row = commit.clone();
            (row.name, row.location, row.complete) = (name.into(), location.into(), complete);
            row.step = u32::try_from(made.plan.steps.len() - 1).unwrap();
            row.definition.group_commit = policy(clients);
            assert!(is_of_check(&made.plan, &row));
            found.push(row);
        }
        let all = of_check(&Measurements::of_run(&made.plan, &found), 4);
        let shown = |one: &PredictionFindings| {
            let clients: Vec<u32> = one.points.iter().map(|point| point.clients).collect();
            (one.database.clone(), one.location.clone().unwrap_or_default(), clients)
        };
        let row = |database: &str, location: &str, clients: &[u32]| {
            (database.to_owned(), location.to_owned(), clients.to_vec())
        };
        let expected = [
            row("postgresql", "/a", &[1, 8]),
            row("redis", "/a", &[8]),
            row("postgresql", "/b", &[1]),
        ];
        assert_eq!(all.iter().map(shown).collect::<Vec<_>>(), expected);
        // Other steps, and those of other plans, stay among the workloads.
        assert!(!is_of_check(&made.plan, &commit));
        made.plan.purpose = Purpose::Predict;
        assert!(!is_of_check(&made.plan, &found[0]));
    }

    /// A point of seven clients: its log takes this share of the time, of which a write has 400 µs, and
    /// clients and database this share of four processors.
    fn point_of(log: f64, processors: f64) -> PredictionPoint {
        let mut made = sample();
        made.plan.steps[0].load.workload.group_commit = Some(GroupCommit::of(7));
        let it = &mut made.workloads[0];
        for (operation, mean_us) in
            it.operations.iter_mut().zip([700.0, 400.0, log * 1000.0 - 400.0])
        {
            operation.service.mean_ns = mean_us * 1000.0;
        }
        // A thousand of each in a second.
        (it.cpu.user_cores, it.cpu.system_cores) = (3.0 * processors, processors);
        let found = point(&Measurement { plan: &made.plan, found: it }, 4).unwrap();
        assert!((found.log_share - log).abs() < 1e-9, "{found:?}");
        assert!((found.processor_share.unwrap() - processors).abs() < 1e-9, "{found:?}");
        found
    }

    #[test]
    fn what_is_busy_85_percent_of_the_time_bounds_the_rate() {
        let bound = |log, processors| point_of(log, processors).bound;
        assert_eq!(
            [bound(0.849, 0.849), bound(0.851, 0.849)],
            [RateBound::Waiting, RateBound::Storage]
        );
        assert_eq!(bound(0.851, 0.851), RateBound::Processors);
    }

    #[test]
    fn what_is_expected_is_what_the_prediction_is_off_by_15_percent_of() {
        let found = point_of(0.9, 0.5);
        let (least, most) = found.expected.unwrap();
        assert!((least * 1.15 / 1000.0 - 1.0).abs() < 1e-9, "{least}");
        assert!((most * 0.85 / 1000.0 - 1.0).abs() < 1e-9, "{most}");
        assert_eq!((found.clients, found.rate_per_second), (7, 1000.0));
        assert_eq!((found.p50_ns, found.p99_ns), (Some(480_000), Some(700_000)));
        assert_eq!(found.rate_range, Some((90.0, 110.0)));
        // 8192 bytes of each commit.
        assert!((found.bytes_per_commit - 8192.0).abs() < 1e-9, "{found:?}");
        // 7 ms of seven clients, of which each waits for two flushes of 900 µs: half of them are saved.
        let twice = found.twice_as_fast_at_most.unwrap();
        assert!((twice - 7.0 / (7e-3 - 900e-6)).abs() < 1e-6, "{twice}");
        let none = PredictionPoint { processor_share: None, ..found };
        assert_eq!(none.processor_share, None);
        assert_eq!(Nanos::from_micros(480).get(), none.p50_ns.unwrap());
    }

    /// Clients whose transactions come at a rate, of which this share was started.
    fn offered(started_share: f64, processors: u32) -> PredictionPoint {
        let mut made = sample();
        made.plan.steps[0].load.workload.group_commit = Some(GroupCommit::of(7));
        let it = &mut made.workloads[0];
        it.open_loop = Some(crate::OpenLoop {
            arrivals: durio_workload::Arrivals::Constant { rate_per_second: 1500.0 },
            offered_per_second: 1500.0,
            achieved_per_second: 1400.0,
            due: 3000,
            never_started: 0,
            started_share,
            lag_ns_mean: 1.0,
            lag_ns_max: 2,
            behind_ns_max: 3,
        });
        let commit = &mut it.operations[0];
        assert_eq!(commit.operation, OperationName::Commit);
        let mut response = commit.service.clone();
        (response.p50_ns, response.p99_ns) = (Some(2_000_000), Some(9_000_000));
        commit.response = Some(response);
        point(&Measurement { plan: &made.plan, found: it }, processors).unwrap()
    }

    #[test]
    fn a_rate_that_was_offered_and_reached_is_no_prediction() {
        let reached = offered(0.995, 4);
        assert_eq!((reached.bound, reached.expected), (RateBound::Offered, None));
        assert_eq!((reached.offered_per_second, reached.rate_per_second), (Some(1500.0), 1000.0));
        assert_eq!(reached.twice_as_fast_at_most, None);
        let behind = offered(0.98, 4);
        assert!(behind.bound != RateBound::Offered && behind.expected.is_some(), "{behind:?}");
        assert_eq!(behind.twice_as_fast_at_most, None, "they come at a rate all the same");
    }

    #[test]
    fn clients_wait_from_when_a_transaction_was_due() {
        let found = offered(1.0, 0);
        assert_eq!((found.p50_ns, found.p99_ns), (Some(2_000_000), Some(9_000_000)));
        assert_eq!(found.processor_share, None, "their number is not known");
    }
}
