//! Verdicts of made-up cuts.

use durio_base::Bytes;
use durio_plan::proof::{
    Arm, DurablePath, GuestFrontEnd, GuestLayers, GuestTarget, ProofPlan, ProofTarget, SimulatedVia,
};

use super::*;
use crate::proof::cuts::{ACKNOWLEDGED_MIN, LossShape};
use crate::proof::{Finding, InPlace};

fn series(expected: Option<ExpectedVerdict>) -> ProofSeries {
    let (profile, size, via) = ("x".into(), Bytes::from_mib(1), SimulatedVia::Process);
    ProofSeries {
        name: "x/fdatasync/1".into(),
        target: ProofTarget::Simulated { profile, size, via },
        arm: Some(Arm::new(DurablePath::Fdatasync, 1)),
        cuts: 59,
        expected,
    }
}

fn cut(number: u32, lost_ages: &[u64], youngest_kept_ns: Option<u64>) -> CutRecord {
    let finding = |&age: &u64| Finding {
        class: LossClass::Lost,
        sector: 8,
        sectors: 8,
        seq: 3,
        acknowledged_before_ns: Some(age),
        found: InPlace::Older { seq: 1 },
    };
    let findings = CutFindings {
        acknowledged: 100,
        acknowledged_late: 90,
        youngest_kept_ns,
        controls: Controls { written: 4, lost: 1 },
        findings: lost_ages.iter().map(finding).collect(),
        ..CutFindings::default()
    };
    CutRecord {
        series: 0,
        cut: number,
        evidence: CutEvidence::default(),
        findings,
        took_ns: 1,
        inventory: None,
    }
}

fn of(cuts: &[CutRecord], expected: Option<ExpectedVerdict>) -> SeriesFindings {
    series_findings(&series(expected), &cuts.iter().collect::<Vec<_>>(), true)
}

#[test]
fn cuts_without_a_loss_bound_its_share() {
    let cuts: Vec<_> = (1..=59).map(|number| cut(number, &[], Some(5))).collect();
    let found = of(&cuts, Some(ExpectedVerdict::Holds));
    assert_eq!((found.verdict, found.effective), (ProofVerdict::NoLoss, 59));
    assert!(found.interval.unwrap()[1] < 0.05);
    assert_eq!((found.at_risk, found.as_expected), (59 * 90, Some(true)));
}

/// Clopper-Pearson as R's binom.test has it; without a loss 1 - 0.05^(1/n), the exact rule of three.
#[test]
fn the_interval_is_that_of_95_percent_over_the_cuts_that_count() {
    assert_eq!((CONFIDENCE, ACKNOWLEDGED_MIN), (0.95, 32));
    let sound = |number| cut(number, &[], Some(5));
    let mut idle = sound(90);
    idle.findings.acknowledged_late = ACKNOWLEDGED_MIN - 1;
    let mut just_busy = sound(91);
    just_busy.findings.acknowledged_late = ACKNOWLEDGED_MIN;
    // A loss counts in any cut.
    let mut losing = cut(92, &[10], None);
    losing.findings.acknowledged_late = 0;
    let [idle, just_busy, losing] = [&idle, &just_busy, &losing];
    for (cuts, counts, interval) in [
        (vec![&sound(1), idle], (1, 0), [0.0, 0.95]),
        (vec![&sound(1), just_busy, idle], (2, 0), [0.0, 0.776_393]),
        (vec![&sound(1), just_busy, losing, idle], (3, 1), [0.008_404, 0.905_701]),
        (vec![losing, losing, losing], (3, 3), [0.368_403, 1.0]),
    ] {
        let found = series_findings(&series(None), &cuts, true);
        assert_eq!((found.effective, found.losing), counts);
        let [low, high] = found.interval.unwrap();
        let is_close = |a: f64, b: f64| (a - b).abs() < 1e-5;
        assert!(is_close(low, interval[0]) && is_close(high, interval[1]), "{low} {high}");
    }
}

