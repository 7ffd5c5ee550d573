//! The audit of published results: what cannot be right, what is doubtful, and why. Claims come
//! from a table, from fio's results or from durio's. The warnings of a run use more evidence than
//! its results.
//!
//! Printed numbers are rounded, and no finding rests on that: every value is an interval
//! ([`Figure`]), and a rule speaks only if all of the interval is on one side.

mod auditor;
mod cell;
mod claim;
mod error;
mod figure;
mod findings;
mod fio_claims;
mod guard;
mod phrases;
mod rules;
mod run_claims;
mod table;
mod wording;

pub use auditor::{Auditor, COMPARED_MAX, FINDINGS_MAX, audit};
pub use claim::{Claim, ClaimPlace, Durability, Operations};
pub use error::AuditError;
pub use figure::Figure;
pub use findings::{
    AUDIT_SCHEMA, AuditFinding, AuditFindings, EvidenceValue, FindingEvidence, RuleMeaning, Tier,
    TierCounts,
};
pub use fio_claims::fio_claims;
pub use phrases::describe;
pub use rules::audit_explanations;
pub use run_claims::run_claims;
pub use table::audit_table;
