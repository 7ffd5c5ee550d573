//! The JSON documents of `durio advise --format json`, plain data: what the rules found, and with
//! `--prove` a rule that was measured before and after; and the answer in a sentence.
//!
//! The other modules and durio-bench fill [`AdviceReport`] and [`RuleProof`].

use durio_base::counted;
use serde::{Deserialize, Serialize};

use super::apply::{Apply, ConfigFile, ConfigLine};
use super::evidence::Evidence;
use super::rule::{AdviceRole, AdviceSource, AdviceState, Risk, Subject};
use crate::compare::Comparison;
use crate::summary::{Summary, SummaryFigure, SummaryVerdict};

/// Name and version of the document.
pub const ADVICE_SCHEMA: &str = "durio-advice-1";

/// All advice for one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdviceReport {
    /// Always [`ADVICE_SCHEMA`] in this version.
    pub schema: String,
    /// The path that the user named.
    pub target: String,
    /// The database that was asked for.
    pub database: Option<String>,
    /// The use that was asked for.
    pub role: Option<AdviceRole>,
    /// The run folder of the measured values.
    pub run: Option<String>,
    /// How many rules stand how.
    pub counts: RuleCounts,
    /// One for each rule and subject, in the rules' order.
    pub advice: Vec<Advice>,
    /// Documents that contradict each other on a rule that is not met here.
    pub conflicts: Vec<Conflict>,
    /// The lines that keep the changes, by file.
    pub files: Vec<ConfigFile>,
    /// Where settings and measured values come from: a server that runs here, a run and its age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// Notes on the input, such as a run of other storage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How many rules stand how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RuleCounts {
    /// As the rule wants it.
    pub met: u64,
    pub not_met: u64,
    /// Something is not known.
    pub cannot_tell: u64,
    /// The rule's subject does not exist here.
    pub not_applicable: u64,
}

/// One rule for one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    pub rule: String,
    pub name: String,
    /// What to do, as an instruction.
    pub title: String,
    /// The present value, in words.
    pub now: Option<String>,
    /// The advised value of a single setting.
    pub new: Option<String>,
    pub gain: Gain,
    pub layer: String,
    pub subject: Subject,
    /// The device, mount point or database; empty if there is none here.
    pub about: String,
    /// The uses of the storage that it is for.
    pub roles: Vec<AdviceRole>,
    /// For which databases; all, if none is named.
    pub databases: Vec<String>,
    pub state: AdviceState,
    /// Why, in a sentence.
    pub reason: String,
    /// The facts that decided.
    pub read: Vec<ReadFact>,
    /// The facts that were missing.
    pub missing: Vec<MissingFact>,
    /// Why, and what to heed.
    pub advice: String,
    /// How to apply and undo it.
    pub apply: Apply,
    /// The lines that keep it.
    pub lines: Vec<ConfigLine>,
    /// What may come of it.
    pub risk: Risk,
    /// What the project measured of the rule on its own storage, or why it could not; evidence
    /// against the rule comes first.
    pub evidence: Vec<Evidence>,
    /// True if `--prove` can measure it.
    pub provable: bool,
    pub sources: Vec<AdviceSource>,
}

/// What following a piece of advice is expected to gain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    pub basis: GainBasis,
    /// How many times as much; `None` where nothing measured it.
    pub ratio: Option<f64>,
    /// In words, with its evidence.
    pub says: String,
}

/// What an expected gain rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
// Ordered: reports show them in this order.
pub enum GainBasis {
    /// It gains durability, not speed.
    Durability,
    /// A run on the user's storage measured it.
    Run,
    /// The project's own A/B test.
    AbTest,
    /// A source says so; nothing measured it.
    Source,
    /// The project's own A/B test found no gain, or a loss.
    Refuted,
}

/// A fact that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFact {
    pub fact: String,
    /// Its value, with its unit.
    pub value: String,
    /// Where it was read.
    pub place: String,
}

/// A fact that was missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingFact {
    pub fact: String,
    /// What stood there instead, if anything.
    pub why: Option<String>,
    /// How to get it.
    pub obtain: String,
}

/// Documents that contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The subject in question.
    pub about: String,
    pub statements: Vec<Statement>,
}

/// One side of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The rule that follows it; `None` without one.
    pub rule: Option<String>,
    /// Its audience: uses and databases.
    pub for_whom: String,
    pub says: String,
    pub sources: Vec<AdviceSource>,
}

/// Name and version of the document.
pub const PROOF_SCHEMA: &str = "durio-proof-1";

