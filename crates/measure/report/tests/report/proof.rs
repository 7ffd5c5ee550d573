//! Proofs by power cuts: what the golden folder of durio-record says in every format.

use std::path::Path;

use durio_base::{Bytes, Nanos};
use durio_observe::{Host, PowerState};
use durio_plan::proof::{
    CommandGuest, CommandTarget, ExpectedVerdict, GuestFrontEnd, GuestLayers, LossClass,
    ProofTarget,
};
use durio_record::Outcome;
use durio_record::proof::{
    AcknowledgedWrite, CheckFindings, CutRecord, InPlace, Inventory, LossPicture, MapArea,
    ProofFindings, ProofFolder, ProofManifest, ProofVerdict, TileState, Tiles, TimeSlot,
    analyse_proof,
};
use durio_report::{Format, Options, write};

use crate::browser::visit;

fn golden() -> (ProofManifest, Vec<CutRecord>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/record/tests/golden/proof1");
    let folder = ProofFolder::open(Path::new(path)).unwrap();
    let cuts = folder.cuts().unwrap();
    (folder.manifest, cuts)
}

/// An honest disk that is honest, a liar that is found.
fn passed() -> ProofFindings {
    let (manifest, cuts) = golden();
    analyse_proof(&manifest, &cuts)
}

/// The same where nobody knew of the liar.
fn failed() -> ProofFindings {
    let (mut manifest, cuts) = golden();
    manifest.plan.series[1].expected = Some(ExpectedVerdict::Holds);
    analyse_proof(&manifest, &cuts)
}

/// A picture as large as they come, in which no two tiles beside each other are alike.
fn picture() -> LossPicture {
    let tile = |at: usize| TileState::ALL[at % TileState::ALL.len()];
    let area = |(name, first_cell, tiles): (&str, u64, usize)| MapArea {
        name: name.to_owned(),
        first_cell,
        tiles: Tiles((0..tiles).map(tile).collect()),
    };
    let areas =
        [("journal", 1, 256), ("table", 65, 512), ("control", 193, 64), ("canary", 209, 196)];
    let slot =
        |at: u32| TimeSlot { acknowledged: 5 + at % 7, missing: if at > 80 { 3 } else { 0 } };
    let write = |at: i64| AcknowledgedWrite {
        at_ns: (at - 250) * 390_000,
        cell: at.unsigned_abs() * 1000 % 262_144,
        is_there: at < 128,
    };
    LossPicture {
        slot_ns: 1_000_000,
        begin_before_ns: 98_000_000,
        slots: (0..100).map(slot).collect(),
        writes: (0..256).map(write).collect(),
        areas: areas.map(area).into(),
        cells_per_tile: 256,
    }
}

/// That surprise, with all that a record of today has.
fn pictured() -> ProofFindings {
    let (mut manifest, mut cuts) = golden();
    manifest.plan.series[1].expected = Some(ExpectedVerdict::Holds);
    for cut in cuts.iter_mut().filter(|cut| !cut.findings.findings.is_empty()) {
        cut.findings.picture = Some(Box::new(picture()));
        let host =
            Host { hostname: Some("db1".into()), kernel: "6.12.9".into(), ..Host::default() };
        let (stack, qemu, power) = (None, Some("7.2".into()), PowerState::default());
        cut.inventory = Some(Box::new(Inventory { host, stack, qemu, power }));
    }
    analyse_proof(&manifest, &cuts)
}

