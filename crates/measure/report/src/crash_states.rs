//! The check of crash states as a document.
//!
//! Shows [`CrashStateFindings`]: the answer in a sentence, counts, the first states that failed.
//! Power cuts are in `proof.rs`.

use durio_base::counted;
use durio_record::proof::crash_states::{CheckOutcome, CrashStateFinding, CrashStateFindings};

use crate::Report;
use crate::document::{
    Card, Cell, DetailLevel, Document, LabelledFact, Section, SectionBody, Table, Tone,
};

/// States that a terminal shows.
const SHOWN: usize = 3;

impl Report for CrashStateFindings {
    fn document(&self) -> Document {
        let mut document = Document::new("durio prove states", self.log.as_str());
        document.push(summary(self));
        document.push(section("Failed", &self.failures, Tone::Bad));
        document.push(section("Undecided", &self.undecided_states, Tone::Warning));
        document.push(method(self));
        document.records = records(self);
        document
    }
}

fn summary(findings: &CrashStateFindings) -> Section {
    let mut section = Section::default();
    let (tone, text) = sentence(findings);
    section.say_at(DetailLevel::Headline, tone, text);
    if !findings.is_complete {
        section.warn("Interrupted: later states were not checked.");
    }
    let checked = counted(findings.states, "state");
    let same = findings.duplicates;
    section.fact("checked", format!("{checked}; {same} more have the contents of one of them"));
    section.fact("failed", findings.failed.to_string());
    if findings.undecided > 0 {
        section.fact("undecided", findings.undecided.to_string());
    }
    section.fact("left out", left_out(findings));
    section
}

fn sentence(findings: &CrashStateFindings) -> (Tone, String) {
    let CrashStateFindings { failed, undecided, states, .. } = findings;
    let all = counted(*states, "crash state");
    match findings.verdict() {
        CheckOutcome::Failed => (Tone::Bad, format!("{failed} of {all} failed the check.")),
        CheckOutcome::Passed => (Tone::Good, format!("{all} checked, none failed.")),
        CheckOutcome::Undecided if *states == 0 => {
            (Tone::Warning, "No crash state was checked.".to_owned())
        }
        CheckOutcome::Undecided => (
            Tone::Warning,
            format!("Undecided: the check was inconclusive for {undecided} of {all}."),
        ),
    }
}

fn left_out(findings: &CrashStateFindings) -> String {
    match findings.left_out {
        0 => "none".to_owned(),
        count => format!("{count}; --limit takes more, another --seed takes others"),
    }
}

fn section(heading: &str, list: &[CrashStateFinding], tone: Tone) -> Section {
    let mut section = Section::new(heading);
    for (level, part) in [
        (DetailLevel::Summary, &list[..list.len().min(SHOWN)]),
        (DetailLevel::Detail, &list[list.len().min(SHOWN)..]),
    ] {
        if !part.is_empty() {
            section.push(
                level,
                SectionBody::Cards(part.iter().map(|state| card(state, tone)).collect()),
            );
        }
    }
    if !list.is_empty() {
        section.note("--only STATE --save FILE recreates a state.");
    }
    section
}

fn card(finding: &CrashStateFinding, tone: Tone) -> Card {
    let mut facts = vec![LabelledFact::new(Tone::Plain, "state", finding.description.as_str())];
    for (number, line) in finding.said.lines().enumerate() {
        facts.push(LabelledFact::new(
            Tone::Plain,
            if number == 0 { "check says" } else { "" },
            line,
        ));
    }
    Card {
        tone,
        word: "STATE".to_owned(),
        title: finding.state.clone(),
        about: finding.reason.clone(),
        text: String::new(),
        facts,
    }
}

fn method(findings: &CrashStateFindings) -> Section {
    let mut section = Section::detail("How to read it");
    section.fact("seed", findings.seed.to_string());
    section.fact("stretches", format!("{} between marks, flushes and FUA", findings.stretches));
    section.fact(
        "state",
        "what is durable at a moment, with none, one, two, all but one or all of the writes that are not, \
         each of them whole",
    );
    section.fact(
        "not covered",
        "other subsets of the writes, torn writes, and a disk that breaks its word: that takes power cuts",
    );
    section
}

fn records(findings: &CrashStateFindings) -> Table {
    Table::with_columns(
        std::slice::from_ref(findings),
        [
            ("log", |findings| Cell::text(&findings.log)),
            ("states", |findings| Cell::Count(findings.states)),
            ("passed", |findings| Cell::Count(findings.passed)),
            ("failed", |findings| Cell::Count(findings.failed)),
            ("undecided", |findings| Cell::Count(findings.undecided)),
            ("duplicates", |findings| Cell::Count(findings.duplicates)),
            ("left_out", |findings| Cell::Count(findings.left_out)),
        ],
    )
}
