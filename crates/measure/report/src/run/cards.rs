//! Cards for the reader of a run: signals about flushes, and warnings.
//!
//! Adds no judgement to the findings; verdicts are in `verdicts`.

use durio_analyse::{EvidenceReading, Findings, Signal, SignalWord, WarningFinding};

use crate::document::{Card, DetailLevel, LabelledFact, Section, SectionBody, Tone};

fn cards(section: &mut Section, cards: impl Iterator<Item = Card>) {
    let cards: Vec<Card> = cards.collect();
    if !cards.is_empty() {
        section.push(DetailLevel::Summary, SectionBody::Cards(cards));
    }
}

fn fact(label: &str, value: impl Into<String>) -> LabelledFact {
    LabelledFact::new(Tone::Plain, label, value)
}

/// Whether the flush can be trusted: each signal with its word, its evidence and its consequence.
pub(super) fn signals(findings: &Findings) -> Section {
    let mut section = Section::detail("Can its flush be trusted?");
    if !findings.signals.is_empty() {
        section.note(
            "Observations, most severe first. They are evidence, not proof; only a power cut is.",
        );
    }
    cards(&mut section, findings.signals.iter().map(signal));
    section
}

/// How much a signal weighs.
pub(super) const fn tone(word: SignalWord) -> Tone {
    match word {
        SignalWord::UnsafeConfig => Tone::Bad,
        SignalWord::Suspect => Tone::Warning,
        SignalWord::Declared | SignalWord::Fact => Tone::Plain,
    }
}

fn signal(it: &Signal) -> Card {
    let evidence = |it: &EvidenceReading| format!("{} = {} [{}]", it.what, it.value, it.place);
    let read: Vec<String> = it.read.iter().map(evidence).collect();
    let mut facts = vec![fact("read", read.join("; "))];
    if !it.advice.is_empty() {
        facts.push(fact("do", &it.advice));
    }
    Card {
        tone: tone(it.word),
        word: it.word.words().to_owned(),
        title: it.id.to_string(),
        about: it.layer.clone(),
        text: it.implies.clone(),
        facts,
    }
}

pub(super) fn warnings(findings: &Findings) -> Section {
    let mut section = Section::detail("Warnings");
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
