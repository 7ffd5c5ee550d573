//! The proof of a rule, as text and as JSON.
//!
//! In: [`Proof`]. Out: bytes, into a writer. Not here: the comparison's words.

use std::io;

use durio_advise::Proof;

use crate::compare::write_figures;
use crate::text::page::{Look, Page};
use crate::{AuditFormat, Options};

/// Columns of the labels.
const LABEL: usize = 8;

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
    match format {
        AuditFormat::Json => crate::json::write_document(proof, out),
        AuditFormat::Text => {
            let mut page = Page::new(options);
            write_text(proof, &mut page);
            out.write_all(page.text().as_bytes())
        }
    }
}

fn write_text(proof: &Proof, page: &mut Page) {
    let title = format!("Proof of {} {} at {}", proof.rule, proof.name, proof.target);
    page.paragraph("", Look::Bold, &title);
    page.labelled("rule", LABEL, Look::Plain, &proof.title);
    let switched = &proof.switched;
    let what = match &switched.file {
        Some(file) => format!("{} ({file})", switched.what),
        None => format!("{}, durio's own", switched.what),
    };
    page.labelled("switched", LABEL, Look::Plain, &what);
    page.labelled("before", LABEL, Look::Bold, &format!("A = {}", switched.before));
    page.labelled("after", LABEL, Look::Bold, &format!("B = {}", switched.after));
    let turns = format!("{} of each, in turns A B B A", proof.pairs);
    page.labelled("runs", LABEL, Look::Plain, &turns);
    write_figures(&proof.comparison, page);
    page.blank();
    match &switched.restored {
        Some(value) if *value == switched.before => {
            let text = format!("{value}, read back");
            page.labelled("restored", LABEL, Look::Good, &text);
        }
        Some(value) => {
            let text = format!("NOT RESTORED: it is {value}");
            page.labelled("restored", LABEL, Look::Bad, &text);
        }
        None => page.labelled("restored", LABEL, Look::Plain, "nothing was changed"),
    }
}
