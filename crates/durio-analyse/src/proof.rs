//! What power cuts say of a target: that it breaks its word, or how seldom it does at most.
//!
//! In: a proof's plan and the record of each cut. Out: a verdict for each series, with its bound. Not
//! here: cutting, finding losses.
//!
//! The unit of the statistics is the cut, not the write: the writes of one cut share its fate. What
//! counts is an *effective* cut: the target was busy with acknowledged writes, and something shows that
//! the power was gone. A loss counts in any cut.

use durio_plan::proof::{Expected, LossClass, ProofSeries};
use durio_record::Outcome;
use durio_record::proof::{
    CheckFindings, Controls, CutEvidence, CutFindings, CutRecord, Finding, InFlight, Inventory,
    LATE_NS, LossPicture, ProofManifest,
};
use durio_stats::binomial::clopper_pearson;
use serde::Serialize;

/// The form of the JSON document.
pub const PROOF_SCHEMA: &str = "durio-proof-1";
/// Acknowledged writes that a cut must find at risk, or in its life where the target is slow; below, it
/// was idle.
pub const ACKNOWLEDGED_MIN: u64 = 32;
/// Of the bound.
pub const CONFIDENCE: f64 = 0.95;
/// Sectors of a cell, the unit in which the prover looks at a target.
const CELL_SECTORS: u64 = 8;
/// Losses of one cut that are listed.
const LISTED_MAX: usize = 20;

/// A whole proof.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProofFindings {
    /// [`PROOF_SCHEMA`].
    pub schema: &'static str,
    /// The plan's name.
    pub name: String,
    /// What it shows.
    pub summary: String,
    /// The seed of every choice.
    pub seed: u64,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// How it ended; nothing if it was killed.
    pub outcome: Option<Outcome>,
    /// The series that were begun, in their order.
    pub series: Vec<SeriesFindings>,
    /// Series of the plan that were not begun.
    pub not_begun: u64,
}

/// One target on one path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesFindings {
    /// What was tried, and for how long.
    #[serde(flatten)]
    pub series: ProofSeries,
    /// What came out.
    pub verdict: ProofVerdict,
    /// Cuts.
    pub cuts_done: u64,
    /// Those that count.
    pub effective: u64,
    /// Why the others do not.
    pub ineffective: Vec<(Ineffective, u64)>,
    /// Cuts that lost something.
    pub losing: u64,
    /// The share of cuts that lose something: the 95 % interval, one-sided without a loss.
    pub interval: Option<[f64; 2]>,
    /// Acknowledged writes in all cuts.
    pub acknowledged: u64,
    /// Those of the last 100 ms before effective cuts; of a simulated disk, those since its power-on.
    pub at_risk: u64,
    /// Writes without a sync.
    pub controls: Controls,
    /// Cuts that took one of them.
    pub cuts_with_lost_control: u64,
    /// Cuts in which the drive's counter of unexpected power losses rose.
    pub cuts_with_counter: u64,
    /// Cuts after which the machine had booted.
    pub cuts_with_reboot: u64,
    /// Writes that nobody was promised.
    pub in_flight: InFlight,
    /// Of a user's command, each cut; empty otherwise.
    pub checks: Vec<CheckedCut>,
    /// The first cut that lost something.
    pub loss: Option<LossFindings>,
    /// What was under test, as it was told first.
    pub inventory: Option<Box<Inventory>>,
    /// Whether it came out as was expected; none where nobody expected anything, or it is not decided.
    pub as_expected: Option<bool>,
}

/// One cut under a user's command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedCut {
    /// Which cut of the series.
    pub cut: u32,
    /// Lines before it.
    pub acknowledged: u64,
    /// What the check said.
    #[serde(flatten)]
    pub check: CheckFindings,
}

/// What came out of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum ProofVerdict {
    /// The target breaks its word.
    Breaks {
        /// How.
        class: LossClass,
    },
    /// No loss in the effective cuts that there were.
    NoLoss,
    /// No cut that counts.
    Inconclusive,
}

/// Why a cut does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ineffective {
    /// Acknowledgements came after it.
    NotCut,
    /// The drive counts its power losses, and this was none.
    KeptPower,
    /// Too few acknowledged writes before it.
    Idle,
    /// Nothing shows that the power was gone: no counter moved, and no control was lost.
    NoProof,
}

impl Ineffective {
    /// What was wrong with the cut.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotCut => "acknowledgements came after the cut",
            Self::KeptPower => {
                "the drive kept its power: its counter of unexpected power losses did not rise"
            }
            Self::Idle => "the target was idle: fewer than 32 acknowledged writes were at risk",
            Self::NoProof => {
                "nothing shows that the power was gone: no counter rose, no control was lost"
            }
        }
    }
}