fn written(format: Format, findings: &ProofFindings, verbose: bool) -> String {
    let mut out = Vec::new();
    write(format, findings, &Options { verbose, ..Options::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// `DURIO_TEST_REWRITE=1` writes the file anew.
#[test]
fn the_golden_folder_says_what_it_always_did() {
    let texts = [(passed(), false), (passed(), true), (failed(), false)];
    let text = texts.map(|(findings, verbose)| written(Format::Text, &findings, verbose));
    let text = text.join("\n");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/proof_golden.txt");
    if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == golden, "the terminal shows:\n{text}");
    let verdicts = passed().series.iter().map(|series| series.verdict).collect::<Vec<_>>();
    let lost = ProofVerdict::Breaks { class: LossClass::Lost };
    assert_eq!(verdicts, [ProofVerdict::NoLoss, lost]);
}

#[test]
fn a_surprise_is_told_before_all_else_and_what_was_expected_to_who_asks() {
    let text = written(Format::Text, &failed(), false);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("Bad: ") && first.ends_with(" lost acknowledged writes."), "{text}");
    assert!(text.contains("PROVED: the simulated disk 'flush-every-third'"), "{text}");
    assert!(text.contains("write 91, acknowledged 815 µs before the cut"), "{text}");
    let quiet = written(Format::Text, &passed(), false);
    assert!(
        quiet.starts_with(
            "Good: all 2 series came out as expected: 1 lost nothing, 1 lied and was caught.\n"
        ),
        "{quiet}"
    );
    assert!(!quiet.contains("write 91"), "{quiet}");
    assert!(written(Format::Text, &passed(), true).contains("write 91"));
}

/// As many series, of which the first ones differ from the expectation.
fn many(series: usize, surprises: usize) -> ProofFindings {
    let mut findings = passed();
    let [kept, lost] = [0, 1].map(|at: usize| findings.series[at].clone());
    findings.series = (0..series)
        .map(|at| {
            let mut series = if at % 3 == 0 { lost.clone() } else { kept.clone() };
            series.as_expected = Some(at >= surprises);
            series.series.name = format!("series {at}");
            series
        })
        .collect();
    findings
}

#[test]
fn a_screen_counts_what_was_expected_and_lists_what_was_not() {
    let text = |series, surprises| written(Format::Text, &many(series, surprises), false);
    let row = |text: &str, word: &str| {
        let row = text.lines().find(|line| line.starts_with(word)).map(str::to_owned);
        row.map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" "))
    };
    let all = text(92, 0);
    let first = all.lines().next();
    let sentence =
        "Good: all 92 series came out as expected: 61 lost nothing, 31 lied and were caught.";
    assert_eq!(first, Some(sentence));
    assert_eq!(row(&all, "no loss").as_deref(), Some("no loss 61 305 21411"), "{all}");
    assert_eq!(row(&all, "lost ").as_deref(), Some("lost 31 31 2170"), "{all}");
    assert!(!all.contains("write-back") && !all.contains("loss rate"), "{all}");
    assert!(all.lines().count() <= 9, "{all}");
    // Series 0, a loss, and 1, none.
    let two = text(92, 2);
    assert!(two.starts_with("Bad: ") && two.lines().count() <= 30, "{two}");
    assert_eq!(row(&two, "no loss").as_deref(), Some("no loss 60 300 21060"), "{two}");
    let differing = |text: &str| text.matches(" NO (").count();
    assert_eq!((differing(&two), two.matches(" yes ").count()), (2, 0), "{two}");
    assert!(two.contains("NO (lost within 9)") && two.contains("< 45.1 %"), "{two}");
    // Twelve have room, and of a dozen in all the expected ones too.
    assert_eq!([12, 13].map(|surprises| differing(&text(92, surprises))), [12, 12]);
    let note = "1 more not as expected; --verbose lists all series";
    assert!(text(92, 13).contains(note) && !text(92, 12).contains("more not"));
    let short = |series| text(series, 0).matches(" yes ").count();
    assert_eq!((short(12), short(13)), (12, 0));
    let verbose = written(Format::Text, &many(92, 13), true);
    assert_eq!((differing(&verbose), verbose.matches(" yes ").count()), (13, 79), "{verbose}");
}

