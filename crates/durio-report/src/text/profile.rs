//! A run of a profile: the log idle beside the log under load, and what was fitted.

use comfy_table::{Attribute, Cell};
use durio_analyse::Findings;

use super::page::{Look, Page, clean};
use super::table::{new_table, put};
use crate::figures::ABSENT_NOTE;
use crate::profile_facts::{STATES, has_absent, heading, not_durable, state_rows, undocumented};

pub(super) fn write(findings: &Findings, page: &mut Page) {
    let Some(profile) = &findings.profile else { return };
    page.heading(&heading(profile));
    let mut table = new_table(page, ["", ""].iter().chain(&STATES).copied().collect());
    let rows = state_rows(profile);
    for row in &rows {
        let operation = Cell::new(row.operation).add_attribute(Attribute::Bold);
        let cells = row.cells.iter().map(Cell::new);
        table.add_row(
            [operation, Cell::new(row.figure)].into_iter().chain(cells).collect::<Vec<_>>(),
        );
    }
    put(table, page);
    if has_absent(&rows) {
        page.paragraph("  ", Look::Dim, ABSENT_NOTE);
    }
    if let Some(text) = not_durable(profile) {
        page.labelled("heed", LABEL_WIDTH, Look::Heed, &text);
    }
    for verdict in undocumented(findings) {
        let text = format!("{}: {}; {}", verdict.database, verdict.criterion, verdict.measured);
        page.labelled("no limit", LABEL_WIDTH, Look::Plain, &text);
    }
    for note in &profile.notes {
        page.labelled("note", LABEL_WIDTH, Look::Plain, &clean(note));
    }
}

/// The widest label: no limit.
const LABEL_WIDTH: usize = 8;
