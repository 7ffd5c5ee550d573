//! The document of `--format json`.

use durio_analyse::Findings;
use durio_report::Format;

use crate::{sample, written};

#[test]
fn the_document_reads_back_as_the_same_findings() {
    for findings in [sample::complete(), sample::partial(), sample::empty(), sample::hostile()] {
        let text = written(Format::Json, &findings);
        let read: Findings = serde_json::from_str(&text).unwrap();
        assert!(read == findings, "{text}");
    }
}

#[test]
fn it_is_one_document_with_a_line_end_and_names_its_schema() {
    let text = written(Format::Json, &sample::complete());
    assert!(text.starts_with("{\n  \"schema\": \"durio-findings-1\""));
    assert!(text.ends_with("\n}\n"));
}
