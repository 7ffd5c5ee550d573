//! The audit of published results: what cannot be right, what is doubtful, and why. Claims come
//! from a table, from fio's results or from durio's. The warnings of a run use more evidence than
//! its results.
//!
//! Printed numbers are rounded, and no finding rests on that: every value is an interval
//! ([`Figure`]), and a rule speaks only if all of the interval is on one side. The [`Auditor`] runs
//! claims through all rules one after another, in bounded memory. The results are plain data
//! ([`AuditFindings`]), also the JSON document of `durio audit`.

mod cell;
mod claim;
mod figure;
mod fio_claims;
mod phrases;
mod rules;
mod run_claims;
mod table;

pub use claim::{Claim, ClaimPlace, Durability, Operations};
pub use figure::Figure;
pub use fio_claims::fio_claims;
pub use phrases::describe;
pub use run_claims::run_claims;
pub use table::{AuditError, audit_table};

use std::collections::BTreeMap;

use durio_analyse::{Explanation, ExplanationKind};
use rules::{Observation, RULES, RuleCheck, TEXTS};
use serde::{Deserialize, Serialize};

use crate::rule_text::RuleText;

/// Findings that are kept; more are only counted.
pub const FINDINGS_MAX: usize = 10_000;

/// Claims that are compared with each other; each of the others is judged by itself.
// Rules about tables need all claims in memory at once, the others one at a time.
pub const COMPARED_MAX: usize = 10_000;

/// Takes claims, and ends with findings.
#[derive(Debug, Default)]
pub struct Auditor {
    compared: Vec<Claim>,
    claims: u64,
    findings: Vec<AuditFinding>,
    left_out: u64,
    counts: TierCounts,
    notes: Vec<String>,
}

impl Auditor {
    pub fn new() -> Self {
        Self::default()
    }

    /// A note to the reader of the findings.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Judges one claim by itself, and keeps it to be compared.
    pub fn observe(&mut self, claim: Claim) {
        self.claims += 1;
        for (rule, check) in RULES {
            if let RuleCheck::Claim(check) = check
                && let Some(seen) = check(&claim)
            {
                self.add(rule, seen, || (claim.place(), claim.label()));
            }
        }
        if self.compared.len() < COMPARED_MAX {
            self.compared.push(claim);
        }
    }

    /// Compares the claims with each other, and ends.
    pub fn finish(mut self) -> AuditFindings {
        let compared = std::mem::take(&mut self.compared);
        for (rule, check) in RULES {
            if let RuleCheck::Table(check) = check {
                for about in check(&compared) {
                    self.add(rule, about.seen, || (about.line, about.label));
                }
            }
        }
        if self.claims > compared.len() as u64 {
            let compared = compared.len();
            self.note(format!("only the first {compared} claims were compared with each other"));
        }
        self.findings.sort_by(|a, b| (&a.line, a.tier).cmp(&(&b.line, b.tier)));
        AuditFindings {
            schema: AUDIT_SCHEMA.to_owned(),
            claims: self.claims,
            clean: self.counts.total() == 0,
            counts: self.counts,
            rules: meanings(&self.findings),
            findings: self.findings,
            findings_left_out: self.left_out,
            notes: self.notes,
        }
    }

    fn add(&mut self, rule: &str, seen: Observation, place: impl FnOnce() -> (ClaimPlace, String)) {
        let Observation { tier, reason, evidence } = seen;
        self.counts.add(tier);
        // An impossible value decides the exit code: it must be seen even where much is left out.
        // It is bounded all the same, because a table may have nothing else.
        let weighty = tier == Tier::Impossible && self.findings.len() < 2 * FINDINGS_MAX;
        if self.findings.len() >= FINDINGS_MAX && !weighty {
            self.left_out += 1;
            return;
        }
        let (line, label) = place();
        let rule = rule.to_owned();
        self.findings.push(AuditFinding { line, label, tier, rule, reason, evidence });
    }
}

/// Audits claims that are in memory.
pub fn audit(claims: &[Claim]) -> AuditFindings {
    let mut auditor = Auditor::new();
    for claim in claims {
        auditor.observe(claim.clone());
    }
    auditor.finish()
}

/// What each rule means, in the order of findings.
pub(crate) fn explanations() -> impl Iterator<Item = Explanation> {
    TEXTS.all().iter().map(|rule| rule.explanation(ExplanationKind::AuditRule))
}

