//! Single power cuts: which of them count, and what the first losing one of a series lost.
//!
//! A cut counts if the target was busy and something shows that the power was gone; its evidence and
//! findings give the reason why it does not, if there is one. The record of the first losing cut
//! gives classes, order and cells of the loss.

use durio_plan::proof::LossClass;
use serde::Serialize;

use super::{CheckFindings, CutEvidence, CutFindings, CutRecord, Finding, LATE_NS, LossPicture};

/// Acknowledged writes that a cut must find at risk, or in its life where the target is slow; below, it
/// was idle.
pub const ACKNOWLEDGED_MIN: u64 = 32;

/// Why a cut does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ineffective {
    /// Acknowledgements came after it.
    NotCut,
    /// The drive counts its power losses, and did not count this cut.
    KeptPower,
    /// Too few acknowledged writes before it.
    Idle,
    /// Nothing shows that the power was gone: no counter moved, and no control was lost.
    NoProof,
}

impl Ineffective {
    /// Why the cut does not count.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NotCut => "acknowledgements came after the cut",
            Self::KeptPower => {
                "the drive kept its power: its counter of unexpected power losses did not rise"
            }
            Self::Idle => "the target was idle: fewer than 32 acknowledged writes were at risk",
            Self::NoProof => {
                "no evidence of a power loss: no counter rose and no control write was lost"
            }
        }
    }
}

/// Why a cut does not count; `None` if it does.
pub fn why_ineffective(evidence: &CutEvidence, findings: &CutFindings) -> Option<Ineffective> {
    if evidence.state.is_some() {
        // Every moment is tried, busy or not.
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

/// True for enough writes at risk, or enough in all and at the end at least half of the target's
/// mean pace. A disk that needs 10 ms for each durable write cannot have [`ACKNOWLEDGED_MIN`] in
/// the last 100 ms.
fn was_busy(evidence: &CutEvidence, findings: &CutFindings) -> bool {
    let enough = |count: u64| count >= ACKNOWLEDGED_MIN;
    let CutFindings { acknowledged, acknowledged_late: late, acknowledging_ns, .. } = *findings;
    let mean = acknowledging_ns
        .map(|span| u128::from(acknowledged) * u128::from(LATE_NS) / u128::from(span.max(LATE_NS)));
    let keeps_pace = mean.is_some_and(|mean| late > 0 && u128::from(late) >= mean / 2);
    enough(at_risk_of(evidence, findings)) || (enough(acknowledged) && keeps_pace)
}

/// Whether the drive has counted an unexpected loss of power; `None` if it has no counter.
pub(super) fn has_counted(evidence: &CutEvidence) -> Option<bool> {
    evidence.unsafe_shutdowns.map(|[before, after]| after > before)
}

/// Acknowledged writes that a cache may still have held: those of the last 100 ms; of a simulated disk,
/// whose cache knows no time but that of its requests, those of its life.
pub(super) fn at_risk_of(evidence: &CutEvidence, findings: &CutFindings) -> u64 {
    if evidence.simulated { findings.acknowledged } else { findings.acknowledged_late }
}

/// Sectors of a cell, the unit in which the prover looks at a target.
const CELL_SECTORS: u64 = 8;
/// Losses of one cut that are listed.
const LISTED_MAX: usize = 20;

/// The first cut that lost something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossFindings {
    /// Which cut of the series, or which state.
    pub cut: u32,
    /// The crash state, if it was not a cut.
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
    /// The check's output for a user's command; `None` without a check.
    pub check: Option<CheckFindings>,
    /// Acknowledgements around the cut, and a map of the target; `None` for an older durio's
    /// folder.
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
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Total => "everything acknowledged since power-on is lost",
            Self::Suffix => {
                "everything acknowledged after some moment is lost: a cache was dropped"
            }
            Self::Holes => "later writes are present: they overtook the lost ones across a sync",
        }
    }
}

pub(super) fn loss_findings(cut: &CutRecord) -> LossFindings {
    let found = &cut.findings;
    let of_cells = found.findings.iter().map(|finding| finding.class);
    let mut classes: Vec<LossClass> = of_cells.chain(found.class()).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut cells: Vec<u64> =
        found.findings.iter().map(|finding| finding.sector / CELL_SECTORS).collect();
    cells.sort_unstable();
    cells.dedup();
    let is_missing =
        |finding: &&Finding| matches!(finding.class, LossClass::Lost | LossClass::Torn);
    let missing = found.findings.iter().filter(is_missing);
    let oldest_ns = missing.filter_map(|finding| finding.acknowledged_before_ns).max();
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
    sorted.sort_by_key(|finding| {
        (finding.class, std::cmp::Reverse(finding.acknowledged_before_ns), finding.sector)
    });
    sorted.into_iter().take(LISTED_MAX).cloned().collect()
}

#[cfg(test)]
mod tests {
    use crate::proof::{CutEvidence, CutFindings, InPlace};

    use super::*;

    fn finding(class: LossClass, sector: u64, age: Option<u64>) -> Finding {
        let found = InPlace::Zeros;
        Finding { class, sector, sectors: 1, seq: sector, acknowledged_before_ns: age, found }
    }

    fn loss(findings: Vec<Finding>, left_out: u64) -> LossFindings {
        let findings = CutFindings { findings, left_out, kept: 5, ..CutFindings::default() };
        let evidence = CutEvidence::default();
        loss_findings(&CutRecord {
            series: 0,
            cut: 7,
            evidence,
            findings,
            took_ns: 1,
            inventory: None,
        })
    }

    #[test]
    fn a_cell_has_eight_sectors() {
        let of = |sectors: &[u64]| {
            loss(
                sectors.iter().map(|sector| finding(LossClass::Lost, *sector, Some(1))).collect(),
                3,
            )
            .cells
        };
        // Those that are not listed are cells too.
        assert_eq!([of(&[0, 7]), of(&[7, 8]), of(&[8, 15, 16, 17, 24])], [4, 5, 6]);
    }

    #[test]
    fn twenty_losses_are_listed_the_gravest_and_the_oldest_first() {
        let aged = |at: u64| finding(LossClass::Lost, 8 * at, Some(100 - at));
        let mut all: Vec<Finding> = (1..=19).rev().map(aged).collect();
        all.push(finding(LossClass::Torn, 800, Some(500)));
        all.push(finding(LossClass::Corrupt, 900, None));
        let found = loss(all, 0);
        let sectors: Vec<u64> = found.listed.iter().map(|finding| finding.sector).collect();
        let mut expected: Vec<u64> = vec![900];
        expected.extend((1..=19).map(|at| 8 * at));
        assert_eq!(sectors, expected);
        assert_eq!(found.classes, [LossClass::Corrupt, LossClass::Lost, LossClass::Torn]);
        assert_eq!((found.oldest_ns, found.cells, found.cut, found.kept), (Some(500), 21, 7, 5));
    }
}
