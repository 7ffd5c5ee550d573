//! The results of an audit, as plain data; also the JSON document of `durio audit`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ClaimPlace;

/// Name and version of the document.
pub const AUDIT_SCHEMA: &str = "durio-audit-1";

/// How much a finding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Values that cannot all be right.
    Impossible,
    /// Latency and rate leave much of the workers' time unexplained.
    Shortfall,
    /// A value or a setting that other parts of the claim contradict.
    Doubtful,
    /// The method cannot show what it claims to show.
    Method,
}

impl Tier {
    /// Every tier, most severe first.
    pub const ALL: [Self; 4] = [Self::Impossible, Self::Shortfall, Self::Doubtful, Self::Method];
}

/// A value or a text that a finding rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EvidenceValue {
    /// A number; its name ends with the unit.
    Number(f64),
    /// Text as the claim has it.
    Text(String),
}

/// The evidence of a finding, by name.
pub type FindingEvidence = BTreeMap<String, EvidenceValue>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditFinding {
    /// Line of the file (from 1, the header is line 1), or name of the job.
    pub line: ClaimPlace,
    /// The row in words.
    pub label: String,
    /// How much it says.
    pub tier: Tier,
    /// Code of the rule; it does not change between versions.
    pub rule: String,
    /// Why, in a sentence.
    pub reason: String,
    pub evidence: FindingEvidence,
}

/// A rule that found something, and what that means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMeaning {
    pub rule: String,
    /// What such a finding means.
    pub meaning: String,
}

/// The number of findings of each tier, those left out included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TierCounts {
    /// Values that cannot be right.
    pub impossible: u64,
    /// Findings of [`Tier::Shortfall`], in the same way.
    pub shortfall: u64,
    pub doubtful: u64,
    pub method: u64,
}

impl TierCounts {
    pub(super) fn add(&mut self, tier: Tier) {
        *match tier {
            Tier::Impossible => &mut self.impossible,
            Tier::Shortfall => &mut self.shortfall,
            Tier::Doubtful => &mut self.doubtful,
            Tier::Method => &mut self.method,
        } += 1;
    }

    /// Findings of one tier.
    pub const fn of(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Impossible => self.impossible,
            Tier::Shortfall => self.shortfall,
            Tier::Doubtful => self.doubtful,
            Tier::Method => self.method,
        }
    }

    pub const fn total(&self) -> u64 {
        self.impossible + self.shortfall + self.doubtful + self.method
    }
}

/// All that an audit found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditFindings {
    /// Always [`AUDIT_SCHEMA`] in this version.
    pub schema: String,
    /// Claims that were looked at.
    pub claims: u64,
    /// True if there are no findings.
    pub clean: bool,
    /// How many there are.
    pub counts: TierCounts,
    /// By line, and within a line most severe first.
    pub findings: Vec<AuditFinding>,
    /// Findings beyond the first [`super::FINDINGS_MAX`], which are counted only.
    pub findings_left_out: u64,
    /// The meaning of the rules with findings.
    pub rules: Vec<RuleMeaning>,
    /// Parts of the table that were not read.
    pub notes: Vec<String>,
}

impl AuditFindings {
    /// True if some value cannot be right.
    pub const fn has_impossible(&self) -> bool {
        self.counts.impossible > 0
    }
}
