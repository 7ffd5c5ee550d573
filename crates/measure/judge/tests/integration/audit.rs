//! The published tables, whose mistakes are known, and tables that are broken.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use durio_judge::audit::{
    AuditError, AuditFindings, ClaimPlace, EvidenceValue, FINDINGS_MAX, Tier, audit_table,
};
use proptest::prelude::*;

const PUBLISHED: &str = include_str!("../../data/published-results.csv");

const HEADER: &str = "source,stack,workload,block_size,jobs,iodepth,durable,read_iops,\
                      read_latency_us,write_iops,write_latency_us,bandwidth_mb_s";

fn published() -> AuditFindings {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/published-results.csv");
    audit_table(File::open(path).unwrap()).unwrap()
}

fn of_text(text: &str) -> Result<AuditFindings, AuditError> {
    audit_table(text.as_bytes())
}

fn of_row(row: &str) -> Result<AuditFindings, AuditError> {
    of_text(&format!("{HEADER}\n{row}\n"))
}

fn number(line: &ClaimPlace) -> u64 {
    match line {
        ClaimPlace::Number(number) => *number,
        ClaimPlace::Name(name) => panic!("a table has no '{name}'"),
    }
}

/// Lines of a rule's findings, ascending.
fn lines(findings: &AuditFindings, rule: &str) -> Vec<u64> {
    let of_rule = findings.findings.iter().filter(|finding| finding.rule == rule);
    of_rule.map(|finding| number(&finding.line)).collect()
}

#[test]
fn the_published_rows_that_cannot_be_right_are_exactly_these() {
    let findings = published();
    let impossible = findings.findings.iter().filter(|finding| finding.tier == Tier::Impossible);
    let lines: Vec<_> =
        impossible.map(|finding| (number(&finding.line), finding.rule.as_str())).collect();
    let expected = [
        (49, "in-flight-impossible"),
        (79, "bandwidth-impossible"),
        (80, "bandwidth-impossible"),
        (81, "bandwidth-impossible"),
        (82, "bandwidth-impossible"),
        (101, "unit-mistyped"),
    ];
    assert_eq!(lines, expected);
    assert_eq!((findings.claims, findings.clean), (186, false));
    assert!(findings.has_impossible());
}

#[test]
fn every_other_finding_in_the_published_tables_is_where_it_belongs() {
    let findings = published();
    let mut found: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for finding in findings.findings.iter().filter(|finding| finding.tier != Tier::Impossible) {
        found.entry(&finding.rule).or_default().push(number(&finding.line));
    }
    let not_durable = found.remove("durability-without-sync").unwrap();
    let too_short = found.remove("too-short").unwrap();
    let expected: BTreeMap<&str, Vec<u64>> = BTreeMap::from([
        ("average-only", vec![1]),
        ("bandwidth-unit-of-series", vec![74, 75, 76, 77, 78]),
        ("columns-exchanged", vec![49]),
        ("contradicting-rows", vec![91, 96]),
        ("depth-not-real", vec![87, 88]),
        ("digits-repeated", vec![25]),
        // 4.029 in flight of 4, 0.6 % above after rounding: fio's two averages may be that far apart.
        ("in-flight-above", vec![8]),
        ("in-flight-shortfall", vec![2, 13, 15, 17, 19, 21, 25, 71, 72, 73]),
        ("page-cache-by-volume", vec![89, 90, 91, 92, 140, 151]),
        ("sync-never-issued", vec![70]),
        ("unit-mistyped", vec![140, 141, 142]),
        ("unlike-neighbours", vec![8]),
    ]);
    assert_eq!(found, expected);
    // Writes of the studies that set no sync: 000 on drives and arrays, 003, 004.
    assert!(not_durable.iter().all(|line| !(70..=153).contains(line)), "{not_durable:?}");
    assert_eq!(not_durable.len(), 3 + 18 + 28 + 10 + 12);
    // All of 002 that state their volume.
    let stated = (89..=153).filter(|line| !(132..=139).contains(line));
    assert_eq!(too_short, stated.collect::<Vec<_>>());
}

