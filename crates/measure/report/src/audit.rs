//! Findings of an audit as a document: by weight, then by rule, then by line.

use std::collections::HashMap;

use durio_judge::audit::{AuditFinding, AuditFindings, ClaimPlace, RuleMeaning, Tier};
use serde::Serialize;

use crate::Report;
use crate::document::{Document, Section, Tone};
use crate::figures::counted;

// Findings with the same reason are listed by their lines alone from as many on.
const ALIKE_MIN: usize = 3;

// Rows that a rule of a lighter tier shows; the others are counted. Impossible results are all
// shown.
const SHOWN_MAX: usize = 8;

// Names in a list; the others are counted. Lines take less room, as ranges.
const NAMES_MAX: usize = 4;

/// Findings about `subject`: a path or another name for the audited input.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ShownAudit<'a> {
    pub findings: &'a AuditFindings,
    /// For people; the JSON document is the findings alone.
    #[serde(skip)]
    pub subject: &'a str,
}

impl Report for ShownAudit<'_> {
    fn document(&self) -> Document {
        let Self { findings, subject } = self;
        let mut document = Document::new("", format!("Audit of {subject}"));
        let mut head = Section::default();
        findings.notes.iter().for_each(|note| head.note(note));
        document.push(head);
        for tier in Tier::ALL {
            let mut section = Section::new(heading(tier));
            for rule in &findings.rules {
                let is_its =
                    |finding: &&AuditFinding| finding.tier == tier && finding.rule == rule.rule;
                let its: Vec<_> = findings.findings.iter().filter(is_its).collect();
                if !its.is_empty() {
                    section.group(group(rule, &its, tier));
                }
            }
            document.push(section);
        }
        document.push(summary(findings));
        document
    }
}

const fn heading(tier: Tier) -> &'static str {
    match tier {
        Tier::Impossible => "Impossible: numbers that cannot all be right",
        Tier::Shortfall => "Shortfall: time that the numbers leave unexplained",
        Tier::Doubtful => "Doubtful: something in the row contradicts it",
        Tier::Method => "Method: it cannot support the conclusion",
    }
}

fn group(rule: &RuleMeaning, findings: &[&AuditFinding], tier: Tier) -> Section {
    let mut group = Section::new(&rule.rule);
    group.note(&rule.meaning);
    let mut alike: HashMap<&str, Vec<&ClaimPlace>> = HashMap::new();
    for finding in findings {
        alike.entry(&finding.reason).or_default().push(&finding.line);
    }
    alike.retain(|_, lines| lines.len() >= ALIKE_MIN);
    // Reported once, at the first of them.
    let is_told = |finding: &&&AuditFinding| {
        let first = alike.get(finding.reason.as_str()).and_then(|lines| lines.first());
        // By place and not by value: two jobs may have one name.
        first.is_none_or(|first| std::ptr::eq(*first, &raw const finding.line))
    };
    let told: Vec<_> = findings.iter().filter(is_told).collect();
    let shown_max = if tier == Tier::Impossible { told.len() } else { SHOWN_MAX };
    for finding in told.iter().take(shown_max) {
        match alike.get(finding.reason.as_str()) {
            Some(lines) => {
                group.say(Tone::Plain, format!("{}: {}", places(lines), finding.reason));
            }
            None => {
                let place = places(&[&finding.line]);
                let mut one = Section::new(format!("{place}: {}", finding.label));
                one.say(Tone::Plain, &finding.reason);
                group.group(one);
            }
        }
    }
    if let Some(more) = told.len().checked_sub(shown_max).filter(|more| *more > 0) {
        group.note(format!("and {more} more; --format json has all"));
    }
    group
}

/// `line 7`, `lines 7, 9–12`, or the first names.
fn places(lines: &[&ClaimPlace]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut run: Option<(u64, u64)> = None;
    let mut numbers = 0;
    for line in lines {
        match line {
            ClaimPlace::Number(number) => {
                numbers += 1;
                run = match run {
                    Some((first, last)) if last.checked_add(1) == Some(*number) => {
                        Some((first, *number))
                    }
                    other => {
                        parts.extend(other.map(range));
                        Some((*number, *number))
                    }
                };
            }
            ClaimPlace::Name(name) => names.push(name),
        }
    }
    parts.extend(run.map(range));
    match numbers {
        0 => named(&names),
        1 => format!("line {}", parts.join(", ")),
        _ => format!("lines {}", parts.join(", ")),
    }
}

// Names may have commas in them.
fn named(names: &[&str]) -> String {
    let first = names.get(..NAMES_MAX).unwrap_or(names).join("; ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        more => format!("{first}; and {}", counted(more as u64, "more row")),
    }
}

fn range((first, last): (u64, u64)) -> String {
    match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}–{last}"),
    }
}

fn summary(findings: &AuditFindings) -> Section {
    let mut section = Section::default();
    if findings.findings_left_out > 0 {
        let left_out = counted(findings.findings_left_out, "further finding");
        section.warn(format!("{left_out} not shown"));
    }
    let claims = counted(findings.claims, "row");
    if findings.clean {
        section.say(Tone::Good, format!("clean: no finding in {claims}"));
        return section;
    }
    let counts = findings.counts;
    let words = [
        (counts.impossible, "impossible"),
        (counts.shortfall, "shortfall"),
        (counts.doubtful, "doubtful"),
        (counts.method, "method"),
    ];
    let words = words.map(|(count, word)| format!("{count} {word}"));
    let tone = if findings.has_impossible() { Tone::Bad } else { Tone::Warning };
    let found = counted(counts.total(), "finding");
    section.say(tone, format!("{found} in {claims}: {}", words.join(", ")));
    section
}

