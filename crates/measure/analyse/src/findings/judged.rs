//! durio-judge's results: verdicts against cited thresholds, placements among typical storage,
//! warnings, signals.

use durio_plan::Provenance;
use serde::{Deserialize, Serialize};

/// Whether storage suits a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// The documented threshold is met.
    Fit,
    Unfit,
    /// The vendor documents none; the percentiles speak.
    NoDocumentedThreshold,
    /// The threshold's workload was not measured, or its results are not the storage's.
    CannotTell,
}

impl VerdictWord {
    /// As users read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Unfit => "unfit",
            Self::NoDocumentedThreshold => "no documented threshold",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// Where a threshold is documented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdSource {
    pub publisher: String,
    pub document: String,
    pub url: String,
    /// How it is known: a maker's word, or practice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Provenance>,
}

/// One criterion of one database against one location.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Short name, as `--database` takes it.
    pub database: String,
    pub location: String,
    pub verdict: VerdictWord,
    /// True if the run was too short for the claim.
    pub provisional: bool,
    /// The criterion, as a sentence.
    pub criterion: String,
    /// The comparison with the limit, in short: `p99 of sync < 10 ms`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// The measurement, as a sentence with its unit.
    pub measured: String,
    /// The workload that was measured, and in which state of a profile's database.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// Why there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// The measured value, in the threshold's unit.
    pub value: Option<f64>,
    /// How many times worse it could be at the threshold; `None` without a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<f64>,
    pub threshold: Option<f64>,
    /// Unit of value and threshold.
    pub unit: String,
    /// Where the threshold is documented.
    pub source: Option<ThresholdSource>,
    /// A remark on the comparison.
    pub note: Option<String>,
    /// True if the user named the database: the answer is about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
}

/// A warning: what was seen, why it matters, what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarningFinding {
    /// Stable short name, by which `durio explain` knows it.
    pub code: String,
    /// The workloads or locations that it is about; empty for the whole run.
    pub about: Vec<String>,
    /// The observation, with its numbers.
    pub seen: String,
    pub why: String,
    pub advice: String,
}

/// How much a signal weighs, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalWord {
    /// Documented to drop syncs.
    UnsafeConfig,
    /// Not plausible, or known to be claimed falsely.
    Suspect,
    /// Statements of a device, a server or a program about itself.
    Declared,
    /// Read from the kernel, or counted.
    Fact,
}

impl SignalWord {
    /// As users read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::UnsafeConfig => "unsafe-config",
            Self::Suspect => "suspect",
            Self::Declared => "declared",
            Self::Fact => "fact",
        }
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceReading {
    /// The quantity that was read or counted.
    pub what: String,
    /// Where: a file, or a workload at a location.
    #[serde(rename = "where")]
    pub place: String,
    /// The value, with its unit.
    pub value: String,
}

/// An observation, and what it says about the flush.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// Stable short name, by which `durio explain` knows it.
    pub id: String,
    /// How much it weighs.
    pub word: SignalWord,
    /// The layer, such as `disk vda`; else `process` or `machine`.
    pub layer: String,
    /// The evidence; at least one.
    pub read: Vec<EvidenceReading>,
    pub implies: String,
    /// What to do; empty where there is nothing to do.
    pub advice: String,
}

/// A location's commits among the typical ones of each class of storage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    pub location: String,
    /// The workload that is compared: one writer, one write in flight.
    pub workload: String,
    pub commit_latency_ns_p50: u64,
    pub commits_per_second: f64,
    /// The volumes that the device's model names, such as `Amazon EBS`; only classes of these are
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recognised: Option<String>,
    /// The class whose band has the p50, the narrowest of several; or comes nearest to it.
    pub nearest: PlacedClass,
    pub position: BandPosition,
    /// Names of other classes whose bands have the p50 too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Every class that was compared, the fastest first.
    #[serde(default)]
    pub among: Vec<PlacedClass>,
    /// The limit of its provider at which a rate stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<MetLimit>,
}

/// A class of storage, with its typical latency of a small durable write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedClass {
    /// As `durio typical` takes it.
    pub id: String,
    pub name: String,
    pub latency_ns_min: u64,
    pub latency_ns_max: u64,
}

/// Where a latency is, seen from a band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandPosition {
    Faster,
    Within,
    Slower,
}

/// A rate that equals what a provider documents for its volumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetLimit {
    /// The workload with that rate.
    pub workload: String,
    /// The rate of the workload, as measured.
    pub iops: f64,
    /// The rate that the provider documents.
    pub limit_iops: u32,
    /// What has this limit.
    pub of: String,
    /// What else to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Where it is documented.
    pub source: ThresholdSource,
}

/// What something that a report prints means, whatever run it stands in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// As reports print it.
    pub id: String,
    pub kind: ExplanationKind,
    /// When a report says it.
    pub what: String,
    /// What follows from it; empty where that is said by `what`.
    pub why: String,
    /// What to do; empty where nothing has to be done.
    pub advice: String,
    /// What else is known: commands, risks, sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<ExplanationFact>,
}

/// A label and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplanationFact {
    pub label: String,
    pub text: String,
    /// Where it can be read up; empty where it has no address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// The kind of an explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExplanationKind {
    /// A word of a report: a verdict, or how a comparison came out.
    Word,
    /// A warning about results.
    Warning,
    /// A signal about flushes.
    Signal,
    /// A rule of the audit.
    AuditRule,
    /// A cause of slow commits.
    Cause,
    /// A rule of advice.
    AdviceRule,
}

impl ExplanationKind {
    /// As users read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Word => "word of a report",
            Self::Warning => "warning",
            Self::Signal => "signal about flushes",
            Self::AuditRule => "audit rule",
            Self::Cause => "cause of slow commits",
            Self::AdviceRule => "advice rule",
        }
    }
}

impl ExplanationFact {
    /// A fact without an address.
    pub fn new(label: &str, text: &str) -> Self {
        Self { label: label.to_owned(), text: text.to_owned(), url: String::new() }
    }
}

impl Explanation {
    /// Id, when it is said, why it matters, what to do.
    pub fn new(kind: ExplanationKind, [id, what, why, advice]: [&str; 4]) -> Self {
        let [id, what, why, advice] = [id, what, why, advice].map(str::to_owned);
        Self { id, kind, what, why, advice, facts: Vec::new() }
    }
}