/// The first cut that lost something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossFindings {
    /// Which cut of the series, or which state.
    pub cut: u32,
    /// The crash state, where it was no cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What happened, gravest first.
    pub classes: Vec<LossClass>,
    /// In which order writes are missing.
    pub shape: Option<LossShape>,
    /// How long before the cut the oldest write was acknowledged that is missing.
    pub oldest_ns: Option<u64>,
    /// Cells that are not as they must be.
    pub cells: u64,
    /// Cells whose acknowledged write is there.
    pub kept: u64,
    /// The first of them.
    pub listed: Vec<Finding>,
    /// What the check of a user's command said; none where nobody asked one.
    pub check: Option<CheckFindings>,
    /// Acknowledgements around the cut, and a map of the target; none of an older durio's folder.
    pub picture: Option<Box<LossPicture>>,
}

/// In which order acknowledged writes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossShape {
    /// All of this life: nothing was made durable at all.
    Total,
    /// All from some moment on: a cache was dropped.
    Suffix,
    /// Later ones are there: writes overtook each other across a completed sync.
    Holes,
}

impl LossShape {
    /// What it says.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Total => "nothing that was acknowledged since power-on is there",
            Self::Suffix => {
                "everything acknowledged after some moment is gone: a cache was dropped"
            }
            Self::Holes => "later writes are there: they overtook the lost ones across a sync",
        }
    }
}

/// Why a cut does not count; none if it does.
#[must_use]
pub fn why_ineffective(evidence: &CutEvidence, findings: &CutFindings) -> Option<Ineffective> {
    if evidence.state.is_some() {
        // Nobody waited for a good moment: each moment is tried.
        return None;
    }
    let has_counted = has_counted(evidence);
    let has_proof = evidence.simulated || has_counted == Some(true) || findings.controls.lost > 0;
    if evidence.acknowledged_after > 0 {
        Some(Ineffective::NotCut)
    } else if has_counted == Some(false) {
        // Also where a control was lost: a cache above the drive lost it, and the drive was not tried.
        Some(Ineffective::KeptPower)
    } else if !was_busy(evidence, findings) {
        Some(Ineffective::Idle)
    } else if has_proof {
        None
    } else {
        Some(Ineffective::NoProof)
    }
}

/// Enough writes, and at the end no fewer than the target's own pace lets one expect: half of its mean. A
/// disk that needs 10 ms for each durable write cannot have [`ACKNOWLEDGED_MIN`] in the last 100 ms.
fn was_busy(evidence: &CutEvidence, findings: &CutFindings) -> bool {
    let enough = |count: u64| count >= ACKNOWLEDGED_MIN;
    let CutFindings { acknowledged, acknowledged_late: late, acknowledging_ns, .. } = *findings;
    let mean = acknowledging_ns
        .map(|span| u128::from(acknowledged) * u128::from(LATE_NS) / u128::from(span.max(LATE_NS)));
    let keeps_pace = mean.is_some_and(|mean| late > 0 && u128::from(late) >= mean / 2);
    enough(at_risk_of(evidence, findings)) || (enough(acknowledged) && keeps_pace)
}

/// Whether the drive has counted an unexpected loss of power; none where it does not count.
fn has_counted(evidence: &CutEvidence) -> Option<bool> {
    evidence.unsafe_shutdowns.map(|[before, after]| after > before)
}

/// Acknowledged writes that a cache may still have held: those of the last 100 ms; of a simulated disk,
/// whose cache knows no time but that of its requests, those of its life.
fn at_risk_of(evidence: &CutEvidence, findings: &CutFindings) -> u64 {
    if evidence.simulated { findings.acknowledged } else { findings.acknowledged_late }
}

/// The findings of a proof, from its folder.
#[must_use]
pub fn analyse_proof(manifest: &ProofManifest, cuts: &[CutRecord]) -> ProofFindings {
    let plan = &manifest.plan;
    let is_complete = manifest.outcome == Some(Outcome::Complete);
    let all = (0..).zip(&plan.series).map(|(place, series)| {
        let own: Vec<&CutRecord> = cuts.iter().filter(|cut| cut.series == place).collect();
        (!own.is_empty()).then(|| series_findings(series, &own, is_complete))
    });
    let series: Vec<SeriesFindings> = all.flatten().collect();
    ProofFindings {
        schema: PROOF_SCHEMA,
        name: plan.name.clone(),
        summary: plan.summary.clone(),
        seed: plan.seed,
        started: manifest.started.clone(),
        durio_version: manifest.durio_version.clone(),
        outcome: manifest.outcome,
        not_begun: (plan.series.len() - series.len()) as u64,
        series,
    }
}

