//! A run of a profile: the log idle beside the log under load, and what was fitted.
//!
//! In: findings. Out: a section. Not here: verdicts by a documented threshold.

use durio_analyse::profile::{LoadComparison, ProfileFindings, StateLatency};
use durio_analyse::{Findings, VerdictWord};

use crate::document::{Cell, Row, Section, TOO_FEW, Table, Tone};
use crate::figures::rate;

pub(super) fn section(findings: &Findings, profile: &ProfileFindings) -> Section {
    let mut section = Section::new(format!(
        "{}, {}: idle and under the background's load",
        profile.name, profile.foreground
    ));
    let mut table = Table::new(["operation", "figure", "idle", "under load", "ratio"]);
    table.rows = profile.comparisons.iter().flat_map(rows).collect();
    section.table(table);
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

type Figure = (&'static str, fn(&StateLatency) -> Cell, fn(&LoadComparison) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    ("rate", |it| Cell::text(rate(it.rate_per_second)), |it| it.ratio.rate),
    ("p50", |it| Cell::percentile(it.p50_ns), |it| it.ratio.p50),
    ("p99", |it| Cell::percentile(it.p99_ns), |it| it.ratio.p99),
    ("p99.9", |it| Cell::percentile(it.p99_9_ns), |it| it.ratio.p99_9),
];

fn rows(it: &LoadComparison) -> Vec<Row> {
    let row = |(at, (figure, cell, ratio)): (usize, &Figure)| {
        let state =
            |state: &Option<StateLatency>| state.as_ref().map_or(Cell::Absent(TOO_FEW), cell);
        // The rows of one operation are read as one, with its name at the first.
        let operation = if at == 0 { it.operation.name() } else { "" };
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
