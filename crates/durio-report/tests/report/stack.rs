//! Benches of stacks in every format: what a reader finds in them.

use durio_analyse::attribution::{LabComparison, StackFindings, Timing, compare_labs};
use durio_report::{Format, Options, render_stack, write_lab_comparison};

use crate::sample::HOSTILE;
use crate::stack_sample::Runs;

fn written(format: Format, findings: &StackFindings, width: usize) -> String {
    let mut out = Vec::new();
    let options = Options { width, colour: false };
    render_stack(format, findings, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn bench() -> StackFindings {
    Runs::new().findings(None)
}

fn counted() -> StackFindings {
    Runs::new().findings(Some(Timing::Counted))
}

#[test]
fn the_terminal_shows_a_bench_as_it_always_did() {
    let text = written(Format::Text, &counted(), 100);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/stack_golden.txt");
    let golden = std::fs::read_to_string(path).unwrap();
    assert!(text == golden, "the terminal shows:\n{text}");
}

#[test]
fn every_line_fits_the_terminal() {
    for width in [100, 120] {
        let text = written(Format::Text, &bench(), width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn counted_figures_have_their_label_wherever_they_stand() {
    let (label, findings) = ("software cost per I/O without contention", counted());
    for format in [Format::Text, Format::Json, Format::Html] {
        let text = written(format, &findings, 400);
        assert!(text.contains(label), "{format}");
        assert!(!written(format, &bench(), 400).contains(label), "{format}");
    }
    let text = written(Format::Text, &findings, 400);
    let published = text.lines().find(|line| line.contains("Beside what was published")).unwrap();
    assert!(published.contains(label), "{published}");
    assert!(written(Format::Csv, &findings, 100).lines().nth(1).unwrap().contains(",counted,"));
}

#[test]
fn what_failed_says_why_in_every_format() {
    for format in [Format::Text, Format::Json, Format::Html, Format::Csv] {
        let text = written(format, &bench(), 200);
        assert!(text.contains("the smallest filesystem is 300 MiB"), "{format}");
    }
}

#[test]
fn the_page_has_tables_and_charts_and_runs_nothing() {
    let html = written(Format::Html, &bench(), 100);
    assert_eq!(html.matches("<svg").count(), 3);
    assert_eq!(html.matches("<table").count(), 4);
    assert!(!html.contains("<script") && html.contains("default-src 'none'"));
    for part in ["Costs per operation", "entry to first queue", "other order", "same order"] {
        assert_eq!(html.contains(part), part != "other order", "{part}");
    }
    assert!(html.contains("raw-drift") || html.contains("raw rates are off the median"));
}

#[test]
fn the_document_is_one_and_reads_back() {
    let findings = bench();
    let text = written(Format::Json, &findings, 100);
    assert!(text.contains("\"durio-stack-findings-1\""));
    assert_eq!(serde_json::from_str::<StackFindings>(&text).unwrap(), findings);
}

#[test]
fn csv_has_a_line_per_point_of_equal_length() {
    let text = written(Format::Csv, &bench(), 100);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|it| it == name).unwrap();
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 7);
    let share: f64 = records[2][at("share_of_raw")].parse().unwrap();
    assert!((share - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(&records[2][at("time_entry_ns")], "210000");
    assert_eq!(&records[2][at("device_writes_per_write")], "");
    assert_eq!(&records[4][at("raid_share_of_healthy")], "1.28");
    assert!(records[6][at("rate_per_second")].is_empty());
}

#[test]
fn fios_format_has_no_place_for_a_bench() {
    let written = render_stack(Format::FioJson, &bench(), &Options::default(), &mut Vec::new());
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

/// Every name is hostile, and every figure odd.
fn hostile() -> StackFindings {
    let mut findings = bench();
    findings.name = HOSTILE.into();
    findings.kernels = vec![HOSTILE.into()];
    for point in &mut findings.points {
        (point.stack, point.layer, point.name) = (HOSTILE.into(), HOSTILE.into(), HOSTILE.into());
        point.failure = Some(HOSTILE.into());
    }
    for workload in &mut findings.workloads {
        workload.label = HOSTILE.into();
        workload.published.iter_mut().for_each(|it| it.sentence = HOSTILE.into());
        for fall in &mut workload.waterfalls {
            fall.steps.iter_mut().for_each(|it| it.layer = HOSTILE.into());
        }
    }
    findings
}

#[test]
fn hostile_names_stay_text() {
    let html = written(Format::Html, &hostile(), 100);
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains('\x1b'));
    assert!(!written(Format::Text, &hostile(), 100).contains('\x1b'));
}

#[test]
fn odd_figures_stop_no_format() {
    for odd in [0.0, f64::NAN, f64::INFINITY, -1.0, 1e300] {
        let mut findings = bench();
        for row in &mut findings.workloads[0].rows {
            let Some(figures) = &mut row.figures else { continue };
            (figures.rate_per_second, figures.share_of_raw) = (odd, Some(odd));
            (figures.time_per_operation_ns, figures.cpu_ns_per_operation) = (odd, Some(odd));
        }
        for step in findings.workloads[0].waterfalls.iter_mut().flat_map(|it| &mut it.steps) {
            (step.total_ns, step.added_ns) = (odd, odd);
        }
        for format in [Format::Text, Format::Html, Format::Csv] {
            assert!(!written(format, &findings, 100).is_empty(), "{format} with {odd}");
        }
    }
}

#[test]
fn the_bench_shows_itself_and_asks_for_nothing() {
    for findings in [bench(), hostile()] {
        let html = written(Format::Html, &findings, 100);
        let test = "the_bench_shows_itself_and_asks_for_nothing";
        let Some(visit) = crate::browser::visit(test, &html) else { return };
        assert_eq!(visit.console, [""; 0], "console");
        assert_eq!(visit.requests, [""; 0], "requests");
        assert!(visit.screenshot > 10_000, "{} bytes of screenshot", visit.screenshot);
    }
}

fn changes() -> LabComparison {
    let old = counted();
    let mut new = counted();
    new.kernels = vec!["6.12.95".into()];
    for row in &mut new.workloads[0].rows {
        let Some(figures) = row.figures.as_mut().filter(|_| row.point == 1) else { continue };
        figures.time_per_operation_ns /= 1.5;
        figures.rate_interval = None;
    }
    compare_labs(&old, &new).unwrap()
}

#[test]
fn two_kernels_are_compared_layer_by_layer() {
    let to = |format| {
        let mut out = Vec::new();
        let written = write_lab_comparison(format, &changes(), &Options::default(), &mut out);
        written.map(|()| String::from_utf8(out).unwrap())
    };
    let text = to(Format::Text).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["kernel 6.12.95", "COUNTED", "0.67", "cheaper", "no different", "RAID1 [mirror]"] {
        assert!(joined.contains(part), "{part} in {text}");
    }
    assert!(to(Format::Json).unwrap().contains("durio-lab-compare-1"));
    let csv = to(Format::Csv).unwrap();
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert_eq!(to(Format::Html).unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}
