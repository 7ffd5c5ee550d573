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
    #[serde(skip)]
    detail: Listing,
}

/// How much is said of each.
#[derive(Debug, Clone, Copy)]
enum Listing {
    /// Ids only, as many as a screen has room for.
    Ids,
    /// A line each, by kind.
    Lines,
    /// Reason, advice and sources.
    Whole,
}

impl ShownExplanations {
    /// Their ids by kind, on a screen.
    pub fn indexed(explanations: Vec<Explanation>) -> Self {
        Self { schema: EXPLAIN_SCHEMA, explanations, detail: Listing::Ids }
    }

    /// Each in a line, by kind.
    pub fn listed(explanations: Vec<Explanation>) -> Self {
        Self { detail: Listing::Lines, ..Self::indexed(explanations) }
    }

    /// Each with reason, advice and sources.
    pub fn whole(explanations: Vec<Explanation>) -> Self {
        Self { detail: Listing::Whole, ..Self::indexed(explanations) }
    }

    fn of_kind(&self, kind: ExplanationKind) -> impl Iterator<Item = &Explanation> {
        self.explanations.iter().filter(move |explanation| explanation.kind == kind)
    }

    fn index(&self) -> Section {
        let mut section = Section::default();
        for (kind, _, label) in KINDS {
            let ids: Vec<&str> = self.of_kind(kind).map(|one| one.id.as_str()).collect();
            // Words are what a reader asks for first; the others are named where they apply.
            let room = if kind == ExplanationKind::Word { usize::MAX } else { IDS_MAX };
            section.fact(label, fitting(&ids, room));
        }
        section
    }
}

/// Characters of ids of a kind on a screen of 30 lines.
const IDS_MAX: usize = 155;

/// As many ids as `room` characters hold, and the number of the others.
fn fitting(ids: &[&str], room: usize) -> String {
    let mut length = 0;
    let fits = |id: &&&str| {
        length += id.chars().count() + 2;
        length <= room
    };
    let shown = ids.iter().take_while(fits).count();
    let list = ids[..shown].join(", ");
    if shown == ids.len() { list } else { format!("{list} and {} more", ids.len() - shown) }
}

impl Report for ShownExplanations {
    fn document(&self) -> Document {
        let title = match self.detail {
            Listing::Whole => "",
            Listing::Lines => "What reports say; see one with durio explain ID",
            Listing::Ids => "What reports say: durio explain ID, or durio explain --all for all",
        };
        let mut document = Document::new("", title);
        match self.detail {
            Listing::Whole => self.explanations.iter().for_each(|one| document.push(whole(one))),
            Listing::Ids => document.push(self.index()),
            Listing::Lines => {
                for (kind, heading, _) in KINDS {
                    let mut section = Section::new(heading);
                    self.of_kind(kind).for_each(|one| section.fact(&one.id, one.what.as_str()));
                    document.push(section);
                }
            }
        }
        document
    }
}

/// Each kind with its heading, and its label in the index.
const KINDS: [(ExplanationKind, &str, &str); 6] = [
    (ExplanationKind::Word, "Words of reports", "words"),
    (ExplanationKind::Warning, "Warnings about results", "warnings"),
    (ExplanationKind::Signal, "Signals about flushes", "signals"),
    (ExplanationKind::AuditRule, "Rules of the audit", "audit"),
    (ExplanationKind::Cause, "Causes of slow commits", "causes"),
    (ExplanationKind::AdviceRule, "Rules of advice", "advice"),
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

    fn text(shown: &ShownExplanations) -> String {
        let mut bytes = Vec::new();
        write(Format::Text, shown, &Options::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_index_has_every_word_and_fits_a_screen_of_30_lines() {
        let all = durio_judge::explanations().unwrap();
        let index = text(&ShownExplanations::indexed(all.clone()));
        assert!(index.lines().count() <= 30, "{}:\n{index}", index.lines().count());
        assert!(index.lines().all(|line| line.chars().count() <= 100), "{index}");
        let joined = index.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = all.iter().filter(|one| one.kind == ExplanationKind::Word);
        for word in words {
            let mut listed = joined.split([',', ' ']).filter(|listed| *listed == word.id);
            assert!(listed.next().is_some(), "{}:\n{index}", word.id);
        }
    }

    #[test]
    fn ids_for_which_there_is_no_room_are_counted() {
        let ids = ["a1", "b22", "c333"];
        assert_eq!(fitting(&ids, 15), "a1, b22, c333");
        assert_eq!(fitting(&ids, 14), "a1, b22 and 1 more");
        assert_eq!(fitting(&ids, 8), "a1 and 2 more");
    }

    #[test]
    fn a_list_has_a_line_each_and_one_has_everything() {
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
