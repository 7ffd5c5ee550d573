//! The command line of this process, for records, and its program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use durio_plan::RawPath;

use crate::CommandError;

static COMMAND_LINE: OnceLock<Vec<OsString>> = OnceLock::new();

/// The command line; bytes that are not UTF-8 are replaced.
pub fn command_line() -> Vec<String> {
    let words = COMMAND_LINE.get().cloned();
    let words = words.unwrap_or_else(|| std::env::args_os().collect());
    words.into_iter().map(|word| RawPath::from(word).to_string()).collect()
}

/// Sets the command line for records, if it is not the process's: a user's file may have added
/// words.
pub fn set_command_line(words: &[OsString]) {
    // Only the first counts, and there is but one.
    let _ = COMMAND_LINE.set(words.to_vec());
}

/// The program that runs, for a guest or another process: a durio in PATH may be another version.
///
/// # Errors
/// If the system does not tell.
pub fn own_program() -> Result<PathBuf, CommandError> {
    std::env::current_exe()
        .map_err(|error| CommandError::io("find durio's own program,", Path::new("durio"), error))
}