#[test]
fn a_proof_without_its_end_says_so_and_how_to_go_on() {
    let (mut manifest, cuts) = golden();
    for (outcome, word) in
        [(None, "Incomplete. Resume"), (Some(Outcome::Interrupted), "Interrupted. Resume")]
    {
        manifest.outcome = outcome;
        let text = written(Format::Text, &analyse_proof(&manifest, &cuts[..1]), false);
        assert!(text.contains(word) && text.contains("--resume"), "{text}");
        assert!(text.contains("1 of 2 series not started"), "{text}");
        assert!(text.contains("No loss: in 1 effective power cut of"), "{text}");
        let both = [&cuts[..1], &cuts[3..4]].concat();
        let text = written(Format::Text, &analyse_proof(&manifest, &both), false);
        assert!(text.contains("1 of 2 series came out as expected so far."), "{text}");
    }
    let none = written(Format::Text, &analyse_proof(&manifest, &[]), false);
    assert!(none.contains("2 of 2 series not started") && !none.contains("as expected"), "{none}");
}

/// A user's command on one of the disks, whose check ended so.
fn commanded(exit_code: Option<u8>) -> ProofFindings {
    let (mut manifest, mut cuts) = golden();
    manifest.plan.series.truncate(1);
    let series = &mut manifest.plan.series[0];
    (series.arm, series.expected) = (None, None);
    series.target = ProofTarget::Command(CommandTarget {
        command: ["/srv/own.sh", "load"].map(str::to_owned).to_vec(),
        setup: None,
        check: "own.sh check".to_owned(),
        directory: "/srv".to_owned(),
        load: Nanos::from_secs(2),
        profile: "flush-ignored".to_owned(),
        size: Bytes::from_mib(256),
        front_end: GuestFrontEnd::VirtioBlk,
        write_cache: true,
        layers: GuestLayers::EXT4,
        guest: CommandGuest {
            kernel: None,
            shares_root: true,
            tools: Vec::new(),
            files: Vec::new(),
            memory: Bytes::from_gib(1),
            limit: Nanos::from_secs(1),
        },
    });
    cuts.truncate(1);
    let (said, last_acknowledged) = ("17 is \u{1b}gone".to_owned(), "committed 17".to_owned());
    cuts[0].findings.check =
        Some(CheckFindings { exit_code, said, last_acknowledged, on_the_way: 0 });
    analyse_proof(&manifest, &cuts)
}

