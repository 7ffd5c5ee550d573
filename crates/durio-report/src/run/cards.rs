//! What is judged in a run: verdicts, signals about flushes, warnings; each a card.
//!
//! In: findings. Out: sections. Not here: any judgement of its own.

use durio_analyse::{
    Findings, Reading, Signal, SignalWord, Source, Verdict, VerdictWord, WarningFinding,
};
use durio_workload::profile::Provenance;

use super::figures::locations;
use crate::document::{Body, Card, Fact, Level, Section, Tone};
use crate::figures::distinct;

/// Fit or unfit for which database, by whose threshold.
pub(super) fn verdicts(findings: &Findings) -> Section {
    let mut section = Section::new("Verdicts");
    let several = locations(findings).len() > 1;
    let is_open = |it: &&Verdict| it.verdict == VerdictWord::NoDocumentedThreshold;
    let judged = findings.verdicts.iter().filter(|it| !is_open(it));
    cards(&mut section, judged.map(|it| verdict(it, several)));
    // A profile's table has said it.
    let not_said = findings.verdicts.iter().filter(|_| findings.profile.is_none());
    let open = distinct(not_said.filter(is_open).map(|it| it.database.as_str()));
    if !open.is_empty() {
        let names = open.join(", ");
        section.note(format!("no documented threshold, the figures speak: {names}"));
    }
    section
}

fn cards(section: &mut Section, cards: impl Iterator<Item = Card>) {
    let cards: Vec<Card> = cards.collect();
    if !cards.is_empty() {
        section.push(Level::Summary, Body::Cards(cards));
    }
}

fn fact(label: &str, value: impl Into<String>) -> Fact {
    Fact::new(Tone::Plain, label, value)
}

fn verdict(it: &Verdict, several: bool) -> Card {
    let provisional = if it.provisional { " (provisional)" } else { "" };
    let source = it.source.iter().map(|source| Fact {
        link: Some(source.url.clone()),
        ..fact(&source_label(source), format!("{}, {}", source.publisher, source.document))
    });
    let note = it.note.iter().map(|note| fact("note", note));
    Card {
        tone: match it.verdict {
            VerdictWord::Fit => Tone::Good,
            VerdictWord::Unfit => Tone::Bad,
            // Both leave the question open; neither is in favour of the storage.
            VerdictWord::NoDocumentedThreshold | VerdictWord::CannotTell => Tone::Warning,
        },
        word: it.verdict.words().to_owned(),
        title: it.database.clone(),
        about: if several { it.location.clone() } else { String::new() },
        text: format!("{}; measured: {}{provisional}", it.criterion, it.measured),
        facts: source.chain(note).collect(),
    }
}

// How a source is introduced: practice is not a maker's word.
fn source_label(source: &Source) -> String {
    match source.kind {
        None | Some(Provenance::VendorDoc) => "source".to_owned(),
        Some(kind) => format!("source ({})", kind.word()),
    }
}

/// Whether the flush can be trusted: each signal with its word, its evidence and what it implies.
pub(super) fn signals(findings: &Findings) -> Section {
    let mut section = Section::new("Can its flush be trusted?");
    if !findings.signals.is_empty() {
        section.note(
            "Observations, most severe first. They are evidence, not proof; only a power cut is.",
        );
    }
    cards(&mut section, findings.signals.iter().map(signal));
    section
}

fn signal(it: &Signal) -> Card {
    let evidence = |it: &Reading| format!("{} = {} [{}]", it.what, it.value, it.place);
    let read: Vec<String> = it.read.iter().map(evidence).collect();
    let mut facts = vec![fact("read", read.join("; "))];
    if !it.advice.is_empty() {
        facts.push(fact("do", &it.advice));
    }
    Card {
        tone: match it.word {
            SignalWord::UnsafeConfig => Tone::Bad,
            SignalWord::Suspect => Tone::Warning,
            SignalWord::Declared | SignalWord::Fact => Tone::Plain,
        },
        word: it.word.words().to_owned(),
        title: it.id.to_string(),
        about: it.layer.clone(),
        text: it.implies.clone(),
        facts,
    }
}

pub(super) fn warnings(findings: &Findings) -> Section {
    let mut section = Section::new("Warnings");
    cards(&mut section, findings.warnings.iter().map(warning));
    section
}

fn warning(it: &WarningFinding) -> Card {
    Card {
        tone: Tone::Warning,
        word: "warning".to_owned(),
        title: it.code.to_string(),
        about: it.about.join(", "),
        text: String::new(),
        facts: vec![fact("seen", &it.seen), fact("why", &it.why), fact("do", &it.advice)],
    }
}