#[test]
fn the_reasons_tell_what_would_fit() {
    let findings = published();
    let reason = |line: u64, rule: &str| {
        let of = |finding: &&durio_judge::audit::AuditFinding| {
            finding.line == ClaimPlace::Number(line) && finding.rule == rule
        };
        findings.findings.iter().find(of).unwrap().reason.clone()
    };
    assert!(reason(8, "unlike-neighbours").contains("55.79k/s"));
    assert!(reason(49, "columns-exchanged").contains("92.9 %"));
    assert!(reason(79, "bandwidth-impossible").contains("MiB/s"));
    assert!(reason(101, "unit-mistyped").contains("584 GB/s"));
    assert!(reason(25, "in-flight-shortfall").contains("46.2 %"));
    assert!(reason(71, "in-flight-shortfall").contains("44.9 %"));
}

#[test]
fn evidence_holds_the_figures_of_the_reason() {
    let findings = published();
    let finding =
        findings.findings.iter().find(|finding| finding.rule == "in-flight-above").unwrap();
    assert_eq!(finding.evidence.get("jobs_times_depth"), Some(&EvidenceValue::Number(4.0)));
    assert_eq!(finding.evidence.get("in_flight"), Some(&EvidenceValue::Number(4.02882)));
    for finding in &findings.findings {
        let named = findings.rules.iter().any(|rule| rule.rule == finding.rule);
        assert!(named && !finding.reason.is_empty() && !finding.label.is_empty());
    }
}

/// Each finding as a line of text, with all that it rests on; of rules that only count, the first three.
fn told(findings: &AuditFindings) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut text = String::new();
    for it in &findings.findings {
        let count = counts.entry(&it.rule).or_default();
        *count += 1;
        if *count > 3 && ["durability-without-sync", "too-short"].contains(&it.rule.as_str()) {
            continue;
        }
        let tier = format!("{:?}", it.tier).to_lowercase();
        text.push_str(&format!(
            "{} {}: {tier}, {}\n  {}\n",
            number(&it.line),
            it.label,
            it.rule,
            it.reason
        ));
        for (name, value) in &it.evidence {
            match value {
                EvidenceValue::Number(number) => text.push_str(&format!("  {name} {number}\n")),
                EvidenceValue::Text(words) => text.push_str(&format!("  {name} '{words}'\n")),
            }
        }
    }
    let counts = findings.counts;
    let all = [counts.impossible, counts.shortfall, counts.doubtful, counts.method];
    text + &format!("{all:?} of {}, {:?}\n", findings.claims, findings.notes)
}

/// Compares with the file, or writes it.
fn hold_against(name: &str, made: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let differs = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
    assert_eq!(differs, None, "in {path}");
    assert_eq!(kept, made, "{path}");
}

#[test]
fn what_is_told_of_the_published_tables_has_its_figures() {
    hold_against("published.txt", &told(&published()));
}

/// A row for each rule, most with a figure that no other row has.
#[test]
fn what_is_told_of_planted_faults_has_its_figures() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/planted.csv");
    let findings = audit_table(File::open(path).unwrap()).unwrap();
    hold_against("planted.txt", &told(&findings));
}

#[test]
fn the_sync_that_the_text_of_the_study_gives_makes_its_log_row_impossible() {
    let row = "a,raw NVMe,wal: seq write + fsync,8k,1,1,fsync each,,,28571,35,233.8";
    assert!(!of_row(row).unwrap().has_impossible());
    let findings = of_text(&format!("{HEADER},sync_latency_us\n{row},34.8\n")).unwrap();
    assert_eq!(lines(&findings, "in-flight-impossible"), [2]);
}

#[test]
fn a_sound_table_is_clean() {
    let text = format!("{HEADER},read_latency_p99_us\na,b,randread,4k,4,8,,320000,99,,,1311,180\n");
    let findings = of_text(&text).unwrap();
    assert!(findings.clean && findings.findings.is_empty(), "{findings:?}");
    assert_eq!((findings.claims, findings.counts.total()), (1, 0));
}

