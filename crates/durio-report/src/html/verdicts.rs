//! Verdicts as cards: a word, a sign, a colour, and the source.

use durio_analyse::{Findings, Verdict, VerdictWord};

use crate::profile_facts::source_label;

/// One verdict.
#[derive(Debug)]
pub(super) struct VerdictCard<'a> {
    pub(super) verdict: &'a Verdict,
    /// The style sheet's class.
    pub(super) class: &'static str,
    pub(super) icon: &'static str,
    pub(super) word: &'static str,
    /// Where the source can be read; none if its address is not one for a browser.
    pub(super) link: Option<&'a str>,
    /// How the source is introduced.
    pub(super) source_label: String,
}

/// Every verdict that says something, in the findings' order.
pub(super) fn cards(findings: &Findings) -> Vec<VerdictCard<'_>> {
    findings.verdicts.iter().filter_map(card).collect()
}

/// The databases whose vendors document no threshold, each once.
pub(super) fn without_threshold(findings: &Findings) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    // A profile's table has said it.
    if findings.profile.is_some() {
        return names;
    }
    for verdict in &findings.verdicts {
        let is_open = verdict.verdict == VerdictWord::NoDocumentedThreshold;
        if is_open && !names.contains(&verdict.database.as_str()) {
            names.push(&verdict.database);
        }
    }
    names
}

fn card(verdict: &Verdict) -> Option<VerdictCard<'_>> {
    let (class, icon) = match verdict.verdict {
        VerdictWord::Fit => ("good", "✓"),
        VerdictWord::Unfit => ("bad", "✗"),
        VerdictWord::CannotTell => ("warning", "?"),
        VerdictWord::NoDocumentedThreshold => return None,
    };
    let url = verdict.source.as_ref().map(|source| source.url.as_str());
    let link = url.filter(|url| url.starts_with("https://") || url.starts_with("http://"));
    let source_label = verdict.source.as_ref().map(source_label).unwrap_or_default();
    let word = verdict.verdict.words();
    Some(VerdictCard { verdict, class, icon, word, link, source_label })
}
