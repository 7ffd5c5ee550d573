//! The signals of recorded and made-up machines: exactly those that their files expect.

use std::collections::BTreeSet;
use std::path::Path;

use durio_analyse::Signal;
use durio_judge::standing_signals;
use durio_observe::{read_host_in, read_stack_in};
use testkit::{Machine, machines};

fn signals(root: &Path, machine: &Machine) -> Vec<Signal> {
    let host = read_host_in(root);
    match read_stack_in(root, &machine.target) {
        Ok(stack) => standing_signals(&[stack], &host),
        Err(_) => Vec::new(),
    }
}

#[test]
fn every_machine_gives_exactly_the_signals_that_are_expected() {
    let mut wrong = Vec::new();
    for machine in machines() {
        let tree = machine.tree();
        let found = signals(tree.path(), &machine);
        let words = found.iter().map(|signal| format!("{} {}", signal.word.words(), signal.id));
        let mut words: Vec<String> = words.collect();
        words.sort();
        words.dedup();
        if words != machine.signals {
            let Machine { name, about, origin, signals, .. } = &machine;
            let (found, expected) = (words.join(", "), signals.join(", "));
            wrong.push(format!("{name}: {about}, {origin}\n  {found}\n  {expected}"));
        }
    }
    assert!(wrong.is_empty(), "found, then expected:\n{}", wrong.join("\n"));
}

#[test]
fn every_signal_has_evidence_with_a_place_and_none_acquits() {
    for machine in machines() {
        let tree = machine.tree();
        for signal in signals(tree.path(), &machine) {
            assert!(!signal.read.is_empty(), "{signal:?}");
            for reading in &signal.read {
                assert!(!reading.place.is_empty() && !reading.value.is_empty(), "{signal:?}");
            }
            let words = format!("{} {}", signal.implies, signal.advice);
            let acquits = words.split(|c: char| !c.is_alphabetic()).any(|word| word == "safe");
            assert!(!acquits, "{signal:?}");
        }
    }
}

#[test]
fn the_machines_show_signals_of_every_word_and_most_of_the_rules() {
    let expected: BTreeSet<String> =
        machines().into_iter().flat_map(|machine| machine.signals).collect();
    assert!(expected.len() >= 30, "{expected:?}");
    for word in ["unsafe-config", "suspect", "declared", "fact"] {
        assert!(expected.iter().any(|signal| signal.starts_with(word)), "{word}");
    }
}

#[test]
fn spoiled_files_never_make_a_signal_panic() {
    for machine in machines() {
        let tree = machine.expand(|index, content| {
            let is_kept = content.contains(" - ") || index % 3 != 0;
            Some(if is_kept { content.as_bytes().to_vec() } else { b"\xff[,".to_vec() })
        });
        let _ = signals(tree.path(), &machine);
    }
}
