//! The document of `--format json`.

use durio_analyse::Findings;
use durio_analyse::attribution::StackFindings;
use durio_report::{Format, Options};

use crate::stack_sample::Runs;
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
fn the_answer_is_at_the_head_of_the_document() {
    let text = written(Format::Json, &sample::complete());
    assert!(text.starts_with("{\n  \"summary\": {\n    \"verdict\": \"bad\",\n"), "{text}");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let summary = &document["summary"];
    let sentence = "Bad: a power cut can lose acknowledged commits (cache-view-overridden, disk vdb); \
                    7.12 k durable commits/s with one writer, p99 236 µs.";
    assert_eq!(summary["sentence"], sentence);
    let rate = &summary["headline"][0];
    assert_eq!(rate["label"], "durable commits");
    assert_eq!(rate["unit"], "per second");
    assert!((rate["value"].as_f64().unwrap() - 7120.0).abs() < 1e-9, "{rate}");
    assert_eq!(summary["headline"][1]["unit"], "ns");
    let reasons = summary["reasons"].as_array().unwrap();
    let missed = "it misses the limit of oracle (mean of commit < 100 µs, measured 140 µs)";
    assert_eq!(reasons[1], missed);
}

#[test]
fn it_is_one_document_with_a_line_end_and_names_its_schema() {
    let text = written(Format::Json, &sample::complete());
    assert!(text.contains("\n  \"schema\": \"durio-findings-1\","));
    assert!(text.ends_with("\n}\n"));
}

#[test]
fn where_a_document_has_a_summary_of_its_purpose_the_answer_has_another_name() {
    let bench = Runs::new().findings(None);
    let mut out = Vec::new();
    durio_report::write(Format::Json, &bench, &Options::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("{\n  \"answer\": {\n    \"verdict\": "), "{text}");
    let read: StackFindings = serde_json::from_str(&text).unwrap();
    assert_eq!(read.summary, bench.summary);
}
