//! A rule that was measured before and after: plain data, and the JSON document of
//! `durio advise --prove --format json`.
//!
//! In: nothing; filled by the command line. Out: [`Proof`].

use serde::{Deserialize, Serialize};

use durio_compare::Comparison;

/// Name and version of the document.
pub const PROOF_SCHEMA: &str = "durio-proof-1";

/// A rule, measured before (A) and after (B).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// [`PROOF_SCHEMA`].
    pub schema: String,
    /// The rule's identifier.
    pub rule: String,
    /// Its name.
    pub name: String,
    /// What it wants.
    pub title: String,
    /// The path that the user named.
    pub target: String,
    /// What was switched.
    pub switched: SwitchedSetting,
    /// Runs of each side.
    pub pairs: u32,
    /// A against B.
    pub comparison: Comparison,
}

/// What was switched, and how it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchedSetting {
    /// In words.
    pub what: String,
    /// Its file; none for what is durio's own.
    pub file: Option<String>,
    /// The value of A.
    pub before: String,
    /// The value of B.
    pub after: String,
    /// The value that was read when all was over; none for what is durio's own.
    pub restored: Option<String>,
}
