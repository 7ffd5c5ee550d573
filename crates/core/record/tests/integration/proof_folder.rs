//! The proof folder: written cut by cut, read also where it was killed, every field described.

use std::fs;
use std::path::{Path, PathBuf};

use durio_base::{Bytes, Nanos, RaidLevel};
use durio_plan::proof::{
    AgentTarget, ArrayTarget, CommandGuest, CommandTarget, DurablePath, ExpectedVerdict,
    GuestFrontEnd, GuestLayers, LossClass, ProofTarget, SimulatedVia,
};
use durio_record::proof::{
    CUTS, CheckFindings, CutEvidence, CutFindings, CutRecord, Finding, InPlace,
    PROOF_FOLDER_SCHEMA, PROOF_MANIFEST, ProofFolder, ProofManifest,
};
use durio_record::{Outcome, RecordErrorKind};
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/proof1")
}

fn golden_manifest() -> ProofManifest {
    ProofFolder::open(&golden()).unwrap().manifest
}

fn finding(class: LossClass, found: InPlace) -> Finding {
    let acknowledged_before_ns = Some(815_288);
    Finding { class, sector: 416, sectors: 8, seq: 91, acknowledged_before_ns, found }
}

fn cut(number: u32) -> CutRecord {
    let evidence = CutEvidence {
        unsafe_shutdowns: Some([4, 5]),
        rebooted: Some(true),
        ..CutEvidence::default()
    };
    let findings = CutFindings {
        youngest_kept_ns: Some(7),
        findings: in_places().into_iter().map(|place| finding(LossClass::Lost, place)).collect(),
        check: Some(check(Some(0))),
        ..CutFindings::default()
    };
    CutRecord { series: 0, cut: number, evidence, findings, took_ns: 1, inventory: None }
}

fn check(exit_code: Option<u8>) -> CheckFindings {
    let (said, last_acknowledged) = ("gone: 3".to_owned(), "committed 3".to_owned());
    CheckFindings { exit_code, said, last_acknowledged, on_the_way: 1 }
}

fn of_check(exit_code: Option<u8>) -> CutFindings {
    CutFindings { check: Some(check(exit_code)), ..CutFindings::default() }
}

#[test]
fn a_check_tells_a_loss_by_its_exit_code_and_a_filesystem_by_its_absence() {
    for (exit_code, class) in
        [(Some(0), None), (Some(1), Some(LossClass::CheckFailed)), (None, Some(LossClass::Gone))]
    {
        let found = of_check(exit_code);
        assert_eq!((found.class(), found.is_loss()), (class, class.is_some()));
    }
    assert!(!CutFindings::default().is_loss());
}

/// Each that there is.
fn in_places() -> Vec<InPlace> {
    vec![
        InPlace::Older { seq: 0 },
        InPlace::OfElsewhere { home: 8, seq: 2 },
        InPlace::Foreign,
        InPlace::Zeros,
        InPlace::Ones,
        InPlace::FlippedBits { bits: 1 },
        InPlace::Garbage,
        InPlace::Unreadable,
        InPlace::Changing { seqs: vec![1, 2] },
        InPlace::Nothing,
    ]
}

#[test]
fn the_golden_folder_of_version_1_reads_as_it_always_did() {
    assert!(ProofFolder::is_at(&golden()));
    let folder = ProofFolder::open(&golden()).unwrap();
    let plan = &folder.manifest.plan;
    assert_eq!((plan.name.as_str(), plan.seed), ("golden", 3));
    assert_eq!(folder.manifest.outcome, Some(Outcome::Complete));
    let [honest, liar] = plan.series.as_slice() else { panic!("{:?}", plan.series) };
    assert_eq!((honest.cuts, honest.expected), (5, Some(ExpectedVerdict::Holds)));
    assert_eq!(honest.arm.map(|arm| arm.path), Some(DurablePath::Fdatasync));
    let ProofTarget::Simulated { profile, via, .. } = &liar.target else { panic!("{liar:?}") };
    assert_eq!((profile.as_str(), *via), ("flush-every-third", SimulatedVia::Process));
    let breaks = ExpectedVerdict::Breaks { class: LossClass::Lost, within: 9 };
    assert_eq!(liar.expected, Some(breaks));
    let cuts = folder.cuts().unwrap();
    let of = |series: u32| cuts.iter().filter(move |cut| cut.series == series);
    assert_eq!((of(0).count(), of(1).count()), (5, 1));
    assert!(of(0).all(|cut| cut.evidence.simulated && cut.findings.class().is_none()));
    let lost = &of(1).next().unwrap().findings;
    assert_eq!((lost.acknowledged, lost.kept, lost.class()), (70, 65, Some(LossClass::Lost)));
    assert_eq!(lost.findings[0], finding(LossClass::Lost, InPlace::Older { seq: 0 }));
    assert_eq!(lost.findings.len(), 2);
}

#[test]
fn cuts_are_read_back_as_they_were_written() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("new/proof");
    let folder = ProofFolder::create(&path, golden_manifest()).unwrap();
    assert_eq!(folder.cuts().unwrap(), []);
    let mut writer = folder.writer().unwrap();
    for number in 1..=2 {
        writer.write(&cut(number)).unwrap();
    }
    drop(writer);
    folder.writer().unwrap().write(&cut(3)).unwrap();
    let read = ProofFolder::open(&path).unwrap();
    assert_eq!(read.manifest, golden_manifest());
    assert_eq!(read.cuts().unwrap(), [cut(1), cut(2), cut(3)]);
    assert!(ProofFolder::create(&path, golden_manifest()).is_err(), "it is there");
}

