//! Fit or unfit for which database, by whose threshold.

use durio_analyse::{Findings, Verdict, VerdictWord};

use super::page::{Look, Page};
use crate::profile_facts::source_label;
use crate::rows::locations;

/// The widest word: CANNOT TELL.
const WORD_WIDTH: usize = 11;

pub(super) fn write(findings: &Findings, page: &mut Page) {
    let is_open = |it: &&Verdict| it.verdict == VerdictWord::NoDocumentedThreshold;
    let is_said = findings.profile.is_some() && findings.verdicts.iter().all(|it| is_open(&it));
    if findings.verdicts.is_empty() || is_said {
        return;
    }
    page.heading("Verdicts");
    let several = locations(findings).len() > 1;
    for verdict in findings.verdicts.iter().filter(|it| !is_open(it)) {
        one(verdict, several, page);
    }
    without_threshold(findings, page);
}

fn one(verdict: &Verdict, several: bool, page: &mut Page) {
    let look = match verdict.verdict {
        VerdictWord::Fit => Look::Good,
        VerdictWord::Unfit => Look::Bad,
        VerdictWord::NoDocumentedThreshold | VerdictWord::CannotTell => Look::Warning,
    };
    let word = verdict.verdict.words().to_uppercase();
    page.labelled(&word, WORD_WIDTH, look, &sentence(verdict, several));
    if let Some(source) = &verdict.source {
        let label = source_label(source);
        let text = format!("{label}: {}, {}", source.publisher, source.document);
        page.labelled("", WORD_WIDTH, Look::Plain, &text);
    }
    if let Some(note) = &verdict.note {
        page.labelled("", WORD_WIDTH, Look::Plain, &format!("note: {note}"));
    }
}

fn sentence(verdict: &Verdict, several: bool) -> String {
    let place = if several { format!(" at {}", verdict.location) } else { String::new() };
    let provisional = if verdict.provisional { " (provisional)" } else { "" };
    format!(
        "{}{place}: {}; measured: {}{provisional}",
        verdict.database, verdict.criterion, verdict.measured
    )
}

/// All names in one line: there is nothing to say of each.
fn without_threshold(findings: &Findings, page: &mut Page) {
    // A profile's table has said it.
    if findings.profile.is_some() {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for verdict in &findings.verdicts {
        let is_open = verdict.verdict == VerdictWord::NoDocumentedThreshold;
        if is_open && !names.contains(&verdict.database.as_str()) {
            names.push(&verdict.database);
        }
    }
    if !names.is_empty() {
        let text = format!("no documented threshold, the figures speak: {}", names.join(", "));
        page.paragraph("  ", Look::Dim, &text);
    }
}
