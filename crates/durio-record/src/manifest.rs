//! What a run folder says about itself.

use serde::{Deserialize, Serialize};

/// Schema, identity and command of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`crate::RUN_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    /// The run's name.
    pub run: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are no text are replaced.
    pub command: Vec<String>,
}
