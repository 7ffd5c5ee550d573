//! A run of a profile: the idle log next to the log under load, and predicted commits by clients.
//!
//! Adds no number to the findings. Verdicts by a documented threshold are in `verdicts`.

use durio_analyse::prediction::{PredictionFindings, PredictionPoint};
use durio_analyse::profile::{LoadComparison, ProfileFindings, StateLatency};
use durio_analyse::{Findings, VerdictWord};
use durio_base::Rate;
use durio_record::OperationName;

use super::figures;
use crate::document::{
    Cell, Column, DetailLevel, Row, Section, TOO_FEW, Table, Tone, both, detail, record, shown,
    words,
};
use crate::figures::{rate, rate_bare};

pub(super) fn section(findings: &Findings, profile: &ProfileFindings) -> Section {
    let mut section = Section::new(format!(
        "{}, {}: idle and under the background's load",
        profile.name, profile.foreground
    ));
    let mut table = Table::new(["operation", "figure", "idle", "under load", "ratio"]);
    let committers = profile.committers;
    table.rows =
        profile.comparisons.iter().flat_map(|comparison| rows(comparison, committers)).collect();
    section.table(table);
    if let Some(committers) = committers {
        let text = format!(
            "{committers} on each log, the profile's own number: rate and latency of commits are those of so \
             many at once"
        );
        section.fact("committers", text);
    }
    if !profile.durable {
        let text = format!(
            "no commit waits here: {} writes without a sync, and its results say nothing about \
             durability",
            profile.foreground
        );
        section.toned(Tone::Warning, "warning", text);
    }
    let open = VerdictWord::NoDocumentedThreshold;
    for it in findings.verdicts.iter().filter(|verdict| verdict.verdict == open) {
        let text = format!("{}: {}; {}", it.database, it.criterion, it.measured);
        section.fact("no limit", text);
    }
    profile.notes.iter().for_each(|note| section.fact("note", note));
    section
}

type StateFigure = (&'static str, fn(&StateLatency) -> Cell, fn(&LoadComparison) -> Option<f64>);

const FIGURES: [StateFigure; 4] = [
    ("rate", |state| Cell::text(rate(state.rate_per_second)), |comparison| comparison.ratio.rate),
    ("p50", |state| Cell::percentile(state.p50_ns), |comparison| comparison.ratio.p50),
    ("p99", |state| Cell::percentile(state.p99_ns), |comparison| comparison.ratio.p99),
    ("p99.9", |state| Cell::percentile(state.p99_9_ns), |comparison| comparison.ratio.p99_9),
];

fn rows(it: &LoadComparison, committers: Option<u32>) -> Vec<Row> {
    let operation = match committers {
        Some(many) if it.operation == OperationName::Commit => format!("commit of {many}"),
        _ => it.operation.name().to_owned(),
    };
    let row = |(at, (figure, cell, ratio)): (usize, &StateFigure)| {
        let state =
            |state: &Option<StateLatency>| state.as_ref().map_or(Cell::Absent(TOO_FEW), cell);
        // The rows of one operation are read as one, with its name at the first.
        let operation = if at == 0 { operation.as_str() } else { "" };
        let ratio = ratio(it).map_or(Cell::Absent(TOO_FEW), Cell::Number);
        let cells = vec![
            Cell::text(operation),
            Cell::text(*figure),
            state(&it.idle),
            state(&it.loaded),
            ratio,
        ];
        Row { is_part: at > 0, cells, ..Row::default() }
    };
    FIGURES.iter().enumerate().map(row).collect()
}

pub(super) fn predicted(findings: &Findings, prediction: &PredictionFindings) -> Section {
    let mut section =
        Section::new(format!("{}: predicted commits by clients", prediction.database));
    section.table(by_clients(findings, prediction));
    section.note(
        "expected: 14 of 17 predictions were within 15 % of the real rate, on a fast disk of a machine not used \
         for fitting; per sync: commits that share one; disk ×2: upper bound with storage twice as fast. The smallest \
         durable transaction, with clients on this machine; no reads, checkpoints or replication. Accuracy: \
         durio explain expected",
    );
    let text = "the database's CPU time was fitted on other machines, unless the profile was calibrated \
                here: durio profile calibrate";
    section.toned(Tone::Warning, "doubt", text);
    prediction.notes.iter().for_each(|note| section.fact("note", note));
    section.facts(fewer_commits(&prediction.points).map(|text| ("note", text)));
    section
}

/// Says that the most clients commit less than fewer do: by a twentieth or more, as in comparisons.
fn fewer_commits(points: &[PredictionPoint]) -> Option<String> {
    let closed = || points.iter().filter(|point| point.offered_per_second.is_none());
    let best = closed().max_by(|a, b| a.rate_per_second.total_cmp(&b.rate_per_second))?;
    let most = closed().max_by_key(|point| point.clients)?;
    let is_less = most.rate_per_second < best.rate_per_second * 0.95;
    (is_less && most.clients > best.clients).then(|| {
        format!(
            "{} clients commit less than {}: {} against {}; a longer --duration shows whether that lasts",
            most.clients,
            best.clients,
            rate(most.rate_per_second),
            rate(best.rate_per_second)
        )
    })
}

/// A row for each number of clients.
pub(super) fn by_clients(findings: &Findings, found: &PredictionFindings) -> Table {
    // Transactions that come at a rate: which.
    let has_rates = found.points.iter().any(|point| point.offered_per_second.is_some());
    let hidden: &[&str] = if has_rates { &[] } else { &["offered"] };
    Table::shown(&columns(), lines(findings, found)).with_level(DetailLevel::Detail, hidden)
}

/// Adds a record for each database, location and number of clients, of `predict` and of a check.
/// Columns of the same id are one; those of predictions alone follow the others.
pub(super) fn add_records(findings: &Findings, records: &mut Table) {
    let all = findings.prediction.iter().chain(&findings.predicted);
    let more = Table::records(&columns(), all.flat_map(|found| lines(findings, found)));
    // Runs without predictions keep their columns.
    if more.rows.is_empty() {
        return;
    }
    let mut places = Vec::new();
    for column in more.columns {
        let known = records.columns.iter().position(|known| known.title == column.title);
        places.push(known.unwrap_or(records.columns.len()));
        if known.is_none() {
            records.columns.push(column);
        }
    }
    let width = records.columns.len();
    records.rows.iter_mut().for_each(|row| row.cells.resize(width, Cell::Empty));
    for row in more.rows {
        let mut cells = vec![Cell::Empty; width];
        places.iter().zip(row.cells).for_each(|(place, cell)| cells[*place] = cell);
        records.row(cells);
    }
}

/// The commits of a database with one number of clients.
struct PredictionLine<'f> {
    run: &'f str,
    location: &'f str,
    database: &'f str,
    point: &'f PredictionPoint,
}

