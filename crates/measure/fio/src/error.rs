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
    /// The file cannot be opened or read.
    #[error("cannot read '{}'", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// There is nothing to read.
    #[error("empty: fio wrote nothing; run it again with --output-format=json+")]
    Empty,
    /// There is JSON, but no result of fio.
    #[error("line {line}: JSON, but not a fio result: 'fio version' and 'jobs' are missing")]
    NotFio {
        /// Where the document begins, from 1.
        line: u64,
    },
    /// fio was not found.
    #[error("fio is not installed: {place}; install it (Debian: apt install fio) or give its path")]
    NotInstalled {
        /// Where it was looked for.
        place: String,
    },
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
    /// fio was stopped before it had a result.
    #[error("stopped before fio had a result")]
    Stopped,
    /// Any other fault: its place, the problem, and what to do.
    #[error("{0}")]
    Other(String),
}

impl FioError {
    /// A fault at a line of a job file or a word of a command line.
    pub(crate) fn job_file(at: &SourcePosition, what: impl Into<String>) -> Self {
        let what: String = what.into();
        Self::Other(format!("{at}: {what}"))
    }
}
