//! A run of a profile: the idle log next to the log under load, and the fitted values.
//!
//! Verdicts by a documented threshold are in `verdicts`.

use durio_analyse::profile::{LoadComparison, ProfileFindings, StateLatency};
use durio_analyse::{Findings, VerdictWord};
use durio_record::OperationName;

use crate::document::{Cell, Row, Section, TOO_FEW, Table, Tone};
use crate::figures::rate;

pub(super) fn section(findings: &Findings, profile: &ProfileFindings) -> Section {
    let mut section = Section::new(format!(
        "{}, {}: idle and under the background's load",
        profile.name, profile.foreground
    ));
    let mut table = Table::new(["operation", "figure", "idle", "under load", "ratio"]);
    let committers = profile.committers;
    table.rows = profile.comparisons.iter().flat_map(|it| rows(it, committers)).collect();
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
    for it in findings.verdicts.iter().filter(|it| it.verdict == open) {
        let text = format!("{}: {}; {}", it.database, it.criterion, it.measured);
        section.fact("no limit", text);
    }
    profile.notes.iter().for_each(|note| section.fact("note", note));
    section
}

type StateFigure = (&'static str, fn(&StateLatency) -> Cell, fn(&LoadComparison) -> Option<f64>);

const FIGURES: [StateFigure; 4] = [
    ("rate", |it| Cell::text(rate(it.rate_per_second)), |it| it.ratio.rate),
    ("p50", |it| Cell::percentile(it.p50_ns), |it| it.ratio.p50),
    ("p99", |it| Cell::percentile(it.p99_ns), |it| it.ratio.p99),
    ("p99.9", |it| Cell::percentile(it.p99_9_ns), |it| it.ratio.p99_9),
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
