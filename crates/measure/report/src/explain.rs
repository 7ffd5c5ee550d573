//! The meaning of the words in reports: warnings, signals, rules, verdicts.

use durio_analyse::{Explanation, ExplanationKind};
use serde::Serialize;

use crate::Report;
use crate::document::{DetailLevel, Document, LabelledFact, Section, Tone};

/// Name and version of the document.
const EXPLAIN_SCHEMA: &str = "durio-explain-1";

/// Explanations, as `durio explain` shows them.
#[derive(Debug, Serialize)]
pub struct ShownExplanations {
    schema: &'static str,
    explanations: Vec<Explanation>,
    /// Each by itself, with everything; else a line each.
    #[serde(skip)]
    whole: bool,
}

impl ShownExplanations {
    /// Each in a line, by kind.
    pub fn listed(explanations: Vec<Explanation>) -> Self {
        Self { schema: EXPLAIN_SCHEMA, explanations, whole: false }
    }

    /// Each with reason, advice and sources.
    pub fn whole(explanations: Vec<Explanation>) -> Self {
        Self { whole: true, ..Self::listed(explanations) }
    }
}

impl Report for ShownExplanations {
    fn document(&self) -> Document {
        if self.whole {
            let mut document = Document::new("", "");
            self.explanations.iter().for_each(|explanation| document.push(whole(explanation)));
            return document;
        }
        let title = "What reports say; see one with durio explain ID";
        let mut document = Document::new("", title);
        for (kind, heading) in HEADINGS {
            let mut section = Section::new(heading);
            let its = self.explanations.iter().filter(|explanation| explanation.kind == kind);
            its.for_each(|explanation| section.fact(&explanation.id, explanation.what.as_str()));
            document.push(section);
        }
        document
    }
}

const HEADINGS: [(ExplanationKind, &str); 5] = [
    (ExplanationKind::Word, "Words of reports"),
    (ExplanationKind::Warning, "Warnings about results"),
    (ExplanationKind::Signal, "Signals about flushes"),
    (ExplanationKind::AuditRule, "Rules of the audit"),
    (ExplanationKind::AdviceRule, "Rules of advice"),
];

fn whole(it: &Explanation) -> Section {
    let mut section = Section::new(format!("{}: {}", it.id, it.kind.words()));
    let parts = [("what", &it.what), ("why", &it.why), ("what to do", &it.advice)];
    for (label, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
        section.fact(label, text.as_str());
    }
    for fact in &it.facts {
        let link = Some(fact.url.clone()).filter(|url| !url.is_empty());
        let shown = LabelledFact {
            link,
            ..LabelledFact::new(Tone::Plain, &fact.label, fact.text.as_str())
        };
        section.fact_at(DetailLevel::Summary, shown);
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, write};

    #[test]
    fn a_list_has_a_line_each_and_one_has_everything() {
        let text = |shown: &ShownExplanations| {
            let mut bytes = Vec::new();
            write(Format::Text, shown, &Options::default(), &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let all = durio_judge::explanations().unwrap();
        let listed = text(&ShownExplanations::listed(all.clone()));
        assert!(listed.contains("unfit") && !listed.contains("what to do"), "{listed}");
        let one = all.into_iter().filter(|explanation| explanation.id == "unfit").collect();
        let whole = text(&ShownExplanations::whole(one));
        assert!(
            whole.contains("unfit: word of a report") && whole.contains("what to do"),
            "{whole}"
        );
    }
}