#[test]
fn other_line_ends_a_byte_order_mark_quotes_and_another_order_change_nothing() {
    let plain = published();
    let feeds = PUBLISHED.replace("\r\n", "\n");
    assert_eq!(of_text(&feeds).unwrap(), plain);
    assert_eq!(of_text(&feeds.replace('\n', "\r\n")).unwrap(), plain);
    assert_eq!(of_text(&format!("\u{feff}{PUBLISHED}")).unwrap(), plain);
    assert_eq!(of_text(&feeds.replace('\n', "\r")).unwrap(), plain);
    let mut reader = csv::Reader::from_reader(PUBLISHED.as_bytes());
    let mut writer =
        csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
    writer.write_record(reader.headers().unwrap().iter().rev()).unwrap();
    for record in reader.records() {
        writer.write_record(record.unwrap().iter().rev()).unwrap();
    }
    let turned = String::from_utf8(writer.into_inner().unwrap()).unwrap();
    assert_eq!(of_text(&turned).unwrap(), plain);
}

#[test]
fn lines_count_what_is_skipped_and_what_is_within_quotes() {
    let row = "a,b,randread,4k,1,1,,10000,500,,,";
    let text = format!("{HEADER}\n\n\"two\nlines\",b,randread,4k,1,1,,10000,50,,,\n\r\n{row}\n");
    assert_eq!(lines(&of_text(&text).unwrap(), "in-flight-impossible"), [6]);
}

#[test]
fn units_in_cells_are_understood() {
    let rows = [
        "a,b,randread,4k,4,1,,56.8k,70.93 μs,,,",
        "a,b,randread,4KiB,4,1,,\"56,800 IOPS\",0.07093 ms,,,",
        "a,b,randread,4k,4,1,,56.8k/s,70930 ns,,,",
    ];
    for row in rows {
        assert_eq!(lines(&of_row(row).unwrap(), "in-flight-above"), [2], "{row}");
    }
    let row = "a,b,randread,8k,8,4,,342k,,,,2672MiB/s";
    assert!(lines(&of_row(row).unwrap(), "bandwidth-impossible").is_empty());
    let row = "a,b,randread,8k,8,4,,342k,,,,2672";
    assert_eq!(lines(&of_row(row).unwrap(), "bandwidth-impossible"), [2]);
}

#[test]
fn a_column_that_is_not_known_is_noted_and_not_read() {
    let findings = of_text(&format!("{HEADER},colour\na,b,c,,,,,,,,,,blue\n")).unwrap();
    assert!(findings.clean && findings.notes.iter().any(|note| note.contains("colour")));
}

