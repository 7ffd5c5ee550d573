//! The proof of a rule, as a document.
//!
//! In: [`Proof`]. Out: what was switched, the figures, what was restored. Not here: the comparison's
//! words.

use std::io;

use durio_advise::Proof;

use crate::document::{Document, Section, Tone};
use crate::{AuditFormat, Options};

/// Writes the proof.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write_proof(
    format: AuditFormat,
    proof: &Proof,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    format.of_all().write(proof, document, options, out)
}

fn document(proof: &Proof) -> Document {
    let title = format!("Proof of {} {} at {}", proof.rule, proof.name, proof.target);
    let mut document = Document::new("", title);
    let mut head = Section::default();
    head.fact("rule", &proof.title);
    let switched = &proof.switched;
    head.fact(
        "switched",
        match &switched.file {
            Some(file) => format!("{} ({file})", switched.what),
            None => format!("{}, durio's own", switched.what),
        },
    );
    head.toned(Tone::Strong, "before", format!("A = {}", switched.before));
    head.toned(Tone::Strong, "after", format!("B = {}", switched.after));
    head.fact("runs", format!("{} of each, in turns A B B A", proof.pairs));
    document.push(head);
    crate::compare::figures(&proof.comparison).into_iter().for_each(|it| document.push(it));
    let mut end = Section::default();
    match &switched.restored {
        Some(value) if *value == switched.before => {
            end.toned(Tone::Good, "restored", format!("{value}, read back"));
        }
        Some(value) => end.toned(Tone::Bad, "restored", format!("NOT RESTORED: it is {value}")),
        None => end.fact("restored", "nothing was changed"),
    }
    document.push(end);
    document
}
