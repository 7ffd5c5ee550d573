//! The rules of the audit.
//!
//! A rule sees one claim, or all that are compared, and reports at most once per claim.
//!
//! A rule is a file or a function, a row of [`RULES`], and its words in [`TEXTS`]. No rule speaks
//! without evidence: silence in a claim does not count against it.

mod bandwidth;
mod distribution;
mod durability;
mod in_flight;
mod method;
mod rows;
mod units;

use super::claim::{Claim, ClaimPlace};
use super::figure::significant;
use super::{EvidenceValue, FindingEvidence, Tier};
use crate::rule_text::RuleTexts;

/// A rule's observation in a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observation {
    pub(super) tier: Tier,
    pub(super) reason: String,
    pub(super) evidence: FindingEvidence,
}

impl Observation {
    /// With the values that the reason rests on.
    fn new<const N: usize>(
        tier: Tier,
        reason: impl Into<String>,
        figures: [(&str, f64); N],
    ) -> Self {
        // Six digits: more would show the noise of the arithmetic.
        let number = |value| EvidenceValue::Number(significant(value, 6));
        let evidence = figures.map(|(name, value)| (name.to_owned(), number(value))).into();
        Self { tier, reason: reason.into(), evidence }
    }

    /// And a text that it rests on.
    fn with_text(mut self, name: &str, text: &str) -> Self {
        self.evidence.insert(name.to_owned(), EvidenceValue::Text(text.to_owned()));
        self
    }
}

/// A rule's observation, and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocatedObservation {
    pub(super) line: ClaimPlace,
    pub(super) label: String,
    pub(super) seen: Observation,
}

impl LocatedObservation {
    fn new(claim: &Claim, seen: Observation) -> Self {
        Self { line: claim.place(), label: claim.label(), seen }
    }
}

/// How a rule looks.
#[derive(Debug, Clone, Copy)]
pub(super) enum RuleCheck {
    /// At each claim by itself.
    Claim(fn(&Claim) -> Option<Observation>),
    /// At the claims together.
    Table(fn(&[Claim]) -> Vec<LocatedObservation>),
}

pub(super) static TEXTS: RuleTexts = RuleTexts::new(&[include_str!("../../data/rules/audit.toml")]);

/// Every rule, in the order of [`TEXTS`].
pub(super) const RULES: &[(&str, RuleCheck)] = &[
    ("in-flight-impossible", RuleCheck::Claim(in_flight::impossible)),
    ("bandwidth-impossible", RuleCheck::Claim(bandwidth::contradiction)),
    ("unit-mistyped", RuleCheck::Claim(units::mistyped)),
    ("percentiles-out-of-order", RuleCheck::Claim(distribution::out_of_order)),
    ("mean-impossible", RuleCheck::Claim(distribution::mean)),
    ("in-flight-shortfall", RuleCheck::Claim(in_flight::shortfall)),
    ("in-flight-above", RuleCheck::Claim(in_flight::above)),
    ("columns-exchanged", RuleCheck::Claim(units::exchanged)),
    ("latency-unit", RuleCheck::Claim(units::thousandfold)),
    ("digits-repeated", RuleCheck::Claim(units::digits_repeated)),
    ("mix-unlike-stated", RuleCheck::Claim(units::mix)),
    ("unlike-neighbours", RuleCheck::Table(rows::neighbours)),
    ("bandwidth-unit-of-series", RuleCheck::Table(bandwidth::unit_of_series)),
    ("parts-unlike-total", RuleCheck::Claim(bandwidth::parts)),
    ("contradicting-rows", RuleCheck::Table(rows::contradictions)),
    ("page-cache", RuleCheck::Claim(durability::fits_in_memory)),
    ("page-cache-by-volume", RuleCheck::Table(durability::by_volume)),
    ("sync-never-issued", RuleCheck::Claim(durability::never_issued)),
    ("durability-without-sync", RuleCheck::Claim(durability::without_sync)),
    ("depth-not-real", RuleCheck::Claim(method::depth_not_real)),
    ("filesystem-as-device", RuleCheck::Claim(method::filesystem_as_device)),
    ("no-preconditioning", RuleCheck::Claim(method::no_preconditioning)),
    ("idle-gap", RuleCheck::Claim(method::idle_gap)),
    ("stalls", RuleCheck::Claim(distribution::stalls)),
    ("submission-blocks", RuleCheck::Claim(distribution::submission)),
    ("system-time", RuleCheck::Claim(distribution::system_time)),
    ("tail-gap", RuleCheck::Claim(distribution::tail)),
    ("too-short", RuleCheck::Claim(method::too_short)),
    ("unlike-database", RuleCheck::Claim(method::unlike)),
    ("average-only", RuleCheck::Table(distribution::average_only)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::claim::Operations;
    use crate::audit::figure::Figure;
    use crate::audit::phrases::describe;

    // Claims for the tests of rules: sound ones, to be spoiled.

    pub(crate) fn operations(rate: f64, latency_us: f64) -> Operations {
        Operations {
            rate: Some(Figure::exact(rate)),
            latency_ns_mean: Some(Figure::exact(latency_us * 1e3)),
            percentiles_ns: vec![(99.0, Figure::exact(latency_us * 2e3))],
            ..Operations::default()
        }
    }

    /// Sound in every respect: 990 of 1000 ms of one worker are accounted for.
    pub(crate) fn sound(workload: &str) -> Claim {
        let mut claim = Claim {
            line: Some(ClaimPlace::Number(2)),
            stack: "raw NVMe".into(),
            workload: workload.into(),
            block_size: Some(durio_base::Bytes::from_kib(4)),
            jobs: Some(1),
            depth: Some(1),
            ..Claim::default()
        };
        describe(&mut claim);
        match claim.read_share {
            Some(share) if share > 0.0 && share < 1.0 => {
                claim.read = operations(10_000.0 * share, 99.0);
                claim.write = operations(10_000.0 * (1.0 - share), 99.0);
            }
            Some(share) if share < 0.5 => claim.write = operations(10_000.0, 99.0),
            _ => claim.read = operations(10_000.0, 99.0),
        }
        claim
    }

    /// All findings about one claim, as codes.
    pub(crate) fn codes(claim: &Claim) -> Vec<String> {
        let findings = crate::audit::audit(std::slice::from_ref(claim)).findings;
        findings.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn the_sample_is_sound() {
        for workload in ["randread", "randwrite", "randrw read70"] {
            assert_eq!(codes(&sound(workload)), [""; 0], "{workload}");
        }
    }
}