impl ProofFindings {
    /// Series in which acknowledged data was not there, or was not expected to be and was.
    pub fn unexpected(&self) -> impl Iterator<Item = &SeriesFindings> {
        self.series.iter().filter(|it| match it.as_expected {
            Some(as_expected) => !as_expected,
            None => matches!(it.verdict, ProofVerdict::Breaks { .. }),
        })
    }
}

fn series_findings(series: &ProofSeries, cuts: &[&CutRecord], is_complete: bool) -> SeriesFindings {
    let mut ineffective: Vec<(Ineffective, u64)> = Vec::new();
    let (mut effective, mut losing, mut at_risk) = (0, 0, 0);
    for cut in cuts {
        let is_losing = cut.findings.is_loss();
        losing += u64::from(is_losing);
        let why = why_ineffective(&cut.evidence, &cut.findings).filter(|_| !is_losing);
        match why {
            None => {
                effective += 1;
                at_risk = at_risk_of(&cut.evidence, &cut.findings).saturating_add(at_risk);
            }
            Some(why) => match ineffective.iter_mut().find(|(other, _)| *other == why) {
                Some((_, count)) => *count += 1,
                None => ineffective.push((why, 1)),
            },
        }
    }
    // A folder may come from anybody.
    let sum = |of: fn(&CutFindings) -> u64| {
        cuts.iter().map(|cut| of(&cut.findings)).fold(0, u64::saturating_add)
    };
    // States are of one life, and a state has all that was acknowledged before it.
    let most = |of: fn(&CutFindings) -> u64| cuts.iter().map(|cut| of(&cut.findings)).max();
    let is_enumerated = series.target.is_enumerated();
    let acknowledged = match is_enumerated {
        true => most(|it| it.acknowledged).unwrap_or(0),
        false => sum(|it| it.acknowledged),
    };
    let with = |is_so: fn(&CutEvidence) -> bool| {
        cuts.iter().filter(|cut| is_so(&cut.evidence)).count() as u64
    };
    let first = cuts.iter().find(|cut| cut.findings.is_loss());
    let verdict = match first.and_then(|cut| cut.findings.class()) {
        Some(class) => ProofVerdict::Breaks { class },
        None if effective > 0 => ProofVerdict::NoLoss,
        None => ProofVerdict::Inconclusive,
    };
    let loss = first.map(|cut| loss_findings(cut));
    let is_decided = is_complete || loss.is_some() || effective >= u64::from(series.cuts);
    SeriesFindings {
        series: series.clone(),
        verdict,
        cuts_done: cuts.len() as u64,
        effective,
        ineffective,
        losing,
        // Chance has not drawn the states.
        interval: clopper_pearson(losing, effective, CONFIDENCE).filter(|_| !is_enumerated),
        acknowledged,
        at_risk: if is_enumerated { acknowledged } else { at_risk },
        controls: Controls {
            written: sum(|it| it.controls.written),
            lost: sum(|it| it.controls.lost),
        },
        checks: cuts.iter().filter_map(|cut| checked(cut)).collect(),
        cuts_with_lost_control: sum(|it| it.controls.lost.min(1)),
        cuts_with_counter: with(|it| has_counted(it) == Some(true)),
        cuts_with_reboot: with(|it| it.rebooted == Some(true)),
        inventory: cuts.iter().find_map(|cut| cut.inventory.clone()),
        in_flight: InFlight {
            kept: sum(|it| it.in_flight.kept),
            torn: sum(|it| it.in_flight.torn),
        },
        as_expected: series
            .expected
            .filter(|_| is_decided)
            .map(|it| is_as_expected(it, verdict, first.map(|it| it.cut))),
        loss,
    }
}

fn checked(record: &CutRecord) -> Option<CheckedCut> {
    let CutFindings { acknowledged, check, .. } = &record.findings;
    Some(CheckedCut { cut: record.cut, acknowledged: *acknowledged, check: check.clone()? })
}

fn is_as_expected(expected: Expected, verdict: ProofVerdict, cut: Option<u32>) -> bool {
    match (expected, verdict) {
        (Expected::Holds, verdict) => verdict == ProofVerdict::NoLoss,
        (Expected::Breaks { class, within }, ProofVerdict::Breaks { class: found }) => {
            // A cache that keeps single sectors loses writes in parts.
            let is_part = class == LossClass::Lost && found == LossClass::Torn;
            (found == class || is_part) && cut.is_some_and(|it| it <= within)
        }
        (Expected::Loses { within }, ProofVerdict::Breaks { .. }) => {
            cut.is_some_and(|it| it <= within)
        }
        (Expected::Breaks { .. } | Expected::Loses { .. }, _) => false,
    }
}

