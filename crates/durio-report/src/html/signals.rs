//! Signals as cards: a word, a colour, what was read where, what it implies.

use durio_analyse::{Findings, Signal, SignalWord};

/// One signal.
#[derive(Debug)]
pub(super) struct SignalCard<'a> {
    pub(super) signal: &'a Signal,
    /// The style sheet's class.
    pub(super) class: &'static str,
    pub(super) icon: &'static str,
    pub(super) word: &'static str,
}

/// Every signal, in the findings' order.
pub(super) fn cards(findings: &Findings) -> Vec<SignalCard<'_>> {
    findings.signals.iter().map(card).collect()
}

fn card(signal: &Signal) -> SignalCard<'_> {
    let (class, icon) = match signal.word {
        SignalWord::UnsafeConfig => ("bad", "✗"),
        SignalWord::Suspect => ("warning", "?"),
        SignalWord::Declared | SignalWord::Fact => ("", "·"),
    };
    SignalCard { signal, class, icon, word: signal.word.words() }
}