#[test]
fn crash_states_bound_no_share_and_count_though_few_writes_came_before() {
    let (mut first, mut second) = (cut(1, &[], None), cut(2, &[], Some(5)));
    for state in [&mut first, &mut second] {
        state.evidence.state = Some("after mark '1'".into());
    }
    first.findings.acknowledged = 1;
    let guest = GuestTarget {
        profile: "write-back".into(),
        liar: None,
        size: Bytes::from_mib(16),
        front_end: GuestFrontEnd::VirtioBlk,
        write_cache: true,
        layers: GuestLayers::EXT4,
        engine: durio_plan::EngineKind::Uring,
        kernel: None,
        enumerated: true,
    };
    let series = ProofSeries { target: ProofTarget::Guest(guest), ..series(None) };
    let found = series_findings(&series, &[&first, &second], true);
    assert_eq!((found.verdict, found.effective), (ProofVerdict::NoLoss, 2));
    assert_eq!((found.interval, found.acknowledged, found.at_risk), (None, 100, 100));
}

#[test]
fn a_series_that_is_not_at_its_end_is_not_judged() {
    let cuts: Vec<_> = (1..=58).map(|number| cut(number, &[], Some(5))).collect();
    let breaks = ExpectedVerdict::Breaks { class: LossClass::Lost, within: 59 };
    for expected in [ExpectedVerdict::Holds, breaks] {
        let of = |cuts: &[CutRecord]| {
            let all: Vec<_> = cuts.iter().collect();
            series_findings(&series(Some(expected)), &all, false).as_expected
        };
        assert_eq!(of(&cuts), None);
        let with_loss = [&cuts[..], &[cut(59, &[10], None)]].concat();
        assert_eq!(of(&with_loss), Some(expected == breaks));
    }
}

#[test]
fn cuts_that_do_not_count_bring_a_series_no_nearer_to_its_end() {
    let sound: Vec<_> = (1..=58).map(|number| cut(number, &[], Some(5))).collect();
    let (mut quiet, mut idle) = (cut(59, &[], None), cut(60, &[], None));
    quiet.findings.controls.lost = 0;
    idle.findings.acknowledged_late = 31;
    let of = |last: &[CutRecord]| {
        let all: Vec<_> = sound.iter().chain(last).collect();
        series_findings(&series(Some(ExpectedVerdict::Holds)), &all, false)
    };
    let short = of(&[quiet.clone(), idle.clone()]);
    assert_eq!((short.cuts_done, short.effective, short.as_expected), (60, 58, None));
    let whole = of(&[quiet.clone(), idle, quiet, cut(62, &[], Some(5))]);
    assert_eq!((whole.cuts_done, whole.effective, whole.as_expected), (62, 59, Some(true)));
    assert_eq!(whole.ineffective, [(Ineffective::NoProof, 2), (Ineffective::Idle, 1)]);
    // What was acknowledged is that of all cuts, what was at risk that of those that count.
    assert_eq!((whole.acknowledged, whole.at_risk), (6200, 59 * 90));
    assert_eq!(whole.controls, Controls { written: 248, lost: 60 });
    assert_eq!(whole.cuts_with_lost_control, 60);
}

#[test]
fn each_series_has_its_own_cuts_and_one_without_any_has_not_begun() {
    let named = |name: &str, expected| ProofSeries { name: name.into(), ..series(expected) };
    let breaks = ExpectedVerdict::Breaks { class: LossClass::Lost, within: 2 };
    let plan = ProofPlan {
        schema: 1,
        name: "x".into(),
        summary: String::new(),
        seed: 1,
        series: vec![
            named("a", None),
            named("b", Some(ExpectedVerdict::Holds)),
            named("c", Some(breaks)),
            named("d", None),
        ],
    };
    let manifest = |outcome| ProofManifest {
        schema: 1,
        proof: "x".into(),
        durio_version: "1".into(),
        started: "now".into(),
        command: Vec::new(),
        plan: plan.clone(),
        outcome,
    };
    let of = |place: u32, record: CutRecord| CutRecord { series: place, ..record };
    // Of two series in turns.
    let cuts = [
        of(0, cut(1, &[], Some(5))),
        of(2, cut(1, &[], Some(5))),
        of(0, cut(2, &[10], None)),
        of(2, cut(2, &[], Some(5))),
        of(1, cut(1, &[], Some(5))),
        of(0, cut(3, &[20, 30], None)),
    ];
    let shown = |outcome| {
        let found = analyse_proof(&manifest(outcome), &cuts);
        let of = |series: &SeriesFindings| {
            let first = series.loss.as_ref().map(|loss| loss.cut);
            let name = series.series.name.clone();
            (name, series.cuts_done, series.losing, first, series.as_expected)
        };
        let all: Vec<_> = found.series.iter().map(of).collect();
        let unexpected: Vec<String> =
            found.unexpected().map(|series| series.series.name.clone()).collect();
        (all, found.not_begun, unexpected.join(" "))
    };
    let (a, b, c) = ("a".to_owned(), "b".to_owned(), "c".to_owned());
    let open = vec![
        (a.clone(), 3, 2, Some(2), None),
        (b.clone(), 1, 0, None, None),
        (c.clone(), 2, 0, None, None),
    ];
    assert_eq!(shown(Some(Outcome::Interrupted)), (open, 1, "a".to_owned()));
    let ended =
        vec![(a, 3, 2, Some(2), None), (b, 1, 0, None, Some(true)), (c, 2, 0, None, Some(false))];
    assert_eq!(shown(Some(Outcome::Complete)), (ended, 1, "a c".to_owned()));
}

