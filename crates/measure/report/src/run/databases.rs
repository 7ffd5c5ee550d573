//! A check's answer for databases: predicted commits by clients, and in short the other results.
//!
//! With several locations, a screen has the results side by side instead, and this is a detail.

use std::collections::BTreeSet;

use durio_analyse::prediction::{PredictionFindings, PredictionPoint};
use durio_analyse::{Findings, Verdict, VerdictWord, WorkloadFindings};
use durio_base::Bytes;
use durio_judge::summary::database_label;

use super::profile::{by_clients, roughly};
use super::{figures, verdicts};
use crate::document::{Cell, DetailLevel, Section, Table, Tone};
use crate::figures::{bandwidth, counted, grouped, latency, location_name, rate, rate_bare};
use crate::typical::range;

/// Workloads of which a screen has the results beside those of databases.
const SHOWN: [&str; 3] = ["commit", "lookup", "scan"];

/// Missed limits that a screen names; the others are counted.
const MISSED_MAX: usize = 2;

/// From this block size on the rate of a workload is told in bytes.
const LARGE_BLOCK: Bytes = Bytes::from_kib(128);

const NOT_PREDICTED: &str = "not predicted for this number of clients: SQLite has one writer at a time, and \
     --quick one number for several databases; durio predict NAME DIR";

/// True if a screen begins with databases.
pub(super) fn come_first(findings: &Findings) -> bool {
    !findings.predicted.is_empty() && findings.stack.len() <= 1
}

/// True if a screen has published limits in a line or two, below its results.
pub(super) fn has_limits_in_a_line(findings: &Findings) -> bool {
    come_first(findings) || findings.campaign.is_none() && findings.stack.len() > 1
}

/// A row for each database, and in detail a table for each.
pub(super) fn section(findings: &Findings) -> Section {
    let heading = "Databases: predicted commits/s (expected range), and what bounds them";
    let level = if come_first(findings) { DetailLevel::Summary } else { DetailLevel::Detail };
    let mut section = Section { level, ..Section::new(heading) };
    let Some(first) = findings.predicted.first() else { return section };
    let several = findings.predicted.iter().any(|found| found.location != first.location);
    let label = |found: &PredictionFindings| {
        let name = database_label(findings, &found.database);
        match found.location.as_ref().filter(|_| several) {
            Some(location) => format!("{name} at {}", location_name(location)),
            None => name,
        }
    };
    section.table(in_short(&findings.predicted, label));
    let note = "Expected: the real rates from which the prediction is 15 % off, as 14 of 17 were or nearer on a \
                machine not used for fitting, over longer times than a check has: durio predict NAME DIR \
                measures 5 s for each number of clients. disk, CPU, waits: durio explain waits. Each commit is \
                the smallest durable transaction, with clients on this machine";
    section.say_at(DetailLevel::Detail, Tone::Note, note);
    if findings.predicted.iter().any(|found| matches!(&*found.database, "mysql" | "mariadb")) {
        let note = "MySQL is predicted with the model of MariaDB";
        section.say_at(DetailLevel::Detail, Tone::Note, note);
    }
    for found in &findings.predicted {
        let mut group = Section::detail(label(found));
        group.table(by_clients(findings, found));
        section.group(group);
    }
    section
}

/// A row for each database, with a column for each number of clients.
fn in_short(
    predicted: &[PredictionFindings],
    label: impl Fn(&PredictionFindings) -> String,
) -> Table {
    let points = predicted.iter().flat_map(|found| &found.points);
    let clients: BTreeSet<u32> = points.map(|point| point.clients).collect();
    let titles: Vec<String> =
        clients.iter().map(|count| counted((*count).into(), "client")).collect();
    let words: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut table = Table::new(["database"].into_iter().chain(words.iter().copied()));
    for found in predicted {
        let cell = |count: &u32| {
            let point = found.points.iter().find(|point| point.clients == *count);
            point.map_or(Cell::Absent(NOT_PREDICTED), rate_cell)
        };
        table.row(std::iter::once(Cell::text(label(found))).chain(clients.iter().map(cell)));
    }
    table.with_words(&words)
}

/// `12 k (10 to 14 k) CPU`.
fn rate_cell(point: &PredictionPoint) -> Cell {
    let about = |rate: f64| rate_bare(roughly(rate));
    let expected = point.expected.map_or_else(String::new, |(least, most)| {
        format!(" ({})", range(&about(least), &about(most)))
    });
    Cell::text(format!("{}{expected} {}", about(point.rate_per_second), point.bound.word()))
}

/// The results of workloads without databases, in a line.
pub(super) fn storage(findings: &Findings) -> Section {
    let is_shown = |found: &&WorkloadFindings| SHOWN.contains(&found.name.as_str());
    let shown: Vec<String> = findings.workloads.iter().filter(is_shown).map(workload).collect();
    let mut section = Section::default();
    section.fact("storage", shown.join("; "));
    section
}

/// Adds published limits, in a line for all locations of which the same is to be said.
pub(super) fn add_limits(findings: &Findings, section: &mut Section) {
    let verdicts = findings.verdicts.iter().map(|verdict| (verdict.location.as_str(), verdict));
    let lines = grouped(verdicts).into_iter().filter_map(|(location, verdicts)| {
        Some((limits(&verdicts)?, figures::place_label(findings, location)))
    });
    for ((tone, text), places) in grouped(lines) {
        let places: Vec<String> = places.into_iter().flatten().collect();
        section.toned(tone, format!("limits {}", places.join(", ")).trim_end(), text);
    }
}

/// `lookup 46.4 k/s, p99 1.35 ms`; of large blocks `scan 956 MiB/s`.
fn workload(found: &WorkloadFindings) -> String {
    let name = &found.name;
    if found.operations.is_empty() {
        return format!("{name} not measured");
    }
    if found.definition.block_size >= LARGE_BLOCK {
        return format!("{name} {}", bandwidth(found.bandwidth));
    }
    let p99 = found.operation(found.headline).and_then(|operation| operation.service.p99_ns);
    let p99 = p99.map_or_else(String::new, |nanos| format!(", p99 {}", latency(nanos)));
    format!("{name} {}{p99}", rate(figures::headline_rate(found)))
}

/// Published limits: the missed ones with what was measured, and how many are met.
fn limits(verdicts: &[&Verdict]) -> Option<(Tone, String)> {
    let of = |word: VerdictWord| -> Vec<&Verdict> {
        verdicts.iter().filter(|verdict| verdict.verdict == word).copied().collect()
    };
    let (missed, met) = (of(VerdictWord::Unfit), of(VerdictWord::Fit));
    if missed.is_empty() {
        return (!met.is_empty()).then(|| (Tone::Good, format!("all {} met", met.len())));
    }
    let named = &missed[..missed.len().min(MISSED_MAX)];
    let is_practice = named.iter().any(|verdict| verdicts::is_practice(verdict));
    let mark = if is_practice { " (* rule of thumb)" } else { "" };
    let mut items: Vec<String> = named.iter().map(|verdict| verdicts::missed(verdict)).collect();
    if missed.len() > named.len() {
        items.push(format!("{} more", missed.len() - named.len()));
    }
    Some((Tone::Bad, format!("{} met; missed: {}{mark}", met.len(), items.join(", "))))
}
