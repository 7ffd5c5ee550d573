//! What a durable write costs, question by question: a table, and what follows from it.

use durio_analyse::durable::DurableFindings;

use super::campaign::figures;
use super::page::{Look, Page};
use crate::durable_facts::{DurablePart, parts};
use crate::durable_tables::has_absent;
use crate::figures::ABSENT_NOTE;

/// The widest label: preallocated.
const LABEL_WIDTH: usize = 12;

pub(super) fn write(found: &DurableFindings, page: &mut Page) {
    let parts = parts(found);
    parts.iter().for_each(|part| of_part(part, page));
    if parts.iter().any(|part| has_absent(&part.tables)) {
        page.blank();
        page.paragraph("  ", Look::Dim, ABSENT_NOTE);
    }
}

fn of_part(part: &DurablePart, page: &mut Page) {
    page.heading(&part.title);
    if !part.summary.is_empty() {
        page.paragraph("  ", Look::Dim, part.summary);
    }
    for table in &part.tables {
        figures(table, page);
    }
    for (label, text) in &part.said {
        let look = if *label == "warning" { Look::Warning } else { Look::Plain };
        page.labelled(label, LABEL_WIDTH, look, text);
    }
}