/// A rule, measured before (A) and after (B).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleProof {
    /// Always [`PROOF_SCHEMA`] in this version.
    pub schema: String,
    pub rule: String,
    pub name: String,
    /// The advice, in a sentence.
    pub title: String,
    /// The path that the user named.
    pub target: String,
    pub switched: SwitchedSetting,
    /// Runs of each side.
    pub pairs: u32,
    /// A (before) against B (after).
    pub comparison: Comparison,
}

/// A setting that was switched, and its value now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchedSetting {
    /// The setting in words.
    pub what: String,
    /// The setting's file; `None` for an option of durio.
    pub file: Option<String>,
    /// The value of A.
    pub before: String,
    /// The value of B.
    pub after: String,
    /// The value read at the end; `None` for an option of durio.
    pub restored: Option<String>,
}

impl AdviceReport {
    /// What there is to do, the most important first: what protects data, then by the expected gain.
    pub fn to_do(&self) -> Vec<&Advice> {
        let mut found: Vec<&Advice> =
            self.not_met().filter(|advice| !advice.is_refuted()).collect();
        found.sort_by(|a, b| {
            let is_speed = |advice: &Advice| advice.gain.basis != GainBasis::Durability;
            let ratio = |advice: &Advice| advice.gain.ratio.unwrap_or_default();
            let by_gain = is_speed(a).cmp(&is_speed(b)).then(ratio(b).total_cmp(&ratio(a)));
            by_gain.then(a.gain.basis.cmp(&b.gain.basis))
        });
        found
    }

    /// Advice that gained nothing in durio's own tests.
    pub fn refuted(&self) -> Vec<&Advice> {
        self.not_met().filter(|advice| advice.is_refuted()).collect()
    }

    fn not_met(&self) -> impl Iterator<Item = &Advice> {
        self.advice.iter().filter(|advice| advice.state == AdviceState::NotMet)
    }

    /// The answer in a sentence.
    pub fn summary(&self) -> Summary {
        let to_do = self.to_do();
        let (verdict, text) = match to_do.first() {
            Some(first) if first.gain.basis == GainBasis::Durability => {
                let more = match to_do.len() - 1 {
                    0 => String::new(),
                    more => format!("; {more} more to do"),
                };
                let text = format!(
                    "acknowledged writes can be lost until you {}{more}",
                    uncapitalised(&first.instruction())
                );
                (SummaryVerdict::Bad, text)
            }
            Some(first) => (SummaryVerdict::Caution, changes(to_do.len(), first)),
            None => self.nothing_to_do(),
        };
        let undecided = match self.counts.cannot_tell {
            0 => String::new(),
            _ if verdict == SummaryVerdict::Unknown => String::new(),
            count => format!(" Caveat: {} undecided.", counted(count, "rule")),
        };
        let gains = to_do.iter().filter_map(|advice| {
            let (label, value) = (advice.rule.clone(), advice.gain.ratio?);
            Some(SummaryFigure { label, value, unit: "times" })
        });
        Summary {
            verdict,
            sentence: format!("{}: {text}.{undecided}", verdict.word()),
            headline: gains.collect(),
            reasons: to_do.iter().map(|advice| advice.instruction()).collect(),
        }
    }

    fn nothing_to_do(&self) -> (SummaryVerdict, String) {
        let counts = self.counts;
        if counts.met > 0 || counts.not_met > 0 {
            let met = counted(counts.met, "rule");
            return (SummaryVerdict::Good, format!("nothing to change ({met} met)"));
        }
        let text = match self.advice.as_slice() {
            [one] => format!("{} was not decided: {}", one.rule, one.reason),
            _ => "no rule could be decided here".to_owned(),
        };
        (SummaryVerdict::Unknown, text)
    }
}

fn changes(count: usize, first: &Advice) -> String {
    let what = uncapitalised(&first.title);
    let gain = match first.gain.ratio {
        Some(_) => format!("the largest expected gain: {what}, {}", first.gain.says),
        None => format!("first, {what}"),
    };
    format!("{} to make; {gain}", counted(count as u64, "change"))
}

/// Titles begin with a verb.
fn uncapitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

impl Advice {
    /// What to set, and its present value: `Set the I/O scheduler to none (now mq-deadline)`.
    pub fn instruction(&self) -> String {
        let Self { title, now, new, .. } = self;
        let new = new.as_ref().filter(|new| !title.contains(new.as_str()));
        match (now, new) {
            (Some(now), Some(new)) => format!("{title} (now {now}; new {new})"),
            (Some(now), None) => format!("{title} (now {now})"),
            (None, Some(new)) => format!("{title} (new {new})"),
            (None, None) => title.clone(),
        }
    }

    fn is_refuted(&self) -> bool {
        self.gain.basis == GainBasis::Refuted
    }
}
