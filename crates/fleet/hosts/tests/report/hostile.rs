//! Names and texts of hosts that want to be more than that.

use durio_hosts::FleetFindings;
use durio_report::Format;

use crate::sample::troubled;
use crate::{verbose, written};

const NAMES: [&str; 4] = [
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "a\nb | c\x1b[2J\u{202e}",
    "\" onmouseover=\"alert(1)",
];

fn hostile() -> FleetFindings {
    let mut findings = troubled(30);
    for (at, host) in findings.hosts.iter_mut().enumerate() {
        let name = format!("{}{at}", NAMES[at % NAMES.len()]);
        host.reason = host.reason.as_ref().map(|_| name.clone());
        host.name = name;
    }
    let name = || NAMES.concat();
    findings.campaign = Some(name());
    findings.doubts[0].sentence = name();
    findings.groups[0].facts.insert(name(), name());
    for fact in &mut findings.shared_facts {
        (fact.fact, fact.value) = (name(), name());
    }
    for figure in &mut findings.groups[0].figures {
        figure.key.workload = name();
    }
    findings
}

#[test]
fn no_name_becomes_markup_a_formula_or_a_command_to_the_terminal() {
    let findings = hostile();
    let page = written(Format::Html, &findings);
    assert!(!page.contains("<script>alert"), "{page}");
    // Behind it are the values, as JSON.
    let (markup, _) = page.split_once("<script type=\"application/json\"").unwrap();
    assert!(!markup.contains("\" onmouseover"), "{markup}");
    assert!(page.contains("&#60;script&#62;alert(1)&#60;/script&#62;0"));
    let text = verbose(Format::Text, &findings);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'), "{text}");
    let csv = written(Format::Csv, &findings);
    assert!(!csv.lines().any(|line| line.starts_with('=')), "{csv}");
    assert!(csv.contains("\n'=cmd|' /C calc'!A01,"), "{csv}");
    let markdown = verbose(Format::Markdown, &findings);
    assert!(!markdown.contains("<script>"), "{markdown}");
    let metrics = written(Format::OpenMetrics, &findings);
    assert!(metrics.lines().all(|line| line.starts_with("# ") || line.starts_with("durio_")));
    let json = written(Format::Json, &findings);
    assert_eq!(serde_json::from_str::<FleetFindings>(&json).unwrap(), findings);
}

#[test]
fn rows_of_a_markdown_table_have_as_many_cells_as_its_head() {
    let markdown = verbose(Format::Markdown, &hostile());
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let tables: Vec<&str> = markdown.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(tables.len() > 30, "{markdown}");
    for pair in tables.chunk_by(|a, b| cells(a) == cells(b)) {
        assert!(pair.len() > 2, "{pair:?}");
    }
}
