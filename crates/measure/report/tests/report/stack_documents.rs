//! The descriptions in docs/formats of what benches and comparisons of kernels show: every key of
//! the documents is described, and nothing else is.

use std::collections::BTreeSet;

use durio_analyse::attribution::{DeviceCost, Timing, compare_labs};
use serde_json::Value;

use crate::stack_sample::Runs;

fn described(file: &str) -> String {
    let path = format!("{}/../../../docs/formats/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The words in backquotes of a text.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The fields that the tables of a text are about, by the first cells of their rows.
fn tabled(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap())).collect()
}

fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                into.insert(key.clone());
                keys(value, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
        _ => {}
    }
}

fn keys_of(documents: &[Value]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    documents.iter().for_each(|document| keys(document, &mut all));
    all
}

/// Documents with every field between them.
fn benches() -> Vec<Value> {
    let mut counted = Runs::new().findings(Some(Timing::Counted));
    let facts = counted.points[1].raid.as_mut().unwrap();
    facts.declined = Some("no such layout".into());
    counted.points[1].failure = Some("planted".into());
    counted.workloads[0].key.section = Some("ladder".into());
    counted.workloads[0].key.levels = vec!["jobs 1".into()];
    let row = &mut counted.workloads[0].rows;
    let figures = row[1].figures.as_mut().unwrap();
    figures.involuntary_switches_per_operation = Some(0.0);
    figures.remarks = vec!["planted".into()];
    figures.mirror.as_mut().unwrap().remark = Some("planted".into());
    let breakdown = row[2].figures.as_mut().unwrap().latency_breakdown.as_mut().unwrap();
    breakdown.unavailable = Some("planted".into());
    let mut traced = Runs::new().findings(None);
    traced.provisional = Some("planted".into());
    let figures = traced.workloads[0].rows[1].figures.as_mut().unwrap();
    figures.devices = Some(DeviceCost::CannotTell { why: "planted".into() });
    [counted, traced].map(|cost| serde_json::to_value(cost).unwrap()).into()
}

#[test]
fn every_key_of_a_benchs_findings_is_described_and_no_other() {
    let text = described("stack-findings.md");
    let keys = keys_of(&benches());
    let missing: Vec<_> = keys.difference(&quoted(&text)).cloned().collect();
    assert_eq!(missing, [""; 0], "in the document, and not described");
    let stale: Vec<_> = tabled(&text).difference(&keys).cloned().collect();
    assert_eq!(stale, [""; 0], "described, and not in the document");
}

#[test]
fn every_key_of_a_comparison_of_kernels_is_described_and_no_other() {
    let text = described("lab-compare-folder.md");
    let (_, text) = text.split_once("## What it shows").unwrap();
    let counted = || Runs::new().findings(Some(Timing::Counted));
    let twice = compare_labs(&[counted(), counted()], &[counted(), counted()]).unwrap();
    let once = compare_labs(&[counted()], &[counted()]).unwrap();
    let keys = keys_of(&[twice, once].map(|findings| serde_json::to_value(findings).unwrap()));
    let missing: Vec<_> = keys.difference(&quoted(text)).cloned().collect();
    assert_eq!(missing, [""; 0], "in the document, and not described");
    let stale: Vec<_> = tabled(text).difference(&keys).cloned().collect();
    assert_eq!(stale, [""; 0], "described, and not in the document");
}

#[test]
fn every_row_of_the_descriptions_has_a_unit() {
    for file in ["stack-findings.md", "lab-compare-folder.md"] {
        let text = described(file);
        let text = text.split_once("## What it shows").map_or(&*text, |(_, rest)| rest);
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert!(rows.len() > 10, "{file}");
        for row in rows {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 3, "{file}: {row}");
            assert!(cells.iter().all(|cell| !cell.is_empty()), "{file}: {row}");
        }
    }
}