fn loss_findings(cut: &CutRecord) -> LossFindings {
    let found = &cut.findings;
    let of_cells = found.findings.iter().map(|it| it.class);
    let mut classes: Vec<LossClass> = of_cells.chain(found.class()).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut cells: Vec<u64> = found.findings.iter().map(|it| it.sector / CELL_SECTORS).collect();
    cells.sort_unstable();
    cells.dedup();
    let is_missing = |it: &&Finding| matches!(it.class, LossClass::Lost | LossClass::Torn);
    let missing = found.findings.iter().filter(is_missing);
    let oldest_ns = missing.filter_map(|it| it.acknowledged_before_ns).max();
    LossFindings {
        cut: cut.cut,
        state: cut.evidence.state.clone(),
        classes,
        shape: oldest_ns.map(|oldest| match found.youngest_kept_ns {
            None => LossShape::Total,
            Some(kept) if kept > oldest => LossShape::Suffix,
            Some(_) => LossShape::Holes,
        }),
        oldest_ns,
        cells: (cells.len() as u64).saturating_add(found.left_out),
        kept: found.kept,
        listed: listed(&found.findings),
        check: found.check.clone(),
        picture: found.picture.clone(),
    }
}

/// The gravest first, and of those the oldest.
fn listed(findings: &[Finding]) -> Vec<Finding> {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|it| (it.class, std::cmp::Reverse(it.acknowledged_before_ns), it.sector));
    sorted.into_iter().take(LISTED_MAX).cloned().collect()
}

#[cfg(test)]
mod tests {
    use durio_plan::proof::{
        Arm, DurablePath, FrontEnd, GuestLayers, GuestTarget, ProofPlan, ProofTarget, SimulatedVia,
    };
    use durio_record::proof::InPlace;
    use durio_units::Bytes;

    use super::*;

    fn series(expected: Option<Expected>) -> ProofSeries {
        let (profile, size, via) = ("x".into(), Bytes::from_mib(1), SimulatedVia::Process);
        ProofSeries {
            name: "x/fdatasync/1".into(),
            target: ProofTarget::Simulated { profile, size, via },
            arm: Some(Arm { path: DurablePath::Fdatasync, depth: 1, write_cells: 1 }),
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

    fn of(cuts: &[CutRecord], expected: Option<Expected>) -> SeriesFindings {
        series_findings(&series(expected), &cuts.iter().collect::<Vec<_>>(), true)
    }

    #[test]
    fn cuts_without_a_loss_bound_its_share() {
        let cuts: Vec<_> = (1..=59).map(|number| cut(number, &[], Some(5))).collect();
        let found = of(&cuts, Some(Expected::Holds));
        assert_eq!((found.verdict, found.effective), (ProofVerdict::NoLoss, 59));
        assert!(found.interval.unwrap()[1] < 0.05);
        assert_eq!((found.at_risk, found.as_expected), (59 * 90, Some(true)));
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
            size: Bytes::from_mib(16),
            front_end: FrontEnd::VirtioBlk,
            write_cache: true,
            layers: GuestLayers::Ext4,
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
        let breaks = Expected::Breaks { class: LossClass::Lost, within: 59 };
        for expected in [Expected::Holds, breaks] {
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
    fn a_loss_that_was_expected_may_show_in_any_way_but_not_late_and_not_never() {
        let loses = Some(Expected::Loses { within: 2 });
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
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats/proof-folder.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, text) = text.split_once("## What it shows").unwrap();
        let plan = ProofPlan {
            schema: 1,
            name: "x".into(),
            summary: "y".into(),
            seed: 1,
            series: vec![series(Some(Expected::Holds))],
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
        let words =
            ["not_cut", "kept_power", "idle", "no_proof", "breaks", "no_loss", "inconclusive"];
        let shapes = ["total", "suffix", "holes"];
        let names = [keys(&value), keys(series), keys(&series["loss"])].concat();
        let words = words.iter().chain(&shapes).map(|&it| it.to_owned());
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
        let found = of(&[quiet.clone(), idle, none], Some(Expected::Holds));
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
        let shape =
            |ages: &[u64], kept| of(&[cut(1, ages, kept)], None).loss.unwrap().shape.unwrap();
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
        let told: Vec<_> = passed.checks.iter().map(|it| (it.cut, it.acknowledged)).collect();
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
        let expected = Expected::Breaks { class: LossClass::Lost, within: 1 };
        let found = of(&[losing], Some(expected));
        assert_eq!(found.verdict, ProofVerdict::Breaks { class: LossClass::Lost });
        assert_eq!((found.losing, found.as_expected), (1, Some(true)));
    }
}