#[track_caller]
fn refused(bytes: &[u8], words: &[&str]) {
    let error = audit_table(bytes).unwrap_err();
    for word in words {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    assert!(error.advice().split(" ").count() > 3, "{}", error.advice());
}

#[test]
fn broken_tables_are_refused_with_line_and_column() {
    let with = |row: &str| format!("{HEADER}\n{row}\n").into_bytes();
    refused(b"", &["empty"]);
    refused(b"\n\n", &["empty"]);
    refused(HEADER.as_bytes(), &["no row"]);
    refused(b"a,b,c\n1,2,3\n", &["lacks", "stack", "bandwidth_mb_s"]);
    refused(b" {\n  \"fio version\": \"fio-3.33\",\n", &["JSON"]);
    refused(format!("{HEADER},jobs\n").as_bytes(), &["'jobs' twice"]);
    refused(&with("a,b,c"), &["line 2", "3 fields", "12"]);
    refused(&with("a,b,c,4 parsecs,,,,,,,,"), &["line 2", "block_size", "parsecs"]);
    refused(&with("a,b,c,,0,,,,,,,"), &["line 2", "jobs", "'0'"]);
    refused(&with("a,b,c,,-4,,,,,,,"), &["jobs", "'-4'"]);
    refused(&with("a,b,c,,,,,NaN,,,,"), &["read_iops", "NaN"]);
    refused(&with("a,b,c,,,,,14 parsecs,,,,"), &["read_iops", "parsecs"]);
    refused(&with("a,b,c,,,,,,\"1,5\",,,"), &["read_latency_us", "1,5"]);
    refused(&with("a,b,c,,,,,,,,,584 furlongs"), &["bandwidth_mb_s", "furlongs"]);
    refused(&with(&format!("a,b,c,,,,,{},,,,", "9".repeat(500))), &["read_iops", "…"]);
    refused(&with("a,b,c,,,,,,,,,\"12"), &["line 2", "never closed"]);
    refused(&with("a,\"b,c,,,,,,,,,\na,b,c,,,,,,,,,"), &["line 2", "never closed"]);
    refused(&[HEADER.as_bytes(), b"\na,b\xff,c,,,,,,,,,\n"].concat(), &["line 2", "UTF-8"]);
    refused(&[0x1f, 0x8b, 0x08, 0, 0, 0, 3], &["line 1", "UTF-8"]);
    refused(&[0xff; 4096], &["UTF-8"]);
}

/// A header, then a row again and again.
struct Endless<'a> {
    row: &'a [u8],
    at: usize,
    left: usize,
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.left);
        for byte in buffer.iter_mut().take(count) {
            *byte = self.row[self.at % self.row.len()];
            self.at += 1;
        }
        self.left -= count;
        Ok(count)
    }
}

fn endless(row: &[u8], bytes: usize) -> impl Read {
    let header = io::Cursor::new(format!("{HEADER}\n").into_bytes());
    header.chain(Endless { row, at: 0, left: bytes / row.len() * row.len() })
}

#[test]
fn a_long_table_keeps_a_bounded_number_of_findings() {
    let row = b"a,b,randread,4k,1,1,,10000,500,,,\n";
    let rows = FINDINGS_MAX * 2 + 500;
    let findings = audit_table(endless(row, row.len() * rows)).unwrap();
    assert_eq!(findings.claims, rows as u64);
    assert!(findings.findings.len() <= 2 * FINDINGS_MAX);
    let kept = findings.findings.len() as u64;
    assert_eq!(findings.counts.total(), kept + findings.findings_left_out);
    assert!(findings.findings_left_out > 0);
}

#[test]
fn a_row_without_end_is_refused_and_not_held_in_memory() {
    let quote = io::Cursor::new(format!("{HEADER}\n\"").into_bytes());
    let within = Endless { row: b"a\n", at: 0, left: 1 << 27 };
    let error = audit_table(quote.chain(within)).unwrap_err();
    assert!(matches!(error, AuditError::LongRow { line: 2, .. }), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = audit_table(&bytes[..]);
        let _ = audit_table(&[HEADER.as_bytes(), b"\n", &bytes[..]].concat()[..]);
    }

    #[test]
    fn no_cells_make_it_panic(cells in proptest::collection::vec("[0-9.kM,µs/ \"]{0,12}", 12)) {
        let _ = of_row(&cells.join(","));
    }

    /// Whatever was measured, and however it is rounded for print, is not called impossible.
    #[test]
    fn rounding_never_makes_a_true_row_impossible(
        jobs in 1_u32..200, latency_us in 5.0..900.0_f64, share in 0.9..1.0_f64,
        digits in 2..5_u8,
    ) {
        let rate = f64::from(jobs) * share / latency_us * 1e6;
        let power = 10_f64.powf(rate.log10().floor() + 1.0 - f64::from(digits));
        for printed in [(rate / power).round() * power, (rate / power).floor() * power] {
            let row = format!("a,b,randread,4k,{jobs},1,,{printed:.0},{latency_us:.1},,,");
            let findings = of_row(&row).unwrap();
            prop_assert!(!findings.has_impossible(), "{row}: {findings:?}");
            prop_assert!(lines(&findings, "in-flight-shortfall").is_empty(), "{row}");
        }
    }
}
