//! Every text that somebody else may have named, hostile, through every format: no escape, no active
//! HTML, no broken table.
//!
//! Which texts of a document are free is found by trying: those that can be replaced everywhere and
//! still be read back.

use std::collections::{BTreeMap, BTreeSet};

use durio_analyse::attribution::{StackFindings, compare_labs};
use durio_analyse::{Findings, WorkloadFindings};
use durio_report::{Format, Options, write};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::campaign::CAMPAIGN;
use crate::durable_sample::durable;
use crate::stack_sample::Runs;
use crate::{sample, written, written_with};

/// Rounds with every free text replaced; together more than a thousand names.
const ROUNDS: u64 = 4;

const FRAGMENTS: [&str; 28] = [
    "\x1b[31m",
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x/\x1b\\",
    "\u{9b}1A",
    "\u{9d}0;t\u{9c}",
    "\u{7f}",
    "\0",
    "\r",
    "\n",
    "\r\n\n",
    "\t",
    "\x08\x08",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{2028}",
    "\u{e0041}",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "' onclick='alert(1)",
    "<!--",
    "javascript:alert(1)",
    "=cmd|' /C calc'!A0",
    "@SUM(A1)",
    ",\";'",
    "{{7*7}}&amp;\\u001b",
];

/// splitmix64 (Steele, Lea, Flood 2014).
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 1).unwrap()
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        for _ in 0..=self.next() % 4 {
            name.push_str(FRAGMENTS[self.next() % FRAGMENTS.len()]);
            name.push_str(["", "a", "/srv ", "é"][self.next() % 4]);
        }
        // Two names are never one.
        name + &format!("{:x}", self.next())
    }
}

/// The distinct texts of a document.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(found.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
        _ => {}
    }
}

fn replaced(value: &Value, by: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => by.get(text).unwrap_or(text).clone().into(),
        Value::Array(items) => items.iter().map(|item| replaced(item, by)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, it)| (key.clone(), replaced(it, by))).collect()
        }
        other => other.clone(),
    }
}

/// The texts that may be anything.
fn free_texts<T: DeserializeOwned>(document: &Value) -> Vec<String> {
    let mut all = BTreeSet::new();
    texts(document, &mut all);
    let is_free = |text: &String| {
        let by = BTreeMap::from([(text.clone(), "any name".to_owned())]);
        serde_json::from_value::<T>(replaced(document, &by)).is_ok()
    };
    all.into_iter().filter(is_free).collect()
}

/// The document with hostile names, and how many.
fn hostile<T: DeserializeOwned>(document: &Value, free: &[String], seed: u64) -> T {
    let mut seeded = Seeded(seed);
    let by = free.iter().map(|text| (text.clone(), seeded.name())).collect();
    serde_json::from_value(replaced(document, &by)).unwrap()
}

/// The same characters as `durio_report` spells out; a format's own lines are its own.
fn escapes(text: &str) -> Vec<char> {
    let is_hidden = |c: &char| {
        c.is_control() && *c != '\n'
            || matches!(*c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
            || matches!(*c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
    };
    text.chars().filter(is_hidden).collect()
}

/// Every tag with the names of its attributes; of references also where they lead.
fn tags(html: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = html;
    while let Some((_, tail)) = rest.split_once('<') {
        let (tag, after) = tail.split_once('>').unwrap_or((tail, ""));
        rest = after;
        let outside_quotes = tag.split('"').step_by(2).collect::<String>();
        for reference in tag.split("href=\"").skip(1) {
            let scheme: String =
                reference.chars().take_while(|letter| letter.is_alphanumeric()).collect();
            found.insert(format!("href {scheme}"));
        }
        found.insert(outside_quotes.split_whitespace().collect::<Vec<_>>().join(" "));
        // What is in a script is no tag; hostile text must not end it.
        if tag.starts_with("script") {
            rest = rest.split_once("</script>").map_or("", |(_, after)| after);
        }
        if tag.starts_with("style") {
            rest = rest.split_once("</style>").map_or("", |(_, after)| after);
        }
    }
    found
}

fn assert_inert(html: &str, benign: &str) {
    let (found, known) = (tags(html), tags(benign));
    let foreign: Vec<_> = found
        .difference(&known)
        // A source that is no address has no reference.
        .filter(|reference| !reference.starts_with("href http"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert_eq!(html.matches("<script").count(), benign.matches("<script").count());
    let control: Vec<_> = escapes(html).into_iter().filter(|escape| *escape != '\t').collect();
    assert!(control.is_empty(), "{control:?}");
}

/// Outside of code nothing begins a tag or a link.
fn assert_markdown(markdown: &str) {
    assert_text(markdown);
    let is_code = |line: &&str| line.starts_with("    ") && !line.trim_start().starts_with("- ");
    for line in markdown.lines().filter(|line| !is_code(line)) {
        let escaped = line.replace("\\\\", "");
        let bare = escaped.replace("\\<", " ").replace("\\[", "").replace("\\`", "");
        let begins_tag = |rest: &str| {
            rest.starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '!' | '?'))
        };
        assert!(!bare.split('<').skip(1).any(begins_tag), "{line:?}");
        assert!(!bare.contains(['[', '`']), "{line:?}");
    }
}

fn assert_table(text: &str) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().len();
    let lines = text.lines().count();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len() + 1, lines, "a cell in several lines");
    for row in &rows {
        assert_eq!(row.len(), columns);
        for cell in row {
            let computes = cell.len() > 1 && cell.starts_with(['=', '+', '-', '@']);
            assert!(!computes || cell.parse::<f64>().is_ok(), "{cell}");
        }
    }
    assert!(escapes(text).is_empty(), "{text:?}");
}

