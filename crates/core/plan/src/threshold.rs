//! Limits that results are held against, and how they are known.

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The kind of operation that a latency is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationName {
    Read,
    /// Writes, without a sync call that follows.
    Write,
    /// Sync calls alone; the workload says which.
    Sync,
    /// From a record handed to the log until its acknowledgement: write and sync together.
    Commit,
    /// Returns of a log segment to the preallocated state.
    Reallocate,
}

impl OperationName {
    /// Every name, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Commit, Self::Read, Self::Write, Self::Sync, Self::Reallocate];

    /// Those whose latency can be limited, in the order of messages.
    pub const LIMITED: [Self; 4] = [Self::Sync, Self::Commit, Self::Read, Self::Write];

    /// As users read and write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Commit => "commit",
            Self::Reallocate => "reallocate",
        }
    }
}

durio_base::worded! {
    /// The statistic of a distribution that is limited.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LatencyFigure {
        Mean = "mean",
        P50 = "p50",
        P99 = "p99",
        #[serde(rename = "p99.9")]
        P99_9 = "p99.9",
        /// The longest of all.
        Max = "max",
    }
}

/// The limit itself: what must be below or above how much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "bound")]
pub enum ThresholdBound {
    /// A latency must be below.
    LatencyBelow {
        operation: OperationName,
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

durio_base::worded! {
    /// How a value is known.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Provenance {
        /// The database's maker says so.
        VendorDoc = "vendor-doc",
        /// The database itself does so, under strace: docs/method/databases.md has the traces.
        Traced = "traced",
        /// The database's source code does so.
        SourceCode = "source-code",
        /// People who run it say so; it is not the maker's word.
        Practice = "practice",
        /// An operator measured it in use.
        Operator = "operator",
        /// Chosen so that results computed from it come near to measurements.
        Fitted = "fitted",
        /// Widely known; nothing was read again to confirm it.
        GeneralKnowledge = "general-knowledge",
        /// No source: a starting value of durio's, to be replaced by the user's.
        DurioGuess = "durio-guess",
    }
}

impl Provenance {
    /// True if a source of this kind must say who published it, and where.
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
    /// True if the user named its database: the answer is about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
}

impl Threshold {
    /// Replaces a database's name in a limit that the user sets.
    pub const GOAL: &str = "goal";

    /// A limit that the user sets.
    pub fn goal(criterion: String, workload: String, bound: ThresholdBound) -> Self {
        let database = Self::GOAL.to_owned();
        let (kind, publisher, document, url, note) = (None, None, None, None, None);
        let asked = false;
        Self { database, criterion, workload, bound, kind, publisher, document, url, note, asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_names_that_goals_and_records_use() {
        let expected = ["commit", "read", "write", "sync", "reallocate"];
        assert_eq!(OperationName::ALL.map(OperationName::name), expected);
        let recorded = OperationName::ALL.map(|name| serde_json::to_value(name).unwrap());
        assert_eq!(recorded.map(|word| word.as_str().unwrap().to_owned()), expected);
        assert_eq!(
            OperationName::LIMITED.map(OperationName::name),
            ["sync", "commit", "read", "write"]
        );
    }

    #[test]
    fn documents_of_makers_sources_and_practitioners_are_published() {
        let published: Vec<_> =
            Provenance::ALL.into_iter().filter(|kind| kind.is_published()).collect();
        assert_eq!(
            published,
            [Provenance::VendorDoc, Provenance::SourceCode, Provenance::Practice]
        );
    }
}
