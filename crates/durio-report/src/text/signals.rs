//! Whether the flush can be trusted: each signal with its word, its evidence and what it implies.

use durio_analyse::{Findings, Signal, SignalWord};

use super::page::{Look, Page};
use crate::signal_words::{NO_PROOF, QUESTION, evidence};

/// The widest word: UNSAFE-CONFIG.
const WORD_WIDTH: usize = 13;

pub(super) fn write(findings: &Findings, page: &mut Page) {
    if findings.signals.is_empty() {
        return;
    }
    page.heading(QUESTION);
    page.paragraph("  ", Look::Dim, NO_PROOF);
    for signal in &findings.signals {
        one(signal, page);
    }
}

fn one(signal: &Signal, page: &mut Page) {
    let look = match signal.word {
        SignalWord::UnsafeConfig => Look::Bad,
        SignalWord::Suspect => Look::Warning,
        SignalWord::Declared | SignalWord::Fact => Look::Plain,
    };
    let word = signal.word.words().to_uppercase();
    let title = format!("{} ({}): {}", signal.id, signal.layer, signal.implies);
    page.labelled(&word, WORD_WIDTH, look, &title);
    let read: Vec<String> = signal.read.iter().map(evidence).collect();
    page.labelled("", WORD_WIDTH, Look::Plain, &format!("read: {}", read.join("; ")));
    if !signal.advice.is_empty() {
        page.labelled("", WORD_WIDTH, Look::Plain, &format!("do: {}", signal.advice));
    }
}
