//! A run of a profile: the log idle beside the log under load, and what was fitted.

use durio_analyse::Findings;

use super::page::{Look, Page};
use super::table::{TextCell, TextTable};
use crate::figures::ABSENT_NOTE;
use crate::profile_facts::{STATES, has_absent, heading, not_durable, state_rows, undocumented};

pub(super) fn write(findings: &Findings, page: &mut Page) {
    let Some(profile) = &findings.profile else { return };
    page.heading(&heading(profile));
    let mut table = TextTable::new(page, ["", ""].iter().chain(&STATES));
    let rows = state_rows(profile);
    for row in &rows {
        let cells = row.cells.iter().map(TextCell::from);
        table.add_row([TextCell::bold(row.operation), row.figure.into()].into_iter().chain(cells));
    }
    table.put(page);
    if has_absent(&rows) {
        page.paragraph("  ", Look::Dim, ABSENT_NOTE);
    }
    if let Some(text) = not_durable(profile) {
        page.labelled("warning", LABEL_WIDTH, Look::Warning, &text);
    }
    for verdict in undocumented(findings) {
        let text = format!("{}: {}; {}", verdict.database, verdict.criterion, verdict.measured);
        page.labelled("no limit", LABEL_WIDTH, Look::Plain, &text);
    }
    for note in &profile.notes {
        page.labelled("note", LABEL_WIDTH, Look::Plain, note);
    }
}

/// The widest label: no limit.
const LABEL_WIDTH: usize = 8;