#[test]
fn a_users_command_is_named_with_its_disk_and_its_check_has_its_say() {
    // In one line, wherever it was broken.
    let shown = |exit_code| {
        let text = written(Format::Text, &commanded(exit_code), false);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = shown(Some(1));
    let line = "'flush-ignored / virtio-blk / ext4 / own.sh load' fails its check";
    assert!(text.contains(line) && text.contains("exit code 1"), "{text}");
    assert!(text.contains("committed 17") && text.contains("gone"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("4 KiB"), "{text}");
    let verbose = written(Format::Text, &commanded(Some(1)), true);
    assert!(verbose.contains("own switch") && verbose.contains("came after"), "{verbose}");
    let passed = shown(Some(0));
    assert!(passed.contains("passed its check after 1 effective power cut"), "{passed}");
    let gone = shown(None);
    assert!(gone.contains("did not come back whole"), "{gone}");
    for format in [Format::Json, Format::Html, Format::Markdown] {
        let text = written(format, &commanded(Some(1)), true);
        assert!(text.contains("own.sh check") && text.contains("committed 17"), "{text}");
        assert!(!text.contains('\u{1b}'), "{format}: {text}");
    }
}

#[test]
fn odd_figures_stop_no_format() {
    let (mut manifest, cuts) = golden();
    manifest.plan.series[0].name = "\u{1b}[31m<b>|`".repeat(9);
    let odd = |mut cut: CutRecord| {
        let found = &mut cut.findings;
        (found.acknowledged, found.acknowledged_late, found.kept) = (u64::MAX, u64::MAX, u64::MAX);
        found.controls.written = u64::MAX;
        found.in_flight.kept = u64::MAX;
        for it in &mut found.findings {
            (it.sector, it.acknowledged_before_ns) = (u64::MAX, Some(u64::MAX));
            it.found = InPlace::OfElsewhere { home: u64::MAX, seq: u64::MAX };
        }
        cut
    };
    let cuts: Vec<_> = cuts.into_iter().map(odd).collect();
    let findings = analyse_proof(&manifest, &cuts);
    for format in [Format::Text, Format::Json, Format::Html, Format::Markdown, Format::Csv] {
        let text = written(format, &findings, true);
        assert!(!text.is_empty() && !text.contains('\u{1b}'), "{format}");
    }
}

#[test]
fn a_loss_is_drawn_in_characters_with_the_words_for_each() {
    let text = written(Format::Text, &pictured(), true);
    let line = |begin: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(begin));
        found.unwrap_or_else(|| panic!("no {begin}:\n{text}")).trim().to_owned()
    };
    assert!(line("acknowledged per 1 ms").contains('█'), "{text}");
    assert!(line("not there").contains("▁▁▁"), "{text}");
    assert!(line("journal").ends_with(&"GEMXCULTxfkc.".repeat(5)[..64]), "{text}");
    assert!(line("The target after the cut").contains("256 cells of 4 KiB"), "{text}");
    assert!(text.contains("L lost: 79 · T torn: 79"), "{text}");
    assert!(text.contains("Linux 6.12.9"), "{text}");
    let short = written(Format::Text, &pictured(), false);
    assert!(short.contains("acknowledged per 1 ms") && !short.contains("GEMX"), "{short}");
    let narrow = Options { width: 50, verbose: true, ..Options::default() };
    let mut out = Vec::new();
    write(Format::Text, &pictured(), &narrow, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let widest =
        text.lines().filter(|line| line.contains("GEMXCULT")).map(|line| line.chars().count());
    assert_eq!(widest.max(), Some(2 + 8 + 2 + 32), "{text}");
}

#[test]
fn pictures_of_many_losses_leave_a_page_below_a_megabyte_and_surprises_have_theirs() {
    let mut findings = pictured();
    let expected = {
        let mut it = findings.series[1].clone();
        it.as_expected = Some(true);
        it
    };
    findings.series.splice(0..1, vec![expected; 60]);
    let html = written(Format::Html, &findings, true);
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
    // A page has itself as Markdown at its end.
    let html = html.split("id=\"markdown\"").next().unwrap();
    assert_eq!(html.matches("The target after the cut").count(), 2 * 8, "caption and label");
    assert_eq!(html.matches("Charts are left out").count(), 61 - 8);
    let last = html.rfind("The target after the cut").unwrap();
    assert!(html[last..].matches("Lost: ").count() == 0, "the surprise comes last, and has one");
}

#[test]
fn a_record_keeps_its_picture_and_its_inventory() {
    let (_, cuts) = golden();
    let mut cut = cuts.into_iter().next().unwrap();
    cut.findings.picture = Some(Box::new(picture()));
    let text = serde_json::to_string(&cut).unwrap();
    assert_eq!(serde_json::from_str::<CutRecord>(&text).unwrap(), cut);
    assert!(text.len() < 16 << 10, "{} bytes", text.len());
    let json: serde_json::Value =
        serde_json::from_str(&written(Format::Json, &pictured(), false)).unwrap();
    let loss = &json["series"][1]["loss"];
    assert_eq!(loss["picture"]["slots"][99], serde_json::json!([6, 3]));
    assert_eq!(json["series"][1]["inventory"]["host"]["hostname"], "db1");
}

#[test]
fn the_page_of_a_proof_shows_itself_and_asks_for_nothing() {
    for findings in [passed(), failed(), pictured()] {
        let html = written(Format::Html, &findings, true);
        let Some(visit) = visit("the_page_of_a_proof_shows_itself_and_asks_for_nothing", &html)
        else {
            return;
        };
        assert_eq!((visit.console, visit.requests), (Vec::new(), Vec::new()));
        assert!(visit.screenshot > 10_000, "{} bytes of screenshot", visit.screenshot);
    }
}
