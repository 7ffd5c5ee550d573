//! The results of one trial, of either program.

use std::fmt;

/// Kinds of operations that both programs distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredKind {
    Read,
    Write,
    Sync,
}

impl MeasuredKind {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Sync];

    /// In the spelling of both programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for MeasuredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One kind of operation; latencies are in nanoseconds, from submission to completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OperationFigures {
    pub(super) count: f64,
    pub(super) rate: f64,
    pub(super) mean: f64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p99_9: Option<f64>,
    pub(super) max: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct MeasuredTrial {
    /// Reads and writes per second.
    pub(super) iops: f64,
    /// Reads and writes.
    pub(super) accesses: f64,
    /// User and system time of the job per read or write, in nanoseconds.
    pub(super) cpu_ns: f64,
    pub(super) operations: Vec<(MeasuredKind, OperationFigures)>,
    /// Little's law against the count in flight, where the program counts it.
    pub(super) deviation: Option<f64>,
    /// The options that the program could not honour.
    pub(super) fallbacks: Vec<String>,
}

impl MeasuredTrial {
    /// The results for one kind.
    pub(super) fn operation(&self, kind: MeasuredKind) -> Option<&OperationFigures> {
        self.operations.iter().find(|(found, _)| *found == kind).map(|(_, operation)| operation)
    }
}
