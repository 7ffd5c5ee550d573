//! Warnings, and where to read on.

use durio_analyse::{Findings, WarningFinding};
use durio_record::file_names;

use super::page::{Look, Page};

pub(super) fn write(findings: &Findings, page: &mut Page) {
    if !findings.warnings.is_empty() {
        page.heading("Warnings");
    }
    for warning in &findings.warnings {
        one(warning, page);
    }
    page.blank();
    // Not broken, however long, so that they can be copied.
    let folder = &findings.run_folder;
    page.line(&format!("run folder: {folder}"));
    page.line(&format!("report: {}/{}", folder.trim_end_matches('/'), file_names::REPORT));
}

fn one(warning: &WarningFinding, page: &mut Page) {
    let about = match warning.about.as_slice() {
        [] => String::new(),
        about => format!(" ({})", about.join(", ")),
    };
    page.paragraph("  ", Look::Warning, &format!("! {}{about}", warning.code));
    page.labelled("  seen", 6, Look::Plain, &warning.seen);
    page.labelled("  why", 6, Look::Plain, &warning.why);
    page.labelled("  do", 6, Look::Plain, &warning.advice);
}