#[cfg(test)]
mod tests {
    use durio_judge::audit::audit_table;

    use super::*;
    use crate::{Format, Options, write};

    const HEADER: &str = "source,stack,workload,block_size,jobs,iodepth,durable,read_iops,\
                          read_latency_us,write_iops,write_latency_us,bandwidth_mb_s,\
                          read_latency_p99_us";

    fn text_of(rows: &[&str]) -> String {
        let table = format!("{HEADER}\n{}\n", rows.join("\n"));
        let findings = audit_table(table.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let shown = ShownAudit { findings: &findings, subject: "table.csv" };
        write(Format::Text, &shown, &Options::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_clean_table_says_clean() {
        let text = text_of(&["a,b,randread,4k,1,1,,10000,99,,,,180"]);
        assert_eq!(text, "Audit of table.csv\nclean: no finding in 1 row\n");
    }

    #[test]
    fn findings_are_shown_by_weight_with_line_and_reason_and_the_summary_is_last() {
        let text = text_of(&[
            "a,b,randwrite,4k,1,1,O_DIRECT,,,10000,99,,180",
            "a,b,randread,4k,1,1,,10000,500,,,,900",
        ]);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("Impossible") < at("line 3: b, randread, 4 KiB, 1 job"));
        assert!(at("line 3") < at("Method") && at("Method") < at("line 2"));
        assert!(at("10k/s × 500 µs is 5 in flight") < at("Method"));
        let last = text.lines().last().unwrap();
        assert_eq!(last, "2 findings in 2 rows: 1 impossible, 0 shortfall, 0 doubtful, 1 method");
    }

    #[test]
    fn findings_with_the_same_reason_are_listed_by_line() {
        let row = "a,b,randwrite,4k,1,1,O_DIRECT,,,10000,99,,180";
        let clean = "a,b,randread,4k,1,1,,10000,99,,,,180";
        let text = text_of(&[row, row, row, clean, row]);
        assert!(text.contains("lines 2–4, 6: 'O_DIRECT' names no sync"), "{text}");
    }

    #[test]
    fn a_rule_with_many_rows_shows_the_first_of_them() {
        let row = |rate| format!("a,b,randread,4k,1,1,,{rate},41,,,,180");
        let rows: Vec<String> = (0..12).map(|at| row(9911 - at)).collect();
        let text = text_of(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(text.contains("line 9:") && !text.contains("line 10:"), "{text}");
        assert!(text.contains("and 4 more; --format json has all"), "{text}");
    }

    #[test]
    fn control_characters_of_the_table_are_not_sent_to_the_terminal() {
        let text = text_of(&["a,\u{1b}[31mred,randread,4k,1,1,,10000,500,,,,900"]);
        assert!(!text.contains('\u{1b}') && text.contains("red"));
    }

    #[test]
    fn names_of_jobs_stand_without_the_word_line() {
        let (a, b) = (ClaimPlace::Name("wal".into()), ClaimPlace::Name("scan".into()));
        assert_eq!(places(&[&a, &b]), "wal; scan");
        assert_eq!(places(&[&a, &b, &a, &b, &a]), "wal; scan; wal; scan; and 1 more row");
        assert_eq!(places(&[&ClaimPlace::Number(3), &ClaimPlace::Number(4)]), "lines 3, 4");
    }

    #[test]
    fn eight_rows_of_a_rule_and_two_with_one_reason_are_shown_each() {
        let row = |rate| format!("a,b,randread,4k,1,1,,{rate},41,,,,180");
        let text = |count: i32| {
            let rows: Vec<String> = (0..count).map(|at| row(9911 - at)).collect();
            text_of(&rows.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let eight = text(8);
        assert!(eight.contains("line 9:") && !eight.contains("--format json has all"), "{eight}");
        let last = eight.lines().last().unwrap();
        assert!(last.contains("0 impossible, 8 shortfall, 0 doubtful"), "{last}");
        assert!(text(9).contains("and 1 more; --format json has all"));
        let row = "a,b,randwrite,4k,1,1,O_DIRECT,,,10000,99,,180";
        let two = text_of(&[row, row]);
        assert!(two.contains("line 2:") && two.contains("line 3:"), "{two}");
    }

    #[test]
    fn lines_that_follow_each_other_are_a_range_and_four_names_are_told() {
        let numbers = |all: &[u64]| {
            let all: Vec<ClaimPlace> = all.iter().copied().map(ClaimPlace::Number).collect();
            places(&all.iter().collect::<Vec<_>>())
        };
        assert_eq!(numbers(&[7]), "line 7");
        assert_eq!(numbers(&[7, 9, 10, 11, 12]), "lines 7, 9–12");
        assert_eq!(numbers(&[2, 3, 5, 6, 7, 9]), "lines 2, 3, 5–7, 9");
        let names = ["a", "b", "c", "d"].map(|name| ClaimPlace::Name(name.to_owned()));
        assert_eq!(places(&names.iter().collect::<Vec<_>>()), "a; b; c; d");
    }
}
