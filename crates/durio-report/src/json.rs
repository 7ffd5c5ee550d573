//! Findings as one JSON document.
//!
//! In: findings. Out: the document, indented, with a line end. Not here: a form of its own; it is
//! that of `Findings`, whose schema is named in the document.

use std::io;

use durio_analyse::Findings;

pub(crate) fn write(findings: &Findings, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, findings)?;
    out.write_all(b"\n")
}
