//! Why something of fio's could not be read.

use crate::job_file::Place;

/// What is wrong, where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FioError {
    /// A job file or command line that cannot be read.
    #[error("{at}: {what}")]
    JobFile {
        /// The line, or the word of the command line.
        at: Place,
        /// What is wrong there and what to do.
        what: String,
    },
}

impl FioError {
    pub(crate) fn job_file(at: &Place, what: impl Into<String>) -> Self {
        Self::JobFile { at: at.clone(), what: what.into() }
    }
}
