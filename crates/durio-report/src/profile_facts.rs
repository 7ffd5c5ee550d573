//! A run of a profile in words and rows: the same in the terminal and in the page.
//!
//! In: findings. Out: rows and sentences. Not here: widths, tags, colours.

use durio_analyse::profile::{LoadComparison, ProfileFindings, StateLatency};
use durio_analyse::{Findings, Verdict, VerdictWord};

use crate::figures::{ABSENT, decimal, latency_or_absent, rate};

/// The headings of [`StateRow::cells`], after the operation and the figure.
pub(crate) const STATES: [&str; 3] = ["idle", "under load", "ratio"];

/// One figure of one operation in both states.
#[derive(Debug)]
pub(crate) struct StateRow {
    /// The operation; empty where it is the one above.
    pub(crate) operation: &'static str,
    /// Rate, p50, p99, p99.9.
    pub(crate) figure: &'static str,
    /// Under [`STATES`].
    pub(crate) cells: [String; 3],
}

/// The rows of all operations.
pub(crate) fn state_rows(profile: &ProfileFindings) -> Vec<StateRow> {
    profile.comparisons.iter().flat_map(of_operation).collect()
}

type Figure = (&'static str, fn(&StateLatency) -> String, fn(&LoadComparison) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    ("rate", |it| rate(it.rate_per_second), |it| it.ratio.rate),
    ("p50", |it| latency_or_absent(it.p50_ns), |it| it.ratio.p50),
    ("p99", |it| latency_or_absent(it.p99_ns), |it| it.ratio.p99),
    ("p99.9", |it| latency_or_absent(it.p99_9_ns), |it| it.ratio.p99_9),
];

fn of_operation(it: &LoadComparison) -> Vec<StateRow> {
    let row = |(at, (figure, text, ratio)): (usize, &Figure)| {
        let of = |state: &Option<StateLatency>| state.as_ref().map_or(ABSENT.to_owned(), text);
        StateRow {
            operation: if at == 0 { it.operation.name() } else { "" },
            figure,
            cells: [of(&it.idle), of(&it.loaded), ratio(it).map_or(ABSENT.to_owned(), decimal)],
        }
    };
    FIGURES.iter().enumerate().map(row).collect()
}

/// True if any figure is absent.
pub(crate) fn has_absent(rows: &[StateRow]) -> bool {
    rows.iter().any(|row| row.cells.iter().any(|cell| cell == ABSENT))
}

/// What the rows are about.
pub(crate) fn heading(profile: &ProfileFindings) -> String {
    format!("{}: idle and under the background's load", profile.foreground)
}

/// Said where nothing that is measured is durable.
pub(crate) fn not_durable(profile: &ProfileFindings) -> Option<String> {
    (!profile.durable).then(|| {
        format!(
            "no commit waits here: {} writes without a sync, and its figures say nothing about \
             durability",
            profile.foreground
        )
    })
}

/// What a database without a documented threshold was measured at.
pub(crate) fn undocumented(findings: &Findings) -> Vec<&Verdict> {
    let is_it = |it: &&Verdict| it.verdict == VerdictWord::NoDocumentedThreshold;
    findings.verdicts.iter().filter(|_| findings.profile.is_some()).filter(is_it).collect()
}

/// How a source is introduced: practice is not a maker's word.
pub(crate) fn source_label(source: &durio_analyse::Source) -> String {
    use durio_workload::profile::Provenance;
    match source.kind {
        None | Some(Provenance::VendorDoc) => "source".to_owned(),
        Some(kind) => format!("source ({})", kind.word()),
    }
}
