//! Which power cuts count: the target was busy, and something shows that the power was gone.
//!
//! The evidence and the findings of a cut give the reason why it does not count, if there is one.

use durio_record::proof::{CutEvidence, CutFindings, LATE_NS};
use serde::Serialize;

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

/// Why a cut does not count; `None` if it does.
#[must_use]
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
