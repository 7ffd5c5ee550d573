//! Predicted commits of databases, as the results of a summary.

use durio_analyse::prediction::PredictionFindings;
use durio_analyse::{Findings, each_once};
use durio_base::stats::least_squares::float;
use durio_base::{Nanos, Rate};
use durio_plan::Purpose;
use durio_spec::profile::profile;

use super::commits::commits;
use super::{
    COMMIT_P99_MAX, SummaryFigure, SummaryParts, SummaryReason, SummaryRule, bare_rate, listed,
    p99, slow, with,
};

/// The number of clients whose commits the sentence names, or the nearest that was measured: more than
/// one, so that syncs are shared, and few enough for small machines.
const CLIENTS: u32 = 8;

/// Commits of a database, predicted for one number of clients.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PredictedCommits {
    name: String,
    clients: u32,
    rate: f64,
    p99_ns: Option<u64>,
}

/// The databases whose commits a run predicted, each with the number of clients to name.
pub(super) fn predicted(findings: &Findings) -> Vec<PredictedCommits> {
    // Several locations are compared instead.
    let checked = findings.predicted.iter().filter(|_| findings.stack.len() <= 1);
    let nearest = |prediction: &PredictionFindings| {
        // Transactions that came at a given rate say nothing of the most that is possible.
        let points = prediction.points.iter().filter(|point| point.offered_per_second.is_none());
        let point = points.min_by_key(|point| point.clients.abs_diff(CLIENTS))?;
        let model = if prediction.database == MYSQL { " (by MariaDB's model)" } else { "" };
        Some(PredictedCommits {
            name: format!("{}{model}", database_label(findings, &prediction.database)),
            clients: point.clients,
            rate: point.rate_per_second,
            p99_ns: point.p99_ns,
        })
    };
    findings.prediction.iter().chain(checked).filter_map(nearest).collect()
}

/// The first database's commits; all databases in the headline, before the commits of one writer.
pub(super) fn parts(predicted: &[PredictedCommits], findings: &Findings) -> SummaryParts {
    let mut parts = match &findings.headline {
        Some(headline) => commits(findings, headline),
        None => SummaryParts::default(),
    };
    let mut figures = Vec::new();
    for found in predicted {
        let (name, clients) = (&found.name, with(found.clients, "client"));
        figures.push(SummaryFigure {
            label: format!("{name} commits {clients}"),
            value: found.rate,
            unit: "per second",
        });
        figures.extend(found.p99_ns.map(|nanos| SummaryFigure {
            label: format!("p99 {name} commit latency {clients}"),
            value: float(nanos),
            unit: "ns",
        }));
    }
    figures.append(&mut parts.headline);
    parts.headline = figures;
    let is_slow = |found: &&PredictedCommits| found.p99_ns.map(Nanos::new) >= Some(COMMIT_P99_MAX);
    let (slow, good): (Vec<&PredictedCommits>, Vec<_>) = predicted.iter().partition(is_slow);
    parts.reasons.extend(slow_commits(&slow));
    if let Some(first) = predicted.first() {
        match predicted.len() {
            1 => (parts.results, parts.results_of) = (clause(first), first.name.clone()),
            _ => parts.results = format!("{} {}", first.name, clause(first)),
        }
    }
    parts.subject = listed(&good.iter().map(|found| found.name.clone()).collect::<Vec<_>>());
    parts
}

fn slow_commits(found: &[&PredictedCommits]) -> Option<SummaryReason> {
    if let [one] = found {
        let whose = format!("commits of {} {} take", one.name, with(one.clients, "client"));
        return slow(one.p99_ns?, &whose);
    }
    let item =
        |found: &&PredictedCommits| Some(format!("{} ({})", found.name, Nanos::new(found.p99_ns?)));
    let items: Vec<String> = found.iter().filter_map(item).collect();
    let text =
        format!("commits are slow (p99 of {COMMIT_P99_MAX} or more) with {}", listed(&items));
    (!items.is_empty()).then(|| SummaryReason::new(SummaryRule::SlowCommits, text))
}

/// `about 12 k commits/s with 8 clients, p99 4 ms`.
fn clause(found: &PredictedCommits) -> String {
    let rate = bare_rate(Rate::new(found.rate).to_two_digits().per_second());
    let clients = with(found.clients, "client");
    format!("about {rate} commits/s {clients}, {}", p99(found.p99_ns))
}

const MYSQL: &str = "mysql";

/// The name of a predicted database: MariaDB's model is for MySQL too, unless one of them was named.
pub fn database_label(findings: &Findings, database: &str) -> String {
    let is_named = findings.verdicts.iter().any(|verdict| verdict.asked);
    match database {
        "mariadb" if !is_named && findings.plan.purpose == Purpose::Check => {
            "MySQL/MariaDB".to_owned()
        }
        _ => product(database),
    }
}

/// Databases that the user asked about and whose commits were not predicted, and whether durio
/// could predict them with more room: the others' software is unknown.
pub fn unpredicted(findings: &Findings) -> Vec<(String, bool)> {
    let asked = findings.verdicts.iter().filter(|verdict| verdict.asked);
    let asked = each_once(asked.map(|verdict| verdict.database.as_str()));
    let is_predicted = |name: &str| findings.predicted.iter().any(|found| found.database == name);
    let missing = asked.into_iter().filter(|name| !is_predicted(name));
    // Some limits go by a name that is not a profile's.
    let known = missing.filter_map(|name| Some((name, profile(name).ok()?)));
    known
        .map(|(name, profile)| (name.to_owned(), name == MYSQL || profile.software.is_some()))
        .collect()
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