#[test]
fn where_chance_decides_a_loss_and_none_are_as_expected() {
    let expected = Some(ExpectedVerdict::MayLose);
    assert_eq!(of(&[cut(2, &[10], None)], expected).as_expected, Some(true));
    let honest: Vec<_> = (1..=59).map(|number| cut(number, &[], Some(5))).collect();
    assert_eq!(of(&honest, expected).as_expected, Some(true));
    assert_ne!(of(&[], expected).as_expected, Some(true), "no cut says nothing");
}

#[test]
fn a_liar_that_is_found_is_as_expected_whatever_it_is_named() {
    let unstable = Some(ExpectedVerdict::Breaks { class: LossClass::Unstable, within: 2 });
    assert_eq!(of(&[cut(2, &[10], None)], unstable).as_expected, Some(true));
    assert_eq!(of(&[cut(3, &[10], None)], unstable).as_expected, Some(false));
}

#[test]
fn a_loss_that_was_expected_may_show_in_any_way_but_not_late_and_not_never() {
    let loses = Some(ExpectedVerdict::Loses { within: 2 });
    let mut gone = cut(2, &[10], None);
    gone.findings.findings[0].class = LossClass::Gone;
    assert_eq!(of(&[cut(1, &[], None), gone.clone()], loses).as_expected, Some(true));
    gone.cut = 3;
    assert_eq!(of(&[gone], loses).as_expected, Some(false));
    let kept: Vec<_> = (1..=59).map(|number| cut(number, &[], Some(5))).collect();
    assert_eq!(of(&kept, loses).as_expected, Some(false));
}

#[test]
fn every_field_is_described() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/proof-folder.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, text) = text.split_once("## What it shows").unwrap();
    let plan = ProofPlan {
        schema: 1,
        name: "x".into(),
        summary: "y".into(),
        seed: 1,
        series: vec![series(Some(ExpectedVerdict::Holds))],
    };
    let manifest = ProofManifest {
        schema: 1,
        proof: "x".into(),
        durio_version: "1".into(),
        started: "now".into(),
        command: Vec::new(),
        plan,
        outcome: None,
    };
    let found = analyse_proof(&manifest, &[cut(1, &[10], None)]);
    let value = serde_json::to_value(found).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let series = &value["series"][0];
    let words = ["not_cut", "kept_power", "idle", "no_proof", "breaks", "no_loss", "inconclusive"];
    let shapes = ["total", "suffix", "holes"];
    let names = [keys(&value), keys(series), keys(&series["loss"])].concat();
    let words = words.iter().chain(&shapes).map(|&word| word.to_owned());
    for name in names.into_iter().chain(words) {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
    assert!(text.contains(PROOF_SCHEMA));
}

#[test]
fn a_cut_that_shows_nothing_does_not_count() {
    let mut quiet = cut(1, &[], None);
    quiet.findings.controls.lost = 0;
    let mut idle = cut(2, &[], None);
    idle.findings.acknowledged_late = 31;
    let mut none = cut(3, &[], None);
    none.evidence.acknowledged_after = 1;
    let found = of(&[quiet.clone(), idle, none], Some(ExpectedVerdict::Holds));
    assert_eq!((found.verdict, found.effective), (ProofVerdict::Inconclusive, 0));
    assert_eq!(found.interval, None);
    let whys: Vec<_> = found.ineffective.iter().map(|(why, _)| *why).collect();
    assert_eq!(whys, [Ineffective::NoProof, Ineffective::Idle, Ineffective::NotCut]);
    assert_eq!(found.as_expected, Some(false));
    quiet.evidence.unsafe_shutdowns = Some([4, 5]);
    let found = of(&[quiet], None);
    assert_eq!((found.effective, found.cuts_with_counter), (1, 1));
}