#[test]
fn a_line_that_a_kill_left_in_part_is_passed_over_and_cut_off() {
    let place = tempfile::tempdir().unwrap();
    let folder = ProofFolder::create(&place.path().join("x"), golden_manifest()).unwrap();
    folder.writer().unwrap().write(&cut(1)).unwrap();
    let file = folder.path().join(CUTS);
    let whole = fs::read(&file).unwrap();
    for length in 0..whole.len() {
        let torn = [&whole[..], &whole[..length]].concat();
        fs::write(&file, torn).unwrap();
        assert_eq!(folder.cuts().unwrap(), [cut(1)]);
    }
    folder.writer().unwrap().write(&cut(2)).unwrap();
    assert_eq!(folder.cuts().unwrap(), [cut(1), cut(2)]);
}

#[test]
fn a_line_that_is_no_cut_is_an_error_with_its_number() {
    let place = tempfile::tempdir().unwrap();
    let folder = ProofFolder::create(&place.path().join("x"), golden_manifest()).unwrap();
    folder.writer().unwrap().write(&cut(1)).unwrap();
    let whole = fs::read_to_string(folder.path().join(CUTS)).unwrap();
    for line in ["", "{}", "null", "\0\0", &whole.trim_end().replace("lost", "found")] {
        fs::write(folder.path().join(CUTS), format!("{whole}{line}\n")).unwrap();
        let error = folder.cuts().unwrap_err();
        assert_eq!(error.kind, RecordErrorKind::Malformed, "{line:?}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("line 2: "), "{source}");
    }
}

#[test]
fn a_field_that_is_not_known_is_passed_over() {
    let place = tempfile::tempdir().unwrap();
    let folder = ProofFolder::create(&place.path().join("x"), golden_manifest()).unwrap();
    let mut value = serde_json::to_value(cut(1)).unwrap();
    value["temperature"] = 7.into();
    value["findings"]["findings"][0]["colour"] = "blue".into();
    fs::write(folder.path().join(CUTS), format!("{value}\n")).unwrap();
    assert_eq!(folder.cuts().unwrap(), [cut(1)]);
}

#[test]
fn what_is_not_one_or_is_newer_or_garbage_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let kind = |text: Option<&str>| {
        if let Some(text) = text {
            fs::write(place.path().join(PROOF_MANIFEST), text).unwrap();
        }
        ProofFolder::open(place.path()).unwrap_err().kind
    };
    assert_eq!(kind(None), RecordErrorKind::NotARunFolder);
    assert_eq!(kind(Some("{\"schema\": 2}")), RecordErrorKind::NewerSchema);
    for text in ["", "{", "{\"schema\": 1}", "\0\u{1}"] {
        assert_eq!(kind(Some(text)), RecordErrorKind::Malformed, "{text}");
    }
}

/// The names of all fields of a document, and the words that tell kinds apart.
fn fields(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.push(name.clone());
                if ["what", "kind", "expect", "class", "path", "via"].contains(&name.as_str()) {
                    found.extend(value.as_str().map(str::to_owned));
                }
                self::fields(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_described() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/proof-folder.md");
    let text = fs::read_to_string(path).unwrap();
    let (text, _) = text.split_once("## What it shows").unwrap();
    let mut names = Vec::new();
    let mut manifest = golden_manifest();
    let command = vec!["x".to_owned()];
    manifest.plan.series[0].target = ProofTarget::Agent(AgentTarget {
        start: command.clone(),
        restore: command.clone(),
        size: Some(Bytes::from_mib(1)),
        ..AgentTarget::default()
    });
    manifest.plan.series[1].target = ProofTarget::Command(CommandTarget {
        command: command.clone(),
        setup: Some("x".into()),
        check: "x".into(),
        directory: "x".into(),
        load: Nanos::from_secs(1),
        profile: "x".into(),
        size: Bytes::from_mib(16),
        front_end: GuestFrontEnd::Scsi,
        write_cache: true,
        layers: GuestLayers::EXT4,
        guest: CommandGuest {
            kernel: Some("x".into()),
            shares_root: true,
            tools: command,
            files: vec![["x".into(), "y".into()]],
            memory: Bytes::from_gib(1),
            limit: Nanos::from_secs(1),
        },
    });
    fields(&serde_json::to_value(&manifest).unwrap(), &mut names);
    manifest.plan.series[1].target = ProofTarget::Array(ArrayTarget {
        level: RaidLevel::Raid10,
        members: 4,
        profile: "drops".to_owned(),
        liar: Some(1),
        size: Bytes::from_mib(1),
    });
    fields(&serde_json::to_value(manifest).unwrap(), &mut names);
    names.extend(ArrayTarget::LEVELS.map(|level| level.word().to_owned()));
    fields(&serde_json::to_value(cut(1)).unwrap(), &mut names);
    let classes = [
        LossClass::Gone,
        LossClass::Unreadable,
        LossClass::Misdirected,
        LossClass::Corrupt,
        LossClass::Collateral,
        LossClass::Unstable,
        LossClass::Lost,
        LossClass::Torn,
    ];
    names.extend(classes.map(|class| class.word().to_owned()));
    names.push("check_failed".to_owned());
    names.extend(DurablePath::ALL.map(|path| path.word().to_owned()));
    names.extend([SimulatedVia::Process, SimulatedVia::Nbd].map(|via| via.word().to_owned()));
    for name in names {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
    assert!(text.contains(&format!("schema: {PROOF_FOLDER_SCHEMA}\n")));
}
