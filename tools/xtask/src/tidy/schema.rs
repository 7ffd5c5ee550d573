//! Rule: the document of the run folder names the schema that the code writes.
//!
//! Takes the record crate's sources and the document; returns problems, or none while the crate
//! defines no schema.

use super::tree::SourceFile;
use super::{Problem, line_where};

/// Where the format is described.
pub(super) const DOCUMENT: &str = "docs/formats/run-folder.md";

const CRATE: &str = "crates/core/record/src";
const CONSTANT: &str = "const RUN_FOLDER_SCHEMA: u32 =";
const FIELD: &str = "schema:";

/// Compares the sources with the document, if there is one.
pub(super) fn check(sources: &[SourceFile], document: Option<&str>) -> Option<Problem> {
    let sources = sources.iter().filter(|source| source.is_in(CRATE));
    let written = sources.filter_map(|source| after(&source.code.code, CONSTANT)).next()?;
    let text = document.unwrap_or_default();
    let line = line_where(text, |line| line.trim().starts_with(FIELD));
    let what = match text.lines().find_map(|line| line.trim().strip_prefix(FIELD)) {
        Some(told) if told.trim() == written => return None,
        Some(told) => format!("tells schema {}, but {CRATE} writes {written}", told.trim()),
        None => format!("no line `{FIELD} {written}`, which is what {CRATE} writes"),
    };
    Some(Problem::new(DOCUMENT, line, format!("{what}; describe the schema that is written")))
}

/// The value between `start` and the next semicolon.
fn after<'text>(text: &'text str, start: &str) -> Option<&'text str> {
    let (_, rest) = text.split_once(start)?;
    rest.split(';').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str, document: Option<&str>) -> Option<usize> {
        let sources = [SourceFile::new("crates/core/record/src/lib.rs", code)];
        check(&sources, document).map(|problem| problem.line)
    }

    const CODE: &str = "//! Header.\npub const RUN_FOLDER_SCHEMA: u32 = 3;\n";

    #[test]
    fn the_document_must_tell_the_schema_of_the_code() {
        assert_eq!(found(CODE, Some("# Run folder\n\nschema: 3\n")), None);
        assert_eq!(found(CODE, Some("# Run folder\n\nschema: 2\n")), Some(3));
        assert_eq!(found(CODE, Some("# Run folder\n")), Some(1));
        assert_eq!(found(CODE, None), Some(1));
    }

    #[test]
    fn without_a_schema_in_the_code_nothing_is_asked() {
        assert_eq!(found("//! Header.\n", None), None);
        let elsewhere = [SourceFile::new("crates/measure/run/src/lib.rs", CODE)];
        assert_eq!(check(&elsewhere, None), None);
    }
}
