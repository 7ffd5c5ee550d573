//! What a reader finds of a run of `durio durable`.

use std::sync::LazyLock;

use durio_analyse::durable::{ArmSetting, FileModeRow, FileModesFindings};
use durio_analyse::{DeclinedAnalysis, Findings};
use durio_plan::FileLayout;
use durio_report::{Format, Options};
use durio_workload::{CacheMode, SyncMethod};

use crate::campaign::section;
use crate::durable_cells::{arm, setting};
use crate::times::device_time;
use crate::{durable_sample, sample, written, written_with};

static DURABLE: LazyLock<Findings> = LazyLock::new(durable_sample::durable);

/// Without the breaks of lines.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_question_has_its_answer_in_the_text() {
    let text =
        written_with(Format::Text, &DURABLE, &Options { width: 160, colour: false, verbose: true });
    let mut missing = Vec::new();
    let mut said = |heading: &str, words: &str| {
        let found = flat(section(&text, heading));
        if !found.contains(words) {
            missing.push(format!("{heading}: {words}"));
        }
    };
    said("Sync methods", "fastest o_dsync direct");
    said("Sync methods", "warning rwf_dsync direct: RWF_DSYNC is not supported here");
    said("Requests of a commit", "W 4 KiB, WSM 16 KiB, FF 0 B");
    said(
        "Requests of a commit",
        "in words o_dsync direct, recycled: write of 4 KiB past the cache (FUA)",
    );
    said("Sync calls", "library fdatasync: 20 calls, 0 flushes at the devices, 100 µs each");
    said("Sizes", "cost o_dsync direct: 16");
    said("Sizes", "for 80 %");
    said("Writers", "σ 5.");
    said("Writers", "one log that writes 32 records at once beats 32 independent writers");
    said("Sizes by writers", "limited by");
    said("Shared syncs", "÷ N");
    said("Flush slope", "flat fdatasync direct");
    said(
        "Group commit",
        "gain 8 committers commit 5.2 × as often by sharing syncs (records of 8 KiB)",
    );
    said("Commit delay", "advised 64 committers: a delay of 50 µs: 30.0 % more commits");
    said("What was left out", "left out writers on devices: no device was named");
    assert!(missing.is_empty(), "{missing:#?} in {text}");
    assert!(!text.contains("\nMethods\n"), "the steps are not shown again");
}

#[test]
fn the_answers_fit_a_screen() {
    let text = written_with(Format::Text, &DURABLE, &Options::default());
    assert!(text.lines().count() <= 30, "{}:\n{text}", text.lines().count());
    assert!(text.lines().next().unwrap().contains(" by o_dsync (direct), the fastest"), "{text}");
    let short = flat(&text);
    assert!(short.contains("group commit gain: 8 committers"), "{short}");
    // The answers to the other questions are one option away.
    assert!(!short.contains("sync calls library"), "{short}");
    let verbose = Options { verbose: true, ..Options::default() };
    let whole = flat(&written_with(Format::Text, &DURABLE, &verbose));
    assert!(whole.contains("sync calls library: fdatasync: 20 calls"), "{whole}");
}

#[test]
fn a_screen_of_a_whole_study_has_each_answer_and_its_doubts_in_a_line() {
    let mut findings = DURABLE.clone();
    for workload in &mut findings.workloads {
        workload.device_time = device_time(95);
    }
    let checked = sample::complete();
    (findings.signals, findings.warnings) = (checked.signals, checked.warnings);
    let preallocated = ArmSetting {
        layout: Some(FileLayout::Preallocated),
        ..setting(SyncMethod::Fdatasync, CacheMode::Buffered)
    };
    let row = FileModeRow {
        arm: arm(1, preallocated),
        share_of_recycled: Some(0.653),
        further_writes_per_commit: Some(0.97),
    };
    let durable = findings.durable.as_mut().unwrap();
    durable.file_modes = vec![FileModesFindings { rows: vec![row] }];
    let text = written_with(Format::Text, &findings, &Options::default());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() <= 30, "{}:\n{text}", lines.len());
    let first = lines.iter().position(|line| line.starts_with("file modes")).unwrap();
    let said = "file modes    preallocated: fdatasync buffered reaches 65.3 % of its rate on a \
                recycled file";
    assert_eq!(lines[first], said);
    let time = "time          95 µs by o_dsync: device 41 %, waiting for a CPU 22 %, filesystem and \
                kernel 37 %";
    assert_eq!(lines[first + 3], time);
    let labels = lines[first..].iter().map(|line| line.split("  ").next().unwrap());
    let labels: Vec<&str> = labels.take_while(|label| !label.is_empty()).collect();
    let expected = ["file modes", "sizes", "group commit", "time", "flush", "caveats (2)"];
    assert_eq!(labels, expected, "{text}");
}

#[test]
fn what_no_model_fits_is_one_line_with_its_reason_in_the_details() {
    let mut findings = DURABLE.clone();
    let durable = findings.durable.as_mut().unwrap();
    let too_few = || Some(DeclinedAnalysis::TooFew { what: "sizes".into(), given: 2, needed: 3 });
    for curve in &mut durable.sizes.as_mut().unwrap().curves {
        (curve.model, curve.declined) = (None, too_few());
    }
    for writers in &mut durable.writers {
        (writers.contention, writers.declined) = (None, too_few());
    }
    let verbose = Options { verbose: true, ..Options::default() };
    let whole = flat(&written_with(Format::Text, &findings, &verbose));
    assert!(whole.contains("no model sizes, writers: no model fits"), "{whole}");
    assert!(whole.contains("are too few"), "{whole}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [80, 100, 160] {
        let text =
            written_with(Format::Text, &DURABLE, &Options { width, colour: false, verbose: true });
        let mut lines = text.lines().filter(|line| !line.starts_with("  durio "));
        let wide = lines.find(|line| line.chars().count() > width);
        assert_eq!(wide, None, "{width}");
    }
}

#[test]
fn the_page_draws_cost_throughput_and_the_sequence_of_a_commit() {
    let html = written(Format::Html, &DURABLE);
    for title in [
        "Mean time of a write against its size; dots measured, lines fitted",
        "o_dsync direct, 8 KiB, one file: throughput against writers; dots measured, lines the law",
        "One commit at the device, median times, one scale",
        "p50 and p99: shorter is better",
        "Records per batch, by committers",
        "Time of a flush against the data written before it",
    ] {
        assert!(html.contains(&format!("<figcaption>{title}")), "{title}");
    }
    assert!(html.contains("WSM") && html.len() < 1 << 20, "{} bytes", html.len());
    if let Some(path) = std::env::var_os("DURIO_TEST_KEEP_PAGE") {
        std::fs::write(path, html).unwrap();
    }
}

#[test]
fn the_document_has_what_follows_and_survives_its_saved_form() {
    let text = written(Format::Json, &DURABLE);
    let again: Findings = serde_json::from_str(&text).unwrap();
    assert_eq!(again.durable, DURABLE.durable);
    let durable = again.durable.unwrap();
    let law = durable.writers[0].contention.as_ref().unwrap().law;
    assert!((law.contention.value - 0.05).abs() < 0.005, "{law:?}");
    let model = durable.sizes.unwrap().curves[0].model.clone().unwrap();
    // The script's mean is 1.065 × what is planted: its tail.
    assert!((model.fixed_ns.value / 1.065 / 150e3 - 1.0).abs() < 0.02, "{model:?}");
}
