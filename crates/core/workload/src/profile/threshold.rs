//! Documented limits: in a profile, and in a plan.

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::facts::word_of;
use super::table::table;
use super::values::text;
use super::{Profile, Provenance};

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
    /// The 50th percentile.
    P50,
    /// The 99th percentile.
    P99,
    /// The 99.9th percentile.
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

/// What must hold.
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

table! {
    /// A limit of a profile.
    struct ProfileThreshold {
        /// The name by which it is asked for, where it is not the profile's.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_as: Option<String> = plain(text),
        /// In a sentence.
        criterion: String = plain_needed(text),
        /// What must hold.
        #[serde(flatten)]
        bound: ThresholdBound = bound() of ["figure", "below", "at_least"],
        /// The stream of the profile that it limits; none if only a workload of `durio check` shows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        of: Option<String> = plain(text),
        /// The workload of `durio check` that it is held against; none if none shows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        check: Option<String> = plain(text),
        /// Name of the source.
        from: String = threshold_source(),
        /// What is to be known of the comparison with the profile's stream.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String> = plain(text),
        /// What is to be known of the comparison with check's workload.
        #[serde(skip_serializing_if = "Option::is_none")]
        check_note: Option<String> = plain(text),
    }
}

/// A limit in a plan, so that a record keeps its criteria.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// The name by which users ask for it.
    pub database: String,
    /// In a sentence.
    pub criterion: String,
    /// Name of the workload whose results it limits.
    pub workload: String,
    /// What must hold.
    #[serde(flatten)]
    pub bound: ThresholdBound,
    /// The kind of its source; none without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Provenance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Address.
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

impl Profile {
    /// The limits for a run of the profile: those of its streams, and those that a workload of
    /// `durio check` has to show.
    #[must_use]
    pub fn run_thresholds(&self) -> Vec<Threshold> {
        let one = |it: &ProfileThreshold| {
            let (workload, note) = match (&it.of, &it.check) {
                // Its own stream does what the database does; the workload of check only resembles
                // it.
                (Some(stream), _) => (stream, &it.note),
                (None, Some(check)) => (check, &it.check_note),
                (None, None) => return None,
            };
            Some(self.threshold(it, workload, note))
        };
        let found: Vec<Threshold> = self.thresholds.iter().filter_map(one).collect();
        match (self.log.is_some(), self.streams.first()) {
            _ if !found.is_empty() => found,
            (true, _) => vec![self.undocumented("log")],
            (false, Some(first)) => vec![self.undocumented(&first.name)],
            (false, None) => Vec::new(),
        }
    }

    /// The limits for `durio check`, or else one entry that says that the profile has none.
    #[must_use]
    pub(super) fn thresholds_of_check(&self) -> Vec<Threshold> {
        let one =
            |it: &ProfileThreshold| Some(self.threshold(it, it.check.as_ref()?, &it.check_note));
        let found: Vec<Threshold> = self.thresholds.iter().filter_map(one).collect();
        // Silence would look like a database that durio does not know.
        match found.is_empty() {
            true => vec![self.undocumented(&self.check.value)],
            false => found,
        }
    }

    fn threshold(&self, it: &ProfileThreshold, workload: &str, note: &Option<String>) -> Threshold {
        let source = self.source(&it.from);
        Threshold {
            database: it.asked_as.clone().unwrap_or_else(|| self.name.clone()),
            criterion: it.criterion.clone(),
            workload: workload.to_owned(),
            bound: it.bound,
            kind: source.map(|source| source.kind),
            publisher: source.and_then(|source| source.publisher.clone()),
            document: source.map(|source| source.document.clone()),
            url: source.and_then(|source| source.url.clone()),
            note: note.clone(),
        }
    }

    fn undocumented(&self, workload: &str) -> Threshold {
        let criterion = "its documents give no threshold that this run measures".to_owned();
        let none = Threshold::goal(criterion, workload.to_owned(), ThresholdBound::Undocumented);
        Threshold { database: self.name.clone(), ..none }
    }
}
