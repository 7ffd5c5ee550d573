//! Where the time of an operation goes, in the terminal.

use durio_analyse::Findings;

use super::campaign::figures;
use super::page::{Look, Page};
use crate::time_facts::{TIME_HEADING, time_parts};

pub(super) fn write(findings: &Findings, page: &mut Page) {
    let parts = time_parts(findings);
    if parts.is_empty() {
        return;
    }
    page.heading(TIME_HEADING);
    for part in &parts {
        page.paragraph("  ", Look::Bold, &part.title);
        for table in &part.tables {
            figures(table, page);
        }
        for text in &part.said {
            page.paragraph("  ", Look::Plain, text);
        }
    }
}