#[test]
fn a_drive_whose_counter_did_not_rise_was_not_cut_though_a_control_is_gone() {
    let mut kept = cut(1, &[], Some(5));
    kept.evidence.unsafe_shutdowns = Some([4, 4]);
    kept.evidence.rebooted = Some(true);
    assert!(kept.findings.controls.lost > 0);
    let found = of(&[kept.clone()], None);
    assert_eq!(found.ineffective, [(Ineffective::KeptPower, 1)]);
    assert_eq!((found.cuts_with_counter, found.cuts_with_reboot), (0, 1));
    // What counts from the begin of a drive's life does not fall: another drive answered.
    kept.evidence.unsafe_shutdowns = Some([4, 3]);
    assert_eq!(of(&[kept.clone()], None).effective, 0);
    kept.evidence.unsafe_shutdowns = None;
    assert_eq!(of(&[kept], None).effective, 1);
}

#[test]
fn a_slow_target_counts_as_long_as_it_keeps_its_own_pace() {
    let slow = |acknowledged, late, span| {
        let mut cut = cut(1, &[], None);
        let found = &mut cut.findings;
        (found.acknowledged, found.acknowledged_late) = (acknowledged, late);
        found.acknowledging_ns = Some(span);
        of(&[cut], None).effective == 1
    };
    // 100 in a second are 10 in its last tenth.
    let second = 1_000_000_000;
    assert!(slow(100, 10, second) && slow(100, 5, second));
    assert!(!slow(100, 4, second), "it stalled");
    assert!(!slow(31, 5, second), "it hardly began");
    assert!(!slow(40, 0, 100 * second), "nothing was at risk");
    assert!(!slow(1000, 31, second), "a fast one was slow at the end");
}

#[test]
fn the_shape_of_a_loss_follows_from_what_is_left() {
    let shape = |ages: &[u64], kept| of(&[cut(1, ages, kept)], None).loss.unwrap().shape.unwrap();
    assert_eq!(shape(&[10, 20], None), LossShape::Total);
    assert_eq!(shape(&[10, 20], Some(30)), LossShape::Suffix);
    assert_eq!(shape(&[10, 20], Some(15)), LossShape::Holes);
}

#[test]
fn a_check_of_a_users_command_decides_and_its_words_are_kept() {
    let checked = |number: u32, exit_code: Option<u8>| {
        let mut record = cut(number, &[], None);
        record.evidence.simulated = true;
        let said = "3 commits are gone".to_owned();
        let last_acknowledged = "committed 3".to_owned();
        record.findings.check =
            Some(CheckFindings { exit_code, said, last_acknowledged, on_the_way: 0 });
        record
    };
    let passed = of(&[checked(1, Some(0)), checked(2, Some(0))], None);
    assert_eq!((passed.verdict, passed.effective), (ProofVerdict::NoLoss, 2));
    let told: Vec<_> = passed.checks.iter().map(|check| (check.cut, check.acknowledged)).collect();
    assert_eq!(told, [(1, 100), (2, 100)]);
    let class = LossClass::CheckFailed;
    let failed = of(&[checked(1, Some(0)), checked(2, Some(1))], None);
    assert_eq!(failed.verdict, ProofVerdict::Breaks { class });
    let loss = failed.loss.unwrap();
    assert_eq!((loss.cut, loss.classes, loss.cells), (2, vec![class], 0));
    assert_eq!(loss.check.unwrap().said, "3 commits are gone");
    let gone = of(&[checked(1, None)], None);
    assert_eq!(gone.verdict, ProofVerdict::Breaks { class: LossClass::Gone });
}

#[test]
fn a_loss_is_one_also_where_the_cut_would_not_count() {
    let mut losing = cut(1, &[10], None);
    losing.findings.controls.lost = 0;
    losing.findings.acknowledged_late = 1;
    let expected = ExpectedVerdict::Breaks { class: LossClass::Lost, within: 1 };
    let found = of(&[losing], Some(expected));
    assert_eq!(found.verdict, ProofVerdict::Breaks { class: LossClass::Lost });
    assert_eq!((found.losing, found.as_expected), (1, Some(true)));
}
