//! Predicted commits of databases, as the results of a summary.

use durio_analyse::Findings;
use durio_analyse::prediction::PredictionPoint;
use durio_base::Rate;
use durio_base::stats::least_squares::float;
use durio_plan::Purpose;
use durio_record::OperationName;
use durio_spec::profile::profile;

use super::commits::commits;
use super::{SummaryFigure, SummaryParts, bare_rate, joined, listed, p99, slow, with};

/// The number of clients whose commits the sentence names, or the nearest that was measured: more than
/// one, so that syncs are shared, and few enough for small machines.
const CLIENTS: u32 = 8;

/// Commits of a database, predicted for one number of clients.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PredictedCommits {
    pub(super) database: String,
    clients: u32,
    rate: f64,
    p99_ns: Option<u64>,
}

/// The databases whose commits a run predicted, each with the number of clients to name.
pub(super) fn predicted(findings: &Findings) -> Vec<PredictedCommits> {
    let all: Vec<PredictedCommits> = match &findings.prediction {
        Some(prediction) => {
            let points = prediction.points.iter();
            let point = |point: &PredictionPoint| PredictedCommits {
                database: prediction.database.clone(),
                clients: point.clients,
                rate: point.rate_per_second,
                p99_ns: point.p99_ns,
            };
            // Transactions that came at a given rate say nothing of the most that is possible.
            points.filter(|point| point.offered_per_second.is_none()).map(point).collect()
        }
        None => of_check(findings),
    };
    let mut nearest: Vec<PredictedCommits> = Vec::new();
    for found in all {
        let distance = |commits: &PredictedCommits| commits.clients.abs_diff(CLIENTS);
        match nearest.iter().position(|known| known.database == found.database) {
            Some(at) if distance(&found) < distance(&nearest[at]) => nearest[at] = found,
            Some(_) => {}
            None => nearest.push(found),
        }
    }
    nearest
}

/// The steps of a check of one location that predict a database, which are named
/// `DATABASE-CLIENTS`. Several locations are compared instead.
fn of_check(findings: &Findings) -> Vec<PredictedCommits> {
    let is_one = findings.plan.purpose == Purpose::Check && findings.stack.len() <= 1;
    let workloads = findings.workloads.iter().filter(|_| is_one);
    let found = workloads.filter_map(|workload| {
        let policy = workload.definition.group_commit.filter(|log| log.software.is_some())?;
        let suffix = format!("-{}", policy.committers);
        let commit = workload.operation(OperationName::Commit)?;
        Some(PredictedCommits {
            database: workload.name.strip_suffix(suffix.as_str())?.to_owned(),
            clients: policy.committers,
            rate: commit.rate,
            p99_ns: commit.response.as_ref().unwrap_or(&commit.service).p99_ns,
        })
    });
    found.collect()
}

/// The first database's commits, then those of one writer; all databases in the headline.
pub(super) fn parts(predicted: &[PredictedCommits], findings: &Findings) -> SummaryParts {
    let mut parts = match &findings.headline {
        Some(headline) => commits(findings, headline),
        None => SummaryParts::default(),
    };
    let one_writer = std::mem::take(&mut parts.results);
    let mut good = Vec::new();
    let mut figures = Vec::new();
    for found in predicted {
        let name = product(&found.database);
        let clients = with(found.clients, "client");
        figures.push(SummaryFigure {
            label: format!("{name} commits {clients}"),
            value: found.rate,
            unit: "per second",
        });
        figures.extend(found.p99_ns.map(|nanos| SummaryFigure {
            label: format!("p99 of a {name} commit {clients}"),
            value: float(nanos),
            unit: "ns",
        }));
        let whose = format!("commits of {name} {clients} take");
        match found.p99_ns.and_then(|nanos| slow(nanos, &whose)) {
            Some(reason) => parts.reasons.push(reason),
            None => good.push(name),
        }
    }
    figures.append(&mut parts.headline);
    parts.headline = figures;
    let first = predicted.first().map(|found| clause(found, predicted.len() > 1));
    parts.results = joined(first.into_iter().chain([one_writer]).collect());
    parts.subject = listed(&good);
    parts
}

/// `about 12 k commits/s with 8 clients, p99 4 ms`.
fn clause(found: &PredictedCommits, is_named: bool) -> String {
    let name = if is_named { format!("{} ", product(&found.database)) } else { String::new() };
    let rate = bare_rate(Rate::new(found.rate).to_two_digits().per_second());
    let clients = with(found.clients, "client");
    format!("{name}about {rate} commits/s {clients}, {}", p99(found.p99_ns))
}

/// A database's name as its makers write it, without version and setup.
pub(super) fn product(database: &str) -> String {
    let title = profile(database).map(|profile| profile.title).unwrap_or_default();
    let is_name = |word: &&str| {
        !word.starts_with(|c: char| c.is_ascii_digit()) && !matches!(*word, "with" | "in")
    };
    let words: Vec<&str> = title
        .split(',')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .take_while(is_name)
        .collect();
    if words.is_empty() { database.to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_called_as_their_makers_do_and_others_by_their_names() {
        let names = [
            ("postgresql", "PostgreSQL"),
            ("sqlite-wal", "SQLite"),
            ("mariadb", "MariaDB"),
            ("rocksdb", "RocksDB"),
            ("etcd", "etcd"),
            ("kafka", "Apache Kafka"),
            ("mine", "mine"),
        ];
        for (name, shown) in names {
            assert_eq!(product(name), shown);
        }
    }
}
