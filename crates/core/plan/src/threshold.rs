//! Limits that results are held against, and how they are known.

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// An operation whose latency is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimedOperation {
    /// The sync call alone.
    Sync,
    /// A record handed over until its acknowledgement.
    Commit,
    Read,
    /// A write, its sync apart.
    Write,
}

impl TimedOperation {
    /// Every one, with its word in files.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("sync", Self::Sync),
        ("commit", Self::Commit),
        ("read", Self::Read),
        ("write", Self::Write),
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

/// The statistic of a distribution that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyFigure {
    Mean,
    P50,
    P99,
    #[serde(rename = "p99.9")]
    P99_9,
    /// The longest of all.
    Max,
}

impl LatencyFigure {
    /// Every one, with its word in files and reports.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("mean", Self::Mean),
        ("p50", Self::P50),
        ("p99", Self::P99),
        ("p99.9", Self::P99_9),
        ("max", Self::Max),
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

/// The limit itself: what must be below or above how much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "bound")]
pub enum ThresholdBound {
    /// A latency must be below.
    LatencyBelow {
        operation: TimedOperation,
        /// The statistic of its distribution.
        figure: LatencyFigure,
        #[serde(rename = "limit_ns")]
        limit: Nanos,
    },
    /// Accesses per second must be at least this many for each processor of the machine.
    OperationsPerCpu { at_least_per_second: f64 },
    /// Bytes per second, likewise.
    BandwidthPerCpu {
        #[serde(rename = "at_least_bytes_per_second")]
        at_least: Bytes,
    },
    /// Accesses (commits, where there are any) per second must be at least this many.
    RateAtLeast { at_least_per_second: f64 },
    /// Bytes per second, likewise.
    BandwidthAtLeast {
        #[serde(rename = "at_least_bytes_per_second")]
        at_least: Bytes,
    },
    /// The documents give none: the percentiles are shown, and no grade.
    Undocumented,
}

/// How a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The database's maker says so.
    VendorDoc,
    /// The database itself does so, under strace: docs/method/databases.md has the traces.
    Traced,
    /// The database's source code does so.
    SourceCode,
    /// People who run it say so; it is not the maker's word.
    Practice,
    /// An operator measured it in use.
    Operator,
    /// Chosen so that results computed from it come near to measurements.
    Fitted,
    /// Widely known; nothing was read again to confirm it.
    GeneralKnowledge,
    /// No source: a starting value of durio's, to be replaced by the user's.
    DurioGuess,
}

impl Provenance {
    /// Every kind with its word in files and reports, the firmest first.
    pub const WORDS: [(&'static str, Self); 8] = [
        ("vendor-doc", Self::VendorDoc),
        ("traced", Self::Traced),
        ("source-code", Self::SourceCode),
        ("practice", Self::Practice),
        ("operator", Self::Operator),
        ("fitted", Self::Fitted),
        ("general-knowledge", Self::GeneralKnowledge),
        ("durio-guess", Self::DurioGuess),
    ];

    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }

    /// True if a source of this kind must say who published it, and where.
    #[must_use]
    pub const fn is_published(self) -> bool {
        matches!(self, Self::VendorDoc | Self::SourceCode | Self::Practice)
    }
}

/// A limit in a plan, so that a record keeps its criteria.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The name by which users ask for it.
    pub database: String,
    /// The limit in a sentence, for reports.
    pub criterion: String,
    /// Name of the workload whose results it limits.
    pub workload: String,
    #[serde(flatten)]
    pub bound: ThresholdBound,
    /// The kind of its source; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Provenance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A remark about the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Threshold {
    /// Replaces a database's name in a limit that the user sets.
    pub const GOAL: &str = "goal";

    /// A limit that the user sets.
    #[must_use]
    pub fn goal(criterion: String, workload: String, bound: ThresholdBound) -> Self {
        let database = Self::GOAL.to_owned();
        let (kind, publisher, document, url, note) = (None, None, None, None, None);
        Self { database, criterion, workload, bound, kind, publisher, document, url, note }
    }
}

/// The word of a value; every value has one.
fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}