fn assert_text(text: &str) {
    assert!(escapes(text).is_empty(), "{:?}", escapes(text));
}

/// Our own styles are all that a terminal is told.
fn assert_coloured(text: &str) {
    let mut plain = text.to_owned();
    for style in ["0", "1", "2", "1;32", "1;31", "1;33"] {
        plain = plain.replace(&format!("\x1b[{style}m"), "");
    }
    assert_text(&plain);
}

/// Numbers have no names, and take the time of this test.
fn shorten(workload: &mut WorkloadFindings) {
    workload.intervals.truncate(3);
    workload.operations.iter_mut().for_each(|operation| operation.curve.truncate(3));
}

#[test]
fn of_runs_no_format_is_steered_by_a_name() {
    let mut names = 0;
    let samples =
        [sample::two_locations(), sample::empty(), CAMPAIGN.clone(), durable(), sample::partial()];
    for mut findings in samples {
        findings.workloads.iter_mut().for_each(shorten);
        let document = serde_json::to_value(&findings).unwrap();
        let free = free_texts::<Findings>(&document);
        let benign = written(Format::Html, &findings);
        for seed in 0..ROUNDS {
            let hostile: Findings = hostile(&document, &free, seed);
            names += free.len();
            assert_text(&written(Format::Text, &hostile));
            assert_coloured(&written_with(
                Format::Text,
                &hostile,
                &Options { width: 60, colour: true, verbose: true },
            ));
            assert_table(&written(Format::Csv, &hostile));
            assert_markdown(&written(Format::Markdown, &hostile));
            assert_inert(&written(Format::Html, &hostile), &benign);
            let mut json: Value = serde_json::from_str(&written(Format::Json, &hostile)).unwrap();
            let summary = json.as_object_mut().unwrap().remove("summary").unwrap();
            assert!(!summary["sentence"].as_str().unwrap().is_empty());
            assert_eq!(json, serde_json::to_value(&hostile).unwrap());
            let _: Value = serde_json::from_str(&written(Format::FioJson, &hostile)).unwrap();
        }
    }
    assert!(names > 1000, "{names} names");
}

#[test]
fn of_benches_no_format_is_steered_by_a_name() {
    let findings = Runs::new().findings(None);
    let document = serde_json::to_value(&findings).unwrap();
    let free = free_texts::<StackFindings>(&document);
    let rendered = |findings: &StackFindings, format| {
        let mut out = Vec::new();
        write(format, findings, &Options::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let benign = rendered(&findings, Format::Html);
    for seed in 0..ROUNDS {
        let hostile: StackFindings = hostile(&document, &free, seed);
        assert_text(&rendered(&hostile, Format::Text));
        assert_table(&rendered(&hostile, Format::Csv));
        assert_inert(&rendered(&hostile, Format::Html), &benign);
        let comparison =
            compare_labs(std::slice::from_ref(&hostile), std::slice::from_ref(&hostile)).unwrap();
        for (format, check) in
            [(Format::Text, assert_text as fn(&str)), (Format::Csv, assert_table)]
        {
            let mut out = Vec::new();
            write(format, &comparison, &Options::default(), &mut out).unwrap();
            check(&String::from_utf8(out).unwrap());
        }
    }
    assert!(!free.is_empty());
}
