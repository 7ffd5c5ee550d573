//! The audit of figures that somebody published: what cannot be right, what is doubtful, and why.
//!
//! In: claims, read from a table or made from another tool's document. Out: [`AuditFindings`].
//! Not here: durio's own runs, whose warnings rest on more than a row of figures.
//!
//! A figure was rounded before it was printed. No finding rests on that: every figure is an
//! interval ([`Figure`]), and a rule speaks only if all of the interval is on one side.

mod auditor;
mod cell;
mod claim;
mod error;
mod figure;
mod findings;
mod guard;
mod phrases;
mod rules;
mod table;
mod wording;

pub use auditor::{Auditor, COMPARED_MAX, FINDINGS_MAX, audit};
pub use claim::{Claim, Durability, Line, Operations};
pub use error::AuditError;
pub use figure::Figure;
pub use findings::{
    AUDIT_SCHEMA, AuditFinding, AuditFindings, Evidence, EvidenceValue, RuleMeaning, Tier,
    TierCounts,
};
pub use phrases::describe;
pub use table::audit_table;
