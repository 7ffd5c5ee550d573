//! The one error of this crate.
//!
//! Each error names the place and says what to do; text that fio itself printed is passed on as it
//! is.

use std::io;
use std::path::PathBuf;

use crate::job_file::SourcePosition;

/// A fio result that cannot be read, or a fio that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// A job file or command line that cannot be read.
    #[error("{at}: {what}")]
    JobFile {
        /// The line, or the word of the command line.
        at: SourcePosition,
        /// The fault there and what to do.
        what: String,
    },
    /// The file cannot be opened or read.
    #[error("cannot read '{}'", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// There are more bytes than are read.
    #[error("more than {max} bytes: too large for a result of fio that durio reads")]
    TooLarge {
        /// The limit in bytes.
        max: u64,
    },
    /// There is nothing to read.
    #[error("empty: fio wrote nothing; run it again with --output-format=json+")]
    Empty,
    /// No JSON document begins anywhere.
    #[error("no JSON: the file begins with '{first_line}'; run fio with --output-format=json+")]
    NotJson {
        /// The first line that is not blank, shortened.
        first_line: String,
    },
    /// There is JSON, but no result of fio.
    #[error("line {line}: JSON, but not a result of fio: 'fio version' and 'jobs' are missing")]
    NotFio {
        /// Where the document begins, from 1.
        line: u64,
    },
    /// The only result in the file ends too early.
    #[error(
        "line {line}: truncated inside {inside}: fio was killed or is still writing; repeat the \
         run"
    )]
    CutOff {
        /// The last line, from 1.
        line: u64,
        /// The keys around the end, outermost first, as `jobs.write.clat_ns`.
        inside: String,
    },
    /// A value that fio cannot accept.
    #[error("line {line}: {inside}: {what}")]
    Malformed {
        /// Line of the file, from 1.
        line: u64,
        /// The keys around the place, outermost first.
        inside: String,
        what: String,
    },
    /// Written by a fio that counted in microseconds.
    #[error("written by {version}; durio reads results of fio 3.0 and later")]
    TooOldResult {
        /// As fio names itself.
        version: String,
    },
    /// A latency that is not the middle of a bucket of fio's histogram.
    #[error("{value_ns} ns is not the middle of a bucket of fio's histogram")]
    NotABucket { value_ns: u64 },
    /// Saved bins that no histogram has.
    #[error("bins of fio's histogram: {what}")]
    Bins {
        /// The fault and what to do.
        what: String,
    },
    /// fio was not found.
    #[error("fio is not installed: {place}; install it (Debian: apt install fio) or give its path")]
    NotInstalled {
        /// Where it was looked for.
        place: String,
    },
    /// The program at the path does not answer as fio does.
    #[error("'{}' is not fio: it answers --version with '{answer}'", path.display())]
    NotFioProgram {
        /// The program that was asked.
        path: PathBuf,
        /// The first line of its answer.
        answer: String,
    },
    /// The installed fio is too old for durio.
    #[error("'{}' is {version}; {needed} or later is needed", path.display())]
    TooOldProgram {
        /// The program that was asked.
        path: PathBuf,
        /// As fio names itself.
        version: String,
        /// The oldest that will do.
        needed: String,
    },
    /// A job that cannot be put on fio's command line.
    #[error("fio job '{job}': {what}")]
    Command { job: String, what: String },
    /// A load that fio cannot do as it is meant.
    #[error("fio cannot do this: {what}")]
    NotInFio {
        /// The problem, its cause, and what to do.
        what: String,
    },
    /// Starting fio or waiting for it failed.
    #[error("cannot {operation} fio")]
    Process {
        /// The operation that failed.
        operation: &'static str,
        source: io::Error,
    },
    /// fio ended with an error.
    #[error("fio failed ({status}): {message}")]
    Failed { status: String, message: String },
    /// fio ended well without a result.
    #[error("fio exited with success but wrote no result")]
    NoResult,
    /// fio was stopped before it had a result.
    #[error("stopped before fio had a result")]
    Stopped,
}

impl FioError {
    pub(crate) fn job_file(at: &SourcePosition, what: impl Into<String>) -> Self {
        Self::JobFile { at: at.clone(), what: what.into() }
    }
}