fn meanings(findings: &[AuditFinding]) -> Vec<RuleMeaning> {
    let found = |rule: &&RuleText| findings.iter().any(|finding| finding.rule == rule.id);
    let meaning =
        |rule: &RuleText| RuleMeaning { rule: rule.id.clone(), meaning: rule.what.clone() };
    TEXTS.all().iter().filter(found).map(meaning).collect()
}

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
    fn add(&mut self, tier: Tier) {
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
    /// Findings beyond the first [`FINDINGS_MAX`], which are counted only.
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

#[cfg(test)]
mod tests {
    use super::figure::Figure;
    use super::*;

    fn impossible() -> Claim {
        let mut claim = Claim { jobs: Some(1), depth: Some(1), ..Claim::default() };
        claim.read.rate = Some(Figure::exact(1000.0));
        claim.read.latency_ns_mean = Some(Figure::exact(5e6));
        claim
    }

    #[test]
    fn no_claim_and_a_claim_without_figures_are_clean() {
        assert!(audit(&[]).clean);
        let findings = audit(&[Claim::default()]);
        assert!(findings.clean && findings.claims == 1 && findings.findings.is_empty());
    }

    #[test]
    fn findings_are_capped_and_the_rest_is_counted() {
        let mut auditor = Auditor::new();
        let short = Claim { runtime: Some(durio_base::Nanos::from_secs(1)), ..Claim::default() };
        for _ in 0..FINDINGS_MAX + 5 {
            auditor.observe(short.clone());
        }
        auditor.observe(impossible());
        let findings = auditor.finish();
        assert!(findings.findings_left_out >= 5);
        assert_eq!(
            findings.counts.total(),
            findings.findings.len() as u64 + findings.findings_left_out
        );
        assert!(findings.has_impossible());
        assert!(findings.findings.iter().any(|finding| finding.tier == Tier::Impossible));
        assert!(findings.notes.iter().any(|note| note.contains("compared")), "{findings:?}");
    }

    #[test]
    fn codes_of_rules_are_distinct_kebab_case() {
        for (index, (id, _)) in RULES.iter().enumerate() {
            assert!(id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{id}");
            assert!(!RULES[..index].iter().any(|earlier| earlier.0 == *id));
        }
    }

    #[test]
    fn the_words_of_the_rules_are_in_their_order() {
        let texts = TEXTS.all();
        let ids: Vec<&str> = texts.iter().map(|text| text.id.as_str()).collect();
        let rules: Vec<&str> = RULES.iter().map(|(id, _)| *id).collect();
        assert_eq!((ids.len(), ids), (30, rules));
        assert!(texts.iter().all(|text| !text.what.is_empty() && !text.advice.is_empty()));
        let meaning = explanations().find(|rule| rule.id == "digits-repeated").unwrap();
        assert_eq!(
            [meaning.what.as_str(), &meaning.advice],
            [
                "rate and latency have the same digits and do not match: one was copied into the \
                 other's column",
                "go back to the tool's own output for this row",
            ]
        );
    }

    #[test]
    fn as_many_findings_and_claims_are_kept_as_the_numbers_say() {
        assert_eq!((FINDINGS_MAX, COMPARED_MAX), (10_000, 10_000));
        let short = Claim { runtime: Some(durio_base::Nanos::from_secs(1)), ..Claim::default() };
        let with = |count: usize, claim: &Claim| {
            let mut auditor = Auditor::new();
            (0..count).for_each(|_| auditor.observe(claim.clone()));
            let found = auditor.finish();
            (found.findings.len(), found.findings_left_out, found.notes.len())
        };
        assert_eq!(with(9_999, &short), (9_999, 0, 0));
        assert_eq!(with(10_000, &short), (10_000, 0, 0));
        assert_eq!(with(10_001, &short), (10_000, 1, 1));
        // Impossible figures are kept up to twice as many.
        let mut wrong = impossible();
        wrong.read.latency_ns_max = Some(Figure::exact(5e6));
        assert_eq!(with(20_001, &wrong), (20_000, 1, 1));
    }

    #[test]
    fn findings_stand_by_line_and_the_most_severe_first() {
        let mut claims = [impossible(), impossible(), impossible()];
        for (claim, line) in claims.iter_mut().zip([7, 2, 5]) {
            claim.line = Some(ClaimPlace::Number(line));
            claim.runtime = Some(durio_base::Nanos::from_secs(1));
        }
        claims[1].stack = "xfs".into();
        let found = audit(&claims);
        let seen: Vec<_> = found
            .findings
            .iter()
            .map(|finding| (finding.line.clone(), finding.tier, &*finding.rule))
            .collect();
        let of = |line| {
            [
                (ClaimPlace::Number(line), Tier::Impossible, "in-flight-impossible"),
                (ClaimPlace::Number(line), Tier::Doubtful, "too-short"),
            ]
        };
        let header = (ClaimPlace::Number(1), Tier::Method, "average-only");
        let expected: Vec<_> = [header].into_iter().chain([2, 5, 7].map(of).concat()).collect();
        assert_eq!(seen, expected);
        let counts = [Tier::Impossible, Tier::Shortfall, Tier::Doubtful, Tier::Method];
        assert_eq!(counts.map(|tier| found.counts.of(tier)), [3, 0, 3, 1]);
        assert_eq!((found.counts.total(), found.clean, found.claims), (7, false, 3));
        let rules: Vec<_> = found.rules.iter().map(|rule| rule.rule.as_str()).collect();
        assert_eq!(rules, ["in-flight-impossible", "too-short", "average-only"]);
        // One without a line is named by its words.
        let named = audit(&[Claim { stack: "xfs".into(), line: None, ..claims[0].clone() }]);
        assert_eq!(named.findings[0].line, ClaimPlace::Name("xfs, 1 job".into()));
    }
}