fn lines<'f>(
    findings: &'f Findings,
    found: &'f PredictionFindings,
) -> impl Iterator<Item = PredictionLine<'f>> {
    // `predict` has one location, and so do its steps.
    let only = figures::locations(findings).first().copied().unwrap_or_default();
    let location = found.location.as_deref().unwrap_or(only);
    let (run, database) = (findings.run.run.as_str(), found.database.as_str());
    found.points.iter().map(move |point| PredictionLine { run, location, database, point })
}

/// Every column of predictions, for the table of a database and for records.
fn columns<'f>() -> Vec<Column<PredictionLine<'f>>> {
    vec![
        record("run", |line| Cell::text(line.run)),
        record("location", |line| Cell::text(line.location)),
        record("database", |line| Cell::text(line.database)),
        both("clients", "clients", |line| Cell::text(line.point.clients.to_string())),
        shown("offered", |line| match line.point.offered_per_second {
            Some(rate) => Cell::text(rate_bare(rate)),
            None => Cell::text("max"),
        }),
        record("offered_per_s", |line| Cell::of(line.point.offered_per_second, Cell::Rate)),
        both("predicted_commits_per_s", "commits/s", |line| Cell::Rate(line.point.rate_per_second)),
        words(shown("expected", |line| {
            let (least, most) = line.point.expected.unzip();
            rate_range(least.map(roughly).zip(most.map(roughly)))
        })),
        record("expected_commits_low_per_s", |line| {
            Cell::of(line.point.expected, |(least, _)| Cell::Rate(least))
        }),
        record("expected_commits_high_per_s", |line| {
            Cell::of(line.point.expected, |(_, most)| Cell::Rate(most))
        }),
        detail(words(shown("range", |line| rate_range(line.point.rate_range)))),
        both("predicted_p50_ns", "p50", |line| Cell::percentile(line.point.p50_ns)),
        both("predicted_p99_ns", "p99", |line| Cell::percentile(line.point.p99_ns)),
        both("commits_per_sync", "per sync", |line| {
            Cell::or_absent(line.point.commits_per_sync, Cell::Number)
        }),
        detail(shown("log busy", |line| whole_percent(line.point.log_share))),
        record("log_busy_share", |line| Cell::Share(line.point.log_share)),
        shown("CPU", |line| Cell::or_absent(line.point.processor_share, whole_percent)),
        record("processors_busy_share", |line| Cell::of(line.point.processor_share, Cell::Share)),
        words(both("bound_by", "bound by", |line| Cell::text(line.point.bound.word()))),
        shown("disk ×2", |line| {
            Cell::or_absent(line.point.twice_as_fast_at_most, |rate| {
                Cell::text(format!("≤ {}", rate_bare(rate)))
            })
        }),
        record("disk_twice_as_fast_commits_max_per_s", |line| {
            Cell::of(line.point.twice_as_fast_at_most, Cell::Rate)
        }),
    ]
}

fn whole_percent(share: f64) -> Cell {
    Cell::text(format!("{:.0} %", share * 100.0))
}

fn rate_range(range: Option<(f64, f64)>) -> Cell {
    Cell::or_absent(range, |(least, most)| {
        Cell::text(format!("{} to {}", rate_bare(least), rate_bare(most)))
    })
}

/// A predicted rate or an end of its range, which is not exact.
pub(super) fn roughly(rate: f64) -> f64 {
    Rate::new(rate).to_two_digits().per_second()
}
