//! A run of a profile: the idle log next to the log under load, and predicted commits by clients.
//!
//! Adds no number to the findings. Verdicts by a documented threshold are in `verdicts`.

use durio_analyse::prediction::{PredictionFindings, PredictionPoint};
use durio_analyse::profile::{LoadComparison, ProfileFindings, StateLatency};
use durio_analyse::{Findings, VerdictWord};
use durio_base::Rate;
use durio_record::OperationName;

use crate::document::{
    Cell, Column, DetailLevel, Row, Section, TOO_FEW, Table, Tone, detail, shown, words,
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
            "no commit waits here: {} writes without a sync, and its figures say nothing about \
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

pub(super) fn predicted(prediction: &PredictionFindings) -> Section {
    let mut section =
        Section::new(format!("{}: predicted commits by clients", prediction.database));
    section.table(by_clients(&prediction.points));
    section.note(
        "expected: within 15 % of the real rate were 14 of 17 predictions, on a fast disk of a machine that \
         nothing was fitted to; per sync: commits that share one; disk ×2: at most so many on storage twice as fast. The smallest \
         durable transaction, with clients on this machine; no reads, checkpoints or replication. How near to \
         real databases this came: docs/method/predict.md",
    );
    let text = "unless the profile was calibrated here (durio profile calibrate), what the database's software takes \
                was fitted on other machines";
    section.toned(Tone::Warning, "doubt", text);
    prediction.notes.iter().for_each(|note| section.fact("note", note));
    section
}

/// A row for each number of clients.
pub(super) fn by_clients(points: &[PredictionPoint]) -> Table {
    // Transactions that come at a rate: which.
    let has_rates = points.iter().any(|point| point.offered_per_second.is_some());
    let hidden: &[&str] = if has_rates { &[] } else { &["offered"] };
    Table::shown(PREDICTED, points).with_level(DetailLevel::Detail, hidden)
}

const PREDICTED: &[Column<PredictionPoint>] = &[
    shown("clients", |point| Cell::text(point.clients.to_string())),
    shown("offered", |point| match point.offered_per_second {
        Some(rate) => Cell::text(rate_bare(rate)),
        None => Cell::text("max"),
    }),
    shown("commits/s", |point| Cell::Rate(point.rate_per_second)),
    words(shown("expected", |point| {
        let (least, most) = point.expected.unzip();
        rate_range(least.map(roughly).zip(most.map(roughly)))
    })),
    detail(words(shown("range", |point| rate_range(point.rate_range)))),
    shown("p50", |point| Cell::percentile(point.p50_ns)),
    shown("p99", |point| Cell::percentile(point.p99_ns)),
    shown("per sync", |point| Cell::or_absent(point.commits_per_sync, Cell::Number)),
    detail(shown("log busy", |point| whole_percent(point.log_share))),
    shown("CPU", |point| Cell::or_absent(point.processor_share, whole_percent)),
    words(shown("bound by", |point| Cell::text(point.bound.word()))),
    shown("disk ×2", |point| {
        Cell::or_absent(point.twice_as_fast_at_most, |rate| {
            Cell::text(format!("≤ {}", rate_bare(rate)))
        })
    }),
];

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
