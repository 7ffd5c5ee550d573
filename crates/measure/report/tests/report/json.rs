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
fn signals_say_their_word_and_where_each_value_was_read() {
    let text = written(Format::Json, &sample::complete());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let signal = &document["signals"][0];
    assert_eq!(signal["word"], "unsafe-config");
    assert_eq!(signal["read"][1]["where"], "/sys/class/block/vdb/cache_type");
    assert_eq!(signal["read"][1]["value"], "write back");
}

#[test]
fn a_document_of_before_signals_still_reads() {
    let text = written(Format::Json, &sample::complete());
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document.as_object_mut().unwrap().remove("signals");
    document["host"].as_object_mut().unwrap().remove("process");
    let findings: Findings = serde_json::from_value(document).unwrap();
    assert!(findings.signals.is_empty() && findings.host.process.is_none());
}

#[test]
fn it_is_one_document_with_a_line_end_and_names_its_schema() {
    let text = written(Format::Json, &sample::complete());
    assert!(text.starts_with("{\n  \"schema\": \"durio-findings-1\""));
    assert!(text.ends_with("\n}\n"));
}
